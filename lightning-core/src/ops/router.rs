//! The mixture-of-experts router: fp32 sigmoid scores, biased selection, sequence auxiliary loss.
//!
//!   l_te = sum_d x_td W_ed          s = sigmoid(l)         idx_t = top-k of s_te + b_e, ties to the lower index
//!   w_tj = scale s_{t,idx_j} / Z_t,  Z_t = sum_j s_{t,idx_j} + 1e-20          (w_tj = scale s without normalisation)
//!   ds_j = (scale dw_j - sum_i dw_i w_i) / Z;   dl = ds s (1 - s);   dx += dl W;   dW (+)= dl^T x
//!
//! Auxiliary loss of a row with T tokens that are not padding (model.md §5.3), c the coefficient, B rows:
//!
//!   q_te = s_te / S_t,  S_t = sum_e s_te + 1e-20        f_e = #{t : e in top-k of s_t, without the bias}
//!   L = (1/B) sum_rows c E/(k T^2) sum_e f_e sum_t q_te
//!   ds_te += m (g_e - sum_e' g_e' q_te') / S_t,  g_e = c E f_e / (k T^2 B);  m = 1 / micro-batches, or with per-token
//!   loss the micro-batch's tokens without padding
//!
//! | buffer  | shape     | dtype | written                                                             |
//! |---------|-----------|-------|---------------------------------------------------------------------|
//! | x       | [t, d]    | act   | read                                                                |
//! | W, b    | [e, d], [e] | act, acc | read                                                           |
//! | logits  | [t, e]    | acc   | overwritten; kept for the backward pass                             |
//! | idx     | [t, k]    | i32   | overwritten, in order of the biased score (or copied when forced)   |
//! | weight  | [t, k]    | acc   | overwritten                                                         |
//! | counts  | [e]       | i32   | accumulated; tokens that are not padding, biased selection          |
//! | stats   | [rows, e + 2] | acc | overwritten; f, then T, then L / c of the row                     |
//! | metric  | [1]       | f64   | accumulated; L                                                      |
//! | dx      | [t, d]    | act   | accumulated, product in acc, rounded once                           |
//! | dW      | [e, d]    | grad  | overwritten or accumulated                                          |
//! | dlogits | [t, e]    | acc   | workspace; wide: x and W in acc when act is narrower                |
//!
//! Everything is computed in acc from widened inputs (pitfall B44). Padding tokens are routed but not counted. No
//! gradient reaches b, and none passes through the selection. With noise logits (forced balance) the gradient goes to
//! the real logits unchanged. Order: tokens in ascending order within a row. Kernels: csrc/moe/router.cu

use super::linear::product_scratch;
use crate::cpu::simd::simd_fn;
use crate::cpu::{Cpu, CpuKernel, Form, Mat, PerBlock, matmul, weight_gradient, widen_matrix};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::rng::Philox;
use crate::tensor::{DType, Tensor};

/// Guards the divisions by sums of scores.
const TINY: f64 = 1e-20;

/// Where the logits come from.
#[derive(Debug, Clone)]
pub enum RouterLogits {
    /// x W^T.
    Computed,
    /// x W^T, but the selected experts are given [t, k].
    Forced(Tensor),
    /// Standard normal noise of this Philox stream and the counter (seed, step) of the i32 tensor [2].
    Noise(u64, Tensor),
}

/// The sequence auxiliary loss.
#[derive(Debug, Clone)]
pub struct AuxLoss {
    /// Coefficient c (divided by the MTP depth inside the MTP block).
    pub coefficient: f64,
    /// Number of micro-batches of a step; `None` with per-token loss.
    pub micro_batches: Option<usize>,
    /// Statistics of every row: selection counts [e], tokens, loss before the coefficient.
    pub stats: Tensor,
    /// Receives L.
    pub metric: Tensor,
}

