//! Fat binaries: the container in which nvcc puts PTX text and cubins, with its two compressions.
//!
//! A file begins with a 16-byte header (magic `0xba55ed50`, version, header size, bytes that follow) and holds entries:
//!
//! | offset | field |
//! |--------|-------|
//! | 0, 2 | kind (1 PTX, 2 cubin), attributes |
//! | 4, 8 | header bytes, payload bytes (padded) |
//! | 16 | compressed bytes |
//! | 24, 26 | minor, major version (for PTX, of the ISA) |
//! | 28 | architecture, 90 for sm_90 and sm_90a |
//! | 40 | flags: `0x2000` LZ4 block, `0x8000` Zstandard frame |
//! | 56 | bytes after decompression |
//!
//! Nothing here trusts the input: sizes are checked against the slice, and decompression is bounded.

use std::fmt;
use std::io::Read;

/// First four bytes of a fat binary.
pub const MAGIC: u32 = 0xba55_ed50;
/// First four bytes of the wrapper that host objects hold: magic, version, pointer to the fat binary, file name.
pub const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// Bytes of the file header.
pub const HEADER_BYTES: usize = 16;
/// Largest accepted size of a decompressed entry.
pub const MAX_ENTRY_BYTES: u64 = 1 << 30;

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PTX text.
    Ptx,
    /// Cubin (ELF).
    Cubin,
    /// Anything else, by number.
    Other(u16),
}

/// One entry.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Contents.
    pub kind: Kind,
    /// Architecture number, for example 90.
    pub arch: u32,
    /// Major and minor version.
    pub version: (u16, u16),
    /// Flags.
    pub flags: u64,
    /// Size after decompression; 0 when it is not compressed.
    pub unpacked_bytes: u64,
    payload: &'a [u8],
}

/// A container that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FatbinError {
    /// The magic number is missing.
    Magic {
        /// The first four bytes.
        found: u32,
    },
    /// The data end within a header or a payload.
    Truncated {
        /// Offset of the part.
        offset: usize,
        /// Bytes that the part needs.
        needed: u64,
        /// Bytes there are.
        available: usize,
    },
    /// A header states a size that cannot be.
    Header {
        /// Offset of the header.
        offset: usize,
    },
    /// An entry does not decompress.
    Compressed {
        /// Method.
        method: &'static str,
        /// What the decoder says.
        reason: String,
    },
}

impl fmt::Display for FatbinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FatbinError::Magic { found } => {
                write!(
                    f,
                    "not a fat binary (begins with {found:#010x}, expected {MAGIC:#010x}); pass the output of nvcc -fatbin, or PTX text"
                )
            }
            FatbinError::Truncated { offset, needed, available } => {
                write!(
                    f,
                    "fat binary is cut off: {needed} bytes needed at offset {offset}, {available} there; write the file again"
                )
            }
            FatbinError::Header { offset } => {
                write!(f, "fat binary has a broken header at offset {offset}; write the file again")
            }
            FatbinError::Compressed { method, reason } => {
                write!(
                    f,
                    "fat binary entry does not decompress with {method}: {reason}; write it again or use --compress-mode=none"
                )
            }
        }
    }
}

impl std::error::Error for FatbinError {}

fn bytes<const N: usize>(data: &[u8], offset: usize) -> Result<[u8; N], FatbinError> {
    let part = data.get(offset..offset.saturating_add(N));
    part.and_then(|p| p.try_into().ok()).ok_or(FatbinError::Truncated {
        offset,
        needed: N as u64,
        available: data.len().saturating_sub(offset),
    })
}

fn u16_at(data: &[u8], offset: usize) -> Result<u16, FatbinError> {
    Ok(u16::from_le_bytes(bytes(data, offset)?))
}

fn u32_at(data: &[u8], offset: usize) -> Result<u32, FatbinError> {
    Ok(u32::from_le_bytes(bytes(data, offset)?))
}

