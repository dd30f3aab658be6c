//! Prompts and completions to packs, without a chat template (the OpenMathInstruct-2 runs).
//!
//! Writes `training.jsonl` and `validation.jsonl` (columns `input`, `output`, `original_answers`) and beside them
//! `packed/<tokenizer>_pad_seq_to_mult<q>_sft_<hash>/` with one packed file per split and `<P>_metadata.jsonl`, a list with
//! one entry per split, training first. Memory holds neither texts nor tokens, only where they lie.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::leftovers::OutputGuard;
use super::plan::FileShare;
use super::progress::{Progress, ProgressReport};
use super::rows::{BadRows, Row, Want, bad_row, for_each_row};
use super::run::{PreparedRun, file_hash, short_hash};
use super::sources::find_files;
use super::splits::Splits;
use super::spool::{Spool, SpoolWriter};
use crate::atomic::{AtomicFile, write_atomically};
use crate::error::{DataError, Result};
use crate::python_text;
use crate::sft::{
    Algorithm, Bins, PackMetadata, PackWriter, PromptCompletion, pack_examples, pad_to_multiple, plan_offline,
    validation_split,
};
use crate::tokenizer::TextTokenizer;

/// Which columns the rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowShape {
    /// `problem`, `generated_solution`, `expected_answer`: the prompt is `Problem: {problem} Solution:`.
    OpenMathInstruct,
    /// `input`, `output`, and perhaps `original_answers`.
    InputOutput,
}

/// Settings.
#[derive(Clone, Debug)]
pub struct PromptCompletionPrep {
    /// `hf://org/repo`, a file or a directory.
    pub source: String,
    /// Split of a Hugging Face dataset.
    pub split: Option<String>,
    /// Columns.
    pub shape: RowShape,
    /// Directory to write to.
    pub output: PathBuf,
    /// A tokenizer directory or `tokenizer.json`.
    pub tokenizer: PathBuf,
    /// Positions of a pack.
    pub pack_size: u32,
    /// Lengths are padded to this multiple; 1 for none.
    pub pad_seq_to_mult: u32,
    /// `first_fit_shuffle` or `first_fit_decreasing`.
    pub algorithm: Algorithm,
    /// Seed of split and packing.
    pub seed: u32,
    /// Share of the rows for validation; 0 for none.
    pub validation_share: f64,
    /// Rows that cannot be read.
    pub on_bad_row: BadRows,
}

impl PromptCompletionPrep {
    /// The recorded runs' settings.
    pub fn new(source: String, output: PathBuf, tokenizer: PathBuf, pack_size: u32) -> PromptCompletionPrep {
        PromptCompletionPrep {
            source,
            split: None,
            shape: RowShape::OpenMathInstruct,
            output,
            tokenizer,
            pack_size,
            pad_seq_to_mult: 1,
            algorithm: Algorithm::FirstFitShuffle,
            seed: 5678,
            validation_share: 0.05,
            on_bad_row: BadRows::Stop,
        }
    }
}

/// The row as it goes to `training.jsonl`.
fn normalise(row: &Value, shape: RowShape, path: &Path, line: u64) -> Result<Value> {
    let field = |key: &str| {
        row.get(key).and_then(Value::as_str).ok_or_else(|| {
            let found = row.get(key).map_or("nothing".to_string(), Value::to_string);
            bad_row(path, line, format!("a text in {key:?}"), found)
        })
    };
    Ok(match shape {
        RowShape::OpenMathInstruct => json!({
            "input": format!("Problem: {} Solution:", field("problem")?),
            "output": field("generated_solution")?,
            "original_answers": [row.get("expected_answer").cloned().unwrap_or_default()],
        }),
        RowShape::InputOutput => json!({
            "input": field("input")?,
            "output": field("output")?,
            "original_answers": row.get("original_answers").cloned().unwrap_or_else(|| json!([])),
        }),
    })
}

