//! Streaming writer of `.bin`/`.idx` pairs, and the merge of several pairs into one.

use std::path::{Path, PathBuf};

use super::{HEADER_BYTES, IndexedDataset, MAGIC, TokenType, VERSION, bin_path, idx_path};
use crate::atomic::AtomicFile;
use crate::error::{DataError, Result};

/// Writes documents one after another. Memory: 4 bytes per sequence and 8 per document. Neither file exists under its
/// name before [`IndexedWriter::finish`], which puts the index last: an index without its tokens cannot appear.
pub struct IndexedWriter {
    prefix: PathBuf,
    bin: AtomicFile,
    token_type: TokenType,
    lengths: Vec<i32>,
    boundaries: Vec<i64>,
    modes: Option<Vec<i8>>,
    tokens: u64,
    scratch: Vec<u8>,
}

/// What [`IndexedWriter::finish`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedFiles {
    /// The prefix of both files.
    pub prefix: PathBuf,
    /// Sequences.
    pub sequences: u64,
    /// Documents.
    pub documents: u64,
    /// Tokens.
    pub tokens: u64,
    /// Bytes of `.bin`.
    pub bin_bytes: u64,
    /// Bytes of `.idx`.
    pub idx_bytes: u64,
    /// xxHash64 of `.bin`.
    pub bin_xxh64: u64,
    /// xxHash64 of `.idx`.
    pub idx_xxh64: u64,
}

impl IndexedWriter {
    /// Starts a pair; the directory is made when missing.
    pub fn create(prefix: impl AsRef<Path>, token_type: TokenType) -> Result<IndexedWriter> {
        let prefix = prefix.as_ref();
        Ok(IndexedWriter {
            prefix: prefix.to_path_buf(),
            bin: AtomicFile::create(&bin_path(prefix))?,
            token_type,
            lengths: Vec::new(),
            boundaries: vec![0],
            modes: None,
            tokens: 0,
            scratch: Vec::new(),
        })
    }

    /// Starts a multimodal pair: every sequence has a mode (0 unless given by [`IndexedWriter::add_sequence_with_mode`]).
    pub fn create_multimodal(prefix: impl AsRef<Path>, token_type: TokenType) -> Result<IndexedWriter> {
        let mut writer = IndexedWriter::create(prefix, token_type)?;
        writer.modes = Some(Vec::new());
        Ok(writer)
    }

    /// Appends a sequence to the open document.
    ///
    /// # Errors
    /// An id that is negative or does not fit the type, more than 2^31 - 1 tokens, a failing disk.
    pub fn add_sequence<T: Copy + Into<i64>>(&mut self, tokens: &[T]) -> Result<()> {
        let Ok(length) = i32::try_from(tokens.len()) else {
            return Err(DataError::Invalid {
                path: self.bin.target().to_path_buf(),
                rule: "a sequence has at most 2^31 - 1 tokens",
                entry: Some(self.lengths.len() as u64),
                expected: i32::MAX.to_string(),
                found: tokens.len().to_string(),
                hint: "cut the document",
            });
        };
        let largest = self.token_type.largest();
        if let Some(position) = tokens.iter().position(|&t| !(0..=largest).contains(&t.into())) {
            return Err(DataError::TokenRange {
                path: self.bin.target().to_path_buf(),
                sequence: self.lengths.len() as u64,
                position: position as u64,
                id: tokens[position].into(),
                vocab_size: largest as u64 + 1,
            });
        }
        self.scratch.clear();
        let bytes = &mut self.scratch;
        match self.token_type {
            TokenType::U8 | TokenType::I8 => bytes.extend(tokens.iter().map(|&t| t.into() as u8)),
            TokenType::I16 | TokenType::U16 => {
                bytes.extend(tokens.iter().flat_map(|&t| (t.into() as u16).to_le_bytes()));
            }
            TokenType::I32 => bytes.extend(tokens.iter().flat_map(|&t| (t.into() as i32).to_le_bytes())),
            TokenType::I64 => bytes.extend(tokens.iter().flat_map(|&t| t.into().to_le_bytes())),
        }
        self.bin.put(&self.scratch)?;
        self.tokens += tokens.len() as u64;
        self.lengths.push(length);
        if let Some(modes) = &mut self.modes {
            modes.push(0);
        }
        Ok(())
    }

    /// Appends a sequence with a mode. The first call makes the file multimodal only if it was created so.
    pub fn add_sequence_with_mode<T: Copy + Into<i64>>(&mut self, tokens: &[T], mode: i8) -> Result<()> {
        if self.modes.is_none() {
            return Err(DataError::Setting {
                name: "mode",
                expected: "a writer made by `create_multimodal`".into(),
                found: "a plain token file".into(),
                hint: "create the pair as multimodal",
            });
        }
        self.add_sequence(tokens)?;
        if let Some(last) = self.modes.as_mut().and_then(|m| m.last_mut()) {
            *last = mode;
        }
        Ok(())
    }

    /// Closes the open document; without sequences since the last call it is an empty document.
    pub fn end_document(&mut self) {
        self.boundaries.push(self.lengths.len() as i64);
    }

    /// Appends a document of one sequence.
    pub fn add_document<T: Copy + Into<i64>>(&mut self, tokens: &[T]) -> Result<()> {
        self.add_sequence(tokens)?;
        self.end_document();
        Ok(())
    }

