//! Writing: pieces in memory become shards of a draft folder, which gets its name when it is complete.

use super::format::{FORMAT, Index, Piece, TensorEntry, TrainState, VERSION};
use super::region::Region;
use super::shard_file::{ShardWriter, move_into_place, recover, replace_file, sync_folder, write_file};
use super::{CheckpointError, TRACKER, iteration_folder, iteration_of};
use crate::hf::config_json;
use crate::train::engine::Engine;
use lightning_core::device::Device;
use lightning_core::tensor::{DType, Tensor};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A part of a tensor with its bytes, copied from the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPiece {
    /// `SECTION/NAME`.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape of the global tensor.
    pub shape: Vec<usize>,
    /// Which part.
    pub region: Region,
    /// Its elements, row by row, little endian.
    pub bytes: Vec<u8>,
}

/// Everything that a checkpoint will hold, at one moment of a run: the run may go on while it is written.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Counters.
    pub state: TrainState,
    /// Text of `run_config.toml`.
    pub run_config: String,
    /// Text of `config.json`.
    pub model_config: String,
    /// The pieces of every writer.
    pub writers: Vec<Vec<HeldPiece>>,
}

impl Snapshot {
    /// Copies the engine's weights and, if it has one and `optimizer` is set, its optimizer.
    ///
    /// # Errors
    /// A device that fails.
    pub fn take(
        engine: &Engine,
        state: &TrainState,
        run_config: &str,
        optimizer: bool,
    ) -> Result<Self, CheckpointError> {
        Ok(Self {
            state: state.clone(),
            run_config: run_config.into(),
            model_config: config_json::to_text(&engine.model.spec.config),
            writers: vec![collect(engine, optimizer)?],
        })
    }

    /// Bytes of host memory that the pieces take.
    pub fn bytes(&self) -> usize {
        self.writers.iter().flatten().map(|p| p.bytes.len()).sum()
    }

    /// Writes the checkpoint under `folder` and then the tracker file. Returns the checkpoint's folder.
    ///
    /// # Errors
    /// What the system refuses; nothing that looks complete is left behind, and older checkpoints stay.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, CheckpointError> {
        let iteration = self.state.iteration;
        let target = iteration_folder(folder, iteration);
        fs::create_dir_all(folder).map_err(|e| CheckpointError::io("create", folder, e))?;
        remove_stale_drafts(folder);
        recover(&target)?;
        let draft = folder.join(format!(".iter_{iteration:07}.{}", std::process::id()));
        let _ = fs::remove_dir_all(&draft);
        let written = self.write_folder(&draft).and_then(|()| move_into_place(&draft, &target));
        if let Err(error) = written {
            // The draft is useless; the error that matters is the first one.
            let _ = fs::remove_dir_all(&draft);
            return Err(error);
        }
        replace_file(&folder.join(TRACKER), iteration.to_string().as_bytes())?;
        Ok(target)
    }

    fn write_folder(&self, folder: &Path) -> Result<(), CheckpointError> {
        fs::create_dir_all(folder).map_err(|e| CheckpointError::io("create", folder, e))?;
        let mut tensors = BTreeMap::new();
        for (rank, pieces) in self.writers.iter().enumerate() {
            merge(&mut tensors, write_shard(folder, rank, self.writers.len(), pieces)?);
        }
        write_index(folder, tensors)?;
        let json = serde_json::to_string_pretty(&self.state).expect("plain data becomes JSON") + "\n";
        write_file(&folder.join("train_state.json"), json.as_bytes())?;
        // Every random number is a function of seed, step and purpose; there is no generator state beside these.
        let rng = serde_json::json!({
            "generator": "philox4x32-10", "seed": self.state.seed, "step": self.state.iteration,
        });
        write_file(&folder.join("rng.json"), format!("{rng:#}\n").as_bytes())?;
        write_file(&folder.join("run_config.toml"), self.run_config.as_bytes())?;
        write_file(&folder.join("config.json"), self.model_config.as_bytes())?;
        sync_folder(folder)
    }
}

/// Name of a writer's shard.
pub fn shard_name(rank: usize, writers: usize) -> String {
    format!("shard-{rank:05}-of-{writers:05}.safetensors")
}

