//! From settings to the three datasets of a pretraining run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::dataset::{Targets, has_blend_layer};
use super::{BlendSpec, BlendedDataset, normalize};
use crate::cache::IndexCache;
use crate::error::{DataError, Result};
use crate::gpt::{DocumentRange, Documents, GptDataset, GptOptions, MockDocuments, SampleBuffers, SampleSlot, Split};
use crate::gpt_batches::Samples;
use crate::indexed::IndexedDataset;
use crate::parallel::map_in_order;
use crate::split::SplitMatrix;

/// Where the data of a pretraining run comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum PretrainData {
    /// One blend, cut into splits by a split string (`9999,8,2`).
    Blend {
        /// The sources.
        blend: BlendSpec,
        /// The split string.
        split: String,
    },
    /// A blend for each split; whole sources.
    PerSplit([Option<BlendSpec>; 3]),
    /// The mock dataset with split `1,1,1`.
    Mock {
        /// Size of the vocabulary.
        vocab_size: u32,
    },
}

/// Everything else that decides the datasets.
#[derive(Clone, Debug)]
pub struct DatasetSettings {
    /// Options of the samples.
    pub options: GptOptions,
    /// Samples for train, valid and test; `None` takes one epoch. A split with `Some(0)` is left out.
    pub samples: [Option<u64>; 3],
    /// Directory of the index cache; `None` builds in memory.
    pub cache: Option<PathBuf>,
    /// Refuse ids from this on.
    pub vocab_size: Option<u32>,
    /// Threads that open sources and build indices.
    pub threads: usize,
}

/// One split of a pretraining run.
pub enum PretrainSamples {
    /// One source without a blend layer.
    Single(GptDataset),
    /// A blend.
    Blended(BlendedDataset),
}

impl Samples for PretrainSamples {
    fn len(&self) -> u64 {
        match self {
            PretrainSamples::Single(d) => d.len(),
            PretrainSamples::Blended(d) => d.len(),
        }
    }

    fn fill_row(&self, slot: SampleSlot, row: &mut SampleBuffers<'_>) -> Result<usize> {
        match self {
            PretrainSamples::Single(d) => Samples::fill_row(d, slot, row),
            PretrainSamples::Blended(d) => d.fill_row(slot, row),
        }
    }

    fn options(&self) -> &GptOptions {
        match self {
            PretrainSamples::Single(d) => d.options(),
            PretrainSamples::Blended(d) => d.options(),
        }
    }

    fn source_names(&self) -> Vec<String> {
        match self {
            PretrainSamples::Single(d) => Samples::source_names(d),
            PretrainSamples::Blended(d) => d.source_names(),
        }
    }
}

impl PretrainData {
    /// Opens and checks the files and builds train, valid and test. A split is `None` when it has no width or no samples
    /// are wanted.
    ///
    /// # Errors
    /// Damaged files, splits that come out empty, sources that cannot give their share.
    pub fn build(&self, settings: &DatasetSettings) -> Result<[Option<PretrainSamples>; 3]> {
        let cache = settings.cache.as_deref().map(IndexCache::new).transpose()?;
        let mut out = [None, None, None];
        match self {
            PretrainData::Blend { blend, split } => {
                let matrix = SplitMatrix::parse(split)?;
                let sources = open(&[blend], settings.threads)?;
                for (i, slot) in out.iter_mut().enumerate() {
                    if matrix.bookends[i].is_some() {
                        let range = |count| matrix.ranges(count)[i].unwrap_or(DocumentRange { begin: 0, end: 0 });
                        let builder = SplitBuilder { settings, cache: &cache, split: Split::ALL[i], sources: &sources };
                        *slot = builder.build(blend, has_blend_layer(blend, false), range)?;
                    }
                }
            }
            PretrainData::PerSplit(blends) => {
                let all: Vec<&BlendSpec> = blends.iter().flatten().collect();
                let sources = open(&all, settings.threads)?;
                for (i, (slot, blend)) in out.iter_mut().zip(blends).enumerate() {
                    if let Some(blend) = blend {
                        let builder = SplitBuilder { settings, cache: &cache, split: Split::ALL[i], sources: &sources };
                        let range = |count| DocumentRange { begin: 0, end: count };
                        *slot = builder.build(blend, has_blend_layer(blend, true), range)?;
                    }
                }
            }
            PretrainData::Mock { vocab_size } => {
                let documents: Arc<dyn Documents> = Arc::new(MockDocuments::new(*vocab_size, settings.options.eod));
                let ranges = SplitMatrix::parse("1,1,1")?.ranges(documents.len());
                for (i, slot) in out.iter_mut().enumerate() {
                    let (Some(range), wanted) = (ranges[i], settings.samples[i]) else {
                        continue;
                    };
                    if wanted != Some(0) {
                        let dataset =
                            GptDataset::build(documents.clone(), range, Split::ALL[i], wanted, &settings.options)?;
                        *slot = Some(PretrainSamples::Single(dataset.with_vocab_size(settings.vocab_size)));
                    }
                }
            }
        }
        Ok(out)
    }
}

