//! The GPT dataset: documents of any length become samples of exactly `sequence_length` tokens, in the order that the
//! public stack gives for the same files and seed.
//!
//! Three indices define it. The *document index* lists the documents of all epochs in shuffled order; the *sample index*
//! cuts that stream into windows that overlap by one token; the *shuffle index* orders the windows.

mod dataset;
mod documents;
mod index;
mod options;
mod sample;

pub use dataset::GptDataset;
pub use documents::{Documents, MockDocuments};
pub use index::{DocumentRange, GptIndices, IndexPlan, SampleIndex, ShuffleIndex, sample_rows};
pub use options::{GptOptions, Split};
pub use sample::{SampleBuffers, SampleSlot};
