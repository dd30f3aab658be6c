//! Races in global memory, between blocks and between the warps of a block.
//!
//! A cell packs launch (10 bits), unit (24), entity (9), clock (15), scope (2) and a mask (4): the bytes of a written
//! word, the words of sixteen bytes read. Cells of earlier launches are stale by their launch number, so that nothing is
//! cleared between launches.
//!
//! Strong accesses do not race with each other if the scope of each includes the other. A plain read beside atomics is
//! not reported: compare-and-swap loops begin with one, and nothing in the code tells such a loop from a poll of a flag.
//! That a poll orders nothing shows at the data that it guards.

use super::clock::Clock;
use crate::exec::memory::Page;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// How far an access is strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Weak,
    /// For the threads of the block.
    Block,
    Wide,
}

impl Scope {
    #[inline]
    pub(crate) fn of(strong: bool, narrow: bool) -> Scope {
        match (strong, narrow) {
            (false, _) => Scope::Weak,
            (true, true) => Scope::Block,
            (true, false) => Scope::Wide,
        }
    }
}

/// Who accesses global memory.
pub(crate) struct GlobalWho<'a> {
    /// Launch number modulo 1023, plus 1.
    pub(crate) launch: u64,
    pub(crate) unit: u32,
    pub(crate) entity: usize,
    /// Clock since the unit's start.
    pub(crate) clock: u32,
    /// Clock at which the unit started.
    pub(crate) start: u32,
    pub(crate) knows: &'a Clock,
    pub(crate) scope: Scope,
    /// Warps of a block.
    pub(crate) warps: usize,
}

/// Conflicting access found in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GlobalConflict {
    /// Unit of the other access.
    pub(crate) unit: u32,
    /// Warp within that unit.
    pub(crate) entity: usize,
    /// Whether the other access was a write.
    pub(crate) was_write: bool,
    /// Offset of the granule from the start of the checked range.
    pub(crate) at: usize,
}

fn pack(w: &GlobalWho<'_>, mask: u64) -> u64 {
    let clock = w.clock.min(0x7fff) as u64;
    w.launch << 54 | (w.unit as u64) << 30 | (w.entity as u64) << 21 | clock << 6 | (w.scope as u64) << 4 | mask
}

struct Cell(u64);

impl Cell {
    fn launch(&self) -> u64 {
        self.0 >> 54
    }
    fn unit(&self) -> u32 {
        (self.0 >> 30) as u32 & 0xff_ffff
    }
    fn entity(&self) -> usize {
        (self.0 >> 21) as usize & 0x1ff
    }
    fn clock(&self) -> u32 {
        (self.0 >> 6) as u32 & 0x7fff
    }
    /// Whether the access in the cell was strong for `w`.
    fn strong_for(&self, w: &GlobalWho<'_>) -> bool {
        let scope = self.0 >> 4 & 3;
        scope == Scope::Wide as u64 || (scope == Scope::Block as u64 && self.of_block(w))
    }

    /// Whether an access by `w` is strong for the one in the cell.
    fn sees_strong(&self, w: &GlobalWho<'_>) -> bool {
        w.scope == Scope::Wide || (w.scope == Scope::Block && self.of_block(w))
    }

    fn of_block(&self, w: &GlobalWho<'_>) -> bool {
        self.unit() == w.unit && self.entity() / w.warps == w.entity / w.warps
    }
    fn mask(&self) -> u64 {
        self.0 & 0xf
    }

    /// Whether the access in the cell happens before what `w` knows.
    fn before(&self, w: &GlobalWho<'_>) -> bool {
        if self.unit() == w.unit {
            self.entity() == w.entity
                || w.knows.own.get(self.entity()).is_none_or(|k| k.wrapping_sub(w.start) >= self.clock())
        } else {
            let known = w.knows.foreign.as_ref().and_then(|f| f.get(&self.unit()));
            known.is_some_and(|c| c.get(self.entity()).is_some_and(|k| *k >= self.clock()))
        }
    }
}

