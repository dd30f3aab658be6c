//! Saving while the run goes on: a snapshot in host memory is written by a thread.

use super::{CheckpointError, Snapshot};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// Writes one snapshot at a time. A second one waits for the first; a failure is handed out at the next call and leaves
/// the last good checkpoint as it was.
#[derive(Debug, Default)]
pub struct BackgroundSaver {
    running: Option<JoinHandle<Result<PathBuf, CheckpointError>>>,
}

impl BackgroundSaver {
    /// A saver that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins to write a snapshot under `folder`, after waiting for the one before. Returns that one's folder.
    ///
    /// # Errors
    /// The failure of the save before, in which case this snapshot is not written; a thread that cannot start.
    pub fn start(&mut self, snapshot: Snapshot, folder: &Path) -> Result<Option<PathBuf>, CheckpointError> {
        let before = self.wait()?;
        let target = folder.to_path_buf();
        let thread = std::thread::Builder::new().name("checkpoint".into());
        let running = thread
            .spawn(move || snapshot.write(&target))
            .map_err(|e| CheckpointError::io("start a thread to write", folder, e))?;
        self.running = Some(running);
        Ok(before)
    }

    /// Whether a snapshot is being written.
    pub fn is_busy(&self) -> bool {
        self.running.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// The outcome of a save that has ended since the last call; for every step of a run.
    ///
    /// # Errors
    /// The failure of that save.
    pub fn poll(&mut self) -> Result<Option<PathBuf>, CheckpointError> {
        if self.is_busy() { Ok(None) } else { self.wait() }
    }

    /// Waits for the save that is going on, if any.
    ///
    /// # Errors
    /// Its failure.
    pub fn wait(&mut self) -> Result<Option<PathBuf>, CheckpointError> {
        match self.running.take() {
            None => Ok(None),
            Some(thread) => match thread.join() {
                Ok(outcome) => outcome.map(Some),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

impl Drop for BackgroundSaver {
    fn drop(&mut self) {
        // A run that ends with an error still finishes the save that it had begun.
        if let Some(thread) = self.running.take() {
            let _ = thread.join();
        }
    }
}
