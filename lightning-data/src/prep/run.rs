//! Hashes and directories of runs, and the loop over shards that all preparations share.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::blend_file::BlendFile;
use super::plan::{FileShare, plan_shards};
use super::progress::Progress;
use super::receipts::{FileReceipt, Receipt, ReceiptStatus, ShardGuard};
use super::sources::find_files;
use super::splits::{Splits, weight_text};
use crate::error::{DataError, Result};
use crate::parallel::map_in_order;
use crate::python_text;

/// What a preparation left.
#[derive(Clone, Debug)]
pub struct PreparedRun {
    /// `runs/<hash>`.
    pub directory: PathBuf,
    /// The blend file (or manifest) to train with.
    pub blend: PathBuf,
    /// Where each shard went.
    pub splits: Splits,
    /// Counters summed over all shards.
    pub stats: Value,
    /// What a person should know about the result.
    pub notes: Vec<String>,
}

/// First 16 hex digits of SHA-256 of the value as JSON with sorted keys.
pub(super) fn short_hash(value: &Value) -> String {
    let text = python_text::json(value, true, true);
    Sha256::digest(text.as_bytes()).iter().take(8).map(|b| format!("{b:02x}")).collect()
}

/// Hash of a file's content, for what decides results: tokenizers, templates.
pub(super) fn file_hash(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|e| DataError::io("open", path, e))?;
    Ok(Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect())
}

/// Hash of a plan: which rows of which files go into which shard, and how the files look.
fn plan_hash(plan: &[Vec<FileShare>]) -> String {
    let shard = |s: &Vec<FileShare>| -> Value {
        s.iter().map(|f| json!([f.file.path.display().to_string(), f.file.size, f.rows])).collect()
    };
    short_hash(&plan.iter().map(shard).collect())
}

/// `runs/<hash>`, with `config.json` in it. `force` gives a directory of its own by the time.
pub(super) fn run_directory(output: &Path, config: &Value, force: bool) -> Result<PathBuf> {
    let mut name = short_hash(config);
    if force {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        name = format!("{name}_{now}");
    }
    let directory = output.join("runs").join(name);
    crate::atomic::write_atomically(&directory.join("config.json"), format!("{config:#}\n").as_bytes())?;
    Ok(directory)
}

/// One shard to make.
pub(super) struct ShardJob {
    /// Directory of the dataset's plan.
    pub directory: PathBuf,
    /// Hash of the plan.
    pub plan_hash: String,
    /// Number of the shard.
    pub shard: usize,
    /// Field of the text, of data sets that have one.
    pub text_field: String,
    /// What it reads.
    pub files: Vec<FileShare>,
}

impl ShardJob {
    /// Path of the shard's files without their endings.
    pub(super) fn prefix(&self) -> PathBuf {
        self.directory.join(format!("shard_{:06}", self.shard))
    }
}

/// Shards per data set and the directory to write to: a sample is one shard and has a directory of its own.
///
/// # Errors
/// Nothing to make.
pub(super) fn shards_and_output(num_shards: usize, sample: Option<u64>, output: &Path) -> Result<(usize, PathBuf)> {
    if num_shards == 0 || sample == Some(0) {
        return Err(DataError::Setting {
            name: "num_shards",
            expected: "at least 1 shard, and a sample of at least 1 row".into(),
            found: "0".into(),
            hint: "raise it",
        });
    }
    Ok(match sample {
        Some(n) => (1, output.join(format!("sample-{n}"))),
        None => (num_shards, output.to_path_buf()),
    })
}

/// (weight, name) of the data sets that are trained on.
pub(super) fn trained(blend: &BlendFile) -> Vec<(String, String)> {
    let with_weight = blend.datasets.iter().filter(|d| d.weight > 0.0);
    with_weight.map(|d| (weight_text(d.weight), d.name.clone())).collect()
}

