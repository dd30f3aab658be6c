//! Reading.

use super::format::{FORMAT, Index, TensorEntry, TrainState, VERSION};
use super::{CheckpointError, TRACKER, iteration_folder, iteration_of};
use crate::train::engine::Engine;
use lightning_core::device::Device;
use lightning_core::element::Element;
use lightning_core::optim::StateSlot;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

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
    let missing = |missing: String| CheckpointError::NotACheckpoint {
        path: path.to_path_buf(),
        missing,
    };
    if iteration_of(path).is_some() {
        return if path.is_dir() {
            Ok(path.to_path_buf())
        } else {
            Err(missing("there is no such folder".into()))
        };
    }
    let iteration = match step {
        Some(step) => step,
        None => {
            let tracker = path.join(TRACKER);
            let text =
                fs::read_to_string(&tracker).map_err(|e| missing(format!("{TRACKER}: {e}")))?;
            text.trim()
                .parse()
                .map_err(|_| missing(format!("{TRACKER} holds {:?}, not a step", text.trim())))?
        }
    };
    let folder = iteration_folder(path, iteration);
    if folder.is_dir() {
        Ok(folder)
    } else {
        Err(missing(format!("there is no {}", folder.display())))
    }
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, CheckpointError> {
    let text = fs::read_to_string(path).map_err(|e| CheckpointError::io("read", path, e))?;
    serde_json::from_str(&text).map_err(|e| CheckpointError::damaged(path, e.to_string()))
}

/// Loads a checkpoint folder into the engine, after comparing it with the model and verifying every checksum.
///
/// # Errors
/// Missing or damaged files, another model, weights that are not finite. The engine may hold some of the new weights
/// after an error.
pub fn load(
    engine: &mut Engine,
    folder: &Path,
    options: LoadOptions,
) -> Result<TrainState, CheckpointError> {
    let index_path = folder.join("index.json");
    if !index_path.exists() {
        let missing = "index.json is missing".to_string();
        return Err(CheckpointError::NotACheckpoint {
            path: folder.to_path_buf(),
            missing,
        });
    }
    let index: Index = read_json(&index_path)?;
    if index.format != FORMAT || index.version > VERSION {
        let problem = format!(
            "format {} version {}, this program reads {FORMAT} up to version {VERSION}; use a newer program",
            index.format, index.version
        );
        return Err(CheckpointError::damaged(&index_path, problem));
    }
    let state: TrainState = read_json(&folder.join("train_state.json"))?;
    compare(engine, folder, &index, options)?;
    let shards = open_shards(folder, &index)?;
    let mut files = BTreeMap::new();
    for (name, (path, map)) in &shards {
        let parsed = SafeTensors::deserialize(map)
            .map_err(|e| CheckpointError::damaged(path, e.to_string()))?;
        files.insert(name.as_str(), (path.as_path(), parsed));
    }
    let parts: Vec<_> = engine
        .model
        .parts()
        .map(|(part, _, t)| (part.name.clone(), t))
        .collect();
    let model = engine.model.clone();
    let buffers = model.persistent.buffers();
    for (name, tensors) in parts {
        let values = |section: &str| -> Result<Option<Vec<f64>>, CheckpointError> {
            let key = format!("{section}/{name}");
            index
                .tensors
                .get(&key)
                .map(|entry| read_tensor(&key, entry, &files))
                .transpose()
        };
        let weight = values("model")?.expect("compared above");
        model
            .write_weight(&mut engine.device, tensors, &weight)
            .expect("sizes were compared");
        let Some(training) = tensors.training.filter(|_| options.optimizer) else {
            continue;
        };
        if let Some(master) = values("optim.master")? {
            // A run in a wider type takes the master as its weight.
            let target = training.master.unwrap_or(tensors.weight);
            engine
                .device
                .write_f64(buffers, target, &master)
                .expect("sizes were compared");
        }
        if let (Some((m, v)), Some(m_values), Some(v_values)) =
            (training.moments, values("optim.m")?, values("optim.v")?)
        {
            engine
                .device
                .write_f64(buffers, m, &m_values)
                .expect("sizes were compared");
            engine
                .device
                .write_f64(buffers, v, &v_values)
                .expect("sizes were compared");
        }
    }
    if options.optimizer {
        for (slot, value) in [
            (StateSlot::Samples, state.schedule_samples),
            (StateSlot::Steps, state.optimizer_steps),
            (StateSlot::Skipped, state.skipped_steps),
            (StateSlot::SkippedInARow, state.skipped_in_a_row),
        ] {
            engine
                .set_state(slot, value as f64)
                .expect("the state block can be written");
        }
    }
    Ok(state)
}

