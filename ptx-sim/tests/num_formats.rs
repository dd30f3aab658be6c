//! Conversions against independent formulas: every code of every narrow format, and for each rounding a search
//! for the neighbours of a value among all codes.

use ptx_sim::num::float_cvt::{self, Modifiers};
use ptx_sim::num::packed_cvt;
use ptx_sim::num::round::{Overflow, Rounding, encode};
use ptx_sim::num::{Format, rounded};

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Exponent bits, mantissa bits, bias, has infinities, has NaN at all ones only.
const NARROW: [(Format, u32, u32, i32, bool, bool); 7] = [
    (Format::F16, 5, 10, 15, true, false),
    (Format::BF16, 8, 7, 127, true, false),
    (Format::E4M3, 4, 3, 7, false, true),
    (Format::E5M2, 5, 2, 15, true, false),
    (Format::E2M3, 2, 3, 1, false, false),
    (Format::E3M2, 3, 2, 3, false, false),
    (Format::E2M1, 2, 1, 1, false, false),
];

/// Value of a code by its definition, with powers of two by repeated multiplication.
fn definition(code: u64, e: u32, m: u32, bias: i32, inf: bool, one_nan: bool) -> f64 {
    let exp = (code >> m) & ((1 << e) - 1);
    let man = code & ((1 << m) - 1);
    let sign = if code >> (e + m) & 1 == 1 { -1.0 } else { 1.0 };
    if inf && exp == (1 << e) - 1 {
        return if man == 0 { sign * f64::INFINITY } else { f64::NAN };
    }
    if one_nan && exp == (1 << e) - 1 && man == (1 << m) - 1 {
        return f64::NAN;
    }
    let fraction = man as f64 / (1u64 << m) as f64;
    if exp == 0 {
        sign * fraction * 2f64.powi(1 - bias)
    } else {
        sign * (1.0 + fraction) * 2f64.powi(exp as i32 - bias)
    }
}

#[test]
fn every_code_decodes_to_its_definition_and_back() {
    for (fmt, e, m, bias, inf, one_nan) in NARROW {
        for code in 0..1u64 << fmt.width() {
            let (got, want) = (fmt.decode(code), definition(code, e, m, bias, inf, one_nan));
            assert!(got == want || (got.is_nan() && want.is_nan()), "{} {code:#x}: {got} {want}", fmt.name);
            assert_eq!(got.is_sign_negative(), code >> (e + m) & 1 == 1, "{} {code:#x}", fmt.name);
            for mode in [Rounding::NearestEven, Rounding::NearestAway, Rounding::Zero, Rounding::Up, Rounding::Down] {
                let back = encode(&fmt, got, mode, Overflow::Ieee);
                assert_eq!(back, if want.is_nan() { fmt.nan } else { code }, "{} {code:#x} {mode:?}", fmt.name);
            }
        }
    }
}

#[test]
fn f16_and_bf16_agree_with_the_half_crate() {
    for code in 0..=u16::MAX {
        let (h, b) = (half::f16::from_bits(code), half::bf16::from_bits(code));
        let (x, y) = (float_cvt::f16_to_f32(code), float_cvt::bf16_to_f32(code));
        assert!(x.to_bits() == h.to_f32().to_bits() || (x.is_nan() && h.is_nan()), "{code:#x}");
        assert!(y.to_bits() == b.to_f32().to_bits() || (y.is_nan() && b.is_nan()), "{code:#x}");
    }
    let mut rng = Rng(0x51a7);
    for _ in 0..1_000_000 {
        let x = f32::from_bits(rng.next() as u32);
        if x.is_nan() {
            assert_eq!((float_cvt::f32_to_f16_rn(x), float_cvt::f32_to_bf16_rn(x)), (0x7fff, 0x7fff));
            continue;
        }
        assert_eq!(float_cvt::f32_to_f16_rn(x), half::f16::from_f32(x).to_bits(), "{x:e}");
        assert_eq!(float_cvt::f32_to_bf16_rn(x), half::bf16::from_f32(x).to_bits(), "{x:e}");
        let m = Modifiers::default();
        assert_eq!(float_cvt::f32_to_bf16(x, Rounding::NearestEven, m), half::bf16::from_f32(x).to_bits());
    }
}

