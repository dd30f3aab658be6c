//! The greedy picker: which source gives sample s, and which of its samples.
//!
//! Sample s comes from the source with the largest w_i max(s, 1) - taken_i, the first of equals. Sources of one weight take
//! turns: those that gave less are further behind, and among equals the first gives. So a *group* of equal weights has one
//! candidate at a time, and a pick compares groups, not sources: a hundred shards of one data set cost as much as one.

use std::collections::HashMap;

use crate::error::{DataError, Result};
use crate::npy::Array;

/// Picks of a whole blend.
pub struct Picks {
    /// Source of each sample.
    pub source: Array<i16>,
    /// Sample of that source.
    pub sample: Array<i64>,
}

/// Sources of one weight, as columns: entry g of each array belongs to group g.
struct Groups {
    /// Weight of each member.
    weights: Vec<f64>,
    /// Samples that the next member has given; those before it in `members` have given one more. Counts stay exact in f64
    /// up to 2^53.
    taken: Vec<f64>,
    /// Sources, ascending.
    members: Vec<Vec<i16>>,
    /// The member whose turn it is.
    turn: Vec<usize>,
    /// Whether every group is a single source; then groups stand in the order of the sources.
    single: bool,
}

impl Groups {
    /// `same` decides, with the weight, which of the sources belong together.
    fn new(sources: &[usize], weights: &[f64], same: impl Fn(usize) -> u64) -> Groups {
        let mut of: HashMap<(u64, u64), usize> = HashMap::new();
        let mut groups = Groups { weights: vec![], taken: vec![], members: vec![], turn: vec![], single: true };
        for (&source, &weight) in sources.iter().zip(weights) {
            let g = *of.entry((weight.to_bits(), same(source))).or_insert(groups.members.len());
            if g == groups.members.len() {
                groups.weights.push(weight);
                groups.taken.push(0.0);
                groups.members.push(Vec::new());
                groups.turn.push(0);
            }
            groups.single &= groups.members[g].is_empty();
            groups.members[g].push(source as i16);
        }
        groups
    }

    /// The group whose candidate is furthest behind at `s`; of equals that with the first source.
    #[inline]
    fn most_behind(&self, s: f64) -> usize {
        let (weights, taken) = (&self.weights[..], &self.taken[..]);
        let (first, largest) = first_largest(weights, taken, s);
        if self.single {
            return first;
        }
        let candidate = |g: usize| self.members[g][self.turn[g]];
        let mut best = first;
        for (g, (w, t)) in weights.iter().zip(taken).enumerate().skip(first + 1) {
            if w * s - t == largest && candidate(g) < candidate(best) {
                best = g;
            }
        }
        best
    }

    /// Gives the next sample of group `g`: (source, sample of the source).
    #[inline]
    fn give(&mut self, g: usize) -> (i16, i64) {
        let given = (self.members[g][self.turn[g]], self.taken[g] as i64);
        self.turn[g] += 1;
        if self.turn[g] == self.members[g].len() {
            self.turn[g] = 0;
            self.taken[g] += 1.0;
        }
        given
    }

    /// Takes a group out of the race.
    fn remove(&mut self, g: usize) {
        self.weights.remove(g);
        self.taken.remove(g);
        self.members.remove(g);
        self.turn.remove(g);
    }
}

/// The first largest value of `weights * s - taken`, and where it is. For many groups two passes, so that the first one
/// runs in vector registers; both compute the same products, so the second finds what the first saw.
#[inline]
fn first_largest(weights: &[f64], taken: &[f64], s: f64) -> (usize, f64) {
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
        return (best, largest);
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
    (weights.iter().zip(taken).position(|(w, t)| w * s - t == largest).unwrap_or(0), largest)
}

/// `size` picks for normalised `weights`.
///
/// # Errors
/// More than 32767 sources.
pub fn pick_by_weight(weights: &[f64], size: u64) -> Result<Picks> {
    check(weights.len())?;
    let mut groups = Groups::new(&(0..weights.len()).collect::<Vec<_>>(), weights, |_| 0);
    let mut source = Vec::with_capacity(size as usize);
    let mut sample = Vec::with_capacity(size as usize);
    for s in 0..size {
        let best = groups.most_behind((s as f64).max(1.0));
        let (from, number) = groups.give(best);
        source.push(from);
        sample.push(number);
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
    let racing: Vec<usize> = (0..lengths.len()).filter(|&i| lengths[i] > 0).collect();
    let weights: Vec<f64> = racing.iter().map(|&i| lengths[i] as f64 / total as f64).collect();
    // Members of a group have the same number of samples: in the last round each leaves with its turn.
    let mut groups = Groups::new(&racing, &weights, |i| lengths[i]);
    let mut source = Vec::with_capacity(total as usize);
    let mut sample = Vec::with_capacity(total as usize);
    for s in 0..total {
        let best = groups.most_behind((s as f64).max(1.0));
        let (from, number) = groups.give(best);
        source.push(from);
        sample.push(number);
        if groups.taken[best] as u64 == lengths[from as usize] {
            groups.remove(best);
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
