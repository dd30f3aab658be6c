//! Residual addition and RMSNorm.
//!
//!   x'_td = x_td + branch_td           r_t = (mean_d x'_td^2 + eps)^(-1/2)           y_td = w_d * x'_td * r_t
//!   g = dy * w;   dx_td (+)= r_t (g_td - x'_td r_t^2 mean_d(g x'));   dw_d (+)= sum_t dy_td x'_td r_t
//!
//! | buffer    | shape  | dtype | written                                             |
//! |-----------|--------|-------|-----------------------------------------------------|
//! | x, branch | [t, d] | act   | read; without a branch x' = x and x_out is absent   |
//! | x_out     | [t, d] | act   | overwritten; x' rounded once                        |
//! | y         | [t, d] | act   | overwritten; computed from the rounded x'           |
//! | rstd      | [t]    | acc   | overwritten                                         |
//! | dx        | [t, d] | act   | accumulated (residual stream) or overwritten        |
//! | dw        | [d]    | grad  | overwritten or accumulated                          |
//! | partial   | [b, d] | acc   | workspace, b = ceil(t / 64)                         |
//!
//! Rounding: all in acc, one rounding at x_out, y, dx (model.md §2.1, §2.2). Order: dw sums tokens in fixed blocks of 64,
//! then blocks in order. Kernels: csrc/norm/rms_norm.cu

use crate::cpu::simd::{LANES, fold, simd_fn};
use crate::cpu::{Cpu, CpuKernel, MatMut, PerBlock, store_gradient};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

/// Tokens whose contributions to a weight gradient are summed before blocks are.
const BLOCK: usize = 64;

/// Adds a pending branch to the residual stream and normalises the sum.
#[derive(Debug, Clone)]
pub struct RmsNormFwd {
    /// Residual stream.
    pub x: Tensor,
    /// Output of the previous mixer, still to be added.
    pub branch: Option<Tensor>,
    /// Norm weight.
    pub w: Tensor,
    /// Epsilon inside the root.
    pub eps: f64,
    /// The new residual stream; present exactly when `branch` is.
    pub x_out: Option<Tensor>,
    /// Normalised output.
    pub y: Tensor,
    /// Reciprocal root mean square of every token.
    pub rstd: Tensor,
}

impl Operation for RmsNormFwd {
    const NAME: &'static str = "rms_norm_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("x", self.x, Access::Read);
        if let (Some(branch), Some(x_out)) = (self.branch, self.x_out) {
            visit("branch", branch, Access::Read);
            visit("x_out", x_out, Access::Write);
        }
        visit("w", self.w, Access::Read);
        visit("y", self.y, Access::Write);
        visit("rstd", self.rstd, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.y.dtype
    }
}

simd_fn! {
    fn add_rows<A: Element>(x: &[A], branch: &[A], out: &mut [A]) {
        for ((o, a), b) in out.iter_mut().zip(x).zip(branch) {
            *o = A::narrow(a.widen() + b.widen());
        }
    }
}

simd_fn! {
    /// Normalises one row and returns the reciprocal root mean square.
    fn normalize_row<A: Element>(x: &[A], w: &[A], eps: f64, y: &mut [A]) -> A::Acc {
        let mut acc = [A::Acc::ZERO; LANES];
        let chunks = x.chunks_exact(LANES);
        for (l, v) in chunks.remainder().iter().enumerate() {
            acc[l] += v.widen() * v.widen();
        }
        for c in chunks {
            for l in 0..LANES {
                acc[l] += c[l].widen() * c[l].widen();
            }
        }
        let mean = fold(acc) / A::Acc::from_f64(x.len() as f64);
        let rstd = A::Acc::ONE / (mean + A::Acc::from_f64(eps)).sqrt();
        for ((o, v), w) in y.iter_mut().zip(x).zip(w) {
            *o = A::narrow(w.widen() * (v.widen() * rstd));
        }
        rstd
    }
}

impl CpuKernel for RmsNormFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let x = cpu.read::<A>(self.x);
        let branch = self.branch.map(|b| cpu.read::<A>(b));
        let w = cpu.read::<A>(self.w).row(0);
        let out = (self.x_out.map(|o| cpu.write::<A>(o)), cpu.write::<A>(self.y), cpu.write::<A::Acc>(self.rstd));
        cpu.workers.grid::<A::Acc, _>(x.rows, BLOCK, 1, out, |piece, (mut x_out, mut y, mut rstd), _| {
            for (i, t) in piece.rows.enumerate() {
                let row = match (&branch, &mut x_out) {
                    (Some(branch), Some(x_out)) => {
                        add_rows(x.row(t), branch.row(t), x_out.row_mut(i));
                        x_out.row_mut(i)
                    }
                    _ => x.row(t),
                };
                rstd.row_mut(i)[0] = normalize_row(row, w, self.eps, y.row_mut(i));
            }
        });
    }
}

