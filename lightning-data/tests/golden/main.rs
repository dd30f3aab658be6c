//! Comparison with what the public reference code produced: `tests/golden/data` at the repository's root, or the folder
//! named by `LIGHTNING_GOLDEN_DATA`. Every size, seed and setting comes from the folder's files.

mod blend;
mod chat;
mod gpt;
mod indexed;
mod prep;
mod rng;
mod sampling;
mod sft;
mod tensors;
mod tokenizer;

use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Path of a golden file.
pub fn path(name: &str) -> PathBuf {
    let root = std::env::var_os("LIGHTNING_GOLDEN_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/data"));
    root.join(name)
}

/// A golden JSON file.
pub fn json(name: &str) -> Value {
    let path = path(name);
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// An integer list.
pub fn ints(value: &Value) -> Vec<i64> {
    let list = value.as_array().unwrap_or_else(|| panic!("a list, not {value}"));
    list.iter().map(|v| v.as_i64().unwrap_or_else(|| panic!("an integer, not {v}"))).collect()
}

/// An integer.
pub fn int(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a count, not {value}"))
}

/// SHA-256 in hex.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// SHA-256 of little-endian int64.
pub fn sha_i64(values: impl IntoIterator<Item = i64>) -> String {
    sha256(&values.into_iter().flat_map(i64::to_le_bytes).collect::<Vec<u8>>())
}

/// SHA-256 of little-endian int32.
pub fn sha_i32(values: impl IntoIterator<Item = i32>) -> String {
    sha256(&values.into_iter().flat_map(i32::to_le_bytes).collect::<Vec<u8>>())
}

/// A directory of this process for files that a test writes.
pub fn scratch(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("lightning-golden-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}
