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
                Err(_) => {
                    // The message speaks of the line alone, without blank lines behind it.
                    let alone = line.iter().position(|&b| b == b'\n').map_or(&line[..], |end| &line[..=end]);
                    let found = parse_row(alone, want, bad).err().unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::super::plan::InputFile;
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("lightning-dealt-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn share(path: &Path, rows: (u64, u64)) -> FileShare {
        let size = std::fs::metadata(path).unwrap().len();
        FileShare { file: InputFile { path: path.to_path_buf(), size }, rows: Some(rows) }
    }

    type Seen = (Vec<String>, std::result::Result<(), String>);

    /// What `visit` saw of a share, with and without the one pass; a reader may stop after some rows.
    fn both(dealt: &DealtRows, share: &FileShare, want: Want<'_>, bad: BadRows, most: usize) -> (Seen, Seen, u64) {
        let run = |dealt: Option<&DealtRows>, bytes: &AtomicU64| -> Seen {
            let mut seen = Vec::new();
            let mut visit = |row: Row| {
                seen.push(match row {
                    Row::Text(text) => format!("{text:?}"),
                    Row::Json(value) => value.to_string(),
                    Row::Bad => "bad".into(),
                });
                Ok(seen.len() < most)
            };
            let ended = match dealt {
                Some(dealt) => dealt.for_each(share, want, bad, bytes, &mut visit),
                None => for_each_row(share, want, bad, bytes, &mut visit),
            };
            (seen, ended.map_err(|e| e.to_string()))
        };
        let bytes = AtomicU64::new(0);
        (run(Some(dealt), &bytes), run(None, &AtomicU64::new(0)), bytes.into_inner())
    }

    #[test]
    fn rows_found_once_are_the_rows_of_every_pass() {
        let directory = scratch("rows");
        let mut random = 7u64;
        let mut next = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n
        };
        for round in 0..30 {
            let mut text = String::new();
            // More rows than a block of the index once, none at all the first time.
            for row in 0..if round == 9 { BLOCK + 300 } else { 7 * round } {
                text += &match next(12) {
                    0 => "\n".to_string(),
                    1 => " \t \r\n".to_string(),
                    2 if round % 3 == 0 => "{\"text\": [1]}\n".to_string(),
                    3 if round % 3 == 0 => "{\"text\": \n".to_string(),
                    4 => format!("{{\"other\": {row}}}\n"),
                    _ => format!("{{\"text\": \"{row} {}\", \"n\": {row}}}\n", "é".repeat(next(40) as usize)),
                };
            }
            if round % 4 == 1 {
                text.push_str("{\"text\": \"no line feed at the end\"}");
            }
            let plain = directory.join(format!("{round}.jsonl"));
            std::fs::write(&plain, &text).unwrap();
            let packed = directory.join(format!("{round}.jsonl.gz"));
            let mut gzip = flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::fast());
            gzip.write_all(text.as_bytes()).unwrap();
            gzip.finish().unwrap();
            let dealt = DealtRows::new(&directory);
            let n = 2 + next(9);
            for path in [&plain, &packed] {
                let mut counted = 0;
                for k in 0..n {
                    for (want, bad) in [
                        (Want::Text("text"), BadRows::Skip),
                        (Want::Text("text"), BadRows::Stop),
                        (Want::Json, BadRows::Skip),
                    ] {
                        let (one, other, bytes) = both(&dealt, &share(path, (n, k)), want, bad, usize::MAX);
                        assert_eq!(one, other, "round {round}, share {k} of {n}");
                        counted += if bad == BadRows::Skip && matches!(want, Want::Json) { bytes } else { 0 };
                    }
                    let (one, other, _) = both(&dealt, &share(path, (n, k)), Want::Json, BadRows::Skip, 3);
                    assert_eq!(one, other);
                }
                // All bytes are counted but those in front of the first row.
                let size = std::fs::metadata(path).unwrap().len();
                assert!(counted <= size, "{counted} of {size}");
                if path == &plain && text.lines().any(|l| !l.trim().is_empty()) {
                    let blanks = text.len() - text.trim_start().len();
                    assert_eq!(counted + blanks as u64, size);
                }
            }
        }
        // The files beside the inputs have no names.
        let names = std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        assert!(names.into_iter().all(|n| n.contains(".jsonl")));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_damaged_file_is_named() {
        let directory = scratch("damaged");
        let path = directory.join("cut.jsonl.gz");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all("{\"text\": \"a line\"}\n".repeat(3000).as_bytes()).unwrap();
        let whole = gzip.finish().unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let dealt = DealtRows::new(&directory);
        let (one, _, _) = both(&dealt, &share(&path, (4, 1)), Want::Text("text"), BadRows::Stop, usize::MAX);
        let message = one.1.unwrap_err();
        assert!(message.contains("cut.jsonl.gz") && message.contains("compress the file again"), "{message}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    // Many workers at once: each file is passed over, and nobody waits for ever.
    #[test]
    fn workers_share_what_was_found() {
        let directory = scratch("workers");
        let paths: Vec<PathBuf> = (0..3).map(|f| directory.join(format!("{f}.jsonl"))).collect();
        for (f, path) in paths.iter().enumerate() {
            let rows: String = (0..500).map(|r| format!("{{\"text\": \"{f} {r}\"}}\n")).collect();
            std::fs::write(path, rows).unwrap();
        }
        let jobs: Vec<FileShare> = paths.iter().flat_map(|p| (0..8).map(|k| share(p, (8, k)))).collect();
        let dealt = DealtRows::new(&directory);
        let counts = crate::parallel::map_in_order(&jobs, 4, |share| {
            let mut n = 0;
            let mut visit = |_| {
                n += 1;
                Ok(true)
            };
            dealt.for_each(share, Want::Text("text"), BadRows::Stop, &AtomicU64::new(0), &mut visit)?;
            Ok(n)
        });
        assert_eq!(counts.unwrap().iter().sum::<u32>(), 1500);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
