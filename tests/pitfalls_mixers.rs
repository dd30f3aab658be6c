//! Pitfalls of the Mamba and attention mixers, the norms and not-a-numbers, as tests that bear their numbers in the
//! project's list.

mod support;

use lightning_core::model::{ProgramKind, Trace};
use lightning_core::ops::*;
use lightning_core::program::Op;
use lightning_core::tensor::DType;
use std::collections::BTreeMap;
use support::gradcheck::check_gradients;
use support::random::Random;
use support::unit::Unit;
use support::*;

/// A scan with everything that the backward pass computes, flat.
struct Scan {
    shape: SsdShape,
    values: BTreeMap<&'static str, Vec<f64>>,
    offsets: Vec<i32>,
    tokens: usize,
}

impl Scan {
    fn new(rng: &mut Random, shape: SsdShape, tokens: usize, offsets: Vec<i32>, decay: f64) -> Self {
        let (inner, bc) = (shape.heads * shape.head_dim, shape.groups * shape.state);
        let mut values = BTreeMap::new();
        for (name, n) in [("x", inner), ("b", bc), ("c", bc), ("dy", inner)] {
            values.insert(name, rng.normals(tokens * n, 1.0));
        }
        values.insert("delta", rng.uniforms(tokens * shape.heads, 0.01, decay));
        values.insert("a_log", rng.uniforms(shape.heads, 0.0, 1.0));
        values.insert("d", rng.normals(shape.heads, 1.0));
        Self { shape, values, offsets, tokens }
    }

    /// The tokens `start .. end` alone.
    fn part(&self, start: usize, end: usize) -> Self {
        let mut values = self.values.clone();
        for (name, v) in &mut values {
            if !matches!(*name, "a_log" | "d") {
                let cols = v.len() / self.tokens;
                *v = v[start * cols..end * cols].to_vec();
            }
        }
        let shape = SsdShape { row_len: end - start, ..self.shape };
        Self { shape, values, offsets: vec![0], tokens: end - start }
    }

    /// y, dx, db, dc, ddelta by token, and da_log, dd.
    fn run(&self, act: DType) -> BTreeMap<&'static str, Vec<f64>> {
        let (s, t) = (self.shape, self.tokens);
        let (inner, bc, rows) = (s.heads * s.head_dim, s.groups * s.state, t / s.row_len);
        let v = |name: &str| &self.values[name][..];
        let mut u = Unit::new(act);
        let (start, end) = u.bounds(t, s.row_len, &self.offsets);
        let fwd = SsdScanFwd {
            shape: s,
            x: u.act(t, inner, v("x")),
            b: u.act(t, bc, v("b")),
            c: u.act(t, bc, v("c")),
            delta: u.acc(t, s.heads, v("delta")),
            a_log: u.acc(1, s.heads, v("a_log")),
            d: u.acc(1, s.heads, v("d")),
            start,
            end,
            state_in: None,
            y: u.out(t, inner),
            states: u.out_acc(rows * s.chunks(), s.state_elements()),
            state_out: None,
        };
        let bwd = SsdScanBwd {
            fwd: fwd.clone(),
            dy: u.act(t, inner, v("dy")),
            dstate_out: None,
            dx: u.out(t, inner),
            db: u.out(t, bc),
            dc: u.out(t, bc),
            ddelta: u.out_acc(t, s.heads),
            da_log: u.out_acc(1, s.heads),
            dd: u.out_acc(1, s.heads),
            accumulate: false,
            dstate_in: None,
            partial_a: u.out_acc(rows, s.heads),
            partial_d: u.out_acc(rows, s.heads),
        };
        let r = u.run(vec![fwd.clone().into(), bwd.clone().into()]);
        let tensors = [
            ("y", fwd.y),
            ("dx", bwd.dx),
            ("db", bwd.db),
            ("dc", bwd.dc),
            ("ddelta", bwd.ddelta),
            ("da_log", bwd.da_log),
            ("dd", bwd.dd),
        ];
        tensors.into_iter().map(|(n, t)| (n, r.get(t))).collect()
    }
}

/// Lengths around a long chunk, with decays that underflow: nothing is NaN, and it equals the recurrence token by token.
#[test]
fn b51_lengths_that_are_no_multiple_of_the_chunk() {
    let mut rng = Random::new(51);
    for length in [1, 255, 256, 257, 511] {
        let shape = SsdShape { heads: 2, head_dim: 3, state: 4, groups: 1, chunk: 256, row_len: length };
        let mut scan = Scan::new(&mut rng, shape, length, vec![0], 3.0);
        let got = scan.run(DType::F32);
        scan.shape.chunk = 1;
        for (name, want) in scan.run(DType::F64) {
            assert!(got[name].iter().all(|v| v.is_finite()), "length {length}: {name}");
            // l reaches several hundred here: e^(l_i - l_j) is good to 1e-4 in f32, and these are sums that cancel.
            let loose = matches!(name, "da_log" | "ddelta");
            let bound = if loose { 5e-4 } else { 1e-5 };
            assert_close(&format!("length {length} {name}"), &got[name], &want, bound);
        }
    }
}

