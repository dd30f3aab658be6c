use std::sync::Arc;

use lightning_data::batch::Batch;
use lightning_data::gpt::{
    DocumentRange, Documents, GptDataset, GptIndices, GptOptions, IndexPlan, MockDocuments, SampleIndex, SampleSlot,
    ShuffleIndex, Split,
};
use lightning_data::gpt_batches::GptBatches;
use lightning_data::indexed::IndexedDataset;
use lightning_data::npy::map_array;
use lightning_data::sampler::{BatchShape, SequentialSampler};
use lightning_data::split::SplitMatrix;
use serde_json::Value;

use super::{int, ints, json, path, sha_i32, sha_i64, sha256, tensors};

fn split_of(name: &str) -> Split {
    *Split::ALL.iter().find(|s| s.name() == name).unwrap()
}

fn range_of(value: &Value) -> DocumentRange {
    let r = ints(value);
    DocumentRange { begin: r[0] as u64, end: r[1] as u64 }
}

fn sample_rows(index: &SampleIndex) -> Vec<i64> {
    (0..index.len()).flat_map(|r| index.row(r).map(|(d, o)| [d as i64, o]).unwrap()).collect()
}

fn shuffle_values(index: &ShuffleIndex) -> Vec<i64> {
    (0..index.len()).map(|i| index.get(i).unwrap() as i64).collect()
}

#[test]
fn golden_data_gpt_indices() {
    let golden = json("gpt/indices.json");
    let tensors = tensors::load("gpt/indices.safetensors");
    let documents = IndexedDataset::open_validated(path("gpt/docs")).unwrap();
    let matrix = SplitMatrix::parse(golden["split"].as_str().unwrap()).unwrap();
    for ((i, range), want) in
        matrix.ranges(documents.len()).iter().enumerate().zip(golden["document_ranges"].as_array().unwrap())
    {
        assert_eq!(range.unwrap(), range_of(want), "split {i}");
    }
    for (name, case) in golden["cases"].as_object().unwrap() {
        let split = split_of(name.rsplit('/').next().unwrap());
        let mut options = GptOptions::new(int(&case["sequence_length"]), int(&case["seed"]) as u32, 0);
        if let Some(drop) = case.get("drop_last_partial_validation_sequence") {
            options.drop_last_partial_validation = drop.as_bool().unwrap();
        }
        let got =
            GptIndices::build(&documents, range_of(&case["documents"]), split, case["num_samples"].as_u64(), &options)
                .unwrap();
        assert_eq!(got.plan.tokens_per_epoch, int(&case["tokens_per_epoch"]), "{name}");
        assert_eq!(got.plan.epochs, int(&case["epochs"]), "{name}");
        assert_eq!(got.plan.separate_final_epoch, case["separate_final_epoch"].as_bool().unwrap(), "{name}");
        assert_eq!(got.plan.samples, int(&case["built_samples"]), "{name}");
        let documents: Vec<i64> = got.document_index.iter().map(|&d| i64::from(d)).collect();
        assert_eq!(documents, tensors[&format!("{name}/document_index")].values, "{name}");
        assert_eq!(sample_rows(&got.sample_index), tensors[&format!("{name}/sample_index")].values, "{name}");
        assert_eq!(shuffle_values(&got.shuffle_index), tensors[&format!("{name}/shuffle_index")].values, "{name}");
    }
    // The reference rounds the number of validation samples in float32; ours is exact.
    for case in golden["keep_partial_float32"].as_array().unwrap() {
        let mut options = GptOptions::new(int(&case["sequence_length"]), 1, 0);
        options.drop_last_partial_validation = false;
        let plan = IndexPlan::new(int(&case["tokens"]), &options, Split::Valid, None).unwrap();
        assert_eq!(plan.samples, int(&case["exact_ceil"]), "{case}");
    }
}

