//! The program as a user runs it: files in, files out, exit codes.

mod scratch;

use scratch::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/model")
}

#[test]
fn a_run_writes_metrics_configuration_and_checkpoints() {
    let s = Scratch::new("run");
    let out = run(&s, &small(&s, &["logger.dir=run"]));
    expect(&out, 0, &["validation after step 0", "done after step 6", "next   train longer"]);
    let steps = steps(&s.path("run/metrics.jsonl"));
    assert_eq!(steps.len(), 6);
    for name in [
        "iteration",
        "consumed_samples",
        "lm loss",
        "mtp_1 loss",
        "mtp_2 loss",
        "load_balancing_loss",
        "grad_norm",
        "learning_rate",
        "elapsed_ms",
        "tokens_per_s",
        "tflops_charged",
        "tflops_honest",
        "expert_max_over_mean",
    ] {
        assert!(steps[0].get(name).is_some(), "`{name}` is missing in {}", steps[0]);
    }
    assert_eq!(steps[0]["learning_rate"], 0.0, "the first step has rate 0");
    assert_eq!(steps[5]["consumed_samples"], 24);
    // ln V + H sigma^2 / 2 within what a batch of a fresh model scatters.
    let first = steps[0]["lm loss"].as_f64().unwrap();
    let expected = 320f64.ln() + 32.0 * 0.02f64.powi(2) / 2.0;
    assert!((first - expected).abs() < 0.05, "first loss {first}, expected {expected}");
    let config = fs::read_to_string(s.path("run/run_config.toml")).unwrap();
    assert!(config.contains("hidden_size = 32") && config.contains("override"), "{config}");
    for step in ["iter_0000003", "iter_0000006"] {
        for file in ["index.json", "train_state.json", "config.json", "shard-00000-of-00001.safetensors"] {
            assert!(s.path(&format!("run/checkpoints/{step}/{file}")).is_file(), "{step}/{file}");
        }
    }
    assert_eq!(tracker(&s.path("run/checkpoints")), Some(6));
    assert_eq!(events(&s.path("run/metrics.jsonl"), "validation").len(), 3);
}

#[test]
fn b74_b76_resume_is_bitwise_also_the_second_time_and_for_other_thread_counts() {
    let s = Scratch::new("resume");
    expect(&run(&s, &small(&s, &["logger.dir=whole"])), 0, &[]);
    expect(&run(&s, &small(&s, &["logger.dir=parts", "train.exit_interval=2"])), 0, &["done after step 2"]);
    for (to, threads) in [("done after step 4", "device.threads=1"), ("done after step 6", "device.threads=3")] {
        let args = ["checkpoint.load=parts/checkpoints", "train.exit_interval=2", threads];
        expect(&run(&s, &small(&s, &args)), 0, &["resuming after step", to]);
    }
    let (whole, parts) = (steps(&s.path("whole/metrics.jsonl")), steps(&s.path("parts/metrics.jsonl")));
    assert_eq!(whole.len(), parts.len());
    for (a, b) in whole.iter().zip(&parts) {
        for name in ["iteration", "consumed_samples", "lm loss", "mtp_2 loss", "grad_norm", "learning_rate"] {
            assert_eq!(a[name], b[name], "{name} of step {}", a["iteration"]);
        }
    }
    assert!(shard(&s.path("whole"), 6) == shard(&s.path("parts"), 6), "weights or moments differ after resuming");
    assert_eq!(events(&s.path("parts/metrics.jsonl"), "resume").len(), 2);
}

#[test]
fn other_sources_precisions_and_losses_train() {
    let s = Scratch::new("kinds");
    for (i, extra) in [
        vec!["dataset.kind=mock", "dataset.path=null"],
        vec!["mixed_precision.precision=bf16"],
        vec!["mixed_precision.precision=bf16", "mixed_precision.grad_accum_dtype=bf16"],
        vec!["mixed_precision.precision=f64", "model.calculate_per_token_loss=true"],
        vec!["dataset.inter_document_masking=true"],
        vec!["model.moe_router_force_load_balancing=true"],
        vec!["model.mtp_num_layers=0"],
    ]
    .into_iter()
    .enumerate()
    {
        let dir = format!("logger.dir=run{i}");
        let mut args = vec![dir.as_str(), "train.train_iters=3"];
        args.extend(extra.iter().copied());
        expect(&run(&s, &small(&s, &args)), 0, &["done after step 3"]);
        let steps = steps(&s.path(&format!("run{i}/metrics.jsonl")));
        let loss = |k: usize| steps[k]["lm loss"].as_f64().unwrap();
        assert!(loss(2) < loss(0) + 0.02, "{extra:?}: {} then {}", loss(0), loss(2));
    }
}

