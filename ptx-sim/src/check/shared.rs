//! Races and uninitialised reads of shared memory.
//!
//! Every four bytes remember their last writer and, per warp of the block, the clock of its last read. Clocks never
//! restart while a host thread works through the blocks of a launch, so that nothing has to be cleared between blocks.

use super::clock::Clock;

/// Last write of a granule: clock (32 bits), entity (16), and whether it went through the asynchronous proxy.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Writer(u64);

impl Writer {
    #[inline(always)]
    fn new(clock: u32, entity: usize, asynchronous: bool) -> Writer {
        Writer((clock as u64) << 32 | (entity as u64 & 0xffff) << 1 | asynchronous as u64)
    }

    #[inline(always)]
    fn clock(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    fn entity(self) -> usize {
        (self.0 >> 1) as usize & 0xffff
    }

    #[inline(always)]
    fn asynchronous(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What a check of a range found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    ReadAfterWrite { entity: usize, at: usize },
    WriteAfterWrite { entity: usize, at: usize },
    WriteAfterRead { entity: usize, at: usize },
    ProxyFence { entity: usize, at: usize },
}

/// Shadow of one block's shared memory.
#[derive(Default)]
pub(crate) struct SharedShadow {
    writers: Vec<Writer>,
    /// Per warp of the block, the clock of its last read of each granule.
    reads: Vec<Vec<u32>>,
    /// Per warp, the latest clock in `reads`.
    latest: Vec<u32>,
    /// The same for reads of whole 16-byte chunks by the `wgmma` of a warpgroup.
    chunk_reads: Vec<Vec<u32>>,
    latest_chunk: Vec<u32>,
    /// Last read by somebody who is no warp of the block: clock and entity.
    others: Vec<(u32, u16)>,
    init: Vec<u8>,
    /// Entity of the block's first warp, and of its first warpgroup.
    first_warp: usize,
    first_group: usize,
    /// Whether anything has ever been read by others.
    other_reads: bool,
}

/// Who accesses, with what knowledge.
pub(crate) struct Who<'a> {
    pub(crate) entity: usize,
    pub(crate) clock: u32,
    pub(crate) knows: &'a Clock,
    /// Knowledge that the asynchronous proxy may rely on; given for accesses through it.
    pub(crate) fenced: Option<&'a Clock>,
}

impl Who<'_> {
    /// Whether reading what a writer wrote is unordered or unfenced.
    #[inline(always)]
    pub(crate) fn conflict(&self, w: &Writer, at: usize) -> Option<Conflict> {
        let e = w.entity();
        if self.knows.own[e] < w.clock() && e != self.entity {
            return Some(Conflict::ReadAfterWrite { entity: e, at });
        }
        match self.fenced {
            Some(f) if !w.asynchronous() && f.own[e] < w.clock() => Some(Conflict::ProxyFence { entity: e, at }),
            _ => None,
        }
    }
}

impl SharedShadow {
    /// Distinct last writers of 16-byte chunks, and the first byte that nobody wrote.
    pub(crate) fn summary(&self, starts: &[u32]) -> (Vec<Writer>, Option<usize>) {
        let mut writers: Vec<Writer> = Vec::new();
        let mut last = None;
        let mut uninitialised = None;
        for s in starts {
            let g = *s as usize / 4;
            for w in &self.writers[g..g + 4] {
                if last != Some(*w) {
                    last = Some(*w);
                    if !writers.contains(w) {
                        writers.push(*w);
                    }
                }
            }
            if self.init[g..g + 4] != [0xf; 4] && uninitialised.is_none() {
                uninitialised = self.uninitialised(g * 4, 16);
            }
        }
        (writers, uninitialised)
    }

    /// Records reads of 16-byte chunks by a warpgroup of the block.
    pub(crate) fn read_chunks(&mut self, starts: &[u32], group: usize, clock: u32) {
        if let Some(r) = self.chunk_reads.get_mut(group) {
            self.latest_chunk[group] = self.latest_chunk[group].max(clock);
            for s in starts {
                r[*s as usize / 16] = clock;
            }
        }
    }

    /// Prepares for the next block: nothing is initialised. `start` is later than all clocks used so far.
    pub(crate) fn reset(&mut self, bytes: usize, warps: usize, first_warp: usize, first_group: usize) {
        let g = bytes.div_ceil(4);
        if self.writers.len() != g || self.reads.len() != warps {
            self.writers = vec![Writer::default(); g];
            self.reads = vec![vec![0; g]; warps];
            self.latest = vec![0; warps];
            self.chunk_reads = vec![vec![0; g / 4 + 1]; warps.div_ceil(4)];
            self.latest_chunk = vec![0; warps.div_ceil(4)];
            self.others = vec![(0, 0); g];
        }
        self.init.clear();
        self.init.resize(g, 0);
        self.first_warp = first_warp;
        self.first_group = first_group;
        self.other_reads = false;
    }