type Sources = HashMap<String, Arc<IndexedDataset>>;

/// Opens and validates each prefix once.
fn open(blends: &[&BlendSpec], threads: usize) -> Result<Sources> {
    let mut prefixes: Vec<&String> = blends.iter().flat_map(|b| &b.prefixes).collect();
    prefixes.sort();
    prefixes.dedup();
    let opened = map_in_order(&prefixes, threads, |prefix| IndexedDataset::open_validated(prefix.as_str()))?;
    Ok(prefixes.into_iter().cloned().zip(opened.into_iter().map(Arc::new)).collect())
}

struct SplitBuilder<'a> {
    settings: &'a DatasetSettings,
    cache: &'a Option<IndexCache>,
    split: Split,
    sources: &'a Sources,
}

impl SplitBuilder<'_> {
    fn build(
        &self,
        blend: &BlendSpec,
        layer: bool,
        range: impl Fn(u64) -> DocumentRange + Sync,
    ) -> Result<Option<PretrainSamples>> {
        let wanted = self.settings.samples[self.split as usize];
        if wanted == Some(0) {
            return Ok(None);
        }
        let source = |prefix: &String| {
            self.sources.get(prefix).cloned().ok_or_else(|| DataError::Setting {
                name: "blend",
                expected: "a prefix that was opened".into(),
                found: prefix.clone(),
                hint: "check the blend",
            })
        };
        let gpt = |(prefix, wanted): &(&String, Option<u64>)| {
            let documents = source(prefix)?;
            let range = range(documents.len());
            let options = &self.settings.options;
            let dataset = match self.cache {
                Some(cache) => cache.gpt_dataset(documents, range, self.split, *wanted, options)?,
                None => GptDataset::build(documents, range, self.split, *wanted, options)?,
            };
            Ok(dataset.with_vocab_size(self.settings.vocab_size))
        };
        if !layer {
            return Ok(Some(PretrainSamples::Single(gpt(&(&blend.prefixes[0], wanted))?)));
        }
        let weights = blend.weights.as_deref().map(normalize);
        let (per_source, size) = match (&weights, wanted) {
            (Some(weights), Some(size)) => {
                let targets = Targets::new(weights, size);
                (targets.built.iter().copied().map(Some).collect(), Some(targets.size()))
            }
            (_, size) => (vec![None; blend.prefixes.len()], size),
        };
        let jobs: Vec<(&String, Option<u64>)> = blend.prefixes.iter().zip(per_source).collect();
        let built = map_in_order(&jobs, self.settings.threads, gpt)?;
        let blended = BlendedDataset::new(built, weights.as_deref(), size, self.cache.as_ref())?;
        Ok(Some(PretrainSamples::Blended(blended)))
    }
}
