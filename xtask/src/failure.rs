//! The one error type of this program: a message that says what failed and what to try, already fit to print.

use std::fmt;
use std::path::Path;

/// A task that could not be done. The message ends with what to try.
#[derive(Debug)]
pub struct Failure(String);

/// Result of a task.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// A file operation (`verb`, such as "read") that failed at `path`.
    pub fn io(verb: &str, path: &Path, cause: &std::io::Error) -> Self {
        Self(format!("cannot {verb} {}: {cause}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// `std::fs::read_to_string` with the path in the error.
pub fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Failure::io("read", path, &e))
}

/// `std::fs::write` with the path in the error.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, bytes).map_err(|e| Failure::io("write", path, &e))
}

/// `std::fs::create_dir_all` with the path in the error.
pub fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|e| Failure::io("create folder", path, &e))
}
