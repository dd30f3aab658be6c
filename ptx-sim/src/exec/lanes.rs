//! Lane-wise instructions: one loop over 32 lanes each.
//!
//! The same code is compiled for the baseline instruction set and for wider vectors, and chosen once per machine.

use super::regs::{Regs, lanes, row};
use crate::num::float_cvt::{f16_to_f32, f32_to_bf16_rn, f32_to_f16_rn};
use crate::num::min_max::{MinMaxModifiers, min_max_f32};
use crate::num::permute;
use crate::num::rounded::canonical_f32;
use crate::ptx::program::{BoolOp, Cmp, LaneOp, Map, MapFn, Op, SetP, Slot};
use crate::ptx::types::Ty;

/// Executes an [`Op::Lane`], [`Op::SetP`] or [`Op::Map`]; returns false for anything else.
pub(crate) type LaneFn = fn(&Op, &mut Regs, u32) -> bool;

/// The widest version that this CPU can run.
pub(crate) fn select() -> LaneFn {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("fma")
        {
            // SAFETY: the features were just detected.
            return |op, regs, mask| unsafe { step_avx512(op, regs, mask) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the features were just detected.
            return |op, regs, mask| unsafe { step_avx2(op, regs, mask) };
        }
    }
    step
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,popcnt,bmi1,bmi2,lzcnt")]
fn step_avx512(op: &Op, regs: &mut Regs, mask: u32) -> bool {
    step(op, regs, mask)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,popcnt,bmi1,bmi2,lzcnt")]
fn step_avx2(op: &Op, regs: &mut Regs, mask: u32) -> bool {
    step(op, regs, mask)
}

#[inline(always)]
fn one32(r: &mut Regs, d: Slot, a: Slot, m: u32, f: impl Fn(u32) -> u32) {
    let x = *r.r32(a);
    let v: [u32; 32] = row(|l| f(x[l]));
    r.put32(d, m, &v);
}

#[inline(always)]
fn two32(r: &mut Regs, d: Slot, s: &[Slot; 3], m: u32, f: impl Fn(u32, u32) -> u32) {
    let (x, y) = (r.r32(s[0]), r.r32(s[1]));
    let v: [u32; 32] = row(|l| f(x[l], y[l]));
    r.put32(d, m, &v);
}

#[inline(always)]
fn three32(r: &mut Regs, d: Slot, s: &[Slot; 3], m: u32, f: impl Fn(u32, u32, u32) -> u32) {
    let (x, y, z) = (r.r32(s[0]), r.r32(s[1]), r.r32(s[2]));
    let v: [u32; 32] = row(|l| f(x[l], y[l], z[l]));
    r.put32(d, m, &v);
}

#[inline(always)]
fn two64(r: &mut Regs, d: Slot, s: &[Slot; 3], m: u32, f: impl Fn(u64, u64) -> u64) {
    let (x, y) = (r.r64(s[0]), r.r64(s[1]));
    let v: [u64; 32] = row(|l| f(x[l], y[l]));
    r.put64(d, m, &v);
}

#[inline(always)]
fn shift64(r: &mut Regs, d: Slot, s: &[Slot; 3], m: u32, f: impl Fn(u64, u32) -> u64) {
    let (x, y) = (r.r64(s[0]), r.r32(s[1]));
    let v: [u64; 32] = row(|l| f(x[l], y[l]));
    r.put64(d, m, &v);
}

#[inline(always)]
fn widen(r: &mut Regs, d: Slot, s: &[Slot; 3], m: u32, f: impl Fn(u32, u32) -> u64) {
    let (x, y) = (r.r32(s[0]), r.r32(s[1]));
    let v: [u64; 32] = row(|l| f(x[l], y[l]));
    r.put64(d, m, &v);
}

#[inline(always)]
fn float2(r: &mut Regs, d: Slot, s: &[Slot; 3], m: u32, f: impl Fn(f32, f32) -> f32) {
    two32(r, d, s, m, |a, b| canonical_f32(f(f32::from_bits(a), f32::from_bits(b))).to_bits());
}

#[inline(always)]
fn double2(r: &mut Regs, d: Slot, s: &[Slot; 3], m: u32, f: impl Fn(f64, f64) -> f64) {
    two64(r, d, s, m, |a, b| f(f64::from_bits(a), f64::from_bits(b)).to_bits());
}

#[inline(always)]
fn step(op: &Op, r: &mut Regs, m: u32) -> bool {
    match op {
        Op::Lane(op, d, s) => lane(*op, *d, s, r, m),
        Op::SetP(x) => setp(x, r, m),
        Op::Map(x) => map(x, r, m),
        _ => return false,
    }
    true
}

#[inline(always)]
fn lane(op: LaneOp, d: Slot, s: &[Slot; 3], r: &mut Regs, m: u32) {
    use LaneOp::*;
    match op {
        Mov32 => {
            let v = *r.r32(s[0]);
            r.put32(d, m, &v);
        }
        Mov64 => {
            let v = *r.r64(s[0]);
            r.put64(d, m, &v);
        }
        MovPred => {
            let v = r.pred(s[0]);
            r.put_pred(d, m, v);
        }
        Add32 => two32(r, d, s, m, u32::wrapping_add),
        Sub32 => two32(r, d, s, m, u32::wrapping_sub),
        Mul32 => two32(r, d, s, m, u32::wrapping_mul),
        Mad32 => three32(r, d, s, m, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        MinS32 => two32(r, d, s, m, |a, b| (a as i32).min(b as i32) as u32),
        MaxS32 => two32(r, d, s, m, |a, b| (a as i32).max(b as i32) as u32),
        MinU32 => two32(r, d, s, m, |a, b| a.min(b)),
        MaxU32 => two32(r, d, s, m, |a, b| a.max(b)),
        And32 => two32(r, d, s, m, |a, b| a & b),
        Or32 => two32(r, d, s, m, |a, b| a | b),
        Xor32 => two32(r, d, s, m, |a, b| a ^ b),
        Not32 => one32(r, d, s[0], m, |a| !a),
        Neg32 => one32(r, d, s[0], m, u32::wrapping_neg),
        Shl32 => two32(r, d, s, m, |a, b| if b > 31 { 0 } else { a << (b & 31) }),
        ShrU32 => two32(r, d, s, m, |a, b| if b > 31 { 0 } else { a >> (b & 31) }),
        ShrS32 => two32(r, d, s, m, |a, b| ((a as i32) >> b.min(31)) as u32),
        Lop3(lut) => lop3(lut, d, s, r, m),
        Prmt => three32(r, d, s, m, |a, b, c| permute::prmt(a, b, c, permute::PrmtMode::Index)),
        BfeU32 => three32(r, d, s, m, |a, p, n| {
            let (p, n) = (p & 255, n & 255);
            let v = if p > 31 { 0 } else { a >> (p & 31) };
            if n > 31 { v } else { v & ((1 << n) - 1) }
        }),
        Add64 => two64(r, d, s, m, u64::wrapping_add),
        Sub64 => two64(r, d, s, m, u64::wrapping_sub),
        Mul64 => two64(r, d, s, m, u64::wrapping_mul),
        Mad64 => {
            let (x, y, z) = (r.r64(s[0]), r.r64(s[1]), r.r64(s[2]));
            let v: [u64; 32] = row(|l| x[l].wrapping_mul(y[l]).wrapping_add(z[l]));
            r.put64(d, m, &v);
        }
        And64 => two64(r, d, s, m, |a, b| a & b),
        Or64 => two64(r, d, s, m, |a, b| a | b),
        Xor64 => two64(r, d, s, m, |a, b| a ^ b),
        Shl64 => shift64(r, d, s, m, |a, b| if b > 63 { 0 } else { a << (b & 63) }),
        ShrU64 => shift64(r, d, s, m, |a, b| if b > 63 { 0 } else { a >> (b & 63) }),
        ShrS64 => shift64(r, d, s, m, |a, b| ((a as i64) >> b.min(63)) as u64),
        MulWideU => widen(r, d, s, m, |a, b| a as u64 * b as u64),
        MulWideS => widen(r, d, s, m, |a, b| (a as i32 as i64 * b as i32 as i64) as u64),
        MadWideU | MadWideS => {
            let (x, y, z) = (r.r32(s[0]), r.r32(s[1]), r.r64(s[2]));
            let v: [u64; 32] = if op == MadWideU {
                row(|l| (x[l] as u64 * y[l] as u64).wrapping_add(z[l]))
            } else {
                row(|l| ((x[l] as i32 as i64 * y[l] as i32 as i64) as u64).wrapping_add(z[l]))
            };
            r.put64(d, m, &v);
        }
        AndPred => {
            let v = r.pred(s[0]) & r.pred(s[1]);
            r.put_pred(d, m, v);
        }
        OrPred => {
            let v = r.pred(s[0]) | r.pred(s[1]);
            r.put_pred(d, m, v);
        }
        XorPred => {
            let v = r.pred(s[0]) ^ r.pred(s[1]);
            r.put_pred(d, m, v);
        }
        NotPred => {
            let v = !r.pred(s[0]);
            r.put_pred(d, m, v);
        }
        Selp32 => {
            let (x, y, p) = (r.r32(s[0]), r.r32(s[1]), r.pred(s[2]));
            let v: [u32; 32] = row(|l| if p >> l & 1 == 1 { x[l] } else { y[l] });
            r.put32(d, m, &v);
        }
        Selp64 => {
            let (x, y, p) = (r.r64(s[0]), r.r64(s[1]), r.pred(s[2]));
            let v: [u64; 32] = row(|l| if p >> l & 1 == 1 { x[l] } else { y[l] });
            r.put64(d, m, &v);
        }
        FAdd => float2(r, d, s, m, |a, b| a + b),
        FSub => float2(r, d, s, m, |a, b| a - b),
        FMul => float2(r, d, s, m, |a, b| a * b),
        FFma => three32(r, d, s, m, |a, b, c| {
            canonical_f32(f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c))).to_bits()
        }),
        FMin => float2(r, d, s, m, |a, b| min_max_f32(a, b, false, MinMaxModifiers::default())),
        FMax => float2(r, d, s, m, |a, b| min_max_f32(a, b, true, MinMaxModifiers::default())),
        FNeg => one32(r, d, s[0], m, |a| a ^ 0x8000_0000),
        FAbs => one32(r, d, s[0], m, |a| a & 0x7fff_ffff),
        DAdd => double2(r, d, s, m, |a, b| a + b),
        DSub => double2(r, d, s, m, |a, b| a - b),
        DMul => double2(r, d, s, m, |a, b| a * b),
        DFma => {
            let (x, y, z) = (r.r64(s[0]), r.r64(s[1]), r.r64(s[2]));
            let v: [u64; 32] =
                row(|l| f64::from_bits(x[l]).mul_add(f64::from_bits(y[l]), f64::from_bits(z[l])).to_bits());
            r.put64(d, m, &v);
        }
        Zext => {
            let x = r.r32(s[0]);
            let v: [u64; 32] = row(|l| x[l] as u64);
            r.put64(d, m, &v);
        }
        Sext => {
            let x = r.r32(s[0]);
            let v: [u64; 32] = row(|l| x[l] as i32 as i64 as u64);
            r.put64(d, m, &v);
        }
        Trunc => {
            let x = r.r64(s[0]);
            let v: [u32; 32] = row(|l| x[l] as u32);
            r.put32(d, m, &v);
        }
        Low16 => {
            let x = r.wide(s[0]);
            let v: [u32; 32] = row(|l| x[l] as u32 & 0xffff);
            r.put32(d, m, &v);
        }
        F32FromS32 => one32(r, d, s[0], m, |a| (a as i32 as f32).to_bits()),
        F32FromU32 => one32(r, d, s[0], m, |a| (a as f32).to_bits()),
        F32FromBf16 => one32(r, d, s[0], m, |a| a << 16),
        F32FromF16 => one32(r, d, s[0], m, |a| f16_to_f32(a as u16).to_bits()),
        Bf16FromF32 => one32(r, d, s[0], m, |a| f32_to_bf16_rn(f32::from_bits(a)) as u32),
        F16FromF32 => one32(r, d, s[0], m, |a| f32_to_f16_rn(f32::from_bits(a)) as u32),
        Bf16x2FromF32 => two32(r, d, s, m, |a, b| {
            (f32_to_bf16_rn(f32::from_bits(a)) as u32) << 16 | f32_to_bf16_rn(f32::from_bits(b)) as u32
        }),
        F16x2FromF32 => two32(r, d, s, m, |a, b| {
            (f32_to_f16_rn(f32::from_bits(a)) as u32) << 16 | f32_to_f16_rn(f32::from_bits(b)) as u32
        }),
        Pack16 => two32(r, d, s, m, |a, b| a & 0xffff | b << 16),
        Pack32 => widen(r, d, s, m, |a, b| a as u64 | (b as u64) << 32),
        Half(high) => one32(r, d, s[0], m, |a| if high { a >> 16 } else { a & 0xffff }),
        Word(high) => {
            let x = r.r64(s[0]);
            let v: [u32; 32] = row(|l| (if high { x[l] >> 32 } else { x[l] }) as u32);
            r.put32(d, m, &v);
        }
    }
}

#[inline(always)]
fn lop3(lut: u8, d: Slot, s: &[Slot; 3], r: &mut Regs, m: u32) {
    let mut t = [0u32; 8];
    for (i, x) in t.iter_mut().enumerate() {
        *x = if lut >> i & 1 == 1 { u32::MAX } else { 0 };
    }
    three32(r, d, s, m, |a, b, c| {
        (!a & !b & !c & t[0])
            | (!a & !b & c & t[1])
            | (!a & b & !c & t[2])
            | (!a & b & c & t[3])
            | (a & !b & !c & t[4])
            | (a & !b & c & t[5])
            | (a & b & !c & t[6])
            | (a & b & c & t[7])
    });
}

#[inline(always)]
fn compare<T: PartialOrd + Copy>(cmp: Cmp, f: impl Fn(usize) -> (T, T)) -> u32 {
    #[inline(always)]
    fn bits<T: Copy>(f: &impl Fn(usize) -> (T, T), t: impl Fn(T, T) -> bool) -> u32 {
        let mut v = 0u32;
        for l in 0..32 {
            let (a, b) = f(l);
            v |= (t(a, b) as u32) << l;
        }
        v
    }
    match cmp {
        Cmp::Eq => bits(&f, |a, b| a == b),
        // An unordered pair is not "not equal" in PTX.
        Cmp::Ne => bits(&f, |a, b| a.partial_cmp(&b).is_some_and(|o| o.is_ne())),
        Cmp::Lt => bits(&f, |a, b| a < b),
        Cmp::Le => bits(&f, |a, b| a <= b),
        Cmp::Gt => bits(&f, |a, b| a > b),
        Cmp::Ge => bits(&f, |a, b| a >= b),
    }
}

#[inline(always)]
fn setp(x: &SetP, r: &mut Regs, m: u32) {
    let v = match x.ty {
        Ty::F32 => {
            let (a, b) = (r.r32(x.a), r.r32(x.b));
            compare(x.cmp, |l| (f32::from_bits(a[l]), f32::from_bits(b[l])))
        }
        Ty::F64 => {
            let (a, b) = (r.r64(x.a), r.r64(x.b));
            compare(x.cmp, |l| (f64::from_bits(a[l]), f64::from_bits(b[l])))
        }
        Ty::S64 => {
            let (a, b) = (r.r64(x.a), r.r64(x.b));
            compare(x.cmp, |l| (a[l] as i64, b[l] as i64))
        }
        Ty::U64 | Ty::B64 => {
            let (a, b) = (r.r64(x.a), r.r64(x.b));
            compare(x.cmp, |l| (a[l], b[l]))
        }
        Ty::S16 => {
            let (a, b) = (r.r32(x.a), r.r32(x.b));
            compare(x.cmp, |l| (a[l] as i16, b[l] as i16))
        }
        Ty::U16 | Ty::B16 => {
            let (a, b) = (r.r32(x.a), r.r32(x.b));
            compare(x.cmp, |l| (a[l] as u16, b[l] as u16))
        }
        Ty::S32 => {
            let (a, b) = (r.r32(x.a), r.r32(x.b));
            compare(x.cmp, |l| (a[l] as i32, b[l] as i32))
        }
        _ => {
            let (a, b) = (r.r32(x.a), r.r32(x.b));
            compare(x.cmp, |l| (a[l], b[l]))
        }
    };
    let (p, q) = match x.combine {
        None => (v, !v),
        Some((op, c)) => {
            let c = r.pred(c);
            match op {
                BoolOp::And => (v & c, !v & c),
                BoolOp::Or => (v | c, !v | c),
                BoolOp::Xor => (v ^ c, !v ^ c),
            }
        }
    };
    r.put_pred(x.p, m, p);
    r.put_pred(x.q, m, q);
}

#[inline(always)]
fn map(x: &Map, r: &mut Regs, m: u32) {
    let mut v = [0u64; 32];
    match &x.f {
        MapFn::F1(f) => {
            let a = r.wide(x.s[0]);
            for l in lanes(m) {
                v[l] = f([a[l]]);
            }
        }
        MapFn::F2(f) => {
            let (a, b) = (r.wide(x.s[0]), r.wide(x.s[1]));
            for l in lanes(m) {
                v[l] = f([a[l], b[l]]);
            }
        }
        MapFn::F3(f) => {
            let (a, b, c) = (r.wide(x.s[0]), r.wide(x.s[1]), r.wide(x.s[2]));
            for l in lanes(m) {
                v[l] = f([a[l], b[l], c[l]]);
            }
        }
        MapFn::F4(f) => {
            let (a, b, c, d) = (r.wide(x.s[0]), r.wide(x.s[1]), r.wide(x.s[2]), r.wide(x.s[3]));
            for l in lanes(m) {
                v[l] = f([a[l], b[l], c[l], d[l]]);
            }
        }
        MapFn::Two(f) => {
            let (a, b, c) = (r.wide(x.s[0]), r.wide(x.s[1]), r.wide(x.s[2]));
            let mut w = [0u64; 32];
            for l in lanes(m) {
                (v[l], w[l]) = f([a[l], b[l], c[l]]);
            }
            r.put_wide(x.d[1], m, &w);
        }
    }
    r.put_wide(x.d[0], m, &v);
}
