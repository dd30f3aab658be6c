//! Parameter blocks of the kernels, generated from `csrc/include/lightning/params.h` by `cargo xtask bindgen`.
//! Device addresses are `u64`; 0 stands for an absent buffer where a field says that it may be absent.

// Shapes such as [h] are not links.
#![allow(rustdoc::broken_intra_doc_links)]

#[doc = " A CUtensorMap as the driver encodes it; a kernel passes its address to TMA instructions."]
#[repr(C)]
#[repr(align(64))]
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct LightningTensorMap {
    #[doc = " known to the driver and to TMA"]
    pub opaque: [u64; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of LightningTensorMap"][::core::mem::size_of::<LightningTensorMap>() - 128usize];
    ["Alignment of LightningTensorMap"][::core::mem::align_of::<LightningTensorMap>() - 64usize];
    ["Offset of field: LightningTensorMap::opaque"][::core::mem::offset_of!(LightningTensorMap, opaque) - 0usize];
};
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
#[doc = " dst (+)= sum_i partial[i], in a fixed order"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct SumBlocksParams {
    #[doc = " [blocks, n] f32"]
    pub partial: u64,
    #[doc = " [n] grad, added to or overwritten, see accumulate"]
    pub dst: u64,
    #[doc = " elements from one row of partial to the next"]
    pub partial_stride: i64,
    #[doc = " may be 0"]
    pub blocks: i64,
    #[doc = " elements of the sum, at least 1"]
    pub n: i64,
    #[doc = " 0: dst = sum; 1: dst += sum"]
    pub accumulate: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SumBlocksParams"][::core::mem::size_of::<SumBlocksParams>() - 48usize];
    ["Alignment of SumBlocksParams"][::core::mem::align_of::<SumBlocksParams>() - 8usize];
    ["Offset of field: SumBlocksParams::partial"][::core::mem::offset_of!(SumBlocksParams, partial) - 0usize];
    ["Offset of field: SumBlocksParams::dst"][::core::mem::offset_of!(SumBlocksParams, dst) - 8usize];
    ["Offset of field: SumBlocksParams::partial_stride"]
        [::core::mem::offset_of!(SumBlocksParams, partial_stride) - 16usize];
    ["Offset of field: SumBlocksParams::blocks"][::core::mem::offset_of!(SumBlocksParams, blocks) - 24usize];
    ["Offset of field: SumBlocksParams::n"][::core::mem::offset_of!(SumBlocksParams, n) - 32usize];
    ["Offset of field: SumBlocksParams::accumulate"][::core::mem::offset_of!(SumBlocksParams, accumulate) - 40usize];
    ["Offset of field: SumBlocksParams::reserved"][::core::mem::offset_of!(SumBlocksParams, reserved) - 44usize];
};
#[doc = " dst_ij = value"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct FillParams {
    #[doc = " [rows, cols] of any type, overwritten"]
    pub dst: u64,
    #[doc = " the element's bits, in the low `size` bytes"]
    pub value: u64,
    #[doc = " elements from one row of dst to the next"]
    pub stride: i64,
    #[doc = " may be 0"]
    pub rows: i64,
    #[doc = " at least 1"]
    pub cols: i64,
    #[doc = " bytes of an element: 2, 4 or 8"]
    pub size: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of FillParams"][::core::mem::size_of::<FillParams>() - 48usize];
    ["Alignment of FillParams"][::core::mem::align_of::<FillParams>() - 8usize];
    ["Offset of field: FillParams::dst"][::core::mem::offset_of!(FillParams, dst) - 0usize];
    ["Offset of field: FillParams::value"][::core::mem::offset_of!(FillParams, value) - 8usize];
    ["Offset of field: FillParams::stride"][::core::mem::offset_of!(FillParams, stride) - 16usize];
    ["Offset of field: FillParams::rows"][::core::mem::offset_of!(FillParams, rows) - 24usize];
    ["Offset of field: FillParams::cols"][::core::mem::offset_of!(FillParams, cols) - 32usize];
    ["Offset of field: FillParams::size"][::core::mem::offset_of!(FillParams, size) - 40usize];
    ["Offset of field: FillParams::reserved"][::core::mem::offset_of!(FillParams, reserved) - 44usize];
};
#[doc = " One pass of a stable sort of n items by a digit of their keys, see csrc/sort/counting_sort.cu"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct SortPassParams {
    #[doc = " [n] i32: key of every item; what is not in [0, limit) counts as limit"]
    pub key: u64,
    #[doc = " [n] i32: items in the order so far; absent: 0, 1, 2, ..."]
    pub from: u64,
    #[doc = " [n] i32, overwritten: items in the new order"]
    pub out: u64,
    #[doc = " [n] i32, overwritten: position of every item in `out`; may be absent"]
    pub inverse: u64,
    #[doc = " [digits] i32, overwritten: position of the first item of every digit; may be absent"]
    pub start: u64,
    #[doc = " [digits, tiles] i32, workspace"]
    pub count: u64,
    #[doc = " items, may be 0, below 2^31"]
    pub n: i64,
    #[doc = " items of a tile, a multiple of 32"]
    pub tile: i32,
    #[doc = " ceil(n / tile), at least 1"]
    pub tiles: i32,
    #[doc = " different digits, at most 1024"]
    pub digits: i32,
    #[doc = " keys above and below what is allowed become this, the largest"]
    pub limit: i32,
    #[doc = " digit = (key >> shift) & mask"]
    pub shift: i32,
    #[doc = " see shift"]
    pub mask: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SortPassParams"][::core::mem::size_of::<SortPassParams>() - 80usize];
    ["Alignment of SortPassParams"][::core::mem::align_of::<SortPassParams>() - 8usize];
    ["Offset of field: SortPassParams::key"][::core::mem::offset_of!(SortPassParams, key) - 0usize];
    ["Offset of field: SortPassParams::from"][::core::mem::offset_of!(SortPassParams, from) - 8usize];
    ["Offset of field: SortPassParams::out"][::core::mem::offset_of!(SortPassParams, out) - 16usize];
    ["Offset of field: SortPassParams::inverse"][::core::mem::offset_of!(SortPassParams, inverse) - 24usize];
    ["Offset of field: SortPassParams::start"][::core::mem::offset_of!(SortPassParams, start) - 32usize];
    ["Offset of field: SortPassParams::count"][::core::mem::offset_of!(SortPassParams, count) - 40usize];
    ["Offset of field: SortPassParams::n"][::core::mem::offset_of!(SortPassParams, n) - 48usize];
    ["Offset of field: SortPassParams::tile"][::core::mem::offset_of!(SortPassParams, tile) - 56usize];
    ["Offset of field: SortPassParams::tiles"][::core::mem::offset_of!(SortPassParams, tiles) - 60usize];
    ["Offset of field: SortPassParams::digits"][::core::mem::offset_of!(SortPassParams, digits) - 64usize];
    ["Offset of field: SortPassParams::limit"][::core::mem::offset_of!(SortPassParams, limit) - 68usize];
    ["Offset of field: SortPassParams::shift"][::core::mem::offset_of!(SortPassParams, shift) - 72usize];
    ["Offset of field: SortPassParams::mask"][::core::mem::offset_of!(SortPassParams, mask) - 76usize];
};
#[doc = " start_t, end_t = first and one past the last token of the document of t"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct SegmentsParams {
    #[doc = " [m] i32, ascending document offsets, repetitions allowed"]
    pub cu_seqlens: u64,
    #[doc = " [t] i32, overwritten"]
    pub start: u64,
    #[doc = " [t] i32, overwritten"]
    pub end: u64,
    #[doc = " offsets, may be 0"]
    pub m: i64,
    #[doc = " tokens of a row, at least 1"]
    pub row_len: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of SegmentsParams"][::core::mem::size_of::<SegmentsParams>() - 48usize];
    ["Alignment of SegmentsParams"][::core::mem::align_of::<SegmentsParams>() - 8usize];
    ["Offset of field: SegmentsParams::cu_seqlens"][::core::mem::offset_of!(SegmentsParams, cu_seqlens) - 0usize];
    ["Offset of field: SegmentsParams::start"][::core::mem::offset_of!(SegmentsParams, start) - 8usize];
    ["Offset of field: SegmentsParams::end"][::core::mem::offset_of!(SegmentsParams, end) - 16usize];
    ["Offset of field: SegmentsParams::m"][::core::mem::offset_of!(SegmentsParams, m) - 24usize];
    ["Offset of field: SegmentsParams::row_len"][::core::mem::offset_of!(SegmentsParams, row_len) - 32usize];
    ["Offset of field: SegmentsParams::t"][::core::mem::offset_of!(SegmentsParams, t) - 40usize];
};
#[doc = " dst_t = src_{t+1} inside a document, 0 at its last token"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct RollParams {
    #[doc = " [t] i32"]
    pub src: u64,
    #[doc = " [t] i32 of the document bounds"]
    pub end: u64,
    #[doc = " [t] i32, overwritten"]
    pub dst: u64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RollParams"][::core::mem::size_of::<RollParams>() - 32usize];
    ["Alignment of RollParams"][::core::mem::align_of::<RollParams>() - 8usize];
    ["Offset of field: RollParams::src"][::core::mem::offset_of!(RollParams, src) - 0usize];
    ["Offset of field: RollParams::end"][::core::mem::offset_of!(RollParams, end) - 8usize];
    ["Offset of field: RollParams::dst"][::core::mem::offset_of!(RollParams, dst) - 16usize];
    ["Offset of field: RollParams::t"][::core::mem::offset_of!(RollParams, t) - 24usize];
};
#[doc = " y_t = table_{ids_t}"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct EmbeddingFwdParams {
    #[doc = " [t] i32"]
    pub ids: u64,
    #[doc = " [v, h] act"]
    pub table: u64,
    #[doc = " [t, h] act, overwritten"]
    pub y: u64,
    #[doc = " elements from one row of table to the next"]
    pub table_stride: i64,
    #[doc = " of y"]
    pub y_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " hidden, at least 1"]
    pub h: i32,
    #[doc = " vocabulary, at least 1"]
    pub v: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of EmbeddingFwdParams"][::core::mem::size_of::<EmbeddingFwdParams>() - 56usize];
    ["Alignment of EmbeddingFwdParams"][::core::mem::align_of::<EmbeddingFwdParams>() - 8usize];
    ["Offset of field: EmbeddingFwdParams::ids"][::core::mem::offset_of!(EmbeddingFwdParams, ids) - 0usize];
    ["Offset of field: EmbeddingFwdParams::table"][::core::mem::offset_of!(EmbeddingFwdParams, table) - 8usize];
    ["Offset of field: EmbeddingFwdParams::y"][::core::mem::offset_of!(EmbeddingFwdParams, y) - 16usize];
    ["Offset of field: EmbeddingFwdParams::table_stride"]
        [::core::mem::offset_of!(EmbeddingFwdParams, table_stride) - 24usize];
    ["Offset of field: EmbeddingFwdParams::y_stride"][::core::mem::offset_of!(EmbeddingFwdParams, y_stride) - 32usize];
    ["Offset of field: EmbeddingFwdParams::t"][::core::mem::offset_of!(EmbeddingFwdParams, t) - 40usize];
    ["Offset of field: EmbeddingFwdParams::h"][::core::mem::offset_of!(EmbeddingFwdParams, h) - 48usize];
    ["Offset of field: EmbeddingFwdParams::v"][::core::mem::offset_of!(EmbeddingFwdParams, v) - 52usize];
};
#[doc = " dtable_v (+)= sum over t with ids_t = v, ascending t, of dy_t"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct EmbeddingBwdParams {
    #[doc = " [t] i32"]
    pub ids: u64,
    #[doc = " [t] i32: token positions sorted by id, stable"]
    pub order: u64,
    #[doc = " [t, h] act"]
    pub dy: u64,
    #[doc = " [v, h] grad, rows of present ids added to or overwritten, see accumulate"]
    pub dtable: u64,
    #[doc = " elements from one row of dy to the next"]
    pub dy_stride: i64,
    #[doc = " of dtable"]
    pub dtable_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " hidden, at least 1"]
    pub h: i32,
    #[doc = " vocabulary, at least 1"]
    pub v: i32,
    #[doc = " 0: dtable_v = sum; 1: dtable_v += sum"]
    pub accumulate: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of EmbeddingBwdParams"][::core::mem::size_of::<EmbeddingBwdParams>() - 72usize];
    ["Alignment of EmbeddingBwdParams"][::core::mem::align_of::<EmbeddingBwdParams>() - 8usize];
    ["Offset of field: EmbeddingBwdParams::ids"][::core::mem::offset_of!(EmbeddingBwdParams, ids) - 0usize];
    ["Offset of field: EmbeddingBwdParams::order"][::core::mem::offset_of!(EmbeddingBwdParams, order) - 8usize];
    ["Offset of field: EmbeddingBwdParams::dy"][::core::mem::offset_of!(EmbeddingBwdParams, dy) - 16usize];
    ["Offset of field: EmbeddingBwdParams::dtable"][::core::mem::offset_of!(EmbeddingBwdParams, dtable) - 24usize];
    ["Offset of field: EmbeddingBwdParams::dy_stride"]
        [::core::mem::offset_of!(EmbeddingBwdParams, dy_stride) - 32usize];
    ["Offset of field: EmbeddingBwdParams::dtable_stride"]
        [::core::mem::offset_of!(EmbeddingBwdParams, dtable_stride) - 40usize];
    ["Offset of field: EmbeddingBwdParams::t"][::core::mem::offset_of!(EmbeddingBwdParams, t) - 48usize];
    ["Offset of field: EmbeddingBwdParams::h"][::core::mem::offset_of!(EmbeddingBwdParams, h) - 56usize];
    ["Offset of field: EmbeddingBwdParams::v"][::core::mem::offset_of!(EmbeddingBwdParams, v) - 60usize];
    ["Offset of field: EmbeddingBwdParams::accumulate"]
        [::core::mem::offset_of!(EmbeddingBwdParams, accumulate) - 64usize];
    ["Offset of field: EmbeddingBwdParams::reserved"][::core::mem::offset_of!(EmbeddingBwdParams, reserved) - 68usize];
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
#[doc = " o_i = sum_j P_ij v_j,  P_ij = e^(scale q_i . k_j - lse_i)  over  start_i <= j <= i"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct AttentionFwdParams {
    #[doc = " [t, heads head_dim] act"]
    pub q: u64,
    #[doc = " [t, kv_heads head_dim] act"]
    pub k: u64,
    #[doc = " as k"]
    pub v: u64,
    #[doc = " [t]: first token of each token's document; does not decrease"]
    pub start: u64,
    #[doc = " as q, overwritten"]
    pub o: u64,
    #[doc = " [t, heads], overwritten: log of the sum of e^score"]
    pub lse: u64,
    #[doc = " elements from one row of q to the next"]
    pub q_stride: i64,
    #[doc = " of k"]
    pub k_stride: i64,
    #[doc = " of v"]
    pub v_stride: i64,
    #[doc = " of o"]
    pub o_stride: i64,
    #[doc = " of lse"]
    pub lse_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i32,
    #[doc = " query heads; head i reads key/value head i / (heads / kv_heads)"]
    pub heads: i32,
    #[doc = " key and value heads"]
    pub kv_heads: i32,
    #[doc = " channels of a head"]
    pub head_dim: i32,
    #[doc = " factor of the scores"]
    pub scale: f32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of AttentionFwdParams"][::core::mem::size_of::<AttentionFwdParams>() - 112usize];
    ["Alignment of AttentionFwdParams"][::core::mem::align_of::<AttentionFwdParams>() - 8usize];
    ["Offset of field: AttentionFwdParams::q"][::core::mem::offset_of!(AttentionFwdParams, q) - 0usize];
    ["Offset of field: AttentionFwdParams::k"][::core::mem::offset_of!(AttentionFwdParams, k) - 8usize];
    ["Offset of field: AttentionFwdParams::v"][::core::mem::offset_of!(AttentionFwdParams, v) - 16usize];
    ["Offset of field: AttentionFwdParams::start"][::core::mem::offset_of!(AttentionFwdParams, start) - 24usize];
    ["Offset of field: AttentionFwdParams::o"][::core::mem::offset_of!(AttentionFwdParams, o) - 32usize];
    ["Offset of field: AttentionFwdParams::lse"][::core::mem::offset_of!(AttentionFwdParams, lse) - 40usize];
    ["Offset of field: AttentionFwdParams::q_stride"][::core::mem::offset_of!(AttentionFwdParams, q_stride) - 48usize];
    ["Offset of field: AttentionFwdParams::k_stride"][::core::mem::offset_of!(AttentionFwdParams, k_stride) - 56usize];
    ["Offset of field: AttentionFwdParams::v_stride"][::core::mem::offset_of!(AttentionFwdParams, v_stride) - 64usize];
    ["Offset of field: AttentionFwdParams::o_stride"][::core::mem::offset_of!(AttentionFwdParams, o_stride) - 72usize];
    ["Offset of field: AttentionFwdParams::lse_stride"]
        [::core::mem::offset_of!(AttentionFwdParams, lse_stride) - 80usize];
    ["Offset of field: AttentionFwdParams::t"][::core::mem::offset_of!(AttentionFwdParams, t) - 88usize];
    ["Offset of field: AttentionFwdParams::heads"][::core::mem::offset_of!(AttentionFwdParams, heads) - 92usize];
    ["Offset of field: AttentionFwdParams::kv_heads"][::core::mem::offset_of!(AttentionFwdParams, kv_heads) - 96usize];
    ["Offset of field: AttentionFwdParams::head_dim"][::core::mem::offset_of!(AttentionFwdParams, head_dim) - 100usize];
    ["Offset of field: AttentionFwdParams::scale"][::core::mem::offset_of!(AttentionFwdParams, scale) - 104usize];
    ["Offset of field: AttentionFwdParams::reserved"][::core::mem::offset_of!(AttentionFwdParams, reserved) - 108usize];
};
#[doc = " D_i = do_i . o_i,  dS_ij = P_ij (do_i . v_j - D_i),  dq_i = scale sum_j dS_ij k_j,  dk_j = scale sum_i dS_ij q_i,\n dv_j = sum_i P_ij do_i"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct AttentionBwdParams {
    #[doc = " [t, heads head_dim] act"]
    pub q: u64,
    #[doc = " [t, kv_heads head_dim] act"]
    pub k: u64,
    #[doc = " as k"]
    pub v: u64,
    #[doc = " as q: output of the forward pass"]
    pub o: u64,
    #[doc = " as q"]
    pub dout: u64,
    #[doc = " [t]"]
    pub start: u64,
    #[doc = " [t, heads] of the forward pass"]
    pub lse: u64,
    #[doc = " [t, heads] without gaps: D; written by attention_bwd_delta, read by the others"]
    pub delta: u64,
    #[doc = " as q, overwritten"]
    pub dq: u64,
    #[doc = " as k, overwritten"]
    pub dk: u64,
    #[doc = " as k, overwritten"]
    pub dv: u64,
    #[doc = " elements from one row of q to the next"]
    pub q_stride: i64,
    #[doc = " of k"]
    pub k_stride: i64,
    #[doc = " of v"]
    pub v_stride: i64,
    #[doc = " of o"]
    pub o_stride: i64,
    #[doc = " of dout"]
    pub dout_stride: i64,
    #[doc = " of lse"]
    pub lse_stride: i64,
    #[doc = " of dq"]
    pub dq_stride: i64,
    #[doc = " of dk"]
    pub dk_stride: i64,
    #[doc = " of dv"]
    pub dv_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i32,
    #[doc = " query heads"]
    pub heads: i32,
    #[doc = " key and value heads"]
    pub kv_heads: i32,
    #[doc = " channels of a head"]
    pub head_dim: i32,
    #[doc = " factor of the scores"]
    pub scale: f32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of AttentionBwdParams"][::core::mem::size_of::<AttentionBwdParams>() - 184usize];
    ["Alignment of AttentionBwdParams"][::core::mem::align_of::<AttentionBwdParams>() - 8usize];
    ["Offset of field: AttentionBwdParams::q"][::core::mem::offset_of!(AttentionBwdParams, q) - 0usize];
    ["Offset of field: AttentionBwdParams::k"][::core::mem::offset_of!(AttentionBwdParams, k) - 8usize];
    ["Offset of field: AttentionBwdParams::v"][::core::mem::offset_of!(AttentionBwdParams, v) - 16usize];
    ["Offset of field: AttentionBwdParams::o"][::core::mem::offset_of!(AttentionBwdParams, o) - 24usize];
    ["Offset of field: AttentionBwdParams::dout"][::core::mem::offset_of!(AttentionBwdParams, dout) - 32usize];
    ["Offset of field: AttentionBwdParams::start"][::core::mem::offset_of!(AttentionBwdParams, start) - 40usize];
    ["Offset of field: AttentionBwdParams::lse"][::core::mem::offset_of!(AttentionBwdParams, lse) - 48usize];
    ["Offset of field: AttentionBwdParams::delta"][::core::mem::offset_of!(AttentionBwdParams, delta) - 56usize];
    ["Offset of field: AttentionBwdParams::dq"][::core::mem::offset_of!(AttentionBwdParams, dq) - 64usize];
    ["Offset of field: AttentionBwdParams::dk"][::core::mem::offset_of!(AttentionBwdParams, dk) - 72usize];
    ["Offset of field: AttentionBwdParams::dv"][::core::mem::offset_of!(AttentionBwdParams, dv) - 80usize];
    ["Offset of field: AttentionBwdParams::q_stride"][::core::mem::offset_of!(AttentionBwdParams, q_stride) - 88usize];
    ["Offset of field: AttentionBwdParams::k_stride"][::core::mem::offset_of!(AttentionBwdParams, k_stride) - 96usize];
    ["Offset of field: AttentionBwdParams::v_stride"][::core::mem::offset_of!(AttentionBwdParams, v_stride) - 104usize];
    ["Offset of field: AttentionBwdParams::o_stride"][::core::mem::offset_of!(AttentionBwdParams, o_stride) - 112usize];
    ["Offset of field: AttentionBwdParams::dout_stride"]
        [::core::mem::offset_of!(AttentionBwdParams, dout_stride) - 120usize];
    ["Offset of field: AttentionBwdParams::lse_stride"]
        [::core::mem::offset_of!(AttentionBwdParams, lse_stride) - 128usize];
    ["Offset of field: AttentionBwdParams::dq_stride"]
        [::core::mem::offset_of!(AttentionBwdParams, dq_stride) - 136usize];
    ["Offset of field: AttentionBwdParams::dk_stride"]
        [::core::mem::offset_of!(AttentionBwdParams, dk_stride) - 144usize];
    ["Offset of field: AttentionBwdParams::dv_stride"]
        [::core::mem::offset_of!(AttentionBwdParams, dv_stride) - 152usize];
    ["Offset of field: AttentionBwdParams::t"][::core::mem::offset_of!(AttentionBwdParams, t) - 160usize];
    ["Offset of field: AttentionBwdParams::heads"][::core::mem::offset_of!(AttentionBwdParams, heads) - 164usize];
    ["Offset of field: AttentionBwdParams::kv_heads"][::core::mem::offset_of!(AttentionBwdParams, kv_heads) - 168usize];
    ["Offset of field: AttentionBwdParams::head_dim"][::core::mem::offset_of!(AttentionBwdParams, head_dim) - 172usize];
    ["Offset of field: AttentionBwdParams::scale"][::core::mem::offset_of!(AttentionBwdParams, scale) - 176usize];
    ["Offset of field: AttentionBwdParams::reserved"][::core::mem::offset_of!(AttentionBwdParams, reserved) - 180usize];
};
#[doc = " y = max(x, 0)^2"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct Relu2FwdParams {
    #[doc = " [t, f] act"]
    pub x: u64,
    #[doc = " [t, f] act, overwritten"]
    pub y: u64,
    #[doc = " elements from one row of x to the next"]
    pub x_stride: i64,
    #[doc = " of y"]
    pub y_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " columns, at least 1"]
    pub f: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Relu2FwdParams"][::core::mem::size_of::<Relu2FwdParams>() - 48usize];
    ["Alignment of Relu2FwdParams"][::core::mem::align_of::<Relu2FwdParams>() - 8usize];
    ["Offset of field: Relu2FwdParams::x"][::core::mem::offset_of!(Relu2FwdParams, x) - 0usize];
    ["Offset of field: Relu2FwdParams::y"][::core::mem::offset_of!(Relu2FwdParams, y) - 8usize];
    ["Offset of field: Relu2FwdParams::x_stride"][::core::mem::offset_of!(Relu2FwdParams, x_stride) - 16usize];
    ["Offset of field: Relu2FwdParams::y_stride"][::core::mem::offset_of!(Relu2FwdParams, y_stride) - 24usize];
    ["Offset of field: Relu2FwdParams::t"][::core::mem::offset_of!(Relu2FwdParams, t) - 32usize];
    ["Offset of field: Relu2FwdParams::f"][::core::mem::offset_of!(Relu2FwdParams, f) - 40usize];
};
#[doc = " dx = 2 max(x, 0) dy"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct Relu2BwdParams {
    #[doc = " [t, f] act"]
    pub x: u64,
    #[doc = " [t, f] act"]
    pub dy: u64,
    #[doc = " [t, f] act, overwritten"]
    pub dx: u64,
    #[doc = " elements from one row of x to the next"]
    pub x_stride: i64,
    #[doc = " of dy"]
    pub dy_stride: i64,
    #[doc = " of dx"]
    pub dx_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " columns, at least 1"]
    pub f: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of Relu2BwdParams"][::core::mem::size_of::<Relu2BwdParams>() - 64usize];
    ["Alignment of Relu2BwdParams"][::core::mem::align_of::<Relu2BwdParams>() - 8usize];
    ["Offset of field: Relu2BwdParams::x"][::core::mem::offset_of!(Relu2BwdParams, x) - 0usize];
    ["Offset of field: Relu2BwdParams::dy"][::core::mem::offset_of!(Relu2BwdParams, dy) - 8usize];
    ["Offset of field: Relu2BwdParams::dx"][::core::mem::offset_of!(Relu2BwdParams, dx) - 16usize];
    ["Offset of field: Relu2BwdParams::x_stride"][::core::mem::offset_of!(Relu2BwdParams, x_stride) - 24usize];
    ["Offset of field: Relu2BwdParams::dy_stride"][::core::mem::offset_of!(Relu2BwdParams, dy_stride) - 32usize];
    ["Offset of field: Relu2BwdParams::dx_stride"][::core::mem::offset_of!(Relu2BwdParams, dx_stride) - 40usize];
    ["Offset of field: Relu2BwdParams::t"][::core::mem::offset_of!(Relu2BwdParams, t) - 48usize];
    ["Offset of field: Relu2BwdParams::f"][::core::mem::offset_of!(Relu2BwdParams, f) - 56usize];
};
#[doc = " out_t = before_t + sum_j y_{slot(t, j)} + after_t"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct CombineParams {
    #[doc = " [t k, h] act: rows by slot"]
    pub y: u64,
    #[doc = " [t, k] i32: slot of every pair"]
    pub slot: u64,
    #[doc = " [t, h] act: added first; may be out itself; may be absent"]
    pub before: u64,
    #[doc = " [t, h] act: added last; may be absent"]
    pub after: u64,
    #[doc = " [t, h] act, overwritten"]
    pub out: u64,
    #[doc = " elements from one row of y to the next"]
    pub y_stride: i64,
    #[doc = " of slot"]
    pub slot_stride: i64,
    #[doc = " of before"]
    pub before_stride: i64,
    #[doc = " of after"]
    pub after_stride: i64,
    #[doc = " of out"]
    pub out_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " experts per token, may be 0"]
    pub k: i32,
    #[doc = " hidden, at least 1"]
    pub h: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CombineParams"][::core::mem::size_of::<CombineParams>() - 96usize];
    ["Alignment of CombineParams"][::core::mem::align_of::<CombineParams>() - 8usize];
    ["Offset of field: CombineParams::y"][::core::mem::offset_of!(CombineParams, y) - 0usize];
    ["Offset of field: CombineParams::slot"][::core::mem::offset_of!(CombineParams, slot) - 8usize];
    ["Offset of field: CombineParams::before"][::core::mem::offset_of!(CombineParams, before) - 16usize];
    ["Offset of field: CombineParams::after"][::core::mem::offset_of!(CombineParams, after) - 24usize];
    ["Offset of field: CombineParams::out"][::core::mem::offset_of!(CombineParams, out) - 32usize];
    ["Offset of field: CombineParams::y_stride"][::core::mem::offset_of!(CombineParams, y_stride) - 40usize];
    ["Offset of field: CombineParams::slot_stride"][::core::mem::offset_of!(CombineParams, slot_stride) - 48usize];
    ["Offset of field: CombineParams::before_stride"][::core::mem::offset_of!(CombineParams, before_stride) - 56usize];
    ["Offset of field: CombineParams::after_stride"][::core::mem::offset_of!(CombineParams, after_stride) - 64usize];
    ["Offset of field: CombineParams::out_stride"][::core::mem::offset_of!(CombineParams, out_stride) - 72usize];
    ["Offset of field: CombineParams::t"][::core::mem::offset_of!(CombineParams, t) - 80usize];
    ["Offset of field: CombineParams::k"][::core::mem::offset_of!(CombineParams, k) - 88usize];
    ["Offset of field: CombineParams::h"][::core::mem::offset_of!(CombineParams, h) - 92usize];
};
#[doc = " c (+)= a b over k; which of the operands is transposed is the kernel's, see csrc/moe/router_product.cu"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct RouterProductParams {
    #[doc = " first operand, see the kernel"]
    pub a: u64,
    #[doc = " second operand, see the kernel"]
    pub b: u64,
    #[doc = " [m, n], overwritten or added to, see accumulate"]
    pub c: u64,
    #[doc = " elements from one row of a to the next"]
    pub a_stride: i64,
    #[doc = " of b"]
    pub b_stride: i64,
    #[doc = " of c"]
    pub c_stride: i64,
    #[doc = " rows of c, may be 0"]
    pub m: i64,
    #[doc = " columns of c, may be 0"]
    pub n: i64,
    #[doc = " terms of a sum, may be 0"]
    pub k: i64,
    #[doc = " 0: c = product; 1: c += product"]
    pub accumulate: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RouterProductParams"][::core::mem::size_of::<RouterProductParams>() - 80usize];
    ["Alignment of RouterProductParams"][::core::mem::align_of::<RouterProductParams>() - 8usize];
    ["Offset of field: RouterProductParams::a"][::core::mem::offset_of!(RouterProductParams, a) - 0usize];
    ["Offset of field: RouterProductParams::b"][::core::mem::offset_of!(RouterProductParams, b) - 8usize];
    ["Offset of field: RouterProductParams::c"][::core::mem::offset_of!(RouterProductParams, c) - 16usize];
    ["Offset of field: RouterProductParams::a_stride"]
        [::core::mem::offset_of!(RouterProductParams, a_stride) - 24usize];
    ["Offset of field: RouterProductParams::b_stride"]
        [::core::mem::offset_of!(RouterProductParams, b_stride) - 32usize];
    ["Offset of field: RouterProductParams::c_stride"]
        [::core::mem::offset_of!(RouterProductParams, c_stride) - 40usize];
    ["Offset of field: RouterProductParams::m"][::core::mem::offset_of!(RouterProductParams, m) - 48usize];
    ["Offset of field: RouterProductParams::n"][::core::mem::offset_of!(RouterProductParams, n) - 56usize];
    ["Offset of field: RouterProductParams::k"][::core::mem::offset_of!(RouterProductParams, k) - 64usize];
    ["Offset of field: RouterProductParams::accumulate"]
        [::core::mem::offset_of!(RouterProductParams, accumulate) - 72usize];
    ["Offset of field: RouterProductParams::reserved"]
        [::core::mem::offset_of!(RouterProductParams, reserved) - 76usize];
};
#[doc = " logits_te = standard normal number t e_count + e of the stream"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct RouterNoiseParams {
    #[doc = " [2] i32: the seed's low and high half"]
    pub counter: u64,
    #[doc = " [t, e] f32, overwritten"]
    pub logits: u64,
    #[doc = " Philox stream"]
    pub stream: u64,
    #[doc = " elements from one row of logits to the next"]
    pub logits_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " experts, at least 1"]
    pub e: i32,
    #[doc = " no meaning; 0"]
    pub reserved: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RouterNoiseParams"][::core::mem::size_of::<RouterNoiseParams>() - 48usize];
    ["Alignment of RouterNoiseParams"][::core::mem::align_of::<RouterNoiseParams>() - 8usize];
    ["Offset of field: RouterNoiseParams::counter"][::core::mem::offset_of!(RouterNoiseParams, counter) - 0usize];
    ["Offset of field: RouterNoiseParams::logits"][::core::mem::offset_of!(RouterNoiseParams, logits) - 8usize];
    ["Offset of field: RouterNoiseParams::stream"][::core::mem::offset_of!(RouterNoiseParams, stream) - 16usize];
    ["Offset of field: RouterNoiseParams::logits_stride"]
        [::core::mem::offset_of!(RouterNoiseParams, logits_stride) - 24usize];
    ["Offset of field: RouterNoiseParams::t"][::core::mem::offset_of!(RouterNoiseParams, t) - 32usize];
    ["Offset of field: RouterNoiseParams::e"][::core::mem::offset_of!(RouterNoiseParams, e) - 40usize];
    ["Offset of field: RouterNoiseParams::reserved"][::core::mem::offset_of!(RouterNoiseParams, reserved) - 44usize];
};
#[doc = " The k experts of every token and their weights"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct RouteParams {
    #[doc = " [t, e] f32"]
    pub logits: u64,
    #[doc = " [e] f32: added to the scores for the selection"]
    pub bias: u64,
    #[doc = " [t, k] i32: experts to take instead of the best; may be absent"]
    pub forced: u64,
    #[doc = " [t, k] i32, overwritten: experts, best first"]
    pub idx: u64,
    #[doc = " [t, k] f32, overwritten"]
    pub weight: u64,
    #[doc = " [t, k] i32, overwritten: best experts without the bias; may be absent"]
    pub plain: u64,
    #[doc = " [t] f32, overwritten: sum of a token's scores + 1e-20; absent when plain is"]
    pub total: u64,
    #[doc = " elements from one row of logits to the next"]
    pub logits_stride: i64,
    #[doc = " of forced"]
    pub forced_stride: i64,
    #[doc = " of idx"]
    pub idx_stride: i64,
    #[doc = " of weight"]
    pub weight_stride: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " experts, 1 to 1024"]
    pub e: i32,
    #[doc = " experts per token, 1 to e"]
    pub k: i32,
    #[doc = " factor on the weights"]
    pub scale: f32,
    #[doc = " 1: divide by the sum of the selected scores"]
    pub normalize: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RouteParams"][::core::mem::size_of::<RouteParams>() - 112usize];
    ["Alignment of RouteParams"][::core::mem::align_of::<RouteParams>() - 8usize];
    ["Offset of field: RouteParams::logits"][::core::mem::offset_of!(RouteParams, logits) - 0usize];
    ["Offset of field: RouteParams::bias"][::core::mem::offset_of!(RouteParams, bias) - 8usize];
    ["Offset of field: RouteParams::forced"][::core::mem::offset_of!(RouteParams, forced) - 16usize];
    ["Offset of field: RouteParams::idx"][::core::mem::offset_of!(RouteParams, idx) - 24usize];
    ["Offset of field: RouteParams::weight"][::core::mem::offset_of!(RouteParams, weight) - 32usize];
    ["Offset of field: RouteParams::plain"][::core::mem::offset_of!(RouteParams, plain) - 40usize];
    ["Offset of field: RouteParams::total"][::core::mem::offset_of!(RouteParams, total) - 48usize];
    ["Offset of field: RouteParams::logits_stride"][::core::mem::offset_of!(RouteParams, logits_stride) - 56usize];
    ["Offset of field: RouteParams::forced_stride"][::core::mem::offset_of!(RouteParams, forced_stride) - 64usize];
    ["Offset of field: RouteParams::idx_stride"][::core::mem::offset_of!(RouteParams, idx_stride) - 72usize];
    ["Offset of field: RouteParams::weight_stride"][::core::mem::offset_of!(RouteParams, weight_stride) - 80usize];
    ["Offset of field: RouteParams::t"][::core::mem::offset_of!(RouteParams, t) - 88usize];
    ["Offset of field: RouteParams::e"][::core::mem::offset_of!(RouteParams, e) - 96usize];
    ["Offset of field: RouteParams::k"][::core::mem::offset_of!(RouteParams, k) - 100usize];
    ["Offset of field: RouteParams::scale"][::core::mem::offset_of!(RouteParams, scale) - 104usize];
    ["Offset of field: RouteParams::normalize"][::core::mem::offset_of!(RouteParams, normalize) - 108usize];
};
#[doc = " Counts of the selection and sums of the auxiliary loss, see csrc/moe/router_stats.cu"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct RouterStatsParams {
    #[doc = " [t, e] f32"]
    pub logits: u64,
    #[doc = " [t, k] i32"]
    pub idx: u64,
    #[doc = " [t, k] i32 of the selection without the bias; absent without auxiliary loss"]
    pub plain: u64,
    #[doc = " [t] f32: sums of scores; absent when plain is"]
    pub total: u64,
    #[doc = " [t] i32: 1 for padding; may be absent"]
    pub padding: u64,
    #[doc = " [rows chunks, e] f32, workspace; absent when plain is"]
    pub part_q: u64,
    #[doc = " [rows chunks, e] i32, workspace"]
    pub part_count: u64,
    #[doc = " [rows chunks, e] i32, workspace; absent when plain is"]
    pub part_plain: u64,
    #[doc = " [rows chunks] i32, workspace"]
    pub part_tokens: u64,
    #[doc = " [rows, e] i32, overwritten"]
    pub row_counts: u64,
    #[doc = " [e] i32, added to; may be absent"]
    pub counts: u64,
    #[doc = " [rows, e + 2] f32, overwritten; absent when plain is"]
    pub stats: u64,
    #[doc = " [1] f64, added to; absent when plain is"]
    pub metric: u64,
    #[doc = " of the auxiliary loss"]
    pub coefficient: f64,
    #[doc = " elements from one row of logits to the next"]
    pub logits_stride: i64,
    #[doc = " of idx"]
    pub idx_stride: i64,
    #[doc = " of row_counts"]
    pub row_counts_stride: i64,
    #[doc = " of stats"]
    pub stats_stride: i64,
    #[doc = " may be 0"]
    pub rows: i64,
    #[doc = " tokens of a row, at least 1"]
    pub row_len: i64,
    #[doc = " ceil(row_len / 64)"]
    pub chunks: i64,
    #[doc = " experts, 1 to 1024"]
    pub e: i32,
    #[doc = " experts per token, 1 to e"]
    pub k: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RouterStatsParams"][::core::mem::size_of::<RouterStatsParams>() - 176usize];
    ["Alignment of RouterStatsParams"][::core::mem::align_of::<RouterStatsParams>() - 8usize];
    ["Offset of field: RouterStatsParams::logits"][::core::mem::offset_of!(RouterStatsParams, logits) - 0usize];
    ["Offset of field: RouterStatsParams::idx"][::core::mem::offset_of!(RouterStatsParams, idx) - 8usize];
    ["Offset of field: RouterStatsParams::plain"][::core::mem::offset_of!(RouterStatsParams, plain) - 16usize];
    ["Offset of field: RouterStatsParams::total"][::core::mem::offset_of!(RouterStatsParams, total) - 24usize];
    ["Offset of field: RouterStatsParams::padding"][::core::mem::offset_of!(RouterStatsParams, padding) - 32usize];
    ["Offset of field: RouterStatsParams::part_q"][::core::mem::offset_of!(RouterStatsParams, part_q) - 40usize];
    ["Offset of field: RouterStatsParams::part_count"]
        [::core::mem::offset_of!(RouterStatsParams, part_count) - 48usize];
    ["Offset of field: RouterStatsParams::part_plain"]
        [::core::mem::offset_of!(RouterStatsParams, part_plain) - 56usize];
    ["Offset of field: RouterStatsParams::part_tokens"]
        [::core::mem::offset_of!(RouterStatsParams, part_tokens) - 64usize];
    ["Offset of field: RouterStatsParams::row_counts"]
        [::core::mem::offset_of!(RouterStatsParams, row_counts) - 72usize];
    ["Offset of field: RouterStatsParams::counts"][::core::mem::offset_of!(RouterStatsParams, counts) - 80usize];
    ["Offset of field: RouterStatsParams::stats"][::core::mem::offset_of!(RouterStatsParams, stats) - 88usize];
    ["Offset of field: RouterStatsParams::metric"][::core::mem::offset_of!(RouterStatsParams, metric) - 96usize];
    ["Offset of field: RouterStatsParams::coefficient"]
        [::core::mem::offset_of!(RouterStatsParams, coefficient) - 104usize];
    ["Offset of field: RouterStatsParams::logits_stride"]
        [::core::mem::offset_of!(RouterStatsParams, logits_stride) - 112usize];
    ["Offset of field: RouterStatsParams::idx_stride"]
        [::core::mem::offset_of!(RouterStatsParams, idx_stride) - 120usize];
    ["Offset of field: RouterStatsParams::row_counts_stride"]
        [::core::mem::offset_of!(RouterStatsParams, row_counts_stride) - 128usize];
    ["Offset of field: RouterStatsParams::stats_stride"]
        [::core::mem::offset_of!(RouterStatsParams, stats_stride) - 136usize];
    ["Offset of field: RouterStatsParams::rows"][::core::mem::offset_of!(RouterStatsParams, rows) - 144usize];
    ["Offset of field: RouterStatsParams::row_len"][::core::mem::offset_of!(RouterStatsParams, row_len) - 152usize];
    ["Offset of field: RouterStatsParams::chunks"][::core::mem::offset_of!(RouterStatsParams, chunks) - 160usize];
    ["Offset of field: RouterStatsParams::e"][::core::mem::offset_of!(RouterStatsParams, e) - 168usize];
    ["Offset of field: RouterStatsParams::k"][::core::mem::offset_of!(RouterStatsParams, k) - 172usize];
};
#[doc = " Gradient of the router's logits"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct RouterBwdParams {
    #[doc = " [t, e] f32"]
    pub logits: u64,
    #[doc = " [t, k] i32"]
    pub idx: u64,
    #[doc = " [t, k] f32"]
    pub weight: u64,
    #[doc = " [t, k] f32"]
    pub dweight: u64,
    #[doc = " [t] i32: 1 for padding; may be absent"]
    pub padding: u64,
    #[doc = " [rows, e + 2] f32 of the forward pass; absent without auxiliary loss"]
    pub stats: u64,
    #[doc = " [t, e] f32, overwritten"]
    pub dlogits: u64,
    #[doc = " elements from one row of logits to the next"]
    pub logits_stride: i64,
    #[doc = " of idx"]
    pub idx_stride: i64,
    #[doc = " of weight"]
    pub weight_stride: i64,
    #[doc = " of dweight"]
    pub dweight_stride: i64,
    #[doc = " of stats"]
    pub stats_stride: i64,
    #[doc = " of dlogits"]
    pub dlogits_stride: i64,
    #[doc = " rows of tokens"]
    pub rows: i64,
    #[doc = " tokens of a row, at least 1"]
    pub row_len: i64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
    #[doc = " experts, 1 to 1024"]
    pub e: i32,
    #[doc = " experts per token, 1 to e"]
    pub k: i32,
    #[doc = " factor on the weights"]
    pub scale: f32,
    #[doc = " of the auxiliary loss, divided by the rows"]
    pub coefficient: f32,
    #[doc = " 1 / micro-batches; 0: the micro-batch's tokens without padding"]
    pub share: f32,
    #[doc = " 1: the weights were divided by the sum of the selected scores"]
    pub normalize: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of RouterBwdParams"][::core::mem::size_of::<RouterBwdParams>() - 152usize];
    ["Alignment of RouterBwdParams"][::core::mem::align_of::<RouterBwdParams>() - 8usize];
    ["Offset of field: RouterBwdParams::logits"][::core::mem::offset_of!(RouterBwdParams, logits) - 0usize];
    ["Offset of field: RouterBwdParams::idx"][::core::mem::offset_of!(RouterBwdParams, idx) - 8usize];
    ["Offset of field: RouterBwdParams::weight"][::core::mem::offset_of!(RouterBwdParams, weight) - 16usize];
    ["Offset of field: RouterBwdParams::dweight"][::core::mem::offset_of!(RouterBwdParams, dweight) - 24usize];
    ["Offset of field: RouterBwdParams::padding"][::core::mem::offset_of!(RouterBwdParams, padding) - 32usize];
    ["Offset of field: RouterBwdParams::stats"][::core::mem::offset_of!(RouterBwdParams, stats) - 40usize];
    ["Offset of field: RouterBwdParams::dlogits"][::core::mem::offset_of!(RouterBwdParams, dlogits) - 48usize];
    ["Offset of field: RouterBwdParams::logits_stride"]
        [::core::mem::offset_of!(RouterBwdParams, logits_stride) - 56usize];
    ["Offset of field: RouterBwdParams::idx_stride"][::core::mem::offset_of!(RouterBwdParams, idx_stride) - 64usize];
    ["Offset of field: RouterBwdParams::weight_stride"]
        [::core::mem::offset_of!(RouterBwdParams, weight_stride) - 72usize];
    ["Offset of field: RouterBwdParams::dweight_stride"]
        [::core::mem::offset_of!(RouterBwdParams, dweight_stride) - 80usize];
    ["Offset of field: RouterBwdParams::stats_stride"]
        [::core::mem::offset_of!(RouterBwdParams, stats_stride) - 88usize];
    ["Offset of field: RouterBwdParams::dlogits_stride"]
        [::core::mem::offset_of!(RouterBwdParams, dlogits_stride) - 96usize];
    ["Offset of field: RouterBwdParams::rows"][::core::mem::offset_of!(RouterBwdParams, rows) - 104usize];
    ["Offset of field: RouterBwdParams::row_len"][::core::mem::offset_of!(RouterBwdParams, row_len) - 112usize];
    ["Offset of field: RouterBwdParams::t"][::core::mem::offset_of!(RouterBwdParams, t) - 120usize];
    ["Offset of field: RouterBwdParams::e"][::core::mem::offset_of!(RouterBwdParams, e) - 128usize];
    ["Offset of field: RouterBwdParams::k"][::core::mem::offset_of!(RouterBwdParams, k) - 132usize];
    ["Offset of field: RouterBwdParams::scale"][::core::mem::offset_of!(RouterBwdParams, scale) - 136usize];
    ["Offset of field: RouterBwdParams::coefficient"][::core::mem::offset_of!(RouterBwdParams, coefficient) - 140usize];
    ["Offset of field: RouterBwdParams::share"][::core::mem::offset_of!(RouterBwdParams, share) - 144usize];
    ["Offset of field: RouterBwdParams::normalize"][::core::mem::offset_of!(RouterBwdParams, normalize) - 148usize];
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
#[doc = " N = sum_t mask_t and the factor of the gradients of a head: factor / max(N, 1), times share or, where that is 0, N of\n the LM head"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct LossScaleParams {
    #[doc = " [t]: 0 or 1, of the head"]
    pub mask: u64,
    #[doc = " [lm_t]: of the LM head"]
    pub lm_mask: u64,
    #[doc = " [1], overwritten: N of the head"]
    pub tokens: u64,
    #[doc = " [1], overwritten"]
    pub scale: u64,
    #[doc = " tokens of the head, may be 0"]
    pub t: i64,
    #[doc = " tokens of the LM head, may be 0"]
    pub lm_t: i64,
    #[doc = " factor of the head's loss"]
    pub factor: f64,
    #[doc = " 1 / micro-batches; 0: every token counts the same"]
    pub share: f64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of LossScaleParams"][::core::mem::size_of::<LossScaleParams>() - 64usize];
    ["Alignment of LossScaleParams"][::core::mem::align_of::<LossScaleParams>() - 8usize];
    ["Offset of field: LossScaleParams::mask"][::core::mem::offset_of!(LossScaleParams, mask) - 0usize];
    ["Offset of field: LossScaleParams::lm_mask"][::core::mem::offset_of!(LossScaleParams, lm_mask) - 8usize];
    ["Offset of field: LossScaleParams::tokens"][::core::mem::offset_of!(LossScaleParams, tokens) - 16usize];
    ["Offset of field: LossScaleParams::scale"][::core::mem::offset_of!(LossScaleParams, scale) - 24usize];
    ["Offset of field: LossScaleParams::t"][::core::mem::offset_of!(LossScaleParams, t) - 32usize];
    ["Offset of field: LossScaleParams::lm_t"][::core::mem::offset_of!(LossScaleParams, lm_t) - 40usize];
    ["Offset of field: LossScaleParams::factor"][::core::mem::offset_of!(LossScaleParams, factor) - 48usize];
    ["Offset of field: LossScaleParams::share"][::core::mem::offset_of!(LossScaleParams, share) - 56usize];
};
#[doc = " ce_t = max_v z + ln sum_v e^(z - max) - z_label and, in place of z, act(c_t (softmax_v(z) - [v = label])) with\n c_t = scale where the mask is not 0, else 0"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct LossRowsParams {
    #[doc = " [rows, v] act, overwritten with the gradients if with_gradient"]
    pub logits: u64,
    #[doc = " [rows]; outside of 0..v: ce is 0 and no logit is the label"]
    pub label: u64,
    #[doc = " [rows]: 0 or 1"]
    pub mask: u64,
    #[doc = " [1]"]
    pub scale: u64,
    #[doc = " [rows], overwritten"]
    pub ce: u64,
    #[doc = " [rows], overwritten: 1 where mask is not 0 and the first largest logit is the label"]
    pub hit: u64,
    #[doc = " elements from one row of logits to the next"]
    pub stride: i64,
    #[doc = " may be 0"]
    pub rows: i64,
    #[doc = " vocabulary, at least 1"]
    pub v: i32,
    #[doc = " 0: logits stay"]
    pub with_gradient: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of LossRowsParams"][::core::mem::size_of::<LossRowsParams>() - 72usize];
    ["Alignment of LossRowsParams"][::core::mem::align_of::<LossRowsParams>() - 8usize];
    ["Offset of field: LossRowsParams::logits"][::core::mem::offset_of!(LossRowsParams, logits) - 0usize];
    ["Offset of field: LossRowsParams::label"][::core::mem::offset_of!(LossRowsParams, label) - 8usize];
    ["Offset of field: LossRowsParams::mask"][::core::mem::offset_of!(LossRowsParams, mask) - 16usize];
    ["Offset of field: LossRowsParams::scale"][::core::mem::offset_of!(LossRowsParams, scale) - 24usize];
    ["Offset of field: LossRowsParams::ce"][::core::mem::offset_of!(LossRowsParams, ce) - 32usize];
    ["Offset of field: LossRowsParams::hit"][::core::mem::offset_of!(LossRowsParams, hit) - 40usize];
    ["Offset of field: LossRowsParams::stride"][::core::mem::offset_of!(LossRowsParams, stride) - 48usize];
    ["Offset of field: LossRowsParams::rows"][::core::mem::offset_of!(LossRowsParams, rows) - 56usize];
    ["Offset of field: LossRowsParams::v"][::core::mem::offset_of!(LossRowsParams, v) - 64usize];
    ["Offset of field: LossRowsParams::with_gradient"]
        [::core::mem::offset_of!(LossRowsParams, with_gradient) - 68usize];
};
#[doc = " metric += (sum of masked ce, N, sum / max(N, 1), sum of hits)"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct LossMetricParams {
    #[doc = " [t]"]
    pub ce: u64,
    #[doc = " [t]"]
    pub mask: u64,
    #[doc = " [t]"]
    pub hit: u64,
    #[doc = " [1]: N"]
    pub tokens: u64,
    #[doc = " [4], added to"]
    pub metric: u64,
    #[doc = " tokens, may be 0"]
    pub t: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of LossMetricParams"][::core::mem::size_of::<LossMetricParams>() - 48usize];
    ["Alignment of LossMetricParams"][::core::mem::align_of::<LossMetricParams>() - 8usize];
    ["Offset of field: LossMetricParams::ce"][::core::mem::offset_of!(LossMetricParams, ce) - 0usize];
    ["Offset of field: LossMetricParams::mask"][::core::mem::offset_of!(LossMetricParams, mask) - 8usize];
    ["Offset of field: LossMetricParams::hit"][::core::mem::offset_of!(LossMetricParams, hit) - 16usize];
    ["Offset of field: LossMetricParams::tokens"][::core::mem::offset_of!(LossMetricParams, tokens) - 24usize];
    ["Offset of field: LossMetricParams::metric"][::core::mem::offset_of!(LossMetricParams, metric) - 32usize];
    ["Offset of field: LossMetricParams::t"][::core::mem::offset_of!(LossMetricParams, t) - 40usize];
};
#[doc = " partial_i = sum of the squares of 16384 elements"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct GradSquaresParams {
    #[doc = " [n] grad"]
    pub gradients: u64,
    #[doc = " [ceil(n / 16384)] f64, overwritten"]
    pub partial: u64,
    #[doc = " elements, may be 0"]
    pub n: i64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of GradSquaresParams"][::core::mem::size_of::<GradSquaresParams>() - 24usize];
    ["Alignment of GradSquaresParams"][::core::mem::align_of::<GradSquaresParams>() - 8usize];
    ["Offset of field: GradSquaresParams::gradients"][::core::mem::offset_of!(GradSquaresParams, gradients) - 0usize];
    ["Offset of field: GradSquaresParams::partial"][::core::mem::offset_of!(GradSquaresParams, partial) - 8usize];
    ["Offset of field: GradSquaresParams::n"][::core::mem::offset_of!(GradSquaresParams, n) - 16usize];
};
#[doc = " Norm, clipping, schedule and counters of a step, see csrc/optim/step_control.cu"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct StepControlParams {
    #[doc = " [blocks] f64: sums of squares"]
    pub partial: u64,
    #[doc = " [slots] f64, updated"]
    pub state: u64,
    #[doc = " [1] f64: loss tokens of the step; absent without per-token loss"]
    pub tokens: u64,
    #[doc = " may be 0"]
    pub blocks: i64,
    #[doc = " of the schedule"]
    pub warmup_samples: u64,
    #[doc = " above warmup_samples"]
    pub decay_samples: u64,
    #[doc = " of the last phase of a warm-up-stable-decay schedule"]
    pub wsd_samples: u64,
    #[doc = " learning rate at the start of the warm-up"]
    pub init_lr: f64,
    #[doc = " largest learning rate"]
    pub max_lr: f64,
    #[doc = " smallest learning rate"]
    pub min_lr: f64,
    #[doc = " at the start"]
    pub start_weight_decay: f64,
    #[doc = " after decay_samples"]
    pub end_weight_decay: f64,
    #[doc = " largest norm; 0 turns clipping off"]
    pub clip: f64,
    #[doc = " Adam's decay rate of the first moment"]
    pub beta1: f64,
    #[doc = " of the second moment"]
    pub beta2: f64,
    #[doc = " shape: 0 constant, 1 linear, 2 cosine, 3 inverse square root, 4 warm-up-stable-decay"]
    pub decay: i32,
    #[doc = " shape of the last phase: 0 linear, 1 cosine, 2 exponential, 3 minus square root"]
    pub wsd_style: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of StepControlParams"][::core::mem::size_of::<StepControlParams>() - 128usize];
    ["Alignment of StepControlParams"][::core::mem::align_of::<StepControlParams>() - 8usize];
    ["Offset of field: StepControlParams::partial"][::core::mem::offset_of!(StepControlParams, partial) - 0usize];
    ["Offset of field: StepControlParams::state"][::core::mem::offset_of!(StepControlParams, state) - 8usize];
    ["Offset of field: StepControlParams::tokens"][::core::mem::offset_of!(StepControlParams, tokens) - 16usize];
    ["Offset of field: StepControlParams::blocks"][::core::mem::offset_of!(StepControlParams, blocks) - 24usize];
    ["Offset of field: StepControlParams::warmup_samples"]
        [::core::mem::offset_of!(StepControlParams, warmup_samples) - 32usize];
    ["Offset of field: StepControlParams::decay_samples"]
        [::core::mem::offset_of!(StepControlParams, decay_samples) - 40usize];
    ["Offset of field: StepControlParams::wsd_samples"]
        [::core::mem::offset_of!(StepControlParams, wsd_samples) - 48usize];
    ["Offset of field: StepControlParams::init_lr"][::core::mem::offset_of!(StepControlParams, init_lr) - 56usize];
    ["Offset of field: StepControlParams::max_lr"][::core::mem::offset_of!(StepControlParams, max_lr) - 64usize];
    ["Offset of field: StepControlParams::min_lr"][::core::mem::offset_of!(StepControlParams, min_lr) - 72usize];
    ["Offset of field: StepControlParams::start_weight_decay"]
        [::core::mem::offset_of!(StepControlParams, start_weight_decay) - 80usize];
    ["Offset of field: StepControlParams::end_weight_decay"]
        [::core::mem::offset_of!(StepControlParams, end_weight_decay) - 88usize];
    ["Offset of field: StepControlParams::clip"][::core::mem::offset_of!(StepControlParams, clip) - 96usize];
    ["Offset of field: StepControlParams::beta1"][::core::mem::offset_of!(StepControlParams, beta1) - 104usize];
    ["Offset of field: StepControlParams::beta2"][::core::mem::offset_of!(StepControlParams, beta2) - 112usize];
    ["Offset of field: StepControlParams::decay"][::core::mem::offset_of!(StepControlParams, decay) - 120usize];
    ["Offset of field: StepControlParams::wsd_style"][::core::mem::offset_of!(StepControlParams, wsd_style) - 124usize];
};
#[doc = " One step of AdamW on one parameter"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct AdamWParams {
    #[doc = " [n] grad"]
    pub gradient: u64,
    #[doc = " [n] f32, updated"]
    pub master: u64,
    #[doc = " [n] bf16, overwritten: the rounded master; absent where the master is the weight"]
    pub param: u64,
    #[doc = " [n] f32, updated: first moment"]
    pub m: u64,
    #[doc = " [n] f32, updated: second moment"]
    pub v: u64,
    #[doc = " [slots] f64: what the step control decided"]
    pub state: u64,
    #[doc = " elements, may be 0"]
    pub n: i64,
    #[doc = " decay rate of the first moment"]
    pub beta1: f32,
    #[doc = " of the second moment"]
    pub beta2: f32,
    #[doc = " 1 - beta1, rounded once"]
    pub rest1: f32,
    #[doc = " 1 - beta2"]
    pub rest2: f32,
    #[doc = " added to the root of the second moment"]
    pub eps: f32,
    #[doc = " 1: weight decay applies"]
    pub decay: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of AdamWParams"][::core::mem::size_of::<AdamWParams>() - 80usize];
    ["Alignment of AdamWParams"][::core::mem::align_of::<AdamWParams>() - 8usize];
    ["Offset of field: AdamWParams::gradient"][::core::mem::offset_of!(AdamWParams, gradient) - 0usize];
    ["Offset of field: AdamWParams::master"][::core::mem::offset_of!(AdamWParams, master) - 8usize];
    ["Offset of field: AdamWParams::param"][::core::mem::offset_of!(AdamWParams, param) - 16usize];
    ["Offset of field: AdamWParams::m"][::core::mem::offset_of!(AdamWParams, m) - 24usize];
    ["Offset of field: AdamWParams::v"][::core::mem::offset_of!(AdamWParams, v) - 32usize];
    ["Offset of field: AdamWParams::state"][::core::mem::offset_of!(AdamWParams, state) - 40usize];
    ["Offset of field: AdamWParams::n"][::core::mem::offset_of!(AdamWParams, n) - 48usize];
    ["Offset of field: AdamWParams::beta1"][::core::mem::offset_of!(AdamWParams, beta1) - 56usize];
    ["Offset of field: AdamWParams::beta2"][::core::mem::offset_of!(AdamWParams, beta2) - 60usize];
    ["Offset of field: AdamWParams::rest1"][::core::mem::offset_of!(AdamWParams, rest1) - 64usize];
    ["Offset of field: AdamWParams::rest2"][::core::mem::offset_of!(AdamWParams, rest2) - 68usize];
    ["Offset of field: AdamWParams::eps"][::core::mem::offset_of!(AdamWParams, eps) - 72usize];
    ["Offset of field: AdamWParams::decay"][::core::mem::offset_of!(AdamWParams, decay) - 76usize];
};
#[doc = " b_e += rate sign(mean(c) - c_e);  last = c;  c = 0"]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq)]
pub struct ExpertBiasUpdateParams {
    #[doc = " [e] i32, updated: tokens per expert of this step, then 0"]
    pub counts: u64,
    #[doc = " [e] f32, updated"]
    pub bias: u64,
    #[doc = " [e] i32, overwritten: the counts"]
    pub last: u64,
    #[doc = " size of a move"]
    pub rate: f32,
    #[doc = " experts, at least 1"]
    pub e: i32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ExpertBiasUpdateParams"][::core::mem::size_of::<ExpertBiasUpdateParams>() - 32usize];
    ["Alignment of ExpertBiasUpdateParams"][::core::mem::align_of::<ExpertBiasUpdateParams>() - 8usize];
    ["Offset of field: ExpertBiasUpdateParams::counts"]
        [::core::mem::offset_of!(ExpertBiasUpdateParams, counts) - 0usize];
    ["Offset of field: ExpertBiasUpdateParams::bias"][::core::mem::offset_of!(ExpertBiasUpdateParams, bias) - 8usize];
    ["Offset of field: ExpertBiasUpdateParams::last"][::core::mem::offset_of!(ExpertBiasUpdateParams, last) - 16usize];
    ["Offset of field: ExpertBiasUpdateParams::rate"][::core::mem::offset_of!(ExpertBiasUpdateParams, rate) - 24usize];
    ["Offset of field: ExpertBiasUpdateParams::e"][::core::mem::offset_of!(ExpertBiasUpdateParams, e) - 28usize];
};
