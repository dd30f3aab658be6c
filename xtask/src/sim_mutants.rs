//! `cargo xtask sim-mutants`: plants faults in kernels and reports which of them the virtual GPU finds.
//!
//! The sampling and the launches are an example program of `kernels-sys`; this verb compiles the TMA and wgmma pipeline
//! that some of the mutants come from, which is no part of the product.

use std::process::Command;

use argh::FromArgs;

use crate::failure::{Result, create_folder};
use crate::process::{cargo, root, run, target_dir, text};
use crate::setup_cuda;

/// plant faults in kernels (of the families below and of a TMA and wgmma pipeline) and count those that are found
#[derive(FromArgs)]
#[argh(subcommand, name = "sim-mutants")]
pub struct SimMutants {
    /// seed of the sample (default 1)
    #[argh(option, default = "1")]
    seed: u64,
    /// number of mutants (default 20)
    #[argh(option, default = "20")]
    count: u64,
    /// draw from this module alone, such as norm/rms_norm, gemm/gemm, mamba/ssd_states, pipeline
    #[argh(option)]
    family: Option<String>,
    /// run every mutant whose line in the list contains this, in place of a sample
    #[argh(option)]
    only: Option<String>,
    /// fail unless this share of the mutants is found, in percent
    #[argh(option)]
    at_least: Option<u32>,
    /// print the result as JSON
    #[argh(switch)]
    json: bool,
    /// print all mutation sites and stop
    #[argh(switch)]
    list: bool,
}

impl SimMutants {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        let nvcc = setup_cuda::ensure(false)?.join("bin/nvcc");
        let folder = target_dir().join("mutants");
        create_folder(&folder)?;
        let pipeline = folder.join("gemm_pipeline.ptx");
        text(
            Command::new(nvcc)
                .args(["-ptx", "-arch=sm_90a", "-std=c++17", "-lineinfo", "-Werror=all-warnings", "-I", "csrc/include"])
                .arg("xtask/mutants/gemm_pipeline.cu")
                .arg("-o")
                .arg(&pipeline)
                .current_dir(root()),
        )?;
        let mut command = cargo();
        command
            .env("LIGHTNING_CUDA", "require")
            .args(["run", "--release", "--quiet", "--package", "kernels-sys", "--example", "sim_mutants", "--"])
            .arg("--pipeline")
            .arg(&pipeline)
            .args(["--seed", &self.seed.to_string(), "--count", &self.count.to_string()]);
        if let Some(family) = &self.family {
            command.args(["--family", family]);
        }
        if let Some(text) = &self.only {
            command.args(["--only", text]);
        }
        if let Some(percent) = self.at_least {
            command.args(["--at-least", &percent.to_string()]);
        }
        if self.json {
            command.arg("--json");
        }
        if self.list {
            command.arg("--list");
        }
        run(&mut command)
    }
}
