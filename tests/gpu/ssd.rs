//! The chunked scan.

use super::compare::{Bound, Case, check_with_gaps, fresh};
use super::support::random::Random;
use super::support::unit::Unit;
use lightning_core::ops::{SsdScanBwd, SsdScanFwd, SsdShape};
use std::collections::BTreeMap;

/// A scan with random operands.
#[derive(Clone)]
pub struct Scan {
    pub shape: SsdShape,
    pub rows: usize,
    pub offsets: Vec<i32>,
    /// A state comes in and goes out.
    pub with_state: bool,
    pub accumulate: bool,
    pub values: BTreeMap<&'static str, Vec<f64>>,
}

/// (heads, head dim, state, groups, chunk, row length)
pub type Sizes = (usize, usize, usize, usize, usize, usize);

impl Scan {
    /// Time steps are uniform up to `steps`.
    pub fn new(rng: &mut Random, sizes: Sizes, rows: usize, offsets: Vec<i32>, steps: f64) -> Self {
        let (heads, head_dim, state, groups, chunk, row_len) = sizes;
        let shape = SsdShape { heads, head_dim, state, groups, chunk, row_len };
        let (t, all) = (rows * row_len, shape.state_elements());
        let (inner, bc) = (heads * head_dim, groups * state);
        let mut values = BTreeMap::new();
        for (name, n) in [("x", t * inner), ("b", t * bc), ("c", t * bc), ("dy", t * inner), ("d", heads)] {
            values.insert(name, rng.normals(n, 1.0));
        }
        for name in ["state_in", "dstate_out"] {
            values.insert(name, rng.normals(rows * all, 1.0));
        }
        values.insert("delta", rng.uniforms(t * heads, 0.01, steps));
        values.insert("a_log", rng.uniforms(heads, -1.0, 1.0));
        Self { shape, rows, offsets, with_state: rng.chance(0.5), accumulate: rng.chance(0.5), values }
    }

    pub fn tokens(&self) -> usize {
        self.rows * self.shape.row_len
    }

    /// Operands on a unit.
    pub fn ops(&self, u: &mut Unit) -> (SsdScanFwd, SsdScanBwd) {
        let (s, t, rows) = (self.shape, self.tokens(), self.rows);
        let (inner, bc, all) = (s.heads * s.head_dim, s.groups * s.state, s.state_elements());
        let v = |name: &str| &self.values[name][..];
        let (start, end) = u.bounds(t, s.row_len, &self.offsets);
        let fwd = SsdScanFwd {
            shape: s,
            x: u.act(t, inner, v("x")),
            b: u.act(t, bc, v("b")),
            c: u.act(t, bc, v("c")),
            delta: u.acc(t, s.heads, v("delta")),
            a_log: u.acc(1, s.heads, v("a_log")),
            d: u.acc(1, s.heads, v("d")),
            start,
            end,
            state_in: self.with_state.then(|| u.acc(rows, all, v("state_in"))),
            y: u.out(t, inner),
            states: u.out_acc(rows * s.chunks(), all),
            state_out: self.with_state.then(|| u.out_acc(rows, all)),
        };
        let bwd = SsdScanBwd {
            fwd: fwd.clone(),
            dy: u.act(t, inner, v("dy")),
            dstate_out: self.with_state.then(|| u.acc(rows, all, v("dstate_out"))),
            dx: u.out(t, inner),
            db: u.out(t, bc),
            dc: u.out(t, bc),
            ddelta: u.out_acc(t, s.heads),
            da_log: u.gradient(1, s.heads, self.accumulate),
            dd: u.gradient(1, s.heads, self.accumulate),
            accumulate: self.accumulate,
            dstate_in: self.with_state.then(|| u.out_acc(rows, all)),
            partial_a: u.out_acc(rows.max(1), s.heads),
            partial_d: u.out_acc(rows.max(1), s.heads),
        };
        (fwd, bwd)
    }

    /// Against the CPU device, at the given gaps between rows.
    pub fn check(&self, gaps: &[usize]) {
        let what =
            format!("{:?} x {}, documents at {:?}, states {}", self.shape, self.rows, self.offsets, self.with_state);
        check_with_gaps(&what, gaps, |u| {
            let (fwd, bwd) = self.ops(u);
            let mut results = vec![
                ("y", fwd.y, Bound::Value),
                ("states", fwd.states, Bound::Value),
                ("dx", bwd.dx, Bound::Gradient),
                ("db", bwd.db, Bound::Gradient),
                ("dc", bwd.dc, Bound::Gradient),
                ("ddelta", bwd.ddelta, Bound::Decay),
                ("da_log", bwd.da_log, Bound::Decay),
                ("dd", bwd.dd, Bound::Gradient),
            ];
            results.extend(fwd.state_out.map(|t| ("state_out", t, Bound::Value)));
            results.extend(bwd.dstate_in.map(|t| ("dstate_in", t, Bound::Gradient)));
            Case { ops: vec![fwd.into(), bwd.into()], results }
        });
    }
}

#[test]
fn ssd_scan() {
    let mut rng = fresh("ssd_scan");
    for (rows, sizes) in [
        (1, (1, 1, 1, 1, 1, 1)),
        (0, (2, 3, 2, 1, 4, 5)),
        (1, (2, 3, 2, 1, 4, 13)),
        (2, (4, 5, 7, 2, 8, 17)),
        (3, (2, 16, 16, 2, 16, 16)),
        (1, (2, 65, 66, 1, 65, 131)),
        (1, (1, 80, 130, 1, 256, 70)),
    ] {
        let (_, _, _, _, _, row_len) = sizes;
        let count = rows + 2;
        let offsets = rng.offsets(rows * row_len, count);
        Scan::new(&mut rng, sizes, rows, offsets, 1.0).check(&[0, 8, 1]);
    }
}
