//! Linear projection, with an optional low-rank adapter.
//!
//!   y_to = sum_i x_ti W_oi                     with an adapter: u_tr = s sum_i x_ti A_ri,  y_to += sum_r u_tr B_or
//!   dx (+)= dy W;   dW (+)= dy^T x             with an adapter: v = s dy B,  dx += v A,  dA (+)= v^T x,  dB (+)= dy^T u
//!
//! | buffer   | shape  | dtype | written                                        |
//! |----------|--------|-------|------------------------------------------------|
//! | x        | [t, i] | act   | read                                           |
//! | W, A, B  | [o, i], [r, i], [o, r] | act | read                             |
//! | y        | [t, o] | act   | overwritten                                    |
//! | u, v     | [t, r] | act   | overwritten; s is applied before the rounding  |
//! | dx       | [t, i] | act   | overwritten or accumulated                     |
//! | dW, dA, dB | as W, A, B | grad | overwritten or accumulated; dW absent when W is frozen |
//!
//! Rounding: products in acc, one rounding per stored element (model.md §8); the adapter's product is added to the
//! rounded y. Source of the adapter: model.md §10.

use crate::cpu::{Cpu, CpuKernel, Form, MATMUL_SCRATCH, matmul, weight_gradient};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

/// A low-rank adapter beside a projection.
#[derive(Debug, Clone, Copy)]
pub struct Adapter {
    /// Down-projection [r, i].
    pub a: Tensor,
    /// Up-projection [o, r].
    pub b: Tensor,
    /// Factor alpha / r.
    pub scale: f64,
    /// Scaled down-projected input [t, r].
    pub u: Tensor,
}

/// Gradients of an adapter.
#[derive(Debug, Clone, Copy)]
pub struct AdapterGradients {
    /// Gradient of `a`.
    pub da: Tensor,
    /// Gradient of `b`.
    pub db: Tensor,
    /// Add to both instead of overwriting them.
    pub accumulate: bool,
    /// Workspace [t, r].
    pub v: Tensor,
}

/// Projects rows.
#[derive(Debug, Clone)]
pub struct LinearFwd {
    /// Input rows.
    pub x: Tensor,
    /// Weight (out, in).
    pub w: Tensor,
    /// Output rows.
    pub y: Tensor,
    /// Low-rank addition.
    pub adapter: Option<Adapter>,
}

fn product_flops(t: usize, o: usize, i: usize) -> u64 {
    2 * t as u64 * o as u64 * i as u64
}

/// Scratch of a product over storage type `dtype` whose result is kept in `result`.
pub(super) fn product_scratch(dtype: DType, result: DType) -> usize {
    let acc = dtype.accumulator();
    if dtype == acc && result == acc { 0 } else { MATMUL_SCRATCH }
}

impl Operation for LinearFwd {
    const NAME: &'static str = "linear_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("x", self.x, Access::Read);
        visit("w", self.w, Access::Read);
        if let Some(adapter) = &self.adapter {
            visit("a", adapter.a, Access::Read);
            visit("b", adapter.b, Access::Read);
            visit("u", adapter.u, Access::Write);
        }
        visit("y", self.y, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.x.dtype
    }
    fn flops(&self) -> u64 {
        let (t, o, i) = (self.x.rows, self.w.rows, self.w.cols);
        product_flops(t, o, i) + self.adapter.map_or(0, |a| product_flops(t, a.a.rows, o + i))
    }
    fn cpu_scratch(&self) -> usize {
        product_scratch(self.x.dtype, self.y.dtype)
    }
}

impl CpuKernel for LinearFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (w, x) = (&cpu.workers, cpu.read::<A>(self.x));
        let mut y = cpu.write::<A>(self.y);
        matmul(w, Form::NT, x, cpu.read::<A>(self.w), false, y.reborrow());
        if let Some(adapter) = &self.adapter {
            let mut u = cpu.write::<A>(adapter.u);
            matmul(w, Form::NT, x, cpu.read::<A>(adapter.a), false, u.reborrow());
            scale_rows(&mut u, adapter.scale);
            matmul(w, Form::NT, u.as_mat(), cpu.read::<A>(adapter.b), true, y);
        }
    }
}

