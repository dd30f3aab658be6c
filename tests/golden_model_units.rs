//! Every operation but the scan (`golden_model_mixers.rs`) against the golden values of an independent reference.

mod support;

use lightning_core::ops::*;
use lightning_core::program::Op;
use lightning_core::tensor::{DType, Tensor};
use support::unit::{Results, Unit};
use support::*;

/// Epsilon of the norms in `units.safetensors` (README of the golden folder).
const EPS: f64 = 1e-5;

/// Bounds of values and gradients (f64 runs are compared with values stored as f32).
fn bounds(act: DType) -> (f64, f64) {
    if act == DType::F64 { (1e-6, 1e-6) } else { (2e-6, 1e-5) }
}

const TYPES: [DType; 2] = [DType::F64, DType::F32];

/// The entries of one operation in a golden file.
struct Entries<'g>(&'g GoldenFile, &'static str);

impl Entries<'_> {
    fn get(&self, name: &str) -> &Golden {
        self.0.get(&format!("{}.{name}", self.1))
    }
    fn v(&self, name: &str) -> &[f64] {
        &self.get(name).values
    }
    fn shape(&self, name: &str) -> &[usize] {
        &self.get(name).shape
    }
    fn check(&self, act: DType, r: &Results, tensor: Tensor, name: &str) {
        let (value, gradient) = bounds(act);
        let bound = if name.starts_with('d') { gradient } else { value };
        assert_close(&format!("{act} {}.{name}", self.1), &r.get(tensor), self.v(name), bound);
    }
}

#[test]
fn golden_model_unit_rms_norm() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "rmsnorm");
    let [t, d] = *e.shape("x") else { panic!() };
    for act in TYPES {
        let mut u = Unit::new(act);
        let (x, w, dy) = (u.act(t, d, e.v("x")), u.act(1, d, e.v("w")), u.act(t, d, e.v("dy")));
        let (y, rstd, dx) = (u.out(t, d), u.out_acc(t, 1), u.out(t, d));
        let (dw, partial) = (u.out_acc(1, d), u.out_acc(RmsNormBwd::partial_rows(t), d));
        let r = u.run(vec![
            RmsNormFwd { x, branch: None, w, eps: EPS, x_out: None, y, rstd }.into(),
            RmsNormBwd { dy, x, w, rstd, dx, accumulate_dx: false, dw, accumulate_dw: false, partial }.into(),
        ]);
        for (tensor, name) in [(y, "y"), (dx, "dx"), (dw, "dw")] {
            e.check(act, &r, tensor, name);
        }
    }
}

#[test]
fn golden_model_unit_gated_norm() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "gated_norm");
    let [t, c] = *e.shape("yin") else { panic!() };
    let groups = 4;
    for act in TYPES {
        let mut u = Unit::new(act);
        let (y, z) = (u.act(t, c, e.v("yin")), u.act(t, c, e.v("z")));
        let (w, dout) = (u.act(1, c, e.v("w")), u.act(t, c, e.v("dy")));
        let (o, rstd) = (u.out(t, c), u.out_acc(t, groups));
        let (dy, dz, dw) = (u.out(t, c), u.out(t, c), u.out_acc(1, c));
        let partial = u.out_acc(GatedRmsNormBwd::partial_rows(t), c);
        let r = u.run(vec![
            GatedRmsNormFwd { y, z, w, groups, eps: EPS, o, rstd }.into(),
            GatedRmsNormBwd { dout, y, z, w, groups, rstd, dy, dz, dw, accumulate: false, partial }.into(),
        ]);
        for (tensor, name) in [(o, "y"), (dy, "dyin"), (dz, "dz"), (dw, "dw")] {
            e.check(act, &r, tensor, name);
        }
    }
}

