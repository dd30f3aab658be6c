//! From raw text and chats to the exact batches that the public training stack would see.
//!
//! | module        | subject                                                                    |
//! |---------------|----------------------------------------------------------------------------|
//! | [`indexed`]   | `.bin`/`.idx` token files: reader, writer, merge                           |
//! | [`gpt`]       | documents to fixed samples: document, sample and shuffle index, mock data  |
//! | [`blend`]     | several sources in one order; from settings to the datasets of a run       |
//! | [`sft`]       | fine-tuning: examples, packs, packed batches                               |
//! | [`context_parallel`] | slices of batches, MTP targets                                      |
//! | [`split`]     | split strings, requested sample counts                                     |
//! | [`sampler`]   | which samples a data-parallel rank sees                                    |
//! | [`batch`]     | what a training step takes, and the trait of everything that makes batches |
//! | [`prefetch`]  | batches made ahead on a thread                                             |
//! | [`prep`]      | raw text and chats to token files and packs: plans, receipts, splits       |
//! | [`tokenizer`] | training and use of tokenizers                                             |
//! | [`inspect`]   | what is in a file, and what a rank sees                                    |
//! | [`rng`]       | the random generators behind every order                                   |
//!
//! Same files, same settings and same seed give the same order as Megatron-LM and Megatron-Bridge. Every batch is a pure
//! function of the configuration, the samples consumed, the micro-batch and the data-parallel rank.

pub mod atomic;
pub mod batch;
pub mod blend;
pub mod cache;
pub mod context_parallel;
pub mod error;
pub mod gpt;
pub mod gpt_batches;
pub mod indexed;
pub mod inspect;
pub mod npy;
mod parallel;
#[cfg(feature = "parquet")]
mod parquet_columns;
#[cfg(feature = "parquet")]
mod parquet_pages;
pub mod prefetch;
pub mod prep;
mod python_text;
pub mod rng;
pub mod sampler;
pub mod sft;
pub mod split;
pub mod tokenizer;

pub use batch::{Accounting, Batch, BatchSource, LogicalOffsets, PackedDocuments, PhysicalOffsets};
pub use error::{DataError, ErrorClass, Result};
pub use gpt_batches::{GptBatches, Samples};
