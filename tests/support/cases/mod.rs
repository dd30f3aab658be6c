//! Operations with random operands at ugly shapes: forward, backward, and a scalar whose gradient the backward pass
//! computes. The difference tests run them in f64; the precision tests compare the storage types.

use super::gradcheck::{Input, input, weighted};
use super::random::Random;
use super::unit::{Results, Unit};
use lightning_core::ops::*;
use lightning_core::program::Op;
use lightning_core::tensor::{DType, Tensor};

mod mixers;
mod routed;

pub use mixers::*;
pub use routed::*;

/// One operation with operands.
pub struct Case {
    pub label: String,
    pub unit: Unit,
    pub forward: Vec<Op>,
    pub backward: Vec<Op>,
    pub objective: Box<dyn Fn(&Results) -> f64>,
    pub outputs: Vec<(&'static str, Tensor)>,
    pub inputs: Vec<Input>,
}

/// Builds a case; equal seeds give equal operands in every storage type.
pub type Maker = fn(&mut Random, DType) -> Case;

/// Every operation with a backward pass, with the number of cases that a test should draw.
pub const ALL: &[(&str, Maker, u64)] = &[
    ("rms_norm", rms_norm, 14),
    ("linear_with_and_without_adapter", linear_with_and_without_adapter, 18),
    ("conv_stops_at_documents", conv_stops_at_documents, 20),
    ("time_steps_with_and_without_clamp", time_steps_with_and_without_clamp, 12),
    ("gated_norm_groups", gated_norm_groups, 14),
    ("selective_scan", selective_scan, 30),
    ("attention", attention, 18),
    ("router_with_auxiliary_loss", router_with_auxiliary_loss, 24),
    ("experts_from_dispatch_to_combination", experts_from_dispatch_to_combination, 20),
    ("squared_relu", squared_relu, 6),
    ("embedding", embedding, 8),
    ("cross_entropy_of_several_heads", cross_entropy_of_several_heads, 24),
];

fn unit(act: DType) -> Unit {
    let mut unit = Unit::new(act);
    unit.threads = 1;
    unit
}

/// Sizes around the blocks that kernels cut tokens into, and tiny ones.
const TOKENS: [usize; 9] = [1, 2, 3, 7, 17, 63, 64, 65, 130];
const WIDTHS: [usize; 9] = [1, 2, 3, 5, 15, 16, 17, 33, 70];

pub fn rms_norm(rng: &mut Random, act: DType) -> Case {
    let (t, d) = (rng.pick(&TOKENS), rng.pick(&WIDTHS));
    let (add, accumulate) = (rng.chance(0.5), rng.chance(0.5));
    let mut u = unit(act);
    let (x, branch) = (u.act(t, d, &rng.normals(t * d, 1.0)), u.act(t, d, &rng.normals(t * d, 0.7)));
    let w = u.act(1, d, &rng.normals(d, 1.0));
    let (wy, wx) = (rng.normals(t * d, 1.0), rng.normals(t * d, 1.0));
    let (branch, x_out) = if add { (Some(branch), Some(u.out(t, d))) } else { (None, None) };
    let (y, rstd, dy) = (u.out(t, d), u.out_acc(t, 1), u.act(t, d, &wy));
    // The gradient of the residual stream arrives in dx when there is one.
    let dx = if add { u.act(t, d, &wx) } else { u.out(t, d) };
    let (dw, partial) = (u.gradient(1, d, accumulate), u.out_acc(RmsNormBwd::partial_rows(t), d));
    let fwd: Op = RmsNormFwd { x, branch, w, eps: 1e-2, x_out, y, rstd }.into();
    let read = x_out.unwrap_or(x);
    let bwd = RmsNormBwd { dy, x: read, w, rstd, dx, accumulate_dx: add, dw, accumulate_dw: accumulate, partial };
    // `dx` starts with the other objective's gradient, which the check would take for an earlier value: copy it out.
    let total = u.out(t, d);
    let copy: Op = Copy { from: dx, to: total }.op(&mut u);
    let objective = move |r: &Results| weighted(r, y, &wy) + x_out.map_or(0.0, |x| weighted(r, x, &wx));
    let mut inputs = vec![input("x", x, total), input("w", w, dw)];
    inputs.extend(branch.map(|b| input("branch", b, total)));
    let outputs = vec![("y", y)];
    Case {
        label: format!("rms norm {t} x {d}"),
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd.into(), copy],
        objective: Box::new(objective),
        outputs,
        inputs,
    }
}

/// A copy, made of a projection with the identity.
struct Copy {
    from: Tensor,
    to: Tensor,
}

impl Copy {
    fn op(self, u: &mut Unit) -> Op {
        let n = self.from.cols;
        let identity: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect();
        let w = u.act(n, n, &identity);
        LinearFwd { x: self.from, w, y: self.to, adapter: None }.into()
    }
}

