//! Names, registers, constants and addresses of operands.

use super::{DYNAMIC, Decoder, Res, Symbol, specials};
use crate::ptx::program::{Addr, File, Init, Slot};
use crate::ptx::syntax::Operand;
use crate::ptx::types::Space;

impl<'a> Decoder<'a> {
    pub(super) fn lookup(&mut self, name: &str) -> Option<Symbol> {
        for s in self.scopes.iter().rev() {
            if let Some(x) = s.get(name) {
                return Some(x.clone());
            }
        }
        // `%r12` of a range `%r<40>` is found by its prefix.
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        if digits < name.len()
            && let Ok(n) = name[digits..].parse::<usize>()
        {
            for s in self.scopes.iter().rev() {
                if let Some(Symbol::Range(base, ty, count)) = s.get(&name[..digits])
                    && n < *count
                {
                    return Some(Symbol::Register(Slot::new(base.file(), base.index() + n), *ty));
                }
            }
        }
        if let Some(v) = self.variables.get(name) {
            return Some(Symbol::Variable(*v));
        }
        let globals = self.shared_globals;
        let d = globals.iter().find(|d| d.name == name)?;
        self.shared(d).ok()
    }

    pub(super) fn constant(&mut self, file: File, init: Init) -> Res<Slot> {
        if let Some(s) = self.consts.get(&(file, init.clone())) {
            return Ok(*s);
        }
        let s = self.row(file)?;
        self.consts.insert((file, init), s);
        Ok(s)
    }

    pub(super) fn bits(&mut self, file: File, v: u64) -> Res<Slot> {
        let v = match file {
            File::R32 => v & 0xffff_ffff,
            File::R64 => v,
            File::Pred => (v != 0) as u64,
        };
        self.constant(file, Init::Bits(v))
    }

    /// A source operand in the given file.
    pub(super) fn src(&mut self, o: &Operand<'a>, file: File) -> Res<Slot> {
        let s = self.any(o, file)?;
        if s.is_none() {
            return self.error("`_` has no value to read");
        }
        if s.file() == file {
            return Ok(s);
        }
        self.error(format!("operand {} has the wrong width for this instruction", show(o)))
    }

    /// A source operand in its own file; constants take the given one.
    pub(super) fn any(&mut self, o: &Operand<'a>, file: File) -> Res<Slot> {
        match o {
            Operand::Int(v) => self.bits(file, *v),
            Operand::F32(v) => self.bits(file, *v as u64),
            Operand::F64(v) => {
                self.bits(file, if file == File::R32 { (f64::from_bits(*v) as f32).to_bits() as u64 } else { *v })
            }
            Operand::Sink => Ok(Slot::NONE),
            Operand::Name { name, negated } => {
                let s = self.name(name, file, 0)?;
                match (negated, s.file()) {
                    (false, _) => Ok(s),
                    (true, File::Pred) => Ok(s.not()),
                    _ => self.error(format!("`{name}` cannot be negated here")),
                }
            }
            Operand::Address { base, offset } => match base.as_ref() {
                Operand::Name { name, negated: false } => self.name(name, file, *offset),
                _ => self.error("this operand must be a register, a constant or a variable"),
            },
            _ => self.error(format!("operand {} is not expected here", show(o))),
        }
    }

    pub(super) fn name(&mut self, name: &str, file: File, offset: i64) -> Res<Slot> {
        if let Some(sym) = self.lookup(name) {
            let o = offset as u64;
            return match sym {
                Symbol::Register(s, _) => {
                    if offset == 0 {
                        Ok(s)
                    } else {
                        self.error(format!("`{name}` + {offset} is not an operand"))
                    }
                }
                Symbol::Range(..) => self.error(format!("`{name}` names a range of registers")),
                Symbol::Shared(a) => self.constant(file, Init::Shared(a.wrapping_add(o))),
                Symbol::DynamicShared => {
                    // Where it starts is known when all of the kernel has been read.
                    let s = self.constant(file, Init::Shared(DYNAMIC.wrapping_add(o)))?;
                    if !self.dynamic.contains(&(s, o)) {
                        self.dynamic.push((s, o));
                    }
                    Ok(s)
                }
                Symbol::Variable(v) => self.constant(file, Init::Variable(v, o)),
                Symbol::Local(a) | Symbol::KernelParam(a) => self.bits(file, a.wrapping_add(o)),
            };
        }
        if let Some(s) = specials::special(name) {
            return self.constant(file, Init::Special(s));
        }
        match name {
            "WARP_SZ" => self.bits(file, 32),
            "%pm0" | "%pm1" | "%pm2" | "%pm3" => self.bits(file, 0),
            _ if name.starts_with("%envreg") => self.bits(file, 0),
            _ if name.starts_with('%') => self.error(format!("register `{name}` is not declared")),
            _ => self.error(format!("`{name}` is not declared")),
        }
    }

