//! Integer, bit-field and byte instructions against bit-by-bit formulas.

use ptx_sim::num::int_cvt::IntType;
use ptx_sim::num::permute::{PrmtMode, lop3, prmt, shf};
use ptx_sim::num::{bits, int_math};

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn bit(x: u64, i: u32) -> bool {
    i < 64 && x >> i & 1 == 1
}

#[test]
fn bit_fields() {
    let mut rng = Rng(0xb17f);
    for _ in 0..100_000 {
        let (a, b) = (rng.next(), rng.next());
        let (pos, len) = ((rng.next() % 300) as u32, (rng.next() % 300) as u32);
        let (p, n) = (pos & 255, len & 255);
        for width in [32u32, 64] {
            for signed in [false, true] {
                let sign = signed && n != 0 && bit(a, (p + n - 1).min(width - 1));
                let mut want = 0u64;
                for i in 0..width {
                    let v = if i < n && p + i < width { bit(a, p + i) } else { sign };
                    want |= (v as u64) << i;
                }
                assert_eq!(bits::bfe(a, pos, len, width, signed), want, "{a:#x} {pos} {len} {width} {signed}");
                let x = if width == 32 { a & 0xffff_ffff } else { a };
                let negative = signed && bit(x, width - 1);
                let found = (0..width).rev().find(|&i| bit(x, i) != negative);
                assert_eq!(bits::bfind(a, width, signed, false), found.unwrap_or(u32::MAX));
                assert_eq!(bits::bfind(a, width, signed, true), found.map_or(u32::MAX, |i| width - 1 - i));
            }
            let mut want = b & if width == 32 { 0xffff_ffff } else { u64::MAX };
            for i in 0..n {
                if p + i < width {
                    want = want & !(1 << (p + i)) | (bit(a, i) as u64) << (p + i);
                }
            }
            assert_eq!(bits::bfi(a, b, pos, len, width), want);
        }
    }
    assert_eq!(bits::bfind(u64::MAX, 32, true, false), u32::MAX);
    assert_eq!((bits::clz32(0), bits::clz64(1), bits::popc32(0xf0f0), bits::popc64(u64::MAX)), (32, 63, 8, 64));
    assert_eq!((bits::brev32(1), bits::brev64(2)), (0x8000_0000, 1 << 62));
}

#[test]
fn extension_masks_shifts_and_set_bits() {
    let mut rng = Rng(0x5e7);
    for _ in 0..50_000 {
        let (a, b) = (rng.next() as u32, (rng.next() % 70) as u32);
        for clamp in [false, true] {
            for signed in [false, true] {
                let n = b & 31;
                let want = if clamp && b >= 32 {
                    a
                } else if n == 0 {
                    0
                } else {
                    let low = a as u64 & ((1 << n) - 1);
                    if signed && bit(low, n - 1) { (low | u64::MAX << n) as u32 } else { low as u32 }
                };
                assert_eq!(bits::szext(a, b, signed, clamp), want);
            }
            let pos = (rng.next() % 70) as u32;
            let (p, n) = if clamp { (pos, b) } else { (pos & 31, b & 31) };
            let want = (0..32).filter(|&i| i >= p && i < p.saturating_add(n)).fold(0u32, |m, i| m | 1 << i);
            assert_eq!(bits::bmsk(pos, b, clamp), want, "{pos} {b} {clamp}");
            let v = (b as u64) << 32 | a as u64;
            let by = if clamp { pos.min(32) } else { pos & 31 };
            assert_eq!(shf(a, b, pos, false, clamp), (v >> by) as u32);
            assert_eq!(shf(a, b, pos, true, clamp), ((v as u128) << by >> 32) as u32);
        }
        let x = rng.next();
        for width in [16u32, 32, 64] {
            let mask = u64::MAX >> (64 - width);
            assert_eq!(bits::shl(x, b, width), ((x as u128) << b) as u64 & if b >= width { 0 } else { mask });
            assert_eq!(bits::shr(x, b, width, false), if b >= width { 0 } else { (x & mask) >> b });
            let s = IntType { bits: width, signed: true }.read(x);
            assert_eq!(bits::shr(x, b, width, true), (s >> b) as u64 & mask);
        }
        let (base, offset) = ((rng.next() % 34) as u32, (rng.next() % 9) as i32 - 4);
        let set: Vec<u32> = (0..32).filter(|&i| bit(a as u64, i)).collect();
        let want = if base > 31 {
            None
        } else if offset == 0 {
            set.contains(&base).then_some(base)
        } else if offset > 0 {
            set.iter().copied().filter(|&i| i >= base).nth(offset as usize - 1)
        } else {
            set.iter().rev().copied().filter(|&i| i <= base).nth(-offset as usize - 1)
        };
        assert_eq!(bits::fns(a, base, offset), want.unwrap_or(u32::MAX));
    }
}

