//! `wgmma`: issue, execution at the wait, operand tiles.
//!
//! An operation takes its operands when it is waited for, the latest moment that the hardware is allowed to: whoever
//! overwrites a tile too early is found by value as well as by the race checks. A tile that was converted once serves
//! all warps until its bytes change.

use super::matrix::{decode_elements, load_acc, spread_fragment, store_acc};
use super::regs::FULL;
use super::tile_math::SpreadA;
use super::unit::{Step, Unit, stop};
use super::warp::{PendingWgmma, Warp};
use crate::check::fault::FaultKind;
use crate::check::shared::{Conflict, Who, Writer};
use crate::ptx::decode::SHARED_START;
use crate::ptx::operands::for_each_slot;
use crate::ptx::program::{Elem, File, Inst, Op, Slot, Wgmma};
use crate::ptx::types::Ty;
use crate::tensormap::MatrixDescriptor;
use std::collections::{HashMap, HashSet};

/// What identifies an operand tile.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TileKey {
    descriptor: u64,
    /// First row or column, and how many.
    first: u32,
    count: u32,
    k: u32,
    element: Elem,
    /// Whether K is the contiguous dimension.
    k_major: bool,
    /// B is grouped for the product, A is row-major.
    grouped: bool,
}

/// A converted operand tile; the default is an empty place.
#[derive(Default)]
struct Tile {
    key: Option<TileKey>,
    /// KiB of shared memory that the tile touches, with their versions.
    versions: Vec<(u32, u32)>,
    /// A, spread over the lanes.
    spread: Option<SpreadA>,
    /// B as `[column / 8][k][2][4]`.
    grouped: Vec<[f32; 8]>,
    /// Offsets of the 16-byte chunks.
    chunks: Vec<u32>,
    /// Distinct last writers of the bytes.
    writers: Vec<Writer>,
    uninitialised: Option<usize>,
    /// Warpgroups whose reads are recorded, with the clock of the last one: its four warps read as one.
    readers: Vec<(usize, u32)>,
}

/// Recently used tiles of a block.
#[derive(Default)]
pub(crate) struct TileCache {
    tiles: Vec<Tile>,
    index: HashMap<TileKey, usize>,
    next: usize,
}

/// Tiles kept: enough for all stages of a deep pipeline.
const TILES: usize = 256;

