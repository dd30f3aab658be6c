//! The model, written once: every block records its forward and its backward pass into a program.
//!
//! Read [`step`] for a whole training step, [`stack`] for the residual stream, then one file per mixer. The maths of each
//! operation is at the head of its file in [`crate::ops`].

mod attention;
mod context;
mod mamba;
mod mlp;
mod moe;
mod mtp;
mod stack;
mod step;
mod tensors;

pub use context::Context;
pub use step::{ProgramKind, Trace};
pub use tensors::{Inputs, Metrics, ParamTensors, Training, TrainingTensors};

use crate::config::{LayerKind, ModelConfig};
use crate::device::Device;
use crate::error::CoreError;
use crate::layout::{Layout, Part, Role, initial_values};
use crate::ops::LossScale;
use crate::optim::Schedule;
use crate::program::{Persistent, Recompute};
use crate::tensor::{DType, Tensor};
use alloc::string::ToString;
use alloc::vec::Vec;

/// Number formats of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precision {
    /// Storage type of activations and working weights: bf16, f32 or f64.
    pub act: DType,
    /// Type in which gradients are accumulated: the arithmetic type, or bf16.
    pub grad: DType,
}

impl Precision {
    /// `act` with gradients in its arithmetic type.
    pub const fn of(act: DType) -> Self {
        Self { act, grad: act.accumulator() }
    }

    /// The arithmetic type.
    pub const fn acc(&self) -> DType {
        self.act.accumulator()
    }
}

/// Size of a micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MicroBatch {
    /// Rows (sequences or packs).
    pub rows: usize,
    /// Tokens of a row.
    pub row_len: usize,
    /// Entries of `cu_seqlens`; unused ones repeat the last offset.
    pub max_offsets: usize,
    /// Whether batches carry a padding mask.
    pub padding: bool,
}

impl MicroBatch {
    /// Tokens of the micro-batch.
    pub const fn tokens(&self) -> usize {
        self.rows * self.row_len
    }
}

/// What is minimised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// How token losses become gradients.
    pub scale: LossScale,
    /// Factor on the mean of the MTP losses (0.3: 0.15 for each of two depths).
    pub mtp_factor: f64,
    /// Coefficient of the sequence auxiliary loss; 0 turns it off.
    pub aux_coefficient: f64,
    /// Size of an expert-bias move; 0 leaves the biases alone.
    pub bias_rate: f64,
}

/// Where router logits come from in every program of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// From the tokens.
    Natural,
    /// The experts of every router are inputs ([`Inputs::forced`]).
    Forced,
    /// Standard normal noise (benchmarks with forced balance).
    Noise,
}

/// The optimizer's numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamConfig {
    /// Decay rates of the moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Largest gradient norm; 0 turns clipping off.
    pub clip: f64,
    /// Learning rate and weight decay.
    pub schedule: Schedule,
}

/// Everything that decides the programs of a model.
#[derive(Debug, Clone)]
pub struct ModelSpec {
    /// Sizes.
    pub config: ModelConfig,
    /// Number formats.
    pub precision: Precision,
    /// Size of a micro-batch.
    pub batch: MicroBatch,
    /// What is minimised.
    pub objective: Objective,
    /// Where router logits come from.
    pub routing: Routing,
    /// Whether there are gradients and an optimizer.
    pub training: Training,
    /// What the backward pass computes again instead of keeping it.
    pub recompute: Recompute,
}

/// A model with its persistent tensors; builds programs.
#[derive(Debug, Clone)]
pub struct Model {
    /// What it was built from.
    pub spec: ModelSpec,
    /// Its parameters.
    pub layout: Layout,
    /// The buffers that outlive a program.
    pub persistent: Persistent,
    /// Tensors of every parameter, in the order of [`Layout::params`].
    pub params: Vec<ParamTensors>,
    /// All gradients as one flat tensor.
    pub gradients: Option<Tensor>,
    /// What the host writes before a micro-batch.
    pub inputs: Inputs,
    /// What the device counts and reports.
    pub metrics: Metrics,
}

impl Model {
    /// Lays out a model.
    ///
    /// # Errors
    /// `Config` for impossible sizes.
    pub fn new(spec: ModelSpec) -> Result<Self, CoreError> {
        spec.config.check()?;
        let refuse = |key: &str, value: usize, reason: &str| {
            Err(CoreError::Config { key: key.to_string(), value: value.to_string(), reason: reason.to_string() })
        };
        if spec.batch.tokens() == 0 {
            return refuse("seq_length", spec.batch.row_len, "a micro-batch needs at least one token");
        }
        if spec.batch.tokens() > i32::MAX as usize / 64 {
            return refuse("seq_length", spec.batch.row_len, "micro-batches are limited to 33 million tokens");
        }
        let Precision { act, grad } = spec.precision;
        if grad != act.accumulator() && (grad != DType::BF16 || act == DType::F64) {
            return Err(CoreError::Config {
                key: "grad_accum_dtype".to_string(),
                value: grad.to_string(),
                reason: alloc::format!(
                    "gradients of {act} programs are kept in {}{}",
                    act.accumulator(),
                    if act == DType::F64 { "" } else { " or bf16" }
                ),
            });
        }
        if spec.objective.scale == LossScale::MeanOfMeans(0) {
            return refuse("micro_batches", 0, "a step needs at least one micro-batch");
        }
        Ok(tensors::lay_out(spec))
    }

    /// Every checkpoint tensor with its role and the tensors that hold its values, in checkpoint order.
    pub fn parts(&self) -> impl Iterator<Item = (&Part, Role, ParamTensors)> {
        self.layout.parts().map(|(index, part)| {
            let tensors = self.params[index].row_range(part.row, part.rows);
            (part, self.layout.params[index].role, tensors)
        })
    }

    /// Writes the initial values of every parameter (model.md §1.7), master weights included.
    ///
    /// # Errors
    /// What the device reports.
    pub fn initialize<D: Device>(&self, device: &mut D, seed: u64) -> Result<(), CoreError> {
        let mut values = Vec::new();
        for (param, tensors) in self.layout.params.iter().zip(&self.params) {
            for part in &param.parts {
                initial_values(&self.spec.config, seed, param, part, &mut values);
                self.write_weight(device, tensors.row_range(part.row, part.rows), &values)?;
            }
        }
        Ok(())
    }

    /// Writes a weight and, if there is one, its master copy (pitfall B68: they must never disagree).
    ///
    /// # Errors
    /// What the device reports.
    pub fn write_weight<D: Device>(
        &self,
        device: &mut D,
        tensors: ParamTensors,
        values: &[f64],
    ) -> Result<(), CoreError> {
        let buffers = self.persistent.buffers();
        device.write_f64(buffers, tensors.weight, values)?;
        if let Some(master) = tensors.training.and_then(|t| t.master) {
            device.write_f64(buffers, master, values)?;
        }
        Ok(())
    }

    /// Names of the layers that have a router, in the order of the rows of [`Metrics::counts`].
    pub fn routers(&self) -> Vec<alloc::string::String> {
        let of = |prefix: &str, layers: &[LayerKind]| {
            let moe = layers.iter().enumerate().filter(|(_, k)| **k == LayerKind::Moe);
            moe.map(|(i, _)| alloc::format!("{prefix}.{i}")).collect::<Vec<_>>()
        };
        let mut names = of("layers", &self.spec.config.layers);
        if let Some(mtp) = &self.spec.config.mtp {
            names.extend(of("mtp", &mtp.layers));
        }
        names
    }
}
