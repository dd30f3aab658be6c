//! Floating-point arithmetic: `f32`, `f64`, the half precisions and their packed forms.

use super::mods::Mods;
use super::{Decoder, Res};
use crate::num::half_math::{Half, HalfModifiers, packed2, packed3};
use crate::num::min_max::{MinMaxModifiers, TestP};
use crate::num::{Rounding, approx, min_max, rounded, trig};
use crate::ptx::program::{Class, File, LaneOp, MapFn};
use crate::ptx::syntax::Operand;
use crate::ptx::types::Ty;

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
    pub(super) fn float(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>], types: &[Ty]) -> Res<()> {
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

    pub(super) fn float_x2(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
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

    pub(super) fn double(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
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
                self.map(
                    MapFn::F2(Box::new(move |[a, b]| rounded::div_f64(d(a), d(b), mode).to_bits())),
                    dst,
                    &s,
                    class,
                );
            }
            "min" | "max" => {
                let max = name == "max";
                let (dst, s) = self.same(ops, 2, File::R64)?;
                self.map(
                    MapFn::F2(Box::new(move |[a, b]| min_max::min_max_f64(d(a), d(b), max).to_bits())),
                    dst,
                    &s,
                    class,
                );
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

    pub(super) fn half(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Res<()> {
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
                let g = move |a: u16, b: u16, c: u16| {
                    if oob { h.fma_oob(a, b, c, hm.relu) } else { h.fma(a, b, c, hm) }
                };
                let func = move |[a, b, c]: [u64; 3]| {
                    if packed {
                        packed3(a as u32, b as u32, c as u32, g) as u64
                    } else {
                        g(a as u16, b as u16, c as u16) as u64
                    }
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
                let func = move |a| {
                    if tanh { approx::tanh_half(h, a) } else { approx::ex2_half(h, a, ftz) }
                };
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
