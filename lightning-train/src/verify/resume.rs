//! `verify resume`: 2 K steps in one go against K steps, stop, K steps, as child processes of this very program.

use crate::checkpoint::{self, Index};
use crate::cli::{Exit, Failure, VerifyResumeArgs};
use crate::plot::RunLog;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder that is removed at the end unless the user named it.
struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    fn new(named: Option<&str>) -> Result<Self, Failure> {
        let scratch = match named {
            Some(path) => Self { path: PathBuf::from(path), keep: true },
            None => {
                let name = format!("lightning-verify-resume-{}", std::process::id());
                Self { path: std::env::temp_dir().join(name), keep: false }
            }
        };
        std::fs::create_dir_all(&scratch.path).map_err(|e| {
            let message = format!("cannot create {}: {e}; choose another with --folder DIR", scratch.path.display());
            Failure::new(Exit::Invalid, message)
        })?;
        for run in ["whole", "parts"] {
            if scratch.path.join(run).exists() {
                let message = format!("{} already holds `{run}`; name an empty folder", scratch.path.display());
                return Err(Failure::new(Exit::Usage, message));
            }
        }
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Trains in a child process with the user's configuration and `own` overrides, which win.
fn train(args: &VerifyResumeArgs, overrides: &[String], own: &[String]) -> Result<(), Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::new(Exit::Unexpected, format!("cannot find this program: {e}")))?;
    let mut command = Command::new(program);
    command.arg("train");
    for (flag, value) in [("--recipe", &args.recipe), ("--config", &args.config), ("--data", &args.data)] {
        if let Some(value) = value {
            command.args([flag, value]);
        }
    }
    command.args(overrides).args(own).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command
        .output()
        .map_err(|e| Failure::new(Exit::Unexpected, format!("cannot start this program once more: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let error = text.lines().skip_while(|l| !l.starts_with("error: ")).collect::<Vec<_>>().join("\n");
    let exit = match output.status.code() {
        Some(2) => Exit::Usage,
        Some(3) => Exit::Invalid,
        Some(4) => Exit::OutOfMemory,
        Some(6) => Exit::Numerical,
        _ => Exit::Unexpected,
    };
    Err(Failure::new(exit, format!("a training run failed: {}", error.trim_start_matches("error: "))))
}

/// The first difference of two runs: a step's batches, losses or counters, then validations, then tensors.
fn first_difference(a: &Path, b: &Path, step: u64) -> Result<Option<String>, Failure> {
    let (x, y) = (RunLog::read(a)?, RunLog::read(b)?);
    if x.steps.len() != y.steps.len() {
        return Ok(Some(format!("{} steps in one go, {} with the stop", x.steps.len(), y.steps.len())));
    }
    if let Some((step, differences)) = crate::plot::first_difference(&x, &y) {
        let d = &differences[0];
        let what = if d.name == "batch_hash" { "token ids (batch_hash)" } else { &d.name };
        let show = |v: &Option<Value>| v.as_ref().map_or("absent".to_string(), Value::to_string);
        return Ok(Some(format!("step {step}: {what} is {} in one go, {} with the stop", show(&d.a), show(&d.b))));
    }
    if x.validations != y.validations {
        return Ok(Some(format!("validation: {:?} in one go, {:?} with the stop", x.validations, y.validations)));
    }
    let index = |run: &Path| -> Result<Index, Failure> {
        let path = checkpoint::iteration_folder(&run.join("checkpoints"), step).join("index.json");
        let text = std::fs::read_to_string(&path).map_err(|e| e.to_string());
        let parsed = text.and_then(|t| serde_json::from_str(&t).map_err(|e| e.to_string()));
        parsed.map_err(|e| {
            Failure::new(Exit::Invalid, format!("{}: {e}; run again with an empty --folder", path.display()))
        })
    };
    let (x, y) = (index(a)?, index(b)?);
    let names = x.tensors.keys().chain(y.tensors.keys().filter(|k| !x.tensors.contains_key(*k)));
    for name in names {
        let sums = |i: &Index| i.tensors.get(name).map(|t| t.pieces.iter().map(|p| p.xxh3.clone()).collect::<Vec<_>>());
        if sums(&x) != sums(&y) {
            return Ok(Some(format!("checkpoint of step {step}: tensor {name} differs")));
        }
    }
    Ok(None)
}

/// Runs the verb.
///
/// # Errors
/// `Verification` with the first difference; whatever a training run fails with.
pub fn resume(args: VerifyResumeArgs, overrides: Vec<String>) -> Result<(), Failure> {
    if args.steps == 0 {
        return Err(Failure::new(Exit::Usage, "--steps 0: there is nothing to stop between; give at least 1"));
    }
    let scratch = Scratch::new(args.folder.as_deref())?;
    let (k, total) = (args.steps, 2 * args.steps);
    let common = |run: &str| {
        vec![
            format!("logger.dir={}", scratch.path.join(run).display()),
            "checkpoint.save=null".into(),
            "checkpoint.load=null".into(),
            "checkpoint.save_interval=null".into(),
            "checkpoint.most_recent_k=null".into(),
            "train.exit_interval=null".into(),
            format!("train.train_iters={total}"),
        ]
    };
    eprintln!("{total} steps in one go");
    train(&args, &overrides, &common("whole"))?;
    eprintln!("{k} steps, stop");
    let mut first = common("parts");
    first.push(format!("train.exit_interval={k}"));
    train(&args, &overrides, &first)?;
    eprintln!("{k} steps from the checkpoint");
    let mut second = common("parts");
    second.push(format!("checkpoint.load={}", scratch.path.join("parts/checkpoints").display()));
    train(&args, &overrides, &second)?;
    let difference = first_difference(&scratch.path.join("whole"), &scratch.path.join("parts"), total)?;
    if args.json {
        println!(
            "{}",
            json!({ "steps": total, "stop_after": k, "equal": difference.is_none(), "first_difference": difference })
        );
    }
    match difference {
        None => {
            eprintln!("equal, bit for bit: batches, losses and every tensor of step {total}");
            Ok(())
        }
        Some(what) => Err(Failure::new(Exit::Verification, format!("resume is not the same run: {what}"))),
    }
}
