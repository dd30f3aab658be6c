//! Building the document, sample and shuffle index.
//!
//! With T tokens per epoch, sequence length S, `e` = 1 for the extra token and K wanted samples:
//! epochs E is the smallest with E T >= K S + e; samples are (E T - e) div S, of all epochs, usually more than K.
//! If E > 1 and the last epoch is needed for less than 80 % of its samples, it is shuffled apart from the others.

use crate::error::{DataError, Result};
use crate::npy::Array;
use crate::rng::Mt19937;

use super::{Documents, GptOptions, Split};

/// A contiguous range of the documents of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentRange {
    /// First document.
    pub begin: u64,
    /// One past the last.
    pub end: u64,
}

impl DocumentRange {
    /// Number of documents.
    pub fn len(self) -> u64 {
        self.end.saturating_sub(self.begin)
    }

    /// Whether it holds none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Numbers that follow from the lengths and the settings, before any array is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexPlan {
    /// Tokens of one epoch, T.
    pub tokens_per_epoch: u64,
    /// Epochs, E.
    pub epochs: u64,
    /// Whether the last epoch is shuffled apart.
    pub separate_final_epoch: bool,
    /// Samples that end before the last epoch; all samples when it is not separate.
    pub samples_before_final: u64,
    /// Samples of all epochs.
    pub samples: u64,
}

impl IndexPlan {
    /// Plans for `tokens` per epoch and `wanted` samples (`None`: one epoch). `None` when a sample can never be made.
    pub fn new(tokens: u64, options: &GptOptions, split: Split, wanted: Option<u64>) -> Option<IndexPlan> {
        let (s, extra) = (options.sequence_length, options.extra());
        if tokens <= extra || s == 0 {
            return None;
        }
        let need = wanted.unwrap_or(0).checked_mul(s)?.checked_add(extra)?;
        let epochs = need.div_ceil(tokens).max(1);
        let all = epochs.checked_mul(tokens)? - extra;
        // The reference rounds up in float32 and loses the partial sample beyond 2^24 tokens; this is exact.
        let keep_partial = split == Split::Valid && !options.drop_last_partial_validation;
        let samples = if keep_partial { all.div_ceil(s) } else { all / s };
        let (mut separate, mut before) = (false, samples);
        if let (true, Some(wanted)) = (epochs > 1, wanted) {
            let full = ((epochs - 1) * tokens - extra) / s;
            let per_epoch = (tokens - extra) / s;
            // int(0.80 * per_epoch), as a float product truncated.
            separate = wanted - full < (0.80 * per_epoch as f64) as u64;
            if separate {
                before = full;
            }
        }
        Some(IndexPlan {
            tokens_per_epoch: tokens,
            epochs,
            separate_final_epoch: separate,
            samples_before_final: before,
            samples,
        })
    }
}

/// Rows (position in the document index, token offset); 64-bit where a number passes 2^31 - 1.
pub enum SampleIndex {
    /// 32-bit rows.
    I32(Array<[i32; 2]>),
    /// 64-bit rows.
    I64(Array<[i64; 2]>),
}

