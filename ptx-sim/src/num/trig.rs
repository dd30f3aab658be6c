//! `sin.approx` and `cos.approx`: absolute error below 2^-20.5 in [-2 pi, 2 pi] and 2^-14.7 in
//! [-100 pi, 100 pi], as PTX ISA 9.0 documents; beyond that the device promises nothing, and here the
//! error stays small up to 2^31.

use super::rounded::{canonical_f32, ftz_f32};

/// pi/2 in three parts of 33, 33 and 53 bits.
const PIO2: [f64; 3] = [
    f64::from_bits(0x3ff9_21fb_5440_0000),
    f64::from_bits(0x3dd0_b461_1a60_0000),
    f64::from_bits(0x3ba3_198a_2e03_7073),
];

/// Quadrant (mod 4) and remainder in [-pi/4, pi/4] of `x`.
#[inline(always)]
fn reduce(x: f64) -> (i64, f64) {
    let n = (x * core::f64::consts::FRAC_2_PI).round_ties_even();
    let r = ((x - n * PIO2[0]) - n * PIO2[1]) - n * PIO2[2];
    // Saturating: for huge inputs the quadrant is meaningless, which the instruction allows.
    (n as i64, if r.abs() < 1.0 { r } else { 0.0 })
}

#[inline(always)]
fn sin_series(r: f64) -> f64 {
    let q = r * r;
    r * (1.0 - q * (1.0 / 6.0 - q * (1.0 / 120.0 - q * (1.0 / 5040.0 - q * (1.0 / 362_880.0)))))
}

#[inline(always)]
fn cos_series(r: f64) -> f64 {
    let q = r * r;
    1.0 - q * (1.0 / 2.0 - q * (1.0 / 24.0 - q * (1.0 / 720.0 - q * (1.0 / 40_320.0 - q * (1.0 / 3_628_800.0)))))
}

fn quadrant(x: f32, shift: i64) -> f32 {
    if !x.is_finite() {
        return f32::from_bits(0x7fff_ffff);
    }
    let (n, r) = reduce(x as f64);
    let k = n.wrapping_add(shift);
    let v = if k & 1 == 0 { sin_series(r) } else { cos_series(r) };
    canonical_f32(if k & 2 == 0 { v } else { -v } as f32)
}

/// `sin.approx{.ftz}.f32`; the sign of a zero is kept, an infinity gives NaN.
pub fn sin_f32(x: f32, ftz: bool) -> f32 {
    let x = if ftz { ftz_f32(x) } else { x };
    if x == 0.0 {
        return x;
    }
    let y = quadrant(x, 0);
    if ftz { ftz_f32(y) } else { y }
}

/// `cos.approx{.ftz}.f32`.
pub fn cos_f32(x: f32, ftz: bool) -> f32 {
    let x = if ftz { ftz_f32(x) } else { x };
    let y = quadrant(x, 1);
    if ftz { ftz_f32(y) } else { y }
}
