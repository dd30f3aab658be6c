//! One split of one source as numbered samples.

use std::sync::Arc;

use super::sample::finish_row;
use super::{DocumentRange, Documents, GptIndices, GptOptions, SampleBuffers, SampleSlot, Split};
use crate::error::{DataError, Result};

/// Samples of one split of one source.
pub struct GptDataset {
    documents: Arc<dyn Documents>,
    range: DocumentRange,
    split: Split,
    wanted: Option<u64>,
    options: GptOptions,
    indices: GptIndices,
    vocab_size: Option<u32>,
}

impl GptDataset {
    /// Builds the indices in memory. `wanted` samples, or one epoch.
    ///
    /// # Errors
    /// A split with too few tokens for any sample ([`DataError::EmptySplit`]).
    pub fn build(
        documents: Arc<dyn Documents>,
        range: DocumentRange,
        split: Split,
        wanted: Option<u64>,
        options: &GptOptions,
    ) -> Result<GptDataset> {
        let indices = GptIndices::build(&*documents, range, split, wanted, options)?;
        Ok(GptDataset::from_indices(documents, range, split, wanted, options, indices))
    }

    /// Takes indices that were built before, for the same arguments.
    pub fn from_indices(
        documents: Arc<dyn Documents>,
        range: DocumentRange,
        split: Split,
        wanted: Option<u64>,
        options: &GptOptions,
        indices: GptIndices,
    ) -> GptDataset {
        GptDataset { documents, range, split, wanted, options: options.clone(), indices, vocab_size: None }
    }

    /// Refuses ids of `vocab_size` and more when they are read.
    pub fn with_vocab_size(mut self, vocab_size: Option<u32>) -> GptDataset {
        self.vocab_size = vocab_size;
        self
    }

    /// Number of samples; usually more than were wanted.
    pub fn len(&self) -> u64 {
        self.indices.shuffle_index.len() as u64
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Samples asked for when it was built.
    pub fn wanted(&self) -> Option<u64> {
        self.wanted
    }

    /// Documents of this split.
    pub fn range(&self) -> DocumentRange {
        self.range
    }

    /// The split.
    pub fn split(&self) -> Split {
        self.split
    }

    /// Its options.
    pub fn options(&self) -> &GptOptions {
        &self.options
    }

    /// The three indices.
    pub fn indices(&self) -> &GptIndices {
        &self.indices
    }

    /// Name of the source.
    pub fn name(&self) -> String {
        self.documents.name()
    }

    /// Fills one row with a sample.
    ///
    /// # Errors
    /// A sample beyond [`GptDataset::len`], a damaged index or token file, an id outside the vocabulary.
    ///
    /// # Panics
    /// When the slices of `row` do not have `sequence_length` elements.
    pub fn fill_row(&self, slot: SampleSlot, row: &mut SampleBuffers<'_>) -> Result<()> {
        let s = self.options.sequence_length as usize;
        assert!(
            row.tokens.len() == s
                && row.labels.len() == s
                && row.loss_mask.len() == s
                && row.padding_mask.len() == s
                && row.positions.as_ref().is_none_or(|p| p.len() == s)
                && row.segments.as_ref().is_none_or(|p| p.len() == s),
            "row buffers hold {s} elements"
        );
        let at = match slot {
            SampleSlot::Real(at) => at,
            SampleSlot::Filler => 0,
        };
        let valid = self.read_window(at, row.tokens, &mut row.labels[s - 1])?;
        finish_row(&self.options, row, valid);
        if slot == SampleSlot::Filler {
            row.loss_mask.fill(0.0);
            row.padding_mask.fill(true);
        }
        Ok(())
    }

    /// Reads the window of the sample at `at`: S ids into `tokens`, the extra one into `extra`. Returns how many ids
    /// the window really has; only the last, partial validation sample has fewer than S + 1.
    fn read_window(&self, at: u64, tokens: &mut [i32], extra: &mut i32) -> Result<usize> {
        let s = tokens.len();
        let broken = |what: String| DataError::Invalid {
            path: self.documents.token_path().to_path_buf(),
            rule: "indices describe this source",
            entry: Some(at),
            expected: format!("a sample below {}", self.len()),
            found: what,
            hint: "remove the index cache: it is built again",
        };
        let index = &self.indices;
        let sample =
            index.shuffle_index.get(at as usize).ok_or_else(|| broken("a sample past the end".into()))? as usize;
        let rows = index.sample_index.row(sample).zip(index.sample_index.row(sample + 1));
        let ((first, first_offset), (last, last_offset)) =
            rows.ok_or_else(|| broken(format!("shuffled sample {sample}")))?;
        let mut filled = 0usize;
        for position in first..=last {
            let document = *index
                .document_index
                .get(position as usize)
                .ok_or_else(|| broken(format!("document position {position}")))?;
            let document = u64::try_from(document).ok().filter(|&d| d < self.documents.len());
            let document = document.ok_or_else(|| broken(format!("document position {position}")))?;
            let begin = if position == first { first_offset } else { 0 };
            let end = if position == last {
                last_offset.saturating_add(self.options.extra() as i64)
            } else {
                i64::from(self.documents.length(document))
            };
            if begin < 0 || end < begin {
                return Err(broken(format!("offsets {begin}..{end}")));
            }
            let (begin, count) = (begin as u64, (end - begin) as usize);
            if filled + count > s + self.options.extra() as usize {
                return Err(broken(format!("a window of more than {} tokens", filled + count)));
            }
            let inside = count.min(s - filled.min(s));
            self.read(document, begin, &mut tokens[filled.min(s)..filled.min(s) + inside])?;
            if inside < count {
                self.read(document, begin + inside as u64, std::slice::from_mut(extra))?;
            }
            filled += count;
        }
        Ok(filled)
    }

    fn read(&self, document: u64, offset: u64, out: &mut [i32]) -> Result<()> {
        self.documents.read_into(document, offset, out)?;
        if let Some(vocab_size) = self.vocab_size {
            let largest = out.iter().copied().max().unwrap_or(0);
            if largest as u32 >= vocab_size {
                let position = out.iter().position(|&id| id as u32 >= vocab_size).unwrap_or(0);
                return Err(DataError::TokenRange {
                    path: self.documents.token_path().to_path_buf(),
                    sequence: document,
                    position: offset + position as u64,
                    id: i64::from(out[position]),
                    vocab_size: u64::from(vocab_size),
                });
            }
        }
        Ok(())
    }
}
