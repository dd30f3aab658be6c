//! `data prep pretrain`: text to token files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::blend_file::BlendFile;
use super::dealt_rows::DealtRows;
use super::leftovers::OutputGuard;
use super::plan::FileShare;
use super::progress::{Progress, ProgressReport};
use super::receipts::{EMPTY, FileReceipt, checksum_text};
use super::rows::{BadRows, Row, Want};
use super::run::{
    PreparedRun, file_hash, make_shards, plan_jobs, run_directory, shards_and_output, sum_stats, trained,
};
use super::splits::distribute_shards;
use super::text_field::TextField;
use crate::error::{DataError, Result};
use crate::indexed::{IndexedWriter, TokenType};
use crate::parallel::default_workers;
use crate::tokenizer::{TextTokenizer, TokenizerCopies};

/// Settings of a preparation for pretraining.
#[derive(Clone, Debug)]
pub struct PretrainPrep {
    /// What to prepare.
    pub blend: BlendFile,
    /// Directory to write to.
    pub output: PathBuf,
    /// A tokenizer directory or `tokenizer.json`.
    pub tokenizer: PathBuf,
    /// Shards per dataset.
    pub num_shards: usize,
    /// Shards of the pool held out for validation.
    pub valid_shards: usize,
    /// Shards of the pool held out for test.
    pub test_shards: usize,
    /// Start each document with BOS.
    pub add_bos: bool,
    /// End each document with EOS.
    pub add_eos: bool,
    /// Type of the stored ids.
    pub dtype: TokenType,
    /// Leave out shorter texts (in characters).
    pub min_doc_chars: Option<usize>,
    /// Cut documents to this many tokens, EOS included.
    pub max_doc_tokens: Option<usize>,
    /// Only this many rows per dataset, in one shard; output goes to `sample-N`.
    pub sample: Option<u64>,
    /// Make everything again, in a directory of its own.
    pub force: bool,
    /// Rows that cannot be read.
    pub on_bad_row: BadRows,
    /// Worker threads.
    pub threads: usize,
}

impl PretrainPrep {
    /// The public defaults.
    pub fn new(blend: BlendFile, output: PathBuf, tokenizer: PathBuf) -> PretrainPrep {
        PretrainPrep {
            blend,
            output,
            tokenizer,
            num_shards: 128,
            valid_shards: 1,
            test_shards: 1,
            add_bos: false,
            add_eos: true,
            dtype: TokenType::I32,
            min_doc_chars: None,
            max_doc_tokens: None,
            sample: None,
            force: false,
            on_bad_row: BadRows::Stop,
            threads: default_workers(),
        }
    }
}

/// Counters of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardStatistics {
    /// Sequences written.
    pub num_sequences: u64,
    /// Documents written.
    pub num_documents: u64,
    /// Tokens written.
    pub total_tokens: u64,
    /// Shortest document.
    pub min_length: u64,
    /// Longest document.
    pub max_length: u64,
    /// Rows read.
    pub num_input_rows: u64,
    /// Rows without text, or with too short a text.
    pub num_filtered: u64,
    /// Documents cut.
    pub num_truncated: u64,
    /// Rows that could not be read and were left out.
    pub num_errors: u64,
}

/// Makes one shard: `<prefix>.bin` and `<prefix>.idx`, or no files when it comes out empty.
///
/// Each document is encoded without special tokens (text that spells one becomes it), gets BOS and EOS as set, and is then
/// cut, so that a cut document has no EOS.
pub fn tokenize_shard(
    settings: &PretrainPrep,
    tokenizer: &TextTokenizer,
    text_field: &str,
    files: &[FileShare],
    dealt: &DealtRows,
    prefix: &Path,
    progress: &Progress,
) -> Result<(Vec<FileReceipt>, ShardStatistics)> {
    let eos = if settings.add_eos { Some(tokenizer.eos()?) } else { None };
    let bos = match (settings.add_bos, tokenizer.bos()) {
        (false, _) => None,
        (true, Some(bos)) => Some(bos),
        (true, None) => {
            return Err(DataError::Tokenizer {
                what: tokenizer.path().display().to_string(),
                message: "there is no bos_token, but add_bos is set".into(),
                hint: "set add_bos=false",
            });
        }
    };
    let mut writer = IndexedWriter::create(prefix, settings.dtype)?;
    let mut stats = ShardStatistics { min_length: u64::MAX, ..ShardStatistics::default() };
    let mut ids: Vec<u32> = Vec::new();
    for share in files {
        if settings.sample.is_some_and(|n| stats.num_input_rows >= n) {
            break;
        }
        let mut visit = |row: Row| {
            stats.num_input_rows += 1;
            progress.rows.fetch_add(1, Ordering::Relaxed);
            let more = settings.sample.is_none_or(|n| stats.num_input_rows < n);
            let text = match row {
                Row::Text(TextField::Text(text)) => text,
                Row::Text(TextField::Missing) => {
                    stats.num_filtered += 1;
                    return Ok(more);
                }
                Row::Json(_) | Row::Bad => {
                    stats.num_errors += 1;
                    return Ok(more);
                }
            };
            if settings.min_doc_chars.is_some_and(|least| text.chars().take(least).count() < least) {
                stats.num_filtered += 1;
                return Ok(more);
            }
            ids.clear();
            ids.extend(bos);
            tokenizer.encode_into(&text, &mut ids)?;
            ids.extend(eos);
            if let Some(most) = settings.max_doc_tokens
                && ids.len() > most
            {
                ids.truncate(most);
                stats.num_truncated += 1;
            }
            writer.add_document(&ids)?;
            let n = ids.len() as u64;
            stats.total_tokens += n;
            stats.min_length = stats.min_length.min(n);
            stats.max_length = stats.max_length.max(n);
            progress.tokens.fetch_add(n, Ordering::Relaxed);
            Ok(more)
        };
        dealt.for_each(share, Want::Text(text_field), settings.on_bad_row, &progress.bytes_read, &mut visit)?;
    }
    stats.num_sequences = writer.sequences();
    stats.num_documents = writer.sequences();
    let name = |suffix: &str| format!("{}{suffix}", prefix.file_name().unwrap_or_default().to_string_lossy());
    if writer.sequences() == 0 {
        stats.min_length = 0;
        drop(writer);
        for path in [crate::indexed::bin_path(prefix), crate::indexed::idx_path(prefix)] {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(DataError::io("remove", &path, e));
                }
                _ => {}
            }
        }
        let none = |suffix| FileReceipt { path: name(suffix), bytes: 0, checksum: EMPTY.into() };
        return Ok((vec![none(".bin"), none(".idx")], stats));
    }
    let done = writer.finish()?;
    let file = |suffix, bytes, hash| FileReceipt { path: name(suffix), bytes, checksum: checksum_text(hash) };
    Ok((vec![file(".bin", done.bin_bytes, done.bin_xxh64), file(".idx", done.idx_bytes, done.idx_xxh64)], stats))
}

