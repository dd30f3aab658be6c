//! The optimizer step against an independent f64 loop, and what must not move.

mod support;

use lightning_core::device::Device;
use lightning_core::layout::Role;
use lightning_core::model::{AdamConfig, Objective};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule, StateSlot};
use lightning_core::tensor::{DType, Tensor};
use std::collections::BTreeMap;
use support::random::Random;
use support::*;

fn schedule() -> Schedule {
    Schedule {
        decay: Decay::Cosine,
        init_lr: 1e-3,
        max_lr: 2e-2,
        min_lr: 1e-3,
        warmup_samples: 5,
        decay_samples: 20,
        wsd_samples: 0,
        start_weight_decay: 0.1,
        end_weight_decay: 0.3,
    }
}

fn adam() -> AdamConfig {
    AdamConfig { betas: (0.9, 0.95), eps: 1e-8, clip: 0.5, schedule: schedule() }
}

fn setup(
    seed: u64,
    act: DType,
    scale: LossScale,
    adam: AdamConfig,
) -> (Session, Vec<Batch>, BTreeMap<String, Vec<f64>>) {
    let mut rng = Random::new(seed);
    let config = tiny::config(&mut rng, "ME*-", Some(("*E", 2)));
    let (rows, row_len) = (1, rng.range(5, 12));
    let mut options = Options::new(act, rows, row_len);
    options.objective = Objective { scale, mtp_factor: 0.3, aux_coefficient: 0.1, bias_rate: 1e-2 };
    options.adam = Some(adam);
    let batches = (0..8)
        .map(|i| {
            let mut batch = tiny::batch(&mut rng, &config, rows, row_len, false);
            batch.mask = rng.mask(row_len, 0.7);
            batch.mask[i % row_len] = 1;
            batch
        })
        .collect();
    let weights = tiny::weights(&config, &mut rng);
    (tiny::session(&config, &options, &weights), batches, weights)
}

impl Session {
    fn set(&mut self, tensor: Tensor, values: &[f64]) {
        self.device.write_f64(self.model.persistent.buffers(), tensor, values).unwrap();
    }

    /// Everything that a step may change, with bits.
    fn everything(&self) -> Vec<(String, Vec<u64>)> {
        let mut all = Vec::new();
        for (part, _, tensors) in self.model.parts() {
            let mut add = |what: &str, t: Tensor| {
                let bits = self.read(t).iter().map(|v| v.to_bits()).collect();
                all.push((format!("{what} {}", part.name), bits));
            };
            add("weight", tensors.weight);
            if let Some(t) = tensors.training {
                t.master.iter().for_each(|m| add("master", *m));
                t.moments.iter().for_each(|(m, v)| {
                    add("m", *m);
                    add("v", *v);
                });
            }
        }
        all
    }
}

/// Learning rate and weight decay as the recipe writes them.
fn rates(s: &Schedule, n: f64) -> (f64, f64) {
    let (w, d) = (s.warmup_samples as f64, s.decay_samples as f64);
    let lr = if n <= w {
        s.init_lr + (s.max_lr - s.init_lr) * n / w
    } else if n > d {
        s.min_lr
    } else {
        let r = (n - w) / (d - w);
        s.min_lr + 0.5 * (1.0 + (std::f64::consts::PI * r).cos()) * (s.max_lr - s.min_lr)
    };
    (lr, s.start_weight_decay + (n / d).min(1.0) * (s.end_weight_decay - s.start_weight_decay))
}

