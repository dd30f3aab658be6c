//! Pretraining batches: a GPT dataset (or a blend of several) behind a sampler.

use std::cell::RefCell;

use crate::batch::{Batch, BatchSource};
use crate::error::Result;
use crate::gpt::{GptDataset, GptOptions, SampleBuffers, SampleSlot};
use crate::sampler::Sampler;

/// Numbered samples of fixed length.
pub trait Samples: Send + Sync {
    /// Number of samples.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills a row and says which source it came from.
    fn fill_row(&self, slot: SampleSlot, row: &mut SampleBuffers<'_>) -> Result<usize>;

    /// Settings that all sources share.
    fn options(&self) -> &GptOptions;

    /// Names of the sources.
    fn source_names(&self) -> Vec<String>;
}

impl Samples for GptDataset {
    fn len(&self) -> u64 {
        GptDataset::len(self)
    }

    fn fill_row(&self, slot: SampleSlot, row: &mut SampleBuffers<'_>) -> Result<usize> {
        GptDataset::fill_row(self, slot, row).map(|()| 0)
    }

    fn options(&self) -> &GptOptions {
        GptDataset::options(self)
    }

    fn source_names(&self) -> Vec<String> {
        vec![self.name()]
    }
}

/// Batches of `micro_batch_size` rows.
pub struct GptBatches<D, S> {
    samples: D,
    sampler: S,
    sources: usize,
}

impl<D: Samples, S: Sampler> GptBatches<D, S> {
    /// Puts samples and an order together.
    pub fn new(samples: D, sampler: S) -> GptBatches<D, S> {
        let sources = samples.source_names().len();
        GptBatches { samples, sampler, sources }
    }

    /// The samples.
    pub fn samples(&self) -> &D {
        &self.samples
    }

    /// Fills `out` with the samples of `slots`, one row each.
    pub fn fill_slots(&self, slots: impl ExactSizeIterator<Item = SampleSlot>, out: &mut Batch) -> Result<()> {
        let options = self.samples.options();
        let s = options.sequence_length as usize;
        out.reset(slots.len(), s, options.reset_position_ids, options.reset_attention_mask);
        let sources = &mut out.accounting.tokens_by_source;
        sources.clear();
        sources.resize(self.sources, 0);
        for (row, slot) in slots.enumerate() {
            let at = row * s..(row + 1) * s;
            let ends = &mut out.documents.physical.0;
            let first = ends.len();
            let source = self.samples.fill_row(
                slot,
                &mut SampleBuffers {
                    tokens: &mut out.tokens[at.clone()],
                    labels: &mut out.labels[at.clone()],
                    loss_mask: &mut out.loss_mask[at.clone()],
                    padding_mask: &mut out.padding_mask[at.clone()],
                    positions: out.positions.as_mut().map(|p| &mut p[at.clone()]),
                    segments: out.attention_segments.as_mut().map(|p| &mut p[at.clone()]),
                    document_ends: ends,
                },
            )?;
            for end in &mut ends[first..] {
                *end += at.start as i32;
            }
            let real = out.padding_mask[at].iter().filter(|&&p| !p).count() as u64;
            if let Some(sum) = out.accounting.tokens_by_source.get_mut(source) {
                *sum += real;
            }
            out.accounting.filler_rows += u64::from(slot == SampleSlot::Filler);
        }
        let (physical, padding) = (&out.documents.physical, &out.padding_mask);
        let logical = &mut out.documents.logical.0;
        for range in physical.ranges() {
            let real = padding[range].iter().filter(|&&p| !p).count() as i32;
            logical.push(logical.last().copied().unwrap_or(0) + real);
        }
        out.documents.max_length = if options.inter_document_masking { physical.longest() } else { s as i32 };
        out.count();
        Ok(())
    }
}

thread_local! {
    static POSITIONS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl<D: Samples, S: Sampler> BatchSource for GptBatches<D, S> {
    fn fill(&self, consumed_samples: u64, micro_batch: u64, dp_rank: u64, out: &mut Batch) -> Result<()> {
        // Reused per thread: filling a batch allocates nothing once its buffers have their size.
        POSITIONS.with_borrow_mut(|positions| {
            self.sampler.positions(consumed_samples, micro_batch, dp_rank, positions)?;
            self.fill_slots(positions.iter().map(|&p| SampleSlot::Real(p)), out)
        })
    }

    fn source_names(&self) -> Vec<String> {
        self.samples.source_names()
    }

    fn samples(&self) -> Option<u64> {
        Some(self.samples.len())
    }
}
