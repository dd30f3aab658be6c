//! Planted faults: every place of a PTX text where a small change would make a kernel wrong, and a seeded sampler.
//!
//! A mutant differs from its original in one instruction. Whether it is found by a check, found by a wrong value or
//! survives is for the caller to run; [`sites`] only says what can be changed and [`Site::apply`] changes it.

use crate::ptx::lexer::tokenize;
use crate::ptx::module::LoadError;

/// Kind of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MutationKind {
    /// A block or cluster barrier is dropped.
    DropBarrier,
    /// A memory or proxy fence is dropped.
    DropFence,
    /// A wait for asynchronous work is dropped or waits for less.
    RelaxWait,
    /// An arrival or a commit is dropped.
    DropArrival,
    /// A count (arrivals, threads, transaction bytes) is changed.
    Count,
    /// A lane mask is changed.
    Mask,
    /// A swizzle or descriptor constant is changed.
    Descriptor,
    /// A comparison that bounds something is changed.
    Bound,
    /// A constant address offset is changed.
    Offset,
    /// A bit of a phase is inverted.
    Phase,
}

/// One possible change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// Kind of the fault.
    pub kind: MutationKind,
    /// The line as it is.
    pub original: String,
    /// The line as the mutant has it.
    pub replacement: String,
}

impl Site {
    /// The text with this change.
    pub fn apply(&self, ptx: &str) -> String {
        let mut out = String::with_capacity(ptx.len() + 16);
        for (i, l) in ptx.lines().enumerate() {
            out += if i as u32 + 1 == self.line { &self.replacement } else { l };
            out.push('\n');
        }
        out
    }
}

/// All mutation sites of a text, in order of their lines. Only instructions that stand alone on a line are changed,
/// which is how compilers print them.
///
/// # Errors
/// When the text is not even a sequence of tokens.
pub fn sites(ptx: &str) -> Result<Vec<Site>, LoadError> {
    tokenize(ptx)?;
    let mut out = Vec::new();
    for (i, line) in ptx.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        let t = code.trim();
        if !t.ends_with(';') || t.matches(';').count() != 1 || t.starts_with('.') {
            continue;
        }
        let (guard, body) = match t.strip_prefix('@') {
            Some(_) => match t.split_once(char::is_whitespace) {
                Some((g, b)) => (format!("{g} "), b.trim()),
                None => continue,
            },
            None => (String::new(), t),
        };
        let opcode = body.split([' ', '\t', ';']).next().unwrap_or("");
        if opcode.is_empty() || opcode.ends_with(':') {
            continue;
        }
        let mut add = |kind: MutationKind, replacement: String| {
            out.push(Site { line: i as u32 + 1, kind, original: line.to_string(), replacement });
        };
        changes(opcode, body, &guard, &mut add);
    }
    Ok(out)
}

