//! Packs in memory.

use std::sync::Arc;

use super::first_fit::Bins;
use super::prompt_completion::Example;
use crate::error::{DataError, Result};

/// Several whole examples in one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pack {
    /// Tokens of all examples.
    pub input_ids: Vec<i32>,
    /// Rolled left inside each example: entry j is 1 when token j + 1 of the example is trained; the last entry is 0.
    pub loss_mask: Vec<u8>,
    /// Where each example starts; the first at 0.
    pub seq_start_id: Vec<u32>,
}

impl Pack {
    /// Begin and end of each example.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let ends = self.seq_start_id.iter().skip(1).map(|&s| s as usize).chain(std::iter::once(self.input_ids.len()));
        self.seq_start_id.iter().zip(ends).map(|(&begin, end)| begin as usize..end)
    }

    /// Positions that it has when it runs: one less than stored for each example.
    pub fn runtime_length(&self) -> usize {
        self.input_ids.len().saturating_sub(self.seq_start_id.len())
    }

    /// Checks the rules of the format.
    ///
    /// # Errors
    /// Names the row and the first broken rule.
    pub fn check(&self, path: &std::path::Path, row: u64) -> Result<()> {
        let bad = |rule, expected: String, found: String| {
            Err(DataError::Invalid {
                path: path.to_path_buf(),
                rule,
                entry: Some(row),
                expected,
                found,
                hint: "pack the file again",
            })
        };
        if self.loss_mask.len() != self.input_ids.len() {
            return bad(
                "there is a mask entry for each token",
                self.input_ids.len().to_string(),
                self.loss_mask.len().to_string(),
            );
        }
        if self.seq_start_id.first() != Some(&0) {
            return bad("the first example starts at 0", "0".into(), format!("{:?}", self.seq_start_id.first()));
        }
        let ends = self.seq_start_id.iter().skip(1).copied().chain([self.input_ids.len() as u32]);
        if let Some((a, b)) = self.seq_start_id.iter().zip(ends).find(|(a, b)| *a >= b) {
            return bad("examples have at least one token", format!("an end after {a}"), b.to_string());
        }
        if let Some(m) = self.loss_mask.iter().find(|&&m| m > 1) {
            return bad("masks are 0 or 1", "0 or 1".into(), m.to_string());
        }
        if let Some(t) = self.input_ids.iter().find(|&&t| t < 0) {
            return bad("tokens are not negative", "0 or more".into(), t.to_string());
        }
        Ok(())
    }
}

/// Which of the two conventions a pack follows; decides how its capacity is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// Runtime lengths count ([`OfflinePacks`]).
    Offline,
    /// Stored lengths count ([`PreparedPacks`]).
    Prepared,
}

/// Packs that hold up to P runtime positions; P + examples stored tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfflinePacks(pub Vec<Pack>);

/// Packs that hold up to P stored tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedPacks(pub Vec<Pack>);

/// Random access to packs.
pub trait PackStore: Send + Sync {
    /// Number of packs.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One pack.
    fn pack(&self, index: u64) -> Result<Arc<Pack>>;

    /// The convention it was written in.
    fn convention(&self) -> Convention;

    /// Name for messages.
    fn name(&self) -> String;
}

/// A [`PackStore`] that has everything in memory.
pub struct MemoryPacks {
    packs: Vec<Arc<Pack>>,
    convention: Convention,
    name: String,
}

impl MemoryPacks {
    /// Of the offline convention.
    pub fn offline(packs: OfflinePacks, name: &str) -> MemoryPacks {
        MemoryPacks::of(packs.0, Convention::Offline, name)
    }

    /// Of the preparation's convention.
    pub fn prepared(packs: PreparedPacks, name: &str) -> MemoryPacks {
        MemoryPacks::of(packs.0, Convention::Prepared, name)
    }

    fn of(packs: Vec<Pack>, convention: Convention, name: &str) -> MemoryPacks {
        MemoryPacks { packs: packs.into_iter().map(Arc::new).collect(), convention, name: name.to_string() }
    }
}

impl PackStore for MemoryPacks {
    fn len(&self) -> u64 {
        self.packs.len() as u64
    }

    fn pack(&self, index: u64) -> Result<Arc<Pack>> {
        self.packs.get(index as usize).cloned().ok_or_else(|| DataError::Exhausted {
            what: self.name.clone(),
            consumed: index,
            available: self.len(),
        })
    }

    fn convention(&self) -> Convention {
        self.convention
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Puts examples together as the bins say. `limit` cuts each example (the data preparation clamps to the pack size).
pub fn pack_examples<'a>(bins: &Bins, limit: usize, example: impl Fn(u32) -> (&'a [i32], &'a [u8])) -> Vec<Pack> {
    let build = |bin: &[u32]| {
        let mut pack = Pack::default();
        for &item in bin {
            let (ids, mask) = example(item);
            let n = ids.len().min(limit);
            pack.seq_start_id.push(pack.input_ids.len() as u32);
            pack.input_ids.extend_from_slice(&ids[..n]);
            pack.loss_mask.extend_from_slice(&mask[..n][n.min(1)..]);
            pack.loss_mask.extend(std::iter::repeat_n(0, n.min(1)));
        }
        pack
    };
    bins.iter().map(build).collect()
}

impl Example {
    /// Pads with `eos` (mask 0) or cuts to `stored` tokens.
    pub fn resize(&mut self, stored: usize, eos: i32) {
        self.input_ids.resize(stored, eos);
        self.loss_mask.resize(stored, 0);
    }
}
