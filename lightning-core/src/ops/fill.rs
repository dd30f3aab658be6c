//! Sets every element of a tensor to one value.
//!
//! | buffer | shape | dtype               | written     |
//! |--------|-------|---------------------|-------------|
//! | dst    | any   | any floating or i32 | overwritten |
//!
//! Kernels: csrc/reduce/fill.cu

use crate::cpu::{Cpu, CpuKernel};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

/// Fills a tensor.
#[derive(Debug, Clone)]
pub struct Fill {
    /// Tensor to fill.
    pub dst: Tensor,
    /// The value, rounded to the element type.
    pub value: f64,
}

impl Operation for Fill {
    const NAME: &'static str = "fill";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("dst", self.dst, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.dst.dtype
    }
}

impl CpuKernel for Fill {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        if self.dst.dtype == DType::I32 {
            let mut dst = cpu.write_i32(self.dst);
            for t in 0..dst.rows {
                dst.row_mut(t).fill(self.value as i32);
            }
            return;
        }
        let value = A::narrow(A::Acc::from_f64(self.value));
        cpu.workers.grid::<A::Acc, _>(self.dst.rows, 1024, 1, cpu.write::<A>(self.dst), |piece, mut dst, _| {
            for i in 0..piece.rows.len() {
                dst.row_mut(i).fill(value);
            }
        });
    }
}
