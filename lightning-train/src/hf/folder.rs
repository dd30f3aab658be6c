//! A Hugging Face checkpoint folder as the source of a conversion: configuration, tensors, side files.

use super::header::{self, HeaderEntry, HeaderError};
use super::{HfConfig, HfConfigError};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Name of the index.
pub const INDEX: &str = "model.safetensors.index.json";
/// Name of the only file of a checkpoint without an index.
pub const SINGLE: &str = "model.safetensors";

/// Where the bytes of a tensor are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HfTensor {
    /// Element type.
    pub dtype: Dtype,
    /// Shape.
    pub shape: Vec<usize>,
    /// File, an index into [`HfFolder::files`].
    pub file: usize,
    /// First byte in the file.
    pub start: u64,
    /// Number of bytes.
    pub len: u64,
}

impl HfTensor {
    /// A tensor of the file with number `file`.
    pub fn new(entry: HeaderEntry, file: usize) -> Self {
        Self { dtype: entry.dtype, shape: entry.shape, file, start: entry.start, len: entry.len }
    }
}

/// An open file of a checkpoint.
#[derive(Debug)]
pub struct HfFile {
    /// Its path.
    pub path: PathBuf,
    /// The file.
    pub file: File,
}

/// A checkpoint folder whose headers were read and agree with its index. No tensor data was read.
#[derive(Debug)]
pub struct HfFolder {
    /// The folder.
    pub path: PathBuf,
    /// `config.json`.
    pub config: HfConfig,
    /// Files with tensors.
    pub files: Vec<HfFile>,
    /// Tensors by name.
    pub tensors: BTreeMap<String, HfTensor>,
}

/// A folder that cannot be used.
#[derive(Debug)]
pub enum FolderError {
    /// `config.json`.
    Config(HfConfigError),
    /// A file of tensors.
    Header(HeaderError),
    /// Not a checkpoint folder, or index and files contradict each other.
    Folder {
        /// Folder or file.
        path: PathBuf,
        /// What was found, and what to try.
        problem: String,
    },
    /// Quantised weights.
    Quantised {
        /// The folder.
        path: PathBuf,
        /// The format by name.
        format: String,
        /// Where it was seen.
        evidence: String,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(e) => e.fmt(f),
            Self::Header(e) => e.fmt(f),
            Self::Folder { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Quantised { path, format, evidence } => write!(
                f,
                "{} holds {format} weights ({evidence}), which are not supported yet; give the BF16 checkpoint",
                path.display()
            ),
        }
    }
}

impl std::error::Error for FolderError {}

