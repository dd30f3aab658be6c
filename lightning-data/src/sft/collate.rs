//! From packs to the rows of a batch.
//!
//! Each example [a, b) gives tokens a..b-1, labels a+1..b and its stored mask a..b-1, which already speaks of the labels.
//! *Physical* offsets say where examples lie, padding included; *logical* ones count up to the last token that is not EOS.
//! A final tail from the last example to the row's end is a document of its own.

use super::{Pack, PackMetadata};
use crate::batch::Batch;
use crate::error::{DataError, Result};

/// Settings of the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollateSettings {
    /// Positions of a full row, P.
    pub pack_size: u32,
    /// Lengths of examples were padded to this multiple; 1 for none.
    pub pad_seq_to_mult: u32,
    /// The tokenizer's EOS: pads tokens and labels.
    pub eos: i32,
    /// Every row has P positions; otherwise rows are as long as the longest that the rank holds for the step, up to a
    /// multiple of 16.
    pub pad_to_max_length: bool,
    /// Give the offsets a fixed number of entries (needs `pad_to_max_length`): that of the packing, most examples + 2.
    pub pad_cu_seqlens: Option<PackMetadata>,
}

/// Makes rows.
#[derive(Clone, Debug)]
pub struct Collator {
    settings: CollateSettings,
}

impl Collator {
    /// Checks the settings.
    pub fn new(settings: CollateSettings) -> Result<Collator> {
        let bad = |name, expected: &str, found: String, hint| DataError::Setting {
            name,
            expected: expected.to_string(),
            found,
            hint,
        };
        if settings.pack_size == 0 || settings.pad_seq_to_mult == 0 {
            return Err(bad(
                "pack_size",
                "a pack size and a multiple of at least 1",
                format!("{} and {}", settings.pack_size, settings.pad_seq_to_mult),
                "raise them",
            ));
        }
        if settings.pad_cu_seqlens.is_some() && !settings.pad_to_max_length {
            return Err(bad(
                "pad_cu_seqlens",
                "pad_to_max_length=true beside it",
                "false".into(),
                "set dataset.pad_to_max_length=true",
            ));
        }
        Ok(Collator { settings })
    }

    /// Settings.
    pub fn settings(&self) -> &CollateSettings {
        &self.settings
    }

    /// Length of the rows of a rank whose longest pack of the step has `longest` positions.
    pub fn row_length(&self, longest: usize) -> usize {
        let p = self.settings.pack_size as usize;
        if self.settings.pad_to_max_length { p } else { p.min(longest.div_ceil(16) * 16) }
    }

    /// Fills `out` with rows of `row_length` positions. Filler rows (`true`) show their pack with a mask of zeros.
    ///
    /// # Errors
    /// A pack longer than the row, more examples than the fixed number of offsets allows.
    pub fn fill(&self, rows: &[(&Pack, bool)], row_length: usize, out: &mut Batch) -> Result<()> {
        out.reset(rows.len(), row_length, false, false);
        out.tokens.fill(self.settings.eos);
        out.labels.fill(self.settings.eos);
        out.padding_mask.fill(true);
        for (row, &(pack, filler)) in rows.iter().enumerate() {
            self.row(row, pack, filler, out)?;
        }
        out.documents.max_length = match self.settings.pad_cu_seqlens {
            Some(m) => m.dataset_max_seqlen.max(self.settings.pack_size.saturating_sub(m.min_packed_seqlen)) as i32,
            None => out.documents.physical.longest(),
        };
        out.count();
        out.accounting.filler_rows = rows.iter().filter(|r| r.1).count() as u64;
        out.accounting.tokens_by_source.clear();
        out.accounting.tokens_by_source.push(out.accounting.real_tokens);
        Ok(())
    }

    fn row(&self, row: usize, pack: &Pack, filler: bool, out: &mut Batch) -> Result<()> {
        let too_big = |what: &'static str, expected: usize, found: usize| DataError::Setting {
            name: what,
            expected: format!("packs of at most {expected}"),
            found: found.to_string(),
            hint: "use the pack size (and the metadata) that the file was packed with",
        };
        let length = out.seq_length;
        if pack.runtime_length() > length {
            return Err(too_big("pack_size", length, pack.runtime_length()));
        }
        let origin = row * length;
        let (physical, logical) = (&mut out.documents.physical.0, &mut out.documents.logical.0);
        let first_entry = physical.len();
        let mut at = origin;
        let mut real = logical.last().copied().unwrap_or(0);
        for range in pack.ranges() {
            let n = range.len() - 1;
            let ids = &pack.input_ids[range.clone()];
            out.tokens[at..at + n].copy_from_slice(&ids[..n]);
            out.labels[at..at + n].copy_from_slice(&ids[1..]);
            if !filler {
                for (to, &m) in out.loss_mask[at..at + n].iter_mut().zip(&pack.loss_mask[range.start..]) {
                    *to = f32::from(m);
                }
            }
            let kept = if self.settings.pad_seq_to_mult > 1 {
                ids[..n].iter().rposition(|&t| t != self.settings.eos).map_or(0, |last| last + 1)
            } else {
                n
            };
            out.padding_mask[at..at + kept].fill(false);
            at += n;
            real += kept as i32;
            physical.push(at as i32);
            logical.push(real);
        }
        if at < origin + length {
            physical.push((origin + length) as i32);
            logical.push(real);
        }
        if let Some(m) = self.settings.pad_cu_seqlens {
            // Ghost documents of no tokens up to a fixed number: most examples of a pack, and the tail.
            let entries = m.max_samples_per_bin as usize + 1;
            if physical.len() - first_entry > entries {
                return Err(too_big("max_samples_per_bin", entries - 1, physical.len() - first_entry - 1));
            }
            physical.resize(first_entry + entries, (origin + length) as i32);
            logical.resize(first_entry + entries, real);
        }
        Ok(())
    }
}
