//! `cargo xtask fake-checkpoint`: a checkpoint with the names of the full model, without training one.
//!
//! The generator is an example program of `lightning-train`, which knows the model.

use std::path::PathBuf;

use argh::FromArgs;

use crate::failure::Result;
use crate::process::{cargo, run};

/// write a checkpoint of the family with all 6,513 names: --scale 1 --sparse for the full sizes in files that take no
/// space, --scale 16 for a member of the family with random values
#[derive(FromArgs)]
#[argh(subcommand, name = "fake-checkpoint")]
pub struct FakeCheckpoint {
    /// folder to write
    #[argh(option)]
    out: PathBuf,
    /// divisor of the widths (default 16)
    #[argh(option, default = "16")]
    scale: usize,
    /// number of files (default 14)
    #[argh(option, default = "14")]
    files: usize,
    /// seed of the values (default 1)
    #[argh(option, default = "1")]
    seed: u64,
    /// headers only, in files as long as the real ones
    #[argh(switch)]
    sparse: bool,
}

impl FakeCheckpoint {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        let out = std::path::absolute(&self.out).unwrap_or(self.out);
        let mut command = cargo();
        command.args(["run", "--release", "--quiet", "-p", "lightning-train"]).args([
            "--example",
            "fake_checkpoint",
            "--",
        ]);
        command.arg("--out").arg(out);
        command.args(["--scale", &self.scale.to_string()]);
        command.args(["--files", &self.files.to_string()]);
        command.args(["--seed", &self.seed.to_string()]);
        if self.sparse {
            command.arg("--sparse");
        }
        run(&mut command)
    }
}
