//! `data inspect`: what is in a file, and what a rank sees.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::batch::{Batch, BatchSource};
use crate::error::Result;
use crate::indexed::IndexedDataset;
use crate::sft::{Pack, PackStore};
use crate::tokenizer::TextTokenizer;

/// Counts of a file of sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Sequences, packs.
    pub sequences: u64,
    /// Documents, or examples inside packs.
    pub documents: u64,
    /// Tokens.
    pub tokens: u64,
    /// Tokens with a mask of 1; `None` where there are no masks.
    pub trained_tokens: Option<u64>,
    /// Lengths by powers of two: (smallest length of the class, number).
    pub histogram: Vec<(u64, u64)>,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary::new()
    }
}

impl Summary {
    fn add(&mut self, length: u64) {
        let class = if length == 0 { 0 } else { 1 << length.ilog2() };
        self.sequences += 1;
        self.tokens += length;
        match self.histogram.binary_search_by_key(&class, |h| h.0) {
            Ok(i) => self.histogram[i].1 += 1,
            Err(i) => self.histogram.insert(i, (class, 1)),
        }
    }

    /// Adds the counts of another file.
    pub fn merge(&mut self, other: &Summary) {
        self.sequences += other.sequences;
        self.documents += other.documents;
        self.tokens += other.tokens;
        self.trained_tokens = match (self.trained_tokens, other.trained_tokens) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        };
        for &(class, n) in &other.histogram {
            match self.histogram.binary_search_by_key(&class, |h| h.0) {
                Ok(i) => self.histogram[i].1 += n,
                Err(i) => self.histogram.insert(i, (class, n)),
            }
        }
    }

    /// No counts yet.
    pub fn new() -> Summary {
        Summary { sequences: 0, documents: 0, tokens: 0, trained_tokens: None, histogram: Vec::new() }
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "sequences": self.sequences, "documents": self.documents, "tokens": self.tokens,
            "trained_tokens": self.trained_tokens, "length_histogram": self.histogram,
        })
    }
}

/// Counts of a token file. Checks every rule of the format on the way.
pub fn summarize_indexed(prefix: &Path) -> Result<Summary> {
    let data = IndexedDataset::open_validated(prefix)?;
    let mut summary = Summary::new();
    data.lengths().for_each(|n| summary.add(u64::from(n)));
    summary.documents = data.validation().documents;
    Ok(summary)
}

/// Counts of packs.
pub fn summarize_packs(store: &dyn PackStore) -> Result<Summary> {
    let mut summary = Summary::new();
    let mut trained = 0;
    for i in 0..store.len() {
        let pack = store.pack(i)?;
        summary.add(pack.input_ids.len() as u64);
        summary.documents += pack.seq_start_id.len() as u64;
        trained += pack.loss_mask.iter().map(|&m| u64::from(m)).sum::<u64>();
    }
    summary.trained_tokens = Some(trained);
    Ok(summary)
}

/// Text of a sequence.
pub fn show_sequence(tokenizer: &TextTokenizer, ids: &[i32]) -> Result<String> {
    tokenizer.decode(&ids.iter().map(|&id| id as u32).collect::<Vec<_>>())
}

/// Text of ids, what is trained between `[[` and `]]`. `trained` says of a position whether its token is predicted.
fn show_marked(tokenizer: &TextTokenizer, ids: &[i32], trained: impl Fn(usize) -> bool) -> Result<String> {
    let mut out = String::new();
    let mut from = 0;
    while from < ids.len() {
        let to = (from + 1..ids.len()).find(|&i| trained(i) != trained(from)).unwrap_or(ids.len());
        let text = show_sequence(tokenizer, &ids[from..to])?;
        let _ = if trained(from) { write!(out, "[[{text}]]") } else { write!(out, "{text}") };
        from = to;
    }
    Ok(out)
}

/// Text of a pack: examples on lines of their own, what is trained between `[[` and `]]`.
pub fn show_pack(tokenizer: &TextTokenizer, pack: &Pack) -> Result<String> {
    let mut out = String::new();
    for range in pack.ranges() {
        // The stored mask speaks of the next token.
        let mask = &pack.loss_mask[range.clone()];
        out += &show_marked(tokenizer, &pack.input_ids[range], |i| i > 0 && mask[i - 1] == 1)?;
        out.push('\n');
    }
    Ok(out)
}

/// Text of one row of a batch: its documents on lines of their own, padding left out, what is trained between `[[` and
/// `]]`. A document's last label belongs to it.
pub fn show_row(tokenizer: &TextTokenizer, batch: &Batch, row: usize) -> Result<String> {
    let mut out = String::new();
    let of_row = row * batch.seq_length..(row + 1) * batch.seq_length;
    for range in batch.documents.physical.ranges().filter(|r| of_row.contains(&r.start)) {
        let real = range.clone().take_while(|&i| !batch.padding_mask[i]).count();
        if real == 0 {
            continue;
        }
        let last = range.start + real - 1;
        let ids: Vec<i32> = batch.tokens[range.start..=last].iter().chain([&batch.labels[last]]).copied().collect();
        let mask = &batch.loss_mask[range.start..=last];
        out += &show_marked(tokenizer, &ids, |i| i > 0 && mask[i - 1] != 0.0)?;
        out.push('\n');
    }
    Ok(out)
}

/// What a rank sees at a step, one micro-batch after another: `show` gets the micro-batch's number and the batch.
pub fn walk_batches(
    source: &dyn BatchSource,
    steps: std::ops::Range<u64>,
    global_batch_size: u64,
    micro_batches: u64,
    dp_rank: u64,
    mut show: impl FnMut(u64, u64, &Batch) -> Result<()>,
) -> Result<()> {
    let mut batch = Batch::default();
    for step in steps {
        for micro_batch in 0..micro_batches {
            source.fill(step * global_batch_size, micro_batch, dp_rank, &mut batch)?;
            show(step, micro_batch, &batch)?;
        }
    }
    Ok(())
}

/// A batch as JSON: ids, labels, mask, offsets, counts.
pub fn batch_json(batch: &Batch) -> Value {
    let a = &batch.accounting;
    json!({
        "rows": batch.rows,
        "seq_length": batch.seq_length,
        "tokens": batch.tokens,
        "labels": batch.labels,
        "loss_mask": batch.loss_mask.iter().map(|&m| m as u8).collect::<Vec<_>>(),
        "padding_mask": batch.padding_mask.iter().map(|&p| u8::from(p)).collect::<Vec<_>>(),
        "cu_seqlens_padded": batch.documents.physical.0,
        "cu_seqlens": batch.documents.logical.0,
        "max_seqlen": batch.documents.max_length,
        "positions": batch.positions,
        "accounting": {
            "documents": a.documents, "real_tokens": a.real_tokens, "padding_tokens": a.padding_tokens,
            "trained_tokens": a.trained_tokens, "masked_tokens": a.masked_tokens, "filler_rows": a.filler_rows,
            "tokens_by_source": a.tokens_by_source,
        },
    })
}
