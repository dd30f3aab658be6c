//! `verify checkpoint`: is a checkpoint of either kind complete and sound?

use crate::checkpoint::{CheckpointError, TRACKER, iteration_of};
use crate::cli::argv::{Flag, Takes};
use crate::cli::{Exit, Failure};
use crate::convert::{Census, ConvertError, Weights, cast, stream::CHUNK, stream::Source};
use argh::FromArgs;
use serde_json::json;
use std::path::Path;

/// Check a checkpoint of either kind: complete files, checksums (ours), shapes, NaN and infinities, and a table of all
/// tensors. Exit code 7 when something is wrong.
#[derive(FromArgs, Debug, Clone)]
#[argh(help_triggers("--help"))]
pub struct VerifyCheckpointArgs {
    /// the checkpoint: `verify checkpoint DIR`, or --checkpoint-path
    #[argh(option, arg_name = "dir")]
    pub checkpoint_path: String,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`VerifyCheckpointArgs`].
pub const VERIFY_CHECKPOINT_FLAGS: &[Flag] =
    &[Flag::with("checkpoint-path", &["hf-model", "megatron-path"], Takes::Value), Flag::new("json", Takes::Switch)];

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// All weights.
    pub census: Census,
    /// Tensors that are NaN or infinite somewhere: name, NaN, infinities.
    pub not_finite: Vec<(String, u64, u64)>,
    /// Files and tensors that cannot be read or have a wrong checksum.
    pub damaged: Vec<String>,
    /// Bytes that were read.
    pub bytes: u64,
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.census.agrees() && self.not_finite.is_empty() && self.damaged.is_empty()
    }

    /// Everything that is wrong, one line each.
    pub fn problems(&self) -> Vec<String> {
        let mut lines = self.census.differences();
        lines.extend(self.damaged.iter().cloned());
        let not_finite = self.not_finite.iter();
        lines.extend(not_finite.map(|(name, nan, inf)| format!("{name} has {nan} NaN and {inf} infinite elements")));
        lines
    }
}

/// The verb `verify checkpoint`.
///
/// # Errors
/// A folder that is no checkpoint (3); `Verification` when something is wrong.
pub fn checkpoint(args: VerifyCheckpointArgs) -> Result<(), Failure> {
    let path = Path::new(&args.checkpoint_path);
    let weights = Weights::open(path)?;
    let mut findings = examine(&weights);
    findings.damaged.extend(beside(path, &weights));
    let problems = findings.problems();
    if args.json {
        let mut value = findings.census.to_json();
        value["checkpoint"] = json!(weights.path());
        value["bytes_read"] = json!(findings.bytes);
        value["problems"] = json!(problems);
        println!("{value}");
    } else {
        print!("{}", findings.census.table());
    }
    if findings.is_sound() {
        eprintln!("{}: complete, {} bytes read, every value finite", weights.path().display(), findings.bytes);
        return Ok(());
    }
    let mut message = format!("{} has {} problems:", weights.path().display(), problems.len());
    for line in problems.iter().take(20) {
        message += &format!("\n  {line}");
    }
    if problems.len() > 20 {
        message += &format!("\n  and {} more", problems.len() - 20);
    }
    Err(Failure::new(Exit::Verification, message + "\nfetch or save the checkpoint again"))
}

/// Reads every tensor of an opened checkpoint.
pub fn examine(weights: &Weights) -> Findings {
    let listed = weights.list(true);
    let model = listed.iter().filter(|t| !t.name.starts_with("optim."));
    let census = Census::take(&weights.config().model, model.map(|t| (t.name.as_str(), t.dtype, t.shape.as_slice())));
    let mut findings = Findings { census, ..Findings::default() };
    let (mut bytes, mut floats) = (Vec::new(), Vec::new());
    for tensor in &listed {
        let size = tensor.dtype.bitsize() / 8;
        let total: usize = tensor.shape.iter().product();
        let mut stream = weights.stream(&tensor.name);
        let (mut nan, mut infinite, mut at) = (0, 0, 0);
        while at < total {
            let n = (CHUNK / 8).min(total - at);
            at += n;
            bytes.resize(n * size, 0);
            if let Err(error) = stream.read(&mut bytes) {
                findings.damaged.push(error.to_string());
                break;
            }
            findings.bytes += bytes.len() as u64;
            if cast::to_f32(tensor.dtype, &bytes, &mut floats).is_some() {
                nan += floats.iter().filter(|x| x.is_nan()).count() as u64;
                infinite += floats.iter().filter(|x| x.is_infinite()).count() as u64;
            }
        }
        if nan + infinite > 0 {
            findings.not_finite.push((tensor.name.clone(), nan, infinite));
        }
    }
    findings
}

/// What else a checkpoint of ours needs: the counters, and a tracker that names a folder which is there.
fn beside(path: &Path, weights: &Weights) -> Vec<String> {
    let Weights::Ours { checkpoint, .. } = weights else { return Vec::new() };
    let mut problems = Vec::new();
    let state = checkpoint.folder.join("train_state.json");
    match std::fs::read_to_string(&state) {
        Err(e) => problems.push(ConvertError::from(CheckpointError::io("read", &state, e)).to_string()),
        Ok(text) => {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            if value["iteration"].as_u64() != iteration_of(&checkpoint.folder) {
                let folder = checkpoint.folder.display();
                problems.push(format!("{} is of step {}, the folder is {folder}", state.display(), value["iteration"]));
            }
        }
    }
    let tracker = path.join(TRACKER);
    if iteration_of(path).is_none() && !tracker.is_file() {
        problems.push(format!("{} is missing", tracker.display()));
    }
    problems
}
