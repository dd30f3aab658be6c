//! `cargo xtask test`: everything that has to pass before a change goes in, step by step.

use std::process::Command;
use std::time::Instant;

use argh::FromArgs;

use crate::failure::{Failure, Result};
use crate::process::{cargo, root, run, target_dir};
use crate::setup_cuda;

/// run every check: toolkit, format, lints, no_std proof, tests, checkpoints, kernel budgets, parameter blocks
#[derive(FromArgs)]
#[argh(subcommand, name = "test")]
pub struct Test {
    /// run only the steps whose name contains this
    #[argh(option)]
    only: Option<String>,
}

/// A step: its name and what it does.
type Step = (&'static str, fn() -> Result<()>);

const STEPS: &[Step] = &[
    ("CUDA toolkit", || setup_cuda::ensure(false).map(drop)),
    ("format", format),
    ("lints", lints),
    ("no_std proof", no_std_proof),
    ("tests", tests),
    ("checkpoints at a sixteenth", family_member),
    ("kernel budgets", || verb("kernel-facts", &[])),
    ("parameter blocks", || verb("bindgen", &["--check"])),
    ("foreign kernels", || verb("sim-conformance", &["--reduced"])),
    // One for each module of kernels; the seed is the verb's own.
    ("planted faults", || verb("sim-mutants", &["--count", "28", "--at-least", "80"])),
];

impl Test {
    /// Runs the steps in order and stops at the first that fails.
    pub fn run(self) -> Result<()> {
        let chosen: Vec<&Step> =
            STEPS.iter().filter(|(name, _)| self.only.as_ref().is_none_or(|only| name.contains(only))).collect();
        if chosen.is_empty() {
            let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
            return Err(Failure::new(format!("no step has such a name; there are: {}", names.join(", "))));
        }
        let mut seconds = Vec::new();
        for (name, step) in chosen {
            eprintln!("==> {name}");
            let started = Instant::now();
            let done = step();
            let took = started.elapsed().as_secs_f64();
            seconds.push(format!("{took:8.1} s  {name}"));
            if let Err(failure) = done {
                eprintln!("{}", seconds.join("\n"));
                return Err(Failure::new(format!("step `{name}` failed after {took:.1} s: {failure}")));
            }
            eprintln!("    {name}: {took:.1} s");
        }
        eprintln!("all steps passed\n{}", seconds.join("\n"));
        Ok(())
    }
}

/// `cargo` for the steps: kernels are wanted, not optional.
fn cargo_with_kernels() -> Command {
    let mut command = cargo();
    command.env("LIGHTNING_CUDA", "require");
    command
}

fn format() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    // No package owns the root build script, so that cargo fmt passes it by.
    run(Command::new("rustfmt").args(["--edition", "2024", "--check", "build.rs"]).current_dir(root()))
}

fn lints() -> Result<()> {
    run(cargo_with_kernels().args(["clippy", "--release", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
}

fn no_std_proof() -> Result<()> {
    let target = target_dir().join("no-std-proof");
    let manifest = root().join("xtask/no-std-proof/Cargo.toml");
    // The proof is about linking; images would only be compiled a second time for it.
    run(cargo()
        .env("LIGHTNING_CUDA", "off")
        .args(["build", "--release", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target))?;
    run(&mut Command::new(target.join("release/no-std-proof")))
}

fn tests() -> Result<()> {
    run(cargo_with_kernels().args(["test", "--release", "--workspace"]))
}

/// The family member with widths of a sixteenth (241 MB) through import, the simulated layouts and export.
fn family_member() -> Result<()> {
    run(cargo_with_kernels().env("LIGHTNING_FAMILY_SCALE", "16").args([
        "test",
        "--release",
        "--workspace",
        "--test",
        "convert",
        "--",
        "a_checkpoint_survives_import",
    ]))
}

/// Another verb of this program, as a process of its own so that its output reads as if typed.
fn verb(name: &str, arguments: &[&str]) -> Result<()> {
    // The tests may have built this program anew; the system then names the running file with a suffix.
    let running =
        std::env::current_exe().map_err(|e| Failure::new(format!("cannot find this program's own file: {e}")))?;
    let running = running.display().to_string();
    let program = running.strip_suffix(" (deleted)").unwrap_or(&running);
    run(Command::new(program).arg(name).args(arguments).current_dir(root()))
}