/// Rounding by search: all finite codes in ascending order of value, ties by the code's last bit.
fn by_search(values: &[(f64, u64)], fmt: &Format, x: f64, mode: Rounding, sat: bool) -> u64 {
    let sign = if x.is_sign_negative() { fmt.sign_bit() } else { 0 };
    let a = x.abs();
    let max = fmt.max_code();
    // The first place beyond the largest number, had the format one more.
    let step = values[max as usize].0 - values[max as usize - 1].0;
    let beyond = values[max as usize].0 + step;
    let i = values.partition_point(|v| v.0 <= a) - 1;
    let lo = values[i].0;
    let (hi, hi_code) = if i as u64 == max { (beyond, max + 1) } else { (values[i + 1].0, values[i + 1].1) };
    let negative = x < 0.0;
    let up = match mode {
        _ if a == lo => false,
        Rounding::Zero => false,
        Rounding::Up => !negative,
        Rounding::Down => negative,
        Rounding::NearestEven => a - lo > hi - a || (a - lo == hi - a && i % 2 == 1),
        Rounding::NearestAway => a - lo >= hi - a,
        Rounding::Stochastic { .. } => unreachable!(),
    };
    let beyond_code = if sat { max } else { fmt.inf_code().unwrap_or(if fmt.name == "e4m3" { fmt.nan } else { max }) };
    // A value above the next place as well goes to infinity in modes that leave zero.
    let leaves_zero = match mode {
        Rounding::Zero => false,
        Rounding::Up => !negative,
        Rounding::Down => negative,
        _ => true,
    };
    let far = a >= beyond && leaves_zero;
    let code = if far || (up && hi_code == max + 1) {
        beyond_code
    } else if up {
        hi_code
    } else {
        values[i].1
    };
    sign | code
}

#[test]
fn every_rounding_agrees_with_a_search_among_all_codes() {
    let mut rng = Rng(0xc0de);
    for (fmt, ..) in NARROW {
        let values: Vec<(f64, u64)> = (0..=fmt.max_code()).map(|c| (fmt.decode(c), c)).collect();
        let mut inputs = vec![0.0, -0.0, f64::MIN_POSITIVE, -1e300, 1e300, 5e-324];
        for pair in values.windows(2) {
            if fmt.width() == 16 && !rng.next().is_multiple_of(16) {
                continue;
            }
            let (a, b) = (pair[0].0, pair[1].0);
            let mid = (a + b) / 2.0;
            for x in [
                a,
                mid,
                mid * (1.0 - 1e-15),
                mid * (1.0 + 1e-15),
                b,
                a + (b - a) * (rng.next() as f64 / u64::MAX as f64),
            ] {
                inputs.extend([x, -x]);
            }
        }
        let top = fmt.decode(fmt.max_code());
        for k in 0..64 {
            inputs.extend([top * (1.0 + k as f64 / 100.0), -top * (1.0 + k as f64 / 100.0)]);
        }
        for &x in &inputs {
            for mode in [Rounding::NearestEven, Rounding::NearestAway, Rounding::Zero, Rounding::Up, Rounding::Down] {
                for sat in [false, true] {
                    let overflow = if sat { Overflow::SatFinite } else { Overflow::Ieee };
                    let (got, want) = (encode(&fmt, x, mode, overflow), by_search(&values, &fmt, x, mode, sat));
                    assert_eq!(got, want, "{} {x:e} {mode:?} sat {sat}: {got:#x} {want:#x}", fmt.name);
                }
            }
        }
    }
}

#[test]
fn infinities_and_nan_follow_the_format_and_satfinite() {
    let (i, n) = (f64::INFINITY, f64::NAN);
    let rn = Rounding::NearestEven;
    assert_eq!(encode(&Format::F16, i, rn, Overflow::Ieee), 0x7c00);
    assert_eq!(encode(&Format::F16, -i, rn, Overflow::SatFinite), 0xfbff);
    assert_eq!(encode(&Format::E4M3, i, rn, Overflow::SatFinite), 0x7e);
    assert_eq!(encode(&Format::E4M3, -n, rn, Overflow::SatFinite), 0x7f);
    assert_eq!(encode(&Format::E5M2, n, rn, Overflow::SatFinite), 0x7f);
    assert_eq!(encode(&Format::E2M1, -n, rn, Overflow::SatFinite), 0x7);
    assert_eq!(encode(&Format::E3M2, -i, rn, Overflow::SatFinite), 0x3f);
    assert_eq!(float_cvt::f32_to_tf32(f32::NAN, Rounding::NearestAway, Modifiers::default()), 0x7fff_ffff);
}

