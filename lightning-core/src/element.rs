//! Storage types and the arithmetic types that kernels compute in.

use crate::tensor::DType;
use bytemuck::Pod;
use core::fmt::Debug;
use core::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};
use half::bf16;

/// A type that a buffer can store and a CPU kernel can read.
pub trait Element: Pod + Send + Sync + PartialEq + Debug {
    /// The type in which kernels compute: f64 for f64, else f32.
    type Acc: Real;
    /// The run-time name of the type.
    const DTYPE: DType;
    /// Widens; exact.
    fn widen(self) -> Self::Acc;
    /// Rounds to nearest even.
    fn narrow(value: Self::Acc) -> Self;
}

impl Element for f32 {
    type Acc = f32;
    const DTYPE: DType = DType::F32;
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(value: f32) -> f32 {
        value
    }
}

impl Element for f64 {
    type Acc = f64;
    const DTYPE: DType = DType::F64;
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(value: f64) -> f64 {
        value
    }
}

impl Element for bf16 {
    type Acc = f32;
    const DTYPE: DType = DType::BF16;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
    #[inline(always)]
    fn narrow(value: f32) -> bf16 {
        // Branch-free round to nearest even, so that loops over it vectorise; NaN stays a quiet NaN.
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let nan = (bits >> 16) | 0x40;
        bf16::from_bits(if value.is_nan() { nan as u16 } else { rounded as u16 })
    }
}

