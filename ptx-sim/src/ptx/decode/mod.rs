//! Statements to decoded instructions.
//!
//! One file per kind of instruction; this one resolves names, registers and constants and links functions. A kernel is
//! decoded together with everything it calls. Recursion is refused, so that every function has registers and parameter
//! space of its own, and functions stand before their callers, so that "lowest program counter first" runs a call to
//! its end before the lanes that wait for it.

mod arithmetic;
mod bulk;
mod control;
mod convert;
mod floats;
mod logic;
mod matrix;
mod memory;
pub(crate) mod mods;
mod moves;
mod operand;
mod specials;
mod sync;

use super::module::LoadError;
use super::program::{Class, File, FunctionEntry, Init, Inst, Op, Program, Slot, Strength, Together};
use super::syntax::{Decl, Function, Instr, Operand, Stmt};
use super::types::Ty;
use mods::Mods;
pub(crate) use moves::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use operand::show;
use std::collections::{HashMap, HashSet};

pub(crate) type Res<T> = Result<T, LoadError>;

/// First address of a block's shared memory; below it lies what the system reserves.
pub(crate) const SHARED_START: u64 = 1024;

/// What a name stands for.
#[derive(Clone, Debug)]
enum Symbol {
    Register(Slot, Ty),
    /// `%r<n>`: first register and how many.
    Range(Slot, Ty, usize),
    Shared(u64),
    DynamicShared,
    Variable(usize),
    Local(u64),
    KernelParam(u64),
}

/// Parameters and results of a function, in the thread's local memory or in registers.
#[derive(Clone, Debug)]
struct Signature {
    returns: Vec<Formal>,
    params: Vec<Formal>,
}

#[derive(Clone, Debug)]
enum Formal {
    Memory { offset: u64, bytes: usize },
    Register(Slot, Ty),
}