    /// First uninitialised byte of a range.
    pub(crate) fn uninitialised(&self, at: usize, n: usize) -> Option<usize> {
        if at.is_multiple_of(4) && n.is_multiple_of(4) {
            return (at / 4..(at + n) / 4).find(|g| self.init[*g] != 0xf).map(|g| g * 4);
        }
        (at..at + n).find(|b| self.init[b / 4] >> (b % 4) & 1 == 0)
    }

    pub(crate) fn mark_init(&mut self, at: usize, n: usize) {
        if at.is_multiple_of(4) && n.is_multiple_of(4) {
            self.init[at / 4..(at + n) / 4].fill(0xf);
        } else {
            for b in at..at + n {
                self.init[b / 4] |= 1 << (b % 4);
            }
        }
    }

    /// Checks and records a read.
    #[inline]
    pub(crate) fn read(&mut self, at: usize, n: usize, who: &Who<'_>) -> Option<Conflict> {
        let range = at / 4..(at + n).div_ceil(4);
        let mut found = None;
        for (i, w) in self.writers[range.clone()].iter().enumerate() {
            found = who.conflict(w, (range.start + i) * 4);
            if found.is_some() {
                break;
            }
        }
        let warp = who.entity.wrapping_sub(self.first_warp);
        if let Some(r) = self.reads.get_mut(warp) {
            r[range].fill(who.clock);
            self.latest[warp] = self.latest[warp].max(who.clock);
        } else {
            self.other_reads = true;
            self.others[range].fill((who.clock, who.entity as u16));
        }
        found
    }

    /// Checks and records a write. A write of the value that is there is no conflict with another such write, which
    /// `same` says.
    #[inline]
    pub(crate) fn write(
        &mut self,
        at: usize,
        n: usize,
        who: &Who<'_>,
        asynchronous: bool,
        same: bool,
    ) -> Option<Conflict> {
        let range = at / 4..(at + n).div_ceil(4);
        let mut found = None;
        let new = Writer::new(who.clock, who.entity, asynchronous);
        // A large range was usually written by the same entity before, as the stages of a pipeline are.
        let own =
            range.len() >= 16 && self.writers[range.clone()].iter().fold(0, |x, w| x | (w.entity() ^ who.entity)) == 0;
        if own {
            self.writers[range.clone()].fill(new);
        }
        // Neighbours usually have the same writer: look its clock up once.
        let (mut entity, mut known) = (who.entity, u32::MAX);
        let rest = if own { range.end..range.end } else { range.clone() };
        for (i, w) in self.writers[rest].iter_mut().enumerate() {
            let e = w.entity();
            if e != entity {
                entity = e;
                known = if e == who.entity { u32::MAX } else { who.knows.own[e] };
            }
            // Stores of one value by several warps are ordered well enough for each other.
            let repeated = same && !w.asynchronous();
            if known < w.clock() && !repeated && found.is_none() {
                found = Some(Conflict::WriteAfterWrite { entity: e, at: (range.start + i) * 4 });
            }
            *w = new;
        }
        for (i, r) in self.reads.iter().enumerate() {
            let e = self.first_warp + i;
            if e == who.entity {
                continue;
            }
            let known = who.knows.own[e];
            if known >= self.latest[i] {
                continue;
            }
            if let Some(k) = later(&r[range.clone()], known) {
                found = found.or(Some(Conflict::WriteAfterRead { entity: e, at: (range.start + k) * 4 }));
            }
        }
        for (i, r) in self.chunk_reads.iter().enumerate() {
            let known = who.knows.own[self.first_group + i];
            if known < self.latest_chunk[i]
                && let Some(k) = later(&r[at / 16..(at + n).div_ceil(16)], known)
            {
                found =
                    found.or(Some(Conflict::WriteAfterRead { entity: self.first_group + i, at: (at / 16 + k) * 16 }));
            }
        }
        if self.other_reads {
            for g in range.clone() {
                let (c, e) = self.others[g];
                if e as usize != who.entity && who.knows.own.get(e as usize).is_some_and(|k| *k < c) {
                    found = found.or(Some(Conflict::WriteAfterRead { entity: e as usize, at: g * 4 }));
                }
            }
        }
        self.mark_init(at, n);
        found
    }
}

/// First clock that is later than what is known. Clocks stay below 2^31, so that a difference shows in its sign; without
/// an early exit the search for one is a loop of vectors.
#[inline]
fn later(clocks: &[u32], known: u32) -> Option<usize> {
    let sign = clocks.iter().fold(0, |x, c| x | known.wrapping_sub(*c));
    if sign >> 31 == 0 { None } else { clocks.iter().position(|c| *c > known) }
}