#[test]
fn permutes_and_logic() {
    let mut rng = Rng(0x9e3);
    for _ in 0..20_000 {
        let (a, b, c) = (rng.next() as u32, rng.next() as u32, rng.next() as u32);
        let source: [u8; 8] = ((b as u64) << 32 | a as u64).to_le_bytes();
        let want = [0, 1, 2, 3].map(|i| {
            let s = c >> (4 * i) & 15;
            let v = source[(s & 7) as usize];
            if s & 8 == 0 { v } else { ((v as i8) >> 7) as u8 }
        });
        assert_eq!(prmt(a, b, c, PrmtMode::Index), u32::from_le_bytes(want));
        // The table of the PTX ISA, bytes from the most significant.
        let table: [(PrmtMode, [[usize; 4]; 4]); 6] = [
            (PrmtMode::Forward4, [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]]),
            (PrmtMode::Backward4, [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]]),
            (PrmtMode::Replicate8, [[0; 4], [1; 4], [2; 4], [3; 4]]),
            (PrmtMode::EdgeLeft, [[3, 2, 1, 0], [3, 2, 1, 1], [3, 2, 2, 2], [3, 3, 3, 3]]),
            (PrmtMode::EdgeRight, [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 1, 0], [3, 2, 1, 0]]),
            (PrmtMode::Replicate16, [[1, 0, 1, 0], [3, 2, 3, 2], [1, 0, 1, 0], [3, 2, 3, 2]]),
        ];
        for (mode, rows) in table {
            let want = rows[(c & 3) as usize].map(|i| source[i]);
            assert_eq!(prmt(a, b, c, mode), u32::from_be_bytes(want), "{mode:?}");
        }
        let lut = rng.next() as u8;
        let want = (0..32).fold(0u32, |d, i| {
            let index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
            d | ((lut as u32) >> index & 1) << i
        });
        assert_eq!(lop3(a, b, c, lut), want);
    }
    assert_eq!(lop3(0xf0, 0xcc, 0xaa, 0x1a), 0x1a);
}

