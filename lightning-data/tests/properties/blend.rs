use std::sync::Arc;
use std::time::Duration;

use lightning_data::batch::{Batch, BatchSource};
use lightning_data::blend::{
    BlendSpec, BlendedDataset, DatasetSettings, Picks, PretrainData, pick_by_weight, pick_exhaustively,
};
use lightning_data::gpt::{DocumentRange, GptDataset, GptOptions, Split};
use lightning_data::gpt_batches::{GptBatches, Samples};
use lightning_data::indexed::{IndexedWriter, TokenType};
use lightning_data::prefetch::{BatchRequest, Prefetcher};
use lightning_data::sampler::{BatchShape, SequentialSampler};
use lightning_data::{DataError, split::SplitMatrix};
use proptest::prelude::*;

use super::{Scratch, error, gpt::Memory};

/// The picker as the formula says it, source by source. A source with `most` samples leaves when it has given them.
fn slow_picks(weights: &[f64], size: u64, most: impl Fn(usize) -> i64) -> Vec<(usize, i64)> {
    let mut taken = vec![0i64; weights.len()];
    (0..size)
        .map(|s| {
            let behind = |i: usize| weights[i] * (s as f64).max(1.0) - taken[i] as f64;
            let mut best: Option<usize> = None;
            for i in (0..weights.len()).filter(|&i| taken[i] < most(i)) {
                if best.is_none_or(|b| behind(i) > behind(b)) {
                    best = Some(i);
                }
            }
            let best = best.unwrap();
            taken[best] += 1;
            (best, taken[best] - 1)
        })
        .collect()
}

