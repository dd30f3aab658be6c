//! Where a conversion reads and writes.

use super::ConvertError;
use crate::checkpoint::{CheckpointError, sync_folder, write_file};
use crate::hf::{HfFolder, cache};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The folder of a checkpoint that a person names.
pub(super) fn locate(model: &str, revision: Option<&str>) -> Result<PathBuf, ConvertError> {
    // A cache whose path is not UTF-8 is not found, and the message shows where it was looked for.
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    cache::resolve(model, revision, &variable).map_err(ConvertError::Source)
}

/// Refuses a target that holds the source, or lies in it.
pub(super) fn refuse_same_place(source: &Path, target: &Path) -> Result<(), ConvertError> {
    // The target need not exist: the nearest ancestor that does decides.
    let absolute = std::path::absolute(target).unwrap_or_else(|_| target.to_path_buf());
    let resolved = absolute.ancestors().find_map(|a| {
        let real = fs::canonicalize(a).ok()?;
        Some(real.join(absolute.strip_prefix(a).unwrap_or(Path::new(""))))
    });
    let (source_real, target_real) =
        (fs::canonicalize(source).unwrap_or_else(|_| source.to_path_buf()), resolved.unwrap_or(absolute));
    if source_real.starts_with(&target_real) || target_real.starts_with(&source_real) {
        return Err(ConvertError::SamePlace { source: source.to_path_buf(), target: target.to_path_buf() });
    }
    Ok(())
}

/// Copies files byte for byte into a folder, through the links of a cache.
pub(super) fn copy_side_files(files: &[PathBuf], folder: &Path) -> Result<usize, ConvertError> {
    if files.is_empty() {
        return Ok(0);
    }
    fs::create_dir_all(folder).map_err(|e| CheckpointError::io("create", folder, e))?;
    for path in files {
        let target = folder.join(path.file_name().expect("listed files have names"));
        let bytes = fs::read(path).map_err(|e| CheckpointError::io("read", path, e))?;
        write_file(&target, &bytes)?;
    }
    sync_folder(folder)?;
    Ok(files.len())
}

/// What says that a source is still the same: names, sizes and times of its files.
pub(super) fn fingerprint(folder: &HfFolder) -> serde_json::Value {
    let files = folder.files.iter().map(|f| {
        let about = f.file.metadata().ok();
        let changed = about.as_ref().and_then(|m| m.modified().ok());
        let nanoseconds = changed.and_then(|t| t.duration_since(UNIX_EPOCH).ok()).map(|d| d.as_nanos().to_string());
        json!([f.path.to_string_lossy(), about.map(|m| m.len()), nanoseconds])
    });
    // JSON has no other bytes than UTF-8, a path that links lead to may have.
    let real = fs::canonicalize(&folder.path).ok();
    json!([real.map(|p| p.to_string_lossy().into_owned()), files.collect::<Vec<_>>()])
}
