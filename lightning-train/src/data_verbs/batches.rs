//! `--batches`: exactly what a rank sees at a step, as text, JSON lines or safetensors.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use lightning_data::inspect::{batch_json, walk_batches};
use lightning_data::{Accounting, Batch, BatchSource};
use safetensors::tensor::{Dtype, View};
use serde_json::{Value, json};

use super::{note, usage};
use crate::cli::{Exit, Failure, Process, print};

/// Which batches, and in what form.
pub(super) struct Wanted {
    /// Steps from 0, the end left out.
    pub steps: std::ops::Range<u64>,
    /// Data-parallel rank.
    pub rank: u64,
    /// Data-parallel ranks.
    pub dp: u64,
    /// Context-parallel ranks, which share the batches of a data-parallel rank.
    pub cp: usize,
    /// Context-parallel rank.
    pub cp_rank: usize,
    /// Samples of a step over all ranks.
    pub global_batch_size: u64,
    /// Samples of a micro-batch.
    pub micro_batch_size: u64,
    /// JSON lines instead of text.
    pub json: bool,
}

/// `FIRST..END` (without END), `FIRST..=LAST`, or one step.
pub(super) fn steps(text: &str) -> Result<std::ops::Range<u64>, Failure> {
    let number = |t: &str| t.trim().parse::<u64>().ok();
    let range = match text.split_once("..") {
        None => number(text).and_then(|s| Some(s..s.checked_add(1)?)),
        Some((a, b)) => match b.strip_prefix('=') {
            Some(last) => number(a).zip(number(last)).and_then(|(a, b)| Some(a..b.checked_add(1)?)),
            None => number(a).zip(number(b)).map(|(a, b)| a..b),
        },
    };
    range.filter(|r| !r.is_empty()).ok_or_else(|| {
        usage(format!(
            "--batches: expected FIRST..END with FIRST below END, or one step, found `{text}`; write for example 0..2"
        ))
    })
}

impl Wanted {
    fn micro_batches(&self) -> Result<u64, Failure> {
        if self.rank >= self.dp {
            return Err(usage(format!(
                "--rank: expected a rank below {} (--dp), found {}; correct one of them",
                self.dp, self.rank
            )));
        }
        if self.cp_rank >= self.cp {
            return Err(usage(format!(
                "--cp-rank: expected a rank below {} (--cp), found {}; correct one of them",
                self.cp, self.cp_rank
            )));
        }
        let per_pass = self.micro_batch_size * self.dp;
        if per_pass == 0 || self.global_batch_size == 0 || self.global_batch_size % per_pass != 0 {
            return Err(usage(format!(
                "global batch size: expected a multiple of {} samples x {} data-parallel ranks, found {}; change --dp or the batch sizes",
                self.micro_batch_size, self.dp, self.global_batch_size
            )));
        }
        Ok(self.global_batch_size / per_pass)
    }
}

impl Wanted {
    /// The part of a batch that the rank holds.
    fn part<'b>(&self, batch: &'b Batch) -> lightning_data::Result<Cow<'b, Batch>> {
        Ok(if self.cp == 1 { Cow::Borrowed(batch) } else { Cow::Owned(batch.context_slice(self.cp, self.cp_rank)?) })
    }
}

/// Prints the batches.
pub(super) fn show(source: &dyn BatchSource, wanted: &Wanted, process: &mut Process<'_>) -> Result<(), Failure> {
    let micro_batches = wanted.micro_batches()?;
    let names = source.source_names();
    let mut printed = Ok(());
    let mut total = Accounting::default();
    let (steps, gbs) = (wanted.steps.clone(), wanted.global_batch_size);
    walk_batches(source, steps, gbs, micro_batches, wanted.rank, |step, micro_batch, batch| {
        let batch = &*wanted.part(batch)?;
        total.add(&batch.accounting);
        if printed.is_ok() {
            let text = if wanted.json {
                let mut value = json!({ "step": step, "micro_batch": micro_batch, "rank": wanted.rank, "cp_rank": wanted.cp_rank, "sources": names });
                if let (Value::Object(head), Value::Object(body)) = (&mut value, batch_json(batch)) {
                    head.extend(body);
                }
                format!("{value}\n")
            } else {
                describe(step, micro_batch, wanted.rank, batch)
            };
            printed = print(process, &text);
        }
        Ok(())
    })?;
    printed?;
    note(process, &counts(&total, &names));
    Ok(())
}

