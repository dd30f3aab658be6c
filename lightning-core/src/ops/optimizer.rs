//! The optimizer step: norm, clipping and schedule on the device, AdamW, expert bias.
//!
//! `StepControl`, with s = 1 / max(N, 1) under per-token loss (N loss tokens of the step) and 1 otherwise:
//!
//!   norm = s sqrt(sum g^2)      factor = s min(1, clip / (norm + 1e-6))       a non-finite norm skips the step
//!   lr, wd = schedule(samples of successful steps);   samples += samples of the step, steps += 1 unless skipped
//!
//! `AdamW` (recipes.md §1.2), decoupled decay, t = successful steps including this one:
//!
//!   g' = factor g;   m = b1 m + (1 - b1) g';   v = b2 v + (1 - b2) g'^2
//!   p = p - lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + wd p)
//!
//! `ExpertBiasUpdate` (model.md §5.4): b_e += rate sign(mean(c) - c_e), sign(0) = 0; counts are moved to `last` and reset.
//! It happens even when the step is skipped (distributed.md §3).
//!
//! | buffer    | shape | dtype | written                                                            |
//! |-----------|-------|-------|--------------------------------------------------------------------|
//! | gradients | [n]   | grad  | read                                                               |
//! | state     | [slots] | f64 | updated                                                            |
//! | tokens    | [1]   | f64   | read; loss tokens of the step                                      |
//! | partial   | [b]   | f64   | workspace                                                          |
//! | master, m, v | as the parameter | acc | updated; the parameter is its own master when its type is acc |
//! | param     | any   | act or acc | overwritten with the rounded master (or updated)              |
//!
//! Order: squares are summed in f64 over blocks of 16,384 elements, then blocks in order.
//! Kernels: csrc/optim/step_control.cu, csrc/optim/adamw.cu

use crate::cpu::simd::{LANES, fold, simd_fn};
use crate::cpu::{Cpu, CpuKernel, Mat, MatMut};
use crate::element::{Element, Real};
use crate::optim::{Schedule, StateSlot};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};
use half::bf16;

const BLOCK: usize = 16_384;

/// Decides whether and how far the step goes.
#[derive(Debug, Clone)]
pub struct StepControl {
    /// All gradients: one flat buffer, zero between them.
    pub gradients: Tensor,
    /// The device state block.
    pub state: Tensor,
    /// Loss tokens of the step; present with per-token loss.
    pub tokens: Option<Tensor>,
    /// Learning rate and weight decay.
    pub schedule: Schedule,
    /// Largest gradient norm; 0 turns clipping off.
    pub clip: f64,
    /// Adam's decay rates.
    pub betas: (f64, f64),
    /// Workspace, see [`StepControl::blocks`].
    pub partial: Tensor,
}

impl StepControl {
    /// Blocks of the gradients: the length of the workspace.
    pub fn blocks(gradients: Tensor) -> usize {
        gradients.len().div_ceil(BLOCK)
    }
}

impl Operation for StepControl {
    const NAME: &'static str = "step_control";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("gradients", self.gradients, Access::Read);
        visit("state", self.state, Access::Update);
        if let Some(tokens) = self.tokens {
            visit("tokens", tokens, Access::Read);
        }
        visit("partial", self.partial, Access::Write);
    }
    fn dtype(&self) -> DType {
        DType::F64
    }
}

simd_fn! {
    fn sum_of_squares<G: Element>(g: &[G]) -> f64 {
        let mut acc = [0.0f64; LANES];
        for chunk in g.chunks(LANES) {
            for (a, v) in acc.iter_mut().zip(chunk) {
                let v = v.widen().to_f64();
                *a += v * v;
            }
        }
        fold(acc)
    }
}

impl StepControl {
    fn block_squares<G: Element>(cpu: &Cpu<'_>, gradient: Tensor, partial: MatMut<'_, f64>) {
        let gradient = cpu.read::<G>(gradient.flat());
        let values = gradient.as_slice();
        cpu.workers.grid::<f64, _>(partial.rows, 16, 1, partial, |piece, mut partial, _| {
            for (i, block) in piece.rows.enumerate() {
                let range = block * BLOCK..((block + 1) * BLOCK).min(values.len());
                partial.row_mut(i)[0] = sum_of_squares(&values[range]);
            }
        });
    }
}

