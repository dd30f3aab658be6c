//! Mutation sites of a PTX module: every barrier, fence, wait, commit, count, mask, descriptor field, swizzle, bound and
//! address offset, each with one or more ways to get it wrong.
//!
//! The text is mutated, line by line, as nvcc lays it out: one instruction per line. What comes out is again PTX.

/// What a mutation breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A barrier of a warp, block or cluster is removed.
    Barrier,
    /// A fence is removed.
    Fence,
    /// A wait is removed, or lets one more group be incomplete.
    Wait,
    /// The end of a group of asynchronous operations is removed.
    Commit,
    /// Arrivals, bytes or threads that a barrier counts are one off.
    Count,
    /// Lanes or blocks are missing from a mask.
    Mask,
    /// A field of a matrix descriptor differs.
    Descriptor,
    /// An address permutation is left out.
    Swizzle,
    /// A comparison includes or excludes its limit, or is inverted.
    Bound,
    /// An address or an index is off.
    Offset,
}

/// One way to break one place.
#[derive(Clone, Debug)]
pub struct Site {
    /// Line of the PTX text, from 0.
    pub line: usize,
    /// Kernel that the line belongs to.
    pub kernel: String,
    /// What breaks.
    pub kind: Kind,
    /// The line as it is.
    pub before: String,
    /// The line as it becomes.
    pub after: String,
}

/// All mutation sites of a module, in order of their lines.
pub fn sites(ptx: &str) -> Vec<Site> {
    let mut found = Vec::new();
    let mut kernel = String::new();
    for (line, text) in ptx.lines().enumerate() {
        if let Some((_, rest)) = text.split_once(".entry ") {
            kernel = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        }
        let code = text.split("//").next().unwrap_or_default();
        let trimmed = code.trim();
        if kernel.is_empty() || !trimmed.ends_with(';') || trimmed.starts_with('.') {
            continue;
        }
        for (kind, after) in mutations(code.trim_end()) {
            found.push(Site { line, kernel: kernel.clone(), kind, before: trimmed.to_string(), after });
        }
    }
    found
}

/// The module with one site broken.
pub fn mutated(ptx: &str, site: &Site) -> String {
    let mut text = String::with_capacity(ptx.len() + 64);
    for (line, old) in ptx.lines().enumerate() {
        text.push_str(if line == site.line { &site.after } else { old });
        text.push('\n');
    }
    text
}

/// One instruction taken apart.
struct Instruction<'a> {
    /// Guard with its blank, such as `@%p1 `; empty without one.
    guard: &'a str,
    opcode: &'a str,
    operands: Vec<&'a str>,
}

impl<'a> Instruction<'a> {
    fn parse(code: &'a str) -> Self {
        let code = code.trim().trim_end_matches(';').trim_end();
        let (guard, rest) = match code.strip_prefix('@').and_then(|c| c.find(char::is_whitespace)) {
            Some(end) => code.split_at(end + 2),
            None => ("", code),
        };
        let rest = rest.trim_start();
        let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        Self { guard, opcode, operands: split_operands(operands) }
    }

    fn with_operand(&self, index: usize, operand: &str) -> String {
        let mut operands = self.operands.clone();
        operands[index] = operand;
        format!("{}{} {};", self.guard, self.opcode, operands.join(", "))
    }

    fn with_opcode(&self, opcode: &str) -> String {
        format!("{}{opcode} {};", self.guard, self.operands.join(", "))
    }

    /// The instruction with an integer operand (a register or a number) `delta` larger.
    fn with_larger(&self, index: usize, delta: i64) -> String {
        let operand = self.operands[index];
        match operand.parse::<i64>() {
            Ok(number) => self.with_operand(index, &(number + delta).to_string()),
            Err(_) => format!(
                "{{ .reg .b32 larger; add.s32 larger, {operand}, {delta}; {} }}",
                self.with_operand(index, "larger")
            ),
        }
    }
}

/// Operands at the commas that are in no bracket.
fn split_operands(text: &str) -> Vec<&str> {
    let (mut operands, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                operands.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        operands.push(text[start..].trim());
    }
    operands
}

