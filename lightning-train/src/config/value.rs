//! Untyped values and the one grammar of overrides.
//!
//! ```text
//! value  = null | true | false | integer | float | string | list | map
//! integer= [+-] digits, without leading zeros          12  -3
//! float  = digits with a point or an exponent          0.5  1e-4
//! string = "quoted" | 'quoted' | bare text             "a, b"  'C:\x'  cosine  30 a 70 b
//! list   = [value, value, ...]                         [moe, core_attn]   [[a, b], null]
//! map    = {key = value, key: value, ...}              {revision = main}
//! ```
//!
//! Blanks around every part are allowed. At the top level bare text runs to the end; inside lists and maps it ends at a
//! comma or a closing bracket. `"quoted"` knows the escapes `\" \\ \n \r \t \uHHHH`; `'quoted'` knows none.

use std::fmt;

/// How deep lists and maps may nest; deeper text is refused instead of exhausting the stack.
const MAX_DEPTH: usize = 32;

/// A value of the override grammar.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number with a point or an exponent.
    Float(f64),
    /// Text, quoted or bare.
    Str(String),
    /// A list.
    List(Vec<Value>),
    /// A map in the order it was written.
    Map(Vec<(String, Value)>),
}

/// Where and why a text is not a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrammarError {
    /// Zero-based position, in characters.
    pub position: usize,
    /// What is wrong and what would be accepted.
    pub reason: String,
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.position, self.reason)
    }
}

impl Value {
    /// Reads a whole text.
    ///
    /// # Errors
    /// An unfinished quote, list or map, text after the end, an empty element, a key that is there twice, or nesting
    /// deeper than 32.
    pub fn parse(text: &str) -> Result<Self, GrammarError> {
        let trimmed = text.trim();
        match trimmed.chars().next() {
            Some('[' | '{' | '"' | '\'') => {
                let mut parser = Parser { chars: text.chars().collect(), at: 0 };
                let value = parser.value(0)?;
                parser.blanks();
                match parser.peek() {
                    None => Ok(value),
                    Some(c) => Err(parser.error(format!("`{c}` after the end of the value"))),
                }
            }
            _ => Ok(bare(trimmed)),
        }
    }

    /// Reads a text for a setting that holds text: everything that is not `null`, `true`, `false`, quoted, a list or a
    /// map is the text itself, so that `007` or `9999,8,2` need no quotes.
    ///
    /// # Errors
    /// As [`Value::parse`].
    pub fn parse_text(text: &str) -> Result<Self, GrammarError> {
        Ok(match Self::parse(text)? {
            Self::Int(_) | Self::Float(_) => Self::Str(text.trim().to_string()),
            other => other,
        })
    }

