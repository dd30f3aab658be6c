//! `data prep rl`: the reinforcement-learning blend from local files, with its placeholders filled in.
//!
//! Some records carry only a pointer (`_hf_placeholder`) into one of two public mathematics datasets, by row. The question
//! and the answer are looked up there and put into the record.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::leftovers::OutputGuard;
use super::plan::FileShare;
use super::progress::{Progress, ProgressReport};
use super::rows::{BadRows, Row, Want, for_each_row};
use super::run::{PreparedRun, run_directory};
use super::sources::find_files;
use super::splits::Splits;
use crate::atomic::{AtomicFile, write_atomically};
use crate::error::{DataError, Result};

/// Settings of a preparation for reinforcement learning.
#[derive(Clone, Debug)]
pub struct RlPrep {
    /// Name of the dataset; names directories.
    pub name: String,
    /// Files of the splits: (`train`, `val` or `test`; path). They are taken as they are.
    pub splits: Vec<(String, String)>,
    /// The DAPO-Math-17k rows, for placeholders.
    pub dapo: Option<PathBuf>,
    /// The Skywork-OR1 mathematics rows, for placeholders.
    pub skywork: Option<PathBuf>,
    /// Directory to write to.
    pub output: PathBuf,
    /// Rows that cannot be read.
    pub on_bad_row: BadRows,
}

/// Rows of a lookup dataset.
struct Lookup {
    path: PathBuf,
    rows: Vec<Value>,
}

