//! Arithmetic in `f16` and `bf16` with a single rounding, and its packed forms.
//!
//! The exact value of a sum or a product of two halves, or of `a * b + c`, is brought to binary64 with a
//! round-to-odd step, after which rounding to 8 or 11 bits gives what one rounding of the exact value gives.

use super::float_cvt::f16_to_f32;
use super::format::Format;
use super::round::{Overflow, Rounding, encode};

/// The two half formats that have arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
}

/// Modifiers of a half-precision operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HalfModifiers {
    /// `.ftz`: subnormal inputs and results become zeros of the same sign.
    pub ftz: bool,
    /// `.sat`: the result is clamped to [0, 1], NaN to +0.
    pub sat: bool,
    /// `.relu`: a negative result becomes +0, NaN the canonical NaN.
    pub relu: bool,
}

impl Half {
    /// The format's description.
    pub const fn format(self) -> &'static Format {
        match self {
            Half::F16 => &Format::F16,
            Half::Bf16 => &Format::BF16,
        }
    }

    /// Exact value of a code.
    #[inline(always)]
    pub fn value(self, code: u16) -> f32 {
        match self {
            Half::F16 => f16_to_f32(code),
            Half::Bf16 => f32::from_bits((code as u32) << 16),
        }
    }

    fn flushed(self, code: u16, ftz: bool) -> u16 {
        let exp = match self {
            Half::F16 => 0x7c00,
            Half::Bf16 => 0x7f80,
        };
        if ftz && code & exp == 0 { code & 0x8000 } else { code }
    }

    fn finish(self, x: f64, m: HalfModifiers) -> u16 {
        let code = match self {
            Half::F16 => encode(&Format::F16, x, Rounding::NearestEven, Overflow::Ieee),
            Half::Bf16 => encode(&Format::BF16, x, Rounding::NearestEven, Overflow::Ieee),
        } as u16;
        let code = self.flushed(code, m.ftz);
        if m.sat {
            let one = if self == Half::F16 { 0x3c00 } else { 0x3f80 };
            // NaN is positive here and above every number; it and negatives give +0.
            return if code & 0x8000 != 0 || x.is_nan() { 0 } else { code.min(one) };
        }
        if m.relu && code & 0x8000 != 0 { 0 } else { code }
    }

    /// `fma.rn{.ftz}{.sat}{.relu}.{f16,bf16}`.
    #[inline]
    pub fn fma(self, a: u16, b: u16, c: u16, m: HalfModifiers) -> u16 {
        let v = |x| self.value(self.flushed(x, m.ftz)) as f64;
        // At most 22 significant bits, so the product is exact; exponents of both formats fit binary64.
        let (p, c) = (v(a) * v(b), v(c));
        let sum = p + c;
        let from_c = sum - p;
        let rest = (p - (sum - from_c)) + (c - from_c);
        self.finish(to_odd(sum, rest), m)
    }

    /// `add.rn`.
    #[inline]
    pub fn add(self, a: u16, b: u16, m: HalfModifiers) -> u16 {
        let one = if self == Half::F16 { 0x3c00 } else { 0x3f80 };
        self.fma(a, one, b, m)
    }

    /// `sub.rn`.
    #[inline]
    pub fn sub(self, a: u16, b: u16, m: HalfModifiers) -> u16 {
        self.add(a, b ^ 0x8000, m)
    }

    /// `mul.rn`.
    #[inline]
    pub fn mul(self, a: u16, b: u16, m: HalfModifiers) -> u16 {
        let v = |x| self.value(self.flushed(x, m.ftz)) as f64;
        self.finish(v(a) * v(b), m)
    }

    /// `fma.rn.oob{.relu}`: a product with an operand that is the out-of-bounds NaN (all ones but the sign)
    /// counts as zero.
    pub fn fma_oob(self, a: u16, b: u16, c: u16, relu: bool) -> u16 {
        let m = HalfModifiers { relu, ..HalfModifiers::default() };
        let oob = |x: u16| x & 0x7fff == 0x7fff;
        if oob(a) || oob(b) {
            return self.finish(self.value(c) as f64, m);
        }
        self.fma(a, b, c, m)
    }

    /// `neg{.ftz}`: flips the sign, NaN included.
    pub fn neg(self, a: u16, ftz: bool) -> u16 {
        self.flushed(a, ftz) ^ 0x8000
    }

    /// `abs{.ftz}`: clears the sign.
    pub fn abs(self, a: u16, ftz: bool) -> u16 {
        self.flushed(a, ftz) & 0x7fff
    }
}

/// Moves an inexact sum to its odd neighbour on the side of the exact value.
#[inline(always)]
fn to_odd(sum: f64, rest: f64) -> f64 {
    let inexact = rest.abs() > 0.0;
    let bits = sum.to_bits();
    if !inexact || bits & 1 == 1 {
        return sum;
    }
    let away = (rest > 0.0) == (sum >= 0.0);
    f64::from_bits(if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) })
}

/// Applies a binary operation to both halves of packed registers.
#[inline(always)]
pub fn packed2(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    (f((a >> 16) as u16, (b >> 16) as u16) as u32) << 16 | f(a as u16, b as u16) as u32
}

/// Applies a ternary operation to both halves of packed registers.
#[inline(always)]
pub fn packed3(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
    let hi = f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16) as u32;
    hi << 16 | f(a as u16, b as u16, c as u16) as u32
}
