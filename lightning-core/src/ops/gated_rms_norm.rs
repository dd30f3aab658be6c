//! Grouped gated RMSNorm of Mamba-2: gate first, then normalise each group of channels.
//!
//!   u_tc = y_tc * silu(z_tc)      r_tg = (mean_{c in g} u_tc^2 + eps)^(-1/2)      o_tc = w_c * u_tc * r_tg
//!   du = r (g - u r^2 mean_g(g u)),  g = do * w;     dy = du * silu(z);   dz = du * y * silu'(z);   dw (+)= sum_t do u r
//!
//! | buffer     | shape  | dtype | written                    |
//! |------------|--------|-------|----------------------------|
//! | y, z       | [t, c] | act   | read                       |
//! | o          | [t, c] | act   | overwritten                |
//! | rstd       | [t, g] | acc   | overwritten                |
//! | dy, dz     | [t, c] | act   | overwritten                |
//! | dw         | [c]    | grad  | overwritten or accumulated |
//! | partial    | [b, c] | acc   | workspace, b = ceil(t / 64)|
//!
//! Rounding: all in acc, one rounding at o, dy, dz (model.md §4.5, §8). Order: dw sums tokens in fixed blocks of 64, then blocks in order.

use super::rms_norm::sum_blocks;
use crate::cpu::simd::{LANES, dot, fold, simd_fn};
use crate::cpu::{Cpu, CpuKernel, PerBlock};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

const BLOCK: usize = 64;

/// Gates and normalises.
#[derive(Debug, Clone)]
pub struct GatedRmsNormFwd {
    /// Output of the scan.
    pub y: Tensor,
    /// Gate (columns of the in_proj output).
    pub z: Tensor,
    /// Norm weight.
    pub w: Tensor,
    /// Groups of channels that are normalised together.
    pub groups: usize,
    /// Epsilon inside the root.
    pub eps: f64,
    /// Normalised output.
    pub o: Tensor,
    /// Reciprocal root mean square of every token and group.
    pub rstd: Tensor,
}

impl Operation for GatedRmsNormFwd {
    const NAME: &'static str = "gated_rms_norm_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("y", self.y, Access::Read);
        visit("z", self.z, Access::Read);
        visit("w", self.w, Access::Read);
        visit("o", self.o, Access::Write);
        visit("rstd", self.rstd, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.o.dtype
    }
    fn cpu_scratch(&self) -> usize {
        self.y.cols
    }
}

simd_fn! {
    /// `u = y * silu(z)`.
    fn gate<A: Element>(y: &[A], z: &[A], u: &mut [A::Acc]) {
        for ((u, y), z) in u.iter_mut().zip(y).zip(z) {
            let zw = z.widen();
            *u = y.widen() * (zw * zw.sigmoid());
        }
    }
}

simd_fn! {
    fn normalize_group<A: Element>(u: &[A::Acc], w: &[A], eps: f64, o: &mut [A]) -> A::Acc {
        let mean = dot(u, u) / A::Acc::from_f64(u.len() as f64);
        let rstd = A::Acc::ONE / (mean + A::Acc::from_f64(eps)).sqrt();
        for ((o, u), w) in o.iter_mut().zip(u).zip(w) {
            *o = A::narrow(w.widen() * (*u * rstd));
        }
        rstd
    }
}

impl CpuKernel for GatedRmsNormFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (y, z, w) = (cpu.read::<A>(self.y), cpu.read::<A>(self.z), cpu.read::<A>(self.w).row(0));
        let width = y.cols / self.groups;
        let out = (cpu.write::<A>(self.o), cpu.write::<A::Acc>(self.rstd));
        cpu.workers.grid::<A::Acc, _>(y.rows, BLOCK, 1, out, |piece, (mut o, mut rstd), scratch| {
            let u = &mut scratch[..y.cols];
            for (i, t) in piece.rows.enumerate() {
                gate(y.row(t), z.row(t), u);
                for g in 0..self.groups {
                    let c = g * width..(g + 1) * width;
                    rstd.row_mut(i)[g] = normalize_group(&u[c.clone()], &w[c.clone()], self.eps, &mut o.row_mut(i)[c]);
                }
            }
        });
    }
}

