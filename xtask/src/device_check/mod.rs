//! `cargo xtask device-check`: everything that a machine with a GPU but without Rust needs to check the kernels.
//!
//! The pack holds the tests of the GPU device, the program, this program (which runs the checks there), the golden files
//! and NVIDIA's compute-sanitizer, in one archive.

mod run;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use argh::FromArgs;

use crate::failure::{Failure, Result, create_folder, write_file};
use crate::process::{cargo, remove_folder, root, run as run_command, shown, target_dir};
use crate::python::Python;

/// Largest archive: what a slow link and a short loan of a machine bear.
const LARGEST_ARCHIVE: u64 = 60 << 20;
const SANITIZER: &str = "nvidia-cuda-sanitizer-api==13.0.85 \
    --hash=sha256:b1efff95f63b6fe40dc83801d598550542364393957775912a1abf396904331c\n";
const SANITIZER_FILES: &str = "nvidia/cu13/bin";
const START: &str = "#!/bin/sh\n# Checks the kernels on this machine's GPU; results go to the folder that is named, or `results`.\n\
    cd \"$(dirname \"$0\")\" && exec ./xtask device-check --run . \"$@\"\n";

/// pack the checks of the GPU device for a machine without Rust, or run a pack there
#[derive(FromArgs)]
#[argh(subcommand, name = "device-check")]
pub struct DeviceCheck {
    /// where the archive goes; default: target/device-check.tar.gz
    #[argh(option)]
    out: Option<PathBuf>,
    /// run the pack in this folder instead of making one
    #[argh(option)]
    run: Option<PathBuf>,
    /// folder of the results, with --run; default: results
    #[argh(option, default = "PathBuf::from(\"results\")")]
    results: PathBuf,
    /// with --run: only the checks whose name contains this
    #[argh(option)]
    only: Option<String>,
    /// pack without compute-sanitizer
    #[argh(switch)]
    without_sanitizer: bool,
}

impl DeviceCheck {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        match &self.run {
            Some(pack) => run::run(pack, &self.results, self.only.as_deref()),
            None => {
                pack(&self.out.unwrap_or_else(|| target_dir().join("device-check.tar.gz")), !self.without_sanitizer)
            }
        }
    }
}

fn pack(archive: &Path, with_sanitizer: bool) -> Result<()> {
    let mut build = cargo();
    build.env("LIGHTNING_CUDA", "require");
    run_command(build.args(["build", "--release", "--package", "lightning-train", "--package", "xtask", "--bins"]))?;
    let tests = test_binary()?;
    let folder = target_dir().join("device-check");
    remove_folder(&folder)?;
    create_folder(&folder)?;
    let release = target_dir().join("release");
    for (from, name) in
        [(tests, "gpu-tests"), (release.join("lightning-train"), "lightning-train"), (release.join("xtask"), "xtask")]
    {
        let to = folder.join(name);
        run_command(Command::new("objcopy").arg("--strip-debug").arg(&from).arg(&to))?;
    }
    copy_tree(&root().join("tests/golden/model"), &folder.join("golden"))?;
    if with_sanitizer {
        let unpacked = target_dir().join("device-check-sanitizer");
        remove_folder(&unpacked)?;
        let by_hand = "pass --without-sanitizer";
        Python::find(by_hand)?.install_into(&unpacked, SANITIZER, by_hand)?;
        copy_tree(&unpacked.join(SANITIZER_FILES), &folder.join("sanitizer"))?;
        remove_folder(&unpacked)?;
    }
    let start = folder.join("run.sh");
    write_file(&start, START)?;
    make_executable(&start)?;
    run_command(
        Command::new("tar")
            .arg("-czf")
            .arg(archive)
            .arg("-C")
            .arg(folder.parent().unwrap_or(&folder))
            .arg("device-check"),
    )?;
    let bytes = fs::metadata(archive).map_err(|e| Failure::io("look at", archive, &e))?.len();
    if bytes > LARGEST_ARCHIVE {
        return Err(Failure::new(format!(
            "{} has {} MB, more than the {} that it may have; pack with --without-sanitizer",
            archive.display(),
            bytes >> 20,
            LARGEST_ARCHIVE >> 20
        )));
    }
    println!("{}", archive.display());
    eprintln!(
        "{:.1} MB. On the machine with the GPU: tar -xzf {}, then device-check/run.sh",
        bytes as f64 / 1e6,
        archive.file_name().unwrap_or_default().to_string_lossy()
    );
    Ok(())
}

/// Builds the tests of the GPU device and returns their executable.
fn test_binary() -> Result<PathBuf> {
    let mut command = cargo();
    command.env("LIGHTNING_CUDA", "require").stderr(std::process::Stdio::inherit());
    command.args(["test", "--release", "--package", "lightning", "--test", "gpu", "--no-run", "--message-format=json"]);
    let output = command.output().map_err(|e| Failure::new(format!("cannot start `{}`: {e}", shown(&command))))?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|m| m["reason"] == "compiler-artifact" && m["target"]["name"] == "gpu")
        .find_map(|m| m["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| Failure::new(format!("`{}` ended with {} and made no test", shown(&command), output.status)))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    create_folder(to)?;
    for entry in fs::read_dir(from).map_err(|e| Failure::io("list", from, &e))? {
        let entry = entry.map_err(|e| Failure::io("list", from, &e))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_tree(&source, &target)?;
        } else {
            fs::copy(&source, &target).map_err(|e| Failure::io("copy", &source, &e))?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).map_err(|e| Failure::io("make executable", file, &e))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}
