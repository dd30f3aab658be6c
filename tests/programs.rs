//! What programs and the device promise: the same bits for any threads, no stale memory, well-formed lists, refusals by
//! name.

mod support;

use lightning_core::config::ModelConfig;
use lightning_core::model::{AdamConfig, ModelSpec, Objective, ProgramKind, Routing, Trace};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule};
use lightning_core::program::{Access, Program, Space};
use lightning_core::tensor::DType;
use support::named::{Named, assert_same};
use support::random::Random;
use support::*;

fn objective(scale: LossScale, aux: f64) -> Objective {
    Objective { scale, mtp_factor: 0.3, aux_coefficient: aux, bias_rate: 1e-2 }
}

fn adam() -> AdamConfig {
    AdamConfig {
        betas: (0.9, 0.95),
        eps: 1e-8,
        clip: 1.0,
        schedule: Schedule {
            decay: Decay::Constant,
            init_lr: 0.0,
            max_lr: 1e-2,
            min_lr: 0.0,
            warmup_samples: 0,
            decay_samples: 100,
            wsd_samples: 0,
            start_weight_decay: 0.1,
            end_weight_decay: 0.1,
        },
    }
}

/// Everything that a session holds after some steps.
fn state(s: &Session) -> Named {
    let mut all = s.outputs();
    all.extend(s.gradients().into_iter().map(|(n, v)| (format!("d {n}"), v)));
    all.extend(s.all_weights().into_iter().map(|(n, v)| (format!("w {n}"), v)));
    for (part, _, tensors) in s.model.parts() {
        if let Some((m, v)) = tensors.training.and_then(|t| t.moments) {
            all.insert(format!("m {}", part.name), s.read(m));
            all.insert(format!("v {}", part.name), s.read(v));
        }
        if let Some(master) = tensors.training.and_then(|t| t.master) {
            all.insert(format!("master {}", part.name), s.read(master));
        }
    }
    for (name, tensor) in [
        ("state", s.model.metrics.state),
        ("losses", s.model.metrics.losses),
        ("aux", s.model.metrics.aux),
        ("counts", s.model.metrics.counts),
        ("last", s.model.metrics.last_counts),
    ] {
        all.insert(name.to_string(), s.read(tensor));
    }
    all
}

/// Three steps of two micro-batches; with `poison`, stale memory is filled before every program.
fn train(config: &ModelConfig, options: &Options, weights: &Named, batches: &[Batch], poison: Option<u8>) -> Named {
    let mut s = tiny::session(config, options, weights);
    for pair in batches.chunks(2) {
        for (i, batch) in pair.iter().enumerate() {
            if let Some(byte) = poison {
                s.device.poison(byte);
            }
            if i == 0 { s.run_first(batch) } else { s.run_later(batch) }
        }
        if let Some(byte) = poison {
            s.device.poison(byte);
        }
        s.step(2);
    }
    if let Some(byte) = poison {
        s.device.poison(byte);
    }
    s.run_first(&batches[0]);
    let mut all = state(&s);
    if let Some(byte) = poison {
        s.device.poison(byte);
    }
    all.insert("evaluation".into(), s.evaluate(&batches[1]).losses);
    all
}

#[test]
fn threads_and_repetitions_give_the_same_bits() {
    for (act, grad) in [(DType::F32, DType::F32), (DType::BF16, DType::BF16), (DType::F64, DType::F64)] {
        let mut rng = Random::new(30);
        let config = tiny::wide(&mut rng);
        let (rows, row_len) = (2, 70);
        let batches: Vec<Batch> = (0..4).map(|_| tiny::batch(&mut rng, &config, rows, row_len, true)).collect();
        let weights = tiny::weights(&config, &mut rng);
        let mut options = Options::new(act, rows, row_len);
        options.padding = true;
        options.grad = Some(grad);
        options.objective = objective(LossScale::PerToken, 0.1);
        options.adam = Some(adam());
        let mut first = None;
        for threads in [1, 2, 3, 5, 5] {
            options.threads = threads;
            let got = train(&config, &options, &weights, &batches, None);
            match &first {
                None => first = Some(got),
                Some(want) => assert_same(&format!("{act} {threads} threads"), &got, want),
            }
        }
        assert!(first.unwrap().values().flatten().all(|v| v.is_finite()), "{act}: not finite");
    }
}

