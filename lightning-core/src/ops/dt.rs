//! Time steps of the Mamba-2 scan.
//!
//!   delta_th = max(softplus(raw_th + bias_h), dt_min)
//!   draw_th = ddelta_th * sigmoid(raw_th + bias_h) * [delta_th above dt_min];     dbias_h (+)= sum_t draw_th
//!
//! | buffer        | shape  | dtype | written                                     |
//! |---------------|--------|-------|---------------------------------------------|
//! | raw           | [t, h] | act   | read (columns of the in_proj output)        |
//! | bias          | [h]    | acc   | read                                        |
//! | delta, ddelta | [t, h] | acc   | overwritten / read                          |
//! | draw          | [t, h] | act   | overwritten                                 |
//! | dbias         | [h]    | grad  | overwritten or accumulated                  |
//! | partial       | [b, h] | acc   | workspace, b = ceil(t / 64)                 |
//!
//! dt_min is 0 in training (no clamp, model.md §13.1) and `time_step_min` to compare with Hugging Face.
//! Rounding: all in acc, draw rounded once. Order: dbias sums tokens in blocks of 64, then blocks in order.

use super::rms_norm::sum_blocks;
use crate::cpu::{Cpu, CpuKernel, PerBlock};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

const BLOCK: usize = 64;

/// Computes time steps.
#[derive(Debug, Clone)]
pub struct SoftplusDtFwd {
    /// Raw time steps.
    pub raw: Tensor,
    /// Bias of each head.
    pub bias: Tensor,
    /// Lower bound of the result.
    pub dt_min: f64,
    /// Time steps.
    pub delta: Tensor,
}

impl Operation for SoftplusDtFwd {
    const NAME: &'static str = "softplus_dt_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("raw", self.raw, Access::Read);
        visit("bias", self.bias, Access::Read);
        visit("delta", self.delta, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.raw.dtype
    }
}

impl CpuKernel for SoftplusDtFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (raw, bias) = (cpu.read::<A>(self.raw), cpu.read::<A::Acc>(self.bias).row(0));
        let min = A::Acc::from_f64(self.dt_min);
        cpu.workers.grid::<A::Acc, _>(raw.rows, BLOCK, 1, cpu.write::<A::Acc>(self.delta), |piece, mut delta, _| {
            for (i, t) in piece.rows.enumerate() {
                for ((d, r), b) in delta.row_mut(i).iter_mut().zip(raw.row(t)).zip(bias) {
                    *d = min.max((r.widen() + *b).softplus());
                }
            }
        });
    }
}

/// Gradients of the time steps.
#[derive(Debug, Clone)]
pub struct SoftplusDtBwd {
    /// Gradient of the time steps.
    pub ddelta: Tensor,
    /// Raw time steps of the forward pass.
    pub raw: Tensor,
    /// Bias of each head.
    pub bias: Tensor,
    /// Lower bound of the forward pass.
    pub dt_min: f64,
    /// Gradient of the raw time steps.
    pub draw: Tensor,
    /// Gradient of the bias.
    pub dbias: Tensor,
    /// Add to `dbias` instead of overwriting it.
    pub accumulate: bool,
    /// Workspace, see [`SoftplusDtBwd::partial_rows`].
    pub partial: Tensor,
}

impl SoftplusDtBwd {
    /// Rows of the workspace for a number of tokens.
    pub fn partial_rows(tokens: usize) -> usize {
        tokens.div_ceil(BLOCK).max(1)
    }
}

impl Operation for SoftplusDtBwd {
    const NAME: &'static str = "softplus_dt_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("ddelta", self.ddelta, Access::Read);
        visit("raw", self.raw, Access::Read);
        visit("bias", self.bias, Access::Read);
        visit("draw", self.draw, Access::Write);
        visit("dbias", self.dbias, Access::output(self.accumulate));
        visit("partial", self.partial, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.draw.dtype
    }
}

impl CpuKernel for SoftplusDtBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (raw, bias) = (cpu.read::<A>(self.raw), cpu.read::<A::Acc>(self.bias).row(0));
        let ddelta = cpu.read::<A::Acc>(self.ddelta);
        let min = A::Acc::from_f64(self.dt_min);
        let mut partial = cpu.write::<A::Acc>(self.partial);
        let out = (cpu.write::<A>(self.draw), PerBlock::new(partial.reborrow(), BLOCK, 1));
        cpu.workers.grid::<A::Acc, _>(raw.rows, BLOCK, 1, out, |piece, (mut draw, mut sums), _| {
            let sum = sums.mat.row_mut(0);
            sum.fill(A::Acc::ZERO);
            for (i, t) in piece.rows.enumerate() {
                for (h, d) in draw.row_mut(i).iter_mut().enumerate() {
                    let z = raw.row(t)[h].widen() + bias[h];
                    let above = self.dt_min <= 0.0 || z.softplus() >= min;
                    let g = if above { ddelta.row(t)[h] * z.sigmoid() } else { A::Acc::ZERO };
                    *d = A::narrow(g);
                    sum[h] += g;
                }
            }
        });
        sum_blocks(cpu, partial, raw.rows.div_ceil(BLOCK), self.dbias, self.accumulate);
    }
}
