//! The files beside the shards.

use super::region::{Rect, Region};
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
    /// Element type in the file that the tensor was imported from, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_dtype: Option<String>,
    /// Pieces that together cover the tensor, without overlap.
    pub pieces: Vec<Piece>,
}

/// A piece of a tensor in a file: a rectangle, or (`flat`) a range of the flattened tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// First element along each dimension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<usize>,
    /// Elements along each dimension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extent: Vec<usize>,
    /// Whether the piece is the range `start`, `len` instead.
    #[serde(default, skip_serializing_if = "is_false")]
    pub flat: bool,
    /// First element of a range.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: usize,
    /// Elements of a range.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub len: usize,
    /// Shard that holds it.
    pub file: String,
    /// Key in the shard.
    pub key: String,
    /// XXH3-64 of its bytes, 16 hex digits.
    pub xxh3: String,
}

// serde hands references to these.
fn is_false(flag: &bool) -> bool {
    !*flag
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Piece {
    /// A piece that holds `region`.
    pub fn new(region: &Region, file: &str, key: String, xxh3: u64) -> Self {
        let mut piece = Self {
            offsets: Vec::new(),
            extent: Vec::new(),
            flat: false,
            start: 0,
            len: 0,
            file: file.into(),
            key,
            xxh3: format!("{xxh3:016x}"),
        };
        match region {
            Region::Rect(rect) => (piece.offsets, piece.extent) = (rect.offsets.clone(), rect.extent.clone()),
            Region::Flat { start, len } => (piece.flat, piece.start, piece.len) = (true, *start, *len),
        }
        piece
    }

    /// What it holds.
    pub fn region(&self) -> Region {
        if self.flat {
            Region::Flat { start: self.start, len: self.len }
        } else {
            Region::Rect(Rect { offsets: self.offsets.clone(), extent: self.extent.clone() })
        }
    }
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
