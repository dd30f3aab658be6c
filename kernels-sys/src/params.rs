//! Parameter blocks of the kernels, generated from `csrc/include/lightning/params.h` by `cargo xtask bindgen`.
//! Device addresses are `u64`; 0 stands for an absent buffer where a field says that it may be absent.

// Shapes such as [h] are not links.
#![allow(rustdoc::broken_intra_doc_links)]

#[doc = " A CUtensorMap as the driver encodes it; a kernel passes its address to TMA instructions."]
#[repr(C)]
#[repr(align(64))]
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct LightningTensorMap {
    pub opaque: [u64; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of LightningTensorMap"][::core::mem::size_of::<LightningTensorMap>() - 128usize];
    ["Alignment of LightningTensorMap"][::core::mem::align_of::<LightningTensorMap>() - 64usize];
    ["Offset of field: LightningTensorMap::opaque"][::core::mem::offset_of!(LightningTensorMap, opaque) - 0usize];
};
impl Default for LightningTensorMap {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
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
#[doc = " c_mn (+)= alpha sum_k a_mk b_nk for operands of any strides"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct GemmParams {
    #[doc = " bf16: element (m, k) lies at m a_m + k a_k"]
    pub a: u64,
    #[doc = " bf16: element (n, k) lies at n b_n + k b_k"]
    pub b: u64,
    #[doc = " [m, n] bf16 or f32 (the kernel's suffix), overwritten or added to, see accumulate"]
    pub c: u64,
    #[doc = " elements from one m to the next; a_m or a_k is 1"]
    pub a_m: i64,
    #[doc = " elements from one k to the next"]
    pub a_k: i64,
    #[doc = " elements from one n to the next; b_n or b_k is 1"]
    pub b_n: i64,
    #[doc = " elements from one k to the next"]
    pub b_k: i64,
    #[doc = " elements from one row of c to the next"]
    pub c_stride: i64,
    #[doc = " rows of c, may be 0"]
    pub m: i64,
    #[doc = " columns of c, may be 0"]
    pub n: i64,
    #[doc = " inner length, may be 0"]
    pub k: i64,
    #[doc = " factor of the product"]
    pub alpha: f32,
    #[doc = " 0: c = alpha a b; 1: c = c + alpha a b, rounded once"]
    pub accumulate: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of GemmParams"][::core::mem::size_of::<GemmParams>() - 96usize];
    ["Alignment of GemmParams"][::core::mem::align_of::<GemmParams>() - 8usize];
    ["Offset of field: GemmParams::a"][::core::mem::offset_of!(GemmParams, a) - 0usize];
    ["Offset of field: GemmParams::b"][::core::mem::offset_of!(GemmParams, b) - 8usize];
    ["Offset of field: GemmParams::c"][::core::mem::offset_of!(GemmParams, c) - 16usize];
    ["Offset of field: GemmParams::a_m"][::core::mem::offset_of!(GemmParams, a_m) - 24usize];
    ["Offset of field: GemmParams::a_k"][::core::mem::offset_of!(GemmParams, a_k) - 32usize];
    ["Offset of field: GemmParams::b_n"][::core::mem::offset_of!(GemmParams, b_n) - 40usize];
    ["Offset of field: GemmParams::b_k"][::core::mem::offset_of!(GemmParams, b_k) - 48usize];
    ["Offset of field: GemmParams::c_stride"][::core::mem::offset_of!(GemmParams, c_stride) - 56usize];
    ["Offset of field: GemmParams::m"][::core::mem::offset_of!(GemmParams, m) - 64usize];
    ["Offset of field: GemmParams::n"][::core::mem::offset_of!(GemmParams, n) - 72usize];
    ["Offset of field: GemmParams::k"][::core::mem::offset_of!(GemmParams, k) - 80usize];
    ["Offset of field: GemmParams::alpha"][::core::mem::offset_of!(GemmParams, alpha) - 88usize];
    ["Offset of field: GemmParams::accumulate"][::core::mem::offset_of!(GemmParams, accumulate) - 92usize];
};
#[doc = " c_mn (+)= alpha sum_k a_mk b_nk for operands that bulk tensor copies can read. Maps of 128-byte swizzle: an operand\n that is contiguous along k has boxes of 64 k and as many rows as a block loads at once; one that is contiguous along\n m or n has boxes of 64 of these and as many k as a block loads at once (lightning-core/src/gpu/gemm/tiles.rs)."]
#[repr(C)]
#[repr(align(64))]
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct GemmTmaParams {
    #[doc = " bf16"]
    pub a: LightningTensorMap,
    #[doc = " bf16"]
    pub b: LightningTensorMap,
    #[doc = " [m, n] bf16 or f32, see c_f32, overwritten or added to, see accumulate"]
    pub c: u64,
    #[doc = " elements from one row of c to the next"]
    pub c_stride: i64,
    #[doc = " rows of c, at least 1"]
    pub m: i32,
    #[doc = " columns of c, at least 1"]
    pub n: i32,
    #[doc = " inner length, at least 1"]
    pub k: i32,
    #[doc = " 1: c is f32; 0: c is bf16"]
    pub c_f32: i32,
    #[doc = " 0: c = alpha a b; 1: c = c + alpha a b, rounded once"]
    pub accumulate: i32,
    #[doc = " factor of the product"]
    pub alpha: f32,
    #[doc = " rows of tiles that are walked together, 1 to all of them; decides only which blocks share L2"]
    pub raster: i32,
    #[doc = " no meaning; 0"]
    pub reserved: [i32; 5usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of GemmTmaParams"][::core::mem::size_of::<GemmTmaParams>() - 320usize];
    ["Alignment of GemmTmaParams"][::core::mem::align_of::<GemmTmaParams>() - 64usize];
    ["Offset of field: GemmTmaParams::a"][::core::mem::offset_of!(GemmTmaParams, a) - 0usize];
    ["Offset of field: GemmTmaParams::b"][::core::mem::offset_of!(GemmTmaParams, b) - 128usize];
    ["Offset of field: GemmTmaParams::c"][::core::mem::offset_of!(GemmTmaParams, c) - 256usize];
    ["Offset of field: GemmTmaParams::c_stride"][::core::mem::offset_of!(GemmTmaParams, c_stride) - 264usize];
    ["Offset of field: GemmTmaParams::m"][::core::mem::offset_of!(GemmTmaParams, m) - 272usize];
    ["Offset of field: GemmTmaParams::n"][::core::mem::offset_of!(GemmTmaParams, n) - 276usize];
    ["Offset of field: GemmTmaParams::k"][::core::mem::offset_of!(GemmTmaParams, k) - 280usize];
    ["Offset of field: GemmTmaParams::c_f32"][::core::mem::offset_of!(GemmTmaParams, c_f32) - 284usize];
    ["Offset of field: GemmTmaParams::accumulate"][::core::mem::offset_of!(GemmTmaParams, accumulate) - 288usize];
    ["Offset of field: GemmTmaParams::alpha"][::core::mem::offset_of!(GemmTmaParams, alpha) - 292usize];
    ["Offset of field: GemmTmaParams::raster"][::core::mem::offset_of!(GemmTmaParams, raster) - 296usize];
    ["Offset of field: GemmTmaParams::reserved"][::core::mem::offset_of!(GemmTmaParams, reserved) - 300usize];
};
impl Default for GemmTmaParams {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
