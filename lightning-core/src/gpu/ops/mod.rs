//! What each operation launches, one family per file. The formulas and contracts are at the head of the files in
//! [`crate::ops`] and of the kernels in `csrc/`.

mod conv;
mod mamba;
mod norm;
mod ssd;

use super::Lowering;
use crate::error::CoreError;
use crate::program::{Op, Operation};

/// An operation that the GPU device can run.
pub trait GpuKernel: Operation {
    /// Adds the launches of the operation.
    ///
    /// # Errors
    /// `Device` when there is no kernel for the operation's types, `Shape` when no kernel takes its sizes.
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError>;
}

impl Op {
    /// Adds the launches of the operation.
    pub(super) fn lower_gpu(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        match self {
            Self::RmsNormFwd(op) => op.lower(gpu),
            Self::RmsNormBwd(op) => op.lower(gpu),
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