/// Gradients of the gated norm.
#[derive(Debug, Clone)]
pub struct GatedRmsNormBwd {
    /// Gradient of the normalised output (`do` in the formula).
    pub dout: Tensor,
    /// Output of the scan.
    pub y: Tensor,
    /// Gate.
    pub z: Tensor,
    /// Norm weight.
    pub w: Tensor,
    /// Groups of channels that are normalised together.
    pub groups: usize,
    /// Reciprocal root mean squares of the forward pass.
    pub rstd: Tensor,
    /// Gradient of the scan's output.
    pub dy: Tensor,
    /// Gradient of the gate.
    pub dz: Tensor,
    /// Gradient of the weight.
    pub dw: Tensor,
    /// Add to `dw` instead of overwriting it.
    pub accumulate: bool,
    /// Workspace, see [`GatedRmsNormBwd::partial_rows`].
    pub partial: Tensor,
}

impl GatedRmsNormBwd {
    /// Rows of the workspace for a number of tokens.
    pub fn partial_rows(tokens: usize) -> usize {
        tokens.div_ceil(BLOCK).max(1)
    }
}

impl Operation for GatedRmsNormBwd {
    const NAME: &'static str = "gated_rms_norm_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("dout", self.dout, Access::Read);
        visit("y", self.y, Access::Read);
        visit("z", self.z, Access::Read);
        visit("w", self.w, Access::Read);
        visit("rstd", self.rstd, Access::Read);
        visit("dy", self.dy, Access::Write);
        visit("dz", self.dz, Access::Write);
        visit("dw", self.dw, Access::output(self.accumulate));
        visit("partial", self.partial, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.dout.dtype
    }
    fn cpu_scratch(&self) -> usize {
        self.y.cols
    }
}

simd_fn! {
    fn group_gradient<A: Element>(dout: &[A], y: &[A], z: &[A], w: &[A], u: &[A::Acc], rstd: A::Acc, dy: &mut [A], dz: &mut [A], dw: &mut [A::Acc]) {
        let n = u.len();
        let mut acc = [A::Acc::ZERO; LANES];
        let whole = n / LANES * LANES;
        for i in (0..whole).step_by(LANES) {
            for l in 0..LANES {
                acc[l] += dout[i + l].widen() * w[i + l].widen() * u[i + l];
            }
        }
        for i in whole..n {
            acc[i - whole] += dout[i].widen() * w[i].widen() * u[i];
        }
        let c = rstd * rstd * (fold(acc) / A::Acc::from_f64(n as f64));
        for i in 0..n {
            let du = rstd * (dout[i].widen() * w[i].widen() - u[i] * c);
            let zw = z[i].widen();
            let s = zw.sigmoid();
            dy[i] = A::narrow(du * (zw * s));
            dz[i] = A::narrow(du * y[i].widen() * (s * (A::Acc::ONE + zw * (A::Acc::ONE - s))));
            dw[i] += dout[i].widen() * (u[i] * rstd);
        }
    }
}

impl CpuKernel for GatedRmsNormBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (dout, y, z) = (cpu.read::<A>(self.dout), cpu.read::<A>(self.y), cpu.read::<A>(self.z));
        let (w, rstd) = (cpu.read::<A>(self.w).row(0), cpu.read::<A::Acc>(self.rstd));
        let width = y.cols / self.groups;
        let mut partial = cpu.write::<A::Acc>(self.partial);
        let sums = PerBlock::new(partial.reborrow(), BLOCK, 1);
        let out = (cpu.write::<A>(self.dy), cpu.write::<A>(self.dz), sums);
        cpu.workers.grid::<A::Acc, _>(y.rows, BLOCK, 1, out, |piece, (mut dy, mut dz, mut sums), scratch| {
            let u = &mut scratch[..y.cols];
            sums.mat.row_mut(0).fill(A::Acc::ZERO);
            for (i, t) in piece.rows.enumerate() {
                gate(y.row(t), z.row(t), u);
                for g in 0..self.groups {
                    let c = g * width..(g + 1) * width;
                    group_gradient(
                        &dout.row(t)[c.clone()],
                        &y.row(t)[c.clone()],
                        &z.row(t)[c.clone()],
                        &w[c.clone()],
                        &u[c.clone()],
                        rstd.row(t)[g],
                        &mut dy.row_mut(i)[c.clone()],
                        &mut dz.row_mut(i)[c.clone()],
                        &mut sums.mat.row_mut(0)[c],
                    );
                }
            }
        });
        sum_blocks(cpu, partial, y.rows.div_ceil(BLOCK), self.dw, self.accumulate);
    }
}
