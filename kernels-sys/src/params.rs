//! Parameter blocks of the kernels, generated from `csrc/include/lightning/params.h` by `cargo xtask bindgen`.
//! Device addresses are `u64`; 0 stands for an absent buffer where a field says that it may be absent.

// Shapes such as [h] are not links.
#![allow(rustdoc::broken_intra_doc_links)]

#[doc = " x' = act(x + b),  y = act(w x' rstd),  rstd = (mean_h x'^2 + eps)^(-1/2)"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct RmsNormFwdParams {
    #[doc = " [t, h] act: residual stream"]
    pub x: u64,
    #[doc = " [t, h] act: output of the branch before, not yet added; may be absent (x' = x)"]
    pub b: u64,
    #[doc = " [t, h] act, overwritten: x'; may be x itself; may be absent"]
    pub x_out: u64,
    #[doc = " [t, h] act, overwritten"]
    pub y: u64,
    #[doc = " [h] act"]
    pub w: u64,
    #[doc = " [t] f32, overwritten; may be absent"]
    pub rstd: u64,
    #[doc = " elements from one row of x to the next"]
    pub x_stride: i64,
    #[doc = " of b"]
    pub b_stride: i64,
    #[doc = " of x_out"]
    pub x_out_stride: i64,
    #[doc = " of y"]
    pub y_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " hidden, at least 1"]
    pub h: i32,
    #[doc = " added to the mean square"]
    pub eps: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RmsNormFwdParams"][::core::mem::size_of::<RmsNormFwdParams>() - 96usize];
    ["Alignment of RmsNormFwdParams"][::core::mem::align_of::<RmsNormFwdParams>() - 8usize];
    ["Offset of field: RmsNormFwdParams::x"][::core::mem::offset_of!(RmsNormFwdParams, x) - 0usize];
    ["Offset of field: RmsNormFwdParams::b"][::core::mem::offset_of!(RmsNormFwdParams, b) - 8usize];
    ["Offset of field: RmsNormFwdParams::x_out"][::core::mem::offset_of!(RmsNormFwdParams, x_out) - 16usize];
    ["Offset of field: RmsNormFwdParams::y"][::core::mem::offset_of!(RmsNormFwdParams, y) - 24usize];
    ["Offset of field: RmsNormFwdParams::w"][::core::mem::offset_of!(RmsNormFwdParams, w) - 32usize];
    ["Offset of field: RmsNormFwdParams::rstd"][::core::mem::offset_of!(RmsNormFwdParams, rstd) - 40usize];
    ["Offset of field: RmsNormFwdParams::x_stride"][::core::mem::offset_of!(RmsNormFwdParams, x_stride) - 48usize];
    ["Offset of field: RmsNormFwdParams::b_stride"][::core::mem::offset_of!(RmsNormFwdParams, b_stride) - 56usize];
    ["Offset of field: RmsNormFwdParams::x_out_stride"]
        [::core::mem::offset_of!(RmsNormFwdParams, x_out_stride) - 64usize];
    ["Offset of field: RmsNormFwdParams::y_stride"][::core::mem::offset_of!(RmsNormFwdParams, y_stride) - 72usize];
    ["Offset of field: RmsNormFwdParams::t"][::core::mem::offset_of!(RmsNormFwdParams, t) - 80usize];
    ["Offset of field: RmsNormFwdParams::h"][::core::mem::offset_of!(RmsNormFwdParams, h) - 88usize];
    ["Offset of field: RmsNormFwdParams::eps"][::core::mem::offset_of!(RmsNormFwdParams, eps) - 92usize];
};
#[doc = " g = dy w,  dx = rstd (g - x' rstd^2 mean_h(g x')),  dw_partial[i] = sum over token block i of dy x' rstd"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct RmsNormBwdParams {
    #[doc = " [t, h] act"]
    pub dy: u64,
    #[doc = " [t, h] act: x' of the forward pass"]
    pub x: u64,
    #[doc = " [h] act"]
    pub w: u64,
    #[doc = " [t] f32 of the forward pass"]
    pub rstd: u64,
    #[doc = " [t, h] act, added to or overwritten, see accumulate"]
    pub d_res: u64,
    #[doc = " [ceil(t / block_tokens), h] f32, overwritten"]
    pub dw_partial: u64,
    #[doc = " elements from one row of dy to the next"]
    pub dy_stride: i64,
    #[doc = " of x"]
    pub x_stride: i64,
    #[doc = " of d_res"]
    pub d_res_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " hidden, at least 1"]
    pub h: i32,
    #[doc = " tokens of one block, at least 1; decides the order of the sum, hence the bits"]
    pub block_tokens: i32,
    #[doc = " 1: d_res += dx, the residual stream passes by the norm; 0: d_res = dx"]
    pub accumulate: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RmsNormBwdParams"][::core::mem::size_of::<RmsNormBwdParams>() - 96usize];
    ["Alignment of RmsNormBwdParams"][::core::mem::align_of::<RmsNormBwdParams>() - 8usize];
    ["Offset of field: RmsNormBwdParams::dy"][::core::mem::offset_of!(RmsNormBwdParams, dy) - 0usize];
    ["Offset of field: RmsNormBwdParams::x"][::core::mem::offset_of!(RmsNormBwdParams, x) - 8usize];
    ["Offset of field: RmsNormBwdParams::w"][::core::mem::offset_of!(RmsNormBwdParams, w) - 16usize];
    ["Offset of field: RmsNormBwdParams::rstd"][::core::mem::offset_of!(RmsNormBwdParams, rstd) - 24usize];
    ["Offset of field: RmsNormBwdParams::d_res"][::core::mem::offset_of!(RmsNormBwdParams, d_res) - 32usize];
    ["Offset of field: RmsNormBwdParams::dw_partial"][::core::mem::offset_of!(RmsNormBwdParams, dw_partial) - 40usize];
    ["Offset of field: RmsNormBwdParams::dy_stride"][::core::mem::offset_of!(RmsNormBwdParams, dy_stride) - 48usize];
    ["Offset of field: RmsNormBwdParams::x_stride"][::core::mem::offset_of!(RmsNormBwdParams, x_stride) - 56usize];
    ["Offset of field: RmsNormBwdParams::d_res_stride"]
        [::core::mem::offset_of!(RmsNormBwdParams, d_res_stride) - 64usize];
    ["Offset of field: RmsNormBwdParams::t"][::core::mem::offset_of!(RmsNormBwdParams, t) - 72usize];
    ["Offset of field: RmsNormBwdParams::h"][::core::mem::offset_of!(RmsNormBwdParams, h) - 80usize];
    ["Offset of field: RmsNormBwdParams::block_tokens"]
        [::core::mem::offset_of!(RmsNormBwdParams, block_tokens) - 84usize];
    ["Offset of field: RmsNormBwdParams::accumulate"][::core::mem::offset_of!(RmsNormBwdParams, accumulate) - 88usize];
    ["Offset of field: RmsNormBwdParams::reserved"][::core::mem::offset_of!(RmsNormBwdParams, reserved) - 92usize];
};
#[doc = " dw (+)= sum_i dw_partial[i], in a fixed order"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct RmsNormBwdDwParams {
    #[doc = " [blocks, h] f32"]
    pub dw_partial: u64,
    #[doc = " [h] f32, added to or overwritten, see accumulate"]
    pub dw: u64,
    #[doc = " token blocks, may be 0"]
    pub blocks: i64,
    #[doc = " hidden, at least 1"]
    pub h: i32,
    #[doc = " 0: dw = sum; 1: dw += sum"]
    pub accumulate: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RmsNormBwdDwParams"][::core::mem::size_of::<RmsNormBwdDwParams>() - 32usize];
    ["Alignment of RmsNormBwdDwParams"][::core::mem::align_of::<RmsNormBwdDwParams>() - 8usize];
    ["Offset of field: RmsNormBwdDwParams::dw_partial"]
        [::core::mem::offset_of!(RmsNormBwdDwParams, dw_partial) - 0usize];
    ["Offset of field: RmsNormBwdDwParams::dw"][::core::mem::offset_of!(RmsNormBwdDwParams, dw) - 8usize];
    ["Offset of field: RmsNormBwdDwParams::blocks"][::core::mem::offset_of!(RmsNormBwdDwParams, blocks) - 16usize];
    ["Offset of field: RmsNormBwdDwParams::h"][::core::mem::offset_of!(RmsNormBwdDwParams, h) - 24usize];
    ["Offset of field: RmsNormBwdDwParams::accumulate"]
        [::core::mem::offset_of!(RmsNormBwdDwParams, accumulate) - 28usize];
};
#[doc = " xs_s = x_t for the pair (t, j) in slot s"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct ExpertsGatherParams {
    #[doc = " [t, d] act"]
    pub x: u64,
    #[doc = " [slots, d] act, overwritten where a slot is used"]
    pub xs: u64,
    #[doc = " [slots]: t k + j"]
    pub pair_of_slot: u64,
    #[doc = " [experts + 1]: first slot of every expert, then the end of the last"]
    pub offsets: u64,
    #[doc = " elements from one row of x to the next"]
    pub x_stride: i64,
    #[doc = " of xs"]
    pub xs_stride: i64,
    #[doc = " columns"]
    pub d: i32,
    #[doc = " experts per token, at least 1"]
    pub k: i32,
    #[doc = " at least 1"]
    pub experts: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ExpertsGatherParams"][::core::mem::size_of::<ExpertsGatherParams>() - 64usize];
    ["Alignment of ExpertsGatherParams"][::core::mem::align_of::<ExpertsGatherParams>() - 8usize];
    ["Offset of field: ExpertsGatherParams::x"][::core::mem::offset_of!(ExpertsGatherParams, x) - 0usize];
    ["Offset of field: ExpertsGatherParams::xs"][::core::mem::offset_of!(ExpertsGatherParams, xs) - 8usize];
    ["Offset of field: ExpertsGatherParams::pair_of_slot"]
        [::core::mem::offset_of!(ExpertsGatherParams, pair_of_slot) - 16usize];
    ["Offset of field: ExpertsGatherParams::offsets"][::core::mem::offset_of!(ExpertsGatherParams, offsets) - 24usize];
    ["Offset of field: ExpertsGatherParams::x_stride"]
        [::core::mem::offset_of!(ExpertsGatherParams, x_stride) - 32usize];
    ["Offset of field: ExpertsGatherParams::xs_stride"]
        [::core::mem::offset_of!(ExpertsGatherParams, xs_stride) - 40usize];
    ["Offset of field: ExpertsGatherParams::d"][::core::mem::offset_of!(ExpertsGatherParams, d) - 48usize];
    ["Offset of field: ExpertsGatherParams::k"][::core::mem::offset_of!(ExpertsGatherParams, k) - 52usize];
    ["Offset of field: ExpertsGatherParams::experts"][::core::mem::offset_of!(ExpertsGatherParams, experts) - 56usize];
    ["Offset of field: ExpertsGatherParams::reserved"]
        [::core::mem::offset_of!(ExpertsGatherParams, reserved) - 60usize];
};
#[doc = " c_s = a_s b_e^T (form NT, b_e [n, depth]) or a_s b_e (form NN, b_e [depth, n]) for the slots s of every expert e;\n activated_s = act(weight max(c_s, 0)^2)"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct ExpertsProductParams {
    #[doc = " [slots, depth] act"]
    pub a: u64,
    #[doc = " weights of all experts, one below the other"]
    pub b: u64,
    #[doc = " [slots, n] act, overwritten where a slot is used"]
    pub c: u64,
    #[doc = " [slots, n] act, likewise; may be absent"]
    pub activated: u64,
    #[doc = " [pairs]; absent with activated"]
    pub weight: u64,
    #[doc = " [experts + 1]"]
    pub offsets: u64,
    #[doc = " [slots]; absent with activated"]
    pub pair_of_slot: u64,
    #[doc = " elements from one row of a to the next"]
    pub a_stride: i64,
    #[doc = " of b"]
    pub b_stride: i64,
    #[doc = " of c"]
    pub c_stride: i64,
    #[doc = " of activated"]
    pub activated_stride: i64,
    #[doc = " columns of c"]
    pub n: i32,
    #[doc = " inner length"]
    pub depth: i32,
    #[doc = " at least 1"]
    pub experts: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ExpertsProductParams"][::core::mem::size_of::<ExpertsProductParams>() - 104usize];
    ["Alignment of ExpertsProductParams"][::core::mem::align_of::<ExpertsProductParams>() - 8usize];
    ["Offset of field: ExpertsProductParams::a"][::core::mem::offset_of!(ExpertsProductParams, a) - 0usize];
    ["Offset of field: ExpertsProductParams::b"][::core::mem::offset_of!(ExpertsProductParams, b) - 8usize];
    ["Offset of field: ExpertsProductParams::c"][::core::mem::offset_of!(ExpertsProductParams, c) - 16usize];
    ["Offset of field: ExpertsProductParams::activated"]
        [::core::mem::offset_of!(ExpertsProductParams, activated) - 24usize];
    ["Offset of field: ExpertsProductParams::weight"][::core::mem::offset_of!(ExpertsProductParams, weight) - 32usize];
    ["Offset of field: ExpertsProductParams::offsets"]
        [::core::mem::offset_of!(ExpertsProductParams, offsets) - 40usize];
    ["Offset of field: ExpertsProductParams::pair_of_slot"]
        [::core::mem::offset_of!(ExpertsProductParams, pair_of_slot) - 48usize];
    ["Offset of field: ExpertsProductParams::a_stride"]
        [::core::mem::offset_of!(ExpertsProductParams, a_stride) - 56usize];
    ["Offset of field: ExpertsProductParams::b_stride"]
        [::core::mem::offset_of!(ExpertsProductParams, b_stride) - 64usize];
    ["Offset of field: ExpertsProductParams::c_stride"]
        [::core::mem::offset_of!(ExpertsProductParams, c_stride) - 72usize];
    ["Offset of field: ExpertsProductParams::activated_stride"]
        [::core::mem::offset_of!(ExpertsProductParams, activated_stride) - 80usize];
    ["Offset of field: ExpertsProductParams::n"][::core::mem::offset_of!(ExpertsProductParams, n) - 88usize];
    ["Offset of field: ExpertsProductParams::depth"][::core::mem::offset_of!(ExpertsProductParams, depth) - 92usize];
    ["Offset of field: ExpertsProductParams::experts"]
        [::core::mem::offset_of!(ExpertsProductParams, experts) - 96usize];
    ["Offset of field: ExpertsProductParams::reserved"]
        [::core::mem::offset_of!(ExpertsProductParams, reserved) - 100usize];
};
#[doc = " With r = max(p, 0) and the gradient da of the activated slots, which dp holds at the start:\n dweight = sum_f r^2 da,  a = act(w r^2),  dp = act(2 w r da)"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct ExpertsActivationBwdParams {
    #[doc = " [slots, f] act"]
    pub p: u64,
    #[doc = " [slots, f] act: da, overwritten with dp"]
    pub dp: u64,
    #[doc = " [slots, f] act, overwritten"]
    pub a: u64,
    #[doc = " [pairs]"]
    pub weight: u64,
    #[doc = " [pairs], overwritten where a pair has a slot"]
    pub dweight: u64,
    #[doc = " [experts + 1]"]
    pub offsets: u64,
    #[doc = " [slots]"]
    pub pair_of_slot: u64,
    #[doc = " elements from one row of p to the next"]
    pub p_stride: i64,
    #[doc = " of dp"]
    pub dp_stride: i64,
    #[doc = " of a"]
    pub a_stride: i64,
    #[doc = " expert width"]
    pub f: i32,
    #[doc = " at least 1"]
    pub experts: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ExpertsActivationBwdParams"][::core::mem::size_of::<ExpertsActivationBwdParams>() - 88usize];
    ["Alignment of ExpertsActivationBwdParams"][::core::mem::align_of::<ExpertsActivationBwdParams>() - 8usize];
    ["Offset of field: ExpertsActivationBwdParams::p"][::core::mem::offset_of!(ExpertsActivationBwdParams, p) - 0usize];
    ["Offset of field: ExpertsActivationBwdParams::dp"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, dp) - 8usize];
    ["Offset of field: ExpertsActivationBwdParams::a"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, a) - 16usize];
    ["Offset of field: ExpertsActivationBwdParams::weight"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, weight) - 24usize];
    ["Offset of field: ExpertsActivationBwdParams::dweight"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, dweight) - 32usize];
    ["Offset of field: ExpertsActivationBwdParams::offsets"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, offsets) - 40usize];
    ["Offset of field: ExpertsActivationBwdParams::pair_of_slot"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, pair_of_slot) - 48usize];
    ["Offset of field: ExpertsActivationBwdParams::p_stride"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, p_stride) - 56usize];
    ["Offset of field: ExpertsActivationBwdParams::dp_stride"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, dp_stride) - 64usize];
    ["Offset of field: ExpertsActivationBwdParams::a_stride"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, a_stride) - 72usize];
    ["Offset of field: ExpertsActivationBwdParams::f"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, f) - 80usize];
    ["Offset of field: ExpertsActivationBwdParams::experts"]
        [::core::mem::offset_of!(ExpertsActivationBwdParams, experts) - 84usize];
};
#[doc = " dw_e (+)= dy^T x over the slots of every expert"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct ExpertsWeightBwdParams {
    #[doc = " [slots, m] act"]
    pub dy: u64,
    #[doc = " [slots, n] act"]
    pub x: u64,
    #[doc = " [experts m, n] f32 or bf16, see dw_f32, overwritten or added to, see accumulate"]
    pub dw: u64,
    #[doc = " [experts + 1]"]
    pub offsets: u64,
    #[doc = " elements from one row of dy to the next"]
    pub dy_stride: i64,
    #[doc = " of x"]
    pub x_stride: i64,
    #[doc = " of dw"]
    pub dw_stride: i64,
    #[doc = " rows of the gradient of one expert"]
    pub m: i32,
    #[doc = " columns"]
    pub n: i32,
    #[doc = " 0: dw = sum; 1: dw = dw + sum, rounded once"]
    pub accumulate: i32,
    #[doc = " 1: dw is f32; 0: dw is bf16"]
    pub dw_f32: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ExpertsWeightBwdParams"][::core::mem::size_of::<ExpertsWeightBwdParams>() - 72usize];
    ["Alignment of ExpertsWeightBwdParams"][::core::mem::align_of::<ExpertsWeightBwdParams>() - 8usize];
    ["Offset of field: ExpertsWeightBwdParams::dy"][::core::mem::offset_of!(ExpertsWeightBwdParams, dy) - 0usize];
    ["Offset of field: ExpertsWeightBwdParams::x"][::core::mem::offset_of!(ExpertsWeightBwdParams, x) - 8usize];
    ["Offset of field: ExpertsWeightBwdParams::dw"][::core::mem::offset_of!(ExpertsWeightBwdParams, dw) - 16usize];
    ["Offset of field: ExpertsWeightBwdParams::offsets"]
        [::core::mem::offset_of!(ExpertsWeightBwdParams, offsets) - 24usize];
    ["Offset of field: ExpertsWeightBwdParams::dy_stride"]
        [::core::mem::offset_of!(ExpertsWeightBwdParams, dy_stride) - 32usize];
    ["Offset of field: ExpertsWeightBwdParams::x_stride"]
        [::core::mem::offset_of!(ExpertsWeightBwdParams, x_stride) - 40usize];
    ["Offset of field: ExpertsWeightBwdParams::dw_stride"]
        [::core::mem::offset_of!(ExpertsWeightBwdParams, dw_stride) - 48usize];
    ["Offset of field: ExpertsWeightBwdParams::m"][::core::mem::offset_of!(ExpertsWeightBwdParams, m) - 56usize];
    ["Offset of field: ExpertsWeightBwdParams::n"][::core::mem::offset_of!(ExpertsWeightBwdParams, n) - 60usize];
    ["Offset of field: ExpertsWeightBwdParams::accumulate"]
        [::core::mem::offset_of!(ExpertsWeightBwdParams, accumulate) - 64usize];
    ["Offset of field: ExpertsWeightBwdParams::dw_f32"]
        [::core::mem::offset_of!(ExpertsWeightBwdParams, dw_f32) - 68usize];
};
