//! The weights of a checkpoint of either kind behind one face.

use super::ConvertError;
use super::stream::{Source, Stream};
use crate::checkpoint::{Checkpoint, CheckpointError, PieceStream, TRACKER, parse_dtype, resolve};
use crate::hf::{HfConfig, HfFolder};
use safetensors::Dtype;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A checkpoint of either kind.
pub enum Weights {
    /// A Hugging Face folder.
    Hf(HfFolder),
    /// Ours.
    Ours {
        /// Index and shards.
        checkpoint: Checkpoint,
        /// Its `config.json`.
        config: HfConfig,
    },
}

/// A tensor of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Name: the public one, or `SECTION/NAME` for what ours has beside the weights.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape.
    pub shape: Vec<usize>,
}

impl Weights {
    /// Opens what `path` holds: a folder of ours (a run's, or one iteration's), or a Hugging Face folder.
    ///
    /// # Errors
    /// What either reader refuses.
    pub fn open(path: &Path) -> Result<Self, ConvertError> {
        let ours = path.join("index.json").exists()
            || path.join(TRACKER).exists()
            || crate::checkpoint::iteration_of(path).is_some();
        if !ours {
            return Ok(Self::Hf(HfFolder::open(path)?));
        }
        let folder = resolve(path, None)?;
        let checkpoint = Checkpoint::open(&folder, &[])?;
        let config = HfConfig::read(&folder.join("config.json"))?;
        Ok(Self::Ours { checkpoint, config })
    }

    /// The model that the checkpoint describes.
    pub fn config(&self) -> &HfConfig {
        match self {
            Self::Hf(folder) => &folder.config,
            Self::Ours { config, .. } => config,
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        match self {
            Self::Hf(folder) => &folder.path,
            Self::Ours { checkpoint, .. } => &checkpoint.folder,
        }
    }

    /// Every tensor, weights under their public names; `all` also lists the optimizer of ours.
    pub fn list(&self, all: bool) -> Vec<Listed> {
        match self {
            Self::Hf(folder) => folder
                .tensors
                .iter()
                .map(|(name, t)| Listed { name: name.clone(), dtype: t.dtype, shape: t.shape.clone() })
                .collect(),
            Self::Ours { checkpoint, .. } => {
                let entries = checkpoint.index.tensors.iter();
                let listed = entries.filter_map(|(name, entry)| {
                    let weight = name.strip_prefix("model/");
                    Some(Listed {
                        name: match weight {
                            Some(weight) => weight.to_string(),
                            None if all => name.clone(),
                            None => return None,
                        },
                        dtype: parse_dtype(&entry.dtype).expect("checked when opened"),
                        shape: entry.shape.clone(),
                    })
                });
                listed.collect()
            }
        }
    }
}

struct FileStream<'f> {
    path: &'f Path,
    file: &'f File,
    at: u64,
}

impl Stream for FileStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> Result<(), ConvertError> {
        self.file.read_exact_at(out, self.at).map_err(|e| CheckpointError::io("read", self.path, e))?;
        self.at += out.len() as u64;
        Ok(())
    }
}

impl Stream for PieceStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> Result<(), ConvertError> {
        Ok(PieceStream::read(self, out)?)
    }
}

impl Source for Weights {
    fn stream(&self, name: &str) -> Box<dyn Stream + '_> {
        match self {
            Self::Hf(folder) => {
                let tensor = &folder.tensors[name];
                let file = &folder.files[tensor.file];
                Box::new(FileStream { path: &file.path, file: &file.file, at: tensor.start })
            }
            Self::Ours { checkpoint, .. } => {
                let weight = format!("model/{name}");
                let name = if checkpoint.entry(&weight).is_some() { &weight } else { name };
                Box::new(checkpoint.stream(name))
            }
        }
    }
}
