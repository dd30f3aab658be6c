//! `ldmatrix`, `stmatrix` and `mma.sync`.

use super::access::Agent;
use super::mma_rows::Fragments;
use super::regs::{FULL, Regs, row};
use super::tile_math::SpreadA;
use super::unit::{Step, Unit, stop};
use super::warp::Warp;
use crate::check::fault::FaultKind;
use crate::num::float_cvt::{bf16_to_f32, f16_to_f32, f32_to_f16_rn, tf32_to_f32};
use crate::num::format::Format;
use crate::ptx::program::{Addr, Elem, Mma, Slot};
use crate::ptx::types::{Space, Ty};
use std::sync::OnceLock;

/// Values of the 8-bit formats, by code.
fn table(e: Elem) -> &'static [f32; 256] {
    static E4M3: OnceLock<[f32; 256]> = OnceLock::new();
    static E5M2: OnceLock<[f32; 256]> = OnceLock::new();
    let make = |f: &Format| std::array::from_fn(|i| f.decode(i as u64) as f32);
    if e == Elem::E4m3 { E4M3.get_or_init(|| make(&Format::E4M3)) } else { E5M2.get_or_init(|| make(&Format::E5M2)) }
}

/// Converts elements in memory order to f32 (integers exactly).
#[inline]
pub(crate) fn decode_elements(e: Elem, bytes: &[u8], out: &mut [f32]) {
    match e {
        Elem::Bf16 => {
            for (x, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                *x = bf16_to_f32(u16::from_le_bytes([b[0], b[1]]));
            }
        }
        Elem::F16 => {
            for (x, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                *x = f16_to_f32(u16::from_le_bytes([b[0], b[1]]));
            }
        }
        Elem::Tf32 => {
            for (x, b) in out.iter_mut().zip(bytes.chunks_exact(4)) {
                *x = tf32_to_f32(u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            }
        }
        Elem::E4m3 | Elem::E5m2 => {
            let t = table(e);
            for (x, b) in out.iter_mut().zip(bytes) {
                *x = t[*b as usize];
            }
        }
        Elem::S8 => {
            for (x, b) in out.iter_mut().zip(bytes) {
                *x = *b as i8 as f32;
            }
        }
        Elem::U8 => {
            for (x, b) in out.iter_mut().zip(bytes) {
                *x = *b as f32;
            }
        }
        Elem::F64 => {}
    }
}

/// Elements of a register, in memory order.
#[inline(always)]
fn elements(e: Elem, x: u32) -> [f32; 4] {
    match e {
        Elem::Bf16 => [f32::from_bits(x << 16), f32::from_bits(x & 0xffff_0000), 0.0, 0.0],
        Elem::F16 => [f16_to_f32(x as u16), f16_to_f32((x >> 16) as u16), 0.0, 0.0],
        Elem::Tf32 => [tf32_to_f32(x), 0.0, 0.0, 0.0],
        _ => {
            let mut v = [0f32; 4];
            decode_elements(e, &x.to_le_bytes(), &mut v);
            v
        }
    }
}

/// Spreads A of 16 rows and `k` columns from fragment registers.
pub(crate) fn spread_fragment(regs: &[[u32; 32]], k: usize, e: Elem, out: &mut SpreadA) {
    let per = 4 / e.bytes();
    out.k = k;
    out.data.resize(2 * k, [0f32; 32]);
    for (i, r) in regs.iter().enumerate() {
        let half = (i & 1) * k + (i >> 1) * 4 * per;
        for (l, x) in r.iter().enumerate() {
            let v = elements(e, *x);
            let (row, col) = (l / 4 * 4, half + l % 4 * per);
            for (j, v) in v[..per].iter().enumerate() {
                out.data[col + j][row..row + 4].copy_from_slice(&[*v; 4]);
            }
        }
    }
}

impl Unit<'_> {
    pub(crate) fn ldmatrix(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        addr: &Addr,
        d: &[Slot],
        trans: bool,
    ) -> Step<()> {
        for (q, d) in d.iter().enumerate() {
            let mut rows = [[0u8; 16]; 8];
            let mut at8 = [0u64; 32];
            for (r, row) in rows.iter_mut().enumerate() {
                let a = self.lane_address(w, addr, q * 8 + r);
                at8[r] = a & 0xff_ffff;
                let (rank, at) = self.shared_address(a, Space::Shared)?;
                if !at.is_multiple_of(16) {
                    return stop(
                        FaultKind::Misaligned,
                        format!("ldmatrix row at shared address {at:#x} (lane {}), not a multiple of 16", q * 8 + r),
                    );
                }
                self.shared_bounds(rank, at, 16)?;
                let agent = Agent::of(c, w, pc);
                self.shared_read(&agent, rank, at, 16);
                row.copy_from_slice(&self.ctas[rank].shared[at..at + 16]);
            }
            if self.env.settings.counts {
                self.counts.shared_access(&at8, 0xff, 16, false);
            }
            let word = |l: usize| {
                let (r, k) = (&rows[l / 4], l % 4 * 4);
                u32::from_le_bytes([r[k], r[k + 1], r[k + 2], r[k + 3]])
            };
            let half = |r: usize, k: usize| u16::from_le_bytes([rows[r][2 * k], rows[r][2 * k + 1]]) as u32;
            let out: [u32; 32] =
                if trans { row(|l| half(l % 4 * 2, l / 4) | half(l % 4 * 2 + 1, l / 4) << 16) } else { row(word) };
            w.regs.put32(*d, FULL, &out);
        }
        Ok(())
    }

    pub(crate) fn stmatrix(
        &mut self,
        c: usize,
        w: &mut Warp,
        pc: u32,
        addr: &Addr,
        s: &[Slot],
        trans: bool,
    ) -> Step<()> {
        self.progress += 1;
        for (q, s) in s.iter().enumerate() {
            let v = *w.regs.r32(*s);
            let half = |r: usize, k: usize| (v[r * 4 + k / 2] >> (16 * (k & 1))) as u16;
            let mut at8 = [0u64; 32];
            for (r, at8) in at8.iter_mut().enumerate().take(8) {
                let a = self.lane_address(w, addr, q * 8 + r);
                *at8 = a & 0xff_ffff;
                let (rank, at) = self.shared_address(a, Space::Shared)?;
                if !at.is_multiple_of(16) {
                    return stop(
                        FaultKind::Misaligned,
                        format!("stmatrix row at shared address {at:#x} (lane {}), not a multiple of 16", q * 8 + r),
                    );
                }
                self.shared_bounds(rank, at, 16)?;
                let mut row = [0u8; 16];
                for k in 0..8 {
                    let x = if trans { half(k, r) } else { half(r, k) };
                    row[2 * k..2 * k + 2].copy_from_slice(&x.to_le_bytes());
                }
                let same = self.checks && self.ctas[rank].shared[at..at + 16] == row;
                let agent = Agent::of(c, w, pc);
                self.shared_write(&agent, rank, at, 16, false, same);
                self.ctas[rank].shared[at..at + 16].copy_from_slice(&row);
            }
            if self.env.settings.counts {
                self.counts.shared_access(&at8, 0xff, 16, true);
            }
        }
        Ok(())
    }

    pub(crate) fn mma(&mut self, w: &mut Warp, x: &Mma) {
        self.counts.matrix_flops += 2 * (x.m * x.n * x.k) as u64;
        match x.acc {
            Ty::F64 => return mma_f64(&mut w.regs, x),
            Ty::S32 => return mma_s32(&mut w.regs, x),
            _ => {}
        }
        let (mut a, mut b) = ([[0f32; 32]; 16], [[0f32; 32]; 8]);
        let per = 4 / x.b.bytes();
        for (to, s) in a.chunks_exact_mut(per).zip(&x.ra) {
            decode_register(x.a, w.regs.r32(*s), to);
        }
        for (to, s) in b.chunks_exact_mut(per).zip(&x.rb) {
            decode_register(x.b, w.regs.r32(*s), to);
        }
        let mut acc = load_acc(&w.regs, x.acc, &x.rc);
        let fragments = Fragments { a: &a, b: &b, per, registers: x.rb.len() };
        (self.env.mma_rows)(fragments, acc.each_mut(), &mut self.scratch);
        store_acc(&mut w.regs, x.acc, &x.d, &acc);
    }
}

