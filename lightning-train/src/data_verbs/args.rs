//! Flags of the data verbs.

use argh::FromArgs;

use crate::cli::argv::{Flag, Takes};

use Takes::{Switch, Value};

/// Turn raw text into token files for pretraining.
///
/// Reads JSON lines (plain, .gz, .zst), Parquet and plain text; writes shards of .bin/.idx, receipts and blend.json, the
/// file that dataset.per_split_data_args_path takes. A preparation that was interrupted goes on where it ended when it is
/// started again with the same words.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct PretrainArgs {
    /// file or folder to read, or hf://ORG/REPO in the local cache; also as first words of the line, several of them
    #[argh(option, arg_name = "path")]
    pub input: Option<String>,
    /// blend file: {"datasets": [{"name", "path", "weight", "text_field", "subset", "split"}]}
    #[argh(option, arg_name = "file")]
    pub blend: Option<String>,
    /// folder with tokenizer.json, or that file
    #[argh(option, arg_name = "path")]
    pub tokenizer: String,
    /// folder to write to
    #[argh(option, arg_name = "dir")]
    pub output: String,
    /// field of the text, for inputs that a blend file does not describe (text)
    #[argh(option, arg_name = "name")]
    pub text_field: Option<String>,
    /// shards per data set (128)
    #[argh(option, arg_name = "n")]
    pub num_shards: Option<usize>,
    /// shards for validation (1)
    #[argh(option, arg_name = "n")]
    pub valid_shards: Option<usize>,
    /// shards for test (1)
    #[argh(option, arg_name = "n")]
    pub test_shards: Option<usize>,
    /// start every document with BOS
    #[argh(switch)]
    pub add_bos: bool,
    /// do not end documents with EOS
    #[argh(switch)]
    pub no_eos: bool,
    /// type of the stored ids: int32, uint16, ... (int32)
    #[argh(option, arg_name = "type")]
    pub dtype: Option<String>,
    /// leave out texts of fewer characters
    #[argh(option, arg_name = "n")]
    pub min_doc_chars: Option<usize>,
    /// cut documents to this many tokens
    #[argh(option, arg_name = "n")]
    pub max_doc_tokens: Option<usize>,
    /// prepare only this many rows of every data set, in one shard, under OUTPUT/sample-N
    #[argh(option, arg_name = "n")]
    pub sample: Option<u64>,
    /// prepare everything again
    #[argh(switch)]
    pub force: bool,
    /// a row that cannot be read: stop (name file and line) or skip (and count)
    #[argh(option, arg_name = "policy")]
    pub on_bad_row: Option<String>,
    /// worker threads (one more than there are cores)
    #[argh(option, arg_name = "n")]
    pub threads: Option<usize>,
    /// no progress
    #[argh(switch)]
    pub no_progress: bool,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`PretrainArgs`].
pub const PRETRAIN_FLAGS: &[Flag] = &[
    Flag::new("input", Value),
    Flag::new("blend", Value),
    Flag::with("tokenizer", &["tokenizer-model"], Value),
    Flag::with("output", &["output-dir"], Value),
    Flag::new("text-field", Value),
    Flag::new("num-shards", Value),
    Flag::new("valid-shards", Value),
    Flag::new("test-shards", Value),
    Flag::new("add-bos", Switch),
    Flag::new("no-eos", Switch),
    Flag::new("dtype", Value),
    Flag::new("min-doc-chars", Value),
    Flag::new("max-doc-tokens", Value),
    Flag::new("sample", Value),
    Flag::new("force", Switch),
    Flag::new("on-bad-row", Value),
    Flag::with("threads", &["workers"], Value),
    Flag::new("no-progress", Switch),
    Flag::new("json", Switch),
];

