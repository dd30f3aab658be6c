//! Linear head and cross entropy.

use super::compare::{Bound, Case, check_naive, check_with_gaps, device, fresh};
use super::support::random::Random;
use super::support::unit::Unit;
use lightning_core::gpu::Execution;
use lightning_core::ops::{LinearCrossEntropy, LossHead, LossScale};
use lightning_core::tensor::DType;

struct Head {
    h: Vec<f64>,
    label: Vec<i32>,
    mask: Vec<i32>,
}

struct Setup {
    t: usize,
    d: usize,
    vocab: usize,
    tile: usize,
    heads: Vec<Head>,
    w: Vec<f64>,
    scale: LossScale,
    accumulate: bool,
    /// Gradient of the weight in bf16.
    narrow: bool,
    evaluation: bool,
}

impl Setup {
    /// Heads whose masks have ones with the probabilities `on`.
    fn new(rng: &mut Random, (t, d, vocab, tile): (usize, usize, usize, usize), on: &[f64]) -> Self {
        let head = |p: &f64| {
            let mask = rng.mask(t, *p);
            // Labels outside the vocabulary are allowed where the mask is 0.
            let label = mask.iter().map(|m| if *m == 1 { rng.range(0, vocab - 1) as i32 } else { -100 }).collect();
            Head { h: rng.normals(t * d, 1.0), label, mask }
        };
        let heads = on.iter().map(head).collect();
        Self {
            t,
            d,
            vocab,
            tile,
            heads,
            w: rng.normals(vocab * d, 2.0 / (d as f64).sqrt()),
            scale: if rng.chance(0.5) { LossScale::PerToken } else { LossScale::MeanOfMeans(rng.range(1, 3)) },
            accumulate: rng.chance(0.5),
            narrow: rng.chance(0.5),
            evaluation: false,
        }
    }

    fn op(&self, u: &mut Unit) -> LinearCrossEntropy {
        let w = u.act(self.vocab, self.d, &self.w);
        let start: Vec<f64> = (0..self.vocab * self.d).map(|i| (i % 5) as f64 - 2.0).collect();
        let dw = match (self.narrow, self.accumulate) {
            (false, accumulate) => u.gradient(self.vocab, self.d, accumulate),
            (true, false) => u.out(self.vocab, self.d),
            (true, true) => u.act(self.vocab, self.d, &start),
        };
        let mut heads = Vec::new();
        for (k, head) in self.heads.iter().enumerate() {
            heads.push(LossHead {
                h: u.act(self.t, self.d, &head.h),
                label: u.ints(1, self.t, &head.label),
                mask: u.ints(1, self.t, &head.mask),
                factor: if k == 0 { 1.0 } else { 0.15 },
                ce: u.out_acc(1, self.t),
                dh: (!self.evaluation).then(|| u.out(self.t, self.d)),
                metric: u.metric(4),
            });
        }
        LinearCrossEntropy {
            heads,
            w,
            scale: self.scale,
            dw: (!self.evaluation).then_some(dw),
            accumulate: self.accumulate,
            logits: u.out(self.tile, self.vocab),
        }
    }

    fn case(&self, u: &mut Unit) -> Case {
        let op = self.op(u);
        let mut results = Vec::new();
        for head in &op.heads {
            results.push(("ce", head.ce, Bound::Value));
            // The sums; hits of logits in bf16 are those of the CPU device in bf16.
            results.push(("metric", head.metric.columns(0, 3), Bound::Value));
            results.extend(head.dh.map(|dh| ("dh", dh, Bound::Gradient)));
        }
        results.extend(op.dw.map(|dw| ("dw", dw, Bound::Gradient)));
        Case { ops: vec![op.into()], results }
    }

    fn label(&self) -> String {
        let (t, d, v, tile) = (self.t, self.d, self.vocab, self.tile);
        let on: Vec<i32> = self.heads.iter().map(|h| h.mask.iter().sum()).collect();
        format!(
            "{t} x {d} -> {v}, tiles of {tile}, masks {on:?}, {:?}, {} {}",
            self.scale, self.accumulate, self.narrow
        )
    }
}

#[test]
fn linear_cross_entropy() {
    let mut rng = fresh("linear cross entropy");
    for (sizes, on, gaps) in [
        ((1, 1, 1, 1), &[1.0][..], &[0][..]),
        ((7, 5, 15, 3), &[0.6, 1.0], &[0, 1]),
        ((33, 17, 65, 32), &[1.0, 0.0, 0.5], &[0]),
        ((20, 64, 264, 20), &[0.7], &[0, 8]),
        ((3, 40, 2100, 2), &[1.0, 0.6], &[0]),
    ] {
        let setup = Setup::new(&mut rng, sizes, on);
        check_with_gaps(&setup.label(), gaps, |u| setup.case(u));
    }
}

