//! One encoder for all formats: an exact value is rounded once, as the modifier says.
//!
//! The value is split into `man * 2^exp`; the result's last place is `2^q`, with
//! `q = max(floor(log2 |x|), min_exp) - man_bits`, so that subnormal results need no case of their own.

use super::format::{Format, Specials};

/// Rounding modifiers of PTX for results in a floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// `.rn`: nearest, ties to even.
    NearestEven,
    /// `.rna`: nearest, ties away from zero.
    NearestAway,
    /// `.rz`: toward zero.
    Zero,
    /// `.rm`: toward negative infinity.
    Down,
    /// `.rp`: toward positive infinity.
    Up,
    /// `.rs`: the upper `width` discarded bits plus `bits`; a carry rounds away from zero.
    Stochastic {
        /// Random bits, right-aligned.
        bits: u32,
        /// How many of them there are (at most 32).
        width: u32,
    },
}

/// What an out-of-range value becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Infinity where the format has it and the rounding goes that way, else NaN or the largest number.
    Ieee,
    /// `.satfinite`: the largest finite number with the sign of the value, infinities included.
    SatFinite,
}

/// A non-zero finite magnitude `man * 2^exp` with its sign, exact (or with a lowest bit that stands for
/// everything below it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// Whether the value is negative.
    pub negative: bool,
    /// Integer significand; 0 stands for a zero of the given sign.
    pub man: u128,
    /// Power of two of the significand's last bit.
    pub exp: i32,
}

/// Rounds `x` once to `fmt`; returns the code with its sign.
pub fn encode_exact(fmt: &Format, x: Exact, mode: Rounding, overflow: Overflow) -> u64 {
    let sign = if x.negative { fmt.sign_bit() } else { 0 };
    if x.man == 0 {
        return sign;
    }
    let top = 127 - x.man.leading_zeros() as i32;
    let e = top + x.exp;
    let q = e.max(fmt.min_exp()) - fmt.man_bits as i32;
    let drop = q - x.exp;
    let (keep, up) = if drop <= 0 {
        ((x.man << (-drop)) as u64, false)
    } else if drop > 127 {
        (0, round_up(mode, x.negative, 0, x.man, drop as u32))
    } else {
        let keep = (x.man >> drop) as u64;
        let rest = x.man & ((1u128 << drop) - 1);
        (keep, round_up(mode, x.negative, keep & 1, rest, drop as u32))
    };
    let base = ((e.max(fmt.min_exp()) + fmt.bias - 1) as u64) << fmt.man_bits;
    sign | limit(fmt, base.saturating_add(keep + up as u64), x.negative, mode, overflow)
}

/// Whether the discarded part `rest / 2^drop` sends the result one place away from zero.
fn round_up(mode: Rounding, negative: bool, odd: u64, rest: u128, drop: u32) -> bool {
    if rest == 0 {
        return false;
    }
    // A shift of more than 127 places leaves a rest below any half.
    let half = if drop > 127 { None } else { Some(1u128 << (drop - 1)) };
    match mode {
        Rounding::NearestEven => half.is_some_and(|h| rest > h || (rest == h && odd == 1)),
        Rounding::NearestAway => half.is_some_and(|h| rest >= h),
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
        Rounding::Stochastic { bits, width } => {
            let upper = if drop >= width {
                let shift = drop - width;
                if shift > 127 { 0 } else { (rest >> shift) as u64 }
            } else {
                (rest << (width - drop)) as u64
            };
            (upper + (bits as u64 & ((1u64 << width) - 1))) >> width != 0
        }
    }
}

/// Replaces a magnitude code beyond the largest finite one.
#[inline]
fn limit(fmt: &Format, code: u64, negative: bool, mode: Rounding, overflow: Overflow) -> u64 {
    let max = fmt.max_code();
    if code <= max {
        return code;
    }
    let toward_inf = match mode {
        Rounding::NearestEven | Rounding::NearestAway | Rounding::Stochastic { .. } => true,
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    };
    if overflow == Overflow::SatFinite || !toward_inf {
        return max;
    }
    infinity(fmt)
}

/// What stands for an infinite result without `.satfinite`.
#[inline]
fn infinity(fmt: &Format) -> u64 {
    match fmt.specials {
        Specials::Ieee => fmt.max_code() + 1,
        Specials::OneNan => fmt.nan,
        Specials::None => fmt.max_code(),
    }
}

/// Rounds a binary64 value once to `fmt`. NaN gives `fmt.nan` (positive, as PTX has it); infinities stay
/// where the format has them and `overflow` lets them.
#[inline(always)]
pub fn encode(fmt: &Format, x: f64, mode: Rounding, overflow: Overflow) -> u64 {
    let bits = x.to_bits();
    let negative = bits >> 63 != 0;
    let sign = if negative { fmt.sign_bit() } else { 0 };
    let magnitude = bits & 0x7fff_ffff_ffff_ffff;
    if magnitude > 0x7ff0_0000_0000_0000 {
        return fmt.nan;
    }
    if magnitude == 0x7ff0_0000_0000_0000 {
        return sign | if overflow == Overflow::SatFinite { fmt.max_code() } else { infinity(fmt) };
    }
    let field = (magnitude >> 52) as i32;
    if fmt.man_bits >= 52 || field == 0 || !matches!(mode, Rounding::NearestEven | Rounding::Zero) {
        return encode_exact(fmt, exact_f64(x), mode, overflow);
    }
    // Nearest-even and toward-zero of a normal value: the common case, in 64-bit integers.
    let man = (magnitude & 0xf_ffff_ffff_ffff) | 0x10_0000_0000_0000;
    let e = (field - 1023).max(fmt.min_exp());
    let drop = (52 - fmt.man_bits as i32) + (e - (field - 1023));
    let (keep, rest, half) =
        if drop > 62 { (0, 1, 2) } else { (man >> drop, man & ((1 << drop) - 1), 1u64 << (drop - 1)) };
    let up = matches!(mode, Rounding::NearestEven) && (rest > half || (rest == half && keep & 1 == 1));
    let code = (((e + fmt.bias - 1) as u64) << fmt.man_bits) + keep + up as u64;
    sign | limit(fmt, code, negative, mode, overflow)
}

/// Splits a finite binary64 value into an exact significand and exponent.
pub fn exact_f64(x: f64) -> Exact {
    let bits = x.to_bits();
    let field = ((bits >> 52) & 0x7ff) as i32;
    let frac = bits & 0xf_ffff_ffff_ffff;
    let (man, exp) = if field == 0 { (frac, -1074) } else { (frac | 1 << 52, field - 1075) };
    Exact { negative: bits >> 63 != 0, man: man as u128, exp }
}