/// Checks and records an access of `n` bytes at `off` of a page. Returns the first conflict, and how many bytes were
/// touched for the first time in this launch in this way. Reads of parts of four bytes are checked, but not recorded.
pub(crate) fn access(
    page: &Page,
    off: usize,
    n: usize,
    write: bool,
    w: &GlobalWho<'_>,
) -> (Option<GlobalConflict>, usize) {
    let shadow = page.shadow();
    let mut found = None;
    let mut fresh = 0;
    let end = off + n;
    let me = pack(w, 0);
    let cells = off / 16..end.div_ceil(16);
    if write {
        shadow.written.store(w.launch, Relaxed);
    }
    let look = write || shadow.written.load(Relaxed) == w.launch;
    let aligned = off.is_multiple_of(4) && n.is_multiple_of(4);
    for (i, (writers, readers)) in shadow.writers[cells.clone()].iter().zip(&shadow.readers[cells]).enumerate() {
        let base = (off / 16 + i) * 16;
        let (lo, hi) = (off.max(base) - base, end.min(base + 16) - base);
        let words = if lo == 0 && hi == 16 { 0xf } else { word_mask(lo / 4, hi / 4) };
        if aligned && untouched(writers, readers, words, (write, look), w.launch) {
            // Nobody to race with, as for most of a large buffer.
            if write {
                for (k, x) in writers.iter().enumerate() {
                    if words >> k & 1 == 1 {
                        x.store(me | 0xf, Relaxed);
                    }
                }
                fresh += hi - lo;
            } else {
                let old = Cell(readers[0].load(Relaxed));
                if old.launch() != w.launch {
                    fresh += hi - lo;
                    readers[0].store(me | words, Relaxed);
                } else if old.unit() == w.unit {
                    let kept = if old.entity() == w.entity { old.mask() } else { 0 };
                    fresh += 4 * (words & !old.mask()).count_ones() as usize;
                    readers[0].store(me | kept | words, Relaxed);
                } else {
                    readers[1].store(me | words, Relaxed);
                }
            }
            continue;
        }
        let (conflict, new) = cell(writers, readers, base, (off, end), (write, look), w);
        fresh += new;
        found = found.or(conflict);
    }
    (found, fresh)
}

/// Whether no access of this launch to `words` of sixteen bytes can conflict with a new one.
#[inline(always)]
fn untouched(
    writers: &[AtomicU64; 4],
    readers: &[AtomicU64; 2],
    words: u64,
    (write, look): (bool, bool),
    launch: u64,
) -> bool {
    let current = |x: &AtomicU64| Cell(x.load(Relaxed)).launch() == launch;
    let mut touched = 0;
    if look {
        for (k, x) in writers.iter().enumerate() {
            touched |= (current(x) as u64) << k;
        }
    }
    touched & words == 0 && (!write || !readers.iter().any(current))
}

/// Checks and records the part of an access (from `off` to `end` of the page) in the sixteen bytes from `base`.
fn cell(
    writers: &[AtomicU64; 4],
    readers: &[AtomicU64; 2],
    base: usize,
    (off, end): (usize, usize),
    (write, look): (bool, bool),
    w: &GlobalWho<'_>,
) -> (Option<GlobalConflict>, usize) {
    let me = pack(w, 0);
    let mut found = None;
    let mut fresh = 0;
    let (lo, hi) = (off.max(base) - base, end.min(base + 16) - base);
    // Words that are touched, and those that are touched whole.
    let words = word_mask(lo / 4, hi.div_ceil(4));
    for (k, writer) in writers.iter().enumerate() {
        if !look || words >> k & 1 == 0 {
            continue;
        }
        let old = Cell(writer.load(Relaxed));
        let current = old.launch() == w.launch;
        if !current && !write {
            continue;
        }
        let (a, b) = (lo.max(4 * k) - 4 * k, hi.min(4 * k + 4) - 4 * k);
        let bytes = ((1u64 << b) - 1) & !((1u64 << a) - 1);
        let mine = current && old.0 >> 21 == me >> 21;
        // A plain read beside atomics is how compare-and-swap loops begin; words do not tear.
        let benign = old.strong_for(w) && (old.sees_strong(w) || (!write && w.scope == Scope::Weak));
        if current && !mine && old.mask() & bytes != 0 && !benign && found.is_none() && !old.before(w) {
            found = Some(conflict(&old, true, base + 4 * k, off));
        }
        if write {
            let kept = if mine { old.mask() } else { 0 };
            if !current || old.mask() & bytes == 0 {
                fresh += b - a;
            }
            writer.store(me | kept | bytes, Relaxed);
        }
    }
    if write {
        for r in readers {
            let old = Cell(r.load(Relaxed));
            if old.launch() == w.launch
                && old.mask() & words != 0
                && !old.sees_strong(w)
                && found.is_none()
                && !old.before(w)
            {
                found = Some(conflict(&old, false, base, off));
            }
        }
    } else {
        let whole = word_mask(lo.div_ceil(4), hi / 4);
        let old = Cell(readers[0].load(Relaxed));
        if old.launch() != w.launch {
            fresh += hi - lo;
            readers[0].store(me | whole, Relaxed);
        } else if old.unit() == w.unit {
            let kept = if old.entity() == w.entity { old.mask() } else { 0 };
            fresh += 4 * (whole & !old.mask()).count_ones() as usize;
            readers[0].store(me | kept | whole, Relaxed);
        } else {
            readers[1].store(me | whole, Relaxed);
        }
    }
    (found, fresh)
}

/// Bits `from..to`.
#[inline(always)]
fn word_mask(from: usize, to: usize) -> u64 {
    if from >= to { 0 } else { ((1u64 << to) - 1) & !((1u64 << from) - 1) }
}

#[cold]
fn conflict(old: &Cell, was_write: bool, at: usize, off: usize) -> GlobalConflict {
    GlobalConflict { unit: old.unit(), entity: old.entity(), was_write, at: at.saturating_sub(off) }
}
