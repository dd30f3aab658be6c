//! `doctor`: what of this machine a run depends on, measured, with an exit code.

mod disk;
#[cfg(feature = "gpu")]
mod driver;
#[cfg(feature = "gpu")]
mod gpu;
mod limits;
pub mod machine;
#[cfg(feature = "gpu")]
mod toolkit;

use crate::cli::{DoctorArgs, Exit, Failure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// As it should be.
    Good,
    /// Works, but slowly or not for long.
    Warning,
    /// A run would fail.
    Bad,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Bad => "FAIL",
        }
    }
}

/// One line of the report.
struct Check {
    what: &'static str,
    verdict: Verdict,
    found: String,
    value: Value,
}

/// Runs the verb.
///
/// # Errors
/// `Verification` when a run would fail here; the report is printed before.
pub fn doctor(args: DoctorArgs) -> Result<(), Failure> {
    let folder = PathBuf::from(args.folder.as_deref().unwrap_or("."));
    let gpu = gpu_checks(args.device.as_deref().unwrap_or("auto"))?;
    let mut checks = vec![
        processor(),
        memory(),
        limits::check(),
        disk_speed(&folder, args.disk_megabytes),
        disk_space(&folder),
        hf_cache(&folder),
    ];
    checks.extend(gpu);
    if args.json {
        let checks: Vec<Value> = checks
            .iter()
            .map(|c| json!({ "check": c.what, "verdict": c.verdict.name(), "found": c.found, "value": c.value }))
            .collect();
        println!("{}", json!({ "machine": machine::describe(), "checks": checks }));
    } else {
        println!("{}", crate::doctor::machine::host_name());
        for check in &checks {
            println!("  {:8} {:12} {}", check.verdict.name(), check.what, check.found);
        }
    }
    let bad: Vec<&str> = checks.iter().filter(|c| c.verdict == Verdict::Bad).map(|c| c.what).collect();
    if bad.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Verification,
        format!("a run would fail here: {}; see the lines marked FAIL", bad.join(", ")),
    ))
}

/// What runs on a GPU depend on, for the device that `--device` names.
#[cfg(feature = "gpu")]
fn gpu_checks(device: &str) -> Result<Vec<Check>, Failure> {
    gpu::Wanted::parse(device).map(gpu::checks).ok_or_else(|| no_such_device(device))
}

/// What runs on a GPU depend on: this program has no such device.
#[cfg(not(feature = "gpu"))]
fn gpu_checks(device: &str) -> Result<Vec<Check>, Failure> {
    let verdict = match device {
        "auto" | "cpu" => Verdict::Good,
        "cuda" | "sim" => Verdict::Bad,
        other => return Err(no_such_device(other)),
    };
    let found = "this program was built without its feature `gpu`".to_string();
    Ok(vec![Check { what: "kernels", verdict, found, value: Value::Null }])
}

