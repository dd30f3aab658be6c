//! The three storage types against each other: every operation on operands that all of them hold exactly, and whole
//! models.

mod support;

use lightning_core::model::{Objective, Routing};
use lightning_core::ops::LossScale;
use lightning_core::tensor::DType;
use support::cases;
use support::random::Random;
use support::unit::Results;
use support::*;

/// Runs a case in a storage type and returns outputs, then gradients, by name.
fn run(maker: cases::Maker, seed: u64, act: DType) -> (String, Vec<(&'static str, Vec<f64>)>) {
    let case = maker(&mut Random::new(seed), act);
    let mut ops = case.forward;
    ops.extend(case.backward);
    let results: Results = case.unit.run(ops);
    let mut values: Vec<_> = case.outputs.iter().map(|(name, t)| (*name, results.get(*t))).collect();
    values.extend(case.inputs.iter().map(|i| (i.name, results.get(i.gradient))));
    (case.label, values)
}

/// Relative to the reference or, where it is nearly zero (a normalised single weight, a single key), to a twentieth of
/// the operands' size.
#[track_caller]
fn assert_near(name: &str, got: &[f64], want: &[f64], bound: f64) {
    let difference: Vec<f64> = got.iter().zip(want).map(|(g, w)| g - w).collect();
    let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let size = norm(want).max(0.05 * (want.len() as f64).sqrt());
    let error = norm(&difference) / size;
    assert!(error <= bound, "{name}: relative error {error:.3e} above {bound:.1e}");
}

/// Roundings do not average out in small tensors: a single element may be off by eight of them.
fn allowance(bound: f64, n: usize) -> f64 {
    bound + 0.03 / (n as f64).sqrt()
}

#[test]
fn f32_operations_agree_with_f64() {
    for (name, maker, count) in cases::ALL {
        for seed in 5000..5000 + count {
            let (label, want) = run(*maker, seed, DType::F64);
            let (_, got) = run(*maker, seed, DType::F32);
            let outputs = want.len() - 1;
            for (i, ((what, got), (_, want))) in got.iter().zip(&want).enumerate() {
                let bound = if i == 0 && outputs > 0 { 2e-6 } else { 1e-5 };
                assert_near(&format!("{name} seed {seed} {label}: {what}"), got, want, bound);
            }
        }
    }
}

#[test]
fn bf16_operations_agree_with_f64() {
    for (name, maker, count) in cases::ALL {
        for seed in 6000..6000 + count {
            let (label, want) = run(*maker, seed, DType::F64);
            let (_, got) = run(*maker, seed, DType::BF16);
            for (i, ((what, got), (_, want))) in got.iter().zip(&want).enumerate() {
                // Results behind a second rounding (the residual sum, the adapter's product, the squared product of the
                // experts) may be off by twice as much.
                let twice = ["rms_norm", "linear", "experts"].iter().any(|n| name.starts_with(n));
                let bound = match (*what, i) {
                    ("A_log" | "delta" | "raw" | "bias", _) => 5e-2,
                    // D_i comes from the rounded output, and with few keys dS is a small difference.
                    ("q" | "k", _) => 5e-2,
                    (_, 0) if twice => 6e-3,
                    (_, 0) => 3e-3,
                    _ => 1e-2,
                };
                let bound = allowance(bound, want.len());
                assert_near(&format!("{name} seed {seed} {label}: {what}"), got, want, bound);
            }
        }
    }
}

const OBJECTIVE_WITH_ALL: Objective =
    Objective { scale: LossScale::PerToken, mtp_factor: 0.3, aux_coefficient: 0.1, bias_rate: 1e-3 };

/// A model wide enough that roundings average out.
fn medium(rng: &mut Random) -> lightning_core::config::ModelConfig {
    let mut config = tiny::config(rng, "ME*-", Some(("*E", 2)));
    (config.hidden, config.vocab) = (48, 61);
    let m = config.mamba.as_mut().unwrap();
    (m.heads, m.groups, m.head_dim, m.state, m.chunk) = (6, 2, 8, 9, 7);
    let a = config.attention.as_mut().unwrap();
    (a.heads, a.kv_heads, a.head_dim) = (6, 2, 9);
    let e = config.moe.as_mut().unwrap();
    (e.experts, e.top_k, e.expert_width) = (5, 2, 33);
    (e.shared_width, e.shared_experts) = (40, 1);
    config.mlp_width = Some(50);
    config
}

/// The model in three storage types with the routing of the f64 run.
#[test]
fn models_agree_in_all_storage_types() {
    for seed in 0..3 {
        let mut rng = Random::new(seed);
        let config = medium(&mut rng);
        let (rows, row_len) = (rng.range(1, 2), rng.range(20, 40));
        let mut options = Options::new(DType::F64, rows, row_len);
        options.objective = OBJECTIVE_WITH_ALL;
        let mut batch = tiny::batch(&mut rng, &config, rows, row_len, false);
        batch.mask = rng.mask(batch.ids.len(), 0.7);
        let weights = tiny::weights(&config, &mut rng);
        let mut exact = tiny::session(&config, &options, &weights);
        exact.run_first(&batch);
        let mut routers = vec![exact.output("router.1.topk_idx")];
        routers.extend((1..=2).map(|k| exact.output(&format!("mtp{k}.topk_idx"))));
        let want = exact.gradients();
        options.routing = Routing::Forced;
        for (act, value, gradient, special) in [(DType::F32, 2e-6, 1e-5, 1e-5), (DType::BF16, 1.5e-2, 4e-2, 1e-1)] {
            options.act = act;
            let mut s = tiny::session(&config, &options, &weights);
            for (tensor, idx) in s.model.inputs.forced.clone().into_iter().zip(&routers) {
                let idx: Vec<i32> = idx.iter().map(|i| *i as i32).collect();
                s.write_ints(tensor, &idx);
            }
            s.run_first(&batch);
            for name in ["hidden.1", "hidden.4", "final_hidden", "logits", "lm_ce", "mtp1.hidden", "mtp2_ce"] {
                let label = format!("seed {seed} {act} {name}");
                assert_close(&label, &s.output(name), &exact.output(name), value);
            }
            assert_close("losses", &s.losses().0, &exact.losses().0, value / 2.0);
            for (name, got) in s.gradients() {
                let bound = if name.contains("A_log") || name.contains("dt_bias") { special } else { gradient };
                assert_close(&format!("seed {seed} {act} d {name}"), &got, &want[&name], bound);
            }
        }
    }
}

/// Gradients kept in bf16: the same numbers up to one rounding per contribution, in both arithmetic types.
#[test]
fn bf16_gradients_are_rounded_f32_gradients() {
    for (seed, act) in [(20, DType::F32), (21, DType::BF16), (22, DType::F32)] {
        let mut rng = Random::new(seed);
        let config = medium(&mut rng);
        let mut options = Options::new(act, 2, 15);
        options.objective = OBJECTIVE_WITH_ALL;
        let batches: Vec<Batch> = (0..3)
            .map(|_| {
                let mut batch = tiny::batch(&mut rng, &config, 2, 15, false);
                batch.mask = rng.mask(30, 0.7);
                batch
            })
            .collect();
        let weights = tiny::weights(&config, &mut rng);
        let mut run = |grad: DType| {
            options.grad = Some(grad);
            let mut s = tiny::session(&config, &options, &weights);
            s.run_first(&batches[0]);
            let first = s.gradients();
            s.run_later(&batches[1]);
            s.run_later(&batches[2]);
            (first, s.gradients())
        };
        let ((first, want), (first_rounded, got)) = (run(DType::F32), run(DType::BF16));
        let used_once = |name: &str| name.starts_with("backbone.layers");
        for (name, want) in &first {
            let rounded: Vec<f64> = want.iter().map(|v| half::bf16::from_f32(*v as f32).to_f64()).collect();
            // One contribution and one rounding; a sum in another order flips a rounding here and there.
            if used_once(name) {
                let label = format!("{act} {name}: rounded once");
                assert_close(&label, &first_rounded[name], &rounded, 5e-4);
            }
        }
        for (name, want) in &want {
            assert_close(&format!("{act} {name}"), &got[name], want, 1e-2);
            let rounded = got[name].iter().all(|v| half::bf16::from_f32(*v as f32).to_f64() == *v);
            assert!(rounded, "{name} is not kept in bf16");
        }
    }
}
