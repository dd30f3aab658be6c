//! Approximate functions against binary64 on ten million points, within the bounds of PTX ISA 9.0.

use ptx_sim::num::half_math::Half;
use ptx_sim::num::{approx, trig};

/// Points over which each bound is checked, spread over all functions.
const POINTS: u64 = 1_000_000;

/// Well spread 32-bit patterns: an odd multiplier visits every residue.
fn pattern(i: u64) -> u32 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Error in units of the last place of the f32 nearest to the exact value.
fn ulp(got: f32, want: f64) -> f64 {
    let w = want as f32;
    if w.is_infinite() || got.is_infinite() {
        return if w == got { 0.0 } else { f64::INFINITY };
    }
    let place = ((w.abs().next_up() as f64) - w.abs() as f64).max(f32::from_bits(1) as f64);
    (got as f64 - want).abs() / place
}

#[test]
fn ex2_within_two_units() {
    for i in 0..2 * POINTS {
        let x =
            if i % 2 == 0 { f32::from_bits(pattern(i)) } else { (pattern(i) as f32 / u32::MAX as f32 - 0.5) * 320.0 };
        if x.is_nan() {
            assert!(approx::ex2_f32(x, false).is_nan());
            continue;
        }
        let want = (x as f64).exp2();
        assert!(ulp(approx::ex2_f32(x, false), want) <= 2.0, "{x:e}");
        let flushed = approx::ex2_f32(x, true);
        assert!(!flushed.is_subnormal());
        assert!(flushed == 0.0 || ulp(flushed, want) <= 2.0);
    }
    assert_eq!(approx::ex2_f32(f32::NEG_INFINITY, false), 0.0);
    assert_eq!(approx::ex2_f32(f32::INFINITY, true), f32::INFINITY);
    assert_eq!((approx::ex2_f32(-0.0, true), approx::ex2_f32(10.0, true)), (1.0, 1024.0));
}

#[test]
fn lg2_within_two_to_the_minus_22() {
    let bound = 2f64.powi(-22);
    for i in 0..2 * POINTS {
        let bits = if i % 2 == 0 { pattern(i) & 0x7fff_ffff } else { 0x3f00_0000 + pattern(i) % 0x0100_0000 };
        let x = f32::from_bits(bits);
        if !x.is_finite() || x == 0.0 {
            continue;
        }
        let (got, want) = (approx::lg2_f32(x, false) as f64, (x as f64).log2());
        let error = (got - want).abs();
        assert!(if x > 0.5 && x < 2.0 { error <= bound } else { error <= bound * want.abs() }, "{x:e}: {got} {want}");
    }
    assert_eq!(approx::lg2_f32(0.0, false), f32::NEG_INFINITY);
    assert_eq!(approx::lg2_f32(1e-40, true), f32::NEG_INFINITY);
    assert!(approx::lg2_f32(-1.0, false).is_nan() && approx::lg2_f32(f32::NAN, false).is_nan());
    assert_eq!((approx::lg2_f32(f32::INFINITY, false), approx::lg2_f32(1.0, false)), (f32::INFINITY, 0.0));
}

