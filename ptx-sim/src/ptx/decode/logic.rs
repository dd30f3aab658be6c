//! Bitwise operations, shifts, bit fields, comparisons and selections.

use super::arithmetic::{int_type, mask};
use super::mods::Mods;
use super::{Decoder, Res};
use crate::num::half_math::Half;
use crate::num::permute::PrmtMode;
use crate::num::{bits, permute, rounded};
use crate::ptx::program::{BoolOp, Class, Cmp, File, LaneOp, MapFn, Op, SetP, Slot};
use crate::ptx::syntax::Operand;
use crate::ptx::types::Ty;

impl<'a> Decoder<'a> {
    pub(super) fn logic(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        match name {
            "setp" => return self.setp(m, ops),
            "set" => return self.set(m, ops),
            "lop3" => return self.lop3(m, ops),
            "prmt" => return self.prmt(m, ops),
            "shf" => {
                let left = m.has("l");
                if !left && !m.has("r") {
                    return Err(m.unsupported(".l or .r is expected"));
                }
                let clamp = m.has("clamp");
                m.ignore(&["wrap"]);
                m.ty()?;
                let (dst, s) = self.same(ops, 3, File::R32)?;
                let func = move |[a, b, c]: [u64; 3]| permute::shf(a as u32, b as u32, c as u32, left, clamp) as u64;
                self.map(MapFn::F3(Box::new(func)), dst, &s, Class::Integer);
                return Ok(());
            }
            "szext" | "bmsk" => {
                let clamp = m.has("clamp");
                m.ignore(&["wrap"]);
                let ty = m.ty()?;
                let ext = name == "szext";
                let (dst, s) = self.same(ops, 2, File::R32)?;
                let func = move |[a, b]: [u64; 2]| {
                    (if ext {
                        bits::szext(a as u32, b as u32, ty.signed(), clamp)
                    } else {
                        bits::bmsk(a as u32, b as u32, clamp)
                    }) as u64
                };
                self.map(MapFn::F2(Box::new(func)), dst, &s, Class::Integer);
                return Ok(());
            }
            "slct" => {
                let types = m.types();
                m.ignore(&["ftz"]);
                let (Some(&t), Some(&c)) = (types.first(), types.get(1)) else {
                    return Err(m.unsupported("two types are expected"));
                };
                let file = self.file_of(t)?;
                self.want(ops, 4..=4)?;
                let dst = self.dst(&ops[0], file)?;
                let s = [self.src(&ops[1], file)?, self.src(&ops[2], file)?, self.src(&ops[3], File::R32)?];
                let float = c == Ty::F32;
                let func = move |[a, b, c]: [u64; 3]| {
                    let first = if float { f32::from_bits(c as u32) >= 0.0 } else { (c as u32 as i32) >= 0 };
                    if first { a } else { b }
                };
                self.map(MapFn::F3(Box::new(func)), dst, &s, Class::Integer);
                return Ok(());
            }
            _ => {}
        }
        let shiftamt = m.has("shiftamt");
        let ty = m.ty()?;
        let file = self.file_of(ty)?;
        let w = ty.size() as u32 * 8;
        let class = Class::Integer;
        let wide = file == File::R64;
        match name {
            "and" | "or" | "xor" | "not" => {
                let (dst, s) = self.same(ops, if name == "not" { 1 } else { 2 }, file)?;
                let op = match (file, name) {
                    (File::Pred, "and") => LaneOp::AndPred,
                    (File::Pred, "or") => LaneOp::OrPred,
                    (File::Pred, "xor") => LaneOp::XorPred,
                    (File::Pred, _) => LaneOp::NotPred,
                    (File::R64, "and") => LaneOp::And64,
                    (File::R64, "or") => LaneOp::Or64,
                    (File::R64, "xor") => LaneOp::Xor64,
                    (File::R32, "and") => LaneOp::And32,
                    (File::R32, "or") => LaneOp::Or32,
                    (File::R32, "xor") => LaneOp::Xor32,
                    (File::R32, _) if w == 32 => LaneOp::Not32,
                    _ => {
                        self.map(MapFn::F1(Box::new(move |[a]| !a & mask(w))), dst, &s, class);
                        return Ok(());
                    }
                };
                self.lane(op, dst, &s, if file == File::Pred { Class::Predicate } else { class });
            }
            "cnot" => {
                let (dst, s) = self.same(ops, 1, file)?;
                self.map(MapFn::F1(Box::new(|[a]| (a == 0) as u64)), dst, &s, class);
            }
            "shl" | "shr" => {
                self.want(ops, 3..=3)?;
                let dst = self.dst(&ops[0], file)?;
                let s = [self.src(&ops[1], file)?, self.src(&ops[2], File::R32)?];
                let left = name == "shl";
                let signed = ty.signed();
                let op = match (wide, w, left, signed) {
                    (true, _, true, _) => LaneOp::Shl64,
                    (true, _, false, false) => LaneOp::ShrU64,
                    (true, _, false, true) => LaneOp::ShrS64,
                    (false, 32, true, _) => LaneOp::Shl32,
                    (false, 32, false, false) => LaneOp::ShrU32,
                    (false, 32, false, true) => LaneOp::ShrS32,
                    _ => {
                        let func = move |[a, b]: [u64; 2]| {
                            (if left { bits::shl(a, b as u32, w) } else { bits::shr(a, b as u32, w, signed) }) & mask(w)
                        };
                        self.map(MapFn::F2(Box::new(func)), dst, &s, class);
                        return Ok(());
                    }
                };
                self.lane(op, dst, &s, class);
            }
            "bfe" => {
                self.want(ops, 4..=4)?;
                let dst = self.dst(&ops[0], file)?;
                let s = [self.src(&ops[1], file)?, self.src(&ops[2], File::R32)?, self.src(&ops[3], File::R32)?];
                if ty == Ty::U32 {
                    self.lane(LaneOp::BfeU32, dst, &s, class);
                } else {
                    let signed = ty.signed();
                    let func = move |[a, p, l]: [u64; 3]| bits::bfe(a, p as u32, l as u32, w, signed) & mask(w);
                    self.map(MapFn::F3(Box::new(func)), dst, &s, class);
                }
            }
            "bfi" => {
                self.want(ops, 5..=5)?;
                let dst = self.dst(&ops[0], file)?;
                let s = [
                    self.src(&ops[1], file)?,
                    self.src(&ops[2], file)?,
                    self.src(&ops[3], File::R32)?,
                    self.src(&ops[4], File::R32)?,
                ];
                let func = move |[a, b, p, l]: [u64; 4]| bits::bfi(a, b, p as u32, l as u32, w);
                self.map(MapFn::F4(Box::new(func)), dst, &s, class);
            }
            "bfind" | "popc" | "clz" => {
                self.want(ops, 2..=2)?;
                let dst = self.dst(&ops[0], File::R32)?;
                let s = self.src(&ops[1], file)?;
                let signed = ty.signed();
                let func: Box<dyn Fn([u64; 1]) -> u64 + Send + Sync> = match name {
                    "bfind" => Box::new(move |[a]| bits::bfind(a, w, signed, shiftamt) as u64),
                    "popc" => Box::new(|[a]| a.count_ones() as u64),
                    _ => Box::new(move |[a]| (a.leading_zeros() - (64 - w)) as u64),
                };
                self.map(MapFn::F1(func), dst, &[s], class);
            }
            "brev" => {
                let (dst, s) = self.same(ops, 1, file)?;
                self.map(MapFn::F1(Box::new(move |[a]| a.reverse_bits() >> (64 - w))), dst, &s, class);
            }
            "fns" => {
                let (dst, s) = self.same(ops, 3, File::R32)?;
                let func = |[a, b, c]: [u64; 3]| bits::fns(a as u32, b as u32, c as u32 as i32) as u64;
                self.map(MapFn::F3(Box::new(func)), dst, &s, class);
            }
            "selp" => {
                self.want(ops, 4..=4)?;
                let dst = self.dst(&ops[0], file)?;
                let s = [self.src(&ops[1], file)?, self.src(&ops[2], file)?, self.src(&ops[3], File::Pred)?];
                self.lane(if wide { LaneOp::Selp64 } else { LaneOp::Selp32 }, dst, &s, class);
            }
            _ => return Err(m.unsupported("this type")),
        }
        Ok(())
    }

