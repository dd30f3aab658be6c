//! Exit codes and the failures that carry them.

use std::fmt;

use crate::config::error::ConfigError;
use lightning_core::CoreError;
use lightning_data::{DataError, ErrorClass};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Unexpected failure.
    Unexpected = 1,
    /// Command line or configuration.
    Usage = 2,
    /// Data or checkpoint.
    Invalid = 3,
    /// Out of memory, planned or real.
    OutOfMemory = 4,
    /// Device or collective.
    Device = 5,
    /// Numerical stop.
    Numerical = 6,
    /// Verification failed.
    Verification = 7,
    /// Saved on a signal; requeue.
    Requeue = 75,
}

/// What the help says about exit codes.
pub const EXIT_CODES: &str = "\
Exit codes:
  0 done   1 unexpected   2 command line or configuration   3 data or checkpoint invalid
  4 out of memory (planned or real)   5 device or collective   6 numerical stop
  7 verification failed   75 saved on a signal, start again with the same command
";

/// A failure of a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    /// What failed, with what, and what to try.
    pub message: String,
}

impl Failure {
    /// A failure with an exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { exit: Exit::Usage, message: error.to_string() }
    }
}

impl From<CoreError> for Failure {
    fn from(error: CoreError) -> Self {
        let exit = match &error {
            CoreError::Config { .. } | CoreError::Pattern { .. } => Exit::Usage,
            CoreError::OutOfMemory { .. } => Exit::OutOfMemory,
            CoreError::Input { .. } => Exit::Invalid,
            CoreError::Device { .. } => Exit::Device,
            _ => Exit::Unexpected,
        };
        Self { exit, message: error.to_string() }
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        let exit = match error.class() {
            ErrorClass::Usage => Exit::Usage,
            ErrorClass::Data | ErrorClass::Io => Exit::Invalid,
        };
        Self { exit, message: error.to_string() }
    }
}
