//! A blend as numbered samples.

use std::path::Path;

use super::{BlendSpec, Picks, normalize, pick_by_weight, pick_exhaustively};
use crate::cache::IndexCache;
use crate::error::{DataError, Result};
use crate::gpt::{GptDataset, GptOptions, SampleBuffers, SampleSlot};
use crate::gpt_batches::Samples;
use crate::npy::{map_array, write_array};

/// Each source of a weighted blend is built for this share more than its target, so that rounding cannot run it dry.
pub const SURPLUS: f64 = 0.005;

/// Samples of several sources in the order of the picker.
pub struct BlendedDataset {
    sources: Vec<GptDataset>,
    weights: Vec<f64>,
    picks: Picks,
}

/// How many samples each source of a weighted blend gives and is built for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Targets {
    /// ceil(size * w_i); their sum is the size of the blend, up to one sample per source more than asked for.
    pub given: Vec<u64>,
    /// ceil(given * 1.005).
    pub built: Vec<u64>,
}

impl Targets {
    pub(super) fn new(normalized: &[f64], size: u64) -> Targets {
        let given: Vec<u64> = normalized.iter().map(|w| (size as f64 * w).ceil() as u64).collect();
        let built = given.iter().map(|&n| (n as f64 * (1.0 + SURPLUS)).ceil() as u64).collect();
        Targets { given, built }
    }

    pub(super) fn size(&self) -> u64 {
        self.given.iter().sum()
    }
}

impl BlendedDataset {
    /// Mixes sources that were built before.
    ///
    /// `weights`: normalised once; `None` mixes in proportion to the sources' lengths. `size`: number of samples; `None`
    /// (only without weights) takes every sample of every source.
    ///
    /// # Errors
    /// A source without samples, a source asked for more samples than it has.
    pub fn new(
        sources: Vec<GptDataset>,
        weights: Option<&[f64]>,
        size: Option<u64>,
        cache: Option<&IndexCache>,
    ) -> Result<BlendedDataset> {
        let lengths: Vec<u64> = sources.iter().map(GptDataset::len).collect();
        if let Some(i) = lengths.iter().position(|&n| n == 0) {
            return Err(DataError::Oversampled { source: sources[i].name(), wanted: 0, available: 0 });
        }
        let by_length: Vec<f64> = lengths.iter().map(|&n| n as f64).collect();
        let (weights, size) = match (weights, size) {
            // The picker's weights are normalised a second time; usually that changes nothing, sometimes the last bit.
            (Some(weights), Some(size)) => (normalize(weights), Some(size)),
            (None, Some(size)) => (normalize(&by_length), Some(size.min(lengths.iter().sum()))),
            (None, None) => (by_length, None),
            (Some(_), None) => {
                return Err(DataError::Setting {
                    name: "blend",
                    expected: "a number of samples for a blend with weights".into(),
                    found: "none".into(),
                    hint: "set the iterations, or leave the weights out to take everything once",
                });
            }
        };
        let pick = || match size {
            Some(size) => pick_by_weight(&weights, size),
            None => pick_exhaustively(&lengths),
        };
        let picks = match (cache, sources.first()) {
            (Some(cache), Some(first)) => {
                let description = serde_json::json!({
                    "class": "BlendedDataset", "weights": weights, "lengths": lengths, "size": size,
                });
                let paths = |key: &Path| {
                    let part = |p: &str| super::super::cache::part(key, p);
                    [part("dataset_index.npy"), part("dataset_sample_index.npy")]
                };
                cache.get_or_build(
                    &format!("BlendedDataset-{}", first.split()),
                    &description,
                    |key| {
                        let [source, sample] = paths(key);
                        Ok(Picks { source: map_array(&source)?, sample: map_array(&sample)? })
                    },
                    pick,
                    |key, picks: &Picks| {
                        let [source, sample] = paths(key);
                        write_array(&source, &picks.source)?;
                        write_array(&sample, &picks.sample)
                    },
                )?
            }
            _ => pick()?,
        };
        let dataset = BlendedDataset { sources, weights, picks };
        dataset.check()?;
        Ok(dataset)
    }

    fn check(&self) -> Result<()> {
        let mut largest = vec![-1i64; self.sources.len()];
        let mut broken = self.picks.source.len() != self.picks.sample.len();
        for (&source, &sample) in self.picks.source.iter().zip(self.picks.sample.iter()) {
            match usize::try_from(source).ok().and_then(|s| largest.get_mut(s)) {
                Some(l) if sample >= 0 => *l = (*l).max(sample),
                _ => broken = true,
            }
        }
        if broken {
            return Err(DataError::Invalid {
                path: "(blend index cache)".into(),
                rule: "picks name a source and one of its samples",
                entry: None,
                expected: format!("sources below {}", self.sources.len()),
                found: "another".into(),
                hint: "remove the index cache: it is built again",
            });
        }
        for (source, &largest) in self.sources.iter().zip(&largest) {
            if largest >= source.len() as i64 {
                return Err(DataError::Oversampled {
                    source: source.name(),
                    wanted: largest as u64,
                    available: source.len(),
                });
            }
        }
        Ok(())
    }

    /// The sources.
    pub fn sources(&self) -> &[GptDataset] {
        &self.sources
    }

    /// Weights that the picker used.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Which source and which of its samples each position shows.
    pub fn picks(&self) -> &Picks {
        &self.picks
    }
}

impl Samples for BlendedDataset {
    fn len(&self) -> u64 {
        self.picks.source.len() as u64
    }

    fn fill_row(&self, slot: SampleSlot, row: &mut SampleBuffers<'_>) -> Result<usize> {
        let at = match slot {
            SampleSlot::Real(at) => at,
            SampleSlot::Filler => 0,
        };
        let index = at as usize;
        let (Some(&source), Some(&sample)) = (self.picks.source.get(index), self.picks.sample.get(index)) else {
            return Err(DataError::Exhausted { what: "blend".into(), consumed: at, available: self.len() });
        };
        let source = source as usize;
        let slot = match slot {
            SampleSlot::Real(_) => SampleSlot::Real(sample as u64),
            SampleSlot::Filler => SampleSlot::Filler,
        };
        self.sources[source].fill_row(slot, row)?;
        Ok(source)
    }

    fn options(&self) -> &GptOptions {
        self.sources[0].options()
    }

    fn source_names(&self) -> Vec<String> {
        self.sources.iter().map(GptDataset::name).collect()
    }
}

/// Whether a spec makes a blend layer: any weights do, and several prefixes.
pub(super) fn has_blend_layer(spec: &BlendSpec, per_split: bool) -> bool {
    spec.prefixes.len() > 1 || (spec.weights.is_some() && !per_split)
}