    fn lop3(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let combine = if m.has("or") {
            Some(BoolOp::Or)
        } else if m.has("and") {
            Some(BoolOp::And)
        } else {
            None
        };
        m.ty()?;
        self.want(ops, 5..=6)?;
        let (d, p) = self.pair(&ops[0], File::R32)?;
        let s = [self.src(&ops[1], File::R32)?, self.src(&ops[2], File::R32)?, self.src(&ops[3], File::R32)?];
        let lut = self.immediate(&ops[4])? as u8;
        self.lane(LaneOp::Lop3(lut), d, &s, Class::Integer);
        if !p.is_none() {
            let c = match ops.get(5) {
                Some(o) => self.src(o, File::Pred)?,
                None => return self.error("lop3 with a predicate needs a predicate operand"),
            };
            let value = if d.is_none() {
                return self.error("lop3 with a sink destination is not supported");
            } else {
                d
            };
            let zero = self.bits(File::R32, 0)?;
            let op = combine.unwrap_or(BoolOp::Or);
            self.push(
                Op::SetP(SetP {
                    cmp: Cmp::Ne,
                    ty: Ty::U32,
                    p,
                    q: Slot::NONE,
                    a: value,
                    b: zero,
                    combine: Some((op, c)),
                }),
                Class::Predicate,
            );
        }
        Ok(())
    }

