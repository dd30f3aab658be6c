//! Rows of input files: lines of JSON (plain, gzip, Zstandard), Parquet, plain text.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::plan::FileShare;
use super::sources::{Compression, FileKind};
use crate::error::{DataError, Result};
use crate::python_text;

/// What to do with a row that cannot be read: malformed JSON, a text field of another type, invalid UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRows {
    /// Stop and name file and line.
    Stop,
    /// Leave it out and count it.
    Skip,
}

/// The text field of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextField {
    /// A text (numbers and booleans as Python prints them).
    Text(String),
    /// Absent or null.
    Missing,
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

fn json_lines(
    path: &Path,
    compression: Compression,
    want: Want<'_>,
    bad: BadRows,
    bytes: &AtomicU64,
    mine: &dyn Fn(u64) -> bool,
    visit: &mut dyn FnMut(Row) -> Result<bool>,
) -> Result<()> {
    let file = File::open(path).map_err(|e| DataError::io("open", path, e))?;
    let raw = BufReader::with_capacity(1 << 18, Counting { inner: file, bytes });
    let mut reader: Box<dyn BufRead + '_> = match compression {
        Compression::None => Box::new(raw),
        Compression::Gzip => Box::new(BufReader::with_capacity(1 << 18, flate2::bufread::MultiGzDecoder::new(raw))),
        Compression::Zstd => Box::new(BufReader::with_capacity(1 << 18, ZstdFrames::new(raw))),
    };
    let (mut line, mut row) = (0u64, 0u64);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        line += 1;
        let n = reader.read_until(b'\n', &mut buffer).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidData
            | io::ErrorKind::Other => DataError::Invalid {
                path: path.to_path_buf(),
                rule: "a compressed file is whole",
                entry: Some(line),
                expected: "a readable stream to its end".into(),
                found: e.to_string(),
                hint: "copy or compress the file again",
            },
            _ => DataError::io("read", path, e),
        })?;
        if n == 0 {
            return Ok(());
        }
        if buffer.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        row += 1;
        if !mine(row - 1) {
            continue;
        }
        let parsed = match want {
            Want::Text(field) => {
                let mut parser = serde_json::Deserializer::from_slice(&buffer);
                let text = FieldOf(field).deserialize(&mut parser);
                text.and_then(|t| parser.end().map(|()| Row::Text(t)))
            }
            Want::Json => serde_json::from_slice(&buffer).map(Row::Json),
        };
        let parsed = match parsed {
            Ok(row) => row,
            Err(_) if bad == BadRows::Skip => Row::Bad,
            Err(e) => return Err(bad_row(path, line, expected_row(want), e.to_string())),
        };
        if !visit(parsed)? {
            return Ok(());
        }
    }
}

fn expected_row(want: Want<'_>) -> String {
    match want {
        Want::Text(field) => {
            format!("a JSON object whose field {field:?} is a text, a number or null")
        }
        Want::Json => "a JSON object".into(),
    }
}

/// All frames of a Zstandard file, one after another; skippable frames are skipped.
struct ZstdFrames<R> {
    source: R,
    decoder: ruzstd::decoding::FrameDecoder,
    inside: bool,
}

/// What the usual command-line tool accepts without being told otherwise.
const LARGEST_WINDOW: u64 = 1 << 27;

impl<R: BufRead> ZstdFrames<R> {
    fn new(source: R) -> ZstdFrames<R> {
        let mut decoder = ruzstd::decoding::FrameDecoder::new();
        decoder.set_max_window_size(LARGEST_WINDOW);
        ZstdFrames { source, decoder, inside: false }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBlocks;
        use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
        let broken = |e: FrameDecoderError| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
        loop {
            if self.inside {
                while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                    self.decoder.decode_blocks(&mut self.source, UptoBlocks(1)).map_err(broken)?;
                }
                if self.decoder.can_collect() > 0 {
                    return self.decoder.read(buffer);
                }
                let (stored, computed) =
                    (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
                if let (Some(stored), Some(computed)) = (stored, computed)
                    && stored != computed
                {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame's checksum differs"));
                }
                self.inside = false;
            }
            if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => self.inside = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut (&mut self.source).take(u64::from(length)), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(e) => return Err(broken(e)),
            }
        }
    }
}

/// Picks one field of an object and passes over the rest without building it. Of a repeated key the last counts, as in
/// Python.
struct FieldOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for FieldOf<'_> {
    type Value = TextField;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<TextField, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldOf<'_> {
    type Value = TextField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<TextField, A::Error> {
        let mut found = TextField::Missing;
        while let Some(is_it) = map.next_key_seed(KeyIs(self.0))? {
            if is_it {
                found = map.next_value_seed(Text)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct KeyIs<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for KeyIs<'_> {
    type Value = bool;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyIs<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E: de::Error>(self, key: &str) -> std::result::Result<bool, E> {
        Ok(key == self.0)
    }
}

struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = TextField;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<TextField, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = TextField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or null")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(text.to_string()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(text))
    }

    fn visit_unit<E: de::Error>(self) -> std::result::Result<TextField, E> {
        Ok(TextField::Missing)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(if value { "True" } else { "False" }.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<TextField, E> {
        Ok(TextField::Text(python_text::float(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> std::result::Result<TextField, A::Error> {
        Err(de::Error::invalid_type(de::Unexpected::Seq, &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> std::result::Result<TextField, A::Error> {
        Err(de::Error::invalid_type(de::Unexpected::Map, &self))
    }
}