#[test]
fn adamw_equals_an_independent_loop() {
    for (seed, act, scale, clip, bound) in [
        (1, DType::F64, LossScale::PerToken, 0.5, 1e-12),
        (2, DType::F64, LossScale::MeanOfMeans(2), 1e9, 1e-12),
        (3, DType::F64, LossScale::MeanOfMeans(2), 0.0, 1e-12),
        (4, DType::F32, LossScale::PerToken, 0.5, 2e-6),
        (5, DType::BF16, LossScale::PerToken, 0.5, 2e-6),
    ] {
        let config = AdamConfig { clip, ..adam() };
        let (mut s, batches, weights) = setup(seed, act, scale, config);
        let mut reference = weights;
        let (mut m, mut v) = (BTreeMap::new(), BTreeMap::new());
        let mut samples = 0.0;
        let mut clipped = 0;
        for step in 1..=6 {
            s.run_first(&batches[step]);
            s.run_later(&batches[step + 1]);
            let gradients = s.gradients();
            let tokens: i32 = batches[step].mask.iter().chain(&batches[step + 1].mask).sum();
            let scale = if scale == LossScale::PerToken { 1.0 / f64::from(tokens) } else { 1.0 };
            let squares: f64 = gradients.values().flatten().map(|g| g * g).sum();
            let norm = scale * squares.sqrt();
            let factor = if clip > 0.0 { (clip / (norm + 1e-6)).min(1.0) } else { 1.0 };
            clipped += usize::from(factor < 1.0);
            let (lr, decay) = rates(&schedule(), samples);
            let (c1, c2) = (1.0 - 0.9f64.powi(step as i32), 1.0 - 0.95f64.powi(step as i32));
            for (part, _, _) in s.model.parts() {
                let Some(gradient) = gradients.get(&part.name) else {
                    continue;
                };
                let p = reference.get_mut(&part.name).unwrap();
                let m = m.entry(part.name.clone()).or_insert_with(|| vec![0.0; p.len()]);
                let v = v.entry(part.name.clone()).or_insert_with(|| vec![0.0; p.len()]);
                // Megatron's rule: vectors and biases are not decayed.
                let decay = if part.shape.len() == 1 || part.name.ends_with(".bias") { 0.0 } else { decay };
                for i in 0..p.len() {
                    let g = gradient[i] * scale * factor;
                    m[i] = 0.9 * m[i] + (1.0 - 0.9) * g;
                    v[i] = 0.95 * v[i] + (1.0 - 0.95) * g * g;
                    p[i] -= lr * (m[i] / c1 / ((v[i] / c2).sqrt() + 1e-8) + decay * p[i]);
                }
            }
            s.step(2);
            samples += 2.0;
            let label = format!("seed {seed} {act} step {step}");
            assert_close(&label, &[s.state(StateSlot::GradNorm)], &[norm], 1e-12);
            assert_close(&label, &[s.state(StateSlot::LearningRate)], &[lr], 1e-12);
            assert_close(&label, &[s.state(StateSlot::NextLearningRate)], &[rates(&schedule(), samples).0], 1e-12);
            assert_close(&label, &[s.state(StateSlot::WeightDecay)], &[decay], 1e-12);
            assert_eq!(s.state(StateSlot::Samples), samples);
            assert_eq!(s.state(StateSlot::Steps), step as f64);
            for (part, role, tensors) in s.model.parts() {
                if !role.trains() {
                    continue;
                }
                let training = tensors.training.unwrap();
                let live = s.read(training.master.unwrap_or(tensors.weight));
                assert_close(&format!("{label} {}", part.name), &live, &reference[&part.name], bound);
                let (first, second) = training.moments.unwrap();
                // A zero second moment of an unused expert has no relative error.
                assert_close(&format!("{label} m {}", part.name), &s.read(first), &m[&part.name], bound);
                assert_close(&format!("{label} v {}", part.name), &s.read(second), &v[&part.name], bound);
                if training.master.is_some() {
                    let rounded: Vec<f64> = live.iter().map(|x| half::bf16::from_f32(*x as f32).to_f64()).collect();
                    assert_eq!(s.read(tensors.weight), rounded, "{}: working weight", part.name);
                }
                // What the model computes with next is what the step left behind.
                if act == DType::F64 {
                    reference.insert(part.name.clone(), live);
                }
            }
        }
        assert_eq!(clipped > 0, clip == 0.5, "seed {seed}: {clipped} steps were clipped");
    }
}

#[test]
fn non_finite_gradients_skip_the_step_and_count() {
    for act in [DType::F64, DType::F32, DType::BF16] {
        let (mut s, batches, _) = setup(10, act, LossScale::PerToken, adam());
        s.run_first(&batches[0]);
        s.step(2);
        let targets: Vec<Tensor> = s.model.params.iter().filter_map(|t| t.training.map(|t| t.gradient)).collect();
        let samples = s.state(StateSlot::Samples);
        let mut rng = Random::new(11);
        for attempt in 1..=10 {
            s.run_first(&batches[attempt % 8]);
            let target = rng.pick(&targets);
            let mut gradient = s.read(target);
            let at = rng.range(0, gradient.len() - 1);
            gradient[at] = rng.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
            s.set(target, &gradient);
            let before = s.everything();
            let counts = s.read(s.model.metrics.counts);
            s.step(2);
            for ((name, before), (_, after)) in before.iter().zip(&s.everything()) {
                // The expert biases move with the counts even then (distributed.md §3).
                if !name.ends_with("e_score_correction_bias") {
                    assert_eq!(before, after, "{act}: {name} moved in a skipped step");
                }
            }
            assert!(s.read(s.model.metrics.counts).iter().all(|c| *c == 0.0));
            assert_eq!(s.read(s.model.metrics.last_counts), counts);
            assert_eq!(s.state(StateSlot::Skip), 1.0);
            assert_eq!(s.state(StateSlot::Skipped), attempt as f64);
            assert_eq!(s.state(StateSlot::SkippedInARow), attempt as f64);
            assert_eq!((s.state(StateSlot::Samples), s.state(StateSlot::Steps)), (samples, 1.0));
            assert_eq!(s.state(StateSlot::NextLearningRate), s.state(StateSlot::LearningRate));
        }
        let before = s.everything();
        s.run_first(&batches[0]);
        s.step(2);
        assert!(before != s.everything(), "a good step after bad ones moves");
        assert_eq!((s.state(StateSlot::Skip), s.state(StateSlot::SkippedInARow)), (0.0, 0.0));
        assert_eq!((s.state(StateSlot::Skipped), s.state(StateSlot::Steps)), (10.0, 2.0));
        assert_eq!(s.state(StateSlot::Samples), samples + 2.0);
    }
}

