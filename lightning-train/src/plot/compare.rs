//! `compare A B`: the first step at which two runs differ, and in what.

use super::runs::{RunLog, StepRecord};
use crate::cli::{CompareArgs, Exit, Failure};
use serde_json::{Value, json};
use std::path::Path;

/// Quantities that two equal runs do not share.
const TIMES: &[&str] =
    &["elapsed_ms", "tokens_per_s", "tflops_charged", "tflops_honest", "data_wait_ms", "data_wait_share"];

/// A quantity that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Name in the metrics file.
    pub name: String,
    /// In the first run; `None` is absent.
    pub a: Option<Value>,
    /// In the second run.
    pub b: Option<Value>,
}

/// What differs in a step, times aside, in the order of the first run's record: batches come to losses, losses to gradients.
pub fn step_differences(a: &StepRecord, b: &StepRecord) -> Vec<Difference> {
    let names = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k)));
    let mut found: Vec<Difference> = names
        .filter(|name| !TIMES.contains(&name.as_str()) && a.get(*name) != b.get(*name))
        .map(|name| Difference { name: name.clone(), a: a.get(name).cloned(), b: b.get(name).cloned() })
        .collect();
    found.sort_by_key(|d| d.name != "batch_hash");
    found
}

/// The first step that both runs have and in which they differ.
pub fn first_difference(a: &RunLog, b: &RunLog) -> Option<(u64, Vec<Difference>)> {
    let both = a.steps.iter().filter_map(|(step, record)| Some((*step, record, b.steps.get(step)?)));
    both.map(|(step, x, y)| (step, step_differences(x, y))).find(|(_, d)| !d.is_empty())
}

/// Settings of two `run_config.toml` files that differ, folders aside.
fn config_differences(a: &Path, b: &Path) -> Vec<(String, String, String)> {
    let read = |folder: &Path| -> Vec<(String, String)> {
        let text = std::fs::read_to_string(folder.join("run_config.toml")).unwrap_or_default();
        let table: toml::Table = text.parse().unwrap_or_default();
        let mut flat = Vec::new();
        for (section, value) in table.iter().filter(|(k, _)| *k != "derived") {
            match value {
                toml::Value::Table(fields) => {
                    flat.extend(fields.iter().map(|(k, v)| (format!("{section}.{k}"), v.to_string())));
                }
                toml::Value::Array(names) if section == "nulls" => {
                    flat.extend(names.iter().filter_map(|n| Some((n.as_str()?.to_string(), "null".to_string()))));
                }
                _ => {}
            }
        }
        flat
    };
    let (old, new) = (read(a), read(b));
    let find = |of: &[(String, String)], key: &str| {
        of.iter().find(|(k, _)| k == key).map_or("absent".to_string(), |(_, v)| v.clone())
    };
    let mut keys: Vec<&String> = old.iter().chain(&new).map(|(k, _)| k).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .map(|k| (k.clone(), find(&old, k), find(&new, k)))
        .filter(|(key, x, y)| x != y && key != "logger.dir" && key != "checkpoint.save")
        .collect()
}

/// Runs the verb.
///
/// # Errors
/// Runs that cannot be read; `Verification` when they differ in a step that both have, or share none.
pub fn compare(args: CompareArgs, runs: Vec<String>) -> Result<(), Failure> {
    let [a, b] = runs.as_slice() else {
        let message = format!("compare takes two runs, found {}: lightning-train compare RUN_A RUN_B", runs.len());
        return Err(Failure::new(Exit::Usage, message));
    };
    let (a, b) = (RunLog::read(Path::new(a))?, RunLog::read(Path::new(b))?);
    let configs = config_differences(&a.folder, &b.folder);
    let shared = a.steps.keys().filter(|s| b.steps.contains_key(s)).count();
    let first = first_difference(&a, &b);
    if args.json {
        let show = |v: &Option<Value>| v.clone().unwrap_or(json!("absent"));
        let mut result = json!({
            "steps_in_both": shared,
            "settings": configs.iter().map(|(k, x, y)| json!({ "key": k, "a": x, "b": y })).collect::<Vec<_>>(),
        });
        if let Some((step, differences)) = &first {
            result["first_different_step"] = json!(step);
            result["differences"] =
                differences.iter().map(|d| json!({ "name": d.name, "a": show(&d.a), "b": show(&d.b) })).collect();
        }
        println!("{result}");
    } else {
        for (key, x, y) in &configs {
            println!("setting {key}: {x} | {y}");
        }
        match &first {
            None => println!("equal in all {shared} steps that both runs have (times aside)"),
            Some((step, differences)) => {
                println!("first different step: {step}");
                for d in differences {
                    let show = |v: &Option<Value>| v.as_ref().map_or("absent".to_string(), Value::to_string);
                    println!("  {:24} {} | {}", d.name, show(&d.a), show(&d.b));
                }
            }
        }
    }
    match first {
        None if shared > 0 => Ok(()),
        None => Err(Failure::new(Exit::Verification, "the runs have no step in common")),
        Some((step, d)) => {
            let names: Vec<&str> = d.iter().map(|d| d.name.as_str()).collect();
            Err(Failure::new(
                Exit::Verification,
                format!("the runs differ from step {step} on, in {}", names.join(", ")),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: Value) -> StepRecord {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn times_do_not_count_absent_is_not_zero_and_batches_come_first() {
        let a = record(json!({ "iteration": 1, "lm loss": 2.0, "elapsed_ms": 5.0, "batch_hash": "a" }));
        let same = record(json!({ "iteration": 1, "lm loss": 2.0, "elapsed_ms": 9.0, "batch_hash": "a" }));
        assert!(step_differences(&a, &same).is_empty());
        let other = record(json!({ "iteration": 1, "lm loss": 2.0000000001, "aux": 0.0, "batch_hash": "b" }));
        let names: Vec<String> = step_differences(&a, &other).into_iter().map(|d| d.name).collect();
        assert_eq!(names, ["batch_hash", "lm loss", "aux"]);
    }
}
