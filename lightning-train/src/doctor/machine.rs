//! What this machine is: read from the system, absent where the system does not say.

use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// Name of the machine.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".into()),
        name => name.to_string(),
    }
}

/// Instruction sets that the CPU kernels dispatch on, and those that matter next to them.
pub fn instruction_sets() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! look {
            ($($name:tt),*) => { $( if std::arch::is_x86_feature_detected!($name) { found.push($name); } )* };
        }
        look!("sse4.2", "avx", "fma", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512bf16");
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! look {
            ($($name:tt),*) => { $( if std::arch::is_aarch64_feature_detected!($name) { found.push($name); } )* };
        }
        look!("neon", "dotprod", "bf16", "sve");
    }
    found
}

/// Model name of the processor.
pub fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// A field of `/proc/meminfo` in bytes.
fn meminfo(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Memory of the machine: all, and what programs can still get, in bytes.
pub fn memory() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    Some((meminfo(&text, "MemTotal")?, meminfo(&text, "MemAvailable")?))
}

/// Limits that the process runs under.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Processors' worth of time.
    pub cpus: Option<f64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
}

/// `cpu.max` of cgroup 2: quota and period in microseconds, or `max`.
fn quota_v2(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (quota, period): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The tightest limits of the process's control group and the groups around it (cgroup 2, else 1).
pub fn limits() -> Limits {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut limits = Limits::default();
    let mut tighten = |cpus: Option<f64>, memory: Option<u64>| {
        limits.cpus = limits.cpus.into_iter().chain(cpus).reduce(f64::min);
        // Version 1 says "no limit" with a number near 2^63.
        let memory = memory.filter(|m| *m < 1 << 60);
        limits.memory = limits.memory.into_iter().chain(memory).min();
    };
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let group = Path::new(group.trim_start_matches('/'));
        for dir in group.ancestors() {
            if controllers.is_empty() {
                let dir = Path::new("/sys/fs/cgroup").join(dir);
                let cpus = fs::read_to_string(dir.join("cpu.max")).ok().and_then(|t| quota_v2(&t));
                tighten(cpus, number(&dir.join("memory.max")));
            }
            if controllers.split(',').any(|c| c == "memory") {
                tighten(None, number(&Path::new("/sys/fs/cgroup/memory").join(dir).join("memory.limit_in_bytes")));
            }
            if controllers.split(',').any(|c| c == "cpu") {
                let dir = Path::new("/sys/fs/cgroup/cpu").join(dir);
                let pair = (number(&dir.join("cpu.cfs_quota_us")), number(&dir.join("cpu.cfs_period_us")));
                if let (Some(quota), Some(period @ 1..)) = pair {
                    tighten(Some(quota as f64 / period as f64), None);
                }
            }
        }
    }
    limits
}

/// The machine for the run card and for `doctor --json`; unknown values are absent.
pub fn describe() -> Value {
    let mut map = Map::new();
    map.insert("host".into(), host_name().into());
    map.insert("system".into(), format!("{} {}", std::env::consts::OS, std::env::consts::ARCH).into());
    if let Ok(release) = fs::read_to_string("/proc/sys/kernel/osrelease") {
        map.insert("kernel".into(), release.trim().into());
    }
    if let Some(name) = processor() {
        map.insert("processor".into(), name.into());
    }
    map.insert("threads".into(), crate::train::engine::available_threads().into());
    map.insert("instruction_sets".into(), json!(instruction_sets()));
    if let Some((total, available)) = memory() {
        map.insert("memory_bytes".into(), total.into());
        map.insert("memory_available_bytes".into(), available.into());
    }
    let limits = limits();
    if let Some(cpus) = limits.cpus {
        map.insert("cgroup_cpus".into(), json!(cpus));
    }
    if let Some(bytes) = limits.memory {
        map.insert("cgroup_memory_bytes".into(), bytes.into());
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_texts_are_read() {
        assert_eq!(quota_v2("150000 100000\n"), Some(1.5));
        assert_eq!(quota_v2("max 100000\n"), None);
        assert_eq!(quota_v2(""), None);
        let text = "MemTotal:       16000 kB\nMemFree: 1 kB\nMemAvailable:    8000 kB\n";
        assert_eq!(meminfo(text, "MemAvailable"), Some(8000 * 1024));
        assert_eq!(meminfo(text, "Mem"), None);
        assert_eq!(meminfo("", "MemTotal"), None);
    }

    #[test]
    fn this_machine_has_a_name_and_threads() {
        let machine = describe();
        assert!(!machine["host"].as_str().unwrap().is_empty());
        assert!(machine["threads"].as_u64().unwrap() >= 1);
    }
}
