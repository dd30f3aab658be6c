//! The shape of a PTX text: statements and operands as written.

use super::types::Ty;

/// One operand as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand<'a> {
    /// Register, special register, variable or label; `negated` for `!p` and `-r`.
    Name {
        name: &'a str,
        negated: bool,
    },
    /// Integer immediate (two's complement).
    Int(u64),
    F32(u32),
    F64(u64),
    /// `_`
    Sink,
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `[base + offset]`
    Address {
        base: Box<Operand<'a>>,
        offset: i64,
    },
    /// `[map, {c0, c1}]` and other brackets with several parts
    Bracket(Vec<Operand<'a>>),
    /// `d|p`
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    /// `(a, b)` of a call
    Group(Vec<Operand<'a>>),
}

/// A declared variable or register.
#[derive(Clone, Debug)]
pub(crate) struct Decl<'a> {
    pub(crate) space: &'a str,
    pub(crate) ty: Ty,
    pub(crate) align: usize,
    pub(crate) name: &'a str,
    /// `%r<5>`: number of registers.
    pub(crate) count: Option<usize>,
    /// Elements in brackets, all dimensions multiplied; `Some(0)` for `[]`.
    pub(crate) elements: Option<usize>,
    pub(crate) init: Vec<InitItem<'a>>,
    pub(crate) line: u32,
}

/// Element of an initialiser.
#[derive(Clone, Debug)]
pub(crate) enum InitItem<'a> {
    Bits(u64),
    F64(u64),
    /// Address of a variable plus an offset; generic or of its space.
    Symbol {
        name: &'a str,
        offset: i64,
    },
}

/// Source position of `.loc`: file number and line.
pub(crate) type Loc = (u32, u32);

/// One statement of a function body.
#[derive(Clone, Debug)]
pub(crate) enum Stmt<'a> {
    Open,
    Close,
    Label(&'a str),
    Decl(Decl<'a>),
    Targets { label: &'a str, targets: Vec<&'a str> },
    Instr(Instr<'a>),
}

/// One instruction as written.
#[derive(Clone, Debug)]
pub(crate) struct Instr<'a> {
    /// Guard predicate and whether it is negated.
    pub(crate) guard: Option<(&'a str, bool)>,
    /// Opcode with modifiers, as written.
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
    pub(crate) line: u32,
    pub(crate) loc: Option<Loc>,
}

/// A function or kernel.
#[derive(Clone, Debug)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) entry: bool,
    pub(crate) returns: Vec<Decl<'a>>,
    pub(crate) params: Vec<Decl<'a>>,
    pub(crate) attributes: Vec<(&'a str, Vec<u64>)>,
    /// `None` for a declaration.
    pub(crate) body: Option<Vec<Stmt<'a>>>,
    pub(crate) line: u32,
}

/// A whole text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text<'a> {
    pub(crate) version: (u32, u32),
    pub(crate) target: &'a str,
    pub(crate) files: Vec<(u32, &'a str)>,
    pub(crate) variables: Vec<Decl<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
    pub(crate) aliases: Vec<(&'a str, &'a str)>,
}
