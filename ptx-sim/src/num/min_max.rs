//! `min` and `max` of floating-point values (two and three inputs) with PTX's rules for NaN and signed zeros.
//!
//! Without `.NaN` a NaN loses against a number and two NaN give the canonical NaN; with `.NaN` any NaN gives the
//! canonical NaN. `-0 < +0`. `.xorsign.abs` takes the magnitude of the smaller (larger) absolute value and the
//! exclusive or of the input signs.

use super::half_math::Half;
use super::rounded::ftz_f32;

/// Modifiers of `min`/`max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinMaxModifiers {
    /// `.ftz`
    pub ftz: bool,
    /// `.NaN`
    pub nan: bool,
    /// `.xorsign.abs`
    pub xorsign_abs: bool,
}

/// Key that orders numbers as PTX does, with `-0` below `+0`.
#[inline(always)]
fn key32(bits: u32) -> i32 {
    let b = bits as i32;
    b ^ (((b >> 31) as u32) >> 1) as i32
}

/// `min` (`max = false`) or `max` of two `f32`.
#[inline(always)]
pub fn min_max_f32(a: f32, b: f32, max: bool, m: MinMaxModifiers) -> f32 {
    let (a, b) = if m.ftz { (ftz_f32(a), ftz_f32(b)) } else { (a, b) };
    const NAN: u32 = 0x7fff_ffff;
    if a.is_nan() || b.is_nan() {
        if m.nan || (a.is_nan() && b.is_nan()) {
            return f32::from_bits(NAN);
        }
        return if a.is_nan() { b } else { a };
    }
    let (x, y) = (a.to_bits(), b.to_bits());
    if m.xorsign_abs {
        let (p, q) = (x & NAN, y & NAN);
        return f32::from_bits((x ^ y) & !NAN | if (p > q) == max { p } else { q });
    }
    if (key32(x) > key32(y)) == max { a } else { b }
}

/// Three-input form.
pub fn min_max3_f32(a: f32, b: f32, c: f32, max: bool, m: MinMaxModifiers) -> f32 {
    min_max_f32(min_max_f32(a, b, max, m), c, max, m)
}

/// `min`/`max` of two `f64`; NaN loses against a number.
pub fn min_max_f64(a: f64, b: f64, max: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        return if !a.is_nan() {
            a
        } else if !b.is_nan() {
            b
        } else {
            f64::from_bits(0x7fff_ffff_ffff_ffff)
        };
    }
    let key = |x: f64| {
        let b = x.to_bits() as i64;
        b ^ (((b >> 63) as u64) >> 1) as i64
    };
    if (key(a) > key(b)) == max { a } else { b }
}

/// `min`/`max` of two half codes. Both formats widen to `f32` without change of order.
pub fn min_max_half(h: Half, a: u16, b: u16, max: bool, m: MinMaxModifiers) -> u16 {
    let f = h.format();
    let flush = |x: u16| {
        if m.ftz && (x as u64 & 0x7fff) >> f.man_bits == 0 { x & 0x8000 } else { x }
    };
    let (a, b) = (flush(a), flush(b));
    let (na, nb) = (f.is_nan(a as u64), f.is_nan(b as u64));
    if na || nb {
        if m.nan || (na && nb) {
            return f.nan as u16;
        }
        return if na { b } else { a };
    }
    if m.xorsign_abs {
        let (p, q) = (a & 0x7fff, b & 0x7fff);
        return (a ^ b) & 0x8000 | if (p > q) == max { p } else { q };
    }
    let key = |x: u16| {
        let b = x as i16;
        b ^ (((b >> 15) as u16) >> 1) as i16
    };
    if (key(a) > key(b)) == max { a } else { b }
}

/// `testp` predicates of `f32` and `f64` (as `f64` with the source's own smallest normal number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestP {
    /// Neither infinite nor NaN.
    Finite,
    /// Positive or negative infinity.
    Infinite,
    /// Not NaN.
    Number,
    /// NaN.
    NotANumber,
    /// Normal, or a zero.
    Normal,
    /// Subnormal, not zero.
    Subnormal,
}

/// `testp.op.f32`.
pub fn testp_f32(x: f32, op: TestP) -> bool {
    match op {
        TestP::Finite => x.is_finite(),
        TestP::Infinite => x.is_infinite(),
        TestP::Number => !x.is_nan(),
        TestP::NotANumber => x.is_nan(),
        TestP::Normal => x.is_normal() || x == 0.0,
        TestP::Subnormal => x.is_subnormal(),
    }
}

/// `testp.op.f64`.
pub fn testp_f64(x: f64, op: TestP) -> bool {
    match op {
        TestP::Finite => x.is_finite(),
        TestP::Infinite => x.is_infinite(),
        TestP::Number => !x.is_nan(),
        TestP::NotANumber => x.is_nan(),
        TestP::Normal => x.is_normal() || x == 0.0,
        TestP::Subnormal => x.is_subnormal(),
    }
}