#[test]
fn reciprocals_roots_and_quotients() {
    let (e_rsqrt, e_sqrt) = (2f64.powf(-22.9), 2f64.powi(-23));
    for i in 0..2 * POINTS {
        let x = f32::from_bits(pattern(i));
        let y = f32::from_bits(pattern(i + 17));
        if x.is_nan() || y.is_nan() {
            continue;
        }
        assert!(ulp(approx::rcp_f32(x, false), 1.0 / x as f64) <= 1.0, "{x:e}");
        if x > 0.0 && x.is_finite() {
            let (r, s) = (1.0 / (x as f64).sqrt(), (x as f64).sqrt());
            assert!((approx::rsqrt_f32(x, false) as f64 - r).abs() <= e_rsqrt * r, "{x:e}");
            assert!((approx::sqrt_f32(x, false) as f64 - s).abs() <= e_sqrt * s, "{x:e}");
        }
        let quotient = x as f64 / y as f64;
        if !quotient.is_nan() {
            assert!(ulp(approx::div_f32(x, y, true, false), quotient) <= 2.0, "{x:e} {y:e}");
            if (2f32.powi(-126)..=2f32.powi(126)).contains(&y.abs()) {
                assert!(ulp(approx::div_f32(x, y, false, false), quotient) <= 2.0);
            }
        }
    }
    let huge = 1.5 * 2f32.powi(126);
    assert_eq!(approx::div_f32(3.0, huge, false, false), 0.0);
    assert!(approx::div_f32(f32::INFINITY, huge, false, false).is_nan());
    assert_eq!(approx::rsqrt_f32(-0.0, false), f32::NEG_INFINITY);
    assert_eq!(approx::rsqrt_f32(1e-40, true), f32::INFINITY);
    assert!(approx::rsqrt_f32(-1.0, false).is_nan() && approx::sqrt_f32(-1.0, true).is_nan());
    assert_eq!(approx::rcp_f32(1e-40, true), f32::INFINITY);
    for x in [3.0f64, -0.7, 1e300, 1e-300] {
        assert!((approx::rcp_approx_f64(x) * x - 1.0).abs() < 1e-5);
        assert_eq!(approx::rcp_approx_f64(x).to_bits() as u32, 0);
        assert!((approx::rsqrt_approx_ftz_f64(x.abs()).powi(2) * x.abs() - 1.0).abs() < 1e-5);
        assert!((approx::rsqrt_f64(x.abs()).powi(2) * x.abs() - 1.0).abs() < 1e-15);
    }
}

#[test]
fn sines_and_cosines() {
    let tau = std::f32::consts::TAU;
    for i in 0..2 * POINTS {
        let unit = pattern(i) as f32 / u32::MAX as f32 - 0.5;
        let (x, bound) =
            if i % 2 == 0 { (unit * 2.0 * tau, 2f64.powf(-20.5)) } else { (unit * 100.0 * tau, 2f64.powf(-14.7)) };
        assert!((trig::sin_f32(x, false) as f64 - (x as f64).sin()).abs() <= bound, "{x}");
        assert!((trig::cos_f32(x, true) as f64 - (x as f64).cos()).abs() <= bound, "{x}");
        let wild = f32::from_bits(pattern(i));
        assert!(!wild.is_finite() || trig::sin_f32(wild, false).abs() <= 1.0);
    }
    assert_eq!(trig::sin_f32(-0.0, false).to_bits(), 0x8000_0000);
    assert_eq!((trig::sin_f32(1e-40, true), trig::cos_f32(0.0, false)), (0.0, 1.0));
    assert!(trig::sin_f32(f32::INFINITY, false).is_nan() && trig::cos_f32(f32::NAN, false).is_nan());
}

#[test]
fn hyperbolic_tangent() {
    let bound = 2f64.powi(-11);
    for i in 0..2 * POINTS {
        let x =
            if i % 2 == 0 { f32::from_bits(pattern(i)) } else { (pattern(i) as f32 / u32::MAX as f32 - 0.5) * 20.0 };
        if x.is_nan() {
            assert!(approx::tanh_f32(x).is_nan());
            continue;
        }
        let want = (x as f64).tanh();
        assert!((approx::tanh_f32(x) as f64 - want).abs() <= bound * want.abs(), "{x:e}");
    }
    assert_eq!(approx::tanh_f32(f32::NEG_INFINITY), -1.0);
}

#[test]
fn half_precision_functions_on_every_code() {
    for h in [Half::F16, Half::Bf16] {
        let (ex2_bound, tanh_bound) = match h {
            Half::F16 => (2f64.powf(-9.9), 2f64.powf(-10.987)),
            Half::Bf16 => (2f64.powi(-7), 2f64.powi(-8)),
        };
        for code in 0..=u16::MAX {
            let x = h.value(code) as f64;
            let (e, t) = (h.value(approx::ex2_half(h, code, false)) as f64, h.value(approx::tanh_half(h, code)) as f64);
            if x.is_nan() {
                assert!(e.is_nan() && t.is_nan());
                continue;
            }
            let want = x.exp2();
            let (max, tiny) = (h.format().decode(h.format().max_code()), h.format().decode(1));
            assert!(if want > max { e >= max } else { (e - want).abs() <= ex2_bound * want + tiny }, "{h:?} {x}");
            assert!((t - x.tanh()).abs() <= tanh_bound, "{h:?} {x}");
        }
    }
}
