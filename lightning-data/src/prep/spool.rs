//! A shard's sequences on disk between tokenising and packing, so that memory does not grow with the shard.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::atomic::AtomicFile;
use crate::error::{DataError, Result};

/// Sequences being written.
pub(super) struct SpoolWriter {
    directory: PathBuf,
    tokens: AtomicFile,
    masks: AtomicFile,
    offsets: Vec<u64>,
    lengths: Vec<u32>,
    next: u64,
    scratch: Vec<u8>,
}

/// Sequences to be packed. The files go away with it.
pub(super) struct Spool {
    directory: PathBuf,
    tokens: Option<Mmap>,
    masks: Option<Mmap>,
    offsets: Vec<u64>,
    lengths: Vec<u32>,
}

const FILES: [&str; 2] = ["tokens.bin", "masks.bin"];

impl SpoolWriter {
    /// Starts in `directory`.
    pub(super) fn create(directory: &Path) -> Result<SpoolWriter> {
        Ok(SpoolWriter {
            directory: directory.to_path_buf(),
            tokens: AtomicFile::create(&directory.join(FILES[0]))?,
            masks: AtomicFile::create(&directory.join(FILES[1]))?,
            offsets: Vec::new(),
            lengths: Vec::new(),
            next: 0,
            scratch: Vec::new(),
        })
    }

    /// Appends a sequence.
    pub(super) fn add(&mut self, ids: &[u32], mask: &[u8]) -> Result<()> {
        self.scratch.clear();
        self.scratch.extend(ids.iter().flat_map(|id| (*id as i32).to_le_bytes()));
        self.tokens.put(&self.scratch)?;
        self.masks.put(mask)?;
        self.offsets.push(self.next);
        self.lengths.push(ids.len() as u32);
        self.next += ids.len() as u64;
        Ok(())
    }

    /// Ends writing.
    pub(super) fn finish(self) -> Result<Spool> {
        self.tokens.commit()?;
        self.masks.commit()?;
        let map = |name: &str| {
            let path = self.directory.join(name);
            let file = File::open(&path).map_err(|e| DataError::io("open", &path, e))?;
            if self.next == 0 {
                return Ok(None);
            }
            // SAFETY: read-only mapping of a file that this process has just written under the shard's lock.
            unsafe { Mmap::map(&file) }.map(Some).map_err(|e| DataError::io("map", &path, e))
        };
        let (tokens, masks) = (map(FILES[0])?, map(FILES[1])?);
        Ok(Spool { directory: self.directory, tokens, masks, offsets: self.offsets, lengths: self.lengths })
    }
}

impl Spool {
    /// Stored lengths.
    pub(super) fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// One sequence. (Little-endian machines only read it as it lies; others do not build this crate's readers either.)
    pub(super) fn sequence(&self, index: u32) -> (&[i32], &[u8]) {
        let (from, n) = (self.offsets[index as usize] as usize, self.lengths[index as usize] as usize);
        let tokens = self.tokens.as_deref().unwrap_or_default();
        let masks = self.masks.as_deref().unwrap_or_default();
        (bytemuck::cast_slice(&tokens[4 * from..4 * (from + n)]), &masks[from..from + n])
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        for name in FILES {
            // Left behind, they cost room and nothing else: the next run writes them anew.
            let _ = std::fs::remove_file(self.directory.join(name));
        }
        let _ = std::fs::remove_dir(&self.directory);
    }
}
