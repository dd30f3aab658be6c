//! Squared ReLU.
//!
//!   y = max(x, 0)^2            dx = 2 max(x, 0) dy
//!
//! | buffer | shape  | dtype | written     |
//! |--------|--------|-------|-------------|
//! | x, dy  | [t, f] | act   | read        |
//! | y, dx  | [t, f] | act   | overwritten |
//!
//! Rounding: computed in acc, rounded once. Kernels: csrc/moe/relu2.cu

use crate::cpu::simd::simd_fn;
use crate::cpu::{Cpu, CpuKernel};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

const BLOCK: usize = 64;

/// Squares the positive part.
#[derive(Debug, Clone)]
pub struct Relu2Fwd {
    /// Input.
    pub x: Tensor,
    /// Output.
    pub y: Tensor,
}

impl Operation for Relu2Fwd {
    const NAME: &'static str = "relu2_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("x", self.x, Access::Read);
        visit("y", self.y, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.y.dtype
    }
}

simd_fn! {
    fn forward_row<A: Element>(x: &[A], y: &mut [A]) {
        for (o, v) in y.iter_mut().zip(x) {
            let r = A::Acc::ZERO.max(v.widen());
            *o = A::narrow(r * r);
        }
    }
}

impl CpuKernel for Relu2Fwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let x = cpu.read::<A>(self.x);
        cpu.workers.grid::<A::Acc, _>(x.rows, BLOCK, 1, cpu.write::<A>(self.y), |piece, mut y, _| {
            for (i, t) in piece.rows.enumerate() {
                forward_row(x.row(t), y.row_mut(i));
            }
        });
    }
}

/// Gradient of the squared positive part.
#[derive(Debug, Clone)]
pub struct Relu2Bwd {
    /// Input of the forward pass.
    pub x: Tensor,
    /// Gradient of the output.
    pub dy: Tensor,
    /// Gradient of the input.
    pub dx: Tensor,
}

impl Operation for Relu2Bwd {
    const NAME: &'static str = "relu2_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("x", self.x, Access::Read);
        visit("dy", self.dy, Access::Read);
        visit("dx", self.dx, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.dx.dtype
    }
}

simd_fn! {
    fn backward_row<A: Element>(x: &[A], dy: &[A], dx: &mut [A]) {
        let two = A::Acc::from_f64(2.0);
        for ((d, v), g) in dx.iter_mut().zip(x).zip(dy) {
            *d = A::narrow(two * A::Acc::ZERO.max(v.widen()) * g.widen());
        }
    }
}

impl CpuKernel for Relu2Bwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (x, dy) = (cpu.read::<A>(self.x), cpu.read::<A>(self.dy));
        cpu.workers.grid::<A::Acc, _>(x.rows, BLOCK, 1, cpu.write::<A>(self.dx), |piece, mut dx, _| {
            for (i, t) in piece.rows.enumerate() {
                backward_row(x.row(t), dy.row(t), dx.row_mut(i));
            }
        });
    }
}
