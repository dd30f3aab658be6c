//! Loads, stores and atomics of a warp.

use super::access::Agent;
use super::copies::Sectors;
use super::memory::{MemoryError, PAGE_BYTES};
use super::regs::{FULL, lanes, row};
use super::step::window;
use super::unit::{Step, Stop, Unit, stop};
use super::warp::Warp;
use crate::check::clock::{Clock, SyncObject};
use crate::check::fault::FaultKind;
use crate::check::global::Scope;
use crate::ptx::program::{Addr, Atomic, File, Load, Slot, Store, Strength};
use crate::ptx::types::Space;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A memory error as a fault of the instruction.
pub(crate) fn memory_fault(e: MemoryError) -> Stop {
    let kind =
        if matches!(e, MemoryError::UseAfterFree { .. }) { FaultKind::UseAfterFree } else { FaultKind::OutOfBounds };
    Stop { kind, message: e.to_string() }
}

/// Reads an element of 1, 2, 4 or 8 bytes.
///
/// # Safety
/// `p` points to `n` readable bytes, aligned to `n`, in memory that is accessed by atomics only.
#[inline(always)]
unsafe fn read(p: *mut u8, n: usize) -> u64 {
    // SAFETY: passed on to the caller.
    unsafe {
        match n {
            1 => AtomicU8::from_ptr(p).load(Relaxed) as u64,
            2 => AtomicU16::from_ptr(p.cast()).load(Relaxed) as u64,
            4 => AtomicU32::from_ptr(p.cast()).load(Relaxed) as u64,
            _ => AtomicU64::from_ptr(p.cast()).load(Relaxed),
        }
    }
}

/// Writes an element of 1, 2, 4 or 8 bytes.
///
/// # Safety
/// As [`read`], writable.
#[inline(always)]
unsafe fn write(p: *mut u8, n: usize, v: u64) {
    // SAFETY: passed on to the caller.
    unsafe {
        match n {
            1 => AtomicU8::from_ptr(p).store(v as u8, Relaxed),
            2 => AtomicU16::from_ptr(p.cast()).store(v as u16, Relaxed),
            4 => AtomicU32::from_ptr(p.cast()).store(v as u32, Relaxed),
            _ => AtomicU64::from_ptr(p.cast()).store(v, Relaxed),
        }
    }
}

/// In place of a block's number: a release for all of them.
const EVERY_BLOCK: u64 = u64::MAX;

/// Spaces of the lanes of an access: usually one.
struct Resolved {
    space: Space,
    mask: u32,
}

