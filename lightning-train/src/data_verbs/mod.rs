//! The verbs `data prep ...`, `data inspect` and `data tokenizer`.
//!
//! Paths may stand as plain words in front; `sample=100`, `force=true` and the like mean the flags of that name.

mod args;
mod batches;
mod inspect;
mod prep;
mod run_config;
mod show;
mod tokenizer;

use argh::FromArgs;
use lightning_data::prep::BadRows;
use serde_json::Value;

use crate::cli::argv::{Flag, normalise};
use crate::cli::exit::EXIT_CODES;
use crate::cli::help::VerbHelp;
use crate::cli::{Exit, Failure, Parsed, Process, parse, print};

/// The verbs for the help.
pub const VERBS: &[VerbHelp] = &[
    VerbHelp { words: "data prep pretrain", about: "turn raw text into token files" },
    #[cfg(feature = "parquet")]
    VerbHelp { words: "data prep sft", about: "turn chats into packed files" },
    #[cfg(feature = "parquet")]
    VerbHelp { words: "data prep prompt-completion", about: "turn prompts and completions into packed files" },
    VerbHelp { words: "data prep rl", about: "fill in the placeholders of a reinforcement-learning blend" },
    VerbHelp { words: "data inspect", about: "show what is in data, and what a rank sees at a step" },
    VerbHelp { words: "data tokenizer", about: "train a byte-level BPE tokenizer" },
];

/// Runs a data verb; `words` are those behind `data`.
///
/// # Errors
/// Command lines (exit code 2), data and disks (3). `None`: there is no such verb.
pub fn data(words: &[String], process: &mut Process<'_>) -> Option<Result<(), Failure>> {
    let first = words.first().map(String::as_str).unwrap_or("");
    let second = words.get(1).map(String::as_str).unwrap_or("");
    Some(match (first, second) {
        ("prep", "pretrain") => verb("prep pretrain", &words[2..], args::PRETRAIN_FLAGS, process, prep::pretrain),
        #[cfg(feature = "parquet")]
        ("prep", "sft") => verb("prep sft", &words[2..], args::SFT_FLAGS, process, prep::sft),
        #[cfg(feature = "parquet")]
        ("prep", "prompt-completion" | "prompt_completion") => {
            verb("prep prompt-completion", &words[2..], args::PROMPT_COMPLETION_FLAGS, process, prep::prompt_completion)
        }
        ("prep", "rl") => verb("prep rl", &words[2..], args::RL_FLAGS, process, prep::rl),
        ("inspect", _) => verb("inspect", &words[1..], args::INSPECT_FLAGS, process, inspect::inspect),
        ("tokenizer", _) => verb("tokenizer", &words[1..], args::TOKENIZER_FLAGS, process, tokenizer::train),
        _ => return None,
    })
}

/// What a verb gets beside its flags.
struct Line {
    /// Plain words in front of the flags.
    paths: Vec<String>,
    /// `section.key=value`.
    overrides: Vec<String>,
}

fn verb<A: FromArgs>(
    name: &str,
    words: &[String],
    flags: &[Flag],
    process: &mut Process<'_>,
    act: fn(A, Line, &mut Process<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let plain = |w: &&String| !w.starts_with('-') && !w.contains('=');
    let paths: Vec<String> = words.iter().take_while(plain).cloned().collect();
    let rest: Vec<String> = words[paths.len()..].iter().filter_map(|w| as_flag(w, flags)).collect();
    let line = normalise(&rest, flags)?;
    match parse(&["lightning-train", "data", name], &line)? {
        Parsed::Help(text) => print(process, &(text + "\n" + EXIT_CODES)),
        Parsed::Args(args) => act(args, Line { paths, overrides: line.overrides }, process),
    }
}

/// `sample=100` is `--sample=100`; `sample=null` is not there at all. Settings of a run have a dot in their names.
fn as_flag(word: &str, flags: &[Flag]) -> Option<String> {
    match word.split_once('=') {
        Some((key, value)) if !word.starts_with('-') && !key.contains('.') => {
            let long = key.replace('_', "-");
            if !flags.iter().any(|f| f.long == long || f.other.contains(&long.as_str())) {
                return Some(word.to_string());
            }
            (value != "null").then(|| format!("--{long}={value}"))
        }
        _ => Some(word.to_string()),
    }
}

impl Line {
    /// Refuses overrides, where there is no run.
    fn no_overrides(&self) -> Result<(), Failure> {
        match self.overrides.first() {
            None => Ok(()),
            Some(text) => Err(usage(format!("`{text}` names no flag of this verb; --help lists all"))),
        }
    }

    /// The paths in front and behind `--input`.
    fn inputs(&self, flag: Option<String>) -> Vec<String> {
        self.paths.iter().cloned().chain(flag).collect()
    }
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Usage, message)
}

fn bad_rows(text: Option<&str>) -> Result<BadRows, Failure> {
    match text {
        None | Some("stop") => Ok(BadRows::Stop),
        Some("skip") => Ok(BadRows::Skip),
        Some(other) => Err(usage(format!("--on-bad-row: expected stop or skip, found `{other}`; choose one of them"))),
    }
}

fn at_least_one_thread(threads: Option<usize>) -> Result<Option<usize>, Failure> {
    match threads {
        Some(0) => Err(usage("--threads: expected at least 1, found 0; leave it out to use every core")),
        other => Ok(other),
    }
}

/// Prints a JSON object: as it is for programs, as `name value` lines for people.
fn print_value(process: &mut Process<'_>, value: &Value, json: bool) -> Result<(), Failure> {
    if json {
        return print(process, &format!("{value}\n"));
    }
    let mut text = String::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(map) => {
                text += &format!("{key}\n");
                for (key, value) in map {
                    text += &format!("  {key:28} {}\n", plain_text(value));
                }
            }
            Value::Null => {}
            other => text += &format!("{key:30} {}\n", plain_text(other)),
        }
    }
    print(process, &text)
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// A line for people; a closed standard error is no failure.
fn note(process: &mut Process<'_>, text: &str) {
    let _ = writeln!(process.err, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_without_dashes_mean_flags() {
        let flag = |w: &str| as_flag(w, args::PRETRAIN_FLAGS);
        assert_eq!(flag("sample=10").as_deref(), Some("--sample=10"));
        assert_eq!(flag("num_shards=2").as_deref(), Some("--num-shards=2"));
        assert_eq!(flag("sample=null"), None);
        assert_eq!(flag("train.train_iters=2").as_deref(), Some("train.train_iters=2"));
        assert_eq!(flag("nothing=2").as_deref(), Some("nothing=2"));
        assert_eq!(flag("--force").as_deref(), Some("--force"));
    }
}