impl CpuKernel for StepControl {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let mut partial = cpu.write::<f64>(self.partial.reshape(self.partial.len(), 1));
        let own = partial.reborrow();
        match self.gradients.dtype {
            DType::F64 => Self::block_squares::<f64>(cpu, self.gradients, own),
            DType::BF16 => Self::block_squares::<bf16>(cpu, self.gradients, own),
            _ => Self::block_squares::<f32>(cpu, self.gradients, own),
        }
        let squares: f64 = partial.as_mut_slice().iter().sum();
        let tokens = self.tokens.map(|t| cpu.read::<f64>(t).row(0)[0]);
        let mut state = cpu.write::<f64>(self.state);
        let state = state.row_mut(0);
        let scale = tokens.map_or(1.0, |n| 1.0 / n.max(1.0));
        let norm = scale * Real::sqrt(squares);
        let skip = !norm.is_finite();
        let clip = if self.clip > 0.0 && norm + 1e-6 > self.clip { self.clip / (norm + 1e-6) } else { 1.0 };
        let samples = state[StateSlot::Samples as usize];
        state[StateSlot::GradNorm as usize] = norm;
        state[StateSlot::GradFactor as usize] = scale * clip;
        state[StateSlot::Skip as usize] = f64::from(u8::from(skip));
        state[StateSlot::LearningRate as usize] = self.schedule.learning_rate(samples as u64);
        state[StateSlot::WeightDecay as usize] = self.schedule.weight_decay(samples as u64);
        if skip {
            state[StateSlot::Skipped as usize] += 1.0;
            state[StateSlot::SkippedInARow as usize] += 1.0;
        } else {
            state[StateSlot::Samples as usize] += state[StateSlot::StepSamples as usize];
            state[StateSlot::Steps as usize] += 1.0;
            state[StateSlot::SkippedInARow as usize] = 0.0;
        }
        let steps = state[StateSlot::Steps as usize];
        state[StateSlot::Correction1 as usize] = 1.0 - libm::pow(self.betas.0, steps);
        state[StateSlot::Correction2 as usize] = 1.0 - libm::pow(self.betas.1, steps);
        let next = state[StateSlot::Samples as usize] as u64;
        state[StateSlot::NextLearningRate as usize] = self.schedule.learning_rate(next);
    }
}

/// Updates one parameter.
#[derive(Debug, Clone)]
pub struct AdamW {
    /// Accumulated gradient.
    pub gradient: Tensor,
    /// Working weight.
    pub param: Tensor,
    /// Master weight; absent when the working weight is kept in the arithmetic type.
    pub master: Option<Tensor>,
    /// First moment.
    pub m: Tensor,
    /// Second moment.
    pub v: Tensor,
    /// The device state block, after [`StepControl`].
    pub state: Tensor,
    /// Decay rates.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Whether weight decay applies (not to vectors and biases).
    pub decay: bool,
}

impl Operation for AdamW {
    const NAME: &'static str = "adamw";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("gradient", self.gradient, Access::Read);
        visit("state", self.state, Access::Read);
        visit("param", self.param, Access::Update);
        if let Some(master) = self.master {
            visit("master", master, Access::Update);
        }
        visit("m", self.m, Access::Update);
        visit("v", self.v, Access::Update);
    }
    fn dtype(&self) -> DType {
        self.param.dtype
    }
}

/// Numbers of one step, rounded to the arithmetic type once.
#[derive(Clone, Copy)]
struct AdamStep<R> {
    factor: R,
    lr: R,
    decay: R,
    beta1: R,
    beta2: R,
    rest1: R,
    rest2: R,
    inverse1: R,
    inverse2: R,
    eps: R,
}

simd_fn! {
    fn adam_rows<G: Element>(s: &AdamStep<G::Acc>, g: &[G], p: &mut [G::Acc], m: &mut [G::Acc], v: &mut [G::Acc]) {
        let s = *s;
        let n = g.len();
        let (p, m, v) = (&mut p[..n], &mut m[..n], &mut v[..n]);
        for i in 0..n {
            let gi = g[i].widen() * s.factor;
            let mi = s.beta1 * m[i] + s.rest1 * gi;
            let vi = s.beta2 * v[i] + s.rest2 * (gi * gi);
            m[i] = mi;
            v[i] = vi;
            let update = (mi * s.inverse1) / ((vi * s.inverse2).sqrt() + s.eps);
            p[i] -= s.lr * (update + s.decay * p[i]);
        }
    }
}

impl CpuKernel for AdamW {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        match (A::Acc::DTYPE, self.gradient.dtype) {
            (DType::F64, _) => self.update::<A, f64>(cpu),
            (_, DType::BF16) => self.update::<A, bf16>(cpu),
            _ => self.update::<A, f32>(cpu),
        }
    }
}

