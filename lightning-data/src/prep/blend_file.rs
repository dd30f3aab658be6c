//! The blend file: which datasets to prepare.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{DataError, Result};

/// One dataset of a blend file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetEntry {
    /// Name; names a directory.
    pub name: String,
    /// `hf://org/repo`, a file or a directory.
    pub path: String,
    /// Subset of a Hugging Face dataset.
    #[serde(default)]
    pub subset: Option<String>,
    /// Split of a Hugging Face dataset.
    #[serde(default)]
    pub split: Option<String>,
    /// Field of the text.
    #[serde(default = "default_text_field")]
    pub text_field: String,
    /// Weight in the training blend; 0 or less: prepared but left out.
    #[serde(default = "default_weight")]
    pub weight: f64,
}

fn default_text_field() -> String {
    "text".into()
}

fn default_weight() -> f64 {
    1.0
}

/// The datasets to prepare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlendFile {
    /// In the file's order.
    pub datasets: Vec<DatasetEntry>,
}

impl BlendFile {
    /// Reads a blend file.
    ///
    /// # Errors
    /// Malformed JSON, unknown keys, no dataset, two of one name, names that are no directory names, a per-split file.
    pub fn read(path: &Path) -> Result<BlendFile> {
        let bytes = std::fs::read(path).map_err(|e| DataError::io("open", path, e))?;
        let invalid = |rule, found: String, hint| DataError::Invalid {
            path: path.to_path_buf(),
            rule,
            entry: None,
            expected: "{\"datasets\": [{\"name\": ..., \"path\": ...}, ...]}".into(),
            found,
            hint,
        };
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|e| invalid("a blend file is JSON", e.to_string(), "correct the file"))?;
        if ["train", "valid", "test"].iter().any(|k| value.get(k).is_some()) {
            return Err(invalid(
                "a blend file to prepare lists datasets",
                "splits (train, valid, test)".into(),
                "this is the result of a preparation; name the raw datasets",
            ));
        }
        let blend: BlendFile = serde_json::from_value(value)
            .map_err(|e| invalid("a blend file lists datasets", e.to_string(), "correct the entry"))?;
        blend.check(path)?;
        Ok(blend)
    }

    /// Checks names and weights; `path` is for messages.
    pub fn check(&self, path: &Path) -> Result<()> {
        let bad = |entry: usize, rule, expected: &str, found: String| {
            Err(DataError::Invalid {
                path: path.to_path_buf(),
                rule,
                entry: Some(entry as u64),
                expected: expected.into(),
                found,
                hint: "correct the entry",
            })
        };
        if self.datasets.is_empty() {
            return bad(0, "a blend file lists datasets", "at least one", "none".into());
        }
        for (i, d) in self.datasets.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if d.name.is_empty() || d.name.starts_with('.') || !d.name.chars().all(plain) {
                return bad(i, "a name is a directory name", "letters, digits, - _ .", format!("{:?}", d.name));
            }
            if self.datasets[..i].iter().any(|other| other.name == d.name) {
                return bad(i, "names differ", "a name of its own", format!("{:?} twice", d.name));
            }
            if !d.weight.is_finite() {
                return bad(i, "a weight is a number", "a finite number", d.weight.to_string());
            }
        }
        Ok(())
    }
}
