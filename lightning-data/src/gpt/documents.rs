//! Where documents come from: a token file, or the mock stream of benchmarks.

use std::path::Path;

use crate::error::{DataError, Result};
use crate::indexed::IndexedDataset;
use crate::rng::Pcg64;

/// Documents that can be read in pieces. Implementations are shared between threads.
pub trait Documents: Send + Sync {
    /// Number of documents.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of a document. `document` is below [`Documents::len`].
    fn length(&self, document: u64) -> u32;

    /// All lengths, in order.
    fn lengths(&self) -> Vec<u32> {
        (0..self.len()).map(|d| self.length(d)).collect()
    }

    /// Copies `out.len()` tokens of a document from `offset` on.
    fn read_into(&self, document: u64, offset: u64, out: &mut [i32]) -> Result<()>;

    /// Name for messages: the prefix of a token file.
    fn name(&self) -> String;

    /// The file to name when a token is wrong.
    fn token_path(&self) -> &Path {
        Path::new("(generated)")
    }
}

impl Documents for IndexedDataset {
    fn len(&self) -> u64 {
        IndexedDataset::len(self)
    }

    fn length(&self, document: u64) -> u32 {
        IndexedDataset::length(self, document)
    }

    fn lengths(&self) -> Vec<u32> {
        IndexedDataset::lengths(self).collect()
    }

    fn read_into(&self, document: u64, offset: u64, out: &mut [i32]) -> Result<()> {
        IndexedDataset::read_into(self, document, offset, out)
    }

    fn name(&self) -> String {
        self.prefix().display().to_string()
    }

    fn token_path(&self) -> &Path {
        self.bin_path()
    }
}

/// The mock dataset of benchmarks: document i is 1, 2, 3, ... (modulo the vocabulary), then the end of document.
pub struct MockDocuments {
    lengths: Vec<u32>,
    vocab_size: u32,
    eod: i32,
}

impl MockDocuments {
    /// Documents of the public mock dataset.
    pub const COUNT: usize = 100_000;

    /// The public mock dataset: 100,000 documents with lengths from `default_rng(0).integers(1, 4096)`.
    pub fn new(vocab_size: u32, eod: i32) -> MockDocuments {
        let mut rng = Pcg64::from_seed(0);
        let lengths = (0..MockDocuments::COUNT).map(|_| rng.integer(1, 4096) as u32).collect();
        MockDocuments { lengths, vocab_size: vocab_size.max(1), eod }
    }
}

impl Documents for MockDocuments {
    fn len(&self) -> u64 {
        self.lengths.len() as u64
    }

    fn length(&self, document: u64) -> u32 {
        self.lengths[document as usize]
    }

    fn lengths(&self) -> Vec<u32> {
        self.lengths.clone()
    }

    fn read_into(&self, document: u64, offset: u64, out: &mut [i32]) -> Result<()> {
        let length = u64::from(self.lengths.get(document as usize).copied().unwrap_or(0));
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > length) {
            return Err(DataError::Invalid {
                path: self.token_path().to_path_buf(),
                rule: "tokens are read inside their document",
                entry: Some(document),
                expected: format!("positions below {length}"),
                found: format!("{} tokens from {offset}", out.len()),
                hint: "build the indices again",
            });
        }
        for (at, id) in (offset..).zip(out.iter_mut()) {
            *id = if at + 1 == length { self.eod } else { ((at + 1) % u64::from(self.vocab_size)) as i32 };
        }
        Ok(())
    }

    fn name(&self) -> String {
        "mock data".into()
    }
}
