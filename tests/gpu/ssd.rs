//! The chunked scan.

use super::compare::{Bound, Case, check_naive, check_with_gaps, device, fresh, real_tokens};
use super::support::assert_close;
use super::support::random::Random;
use super::support::unit::Unit;
use lightning_core::gpu::Execution;
use lightning_core::ops::{SoftplusDtBwd, SoftplusDtFwd, SsdScanBwd, SsdScanFwd, SsdShape};
use lightning_core::program::Op;
use lightning_core::tensor::DType;
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
            // A mean, so that the gradient of A_log is no sum that cancels: its relative error would mean nothing.
            values.insert(name, rng.normals(n, 1.0).into_iter().map(|v| v + 0.5).collect());
        }
        for name in ["state_in", "dstate_out"] {
            values.insert(name, rng.normals(rows * all, 1.0).into_iter().map(|v| v + 0.5).collect());
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

    /// The operations and what is compared.
    fn case(&self, u: &mut Unit) -> Case {
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
    }

    fn label(&self) -> String {
        format!("{:?} x {}, documents at {:?}, states {}", self.shape, self.rows, self.offsets, self.with_state)
    }

    /// Against the CPU device, at the given gaps between rows.
    pub fn check(&self, gaps: &[usize]) {
        check_with_gaps(&self.label(), gaps, |u| self.case(u));
    }

    /// The tokens `first .. last` of a scan of one row, as a scan of their own.
    fn part(&self, first: usize, last: usize) -> Self {
        let mut part = self.clone();
        for (name, values) in &mut part.values {
            if ["x", "b", "c", "dy", "delta"].contains(name) {
                let cols = values.len() / self.tokens();
                *values = values[first * cols..last * cols].to_vec();
            }
        }
        (part.shape.row_len, part.offsets) = (last - first, vec![0]);
        part
    }

    /// Results on the GPU device.
    fn run(&self) -> BTreeMap<&'static str, Vec<f64>> {
        let mut u = Unit::new(DType::BF16);
        u.rounding = Some(DType::BF16);
        let case = self.case(&mut u);
        let mut gpu = device(&u, case.ops, Execution::Launches);
        gpu.run(&u);
        case.results.iter().map(|(name, t, _)| (*name, gpu.get(*t))).collect()
    }
}

