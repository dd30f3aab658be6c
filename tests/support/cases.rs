//! Operations with random operands at ugly shapes: forward, backward, and a scalar whose gradient the backward pass
//! computes. The difference tests run them in f64; the precision tests compare the storage types.

use super::gradcheck::{Input, input, weighted};
use super::random::Random;
use super::unit::{Results, Unit};
use lightning_core::ops::*;
use lightning_core::program::Op;
use lightning_core::tensor::{DType, Tensor};

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
    (
        "linear_with_and_without_adapter",
        linear_with_and_without_adapter,
        18,
    ),
    ("conv_stops_at_documents", conv_stops_at_documents, 20),
    (
        "time_steps_with_and_without_clamp",
        time_steps_with_and_without_clamp,
        12,
    ),
    ("gated_norm_groups", gated_norm_groups, 14),
    ("selective_scan", selective_scan, 30),
    ("attention", attention, 18),
    ("router_with_auxiliary_loss", router_with_auxiliary_loss, 24),
    (
        "experts_from_dispatch_to_combination",
        experts_from_dispatch_to_combination,
        20,
    ),
    ("squared_relu", squared_relu, 6),
    ("embedding", embedding, 8),
    (
        "cross_entropy_of_several_heads",
        cross_entropy_of_several_heads,
        24,
    ),
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
    let (x, branch) = (
        u.act(t, d, &rng.normals(t * d, 1.0)),
        u.act(t, d, &rng.normals(t * d, 0.7)),
    );
    let w = u.act(1, d, &rng.normals(d, 1.0));
    let (wy, wx) = (rng.normals(t * d, 1.0), rng.normals(t * d, 1.0));
    let (branch, x_out) = if add {
        (Some(branch), Some(u.out(t, d)))
    } else {
        (None, None)
    };
    let (y, rstd, dy) = (u.out(t, d), u.out_acc(t, 1), u.act(t, d, &wy));
    // The gradient of the residual stream arrives in dx when there is one.
    let dx = if add { u.act(t, d, &wx) } else { u.out(t, d) };
    let (dw, partial) = (
        u.gradient(1, d, accumulate),
        u.out_acc(RmsNormBwd::partial_rows(t), d),
    );
    let fwd: Op = RmsNormFwd {
        x,
        branch,
        w,
        eps: 1e-2,
        x_out,
        y,
        rstd,
    }
    .into();
    let read = x_out.unwrap_or(x);
    let bwd = RmsNormBwd {
        dy,
        x: read,
        w,
        rstd,
        dx,
        accumulate_dx: add,
        dw,
        accumulate_dw: accumulate,
        partial,
    };
    // `dx` starts with the other objective's gradient, which the check would take for an earlier value: copy it out.
    let total = u.out(t, d);
    let copy: Op = Copy {
        from: dx,
        to: total,
    }
    .op(&mut u);
    let objective =
        move |r: &Results| weighted(r, y, &wy) + x_out.map_or(0.0, |x| weighted(r, x, &wx));
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
        inputs: inputs,
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
        let identity: Vec<f64> = (0..n * n)
            .map(|i| f64::from(u8::from(i / n == i % n)))
            .collect();
        let w = u.act(n, n, &identity);
        LinearFwd {
            x: self.from,
            w,
            y: self.to,
            adapter: None,
        }
        .into()
    }
}

pub fn linear_with_and_without_adapter(rng: &mut Random, act: DType) -> Case {
    let (t, i, o) = (rng.pick(&TOKENS), rng.pick(&WIDTHS), rng.pick(&WIDTHS));
    let (rank, adapted, accumulate) = (rng.range(1, 5), rng.chance(0.5), rng.chance(0.5));
    let mut u = unit(act);
    let (x, w) = (
        u.act(t, i, &rng.normals(t * i, 1.0)),
        u.act(o, i, &rng.normals(o * i, 1.0)),
    );
    let (a, b) = (
        u.act(rank, i, &rng.normals(rank * i, 1.0)),
        u.act(o, rank, &rng.normals(o * rank, 1.0)),
    );
    let wy = rng.normals(t * o, 1.0);
    let (y, low, dy, v) = (
        u.out(t, o),
        u.out(t, rank),
        u.act(t, o, &wy),
        u.out(t, rank),
    );
    let dx = if accumulate {
        u.act(t, i, &rng.normals(t * i, 1.0))
    } else {
        u.out(t, i)
    };
    let (dw, da) = (
        u.gradient(o, i, accumulate),
        u.gradient(rank, i, accumulate),
    );
    let db = u.gradient(o, rank, accumulate);
    let adapter = adapted.then_some(Adapter {
        a,
        b,
        scale: 1.7,
        u: low,
    });
    let gradients = AdapterGradients {
        da,
        db,
        accumulate,
        v,
    };
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
        label: label,
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, y, &wy)),
        outputs,
        inputs: inputs,
    }
}