/// Turn chats into packed files for fine-tuning.
///
/// Rows hold messages (and tools) in the OpenAI form; they go through the chat template, only the assistant's words are
/// trained. Writes packed Parquet, blend.json and splits/train, splits/valid, splits/test.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct SftArgs {
    /// file or folder to read, or hf://ORG/REPO in the local cache; also as first words of the line, several of them
    #[argh(option, arg_name = "path")]
    pub input: Option<String>,
    /// blend file: {"datasets": [{"name", "path", "weight", "subset", "split"}]}
    #[argh(option, arg_name = "file")]
    pub blend: Option<String>,
    /// folder with tokenizer.json, or that file
    #[argh(option, arg_name = "path")]
    pub tokenizer: String,
    /// folder to write to
    #[argh(option, arg_name = "dir")]
    pub output: String,
    /// tokens of a pack (4096)
    #[argh(option, arg_name = "n")]
    pub pack_size: Option<u32>,
    /// first_fit_shuffle, first_fit_decreasing or concatenative (first_fit_shuffle)
    #[argh(option, arg_name = "name")]
    pub algorithm: Option<String>,
    /// seed of packing and splits (42)
    #[argh(option, arg_name = "n")]
    pub seed: Option<u64>,
    /// chat template (lightning35)
    #[argh(option, arg_name = "name")]
    pub chat_template: Option<String>,
    /// field of the messages (messages)
    #[argh(option, arg_name = "name")]
    pub messages_field: Option<String>,
    /// field of the tools (tools)
    #[argh(option, arg_name = "name")]
    pub tools_field: Option<String>,
    /// keep only rows whose field used_in names this (nano_v3); none keeps all
    #[argh(option, arg_name = "name")]
    pub used_in_filter: Option<String>,
    /// field of the uses (used_in)
    #[argh(option, arg_name = "name")]
    pub used_in_field: Option<String>,
    /// shards per data set (128)
    #[argh(option, arg_name = "n")]
    pub num_shards: Option<usize>,
    /// share of the shards for validation (0.01)
    #[argh(option, arg_name = "x")]
    pub valid_ratio: Option<f64>,
    /// share of the shards for test (0.01)
    #[argh(option, arg_name = "x")]
    pub test_ratio: Option<f64>,
    /// cut sequences to this many tokens
    #[argh(option, arg_name = "n")]
    pub max_doc_tokens: Option<usize>,
    /// rows of a Parquet row group (1000)
    #[argh(option, arg_name = "n")]
    pub row_group: Option<usize>,
    /// prepare only this many rows of every data set, in one shard, under OUTPUT/sample-N
    #[argh(option, arg_name = "n")]
    pub sample: Option<u64>,
    /// prepare everything again
    #[argh(switch)]
    pub force: bool,
    /// a row that cannot be read: stop (name file and line) or skip (and count)
    #[argh(option, arg_name = "policy")]
    pub on_bad_row: Option<String>,
    /// worker threads (one more than there are cores)
    #[argh(option, arg_name = "n")]
    pub threads: Option<usize>,
    /// no progress
    #[argh(switch)]
    pub no_progress: bool,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`SftArgs`].
pub const SFT_FLAGS: &[Flag] = &[
    Flag::new("input", Value),
    Flag::new("blend", Value),
    Flag::with("tokenizer", &["tokenizer-model"], Value),
    Flag::with("output", &["output-dir"], Value),
    Flag::new("pack-size", Value),
    Flag::new("algorithm", Value),
    Flag::new("seed", Value),
    Flag::new("chat-template", Value),
    Flag::new("messages-field", Value),
    Flag::new("tools-field", Value),
    Flag::new("used-in-filter", Value),
    Flag::new("used-in-field", Value),
    Flag::new("num-shards", Value),
    Flag::new("valid-ratio", Value),
    Flag::new("test-ratio", Value),
    Flag::new("max-doc-tokens", Value),
    Flag::new("row-group", Value),
    Flag::new("sample", Value),
    Flag::new("force", Switch),
    Flag::new("on-bad-row", Value),
    Flag::with("threads", &["workers"], Value),
    Flag::new("no-progress", Switch),
    Flag::new("json", Switch),
];