impl HfFolder {
    /// Opens a folder: reads `config.json`, the index and every header.
    ///
    /// # Errors
    /// Missing or unreadable files, another model family, quantised weights, headers that lie, tensors that the index and
    /// the files do not share.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let problem = |path: &Path, problem: String| FolderError::Folder { path: path.to_path_buf(), problem };
        if !path.is_dir() {
            return Err(problem(path, "is not a folder; give the folder of a Hugging Face checkpoint".into()));
        }
        refuse_quantised_config(path)?;
        let config = HfConfig::read(&path.join("config.json")).map_err(FolderError::Config)?;
        let index_path = path.join(INDEX);
        let index = if index_path.exists() { Some(read_index(&index_path)?) } else { None };
        let names: Vec<String> = match &index {
            Some(index) => {
                let mut names: Vec<String> = index.values().cloned().collect();
                names.sort();
                names.dedup();
                names
            }
            None if path.join(SINGLE).exists() => vec![SINGLE.into()],
            None => {
                let text = format!("has neither {SINGLE} nor {INDEX}; give the folder of a Hugging Face checkpoint");
                return Err(problem(path, text));
            }
        };
        let mut folder = Self { path: path.to_path_buf(), config, files: Vec::new(), tensors: BTreeMap::new() };
        for name in &names {
            let file_path = path.join(name);
            if index.is_some() && !file_path.exists() {
                let text = format!("names {name}, which is missing; fetch the file again");
                return Err(problem(&index_path, text));
            }
            let (file, header) = header::open(&file_path).map_err(FolderError::Header)?;
            for entry in header.entries {
                if let Some(index) = &index {
                    match index.get(&entry.name) {
                        Some(at) if at == name => {}
                        Some(at) => {
                            let text =
                                format!("says that {at} holds `{}`, but {name} has it too or instead", entry.name);
                            return Err(problem(&index_path, text + "; fetch index and files again"));
                        }
                        None => {
                            let text = format!(
                                "holds `{}`, which {INDEX} does not name; fetch index and files again",
                                entry.name
                            );
                            return Err(problem(&file_path, text));
                        }
                    }
                }
                folder.tensors.insert(entry.name.clone(), HfTensor::new(entry, folder.files.len()));
            }
            folder.files.push(HfFile { path: file_path, file });
        }
        if let Some(missing) = index.iter().flatten().find(|(name, _)| !folder.tensors.contains_key(*name)) {
            let text = format!("says that {} holds `{}`, but it does not; fetch both again", missing.1, missing.0);
            return Err(problem(&index_path, text));
        }
        folder.refuse_quantised_tensors()?;
        Ok(folder)
    }

    fn refuse_quantised_tensors(&self) -> Result<(), FolderError> {
        for (name, tensor) in &self.tensors {
            let by_name = ["weight_scale", "weight_scale_2", "weight_scale_inv", "input_scale"]
                .iter()
                .any(|end| name.ends_with(end));
            let by_type = matches!(
                tensor.dtype,
                Dtype::U8
                    | Dtype::F4
                    | Dtype::F8_E4M3
                    | Dtype::F8_E5M2
                    | Dtype::F8_E8M0
                    | Dtype::F8_E4M3FNUZ
                    | Dtype::F8_E5M2FNUZ
                    | Dtype::F6_E2M3
                    | Dtype::F6_E3M2
            );
            if by_name || by_type {
                let all = self.tensors.values();
                let packed = all.clone().any(|t| matches!(t.dtype, Dtype::U8 | Dtype::F4));
                return Err(FolderError::Quantised {
                    path: self.path.clone(),
                    format: if packed { "NVFP4".into() } else { "FP8".into() },
                    evidence: format!("`{name}` is {}", tensor.dtype),
                });
            }
        }
        Ok(())
    }

    /// Files that are carried along unchanged: every plain file of the folder but weights, indices and `config.json`.
    /// Links are followed, as the cache of the hub needs.
    ///
    /// # Errors
    /// A folder that cannot be listed.
    pub fn side_files(&self) -> std::io::Result<Vec<PathBuf>> {
        side_files(&self.path)
    }
}

/// As [`HfFolder::side_files`], of any folder.
///
/// # Errors
/// A folder that cannot be listed.
pub fn side_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    const WEIGHTS: &[&str] = &[".safetensors", ".index.json", ".bin", ".pt", ".pth", ".ckpt", ".gguf"];
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().map(|n| n.to_string_lossy().into_owned()) else { continue };
        let ours = name == "config.json" || name.starts_with('.');
        if !ours && !WEIGHTS.iter().any(|end| name.ends_with(end)) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn refuse_quantised_config(path: &Path) -> Result<(), FolderError> {
    for file in ["config.json", "hf_quant_config.json"] {
        let Ok(text) = fs::read_to_string(path.join(file)) else { continue };
        let Ok(json) = serde_json::from_str::<serde_json::Value>(&text) else { continue };
        let section = if file == "config.json" { &json["quantization_config"] } else { &json["quantization"] };
        if section.is_null() {
            continue;
        }
        let keys = ["quant_algo", "quant_method", "fmt"];
        let name = keys.iter().find_map(|k| section[*k].as_str()).unwrap_or("quantised");
        return Err(FolderError::Quantised {
            path: path.to_path_buf(),
            format: name.to_uppercase(),
            evidence: format!("{file} says so"),
        });
    }
    Ok(())
}

fn read_index(path: &Path) -> Result<BTreeMap<String, String>, FolderError> {
    let problem = |problem: String| FolderError::Folder { path: path.to_path_buf(), problem };
    let text = fs::read_to_string(path).map_err(|e| problem(format!("cannot be read: {e}")))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| problem(format!("is not JSON: {e}; fetch it again")))?;
    let Some(map) = json["weight_map"].as_object() else {
        return Err(problem("has no weight_map; fetch it again".into()));
    };
    let mut index = BTreeMap::new();
    for (name, file) in map {
        // A name with a folder could point anywhere.
        match file.as_str() {
            Some(file) if !file.is_empty() && !file.contains('/') && file != ".." => {
                index.insert(name.clone(), file.to_string());
            }
            _ => return Err(problem(format!("has no plain file name for `{name}` but {file}"))),
        }
    }
    Ok(index)
}
