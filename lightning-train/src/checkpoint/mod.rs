//! Our checkpoints: model space, safetensors shards, an index with rectangles and checksums.
//!
//! ```text
//! SAVE/latest_checkpointed_iteration.txt      number of the newest complete checkpoint, written last
//! SAVE/iter_0000100/
//!     shard-00000-of-00001.safetensors        one per writer; keys SECTION/NAME@OFFSET_OFFSET
//!     index.json                              every tensor: type, shape, pieces with file, key and checksum
//!     train_state.json                        counters
//!     run_config.toml                         resolved configuration
//!     config.json                             the model, in the public spelling
//! ```
//!
//! Sections are `model` (working weights, under their public names) and `optim.master`, `optim.m`, `optim.v`. A
//! checkpoint is written into a folder with another name, flushed, and renamed; the tracker file follows. What carries
//! the final name is complete.

mod error;
mod format;
mod load;
mod save;

pub use error::CheckpointError;
pub use format::{Index, Piece, TensorEntry, TrainState};
pub(crate) use load::decode;
pub use load::{LoadOptions, load, resolve};
pub use save::{prune, save};

use std::path::{Path, PathBuf};

/// Name of the tracker file.
pub const TRACKER: &str = "latest_checkpointed_iteration.txt";

/// The folder of a step.
pub fn iteration_folder(save: &Path, iteration: u64) -> PathBuf {
    save.join(format!("iter_{iteration:07}"))
}

/// The step in a folder's name (`iter_0000100` is 100).
pub fn iteration_of(folder: &Path) -> Option<u64> {
    folder
        .file_name()?
        .to_str()?
        .strip_prefix("iter_")?
        .parse()
        .ok()
}
