//! Bulk asynchronous copies: issue, execution at some later time, completion.

use super::access::Agent;
use super::regs::lanes;
use super::unit::{Step, Unit, stop};
use super::warp::Warp;
use crate::check::clock::Clock;
use crate::check::fault::FaultKind;
use crate::ptx::decode::PARAM_WINDOW;
use crate::ptx::program::{Addr, Bulk, BulkReduce, ReduceOp};
use crate::ptx::types::{Space, Ty};
use crate::tensormap::{TENSOR_MAP_BYTES, TensorMap};

/// What an asynchronous copy does.
pub(crate) enum Copy {
    /// Global to the shared memory of one or more blocks, completing on an mbarrier in each.
    Load { ranks: Vec<usize>, dst: usize, mbars: Vec<(usize, usize)>, from: Source },
    /// Between blocks of the cluster.
    Peer { src: (usize, usize), dst: (usize, usize), bytes: usize, mbar: (usize, usize) },
    /// Shared to global.
    Store { src: (usize, usize), to: Target },
    /// The second half of a store: its bytes are on their way to global memory.
    Write { pieces: Vec<(u64, Vec<u8>)>, reduce: Option<(ReduceOp, Ty)> },
}

/// Global side of a load.
pub(crate) enum Source {
    Linear { address: u64, bytes: usize },
    Tensor { map: Box<TensorMap>, coords: Vec<i32> },
}

/// Global side of a store.
pub(crate) enum Target {
    Linear { address: u64, bytes: usize, reduce: Option<BulkReduce> },
    Tensor { map: Box<TensorMap>, coords: Vec<i32>, reduce: Option<ReduceOp> },
}

/// An operation in flight.
pub(crate) struct AsyncOp {
    pub(crate) id: u64,
    pub(super) copy: Copy,
    pub(super) knows: Clock,
    pub(super) fenced: Clock,
    pub(super) cta: usize,
    pub(super) warp: usize,
    pub(super) entity: usize,
    pub(super) pc: u32,
    /// Clock of the issuing warp, and of the operation itself.
    pub(super) issued: u32,
    pub(super) clock: u32,
}