/// One expert that every token goes to, with the routing weight of the file.
#[test]
fn golden_model_unit_relu2_as_one_expert() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "relu2");
    let [t, d] = *e.shape("x") else { panic!() };
    let f = e.shape("up")[0];
    for act in TYPES {
        let mut u = Unit::new(act);
        let (x, weight) = (u.act(t, d, e.v("x")), u.acc(t, 1, e.v("weight")));
        let slots: Vec<i32> = (0..t as i32).collect();
        let (offsets, pair_of_slot) = (u.ints(1, 2, &[0, t as i32]), u.ints(1, t, &slots));
        let (up, down) = (u.act(f, d, e.v("up")), u.act(d, f, e.v("down")));
        let (xs, p, a, y) = (u.out(t, d), u.out(t, f), u.out(t, f), u.out(t, d));
        let fwd = ExpertsFwd { x, weight, offsets, pair_of_slot, up, down, xs, p, a, y };
        let (dout, dxs, dweight) = (u.act(t, d, e.v("dy")), u.out(t, d), u.out_acc(t, 1));
        let (dup, ddown) = (u.out_acc(f, d), u.out_acc(d, f));
        let (dys, a2, dp) = (u.out(t, d), u.out(t, f), u.out(t, f));
        let bwd = ExpertsBwd {
            fwd: fwd.clone(),
            dout,
            dxs,
            dweight,
            dweights: Some((dup, ddown)),
            accumulate: false,
            dys,
            a: a2,
            dp,
        };
        let r = u.run(vec![fwd.into(), bwd.into()]);
        for (tensor, name) in [(y, "y"), (dxs, "dx"), (dweight, "dweight"), (dup, "dup"), (ddown, "ddown")] {
            e.check(act, &r, tensor, name);
        }
    }
}

#[test]
fn golden_model_unit_conv() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "conv");
    let [rows, row_len, c] = *e.shape("x") else { panic!() };
    let (t, kernel) = (rows * row_len, e.shape("w")[2]);
    for act in TYPES {
        let mut u = Unit::new(act);
        let (x, dy) = (u.act(t, c, e.v("x")), u.act(t, c, e.v("dy")));
        let (w, b) = (u.act(c, kernel, e.v("w")), u.act(1, c, e.v("b")));
        let (start, _) = u.bounds_of(&e.get("doc").ints(), row_len);
        let (y, dx) = (u.out(t, c), u.out(t, c));
        let (dw, db, partial) = (u.out_acc(c, kernel), u.out_acc(1, c), u.out_acc(kernel + 1, c));
        let r = u.run(vec![
            ConvSiluFwd { x, w, b, start, y }.into(),
            ConvSiluBwd { dy, x, w, b, start, dx, dw, db, accumulate: false, partial }.into(),
        ]);
        for (tensor, name) in [(y, "y"), (dx, "dx"), (dw, "dw"), (db, "db")] {
            e.check(act, &r, tensor, name);
        }
    }
}

#[test]
fn golden_model_unit_attention() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "attention");
    let [rows, row_len, heads, head_dim] = *e.shape("q") else { panic!() };
    let (t, kv_heads) = (rows * row_len, e.shape("k")[2]);
    let scale = 1.0 / (head_dim as f64).sqrt();
    let shape = AttentionShape { heads, kv_heads, head_dim, row_len, scale };
    for act in TYPES {
        let mut u = Unit::new(act);
        let (wide, narrow) = (heads * head_dim, kv_heads * head_dim);
        let (q, k, v) = (u.act(t, wide, e.v("q")), u.act(t, narrow, e.v("k")), u.act(t, narrow, e.v("v")));
        let (start, _) = u.bounds_of(&e.get("doc").ints(), row_len);
        let (o, lse, dout) = (u.out(t, wide), u.out_acc(t, heads), u.act(t, wide, e.v("dy")));
        let (dq, dk, dv) = (u.out(t, wide), u.out(t, narrow), u.out(t, narrow));
        let fwd = AttentionFwd { shape, q, k, v, start, o, lse };
        let bwd = AttentionBwd { fwd: fwd.clone(), dout, dq, dk, dv };
        let r = u.run(vec![fwd.into(), bwd.into()]);
        for (tensor, name) in [(o, "y"), (dq, "dq"), (dk, "dk"), (dv, "dv")] {
            e.check(act, &r, tensor, name);
        }
    }
}