fn mutations(code: &str) -> Vec<(Kind, String)> {
    let i = Instruction::parse(code);
    let mut out = Vec::new();
    let removed = String::new;
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| i.opcode.starts_with(p));

    if starts(&["bar.", "barrier."]) {
        // Half of a split cluster barrier alone would only be refused.
        out.push((Kind::Barrier, removed()));
        if i.operands.len() == 2 {
            out.push((Kind::Count, i.with_larger(1, 32)));
        }
    } else if starts(&["fence.", "membar.", "wgmma.fence"]) {
        out.push((Kind::Fence, removed()));
    } else if starts(&["cp.async.wait_group", "cp.async.bulk.wait_group", "wgmma.wait_group"]) {
        out.push((Kind::Wait, removed()));
        out.push((Kind::Wait, i.with_larger(0, 1)));
    } else if starts(&["cp.async.commit_group", "cp.async.bulk.commit_group", "wgmma.commit_group"]) {
        out.push((Kind::Commit, removed()));
    } else if starts(&["mbarrier.init"]) {
        out.push((Kind::Count, i.with_larger(1, 1)));
        out.push((Kind::Count, i.with_larger(1, -1)));
    } else if starts(&["mbarrier.arrive.expect_tx", "mbarrier.expect_tx"]) {
        let last = i.operands.len() - 1;
        out.push((Kind::Count, i.with_larger(last, 16)));
        out.push((Kind::Count, i.with_larger(last, -16)));
    } else if starts(&["mbarrier.arrive"]) {
        out.push((Kind::Count, removed()));
    } else if starts(&["mbarrier.try_wait", "mbarrier.test_wait"]) {
        let last = i.operands.len() - 1;
        out.push((Kind::Wait, format!("{}setp.eq.u32 {}, 0, 0;", i.guard, i.operands[0])));
        out.push((
            Kind::Wait,
            format!("{{ .reg .b32 other; xor.b32 other, {}, 1; {} }}", i.operands[last], i.with_operand(last, "other")),
        ));
    } else if starts(&["shfl.sync", "vote.sync", "redux.sync", "match."]) {
        out.push((Kind::Mask, i.with_operand(i.operands.len() - 1, "0x7fffffff")));
    } else if i.opcode.contains("multicast::cluster") {
        out.push((Kind::Mask, i.with_operand(i.operands.len() - 1, "1")));
    }

    if starts(&["or.b64", "mov.b64", "mov.u64"])
        && let Some((at, bits)) = last_number(&i).filter(|(_, bits)| bits >> 61 != 0 && bits >> 63 == 0)
    {
        // The swizzle mode, and the distance between groups of eight rows.
        out.push((Kind::Descriptor, i.with_operand(at, &(bits ^ (3 << 62)).to_string())));
        out.push((Kind::Descriptor, i.with_operand(at, &(bits ^ (96 << 32)).to_string())));
    }
    if starts(&["xor.b32"]) {
        out.push((Kind::Swizzle, format!("{}mov.b32 {}, {};", i.guard, i.operands[0], i.operands[1])));
    }
    // The bits of a float, in the arithmetic of a rounding or of an exponent.
    let bits_of_float = last_number(&i).is_some_and(|(_, bits)| (bits as i64).unsigned_abs() >= 1 << 24);
    if let Some(opcode) = other_comparison(i.opcode).filter(|_| !bits_of_float) {
        out.push((Kind::Bound, i.with_opcode(&opcode)));
    }
    if starts(&["ld.global", "st.global", "ld.shared", "st.shared", "ldmatrix", "stmatrix", "atom.", "red."])
        && let Some(at) = i.operands.iter().position(|o| o.starts_with('['))
    {
        let step = access_bytes(i.opcode);
        let address = i.operands[at].trim_matches(['[', ']']);
        out.push((Kind::Offset, i.with_operand(at, &format!("[{}]", moved(address, step)))));
    }
    if starts(&["add.s32", "add.s64"])
        && !bits_of_float
        && let Some((at, bits)) = last_number(&i)
    {
        // By its lowest bit: nvcc masks away what it knows to be zero, and a matrix descriptor drops four bits.
        let delta = if bits == 0 { 1 } else { 1 << bits.trailing_zeros() };
        out.push((Kind::Offset, i.with_operand(at, &(bits as i64).wrapping_add(delta).to_string())));
    }
    out
}

/// Place and value of the last operand if it is a number.
fn last_number(i: &Instruction<'_>) -> Option<(usize, u64)> {
    let at = i.operands.len().checked_sub(1)?;
    let text = i.operands[at];
    let value = text.parse::<i64>().ok().map(|v| v as u64).or_else(|| text.parse().ok())?;
    Some((at, value))
}

/// The integer comparison with its limit included instead of excluded, or inverted for equality. Comparisons of floats
/// are no bounds, nor are those of their bits.
fn other_comparison(opcode: &str) -> Option<String> {
    let rest = opcode.strip_prefix("setp.")?;
    let (comparison, rest) = rest.split_once('.')?;
    if rest.starts_with('f') {
        return None;
    }
    let other = match comparison {
        "lt" => "le",
        "le" => "lt",
        "gt" => "ge",
        "ge" => "gt",
        "eq" => "ne",
        "ne" => "eq",
        _ => return None,
    };
    Some(format!("setp.{other}.{rest}"))
}

/// Bytes that one lane accesses.
fn access_bytes(opcode: &str) -> u64 {
    if opcode.contains("matrix") {
        return 16;
    }
    let element = opcode.rsplit('.').find_map(|part| {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        digits.parse::<u64>().ok().filter(|bits| part.len() > digits.len() && bits % 8 == 0)
    });
    let count = if opcode.contains(".v4") { 4 } else { 1 + u64::from(opcode.contains(".v2")) };
    element.unwrap_or(32) / 8 * count
}

/// An address expression `register` or `register+number`, moved by some bytes.
fn moved(address: &str, bytes: u64) -> String {
    match address.split_once('+').and_then(|(base, n)| Some((base, n.parse::<i64>().ok()?))) {
        Some((base, offset)) => format!("{base}+{}", offset + bytes as i64),
        None => format!("{address}+{bytes}"),
    }
}
