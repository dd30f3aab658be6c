//! What a training step takes: a fixed shape, with the documents inside always described.

use crate::error::Result;

/// Offsets of documents as they lie in memory, padding included (`cu_seqlens` in the field's words): starts with 0, never
/// falls, ends with the number of tokens of the batch. Equal neighbours are documents of no tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhysicalOffsets(pub Vec<i32>);

/// Offsets that count only real tokens: entry i + 1 minus entry i is the length of document i without its padding.
/// They do not index memory; [`PhysicalOffsets`] do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogicalOffsets(pub Vec<i32>);

impl PhysicalOffsets {
    /// Begin and end of each document.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.0.windows(2).map(|w| w[0] as usize..w[1] as usize)
    }

    /// Length of the longest document.
    pub fn longest(&self) -> i32 {
        self.0.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0)
    }
}

/// Documents inside a batch. Not optional: a batch without packing has one document per row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedDocuments {
    /// Where documents lie in the flattened tokens of all rows. Attention, convolution, state and MTP shifts stop there.
    pub physical: PhysicalOffsets,
    /// Their lengths without padding.
    pub logical: LogicalOffsets,
    /// At least the longest physical length; fixed over a run when shapes have to be fixed.
    pub max_length: i32,
}

/// Counts of one batch, for the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    /// Documents with at least one real token.
    pub documents: u64,
    /// Tokens that are not padding.
    pub real_tokens: u64,
    /// Padding tokens.
    pub padding_tokens: u64,
    /// Labels that count in the loss.
    pub trained_tokens: u64,
    /// Labels of real tokens that do not count.
    pub masked_tokens: u64,
    /// Rows that fill up the batch.
    pub filler_rows: u64,
    /// Real tokens by source, in the order of the sources' names.
    pub tokens_by_source: Vec<u64>,
}

impl Accounting {
    /// Adds another batch's counts.
    pub fn add(&mut self, other: &Accounting) {
        self.documents += other.documents;
        self.real_tokens += other.real_tokens;
        self.padding_tokens += other.padding_tokens;
        self.trained_tokens += other.trained_tokens;
        self.masked_tokens += other.masked_tokens;
        self.filler_rows += other.filler_rows;
        if self.tokens_by_source.len() < other.tokens_by_source.len() {
            self.tokens_by_source.resize(other.tokens_by_source.len(), 0);
        }
        for (sum, n) in self.tokens_by_source.iter_mut().zip(&other.tokens_by_source) {
            *sum += n;
        }
    }
}

/// One micro-batch of one rank: `rows` x `seq_length` tokens, row after row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Rows.
    pub rows: usize,
    /// Tokens per row.
    pub seq_length: usize,
    /// Input ids, `[rows, seq_length]`.
    pub tokens: Vec<i32>,
    /// Id to predict at each position, `[rows, seq_length]`; already shifted.
    pub labels: Vec<i32>,
    /// 1 where the label counts, else 0, `[rows, seq_length]`. The main loss and every MTP loss read this one mask.
    pub loss_mask: Vec<f32>,
    /// True where the token is padding, `[rows, seq_length]`.
    pub padding_mask: Vec<bool>,
    /// Documents.
    pub documents: PackedDocuments,
    /// Positions inside documents, `[rows, seq_length]`; only with `reset_position_ids`.
    pub positions: Option<Vec<i32>>,
    /// Attention stays inside equal numbers, `[rows, seq_length]`; only with `reset_attention_mask`.
    pub attention_segments: Option<Vec<i32>>,
    /// Counts.
    pub accounting: Accounting,
}

impl Batch {
    /// Tokens of all rows.
    pub fn token_count(&self) -> usize {
        self.rows * self.seq_length
    }