impl Lookup {
    fn read(path: &Path, progress: &Progress) -> Result<Lookup> {
        let mut rows = Vec::new();
        each_row(&path.display().to_string(), BadRows::Stop, progress, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(Lookup { path: path.to_path_buf(), rows })
    }

    /// Question and answer of a row, as they stand there.
    fn get(&self, row: u64) -> Result<(&str, &Value)> {
        let bad = |expected: &str, found: String| DataError::Invalid {
            path: self.path.clone(),
            rule: "a placeholder points at a question with an answer",
            entry: Some(row),
            expected: expected.to_string(),
            found,
            hint: "use the revision of the dataset that the blend was made from",
        };
        let record = self
            .rows
            .get(row as usize)
            .ok_or_else(|| bad(&format!("a row below {}", self.rows.len()), row.to_string()))?;
        let question = record["prompt"][0]["content"].as_str();
        let question = question.ok_or_else(|| bad("prompt[0].content", record["prompt"].to_string()))?;
        match &record["reward_model"]["ground_truth"] {
            Value::Null => Err(bad("reward_model.ground_truth", record["reward_model"].to_string())),
            answer => Ok((question, answer)),
        }
    }
}

/// A question of DAPO without the words around it: the first and the last paragraph are instructions.
fn without_instructions(question: &str) -> &str {
    let inside = question.split_once("\n\n").and_then(|(_, rest)| rest.rsplit_once("\n\n"));
    inside.map_or(question, |(middle, _)| middle)
}

/// An answer that is written as JSON is read: the first of a list, the first value of an object, a number.
fn parsed_answer(answer: &Value) -> Value {
    let parsed = answer.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    match parsed {
        Some(Value::Array(list)) if !list.is_empty() => list[0].clone(),
        Some(Value::Object(map)) if !map.is_empty() => map.values().next().cloned().unwrap_or_default(),
        Some(value) => value,
        None => answer.clone(),
    }
}

fn each_row(path: &str, bad: BadRows, progress: &Progress, visit: &mut dyn FnMut(Value) -> Result<()>) -> Result<()> {
    for file in find_files(path, None, None)? {
        let share = FileShare { file, rows: None };
        for_each_row(&share, Want::Json, bad, &progress.bytes_read, &mut |row| {
            progress.rows.fetch_add(1, Ordering::Relaxed);
            if let Row::Json(value) = row {
                visit(value)?;
            }
            Ok(true)
        })?;
    }
    Ok(())
}

/// Fills in one record; one without a placeholder is left as it is.
///
/// The record's `dataset` says which of the two it is, `_hf_placeholder.row` the row, and
/// `_hf_placeholder.question_template` the prompt: `{"prefix", "suffix"}` around a question of DAPO, a text with
/// `{question}` for one of Skywork. The record gets `question` (of Skywork the bare one), `expected_answer` and
/// `responses_create_params`; its other fields stay.
fn resolve(record: &mut Map<String, Value>, lookups: &HashMap<&str, Lookup>) -> Result<()> {
    let Some(placeholder) = record.remove("_hf_placeholder") else {
        return Ok(());
    };
    let bad = |expected: &str, found: String, hint| DataError::Setting {
        name: "_hf_placeholder",
        expected: expected.to_string(),
        found,
        hint,
    };
    let known = |v: &Value| {
        let name = v.as_str()?.to_ascii_lowercase();
        ["dapo", "skywork"].into_iter().find(|k| name.contains(k))
    };
    let named = record.get("dataset").and_then(known).or_else(|| placeholder.get("dataset").and_then(known));
    let named = named.ok_or_else(|| {
        let found = record.get("dataset").map_or("no field `dataset`".into(), Value::to_string);
        bad("a field `dataset` that names DAPO or Skywork", found, "check the record")
    })?;
    let lookup = lookups.get(named).ok_or_else(|| {
        bad(&format!("the rows of {named}"), "none given".into(), "fetch that dataset and give its path")
    })?;
    let row = placeholder.get("row").and_then(Value::as_u64);
    let row = row.ok_or_else(|| bad("a row number in `row`", placeholder.to_string(), "check the record"))?;
    let (raw, answer) = lookup.get(row)?;
    let template = placeholder.get("question_template");
    let prompt = match (named, template) {
        ("dapo", Some(Value::Object(around))) => {
            let part = |key: &str| around.get(key).and_then(Value::as_str).unwrap_or_default();
            let whole = format!("{}{}{}", part("prefix"), without_instructions(raw), part("suffix"));
            whole.trim_end_matches('\n').to_string()
        }
        ("skywork", Some(Value::String(text))) if text.contains("{question}") => text.replace("{question}", raw),
        _ => raw.to_string(),
    };
    let question = if named == "skywork" { raw } else { &prompt };
    record.insert("question".into(), question.into());
    record.insert("expected_answer".into(), parsed_answer(answer));
    record.insert("responses_create_params".into(), json!({"input": [{"role": "user", "content": prompt}]}));
    Ok(())
}

/// Writes `runs/<hash>/<name>__<split>/shard_000000.jsonl` for each split and `manifest.json`.
///
/// # Errors
/// Unreadable files, placeholders that point nowhere, an unknown split.
pub fn prepare_rl(settings: &RlPrep, show: &(dyn Fn(&ProgressReport) + Sync)) -> Result<PreparedRun> {
    let known = ["train", "val", "test"];
    if let Some((split, _)) = settings.splits.iter().find(|s| !known.contains(&s.0.as_str())) {
        return Err(DataError::Setting {
            name: "splits",
            expected: "train, val or test".into(),
            found: format!("{split:?}"),
            hint: "the Hugging Face split `validation` is `val` here",
        });
    }
    let progress = Progress::default();
    progress.watch(show, || {
        let mut total = 0;
        let lookups = [&settings.dapo, &settings.skywork].into_iter().flatten().map(|p| p.display().to_string());
        for path in settings.splits.iter().map(|s| s.1.clone()).chain(lookups) {
            total += find_files(&path, None, None)?.iter().map(|f| f.size).sum::<u64>();
        }
        progress.bytes_total.store(total, Ordering::Relaxed);
        write_splits(settings, &progress)
    })
}

fn write_splits(settings: &RlPrep, progress: &Progress) -> Result<PreparedRun> {
    let mut lookups = HashMap::new();
    for (name, path) in [("dapo", &settings.dapo), ("skywork", &settings.skywork)] {
        if let Some(path) = path {
            lookups.insert(name, Lookup::read(path, progress)?);
        }
    }
    let config = json!({
        "name": settings.name, "splits": settings.splits, "dapo": settings.dapo, "skywork": settings.skywork,
        "output": {"format": "jsonl"},
    });
    let _guard = OutputGuard::enter(&settings.output)?;
    let directory = run_directory(&settings.output, &config, false)?;
    let (mut manifest, mut counts) = (Map::new(), Map::new());
    for (split, path) in &settings.splits {
        let target = directory.join(format!("{}__{split}", settings.name)).join("shard_000000.jsonl");
        let mut file = AtomicFile::create(&target)?;
        let mut rows = 0u64;
        each_row(path, settings.on_bad_row, progress, &mut |mut row| {
            if let Some(record) = row.as_object_mut() {
                resolve(record, &lookups)?;
            }
            rows += 1;
            file.put(format!("{row}\n").as_bytes())
        })?;
        file.commit()?;
        let absolute = std::path::absolute(&target).unwrap_or(target);
        manifest.insert(split.clone(), absolute.display().to_string().into());
        counts.insert(format!("num_rows_{split}"), rows.into());
    }
    let path = settings.output.join("manifest.json");
    write_atomically(&path, format!("{:#}\n", Value::Object(manifest)).as_bytes())?;
    Ok(PreparedRun {
        directory,
        blend: path,
        splits: Splits::default(),
        stats: Value::Object(counts),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookups() -> HashMap<&'static str, Lookup> {
        let row = |question: &str, answer: Value| json!({"prompt": [{"role": "user", "content": question}], "reward_model": {"ground_truth": answer}});
        let dapo =
            vec![row("Solve it.\n\nWhat is\n\n1 + 1?\n\nAnswer at the end.", json!("34")), row("bare", json!("x = 1"))];
        let skywork = vec![row("How many?", json!("[\"5\", \"five\"]")), row("Which?", json!("{\"a\": 7}"))];
        [("dapo", dapo), ("skywork", skywork)].map(|(k, rows)| (k, Lookup { path: k.into(), rows })).into()
    }

    fn resolved(record: Value) -> std::result::Result<Value, String> {
        let Value::Object(mut record) = record else { panic!("a record") };
        resolve(&mut record, &lookups()).map_err(|e| e.to_string())?;
        Ok(record.into())
    }

    #[test]
    fn placeholders_are_completed_as_the_blend_says() {
        let dapo = json!({
            "dataset": "nano_v3_sft_profiled_dapo17k", "uuid": "u", "question": "masked",
            "responses_create_params": {"input": [], "tools": [1]},
            "_hf_placeholder": {"row": 0, "question_template": {"prefix": "Think.\n\n", "suffix": "\nBox it.\n\n"}},
        });
        let prompt = "Think.\n\nWhat is\n\n1 + 1?\nBox it.";
        assert_eq!(
            resolved(dapo).unwrap(),
            json!({
                "dataset": "nano_v3_sft_profiled_dapo17k", "uuid": "u", "question": prompt, "expected_answer": 34,
                "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
            })
        );
        let skywork = json!({
            "dataset": "nano_v3_sft_profiled_skywork_no_omni",
            "_hf_placeholder": {"row": 0, "question_template": "Q: {question} A:"},
        });
        let got = resolved(skywork).unwrap();
        assert_eq!((&got["question"], &got["expected_answer"]), (&json!("How many?"), &json!("5")));
        assert_eq!(got["responses_create_params"]["input"][0]["content"], "Q: How many? A:");
        let plain = resolved(json!({"dataset": "dapo", "_hf_placeholder": {"row": 1}})).unwrap();
        assert_eq!((&plain["question"], &plain["expected_answer"]), (&json!("bare"), &json!("x = 1")));
        let object = resolved(json!({"dataset": "skywork", "_hf_placeholder": {"row": 1}})).unwrap();
        assert_eq!(object["expected_answer"], 7);
        let own = json!({"question": "own", "extra": [1]});
        assert_eq!(resolved(own.clone()).unwrap(), own);
    }

    #[test]
    fn placeholders_that_point_nowhere_are_named() {
        for (record, word) in [
            (json!({"dataset": "dapo", "_hf_placeholder": {"row": 2}}), "a row below 2"),
            (json!({"dataset": "dapo", "_hf_placeholder": {"row": -1}}), "a row number"),
            (json!({"dataset": "other", "_hf_placeholder": {"row": 0}}), "\"other\""),
            (json!({"_hf_placeholder": {"row": 0}}), "no field `dataset`"),
        ] {
            let e = resolved(record.clone()).unwrap_err();
            assert!(e.contains(word), "{record}: {e}");
        }
    }
}
