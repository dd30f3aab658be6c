//! Tensors of safetensors files: a checkpoint folder of one file or of shards with an index, or a single file of values.

use crate::checkpoint::decode;
use crate::cli::{Exit, Failure};
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A mapped file with the place of every tensor.
struct Shard {
    path: PathBuf,
    map: memmap2::Mmap,
}

/// A tensor in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Element type.
    pub dtype: Dtype,
    /// Shape.
    pub shape: Vec<usize>,
    shard: usize,
    range: (usize, usize),
}

/// All tensors of a folder or file, by name. Values are read when asked for.
pub struct TensorFiles {
    shards: Vec<Shard>,
    entries: BTreeMap<String, Entry>,
}

fn invalid(message: String) -> Failure {
    Failure::new(Exit::Invalid, message)
}

impl TensorFiles {
    /// Opens a checkpoint folder: `model.safetensors`, or the shards of `model.safetensors.index.json`.
    ///
    /// # Errors
    /// No such files, a shard that is missing or not a safetensors file, an index that names what no shard holds.
    pub fn open_folder(folder: &Path) -> Result<Self, Failure> {
        let (index, single) = (folder.join("model.safetensors.index.json"), folder.join("model.safetensors"));
        if !index.exists() {
            if !single.exists() {
                let message = format!(
                    "{} has neither model.safetensors nor model.safetensors.index.json; give the folder of a \
                     Hugging Face checkpoint",
                    folder.display()
                );
                return Err(invalid(message));
            }
            return Self::open_files(&[single]);
        }
        let text = fs::read_to_string(&index).map_err(|e| invalid(format!("cannot read {}: {e}", index.display())))?;
        let json: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| invalid(format!("{}: {e}", index.display())))?;
        let Some(map) = json["weight_map"].as_object() else {
            return Err(invalid(format!("{} has no weight_map", index.display())));
        };
        let mut files: Vec<&str> = map.values().filter_map(|v| v.as_str()).collect();
        files.sort_unstable();
        files.dedup();
        let opened = Self::open_files(&files.iter().map(|f| folder.join(f)).collect::<Vec<_>>())?;
        for (name, file) in map {
            let holds = opened
                .entries
                .get(name)
                .is_some_and(|e| opened.shards[e.shard].path.file_name().and_then(|n| n.to_str()) == file.as_str());
            if !holds {
                let message = format!("{} says that {file} holds `{name}`, but it does not", index.display());
                return Err(invalid(message));
            }
        }
        Ok(opened)
    }

    /// Opens safetensors files.
    ///
    /// # Errors
    /// A file that is missing, not a safetensors file, or repeats a tensor of another.
    pub fn open_files(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut files = Self { shards: Vec::new(), entries: BTreeMap::new() };
        for path in paths {
            let file = File::open(path).map_err(|e| invalid(format!("cannot open {}: {e}", path.display())))?;
            // SAFETY: the map is only read. A program that truncates the file meanwhile would end this one, as with every
            // reader of mapped weights.
            let map = unsafe { memmap2::Mmap::map(&file) }
                .map_err(|e| invalid(format!("cannot map {}: {e}", path.display())))?;
            let shard = files.shards.len();
            let parsed = SafeTensors::deserialize(&map)
                .map_err(|e| invalid(format!("{} is not a complete safetensors file: {e}", path.display())))?;
            for (name, view) in parsed.iter() {
                let start = view.data().as_ptr() as usize - map.as_ptr() as usize;
                let range = (start, start + view.data().len());
                let entry = Entry { dtype: view.dtype(), shape: view.shape().to_vec(), shard, range };
                if files.entries.insert(name.to_string(), entry).is_some() {
                    return Err(invalid(format!("{} repeats `{name}` of another file", path.display())));
                }
            }
            files.shards.push(Shard { path: path.clone(), map });
        }
        Ok(files)
    }

    /// The tensors by name.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// A floating-point tensor as f64, checked against a shape.
    ///
    /// # Errors
    /// Missing tensor, another shape, a type that is not a float, values that are not finite.
    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>, Failure> {
        let entry = self.entry(name)?;
        let path = self.shards[entry.shard].path.display();
        if entry.shape != shape {
            let message = format!("{path}: `{name}` has shape {:?}, the model needs {shape:?}", entry.shape);
            return Err(invalid(message));
        }
        let values = decode(entry.dtype, self.bytes(entry)).ok_or_else(|| {
            invalid(format!("{path}: `{name}` has type {:?}; BF16, F32 and F64 are read", entry.dtype))
        })?;
        let count = values.iter().filter(|v| !v.is_finite()).count();
        if count > 0 {
            return Err(invalid(format!("{path}: `{name}` has {count} elements that are NaN or infinite")));
        }
        Ok(values)
    }

    /// An integer tensor (I32 or I64) as i32.
    ///
    /// # Errors
    /// Missing tensor, another type, values beyond 32 bits.
    pub fn integers(&self, name: &str) -> Result<Vec<i32>, Failure> {
        let entry = self.entry(name)?;
        let path = self.shards[entry.shard].path.display();
        let bytes = self.bytes(entry);
        let values: Option<Vec<i32>> = match entry.dtype {
            Dtype::I32 => Some(bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect()),
            Dtype::I64 => bytes.as_chunks::<8>().0.iter().map(|b| i32::try_from(i64::from_le_bytes(*b)).ok()).collect(),
            _ => None,
        };
        values.ok_or_else(|| invalid(format!("{path}: `{name}` ({:?}) does not hold 32-bit integers", entry.dtype)))
    }

    fn entry(&self, name: &str) -> Result<&Entry, Failure> {
        self.entries.get(name).ok_or_else(|| {
            let paths: Vec<String> = self.shards.iter().map(|s| s.path.display().to_string()).collect();
            invalid(format!("`{name}` is missing in {}", paths.join(", ")))
        })
    }

    fn bytes(&self, entry: &Entry) -> &[u8] {
        &self.shards[entry.shard].map[entry.range.0..entry.range.1]
    }
}
