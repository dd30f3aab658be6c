//! What to mix: prefixes and weights in the spellings that the public stack accepts.

use serde_json::Value;
use std::path::Path;

use crate::error::{DataError, Result};

/// Sources and their weights; without weights in proportion to their lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct BlendSpec {
    /// Prefixes of the sources.
    pub prefixes: Vec<String>,
    /// One weight per prefix, or none at all.
    pub weights: Option<Vec<f64>>,
}

const HINT: &str = "write \"30 prefix1 70 prefix2\", or prefixes without weights";

fn bad(expected: &str, found: String) -> DataError {
    DataError::Setting { name: "data_path", expected: expected.to_string(), found, hint: HINT }
}

impl BlendSpec {
    /// Sources with weights.
    ///
    /// # Errors
    /// No source, as many weights as sources are missing, weights that are not positive numbers.
    pub fn new(prefixes: Vec<String>, weights: Option<Vec<f64>>) -> Result<BlendSpec> {
        let prefixes: Vec<String> = prefixes.iter().map(|p| p.trim().to_string()).collect();
        if prefixes.is_empty() || prefixes.iter().any(String::is_empty) {
            return Err(bad("one prefix or more", format!("{prefixes:?}")));
        }
        if prefixes.len() > i16::MAX as usize {
            return Err(bad("at most 32767 prefixes", prefixes.len().to_string()));
        }
        if let Some(weights) = &weights {
            if weights.len() != prefixes.len() {
                return Err(bad("one weight per prefix", format!("{} for {}", weights.len(), prefixes.len())));
            }
            if let Some(i) = weights.iter().position(|w| !(w.is_finite() && *w > 0.0)) {
                return Err(bad(
                    "weights above 0 (leave a source out instead of giving it 0)",
                    format!("{} for {}", weights[i], prefixes[i]),
                ));
            }
        }
        Ok(BlendSpec { prefixes, weights })
    }

    /// A flat list: weights and prefixes in turn, or prefixes alone. An odd number of entries, or no number at the places
    /// of weights, means no weights.
    ///
    /// # Errors
    /// Numbers at some of the places of weights but not at all of them.
    pub fn from_list<S: AsRef<str>>(list: &[S]) -> Result<BlendSpec> {
        let entries: Vec<&str> = list.iter().map(AsRef::as_ref).collect();
        let all = |entries: &[&str]| BlendSpec::new(entries.iter().map(|e| e.to_string()).collect(), None);
        if entries.len() % 2 == 1 {
            return all(&entries);
        }
        let weights: Vec<Option<f64>> = entries.iter().step_by(2).map(|e| e.trim().parse().ok()).collect();
        if weights.iter().all(Option::is_none) {
            return all(&entries);
        }
        let weights: Option<Vec<f64>> = weights.into_iter().collect();
        let weights =
            weights.ok_or_else(|| bad("a weight before every prefix, or before none", format!("{entries:?}")))?;
        BlendSpec::new(entries.iter().skip(1).step_by(2).map(|e| e.to_string()).collect(), Some(weights))
    }

    /// The text form of `data_path`: a flat list separated by blanks.
    pub fn from_text(text: &str) -> Result<BlendSpec> {
        BlendSpec::from_list(&text.split_whitespace().collect::<Vec<_>>())
    }

    /// One entry of a per-split file: a flat list of strings (or numbers), or null.
    fn from_json(value: &Value, path: &Path) -> Result<Option<BlendSpec>> {
        if value.is_null() {
            return Ok(None);
        }
        let list = value.as_array().ok_or_else(|| DataError::Invalid {
            path: path.to_path_buf(),
            rule: "each split is a list",
            entry: None,
            expected: "[\"weight\", \"prefix\", ...] or null".into(),
            found: value.to_string(),
            hint: HINT,
        })?;
        if list.is_empty() {
            return Ok(None);
        }
        let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_string);
        BlendSpec::from_list(&list.iter().map(text).collect::<Vec<_>>()).map(Some)
    }

    /// A per-split file: `{"train": [...], "valid": [...], "test": [...]}`. Prefixes are relative to nothing: as written.
    ///
    /// # Errors
    /// Unreadable or malformed JSON, an unknown split, a list that is not a blend.
    pub fn per_split_file(path: &Path) -> Result<[Option<BlendSpec>; 3]> {
        let bytes = std::fs::read(path).map_err(|e| DataError::io("open", path, e))?;
        let invalid = |found: String| DataError::Invalid {
            path: path.to_path_buf(),
            rule: "a per-split file is a JSON object of lists",
            entry: None,
            expected: "{\"train\": [\"weight\", \"prefix\", ...], \"valid\": [...], \"test\": [...]}".into(),
            found,
            hint: "use the blend.json that the data preparation wrote",
        };
        let value: Value = serde_json::from_slice(&bytes).map_err(|e| invalid(e.to_string()))?;
        let object = value.as_object().ok_or_else(|| invalid("another kind of value".into()))?;
        if let Some(key) = object.keys().find(|k| !["train", "valid", "test"].contains(&k.as_str())) {
            return Err(invalid(format!("the key {key:?}")));
        }
        let mut out = [None, None, None];
        for (slot, name) in out.iter_mut().zip(["train", "valid", "test"]) {
            *slot = BlendSpec::from_json(&value[name], path)?;
        }
        Ok(out)
    }
}

/// NumPy's sum of float64: pairwise, in blocks of eight running sums. The order decides the last bits of normalised weights.
fn numpy_sum(values: &[f64]) -> f64 {
    match values.len() {
        n if n < 8 => values.iter().fold(0.0, |sum, v| sum + v),
        n if n <= 128 => {
            let mut r: [f64; 8] = std::array::from_fn(|i| values[i]);
            let mut chunks = values[8..].chunks_exact(8);
            for chunk in &mut chunks {
                for (sum, v) in r.iter_mut().zip(chunk) {
                    *sum += v;
                }
            }
            let sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
            chunks.remainder().iter().fold(sum, |sum, v| sum + v)
        }
        n => {
            let half = n / 2 - (n / 2) % 8;
            numpy_sum(&values[..half]) + numpy_sum(&values[half..])
        }
    }
}

/// Weights divided by their sum.
pub fn normalize(weights: &[f64]) -> Vec<f64> {
    let sum = numpy_sum(weights);
    weights.iter().map(|w| w / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_public_stack_reads_them() {
        let two = BlendSpec::from_text("30 a 70 b").unwrap();
        assert_eq!((two.prefixes, two.weights), (vec!["a".into(), "b".into()], Some(vec![30.0, 70.0])));
        assert_eq!(BlendSpec::from_text("30 a b").unwrap().prefixes, ["30", "a", "b"]);
        for bad in ["", "30 a x b", "0 a", "-1 a", "nan a", "inf a"] {
            assert!(BlendSpec::from_text(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sums_of_many_weights_are_pairwise() {
        // 0.1 added 1000 times one by one gives 99.9999999999986; NumPy gives 100.00000000000001 or nearer.
        let tenths = vec![0.1; 1000];
        assert!((numpy_sum(&tenths) - 100.0).abs() < 2e-14);
        assert!((tenths.iter().sum::<f64>() - 100.0).abs() > 1e-12);
    }
}