fn u64_at(data: &[u8], offset: usize) -> Result<u64, FatbinError> {
    Ok(u64::from_le_bytes(bytes(data, offset)?))
}

/// Size of a whole fat binary from its first [`HEADER_BYTES`].
///
/// # Errors
/// [`FatbinError::Magic`], [`FatbinError::Truncated`] or [`FatbinError::Header`].
pub fn total_bytes(header: &[u8]) -> Result<usize, FatbinError> {
    let magic = u32_at(header, 0)?;
    if magic != MAGIC {
        return Err(FatbinError::Magic { found: magic });
    }
    let (head, body) = (u16_at(header, 6)? as u64, u64_at(header, 8)?);
    if (head as usize) < HEADER_BYTES || body > 1 << 40 {
        return Err(FatbinError::Header { offset: 0 });
    }
    Ok((head + body) as usize)
}

/// All entries of a fat binary.
///
/// # Errors
/// A [`FatbinError`] for anything malformed, before any entry is decompressed.
pub fn entries(data: &[u8]) -> Result<Vec<Entry<'_>>, FatbinError> {
    let total = total_bytes(data)?;
    let head = u16_at(data, 6)? as usize;
    let truncated =
        |offset, needed| FatbinError::Truncated { offset, needed, available: data.len().saturating_sub(offset) };
    if total > data.len() {
        return Err(truncated(0, total as u64));
    }
    let mut out = Vec::new();
    let mut at = head;
    while at < total {
        let entry = &data[at..total];
        let header = u32_at(entry, 4)? as u64;
        let size = u64_at(entry, 8)?;
        if header < 64 || size > MAX_ENTRY_BYTES {
            return Err(FatbinError::Header { offset: at });
        }
        if header + size > entry.len() as u64 {
            return Err(truncated(at, header + size));
        }
        let flags = u64_at(entry, 40)?;
        let compressed = flags & (FLAG_LZ4 | FLAG_ZSTD) != 0;
        let stored = u32_at(entry, 16)? as u64;
        let used = if compressed && stored != 0 { stored.min(size) } else { size };
        out.push(Entry {
            kind: match u16_at(entry, 0)? {
                1 => Kind::Ptx,
                2 => Kind::Cubin,
                k => Kind::Other(k),
            },
            arch: u32_at(entry, 28)?,
            version: (u16_at(entry, 26)?, u16_at(entry, 24)?),
            flags,
            unpacked_bytes: u64_at(entry, 56)?,
            payload: &entry[header as usize..(header + used) as usize],
        });
        at += (header + size) as usize;
    }
    Ok(out)
}

impl Entry<'_> {
    /// The contents, decompressed.
    ///
    /// # Errors
    /// [`FatbinError::Compressed`] when the decoder fails or the size differs from what the header says.
    pub fn unpack(&self) -> Result<Vec<u8>, FatbinError> {
        let method = match (self.flags & FLAG_LZ4 != 0, self.flags & FLAG_ZSTD != 0) {
            (false, false) => return Ok(self.payload.to_vec()),
            (true, _) => "LZ4",
            (_, true) => "Zstandard",
        };
        let fail = |reason: String| FatbinError::Compressed { method, reason };
        if self.unpacked_bytes > MAX_ENTRY_BYTES {
            return Err(fail(format!("{} bytes are more than is accepted", self.unpacked_bytes)));
        }
        let want = self.unpacked_bytes as usize;
        let out = if method == "LZ4" {
            lz4_flex::block::decompress(self.payload, want).map_err(|e| fail(e.to_string()))?
        } else {
            let mut out = Vec::new();
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(self.payload).map_err(|e| fail(e.to_string()))?;
            // One byte more than expected, so that a longer stream is noticed without being unpacked.
            (&mut decoder).take(want as u64 + 1).read_to_end(&mut out).map_err(|e| fail(e.to_string()))?;
            out
        };
        if out.len() != want {
            return Err(fail(format!("{} bytes came out, {want} were announced", out.len())));
        }
        Ok(out)
    }
}
