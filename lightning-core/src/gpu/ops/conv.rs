//! Causal convolution with SiLU: csrc/conv/conv_silu.cu.

use super::GpuKernel;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{ConvSiluBwd, ConvSiluFwd};
use crate::program::Operation;
use crate::tensor::DType;
use alloc::format;
use kernels_sys::{ConvSiluBwdDwParams, ConvSiluBwdParams, ConvSiluFwdParams};

/// Channels of a block.
const CHANNELS: usize = 64;
/// Tokens of a block of the forward pass.
const FWD_TOKENS: usize = 32;
/// Taps that the backward kernel has room for.
const MAX_TAPS: usize = 8;

impl GpuKernel for ConvSiluFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let params = ConvSiluFwdParams {
            x: gpu.address(self.x),
            w: gpu.address(self.w),
            b: gpu.address(self.b),
            start: gpu.address(self.start),
            y: gpu.address(self.y),
            x_stride: self.x.ld as i64,
            w_stride: self.w.ld as i64,
            y_stride: self.y.ld as i64,
            t: self.x.rows as i64,
            c: self.x.cols as i64,
            taps: self.w.cols as i32,
            reserved: 0,
        };
        if gpu.naive() {
            let elements = self.x.rows * self.x.cols;
            return gpu.launch_for("conv_silu_fwd_naive", self.y.dtype, elements.div_ceil(128), params);
        }
        let grid = (self.x.rows.div_ceil(FWD_TOKENS), self.x.cols.div_ceil(CHANNELS));
        gpu.launch_for("conv_silu_fwd", self.y.dtype, grid, params)
    }
}

impl GpuKernel for ConvSiluBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let (tokens, channels, taps) = (self.x.rows, self.x.cols, self.w.cols);
        if taps > MAX_TAPS {
            return Err(CoreError::Shape {
                what: "taps of the convolution on a GPU".into(),
                expected: format!("at most {MAX_TAPS}"),
                found: format!("{taps}; use --device cpu"),
            });
        }
        let mut blocks = tokens.div_ceil(ConvSiluBwd::GPU_BLOCK);
        let partial = gpu.scratch(self.gpu_scratch());
        let params = ConvSiluBwdParams {
            dy: gpu.address(self.dy),
            x: gpu.address(self.x),
            w: gpu.address(self.w),
            b: gpu.address(self.b),
            start: gpu.address(self.start),
            dx: gpu.address(self.dx),
            partial,
            dy_stride: self.dy.ld as i64,
            x_stride: self.x.ld as i64,
            w_stride: self.w.ld as i64,
            dx_stride: self.dx.ld as i64,
            t: tokens as i64,
            c: channels as i64,
            taps: taps as i32,
            reserved: 0,
        };
        if gpu.naive() {
            let elements = if tokens == 0 { 0 } else { tokens.max(taps + 1) * channels };
            gpu.launch_for("conv_silu_bwd_naive", self.dy.dtype, elements.div_ceil(128), params)?;
            blocks = blocks.min(1);
        } else {
            let grid = (blocks, channels.div_ceil(CHANNELS));
            gpu.launch_for("conv_silu_bwd", self.dy.dtype, grid, params)?;
        }
        let params = ConvSiluBwdDwParams {
            partial,
            dw: gpu.address(self.dw),
            db: gpu.address(self.db),
            dw_stride: self.dw.ld as i64,
            blocks: blocks as i64,
            c: channels as i64,
            taps: taps as i32,
            out_bf16: i32::from(self.dw.dtype == DType::BF16),
            accumulate: i32::from(self.accumulate),
            reserved: 0,
        };
        debug_assert_eq!(self.dw.dtype, self.db.dtype, "gradients of one layer have one type");
        gpu.launch("conv_silu_bwd_dw", (channels.div_ceil(32), taps + 1), params)
    }
}