#[test]
fn a_signal_saves_and_asks_to_be_requeued() {
    let s = Scratch::new("signal");
    let args = small(&s, &["logger.dir=run", "train.train_iters=100000", "checkpoint.save_interval=null"]);
    let mut child = start(&s, &args);
    let metrics = s.path("run/metrics.jsonl");
    wait_until(&mut child, "the first step", || {
        fs::read_to_string(&metrics).is_ok_and(|text| text.contains("grad_norm"))
    });
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(75), "{}", said(&s));
    assert!(said(&s).contains("stopped by a signal after step"), "{}", said(&s));
    let step = tracker(&s.path("run/checkpoints")).unwrap();
    let to = format!("train.train_iters={}", step + 1);
    let args = ["checkpoint.load=run/checkpoints", to.as_str()];
    expect(&run(&s, &small(&s, &args)), 0, &[&format!("resuming after step {step}")]);
}

#[test]
fn ten_steps_that_are_not_finite_stop_the_run() {
    let s = Scratch::new("numerical");
    let args = [
        "logger.dir=run",
        "train.train_iters=40",
        "optimizer.lr=1e30",
        "optimizer.min_lr=0",
        "scheduler.lr_warmup_iters=1",
        "validation.eval_interval=0",
    ];
    let out = run(&s, &small(&s, &args));
    expect(&out, 6, &["10 steps in a row", "lower optimizer.lr"]);
    let steps = steps(&s.path("run/metrics.jsonl"));
    assert_eq!(steps.last().unwrap()["skipped"], true);
    assert!(steps.iter().filter(|r| r["skipped"] == true).count() >= 10);
}

#[test]
fn bad_settings_and_data_are_named() {
    let s = Scratch::new("bad");
    let words = |args: &[&str]| args.iter().map(|a| a.to_string()).collect::<Vec<_>>();
    expect(&run(&s, &words(&["train", "--recipe", "demo_pretrain"])), 2, &["demo_pretrain", "demo_pretrain_config"]);
    expect(&run(&s, &small(&s, &["model.hidden_sise=8"])), 2, &["hidden_sise", "model.hidden_size"]);
    expect(&run(&s, &small(&s, &["model.hidden_size=1.5"])), 2, &["model.hidden_size", "1.5"]);
    expect(&run(&s, &small(&s, &["model.num_query_groups=3"])), 2, &["3", "divide"]);
    expect(&run(&s, &small(&s, &["train.micro_batch_size=3"])), 2, &["multiple"]);
    expect(&run(&s, &small(&s, &["dataset.reset_attention_mask=true"])), 2, &["inter_document_masking"]);
    expect(&run(&s, &words(&["train", "--recipe", "tiny_pretrain_config"])), 2, &["expert_model_parallel_size=1"]);

    let empty = s.text("empty");
    fs::create_dir_all(&empty).unwrap();
    let with_data = |path: &str| small(&s, &[&format!("dataset.path={path}")]);
    expect(&run(&s, &with_data(&empty)), 3, &["empty", "no text"]);
    expect(&run(&s, &with_data(&s.text("nowhere"))), 3, &["nowhere"]);
    let latin = s.text("latin");
    fs::create_dir_all(&latin).unwrap();
    fs::write(s.path("latin/one.txt"), b"caf\xe9 au lait").unwrap();
    expect(&run(&s, &with_data(&latin)), 3, &["one.txt", "not UTF-8", "byte 3"]);

    fs::write(s.path("file"), "in the way").unwrap();
    let cache = format!("dataset.path_to_cache={}", s.text("file/cache"));
    expect(&run(&s, &small(&s, &[&cache])), 3, &["file/cache", "path_to_cache"]);
    let dir = format!("logger.dir={}", s.text("file/run"));
    expect(&run(&s, &small(&s, &[&dir])), 3, &["file/run", "logger.dir"]);
}

