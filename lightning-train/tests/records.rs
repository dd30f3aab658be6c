//! What a run leaves behind: event files, run card, expert loads, pictures, anomalies, samples; and `doctor`.

mod scratch;

use lightning_core::rng::Philox;
use lightning_data::indexed::{IndexedWriter, TokenType};
use lightning_train::records::tensorboard::{file_version, frame, frames, scalars, session_start};
use scratch::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn event_files_are_byte_for_byte_those_of_the_tensorboard_package() {
    // Made by xtask/interop/tensorboard_events.py, which names the same events.
    let golden =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/events.out.tfevents.golden")).unwrap();
    let time = 1_700_000_000.25;
    let long = "x".repeat(200);
    let mut ours = Vec::new();
    for event in [
        file_version(time),
        session_start(time, 8),
        scalars(time, 8, &[("lm loss", 4.5), ("learning_rate", 0.0), ("grad_norm", f64::NAN)]),
        scalars(time, 300, &[(&long, -1e-30), ("tokens_per_s", 123_456.789), ("skipped", 1.0)]),
        scalars(time, 1 << 40, &[]),
    ] {
        frame(&event, &mut ours);
    }
    assert!(ours == golden, "{} bytes of ours, {} of the package", ours.len(), golden.len());
    assert_eq!(frames(&golden).len(), 5);
}

/// Tag, step and value of every scalar in a run's event files, in order of their names.
fn scalars_of(folder: &Path) -> Vec<(String, u64, f32)> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().flatten().map(|e| e.path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).unwrap();
        for event in frames(&bytes) {
            let (mut step, mut at) = (0, 0);
            while at < event.len() {
                let key = event[at];
                at += 1;
                match key {
                    0x09 => at += 8,
                    0x10 => step = varint(event, &mut at),
                    0x1a | 0x3a => at += varint(event, &mut at) as usize,
                    0x2a => {
                        let end = varint(event, &mut at) as usize + at;
                        while at < end {
                            at += 1;
                            varint(event, &mut at);
                            at += 1;
                            let n = varint(event, &mut at) as usize;
                            let tag = String::from_utf8(event[at..at + n].to_vec()).unwrap();
                            let value = f32::from_le_bytes(event[at + n + 1..at + n + 5].try_into().unwrap());
                            found.push((tag, step, value));
                            at += n + 5;
                        }
                    }
                    other => panic!("field {other:#x}"),
                }
            }
        }
    }
    found
}

