//! Squared ReLU, combination of experts, dispatch plan.

use super::compare::{Bound, Case, check, check_with_gaps, fresh};
use super::support::random::Random;
use lightning_core::ops::{CombineBwd, CombineFwd, DispatchPlan, Relu2Bwd, Relu2Fwd};

#[test]
fn relu2() {
    let mut rng = fresh("relu2");
    for (t, f) in [(0, 8), (1, 1), (3, 2049), (2, 2056), (65, 24), (7, 7)] {
        let [mut x, dy] = [(); 2].map(|()| rng.normals(t * f, 1.0));
        x.iter_mut().step_by(5).for_each(|x| *x = 0.0);
        check_with_gaps(&format!("{t} x {f}"), &[0, 8, 1], |u| {
            let (x, dy) = (u.act(t, f, &x), u.act(t, f, &dy));
            let (y, dx) = (u.out(t, f), u.out(t, f));
            let ops = vec![Relu2Fwd { x, y }.into(), Relu2Bwd { x, dy, dx }.into()];
            Case { ops, results: vec![("y", y, Bound::Exact), ("dx", dx, Bound::Exact)] }
        });
    }
}

#[test]
fn combine() {
    let mut rng = fresh("combine");
    for (t, k, h) in [(0, 2, 8), (1, 1, 1), (5, 3, 2049), (3, 6, 2064), (65, 2, 24), (7, 8, 7)] {
        let (accumulate, with_shared) = (rng.chance(0.5), rng.chance(0.5));
        let slots: Vec<i32> = rng.distinct(t * k, t * k).into_iter().map(|s| s as i32).collect();
        let [y, dxs] = [(); 2].map(|()| rng.normals(t * k * h, 1.0));
        let [shared, dx] = [(); 2].map(|()| rng.normals(t * h, 1.0));
        let what = format!("{t} x {k} x {h}, accumulate {accumulate}, shared {with_shared}");
        check_with_gaps(&what, &[0, 8, 1], |u| {
            let slot_of_pair = u.ints(t, k, &slots);
            let (y, dxs) = (u.act(t * k, h, &y), u.act(t * k, h, &dxs));
            let shared = with_shared.then(|| u.act(t, h, &shared));
            let out = u.out(t, h);
            let dx = if accumulate { u.act(t, h, &dx) } else { u.out(t, h) };
            let ops = vec![
                CombineFwd { y, slot_of_pair, shared, out }.into(),
                CombineBwd { dxs, slot_of_pair, dx, accumulate }.into(),
            ];
            Case { ops, results: vec![("out", out, Bound::Exact), ("dx", dx, Bound::Exact)] }
        });
    }
}

/// Experts of every pair: uniform, all to one, the first and last without any, Zipf.
fn routings(rng: &mut Random, pairs: usize, experts: usize) -> Vec<Vec<i32>> {
    let one = rng.range(0, experts - 1) as i32;
    let middle = (0..pairs).map(|_| rng.range(experts / 3, experts - 1 - experts / 3) as i32).collect();
    let zipf = (0..pairs).map(|_| ((experts as f64).powf(rng.uniform()) as i32 - 1).min(experts as i32 - 1)).collect();
    vec![rng.ints(pairs, experts), vec![one; pairs], middle, zipf]
}

#[test]
fn b46_b47_dispatch_plan_with_empty_experts() {
    let mut rng = fresh("dispatch_plan");
    // A tile has 256 pairs.
    for (t, k, experts) in [(0, 2, 4), (1, 1, 1), (5, 1, 4), (85, 3, 128), (128, 2, 8), (257, 1, 5), (300, 6, 1000)] {
        for (case, idx) in routings(&mut rng, t * k, experts).into_iter().enumerate() {
            check(&format!("{t} x {k} to {experts} experts, routing {case}"), |u| {
                let plan = DispatchPlan {
                    idx: u.ints(t, k, &idx),
                    offsets: u.out_ints(1, experts + 1),
                    pair_of_slot: u.out_ints(1, t * k),
                    slot_of_pair: u.out_ints(t, k),
                };
                let results = [
                    ("offsets", plan.offsets),
                    ("pair_of_slot", plan.pair_of_slot),
                    ("slot_of_pair", plan.slot_of_pair),
                ];
                let results = results.map(|(name, t)| (name, t, Bound::Exact)).to_vec();
                Case { ops: vec![plan.into()], results }
            });
        }
    }
}
