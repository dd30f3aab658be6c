//! Bit-field and counting instructions: `bfe`, `bfi`, `bfind`, `brev`, `clz`, `popc`, `fns`, `szext`, `bmsk`, shifts.

/// `bfe.{u32,u64}` (`signed = false`) and `bfe.{s32,s64}` of a `width`-bit value; positions and lengths are
/// taken modulo 256.
#[inline(always)]
pub fn bfe(a: u64, pos: u32, len: u32, width: u32, signed: bool) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    let mask = ones(width);
    let a = a & mask;
    if len == 0 {
        return 0;
    }
    let sign = signed && (a >> (pos + len - 1).min(width - 1)) & 1 == 1;
    let taken = len.min(width.saturating_sub(pos));
    let field = if pos >= width { 0 } else { (a >> pos) & ones(taken) };
    if sign { (field | !ones(taken)) & mask } else { field }
}

/// `bfi.{b32,b64}`: the low `len` bits of `a` into `b` at `pos`.
#[inline(always)]
pub fn bfi(a: u64, b: u64, pos: u32, len: u32, width: u32) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    if len == 0 || pos >= width {
        return b & ones(width);
    }
    let mask = ones(len.min(width - pos)) << pos;
    ((b & !mask) | ((a << pos) & mask)) & ones(width)
}

/// The low `n` bits set (`n <= 64`).
#[inline(always)]
const fn ones(n: u32) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// `bfind{.shiftamt}`: position of the most significant bit that is not a copy of the sign, or `u32::MAX`.
pub fn bfind(a: u64, width: u32, signed: bool, shiftamt: bool) -> u32 {
    let a = a & ones(width);
    let a = if signed && (a >> (width - 1)) & 1 == 1 { !a & ones(width) } else { a };
    if a == 0 {
        return u32::MAX;
    }
    let pos = 63 - a.leading_zeros();
    if shiftamt { width - 1 - pos } else { pos }
}

/// `brev.b32`.
pub fn brev32(a: u32) -> u32 {
    a.reverse_bits()
}

/// `brev.b64`.
pub fn brev64(a: u64) -> u64 {
    a.reverse_bits()
}

/// `clz.b32`: 32 for zero.
pub fn clz32(a: u32) -> u32 {
    a.leading_zeros()
}

/// `clz.b64`: 64 for zero.
pub fn clz64(a: u64) -> u32 {
    a.leading_zeros()
}

/// `popc.b32`.
pub fn popc32(a: u32) -> u32 {
    a.count_ones()
}

/// `popc.b64`.
pub fn popc64(a: u64) -> u32 {
    a.count_ones()
}

/// `fns.b32`: the `|offset|`-th set bit of `mask` from `base` up (positive) or down (negative), bit `base`
/// itself for offset 0; `u32::MAX` when there is none, and for `base > 31`, which PTX leaves undefined.
pub fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    if offset == 0 {
        return if (mask >> base) & 1 == 1 { base } else { u32::MAX };
    }
    let mut left = offset.unsigned_abs();
    let mut pos = base as i32;
    while (0..32).contains(&pos) {
        if (mask >> pos) & 1 == 1 {
            left -= 1;
            if left == 0 {
                return pos as u32;
            }
        }
        pos += offset.signum();
    }
    u32::MAX
}

/// `szext.{clamp,wrap}.{u32,s32}`: sign- or zero-extends the low `b` bits of `a`.
pub fn szext(a: u32, b: u32, signed: bool, clamp: bool) -> u32 {
    let n = b & 31;
    if clamp && b >= 32 {
        return a;
    }
    if n == 0 {
        return 0;
    }
    if signed { (((a << (32 - n)) as i32) >> (32 - n)) as u32 } else { a & ((1 << n) - 1) }
}

/// `bmsk.{clamp,wrap}.b32`: `width` ones from bit `pos` upward.
pub fn bmsk(pos: u32, width: u32, clamp: bool) -> u32 {
    if clamp && pos >= 32 {
        return 0;
    }
    let wide = clamp && width >= 32;
    let (p, n) = (pos & 31, width & 31);
    let upper = if wide || p + n >= 32 { u32::MAX } else { (1 << (p + n)) - 1 };
    upper & !((1u32 << p) - 1)
}

/// `shl` of a `width`-bit value; amounts beyond the width give 0.
#[inline(always)]
pub fn shl(a: u64, by: u32, width: u32) -> u64 {
    if by >= width { 0 } else { (a << by) & ones(width) }
}

/// `shr` of a `width`-bit value; amounts beyond the width give the fill (zero, or the sign).
#[inline(always)]
pub fn shr(a: u64, by: u32, width: u32, signed: bool) -> u64 {
    let up = 64 - width;
    if signed {
        let v = ((a << up) as i64) >> up;
        (v >> by.min(63)) as u64 & ones(width)
    } else if by >= width {
        0
    } else {
        (a & ones(width)) >> by
    }
}
