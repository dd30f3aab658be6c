//! Rows of input files: lines of JSON (plain, gzip, Zstandard), Parquet, plain text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::plan::FileShare;
use super::sources::{Compression, FileKind};
use super::text_field::{FieldOf, TextField};
use super::zstd_frames::ZstdFrames;
use crate::error::{DataError, Result};

/// What to do with a row that cannot be read: malformed JSON, a text field of another type, invalid UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRows {
    /// Stop and name file and line.
    Stop,
    /// Leave it out and count it.
    Skip,
}

/// One row as it is handed over.
pub(crate) enum Row {
    /// The text field alone.
    Text(TextField),
    /// The whole object.
    Json(Value),
    /// A row that was left out ([`BadRows::Skip`]).
    Bad,
}

/// What to take from each row.
#[derive(Clone, Copy)]
pub(crate) enum Want<'a> {
    /// A text field by name.
    Text(&'a str),
    /// Everything.
    Json,
}

/// Reads the rows of a share in order. `visit` returns false to stop. `bytes` counts raw bytes read.
pub(crate) fn for_each_row(
    share: &FileShare,
    want: Want<'_>,
    bad: BadRows,
    bytes: &AtomicU64,
    visit: &mut dyn FnMut(Row) -> Result<bool>,
) -> Result<()> {
    let path = &share.file.path;
    let mine = |row: u64| share.rows.is_none_or(|(n, k)| row % n == k);
    match FileKind::of(path) {
        Some(FileKind::JsonLines(compression)) => json_lines(path, compression, want, bad, bytes, &mine, visit),
        Some(FileKind::PlainText) => {
            if mine(0) {
                let text = std::fs::read(path).map_err(|e| DataError::io("read", path, e))?;
                bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
                let row = match (String::from_utf8(text), want, bad) {
                    (Ok(text), Want::Text(_), _) => Row::Text(TextField::Text(text)),
                    (Ok(_), Want::Json, _) => {
                        return Err(bad_row(path, 1, "rows with fields".into(), "plain text".into()));
                    }
                    (Err(_), _, BadRows::Skip) => Row::Bad,
                    (Err(e), _, BadRows::Stop) => {
                        let at = e.utf8_error().valid_up_to();
                        return Err(bad_row(path, 1, "UTF-8".into(), format!("another byte at offset {at}")));
                    }
                };
                visit(row)?;
            }
            Ok(())
        }
        #[cfg(feature = "parquet")]
        Some(FileKind::Parquet) => {
            let taken = super::super::parquet_columns::for_each_row(path, want_column(want), bad, &mine, visit);
            bytes.fetch_add(share.file.size, Ordering::Relaxed);
            taken
        }
        _ => Err(DataError::Invalid {
            path: path.clone(),
            rule: "the kind of a file shows in its name",
            entry: None,
            expected: ".jsonl, .jsonl.gz, .jsonl.zst, .txt, or .parquet in a build that has it".into(),
            found: "another ending".into(),
            hint: "rename or convert the file; .parquet needs the feature `parquet`",
        }),
    }
}

#[cfg(feature = "parquet")]
fn want_column(want: Want<'_>) -> Option<&str> {
    match want {
        Want::Text(field) => Some(field),
        Want::Json => None,
    }
}

pub(crate) fn bad_row(path: &Path, line: u64, expected: String, found: String) -> DataError {
    DataError::Invalid {
        path: path.to_path_buf(),
        rule: "each row can be read",
        entry: Some(line),
        expected,
        found,
        hint: "correct the row (entries count lines or rows from 1), or set on_bad_row=skip to leave such rows out",
    }
}

struct Counting<'a, R> {
    inner: R,
    bytes: &'a AtomicU64,
}

impl<R: Read> Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// The lines of a file, unpacked. `bytes` counts raw bytes.
pub(super) struct Lines<'a> {
    path: &'a Path,
    reader: Box<dyn BufRead + 'a>,
    /// Lines read so far.
    pub number: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn open(path: &'a Path, compression: Compression, bytes: &'a AtomicU64) -> Result<Lines<'a>> {
        let file = File::open(path).map_err(|e| DataError::io("open", path, e))?;
        let raw = BufReader::with_capacity(1 << 18, Counting { inner: file, bytes });
        let reader: Box<dyn BufRead + 'a> = match compression {
            Compression::None => Box::new(raw),
            Compression::Gzip => Box::new(BufReader::with_capacity(1 << 18, flate2::bufread::MultiGzDecoder::new(raw))),
            Compression::Zstd => Box::new(BufReader::with_capacity(1 << 18, ZstdFrames::new(raw))),
        };
        Ok(Lines { path, reader, number: 0 })
    }

    /// Reads the next line with its line feed; false at the end.
    pub(super) fn next(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        self.number += 1;
        let n = self.reader.read_until(b'\n', line).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidData
            | io::ErrorKind::Other => DataError::Invalid {
                path: self.path.to_path_buf(),
                rule: "a compressed file is whole",
                entry: Some(self.number),
                expected: "a readable stream to its end".into(),
                found: e.to_string(),
                hint: "copy or compress the file again",
            },
            _ => DataError::io("read", self.path, e),
        })?;
        Ok(n > 0)
    }
}

/// Lines of blanks are no rows.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Reads one line of JSON as a row. The error says what is wrong with it.
pub(super) fn parse_row(line: &[u8], want: Want<'_>, bad: BadRows) -> std::result::Result<Row, String> {
    let parsed = match want {
        Want::Text(field) => {
            let mut parser = serde_json::Deserializer::from_slice(line);
            let text = FieldOf(field).deserialize(&mut parser);
            text.and_then(|t| parser.end().map(|()| Row::Text(t)))
        }
        Want::Json => serde_json::from_slice(line).map(Row::Json),
    };
    match parsed {
        Err(_) if bad == BadRows::Skip => Ok(Row::Bad),
        other => other.map_err(|e| e.to_string()),
    }
}

fn json_lines(
    path: &Path,
    compression: Compression,
    want: Want<'_>,
    bad: BadRows,
    bytes: &AtomicU64,
    mine: &dyn Fn(u64) -> bool,
    visit: &mut dyn FnMut(Row) -> Result<bool>,
) -> Result<()> {
    let mut lines = Lines::open(path, compression, bytes)?;
    let mut row = 0u64;
    let mut line = Vec::new();
    while lines.next(&mut line)? {
        if is_blank(&line) {
            continue;
        }
        row += 1;
        if !mine(row - 1) {
            continue;
        }
        let parsed =
            parse_row(&line, want, bad).map_err(|found| bad_row(path, lines.number, expected_row(want), found))?;
        if !visit(parsed)? {
            return Ok(());
        }
    }
    Ok(())
}

/// What a row has to be, for messages.
pub(super) fn expected_row(want: Want<'_>) -> String {
    match want {
        Want::Text(field) => {
            format!("a JSON object whose field {field:?} is a text, a number or null")
        }
        Want::Json => "a JSON object".into(),
    }
}
