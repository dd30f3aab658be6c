//! `cargo xtask checkpoint-speed`: import and export beside `dd` and the safetensors package of Python.

use std::path::PathBuf;
use std::process::Command;

use argh::FromArgs;

use crate::failure::Result;
use crate::interop::environment;
use crate::process::{cargo, remove_folder, root, run, target_dir};

/// copy a checkpoint of 4 GB by import, by export, by dd and by the safetensors package, in turn; needs 13 GB of disk and
/// fails when import or export is below 80 % of dd, slower than the package, or takes more than a tenth of its memory
#[derive(FromArgs)]
#[argh(subcommand, name = "checkpoint-speed")]
pub struct CheckpointSpeed {
    /// interpreter that has the packages of tests/interop/speed_requirements.txt; without it an environment is made under
    /// the target folder (a download of about 25 MB)
    #[argh(option)]
    python: Option<PathBuf>,
    /// divisor of the model's widths (default 4: 4.1 GB)
    #[argh(option, default = "4")]
    scale: usize,
    /// how often everything is measured (default 3)
    #[argh(option, default = "3")]
    rounds: usize,
    /// largest file of the export and of the package, in bytes (default 5000000000, the export's own)
    #[argh(option, default = "5_000_000_000")]
    max_shard_size: u64,
    /// folder to work in, on the disk to be measured (default: under the target folder)
    #[argh(option)]
    work: Option<PathBuf>,
    /// only make the checkpoint and the programs, to measure later on a quiet machine
    #[argh(switch)]
    prepare: bool,
}

impl CheckpointSpeed {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        let python = match self.python {
            Some(python) => python,
            None => environment(&target_dir().join("speed-python"), "tests/interop/speed_requirements.txt")?,
        };
        run(cargo().args(["build", "--release", "-p", "lightning-train", "--bins", "--example", "fake_checkpoint"]))?;
        let release = target_dir().join("release");
        let work = self.work.unwrap_or_else(|| target_dir().join("checkpoint-speed"));
        let source = work.join(format!("source-{}", self.scale));
        if !source.join("config.json").is_file() {
            run(Command::new(release.join("examples/fake_checkpoint"))
                .args(["--scale", &self.scale.to_string(), "--out"])
                .arg(&source))?;
        }
        if self.prepare {
            return Ok(());
        }
        run(Command::new(python)
            .arg(root().join("tests/interop/checkpoint_speed.py"))
            .arg("--program")
            .arg(release.join("lightning-train"))
            .arg("--source")
            .arg(&source)
            .arg("--work")
            .arg(work.join("copies"))
            .args(["--rounds", &self.rounds.to_string()])
            .args(["--max-shard-size", &self.max_shard_size.to_string()]))?;
        remove_folder(&work)
    }
}
