//! `cvt` to and from packed narrow formats: `f16x2`, `bf16x2`, `e4m3x2`, `e5m2x2`, `e2m3x2`, `e3m2x2`, `e2m1x2`,
//! `ue8m0x2` and the four-element forms with stochastic rounding.
//!
//! Packing (PTX ISA 9.0 "cvt", semantics): the first source goes to the upper half; 6-bit elements lie in
//! bytes with two zero bits on top; 4-bit elements fill a byte.

use super::float_cvt::{Modifiers, narrow};
use super::format::Format;
use super::round::Rounding;

/// Bits that one element of `fmt` takes in a packed register.
pub const fn lane_bits(fmt: &Format) -> u32 {
    match fmt.width() {
        4 => 4,
        16 => 16,
        _ => 8,
    }
}

/// `cvt.{rn,rz}{.relu}{.satfinite}.<fmt>x2.f32 d, a, b`: `a` in the upper half.
#[inline]
pub fn f32x2_to(fmt: &Format, a: f32, b: f32, mode: Rounding, m: Modifiers) -> u32 {
    let hi = narrow(fmt, a as f64, mode, m) as u32;
    let lo = narrow(fmt, b as f64, mode, m) as u32;
    hi << lane_bits(fmt) | lo
}

/// `cvt.rn.satfinite{.relu}.<fmt>x2.f16x2 d, a`.
pub fn f16x2_to(fmt: &Format, a: u32, m: Modifiers) -> u32 {
    let hi = narrow(fmt, Format::F16.decode((a >> 16) as u64), Rounding::NearestEven, m) as u32;
    let lo = narrow(fmt, Format::F16.decode((a & 0xffff) as u64), Rounding::NearestEven, m) as u32;
    hi << lane_bits(fmt) | lo
}

/// `cvt.rn{.relu}.f16x2.<fmt>x2 d, a`. Exact; NaN gives `0x7fff`.
pub fn to_f16x2(fmt: &Format, a: u32, relu: bool) -> u32 {
    let m = Modifiers { relu, ..Modifiers::default() };
    let one = |code: u32| narrow(&Format::F16, fmt.decode(code as u64), Rounding::NearestEven, m) as u32;
    one(a >> lane_bits(fmt)) << 16 | one(a)
}

/// `cvt.rs{.relu}{.satfinite}.{f16x2,bf16x2}.f32 d, a, b, rbits`: the upper half of `rbits` serves `a`.
/// `f16` takes 13 bits of each half, `bf16` all 16.
pub fn f32x2_to_stochastic(fmt: &Format, a: f32, b: f32, rbits: u32, m: Modifiers) -> u32 {
    let width = 23 - fmt.man_bits;
    let hi = narrow(fmt, a as f64, Rounding::Stochastic { bits: rbits >> 16, width }, m) as u32;
    let lo = narrow(fmt, b as f64, Rounding::Stochastic { bits: rbits & 0xffff, width }, m) as u32;
    hi << 16 | lo
}

/// `cvt.rs{.relu}.satfinite.<fmt>x4.f32 d, {a, b, e, f}, rbits`: `a` on top.
///
/// 8- and 6-bit elements: `a`, `b` share the upper 16 bits of `rbits` and `e`, `f` the lower. 4-bit elements
/// take 8 bits: `a` and `e` the upper and lower byte of the upper half, `b` and `f` those of the lower half.
/// The random bits are aligned with the top of the discarded bits.
pub fn f32x4_to_stochastic(fmt: &Format, v: [f32; 4], rbits: u32, m: Modifiers) -> u32 {
    let (hi, lo) = (rbits >> 16, rbits & 0xffff);
    let (bits, width) =
        if fmt.width() == 4 { ([hi >> 8, lo >> 8, hi & 0xff, lo & 0xff], 8) } else { ([hi, hi, lo, lo], 16) };
    let mut d = 0;
    for (x, bits) in v.into_iter().zip(bits) {
        d = d << lane_bits(fmt) | narrow(fmt, x as f64, Rounding::Stochastic { bits, width }, m) as u32;
    }
    d
}

/// Power-of-two scale format `ue8m0`: `2^(code - 127)`, 255 is NaN. The sign of `x` is ignored.
/// `up` is `.rp`, otherwise `.rz`. Values up to `2^-127` give code 0. An overflow gives NaN, or with
/// `satfinite` the largest scale.
#[inline]
pub fn f32_to_ue8m0(x: f32, up: bool, satfinite: bool) -> u8 {
    let magnitude = x.to_bits() & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0xff;
    }
    let mut e = magnitude >> 23;
    if up && magnitude & 0x7f_ffff != 0 && magnitude > 0x0040_0000 {
        e += 1;
    }
    if e >= 255 && satfinite { 254 } else { e as u8 }
}

/// Exact value of a `ue8m0` code.
pub fn ue8m0_to_f32(code: u8) -> f32 {
    match code {
        255 => f32::from_bits(0x7fff_ffff),
        0 => f32::from_bits(0x0040_0000),
        e => f32::from_bits((e as u32) << 23),
    }
}

/// `cvt.{rz,rp}{.satfinite}.ue8m0x2.f32 d, a, b`.
pub fn f32x2_to_ue8m0x2(a: f32, b: f32, up: bool, satfinite: bool) -> u16 {
    (f32_to_ue8m0(a, up, satfinite) as u16) << 8 | f32_to_ue8m0(b, up, satfinite) as u16
}

/// `cvt.{rz,rp}{.satfinite}.ue8m0x2.bf16x2 d, a`.
pub fn bf16x2_to_ue8m0x2(a: u32, up: bool, satfinite: bool) -> u16 {
    f32x2_to_ue8m0x2(f32::from_bits(a & 0xffff_0000), f32::from_bits(a << 16), up, satfinite)
}

/// `cvt.rn.bf16x2.ue8m0x2 d, a`. Exact; NaN gives `0x7fff`.
pub fn ue8m0x2_to_bf16x2(a: u16) -> u32 {
    let one = |c: u8| ue8m0_to_f32(c).to_bits() >> 16;
    one((a >> 8) as u8) << 16 | one(a as u8)
}
