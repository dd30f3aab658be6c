//! Writing one safetensors file from front to back, so that no tensor has to be in memory as a whole.

use super::CheckpointError;
use crate::hf::header;
use safetensors::Dtype;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::Write;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// A file being written under another name (`NAME.part`). It gets its own name in [`ShardWriter::finish`], after its
/// bytes are on the disk.
pub struct ShardWriter {
    path: PathBuf,
    part: PathBuf,
    file: File,
    /// Bytes that every tensor still needs, in order.
    lengths: Vec<u64>,
    current: usize,
    missing: u64,
    hasher: XxHash3_64,
    hashes: Vec<u64>,
    finished: bool,
}

impl ShardWriter {
    /// Begins a file with these tensors (key, type, shape), to be written in this order.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn create(
        path: &Path,
        entries: &[(String, Dtype, Vec<usize>)],
        metadata: &[(&str, &str)],
    ) -> Result<Self, CheckpointError> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let lengths = entries
            .iter()
            .map(|(_, dtype, shape)| header::byte_len(*dtype, shape).expect("a tensor that exists"))
            .collect();
        let file = File::create(&part).map_err(|e| CheckpointError::io("create", &part, e))?;
        let mut writer = Self {
            path: path.to_path_buf(),
            part,
            file,
            lengths,
            current: 0,
            missing: 0,
            hasher: XxHash3_64::new(),
            hashes: Vec::new(),
            finished: false,
        };
        let text = header::text(entries, metadata);
        writer.put(&text)?;
        writer.missing = writer.lengths.first().copied().unwrap_or(0);
        writer.skip_complete();
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.file.write_all(bytes).map_err(|e| CheckpointError::io("write", &self.part, e))
    }

    fn skip_complete(&mut self) {
        while self.current < self.lengths.len() && self.missing == 0 {
            let hasher = std::mem::take(&mut self.hasher);
            self.hashes.push(hasher.finish());
            self.current += 1;
            self.missing = self.lengths.get(self.current).copied().unwrap_or(0);
        }
    }

    /// Writes the next bytes of the current tensor; a call does not cross into the next tensor.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        assert!(bytes.len() as u64 <= self.missing, "more bytes than the tensor has");
        self.hasher.write(bytes);
        self.put(bytes)?;
        self.missing -= bytes.len() as u64;
        self.skip_complete();
        Ok(())
    }

    /// Flushes and renames the file. Returns XXH3-64 of every tensor's bytes, in order.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn finish(mut self) -> Result<Vec<u64>, CheckpointError> {
        assert_eq!(self.current, self.lengths.len(), "a tensor was not written");
        self.file.sync_all().map_err(|e| CheckpointError::io("flush", &self.part, e))?;
        fs::rename(&self.part, &self.path).map_err(|e| CheckpointError::io("rename", &self.part, e))?;
        self.finished = true;
        Ok(std::mem::take(&mut self.hashes))
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        if !self.finished {
            // An incomplete file is useless; the error that led here matters more.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Writes a small file and flushes it.
///
/// # Errors
/// What the system refuses.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| CheckpointError::io("write", path, e))
}

/// Replaces a small file in one step.
///
/// # Errors
/// What the system refuses.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let done = write_file(&draft, bytes)
        .and_then(|()| fs::rename(&draft, path).map_err(|e| CheckpointError::io("rename", &draft, e)));
    if done.is_err() {
        let _ = fs::remove_file(&draft);
    }
    done?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Flushes the names in a folder.
///
/// # Errors
/// What the system refuses.
pub fn sync_folder(folder: &Path) -> Result<(), CheckpointError> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| CheckpointError::io("flush", folder, e))
}

/// Gives a complete folder its name. A folder that has the name already is kept aside until the new one has it, and comes
/// back when the program ends in between ([`recover`]).
///
/// # Errors
/// What the system refuses.
pub fn move_into_place(draft: &Path, target: &Path) -> Result<(), CheckpointError> {
    recover(target)?;
    let aside = aside(target);
    if target.exists() {
        fs::rename(target, &aside).map_err(|e| CheckpointError::io("replace", target, e))?;
    }
    if let Err(e) = fs::rename(draft, target) {
        let _ = fs::rename(&aside, target);
        return Err(CheckpointError::io("rename", draft, e));
    }
    sync_folder(target.parent().unwrap_or(Path::new(".")))?;
    if aside.exists() {
        fs::remove_dir_all(&aside).map_err(|e| CheckpointError::io("remove", &aside, e))?;
    }
    Ok(())
}

/// Brings back a folder that was set aside by a program that ended before its successor was in place.
///
/// # Errors
/// What the system refuses.
pub fn recover(target: &Path) -> Result<(), CheckpointError> {
    let aside = aside(target);
    if !aside.exists() {
        return Ok(());
    }
    if target.exists() {
        return fs::remove_dir_all(&aside).map_err(|e| CheckpointError::io("remove", &aside, e));
    }
    fs::rename(&aside, target).map_err(|e| CheckpointError::io("rename", &aside, e))
}

fn aside(target: &Path) -> PathBuf {
    let name = target.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    target.with_file_name(format!(".{name}.replaced"))
}
