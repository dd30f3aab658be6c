//! `run.json`: what ran, on what, where, from when to when and how it ended.

use crate::cli::{Exit, Failure, TrainRequest};
use crate::doctor::machine;
use crate::records::clock::WallClock;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::Read;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// Name of the file in the run's folder.
pub const RUN_CARD: &str = "run.json";
const FORMAT: u32 = 1;

/// XXH3-64 of a file, as 16 hex digits.
pub fn file_hash(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = XxHash3_64::new();
    let mut block = vec![0; 1 << 20];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(format!("{:016x}", hash.finish())),
            n => hash.write(&block[..n]),
        }
    }
}

/// The card of a run; every start of the run adds a segment.
pub struct RunCard {
    path: PathBuf,
    card: Value,
}

/// The words of the command line; values of `--env` may be secrets and are left out.
fn command_line(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut hide = false;
    words
        .map(|word| {
            if std::mem::take(&mut hide) {
                return word.split('=').next().unwrap_or_default().to_string() + "=(hidden)";
            }
            hide = word == "--env";
            match word.strip_prefix("--env=") {
                Some(rest) => format!("--env={}=(hidden)", rest.split('=').next().unwrap_or_default()),
                None => word,
            }
        })
        .collect()
}

impl RunCard {
    /// Writes the card of a run that begins, or begins again after step `resumed_at`.
    ///
    /// # Errors
    /// `Invalid` when the folder cannot be written.
    pub fn begin(
        folder: &Path,
        request: &TrainRequest,
        run_config: &str,
        data: Value,
        model: Value,
        resumed_at: Option<u64>,
        clock: &mut WallClock,
    ) -> Result<Self, Failure> {
        let path = folder.join(RUN_CARD);
        // A card that cannot be read any more is begun anew: it is a record, not a state.
        let old: Option<Value> = fs::read_to_string(&path).ok().and_then(|t| serde_json::from_str(&t).ok());
        let mut segments = match (old, resumed_at) {
            (Some(mut old), Some(_)) => old["segments"].take().as_array().cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        let program = std::env::current_exe().ok().and_then(|p| file_hash(&p).ok());
        let mut segment = json!({
            "command": command_line(std::env::args().skip(1)),
            "program": { "name": "lightning-train", "version": env!("CARGO_PKG_VERSION") },
            "machine": machine::describe(),
            "process": std::process::id(),
            "started": clock.seconds(),
        });
        if let Some(hash) = program {
            segment["program"]["xxh3"] = hash.into();
        }
        if let Some(step) = resumed_at {
            segment["resumed_after_step"] = step.into();
        }
        segments.push(segment);
        let mut hash = XxHash3_64::new();
        hash.write(run_config.as_bytes());
        let origins: serde_json::Map<String, Value> = crate::config::run::RunConfig::keys()
            .filter_map(|key| {
                let value = request.resolved.config.get(&key)?;
                let entry = json!({ "value": value.to_string(), "from": request.resolved.origin(&key).to_string() });
                Some((key, entry))
            })
            .collect();
        let card = json!({
            "format": FORMAT,
            "recipe": request.resolved.config.run.recipe,
            "status": "running",
            "model": model,
            "data": data,
            "config_xxh3": format!("{:016x}", hash.finish()),
            "config": origins,
            "segments": segments,
        });
        let card = Self { path, card };
        card.write()?;
        Ok(card)
    }

    /// Completes the card of a run that ended.
    ///
    /// # Errors
    /// `Invalid` when the disk is full.
    pub fn end(&mut self, outcome: &Result<(), Failure>, results: Value, clock: &mut WallClock) -> Result<(), Failure> {
        let (status, exit) = match outcome {
            Ok(()) => ("done", Exit::Done),
            Err(failure) if failure.exit == Exit::Requeue => ("stopped", failure.exit),
            Err(failure) => ("failed", failure.exit),
        };
        self.card["status"] = status.into();
        if let Some(segment) = self.card["segments"].as_array_mut().and_then(|s| s.last_mut()) {
            segment["ended"] = json!(clock.seconds());
            segment["exit_code"] = (exit as i32).into();
            segment["results"] = results;
            if let Err(failure) = outcome {
                segment["message"] = failure.message.clone().into();
            }
        }
        self.write()
    }

    fn write(&self) -> Result<(), Failure> {
        let text = format!("{:#}\n", self.card);
        lightning_data::atomic::write_atomically(&self.path, text.as_bytes()).map_err(Failure::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_environment_stay_out_of_the_card() {
        let words = ["train", "--env", "TOKEN=abc", "--env=KEY=def", "optimizer.lr=1e-3"];
        let kept = command_line(words.iter().map(|w| w.to_string()));
        assert_eq!(kept, ["train", "--env", "TOKEN=(hidden)", "--env=KEY=(hidden)", "optimizer.lr=1e-3"]);
    }
}
