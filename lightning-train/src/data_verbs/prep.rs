//! `data prep ...`: from flags to the settings of the library, and from its results to a report.

use std::path::{Path, PathBuf};
use std::time::Instant;

use lightning_data::indexed::TokenType;
use lightning_data::prep::{
    BlendFile, DatasetEntry, PreparedRun, PretrainPrep, ProgressReport, RlPrep, prepare_pretrain, prepare_rl,
};
#[cfg(feature = "parquet")]
use lightning_data::prep::{PromptCompletionPrep, RowShape, SftPrep, prepare_prompt_completion, prepare_sft};
#[cfg(feature = "parquet")]
use lightning_data::sft::Algorithm;
use serde_json::json;

use super::args::{PretrainArgs, RlArgs};
#[cfg(feature = "parquet")]
use super::args::{PromptCompletionArgs, SftArgs};
use super::show::Display;
use super::{Line, at_least_one_thread, bad_rows, note, print_value, usage};
use crate::cli::{Failure, Process};

/// The blend file, or one data set per path, named by the path's stem.
fn blend(
    line: &Line,
    input: Option<String>,
    file: Option<&str>,
    text_field: Option<&str>,
) -> Result<BlendFile, Failure> {
    let inputs = line.inputs(input);
    match (file, inputs.is_empty()) {
        (Some(_), false) => Err(usage("--blend and input paths both name what to prepare; give one of them")),
        (None, true) => Err(usage("what to prepare is missing; name files or folders, or give --blend FILE")),
        (Some(_), _) if text_field.is_some() => {
            Err(usage("--text-field is for input paths; in a blend file each data set has its own text_field"))
        }
        (Some(file), true) => Ok(BlendFile::read(Path::new(file))?),
        (None, false) => {
            let mut datasets: Vec<DatasetEntry> = Vec::new();
            for path in inputs {
                let base = data_set_name(&path);
                let taken = |name: &str| datasets.iter().any(|d| d.name == name);
                let name = (1..)
                    .map(|n| if n == 1 { base.clone() } else { format!("{base}-{n}") })
                    .find(|name| !taken(name))
                    .unwrap_or(base);
                let text_field = text_field.unwrap_or("text").to_string();
                datasets.push(DatasetEntry { name, path, subset: None, split: None, text_field, weight: 1.0 });
            }
            Ok(BlendFile { datasets })
        }
    }
}

/// A folder name for a path: its last part up to the first dot, other characters as `-`.
fn data_set_name(path: &str) -> String {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or("");
    let stem = last.trim_start_matches('.').split('.').next().unwrap_or("");
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let name: String = stem.chars().map(plain).collect();
    if name.is_empty() { "data".into() } else { name }
}

/// Runs a preparation under a display and reports what it left.
fn report(
    process: &mut Process<'_>,
    shown: bool,
    json: bool,
    work: impl FnOnce(&(dyn Fn(&ProgressReport) + Sync)) -> lightning_data::Result<PreparedRun>,
) -> Result<(), Failure> {
    let display = Display::new(shown);
    let start = Instant::now();
    let done = work(&|r| display.show(r));
    display.finish();
    let run = done?;
    let seconds = start.elapsed().as_secs_f64();
    let mut value = json!({ "directory": run.directory, "blend": run.blend, "seconds": round(seconds) });
    if let Some(tokens) = run.stats["total_tokens"].as_u64() {
        value["tokens_per_s"] = json!((tokens as f64 / seconds.max(1e-9)).round());
    }
    value["counts"] = run.stats;
    for text in &run.notes {
        note(process, &format!("note: {text}"));
    }
    if json {
        value["notes"] = json!(run.notes);
    }
    print_value(process, &value, json)
}

fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// `data prep pretrain`.
pub(super) fn pretrain(args: PretrainArgs, line: Line, process: &mut Process<'_>) -> Result<(), Failure> {
    line.no_overrides()?;
    let blend = blend(&line, args.input, args.blend.as_deref(), args.text_field.as_deref())?;
    let mut settings = PretrainPrep::new(blend, PathBuf::from(args.output), PathBuf::from(args.tokenizer));
    settings.num_shards = args.num_shards.unwrap_or(settings.num_shards);
    settings.valid_shards = args.valid_shards.unwrap_or(settings.valid_shards);
    settings.test_shards = args.test_shards.unwrap_or(settings.test_shards);
    settings.threads = at_least_one_thread(args.threads)?.unwrap_or(settings.threads);
    if let Some(name) = &args.dtype {
        settings.dtype = TokenType::from_name(name).ok_or_else(|| {
            usage(format!(
                "--dtype: expected uint8, int8, int16, int32, int64 or uint16, found `{name}`; choose one of them"
            ))
        })?;
    }
    settings.add_bos = args.add_bos;
    settings.add_eos = !args.no_eos;
    settings.min_doc_chars = args.min_doc_chars;
    settings.max_doc_tokens = args.max_doc_tokens;
    settings.sample = args.sample;
    settings.force = args.force;
    settings.on_bad_row = bad_rows(args.on_bad_row.as_deref())?;
    report(process, !args.no_progress, args.json, |show| prepare_pretrain(&settings, show))
}

