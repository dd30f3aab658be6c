//! The checks of a pack, on the machine that has the GPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use serde_json::{Value, json};

use crate::failure::{Failure, Result, create_folder, read_text, write_file};
use crate::process::{capture, tail};

/// Steps of the demo that are compared.
const STEPS: usize = 50;
/// Largest relative distance of a loss from the processor's at the same step. Both round to bf16, in different orders, and
/// steps add up.
const LOSS_DISTANCE: f64 = 0.05;

/// What a check found.
struct Outcome {
    name: &'static str,
    passed: bool,
    seconds: f64,
    found: String,
    detail: Value,
}

struct Pack {
    folder: PathBuf,
    results: PathBuf,
}

/// A check: its name and what it does. The answer is what was found, and details for the JSON file.
type Check = (&'static str, fn(&Pack) -> Result<(String, Value)>);

const CHECKS: &[Check] =
    &[("device", device), ("kernels", kernels), ("demo", demo), ("benchmarks", benchmarks), ("sanitizer", sanitizer)];

/// Runs the checks, writes `results.json` and `results.txt`, and fails if one of them did.
pub fn run(pack: &Path, results: &Path, only: Option<&str>) -> Result<()> {
    create_folder(results)?;
    let absolute = |p: &Path| fs::canonicalize(p).map_err(|e| Failure::io("find", p, &e));
    let pack = Pack { folder: absolute(pack)?, results: absolute(results)? };
    let mut outcomes = Vec::new();
    for (name, check) in CHECKS.iter().filter(|(name, _)| only.is_none_or(|o| name.contains(o))) {
        eprintln!("==> {name}");
        let started = Instant::now();
        let (passed, found, detail) = match check(&pack) {
            Ok((found, detail)) => (true, found, detail),
            Err(failure) => (false, failure.to_string(), Value::Null),
        };
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("    {} ({seconds:.1} s)", if passed { &found } else { "failed" });
        outcomes.push(Outcome { name, passed, seconds, found, detail });
    }
    let table = table(&outcomes);
    write_file(&pack.results.join("results.txt"), &table)?;
    let rows: Vec<Value> = outcomes
        .iter()
        .map(|o| {
            json!({ "check": o.name, "passed": o.passed, "seconds": o.seconds, "found": o.found, "detail": o.detail })
        })
        .collect();
    write_file(&pack.results.join("results.json"), format!("{:#}\n", Value::from(rows)))?;
    print!("{table}");
    match outcomes.iter().filter(|o| !o.passed).count() {
        0 => Ok(()),
        n => Err(Failure::new(format!("{n} checks failed; see {}", pack.results.join("results.txt").display()))),
    }
}

fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for o in outcomes {
        let verdict = if o.passed { "passed" } else { "FAILED" };
        text.push_str(&format!("{verdict}  {:8.1} s  {:<12} {}\n", o.seconds, o.name, o.found.replace('\n', "\n    ")));
    }
    text
}

impl Pack {
    fn program(&self) -> Command {
        let mut command = Command::new(self.folder.join("lightning-train"));
        command.current_dir(&self.results);
        command
    }

    fn tests(&self) -> Command {
        let mut command = Command::new(self.folder.join("gpu-tests"));
        // The driver of this machine, not the virtual one; shapes of the real model too.
        command.env("LIGHTNING_TEST_DRIVER", "1").env("LIGHTNING_TEST_REAL_SHAPES", "1");
        command.env("LIGHTNING_GOLDEN_MODEL", self.folder.join("golden")).current_dir(&self.results);
        command
    }

    /// Runs a command, keeps what it says in `NAME.log`, and fails with its end if it does.
    fn logged(&self, name: &str, command: &mut Command) -> Result<Output> {
        let output = capture(command)?;
        let mut log = output.stdout.clone();
        log.extend(&output.stderr);
        let path = self.results.join(format!("{name}.log"));
        write_file(&path, &log)?;
        if output.status.success() {
            return Ok(output);
        }
        let end = tail(&String::from_utf8_lossy(&log), 30);
        Err(Failure::new(format!("it ended with {}; {} ends with\n{end}", output.status, path.display())))
    }
}