/// Routes tokens.
#[derive(Debug, Clone)]
pub struct RouterFwd {
    /// Tokens.
    pub x: Tensor,
    /// Router weight.
    pub w: Tensor,
    /// Expert bias.
    pub bias: Tensor,
    /// Where the logits come from.
    pub source: RouterLogits,
    /// Experts per token.
    pub top_k: usize,
    /// Factor on the weights.
    pub scale: f64,
    /// Normalise the selected scores.
    pub normalize: bool,
    /// Tokens of a row.
    pub row_len: usize,
    /// 1 for padding tokens; absent when there are none.
    pub padding: Option<Tensor>,
    /// Logits.
    pub logits: Tensor,
    /// Selected experts.
    pub idx: Tensor,
    /// Their weights.
    pub weight: Tensor,
    /// Tokens per expert, accumulated; absent in evaluation.
    pub counts: Option<Tensor>,
    /// Workspace [rows, e] i32 for the counts.
    pub row_counts: Tensor,
    /// Auxiliary loss; absent when its coefficient is 0.
    pub aux: Option<AuxLoss>,
}

impl Operation for RouterFwd {
    const NAME: &'static str = "router_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("x", self.x, Access::Read);
        visit("w", self.w, Access::Read);
        visit("bias", self.bias, Access::Read);
        match &self.source {
            RouterLogits::Computed => {}
            RouterLogits::Forced(idx) => visit("forced", *idx, Access::Read),
            RouterLogits::Noise(_, counter) => visit("counter", *counter, Access::Read),
        }
        if let Some(padding) = self.padding {
            visit("padding", padding, Access::Read);
        }
        visit("logits", self.logits, Access::Write);
        visit("idx", self.idx, Access::Write);
        visit("weight", self.weight, Access::Write);
        if let Some(counts) = self.counts {
            visit("counts", counts, Access::Update);
        }
        visit("row_counts", self.row_counts, Access::Write);
        if let Some(aux) = &self.aux {
            visit("stats", aux.stats, Access::Write);
            visit("metric", aux.metric, Access::Update);
        }
    }
    fn dtype(&self) -> DType {
        self.x.dtype
    }
    fn flops(&self) -> u64 {
        2 * (self.x.rows * self.w.rows * self.w.cols) as u64
    }
    fn cpu_scratch(&self) -> usize {
        product_scratch(self.x.dtype, self.logits.dtype).max(3 * self.w.rows)
    }
    #[cfg(feature = "gpu")]
    fn gpu_scratch(&self) -> usize {
        crate::gpu::router_fwd_scratch(self)
    }
}

simd_fn! {
    fn sigmoid_row<R: Real>(l: &[R], s: &mut [R]) {
        for (s, l) in s.iter_mut().zip(l) {
            *s = l.sigmoid();
        }
    }
}

/// The `k` largest of `values`, largest first, ties to the lower index; `values` is used up.
fn select_top<R: Real>(values: &mut [R], k: usize, mut chosen: impl FnMut(usize, usize)) {
    for j in 0..k {
        let mut best = 0;
        for (e, v) in values.iter().enumerate() {
            if *v > values[best] {
                best = e;
            }
        }
        chosen(j, best);
        values[best] = R::NEG_INFINITY;
    }
}

fn sum<R: Real>(values: impl Iterator<Item = R>) -> R {
    values.fold(R::ZERO, |a, b| a + b)
}

