//! What can be wrong with a checkpoint.

use crate::cli::{Exit, Failure};
use lightning_core::CoreError;
use std::fmt;
use std::path::{Path, PathBuf};

/// A checkpoint that cannot be written or read. Names the file, what was expected and found, and what to do.
#[derive(Debug)]
pub enum CheckpointError {
    /// The system refused a file.
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder is not a checkpoint.
    NotACheckpoint {
        /// The folder.
        path: PathBuf,
        /// What is missing there.
        missing: String,
    },
    /// A file does not hold what its index promises.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was expected and found.
        problem: String,
    },
    /// The checkpoint belongs to another model.
    OtherModel {
        /// The folder.
        path: PathBuf,
        /// The differences, one per line.
        differences: Vec<String>,
    },
    /// The device refused to read or write a tensor.
    Device(CoreError),
    /// A weight is not a number.
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Elements that are NaN or infinite.
        count: usize,
    },
}

impl CheckpointError {
    /// A system error on a file.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_path_buf(), source }
    }

    /// A file that contradicts its index.
    pub fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_path_buf(), problem: problem.into() }
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, path, source } => {
                write!(f, "cannot {action} {}: {source}", path.display())?;
                match source.kind() {
                    std::io::ErrorKind::StorageFull => f.write_str(
                        "; what was complete is untouched; free space, or write elsewhere (a run: checkpoint.save)",
                    ),
                    std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                        f.write_str("; name a folder that can be written (a run: checkpoint.save)")
                    }
                    _ => Ok(()),
                }
            }
            Self::NotACheckpoint { path, missing } => write!(
                f,
                "{} is not a checkpoint: {missing}; give a folder with {} or one iter_NNNNNNN folder",
                path.display(),
                super::TRACKER
            ),
            Self::Damaged { path, problem } => {
                write!(f, "{}: {problem}; load an older checkpoint with checkpoint.ckpt_step", path.display())
            }
            Self::OtherModel { path, differences } => {
                write!(f, "{} holds another model:", path.display())?;
                for difference in differences.iter().take(8) {
                    write!(f, "\n  {difference}")?;
                }
                if differences.len() > 8 {
                    write!(f, "\n  and {} more", differences.len() - 8)?;
                }
                f.write_str("\nstart with the configuration in its run_config.toml (--config), or in a new folder")
            }
            Self::Device(e) => e.fmt(f),
            Self::NotFinite { path, tensor, count } => write!(
                f,
                "{}: `{tensor}` has {count} elements that are NaN or infinite; load an older checkpoint",
                path.display()
            ),
        }
    }
}

impl std::error::Error for CheckpointError {}

impl From<CoreError> for CheckpointError {
    fn from(error: CoreError) -> Self {
        Self::Device(error)
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        let exit = match error {
            CheckpointError::Device(e) => return e.into(),
            CheckpointError::OtherModel { .. } => Exit::Usage,
            _ => Exit::Invalid,
        };
        Self::new(exit, error.to_string())
    }
}
