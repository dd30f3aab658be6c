//! Reading.

use super::format::{Index, TrainState};
use super::reader::{Checkpoint, parse_dtype};
use super::region::Rect;
use super::shard_file::recover;
use super::{CheckpointError, TRACKER, iteration_folder, iteration_of};
use crate::train::engine::Engine;
use lightning_core::device::Device;
use lightning_core::element::Element;
use lightning_core::optim::StateSlot;
use safetensors::Dtype;
use std::fs;
use std::path::{Path, PathBuf};

/// What to take from a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Optimizer states and counters; without them only weights are taken and the run begins at step 0.
    pub optimizer: bool,
}

/// The checkpoint that a path means: one `iter_NNNNNNN` folder, or the newest (or the given) one of a run.
///
/// # Errors
/// `NotACheckpoint` when there is none.
pub fn resolve(path: &Path, step: Option<u64>) -> Result<PathBuf, CheckpointError> {
    let missing = |missing: String| CheckpointError::NotACheckpoint { path: path.to_path_buf(), missing };
    if iteration_of(path).is_some() {
        recover(path)?;
        return if path.is_dir() { Ok(path.to_path_buf()) } else { Err(missing("there is no such folder".into())) };
    }
    let iteration = match step {
        Some(step) => step,
        None => {
            let tracker = path.join(TRACKER);
            let text = fs::read_to_string(&tracker).map_err(|e| missing(format!("{TRACKER}: {e}")))?;
            text.trim().parse().map_err(|_| missing(format!("{TRACKER} holds {:?}, not a step", text.trim())))?
        }
    };
    let folder = iteration_folder(path, iteration);
    recover(&folder)?;
    if folder.is_dir() { Ok(folder) } else { Err(missing(format!("there is no {}", folder.display()))) }
}

pub(super) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, CheckpointError> {
    let text = fs::read_to_string(path).map_err(|e| CheckpointError::io("read", path, e))?;
    serde_json::from_str(&text).map_err(|e| CheckpointError::damaged(path, e.to_string()))
}

/// Loads a checkpoint folder into the engine, after comparing it with the model and verifying every checksum. When the
/// optimizer is asked for and the checkpoint was saved without one, only weights and counters are taken and that is said
/// on standard error (pitfall B77).
///
/// # Errors
/// Missing or damaged files, another model, weights that are not finite, a device that fails. The engine may hold some of the new weights
/// after an error.
pub fn load(engine: &mut Engine, folder: &Path, options: LoadOptions) -> Result<TrainState, CheckpointError> {
    load_from(engine, folder, options, false)
}

/// As [`load`], but a checkpoint without the optimizer that is asked for is refused.
///
/// # Errors
/// As [`load`].
pub fn load_strict(engine: &mut Engine, folder: &Path, options: LoadOptions) -> Result<TrainState, CheckpointError> {
    load_from(engine, folder, options, true)
}

fn load_from(
    engine: &mut Engine,
    folder: &Path,
    options: LoadOptions,
    strict: bool,
) -> Result<TrainState, CheckpointError> {
    let sections: &[&str] = if options.optimizer { &[] } else { &["model"] };
    let checkpoint = Checkpoint::open(folder, sections)?;
    let mut state: TrainState = read_json(&folder.join("train_state.json"))?;
    let saved_without = !checkpoint.index.tensors.keys().any(|k| k.starts_with("optim."));
    let fresh = options.optimizer && !strict && saved_without;
    if fresh {
        eprintln!("{} was saved without its optimizer; the optimizer starts fresh", folder.display());
        state.optimizer_steps = 0;
    }
    let wants_optimizer = options.optimizer && !fresh;
    compare(engine, folder, &checkpoint.index, LoadOptions { optimizer: wants_optimizer })?;
    let parts: Vec<_> = engine.model.parts().map(|(part, _, t)| (part.name.clone(), t)).collect();
    let model = engine.model.clone();
    let buffers = model.persistent.buffers();
    for (name, tensors) in parts {
        let values = |section: &str| read_tensor(&checkpoint, &format!("{section}/{name}"));
        let weight = values("model")?.expect("compared above");
        model.write_weight(&mut engine.device, tensors, &weight)?;
        let Some(training) = tensors.training.filter(|_| wants_optimizer) else {
            continue;
        };
        if let Some(master) = values("optim.master")? {
            // A run in a wider type takes the master as its weight.
            let target = training.master.unwrap_or(tensors.weight);
            engine.device.write_f64(buffers, target, &master)?;
        }
        if let (Some((m, v)), Some(m_values), Some(v_values)) =
            (training.moments, values("optim.m")?, values("optim.v")?)
        {
            engine.device.write_f64(buffers, m, &m_values)?;
            engine.device.write_f64(buffers, v, &v_values)?;
        }
    }
    if options.optimizer {
        for (slot, value) in [
            (StateSlot::Samples, state.schedule_samples),
            (StateSlot::Steps, state.optimizer_steps),
            (StateSlot::Skipped, state.skipped_steps),
            (StateSlot::SkippedInARow, state.skipped_in_a_row),
        ] {
            engine.set_state(slot, value as f64)?;
        }
    }
    Ok(state)
}