#[test]
fn ssd_scan() {
    let mut rng = fresh("ssd_scan");
    // The kernels round operands to bf16 where the CPU device does not, so that few numbers can be off by more than the
    // bounds, which are those of many: small shapes have many rows.
    for (rows, sizes) in [
        (300, (1, 1, 1, 1, 1, 1)),
        (0, (2, 3, 2, 1, 4, 5)),
        (12, (2, 7, 6, 1, 4, 13)),
        (5, (4, 5, 7, 2, 8, 17)),
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

/// The naive kernels take the recurrence token by token.
#[test]
fn ssd_scan_equals_the_recurrence() {
    let mut rng = fresh("ssd_scan_equals_the_recurrence");
    for with_state in [false, true] {
        let mut scan = Scan::new(&mut rng, (4, 3, 5, 2, 8, 19), 2, vec![0, 3, 3, 4, 19, 21], 1.0);
        scan.with_state = with_state;
        check_naive(&scan.label(), |u| {
            let mut case = scan.case(u);
            // Both are rounded, so the bound of a value against a reference is too tight for their difference.
            for (_, _, bound) in &mut case.results {
                *bound = if *bound == Bound::Value { Bound::Gradient } else { *bound };
            }
            case
        });
    }
}

/// Lengths around tiles and chunks, with decays that underflow: no number is NaN (pitfall B51; kernels.md §3, rows 3, 6).
#[test]
fn b51_row03_row06_lengths_that_are_no_multiple_of_the_chunk() {
    let mut rng = fresh("b51");
    for length in [1, 63, 64, 65, 127, 128, 129, 255, 257] {
        let rows = if length == 1 { 60 } else { 2 };
        let mut scan = Scan::new(&mut rng, (1, 4, 8, 1, 128, length), rows, vec![0], 0.5);
        scan.check(&[0]);
        // delta a down to -160 in one step: what it multiplies would be infinite above the diagonal.
        scan.values.insert("a_log", vec![4.0]);
        scan.values.insert("delta", rng.uniforms(rows * length, 0.5, 3.0));
        for (name, values) in scan.run() {
            assert!(values.iter().all(|v| v.is_finite()), "length {length}: {name}");
        }
        scan.shape.chunk = 64;
        check_outputs(&scan);
    }
}

/// Only the results that have size left when every token forgets all before it.
fn check_outputs(scan: &Scan) {
    check_with_gaps(&scan.label(), &[0], |u| {
        let mut case = scan.case(u);
        case.results.retain(|(name, _, _)| ["y", "dx", "db", "dc", "dd"].contains(name));
        case
    });
}

/// Time steps with a bias before a scan of a ragged length: the missing tokens of the last tile, for which softplus of the
/// bias is not 0, take no part (kernels.md §3, row 4).
#[test]
fn row04_ragged_tail_with_a_bias() {
    let mut rng = fresh("row04");
    for (length, rows) in [(1, 40), (66, 2), (129, 1)] {
        let scan = Scan::new(&mut rng, (3, 4, 8, 1, 64, length), rows, vec![0], 0.5);
        let (t, heads) = (length * rows, scan.shape.heads);
        let (raw, bias) = (rng.normals(t * heads, 1.0), rng.uniforms(heads, 1.0, 3.0));
        check_with_gaps(&format!("{length} tokens"), &[0], |u| {
            let mut case = scan.case(u);
            let (raw, bias) = (u.act(t, heads, &raw), u.acc(1, heads, &bias));
            let (draw, dbias) = (u.out(t, heads), u.gradient(1, heads, false));
            let partial = u.out_acc(SoftplusDtBwd::partial_rows(t), heads);
            let (delta, ddelta) = match &case.ops[1] {
                Op::SsdScanBwd(bwd) => (bwd.fwd.delta, bwd.ddelta),
                other => panic!("{} is no scan", other.name()),
            };
            let dt_min = 0.0;
            case.ops.insert(0, SoftplusDtFwd { raw, bias, dt_min, delta }.into());
            case.ops.push(SoftplusDtBwd { ddelta, raw, bias, dt_min, draw, dbias, accumulate: false, partial }.into());
            case.results.extend([("draw", draw, Bound::Decay), ("dbias", dbias, Bound::Decay)]);
            case
        });
    }
}

/// A pack gives what its documents give alone, forward and backward, for every operand (pitfall B52; kernels.md §3, row 8);
/// documents start inside of chunks (pitfall B58).
#[test]
fn b52_b58_row08_a_pack_is_its_documents() {
    let mut rng = fresh("b52");
    for (sizes, cuts) in [
        ((4, 3, 5, 2, 8, 41), vec![0, 1, 5, 17, 30]),
        ((2, 8, 16, 1, 128, 300), vec![0, 65, 190, 191]),
        ((1, 4, 6, 1, 128, 2100), vec![0, 500, 1200]),
    ] {
        let mut offsets = cuts.clone();
        offsets.insert(2, cuts[2]);
        let mut packed = Scan::new(&mut rng, sizes, 1, offsets, 0.3);
        (packed.with_state, packed.accumulate) = (false, false);
        packed.check(&[0]);
        let whole = packed.run();
        let mut separate: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let ends = cuts.iter().skip(1).map(|c| *c as usize).chain([packed.tokens()]);
        for (first, last) in cuts.iter().map(|c| *c as usize).zip(ends) {
            for (name, values) in packed.part(first, last).run() {
                match separate.get_mut(name) {
                    Some(sum) if ["da_log", "dd"].contains(&name) => {
                        sum.iter_mut().zip(values).for_each(|(s, v)| *s += v)
                    }
                    Some(all) => all.extend(values),
                    None => drop(separate.insert(name, values)),
                }
            }
        }
        // States are kept at the chunks of the row, which those of a document alone are not.
        separate.remove("states");
        for (name, want) in separate {
            let bound = if ["da_log", "ddelta"].contains(&name) { 5e-2 } else { 1e-2 };
            assert_close(&format!("{} {name}", packed.label()), &whole[name], &want, bound);
        }
    }
}

/// Every way in which tiles can be filled, not only the model's (pitfall B53; kernels.md §3, row 2): chunks, head channels
/// and states below, at and above a tile, groups of one and more heads.
#[test]
fn b53_row02_every_filling_of_the_tiles() {
    let mut rng = fresh("b53");
    for (i, sizes) in [
        (4, 15, 3, 1, 1, 23),
        (4, 15, 3, 2, 2, 23),
        (4, 15, 3, 4, 23, 23),
        (2, 15, 3, 1, 24, 23),
        (1, 63, 16, 1, 63, 70),
        (1, 64, 64, 1, 64, 70),
        (1, 65, 65, 1, 65, 70),
        (2, 64, 128, 1, 128, 140),
        (1, 130, 8, 1, 130, 140),
        (2, 8, 130, 2, 32, 70),
    ]
    .into_iter()
    .enumerate()
    {
        let cut = (sizes.5 - 4) as i32;
        let offsets = if i % 2 == 0 { vec![0] } else { vec![0, 9, cut] };
        Scan::new(&mut rng, sizes, 1, offsets, 0.5).check(&[[0, 1, 8][i % 3]]);
    }
}

#[test]
fn scan_of_the_real_model() {
    let mut rng = fresh("scan of the real model");
    let tokens = real_tokens();
    // On the virtual GPU one group of heads stands for all eight.
    let (heads, groups) = if tokens > 100 { (64, 8) } else { (8, 1) };
    let offsets = rng.offsets(tokens, 3);
    Scan::new(&mut rng, (heads, 64, 128, groups, 128, tokens), 1, offsets, 0.5).check(&[0]);
}