#[test]
fn stale_memory_is_never_read() {
    for (seed, act) in [(40, DType::F64), (41, DType::F32), (42, DType::BF16), (43, DType::F32)] {
        let mut rng = Random::new(seed);
        let (pattern, mtp) = rng.pick(&[("ME*-", Some(("*E", 2))), ("E*M-", Some(("M-", 1)))]);
        let config = tiny::config(&mut rng, pattern, mtp);
        let (rows, row_len) = (2, rng.range(3, 40));
        let batches: Vec<Batch> = (0..4).map(|_| tiny::batch(&mut rng, &config, rows, row_len, true)).collect();
        let weights = tiny::weights(&config, &mut rng);
        let mut options = Options::new(act, rows, row_len);
        options.padding = true;
        options.objective = objective(LossScale::MeanOfMeans(2), 0.1);
        options.adam = Some(adam());
        let want = train(&config, &options, &weights, &batches, None);
        // All bits set is NaN in every floating type and -1 in integers; 0x7f is huge.
        for byte in [0xff, 0x7f] {
            let got = train(&config, &options, &weights, &batches, Some(byte));
            assert_same(&format!("seed {seed} {act} poisoned with {byte:#x}"), &got, &want);
        }
    }
}

/// Every element that an operation reads was written before, and no two living buffers share bytes.
fn check_program(label: &str, program: &Program) {
    let mut written: Vec<Vec<bool>> = program.buffers.iter().map(|b| vec![b.space != Space::Arena; b.len]).collect();
    for (index, node) in program.nodes.iter().enumerate() {
        let mut operands = Vec::new();
        node.op.operands(&mut |name, tensor, access| operands.push((name, tensor, access)));
        for pass in 0..2 {
            for (name, tensor, access) in &operands {
                let buffer = &program.buffers[tensor.buffer.0 as usize];
                let elements = &mut written[tensor.buffer.0 as usize];
                for r in 0..tensor.rows {
                    for c in 0..tensor.cols {
                        let e = tensor.offset + r * tensor.ld + c;
                        if pass == 0 && *access != Access::Write {
                            assert!(
                                elements[e],
                                "{label}: {} reads `{}` as {name} unwritten",
                                node.op.name(),
                                buffer.name
                            );
                        }
                        if pass == 1 && *access != Access::Read {
                            elements[e] = true;
                        }
                    }
                }
                if buffer.space == Space::Arena {
                    let (first, last) = buffer.lifetime;
                    assert!(first <= index && index <= last, "{label}: `{}` used outside its lifetime", buffer.name);
                }
            }
        }
    }
    for (name, tensor) in &program.outputs {
        let buffer = &program.buffers[tensor.buffer.0 as usize];
        let whole = written[tensor.buffer.0 as usize].iter().all(|w| *w);
        assert!(
            whole && (buffer.space != Space::Arena || buffer.lifetime.1 == program.nodes.len()),
            "{label}: output {name}"
        );
    }
    let arena: Vec<_> =
        program.buffers.iter().filter(|b| b.space == Space::Arena && b.lifetime.0 != usize::MAX).collect();
    for (i, a) in arena.iter().enumerate() {
        assert!(a.offset + a.bytes() <= program.arena_bytes, "{label}: `{}` outside the arena", a.name);
        for b in &arena[i + 1..] {
            let alive = a.lifetime.0 <= b.lifetime.1 && b.lifetime.0 <= a.lifetime.1;
            let meet = a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
            assert!(!(alive && meet), "{label}: `{}` and `{}` share bytes", a.name, b.name);
        }
    }
}

#[test]
fn every_program_is_well_formed() {
    for seed in 70..100 {
        let mut rng = Random::new(seed);
        let pattern = rng.pick(&["M", "*", "E", "-", "ME*-", "EE", "M-M*E"]);
        let mtp = rng.pick(&[None, Some(("*E", 0)), Some(("*E", 1)), Some(("M-", 2)), Some(("E*", 3))]);
        let config = tiny::config(&mut rng, pattern, mtp);
        let mut options =
            Options::new(rng.pick(&[DType::F64, DType::F32, DType::BF16]), rng.range(1, 3), rng.range(1, 9));
        options.padding = rng.chance(0.5);
        options.objective = objective(LossScale::PerToken, rng.pick(&[0.0, 0.1]));
        options.routing = rng.pick(&[Routing::Natural, Routing::Forced, Routing::Noise]);
        options.adam = Some(adam());
        let s = Session::new(&config, &options);
        let label = format!("seed {seed} {pattern} {mtp:?}");
        for kind in [ProgramKind::TrainFirst, ProgramKind::Train, ProgramKind::Evaluate] {
            for trace in [Trace::Off, Trace::Full] {
                check_program(&format!("{label} {kind:?} {trace:?}"), &s.model.micro_batch(kind, trace).unwrap());
            }
        }
        check_program(&format!("{label} optimizer"), &s.model.optimizer_step(&adam()).unwrap());
    }
}

