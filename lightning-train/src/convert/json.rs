//! JSON files of a conversion.

use crate::checkpoint::{CheckpointError, write_file};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::path::Path;

/// Writes a value and flushes the file.
pub fn write(path: &Path, value: &impl Serialize) -> Result<(), CheckpointError> {
    let text = serde_json::to_string_pretty(value).expect("plain data becomes JSON") + "\n";
    write_file(path, text.as_bytes())
}

/// A value that was written before, or nothing.
pub fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}
