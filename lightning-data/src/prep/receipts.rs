//! Receipts: what says that a shard is finished.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::hash::Hasher;
use std::io::Read;
use twox_hash::XxHash64;

use crate::atomic::write_atomically;
use crate::error::{DataError, Result};

/// State of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptStatus {
    /// Being written, or the writer was killed.
    Started,
    /// Whole.
    Completed,
    /// Ended with an error.
    Failed,
}

/// A file of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReceipt {
    /// Name inside the shard's directory.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// `xxh64:` and 16 hex digits, or `xxh64:empty` for a file that is not there because the shard is empty.
    pub checksum: String,
}

/// The receipt of a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// State.
    pub status: ReceiptStatus,
    /// Number of the shard.
    pub shard_index: usize,
    /// Hash of the plan that it belongs to.
    pub plan_hash: String,
    /// Files.
    #[serde(default)]
    pub files: Vec<FileReceipt>,
    /// Counters.
    #[serde(default)]
    pub stats: Value,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Checksum of a file that an empty shard does not have.
pub const EMPTY: &str = "xxh64:empty";

/// A hash as a receipt has it.
pub fn checksum_text(hash: u64) -> String {
    format!("xxh64:{hash:016x}")
}

/// Hashes a file.
pub fn checksum_file(path: &Path) -> Result<(u64, String)> {
    let mut file = File::open(path).map_err(|e| DataError::io("open", path, e))?;
    let (mut hasher, mut bytes) = (XxHash64::with_seed(0), 0);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer).map_err(|e| DataError::io("read", path, e))? {
            0 => return Ok((bytes, checksum_text(hasher.finish()))),
            n => {
                hasher.write(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
}

/// The receipt and the lock of one shard. Held by one process at a time: others that prepare the same run wait or go on
/// with another shard. The lock goes away with the process, so that a killed one leaves nothing to wait for.
pub(super) struct ShardGuard {
    directory: PathBuf,
    receipt: PathBuf,
    _lock: Option<File>,
}

impl ShardGuard {
    /// Waits for the shard.
    pub(super) fn claim(directory: &Path, shard: usize) -> Result<ShardGuard> {
        let receipts = directory.join("receipts");
        std::fs::create_dir_all(&receipts).map_err(|e| DataError::io("create the directory", &receipts, e))?;
        let lock_path = receipts.join(format!(".shard_{shard:06}.lock"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(|e| DataError::io("create", &lock_path, e))?;
        let lock = file.lock().is_ok().then_some(file);
        Ok(ShardGuard {
            directory: directory.to_path_buf(),
            receipt: receipts.join(format!("shard_{shard:06}.json")),
            _lock: lock,
        })
    }

    /// The receipt, if the shard is completed and its files are what it says.
    pub(super) fn verified(&self, plan_hash: &str) -> Option<Receipt> {
        let bytes = std::fs::read(&self.receipt).ok()?;
        let receipt: Receipt = serde_json::from_slice(&bytes).ok()?;
        let good = |f: &FileReceipt| {
            let path = self.directory.join(&f.path);
            if f.checksum == EMPTY {
                return !path.exists();
            }
            // The size is checked first: it is free.
            std::fs::metadata(&path).is_ok_and(|m| m.len() == f.bytes)
                && checksum_file(&path).is_ok_and(|(_, c)| c == f.checksum)
        };
        let whole = receipt.status == ReceiptStatus::Completed
            && receipt.plan_hash == plan_hash
            && receipt.files.iter().all(good);
        whole.then_some(receipt)
    }

    /// Writes the receipt, atomically.
    pub(super) fn write(&self, receipt: &Receipt) -> Result<()> {
        let text = serde_json::to_string_pretty(receipt).unwrap_or_default();
        write_atomically(&self.receipt, format!("{text}\n").as_bytes())
    }

    /// Removes what a killed writer of this shard left behind.
    pub(super) fn clean(&self, shard: usize) {
        let stem = format!(".shard_{shard:06}.");
        let folders = [self.directory.clone(), self.directory.join("receipts")];
        for entry in folders.iter().flat_map(std::fs::read_dir).flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(&stem) && name.ends_with(".tmp") {
                // Only a leftover: the lock of this shard is held.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