#[test]
fn a_full_disk_while_saving_loses_nothing() {
    let s = Scratch::new("full");
    expect(&run(&s, &small(&s, &["logger.dir=run", "train.exit_interval=3"])), 0, &["done after step 3"]);
    let shard = s.path("run/checkpoints/iter_0000003/shard-00000-of-00001.safetensors");
    let good = fs::read(&shard).unwrap();
    // A limit on file sizes below the shard's: the write fails in the middle, as on a full disk.
    let blocks = good.len() / 1024 / 2;
    let args = small(&s, &["checkpoint.load=run/checkpoints"]);
    let out = Command::new("bash")
        .arg("-c")
        .arg(format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_lightning-train"))
        .args(&args)
        .current_dir(&s.0)
        .env("LIGHTNING_CACHE", s.path("cache"))
        .output()
        .unwrap();
    expect(&out, 3, &["iter_0000006", "cannot write"]);
    assert_eq!(fs::read(&shard).unwrap(), good, "the last good checkpoint changed");
    assert_eq!(tracker(&s.path("run/checkpoints")), Some(3));
    let left: Vec<_> = fs::read_dir(s.path("run/checkpoints")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len(), 2, "something half-written is left: {left:?}");
    expect(&run(&s, &args), 0, &["resuming after step 3", "done after step 6"]);
}

#[test]
fn damaged_and_foreign_checkpoints_are_refused() {
    let s = Scratch::new("damaged");
    expect(&run(&s, &small(&s, &["logger.dir=run", "train.exit_interval=3"])), 0, &[]);
    let shard = s.path("run/checkpoints/iter_0000003/shard-00000-of-00001.safetensors");
    let good = fs::read(&shard).unwrap();
    let resume = small(&s, &["checkpoint.load=run/checkpoints", "logger.dir=again"]);
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x10;
    fs::write(&shard, &flipped).unwrap();
    expect(&run(&s, &resume), 3, &["shard-00000-of-00001.safetensors", "checksum", "ckpt_step"]);
    fs::write(&shard, &good[..good.len() - 100]).unwrap();
    expect(&run(&s, &resume), 3, &["shard-00000-of-00001.safetensors"]);
    fs::remove_file(&shard).unwrap();
    expect(&run(&s, &resume), 3, &["cannot open"]);
    fs::write(&shard, &good).unwrap();
    expect(&run(&s, &small(&s, &["checkpoint.load=run/checkpoints", "model.hidden_size=64"])), 2, &["another model"]);
    expect(&run(&s, &small(&s, &["checkpoint.load=nowhere"])), 3, &["nowhere", "latest_checkpointed_iteration.txt"]);
    let index = s.path("run/checkpoints/iter_0000003/index.json");
    let text = fs::read_to_string(&index).unwrap().replace("\"version\":1", "\"version\":99");
    fs::write(&index, text).unwrap();
    expect(&run(&s, &resume), 3, &["version 99", "newer"]);
    // Another program's index, and text that is none.
    for (content, words) in
        [(r#"{"metadata": {}, "weight_map": {}}"#, "index.json"), ("torch", "index.json"), ("", "index.json")]
    {
        fs::write(&index, content).unwrap();
        expect(&run(&s, &resume), 3, &[words, "iter_0000003"]);
    }
    fs::write(s.path("run/checkpoints/latest_checkpointed_iteration.txt"), "release").unwrap();
    expect(&run(&s, &resume), 3, &["latest_checkpointed_iteration.txt", "release"]);
    fs::create_dir_all(s.path("pictures/iter_0000009")).unwrap();
    fs::write(s.path("pictures/iter_0000009/cat.png"), "meow").unwrap();
    expect(&run(&s, &small(&s, &["checkpoint.load=pictures/iter_0000009", "logger.dir=again"])), 3, &["pictures"]);
}

#[test]
fn b68_weights_from_a_checkpoint_are_the_masters_too() {
    let s = Scratch::new("pretrained");
    let bf16 = "mixed_precision.precision=bf16";
    expect(&run(&s, &small(&s, &["logger.dir=run", bf16, "train.exit_interval=3"])), 0, &[]);
    // One step with rate 0 (the first of a run with warm-up) must leave every loaded weight as it is.
    let args = [
        "logger.dir=next",
        bf16,
        "checkpoint.pretrained_checkpoint=run/checkpoints",
        "train.train_iters=1",
        "scheduler.lr_decay_iters=10",
        "validation.eval_interval=0",
    ];
    expect(&run(&s, &small(&s, &args)), 0, &["done after step 1"]);
    let section = |path: PathBuf| -> Vec<(String, Vec<u8>)> {
        let bytes = fs::read(path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut all: Vec<_> = file
            .tensors()
            .into_iter()
            .filter(|(n, _)| n.starts_with("model/") && !n.contains("e_score_correction_bias"))
            .map(|(n, t)| (n, t.data().to_vec()))
            .collect();
        all.sort();
        all
    };
    let shard = "shard-00000-of-00001.safetensors";
    let (a, b) = (
        section(s.path(&format!("run/checkpoints/iter_0000003/{shard}"))),
        section(s.path(&format!("next/checkpoints/iter_0000001/{shard}"))),
    );
    assert!(!a.is_empty());
    for ((name, x), (_, y)) in a.iter().zip(&b) {
        assert!(x == y, "{name} changed in a step with rate 0");
    }
}

fn parity(s: &Scratch, hf: &str, golden_file: &str, extra: &[&str]) -> Output {
    let mut args: Vec<String> =
        ["verify", "parity", "--hf", hf, "--golden", golden_file].iter().map(|a| a.to_string()).collect();
    args.extend(extra.iter().map(|a| a.to_string()));
    run(s, &args)
}

fn copy_tiny(s: &Scratch) -> String {
    let to = s.path("hf");
    fs::create_dir_all(&to).unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden().join("tiny").join(file), to.join(file)).unwrap();
    }
    to.display().to_string()
}

#[test]
fn golden_model_verify_parity_passes_and_names_the_first_layer_that_does_not() {
    let s = Scratch::new("parity");
    let tiny = copy_tiny(&s);
    let forward = golden().join("tiny_forward.safetensors").display().to_string();
    let grads = golden().join("tiny_grads_lm.safetensors").display().to_string();
    for dtype in ["f32", "f64", "bf16"] {
        let out = parity(&s, &tiny, &forward, &["--grads", &grads, "--dtype", dtype]);
        expect(&out, 0, &[]);
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains("hidden.0") && text.contains("logits") && text.contains("d lm_head.weight"), "{text}");
    }
    // A weight of layer 2 changed: hidden.3 is the first value that shows it.
    let path = s.path("hf/model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let at = offset_of(&bytes, "backbone.layers.2.mixer.out_proj.weight");
    for byte in &mut bytes[at..at + 200] {
        *byte ^= 0x80;
    }
    fs::write(&path, &bytes).unwrap();
    expect(&parity(&s, &tiny, &forward, &[]), 7, &["hidden.3 is the first"]);
}

/// First byte of a tensor's data in a safetensors file.
fn offset_of(bytes: &[u8], name: &str) -> usize {
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    8 + header + json[name]["data_offsets"][0].as_u64().unwrap() as usize
}

#[test]
fn hf_folders_that_cannot_be_used_are_refused_by_name() {
    let s = Scratch::new("hf");
    let tiny = copy_tiny(&s);
    let forward = golden().join("tiny_forward.safetensors").display().to_string();
    let config_path = s.path("hf/config.json");
    let config = fs::read_to_string(&config_path).unwrap();
    let weights_path = s.path("hf/model.safetensors");
    let weights = fs::read(&weights_path).unwrap();
    let changed = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut json: serde_json::Value = serde_json::from_str(&config).unwrap();
        edit(&mut json);
        fs::write(&config_path, json.to_string()).unwrap();
        parity(&s, &tiny, &forward, &[])
    };
    let code = |out: &Output| out.status.code().unwrap();
    for (key, value) in [
        ("mamba_num_heads", serde_json::Value::Null),
        ("num_key_value_heads", 3.into()),
        ("hidden_size", 0.into()),
        ("moe_latent_size", 64.into()),
        ("hidden_size", "wide".into()),
    ] {
        let out = changed(&|json| {
            if value.is_null() {
                json.as_object_mut().unwrap().remove(key);
            } else {
                json[key] = value.clone();
            }
        });
        assert!([2, 3].contains(&code(&out)), "{key}: {}", String::from_utf8_lossy(&out.stderr));
        expect(&out, code(&out), &["config.json", key]);
    }
    fs::write(&config_path, &config).unwrap();
    let out = changed(&|json| json["moe_intermediate_size"] = 32.into());
    expect(&out, 3, &["model.safetensors", "up_proj", "shape"]);
    fs::write(&config_path, &config).unwrap();

    let mut nan = weights.clone();
    let at = offset_of(&nan, "backbone.norm_f.weight");
    nan[at..at + 2].copy_from_slice(&half::bf16::NAN.to_le_bytes());
    fs::write(&weights_path, &nan).unwrap();
    expect(&parity(&s, &tiny, &forward, &[]), 3, &["backbone.norm_f.weight", "NaN"]);
    fs::write(&weights_path, &weights[..weights.len() - 10]).unwrap();
    expect(&parity(&s, &tiny, &forward, &[]), 3, &["model.safetensors"]);
    fs::remove_file(&weights_path).unwrap();
    expect(&parity(&s, &tiny, &forward, &[]), 3, &["neither model.safetensors nor"]);
    fs::write(&weights_path, &weights).unwrap();
    expect(&parity(&s, &tiny, &s.text("none.safetensors"), &[]), 3, &["none.safetensors"]);
}
