//! One plan: memory, work, traffic and time of a rank, for a configuration and a shape.

use super::activations::{self, Activations};
use super::communication::{self, Collective};
use super::kernel_table::KernelTable;
use super::low_precision::{Casts, Rules};
use super::memory_limit;
use super::ranks::{self, Ranks, Shape};
use super::statics::{self, Static};
use super::targets::Target;
use crate::cli::{Exit, Failure};
use crate::config::choices::{Mode, PeftScheme, Precision as Class};
use crate::config::run::RunConfig;
use crate::train::device::DeviceChoice;
use crate::train::sample::SampleSettings;
use crate::train::{engine::available_threads, flops, settings};
use lightning_core::model::{AdamConfig, Model, ModelSpec, ParamTensors, ProgramKind, Trace};
use lightning_core::program::{Op, Program, Space};

/// A finished plan of one rank. Sizes in bytes, times in seconds.
#[derive(Debug, Clone)]
pub struct Estimate {
    /// Layout.
    pub ranks: Ranks,
    /// Micro-batch.
    pub shape: Shape,
    /// Micro-batches of a step.
    pub micro_batches: f64,
    /// What lives as long as the run.
    pub statics: Static,
    /// Arena: placed on the processor, the fullest operation elsewhere.
    pub arena: f64,
    /// Scratch of the processor's threads.
    pub scratch: f64,
    /// The second engine that writes samples of text.
    pub sampler: f64,
    /// The copy of weights and optimizer that a checkpoint is written from.
    pub snapshot: f64,
    /// What the arena holds.
    pub activations: Activations,
    /// Buffers of collectives and of offloading.
    pub collective: f64,
    /// Activations in host memory.
    pub host: f64,
    /// Context and libraries.
    pub reserve: f64,
    /// Device memory.
    pub limit: f64,
    /// Who says so.
    pub limit_source: String,
    /// FLOPs of a rank and step as the program has them, recomputation included.
    pub program_flops: f64,
    /// Of them, recomputation.
    pub recompute_flops: f64,
    /// Bytes through memory, per rank and step.
    pub moved: f64,
    /// Time of all operations at the roofs, one after the other.
    pub compute_seconds: f64,
    /// Of it, recomputation.
    pub recompute_seconds: f64,
    /// Collectives.
    pub collectives: Vec<Collective>,
    /// Charged FLOPs per token.
    pub charged: f64,
    /// Honest FLOPs per token.
    pub honest: f64,
    /// Tokens of a step, all ranks.
    pub tokens: f64,
    /// The rank's program.
    pub program: Program,
}

impl Estimate {
    /// Everything on the device.
    pub fn total(&self) -> f64 {
        let run = self.statics.total() + self.arena + self.scratch + self.sampler;
        run + self.snapshot + self.collective + self.reserve
    }

    /// Whether it fits.
    pub fn fits(&self) -> bool {
        self.total() <= self.limit
    }

    /// Seconds of all collectives, one after the other.
    pub fn communication_seconds(&self) -> f64 {
        self.collectives.iter().map(|c| c.seconds).sum()
    }
}

/// What estimates of one configuration share.
pub struct Planner<'a> {
    /// Settings.
    pub config: &'a RunConfig,
    /// Layout.
    pub ranks: Ranks,
    /// Device.
    pub target: &'static Target,
    /// Measured kernels.
    pub measured: Option<KernelTable>,
    limit: (f64, String),
    /// Where the run is, when the plan is of a run on this machine and its target says nothing else.
    device: DeviceChoice,
}

fn cpu_programs(model: &Model, adam: &AdamConfig) -> Result<Vec<Program>, Failure> {
    let mut programs = Vec::new();
    for kind in [ProgramKind::TrainFirst, ProgramKind::Train, ProgramKind::Evaluate] {
        programs.push(model.micro_batch(kind, Trace::Off)?);
    }
    programs.push(model.optimizer_step(adam)?);
    Ok(programs)
}

