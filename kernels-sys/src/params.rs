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
#[doc = " u = y silu(z),  rstd = (mean_{c in g} u^2 + eps)^(-1/2),  o = act(w u rstd)"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct GatedRmsNormFwdParams {
    #[doc = " [t, c] act: output of the scan"]
    pub y: u64,
    #[doc = " [t, c] act: gate"]
    pub z: u64,
    #[doc = " [c] act"]
    pub w: u64,
    #[doc = " [t, c] act, overwritten"]
    pub o: u64,
    #[doc = " [t, g] f32, overwritten"]
    pub rstd: u64,
    #[doc = " elements from one row of y to the next"]
    pub y_stride: i64,
    #[doc = " of z"]
    pub z_stride: i64,
    #[doc = " of o"]
    pub o_stride: i64,
    #[doc = " of rstd"]
    pub rstd_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " g, at least 1"]
    pub groups: i32,
    #[doc = " channels of a group, c / g, at least 1"]
    pub width: i32,
    #[doc = " added to the mean square"]
    pub eps: f32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of GatedRmsNormFwdParams"][::core::mem::size_of::<GatedRmsNormFwdParams>() - 96usize];
    ["Alignment of GatedRmsNormFwdParams"][::core::mem::align_of::<GatedRmsNormFwdParams>() - 8usize];
    ["Offset of field: GatedRmsNormFwdParams::y"][::core::mem::offset_of!(GatedRmsNormFwdParams, y) - 0usize];
    ["Offset of field: GatedRmsNormFwdParams::z"][::core::mem::offset_of!(GatedRmsNormFwdParams, z) - 8usize];
    ["Offset of field: GatedRmsNormFwdParams::w"][::core::mem::offset_of!(GatedRmsNormFwdParams, w) - 16usize];
    ["Offset of field: GatedRmsNormFwdParams::o"][::core::mem::offset_of!(GatedRmsNormFwdParams, o) - 24usize];
    ["Offset of field: GatedRmsNormFwdParams::rstd"][::core::mem::offset_of!(GatedRmsNormFwdParams, rstd) - 32usize];
    ["Offset of field: GatedRmsNormFwdParams::y_stride"]
        [::core::mem::offset_of!(GatedRmsNormFwdParams, y_stride) - 40usize];
    ["Offset of field: GatedRmsNormFwdParams::z_stride"]
        [::core::mem::offset_of!(GatedRmsNormFwdParams, z_stride) - 48usize];
    ["Offset of field: GatedRmsNormFwdParams::o_stride"]
        [::core::mem::offset_of!(GatedRmsNormFwdParams, o_stride) - 56usize];
    ["Offset of field: GatedRmsNormFwdParams::rstd_stride"]
        [::core::mem::offset_of!(GatedRmsNormFwdParams, rstd_stride) - 64usize];
    ["Offset of field: GatedRmsNormFwdParams::t"][::core::mem::offset_of!(GatedRmsNormFwdParams, t) - 72usize];
    ["Offset of field: GatedRmsNormFwdParams::groups"]
        [::core::mem::offset_of!(GatedRmsNormFwdParams, groups) - 80usize];
    ["Offset of field: GatedRmsNormFwdParams::width"][::core::mem::offset_of!(GatedRmsNormFwdParams, width) - 84usize];
    ["Offset of field: GatedRmsNormFwdParams::eps"][::core::mem::offset_of!(GatedRmsNormFwdParams, eps) - 88usize];
    ["Offset of field: GatedRmsNormFwdParams::reserved"]
        [::core::mem::offset_of!(GatedRmsNormFwdParams, reserved) - 92usize];
};
#[doc = " g = do w,  du = rstd (g - u rstd^2 mean_{c in g}(g u)),  dy = act(du silu(z)),  dz = act(du y silu'(z)),\n dw_partial[i] = sum over token block i of do u rstd"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct GatedRmsNormBwdParams {
    #[doc = " [t, c] act: gradient of o"]
    pub dout: u64,
    #[doc = " [t, c] act, of the forward pass"]
    pub y: u64,
    #[doc = " [t, c] act, of the forward pass"]
    pub z: u64,
    #[doc = " [c] act"]
    pub w: u64,
    #[doc = " [t, g] f32 of the forward pass"]
    pub rstd: u64,
    #[doc = " [t, c] act, overwritten"]
    pub dy: u64,
    #[doc = " [t, c] act, overwritten"]
    pub dz: u64,
    #[doc = " [ceil(t / 64), c] f32, overwritten"]
    pub dw_partial: u64,
    #[doc = " elements from one row of dout to the next"]
    pub dout_stride: i64,
    #[doc = " of y"]
    pub y_stride: i64,
    #[doc = " of z"]
    pub z_stride: i64,
    #[doc = " of rstd"]
    pub rstd_stride: i64,
    #[doc = " of dy"]
    pub dy_stride: i64,
    #[doc = " of dz"]
    pub dz_stride: i64,
    #[doc = " of dw_partial"]
    pub partial_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " g, at least 1"]
    pub groups: i32,
    #[doc = " channels of a group, c / g, at least 1"]
    pub width: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of GatedRmsNormBwdParams"][::core::mem::size_of::<GatedRmsNormBwdParams>() - 136usize];
    ["Alignment of GatedRmsNormBwdParams"][::core::mem::align_of::<GatedRmsNormBwdParams>() - 8usize];
    ["Offset of field: GatedRmsNormBwdParams::dout"][::core::mem::offset_of!(GatedRmsNormBwdParams, dout) - 0usize];
    ["Offset of field: GatedRmsNormBwdParams::y"][::core::mem::offset_of!(GatedRmsNormBwdParams, y) - 8usize];
    ["Offset of field: GatedRmsNormBwdParams::z"][::core::mem::offset_of!(GatedRmsNormBwdParams, z) - 16usize];
    ["Offset of field: GatedRmsNormBwdParams::w"][::core::mem::offset_of!(GatedRmsNormBwdParams, w) - 24usize];
    ["Offset of field: GatedRmsNormBwdParams::rstd"][::core::mem::offset_of!(GatedRmsNormBwdParams, rstd) - 32usize];
    ["Offset of field: GatedRmsNormBwdParams::dy"][::core::mem::offset_of!(GatedRmsNormBwdParams, dy) - 40usize];
    ["Offset of field: GatedRmsNormBwdParams::dz"][::core::mem::offset_of!(GatedRmsNormBwdParams, dz) - 48usize];
    ["Offset of field: GatedRmsNormBwdParams::dw_partial"]
        [::core::mem::offset_of!(GatedRmsNormBwdParams, dw_partial) - 56usize];
    ["Offset of field: GatedRmsNormBwdParams::dout_stride"]
        [::core::mem::offset_of!(GatedRmsNormBwdParams, dout_stride) - 64usize];
    ["Offset of field: GatedRmsNormBwdParams::y_stride"]
        [::core::mem::offset_of!(GatedRmsNormBwdParams, y_stride) - 72usize];
    ["Offset of field: GatedRmsNormBwdParams::z_stride"]
        [::core::mem::offset_of!(GatedRmsNormBwdParams, z_stride) - 80usize];
    ["Offset of field: GatedRmsNormBwdParams::rstd_stride"]
        [::core::mem::offset_of!(GatedRmsNormBwdParams, rstd_stride) - 88usize];
    ["Offset of field: GatedRmsNormBwdParams::dy_stride"]
        [::core::mem::offset_of!(GatedRmsNormBwdParams, dy_stride) - 96usize];
    ["Offset of field: GatedRmsNormBwdParams::dz_stride"]
        [::core::mem::offset_of!(GatedRmsNormBwdParams, dz_stride) - 104usize];
    ["Offset of field: GatedRmsNormBwdParams::partial_stride"]
        [::core::mem::offset_of!(GatedRmsNormBwdParams, partial_stride) - 112usize];
    ["Offset of field: GatedRmsNormBwdParams::t"][::core::mem::offset_of!(GatedRmsNormBwdParams, t) - 120usize];
    ["Offset of field: GatedRmsNormBwdParams::groups"]
        [::core::mem::offset_of!(GatedRmsNormBwdParams, groups) - 128usize];
    ["Offset of field: GatedRmsNormBwdParams::width"][::core::mem::offset_of!(GatedRmsNormBwdParams, width) - 132usize];
};
#[doc = " p_tc = b_c + sum_k w_ck x_{t-K+1+k, c} over the taps of t's document,  y = act(p sigmoid(p))"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct ConvSiluFwdParams {
    #[doc = " [t, c] act: columns of the in_proj output"]
    pub x: u64,
    #[doc = " [c, K] act; w_c,K-1 meets the current token"]
    pub w: u64,
    #[doc = " [c] act"]
    pub b: u64,
    #[doc = " [t] i32: first token of each token's document"]
    pub start: u64,
    #[doc = " [t, c] act, overwritten"]
    pub y: u64,
    #[doc = " elements from one row of x to the next"]
    pub x_stride: i64,
    #[doc = " of w"]
    pub w_stride: i64,
    #[doc = " of y"]
    pub y_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " channels, at least 1"]
    pub c: i64,
    #[doc = " K, at least 1"]
    pub taps: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ConvSiluFwdParams"][::core::mem::size_of::<ConvSiluFwdParams>() - 88usize];
    ["Alignment of ConvSiluFwdParams"][::core::mem::align_of::<ConvSiluFwdParams>() - 8usize];
    ["Offset of field: ConvSiluFwdParams::x"][::core::mem::offset_of!(ConvSiluFwdParams, x) - 0usize];
    ["Offset of field: ConvSiluFwdParams::w"][::core::mem::offset_of!(ConvSiluFwdParams, w) - 8usize];
    ["Offset of field: ConvSiluFwdParams::b"][::core::mem::offset_of!(ConvSiluFwdParams, b) - 16usize];
    ["Offset of field: ConvSiluFwdParams::start"][::core::mem::offset_of!(ConvSiluFwdParams, start) - 24usize];
    ["Offset of field: ConvSiluFwdParams::y"][::core::mem::offset_of!(ConvSiluFwdParams, y) - 32usize];
    ["Offset of field: ConvSiluFwdParams::x_stride"][::core::mem::offset_of!(ConvSiluFwdParams, x_stride) - 40usize];
    ["Offset of field: ConvSiluFwdParams::w_stride"][::core::mem::offset_of!(ConvSiluFwdParams, w_stride) - 48usize];
    ["Offset of field: ConvSiluFwdParams::y_stride"][::core::mem::offset_of!(ConvSiluFwdParams, y_stride) - 56usize];
    ["Offset of field: ConvSiluFwdParams::t"][::core::mem::offset_of!(ConvSiluFwdParams, t) - 64usize];
    ["Offset of field: ConvSiluFwdParams::c"][::core::mem::offset_of!(ConvSiluFwdParams, c) - 72usize];
    ["Offset of field: ConvSiluFwdParams::taps"][::core::mem::offset_of!(ConvSiluFwdParams, taps) - 80usize];
    ["Offset of field: ConvSiluFwdParams::reserved"][::core::mem::offset_of!(ConvSiluFwdParams, reserved) - 84usize];
};
#[doc = " dp = dy s (1 + p (1 - s)), s = sigmoid(p),  dx_sc = act(sum_k w_ck dp_{s+K-1-k, c}) over the same document,\n partial[i]_kc = sum over token block i of dp_tc x_{t-K+1+k, c}, and of dp_tc for k = K"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct ConvSiluBwdParams {
    #[doc = " [t, c] act"]
    pub dy: u64,
    #[doc = " [t, c] act, of the forward pass"]
    pub x: u64,
    #[doc = " [c, K] act"]
    pub w: u64,
    #[doc = " [c] act"]
    pub b: u64,
    #[doc = " [t] i32"]
    pub start: u64,
    #[doc = " [t, c] act, overwritten"]
    pub dx: u64,
    #[doc = " [ceil(t / 128), K + 1, c] f32, overwritten"]
    pub partial: u64,
    #[doc = " elements from one row of dy to the next"]
    pub dy_stride: i64,
    #[doc = " of x"]
    pub x_stride: i64,
    #[doc = " of w"]
    pub w_stride: i64,
    #[doc = " of dx"]
    pub dx_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " channels, at least 1"]
    pub c: i64,
    #[doc = " K, 1 to 8"]
    pub taps: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ConvSiluBwdParams"][::core::mem::size_of::<ConvSiluBwdParams>() - 112usize];
    ["Alignment of ConvSiluBwdParams"][::core::mem::align_of::<ConvSiluBwdParams>() - 8usize];
    ["Offset of field: ConvSiluBwdParams::dy"][::core::mem::offset_of!(ConvSiluBwdParams, dy) - 0usize];
    ["Offset of field: ConvSiluBwdParams::x"][::core::mem::offset_of!(ConvSiluBwdParams, x) - 8usize];
    ["Offset of field: ConvSiluBwdParams::w"][::core::mem::offset_of!(ConvSiluBwdParams, w) - 16usize];
    ["Offset of field: ConvSiluBwdParams::b"][::core::mem::offset_of!(ConvSiluBwdParams, b) - 24usize];
    ["Offset of field: ConvSiluBwdParams::start"][::core::mem::offset_of!(ConvSiluBwdParams, start) - 32usize];
    ["Offset of field: ConvSiluBwdParams::dx"][::core::mem::offset_of!(ConvSiluBwdParams, dx) - 40usize];
    ["Offset of field: ConvSiluBwdParams::partial"][::core::mem::offset_of!(ConvSiluBwdParams, partial) - 48usize];
    ["Offset of field: ConvSiluBwdParams::dy_stride"][::core::mem::offset_of!(ConvSiluBwdParams, dy_stride) - 56usize];
    ["Offset of field: ConvSiluBwdParams::x_stride"][::core::mem::offset_of!(ConvSiluBwdParams, x_stride) - 64usize];
    ["Offset of field: ConvSiluBwdParams::w_stride"][::core::mem::offset_of!(ConvSiluBwdParams, w_stride) - 72usize];
    ["Offset of field: ConvSiluBwdParams::dx_stride"][::core::mem::offset_of!(ConvSiluBwdParams, dx_stride) - 80usize];
    ["Offset of field: ConvSiluBwdParams::t"][::core::mem::offset_of!(ConvSiluBwdParams, t) - 88usize];
    ["Offset of field: ConvSiluBwdParams::c"][::core::mem::offset_of!(ConvSiluBwdParams, c) - 96usize];
    ["Offset of field: ConvSiluBwdParams::taps"][::core::mem::offset_of!(ConvSiluBwdParams, taps) - 104usize];
    ["Offset of field: ConvSiluBwdParams::reserved"][::core::mem::offset_of!(ConvSiluBwdParams, reserved) - 108usize];
};
#[doc = " dw_ck (+)= sum_i partial[i]_kc,  db_c (+)= sum_i partial[i]_Kc"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct ConvSiluBwdDwParams {
    #[doc = " [blocks, K + 1, c] f32"]
    pub partial: u64,
    #[doc = " [c, K] f32 or bf16, added to or overwritten, see accumulate"]
    pub dw: u64,
    #[doc = " [c] of the type of dw, as dw"]
    pub db: u64,
    #[doc = " elements from one row of dw to the next"]
    pub dw_stride: i64,
    #[doc = " token blocks, may be 0"]
    pub blocks: i64,
    #[doc = " channels, at least 1"]
    pub c: i64,
    #[doc = " K, at least 1"]
    pub taps: i32,
    #[doc = " 1: dw and db are bf16; 0: f32"]
    pub out_bf16: i32,
    #[doc = " 0: dw = sum; 1: dw = dw + sum, rounded once"]
    pub accumulate: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ConvSiluBwdDwParams"][::core::mem::size_of::<ConvSiluBwdDwParams>() - 64usize];
    ["Alignment of ConvSiluBwdDwParams"][::core::mem::align_of::<ConvSiluBwdDwParams>() - 8usize];
    ["Offset of field: ConvSiluBwdDwParams::partial"][::core::mem::offset_of!(ConvSiluBwdDwParams, partial) - 0usize];
    ["Offset of field: ConvSiluBwdDwParams::dw"][::core::mem::offset_of!(ConvSiluBwdDwParams, dw) - 8usize];
    ["Offset of field: ConvSiluBwdDwParams::db"][::core::mem::offset_of!(ConvSiluBwdDwParams, db) - 16usize];
    ["Offset of field: ConvSiluBwdDwParams::dw_stride"]
        [::core::mem::offset_of!(ConvSiluBwdDwParams, dw_stride) - 24usize];
    ["Offset of field: ConvSiluBwdDwParams::blocks"][::core::mem::offset_of!(ConvSiluBwdDwParams, blocks) - 32usize];
    ["Offset of field: ConvSiluBwdDwParams::c"][::core::mem::offset_of!(ConvSiluBwdDwParams, c) - 40usize];
    ["Offset of field: ConvSiluBwdDwParams::taps"][::core::mem::offset_of!(ConvSiluBwdDwParams, taps) - 48usize];
    ["Offset of field: ConvSiluBwdDwParams::out_bf16"]
        [::core::mem::offset_of!(ConvSiluBwdDwParams, out_bf16) - 52usize];
    ["Offset of field: ConvSiluBwdDwParams::accumulate"]
        [::core::mem::offset_of!(ConvSiluBwdDwParams, accumulate) - 56usize];
    ["Offset of field: ConvSiluBwdDwParams::reserved"]
        [::core::mem::offset_of!(ConvSiluBwdDwParams, reserved) - 60usize];
};
#[doc = " delta_th = max(softplus(raw_th + bias_h), dt_min)"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct SoftplusDtFwdParams {
    #[doc = " [t, h] act: columns of the in_proj output"]
    pub raw: u64,
    #[doc = " [h] f32"]
    pub bias: u64,
    #[doc = " [t, h] f32, overwritten"]
    pub delta: u64,
    #[doc = " elements from one row of raw to the next"]
    pub raw_stride: i64,
    #[doc = " of delta"]
    pub delta_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " heads, at least 1"]
    pub h: i32,
    #[doc = " lower bound of delta; 0: none"]
    pub dt_min: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SoftplusDtFwdParams"][::core::mem::size_of::<SoftplusDtFwdParams>() - 56usize];
    ["Alignment of SoftplusDtFwdParams"][::core::mem::align_of::<SoftplusDtFwdParams>() - 8usize];
    ["Offset of field: SoftplusDtFwdParams::raw"][::core::mem::offset_of!(SoftplusDtFwdParams, raw) - 0usize];
    ["Offset of field: SoftplusDtFwdParams::bias"][::core::mem::offset_of!(SoftplusDtFwdParams, bias) - 8usize];
    ["Offset of field: SoftplusDtFwdParams::delta"][::core::mem::offset_of!(SoftplusDtFwdParams, delta) - 16usize];
    ["Offset of field: SoftplusDtFwdParams::raw_stride"]
        [::core::mem::offset_of!(SoftplusDtFwdParams, raw_stride) - 24usize];
    ["Offset of field: SoftplusDtFwdParams::delta_stride"]
        [::core::mem::offset_of!(SoftplusDtFwdParams, delta_stride) - 32usize];
    ["Offset of field: SoftplusDtFwdParams::t"][::core::mem::offset_of!(SoftplusDtFwdParams, t) - 40usize];
    ["Offset of field: SoftplusDtFwdParams::h"][::core::mem::offset_of!(SoftplusDtFwdParams, h) - 48usize];
    ["Offset of field: SoftplusDtFwdParams::dt_min"][::core::mem::offset_of!(SoftplusDtFwdParams, dt_min) - 52usize];
};
#[doc = " draw_th = ddelta_th sigmoid(raw_th + bias_h) [delta_th above dt_min],  dbias_partial[i] = sum over token block i of draw_th"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct SoftplusDtBwdParams {
    #[doc = " [t, h] f32"]
    pub ddelta: u64,
    #[doc = " [t, h] act, of the forward pass"]
    pub raw: u64,
    #[doc = " [h] f32"]
    pub bias: u64,
    #[doc = " [t, h] act, overwritten"]
    pub draw: u64,
    #[doc = " [ceil(t / 64), h] f32, overwritten"]
    pub dbias_partial: u64,
    #[doc = " elements from one row of ddelta to the next"]
    pub ddelta_stride: i64,
    #[doc = " of raw"]
    pub raw_stride: i64,
    #[doc = " of draw"]
    pub draw_stride: i64,
    #[doc = " of dbias_partial"]
    pub partial_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " heads, at least 1"]
    pub h: i32,
    #[doc = " of the forward pass"]
    pub dt_min: f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SoftplusDtBwdParams"][::core::mem::size_of::<SoftplusDtBwdParams>() - 88usize];
    ["Alignment of SoftplusDtBwdParams"][::core::mem::align_of::<SoftplusDtBwdParams>() - 8usize];
    ["Offset of field: SoftplusDtBwdParams::ddelta"][::core::mem::offset_of!(SoftplusDtBwdParams, ddelta) - 0usize];
    ["Offset of field: SoftplusDtBwdParams::raw"][::core::mem::offset_of!(SoftplusDtBwdParams, raw) - 8usize];
    ["Offset of field: SoftplusDtBwdParams::bias"][::core::mem::offset_of!(SoftplusDtBwdParams, bias) - 16usize];
    ["Offset of field: SoftplusDtBwdParams::draw"][::core::mem::offset_of!(SoftplusDtBwdParams, draw) - 24usize];
    ["Offset of field: SoftplusDtBwdParams::dbias_partial"]
        [::core::mem::offset_of!(SoftplusDtBwdParams, dbias_partial) - 32usize];
    ["Offset of field: SoftplusDtBwdParams::ddelta_stride"]
        [::core::mem::offset_of!(SoftplusDtBwdParams, ddelta_stride) - 40usize];
    ["Offset of field: SoftplusDtBwdParams::raw_stride"]
        [::core::mem::offset_of!(SoftplusDtBwdParams, raw_stride) - 48usize];
    ["Offset of field: SoftplusDtBwdParams::draw_stride"]
        [::core::mem::offset_of!(SoftplusDtBwdParams, draw_stride) - 56usize];
    ["Offset of field: SoftplusDtBwdParams::partial_stride"]
        [::core::mem::offset_of!(SoftplusDtBwdParams, partial_stride) - 64usize];
    ["Offset of field: SoftplusDtBwdParams::t"][::core::mem::offset_of!(SoftplusDtBwdParams, t) - 72usize];
    ["Offset of field: SoftplusDtBwdParams::h"][::core::mem::offset_of!(SoftplusDtBwdParams, h) - 80usize];
    ["Offset of field: SoftplusDtBwdParams::dt_min"][::core::mem::offset_of!(SoftplusDtBwdParams, dt_min) - 84usize];
};
#[doc = " out_c (+)= sum_i partial_ic"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct SumPartialsParams {
    #[doc = " [blocks, columns] f32"]
    pub partial: u64,
    #[doc = " [columns] f32 or bf16, added to or overwritten, see accumulate"]
    pub out: u64,
    #[doc = " elements from one row of partial to the next"]
    pub partial_stride: i64,
    #[doc = " rows of partial, may be 0"]
    pub blocks: i64,
    #[doc = " at least 1"]
    pub columns: i64,
    #[doc = " 1: out is bf16; 0: f32"]
    pub out_bf16: i32,
    #[doc = " 0: out = sum; 1: out = out + sum, rounded once"]
    pub accumulate: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SumPartialsParams"][::core::mem::size_of::<SumPartialsParams>() - 48usize];
    ["Alignment of SumPartialsParams"][::core::mem::align_of::<SumPartialsParams>() - 8usize];
    ["Offset of field: SumPartialsParams::partial"][::core::mem::offset_of!(SumPartialsParams, partial) - 0usize];
    ["Offset of field: SumPartialsParams::out"][::core::mem::offset_of!(SumPartialsParams, out) - 8usize];
    ["Offset of field: SumPartialsParams::partial_stride"]
        [::core::mem::offset_of!(SumPartialsParams, partial_stride) - 16usize];
    ["Offset of field: SumPartialsParams::blocks"][::core::mem::offset_of!(SumPartialsParams, blocks) - 24usize];
    ["Offset of field: SumPartialsParams::columns"][::core::mem::offset_of!(SumPartialsParams, columns) - 32usize];
    ["Offset of field: SumPartialsParams::out_bf16"][::core::mem::offset_of!(SumPartialsParams, out_bf16) - 40usize];
    ["Offset of field: SumPartialsParams::accumulate"]
        [::core::mem::offset_of!(SumPartialsParams, accumulate) - 44usize];
};
#[doc = " S_t = e^{delta_t a} S_{t-1} + delta_t x_t (x) B_t,  y_t = act(S_t C_t + D x_t),  a = -exp(A_log); S starts from 0 at every\n document. All kernels of the forward pass take this block."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct SsdScanFwdParams {
    #[doc = " [t, h p] act"]
    pub x: u64,
    #[doc = " [t, g n] act"]
    pub b: u64,
    #[doc = " [t, g n] act"]
    pub c: u64,
    #[doc = " [t, h] f32: time steps after softplus"]
    pub delta: u64,
    #[doc = " [h] f32"]
    pub a_log: u64,
    #[doc = " [h] f32"]
    pub d: u64,
    #[doc = " [t] i32: first token of each token's document"]
    pub start: u64,
    #[doc = " [rows, h p n] f32: S before the first token of a row; may be absent (0)"]
    pub state_in: u64,
    #[doc = " [t, h p] act, overwritten"]
    pub y: u64,
    #[doc = " [rows chunks, h p n] f32, overwritten: S at the start of every chunk"]
    pub states: u64,
    #[doc = " [rows, h p n] f32, overwritten: S after the last token of a row; may be absent"]
    pub state_out: u64,
    #[doc = " [t, h] f32, workspace: l, the sum of delta a from the piece's start"]
    pub log_decay: u64,
    #[doc = " elements from one row of x to the next"]
    pub x_stride: i64,
    #[doc = " of b"]
    pub b_stride: i64,
    #[doc = " of c"]
    pub c_stride: i64,
    #[doc = " of delta"]
    pub delta_stride: i64,
    #[doc = " of state_in"]
    pub state_in_stride: i64,
    #[doc = " of y"]
    pub y_stride: i64,
    #[doc = " of states"]
    pub states_stride: i64,
    #[doc = " of state_out"]
    pub state_out_stride: i64,
    #[doc = " rows of row_len tokens each: t = rows row_len; may be 0"]
    pub rows: i64,
    #[doc = " tokens of a row, at least 1"]
    pub row_len: i32,
    #[doc = " chunk length, at least 1"]
    pub chunk: i32,
    #[doc = " h, a multiple of groups"]
    pub heads: i32,
    #[doc = " p, at least 1"]
    pub head_dim: i32,
    #[doc = " n, at least 1"]
    pub state: i32,
    #[doc = " g, at least 1"]
    pub groups: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SsdScanFwdParams"][::core::mem::size_of::<SsdScanFwdParams>() - 192usize];
    ["Alignment of SsdScanFwdParams"][::core::mem::align_of::<SsdScanFwdParams>() - 8usize];
    ["Offset of field: SsdScanFwdParams::x"][::core::mem::offset_of!(SsdScanFwdParams, x) - 0usize];
    ["Offset of field: SsdScanFwdParams::b"][::core::mem::offset_of!(SsdScanFwdParams, b) - 8usize];
    ["Offset of field: SsdScanFwdParams::c"][::core::mem::offset_of!(SsdScanFwdParams, c) - 16usize];
    ["Offset of field: SsdScanFwdParams::delta"][::core::mem::offset_of!(SsdScanFwdParams, delta) - 24usize];
    ["Offset of field: SsdScanFwdParams::a_log"][::core::mem::offset_of!(SsdScanFwdParams, a_log) - 32usize];
    ["Offset of field: SsdScanFwdParams::d"][::core::mem::offset_of!(SsdScanFwdParams, d) - 40usize];
    ["Offset of field: SsdScanFwdParams::start"][::core::mem::offset_of!(SsdScanFwdParams, start) - 48usize];
    ["Offset of field: SsdScanFwdParams::state_in"][::core::mem::offset_of!(SsdScanFwdParams, state_in) - 56usize];
    ["Offset of field: SsdScanFwdParams::y"][::core::mem::offset_of!(SsdScanFwdParams, y) - 64usize];
    ["Offset of field: SsdScanFwdParams::states"][::core::mem::offset_of!(SsdScanFwdParams, states) - 72usize];
    ["Offset of field: SsdScanFwdParams::state_out"][::core::mem::offset_of!(SsdScanFwdParams, state_out) - 80usize];
    ["Offset of field: SsdScanFwdParams::log_decay"][::core::mem::offset_of!(SsdScanFwdParams, log_decay) - 88usize];
    ["Offset of field: SsdScanFwdParams::x_stride"][::core::mem::offset_of!(SsdScanFwdParams, x_stride) - 96usize];
    ["Offset of field: SsdScanFwdParams::b_stride"][::core::mem::offset_of!(SsdScanFwdParams, b_stride) - 104usize];
    ["Offset of field: SsdScanFwdParams::c_stride"][::core::mem::offset_of!(SsdScanFwdParams, c_stride) - 112usize];
    ["Offset of field: SsdScanFwdParams::delta_stride"]
        [::core::mem::offset_of!(SsdScanFwdParams, delta_stride) - 120usize];
    ["Offset of field: SsdScanFwdParams::state_in_stride"]
        [::core::mem::offset_of!(SsdScanFwdParams, state_in_stride) - 128usize];
    ["Offset of field: SsdScanFwdParams::y_stride"][::core::mem::offset_of!(SsdScanFwdParams, y_stride) - 136usize];
    ["Offset of field: SsdScanFwdParams::states_stride"]
        [::core::mem::offset_of!(SsdScanFwdParams, states_stride) - 144usize];
    ["Offset of field: SsdScanFwdParams::state_out_stride"]
        [::core::mem::offset_of!(SsdScanFwdParams, state_out_stride) - 152usize];
    ["Offset of field: SsdScanFwdParams::rows"][::core::mem::offset_of!(SsdScanFwdParams, rows) - 160usize];
    ["Offset of field: SsdScanFwdParams::row_len"][::core::mem::offset_of!(SsdScanFwdParams, row_len) - 168usize];
    ["Offset of field: SsdScanFwdParams::chunk"][::core::mem::offset_of!(SsdScanFwdParams, chunk) - 172usize];
    ["Offset of field: SsdScanFwdParams::heads"][::core::mem::offset_of!(SsdScanFwdParams, heads) - 176usize];
    ["Offset of field: SsdScanFwdParams::head_dim"][::core::mem::offset_of!(SsdScanFwdParams, head_dim) - 180usize];
    ["Offset of field: SsdScanFwdParams::state"][::core::mem::offset_of!(SsdScanFwdParams, state) - 184usize];
    ["Offset of field: SsdScanFwdParams::groups"][::core::mem::offset_of!(SsdScanFwdParams, groups) - 188usize];
};
#[doc = " Gradients of the scan. All kernels of the backward pass take this block; those that also run in the forward pass take\n its part fwd, of which y and state_out are absent then."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct SsdScanBwdParams {
    #[doc = " inputs and kept states of the forward pass"]
    pub fwd: SsdScanFwdParams,
    #[doc = " [t, h p] act"]
    pub dy: u64,
    #[doc = " [rows, h p n] f32: gradient of state_out; may be absent (0)"]
    pub dstate_out: u64,
    #[doc = " [t, h p] act, overwritten"]
    pub dx: u64,
    #[doc = " [t, g n] act, overwritten"]
    pub db: u64,
    #[doc = " [t, g n] act, overwritten"]
    pub dc: u64,
    #[doc = " [t, h] f32, overwritten"]
    pub ddelta: u64,
    #[doc = " [rows, h p n] f32, overwritten: gradient of state_in; may be absent"]
    pub dstate_in: u64,
    #[doc = " [rows chunks, h p n] f32, workspace: gradient of S at the end of every chunk"]
    pub dstates: u64,
    #[doc = " [t, h] f32, workspace: gradient of log_decay"]
    pub dlog_decay: u64,
    #[doc = " [rows chunks, h] f32, overwritten: sums of the gradient of A_log"]
    pub da_partial: u64,
    #[doc = " [rows chunks, h] f32, overwritten: sums of the gradient of D"]
    pub dd_partial: u64,
    #[doc = " elements from one row of dy to the next"]
    pub dy_stride: i64,
    #[doc = " of dstate_out"]
    pub dstate_out_stride: i64,
    #[doc = " of dx"]
    pub dx_stride: i64,
    #[doc = " of db"]
    pub db_stride: i64,
    #[doc = " of dc"]
    pub dc_stride: i64,
    #[doc = " of ddelta"]
    pub ddelta_stride: i64,
    #[doc = " of dstate_in"]
    pub dstate_in_stride: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SsdScanBwdParams"][::core::mem::size_of::<SsdScanBwdParams>() - 336usize];
    ["Alignment of SsdScanBwdParams"][::core::mem::align_of::<SsdScanBwdParams>() - 8usize];
    ["Offset of field: SsdScanBwdParams::fwd"][::core::mem::offset_of!(SsdScanBwdParams, fwd) - 0usize];
    ["Offset of field: SsdScanBwdParams::dy"][::core::mem::offset_of!(SsdScanBwdParams, dy) - 192usize];
    ["Offset of field: SsdScanBwdParams::dstate_out"][::core::mem::offset_of!(SsdScanBwdParams, dstate_out) - 200usize];
    ["Offset of field: SsdScanBwdParams::dx"][::core::mem::offset_of!(SsdScanBwdParams, dx) - 208usize];
    ["Offset of field: SsdScanBwdParams::db"][::core::mem::offset_of!(SsdScanBwdParams, db) - 216usize];
    ["Offset of field: SsdScanBwdParams::dc"][::core::mem::offset_of!(SsdScanBwdParams, dc) - 224usize];
    ["Offset of field: SsdScanBwdParams::ddelta"][::core::mem::offset_of!(SsdScanBwdParams, ddelta) - 232usize];
    ["Offset of field: SsdScanBwdParams::dstate_in"][::core::mem::offset_of!(SsdScanBwdParams, dstate_in) - 240usize];
    ["Offset of field: SsdScanBwdParams::dstates"][::core::mem::offset_of!(SsdScanBwdParams, dstates) - 248usize];
    ["Offset of field: SsdScanBwdParams::dlog_decay"][::core::mem::offset_of!(SsdScanBwdParams, dlog_decay) - 256usize];
    ["Offset of field: SsdScanBwdParams::da_partial"][::core::mem::offset_of!(SsdScanBwdParams, da_partial) - 264usize];
    ["Offset of field: SsdScanBwdParams::dd_partial"][::core::mem::offset_of!(SsdScanBwdParams, dd_partial) - 272usize];
    ["Offset of field: SsdScanBwdParams::dy_stride"][::core::mem::offset_of!(SsdScanBwdParams, dy_stride) - 280usize];
    ["Offset of field: SsdScanBwdParams::dstate_out_stride"]
        [::core::mem::offset_of!(SsdScanBwdParams, dstate_out_stride) - 288usize];
    ["Offset of field: SsdScanBwdParams::dx_stride"][::core::mem::offset_of!(SsdScanBwdParams, dx_stride) - 296usize];
    ["Offset of field: SsdScanBwdParams::db_stride"][::core::mem::offset_of!(SsdScanBwdParams, db_stride) - 304usize];
    ["Offset of field: SsdScanBwdParams::dc_stride"][::core::mem::offset_of!(SsdScanBwdParams, dc_stride) - 312usize];
    ["Offset of field: SsdScanBwdParams::ddelta_stride"]
        [::core::mem::offset_of!(SsdScanBwdParams, ddelta_stride) - 320usize];
    ["Offset of field: SsdScanBwdParams::dstate_in_stride"]
        [::core::mem::offset_of!(SsdScanBwdParams, dstate_in_stride) - 328usize];
};