impl Unit<'_> {
    pub(crate) fn bulk(&mut self, c: usize, w: &mut Warp, pc: u32, b: &Bulk, m: u32) -> Step<()> {
        for l in lanes(m) {
            match b {
                Bulk::Commit => {
                    let open = std::mem::take(&mut w.bulk_open);
                    w.bulk_groups.push_back(open);
                }
                Bulk::Wait { keep, read } => self.bulk_wait(w, *keep as usize, *read)?,
                Bulk::Prefetch { src, bytes } => {
                    let n = self.linear_size(w, *bytes, l)?;
                    let address = self.lane_address(w, src, l);
                    self.linear_alignment(address)?;
                    self.global_bounds(address, n)?;
                }
                Bulk::TensorPrefetch { map, coords } => {
                    self.tensor_operands(c, w, pc, l, map, coords)?;
                }
                Bulk::Load { dst, src, bytes, mbar, mask } => {
                    let n = self.linear_size(w, *bytes, l)?;
                    let address = self.lane_address(w, src, l);
                    self.linear_alignment(address)?;
                    let from = Source::Linear { address, bytes: n };
                    self.issue_load(c, w, pc, l, (dst, mbar), mask.map(|s| w.regs.get(s, l) as u32), n, n, 16, from)?;
                }
                Bulk::TensorLoad { dst, map, coords, mbar, mask } => {
                    let (t, coords) = self.tensor_operands(c, w, pc, l, map, coords)?;
                    let (n, span) = (t.transaction_bytes() as usize, t.shared_bytes() as usize);
                    let align = 128;
                    let from = Source::Tensor { map: Box::new(t), coords };
                    self.issue_load(
                        c,
                        w,
                        pc,
                        l,
                        (dst, mbar),
                        mask.map(|s| w.regs.get(s, l) as u32),
                        n,
                        span,
                        align,
                        from,
                    )?;
                }
                Bulk::Peer { dst, src, bytes, mbar } => {
                    let n = self.linear_size(w, *bytes, l)?;
                    let s = self.shared_address(self.lane_address(w, src, l), src.space)?;
                    let d = self.shared_address(self.lane_address(w, dst, l), dst.space)?;
                    let b = self.shared_address(self.lane_address(w, mbar, l), mbar.space)?;
                    self.linear_alignment(s.1 as u64 | d.1 as u64)?;
                    self.shared_bounds(s.0, s.1, n)?;
                    self.shared_bounds(d.0, d.1, n)?;
                    let i = self.find_mbarrier(b.0, b.1)?;
                    self.mbarrier_visible(c, w, pc, b.0, i);
                    self.enqueue(c, w, pc, Copy::Peer { src: s, dst: d, bytes: n, mbar: b });
                }
                Bulk::Store { dst, src, bytes, reduce } => {
                    let n = self.linear_size(w, *bytes, l)?;
                    let s = self.shared_address(self.lane_address(w, src, l), src.space)?;
                    let address = self.lane_address(w, dst, l);
                    self.linear_alignment(address | s.1 as u64)?;
                    self.shared_bounds(s.0, s.1, n)?;
                    let to = Target::Linear { address, bytes: n, reduce: *reduce };
                    let id = self.enqueue(c, w, pc, Copy::Store { src: s, to });
                    w.bulk_open.push(id);
                }
                Bulk::TensorStore { map, coords, src, reduce } => {
                    let (t, coords) = self.tensor_operands(c, w, pc, l, map, coords)?;
                    let s = self.shared_address(self.lane_address(w, src, l), src.space)?;
                    self.tensor_shared(s.1)?;
                    self.shared_bounds(s.0, s.1, t.shared_bytes() as usize)?;
                    let to = Target::Tensor { map: Box::new(t), coords, reduce: *reduce };
                    let id = self.enqueue(c, w, pc, Copy::Store { src: s, to });
                    w.bulk_open.push(id);
                }
            }
        }
        Ok(())
    }

    /// Waits for all but the last `keep` groups. With `read` only for what they read: their writes may come later.
    fn bulk_wait(&mut self, w: &mut Warp, keep: usize, read: bool) -> Step<()> {
        let done = w.bulk_groups.len().saturating_sub(keep);
        let e = self.bulk_entity(w.entity);
        for i in 0..done {
            for id in w.bulk_groups[i].clone() {
                if read {
                    self.stage_op(id)?
                } else {
                    self.finish_op(id)?
                }
                if let Some(x) = w.vc.own.get_mut(e) {
                    *x = (*x).max(self.clock_of(id));
                }
            }
        }
        // What still writes is waited for once more by a wait without `read`.
        let gone = |q: &[AsyncOp], g: &[u64]| !q.iter().any(|o| g.contains(&o.id));
        while w.bulk_groups.len() > keep && (!read || w.bulk_groups.front().is_some_and(|g| gone(&self.queue, g))) {
            w.bulk_groups.pop_front();
        }
        Ok(())
    }

    fn linear_size(&self, w: &Warp, bytes: crate::ptx::program::Slot, lane: usize) -> Step<usize> {
        let n = w.regs.get(bytes, lane) as usize;
        if n.is_multiple_of(16) {
            return Ok(n);
        }
        stop(FaultKind::Misaligned, format!("bulk copy of {n} bytes; a multiple of 16 is expected"))
    }

    fn linear_alignment(&self, bits: u64) -> Step<()> {
        if bits.is_multiple_of(16) {
            return Ok(());
        }
        stop(FaultKind::Misaligned, "bulk copy with an address that is not a multiple of 16")
    }

    fn tensor_shared(&self, at: usize) -> Step<()> {
        if at.is_multiple_of(128) {
            return Ok(());
        }
        stop(FaultKind::Misaligned, format!("tensor copy with shared address {at:#x}, which is not a multiple of 128"))
    }

    /// Reads and validates a tensor map, and the coordinates of a lane.
    fn tensor_operands(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        lane: usize,
        map: &Addr,
        coords: &[crate::ptx::program::Slot],
    ) -> Step<(TensorMap, Vec<i32>)> {
        let address = self.lane_address(w, map, lane);
        let bytes = self.tensor_map_bytes(c, w, pc, address, map.space)?;
        let t = match TensorMap::from_bytes(&bytes) {
            Ok(t) => t,
            Err(e) => return stop(FaultKind::IllegalTensorMap, e.to_string()),
        };
        if let Err(e) = t.validate() {
            return stop(FaultKind::IllegalTensorMap, e.to_string());
        }
        if t.rank as usize != coords.len() {
            return stop(
                FaultKind::IllegalTensorMap,
                format!("{} coordinates for a tensor map of rank {}", coords.len(), t.rank),
            );
        }
        let coords = coords.iter().map(|s| w.regs.get(*s, lane) as u32 as i32).collect();
        Ok((t, coords))
    }

    pub(crate) fn tensor_map_bytes(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        address: u64,
        space: Space,
    ) -> Step<[u8; TENSOR_MAP_BYTES]> {
        let mut b = [0u8; TENSOR_MAP_BYTES];
        if !address.is_multiple_of(64) {
            return stop(FaultKind::Misaligned, format!("tensor map at {address:#x}, which is not a multiple of 64"));
        }
        if space == Space::Param || address >= PARAM_WINDOW {
            let at = (address - if space == Space::Param { 0 } else { PARAM_WINDOW }) as usize;
            match self.env.params.get(at..at + TENSOR_MAP_BYTES) {
                Some(p) => b.copy_from_slice(p),
                None => {
                    return stop(FaultKind::OutOfBounds, format!("tensor map at offset {at} of the parameters"));
                }
            }
            return Ok(b);
        }
        if space == Space::Shared || address >= crate::ptx::decode::SHARED_WINDOW {
            let (rank, at) = self.shared_address(address, space)?;
            self.shared_bounds(rank, at, TENSOR_MAP_BYTES)?;
            let agent = Agent::of(c, w, pc);
            self.shared_read(&agent, rank, at, TENSOR_MAP_BYTES);
            b.copy_from_slice(&self.ctas[rank].shared[at..at + TENSOR_MAP_BYTES]);
            return Ok(b);
        }
        let l = self.env.view.locate(address, TENSOR_MAP_BYTES, &mut w.last_range);
        let l = match l {
            Ok(l) => l,
            Err(e) => return stop(FaultKind::OutOfBounds, format!("tensor map: {e}")),
        };
        // SAFETY: `locate` checked the whole range; 128 aligned bytes lie in one page.
        unsafe { std::ptr::copy_nonoverlapping(l.ptr, b.as_mut_ptr(), TENSOR_MAP_BYTES) };
        Ok(b)
    }

    #[allow(clippy::too_many_arguments)]
    fn issue_load(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        lane: usize,
        (dst, mbar): (&Addr, &Addr),
        mask: Option<u32>,
        bytes: usize,
        span: usize,
        align: usize,
        from: Source,
    ) -> Step<()> {
        let (rank, at) = self.shared_address(self.lane_address(w, dst, lane), dst.space)?;
        let (brank, bat) = self.shared_address(self.lane_address(w, mbar, lane), mbar.space)?;
        if !at.is_multiple_of(align) {
            return stop(
                FaultKind::Misaligned,
                format!("copy to shared address {at:#x}, which is not a multiple of {align}"),
            );
        }
        let ranks: Vec<usize> = match mask {
            None => vec![rank],
            Some(m) => {
                if m == 0 || (m & 0xffff) >> self.ctas.len() != 0 {
                    return stop(
                        FaultKind::IllegalInstruction,
                        format!("multicast mask {:#06x} in a cluster of {} blocks", m & 0xffff, self.ctas.len()),
                    );
                }
                lanes(m & 0xffff).collect()
            }
        };
        let mut mbars = Vec::new();
        for r in &ranks {
            self.shared_bounds(*r, at, span)?;
            let b = if mask.is_some() { *r } else { brank };
            let i = self.find_mbarrier(b, bat)?;
            self.mbarrier_visible(c, w, pc, b, i);
            mbars.push((b, bat));
        }
        self.counts.tensor_bytes += (bytes * ranks.len()) as u64;
        self.enqueue(c, w, pc, Copy::Load { ranks, dst: at, mbars, from });
        Ok(())
    }

    fn enqueue(&mut self, c: usize, w: &mut Warp, pc: u32, copy: Copy) -> u64 {
        let id = self.next_op;
        self.next_op += 1;
        for r in in_use(&copy) {
            self.ctas[r].in_flight += 1;
        }
        self.max_clock += 1;
        let clock = self.max_clock;
        self.queue.push(AsyncOp {
            id,
            copy,
            knows: w.vc.clone(),
            fenced: w.fenced.clone(),
            cta: c,
            warp: w.id,
            entity: w.entity,
            pc,
            issued: w.clock(),
            clock,
        });
        self.op_clocks.insert(id, clock);
        self.progress += 1;
        // What the warp does later is not ordered before the copy.
        self.tick(w);
        id
    }

    fn clock_of(&self, id: u64) -> u32 {
        self.op_clocks.get(&id).copied().unwrap_or(0)
    }

    fn finish_op(&mut self, id: u64) -> Step<()> {
        match self.queue.iter().position(|o| o.id == id) {
            Some(i) => {
                let op = self.queue.remove(i);
                self.execute(op)
            }
            None => Ok(()),
        }
    }

    /// Lets a store in flight read its source; it writes later.
    fn stage_op(&mut self, id: u64) -> Step<()> {
        let Some(i) = self.queue.iter().position(|o| o.id == id && matches!(o.copy, Copy::Store { .. })) else {
            return Ok(());
        };
        let mut op = self.queue.remove(i);
        for r in in_use(&op.copy) {
            self.ctas[r].in_flight -= 1;
        }
        self.progress += 1;
        let (pieces, reduce) = self.read_source(&op)?;
        op.copy = Copy::Write { pieces, reduce };
        self.queue.insert(i, op);
        Ok(())
    }

    /// Executes some of what is in flight: in any order, at any time.
    pub(crate) fn pump(&mut self, random: bool) {
        let mut i = 0;
        while i < self.queue.len() {
            if random && self.random.next_u64() & 3 != 0 {
                i += 1;
                continue;
            }
            let op = self.queue.remove(i);
            let (cta, warp, pc) = (op.cta, op.warp, op.pc);
            if let Err(s) = self.execute(op) {
                self.find(s.kind, cta, Some(warp), Some(pc), s.message);
                self.env.stop.store(true, std::sync::atomic::Ordering::Relaxed);
                return;
            }
        }
    }
}

/// Blocks whose shared memory a copy uses.
pub(super) fn in_use(c: &Copy) -> Vec<usize> {
    match c {
        Copy::Load { ranks, .. } => ranks.clone(),
        Copy::Peer { src, dst, .. } => vec![src.0, dst.0],
        Copy::Store { src, .. } => vec![src.0],
        Copy::Write { .. } => Vec::new(),
    }
}
