//! `add`, `sub`, `mul`, `fma`, `div`, `rcp`, `sqrt` of `f32` and `f64` with every rounding modifier, `.ftz` and `.sat`.
//!
//! Nearest-even uses the machine's own operations. Directed roundings go through an exact sum
//! ([`super::soft_fma`]) or, for quotients and roots, through the sign of the exact residual.

use super::format::Format;
use super::round::{Overflow, Rounding, encode};
use super::soft_fma;

/// Replaces a subnormal by a zero of the same sign (`.ftz`).
#[inline(always)]
pub fn ftz_f32(x: f32) -> f32 {
    if x.to_bits() & 0x7f80_0000 == 0 { f32::from_bits(x.to_bits() & 0x8000_0000) } else { x }
}

/// The NaN that `f32` arithmetic of the device produces, `0x7fffffff`; other values pass.
#[inline(always)]
pub fn canonical_f32(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(0x7fff_ffff) } else { x }
}

/// `.sat`: clamps to `[+0, 1]`; NaN gives `+0`.
#[inline(always)]
pub fn sat_f32(x: f32) -> f32 {
    // A comparison with NaN is false, so NaN falls to the last arm.
    if x >= 1.0 {
        1.0
    } else if x > 0.0 {
        x
    } else {
        0.0
    }
}

/// `.sat` of an `f64` value.
#[inline(always)]
pub fn sat_f64(x: f64) -> f64 {
    if x >= 1.0 {
        1.0
    } else if x > 0.0 {
        x
    } else {
        0.0
    }
}

/// `fma.rnd.f32`: one rounding of `a * b + c`.
#[inline]
pub fn fma_f32(a: f32, b: f32, c: f32, mode: Rounding) -> f32 {
    if mode == Rounding::NearestEven {
        return canonical_f32(a.mul_add(b, c));
    }
    f32::from_bits(soft_fma::fma(&Format::F32, a as f64, b as f64, c as f64, mode) as u32)
}

/// `fma.rn.f32` from additions and multiplications of `f64` alone: what the same loop costs where the
/// compiler may not use a fused instruction. Equal to [`fma_f32`] for every input.
#[inline(always)]
pub fn fma_f32_unfused(a: f32, b: f32, c: f32) -> f32 {
    let (p, c) = (a as f64 * b as f64, c as f64);
    let sum = p + c;
    let from_c = sum - p;
    let rest = (p - (sum - from_c)) + (c - from_c);
    // Round to odd, then to f32: 53 bits are enough for the second rounding to be the only visible one.
    let inexact = rest.abs() > 0.0;
    let away = (rest > 0.0) == (sum >= 0.0);
    let bits = sum.to_bits();
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let bits = if inexact && bits & 1 == 0 { odd } else { bits };
    canonical_f32(f64::from_bits(bits) as f32)
}

/// `add.rnd.f32`.
#[inline]
pub fn add_f32(a: f32, b: f32, mode: Rounding) -> f32 {
    if mode == Rounding::NearestEven { canonical_f32(a + b) } else { fma_f32(a, 1.0, b, mode) }
}

/// `sub.rnd.f32`.
#[inline]
pub fn sub_f32(a: f32, b: f32, mode: Rounding) -> f32 {
    add_f32(a, -b, mode)
}

/// `mul.rnd.f32`.
#[inline]
pub fn mul_f32(a: f32, b: f32, mode: Rounding) -> f32 {
    if mode == Rounding::NearestEven {
        return canonical_f32(a * b);
    }
    // The product of two f32 values is exact in f64.
    f32::from_bits(encode(&Format::F32, a as f64 * b as f64, mode, Overflow::Ieee) as u32)
}

/// `div.rnd.f32`.
pub fn div_f32(a: f32, b: f32, mode: Rounding) -> f32 {
    if mode == Rounding::NearestEven || !a.is_finite() || !b.is_finite() || b == 0.0 || a == 0.0 {
        return canonical_f32(a / b);
    }
    let (x, y) = (a as f64, b as f64);
    let q = x / y;
    // q is within half a last place of the quotient; the residual says on which side of it.
    f32::from_bits(encode(&Format::F32, to_odd(q, residual_sign(x, q, y)), mode, Overflow::Ieee) as u32)
}

/// `rcp.rnd.f32`.
pub fn rcp_f32(a: f32, mode: Rounding) -> f32 {
    div_f32(1.0, a, mode)
}

