//! `cvt`.

use super::arithmetic::int_type;
use super::mods::Mods;
use super::{Decoder, Res};
use crate::num::float_cvt::{self, Modifiers};
use crate::num::format::Format;
use crate::num::int_cvt::{self, IntRounding};
use crate::num::{Rounding, packed_cvt, rounded};
use crate::ptx::program::{Class, File, LaneOp, MapFn};
use crate::ptx::syntax::Operand;
use crate::ptx::types::Ty;

fn format(t: Ty) -> Option<&'static Format> {
    Some(match t {
        Ty::F16 => &Format::F16,
        Ty::BF16 => &Format::BF16,
        Ty::F32 => &Format::F32,
        Ty::F64 => &Format::F64,
        Ty::TF32 => &Format::TF32,
        _ => return None,
    })
}

/// Element format of a packed narrow type.
fn packed(t: Ty) -> Option<&'static Format> {
    Some(match t {
        Ty::E4M3x2 | Ty::E4M3x4 => &Format::E4M3,
        Ty::E5M2x2 | Ty::E5M2x4 => &Format::E5M2,
        Ty::E2M1x2 | Ty::E2M1x4 => &Format::E2M1,
        Ty::E2M3x2 | Ty::E2M3x4 => &Format::E2M3,
        Ty::E3M2x2 | Ty::E3M2x4 => &Format::E3M2,
        Ty::F16x2 => &Format::F16,
        Ty::BF16x2 => &Format::BF16,
        _ => return None,
    })
}

fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

