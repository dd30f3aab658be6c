//! The header of a safetensors file, read without trusting it.
//!
//! A file is 8 bytes (length of the header, little endian), the header (JSON), and the tensors without gaps. The reader
//! takes no memory that the file itself does not have, and refuses what other readers let pass: keys that appear twice,
//! bytes that belong to no tensor or to two.

use safetensors::Dtype;
use serde::de::{self, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Longest header that is read, in bytes; the format's own limit.
pub const LONGEST_HEADER: u64 = 100_000_000;

/// A tensor as a header describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderEntry {
    /// Key.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape.
    pub shape: Vec<usize>,
    /// First byte in the file.
    pub start: u64,
    /// Number of bytes.
    pub len: u64,
}

/// A checked header: every byte behind it belongs to exactly one tensor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Tensors in the order of their bytes.
    pub entries: Vec<HeaderEntry>,
    /// `__metadata__`.
    pub metadata: BTreeMap<String, String>,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderProblem {
    /// The system refused to read it.
    Unreadable(String),
    /// Shorter than the length of a header.
    Short {
        /// Bytes of the file.
        bytes: u64,
    },
    /// The header would end behind the file, or is longer than any real one.
    Length {
        /// Bytes that the header claims.
        claimed: u64,
        /// Bytes of the file.
        bytes: u64,
    },
    /// The header is not UTF-8.
    NotUtf8,
    /// The header is not the JSON that it must be.
    Json(String),
    /// A key appears twice.
    Duplicate(String),
    /// A tensor's bytes are not what its type and shape need.
    Size {
        /// Key.
        name: String,
        /// Bytes by type and shape.
        expected: String,
        /// Offsets in the header.
        offsets: (u64, u64),
    },
    /// A tensor begins inside another.
    Overlap {
        /// Key of the later one.
        name: String,
        /// Where it begins.
        start: u64,
        /// Where the one before it ends.
        end: u64,
    },
    /// Bytes before a tensor belong to none.
    Gap {
        /// Key of the tensor behind the gap.
        name: String,
        /// Where it begins.
        start: u64,
        /// Where the one before it ends.
        end: u64,
    },
    /// The file does not end with the last tensor.
    FileLength {
        /// Bytes that header and tensors need.
        expected: u64,
        /// Bytes of the file.
        bytes: u64,
    },
}

impl fmt::Display for HeaderProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(e) => write!(f, "cannot be read: {e}"),
            Self::Short { bytes } => write!(f, "has {bytes} bytes, a safetensors file has at least 10"),
            Self::Length { claimed, bytes } => write!(
                f,
                "its header claims {claimed} bytes, the file has {bytes} and a header at most {LONGEST_HEADER}"
            ),
            Self::NotUtf8 => f.write_str("its header is not UTF-8"),
            Self::Json(e) => write!(f, "its header cannot be read: {e}"),
            Self::Duplicate(name) => write!(f, "its header has `{name}` twice"),
            Self::Size { name, expected, offsets } => write!(
                f,
                "`{name}` has data offsets {} to {}, its type and shape need {expected} bytes",
                offsets.0, offsets.1
            ),
            Self::Overlap { name, start, end } => {
                write!(f, "`{name}` begins at {start}, inside a tensor that ends at {end}")
            }
            Self::Gap { name, start, end } => {
                write!(f, "`{name}` begins at {start}, the tensor before it ends at {end}: a gap")
            }
            Self::FileLength { expected, bytes } => {
                write!(f, "has {bytes} bytes, its header describes {expected}: not complete, or not this file")
            }
        }
    }
}

/// A file that is not a complete safetensors file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: HeaderProblem,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; fetch or write the file again", self.path.display(), self.problem)
    }
}

impl std::error::Error for HeaderError {}

/// Opens a file and reads its header.
///
/// # Errors
/// What cannot be opened, and everything that [`HeaderProblem`] names.
pub fn open(path: &Path) -> Result<(File, Header), HeaderError> {
    let fail = |problem| HeaderError { path: path.to_path_buf(), problem };
    let unreadable = |e: std::io::Error| fail(HeaderProblem::Unreadable(e.to_string()));
    let file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let mut first = [0; 8];
    if bytes >= 8 {
        file.read_exact_at(&mut first, 0).map_err(unreadable)?;
    }
    let mut text = vec![0; length(first, bytes).map_err(fail)?];
    file.read_exact_at(&mut text, 8).map_err(unreadable)?;
    let header = parse(&text, bytes).map_err(fail)?;
    Ok((file, header))
}

