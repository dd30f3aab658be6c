//! What each operation launches, one family per file. The formulas and contracts are at the head of the files in
//! [`crate::ops`] and of the kernels in `csrc/`.

mod attention;
mod conv;
mod embed;
mod experts;
mod linear;
mod loss;
mod mamba;
mod moe;
mod norm;
mod optim;
mod reduce;
mod router;
mod sort;
mod ssd;

pub(crate) use embed::embedding_bwd_scratch;
pub(crate) use loss::linear_cross_entropy_scratch;
pub(crate) use moe::dispatch_plan_scratch;
pub(crate) use router::router_fwd_scratch;

use super::Lowering;
use crate::error::CoreError;
use crate::program::Operation;

/// An operation that the GPU device can run.
pub trait GpuKernel: Operation {
    /// Adds the launches of the operation.
    ///
    /// # Errors
    /// `Device` when there is no kernel for the operation's types, `Shape` when no kernel takes its sizes.
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError>;
}

/// Blocks for kernels that give each block every gridDim-th row: four per multiprocessor keep it busy.
fn row_grid(gpu: &Lowering<'_>, rows: usize) -> usize {
    rows.min(4 * gpu.multiprocessors())
}
