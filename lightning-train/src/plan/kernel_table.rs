//! Measured kernels: what `bench` writes and `plan --measured` reads.
//!
//! ```json
//! { "format": "lightning-kernel-table", "version": 1, "target": "h200", "machine": "H200 SXM, 1.98 GHz, driver 580",
//!   "unix_time": 1796073601,
//!   "kernels": [ { "op": "linear_fwd", "precision": "bf16", "flops": 4.5e11, "bytes": 2.6e8, "seconds": 7.1e-4 } ] }
//! ```
//!
//! `op` is the operation's name (`plan --ops` lists them), `flops` and `bytes` are those of the measured call: what the
//! operation itself answers for its shapes. Any number of calls of an operation may stand there; a plan takes the nearest.
//! The lines that `bench kernels --json` prints are read as well; operations that were only counted have no time there and
//! are left out.

use super::targets::TARGETS;
use crate::cli::{Exit, Failure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const FORMAT: &str = "lightning-kernel-table";
const VERSION: u32 = 1;

/// One measured call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelTime {
    /// Operation.
    pub op: String,
    /// Class of its products: bf16, fp8, nvfp4, f32, f64. Absent fits all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Floating-point operations of the call.
    pub flops: f64,
    /// Bytes of its operands.
    pub bytes: f64,
    /// Median time.
    pub seconds: f64,
}

/// A table of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelTable {
    format: String,
    version: u32,
    /// Target that it is for.
    pub target: String,
    /// The machine, in words.
    #[serde(default)]
    pub machine: String,
    /// When it was measured, in seconds since 1970; 0 where nobody knows.
    #[serde(default)]
    pub unix_time: u64,
    /// The calls.
    pub kernels: Vec<KernelTime>,
}

/// Distance of two sizes: how often one has to be doubled.
fn distance(a: f64, b: f64) -> f64 {
    ((a + 1.0) / (b + 1.0)).log2().abs()
}

