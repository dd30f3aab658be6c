//! Token embedding.
//!
//!   y_td = E_{id_t, d}            dE_{v,d} (+)= sum over t with id_t = v, ascending t, of dy_td
//!
//! | buffer | shape  | dtype | written                    |
//! |--------|--------|-------|----------------------------|
//! | ids    | [t]    | i32   | read; 0 <= id < v          |
//! | y      | [t, d] | act   | overwritten, exact copy    |
//! | dtable | [v, d] | grad  | overwritten or accumulated |
//!
//! Order: every element of dE is owned by one worker, which adds tokens in ascending order. An id outside the table is a
//! caller's error that the batch check reports; the CPU kernels panic on it. Kernels: csrc/embed/embedding.cu

use crate::cpu::{Columns, Cpu, CpuKernel, Mat, column_parts};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};
use half::bf16;

/// Looks up rows of the embedding table.
#[derive(Debug, Clone)]
pub struct EmbeddingFwd {
    /// Token ids.
    pub ids: Tensor,
    /// Embedding table.
    pub table: Tensor,
    /// Looked-up rows.
    pub y: Tensor,
}

impl Operation for EmbeddingFwd {
    const NAME: &'static str = "embedding_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("ids", self.ids, Access::Read);
        visit("table", self.table, Access::Read);
        visit("y", self.y, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.y.dtype
    }
}

impl CpuKernel for EmbeddingFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (ids, table) = (cpu.read_i32(self.ids).as_slice(), cpu.read::<A>(self.table));
        cpu.workers.grid::<A::Acc, _>(ids.len(), 256, 1, cpu.write::<A>(self.y), |piece, mut y, _| {
            for (i, t) in piece.rows.enumerate() {
                y.row_mut(i).copy_from_slice(table.row(ids[t] as usize));
            }
        });
    }
}

/// Adds output gradients to the rows of the table's gradient.
#[derive(Debug, Clone)]
pub struct EmbeddingBwd {
    /// Token ids.
    pub ids: Tensor,
    /// Gradient of the looked-up rows.
    pub dy: Tensor,
    /// Gradient of the table.
    pub dtable: Tensor,
    /// Add to `dtable` instead of overwriting it.
    pub accumulate: bool,
}

impl Operation for EmbeddingBwd {
    const NAME: &'static str = "embedding_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("ids", self.ids, Access::Read);
        visit("dy", self.dy, Access::Read);
        visit("dtable", self.dtable, Access::output(self.accumulate));
    }
    fn dtype(&self) -> DType {
        self.dy.dtype
    }
    #[cfg(feature = "gpu")]
    fn gpu_scratch(&self) -> usize {
        crate::gpu::embedding_bwd_scratch(self)
    }
}

impl CpuKernel for EmbeddingBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let dy = cpu.read::<A>(self.dy);
        match (A::DTYPE, self.dtable.dtype) {
            (_, grad) if grad == A::Acc::DTYPE => self.scatter::<A, A::Acc>(cpu, dy),
            (DType::BF16, _) => self.scatter::<bf16, bf16>(cpu, dy.cast()),
            _ => self.scatter::<f32, bf16>(cpu, dy.cast()),
        }
    }
}

impl EmbeddingBwd {
    fn scatter<A: Element, G: Element<Acc = A::Acc>>(&self, cpu: &Cpu<'_>, dy: Mat<'_, A>) {
        let ids = cpu.read_i32(self.ids).as_slice();
        let parts = column_parts(dy.cols, 32);
        let width = dy.cols / parts;
        let table = Columns(cpu.write::<G>(self.dtable));
        cpu.workers.grid::<A::Acc, _>(dy.rows.max(1), usize::MAX, parts, table, |piece, Columns(mut table), _| {
            if !self.accumulate {
                for v in 0..table.rows {
                    table.row_mut(v).fill(G::narrow(A::Acc::ZERO));
                }
            }
            for (t, &id) in ids.iter().enumerate() {
                let src = &dy.row(t)[piece.part * width..(piece.part + 1) * width];
                for (d, s) in table.row_mut(id as usize).iter_mut().zip(src) {
                    *d = G::narrow(d.widen() + s.widen());
                }
            }
        });
    }
}