pub fn conv_stops_at_documents(rng: &mut Random, act: DType) -> Case {
    let (rows, row_len) = (rng.range(1, 3), rng.pick(&[1, 2, 3, 5, 64, 90]));
    let (t, c, kernel) = (
        rows * row_len,
        rng.pick(&[1, 3, 17, 65, 128, 192]),
        rng.range(1, 5),
    );
    let accumulate = rng.chance(0.5);
    let offsets = rng.offsets(t, rows + 3);
    let mut u = unit(act);
    let (start, _) = u.bounds(t, row_len, &offsets);
    let (x, w) = (
        u.act(t, c, &rng.normals(t * c, 1.0)),
        u.act(c, kernel, &rng.normals(c * kernel, 1.0)),
    );
    let b = u.act(1, c, &rng.normals(c, 1.0));
    let wy = rng.normals(t * c, 1.0);
    let (y, dy, dx) = (u.out(t, c), u.act(t, c, &wy), u.out(t, c));
    let (dw, db) = (
        u.gradient(c, kernel, accumulate),
        u.gradient(1, c, accumulate),
    );
    let partial = u.out_acc(kernel + 1, c);
    let fwd: Op = ConvSiluFwd { x, w, b, start, y }.into();
    let bwd: Op = ConvSiluBwd {
        dy,
        x,
        w,
        b,
        start,
        dx,
        dw,
        db,
        accumulate,
        partial,
    }
    .into();
    let inputs = vec![input("x", x, dx), input("w", w, dw), input("b", b, db)];
    let label = format!("conv {rows} x {row_len} x {c}, {kernel} taps, {offsets:?}");
    let outputs = vec![("y", y)];
    Case {
        label: label,
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, y, &wy)),
        outputs,
        inputs: inputs,
    }
}

pub fn time_steps_with_and_without_clamp(rng: &mut Random, act: DType) -> Case {
    let (t, h) = (rng.pick(&TOKENS), rng.pick(&WIDTHS));
    let (dt_min, accumulate) = (rng.pick(&[0.0, 0.3]), rng.chance(0.5));
    let mut u = unit(act);
    let mut raw = rng.normals(t * h, 1.5);
    // Beyond the switch to the identity, where softplus is within 1e-9 of it.
    raw[0] = 25.0;
    let (raw, bias) = (u.act(t, h, &raw), u.acc(1, h, &rng.normals(h, 0.5)));
    let wd = rng.normals(t * h, 1.0);
    let (delta, ddelta) = (u.out_acc(t, h), u.acc(t, h, &wd));
    let (draw, dbias) = (u.out(t, h), u.gradient(1, h, accumulate));
    let partial = u.out_acc(SoftplusDtBwd::partial_rows(t), h);
    let fwd: Op = SoftplusDtFwd {
        raw,
        bias,
        dt_min,
        delta,
    }
    .into();
    let bwd: Op = SoftplusDtBwd {
        ddelta,
        raw,
        bias,
        dt_min,
        draw,
        dbias,
        accumulate,
        partial,
    }
    .into();
    let inputs = vec![input("raw", raw, draw), input("bias", bias, dbias)];
    let label = format!("dt {t} x {h}, clamp {dt_min}");
    let outputs = vec![("delta", delta)];
    Case {
        label: label,
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, delta, &wd)),
        outputs,
        inputs: inputs,
    }
}

