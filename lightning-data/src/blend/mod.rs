//! Mixing several sources into one order of samples, as the public stack does it.
//!
//! The picker is greedy: sample s comes from the source that lags its share most. Shares, sizes and roundings follow the
//! reference in every bit, because one different pick moves all later samples.

mod build;
mod dataset;
mod pick;
mod spec;

pub use build::{DatasetSettings, PretrainData, PretrainSamples};
pub use dataset::{BlendedDataset, SURPLUS};
pub use pick::{Picks, pick_by_weight, pick_exhaustively};
pub use spec::{BlendSpec, normalize};
