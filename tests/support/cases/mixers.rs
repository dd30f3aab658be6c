//! Cases of the Mamba and attention mixers.

use super::super::gradcheck::{input, weighted};
use super::super::random::Random;
use super::super::unit::Results;
use super::{Case, TOKENS, WIDTHS, unit};
use lightning_core::ops::*;
use lightning_core::program::Op;
use lightning_core::tensor::DType;

pub fn selective_scan(rng: &mut Random, act: DType) -> Case {
    let (groups, per_group) = (rng.range(1, 3), rng.range(1, 3));
    let (heads, head_dim, state) = (groups * per_group, rng.pick(&[1, 3, 5]), rng.pick(&[1, 2, 7]));
    let chunk = rng.pick(&[1, 2, 4, 5, 8]);
    let rows = rng.range(1, 3);
    let row_len = rng.pick(&[1, 2, chunk, (chunk - 1).max(1), chunk + 1, 2 * chunk + 1, 3 * chunk, 13]);
    let t = rows * row_len;
    let (with_state, accumulate) = (rng.chance(0.5), rng.chance(0.5));
    let count = rows + rng.range(0, 4);
    let mut offsets = rng.offsets(t, count);
    if rng.chance(0.3) {
        offsets = vec![0];
    }
    let shape = SsdShape { heads, head_dim, state, groups, chunk, row_len };
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
    let objective = move |r: &Results| weighted(r, y, &wy) + state_out.map_or(0.0, |s| weighted(r, s, &ws));
    let outputs = vec![("y", y)];
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

pub fn attention(rng: &mut Random, act: DType) -> Case {
    let (kv_heads, group, head_dim) = (rng.range(1, 3), rng.range(1, 3), rng.pick(&[1, 3, 5, 8]));
    let (rows, row_len) = (rng.range(1, 2), rng.pick(&[1, 2, 7, 63, 64, 65, 129, 140]));
    let (t, heads) = (rows * row_len, kv_heads * group);
    let count = rng.pick(&[0, 2, 5]);
    let offsets = rng.offsets(t, count);
    let shape = AttentionShape { heads, kv_heads, head_dim, row_len, scale: 0.6 };
    let (wide, narrow) = (heads * head_dim, kv_heads * head_dim);
    let mut u = unit(act);
    let (start, _) = u.bounds(t, row_len, &offsets);
    let (q, k, v) = (
        u.act(t, wide, &rng.normals(t * wide, 1.0)),
        u.act(t, narrow, &rng.normals(t * narrow, 1.0)),
        u.act(t, narrow, &rng.normals(t * narrow, 1.0)),
    );
    let wo = rng.normals(t * wide, 1.0);
    let fwd = AttentionFwd { shape, q, k, v, start, o: u.out(t, wide), lse: u.out_acc(t, heads) };
    let bwd = AttentionBwd {
        fwd: fwd.clone(),
        dout: u.act(t, wide, &wo),
        dq: u.out(t, wide),
        dk: u.out(t, narrow),
        dv: u.out(t, narrow),
    };
    let inputs = vec![input("q", q, bwd.dq), input("k", k, bwd.dk), input("v", v, bwd.dv)];
    let (label, o) = (format!("attention {shape:?} rows {rows} {offsets:?}"), fwd.o);
    let outputs = vec![("o", o)];
    Case {
        label,
        unit: u,
        forward: vec![fwd.into()],
        backward: vec![bwd.into()],
        objective: Box::new(move |r| weighted(r, o, &wo)),
        outputs,
        inputs,
    }
}

pub fn conv_stops_at_documents(rng: &mut Random, act: DType) -> Case {
    let (rows, row_len) = (rng.range(1, 3), rng.pick(&[1, 2, 3, 5, 64, 90]));
    let (t, c, kernel) = (rows * row_len, rng.pick(&[1, 3, 17, 65, 128, 192]), rng.range(1, 5));
    let accumulate = rng.chance(0.5);
    let offsets = rng.offsets(t, rows + 3);
    let mut u = unit(act);
    let (start, _) = u.bounds(t, row_len, &offsets);
    let (x, w) = (u.act(t, c, &rng.normals(t * c, 1.0)), u.act(c, kernel, &rng.normals(c * kernel, 1.0)));
    let b = u.act(1, c, &rng.normals(c, 1.0));
    let wy = rng.normals(t * c, 1.0);
    let (y, dy, dx) = (u.out(t, c), u.act(t, c, &wy), u.out(t, c));
    let (dw, db) = (u.gradient(c, kernel, accumulate), u.gradient(1, c, accumulate));
    let partial = u.out_acc(kernel + 1, c);
    let fwd: Op = ConvSiluFwd { x, w, b, start, y }.into();
    let bwd: Op = ConvSiluBwd { dy, x, w, b, start, dx, dw, db, accumulate, partial }.into();
    let inputs = vec![input("x", x, dx), input("w", w, dw), input("b", b, db)];
    let label = format!("conv {rows} x {row_len} x {c}, {kernel} taps, {offsets:?}");
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
    let fwd: Op = SoftplusDtFwd { raw, bias, dt_min, delta }.into();
    let bwd: Op = SoftplusDtBwd { ddelta, raw, bias, dt_min, draw, dbias, accumulate, partial }.into();
    let inputs = vec![input("raw", raw, draw), input("bias", bias, dbias)];
    let label = format!("dt {t} x {h}, clamp {dt_min}");
    let outputs = vec![("delta", delta)];
    Case {
        label,
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, delta, &wd)),
        outputs,
        inputs,
    }
}

pub fn gated_norm_groups(rng: &mut Random, act: DType) -> Case {
    let (t, groups, width) = (rng.pick(&TOKENS), rng.pick(&[1, 2, 3, 8]), rng.pick(&[1, 2, 5, 16, 17, 35]));
    let (c, accumulate) = (groups * width, rng.chance(0.5));
    let mut u = unit(act);
    let (y, z) = (u.act(t, c, &rng.normals(t * c, 1.0)), u.act(t, c, &rng.normals(t * c, 1.5)));
    let w = u.act(1, c, &rng.normals(c, 1.0));
    let wo = rng.normals(t * c, 1.0);
    let (o, rstd, dout) = (u.out(t, c), u.out_acc(t, groups), u.act(t, c, &wo));
    let (dy, dz, dw) = (u.out(t, c), u.out(t, c), u.gradient(1, c, accumulate));
    let partial = u.out_acc(GatedRmsNormBwd::partial_rows(t), c);
    let fwd: Op = GatedRmsNormFwd { y, z, w, groups, eps: 5e-2, o, rstd }.into();
    let bwd: Op = GatedRmsNormBwd { dout, y, z, w, groups, rstd, dy, dz, dw, accumulate, partial }.into();
    let inputs = vec![input("y", y, dy), input("z", z, dz), input("w", w, dw)];
    let label = format!("gated norm {t} x {groups} x {width}");
    let outputs = vec![("o", o)];
    Case {
        label,
        unit: u,
        forward: vec![fwd],
        backward: vec![bwd],
        objective: Box::new(move |r| weighted(r, o, &wo)),
        outputs,
        inputs,
    }
}
