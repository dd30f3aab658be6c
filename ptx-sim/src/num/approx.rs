//! Approximate functions: `ex2`, `lg2`, `rcp`, `rsqrt`, `sqrt`, `div`, `tanh` in `.approx` and `.full` forms.
//!
//! Computed in binary64 with short series and rounded once, which keeps each within the error that PTX ISA 9.0
//! documents; a device returns other last bits. The code uses only additions, multiplications, divisions and
//! square roots, so that results are the same on every host, and is free of branches where it matters, so
//! that a loop over lanes can be vectorised.
//!
//! | function | documented bound |
//! |----------|------------------|
//! | `ex2.approx.f32` | 2 ulp |
//! | `ex2.approx.{f16,bf16}` | relative 2^-9.9, 2^-7 |
//! | `lg2.approx.f32` | absolute 2^-22 in (0.5, 2), relative 2^-22 elsewhere |
//! | `rcp.approx.f32` | 1 ulp |
//! | `rsqrt.approx.f32`, `sqrt.approx.f32` | relative 2^-22.9, 2^-23 |
//! | `div.approx.f32`, `div.full.f32` | 2 ulp |
//! | `tanh.approx.{f32,f16,bf16}` | relative 2^-11, absolute 2^-10.987, absolute 2^-8 |

use super::half_math::Half;
use super::round::{Overflow, Rounding, encode};
use super::rounded::{canonical_f32, ftz_f32};

/// `2^x` in binary64, relative error below 2^-36, for `|x| <= 1000`.
#[inline(always)]
fn exp2_f64(x: f64) -> f64 {
    // Adding 1.5 * 2^52 leaves round(x) in the low bits.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let shifted = x + MAGIC;
    let n = shifted - MAGIC;
    let f = (x - n) * core::f64::consts::LN_2;
    // Taylor series of e^f for |f| <= ln 2 / 2; the first omitted term is below 2^-37.
    let p = 1.0
        + f * (1.0
            + f * (1.0 / 2.0
                + f * (1.0 / 6.0
                    + f * (1.0 / 24.0
                        + f * (1.0 / 120.0
                            + f * (1.0 / 720.0 + f * (1.0 / 5040.0 + f * (1.0 / 40320.0 + f * (1.0 / 362880.0)))))))));
    let scale = f64::from_bits(((n as i64 + 1023) as u64) << 52);
    p * scale
}

/// `log2 x` of a normal positive binary64 value, relative error below 2^-36 near and away from 1.
#[inline(always)]
fn log2_f64(x: f64) -> f64 {
    let bits = x.to_bits();
    // Mantissa in [sqrt(1/2), sqrt(2)): subtract the pattern of sqrt(1/2) before taking the exponent.
    let e = (bits.wrapping_sub(0x3fe6_a09e_667f_3bcd) as i64) >> 52;
    let m = f64::from_bits(bits.wrapping_sub((e as u64) << 52));
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    // 2 atanh(s) / ln 2; |s| <= 0.1716, so the omitted terms are below 2^-40 relative.
    let series = 1.0
        + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q * (1.0 / 11.0 + q * (1.0 / 13.0))))));
    e as f64 + s * series * (2.0 * core::f64::consts::LOG2_E)
}

/// `ex2.approx{.ftz}.f32`.
#[inline(always)]
pub fn ex2_f32(x: f32, ftz: bool) -> f32 {
    // Outside [-200, 200] the result is 0 or infinity; NaN passes the clamp.
    let y = exp2_f64((x as f64).clamp(-200.0, 200.0)) as f32;
    let y = canonical_f32(y);
    if ftz { ftz_f32(y) } else { y }
}

/// `ex2.approx{.ftz}.{f16,bf16}`.
pub fn ex2_half(h: Half, x: u16, ftz: bool) -> u16 {
    let v = h.value(x) as f64;
    let y = exp2_f64(v.clamp(-200.0, 200.0));
    let code = encode(h.format(), y, Rounding::NearestEven, Overflow::Ieee) as u16;
    if ftz && code >> h.format().man_bits == 0 { 0 } else { code }
}

/// `lg2.approx{.ftz}.f32`. Zero gives negative infinity, a negative input NaN.
#[inline(always)]
pub fn lg2_f32(x: f32, ftz: bool) -> f32 {
    let x = if ftz { ftz_f32(x) } else { x };
    if x > 0.0 && x < f32::INFINITY {
        log2_f64(x as f64) as f32
    } else if x == 0.0 {
        f32::NEG_INFINITY
    } else if x > 0.0 {
        x
    } else {
        f32::from_bits(0x7fff_ffff)
    }
}