    /// Gives all arrays their size and clears the documents; keeps allocations.
    pub fn reset(&mut self, rows: usize, seq_length: usize, positions: bool, segments: bool) {
        let n = rows * seq_length;
        self.rows = rows;
        self.seq_length = seq_length;
        self.tokens.clear();
        self.tokens.resize(n, 0);
        self.labels.clear();
        self.labels.resize(n, 0);
        self.loss_mask.clear();
        self.loss_mask.resize(n, 0.0);
        self.padding_mask.clear();
        self.padding_mask.resize(n, false);
        for (wanted, array) in [(positions, &mut self.positions), (segments, &mut self.attention_segments)] {
            if wanted {
                let array = array.get_or_insert_default();
                array.clear();
                array.resize(n, 0);
            } else {
                *array = None;
            }
        }
        self.documents.physical.0.clear();
        self.documents.physical.0.push(0);
        self.documents.logical.0.clear();
        self.documents.logical.0.push(0);
        self.documents.max_length = 0;
        let by_source = &mut self.accounting.tokens_by_source;
        by_source.fill(0);
        self.accounting = Accounting { tokens_by_source: std::mem::take(by_source), ..Accounting::default() };
    }

    /// Fills the counts other than those by source and of filler rows.
    pub(crate) fn count(&mut self) {
        let a = &mut self.accounting;
        a.padding_tokens = self.padding_mask.iter().filter(|&&p| p).count() as u64;
        a.real_tokens = self.tokens.len() as u64 - a.padding_tokens;
        a.trained_tokens = self.loss_mask.iter().filter(|&&m| m != 0.0).count() as u64;
        let real_unmasked =
            self.loss_mask.iter().zip(&self.padding_mask).filter(|&(&m, &p)| m == 0.0 && !p).count() as u64;
        a.masked_tokens = real_unmasked;
        a.documents =
            self.documents.physical.ranges().filter(|r| self.padding_mask[r.clone()].iter().any(|&p| !p)).count()
                as u64;
    }

    /// Source position of an MTP target: `labels` and `loss_mask` at depth d (1, 2, ...) are those of position i + d of
    /// the same document, or none past its physical end.
    pub fn mtp_shift_map(&self, depth: usize) -> Vec<Option<u32>> {
        let mut map = vec![None; self.token_count()];
        for range in self.documents.physical.ranges() {
            for i in range.clone() {
                if i + depth < range.end {
                    map[i] = Some((i + depth) as u32);
                }
            }
        }
        map
    }

    /// Labels that count at MTP depth d: shifted label inside the document and not masked.
    pub fn mtp_tokens(&self, depth: usize) -> u64 {
        let counts = |r: std::ops::Range<usize>| {
            let from = (r.start + depth).min(r.end);
            self.loss_mask[from..r.end].iter().filter(|&&m| m != 0.0).count() as u64
        };
        self.documents.physical.ranges().map(counts).sum()
    }
}

/// Batches as pure functions of (configuration, samples consumed, micro-batch, data-parallel rank): a run that stops and
/// goes on from its counter sees what it would have seen.
pub trait BatchSource: Send + Sync {
    /// Fills `out` with one micro-batch. `consumed_samples` counts whole steps before this one; `micro_batch` is the
    /// number of the micro-batch inside the step, from 0.
    ///
    /// # Errors
    /// The data's end, a damaged file, an id outside the vocabulary, a rank outside the group.
    fn fill(&self, consumed_samples: u64, micro_batch: u64, dp_rank: u64, out: &mut Batch) -> Result<()>;

    /// [`BatchSource::fill`] into a new batch.
    fn batch(&self, consumed_samples: u64, micro_batch: u64, dp_rank: u64) -> Result<Batch> {
        let mut batch = Batch::default();
        self.fill(consumed_samples, micro_batch, dp_rank, &mut batch)?;
        Ok(batch)
    }

    /// Names of the sources that [`Accounting::tokens_by_source`] counts.
    fn source_names(&self) -> Vec<String>;

    /// Samples of one pass, when there is such a number.
    fn samples(&self) -> Option<u64>;
}
