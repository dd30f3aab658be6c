//! Memory-mapped reader of `.bin`/`.idx` pairs.
//!
//! Opening checks the header and the sizes in constant time and touches no array, so that an index of billions of
//! sequences opens at once. [`IndexedDataset::validate`] walks the arrays. Reading tokens checks its own bounds, so that a
//! damaged index can give an error but never bytes from elsewhere.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::{HEADER_BYTES, MAGIC, TokenType, VERSION, bin_path, idx_path};
use crate::error::{DataError, Result};

/// One open `.bin`/`.idx` pair. Cheap to share between threads.
pub struct IndexedDataset {
    prefix: PathBuf,
    idx_path: PathBuf,
    bin_path: PathBuf,
    idx: Mmap,
    bin: Option<Mmap>,
    token_type: TokenType,
    sequences: u64,
    document_boundaries: u64,
    multimodal: bool,
    validation: Validation,
}

/// What [`IndexedDataset::validate`] counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Sequences in the index.
    pub sequences: u64,
    /// Documents in the index.
    pub documents: u64,
    /// Sum of all lengths.
    pub tokens: u64,
    /// Sequences of no tokens.
    pub empty_sequences: u64,
}

fn map(path: &Path) -> Result<(Option<Mmap>, u64)> {
    let file = File::open(path).map_err(|e| DataError::io("open", path, e))?;
    let length = file.metadata().map_err(|e| DataError::io("read the size of", path, e))?.len();
    if length == 0 {
        return Ok((None, 0)); // an empty file cannot be mapped
    }
    // SAFETY: the mapping is read-only, and all access goes through bounds-checked slices of plain bytes. Someone who
    // truncates the file meanwhile can end the process with SIGBUS; writers here never do, they rename a new file in.
    let map = unsafe { Mmap::map(&file) }.map_err(|e| DataError::io("map", path, e))?;
    Ok((Some(map), length))
}

impl IndexedDataset {
    /// Opens `<prefix>.bin` and `<prefix>.idx`.
    ///
    /// # Errors
    /// A missing file, a wrong magic, version or type code, counts that do not fit the index file.
    pub fn open(prefix: impl AsRef<Path>) -> Result<IndexedDataset> {
        let prefix = prefix.as_ref();
        let (idx_path, bin_path) = (idx_path(prefix), bin_path(prefix));
        let (idx, idx_bytes) = map(&idx_path)?;
        let invalid = |rule: &'static str, expected: String, found: String, hint: &'static str| DataError::Invalid {
            path: idx_path.clone(),
            rule,
            entry: None,
            expected,
            found,
            hint,
        };
        const AGAIN: &str = "copy or prepare the file again";
        let Some(idx) = idx.filter(|_| idx_bytes >= HEADER_BYTES) else {
            return Err(invalid(
                "an index has a header of 34 bytes",
                "34 bytes or more".into(),
                format!("{idx_bytes} bytes"),
                AGAIN,
            ));
        };
        if idx[..9] != MAGIC {
            return Err(invalid(
                "an index starts with MMIDIDX and two zero bytes",
                format!("{MAGIC:02x?}"),
                format!("{:02x?}", &idx[..9]),
                "check that the prefix names a .bin/.idx pair",
            ));
        }
        let version = u64_at(&idx, 9);
        if version != VERSION {
            return Err(invalid(
                "the version is 1",
                "1".into(),
                version.to_string(),
                "write the file again with a current tool",
            ));
        }
        let token_type = TokenType::from_code(idx[17], &idx_path)?;
        let (sequences, document_boundaries) = (u64_at(&idx, 18), u64_at(&idx, 26));
        let plain = sequences
            .checked_mul(12)
            .and_then(|n| document_boundaries.checked_mul(8).and_then(|m| n.checked_add(m)))
            .and_then(|n| n.checked_add(HEADER_BYTES));
        let multimodal = match plain {
            Some(plain) if idx_bytes == plain => false,
            Some(plain) if plain.checked_add(sequences) == Some(idx_bytes) => true,
            _ => {
                return Err(invalid(
                    "the arrays fill the index",
                    plain.map_or("a size below 2^64".to_string(), |p| {
                        format!("{p} bytes for {sequences} sequences and {document_boundaries} document boundaries")
                    }),
                    format!("{idx_bytes} bytes"),
                    AGAIN,
                ));
            }
        };
        let (bin, _) = map(&bin_path)?;
        Ok(IndexedDataset {
            prefix: prefix.to_path_buf(),
            idx_path,
            bin_path,
            idx,
            bin,
            token_type,
            sequences,
            document_boundaries,
            multimodal,
            validation: Validation::default(),
        })
    }

    /// Opens and validates.
    pub fn open_validated(prefix: impl AsRef<Path>) -> Result<IndexedDataset> {
        let mut dataset = IndexedDataset::open(prefix)?;
        dataset.validation = dataset.validate()?;
        Ok(dataset)
    }

    /// The prefix given to [`IndexedDataset::open`].
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Path of the index.
    pub fn idx_path(&self) -> &Path {
        &self.idx_path
    }

