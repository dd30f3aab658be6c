//! A folder for one test, and the program run inside it.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder that is removed at the end of a test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("lightning-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn program<S: AsRef<str>>(scratch: &Scratch, args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lightning-train"));
    command
        .args(args.iter().map(|a| a.as_ref()))
        .current_dir(&scratch.0)
        .env("LIGHTNING_CACHE", scratch.path("cache"))
        .stdin(Stdio::null());
    for name in ["WORLD_SIZE", "RANK", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_ID"] {
        command.env_remove(name);
    }
    command
}

pub fn run<S: AsRef<str>>(scratch: &Scratch, args: &[S]) -> Output {
    program(scratch, args).output().expect("the program starts")
}

#[track_caller]
pub fn expect(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in:\n{text}");
    }
}

/// Numbers in words' order, in `files` files of `lines` lines.
pub fn corpus(dir: &Path, files: usize, lines: usize) {
    fs::create_dir_all(dir).unwrap();
    for f in 0..files {
        let line = |i: usize| format!("{} plus {} is {}\n", f + i, i % 13, f + i + i % 13);
        fs::write(dir.join(format!("{f:03}.txt")), (0..lines).map(line).collect::<String>()).unwrap();
    }
}

/// A small model of every layer kind on a small corpus.
pub fn small(scratch: &Scratch, extra: &[&str]) -> Vec<String> {
    let data = scratch.path("text");
    if !data.exists() {
        corpus(&data, 24, 120);
    }
    let fixed = [
        "train",
        "--recipe",
        "demo_pretrain_config",
        "--data",
        &data.display().to_string(),
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
        "dataset.vocab_size=320",
        "model.seq_length=40",
        "train.global_batch_size=4",
        "train.micro_batch_size=2",
        "train.train_iters=6",
        "scheduler.lr_warmup_iters=2",
        "validation.eval_interval=3",
        "validation.eval_iters=1",
        "checkpoint.save_interval=3",
        "checkpoint.most_recent_k=null",
        "device.threads=2",
    ];
    fixed.iter().chain(extra).map(|s| s.to_string()).collect()
}

pub fn records(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

pub fn events(path: &Path, name: &str) -> Vec<serde_json::Value> {
    records(path).into_iter().filter(|r| r["event"] == name).collect()
}

pub fn steps(path: &Path) -> Vec<serde_json::Value> {
    records(path).into_iter().filter(|r| r.get("event").is_none()).collect()
}

/// A child whose standard error goes to a file in the scratch folder.
pub fn start<S: AsRef<str>>(scratch: &Scratch, args: &[S]) -> Child {
    let log = fs::File::create(scratch.path("stderr")).unwrap();
    program(scratch, args).stdout(Stdio::null()).stderr(log).spawn().expect("the program starts")
}

pub fn said(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.path("stderr")).unwrap_or_default()
}

/// Waits until `ready` or the child's end; panics after two minutes.
#[track_caller]
pub fn wait_until(child: &mut Child, what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(child.try_wait().unwrap().is_none(), "the program ended before {what}");
        assert!(start.elapsed() < Duration::from_secs(120), "no {what} after two minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// The step of the newest complete checkpoint.
pub fn tracker(checkpoints: &Path) -> Option<u64> {
    fs::read_to_string(checkpoints.join("latest_checkpointed_iteration.txt")).ok()?.trim().parse().ok()
}

/// The bytes of a checkpoint's shard.
pub fn shard(run: &Path, step: u64) -> Vec<u8> {
    fs::read(run.join(format!("checkpoints/iter_{step:07}/shard-00000-of-00001.safetensors"))).unwrap()
}
