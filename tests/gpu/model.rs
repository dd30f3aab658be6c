//! Whole models on the virtual GPU: every readable value and every gradient against an f64 run on the CPU device with the
//! same routing, beside the error of the CPU device in bf16.

use super::compare::fresh;
use super::support::*;
use lightning_core::config::ModelConfig;
use lightning_core::cpu::CpuDevice;
use lightning_core::device::Device;
use lightning_core::gpu::{Execution, GpuDevice, GpuOptions};
use lightning_core::model::{AdamConfig, Objective, Routing};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule, StateSlot};
use lightning_core::program::Program;
use lightning_core::tensor::DType;
use std::collections::BTreeMap;

type Weights = BTreeMap<String, Vec<f64>>;

fn gpu(config: &ModelConfig, options: &Options, execution: Execution) -> Session<GpuDevice> {
    let open = GpuOptions { execution, ..GpuOptions::default() };
    Session::with(config, options, |persistent, programs| GpuDevice::new(persistent, programs, open))
}

fn options(act: DType, like: &Options, routing: Routing) -> Options {
    Options {
        act,
        grad: None,
        rows: like.rows,
        row_len: like.row_len,
        max_offsets: like.max_offsets,
        padding: like.padding,
        objective: like.objective,
        routing,
        adam: like.adam,
        threads: like.threads,
    }
}

/// Weights as bf16 holds them, so that all runs start from the same numbers.
fn rounded(weights: &Weights) -> Weights {
    let round = |v: &f64| half::bf16::from_f64(*v).to_f64();
    weights.iter().map(|(name, values)| (name.clone(), values.iter().map(round).collect())).collect()
}

fn load<D: Device>(session: &mut Session<D>, weights: &Weights) {
    session.load(|name| weights.get(name).cloned());
}

/// Experts of every router application of a program that just ran, in the order of the model's inputs for them.
fn routing<D: Device>(session: &Session<D>, program: &Program) -> Vec<Vec<i32>> {
    let mut names: Vec<&String> = program.outputs.iter().map(|(n, _)| n).filter(|n| n.ends_with("topk_idx")).collect();
    // `router.LAYER.topk_idx` of the backbone, then `mtpDEPTH.topk_idx`.
    let number = |name: &str| -> Option<usize> {
        name.trim_start_matches("router.").trim_start_matches("mtp").split('.').next()?.parse().ok()
    };
    names.sort_by_key(|n| (n.starts_with("mtp"), number(n)));
    let experts = |name: &String| {
        let tensor = program.output(name).expect("an output of the program");
        let values = session.device.read_f64(&program.buffers, tensor).expect("read");
        values.iter().map(|v| *v as i32).collect()
    };
    names.into_iter().map(experts).collect()
}

fn force<D: Device>(session: &mut Session<D>, routing: &[Vec<i32>]) {
    let inputs = session.model.inputs.forced.clone();
    assert_eq!(inputs.len(), routing.len(), "router applications");
    for (tensor, experts) in inputs.into_iter().zip(routing) {
        session.write_ints(tensor, experts);
    }
}

/// Bound of rulings 7 for a gradient or, without a name, a value.
fn bound(gradient_of: Option<&str>) -> f64 {
    match gradient_of {
        None => 3e-3,
        Some(name) if name.ends_with("A_log") || name.ends_with("dt_bias") => 5e-2,
        Some(_) => 1e-2,
    }
}

/// Values and gradients of a session by name.
fn results<D: Device>(session: &Session<D>) -> Vec<(String, Option<String>, Vec<f64>)> {
    let mut all = Vec::new();
    for (name, tensor) in &session.first.outputs {
        if tensor.dtype != DType::I32 {
            all.push((name.clone(), None, session.output(name)));
        }
    }
    all.push(("losses".into(), None, session.losses().0));
    for (part, role, _) in session.model.parts() {
        if role.trains() {
            all.push((format!("d {}", part.name), Some(part.name.clone()), session.gradient(&part.name)));
        }
    }
    all
}