#[test]
fn golden_data_reference_cache_holds_the_same_indices() {
    let documents = IndexedDataset::open_validated(path("gpt/docs")).unwrap();
    let mut seen = 0;
    for entry in std::fs::read_dir(path("gpt/cache")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap().to_string();
        let Some(stem) = name.strip_suffix("-description.txt") else {
            continue;
        };
        let about: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let split = split_of(about["index_split"].as_str().unwrap());
        let ranges = SplitMatrix::parse(about["split"].as_str().unwrap()).unwrap().ranges(documents.len());
        let options = GptOptions::new(int(&about["sequence_length"]), int(&about["random_seed"]) as u32, 0);
        let range = ranges[split as usize].unwrap();
        let got = GptIndices::build(&documents, range, split, about["num_samples"].as_u64(), &options).unwrap();
        let part = |part: &str| file.with_file_name(format!("{stem}-{part}.npy"));
        assert_eq!(got.document_index[..], map_array::<i32>(&part("document_index")).unwrap()[..]);
        let SampleIndex::I32(rows) = &got.sample_index else { panic!("64-bit rows") };
        assert_eq!(rows[..], map_array::<[i32; 2]>(&part("sample_index")).unwrap()[..]);
        let ShuffleIndex::U32(order) = &got.shuffle_index else { panic!("64-bit order") };
        assert_eq!(order[..], map_array::<u32>(&part("shuffle_index")).unwrap()[..]);
        seen += 1;
    }
    assert!(seen > 0);
}

/// The settings of one variant of `samples.json`.
fn variant_options(golden: &Value, variant: &Value) -> GptOptions {
    let flag = |name: &str| variant.get(name).and_then(Value::as_bool);
    let eod = golden["tokenizer"]["eod"].as_i64().unwrap() as i32;
    let mut o = GptOptions::new(int(&golden["sequence_length"]), int(&golden["seed"]) as u32, eod);
    o.pad = Some(variant["pad_token_id"].as_i64().unwrap() as i32).filter(|&p| p >= 0);
    o.reset_position_ids = flag("reset_position_ids").unwrap_or(false);
    o.reset_attention_mask = flag("reset_attention_mask").unwrap_or(false);
    o.eod_mask_loss = flag("eod_mask_loss").unwrap_or(false);
    o.inter_document_masking = flag("inter_document_masking").unwrap_or(false);
    o.add_extra_token = flag("add_extra_token_to_sequence").unwrap_or(true);
    o
}

fn one_row(dataset: GptDataset, slot: SampleSlot) -> Batch {
    let shape = BatchShape { micro_batch_size: 1, dp_size: 1 };
    let sampler = SequentialSampler::new("test", dataset.len(), shape).unwrap();
    let mut batch = Batch::default();
    GptBatches::new(dataset, sampler).fill_slots([slot].into_iter(), &mut batch).unwrap();
    batch
}

fn widen(values: &[i32]) -> Vec<i64> {
    values.iter().map(|&v| i64::from(v)).collect()
}

fn mask_values(mask: &[f32]) -> Vec<i64> {
    mask.iter().map(|&m| m as i64).collect()
}

fn build(golden: &Value, options: &GptOptions, tag: &str) -> GptDataset {
    let documents = Arc::new(IndexedDataset::open_validated(path("gpt/docs")).unwrap());
    let ranges = SplitMatrix::parse(golden["split"].as_str().unwrap()).unwrap().ranges(Documents::len(&*documents));
    let (split, wanted, mut options) = match tag {
        "train" => (Split::Train, golden["num_samples"].as_u64(), options.clone()),
        _ => (Split::Valid, None, options.clone()),
    };
    options.drop_last_partial_validation = split == Split::Train;
    GptDataset::build(documents, ranges[split as usize].unwrap(), split, wanted, &options).unwrap()
}

