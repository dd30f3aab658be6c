//! Arithmetic with one rounding, minima and maxima, and conversions of integers, against independent formulas.

use ptx_sim::num::half_math::{Half, HalfModifiers, packed2, packed3};
use ptx_sim::num::int_cvt::{IntRounding, IntType, float_to_int, int_to_float, int_to_int};
use ptx_sim::num::min_max::{self, MinMaxModifiers, TestP};
use ptx_sim::num::{Format, Rounding, rounded, soft_fma};

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A float with an exponent in a window, so that sums cancel often.
    fn near(&mut self, centre: i32, spread: i32) -> f64 {
        let e = centre + (self.next() % (2 * spread as u64 + 1)) as i32 - spread;
        let man = self.next() & 0xf_ffff_ffff_ffff & !0u64.checked_shl((self.next() % 53) as u32).unwrap_or(0);
        f64::from_bits((self.next() & 1) << 63 | ((e + 1023) as u64) << 52 | man)
    }
}

const MODES: [Rounding; 4] = [Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up];

#[test]
fn soft_fma_agrees_with_the_machine_to_nearest() {
    let mut rng = Rng(0xf3a);
    for k in 0..400_000 {
        let (a, b, c) = match k % 3 {
            0 => (rng.near(0, 40), rng.near(0, 40), rng.near(0, 120)),
            1 => (f64::from_bits(rng.next()), f64::from_bits(rng.next()), f64::from_bits(rng.next())),
            _ => {
                let (a, b) = (rng.near(-500, 30), rng.near(-540, 30));
                (a, b, -a * b * (1.0 + (rng.next() % 5) as f64 * f64::EPSILON))
            }
        };
        let want = a.mul_add(b, c);
        let got = f64::from_bits(soft_fma::fma(&Format::F64, a, b, c, Rounding::NearestEven));
        assert!(
            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
            "{a:e} {b:e} {c:e}: {got:e} {want:e}"
        );
        // The directed results enclose the exact value, are adjacent, and one of them is the nearest.
        if want.is_finite() {
            let down = rounded::fma_f64(a, b, c, Rounding::Down);
            let up = rounded::fma_f64(a, b, c, Rounding::Up);
            let zero = rounded::fma_f64(a, b, c, Rounding::Zero);
            assert!(down == up || down.next_up() == up, "{a:e} {b:e} {c:e}: {down:e} {up:e}");
            assert!(want == down || want == up);
            assert_eq!(zero, if down >= 0.0 { down } else { up });
        }
    }
    for (a, b, c) in [
        (f64::MAX, f64::MAX, f64::NEG_INFINITY),
        (f64::INFINITY, 0.0, 1.0),
        (f64::MAX, 2.0, 1.0),
        (0.0, -1.0, 0.0),
        (-0.0, 1.0, -0.0),
    ] {
        let (got, want) =
            (f64::from_bits(soft_fma::fma(&Format::F64, a, b, c, Rounding::NearestEven)), a.mul_add(b, c));
        assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{a} {b} {c}: {got} {want}");
    }
}

#[test]
fn f32_operations_in_every_mode() {
    let mut rng = Rng(0xadd);
    for k in 0..300_000 {
        let draw = |rng: &mut Rng| {
            if k % 2 == 0 { f32::from_bits(rng.next() as u32) } else { rng.near(0, 12) as f32 }
        };
        let (a, b, c) = (draw(&mut rng), draw(&mut rng), draw(&mut rng));
        let want = a.mul_add(b, c);
        let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
        assert!(same(rounded::fma_f32(a, b, c, Rounding::NearestEven), want));
        assert!(same(rounded::fma_f32_unfused(a, b, c), want), "{a:e} {b:e} {c:e}");
        if !want.is_finite() {
            continue;
        }
        type Op = fn(f32, f32, f32, Rounding) -> f32;
        let ops: [(&str, Op, f64); 4] = [
            ("add", |a, b, _, m| rounded::add_f32(a, b, m), a as f64 + b as f64),
            ("mul", |a, b, _, m| rounded::mul_f32(a, b, m), a as f64 * b as f64),
            ("div", |a, b, _, m| rounded::div_f32(a, b, m), a as f64 / b as f64),
            ("sqrt", |a, _, _, m| rounded::sqrt_f32(a, m), (a as f64).sqrt()),
        ];
        for (name, op, reference) in ops {
            if !reference.is_finite() || reference.abs() > f32::MAX as f64 {
                continue;
            }
            let [near, zero, down, up] = MODES.map(|m| op(a, b, c, m));
            assert!(down == up || down.next_up() == up, "{name} {a:e} {b:e}: {down:e} {up:e}");
            // The f64 reference is within 2^-53 relative of the exact value; enclosure up to that.
            let slack = reference.abs() * f64::EPSILON + 1e-300;
            assert!(down as f64 <= reference + slack && up as f64 >= reference - slack, "{name} {a:e} {b:e}");
            assert!(near == down || near == up, "{name}");
            assert_eq!(zero, if reference >= 0.0 { down } else { up }, "{name} {a:e} {b:e}");
        }
    }
    // 1/3 is below its nearest f32, 2/3 above: the directions are visible.
    assert!(rounded::rcp_f32(3.0, Rounding::Down) < rounded::rcp_f32(3.0, Rounding::NearestEven));
    assert_eq!(rounded::rcp_f32(3.0, Rounding::Up), rounded::rcp_f32(3.0, Rounding::NearestEven));
    assert_eq!(rounded::add_f32(1.0, -1.0, Rounding::Down).to_bits(), (-0.0f32).to_bits());
    assert_eq!(rounded::add_f32(1.0, -1.0, Rounding::Up).to_bits(), 0);
}