/// Overflow of the sum of squares in f32 must not skip: it is summed in f64.
#[test]
fn large_but_finite_gradients_do_not_skip() {
    let (mut s, batches, _) = setup(12, DType::F32, LossScale::MeanOfMeans(1), adam());
    s.run_first(&batches[0]);
    let flat = s.model.gradients.unwrap();
    let gradients: Vec<f64> = s.read(flat).iter().map(|g| g * 1e30).collect();
    s.set(flat, &gradients);
    s.step(1);
    assert_eq!((s.state(StateSlot::Skip), s.state(StateSlot::Steps)), (0.0, 1.0));
    assert!(s.state(StateSlot::GradNorm).is_finite());
    assert!(s.all_weights().values().flatten().all(|w| w.is_finite()));
}

#[test]
fn b67_weights_at_one_move_in_bf16() {
    let mut config = adam();
    config.schedule.decay = Decay::Constant;
    (config.schedule.warmup_samples, config.schedule.max_lr) = (0, 1e-4);
    let (mut s, batches, weights) = setup(20, DType::BF16, LossScale::MeanOfMeans(1), config);
    let norms: Vec<String> = weights.keys().filter(|n| n.contains("norm")).cloned().collect();
    assert!(norms.len() > 6);
    for name in &norms {
        let part = s.part(name);
        let ones = vec![1.0; weights[name].len()];
        s.model.write_weight(&mut s.device, part, &ones).unwrap();
    }
    for step in 0..100 {
        s.run_first(&batches[step % 2]);
        s.step(1);
    }
    for name in &norms {
        // A gradient that is exactly zero moves nothing: a norm over one channel, an unused position.
        let moments = s.read(s.part(name).training.unwrap().moments.unwrap().1);
        let master = s.read(s.part(name).training.unwrap().master.unwrap());
        let weight = s.weight(name);
        for i in 0..weight.len() {
            if moments[i] > 0.0 {
                assert!(master[i] != 1.0, "{name}[{i}]: the master stands still");
            }
        }
        let moved =
            master.iter().zip(&weight).filter(|(m, _)| (**m - 1.0).abs() > 2f64.powi(-8)).all(|(_, w)| *w != 1.0);
        assert!(moved, "{name}: the working copy does not follow");
    }
    let any = norms.iter().any(|n| s.weight(n).iter().any(|w| *w != 1.0));
    assert!(any, "no working copy moved");
}

#[test]
fn b68_imported_weights_survive_a_step_of_rate_zero() {
    for act in [DType::F64, DType::F32, DType::BF16] {
        let mut config = adam();
        config.schedule.decay = Decay::Constant;
        (config.schedule.warmup_samples, config.schedule.init_lr, config.schedule.max_lr) = (0, 0.0, 0.0);
        let (mut s, batches, weights) = setup(21, act, LossScale::PerToken, config);
        let mut masters = 0;
        for (part, role, tensors) in s.model.parts() {
            if let Some(master) = tensors.training.and_then(|t| t.master) {
                assert_eq!(s.read(master), s.read(tensors.weight), "{}", part.name);
                masters += 1;
            }
            let wants_master = act == DType::BF16 && role.trains() && !role.keeps_precision();
            assert_eq!(tensors.training.is_some_and(|t| t.master.is_some()), wants_master, "{}", part.name);
            assert_eq!(s.read(tensors.weight), weights[&part.name], "{}", part.name);
        }
        assert_eq!(masters > 0, act == DType::BF16);
        s.run_first(&batches[0]);
        s.step(1);
        for (name, after) in s.all_weights() {
            if !name.ends_with("e_score_correction_bias") {
                assert_eq!(after, weights[&name], "{act} {name}");
            }
        }
    }
}

