//! Execution of bulk copies: the bytes move, checks are made, transactions complete.

use super::access::Agent;
use super::bulk_reduce::reduce_element;
use super::memory::PAGE_BYTES;
use super::queue::{AsyncOp, Copy, Source, Target, in_use};
use super::unit::{Step, Unit, stop};
use crate::check::fault::FaultKind;
use crate::check::global::Scope;
use crate::ptx::program::ReduceOp;
use crate::ptx::types::Ty;
use crate::tensormap::{DataType, Swizzle, TensorMap};

/// Bytes with their global addresses, and how they are combined with what is there.
pub(super) type Pieces = (Vec<(u64, Vec<u8>)>, Option<(ReduceOp, Ty)>);

impl Unit<'_> {
    pub(super) fn execute(&mut self, op: AsyncOp) -> Step<()> {
        self.progress += 1;
        for r in in_use(&op.copy) {
            self.ctas[r].in_flight -= 1;
        }
        match &op.copy {
            Copy::Load { ranks, dst, mbars, from } => {
                let bytes = match from {
                    Source::Linear { bytes, .. } => *bytes,
                    Source::Tensor { map, .. } => map.transaction_bytes() as usize,
                };
                for (rank, (brank, bat)) in ranks.iter().zip(mbars) {
                    let i = self.find_mbarrier(*brank, *bat)?;
                    let b = &self.ctas[*brank].mbarriers[i];
                    let agent = agent(&op, b.entity, b.clock);
                    match from {
                        Source::Linear { address, bytes } => self.load_linear(&agent, *rank, *dst, *address, *bytes)?,
                        Source::Tensor { map, coords } => self.load_box(&agent, *rank, *dst, map, coords)?,
                    }
                    self.complete_transaction(*brank, i, bytes as i64, Some(&op.knows))?;
                }
            }
            Copy::Peer { src, dst, bytes, mbar } => {
                let i = self.find_mbarrier(mbar.0, mbar.1)?;
                let b = &self.ctas[mbar.0].mbarriers[i];
                let reader = agent(&op, self.bulk_entity(op.entity), op.clock);
                let writer = agent(&op, b.entity, b.clock);
                self.shared_bounds(src.0, src.1, *bytes)?;
                self.shared_bounds(dst.0, dst.1, *bytes)?;
                self.shared_read(&reader, src.0, src.1, *bytes);
                self.shared_write(&writer, dst.0, dst.1, *bytes, true, false);
                let data = self.ctas[src.0].shared[src.1..src.1 + bytes].to_vec();
                self.ctas[dst.0].shared[dst.1..dst.1 + bytes].copy_from_slice(&data);
                self.complete_transaction(mbar.0, i, *bytes as i64, Some(&op.knows))?;
            }
            Copy::Store { .. } => {
                let (pieces, reduce) = self.read_source(&op)?;
                self.write_pieces(&op, &pieces, reduce)?;
            }
            Copy::Write { pieces, reduce } => self.write_pieces(&op, pieces, *reduce)?,
        }
        Ok(())
    }

    fn load_box(&mut self, a: &Agent<'_>, rank: usize, dst: usize, map: &TensorMap, coords: &[i32]) -> Step<()> {
        let (bytes, span) = (map.row_bytes() as usize, map.shared_bytes() as usize);
        self.shared_bounds(rank, dst, span)?;
        // A swizzle permutes chunks within rows: where rows are dense the box as a whole is what is written.
        let dense = map.row_bytes() == map.row_pitch();
        if dense {
            self.shared_write(a, rank, dst, span, true, false);
        }
        let pattern = map.fill_pattern().to_le_bytes();
        let size = map.data_type.bytes() as usize;
        let mut rows = Vec::new();
        map.for_each_row(coords, dst as u64, |r| rows.push(r));
        let mut row = vec![0u8; bytes];
        for r in rows {
            let (first, valid) = (r.first as usize, r.valid as usize);
            if valid < bytes {
                for (i, x) in row.iter_mut().enumerate() {
                    *x = pattern[i % size];
                }
            }
            if valid > 0 {
                let to = row.as_mut_ptr();
                self.for_pages(a, r.global, valid, false, |_, done, ptr, k| {
                    // SAFETY: `for_pages` checked the global range; the row holds `first + valid` bytes.
                    unsafe { std::ptr::copy_nonoverlapping(ptr, to.add(first + done), k) }
                })?;
            }
            if map.data_type.flushes() {
                for x in row.chunks_exact_mut(4) {
                    if x[3] & 0x7f == 0 && x[2] & 0x80 == 0 {
                        x[..3].fill(0);
                        x[3] &= 0x80;
                    }
                }
            }
            let shared = &mut self.ctas[rank].shared;
            for_chunks(map, r.shared, bytes, |offset, at, n| {
                if n == 16 {
                    // A fixed length is a single move.
                    let mut chunk = [0u8; 16];
                    chunk.copy_from_slice(&row[offset..offset + 16]);
                    shared[at..at + 16].copy_from_slice(&chunk);
                } else {
                    shared[at..at + n].copy_from_slice(&row[offset..offset + n]);
                }
            });
            if !dense {
                let mut parts = Vec::new();
                for_chunks(map, r.shared, bytes, |_, at, n| parts.push((at, n)));
                for (at, n) in parts {
                    self.shared_write(a, rank, at, n, true, false);
                }
            }
        }
        Ok(())
    }

    /// The reads of a store from shared memory: bytes with the global addresses that they go to.
    pub(super) fn read_source(&mut self, op: &AsyncOp) -> Step<Pieces> {
        let Copy::Store { src, to } = &op.copy else {
            return Ok((Vec::new(), None));
        };
        let reader = agent(op, self.bulk_entity(op.entity), op.clock);
        match to {
            Target::Linear { address, bytes, reduce } => {
                self.shared_read(&reader, src.0, src.1, *bytes);
                self.counts.tensor_bytes += *bytes as u64;
                let data = self.ctas[src.0].shared[src.1..src.1 + bytes].to_vec();
                Ok((vec![(*address, data)], reduce.map(|r| (r.op, r.ty))))
            }
            Target::Tensor { map, coords, reduce } => {
                let pieces = self.read_box(&reader, *src, map, coords);
                Ok((pieces, reduce.map(|op| (op, map_type(map.data_type)))))
            }
        }
    }

    fn write_pieces(&mut self, op: &AsyncOp, pieces: &[(u64, Vec<u8>)], reduce: Option<(ReduceOp, Ty)>) -> Step<()> {
        let writer = agent(op, self.bulk_entity(op.entity), op.clock);
        pieces.iter().try_for_each(|(address, data)| self.store_bytes(&writer, data, *address, reduce))
    }

    fn read_box(&mut self, a: &Agent<'_>, src: (usize, usize), map: &TensorMap, coords: &[i32]) -> Vec<(u64, Vec<u8>)> {
        let bytes = map.row_bytes() as usize;
        let dense = map.row_bytes() == map.row_pitch();
        let mut rows = Vec::new();
        map.for_each_row(coords, src.1 as u64, |r| rows.push(r));
        let whole = rows.iter().all(|r| r.valid as usize == bytes);
        if dense && whole {
            self.shared_read(a, src.0, src.1, map.shared_bytes() as usize);
        }
        let mut out = Vec::new();
        let mut row = vec![0u8; bytes];
        for r in rows {
            let (first, valid) = (r.first as usize, r.valid as usize);
            if valid == 0 {
                continue;
            }
            let mut parts = Vec::new();
            for_chunks(map, r.shared, bytes, |offset, at, n| {
                row[offset..offset + n].copy_from_slice(&self.ctas[src.0].shared[at..at + n]);
                // Only the bytes that are stored count as read.
                let (lo, hi) = (offset.max(first), (offset + n).min(first + valid));
                if lo < hi {
                    parts.push((at + lo - offset, hi - lo));
                }
            });
            if !(dense && whole) {
                for (at, n) in parts {
                    self.shared_read(a, src.0, at, n);
                }
            }
            self.counts.tensor_bytes += valid as u64;
            out.push((r.global, row[first..first + valid].to_vec()));
        }
        out
    }

    /// Copies bytes from global to shared memory.
    fn load_linear(&mut self, a: &Agent<'_>, rank: usize, at: usize, address: u64, n: usize) -> Step<()> {
        self.shared_bounds(rank, at, n)?;
        self.shared_write(a, rank, at, n, true, false);
        self.for_pages(a, address, n, false, |unit, done, ptr, k| {
            // SAFETY: `for_pages` checked the global range; the shared range was checked above.
            unsafe { std::ptr::copy_nonoverlapping(ptr, unit.ctas[rank].shared.as_mut_ptr().add(at + done), k) }
        })
    }

    /// Copies or reduces bytes into global memory.
    fn store_bytes(&mut self, a: &Agent<'_>, data: &[u8], address: u64, reduce: Option<(ReduceOp, Ty)>) -> Step<()> {
        let Some((op, ty)) = reduce else {
            return self.for_pages(a, address, data.len(), true, |_, done, ptr, k| {
                // SAFETY: `for_pages` checked the global range and its lengths add up to `data`.
                unsafe { std::ptr::copy_nonoverlapping(data.as_ptr().add(done), ptr, k) }
            });
        };
        let size = ty.size();
        for (i, x) in data.chunks_exact(size).enumerate() {
            let mut v = [0u8; 8];
            v[..size].copy_from_slice(x);
            let at = address + (i * size) as u64;
            let env = self.env;
            let l = match env.view.locate(at, size, &mut self.last_range) {
                Ok(l) => l,
                Err(e) => return stop(FaultKind::OutOfBounds, e.to_string()),
            };
            self.global_check(a, l.page, at, size, true, Scope::Wide);
            if !reduce_element(l.ptr, u64::from_le_bytes(v), op, ty) {
                return stop(FaultKind::IllegalInstruction, format!("bulk reduction {op:?} of {ty:?}"));
            }
        }
        Ok(())
    }

    /// Calls `f` for the parts of a global range that lie in one page each, after checking them.
    fn for_pages(
        &mut self,
        a: &Agent<'_>,
        address: u64,
        n: usize,
        write: bool,
        mut f: impl FnMut(&mut Self, usize, *mut u8, usize),
    ) -> Step<()> {
        let mut done = 0;
        let mut last = self.last_range;
        while done < n {
            let at = address + done as u64;
            let k = (PAGE_BYTES - (at as usize & (PAGE_BYTES - 1))).min(n - done);
            let env = self.env;
            let l = match env.view.locate(at, k, &mut last) {
                Ok(l) => l,
                Err(e) => return stop(FaultKind::OutOfBounds, e.to_string()),
            };
            self.global_check(a, l.page, at, k, write, Scope::Weak);
            f(self, done, l.ptr, k);
            done += k;
        }
        self.last_range = last;
        Ok(())
    }
}