#[test]
fn golden_model_unit_lora() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "lora");
    let [t, i] = *e.shape("x") else { panic!() };
    let (o, rank) = (e.shape("W")[0], e.shape("A")[0]);
    let scale = g.meta("lora_scale");
    for act in TYPES {
        let mut u = Unit::new(act);
        let (x, w) = (u.act(t, i, e.v("x")), u.act(o, i, e.v("W")));
        let (a, b) = (u.act(rank, i, e.v("A")), u.act(o, rank, e.v("B")));
        let (y, uu, dy, dx) = (u.out(t, o), u.out(t, rank), u.act(t, o, e.v("dy")), u.out(t, i));
        let (da, db, v) = (u.out_acc(rank, i), u.out_acc(o, rank), u.out(t, rank));
        let adapter = Adapter { a, b, scale, u: uu };
        let gradients = AdapterGradients { da, db, accumulate: false, v };
        let r = u.run(vec![
            LinearFwd { x, w, y, adapter: Some(adapter) }.into(),
            LinearBwd {
                dy,
                x,
                w,
                dx: Some(dx),
                accumulate_dx: false,
                dw: None,
                accumulate_dw: false,
                adapter: Some((adapter, gradients)),
            }
            .into(),
        ]);
        for (tensor, name) in [(y, "y"), (dx, "dx"), (da, "dA"), (db, "dB")] {
            e.check(act, &r, tensor, name);
        }
    }
}

/// A router whose tokens are the logits and whose weight is the identity, so that the gradient of the tokens is that of
/// the logits.
struct IdentityRouter {
    fwd: RouterFwd,
    bwd: RouterBwd,
    counts: Tensor,
}

#[allow(clippy::too_many_arguments)]
fn identity_router(
    u: &mut Unit,
    logits: &[f64],
    bias: &[f64],
    dweight: &[f64],
    (rows, row_len, experts, top_k): (usize, usize, usize, usize),
    scale: f64,
    padding: Option<&[i32]>,
    aux: Option<(f64, Option<usize>)>,
) -> IdentityRouter {
    let t = rows * row_len;
    let identity: Vec<f64> = (0..experts * experts).map(|i| f64::from(u8::from(i / experts == i % experts))).collect();
    let (x, w) = (u.act(t, experts, logits), u.act(experts, experts, &identity));
    let counts = u.ints(1, experts, &vec![0; experts]);
    let aux = aux.map(|(coefficient, micro_batches)| AuxLoss {
        coefficient,
        micro_batches,
        stats: u.out_acc(rows, experts + 2),
        metric: u.metric(1),
    });
    let fwd = RouterFwd {
        x,
        w,
        bias: u.acc(1, experts, bias),
        source: RouterLogits::Computed,
        top_k,
        scale,
        normalize: true,
        row_len,
        padding: padding.map(|p| u.ints(1, t, p)),
        logits: u.out_acc(t, experts),
        idx: u.out_ints(t, top_k),
        weight: u.out_acc(t, top_k),
        counts: Some(counts),
        row_counts: u.out_ints(rows, experts),
        aux,
    };
    let bwd = RouterBwd {
        fwd: fwd.clone(),
        dweight: u.acc(t, top_k, dweight),
        dx: u.act(t, experts, &vec![0.0; t * experts]),
        dw: Some(u.out_acc(experts, experts)),
        accumulate: false,
        dlogits: u.out_acc(t, experts),
        wide: None,
    };
    IdentityRouter { fwd, bwd, counts }
}

impl IdentityRouter {
    fn run(&self, u: &Unit) -> Results {
        u.run(vec![self.fwd.clone().into(), self.bwd.clone().into()])
    }
}

#[test]
fn golden_model_unit_router() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "router");
    let [rows, row_len, experts] = *e.shape("logits") else { panic!() };
    let k = e.shape("idx")[2];
    // Normalised weights of a token add up to the scaling factor.
    let scale = (e.v("weight")[..k].iter().sum::<f64>() * 1e4).round() / 1e4;
    for act in TYPES {
        let mut u = Unit::new(act);
        let sizes = (rows, row_len, experts, k);
        let router = identity_router(&mut u, e.v("logits"), e.v("bias"), e.v("dweight"), sizes, scale, None, None);
        let r = router.run(&u);
        assert_eq!(r.get(router.fwd.idx), e.v("idx"), "{act} idx");
        e.check(act, &r, router.fwd.weight, "weight");
        e.check(act, &r, router.bwd.dx, "dlogits");
        let mut counts = vec![0.0; experts];
        for i in e.v("idx") {
            counts[*i as usize] += 1.0;
        }
        assert_eq!(r.get(router.counts), counts);
    }
}