impl CpuKernel for RouterFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let x = cpu.read::<A>(self.x);
        let bias = cpu.read::<A::Acc>(self.bias).row(0);
        let (experts, k) = (bias.len(), self.top_k);
        let mut logits = cpu.write::<A::Acc>(self.logits);
        let forced = match &self.source {
            RouterLogits::Noise(stream, counter) => {
                let counter = cpu.read_i32(*counter).as_slice();
                let seed = counter[0] as u32 as u64 | (counter[1] as u32 as u64) << 32;
                let noise = Philox::new(seed, *stream);
                for t in 0..x.rows {
                    for (e, l) in logits.row_mut(t).iter_mut().enumerate() {
                        *l = A::Acc::from_f64(noise.normal_at((t * experts + e) as u64));
                    }
                }
                None
            }
            source => {
                matmul(&cpu.workers, Form::NT, x, cpu.read::<A>(self.w), false, logits.reborrow());
                if let RouterLogits::Forced(idx) = source { Some(cpu.read_i32(*idx)) } else { None }
            }
        };
        let logits = logits.as_mat();
        let padding = self.padding.map(|p| cpu.read_i32(p).as_slice());
        let block = self.row_len.max(1);
        let rows = x.rows / block;
        let mut row_counts = cpu.write_i32(self.row_counts);
        let mut stats = self.aux.as_ref().map(|a| cpu.write::<A::Acc>(a.stats));
        let row_stats = stats.as_mut().map(|s| PerBlock::new(s.reborrow(), block, 1));
        let counts = PerBlock::new(row_counts.reborrow(), block, 1);
        let out = (cpu.write_i32(self.idx), cpu.write::<A::Acc>(self.weight), counts, row_stats);
        let scale = A::Acc::from_f64(self.scale);
        cpu.workers.grid::<A::Acc, _>(
            x.rows,
            block,
            1,
            out,
            |piece, (mut idx, mut weight, mut counts, stats), scratch| {
                let (s, rest) = scratch.split_at_mut(experts);
                let (biased, rest) = rest.split_at_mut(experts);
                let mut aux = stats.map(|stats| RowAux::new(stats, &mut rest[..experts]));
                let counts = counts.mat.row_mut(0);
                counts.fill(0);
                for (i, t) in piece.rows.enumerate() {
                    sigmoid_row(logits.row(t), s);
                    let idx = idx.row_mut(i);
                    match &forced {
                        Some(forced) => idx.copy_from_slice(forced.row(t)),
                        None => {
                            for (v, (s, b)) in biased.iter_mut().zip(s.iter().zip(bias)) {
                                *v = *s + *b;
                            }
                            select_top(biased, k, |j, e| idx[j] = e as i32);
                        }
                    }
                    let selected = |j: usize| s[idx[j] as usize];
                    let z = sum((0..k).map(selected)) + A::Acc::from_f64(TINY);
                    for (j, w) in weight.row_mut(i).iter_mut().enumerate() {
                        *w = if self.normalize { scale * selected(j) / z } else { scale * selected(j) };
                    }
                    if padding.is_some_and(|p| p[t] != 0) {
                        continue;
                    }
                    for e in idx.iter() {
                        counts[*e as usize] += 1;
                    }
                    if let Some(aux) = &mut aux {
                        aux.add_token(s, biased, k);
                    }
                }
                if let Some(aux) = aux {
                    aux.finish(k);
                }
            },
        );
        if let Some(counts) = self.counts {
            let mut counts = cpu.write_i32(counts);
            for r in 0..rows {
                for (c, n) in counts.row_mut(0).iter_mut().zip(row_counts.as_mat().row(r)) {
                    *c += n;
                }
            }
        }
        if let (Some(aux), Some(stats)) = (&self.aux, &stats) {
            let loss: f64 = (0..rows).map(|r| stats.as_mat().row(r)[experts + 1].to_f64()).sum();
            cpu.write::<f64>(aux.metric).row_mut(0)[0] += aux.coefficient * loss / rows.max(1) as f64;
        }
    }
}

/// Sums of the auxiliary loss over one row.
struct RowAux<'a, R> {
    stats: PerBlock<'a, R>,
    q_sum: &'a mut [R],
}

impl<'a, R: Real> RowAux<'a, R> {
    fn new(mut stats: PerBlock<'a, R>, q_sum: &'a mut [R]) -> Self {
        stats.mat.row_mut(0).fill(R::ZERO);
        q_sum.fill(R::ZERO);
        Self { stats, q_sum }
    }

