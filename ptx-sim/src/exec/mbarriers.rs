//! mbarriers: arrivals, transactions, phases.
//!
//! The state lives beside shared memory, found by address; the eight bytes themselves hold the phase and the pending
//! count so that a read of them is at least deterministic. Ordinary accesses to them are reported.

use super::access::Agent;
use super::env::MBARRIER_ENTITIES;
use super::regs::lanes;
use super::run::Flow;
use super::step::window;
use super::unit::{Cta, Mbarrier, Step, Unit, stop};
use super::warp::Warp;
use crate::check::clock::Clock;
use crate::check::fault::FaultKind;
use crate::ptx::program::{Addr, Mbar, MbarKind, Op};
use crate::ptx::types::Space;

/// Largest arrival count and transaction count of an mbarrier (2^20 - 1).
const MAX_COUNT: i64 = (1 << 20) - 1;

impl Unit<'_> {
    /// Block rank and offset of a shared-memory address, of either form.
    pub(crate) fn shared_address(&self, a: u64, space: Space) -> Step<(usize, usize)> {
        let low = if space == Space::Generic {
            let (s, x) = window(a);
            if s != Space::Shared {
                return stop(FaultKind::OutOfBounds, format!("{a:#x} is not an address of shared memory"));
            }
            x
        } else {
            a & 0xffff_ffff
        };
        let (rank, offset) = ((low >> 24) as usize, (low & 0xff_ffff) as usize);
        if rank >= self.ctas.len() {
            return stop(
                FaultKind::OutOfBounds,
                format!("shared address {low:#x} names rank {rank}, the cluster has {} blocks", self.ctas.len()),
            );
        }
        Ok((rank, offset))
    }

    pub(crate) fn lane_address(&self, w: &Warp, a: &Addr, lane: usize) -> u64 {
        w.regs.get(a.base, lane).wrapping_add(a.offset as u64)
    }

    /// Index of a live mbarrier.
    pub(crate) fn find_mbarrier(&self, rank: usize, offset: usize) -> Step<usize> {
        if !offset.is_multiple_of(8) {
            return stop(FaultKind::Misaligned, format!("mbarrier address {offset:#x} is not a multiple of 8"));
        }
        let cta = &self.ctas[rank];
        if cta.live_warps == 0 {
            return stop(FaultKind::EarlyExit, format!("mbarrier {offset:#x} of block rank {rank}, which has exited"));
        }
        match cta.mbarrier_at.get(offset / 8) {
            Some(0) => {
                stop(FaultKind::MbarrierMisuse, format!("shared memory {offset:#x} holds no initialised mbarrier"))
            }
            Some(i) => Ok(*i as usize - 1),
            None => stop(
                FaultKind::OutOfBounds,
                format!("mbarrier address {offset:#x} is outside the block's shared memory"),
            ),
        }
    }

    /// Executes an mbarrier instruction for each lane.
    pub(crate) fn mbarrier(&mut self, c: usize, w: &mut Warp, pc: u32, x: &Mbar, m: u32) -> Step<Flow> {
        let mut result = 0u32;
        let mut waiting = false;
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for l in lanes(m) {
            let (rank, offset) = self.shared_address(self.lane_address(w, &x.addr, l), x.addr.space)?;
            if let MbarKind::Init { count } = x.kind {
                let count = w.regs.get(count, l) as u32;
                self.init_mbarrier(rank, offset, count, c, w, pc)?;
                continue;
            }
            let i = self.find_mbarrier(rank, offset)?;
            self.mbarrier_ordered(c, w, pc, rank, i);
            match &x.kind {
                MbarKind::Init { .. } => {}
                MbarKind::Inval => {
                    self.ctas[rank].mbarrier_at[offset / 8] = 0;
                    self.ctas[rank].mbarriers[i].live = false;
                    self.ctas[rank].shadow.mark_init(offset, if self.checks { 8 } else { 0 });
                }
                MbarKind::Arrive { count, expect, drop, no_complete } => {
                    let n = count.map_or(1, |s| w.regs.get(s, l) as i64);
                    let tx = expect.map_or(0, |s| w.regs.get(s, l) as i64);
                    let b = &mut self.ctas[rank].mbarriers[i];
                    let state = (b.phase << 32) | (b.pending.max(0) as u64);
                    if tx > 0 {
                        b.transactions += tx;
                    }
                    if *drop {
                        b.expected = b.expected.saturating_sub(n as u32);
                    }
                    if n < 1 || n > b.pending || (*no_complete && n == b.pending) {
                        return stop(
                            FaultKind::MbarrierMisuse,
                            format!(
                                "arrival of {n} at mbarrier {offset:#x}, where {} of {} are still expected in this phase",
                                b.pending, b.expected
                            ),
                        );
                    }
                    if b.transactions.abs() > MAX_COUNT {
                        return stop(
                            FaultKind::MbarrierMisuse,
                            format!("transaction count {} of mbarrier {offset:#x} is out of range", b.transactions),
                        );
                    }
                    b.pending -= n;
                    if !joined.contains(&(rank, i)) && !x.relaxed {
                        joined.push((rank, i));
                        b.arriving.join(&w.vc);
                        b.arriving_fenced.join(&w.fenced);
                    }
                    w.regs.set(x.d, l, state);
                    self.complete_mbarrier(rank, i);
                }
                MbarKind::ExpectTx { bytes } => {
                    let n = w.regs.get(*bytes, l) as i64;
                    let b = &mut self.ctas[rank].mbarriers[i];
                    b.transactions += n;
                    if b.transactions > MAX_COUNT {
                        return stop(
                            FaultKind::MbarrierMisuse,
                            format!("transaction count {} of mbarrier {offset:#x} is out of range", b.transactions),
                        );
                    }
                }
                MbarKind::CompleteTx { bytes } => {
                    let n = w.regs.get(*bytes, l) as i64;
                    self.complete_transaction(rank, i, n, None)?;
                }
                MbarKind::Wait { phase, parity, blocking } => {
                    let b = &self.ctas[rank].mbarriers[i];
                    let v = w.regs.get(*phase, l);
                    let ready = if *parity { b.phase & 1 != v & 1 } else { b.phase > v >> 32 };
                    if ready {
                        result |= 1 << l;
                        if self.checks && !x.relaxed && !joined.contains(&(rank, i)) {
                            joined.push((rank, i));
                            w.vc.join(&b.done);
                            w.fenced.join(&b.done_fenced);
                        }
                    } else {
                        waiting |= *blocking || w.groups.len() == 1;
                    }
                }
                MbarKind::CpAsyncArrive { noinc } => {
                    // The arrival belongs to the copies issued so far: they complete first.
                    self.finish_copies(c, w, 1 << l, u32::MAX);
                    let b = &mut self.ctas[rank].mbarriers[i];
                    if *noinc {
                        if b.pending < 1 {
                            return stop(
                                FaultKind::MbarrierMisuse,
                                format!("arrival at mbarrier {offset:#x}, where none is expected in this phase"),
                            );
                        }
                        b.pending -= 1;
                    }
                    b.arriving.join(&w.vc);
                    b.arriving_fenced.join(&w.fenced);
                    self.complete_mbarrier(rank, i);
                }
            }
        }
        match x.kind {
            MbarKind::Wait { .. } => {
                w.regs.put_pred(x.d, m, result);
                self.counts.mbarrier_tests += 1;
                if result & m != m {
                    self.counts.mbarrier_retries += 1;
                    if waiting && result == 0 {
                        return Ok(Flow::Spin);
                    }
                } else {
                    self.counts.mbarrier_waits += 1;
                    self.progress += (w.groups.len() == 1) as u64;
                }
            }
            MbarKind::Arrive { .. } | MbarKind::CpAsyncArrive { .. } => {
                self.tick(w);
                self.progress += 1;
            }
            _ => self.progress += 1,
        }
        Ok(Flow::Next)
    }

    /// Whether a warp knows that a fence for mbarriers, or a plain order, lies behind the initialisation of one.
    fn knows_mbarrier(&self, w: &Warp, rank: usize, i: usize) -> bool {
        let (entity, clock) = self.ctas[rank].mbarriers[i].initialised;
        w.vc.own[entity] >= clock || w.vc.own[self.env.init_entity(entity)] >= clock
    }

    /// An mbarrier is used after its initialisation only.
    fn mbarrier_ordered(&mut self, c: usize, w: &Warp, pc: u32, rank: usize, i: usize) {
        if self.checks && !self.knows_mbarrier(w, rank, i) {
            let b = &self.ctas[rank].mbarriers[i];
            let message = format!(
                "the mbarrier {:#x} is used, which {} initialised, unordered; put a barrier between, and fence.mbarrier_init before one that is relaxed",
                b.address,
                self.entity_name(b.initialised.0)
            );
            self.find(FaultKind::MbarrierMisuse, c, Some(w.id), Some(pc), message);
        }
    }

    /// Copies complete on an mbarrier of another block only behind a fence after its initialisation. Within the block an
    /// order suffices: compilers leave the fence out there, and the hardware agrees with them.
    pub(crate) fn mbarrier_visible(&mut self, c: usize, w: &Warp, pc: u32, rank: usize, i: usize) {
        if !self.checks || rank == c {
            return self.mbarrier_ordered(c, w, pc, rank, i);
        }
        let b = &self.ctas[rank].mbarriers[i];
        let (entity, clock) = b.initialised;
        if w.fenced.own[entity] < clock && w.vc.own[self.env.init_entity(entity)] < clock {
            let message = format!(
                "the copy completes on mbarrier {:#x}, which {} initialised without fence.mbarrier_init or fence.proxy.async after it",
                b.address,
                self.entity_name(entity)
            );
            self.find(FaultKind::MissingProxyFence, c, Some(w.id), Some(pc), message);
        }
    }

    fn init_mbarrier(&mut self, rank: usize, offset: usize, count: u32, c: usize, w: &Warp, pc: u32) -> Step<()> {
        if !offset.is_multiple_of(8) {
            return stop(FaultKind::Misaligned, format!("mbarrier address {offset:#x} is not a multiple of 8"));
        }
        if offset < 1024 || offset + 8 > self.env.shared_end {
            return stop(
                FaultKind::OutOfBounds,
                format!("mbarrier address {offset:#x} is outside the block's shared memory"),
            );
        }
        if count == 0 || count as i64 > MAX_COUNT {
            return stop(
                FaultKind::MbarrierMisuse,
                format!("mbarrier.init with a count of {count}; 1 to {MAX_COUNT} are possible"),
            );
        }
        if self.ctas[rank].mbarrier_at[offset / 8] != 0 {
            return stop(
                FaultKind::MbarrierMisuse,
                format!("mbarrier {offset:#x} is initialised twice; invalidate it first"),
            );
        }
        if self.checks {
            let agent = Agent::of(c, w, pc);
            self.shared_write(&agent, rank, offset, 8, false, false);
        }
        let entities = self.cluster.vc.own.len();
        let base = Clock::at(entities, self.start_clock);
        let index = self.ctas[rank].mbarriers.len();
        if index >= u16::MAX as usize - 1 {
            return stop(FaultKind::MbarrierMisuse, "more than 65534 mbarriers were initialised in one block");
        }
        // An address that is initialised again continues its old object, and so its clock.
        let old = self.ctas[rank].mbarriers.iter().position(|b| !b.live && b.address == offset as u32);
        let index = old.unwrap_or(index);
        let clock = match old {
            Some(i) => self.ctas[rank].mbarriers[i].clock + 1,
            None => self.start_clock + 1 + (index / MBARRIER_ENTITIES) as u32,
        };
        self.max_clock = self.max_clock.max(clock);
        let b = Mbarrier {
            address: offset as u32,
            live: true,
            expected: count,
            pending: count as i64,
            transactions: 0,
            phase: 0,
            entity: self.mbarrier_entity(rank, index),
            clock,
            arriving: base.clone(),
            arriving_fenced: base.clone(),
            done: base.clone(),
            done_fenced: base,
            initialised: (w.entity, w.clock()),
        };
        let cta: &mut Cta = &mut self.ctas[rank];
        if old.is_some() {
            cta.mbarriers[index] = b
        } else {
            cta.mbarriers.push(b)
        }
        cta.mbarrier_at[offset / 8] = index as u16 + 1;
        Ok(())
    }

    /// Ends the phase of an mbarrier if everything has arrived.
    pub(crate) fn complete_mbarrier(&mut self, rank: usize, i: usize) {
        let checks = self.checks;
        let b = &mut self.ctas[rank].mbarriers[i];
        if b.pending != 0 || b.transactions != 0 {
            return;
        }
        b.phase += 1;
        b.pending = b.expected as i64;
        if checks {
            b.done.join(&b.arriving);
            b.done_fenced.join(&b.arriving_fenced);
            let e = b.entity;
            b.done.own[e] = b.done.own[e].max(b.clock);
            b.done_fenced.own[e] = b.done_fenced.own[e].max(b.clock);
            b.clock += 1;
            self.max_clock = self.max_clock.max(b.clock);
        }
        self.progress += 1;
    }

    /// Completes transactions of an asynchronous copy; `knows` is what its issuer knew.
    pub(crate) fn complete_transaction(
        &mut self,
        rank: usize,
        i: usize,
        bytes: i64,
        knows: Option<&Clock>,
    ) -> Step<()> {
        let b = &mut self.ctas[rank].mbarriers[i];
        b.transactions -= bytes;
        if b.transactions < -MAX_COUNT {
            return stop(
                FaultKind::MbarrierMisuse,
                format!("transaction count {} of mbarrier {:#x} is out of range", b.transactions, b.address),
            );
        }
        if let Some(k) = knows {
            b.arriving.join(k);
        }
        self.complete_mbarrier(rank, i);
        Ok(())
    }

    /// What an mbarrier that a group waits for looks like, for reports.
    pub(crate) fn waited_mbarrier(&self, cta: &Cta, w: &Warp, pc: u32, mask: u32) -> Option<String> {
        // The test was executed a few instructions ago.
        let lane = mask.trailing_zeros() as usize;
        let from = pc.saturating_sub(4);
        for at in (from..(pc + 4).min(self.env.program.insts.len() as u32)).rev() {
            if let Op::Mbar(x) = &self.env.program.insts[at as usize].op
                && let MbarKind::Wait { phase, parity, .. } = x.kind
            {
                let (rank, offset) = self.shared_address(self.lane_address(w, &x.addr, lane), x.addr.space).ok()?;
                let i = self.ctas.get(rank)?.mbarrier_at.get(offset / 8).copied()?;
                let b = self.ctas[rank].mbarriers.get((i as usize).checked_sub(1)?)?;
                let kind = if parity { "parity" } else { "state" };
                let _ = cta;
                return Some(format!(
                    "(mbarrier {offset:#x}: waits for {kind} {}, phase {}, {} of {} arrivals and {} bytes pending)",
                    w.regs.get(phase, lane),
                    b.phase,
                    b.pending,
                    b.expected,
                    b.transactions
                ));
            }
        }
        None
    }
}
