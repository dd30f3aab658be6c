//! Context parallelism: which positions of a batch a rank holds, and where its MTP targets are.
//!
//! A document of n positions (n a multiple of 2 C) is cut into 2 C chunks; rank c holds chunks c and 2 C - 1 - c, so that
//! causal attention costs every rank the same. Documents follow one another in each rank's slice. The rule goes by
//! *physical* offsets and serves every per-position array, rotary tables included.

use crate::batch::{Batch, LogicalOffsets, PackedDocuments, PhysicalOffsets};
use crate::error::{DataError, Result};

/// The positions that each rank holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZigzagMap {
    /// Position in the whole batch of each local position.
    global: Vec<u32>,
    /// Offsets of the documents in the local slice.
    local_offsets: PhysicalOffsets,
}

impl ZigzagMap {
    /// The slice of rank `cp_rank` of `cp_size`.
    ///
    /// # Errors
    /// A rank outside the group, a document whose length is not a multiple of 2 `cp_size`.
    pub fn new(offsets: &PhysicalOffsets, cp_size: usize, cp_rank: usize) -> Result<ZigzagMap> {
        if cp_rank >= cp_size {
            return Err(DataError::Setting {
                name: "cp_rank",
                expected: format!("a rank below {cp_size}"),
                found: cp_rank.to_string(),
                hint: "ask with the rank inside the context-parallel group",
            });
        }
        let mut map = ZigzagMap { global: Vec::new(), local_offsets: PhysicalOffsets(vec![0]) };
        for (document, range) in offsets.ranges().enumerate() {
            if cp_size > 1 && !range.len().is_multiple_of(2 * cp_size) {
                return Err(DataError::Setting {
                    name: "pad_seq_to_mult",
                    expected: format!("document lengths that are multiples of {} (2 x context parallel)", 2 * cp_size),
                    found: format!("{} positions in document {document}", range.len()),
                    hint: "pack with pad_seq_to_mult set to that multiple, and a sequence length that is one too",
                });
            }
            let chunk = range.len() / (2 * cp_size);
            if cp_size == 1 {
                map.global.extend(range.map(|p| p as u32));
            } else {
                for c in [cp_rank, 2 * cp_size - 1 - cp_rank] {
                    let start = range.start + c * chunk;
                    map.global.extend((start..start + chunk).map(|p| p as u32));
                }
            }
            map.local_offsets.0.push(map.global.len() as i32);
        }
        Ok(map)
    }

    /// Position in the whole batch of each local position.
    pub fn global(&self) -> &[u32] {
        &self.global
    }

    /// Offsets of the documents in the local slice.
    pub fn local_offsets(&self) -> &PhysicalOffsets {
        &self.local_offsets
    }

    /// The local part of an array over the whole batch.
    pub fn slice<T: Copy>(&self, whole: &[T]) -> Vec<T> {
        self.global.iter().map(|&g| whole[g as usize]).collect()
    }
}

impl Batch {
    /// What rank `cp_rank` of `cp_size` holds of this batch. `positions` say where in its row (or, where they restart, in
    /// its document) each token stood; counts are those of the slice, by source those of the whole batch.
    ///
    /// # Errors
    /// As [`ZigzagMap::new`].
    pub fn context_slice(&self, cp_size: usize, cp_rank: usize) -> Result<Batch> {
        let map = ZigzagMap::new(&self.documents.physical, cp_size, cp_rank)?;
        let padding_mask = map.slice(&self.padding_mask);
        let mut logical = vec![0];
        for range in map.local_offsets.ranges() {
            let real = padding_mask[range].iter().filter(|&&p| !p).count() as i32;
            logical.push(logical[logical.len() - 1] + real);
        }
        let positions = match &self.positions {
            Some(positions) => map.slice(positions),
            None => map.global.iter().map(|&g| (g as usize % self.seq_length) as i32).collect(),
        };
        let mut slice = Batch {
            rows: self.rows,
            seq_length: self.seq_length / cp_size,
            tokens: map.slice(&self.tokens),
            labels: map.slice(&self.labels),
            loss_mask: map.slice(&self.loss_mask),
            padding_mask,
            documents: PackedDocuments {
                max_length: self.documents.max_length / cp_size as i32,
                physical: map.local_offsets.clone(),
                logical: LogicalOffsets(logical),
            },
            positions: Some(positions),
            attention_segments: self.attention_segments.as_ref().map(|s| map.slice(s)),
            accounting: self.accounting.clone(),
        };
        slice.count();
        Ok(slice)
    }
}

/// Targets of one MTP depth: the labels and mask that position i + depth of the same document has, in the whole batch.
/// Past a document's physical end there is no target: label 0, mask 0.
#[derive(Clone, Debug, PartialEq)]
pub struct MtpTargets {
    /// Ids to predict.
    pub labels: Vec<i32>,
    /// 1 where they count. The same mask object as the main loss, shifted.
    pub loss_mask: Vec<f32>,
    /// Input ids of the depth: token i + depth.
    pub tokens: Vec<i32>,
}

impl MtpTargets {
    /// Shifts the whole batch first; slice the result with a [`ZigzagMap`] afterwards. (Shifting slices loses the tokens at
    /// their borders.)
    pub fn new(batch: &Batch, depth: usize) -> MtpTargets {
        let map = batch.mtp_shift_map(depth);
        let pick = |whole: &[i32]| map.iter().map(|m| m.map_or(0, |g| whole[g as usize])).collect();
        MtpTargets {
            labels: pick(&batch.labels),
            tokens: pick(&batch.tokens),
            loss_mask: map.iter().map(|m| m.map_or(0.0, |g| batch.loss_mask[g as usize])).collect(),
        }
    }
}