/// Normalised rows in a file of lines without a name, to be read in any order: memory holds their offsets only.
struct RowStore {
    path: PathBuf,
    file: File,
    offsets: Vec<u64>,
}

impl RowStore {
    /// Reads all rows. Rows that cannot be read are left out where the settings say so.
    fn read(settings: &PromptCompletionPrep, progress: &Progress) -> Result<(RowStore, u64)> {
        let path = settings.output.join(".rows.jsonl");
        let mut target = AtomicFile::create(&path)?;
        let (mut offsets, mut bad_rows) = (vec![0u64], 0);
        for file in find_files(&settings.source, None, settings.split.as_deref())? {
            let input = file.path.clone();
            let mut line = 0;
            let mut visit = |row: Row| {
                line += 1;
                progress.rows.fetch_add(1, Ordering::Relaxed);
                let row = match row {
                    Row::Json(value) => match normalise(&value, settings.shape, &input, line) {
                        Err(e) if settings.on_bad_row == BadRows::Stop => return Err(e),
                        other => other.ok(),
                    },
                    Row::Text(_) | Row::Bad => None,
                };
                let Some(row) = row else {
                    bad_rows += 1;
                    return Ok(true);
                };
                let text = format!("{}\n", python_text::json(&row, false, false));
                target.put(text.as_bytes())?;
                offsets.push(offsets[offsets.len() - 1] + text.len() as u64);
                Ok(true)
            };
            for_each_row(
                &FileShare { file, rows: None },
                Want::Json,
                settings.on_bad_row,
                &progress.bytes_read,
                &mut visit,
            )?;
        }
        target.commit()?;
        let file = File::open(&path).map_err(|e| DataError::io("open", &path, e))?;
        // The open file stays readable; a run that is killed leaves nothing behind.
        std::fs::remove_file(&path).map_err(|e| DataError::io("remove", &path, e))?;
        Ok((RowStore { path, file, offsets }, bad_rows))
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// One line, with its line feed.
    fn line(&self, row: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let (from, to) = (self.offsets[row as usize], self.offsets[row as usize + 1]);
        buffer.resize((to - from) as usize, 0);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.read_exact(buffer))
            .map_err(|e| DataError::io("read", &self.path, e))
    }
}

/// Writes the rows of one split to `<name>.jsonl`, tokenises and packs them.
fn pack_split(
    settings: &PromptCompletionPrep,
    maker: &PromptCompletion,
    rows: &RowStore,
    order: &[u64],
    lines: &Path,
    target: &Path,
    progress: &Progress,
) -> Result<(PackMetadata, u64)> {
    let mut spool_directory = target.as_os_str().to_os_string();
    spool_directory.push(".spool");
    let mut spool = SpoolWriter::create(Path::new(&spool_directory))?;
    let (pack_size, multiple) = (settings.pack_size as usize, settings.pad_seq_to_mult as usize);
    let mut ids = Vec::new();
    let mut line = Vec::new();
    let mut lines = AtomicFile::create(lines)?;
    for (position, &i) in order.iter().enumerate() {
        rows.line(i, &mut line)?;
        lines.put(&line)?;
        let row: Value = serde_json::from_slice(&line)
            .map_err(|e| bad_row(&rows.path, i + 1, "the line that was written".into(), e.to_string()))?;
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let mut example = maker.example(text("input"), text("output"), position as u64)?;
        example.resize(pad_to_multiple(example.input_ids.len(), pack_size, multiple), maker.eos());
        ids.clear();
        ids.extend(example.input_ids.iter().map(|&id| id as u32));
        spool.add(&ids, &example.loss_mask)?;
        progress.tokens.fetch_add(ids.len() as u64, Ordering::Relaxed);
    }
    lines.commit()?;
    let spool: Spool = spool.finish()?;
    let plan = plan_offline(spool.lengths(), settings.pack_size, settings.algorithm, settings.seed)?;
    let mut writer = PackWriter::offline(target)?;
    let bins: Vec<usize> = (0..plan.packs.len()).collect();
    for group in bins.chunks(500) {
        let (first, last) = (plan.packs.starts[group[0]], plan.packs.starts[group[group.len() - 1] + 1]);
        let starts = plan.packs.starts[group[0]..=group[group.len() - 1] + 1].iter().map(|s| s - first).collect();
        let part = Bins { items: plan.packs.items[first..last].to_vec(), starts };
        writer.write_group(&pack_examples(&part, usize::MAX, |row| spool.sequence(row)))?;
    }
    writer.finish()?;
    Ok((plan.metadata, plan.skipped))
}