    /// Appends everything of another pair. Its `.bin` is copied as bytes.
    ///
    /// # Errors
    /// A pair of another token type, or one that breaks a rule of the format.
    pub fn add_pair(&mut self, other: &IndexedDataset) -> Result<()> {
        if other.token_type() != self.token_type || other.is_multimodal() != self.modes.is_some() {
            let describe = |t: TokenType, m: bool| format!("{}{}", t.name(), if m { ", multimodal" } else { "" });
            return Err(DataError::Invalid {
                path: other.idx_path().to_path_buf(),
                rule: "merged files hold the same type",
                entry: None,
                expected: describe(self.token_type, self.modes.is_some()),
                found: describe(other.token_type(), other.is_multimodal()),
                hint: "prepare the files with one type",
            });
        }
        let checked = other.validate()?;
        let before = self.lengths.len() as i64;
        self.lengths.extend(other.lengths().map(|n| n as i32));
        self.boundaries.extend((1..other.document_boundaries()).map(|b| before + other.document_boundary(b)));
        if let Some(modes) = &mut self.modes {
            modes.extend((0..other.len()).filter_map(|s| other.mode(s)));
        }
        self.tokens += checked.tokens;
        let mut source =
            std::fs::File::open(other.bin_path()).map_err(|e| DataError::io("open", other.bin_path(), e))?;
        // Bytes behind the last sequence belong to nobody and are not copied.
        let used = checked.tokens * self.token_type.bytes();
        let copied = std::io::copy(&mut std::io::Read::take(&mut source, used), &mut self.bin)
            .map_err(|e| DataError::io("write", self.bin.target(), e))?;
        if copied != used {
            return Err(DataError::Invalid {
                path: other.bin_path().to_path_buf(),
                rule: "the token file covers its index",
                entry: None,
                expected: format!("{used} bytes"),
                found: format!("{copied} bytes"),
                hint: "copy or prepare the file again",
            });
        }
        Ok(())
    }

    /// Tokens so far.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Sequences so far.
    pub fn sequences(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// Writes the index and gives both files their names.
    pub fn finish(self) -> Result<FinishedFiles> {
        let item = self.token_type.bytes();
        let mut idx = AtomicFile::create(&idx_path(&self.prefix))?;
        idx.put(&MAGIC)?;
        idx.put(&VERSION.to_le_bytes())?;
        idx.put(&[self.token_type.code()])?;
        idx.put(&(self.lengths.len() as u64).to_le_bytes())?;
        idx.put(&(self.boundaries.len() as u64).to_le_bytes())?;
        for length in &self.lengths {
            idx.put(&length.to_le_bytes())?;
        }
        for pointer in pointers(self.lengths.iter().map(|&n| n as u64), item) {
            idx.put(&pointer.ok_or_else(|| offsets_overflow(&self.prefix))?.to_le_bytes())?;
        }
        for boundary in &self.boundaries {
            idx.put(&boundary.to_le_bytes())?;
        }
        let mode_bytes = match &self.modes {
            Some(modes) => {
                idx.put(&modes.iter().map(|&m| m as u8).collect::<Vec<u8>>())?;
                modes.len() as u64
            }
            None => 0,
        };
        let (sequences, boundaries) = (self.lengths.len() as u64, self.boundaries.len() as u64);
        let (bin_xxh64, idx_xxh64) = (self.bin.xxh64(), idx.xxh64());
        self.bin.commit()?;
        idx.commit()?;
        Ok(FinishedFiles {
            prefix: self.prefix,
            sequences,
            documents: boundaries - 1,
            tokens: self.tokens,
            bin_bytes: self.tokens * item,
            idx_bytes: HEADER_BYTES + 12 * sequences + 8 * boundaries + mode_bytes,
            bin_xxh64,
            idx_xxh64,
        })
    }
}

/// Byte offsets of sequences: the exclusive prefix sum of length times item size; `None` once it passes 2^63 - 1.
pub(crate) fn pointers(lengths: impl Iterator<Item = u64>, item: u64) -> impl Iterator<Item = Option<i64>> {
    lengths.scan(Some(0u64), move |next, length| {
        let at = *next;
        *next = at.and_then(|n| n.checked_add(length.checked_mul(item)?));
        Some(at.and_then(|n| i64::try_from(n).ok()))
    })
}

fn offsets_overflow(prefix: &Path) -> DataError {
    DataError::Invalid {
        path: idx_path(prefix),
        rule: "offsets fit 63 bits",
        entry: None,
        expected: "a sum below 2^63".into(),
        found: "overflow".into(),
        hint: "write several files",
    }
}

/// Merges pairs into `<target>.bin`/`.idx`, in the order given.
///
/// # Errors
/// No sources, sources of different types, a source that breaks a rule of the format.
pub fn merge(target: impl AsRef<Path>, sources: &[IndexedDataset]) -> Result<FinishedFiles> {
    let Some(first) = sources.first() else {
        return Err(DataError::Setting {
            name: "merge",
            expected: "at least one source".into(),
            found: "none".into(),
            hint: "name the prefixes to merge",
        });
    };
    let target = target.as_ref();
    let mut writer = if first.is_multimodal() {
        IndexedWriter::create_multimodal(target, first.token_type())?
    } else {
        IndexedWriter::create(target, first.token_type())?
    };
    for source in sources {
        writer.add_pair(source)?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::pointers;

    // Pitfall B16: a running offset kept in 32 bits breaks past 2^31 bytes.
    #[test]
    fn b16_offsets_beyond_2_pow_31_and_2_pow_32() {
        let lengths = [i32::MAX as u64, i32::MAX as u64, 3, i32::MAX as u64];
        let got: Vec<Option<i64>> = pointers(lengths.into_iter(), 4).collect();
        assert_eq!(got, [Some(0), Some(8_589_934_588), Some(17_179_869_176), Some(17_179_869_188)]);
        let huge: Vec<_> = pointers([u64::MAX / 4, 1, 1].into_iter(), 8).collect();
        assert_eq!(huge, [Some(0), None, None]);
    }
}
