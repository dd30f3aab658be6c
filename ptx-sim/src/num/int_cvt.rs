//! `cvt` between integers, and between integers and floating-point formats.
//!
//! Integers are held as `i128`, which contains every value of `u64` and `s64`. Float to integer always clamps
//! to the destination. NaN gives zero, except that a conversion from `f64`, or to a 64-bit integer, gives the
//! pattern with only the top bit of the destination set (PTX ISA 9.0 "cvt").

use super::format::Format;
use super::round::{Exact, Overflow, Rounding, encode_exact};

/// Integer rounding modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntRounding {
    /// `.rni`: nearest, ties to even.
    NearestEven,
    /// `.rzi`: toward zero.
    Zero,
    /// `.rmi`: toward negative infinity.
    Down,
    /// `.rpi`: toward positive infinity.
    Up,
}

/// An integer type of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntType {
    /// Width: 8, 16, 32 or 64.
    pub bits: u32,
    /// Whether it is one of the `.s` types.
    pub signed: bool,
}

impl IntType {
    /// Smallest value.
    pub const fn min(self) -> i128 {
        if self.signed { -(1i128 << (self.bits - 1)) } else { 0 }
    }

    /// Largest value.
    pub const fn max(self) -> i128 {
        if self.signed { (1i128 << (self.bits - 1)) - 1 } else { (1i128 << self.bits) - 1 }
    }

    /// Value of the low bits of a register.
    #[inline(always)]
    pub const fn read(self, register: u64) -> i128 {
        let shift = 64 - self.bits;
        if self.signed {
            (((register << shift) as i64) >> shift) as i128
        } else {
            ((register << shift) >> shift) as i128
        }
    }

    /// Register pattern of a value, cut to the width.
    #[inline(always)]
    pub const fn write(self, value: i128) -> u64 {
        let shift = 64 - self.bits;
        ((value as u64) << shift) >> shift
    }
}

/// Rounds to an integral value of the same format (`cvt.rni.f32.f32` and its like). NaN passes through.
#[inline(always)]
pub fn round_integral(x: f64, mode: IntRounding) -> f64 {
    match mode {
        IntRounding::NearestEven => x.round_ties_even(),
        IntRounding::Zero => x.trunc(),
        IntRounding::Down => x.floor(),
        IntRounding::Up => x.ceil(),
    }
}

/// Float to integer. `from_f64` says whether the source is `.f64`, which decides what NaN becomes.
/// The result is a register pattern of `to.bits` bits.
#[inline]
pub fn float_to_int(to: IntType, x: f64, mode: IntRounding, from_f64: bool) -> u64 {
    if x.is_nan() {
        return if from_f64 || to.bits == 64 { 1 << (to.bits - 1) } else { 0 };
    }
    // `as` saturates at the ends of i128, far outside every destination.
    let value = round_integral(x, mode) as i128;
    to.write(value.clamp(to.min(), to.max()))
}

/// Integer to a floating-point format with one rounding; returns the code.
#[inline]
pub fn int_to_float(to: &Format, from: IntType, register: u64, mode: Rounding) -> u64 {
    let value = from.read(register);
    let exact = Exact { negative: value < 0, man: value.unsigned_abs(), exp: 0 };
    encode_exact(to, exact, mode, Overflow::Ieee)
}

/// Integer to integer: cut to the width, or with `.sat` clamped to the destination's range.
#[inline(always)]
pub fn int_to_int(to: IntType, from: IntType, register: u64, sat: bool) -> u64 {
    let value = from.read(register);
    to.write(if sat { value.clamp(to.min(), to.max()) } else { value })
}