impl<'a> Decoder<'a> {
    pub(super) fn convert(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        if m.has("pack") {
            return self.convert_pack(m, ops);
        }
        let stochastic = m.has("rs");
        let mode = m.rounding();
        let imode = m.int_rounding();
        let scaled = m.sees("scaled::n2::ue8m0");
        let mods =
            Modifiers { ftz: m.has("ftz"), sat: m.has("sat"), relu: m.has("relu"), satfinite: m.has("satfinite") };
        let types = m.types();
        let (Some(&to), Some(&from)) = (types.first(), types.get(1)) else {
            return Err(m.unsupported("two types are expected"));
        };
        if scaled {
            return Err(m.unsupported("scaled conversions"));
        }
        self.want(ops, 2..=4)?;
        let class = Class::Convert;
        let plain = mods == Modifiers::default();
        let rn = mode == Some(Rounding::NearestEven);

        if to == Ty::UE8M0x2 || from == Ty::UE8M0x2 {
            let up = mode == Some(Rounding::Up);
            let dst = self.dst(&ops[0], File::R32)?;
            let a = self.src(&ops[1], File::R32)?;
            if from == Ty::UE8M0x2 {
                self.map(MapFn::F1(Box::new(|[a]| packed_cvt::ue8m0x2_to_bf16x2(a as u16) as u64)), dst, &[a], class);
            } else if from == Ty::BF16x2 {
                let func = move |[a]: [u64; 1]| packed_cvt::bf16x2_to_ue8m0x2(a as u32, up, mods.satfinite) as u64;
                self.map(MapFn::F1(Box::new(func)), dst, &[a], class);
            } else {
                self.want(ops, 3..=3)?;
                let b = self.src(&ops[2], File::R32)?;
                let func = move |[a, b]: [u64; 2]| packed_cvt::f32x2_to_ue8m0x2(f(a), f(b), up, mods.satfinite) as u64;
                self.map(MapFn::F2(Box::new(func)), dst, &[a, b], class);
            }
            return Ok(());
        }
        if let Some(fmt) = packed(to) {
            let dst = self.dst(&ops[0], File::R32)?;
            if matches!(to, Ty::E4M3x4 | Ty::E5M2x4 | Ty::E2M1x4 | Ty::E2M3x4 | Ty::E3M2x4) {
                let Operand::Vector(v) = &ops[1] else {
                    return self.error("four values in braces are expected");
                };
                if v.len() != 4 || ops.len() != 3 {
                    return self.error("four values in braces and random bits are expected");
                }
                let s = v.iter().map(|o| self.src(o, File::R32)).collect::<Res<Vec<_>>>()?;
                let r = self.src(&ops[2], File::R32)?;
                // Five inputs: pack two into a 64-bit temporary first.
                let pair = self.row(File::R64)?;
                self.lane(LaneOp::Pack32, pair, &[s[0], s[1]], class);
                let func = move |[ab, c, d, r]: [u64; 4]| {
                    packed_cvt::f32x4_to_stochastic(fmt, [f(ab), f(ab >> 32), f(c), f(d)], r as u32, mods) as u64
                };
                self.map(MapFn::F4(Box::new(func)), dst, &[pair, s[2], s[3], r], class);
                return Ok(());
            }
            if from == Ty::F32 {
                self.want(ops, 3..=4)?;
                let (a, b) = (self.src(&ops[1], File::R32)?, self.src(&ops[2], File::R32)?);
                if stochastic {
                    self.want(ops, 4..=4)?;
                    let r = self.src(&ops[3], File::R32)?;
                    let func = move |[a, b, r]: [u64; 3]| {
                        packed_cvt::f32x2_to_stochastic(fmt, f(a), f(b), r as u32, mods) as u64
                    };
                    self.map(MapFn::F3(Box::new(func)), dst, &[a, b, r], class);
                    return Ok(());
                }
                if plain && rn && to == Ty::BF16x2 {
                    self.lane(LaneOp::Bf16x2FromF32, dst, &[a, b], class);
                } else if plain && rn && to == Ty::F16x2 {
                    self.lane(LaneOp::F16x2FromF32, dst, &[a, b], class);
                } else {
                    let mode = mode.unwrap_or(Rounding::NearestEven);
                    let func = move |[a, b]: [u64; 2]| packed_cvt::f32x2_to(fmt, f(a), f(b), mode, mods) as u64;
                    self.map(MapFn::F2(Box::new(func)), dst, &[a, b], class);
                }
                return Ok(());
            }
            let a = self.src(&ops[1], File::R32)?;
            if from == Ty::F16x2 {
                self.map(
                    MapFn::F1(Box::new(move |[a]| packed_cvt::f16x2_to(fmt, a as u32, mods) as u64)),
                    dst,
                    &[a],
                    class,
                );
                return Ok(());
            }
            if to == Ty::F16x2
                && let Some(src) = packed(from)
            {
                let relu = mods.relu;
                self.map(
                    MapFn::F1(Box::new(move |[a]| packed_cvt::to_f16x2(src, a as u32, relu) as u64)),
                    dst,
                    &[a],
                    class,
                );
                return Ok(());
            }
            return Err(m.unsupported("this pair of types"));
        }

        // Scalar conversions. Operands may sit in wider registers than their types.
        let to_file = self.file_of(to)?;
        let from_file = self.file_of(from)?;
        self.want(ops, 2..=2)?;
        let dst = self.dst_any(&ops[0])?;
        let a = self.any(&ops[1], from_file)?;
        if a.is_none() || a.file() == File::Pred || (from_file == File::R64 && a.file() == File::R32) {
            return self.error("the source register is too narrow for its type");
        }
        let too_narrow = to_file == File::R64 && !dst.is_none() && dst.file() == File::R32;
        if too_narrow
            || (!dst.is_none() && dst.file() == File::Pred)
            || (!to.integer() && !dst.is_none() && dst.file() != to_file)
        {
            return self.error("the destination register does not fit its type");
        }
        let src_narrow = a.file() == from_file;
        let keep_from = super::arithmetic::mask(from.size() as u32 * 8);
        match (format(to), format(from)) {
            (None, None) if to.integer() && from.integer() => {
                let (ti, fi) = (int_type(to), int_type(from));
                let hot = if mods.sat || dst.file() != to_file || a.file() != from_file {
                    None
                } else {
                    match (to.size(), from.size(), fi.signed) {
                        (8, 4, false) => Some(LaneOp::Zext),
                        (8, 4, true) => Some(LaneOp::Sext),
                        (4, 8, _) => Some(LaneOp::Trunc),
                        (2, 4 | 8, _) => Some(LaneOp::Low16),
                        (4, 4, _) => Some(LaneOp::Mov32),
                        (8, 8, _) => Some(LaneOp::Mov64),
                        (4, 2, false) => Some(LaneOp::Half(false)),
                        _ => None,
                    }
                };
                match hot {
                    Some(op) => self.lane(op, dst, &[a], class),
                    None => {
                        // The destination register may be wider than the type: extend by the type's sign.
                        let wide = if dst.file() == File::R64 { 64 } else { 32 };
                        let narrow_reg = to.size() < 4 && dst.file() == File::R32;
                        let func = move |[a]: [u64; 1]| {
                            let v = int_cvt::int_to_int(ti, fi, a & keep_from, mods.sat);
                            let signed = ti.signed && ti.bits < wide;
                            if !signed {
                                v & super::arithmetic::mask(ti.bits)
                            } else if narrow_reg && ti.bits == 16 {
                                v & 0xffff
                            } else {
                                let s = 64 - ti.bits;
                                (((v << s) as i64 >> s) as u64) & super::arithmetic::mask(wide)
                            }
                        };
                        self.map(MapFn::F1(Box::new(func)), dst, &[a], class);
                    }
                }
            }
            (Some(tf), None) if from.integer() => {
                let fi = int_type(from);
                let mode = mode.unwrap_or(Rounding::NearestEven);
                match (to, from) {
                    (Ty::F32, Ty::S32) if rn && plain && src_narrow => self.lane(LaneOp::F32FromS32, dst, &[a], class),
                    (Ty::F32, Ty::U32) if rn && plain && src_narrow => self.lane(LaneOp::F32FromU32, dst, &[a], class),
                    _ => {
                        let sat = mods.sat;
                        let func = move |[a]: [u64; 1]| {
                            let r = int_cvt::int_to_float(tf, fi, a & keep_from, mode);
                            if sat && to == Ty::F32 { rounded::sat_f32(f(r)).to_bits() as u64 } else { r }
                        };
                        self.map(MapFn::F1(Box::new(func)), dst, &[a], class);
                    }
                }
            }
            (None, Some(ff)) if to.integer() => {
                let ti = int_type(to);
                let imode = imode.unwrap_or(IntRounding::Zero);
                let wide = from == Ty::F64;
                let ftz = mods.ftz && from == Ty::F32;
                let keep = super::arithmetic::mask(ti.bits);
                let func = move |[a]: [u64; 1]| {
                    let x = ff.decode(a & keep_from);
                    let x = if ftz { rounded::ftz_f32(x as f32) as f64 } else { x };
                    int_cvt::float_to_int(ti, x, imode, wide) & keep
                };
                self.map(MapFn::F1(Box::new(func)), dst, &[a], class);
            }
            (Some(tf), Some(ff)) => {
                if let Some(im) = imode {
                    // Rounding to an integral value of the same type.
                    let func = move |[a]: [u64; 1]| {
                        let x = ff.decode(a);
                        let x = if mods.ftz { rounded::ftz_f32(x as f32) as f64 } else { x };
                        float_cvt::narrow(tf, int_cvt::round_integral(x, im), Rounding::NearestEven, mods)
                    };
                    self.map(MapFn::F1(Box::new(func)), dst, &[a], class);
                    return Ok(());
                }
                let mode = mode.unwrap_or(Rounding::NearestEven);
                match (to, from) {
                    (Ty::F32, Ty::BF16) if plain && src_narrow => self.lane(LaneOp::F32FromBf16, dst, &[a], class),
                    (Ty::F32, Ty::F16) if plain && src_narrow => self.lane(LaneOp::F32FromF16, dst, &[a], class),
                    (Ty::BF16, Ty::F32) if plain && rn && src_narrow => {
                        self.lane(LaneOp::Bf16FromF32, dst, &[a], class)
                    }
                    (Ty::F16, Ty::F32) if plain && rn && src_narrow => self.lane(LaneOp::F16FromF32, dst, &[a], class),
                    (Ty::TF32, Ty::F32) => self.map(
                        MapFn::F1(Box::new(move |[a]| float_cvt::f32_to_tf32(f(a), mode, mods) as u64)),
                        dst,
                        &[a],
                        class,
                    ),
                    _ => {
                        let func = move |[a]: [u64; 1]| float_cvt::convert(tf, ff, a & keep_from, mode, mods);
                        self.map(MapFn::F1(Box::new(func)), dst, &[a], class);
                    }
                }
            }
            _ => return Err(m.unsupported("this pair of types")),
        }
        Ok(())
    }