/// Writes the shard of one writer. Returns its share of the index.
///
/// # Errors
/// What the system refuses.
pub fn write_shard(
    folder: &Path,
    rank: usize,
    writers: usize,
    pieces: &[HeldPiece],
) -> Result<BTreeMap<String, TensorEntry>, CheckpointError> {
    let file = shard_name(rank, writers);
    let mut order: Vec<&HeldPiece> = pieces.iter().collect();
    // Wide elements first: every tensor begins at a multiple of its element size.
    order.sort_by_key(|p| std::cmp::Reverse(p.dtype.bitsize()));
    let entries: Vec<_> = order
        .iter()
        .map(|p| {
            let shape = match &p.region {
                Region::Rect(rect) => rect.extent.clone(),
                Region::Flat { len, .. } => vec![*len],
            };
            (p.region.key(&p.name), p.dtype, shape)
        })
        .collect();
    let mut writer = ShardWriter::create(&folder.join(&file), &entries, &[])?;
    for piece in &order {
        if !piece.bytes.is_empty() {
            writer.write(&piece.bytes)?;
        }
    }
    let hashes = writer.finish()?;
    let mut tensors = BTreeMap::new();
    for ((piece, (key, _, _)), hash) in order.iter().zip(entries).zip(hashes) {
        let entry = tensors.entry(piece.name.clone()).or_insert_with(|| TensorEntry {
            dtype: piece.dtype.to_string(),
            shape: piece.shape.clone(),
            source_dtype: None,
            pieces: Vec::new(),
        });
        entry.pieces.push(Piece::new(&piece.region, &file, key, hash));
    }
    Ok(tensors)
}

/// Adds the share of one writer to an index.
pub fn merge(index: &mut BTreeMap<String, TensorEntry>, share: BTreeMap<String, TensorEntry>) {
    for (name, entry) in share {
        match index.get_mut(&name) {
            Some(known) => known.pieces.extend(entry.pieces),
            None => {
                index.insert(name, entry);
            }
        }
    }
}

/// Writes `index.json`.
///
/// # Errors
/// What the system refuses.
pub fn write_index(folder: &Path, tensors: BTreeMap<String, TensorEntry>) -> Result<(), CheckpointError> {
    let index = Index { format: FORMAT.into(), version: VERSION, tensors };
    let text = serde_json::to_string(&index).expect("plain data becomes JSON") + "\n";
    write_file(&folder.join("index.json"), text.as_bytes())
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
/// A device that fails, and what the system refuses; nothing that looks complete is left behind, and older checkpoints
/// stay.
pub fn save(
    engine: &Engine,
    folder: &Path,
    state: &TrainState,
    run_config: &str,
    optimizer: bool,
) -> Result<PathBuf, CheckpointError> {
    Snapshot::take(engine, state, run_config, optimizer)?.write(folder)
}

/// Every tensor of the checkpoint as bytes.
fn collect(engine: &Engine, optimizer: bool) -> Result<Vec<HeldPiece>, CheckpointError> {
    let buffers = engine.model.persistent.buffers();
    let mut pieces = Vec::new();
    for (part, _, tensors) in engine.model.parts() {
        let mut add = |section: &str, tensor: Tensor| -> Result<(), CheckpointError> {
            let mut bytes = vec![0; tensor.bytes()];
            engine.device.read(buffers, tensor, &mut bytes)?;
            pieces.push(HeldPiece {
                name: format!("{section}/{}", part.name),
                dtype: file_dtype(tensor.dtype),
                shape: part.shape.clone(),
                region: Region::whole(&part.shape),
                bytes,
            });
            Ok(())
        };
        add("model", tensors.weight)?;
        if let Some(training) = tensors.training.filter(|_| optimizer) {
            if let Some(master) = training.master {
                add("optim.master", master)?;
            }
            if let Some((m, v)) = training.moments {
                add("optim.m", m)?;
                add("optim.v", v)?;
            }
        }
    }
    Ok(pieces)
}

/// Removes drafts of programs that ended before they were done.
fn remove_stale_drafts(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name
            .to_str()
            .and_then(|n| n.strip_prefix(".iter_"))
            .and_then(|n| n.split_once('.'))
            .and_then(|(_, process)| process.parse::<u32>().ok())
        else {
            continue;
        };
        if process != std::process::id() && !Path::new(&format!("/proc/{process}")).exists() {
            // What cannot be removed only takes space.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes checkpoints older than the newest `keep`, except multiples of `every`. Returns what was removed.
///
/// # Errors
/// What the system refuses.
pub fn prune(folder: &Path, keep: u64, every: Option<u64>) -> Result<Vec<PathBuf>, CheckpointError> {
    let entries = fs::read_dir(folder).map_err(|e| CheckpointError::io("list", folder, e))?;
    let mut found: Vec<(u64, PathBuf)> =
        entries.flatten().filter_map(|e| iteration_of(&e.path()).map(|i| (i, e.path()))).collect();
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
