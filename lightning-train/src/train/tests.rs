//! The whole loop in one process, with data and a clock that misbehave.

use super::run::{Surroundings, train_in};
use crate::cli::{Exit, Failure, TrainRequest};
use crate::config::launch::Launch;
use crate::config::resolve::Layers;
use crate::records::clock::WallClock;
use crate::records::tensorboard::frames;
use lightning_data::{Batch, BatchSource};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Samples of a step.
const GLOBAL: u64 = 4;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lightning-train-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn request(run: &Path, extra: &[&str]) -> TrainRequest {
    let mut layers = Layers::new();
    layers.recipe("demo_pretrain_config").unwrap();
    let dir = format!("logger.dir={}", run.display());
    let fixed = [
        &dir,
        "dataset.kind=mock",
        "model.hidden_size=32",
        "model.hybrid_layer_pattern=M*E-",
        "model.ffn_hidden_size=48",
        "model.num_attention_heads=4",
        "model.kv_channels=8",
        "model.mamba_num_heads=4",
        "model.mamba_head_dim=16",
        "model.mamba_state_dim=8",
        "model.mamba_num_groups=2",
        "model.mamba_chunk_size=16",
        "model.num_moe_experts=4",
        "model.moe_ffn_hidden_size=24",
        "model.moe_shared_expert_intermediate_size=24",
        "model.vocab_size=320",
        "model.seq_length=40",
        "train.global_batch_size=4",
        "train.micro_batch_size=2",
        "train.train_iters=6",
        "train.exit_signal_handler=false",
        "scheduler.lr_warmup_iters=2",
        "validation.eval_interval=0",
        "checkpoint.save_interval=null",
        "device.threads=2",
    ];
    for text in fixed.iter().chain(extra) {
        layers.set_override(text).unwrap();
    }
    let launch = Launch { world_size: 1, source: "test".into(), assumed: true, warning: None };
    TrainRequest { resolved: layers.finish(launch, &|_| None).unwrap(), launcher: vec![], json: false }
}

fn run(run: &Path, extra: &[&str], batches: fn(Arc<dyn BatchSource>) -> Arc<dyn BatchSource>) -> Result<(), Failure> {
    train_in(request(run, extra), &Surroundings { clock: WallClock::default, batches })
}

