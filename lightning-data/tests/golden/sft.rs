use lightning_data::batch::Batch;
use lightning_data::gpt::SampleSlot;
use lightning_data::sampler::FineTuningSampler;
use lightning_data::sft::{
    Algorithm, CollateSettings, Collator, Example, Pack, PackMetadata, PromptCompletion, pack_examples,
    pad_to_multiple, plan_offline, plan_prepared, validation_split,
};
use lightning_data::tokenizer::TextTokenizer;
use serde_json::{Value, json};

use super::{int, ints, json, path, sha_i64, sha256, tensors};

#[test]
fn golden_data_fine_tuning_sampler() {
    for case in json("samplers.json")["batch"].as_array().unwrap() {
        let (gbs, dp) = (int(&case["global_batch"]), int(&case["dp"]));
        let drop_last = case["drop_last"].as_bool().unwrap();
        let sampler =
            FineTuningSampler::new("train", int(&case["total"]), gbs, dp, int(&case["seed"]), drop_last).unwrap();
        for (rank, epochs) in case["ranks"].as_array().unwrap().iter().enumerate() {
            let mut consumed = int(&case["consumed"]);
            for steps in epochs.as_array().unwrap() {
                for want in steps.as_array().unwrap() {
                    let got: Vec<i64> = sampler
                        .step(consumed, rank as u64)
                        .unwrap()
                        .into_iter()
                        .map(|s| match s {
                            SampleSlot::Real(i) => i as i64,
                            SampleSlot::Filler => -1,
                        })
                        .collect();
                    assert_eq!(got, ints(want), "{case} rank {rank} consumed {consumed}");
                    consumed += gbs;
                }
                assert_eq!(consumed % sampler.epoch_samples(), 0, "{case}: the reference's epoch ends here");
            }
        }
    }
}

#[test]
fn golden_data_train_test_split() {
    for (name, want) in json("rng.json")["hf_train_test_split_005"].as_object().unwrap() {
        let (seed, n) = name.strip_prefix("seed").unwrap().split_once("/n").unwrap();
        let (training, held_out) = validation_split(n.parse().unwrap(), 0.05, seed.parse().unwrap());
        assert_eq!(held_out.iter().map(|&i| i as i64).collect::<Vec<_>>(), ints(&want["test"]), "{name}");
        assert_eq!(sha_i64(training.iter().map(|&i| i as i64)), want["train_sha256"].as_str().unwrap(), "{name}");
    }
}

#[test]
fn golden_data_offline_packing() {
    let golden = json("sft/packing.json");
    let pack_size = int(&golden["pack_size"]) as usize;
    let eod = int(&json("sft/sft.json")["eod"]) as i32;
    let stored: Vec<usize> = ints(&golden["stored_lengths"]).into_iter().map(|n| n as usize).collect();
    for case in golden["cases"].as_array().unwrap() {
        let multiple = int(&case["multiple"]) as usize;
        let context = format!("multiple {multiple} {}", case["algorithm"]);
        // The fixture's rows: row i repeats one token; the mask is 1 from a third of the row on. Rows up to one token too
        // long are cut when they are tokenised, longer ones arrive whole.
        let cap = if multiple > 1 { pack_size + 1 } else { pack_size };
        let rows: Vec<Example> = stored
            .iter()
            .enumerate()
            .map(|(i, &n)| {
                let n = if n <= pack_size + 1 { n.min(cap) } else { n };
                let loss_mask = (0..n).map(|j| u8::from(j >= n / 3)).collect();
                let mut row = Example { input_ids: vec![1000 + i as i32; n], loss_mask, prompt_length: 0 };
                row.resize(pad_to_multiple(n, pack_size, multiple), eod);
                row
            })
            .collect();
        let lengths: Vec<u32> = rows.iter().map(|r| r.input_ids.len() as u32).collect();
        let algorithm = Algorithm::from_name(case["algorithm"].as_str().unwrap()).unwrap();
        let plan = plan_offline(&lengths, pack_size as u32, algorithm, int(&golden["seed"]) as u32).unwrap();
        let bins: Vec<Vec<u32>> = plan.packs.iter().map(<[u32]>::to_vec).collect();
        assert_eq!(json!(bins), case["bins_of_rows"], "{context}");
        let runtime: Vec<Vec<u32>> =
            bins.iter().map(|b| b.iter().map(|&r| lengths[r as usize] - 1).collect()).collect();
        assert_eq!(json!(runtime), case["bins_of_runtime_lengths"], "{context}");
        let metadata: PackMetadata = serde_json::from_value(case["metadata"].clone()).unwrap();
        assert_eq!(plan.metadata, metadata, "{context}");
        assert_eq!(plan.skipped, stored.len() as u64 - int(&case["placed"]), "{context}");
        let packs = pack_examples(&plan.packs, usize::MAX, |row| {
            let row = &rows[row as usize];
            (&row.input_ids, &row.loss_mask)
        });
        let masks: Vec<u8> = packs.iter().flat_map(|p| p.loss_mask.iter().copied()).collect();
        assert_eq!(sha256(&masks), case["loss_mask_sha256_int8"].as_str().unwrap(), "{context}");
    }
}