pub(crate) struct Decoder<'a> {
    functions: &'a HashMap<&'a str, &'a Function<'a>>,
    variables: &'a HashMap<&'a str, usize>,
    shared_globals: &'a [Decl<'a>],
    out: Vec<Inst>,
    table: Vec<FunctionEntry>,
    signatures: HashMap<&'a str, (usize, Signature)>,
    rows: [usize; 3],
    consts: HashMap<(File, Init), Slot>,
    /// Constant rows that hold dynamic shared addresses: slot and offset.
    dynamic: Vec<(Slot, u64)>,
    dynamic_align: usize,
    scopes: Vec<HashMap<&'a str, Symbol>>,
    shared_at: u64,
    local_at: u64,
    shared_seen: HashMap<&'a str, Symbol>,
    labels: HashMap<(&'a str, u32), u32>,
    /// Numbers of the open scopes; a label belongs to the innermost.
    scope_ids: Vec<u32>,
    next_scope: u32,
    targets: HashMap<&'a str, Vec<&'a str>>,
    fixes: Vec<(usize, Vec<&'a str>, u32, Vec<u32>)>,
    communicates: bool,
    in_entry: bool,
    // State of the instruction being decoded.
    guard: Slot,
    line: u32,
    loc: Option<(u32, u32)>,
}

fn round_up(x: u64, align: u64) -> u64 {
    x.div_ceil(align.max(1)) * align.max(1)
}

/// A decoded kernel and the memory it declares.
pub(crate) struct Decoded {
    pub(crate) program: Program,
    pub(crate) static_shared: usize,
    pub(crate) local_bytes: usize,
}

/// Decodes a kernel with all functions that it reaches.
pub(crate) fn kernel<'a>(
    entry: &'a Function<'a>,
    param_offsets: &[(&'a str, usize)],
    functions: &'a HashMap<&'a str, &'a Function<'a>>,
    variables: &'a HashMap<&'a str, usize>,
    shared_globals: &'a [Decl<'a>],
) -> Res<Decoded> {
    let mut d = Decoder {
        functions,
        variables,
        shared_globals,
        out: Vec::new(),
        table: Vec::new(),
        signatures: HashMap::new(),
        rows: [0; 3],
        consts: HashMap::new(),
        dynamic: Vec::new(),
        dynamic_align: 16,
        scopes: vec![HashMap::new()],
        shared_at: SHARED_START,
        local_at: 0,
        shared_seen: HashMap::new(),
        labels: HashMap::new(),
        scope_ids: vec![0],
        next_scope: 1,
        targets: HashMap::new(),
        fixes: Vec::new(),
        communicates: false,
        in_entry: false,
        guard: Slot::NONE,
        line: entry.line,
        loc: None,
    };
    let mut order = Vec::new();
    d.reach(entry, &mut Vec::new(), &mut HashSet::new(), &mut order)?;
    for f in order.iter().filter(|f| !f.entry) {
        d.function(f)?;
    }
    let start = d.out.len() as u32;
    for (name, offset) in param_offsets {
        d.scopes[0].insert(name, Symbol::KernelParam(*offset as u64));
    }
    d.body(entry)?;
    d.finish(start)
}

impl<'a> Decoder<'a> {
    fn error<T>(&self, message: impl Into<String>) -> Res<T> {
        Err(LoadError { line: self.line, message: message.into(), unsupported: false })
    }

    fn unsupported<T>(&self, message: impl Into<String>) -> Res<T> {
        Err(LoadError { line: self.line, message: message.into(), unsupported: true })
    }

    fn reach(
        &self,
        f: &'a Function<'a>,
        path: &mut Vec<&'a str>,
        done: &mut HashSet<&'a str>,
        order: &mut Vec<&'a Function<'a>>,
    ) -> Res<()> {
        if path.contains(&f.name) {
            return Err(LoadError {
                line: f.line,
                message: format!("`{}` calls itself; recursion is not supported, rewrite it as a loop", f.name),
                unsupported: true,
            });
        }
        if !done.insert(f.name) {
            return Ok(());
        }
        path.push(f.name);
        for s in f.body.iter().flatten() {
            if let Stmt::Instr(i) = s
                && (i.opcode == "call" || i.opcode.starts_with("call."))
            {
                for o in &i.operands {
                    if let Operand::Name { name, .. } = o
                        && let Some(g) = self.functions.get(name)
                        && g.body.is_some()
                    {
                        self.reach(g, path, done, order)?;
                    }
                }
            }
        }
        path.pop();
        order.push(f);
        Ok(())
    }

    fn row(&mut self, file: File) -> Res<Slot> {
        let n = &mut self.rows[file as usize];
        *n += 1;
        if *n > 1 << 20 {
            return self.error("more registers than a kernel can have");
        }
        Ok(Slot::new(file, *n - 1))
    }

    fn file_of(&self, ty: Ty) -> Res<File> {
        Ok(match ty {
            Ty::Pred => File::Pred,
            Ty::B128 => {
                return self.unsupported("128-bit registers are not supported by the virtual device");
            }
            _ if ty.size() == 8 => File::R64,
            _ => File::R32,
        })
    }

    fn scope(&mut self) -> &mut HashMap<&'a str, Symbol> {
        if self.scopes.is_empty() {
            self.scopes.push(HashMap::new());
        }
        let n = self.scopes.len();
        &mut self.scopes[n - 1]
    }

    fn function(&mut self, f: &'a Function<'a>) -> Res<()> {
        self.scopes = vec![HashMap::new()];
        let mut formals = |decls: &[Decl<'a>]| -> Res<Vec<Formal>> {
            let mut v = Vec::new();
            for p in decls {
                self.line = p.line;
                if p.space == ".reg" {
                    let slot = {
                        let file = self.file_of(p.ty)?;
                        self.row(file)?
                    };
                    self.scope().insert(p.name, Symbol::Register(slot, p.ty));
                    v.push(Formal::Register(slot, p.ty));
                } else {
                    let bytes = p.ty.size() * p.elements.unwrap_or(1);
                    let offset = self.local(bytes, p.align.max(8))?;
                    self.scope().insert(p.name, Symbol::Local(offset));
                    v.push(Formal::Memory { offset, bytes });
                }
            }
            Ok(v)
        };
        let returns = formals(&f.returns)?;
        let params = formals(&f.params)?;
        let return_row = self.row(File::R32)?.index();
        self.signatures.insert(f.name, (self.table.len(), Signature { returns, params }));
        self.table.push(FunctionEntry { entry: self.out.len() as u32, return_row });
        self.body(f)
    }

    fn local(&mut self, bytes: usize, align: usize) -> Res<u64> {
        let at = round_up(self.local_at, align as u64);
        self.local_at = at + bytes as u64;
        if self.local_at > 512 << 10 {
            return self.error("more than 512 KiB of local memory per thread");
        }
        Ok(at)
    }

    fn shared(&mut self, d: &Decl<'a>) -> Res<Symbol> {
        if let Some(s) = self.shared_seen.get(d.name) {
            return Ok(s.clone());
        }
        let s = if d.elements == Some(0) {
            self.dynamic_align = self.dynamic_align.max(d.align);
            Symbol::DynamicShared
        } else {
            let at = round_up(self.shared_at, d.align as u64);
            self.shared_at = at + (d.ty.size() * d.elements.unwrap_or(1)) as u64;
            if self.shared_at > 1 << 24 {
                return self.error(format!("`{}` does not fit into shared memory", d.name));
            }
            Symbol::Shared(at)
        };
        self.shared_seen.insert(d.name, s.clone());
        Ok(s)
    }

    fn body(&mut self, f: &'a Function<'a>) -> Res<()> {
        self.in_entry = f.entry;
        self.labels.clear();
        self.targets.clear();
        self.scope_ids = vec![self.next_scope];
        self.next_scope += 1;
        self.scopes.push(HashMap::new());
        let depth = self.scopes.len();
        for s in f.body.iter().flatten() {
            match s {
                Stmt::Open => {
                    self.scopes.push(HashMap::new());
                    self.scope_ids.push(self.next_scope);
                    self.next_scope += 1;
                }
                Stmt::Close => {
                    if self.scopes.len() <= depth {
                        return self.error("`}` without `{`");
                    }
                    self.scopes.pop();
                    self.scope_ids.pop();
                }
                Stmt::Label(l) => {
                    let at = self.out.len() as u32;
                    let scope = self.scope_ids.last().copied().unwrap_or(0);
                    if self.labels.insert((l, scope), at).is_some() {
                        return self.error(format!("label `{l}` is defined twice"));
                    }
                }
                Stmt::Targets { label, targets } => {
                    self.targets.insert(label, targets.clone());
                }
                Stmt::Decl(d) => self.declare(d)?,
                Stmt::Instr(i) => self.instruction(i)?,
            }
        }
        self.line = f.line;
        self.guard = Slot::NONE;
        self.push(if f.entry { Op::Exit } else { Op::Ret }, Class::Control);
        for (at, names, line, scopes) in std::mem::take(&mut self.fixes) {
            let mut resolved = Vec::new();
            for n in &names {
                match scopes.iter().rev().find_map(|s| self.labels.get(&(*n, *s))) {
                    Some(l) => resolved.push(*l),
                    None => {
                        return Err(LoadError {
                            line,
                            message: format!("label `{n}` is not defined"),
                            unsupported: false,
                        });
                    }
                }
            }
            match &mut self.out[at].op {
                Op::Bra { target } => *target = resolved[0],
                Op::BraIndex { targets, .. } => *targets = resolved.into(),
                _ => {}
            }
        }
        Ok(())
    }

    fn declare(&mut self, d: &Decl<'a>) -> Res<()> {
        self.line = d.line;
        match d.space {
            ".reg" => {
                let file = self.file_of(d.ty)?;
                match d.count {
                    None => {
                        let s = self.row(file)?;
                        self.scope().insert(d.name, Symbol::Register(s, d.ty));
                    }
                    Some(n) => {
                        let base = self.rows[file as usize];
                        self.rows[file as usize] += n;
                        if self.rows[file as usize] > 1 << 20 {
                            return self.error("more registers than a kernel can have");
                        }
                        self.scope().insert(d.name, Symbol::Range(Slot::new(file, base), d.ty, n));
                    }
                }
            }
            ".shared" => {
                let s = self.shared(d)?;
                self.scope().insert(d.name, s);
            }
            ".local" | ".param" => {
                let offset = self.local(d.ty.size() * d.elements.unwrap_or(1), d.align.max(8))?;
                self.scope().insert(d.name, Symbol::Local(offset));
            }
            other => return self.unsupported(format!("`{other}` variables inside a function")),
        }
        Ok(())
    }

    /// Appends an instruction with the current guard.
    fn push(&mut self, op: Op, class: Class) {
        self.push_with(op, class, Together::No);
    }

    fn push_with(&mut self, op: Op, class: Class, together: Together) {
        self.out.push(Inst {
            op,
            guard: self.guard,
            together,
            class,
            touches_wgmma: false,
            line: self.line,
            loc: self.loc,
        });
    }

    fn instruction(&mut self, i: &Instr<'a>) -> Res<()> {
        self.line = i.line;
        self.loc = i.loc;
        self.guard = Slot::NONE;
        if let Some((name, neg)) = i.guard {
            match self.lookup(name) {
                Some(Symbol::Register(s, Ty::Pred)) => self.guard = if neg { s.not() } else { s },
                _ => return self.error(format!("guard `{name}` is not a predicate")),
            }
        }
        let mut m = Mods::new(i.opcode, i.line);
        let name = m.name();
        let ops = i.operands.as_slice();
        match name {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "min" | "max" | "neg" | "abs" | "mul24"
            | "mad24" | "sad" | "addc" | "subc" | "madc" | "dp4a" | "dp2a" | "rcp" | "sqrt" | "rsqrt" | "sin"
            | "cos" | "ex2" | "lg2" | "tanh" | "copysign" | "testp" => self.arithmetic(name, &mut m, ops)?,
            "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" | "bfe" | "bfi"
            | "bfind" | "brev" | "clz" | "popc" | "fns" | "szext" | "bmsk" | "setp" | "set" | "selp" | "slct" => {
                self.logic(name, &mut m, ops)?
            }
            "mov" | "cvta" | "isspacep" | "mapa" | "getctarank" => self.moves(name, &mut m, ops)?,
            "cvt" => self.convert(&mut m, ops)?,
            "ld" | "ldu" | "st" | "atom" | "red" | "prefetch" | "prefetchu" | "discard" | "applypriority"
            | "createpolicy" => self.memory(name, &mut m, ops)?,
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" | "pmevent" => {
                self.control(name, &mut m, ops)?
            }
            "bar" | "barrier" | "membar" | "fence" | "shfl" | "vote" | "match" | "redux" | "elect" | "activemask"
            | "setmaxnreg" | "griddepcontrol" | "mbarrier" => self.sync(name, &mut m, ops)?,
            "cp" | "tensormap" => self.bulk(name, &mut m, ops)?,
            "ldmatrix" | "stmatrix" | "movmatrix" | "mma" | "wgmma" => self.matrix(name, &mut m, ops)?,
            _ => return Err(m.unsupported(format!("instruction `{name}`"))),
        }
        m.finish()
    }

    /// Number of operands, checked.
    fn want(&self, ops: &[Operand<'a>], range: std::ops::RangeInclusive<usize>) -> Res<()> {
        if range.contains(&ops.len()) {
            return Ok(());
        }
        self.error(format!("{} operands where {} to {} are expected", ops.len(), range.start(), range.end()))
    }

    /// A compile-time integer.
    fn immediate(&self, o: &Operand<'a>) -> Res<u64> {
        match o {
            Operand::Int(v) => Ok(*v),
            _ => self.error(format!("{} must be a constant", show(o))),
        }
    }

    /// Memory order and scope. Wide scopes let blocks see each other.
    fn strength(&mut self, m: &mut Mods<'a>, default: Strength) -> Strength {
        let s = m.find(|p| {
            Some(match p {
                "weak" => Strength::Weak,
                "relaxed" => Strength::Relaxed,
                "acquire" => Strength::Acquire,
                "release" => Strength::Release,
                "acq_rel" => Strength::AcqRel,
                "volatile" | "mmio" => Strength::Volatile,
                _ => return None,
            })
        });
        m.ignore(&["mmio", "cta", "cluster", "gpu", "sys"]);
        s.unwrap_or(default)
    }

    fn finish(mut self, entry: u32) -> Res<Decoded> {
        let dynamic_shared = round_up(self.shared_at, self.dynamic_align as u64);
        for (slot, offset) in std::mem::take(&mut self.dynamic) {
            let key = self.consts.iter().find(|(_, s)| **s == slot).map(|(k, _)| k.clone());
            if let Some(k) = key {
                self.consts.remove(&k);
                self.consts.insert((k.0, Init::Shared(dynamic_shared.wrapping_add(offset) | FINAL)), slot);
            }
        }
        let mut inits: Vec<(Slot, Init)> = self
            .consts
            .into_iter()
            .map(|((_, i), s)| match i {
                Init::Shared(a) => (s, Init::Shared(a & !FINAL)),
                i => (s, i),
            })
            .collect();
        inits.sort_by_key(|(s, _)| (s.file() as u8, s.index()));
        let mut insts = self.out;
        mark_wgmma(&mut insts);
        Ok(Decoded {
            program: Program {
                insts,
                entry,
                functions: self.table,
                rows32: self.rows[0],
                rows64: self.rows[1],
                rows_pred: self.rows[2],
                inits,
                dynamic_shared,
                communicates: self.communicates,
            },
            static_shared: (self.shared_at - SHARED_START) as usize,
            local_bytes: self.local_at as usize,
        })
    }
}

/// Placeholder base of dynamic shared memory, above any real address.
const DYNAMIC: u64 = 1 << 40;
/// Keeps resolved dynamic addresses apart from static ones in the constant table.
const FINAL: u64 = 1 << 50;

fn mark_wgmma(insts: &mut [Inst]) {
    let mut used = HashSet::new();
    for i in insts.iter() {
        if let Op::Wgmma(w) = &i.op {
            used.extend(w.d.iter().copied());
            if !w.a_in_shared {
                used.extend(w.ra.iter().copied());
            }
        }
    }
    if used.is_empty() {
        return;
    }
    for i in insts.iter_mut() {
        let mut touches = false;
        super::operands::for_each_slot(&i.op, &mut |s, _| touches |= used.contains(&s));
        i.touches_wgmma = touches;
    }
}