fn records(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn shard(run: &Path, step: u64) -> Vec<u8> {
    fs::read(run.join(format!("checkpoints/iter_{step:07}/shard-00000-of-00001.safetensors"))).unwrap()
}

/// Changes batches on their way.
struct Altered {
    source: Arc<dyn BatchSource>,
    alter: fn(u64, u64, &mut Batch),
}

impl BatchSource for Altered {
    fn fill(&self, consumed: u64, micro_batch: u64, dp_rank: u64, out: &mut Batch) -> lightning_data::Result<()> {
        self.source.fill(consumed, micro_batch, dp_rank, out)?;
        (self.alter)(consumed, micro_batch, out);
        Ok(())
    }
    fn source_names(&self) -> Vec<String> {
        self.source.source_names()
    }
    fn samples(&self) -> Option<u64> {
        self.source.samples()
    }
}

fn stalled(source: Arc<dyn BatchSource>) -> Arc<dyn BatchSource> {
    let alter = |consumed, micro_batch, _: &mut Batch| {
        if (consumed, micro_batch) == (3 * GLOBAL, 1) {
            std::thread::sleep(Duration::from_millis(700));
        }
    };
    Arc::new(Altered { source, alter })
}

#[test]
fn a_step_that_waits_for_its_data_is_an_event_and_changes_nothing() {
    let folder = Folder::new("stall");
    let (slow, plain) = (folder.0.join("slow"), folder.0.join("plain"));
    run(&slow, &["logger.data_stall_seconds=0.1"], stalled).unwrap();
    run(&plain, &[], |source| source).unwrap();
    let all = records(&slow);
    let stalls: Vec<&Value> = all.iter().filter(|r| r["kind"] == "data_stall").collect();
    assert_eq!(stalls.len(), 1, "{all:?}");
    let stall = stalls[0];
    assert!(stall["event"] == "anomaly" && stall["iteration"] == 4, "{stall}");
    assert_eq!(stall["consumed_samples"], 3 * GLOBAL);
    assert!(stall["waited_s"].as_f64().unwrap() > 0.1, "{stall}");
    let samples = stall["samples"].as_array().unwrap();
    assert!(samples.len() == GLOBAL as usize && samples.iter().all(|s| s["documents"].is_array()), "{stall}");
    let number = |step: u64, key: &str| {
        let record = all.iter().find(|r| r["iteration"] == step && r.get("event").is_none()).unwrap();
        record[key].as_f64().unwrap()
    };
    let waited = |step: u64| number(step, "data_wait_ms");
    // The share is of the step's own time, in which the waiting lies.
    for step in [4, 6] {
        let share = number(step, "data_wait_share");
        assert!((0.0..=1.0).contains(&share), "{share}");
        assert!((share - waited(step) / number(step, "elapsed_ms")).abs() < 1e-9, "{share}");
    }
    assert!(waited(4) >= 100.0 && waited(6) < 100.0, "{} and {}", waited(4), waited(6));
    assert!(shard(&slow, 6) == shard(&plain, 6), "waiting changed the run");
}

fn with_nan(source: Arc<dyn BatchSource>) -> Arc<dyn BatchSource> {
    let alter = |consumed, micro_batch, batch: &mut Batch| {
        if (consumed, micro_batch) == (2 * GLOBAL, 1) {
            batch.loss_mask[7] = f32::NAN;
        }
    };
    Arc::new(Altered { source, alter })
}

fn with_foreign_id(source: Arc<dyn BatchSource>) -> Arc<dyn BatchSource> {
    let alter = |consumed, micro_batch, batch: &mut Batch| {
        if (consumed, micro_batch) == (2 * GLOBAL, 0) {
            batch.tokens[3] = 320;
        }
    };
    Arc::new(Altered { source, alter })
}

#[test]
fn a_broken_batch_is_named_and_what_was_trained_before_is_saved() {
    let folder = Folder::new("broken");
    let plain = folder.0.join("plain");
    run(&plain, &["train.exit_interval=2"], |source| source).unwrap();
    for (name, batches, words) in [
        ("nan", with_nan as fn(Arc<dyn BatchSource>) -> Arc<dyn BatchSource>, ["loss mask", "NaN at position 7"]),
        ("id", with_foreign_id, ["token ids", "id 320 at position 3 is outside the vocabulary of 320"]),
    ] {
        let dir = folder.0.join(name);
        let failure = run(&dir, &[], batches).unwrap_err();
        assert_eq!(failure.exit, Exit::Invalid, "{failure}");
        for word in words.into_iter().chain(["step 2 is saved, resume from it"]) {
            assert!(failure.message.contains(word), "`{word}` is missing: {failure}");
        }
        assert!(shard(&dir, 2) == shard(&plain, 2), "{name}: the half step left something behind");
        // The run goes on when the data is whole again, and ends as if nothing had been.
        run(&dir, &["train.exit_interval=4"], |source| source).unwrap();
    }
    run(&plain, &["train.exit_interval=4"], |source| source).unwrap();
    assert!(shard(&folder.0.join("nan"), 4) == shard(&plain, 4), "weights differ");
}

/// A clock that a time server sets back by 500 seconds after a few readings.
fn falling() -> WallClock {
    let mut readings = 0;
    WallClock::new(move || {
        readings += 1;
        1.7e9 + 0.5 * f64::from(readings) - if readings > 3 { 500.0 } else { 0.0 }
    })
}

/// Seconds of the events of a file.
fn times(path: &Path) -> Vec<f64> {
    let bytes = fs::read(path).unwrap();
    let time = |event: &&[u8]| f64::from_le_bytes(event[1..9].try_into().unwrap());
    frames(&bytes).iter().inspect(|e| assert_eq!(e[0], 0x09)).map(time).collect()
}

#[test]
fn a_clock_that_goes_back_is_told_once_and_time_stamps_never_fall() {
    let folder = Folder::new("clock");
    let dir = folder.0.join("run");
    let batches: fn(Arc<dyn BatchSource>) -> Arc<dyn BatchSource> = |source| source;
    train_in(request(&dir, &["train.exit_interval=4"]), &Surroundings { clock: falling, batches }).unwrap();
    let told: Vec<Value> = records(&dir).into_iter().filter(|r| r["event"] == "clock").collect();
    assert!(told.len() == 1 && (told[0]["went_back_s"].as_f64().unwrap() - 499.5).abs() < 0.1, "{told:?}");
    // The next process starts on a clock of an hour ago.
    let earlier = || WallClock::new(|| 1.7e9 - 3600.0);
    train_in(request(&dir, &[]), &Surroundings { clock: earlier, batches }).unwrap();
    let mut files: Vec<PathBuf> = fs::read_dir(dir.join("tensorboard")).unwrap().flatten().map(|e| e.path()).collect();
    files.sort();
    let tensorboard = files.iter().map(|p| times(p)).collect::<Vec<_>>();
    assert!(tensorboard.len() == 2 && tensorboard.iter().all(|t| t.is_sorted()), "{tensorboard:?}");
    // Readers order files by name: the second one, whatever the clock said.
    let name = |at: usize| files[at].file_name().unwrap().to_string_lossy().into_owned();
    assert!(name(0).contains("1700000000") && name(1).contains("1700000001"), "{files:?}");
    let steps: Vec<u64> =
        records(&dir).iter().filter(|r| r.get("event").is_none()).filter_map(|r| r["iteration"].as_u64()).collect();
    assert_eq!(steps, [1, 2, 3, 4, 5, 6]);
}