#[test]
fn f64_quotients_and_roots_in_every_mode() {
    let mut rng = Rng(0xd1f);
    for k in 0..100_000 {
        let (a, b) = if k % 2 == 0 {
            (rng.near(0, 30), rng.near(0, 30))
        } else {
            (f64::from_bits(rng.next()), rng.near(0, 900))
        };
        if !(a / b).is_finite() || a.is_nan() {
            continue;
        }
        let [near, zero, down, up] = MODES.map(|m| rounded::div_f64(a, b, m));
        assert!(down <= up && (down == up || down.next_up() == up), "{a:e} / {b:e}: {down:e} {up:e}");
        assert!(near == down || near == up);
        assert_eq!(zero, if near.is_sign_positive() { down } else { up });
        let p = a.abs();
        let [near, zero, down, up] = MODES.map(|m| rounded::sqrt_f64(p, m));
        assert!(down == up || down.next_up() == up, "sqrt {p:e}");
        assert!((near == down || near == up) && zero == down);
        if p > 1e-200 {
            assert!(down.mul_add(down, -p) <= 0.0 && up.mul_add(up, -p) >= 0.0, "sqrt {p:e}");
        }
        let [near, _, down, up] = MODES.map(|m| rounded::mul_f64(a, b, m));
        assert!(!near.is_finite() || down == up || down.next_up() == up);
    }
}

/// `a * b + c` of halves through integers: all three are multiples of a power of two.
fn half_fma_by_integers(fmt: &Format, a: u16, b: u16, c: u16) -> u16 {
    let split = |x: u16| {
        let e = ((x as i32 & 0x7fff) >> fmt.man_bits).max(1);
        let hidden = if (x & 0x7fff) >> fmt.man_bits == 0 { 0 } else { 1i128 << fmt.man_bits };
        let man = (x as i128 & ((1 << fmt.man_bits) - 1)) + hidden;
        (if x >> 15 == 1 { -man } else { man }, e - fmt.bias - fmt.man_bits as i32)
    };
    let ((am, ae), (bm, be), (cm, ce)) = (split(a), split(b), split(c));
    let exp = (ae + be).min(ce);
    let sum = am * bm * (1i128 << (ae + be - exp)) + cm * (1i128 << (ce - exp));
    if sum == 0 {
        let negative = (am == 0 || bm == 0) && cm == 0 && (a ^ b) >> 15 == 1 && c >> 15 == 1;
        return (negative as u16) << 15;
    }
    // Round |sum| * 2^exp by counting places.
    let (n, mag) = (sum < 0, sum.unsigned_abs());
    let top = 127 - mag.leading_zeros() as i32 + exp;
    let q = (top - fmt.man_bits as i32).max(1 - fmt.bias - fmt.man_bits as i32);
    let places = q - exp;
    let kept = if places <= 0 {
        mag << -places
    } else {
        let (k, r) = (mag >> places, mag & ((1 << places) - 1));
        let half = 1u128 << (places - 1);
        k + (r > half || (r == half && k & 1 == 1)) as u128
    };
    let value = kept as f64 * 2f64.powi(q);
    let code = if value > fmt.decode(fmt.max_code()) {
        fmt.max_code() + 1
    } else {
        (0..=fmt.max_code()).collect::<Vec<_>>().partition_point(|&x| fmt.decode(x) < value) as u64
    };
    code as u16 | (n as u16) << 15
}