#[test]
fn evaluation_leaves_gradients_alone() {
    let mut rng = fresh("linear cross entropy, evaluation");
    let mut setup = Setup::new(&mut rng, (9, 12, 40, 4), &[0.8, 0.8]);
    setup.evaluation = true;
    check_with_gaps(&setup.label(), &[0], |u| setup.case(u));
}

/// Row 29 of the defect list: nothing to predict is a loss of 0 and gradients of exactly 0, also with labels that would
/// be wrong; a head without labels takes nothing from the others.
#[test]
fn all_labels_masked_is_no_loss_and_no_gradient() {
    let mut rng = fresh("linear cross entropy, all masked");
    for scale in [LossScale::PerToken, LossScale::MeanOfMeans(2)] {
        let mut setup = Setup::new(&mut rng, (10, 8, 33, 4), &[0.0, 0.0]);
        (setup.scale, setup.accumulate) = (scale, false);
        setup.heads[1].label = (0..10).collect();
        let mut u = Unit::new(DType::BF16);
        let op = setup.op(&mut u);
        let mut gpu = device(&u, vec![op.clone().into()], Execution::Launches);
        gpu.run(&u);
        for head in &op.heads {
            assert_eq!(gpu.get(head.metric), [0.0; 4]);
            assert!(gpu.get(head.dh.expect("training")).iter().all(|v| *v == 0.0));
        }
        assert!(gpu.get(op.dw.expect("training")).iter().all(|v| *v == 0.0));
        // Where a label is known its loss is there, counted or not.
        assert!(gpu.get(op.heads[1].ce).iter().all(|v| *v > 0.0));
        assert!(gpu.get(op.heads[0].ce).iter().all(|v| *v == 0.0));
    }
}

/// Row 30 of the defect list: labels at both ends of the vocabulary and at the edges of what a thread takes; hits with
/// ties go to the lowest index.
#[test]
fn labels_at_edges_and_ties() {
    let mut rng = fresh("linear cross entropy, edges");
    for vocab in [264, 259] {
        let edges = [0, 1, 7, 8, 63, 64, 255, 256, vocab as i32 - 1];
        let mut setup = Setup::new(&mut rng, (edges.len(), 16, vocab, edges.len()), &[1.0]);
        setup.heads[0].label = edges.to_vec();
        // Every edge has a direction of its own in the weights, and its token points there; row 9 repeats row 8.
        for (t, edge) in edges.iter().enumerate() {
            for c in 0..16 {
                setup.w[*edge as usize * 16 + c] = if c == t { 16.0 } else { 0.0 };
                setup.heads[0].h[t * 16 + c] = if c == t { 2.0 } else { 0.125 };
            }
        }
        setup.w.copy_within(8 * 16..9 * 16, 9 * 16);
        for label in [8, 9] {
            setup.heads[0].label[3] = label;
            let mut u = Unit::new(DType::BF16);
            u.rounding = Some(DType::BF16);
            let op = setup.op(&mut u);
            let cpu = u.run(vec![op.clone().into()]);
            let mut gpu = device(&u, vec![op.clone().into()], Execution::Launches);
            gpu.run(&u);
            let hits = gpu.get(op.heads[0].metric)[3];
            assert_eq!(hits, cpu.get(op.heads[0].metric)[3], "{vocab}, label {label}");
            assert_eq!(hits, if label == 8 { 9.0 } else { 8.0 }, "{vocab}: the lowest index wins");
        }
        check_with_gaps(&setup.label(), &[0], |u| setup.case(u));
    }
}

#[test]
fn linear_cross_entropy_agrees_with_the_naive_kernel() {
    let mut rng = fresh("linear cross entropy, naive");
    for sizes in [(12, 9, 70, 5), (3, 24, 256, 3)] {
        let setup = Setup::new(&mut rng, sizes, &[0.8, 1.0]);
        check_naive(&setup.label(), |u| setup.case(u));
    }
}

#[test]
fn no_tokens_overwrite_the_gradient_with_zeros() {
    let mut rng = fresh("linear cross entropy, no tokens");
    let mut setup = Setup::new(&mut rng, (0, 6, 20, 1), &[1.0]);
    (setup.accumulate, setup.narrow) = (false, false);
    let mut u = Unit::new(DType::BF16);
    let op = setup.op(&mut u);
    let cpu = u.run(vec![op.clone().into()]);
    let mut gpu = device(&u, vec![op.clone().into()], Execution::Launches);
    gpu.run(&u);
    for got in [cpu.get(op.dw.expect("training")), gpu.get(op.dw.expect("training"))] {
        assert!(got.iter().all(|v| *v == 0.0), "{got:?}");
    }
}
