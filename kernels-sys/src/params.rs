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
    #[doc = " see the kernel"]
    pub a: u64,
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
    pub max_lr: f64,
    pub min_lr: f64,
    pub start_weight_decay: f64,
    pub end_weight_decay: f64,
    #[doc = " largest norm; 0 turns clipping off"]
    pub clip: f64,
    #[doc = " Adam's decay rates"]
    pub beta1: f64,
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
    #[doc = " decay rates"]
    pub beta1: f32,
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