/// Runs the preparation. `show` is called now and then, from another thread.
///
/// # Errors
/// Missing files, unreadable rows (unless they are skipped), a disk that is full or read-only, splits without training data.
pub fn prepare_pretrain(settings: &PretrainPrep, show: &(dyn Fn(&ProgressReport) + Sync)) -> Result<PreparedRun> {
    settings.blend.check(Path::new("(blend)"))?;
    let (num_shards, output) = shards_and_output(settings.num_shards, settings.sample, &settings.output)?;
    let tokenizer = TextTokenizer::load(&settings.tokenizer)?;
    // Splits are decided by names alone; those that leave nothing to train on are refused before any work.
    let trained = trained(&settings.blend);
    if trained.is_empty() {
        return Err(DataError::Setting {
            name: "weight",
            expected: "at least one data set with a weight above 0".into(),
            found: format!("{} data sets, none above 0", settings.blend.datasets.len()),
            hint: "raise a weight in the blend file",
        });
    }
    let held_out = settings.valid_shards + settings.test_shards;
    let datasets: Vec<_> = settings
        .blend
        .datasets
        .iter()
        .map(|d| json!({"name": d.name, "path": d.path, "weight": d.weight, "split": d.split, "subset": d.subset, "text_field": d.text_field}))
        .collect();
    let mut config = json!({
        "datasets": datasets,
        "tokenizer": {
            "model": settings.tokenizer.display().to_string(),
            "resolved_revision": file_hash(tokenizer.path())?,
            "add_bos": settings.add_bos,
            "add_eos": settings.add_eos,
        },
        "output": {
            "format": "binidx", "num_shards": num_shards, "dtype": settings.dtype.name(),
            "min_doc_chars": settings.min_doc_chars, "max_doc_tokens": settings.max_doc_tokens, "max_rows": settings.sample,
        },
    });
    if let Some(sample) = settings.sample {
        config["_sample"] = sample.into();
    }
    distribute_shards(&trained, num_shards, settings.valid_shards, settings.test_shards, 42).check(held_out)?;
    let _guard = OutputGuard::enter(&output)?;
    let directory = run_directory(&output, &config, settings.force)?;
    let dealt = DealtRows::new(&directory);
    let (jobs, prefixes) = plan_jobs(&settings.blend, &directory, num_shards)?;
    let tokenizers = TokenizerCopies::new(tokenizer);
    let progress = Progress::default();
    let receipts = progress.watch(show, || {
        make_shards(&jobs, settings.threads, &progress, |job| {
            let prefix = job.prefix();
            let (files, stats) = tokenizers.with(|tokenizer| {
                tokenize_shard(settings, tokenizer, &job.text_field, &job.files, &dealt, &prefix, &progress)
            })?;
            Ok((files, serde_json::to_value(stats).unwrap_or_default()))
        })
    })?;
    let mut splits = distribute_shards(&prefixes, num_shards, settings.valid_shards, settings.test_shards, 42);
    let empty: HashSet<String> = jobs
        .iter()
        .zip(&receipts)
        .filter(|(_, r)| r.files.iter().all(|f| f.checksum == EMPTY))
        .map(|(job, _)| job.prefix().display().to_string())
        .collect();
    // A weight without documents would be learnt about only when training starts.
    for (dataset, (_, prefix)) in settings.blend.datasets.iter().filter(|d| d.weight > 0.0).zip(&prefixes) {
        if (0..num_shards).all(|s| empty.contains(&format!("{prefix}_{s:06}"))) {
            return Err(DataError::Invalid {
                path: PathBuf::from(&dataset.path),
                rule: "a data set with a weight has documents",
                entry: None,
                expected: format!("rows with a text in {:?}", dataset.text_field),
                found: format!("none for data set {:?}", dataset.name),
                hint: "check the files and the text field, or give it weight 0",
            });
        }
    }
    let left_out = splits.leave_out(&empty);
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} of {} shards hold no documents and are not in blend.json; fewer shards would do",
            prefixes.len() * num_shards
        ));
        splits.check(held_out)?;
    }
    splits.write(&directory.join("blend.json"))?;
    let blend = output.join("blend.json");
    splits.write(&blend)?;
    Ok(PreparedRun { directory, blend, splits, stats: sum_stats(&receipts), notes })
}