fn device(pack: &Pack) -> Result<(String, Value)> {
    let output = pack.logged("doctor", pack.program().args(["doctor", "--json"]))?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| Failure::new(format!("doctor's answer is no JSON: {e}; see doctor.log")))?;
    let seen =
        capture(Command::new("nvidia-smi").args(["--query-gpu=name,clocks.sm,power.limit", "--format=csv,noheader"]));
    let found = match seen {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_string(),
        _ => "a device answers (no nvidia-smi here)".to_string(),
    };
    Ok((found, said))
}

fn kernels(pack: &Pack) -> Result<(String, Value)> {
    let output = pack.logged("kernels", pack.tests().arg("--test-threads=1"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().rev().find(|l| l.starts_with("test result:"));
    let line = line.ok_or_else(|| Failure::new("the tests printed no result; see kernels.log"))?;
    if line.contains(" 0 passed") {
        return Err(Failure::new("no test ran; see kernels.log"));
    }
    let tests: Vec<&str> = said.lines().filter(|l| l.starts_with("test ") && l.ends_with("ok")).collect();
    Ok((line.trim_start_matches("test result: ").to_string(), json!(tests)))
}

fn losses(pack: &Pack, device: &str) -> Result<Vec<f64>> {
    let run = format!("demo-{device}");
    let folder = pack.results.join(&run);
    let mut command = pack.program();
    command.args(["train", "--recipe", "demo_pretrain_config", "--device", device]);
    command.arg(format!("train.train_iters={STEPS}")).arg("mixed_precision.precision=bf16_mixed");
    command.arg(format!("checkpoint.save={}", folder.display())).arg("checkpoint.save_interval=100000");
    pack.logged(&run, &mut command)?;
    let metrics = read_text(&folder.join("metrics.jsonl"))?;
    let losses: Vec<f64> = metrics
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get("lm loss")?.as_f64())
        .take(STEPS)
        .collect();
    if losses.len() == STEPS { Ok(losses) } else { Err(Failure::new(format!("{run}: {} losses", losses.len()))) }
}

fn demo(pack: &Pack) -> Result<(String, Value)> {
    let (gpu, cpu) = (losses(pack, "cuda")?, losses(pack, "cpu")?);
    let distance = |(g, c): (&f64, &f64)| (g - c).abs() / c.abs();
    let worst = gpu.iter().zip(&cpu).map(distance).fold(0.0, f64::max);
    // A NaN distance is no `max`, so the values are looked at too.
    if worst > LOSS_DISTANCE || gpu.iter().any(|l| !l.is_finite()) {
        return Err(Failure::new(format!("losses differ by up to {:.2} %: {gpu:?} and {cpu:?}", 100.0 * worst)));
    }
    let (first, last) = (gpu[0], gpu[STEPS - 1]);
    let found =
        format!("loss {first:.3} to {last:.3} in {STEPS} steps, at most {:.2} % from the processor's", 100.0 * worst);
    Ok((found, json!({ "cuda": gpu, "cpu": cpu })))
}

fn benchmarks(pack: &Pack) -> Result<(String, Value)> {
    let output = pack.logged("benchmarks", pack.program().args(["bench", "kernels", "--shapes", "30b", "--json"]))?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| Failure::new(format!("the benchmark's answer is no JSON: {e}; see benchmarks.log")))?;
    let rows = said.as_array().map_or(0, Vec::len).max(said["kernels"].as_array().map_or(0, Vec::len));
    Ok((format!("{rows} rows"), said))
}

fn sanitizer(pack: &Pack) -> Result<(String, Value)> {
    let own = pack.folder.join("sanitizer/compute-sanitizer");
    let tool = if own.is_file() { own } else { PathBuf::from("compute-sanitizer") };
    let tests = pack.tests();
    let mut found = Vec::new();
    for check in ["memcheck", "initcheck", "synccheck"] {
        let mut command = Command::new(&tool);
        command.args(["--tool", check, "--error-exitcode", "9"]).arg(tests.get_program());
        command
            .args(["ugly", "fill", "segments", "router_", "experts_agree", "b53", "--test-threads=1"])
            .current_dir(&pack.results);
        command.envs(tests.get_envs().filter_map(|(k, v)| Some((k, v?)))).env_remove("LIGHTNING_TEST_REAL_SHAPES");
        pack.logged(&format!("sanitizer-{check}"), &mut command)?;
        found.push(check);
    }
    Ok((format!("{} found nothing", found.join(", ")), json!(found)))
}