/// The header of a file in memory.
///
/// # Errors
/// As [`open`].
pub fn of_bytes(file: &[u8]) -> Result<Header, HeaderProblem> {
    let bytes = file.len() as u64;
    let first = file.first_chunk().copied().unwrap_or_default();
    let length = length(first, bytes)?;
    parse(&file[8..8 + length], bytes)
}

/// The length of the header that the first bytes claim: at least 8 bytes are there, and it ends inside the file.
fn length(first: [u8; 8], bytes: u64) -> Result<usize, HeaderProblem> {
    let Some(rest) = bytes.checked_sub(8) else { return Err(HeaderProblem::Short { bytes }) };
    let claimed = u64::from_le_bytes(first);
    if claimed > LONGEST_HEADER.min(rest) {
        return Err(HeaderProblem::Length { claimed, bytes });
    }
    Ok(claimed as usize)
}

/// Checks the text of a header against the length of its file, in bytes.
///
/// # Errors
/// As [`open`].
pub fn parse(text: &[u8], file_bytes: u64) -> Result<Header, HeaderProblem> {
    let start = 8 + text.len() as u64;
    let text = std::str::from_utf8(text).map_err(|_| HeaderProblem::NotUtf8)?;
    let raw: RawHeader = serde_json::from_str(text).map_err(|e| HeaderProblem::Json(e.to_string()))?;
    let mut names = BTreeSet::new();
    let mut entries = Vec::with_capacity(raw.entries.len());
    for (name, entry) in raw.entries {
        if !names.insert(name.clone()) {
            return Err(HeaderProblem::Duplicate(name));
        }
        let len = byte_len(entry.dtype, &entry.shape);
        let (from, to) = entry.data_offsets;
        if len.is_none() || to.checked_sub(from) != len {
            let expected = len.map_or("more than 2^64".to_string(), |n| n.to_string());
            return Err(HeaderProblem::Size { name, expected, offsets: (from, to) });
        }
        let Some(first) = start.checked_add(from) else {
            return Err(HeaderProblem::Size { name, expected: (to - from).to_string(), offsets: (from, to) });
        };
        entries.push(HeaderEntry { name, dtype: entry.dtype, shape: entry.shape, start: first, len: to - from });
    }
    entries.sort_by_key(|e| (e.start, e.len));
    let mut end = start;
    for entry in &entries {
        let name = || entry.name.clone();
        if entry.start < end {
            return Err(HeaderProblem::Overlap { name: name(), start: entry.start - start, end: end - start });
        }
        if entry.start > end {
            return Err(HeaderProblem::Gap { name: name(), start: entry.start - start, end: end - start });
        }
        end = match end.checked_add(entry.len) {
            Some(end) if end <= file_bytes => end,
            _ => {
                let expected = end.saturating_add(entry.len);
                return Err(HeaderProblem::FileLength { expected, bytes: file_bytes });
            }
        };
    }
    if end != file_bytes {
        return Err(HeaderProblem::FileLength { expected: end, bytes: file_bytes });
    }
    Ok(Header { entries, metadata: raw.metadata })
}

/// Bytes of a tensor; `None` beyond 64 bits or when they are not whole.
pub fn byte_len(dtype: Dtype, shape: &[usize]) -> Option<u64> {
    let elements = shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d as u64))?;
    let bits = elements.checked_mul(dtype.bitsize() as u64)?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

/// The text of a header for tensors that follow each other in the given order, padded so that the data starts at a
/// multiple of 8 bytes, with its length in front.
pub fn text(entries: &[(String, Dtype, Vec<usize>)], metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut map = serde_json::Map::new();
    if !metadata.is_empty() {
        let inner: serde_json::Map<_, _> = metadata.iter().map(|(k, v)| (k.to_string(), (*v).into())).collect();
        map.insert("__metadata__".into(), inner.into());
    }
    let mut end = 0;
    for (name, dtype, shape) in entries {
        let len = byte_len(*dtype, shape).expect("tensors that exist fit into memory");
        let entry = serde_json::json!({
            "dtype": dtype.to_string(), "shape": shape, "data_offsets": [end, end + len],
        });
        map.insert(name.clone(), entry);
        end += len;
    }
    let mut json = serde_json::Value::Object(map).to_string().into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut json);
    bytes
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    dtype: Dtype,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

#[derive(Default)]
struct RawHeader {
    entries: Vec<(String, RawEntry)>,
    metadata: BTreeMap<String, String>,
}

impl<'de> serde::Deserialize<'de> for RawHeader {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = RawHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut raw = RawHeader::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "__metadata__" {
                        raw.metadata = map.next_value()?;
                    } else {
                        let entry = map.next_value().map_err(|e| de::Error::custom(format!("`{key}`: {e}")))?;
                        raw.entries.push((key, entry));
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}
