//! Our checkpoints: model space, safetensors shards, an index with rectangles and checksums.
//!
//! ```text
//! SAVE/latest_checkpointed_iteration.txt      number of the newest complete checkpoint, written last
//! SAVE/iter_0000100/
//!     shard-00000-of-00001.safetensors        one per writer; keys SECTION/NAME@OFFSET_OFFSET or @START+LEN
//!     index.json                              every tensor: type, shape, pieces with file, key and checksum
//!     train_state.json                        counters
//!     rng.json                                seed and step: all that the counter-based generator needs
//!     run_config.toml                         resolved configuration
//!     config.json                             the model, in the public spelling
//! ```
//!
//! Sections are `model` (working weights, under their public names) and `optim.master`, `optim.m`, `optim.v`. A
//! checkpoint of any layout loads into any other, because pieces are rectangles (or flat ranges) of the global tensors:
//! see [`parallel`]. A checkpoint is written into a folder with another name, flushed, and renamed; the tracker file
//! follows. What carries the final name is complete.

mod background;
mod error;
mod format;
mod load;
pub mod parallel;
mod reader;
pub mod region;
mod save;
mod shard_file;

pub use background::BackgroundSaver;
pub use error::CheckpointError;
pub use format::{FORMAT, Index, Piece, TensorEntry, TrainState, VERSION};
pub(crate) use load::decode;
pub use load::{LoadOptions, load, load_strict, resolve};
pub use reader::{Checkpoint, PieceStream, parse_dtype};
pub use save::{HeldPiece, Snapshot, merge, prune, save, shard_name, write_index, write_shard};
pub use shard_file::{ShardWriter, move_into_place, recover, replace_file, sync_folder, write_file};

use std::path::{Path, PathBuf};

/// Name of the tracker file.
pub const TRACKER: &str = "latest_checkpointed_iteration.txt";

/// The folder of a step.
pub fn iteration_folder(save: &Path, iteration: u64) -> PathBuf {
    save.join(format!("iter_{iteration:07}"))
}

/// The step in a folder's name (`iter_0000100` is 100).
pub fn iteration_of(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.strip_prefix("iter_")?.parse().ok()
}
