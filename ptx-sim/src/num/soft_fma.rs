//! Exact `a * b + c` in integers: the base of every operation with a directed rounding.
//!
//! Significands are normalised to 53 bits, so that the product has 105 or 106. The smaller operand is moved
//! to the larger one's grid; what falls off is kept as one sticky bit, which is enough because at least
//! twenty bits then lie between the last place of the result and that bit.

use super::format::Format;
use super::round::{Exact, Overflow, Rounding, encode_exact, exact_f64};

/// Rounds `a * b + c` once to `fmt` (`F32` or `F64`, or a half format) in the given mode; returns the code.
/// Zero signs and NaN follow IEEE 754: an exact zero sum is `+0`, except toward negative infinity.
pub fn fma(fmt: &Format, a: f64, b: f64, c: f64, mode: Rounding) -> u64 {
    let product = a * b;
    if !a.is_finite() || !b.is_finite() || !c.is_finite() {
        // No rounding can happen: the native operation gives the right class and sign. A finite product
        // that overflows must not turn `-inf` into NaN, so it is replaced by a finite number.
        let p = if a.is_finite() && b.is_finite() { product.clamp(-1.0, 1.0) } else { product };
        let sum = p + c;
        return if sum.is_nan() {
            fmt.nan
        } else {
            super::round::encode(fmt, sum, Rounding::NearestEven, Overflow::Ieee)
        };
    }
    let sum = add_exact(mul_exact(a, b), normalised(exact_f64(c)), mode);
    encode_exact(fmt, sum, mode, Overflow::Ieee)
}

fn mul_exact(a: f64, b: f64) -> Exact {
    let (x, y) = (normalised(exact_f64(a)), normalised(exact_f64(b)));
    Exact { negative: x.negative != y.negative, man: x.man * y.man, exp: x.exp + y.exp }
}

/// Moves the leading bit of a non-zero significand of at most 53 bits to position 52.
fn normalised(x: Exact) -> Exact {
    if x.man == 0 {
        return x;
    }
    let up = 52 - (127 - x.man.leading_zeros() as i32);
    Exact { man: x.man << up, exp: x.exp - up, ..x }
}

fn shift_sticky(man: u128, by: u32) -> u128 {
    if by == 0 {
        man
    } else if by > 127 {
        (man != 0) as u128
    } else {
        (man >> by) | (man & ((1 << by) - 1) != 0) as u128
    }
}

/// `p + c`, with `p` a product (at most 106 bits) and `c` at most 53 bits.
fn add_exact(p: Exact, c: Exact, mode: Rounding) -> Exact {
    let zero_sign = |same: bool, negative: bool| {
        if same { negative } else { mode == Rounding::Down }
    };
    if p.man == 0 && c.man == 0 {
        return Exact { negative: zero_sign(p.negative == c.negative, p.negative), man: 0, exp: 0 };
    }
    if p.man == 0 {
        return c;
    }
    if c.man == 0 {
        return p;
    }
    let d = c.exp as i64 - p.exp as i64;
    let (pm, cm, exp) = if d >= 0 {
        let left = d.min(73) as u32;
        (shift_sticky(p.man, (d as u32) - left), c.man << left, c.exp - left as i32)
    } else {
        let left = (-d).min(20) as u32;
        (p.man << left, shift_sticky(c.man, (-d) as u32 - left), p.exp - left as i32)
    };
    if p.negative == c.negative {
        return Exact { negative: p.negative, man: pm + cm, exp };
    }
    match pm.cmp(&cm) {
        core::cmp::Ordering::Greater => Exact { negative: p.negative, man: pm - cm, exp },
        core::cmp::Ordering::Less => Exact { negative: c.negative, man: cm - pm, exp },
        core::cmp::Ordering::Equal => Exact { negative: zero_sign(false, false), man: 0, exp: 0 },
    }
}