impl Unit<'_> {
    /// Checks an instruction that touches registers of a `wgmma`.
    pub(crate) fn wgmma_registers(&mut self, w: &mut Warp, inst: &Inst) -> Step<()> {
        if matches!(inst.op, Op::Wgmma(_)) || !self.checks {
            return Ok(());
        }
        if w.dirty.is_empty() {
            w.dirty = vec![false; self.env.program.rows32];
        }
        let dirty = &mut w.dirty;
        for_each_slot(&inst.op, &mut |s, written| {
            if written && !s.is_none() && s.file() == File::R32 {
                dirty[s.index()] = true;
            }
        });
        if !w.wgmma_pending() {
            return Ok(());
        }
        let mut accumulators: HashSet<Slot> = HashSet::new();
        let mut sources: HashSet<Slot> = HashSet::new();
        for p in w.wgmma_open.iter().chain(w.wgmma_groups.iter().flatten()) {
            if let Op::Wgmma(x) = &self.env.program.insts[p.pc as usize].op {
                accumulators.extend(x.d.iter().copied());
                if !x.a_in_shared {
                    sources.extend(x.ra.iter().copied());
                }
            }
        }
        let mut bad = None;
        for_each_slot(&inst.op, &mut |s, written| {
            if accumulators.contains(&s) {
                bad = Some(if written { "writes an accumulator" } else { "reads an accumulator" });
            } else if written && sources.contains(&s) {
                bad = Some("overwrites a register of A");
            }
        });
        match bad {
            Some(what) => stop(
                FaultKind::WgmmaMisuse,
                format!("the instruction {what} of a wgmma in flight; wait with wgmma.wait_group first"),
            ),
            None => Ok(()),
        }
    }

    pub(crate) fn wgmma_issue(&mut self, w: &mut Warp, pc: u32, x: &Wgmma) -> Step<()> {
        if self.checks {
            if !w.fenced_once {
                return stop(FaultKind::WgmmaMisuse, "wgmma without a wgmma.fence before it");
            }
            let dirty = |s: &Slot| w.dirty.get(s.index()).copied().unwrap_or(false);
            let uses_d = w.regs.pred(x.scale_d) & 1 == 1;
            if (uses_d && x.d.iter().any(dirty)) || (!x.a_in_shared && x.ra.iter().any(dirty)) {
                return stop(FaultKind::WgmmaMisuse, "registers of the wgmma were written after the last wgmma.fence");
            }
        }
        if w.id / 4 * 4 + 4 > self.env.warps {
            return stop(FaultKind::Divergence, "wgmma in a warpgroup of fewer than four warps");
        }
        let uniform = |w: &Warp, s: Slot, what: &str| -> Step<u64> {
            let v = w.regs.wide(s);
            if v.iter().all(|x| *x == v[0]) {
                return Ok(v[0]);
            }
            stop(FaultKind::IllegalDescriptor, format!("{what} differs between the lanes of a warp"))
        };
        let desc_b = uniform(w, x.desc_b, "the descriptor of B")?;
        let desc_a = if x.a_in_shared { uniform(w, x.ra[0], "the descriptor of A")? } else { 0 };
        let scale_d = uniform(w, x.scale_d, "scale-d")? & 1 == 1;
        let a = if x.a_in_shared { Vec::new() } else { x.ra.iter().map(|s| *w.regs.r32(*s)).collect() };
        for (used, d) in [(x.a_in_shared, desc_a), (true, desc_b)] {
            if used && let Err(e) = MatrixDescriptor::decode(d) {
                return stop(FaultKind::IllegalDescriptor, e.to_string());
            }
        }
        w.wgmma_open.push(PendingWgmma { pc, desc_a, desc_b, scale_d, a });
        Ok(())
    }

    /// Executes an operation for one warp; `clock` is that of the reads of its warpgroup.
    pub(super) fn wgmma_execute(&mut self, c: usize, w: &mut Warp, p: &PendingWgmma, clock: u32) -> Step<()> {
        let env = self.env;
        let Op::Wgmma(x) = &env.program.insts[p.pc as usize].op else {
            return Ok(());
        };
        let (n, k) = (x.n, x.k);
        self.counts.matrix_flops += 2 * (16 * n * k) as u64;
        let a = if x.a_in_shared {
            let key = TileKey {
                descriptor: p.desc_a,
                first: (w.id % 4 * 16) as u32,
                count: 16,
                k: k as u32,
                element: x.a,
                k_major: !x.trans_a,
                grouped: false,
            };
            Some(self.tile(c, w, (p.pc, clock), key, None)?)
        } else {
            None
        };
        let key = TileKey {
            descriptor: p.desc_b,
            first: 0,
            count: n as u32,
            k: k as u32,
            element: x.b,
            k_major: !x.trans_b,
            grouped: true,
        };
        let t = self.tile(c, w, (p.pc, clock), key, a)?;
        let tiles = &self.ctas[c].tiles.tiles;
        let b = &tiles[t].grouped;
        let owned;
        let mut a = match a.and_then(|i| tiles[i].spread.as_ref()) {
            Some(s) => s,
            None => {
                let mut fragment = SpreadA::default();
                spread_fragment(&p.a, k, x.a, &mut fragment);
                owned = fragment;
                &owned
            }
        };
        if x.acc == Ty::S32 {
            integer(w, x, p.scale_d, a, b);
            return Ok(());
        }
        let flipped;
        if x.neg_a ^ x.neg_b {
            flipped = a.negated();
            a = &flipped;
        }
        let per = if x.acc == Ty::F16 { 2 } else { 4 };
        for j in 0..n / 8 {
            let d = &x.d[j * per..(j + 1) * per];
            let b = &b[j * k..(j + 1) * k];
            if x.acc == Ty::F32
                && let Ok(mut rows) =
                    w.regs.r.get_disjoint_mut([d[0].index(), d[1].index(), d[2].index(), d[3].index()])
            {
                if !p.scale_d {
                    rows.iter_mut().for_each(|r| r.fill(0));
                }
                (env.mac)(a, b, rows);
                continue;
            }
            let mut acc = if p.scale_d { load_acc(&w.regs, x.acc, d) } else { [[0; 32]; 4] };
            (env.mac)(a, b, acc.each_mut());
            store_acc(&mut w.regs, x.acc, d, &acc);
        }
        Ok(())
    }

    /// Index of the converted tile in the cache, after all checks of the reading warp. `keep` stays where it is.
    fn tile(&mut self, c: usize, w: &Warp, (pc, clock): (u32, u32), key: TileKey, keep: Option<usize>) -> Step<usize> {
        let cta = &mut self.ctas[c];
        let cache = &mut cta.tiles;
        let i = match cache.index.get(&key) {
            Some(i) => *i,
            None if cache.tiles.len() < TILES => {
                cache.tiles.push(Tile::default());
                cache.tiles.len() - 1
            }
            None => {
                let mut i = cache.next;
                if Some(i) == keep {
                    i = (i + 1) % TILES;
                }
                cache.next = (i + 1) % TILES;
                if let Some(old) = cache.tiles[i].key {
                    cache.index.remove(&old);
                }
                i
            }
        };
        let t = &cache.tiles[i];
        let fresh = t.key == Some(key) && t.versions.iter().all(|(b, v)| cta.versions[*b as usize] == *v);
        if !fresh {
            let mut t = std::mem::take(&mut cache.tiles[i]);
            if t.key != Some(key) {
                t.key = None;
                t.readers.clear();
                t.locate(key, self.env.shared_end)?;
                cache.index.insert(key, i);
            }
            t.convert(&cta.shared, &cta.versions);
            if self.checks {
                (t.writers, t.uninitialised) = cta.shadow.summary(&t.chunks);
            }
            cache.tiles[i] = t;
        }
        if self.checks {
            let t = &mut cta.tiles.tiles[i];
            let who = Who { entity: w.entity, clock, knows: &w.vc, fenced: Some(&w.fenced) };
            let group = w.id / 4;
            if !t.readers.contains(&(group, clock)) {
                cta.shadow.read_chunks(&t.chunks, group, clock);
                t.readers.retain(|r| r.0 != group);
                t.readers.push((group, clock));
            }
            let at = t.chunks.first().copied().unwrap_or(0) as usize;
            let conflict = t.writers.iter().find_map(|x| who.conflict(x, at));
            let uninitialised = t.uninitialised;
            if let Some(off) = uninitialised {
                let offset = off as i64 - SHARED_START as i64;
                self.find(
                    FaultKind::Uninitialised,
                    c,
                    Some(w.id),
                    Some(pc),
                    format!("shared memory at offset {offset} was never written"),
                );
            }
            if let Some(x) = conflict {
                let (kind, e, how) = match x {
                    Conflict::ProxyFence { entity, .. } => {
                        (FaultKind::MissingProxyFence, entity, "wrote without fence.proxy.async after it")
                    }
                    Conflict::ReadAfterWrite { entity, .. }
                    | Conflict::WriteAfterWrite { entity, .. }
                    | Conflict::WriteAfterRead { entity, .. } => (FaultKind::SharedRace, entity, "wrote, unordered"),
                };
                let (me, other) = (self.entity_name(w.entity), self.entity_name(e));
                let offset = at as i64 - SHARED_START as i64;
                let message =
                    format!("wgmma of {me} reads the tile at offset {offset} of shared memory, which {other} {how}");
                self.find(kind, c, Some(w.id), Some(pc), message);
            }
        }
        Ok(i)
    }
}

