//! Modifiers of an opcode. Each one must be taken by the decoder of its instruction; what is left over is an error.

use crate::num::Rounding;
use crate::num::int_cvt::IntRounding;
use crate::ptx::module::LoadError;
use crate::ptx::types::Ty;

pub(crate) struct Mods<'a> {
    opcode: &'a str,
    parts: Vec<&'a str>,
    taken: Vec<bool>,
    line: u32,
}

impl<'a> Mods<'a> {
    pub(crate) fn new(opcode: &'a str, line: u32) -> Mods<'a> {
        let parts: Vec<&str> = opcode.split('.').collect();
        let taken = vec![false; parts.len()];
        Mods { opcode, parts, taken, line }
    }

    /// The instruction's name.
    pub(crate) fn name(&mut self) -> &'a str {
        self.taken[0] = true;
        self.parts[0]
    }

    pub(crate) fn unsupported(&self, message: impl std::fmt::Display) -> LoadError {
        LoadError {
            line: self.line,
            message: format!("`{}`: {message}; the virtual device does not have this", self.opcode),
            unsupported: true,
        }
    }

    /// Takes a modifier if it is there.
    pub(crate) fn has(&mut self, word: &str) -> bool {
        for (i, p) in self.parts.iter().enumerate().skip(1) {
            if !self.taken[i] && *p == word {
                self.taken[i] = true;
                return true;
            }
        }
        false
    }

    /// Whether a modifier is there, without taking it.
    pub(crate) fn sees(&self, word: &str) -> bool {
        self.parts.iter().skip(1).any(|p| *p == word)
    }

    /// Takes the first modifier that `f` maps to something.
    pub(crate) fn find<T>(&mut self, f: impl Fn(&str) -> Option<T>) -> Option<T> {
        for (i, p) in self.parts.iter().enumerate().skip(1) {
            if !self.taken[i]
                && let Some(t) = f(p)
            {
                self.taken[i] = true;
                return Some(t);
            }
        }
        None
    }

    /// Takes any of some modifiers that change nothing here.
    pub(crate) fn ignore(&mut self, words: &[&str]) {
        for w in words {
            self.has(w);
        }
    }

    /// Takes cache and eviction hints.
    pub(crate) fn ignore_cache(&mut self) {
        let hint = |p: &str| {
            (matches!(p, "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "nc" | "no_allocate")
                || p.starts_with("L1::")
                || p.starts_with("L2::"))
            .then_some(())
        };
        while self.find(hint).is_some() {}
    }

    /// All type modifiers, in order.
    pub(crate) fn types(&mut self) -> Vec<Ty> {
        let mut out = Vec::new();
        while let Some(t) = self.find(Ty::parse) {
            out.push(t);
        }
        out
    }

    /// The only type modifier.
    pub(crate) fn ty(&mut self) -> Result<Ty, LoadError> {
        match self.types().as_slice() {
            [t] => Ok(*t),
            _ => Err(self.unsupported("exactly one type is expected")),
        }
    }

    /// Takes a floating-point rounding modifier.
    pub(crate) fn rounding(&mut self) -> Option<Rounding> {
        self.find(|p| {
            Some(match p {
                "rn" => Rounding::NearestEven,
                "rna" => Rounding::NearestAway,
                "rz" => Rounding::Zero,
                "rm" => Rounding::Down,
                "rp" => Rounding::Up,
                _ => return None,
            })
        })
    }

    /// Takes an integer rounding modifier.
    pub(crate) fn int_rounding(&mut self) -> Option<IntRounding> {
        self.find(|p| {
            Some(match p {
                "rni" => IntRounding::NearestEven,
                "rzi" => IntRounding::Zero,
                "rmi" => IntRounding::Down,
                "rpi" => IntRounding::Up,
                _ => return None,
            })
        })
    }

    /// Fails when a modifier was not taken.
    pub(crate) fn finish(&self) -> Result<(), LoadError> {
        match self.taken.iter().position(|t| !t) {
            None => Ok(()),
            Some(i) => Err(self.unsupported(format!("modifier `.{}`", self.parts[i]))),
        }
    }
}
