//! `doctor` and the GPU: without a driver, with the virtual one, and with what is none.
#![cfg(feature = "gpu")]

mod scratch;

use scratch::{Scratch, expect, program};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The virtual GPU's library, which cargo builds beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap();
    let places = [beside.join("libptx_sim.so"), beside.join("../libptx_sim.so")];
    places.into_iter().find(|path| path.exists()).expect("a dev-dependency of this package").canonicalize().unwrap()
}

/// A copy of the program alone in a folder: `sim/libcuda.so.1` may lie beside the one that cargo built.
fn doctor(s: &Scratch, args: &[&str]) -> Command {
    let alone = s.path("bin/lightning-train");
    if !alone.exists() {
        fs::create_dir_all(alone.parent().unwrap()).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_lightning-train"), &alone).unwrap();
    }
    let words = [&["doctor", "--disk-megabytes", "1"], args].concat();
    let mut command = Command::new(alone);
    command.args(words).current_dir(&s.0).env_remove("LD_LIBRARY_PATH").env_remove("LIGHTNING_SIM_LIB");
    for name in ["LIGHTNING_SIM_ARCH", "LIGHTNING_SIM_DEVICES", "LIGHTNING_SIM_MEMORY", "LIGHTNING_SIM", "CUDA_HOME"] {
        command.env_remove(name);
    }
    command
}

fn checks(output: &Output, what: &str) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["checks"].as_array().unwrap().iter().filter(|c| c["check"] == what).cloned().collect()
}

#[test]
fn the_virtual_gpu_is_found_by_variable_and_beside_the_program() {
    let s = Scratch::new("doctor-sim");
    let absent = kernels_sys::absent().is_some();
    let run = |beside: bool| {
        let mut command = doctor(&s, &["--json", "--device", "sim"]);
        if !beside {
            command.env("LIGHTNING_SIM_LIB", library());
        }
        command.env("LIGHTNING_SIM_DEVICES", "2").env("LIGHTNING_SIM_ARCH", "h200").env("LIGHTNING_SIM_MEMORY", "3G");
        command.output().unwrap()
    };
    let named = run(false);
    fs::create_dir_all(s.path("bin/sim")).unwrap();
    std::os::unix::fs::symlink(library(), s.path("bin/sim/libcuda.so.1")).unwrap();
    for out in [named, run(true)] {
        // Without nvcc this program has no kernels, and the report says that a run would fail.
        expect(&out, if absent { 7 } else { 0 }, &[]);
        let devices = checks(&out, "device");
        let of_sim: Vec<&Value> = devices.iter().filter(|d| d["value"]["virtual"] == true).collect();
        assert_eq!(of_sim.len(), 2, "{devices:?}");
        let value = &of_sim[1]["value"];
        assert_eq!(value["ordinal"], 1);
        assert_eq!(value["name"], "NVIDIA H200");
        assert_eq!(value["compute_capability"], "9.0");
        assert_eq!(value["architecture"], "sm_90a");
        assert_eq!(value["memory_bytes"], 3u64 << 30);
        assert_eq!(value["shared_bytes_per_block"], 232_448);
        assert_eq!(checks(&out, "virtual GPU")[0]["value"]["cuda"], "13.0");
        let kernels = &checks(&out, "kernels")[0];
        assert_eq!(kernels["value"]["images"].as_array().unwrap().is_empty(), absent);
        assert_eq!(kernels["verdict"], if absent { "FAIL" } else { "ok" });
    }
}

#[test]
fn a_driver_on_the_loaders_path_is_told_from_a_real_one() {
    let s = Scratch::new("doctor-driver");
    fs::create_dir_all(s.path("lib")).unwrap();
    std::os::unix::fs::symlink(library(), s.path("lib/libcuda.so.1")).unwrap();
    let out = doctor(&s, &["--json"]).env("LD_LIBRARY_PATH", s.path("lib")).output().unwrap();
    expect(&out, 0, &[]);
    let driver = &checks(&out, "GPU driver")[0]["value"];
    assert_eq!((driver["kind"].as_str(), driver["cuda"].as_str()), (Some("virtual"), Some("13.0")));
    assert_eq!(checks(&out, "device").len(), 1);
    let text = doctor(&s, &[]).env("LD_LIBRARY_PATH", s.path("lib")).output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for word in ["libcuda.so.1, virtual", "NVIDIA H100 80GB HBM3 (virtual)", "132 multiprocessors", "NCCL", "limits"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn what_is_missing_fails_only_where_it_is_wanted() {
    let s = Scratch::new("doctor-absent");
    expect(&doctor(&s, &["--device", "cpu"]).output().unwrap(), 0, &[]);
    let out = doctor(&s, &["--device", "sim"]).output().unwrap();
    expect(&out, 7, &["virtual GPU"]);
    assert!(String::from_utf8_lossy(&out.stdout).contains("cargo xtask sim"));
    // A library folder without a driver hides none that the system has.
    if checks(&doctor(&s, &["--json"]).output().unwrap(), "GPU driver")[0]["value"]["present"] == false {
        let out = doctor(&s, &["--device", "cuda"]).output().unwrap();
        expect(&out, 7, &["GPU driver"]);
        assert!(String::from_utf8_lossy(&out.stdout).contains("install the NVIDIA driver"));
    }
    expect(&doctor(&s, &["--device", "tpu"]).output().unwrap(), 2, &["auto, cpu, cuda, sim"]);
}

#[test]
fn a_library_that_is_no_driver_is_an_answer() {
    let s = Scratch::new("doctor-broken");
    fs::write(s.path("text.so"), "no library").unwrap();
    let out = doctor(&s, &["--json", "--device", "sim"]).env("LIGHTNING_SIM_LIB", s.path("text.so")).output().unwrap();
    expect(&out, 7, &["virtual GPU"]);
    let out = doctor(&s, &["--json", "--device", "sim"]).env("LIGHTNING_SIM_LIB", "libc.so.6").output().unwrap();
    expect(&out, 7, &["virtual GPU"]);
    assert!(checks(&out, "virtual GPU")[0]["found"].as_str().unwrap().contains("no cuInit"));
    let mut command = doctor(&s, &["--json", "--device", "sim"]);
    let out = command.env("LIGHTNING_SIM_LIB", library()).env("LIGHTNING_SIM_ARCH", "b200").output().unwrap();
    expect(&out, 7, &["virtual GPU", "LIGHTNING_SIM_ARCH"]);
    // None of this matters to a run on the processor.
    let out = doctor(&s, &["--device", "cpu"]).env("LIGHTNING_SIM_LIB", s.path("text.so")).output().unwrap();
    expect(&out, 0, &[]);
}

#[test]
fn the_compiler_is_named_with_its_release() {
    let s = Scratch::new("doctor-nvcc");
    let home = s.path("cuda");
    fs::create_dir_all(home.join("bin")).unwrap();
    let nvcc = home.join("bin/nvcc");
    fs::write(&nvcc, "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.1'\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&nvcc, mode).unwrap();
    let out = doctor(&s, &["--json"]).env("CUDA_HOME", &home).output().unwrap();
    expect(&out, 0, &[]);
    let toolkit = &checks(&out, "CUDA toolkit")[0];
    assert_eq!((toolkit["verdict"].as_str(), toolkit["value"]["release"].as_str()), (Some("warning"), Some("12.4")));
    assert!(toolkit["found"].as_str().unwrap().contains("cargo xtask setup-cuda"));
    // The program that cargo built stands for the installed one.
    expect(&program(&s, &["doctor", "--help"]).output().unwrap(), 0, &[]);
}