impl Unit<'_> {
    #[inline(always)]
    fn addresses(&self, w: &Warp, a: &Addr) -> [u64; 32] {
        let off = a.offset as u64;
        match a.base.file() {
            File::R64 => {
                let b = w.regs.r64(a.base);
                row(|l| b[l].wrapping_add(off))
            }
            _ => {
                let b = w.regs.r32(a.base);
                row(|l| b[l].wrapping_add(off as u32) as u64)
            }
        }
    }

    /// Splits an access by state space and makes addresses relative to it.
    fn resolve(&self, space: Space, addr: &mut [u64; 32], m: u32) -> [Resolved; 4] {
        let mut out =
            [Space::Global, Space::Shared, Space::Local, Space::Param].map(|space| Resolved { space, mask: 0 });
        let at = |s: Space| match s {
            Space::Global | Space::Generic => 0,
            Space::Shared => 1,
            Space::Local => 2,
            Space::Param => 3,
        };
        if space != Space::Generic {
            out[at(space)].mask = m;
            return out;
        }
        for l in lanes(m) {
            let (s, a) = window(addr[l]);
            addr[l] = a;
            out[at(s)].mask |= 1 << l;
        }
        out
    }

    #[inline]
    fn aligned(&self, addr: &[u64; 32], m: u32, n: usize) -> Step<()> {
        let mut low = 0u64;
        for (l, a) in addr.iter().enumerate() {
            low |= if m >> l & 1 == 1 { *a } else { 0 };
        }
        if low & (n as u64 - 1) == 0 {
            return Ok(());
        }
        for l in lanes(m) {
            if addr[l] & (n as u64 - 1) != 0 {
                return stop(
                    FaultKind::Misaligned,
                    format!("access of {n} bytes at {:#x} (lane {l}), which is not a multiple of {n}", addr[l]),
                );
            }
        }
        Ok(())
    }

    /// Finds the bytes of every lane of a global access, with all checks.
    #[allow(clippy::too_many_arguments)]
    fn global_lanes(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        addr: &[u64; 32],
        m: u32,
        n: usize,
        write: bool,
        scope: Scope,
    ) -> Step<[*mut u8; 32]> {
        let env = self.env;
        let mut ptr = [std::ptr::null_mut(); 32];
        let mut last = w.last_range;
        let counting = env.settings.counts;
        let span = 32 * n;
        let first = addr[0];
        let dense = m == FULL
            && (first as usize & (PAGE_BYTES - 1)) + span <= PAGE_BYTES
            && (1..32).all(|l| addr[l] == first.wrapping_add((l * n) as u64));
        if dense && let Ok(loc) = env.view.locate(first, span, &mut last) {
            let agent = Agent::of(c, w, pc);
            self.global_check(&agent, loc.page, first, span, write, scope);
            for (l, p) in ptr.iter_mut().enumerate() {
                *p = loc.ptr.wrapping_add(l * n);
            }
            if counting {
                let sectors = (first + span as u64 - 1) / 32 - first / 32 + 1;
                self.count_global(write, span as u64, sectors);
            }
            w.last_range = last;
            return Ok(ptr);
        }
        let mut sectors = Sectors::default();
        let mut checked = u64::MAX;
        for l in lanes(m) {
            let loc = match env.view.locate(addr[l], n, &mut last) {
                Ok(l) => l,
                Err(e) => {
                    let mut s = memory_fault(e);
                    s.message = format!("lane {l}: {}", s.message);
                    return Err(s);
                }
            };
            if checked != addr[l] {
                let agent = Agent::of(c, w, pc);
                self.global_check(&agent, loc.page, addr[l], n, write, scope);
                checked = addr[l];
            }
            ptr[l] = loc.ptr;
            if counting {
                sectors.add(addr[l], n);
            }
        }
        w.last_range = last;
        if counting {
            self.count_global(write, sectors.bytes, sectors.count());
        }
        Ok(ptr)
    }

    fn count_global(&mut self, write: bool, bytes: u64, sectors: u64) {
        let c = &mut self.counts;
        if write {
            c.global_written += bytes;
            c.global_write_sectors += sectors;
            c.global_write_requests += 1;
        } else {
            c.global_read += bytes;
            c.global_read_sectors += sectors;
            c.global_read_requests += 1;
        }
    }

    /// Finds the offsets of a shared access in a block, with bounds.
    fn shared_lanes(&self, addr: &[u64; 32], m: u32, n: usize) -> Step<[(u8, u32); 32]> {
        let mut out = [(0u8, 0u32); 32];
        for l in lanes(m) {
            let a = addr[l] & 0xffff_ffff;
            let (rank, at) = ((a >> 24) as usize, (a & 0xff_ffff) as usize);
            if rank >= self.ctas.len() {
                return stop(
                    FaultKind::OutOfBounds,
                    format!("shared address {a:#x} names rank {rank}, the cluster has {} blocks", self.ctas.len()),
                );
            }
            self.shared_bounds(rank, at, n)?;
            out[l] = (rank as u8, at as u32);
        }
        Ok(out)
    }

    pub(crate) fn load(&mut self, c: usize, w: &mut Warp, pc: u32, ld: &Load, m: u32) -> Step<()> {
        let nv = ld.d.len();
        let n = ld.bytes * nv;
        let mut addr = self.addresses(w, &ld.addr);
        self.aligned(&addr, m, n)?;
        if whole_words(ld.addr.space, m, ld.bytes, &ld.d) {
            let ptr = self.global_lanes(c, w, pc, &addr, m, n, false, Scope::of(ld.strength.strong(), ld.narrow))?;
            for (j, d) in ld.d.iter().enumerate().filter(|(_, d)| !d.is_none()) {
                let d = &mut w.regs.r[d.index()];
                for (d, p) in d.iter_mut().zip(&ptr) {
                    // SAFETY: `global_lanes` checked `n` bytes for each lane; addresses are aligned.
                    *d = unsafe { read(p.add(4 * j), 4) } as u32;
                }
            }
            // After the read: what it saw was released before.
            if self.env.orders && ld.strength.strong() {
                self.acquire(w, &addr, m, ld.strength, ld.narrow);
            }
            return Ok(());
        }
        let mut out = [[0u64; 32]; 8];
        for part in self.resolve(ld.addr.space, &mut addr, m) {
            let m = part.mask;
            if m == 0 {
                continue;
            }
            match part.space {
                Space::Global | Space::Generic => {
                    let ptr =
                        self.global_lanes(c, w, pc, &addr, m, n, false, Scope::of(ld.strength.strong(), ld.narrow))?;
                    for (j, o) in out.iter_mut().enumerate().take(nv) {
                        for l in lanes(m) {
                            // SAFETY: `global_lanes` checked `n` bytes for each lane; addresses are aligned.
                            o[l] = unsafe { read(ptr[l].add(j * ld.bytes), ld.bytes) };
                        }
                    }
                    if self.env.orders && ld.strength.strong() {
                        self.acquire(w, &addr, m, ld.strength, ld.narrow);
                    }
                }
                Space::Shared => {
                    let at = self.shared_lanes(&addr, m, n)?;
                    if self.checks {
                        let mut last = (u8::MAX, 0);
                        for l in lanes(m) {
                            if at[l] != last {
                                let agent = Agent::of(c, w, pc);
                                self.shared_read(&agent, at[l].0 as usize, at[l].1 as usize, n);
                                last = at[l];
                            }
                        }
                    }
                    if self.env.settings.counts {
                        self.counts.shared_access(&addr, m, n, false);
                    }
                    for l in lanes(m) {
                        let s = &self.ctas[at[l].0 as usize].shared[at[l].1 as usize..at[l].1 as usize + n];
                        take(s, ld.bytes, nv, l, &mut out);
                    }
                }
                Space::Local => {
                    for l in lanes(m) {
                        let at = local_offset(w, l, addr[l], n)?;
                        take(&w.local[at..at + n], ld.bytes, nv, l, &mut out);
                    }
                }
                Space::Param => {
                    for l in lanes(m) {
                        let at = addr[l] as usize;
                        let Some(s) = self.env.params.get(at..at.saturating_add(n)) else {
                            return stop(
                                FaultKind::OutOfBounds,
                                format!("{n} bytes at offset {at} of {} bytes of parameters", self.env.params.len()),
                            );
                        };
                        take(s, ld.bytes, nv, l, &mut out);
                    }
                }
            }
        }
        for (j, d) in ld.d.iter().enumerate() {
            if ld.signed && !d.is_none() {
                let shift = 64 - 8 * ld.bytes as u32;
                for v in &mut out[j] {
                    *v = ((*v << shift) as i64 >> shift) as u64;
                }
            }
            w.regs.put_wide(*d, m, &out[j]);
        }
        Ok(())
    }

    pub(crate) fn store(&mut self, c: usize, w: &mut Warp, pc: u32, st: &Store, m: u32) -> Step<()> {
        let nv = st.s.len();
        let n = st.bytes * nv;
        let mut addr = self.addresses(w, &st.addr);
        self.aligned(&addr, m, n)?;
        self.progress += 1;
        if self.checks && st.mbar.is_none() && !st.strength.strong() {
            self.lanes_agree(c, w, pc, st, &addr, m);
        }
        if st.mbar.is_none() && whole_words(st.addr.space, m, st.bytes, &st.s) {
            if self.env.orders && st.strength.strong() {
                self.release(w, &addr, m, st.strength, st.narrow);
            }
            let ptr = self.global_lanes(c, w, pc, &addr, m, n, true, Scope::of(st.strength.strong(), st.narrow))?;
            for (j, s) in st.s.iter().enumerate() {
                let s = if s.is_none() { &[0; 32] } else { w.regs.r32(*s) };
                for (v, p) in s.iter().zip(&ptr) {
                    // SAFETY: `global_lanes` checked `n` bytes for each lane; addresses are aligned.
                    unsafe { write(p.add(4 * j), 4, *v as u64) };
                }
            }
            return Ok(());
        }
        let mut v = [[0u64; 32]; 8];
        for (j, s) in st.s.iter().enumerate() {
            v[j] = w.regs.wide(*s);
        }
        for part in self.resolve(st.addr.space, &mut addr, m) {
            let m = part.mask;
            if m == 0 {
                continue;
            }
            match part.space {
                Space::Global | Space::Generic => {
                    if self.env.orders && st.strength.strong() {
                        self.release(w, &addr, m, st.strength, st.narrow);
                    }
                    let ptr =
                        self.global_lanes(c, w, pc, &addr, m, n, true, Scope::of(st.strength.strong(), st.narrow))?;
                    for (j, v) in v.iter().enumerate().take(nv) {
                        for l in lanes(m) {
                            // SAFETY: `global_lanes` checked `n` bytes for each lane; addresses are aligned.
                            unsafe { write(ptr[l].add(j * st.bytes), st.bytes, v[l]) };
                        }
                    }
                }
                Space::Shared => {
                    let at = self.shared_lanes(&addr, m, n)?;
                    if self.env.settings.counts {
                        self.counts.shared_access(&addr, m, n, true);
                    }
                    for l in lanes(m) {
                        let (rank, at) = (at[l].0 as usize, at[l].1 as usize);
                        let mut bytes = [0u8; 32];
                        for j in 0..nv {
                            bytes[j * st.bytes..(j + 1) * st.bytes].copy_from_slice(&v[j][l].to_le_bytes()[..st.bytes]);
                        }
                        if let Some(mbar) = st.mbar {
                            self.store_async(c, w, pc, l, (rank, at), &bytes[..n], mbar)?;
                            continue;
                        }
                        let same = self.checks && self.ctas[rank].shared[at..at + n] == bytes[..n];
                        let agent = Agent::of(c, w, pc);
                        self.shared_write(&agent, rank, at, n, false, same);
                        self.ctas[rank].shared[at..at + n].copy_from_slice(&bytes[..n]);
                    }
                }
                Space::Local => {
                    for l in lanes(m) {
                        let at = local_offset(w, l, addr[l], n)?;
                        for (j, v) in v.iter().enumerate().take(nv) {
                            w.local[at + j * st.bytes..at + (j + 1) * st.bytes]
                                .copy_from_slice(&v[l].to_le_bytes()[..st.bytes]);
                        }
                    }
                }
                Space::Param => {
                    return stop(FaultKind::OutOfBounds, "write to the kernel parameters");
                }
            }
        }
        Ok(())
    }

    /// `st.async`: a store to a peer that counts on an mbarrier there.
    #[allow(clippy::too_many_arguments)]
    fn store_async(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        lane: usize,
        (rank, at): (usize, usize),
        data: &[u8],
        mbar: Slot,
    ) -> Step<()> {
        let (brank, bat) = self.shared_address(w.regs.get(mbar, lane), Space::Shared)?;
        if brank != rank {
            return stop(FaultKind::MbarrierMisuse, "st.async with an mbarrier of another block than its destination");
        }
        let i = self.find_mbarrier(brank, bat)?;
        let b = &self.ctas[brank].mbarriers[i];
        let agent = Agent { entity: b.entity, clock: b.clock, ..Agent::of(c, w, pc) };
        self.shared_write(&agent, rank, at, data.len(), false, false);
        self.ctas[rank].shared[at..at + data.len()].copy_from_slice(data);
        let knows = w.vc.clone();
        self.complete_transaction(brank, i, data.len() as i64, Some(&knows))?;
        if lane == 31 {
            self.tick(w);
        }
        Ok(())
    }

    pub(crate) fn atomic(&mut self, c: usize, w: &mut Warp, pc: u32, a: &Atomic, m: u32) -> Step<()> {
        let nv = a.b.len();
        let n = a.bytes * nv;
        let mut addr = self.addresses(w, &a.addr);
        self.aligned(&addr, m, n)?;
        let mut out = [[0u64; 32]; 8];
        let mut changed = false;
        for part in self.resolve(a.addr.space, &mut addr, m) {
            let m = part.mask;
            if m == 0 {
                continue;
            }
            match part.space {
                Space::Global | Space::Generic => {
                    if self.env.orders {
                        self.release(w, &addr, m, a.strength, a.narrow);
                        if !a.d.is_empty() || a.strength.acquires() {
                            self.acquire(w, &addr, m, a.strength, a.narrow);
                        }
                    }
                    let ptr = self.global_lanes(c, w, pc, &addr, m, n, true, Scope::of(true, a.narrow))?;
                    for l in lanes(m) {
                        for (j, out) in out.iter_mut().enumerate().take(nv) {
                            let (b, cc) = (w.regs.get(a.b[j], l), w.regs.get(a.c, l));
                            // SAFETY: `global_lanes` checked `n` bytes for each lane; addresses are aligned.
                            let old = unsafe { exchange(ptr[l].add(j * a.bytes), a.bytes, |old| (a.f)(old, b, cc)) };
                            changed |= (a.f)(old, b, cc) != old;
                            out[l] = old;
                        }
                    }
                }
                Space::Shared => {
                    let at = self.shared_lanes(&addr, m, n)?;
                    if self.env.settings.counts {
                        self.counts.shared_access(&addr, m, n, true);
                    }
                    for l in lanes(m) {
                        let (rank, at) = (at[l].0 as usize, at[l].1 as usize);
                        if let Some(mbar) = a.mbar {
                            let mut bytes = [0u8; 8];
                            bytes[..n].copy_from_slice(&self.ctas[rank].shared[at..at + n]);
                            let v = (a.f)(u64::from_le_bytes(bytes), w.regs.get(a.b[0], l), 0);
                            self.store_async(c, w, pc, l, (rank, at), &v.to_le_bytes()[..n], mbar)?;
                            continue;
                        }
                        if self.checks {
                            self.shared_atomic(c, w, pc, rank, at, n);
                        } else {
                            self.touch(rank, at, n);
                        }
                        for (j, out) in out.iter_mut().enumerate().take(nv) {
                            let p = at + j * a.bytes;
                            let mut bytes = [0u8; 8];
                            bytes[..a.bytes].copy_from_slice(&self.ctas[rank].shared[p..p + a.bytes]);
                            let old = u64::from_le_bytes(bytes);
                            let new = (a.f)(old, w.regs.get(a.b[j], l), w.regs.get(a.c, l));
                            changed |= new != old;
                            self.ctas[rank].shared[p..p + a.bytes].copy_from_slice(&new.to_le_bytes()[..a.bytes]);
                            out[l] = old;
                        }
                    }
                }
                _ => {
                    return stop(FaultKind::OutOfBounds, "atomic on local memory or parameters");
                }
            }
        }
        self.progress += changed as u64;
        for (j, d) in a.d.iter().enumerate() {
            w.regs.put_wide(*d, m, &out[j]);
        }
        Ok(())
    }

    /// Atomics of different warps on a shared word are no race; with plain accesses they are. An atomic also orders:
    /// it acquires what the last atomic on the word released.
    fn shared_atomic(&mut self, c: usize, w: &mut Warp, pc: u32, rank: usize, at: usize, n: usize) {
        let key = ((rank as u64) << 32) | (at / 4) as u64;
        if let Some(k) = self.atomics.get(&key) {
            w.vc.join(k);
        }
        let agent = Agent::of(c, w, pc);
        self.shared_read(&agent, rank, at, n);
        self.shared_write(&agent, rank, at, n, false, false);
        self.atomics.insert(key, w.vc.clone());
        self.tick(w);
    }

    /// Acquires what was released at the addresses of a strong access.
    fn acquire(&mut self, w: &mut Warp, addr: &[u64; 32], m: u32, s: Strength, narrow: bool) {
        if !self.checks {
            return;
        }
        let mut last = u64::MAX;
        let mut got = Clock { own: vec![0; w.vc.own.len()], foreign: None };
        let mut any = false;
        if let Ok(table) = self.env.sync.lock() {
            for l in lanes(m) {
                if addr[l] == last {
                    continue;
                }
                last = addr[l];
                // What was released for everybody, and for the block alone.
                for to in [EVERY_BLOCK, self.block_of(w)] {
                    let Some(f) = table.get(&(addr[l], to)).and_then(|o| o.clocks.as_ref()) else {
                        continue;
                    };
                    if let Some(mine) = f.get(&self.id) {
                        for (x, k) in got.own.iter_mut().zip(mine.iter()) {
                            *x = (*x).max(k + self.start_clock);
                        }
                    }
                    // An acquire for the block sees no other one's release.
                    if !narrow {
                        got.join_foreign(f);
                    }
                    any = true;
                }
            }
        }
        if !any {
            return;
        }
        if s.acquires() {
            w.vc.join(&got);
        } else {
            match &mut w.pending_acquire {
                Some(p) => p.join(&got),
                None => w.pending_acquire = Some(got),
            }
        }
    }

    /// Number of a warp's block within the launch, in the order of clusters.
    fn block_of(&self, w: &Warp) -> u64 {
        self.id as u64 * self.env.cluster_size as u64 + (w.entity / self.env.warps) as u64
    }

    /// Releases at the addresses of a strong access: everything known for a release, what was known at the last fence
    /// for a relaxed access.
    fn release(&mut self, w: &mut Warp, addr: &[u64; 32], m: u32, s: Strength, narrow: bool) {
        if !self.checks {
            return;
        }
        let knows = if s.releases() { Some(&w.vc) } else { w.at_fence.as_ref() };
        let Some(k) = knows else { return };
        let warps = self.env.warps * self.env.cluster_size;
        let own: Arc<[u32]> = k.own[..warps].iter().map(|x| x.saturating_sub(self.start_clock)).collect();
        let to = if narrow { self.block_of(w) } else { EVERY_BLOCK };
        let mut last = u64::MAX;
        if let Ok(mut table) = self.env.sync.lock() {
            for l in lanes(m) {
                if addr[l] != last {
                    last = addr[l];
                    table.entry((addr[l], to)).or_insert_with(SyncObject::default).release(
                        self.id,
                        own.clone(),
                        k.foreign.as_ref(),
                    );
                }
            }
        }
        if s.releases() {
            self.tick(w);
        }
    }
}

