//! `data prep sft`: chats to packs.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::blend_file::BlendFile;
use super::chat::{ChatOutcome, ChatSettings, chat_sequences, tokenize_chunks, used_in};
use super::chat_template::ChatTemplate;
use super::dealt_rows::DealtRows;
use super::leftovers::OutputGuard;
use super::plan::FileShare;
use super::progress::{Progress, ProgressReport};
use super::receipts::{EMPTY, FileReceipt, checksum_file};
use super::rows::{BadRows, Row, Want};
use super::run::{
    PreparedRun, file_hash, make_shards, plan_jobs, run_directory, shards_and_output, sum_stats, trained,
};
use super::splits::{distribute_shards, select_by_weight};
use super::spool::SpoolWriter;
use crate::error::{DataError, Result};
use crate::parallel::default_workers;
use crate::sft::{Algorithm, Bins, PackWriter, pack_examples, plan_prepared};
use crate::tokenizer::{TextTokenizer, TokenizerCopies};

/// Settings of a preparation for fine-tuning.
#[derive(Clone, Debug)]
pub struct SftPrep {
    /// What to prepare.
    pub blend: BlendFile,
    /// Directory to write to.
    pub output: PathBuf,
    /// A tokenizer directory or `tokenizer.json`.
    pub tokenizer: PathBuf,
    /// Name of the chat template.
    pub chat_template: String,
    /// Fields of the rows.
    pub chat: ChatSettings,
    /// Stored tokens of a pack.
    pub pack_size: u32,
    /// How sequences are packed.
    pub algorithm: Algorithm,
    /// Seed of the packing and of the splits.
    pub seed: u64,
    /// Rows per Parquet row group.
    pub row_group: usize,
    /// Cut sequences to this many tokens.
    pub max_doc_tokens: Option<usize>,
    /// Shards per dataset.
    pub num_shards: usize,
    /// Share of the shards for validation.
    pub valid_ratio: f64,
    /// Share of the shards for test.
    pub test_ratio: f64,
    /// Only this many rows per dataset, in one shard.
    pub sample: Option<u64>,
    /// Make everything again, in a directory of its own.
    pub force: bool,
    /// Rows that cannot be read.
    pub on_bad_row: BadRows,
    /// Worker threads.
    pub threads: usize,
}

impl SftPrep {
    /// The public defaults.
    pub fn new(blend: BlendFile, output: PathBuf, tokenizer: PathBuf) -> SftPrep {
        SftPrep {
            blend,
            output,
            tokenizer,
            chat_template: "lightning35".into(),
            chat: ChatSettings::default(),
            pack_size: 4096,
            algorithm: Algorithm::FirstFitShuffle,
            seed: 42,
            row_group: 1000,
            max_doc_tokens: None,
            num_shards: 128,
            valid_ratio: 0.01,
            test_ratio: 0.01,
            sample: None,
            force: false,
            on_bad_row: BadRows::Stop,
            threads: default_workers(),
        }
    }

    /// (validation, test) shards of a pool of `num_shards` per dataset: the ratio of the shards of *one* dataset, at least
    /// one where the ratio is above 0; none when there are no more than two shards.
    pub fn held_out(&self, num_shards: usize) -> (usize, usize) {
        let count = |ratio: f64| match ratio > 0.0 && num_shards > 2 {
            true => ((ratio * num_shards as f64).round_ties_even() as usize).max(1),
            false => 0,
        };
        (count(self.valid_ratio), count(self.test_ratio))
    }
}

/// Counters of a shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SftStatistics {
    /// Rows read.
    pub num_input_rows: u64,
    /// Sequences made.
    pub num_output_sequences: u64,
    /// Rows of which nothing came, for any reason.
    pub num_filtered: u64,
    /// Among them: a tool call without tools.
    pub num_validation_errors: u64,
    /// Sequences cut to `max_doc_tokens`.
    pub num_truncated: u64,
    /// Among the filtered: rows that cannot be read or rendered.
    pub num_errors: u64,
    /// Among the filtered: rows with reasoning and nothing to train.
    pub num_empty_after_masking: u64,
    /// Packs.
    pub num_packed_sequences: u64,
    /// Tokens in packs.
    pub total_tokens: u64,
    /// Sequences cut to the pack size.
    pub num_truncated_to_pack_size: u64,
}

