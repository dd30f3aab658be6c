//! Residual add and RMSNorm: csrc/norm/rms_norm.cu. Gated RMSNorm: csrc/norm/gated_rms_norm.cu.

use super::reduce::sum_blocks;
use super::{GpuKernel, row_grid};
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{GatedRmsNormBwd, GatedRmsNormFwd, RmsNormBwd, RmsNormFwd};
use kernels_sys::{GatedRmsNormBwdParams, GatedRmsNormFwdParams, RmsNormBwdParams, RmsNormFwdParams};

impl GpuKernel for RmsNormFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let stride = |t: Option<crate::tensor::Tensor>| t.map_or(0, |t| t.ld as i64);
        let params = RmsNormFwdParams {
            x: gpu.address(self.x),
            b: gpu.optional(self.branch),
            x_out: gpu.optional(self.x_out),
            y: gpu.address(self.y),
            w: gpu.address(self.w),
            rstd: gpu.address(self.rstd),
            x_stride: self.x.ld as i64,
            b_stride: stride(self.branch),
            x_out_stride: stride(self.x_out),
            y_stride: self.y.ld as i64,
            t: self.x.rows as i64,
            h: self.x.cols as i32,
            eps: self.eps as f32,
        };
        gpu.launch_for("rms_norm_fwd", self.y.dtype, row_grid(gpu, self.x.rows), params)
    }
}

impl GpuKernel for RmsNormBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        // The partial sums have a row for as many tokens as the processor sums at a time.
        let block_tokens = self.dy.rows.div_ceil(self.partial.rows).max(1);
        let blocks = self.dy.rows.div_ceil(block_tokens);
        let params = RmsNormBwdParams {
            dy: gpu.address(self.dy),
            x: gpu.address(self.x),
            w: gpu.address(self.w),
            rstd: gpu.address(self.rstd),
            d_res: gpu.address(self.dx),
            dw_partial: gpu.address(self.partial),
            dy_stride: self.dy.ld as i64,
            x_stride: self.x.ld as i64,
            d_res_stride: self.dx.ld as i64,
            t: self.dy.rows as i64,
            h: self.dy.cols as i32,
            block_tokens: block_tokens as i32,
            accumulate: i32::from(self.accumulate_dx),
            reserved: 0,
        };
        gpu.launch_for("rms_norm_bwd", self.dy.dtype, blocks, params)?;
        sum_blocks(gpu, self.partial, blocks, self.dw, self.accumulate_dw)
    }
}

/// Tokens of a block of the gated norm's backward pass, which have a row of partial sums.
const GATED_BWD_TOKENS: usize = 64;

impl GpuKernel for GatedRmsNormFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let params = GatedRmsNormFwdParams {
            y: gpu.address(self.y),
            z: gpu.address(self.z),
            w: gpu.address(self.w),
            o: gpu.address(self.o),
            rstd: gpu.address(self.rstd),
            y_stride: self.y.ld as i64,
            z_stride: self.z.ld as i64,
            o_stride: self.o.ld as i64,
            rstd_stride: self.rstd.ld as i64,
            t: self.y.rows as i64,
            groups: self.groups as i32,
            width: (self.y.cols / self.groups) as i32,
            eps: self.eps as f32,
            reserved: 0,
        };
        let items = self.y.rows * self.groups;
        if gpu.naive() {
            return gpu.launch_for("gated_rms_norm_fwd_naive", self.o.dtype, items.div_ceil(128), params);
        }
        gpu.launch_for("gated_rms_norm_fwd", self.o.dtype, items.div_ceil(8), params)
    }
}

impl GpuKernel for GatedRmsNormBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let blocks = self.y.rows.div_ceil(GATED_BWD_TOKENS);
        let params = GatedRmsNormBwdParams {
            dout: gpu.address(self.dout),
            y: gpu.address(self.y),
            z: gpu.address(self.z),
            w: gpu.address(self.w),
            rstd: gpu.address(self.rstd),
            dy: gpu.address(self.dy),
            dz: gpu.address(self.dz),
            dw_partial: gpu.address(self.partial),
            dout_stride: self.dout.ld as i64,
            y_stride: self.y.ld as i64,
            z_stride: self.z.ld as i64,
            rstd_stride: self.rstd.ld as i64,
            dy_stride: self.dy.ld as i64,
            dz_stride: self.dz.ld as i64,
            partial_stride: self.partial.ld as i64,
            t: self.y.rows as i64,
            groups: self.groups as i32,
            width: (self.y.cols / self.groups) as i32,
        };
        if gpu.naive() {
            let items = (self.y.rows * self.groups).max(self.y.cols);
            gpu.launch_for("gated_rms_norm_bwd_naive", self.dout.dtype, items.div_ceil(128), params)?;
            return sum_blocks(gpu, self.partial, 1, self.dw, self.accumulate);
        }
        gpu.launch_for("gated_rms_norm_bwd", self.dout.dtype, (blocks, self.groups), params)?;
        sum_blocks(gpu, self.partial, blocks, self.dw, self.accumulate)
    }
}