/// Real arithmetic of kernels: f32 or f64.
pub trait Real:
    Element<Acc = Self>
    + PartialOrd
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Negative infinity.
    const NEG_INFINITY: Self;
    /// Nearest value.
    fn from_f64(value: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
    /// e^x, relative error below 2 units in the last place; vectorises for f32.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// ln(1 + x).
    fn ln_1p(self) -> Self;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Larger of two numbers; `other` when one is NaN, so that `bound.max(x)` keeps a NaN of `x`.
    fn max(self, other: Self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Single-threaded C = alpha A B + beta C with row and column strides.
    ///
    /// # Safety
    /// The pointers and strides must describe readable `m x k` and `k x n` matrices and a writable `m x n` matrix that
    /// overlaps neither.
    #[allow(clippy::too_many_arguments)]
    unsafe fn gemm(
        m: usize,
        k: usize,
        n: usize,
        alpha: Self,
        a: (*const Self, isize, isize),
        b: (*const Self, isize, isize),
        beta: Self,
        c: (*mut Self, isize, isize),
    );

    /// 1 / (1 + e^-x).
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }

    /// ln(1 + e^x); the identity above 20, as in the reference kernels.
    #[inline(always)]
    fn softplus(self) -> Self {
        if self > Self::from_f64(20.0) { self } else { self.exp().ln_1p() }
    }
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const NEG_INFINITY: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
    /// Range reduction to r in [-ln2/2, ln2/2] and a degree-7 Taylor polynomial, branch-free. Below -87.3 the result
    /// flushes towards 0 smoothly through the clamp; NaN passes through.
    #[inline(always)]
    fn exp(self) -> f32 {
        const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits
        let x = if self > 88.72 { 88.72 } else { self };
        let x = if x < -87.33 { -87.33 } else { x };
        let shifted = x * core::f32::consts::LOG2_E + SHIFT;
        let n = shifted - SHIFT;
        let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
        let p = 1.0 / 5040.0;
        let p = p * r + 1.0 / 720.0;
        let p = p * r + 1.0 / 120.0;
        let p = p * r + 1.0 / 24.0;
        let p = p * r + 1.0 / 6.0;
        let p = p * r + 0.5;
        let p = p * r * r + r + 1.0;
        // Two half-steps keep the scale finite at both ends of the range.
        let k = shifted.to_bits().wrapping_sub(SHIFT.to_bits()) as i32;
        let half = k >> 1;
        let s1 = f32::from_bits(((half + 127) as u32) << 23);
        let s2 = f32::from_bits(((k - half + 127) as u32) << 23);
        let y = p * s1 * s2;
        let y = if self > 88.72 { f32::INFINITY } else { y };
        if self < -87.33 { 0.0 } else { y }
    }
    #[inline(always)]
    fn ln(self) -> f32 {
        libm::logf(self)
    }
    #[inline(always)]
    fn ln_1p(self) -> f32 {
        libm::log1pf(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f32 {
        square_root_f32(self)
    }
    #[inline(always)]
    fn max(self, other: f32) -> f32 {
        if self > other { self } else { other }
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
    #[inline]
    unsafe fn gemm(
        m: usize,
        k: usize,
        n: usize,
        alpha: f32,
        a: (*const f32, isize, isize),
        b: (*const f32, isize, isize),
        beta: f32,
        c: (*mut f32, isize, isize),
    ) {
        // SAFETY: the caller vouches for the three matrices.
        unsafe { matrixmultiply::sgemm(m, k, n, alpha, a.0, a.1, a.2, b.0, b.1, b.2, beta, c.0, c.1, c.2) }
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const NEG_INFINITY: f64 = f64::NEG_INFINITY;
    #[inline(always)]
    fn from_f64(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn exp(self) -> f64 {
        libm::exp(self)
    }
    #[inline(always)]
    fn ln(self) -> f64 {
        libm::log(self)
    }
    #[inline(always)]
    fn ln_1p(self) -> f64 {
        libm::log1p(self)
    }
    #[inline(always)]
    fn sqrt(self) -> f64 {
        square_root_f64(self)
    }
    #[inline(always)]
    fn max(self, other: f64) -> f64 {
        if self > other { self } else { other }
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
    #[inline]
    unsafe fn gemm(
        m: usize,
        k: usize,
        n: usize,
        alpha: f64,
        a: (*const f64, isize, isize),
        b: (*const f64, isize, isize),
        beta: f64,
        c: (*mut f64, isize, isize),
    ) {
        // SAFETY: the caller vouches for the three matrices.
        unsafe { matrixmultiply::dgemm(m, k, n, alpha, a.0, a.1, a.2, b.0, b.1, b.2, beta, c.0, c.1, c.2) }
    }
}

// With `std` the square root is one instruction and vectorises; both are correctly rounded, hence equal.
#[inline(always)]
fn square_root_f32(x: f32) -> f32 {
    #[cfg(feature = "std")]
    return x.sqrt();
    #[cfg(not(feature = "std"))]
    return libm::sqrtf(x);
}

#[inline(always)]
fn square_root_f64(x: f64) -> f64 {
    #[cfg(feature = "std")]
    return x.sqrt();
    #[cfg(not(feature = "std"))]
    return libm::sqrt(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_f32_is_within_two_ulp_of_f64() {
        let mut worst = 0.0f64;
        for i in 0..2_000_000 {
            let x = -87.3 + 175.9 * (i as f32 / 2_000_000.0);
            let (got, want) = (Real::exp(x) as f64, libm::exp(x as f64));
            worst = worst.max(((got - want) / want).abs());
        }
        assert!(worst < 2.4e-7, "worst relative error {worst:e}");
        assert_eq!(Real::exp(-200.0f32), 0.0);
        assert_eq!(Real::exp(200.0f32), f32::INFINITY);
        assert_eq!(Real::exp(0.0f32), 1.0);
        assert!(Real::exp(f32::NAN).is_nan());
    }

    #[test]
    fn bf16_narrowing_equals_the_half_crate_on_every_upper_half() {
        for hi in 0..=u16::MAX {
            for lo in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let x = f32::from_bits((hi as u32) << 16 | lo);
                let (a, b) = (<bf16 as Element>::narrow(x), bf16::from_f32(x));
                assert!(a == b || (a.is_nan() && b.is_nan()), "{x:?}");
            }
        }
    }
}
