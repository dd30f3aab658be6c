//! `cvt` between floating-point formats, with `.ftz`, `.sat`, `.relu` and `.satfinite`.
//!
//! Rules of PTX ISA 9.0 "cvt": `.ftz` flushes subnormal `f32` inputs and results; `.sat` clamps to [0, 1] with
//! NaN to +0; `.relu` turns negative results into +0 and NaN into the canonical NaN; `.satfinite` replaces
//! what lies beyond the largest finite number by it. NaN results are canonical.

use super::format::Format;
use super::round::{Overflow, Rounding, encode};
use super::rounded::{ftz_f32, sat_f64};

/// Modifiers of a float-to-float `cvt` besides the rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// `.ftz`
    pub ftz: bool,
    /// `.sat`
    pub sat: bool,
    /// `.relu`
    pub relu: bool,
    /// `.satfinite`
    pub satfinite: bool,
}

impl Modifiers {
    pub(super) fn overflow(self) -> Overflow {
        if self.satfinite { Overflow::SatFinite } else { Overflow::Ieee }
    }
}

/// Rounds an exact value to `fmt` after `.sat`, and applies `.relu` to the result.
///
/// Under `.relu` a negative input gives `+0`, also where rounding alone would have given `-0`.
#[inline(always)]
pub fn narrow(fmt: &Format, x: f64, mode: Rounding, m: Modifiers) -> u64 {
    let x = if m.sat { sat_f64(x) } else { x };
    if m.relu && x.is_sign_negative() && !x.is_nan() {
        return 0;
    }
    encode(fmt, x, mode, m.overflow())
}

/// `cvt.{rn,rz,...}.f16.f32` and the `f16` to `f16` forms without a value change.
#[inline]
pub fn f32_to_f16(x: f32, mode: Rounding, m: Modifiers) -> u16 {
    let x = if m.ftz { ftz_f32(x) } else { x };
    narrow(&Format::F16, x as f64, mode, m) as u16
}

/// `cvt.{rn,rz,...}.bf16.f32`.
#[inline]
pub fn f32_to_bf16(x: f32, mode: Rounding, m: Modifiers) -> u16 {
    let x = if m.ftz { ftz_f32(x) } else { x };
    narrow(&Format::BF16, x as f64, mode, m) as u16
}

/// `cvt.rn.bf16.f32` without modifiers, in a few integer operations.
#[inline(always)]
pub fn f32_to_bf16_rn(x: f32) -> u16 {
    let b = x.to_bits();
    if b & 0x7fff_ffff > 0x7f80_0000 {
        return 0x7fff;
    }
    (b.wrapping_add(0x7fff + ((b >> 16) & 1)) >> 16) as u16
}

/// `cvt.rn.f16.f32` without modifiers.
#[inline(always)]
pub fn f32_to_f16_rn(x: f32) -> u16 {
    encode(&Format::F16, x as f64, Rounding::NearestEven, Overflow::Ieee) as u16
}

/// Value of a `bf16` code.
#[inline(always)]
pub fn bf16_to_f32(code: u16) -> f32 {
    f32::from_bits((code as u32) << 16)
}

/// Value of an `f16` code. NaN becomes the canonical NaN.
#[inline(always)]
pub fn f16_to_f32(code: u16) -> f32 {
    let sign = ((code & 0x8000) as u32) << 16;
    let magnitude = (code & 0x7fff) as u32;
    if magnitude > 0x7c00 {
        return f32::from_bits(0x7fff_ffff);
    }
    if magnitude >= 0x7c00 {
        return f32::from_bits(sign | 0x7f80_0000);
    }
    // The exponent is rebased by a multiplication, which also normalises subnormals exactly.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    f32::from_bits(scaled.to_bits() | sign)
}

/// `cvt.{rna,rn,rz}.tf32.f32`: the code in the upper 19 bits of a register, the lower 13 bits zero.
/// NaN gives `0x7fffffff`.
#[inline]
pub fn f32_to_tf32(x: f32, mode: Rounding, m: Modifiers) -> u32 {
    if x.is_nan() {
        return 0x7fff_ffff;
    }
    (narrow(&Format::TF32, x as f64, mode, m) as u32) << 13
}

/// The value that a tensor core takes from a `tf32` register: the lower 13 bits are ignored.
#[inline(always)]
pub fn tf32_to_f32(bits: u32) -> f32 {
    f32::from_bits(bits & 0xffff_e000)
}

/// `cvt.frnd{.ftz}{.sat}.f32.f64`.
#[inline]
pub fn f64_to_f32(x: f64, mode: Rounding, m: Modifiers) -> f32 {
    let x = if m.sat { sat_f64(x) } else { x };
    let y = f32::from_bits(encode(&Format::F32, x, mode, m.overflow()) as u32);
    if m.ftz { ftz_f32(y) } else { y }
}

/// `cvt{.ftz}{.sat}.f64.f32`.
#[inline]
pub fn f32_to_f64(x: f32, m: Modifiers) -> f64 {
    let x = if m.ftz { ftz_f32(x) } else { x } as f64;
    if m.sat { sat_f64(x) } else { x }
}

/// `cvt.frnd{.sat}` between any two of `f16`, `bf16`, `f32`, `f64` given as codes. The `f32` side obeys
/// `.ftz`. Widening is exact, whatever the rounding.
pub fn convert(to: &Format, from: &Format, code: u64, mode: Rounding, m: Modifiers) -> u64 {
    let mut x = from.decode(code);
    if m.ftz && from.man_bits == 23 {
        x = ftz_f32(x as f32) as f64;
    }
    if m.sat {
        x = sat_f64(x);
    }
    let y = narrow(to, x, mode, m);
    if m.ftz && to.man_bits == 23 { ftz_f32(f32::from_bits(y as u32)).to_bits() as u64 } else { y }
}