#[test]
fn half_arithmetic_rounds_once() {
    let mut rng = Rng(0x4a1f);
    let m = HalfModifiers::default();
    for h in [Half::F16, Half::Bf16] {
        let fmt = h.format();
        let mut checked = 0;
        while checked < 1500 {
            let [a, b, mut c] = [(); 3].map(|_| rng.next() as u16);
            if h == Half::Bf16 {
                // Keep the exponents close enough for the integer reference.
                let narrow = |x: u16| x & 0x807f | (0x60 + (x >> 7) % 0x20) << 7;
                let (a, b) = (narrow(a), narrow(b));
                c = narrow(c);
                assert_eq!(h.fma(a, b, c, m), half_fma_by_integers(fmt, a, b, c), "{h:?} {a:#x} {b:#x} {c:#x}");
                checked += 1;
                continue;
            }
            if [a, b, c].iter().any(|&x| x & 0x7c00 == 0x7c00) {
                continue;
            }
            assert_eq!(h.fma(a, b, c, m), half_fma_by_integers(fmt, a, b, c), "{h:?} {a:#x} {b:#x} {c:#x}");
            checked += 1;
        }
        for _ in 0..200_000 {
            let (a, b) = (rng.next() as u16, rng.next() as u16);
            let (x, y) = (fmt.decode(a as u64), fmt.decode(b as u64));
            let code = |v: f64| {
                ptx_sim::num::round::encode(fmt, v, Rounding::NearestEven, ptx_sim::num::round::Overflow::Ieee) as u16
            };
            assert_eq!(h.mul(a, b, m), code(x * y));
            if h == Half::F16 {
                // The sum of two f16 is exact in f64.
                assert_eq!(h.add(a, b, m), code(x + y), "{a:#x} {b:#x}");
                assert_eq!(h.sub(a, b, m), code(x - y));
            }
        }
    }
}

#[test]
fn half_modifiers_and_packing() {
    let h = Half::F16;
    let m = |ftz, sat, relu| HalfModifiers { ftz, sat, relu };
    assert_eq!(h.add(0x3c00, 0x3c00, m(false, true, false)), 0x3c00);
    assert_eq!(h.add(0xbc00, 0x0000, m(false, true, false)), 0);
    assert_eq!(h.fma(0x7e00, 0x3c00, 0, m(false, true, false)), 0);
    assert_eq!(h.fma(0xbc00, 0x3c00, 0, m(false, false, true)), 0);
    assert_eq!(h.fma(0x7e00, 0x3c00, 0, m(false, false, true)), 0x7fff);
    assert_eq!(h.add(0x8001, 0x8000, m(true, false, false)), 0x8000);
    assert_eq!(h.mul(0x0400, 0x3800, m(true, false, false)), 0);
    assert_eq!(h.mul(0x0400, 0x3800, m(false, false, false)), 0x0200);
    assert_eq!(Half::Bf16.fma_oob(0x7fff, 0x3f80, 0x4000, false), 0x4000);
    assert_eq!(Half::Bf16.fma_oob(0x3f80, 0x3f80, 0x4000, false), 0x4040);
    assert_eq!((h.neg(0x3c00, false), h.abs(0xbc00, false), h.neg(0x8001, true)), (0xbc00, 0x3c00, 0));
    assert_eq!(packed2(0x3c00_4000, 0x3c00_3c00, |a, b| h.add(a, b, m(false, false, false))), 0x4000_4200);
    assert_eq!(
        packed3(0x3c00_4000, 0x4000_4000, 0x0000_3c00, |a, b, c| h.fma(a, b, c, m(false, false, false))),
        0x4000_4500
    );
}

