//! A run as its metrics file tells it: what a later resume superseded is left out.

use crate::cli::{Exit, Failure};
use crate::records::expert_matrix::ExpertMatrix;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The record of a step.
pub type StepRecord = Map<String, Value>;

/// What a metrics file says.
#[derive(Debug, Clone, Default)]
pub struct RunLog {
    /// Short name for legends.
    pub name: String,
    /// Folder of the run.
    pub folder: PathBuf,
    /// Steps by number.
    pub steps: BTreeMap<u64, StepRecord>,
    /// Step and loss of validations.
    pub validations: Vec<(f64, f64)>,
    /// Expert loads by the last step of their interval.
    pub experts: BTreeMap<u64, ExpertMatrix>,
    /// Step and kind of anomalies.
    pub anomalies: Vec<(u64, String)>,
    /// Steps at which the run went on.
    pub resumes: Vec<u64>,
    /// Lines that are no records (cut off by a kill in the middle of a file).
    pub unreadable: usize,
}

impl RunLog {
    /// Reads a run's folder, or a metrics file.
    ///
    /// # Errors
    /// A file that cannot be read or holds no step.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let file = if path.is_dir() { path.join("metrics.jsonl") } else { path.to_path_buf() };
        let invalid = |what: String| {
            let message = format!("{}: {what}; give the folder of a run, with its metrics.jsonl", file.display());
            Failure::new(Exit::Invalid, message)
        };
        let bytes = std::fs::read(&file).map_err(|e| invalid(e.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        let folder = file.parent().unwrap_or(Path::new(".")).to_path_buf();
        let named = std::path::absolute(&folder).unwrap_or_else(|_| folder.clone());
        let name = named.file_name().map_or("run".into(), |n| n.to_string_lossy().into_owned());
        let mut log = Self { name, folder, ..Self::default() };
        for line in text.lines().filter(|l| !l.trim().is_empty()) {
            match serde_json::from_str::<Value>(line) {
                Ok(Value::Object(record)) => log.take(record),
                _ => log.unreadable += 1,
            }
        }
        if log.steps.is_empty() {
            return Err(invalid("it holds no step".into()));
        }
        Ok(log)
    }

    fn take(&mut self, record: StepRecord) {
        let step = record.get("iteration").and_then(Value::as_u64);
        match (record.get("event").and_then(Value::as_str), step) {
            (None, Some(step)) => {
                self.steps.insert(step, record);
            }
            (Some("start"), _) => {
                let (name, folder) = (std::mem::take(&mut self.name), std::mem::take(&mut self.folder));
                *self = Self { name, folder, unreadable: self.unreadable, ..Self::default() };
            }
            (Some("resume"), _) => {
                let from = record.get("step").and_then(Value::as_u64).unwrap_or(0);
                self.steps.retain(|s, _| *s <= from);
                self.experts.retain(|s, _| *s <= from);
                self.validations.retain(|(s, _)| *s <= from as f64);
                self.anomalies.retain(|(s, _)| *s <= from);
                self.resumes.push(from);
            }
            (Some("validation"), Some(step)) => {
                if let Some(loss) = record.get("lm loss").and_then(Value::as_f64) {
                    self.validations.retain(|(s, _)| *s != step as f64);
                    self.validations.push((step as f64, loss));
                }
            }
            (Some("experts"), Some(step)) => {
                if let Some(matrix) = ExpertMatrix::from_json(&Value::Object(record)) {
                    self.experts.insert(step, matrix);
                }
            }
            (Some("anomaly"), Some(step)) => {
                let kind = record.get("kind").and_then(Value::as_str).unwrap_or("anomaly");
                self.anomalies.push((step, kind.to_string()));
            }
            _ => {}
        }
    }

    /// Names that the first and the last step have.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let ends = self.steps.values().next().into_iter().chain(self.steps.values().next_back());
        for name in ends.flat_map(|r| r.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// Step and value of a quantity, where it was measured and finite.
    pub fn series(&self, name: &str) -> Vec<(f64, f64)> {
        let value = |(step, record): (&u64, &StepRecord)| Some((*step as f64, record.get(name)?.as_f64()?));
        self.steps.iter().filter_map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RunLog {
        let path = std::env::temp_dir().join(format!("lightning-runlog-{}-{}", std::process::id(), text.len()));
        std::fs::write(&path, text).unwrap();
        let log = RunLog::read(&path);
        std::fs::remove_file(&path).unwrap();
        log.unwrap()
    }

    #[test]
    fn superseded_steps_disappear_and_torn_lines_are_counted() {
        let log = read(
            "{\"event\":\"start\",\"schema\":1}\n{\"iteration\":1,\"lm loss\":5.0}\n{\"iteration\":2,\"lm loss\":4.0}\n\
             {\"event\":\"validation\",\"iteration\":2,\"lm loss\":4.5}\n{\"iteration\":3,\"lm lo\n{\"event\":\"resume\",\"step\":1}\n\
             {\"iteration\":2,\"lm loss\":3.0}\n{\"iteration\":3,\"lm loss\":null}\n",
        );
        assert_eq!(log.series("lm loss"), [(1.0, 5.0), (2.0, 3.0)]);
        assert!(log.validations.is_empty() && log.unreadable == 1 && log.resumes == [1]);
        assert_eq!(log.steps.len(), 3);
        let again = read("{\"iteration\":1}\n{\"event\":\"start\"}\n{\"iteration\":7}\n");
        assert_eq!(again.steps.keys().copied().collect::<Vec<_>>(), [7]);
    }
}