#[test]
fn golden_data_gpt_samples() {
    let golden = json("gpt/samples.json");
    let tensors = tensors::load("gpt/samples.safetensors");
    for (name, variant) in golden["variants"].as_object().unwrap() {
        let Some(rows) = variant.get("rows") else {
            continue;
        };
        let options = variant_options(&golden, variant);
        for (r, row) in rows.as_array().unwrap().iter().enumerate() {
            let slot = row[1].as_u64().map_or(SampleSlot::Filler, SampleSlot::Real);
            let batch = one_row(build(&golden, &options, row[0].as_str().unwrap()), slot);
            let want = |key: &str| tensors.get(&format!("{name}/{key}")).map(|t| t.row(r).to_vec());
            let context = format!("{name} row {r} {row}");
            assert_eq!(Some(widen(&batch.tokens)), want("tokens"), "{context}");
            assert_eq!(Some(widen(&batch.labels)), want("labels"), "{context}");
            assert_eq!(Some(mask_values(&batch.loss_mask)), want("loss_mask"), "{context}");
            let s = batch.seq_length;
            let positions = want("position_ids").unwrap();
            if let Some(got) = &batch.positions {
                assert_eq!(widen(got), positions, "{context}");
            } else if options.inter_document_masking {
                // Positions restart with each document.
                let got = batch.documents.physical.ranges().flat_map(|r| 0..r.len() as i64).collect::<Vec<_>>();
                assert_eq!(got, positions, "{context}");
            } else {
                assert_eq!((0..s as i64).collect::<Vec<_>>(), positions, "{context}");
            }
            if let (Some(segments), Some(mask)) = (&batch.attention_segments, want("attention_mask")) {
                for (q, k) in (0..s).flat_map(|q| (0..s).map(move |k| (q, k))) {
                    let hidden = k > q || segments[q] != segments[k];
                    assert_eq!(i64::from(hidden), mask[q * s + k], "{context} query {q} key {k}");
                }
            }
            if let Some(offsets) = want("cu_seqlens") {
                let mut got = widen(&batch.documents.physical.0);
                assert!(got.len() <= offsets.len());
                got.resize(offsets.len(), s as i64);
                assert_eq!(got, offsets, "{context}");
                let longest = tensors[&format!("{name}/max_seqlen")].values[r];
                assert_eq!(i64::from(batch.documents.max_length), longest, "{context}");
            }
        }
    }
}

// The reference caches the loss mask of the first sample it fetched after zeroing its padding: later samples inherit the
// zeros. Here every sample has its own mask.
#[test]
fn golden_data_pad_mask_does_not_leak_into_later_samples() {
    let golden = json("gpt/samples.json");
    let leak = &golden["variants"]["loss_mask_cache"];
    let options = variant_options(&golden, &golden["variants"]["plain"]);
    let mut batch = Batch::default();
    let dataset = build(&golden, &options, "valid_partial");
    let sampler =
        SequentialSampler::new("test", dataset.len(), BatchShape { micro_batch_size: 1, dp_size: 1 }).unwrap();
    let batches = GptBatches::new(dataset, sampler);
    for (index, mask) in [("partial_index", "partial_mask"), ("other_index", "other_mask_alone")] {
        batches.fill_slots([SampleSlot::Real(int(&leak[index]))].into_iter(), &mut batch).unwrap();
        let want: Vec<i64> = leak[mask].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as i64).collect();
        assert_eq!(mask_values(&batch.loss_mask), want, "{index}");
    }
    assert_ne!(leak["other_mask_after"], leak["other_mask_alone"], "the golden values show the defect");
}

/// All values of keys named `seed` in a JSON value, and numbers of keys such as `seed42`.
fn seeds_in(value: &Value, found: &mut Vec<u32>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let value = if key == "seed" { inner.as_u64() } else { None };
                let named = key.split('/').find_map(|part| part.strip_prefix("seed")?.parse().ok());
                found.extend([value, named].into_iter().flatten().filter_map(|s| u32::try_from(s).ok()));
                seeds_in(inner, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|v| seeds_in(v, found)),
        _ => {}
    }
}

/// What the fixture's generator was called with for the mock data. The files do not say it, but they show it: the length by
/// the number of unmasked labels, the seed by the order of documents, the vocabulary by the ids.
struct MockSettings {
    sequence_length: u64,
    seed: u32,
    vocab_size: u32,
}

/// End of document of the generator's tokenizer for the mock data.
const MOCK_EOD: i32 = 11;

