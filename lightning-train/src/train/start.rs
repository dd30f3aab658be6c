//! How a run begins: its folder and locks, and whether it is new or goes on.

use super::data::RunData;
use super::engine::Engine;
use super::stop::Stop;
use crate::checkpoint::{self, CheckpointError, LoadOptions, TRACKER, TrainState};
use crate::cli::{Exit, Failure};
use crate::config::run::RunConfig;
use crate::hf::config_json;
use crate::records::lock::FolderLock;
use lightning_core::config::ModelConfig;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The folders of a run; locked as long as this lives.
pub struct Folders {
    /// Logs.
    pub run: PathBuf,
    /// Checkpoints.
    pub checkpoints: PathBuf,
    /// What the run continues from.
    pub load: Option<PathBuf>,
    /// Whether the same command line finds these folders again.
    pub named: bool,
    _locks: Vec<FolderLock>,
}

/// Why a file of the run cannot be written.
pub fn cannot_write(path: &Path, e: &std::io::Error) -> Failure {
    let message = format!("cannot write {}: {e}; set logger.dir to a folder that can be written", path.display());
    Failure::new(Exit::Invalid, message)
}

impl Folders {
    /// Finds, makes and locks the folders. A named folder that already holds checkpoints is continued, so that a scheduler
    /// can start the same command again.
    ///
    /// # Errors
    /// Folders that cannot be written or that another run holds.
    pub fn open(config: &RunConfig) -> Result<Self, Failure> {
        let run = run_folder(config)?;
        let c = &config.checkpoint;
        let checkpoints = c.save.as_ref().map_or_else(|| run.join("checkpoints"), PathBuf::from);
        let mut locks = vec![FolderLock::acquire(&run)?];
        if c.save.is_some() {
            fs::create_dir_all(&checkpoints).map_err(|e| cannot_write(&checkpoints, &e))?;
            let same = |a: &Path, b: &Path| fs::canonicalize(a).ok() == fs::canonicalize(b).ok();
            if !same(&run, &checkpoints) {
                locks.push(FolderLock::acquire(&checkpoints)?);
            }
        }
        let named = config.logger.dir.is_some() || c.save.is_some();
        let found = || (named && checkpoints.join(TRACKER).is_file()).then(|| checkpoints.clone());
        let load = c.load.as_ref().map(PathBuf::from).or_else(found);
        Ok(Self { run, checkpoints, load, named, _locks: locks })
    }
}

/// The folder of the run: the given one, that of the run which is resumed, or a new one under `runs/`.
fn run_folder(config: &RunConfig) -> Result<PathBuf, Failure> {
    let resumed = config.checkpoint.load.as_ref().filter(|_| !config.checkpoint.finetune).and_then(|load| {
        let candidates = Path::new(load).ancestors().take(3);
        candidates.filter(|dir| dir.join("metrics.jsonl").is_file()).map(Path::to_path_buf).next()
    });
    let folder = config.logger.dir.as_ref().map(PathBuf::from).or(resumed).unwrap_or_else(|| {
        let name = config.run.recipe.as_deref().unwrap_or("train");
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // Two runs that begin in the same second take two folders.
        let free = |n: u64| {
            let path = PathBuf::from(format!("runs/{name}-{}", seconds + n));
            (!path.exists()).then_some(path)
        };
        (0..).find_map(free).expect("a free second")
    });
    fs::create_dir_all(&folder).map_err(|e| cannot_write(&folder, &e))?;
    Ok(folder)
}

/// Initialises the model, or loads what the configuration names.
///
/// # Errors
/// Checkpoints that are damaged, of another model, or of other data; a signal.
pub fn start(
    config: &RunConfig,
    folders: &Folders,
    engine: &mut Engine,
    data: &RunData,
    stop: &Stop,
) -> Result<TrainState, Failure> {
    let c = &config.checkpoint;
    let fresh = TrainState { seed: config.rng.seed, data: data.fingerprint.clone(), ..TrainState::default() };
    if let Some(load) = &folders.load {
        let folder = checkpoint::resolve(load, c.ckpt_step)?;
        compare_models(&folder, &engine.model.spec.config)?;
        let optimizer = !c.finetune && c.load_optim;
        let read = if c.strict { checkpoint::load_strict } else { checkpoint::load };
        let state = read(engine, &folder, LoadOptions { optimizer }).map_err(|e| explain_strict(e, c.strict))?;
        if c.finetune {
            eprintln!("weights of {}", folder.display());
            return Ok(fresh);
        }
        compare_data(&folder, &state.data, &data.fingerprint)?;
        let lost = if optimizer { "" } else { " (optimizer fresh: checkpoint.load_optim=false)" };
        eprintln!("resuming after step {} of {}{lost}", state.iteration, folder.display());
        return Ok(state);
    }
    let model = engine.model.clone();
    model.initialize(&mut engine.device, config.rng.seed)?;
    stop.check("model initialisation")?;
    if let Some(path) = &c.pretrained_checkpoint {
        let folder = checkpoint::resolve(Path::new(path), None)?;
        checkpoint::load(engine, &folder, LoadOptions { optimizer: false })?;
        eprintln!("weights of {}", folder.display());
    }
    Ok(fresh)
}

