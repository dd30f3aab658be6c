//! The greedy picker: which source gives sample s, and which of its samples.

use crate::error::{DataError, Result};
use crate::npy::Array;

/// Picks of a whole blend.
pub struct Picks {
    /// Source of each sample.
    pub source: Array<i16>,
    /// Sample of that source.
    pub sample: Array<i64>,
}

/// Index of the first largest value of `weights * s - taken`. Two passes, so that the first one runs in vector registers
/// also for hundreds of sources; both compute the same products, so the second finds what the first saw.
#[inline]
fn most_behind(weights: &[f64], taken: &[f64], s: f64) -> usize {
    let n = weights.len();
    let taken = &taken[..n];
    if n < 8 {
        let (mut best, mut largest) = (0, f64::MIN);
        for i in 0..n {
            let behind = weights[i] * s - taken[i];
            if behind > largest {
                (best, largest) = (i, behind);
            }
        }
        return best;
    }
    const LANES: usize = 8;
    let mut top = [f64::MIN; LANES];
    let mut w = weights.chunks_exact(LANES);
    let mut t = taken.chunks_exact(LANES);
    for (w, t) in (&mut w).zip(&mut t) {
        for lane in 0..LANES {
            let behind = w[lane] * s - t[lane];
            top[lane] = if behind > top[lane] { behind } else { top[lane] };
        }
    }
    let mut largest = f64::MIN;
    for &value in &top {
        largest = if value > largest { value } else { largest };
    }
    for (w, t) in w.remainder().iter().zip(t.remainder()) {
        let behind = w * s - t;
        largest = if behind > largest { behind } else { largest };
    }
    weights.iter().zip(taken).position(|(w, t)| w * s - t == largest).unwrap_or(0)
}

/// `size` picks for normalised `weights`.
///
/// # Errors
/// More than 32767 sources.
pub fn pick_by_weight(weights: &[f64], size: u64) -> Result<Picks> {
    check(weights.len())?;
    let mut source = Vec::with_capacity(size as usize);
    let mut sample = Vec::with_capacity(size as usize);
    // Counts stay exact in f64 up to 2^53.
    let mut taken = vec![0.0; weights.len()];
    for s in 0..size {
        let best = most_behind(weights, &taken, (s as f64).max(1.0));
        source.push(best as i16);
        sample.push(taken[best] as i64);
        taken[best] += 1.0;
    }
    Ok(Picks { source: Array::Owned(source), sample: Array::Owned(sample) })
}

/// Picks until every source has given all of its samples, in proportion to their numbers. Sources that are used up leave
/// the race.
///
/// # Errors
/// More than 32767 sources.
pub fn pick_exhaustively(lengths: &[u64]) -> Result<Picks> {
    check(lengths.len())?;
    let total: u64 = lengths.iter().sum();
    let mut racing: Vec<usize> = (0..lengths.len()).filter(|&i| lengths[i] > 0).collect();
    let mut weights: Vec<f64> = racing.iter().map(|&i| lengths[i] as f64 / total as f64).collect();
    let mut taken = vec![0.0; racing.len()];
    let mut source = Vec::with_capacity(total as usize);
    let mut sample = Vec::with_capacity(total as usize);
    for s in 0..total {
        let best = most_behind(&weights, &taken, (s as f64).max(1.0));
        source.push(racing[best] as i16);
        sample.push(taken[best] as i64);
        taken[best] += 1.0;
        if taken[best] as u64 == lengths[racing[best]] {
            racing.remove(best);
            weights.remove(best);
            taken.remove(best);
        }
    }
    Ok(Picks { source: Array::Owned(source), sample: Array::Owned(sample) })
}

fn check(sources: usize) -> Result<()> {
    if sources == 0 || sources > i16::MAX as usize {
        return Err(DataError::Setting {
            name: "blend",
            expected: "1 to 32767 sources".into(),
            found: sources.to_string(),
            hint: "merge small sources",
        });
    }
    Ok(())
}
