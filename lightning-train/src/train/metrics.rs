//! `metrics.jsonl`: one JSON object per line, appended and flushed step by step, under the field's names.

use crate::cli::{Exit, Failure};
use lightning_data::Accounting;
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Version of the records; the first line of a file names it.
const SCHEMA: u32 = 1;

/// What a training step reports.
#[derive(Debug, Clone, PartialEq)]
pub struct StepMetrics {
    /// Steps taken, this one included.
    pub iteration: u64,
    /// Samples read, this step's included.
    pub consumed_samples: u64,
    /// Sum of token losses over loss tokens.
    pub lm_loss: f64,
    /// Mean over micro-batches of every MTP depth's mean loss.
    pub mtp_losses: Vec<f64>,
    /// Share of MTP predictions that were right, in percent.
    pub mtp_acceptance: Vec<f64>,
    /// Mean over routers of the auxiliary loss without its coefficient: 1 is perfect balance. Absent without routers.
    pub load_balancing_loss: Option<f64>,
    /// Global norm before clipping.
    pub grad_norm: f64,
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// Milliseconds.
    pub elapsed_ms: f64,
    /// Tokens per second.
    pub tokens_per_s: f64,
    /// TFLOP/s by the public formula (recipes.md §4.1).
    pub tflops_charged: f64,
    /// TFLOP/s of the true shapes.
    pub tflops_honest: f64,
    /// Largest expert load over the mean, worst router.
    pub expert_max_over_mean: Option<f64>,
    /// Share of experts without a token, over all routers.
    pub expert_dead_share: Option<f64>,
    /// Loss tokens, as the device counted them.
    pub loss_tokens: u64,
    /// The same of every MTP depth: targets past a document's end do not count.
    pub mtp_tokens: Vec<u64>,
    /// What the data holds: documents, real, padding and masked tokens, and real tokens by source.
    pub accounting: Accounting,
    /// Whether the step was skipped.
    pub skipped: bool,
    /// Skipped steps so far.
    pub skipped_total: u64,
    /// Milliseconds that the step waited for data.
    pub data_wait_ms: f64,
    /// XXH3-64 of ids, labels, mask and document offsets of the step.
    pub batch_hash: u64,
}

/// A number that is not finite has no JSON; absent says so.
fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

impl StepMetrics {
    /// The record.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| map.insert(name.to_string(), value);
        put("iteration", self.iteration.into());
        put("consumed_samples", self.consumed_samples.into());
        put("lm loss", number(self.lm_loss));
        for (k, loss) in self.mtp_losses.iter().enumerate() {
            put(&format!("mtp_{} loss", k + 1), number(*loss));
        }
        if let Some(loss) = self.load_balancing_loss {
            put("load_balancing_loss", number(loss));
        }
        put("grad_norm", number(self.grad_norm));
        put("learning_rate", number(self.learning_rate));
        put("elapsed_ms", number(self.elapsed_ms));
        put("tokens_per_s", number(self.tokens_per_s));
        put("tflops_charged", number(self.tflops_charged));
        put("tflops_honest", number(self.tflops_honest));
        for (k, share) in self.mtp_acceptance.iter().enumerate() {
            put(&format!("mtp_{} acceptance", k + 1), number(*share));
        }
        if let Some(value) = self.expert_max_over_mean {
            put("expert_max_over_mean", number(value));
        }
        if let Some(value) = self.expert_dead_share {
            put("expert_dead_share", number(value));
        }
        put("loss_tokens", self.loss_tokens.into());
        for (k, tokens) in self.mtp_tokens.iter().enumerate() {
            put(&format!("mtp_{} tokens", k + 1), (*tokens).into());
        }
        let a = &self.accounting;
        put("documents", a.documents.into());
        put("real_tokens", a.real_tokens.into());
        put("padding_tokens", a.padding_tokens.into());
        put("masked_tokens", a.masked_tokens.into());
        put("filler_rows", a.filler_rows.into());
        put("tokens_by_source", a.tokens_by_source.clone().into());
        put("skipped", self.skipped.into());
        put("skipped_total", self.skipped_total.into());
        put("data_wait_ms", number(self.data_wait_ms));
        put("data_wait_share", number(self.data_wait_ms / self.elapsed_ms));
        put("batch_hash", format!("{:016x}", self.batch_hash).into());
        Value::Object(map)
    }
}