/// Weight and prefix of a data set, as a blend lists them.
type WeightedPrefix = (String, String);

/// All shards of a blend under a run's directory, and (weight, prefix without number) of the data sets with a weight.
///
/// # Errors
/// Data sets that are not there.
pub(super) fn plan_jobs(
    blend: &BlendFile,
    directory: &Path,
    num_shards: usize,
) -> Result<(Vec<ShardJob>, Vec<WeightedPrefix>)> {
    let (mut jobs, mut prefixes) = (Vec::new(), Vec::new());
    for dataset in &blend.datasets {
        let files = find_files(&dataset.path, dataset.subset.as_deref(), dataset.split.as_deref())?;
        let plan = plan_shards(&files, num_shards);
        let hash = plan_hash(&plan);
        let place = directory.join("datasets").join(&dataset.name).join(&hash);
        if dataset.weight > 0.0 {
            prefixes.push((weight_text(dataset.weight), place.join("shard").display().to_string()));
        }
        jobs.extend(plan.into_iter().enumerate().map(|(shard, files)| ShardJob {
            directory: place.clone(),
            plan_hash: hash.clone(),
            shard,
            text_field: dataset.text_field.clone(),
            files,
        }));
    }
    Ok((jobs, prefixes))
}

/// Makes all shards on `threads` threads; those with a good receipt are left as they are. Returns the receipts in order.
pub(super) fn make_shards(
    jobs: &[ShardJob],
    threads: usize,
    progress: &Progress,
    make: impl Fn(&ShardJob) -> Result<(Vec<FileReceipt>, Value)> + Sync,
) -> Result<Vec<Receipt>> {
    let input = |job: &ShardJob| job.files.iter().map(FileShare::bytes).sum::<u64>();
    progress.shards_total.store(jobs.len() as u64, Ordering::Relaxed);
    progress.bytes_total.store(jobs.iter().map(input).sum(), Ordering::Relaxed);
    map_in_order(jobs, threads, |job| {
        let guard = ShardGuard::claim(&job.directory, job.shard)?;
        let receipt = match guard.verified(&job.plan_hash) {
            Some(receipt) => {
                progress.bytes_read.fetch_add(input(job), Ordering::Relaxed);
                receipt
            }
            None => {
                guard.clean(job.shard);
                let mut receipt = Receipt {
                    status: ReceiptStatus::Started,
                    shard_index: job.shard,
                    plan_hash: job.plan_hash.clone(),
                    files: Vec::new(),
                    stats: Value::Null,
                    error: None,
                };
                guard.write(&receipt)?;
                match make(job) {
                    Ok((files, stats)) => {
                        receipt = Receipt { status: ReceiptStatus::Completed, files, stats, ..receipt };
                        guard.write(&receipt)?;
                    }
                    Err(e) => {
                        receipt = Receipt { status: ReceiptStatus::Failed, error: Some(e.to_string()), ..receipt };
                        // The first error matters more than one about its receipt (a full disk has both).
                        let _ = guard.write(&receipt);
                        return Err(e);
                    }
                }
                receipt
            }
        };
        progress.shards_done.fetch_add(1, Ordering::Relaxed);
        Ok(receipt)
    })
}

/// Adds up the integer counters of receipts; `min_length` and `max_length` keep the smallest and largest.
pub(super) fn sum_stats(receipts: &[Receipt]) -> Value {
    let mut sum = serde_json::Map::new();
    for (key, value) in receipts.iter().filter_map(|r| r.stats.as_object()).flatten() {
        let Some(n) = value.as_u64() else { continue };
        let old = sum.get(key).and_then(Value::as_u64);
        let new = match (key.as_str(), old) {
            (_, None) => n,
            ("min_length", Some(old)) => old.min(n),
            ("max_length", Some(old)) => old.max(n),
            (_, Some(old)) => old + n,
        };
        sum.insert(key.clone(), new.into());
    }
    Value::Object(sum)
}