    /// Path of the tokens.
    pub fn bin_path(&self) -> &Path {
        &self.bin_path
    }

    /// Type of the stored ids.
    pub fn token_type(&self) -> TokenType {
        self.token_type
    }

    /// Number of sequences. GPT training treats each as one document.
    pub fn len(&self) -> u64 {
        self.sequences
    }

    /// Whether there are no sequences.
    pub fn is_empty(&self) -> bool {
        self.sequences == 0
    }

    /// Number of entries of the document array: documents + 1.
    pub fn document_boundaries(&self) -> u64 {
        self.document_boundaries
    }

    /// Whether the index carries a mode per sequence.
    pub fn is_multimodal(&self) -> bool {
        self.multimodal
    }

    /// Size of `.bin` in bytes.
    pub fn bin_bytes(&self) -> u64 {
        self.bin.as_ref().map_or(0, |b| b.len() as u64)
    }

    /// Counts of the validation, all zero when opened without one.
    pub fn validation(&self) -> Validation {
        self.validation
    }

    /// Tokens of a sequence as stored, without checks of the value.
    ///
    /// # Panics
    /// When `sequence` is not below [`IndexedDataset::len`].
    #[inline]
    pub fn raw_length(&self, sequence: u64) -> i32 {
        assert!(sequence < self.sequences, "sequence {sequence} of {}", self.sequences);
        let at = (HEADER_BYTES + 4 * sequence) as usize;
        i32::from_le_bytes(self.idx[at..at + 4].try_into().expect("four bytes"))
    }

    /// Tokens of a sequence; negative lengths of a damaged index count as 0 (validation refuses them).
    #[inline]
    pub fn length(&self, sequence: u64) -> u32 {
        self.raw_length(sequence).max(0) as u32
    }