    /// A destination register in the given file.
    pub(super) fn dst(&mut self, o: &Operand<'a>, file: File) -> Res<Slot> {
        let s = self.dst_any(o)?;
        if s.is_none() || s.file() == file {
            return Ok(s);
        }
        self.error(format!("destination {} has the wrong width for this instruction", show(o)))
    }

    /// A destination register of any file.
    pub(super) fn dst_any(&mut self, o: &Operand<'a>) -> Res<Slot> {
        match o {
            Operand::Sink => Ok(Slot::NONE),
            Operand::Name { name, negated: false } => match self.lookup(name) {
                Some(Symbol::Register(s, _)) => Ok(s),
                _ => self.error(format!("`{name}` is not a register that can be written")),
            },
            _ => self.error(format!("{} cannot be written", show(o))),
        }
    }

    /// The registers of `{a, b}` or of a single operand as destinations.
    pub(super) fn dst_vec(&mut self, o: &Operand<'a>) -> Res<Vec<Slot>> {
        match o {
            Operand::Vector(v) => v.iter().map(|x| self.dst_any(x)).collect(),
            _ => Ok(vec![self.dst_any(o)?]),
        }
    }

    /// The registers of `{a, b}` or of a single operand as sources.
    pub(super) fn src_vec(&mut self, o: &Operand<'a>, file: File) -> Res<Vec<Slot>> {
        match o {
            Operand::Vector(v) => v.iter().map(|x| self.any(x, file)).collect(),
            _ => Ok(vec![self.any(o, file)?]),
        }
    }

    /// `[base + offset]` in a state space; parameters that live in local memory are found out here.
    pub(super) fn addr(&mut self, o: &Operand<'a>, space: Space) -> Res<Addr> {
        let Operand::Address { base, offset } = o else {
            return self.error(format!("{} is not an address; write it in brackets", show(o)));
        };
        self.addr_of(base, *offset, space)
    }

    pub(super) fn addr_of(&mut self, base: &Operand<'a>, offset: i64, space: Space) -> Res<Addr> {
        let mut space = space;
        if let Operand::Name { name, .. } = base {
            match (self.lookup(name), space) {
                (Some(Symbol::Local(_)), Space::Param) => space = Space::Local,
                (Some(Symbol::Shared(_) | Symbol::DynamicShared), Space::Generic) => space = Space::Shared,
                _ => {}
            }
        }
        let wide = if space == Space::Shared { File::R32 } else { File::R64 };
        let base = self.any(base, wide)?;
        if base.is_none() || base.file() == File::Pred {
            return self.error("an address must be in a 32- or 64-bit register");
        }
        Ok(Addr { space, base, offset })
    }
}

/// An operand as errors show it.
pub(super) fn show(o: &Operand<'_>) -> String {
    match o {
        Operand::Name { name, .. } => format!("`{name}`"),
        Operand::Int(v) => format!("`{}`", *v as i64),
        Operand::F32(v) => format!("`{}`", f32::from_bits(*v)),
        Operand::F64(v) => format!("`{}`", f64::from_bits(*v)),
        Operand::Sink => "`_`".to_string(),
        Operand::Vector(v) => format!("a vector of {}", v.len()),
        Operand::Address { .. } => "an address".to_string(),
        Operand::Bracket(_) => "a bracketed list".to_string(),
        Operand::Pair(..) => "a pair".to_string(),
        Operand::Group(_) => "a list".to_string(),
    }
}
