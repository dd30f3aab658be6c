//! Combination of expert outputs, and the gradient of the gathered tokens.
//!
//!   out_td = sum_j y_{slot(t, j), d} + shared_td            dx_td += sum_j dxs_{slot(t, j), d}
//!
//! | buffer       | shape    | dtype | written                                             |
//! |--------------|----------|-------|-----------------------------------------------------|
//! | y, dxs       | [t k, d] | act   | read                                                |
//! | slot_of_pair | [t, k]   | i32   | read                                                |
//! | shared       | [t, d]   | act   | read; output of the shared expert, if there is one  |
//! | out          | [t, d]   | act   | overwritten                                         |
//! | dx           | [t, d]   | act   | accumulated or overwritten                          |
//!
//! Rounding: the sums in acc, rounded once (model.md §5.1). Order: choices in ascending order, the shared expert last.
//! Kernels: csrc/moe/combine.cu

use crate::cpu::simd::simd_fn;
use crate::cpu::{Cpu, CpuKernel};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

const BLOCK: usize = 64;

/// Sums the outputs of a token's experts.
#[derive(Debug, Clone)]
pub struct CombineFwd {
    /// Outputs by slot.
    pub y: Tensor,
    /// Slot of each pair.
    pub slot_of_pair: Tensor,
    /// Output of the shared expert.
    pub shared: Option<Tensor>,
    /// Combined output.
    pub out: Tensor,
}

impl Operation for CombineFwd {
    const NAME: &'static str = "combine_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("y", self.y, Access::Read);
        visit("slot_of_pair", self.slot_of_pair, Access::Read);
        if let Some(shared) = self.shared {
            visit("shared", shared, Access::Read);
        }
        visit("out", self.out, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.out.dtype
    }
    fn cpu_scratch(&self) -> usize {
        self.out.cols
    }
}

simd_fn! {
    fn add_widened<A: Element>(x: &[A], sum: &mut [A::Acc]) {
        for (s, x) in sum.iter_mut().zip(x) {
            *s += x.widen();
        }
    }
}

impl CpuKernel for CombineFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (y, slots) = (cpu.read::<A>(self.y), cpu.read_i32(self.slot_of_pair));
        let shared = self.shared.map(|s| cpu.read::<A>(s));
        let d = y.cols;
        cpu.workers.grid::<A::Acc, _>(slots.rows, BLOCK, 1, cpu.write::<A>(self.out), |piece, mut out, scratch| {
            let sum = &mut scratch[..d];
            for (i, t) in piece.rows.enumerate() {
                sum.fill(A::Acc::ZERO);
                for &slot in slots.row(t) {
                    add_widened(y.row(slot as usize), sum);
                }
                if let Some(shared) = &shared {
                    add_widened(shared.row(t), sum);
                }
                crate::cpu::simd::narrow(sum, out.row_mut(i));
            }
        });
    }
}

/// Sums the gradients of a token's gathered copies.
#[derive(Debug, Clone)]
pub struct CombineBwd {
    /// Gradients by slot.
    pub dxs: Tensor,
    /// Slot of each pair.
    pub slot_of_pair: Tensor,
    /// Gradient of the tokens.
    pub dx: Tensor,
    /// Add to `dx` instead of overwriting it.
    pub accumulate: bool,
}

impl Operation for CombineBwd {
    const NAME: &'static str = "combine_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("dxs", self.dxs, Access::Read);
        visit("slot_of_pair", self.slot_of_pair, Access::Read);
        visit("dx", self.dx, Access::output(self.accumulate));
    }
    fn dtype(&self) -> DType {
        self.dx.dtype
    }
    fn cpu_scratch(&self) -> usize {
        self.dx.cols
    }
}

impl CpuKernel for CombineBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (dxs, slots) = (cpu.read::<A>(self.dxs), cpu.read_i32(self.slot_of_pair));
        cpu.workers.grid::<A::Acc, _>(slots.rows, BLOCK, 1, cpu.write::<A>(self.dx), |piece, mut dx, scratch| {
            let sum = &mut scratch[..dxs.cols];
            for (i, t) in piece.rows.enumerate() {
                sum.fill(A::Acc::ZERO);
                if self.accumulate {
                    crate::cpu::simd::widen(dx.as_mat().row(i), sum);
                }
                for &slot in slots.row(t) {
                    add_widened(dxs.row(slot as usize), sum);
                }
                crate::cpu::simd::narrow(sum, dx.row_mut(i));
            }
        });
    }
}