fn changes(opcode: &str, body: &str, guard: &str, add: &mut dyn FnMut(MutationKind, String)) {
    use MutationKind::*;
    let mods: Vec<&str> = opcode.split('.').collect();
    let has = |w: &str| mods.contains(&w);
    let drop = String::new;
    let edit = |from: &str, to: &str| format!("\t{guard}{}", body.replacen(from, to, 1));
    match mods[0] {
        "bar" | "barrier" if has("warp") => add(DropBarrier, drop()),
        "bar" | "barrier" => {
            add(DropBarrier, drop());
            if let Some((v, range)) = last_integer(body)
                && body[opcode.len()..].contains(',')
                && v >= 64
            {
                add(Count, splice(guard, body, range, &(v - 32).to_string()));
            }
        }
        "fence" | "membar" => add(DropFence, drop()),
        "wgmma" if has("fence") => add(DropFence, drop()),
        "cp" | "wgmma" if has("wait_group") => {
            if let Some((v, range)) = last_integer(body) {
                add(RelaxWait, splice(guard, body, range, &v.wrapping_add(1).to_string()));
            }
            add(RelaxWait, drop());
        }
        "cp" | "wgmma" if has("wait_all") => add(RelaxWait, drop()),
        "cp" | "wgmma" if has("commit_group") => add(DropArrival, drop()),
        "cp" if has("bulk") => {}
        "wgmma" => {}
        "mbarrier" if has("init") => {
            if let Some((v, range)) = last_integer(body) {
                add(Count, splice(guard, body, range.clone(), &v.wrapping_add(1).to_string()));
                if v > 1 {
                    add(Count, splice(guard, body, range, &(v - 1).to_string()));
                }
            }
        }
        "mbarrier" if has("arrive") || has("arrive_drop") => {
            if has("expect_tx")
                && let Some((v, range)) = last_integer(body)
            {
                add(Count, splice(guard, body, range.clone(), &v.wrapping_add(16).to_string()));
                add(Count, splice(guard, body, range, &(v.saturating_sub(16)).to_string()));
            }
            add(DropArrival, drop());
        }
        "shfl" | "vote" | "redux" | "match" => {
            if body.contains(", -1;") {
                add(Mask, edit(", -1;", ", 65535;"));
            }
            if mods[0] == "shfl"
                && let Some(r) = nth_operand(body, 2)
                && let Ok(v) = body[r.clone()].trim().parse::<u32>()
            {
                add(Offset, splice(guard, body, r, &format!(" {}", v ^ 1)));
            }
        }
        "setp" => {
            for (a, b) in [("lt", "le"), ("le", "lt"), ("gt", "ge"), ("ge", "gt"), ("eq", "ne"), ("ne", "eq")] {
                if has(a) {
                    add(Bound, edit(&format!(".{a}."), &format!(".{b}.")));
                    break;
                }
            }
        }
        "ld" | "st" | "ldmatrix" | "stmatrix" | "atom" | "red" if !has("param") => {
            if let Some((a, b)) = body.find('[').and_then(|a| Some((a, a + body[a..].find(']')?))) {
                let inside = &body[a + 1..b];
                let wide = if has("v4") {
                    16
                } else if has("v2") {
                    8
                } else {
                    4
                };
                let (base, off) = match inside.split_once('+') {
                    Some((x, y)) => (x, y.trim().parse::<i64>().unwrap_or(0)),
                    None => (inside, 0),
                };
                if base.starts_with('%') {
                    add(
                        Offset,
                        format!("\t{guard}{}[{base}+{}]{}", &body[..a], off.wrapping_add(wide), &body[b + 1..]),
                    );
                }
            }
        }
        "or" | "and" | "xor" | "add" | "shl" | "shr" | "mul" | "mad" => {
            let Some((v, range)) = last_integer(body) else {
                return;
            };
            let wide = mods.iter().any(|m| m.ends_with("64"));
            if wide && mods[0] == "or" && v.count_ones() <= 6 && v >> 32 != 0 {
                add(Descriptor, splice(guard, body, range, &((v ^ 1 << 62) as i64).to_string()));
            } else if mods[0] == "xor" && v == 1 {
                add(Phase, splice(guard, body, range, "0"));
            } else if mods[0] == "add" {
                add(Offset, splice(guard, body, range, &(v as i64).wrapping_add(16).to_string()));
            } else if matches!(mods[0], "and" | "or" | "xor") && v > 1 {
                add(Mask, splice(guard, body, range, &((v & (v - 1)) as i64).to_string()));
            } else if matches!(mods[0], "shl" | "shr") && v > 0 {
                add(Offset, splice(guard, body, range, &(v - 1).to_string()));
            }
        }
        _ => {}
    }
}

fn splice(guard: &str, body: &str, range: std::ops::Range<usize>, with: &str) -> String {
    format!("\t{guard}{}{with}{}", &body[..range.start], &body[range.end..])
}

/// The integer that ends a statement, with its place.
fn last_integer(body: &str) -> Option<(u64, std::ops::Range<usize>)> {
    let end = body.rfind(';')?;
    let start = body[..end].rfind([',', ' ', '\t'])? + 1;
    let word = body[start..end].trim();
    let v = word.parse::<u64>().ok().or_else(|| word.parse::<i64>().ok().map(|v| v as u64))?;
    Some((v, start..end))
}

/// Place of the n-th operand, split at top-level commas.
fn nth_operand(body: &str, n: usize) -> Option<std::ops::Range<usize>> {
    let start = body.find([' ', '\t'])?;
    let mut depth = 0i32;
    let mut at = 0;
    let mut from = start;
    for (i, c) in body.char_indices().skip_while(|(i, _)| *i < start) {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' | ';' if depth == 0 => {
                if at == n {
                    return Some(from..i);
                }
                at += 1;
                from = i + 1;
            }
            _ => {}
        }
    }
    None
}

/// A seeded sample of `count` sites without repetition, spread over the kinds.
pub fn sample(all: &[Site], seed: u64, count: usize) -> Vec<Site> {
    let mut random = crate::exec::Random::new(seed);
    let mut kinds: Vec<MutationKind> = all.iter().map(|s| s.kind).collect();
    kinds.sort();
    kinds.dedup();
    let mut pools: Vec<Vec<&Site>> = kinds.iter().map(|k| all.iter().filter(|s| s.kind == *k).collect()).collect();
    let mut out = Vec::new();
    while out.len() < count && pools.iter().any(|p| !p.is_empty()) {
        for p in &mut pools {
            if !p.is_empty() && out.len() < count {
                out.push(p.swap_remove(random.below(p.len())).clone());
            }
        }
    }
    out
}
