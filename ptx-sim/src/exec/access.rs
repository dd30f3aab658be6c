//! Checked accesses to shared and global memory, on behalf of a warp or of an asynchronous copy.

use super::unit::{Step, Unit, stop};
use super::warp::Warp;
use crate::check::clock::Clock;
use crate::check::fault::FaultKind;
use crate::check::global::{self, GlobalWho, Scope};
use crate::check::shared::{Conflict, Who};
use crate::ptx::decode::SHARED_START;

/// Who accesses memory, and what it knows.
pub(crate) struct Agent<'c> {
    pub(crate) cta: usize,
    pub(crate) warp: usize,
    pub(crate) pc: u32,
    /// Entity in shared memory.
    pub(crate) entity: usize,
    pub(crate) clock: u32,
    /// Warp on whose behalf global memory is accessed, and its clock.
    pub(crate) global: (usize, u32),
    pub(crate) knows: &'c Clock,
    /// Given for accesses of the asynchronous proxy.
    pub(crate) fenced: Option<&'c Clock>,
}

impl<'c> Agent<'c> {
    /// The generic proxy of a warp.
    #[inline]
    pub(crate) fn of(cta: usize, w: &'c Warp, pc: u32) -> Agent<'c> {
        let clock = w.clock();
        Agent { cta, warp: w.id, pc, entity: w.entity, clock, global: (w.entity, clock), knows: &w.vc, fenced: None }
    }
}

impl Unit<'_> {
    /// Checks that a range lies in a block's shared memory.
    #[inline]
    pub(crate) fn shared_bounds(&self, rank: usize, at: usize, n: usize) -> Step<()> {
        if at >= SHARED_START as usize && at + n <= self.env.shared_end {
            if self.ctas[rank].live_warps > 0 {
                return Ok(());
            }
            return stop(FaultKind::EarlyExit, format!("shared memory of block rank {rank}, which has exited"));
        }
        let size = self.env.shared_end - SHARED_START as usize;
        let offset = at as i64 - SHARED_START as i64;
        stop(
            FaultKind::OutOfBounds,
            format!("{n} bytes at offset {offset} of shared memory; the block has {size} bytes"),
        )
    }

    /// Marks shared memory as changed for the tile cache.
    #[inline(always)]
    pub(crate) fn touch(&mut self, rank: usize, at: usize, n: usize) {
        let v = &mut self.ctas[rank].versions;
        for x in &mut v[at >> 10..=(at + n.max(1) - 1) >> 10] {
            *x = x.wrapping_add(1);
        }
    }

    /// Records a read of shared memory.
    #[inline]
    pub(crate) fn shared_read(&mut self, a: &Agent<'_>, rank: usize, at: usize, n: usize) {
        if !self.checks {
            return;
        }
        if let Some(off) = self.ctas[rank].shadow.uninitialised(at, n) {
            let offset = off as i64 - SHARED_START as i64;
            let pc = Some(a.pc);
            self.find(
                FaultKind::Uninitialised,
                a.cta,
                Some(a.warp),
                pc,
                format!("shared memory at offset {offset} was never written"),
            );
        }
        if !self.ctas[rank].mbarriers.is_empty() {
            self.mbarrier_overlap(a, rank, at, n, "read");
        }
        let who = Who { entity: a.entity, clock: a.clock, knows: a.knows, fenced: a.fenced };
        if let Some(c) = self.ctas[rank].shadow.read(at, n, &who) {
            self.shared_conflict(a, c);
        }
    }

    /// Records a write of shared memory. `same` says that the bytes are already there.
    #[inline]
    pub(crate) fn shared_write(
        &mut self,
        a: &Agent<'_>,
        rank: usize,
        at: usize,
        n: usize,
        asynchronous: bool,
        same: bool,
    ) {
        self.touch(rank, at, n);
        if !self.checks {
            return;
        }
        if !self.ctas[rank].mbarriers.is_empty() {
            self.mbarrier_overlap(a, rank, at, n, "write");
        }
        let who = Who { entity: a.entity, clock: a.clock, knows: a.knows, fenced: None };
        if let Some(c) = self.ctas[rank].shadow.write(at, n, &who, asynchronous, same) {
            self.shared_conflict(a, c);
        }
    }

