//! The examples in C++ and Rust run on the virtual GPU and agree with the host.

#[path = "../../tests/gpu/driver.rs"]
mod driver;
#[path = "../../lightning-core/examples/foreign_memory.rs"]
#[allow(dead_code)]
mod foreign_memory;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the libraries that cargo built beside this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.parent().expect("a folder").to_path_buf()
}

/// The folder of `cuda.h`.
fn cuda_headers() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let homes = [std::env::var_os("CUDA_HOME").map(PathBuf::from), Some(root.join("target/cuda/nvidia/cu13"))];
    let folders = homes.into_iter().flatten().map(|home| home.join("include"));
    folders.into_iter().find(|f| f.join("cuda.h").is_file()).expect("cuda.h; run `cargo xtask setup-cuda`")
}

#[test]
fn the_example_in_rust() {
    foreign_memory::main().expect("it agrees with the CPU device");
}

#[test]
fn the_example_in_cpp() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = built();
    assert!(libraries.join("liblightning.so").is_file(), "no liblightning.so in {}", libraries.display());
    let virtual_driver = driver::folder().expect("libptx_sim.so beside this test");
    let program = libraries.join(format!("ssd_experts-{}", std::process::id()));
    let compiled = Command::new("g++")
        .args(["-std=c++17", "-O1", "-Wall", "-Werror"])
        .arg("-I")
        .arg(manifest.join("include"))
        .arg("-I")
        .arg(cuda_headers())
        .arg(manifest.join("examples/ssd_experts.cpp"))
        .arg("-L")
        .arg(&libraries)
        .arg("-llightning")
        .arg("-L")
        .arg(&virtual_driver)
        .arg("-lcuda")
        .arg("-o")
        .arg(&program)
        .output()
        .expect("g++ starts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let path = std::env::join_paths([&libraries, &virtual_driver]).expect("folders without colons");
    let ran = Command::new(&program).env("LD_LIBRARY_PATH", path).env("LIGHTNING_SIM_MEMORY", "1G").output();
    _ = std::fs::remove_file(&program);
    let ran = ran.expect("the example starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("all results agree"), "{said}");
}
