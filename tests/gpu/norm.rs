//! Residual add and RMSNorm.

use super::compare::{Bound, Case, check_with_gaps, fresh};
use super::reduce::gradient;
use lightning_core::ops::{RmsNormBwd, RmsNormFwd};

#[test]
fn rms_norm() {
    let mut rng = fresh("rms_norm");
    for (t, d) in [(1, 1), (3, 7), (64, 8), (65, 257), (130, 64), (2, 2688)] {
        let branch = rng.chance(0.5);
        let accumulate = (rng.chance(0.5), rng.chance(0.5));
        let bf16_gradient = rng.chance(0.5);
        let [x, b, dy, dx] = [(); 4].map(|()| rng.normals(t * d, 1.0));
        let w = rng.normals(d, 1.0);
        let what = format!("{t} x {d}, branch {branch}, {accumulate:?}, bf16 gradient {bf16_gradient}");
        check_with_gaps(&what, &[0, 8, 1], |u| {
            let (xt, wt) = (u.act(t, d, &x), u.act(1, d, &w));
            let branch = branch.then(|| u.act(t, d, &b));
            let x_out = branch.map(|_| u.out(t, d));
            let (y, rstd) = (u.out(t, d), u.out_acc(t, 1));
            let dyt = u.act(t, d, &dy);
            let dxt = if accumulate.0 { u.act(t, d, &dx) } else { u.out(t, d) };
            let dw = gradient(u, (1, d), bf16_gradient, accumulate.1);
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