/// Makes one shard: `<prefix>.parquet`, or no file when it comes out empty.
pub fn spool_and_pack(
    settings: &SftPrep,
    tokenizer: &TextTokenizer,
    template: &ChatTemplate,
    files: &[FileShare],
    dealt: &DealtRows,
    prefix: &Path,
    progress: &Progress,
) -> Result<(Vec<FileReceipt>, SftStatistics)> {
    let mut stats = SftStatistics::default();
    let mut spool_directory = prefix.as_os_str().to_os_string();
    spool_directory.push(".spool");
    let mut spool = SpoolWriter::create(Path::new(&spool_directory))?;
    for share in files {
        if settings.sample.is_some_and(|n| stats.num_input_rows >= n) {
            break;
        }
        let mut visit = |row: Row| {
            stats.num_input_rows += 1;
            progress.rows.fetch_add(1, Ordering::Relaxed);
            let more = settings.sample.is_none_or(|n| stats.num_input_rows < n);
            add_row(settings, tokenizer, template, row, &mut spool, &mut stats, progress)?;
            Ok(more)
        };
        dealt.for_each(share, Want::Json, settings.on_bad_row, &progress.bytes_read, &mut visit)?;
    }
    let spool = spool.finish()?;
    let (bins, packing) = plan_prepared(spool.lengths(), settings.pack_size, settings.algorithm, settings.seed)?;
    stats.num_packed_sequences = packing.packs;
    stats.total_tokens = packing.tokens;
    stats.num_truncated_to_pack_size = packing.truncated;
    let path = prefix.with_extension("parquet");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if bins.is_empty() {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(DataError::io("remove", &path, e));
            }
            _ => {}
        }
        return Ok((vec![FileReceipt { path: name, bytes: 0, checksum: EMPTY.into() }], stats));
    }
    // Row group by row group: memory is that of one group.
    let mut writer = PackWriter::prepared(&path)?;
    for group in (0..bins.len()).collect::<Vec<_>>().chunks(settings.row_group.max(1)) {
        let items = group.iter().flat_map(|&b| bins.bin(b)).copied().collect();
        let mut starts = vec![0];
        for &b in group {
            starts.push(starts[starts.len() - 1] + bins.bin(b).len());
        }
        let part = Bins { items, starts };
        writer.write_group(&pack_examples(&part, settings.pack_size as usize, |i| spool.sequence(i)))?;
    }
    writer.finish()?;
    let (bytes, checksum) = checksum_file(&path)?;
    Ok((vec![FileReceipt { path: name, bytes, checksum }], stats))
}

fn add_row(
    settings: &SftPrep,
    tokenizer: &TextTokenizer,
    template: &ChatTemplate,
    row: Row,
    spool: &mut SpoolWriter,
    stats: &mut SftStatistics,
    progress: &Progress,
) -> Result<()> {
    let Row::Json(row) = row else {
        stats.num_errors += 1;
        stats.num_filtered += 1;
        return Ok(());
    };
    let chat = &settings.chat;
    if let Some(wanted) = &chat.used_in_filter
        && !used_in(row.get(&chat.used_in_field), wanted)
    {
        stats.num_filtered += 1;
        return Ok(());
    }
    // Parquet files often hold the tools as JSON text.
    let parsed: Option<Value> =
        row.get(&chat.tools_field).and_then(Value::as_str).and_then(|t| serde_json::from_str(t).ok());
    let tools = parsed.as_ref().or(row.get(&chat.tools_field));
    let outcome = chat_sequences(template, row.get(&chat.messages_field).unwrap_or(&Value::Null), tools);
    let sequences = match outcome {
        ChatOutcome::Sequences(sequences) => sequences,
        dropped => {
            stats.num_filtered += 1;
            match dropped {
                ChatOutcome::StrayToolCall => stats.num_validation_errors += 1,
                ChatOutcome::Empty => stats.num_empty_after_masking += 1,
                ChatOutcome::Failed(_) => stats.num_errors += 1,
                ChatOutcome::Sequences(_) | ChatOutcome::NoMessages => {}
            }
            return Ok(());
        }
    };
    for sequence in sequences {
        let (mut ids, mut mask) = tokenize_chunks(tokenizer, &sequence.chunks)?;
        if let Some(most) = settings.max_doc_tokens
            && ids.len() > most
        {
            ids.truncate(most);
            mask.truncate(most);
            stats.num_truncated += 1;
        }
        spool.add(&ids, &mask)?;
        stats.num_output_sequences += 1;
        progress.tokens.fetch_add(ids.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs the preparation: shards, `blend.json`, and `splits/{train,valid,test}` with links to the shards.
///
/// # Errors
/// As the preparation for pretraining.
pub fn prepare_sft(settings: &SftPrep, show: &(dyn Fn(&ProgressReport) + Sync)) -> Result<PreparedRun> {
    settings.blend.check(Path::new("(blend)"))?;
    let (num_shards, output) = shards_and_output(settings.num_shards, settings.sample, &settings.output)?;
    let tokenizer = TextTokenizer::load(&settings.tokenizer)?;
    let template = ChatTemplate::named(&settings.chat_template)?;
    let (valid, test) = settings.held_out(num_shards);
    let datasets: Vec<Value> = settings
        .blend
        .datasets
        .iter()
        .map(|d| json!({"name": d.name, "path": d.path, "weight": d.weight, "split": d.split, "subset": d.subset}))
        .collect();
    let config = json!({
        "datasets": datasets,
        "tokenizer": {
            "model": settings.tokenizer.display().to_string(), "resolved_revision": file_hash(tokenizer.path())?,
        },
        "chat": {
            "template": template.name(), "source": template.source(),
            "messages_field": settings.chat.messages_field, "tools_field": settings.chat.tools_field,
            "used_in_filter": settings.chat.used_in_filter, "used_in_field": settings.chat.used_in_field,
        },
        "output": {
            "format": "packed_parquet", "num_shards": num_shards, "pack_size": settings.pack_size,
            "algorithm": settings.algorithm.name(), "seed": settings.seed, "row_group": settings.row_group,
            "max_doc_tokens": settings.max_doc_tokens, "max_rows": settings.sample,
        },
    });
    distribute_shards(&trained(&settings.blend), num_shards, valid, test, settings.seed).check(valid + test)?;
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
                spool_and_pack(settings, tokenizer, &template, &job.files, &dealt, &prefix, &progress)
            })?;
            Ok((files, serde_json::to_value(stats).unwrap_or_default()))
        })
    })?;
    let splits = distribute_shards(&prefixes, num_shards, valid, test, settings.seed);
    splits.write(&directory.join("blend.json"))?;
    let blend = output.join("blend.json");
    splits.write(&blend)?;
    let packs = |prefix: &str| -> u64 {
        let found = jobs.iter().zip(&receipts).find(|(job, _)| job.prefix().display().to_string() == prefix);
        found.and_then(|(_, r)| r.stats["num_packed_sequences"].as_u64()).unwrap_or(0)
    };
    link_splits(&output, [("train", &splits.train), ("valid", &splits.valid), ("test", &splits.test)], packs)?;
    Ok(PreparedRun { directory, blend, splits, stats: sum_stats(&receipts), notes: Vec::new() })
}