    fn prmt(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        m.ty()?;
        let mode = m.find(|p| {
            Some(match p {
                "f4e" => PrmtMode::Forward4,
                "b4e" => PrmtMode::Backward4,
                "rc8" => PrmtMode::Replicate8,
                "ecl" => PrmtMode::EdgeLeft,
                "ecr" => PrmtMode::EdgeRight,
                "rc16" => PrmtMode::Replicate16,
                _ => return None,
            })
        });
        let (dst, s) = self.same(ops, 3, File::R32)?;
        match mode {
            None => self.lane(LaneOp::Prmt, dst, &s, Class::Integer),
            Some(mode) => {
                let func = move |[a, b, c]: [u64; 3]| permute::prmt(a as u32, b as u32, c as u32, mode) as u64;
                self.map(MapFn::F3(Box::new(func)), dst, &s, Class::Integer);
            }
        }
        Ok(())
    }

    /// `d|p`, or `d` alone.
    pub(super) fn pair(&mut self, o: &Operand<'a>, file: File) -> Res<(Slot, Slot)> {
        match o {
            Operand::Pair(a, b) => Ok((self.dst(a, file)?, self.dst(b, File::Pred)?)),
            _ => Ok((self.dst(o, file)?, Slot::NONE)),
        }
    }

    /// Comparison word: the comparison, whether unordered counts as true, and the special `num` and `nan`.
    fn comparison(m: &mut Mods<'a>) -> Res<(Cmp, bool, Option<bool>)> {
        let found = m.find(|p| {
            Some(match p {
                "eq" => (Cmp::Eq, false, None),
                "ne" => (Cmp::Ne, false, None),
                "lt" | "lo" => (Cmp::Lt, false, None),
                "le" | "ls" => (Cmp::Le, false, None),
                "gt" | "hi" => (Cmp::Gt, false, None),
                "ge" | "hs" => (Cmp::Ge, false, None),
                "equ" => (Cmp::Eq, true, None),
                "neu" => (Cmp::Ne, true, None),
                "ltu" => (Cmp::Lt, true, None),
                "leu" => (Cmp::Le, true, None),
                "gtu" => (Cmp::Gt, true, None),
                "geu" => (Cmp::Ge, true, None),
                "num" => (Cmp::Eq, false, Some(true)),
                "nan" => (Cmp::Eq, false, Some(false)),
                _ => return None,
            })
        });
        found.ok_or_else(|| m.unsupported("a comparison is expected"))
    }

