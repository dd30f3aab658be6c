//! Fine-tuning data: examples, packs of several examples in one row, and batches made from packs.
//!
//! Two conventions for packs exist and look alike; here they are two types that do not mix:
//!
//! | type             | written by                         | capacity counts                         | columns              |
//! |------------------|------------------------------------|-----------------------------------------|----------------------|
//! | [`OfflinePacks`] | offline packing of prompt and completion | runtime lengths, one less than stored | int64, int8, int64   |
//! | [`PreparedPacks`]| the data preparation for chats     | stored lengths                          | int32, uint8, int32  |
//!
//! In both, a pack holds whole examples (n tokens make n - 1 positions), `seq_start_id` their offsets, and `loss_mask` is
//! rolled left inside each example: entry j says whether token j + 1 is trained. Convert either into [`PackStore`]s.

mod collate;
mod first_fit;
mod offline;
mod pack;
mod packers;
#[cfg(feature = "parquet")]
mod parquet_files;
mod prompt_completion;
mod source;

pub use collate::{CollateSettings, Collator};
pub use first_fit::{Bins, first_fit};
pub use offline::{OfflinePlan, PackMetadata, pad_to_multiple, plan_offline};
pub use pack::{Convention, MemoryPacks, OfflinePacks, Pack, PackStore, PreparedPacks, pack_examples};
pub use packers::{Algorithm, PackStatistics, plan_prepared};
#[cfg(feature = "parquet")]
pub use parquet_files::{PackWriter, ParquetPacks, read_offline, read_prepared, write_offline, write_prepared};
pub use prompt_completion::{Example, PromptCompletion, validation_split};
pub use source::PackedBatches;