fn describe(step: u64, micro_batch: u64, rank: u64, batch: &Batch) -> String {
    let a = &batch.accounting;
    let mut text = format!(
        "step {step} micro-batch {micro_batch} rank {rank}: {} x {} tokens, {} documents, {} real, {} padding, {} trained, {} masked\n",
        batch.rows, batch.seq_length, a.documents, a.real_tokens, a.padding_tokens, a.trained_tokens, a.masked_tokens
    );
    list(&mut text, "  offsets", &batch.documents.physical.0);
    if batch.documents.logical.0 != batch.documents.physical.0 {
        list(&mut text, "  logical", &batch.documents.logical.0);
    }
    for (i, row) in batch.tokens.chunks(batch.seq_length.max(1)).enumerate() {
        let at = i * batch.seq_length..i * batch.seq_length + row.len();
        let _ = writeln!(text, "  row {i}");
        list(&mut text, "    ids    ", row);
        list(&mut text, "    labels ", &batch.labels[at.clone()]);
        list(&mut text, "    mask   ", &batch.loss_mask[at.clone()]);
        if batch.padding_mask[at.clone()].contains(&true) {
            let padding: Vec<u8> = batch.padding_mask[at.clone()].iter().map(|&p| u8::from(p)).collect();
            list(&mut text, "    padding", &padding);
        }
        if let Some(positions) = &batch.positions {
            list(&mut text, "    positions", &positions[at]);
        }
    }
    text
}

fn list<T: std::fmt::Display>(text: &mut String, name: &str, values: &[T]) {
    text.push_str(name);
    for value in values {
        let _ = write!(text, " {value}");
    }
    text.push('\n');
}

/// Counts for people, sources included.
fn counts(a: &Accounting, names: &[String]) -> String {
    let mut text = format!(
        "in all: {} documents, {} real tokens, {} padding, {} trained, {} masked, {} filler rows",
        a.documents, a.real_tokens, a.padding_tokens, a.trained_tokens, a.masked_tokens, a.filler_rows
    );
    for (name, tokens) in names.iter().zip(&a.tokens_by_source) {
        let _ = write!(text, "\n  {tokens} tokens of {name}");
    }
    text
}

/// One array of a batch.
struct Array {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for &Array {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        self.bytes.as_slice().into()
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Writes the batches as tensors `step.S.micro_batch.M.{tokens,labels,loss_mask,padding_mask,cu_seqlens,cu_seqlens_padded}`
/// (and `positions`, where they are not 0, 1, 2, ... of each row).
pub(super) fn save(
    source: &dyn BatchSource,
    wanted: &Wanted,
    path: &Path,
    process: &mut Process<'_>,
) -> Result<(), Failure> {
    let micro_batches = wanted.micro_batches()?;
    let mut arrays: Vec<(String, Array)> = Vec::new();
    let mut total = Accounting::default();
    let (steps, gbs) = (wanted.steps.clone(), wanted.global_batch_size);
    walk_batches(source, steps, gbs, micro_batches, wanted.rank, |step, micro_batch, b| {
        let b = &*wanted.part(b)?;
        total.add(&b.accounting);
        let table = vec![b.rows, b.seq_length];
        let ints = |values: &[i32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let mut put = |name: &str, dtype, shape, bytes| {
            arrays.push((format!("step.{step}.micro_batch.{micro_batch}.{name}"), Array { dtype, shape, bytes }));
        };
        put("tokens", Dtype::I32, table.clone(), ints(&b.tokens));
        put("labels", Dtype::I32, table.clone(), ints(&b.labels));
        put("loss_mask", Dtype::U8, table.clone(), b.loss_mask.iter().map(|&m| m as u8).collect());
        put("padding_mask", Dtype::BOOL, table.clone(), b.padding_mask.iter().map(|&p| u8::from(p)).collect());
        let (physical, logical) = (&b.documents.physical.0, &b.documents.logical.0);
        put("cu_seqlens_padded", Dtype::I32, vec![physical.len()], ints(physical));
        put("cu_seqlens", Dtype::I32, vec![logical.len()], ints(logical));
        if let Some(positions) = &b.positions {
            put("positions", Dtype::I32, table, ints(positions));
        }
        Ok(())
    })?;
    let views = arrays.iter().map(|(name, array)| (name, array));
    safetensors::serialize_to_file(views, None, path).map_err(|e| {
        Failure::new(Exit::Invalid, format!("cannot write {}: {e}; check the folder and the disk", path.display()))
    })?;
    note(process, &counts(&total, &source.source_names()));
    print(process, &format!("{}\n", path.display()))
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn steps_are_ranges_or_numbers() {
        assert_eq!(steps("3").unwrap(), 3..4);
        assert_eq!(steps("0..2").unwrap(), 0..2);
        assert_eq!(steps("4..=4").unwrap(), 4..5);
        for bad in ["", "a", "2..2", "3..1", "..3", "1..", "-1..2", "0..=18446744073709551615"] {
            let error = steps(bad).unwrap_err().to_string();
            assert!(error.contains("--batches") && error.contains(bad), "{error}");
        }
    }
}