/// Gradient of the norm, added to the gradient of the residual stream.
#[derive(Debug, Clone)]
pub struct RmsNormBwd {
    /// Gradient of the normalised output.
    pub dy: Tensor,
    /// The normalised input (x').
    pub x: Tensor,
    /// Norm weight.
    pub w: Tensor,
    /// Reciprocal root mean squares of the forward pass.
    pub rstd: Tensor,
    /// Gradient of x'.
    pub dx: Tensor,
    /// Add to `dx` (it already holds the gradient that arrives through the residual stream).
    pub accumulate_dx: bool,
    /// Gradient of the weight.
    pub dw: Tensor,
    /// Add to `dw` instead of overwriting it.
    pub accumulate_dw: bool,
    /// Partial sums of `dw`, see [`RmsNormBwd::partial_rows`].
    pub partial: Tensor,
}

impl RmsNormBwd {
    /// Rows of the workspace for a number of tokens.
    pub fn partial_rows(tokens: usize) -> usize {
        tokens.div_ceil(BLOCK).max(1)
    }
}

impl Operation for RmsNormBwd {
    const NAME: &'static str = "rms_norm_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("dy", self.dy, Access::Read);
        visit("x", self.x, Access::Read);
        visit("w", self.w, Access::Read);
        visit("rstd", self.rstd, Access::Read);
        visit("dx", self.dx, Access::output(self.accumulate_dx));
        visit("dw", self.dw, Access::output(self.accumulate_dw));
        visit("partial", self.partial, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.dy.dtype
    }
}

simd_fn! {
    fn backward_row<A: Element>(dy: &[A], x: &[A], w: &[A], rstd: A::Acc, accumulate: bool, dx: &mut [A], dw: &mut [A::Acc]) {
        let mut acc = [A::Acc::ZERO; LANES];
        let n = x.len();
        let whole = n / LANES * LANES;
        for i in (0..whole).step_by(LANES) {
            for l in 0..LANES {
                acc[l] += dy[i + l].widen() * w[i + l].widen() * x[i + l].widen();
            }
        }
        for i in whole..n {
            acc[i - whole] += dy[i].widen() * w[i].widen() * x[i].widen();
        }
        let mean = fold(acc) / A::Acc::from_f64(n as f64);
        let c = rstd * rstd * mean;
        if accumulate {
            for i in 0..n {
                let g = dy[i].widen() * w[i].widen();
                let xi = x[i].widen();
                dx[i] = A::narrow(dx[i].widen() + rstd * (g - xi * c));
                dw[i] += dy[i].widen() * (xi * rstd);
            }
        } else {
            for i in 0..n {
                let g = dy[i].widen() * w[i].widen();
                let xi = x[i].widen();
                dx[i] = A::narrow(rstd * (g - xi * c));
                dw[i] += dy[i].widen() * (xi * rstd);
            }
        }
    }
}

simd_fn! {
    /// `sum[i] += row[i]`.
    pub(super) fn add_to<R: Real>(row: &[R], sum: &mut [R]) {
        for (s, r) in sum.iter_mut().zip(row) {
            *s += *r;
        }
    }
}

impl CpuKernel for RmsNormBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (dy, x, rstd) = (cpu.read::<A>(self.dy), cpu.read::<A>(self.x), cpu.read::<A::Acc>(self.rstd));
        let w = cpu.read::<A>(self.w).row(0);
        let mut partial = cpu.write::<A::Acc>(self.partial);
        let out = (cpu.write::<A>(self.dx), PerBlock::new(partial.reborrow(), BLOCK, 1));
        cpu.workers.grid::<A::Acc, _>(x.rows, BLOCK, 1, out, |piece, (mut dx, mut sums), _| {
            let dw = sums.mat.row_mut(0);
            dw.fill(A::Acc::ZERO);
            for (i, t) in piece.rows.enumerate() {
                backward_row(dy.row(t), x.row(t), w, rstd.row(t)[0], self.accumulate_dx, dx.row_mut(i), dw);
            }
        });
        sum_blocks(cpu, partial, x.rows.div_ceil(BLOCK), self.dw, self.accumulate_dw);
    }
}

/// Adds the first `blocks` rows of `partial` in order into its row 0 and stores the sum as a gradient.
pub(super) fn sum_blocks<R: Real>(
    cpu: &Cpu<'_>,
    mut partial: MatMut<'_, R>,
    blocks: usize,
    dst: Tensor,
    accumulate: bool,
) {
    if blocks == 0 {
        partial.row_mut(0).fill(R::ZERO);
    }
    let (mut first, rest) = partial.split_rows(1);
    for b in 0..blocks.saturating_sub(1) {
        add_to(rest.as_mat().row(b), first.row_mut(0));
    }
    store_gradient(cpu, first.as_mat().row(0), dst, accumulate);
}
