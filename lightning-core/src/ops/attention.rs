//! Causal grouped-query attention inside documents, without the score matrix.
//!
//!   S_ij = scale q_i . k_j  for start_i <= j <= i, else -inf        l_i = log sum_j e^{S_ij}        P_ij = e^{S_ij - l_i}
//!   o_i = sum_j P_ij v_j
//!   D_i = do_i . o_i;   dS_ij = P_ij (do_i . v_j - D_i);   dq_i = scale sum_j dS_ij k_j
//!   dk_j = scale sum_i dS_ij q_i;   dv_j = sum_i P_ij do_i          sums over i include the query heads of the group
//!
//! | buffer     | shape        | dtype | written     |        h query heads, m key/value heads, a channels of a head;
//! |------------|--------------|-------|-------------|        query head i reads key/value head i / (h / m)
//! | q, o       | [t, h a]     | act   | read / overwritten |
//! | k, v       | [t, m a]     | act   | read        |
//! | lse        | [t, h]       | acc   | overwritten; every token attends to itself, so it is finite |
//! | start      | [t]          | i32   | read        |
//! | dq, dk, dv | as q, k, v   | act   | overwritten |
//!
//! Rounding: all in acc, one rounding at o, dq, dk, dv (model.md §3). Order: keys in ascending blocks of 128, queries in
//! ascending blocks of 64, heads of a group in order. Kernels: csrc/attention/

use crate::cpu::simd::{dot, simd_fn};
use crate::cpu::{Cpu, CpuKernel, Form, Mat, MatMut, gemm, simd, widen_matrix};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};
use core::ops::Range;

const QUERIES: usize = 64;
const KEYS: usize = 128;

/// Sizes of an attention layer.
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// Tokens of a row.
    pub row_len: usize,
    /// Factor on the scores, 1 / sqrt(head_dim).
    pub scale: f64,
}

impl AttentionShape {
    /// Multiply-adds (as two) of `products` score-sized products over the causal half of every row.
    fn flops(&self, tokens: usize, products: u64) -> u64 {
        products * tokens as u64 * (self.heads * self.head_dim) as u64 * (self.row_len as u64 + 1)
    }
}

/// Attends.
#[derive(Debug, Clone)]
pub struct AttentionFwd {
    /// Sizes.
    pub shape: AttentionShape,
    /// Queries.
    pub q: Tensor,
    /// Keys.
    pub k: Tensor,
    /// Values.
    pub v: Tensor,
    /// First token of each token's document.
    pub start: Tensor,
    /// Output.
    pub o: Tensor,
    /// Log-sum-exp of every query's scores.
    pub lse: Tensor,
}

impl Operation for AttentionFwd {
    const NAME: &'static str = "attention_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("q", self.q, Access::Read);
        visit("k", self.k, Access::Read);
        visit("v", self.v, Access::Read);
        visit("start", self.start, Access::Read);
        visit("o", self.o, Access::Write);
        visit("lse", self.lse, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.o.dtype
    }
    fn flops(&self) -> u64 {
        self.shape.flops(self.q.rows, 2)
    }
    fn cpu_scratch(&self) -> usize {
        self.shape.head_dim * 2 * (QUERIES + KEYS) + QUERIES * KEYS + 2 * QUERIES
    }
}

/// Keys that a block of queries can see: from the first query's document on, in blocks of [`KEYS`].
fn key_blocks(queries: &Range<usize>, start: &[i32]) -> impl Iterator<Item = Range<usize>> + use<> {
    let (first, end) = (start[queries.start] as usize, queries.end);
    (first..end).step_by(KEYS).map(move |j| j..(j + KEYS).min(end))
}

simd_fn! {
    /// Scales a row of scores and hides the keys outside `visible` (indices into the row).
    fn mask_row<R: Real>(scale: R, visible: Range<usize>, row: &mut [R]) {
        for v in row.iter_mut() {
            *v *= scale;
        }
        let end = visible.end.min(row.len());
        row[..visible.start.min(end)].fill(R::NEG_INFINITY);
        row[end..].fill(R::NEG_INFINITY);
    }
}