#[test]
fn f32_and_f64_targets_agree_with_the_machine() {
    let mut rng = Rng(0xf32f);
    for k in 0..500_000u64 {
        let bits = match k % 4 {
            0 => rng.next(),
            1 => (rng.next() & 0x800f_ffff_ffff_ffff) | (1023 - 160 + rng.next() % 300) << 52,
            2 => (rng.next() & 0x8000_0000_e000_0000) | (1023 - 155 + rng.next() % 60) << 52,
            _ => ((rng.next() as u32 as f32).to_bits() as u64) << 32,
        };
        let x = f64::from_bits(bits);
        if x.is_nan() {
            continue;
        }
        let m = Modifiers::default();
        assert_eq!(float_cvt::f64_to_f32(x, Rounding::NearestEven, m).to_bits(), (x as f32).to_bits(), "{x:e}");
        let (down, up) = (float_cvt::f64_to_f32(x, Rounding::Down, m), float_cvt::f64_to_f32(x, Rounding::Up, m));
        assert!(down as f64 <= x && up as f64 >= x, "{x:e}");
        assert!(
            down.to_bits() == up.to_bits() || down.next_up() == up || (down == 0.0 && up == 0.0),
            "{x:e} {down:e} {up:e}"
        );
        let zero = float_cvt::f64_to_f32(x, Rounding::Zero, m);
        assert_eq!(zero.to_bits(), if x.is_sign_negative() { up } else { down }.to_bits(), "{x:e}");
        assert_eq!(encode(&Format::F64, x, Rounding::Down, Overflow::Ieee), x.to_bits());
    }
}

#[test]
fn tf32_rounds_away_in_ties_and_drops_thirteen_bits() {
    let mut rng = Rng(77);
    for _ in 0..300_000 {
        let x = f32::from_bits(rng.next() as u32);
        if !x.is_finite() {
            continue;
        }
        let m = Modifiers::default();
        let rna = float_cvt::f32_to_tf32(x, Rounding::NearestAway, m);
        assert_eq!(rna, x.to_bits().wrapping_add(0x1000) & 0xffff_e000, "{x:e}");
        assert_eq!(float_cvt::f32_to_tf32(x, Rounding::Zero, m), x.to_bits() & 0xffff_e000);
        let tie = x.to_bits() & 0xffff_e000 | 0x1000;
        let even = (tie + if tie & 0x2000 != 0 { 0x1000 } else { 0 }) & 0xffff_e000;
        assert_eq!(float_cvt::f32_to_tf32(f32::from_bits(tie), Rounding::NearestEven, m), even);
    }
}

#[test]
fn modifiers_relu_sat_ftz() {
    let rn = Rounding::NearestEven;
    let m = |ftz, sat, relu, satfinite| Modifiers { ftz, sat, relu, satfinite };
    assert_eq!(float_cvt::f32_to_bf16(-1.0, rn, m(false, false, true, false)), 0);
    assert_eq!(float_cvt::f32_to_bf16(-0.0, rn, m(false, false, true, false)), 0);
    assert_eq!(float_cvt::f32_to_bf16(f32::NAN, rn, m(false, false, true, false)), 0x7fff);
    assert_eq!(float_cvt::f32_to_f16(1e9, rn, m(false, false, false, true)), 0x7bff);
    assert_eq!(float_cvt::f32_to_f16(f32::NAN, rn, m(false, true, false, false)), 0);
    assert_eq!(float_cvt::f32_to_f16(7.0, rn, m(false, true, false, false)), 0x3c00);
    let tiny = f32::from_bits(0x8000_0001);
    assert_eq!(float_cvt::f32_to_bf16(tiny, Rounding::Down, m(true, false, false, false)), 0x8000);
    assert_eq!(float_cvt::f32_to_bf16(tiny, Rounding::Down, m(false, false, false, false)), 0x8001);
    assert_eq!(float_cvt::f64_to_f32(1e-40, rn, m(true, false, false, false)), 0.0);
    assert_eq!(float_cvt::convert(&Format::F32, &Format::F16, 0xfc00, rn, m(false, true, false, false)), 0);
    assert_eq!(rounded::sat_f32(-0.0).to_bits(), 0);
}

