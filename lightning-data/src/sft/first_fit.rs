//! First-fit bin packing in O(N log P) for N lengths and bins of P.
//!
//! First-fit puts a length into the lowest-numbered open bin that has room. Bins are kept by what is left in them: a
//! min-heap of bin numbers for each remaining capacity, and over the capacities a tree of the smallest number. The tree
//! stays in cache whatever N is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Items by bin, bins in order of opening, items in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins {
    /// Items, bin after bin.
    pub items: Vec<u32>,
    /// Where each bin starts in `items`; one entry more than bins.
    pub starts: Vec<usize>,
}

impl Bins {
    /// Number of bins.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there is no bin.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Items of a bin.
    pub fn bin(&self, bin: usize) -> &[u32] {
        &self.items[self.starts[bin]..self.starts[bin + 1]]
    }

    /// All bins.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        (0..self.len()).map(|b| self.bin(b))
    }

    /// Groups items by the bin each was put into; `order` is the order of arrival.
    pub(crate) fn group(assigned: &[u32], order: impl Iterator<Item = u32> + Clone, bins: usize) -> Bins {
        let mut starts = vec![0usize; bins + 1];
        for &bin in assigned {
            starts[bin as usize + 1] += 1;
        }
        for b in 0..bins {
            starts[b + 1] += starts[b];
        }
        let mut next = starts.clone();
        let mut items = vec![0; assigned.len()];
        for (&bin, item) in assigned.iter().zip(order) {
            items[next[bin as usize]] = item;
            next[bin as usize] += 1;
        }
        Bins { items, starts }
    }
}

const NONE: u32 = u32::MAX;

struct OpenBins {
    by_capacity: Vec<BinaryHeap<Reverse<u32>>>,
    /// Leaf `leaves + c` is the lowest bin with capacity c left, inner nodes the minimum of their children.
    tree: Vec<u32>,
    leaves: usize,
}

impl OpenBins {
    fn new(capacity: usize) -> OpenBins {
        let leaves = (capacity + 1).next_power_of_two();
        OpenBins {
            by_capacity: (0..=capacity).map(|_| BinaryHeap::new()).collect(),
            tree: vec![NONE; 2 * leaves],
            leaves,
        }
    }

    /// Lowest bin with at least `length` left, and what it has left.
    fn lowest(&self, length: usize) -> Option<(u32, usize)> {
        let (mut best, mut node_of_best) = (NONE, 0);
        let mut node = self.leaves + length;
        // Nodes that cover the capacities from `length` up: the leaf itself and every right sibling on the way to the root.
        if self.tree[node] < best {
            (best, node_of_best) = (self.tree[node], node);
        }
        while node > 1 {
            if node.is_multiple_of(2) && self.tree[node + 1] < best {
                (best, node_of_best) = (self.tree[node + 1], node + 1);
            }
            node /= 2;
        }
        if best == NONE {
            return None;
        }
        while node_of_best < self.leaves {
            node_of_best = 2 * node_of_best + usize::from(self.tree[2 * node_of_best] != best);
        }
        Some((best, node_of_best - self.leaves))
    }

    fn refresh(&mut self, capacity: usize) {
        let mut node = self.leaves + capacity;
        self.tree[node] = self.by_capacity[capacity].peek().map_or(NONE, |r| r.0);
        while node > 1 {
            node /= 2;
            let smallest = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if self.tree[node] == smallest {
                return;
            }
            self.tree[node] = smallest;
        }
    }

    fn put(&mut self, bin: u32, capacity: usize) {
        self.by_capacity[capacity].push(Reverse(bin));
        self.refresh(capacity);
    }

    fn take(&mut self, capacity: usize) {
        self.by_capacity[capacity].pop();
        self.refresh(capacity);
    }
}

/// Packs `lengths` in the order given into bins of `capacity`. Lengths above the capacity count as the capacity.
///
/// # Panics
/// With 2^32 - 1 lengths or more.
pub fn first_fit(lengths: impl ExactSizeIterator<Item = u32>, capacity: u32) -> (Vec<u32>, usize) {
    assert!(lengths.len() < NONE as usize, "fewer than 2^32 - 1 lengths");
    let mut open = OpenBins::new(capacity as usize);
    let mut bins = 0u32;
    let assigned = lengths
        .map(|length| {
            let length = length.min(capacity) as usize;
            match open.lowest(length) {
                Some((bin, left)) => {
                    open.take(left);
                    open.put(bin, left - length);
                    bin
                }
                None => {
                    open.put(bins, capacity as usize - length);
                    bins += 1;
                    bins - 1
                }
            }
        })
        .collect();
    (assigned, bins as usize)
}