pub fn linear_with_and_without_adapter(rng: &mut Random, act: DType) -> Case {
    let (t, i, o) = (rng.pick(&TOKENS), rng.pick(&WIDTHS), rng.pick(&WIDTHS));
    let (rank, adapted, accumulate) = (rng.range(1, 5), rng.chance(0.5), rng.chance(0.5));
    let mut u = unit(act);
    let (x, w) = (u.act(t, i, &rng.normals(t * i, 1.0)), u.act(o, i, &rng.normals(o * i, 1.0)));
    let (a, b) = (u.act(rank, i, &rng.normals(rank * i, 1.0)), u.act(o, rank, &rng.normals(o * rank, 1.0)));
    let wy = rng.normals(t * o, 1.0);
    let (y, low, dy, v) = (u.out(t, o), u.out(t, rank), u.act(t, o, &wy), u.out(t, rank));
    let dx = if accumulate { u.act(t, i, &rng.normals(t * i, 1.0)) } else { u.out(t, i) };
    let (dw, da) = (u.gradient(o, i, accumulate), u.gradient(rank, i, accumulate));
    let db = u.gradient(o, rank, accumulate);
    let adapter = adapted.then_some(Adapter { a, b, scale: 1.7, u: low });
    let gradients = AdapterGradients { da, db, accumulate, v };
    let fwd: Op = LinearFwd { x, w, y, adapter }.into();
    let bwd: Op = LinearBwd {
        dy,
        x,
        w,
        dx: Some(dx),
        accumulate_dx: accumulate,
        dw: Some(dw),
        accumulate_dw: accumulate,
        adapter: adapter.map(|a| (a, gradients)),
    }
    .into();
    let mut inputs = vec![input("x", x, dx), input("w", w, dw)];
    if adapted {
        inputs.extend([input("A", a, da), input("B", b, db)]);
    }
    let label = format!("linear {t} x {i} -> {o}, adapter {adapted}");
    let outputs = vec![("y", y)];
    Case {
        label,
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, y, &wy)),
        outputs,
        inputs,
    }
}

pub fn squared_relu(rng: &mut Random, act: DType) -> Case {
    let (t, f) = (rng.pick(&TOKENS), rng.pick(&WIDTHS));
    let mut u = unit(act);
    let x = u.act(t, f, &rng.normals(t * f, 1.0));
    let wy = rng.normals(t * f, 1.0);
    let (y, dy, dx) = (u.out(t, f), u.act(t, f, &wy), u.out(t, f));
    let (fwd, bwd) = (Relu2Fwd { x, y }.into(), Relu2Bwd { x, dy, dx }.into());
    let outputs = vec![("y", y)];
    Case {
        label: "relu2".to_string(),
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, y, &wy)),
        outputs,
        inputs: vec![input("x", x, dx)],
    }
}

pub fn embedding(rng: &mut Random, act: DType) -> Case {
    let (t, v, d) = (rng.pick(&TOKENS), rng.pick(&[1, 3, 40]), rng.pick(&[1, 3, 32, 33, 64]));
    let accumulate = rng.chance(0.5);
    let mut u = unit(act);
    let ids = u.ints(1, t, &rng.ints(t, v));
    let table = u.act(v, d, &rng.normals(v * d, 1.0));
    let wy = rng.normals(t * d, 1.0);
    let (y, dy, dtable) = (u.out(t, d), u.act(t, d, &wy), u.gradient(v, d, accumulate));
    let (fwd, bwd) = (EmbeddingFwd { ids, table, y }.into(), EmbeddingBwd { ids, dy, dtable, accumulate }.into());
    let inputs = vec![input("table", table, dtable)];
    let outputs = vec![("y", y)];
    Case {
        label: "embedding".to_string(),
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, y, &wy)),
        outputs,
        inputs,
    }
}

pub fn cross_entropy_of_several_heads(rng: &mut Random, act: DType) -> Case {
    let (t, d, vocab) = (rng.pick(&[1, 2, 7, 33]), rng.pick(&[1, 4, 17]), rng.pick(&[1, 2, 15, 16, 40]));
    let (heads, tile, accumulate) = (rng.range(1, 3), rng.range(1, t), rng.chance(0.5));
    let scale = if rng.chance(0.5) { LossScale::PerToken } else { LossScale::MeanOfMeans(rng.range(1, 3)) };
    let mut u = unit(act);
    let w = u.act(vocab, d, &rng.normals(vocab * d, 1.0));
    let dw = u.gradient(vocab, d, accumulate);
    let mut list = Vec::new();
    for k in 0..heads {
        // Some heads, and now and then all of them, have nothing to predict.
        let mask = rng.pick(&[0.0, 0.6, 1.0]);
        let mask = rng.mask(t, mask);
        // Labels outside the vocabulary are allowed where the mask is 0.
        let label: Vec<i32> =
            mask.iter().map(|m| if *m == 1 { rng.range(0, vocab - 1) as i32 } else { -100 }).collect();
        list.push(LossHead {
            h: u.act(t, d, &rng.normals(t * d, 1.0)),
            label: u.ints(1, t, &label),
            mask: u.ints(1, t, &mask),
            factor: if k == 0 { 1.0 } else { 0.15 },
            ce: u.out_acc(1, t),
            dh: Some(u.out(t, d)),
            metric: u.metric(4),
        });
    }
    let op: Op =
        LinearCrossEntropy { heads: list.clone(), w, scale, dw: Some(dw), accumulate, logits: u.out(tile, vocab) }
            .into();
    let all = list.clone();
    let objective = move |r: &Results| {
        let n = r.get(all[0].metric)[1];
        let of = |h: &LossHead| {
            let m = r.get(h.metric);
            h.factor
                * match scale {
                    LossScale::PerToken => m[0] * n / m[1].max(1.0),
                    LossScale::MeanOfMeans(b) => m[2] / b as f64,
                }
        };
        all.iter().map(of).sum()
    };
    let mut inputs = vec![input("W", w, dw)];
    inputs.extend(list.iter().map(|h| input("h", h.h, h.dh.unwrap())));
    let label = format!("cross entropy {t} x {d} -> {vocab}, {heads} heads, {scale:?}");
    let outputs = list.iter().map(|h| ("ce", h.ce)).collect();
    Case { label, unit: u, forward: vec![op], backward: vec![], objective: Box::new(objective), outputs, inputs }
}
