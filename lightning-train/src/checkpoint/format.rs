//! The files beside the shards.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the layout; readers refuse newer ones.
pub const VERSION: u32 = 1;
/// What `index.json` says it is.
pub const FORMAT: &str = "lightning-checkpoint";

/// `index.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Every tensor as `SECTION/NAME`.
    pub tensors: BTreeMap<String, TensorEntry>,
}

/// A global tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorEntry {
    /// Element type as safetensors spells it.
    pub dtype: String,
    /// Global shape.
    pub shape: Vec<usize>,
    /// Rectangles that together cover the tensor.
    pub pieces: Vec<Piece>,
}

/// A rectangle of a tensor in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// First element along each dimension.
    pub offsets: Vec<usize>,
    /// Elements along each dimension.
    pub extent: Vec<usize>,
    /// Shard that holds it.
    pub file: String,
    /// Key in the shard.
    pub key: String,
    /// XXH3-64 of its bytes, 16 hex digits.
    pub xxh3: String,
}

/// `train_state.json`: the counters that the next step depends on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainState {
    /// Steps taken, skipped ones included.
    pub iteration: u64,
    /// Samples read from the training data, those of skipped steps included.
    pub consumed_train_samples: u64,
    /// Samples of successful steps: the position in the schedule.
    pub schedule_samples: u64,
    /// Successful steps: Adam's step count.
    pub optimizer_steps: u64,
    /// Steps skipped because a gradient was not finite.
    pub skipped_steps: u64,
    /// Skipped steps since the last successful one.
    pub skipped_in_a_row: u64,
    /// Samples read from the validation data.
    pub consumed_valid_samples: u64,
    /// Seed of every random number of the run.
    pub seed: u64,
    /// Identity of tokenizer and training data.
    pub data: String,
}
