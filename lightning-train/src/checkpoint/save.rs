//! Writing.

use super::format::{FORMAT, Index, Piece, TensorEntry, TrainState, VERSION};
use super::{CheckpointError, TRACKER, iteration_folder, iteration_of};
use crate::hf::config_json;
use crate::train::engine::Engine;
use lightning_core::device::Device;
use lightning_core::tensor::{DType, Tensor};
use safetensors::Dtype;
use safetensors::tensor::View;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// A tensor on its way into a shard.
struct Stored {
    name: String,
    key: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for &Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

fn file_dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::BF16 => Dtype::BF16,
        DType::I32 => Dtype::I32,
    }
}

/// Writes a checkpoint of the engine's weights and, if it has one and `optimizer` is set, its optimizer. Returns the folder.
///
/// # Errors
/// What the system refuses; nothing that looks complete is left behind, and older checkpoints stay.
pub fn save(
    engine: &Engine,
    folder: &Path,
    state: &TrainState,
    run_config: &str,
    optimizer: bool,
) -> Result<PathBuf, CheckpointError> {
    let target = iteration_folder(folder, state.iteration);
    fs::create_dir_all(folder).map_err(|e| CheckpointError::io("create", folder, e))?;
    let draft = folder.join(format!(
        ".iter_{:07}.{}",
        state.iteration,
        std::process::id()
    ));
    let _ = fs::remove_dir_all(&draft);
    let written = write_folder(engine, &draft, state, run_config, optimizer).and_then(|()| {
        if target.exists() {
            fs::remove_dir_all(&target).map_err(|e| CheckpointError::io("replace", &target, e))?;
        }
        fs::rename(&draft, &target).map_err(|e| CheckpointError::io("rename", &draft, e))?;
        sync_folder(folder)
    });
    if let Err(error) = written {
        // The draft is useless; the error that matters is the first one.
        let _ = fs::remove_dir_all(&draft);
        return Err(error);
    }
    let tracker = folder.join(TRACKER);
    let draft = folder.join(format!(".{TRACKER}.{}", std::process::id()));
    write_file(&draft, state.iteration.to_string().as_bytes())?;
    fs::rename(&draft, &tracker).map_err(|e| CheckpointError::io("rename", &draft, e))?;
    sync_folder(folder)?;
    Ok(target)
}

fn write_folder(
    engine: &Engine,
    folder: &Path,
    state: &TrainState,
    run_config: &str,
    optimizer: bool,
) -> Result<(), CheckpointError> {
    fs::create_dir_all(folder).map_err(|e| CheckpointError::io("create", folder, e))?;
    let stored = collect(engine, optimizer);
    let file = "shard-00000-of-00001.safetensors".to_string();
    let path = folder.join(&file);
    let entries = stored.iter().map(|s| (s.key.as_str(), s));
    safetensors::serialize_to_file(entries, None, &path).map_err(|e| match e {
        safetensors::SafeTensorError::IoError(e) => CheckpointError::io("write", &path, e),
        other => CheckpointError::damaged(&path, format!("cannot be written: {other}")),
    })?;
    File::open(&path)
        .and_then(|f| f.sync_all())
        .map_err(|e| CheckpointError::io("flush", &path, e))?;
    let tensors = stored.iter().map(|s| {
        let piece = Piece {
            offsets: vec![0; s.shape.len()],
            extent: s.shape.clone(),
            file: file.clone(),
            key: s.key.clone(),
            xxh3: format!("{:016x}", XxHash3_64::oneshot(&s.bytes)),
        };
        let dtype = format!("{:?}", s.dtype);
        (
            s.name.clone(),
            TensorEntry {
                dtype,
                shape: s.shape.clone(),
                pieces: vec![piece],
            },
        )
    });
    let index = Index {
        format: FORMAT.into(),
        version: VERSION,
        tensors: tensors.collect(),
    };
    let json = |value: serde_json::Result<String>| value.expect("plain data becomes JSON") + "\n";
    write_file(
        &folder.join("index.json"),
        json(serde_json::to_string(&index)).as_bytes(),
    )?;
    write_file(
        &folder.join("train_state.json"),
        json(serde_json::to_string_pretty(state)).as_bytes(),
    )?;
    write_file(&folder.join("run_config.toml"), run_config.as_bytes())?;
    let config = config_json::to_text(&engine.model.spec.config);
    write_file(&folder.join("config.json"), config.as_bytes())?;
    sync_folder(folder)
}

/// Every tensor of the checkpoint as bytes.
fn collect(engine: &Engine, optimizer: bool) -> Vec<Stored> {
    let buffers = engine.model.persistent.buffers();
    let mut stored = Vec::new();
    for (part, _, tensors) in engine.model.parts() {
        let mut add = |section: &str, tensor: Tensor| {
            let mut bytes = vec![0; tensor.bytes()];
            engine
                .device
                .read(buffers, tensor, &mut bytes)
                .expect("parameters can be read");
            let name = format!("{section}/{}", part.name);
            let zeros = vec!["0"; part.shape.len()].join("_");
            let key = format!("{name}@{zeros}");
            stored.push(Stored {
                name,
                key,
                dtype: file_dtype(tensor.dtype),
                shape: part.shape.clone(),
                bytes,
            });
        };
        add("model", tensors.weight);
        if let Some(training) = tensors.training.filter(|_| optimizer) {
            if let Some(master) = training.master {
                add("optim.master", master);
            }
            if let Some((m, v)) = training.moments {
                add("optim.m", m);
                add("optim.v", v);
            }
        }
    }
    stored
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| CheckpointError::io("write", path, e))
}

fn sync_folder(folder: &Path) -> Result<(), CheckpointError> {
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(|e| CheckpointError::io("flush", folder, e))
}

/// Removes checkpoints older than the newest `keep`, except multiples of `every`. Returns what was removed.
///
/// # Errors
/// What the system refuses.
pub fn prune(
    folder: &Path,
    keep: u64,
    every: Option<u64>,
) -> Result<Vec<PathBuf>, CheckpointError> {
    let entries = fs::read_dir(folder).map_err(|e| CheckpointError::io("list", folder, e))?;
    let mut found: Vec<(u64, PathBuf)> = entries
        .flatten()
        .filter_map(|e| iteration_of(&e.path()).map(|i| (i, e.path())))
        .collect();
    found.sort();
    let old = found.len().saturating_sub(keep.max(1) as usize);
    let mut removed = Vec::new();
    for (iteration, path) in found.into_iter().take(old) {
        if every.is_some_and(|n| n > 0 && iteration % n == 0) {
            continue;
        }
        fs::remove_dir_all(&path).map_err(|e| CheckpointError::io("remove", &path, e))?;
        removed.push(path);
    }
    Ok(removed)
}
