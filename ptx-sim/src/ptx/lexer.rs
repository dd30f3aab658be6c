//! PTX text to tokens. Never panics, whatever the bytes.

use super::module::LoadError;

/// Kind and text of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tok<'a> {
    /// Identifier, register, opcode with its modifiers, directive, or label: letters, digits, `_ $ % .` and `::`.
    Word(&'a str),
    /// Integer literal.
    Int(u64),
    /// `0f...` literal (bits of an f32).
    F32(u32),
    /// `0d...` or decimal literal (bits of an f64).
    F64(u64),
    /// String without its quotes.
    Str(&'a str),
    /// Any other single character.
    Punct(char),
}

/// A token and its line, from 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) tok: Tok<'a>,
    pub(crate) line: u32,
}

fn word_start(c: u8) -> bool {
    c.is_ascii_alphabetic() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

fn word_part(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'%' | b'.' | b'@')
}

/// Splits text into tokens; comments are dropped.
pub(crate) fn tokenize(text: &str) -> Result<Vec<Token<'_>>, LoadError> {
    let b = text.as_bytes();
    let mut out = Vec::with_capacity(text.len() / 4);
    let (mut i, mut line) = (0usize, 1u32);
    let err = |line: u32, message: String| LoadError { line, message, unsupported: false };
    while i < b.len() {
        let c = b[i];
        if c == b'\n' {
            line += 1;
            i += 1;
        } else if c.is_ascii_whitespace() || c == 0 {
            i += 1;
        } else if c == b'/' && b.get(i + 1) == Some(&b'/') {
            while i < b.len() && b[i] != b'\n' {
                i += 1;
            }
        } else if c == b'/' && b.get(i + 1) == Some(&b'*') {
            i += 2;
            while i < b.len() && !(b[i] == b'*' && b.get(i + 1) == Some(&b'/')) {
                line += (b[i] == b'\n') as u32;
                i += 1;
            }
            i += 2;
        } else if c == b'"' {
            let start = i + 1;
            i += 1;
            while i < b.len() && b[i] != b'"' && b[i] != b'\n' {
                i += 1;
            }
            if b.get(i) != Some(&b'"') {
                return Err(err(line, "string without an end; close it with a quotation mark".to_string()));
            }
            out.push(Token { tok: Tok::Str(&text[start..i]), line });
            i += 1;
        } else if word_start(c) {
            let start = i;
            i += 1;
            loop {
                match b.get(i) {
                    Some(&x) if word_part(x) => i += 1,
                    Some(b':') if b.get(i + 1) == Some(&b':') && b.get(i + 2).is_some_and(|x| word_part(*x)) => i += 2,
                    _ => break,
                }
            }
            out.push(Token { tok: Tok::Word(&text[start..i]), line });
        } else if c.is_ascii_digit() {
            let start = i;
            while i < b.len() && (b[i].is_ascii_alphanumeric() || b[i] == b'.') {
                // An exponent may carry a sign, but `0x1e+4` is an addition.
                let exponent =
                    matches!(b[i], b'e' | b'E') && !text[start..i].starts_with("0x") && text[start..i].contains('.');
                i += 1;
                if exponent && matches!(b.get(i), Some(b'+' | b'-')) {
                    i += 1;
                }
            }
            let t = &text[start..i];
            let tok = number(t).ok_or_else(|| err(line, format!("`{t}` is not a number")))?;
            out.push(Token { tok, line });
        } else if c.is_ascii() {
            out.push(Token { tok: Tok::Punct(c as char), line });
            i += 1;
        } else {
            return Err(err(line, format!("byte {c:#04x} is not part of PTX; pass PTX text in ASCII")));
        }
    }
    Ok(out)
}

fn number(t: &str) -> Option<Tok<'static>> {
    let hex = |s: &str| u64::from_str_radix(s, 16).ok();
    if let Some(h) = t.strip_prefix("0f").or(t.strip_prefix("0F")) {
        return if h.len() == 8 { hex(h).map(|v| Tok::F32(v as u32)) } else { None };
    }
    if let Some(h) = t.strip_prefix("0d").or(t.strip_prefix("0D")) {
        return if h.len() == 16 { hex(h).map(Tok::F64) } else { None };
    }
    if t.contains('.') {
        return t.parse::<f64>().ok().map(|v| Tok::F64(v.to_bits()));
    }
    let t = t.strip_suffix(['U', 'u']).unwrap_or(t);
    if let Some(h) = t.strip_prefix("0x").or(t.strip_prefix("0X")) {
        return hex(h).map(Tok::Int);
    }
    if let Some(h) = t.strip_prefix("0b").or(t.strip_prefix("0B")) {
        return u64::from_str_radix(h, 2).ok().map(Tok::Int);
    }
    if t.len() > 1 && t.starts_with('0') && t.bytes().all(|c| c.is_ascii_digit()) {
        return u64::from_str_radix(&t[1..], 8).ok().map(Tok::Int);
    }
    t.parse::<u64>().ok().map(Tok::Int)
}
