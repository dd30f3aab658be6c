//! Runs on the virtual GPU: the same steps as on the processor, across devices, and what happens when memory or the device
//! fails.
#![cfg(feature = "gpu")]

mod scratch;

use scratch::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The virtual GPU's library under a driver's name, in the scratch folder.
fn library(s: &Scratch) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap();
    let places = [beside.join("libptx_sim.so"), beside.join("../libptx_sim.so")];
    let built =
        places.into_iter().find(|p| p.exists()).expect("a dev-dependency of this package").canonicalize().unwrap();
    let link = s.path("sim/libcuda.so.1");
    if fs::symlink_metadata(&link).is_err() {
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(built, &link).unwrap();
    }
    link
}

/// A small bf16 run in folder `dir`.
fn run_on(s: &Scratch, device: &str, dir: &str, overrides: &[&str]) -> Command {
    let dir = format!("logger.dir={dir}");
    let fixed = ["mixed_precision.precision=bf16_mixed", "validation.eval_interval=0"];
    let args = small(s, &[&[dir.as_str()], &fixed[..], overrides].concat());
    let mut command = program(s, &[args, vec!["--device".to_string(), device.to_string()]].concat());
    command.env("LIGHTNING_SIM_MEMORY", "1G");
    if device == "sim" {
        // As when the program has started itself again: a library beside the program may be older than the test's.
        command.env("LIGHTNING_SIM_ACTIVE", "1").env("LD_LIBRARY_PATH", library(s).parent().unwrap());
    }
    command
}

fn steps(s: &Scratch, dir: &str) -> Vec<Value> {
    let text = fs::read_to_string(s.path(&format!("{dir}/metrics.jsonl"))).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|r| r.get("event").is_none() && r.get("lm loss").is_some()).collect()
}

fn numbers(steps: &[Value], key: &str) -> Vec<f64> {
    steps.iter().map(|r| r[key].as_f64().unwrap()).collect()
}

#[track_caller]
fn assert_near(what: &str, got: &[f64], want: &[f64], bound: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= bound * want.abs(), "{what}: {got:?} and {want:?} beyond {bound}");
    }
}

/// Whether there are kernels to run; the test command requires them.
fn has_kernels() -> bool {
    kernels_sys::absent().is_none()
}

#[test]
fn steps_follow_the_processor_whatever_the_seed_and_with_and_without_graphs() {
    if !has_kernels() {
        return;
    }
    let s = Scratch::new("gpu-steps");
    let five = ["train.train_iters=5"];
    expect(&run_on(&s, "cpu", "cpu", &five).output().unwrap(), 0, &["cpu, "]);
    expect(&run_on(&s, "sim", "sim", &five).output().unwrap(), 0, &["the virtual GPU as", "done after step 5"]);
    let (cpu, sim) = (steps(&s, "cpu"), steps(&s, "sim"));
    for key in ["lm loss", "mtp_1 loss", "grad_norm", "learning_rate"] {
        assert_near(key, &numbers(&sim, key), &numbers(&cpu, key), 0.02);
    }
    assert_eq!(numbers(&sim, "consumed_samples"), numbers(&cpu, "consumed_samples"));
    let other = |dir: &str, seed: &str, schedule: &str, overrides: &[&str]| {
        let mut command = run_on(&s, "sim", dir, &[&five, overrides].concat());
        command.env("LIGHTNING_SIM_SEED", seed).env("LIGHTNING_SIM_SCHEDULE", schedule);
        expect(&command.output().unwrap(), 0, &["done after step 5"]);
        assert!(shard(&s.path("sim"), 5) == shard(&s.path(dir), 5), "{dir}: weights differ");
    };
    other("launches", "7", "random", &["device.cuda_graph=false"]);
    other("turns", "8", "round-robin", &[]);
    // The program finds the library and starts itself again.
    let mut command = run_on(&s, "sim", "again", &["train.train_iters=1"]);
    command.env_remove("LIGHTNING_SIM_ACTIVE").env_remove("LD_LIBRARY_PATH").env("LIGHTNING_SIM_LIB", library(&s));
    expect(&command.output().unwrap(), 0, &["the virtual GPU as", "done after step 1"]);
}

