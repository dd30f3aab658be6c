//! Loads, stores, atomics, hints.

use super::arithmetic::{int_type, mask};
use super::mods::Mods;
use super::moves::space_word;
use super::{Decoder, Res};
use crate::num::half_math::{Half, HalfModifiers, packed2};
use crate::num::min_max::{MinMaxModifiers, min_max_half};
use crate::ptx::program::{Atomic, Class, File, LaneOp, Load, Op, Slot, Store, Strength};
use crate::ptx::syntax::Operand;
use crate::ptx::types::{HintKind, Space, Ty};

type AtomicFn = Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;

impl<'a> Decoder<'a> {
    pub(super) fn memory(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        match name {
            "ld" | "ldu" => self.load(m, ops),
            "st" => self.store(m, ops),
            "atom" | "red" => self.atomic(name == "atom", m, ops),
            "createpolicy" => {
                // A cache policy is an opaque hint.
                while m.find(|_| Some(())).is_some() {}
                let Some(first) = ops.first() else {
                    return self.error("a destination is expected");
                };
                let d = self.dst(first, File::R64)?;
                let zero = self.bits(File::R64, 0)?;
                self.lane(LaneOp::Mov64, d, &[zero], Class::Other);
                Ok(())
            }
            _ => {
                let space = space_word(m).unwrap_or(Space::Generic);
                let kind = match name {
                    "discard" => HintKind::Discard,
                    "applypriority" => HintKind::Line,
                    _ if m.has("tensormap") => HintKind::TensorMap,
                    _ => HintKind::Prefetch,
                };
                m.ignore(&["L1", "L2"]);
                m.ignore_cache();
                let Some(first) = ops.first() else {
                    return self.error("an address is expected");
                };
                let addr = self.addr(first, space)?;
                self.push(Op::Hint { addr, kind }, Class::Other);
                Ok(())
            }
        }
    }

    fn vector(m: &mut Mods<'a>) -> usize {
        m.find(|p| {
            Some(match p {
                "v2" => 2,
                "v4" => 4,
                "v8" => 8,
                _ => return None,
            })
        })
        .unwrap_or(1)
    }

    fn load(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let space = space_word(m).unwrap_or(Space::Generic);
        let narrow = m.sees("cta");
        let strength = self.strength(m, Strength::Weak);
        let policy = m.sees("L2::cache_hint");
        m.ignore_cache();
        let n = Self::vector(m);
        let ty = m.ty()?;
        m.ignore(&["unified"]);
        self.want(ops, 2..=2 + policy as usize)?;
        let d = self.dst_vec(&ops[0])?;
        if d.len() != n {
            return self.error(format!("{} registers for {n} values", d.len()));
        }
        self.check_element(ty, &d)?;
        let addr = self.addr(&ops[1], space)?;
        if strength.strong() && matches!(addr.space, Space::Global | Space::Generic) {
            self.communicates = true;
        }
        let class = match addr.space {
            Space::Global => Class::LoadGlobal,
            Space::Shared => Class::LoadShared,
            Space::Local => Class::LoadLocal,
            Space::Param => Class::LoadParam,
            Space::Generic => Class::MemoryGeneric,
        };
        self.push(Op::Load(Box::new(Load { addr, bytes: ty.size(), signed: ty.signed(), d, strength, narrow })), class);
        Ok(())
    }

    fn check_element(&self, ty: Ty, slots: &[Slot]) -> Res<()> {
        if ty == Ty::B128 {
            return self.unsupported("128-bit elements are not supported by the virtual device; use a vector");
        }
        for s in slots.iter().filter(|s| !s.is_none()) {
            if s.file() == File::Pred || (ty.size() == 8 && s.file() == File::R32) {
                return self.error(format!("a register is too narrow for {}-byte values", ty.size()));
            }
        }
        Ok(())
    }

    fn store(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let space = space_word(m).unwrap_or(Space::Generic);
        let asynchronous = m.has("async");
        let narrow = m.sees("cta");
        let strength = self.strength(m, Strength::Weak);
        let policy = m.sees("L2::cache_hint");
        m.ignore_cache();
        m.ignore(&["mbarrier::complete_tx::bytes"]);
        let n = Self::vector(m);
        let ty = m.ty()?;
        self.want(ops, 2..=2 + (policy || asynchronous) as usize)?;
        let addr = self.addr(&ops[0], space)?;
        let file = self.file_of(ty)?;
        let s = self.src_vec(&ops[1], file)?;
        if s.len() != n {
            return self.error(format!("{} registers for {n} values", s.len()));
        }
        self.check_element(ty, &s)?;
        let mbar = if asynchronous {
            self.want(ops, 3..=3)?;
            let a = self.addr(&ops[2], Space::Shared)?;
            if a.offset != 0 {
                return self.error("the mbarrier of st.async takes no offset");
            }
            Some(a.base)
        } else {
            None
        };
        if strength.strong() && matches!(addr.space, Space::Global | Space::Generic) {
            self.communicates = true;
        }
        let class = match addr.space {
            Space::Global => Class::StoreGlobal,
            Space::Shared => Class::StoreShared,
            Space::Local | Space::Param => Class::StoreLocal,
            Space::Generic => Class::MemoryGeneric,
        };
        if addr.space == Space::Param {
            return self.error("kernel parameters cannot be written");
        }
        self.push(Op::Store(Box::new(Store { addr, bytes: ty.size(), s, strength, narrow, mbar })), class);
        Ok(())
    }