fn pairs(picks: &Picks) -> Vec<(usize, i64)> {
    picks.source.iter().zip(picks.sample.iter()).map(|(&s, &i)| (s as usize, i)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    // Many weights take another path through the code than few; ties are common with small integer weights.
    #[test]
    fn picks_equal_the_formula(
        weights in prop::collection::vec(1u32..6, 1..40),
        kinds in prop::collection::vec(1u32..4000, 1..40),
        size in 0u64..600,
    ) {
        for weights in [weights, kinds] {
            let sum: f64 = weights.iter().map(|&w| f64::from(w)).sum();
            let weights: Vec<f64> = weights.iter().map(|&w| f64::from(w) / sum).collect();
            let picks = pick_by_weight(&weights, size).unwrap();
            prop_assert_eq!(pairs(&picks), slow_picks(&weights, size, |_| i64::MAX));
        }
    }

    #[test]
    fn exhaustive_picks_equal_the_formula(
        few in prop::collection::vec(0u64..6, 1..30),
        many in prop::collection::vec(0u64..60, 1..30),
    ) {
        for lengths in [few, many] {
            let total: u64 = lengths.iter().sum();
            let weights: Vec<f64> = lengths.iter().map(|&n| n as f64 / total as f64).collect();
            let picks = pick_exhaustively(&lengths).unwrap();
            prop_assert_eq!(pairs(&picks), slow_picks(&weights, total, |i| lengths[i] as i64));
        }
    }
}

fn source(tokens: usize) -> GptDataset {
    let documents = Arc::new(Memory(vec![(0..tokens as i32).collect()]));
    let range = DocumentRange { begin: 0, end: 1 };
    GptDataset::build(documents, range, Split::Train, None, &GptOptions::new(4, 1, 0)).unwrap()
}

// Pitfall B21: a blend that asks a small source for more than it has is an error that names it, never a wrong sample.
#[test]
fn b21_oversampling_is_an_error_that_names_the_source() {
    let e =
        error(BlendedDataset::new(vec![source(41), source(41)], Some(&[0.001, 0.999]), Some(500), None), "500 of 20");
    assert!(matches!(e, DataError::Oversampled { available: 10, .. }), "{e}");
    assert!(e.to_string().contains("memory"), "{e}");
    let fine = BlendedDataset::new(vec![source(41), source(41)], Some(&[0.001, 0.999]), Some(10), None).unwrap();
    assert_eq!(fine.len(), 10);
    assert!(BlendedDataset::new(vec![source(41), source(3)], None, None, None).is_err(), "a source of 0 samples");
}

fn write(scratch: &Scratch, name: &str, documents: usize) -> String {
    let prefix = scratch.path(name);
    let mut writer = IndexedWriter::create(&prefix, TokenType::U16).unwrap();
    for d in 0..documents {
        writer.add_document(&(0..(d % 13) as i32 + 1).collect::<Vec<_>>()).unwrap();
    }
    writer.finish().unwrap();
    prefix.display().to_string()
}

fn settings(samples: [Option<u64>; 3]) -> DatasetSettings {
    DatasetSettings { options: GptOptions::new(8, 7, 0), samples, cache: None, vocab_size: None, threads: 3 }
}

#[test]
fn a_split_that_rounds_to_nothing_is_refused_or_left_out() {
    let scratch = Scratch::new("splits");
    let (big, small) = (write(&scratch, "big", 900), write(&scratch, "small", 40));
    let data = PretrainData::Blend {
        blend: BlendSpec::from_list(&["1", &big, "1", &small]).unwrap(),
        split: "9999,8,2".into(),
    };
    let e = error(data.build(&settings([Some(20), Some(4), Some(0)])), "an empty validation split").to_string();
    assert!(e.contains("small") && e.contains("valid") && e.contains("40"), "{e}");
    let built = data.build(&settings([Some(20), Some(0), Some(0)])).unwrap();
    assert!(built[0].is_some() && built[1].is_none() && built[2].is_none());
    for bad in ["", "a", "1,2,3,4", "0,0,0", "1.2.3", "1e3,1", "-1,2"] {
        assert!(SplitMatrix::parse(bad).is_err(), "{bad:?}");
    }
}

// The reference's cache key leaves out two options and the state of the files; changing one of them must not find old
// indices.
#[test]
fn the_cache_key_holds_options_and_files() {
    let scratch = Scratch::new("key");
    let prefix = write(&scratch, "docs", 200);
    let data = PretrainData::PerSplit([None, Some(BlendSpec::from_list(&[&prefix]).unwrap()), None]);
    let mut s = settings([None, None, None]);
    s.cache = Some(scratch.path("cache"));
    let length = |s: &DatasetSettings| data.build(s).unwrap()[1].as_ref().unwrap().len();
    let kept = length(&s);
    s.options.drop_last_partial_validation = false;
    assert_eq!(length(&s), kept + 1);
    s.options.add_extra_token = false;
    s.options.drop_last_partial_validation = true;
    let without = length(&s);
    assert_eq!(without, kept, "same count here, other rows");
    s.options.add_extra_token = true;
    std::thread::sleep(Duration::from_millis(15)); // another time of change
    write(&scratch, "docs", 100);
    assert!(length(&s) < kept);
    // A damaged cache is an error that says what to do, not other data.
    for entry in std::fs::read_dir(scratch.path("cache")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().ends_with("shuffle_index.npy") {
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
        }
    }
    assert!(error(data.build(&s), "a damaged cache").to_string().contains("built again"));
}

// Pitfall B23: many builders at once give one set of files, and all see the same indices.
#[test]
fn b23_concurrent_builders_share_one_cache() {
    let scratch = Scratch::new("together");
    let prefix = write(&scratch, "docs", 500);
    let mut s = settings([Some(300), Some(20), Some(20)]);
    s.cache = Some(scratch.path("cache"));
    let data = PretrainData::Blend { blend: BlendSpec::from_list(&["1", &prefix]).unwrap(), split: "90,5,5".into() };
    let first_rows: Vec<Batch> = std::thread::scope(|scope| {
        let run = || {
            let train = data.build(&s).unwrap()[0].take().unwrap();
            let shape = BatchShape { micro_batch_size: 2, dp_size: 1 };
            let sampler = SequentialSampler::new("train", train.len(), shape).unwrap();
            GptBatches::new(train, sampler).batch(0, 0, 0).unwrap()
        };
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(first_rows.windows(2).all(|w| w[0] == w[1]));
    // Three splits with three arrays and a description, three blends with two and one.
    assert_eq!(std::fs::read_dir(scratch.path("cache")).unwrap().count(), 3 * 4 + 3 * 3);
}

#[test]
fn a_read_only_cache_is_an_error_with_a_way_out() {
    let scratch = Scratch::new("read-only");
    let prefix = write(&scratch, "docs", 50);
    let mut s = settings([Some(10), Some(0), Some(0)]);
    std::fs::write(scratch.path("file"), "").unwrap();
    s.cache = Some(scratch.path("file").join("cache"));
    let data = PretrainData::Blend { blend: BlendSpec::from_list(&[&prefix]).unwrap(), split: "1".into() };
    let e = error(data.build(&s), "a file as directory");
    assert!(matches!(e, DataError::Io { .. }) && e.to_string().contains("cache"), "{e}");
}

#[test]
fn prefetched_batches_are_the_batches() {
    let scratch = Scratch::new("prefetch");
    let prefix = write(&scratch, "docs", 300);
    let data = PretrainData::Blend { blend: BlendSpec::from_list(&[&prefix]).unwrap(), split: "1".into() };
    let train = data.build(&settings([Some(40), None, None])).unwrap()[0].take().unwrap();
    let total = train.len();
    let shape = BatchShape { micro_batch_size: 3, dp_size: 2 };
    let source = Arc::new(GptBatches::new(train, SequentialSampler::new("train", total, shape).unwrap()));
    let requests = move |steps: u64| {
        (0..steps)
            .flat_map(|step| (0..2).map(move |m| (step * 12, m)))
            .map(|(consumed_samples, micro_batch)| BatchRequest { consumed_samples, micro_batch, dp_rank: 1 })
    };
    let mut prefetcher = Prefetcher::start(source.clone(), requests(3), 2).unwrap();
    for r in requests(3) {
        let batch = prefetcher.next_batch().unwrap().unwrap();
        assert_eq!(batch, source.batch(r.consumed_samples, r.micro_batch, r.dp_rank).unwrap());
        let a = &batch.accounting;
        assert_eq!(a.real_tokens, 24);
        assert_eq!(a.tokens_by_source, [24]);
        assert_eq!((a.trained_tokens, a.padding_tokens, batch.mtp_tokens(1)), (24, 0, 21));
        prefetcher.recycle(batch);
    }
    assert!(prefetcher.next_batch().is_none());
    let _ = prefetcher.take_waited();
    // An error is handed over once, and dropping with batches in flight does not hang.
    let mut past_the_end = Prefetcher::start(source.clone(), requests(1000), 2).unwrap();
    let mut last = None;
    while let Some(batch) = past_the_end.next_batch() {
        last = Some(batch.is_err());
    }
    assert_eq!(last, Some(true));
    drop(Prefetcher::start(source, requests(1000), 4).unwrap());
}
