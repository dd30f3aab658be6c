//! Branches, calls, exits.

use super::mods::Mods;
use super::{Decoder, Formal, Res, Symbol};
use crate::ptx::program::{Addr, Builtin, Class, File, LaneOp, Load, Op, Store, Strength, Together};
use crate::ptx::syntax::Operand;
use crate::ptx::types::{Space, Ty};

impl<'a> Decoder<'a> {
    pub(super) fn control(&mut self, name: &str, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        m.ignore(&["uni"]);
        match name {
            "bra" => {
                self.want(ops, 1..=1)?;
                let Operand::Name { name, .. } = &ops[0] else {
                    return self.error("a label is expected");
                };
                self.fixes.push((self.out.len(), vec![name], self.line, self.scope_ids.clone()));
                self.push(Op::Bra { target: 0 }, Class::Control);
            }
            "brx" => {
                if !m.has("idx") {
                    return Err(m.unsupported(".idx is expected"));
                }
                self.want(ops, 2..=2)?;
                let index = self.src(&ops[0], File::R32)?;
                let Operand::Name { name, .. } = &ops[1] else {
                    return self.error("a branch table is expected");
                };
                let Some(t) = self.targets.get(name).cloned() else {
                    return self.error(format!("branch table `{name}` is not defined before its use"));
                };
                self.fixes.push((self.out.len(), t, self.line, self.scope_ids.clone()));
                self.push(Op::BraIndex { index, targets: Box::new([]) }, Class::Control);
            }
            "call" => return self.call(m, ops),
            "ret" => {
                // In a kernel a return is an exit.
                let op = if self.in_entry { Op::Exit } else { Op::Ret };
                self.push(op, Class::Control);
            }
            "exit" => self.push(Op::Exit, Class::Control),
            "trap" => self.push(Op::Trap, Class::Control),
            "brkpt" => self.push(Op::Nop, Class::Control),
            "pmevent" => {
                m.ignore(&["mask"]);
                self.push(Op::Nop, Class::Control);
            }
            _ => {
                m.ty()?;
                self.want(ops, 1..=1)?;
                self.src(&ops[0], File::R32)?;
                self.push(Op::Nanosleep, Class::Control);
            }
        }
        Ok(())
    }

    fn call(&mut self, m: &mut Mods<'a>, ops: &[Operand<'a>]) -> Res<()> {
        let mut ops = ops;
        let mut rets: &[Operand<'a>] = &[];
        if let Some(Operand::Group(r)) = ops.first() {
            rets = r;
            ops = &ops[1..];
        }
        let Some(Operand::Name { name, .. }) = ops.first() else {
            return self.error("a function name is expected");
        };
        let args: &[Operand<'a>] = match ops.get(1) {
            Some(Operand::Group(a)) => a,
            None => &[],
            _ => return self.error("arguments in parentheses are expected"),
        };
        if ops.len() > 2 {
            return Err(m.unsupported("indirect calls"));
        }
        let builtin = match *name {
            "vprintf" => Some(Builtin::Vprintf),
            "__assertfail" => Some(Builtin::AssertFail),
            _ => None,
        };
        if let Some(builtin) = builtin {
            let mut at = |o: &Operand<'a>| self.addr_of(o, 0, Space::Param);
            let args = args.iter().map(&mut at).collect::<Res<Vec<Addr>>>()?;
            let ret = match rets.first() {
                Some(o) => Some(at(o)?),
                None => None,
            };
            let wanted = if builtin == Builtin::Vprintf { 2 } else { 5 };
            if args.len() != wanted {
                return self.error(format!("`{name}` takes {wanted} arguments, {} are given", args.len()));
            }
            self.push(Op::CallBuiltin { builtin, args, ret }, Class::Control);
            return Ok(());
        }
        let Some((index, sig)) = self.signatures.get(name).cloned() else {
            return match self.functions.get(name) {
                Some(_) => self.unsupported(format!("function `{name}` has no body; the virtual device links nothing")),
                None => self.unsupported(format!(
                    "call of `{name}`, which is not a function of this text; indirect calls are not supported"
                )),
            };
        };
        if args.len() != sig.params.len() || rets.len() != sig.returns.len() {
            return self.error(format!(
                "`{name}` takes {} arguments and returns {}, the call has {} and {}",
                sig.params.len(),
                sig.returns.len(),
                args.len(),
                rets.len()
            ));
        }
        for (o, formal) in args.iter().zip(&sig.params) {
            match formal {
                Formal::Register(d, ty) => {
                    let s = self.src(o, d.file())?;
                    self.copy_register(*d, s, *ty);
                }
                Formal::Memory { offset, bytes } => match o {
                    Operand::Name { name, .. } if matches!(self.lookup(name), Some(Symbol::Local(_))) => {
                        let src = self.addr_of(o, 0, Space::Param)?;
                        let dst = self.local_addr(*offset)?;
                        self.copy_memory(dst, src, *bytes)?;
                    }
                    _ => {
                        // An immediate or register where the function takes memory.
                        let s = self.any(o, if *bytes == 8 { File::R64 } else { File::R32 })?;
                        let addr = self.local_addr(*offset)?;
                        let store = Store {
                            addr,
                            bytes: *bytes,
                            s: vec![s],
                            strength: Strength::Weak,
                            narrow: false,
                            mbar: None,
                        };
                        self.push(Op::Store(Box::new(store)), Class::StoreLocal);
                    }
                },
            }
        }
        self.push(Op::Call { function: index as u32 }, Class::Control);
        for (o, formal) in rets.iter().zip(&sig.returns) {
            match formal {
                Formal::Register(s, ty) => {
                    let d = self.dst(o, s.file())?;
                    self.copy_register(d, *s, *ty);
                }
                Formal::Memory { offset, bytes } => {
                    let dst = self.addr_of(o, 0, Space::Param)?;
                    let src = self.local_addr(*offset)?;
                    self.copy_memory(dst, src, *bytes)?;
                }
            }
        }
        Ok(())
    }

    fn local_addr(&mut self, offset: u64) -> Res<Addr> {
        Ok(Addr { space: Space::Local, base: self.bits(File::R64, offset)?, offset: 0 })
    }

    fn copy_register(&mut self, d: crate::ptx::program::Slot, s: crate::ptx::program::Slot, ty: Ty) {
        let op = match ty {
            Ty::Pred => LaneOp::MovPred,
            t if t.size() == 8 => LaneOp::Mov64,
            _ => LaneOp::Mov32,
        };
        self.lane(op, d, &[s], Class::Move);
    }

    fn copy_memory(&mut self, dst: Addr, src: Addr, bytes: usize) -> Res<()> {
        let mut at = 0;
        while at < bytes {
            let n = [8, 4, 2, 1].into_iter().find(|n| at + n <= bytes).unwrap_or(1);
            let t = self.row(if n == 8 { File::R64 } else { File::R32 })?;
            let (mut from, mut to) = (src, dst);
            from.offset += at as i64;
            to.offset += at as i64;
            let load =
                Load { addr: from, bytes: n, signed: false, d: vec![t], strength: Strength::Weak, narrow: false };
            self.push_with(Op::Load(Box::new(load)), Class::LoadLocal, Together::No);
            let store = Store { addr: to, bytes: n, s: vec![t], strength: Strength::Weak, narrow: false, mbar: None };
            self.push(Op::Store(Box::new(store)), Class::StoreLocal);
            at += n;
        }
        Ok(())
    }
}