    fn bool_op(m: &mut Mods<'a>) -> Option<BoolOp> {
        m.find(|p| {
            Some(match p {
                "and" => BoolOp::And,
                "or" => BoolOp::Or,
                "xor" => BoolOp::Xor,
                _ => return None,
            })
        })
    }

    fn setp(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let (cmp, unordered, number) = Self::comparison(m)?;
        let combine = Self::bool_op(m);
        let ftz = m.has("ftz");
        let ty = m.ty()?;
        self.want(ops, 3..=4)?;
        let file = self.file_of(ty)?;
        let (p, q) = match &ops[0] {
            Operand::Pair(a, b) => (self.dst(a, File::Pred)?, self.dst(b, File::Pred)?),
            o => (self.dst(o, File::Pred)?, Slot::NONE),
        };
        let (a, b) = (self.src(&ops[1], file)?, self.src(&ops[2], file)?);
        let combine = match (combine, ops.get(3)) {
            (Some(op), Some(o)) => Some((op, self.src(o, File::Pred)?)),
            (None, None) => None,
            _ => return self.error("a combination needs exactly one predicate operand"),
        };
        let packed = matches!(ty, Ty::F16x2 | Ty::BF16x2);
        if packed {
            let one = if ty == Ty::F16x2 { Ty::F16 } else { Ty::BF16 };
            let test = compare(one, cmp, unordered, number, ftz);
            if combine.is_some() {
                return Err(m.unsupported("a combination of packed comparisons"));
            }
            let func = move |[a, b, _]: [u64; 3]| {
                (test(a & 0xffff, b & 0xffff) as u64, test(a >> 16 & 0xffff, b >> 16 & 0xffff) as u64)
            };
            let map = crate::ptx::program::Map {
                f: MapFn::Two(Box::new(func)),
                d: [p, q],
                s: [a, b, Slot::NONE, Slot::NONE],
            };
            self.push(Op::Map(Box::new(map)), Class::Predicate);
            return Ok(());
        }
        let hot = matches!(ty, Ty::B32 | Ty::U32 | Ty::S32 | Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64)
            || (ty == Ty::F32 && !ftz)
            || matches!(ty, Ty::B16 | Ty::U16 | Ty::S16);
        if hot && !unordered && number.is_none() {
            self.push(Op::SetP(SetP { cmp, ty, p, q, a, b, combine }), Class::Predicate);
            return Ok(());
        }
        let test = compare(ty, cmp, unordered, number, ftz);
        let c = combine.map_or(Slot::NONE, |c| c.1);
        let op = combine.map(|c| c.0);
        let func = move |[a, b, c]: [u64; 3]| {
            let t = test(a, b);
            let mix = |t: bool| match op {
                None => t,
                Some(BoolOp::And) => t && c != 0,
                Some(BoolOp::Or) => t || c != 0,
                Some(BoolOp::Xor) => t ^ (c != 0),
            };
            (mix(t) as u64, mix(!t) as u64)
        };
        let map = crate::ptx::program::Map { f: MapFn::Two(Box::new(func)), d: [p, q], s: [a, b, c, Slot::NONE] };
        self.push(Op::Map(Box::new(map)), Class::Predicate);
        Ok(())
    }