#[test]
fn golden_data_preparation_packers() {
    let golden = json("prep/packing.json");
    let lengths: Vec<u32> = ints(&golden["lengths"]).into_iter().map(|n| n as u32).collect();
    let (pack_size, seed) = (int(&golden["pack_size"]) as u32, int(&golden["seed"]));
    for (name, want) in golden["cases"].as_object().unwrap() {
        let (bins, statistics) = plan_prepared(&lengths, pack_size, Algorithm::from_name(name).unwrap(), seed).unwrap();
        assert_eq!(json!(bins.iter().collect::<Vec<_>>()), want["bins"], "{name}");
        assert_eq!(statistics.packs, int(&want["num_bins"]), "{name}");
        assert_eq!(statistics.tokens, int(&want["total_tokens"]), "{name}");
        assert_eq!(statistics.truncated, int(&want["num_truncated"]), "{name}");
    }
    let rows = &golden["rows"];
    let sequences: Vec<Vec<i32>> = serde_json::from_value(rows["sequences"].clone()).unwrap();
    let masks: Vec<Vec<u8>> = serde_json::from_value(rows["masks"].clone()).unwrap();
    let pack_size = int(&rows["pack_size"]) as u32;
    let lengths: Vec<u32> = sequences.iter().map(|s| s.len() as u32).collect();
    let about = &rows["metadata"];
    let algorithm = Algorithm::from_name(about["algorithm"].as_str().unwrap()).unwrap();
    let (bins, statistics) = plan_prepared(&lengths, pack_size, algorithm, seed).unwrap();
    let packs = pack_examples(&bins, pack_size as usize, |i| (&sequences[i as usize], &masks[i as usize]));
    let got: Vec<Value> = packs.iter().map(pack_json).collect();
    assert_eq!(json!(got), rows["packed"]);
    assert_eq!(statistics.packing_factor(), about["packing_factor"].as_f64().unwrap());
    assert_eq!(statistics.packing_efficiency(pack_size), about["packing_efficiency"].as_f64().unwrap());
}

pub fn pack_json(pack: &Pack) -> Value {
    json!({"input_ids": pack.input_ids, "loss_mask": pack.loss_mask, "seq_start_id": pack.seq_start_id})
}

/// "mult4/dynamic" as numbers.
fn case_key(name: &str) -> (usize, bool) {
    let (multiple, kind) = name.strip_prefix("mult").unwrap().split_once('/').unwrap();
    (multiple.parse().unwrap(), kind == "max")
}

