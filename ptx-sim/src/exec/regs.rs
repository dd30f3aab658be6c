//! Registers of a warp: rows of 32 lanes.

use crate::ptx::program::{File, Slot};

/// All lanes.
pub(crate) const FULL: u32 = u32::MAX;

/// The three register files of one warp.
#[derive(Default)]
pub(crate) struct Regs {
    pub(crate) r: Vec<[u32; 32]>,
    pub(crate) q: Vec<[u64; 32]>,
    pub(crate) p: Vec<u32>,
}

/// A row from a function of the lane. Unlike `array::from_fn` it is always inlined, so that the function is compiled
/// for the caller's vector instructions.
#[inline(always)]
pub(crate) fn row<T: Copy + Default>(f: impl Fn(usize) -> T) -> [T; 32] {
    let mut v = [T::default(); 32];
    let mut l = 0;
    while l < 32 {
        v[l] = f(l);
        l += 1;
    }
    v
}

/// The set bits of a lane mask, lowest first.
#[inline(always)]
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut m = mask;
    std::iter::from_fn(move || {
        if m == 0 {
            return None;
        }
        let l = m.trailing_zeros() as usize;
        m &= m - 1;
        Some(l)
    })
}

impl Regs {
    /// Sizes the files. Contents stay: a program that reads what it never wrote is undefined.
    pub(crate) fn reset(&mut self, r: usize, q: usize, p: usize) {
        self.r.resize(r, [0; 32]);
        self.q.resize(q, [0; 32]);
        self.p.resize(p, 0);
    }

    #[inline(always)]
    pub(crate) fn r32(&self, s: Slot) -> &[u32; 32] {
        &self.r[s.index()]
    }

    #[inline(always)]
    pub(crate) fn r64(&self, s: Slot) -> &[u64; 32] {
        &self.q[s.index()]
    }

    /// A predicate as a lane mask; no predicate is true.
    #[inline(always)]
    pub(crate) fn pred(&self, s: Slot) -> u32 {
        if s.is_none() {
            return FULL;
        }
        let v = self.p[s.index()];
        if s.negated() { !v } else { v }
    }

    /// Value of one lane, zero extended; 0 for no register.
    #[inline(always)]
    pub(crate) fn get(&self, s: Slot, lane: usize) -> u64 {
        if s.is_none() {
            return 0;
        }
        match s.file() {
            File::R32 => self.r[s.index()][lane] as u64,
            File::R64 => self.q[s.index()][lane],
            File::Pred => (self.pred(s) >> lane & 1) as u64,
        }
    }

    /// Sets one lane; nothing for no register.
    #[inline(always)]
    pub(crate) fn set(&mut self, s: Slot, lane: usize, v: u64) {
        if s.is_none() {
            return;
        }
        match s.file() {
            File::R32 => self.r[s.index()][lane] = v as u32,
            File::R64 => self.q[s.index()][lane] = v,
            File::Pred => {
                let p = &mut self.p[s.index()];
                *p = *p & !(1 << lane) | ((v != 0) as u32) << lane;
            }
        }
    }

    /// All lanes of any register, zero extended.
    #[inline(always)]
    pub(crate) fn wide(&self, s: Slot) -> [u64; 32] {
        if s.is_none() {
            return [0; 32];
        }
        match s.file() {
            File::R32 => {
                let a = &self.r[s.index()];
                row(|l| a[l] as u64)
            }
            File::R64 => self.q[s.index()],
            File::Pred => {
                let v = self.pred(s);
                row(|l| (v >> l & 1) as u64)
            }
        }
    }

    #[inline(always)]
    pub(crate) fn put32(&mut self, s: Slot, mask: u32, v: &[u32; 32]) {
        if s.is_none() {
            return;
        }
        let d = &mut self.r[s.index()];
        if mask == FULL {
            *d = *v;
        } else {
            for l in 0..32 {
                d[l] = if mask >> l & 1 == 1 { v[l] } else { d[l] };
            }
        }
    }

    #[inline(always)]
    pub(crate) fn put64(&mut self, s: Slot, mask: u32, v: &[u64; 32]) {
        if s.is_none() {
            return;
        }
        let d = &mut self.q[s.index()];
        if mask == FULL {
            *d = *v;
        } else {
            for l in 0..32 {
                d[l] = if mask >> l & 1 == 1 { v[l] } else { d[l] };
            }
        }
    }

    #[inline(always)]
    pub(crate) fn put_pred(&mut self, s: Slot, mask: u32, v: u32) {
        if s.is_none() {
            return;
        }
        let d = &mut self.p[s.index()];
        *d = *d & !mask | v & mask;
    }

    /// Sets the masked lanes of any register.
    #[inline(always)]
    pub(crate) fn put_wide(&mut self, s: Slot, mask: u32, v: &[u64; 32]) {
        if s.is_none() {
            return;
        }
        match s.file() {
            File::R32 => {
                let n: [u32; 32] = row(|l| v[l] as u32);
                self.put32(s, mask, &n);
            }
            File::R64 => self.put64(s, mask, v),
            File::Pred => {
                let mut bits = 0;
                for (l, x) in v.iter().enumerate() {
                    bits |= ((*x != 0) as u32) << l;
                }
                self.put_pred(s, mask, bits);
            }
        }
    }
}
