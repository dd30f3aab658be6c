//! Integer and floating-point arithmetic.

use super::mods::Mods;
use super::{Decoder, Res};
use crate::num::half_math::{Half, HalfModifiers, packed2, packed3};
use crate::num::int_cvt::IntType;
use crate::num::min_max::{MinMaxModifiers, TestP};
use crate::num::{Rounding, approx, int_math, min_max, rounded, trig};
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

fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

fn d(x: u64) -> f64 {
    f64::from_bits(x)
}

fn bits(x: f32) -> u64 {
    x.to_bits() as u64
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
        let Some(&ty) = types.first() else { return Err(m.unsupported("a type is expected")) };
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
                    16 => self.map(MapFn::F2(Box::new(move |[a, b]| int_math::mul_wide(a, b, it) & mask(32))), dst, &s, class),
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
                    (true, _) => self.map(MapFn::F2(Box::new(move |[a, b]| int_math::mul_hi(a, b, it) & keep)), dst, &s, class),
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
                let func = move |[a, b, c]: [u64; 3]| int_math::mad24(a as u32, b as u32, c as u32, it.signed, hi, sat) as u64;
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
            let func = move |[a, b]: [u64; 2]| if hi { int_math::mul_hi(a, b, it) & mask(w) } else { a.wrapping_mul(b) & mask(w) };
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
        let (Some(a), Some(b)) = (types.first(), types.get(1)) else { return Err(m.unsupported("two types are expected")) };
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

    fn float(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>], types: &[Ty]) -> Res<()> {
        if types.len() > 1 {
            return Err(m.unsupported("mixed precision of this kind"));
        }
        let ftz = m.has("ftz");
        let class = Class::Float;
        let flush = move |x: u64| if ftz { rounded::ftz_f32(f(x)) } else { f(x) };
        match name {
            "add" | "sub" | "mul" | "fma" | "mad" => {
                let mode = m.rounding().unwrap_or(Rounding::NearestEven);
                let sat = m.has("sat");
                let n = if matches!(name, "fma" | "mad") { 3 } else { 2 };
                let (dst, s) = self.same(ops, n, File::R32)?;
                if mode == Rounding::NearestEven && !ftz && !sat {
                    let op = match name {
                        "add" => LaneOp::FAdd,
                        "sub" => LaneOp::FSub,
                        "mul" => LaneOp::FMul,
                        _ => LaneOp::FFma,
                    };
                    self.lane(op, dst, &s, class);
                    return Ok(());
                }
                let end = move |r: f32| {
                    let r = if ftz { rounded::ftz_f32(r) } else { r };
                    bits(if sat { rounded::sat_f32(r) } else { r })
                };
                if n == 3 {
                    let func = move |[a, b, c]: [u64; 3]| end(rounded::fma_f32(flush(a), flush(b), flush(c), mode));
                    self.map(MapFn::F3(Box::new(func)), dst, &s, class);
                } else {
                    let base = match name {
                        "add" => rounded::add_f32,
                        "sub" => rounded::sub_f32,
                        _ => rounded::mul_f32,
                    };
                    self.map(MapFn::F2(Box::new(move |[a, b]| end(base(flush(a), flush(b), mode)))), dst, &s, class);
                }
            }
            "div" => {
                let (approximate, full) = (m.has("approx"), m.has("full"));
                let mode = m.rounding().unwrap_or(Rounding::NearestEven);
                let (dst, s) = self.same(ops, 2, File::R32)?;
                let func: Box<dyn Fn([u64; 2]) -> u64 + Send + Sync> = if approximate || full {
                    Box::new(move |[a, b]| bits(approx::div_f32(f(a), f(b), full, ftz)))
                } else {
                    Box::new(move |[a, b]| {
                        let r = rounded::div_f32(flush(a), flush(b), mode);
                        bits(if ftz { rounded::ftz_f32(r) } else { r })
                    })
                };
                self.map(MapFn::F2(func), dst, &s, Class::Special);
            }
            "min" | "max" => {
                let max = name == "max";
                let mm = MinMaxModifiers { ftz, nan: m.has("NaN"), xorsign_abs: m.has("xorsign") && m.has("abs") };
                if ops.len() == 4 {
                    let (dst, s) = self.same(ops, 3, File::R32)?;
                    let func = move |[a, b, c]: [u64; 3]| bits(min_max::min_max3_f32(f(a), f(b), f(c), max, mm));
                    self.map(MapFn::F3(Box::new(func)), dst, &s, class);
                } else {
                    let (dst, s) = self.same(ops, 2, File::R32)?;
                    if mm == MinMaxModifiers::default() {
                        self.lane(if max { LaneOp::FMax } else { LaneOp::FMin }, dst, &s, class);
                    } else {
                        let func = move |[a, b]: [u64; 2]| bits(min_max::min_max_f32(f(a), f(b), max, mm));
                        self.map(MapFn::F2(Box::new(func)), dst, &s, class);
                    }
                }
            }
            "neg" | "abs" => {
                let (dst, s) = self.same(ops, 1, File::R32)?;
                let abs = name == "abs";
                if !ftz {
                    self.lane(if abs { LaneOp::FAbs } else { LaneOp::FNeg }, dst, &s, class);
                } else {
                    let func = move |[a]: [u64; 1]| bits(if abs { flush(a).abs() } else { -flush(a) });
                    self.map(MapFn::F1(Box::new(func)), dst, &s, class);
                }
            }
            "rcp" | "sqrt" => {
                let approximate = m.has("approx");
                let mode = m.rounding().unwrap_or(Rounding::NearestEven);
                let rcp = name == "rcp";
                let (dst, s) = self.same(ops, 1, File::R32)?;
                let func: Box<dyn Fn([u64; 1]) -> u64 + Send + Sync> = match (approximate, rcp) {
                    (true, true) => Box::new(move |[a]| bits(approx::rcp_f32(f(a), ftz))),
                    (true, false) => Box::new(move |[a]| bits(approx::sqrt_f32(f(a), ftz))),
                    (false, _) => Box::new(move |[a]| {
                        let r = if rcp { rounded::rcp_f32(flush(a), mode) } else { rounded::sqrt_f32(flush(a), mode) };
                        bits(if ftz { rounded::ftz_f32(r) } else { r })
                    }),
                };
                self.map(MapFn::F1(func), dst, &s, Class::Special);
            }
            "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "tanh" => {
                if !m.has("approx") {
                    return Err(m.unsupported(".approx is expected"));
                }
                let func = match name {
                    "rsqrt" => approx::rsqrt_f32,
                    "sin" => trig::sin_f32,
                    "cos" => trig::cos_f32,
                    "ex2" => approx::ex2_f32,
                    "lg2" => approx::lg2_f32,
                    _ => |x: f32, _: bool| approx::tanh_f32(x),
                };
                let (dst, s) = self.same(ops, 1, File::R32)?;
                self.map(MapFn::F1(Box::new(move |[a]| bits(func(f(a), ftz)))), dst, &s, Class::Special);
            }
            "copysign" => {
                let (dst, s) = self.same(ops, 2, File::R32)?;
                self.map(MapFn::F2(Box::new(|[a, b]| bits(f(b).copysign(f(a))))), dst, &s, class);
            }
            "testp" => {
                let t = test_kind(m)?;
                self.want(ops, 2..=2)?;
                let (dst, s) = (self.dst(&ops[0], File::Pred)?, self.src(&ops[1], File::R32)?);
                self.map(MapFn::F1(Box::new(move |[a]| min_max::testp_f32(f(a), t) as u64)), dst, &[s], class);
            }
            _ => return Err(m.unsupported("this type")),
        }
        Ok(())
    }

    fn float_x2(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let ftz = m.has("ftz");
        let mode = m.rounding().unwrap_or(Rounding::NearestEven);
        let flush = move |x: f32| if ftz { rounded::ftz_f32(x) } else { x };
        let pair = move |lo: f32, hi: f32| bits(flush(lo)) | bits(flush(hi)) << 32;
        if name == "fma" {
            let (dst, s) = self.same(ops, 3, File::R64)?;
            let one = move |a: u64, b: u64, c: u64| rounded::fma_f32(flush(f(a)), flush(f(b)), flush(f(c)), mode);
            let func = move |[a, b, c]: [u64; 3]| pair(one(a, b, c), one(a >> 32, b >> 32, c >> 32));
            self.map(MapFn::F3(Box::new(func)), dst, &s, Class::Float);
            return Ok(());
        }
        let base = match name {
            "add" => rounded::add_f32,
            "sub" => rounded::sub_f32,
            "mul" => rounded::mul_f32,
            _ => return Err(m.unsupported("this type")),
        };
        let (dst, s) = self.same(ops, 2, File::R64)?;
        let one = move |a: u64, b: u64| base(flush(f(a)), flush(f(b)), mode);
        self.map(MapFn::F2(Box::new(move |[a, b]| pair(one(a, b), one(a >> 32, b >> 32)))), dst, &s, Class::Float);
        Ok(())
    }

    fn double(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let class = Class::Double;
        let approximate = m.has("approx");
        let ftz = m.has("ftz");
        match name {
            "add" | "sub" | "mul" | "fma" | "mad" => {
                let mode = m.rounding().unwrap_or(Rounding::NearestEven);
                let n = if matches!(name, "fma" | "mad") { 3 } else { 2 };
                let (dst, s) = self.same(ops, n, File::R64)?;
                if mode == Rounding::NearestEven {
                    let op = match name {
                        "add" => LaneOp::DAdd,
                        "sub" => LaneOp::DSub,
                        "mul" => LaneOp::DMul,
                        _ => LaneOp::DFma,
                    };
                    self.lane(op, dst, &s, class);
                } else if n == 3 {
                    let func = move |[a, b, c]: [u64; 3]| rounded::fma_f64(d(a), d(b), d(c), mode).to_bits();
                    self.map(MapFn::F3(Box::new(func)), dst, &s, class);
                } else {
                    let mul = name == "mul";
                    let sub = name == "sub";
                    let func = move |[a, b]: [u64; 2]| {
                        let b = if sub { -d(b) } else { d(b) };
                        (if mul { rounded::mul_f64(d(a), b, mode) } else { rounded::add_f64(d(a), b, mode) }).to_bits()
                    };
                    self.map(MapFn::F2(Box::new(func)), dst, &s, class);
                }
            }
            "div" => {
                let mode = m.rounding().unwrap_or(Rounding::NearestEven);
                let (dst, s) = self.same(ops, 2, File::R64)?;
                self.map(MapFn::F2(Box::new(move |[a, b]| rounded::div_f64(d(a), d(b), mode).to_bits())), dst, &s, class);
            }
            "min" | "max" => {
                let max = name == "max";
                let (dst, s) = self.same(ops, 2, File::R64)?;
                self.map(MapFn::F2(Box::new(move |[a, b]| min_max::min_max_f64(d(a), d(b), max).to_bits())), dst, &s, class);
            }
            "neg" | "abs" => {
                let abs = name == "abs";
                let (dst, s) = self.same(ops, 1, File::R64)?;
                let func = move |[a]: [u64; 1]| if abs { a & !(1 << 63) } else { a ^ 1 << 63 };
                self.map(MapFn::F1(Box::new(func)), dst, &s, class);
            }
            "rcp" | "sqrt" | "rsqrt" => {
                let mode = m.rounding().unwrap_or(Rounding::NearestEven);
                let (dst, s) = self.same(ops, 1, File::R64)?;
                let func: Box<dyn Fn([u64; 1]) -> u64 + Send + Sync> = match (name, approximate) {
                    ("rcp", true) => Box::new(|[a]| approx::rcp_approx_f64(d(a)).to_bits()),
                    ("rcp", false) => Box::new(move |[a]| rounded::div_f64(1.0, d(a), mode).to_bits()),
                    ("sqrt", false) => Box::new(move |[a]| rounded::sqrt_f64(d(a), mode).to_bits()),
                    ("rsqrt", true) if ftz => Box::new(|[a]| approx::rsqrt_approx_ftz_f64(d(a)).to_bits()),
                    ("rsqrt", true) => Box::new(|[a]| approx::rsqrt_f64(d(a)).to_bits()),
                    _ => return Err(m.unsupported("this precision")),
                };
                self.map(MapFn::F1(func), dst, &s, Class::Special);
            }
            "copysign" => {
                let (dst, s) = self.same(ops, 2, File::R64)?;
                self.map(MapFn::F2(Box::new(|[a, b]| d(b).copysign(d(a)).to_bits())), dst, &s, class);
            }
            "testp" => {
                let t = test_kind(m)?;
                self.want(ops, 2..=2)?;
                let (dst, s) = (self.dst(&ops[0], File::Pred)?, self.src(&ops[1], File::R64)?);
                self.map(MapFn::F1(Box::new(move |[a]| min_max::testp_f64(d(a), t) as u64)), dst, &[s], class);
            }
            _ => return Err(m.unsupported("this type")),
        }
        Ok(())
    }

    fn half(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Res<()> {
        let h = if matches!(ty, Ty::F16 | Ty::F16x2) { Half::F16 } else { Half::Bf16 };
        let packed = matches!(ty, Ty::F16x2 | Ty::BF16x2);
        let class = Class::Half;
        let ftz = m.has("ftz");
        let op1 = move |g: Box<dyn Fn(u16) -> u16 + Send + Sync>| -> MapFn {
            MapFn::F1(Box::new(move |[a]| {
                let lo = g(a as u16) as u64;
                if packed { lo | (g((a >> 16) as u16) as u64) << 16 } else { lo }
            }))
        };
        let op2 = move |g: Box<dyn Fn(u16, u16) -> u16 + Send + Sync>| -> MapFn {
            MapFn::F2(Box::new(move |[a, b]| {
                if packed { packed2(a as u32, b as u32, &g) as u64 } else { g(a as u16, b as u16) as u64 }
            }))
        };
        match name {
            "add" | "sub" | "mul" => {
                let _ = m.rounding();
                let hm = HalfModifiers { ftz, sat: m.has("sat"), relu: false };
                let (dst, s) = self.same(ops, 2, File::R32)?;
                let func: Box<dyn Fn(u16, u16) -> u16 + Send + Sync> = match name {
                    "add" => Box::new(move |a, b| h.add(a, b, hm)),
                    "sub" => Box::new(move |a, b| h.sub(a, b, hm)),
                    _ => Box::new(move |a, b| h.mul(a, b, hm)),
                };
                self.map(op2(func), dst, &s, class);
            }
            "fma" => {
                let _ = m.rounding();
                let hm = HalfModifiers { ftz, sat: m.has("sat"), relu: m.has("relu") };
                let oob = m.has("oob");
                let (dst, s) = self.same(ops, 3, File::R32)?;
                let g = move |a: u16, b: u16, c: u16| if oob { h.fma_oob(a, b, c, hm.relu) } else { h.fma(a, b, c, hm) };
                let func = move |[a, b, c]: [u64; 3]| {
                    if packed { packed3(a as u32, b as u32, c as u32, g) as u64 } else { g(a as u16, b as u16, c as u16) as u64 }
                };
                self.map(MapFn::F3(Box::new(func)), dst, &s, class);
            }
            "min" | "max" => {
                let max = name == "max";
                let mm = MinMaxModifiers { ftz, nan: m.has("NaN"), xorsign_abs: m.has("xorsign") && m.has("abs") };
                let (dst, s) = self.same(ops, 2, File::R32)?;
                self.map(op2(Box::new(move |a, b| min_max::min_max_half(h, a, b, max, mm))), dst, &s, class);
            }
            "neg" | "abs" => {
                let (dst, s) = self.same(ops, 1, File::R32)?;
                let neg = name == "neg";
                self.map(op1(Box::new(move |a| if neg { h.neg(a, ftz) } else { h.abs(a, ftz) })), dst, &s, class);
            }
            "ex2" | "tanh" => {
                if !m.has("approx") {
                    return Err(m.unsupported(".approx is expected"));
                }
                let tanh = name == "tanh";
                let (dst, s) = self.same(ops, 1, File::R32)?;
                let func = move |a| if tanh { approx::tanh_half(h, a) } else { approx::ex2_half(h, a, ftz) };
                self.map(op1(Box::new(func)), dst, &s, Class::Special);
            }
            _ => return Err(m.unsupported("this type")),
        }
        Ok(())
    }
}

fn test_kind(m: &mut Mods<'_>) -> Res<TestP> {
    let kind = m.find(|p| {
        Some(match p {
            "finite" => TestP::Finite,
            "infinite" => TestP::Infinite,
            "number" => TestP::Number,
            "notanumber" => TestP::NotANumber,
            "normal" => TestP::Normal,
            "subnormal" => TestP::Subnormal,
            _ => return None,
        })
    });
    kind.ok_or_else(|| m.unsupported("a class of numbers is expected"))
}
