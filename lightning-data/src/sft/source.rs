//! Fine-tuning batches: packs behind the fine-tuning sampler.

use std::sync::Arc;

use super::{Collator, Pack, PackStore};
use crate::batch::{Batch, BatchSource};
use crate::error::{DataError, Result};
use crate::gpt::SampleSlot;
use crate::sampler::FineTuningSampler;

/// Batches of one packed row.
pub struct PackedBatches<S> {
    store: S,
    sampler: FineTuningSampler,
    collator: Collator,
}

impl<S: PackStore> PackedBatches<S> {
    /// Puts packs, their order and the shape of rows together.
    ///
    /// # Errors
    /// A sampler over another number of samples than there are packs.
    pub fn new(store: S, sampler: FineTuningSampler, collator: Collator) -> Result<PackedBatches<S>> {
        if sampler.distinct() != store.len() {
            return Err(DataError::Setting {
                name: "sampler",
                expected: format!("an order of {} packs", store.len()),
                found: sampler.distinct().to_string(),
                hint: "build the sampler from the store",
            });
        }
        Ok(PackedBatches { store, sampler, collator })
    }

    fn pack(&self, slot: SampleSlot) -> Result<(Arc<Pack>, bool)> {
        match slot {
            SampleSlot::Real(index) => Ok((self.store.pack(index)?, false)),
            SampleSlot::Filler => Ok((self.store.pack(self.store.len().saturating_sub(1))?, true)),
        }
    }
}

impl<S: PackStore> BatchSource for PackedBatches<S> {
    fn fill(&self, consumed_samples: u64, micro_batch: u64, dp_rank: u64, out: &mut Batch) -> Result<()> {
        let slots = self.sampler.step(consumed_samples, dp_rank)?;
        let Some(&slot) = slots.get(micro_batch as usize) else {
            return Err(DataError::Setting {
                name: "micro_batch",
                expected: format!("a number below {}", slots.len()),
                found: micro_batch.to_string(),
                hint: "a fine-tuning step has global_batch_size / data-parallel ranks micro-batches",
            });
        };
        let mut longest = 0;
        if !self.collator.settings().pad_to_max_length {
            for &slot in &slots {
                longest = longest.max(self.pack(slot)?.0.runtime_length());
            }
        }
        let (pack, filler) = self.pack(slot)?;
        self.collator.fill(&[(&pack, filler)], self.collator.row_length(longest), out)
    }

    fn source_names(&self) -> Vec<String> {
        vec![self.store.name()]
    }

    fn samples(&self) -> Option<u64> {
        Some(self.store.len())
    }
}
