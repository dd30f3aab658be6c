//! The optimizer step: norm, schedule and counters, AdamW, expert bias.

use super::compare::{Bound, Case, check, device, fresh};
use super::support::random::Random;
use super::support::unit::Unit;
use lightning_core::gpu::Execution;
use lightning_core::ops::{AdamW, ExpertBiasUpdate, StepControl};
use lightning_core::optim::{Decay, STATE_SLOTS, Schedule, StateSlot, WsdStyle};
use lightning_core::program::Op;
use lightning_core::tensor::{DType, Tensor};

fn schedule(decay: Decay) -> Schedule {
    Schedule {
        decay,
        init_lr: 1e-6,
        max_lr: 1e-3,
        min_lr: 1e-5,
        warmup_samples: 100,
        decay_samples: 1000,
        wsd_samples: 300,
        start_weight_decay: 0.01,
        end_weight_decay: 0.1,
    }
}

/// The state block before a step of 7 samples.
fn state(u: &mut Unit, samples: f64, steps: f64) -> Tensor {
    let state = u.metric(STATE_SLOTS);
    let mut values = vec![0.0; STATE_SLOTS];
    for (slot, value) in [
        (StateSlot::Samples, samples),
        (StateSlot::Steps, steps),
        (StateSlot::Skipped, 2.0),
        (StateSlot::SkippedInARow, 1.0),
        (StateSlot::StepSamples, 7.0),
    ] {
        values[slot as usize] = value;
    }
    u.set(state, &values);
    state
}

fn control(u: &mut Unit, gradients: Tensor, state: Tensor, tokens: Option<Tensor>, decay: Decay, clip: f64) -> Op {
    let partial = u.metric(StepControl::blocks(gradients));
    let betas = (0.9, 0.95);
    StepControl { gradients, state, tokens, schedule: schedule(decay), clip, betas, partial }.into()
}

/// Runs a step control on both devices and compares all slots: the norm, the factor and the counters are equal, rates and
/// corrections agree to the last bits of f64.
fn compare_states(what: &str, u: &Unit, op: Op, state: Tensor) -> Vec<f64> {
    let cpu = u.run(vec![op.clone()]).get(state);
    let mut gpu = device(u, vec![op], Execution::Graph);
    gpu.run(u);
    let got = gpu.get(state);
    gpu.check_guards(what, u);
    let rounded = [
        StateSlot::LearningRate,
        StateSlot::NextLearningRate,
        StateSlot::WeightDecay,
        StateSlot::Correction1,
        StateSlot::Correction2,
    ];
    for (slot, (a, b)) in got.iter().zip(&cpu).enumerate() {
        let bound = if rounded.iter().any(|s| *s as usize == slot) { 1e-13 } else { 0.0 };
        let close = (a - b).abs() <= bound * b.abs() || a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(close, "{what}: slot {slot} is {a:e}, on the CPU {b:e}");
    }
    got
}

#[test]
fn gradient_norm_has_the_bits_of_the_cpu_device() {
    let mut rng = fresh("gradient_norm");
    // A block has 16384 elements in 16 runs, a thread block takes 16 of them.
    for n in [0, 1, 15, 17, 16_383, 16_385, 17 * 16_384 + 5] {
        let (bf16, per_token) = (rng.chance(0.5), rng.chance(0.5));
        let mut u = Unit::new(DType::BF16);
        u.rounding = Some(DType::BF16);
        let values = rng.normals(n, 1.0);
        let gradients = if bf16 { u.act(1, n, &values) } else { u.acc(1, n, &values) };
        let tokens = per_token.then(|| u.metric(1));
        if let Some(tokens) = tokens {
            u.set(tokens, &[rng.pick(&[0.0, 1.0, 37.0])]);
        }
        let (block, clip) = (state(&mut u, 250.0, 3.0), rng.pick(&[0.0, 1.0, 1e9]));
        let op = control(&mut u, gradients, block, tokens, Decay::Cosine, clip);
        let what = format!("{n} gradients, bf16 {bf16}, tokens {per_token}, clip {clip}");
        compare_states(&what, &u, op, block);
    }
}

#[test]
fn schedules_follow_the_cpu_device() {
    let styles = [WsdStyle::Linear, WsdStyle::Cosine, WsdStyle::Exponential, WsdStyle::MinusSqrt];
    let decays = [Decay::Constant, Decay::Linear, Decay::Cosine, Decay::InverseSquareRoot].into_iter();
    for decay in decays.chain(styles.map(Decay::Wsd)) {
        for (samples, steps) in [(0.0, 0.0), (93.0, 1.0), (100.0, 20.0), (850.0, 1000.0), (1000.0, 1e6), (1e12, 1e9)] {
            let mut u = Unit::new(DType::BF16);
            let gradients = u.acc(1, 3, &[1.0, -2.0, 0.5]);
            let block = state(&mut u, samples, steps);
            let op = control(&mut u, gradients, block, None, decay, 1.0);
            compare_states(&format!("{decay:?} at {samples} samples"), &u, op, block);
        }
    }
}