pub fn gated_norm_groups(rng: &mut Random, act: DType) -> Case {
    let (t, groups, width) = (
        rng.pick(&TOKENS),
        rng.pick(&[1, 2, 3, 8]),
        rng.pick(&[1, 2, 5, 16, 17, 35]),
    );
    let (c, accumulate) = (groups * width, rng.chance(0.5));
    let mut u = unit(act);
    let (y, z) = (
        u.act(t, c, &rng.normals(t * c, 1.0)),
        u.act(t, c, &rng.normals(t * c, 1.5)),
    );
    let w = u.act(1, c, &rng.normals(c, 1.0));
    let wo = rng.normals(t * c, 1.0);
    let (o, rstd, dout) = (u.out(t, c), u.out_acc(t, groups), u.act(t, c, &wo));
    let (dy, dz, dw) = (u.out(t, c), u.out(t, c), u.gradient(1, c, accumulate));
    let partial = u.out_acc(GatedRmsNormBwd::partial_rows(t), c);
    let fwd: Op = GatedRmsNormFwd {
        y,
        z,
        w,
        groups,
        eps: 5e-2,
        o,
        rstd,
    }
    .into();
    let bwd: Op = GatedRmsNormBwd {
        dout,
        y,
        z,
        w,
        groups,
        rstd,
        dy,
        dz,
        dw,
        accumulate,
        partial,
    }
    .into();
    let inputs = vec![input("y", y, dy), input("z", z, dz), input("w", w, dw)];
    let label = format!("gated norm {t} x {groups} x {width}");
    let outputs = vec![("o", o)];
    Case {
        label: label,
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, o, &wo)),
        outputs,
        inputs: inputs,
    }
}

pub fn selective_scan(rng: &mut Random, act: DType) -> Case {
    let (groups, per_group) = (rng.range(1, 3), rng.range(1, 3));
    let (heads, head_dim, state) = (
        groups * per_group,
        rng.pick(&[1, 3, 5]),
        rng.pick(&[1, 2, 7]),
    );
    let chunk = rng.pick(&[1, 2, 4, 5, 8]);
    let rows = rng.range(1, 3);
    let row_len = rng.pick(&[
        1,
        2,
        chunk,
        (chunk - 1).max(1),
        chunk + 1,
        2 * chunk + 1,
        3 * chunk,
        13,
    ]);
    let t = rows * row_len;
    let (with_state, accumulate) = (rng.chance(0.5), rng.chance(0.5));
    let count = rows + rng.range(0, 4);
    let mut offsets = rng.offsets(t, count);
    if rng.chance(0.3) {
        offsets = vec![0];
    }
    let shape = SsdShape {
        heads,
        head_dim,
        state,
        groups,
        chunk,
        row_len,
    };
    let (inner, bc, all) = (heads * head_dim, groups * state, shape.state_elements());
    let mut u = unit(act);
    let (start, end) = u.bounds(t, row_len, &offsets);
    let (x, b, c) = (
        u.act(t, inner, &rng.normals(t * inner, 1.0)),
        u.act(t, bc, &rng.normals(t * bc, 1.0)),
        u.act(t, bc, &rng.normals(t * bc, 1.0)),
    );
    let delta = u.acc(t, heads, &rng.uniforms(t * heads, 0.05, 1.0));
    let a_log = u.acc(1, heads, &rng.uniforms(heads, -2.0, 1.0));
    let d = u.acc(1, heads, &rng.normals(heads, 1.0));
    let s0 = u.acc(rows, all, &rng.normals(rows * all, 1.0));
    let (wy, ws) = (rng.normals(t * inner, 1.0), rng.normals(rows * all, 1.0));
    let state_out = with_state.then(|| u.out_acc(rows, all));
    let fwd = SsdScanFwd {
        shape,
        x,
        b,
        c,
        delta,
        a_log,
        d,
        start,
        end,
        state_in: with_state.then_some(s0),
        y: u.out(t, inner),
        states: u.out_acc(rows * shape.chunks(), all),
        state_out,
    };
    let bwd = SsdScanBwd {
        fwd: fwd.clone(),
        dy: u.act(t, inner, &wy),
        dstate_out: with_state.then(|| u.acc(rows, all, &ws)),
        dx: u.out(t, inner),
        db: u.out(t, bc),
        dc: u.out(t, bc),
        ddelta: u.out_acc(t, heads),
        da_log: u.gradient(1, heads, accumulate),
        dd: u.gradient(1, heads, accumulate),
        accumulate,
        dstate_in: with_state.then(|| u.out_acc(rows, all)),
        partial_a: u.out_acc(rows, heads),
        partial_d: u.out_acc(rows, heads),
    };
    let mut inputs = vec![
        input("x", x, bwd.dx),
        input("B", b, bwd.db),
        input("C", c, bwd.dc),
        input("delta", delta, bwd.ddelta),
        input("A_log", a_log, bwd.da_log),
        input("D", d, bwd.dd),
    ];
    inputs.extend(bwd.dstate_in.map(|g| input("state", s0, g)));
    let label = format!("scan {shape:?} rows {rows} {offsets:?} state {with_state}");
    let y = fwd.y;
    let objective =
        move |r: &Results| weighted(r, y, &wy) + state_out.map_or(0.0, |s| weighted(r, s, &ws));
    let outputs = vec![("y", y)];
    Case {
        label: label,
        unit: u,
        forward: vec![fwd.into()],
        backward: vec![bwd.into()],
        objective: Box::new(objective),
        outputs,
        inputs: inputs,
    }
}

