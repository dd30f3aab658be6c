//! `cargo xtask kernel-facts`: what the compiled kernels are made of, held against `csrc/budgets.toml`.

mod budgets;
mod extract;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use argh::FromArgs;
use serde::Serialize;

use crate::failure::{Failure, Result, read_text};
use crate::process::{cargo, root, shown};
use crate::setup_cuda;
use budgets::Budgets;

/// show registers, spills, stack, shared memory and SASS opcodes of every kernel, and fail on an exceeded budget
#[derive(FromArgs)]
#[argh(subcommand, name = "kernel-facts")]
pub struct KernelFacts {
    /// print JSON with every opcode instead of a table
    #[argh(switch)]
    json: bool,
}

/// Static facts of one kernel for one architecture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Facts {
    /// Symbol.
    pub kernel: String,
    /// Such as `sm_90a`.
    pub arch: String,
    /// Source below csrc/ without extension.
    pub module: String,
    /// Registers of a thread.
    pub registers: u64,
    /// Bytes of stack of a thread.
    pub stack: u64,
    /// Bytes that a thread stores to and loads from local memory because registers ran out.
    pub spill_bytes: u64,
    /// Bytes of static shared memory of a block.
    pub static_shared: u64,
    /// SASS instructions.
    pub instructions: u64,
    /// SASS opcodes with their modifiers, such as `LDG.E.128`, and how often each occurs.
    pub opcodes: BTreeMap<String, u64>,
}

impl KernelFacts {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        let home = setup_cuda::ensure(false)?;
        let facts = collect(&home)?;
        if self.json {
            let text = serde_json::to_string_pretty(&facts)
                .map_err(|e| Failure::new(format!("cannot write the facts as JSON: {e}")))?;
            println!("{text}");
        } else {
            print!("{}", table(&facts));
        }
        let path = root().join("csrc/budgets.toml");
        let problems = Budgets::parse(&read_text(&path)?)?.problems(&facts);
        if problems.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{}\nMake the kernels smaller, or change csrc/budgets.toml and say why in the commit.",
            problems.join("\n")
        )))
    }
}

/// Builds the kernels and reads the facts off them.
fn collect(cuda_home: &Path) -> Result<Vec<Facts>> {
    let out = build_kernels()?;
    let list = read_text(&out.join("images.tsv"))?;
    let mut facts = Vec::new();
    for line in list.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [module, arch, _ptx, cubin, ptxas_log, _kernels] = fields[..] else {
            return Err(Failure::new(format!("{}/images.tsv: a line has not 6 fields", out.display())));
        };
        let resources = extract::resources(&read_text(&out.join(ptxas_log))?)?;
        let mut opcodes = extract::opcodes(cuda_home, &out.join(cubin))?;
        for (kernel, used) in resources {
            let opcodes =
                opcodes.remove(&kernel).ok_or_else(|| Failure::new(format!("{cubin} has no SASS of {kernel}")))?;
            facts.push(Facts {
                arch: arch.to_string(),
                module: module.to_string(),
                registers: used.registers,
                stack: used.stack,
                spill_bytes: used.spill_bytes,
                static_shared: used.static_shared,
                instructions: opcodes.values().sum(),
                opcodes,
                kernel,
            });
        }
    }
    facts.sort_by(|a, b| (&a.arch, &a.module, &a.kernel).cmp(&(&b.arch, &b.module, &b.kernel)));
    Ok(facts)
}

/// Builds `kernels-sys` with kernels and returns the folder that its build script wrote to.
pub fn build_kernels() -> Result<PathBuf> {
    let mut command = cargo();
    command
        .args(["build", "--release", "--package", "kernels-sys", "--message-format=json-render-diagnostics"])
        .env("LIGHTNING_CUDA", "require")
        .stderr(std::process::Stdio::inherit());
    let output = command.output().map_err(|e| Failure::new(format!("cannot start `{}`: {e}", shown(&command))))?;
    if !output.status.success() {
        return Err(Failure::new(format!("`{}` ended with {}", shown(&command), output.status)));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find(|message| {
            message["reason"] == "build-script-executed"
                && message["package_id"].as_str().is_some_and(|id| id.contains("kernels-sys"))
        })
        .and_then(|message| message["out_dir"].as_str().map(PathBuf::from))
        .ok_or_else(|| Failure::new("cargo did not say where the build script of kernels-sys wrote to"))
}

/// Opcodes that a reader of the table looks for: memory, tensor cores, asynchronous copies, synchronisation.
const SHOWN: [&str; 16] = [
    "LDG", "STG", "LDS", "STS", "LDSM", "STSM", "LDGSTS", "LDL", "STL", "ATOM", "RED", "HMMA", "HGMMA", "UTMA", "UTC",
    "BAR",
];

fn table(facts: &[Facts]) -> String {
    let width = facts.iter().map(|f| f.kernel.len()).max().unwrap_or(0).max("kernel".len());
    let mut text = format!(
        "{:width$}  {:8} {:>5} {:>6} {:>6} {:>7} {:>7}  opcodes\n",
        "kernel", "arch", "regs", "stack", "spill", "shared", "instrs"
    );
    for f in facts {
        let mut families: BTreeMap<&str, u64> = BTreeMap::new();
        for (opcode, count) in &f.opcodes {
            let base = opcode.split('.').next().unwrap_or(opcode);
            if SHOWN.iter().any(|s| base == *s || (s.starts_with("UT") && base.starts_with(s))) {
                *families.entry(base).or_default() += count;
            }
        }
        let families: Vec<String> = families.iter().map(|(name, count)| format!("{name} {count}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:width$}  {:8} {:>5} {:>6} {:>6} {:>7} {:>7}  {}",
            f.kernel,
            f.arch,
            f.registers,
            f.stack,
            f.spill_bytes,
            f.static_shared,
            f.instructions,
            families.join(", ")
        );
    }
    text
}