#[test]
fn golden_data_prompt_completion_to_packs() {
    let golden = json("sft/sft.json");
    let pack_size = int(&golden["pack_size"]) as usize;
    for (name, case) in golden["cases"].as_object().unwrap() {
        let Some(tokenized) = case.get("tokenized").and_then(Value::as_array) else {
            continue;
        };
        let (multiple, _) = case_key(name);
        let tokenizer = TextTokenizer::load(path("tokenizer")).unwrap();
        assert_eq!(tokenizer.is_space_sensitive().unwrap(), golden["space_sensitive"].as_bool().unwrap());
        let maker = PromptCompletion::new(tokenizer, pack_size + usize::from(multiple > 1)).unwrap();
        assert_eq!(i64::from(maker.eos()), golden["eos_id"].as_i64().unwrap());
        let rows = golden["rows"].as_array().unwrap();
        let mut examples = Vec::new();
        for (i, (row, want)) in rows.iter().zip(tokenized).enumerate() {
            let text = |key: &str| row[key].as_str().unwrap();
            let mut example = maker.example(text("input"), text("output"), i as u64).unwrap();
            let got = json!({
                "input_ids": example.input_ids, "loss_mask": example.loss_mask, "context_length": example.prompt_length,
            });
            assert_eq!(got, *want, "{name} row {i}");
            example.resize(pad_to_multiple(example.input_ids.len(), pack_size, multiple), maker.eos());
            examples.push(example);
        }
        let lengths: Vec<u32> = examples.iter().map(|e| e.input_ids.len() as u32).collect();
        let seed = int(&golden["seed"]) as u32;
        let plan = plan_offline(&lengths, pack_size as u32, Algorithm::FirstFitShuffle, seed).unwrap();
        assert_eq!(json!([plan.metadata]), case["metadata"], "{name}");
        let packs = pack_examples(&plan.packs, usize::MAX, |r| {
            (&examples[r as usize].input_ids, &examples[r as usize].loss_mask)
        });
        assert_eq!(json!(packs.iter().map(pack_json).collect::<Vec<_>>()), case["packed"], "{name}");
    }
}

fn packs_of(golden: &Value, multiple: usize) -> Vec<Pack> {
    let packed = &golden["cases"][format!("mult{multiple}/dynamic")]["packed"];
    packed
        .as_array()
        .unwrap()
        .iter()
        .map(|p| Pack {
            input_ids: serde_json::from_value(p["input_ids"].clone()).unwrap(),
            loss_mask: serde_json::from_value(p["loss_mask"].clone()).unwrap(),
            seq_start_id: serde_json::from_value(p["seq_start_id"].clone()).unwrap(),
        })
        .collect()
}

#[test]
fn golden_data_packed_batches() {
    let golden = json("sft/sft.json");
    let tensors = tensors::load("sft/batches.safetensors");
    for (name, case) in golden["cases"].as_object().unwrap() {
        let (multiple, max) = case_key(name);
        let packs = packs_of(&golden, multiple);
        let metadata: Vec<PackMetadata> = serde_json::from_value(case["metadata"].clone()).unwrap();
        let collator = Collator::new(CollateSettings {
            pack_size: int(&golden["pack_size"]) as u32,
            pad_seq_to_mult: multiple as u32,
            eos: golden["eos_id"].as_i64().unwrap() as i32,
            pad_to_max_length: max,
            pad_cu_seqlens: max.then_some(metadata[0]),
        })
        .unwrap();
        for (kind, about) in case["batches"].as_object().unwrap() {
            let rows: Vec<(&Pack, bool)> = ints(&about["rows"])
                .into_iter()
                .map(|r| usize::try_from(r).map_or((packs.last().unwrap(), true), |r| (&packs[r], false)))
                .collect();
            let longest = rows.iter().map(|r| r.0.runtime_length()).max().unwrap();
            let length = collator.row_length(longest);
            let want = |key: &str| tensors.get(&format!("{name}/{kind}/{key}"));
            let mut whole = Batch::default();
            collator.fill(&rows, length, &mut whole).unwrap();
            let wide = |v: &[i32]| v.iter().map(|&x| i64::from(x)).collect::<Vec<_>>();
            let context = format!("{name}/{kind}");
            assert_eq!(wide(&whole.tokens), want("tokens").unwrap().values, "{context}");
            assert_eq!(wide(&whole.labels), want("labels").unwrap().values, "{context}");
            let mask: Vec<i64> = whole.loss_mask.iter().map(|&m| m as i64).collect();
            assert_eq!(mask, want("loss_mask").unwrap().values, "{context}");
            let padding: Vec<i64> = whole.padding_mask.iter().map(|&p| i64::from(p)).collect();
            assert_eq!(padding, want("padding_mask").unwrap().values, "{context}");
            assert_eq!(whole.accounting.filler_rows, rows.iter().filter(|r| r.1).count() as u64);
            for (r, row) in rows.iter().enumerate() {
                // Offsets are compared row by row: ours are flat over all rows, the reference's one array per row.
                let mut one = Batch::default();
                collator.fill(&[*row], length, &mut one).unwrap();
                let offsets = &one.documents;
                let padded_to = |offsets: &[i32], n: usize| {
                    let mut v = wide(offsets);
                    v.resize(n, *v.last().unwrap());
                    v
                };
                let logical = want("cu_seqlens_q").unwrap().row(r);
                let physical = want("cu_seqlens_q_padded").unwrap_or(want("cu_seqlens_q").unwrap()).row(r);
                assert_eq!(padded_to(&offsets.physical.0, physical.len()), physical, "{context} row {r}");
                if multiple > 1 {
                    assert_eq!(padded_to(&offsets.logical.0, logical.len()), logical, "{context} row {r}");
                }
                let longest = want("max_seqlen_q").unwrap().values[r];
                assert_eq!(i64::from(offsets.max_length), longest, "{context} row {r}");
                let tokens = ints(&about["token_count"])[r] as usize;
                assert_eq!(row.0.runtime_length(), tokens, "{context} row {r}");
                // Positions restart with each example and are 0 in the tail.
                let examples = row.0.ranges().count();
                let positions: Vec<i64> = offsets
                    .physical
                    .ranges()
                    .enumerate()
                    .flat_map(|(i, d)| (0..d.len() as i64).map(move |p| if i < examples { p } else { 0 }))
                    .collect();
                assert_eq!(positions, want("position_ids").unwrap().row(r), "{context} row {r}");
            }
        }
    }
}

