//! Recomputation changes memory and nothing else: gradients, losses, counters and auxiliary losses keep their bits.

use lightning_core::config::{LayerKind, ModelConfig, MtpConfig, preset};
use lightning_core::cpu::CpuDevice;
use lightning_core::device::Device;
use lightning_core::model::{
    MicroBatch, Model, ModelSpec, Objective, Precision, ProgramKind, Routing, Trace, Training,
};
use lightning_core::ops::LossScale;
use lightning_core::program::{LayerRecompute, Op, Program, Recompute};
use lightning_core::rng::Philox;
use lightning_core::tensor::DType;

/// A small random member of the family with every kind of layer.
fn random_config(rng: &mut Philox) -> ModelConfig {
    let mut config = preset("oracle_tiny").unwrap();
    let mut layers = vec![LayerKind::Mamba, LayerKind::Attention, LayerKind::Moe, LayerKind::Mlp];
    for _ in 0..rng.below(3) {
        let kinds = [LayerKind::Attention, LayerKind::Moe, LayerKind::Mamba];
        layers.push(kinds[rng.below(3) as usize]);
    }
    for i in (1..layers.len()).rev() {
        layers.swap(i, rng.below(i as u64 + 1) as usize);
    }
    config.layers = layers;
    config.mlp_width = Some(24 + rng.below(20) as usize);
    let moe = config.moe.as_mut().unwrap();
    moe.expert_width = 17 + rng.below(30) as usize;
    moe.shared_width = 33;
    let layers = vec![LayerKind::Attention, LayerKind::Moe];
    let depth = rng.below(3) as usize;
    config.mtp = (depth > 0).then_some(MtpConfig { layers, depth });
    config
}

fn spec(config: &ModelConfig, act: DType, rng: &mut Philox) -> ModelSpec {
    let (rows, row_len) = (1 + rng.below(2) as usize, 19 + rng.below(30) as usize);
    ModelSpec {
        config: config.clone(),
        precision: Precision::of(act),
        batch: MicroBatch { rows, row_len, max_offsets: 8, padding: rng.below(2) == 1 },
        objective: Objective {
            scale: LossScale::MeanOfMeans(2),
            mtp_factor: 0.3,
            aux_coefficient: 1e-2,
            bias_rate: 1e-3,
        },
        routing: if rng.below(2) == 1 { Routing::Noise } else { Routing::Natural },
        training: Training::Gradients,
        recompute: Recompute::NONE,
    }
}

/// Everything that two micro-batches leave behind, and the first program.
fn outcome(spec: &ModelSpec, seed: u64) -> (Vec<Vec<u64>>, Program) {
    let model = Model::new(spec.clone()).unwrap();
    let record = |kind| model.micro_batch(kind, Trace::Off).unwrap();
    let (first, later) = (record(ProgramKind::TrainFirst), record(ProgramKind::Train));
    let mut device = CpuDevice::new(&model.persistent, &[&first, &later], 2).unwrap();
    model.initialize(&mut device, seed).unwrap();
    let mut rng = Philox::new(seed, 99);
    let buffers = model.persistent.buffers();
    for program in [&first, &later] {
        device.poison(0xFF);
        let (tokens, vocab) = (spec.batch.tokens(), spec.config.vocab as u64);
        let mut draw = |below: u64| -> Vec<i32> { (0..tokens).map(|_| rng.below(below) as i32).collect() };
        let (ids, labels, mask, padding) = (draw(vocab), draw(vocab), draw(2), draw(2));
        let inputs = &model.inputs;
        device.write_slice(buffers, inputs.ids, &ids).unwrap();
        device.write_slice(buffers, inputs.labels, &labels).unwrap();
        device.write_slice(buffers, inputs.loss_mask, &mask).unwrap();
        if let Some(tensor) = inputs.padding {
            device.write_slice(buffers, tensor, &padding).unwrap();
        }
        if let Some(tensor) = inputs.noise {
            device.write_slice(buffers, tensor, &[7, 3]).unwrap();
        }
        let end = tokens as i32;
        let offsets = [0, end / 3, end / 3, end - 1, end, end, end, end];
        device.write_slice(buffers, inputs.cu_seqlens, &offsets).unwrap();
        device.run(program).unwrap();
    }
    let metrics = model.metrics;
    let tensors = [model.gradients.unwrap(), metrics.losses, metrics.aux, metrics.counts];
    let bits = |t| {
        let values = device.read_f64(buffers, t).unwrap();
        values.into_iter().map(f64::to_bits).collect()
    };
    (tensors.into_iter().map(bits).collect(), first)
}