/// Lists every tensor that the model and the checkpoint do not share.
fn compare(engine: &Engine, folder: &Path, index: &Index, options: LoadOptions) -> Result<(), CheckpointError> {
    let mut differences = Vec::new();
    let mut known = 0;
    for (part, _, tensors) in engine.model.parts() {
        let mut sections = vec!["model"];
        if options.optimizer && tensors.training.is_some_and(|t| t.moments.is_some()) {
            sections.extend(["optim.m", "optim.v"]);
        }
        for section in sections {
            match index.tensors.get(&format!("{section}/{}", part.name)) {
                None => differences.push(format!("{section}/{} is missing", part.name)),
                Some(entry) if entry.shape != part.shape => differences.push(format!(
                    "{section}/{} is {:?} in the checkpoint and {:?} in the model",
                    part.name, entry.shape, part.shape
                )),
                Some(_) => known += usize::from(section == "model"),
            }
        }
    }
    let in_file = index.tensors.keys().filter(|k| k.starts_with("model/"));
    let extra = in_file.clone().count().saturating_sub(known);
    if extra > 0 && differences.is_empty() {
        let names: std::collections::BTreeSet<String> =
            engine.model.parts().map(|(part, _, _)| format!("model/{}", part.name)).collect();
        differences.extend(in_file.filter(|k| !names.contains(*k)).map(|k| format!("{k} is not in the model")));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(CheckpointError::OtherModel { path: folder.to_path_buf(), differences })
}

/// A whole tensor, as f64 (exact for every type that we store).
fn read_tensor(checkpoint: &Checkpoint, name: &str) -> Result<Option<Vec<f64>>, CheckpointError> {
    let Some(entry) = checkpoint.entry(name) else { return Ok(None) };
    let dtype = parse_dtype(&entry.dtype).expect("checked when opened");
    let whole = Rect::whole(&entry.shape);
    let mut bytes = vec![0; whole.len() * dtype.bitsize() / 8];
    checkpoint.read(name, &[whole], &mut bytes)?;
    let path = entry.pieces.first().map_or(checkpoint.folder.join("index.json"), |p| checkpoint.folder.join(&p.file));
    let values =
        decode(dtype, &bytes).ok_or_else(|| CheckpointError::damaged(&path, format!("`{name}` has type {dtype}")))?;
    let count = values.iter().filter(|v| !v.is_finite()).count();
    if count > 0 {
        return Err(CheckpointError::NotFinite { path, tensor: name.to_string(), count });
    }
    Ok(Some(values))
}

/// Little-endian floating-point bytes as f64; `None` for other types.
pub(crate) fn decode(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    Some(match dtype {
        Dtype::F64 => bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
        Dtype::F32 => bytes.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
        Dtype::BF16 => {
            bytes.as_chunks::<2>().0.iter().map(|b| f64::from(half::bf16::from_le_bytes(*b).widen())).collect()
        }
        _ => return None,
    })
}