#[test]
fn a_gradient_that_is_not_finite_skips_the_step() {
    for bad in [f64::NAN, f64::INFINITY] {
        let mut u = Unit::new(DType::BF16);
        let gradients = u.acc(1, 3, &[1.0, bad, 0.5]);
        let block = state(&mut u, 250.0, 3.0);
        let op = control(&mut u, gradients, block, None, Decay::Cosine, 1.0);
        let got = compare_states(&format!("{bad}"), &u, op, block);
        assert_eq!((got[StateSlot::Skip as usize], got[StateSlot::SkippedInARow as usize]), (1.0, 2.0));
        assert_eq!((got[StateSlot::Samples as usize], got[StateSlot::Steps as usize]), (250.0, 3.0));
    }
}

/// Three steps with the numbers of one state block, bit by bit; then a step that is skipped.
#[test]
fn adamw_makes_the_parameters_of_the_cpu_device() {
    let mut rng = fresh("adamw");
    for n in [0, 1, 255, 1025, 5000] {
        let (bf16_gradient, own_master) = (rng.chance(0.5), rng.chance(0.5));
        let skip = f64::from(u8::from(rng.chance(0.2)));
        let (decay, eps) = (rng.chance(0.5), rng.pick(&[1e-8, 1e-5]));
        let (g, p) = (rng.normals(n, 1.0), rng.normals(n, 1.0));
        let (m, v) = (rng.normals(n, 0.1), rng.uniforms(n, 0.0, 0.1));
        let what = format!("{n} elements, bf16 gradient {bf16_gradient}, own master {own_master}, skip {skip}");
        check(&what, |u| {
            let block = u.metric(STATE_SLOTS);
            let mut values = vec![0.0; STATE_SLOTS];
            for (slot, value) in [
                (StateSlot::GradFactor, 0.37),
                (StateSlot::LearningRate, 3e-3),
                (StateSlot::WeightDecay, 0.1),
                (StateSlot::Correction1, 1.0 - 0.9f64.powi(5)),
                (StateSlot::Correction2, 1.0 - 0.95f64.powi(5)),
                (StateSlot::Skip, skip),
            ] {
                values[slot as usize] = value;
            }
            u.set(block, &values);
            let gradient = if bf16_gradient { u.act(1, n, &g) } else { u.acc(1, n, &g) };
            let (param, master) =
                if own_master { (u.acc(1, n, &p), None) } else { (u.act(1, n, &p), Some(u.acc(1, n, &p))) };
            let (m, v) = (u.acc(1, n, &m), u.acc(1, n, &v));
            let betas = (0.9, 0.95);
            let step = AdamW { gradient, param, master, m, v, state: block, betas, eps, decay };
            let mut results = vec![("param", param, Bound::Exact), ("m", m, Bound::Exact), ("v", v, Bound::Exact)];
            results.extend(master.map(|master| ("master", master, Bound::Exact)));
            Case { ops: vec![step.clone().into(), step.clone().into(), step.into()], results }
        });
    }
}

/// Counts of tokens per expert: none, equal, one expert takes all, anything.
fn loads(rng: &mut Random, experts: usize) -> Vec<Vec<i32>> {
    let mut one = vec![0; experts];
    one[rng.range(0, experts - 1)] = i32::MAX;
    vec![vec![0; experts], vec![17; experts], one, rng.ints(experts, 100_000)]
}

#[test]
fn expert_bias_moves_towards_balance() {
    let mut rng = fresh("expert_bias");
    for experts in [1, 2, 128, 257] {
        for counts in loads(&mut rng, experts) {
            let (bias, rate) = (rng.normals(experts, 0.1), rng.pick(&[0.0, 1e-3]));
            check(&format!("{experts} experts, rate {rate}"), |u| {
                let counts = u.ints(1, experts, &counts);
                let (bias, last) = (u.acc(1, experts, &bias), u.out_ints(1, experts));
                let results = [("counts", counts), ("bias", bias), ("last", last)];
                let results = results.map(|(name, t)| (name, t, Bound::Exact)).to_vec();
                Case { ops: vec![ExpertBiasUpdate { counts, bias, rate, last }.into()], results }
            });
        }
    }
}