    /// `cvt.pack.sat.{s8,u8,s16,u16}.s32`
    fn convert_pack(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        m.ignore(&["sat"]);
        let types = m.types();
        let Some(&to) = types.first() else {
            return Err(m.unsupported("types are expected"));
        };
        let ti = int_type(to);
        if !matches!(ti.bits, 8 | 16) || types.get(1) != Some(&Ty::S32) {
            return Err(m.unsupported("this pair of types"));
        }
        self.want(ops, 3..=4)?;
        let dst = self.dst(&ops[0], File::R32)?;
        let (a, b) = (self.src(&ops[1], File::R32)?, self.src(&ops[2], File::R32)?);
        let c = match ops.get(3) {
            Some(o) => self.src(o, File::R32)?,
            None => self.bits(File::R32, 0)?,
        };
        let s32 = int_type(Ty::S32);
        let func = move |[a, b, c]: [u64; 3]| {
            let keep = super::arithmetic::mask(ti.bits);
            let hi = int_cvt::int_to_int(ti, s32, a, true) & keep;
            let lo = int_cvt::int_to_int(ti, s32, b, true) & keep;
            let low = lo | hi << ti.bits;
            if ti.bits == 16 { low } else { low | (c << 16 & 0xffff_0000) }
        };
        self.map(MapFn::F3(Box::new(func)), dst, &[a, b, c], Class::Convert);
        Ok(())
    }
}
