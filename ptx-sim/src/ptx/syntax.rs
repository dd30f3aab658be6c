//! Tokens to statements: the shape of the text, before any meaning.

use super::lexer::{Tok, Token};
use super::module::LoadError;
pub(crate) use super::tree::{Decl, Function, InitItem, Instr, Loc, Operand, Stmt, Text};
use super::types::Ty;

pub(crate) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    loc: Option<Loc>,
}

type Res<T> = Result<T, LoadError>;

/// Nesting allowed in operands; deeper text is hostile.
const MAX_DEPTH: usize = 8;

impl<'a> Parser<'a> {
    pub(crate) fn new(tokens: Vec<Token<'a>>) -> Parser<'a> {
        Parser { tokens, at: 0, loc: None }
    }

    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.line)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Res<T> {
        Err(LoadError { line: self.line(), message: message.into(), unsupported: false })
    }

    fn peek(&self) -> Option<Tok<'a>> {
        self.tokens.get(self.at).map(|t| t.tok)
    }

    fn next(&mut self) -> Res<Tok<'a>> {
        match self.peek() {
            Some(t) => {
                self.at += 1;
                Ok(t)
            }
            None => self.fail("the text ends in the middle of a statement"),
        }
    }

    fn punct(&self, c: char) -> bool {
        self.peek() == Some(Tok::Punct(c))
    }

    fn accept(&mut self, c: char) -> bool {
        let yes = self.punct(c);
        self.at += yes as usize;
        yes
    }

    fn expect(&mut self, c: char) -> Res<()> {
        if self.accept(c) {
            return Ok(());
        }
        let found = self.peek();
        self.fail(format!("expected `{c}`, found {}", describe(found)))
    }

    fn word(&mut self) -> Res<&'a str> {
        match self.next()? {
            Tok::Word(w) => Ok(w),
            t => {
                self.at -= 1;
                self.fail(format!("expected a name, found {}", describe(Some(t))))
            }
        }
    }

    fn int(&mut self) -> Res<u64> {
        let neg = self.accept('-');
        match self.next()? {
            Tok::Int(v) => Ok(if neg { v.wrapping_neg() } else { v }),
            t => {
                self.at -= 1;
                self.fail(format!("expected an integer, found {}", describe(Some(t))))
            }
        }
    }

    fn skip_line(&mut self) {
        let line = self.line();
        while self.tokens.get(self.at).is_some_and(|t| t.line == line) {
            self.at += 1;
        }
    }

    fn skip_braces(&mut self) -> Res<()> {
        self.expect('{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Tok::Punct('{') => depth += 1,
                Tok::Punct('}') => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Parses a whole text.
    pub(crate) fn text(&mut self) -> Res<Text<'a>> {
        let mut out = Text::default();
        while let Some(tok) = self.peek() {
            let Tok::Word(w) = tok else {
                return self.fail(format!("expected a directive, found {}", describe(Some(tok))));
            };
            match w {
                ".version" => {
                    self.at += 1;
                    let v = match self.next()? {
                        Tok::F64(bits) => f64::from_bits(bits),
                        Tok::Int(v) => v as f64,
                        _ => return self.fail("expected a version such as 9.0"),
                    };
                    out.version = (v as u32, ((v - v.floor()) * 10.0).round() as u32);
                }
                ".target" => {
                    self.at += 1;
                    out.target = self.word()?;
                    while self.accept(',') {
                        self.word()?;
                    }
                }
                ".address_size" => {
                    self.at += 1;
                    if self.int()? != 64 {
                        return self.fail(".address_size must be 64");
                    }
                }
                ".file" => {
                    self.at += 1;
                    let n = self.int()? as u32;
                    if let Tok::Str(s) = self.next()? {
                        out.files.push((n, s));
                    }
                    while self.accept(',') {
                        self.int()?;
                    }
                }
                ".section" => {
                    self.at += 1;
                    while !self.punct('{') {
                        self.next()?;
                    }
                    self.skip_braces()?;
                }
                ".loc" => self.skip_line(),
                ".pragma" => {
                    while !self.accept(';') {
                        self.next()?;
                    }
                }
                ".alias" => {
                    self.at += 1;
                    let a = self.word()?;
                    self.expect(',')?;
                    let b = self.word()?;
                    self.expect(';')?;
                    out.aliases.push((a, b));
                }
                _ => self.top_level(&mut out)?,
            }
        }
        Ok(out)
    }

    fn top_level(&mut self, out: &mut Text<'a>) -> Res<()> {
        loop {
            let Some(Tok::Word(w)) = self.peek() else {
                return self.fail("expected a directive");
            };
            match w {
                ".visible" | ".extern" | ".weak" | ".common" => self.at += 1,
                ".entry" | ".func" => {
                    self.at += 1;
                    let f = self.function(w == ".entry")?;
                    out.functions.push(f);
                    return Ok(());
                }
                ".global" | ".const" | ".shared" => {
                    let d = self.declaration()?;
                    out.variables.extend(d);
                    return Ok(());
                }
                _ => return self.fail(format!("directive `{w}` is not known here")),
            }
        }
    }

    fn function(&mut self, entry: bool) -> Res<Function<'a>> {
        let line = self.line();
        self.loc = None;
        self.attribute()?;
        let returns = if self.punct('(') { self.formals()? } else { Vec::new() };
        let name = self.word()?;
        let params = if self.punct('(') { self.formals()? } else { Vec::new() };
        let mut attributes = Vec::new();
        loop {
            match self.peek() {
                Some(Tok::Punct(';')) => {
                    self.at += 1;
                    return Ok(Function { name, entry, returns, params, attributes, body: None, line });
                }
                Some(Tok::Punct('{')) => break,
                Some(Tok::Word(".pragma")) => {
                    while !self.accept(';') {
                        self.next()?;
                    }
                }
                Some(Tok::Word(".loc")) => self.skip_line(),
                Some(Tok::Word(w)) if w.starts_with('.') => {
                    self.at += 1;
                    let mut values = Vec::new();
                    while let Some(Tok::Int(v)) = self.peek() {
                        self.at += 1;
                        values.push(v);
                        if !self.accept(',') {
                            break;
                        }
                    }
                    attributes.push((w, values));
                }
                t => return self.fail(format!("expected a function body, found {}", describe(t))),
            }
        }
        self.expect('{')?;
        let mut body = Vec::new();
        let mut depth = 1usize;
        while depth > 0 {
            match self.peek() {
                Some(Tok::Punct('{')) => {
                    self.at += 1;
                    depth += 1;
                    body.push(Stmt::Open);
                }
                Some(Tok::Punct('}')) => {
                    self.at += 1;
                    depth -= 1;
                    if depth > 0 {
                        body.push(Stmt::Close);
                    }
                }
                _ => self.statement(&mut body)?,
            }
        }
        Ok(Function { name, entry, returns, params, attributes, body: Some(body), line })
    }

    fn attribute(&mut self) -> Res<()> {
        if self.peek() == Some(Tok::Word(".attribute")) {
            self.at += 1;
            self.expect('(')?;
            while !self.accept(')') {
                self.next()?;
            }
        }
        Ok(())
    }

    fn formals(&mut self) -> Res<Vec<Decl<'a>>> {
        self.expect('(')?;
        let mut out = Vec::new();
        while !self.accept(')') {
            out.push(self.one_declaration()?);
            if !self.accept(',') && !self.punct(')') {
                return self.fail("expected `,` or `)` in a parameter list");
            }
        }
        Ok(out)
    }

    /// `.space .align n .v4 .type` up to the name.
    fn one_declaration(&mut self) -> Res<Decl<'a>> {
        let line = self.line();
        let (mut space, mut ty, mut align, mut lanes) = ("", None, 0usize, 1usize);
        while let Some(Tok::Word(w)) = self.peek() {
            if !w.starts_with('.') {
                break;
            }
            self.at += 1;
            match w {
                ".align" => align = self.int()? as usize,
                ".ptr" => {
                    // `.ptr .space .align n` qualifies a pointer parameter; it changes nothing here.
                    while matches!(self.peek(), Some(Tok::Word(".global" | ".shared" | ".const" | ".local" | ".align")))
                    {
                        if self.word()? == ".align" {
                            self.int()?;
                        }
                    }
                }
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                ".attribute" => {
                    self.at -= 1;
                    self.attribute()?;
                }
                _ => match Ty::parse(&w[1..]) {
                    Some(t) => ty = Some(t),
                    None => space = w,
                },
            }
        }
        let Some(ty) = ty else {
            return self.fail("declaration without a type");
        };
        let mut d = self.named(space, ty, align, line)?;
        if lanes > 1 {
            d.elements = Some(d.elements.unwrap_or(1).saturating_mul(lanes));
            d.align = d.align.max(ty.size() * lanes);
        }
        Ok(d)
    }

    fn named(&mut self, space: &'a str, ty: Ty, align: usize, line: u32) -> Res<Decl<'a>> {
        let name = self.word()?;
        let mut d =
            Decl { space, ty, align: align.max(ty.size()), name, count: None, elements: None, init: Vec::new(), line };
        if !d.align.is_power_of_two() || d.align > 1 << 20 {
            return self.fail(format!("alignment {} of `{name}` is not a power of two", d.align));
        }
        if self.accept('<') {
            let n = self.int()?;
            if n > 1 << 20 {
                return self.fail(format!("{n} registers are more than a kernel can have"));
            }
            d.count = Some(n as usize);
            self.expect('>')?;
        }
        while self.accept('[') {
            let n = if self.punct(']') { 0 } else { self.int()? as usize };
            d.elements = Some(d.elements.unwrap_or(1).saturating_mul(n));
            self.expect(']')?;
        }
        if d.elements.unwrap_or(0).saturating_mul(ty.size()) > 1 << 40 {
            return self.fail(format!("`{name}` is larger than any memory"));
        }
        if self.accept('=') {
            self.initialiser(&mut d.init, 0)?;
        }
        Ok(d)
    }

    fn initialiser(&mut self, out: &mut Vec<InitItem<'a>>, depth: usize) -> Res<()> {
        if depth > MAX_DEPTH {
            return self.fail("initialiser nested too deeply");
        }
        if self.accept('{') {
            while !self.accept('}') {
                self.initialiser(out, depth + 1)?;
                if !self.accept(',') && !self.punct('}') {
                    return self.fail("expected `,` or `}` in an initialiser");
                }
            }
            return Ok(());
        }
        let neg = self.accept('-');
        let item = match self.next()? {
            Tok::Int(v) => InitItem::Bits(if neg { v.wrapping_neg() } else { v }),
            Tok::F32(v) => InitItem::Bits(v as u64),
            Tok::F64(v) => InitItem::F64(v),
            Tok::Word(w) => {
                let name = if w == "generic" && self.accept('(') {
                    let n = self.word()?;
                    self.expect(')')?;
                    n
                } else {
                    w
                };
                let offset = if self.accept('+') { self.int()? as i64 } else { 0 };
                InitItem::Symbol { name, offset }
            }
            t => {
                return self.fail(format!("{} cannot initialise a variable", describe(Some(t))));
            }
        };
        out.push(item);
        Ok(())
    }

    /// A declaration statement with one or more names, through its semicolon.
    fn declaration(&mut self) -> Res<Vec<Decl<'a>>> {
        let first = self.one_declaration()?;
        let (space, ty, align, line) = (first.space, first.ty, first.align, first.line);
        let mut out = vec![first];
        while self.accept(',') {
            out.push(self.named(space, ty, align, line)?);
        }
        self.expect(';')?;
        Ok(out)
    }

    fn statement(&mut self, body: &mut Vec<Stmt<'a>>) -> Res<()> {
        let line = self.line();
        let mut guard = None;
        if self.accept('@') {
            let neg = self.accept('!');
            guard = Some((self.word()?, neg));
        }
        let w = self.word()?;
        if guard.is_none() {
            if self.accept(':') {
                if self.peek() == Some(Tok::Word(".branchtargets")) {
                    self.at += 1;
                    let mut targets = vec![self.word()?];
                    while self.accept(',') {
                        targets.push(self.word()?);
                    }
                    self.expect(';')?;
                    body.push(Stmt::Targets { label: w, targets });
                } else if self.peek() == Some(Tok::Word(".callprototype"))
                    || self.peek() == Some(Tok::Word(".calltargets"))
                {
                    while !self.accept(';') {
                        self.next()?;
                    }
                } else {
                    body.push(Stmt::Label(w));
                }
                return Ok(());
            }
            match w {
                ".loc" => {
                    let (f, l) = (self.int()? as u32, self.int()? as u32);
                    // Line 0 marks code without a line of its own; keep the previous one.
                    if l > 0 {
                        self.loc = Some((f, l));
                    }
                    while self.tokens.get(self.at).is_some_and(|t| t.line == line) {
                        self.at += 1;
                    }
                    return Ok(());
                }
                ".pragma" => {
                    while !self.accept(';') {
                        self.next()?;
                    }
                    return Ok(());
                }
                ".reg" | ".shared" | ".local" | ".param" | ".global" | ".const" => {
                    self.at -= 1;
                    body.extend(self.declaration()?.into_iter().map(Stmt::Decl));
                    return Ok(());
                }
                _ if w.starts_with('.') => {
                    return self.fail(format!("directive `{w}` is not known here"));
                }
                _ => {}
            }
        }
        let mut operands = Vec::new();
        if !self.punct(';') {
            loop {
                operands.push(self.operand(0)?);
                if !self.accept(',') {
                    break;
                }
            }
        }
        self.expect(';')?;
        body.push(Stmt::Instr(Instr { guard, opcode: w, operands, line, loc: self.loc }));
        Ok(())
    }

    fn operand(&mut self, depth: usize) -> Res<Operand<'a>> {
        if depth > MAX_DEPTH {
            return self.fail("operand nested too deeply");
        }
        let negated = self.accept('!');
        let minus = !negated && self.accept('-');
        let list = |p: &mut Self, end: char| -> Res<Vec<Operand<'a>>> {
            let mut v = Vec::new();
            while !p.accept(end) {
                v.push(p.operand(depth + 1)?);
                if !p.accept(',') && !p.punct(end) {
                    return p.fail(format!("expected `,` or `{end}`"));
                }
            }
            Ok(v)
        };
        let o = match self.next()? {
            Tok::Int(v) => Operand::Int(if minus { v.wrapping_neg() } else { v }),
            Tok::F32(v) => Operand::F32(if minus { v ^ 1 << 31 } else { v }),
            Tok::F64(v) => Operand::F64(if minus { v ^ 1 << 63 } else { v }),
            Tok::Word("_") => Operand::Sink,
            Tok::Word(w) => Operand::Name { name: w, negated: negated || minus },
            Tok::Punct('{') => Operand::Vector(list(self, '}')?),
            Tok::Punct('(') => Operand::Group(list(self, ')')?),
            Tok::Punct('[') => {
                let base = self.operand(depth + 1)?;
                if self.punct(',') {
                    self.at += 1;
                    let mut parts = vec![base];
                    parts.extend(list(self, ']')?);
                    Operand::Bracket(parts)
                } else {
                    let signed = self.accept('+') || self.punct('-');
                    let offset = if signed { self.int()? as i64 } else { 0 };
                    self.expect(']')?;
                    Operand::Address { base: Box::new(base), offset }
                }
            }
            t => {
                self.at -= 1;
                return self.fail(format!("{} is not an operand", describe(Some(t))));
            }
        };
        if depth <= 1 && self.accept('|') {
            let p = self.operand(MAX_DEPTH)?;
            return Ok(Operand::Pair(Box::new(o), Box::new(p)));
        }
        // `symbol + 4` as an operand of mov.
        if depth == 0
            && let Operand::Name { name, negated: false } = o
            && self.punct('+')
        {
            self.at += 1;
            let offset = self.int()? as i64;
            return Ok(Operand::Address { base: Box::new(Operand::Name { name, negated: false }), offset });
        }
        Ok(o)
    }
}

fn describe(t: Option<Tok<'_>>) -> String {
    match t {
        None => "the end of the text".to_string(),
        Some(Tok::Word(w)) => format!("`{w}`"),
        Some(Tok::Int(v)) => format!("the number {v}"),
        Some(Tok::F32(_) | Tok::F64(_)) => "a floating-point number".to_string(),
        Some(Tok::Str(_)) => "a string".to_string(),
        Some(Tok::Punct(c)) => format!("`{c}`"),
    }
}