/// Calls `f` with offset in the row, shared address and length of each piece of a row that the swizzle keeps together.
fn for_chunks(map: &TensorMap, shared: u64, bytes: usize, mut f: impl FnMut(usize, usize, usize)) {
    if map.swizzle == Swizzle::None {
        return f(0, shared as usize, bytes);
    }
    let mut at = 0;
    while at < bytes {
        let n = (bytes - at).min(16);
        f(at, map.swizzle.apply(shared + at as u64) as usize, n);
        at += n;
    }
}

fn agent<'a>(op: &'a AsyncOp, entity: usize, clock: u32) -> Agent<'a> {
    Agent {
        cta: op.cta,
        warp: op.warp,
        pc: op.pc,
        entity,
        clock,
        global: (op.entity, op.issued),
        knows: &op.knows,
        fenced: Some(&op.fenced),
    }
}

fn map_type(t: DataType) -> Ty {
    match t {
        DataType::U8 => Ty::U8,
        DataType::U16 => Ty::U16,
        DataType::U32 => Ty::U32,
        DataType::S32 => Ty::S32,
        DataType::U64 => Ty::U64,
        DataType::S64 => Ty::S64,
        DataType::F16 => Ty::F16,
        DataType::Bf16 => Ty::BF16,
        DataType::F64 => Ty::F64,
        _ => Ty::F32,
    }
}
