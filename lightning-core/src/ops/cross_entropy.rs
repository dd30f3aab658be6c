//! Linear head and cross entropy, forward and backward at once, without the full logits.
//!
//!   z_tv = sum_d h_td W_vd       CE_t = m_t + ln sum_v e^{z_tv - m_t} - z_{t,label_t},  m_t = max_v z_tv
//!   dz_tv = c_t (softmax_v(z_t) - [v = label_t]);    dh = dz W;    dW (+)= dz^T h          sum over all heads
//!
//! Several heads (LM and the MTP depths) share W. With masks mu, N_k = sum_t mu_kt and N = N_0 (the LM head), f_k the
//! head's factor (1 for LM, 0.3 / depth for MTP; model.md §6, §7):
//!
//!   mean of means:   c_t = f_k mu_kt / (max(N_k, 1) M)         M micro-batches
//!   per token:       c_t = f_k mu_kt N / max(N_k, 1)           the gradient is divided by the global N later
//!
//! | buffer      | shape       | dtype | written                                                           |
//! |-------------|-------------|-------|-------------------------------------------------------------------|
//! | h           | [t, d]      | act   | read                                                              |
//! | W           | [v, d]      | act   | read                                                              |
//! | label, mask | [t]         | i32   | read; a label outside 0..v is allowed where the mask is 0 (CE 0)  |
//! | ce          | [t]         | acc   | overwritten; also where the mask is 0                             |
//! | dh          | [t, d]      | act   | overwritten; absent in evaluation                                 |
//! | dW          | [v, d]      | grad  | overwritten or accumulated; absent in evaluation or when frozen   |
//! | metric      | [4]         | f64   | accumulated: sum mu CE, N_k, sum mu CE / max(N_k, 1), hits        |
//! | logits      | [rows, v]   | act   | workspace: one tile of tokens at a time                           |
//!
//! A hit is a masked-in token whose largest logit (lowest index on ties) is its label.
//! Rounding: z and dz to act as in the reference, everything between in acc. Order: tiles of tokens ascending, heads in
//! order; dW adds tile by tile. Kernels: csrc/loss/linear_cross_entropy.cu

use super::linear::product_scratch;
use crate::cpu::simd::{LANES, fold, simd_fn};
use crate::cpu::{Cpu, CpuKernel, Form, matmul, weight_gradient};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

/// One head: hidden states and what they should predict.
#[derive(Debug, Clone)]
pub struct LossHead {
    /// Hidden states.
    pub h: Tensor,
    /// Labels.
    pub label: Tensor,
    /// 1 where the label counts.
    pub mask: Tensor,
    /// Factor on the head's loss.
    pub factor: f64,
    /// Cross entropy of every token.
    pub ce: Tensor,
    /// Gradient of the hidden states.
    pub dh: Option<Tensor>,
    /// Sum of masked losses, masked tokens, mean loss, hits.
    pub metric: Tensor,
}

/// How losses become gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossScale {
    /// Every micro-batch counts the same: mean over its tokens, then over this many micro-batches.
    MeanOfMeans(usize),
    /// Every token counts the same; the sum is divided by the number of tokens of the whole batch at the step's end.
    PerToken,
}

/// Computes losses and gradients of all heads.
#[derive(Debug, Clone)]
pub struct LinearCrossEntropy {
    /// The heads; the first is the LM head.
    pub heads: alloc::vec::Vec<LossHead>,
    /// Head weight.
    pub w: Tensor,
    /// Scale of the gradients.
    pub scale: LossScale,
    /// Gradient of the head weight.
    pub dw: Option<Tensor>,
    /// Add to `dw` instead of overwriting it.
    pub accumulate: bool,
    /// Workspace; its rows are the tokens of a tile.
    pub logits: Tensor,
}

impl LinearCrossEntropy {
    /// Tokens of a tile: about four million logits.
    pub fn tile_rows(tokens: usize, vocab: usize) -> usize {
        ((1 << 22) / vocab.max(1)).clamp(32, 512).min(tokens.max(1))
    }
}

impl Operation for LinearCrossEntropy {
    const NAME: &'static str = "linear_cross_entropy";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        for head in &self.heads {
            visit("h", head.h, Access::Read);
            visit("label", head.label, Access::Read);
            visit("mask", head.mask, Access::Read);
            visit("ce", head.ce, Access::Write);
            if let Some(dh) = head.dh {
                visit("dh", dh, Access::Write);
            }
            visit("metric", head.metric, Access::Update);
        }
        visit("w", self.w, Access::Read);
        if let Some(dw) = self.dw {
            visit("dw", dw, Access::output(self.accumulate));
        }
        visit("logits", self.logits, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.w.dtype
    }
    fn flops(&self) -> u64 {
        let one = 2 * self.w.rows as u64 * self.w.cols as u64;
        let products = |h: &LossHead| 1 + u64::from(h.dh.is_some()) + u64::from(self.dw.is_some());
        self.heads.iter().map(|h| h.h.rows as u64 * one * products(h)).sum()
    }
    fn cpu_scratch(&self) -> usize {
        let act = self.w.dtype;
        product_scratch(act, act).max(self.dw.map_or(0, |d| product_scratch(act, d.dtype)))
    }
    #[cfg(feature = "gpu")]
    fn gpu_scratch(&self) -> usize {
        crate::gpu::linear_cross_entropy_scratch(self)
    }
}