/// `data prep sft`.
#[cfg(feature = "parquet")]
pub(super) fn sft(args: SftArgs, line: Line, process: &mut Process<'_>) -> Result<(), Failure> {
    line.no_overrides()?;
    let blend = blend(&line, args.input, args.blend.as_deref(), None)?;
    let mut settings = SftPrep::new(blend, PathBuf::from(args.output), PathBuf::from(args.tokenizer));
    settings.pack_size = args.pack_size.unwrap_or(settings.pack_size);
    settings.algorithm = algorithm(args.algorithm.as_deref(), settings.algorithm)?;
    settings.seed = args.seed.unwrap_or(settings.seed);
    settings.chat_template = args.chat_template.unwrap_or(settings.chat_template);
    let chat = &mut settings.chat;
    chat.messages_field = args.messages_field.unwrap_or(std::mem::take(&mut chat.messages_field));
    chat.tools_field = args.tools_field.unwrap_or(std::mem::take(&mut chat.tools_field));
    chat.used_in_field = args.used_in_field.unwrap_or(std::mem::take(&mut chat.used_in_field));
    match args.used_in_filter.as_deref() {
        None => {}
        Some("none") => chat.used_in_filter = None,
        Some(name) => chat.used_in_filter = Some(name.to_string()),
    }
    settings.num_shards = args.num_shards.unwrap_or(settings.num_shards);
    settings.valid_ratio = share("--valid-ratio", args.valid_ratio, settings.valid_ratio)?;
    settings.test_ratio = share("--test-ratio", args.test_ratio, settings.test_ratio)?;
    settings.max_doc_tokens = args.max_doc_tokens;
    settings.row_group = args.row_group.unwrap_or(settings.row_group);
    settings.sample = args.sample;
    settings.force = args.force;
    settings.on_bad_row = bad_rows(args.on_bad_row.as_deref())?;
    settings.threads = at_least_one_thread(args.threads)?.unwrap_or(settings.threads);
    report(process, !args.no_progress, args.json, |show| prepare_sft(&settings, show))
}

/// `data prep prompt-completion`.
#[cfg(feature = "parquet")]
pub(super) fn prompt_completion(
    args: PromptCompletionArgs,
    line: Line,
    process: &mut Process<'_>,
) -> Result<(), Failure> {
    line.no_overrides()?;
    let mut inputs = line.inputs(args.input);
    let (Some(source), true) = (inputs.pop(), inputs.is_empty()) else {
        return Err(usage("name one file or folder to prepare, in front or as --input"));
    };
    let (output, tokenizer) = (PathBuf::from(args.output), PathBuf::from(args.tokenizer));
    let mut settings = PromptCompletionPrep::new(source, output, tokenizer, args.pack_size.unwrap_or(4096));
    settings.split = args.split;
    settings.shape = match args.rows.as_deref() {
        None | Some("openmathinstruct2") => RowShape::OpenMathInstruct,
        Some("input-output" | "input_output") => RowShape::InputOutput,
        Some(other) => {
            let message =
                format!("--rows: expected openmathinstruct2 or input-output, found `{other}`; choose one of them");
            return Err(usage(message));
        }
    };
    settings.pad_seq_to_mult = args.pad_seq_to_mult.unwrap_or(settings.pad_seq_to_mult);
    settings.algorithm = algorithm(args.algorithm.as_deref(), settings.algorithm)?;
    settings.seed = args.seed.unwrap_or(settings.seed);
    settings.validation_share = share("--validation-share", args.validation_share, settings.validation_share)?;
    settings.on_bad_row = bad_rows(args.on_bad_row.as_deref())?;
    report(process, !args.no_progress, args.json, |show| prepare_prompt_completion(&settings, show))
}

/// `data prep rl`.
pub(super) fn rl(args: RlArgs, line: Line, process: &mut Process<'_>) -> Result<(), Failure> {
    line.no_overrides()?;
    if let Some(path) = line.paths.first() {
        return Err(usage(format!("`{path}`: say which split it is: --train, --val or --test")));
    }
    let splits: Vec<(String, String)> = [("train", args.train), ("val", args.val), ("test", args.test)]
        .into_iter()
        .filter_map(|(name, path)| path.map(|p| (name.to_string(), p)))
        .collect();
    if splits.is_empty() {
        return Err(usage("what to prepare is missing; give --train, --val or --test"));
    }
    let settings = RlPrep {
        name: args.name.unwrap_or_else(|| "rl".into()),
        splits,
        dapo: args.dapo.map(PathBuf::from),
        skywork: args.skywork.map(PathBuf::from),
        output: PathBuf::from(args.output),
        on_bad_row: bad_rows(args.on_bad_row.as_deref())?,
    };
    report(process, !args.no_progress, args.json, |show| prepare_rl(&settings, show))
}

#[cfg(feature = "parquet")]
fn algorithm(name: Option<&str>, default: Algorithm) -> Result<Algorithm, Failure> {
    Ok(name.map(Algorithm::from_name).transpose()?.unwrap_or(default))
}

#[cfg(feature = "parquet")]
fn share(flag: &str, value: Option<f64>, default: f64) -> Result<f64, Failure> {
    match value {
        None => Ok(default),
        Some(x) if (0.0..1.0).contains(&x) => Ok(x),
        Some(x) => Err(usage(format!("{flag}: expected a share from 0 to below 1, found {x}; correct it"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_sets_are_named_by_their_paths() {
        for (path, name) in [
            ("a/b/books.jsonl.gz", "books"),
            ("a/b/", "b"),
            ("hf://org/repo", "repo"),
            ("über uns.txt", "-ber-uns"),
            ("/", "data"),
            (".hidden.txt", "hidden"),
        ] {
            assert_eq!(data_set_name(path), name, "{path}");
        }
        let line = Line { paths: vec!["x/a.txt".into(), "y/a.txt".into()], overrides: Vec::new() };
        let names: Vec<String> = blend(&line, None, None, None).unwrap().datasets.into_iter().map(|d| d.name).collect();
        assert_eq!(names, ["a", "a-2"]);
    }
}