/// Cuts a file behind its last line break; returns the bytes removed.
fn remove_torn_line(path: &Path) -> std::io::Result<u64> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let mut end = length;
    let mut block = [0; 4096];
    while end > 0 {
        let begin = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(part)?;
        match part.iter().rposition(|b| *b == b'\n') {
            Some(at) => {
                end = begin + at as u64 + 1;
                break;
            }
            None => end = begin,
        }
    }
    if end < length {
        file.set_len(end)?;
    }
    Ok(length - end)
}

/// An open metrics file.
pub struct MetricsFile {
    path: PathBuf,
    file: File,
}

impl MetricsFile {
    /// Opens a file for appending; a new one gets its schema line, an old one an event with the step that is resumed; both
    /// name the `sources` that `tokens_by_source` counts. A last line that was cut off when a run was killed is removed: it is no record.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn open(path: &Path, resumed_at: Option<u64>, sources: &[String]) -> Result<Self, Failure> {
        let cannot = |e: std::io::Error| {
            let message = format!("cannot open {}: {e}; set logger.dir to another folder", path.display());
            Failure::new(Exit::Invalid, message)
        };
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(cannot)?;
        let is_new = file.metadata().map_err(cannot)?.len() == 0;
        let torn = if is_new { 0 } else { remove_torn_line(path).map_err(cannot)? };
        let mut metrics = Self { path: path.to_path_buf(), file };
        if is_new || resumed_at.is_none() {
            metrics.write(&json!({ "event": "start", "schema": SCHEMA, "sources": sources }))?;
        }
        if let Some(step) = resumed_at {
            // Records past this step are superseded by what follows; nothing is rewritten.
            let mut event = json!({ "event": "resume", "step": step, "sources": sources });
            if torn > 0 {
                event["removed_bytes"] = torn.into();
            }
            metrics.write(&event)?;
        }
        Ok(metrics)
    }

    /// Appends a record.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn write(&mut self, record: &Value) -> Result<(), Failure> {
        let line = format!("{record}\n");
        self.file.write_all(line.as_bytes()).map_err(|e| {
            let message =
                format!("cannot write {}: {e}; free space, then resume from the last checkpoint", self.path.display());
            Failure::new(Exit::Invalid, message)
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_is_removed_and_whole_ones_stay() {
        let path = std::env::temp_dir().join(format!("lightning-torn-{}", std::process::id()));
        let long = "x".repeat(9000);
        for (before, after) in [
            ("a\nb\n".to_string(), "a\nb\n".to_string()),
            ("a\nb".into(), "a\n".into()),
            (format!("a\n{long}"), "a\n".into()),
            (format!("{long}\n{long}"), format!("{long}\n")),
            ("abc".into(), String::new()),
        ] {
            std::fs::write(&path, &before).unwrap();
            let removed = remove_torn_line(&path).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
            assert_eq!(removed as usize, before.len() - after.len());
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn absent_null_and_zero_are_three_things() {
        let m = StepMetrics {
            iteration: 1,
            consumed_samples: 4,
            lm_loss: f64::NAN,
            mtp_losses: vec![0.0],
            mtp_acceptance: vec![],
            load_balancing_loss: None,
            grad_norm: f64::INFINITY,
            learning_rate: 0.0,
            elapsed_ms: 1.0,
            tokens_per_s: 1.0,
            tflops_charged: 1.0,
            tflops_honest: 1.0,
            expert_max_over_mean: None,
            expert_dead_share: Some(0.0),
            loss_tokens: 0,
            mtp_tokens: vec![0],
            accounting: Accounting::default(),
            skipped: true,
            skipped_total: 1,
            data_wait_ms: 0.0,
            batch_hash: 0xabc,
        };
        let json = m.to_json();
        assert!(json["lm loss"].is_null() && json.get("lm loss").is_some());
        assert!(json.get("load_balancing_loss").is_none() && json.get("expert_max_over_mean").is_none());
        assert_eq!(json["mtp_1 loss"], 0.0);
        assert_eq!(json["expert_dead_share"], 0.0);
        assert_eq!((&json["mtp_1 tokens"], &json["tokens_by_source"]), (&json!(0), &json!([])));
        assert_eq!(json["batch_hash"], "0000000000000abc");
    }
}
