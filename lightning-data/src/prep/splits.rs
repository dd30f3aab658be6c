//! From shards to train, valid and test.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::{DataError, Result};
use crate::python_text;
use crate::rng::shuffle_python;

/// (weight as text, prefix) of each shard, by split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splits {
    /// Training.
    pub train: Vec<(String, String)>,
    /// Validation.
    pub valid: Vec<(String, String)>,
    /// Test.
    pub test: Vec<(String, String)>,
}

/// Pools `num_shards` shards of each (weight, prefix), shuffles with Python's generator, and gives the first
/// `test_shards` to test, the next `valid_shards` to validation and the rest to training. A dataset's weight is repeated on
/// every shard; shards count whether they hold anything or not.
pub fn distribute_shards(
    datasets: &[(String, String)],
    num_shards: usize,
    valid_shards: usize,
    test_shards: usize,
    seed: u64,
) -> Splits {
    let mut pool: Vec<(String, String)> =
        datasets.iter().flat_map(|(w, p)| (0..num_shards).map(move |s| (w.clone(), format!("{p}_{s:06}")))).collect();
    shuffle_python(seed, &mut pool);
    let mut rest = pool.into_iter();
    let test = rest.by_ref().take(test_shards).collect();
    let valid = rest.by_ref().take(valid_shards).collect();
    Splits { train: rest.collect(), valid, test }
}

impl Splits {
    /// The blend file's value: flat lists of strings.
    pub fn to_json(&self) -> Value {
        let flat = |list: &[(String, String)]| -> Value {
            list.iter().flat_map(|(w, p)| [w.clone(), p.clone()]).map(Value::from).collect()
        };
        json!({"train": flat(&self.train), "valid": flat(&self.valid), "test": flat(&self.test)})
    }

    /// Refuses splits without training shards: with one shard per dataset, a single dataset would all go to test.
    pub fn check(&self, held_out: usize) -> Result<()> {
        if !self.train.is_empty() {
            return Ok(());
        }
        Err(DataError::Setting {
            name: "num_shards",
            expected: format!("more shards than the {held_out} held out for validation and test"),
            found: (self.valid.len() + self.test.len()).to_string(),
            hint: "raise num_shards, add datasets, or set valid_shards=0 test_shards=0",
        })
    }

    /// Takes these prefixes out of every split and says how many were there. (The public tool lists shards that hold
    /// nothing and have no files; training on its list fails.)
    pub(super) fn leave_out(&mut self, empty: &HashSet<String>) -> usize {
        let lists = [&mut self.train, &mut self.valid, &mut self.test];
        lists
            .into_iter()
            .map(|list| {
                let before = list.len();
                list.retain(|(_, prefix)| !empty.contains(prefix));
                before - list.len()
            })
            .sum()
    }

    /// Writes `blend.json`, atomically.
    pub fn write(&self, path: &Path) -> Result<()> {
        crate::atomic::write_atomically(path, format!("{:#}\n", self.to_json()).as_bytes())
    }
}

/// Which shards of a split to keep when weights differ, as positions in `shards`.
///
/// Each dataset's target share is its weight's part of the sum. The dataset with the fewest rows for its share sets the
/// total; from the others, shards are kept in their order while that brings the rows strictly nearer to the share, at least
/// one each. The result is grouped by dataset, in order of first appearance. Equal weights keep everything as it is.
pub fn select_by_weight(shards: &[(f64, &str, u64)]) -> Vec<usize> {
    let all = || (0..shards.len()).collect();
    if shards.windows(2).all(|w| w[0].0 == w[1].0) {
        return all();
    }
    let mut datasets: Vec<(&str, f64, Vec<usize>)> = Vec::new();
    for (i, &(weight, name, _)) in shards.iter().enumerate() {
        match datasets.iter_mut().find(|d| d.0 == name) {
            Some(d) => d.2.push(i),
            None => datasets.push((name, weight, vec![i])),
        }
    }
    let weight_sum: f64 = datasets.iter().map(|d| d.1).sum();
    let rows = |list: &[usize]| list.iter().map(|&i| shards[i].2).sum::<u64>() as f64;
    let total = datasets.iter().map(|d| rows(&d.2) / (d.1 / weight_sum)).fold(f64::INFINITY, f64::min);
    if !total.is_finite() {
        return all();
    }
    let mut kept = Vec::new();
    for (_, weight, list) in &datasets {
        let target = weight / weight_sum * total;
        let mut sum = 0.0;
        for (n, &i) in list.iter().enumerate() {
            let with = sum + shards[i].2 as f64;
            if n > 0 && (with - target).abs() >= (sum - target).abs() {
                break;
            }
            sum = with;
            kept.push(i);
        }
    }
    kept
}

/// A dataset's weight as the blend file has it.
pub(super) fn weight_text(weight: f64) -> String {
    python_text::float(weight)
}