impl AdamW {
    fn update<A: Element, G: Element>(&self, cpu: &Cpu<'_>) {
        let state = cpu.read::<f64>(self.state).row(0);
        if state[StateSlot::Skip as usize] != 0.0 {
            return;
        }
        let real = G::Acc::from_f64;
        let step = AdamStep {
            factor: real(state[StateSlot::GradFactor as usize]),
            lr: real(state[StateSlot::LearningRate as usize]),
            decay: real(if self.decay { state[StateSlot::WeightDecay as usize] } else { 0.0 }),
            beta1: real(self.betas.0),
            beta2: real(self.betas.1),
            rest1: real(1.0 - self.betas.0),
            rest2: real(1.0 - self.betas.1),
            inverse1: real(1.0 / state[StateSlot::Correction1 as usize]),
            inverse2: real(1.0 / state[StateSlot::Correction2 as usize]),
            eps: real(self.eps),
        };
        let n = self.param.len();
        // Blocks of elements become rows of the grid; the last one may be short.
        let gradient: Mat<'_, G> = cpu.read(self.gradient.flat());
        let (mut m, mut v) = (cpu.write::<G::Acc>(self.m.flat()), cpu.write::<G::Acc>(self.v.flat()));
        let gradient = gradient.as_slice();
        let (m, v) = (m.reborrow().into_column(), v.reborrow().into_column());
        match self.master {
            None => {
                let mut param = cpu.write::<A>(self.param.flat()).cast::<G::Acc>();
                let out = (param.reborrow().into_column(), m, v);
                cpu.workers.grid::<f32, _>(n, BLOCK, 1, out, |piece, (mut p, mut m, mut v), _| {
                    adam_rows(&step, &gradient[piece.rows], p.as_mut_slice(), m.as_mut_slice(), v.as_mut_slice());
                });
            }
            Some(master) => {
                let mut master = cpu.write::<G::Acc>(master.flat());
                let mut param = cpu.write::<A>(self.param.flat());
                let out = (master.reborrow().into_column(), param.reborrow().into_column(), m, v);
                cpu.workers.grid::<f32, _>(n, BLOCK, 1, out, |piece, (mut p, mut param, mut m, mut v), _| {
                    adam_rows(&step, &gradient[piece.rows], p.as_mut_slice(), m.as_mut_slice(), v.as_mut_slice());
                    round_rows(p.as_mat().as_slice(), param.as_mut_slice());
                });
            }
        }
    }
}

simd_fn! {
    /// Rounds master weights to the working type. Both arithmetic types are the same; the conversion is exact.
    fn round_rows<R: Real, A: Element>(master: &[R], param: &mut [A]) {
        for (p, m) in param.iter_mut().zip(master) {
            *p = A::narrow(A::Acc::from_f64(m.to_f64()));
        }
    }
}

/// Moves an expert bias towards balance.
#[derive(Debug, Clone)]
pub struct ExpertBiasUpdate {
    /// Tokens per expert of this step; reset to 0.
    pub counts: Tensor,
    /// Expert bias.
    pub bias: Tensor,
    /// Size of a move; 0 leaves the bias alone.
    pub rate: f64,
    /// Receives the counts for the log.
    pub last: Tensor,
}

impl Operation for ExpertBiasUpdate {
    const NAME: &'static str = "expert_bias_update";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("counts", self.counts, Access::Update);
        visit("bias", self.bias, Access::Update);
        visit("last", self.last, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.bias.dtype
    }
}

impl CpuKernel for ExpertBiasUpdate {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (mut counts, mut last) = (cpu.write_i32(self.counts), cpu.write_i32(self.last));
        let mut bias = cpu.write::<A>(self.bias);
        let counts = counts.as_mut_slice();
        // sign(mean - c) without rounding: compare the sum with c times the number of experts.
        let total: i64 = counts.iter().map(|c| i64::from(*c)).sum();
        let rate = A::Acc::from_f64(self.rate);
        for (b, c) in bias.as_mut_slice().iter_mut().zip(counts.iter()) {
            let delta = match total.cmp(&(i64::from(*c) * counts.len() as i64)) {
                core::cmp::Ordering::Greater => rate,
                core::cmp::Ordering::Equal => A::Acc::ZERO,
                core::cmp::Ordering::Less => -rate,
            };
            *b = A::narrow(b.widen() + delta);
        }
        last.as_mut_slice().copy_from_slice(counts);
        counts.fill(0);
    }
}