impl Tile {
    /// Finds the chunks of a tile.
    fn locate(&mut self, key: TileKey, end: usize) -> Step<()> {
        let d = match MatrixDescriptor::decode(key.descriptor) {
            Ok(d) => d,
            Err(e) => return stop(FaultKind::IllegalDescriptor, e.to_string()),
        };
        let per = 16 / key.element.bytes() as u32;
        self.chunks.clear();
        if key.k_major {
            for r in 0..key.count {
                self.chunks.extend((0..key.k / per).map(|q| d.k_major_chunk(key.first + r, q)));
            }
        } else {
            for kk in 0..key.k {
                self.chunks.extend((0..key.count / per).map(|q| d.mn_major_chunk(key.first / per + q, kk)));
            }
        }
        for at in &self.chunks {
            let at = *at as usize;
            if at < SHARED_START as usize || at + 16 > end {
                let offset = at as i64 - SHARED_START as i64;
                return stop(
                    FaultKind::OutOfBounds,
                    format!("the descriptor {:#018x} reaches offset {offset} of shared memory", key.descriptor),
                );
            }
        }
        let mut blocks: Vec<u32> = self.chunks.iter().map(|c| c >> 10).collect();
        blocks.sort_unstable();
        blocks.dedup();
        self.versions = blocks.into_iter().map(|b| (b, 0)).collect();
        self.key = Some(key);
        Ok(())
    }

