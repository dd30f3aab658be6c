//! Data preparation: raw text to token files, chats to packs, and the plans, receipts and splits around them.
//!
//! A run is a pure function of its configuration; its directory is named by a hash of it. Work is cut into shards. A shard
//! is written whole or not at all and has a receipt with sizes and checksums, so that a run killed at any moment goes on
//! where it was and ends with the same bytes.

mod blend_file;
mod chat;
mod chat_template;
mod dealt_rows;
mod leftovers;
mod plan;
mod pretrain;
mod progress;
#[cfg(feature = "parquet")]
mod prompt_completion;
mod receipts;
mod rl;
pub(crate) mod rows;
mod run;
#[cfg(feature = "parquet")]
mod sft;
mod sources;
mod splits;
#[cfg(feature = "parquet")]
mod spool;
mod text_field;
mod zstd_frames;

pub use blend_file::{BlendFile, DatasetEntry};
pub use chat::{ChatOutcome, ChatSequence, ChatSettings, Chunk, chat_sequences, tokenize_chunks, used_in};
pub use chat_template::{ChatTemplate, RenderOptions};
pub use dealt_rows::DealtRows;
pub use plan::{FileShare, InputFile, plan_shards};
pub use pretrain::{PretrainPrep, ShardStatistics, prepare_pretrain, tokenize_shard};
pub use progress::{Progress, ProgressReport};
#[cfg(feature = "parquet")]
pub use prompt_completion::{PromptCompletionPrep, RowShape, prepare_prompt_completion};
pub use receipts::{FileReceipt, Receipt, ReceiptStatus};
pub use rl::{RlPrep, prepare_rl};
pub use rows::BadRows;
pub use run::PreparedRun;
#[cfg(feature = "parquet")]
pub use sft::{SftPrep, SftStatistics, prepare_sft, spool_and_pack};
pub use sources::{FileKind, find_files};
pub use splits::{Splits, distribute_shards, select_by_weight};
pub use text_field::TextField;
