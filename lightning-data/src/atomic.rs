//! Files that appear whole or not at all: a temporary file beside the target, fsync, rename, fsync of the directory.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use twox_hash::XxHash64;

use crate::error::{DataError, Result};

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A file being written under a temporary name. Dropped without [`AtomicFile::commit`], it leaves nothing behind.
pub struct AtomicFile {
    target: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
    hash: XxHash64,
}

impl AtomicFile {
    /// Starts a file that will be called `target`; its directory is made when missing.
    pub fn create(target: &Path) -> Result<AtomicFile> {
        let directory = parent(target);
        fs::create_dir_all(directory).map_err(|e| DataError::io("create the directory", directory, e))?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = directory.join(format!(".{name}.{}.{unique}.tmp", std::process::id()));
        let file = File::create(&temporary).map_err(|e| DataError::io("create", target, e))?;
        Ok(AtomicFile {
            target: target.to_path_buf(),
            temporary,
            file: Some(BufWriter::with_capacity(1 << 20, file)),
            hash: XxHash64::with_seed(0),
        })
    }

    /// The name the file will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Appends bytes; the error names the target.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_all(bytes).map_err(|e| DataError::io("write", &self.target, e))
    }

    /// xxHash64 (seed 0) of the bytes so far. Costs a few percent of the copy into the buffer.
    pub fn xxh64(&self) -> u64 {
        self.hash.finish()
    }

    /// Makes the file durable and gives it its name.
    pub fn commit(mut self) -> Result<()> {
        let Some(writer) = self.file.take() else {
            return Ok(());
        };
        let file = writer.into_inner().map_err(|e| DataError::io("write", &self.target, e.into_error()))?;
        file.sync_all().map_err(|e| DataError::io("flush", &self.target, e))?;
        drop(file);
        fs::rename(&self.temporary, &self.target).map_err(|e| DataError::io("rename into", &self.target, e))?;
        sync_directory(parent(&self.target))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => {
                let written = file.write(buffer)?;
                self.hash.write(&buffer[..written]);
                Ok(written)
            }
            None => Err(io::Error::other("the file is closed")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.flush())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // After a commit the temporary name no longer exists. One that cannot be removed is never read by anyone.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Writes `bytes` to `target` atomically.
pub fn write_atomically(target: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(target)?;
    file.put(bytes)?;
    file.commit()
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

fn sync_directory(directory: &Path) -> Result<()> {
    match File::open(directory).and_then(|d| d.sync_all()) {
        Ok(()) => Ok(()),
        // Some network file systems refuse fsync on directories; the rename itself has happened.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        Err(e) => Err(DataError::io("flush the directory", directory, e)),
    }
}