    fn mbarrier_overlap(&mut self, a: &Agent<'_>, rank: usize, at: usize, n: usize, what: &str) {
        let hit = self.ctas[rank].mbarrier_at[at / 8..(at + n).div_ceil(8)].iter().any(|i| *i != 0);
        if hit {
            let offset = at as i64 - SHARED_START as i64;
            let message = format!("{what} of {n} bytes at offset {offset} of shared memory touches a live mbarrier");
            self.find(FaultKind::MbarrierMisuse, a.cta, Some(a.warp), Some(a.pc), message);
        }
    }

    #[cold]
    fn shared_conflict(&mut self, a: &Agent<'_>, c: Conflict) {
        let me = self.entity_name(a.entity);
        let (kind, what, entity, at) = match c {
            Conflict::ReadAfterWrite { entity, at } => (FaultKind::SharedRace, "reads what", entity, at),
            Conflict::WriteAfterWrite { entity, at } => (FaultKind::SharedRace, "overwrites what", entity, at),
            Conflict::WriteAfterRead { entity, at } => {
                (FaultKind::SharedRace, "overwrites what was read by", entity, at)
            }
            Conflict::ProxyFence { entity, at } => {
                (FaultKind::MissingProxyFence, "reads through the asynchronous proxy what", entity, at)
            }
        };
        let other = self.entity_name(entity);
        let offset = at as i64 - SHARED_START as i64;
        let message = match c {
            Conflict::WriteAfterRead { .. } => {
                format!("{me} {what} {other}, unordered, at offset {offset} of shared memory")
            }
            Conflict::ProxyFence { .. } => {
                format!(
                    "{me} {what} {other} wrote without fence.proxy.async after it, at offset {offset} of shared memory"
                )
            }
            _ => {
                format!("{me} {what} {other} wrote, unordered, at offset {offset} of shared memory")
            }
        };
        self.find(kind, a.cta, Some(a.warp), Some(a.pc), message);
    }

    /// Checks and records an access of global memory that was located. The range lies in one page.
    #[inline]
    pub(crate) fn global_check(
        &mut self,
        a: &Agent<'_>,
        page: Option<(&super::memory::Page, usize)>,
        address: u64,
        n: usize,
        write: bool,
        scope: Scope,
    ) {
        let Some((page, off)) = page else { return };
        if !self.checks {
            return;
        }
        if write {
            page.mark_init(off, n);
        } else if !page.is_init(off, n) {
            let message = format!("{n} bytes of global memory at {address:#x} were never written");
            self.find(FaultKind::Uninitialised, a.cta, Some(a.warp), Some(a.pc), message);
        }
        if !self.env.global_races {
            return;
        }
        let who = GlobalWho {
            launch: self.env.launch,
            unit: self.id,
            entity: a.global.0,
            clock: a.global.1 - self.start_clock,
            start: self.start_clock,
            knows: a.knows,
            scope,
            warps: self.env.warps,
        };
        let (conflict, fresh) = global::access(page, off, n, write, &who);
        if write {
            self.counts.global_unique_written += fresh as u64;
        } else {
            self.counts.global_unique_read += fresh as u64;
        }
        if let Some(c) = conflict {
            let (verb, was) = (if write { "writes" } else { "reads" }, if c.was_write { "wrote" } else { "read" });
            let other = if c.unit == self.id {
                self.entity_name(c.entity)
            } else {
                let n = self.env.clusters();
                let (rank, warp) = (c.entity / self.env.warps, c.entity % self.env.warps);
                let [cx, cy, _] = self.env.cluster;
                let r = rank as u32;
                let u = [c.unit % n[0], c.unit / n[0] % n[1], c.unit / n[0] / n[1]];
                let inner = [r % cx, r / cx % cy, r / cx / cy];
                let b: [u32; 3] = std::array::from_fn(|i| u[i] * self.env.cluster[i] + inner[i]);
                format!("warp {warp} of block ({}, {}, {})", b[0], b[1], b[2])
            };
            let at = address + c.at as u64;
            let message = format!("{verb} global memory {at:#x}, which {other} {was}, unordered");
            self.find(FaultKind::GlobalRace, a.cta, Some(a.warp), Some(a.pc), message);
        }
    }
}