impl SampleIndex {
    /// Number of rows: samples + 1.
    pub fn len(&self) -> usize {
        match self {
            SampleIndex::I32(rows) => rows.len(),
            SampleIndex::I64(rows) => rows.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One row, or `None` past the end or for a negative position in a damaged cache. The offset of the very last row can
    /// be -1: a partial sample that ends with an empty document.
    #[inline]
    pub fn row(&self, row: usize) -> Option<(u64, i64)> {
        let [document, offset] = match self {
            SampleIndex::I32(rows) => rows.get(row)?.map(i64::from),
            SampleIndex::I64(rows) => *rows.get(row)?,
        };
        Some((u64::try_from(document).ok()?, offset))
    }
}

/// Order of the samples; 64-bit from 2^32 - 2 samples on.
pub enum ShuffleIndex {
    /// 32-bit entries.
    U32(Array<u32>),
    /// 64-bit entries.
    I64(Array<i64>),
}

impl ShuffleIndex {
    /// Number of samples.
    pub fn len(&self) -> usize {
        match self {
            ShuffleIndex::U32(v) => v.len(),
            ShuffleIndex::I64(v) => v.len(),
        }
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sample at a position of the order.
    #[inline]
    pub fn get(&self, at: usize) -> Option<u64> {
        match self {
            ShuffleIndex::U32(v) => v.get(at).map(|&x| u64::from(x)),
            ShuffleIndex::I64(v) => v.get(at).and_then(|&x| u64::try_from(x).ok()),
        }
    }
}

/// The three indices of one split of one source.
pub struct GptIndices {
    /// Numbers behind the arrays.
    pub plan: IndexPlan,
    /// Documents of all epochs in shuffled order.
    pub document_index: Array<i32>,
    /// Windows over that stream.
    pub sample_index: SampleIndex,
    /// Order of the windows.
    pub shuffle_index: ShuffleIndex,
}

impl GptIndices {
    /// Builds the indices of `range`.
    ///
    /// # Errors
    /// A split with too few tokens for any sample, more than 2^31 - 1 documents.
    pub fn build(
        documents: &dyn Documents,
        range: DocumentRange,
        split: Split,
        wanted: Option<u64>,
        options: &GptOptions,
    ) -> Result<GptIndices> {
        let lengths = documents.lengths();
        GptIndices::from_lengths(&lengths, range, split, wanted, options, &documents.name())
    }

    /// Builds the indices from lengths alone; `lengths` covers all documents of the source, `name` is for messages.
    pub fn from_lengths(
        lengths: &[u32],
        range: DocumentRange,
        split: Split,
        wanted: Option<u64>,
        options: &GptOptions,
        name: &str,
    ) -> Result<GptIndices> {
        if i32::try_from(range.end).is_err() || range.end > lengths.len() as u64 {
            return Err(DataError::Setting {
                name: "documents",
                expected: format!("a range inside {} documents and below 2^31", lengths.len()),
                found: format!("{}..{} of {name}", range.begin, range.end),
                hint: "split the source into several prefixes and blend them",
            });
        }
        let tokens: u64 = lengths[range.begin as usize..range.end as usize].iter().map(|&n| u64::from(n)).sum();
        let Some(plan) = IndexPlan::new(tokens, options, split, wanted) else {
            return Err(DataError::EmptySplit {
                split: split.to_string(),
                prefix: name.to_string(),
                sequences: lengths.len() as u64,
                in_split: range.len(),
                tokens,
            });
        };
        let mut rng = Mt19937::from_seed(options.seed);
        let document_index = shuffled_documents(&mut rng, range, &plan);
        let sample_index = cut_samples(lengths, &document_index, &plan, options);
        let shuffle_index = shuffled_samples(&mut rng, &plan);
        Ok(GptIndices { plan, document_index: Array::Owned(document_index), sample_index, shuffle_index })
    }
}

fn shuffled_documents(rng: &mut Mt19937, range: DocumentRange, plan: &IndexPlan) -> Vec<i32> {
    let once = || range.begin as i32..range.end as i32;
    let mut all = Vec::with_capacity((range.len() * plan.epochs) as usize);
    let together = plan.epochs - u64::from(plan.separate_final_epoch);
    for _ in 0..together {
        all.extend(once());
    }
    rng.shuffle_numpy(&mut all);
    if plan.separate_final_epoch {
        let start = all.len();
        all.extend(once());
        rng.shuffle_numpy(&mut all[start..]);
    }
    all
}

/// Rows of the sample index for an order of documents of `tokens` tokens in all, with one extra token: for measuring and
/// comparing the walk alone.
pub fn sample_rows(lengths: &[u32], documents: &[i32], tokens: u64, sequence_length: u64) -> Vec<[i32; 2]> {
    let options = GptOptions::new(sequence_length, 0, 0);
    let Some(plan) = IndexPlan::new(tokens, &options, Split::Train, None) else {
        return Vec::new();
    };
    walk(lengths, documents, &plan, &options, |d, o| [d as i32, o as i32])
}

fn cut_samples(lengths: &[u32], documents: &[i32], plan: &IndexPlan, options: &GptOptions) -> SampleIndex {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    if documents.len() <= i32::MAX as usize && longest <= i32::MAX as u32 {
        let rows = walk(lengths, documents, plan, options, |d, o| [d as i32, o as i32]);
        SampleIndex::I32(Array::Owned(rows))
    } else {
        let rows = walk(lengths, documents, plan, options, |d, o| [d as i64, o]);
        SampleIndex::I64(Array::Owned(rows))
    }
}

/// Walks S + extra tokens per sample and goes back by the extra one, so that consecutive samples share it. A document that
/// ends exactly at a sample's end is kept: the next sample starts at its last token.
///
/// Lengths are fetched in blocks by all cores before they are walked: fetches in shuffled order wait for memory, and the walk
/// is a chain of additions that only one can do.
fn walk<R>(
    lengths: &[u32],
    documents: &[i32],
    plan: &IndexPlan,
    options: &GptOptions,
    row: impl Fn(usize, i64) -> R,
) -> Vec<R> {
    const BLOCK: usize = 1 << 20;
    let extra = options.extra() as i64;
    let window = options.sequence_length as i64 + extra;
    let mut rows = Vec::with_capacity(plan.samples as usize + 1);
    rows.push(row(0, 0));
    if plan.samples == 0 {
        return rows;
    }
    // Tokens that the open sample still needs, and where it begins in the document at hand.
    let (mut remaining, mut offset) = (window, 0i64);
    let mut block = vec![0; BLOCK.min(documents.len())];
    for (b, chunk) in documents.chunks(BLOCK).enumerate() {
        let block = &mut block[..chunk.len()];
        fetch_lengths(lengths, chunk, block);
        for (i, length) in block.iter().map(|&n| i64::from(n)).enumerate() {
            remaining -= length - offset;
            while remaining <= 0 {
                offset = length + remaining - extra;
                rows.push(row(b * BLOCK + i, offset));
                if rows.len() as u64 > plan.samples {
                    return rows;
                }
                remaining = window - (length - offset);
            }
            offset = 0;
        }
    }
    // Only a partial last sample gets here: it ends where the documents do.
    let last = documents.len() - 1;
    rows.push(row(last, i64::from(lengths[documents[last] as usize]) - extra));
    rows
}

/// The lengths of some documents, in their order.
fn fetch_lengths(lengths: &[u32], documents: &[i32], out: &mut [u32]) {
    /// Below this a thread costs more than it fetches.
    const PART: usize = 1 << 16;
    let fetch = |documents: &[i32], out: &mut [u32]| {
        for (length, &document) in out.iter_mut().zip(documents) {
            *length = lengths[document as usize];
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(documents.len() / PART).max(1);
    let part = documents.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let mut parts = documents.chunks(part).zip(out.chunks_mut(part));
        // The first part is this thread's own.
        let own = parts.next();
        for (documents, out) in parts {
            scope.spawn(move || fetch(documents, out));
        }
        if let Some((documents, out)) = own {
            fetch(documents, out);
        }
    });
}

fn shuffled_samples(rng: &mut Mt19937, plan: &IndexPlan) -> ShuffleIndex {
    let cut = plan.samples_before_final as usize;
    if plan.samples < u64::from(u32::MAX) - 1 {
        let mut order: Vec<u32> = (0..plan.samples as u32).collect();
        rng.shuffle_numpy(&mut order[..cut]);
        if plan.separate_final_epoch {
            rng.shuffle_numpy(&mut order[cut..]);
        }
        ShuffleIndex::U32(Array::Owned(order))
    } else {
        let mut order: Vec<i64> = (0..plan.samples as i64).collect();
        rng.shuffle_numpy(&mut order[..cut]);
        if plan.separate_final_epoch {
            rng.shuffle_numpy(&mut order[cut..]);
        }
        ShuffleIndex::I64(Array::Owned(order))
    }
}