    /// Adds a token with scores `s`; `buffer` is used up.
    fn add_token(&mut self, s: &[R], buffer: &mut [R], k: usize) {
        let stats = self.stats.mat.row_mut(0);
        buffer.copy_from_slice(s);
        select_top(buffer, k, |_, e| stats[e] += R::ONE);
        stats[s.len()] += R::ONE;
        let total = sum(s.iter().copied()) + R::from_f64(TINY);
        for (q, s) in self.q_sum.iter_mut().zip(s) {
            *q += *s / total;
        }
    }

    /// E / (k T^2) sum_e f_e sum_t q_te, or 0 for a row of padding.
    fn finish(mut self, k: usize) {
        let experts = self.q_sum.len();
        let stats = self.stats.mat.row_mut(0);
        let tokens = stats[experts];
        if tokens > R::ZERO {
            let pairs = sum(stats[..experts].iter().zip(self.q_sum.iter()).map(|(f, q)| *f * *q));
            stats[experts + 1] = R::from_f64(experts as f64 / k as f64) / (tokens * tokens) * pairs;
        }
    }
}

/// Gradients of the router.
#[derive(Debug, Clone)]
pub struct RouterBwd {
    /// The forward operation (its inputs and results).
    pub fwd: RouterFwd,
    /// Gradient of the weights [t, k].
    pub dweight: Tensor,
    /// Gradient of the tokens; always accumulated.
    pub dx: Tensor,
    /// Gradient of the router weight; absent when the router is frozen.
    pub dw: Option<Tensor>,
    /// Add to `dw` instead of overwriting it.
    pub accumulate: bool,
    /// Workspace [t, e].
    pub dlogits: Tensor,
    /// Workspaces [t, d] and [e, d] in acc; present exactly when act is narrower than acc.
    pub wide: Option<(Tensor, Tensor)>,
}

impl Operation for RouterBwd {
    const NAME: &'static str = "router_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        let f = &self.fwd;
        visit("x", f.x, Access::Read);
        visit("w", f.w, Access::Read);
        if let Some(padding) = f.padding {
            visit("padding", padding, Access::Read);
        }
        visit("logits", f.logits, Access::Read);
        visit("idx", f.idx, Access::Read);
        visit("weight", f.weight, Access::Read);
        if let Some(aux) = &f.aux {
            visit("stats", aux.stats, Access::Read);
        }
        visit("dweight", self.dweight, Access::Read);
        visit("dx", self.dx, Access::Update);
        if let Some(dw) = self.dw {
            visit("dw", dw, Access::output(self.accumulate));
        }
        visit("dlogits", self.dlogits, Access::Write);
        if let Some((x, w)) = self.wide {
            visit("x_wide", x, Access::Write);
            visit("w_wide", w, Access::Write);
        }
    }
    fn dtype(&self) -> DType {
        self.fwd.x.dtype
    }
    fn flops(&self) -> u64 {
        self.fwd.flops() * (1 + u64::from(self.dw.is_some()))
    }
    fn cpu_scratch(&self) -> usize {
        let acc = self.dlogits.dtype;
        let dw = self.dw.map_or(acc, |d| d.dtype);
        product_scratch(acc, dw).max(product_scratch(acc, self.dx.dtype)).max(2 * self.fwd.w.rows)
    }
}

