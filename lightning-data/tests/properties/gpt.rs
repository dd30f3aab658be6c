use std::sync::Arc;

use lightning_data::DataError;
use lightning_data::batch::{Batch, BatchSource};
use lightning_data::gpt::{DocumentRange, Documents, GptDataset, GptIndices, GptOptions, SampleSlot, Split};
use lightning_data::gpt_batches::GptBatches;
use lightning_data::sampler::{BatchShape, CyclicSampler, Sampler, SequentialSampler};
use proptest::prelude::*;

use super::error;

/// Documents in memory.
pub struct Memory(pub Vec<Vec<i32>>);

impl Documents for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn length(&self, document: u64) -> u32 {
        self.0[document as usize].len() as u32
    }
    fn read_into(&self, document: u64, offset: u64, out: &mut [i32]) -> lightning_data::Result<()> {
        out.copy_from_slice(&self.0[document as usize][offset as usize..offset as usize + out.len()]);
        Ok(())
    }
    fn name(&self) -> String {
        "memory".into()
    }
}

fn documents() -> impl Strategy<Value = Vec<Vec<i32>>> {
    prop::collection::vec(prop::collection::vec(1i32..50, 0..30), 1..12)
        .prop_filter("two tokens", |d| d.iter().map(Vec::len).sum::<usize>() > 1)
}

fn whole(documents: &[Vec<i32>]) -> DocumentRange {
    DocumentRange { begin: 0, end: documents.len() as u64 }
}

fn row(dataset: &Arc<GptDataset>, slot: SampleSlot) -> Batch {
    let s = dataset.options().sequence_length as usize;
    let mut batch = Batch::default();
    batch.reset(1, s, false, false);
    let mut buffers = lightning_data::gpt::SampleBuffers {
        tokens: &mut batch.tokens,
        labels: &mut batch.labels,
        loss_mask: &mut batch.loss_mask,
        padding_mask: &mut batch.padding_mask,
        positions: None,
        segments: None,
        document_ends: &mut batch.documents.physical.0,
    };
    dataset.fill_row(slot, &mut buffers).unwrap();
    batch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    // The samples, put back in order, are the shuffled documents end to end: nothing lost, nothing twice, and each
    // label is the next token (slow oracle).
    #[test]
    fn samples_tile_the_document_stream(
        docs in documents(), s in 1u64..17, wanted in prop::option::of(0u64..60), seed in any::<u32>(), extra in any::<bool>(),
        valid in any::<bool>(),
    ) {
        let split = if valid { Split::Valid } else { Split::Train };
        let mut options = GptOptions::new(s, seed, 0);
        options.add_extra_token = extra;
        options.drop_last_partial_validation = false;
        let range = whole(&docs);
        let dataset = Arc::new(GptDataset::build(Arc::new(Memory(docs.clone())), range, split, wanted, &options).unwrap());
        let plan = dataset.indices().plan;
        let stream: Vec<i32> =
            dataset.indices().document_index.iter().flat_map(|&d| docs[d as usize].iter().copied()).collect();
        prop_assert_eq!(stream.len() as u64, plan.epochs * plan.tokens_per_epoch);
        if let Some(wanted) = wanted {
            prop_assert!(dataset.len() >= wanted);
        }
        let mut seen = vec![false; dataset.len() as usize];
        for at in 0..dataset.len() {
            let sample = dataset.indices().shuffle_index.get(at as usize).unwrap();
            prop_assert!(!std::mem::replace(&mut seen[sample as usize], true));
            let batch = row(&dataset, SampleSlot::Real(at));
            let begin = (sample * s) as usize;
            for i in 0..s as usize {
                // Without the extra token the last label of each window is padding.
                let next = stream.get(begin + i + 1).copied().filter(|_| extra || i + 1 < s as usize);
                match stream.get(begin + i) {
                    Some(&t) => prop_assert_eq!((batch.tokens[i], batch.padding_mask[i]), (t, false)),
                    None => prop_assert_eq!((batch.tokens[i], batch.padding_mask[i]), (0, true)),
                }
                prop_assert_eq!((batch.labels[i], batch.loss_mask[i]), next.map_or((0, 0.0), |t| (t, 1.0)));
            }
        }
        // The last epoch, when shuffled apart, holds every document once.
        if plan.separate_final_epoch {
            let mut last: Vec<i32> = dataset.indices().document_index[(plan.epochs as usize - 1) * docs.len()..].to_vec();
            last.sort_unstable();
            prop_assert!(last.iter().copied().eq(0..docs.len() as i32));
        }
    }

    // Any data-parallel split of a step gives the same samples in the same global order; resuming anywhere changes nothing.
    #[test]
    fn b74_b75_ranks_partition_the_order_and_resume_is_exact(
        total in 1u64..200, mbs in 1u64..4, dp in 1u64..5, steps in 1u64..6, accumulation in 1u64..4, start in 0u64..50,
        sharded in any::<bool>(),
    ) {
        let shape = BatchShape { micro_batch_size: mbs, dp_size: dp };
        let gbs = shape.samples() * accumulation;
        let sequential = SequentialSampler::new("train", total, shape).unwrap();
        let (mut ours, mut out) = (Vec::new(), Vec::new());
        'steps: for step in 0..steps {
            for m in 0..accumulation {
                for r in 0..dp {
                    if sequential.positions(start + step * gbs, m, r, &mut out).is_err() {
                        break 'steps;
                    }
                    ours.extend_from_slice(&out);
                }
            }
        }
        prop_assert!(ours.iter().copied().eq(start..start + ours.len() as u64));
        // Cyclic, over more than two epochs: each epoch is a set of distinct samples, the same on a second visit.
        if total < shape.samples() {
            prop_assert!(CyclicSampler::new("valid", total, shape, sharded).is_err());
            return Ok(());
        }
        let cyclic = CyclicSampler::new("valid", total, shape, sharded).unwrap();
        let epoch = cyclic.epoch_samples();
        let visit = |from: u64, to: u64| -> Vec<Vec<u64>> {
            let mut all = Vec::new();
            let mut out = Vec::new();
            for consumed in (from..to).step_by(shape.samples() as usize) {
                for r in 0..dp {
                    cyclic.positions(consumed, 0, r, &mut out).unwrap();
                    all.push(out.clone());
                }
            }
            all
        };
        let straight = visit(0, 3 * epoch);
        for e in 0..3 {
            let per = straight.len() / 3;
            let mut flat: Vec<u64> = straight[e * per..(e + 1) * per].concat();
            prop_assert_eq!(flat.len() as u64, epoch);
            flat.sort_unstable();
            flat.dedup();
            prop_assert_eq!(flat.len() as u64, epoch);
            prop_assert!(flat.iter().all(|&p| p < total));
        }
        let mut resumed = visit(0, epoch + shape.samples());
        resumed.extend(visit(epoch + shape.samples(), 2 * epoch));
        resumed.extend(visit(2 * epoch, 3 * epoch));
        prop_assert_eq!(straight, resumed);
        prop_assert!(shape.samples() == 1 || cyclic.positions(1, 0, 0, &mut out).is_err());
    }
}