fn scale_rows<A: Element>(u: &mut crate::cpu::MatMut<'_, A>, scale: f64) {
    if scale == 1.0 {
        return;
    }
    for t in 0..u.rows {
        for value in u.row_mut(t) {
            *value = A::narrow(value.widen() * A::Acc::from_f64(scale));
        }
    }
}

/// Gradients of a projection.
#[derive(Debug, Clone)]
pub struct LinearBwd {
    /// Gradient of the output.
    pub dy: Tensor,
    /// Input of the forward pass.
    pub x: Tensor,
    /// Weight (out, in).
    pub w: Tensor,
    /// Gradient of the input, if anyone wants it.
    pub dx: Option<Tensor>,
    /// Add to `dx` instead of overwriting it.
    pub accumulate_dx: bool,
    /// Gradient of the weight; absent when the weight is frozen.
    pub dw: Option<Tensor>,
    /// Add to `dw` instead of overwriting it.
    pub accumulate_dw: bool,
    /// Low-rank addition and its gradients.
    pub adapter: Option<(Adapter, AdapterGradients)>,
}

impl Operation for LinearBwd {
    const NAME: &'static str = "linear_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("dy", self.dy, Access::Read);
        visit("x", self.x, Access::Read);
        visit("w", self.w, Access::Read);
        if let Some(dx) = self.dx {
            visit("dx", dx, Access::output(self.accumulate_dx));
        }
        if let Some(dw) = self.dw {
            visit("dw", dw, Access::output(self.accumulate_dw));
        }
        if let Some((adapter, gradients)) = &self.adapter {
            visit("a", adapter.a, Access::Read);
            visit("b", adapter.b, Access::Read);
            visit("u", adapter.u, Access::Read);
            visit("da", gradients.da, Access::output(gradients.accumulate));
            visit("db", gradients.db, Access::output(gradients.accumulate));
            visit("v", gradients.v, Access::Write);
        }
    }
    fn dtype(&self) -> DType {
        self.dy.dtype
    }
    fn flops(&self) -> u64 {
        let (t, o, i) = (self.x.rows, self.w.rows, self.w.cols);
        let products = u64::from(self.dx.is_some()) + u64::from(self.dw.is_some());
        products * product_flops(t, o, i) + self.adapter.map_or(0, |(a, _)| 2 * product_flops(t, a.a.rows, o + i))
    }
    fn cpu_scratch(&self) -> usize {
        let dw = self.dw.map_or(self.dy.dtype.accumulator(), |d| d.dtype);
        let da = self.adapter.map_or(dw, |(_, g)| g.da.dtype);
        [dw, da, self.dy.dtype].iter().map(|d| product_scratch(self.dy.dtype, *d)).max().unwrap_or(0)
    }
}

impl CpuKernel for LinearBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (w, dy, x) = (&cpu.workers, cpu.read::<A>(self.dy), cpu.read::<A>(self.x));
        let mut dx = self.dx.map(|dx| cpu.write::<A>(dx));
        if let Some(dx) = &mut dx {
            matmul(w, Form::NN, dy, cpu.read::<A>(self.w), self.accumulate_dx, dx.reborrow());
        }
        if let Some(dw) = self.dw {
            weight_gradient(w, dy, x, self.accumulate_dw, cpu.gradient(dw));
        }
        if let Some((adapter, gradients)) = &self.adapter {
            let mut v = cpu.write::<A>(gradients.v);
            matmul(w, Form::NN, dy, cpu.read::<A>(adapter.b), false, v.reborrow());
            scale_rows(&mut v, adapter.scale);
            if let Some(dx) = dx {
                matmul(w, Form::NN, v.as_mat(), cpu.read::<A>(adapter.a), true, dx);
            }
            weight_gradient(w, v.as_mat(), x, gradients.accumulate, cpu.gradient(gradients.da));
            weight_gradient(w, dy, cpu.read::<A>(adapter.u), gradients.accumulate, cpu.gradient(gradients.db));
        }
    }
}