impl MockSettings {
    fn find(split: Split, range: DocumentRange, want: &Value) -> MockSettings {
        let hash = |key: &str| want[key].as_str().unwrap();
        // Padding and end of document are one id there, so no label of the first sample is masked.
        let sequence_length = want["sample0_mask_sum"].as_f64().unwrap() as u64;
        let mut seeds = Vec::new();
        for file in ["gpt/samples.json", "gpt/indices.json", "blend/blends.json", "sft/packing.json", "rng.json"] {
            seeds_in(&json(file), &mut seeds);
        }
        seeds.extend(0..3000);
        // No vocabulary cuts the ids yet, and an end of document that is no other id.
        let documents = Arc::new(MockDocuments::new(u32::MAX, -1));
        let dataset = |seed: u32| {
            let options = GptOptions::new(sequence_length, seed, -1);
            GptDataset::build(documents.clone(), range, split, want["num_samples"].as_u64(), &options).unwrap()
        };
        let order = |d: &GptDataset| sha_i32(d.indices().document_index.iter().copied());
        let first = ints(&want["document_index_first"]);
        let fits = |d: &GptDataset| {
            d.indices().document_index.iter().map(|&i| i64::from(i)).take(first.len()).eq(first.clone())
        };
        let (seed, dataset) = seeds
            .into_iter()
            .map(|seed| (seed, dataset(seed)))
            .find(|(_, d)| fits(d) && order(d) == hash("document_index_sha256_int32"))
            .expect("a seed that the folder names, or a small one, orders the documents as the file says");
        let ids = widen(&one_row(dataset, SampleSlot::Real(0)).tokens);
        let cut = |vocab_size: u32| {
            sha_i64(ids.iter().map(|&id| if id < 0 { i64::from(MOCK_EOD) } else { id % i64::from(vocab_size) }))
        };
        // A vocabulary beyond the longest document cuts nothing.
        let vocab_size = std::iter::once(u32::MAX)
            .chain((2..=4096).rev())
            .find(|&v| cut(v) == hash("sample0_tokens_sha256_int64"))
            .expect("a vocabulary that gives the ids of the first sample");
        MockSettings { sequence_length, seed, vocab_size }
    }
}

#[test]
fn golden_data_mock_dataset() {
    let golden = &json("rng.json")["mock"];
    let ranges = SplitMatrix::parse(golden["split"].as_str().unwrap()).unwrap().ranges(MockDocuments::COUNT as u64);
    let (name, want) = golden["splits"].as_object().unwrap().iter().next().unwrap();
    let settings = MockSettings::find(split_of(name), ranges[split_of(name) as usize].unwrap(), want);
    let documents = Arc::new(MockDocuments::new(settings.vocab_size, MOCK_EOD));
    let lengths = Documents::lengths(&*documents);
    assert_eq!(sha_i32(lengths.iter().map(|&n| n as i32)), golden["lengths_sha256_int32"].as_str().unwrap());
    assert_eq!(lengths.iter().map(|&n| u64::from(n)).sum::<u64>(), int(&golden["total_tokens"]));
    for (name, want) in golden["splits"].as_object().unwrap() {
        let split = split_of(name);
        let range = ranges[split as usize].unwrap();
        assert_eq!(range, range_of(&want["documents"]), "{name}");
        let options = GptOptions::new(settings.sequence_length, settings.seed, MOCK_EOD);
        let dataset =
            GptDataset::build(documents.clone(), range, split, want["num_samples"].as_u64(), &options).unwrap();
        assert_eq!(dataset.len(), int(&want["built"]), "{name}");
        let index = dataset.indices();
        let hash = |key: &str| want[key].as_str().unwrap().to_string();
        assert_eq!(sha_i32(index.document_index.iter().copied()), hash("document_index_sha256_int32"), "{name}");
        let rows = sample_rows(&index.sample_index).into_iter().map(|v| v as i32);
        assert_eq!(sha_i32(rows), hash("sample_index_sha256_int32"), "{name}");
        let order: Vec<u8> =
            shuffle_values(&index.shuffle_index).into_iter().flat_map(|v| (v as u32).to_le_bytes()).collect();
        assert_eq!(sha256(&order), hash("shuffle_index_sha256_uint32"), "{name}");
        let batch = one_row(dataset, SampleSlot::Real(0));
        assert_eq!(sha_i64(widen(&batch.tokens)), hash("sample0_tokens_sha256_int64"), "{name}");
        let first = ints(&want["sample0_labels_first"]);
        assert_eq!(widen(&batch.labels[..first.len()]), first, "{name}");
        assert_eq!(batch.loss_mask.iter().sum::<f32>() as f64, want["sample0_mask_sum"].as_f64().unwrap());
    }
}