#[test]
fn empty_splits_are_refused_instead_of_looping() {
    let options = GptOptions::new(8, 1, 0);
    for docs in [vec![], vec![vec![]], vec![vec![5]]] {
        for wanted in [None, Some(0), Some(10)] {
            let range = whole(&docs);
            let e = error(
                GptIndices::build(&Memory(docs.clone()), range, Split::Valid, wanted, &options),
                "an empty split",
            );
            assert!(matches!(e, DataError::EmptySplit { .. }), "{e}");
            assert!(e.to_string().contains("memory") && e.to_string().contains("valid"), "{e}");
        }
    }
}

// Pitfall B31: padding is told by position, so that an end of document stays a label even where pad and end are one id.
#[test]
fn b31_end_of_document_stays_trained_when_pad_is_the_same_id() {
    let docs = vec![vec![4, 7, 0], vec![9, 0]];
    let mut options = GptOptions::new(8, 3, 0).with_pad(Some(0), &[]);
    assert_eq!(options.pad, None, "a pad id that ends documents is no pad id");
    options.drop_last_partial_validation = false;
    let dataset =
        GptDataset::build(Arc::new(Memory(docs)), DocumentRange { begin: 0, end: 2 }, Split::Valid, None, &options);
    let batch = row(&Arc::new(dataset.unwrap()), SampleSlot::Real(0));
    let trained_ends = batch.labels.iter().zip(&batch.loss_mask).filter(|&(&l, &m)| l == 0 && m == 1.0).count();
    assert_eq!(trained_ends, 2);
    assert_eq!(batch.padding_mask, [false, false, false, false, false, true, true, true]);
}

// Pitfall B32: a filler is a variant of its own and trains nothing; sample 0 beside it stays real.
#[test]
fn b32_filler_rows_train_nothing() {
    let docs = vec![(1..40).collect::<Vec<i32>>()];
    let dataset = GptDataset::build(
        Arc::new(Memory(docs)),
        DocumentRange { begin: 0, end: 1 },
        Split::Train,
        None,
        &GptOptions::new(4, 3, 0),
    )
    .unwrap();
    let shape = BatchShape { micro_batch_size: 2, dp_size: 1 };
    let batches = GptBatches::new(dataset, SequentialSampler::new("train", 9, shape).unwrap()).with(|b, out| {
        b.fill_slots([SampleSlot::Real(0), SampleSlot::Filler].into_iter(), out).unwrap();
    });
    let batch = batches;
    assert_eq!(batch.loss_mask, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(batch.tokens[..4], batch.tokens[4..]);
    assert_eq!(batch.accounting.filler_rows, 1);
    assert_eq!((batch.accounting.trained_tokens, batch.accounting.padding_tokens), (4, 4));
}

/// Runs a closure on a source with a fresh batch and returns the batch.
trait With: Sized {
    fn with(self, f: impl FnOnce(&Self, &mut Batch)) -> Batch {
        let mut batch = Batch::default();
        f(&self, &mut batch);
        batch
    }
}
impl<T: BatchSource> With for T {}

#[test]
fn ids_outside_the_vocabulary_name_file_sequence_and_position() {
    let docs = vec![vec![1, 2, 3], vec![4, 99, 5, 6, 7]];
    let dataset = GptDataset::build(
        Arc::new(Memory(docs)),
        DocumentRange { begin: 0, end: 2 },
        Split::Train,
        None,
        &GptOptions::new(7, 3, 0),
    )
    .unwrap()
    .with_vocab_size(Some(99));
    let shape = BatchShape { micro_batch_size: 1, dp_size: 1 };
    let source = GptBatches::new(dataset, SequentialSampler::new("train", 1, shape).unwrap());
    let e = error(source.batch(0, 0, 0), "id 99");
    assert!(matches!(e, DataError::TokenRange { sequence: 1, position: 1, id: 99, .. }), "{e}");
}