    /// The name of the type, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number with a fraction",
            Self::Str(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// The value of bare text: a word with a meaning, a number, or the text.
fn bare(text: &str) -> Value {
    match text {
        "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    number(text).unwrap_or_else(|| Value::Str(text.to_string()))
}

/// A number, if the whole text is one by the grammar above.
fn number(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if digits(unsigned) {
        if unsigned.len() > 1 && unsigned.starts_with('0') {
            return None;
        }
        if let Ok(value) = text.parse::<i64>() {
            return Some(Value::Int(value));
        }
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_ok = (digits(whole) || whole.is_empty())
        && (digits(fraction) || fraction.is_empty())
        && !(whole.is_empty() && fraction.is_empty());
    let exponent_ok = exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e)));
    if !mantissa_ok || !exponent_ok {
        return None;
    }
    text.parse::<f64>().ok().filter(|v| v.is_finite()).map(Value::Float)
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn error(&self, reason: impl Into<String>) -> GrammarError {
        GrammarError { position: self.at, reason: reason.into() }
    }

    fn value(&mut self, depth: usize) -> Result<Value, GrammarError> {
        if depth > MAX_DEPTH {
            return Err(self.error(format!("lists and maps may nest {MAX_DEPTH} deep")));
        }
        self.blanks();
        match self.peek() {
            Some('[') => self.list(depth),
            Some('{') => self.map(depth),
            Some(quote @ ('"' | '\'')) => self.quoted(quote).map(Value::Str),
            _ => self.bare_element(&[',', ']', '}']).map(|text| bare(&text)),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, GrammarError> {
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.separator(']')? {
                return Ok(Value::List(items));
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, GrammarError> {
        self.at += 1;
        let mut items: Vec<(String, Value)> = Vec::new();
        self.blanks();
        if self.peek() == Some('}') {
            self.at += 1;
            return Ok(Value::Map(items));
        }
        loop {
            self.blanks();
            let start = self.at;
            let key = match self.peek() {
                Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
                _ => self.bare_element(&['=', ':', ',', '}', ']'])?,
            };
            if items.iter().any(|(k, _)| *k == key) {
                return Err(GrammarError { position: start, reason: format!("key `{key}` is there twice") });
            }
            self.blanks();
            if !matches!(self.peek(), Some('=' | ':')) {
                return Err(self.error(format!("`=` or `:` expected after the key `{key}`")));
            }
            self.at += 1;
            items.push((key, self.value(depth + 1)?));
            if self.separator('}')? {
                return Ok(Value::Map(items));
            }
        }
    }

    /// Consumes a comma (false) or the closing bracket (true).
    fn separator(&mut self, close: char) -> Result<bool, GrammarError> {
        self.blanks();
        match self.peek() {
            Some(',') => {
                self.at += 1;
                Ok(false)
            }
            Some(c) if c == close => {
                self.at += 1;
                Ok(true)
            }
            Some(c) => Err(self.error(format!("`,` or `{close}` expected, found `{c}`"))),
            None => Err(self.error(format!("`{close}` is missing"))),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, GrammarError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == quote {
                return Ok(text);
            }
            if c != '\\' || quote == '\'' {
                text.push(c);
                continue;
            }
            let escape = self.peek();
            self.at += 1;
            match escape {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                Some(c @ ('"' | '\\')) => text.push(c),
                Some('u') => {
                    let hex: String = self.chars.iter().skip(self.at).take(4).collect();
                    let code = u32::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 4 && !hex.starts_with('+'));
                    match code.and_then(char::from_u32) {
                        Some(c) => text.push(c),
                        None => {
                            return Err(self.error("`\\u` needs four hexadecimal digits of a character"));
                        }
                    }
                    self.at += 4;
                }
                _ => {
                    self.at -= 1;
                    return Err(self.error("unknown escape; known are \\\" \\\\ \\n \\r \\t \\uHHHH"));
                }
            }
        }
        Err(GrammarError { position: start, reason: format!("the quote {quote} is not closed") })
    }

    fn bare_element(&mut self, ends: &[char]) -> Result<String, GrammarError> {
        let start = self.at;
        while let Some(c) = self.peek().filter(|c| !ends.contains(c)) {
            if matches!(c, '[' | '{' | '"' | '\'') {
                return Err(self.error(format!("`{c}` inside bare text; put the text in quotes")));
            }
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().collect();
        let text = text.trim();
        if text.is_empty() {
            return Err(GrammarError { position: start, reason: "an element is missing here".into() });
        }
        Ok(text.to_string())
    }
}

/// Whether a text reads back as itself without quotes wherever it stands.
fn is_plain(text: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '*' | '+' | '@');
    !text.is_empty() && text.chars().all(safe) && matches!(bare(text), Value::Str(_))
}

/// Text in double quotes, with the escapes that the grammar and TOML share.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if is_plain(text) { f.write_str(text) } else { f.write_str(&quoted(text)) }
}

/// Prints a value so that [`Value::parse`] reads the same value back.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(i) => write!(f, "{i}"),
            Self::Float(x) => write!(f, "{x:?}"),
            Self::Str(s) => write_text(f, s),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str("]")
            }
            Self::Map(items) => {
                f.write_str("{")?;
                for (i, (key, item)) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write_text(f, key)?;
                    write!(f, " = {item}")?;
                }
                f.write_str("}")
            }
        }
    }
}