#[test]
fn minima_and_maxima_follow_nan_and_zero_rules() {
    let m = |ftz, nan, xorsign_abs| MinMaxModifiers { ftz, nan, xorsign_abs };
    let d = MinMaxModifiers::default();
    let f = min_max::min_max_f32;
    assert_eq!(f(f32::NAN, 1.0, false, d), 1.0);
    assert_eq!(f(1.0, f32::NAN, true, d), 1.0);
    assert_eq!(f(f32::NAN, -f32::NAN, true, d).to_bits(), 0x7fff_ffff);
    assert_eq!(f(f32::NAN, 1.0, true, m(false, true, false)).to_bits(), 0x7fff_ffff);
    for (a, b) in [(0.0f32, -0.0f32), (-0.0, 0.0)] {
        assert_eq!(f(a, b, false, d).to_bits(), 0x8000_0000);
        assert_eq!(f(a, b, true, d).to_bits(), 0);
    }
    assert_eq!(f(-2.0, 3.0, false, m(false, false, true)), -2.0);
    assert_eq!(f(-2.0, -3.0, true, m(false, false, true)), 3.0);
    assert_eq!(f(f32::from_bits(1), -1.0, true, m(true, false, false)).to_bits(), 0);
    assert_eq!(min_max::min_max3_f32(3.0, f32::NAN, -1.0, false, d), -1.0);
    let mut rng = Rng(0x717);
    for _ in 0..100_000 {
        let (a, b) = (f32::from_bits(rng.next() as u32), f32::from_bits(rng.next() as u32));
        if a.is_nan() || b.is_nan() {
            continue;
        }
        assert_eq!(f(a, b, false, d), if a < b { a } else { b });
        assert_eq!(f(a, b, true, d), if a > b { a } else { b });
        let (x, y) = (a as f64, b as f64);
        assert_eq!(min_max::min_max_f64(x, y, true), if x > y { x } else { y });
        for h in [Half::F16, Half::Bf16] {
            let (p, q) = (rng.next() as u16, rng.next() as u16);
            let (v, w) = (h.value(p), h.value(q));
            if !v.is_nan() && !w.is_nan() {
                assert_eq!(h.value(min_max::min_max_half(h, p, q, true, d)), if v > w { v } else { w });
                assert_eq!(h.value(min_max::min_max_half(h, p, q, false, d)), if v < w { v } else { w });
            }
        }
    }
    assert_eq!(min_max::min_max_half(Half::F16, 0x7e00, 0x3c00, true, d), 0x3c00);
    assert_eq!(min_max::min_max_half(Half::F16, 0x7e00, 0x3c00, true, m(false, true, false)), 0x7fff);
    assert!(min_max::testp_f32(0.0, TestP::Normal) && !min_max::testp_f32(1e-40, TestP::Normal));
    assert!(min_max::testp_f64(1e-310, TestP::Subnormal) && min_max::testp_f32(f32::NAN, TestP::NotANumber));
}

#[test]
fn integers_to_floats_and_back() {
    let mut rng = Rng(0x1b7);
    let ty = |bits, signed| IntType { bits, signed };
    for _ in 0..200_000 {
        let x = rng.next() >> (rng.next() % 64);
        assert_eq!(
            int_to_float(&Format::F32, ty(32, true), x, Rounding::NearestEven) as u32,
            (x as u32 as i32 as f32).to_bits()
        );
        assert_eq!(
            int_to_float(&Format::F32, ty(32, false), x, Rounding::NearestEven) as u32,
            (x as u32 as f32).to_bits()
        );
        assert_eq!(
            int_to_float(&Format::F32, ty(64, true), x, Rounding::NearestEven) as u32,
            (x as i64 as f32).to_bits()
        );
        assert_eq!(int_to_float(&Format::F64, ty(64, false), x, Rounding::NearestEven), (x as f64).to_bits());
        let down = f64::from_bits(int_to_float(&Format::F64, ty(64, true), x, Rounding::Down));
        let exact = (x as i64).unsigned_abs() < 1 << 53;
        assert!(if exact {
            down == x as i64 as f64
        } else {
            down as i128 <= x as i64 as i128 && down.next_up() as i128 > x as i64 as i128
        });
        assert_eq!(int_to_int(ty(64, true), ty(8, true), x, false), x as i8 as i64 as u64);
        assert_eq!(int_to_int(ty(16, false), ty(32, true), x, true), (x as i32).clamp(0, 65535) as u64);
        assert_eq!(int_to_int(ty(8, true), ty(64, false), x, true), x.min(127));
        let v = f64::from_bits(rng.next() & !(0x7ff << 52) | (1000 + rng.next() % 100) << 52);
        assert_eq!(float_to_int(ty(32, true), v, IntRounding::Zero, true), v as i32 as u32 as u64);
        assert_eq!(float_to_int(ty(64, false), v, IntRounding::Zero, true), v as u64);
        assert_eq!(float_to_int(ty(64, true), v, IntRounding::Down, true), v.floor() as i64 as u64);
        assert_eq!(float_to_int(ty(8, false), v, IntRounding::Up, true), v.ceil() as u8 as u64);
    }
    for (x, want) in [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2)] {
        assert_eq!(float_to_int(ty(32, true), x, IntRounding::NearestEven, false) as u32 as i32, want);
    }
    // 70000 does not fit f16: infinity to nearest, the largest number toward zero.
    assert_eq!(int_to_float(&Format::F16, ty(32, false), 70000, Rounding::NearestEven), 0x7c00);
    assert_eq!(int_to_float(&Format::F16, ty(32, false), 70000, Rounding::Zero), 0x7bff);
    let nan = f64::NAN;
    assert_eq!(float_to_int(ty(32, true), nan, IntRounding::Zero, false), 0);
    assert_eq!(float_to_int(ty(32, true), nan, IntRounding::Zero, true), 0x8000_0000);
    assert_eq!(float_to_int(ty(64, false), nan, IntRounding::Zero, false), 1 << 63);
    assert_eq!(float_to_int(ty(64, true), f64::INFINITY, IntRounding::Zero, false), i64::MAX as u64);
}