/// Turn prompts and completions into packed files for fine-tuning, without a chat template.
///
/// Writes training.jsonl, validation.jsonl and packed/NAME/ with one packed Parquet file per split and its metadata.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct PromptCompletionArgs {
    /// file or folder to read, or hf://ORG/REPO in the local cache; also as first word of the line
    #[argh(option, arg_name = "path")]
    pub input: Option<String>,
    /// split of a Hugging Face data set
    #[argh(option, arg_name = "name")]
    pub split: Option<String>,
    /// openmathinstruct2 (problem, generated_solution, expected_answer) or input-output (input, output)
    #[argh(option, arg_name = "name")]
    pub rows: Option<String>,
    /// folder with tokenizer.json, or that file
    #[argh(option, arg_name = "path")]
    pub tokenizer: String,
    /// folder to write to
    #[argh(option, arg_name = "dir")]
    pub output: String,
    /// positions of a pack: the sequence length of the training (4096)
    #[argh(option, arg_name = "n")]
    pub pack_size: Option<u32>,
    /// pad lengths to this multiple (1)
    #[argh(option, arg_name = "n")]
    pub pad_seq_to_mult: Option<u32>,
    /// first_fit_shuffle or first_fit_decreasing (first_fit_shuffle)
    #[argh(option, arg_name = "name")]
    pub algorithm: Option<String>,
    /// seed of packing and split (5678)
    #[argh(option, arg_name = "n")]
    pub seed: Option<u32>,
    /// share of the rows for validation (0.05)
    #[argh(option, arg_name = "x")]
    pub validation_share: Option<f64>,
    /// a row that cannot be read: stop (name file and line) or skip (and count)
    #[argh(option, arg_name = "policy")]
    pub on_bad_row: Option<String>,
    /// no progress
    #[argh(switch)]
    pub no_progress: bool,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`PromptCompletionArgs`].
pub const PROMPT_COMPLETION_FLAGS: &[Flag] = &[
    Flag::new("input", Value),
    Flag::new("split", Value),
    Flag::new("rows", Value),
    Flag::with("tokenizer", &["tokenizer-model"], Value),
    Flag::with("output", &["output-dir"], Value),
    Flag::new("pack-size", Value),
    Flag::new("pad-seq-to-mult", Value),
    Flag::new("algorithm", Value),
    Flag::new("seed", Value),
    Flag::new("validation-share", Value),
    Flag::new("on-bad-row", Value),
    Flag::new("no-progress", Switch),
    Flag::new("json", Switch),
];

/// Turn a reinforcement-learning blend into JSON lines with its placeholders filled in.
///
/// Every split is taken as it is. Writes runs/HASH/NAME__SPLIT/shard_000000.jsonl and manifest.json.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct RlArgs {
    /// rows of the training split
    #[argh(option, arg_name = "path")]
    pub train: Option<String>,
    /// rows of the validation split
    #[argh(option, arg_name = "path")]
    pub val: Option<String>,
    /// rows of the test split
    #[argh(option, arg_name = "path")]
    pub test: Option<String>,
    /// name of the data set; names folders (rl)
    #[argh(option, arg_name = "name")]
    pub name: Option<String>,
    /// rows of DAPO-Math-17k, for placeholders
    #[argh(option, arg_name = "path")]
    pub dapo: Option<String>,
    /// rows of Skywork-OR1 (mathematics), for placeholders
    #[argh(option, arg_name = "path")]
    pub skywork: Option<String>,
    /// folder to write to
    #[argh(option, arg_name = "dir")]
    pub output: String,
    /// a row that cannot be read: stop (name file and line) or skip (and count)
    #[argh(option, arg_name = "policy")]
    pub on_bad_row: Option<String>,
    /// no progress on standard error
    #[argh(switch)]
    pub no_progress: bool,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`RlArgs`].
pub const RL_FLAGS: &[Flag] = &[
    Flag::new("train", Value),
    Flag::with("val", &["valid", "validation"], Value),
    Flag::new("test", Value),
    Flag::new("name", Value),
    Flag::new("dapo", Value),
    Flag::new("skywork", Value),
    Flag::with("output", &["output-dir"], Value),
    Flag::new("on-bad-row", Value),
    Flag::new("no-progress", Switch),
    Flag::new("json", Switch),
];

