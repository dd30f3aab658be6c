//! Integer arithmetic that is more than one machine operation: high and wide products, 24-bit products,
//! dot products, `sad`, carries, division rules, packed 16-bit minima.

use super::int_cvt::IntType;

/// `mul.hi` of a `ty.bits`-bit type: the upper half of the double-width product.
#[inline(always)]
pub fn mul_hi(a: u64, b: u64, ty: IntType) -> u64 {
    if ty.bits == 64 && !ty.signed {
        return ((a as u128 * b as u128) >> 64) as u64;
    }
    ty.write((ty.read(a) * ty.read(b)) >> ty.bits)
}

/// `mul.wide`: the product of two 16- or 32-bit values at twice the width.
#[inline(always)]
pub fn mul_wide(a: u64, b: u64, ty: IntType) -> u64 {
    IntType { bits: ty.bits * 2, signed: ty.signed }.write(ty.read(a) * ty.read(b))
}

/// `mad.hi{.sat}`: upper half of the product plus `c`. `.sat` (only `.s32`) clamps the sum.
pub fn mad_hi(a: u64, b: u64, c: u64, ty: IntType, sat: bool) -> u64 {
    let sum = ty.read(mul_hi(a, b, ty)) + ty.read(c);
    ty.write(if sat { sum.clamp(ty.min(), ty.max()) } else { sum })
}

/// `mul24.{lo,hi}`: bits 31..0 or 47..16 of the product of the low 24 bits.
#[inline(always)]
pub fn mul24(a: u32, b: u32, signed: bool, hi: bool) -> u32 {
    let v = |x: u32| {
        if signed { (((x << 8) as i32) >> 8) as i64 } else { (x & 0xff_ffff) as i64 }
    };
    let p = v(a) * v(b);
    if hi { (p >> 16) as u32 } else { p as u32 }
}

/// `mad24.{lo,hi}{.sat}`: [`mul24`] plus `c`. `.sat` (only `.hi.s32`) clamps the sum.
pub fn mad24(a: u32, b: u32, c: u32, signed: bool, hi: bool, sat: bool) -> u32 {
    let p = mul24(a, b, signed, hi);
    if sat { (p as i32).saturating_add(c as i32) as u32 } else { p.wrapping_add(c) }
}

/// Byte `i` of a register, sign- or zero-extended.
#[inline(always)]
fn byte(x: u32, i: u32, signed: bool) -> i64 {
    let b = (x >> (8 * i)) as u8;
    if signed { b as i8 as i64 } else { b as i64 }
}

/// `dp4a.atype.btype`: four byte products added to `c`.
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    let mut d = 0i64;
    for i in 0..4 {
        d += byte(a, i, a_signed) * byte(b, i, b_signed);
    }
    c.wrapping_add(d as u32)
}

/// `dp2a.{lo,hi}.atype.btype`: two products of 16-bit values of `a` with bytes of the chosen half of `b`.
#[inline(always)]
pub fn dp2a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool, hi: bool) -> u32 {
    let half = |i: u32| {
        let v = (a >> (16 * i)) as u16;
        if a_signed { v as i16 as i64 } else { v as i64 }
    };
    let first = if hi { 2 } else { 0 };
    let d = half(0) * byte(b, first, b_signed) + half(1) * byte(b, first + 1, b_signed);
    c.wrapping_add(d as u32)
}

/// `sad`: `c + |a - b|`, cut to the width.
pub fn sad(a: u64, b: u64, c: u64, ty: IntType) -> u64 {
    ty.write((ty.read(a) - ty.read(b)).abs() + ty.read(c))
}

/// `add.sat.s32`.
pub fn add_sat_s32(a: i32, b: i32) -> i32 {
    a.saturating_add(b)
}

/// `sub.sat.s32`.
pub fn sub_sat_s32(a: i32, b: i32) -> i32 {
    a.saturating_sub(b)
}

/// `add.cc` and `addc.cc`: sum and carry out of a 32- or 64-bit addition with a carry in.
#[inline(always)]
pub fn add_carry(a: u64, b: u64, carry: bool, bits: u32) -> (u64, bool) {
    let sum = a as u128 + b as u128 + carry as u128;
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    (sum as u64 & mask, sum >> bits != 0)
}

/// `sub.cc` and `subc.cc`: difference and borrow out.
#[inline(always)]
pub fn sub_borrow(a: u64, b: u64, borrow: bool, bits: u32) -> (u64, bool) {
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let d = (a as i128) - (b as i128) - borrow as i128;
    (d as u64 & mask, d < 0)
}

/// Integer `div`. A zero divisor, which PTX leaves undefined, gives all ones; the one overflow wraps.
#[inline(always)]
pub fn div(a: u64, b: u64, ty: IntType) -> u64 {
    let (x, y) = (ty.read(a), ty.read(b));
    if y == 0 { ty.write(-1) } else { ty.write(x / y) }
}

/// Integer `rem`; the sign is that of the dividend. A zero divisor gives the dividend.
#[inline(always)]
pub fn rem(a: u64, b: u64, ty: IntType) -> u64 {
    let (x, y) = (ty.read(a), ty.read(b));
    if y == 0 { ty.write(x) } else { ty.write(x % y) }
}

/// `min`/`max` of `.u16x2`/`.s16x2`, with `.relu` for the signed forms.
pub fn min_max_16x2(a: u32, b: u32, signed: bool, max: bool, relu: bool) -> u32 {
    let ty = IntType { bits: 16, signed };
    let one = |shift: u32| {
        let (x, y) = (ty.read((a >> shift) as u64), ty.read((b >> shift) as u64));
        let v = if max { x.max(y) } else { x.min(y) };
        ty.write(if relu { v.max(0) } else { v }) as u32
    };
    one(16) << 16 | one(0)
}

/// `add.{u16x2,s16x2}`: two independent sums.
pub fn add_16x2(a: u32, b: u32) -> u32 {
    let hi = (a >> 16).wrapping_add(b >> 16) << 16;
    hi | (a.wrapping_add(b) & 0xffff)
}