/// Runs one batch everywhere and compares. `slack` multiplies the bounds of rulings 7: 1 for the oracle's model; more for
/// models so small that errors of a few numbers scatter, where wrong indices are looked for and not lost digits. A value
/// that bf16 on the CPU device misses by a tenth has no digits to compare.
fn compare(what: &str, config: &ModelConfig, like: &Options, weights: &Weights, batch: &Batch, slack: f64) {
    let weights = rounded(weights);
    let mut natural = Session::new(config, &options(DType::F32, like, Routing::Natural));
    load(&mut natural, &weights);
    natural.run_first(batch);
    let experts = routing(&natural, &natural.first);
    let forced = |act| options(act, like, Routing::Forced);
    let cpu = |act| -> Session<CpuDevice> {
        let mut s = Session::new(config, &forced(act));
        load(&mut s, &weights);
        force(&mut s, &experts);
        s.run_first(batch);
        s
    };
    let (reference, near) = (cpu(DType::F64), cpu(DType::BF16));
    let run = |execution| {
        let mut s = gpu(config, &forced(DType::BF16), execution);
        s.device.poison(0xff).expect("poison");
        load(&mut s, &weights);
        force(&mut s, &experts);
        s.run_first(batch);
        s
    };
    let ours = run(Execution::Launches);
    let (got, want, cpu) = (results(&ours), results(&reference), results(&near));
    let mut worst = Vec::new();
    for (((name, gradient, got), (_, _, want)), (_, _, cpu)) in got.iter().zip(&want).zip(&cpu) {
        let (error, cpu_error) = (relative_l2(got, want), relative_l2(cpu, want));
        let limit = slack * bound(gradient.as_deref()).max(2.0 * cpu_error);
        if error.is_nan() || (error > limit && (slack == 1.0 || cpu_error < 0.1)) {
            worst.push(format!("{name}: {error:.3e} above {limit:.1e} (CPU in bf16 {cpu_error:.3e})"));
        }
    }
    assert!(worst.is_empty(), "{what}:\n{}", worst.join("\n"));
    let counts = (ours.read(ours.model.metrics.counts), near.read(near.model.metrics.counts));
    assert_eq!(counts.0, counts.1, "{what}: tokens per expert");
    let graph = run(Execution::Graph);
    for ((name, _, a), (_, _, b)) in results(&graph).iter().zip(&got) {
        let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(a), bits(b), "{what}: {name} differs in a graph");
    }
}

fn tiny_config() -> ModelConfig {
    lightning_core::config::preset("oracle_tiny").expect("a preset")
}

fn tiny_weights() -> Weights {
    read_golden("tiny/model.safetensors").tensors.into_iter().map(|(n, t)| (n, t.values)).collect()
}

#[test]
fn golden_model_on_the_gpu() {
    let g = read_golden("mtp.safetensors");
    let shape = &g.get("input_ids").shape;
    let ints = |n: &str| g.get(n).ints();
    let batch = Batch::new(ints("input_ids"), ints("labels"), ints("loss_mask"));
    let like = Options::new(DType::BF16, shape[0], shape[1]);
    compare("oracle checkpoint", &tiny_config(), &like, &tiny_weights(), &batch, 1.0);
}

#[test]
fn golden_model_packed_on_the_gpu() {
    let (all, pad) = (read_golden("packed_all.safetensors"), read_golden("packed_pad.safetensors"));
    let mut batch = Batch::new(all.get("input_ids").ints(), all.get("labels").ints(), all.get("loss_mask").ints());
    batch.offsets = all.get("cu_seqlens").ints();
    batch.padding = Some(pad.get("padding_mask").ints());
    let mut like = Options::new(DType::BF16, 1, batch.ids.len());
    like.padding = true;
    like.objective = Objective { scale: LossScale::PerToken, aux_coefficient: pad.meta("aux_coeff"), ..OBJECTIVE };
    compare("packed row", &tiny_config(), &like, &tiny_weights(), &batch, 1.0);
}

#[test]
fn random_models_on_the_gpu() {
    let mut rng = fresh("random models");
    for pattern in ["M", "*", "E", "-", "ME*-"] {
        let mut config = tiny::config(&mut rng, pattern, None);
        // The norm of one or two channels has a gradient that is nothing but cancellation: widths are odd, but not tiny.
        config.hidden += 16;
        config.mlp_width = config.mlp_width.map(|width| width + 16);
        if let Some(mamba) = &mut config.mamba {
            mamba.head_dim += 16;
        }
        if let Some(attention) = &mut config.attention {
            attention.head_dim += 8;
        }
        if let Some(moe) = &mut config.moe {
            moe.expert_width += 16;
        }
        let weights = tiny::weights(&config, &mut rng);
        let (rows, row_len) = (rng.range(1, 2), rng.pick(&[1, 7, 33]));
        let batch = tiny::batch(&mut rng, &config, rows, row_len, false);
        let like = Options::new(DType::BF16, rows, row_len);
        compare(
            &format!("{pattern} {rows} x {row_len}, hidden {}", config.hidden),
            &config,
            &like,
            &weights,
            &batch,
            8.0,
        );
    }
}

