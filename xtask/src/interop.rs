//! `cargo xtask interop`: checkpoints and adapters between this program, transformers and peft.

use std::path::{Path, PathBuf};
use std::process::Command;

use argh::FromArgs;

use crate::failure::Result;
use crate::process::{cargo, remove_folder, root, run, target_dir};
use crate::python::Python;

/// load what this program exports with transformers, read what transformers saves, and exchange adapters with peft
#[derive(FromArgs)]
#[argh(subcommand, name = "interop")]
pub struct Interop {
    /// interpreter that has the packages of tests/interop/requirements.txt; without it an environment is made under the
    /// target folder (a download of about 3 GB)
    #[argh(option)]
    python: Option<PathBuf>,
}

impl Interop {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        let python = match self.python {
            Some(python) => python,
            None => environment(&target_dir().join("interop-python"), "tests/interop/requirements.txt")?,
        };
        let mut build = cargo();
        build.args(["build", "--release", "-p", "lightning-train", "--bins"]);
        run(build.args(["--example", "rewrite_adapter"]))?;
        let release = target_dir().join("release");
        let work = target_dir().join("interop");
        remove_folder(&work)?;
        run(Command::new(python)
            .arg(root().join("tests/interop/interop.py"))
            .arg("--program")
            .arg(release.join("lightning-train"))
            .arg("--rewrite-adapter")
            .arg(release.join("examples/rewrite_adapter"))
            .arg("--golden")
            .arg(root().join("tests/golden/model"))
            .arg("--work")
            .arg(&work))?;
        remove_folder(&work)
    }
}

/// Makes an environment with the packages of a requirements file of the repository, once, and returns its interpreter.
pub fn environment(folder: &Path, requirements: &str) -> Result<PathBuf> {
    let interpreter = folder.join("bin/python");
    let ready = folder.join("ready");
    if ready.is_file() {
        return Ok(interpreter);
    }
    let by_hand = format!("pass --python an interpreter that has the packages of {requirements}");
    remove_folder(folder)?;
    run(Python::find(&by_hand)?.command().args(["-m", "venv"]).arg(folder))?;
    run(Command::new(&interpreter)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--requirement"])
        .arg(root().join(requirements)))?;
    crate::failure::write_file(&ready, "")?;
    Ok(interpreter)
}
