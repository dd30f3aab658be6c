//! Cases of the router and the routed experts.

use super::super::gradcheck::{input, weighted};
use super::super::random::Random;
use super::super::unit::Results;
use super::{Case, unit};
use lightning_core::ops::*;
use lightning_core::tensor::DType;

pub fn router_with_auxiliary_loss(rng: &mut Random, act: DType) -> Case {
    let (rows, experts) = (rng.range(1, 3), rng.pick(&[1, 2, 5, 8]));
    let row_len = rng.pick(&[1, 3, experts, 9]);
    let (t, d, k) = (rows * row_len, rng.pick(&[1, 4, 17]), rng.range(1, experts));
    let (normalize, accumulate) = (rng.chance(0.7), rng.chance(0.5));
    let (with_aux, with_padding) = (rng.chance(0.7), rng.chance(0.5));
    let mut u = unit(act);
    let (x, w) = (u.act(t, d, &rng.normals(t * d, 1.0)), u.act(experts, d, &rng.normals(experts * d, 1.0)));
    let bias = u.acc(1, experts, &rng.normals(experts, 0.2));
    let padding = with_padding.then(|| u.ints(1, t, &rng.mask(t, 0.4)));
    let per_token = rng.chance(0.5);
    let aux = with_aux.then(|| AuxLoss {
        coefficient: 0.8,
        micro_batches: (!per_token).then_some(3),
        stats: u.out_acc(rows, experts + 2),
        metric: u.metric(1),
    });
    let counts = u.ints(1, experts, &vec![0; experts]);
    let ww = rng.normals(t * k, 1.0);
    let fwd = RouterFwd {
        x,
        w,
        bias,
        source: RouterLogits::Computed,
        top_k: k,
        scale: 2.5,
        normalize,
        row_len,
        padding,
        logits: u.out_acc(t, experts),
        idx: u.out_ints(t, k),
        weight: u.out_acc(t, k),
        counts: Some(counts),
        row_counts: u.out_ints(rows, experts),
        aux: aux.clone(),
    };
    let dx = u.act(t, d, &rng.normals(t * d, 1.0));
    let bwd = RouterBwd {
        fwd: fwd.clone(),
        dweight: u.acc(t, k, &ww),
        dx,
        dw: Some(u.gradient(experts, d, accumulate)),
        accumulate,
        dlogits: u.out_acc(t, experts),
        wide: (act == DType::BF16).then(|| (u.out_acc(t, d), u.out_acc(experts, d))),
    };
    let real = padding.map_or(t as f64, |p| u.value(p).iter().filter(|v| **v == 0.0).count() as f64);
    let factor = if per_token { real } else { 1.0 / 3.0 };
    let weight = fwd.weight;
    let objective =
        move |r: &Results| weighted(r, weight, &ww) + aux.as_ref().map_or(0.0, |a| factor * r.get(a.metric)[0]);
    let inputs = vec![input("x", x, dx), input("w", w, bwd.dw.unwrap())];
    let label = format!("router {rows} x {row_len}, {k} of {experts}, aux {with_aux} padding {with_padding}");
    let outputs = vec![("weight", weight)];
    Case {
        label,
        unit: u,
        forward: vec![fwd.into()],
        backward: vec![bwd.into()],
        objective: Box::new(objective),
        outputs,
        inputs,
    }
}

pub fn experts_from_dispatch_to_combination(rng: &mut Random, act: DType) -> Case {
    let experts = rng.pick(&[1, 2, 5, 8]);
    let (t, k) = (rng.pick(&[1, 3, experts, 20]), rng.range(1, experts.min(3)));
    let (d, f, accumulate) = (rng.pick(&[1, 4, 17]), rng.pick(&[1, 3, 18]), rng.chance(0.5));
    let mut u = unit(act);
    // Now and then all tokens go to few experts, so that the first, the last or most have none.
    let usable = if rng.chance(0.5) { experts } else { k.max(experts / 2) };
    let shift = if rng.chance(0.5) { 0 } else { experts - usable };
    let idx: Vec<i32> = (0..t).flat_map(|_| rng.distinct(usable, k)).map(|e| (e + shift) as i32).collect();
    let idx = u.ints(t, k, &idx);
    let x = u.act(t, d, &rng.normals(t * d, 1.0));
    let weight = u.acc(t, k, &rng.uniforms(t * k, 0.2, 2.0));
    let up = u.act(experts * f, d, &rng.normals(experts * f * d, 1.0));
    let down = u.act(experts * d, f, &rng.normals(experts * f * d, 1.0));
    let shared = u.act(t, d, &rng.normals(t * d, 1.0));
    let wo = rng.normals(t * d, 1.0);
    let plan = DispatchPlan {
        idx,
        offsets: u.out_ints(1, experts + 1),
        pair_of_slot: u.out_ints(1, t * k),
        slot_of_pair: u.out_ints(t, k),
    };
    let fwd = ExpertsFwd {
        x,
        weight,
        offsets: plan.offsets,
        pair_of_slot: plan.pair_of_slot,
        up,
        down,
        xs: u.out(t * k, d),
        p: u.out(t * k, f),
        a: u.out(t * k, f),
        y: u.out(t * k, d),
    };
    let out = u.out(t, d);
    let combine = CombineFwd { y: fwd.y, slot_of_pair: plan.slot_of_pair, shared: Some(shared), out };
    let (dup, ddown) = (u.gradient(experts * f, d, accumulate), u.gradient(experts * d, f, accumulate));
    let bwd = ExpertsBwd {
        fwd: fwd.clone(),
        dout: u.act(t, d, &wo),
        dxs: u.out(t * k, d),
        dweight: u.out_acc(t, k),
        dweights: Some((dup, ddown)),
        accumulate,
        dys: u.out(t * k, d),
        a: u.out(t * k, f),
        dp: u.out(t * k, f),
    };
    let dx = if accumulate { u.act(t, d, &rng.normals(t * d, 1.0)) } else { u.out(t, d) };
    let gather = CombineBwd { dxs: bwd.dxs, slot_of_pair: plan.slot_of_pair, dx, accumulate };
    let inputs =
        vec![input("x", x, dx), input("weight", weight, bwd.dweight), input("up", up, dup), input("down", down, ddown)];
    let label = format!("experts {t} x {d}, {k} of {experts}, width {f}");
    let forward = vec![plan.into(), fwd.into(), combine.into()];
    let outputs = vec![("out", out)];
    Case {
        label,
        unit: u,
        forward,
        backward: vec![bwd.into(), gather.into()],
        objective: Box::new(move |r| weighted(r, out, &wo)),
        outputs,
        inputs,
    }
}