fn no_such_device(device: &str) -> Failure {
    Failure::new(Exit::Usage, format!("--device {device} is none of auto, cpu, cuda, sim"))
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

fn processor() -> Check {
    let threads = crate::train::engine::available_threads();
    let sets = machine::instruction_sets();
    let limits = machine::limits();
    let name = machine::processor().unwrap_or_else(|| std::env::consts::ARCH.into());
    let mut found =
        format!("{threads} threads, {name}, {}", if sets.is_empty() { "baseline".into() } else { sets.join(" ") });
    let mut verdict = Verdict::Good;
    if cfg!(target_arch = "x86_64") && !(sets.contains(&"avx2") && sets.contains(&"fma")) {
        verdict = Verdict::Warning;
        found += "; without AVX2 and FMA training is several times slower";
    }
    if let Some(cpus) = limits.cpus {
        found += &format!("; control group allows {cpus:.1} processors");
        if cpus + 0.5 < threads as f64 {
            verdict = Verdict::Warning;
            found += &format!(": set device.threads={}", (cpus.floor() as usize).max(1));
        }
    }
    let value = json!({ "threads": threads, "instruction_sets": sets, "cgroup_cpus": limits.cpus });
    Check { what: "processor", verdict, found, value }
}

/// Bytes that the demo needs, with room for the data.
const LEAST_MEMORY: u64 = 1 << 30;

fn memory() -> Check {
    let limit = machine::limits().memory;
    let Some((total, available)) = machine::memory() else {
        let found = "the system does not say".to_string();
        return Check { what: "memory", verdict: Verdict::Warning, found, value: Value::Null };
    };
    let usable = available.min(limit.unwrap_or(u64::MAX));
    let mut found = format!("{:.1} GiB, {:.1} GiB available", gib(total), gib(available));
    if let Some(limit) = limit {
        found += &format!("; control group allows {:.1} GiB", gib(limit));
    }
    let verdict = if usable < LEAST_MEMORY { Verdict::Bad } else { Verdict::Good };
    if verdict == Verdict::Bad {
        found += "; the demo needs about 1 GiB";
    }
    let value = json!({ "total_bytes": total, "available_bytes": available, "cgroup_bytes": limit });
    Check { what: "memory", verdict, found, value }
}

fn disk_speed(folder: &Path, megabytes: u64) -> Check {
    match disk::measure(folder, megabytes.clamp(1, 1 << 14) << 20) {
        Ok(speed) => {
            let (write, read) = (speed.write / 1e6, speed.read / 1e6);
            let mut found =
                format!("{}: {write:.0} MB/s written and flushed, {read:.0} MB/s read back", folder.display());
            let slow = write < 50.0;
            if slow {
                found += "; checkpoints will take long here";
            }
            let verdict = if slow { Verdict::Warning } else { Verdict::Good };
            let value = json!({ "write_bytes_per_s": speed.write, "read_bytes_per_s": speed.read });
            Check { what: "disk speed", verdict, found, value }
        }
        Err(e) => {
            let found = format!("{} cannot be written: {e}; choose another with --folder DIR", folder.display());
            Check { what: "disk speed", verdict: Verdict::Bad, found, value: Value::Null }
        }
    }
}

fn disk_space(folder: &Path) -> Check {
    match disk::free_bytes(folder) {
        Some(free) => {
            let verdict = if free < 1 << 30 { Verdict::Warning } else { Verdict::Good };
            let mut found = format!("{:.1} GiB free in {}", gib(free), folder.display());
            found += match verdict {
                Verdict::Good => "",
                _ => "; a checkpoint of the demo takes 0.2 GiB, one of the 30B model 430 GiB",
            };
            Check { what: "disk space", verdict, found, value: json!({ "free_bytes": free }) }
        }
        None => {
            let found = "the system does not say".to_string();
            Check { what: "disk space", verdict: Verdict::Warning, found, value: Value::Null }
        }
    }
}

/// The cache of Hugging Face models: where it is, what it holds, and whether it can grow.
fn hf_cache(fallback: &Path) -> Check {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let hub = variable("HF_HUB_CACHE")
        .or_else(|| variable("HF_HOME").map(|d| d.join("hub")))
        .or_else(|| variable("XDG_CACHE_HOME").map(|d| d.join("huggingface/hub")))
        .or_else(|| variable("HOME").map(|d| d.join(".cache/huggingface/hub")))
        .unwrap_or_else(|| fallback.join("hub"));
    let Ok(entries) = std::fs::read_dir(&hub) else {
        let found = format!("{} does not exist; models are then named by their folder", hub.display());
        return Check {
            what: "HF cache",
            verdict: Verdict::Good,
            found,
            value: json!({ "folder": hub, "models": null }),
        };
    };
    let models = entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("models--")).count();
    let found = format!("{}: {models} models", hub.display());
    Check { what: "HF cache", verdict: Verdict::Good, found, value: json!({ "folder": hub, "models": models }) }
}