simd_fn! {
    fn row_max<R: Real>(row: &[R]) -> R {
        let mut acc = [R::NEG_INFINITY; simd::LANES];
        for chunk in row.chunks(simd::LANES) {
            for (a, v) in acc.iter_mut().zip(chunk) {
                *a = v.max(*a);
            }
        }
        acc.iter().fold(R::NEG_INFINITY, |m, v| v.max(m))
    }
}

simd_fn! {
    /// `row = e^(row - max)`; returns the sum.
    fn exponentials<R: Real>(max: R, row: &mut [R]) -> R {
        let mut acc = [R::ZERO; simd::LANES];
        for chunk in row.chunks_mut(simd::LANES) {
            for (a, v) in acc.iter_mut().zip(chunk) {
                *v = (*v - max).exp();
                *a += *v;
            }
        }
        simd::fold(acc)
    }
}

/// Keys of block `keys` that query `t` can see, as indices into the block.
fn visible(t: usize, start: &[i32], keys: &Range<usize>) -> Range<usize> {
    (start[t] as usize).saturating_sub(keys.start)..(t + 1).saturating_sub(keys.start)
}

impl CpuKernel for AttentionFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let s = self.shape;
        let (q, k, v) = (cpu.read::<A>(self.q), cpu.read::<A>(self.k), cpu.read::<A>(self.v));
        let start = cpu.read_i32(self.start).as_slice();
        let out = (cpu.write::<A>(self.o), cpu.write::<A::Acc>(self.lse));
        let (a, group, scale) = (s.head_dim, s.heads / s.kv_heads, A::Acc::from_f64(s.scale));
        let (zero, one) = (A::Acc::ZERO, A::Acc::ONE);
        cpu.workers.grid::<A::Acc, _>(q.rows, QUERIES, s.heads, out, |piece, (mut o, mut lse), scratch| {
            let (h, rows) = (piece.part, piece.rows.len());
            let (qw, rest) = scratch.split_at_mut(QUERIES * a);
            let (ow, rest) = rest.split_at_mut(QUERIES * a);
            let (kw, rest) = rest.split_at_mut(KEYS * a);
            let (vw, rest) = rest.split_at_mut(KEYS * a);
            let (scores, rest) = rest.split_at_mut(QUERIES * KEYS);
            let (max, sum) = rest[..2 * QUERIES].split_at_mut(QUERIES);
            let (qw, ow) = (&mut qw[..rows * a], &mut ow[..rows * a]);
            widen_matrix(q.row_range(piece.rows.clone()).col_range(h * a..(h + 1) * a), qw);
            ow.fill(zero);
            max.fill(A::Acc::NEG_INFINITY);
            sum.fill(zero);
            for keys in key_blocks(&piece.rows, start) {
                let n = keys.len();
                let (kw, vw, scores) = (&mut kw[..n * a], &mut vw[..n * a], &mut scores[..rows * n]);
                let kv = h / group * a..(h / group + 1) * a;
                widen_matrix(k.row_range(keys.clone()).col_range(kv.clone()), kw);
                widen_matrix(v.row_range(keys.clone()).col_range(kv), vw);
                let (qm, km) = (Mat::new(qw, rows, a), Mat::new(kw, n, a));
                gemm(Form::NT, one, qm, km, zero, &mut MatMut::new(scores, rows, n));
                for (i, t) in piece.rows.clone().enumerate() {
                    let row = &mut scores[i * n..(i + 1) * n];
                    mask_row(scale, visible(t, start, &keys), row);
                    let new_max = row_max(row).max(max[i]);
                    if new_max == A::Acc::NEG_INFINITY {
                        row.fill(zero);
                        continue;
                    }
                    let correction = (max[i] - new_max).exp();
                    sum[i] = sum[i] * correction + exponentials(new_max, row);
                    max[i] = new_max;
                    for v in &mut ow[i * a..(i + 1) * a] {
                        *v *= correction;
                    }
                }
                let (pm, vm) = (Mat::new(scores, rows, n), Mat::new(vw, n, a));
                gemm(Form::NN, one, pm, vm, one, &mut MatMut::new(ow, rows, a));
            }
            for i in 0..rows {
                lse.row_mut(i)[0] = max[i] + sum[i].ln();
                let inverse = one / sum[i];
                for (o, v) in o.row_mut(i).iter_mut().zip(&ow[i * a..(i + 1) * a]) {
                    *o = A::narrow(*v * inverse);
                }
            }
        });
    }
}