/// Lists every tensor that the model and the checkpoint do not share.
fn compare(
    engine: &Engine,
    folder: &Path,
    index: &Index,
    options: LoadOptions,
) -> Result<(), CheckpointError> {
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
        let names: std::collections::BTreeSet<String> = engine
            .model
            .parts()
            .map(|(part, _, _)| format!("model/{}", part.name))
            .collect();
        differences.extend(
            in_file
                .filter(|k| !names.contains(*k))
                .map(|k| format!("{k} is not in the model")),
        );
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(CheckpointError::OtherModel {
        path: folder.to_path_buf(),
        differences,
    })
}

type Shards = BTreeMap<String, (PathBuf, memmap2::Mmap)>;

fn open_shards(folder: &Path, index: &Index) -> Result<Shards, CheckpointError> {
    let mut shards = Shards::new();
    for piece in index.tensors.values().flat_map(|t| &t.pieces) {
        if shards.contains_key(&piece.file) {
            continue;
        }
        let path = folder.join(&piece.file);
        let file = File::open(&path).map_err(|e| CheckpointError::io("open", &path, e))?;
        // SAFETY: the map is read while the file is not written: complete checkpoints are never changed in place. Another
        // program that truncates the file meanwhile would end this one, as with every reader of mapped weights.
        let map = unsafe { memmap2::Mmap::map(&file) }
            .map_err(|e| CheckpointError::io("map", &path, e))?;
        shards.insert(piece.file.clone(), (path, map));
    }
    Ok(shards)
}

/// A whole tensor from its pieces, as f64 (exact for every type that we store).
fn read_tensor(
    name: &str,
    entry: &TensorEntry,
    files: &BTreeMap<&str, (&Path, SafeTensors<'_>)>,
) -> Result<Vec<f64>, CheckpointError> {
    let [piece] = entry.pieces.as_slice() else {
        let path = files
            .values()
            .next()
            .map_or(Path::new("index.json"), |(p, _)| p);
        return Err(CheckpointError::damaged(
            path,
            format!("`{name}` has {} pieces", entry.pieces.len()),
        ));
    };
    let (path, file) = &files[piece.file.as_str()];
    let view = file
        .tensor(&piece.key)
        .map_err(|_| CheckpointError::damaged(path, format!("`{}` is missing", piece.key)))?;
    if view.shape() != entry.shape.as_slice() || format!("{:?}", view.dtype()) != entry.dtype {
        let found = format!(
            "`{name}` is {:?} {:?}, the index says {} {:?}",
            view.dtype(),
            view.shape(),
            entry.dtype,
            entry.shape
        );
        return Err(CheckpointError::damaged(path, found));
    }
    let found = format!("{:016x}", XxHash3_64::oneshot(view.data()));
    if found != piece.xxh3 {
        let problem = format!(
            "checksum of `{name}` is {found}, the index says {}",
            piece.xxh3
        );
        return Err(CheckpointError::damaged(path, problem));
    }
    let values = decode(view.dtype(), view.data()).ok_or_else(|| {
        CheckpointError::damaged(path, format!("`{name}` has type {:?}", view.dtype()))
    })?;
    let count = values.iter().filter(|v| !v.is_finite()).count();
    if count > 0 {
        return Err(CheckpointError::NotFinite {
            path: path.to_path_buf(),
            tensor: name.to_string(),
            count,
        });
    }
    Ok(values)
}

/// Little-endian floating-point bytes as f64; `None` for other types.
pub(crate) fn decode(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    Some(match dtype {
        Dtype::F64 => bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| f64::from_le_bytes(*b))
            .collect(),
        Dtype::F32 => bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f64::from(f32::from_le_bytes(*b)))
            .collect(),
        Dtype::BF16 => bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|b| f64::from(half::bf16::from_le_bytes(*b).widen()))
            .collect(),
        _ => return None,
    })
}