    /// Converts the bytes as they are now.
    fn convert(&mut self, shared: &[u8], versions: &[u32]) {
        let Some(key) = self.key else { return };
        for (b, v) in &mut self.versions {
            *v = versions[*b as usize];
        }
        let per = 16 / key.element.bytes();
        let (count, k) = (key.count as usize, key.k as usize);
        let mut v = [0f32; 16];
        if key.grouped {
            self.grouped.resize(count / 8 * k, [0f32; 8]);
            // Columns of eight, two by four: even ones first.
            let row = if key.k_major { k / per } else { count / per };
            if key.k_major {
                let mut lines = [[0f32; 16]; 8];
                for (j, chunks) in self.chunks.chunks_exact(8 * row).enumerate() {
                    for q in 0..row {
                        for (r, line) in lines.iter_mut().enumerate() {
                            decode_chunk(key.element, shared, chunks[r * row + q], &mut line[..per]);
                        }
                        let first = j * k + q * per;
                        for (kk, g) in self.grouped[first..first + per].iter_mut().enumerate() {
                            *g = std::array::from_fn(|i| lines[i % 4 * 2 + i / 4][kk]);
                        }
                    }
                }
                return;
            }
            let place = |r: usize| (r & 1) * 4 + r % 8 / 2;
            for (line, chunks) in self.chunks.chunks_exact(row).enumerate() {
                for (q, at) in chunks.iter().enumerate() {
                    decode_chunk(key.element, shared, *at, &mut v[..per]);
                    for (i, x) in v[..per].iter().enumerate() {
                        let r = q * per + i;
                        self.grouped[r / 8 * k + line][place(r)] = *x;
                    }
                }
            }
            return;
        }
        let spread = self.spread.get_or_insert_with(|| SpreadA { k, data: Vec::new() });
        spread.k = k;
        spread.data.resize(2 * k, [0f32; 32]);
        let mut put = |r: usize, kk: usize, x: f32| {
            spread.data[r / 8 * k + kk][r % 8 * 4..r % 8 * 4 + 4].fill(x);
        };
        let row = if key.k_major { k / per } else { count / per };
        for (line, chunks) in self.chunks.chunks_exact(row).enumerate() {
            for (q, at) in chunks.iter().enumerate() {
                decode_chunk(key.element, shared, *at, &mut v[..per]);
                for (i, x) in v[..per].iter().enumerate() {
                    if key.k_major { put(line, q * per + i, *x) } else { put(q * per + i, line, *x) }
                }
            }
        }
    }
}

/// Converts the 16 bytes at `at`. The most frequent type is converted in place of a call.
#[inline(always)]
fn decode_chunk(e: Elem, shared: &[u8], at: u32, out: &mut [f32]) {
    let bytes = &shared[at as usize..at as usize + 16];
    if e == Elem::Bf16 {
        for (x, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            *x = f32::from_bits((u16::from_le_bytes([b[0], b[1]]) as u32) << 16);
        }
    } else {
        decode_elements(e, bytes, out);
    }
}

/// Eight-bit integers with 32-bit accumulators.
fn integer(w: &mut Warp, x: &Wgmma, scale_d: bool, a: &SpreadA, b: &[[f32; 8]]) {
    for j in 0..x.n / 8 {
        for i in 0..4 {
            let d = x.d[j * 4 + i];
            let old = *w.regs.r32(d);
            let v: [u32; 32] = std::array::from_fn(|l| {
                let col = (i & 1) * 4 + l % 4;
                let start = if scale_d { old[l] as i32 as i64 } else { 0 };
                let sum =
                    (0..x.k).map(|k| a.data[(i >> 1) * x.k + k][l] as i64 * b[j * x.k + k][col] as i64).sum::<i64>()
                        + start;
                if x.satfinite { sum.clamp(i32::MIN as i64, i32::MAX as i64) as u32 } else { sum as u32 }
            });
            w.regs.put32(d, FULL, &v);
        }
    }
}