#[cfg(feature = "parquet")]
mod files {
    use super::*;
    use lightning_data::sft::{
        OfflinePacks, PackStore, ParquetPacks, PreparedPacks, read_offline, read_prepared, write_offline,
        write_prepared,
    };

    #[test]
    fn golden_data_packed_parquet_files_of_both_conventions() {
        let golden = json("sft/sft.json");
        let scratch = super::super::scratch("packs");
        let pack_size = int(&golden["pack_size"]);
        for multiple in [1, 4] {
            let file = path(&format!("sft/training_{pack_size}_mult{multiple}.idx.parquet"));
            let packs = read_offline(&file).unwrap();
            assert_eq!(packs.0, packs_of(&golden, multiple));
            let copy = scratch.join("copy.parquet");
            write_offline(&copy, &packs).unwrap();
            assert_eq!(read_offline(&copy).unwrap(), packs);
            assert!(read_prepared(&copy).unwrap_err().to_string().contains("offline and prepared"));
        }
        let file = path("prep/shard_000000.parquet");
        let packs = read_prepared(&file).unwrap();
        let rows = &json("prep/chat.json")["shards"]["plain"]["rows"];
        assert_eq!(json!(packs.0.iter().map(pack_json).collect::<Vec<_>>()), *rows);
        let copy = scratch.join("prepared.parquet");
        write_prepared(&copy, &packs, 2).unwrap();
        assert_eq!(read_prepared(&copy).unwrap(), packs);
        assert!(read_offline(&copy).is_err());
        // Random access over several files, with room for one row group at a time.
        let store = ParquetPacks::prepared(&[copy.clone(), file.clone(), copy]).unwrap().with_budget(1);
        let all = PreparedPacks([packs.0.clone(), packs.0.clone(), packs.0.clone()].concat());
        assert_eq!(store.len(), all.0.len() as u64);
        for i in (0..store.len()).rev().chain(0..store.len()) {
            assert_eq!(*store.pack(i).unwrap(), all.0[i as usize], "pack {i}");
        }
        assert!(store.pack(store.len()).is_err());
        let empty = scratch.join("empty.parquet");
        write_offline(&empty, &OfflinePacks(Vec::new())).unwrap();
        assert_eq!(read_offline(&empty).unwrap().0.len(), 0);
        std::fs::remove_dir_all(scratch).unwrap();
    }
}
