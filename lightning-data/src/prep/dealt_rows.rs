//! Rows of one file that are dealt to several shards, found in one pass.
//!
//! Shard k of n takes the rows whose number modulo n is k. Passing over the whole file for every shard would read it n
//! times. So the first shard that needs a file notes where each row begins (eight bytes a row, on disk, so that memory does
//! not grow with the file), and every shard reads just its own. Compressed and Parquet files are unpacked to lines on the
//! way, into a file of the output's disk. Both files have no names: they go away with the process, killed or not.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::leftovers::unnamed_file;
use super::plan::FileShare;
use super::rows::{BadRows, Lines, Row, Want, bad_row, expected_row, for_each_row, is_blank, parse_row};
use super::sources::{Compression, FileKind};
use super::text_field::TextField;
use crate::error::{DataError, Result};

/// Files whose rows are dealt, shared by the workers of a preparation.
pub struct DealtRows {
    directory: PathBuf,
    known: Mutex<Vec<Arc<Known>>>,
}

/// A file and, once a worker has passed over it, its rows. What is wanted of the rows is part of the key: of unpacked
/// Parquet only that is kept.
struct Known {
    key: (PathBuf, Option<String>),
    rows: Mutex<Option<Arc<FoundRows>>>,
}

/// Where the rows of a file lie.
struct FoundRows {
    /// The file itself, or its unpacked lines.
    text: File,
    /// Beginning of each row in `text`, u64 little-endian; one more entry is the end of the last row.
    begins: File,
    count: u64,
    text_bytes: u64,
    /// Whether line numbers of `text` are those of the file (else rows are numbered).
    lines: bool,
}

/// Entries of `begins` that are read at once.
const BLOCK: u64 = 8192;

impl DealtRows {
    /// Unnamed files will lie in `directory`.
    pub fn new(directory: &Path) -> DealtRows {
        DealtRows { directory: directory.to_path_buf(), known: Mutex::new(Vec::new()) }
    }

    /// As [`for_each_row`].
    pub(super) fn for_each(
        &self,
        share: &FileShare,
        want: Want<'_>,
        bad: BadRows,
        bytes: &AtomicU64,
        visit: &mut dyn FnMut(Row) -> Result<bool>,
    ) -> Result<()> {
        match (share.rows, FileKind::of(&share.file.path)) {
            (Some((n, k)), Some(kind @ (FileKind::JsonLines(_) | FileKind::Parquet))) if n > 1 => {
                let rows = self.rows(share, kind, want, bad)?;
                rows.each(share, (n, k), want, bad, bytes, visit)
            }
            _ => for_each_row(share, want, bad, bytes, visit),
        }
    }

    fn rows(&self, share: &FileShare, kind: FileKind, want: Want<'_>, bad: BadRows) -> Result<Arc<FoundRows>> {
        let field = match want {
            Want::Text(field) => Some(field.to_string()),
            Want::Json => None,
        };
        let key = (share.file.path.clone(), field);
        let entry = {
            let mut known = self.known.lock().map_err(|_| DataError::Worker { what: "row dealer" })?;
            let found = known.iter().find(|k| k.key == key).cloned();
            found.unwrap_or_else(|| {
                // Shards are made in the order of their files: what nobody reads any more is done with.
                let in_use = |k: &Arc<Known>| k.rows.try_lock().map_or(true, |r| r.as_ref().is_some_and(in_hands));
                known.retain(in_use);
                known.push(Arc::new(Known { key, rows: Mutex::new(None) }));
                known[known.len() - 1].clone()
            })
        };
        // Others that need the same file wait here.
        let mut rows = entry.rows.lock().map_err(|_| DataError::Worker { what: "row dealer" })?;
        if let Some(rows) = &*rows {
            return Ok(rows.clone());
        }
        let found = Arc::new(match kind {
            FileKind::JsonLines(compression) => find_lines(&share.file.path, compression, &self.directory)?,
            _ => unpack_rows(share, want, bad, &self.directory)?,
        });
        *rows = Some(found.clone());
        Ok(found)
    }
}

fn in_hands(rows: &Arc<FoundRows>) -> bool {
    Arc::strong_count(rows) > 1
}

/// A file being written in the output's directory, without a name.
struct Unnamed {
    directory: PathBuf,
    file: BufWriter<File>,
}

impl Unnamed {
    fn create(directory: &Path) -> Result<Unnamed> {
        let file = BufWriter::with_capacity(1 << 18, unnamed_file(directory)?);
        Ok(Unnamed { directory: directory.to_path_buf(), file })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| DataError::io("write the rows of a shard in", &self.directory, e))
    }

    fn finish(self) -> Result<File> {
        let failed = |e: io::Error| DataError::io("write the rows of a shard in", &self.directory, e);
        self.file.into_inner().map_err(|e| failed(e.into_error()))
    }
}