/// Gradients of attention.
#[derive(Debug, Clone)]
pub struct AttentionBwd {
    /// The forward operation (its inputs, output and log-sum-exps).
    pub fwd: AttentionFwd,
    /// Gradient of the output (`do` in the formula).
    pub dout: Tensor,
    /// Gradient of the queries.
    pub dq: Tensor,
    /// Gradient of the keys.
    pub dk: Tensor,
    /// Gradient of the values.
    pub dv: Tensor,
}

impl Operation for AttentionBwd {
    const NAME: &'static str = "attention_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("q", self.fwd.q, Access::Read);
        visit("k", self.fwd.k, Access::Read);
        visit("v", self.fwd.v, Access::Read);
        visit("start", self.fwd.start, Access::Read);
        visit("o", self.fwd.o, Access::Read);
        visit("lse", self.fwd.lse, Access::Read);
        visit("dout", self.dout, Access::Read);
        visit("dq", self.dq, Access::Write);
        visit("dk", self.dk, Access::Write);
        visit("dv", self.dv, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.dout.dtype
    }
    fn flops(&self) -> u64 {
        self.fwd.shape.flops(self.dout.rows, 5)
    }
    fn cpu_scratch(&self) -> usize {
        let s = &self.fwd.shape;
        s.head_dim * (2 * s.row_len + 3 * QUERIES + 2 * KEYS) + 2 * QUERIES * KEYS + QUERIES
    }
    #[cfg(feature = "gpu")]
    fn gpu_scratch(&self) -> usize {
        self.dout.rows * self.fwd.shape.heads * size_of::<f32>()
    }
}

simd_fn! {
    /// From scores and dP to P and dS: `p = e^(s - lse)` on visible keys, `dp = p (dp - delta)`.
    fn softmax_gradient<R: Real>(lse: R, delta: R, scores: &mut [R], dp: &mut [R]) {
        for (s, d) in scores.iter_mut().zip(dp) {
            let p = (*s - lse).exp();
            *s = p;
            *d = p * (*d - delta);
        }
    }
}

simd_fn! {
    fn dot_stored<A: Element>(x: &[A::Acc], y: &[A], scratch: &mut [A::Acc]) -> A::Acc {
        for (s, y) in scratch.iter_mut().zip(y) {
            *s = y.widen();
        }
        dot(x, scratch)
    }
}

