//! Index caches on disk: built once, by whoever comes first, and mapped by all.
//!
//! The key is a hash of everything that decides the content: the options (also the two that the reference's key leaves
//! out) and size and time of the token files. The files are NumPy arrays with the names of the public stack behind the
//! hash, so that they can be compared. A lock file makes the others wait for the first; the lock goes away with the process
//! that holds it, and every file appears by rename, so a killed builder leaves nothing that could be taken for whole.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::atomic::write_atomically;
use crate::error::{DataError, Result};
use crate::gpt::{DocumentRange, GptDataset, GptIndices, GptOptions, IndexPlan, SampleIndex, ShuffleIndex, Split};
use crate::indexed::IndexedDataset;
use crate::npy::{map_array, write_array};

/// A directory of index caches.
pub struct IndexCache {
    directory: PathBuf,
}

/// `<key>-<name>`.
pub(crate) fn part(key: &Path, name: &str) -> PathBuf {
    let mut path = key.as_os_str().to_os_string();
    path.push("-");
    path.push(name);
    PathBuf::from(path)
}

impl IndexCache {
    /// Uses `directory`, which is made when missing.
    pub fn new(directory: &Path) -> Result<IndexCache> {
        std::fs::create_dir_all(directory).map_err(|e| DataError::io("create the directory", directory, e))?;
        Ok(IndexCache { directory: directory.to_path_buf() })
    }

    /// Loads what was cached for `description`, or builds and stores it. `load` and `store` get the path and the beginning
    /// of the name of the files; a description in JSON, written last, marks them as complete.
    pub fn get_or_build<T>(
        &self,
        kind: &str,
        description: &Value,
        load: impl Fn(&Path) -> Result<T>,
        build: impl FnOnce() -> Result<T>,
        store: impl FnOnce(&Path, &T) -> Result<()>,
    ) -> Result<T> {
        let text = format!("{description:#}\n");
        let hash: String = Sha256::digest(text.as_bytes()).iter().take(16).map(|b| format!("{b:02x}")).collect();
        let key = self.directory.join(format!("{hash}-{kind}"));
        let complete = part(&key, "description.txt");
        if complete.exists() {
            return load(&key);
        }
        let lock_path = part(&key, "lock");
        let lock = lock(&lock_path)?;
        // Whoever held the lock before may have built it.
        if complete.exists() {
            return load(&key);
        }
        let built = build()?;
        store(&key, &built)?;
        write_atomically(&complete, text.as_bytes())?;
        // Removed while still held: those who wait on it find the description and never lock again.
        let _ = std::fs::remove_file(&lock_path);
        drop(lock);
        Ok(built)
    }

    /// [`GptDataset::build`] through the cache.
    pub fn gpt_dataset(
        &self,
        documents: Arc<IndexedDataset>,
        range: DocumentRange,
        split: Split,
        wanted: Option<u64>,
        options: &GptOptions,
    ) -> Result<GptDataset> {
        let description = json!({
            "class": "GPTDataset",
            "dataset_path": documents.prefix().display().to_string(),
            "idx": file_state(documents.idx_path())?,
            "bin": file_state(documents.bin_path())?,
            "documents": [range.begin, range.end],
            "index_split": split.name(),
            "num_samples": wanted,
            "random_seed": options.seed,
            "sequence_length": options.sequence_length,
            "add_extra_token_to_sequence": options.add_extra_token,
            "drop_last_partial_validation_sequence": options.drop_last_partial_validation,
        });
        let names = |key: &Path| ["document_index.npy", "sample_index.npy", "shuffle_index.npy"].map(|n| part(key, n));
        let load = |key: &Path| {
            let [document, sample, shuffle] = names(key);
            let tokens: u64 = (range.begin..range.end).map(|d| u64::from(documents.length(d))).sum();
            let plan = IndexPlan::new(tokens, options, split, wanted);
            let sample_index = match map_array(&sample) {
                Ok(rows) => SampleIndex::I32(rows),
                Err(_) => SampleIndex::I64(map_array(&sample)?),
            };
            let shuffle_index = match map_array(&shuffle) {
                Ok(order) => ShuffleIndex::U32(order),
                Err(_) => ShuffleIndex::I64(map_array(&shuffle)?),
            };
            let document_index = map_array(&document)?;
            plan.filter(|p| {
                document_index.len() as u64 == p.epochs * range.len()
                    && sample_index.len() as u64 == p.samples + 1
                    && shuffle_index.len() as u64 == p.samples
            })
            .map(|plan| GptIndices { plan, document_index, sample_index, shuffle_index })
            .ok_or_else(|| DataError::Invalid {
                path: document,
                rule: "cached indices have the sizes that follow from the lengths",
                entry: None,
                expected: format!("{plan:?}"),
                found: "others".into(),
                hint: "remove the index cache: it is built again",
            })
        };
        let store = |key: &Path, indices: &GptIndices| {
            let [document, sample, shuffle] = names(key);
            write_array(&document, &indices.document_index)?;
            match &indices.sample_index {
                SampleIndex::I32(rows) => write_array(&sample, rows)?,
                SampleIndex::I64(rows) => write_array(&sample, rows)?,
            }
            match &indices.shuffle_index {
                ShuffleIndex::U32(order) => write_array(&shuffle, order),
                ShuffleIndex::I64(order) => write_array(&shuffle, order),
            }
        };
        let build = || GptIndices::build(&*documents, range, split, wanted, options);
        let indices = self.get_or_build(&format!("GPTDataset-{split}"), &description, load, build, store)?;
        Ok(GptDataset::from_indices(documents.clone(), range, split, wanted, options, indices))
    }
}

/// Waits for the lock of `path`. Where the file system has no locks, everybody builds; renames keep that correct.
fn lock(path: &Path) -> Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|e| DataError::io("create", path, e))?;
    Ok(file.lock().is_ok().then_some(file))
}

/// Size in bytes and time of change in nanoseconds.
fn file_state(path: &Path) -> Result<Value> {
    let meta = std::fs::metadata(path).map_err(|e| DataError::io("read the size of", path, e))?;
    let changed = meta.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    Ok(json!([meta.len(), changed.map(|t| t.as_nanos() as u64)]))
}