pub fn attention(rng: &mut Random, act: DType) -> Case {
    let (kv_heads, group, head_dim) = (rng.range(1, 3), rng.range(1, 3), rng.pick(&[1, 3, 5, 8]));
    let (rows, row_len) = (rng.range(1, 2), rng.pick(&[1, 2, 7, 63, 64, 65, 129, 140]));
    let (t, heads) = (rows * row_len, kv_heads * group);
    let count = rng.pick(&[0, 2, 5]);
    let offsets = rng.offsets(t, count);
    let shape = AttentionShape {
        heads,
        kv_heads,
        head_dim,
        row_len,
        scale: 0.6,
    };
    let (wide, narrow) = (heads * head_dim, kv_heads * head_dim);
    let mut u = unit(act);
    let (start, _) = u.bounds(t, row_len, &offsets);
    let (q, k, v) = (
        u.act(t, wide, &rng.normals(t * wide, 1.0)),
        u.act(t, narrow, &rng.normals(t * narrow, 1.0)),
        u.act(t, narrow, &rng.normals(t * narrow, 1.0)),
    );
    let wo = rng.normals(t * wide, 1.0);
    let fwd = AttentionFwd {
        shape,
        q,
        k,
        v,
        start,
        o: u.out(t, wide),
        lse: u.out_acc(t, heads),
    };
    let bwd = AttentionBwd {
        fwd: fwd.clone(),
        dout: u.act(t, wide, &wo),
        dq: u.out(t, wide),
        dk: u.out(t, narrow),
        dv: u.out(t, narrow),
    };
    let inputs = vec![
        input("q", q, bwd.dq),
        input("k", k, bwd.dk),
        input("v", v, bwd.dv),
    ];
    let (label, o) = (
        format!("attention {shape:?} rows {rows} {offsets:?}"),
        fwd.o,
    );
    let outputs = vec![("o", o)];
    Case {
        label: label,
        unit: u,
        forward: vec![fwd.into()],
        backward: vec![bwd.into()],
        objective: Box::new(move |r| weighted(r, o, &wo)),
        outputs,
        inputs: inputs,
    }
}

pub fn router_with_auxiliary_loss(rng: &mut Random, act: DType) -> Case {
    let (rows, experts) = (rng.range(1, 3), rng.pick(&[1, 2, 5, 8]));
    let row_len = rng.pick(&[1, 3, experts, 9]);
    let (t, d, k) = (rows * row_len, rng.pick(&[1, 4, 17]), rng.range(1, experts));
    let (normalize, accumulate) = (rng.chance(0.7), rng.chance(0.5));
    let (with_aux, with_padding) = (rng.chance(0.7), rng.chance(0.5));
    let mut u = unit(act);
    let (x, w) = (
        u.act(t, d, &rng.normals(t * d, 1.0)),
        u.act(experts, d, &rng.normals(experts * d, 1.0)),
    );
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
    let real = padding.map_or(t as f64, |p| {
        u.value(p).iter().filter(|v| **v == 0.0).count() as f64
    });
    let factor = if per_token { real } else { 1.0 / 3.0 };
    let weight = fwd.weight;
    let objective = move |r: &Results| {
        weighted(r, weight, &ww) + aux.as_ref().map_or(0.0, |a| factor * r.get(a.metric)[0])
    };
    let inputs = vec![input("x", x, dx), input("w", w, bwd.dw.unwrap())];
    let label = format!(
        "router {rows} x {row_len}, {k} of {experts}, aux {with_aux} padding {with_padding}"
    );
    let outputs = vec![("weight", weight)];
    Case {
        label: label,
        unit: u,
        forward: vec![fwd.into()],
        backward: vec![bwd.into()],
        objective: Box::new(objective),
        outputs,
        inputs: inputs,
    }
}