simd_fn! {
    /// Turns a row of logits into a row of gradients (when `scale` is given); returns the loss and whether the label is
    /// the largest logit.
    fn loss_row<A: Element>(logits: &mut [A], label: Option<usize>, scale: Option<A::Acc>) -> (A::Acc, bool) {
        let mut max = [A::Acc::NEG_INFINITY; LANES];
        for chunk in logits.chunks(LANES) {
            for (m, v) in max.iter_mut().zip(chunk) {
                *m = v.widen().max(*m);
            }
        }
        let max = max.iter().fold(A::Acc::NEG_INFINITY, |a, b| b.max(a));
        let mut sums = [A::Acc::ZERO; LANES];
        for chunk in logits.chunks(LANES) {
            for (s, v) in sums.iter_mut().zip(chunk) {
                *s += (v.widen() - max).exp();
            }
        }
        let sum = fold(sums);
        let (loss, hit) = match label {
            Some(label) => {
                let z = logits[label].widen();
                (max + sum.ln() - z, z == max && logits[..label].iter().all(|v| v.widen() < max))
            }
            None => (A::Acc::ZERO, false),
        };
        if let Some(scale) = scale {
            let factor = scale / sum;
            let at_label = label.map(|l| logits[l].widen());
            for v in logits.iter_mut() {
                *v = A::narrow(factor * (v.widen() - max).exp());
            }
            if let (Some(label), Some(z)) = (label, at_label) {
                logits[label] = A::narrow(factor * (z - max).exp() - scale);
            }
        }
        (loss, hit)
    }
}

impl CpuKernel for LinearCrossEntropy {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let w = cpu.read::<A>(self.w);
        let mut logits = cpu.write::<A>(self.logits);
        let mut dw = self.dw.map(|dw| cpu.gradient::<A::Acc>(dw));
        let mut accumulate = self.accumulate;
        let count = |mask: &[i32]| mask.iter().filter(|m| **m != 0).count();
        let lm_tokens = self.heads.first().map_or(0, |h| count(cpu.read_i32(h.mask).as_slice()));
        for head in &self.heads {
            let h = cpu.read::<A>(head.h);
            let (label, mask) = (cpu.read_i32(head.label).as_slice(), cpu.read_i32(head.mask).as_slice());
            let mut ce = cpu.write::<A::Acc>(head.ce.reshape(h.rows, 1));
            let mut dh = head.dh.map(|dh| cpu.write::<A>(dh));
            let tokens = count(mask);
            let scale = head.factor / tokens.max(1) as f64
                * match self.scale {
                    LossScale::MeanOfMeans(micro_batches) => 1.0 / micro_batches as f64,
                    LossScale::PerToken => lm_tokens as f64,
                };
            let mut hits = 0usize;
            let tile = logits.rows.max(1);
            for first in (0..h.rows).step_by(tile) {
                let rows = first..(first + tile).min(h.rows);
                let n = rows.len();
                let mut z = logits.row_range(0..n);
                matmul::<A, A>(&cpu.workers, Form::NT, h.row_range(rows.clone()), w, false, z.reborrow());
                let tile_hits = core::sync::atomic::AtomicUsize::new(0);
                let out = (z.reborrow(), ce.row_range(rows.clone()));
                cpu.workers.grid::<A::Acc, _>(n, 8, 1, out, |piece, (mut z, mut ce), _| {
                    for (i, r) in piece.rows.enumerate() {
                        let t = first + r;
                        let on = mask[t] != 0;
                        let label = usize::try_from(label[t]).ok().filter(|l| *l < w.rows);
                        let c = if on { A::Acc::from_f64(scale) } else { A::Acc::ZERO };
                        let (loss, hit) = loss_row(z.row_mut(i), label, head.dh.map(|_| c));
                        ce.row_mut(i)[0] = loss;
                        if hit && on {
                            tile_hits.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
                hits += tile_hits.into_inner();
                if let Some(dh) = &mut dh {
                    matmul::<A, A>(&cpu.workers, Form::NN, z.as_mat(), w, false, dh.row_range(rows.clone()));
                    if let Some(dw) = &mut dw {
                        weight_gradient(&cpu.workers, z.as_mat(), h.row_range(rows), accumulate, dw.reborrow());
                        accumulate = true;
                    }
                }
            }
            let ce = ce.as_mat();
            let sum: f64 = (0..h.rows).filter(|t| mask[*t] != 0).map(|t| ce.row(t)[0].to_f64()).sum();
            let mut metric = cpu.write::<f64>(head.metric);
            let metric = metric.row_mut(0);
            metric[0] += sum;
            metric[1] += tokens as f64;
            metric[2] += sum / tokens.max(1) as f64;
            metric[3] += hits as f64;
        }
        // Without a token there was no product to overwrite what is there.
        if let (Some(dw), Some(head), false) = (dw, self.heads.first(), accumulate) {
            let h = cpu.read::<A>(head.h);
            weight_gradient(&cpu.workers, logits.row_range(0..0).as_mat(), h.row_range(0..0), false, dw);
        }
    }
}