/// `rcp.approx{.ftz}.f32`.
#[inline(always)]
pub fn rcp_f32(x: f32, ftz: bool) -> f32 {
    let x = if ftz { ftz_f32(x) } else { x };
    let y = canonical_f32(1.0 / x);
    if ftz { ftz_f32(y) } else { y }
}

/// `rcp.approx.ftz.f64`: only the upper 32 bits of the operand are read and of the result produced.
pub fn rcp_approx_f64(x: f64) -> f64 {
    gross_f64(x, |v| 1.0 / v)
}

/// `rsqrt.approx.ftz.f64`: only the upper 32 bits of the operand are read and of the result produced.
pub fn rsqrt_approx_ftz_f64(x: f64) -> f64 {
    gross_f64(x, |v| 1.0 / v.sqrt())
}

fn gross_f64(x: f64, f: impl Fn(f64) -> f64) -> f64 {
    let upper = x.to_bits() & 0xffff_ffff_0000_0000;
    let flushed = if upper & 0x7ff0_0000_0000_0000 == 0 { upper & (1 << 63) } else { upper };
    let y = f(f64::from_bits(flushed));
    if y.is_nan() {
        return f64::from_bits(0x7fff_ffff_0000_0000);
    }
    let bits = y.to_bits() & 0xffff_ffff_0000_0000;
    f64::from_bits(if bits & 0x7ff0_0000_0000_0000 == 0 { bits & (1 << 63) } else { bits })
}

/// `rsqrt.approx{.ftz}.f32`. A zero gives an infinity of the same sign.
#[inline(always)]
pub fn rsqrt_f32(x: f32, ftz: bool) -> f32 {
    let x = if ftz { ftz_f32(x) } else { x };
    if x == 0.0 {
        return f32::INFINITY.copysign(x);
    }
    canonical_f32((1.0 / (x as f64).sqrt()) as f32)
}

/// `rsqrt.approx.f64`.
pub fn rsqrt_f64(x: f64) -> f64 {
    if x == 0.0 { f64::INFINITY.copysign(x) } else { 1.0 / x.sqrt() }
}

/// `sqrt.approx{.ftz}.f32`.
#[inline(always)]
pub fn sqrt_f32(x: f32, ftz: bool) -> f32 {
    let x = if ftz { ftz_f32(x) } else { x };
    canonical_f32(x.sqrt())
}

/// `div.approx{.ftz}.f32` (`full = false`) and `div.full{.ftz}.f32`.
///
/// The approximate form gives 0 (NaN for an infinite dividend) when `2^126 < |b| < 2^128`.
#[inline(always)]
pub fn div_f32(a: f32, b: f32, full: bool, ftz: bool) -> f32 {
    let (a, b) = if ftz { (ftz_f32(a), ftz_f32(b)) } else { (a, b) };
    if !full && b.is_finite() && b.abs() > f32::from_bits((126 + 127) << 23) {
        return if a.is_infinite() || a.is_nan() { f32::from_bits(0x7fff_ffff) } else { 0f32.copysign(a * b.signum()) };
    }
    let y = canonical_f32(a / b);
    if ftz { ftz_f32(y) } else { y }
}

/// `tanh` in binary64, relative error below 2^-30.
#[inline(always)]
fn tanh_f64(x: f64) -> f64 {
    let a = x.abs().min(32.0);
    // 1 - 2 / (e^2a + 1) loses relative accuracy near zero; there the series takes over.
    let q = x * x;
    let small = x * (1.0 - q * (1.0 / 3.0 - q * (2.0 / 15.0 - q * (17.0 / 315.0))));
    let large = (1.0 - 2.0 / (exp2_f64(a * (2.0 * core::f64::consts::LOG2_E)) + 1.0)).copysign(x);
    if a < 0.04 { small } else { large }
}

/// `tanh.approx.f32`.
#[inline(always)]
pub fn tanh_f32(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(0x7fff_ffff) } else { tanh_f64(x as f64) as f32 }
}

/// `tanh.approx.{f16,bf16}`.
pub fn tanh_half(h: Half, x: u16) -> u16 {
    let v = h.value(x) as f64;
    let y = if v.is_nan() { v } else { tanh_f64(v) };
    encode(h.format(), y, Rounding::NearestEven, Overflow::Ieee) as u16
}
