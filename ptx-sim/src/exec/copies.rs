//! `cp.async`: copies of a lane that arrive when they are waited for.

use super::access::Agent;
use super::regs::lanes;
use super::unit::{Step, Unit, stop};
use super::warp::{PendingCopy, Warp};
use crate::check::fault::FaultKind;
use crate::check::global::Scope;
use crate::ptx::program::{Addr, Slot};

impl Unit<'_> {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn cp_async(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        m: u32,
        (dst, src): (&Addr, &Addr),
        bytes: usize,
        src_bytes: Option<Slot>,
        ignore: Option<Slot>,
    ) -> Step<()> {
        let ignored = ignore.map_or(0, |s| w.regs.pred(s));
        // Its own entity writes: nobody is ordered after it before the wait.
        let entity = self.copy_entity(w.entity);
        w.copy_clock += 1;
        self.max_clock = self.max_clock.max(w.copy_clock);
        let clock = w.copy_clock;
        let mut last = w.last_range;
        let mut sectors = Sectors::default();
        for l in lanes(m) {
            let (rank, at) = self.shared_address(self.lane_address(w, dst, l), dst.space)?;
            if rank != c {
                return stop(FaultKind::OutOfBounds, "cp.async to the shared memory of another block");
            }
            // 4, 8 or 16 bytes: a mask is cheaper than a division.
            if at & (bytes - 1) != 0 {
                return stop(FaultKind::Misaligned, format!("cp.async of {bytes} bytes to shared address {at:#x}"));
            }
            self.shared_bounds(rank, at, bytes)?;
            let mut take = src_bytes.map_or(bytes, |s| w.regs.get(s, l) as usize);
            if take > bytes {
                return stop(
                    FaultKind::IllegalInstruction,
                    format!("cp.async with a source of {take} bytes, more than {bytes}"),
                );
            }
            if ignored >> l & 1 == 1 {
                take = 0;
            }
            let mut data = [0u8; 16];
            if take > 0 {
                let address = self.lane_address(w, src, l);
                if address & (bytes as u64 - 1) != 0 {
                    return stop(
                        FaultKind::Misaligned,
                        format!("cp.async of {bytes} bytes from global address {address:#x}"),
                    );
                }
                let env = self.env;
                let loc = match env.view.locate(address, take, &mut last) {
                    Ok(l) => l,
                    Err(e) => return Err(super::memory_ops::memory_fault(e)),
                };
                let agent = Agent::of(c, w, pc);
                self.global_check(&agent, loc.page, address, take, false, Scope::Weak);
                // SAFETY: `locate` checked the range, which is aligned and lies in one page.
                unsafe { std::ptr::copy_nonoverlapping(loc.ptr, data.as_mut_ptr(), take) };
                sectors.add(address, take);
            }
            let agent = Agent { entity, clock, ..Agent::of(c, w, pc) };
            // Compilers give wgmma what cp.async wrote without a proxy fence, and the hardware agrees with them.
            self.shared_write(&agent, rank, at, bytes, true, false);
            let group = w.committed[l];
            w.copies.push(PendingCopy { lane: l as u8, group, shared: at as u32, bytes: bytes as u8, clock, data });
        }
        w.last_range = last;
        if self.env.settings.counts {
            self.counts.global_read += sectors.bytes;
            self.counts.global_read_sectors += sectors.count();
            self.counts.global_read_requests += 1;
        }
        Ok(())
    }

    pub(crate) fn cp_async_commit(&mut self, w: &mut Warp, m: u32) {
        for l in lanes(m) {
            w.committed[l] += 1;
        }
    }

    pub(crate) fn cp_async_wait(&mut self, c: usize, w: &mut Warp, m: u32, keep: u32) {
        self.finish_copies(c, w, m, keep);
    }

    /// Lets the data of the lanes arrive, except for their last `keep` committed groups. `keep == u32::MAX` takes
    /// everything, committed or not.
    pub(crate) fn finish_copies(&mut self, c: usize, w: &mut Warp, m: u32, keep: u32) {
        let everything = keep == u32::MAX;
        let committed = w.committed;
        let done =
            |p: &PendingCopy| m >> p.lane & 1 == 1 && (everything || p.group + keep < committed[p.lane as usize]);
        let mut rest = std::mem::take(&mut w.copies);
        rest.retain(|p| {
            if !done(p) {
                return true;
            }
            let (at, n) = (p.shared as usize, p.bytes as usize);
            self.ctas[c].shared[at..at + n].copy_from_slice(&p.data[..n]);
            self.touch(c, at, n);
            false
        });
        if self.checks {
            // Clocks count instructions; all that are not pending any more are known from here on.
            let entity = self.copy_entity(w.entity);
            let known = rest.iter().map(|p| p.clock - 1).min().unwrap_or(w.copy_clock);
            let x = &mut w.vc.own[entity];
            *x = (*x).max(known);
        }
        w.copies = rest;
    }

    /// Copies of a warp that exits arrive at some time; nobody can have waited for them.
    pub(crate) fn finish_copies_at_exit(&mut self, c: usize, w: &mut Warp) {
        for p in std::mem::take(&mut w.copies) {
            let (at, n) = (p.shared as usize, p.bytes as usize);
            self.ctas[c].shared[at..at + n].copy_from_slice(&p.data[..n]);
            self.touch(c, at, n);
        }
    }
}

/// Distinct 32-byte sectors of a request.
#[derive(Default)]
pub(crate) struct Sectors {
    seen: Vec<u64>,
    pub(crate) bytes: u64,
}

impl Sectors {
    pub(crate) fn add(&mut self, address: u64, n: usize) {
        self.bytes += n as u64;
        for s in address / 32..=(address + n as u64 - 1) / 32 {
            if self.seen.last() != Some(&s) && !self.seen.contains(&s) {
                self.seen.push(s);
            }
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.seen.len() as u64
    }
}
