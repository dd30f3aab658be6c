//! Sums of block partials and fills: csrc/reduce/.

use super::GpuKernel;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::Fill;
use crate::tensor::{DType, Tensor};
use kernels_sys::{FillParams, SumBlocksParams};

/// Adds the launch of `dst (+)= sum over the first `blocks` rows of `partial``, in a fixed order; `dst` is f32 or bf16.
///
/// # Errors
/// As [`Lowering::launch`].
pub(super) fn sum_blocks(
    gpu: &mut Lowering<'_>,
    partial: Tensor,
    blocks: usize,
    dst: Tensor,
    accumulate: bool,
) -> Result<(), CoreError> {
    let address = gpu.address(partial);
    sum_blocks_at(gpu, address, (blocks, partial.ld), dst, accumulate)
}

/// [`sum_blocks`] for `blocks` rows in the workspace, `stride` elements apart.
///
/// # Errors
/// As [`Lowering::launch`].
pub(super) fn sum_blocks_at(
    gpu: &mut Lowering<'_>,
    partial: u64,
    (blocks, stride): (usize, usize),
    dst: Tensor,
    accumulate: bool,
) -> Result<(), CoreError> {
    let params = SumBlocksParams {
        partial,
        dst: gpu.address(dst),
        partial_stride: stride as i64,
        blocks: blocks as i64,
        n: dst.len() as i64,
        accumulate: i32::from(accumulate),
        reserved: 0,
    };
    gpu.launch_for("sum_blocks", dst.dtype, dst.len().div_ceil(32), params)
}

/// Adds the launch that sets every element of `dst` to `value`, rounded to its type.
///
/// # Errors
/// As [`Lowering::launch`].
pub(super) fn fill(gpu: &mut Lowering<'_>, dst: Tensor, value: f64) -> Result<(), CoreError> {
    let dst = if dst.is_contiguous() { dst.flat() } else { dst };
    if dst.is_empty() {
        return Ok(());
    }
    let params = FillParams {
        dst: gpu.address(dst),
        value: bits(value, dst.dtype),
        stride: dst.ld as i64,
        rows: dst.rows as i64,
        cols: dst.cols as i64,
        size: dst.dtype.size() as i32,
        reserved: 0,
    };
    // A block writes 16 KiB at a time; see kThreads and kStores.
    let pieces = dst.rows * (dst.cols * dst.dtype.size()).div_ceil(16 << 10);
    let grid = pieces.min(8 * gpu.multiprocessors());
    gpu.launch("fill", grid, params)
}

/// The bits of a value as a type stores it, in the low bytes.
fn bits(value: f64, dtype: DType) -> u64 {
    match dtype {
        DType::F64 => value.to_bits(),
        DType::F32 => u64::from((value as f32).to_bits()),
        DType::BF16 => u64::from(half::bf16::from_f32(value as f32).to_bits()),
        DType::I32 => u64::from((value as i32).cast_unsigned()),
    }
}

impl GpuKernel for Fill {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        fill(gpu, self.dst, self.value)
    }
}
