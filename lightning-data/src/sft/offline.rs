//! Offline packing of prompt-completion examples: runtime lengths, NumPy's generator.
//!
//! An example of n stored tokens runs as n - 1 positions. Packs hold up to P positions. All draws come from one generator:
//! first the shuffle of the lengths, then, length by length, the order in which rows of that length are handed out.

use serde::{Deserialize, Serialize};

use super::first_fit::{Bins, first_fit};
use super::packers::{Algorithm, round2};
use crate::error::{DataError, Result};
use crate::rng::Mt19937;

/// What the metadata file says about a split; all lengths are runtime lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackMetadata {
    /// Longest example.
    pub dataset_max_seqlen: u32,
    /// Most examples in one pack.
    pub max_samples_per_bin: u32,
    /// Examples per pack.
    pub packing_factor: f64,
    /// Share of the room that is used, in percent.
    pub packing_efficiency: f64,
    /// Room of a pack.
    pub pack_size: u32,
    /// Smallest sum of lengths of a pack.
    pub min_packed_seqlen: u32,
}

/// Which rows go into which pack.
#[derive(Clone, Debug, PartialEq)]
pub struct OfflinePlan {
    /// Rows by pack.
    pub packs: Bins,
    /// Numbers for the metadata file.
    pub metadata: PackMetadata,
    /// Rows longer than a pack, left out.
    pub skipped: u64,
}

/// Step 2 of the packing, for multiples above 1: the stored length that a row of `stored` tokens is padded (or cut) to, so
/// that its runtime length is a multiple of `multiple` and at most `pack_size`.
pub fn pad_to_multiple(stored: usize, pack_size: usize, multiple: usize) -> usize {
    if multiple <= 1 {
        return stored;
    }
    let runtime = stored.saturating_sub(1);
    (pack_size / multiple * multiple).min(runtime.div_ceil(multiple) * multiple) + 1
}

/// Plans packs for rows of these stored lengths (after [`pad_to_multiple`]).
///
/// # Errors
/// Rows of fewer than 2 tokens, nothing to pack, the concatenative algorithm (it belongs to the data preparation).
pub fn plan_offline(stored: &[u32], pack_size: u32, algorithm: Algorithm, seed: u32) -> Result<OfflinePlan> {
    let setting = |name, expected: &str, found: String, hint| DataError::Setting {
        name,
        expected: expected.to_string(),
        found,
        hint,
    };
    if let Some(row) = stored.iter().position(|&n| n < 2) {
        return Err(setting(
            "rows",
            "at least 2 tokens in each row",
            format!("{} in row {row}", stored[row]),
            "remove the row",
        ));
    }
    // Rows by runtime length, in file order: a counting sort.
    let room = pack_size as usize;
    let mut first = vec![0usize; room + 2];
    for &n in stored.iter().filter(|&&n| n - 1 <= pack_size) {
        first[n as usize] += 1;
    }
    for length in 0..=room {
        first[length + 1] += first[length];
    }
    let placed = first[room + 1];
    let mut next = first.clone();
    let mut rows = vec![0u32; placed];
    for (row, &n) in stored.iter().enumerate().filter(|&(_, &n)| n - 1 <= pack_size) {
        rows[next[n as usize - 1]] = row as u32;
        next[n as usize - 1] += 1;
    }
    if placed == 0 {
        return Err(setting(
            "rows",
            "at least one row that fits a pack",
            format!("{} rows, none up to {pack_size} tokens", stored.len()),
            "raise the pack size or check the file",
        ));
    }
    let mut lengths: Vec<u32> =
        (0..=pack_size).flat_map(|n| std::iter::repeat_n(n, first[n as usize + 1] - first[n as usize])).collect();
    let mut rng = Mt19937::from_seed(seed);
    match algorithm {
        Algorithm::FirstFitShuffle => rng.shuffle_numpy(&mut lengths),
        Algorithm::FirstFitDecreasing => lengths.reverse(),
        Algorithm::Concatenative => {
            return Err(setting(
                "algorithm",
                "first_fit_shuffle or first_fit_decreasing for offline packing",
                algorithm.to_string(),
                "choose one of these",
            ));
        }
    }
    let (assigned, count) = first_fit(lengths.iter().copied(), pack_size);
    // Bins of lengths first; rows are then handed out bin by bin, from the end of each length's permuted list.
    let mut packs = Bins::group(&assigned, lengths.iter().copied(), count);
    let metadata = metadata(&packs, pack_size, placed);
    for length in 0..=room {
        let of_length = &mut rows[first[length]..first[length + 1]];
        if !of_length.is_empty() {
            let order = rng.permutation_numpy(of_length.len());
            let permuted: Vec<u32> = order.iter().map(|&i| of_length[i as usize]).collect();
            of_length.copy_from_slice(&permuted);
        }
    }
    let mut left: Vec<usize> = first[1..].to_vec();
    for item in &mut packs.items {
        let length = *item as usize;
        left[length] -= 1;
        *item = rows[left[length]];
    }
    Ok(OfflinePlan { packs, metadata, skipped: (stored.len() - placed) as u64 })
}

fn metadata(lengths: &Bins, pack_size: u32, placed: usize) -> PackMetadata {
    let sums = lengths.iter().map(|b| b.iter().sum::<u32>());
    let used: u64 = lengths.items.iter().map(|&n| u64::from(n)).sum();
    PackMetadata {
        dataset_max_seqlen: lengths.items.iter().copied().max().unwrap_or(0),
        max_samples_per_bin: lengths.iter().map(<[u32]>::len).max().unwrap_or(0) as u32,
        packing_factor: round2(placed as f64 / lengths.len() as f64),
        packing_efficiency: round2(used as f64 / (lengths.len() as f64 * f64::from(pack_size)) * 100.0),
        pack_size,
        min_packed_seqlen: sums.min().unwrap_or(0),
    }
}