#[test]
fn packed_forms_put_the_first_source_on_top() {
    let m = Modifiers { satfinite: true, ..Modifiers::default() };
    let rn = Rounding::NearestEven;
    assert_eq!(packed_cvt::f32x2_to(&Format::BF16, 1.0, -2.0, rn, m), 0x3f80_c000);
    assert_eq!(packed_cvt::f32x2_to(&Format::E4M3, 448.0, 1.0, rn, m), 0x7e38);
    assert_eq!(packed_cvt::f32x2_to(&Format::E2M3, 7.5, -0.125, rn, m), 0x1f21);
    assert_eq!(packed_cvt::f32x2_to(&Format::E2M1, 6.0, -0.5, rn, m), 0x79);
    for fmt in [Format::E4M3, Format::E5M2, Format::E2M3, Format::E3M2, Format::E2M1] {
        let n = 1u32 << fmt.width();
        for hi in 0..n {
            let lo = (hi * 7 + 3) % n;
            let packed = hi << packed_cvt::lane_bits(&fmt) | lo;
            let wide = packed_cvt::to_f16x2(&fmt, packed, false);
            let value = |c: u32| half::f16::from_f64(fmt.decode(c as u64));
            for (code, got) in [(hi, wide >> 16), (lo, wide & 0xffff)] {
                let want = value(code);
                assert_eq!(got, if want.is_nan() { 0x7fff } else { want.to_bits() as u32 }, "{} {code:#x}", fmt.name);
            }
            // NaN and infinity do not survive `.satfinite` unchanged; every other code does.
            let back = packed_cvt::f16x2_to(&fmt, wide, m);
            if !value(hi).is_nan() && !value(hi).is_infinite() && !value(lo).is_nan() && !value(lo).is_infinite() {
                assert_eq!(back, packed, "{}", fmt.name);
            }
        }
    }
    assert_eq!(packed_cvt::to_f16x2(&Format::E4M3, 0x8138, true), 0x0000_3c00);
}

#[test]
fn ue8m0_is_the_exponent_rounded_up_or_down() {
    for code in 0..=254u8 {
        let v = packed_cvt::ue8m0_to_f32(code);
        assert_eq!(v as f64, 2f64.powi(code as i32 - 127));
        for sign in [1.0, -1.0] {
            assert_eq!(packed_cvt::f32_to_ue8m0(v * sign, false, true), code);
            assert_eq!(packed_cvt::f32_to_ue8m0(v * sign, true, true), code);
        }
        let more = v.next_up();
        assert_eq!(packed_cvt::f32_to_ue8m0(more, false, true), code);
        assert_eq!(packed_cvt::f32_to_ue8m0(more, true, true), (code + 1).min(254));
        assert_eq!(packed_cvt::ue8m0x2_to_bf16x2(code as u16), v.to_bits() >> 16 | 0x0040_0000);
    }
    assert_eq!(packed_cvt::f32_to_ue8m0(f32::NAN, true, true), 255);
    assert_eq!(packed_cvt::f32_to_ue8m0(f32::INFINITY, true, true), 254);
    assert_eq!(packed_cvt::f32_to_ue8m0(f32::INFINITY, false, false), 255);
    assert_eq!(packed_cvt::f32_to_ue8m0(f32::MAX, true, false), 255);
    assert_eq!(packed_cvt::f32_to_ue8m0(0.0, true, false), 0);
    assert_eq!(packed_cvt::bf16x2_to_ue8m0x2(0x3f81_bf80, true, true), 0x807f);
    assert!(packed_cvt::ue8m0_to_f32(255).is_nan());
}

#[test]
fn stochastic_rounding_is_unbiased_and_exact_on_exact_values() {
    let m = Modifiers::default();
    let x = 1.0 + 0.3 * 2f32.powi(-7);
    let mut up = 0u32;
    for r in 0..=u16::MAX as u32 {
        let d = packed_cvt::f32x2_to_stochastic(&Format::BF16, x, 1.0, r << 16 | r, m);
        assert_eq!(d & 0xffff, 0x3f80);
        up += (d >> 16 == 0x3f81) as u32;
        assert!(matches!(d >> 16, 0x3f80 | 0x3f81));
    }
    assert!((up as f64 / 65536.0 - 0.3).abs() < 1e-4, "{up}");
    // f16 takes 13 bits: the upper three bits of each half do not matter.
    let y = 1.0 + 0.5 * 2f32.powi(-10);
    assert_eq!(packed_cvt::f32x2_to_stochastic(&Format::F16, y, y, 0xe000_1000, m), 0x3c00_3c01);
    let q = packed_cvt::f32x4_to_stochastic(
        &Format::E2M1,
        [0.5, -1.0, 6.0, 9.0],
        0xffff_ffff,
        Modifiers { satfinite: true, ..m },
    );
    assert_eq!(q, 0x1a77);
}