/// Fills `splits/<split>` with relative links named `{position}__{dataset}__shard_NNNNNN.parquet`. Empty shards are left
/// out; where weights differ, whole shards are.
fn link_splits(output: &Path, splits: [(&str, &Vec<(String, String)>); 3], packs: impl Fn(&str) -> u64) -> Result<()> {
    let fresh = output.join(format!(".splits.{}.tmp", std::process::id()));
    let old = output.join("splits");
    let _ = std::fs::remove_dir_all(&fresh); // of an earlier process with this number
    for (name, list) in splits {
        let directory = fresh.join(name);
        std::fs::create_dir_all(&directory).map_err(|e| DataError::io("create the directory", &directory, e))?;
        let dataset = |prefix: &str| {
            // .../datasets/<name>/<plan>/shard_NNNNNN
            Path::new(prefix)
                .ancestors()
                .nth(2)
                .and_then(Path::file_name)
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let full: Vec<(f64, String, u64, &str)> = list
            .iter()
            .map(|(w, p)| (w.parse().unwrap_or(1.0), dataset(p), packs(p), p.as_str()))
            .filter(|s| s.2 > 0)
            .collect();
        let shards: Vec<(f64, &str, u64)> = full.iter().map(|s| (s.0, s.1.as_str(), s.2)).collect();
        for (position, i) in select_by_weight(&shards).into_iter().enumerate() {
            let (_, dataset, _, prefix) = &full[i];
            let target = Path::new(prefix).with_extension("parquet");
            let shard = target.file_name().unwrap_or_default().to_string_lossy();
            let link = directory.join(format!("{position:06}__{dataset}__{shard}"));
            let inside = target.strip_prefix(output).unwrap_or(&target);
            let relative = if inside.is_absolute() { inside.to_path_buf() } else { Path::new("../..").join(inside) };
            #[cfg(unix)]
            std::os::unix::fs::symlink(&relative, &link).map_err(|e| DataError::io("link", &link, e))?;
            #[cfg(not(unix))]
            std::fs::copy(&target, &link).map(|_| ()).map_err(|e| DataError::io("copy to", &link, e))?;
        }
    }
    if old.exists() {
        std::fs::remove_dir_all(&old).map_err(|e| DataError::io("replace", &old, e))?;
    }
    std::fs::rename(&fresh, &old).map_err(|e| DataError::io("rename into", &old, e))
}
