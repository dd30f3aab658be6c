//! `printf` and device assertions.

use super::memory_ops::local_offset;
use super::regs::lanes;
use super::run::Flow;
use super::step::window;
use super::unit::{Step, Unit, stop};
use super::warp::Warp;
use crate::check::fault::FaultKind;
use crate::ptx::program::Addr;
use crate::ptx::types::Space;
use std::fmt::Write;

/// Characters kept of one string.
const MAX_STRING: usize = 4096;

impl Unit<'_> {
    /// Reads `n` bytes at a generic address on behalf of a lane.
    fn generic_bytes(&mut self, w: &mut Warp, lane: usize, address: u64, n: usize) -> Step<Vec<u8>> {
        let (space, at) = window(address);
        let mut out = vec![0u8; n];
        match space {
            Space::Local => {
                let at = local_offset(w, lane, at, n)?;
                out.copy_from_slice(&w.local[at..at + n]);
            }
            Space::Shared => {
                let (rank, at) = self.shared_address(at, Space::Shared)?;
                self.shared_bounds(rank, at, n)?;
                out.copy_from_slice(&self.ctas[rank].shared[at..at + n]);
            }
            Space::Param => match self.env.params.get(at as usize..at as usize + n) {
                Some(p) => out.copy_from_slice(p),
                None => {
                    return stop(FaultKind::OutOfBounds, format!("offset {at} of the parameters"));
                }
            },
            _ => {
                for (i, b) in out.iter_mut().enumerate() {
                    let l = match self.env.view.locate(address + i as u64, 1, &mut w.last_range) {
                        Ok(l) => l,
                        Err(e) => return Err(super::memory_ops::memory_fault(e)),
                    };
                    // SAFETY: `locate` checked the byte.
                    *b = unsafe { *l.ptr };
                }
            }
        }
        Ok(out)
    }

    fn generic_string(&mut self, w: &mut Warp, lane: usize, address: u64) -> Step<String> {
        let mut s = Vec::new();
        while s.len() < MAX_STRING {
            let b = self.generic_bytes(w, lane, address + s.len() as u64, 1)?[0];
            if b == 0 {
                break;
            }
            s.push(b);
        }
        Ok(String::from_utf8_lossy(&s).into_owned())
    }

    fn argument(&mut self, w: &mut Warp, lane: usize, a: &Addr) -> Step<u64> {
        let at = self.lane_address(w, a, lane);
        let at = local_offset(w, lane, at, 8)?;
        let mut b = [0u8; 8];
        b.copy_from_slice(&w.local[at..at + 8]);
        Ok(u64::from_le_bytes(b))
    }

    pub(crate) fn printf(&mut self, c: usize, w: &mut Warp, m: u32, args: &[Addr], ret: Option<&Addr>) -> Step<()> {
        let _ = c;
        for l in lanes(m) {
            let format = self.argument(w, l, &args[0])?;
            let values = self.argument(w, l, &args[1])?;
            let format = self.generic_string(w, l, format)?;
            let text = self.format(w, l, &format, values)?;
            self.printed += &text;
            if let Some(r) = ret {
                let at = self.lane_address(w, r, l);
                let at = local_offset(w, l, at, 4)?;
                w.local[at..at + 4].copy_from_slice(&(text.len() as i32).to_le_bytes());
            }
        }
        self.progress += 1;
        Ok(())
    }

    /// C formatting with arguments in a buffer: integers of 4 or 8 bytes, floats as doubles, aligned to their size.
    fn format(&mut self, w: &mut Warp, lane: usize, format: &str, mut at: u64) -> Step<String> {
        let mut out = String::new();
        let mut it = format.chars().peekable();
        while let Some(ch) = it.next() {
            if ch != '%' {
                out.push(ch);
                continue;
            }
            let mut flags = String::new();
            while let Some(f) = it.next_if(|x| "-+ #0".contains(*x)) {
                flags.push(f);
            }
            let mut next = |unit: &mut Self, w: &mut Warp, n: u64| -> Step<u64> {
                at = at.div_ceil(n) * n;
                let b = unit.generic_bytes(w, lane, at, n as usize)?;
                at += n;
                let mut v = [0u8; 8];
                v[..b.len()].copy_from_slice(&b);
                Ok(u64::from_le_bytes(v))
            };
            let mut number = |it: &mut std::iter::Peekable<std::str::Chars<'_>>,
                              unit: &mut Self,
                              w: &mut Warp|
             -> Step<Option<usize>> {
                if it.next_if(|x| *x == '*').is_some() {
                    return Ok(Some((next(unit, w, 4)? as u32 as i32).unsigned_abs().min(1000) as usize));
                }
                let mut v = None;
                while let Some(d) = it.next_if(char::is_ascii_digit) {
                    v = Some((v.unwrap_or(0) * 10 + d as usize - '0' as usize).min(1000));
                }
                Ok(v)
            };
            let width = number(&mut it, self, w)?.unwrap_or(0);
            let precision =
                if it.next_if(|x| *x == '.').is_some() { Some(number(&mut it, self, w)?.unwrap_or(0)) } else { None };
            let mut wide = false;
            while let Some(x) = it.next_if(|x| "hlzjtL".contains(*x)) {
                wide |= x != 'h';
            }
            let Some(kind) = it.next() else { break };
            let n = if wide { 8 } else { 4 };
            let mut body = match kind {
                '%' => "%".to_string(),
                'd' | 'i' => {
                    let v = next(self, w, n)?;
                    let v = if wide { v as i64 } else { v as u32 as i32 as i64 };
                    if flags.contains('+') && v >= 0 { format!("+{v}") } else { v.to_string() }
                }
                'u' => next(self, w, n)?.to_string(),
                'x' | 'X' | 'o' => {
                    let v = next(self, w, n)?;
                    match (kind, flags.contains('#') && v != 0) {
                        ('x', false) => format!("{v:x}"),
                        ('x', true) => format!("0x{v:x}"),
                        ('X', false) => format!("{v:X}"),
                        ('X', true) => format!("0X{v:X}"),
                        (_, false) => format!("{v:o}"),
                        (_, true) => format!("0{v:o}"),
                    }
                }
                'p' => format!("{:#x}", next(self, w, 8)?),
                'c' => char::from(next(self, w, 4)? as u8).to_string(),
                's' => {
                    let a = next(self, w, 8)?;
                    self.generic_string(w, lane, a)?
                }
                'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'a' => {
                    let v = f64::from_bits(next(self, w, 8)?);
                    let p = precision.unwrap_or(6);
                    match kind {
                        'e' | 'E' => exponent(v, p),
                        'g' | 'G' => general(v, p),
                        _ => format!("{v:.p$}"),
                    }
                }
                other => {
                    return stop(FaultKind::IllegalInstruction, format!("printf conversion %{other} is not known"));
                }
            };
            if kind == 's'
                && let Some(p) = precision
            {
                body = body.chars().take(p).collect();
            }
            if flags.contains('-') {
                let _ = write!(out, "{body:<width$}");
            } else if flags.contains('0') && !matches!(kind, 's' | 'c') {
                let (sign, digits) = match body.strip_prefix(['-', '+']) {
                    Some(d) => (&body[..1], d),
                    None => ("", body.as_str()),
                };
                let pad = width.saturating_sub(sign.len());
                let _ = write!(out, "{sign}{digits:0>pad$}");
            } else {
                let _ = write!(out, "{body:>width$}");
            }
        }
        Ok(out)
    }

    pub(crate) fn assert_failed(&mut self, c: usize, w: &mut Warp, m: u32, args: &[Addr]) -> Step<Flow> {
        let l = m.trailing_zeros() as usize;
        let message = self.argument(w, l, &args[0])?;
        let file = self.argument(w, l, &args[1])?;
        let at = self.lane_address(w, &args[2], l);
        let at = local_offset(w, l, at, 4)?;
        let line = u32::from_le_bytes([w.local[at], w.local[at + 1], w.local[at + 2], w.local[at + 3]]);
        let message = self.generic_string(w, l, message)?;
        let file = self.generic_string(w, l, file)?;
        let _ = c;
        stop(FaultKind::Trap, format!("assertion `{message}` failed at {file}:{line} (lane {l})"))
    }
}

/// `%e`: at least two digits of exponent.
fn exponent(v: f64, p: usize) -> String {
    let s = format!("{v:.p$e}");
    match s.split_once('e') {
        Some((m, e)) => {
            let (sign, digits) = match e.strip_prefix('-') {
                Some(d) => ('-', d),
                None => ('+', e),
            };
            format!("{m}e{sign}{digits:0>2}")
        }
        None => s,
    }
}

/// `%g`
fn general(v: f64, p: usize) -> String {
    let p = p.max(1);
    if v == 0.0 || !v.is_finite() {
        return format!("{v}");
    }
    let e = v.abs().log10().floor() as i32;
    let trim = |s: String| {
        if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').to_string() } else { s }
    };
    if e < -4 || e >= p as i32 {
        let s = exponent(v, p - 1);
        match s.split_once('e') {
            Some((m, x)) => format!("{}e{x}", trim(m.to_string())),
            None => s,
        }
    } else {
        trim(format!("{v:.*}", (p as i32 - 1 - e).max(0) as usize))
    }
}
