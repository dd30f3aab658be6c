//! The folder in which a conversion grows: one process at a time, continued by a later one, named when it is complete.

use super::stream::FilePlan;
use super::{ConvertError, json};
use crate::checkpoint::CheckpointError;
use crate::hf::header;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What is known of a file that is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Its name.
    pub file: String,
    /// XXH3-64 of every tensor by key.
    pub hashes: BTreeMap<String, u64>,
    /// Elements beyond the range of a new type, by key.
    pub saturated: BTreeMap<String, u64>,
}

/// A folder beside the target in which the new files grow. One process at a time works in it; a later one goes on where
/// an earlier one ended, if it has the same plan.
pub struct Draft {
    /// The folder.
    pub folder: PathBuf,
    _lock: File,
}

const LOCK: &str = ".lock";
const PLAN: &str = ".plan.json";

impl Draft {
    /// Opens or creates a draft for a plan (any text that says all the result depends on).
    ///
    /// # Errors
    /// Another process works in it; what the system refuses.
    pub fn open(folder: &Path, plan: &serde_json::Value) -> Result<Self, ConvertError> {
        fs::create_dir_all(folder).map_err(|e| CheckpointError::io("create", folder, e))?;
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(|e| CheckpointError::io("create", &path, e))?;
        if lock.try_lock().is_err() {
            return Err(ConvertError::Busy(folder.to_path_buf()));
        }
        let draft = Self { folder: folder.to_path_buf(), _lock: lock };
        let plan_path = folder.join(PLAN);
        if json::read::<serde_json::Value>(&plan_path).as_ref() != Some(plan) {
            for entry in fs::read_dir(folder).map_err(|e| CheckpointError::io("list", folder, e))?.flatten() {
                let path = entry.path();
                if entry.file_name() == LOCK {
                    continue;
                }
                let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                gone.map_err(|e| CheckpointError::io("remove", &path, e))?;
            }
            json::write(&plan_path, plan)?;
        }
        Ok(draft)
    }

    /// Where the receipt of a file lies.
    pub fn receipt_path(&self, file: &str) -> PathBuf {
        self.folder.join(format!(".{file}.receipt.json"))
    }

    /// The receipt of a file that an earlier process completed.
    pub fn receipt(&self, plan: &FilePlan<'_>) -> Option<Receipt> {
        let receipt: Receipt = json::read(&self.receipt_path(&plan.file))?;
        compare_file(&self.folder.join(&plan.file), plan).ok()?;
        Some(receipt)
    }

    /// Removes what only the draft needs; the folder is then the result.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn clear(&self) -> Result<(), ConvertError> {
        let folder = &self.folder;
        for entry in fs::read_dir(folder).map_err(|e| CheckpointError::io("list", folder, e))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == LOCK || name == PLAN || name.ends_with(".receipt.json") || name.ends_with(".part") {
                let path = entry.path();
                fs::remove_file(&path).map_err(|e| CheckpointError::io("remove", &path, e))?;
            }
        }
        Ok(())
    }
}

/// Opens a written file again and compares its header with the plan.
///
/// # Errors
/// A file that is not complete or not the planned one.
pub fn compare_file(path: &Path, plan: &FilePlan<'_>) -> Result<(), ConvertError> {
    let (_, header) = header::open(path)?;
    let found: BTreeMap<_, _> = header.entries.into_iter().map(|e| (e.name, (e.dtype, e.shape))).collect();
    let planned: BTreeMap<_, _> = plan.entries().into_iter().map(|(k, t, s)| (k, (t, s))).collect();
    if found == planned {
        return Ok(());
    }
    let problem = "its tensors are not the planned ones".to_string();
    Err(ConvertError::Written { path: path.to_path_buf(), problem })
}
