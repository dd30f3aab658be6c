//! `cargo xtask sim`: the virtual GPU's driver library, built and put where the program looks for it.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use argh::FromArgs;

use crate::failure::{Failure, Result, create_folder};
use crate::process::{cargo, shown, target_dir};

/// build the virtual GPU's driver library into target/release/sim/libcuda.so.1
#[derive(FromArgs)]
#[argh(subcommand, name = "sim")]
pub struct Sim {}

impl Sim {
    /// Runs the verb and prints the path of the library on standard output.
    pub fn run(self) -> Result<()> {
        println!("{}", build()?.display());
        Ok(())
    }
}

/// Builds the library and returns its path.
pub fn build() -> Result<PathBuf> {
    let built = build_cdylib()?;
    let folder = target_dir().join("release/sim");
    create_folder(&folder)?;
    let library = folder.join("libcuda.so.1");
    // A running program may have the old one mapped: it keeps the old file, the new one takes the name.
    let fresh = folder.join("libcuda.so.1.new");
    fs::copy(&built, &fresh).map_err(|e| Failure::io("copy to", &fresh, &e))?;
    fs::rename(&fresh, &library).map_err(|e| Failure::io("move into place", &library, &e))?;
    // The name that linkers look for.
    let link = folder.join("libcuda.so");
    if fs::symlink_metadata(&link).is_err() {
        #[cfg(unix)]
        std::os::unix::fs::symlink("libcuda.so.1", &link).map_err(|e| Failure::io("link", &link, &e))?;
    }
    Ok(library)
}

fn build_cdylib() -> Result<PathBuf> {
    let mut command = cargo();
    command
        .args(["build", "--release", "--package", "ptx-sim", "--lib", "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit());
    let output = command.output().map_err(|e| Failure::new(format!("cannot start `{}`: {e}", shown(&command))))?;
    if !output.status.success() {
        return Err(Failure::new(format!("`{}` ended with {}", shown(&command), output.status)));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == "ptx_sim")
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .filter_map(|name| name.as_str().map(PathBuf::from))
        .find(|path| path.extension().is_some_and(|e| e == "so"))
        .ok_or_else(|| {
            Failure::new("ptx-sim built no shared library: its Cargo.toml must say crate-type = [\"lib\", \"cdylib\"]")
        })
}