fn check_documents(scan: &Scan, act: DType, bound: f64) {
    let packed = scan.run(act);
    let mut separate: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut cuts: Vec<usize> = scan.offsets.iter().map(|o| *o as usize).chain([scan.tokens]).collect();
    cuts.dedup();
    for w in cuts.windows(2) {
        for (name, v) in scan.part(w[0], w[1]).run(act) {
            match separate.get_mut(name) {
                Some(sum) if matches!(name, "da_log" | "dd") => sum.iter_mut().zip(v).for_each(|(a, b)| *a += b),
                Some(all) => all.extend(v),
                None => drop(separate.insert(name, v)),
            }
        }
    }
    for (name, want) in separate {
        let bound = if name == "da_log" { 4.0 * bound } else { bound };
        assert_close(&format!("{act} {name}"), &packed[name], &want, bound);
    }
}

/// The gradients of a pack are those of its documents, for every operand of the scan.
#[test]
fn b52_packed_gradients_are_those_of_the_documents() {
    let mut rng = Random::new(52);
    for chunk in [1, 4, 9, 64] {
        let shape = SsdShape { heads: 4, head_dim: 3, state: 5, groups: 2, chunk, row_len: 41 };
        let scan = Scan::new(&mut rng, shape, 41, vec![0, 1, 5, 5, 17, 30], 1.0);
        check_documents(&scan, DType::F64, 1e-12);
    }
}

/// Every tile that a configuration can choose, not only the one that it does: each chunk length up to one past the row, for
/// each number of groups, on several rows.
#[test]
fn b53_every_chunk_length_and_group_count() {
    let mut rng = Random::new(53);
    let row_len = 23;
    for groups in [1, 2, 4] {
        let shape = SsdShape { heads: 4, head_dim: 5, state: 3, groups, chunk: 1, row_len };
        let mut scan = Scan::new(&mut rng, shape, 2 * row_len, vec![0, 9, row_len as i32, row_len as i32 + 2], 1.0);
        let want = scan.run(DType::F64);
        for chunk in 2..=row_len + 1 {
            scan.shape.chunk = chunk;
            for (name, got) in scan.run(DType::F64) {
                assert_close(&format!("{groups} groups, chunk {chunk}, {name}"), &got, &want[name], 1e-11);
            }
        }
    }
}

/// Documents that start inside a chunk: 500, 700 and 900 tokens with chunks of 128.
#[test]
fn b58_documents_that_start_inside_a_chunk() {
    let mut rng = Random::new(58);
    let shape = SsdShape { heads: 2, head_dim: 4, state: 6, groups: 1, chunk: 128, row_len: 2100 };
    let scan = Scan::new(&mut rng, shape, 2100, vec![0, 500, 1200], 0.3);
    check_documents(&scan, DType::F64, 1e-11);
    check_documents(&scan, DType::F32, 5e-6);
}

/// Eight groups: every group has a norm of its own.
#[test]
fn b54_gated_norm_with_eight_groups() {
    let mut rng = Random::new(54);
    let mut drawn = 0;
    while drawn < 3 {
        let mut case = cases::gated_norm_groups(&mut rng, DType::F64);
        if !case.label.contains("x 8 x") {
            continue;
        }
        drawn += 1;
        check_gradients(
            &case.label,
            &mut case.unit,
            case.forward,
            case.backward,
            &case.objective,
            &case.inputs,
            &mut rng,
        );
    }
    // Scaling one group's input leaves the others' outputs alone.
    let (t, c, groups) = (3, 40, 8);
    let (mut y, z) = (rng.normals(t * c, 1.0), rng.normals(t * c, 1.0));
    let run = |y: &[f64]| {
        let mut u = Unit::new(DType::F64);
        let (y, z, w) = (u.act(t, c, y), u.act(t, c, &z), u.act(1, c, &vec![1.0; c]));
        let (o, rstd) = (u.out(t, c), u.out_acc(t, groups));
        let r = u.run(vec![GatedRmsNormFwd { y, z, w, groups, eps: 1e-5, o, rstd }.into()]);
        r.get(o)
    };
    let before = run(&y);
    for v in &mut y[..5] {
        *v *= 100.0;
    }
    let after = run(&y);
    assert_eq!(before[5..], after[5..]);
    assert_ne!(before[..5], after[..5]);
}

