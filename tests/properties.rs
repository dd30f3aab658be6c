//! What must not change a result: packing, chunks, batching, threads, stale memory, ghosts, the order of accumulation.

mod support;

use lightning_core::config::ModelConfig;
use lightning_core::model::{AdamConfig, ModelSpec, Objective, ProgramKind, Routing, Trace};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule};
use lightning_core::program::{Access, Program, Space};
use lightning_core::tensor::DType;
use std::collections::BTreeMap;
use support::random::Random;
use support::*;

type Named = BTreeMap<String, Vec<f64>>;

fn objective(scale: LossScale, aux: f64) -> Objective {
    Objective {
        scale,
        mtp_factor: 0.3,
        aux_coefficient: aux,
        bias_rate: 1e-2,
    }
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

/// Every readable intermediate value of the last training micro-batch.
fn outputs(s: &Session) -> Named {
    s.first
        .outputs
        .iter()
        .map(|(name, _)| (name.clone(), s.output(name)))
        .collect()
}

#[track_caller]
fn assert_all_close(label: &str, got: &Named, want: &Named, bound: f64) {
    assert_eq!(
        got.keys().collect::<Vec<_>>(),
        want.keys().collect::<Vec<_>>()
    );
    // Relative to the whole: a gradient that is zero up to rounding has no relative error.
    let largest = want
        .values()
        .map(|v| norm(v) / (v.len().max(1) as f64).sqrt())
        .fold(0.0, f64::max);
    for (name, want) in want {
        // Sums of cancelling terms.
        let bound = if name.ends_with("A_log") || name.ends_with("dt_bias") {
            10.0 * bound
        } else {
            bound
        };
        let difference: Vec<f64> = got[name].iter().zip(want).map(|(g, w)| g - w).collect();
        let size = norm(want).max(1e-2 * largest * (want.len() as f64).sqrt());
        let error = if size == 0.0 {
            norm(&difference)
        } else {
            norm(&difference) / size
        };
        assert!(
            error <= bound,
            "{label} {name}: relative error {error:.3e} above {bound:.1e}"
        );
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[track_caller]
fn assert_same(label: &str, got: &Named, want: &Named) {
    assert_eq!(
        got.keys().collect::<Vec<_>>(),
        want.keys().collect::<Vec<_>>()
    );
    for (name, want) in want {
        let same = got[name]
            .iter()
            .zip(want)
            .all(|(g, w)| g.to_bits() == w.to_bits());
        assert!(same, "{label} {name}: bits differ");
    }
}

/// Loss mask for which every depth of MTP has as many tokens as the LM, document by document: nothing in the first
/// `depth` tokens of a document. Then losses of documents and rows add up.
fn additive_mask(
    rng: &mut Random,
    documents: &[(usize, usize)],
    depth: usize,
    density: f64,
) -> Vec<i32> {
    let mut mask = Vec::new();
    for &(start, end) in documents {
        for t in start..end {
            mask.push(i32::from(t >= start + depth && rng.chance(density)));
        }
    }
    mask
}

/// Documents of a batch as the specification cuts them: at offsets, row starts and the end.
fn documents(batch: &Batch, row_len: usize) -> Vec<(usize, usize)> {
    let tokens = batch.ids.len();
    let mut cuts: Vec<usize> = (0..=tokens).step_by(row_len).collect();
    cuts.extend(batch.offsets.iter().map(|o| *o as usize));
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|w| (w[0], w[1])).collect()
}

fn check_packing(label: &str, rng: &mut Random, config: &ModelConfig, act: DType, bound: f64) {
    let (rows, row_len) = (rng.range(1, 2), rng.range(9, 24));
    let mut batch = tiny::batch(rng, config, rows, row_len, false);
    batch.offsets = rng.offsets(rows * row_len, 5);
    let documents = documents(&batch, row_len);
    batch.mask = additive_mask(rng, &documents, config.mtp_depth(), 0.8);
    let weights = tiny::weights(config, rng);
    let mut options = Options::new(act, rows, row_len);
    options.objective = objective(LossScale::PerToken, 0.0);
    let mut packed = tiny::session(config, &options, &weights);
    packed.run_first(&batch);
    let (mut values, mut gradients, mut losses) = (Named::new(), Named::new(), Vec::new());
    for &(start, end) in &documents {
        (options.rows, options.row_len) = (1, end - start);
        let mut s = tiny::session(config, &options, &weights);
        let part = |v: &[i32]| v[start..end].to_vec();
        s.run_first(&Batch::new(
            part(&batch.ids),
            part(&batch.labels),
            part(&batch.mask),
        ));
        for (name, v) in outputs(&s) {
            values.entry(name).or_default().extend(v);
        }
        for (name, v) in s.gradients() {
            let sum = gradients.entry(name).or_insert_with(|| vec![0.0; v.len()]);
            sum.iter_mut().zip(v).for_each(|(a, b)| *a += b);
        }
        let sums = s.values().losses;
        losses.resize(sums.len(), 0.0);
        losses.iter_mut().zip(sums).for_each(|(a, b)| *a += b);
    }
    let label = format!("{label} {act} {documents:?}");
    assert_all_close(&label, &outputs(&packed), &values, bound);
    assert_all_close(&label, &packed.gradients(), &gradients, bound);
    // Sums of losses, tokens and hits; the means are not additive.
    let got = packed.values().losses;
    for (got, want) in got.chunks(4).zip(losses.chunks(4)) {
        assert_close(&label, &got[..1], &want[..1], bound);
        assert_eq!(
            (got[1], got[3]),
            (want[1], want[3]),
            "{label}: tokens and hits"
        );
    }
}

#[test]
fn packed_equals_separate_documents() {
    for (seed, pattern, mtp) in [
        (1, "ME*-", Some(("*E", 2))),
        (2, "M*M", None),
        (3, "E*", Some(("M*", 1))),
        (4, "MM", Some(("*E", 3))),
        (5, "*", None),
        (6, "M-E", None),
    ] {
        let mut rng = Random::new(seed);
        let config = tiny::config(&mut rng, pattern, mtp);
        check_packing(
            &format!("seed {seed} {pattern}"),
            &mut rng,
            &config,
            DType::F64,
            1e-12,
        );
    }
    // In f32 the bound holds for models of ordinary condition.
    for seed in 7..9 {
        let mut rng = Random::new(seed);
        let config = wide_config(&mut rng);
        check_packing(&format!("seed {seed}"), &mut rng, &config, DType::F32, 1e-6);
    }
}

fn check_chunks(label: &str, rng: &mut Random, mut config: ModelConfig, act: DType, bound: f64) {
    let (rows, row_len) = (rng.range(1, 2), rng.range(10, 30));
    let mut batch = tiny::batch(rng, &config, rows, row_len, false);
    batch.mask = vec![1; rows * row_len];
    batch.offsets = rng.offsets(rows * row_len, 3);
    let weights = tiny::weights(&config, rng);
    let mut want = None;
    for chunk in [row_len, 1, 2, 7, row_len - 1, row_len + 1, 1000] {
        config.mamba.as_mut().unwrap().chunk = chunk;
        let mut s = tiny::session(&config, &Options::new(act, rows, row_len), &weights);
        s.run_first(&batch);
        let got = (outputs(&s), s.gradients());
        let (values, gradients) = want.get_or_insert_with(|| got.clone());
        let label = format!("{label} {act} chunk {chunk} of {row_len}");
        assert_all_close(&label, &got.0, values, bound);
        assert_all_close(&label, &got.1, gradients, bound);
    }
}

#[test]
fn any_chunk_length_gives_the_same() {
    for seed in 10..13 {
        let mut rng = Random::new(seed);
        let config = tiny::config(&mut rng, "M*M", Some(("M", 1)));
        check_chunks(&format!("seed {seed}"), &mut rng, config, DType::F64, 1e-12);
    }
    // In f32 the bound is that of one mixer; deeper models add up the differences of their layers.
    for seed in 13..17 {
        let mut rng = Random::new(seed);
        let mut config = wide_config(&mut rng);
        (config.layers, config.mtp) = (lightning_core::config::parse_pattern("M").unwrap(), None);
        check_chunks(&format!("seed {seed}"), &mut rng, config, DType::F32, 1e-6);
    }
}

#[test]
fn a_batch_of_two_equals_two_of_one() {
    for (seed, mtp) in [(20, Some(("*E", 2))), (21, None), (22, Some(("E", 1)))] {
        let mut rng = Random::new(seed);
        let config = tiny::config(&mut rng, "ME*-E", mtp);
        let row_len = rng.range(6, 15);
        let mut batch = tiny::batch(&mut rng, &config, 2, row_len, false);
        batch.offsets = vec![0];
        let rows = [(0, row_len), (row_len, 2 * row_len)];
        let depth = config.mtp_depth();
        // With per-token loss rows may differ in their tokens; the mean of means is one mean only when they do not.
        for per_token in [true, false] {
            let density = if per_token { 0.6 } else { 1.0 };
            batch.mask = additive_mask(&mut rng, &rows, depth, density);
            let scale = |n: usize| {
                if per_token {
                    LossScale::PerToken
                } else {
                    LossScale::MeanOfMeans(n)
                }
            };
            let weights = tiny::weights(&config, &mut rng);
            let mut options = Options::new(DType::F64, 2, row_len);
            options.objective = objective(scale(1), 0.3);
            let mut both = tiny::session(&config, &options, &weights);
            both.run_first(&batch);
            let mut options = Options::new(DType::F64, 1, row_len);
            options.objective = objective(scale(2), 0.3);
            let mut one = tiny::session(&config, &options, &weights);
            for (i, (start, end)) in rows.into_iter().enumerate() {
                let part = |v: &[i32]| v[start..end].to_vec();
                let row = Batch::new(part(&batch.ids), part(&batch.labels), part(&batch.mask));
                if i == 0 {
                    one.run_first(&row)
                } else {
                    one.run_later(&row)
                }
            }
            let label = format!("seed {seed} per token {per_token}");
            assert_all_close(&label, &one.gradients(), &both.gradients(), 1e-12);
            let (got, want) = (one.values().losses, both.values().losses);
            for (got, want) in got.chunks(4).zip(want.chunks(4)) {
                assert_close(&label, &got[..2], &want[..2], 1e-12);
            }
            assert_eq!(
                one.read(one.model.metrics.counts),
                both.read(both.model.metrics.counts),
                "{label}: counts"
            );
        }
    }
}

/// A model whose operations are cut into many pieces.
fn wide_config(rng: &mut Random) -> ModelConfig {
    let mut config = tiny::config(rng, "ME*-M", Some(("*E", 2)));
    (config.hidden, config.vocab) = (72, 301);
    let m = config.mamba.as_mut().unwrap();
    (
        m.heads,
        m.groups,
        m.head_dim,
        m.state,
        m.chunk,
        m.conv_kernel,
    ) = (12, 3, 11, 7, 32, 4);
    let a = config.attention.as_mut().unwrap();
    (a.heads, a.kv_heads, a.head_dim) = (6, 2, 16);
    let e = config.moe.as_mut().unwrap();
    (
        e.experts,
        e.top_k,
        e.expert_width,
        e.shared_width,
        e.shared_experts,
    ) = (7, 3, 65, 96, 1);
    config.mlp_width = Some(130);
    config
}

/// Everything that a session holds after some steps.
fn state(s: &Session) -> Named {
    let mut all = outputs(s);
    all.extend(
        s.gradients()
            .into_iter()
            .map(|(n, v)| (format!("d {n}"), v)),
    );
    all.extend(
        s.all_weights()
            .into_iter()
            .map(|(n, v)| (format!("w {n}"), v)),
    );
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
fn train(
    config: &ModelConfig,
    options: &Options,
    weights: &Named,
    batches: &[Batch],
    poison: Option<u8>,
) -> Named {
    let mut s = tiny::session(config, options, weights);
    for pair in batches.chunks(2) {
        for (i, batch) in pair.iter().enumerate() {
            if let Some(byte) = poison {
                s.device.poison(byte);
            }
            if i == 0 {
                s.run_first(batch)
            } else {
                s.run_later(batch)
            }
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
    for (act, grad) in [
        (DType::F32, DType::F32),
        (DType::BF16, DType::BF16),
        (DType::F64, DType::F64),
    ] {
        let mut rng = Random::new(30);
        let config = wide_config(&mut rng);
        let (rows, row_len) = (2, 70);
        let batches: Vec<Batch> = (0..4)
            .map(|_| tiny::batch(&mut rng, &config, rows, row_len, true))
            .collect();
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
        assert!(
            first.unwrap().values().flatten().all(|v| v.is_finite()),
            "{act}: not finite"
        );
    }
}

#[test]
fn stale_memory_is_never_read() {
    for (seed, act) in [
        (40, DType::F64),
        (41, DType::F32),
        (42, DType::BF16),
        (43, DType::F32),
    ] {
        let mut rng = Random::new(seed);
        let (pattern, mtp) = rng.pick(&[("ME*-", Some(("*E", 2))), ("E*M-", Some(("M-", 1)))]);
        let config = tiny::config(&mut rng, pattern, mtp);
        let (rows, row_len) = (2, rng.range(3, 40));
        let batches: Vec<Batch> = (0..4)
            .map(|_| tiny::batch(&mut rng, &config, rows, row_len, true))
            .collect();
        let weights = tiny::weights(&config, &mut rng);
        let mut options = Options::new(act, rows, row_len);
        options.padding = true;
        options.objective = objective(LossScale::MeanOfMeans(2), 0.1);
        options.adam = Some(adam());
        let want = train(&config, &options, &weights, &batches, None);
        // All bits set is NaN in every floating type and -1 in integers; 0x7f is huge.
        for byte in [0xff, 0x7f] {
            let got = train(&config, &options, &weights, &batches, Some(byte));
            assert_same(
                &format!("seed {seed} {act} poisoned with {byte:#x}"),
                &got,
                &want,
            );
        }
    }
}

#[test]
fn overwriting_first_equals_zeroing_first() {
    for (seed, act, grad) in [
        (50, DType::F64, DType::F64),
        (51, DType::F32, DType::F32),
        (52, DType::F32, DType::BF16),
        (53, DType::BF16, DType::F32),
    ] {
        let mut rng = Random::new(seed);
        let config = tiny::config(&mut rng, "ME*-", Some(("*E", 2)));
        let (rows, row_len) = (2, 11);
        let batches: Vec<Batch> = (0..3)
            .map(|_| tiny::batch(&mut rng, &config, rows, row_len, false))
            .collect();
        let weights = tiny::weights(&config, &mut rng);
        let mut options = Options::new(act, rows, row_len);
        options.grad = Some(grad);
        options.objective = objective(LossScale::MeanOfMeans(2), 0.1);
        let mut s = tiny::session(&config, &options, &weights);
        // Gradients and metrics of an earlier step must not survive.
        s.run_first(&batches[2]);
        s.run_first(&batches[0]);
        s.run_later(&batches[1]);
        let want = s.gradients();
        let values = s.values();
        let mut zeroed = tiny::session(&config, &options, &weights);
        zeroed.run_later(&batches[0]);
        zeroed.run_later(&batches[1]);
        assert_eq!(zeroed.gradients(), want, "{act} {grad}");
        assert_eq!(zeroed.values(), values, "{act} {grad}");
        assert!(want.values().any(|g| g.iter().any(|v| *v != 0.0)));
    }
}

#[test]
fn ghost_offsets_change_nothing() {
    let mut rng = Random::new(60);
    let config = tiny::config(&mut rng, "M*E", Some(("*E", 2)));
    let (rows, row_len) = (2, 12);
    let mut batch = tiny::batch(&mut rng, &config, rows, row_len, false);
    batch.mask = vec![1; 24];
    let weights = tiny::weights(&config, &mut rng);
    let mut s = tiny::session(&config, &Options::new(DType::F32, rows, row_len), &weights);
    let mut run = |offsets: &[i32]| {
        batch.offsets = offsets.to_vec();
        s.run_first(&batch);
        let mut all = outputs(&s);
        all.extend(s.gradients());
        all
    };
    let want = run(&[0, 5, 17]);
    for ghosts in [
        &[0, 0, 0, 5, 5, 17][..],
        &[0, 5, 17, 24, 24, 24],
        &[0, 5, 12, 17, 17],
        &[5, 17],
    ] {
        assert_same(&format!("{ghosts:?}"), &run(ghosts), &want);
    }
    assert_ne!(run(&[0, 5, 18]), want, "offsets have no effect");
}

/// Every element that an operation reads was written before, and no two living buffers share bytes.
fn check_program(label: &str, program: &Program) {
    let mut written: Vec<Vec<bool>> = program
        .buffers
        .iter()
        .map(|b| vec![b.space != Space::Arena; b.len])
        .collect();
    for (index, node) in program.nodes.iter().enumerate() {
        let mut operands = Vec::new();
        node.op
            .operands(&mut |name, tensor, access| operands.push((name, tensor, access)));
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
                    assert!(
                        first <= index && index <= last,
                        "{label}: `{}` used outside its lifetime",
                        buffer.name
                    );
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
    let arena: Vec<_> = program
        .buffers
        .iter()
        .filter(|b| b.space == Space::Arena && b.lifetime.0 != usize::MAX)
        .collect();
    for (i, a) in arena.iter().enumerate() {
        assert!(
            a.offset + a.bytes() <= program.arena_bytes,
            "{label}: `{}` outside the arena",
            a.name
        );
        for b in &arena[i + 1..] {
            let alive = a.lifetime.0 <= b.lifetime.1 && b.lifetime.0 <= a.lifetime.1;
            let meet = a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
            assert!(
                !(alive && meet),
                "{label}: `{}` and `{}` share bytes",
                a.name,
                b.name
            );
        }
    }
}

#[test]
fn every_program_is_well_formed() {
    for seed in 70..100 {
        let mut rng = Random::new(seed);
        let pattern = rng.pick(&["M", "*", "E", "-", "ME*-", "EE", "M-M*E"]);
        let mtp = rng.pick(&[
            None,
            Some(("*E", 0)),
            Some(("*E", 1)),
            Some(("M-", 2)),
            Some(("E*", 3)),
        ]);
        let config = tiny::config(&mut rng, pattern, mtp);
        let mut options = Options::new(
            rng.pick(&[DType::F64, DType::F32, DType::BF16]),
            rng.range(1, 3),
            rng.range(1, 9),
        );
        options.padding = rng.chance(0.5);
        options.objective = objective(LossScale::PerToken, rng.pick(&[0.0, 0.1]));
        options.routing = rng.pick(&[Routing::Natural, Routing::Forced, Routing::Noise]);
        options.adam = Some(adam());
        let s = Session::new(&config, &options);
        let label = format!("seed {seed} {pattern} {mtp:?}");
        for kind in [
            ProgramKind::TrainFirst,
            ProgramKind::Train,
            ProgramKind::Evaluate,
        ] {
            for trace in [Trace::Off, Trace::Full] {
                check_program(
                    &format!("{label} {kind:?} {trace:?}"),
                    &s.model.micro_batch(kind, trace).unwrap(),
                );
            }
        }
        check_program(
            &format!("{label} optimizer"),
            &s.model.optimizer_step(&adam()).unwrap(),
        );
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
    let batch = Batch {
        offsets: vec![0],
        ..batch
    };
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
        let names = [
            "router.0.topk_idx",
            "router.1.topk_idx",
            "mtp1.topk_idx",
            "mtp2.topk_idx",
        ];
        names.map(|n| s.output(n))
    };
    let first = route(3, 1);
    assert_eq!(
        route(3, 1),
        first,
        "the same counter gives the same experts"
    );
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
        ("grad_accum_dtype", &|s| {
            (s.precision.act, s.precision.grad) = (DType::F64, DType::BF16)
        }),
        ("grad_accum_dtype", &|s| s.precision.grad = DType::F64),
        ("grad_accum_dtype", &|s| s.precision.grad = DType::I32),
        ("micro_batches", &|s| {
            s.objective.scale = LossScale::MeanOfMeans(0)
        }),
        ("n_groups", &|s| {
            s.config.mamba.as_mut().unwrap().groups = 1000
        }),
        ("layer_norm_epsilon", &|s| s.config.norm_eps = f64::NAN),
        ("num_experts_per_tok", &|s| {
            s.config.moe.as_mut().unwrap().top_k = 1000
        }),
        ("mtp_num_layers", &|s| {
            s.config.mtp.as_mut().unwrap().depth = 1000
        }),
    ];
    for (key, change) in changes {
        let message = spec(&config, change);
        assert!(message.contains(key), "`{message}` does not name {key}");
    }
}