/// A checkpoint that lacks nothing but optimizer states is refused for `checkpoint.strict` alone, and the message says so.
fn explain_strict(error: CheckpointError, strict: bool) -> Failure {
    match &error {
        CheckpointError::OtherModel { path, differences }
            if strict && differences.iter().all(|d| d.starts_with("optim.")) =>
        {
            let message = format!(
                "{} was saved without its optimizer states ({}, {} in all); without --strict (checkpoint.strict=false) the \
                 optimizer starts fresh",
                path.display(),
                differences.first().map_or("", String::as_str),
                differences.len()
            );
            Failure::new(Exit::Invalid, message)
        }
        _ => error.into(),
    }
}

/// Refuses a checkpoint whose `config.json` is of another model, and lists the differences. A checkpoint without one is
/// compared tensor by tensor when it is loaded.
fn compare_models(folder: &Path, config: &ModelConfig) -> Result<(), Failure> {
    let path = folder.join("config.json");
    let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
    let then: Value = serde_json::from_str(&text).map_err(|e| {
        let message = format!("{}: {e}; load an older checkpoint with checkpoint.ckpt_step", path.display());
        Failure::new(Exit::Invalid, message)
    })?;
    let now: Value = serde_json::from_str(&config_json::to_text(config)).expect("our own text is JSON");
    let (Some(then), Some(now)) = (then.as_object(), now.as_object()) else { return Ok(()) };
    let mut keys: Vec<&String> = then.keys().chain(now.keys()).collect();
    keys.sort();
    keys.dedup();
    let differences: Vec<(String, String, String)> = keys
        .into_iter()
        .filter(|key| then.get(*key) != now.get(*key))
        .map(|key| {
            let show = |v: Option<&Value>| v.map_or("absent".to_string(), Value::to_string);
            (key.clone(), show(then.get(key)), show(now.get(key)))
        })
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} holds another model:{}\nstart with the configuration in its run_config.toml (--config), or in a new folder \
         (logger.dir=...)",
        folder.display(),
        list(&differences)
    );
    Err(Failure::new(Exit::Usage, message))
}

/// Lines `name: then ..., now ...`.
fn list(differences: &[(String, String, String)]) -> String {
    let line =
        |(name, then, now): &(String, String, String)| format!("\n  {name}: {then} in the checkpoint, {now} now");
    differences.iter().map(line).collect()
}

/// Refuses to go on with other data or another tokenizer, and lists what differs.
fn compare_data(folder: &Path, then: &str, now: &str) -> Result<(), Failure> {
    if then == now {
        return Ok(());
    }
    fn fields(text: &str) -> Vec<(&str, &str)> {
        text.lines().map(|line| line.split_once(" = ").unwrap_or(("data", line))).collect()
    }
    let (old, new) = (fields(then), fields(now));
    let find = |of: &[(&str, &str)], name: &str| {
        of.iter().find(|(n, _)| *n == name).map_or("absent".to_string(), |(_, v)| v.to_string())
    };
    let mut names: Vec<&str> = old.iter().chain(&new).map(|(n, _)| *n).collect();
    names.sort_unstable();
    names.dedup();
    let differences: Vec<(String, String, String)> =
        names.into_iter().map(|n| (n.to_string(), find(&old, n), find(&new, n))).filter(|(_, a, b)| a != b).collect();
    let message = format!(
        "{} was trained on other data or with another tokenizer:{}\nadd checkpoint.finetune=true to take only its weights",
        folder.display(),
        list(&differences)
    );
    Err(Failure::new(Exit::Usage, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_data_are_named() {
        let folder = Path::new("iter_0000003");
        assert!(compare_data(folder, "text = 1\ntokenizer = 2", "text = 1\ntokenizer = 2").is_ok());
        let error = compare_data(folder, "text = 1\ntokenizer = 2", "text = 1\ntokenizer = 3").unwrap_err();
        assert!(error.message.contains("tokenizer: 2 in the checkpoint, 3 now"), "{error}");
        assert!(!error.message.contains("text:"), "{error}");
        let old = compare_data(folder, "text 77", "text = 1").unwrap_err();
        assert!(old.message.contains("text 77") && old.message.contains("absent"), "{old}");
    }
}
