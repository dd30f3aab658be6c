//! Time steps of the Mamba-2 scan.

use super::compare::{Bound, Case, check_with_gaps, fresh};
use super::conv::weight_gradient;
use lightning_core::ops::{SoftplusDtBwd, SoftplusDtFwd};

#[test]
fn softplus_dt() {
    let mut rng = fresh("softplus_dt");
    for (t, h, dt_min) in
        [(0, 3, 0.0), (1, 1, 0.0), (31, 8, 0.3), (33, 33, 0.0), (63, 7, 0.0), (65, 64, 0.3), (130, 5, 0.0)]
    {
        let (accumulate, narrow) = (rng.chance(0.5), rng.chance(0.5));
        let mut raw = rng.normals(t * h, 1.5);
        if t > 0 {
            // Beyond the switch to the identity, and far below it.
            (raw[0], raw[t * h - 1]) = (25.0, -30.0);
        }
        let (bias, ddelta, start) = (rng.normals(h, 0.5), rng.normals(t * h, 1.0), rng.normals(h, 1.0));
        check_with_gaps(&format!("{t} x {h}, clamp {dt_min}, {accumulate}, {narrow}"), &[0, 8, 1], |u| {
            let (raw, bias, ddelta) = (u.act(t, h, &raw), u.acc(1, h, &bias), u.acc(t, h, &ddelta));
            let (delta, draw) = (u.out_acc(t, h), u.out(t, h));
            let dbias = weight_gradient(u, 1, h, accumulate, narrow, &start);
            let partial = u.out_acc(SoftplusDtBwd::partial_rows(t), h);
            Case {
                ops: vec![
                    SoftplusDtFwd { raw, bias, dt_min, delta }.into(),
                    SoftplusDtBwd { ddelta, raw, bias, dt_min, draw, dbias, accumulate, partial }.into(),
                ],
                results: vec![
                    ("delta", delta, Bound::Value),
                    ("draw", draw, Bound::Gradient),
                    ("dbias", dbias, Bound::Gradient),
                ],
            }
        });
    }
}