    fn set(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let (cmp, unordered, number) = Self::comparison(m)?;
        let combine = Self::bool_op(m);
        let ftz = m.has("ftz");
        let types = m.types();
        let (Some(&to), Some(&ty)) = (types.first(), types.get(1)) else {
            return Err(m.unsupported("two types are expected"));
        };
        self.want(ops, 3..=4)?;
        let file = self.file_of(ty)?;
        let to_file = self.file_of(to)?;
        let dst = self.dst(&ops[0], to_file)?;
        let (a, b) = (self.src(&ops[1], file)?, self.src(&ops[2], file)?);
        let c = match ops.get(3) {
            Some(o) => self.src(o, File::Pred)?,
            None => Slot::NONE,
        };
        let yes = match to {
            Ty::F32 => 1f32.to_bits() as u64,
            Ty::F16 => 0x3c00,
            Ty::BF16 => 0x3f80,
            Ty::F16x2 => 0x3c00,
            Ty::BF16x2 => 0x3f80,
            Ty::U16 | Ty::S16 => 0xffff,
            Ty::U32 | Ty::S32 | Ty::B32 => 0xffff_ffff,
            _ => return Err(m.unsupported("this result type")),
        };
        let packed = matches!(ty, Ty::F16x2 | Ty::BF16x2);
        let one = match ty {
            Ty::F16x2 => Ty::F16,
            Ty::BF16x2 => Ty::BF16,
            t => t,
        };
        let test = compare(one, cmp, unordered, number, ftz);
        let func = move |[a, b, c]: [u64; 3]| {
            let mix = |t: bool| match combine {
                None => t,
                Some(BoolOp::And) => t && c != 0,
                Some(BoolOp::Or) => t || c != 0,
                Some(BoolOp::Xor) => t ^ (c != 0),
            };
            if packed {
                let yes = yes & 0xffff;
                let lo = if mix(test(a & 0xffff, b & 0xffff)) { yes } else { 0 };
                let hi = if mix(test(a >> 16, b >> 16)) { yes } else { 0 };
                lo | hi << 16
            } else if mix(test(a, b)) {
                yes
            } else {
                0
            }
        };
        self.map(MapFn::F3(Box::new(func)), dst, &[a, b, c], Class::Predicate);
        Ok(())
    }
}

/// Comparison of two register values as a function.
fn compare(
    ty: Ty,
    cmp: Cmp,
    unordered: bool,
    number: Option<bool>,
    ftz: bool,
) -> impl Fn(u64, u64) -> bool + Send + Sync {
    let ordered = move |a: f64, b: f64| {
        let nan = a.is_nan() || b.is_nan();
        if let Some(num) = number {
            return num != nan;
        }
        if nan {
            return unordered;
        }
        match cmp {
            Cmp::Eq => a == b,
            Cmp::Ne => a != b,
            Cmp::Lt => a < b,
            Cmp::Le => a <= b,
            Cmp::Gt => a > b,
            Cmp::Ge => a >= b,
        }
    };
    let it = int_type(ty);
    move |a: u64, b: u64| match ty {
        Ty::F32 => {
            let g = |x: u64| {
                let x = f32::from_bits(x as u32);
                (if ftz { rounded::ftz_f32(x) } else { x }) as f64
            };
            ordered(g(a), g(b))
        }
        Ty::F64 => ordered(f64::from_bits(a), f64::from_bits(b)),
        Ty::F16 => ordered(Half::F16.value(a as u16) as f64, Half::F16.value(b as u16) as f64),
        Ty::BF16 => ordered(Half::Bf16.value(a as u16) as f64, Half::Bf16.value(b as u16) as f64),
        _ => {
            let (x, y) = (it.read(a), it.read(b));
            match cmp {
                Cmp::Eq => x == y,
                Cmp::Ne => x != y,
                Cmp::Lt => x < y,
                Cmp::Le => x <= y,
                Cmp::Gt => x > y,
                Cmp::Ge => x >= y,
            }
        }
    }
}