/// Bytes that the processor device will allocate for a run: what [`CpuDevice::allocated_bytes`] answers afterwards.
///
/// # Errors
/// Impossible sizes.
pub fn cpu_bytes(spec: &ModelSpec, adam: &AdamConfig, threads: usize) -> Result<usize, Failure> {
    let model = Model::new(spec.clone())?;
    Ok(device_bytes(&model, &cpu_programs(&model, adam)?, &DeviceChoice::Cpu { threads }))
}

/// The same of the second engine, if the configuration asks for samples of text beside a training of `spec`.
///
/// # Errors
/// Impossible sizes.
pub fn sampler_bytes(config: &RunConfig, spec: &ModelSpec, device: &DeviceChoice) -> Result<usize, Failure> {
    let Some((_, settings)) = SampleSettings::of(config) else { return Ok(0) };
    let model = Model::new(settings.spec(spec))?;
    let program = model.micro_batch(ProgramKind::Evaluate, Trace::Full)?;
    Ok(device_bytes(&model, &[program], device))
}

/// Bytes of the copy that a checkpoint is written from, as [`crate::checkpoint::Snapshot::bytes`] counts them.
pub fn snapshot_bytes(model: &Model, optimizer: bool) -> usize {
    let one = |tensors: ParamTensors| {
        let states = tensors
            .training
            .filter(|_| optimizer)
            .map_or(0, |t| t.master.map_or(0, |m| m.bytes()) + t.moments.map_or(0, |(m, v)| m.bytes() + v.bytes()));
        tensors.weight.bytes() + states
    };
    model.parts().map(|(_, _, tensors)| one(tensors)).sum()
}

fn device_bytes(model: &Model, programs: &[Program], device: &DeviceChoice) -> usize {
    let persistent: usize =
        Space::ALL.into_iter().filter(|s| *s != Space::Arena).map(|s| model.persistent.bytes(s)).sum();
    let arena = programs.iter().map(|p| p.arena_bytes).max().unwrap_or(0);
    persistent + arena + device.scratch_bytes(programs)
}

impl<'a> Planner<'a> {
    /// A planner for a configuration on `world` ranks.
    ///
    /// # Errors
    /// Layouts that do not divide.
    pub fn new(
        config: &'a RunConfig,
        world: usize,
        target: &'static Target,
        measured: Option<KernelTable>,
    ) -> Result<Self, Failure> {
        let limit = match target.memory {
            Some(bytes) => (bytes, format!("usable memory of {}", target.name)),
            None => memory_limit::of_machine()
                .map_or((f64::INFINITY, "unknown".to_string()), |(bytes, source)| (bytes as f64, source)),
        };
        Ok(Self {
            config,
            ranks: Ranks::of(config, world)?,
            target,
            measured,
            limit,
            device: DeviceChoice::Cpu { threads: config.device.threads.unwrap_or_else(available_threads) },
        })
    }

    /// The same planner for a run on a device of this machine that has `memory` bytes.
    pub fn on(self, device: DeviceChoice, memory: f64, source: String) -> Self {
        Self { device, limit: (memory, source), ..self }
    }

