//! Time steps of the scan: csrc/mamba/softplus_dt.cu. Sums of partial sums: csrc/mamba/sum_partials.cu.

use super::GpuKernel;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{SoftplusDtBwd, SoftplusDtFwd};
use crate::tensor::{DType, Tensor};
use kernels_sys::{SoftplusDtBwdParams, SoftplusDtFwdParams, SumPartialsParams};

/// Tokens of a block of the forward pass.
const FWD_TOKENS: usize = 32;
/// Tokens of a block of the backward pass, which have a row of partial sums.
const BWD_TOKENS: usize = 64;

/// Sums `blocks` rows of f32 partial sums, `stride` elements apart, into a gradient of one row.
pub(super) fn sum_partials(
    gpu: &mut Lowering<'_>,
    partial: u64,
    (blocks, stride): (usize, usize),
    out: Tensor,
    accumulate: bool,
) -> Result<(), CoreError> {
    let columns = out.rows * out.cols;
    debug_assert!(out.rows == 1 || out.ld == out.cols, "a gradient without gaps");
    let params = SumPartialsParams {
        partial,
        out: gpu.address(out),
        partial_stride: stride as i64,
        blocks: blocks as i64,
        columns: columns as i64,
        out_bf16: i32::from(out.dtype == DType::BF16),
        accumulate: i32::from(accumulate),
    };
    gpu.launch("sum_partials", columns.div_ceil(32), params)
}

impl GpuKernel for SoftplusDtFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let params = SoftplusDtFwdParams {
            raw: gpu.address(self.raw),
            bias: gpu.address(self.bias),
            delta: gpu.address(self.delta),
            raw_stride: self.raw.ld as i64,
            delta_stride: self.delta.ld as i64,
            t: self.raw.rows as i64,
            h: self.raw.cols as i32,
            dt_min: self.dt_min as f32,
        };
        gpu.launch_for("softplus_dt_fwd", self.raw.dtype, self.raw.rows.div_ceil(FWD_TOKENS), params)
    }
}

impl GpuKernel for SoftplusDtBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let blocks = self.raw.rows.div_ceil(BWD_TOKENS);
        let params = SoftplusDtBwdParams {
            ddelta: gpu.address(self.ddelta),
            raw: gpu.address(self.raw),
            bias: gpu.address(self.bias),
            draw: gpu.address(self.draw),
            dbias_partial: gpu.address(self.partial),
            ddelta_stride: self.ddelta.ld as i64,
            raw_stride: self.raw.ld as i64,
            draw_stride: self.draw.ld as i64,
            partial_stride: self.partial.ld as i64,
            t: self.raw.rows as i64,
            h: self.raw.cols as i32,
            dt_min: self.dt_min as f32,
        };
        let grid = (blocks, self.raw.cols.div_ceil(32));
        gpu.launch_for("softplus_dt_bwd", self.draw.dtype, grid, params)?;
        let partial = gpu.address(self.partial);
        sum_partials(gpu, partial, (blocks, self.partial.ld), self.dbias, self.accumulate)
    }
}