/// Show what is in a token file, a packed file or the data of a run.
///
/// The first word is a prefix (or its .bin or .idx), a packed Parquet file or a folder of them, a configuration (TOML) or
/// the folder of a run. For a run, section.key=value changes settings, as for train.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct InspectArgs {
    /// what to show; also as first word of the line
    #[argh(option, arg_name = "path")]
    pub path: Option<String>,
    /// recipe of a run, instead of a configuration file
    #[argh(option, arg_name = "name")]
    pub recipe: Option<String>,
    /// folder with tokenizer.json, or that file: decodes samples
    #[argh(option, arg_name = "path")]
    pub tokenizer: Option<String>,
    /// samples to show, what is trained between [[ and ]] (3 with a tokenizer, else 0)
    #[argh(option, arg_name = "n")]
    pub samples: Option<u64>,
    /// first sample to show (0)
    #[argh(option, default = "0", arg_name = "n")]
    pub from: u64,
    /// check that every token is below this
    #[argh(option, arg_name = "n")]
    pub vocab_size: Option<u32>,
    /// show what a rank sees at these steps, from 0: FIRST..END (without END) or one number; step s makes iteration s+1
    #[argh(option, arg_name = "steps")]
    pub batches: Option<String>,
    /// data-parallel rank (0)
    #[argh(option, default = "0", arg_name = "n")]
    pub rank: u64,
    /// data-parallel ranks (those of the run's configuration, else 1)
    #[argh(option, arg_name = "n")]
    pub dp: Option<u64>,
    /// context-parallel ranks: each sees a slice of every document (those of the run's configuration, else 1)
    #[argh(option, arg_name = "n")]
    pub cp: Option<usize>,
    /// context-parallel rank (0)
    #[argh(option, default = "0", arg_name = "n")]
    pub cp_rank: usize,
    /// packed files: samples of an optimizer step (1)
    #[argh(option, arg_name = "n")]
    pub global_batch_size: Option<u64>,
    /// packed files: positions of a row, needed for --batches
    #[argh(option, arg_name = "n")]
    pub pack_size: Option<u32>,
    /// packed files: multiple that lengths were padded to (1)
    #[argh(option, arg_name = "n")]
    pub pad_seq_to_mult: Option<u32>,
    /// packed files: seed of the order (1234)
    #[argh(option, arg_name = "n")]
    pub seed: Option<u64>,
    /// write the batches into this safetensors file instead of printing them
    #[argh(option, arg_name = "file")]
    pub output: Option<String>,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`InspectArgs`].
pub const INSPECT_FLAGS: &[Flag] = &[
    Flag::with("path", &["config"], Value),
    Flag::new("recipe", Value),
    Flag::with("tokenizer", &["tokenizer-model"], Value),
    Flag::new("samples", Value),
    Flag::new("from", Value),
    Flag::new("vocab-size", Value),
    Flag::new("batches", Value),
    Flag::new("rank", Value),
    Flag::new("dp", Value),
    Flag::new("cp", Value),
    Flag::new("cp-rank", Value),
    Flag::with("global-batch-size", &["gb"], Value),
    Flag::new("pack-size", Value),
    Flag::new("pad-seq-to-mult", Value),
    Flag::new("seed", Value),
    Flag::new("output", Value),
    Flag::new("json", Switch),
];

/// Train a byte-level BPE tokenizer and save it as tokenizer.json.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct TokenizerArgs {
    /// file or folder to read; also as first words of the line, several of them
    #[argh(option, arg_name = "path")]
    pub input: Option<String>,
    /// folder to write to
    #[argh(option, arg_name = "dir")]
    pub output: String,
    /// size of the vocabulary, the 256 bytes and the special tokens included
    #[argh(option, arg_name = "n")]
    pub vocab_size: usize,
    /// special tokens, separated by commas, in the order of their ids (the end-of-document token alone)
    #[argh(option, arg_name = "list")]
    pub special_tokens: Option<String>,
    /// special token that ends a document (<|endoftext|>)
    #[argh(option, arg_name = "token")]
    pub eos: Option<String>,
    /// pairs seen less often are not merged (2)
    #[argh(option, arg_name = "n")]
    pub min_frequency: Option<u64>,
    /// field of the text in JSON lines and Parquet (text)
    #[argh(option, arg_name = "name")]
    pub text_field: Option<String>,
    /// a row that cannot be read: stop (name file and line) or skip (and count)
    #[argh(option, arg_name = "policy")]
    pub on_bad_row: Option<String>,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`TokenizerArgs`].
pub const TOKENIZER_FLAGS: &[Flag] = &[
    Flag::new("input", Value),
    Flag::with("output", &["output-dir"], Value),
    Flag::new("vocab-size", Value),
    Flag::new("special-tokens", Value),
    Flag::new("eos", Value),
    Flag::new("min-frequency", Value),
    Flag::new("text-field", Value),
    Flag::new("on-bad-row", Value),
    Flag::new("json", Switch),
];