/// The table of decayed tensors, by public name.
#[test]
fn b69_weight_decay_spares_vectors_and_biases() {
    let mut config = adam();
    config.clip = 0.0;
    config.schedule.warmup_samples = 0;
    let (mut s, _, _) = setup(22, DType::F64, LossScale::MeanOfMeans(1), config);
    // With zero gradients only decay moves weights.
    let flat = s.model.gradients.unwrap();
    s.set(flat, &vec![0.0; flat.len()]);
    let before = s.all_weights();
    s.step(1);
    let (lr, decay) = rates(&config.schedule, 0.0);
    let lr = if config.schedule.warmup_samples == 0 { config.schedule.max_lr } else { lr };
    let after = s.all_weights();
    let mut seen = [0, 0];
    for (name, before) in &before {
        let spared = ["norm", "A_log", ".D", "dt_bias", "conv1d.bias", "e_score_correction_bias"];
        let decayed = !spared.iter().any(|w| name.contains(w));
        seen[usize::from(decayed)] += 1;
        let want: Vec<f64> = before.iter().map(|w| if decayed { w * (1.0 - lr * decay) } else { *w }).collect();
        assert_close(name, &after[name], &want, 1e-14);
        assert_eq!(&after[name] == before, !decayed, "{name}");
    }
    assert!(seen[0] > 10 && seen[1] > 10);
    let taps = Role::ConvWeight;
    assert!(taps.decays(), "convolution taps are a 3-D tensor");
}

/// A run that is resumed from its tensors goes on bit for bit, with the same rates, also after a skipped step.
#[test]
fn b70_resuming_continues_the_schedule_once() {
    for act in [DType::F32, DType::BF16] {
        let (mut whole, batches, _) = setup(23, act, LossScale::PerToken, adam());
        let step = |s: &mut Session, i: usize| {
            s.run_first(&batches[i]);
            if i == 1 {
                let flat = s.model.gradients.unwrap();
                let mut g = s.read(flat);
                g[0] = f64::NAN;
                s.set(flat, &g);
            }
            s.step(1);
            s.state(StateSlot::LearningRate)
        };
        for i in 0..3 {
            step(&mut whole, i);
        }
        let (mut resumed, _, _) = setup(23, act, LossScale::PerToken, adam());
        let tensors: Vec<Tensor> = whole
            .model
            .parts()
            .flat_map(|(_, _, t)| {
                let training = t.training;
                let moments = training.and_then(|t| t.moments).map(|(m, v)| [m, v]);
                [Some(t.weight), training.and_then(|t| t.master)]
                    .into_iter()
                    .flatten()
                    .chain(moments.into_iter().flatten())
            })
            .chain([whole.model.metrics.state])
            .collect();
        for tensor in tensors {
            let values = whole.read(tensor);
            resumed.set(tensor, &values);
        }
        for i in 3..6 {
            let (a, b) = (step(&mut whole, i), step(&mut resumed, i));
            assert_eq!(a, b, "{act}: rate of step {i}");
        }
        assert_eq!(whole.everything(), resumed.everything(), "{act}");
        // One step was skipped: five counted.
        assert_eq!(whole.state(StateSlot::Steps), 5.0);
        assert_eq!(whole.state(StateSlot::NextLearningRate), schedule().learning_rate(5));
    }
}

#[test]
fn b39_expert_biases_move_in_place() {
    let (mut s, batches, weights) = setup(24, DType::BF16, LossScale::PerToken, adam());
    s.run_first(&batches[0]);
    s.run_later(&batches[1]);
    let counts = s.read(s.model.metrics.counts);
    let experts = s.model.metrics.counts.cols;
    s.step(1);
    let names: Vec<String> = weights.keys().filter(|n| n.ends_with("e_score_correction_bias")).cloned().collect();
    let live: Vec<Vec<f64>> = s.model.expert_biases().iter().map(|t| s.read(*t)).collect();
    assert_eq!(names.len(), live.len());
    for (i, (name, live)) in names.iter().zip(&live).enumerate() {
        let n = &counts[i * experts..(i + 1) * experts];
        let mean = n.iter().sum::<f64>() / experts as f64;
        for e in 0..experts {
            let want = weights[name][e] + 1e-2 * if n[e] == mean { 0.0 } else { (mean - n[e]).signum() };
            assert!((s.weight(name)[e] - want).abs() < 1e-6, "{name}[{e}]");
        }
        assert_eq!(&s.weight(name), live, "what a checkpoint would hold is what routes");
        assert!(experts == 1 || live.iter().any(|b| *b != 0.0));
    }
}
