//! Step control, AdamW, expert bias: csrc/optim/.

use super::GpuKernel;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{AdamW, ExpertBiasUpdate, StepControl};
use crate::optim::{Decay, WsdStyle};
use crate::tensor::DType;
use alloc::format;
use kernels_sys::{AdamWParams, ExpertBiasUpdateParams, GradSquaresParams, StepControlParams};

/// Blocks of elements that a thread block sums the squares of.
const SQUARES_PER_BLOCK: usize = 16;

impl GpuKernel for StepControl {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let partial = gpu.address(self.partial);
        let n = self.gradients.len() as i64;
        let params = GradSquaresParams { gradients: gpu.address(self.gradients), partial, n };
        let blocks = Self::blocks(self.gradients);
        gpu.launch_for("grad_squares", self.gradients.dtype, blocks.div_ceil(SQUARES_PER_BLOCK), params)?;
        let schedule = &self.schedule;
        let (decay, wsd_style) = match schedule.decay {
            Decay::Constant => (0, 0),
            Decay::Linear => (1, 0),
            Decay::Cosine => (2, 0),
            Decay::InverseSquareRoot => (3, 0),
            Decay::Wsd(WsdStyle::Linear) => (4, 0),
            Decay::Wsd(WsdStyle::Cosine) => (4, 1),
            Decay::Wsd(WsdStyle::Exponential) => (4, 2),
            Decay::Wsd(WsdStyle::MinusSqrt) => (4, 3),
        };
        let params = StepControlParams {
            partial,
            state: gpu.address(self.state),
            tokens: gpu.optional(self.tokens),
            blocks: blocks as i64,
            warmup_samples: schedule.warmup_samples,
            decay_samples: schedule.decay_samples,
            wsd_samples: schedule.wsd_samples,
            init_lr: schedule.init_lr,
            max_lr: schedule.max_lr,
            min_lr: schedule.min_lr,
            start_weight_decay: schedule.start_weight_decay,
            end_weight_decay: schedule.end_weight_decay,
            clip: self.clip,
            beta1: self.betas.0,
            beta2: self.betas.1,
            decay,
            wsd_style,
        };
        gpu.launch("step_control", 1, params)
    }
}

impl GpuKernel for AdamW {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let types = (self.param.dtype, self.master.map(|m| m.dtype));
        let (master, param) = match (types, self.master) {
            ((DType::BF16, Some(DType::F32)), Some(master)) => (master, gpu.address(self.param)),
            ((DType::F32, None), None) => (self.param, 0),
            _ => {
                return Err(CoreError::Device {
                    doing: "lowering `adamw`".into(),
                    reason: format!(
                        "there is no kernel for a weight of {} with a master of {:?}; use --device cpu",
                        types.0, types.1
                    ),
                });
            }
        };
        let n = self.param.len();
        let params = AdamWParams {
            gradient: gpu.address(self.gradient),
            master: gpu.address(master),
            param,
            m: gpu.address(self.m),
            v: gpu.address(self.v),
            state: gpu.address(self.state),
            n: n as i64,
            beta1: self.betas.0 as f32,
            beta2: self.betas.1 as f32,
            rest1: (1.0 - self.betas.0) as f32,
            rest2: (1.0 - self.betas.1) as f32,
            eps: self.eps as f32,
            decay: i32::from(self.decay),
        };
        // A few elements per thread pay for the numbers of the step; eight blocks of 256 threads fill a multiprocessor.
        let grid = n.div_ceil(4 * 256).min(8 * gpu.multiprocessors());
        gpu.launch_for("adamw", self.gradient.dtype, grid, params)
    }
}

impl GpuKernel for ExpertBiasUpdate {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        if self.bias.dtype != DType::F32 {
            return Err(CoreError::Device {
                doing: "lowering `expert_bias_update`".into(),
                reason: format!("there is no kernel for a bias of {}; use --device cpu", self.bias.dtype),
            });
        }
        let params = ExpertBiasUpdateParams {
            counts: gpu.address(self.counts),
            bias: gpu.address(self.bias),
            last: gpu.address(self.last),
            rate: self.rate as f32,
            e: self.counts.len() as i32,
        };
        gpu.launch("expert_bias_update", 1, params)
    }
}
