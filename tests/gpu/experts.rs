//! Routed experts.

use super::compare::{Bound, Case, check_naive, check_with_gaps, fresh, real_tokens};
use super::support::random::Random;
use super::support::unit::Unit;
use lightning_core::gpu::Execution;
use lightning_core::ops::{ExpertsBwd, ExpertsFwd};
use lightning_core::tensor::Tensor;

/// Sizes and routing of a case; slots of an expert are in the order of `pairs`.
struct Setup {
    t: usize,
    k: usize,
    d: usize,
    f: usize,
    offsets: Vec<i32>,
    pairs: Vec<i32>,
    x: Vec<f64>,
    weight: Vec<f64>,
    up: Vec<f64>,
    down: Vec<f64>,
    dout: Vec<f64>,
    accumulate: bool,
    /// Gradients of the weights in bf16.
    narrow: bool,
    frozen: bool,
}

impl Setup {
    /// `counts` slots for every expert, drawn from the pairs of just as many tokens as there must be.
    fn new(rng: &mut Random, counts: &[usize], k: usize, d: usize, f: usize) -> Self {
        let slots: usize = counts.iter().sum();
        assert!(slots.is_multiple_of(k), "{slots} slots, {k} experts per token");
        let (t, experts) = (slots / k, counts.len());
        let mut offsets = vec![0];
        for count in counts {
            offsets.push(offsets[offsets.len() - 1] + *count as i32);
        }
        // Any pair may sit in any slot: the products do not care which experts a token chose.
        let mut pairs: Vec<i32> = (0..slots as i32).collect();
        for i in (1..slots).rev() {
            pairs.swap(i, rng.range(0, i));
        }
        let scale = |n: usize| 1.0 / (n as f64).sqrt();
        Self {
            t,
            k,
            d,
            f,
            offsets,
            pairs,
            x: rng.normals(t * d, 1.0),
            weight: rng.uniforms(t * k, 0.2, 2.0),
            up: rng.normals(experts * f * d, scale(d)),
            down: rng.normals(experts * d * f, scale(f)),
            dout: rng.normals(t * d, 1.0),
            accumulate: rng.chance(0.5),
            narrow: rng.chance(0.5),
            frozen: rng.chance(0.2),
        }
    }

    fn experts(&self) -> usize {
        self.offsets.len() - 1
    }

    fn gradient(&self, u: &mut Unit, rows: usize, cols: usize) -> Tensor {
        match (self.narrow, self.accumulate) {
            (false, accumulate) => u.gradient(rows, cols, accumulate),
            (true, false) => u.out(rows, cols),
            (true, true) => u.act(rows, cols, &(0..rows * cols).map(|i| (i % 5) as f64 - 2.0).collect::<Vec<_>>()),
        }
    }

    fn ops(&self, u: &mut Unit) -> (ExpertsFwd, ExpertsBwd) {
        let (experts, slots) = (self.experts(), self.pairs.len());
        let fwd = ExpertsFwd {
            x: u.act(self.t, self.d, &self.x),
            weight: u.acc(self.t, self.k, &self.weight),
            offsets: u.ints(1, experts + 1, &self.offsets),
            pair_of_slot: u.ints(1, slots, &self.pairs),
            up: u.act(experts * self.f, self.d, &self.up),
            down: u.act(experts * self.d, self.f, &self.down),
            xs: u.out(slots, self.d),
            p: u.out(slots, self.f),
            a: u.out(slots, self.f),
            y: u.out(slots, self.d),
        };
        let dweights = (!self.frozen)
            .then(|| (self.gradient(u, experts * self.f, self.d), self.gradient(u, experts * self.d, self.f)));
        let bwd = ExpertsBwd {
            fwd: fwd.clone(),
            dout: u.act(self.t, self.d, &self.dout),
            dxs: u.out(slots, self.d),
            dweight: u.out_acc(self.t, self.k),
            dweights,
            accumulate: self.accumulate,
            dys: u.out(slots, self.d),
            a: u.out(slots, self.f),
            dp: u.out(slots, self.f),
        };
        (fwd, bwd)
    }

    fn case(&self, u: &mut Unit) -> Case {
        let (fwd, bwd) = self.ops(u);
        let mut results = vec![
            ("xs", fwd.xs, Bound::Exact),
            ("p", fwd.p, Bound::Value),
            ("y", fwd.y, Bound::Value),
            ("dxs", bwd.dxs, Bound::Gradient),
            ("dweight", bwd.dweight, Bound::Gradient),
        ];
        if let Some((dup, ddown)) = bwd.dweights {
            results.extend([("dup", dup, Bound::Gradient), ("ddown", ddown, Bound::Gradient)]);
        }
        Case { ops: vec![fwd.into(), bwd.into()], results }
    }

    fn label(&self) -> String {
        let (t, k, d, f) = (self.t, self.k, self.d, self.f);
        let counts: Vec<i32> = self.offsets.windows(2).map(|o| o[1] - o[0]).collect();
        format!("{t} tokens, top {k}, {d} x {f}, {counts:?}, {} {}", self.accumulate, self.narrow)
    }
}

