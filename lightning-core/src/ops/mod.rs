//! The operations that programs are made of, one family per file: formula, shapes, rounding points and the CPU kernels,
//! forward and backward side by side.
//!
//! Shape letters: t tokens (all rows of a micro-batch, one after the other), d hidden, v vocabulary, c channels, h heads,
//! p head dim, n state, g groups, e experts, k experts per token, f expert width. `act` is the storage type of
//! activations, `acc` the arithmetic type (f64 for f64, else f32), `grad` the type in which gradients are accumulated.

mod attention;
mod combine;
mod conv_silu;
mod cross_entropy;
mod dispatch;
mod dt;
mod embedding;
mod experts;
mod fill;
mod gated_rms_norm;
mod linear;
mod optimizer;
mod relu2;
mod rms_norm;
mod router;
mod segments;
mod ssd;

pub use attention::{AttentionBwd, AttentionFwd, AttentionShape};
pub use combine::{CombineBwd, CombineFwd};
pub use conv_silu::{ConvSiluBwd, ConvSiluFwd};
pub use cross_entropy::{LinearCrossEntropy, LossHead, LossScale};
pub use dispatch::DispatchPlan;
pub use dt::{SoftplusDtBwd, SoftplusDtFwd};
pub use embedding::{EmbeddingBwd, EmbeddingFwd};
pub use experts::{ExpertsBwd, ExpertsFwd};
pub use fill::Fill;
pub use gated_rms_norm::{GatedRmsNormBwd, GatedRmsNormFwd};
pub use linear::{Adapter, AdapterGradients, LinearBwd, LinearFwd};
pub use optimizer::{AdamW, ExpertBiasUpdate, StepControl};
pub use relu2::{Relu2Bwd, Relu2Fwd};
pub use rms_norm::{RmsNormBwd, RmsNormFwd};
pub use router::{AuxLoss, RouterBwd, RouterFwd, RouterLogits};
pub use segments::{Roll, Segments};
pub use ssd::{SsdScanBwd, SsdScanFwd, SsdShape};