/// Whether a whole warp moves 32-bit words between global memory and 32-bit registers: most of what kernels do.
#[inline(always)]
fn whole_words(space: Space, m: u32, bytes: usize, slots: &[Slot]) -> bool {
    m == FULL && bytes == 4 && space == Space::Global && slots.iter().all(|s| s.is_none() || s.file() == File::R32)
}

/// Offset in a warp's local memory of a lane's address.
pub(crate) fn local_offset(w: &Warp, lane: usize, at: u64, n: usize) -> Step<usize> {
    let end = at.saturating_add(n as u64);
    if end > w.local_bytes as u64 {
        return stop(
            FaultKind::OutOfBounds,
            format!("{n} bytes at offset {at} of {} bytes of local memory (lane {lane})", w.local_bytes),
        );
    }
    Ok(lane * w.local_bytes + at as usize)
}

/// Splits the bytes of a lane into its elements.
#[inline(always)]
fn take(s: &[u8], bytes: usize, nv: usize, lane: usize, out: &mut [[u64; 32]; 8]) {
    for (j, out) in out.iter_mut().enumerate().take(nv) {
        let e = &s[j * bytes..(j + 1) * bytes];
        out[lane] = match bytes {
            1 => e[0] as u64,
            2 => u16::from_le_bytes([e[0], e[1]]) as u64,
            4 => u32::from_le_bytes([e[0], e[1], e[2], e[3]]) as u64,
            _ => u64::from_le_bytes([e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7]]),
        };
    }
}

/// Atomically replaces an element and returns its old value.
///
/// # Safety
/// As [`write`].
unsafe fn exchange(p: *mut u8, n: usize, f: impl Fn(u64) -> u64) -> u64 {
    // SAFETY: passed on to the caller.
    unsafe {
        match n {
            2 => match AtomicU16::from_ptr(p.cast()).fetch_update(Relaxed, Relaxed, |o| Some(f(o as u64) as u16)) {
                Ok(o) | Err(o) => o as u64,
            },
            4 => match AtomicU32::from_ptr(p.cast()).fetch_update(Relaxed, Relaxed, |o| Some(f(o as u64) as u32)) {
                Ok(o) | Err(o) => o as u64,
            },
            _ => match AtomicU64::from_ptr(p.cast()).fetch_update(Relaxed, Relaxed, |o| Some(f(o))) {
                Ok(o) | Err(o) => o,
            },
        }
    }
}