#[test]
fn experts() {
    let mut rng = fresh("experts");
    // Counts around the tile of 64, widths around its columns and the depth of 32.
    for (counts, k, d, f) in [
        (vec![1], 1, 1, 1),
        (vec![63, 65, 64], 2, 7, 33),
        (vec![3, 130, 1, 2], 4, 65, 31),
        (vec![40, 2, 0, 30, 9, 1, 0, 8], 6, 64, 72),
        // The model's widths, one at a time (row 23 of the defect list).
        (vec![3, 0, 2], 1, 8, 1856),
        (vec![0, 3, 1], 2, 2688, 8),
    ] {
        let setup = Setup::new(&mut rng, &counts, k, d, f);
        check_with_gaps(&setup.label(), &[0, 8, 1], |u| setup.case(u));
    }
}

/// Pitfall B47; rows 20 and 21 of the defect list: experts without tokens first, last, almost everywhere, everywhere.
#[test]
fn pitfall_b47_experts_without_tokens() {
    let mut rng = fresh("experts without tokens");
    let mut zipf = vec![0; 40];
    for pair in 0..70 {
        zipf[pair * pair % 37 * (pair % 3) % 40] += 1;
    }
    let around = vec![127, 1, 128, 0, 129];
    for counts in [vec![0, 0, 5, 0], vec![0, 0, 0, 66], vec![6, 0, 0], vec![0; 3], zipf, vec![1; 33], around] {
        let mut setup = Setup::new(&mut rng, &counts, 1, 24, 10);
        setup.frozen = false;
        check_with_gaps(&setup.label(), &[0], |u| setup.case(u));
        let mut u = Unit::new(lightning_core::tensor::DType::BF16);
        setup.accumulate = false;
        let (fwd, bwd) = setup.ops(&mut u);
        let (dup, ddown) = bwd.dweights.expect("not frozen");
        let mut gpu = super::compare::device(&u, vec![fwd.into(), bwd.into()], Execution::Launches);
        gpu.run(&u);
        for (e, count) in counts.iter().enumerate() {
            for dw in [dup, ddown] {
                let rows = dw.rows / setup.experts();
                let own = gpu.get(dw.row_range(e * rows, rows));
                let zero = own.iter().all(|v| *v == 0.0);
                // All activations of a single slot may be zero.
                assert!(if *count == 0 { zero } else { !zero || *count < 5 }, "expert {e} of {counts:?}");
            }
        }
    }
}

/// Row 26 of the defect list: buffers that go on beyond the last used slot, with NaN there, and pairs without a slot.
#[test]
fn rows_beyond_the_last_slot_are_neither_read_nor_written() {
    let mut rng = fresh("experts, unused slots");
    let mut setup = Setup::new(&mut rng, &[30, 0, 40, 2], 2, 40, 24);
    let used = 41;
    for offset in &mut setup.offsets {
        *offset = (*offset).min(used);
    }
    // A token whose pairs have no slots holds NaN; so do the weights of all pairs without a slot.
    for pair in &setup.pairs[used as usize..] {
        setup.weight[*pair as usize] = f64::NAN;
    }
    setup.frozen = false;
    for naive in [false, true] {
        let mut u = Unit::new(lightning_core::tensor::DType::BF16);
        let (fwd, bwd) = setup.ops(&mut u);
        let tensors = [fwd.xs, fwd.p, fwd.y, bwd.dxs, bwd.dp, bwd.dys];
        let (dup, ddown) = bwd.dweights.expect("not frozen");
        let dweight = bwd.dweight;
        let ops = vec![fwd.into(), bwd.into()];
        let mut gpu = super::compare::device_with_kernels(&u, ops, Execution::Launches, naive);
        gpu.run(&u);
        for tensor in tensors {
            let got = gpu.get(tensor);
            let (inside, beyond) = got.split_at(used as usize * tensor.cols);
            assert!(inside.iter().all(|v| v.is_finite()), "naive {naive}");
            assert!(beyond.iter().all(|v| v.is_nan()), "naive {naive}: written beyond the last slot");
        }
        assert!(gpu.get(dup).iter().chain(&gpu.get(ddown)).all(|v| v.is_finite()), "naive {naive}");
        let dweight = gpu.get(dweight);
        for (slot, pair) in setup.pairs.iter().enumerate() {
            assert_eq!(dweight[*pair as usize].is_nan(), slot >= used as usize, "naive {naive}, slot {slot}");
        }
    }
}

#[test]
fn experts_agree_with_the_naive_kernels() {
    let mut rng = fresh("experts, naive");
    for (counts, k, d, f) in [(vec![5, 0, 70, 3], 2, 33, 40), (vec![1, 2], 1, 3, 2)] {
        let setup = Setup::new(&mut rng, &counts, k, d, f);
        check_naive(&setup.label(), |u| setup.case(u));
    }
}

#[test]
fn experts_of_the_real_model() {
    let mut rng = fresh("experts of the real model");
    let t = real_tokens();
    let (d, f) = if t > 100 { (2688, 1856) } else { (2688, 64) };
    let setup = Setup::new(&mut rng, &[t, 0, t / 2, t - t / 2], 2, d, f);
    check_with_gaps(&setup.label(), &[0], |u| setup.case(u));
}