/// Elements of a register in all lanes: one row for each element.
#[inline(always)]
fn decode_register(e: Elem, r: &[u32; 32], out: &mut [[f32; 32]]) {
    match (e, out) {
        (Elem::Bf16, [low, high]) => {
            *low = row(|l| f32::from_bits(r[l] << 16));
            *high = row(|l| f32::from_bits(r[l] & 0xffff_0000));
        }
        (Elem::F16, [low, high]) => {
            *low = row(|l| f16_to_f32(r[l] as u16));
            *high = row(|l| f16_to_f32((r[l] >> 16) as u16));
        }
        (Elem::Tf32, [out]) => *out = row(|l| tf32_to_f32(r[l])),
        (_, out) => {
            for (l, x) in r.iter().enumerate() {
                for (out, v) in out.iter_mut().zip(elements(e, *x)) {
                    out[l] = v;
                }
            }
        }
    }
}

/// Accumulators of eight columns as rows of f32 bits.
pub(crate) fn load_acc(regs: &Regs, ty: Ty, r: &[Slot]) -> [[u32; 32]; 4] {
    if ty == Ty::F16 {
        let v = [*regs.r32(r[0]), *regs.r32(r[1])];
        return std::array::from_fn(|i| row(|l| f16_to_f32((v[i >> 1][l] >> (16 * (i & 1))) as u16).to_bits()));
    }
    std::array::from_fn(|i| *regs.r32(r[i]))
}