impl KernelTable {
    /// A table of calls on a target.
    pub fn new(target: &str, machine: &str, unix_time: u64, kernels: Vec<KernelTime>) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            target: target.into(),
            machine: machine.into(),
            unix_time,
            kernels,
        }
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON") + "\n"
    }

    /// Reads a table for plans of `target`.
    ///
    /// # Errors
    /// A file that cannot be read, is of another kind, version or target, or holds times that cannot be.
    pub fn read(path: &str, target: &str) -> Result<Self, Failure> {
        let bad = |what: String| {
            Failure::new(
                Exit::Invalid,
                format!("--measured {path}: {what}; `lightning-train bench` writes such tables"),
            )
        };
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        let is_line = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|row| row["op"].is_string());
        let json = match text.lines().next() {
            Some(line) if is_line(line) => serde_json::to_value(Self::of_lines(&text).map_err(bad)?),
            _ => serde_json::from_str(&text),
        };
        let json: Value = json.map_err(|e| bad(e.to_string()))?;
        if json["format"] != FORMAT {
            return Err(bad(format!("`format` is {}, expected \"{FORMAT}\"", json["format"])));
        }
        if json["version"] != VERSION {
            return Err(bad(format!("`version` is {}, this program reads {VERSION}", json["version"])));
        }
        let table: Self = serde_json::from_value(json).map_err(|e| bad(e.to_string()))?;
        if table.target != target {
            let message = format!(
                "--measured {path}: measured on {}, and the plan is for {target}; add --target {}",
                table.target, table.target
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        for (i, k) in table.kernels.iter().enumerate() {
            let positive = |x: f64| x.is_finite() && x > 0.0;
            if !positive(k.seconds) || !positive(k.bytes) || !(k.flops.is_finite() && k.flops >= 0.0) {
                let text = "`seconds` and `bytes` must be above 0, `flops` at least 0";
                return Err(bad(format!("kernels[{i}] ({}): {text}", k.op)));
            }
        }
        Ok(table)
    }

    /// The timed calls among the lines of `bench kernels --json`.
    fn of_lines(text: &str) -> Result<Self, String> {
        let mut table = Self::new("", "", 0, Vec::new());
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let row: Value = serde_json::from_str(line).map_err(|e| format!("line {}: {e}", i + 1))?;
            let Some(median) = row["median_us"].as_f64() else { continue };
            let number = |key: &str| row[key].as_f64().ok_or_else(|| format!("line {}: no number `{key}`", i + 1));
            let device = row["device"].as_str().unwrap_or_default().to_string();
            let target = TARGETS.iter().find(|t| device.to_ascii_lowercase().contains(t.name));
            let target = target.ok_or_else(|| format!("line {}: `device` {device:?} is no target of plans", i + 1))?;
            if !table.target.is_empty() && table.target != target.name {
                return Err(format!(
                    "line {}: measured on {}, the lines before on {}",
                    i + 1,
                    target.name,
                    table.target
                ));
            }
            (table.target, table.machine) = (target.name.into(), device);
            table.kernels.push(KernelTime {
                op: row["op"].as_str().unwrap_or_default().into(),
                precision: Some("bf16".into()),
                flops: number("flops")?,
                bytes: number("bytes")?,
                seconds: median / 1e6,
            });
        }
        if table.kernels.is_empty() {
            return Err("no line has a time (`median_us`); the virtual GPU only counts".into());
        }
        Ok(table)
    }

    /// The measured call of an operation whose sizes are nearest, if there is one.
    pub fn nearest(&self, op: &str, precision: &str, flops: f64, bytes: f64) -> Option<&KernelTime> {
        let of_op = self.kernels.iter().filter(|k| k.op == op && k.precision.as_deref().is_none_or(|p| p == precision));
        let far = |k: &KernelTime| distance(k.flops, flops) + distance(k.bytes, bytes);
        of_op.min_by(|a, b| far(a).total_cmp(&far(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(op: &str, precision: Option<&str>, flops: f64, bytes: f64, seconds: f64) -> KernelTime {
        KernelTime { op: op.into(), precision: precision.map(String::from), flops, bytes, seconds }
    }

    #[test]
    fn tables_are_written_read_and_refused() {
        let path = std::env::temp_dir().join(format!("lightning-kernels-{}.json", std::process::id()));
        let name = path.display().to_string();
        let table = KernelTable::new(
            "h200",
            "a machine",
            1_796_073_601,
            vec![call("linear_fwd", Some("bf16"), 1e12, 1e9, 2e-3), call("rms_norm_fwd", None, 0.0, 1e8, 4e-5)],
        );
        std::fs::write(&path, table.to_text()).unwrap();
        assert_eq!(KernelTable::read(&name, "h200").unwrap(), table);
        let error = KernelTable::read(&name, "h100").unwrap_err();
        assert!(error.exit == Exit::Usage && error.message.contains("--target h200"), "{error}");
        for (from, to, words) in [
            ("lightning-kernel-table", "other", "expected \"lightning-kernel-table\""),
            ("\"version\": 1", "\"version\": 2", "`version` is 2, this program reads 1"),
            ("\"seconds\": 0.002", "\"seconds\": 0.0", "kernels[0] (linear_fwd)"),
            ("\"seconds\": 0.002", "\"seconds\": \"fast\"", "invalid type"),
            ("\"kernels\"", "\"kernel\"", "kernels"),
            ("{", "", "--measured"),
        ] {
            std::fs::write(&path, table.to_text().replacen(from, to, 1)).unwrap();
            let error = KernelTable::read(&name, "h200").unwrap_err();
            assert!(error.exit == Exit::Invalid && error.message.contains(words), "{from}: {error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(KernelTable::read(&name, "h200").unwrap_err().message.contains(&name));
    }

    #[test]
    fn lines_of_the_kernel_benchmark_are_read() {
        let path = std::env::temp_dir().join(format!("lightning-kernel-lines-{}.jsonl", std::process::id()));
        let name = path.display().to_string();
        let line = |op: &str, device: &str, more: &str| {
            format!(
                "{{\"op\":\"{op}\",\"shapes\":\"x 8x8\",\"device\":\"{device}\",\"flops\":10,\"bytes\":20{more}}}\n"
            )
        };
        let time = ",\"median_us\":5.0";
        let counted = line("linear_bwd", "NVIDIA H200", ",\"moved_bytes\":30");
        std::fs::write(&path, line("linear_fwd", "NVIDIA H200", time) + &counted).unwrap();
        let table = KernelTable::read(&name, "h200").unwrap();
        assert_eq!(table.kernels, [call("linear_fwd", Some("bf16"), 10.0, 20.0, 5e-6)]);
        assert!(KernelTable::read(&name, "h100").is_err());
        for (text, words) in [
            (counted.clone(), "no line has a time"),
            (line("linear_fwd", "NVIDIA T4", time), "`device` \"NVIDIA T4\" is no target"),
            (line("a", "H200", time) + &line("a", "H100", time), "line 2: measured on h100, the lines before on h200"),
            (line("a", "H200", time) + "{", "line 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = KernelTable::read(&name, "h200").unwrap_err();
            assert!(error.message.contains(words), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_nearest_call_of_the_class_is_taken() {
        let calls = vec![
            call("linear_fwd", Some("bf16"), 1e9, 1e6, 1.0),
            call("linear_fwd", Some("bf16"), 1e12, 1e9, 2.0),
            call("linear_fwd", Some("fp8"), 1e12, 1e9, 3.0),
            call("rms_norm_fwd", None, 0.0, 1e8, 4.0),
        ];
        let table = KernelTable::new("cpu", "", 0, calls);
        let time = |op, class, flops, bytes| table.nearest(op, class, flops, bytes).map(|k| k.seconds);
        assert_eq!(time("linear_fwd", "bf16", 5e11, 8e8), Some(2.0));
        assert_eq!(time("linear_fwd", "bf16", 5e9, 5e6), Some(1.0));
        assert_eq!(time("linear_fwd", "fp8", 5e9, 5e6), Some(3.0));
        assert_eq!(time("linear_fwd", "f32", 5e9, 5e6), None);
        assert_eq!(time("rms_norm_fwd", "f32", 0.0, 1.0), Some(4.0));
        assert_eq!(time("attention_fwd", "bf16", 1.0, 1.0), None);
    }
}
