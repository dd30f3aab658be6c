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

impl Op {
    /// Adds the launches of the operation.
    pub(super) fn lower_gpu(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        match self {
            Self::LinearFwd(op) => op.lower(gpu),
            Self::LinearBwd(op) => op.lower(gpu),
            Self::RmsNormFwd(op) => op.lower(gpu),
            Self::RmsNormBwd(op) => op.lower(gpu),
            Self::Fill(op) => op.lower(gpu),
            Self::Segments(op) => op.lower(gpu),
            Self::Roll(op) => op.lower(gpu),
            Self::EmbeddingFwd(op) => op.lower(gpu),
            Self::EmbeddingBwd(op) => op.lower(gpu),
            Self::Relu2Fwd(op) => op.lower(gpu),
            Self::Relu2Bwd(op) => op.lower(gpu),
            Self::CombineFwd(op) => op.lower(gpu),
            Self::CombineBwd(op) => op.lower(gpu),
            Self::DispatchPlan(op) => op.lower(gpu),
            Self::ExpertsFwd(op) => op.lower(gpu),
            Self::ExpertsBwd(op) => op.lower(gpu),
            Self::SoftplusDtFwd(op) => op.lower(gpu),
            Self::SoftplusDtBwd(op) => op.lower(gpu),
            Self::GatedRmsNormFwd(op) => op.lower(gpu),
            Self::GatedRmsNormBwd(op) => op.lower(gpu),
            Self::ConvSiluFwd(op) => op.lower(gpu),
            Self::ConvSiluBwd(op) => op.lower(gpu),
            Self::SsdScanFwd(op) => op.lower(gpu),
            Self::SsdScanBwd(op) => op.lower(gpu),
            other => Err(CoreError::Device {
                doing: alloc::format!("lowering `{}`", other.name()),
                reason: "the GPU device has no kernel for it; use --device cpu".into(),
            }),
        }
    }
}
