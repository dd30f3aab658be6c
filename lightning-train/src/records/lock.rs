//! One run per folder: an advisory lock that goes with the process.

use crate::cli::{Exit, Failure};
use crate::doctor::machine::host_name;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Name of the lock file.
pub const LOCK_FILE: &str = "run.lock";

/// A folder that this process owns until the lock is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
    path: PathBuf,
}

impl FolderLock {
    /// Locks a folder that exists.
    ///
    /// # Errors
    /// `Usage` when another process holds it, with the lock file and what is known of the holder; `Invalid` when the file
    /// cannot be written.
    pub fn acquire(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(LOCK_FILE);
        let refuse = |e: &std::io::Error| {
            Failure::new(
                Exit::Invalid,
                format!("cannot lock {}: {e}; set logger.dir to another folder", path.display()),
            )
        };
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|e| refuse(&e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                let message = format!(
                    "{} is in use by {holder} (lock {}); wait for that run, stop it, or set logger.dir and checkpoint.save \
                     to other folders",
                    folder.display(),
                    path.display()
                );
                return Err(Failure::new(Exit::Usage, message));
            }
            Err(TryLockError::Error(e)) => return Err(refuse(&e)),
        }
        let holder = format!("process {} on {}\n", std::process::id(), host_name());
        // The text only helps the message above; the lock does not depend on it, so a full disk does not stop the run here.
        let _ = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(holder.as_bytes()));
        Ok(Self { _file: file, path })
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_holder_is_told_of_the_first_and_a_released_lock_is_free() {
        let dir = std::env::temp_dir().join(format!("lightning-lock-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let first = FolderLock::acquire(&dir).unwrap();
        let refused = FolderLock::acquire(&dir).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        for part in [LOCK_FILE, &format!("process {}", std::process::id()), "logger.dir"] {
            assert!(refused.message.contains(part), "{}", refused.message);
        }
        drop(first);
        assert!(FolderLock::acquire(&dir).is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
