//! `data prep rl`: the reinforcement-learning blend from local files, with its placeholders filled in.
//!
//! Some records carry only a pointer (`_hf_placeholder`) into one of two public mathematics datasets, by row. The question
//! and the answer are looked up there and put into the record.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use serde_json::{Map, Value, json};

use super::plan::FileShare;
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

/// The words around a question of DAPO-Math-17k.
const DAPO_BEFORE: &str = "Solve the following math problem step by step. The last line of your response should be of the form Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n";
const DAPO_AFTER: &str = "\n\nRemember to put your answer on its own line after \"Answer:\".";

/// Rows of a lookup dataset.
struct Lookup {
    path: PathBuf,
    rows: Vec<Value>,
}

impl Lookup {
    fn read(path: &Path) -> Result<Lookup> {
        let mut rows = Vec::new();
        each_row(&path.display().to_string(), BadRows::Stop, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(Lookup { path: path.to_path_buf(), rows })
    }

    /// Question and answer of a row.
    fn get(&self, row: u64) -> Result<(String, String)> {
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
        let prompt = match &record["prompt"] {
            Value::String(text) => Some(text.as_str()),
            list => list[0]["content"].as_str(),
        };
        let prompt = prompt.ok_or_else(|| bad("a prompt", record["prompt"].to_string()))?;
        let truth = record["reward_model"]["ground_truth"].as_str();
        let truth = truth.ok_or_else(|| bad("reward_model.ground_truth", record["reward_model"].to_string()))?;
        // Skywork keeps a JSON list of equivalent answers.
        let answer = match serde_json::from_str::<Vec<Value>>(truth) {
            Ok(list) if !list.is_empty() => list[0].as_str().map_or_else(|| list[0].to_string(), str::to_string),
            _ => truth.to_string(),
        };
        let question = prompt.strip_prefix(DAPO_BEFORE).unwrap_or(prompt);
        Ok((question.strip_suffix(DAPO_AFTER).unwrap_or(question).to_string(), answer))
    }
}

fn each_row(path: &str, bad: BadRows, visit: &mut dyn FnMut(Value) -> Result<()>) -> Result<()> {
    let bytes = AtomicU64::new(0);
    for file in find_files(path, None, None)? {
        let share = FileShare { file, rows: None };
        for_each_row(&share, Want::Json, bad, &bytes, &mut |row| {
            if let Row::Json(value) = row {
                visit(value)?;
            }
            Ok(true)
        })?;
    }
    Ok(())
}

/// Fills in one record. A record without a placeholder is left as it is.
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
    let named = |v: &Value| v.as_str().map(str::to_ascii_lowercase);
    let of = [placeholder.get("dataset"), placeholder.get("path"), record.get("dataset")]
        .into_iter()
        .flatten()
        .filter_map(named)
        .find_map(|name| {
            ["dapo", "skywork"].into_iter().find(|k| name.contains(k)).or(name.contains("dapo17k").then_some("dapo"))
        })
        .ok_or_else(|| bad("a dataset named DAPO or Skywork", placeholder.to_string(), "check the record"))?;
    let lookup = lookups.get(of).ok_or_else(|| {
        bad(&format!("the rows of {of}"), "none given".into(), "fetch that dataset and give its path")
    })?;
    let row = placeholder.get("row").or(placeholder.get("row_index")).and_then(Value::as_u64);
    let row = row.ok_or_else(|| bad("a row number", placeholder.to_string(), "check the record"))?;
    let (question, answer) = lookup.get(row)?;
    let question = match placeholder.get("question_template").and_then(Value::as_str) {
        Some(template) => template.replace("{question}", &question),
        None => question,
    };
    record.insert("question".into(), question.clone().into());
    record.insert("expected_answer".into(), answer.into());
    let params = record.entry("responses_create_params").or_insert_with(|| json!({}));
    if let Some(params) = params.as_object_mut() {
        params.insert("input".into(), json!([{"role": "user", "content": question}]));
    }
    Ok(())
}

/// Writes `runs/<hash>/<name>__<split>/shard_000000.jsonl` for each split and `manifest.json`.
///
/// # Errors
/// Unreadable files, placeholders that point nowhere, an unknown split.
pub fn prepare_rl(settings: &RlPrep) -> Result<PreparedRun> {
    let known = ["train", "val", "test"];
    if let Some((split, _)) = settings.splits.iter().find(|s| !known.contains(&s.0.as_str())) {
        return Err(DataError::Setting {
            name: "splits",
            expected: "train, val or test".into(),
            found: format!("{split:?}"),
            hint: "the Hugging Face split `validation` is `val` here",
        });
    }
    let mut lookups = HashMap::new();
    for (name, path) in [("dapo", &settings.dapo), ("skywork", &settings.skywork)] {
        if let Some(path) = path {
            lookups.insert(name, Lookup::read(path)?);
        }
    }
    let config = json!({
        "name": settings.name, "splits": settings.splits, "dapo": settings.dapo, "skywork": settings.skywork,
        "output": {"format": "jsonl"},
    });
    let directory = run_directory(&settings.output, &config, false)?;
    let (mut manifest, mut counts) = (Map::new(), Map::new());
    for (split, path) in &settings.splits {
        let target = directory.join(format!("{}__{split}", settings.name)).join("shard_000000.jsonl");
        let mut file = AtomicFile::create(&target)?;
        let mut rows = 0u64;
        each_row(path, settings.on_bad_row, &mut |mut row| {
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