fn modules(bits: u32) -> Recompute {
    Recompute {
        core_attn: bits & 1 != 0,
        moe: bits & 2 != 0,
        moe_act: bits & 4 != 0,
        layernorm: bits & 8 != 0,
        mlp: bits & 16 != 0,
        layers: LayerRecompute::Off,
    }
}

fn whole(layers: LayerRecompute) -> Recompute {
    Recompute { layers, ..Recompute::NONE }
}

#[test]
fn every_combination_keeps_every_bit_and_needs_less_memory() {
    let mut rng = Philox::new(20_261_130, 4);
    let mut shrunk = 0;
    for (round, act) in [DType::F32, DType::BF16, DType::F32].into_iter().enumerate() {
        let config = random_config(&mut rng);
        let mut spec = spec(&config, act, &mut rng);
        let seed = rng.below(1 << 40) + round as u64;
        let (want, plain) = outcome(&spec, seed);
        let mut all: Vec<Recompute> = (1..32).map(modules).collect();
        for n in 1..5 {
            all.push(whole(LayerRecompute::Uniform(n)));
            all.push(whole(LayerRecompute::Block(n)));
        }
        for what in all {
            spec.recompute = what;
            let (got, program) = outcome(&spec, seed);
            let names = ["gradients", "losses", "aux losses", "expert counts"];
            for ((name, got), want) in names.into_iter().zip(&got).zip(&want) {
                assert!(got == want, "{act} {what:?} on {:?}: {name} differ", config.layers);
            }
            assert!(program.nodes.len() > plain.nodes.len(), "{what:?} repeated nothing");
            assert!(
                program.peak().bytes <= plain.peak().bytes + plain.peak().bytes / 20,
                "{what:?}: peak {} against {}",
                program.peak().bytes,
                plain.peak().bytes
            );
            shrunk += usize::from(program.arena_bytes < plain.arena_bytes);
        }
    }
    assert!(shrunk > 90, "only {shrunk} of 117 arenas shrank");
}

#[test]
fn a_repeated_router_counts_nothing() {
    let mut rng = Philox::new(5, 5);
    let config = random_config(&mut rng);
    let mut spec = spec(&config, DType::F32, &mut rng);
    for what in [modules(2), whole(LayerRecompute::Uniform(1))] {
        spec.recompute = what;
        let model = Model::new(spec.clone()).unwrap();
        let program = model.micro_batch(ProgramKind::Train, Trace::Off).unwrap();
        let routers = |op: &Op| match op {
            Op::RouterFwd(r) => Some((r.counts.is_some(), r.aux.is_some())),
            _ => None,
        };
        let found: Vec<_> = program.nodes.iter().filter_map(|n| routers(&n.op)).collect();
        let counting = found.iter().filter(|r| **r == (true, true)).count();
        assert_eq!(counting * 2, found.len(), "{found:?}");
        assert_eq!(found.iter().filter(|r| **r == (false, false)).count(), counting);
        // An evaluation has nothing to recompute.
        let evaluate = model.micro_batch(ProgramKind::Evaluate, Trace::Off).unwrap();
        assert!(!evaluate.regions.iter().any(|r| r.contains("recompute")));
    }
}

#[test]
fn every_handle_of_every_operation_is_visited() {
    let mut rng = Philox::new(8, 8);
    let config = random_config(&mut rng);
    let spec = spec(&config, DType::BF16, &mut rng);
    let model = Model::new(spec).unwrap();
    let program = model.micro_batch(ProgramKind::Train, Trace::Off).unwrap();
    let shift = 1_000_000;
    for node in &program.nodes {
        let mut moved = node.op.clone();
        moved.handles(&mut |t| t.buffer.0 += shift);
        let mut before = Vec::new();
        node.op.operands(&mut |_, t, _| before.push(t.buffer.0 + shift));
        let mut after = Vec::new();
        moved.operands(&mut |_, t, _| after.push(t.buffer.0));
        assert_eq!(before, after, "{}", node.op.name());
    }
}
