//! Loading into a model, and saving from a run: what is taken, what is refused, and what a failed save leaves.

use super::*;
use lightning_core::config::ModelConfig;
use lightning_core::model::{AdamConfig, MicroBatch, ModelSpec, Objective, Precision, Routing, Trace, Training};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule};
use lightning_core::program::Recompute;
use lightning_core::tensor::DType;
use lightning_train::checkpoint::{LoadOptions, Snapshot, TrainState, load, load_strict, save};
use lightning_train::convert::import;
use lightning_train::hf::{HfConfig, HfFolder};
use lightning_train::train::device::DeviceChoice;
use lightning_train::train::engine::Engine;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

#[path = "../scratch/mod.rs"]
mod runs;

/// A model in f32 with random weights of a seed.
fn engine(config: &ModelConfig, seed: u64) -> Engine {
    let spec = ModelSpec {
        config: config.clone(),
        precision: Precision::of(DType::F32),
        batch: MicroBatch { rows: 1, row_len: 8, max_offsets: 2, padding: false },
        objective: Objective {
            scale: LossScale::MeanOfMeans(1),
            mtp_factor: 0.3,
            aux_coefficient: 1e-4,
            bias_rate: 1e-3,
        },
        routing: Routing::Natural,
        training: Training::Full,
        recompute: Recompute::NONE,
    };
    let schedule = Schedule {
        decay: Decay::Constant,
        init_lr: 0.0,
        max_lr: 1e-3,
        min_lr: 0.0,
        warmup_samples: 0,
        decay_samples: 1,
        wsd_samples: 0,
        start_weight_decay: 0.01,
        end_weight_decay: 0.01,
    };
    let adam = AdamConfig { betas: (0.9, 0.95), eps: 1e-8, clip: 1.0, schedule };
    let mut engine = Engine::new(spec, Some(&adam), &DeviceChoice::Cpu { threads: 1 }, Trace::Off).unwrap();
    engine.model.clone().initialize(&mut engine.device, seed).unwrap();
    engine
}

/// The bytes of every tensor that the model holds.
fn held(engine: &Engine) -> BTreeMap<String, Vec<u8>> {
    let snapshot = Snapshot::take(engine, &TrainState::default(), "", true).unwrap();
    snapshot.writers.into_iter().flatten().map(|p| (p.name, p.bytes)).collect()
}

#[test]
fn b01_after_loading_every_weight_is_the_one_in_the_file() {
    let s = Scratch::new("b01");
    let source = tiny();
    import::run(&import_args(&source.display().to_string(), &s.text("ours"))).unwrap();
    let config = HfConfig::read(&source.join("config.json")).unwrap();
    let mut engine = engine(&config.model, 3);
    load(&mut engine, &s.path("ours/iter_0000000"), LoadOptions { optimizer: false }).unwrap();
    let weights = held(&engine);
    let folder = HfFolder::open(&source).unwrap();
    assert!(folder.tensors.keys().any(|n| n.ends_with("dt_bias")) && folder.tensors.len() == folder_names(&weights));
    for (name, tensor) in &folder.tensors {
        let mut bytes = vec![0; tensor.len as usize];
        folder.files[tensor.file].file.read_exact_at(&mut bytes, tensor.start).unwrap();
        let mut wanted = Vec::new();
        let mut scratch = Vec::new();
        lightning_train::convert::cast::convert(
            tensor.dtype,
            safetensors::Dtype::F32,
            &bytes,
            &mut scratch,
            &mut wanted,
        );
        assert!(weights[&format!("model/{name}")] == wanted, "{name} is not the file's");
    }
}

fn folder_names(weights: &BTreeMap<String, Vec<u8>>) -> usize {
    weights.keys().filter(|n| n.starts_with("model/")).count()
}

#[test]
fn b77_without_the_optimizer_the_weights_load_and_strictness_refuses() {
    let s = Scratch::new("b77");
    let model = small_model();
    let saved = engine(&model, 1);
    let state = TrainState { iteration: 5, optimizer_steps: 5, ..TrainState::default() };
    let both = LoadOptions { optimizer: true };
    let without = save(&saved, &s.path("without"), &state, "", false).unwrap();
    let mut other = engine(&model, 2);
    let fresh = held(&other);
    let loaded = load(&mut other, &without, both).unwrap();
    assert_eq!((loaded.iteration, loaded.optimizer_steps), (5, 0), "Adam begins anew");
    let (now, then) = (held(&other), held(&saved));
    for (name, bytes) in &now {
        let expected = if name.starts_with("model/") { &then[name] } else { &fresh[name] };
        assert!(bytes == expected, "{name}");
    }
    let error = load_strict(&mut other, &without, both).unwrap_err().to_string();
    assert!(error.contains("optim.m/") && error.contains("is missing"), "{error}");
    // Weights alone are no lack.
    load_strict(&mut other, &without, LoadOptions { optimizer: false }).unwrap();
    let with = save(&saved, &s.path("with"), &state, "", true).unwrap();
    assert_eq!(load_strict(&mut other, &with, both).unwrap(), state);
    assert!(held(&other) == then);
    // Half an optimizer is damage, strict or not.
    let index = with.join("index.json");
    let mut json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&index).unwrap()).unwrap();
    json["tensors"].as_object_mut().unwrap().remove("optim.m/lm_head.weight");
    fs::write(&index, json.to_string()).unwrap();
    let error = load(&mut other, &with, both).unwrap_err().to_string();
    assert!(error.contains("optim.m/lm_head.weight is missing"), "{error}");
}

#[test]
fn a_failed_save_in_the_background_ends_the_run_at_the_next_step_and_the_last_checkpoint_stays() {
    let s = runs::Scratch::new("convert-failed-save");
    let with = |extra: &[&str]| runs::small(&s, &[&["logger.dir=run"], extra].concat());
    runs::expect(&runs::run(&s, &with(&["train.train_iters=3"])), 0, &["done after step 3"]);
    let before = runs::shard(&s.path("run"), 3);
    // Logs are small; the shard is beyond the limit on file sizes, as on a disk that is full.
    let blocks = (before.len() / 1024 / 2).to_string();
    let more = with(&["train.train_iters=400", "checkpoint.save_interval=1", "checkpoint.async_save=true"]);
    let output = Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f $0; exec \"$@\"", &blocks, env!("CARGO_BIN_EXE_lightning-train")])
        .args(&more)
        .current_dir(&s.0)
        .env("LIGHTNING_CACHE", s.path("cache"))
        .output()
        .unwrap();
    runs::expect(&output, 3, &["cannot write", "shard-00000-of-00001.safetensors"]);
    let steps = runs::steps(&s.path("run/metrics.jsonl"));
    let last = steps.last().unwrap()["iteration"].as_u64().unwrap();
    // The save after step 4 fails; the one after step 5 would wait for it, so the run is over by then.
    assert!((4..=5).contains(&last), "the run went on to step {last}");
    let checkpoints = s.path("run/checkpoints");
    assert_eq!(runs::tracker(&checkpoints), Some(3));
    assert!(runs::shard(&s.path("run"), 3) == before);
    let names: Vec<String> =
        fs::read_dir(&checkpoints).unwrap().flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    assert!(!names.iter().any(|n| n.contains("0000004") || n.contains("0000005")), "{names:?}");
    expect(&run(&["verify", "checkpoint", &checkpoints.display().to_string()]), 0, &["every value finite"]);
    runs::expect(&runs::run(&s, &with(&["train.train_iters=5"])), 0, &["resuming after step 3", "done after step 5"]);
}