    /// All lengths in order, straight from the mapped index.
    pub fn lengths(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        let from = HEADER_BYTES as usize;
        let to = from + 4 * self.sequences as usize;
        self.idx[from..to].chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().expect("four bytes")).max(0) as u32)
    }

    /// Byte offset of a sequence in `.bin`.
    ///
    /// # Panics
    /// When `sequence` is not below [`IndexedDataset::len`].
    #[inline]
    pub fn pointer(&self, sequence: u64) -> i64 {
        assert!(sequence < self.sequences, "sequence {sequence} of {}", self.sequences);
        u64_at(&self.idx, (HEADER_BYTES + 4 * self.sequences + 8 * sequence) as usize) as i64
    }

    /// One entry of the document array.
    ///
    /// # Panics
    /// When `boundary` is not below [`IndexedDataset::document_boundaries`].
    pub fn document_boundary(&self, boundary: u64) -> i64 {
        assert!(boundary < self.document_boundaries, "boundary {boundary} of {}", self.document_boundaries);
        u64_at(&self.idx, (HEADER_BYTES + 12 * self.sequences + 8 * boundary) as usize) as i64
    }

    /// Mode of a sequence in a multimodal file.
    pub fn mode(&self, sequence: u64) -> Option<i8> {
        if !self.multimodal || sequence >= self.sequences {
            return None;
        }
        let from = HEADER_BYTES + 12 * self.sequences + 8 * self.document_boundaries;
        Some(self.idx[(from + sequence) as usize] as i8)
    }

    /// Walks all arrays and checks every rule of the format.
    ///
    /// # Errors
    /// Names the first rule that is broken and the entry that breaks it.
    pub fn validate(&self) -> Result<Validation> {
        const AGAIN: &str = "copy or prepare the file again";
        let bad = |path: &Path, rule, entry, expected: String, found: String| {
            Err(DataError::Invalid { path: path.to_path_buf(), rule, entry, expected, found, hint: AGAIN })
        };
        let item = self.token_type.bytes();
        let (mut bytes, mut empty) = (0u64, 0u64);
        for sequence in 0..self.sequences {
            let length = self.raw_length(sequence);
            if length < 0 {
                return bad(
                    &self.idx_path,
                    "a length is not negative",
                    Some(sequence),
                    "0 or more".into(),
                    length.to_string(),
                );
            }
            let pointer = self.pointer(sequence);
            if u64::try_from(pointer) != Ok(bytes) {
                return bad(
                    &self.idx_path,
                    "each offset is the sum of the lengths before it",
                    Some(sequence),
                    bytes.to_string(),
                    pointer.to_string(),
                );
            }
            empty += u64::from(length == 0);
            let Some(next) = bytes.checked_add(length as u64 * item) else {
                return bad(
                    &self.idx_path,
                    "offsets fit 64 bits",
                    Some(sequence),
                    "a sum below 2^64".into(),
                    "overflow".into(),
                );
            };
            bytes = next;
        }
        if bytes > self.bin_bytes() {
            return bad(
                &self.bin_path,
                "the token file covers its index",
                None,
                format!("{bytes} bytes"),
                format!("{} bytes", self.bin_bytes()),
            );
        }
        let mut previous = 0i64;
        for boundary in 0..self.document_boundaries {
            let value = self.document_boundary(boundary);
            let rule = if boundary == 0 { "document boundaries start with 0" } else { "document boundaries ascend" };
            if (boundary == 0 && value != 0) || value < previous {
                return bad(&self.idx_path, rule, Some(boundary), previous.to_string(), value.to_string());
            }
            previous = value;
        }
        if self.document_boundaries > 0 && u64::try_from(previous) != Ok(self.sequences) {
            return bad(
                &self.idx_path,
                "the last document boundary is the number of sequences",
                Some(self.document_boundaries - 1),
                self.sequences.to_string(),
                previous.to_string(),
            );
        }
        Ok(Validation {
            sequences: self.sequences,
            documents: self.document_boundaries.saturating_sub(1),
            tokens: bytes / item,
            empty_sequences: empty,
        })
    }

    /// Copies `out.len()` tokens of a sequence, from `offset` on, into `out`, widened to i32.
    ///
    /// # Errors
    /// Positions outside the sequence or the token file, and stored ids that do not fit 0 to 2^31 - 1.
    pub fn read_into(&self, sequence: u64, offset: u64, out: &mut [i32]) -> Result<()> {
        let bytes = self.token_bytes(sequence, offset, out.len() as u64)?;
        match self.token_type {
            TokenType::U8 => widen::<1, _>(bytes, out, |b| i32::from(b[0])),
            TokenType::I8 => widen::<1, _>(bytes, out, |b| i32::from(b[0] as i8)),
            TokenType::I16 => widen::<2, _>(bytes, out, |b| i32::from(i16::from_le_bytes(b))),
            TokenType::U16 => widen::<2, _>(bytes, out, |b| i32::from(u16::from_le_bytes(b))),
            TokenType::I32 => widen::<4, _>(bytes, out, i32::from_le_bytes),
            // -1 stands for everything out of range here; the check below names the stored value.
            TokenType::I64 => widen::<8, _>(bytes, out, |b| i32::try_from(i64::from_le_bytes(b)).unwrap_or(-1)),
        }
        // One reduction over the copied ids costs less than a branch per id.
        if out.iter().fold(0, |all, &id| all | id) < 0 {
            let position = out.iter().position(|&id| id < 0).unwrap_or(0);
            let id = match self.token_type {
                TokenType::I64 => i64::from_le_bytes(bytes[8 * position..8 * position + 8].try_into().expect("eight")),
                _ => i64::from(out[position]),
            };
            return Err(DataError::TokenRange {
                path: self.bin_path.clone(),
                sequence,
                position: offset + position as u64,
                id,
                vocab_size: 1 << 31,
            });
        }
        Ok(())
    }

    /// All tokens of a sequence.
    pub fn read(&self, sequence: u64) -> Result<Vec<i32>> {
        self.check_sequence(sequence)?;
        let length = u64::from(self.length(sequence));
        // Checks that the bytes exist before anything of that size is allocated.
        self.token_bytes(sequence, 0, length)?;
        let mut out = vec![0; length as usize];
        self.read_into(sequence, 0, &mut out)?;
        Ok(out)
    }

    fn check_sequence(&self, sequence: u64) -> Result<()> {
        if sequence < self.sequences {
            return Ok(());
        }
        Err(DataError::Invalid {
            path: self.idx_path.clone(),
            rule: "a sequence is named by its position",
            entry: Some(sequence),
            expected: format!("a position below {}", self.sequences),
            found: sequence.to_string(),
            hint: "indices built for another file do not fit this one: remove the index cache",
        })
    }

    fn token_bytes(&self, sequence: u64, offset: u64, count: u64) -> Result<&[u8]> {
        self.check_sequence(sequence)?;
        let length = u64::from(self.length(sequence));
        let item = self.token_type.bytes();
        if offset.checked_add(count).is_none_or(|end| end > length) {
            return Err(DataError::Invalid {
                path: self.idx_path.clone(),
                rule: "tokens are read inside their sequence",
                entry: Some(sequence),
                expected: format!("positions below {length}"),
                found: format!("{count} tokens from {offset}"),
                hint: "indices built for another file do not fit this one: remove the index cache",
            });
        }
        let bytes = self.bin.as_deref().unwrap_or_default();
        u64::try_from(self.pointer(sequence))
            .ok()
            .and_then(|p| p.checked_add(offset * item))
            .and_then(|from| Some((from, from.checked_add(count * item)?)))
            .filter(|&(_, to)| to <= bytes.len() as u64)
            .map(|(from, to)| &bytes[from as usize..to as usize])
            .ok_or_else(|| DataError::Invalid {
                path: self.bin_path.clone(),
                rule: "the token file covers its index",
                entry: Some(sequence),
                expected: format!("{count} tokens at byte {} + {}", self.pointer(sequence), offset * item),
                found: format!("{} bytes", bytes.len()),
                hint: "copy or prepare the file again",
            })
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[inline]
fn widen<const N: usize, F: Fn([u8; N]) -> i32>(bytes: &[u8], out: &mut [i32], decode: F) {
    for (to, from) in out.iter_mut().zip(bytes.chunks_exact(N)) {
        *to = decode(from.try_into().expect("chunk of N bytes"));
    }
}
