//! Residual add and RMSNorm, gated RMSNorm.

use super::compare::{Bound, Case, check_naive, check_with_gaps, fresh, real_tokens};
use super::conv::weight_gradient;
use super::support::random::Random;
use super::support::unit::Unit;
use lightning_core::ops::{GatedRmsNormBwd, GatedRmsNormFwd, RmsNormBwd, RmsNormFwd};

#[test]
fn rms_norm() {
    let mut rng = fresh("rms_norm");
    // The gradient of a norm over one channel is nothing but cancellation; kernels-sys/tests/rms_norm.rs has that shape.
    for (t, d) in [(1, 5), (3, 7), (64, 8), (65, 257), (130, 64), (2, 2688)] {
        let branch = rng.chance(0.5);
        let accumulate = (rng.chance(0.5), rng.chance(0.5));
        let [x, b, dy, dx] = [(); 4].map(|()| rng.normals(t * d, 1.0));
        let w = rng.normals(d, 1.0);
        check_with_gaps(&format!("{t} x {d}, branch {branch}, {accumulate:?}"), &[0, 8, 1], |u| {
            let (xt, wt) = (u.act(t, d, &x), u.act(1, d, &w));
            let branch = branch.then(|| u.act(t, d, &b));
            let x_out = branch.map(|_| u.out(t, d));
            let (y, rstd) = (u.out(t, d), u.out_acc(t, 1));
            let dyt = u.act(t, d, &dy);
            let dxt = if accumulate.0 { u.act(t, d, &dx) } else { u.out(t, d) };
            let dw = u.gradient(1, d, accumulate.1);
            let partial = u.out_acc(RmsNormBwd::partial_rows(t), d);
            let normalised = x_out.unwrap_or(xt);
            let ops = vec![
                RmsNormFwd { x: xt, branch, w: wt, eps: 1e-5, x_out, y, rstd }.into(),
                RmsNormBwd {
                    dy: dyt,
                    x: normalised,
                    w: wt,
                    rstd,
                    dx: dxt,
                    accumulate_dx: accumulate.0,
                    dw,
                    accumulate_dw: accumulate.1,
                    partial,
                }
                .into(),
            ];
            let mut results = vec![
                ("y", y, Bound::Value),
                ("rstd", rstd, Bound::Value),
                ("dx", dxt, Bound::Gradient),
                ("dw", dw, Bound::Gradient),
            ];
            results.extend(x_out.map(|x| ("x_out", x, Bound::Exact)));
            Case { ops, results }
        });
    }
}

/// Draws operands for tokens, groups and their width, and returns how to build the case.
fn gated(rng: &mut Random, (t, groups, width): (usize, usize, usize)) -> impl Fn(&mut Unit) -> Case {
    let c = groups * width;
    let (accumulate, narrow) = (rng.chance(0.5), rng.chance(0.5));
    let [y, dout] = [(); 2].map(|()| rng.normals(t * c, 1.0));
    let (z, w, dw0) = (rng.normals(t * c, 1.5), rng.normals(c, 1.0), rng.normals(c, 1.0));
    move |u| {
        let (y, z, w, dout) = (u.act(t, c, &y), u.act(t, c, &z), u.act(1, c, &w), u.act(t, c, &dout));
        let (o, rstd) = (u.out(t, c), u.out_acc(t, groups));
        let (dy, dz) = (u.out(t, c), u.out(t, c));
        let dw = weight_gradient(u, 1, c, accumulate, narrow, &dw0);
        let partial = u.out_acc(GatedRmsNormBwd::partial_rows(t), c);
        Case {
            ops: vec![
                GatedRmsNormFwd { y, z, w, groups, eps: 1e-5, o, rstd }.into(),
                GatedRmsNormBwd { dout, y, z, w, groups, rstd, dy, dz, dw, accumulate, partial }.into(),
            ],
            results: vec![
                ("o", o, Bound::Value),
                ("rstd", rstd, Bound::Value),
                ("dy", dy, Bound::Gradient),
                ("dz", dz, Bound::Gradient),
                ("dw", dw, Bound::Gradient),
            ],
        }
    }
}

fn check_gated(rng: &mut Random, gaps: &[usize], shape: (usize, usize, usize)) {
    check_with_gaps(&format!("tokens, groups, width: {shape:?}"), gaps, gated(rng, shape));
}

#[test]
fn gated_rms_norm() {
    let mut rng = fresh("gated_rms_norm");
    for shape in [(0, 2, 8), (1, 1, 1), (3, 2, 7), (63, 1, 8), (64, 3, 5), (65, 2, 33), (130, 1, 24), (5, 2, 264)] {
        check_gated(&mut rng, &[0, 8, 1], shape);
    }
    check_naive("gated norm", gated(&mut rng, (70, 3, 40)));
}

/// Every group has a mean of its own (pitfall B54; kernels.md §3, row 5: 8 groups of 512).
#[test]
fn b54_gated_rms_norm_of_eight_groups() {
    let mut rng = fresh("b54");
    check_gated(&mut rng, &[0], (3, 8, 512));
    check_gated(&mut rng, &[0], (9, 8, 16));
}

#[test]
fn norms_of_the_real_model() {
    let mut rng = fresh("norms of the real model");
    check_gated(&mut rng, &[0, 10304 - 4096], (real_tokens(), 8, 512));
}
