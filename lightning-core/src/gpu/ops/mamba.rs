//! Time steps of the scan: csrc/mamba/softplus_dt.cu.

use super::GpuKernel;
use super::reduce::sum_blocks;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{SoftplusDtBwd, SoftplusDtFwd};
use kernels_sys::{SoftplusDtBwdParams, SoftplusDtFwdParams};

/// Tokens of a block of the forward pass.
const FWD_TOKENS: usize = 32;
/// Tokens of a block of the backward pass, which have a row of partial sums.
const BWD_TOKENS: usize = 64;

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
        sum_blocks(gpu, self.partial, blocks, self.dbias, self.accumulate)
    }
}