#[test]
fn a_run_goes_on_on_another_device_and_resumes_bitwise_on_its_own() {
    if !has_kernels() {
        return;
    }
    let s = Scratch::new("gpu-resume");
    expect(&run_on(&s, "cpu", "cpu", &["train.train_iters=4"]).output().unwrap(), 0, &[]);
    let half = ["train.train_iters=4", "train.exit_interval=2"];
    expect(&run_on(&s, "cpu", "mixed", &half).output().unwrap(), 0, &["done after step 2"]);
    let out = run_on(&s, "sim", "mixed", &["train.train_iters=4"]).output().unwrap();
    expect(&out, 0, &["resuming after step 2", "done after step 4"]);
    assert_near("loss", &numbers(&steps(&s, "mixed"), "lm loss"), &numbers(&steps(&s, "cpu"), "lm loss"), 0.02);

    expect(&run_on(&s, "sim", "whole", &["train.train_iters=4"]).output().unwrap(), 0, &[]);
    expect(&run_on(&s, "sim", "parts", &half).output().unwrap(), 0, &["done after step 2"]);
    expect(&run_on(&s, "sim", "parts", &["train.train_iters=4"]).output().unwrap(), 0, &["resuming after step 2"]);
    assert!(shard(&s.path("whole"), 4) == shard(&s.path("parts"), 4), "weights differ");
    let losses = |dir: &str| numbers(&steps(&s, dir), "lm loss");
    assert_eq!(losses("whole"), losses("parts"));
}

#[test]
fn a_device_that_fails_in_a_step_leaves_the_last_checkpoint_and_says_what_failed() {
    if !has_kernels() {
        return;
    }
    let s = Scratch::new("gpu-fails");
    let args = ["train.train_iters=6", "checkpoint.save_interval=1", "device.cuda_graph=false"];
    let mut command = run_on(&s, "sim", "run", &args);
    let out = command.env("LIGHTNING_SIM_FAIL_AFTER", "1000").output().unwrap();
    expect(&out, 5, &["LIGHTNING_SIM_FAIL_AFTER", "CUDA_ERROR_ECC_UNCORRECTABLE"]);
    let saved = tracker(&s.path("run/checkpoints")).expect("a checkpoint before the fault");
    let out = run_on(&s, "sim", "run", &args).output().unwrap();
    expect(&out, 0, &[&format!("resuming after step {saved}"), "done after step 6"]);
    expect(&run_on(&s, "sim", "whole", &args).output().unwrap(), 0, &[]);
    assert!(shard(&s.path("whole"), 6) == shard(&s.path("run"), 6), "weights differ");
}

#[test]
fn a_plan_that_cannot_fit_is_refused_with_its_table_and_a_knob() {
    if !has_kernels() {
        return;
    }
    let s = Scratch::new("gpu-memory");
    let mut command = run_on(&s, "sim", "run", &["model.seq_length=4096"]);
    let out = command.env("LIGHTNING_SIM_MEMORY", "2M").output().unwrap();
    expect(
        &out,
        4,
        &["the plan needs", "the memory of NVIDIA H100", "nothing was allocated", "arena", "weights", "saves"],
    );
    assert!(!s.path("run/metrics.jsonl").exists());
}

#[test]
fn nan_weights_are_found_by_operation_and_layer() {
    if !has_kernels() {
        return;
    }
    let s = Scratch::new("gpu-nan");
    // A learning rate without measure makes the second step overflow.
    let args = ["train.train_iters=4", "optimizer.lr=1e30", "scheduler.lr_warmup_iters=0", "train.check_finite=true"];
    let out = run_on(&s, "sim", "run", &args).output().unwrap();
    expect(&out, 0, &["first value that is not finite"]);
    let text = fs::read_to_string(s.path("run/metrics.jsonl")).unwrap();
    let found =
        text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).find(|r| r["first_not_finite"].is_object());
    let place = &found.expect("an event")["first_not_finite"];
    assert!(place["region"].as_str().unwrap().contains('/') && place["operation"].is_string(), "{place}");
}

#[test]
fn without_a_driver_a_gpu_is_an_error_and_auto_takes_the_processor() {
    let s = Scratch::new("gpu-absent");
    let mut command = run_on(&s, "cuda", "run", &[]);
    command.env("LD_LIBRARY_PATH", "").env("CUDA_VISIBLE_DEVICES", "");
    let out = command.output().unwrap();
    assert_eq!(out.status.code(), Some(5), "{}", String::from_utf8_lossy(&out.stderr));
    let mut command = run_on(&s, "auto", "run", &["train.train_iters=1"]);
    let out = command.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    expect(&out, 0, &["cpu, "]);
    // The library beside the program comes before the one that the variable names.
    let beside = Path::new(env!("CARGO_BIN_EXE_lightning-train")).with_file_name("sim/libcuda.so.1");
    if !beside.exists() {
        let mut command = run_on(&s, "sim", "run", &[]);
        command.env_remove("LIGHTNING_SIM_ACTIVE").env("LIGHTNING_SIM_LIB", s.path("nowhere/libcuda.so.1"));
        let out = command.output().unwrap();
        expect(&out, 5, &["nowhere", "cargo xtask sim"]);
    }
    let out = run_on(&s, "sim", "f32", &["mixed_precision.precision=f32"]).output().unwrap();
    expect(&out, 2, &["a GPU computes in bf16"]);
}