    fn atomic(&mut self, returns: bool, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let asynchronous = m.has("async");
        let mut space = space_word(m).unwrap_or(Space::Generic);
        let narrow = m.sees("cta");
        let strength = self.strength(m, Strength::Relaxed);
        let policy = m.sees("L2::cache_hint");
        m.ignore_cache();
        m.ignore(&["mbarrier::complete_tx::bytes", "noftz"]);
        let lanes = Self::vector(m);
        const NAMES: [&str; 10] = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"];
        let op = m.find(|p| NAMES.iter().position(|n| *n == p));
        let Some(op) = op.map(|i| NAMES[i]) else {
            return Err(m.unsupported("an operation is expected"));
        };
        let ty = m.ty()?;
        let Some(func) = atomic_function(op, ty) else {
            return Err(m.unsupported(format!("{op} of this type")));
        };
        let file = self.file_of(ty)?;
        let at = returns as usize;
        let operands = 2 + (op == "cas") as usize;
        self.want(ops, at + operands..=at + operands + (policy || asynchronous) as usize)?;
        let d = if returns { self.dst_vec(&ops[0])? } else { Vec::new() };
        if asynchronous {
            space = Space::Shared;
        }
        let addr = self.addr(&ops[at], space)?;
        let b = self.src_vec(&ops[at + 1], file)?;
        let c = if op == "cas" { self.src(&ops[at + 2], file)? } else { Slot::NONE };
        if b.len() != lanes || (returns && d.len() != lanes) {
            return self.error(format!("{} registers for {lanes} values", b.len()));
        }
        self.check_element(ty, &b)?;
        let mbar = if asynchronous {
            let a = self.addr(&ops[at + operands], Space::Shared)?;
            Some(a.base)
        } else {
            None
        };
        if matches!(addr.space, Space::Global | Space::Generic) {
            self.communicates = true;
        }
        let d = if d.iter().all(|s| s.is_none()) { Vec::new() } else { d };
        let atomic = Atomic { addr, bytes: ty.size(), f: func, d, b, c, strength, narrow, mbar };
        self.push(Op::Atomic(Box::new(atomic)), Class::Atomic);
        Ok(())
    }
}

/// The function of an atomic: old value and operands to new value.
pub(super) fn atomic_function(op: &str, ty: Ty) -> Option<AtomicFn> {
    use Ty::*;
    let it = int_type(ty);
    let keep = mask(it.bits);
    let integer = matches!(ty, U32 | S32 | U64 | S64 | B32 | B64);
    let float = |g: fn(f32, f32) -> f32| -> AtomicFn {
        Box::new(move |a, b, _| g(f32::from_bits(a as u32), f32::from_bits(b as u32)).to_bits() as u64)
    };
    let half = |h: Half, packed: bool, kind: &'static str| -> AtomicFn {
        let g = move |a: u16, b: u16| match kind {
            "add" => h.add(a, b, HalfModifiers::default()),
            k => min_max_half(h, a, b, k == "max", MinMaxModifiers::default()),
        };
        Box::new(
            move |a, b, _| {
                if packed { packed2(a as u32, b as u32, g) as u64 } else { g(a as u16, b as u16) as u64 }
            },
        )
    };
    Some(match (op, ty) {
        ("add", F32) => float(|a, b| a + b),
        ("add", F64) => Box::new(|a, b, _| (f64::from_bits(a) + f64::from_bits(b)).to_bits()),
        ("add" | "min" | "max", F16) => half(Half::F16, false, static_name(op)),
        ("add" | "min" | "max", BF16) => half(Half::Bf16, false, static_name(op)),
        ("add" | "min" | "max", F16x2) => half(Half::F16, true, static_name(op)),
        ("add" | "min" | "max", BF16x2) => half(Half::Bf16, true, static_name(op)),
        ("add", _) if integer => Box::new(move |a, b, _| a.wrapping_add(b) & keep),
        ("min", _) if integer => Box::new(move |a, b, _| if it.read(b) < it.read(a) { b } else { a }),
        ("max", _) if integer => Box::new(move |a, b, _| if it.read(b) > it.read(a) { b } else { a }),
        ("inc", U32) => Box::new(|a, b, _| if a >= b { 0 } else { a + 1 }),
        ("dec", U32) => Box::new(|a, b, _| if a == 0 || a > b { b } else { a - 1 }),
        ("and", B32 | B64) => Box::new(|a, b, _| a & b),
        ("or", B32 | B64) => Box::new(|a, b, _| a | b),
        ("xor", B32 | B64) => Box::new(|a, b, _| a ^ b),
        ("exch", B32 | B64 | U32 | S32 | F32 | U64 | S64) => Box::new(|_, b, _| b),
        ("cas", B16 | B32 | B64 | U32 | S32 | U64 | S64) => Box::new(|a, b, c| if a == b { c } else { a }),
        _ => return None,
    })
}

fn static_name(op: &str) -> &'static str {
    match op {
        "add" => "add",
        "min" => "min",
        _ => "max",
    }
}