fn varint(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

#[test]
fn a_run_and_its_continuation_are_recorded_drawn_and_compared() {
    let s = Scratch::new("records");
    let with = |extra: &[&str]| small(&s, &[&["logger.log_interval=2"], extra].concat());
    let first = run(&s, &with(&["logger.dir=a", "train.exit_interval=3", "--json"]));
    expect(&first, 0, &[]);
    let result: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(result["iteration"], 3);
    expect(&run(&s, &with(&["logger.dir=a"])), 0, &["resuming after step 3"]);

    let metrics = s.path("a/metrics.jsonl");
    let points = scalars_of(&s.path("a/tensorboard"));
    for record in steps(&metrics) {
        let step = record["iteration"].as_u64().unwrap();
        for (name, value) in record.as_object().unwrap() {
            let found: Vec<f32> = points.iter().filter(|p| p.0 == *name && p.1 == step).map(|p| p.2).collect();
            match value.as_f64().or(value.as_bool().map(|b| f64::from(u8::from(b)))) {
                Some(value) if name != "iteration" => assert_eq!(found, [value as f32], "{name} of step {step}"),
                _ => assert!(found.is_empty(), "{name}"),
            }
        }
    }
    assert!(points.iter().any(|p| p.0 == "validation/lm loss" && p.1 == 6));
    assert_eq!(fs::read_dir(s.path("a/tensorboard")).unwrap().count(), 2);

    let experts = events(&metrics, "experts");
    let at: Vec<u64> = experts.iter().map(|e| e["iteration"].as_u64().unwrap()).collect();
    assert_eq!(at, [2, 4, 6]);
    let matrix = lightning_train::records::expert_matrix::ExpertMatrix::from_json(&experts[2]).unwrap();
    assert!(matrix.routers.len() == 2 && matrix.experts == 4 && matrix.bias.iter().any(|b| *b != 0.0), "{matrix:?}");
    let mean = matrix.load[..4].iter().sum::<f64>() / 4.0;
    assert!((mean - 1.0).abs() < 0.05, "{matrix:?}");

    let card: Value = serde_json::from_str(&fs::read_to_string(s.path("a/run.json")).unwrap()).unwrap();
    assert_eq!(card["status"], "done");
    assert!(card["model"]["planned_bytes"].as_u64().unwrap() > 100_000, "{card}");
    let segments = card["segments"].as_array().unwrap();
    assert!(segments.len() == 2 && segments[1]["resumed_after_step"] == 3 && segments[1]["exit_code"] == 0, "{card}");
    assert!(segments[0]["program"]["xxh3"].as_str().unwrap().len() == 16);
    assert!(card["data"]["tokenizer"].is_string() && card["config"]["model.hidden_size"]["value"] == "32", "{card}");

    expect(&run(&s, &with(&["logger.dir=b"])), 0, &[]);
    expect(&run(&s, &["compare", "a", "b"]), 0, &[]);
    expect(&run(&s, &with(&["logger.dir=c", "--seed", "7"])), 0, &[]);
    let out = run(&s, &["compare", "a", "c", "--json"]);
    expect(&out, 7, &["differ from step 1 on", "lm loss"]);
    let result: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(result["settings"][0]["key"], "rng.seed");
    assert!(result["differences"].as_array().unwrap().iter().all(|d| d["name"] != "batch_hash"), "{result}");
    expect(&run(&s, &["compare", "a"]), 2, &["two runs"]);
    expect(&run(&s, &["compare", "a", "nowhere"]), 3, &["nowhere", "metrics.jsonl"]);

    expect(&run(&s, &["plot", "a"]), 0, &[]);
    expect(&run(&s, &["plot", "a", "c", "--out", "both.svg"]), 0, &[]);
    let one = fs::read_to_string(s.path("a/run.svg")).unwrap();
    for part in
        ["loss (nats", "learning rate", "gradient norm", "tokens per second", "experts of a up to step 6", "mtp2"]
    {
        assert!(one.contains(part), "`{part}` is missing");
    }
    assert!(one.starts_with("<svg") && one.matches("expert 3:").count() == 2 && !one.contains("NaN"));
    let page = fs::read_to_string(s.path("both.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("c lm") && !page.contains("src=") && !page.contains("href="));
    expect(&run::<&str>(&s, &["plot"]), 2, &["at least one run"]);
    expect(&run(&s, &["plot", "text"]), 3, &["metrics.jsonl"]);
    expect(&run(&s, &["plot", "a", "--out", "nowhere/x"]), 3, &["nowhere", "--out"]);
    // A line that a kill cut off is removed by the next start and skipped by readers until then.
    let mut text = fs::read_to_string(&metrics).unwrap();
    text.push_str("{\"iteration\":7,\"lm lo");
    fs::write(&metrics, text).unwrap();
    expect(&run(&s, &["plot", "a"]), 0, &[]);
    expect(&run(&s, &with(&["logger.dir=a", "train.train_iters=7"])), 0, &["resuming after step 6"]);
    assert!(events(&metrics, "resume")[1]["removed_bytes"].as_u64().unwrap() > 10);
}

#[test]
fn every_token_of_every_step_is_accounted_for() {
    let s = Scratch::new("tokens");
    let mut rng = Philox::new(77, 1);
    // Two sources, told apart by their ids; documents of all lengths.
    for (name, base) in [("low", 1), ("high", 160)] {
        let mut writer = IndexedWriter::create(s.path(name), TokenType::I32).unwrap();
        for _ in 0..300 {
            let length = 1 + rng.below(90);
            let tokens: Vec<i32> = (0..length).map(|_| base + rng.below(150) as i32).collect();
            writer.add_document(&tokens).unwrap();
        }
        writer.finish().unwrap();
    }
    let (low, high) = (s.text("low"), s.text("high"));
    let blend = format!("dataset.data_path=[\"30\", \"{low}\", \"70\", \"{high}\"]");
    let args = small(
        &s,
        &[
            "logger.dir=run",
            "dataset.kind=megatron-indexed",
            "dataset.path=null",
            &blend,
            "dataset.split=90,10,0",
            "validation.eval_iters=1",
        ],
    );
    expect(&run(&s, &args), 0, &["done after step 6"]);
    let metrics = s.path("run/metrics.jsonl");
    let sources = events(&metrics, "start")[0]["sources"].clone();
    assert_eq!(sources, serde_json::json!([low, high]));
    let (rows, length) = (4, 40);
    let mut by_source = [0; 2];
    for record in steps(&metrics) {
        let count = |name: &str| record[name].as_u64().unwrap_or_else(|| panic!("{name}: {record}"));
        assert_eq!(count("real_tokens") + count("padding_tokens"), rows * length, "{record}");
        assert_eq!(count("loss_tokens") + count("masked_tokens") + count("padding_tokens"), rows * length, "{record}");
        // Without separated documents a row is one; the depths lose one and two targets of every row.
        assert_eq!(count("documents"), rows, "{record}");
        assert_eq!((count("mtp_1 tokens"), count("mtp_2 tokens")), (rows * (length - 1), rows * (length - 2)));
        assert_eq!(count("filler_rows"), 0);
        let of: Vec<u64> = record["tokens_by_source"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        assert_eq!(of.iter().sum::<u64>(), count("real_tokens"), "{record}");
        assert!(of.iter().all(|n| n % length == 0), "rows are of one source: {record}");
        by_source = [by_source[0] + of[0], by_source[1] + of[1]];
    }
    // 24 rows in the ratio 3 : 7.
    assert_eq!(by_source, [7 * length, 17 * length]);
    // Separated documents lose targets at each end, and the log shows it.
    expect(&run(&s, &small(&s, &["logger.dir=text", "dataset.inter_document_masking=true"])), 0, &[]);
    for record in steps(&s.path("text/metrics.jsonl")) {
        let count = |name: &str| record[name].as_u64().unwrap();
        assert!(count("documents") >= rows, "{record}");
        assert!(count("loss_tokens") - count("mtp_1 tokens") >= rows, "{record}");
    }
}

#[test]
fn a_value_that_is_not_finite_is_traced_to_its_operation_and_its_documents() {
    let s = Scratch::new("finite");
    let args = [
        "logger.dir=run",
        "train.train_iters=40",
        "optimizer.lr=1e30",
        "optimizer.min_lr=0",
        "scheduler.lr_warmup_iters=1",
        "validation.eval_interval=0",
        "--check-finite",
    ];
    expect(&run(&s, &small(&s, &args)), 6, &["first value that is not finite", "10 steps in a row"]);
    let anomalies = events(&s.path("run/metrics.jsonl"), "anomaly");
    let found = anomalies.iter().find(|a| a["first_not_finite"].is_object()).expect("a located value");
    let place = &found["first_not_finite"];
    let places = place["nans"].as_u64().unwrap() + place["infinities"].as_u64().unwrap();
    assert!(places > 0 && places <= place["elements"].as_u64().unwrap(), "{place}");
    assert!(
        !place["operation"].as_str().unwrap().is_empty() && !place["region"].as_str().unwrap().is_empty(),
        "{place}"
    );
    let batches = found["batches"].as_array().unwrap();
    let newest = batches.last().unwrap();
    assert_eq!(newest["iteration"], found["iteration"]);
    let samples = newest["samples"].as_array().unwrap();
    assert!(samples.len() == 4 && samples.iter().all(|x| !x["documents"].as_array().unwrap().is_empty()), "{newest}");
    assert_eq!(newest["consumed_samples"].as_u64().unwrap(), 4 * (found["iteration"].as_u64().unwrap() - 1));
    assert!(found["grad_norm_by_layer"].as_object().unwrap().len() >= 5, "{found}");
}

#[test]
fn the_search_for_values_that_are_not_finite_changes_no_bit() {
    let s = Scratch::new("finite-same");
    let fixed = ["train.train_iters=14", "optimizer.lr=1e30", "optimizer.min_lr=0", "scheduler.lr_warmup_iters=1"];
    for (dir, check) in [("logger.dir=off", "train.check_finite=false"), ("logger.dir=on", "train.check_finite=true")] {
        let args = small(
            &s,
            &[&fixed[..], &[dir, check, "train.max_nonfinite_steps=0", "validation.eval_interval=0"]].concat(),
        );
        expect(&run(&s, &args), 0, &[]);
    }
    let pick = |dir: &str| -> Vec<(Value, Value, Value)> {
        let all = steps(&s.path(&format!("{dir}/metrics.jsonl")));
        all.iter().map(|r| (r["lm loss"].clone(), r["grad_norm"].clone(), r["expert_max_over_mean"].clone())).collect()
    };
    assert_eq!(pick("off"), pick("on"));
    assert!(shard(&s.path("off"), 14) == shard(&s.path("on"), 14));
}

#[test]
fn one_batch_is_learnt_by_heart_and_samples_change_nothing() {
    let s = Scratch::new("overfit");
    let fixed =
        ["train.train_iters=60", "optimizer.lr=2e-2", "validation.eval_interval=0", "checkpoint.save_interval=null"];
    let with = |extra: &[&str]| small(&s, &[&fixed[..], extra].concat());
    expect(&run(&s, &with(&["logger.dir=one", "--overfit-batch"])), 0, &["overfitting the first batch"]);
    let all = steps(&s.path("one/metrics.jsonl"));
    let loss = |i: usize| all[i]["lm loss"].as_f64().unwrap();
    assert!(loss(59) < 0.5 * loss(0), "{} then {}", loss(0), loss(59));
    assert!(all.iter().all(|r| r["batch_hash"] == all[0]["batch_hash"]));

    let short = ["train.train_iters=4", "model.seq_length=40"];
    let sampled = ["logger.sample_tokens=12", "logger.sample_temperature=0.8", "logger.sample_prompt=1 plus"];
    expect(&run(&s, &with(&[&short[..], &["logger.dir=plain"]].concat())), 0, &[]);
    for dir in ["logger.dir=x", "logger.dir=y"] {
        let args = with(&[&short[..], &sampled[..], &[dir, "--sample", "2"]].concat());
        expect(&run(&s, &args), 0, &["sample after step 2", "second engine"]);
    }
    // The plan of the same command line has both engines, to the byte.
    let mut plan = with(&[&short[..], &sampled[..], &["logger.dir=x", "--sample", "2", "--json"]].concat());
    plan[0] = "plan".into();
    let out = run(&s, &plan);
    expect(&out, 0, &[]);
    let plan: Value = serde_json::from_slice(&out.stdout).unwrap();
    let card: Value = serde_json::from_str(&fs::read_to_string(s.path("x/run.json")).unwrap()).unwrap();
    assert!(plan["sampler_bytes"].as_f64().unwrap() > 0.0 && plan["exact"] == true, "{plan}");
    let held = plan["total_bytes"].as_f64().unwrap() - plan["snapshot_bytes"].as_f64().unwrap();
    assert_eq!(held, card["model"]["planned_bytes"].as_f64().unwrap());
    let texts = |dir: &str| -> Vec<String> {
        events(&s.path(&format!("{dir}/metrics.jsonl")), "sample").iter().map(|r| r["text"].to_string()).collect()
    };
    assert!(texts("x").len() == 2 && texts("x") == texts("y") && texts("x")[0].contains("1 plus"), "{:?}", texts("x"));
    assert!(shard(&s.path("plain"), 4) == shard(&s.path("x"), 4), "a sample changed the run");
    let long = with(&[
        "logger.sample_prompt=1 plus 2 is 3 1 plus 2 is 3 1 plus 2 is 3 1 plus 2 is 3",
        "--sample",
        "1",
        "model.seq_length=8",
    ]);
    expect(&run(&s, &long), 2, &["logger.sample_prompt", "shorten"]);
    expect(&run(&s, &with(&["dataset.kind=mock", "dataset.path=null", "--sample", "1"])), 2, &["tokenizer"]);
}

#[test]
fn doctor_reports_and_fails_where_a_run_would() {
    let s = Scratch::new("doctor");
    let out = run(&s, &["doctor", "--disk-megabytes", "2"]);
    expect(&out, 0, &[]);
    let text = String::from_utf8_lossy(&out.stdout);
    for word in ["processor", "memory", "disk speed", "disk space", "HF cache"] {
        assert!(text.contains(word), "{text}");
    }
    let out = run(&s, &["doctor", "--folder", "nowhere", "--json", "--disk-megabytes", "1"]);
    expect(&out, 7, &["disk speed"]);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(report["machine"]["threads"].as_u64().unwrap() > 0);
    assert!(report["checks"].as_array().unwrap().iter().any(|c| c["verdict"] == "FAIL"));
    assert_eq!(fs::read_dir(&s.0).unwrap().count(), 0, "the probe is removed");
}