/// Four optimizer steps: losses and gradient norms follow the f64 run, within twice what bf16 on the CPU device differs.
#[test]
fn four_training_steps_on_the_gpu() {
    let g = read_golden("train.safetensors");
    let shape = &g.get("input_ids").shape;
    let (rows, row_len) = (shape[0], shape[1]);
    let (ids, labels) = (g.get("input_ids").ints(), g.get("labels").ints());
    let row = |v: &[i32], r: usize| v[r * row_len..(r + 1) * row_len].to_vec();
    let batches: Vec<Batch> = (0..rows).map(|r| Batch::new(row(&ids, r), row(&labels, r), vec![1; row_len])).collect();
    let (lr, weight_decay) = (g.meta("lr"), g.meta("weight_decay"));
    let mut like = Options::new(DType::BF16, 1, row_len);
    like.objective = Objective {
        scale: LossScale::MeanOfMeans(rows),
        aux_coefficient: g.meta("aux_coeff"),
        bias_rate: g.meta("bias_rate"),
        ..OBJECTIVE
    };
    like.adam = Some(AdamConfig {
        betas: (g.meta("beta1"), g.meta("beta2")),
        eps: g.meta("eps"),
        clip: g.meta("clip"),
        schedule: Schedule {
            decay: Decay::Constant,
            init_lr: lr,
            max_lr: lr,
            min_lr: lr,
            warmup_samples: 0,
            decay_samples: 1,
            wsd_samples: 0,
            start_weight_decay: weight_decay,
            end_weight_decay: weight_decay,
        },
    });
    let (config, weights) = (tiny_config(), tiny_weights());
    let steps = g.meta::<usize>("steps");
    // Experts of every micro-batch, from a run in f32.
    let mut natural = Session::new(&config, &options(DType::F32, &like, Routing::Natural));
    load(&mut natural, &weights);
    let mut experts = Vec::new();
    for _ in 0..steps {
        for (i, batch) in batches.iter().enumerate() {
            if i == 0 {
                natural.run_first(batch)
            } else {
                natural.run_later(batch)
            }
            experts.push(routing(&natural, if i == 0 { &natural.first } else { &natural.later }));
        }
        natural.step(rows);
    }
    fn run<D: Device>(
        mut s: Session<D>,
        weights: &Weights,
        batches: &[Batch],
        experts: &[Vec<Vec<i32>>],
    ) -> (Vec<Vec<f64>>, Session<D>) {
        load(&mut s, weights);
        let mut history = Vec::new();
        for micro_batches in experts.chunks(batches.len()) {
            for (i, (batch, experts)) in batches.iter().zip(micro_batches).enumerate() {
                force(&mut s, experts);
                if i == 0 { s.run_first(batch) } else { s.run_later(batch) }
            }
            let (mut row, aux) = s.losses();
            row.push(aux);
            s.step(batches.len());
            row.extend([s.state(StateSlot::GradNorm), s.state(StateSlot::Steps), s.state(StateSlot::LearningRate)]);
            history.push(row);
        }
        (history, s)
    }
    let forced = |act| options(act, &like, Routing::Forced);
    let (want, reference) = run(Session::new(&config, &forced(DType::F64)), &weights, &batches, &experts);
    let (near, cpu) = run(Session::new(&config, &forced(DType::BF16)), &weights, &batches, &experts);
    let (got, ours) = run(gpu(&config, &forced(DType::BF16), Execution::Graph), &weights, &batches, &experts);
    for (step, ((got, want), near)) in got.iter().zip(&want).zip(&near).enumerate() {
        let (error, cpu_error) = (relative_l2(got, want), relative_l2(near, want));
        assert!(error <= 3e-3_f64.max(2.0 * cpu_error), "step {step}: {got:?}, wanted {want:?}, CPU {near:?}");
    }
    let mut far = Vec::new();
    for (part, role, _) in reference.model.parts() {
        if !role.trains() {
            continue;
        }
        let name = &part.name;
        let (want, near) = (reference.weight(name), cpu.weight(name));
        let got = ours.weight(name);
        let (error, cpu_error) = (relative_l2(&got, &want), relative_l2(&near, &want));
        if error.is_nan() || error > 3e-3_f64.max(2.0 * cpu_error) {
            far.push(format!("{name}: {error:.3e}, CPU in bf16 {cpu_error:.3e}"));
        }
        assert!(got != weights[name] || want == weights[name], "{name} did not move");
    }
    assert!(far.is_empty(), "weights after {steps} steps:\n{}", far.join("\n"));
}
