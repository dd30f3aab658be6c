//! From samples consumed to the documents that a step saw: a pure function of the data's indices, asked only when something
//! is wrong.

use lightning_data::blend::PretrainSamples;
use lightning_data::gpt::GptDataset;
use lightning_data::sampler::{Sampler, SequentialSampler};
use serde_json::{Value, json};

/// A piece of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentPiece {
    /// Number of the document in its token file.
    pub document: u64,
    /// First token of the document in the sample.
    pub from: u64,
    /// One past the last token, the extra label included; `None` is the document's end.
    pub to: Option<u64>,
}

/// Where a sample comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleOrigin {
    /// Position in the order of the run.
    pub position: u64,
    /// Token file, or the name of the generated data.
    pub source: String,
    /// Number of the sample in the source's shuffled order.
    pub sample: u64,
    /// Its documents in order.
    pub documents: Vec<DocumentPiece>,
}

impl SampleOrigin {
    /// For the metrics file; documents as [number, from, to].
    pub fn to_json(&self) -> Value {
        let documents: Vec<Value> = self.documents.iter().map(|d| json!([d.document, d.from, d.to])).collect();
        json!({ "position": self.position, "source": self.source, "sample": self.sample, "documents": documents })
    }
}

fn documents(data: &GptDataset, sample: u64) -> Option<Vec<DocumentPiece>> {
    let index = data.indices();
    let row = index.shuffle_index.get(sample as usize)? as usize;
    let (first, first_offset) = index.sample_index.row(row)?;
    let (last, last_offset) = index.sample_index.row(row + 1)?;
    let mut pieces = Vec::new();
    for position in first..=last {
        let document = u64::try_from(*index.document_index.get(position as usize)?).ok()?;
        let from = if position == first { u64::try_from(first_offset).ok()? } else { 0 };
        let extra = u64::from(data.options().add_extra_token);
        let to = if position == last { Some(u64::try_from(last_offset).ok()? + extra) } else { None };
        pieces.push(DocumentPiece { document, from, to });
    }
    Some(pieces)
}

/// The samples of a step of `global` samples after `consumed` ones.
pub fn step_samples(
    data: &PretrainSamples,
    sampler: &SequentialSampler,
    consumed: u64,
    global: u64,
) -> Vec<SampleOrigin> {
    let shape = sampler.shape();
    let mut positions = Vec::new();
    let mut found = Vec::new();
    for micro_batch in 0..global / shape.samples().max(1) {
        for rank in 0..shape.dp_size {
            if sampler.positions(consumed, micro_batch, rank, &mut positions).is_err() {
                return found;
            }
            found.extend(positions.iter().filter_map(|&p| origin(data, p)));
        }
    }
    found
}

fn origin(data: &PretrainSamples, position: u64) -> Option<SampleOrigin> {
    let (source, sample) = match data {
        PretrainSamples::Single(one) => (one, position),
        PretrainSamples::Blended(blend) => {
            let source = *blend.picks().source.get(position as usize)?;
            let sample = *blend.picks().sample.get(position as usize)?;
            (blend.sources().get(usize::try_from(source).ok()?)?, u64::try_from(sample).ok()?)
        }
    };
    Some(SampleOrigin { position, source: source.name(), sample, documents: documents(source, sample)? })
}