#[test]
fn products_sums_and_quotients() {
    let mut rng = Rng(0xa17);
    let ty = |bits, signed| IntType { bits, signed };
    for k in 0..100_000 {
        let edge = [0, 1, u64::MAX, 1 << 63, 1 << 31, 0x8000, 0x7fff_ffff];
        let pick = |rng: &mut Rng| {
            if k % 3 == 0 { edge[(rng.next() % 7) as usize] } else { rng.next() }
        };
        let (a, b, c) = (pick(&mut rng), pick(&mut rng), pick(&mut rng));
        let (x, y, z) = (a as u32, b as u32, c as u32);
        let (xs, ys, zs) = (x as i32, y as i32, z as i32);
        assert_eq!(int_math::mul_hi(a, b, ty(32, true)), (((xs as i64 * ys as i64) >> 32) as u32) as u64);
        assert_eq!(int_math::mul_hi(a, b, ty(64, true)), ((a as i64 as i128 * b as i64 as i128) >> 64) as u64);
        assert_eq!(int_math::mul_hi(a, b, ty(64, false)), ((a as u128 * b as u128) >> 64) as u64);
        assert_eq!(int_math::mul_wide(a, b, ty(32, true)), (xs as i64 * ys as i64) as u64);
        assert_eq!(int_math::mul_wide(a, b, ty(16, false)), (a & 0xffff) * (b & 0xffff));
        assert_eq!(int_math::mul_wide(a, b, ty(16, true)) as u32 as i32, a as i16 as i32 * b as i16 as i32);
        let hi = ((xs as i64 * ys as i64) >> 32) as i32;
        assert_eq!(int_math::mad_hi(a, b, c, ty(32, true), true) as u32 as i32, hi.saturating_add(zs));
        assert_eq!(int_math::mad_hi(a, b, c, ty(32, true), false) as u32 as i32, hi.wrapping_add(zs));
        let (u, v) = ((x & 0xff_ffff) as u64, (y & 0xff_ffff) as u64);
        assert_eq!(int_math::mul24(x, y, false, false), (u * v) as u32);
        assert_eq!(int_math::mul24(x, y, false, true), ((u * v) >> 16) as u32);
        let (us, vs) = (((xs << 8) >> 8) as i64, ((ys << 8) >> 8) as i64);
        assert_eq!(int_math::mul24(x, y, true, true), ((us * vs) >> 16) as u32);
        assert_eq!(int_math::mad24(x, y, z, true, true, true) as i32, (((us * vs) >> 16) as i32).saturating_add(zs));
        assert_eq!(int_math::mad24(x, y, z, false, false, false), ((u * v) as u32).wrapping_add(z));
        let (p, q) = (x.to_le_bytes(), y.to_le_bytes());
        let dot = |sa: bool, sb: bool| {
            (0..4)
                .map(|i| {
                    (if sa { p[i] as i8 as i64 } else { p[i] as i64 })
                        * if sb { q[i] as i8 as i64 } else { q[i] as i64 }
                })
                .sum::<i64>()
        };
        for (sa, sb) in [(false, false), (true, false), (false, true), (true, true)] {
            assert_eq!(int_math::dp4a(x, y, z, sa, sb), z.wrapping_add(dot(sa, sb) as u32));
            let h = |s: u32| {
                if sa { (x >> s) as u16 as i16 as i64 } else { (x >> s) as u16 as i64 }
            };
            let e = |i: usize| if sb { q[i] as i8 as i64 } else { q[i] as i64 };
            assert_eq!(int_math::dp2a(x, y, z, sa, sb, false), z.wrapping_add((h(0) * e(0) + h(16) * e(1)) as u32));
            assert_eq!(int_math::dp2a(x, y, z, sa, sb, true), z.wrapping_add((h(0) * e(2) + h(16) * e(3)) as u32));
        }
        assert_eq!(int_math::sad(a, b, c, ty(32, true)) as u32, z.wrapping_add(xs.abs_diff(ys)));
        assert_eq!(int_math::sad(a, b, c, ty(64, false)), c.wrapping_add(a.abs_diff(b)));
        let carry = k % 2 == 0;
        let (s, over) = int_math::add_carry(a, b, carry, 64);
        assert_eq!(s as u128 | (over as u128) << 64, a as u128 + b as u128 + carry as u128);
        let (d, under) = int_math::sub_borrow(x as u64, y as u64, carry, 32);
        assert_eq!(d as i64 - if under { 1i64 << 32 } else { 0 }, x as i64 - y as i64 - carry as i64);
        if y != 0 {
            assert_eq!(int_math::div(a, b, ty(32, true)) as u32, xs.wrapping_div(ys) as u32);
            assert_eq!(int_math::rem(a, b, ty(32, true)) as u32, xs.wrapping_rem(ys) as u32);
            assert_eq!(Some(int_math::div(a, b, ty(32, false)) as u32), x.checked_div(y));
        }
        if b != 0 {
            assert_eq!(int_math::rem(a, b, ty(64, false)), a % b);
            assert_eq!(int_math::div(a, b, ty(64, true)), (a as i64).wrapping_div(b as i64) as u64);
        }
        let lanes = |v: u32| [v as u16, (v >> 16) as u16];
        let ([a0, a1], [b0, b1]) = (lanes(x), lanes(y));
        let want = (a1.wrapping_add(b1) as u32) << 16 | a0.wrapping_add(b0) as u32;
        assert_eq!(int_math::add_16x2(x, y), want);
        let m = |p: u16, q: u16| (p as i16).max(q as i16).max(0) as u16 as u32;
        assert_eq!(int_math::min_max_16x2(x, y, true, true, true), m(a1, b1) << 16 | m(a0, b0));
        assert_eq!(int_math::min_max_16x2(x, y, false, false, false), (a1.min(b1) as u32) << 16 | a0.min(b0) as u32);
    }
    assert_eq!(int_math::div(5, 0, ty(32, false)), 0xffff_ffff);
    assert_eq!(int_math::rem(5, 0, ty(32, true)), 5);
    assert_eq!((int_math::add_sat_s32(i32::MAX, 1), int_math::sub_sat_s32(i32::MIN, 1)), (i32::MAX, i32::MIN));
}
