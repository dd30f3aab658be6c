//! Run-time choice of the instruction set for hot loops, so that one portable binary uses what the machine has.
//!
//! `simd_fn!` compiles the same body three times: for x86-64-v4 (AVX-512), v3 (AVX2 + FMA) and the baseline, and calls
//! the best that the processor has. Loops are written so that the compiler vectorises them; reductions use [`LANES`]
//! partial sums, so that every instruction set adds in the same order. Rust never contracts `a * b + c`, so the three
//! versions give equal bits (the GEMM crate is the exception: its kernels use fused multiply-add where there is one).

/// Partial sums of a reduction: one AVX-512 register of f32.
pub const LANES: usize = 16;

/// Instruction-set level of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What the target guarantees.
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// The best level that this processor supports (the baseline without `std`).
#[inline]
pub fn level() -> Level {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        static LEVEL: OnceLock<Level> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            let avx2 = std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma");
            let avx512 = std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("avx512vl");
            match (avx2, avx512) {
                (true, true) => Level::Avx512,
                (true, false) => Level::Avx2,
                _ => Level::Baseline,
            }
        })
    }
    #[cfg(not(all(feature = "std", target_arch = "x86_64")))]
    Level::Baseline
}

/// Defines a function whose body is compiled once per instruction-set level and dispatched at run time.
macro_rules! simd_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$($gen:ident: $bound:path),+>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name<$($gen: $bound),+>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body<$($gen: $bound),+>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(all(feature = "std", target_arch = "x86_64"))]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi2")]
                #[allow(clippy::too_many_arguments)]
                fn avx512<$($gen: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                    body($($arg),*)
                }
                #[target_feature(enable = "avx2,fma,bmi2")]
                #[allow(clippy::too_many_arguments)]
                fn avx2<$($gen: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                    body($($arg),*)
                }
                match $crate::cpu::simd::level() {
                    // SAFETY: `level` returns this only when the processor reports every feature of the function.
                    $crate::cpu::simd::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::cpu::simd::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::cpu::simd::Level::Baseline => {}
                }
            }
            body($($arg),*)
        }
    };
}
pub(crate) use simd_fn;

use crate::element::{Element, Real};

/// Sum of the products of two equally long slices, in [`LANES`] partial sums that are added pairwise at the end.
#[inline(always)]
pub fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    let mut acc = [R::ZERO; LANES];
    let (ac, bc) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (ar, br) = (ac.remainder(), bc.remainder());
    for (x, y) in ac.zip(bc) {
        for l in 0..LANES {
            acc[l] += x[l] * y[l];
        }
    }
    for (l, (x, y)) in ar.iter().zip(br).enumerate() {
        acc[l] += *x * *y;
    }
    fold(acc)
}

/// Pairwise sum of the partial sums.
#[inline(always)]
pub fn fold<R: Real>(mut acc: [R; LANES]) -> R {
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            acc[l] += acc[l + width];
        }
        width /= 2;
    }
    acc[0]
}

simd_fn! {
    /// `dst = widen(src)` element by element.
    pub fn widen<A: Element>(src: &[A], dst: &mut [A::Acc]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = s.widen();
        }
    }
}

simd_fn! {
    /// `dst = narrow(src)` element by element.
    pub fn narrow<A: Element>(src: &[A::Acc], dst: &mut [A]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = A::narrow(*s);
        }
    }
}