pub fn experts_from_dispatch_to_combination(rng: &mut Random, act: DType) -> Case {
    let experts = rng.pick(&[1, 2, 5, 8]);
    let (t, k) = (rng.pick(&[1, 3, experts, 20]), rng.range(1, experts.min(3)));
    let (d, f, accumulate) = (
        rng.pick(&[1, 4, 17]),
        rng.pick(&[1, 3, 18]),
        rng.chance(0.5),
    );
    let mut u = unit(act);
    // Now and then all tokens go to few experts, so that the first, the last or most have none.
    let usable = if rng.chance(0.5) {
        experts
    } else {
        k.max(experts / 2)
    };
    let shift = if rng.chance(0.5) { 0 } else { experts - usable };
    let idx: Vec<i32> = (0..t)
        .flat_map(|_| rng.distinct(usable, k))
        .map(|e| (e + shift) as i32)
        .collect();
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
    let combine = CombineFwd {
        y: fwd.y,
        slot_of_pair: plan.slot_of_pair,
        shared: Some(shared),
        out,
    };
    let (dup, ddown) = (
        u.gradient(experts * f, d, accumulate),
        u.gradient(experts * d, f, accumulate),
    );
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
    let dx = if accumulate {
        u.act(t, d, &rng.normals(t * d, 1.0))
    } else {
        u.out(t, d)
    };
    let gather = CombineBwd {
        dxs: bwd.dxs,
        slot_of_pair: plan.slot_of_pair,
        dx,
        accumulate,
    };
    let inputs = vec![
        input("x", x, dx),
        input("weight", weight, bwd.dweight),
        input("up", up, dup),
        input("down", down, ddown),
    ];
    let label = format!("experts {t} x {d}, {k} of {experts}, width {f}");
    let forward = vec![plan.into(), fwd.into(), combine.into()];
    let outputs = vec![("out", out)];
    Case {
        label: label,
        unit: u,
        forward: forward,
        backward: vec![bwd.into(), gather.into()],
        objective: Box::new(move |r| weighted(r, out, &wo)),
        outputs,
        inputs: inputs,
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
    let (t, v, d) = (
        rng.pick(&TOKENS),
        rng.pick(&[1, 3, 40]),
        rng.pick(&[1, 3, 32, 33, 64]),
    );
    let accumulate = rng.chance(0.5);
    let mut u = unit(act);
    let ids = u.ints(1, t, &rng.ints(t, v));
    let table = u.act(v, d, &rng.normals(v * d, 1.0));
    let wy = rng.normals(t * d, 1.0);
    let (y, dy, dtable) = (u.out(t, d), u.act(t, d, &wy), u.gradient(v, d, accumulate));
    let (fwd, bwd) = (
        EmbeddingFwd { ids, table, y }.into(),
        EmbeddingBwd {
            ids,
            dy,
            dtable,
            accumulate,
        }
        .into(),
    );
    let inputs = vec![input("table", table, dtable)];
    let outputs = vec![("y", y)];
    Case {
        label: "embedding".to_string(),
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, y, &wy)),
        outputs,
        inputs: inputs,
    }
}

pub fn cross_entropy_of_several_heads(rng: &mut Random, act: DType) -> Case {
    let (t, d, vocab) = (
        rng.pick(&[1, 2, 7, 33]),
        rng.pick(&[1, 4, 17]),
        rng.pick(&[1, 2, 15, 16, 40]),
    );
    let (heads, tile, accumulate) = (rng.range(1, 3), rng.range(1, t), rng.chance(0.5));
    let scale = if rng.chance(0.5) {
        LossScale::PerToken
    } else {
        LossScale::MeanOfMeans(rng.range(1, 3))
    };
    let mut u = unit(act);
    let w = u.act(vocab, d, &rng.normals(vocab * d, 1.0));
    let dw = u.gradient(vocab, d, accumulate);
    let mut list = Vec::new();
    for k in 0..heads {
        // Some heads, and now and then all of them, have nothing to predict.
        let mask = rng.pick(&[0.0, 0.6, 1.0]);
        let mask = rng.mask(t, mask);
        // Labels outside the vocabulary are allowed where the mask is 0.
        let label: Vec<i32> = mask
            .iter()
            .map(|m| {
                if *m == 1 {
                    rng.range(0, vocab - 1) as i32
                } else {
                    -100
                }
            })
            .collect();
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
    let op: Op = LinearCrossEntropy {
        heads: list.clone(),
        w,
        scale,
        dw: Some(dw),
        accumulate,
        logits: u.out(tile, vocab),
    }
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
    Case {
        label: label,
        unit: u,
        forward: vec![op],
        backward: vec![],
        objective: Box::new(objective),
        outputs,
        inputs: inputs,
    }
}
