use lightning_data::blend::{BlendSpec, DatasetSettings, PretrainData, PretrainSamples, pick_by_weight};
use lightning_data::gpt::{GptDataset, GptOptions, Split};
use lightning_data::gpt_batches::Samples;
use serde_json::Value;

use super::{int, ints, json, path, scratch, sha_i64, sha256, tensors};

fn spec(value: &Value) -> Option<BlendSpec> {
    let pair = value.as_array()?;
    let prefixes = pair[0].as_array().unwrap();
    let prefixes = prefixes.iter().map(|p| path(p.as_str().unwrap()).display().to_string()).collect();
    let weights = pair[1].as_array().map(|w| w.iter().map(|v| v.as_f64().unwrap()).collect());
    Some(BlendSpec::new(prefixes, weights).unwrap())
}

fn data(config: &Value) -> PretrainData {
    match config.get("blend_per_split") {
        Some(splits) => PretrainData::PerSplit([spec(&splits[0]), spec(&splits[1]), spec(&splits[2])]),
        None => PretrainData::Blend {
            blend: spec(&config["blend"]).unwrap(),
            split: config["split"].as_str().unwrap().to_string(),
        },
    }
}

fn check(golden: &Value, cache: Option<&std::path::Path>) {
    let tensors = tensors::load("blend/blends.safetensors");
    let mut seen = 0;
    for (name, case) in golden["cases"].as_object().unwrap() {
        let Some(config) = case.get("config") else {
            continue;
        };
        seen += 1;
        let sizes = case["sizes"].as_array().unwrap();
        let settings = DatasetSettings {
            options: GptOptions::new(int(&golden["sequence_length"]), int(&golden["seed"]) as u32, 0),
            samples: [sizes[0].as_u64(), sizes[1].as_u64(), sizes[2].as_u64()],
            cache: cache.map(|c| c.to_path_buf()),
            vocab_size: None,
            threads: 2,
        };
        let built = data(config).build(&settings).unwrap();
        for (split, got) in Split::ALL.iter().zip(&built) {
            let want = &case["splits"][split.name()];
            let context = format!("{name} {split}");
            match got {
                None => assert!(want.is_null(), "{context}"),
                Some(PretrainSamples::Single(d)) => {
                    assert_eq!(want["no_blend_layer"], true, "{context}");
                    assert_eq!(d.wanted(), want["num_samples"].as_u64(), "{context}");
                    assert_eq!(d.len(), int(&want["length"]), "{context}");
                    assert_eq!(d.range().len(), int(&want["documents"]), "{context}");
                }
                Some(PretrainSamples::Blended(d)) => {
                    assert_eq!(d.len(), int(&want["length"]), "{context}");
                    let weights: Vec<f64> =
                        want["weights"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
                    assert_eq!(d.weights(), weights, "{context}");
                    let of = |f: fn(&GptDataset) -> Value| d.sources().iter().map(f).collect::<Value>();
                    assert_eq!(of(|s| s.wanted().into()), want["source_num_samples"], "{context}");
                    assert_eq!(of(|s| s.len().into()), want["source_lengths"], "{context}");
                    assert_eq!(of(|s| s.range().len().into()), want["source_documents"], "{context}");
                    let picks = d.picks();
                    let source: Vec<i64> = picks.source.iter().map(|&s| i64::from(s)).collect();
                    assert_eq!(source, tensors[&format!("{name}/{split}/dataset_index")].values, "{context}");
                    let sample = &tensors[&format!("{name}/{split}/dataset_sample_index")].values;
                    assert_eq!(&picks.sample[..], &sample[..], "{context}");
                }
            }
        }
    }
    assert!(seen > 0);
}

#[test]
fn golden_data_blends() {
    check(&json("blend/blends.json"), None);
}

#[test]
fn golden_data_blends_through_the_cache() {
    let cache = scratch("blend-cache");
    let golden = json("blend/blends.json");
    check(&golden, Some(&cache));
    let count = || std::fs::read_dir(&cache).unwrap().count();
    let files = count();
    check(&golden, Some(&cache)); // everything is found now
    assert_eq!(count(), files);
    let names: Vec<String> =
        std::fs::read_dir(&cache).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(names.iter().all(|n| !n.ends_with(".tmp") && !n.ends_with("lock")), "{names:?}");
    std::fs::remove_dir_all(cache).unwrap();
}

#[test]
fn golden_data_picker() {
    for (name, case) in json("blend/blends.json")["cases"].as_object().unwrap() {
        if !name.starts_with("picker_") {
            continue;
        }
        let weights: Vec<f64> = case["weights"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        let picks = pick_by_weight(&weights, int(&case["size"])).unwrap();
        let first = ints(&case["first"]);
        assert!(picks.source.iter().zip(&first).all(|(&a, &b)| i64::from(a) == b), "{name}");
        let bytes: Vec<u8> = picks.source.iter().flat_map(|s| s.to_le_bytes()).collect();
        assert_eq!(sha256(&bytes), case["dataset_index_sha256"].as_str().unwrap(), "{name}");
        assert_eq!(sha_i64(picks.sample.iter().copied()), case["dataset_sample_index_sha256"].as_str().unwrap());
    }
}

#[test]
fn golden_data_flat_lists() {
    for (text, want) in json("blend/blends.json")["blend_from_list"].as_object().unwrap() {
        let list: Vec<String> = serde_json::from_str(text).unwrap();
        let got = BlendSpec::from_list(&list).unwrap();
        assert_eq!(serde_json::json!([got.prefixes, got.weights]), *want, "{text}");
    }
}