/// Runs the preparation. The directory of the packed files is [`PreparedRun::directory`], the metadata file
/// [`PreparedRun::blend`].
///
/// # Errors
/// Unreadable rows, rows that cannot be trained, rows that do not fit, a disk that is full or read-only.
pub fn prepare_prompt_completion(
    settings: &PromptCompletionPrep,
    show: &(dyn Fn(&ProgressReport) + Sync),
) -> Result<PreparedRun> {
    if settings.pack_size < 2 || settings.pad_seq_to_mult == 0 || !(0.0..1.0).contains(&settings.validation_share) {
        return Err(DataError::Setting {
            name: "pack_size",
            expected: "a pack of 2 or more, a multiple of 1 or more, a validation share below 1".into(),
            found: format!("{}, {} and {}", settings.pack_size, settings.pad_seq_to_mult, settings.validation_share),
            hint: "correct the settings",
        });
    }
    let tokenizer = TextTokenizer::load(&settings.tokenizer)?;
    let tokenizer_name = settings.tokenizer.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let hash = short_hash(&json!({
        "source": settings.source, "split": settings.split, "shape": format!("{:?}", settings.shape),
        "tokenizer": file_hash(tokenizer.path())?, "pack_size": settings.pack_size, "seed": settings.seed,
        "algorithm": settings.algorithm.name(), "validation_share": settings.validation_share,
    }));
    // With padding, a row may have one token more than a pack runs.
    let longest = settings.pack_size as usize + usize::from(settings.pad_seq_to_mult > 1);
    let maker = PromptCompletion::new(tokenizer, longest)?;
    let _guard = OutputGuard::enter(&settings.output)?;
    let progress = Progress::default();
    progress.watch(show, || {
        let total: u64 = find_files(&settings.source, None, settings.split.as_deref())?.iter().map(|f| f.size).sum();
        progress.bytes_total.store(total, Ordering::Relaxed);
        let (rows, bad_rows) = RowStore::read(settings, &progress)?;
        let (training, validation) = validation_split(rows.len(), settings.validation_share, u64::from(settings.seed));
        let directory = settings.output.join("packed").join(format!(
            "{tokenizer_name}_pad_seq_to_mult{}_sft_{}",
            settings.pad_seq_to_mult,
            &hash[..12]
        ));
        let (mut metadata, mut stats) = (Vec::new(), serde_json::Map::new());
        stats.insert("num_errors".into(), bad_rows.into());
        for (name, order) in [("training", &training), ("validation", &validation)] {
            if order.is_empty() {
                continue;
            }
            let lines = settings.output.join(format!("{name}.jsonl"));
            let target = directory.join(format!("{name}_{}.idx.parquet", settings.pack_size));
            let (about, skipped) = pack_split(settings, &maker, &rows, order, &lines, &target, &progress)?;
            metadata.push(about);
            stats.insert(format!("num_rows_{name}"), order.len().into());
            stats.insert(format!("num_skipped_{name}"), skipped.into());
        }
        let path = directory.join(format!("{}_metadata.jsonl", settings.pack_size));
        let text = serde_json::to_string(&metadata).unwrap_or_default();
        write_atomically(&path, format!("{text}\n").as_bytes())?;
        Ok(PreparedRun {
            directory,
            blend: path,
            splits: Splits::default(),
            stats: Value::Object(stats),
            notes: Vec::new(),
        })
    })
}