impl CpuKernel for RouterBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let f = &self.fwd;
        let (logits, weight) = (cpu.read::<A::Acc>(f.logits), cpu.read::<A::Acc>(f.weight));
        let (idx, dweight) = (cpu.read_i32(f.idx), cpu.read::<A::Acc>(self.dweight));
        let padding = f.padding.map(|p| cpu.read_i32(p).as_slice());
        let aux = f.aux.as_ref().map(|aux| (aux, cpu.read::<A::Acc>(aux.stats)));
        let (experts, block) = (logits.cols, f.row_len.max(1));
        let rows = logits.rows / block;
        let all_tokens = |stats: &Mat<'_, A::Acc>| sum((0..rows).map(|r| stats.row(r)[experts]));
        // The factor on every row's loss: coefficient x (1 / micro-batches or the micro-batch's tokens) / rows.
        let factor = aux.as_ref().map(|(aux, stats)| {
            let m = aux.micro_batches.map_or_else(|| all_tokens(stats), |n| A::Acc::from_f64(1.0 / n as f64));
            A::Acc::from_f64(aux.coefficient / rows.max(1) as f64) * m
        });
        let mut dlogits = cpu.write::<A::Acc>(self.dlogits);
        let scale = A::Acc::from_f64(f.scale);
        cpu.workers.grid::<A::Acc, _>(logits.rows, block, 1, dlogits.reborrow(), |piece, mut dl, scratch| {
            let (s, g) = scratch[..2 * experts].split_at_mut(experts);
            let mut has_aux = false;
            if let (Some((_, stats)), Some(factor)) = (&aux, factor) {
                let stats = stats.row(piece.block);
                let tokens = stats[experts];
                has_aux = tokens > A::Acc::ZERO;
                let per_count = factor * A::Acc::from_f64(experts as f64 / f.top_k as f64) / (tokens * tokens);
                for (g, f) in g.iter_mut().zip(stats) {
                    *g = per_count * *f;
                }
            }
            for (i, t) in piece.rows.enumerate() {
                let dl = dl.row_mut(i);
                sigmoid_row(logits.row(t), s);
                if has_aux && padding.is_none_or(|p| p[t] == 0) {
                    let total = sum(s.iter().copied()) + A::Acc::from_f64(TINY);
                    let mean = sum(g.iter().zip(s.iter()).map(|(g, s)| *g * *s)) / total;
                    for (d, g) in dl.iter_mut().zip(g.iter()) {
                        *d = (*g - mean) / total;
                    }
                } else {
                    dl.fill(A::Acc::ZERO);
                }
                let (w, dw) = (weight.row(t), dweight.row(t));
                let selected = |j: usize| idx.row(t)[j] as usize;
                let z = sum((0..f.top_k).map(|j| s[selected(j)])) + A::Acc::from_f64(TINY);
                let weighted = sum(w.iter().zip(dw).map(|(w, dw)| *w * *dw));
                for j in 0..f.top_k {
                    dl[selected(j)] += if f.normalize { (scale * dw[j] - weighted) / z } else { scale * dw[j] };
                }
                for (d, s) in dl.iter_mut().zip(s.iter()) {
                    *d = *d * *s * (A::Acc::ONE - *s);
                }
            }
        });
        let dlogits = dlogits.as_mat();
        let (x, w) = (cpu.read::<A>(f.x), cpu.read::<A>(f.w));
        match self.wide {
            None => self.products(cpu, dlogits, x.cast(), w.cast(), cpu.write::<A>(self.dx)),
            Some((x_wide, w_wide)) => {
                let (mut xw, mut ww) = (cpu.write::<A::Acc>(x_wide), cpu.write::<A::Acc>(w_wide));
                widen_matrix(w, ww.as_mut_slice());
                cpu.workers.grid::<A::Acc, _>(x.rows, 256, 1, xw.reborrow(), |piece, mut xw, _| {
                    widen_matrix(x.row_range(piece.rows), xw.as_mut_slice());
                });
                self.products(cpu, dlogits, xw.as_mat(), ww.as_mat(), cpu.write::<A>(self.dx));
            }
        }
    }
}

impl RouterBwd {
    /// `dx += dl W` and `dW (+)= dl^T x` in the arithmetic type.
    fn products<A: Element>(
        &self,
        cpu: &Cpu<'_>,
        dlogits: Mat<'_, A::Acc>,
        x: Mat<'_, A::Acc>,
        w: Mat<'_, A::Acc>,
        dx: crate::cpu::MatMut<'_, A>,
    ) {
        matmul::<A::Acc, A>(&cpu.workers, Form::NN, dlogits, w, true, dx);
        if let Some(dw) = self.dw {
            weight_gradient(&cpu.workers, dlogits, x, self.accumulate, cpu.gradient(dw));
        }
    }
}