#[test]
fn golden_model_unit_sequence_aux_loss() {
    let g = read_golden("units.safetensors");
    let (router, aux, pad) = (Entries(&g, "router"), Entries(&g, "aux"), Entries(&g, "auxpad"));
    let [rows, row_len, experts] = *router.shape("logits") else { panic!() };
    let (k, c) = (router.shape("idx")[2], 1e-2);
    let padding: Vec<i32> = pad.get("valid").ints().iter().map(|v| 1 - v).collect();
    let valid = padding.iter().filter(|p| **p == 0).count();
    for act in TYPES {
        let (value, gradient) = bounds(act);
        for (e, rows, padding, tokens) in [(&aux, rows, None, rows * row_len), (&pad, 1, Some(&padding[..]), valid)] {
            // Without per-token loss, with it (times the tokens), and as one of four micro-batches.
            for (micro_batches, factor) in [(Some(1), 1.0), (None, tokens as f64), (Some(4), 0.25)] {
                let mut u = Unit::new(act);
                let (logits, n) = (&router.v("logits")[..rows * row_len * experts], rows * row_len * k);
                let (sizes, none) = ((rows, row_len, experts, k), vec![0.0; n]);
                let with = Some((c, micro_batches));
                let unit = identity_router(&mut u, logits, router.v("bias"), &none, sizes, 2.5, padding, with);
                let r = unit.run(&u);
                let with = unit.fwd.aux.as_ref().unwrap();
                assert_close(&format!("{act} {} loss", e.1), &r.get(with.metric), e.v("loss"), value);
                let stats = r.get(with.stats);
                let f: Vec<f64> = stats.chunks(experts + 2).flat_map(|row| row[..experts].to_vec()).collect();
                assert_eq!(f, e.v("f"), "{act} {} f", e.1);
                let want: Vec<f64> = e.v("dlogits").iter().map(|v| v * factor).collect();
                assert_close(&format!("{act} {} dlogits", e.1), &r.get(unit.bwd.dx), &want, gradient);
            }
        }
    }
}

#[test]
fn golden_model_unit_expert_bias() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "bias");
    let [rows, experts] = *e.shape("counts") else { panic!() };
    for act in TYPES {
        for row in 0..rows {
            let part = |name: &str| e.v(name)[row * experts..(row + 1) * experts].to_vec();
            let mut u = Unit::new(act);
            let ints: Vec<i32> = part("counts").iter().map(|c| *c as i32).collect();
            let (counts, bias) = (u.ints(1, experts, &ints), u.acc(1, experts, &part("before")));
            let last = u.out_ints(1, experts);
            let r = u.run(vec![ExpertBiasUpdate { counts, bias, rate: 1e-3, last }.into()]);
            assert_close("bias after", &r.get(bias), &part("after"), bounds(act).0);
            assert_eq!(r.get(last), part("counts"));
            assert!(r.get(counts).iter().all(|c| *c == 0.0));
        }
    }
}

#[test]
fn golden_model_unit_cross_entropy() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "ce");
    let [t, d] = *e.shape("h") else { panic!() };
    let vocab = e.shape("W")[0];
    for act in TYPES {
        for tile in [1, 2, t - 1, t] {
            let mut u = Unit::new(act);
            let (h, w) = (u.act(t, d, e.v("h")), u.act(vocab, d, e.v("W")));
            let label = u.ints(1, t, &e.get("labels").ints());
            let mask = u.ints(1, t, &e.get("mask").ints());
            let (ce, dh, dw) = (u.out_acc(1, t), u.out(t, d), u.out_acc(vocab, d));
            let (metric, logits) = (u.metric(4), u.out(tile, vocab));
            let op: Op = LinearCrossEntropy {
                heads: vec![LossHead { h, label, mask, factor: 1.0, ce, dh: Some(dh), metric }],
                w,
                scale: LossScale::MeanOfMeans(1),
                dw: Some(dw),
                accumulate: false,
                logits,
            }
            .into();
            let r = u.run(vec![op]);
            for (tensor, name) in [(ce, "token"), (dh, "dh"), (dw, "dW")] {
                e.check(act, &r, tensor, name);
            }
            let metric = r.get(metric);
            assert_close("loss", &metric[2..3], e.v("loss"), bounds(act).0);
            assert_eq!(metric[1], e.v("mask").iter().sum::<f64>());
        }
    }
}
