//! Resident memory of a conversion: bounded by the number of workers, whatever the model.

use super::*;
use lightning_core::config::{LayerKind, ModelConfig};
use lightning_train::convert::stream::{MEMORY_PER_WORKER, MOST_WORKERS};
use lightning_train::convert::{export, import};

/// What the process needs beside its workers: program, headers, index, census.
const BESIDE: usize = 64 << 20;

/// A model of dense layers whose matrices are larger than what a worker holds at once.
fn dense() -> ModelConfig {
    let matrices = MOST_WORKERS / 2;
    ModelConfig {
        vocab: 64,
        hidden: 512,
        layers: vec![LayerKind::Mlp; matrices],
        mlp_width: Some(5000),
        attention: None,
        mamba: None,
        moe: None,
        mtp: None,
        ..small_model()
    }
}

/// Peak resident bytes of this process since it began.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Runs as a process of its own: imports and exports with every worker, then says how much memory that took.
#[test]
fn child_converts_and_reports_its_memory() {
    let Some(folder) = std::env::var_os("LIGHTNING_TEST_MEMORY") else { return };
    let path = |name: &str| Path::new(&folder).join(name).display().to_string();
    let mut args = import_args(&path("source"), &path("ours"));
    args.workers = Some(MOST_WORKERS);
    import::run(&args).unwrap();
    // Types change, so that all buffers of a worker are in use; every matrix has a file of its own.
    let mut args = export_args(&path("ours"), &path("out"));
    (args.workers, args.max_shard_size, args.torch_dtype) = (Some(MOST_WORKERS), 1, Some("float32".into()));
    export::run(&args).unwrap();
    fs::write(Path::new(&folder).join("peak"), peak().to_string()).unwrap();
}

#[test]
fn resident_memory_stays_under_what_is_stated_with_every_worker() {
    // The limit that the help states, for any model.
    const { assert!(MOST_WORKERS * MEMORY_PER_WORKER + BESIDE < 1 << 30) };
    let s = Scratch::new("memory");
    synthetic::write(&s.path("source"), &dense(), MOST_WORKERS, Data::Sparse).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["memory::child_converts_and_reports_its_memory", "--exact"]).env("LIGHTNING_TEST_MEMORY", &s.0);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let peak: usize = fs::read_to_string(s.path("peak")).unwrap().parse().unwrap();
    let limit = MOST_WORKERS * MEMORY_PER_WORKER + BESIDE;
    assert!(peak < limit, "{peak} bytes resident, {limit} are stated");
    // The f32 copies alone would be 160 MB if whole tensors were held.
    let elements = lightning_core::layout::Layout::new(&dense()).element_count();
    assert!(elements * 4 > 150 << 20);
}
