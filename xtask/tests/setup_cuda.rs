//! `cargo xtask setup-cuda` on machines that lack something: the error says what, and a toolkit that is there survives.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A scratch folder of one test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a scratch folder");
    folder
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("an executable script");
}

/// The verb, without what the environment of the tests says about CUDA and Python.
fn setup_cuda(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("setup-cuda").args(arguments).env_remove("CUDA_HOME").env_remove("PYTHON");
    command
}

fn error_of(output: &Output) -> String {
    assert!(!output.status.success(), "it must fail");
    assert!(output.stdout.is_empty(), "a failed run prints no CUDA home");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The toolkit of the repository is as complete after a failed run as before.
fn complete() -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/cuda/toolkit-complete.txt").is_file()
}

#[test]
fn own_toolkit_that_is_too_old_is_refused_by_its_version() {
    let home = scratch("cuda-12");
    script(&home.join("bin/nvcc"), "echo 'Cuda compilation tools, release 12.9, V12.9.86'");
    let error = error_of(&setup_cuda(&[]).env("CUDA_HOME", &home).output().expect("xtask"));
    for part in ["CUDA_HOME=", "CUDA 12.9", "13.0 or newer", "Unset CUDA_HOME"] {
        assert!(error.contains(part), "no `{part}` in: {error}");
    }
}

#[test]
fn own_toolkit_that_is_new_enough_is_used() {
    let home = scratch("cuda-14");
    script(&home.join("bin/nvcc"), "echo 'Cuda compilation tools, release 14.1, V14.1.7'");
    let output = setup_cuda(&[]).env("CUDA_HOME", &home).output().expect("xtask");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), home.to_string_lossy());
}

#[test]
fn cuda_home_without_nvcc_is_an_error() {
    let home = scratch("cuda-empty");
    let error = error_of(&setup_cuda(&[]).env("CUDA_HOME", &home).output().expect("xtask"));
    assert!(error.contains("bin/nvcc does not exist"), "{error}");
}

#[test]
fn no_python_says_what_to_install_by_hand() {
    let before = complete();
    let empty = scratch("no-python");
    let error = error_of(&setup_cuda(&["--force"]).env("PATH", &empty).output().expect("xtask"));
    for part in ["no Python 3.9 or newer", "install the CUDA toolkit 13.0 or newer by hand", "set CUDA_HOME"] {
        assert!(error.contains(part), "no `{part}` in: {error}");
    }
    assert_eq!(complete(), before);
}

#[test]
fn no_pip_says_how_to_get_it() {
    let python = scratch("no-pip").join("python");
    script(&python, "[ \"$1\" = -c ]");
    let error = error_of(&setup_cuda(&["--force"]).env("PYTHON", &python).output().expect("xtask"));
    for part in ["has no pip", "apt install python3-pip", "by hand"] {
        assert!(error.contains(part), "no `{part}` in: {error}");
    }
}

#[test]
fn no_network_shows_what_pip_said_and_keeps_the_toolkit() {
    let before = complete();
    let python = scratch("no-network").join("python");
    script(&python, "[ \"$1\" = -c ] || [ \"$3\" = --version ] || { echo 'ERROR: No route to host' >&2; exit 1; }");
    let error = error_of(&setup_cuda(&["--force"]).env("PYTHON", &python).output().expect("xtask"));
    for part in ["No route to host", "no network", "by hand"] {
        assert!(error.contains(part), "no `{part}` in: {error}");
    }
    assert_eq!(complete(), before);
}