/// Writes accumulators of eight columns back.
pub(crate) fn store_acc(regs: &mut Regs, ty: Ty, d: &[Slot], acc: &[[u32; 32]; 4]) {
    if ty == Ty::F16 {
        let half = |x: u32| f32_to_f16_rn(f32::from_bits(x)) as u32;
        for h in 0..2 {
            let v = row(|l| half(acc[2 * h][l]) | half(acc[2 * h + 1][l]) << 16);
            regs.put32(d[h], FULL, &v);
        }
        return;
    }
    for (d, a) in d.iter().zip(acc) {
        regs.put32(*d, FULL, a);
    }
}

fn mma_s32(regs: &mut Regs, x: &Mma) {
    let int = |e: Elem, b: u8| {
        if e == Elem::S8 { b as i8 as i64 } else { b as i64 }
    };
    let mut a = vec![0i64; x.m * x.k];
    for (i, s) in x.ra.iter().enumerate() {
        for (l, v) in regs.r32(*s).iter().enumerate() {
            for (j, b) in v.to_le_bytes().iter().enumerate() {
                a[(l / 4 + 8 * (i & 1)) * x.k + l % 4 * 4 + (i >> 1) * 16 + j] = int(x.a, *b);
            }
        }
    }
    let mut b = vec![0i64; x.k * x.n];
    for (i, s) in x.rb.iter().enumerate() {
        for (l, v) in regs.r32(*s).iter().enumerate() {
            for (j, y) in v.to_le_bytes().iter().enumerate() {
                b[(l % 4 * 4 + i * 16 + j) * x.n + l / 4] = int(x.b, *y);
            }
        }
    }
    for (i, d) in x.d.iter().enumerate() {
        let c = *regs.r32(x.rc[i]);
        let v: [u32; 32] = std::array::from_fn(|l| {
            let (r, n) = (l / 4 + 8 * (i >> 1), l % 4 * 2 + (i & 1));
            let sum = c[l] as i32 as i64 + (0..x.k).map(|k| a[r * x.k + k] * b[k * x.n + n]).sum::<i64>();
            if x.satfinite { sum.clamp(i32::MIN as i64, i32::MAX as i64) as i32 as u32 } else { sum as u32 }
        });
        regs.put32(*d, FULL, &v);
    }
}

fn mma_f64(regs: &mut Regs, x: &Mma) {
    let mut a = vec![0f64; x.m * x.k];
    let halves = x.m / 8;
    for (i, s) in x.ra.iter().enumerate() {
        for (l, v) in regs.r64(*s).iter().enumerate() {
            a[(l / 4 + 8 * (i % halves)) * x.k + l % 4 + i / halves * 4] = f64::from_bits(*v);
        }
    }
    let mut b = vec![0f64; x.k * x.n];
    for (i, s) in x.rb.iter().enumerate() {
        for (l, v) in regs.r64(*s).iter().enumerate() {
            b[(l % 4 + i * 4) * x.n + l / 4] = f64::from_bits(*v);
        }
    }
    for (i, d) in x.d.iter().enumerate() {
        let c = *regs.r64(x.rc[i]);
        let v: [u64; 32] = std::array::from_fn(|l| {
            let (r, n) = (l / 4 + 8 * (i >> 1), l % 4 * 2 + (i & 1));
            (0..x.k).fold(f64::from_bits(c[l]), |s, k| a[r * x.k + k].mul_add(b[k * x.n + n], s)).to_bits()
        });
        regs.put64(*d, FULL, &v);
    }
}
