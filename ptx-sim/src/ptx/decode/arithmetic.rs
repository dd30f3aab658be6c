//! Integer and floating-point arithmetic.

use super::mods::Mods;
use super::{Decoder, Res};
use crate::num::int_cvt::IntType;
use crate::num::int_math;
use crate::ptx::program::{Class, File, LaneOp, Map, MapFn, Op, Slot};
use crate::ptx::syntax::Operand;
use crate::ptx::types::Ty;

/// Integer type of the numeric library.
pub(super) fn int_type(t: Ty) -> IntType {
    IntType { bits: t.size() as u32 * 8, signed: t.signed() }
}

/// Keeps the low bits of a result and extends nothing: registers hold zero-extended values.
pub(super) fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl<'a> Decoder<'a> {
    /// Appends a lane function over the given sources.
    pub(super) fn map(&mut self, func: MapFn, dst: Slot, src: &[Slot], class: Class) {
        let mut s = [Slot::NONE; 4];
        s[..src.len()].copy_from_slice(src);
        self.push(Op::Map(Box::new(Map { f: func, d: [dst, Slot::NONE], s })), class);
    }

    /// Appends a specialised lane operation.
    pub(super) fn lane(&mut self, op: LaneOp, dst: Slot, src: &[Slot], class: Class) {
        let mut s = [Slot::NONE; 3];
        s[..src.len()].copy_from_slice(src);
        self.push(Op::Lane(op, dst, s), class);
    }

    /// Destination and sources, all of one file.
    pub(super) fn same(&mut self, ops: &[Operand<'a>], n: usize, file: File) -> Res<(Slot, Vec<Slot>)> {
        self.want(ops, n + 1..=n + 1)?;
        let dst = self.dst(&ops[0], file)?;
        let src = ops[1..].iter().map(|o| self.src(o, file)).collect::<Res<Vec<_>>>()?;
        Ok((dst, src))
    }

    pub(super) fn arithmetic(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        if matches!(name, "dp4a" | "dp2a") {
            return self.dot(name, m, ops);
        }
        let types = m.types();
        let Some(&ty) = types.first() else {
            return Err(m.unsupported("a type is expected"));
        };
        match ty {
            Ty::F32 => self.float(name, m, ops, &types),
            Ty::F64 => self.double(name, m, ops),
            Ty::F16 | Ty::BF16 | Ty::F16x2 | Ty::BF16x2 => self.half(name, m, ops, ty),
            Ty::U16x2 | Ty::S16x2 => self.int_x2(name, m, ops, ty),
            Ty::F32x2 => self.float_x2(name, m, ops),
            t if t.integer() => self.integer(name, m, ops, t),
            _ => Err(m.unsupported(format!("type {ty:?}"))),
        }
    }

    fn integer(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Res<()> {
        let file = self.file_of(ty)?;
        let it = int_type(ty);
        let w = it.bits;
        let keep = mask(w);
        let wide64 = file == File::R64;
        let class = Class::Integer;
        let cc = m.has("cc");
        if cc || matches!(name, "addc" | "subc" | "madc") {
            return self.carry(name, m, ops, ty, cc);
        }
        match name {
            "add" | "sub" => {
                let sub = name == "sub";
                let (dst, s) = self.same(ops, 2, file)?;
                if m.has("sat") {
                    if ty != Ty::S32 {
                        return Err(m.unsupported(".sat of this type"));
                    }
                    let func = if sub { int_math::sub_sat_s32 } else { int_math::add_sat_s32 };
                    self.map(MapFn::F2(Box::new(move |[a, b]| func(a as i32, b as i32) as u32 as u64)), dst, &s, class);
                } else if w == 16 {
                    let func = move |[a, b]: [u64; 2]| (if sub { a.wrapping_sub(b) } else { a.wrapping_add(b) }) & keep;
                    self.map(MapFn::F2(Box::new(func)), dst, &s, class);
                } else {
                    let op = match (wide64, sub) {
                        (false, false) => LaneOp::Add32,
                        (false, true) => LaneOp::Sub32,
                        (true, false) => LaneOp::Add64,
                        (true, true) => LaneOp::Sub64,
                    };
                    self.lane(op, dst, &s, class);
                }
            }
            "mul" if m.has("wide") => {
                let (narrow, wide) = if w == 32 { (File::R32, File::R64) } else { (File::R32, File::R32) };
                self.want(ops, 3..=3)?;
                let dst = self.dst(&ops[0], wide)?;
                let s = [self.src(&ops[1], narrow)?, self.src(&ops[2], narrow)?];
                match w {
                    32 => self.lane(if it.signed { LaneOp::MulWideS } else { LaneOp::MulWideU }, dst, &s, class),
                    16 => self.map(
                        MapFn::F2(Box::new(move |[a, b]| int_math::mul_wide(a, b, it) & mask(32))),
                        dst,
                        &s,
                        class,
                    ),
                    _ => return Err(m.unsupported(".wide of this type")),
                }
            }
            "mul" => {
                let hi = m.has("hi");
                if !hi && !m.has("lo") {
                    return Err(m.unsupported("one of .lo, .hi, .wide is expected"));
                }
                let (dst, s) = self.same(ops, 2, file)?;
                match (hi, w) {
                    (true, _) => {
                        self.map(MapFn::F2(Box::new(move |[a, b]| int_math::mul_hi(a, b, it) & keep)), dst, &s, class)
                    }
                    (false, 32) => self.lane(LaneOp::Mul32, dst, &s, class),
                    (false, 64) => self.lane(LaneOp::Mul64, dst, &s, class),
                    _ => self.map(MapFn::F2(Box::new(move |[a, b]| a.wrapping_mul(b) & keep)), dst, &s, class),
                }
            }
            "mad" if m.has("wide") => {
                let (narrow, wide) = if w == 32 { (File::R32, File::R64) } else { (File::R32, File::R32) };
                self.want(ops, 4..=4)?;
                let dst = self.dst(&ops[0], wide)?;
                let s = [self.src(&ops[1], narrow)?, self.src(&ops[2], narrow)?, self.src(&ops[3], wide)?];
                match w {
                    32 => self.lane(if it.signed { LaneOp::MadWideS } else { LaneOp::MadWideU }, dst, &s, class),
                    16 => {
                        let func = move |[a, b, c]: [u64; 3]| int_math::mul_wide(a, b, it).wrapping_add(c) & mask(32);
                        self.map(MapFn::F3(Box::new(func)), dst, &s, class)
                    }
                    _ => return Err(m.unsupported(".wide of this type")),
                }
            }
            "mad" => {
                let hi = m.has("hi");
                if !hi && !m.has("lo") {
                    return Err(m.unsupported("one of .lo, .hi, .wide is expected"));
                }
                let sat = m.has("sat");
                let (dst, s) = self.same(ops, 3, file)?;
                match (hi, w) {
                    (true, _) => {
                        let func = move |[a, b, c]: [u64; 3]| int_math::mad_hi(a, b, c, it, sat) & keep;
                        self.map(MapFn::F3(Box::new(func)), dst, &s, class)
                    }
                    (false, 32) => self.lane(LaneOp::Mad32, dst, &s, class),
                    (false, 64) => self.lane(LaneOp::Mad64, dst, &s, class),
                    _ => {
                        let func = move |[a, b, c]: [u64; 3]| a.wrapping_mul(b).wrapping_add(c) & keep;
                        self.map(MapFn::F3(Box::new(func)), dst, &s, class)
                    }
                }
            }
            "mul24" => {
                let hi = m.has("hi");
                m.ignore(&["lo"]);
                let (dst, s) = self.same(ops, 2, File::R32)?;
                let func = move |[a, b]: [u64; 2]| int_math::mul24(a as u32, b as u32, it.signed, hi) as u64;
                self.map(MapFn::F2(Box::new(func)), dst, &s, class);
            }
            "mad24" => {
                let (hi, sat) = (m.has("hi"), m.has("sat"));
                m.ignore(&["lo"]);
                let (dst, s) = self.same(ops, 3, File::R32)?;
                let func =
                    move |[a, b, c]: [u64; 3]| int_math::mad24(a as u32, b as u32, c as u32, it.signed, hi, sat) as u64;
                self.map(MapFn::F3(Box::new(func)), dst, &s, class);
            }
            "div" | "rem" => {
                let func = if name == "div" { int_math::div } else { int_math::rem };
                let (dst, s) = self.same(ops, 2, file)?;
                self.map(MapFn::F2(Box::new(move |[a, b]| func(a, b, it) & keep)), dst, &s, class);
            }
            "min" | "max" => {
                let max = name == "max";
                let relu = m.has("relu");
                let (dst, s) = self.same(ops, 2, file)?;
                let hot = match (w, it.signed, max) {
                    (32, true, false) => Some(LaneOp::MinS32),
                    (32, true, true) => Some(LaneOp::MaxS32),
                    (32, false, false) => Some(LaneOp::MinU32),
                    (32, false, true) => Some(LaneOp::MaxU32),
                    _ => None,
                };
                match hot {
                    Some(op) if !relu => self.lane(op, dst, &s, class),
                    _ => {
                        let func = move |[a, b]: [u64; 2]| {
                            let (x, y) = (it.read(a), it.read(b));
                            let r = if max { x.max(y) } else { x.min(y) };
                            it.write(if relu { r.max(0) } else { r }) & keep
                        };
                        self.map(MapFn::F2(Box::new(func)), dst, &s, class)
                    }
                }
            }
            "neg" | "abs" => {
                let (dst, s) = self.same(ops, 1, file)?;
                if name == "neg" && w == 32 {
                    self.lane(LaneOp::Neg32, dst, &s, class);
                } else {
                    let abs = name == "abs";
                    let func = move |[a]: [u64; 1]| {
                        let x = it.read(a);
                        it.write(if abs && x >= 0 { x } else { -x }) & keep
                    };
                    self.map(MapFn::F1(Box::new(func)), dst, &s, class);
                }
            }
            "sad" => {
                let (dst, s) = self.same(ops, 3, file)?;
                self.map(MapFn::F3(Box::new(move |[a, b, c]| int_math::sad(a, b, c, it) & keep)), dst, &s, class);
            }
            _ => return Err(m.unsupported("this type")),
        }
        Ok(())
    }

    /// `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`: with the condition code as a hidden predicate.
    fn carry(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>], ty: Ty, cc: bool) -> Res<()> {
        let file = self.file_of(ty)?;
        let it = int_type(ty);
        let w = it.bits;
        let flag = self.condition_code()?;
        let flag_in = if name.ends_with('c') { flag } else { Slot::NONE };
        let flag_out = if cc { flag } else { Slot::NONE };
        if name.starts_with("mad") {
            let hi = m.has("hi");
            m.ignore(&["lo"]);
            let (dst, s) = self.same(ops, 3, file)?;
            let part = self.row(file)?;
            let func = move |[a, b]: [u64; 2]| {
                if hi { int_math::mul_hi(a, b, it) & mask(w) } else { a.wrapping_mul(b) & mask(w) }
            };
            self.map(MapFn::F2(Box::new(func)), part, &s[..2], Class::Integer);
            let add = move |[a, b, c]: [u64; 3]| {
                let (r, k) = int_math::add_carry(a, b, c != 0, w);
                (r, k as u64)
            };
            let op = Map { f: MapFn::Two(Box::new(add)), d: [dst, flag_out], s: [part, s[2], flag_in, Slot::NONE] };
            self.push(Op::Map(Box::new(op)), Class::Integer);
            return Ok(());
        }
        let sub = name.starts_with("sub");
        let (dst, s) = self.same(ops, 2, file)?;
        let func = move |[a, b, c]: [u64; 3]| {
            let (r, k) = if sub { int_math::sub_borrow(a, b, c != 0, w) } else { int_math::add_carry(a, b, c != 0, w) };
            (r, k as u64)
        };
        let op = Map { f: MapFn::Two(Box::new(func)), d: [dst, flag_out], s: [s[0], s[1], flag_in, Slot::NONE] };
        self.push(Op::Map(Box::new(op)), Class::Integer);
        Ok(())
    }

    fn condition_code(&mut self) -> Res<Slot> {
        const CC: &str = "%cc.carry";
        if let Some(super::Symbol::Register(s, _)) = self.scopes.first().and_then(|s| s.get(CC)) {
            return Ok(*s);
        }
        let s = self.row(File::Pred)?;
        if let Some(scope) = self.scopes.first_mut() {
            scope.insert(CC, super::Symbol::Register(s, Ty::Pred));
        }
        Ok(s)
    }

    fn dot(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let types = m.types();
        let (Some(a), Some(b)) = (types.first(), types.get(1)) else {
            return Err(m.unsupported("two types are expected"));
        };
        let (sa, sb) = (a.signed(), b.signed());
        let hi = m.has("hi");
        m.ignore(&["lo"]);
        let four = name == "dp4a";
        let (dst, s) = self.same(ops, 3, File::R32)?;
        let func = move |[a, b, c]: [u64; 3]| {
            let (a, b, c) = (a as u32, b as u32, c as u32);
            (if four { int_math::dp4a(a, b, c, sa, sb) } else { int_math::dp2a(a, b, c, sa, sb, hi) }) as u64
        };
        self.map(MapFn::F3(Box::new(func)), dst, &s, Class::Integer);
        Ok(())
    }

    fn int_x2(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Res<()> {
        let (dst, s) = self.same(ops, 2, File::R32)?;
        let func: Box<dyn Fn([u64; 2]) -> u64 + Send + Sync> = match name {
            "add" => Box::new(|[a, b]| int_math::add_16x2(a as u32, b as u32) as u64),
            "min" | "max" => {
                let (max, relu, signed) = (name == "max", m.has("relu"), ty.signed());
                Box::new(move |[a, b]| int_math::min_max_16x2(a as u32, b as u32, signed, max, relu) as u64)
            }
            _ => return Err(m.unsupported("packed 16-bit integers")),
        };
        self.map(MapFn::F2(func), dst, &s, Class::Integer);
        Ok(())
    }
}