/// Passes over a file of lines.
fn find_lines(path: &Path, compression: Compression, directory: &Path) -> Result<FoundRows> {
    let uncounted = AtomicU64::new(0);
    let mut lines = Lines::open(path, compression, &uncounted)?;
    let mut begins = Unnamed::create(directory)?;
    let mut text = match compression {
        Compression::None => None,
        Compression::Gzip | Compression::Zstd => Some(Unnamed::create(directory)?),
    };
    let (mut at, mut count) = (0u64, 0);
    let mut line = Vec::new();
    while lines.next(&mut line)? {
        if !is_blank(&line) {
            begins.put(&at.to_le_bytes())?;
            count += 1;
        }
        if let Some(text) = &mut text {
            text.put(&line)?;
        }
        at += line.len() as u64;
    }
    begins.put(&at.to_le_bytes())?;
    let text = match text {
        Some(text) => text.finish()?,
        None => File::open(path).map_err(|e| DataError::io("open", path, e))?,
    };
    Ok(FoundRows { text, begins: begins.finish()?, count, text_bytes: at, lines: true })
}

/// Passes over a file of another kind and writes what is wanted of each row as a line.
fn unpack_rows(share: &FileShare, want: Want<'_>, bad: BadRows, directory: &Path) -> Result<FoundRows> {
    let (mut text, mut begins) = (Unnamed::create(directory)?, Unnamed::create(directory)?);
    let (mut at, mut count) = (0u64, 0);
    let whole = FileShare { file: share.file.clone(), rows: None };
    for_each_row(&whole, want, bad, &AtomicU64::new(0), &mut |row| {
        let mut line = match (row, want) {
            (Row::Text(TextField::Text(text)), Want::Text(field)) => json!({ field: text }).to_string(),
            (Row::Text(_), _) => "{}".into(),
            (Row::Json(value), _) => value.to_string(),
            // No JSON: it is left out and counted when it is read.
            (Row::Bad, _) => "!".into(),
        };
        line.push('\n');
        begins.put(&at.to_le_bytes())?;
        text.put(line.as_bytes())?;
        at += line.len() as u64;
        count += 1;
        Ok(true)
    })?;
    begins.put(&at.to_le_bytes())?;
    Ok(FoundRows { text: text.finish()?, begins: begins.finish()?, count, text_bytes: at, lines: false })
}

impl FoundRows {
    /// Reads the rows of shard k of n in order.
    fn each(
        &self,
        share: &FileShare,
        (n, k): (u64, u64),
        want: Want<'_>,
        bad: BadRows,
        bytes: &AtomicU64,
        visit: &mut dyn FnMut(Row) -> Result<bool>,
    ) -> Result<()> {
        let path = &share.file.path;
        let failed = |e| DataError::io("read", path, e);
        let mut block = Vec::new();
        let mut first = 0; // number of the first entry in `block`
        let mut line = Vec::new();
        for row in (k..self.count).step_by(n as usize) {
            if block.is_empty() || row + 1 >= first + block.len() as u64 / 8 {
                first = row;
                block.resize(8 * BLOCK.min(self.count + 1 - first) as usize, 0);
                self.begins.read_exact_at(&mut block, 8 * first).map_err(failed)?;
            }
            let entry = |row: u64| {
                let at = 8 * (row - first) as usize;
                block[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
            };
            let (begin, end) = (entry(row), entry(row + 1));
            line.resize(end.saturating_sub(begin) as usize, 0);
            self.text.read_exact_at(&mut line, begin).map_err(failed)?;
            // Progress counts bytes of the input as it lies there, packed.
            let packed = u128::from(end - begin) * u128::from(share.file.size) / u128::from(self.text_bytes.max(1));
            bytes.fetch_add(packed as u64, Ordering::Relaxed);
            let parsed = match parse_row(&line, want, bad) {
                Ok(parsed) => parsed,
                Err(found) => {
                    return Err(bad_row(path, self.line_number(path, row, begin)?, expected_row(want), found));
                }
            };
            if !visit(parsed)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Number from 1 of the line that begins at `begin`.
    fn line_number(&self, path: &Path, row: u64, begin: u64) -> Result<u64> {
        if !self.lines {
            return Ok(row + 1);
        }
        let (mut at, mut feeds) = (0, 0);
        let mut buffer = vec![0; 1 << 18];
        while at < begin {
            let n = buffer.len().min((begin - at) as usize);
            let read = self.text.read_at(&mut buffer[..n], at).map_err(|e| DataError::io("read", path, e))?;
            if read == 0 {
                break;
            }
            feeds += buffer[..read].iter().filter(|&&b| b == b'\n').count() as u64;
            at += read as u64;
        }
        Ok(feeds + 1)
    }
}
