//! The packers of the data preparation: stored lengths, Python's shuffle.

use std::fmt;

use super::first_fit::{Bins, first_fit};
use crate::error::{DataError, Result};
use crate::rng::shuffle_python;

/// How examples are put into packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Shuffle, then first-fit.
    FirstFitShuffle,
    /// Longest first, then first-fit.
    FirstFitDecreasing,
    /// In order; a pack is closed when the next example does not fit.
    Concatenative,
}

impl Algorithm {
    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::FirstFitShuffle => "first_fit_shuffle",
            Algorithm::FirstFitDecreasing => "first_fit_decreasing",
            Algorithm::Concatenative => "concatenative",
        }
    }

    /// The algorithm of a name.
    pub fn from_name(name: &str) -> Result<Algorithm> {
        [Algorithm::FirstFitShuffle, Algorithm::FirstFitDecreasing, Algorithm::Concatenative]
            .into_iter()
            .find(|a| a.name() == name)
            .ok_or_else(|| DataError::Setting {
                name: "algorithm",
                expected: "first_fit_shuffle, first_fit_decreasing or concatenative".into(),
                found: format!("{name:?}"),
                hint: "choose one of these",
            })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Numbers of a packing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PackStatistics {
    /// Examples packed.
    pub sequences: u64,
    /// Packs.
    pub packs: u64,
    /// Tokens after cutting to the pack size.
    pub tokens: u64,
    /// Examples that were cut to the pack size.
    pub truncated: u64,
}

impl PackStatistics {
    /// Examples per pack, rounded to two digits.
    pub fn packing_factor(&self) -> f64 {
        if self.packs == 0 { 0.0 } else { round2(self.sequences as f64 / self.packs as f64) }
    }

    /// Share of the packs' room that is used, in percent, rounded to one digit.
    pub fn packing_efficiency(&self, pack_size: u32) -> f64 {
        if self.packs == 0 {
            return 0.0;
        }
        let share = self.tokens as f64 / (self.packs as f64 * f64::from(pack_size)) * 100.0;
        format!("{share:.1}").parse().unwrap_or(share)
    }
}

/// Python's `round(x, 2)`: exact decimal expansion, ties to even.
pub(super) fn round2(x: f64) -> f64 {
    format!("{x:.2}").parse().unwrap_or(x)
}

/// Packs examples of these stored lengths; items of the bins are positions in `lengths`.
///
/// # Errors
/// A pack size of 0, 2^32 - 1 examples or more.
pub fn plan_prepared(
    lengths: &[u32],
    pack_size: u32,
    algorithm: Algorithm,
    seed: u64,
) -> Result<(Bins, PackStatistics)> {
    if pack_size == 0 || lengths.len() >= u32::MAX as usize {
        return Err(DataError::Setting {
            name: "pack_size",
            expected: "at least 1, and fewer than 2^32 - 1 examples".into(),
            found: format!("{pack_size} for {} examples", lengths.len()),
            hint: "raise the pack size, or use more shards",
        });
    }
    let mut order: Vec<u32> = (0..lengths.len() as u32).collect();
    let length = |&i: &u32| lengths[i as usize].min(pack_size);
    let (assigned, packs) = match algorithm {
        Algorithm::FirstFitShuffle => {
            shuffle_python(seed, &mut order);
            first_fit(order.iter().map(length), pack_size)
        }
        Algorithm::FirstFitDecreasing => {
            // By the lengths before clamping, as the reference sorts.
            order.sort_by_key(|&i| std::cmp::Reverse(lengths[i as usize]));
            first_fit(order.iter().map(length), pack_size)
        }
        Algorithm::Concatenative => {
            let (mut pack, mut used, mut any) = (0u32, 0u64, false);
            let assigned: Vec<u32> = order
                .iter()
                .map(|i| {
                    let n = u64::from(length(i));
                    if any && used + n > u64::from(pack_size) {
                        pack += 1;
                        used = 0;
                    }
                    any = true;
                    used += n;
                    pack
                })
                .collect();
            (assigned, if any { pack as usize + 1 } else { 0 })
        }
    };
    let bins = Bins::group(&assigned, order.iter().copied(), packs);
    let statistics = PackStatistics {
        sequences: lengths.len() as u64,
        packs: packs as u64,
        tokens: order.iter().map(|i| u64::from(length(i))).sum(),
        truncated: lengths.iter().filter(|&&n| n > pack_size).count() as u64,
    };
    Ok((bins, statistics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_pythons() {
        for (x, want) in [(0.125, 0.12), (0.375, 0.38), (2.675, 2.67), (1.005, 1.0), (93.185, 93.19)] {
            assert_eq!(round2(x), want, "{x}");
        }
    }
}
