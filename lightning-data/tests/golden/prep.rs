use lightning_data::indexed::IndexedDataset;
use lightning_data::prep::{
    BadRows, BlendFile, DealtRows, FileShare, InputFile, PretrainPrep, Progress, distribute_shards, plan_shards,
    select_by_weight, tokenize_shard,
};
use lightning_data::tokenizer::TextTokenizer;
use serde_json::{Value, json};

use super::{int, ints, json, path, scratch, sha256};

#[test]
fn golden_data_pretraining_shards() {
    let golden = json("prep/pretrain.json");
    let directory = scratch("pretrain");
    let input = directory.join("docs.jsonl");
    let lines: String = golden["rows"].as_array().unwrap().iter().map(|r| format!("{r}\n\n")).collect();
    std::fs::write(&input, lines).unwrap();
    let tokenizer = TextTokenizer::load(path("tokenizer")).unwrap();
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let option = |key: &str| case["options"].get(key).filter(|v| !v.is_null());
        let count = |key: &str| option(key).map(int);
        let blend = BlendFile { datasets: Vec::new() };
        let mut settings = PretrainPrep::new(blend, directory.clone(), path("tokenizer"));
        settings.min_doc_chars = count("min_doc_chars").map(|n| n as usize);
        settings.max_doc_tokens = count("max_doc_tokens").map(|n| n as usize);
        settings.sample = count("max_rows");
        settings.add_bos = option("add_bos").is_some_and(|v| v == true);
        settings.add_eos = option("add_eos").is_none_or(|v| v == true);
        settings.on_bad_row = BadRows::Stop;
        let rows = count("row_modulus").zip(count("row_remainder"));
        let files = [FileShare { file: InputFile { path: input.clone(), size: 1 }, rows }];
        let prefix = directory.join(name).join("shard_000000");
        let progress = Progress::default();
        let (receipts, stats) =
            tokenize_shard(&settings, &tokenizer, "text", &files, &DealtRows::new(&directory), &prefix, &progress)
                .unwrap();
        assert_eq!(serde_json::to_value(&stats).unwrap(), case["stats"], "{name}");
        for (receipt, kind) in receipts.iter().zip(["bin", "idx"]) {
            let want = &case["files"][kind];
            let got = json!({"path": receipt.path, "bytes": receipt.bytes, "checksum": receipt.checksum});
            assert_eq!(got, *want, "{name}");
        }
        let data = IndexedDataset::open_validated(&prefix).unwrap();
        let documents: Vec<Vec<i32>> = (0..data.len()).map(|d| data.read(d).unwrap()).collect();
        assert_eq!(json!(documents), case["documents"], "{name}");
        if name == "default" {
            for kind in ["bin", "idx"] {
                let ours = std::fs::read(prefix.with_extension(kind)).unwrap();
                assert_eq!(ours, std::fs::read(path(&format!("prep/shard_000000.{kind}"))).unwrap(), "{kind}");
            }
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn golden_data_shard_plans() {
    for case in json("prep/splits.json")["shard_plans"].as_array().unwrap() {
        let files: Vec<InputFile> = ints(&case["sizes"])
            .iter()
            .enumerate()
            .map(|(i, &size)| InputFile { path: format!("f{i}.jsonl").into(), size: size as u64 })
            .collect();
        let plan = plan_shards(&files, int(&case["shards"]) as usize);
        let got: Vec<Vec<Value>> = plan
            .iter()
            .map(|shard| {
                let share = |s: &FileShare| {
                    json!([s.file.path.display().to_string(), s.rows.map(|r| r.0), s.rows.map(|r| r.1)])
                };
                shard.iter().map(share).collect()
            })
            .collect();
        assert_eq!(json!(got), case["assignment"], "{case}");
    }
}

/// ["1.0", "prefix", ...] as pairs.
fn pairs(list: &Value) -> Vec<(String, String)> {
    let text: Vec<String> = serde_json::from_value(list.clone()).unwrap();
    text.chunks(2).map(|p| (p[0].clone(), p[1].clone())).collect()
}

#[test]
fn golden_data_shards_to_splits() {
    let golden = json("prep/splits.json");
    for case in golden["blends"].as_array().unwrap() {
        let count = |key: &str| int(&case[key]) as usize;
        let splits = distribute_shards(
            &pairs(&case["data_paths"]),
            count("num_shards"),
            count("valid_shards"),
            count("test_shards"),
            int(&case["seed"]),
        );
        let mut got = splits.to_json();
        if let Some(hash) = case.get("blend_sha256") {
            let text = serde_json::to_string(&got).unwrap().replace("\",\"", "\", \"").replace("\":[", "\": [");
            assert_eq!(sha256(text.replace("],\"", "], \"").as_bytes()), hash.as_str().unwrap());
            for list in got.as_object_mut().unwrap().values_mut() {
                let list = list.as_array_mut().unwrap();
                list.truncate(12);
            }
        }
        assert_eq!(got, case["blend"], "{case}");
    }
    // A single dataset of one shard goes to test as a whole; that is refused.
    let one = distribute_shards(&[("1.0".into(), "a".into())], 1, 1, 1, 42);
    assert_eq!(one.to_json(), golden["one_shard"]);
    assert!(one.check(2).unwrap_err().to_string().contains("num_shards"));
}

#[test]
fn golden_data_shards_by_weight() {
    let golden = json("prep/splits.json");
    let first = &golden["blends"][0];
    let prefixes = pairs(&first["data_paths"]);
    for case in golden["realised"].as_array().unwrap() {
        let weights: Vec<String> = serde_json::from_value(case["weights"].clone()).unwrap();
        let counts: Vec<Vec<u64>> = serde_json::from_value(case["row_counts"].clone()).unwrap();
        let datasets: Vec<(String, String)> =
            weights.iter().zip(&prefixes).map(|(w, p)| (w.clone(), p.1.clone())).collect();
        let splits = distribute_shards(
            &datasets,
            counts[0].len(),
            int(&first["valid_shards"]) as usize,
            int(&first["test_shards"]) as usize,
            int(&first["seed"]),
        );
        for (name, list) in [("train", &splits.train), ("valid", &splits.valid), ("test", &splits.test)] {
            let shards: Vec<(f64, &str, u64)> = list
                .iter()
                .map(|(weight, prefix)| {
                    let d = prefixes.iter().position(|p| prefix.starts_with(&p.1)).unwrap();
                    let shard: usize = prefix.rsplit('_').next().unwrap().parse().unwrap();
                    (weight.parse().unwrap(), prefix.split('/').nth(3).unwrap(), counts[d][shard])
                })
                .collect();
            let kept = select_by_weight(&shards);
            let got: Vec<String> = kept
                .iter()
                .enumerate()
                .map(|(position, &i)| {
                    let shard = list[i].1.rsplit('/').next().unwrap();
                    format!("{position:06}__{}__{shard}.parquet", shards[i].1)
                })
                .collect();
            assert_eq!(json!(got), case["splits"][name], "{} {name}", case["weights"]);
        }
    }
}
