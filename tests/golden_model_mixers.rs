//! The selective scan and the packed mixers against the golden values of an independent reference.

mod support;

use lightning_core::ops::*;
use lightning_core::program::Op;
use lightning_core::tensor::{DType, Tensor};
use support::unit::Unit;
use support::*;

/// Bounds of values and gradients (f64 runs are compared with values stored as f32).
fn bounds(act: DType) -> (f64, f64) {
    if act == DType::F64 { (1e-6, 1e-6) } else { (2e-6, 1e-5) }
}

const TYPES: [DType; 2] = [DType::F64, DType::F32];

#[test]
fn golden_model_ssd_any_chunk() {
    let g = read_golden("ssd.safetensors");
    let mut prefixes: Vec<&str> = g.tensors.keys().filter_map(|n| n.strip_suffix(".x")).collect();
    prefixes.sort_unstable();
    assert_eq!(prefixes, ["docs", "real", "small", "state"]);
    for act in TYPES {
        for prefix in &prefixes {
            let v = |name: &str| &g.get(&format!("{prefix}.{name}")).values[..];
            let has = |name: &str| g.tensors.contains_key(&format!("{prefix}.{name}"));
            let shape = |name: &str| g.get(&format!("{prefix}.{name}")).shape.clone();
            let [t, heads, head_dim] = shape("x")[..] else { panic!() };
            let [_, groups, state] = shape("B")[..] else { panic!() };
            let chunks: &[usize] =
                if *prefix == "real" { &[64, 128, t] } else { &[1, 2, 3, 7, 16, t - 1, t, t + 1, 300] };
            for &chunk in chunks {
                let shape = SsdShape { heads, head_dim, state, groups, chunk, row_len: t };
                let mut u = Unit::new(act);
                let (inner, bc, all) = (heads * head_dim, groups * state, heads * head_dim * state);
                let doc: Vec<i32> = v("doc").iter().map(|d| *d as i32).collect();
                let (start, end) = u.bounds_of(&doc, t);
                let state_in = has("S0").then(|| u.acc(1, all, v("S0")));
                let state_out = u.out_acc(1, all);
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
                    state_out: Some(state_out),
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
                    let bound = if name.starts_with('d') { gradient } else { value };
                    let label = format!("{act} chunk {chunk} {prefix}.{name}");
                    assert_close(&label, &r.get(tensor), v(name), bound);
                };
                check(fwd.y, "y");
                check(state_out, "S_final");
                for (tensor, name) in [(bwd.dx, "dx"), (bwd.db, "dB"), (bwd.dc, "dC"), (bwd.ddelta, "ddt")] {
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
        &self.weights.get(&format!("backbone.layers.{layer}.mixer.{name}")).values
    }
    fn layer(&self, kind: lightning_core::config::LayerKind) -> usize {
        self.config.layers.iter().position(|k| *k == kind).unwrap()
    }
}

fn linear(u: &mut Unit, x: Tensor, w: Tensor, ops: &mut Vec<Op>) -> Tensor {
    let y = u.out(x.rows, w.rows);
    ops.push(LinearFwd { x, w, y, adapter: None }.into());
    y
}

fn linear_backward(u: &mut Unit, x: Tensor, w: Tensor, dy: Tensor, ops: &mut Vec<Op>) -> (Tensor, Tensor) {
    let (dx, dw) = (u.out(x.rows, x.cols), u.out_acc(w.rows, w.cols));
    ops.push(
        LinearBwd { dy, x, w, dx: Some(dx), accumulate_dx: false, dw: Some(dw), accumulate_dw: false, adapter: None }
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
    let split = |v: Tensor| (v.columns(0, inner), v.columns(inner, channels), v.columns(inner + channels, m.heads));
    let split_conv = |v: Tensor| (v.columns(0, inner), v.columns(inner, bc), v.columns(inner + bc, bc));
    let (z, xbc, raw) = split(zxbcdt);
    let (conv_w, conv_b) = (u.act(channels, m.conv_kernel, w("conv1d.weight")), u.act(1, channels, w("conv1d.bias")));
    let conv = u.out(t, channels);
    ops.push(ConvSiluFwd { x: xbc, w: conv_w, b: conv_b, start, y: conv }.into());
    let (bias, delta) = (u.acc(1, m.heads, dt_bias), u.out_acc(t, m.heads));
    ops.push(SoftplusDtFwd { raw, bias, dt_min, delta }.into());
    let shape = SsdShape { heads: m.heads, head_dim: m.head_dim, state: m.state, groups: m.groups, chunk, row_len: t };
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
            let m = mamba_mixer(&file, &mut u, v("mamba.x"), bias, 0.0, &doc, v("mamba.dy"), chunk, &mut ops);
            let r = u.run(ops);
            assert_close(&format!("{act} y"), &r.get(m.y), v("mamba.y"), value);
            assert_close(&format!("{act} dx"), &r.get(m.dx), v("mamba.dx"), gradient);
            for (name, tensor) in &m.gradients {
                let want = v(&format!("mamba.d.{name}")).to_vec();
                assert_close(&format!("{act} d {name}"), &r.get(*tensor), &want, gradient);
            }
            for (name, tensor) in &m.norms {
                let want = v(&format!("mamba.dnorm.{name}")).to_vec();
                assert_close(&format!("{act} dnorm {name}"), &[norm(&r.get(*tensor))], &want, gradient);
            }
        }
    }
}

#[test]
fn golden_model_varlen_dt_clamp() {
    let file = MixerFile::read();
    let v = |name: &str| &file.varlen.get(name).values[..];
    let shape = &file.varlen.get("dtclamp.x").shape;
    let doc: Vec<i32> = (0..shape[0] * shape[1]).map(|t| (t / shape[1]) as i32).collect();
    let zero = vec![0.0; doc.len() * file.config.hidden];
    for act in TYPES {
        for (dt_min, name) in [(0.0, "y_noclamp"), (0.001, "y_hf_clamp_0.001")] {
            let (mut u, mut ops) = (Unit::new(act), Vec::new());
            let (x, bias) = (v("dtclamp.x"), v("dtclamp.dt_bias"));
            let m = mamba_mixer(&file, &mut u, x, bias, dt_min, &doc, &zero, file.config.mamba().chunk, &mut ops);
            let want = v(&format!("dtclamp.{name}")).to_vec();
            assert_close(&format!("{act} {name}"), &u.run(ops).get(m.y), &want, bounds(act).0);
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
    let (t, d, wide, narrow) = (doc.len(), file.config.hidden, a.heads * a.head_dim, a.kv_heads * a.head_dim);
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
        let split = |m: Tensor| (m.columns(0, wide), m.columns(wide, narrow), m.columns(wide + narrow, narrow));
        let (q, k, vv) = split(projected);
        let (start, _) = u.bounds_of(&doc, t);
        let scale = 1.0 / (a.head_dim as f64).sqrt();
        let shape = AttentionShape { heads: a.heads, kv_heads: a.kv_heads, head_dim: a.head_dim, row_len: t, scale };
        let fwd = AttentionFwd { shape, q, k, v: vv, start, o: u.out(t, wide), lse: u.out_acc(t, a.heads) };
        ops.push(fwd.clone().into());
        let y = linear(&mut u, fwd.o, w_o, &mut ops);
        let dy = u.act(t, d, v("attention.dy"));
        let (dout, dw_o) = linear_backward(&mut u, fwd.o, w_o, dy, &mut ops);
        let dprojected = u.out(t, projected.cols);
        let (dq, dk, dv) = split(dprojected);
        ops.push(AttentionBwd { fwd, dout, dq, dk, dv }.into());
        let (dx, dw) = linear_backward(&mut u, x, w_qkv, dprojected, &mut ops);
        let r = u.run(ops);
        assert_close(&format!("{act} y"), &r.get(y), v("attention.y"), value);
        assert_close(&format!("{act} dx"), &r.get(dx), v("attention.dx"), gradient);
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