    /// A planner for the same ranks, target and measurements and other settings.
    ///
    /// # Errors
    /// Layouts that do not divide.
    pub fn with<'b>(&self, config: &'b RunConfig) -> Result<Planner<'b>, Failure> {
        let planner = Planner::new(config, self.ranks.world, self.target, self.measured.clone())?;
        Ok(Planner { limit: self.limit.clone(), device: self.device, ..planner })
    }

    /// The shape that the configuration asks for.
    pub fn shape(&self) -> Shape {
        Shape {
            rows: self.config.train.micro_batch_size as usize,
            row_len: self.config.model.seq_length,
            recompute: settings::recompute(self.config),
        }
    }

    /// Whether the plan is of a run on this machine: exact, not projected.
    pub fn exact(&self) -> bool {
        let here = self.target.memory.is_none() || self.device.overlaps();
        here && self.ranks.world == 1 && self.config.run.mode == Mode::Pretrain
    }

    /// Plans a shape.
    ///
    /// # Errors
    /// Impossible sizes.
    pub fn estimate(&self, shape: &Shape) -> Result<Estimate, Failure> {
        let (config, ranks) = (self.config, &self.ranks);
        if shape.rows == 0 || shape.row_len == 0 {
            return Err(Failure::new(Exit::Usage, "a micro-batch needs at least one token"));
        }
        let exact = self.exact();
        let spec = if exact {
            let mut spec = settings::model_spec(config)?;
            spec.batch.rows = shape.rows;
            spec.batch.row_len = shape.row_len;
            if config.dataset.inter_document_masking {
                spec.batch.max_offsets = shape.rows * shape.row_len + 1;
            }
            spec.recompute = shape.recompute;
            spec
        } else {
            ranks::local_spec(config, ranks, shape, ranks::precision(config))?
        };
        let model = Model::new(spec.clone())?;
        let frozen = config.peft.scheme == Some(PeftScheme::Lora);
        let statics = statics::of(config, ranks, &model, exact);
        let (mut collective, mut host, mut scratch) = (0.0, 0.0, 0.0);
        let (mut sampler, mut snapshot) = (0.0, 0.0);
        let (mut program, arena);
        let mut casts = Casts::default();
        if exact {
            let programs = cpu_programs(&model, &settings::adam(config)?)?;
            arena = programs.iter().map(|p| p.arena_bytes).max().unwrap_or(0) as f64;
            scratch = self.device.scratch_bytes(&programs) as f64;
            sampler = sampler_bytes(config, &spec, &self.device)? as f64;
            // The copy that a checkpoint is written from is in the host's memory.
            let copy = snapshot_bytes(&model, config.checkpoint.save_optim) as f64;
            if self.device.overlaps() {
                host = copy;
            } else {
                snapshot = copy;
            }
            program = programs.into_iter().next().expect("the list of programs is not empty");
        } else {
            program = ranks::rank_program(&model, ranks, shape.row_len, frozen);
            casts = self.rules().cast(&mut program);
            (host, collective) = self.offload(&mut program);
            collective += self.collective_buffers(&model);
            arena = program.peak().bytes as f64 + casts.in_flight;
        }
        let activations = activations::of(&program, &spec.config);
        let tokens = (config.train.global_batch_size as usize * shape.row_len) as f64;
        let local_tokens = spec.batch.tokens();
        let micro_batches = config.train.global_batch_size as f64 / (ranks.dp * shape.rows) as f64;
        let global = config.model.to_model_config()?;
        let mut e = Estimate {
            ranks: *ranks,
            shape: *shape,
            micro_batches,
            statics,
            arena,
            scratch,
            sampler,
            snapshot,
            activations,
            collective,
            host,
            reserve: if exact { 0.0 } else { self.target.reserve },
            limit: self.limit.0,
            limit_source: self.limit.1.clone(),
            program_flops: 0.0,
            recompute_flops: 0.0,
            moved: 0.0,
            compute_seconds: 0.0,
            recompute_seconds: 0.0,
            collectives: Vec::new(),
            charged: flops::charged(&global, shape.row_len),
            honest: 0.0,
            tokens,
            program,
        };
        self.work(&mut e, &casts);
        e.honest = honest(&e, local_tokens, ranks);
        e.collectives =
            communication::of(config, &global, ranks, &e.statics, &e.program, local_tokens, micro_batches, self.target);
        Ok(e)
    }

    /// Activations that go to the host: the inputs of the experts' first product, all but two layers.
    fn offload(&self, program: &mut Program) -> (f64, f64) {
        let m = &self.config.model;
        let on = m.fine_grained_activation_offloading
            && m.offload_modules.iter().flatten().any(|module| module == "expert_fc1");
        if !on {
            return (0.0, 0.0);
        }
        let (mut host, mut largest) = (0.0, 0.0_f64);
        let start = program.backward_start();
        for b in &mut program.buffers {
            if b.name.ends_with("/xs") && b.lifetime.0 < start && b.lifetime.1 >= start && b.lifetime.0 != usize::MAX {
                let bytes = b.bytes() as f64 * m.activation_offload_fraction;
                host += bytes;
                largest = largest.max(bytes);
                b.len = (b.len as f64 * (1.0 - m.activation_offload_fraction)) as usize;
            }
        }
        (host, 2.0 * largest)
    }

    /// Windows of collectives that are no operands of the program.
    fn collective_buffers(&self, model: &Model) -> f64 {
        let (ranks, spec) = (&self.ranks, &model.spec);
        let act = spec.precision.act.size() as f64;
        let tokens = spec.batch.tokens() as f64;
        let hidden = spec.config.hidden as f64;
        let mut bytes = 0.0;
        if let (Some(moe), true) = (&spec.config.moe, ranks.ep > 1) {
            // Receive windows of dispatch and combine at twice the balanced load (design: planned capacity).
            let sent = tokens / if ranks.sequence_parallel { ranks.tp as f64 } else { 1.0 };
            bytes += 2.0 * 2.0 * sent * moe.top_k as f64 * hidden * act;
        }
        if ranks.sequence_parallel {
            bytes += tokens * hidden * act;
        }
        if let (Some(a), true) = (&spec.config.attention, ranks.cp > 1) {
            bytes += 2.0 * tokens * (2 * a.kv_heads * a.head_dim) as f64 * act;
        }
        bytes
    }

    fn rules(&self) -> Rules {
        Rules::of(self.config)
    }

    /// Time of an operation in `region`: at the roofs, or as far from them as the nearest measured call of its kind.
    fn seconds(&self, rules: &Rules, region: &str, op: &Op, flops: f64, bytes: f64) -> f64 {
        let class = self.config.mixed_precision.precision;
        let (factor, name) = match class {
            Class::Fp8Cs | Class::Fp8Mx if rules.apply(region, op) => (2.0, "fp8"),
            Class::Nvfp4 if rules.apply(region, op) => (4.0, "nvfp4"),
            Class::F32 => (1.0, "f32"),
            Class::F64 => (1.0, "f64"),
            _ => (1.0, "bf16"),
        };
        let threads = if self.target.memory.is_none() { self.device.threads() as f64 } else { 1.0 };
        let rate = self.target.flops * factor * threads;
        let roof = |flops: f64, bytes: f64| (flops / rate).max(bytes / self.target.bandwidth);
        let measured = self.measured.as_ref().and_then(|table| table.nearest(op.name(), name, flops, bytes));
        measured.map_or(1.0, |k| k.seconds / roof(k.flops, k.bytes)) * roof(flops, bytes)
    }

    fn work(&self, e: &mut Estimate, casts: &Casts) {
        let rules = self.rules();
        for node in &e.program.nodes {
            let (flops, bytes) = (node.op.flops() as f64, node.op.traffic().total() as f64);
            let seconds = self.seconds(&rules, &e.program.regions[node.region], &node.op, flops, bytes);
            e.program_flops += flops * e.micro_batches;
            e.moved += bytes * e.micro_batches;
            e.compute_seconds += seconds * e.micro_batches;
            if e.program.regions[node.region].ends_with("/recompute") {
                e.recompute_flops += flops * e.micro_batches;
                e.recompute_seconds += seconds * e.micro_batches;
            }
        }
        e.moved += casts.moved * e.micro_batches;
        e.compute_seconds += casts.moved * e.micro_batches / self.target.bandwidth;
        // The optimizer reads and writes master and moments once, reads the gradient and writes the weight.
        let shard = e.statics.masters.max(e.statics.moments / 2.0) / 4.0;
        let bytes = 2.0 * e.statics.optimizer() + shard * 4.0;
        e.moved += bytes;
        e.compute_seconds += bytes / self.target.bandwidth;
    }
}

/// Three times the forward pass of the true shapes, per token (rulings: honest FLOPs).
fn honest(e: &Estimate, local_tokens: usize, ranks: &Ranks) -> f64 {
    let start = e.program.backward_start();
    let mut forward = 0.0;
    for node in &e.program.nodes[..start] {
        let flops = node.op.flops() as f64;
        // The loss computes its gradients in the same operation.
        forward += if let Op::LinearCrossEntropy(ce) = &node.op {
            ce.heads.iter().map(|h| 2.0 * h.h.rows as f64 * ce.w.len() as f64).sum::<f64>()
        } else {
            flops
        };
    }
    3.0 * forward * ranks.tp as f64 / local_tokens as f64
}