/// Every operation that mixes tokens knows the documents: it has their bounds among its operands.
#[test]
fn b59_no_operation_ignores_documents() {
    let mut rng = Random::new(59);
    let config = tiny::config(&mut rng, "ME*-", Some(("*EM", 2)));
    let s = Session::new(&config, &Options::new(DType::F32, 2, 8));
    let mut found = BTreeMap::new();
    for kind in [ProgramKind::TrainFirst, ProgramKind::Train, ProgramKind::Evaluate] {
        for node in s.model.micro_batch(kind, Trace::Off).unwrap().nodes {
            let mixes = matches!(
                node.op,
                Op::Roll(_)
                    | Op::ConvSiluFwd(_)
                    | Op::ConvSiluBwd(_)
                    | Op::SsdScanFwd(_)
                    | Op::SsdScanBwd(_)
                    | Op::AttentionFwd(_)
                    | Op::AttentionBwd(_)
            );
            if mixes {
                let mut bounds = 0;
                node.op.operands(&mut |name, _, _| bounds += usize::from(name == "start" || name == "end"));
                assert!(bounds > 0, "{} has no document bounds", node.op.name());
                *found.entry(node.op.name()).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(found.len(), 7, "{found:?}");
}

/// All norms use the configured epsilon.
#[test]
fn b60_every_norm_has_the_configured_epsilon() {
    let mut rng = Random::new(60);
    let mut config = tiny::config(&mut rng, "ME*-", Some(("*E", 2)));
    config.norm_eps = 0.1875;
    let s = Session::new(&config, &Options::new(DType::F32, 1, 4));
    let mut norms = 0;
    for node in &s.first.nodes {
        let eps = match &node.op {
            Op::RmsNormFwd(op) => op.eps,
            Op::GatedRmsNormFwd(op) => op.eps,
            _ => continue,
        };
        assert_eq!(eps, config.norm_eps, "{}", s.first.regions[node.region]);
        norms += 1;
    }
    // Four layers, the final norm, the gated norm; per depth enorm, hnorm, two layers and the final norm.
    assert_eq!(norms, 6 + 2 * 5);
}

/// One-token documents, huge scores and far-away first keys: no NaN, and the output is the value of the only key.
#[test]
fn b62_attention_of_single_keys_and_huge_scores() {
    let mut rng = Random::new(62);
    let (heads, kv_heads, head_dim, t) = (4, 2, 5, 150);
    let shape = AttentionShape { heads, kv_heads, head_dim, row_len: t, scale: 1.0 };
    for (size, offsets) in [
        (1.0, (0..150).collect::<Vec<i32>>()),
        (300.0, vec![0]),
        (300.0, vec![0, 63, 64, 65, 128, 129]),
        (0.0, vec![0]),
    ] {
        for act in [DType::F32, DType::F64, DType::BF16] {
            let mut u = Unit::new(act);
            let (start, _) = u.bounds(t, t, &offsets);
            let (wide, narrow) = (heads * head_dim, kv_heads * head_dim);
            let v = rng.normals(t * narrow, 1.0);
            let fwd = AttentionFwd {
                shape,
                q: u.act(t, wide, &rng.normals(t * wide, size)),
                k: u.act(t, narrow, &rng.normals(t * narrow, size)),
                v: u.act(t, narrow, &v),
                start,
                o: u.out(t, wide),
                lse: u.out_acc(t, heads),
            };
            let bwd = AttentionBwd {
                fwd: fwd.clone(),
                dout: u.act(t, wide, &rng.normals(t * wide, 1.0)),
                dq: u.out(t, wide),
                dk: u.out(t, narrow),
                dv: u.out(t, narrow),
            };
            let r = u.run(vec![fwd.clone().into(), bwd.clone().into()]);
            for tensor in [fwd.o, fwd.lse, bwd.dq, bwd.dk, bwd.dv] {
                assert!(r.get(tensor).iter().all(|x| x.is_finite()), "{act} size {size}");
            }
            let o = r.get(fwd.o);
            for &first in &offsets {
                let i = first as usize;
                for h in 0..heads {
                    let key = h / (heads / kv_heads);
                    let want = &v[i * narrow + key * head_dim..][..head_dim];
                    let got = &o[i * wide + h * head_dim..][..head_dim];
                    assert_close(
                        &format!("{act} first token {i}"),
                        got,
                        want,
                        if act == DType::BF16 { 1e-2 } else { 1e-6 },
                    );
                }
            }
        }
    }
}

/// A NaN in any weight shows in the loss or, at the latest, in the gradients: nothing swallows it.
#[test]
fn nan_weights_reach_the_loss() {
    let mut rng = Random::new(63);
    let mut config = tiny::config(&mut rng, "ME*-", Some(("*E", 1)));
    config.moe.as_mut().unwrap().top_k = config.moe().experts;
    let weights = tiny::weights(&config, &mut rng);
    let mut s = tiny::session(&config, &Options::new(DType::F32, 1, 6), &weights);
    let batch = Batch::new((0..6).map(|i| i % config.vocab as i32).collect(), vec![0; 6], vec![1; 6]);
    for (name, values) in &weights {
        if name.ends_with("e_score_correction_bias") || name.contains("embeddings") {
            continue;
        }
        let part = s.part(name);
        let mut bad = values.clone();
        let at = rng.range(0, bad.len() - 1);
        bad[at] = f64::NAN;
        s.model.write_weight(&mut s.device, part, &bad).unwrap();
        s.run_first(&batch);
        let losses = s.values().losses;
        // An expert whose score is NaN is never the larger one, but its gradient tells.
        let shown = if name.ends_with("gate.weight") {
            s.gradient(name).iter().any(|g| g.is_nan())
        } else {
            losses[2].is_nan() || losses[6].is_nan()
        };
        assert!(shown, "{name}[{at}] = NaN, losses {losses:?}");
        s.model.write_weight(&mut s.device, part, values).unwrap();
    }
}
