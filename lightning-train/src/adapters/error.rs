//! What can be wrong with an adapter.

use std::fmt;
use std::path::PathBuf;

/// An adapter that cannot be read, written or merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdapterError {
    /// A file cannot be read or written, or is not what it should be.
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A setting that is not supported.
    Setting {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is supported.
        supported: &'static str,
    },
    /// A weight that the model does not have, or has with another shape.
    Target {
        /// The weight.
        weight: String,
        /// What was found and expected.
        problem: String,
    },
    /// Groups of experts that do not come out even.
    Groups {
        /// Number of pairs.
        groups: usize,
        /// Number of experts.
        experts: usize,
    },
}

impl fmt::Display for AdapterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Setting { path, key, value, supported } => {
                write!(f, "{}: {key} = {value} is not supported, only {supported}", path.display())
            }
            Self::Target { weight, problem } => {
                write!(f, "the adapter changes `{weight}`: {problem}; was it trained on this model?")
            }
            Self::Groups { groups, experts } => write!(
                f,
                "{groups} pairs cannot be shared evenly by {experts} experts; choose a divisor of the number of experts"
            ),
        }
    }
}

impl std::error::Error for AdapterError {}