impl CpuKernel for AttentionBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (f, s) = (&self.fwd, self.fwd.shape);
        let (q, k, v) = (cpu.read::<A>(f.q), cpu.read::<A>(f.k), cpu.read::<A>(f.v));
        let (o, lse, dout) = (cpu.read::<A>(f.o), cpu.read::<A::Acc>(f.lse), cpu.read::<A>(self.dout));
        let start = cpu.read_i32(f.start).as_slice();
        let out = (cpu.write::<A>(self.dq), cpu.write::<A>(self.dk), cpu.write::<A>(self.dv));
        let (a, group, scale) = (s.head_dim, s.heads / s.kv_heads, A::Acc::from_f64(s.scale));
        let (zero, one) = (A::Acc::ZERO, A::Acc::ONE);
        let block = s.row_len.max(1);
        cpu.workers.grid::<A::Acc, _>(q.rows, block, s.kv_heads, out, |work, (mut dq, mut dk, mut dv), scratch| {
            let base = work.rows.start;
            let (dkw, rest) = scratch.split_at_mut(s.row_len * a);
            let (dvw, rest) = rest.split_at_mut(s.row_len * a);
            let (qw, rest) = rest.split_at_mut(QUERIES * a);
            let (dow, rest) = rest.split_at_mut(QUERIES * a);
            let (dqw, rest) = rest.split_at_mut(QUERIES * a);
            let (kw, rest) = rest.split_at_mut(KEYS * a);
            let (vw, rest) = rest.split_at_mut(KEYS * a);
            let (scores, rest) = rest.split_at_mut(QUERIES * KEYS);
            let (dp, rest) = rest.split_at_mut(QUERIES * KEYS);
            let delta = &mut rest[..QUERIES];
            dkw.fill(zero);
            dvw.fill(zero);
            let kv = work.part * a..(work.part + 1) * a;
            for first in work.rows.clone().step_by(QUERIES) {
                let queries = first..(first + QUERIES).min(work.rows.end);
                let rows = queries.len();
                for i in 0..group {
                    let h = work.part * group + i;
                    let columns = h * a..(h + 1) * a;
                    let (qw, dow, dqw) = (&mut qw[..rows * a], &mut dow[..rows * a], &mut dqw[..rows * a]);
                    widen_matrix(q.row_range(queries.clone()).col_range(columns.clone()), qw);
                    widen_matrix(dout.row_range(queries.clone()).col_range(columns.clone()), dow);
                    for (r, t) in queries.clone().enumerate() {
                        let (row, tmp) = (&dow[r * a..(r + 1) * a], &mut dqw[..a]);
                        delta[r] = dot_stored(row, &o.row(t)[columns.clone()], tmp);
                    }
                    dqw.fill(zero);
                    let (qm, dom) = (Mat::new(qw, rows, a), Mat::new(dow, rows, a));
                    for keys in key_blocks(&queries, start) {
                        let n = keys.len();
                        let (kw, vw) = (&mut kw[..n * a], &mut vw[..n * a]);
                        let (scores, dp) = (&mut scores[..rows * n], &mut dp[..rows * n]);
                        widen_matrix(k.row_range(keys.clone()).col_range(kv.clone()), kw);
                        widen_matrix(v.row_range(keys.clone()).col_range(kv.clone()), vw);
                        let (km, vm) = (Mat::new(kw, n, a), Mat::new(vw, n, a));
                        gemm(Form::NT, one, qm, km, zero, &mut MatMut::new(scores, rows, n));
                        gemm(Form::NT, one, dom, vm, zero, &mut MatMut::new(dp, rows, n));
                        for (r, t) in queries.clone().enumerate() {
                            let row = &mut scores[r * n..(r + 1) * n];
                            mask_row(scale, visible(t, start, &keys), row);
                            softmax_gradient(lse.row(t)[h], delta[r], row, &mut dp[r * n..(r + 1) * n]);
                        }
                        let (pm, dsm) = (Mat::new(scores, rows, n), Mat::new(dp, rows, n));
                        let own = (keys.start - base) * a..(keys.end - base) * a;
                        gemm(Form::NN, scale, dsm, km, one, &mut MatMut::new(dqw, rows, a));
                        gemm(Form::TN, scale, dsm, qm, one, &mut MatMut::new(&mut dkw[own.clone()], n, a));
                        gemm(Form::TN, one, pm, dom, one, &mut MatMut::new(&mut dvw[own], n, a));
                    }
                    for r in 0..rows {
                        let dst = &mut dq.row_mut(first - base + r)[i * a..(i + 1) * a];
                        simd::narrow(&dqw[r * a..(r + 1) * a], dst);
                    }
                }
            }
            for t in 0..work.rows.len() {
                simd::narrow(&dkw[t * a..(t + 1) * a], dk.row_mut(t));
                simd::narrow(&dvw[t * a..(t + 1) * a], dv.row_mut(t));
            }
        });
    }
}
