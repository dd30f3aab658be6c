//! Tensors of safetensors files as numbers: of a checkpoint folder, or of single files of values.

use super::folder::{HfFile, HfFolder, HfTensor};
use super::header;
use crate::checkpoint::decode;
use crate::cli::{Exit, Failure};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// All tensors of a folder or of files, by name. Values are read when asked for.
pub struct TensorFiles {
    files: Vec<HfFile>,
    entries: BTreeMap<String, HfTensor>,
}

fn invalid(message: String) -> Failure {
    Failure::new(Exit::Invalid, message)
}

impl TensorFiles {
    /// Opens a checkpoint folder: `model.safetensors`, or the shards of `model.safetensors.index.json`.
    ///
    /// # Errors
    /// As [`HfFolder::open`].
    pub fn open_folder(folder: &Path) -> Result<Self, Failure> {
        let folder = HfFolder::open(folder).map_err(|e| invalid(e.to_string()))?;
        Ok(Self { files: folder.files, entries: folder.tensors })
    }

    /// Opens safetensors files.
    ///
    /// # Errors
    /// A file that is missing, not a complete safetensors file, or repeats a tensor of another.
    pub fn open_files(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut all = Self { files: Vec::new(), entries: BTreeMap::new() };
        for path in paths {
            let (file, header) = header::open(path).map_err(|e| invalid(e.to_string()))?;
            for entry in header.entries {
                let name = entry.name.clone();
                if all.entries.insert(entry.name.clone(), HfTensor::new(entry, all.files.len())).is_some() {
                    return Err(invalid(format!("{} repeats `{name}` of another file", path.display())));
                }
            }
            all.files.push(HfFile { path: path.clone(), file });
        }
        Ok(all)
    }

    /// The tensors by name.
    pub fn entries(&self) -> &BTreeMap<String, HfTensor> {
        &self.entries
    }

    /// A floating-point tensor as f64, checked against a shape.
    ///
    /// # Errors
    /// Missing tensor, another shape, a type that is not a float, values that are not finite.
    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>, Failure> {
        let entry = self.entry(name)?;
        let path = self.files[entry.file].path.display();
        if entry.shape != shape {
            let message = format!("{path}: `{name}` has shape {:?}, the model needs {shape:?}", entry.shape);
            return Err(invalid(message));
        }
        let values = decode(entry.dtype, &self.bytes(entry)?).ok_or_else(|| {
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
        let path = self.files[entry.file].path.display();
        let bytes = self.bytes(entry)?;
        let values: Option<Vec<i32>> = match entry.dtype {
            Dtype::I32 => Some(bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect()),
            Dtype::I64 => bytes.as_chunks::<8>().0.iter().map(|b| i32::try_from(i64::from_le_bytes(*b)).ok()).collect(),
            _ => None,
        };
        values.ok_or_else(|| invalid(format!("{path}: `{name}` ({:?}) does not hold 32-bit integers", entry.dtype)))
    }

    fn entry(&self, name: &str) -> Result<&HfTensor, Failure> {
        self.entries.get(name).ok_or_else(|| {
            let paths: Vec<String> = self.files.iter().map(|f| f.path.display().to_string()).collect();
            invalid(format!("`{name}` is missing in {}", paths.join(", ")))
        })
    }

    fn bytes(&self, entry: &HfTensor) -> Result<Vec<u8>, Failure> {
        let HfFile { path, file } = &self.files[entry.file];
        let mut bytes = vec![0; entry.len as usize];
        file.read_exact_at(&mut bytes, entry.start)
            .map_err(|e| invalid(format!("cannot read {}: {e}", path.display())))?;
        Ok(bytes)
    }
}