#[test]
fn noise_routing_is_deterministic_balanced_and_depends_on_the_step() {
    let mut rng = Random::new(110);
    let mut config = tiny::config(&mut rng, "EE", Some(("E", 2)));
    let moe = config.moe.as_mut().unwrap();
    (moe.experts, moe.top_k) = (8, 2);
    let (rows, row_len) = (1, 800);
    let mut options = Options::new(DType::F32, rows, row_len);
    options.routing = Routing::Noise;
    options.max_offsets = 4;
    let batch = tiny::batch(&mut rng, &config, rows, row_len, false);
    let batch = Batch { offsets: vec![0], ..batch };
    let mut weights = tiny::weights(&config, &mut rng);
    // A bias would decide the selection of equal scores; forced balance has none.
    for (name, values) in &mut weights {
        if name.ends_with("e_score_correction_bias") {
            values.fill(0.0);
        }
    }
    let mut s = tiny::session(&config, &options, &weights);
    let counter = s.model.inputs.noise.unwrap();
    let mut route = |seed: i32, step: i32| {
        s.write_ints(counter, &[seed, step]);
        s.run_first(&batch);
        let names = ["router.0.topk_idx", "router.1.topk_idx", "mtp1.topk_idx", "mtp2.topk_idx"];
        names.map(|n| s.output(n))
    };
    let first = route(3, 1);
    assert_eq!(route(3, 1), first, "the same counter gives the same experts");
    for other in [route(3, 2), route(4, 1)] {
        for (a, b) in other.iter().zip(&first) {
            assert_ne!(a, b, "another counter gives other experts");
        }
    }
    for (i, a) in first.iter().enumerate() {
        for b in &first[i + 1..] {
            assert_ne!(a, b, "every router application has noise of its own");
        }
        // 1600 choices over 8 experts: 200 each, standard deviation below 14.
        for e in 0..8 {
            let n = a.iter().filter(|x| **x == f64::from(e)).count();
            assert!((140..=260).contains(&n), "expert {e} has {n} of 1600");
        }
    }
}

#[test]
fn impossible_specifications_are_refused_by_name() {
    let mut rng = Random::new(120);
    let config = tiny::config(&mut rng, "ME*-", Some(("*E", 1)));
    let spec = |config: &ModelConfig, change: &dyn Fn(&mut ModelSpec)| {
        let options = Options::new(DType::F32, 1, 4);
        let mut spec = Session::new(config, &options).model.spec;
        change(&mut spec);
        match lightning_core::model::Model::new(spec) {
            Ok(_) => panic!("accepted"),
            Err(e) => e.to_string(),
        }
    };
    type Change<'a> = (&'a str, &'a dyn Fn(&mut ModelSpec));
    let changes: [Change<'_>; 9] = [
        ("seq_length", &|s| s.batch.row_len = 0),
        ("grad_accum_dtype", &|s| (s.precision.act, s.precision.grad) = (DType::F64, DType::BF16)),
        ("grad_accum_dtype", &|s| s.precision.grad = DType::F64),
        ("grad_accum_dtype", &|s| s.precision.grad = DType::I32),
        ("micro_batches", &|s| s.objective.scale = LossScale::MeanOfMeans(0)),
        ("n_groups", &|s| s.config.mamba.as_mut().unwrap().groups = 1000),
        ("layer_norm_epsilon", &|s| s.config.norm_eps = f64::NAN),
        ("num_experts_per_tok", &|s| s.config.moe.as_mut().unwrap().top_k = 1000),
        ("mtp_num_layers", &|s| s.config.mtp.as_mut().unwrap().depth = 1000),
    ];
    for (key, change) in changes {
        let message = spec(&config, change);
        assert!(message.contains(key), "`{message}` does not name {key}");
    }
}

/// Evaluation moves the loss metrics and nothing else: no expert count, gradient, weight or counter.
#[test]
fn evaluation_leaves_everything_but_the_metrics() {
    let mut rng = Random::new(130);
    let config = tiny::config(&mut rng, "ME*-", Some(("*E", 2)));
    let mut options = Options::new(DType::F32, 2, 7);
    options.objective = objective(LossScale::PerToken, 0.1);
    options.adam = Some(adam());
    let weights = tiny::weights(&config, &mut rng);
    let batches = [0, 1].map(|_| tiny::batch(&mut rng, &config, 2, 7, false));
    let mut s = tiny::session(&config, &options, &weights);
    s.run_first(&batches[0]);
    s.step(1);
    s.run_first(&batches[0]);
    let kept = |s: &Session| {
        let mut all = state(s);
        // Intermediate values and loss metrics belong to the evaluation.
        all.retain(|name, _| {
            let prefix = name.split(' ').next().unwrap();
            ["d", "w", "m", "v", "master", "state", "counts", "last"].contains(&prefix)
        });
        all
    };
    let before = kept(&s);
    assert!(before["counts"].iter().any(|c| *c > 0.0));
    let losses = s.evaluate(&batches[1]);
    assert!(losses.losses != s.evaluate(&batches[0]).losses);
    assert_same("evaluation", &kept(&s), &before);
}
