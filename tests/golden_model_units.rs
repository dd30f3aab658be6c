//! Every operation, the selective scan and the packed mixers against the golden values of an independent reference.

mod support;

use lightning_core::ops::*;
use lightning_core::program::Op;
use lightning_core::tensor::{DType, Tensor};
use support::unit::{Results, Unit};
use support::*;

/// Epsilon of the norms in `units.safetensors` and `varlen.safetensors` (README of the golden folder).
const EPS: f64 = 1e-5;

/// Bounds of values and gradients (f64 runs are compared with values stored as f32).
fn bounds(act: DType) -> (f64, f64) {
    if act == DType::F64 {
        (1e-6, 1e-6)
    } else {
        (2e-6, 1e-5)
    }
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
        let bound = if name.starts_with('d') {
            gradient
        } else {
            value
        };
        assert_close(
            &format!("{act} {}.{name}", self.1),
            &r.get(tensor),
            self.v(name),
            bound,
        );
    }
}

#[test]
fn golden_model_unit_rms_norm() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "rmsnorm");
    let [t, d] = *e.shape("x") else { panic!() };
    for act in TYPES {
        let mut u = Unit::new(act);
        let (x, w, dy) = (
            u.act(t, d, e.v("x")),
            u.act(1, d, e.v("w")),
            u.act(t, d, e.v("dy")),
        );
        let (y, rstd, dx) = (u.out(t, d), u.out_acc(t, 1), u.out(t, d));
        let (dw, partial) = (u.out_acc(1, d), u.out_acc(RmsNormBwd::partial_rows(t), d));
        let r = u.run(vec![
            RmsNormFwd {
                x,
                branch: None,
                w,
                eps: EPS,
                x_out: None,
                y,
                rstd,
            }
            .into(),
            RmsNormBwd {
                dy,
                x,
                w,
                rstd,
                dx,
                accumulate_dx: false,
                dw,
                accumulate_dw: false,
                partial,
            }
            .into(),
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
            GatedRmsNormFwd {
                y,
                z,
                w,
                groups,
                eps: EPS,
                o,
                rstd,
            }
            .into(),
            GatedRmsNormBwd {
                dout,
                y,
                z,
                w,
                groups,
                rstd,
                dy,
                dz,
                dw,
                accumulate: false,
                partial,
            }
            .into(),
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
        let fwd = ExpertsFwd {
            x,
            weight,
            offsets,
            pair_of_slot,
            up,
            down,
            xs,
            p,
            a,
            y,
        };
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
        for (tensor, name) in [
            (y, "y"),
            (dxs, "dx"),
            (dweight, "dweight"),
            (dup, "dup"),
            (ddown, "ddown"),
        ] {
            e.check(act, &r, tensor, name);
        }
    }
}

#[test]
fn golden_model_unit_conv() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "conv");
    let [rows, row_len, c] = *e.shape("x") else {
        panic!()
    };
    let (t, kernel) = (rows * row_len, e.shape("w")[2]);
    for act in TYPES {
        let mut u = Unit::new(act);
        let (x, dy) = (u.act(t, c, e.v("x")), u.act(t, c, e.v("dy")));
        let (w, b) = (u.act(c, kernel, e.v("w")), u.act(1, c, e.v("b")));
        let (start, _) = u.bounds_of(&e.get("doc").ints(), row_len);
        let (y, dx) = (u.out(t, c), u.out(t, c));
        let (dw, db, partial) = (
            u.out_acc(c, kernel),
            u.out_acc(1, c),
            u.out_acc(kernel + 1, c),
        );
        let r = u.run(vec![
            ConvSiluFwd { x, w, b, start, y }.into(),
            ConvSiluBwd {
                dy,
                x,
                w,
                b,
                start,
                dx,
                dw,
                db,
                accumulate: false,
                partial,
            }
            .into(),
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
    let [rows, row_len, heads, head_dim] = *e.shape("q") else {
        panic!()
    };
    let (t, kv_heads) = (rows * row_len, e.shape("k")[2]);
    let scale = 1.0 / (head_dim as f64).sqrt();
    let shape = AttentionShape {
        heads,
        kv_heads,
        head_dim,
        row_len,
        scale,
    };
    for act in TYPES {
        let mut u = Unit::new(act);
        let (wide, narrow) = (heads * head_dim, kv_heads * head_dim);
        let (q, k, v) = (
            u.act(t, wide, e.v("q")),
            u.act(t, narrow, e.v("k")),
            u.act(t, narrow, e.v("v")),
        );
        let (start, _) = u.bounds_of(&e.get("doc").ints(), row_len);
        let (o, lse, dout) = (
            u.out(t, wide),
            u.out_acc(t, heads),
            u.act(t, wide, e.v("dy")),
        );
        let (dq, dk, dv) = (u.out(t, wide), u.out(t, narrow), u.out(t, narrow));
        let fwd = AttentionFwd {
            shape,
            q,
            k,
            v,
            start,
            o,
            lse,
        };
        let bwd = AttentionBwd {
            fwd: fwd.clone(),
            dout,
            dq,
            dk,
            dv,
        };
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
        let (y, uu, dy, dx) = (
            u.out(t, o),
            u.out(t, rank),
            u.act(t, o, e.v("dy")),
            u.out(t, i),
        );
        let (da, db, v) = (u.out_acc(rank, i), u.out_acc(o, rank), u.out(t, rank));
        let adapter = Adapter { a, b, scale, u: uu };
        let gradients = AdapterGradients {
            da,
            db,
            accumulate: false,
            v,
        };
        let r = u.run(vec![
            LinearFwd {
                x,
                w,
                y,
                adapter: Some(adapter),
            }
            .into(),
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
    let identity: Vec<f64> = (0..experts * experts)
        .map(|i| f64::from(u8::from(i / experts == i % experts)))
        .collect();
    let (x, w) = (
        u.act(t, experts, logits),
        u.act(experts, experts, &identity),
    );
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
    let [rows, row_len, experts] = *e.shape("logits") else {
        panic!()
    };
    let k = e.shape("idx")[2];
    // Normalised weights of a token add up to the scaling factor.
    let scale = (e.v("weight")[..k].iter().sum::<f64>() * 1e4).round() / 1e4;
    for act in TYPES {
        let mut u = Unit::new(act);
        let sizes = (rows, row_len, experts, k);
        let router = identity_router(
            &mut u,
            e.v("logits"),
            e.v("bias"),
            e.v("dweight"),
            sizes,
            scale,
            None,
            None,
        );
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
    let (router, aux, pad) = (
        Entries(&g, "router"),
        Entries(&g, "aux"),
        Entries(&g, "auxpad"),
    );
    let [rows, row_len, experts] = *router.shape("logits") else {
        panic!()
    };
    let (k, c) = (router.shape("idx")[2], 1e-2);
    let padding: Vec<i32> = pad.get("valid").ints().iter().map(|v| 1 - v).collect();
    let valid = padding.iter().filter(|p| **p == 0).count();
    for act in TYPES {
        let (value, gradient) = bounds(act);
        for (e, rows, padding, tokens) in [
            (&aux, rows, None, rows * row_len),
            (&pad, 1, Some(&padding[..]), valid),
        ] {
            // Without per-token loss, with it (times the tokens), and as one of four micro-batches.
            for (micro_batches, factor) in [(Some(1), 1.0), (None, tokens as f64), (Some(4), 0.25)]
            {
                let mut u = Unit::new(act);
                let (logits, n) = (
                    &router.v("logits")[..rows * row_len * experts],
                    rows * row_len * k,
                );
                let (sizes, none) = ((rows, row_len, experts, k), vec![0.0; n]);
                let with = Some((c, micro_batches));
                let unit = identity_router(
                    &mut u,
                    logits,
                    router.v("bias"),
                    &none,
                    sizes,
                    2.5,
                    padding,
                    with,
                );
                let r = unit.run(&u);
                let with = unit.fwd.aux.as_ref().unwrap();
                assert_close(
                    &format!("{act} {} loss", e.1),
                    &r.get(with.metric),
                    e.v("loss"),
                    value,
                );
                let stats = r.get(with.stats);
                let f: Vec<f64> = stats
                    .chunks(experts + 2)
                    .flat_map(|row| row[..experts].to_vec())
                    .collect();
                assert_eq!(f, e.v("f"), "{act} {} f", e.1);
                let want: Vec<f64> = e.v("dlogits").iter().map(|v| v * factor).collect();
                assert_close(
                    &format!("{act} {} dlogits", e.1),
                    &r.get(unit.bwd.dx),
                    &want,
                    gradient,
                );
            }
        }
    }
}

#[test]
fn golden_model_unit_expert_bias() {
    let g = read_golden("units.safetensors");
    let e = Entries(&g, "bias");
    let [rows, experts] = *e.shape("counts") else {
        panic!()
    };
    for act in TYPES {
        for row in 0..rows {
            let part = |name: &str| e.v(name)[row * experts..(row + 1) * experts].to_vec();
            let mut u = Unit::new(act);
            let ints: Vec<i32> = part("counts").iter().map(|c| *c as i32).collect();
            let (counts, bias) = (
                u.ints(1, experts, &ints),
                u.acc(1, experts, &part("before")),
            );
            let last = u.out_ints(1, experts);
            let r = u.run(vec![
                ExpertBiasUpdate {
                    counts,
                    bias,
                    rate: 1e-3,
                    last,
                }
                .into(),
            ]);
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
                heads: vec![LossHead {
                    h,
                    label,
                    mask,
                    factor: 1.0,
                    ce,
                    dh: Some(dh),
                    metric,
                }],
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

#[test]
fn golden_model_ssd_any_chunk() {
    let g = read_golden("ssd.safetensors");
    let mut prefixes: Vec<&str> = g
        .tensors
        .keys()
        .filter_map(|n| n.strip_suffix(".x"))
        .collect();
    prefixes.sort_unstable();
    assert_eq!(prefixes, ["docs", "real", "small", "state"]);
    for act in TYPES {
        for prefix in &prefixes {
            let v = |name: &str| &g.get(&format!("{prefix}.{name}")).values[..];
            let has = |name: &str| g.tensors.contains_key(&format!("{prefix}.{name}"));
            let shape = |name: &str| g.get(&format!("{prefix}.{name}")).shape.clone();
            let [t, heads, head_dim] = shape("x")[..] else {
                panic!()
            };
            let [_, groups, state] = shape("B")[..] else {
                panic!()
            };
            let chunks: &[usize] = if *prefix == "real" {
                &[64, 128, t]
            } else {
                &[1, 2, 3, 7, 16, t - 1, t, t + 1, 300]
            };
            for &chunk in chunks {
                let shape = SsdShape {
                    heads,
                    head_dim,
                    state,
                    groups,
                    chunk,
                    row_len: t,
                };
                let mut u = Unit::new(act);
                let (inner, bc, all) = (heads * head_dim, groups * state, heads * head_dim * state);
                let doc: Vec<i32> = v("doc").iter().map(|d| *d as i32).collect();
                let (start, end) = u.bounds_of(&doc, t);
                let state_in = has("S0").then(|| u.acc(1, all, v("S0")));
                let state_out = Some(u.out_acc(1, all));
                let fwd = SsdScanFwd {
                    shape,
                    x: u.act(t, inner, v("x")),
                    b: u.act(t, bc, v("B")),
                    c: u.act(t, bc, v("C")),
                    delta: u.acc(t, heads, v("dt")),
                    a_log: u.acc(1, heads, v("A_log")),
                    d: u.acc(1, heads, v("D")),
                    start,
                    end,
                    state_in,
                    y: u.out(t, inner),
                    states: u.out_acc(shape.chunks(), all),
                    state_out,
                };
                let bwd = SsdScanBwd {
                    fwd: fwd.clone(),
                    dy: u.act(t, inner, v("dy")),
                    dstate_out: has("dS_final").then(|| u.acc(1, all, v("dS_final"))),
                    dx: u.out(t, inner),
                    db: u.out(t, bc),
                    dc: u.out(t, bc),
                    ddelta: u.out_acc(t, heads),
                    da_log: u.out_acc(1, heads),
                    dd: u.out_acc(1, heads),
                    accumulate: false,
                    dstate_in: has("dS0").then(|| u.out_acc(1, all)),
                    partial_a: u.out_acc(1, heads),
                    partial_d: u.out_acc(1, heads),
                };
                let r = u.run(vec![fwd.clone().into(), bwd.clone().into()]);
                let (value, gradient) = bounds(act);
                let check = |tensor: Tensor, name: &str| {
                    let bound = if name.starts_with('d') {
                        gradient
                    } else {
                        value
                    };
                    let label = format!("{act} chunk {chunk} {prefix}.{name}");
                    assert_close(&label, &r.get(tensor), v(name), bound);
                };
                check(fwd.y, "y");
                check(state_out.unwrap(), "S_final");
                for (tensor, name) in [
                    (bwd.dx, "dx"),
                    (bwd.db, "dB"),
                    (bwd.dc, "dC"),
                    (bwd.ddelta, "ddt"),
                ] {
                    check(tensor, name);
                }
                check(bwd.da_log, "dA_log");
                check(bwd.dd, "dD");
                if let Some(tensor) = bwd.dstate_in {
                    check(tensor, "dS0");
                }
            }
        }
    }
}

/// The mixer of the first layer of the kind, wired from operations as the model wires it.
struct MixerFile {
    weights: GoldenFile,
    varlen: GoldenFile,
    config: lightning_core::config::ModelConfig,
}

impl MixerFile {
    fn read() -> Self {
        Self {
            weights: read_golden("tiny/model.safetensors"),
            varlen: read_golden("varlen.safetensors"),
            config: lightning_core::config::preset("oracle_tiny").unwrap(),
        }
    }
    fn weight(&self, layer: usize, name: &str) -> &[f64] {
        &self
            .weights
            .get(&format!("backbone.layers.{layer}.mixer.{name}"))
            .values
    }
    fn layer(&self, kind: lightning_core::config::LayerKind) -> usize {
        self.config.layers.iter().position(|k| *k == kind).unwrap()
    }
}

fn linear(u: &mut Unit, x: Tensor, w: Tensor, ops: &mut Vec<Op>) -> Tensor {
    let y = u.out(x.rows, w.rows);
    ops.push(
        LinearFwd {
            x,
            w,
            y,
            adapter: None,
        }
        .into(),
    );
    y
}

fn linear_backward(
    u: &mut Unit,
    x: Tensor,
    w: Tensor,
    dy: Tensor,
    ops: &mut Vec<Op>,
) -> (Tensor, Tensor) {
    let (dx, dw) = (u.out(x.rows, x.cols), u.out_acc(w.rows, w.cols));
    ops.push(
        LinearBwd {
            dy,
            x,
            w,
            dx: Some(dx),
            accumulate_dx: false,
            dw: Some(dw),
            accumulate_dw: false,
            adapter: None,
        }
        .into(),
    );
    (dx, dw)
}

struct Mamba {
    y: Tensor,
    gradients: Vec<(&'static str, Tensor)>,
    norms: Vec<(&'static str, Tensor)>,
    dx: Tensor,
}

#[allow(clippy::too_many_arguments)]
fn mamba_mixer(
    file: &MixerFile,
    u: &mut Unit,
    x: &[f64],
    dt_bias: &[f64],
    dt_min: f64,
    doc: &[i32],
    dy: &[f64],
    chunk: usize,
    ops: &mut Vec<Op>,
) -> Mamba {
    let m = file.config.mamba().clone();
    let layer = file.layer(lightning_core::config::LayerKind::Mamba);
    let (t, d) = (doc.len(), file.config.hidden);
    let (inner, channels, bc) = (m.inner(), m.conv_channels(), m.groups * m.state);
    let w = |name: &str| file.weight(layer, name);
    let x = u.act(t, d, x);
    let (start, end) = u.bounds_of(doc, t);
    let w_in = u.act(m.in_proj_rows(), d, w("in_proj.weight"));
    let zxbcdt = linear(u, x, w_in, ops);
    let split = |v: Tensor| {
        (
            v.columns(0, inner),
            v.columns(inner, channels),
            v.columns(inner + channels, m.heads),
        )
    };
    let split_conv = |v: Tensor| {
        (
            v.columns(0, inner),
            v.columns(inner, bc),
            v.columns(inner + bc, bc),
        )
    };
    let (z, xbc, raw) = split(zxbcdt);
    let (conv_w, conv_b) = (
        u.act(channels, m.conv_kernel, w("conv1d.weight")),
        u.act(1, channels, w("conv1d.bias")),
    );
    let conv = u.out(t, channels);
    ops.push(
        ConvSiluFwd {
            x: xbc,
            w: conv_w,
            b: conv_b,
            start,
            y: conv,
        }
        .into(),
    );
    let (bias, delta) = (u.acc(1, m.heads, dt_bias), u.out_acc(t, m.heads));
    ops.push(
        SoftplusDtFwd {
            raw,
            bias,
            dt_min,
            delta,
        }
        .into(),
    );
    let shape = SsdShape {
        heads: m.heads,
        head_dim: m.head_dim,
        state: m.state,
        groups: m.groups,
        chunk,
        row_len: t,
    };
    let (sx, b, c) = split_conv(conv);
    let scan = SsdScanFwd {
        shape,
        x: sx,
        b,
        c,
        delta,
        a_log: u.acc(1, m.heads, w("A_log")),
        d: u.acc(1, m.heads, w("D")),
        start,
        end,
        state_in: None,
        y: u.out(t, inner),
        states: u.out_acc(shape.chunks(), shape.state_elements()),
        state_out: None,
    };
    ops.push(scan.clone().into());
    let norm = GatedRmsNormFwd {
        y: scan.y,
        z,
        w: u.act(1, inner, w("norm.weight")),
        groups: m.groups,
        eps: file.config.norm_eps,
        o: u.out(t, inner),
        rstd: u.out_acc(t, m.groups),
    };
    ops.push(norm.clone().into());
    let w_out = u.act(d, inner, w("out_proj.weight"));
    let y = linear(u, norm.o, w_out, ops);

    let dy = u.act(t, d, dy);
    let (dout, dw_out) = linear_backward(u, norm.o, w_out, dy, ops);
    let dzxbcdt = u.out(t, zxbcdt.cols);
    let (dz, dxbc, draw) = split(dzxbcdt);
    let (dscan, dnorm) = (u.out(t, inner), u.out_acc(1, inner));
    ops.push(
        GatedRmsNormBwd {
            dout,
            y: scan.y,
            z,
            w: norm.w,
            groups: m.groups,
            rstd: norm.rstd,
            dy: dscan,
            dz,
            dw: dnorm,
            accumulate: false,
            partial: u.out_acc(GatedRmsNormBwd::partial_rows(t), inner),
        }
        .into(),
    );
    let dconv = u.out(t, channels);
    let (dx, db, dc) = split_conv(dconv);
    let bwd = SsdScanBwd {
        fwd: scan,
        dy: dscan,
        dstate_out: None,
        dx,
        db,
        dc,
        ddelta: u.out_acc(t, m.heads),
        da_log: u.out_acc(1, m.heads),
        dd: u.out_acc(1, m.heads),
        accumulate: false,
        dstate_in: None,
        partial_a: u.out_acc(1, m.heads),
        partial_d: u.out_acc(1, m.heads),
    };
    ops.push(bwd.clone().into());
    let dbias = u.out_acc(1, m.heads);
    ops.push(
        SoftplusDtBwd {
            ddelta: bwd.ddelta,
            raw,
            bias,
            dt_min,
            draw,
            dbias,
            accumulate: false,
            partial: u.out_acc(SoftplusDtBwd::partial_rows(t), m.heads),
        }
        .into(),
    );
    let (dconv_w, dconv_b) = (u.out_acc(channels, m.conv_kernel), u.out_acc(1, channels));
    ops.push(
        ConvSiluBwd {
            dy: dconv,
            x: xbc,
            w: conv_w,
            b: conv_b,
            start,
            dx: dxbc,
            dw: dconv_w,
            db: dconv_b,
            accumulate: false,
            partial: u.out_acc(m.conv_kernel + 1, channels),
        }
        .into(),
    );
    let (dx, dw_in) = linear_backward(u, x, w_in, dzxbcdt, ops);
    Mamba {
        y,
        dx,
        gradients: vec![
            ("A_log", bwd.da_log),
            ("D", bwd.dd),
            ("dt_bias", dbias),
            ("conv1d.weight", dconv_w),
            ("conv1d.bias", dconv_b),
            ("norm.weight", dnorm),
        ],
        norms: vec![("in_proj.weight", dw_in), ("out_proj.weight", dw_out)],
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[test]
fn golden_model_varlen_mamba_mixer() {
    let file = MixerFile::read();
    let v = |name: &str| &file.varlen.get(name).values[..];
    let doc = file.varlen.get("doc").ints();
    let layer = file.layer(lightning_core::config::LayerKind::Mamba);
    for act in TYPES {
        for chunk in [file.config.mamba().chunk, 1, 5, doc.len()] {
            let (value, gradient) = bounds(act);
            let (mut u, mut ops) = (Unit::new(act), Vec::new());
            let bias = file.weight(layer, "dt_bias");
            let m = mamba_mixer(
                &file,
                &mut u,
                v("mamba.x"),
                bias,
                0.0,
                &doc,
                v("mamba.dy"),
                chunk,
                &mut ops,
            );
            let r = u.run(ops);
            assert_close(&format!("{act} y"), &r.get(m.y), v("mamba.y"), value);
            assert_close(&format!("{act} dx"), &r.get(m.dx), v("mamba.dx"), gradient);
            for (name, tensor) in &m.gradients {
                let want = v(&format!("mamba.d.{name}")).to_vec();
                assert_close(&format!("{act} d {name}"), &r.get(*tensor), &want, gradient);
            }
            for (name, tensor) in &m.norms {
                let want = v(&format!("mamba.dnorm.{name}")).to_vec();
                assert_close(
                    &format!("{act} dnorm {name}"),
                    &[norm(&r.get(*tensor))],
                    &want,
                    gradient,
                );
            }
        }
    }
}

#[test]
fn golden_model_varlen_dt_clamp() {
    let file = MixerFile::read();
    let v = |name: &str| &file.varlen.get(name).values[..];
    let shape = &file.varlen.get("dtclamp.x").shape;
    let doc: Vec<i32> = (0..shape[0] * shape[1])
        .map(|t| (t / shape[1]) as i32)
        .collect();
    let zero = vec![0.0; doc.len() * file.config.hidden];
    for act in TYPES {
        for (dt_min, name) in [(0.0, "y_noclamp"), (0.001, "y_hf_clamp_0.001")] {
            let (mut u, mut ops) = (Unit::new(act), Vec::new());
            let (x, bias) = (v("dtclamp.x"), v("dtclamp.dt_bias"));
            let m = mamba_mixer(
                &file,
                &mut u,
                x,
                bias,
                dt_min,
                &doc,
                &zero,
                file.config.mamba().chunk,
                &mut ops,
            );
            let want = v(&format!("dtclamp.{name}")).to_vec();
            assert_close(
                &format!("{act} {name}"),
                &u.run(ops).get(m.y),
                &want,
                bounds(act).0,
            );
        }
    }
    let difference = relative_l2(v("dtclamp.y_noclamp"), v("dtclamp.y_hf_clamp_0.001"));
    assert!(difference > 1e-4, "the clamp does not bind in this file");
}

#[test]
fn golden_model_varlen_attention_mixer() {
    let file = MixerFile::read();
    let v = |name: &str| &file.varlen.get(name).values[..];
    let doc = file.varlen.get("doc").ints();
    let a = file.config.attention().clone();
    let layer = file.layer(lightning_core::config::LayerKind::Attention);
    let (t, d, wide, narrow) = (
        doc.len(),
        file.config.hidden,
        a.heads * a.head_dim,
        a.kv_heads * a.head_dim,
    );
    for act in TYPES {
        let (value, gradient) = bounds(act);
        let (mut u, mut ops) = (Unit::new(act), Vec::new());
        let x = u.act(t, d, v("attention.x"));
        let mut qkv = file.weight(layer, "q_proj.weight").to_vec();
        qkv.extend(file.weight(layer, "k_proj.weight"));
        qkv.extend(file.weight(layer, "v_proj.weight"));
        let w_qkv = u.act(wide + 2 * narrow, d, &qkv);
        let w_o = u.act(d, wide, file.weight(layer, "o_proj.weight"));
        let projected = linear(&mut u, x, w_qkv, &mut ops);
        let split = |m: Tensor| {
            (
                m.columns(0, wide),
                m.columns(wide, narrow),
                m.columns(wide + narrow, narrow),
            )
        };
        let (q, k, vv) = split(projected);
        let (start, _) = u.bounds_of(&doc, t);
        let scale = 1.0 / (a.head_dim as f64).sqrt();
        let shape = AttentionShape {
            heads: a.heads,
            kv_heads: a.kv_heads,
            head_dim: a.head_dim,
            row_len: t,
            scale,
        };
        let fwd = AttentionFwd {
            shape,
            q,
            k,
            v: vv,
            start,
            o: u.out(t, wide),
            lse: u.out_acc(t, a.heads),
        };
        ops.push(fwd.clone().into());
        let y = linear(&mut u, fwd.o, w_o, &mut ops);
        let dy = u.act(t, d, v("attention.dy"));
        let (dout, dw_o) = linear_backward(&mut u, fwd.o, w_o, dy, &mut ops);
        let dprojected = u.out(t, projected.cols);
        let (dq, dk, dv) = split(dprojected);
        ops.push(
            AttentionBwd {
                fwd,
                dout,
                dq,
                dk,
                dv,
            }
            .into(),
        );
        let (dx, dw) = linear_backward(&mut u, x, w_qkv, dprojected, &mut ops);
        let r = u.run(ops);
        assert_close(&format!("{act} y"), &r.get(y), v("attention.y"), value);
        assert_close(
            &format!("{act} dx"),
            &r.get(dx),
            v("attention.dx"),
            gradient,
        );
        let dw = r.get(dw);
        let row = |r: usize| r * d;
        for (name, got) in [
            ("q_proj", &dw[..row(wide)]),
            ("k_proj", &dw[row(wide)..row(wide + narrow)]),
            ("v_proj", &dw[row(wide + narrow)..]),
            ("o_proj", &r.get(dw_o)[..]),
        ] {
            let want = v(&format!("attention.d.{name}.weight")).to_vec();
            assert_close(&format!("{act} d {name}"), got, &want, gradient);
        }
    }
}
