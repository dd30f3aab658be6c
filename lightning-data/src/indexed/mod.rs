//! Token files of the Megatron family: `<prefix>.bin` (token ids, back to back) and `<prefix>.idx` (where they are).
//!
//! `.idx`, little-endian, no alignment:
//!
//! | offset    | size | content                                                                     |
//! |-----------|------|-----------------------------------------------------------------------------|
//! | 0         | 9    | `MMIDIDX` and two zero bytes                                                |
//! | 9         | 8    | u64 version, 1                                                              |
//! | 17        | 1    | u8 [`TokenType`] code                                                       |
//! | 18        | 8    | u64 N, sequences                                                            |
//! | 26        | 8    | u64 M, document boundaries = documents + 1                                  |
//! | 34        | 4 N  | i32 tokens of each sequence                                                 |
//! | 34 + 4 N  | 8 N  | i64 byte offset of each sequence in `.bin`                                  |
//! | 34 + 12 N | 8 M  | i64 document boundaries in sequences: 0, then the count after each document |
//! | ...       | N    | i8 mode of each sequence; only in multimodal files                          |
//!
//! All arithmetic on counts and offsets is in u64 and checked.

mod reader;
mod token_type;
mod writer;

pub use reader::{IndexedDataset, Validation};
pub use token_type::TokenType;
pub use writer::{FinishedFiles, IndexedWriter, merge};

use std::path::{Path, PathBuf};

/// First bytes of every index.
pub const MAGIC: [u8; 9] = *b"MMIDIDX\0\0";
/// The only version there is.
pub const VERSION: u64 = 1;
/// Bytes before the arrays.
pub const HEADER_BYTES: u64 = 34;

/// `<prefix>.bin`.
pub fn bin_path(prefix: &Path) -> PathBuf {
    with_suffix(prefix, ".bin")
}

/// `<prefix>.idx`.
pub fn idx_path(prefix: &Path) -> PathBuf {
    with_suffix(prefix, ".idx")
}

// Prefixes may contain dots ("corpus.v1"), so `Path::with_extension` would cut them.
fn with_suffix(prefix: &Path, suffix: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}