/// `sqrt.rnd.f32`.
pub fn sqrt_f32(a: f32, mode: Rounding) -> f32 {
    if mode == Rounding::NearestEven || a.is_nan() || a <= 0.0 || a.is_infinite() {
        return canonical_f32(a.sqrt());
    }
    let x = a as f64;
    let r = x.sqrt();
    let rest = x - r * r;
    // r * r rounds; the exact residual comes from the fused form.
    let rest = if rest == 0.0 { (-r).mul_add(r, x) } else { rest };
    f32::from_bits(encode(&Format::F32, to_odd(r, rest), mode, Overflow::Ieee) as u32)
}

/// Sign of `x - q * y` times the sign of `y`: where the exact quotient lies relative to `q`.
fn residual_sign(x: f64, q: f64, y: f64) -> f64 {
    let rest = (-q).mul_add(y, x);
    if y < 0.0 { -rest } else { rest }
}

/// Moves an inexact binary64 value to the neighbour toward `rest` when its last bit is even, which makes a
/// second rounding to fewer bits exact in every mode.
fn to_odd(x: f64, rest: f64) -> f64 {
    if rest == 0.0 || x.to_bits() & 1 == 1 {
        return x;
    }
    let away = (rest > 0.0) == (x >= 0.0);
    f64::from_bits(if away { x.to_bits() + 1 } else { x.to_bits() - 1 })
}

/// `fma.rnd.f64`.
pub fn fma_f64(a: f64, b: f64, c: f64, mode: Rounding) -> f64 {
    if mode == Rounding::NearestEven {
        return a.mul_add(b, c);
    }
    f64::from_bits(soft_fma::fma(&Format::F64, a, b, c, mode))
}

/// `add.rnd.f64`.
pub fn add_f64(a: f64, b: f64, mode: Rounding) -> f64 {
    if mode == Rounding::NearestEven { a + b } else { fma_f64(a, 1.0, b, mode) }
}

/// `mul.rnd.f64`.
pub fn mul_f64(a: f64, b: f64, mode: Rounding) -> f64 {
    if mode == Rounding::NearestEven {
        return a * b;
    }
    // The zero added must not change the sign of an exact zero product.
    let zero = if a.is_sign_negative() != b.is_sign_negative() { -0.0 } else { 0.0 };
    fma_f64(a, b, zero, mode)
}

/// `div.rnd.f64`.
pub fn div_f64(a: f64, b: f64, mode: Rounding) -> f64 {
    let q = a / b;
    if mode == Rounding::NearestEven || !a.is_finite() || !b.is_finite() || b == 0.0 || a == 0.0 {
        return q;
    }
    divide_integers(a, b, mode)
}

/// `sqrt.rnd.f64`.
pub fn sqrt_f64(a: f64, mode: Rounding) -> f64 {
    if mode == Rounding::NearestEven || a.is_nan() || a <= 0.0 || a.is_infinite() {
        return a.sqrt();
    }
    if a < f64::from_bits((1023 - 500) << 52) {
        // The residual of a small root would underflow. A root is never subnormal, so scaling is exact.
        let (up, down) = (f64::from_bits((1023 + 600) << 52), f64::from_bits((1023 - 300) << 52));
        return sqrt_f64(a * up, mode) * down;
    }
    let r = a.sqrt();
    let rest = soft_fma::fma(&Format::F64, -r, r, a, Rounding::Zero);
    step(r, f64::from_bits(rest), mode)
}

/// Quotient by long division of the significands, with a sticky bit.
fn divide_integers(a: f64, b: f64, mode: Rounding) -> f64 {
    use super::round::{Exact, encode_exact, exact_f64};
    let (x, y) = (exact_f64(a), exact_f64(b));
    // 74 extra bits: with a 53-bit divisor at least 74 - 53 + 1 more than a result needs, even when `x` is
    // subnormal, because its leading zeros are shifted out first.
    let up = x.man.leading_zeros() - 1;
    let n = x.man << up;
    let q = n / y.man;
    let sticky = (n % y.man != 0) as u128;
    let value =
        Exact { negative: x.negative != y.negative, man: (q << 1) | sticky, exp: x.exp - up as i32 - y.exp - 1 };
    f64::from_bits(encode_exact(&Format::F64, value, mode, Overflow::Ieee))
}

/// Moves a nearest-rounded positive value to the directed result, given the sign of `exact - x`.
fn step(x: f64, rest: f64, mode: Rounding) -> f64 {
    match mode {
        Rounding::Up if rest > 0.0 => f64::from_bits(x.to_bits() + 1),
        Rounding::Down | Rounding::Zero if rest < 0.0 => f64::from_bits(x.to_bits() - 1),
        _ => x,
    }
}
