//! Threads: fixed pieces of work, handed out in any order.

use super::Tile;
use super::memory::Region;
use crate::element::Real;
use core::ops::Range;

/// The part of an output that one call of a kernel's closure owns.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Rows of the piece.
    pub rows: Range<usize>,
    /// Index of the row block.
    pub block: usize,
    /// Index of the column part.
    pub part: usize,
}

/// The threads of a device and their scratch memory.
#[derive(Clone, Copy)]
pub struct Workers {
    scratch: *mut u8,
    per_worker: usize,
    threads: usize,
}

// SAFETY: the scratch of worker `i` is only used by worker `i` (see `scratch`).
unsafe impl Send for Workers {}
// SAFETY: as above.
unsafe impl Sync for Workers {}

impl Workers {
    pub(super) fn new(scratch: &mut Region, threads: usize) -> Self {
        Self { per_worker: scratch.len() / threads, scratch: scratch.base(), threads }
    }

    /// Runs `f` on `threads` threads that have no scratch: for products of the arithmetic types outside a device.
    pub fn with_threads<T: Send>(threads: usize, f: impl FnOnce(&Self) -> T + Send) -> T {
        let workers = Self { scratch: core::ptr::without_provenance_mut(64), per_worker: 0, threads: threads.max(1) };
        #[cfg(feature = "std")]
        if threads > 1
            && let Ok(pool) = rayon::ThreadPoolBuilder::new().num_threads(threads).build()
        {
            return pool.install(|| f(&workers));
        }
        f(&Self { threads: 1, ..workers })
    }

    /// The scratch of the calling worker as numbers. Contents are undefined.
    #[allow(clippy::mut_from_ref)]
    fn scratch<R: Real>(&self) -> &mut [R] {
        #[cfg(feature = "std")]
        let index = if self.threads > 1 { rayon::current_thread_index().unwrap_or(0) } else { 0 };
        #[cfg(not(feature = "std"))]
        let index = 0;
        assert!(index < self.threads);
        let len = self.per_worker / size_of::<R>();
        // SAFETY: slices of different workers are disjoint; a worker runs one piece at a time and pieces do not nest, so
        // nobody else holds this one. The start is aligned to 64 bytes and any bit pattern is a number.
        unsafe { core::slice::from_raw_parts_mut(self.scratch.add(index * self.per_worker).cast(), len) }
    }

    /// Calls `f(i)` for every `i` below `n`, in any order, on all threads.
    pub fn for_each(&self, n: usize, f: impl Fn(usize) + Sync + Send) {
        #[cfg(feature = "std")]
        if self.threads > 1 && n > 1 {
            use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
            (0..n).into_par_iter().with_max_len(1).for_each(f);
            return;
        }
        (0..n).for_each(f);
    }

    /// Cuts `rows` into blocks of `block` and the columns of `out` into `parts`, and calls `f` once for every piece with
    /// its part of `out` and scratch memory of undefined content.
    pub fn grid<R: Real, O: Tile>(
        &self,
        rows: usize,
        block: usize,
        parts: usize,
        out: O,
        f: impl Fn(Piece, O, &mut [R]) + Sync + Send,
    ) {
        let blocks = rows.div_ceil(block.max(1));
        self.for_each(blocks * parts, |i| {
            let (index, part) = (i / parts, i % parts);
            let range = index * block..((index + 1) * block).min(rows);
            // SAFETY: every (block, part) is visited once, and `out` is not used while tiles of it live.
            let tile = unsafe { out.tile(range.clone(), part, parts) };
            f(Piece { rows: range, block: index, part }, tile, self.scratch());
        });
    }

    /// Calls `f(i, scratch)` for every `i` below `n`, in any order, on all threads.
    pub fn pieces<R: Real>(&self, n: usize, f: impl Fn(usize, &mut [R]) + Sync + Send) {
        self.for_each(n, |i| f(i, self.scratch()));
    }
}
