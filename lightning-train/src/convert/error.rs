//! What can be wrong with a conversion.

use crate::checkpoint::CheckpointError;
use crate::cli::{Exit, Failure};
use crate::hf::header::HeaderError;
use crate::hf::{FolderError, HfConfigError};
use safetensors::Dtype;
use std::fmt;
use std::path::PathBuf;

/// A conversion that cannot be done.
#[derive(Debug)]
pub enum ConvertError {
    /// A source that is neither a folder nor in the cache; the text says what to try.
    Source(String),
    /// A Hugging Face folder.
    Folder(FolderError),
    /// A file of tensors.
    Header(HeaderError),
    /// A `config.json`.
    Config(HfConfigError),
    /// A checkpoint of ours, or a file that cannot be written.
    Checkpoint(CheckpointError),
    /// The target is there already.
    Exists(PathBuf),
    /// Reading from and writing to the same place.
    SamePlace {
        /// What is read.
        source: PathBuf,
        /// What would be written.
        target: PathBuf,
    },
    /// Another process works on the same target.
    Busy(PathBuf),
    /// Tensors do not match the model or the reference.
    Census {
        /// The checkpoint.
        path: PathBuf,
        /// One line per tensor.
        differences: Vec<String>,
        /// What to try.
        hint: &'static str,
    },
    /// A type that is not converted.
    Cast {
        /// The tensor.
        tensor: String,
        /// Its type.
        from: Dtype,
        /// The wanted type.
        to: Dtype,
    },
    /// A written file does not hold what was meant to be written.
    Written {
        /// The file.
        path: PathBuf,
        /// The difference.
        problem: String,
    },
    /// A flag with a value that is not possible.
    Flag(String),
    /// An adapter that does not fit the model.
    Adapter(crate::adapters::AdapterError),
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(text) | Self::Flag(text) => f.write_str(text),
            Self::Folder(e) => e.fmt(f),
            Self::Header(e) => e.fmt(f),
            Self::Config(e) => e.fmt(f),
            Self::Checkpoint(e) => e.fmt(f),
            Self::Adapter(e) => e.fmt(f),
            Self::Exists(path) => {
                write!(f, "{} is there already; add --overwrite, or name another place", path.display())
            }
            Self::SamePlace { source, target } => write!(
                f,
                "writing {} would replace the source {}; name another place",
                target.display(),
                source.display()
            ),
            Self::Busy(path) => {
                write!(f, "another process is converting to {}; wait for it, or name another place", path.display())
            }
            Self::Census { path, differences, hint } => {
                write!(f, "{} has {} differences:", path.display(), differences.len())?;
                for difference in differences.iter().take(12) {
                    write!(f, "\n  {difference}")?;
                }
                if differences.len() > 12 {
                    write!(f, "\n  and {} more", differences.len() - 12)?;
                }
                write!(f, "\n{hint}")
            }
            Self::Cast { tensor, from, to } => write!(
                f,
                "`{tensor}` is {from}, which is not converted to {to}; leave the type option out to keep every type"
            ),
            Self::Written { path, problem } => {
                write!(f, "{} was written but {problem}; check the disk and convert again", path.display())
            }
        }
    }
}

impl std::error::Error for ConvertError {}

impl From<FolderError> for ConvertError {
    fn from(error: FolderError) -> Self {
        Self::Folder(error)
    }
}

impl From<HeaderError> for ConvertError {
    fn from(error: HeaderError) -> Self {
        Self::Header(error)
    }
}

impl From<HfConfigError> for ConvertError {
    fn from(error: HfConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<CheckpointError> for ConvertError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(error)
    }
}

impl From<crate::adapters::AdapterError> for ConvertError {
    fn from(error: crate::adapters::AdapterError) -> Self {
        Self::Adapter(error)
    }
}

impl From<ConvertError> for Failure {
    fn from(error: ConvertError) -> Self {
        let exit = match &error {
            ConvertError::Source(_)
            | ConvertError::Flag(_)
            | ConvertError::Exists(_)
            | ConvertError::SamePlace { .. }
            | ConvertError::Busy(_) => Exit::Usage,
            _ => Exit::Invalid,
        };
        Self::new(exit, error.to_string())
    }
}
