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
