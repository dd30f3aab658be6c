//! The persistent tensors of a model: weights, gradients, optimizer, inputs, state.

use super::{Model, ModelSpec, Routing};
use crate::config::LayerKind;
use crate::layout::{Layout, Param};
use crate::optim::STATE_SLOTS;
use crate::program::{Persistent, Space};
use crate::tensor::{DType, Tensor};
use alloc::format;
use alloc::vec::Vec;

/// Elements to which flat gradient and optimizer ranges are aligned, so that every parameter starts on a cache line in
/// any element type.
const RANGE_ALIGNMENT: usize = 128;

/// What a model is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Training {
    /// Only forward.
    Off,
    /// Forward and backward; gradients are read by the host.
    Gradients,
    /// Everything, with an optimizer.
    Full,
}

/// Gradient and optimizer tensors of a parameter.
#[derive(Debug, Clone, Copy)]
pub struct TrainingTensors {
    /// Accumulated gradient.
    pub gradient: Tensor,
    /// Master weight; absent when the working weight has the arithmetic type.
    pub master: Option<Tensor>,
    /// First and second moment; absent without an optimizer.
    pub moments: Option<(Tensor, Tensor)>,
}

/// Tensors of a parameter.
#[derive(Debug, Clone, Copy)]
pub struct ParamTensors {
    /// Working weight.
    pub weight: Tensor,
    /// Present when the parameter is trained.
    pub training: Option<TrainingTensors>,
}

/// What the host writes before every micro-batch.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// Token ids [t].
    pub ids: Tensor,
    /// Labels [t]: the next token.
    pub labels: Tensor,
    /// 1 where the label counts [t].
    pub loss_mask: Tensor,
    /// 1 where the token is padding [t].
    pub padding: Option<Tensor>,
    /// Document offsets, ghosts allowed.
    pub cu_seqlens: Tensor,
    /// Given experts of every router application, [t, k] each: backbone layers, then MTP depth by depth.
    pub forced: Vec<Tensor>,
    /// Counter of the noise router [2].
    pub noise: Option<Tensor>,
}

/// What the device counts and reports.
#[derive(Debug, Clone, Copy)]
pub struct Metrics {
    /// The device state block.
    pub state: Tensor,
    /// Rows: LM, then MTP depths. Columns: sum of masked losses, masked tokens, sum of mean losses, hits.
    pub losses: Tensor,
    /// Auxiliary loss of every router [routers, 1].
    pub aux: Tensor,
    /// Tokens per expert since the last optimizer step [routers, experts].
    pub counts: Tensor,
    /// Tokens per expert of the last optimizer step [routers, experts].
    pub last_counts: Tensor,
}

impl ParamTensors {
    /// The same tensors restricted to some rows.
    pub fn row_range(&self, row: usize, rows: usize) -> Self {
        let cut = |t: Tensor| t.row_range(row, rows);
        let training = self.training.map(|t| TrainingTensors {
            gradient: cut(t.gradient),
            master: t.master.map(cut),
            moments: t.moments.map(|(m, v)| (cut(m), cut(v))),
        });
        Self { weight: cut(self.weight), training }
    }
}

/// Assigns every persistent tensor of a model.
pub(super) fn lay_out(spec: ModelSpec) -> Model {
    let layout = Layout::new(&spec.config);
    let mut table = Persistent::new();
    let (act, acc) = (spec.precision.act, spec.precision.acc());
    let weight_type = |p: &Param| if p.role.keeps_precision() { acc } else { act };
    let mut weights = Vec::new();
    for p in &layout.params {
        weights.push(table.add(&p.name, Space::Parameters, weight_type(p), p.rows, p.cols));
    }
    // Without an MTP application in training its block is carried along but not trained.
    let mtp_off = spec.config.mtp_depth() == 0;
    let trains = |p: &Param| p.role.trains() && !(mtp_off && p.name.starts_with("mtp."));
    let ranges = |keep: &dyn Fn(&Param) -> bool| {
        let mut end = 0;
        let mut starts = Vec::new();
        for p in &layout.params {
            starts.push(keep(p).then_some(end));
            if keep(p) {
                end += p.len().next_multiple_of(RANGE_ALIGNMENT);
            }
        }
        (starts, end)
    };
    let window = |flat: Tensor, start: usize, p: &Param| flat.columns(start, p.len()).reshape(p.rows, p.cols);
    let mut params: Vec<ParamTensors> = weights.iter().map(|&weight| ParamTensors { weight, training: None }).collect();
    let mut gradients = None;
    if spec.training != Training::Off {
        let (starts, len) = ranges(&trains);
        let flat = table.add("gradients", Space::Gradients, spec.precision.grad, 1, len);
        gradients = Some(flat);
        for ((tensors, start), p) in params.iter_mut().zip(&starts).zip(&layout.params) {
            tensors.training = start.map(|start| {
                let gradient = window(flat, start, p);
                TrainingTensors { gradient, master: None, moments: None }
            });
        }
        if spec.training == Training::Full {
            let (m, v) = (
                table.add("optim.m", Space::Optimizer, acc, 1, len),
                table.add("optim.v", Space::Optimizer, acc, 1, len),
            );
            let (masters, master_len) = ranges(&|p| trains(p) && weight_type(p) != acc);
            let master = table.add("optim.master", Space::Optimizer, acc, 1, master_len);
            for (i, p) in layout.params.iter().enumerate() {
                if let (Some(training), Some(start)) = (&mut params[i].training, starts[i]) {
                    training.moments = Some((window(m, start, p), window(v, start, p)));
                    training.master = masters[i].map(|start| window(master, start, p));
                }
            }
        }
    }
    let tokens = spec.batch.tokens();
    let integers = |table: &mut Persistent, name: &str, n: usize| table.add(name, Space::Input, DType::I32, 1, n);
    let count = |layers: &[LayerKind]| layers.iter().filter(|k| **k == LayerKind::Moe).count();
    let backbone_routers = count(&spec.config.layers);
    let mtp_routers = spec.config.mtp.as_ref().map_or(0, |m| count(&m.layers));
    let forced = match spec.routing {
        Routing::Forced => {
            let applications = backbone_routers + mtp_routers * spec.config.mtp_depth();
            let k = spec.config.moe.as_ref().map_or(0, |m| m.top_k);
            let add = |i| table.add(&format!("forced.{i}"), Space::Input, DType::I32, tokens, k);
            (0..applications).map(add).collect()
        }
        _ => Vec::new(),
    };
    let inputs = Inputs {
        ids: integers(&mut table, "ids", tokens),
        labels: integers(&mut table, "labels", tokens),
        loss_mask: integers(&mut table, "loss_mask", tokens),
        padding: spec.batch.padding.then(|| integers(&mut table, "padding_mask", tokens)),
        cu_seqlens: integers(&mut table, "cu_seqlens", spec.batch.max_offsets),
        forced,
        noise: (spec.routing == Routing::Noise).then(|| integers(&mut table, "noise_counter", 2)),
    };
    let routers = backbone_routers + mtp_routers;
    let experts = spec.config.moe.as_ref().map_or(0, |m| m.experts);
    let heads = 1 + spec.config.mtp_depth();
    let metrics = Metrics {
        state: table.add("state", Space::State, DType::F64, 1, STATE_SLOTS),
        losses: table.add("losses", Space::State, DType::F64, heads, 4),
        aux: table.add("aux_losses", Space::State, DType::F64, routers, 1),
        counts: table.add("expert_counts", Space::State, DType::I32, routers, experts),
        last_counts: table.add("last_expert_counts", Space::State, DType::I32, routers, experts),
    };
    Model { spec, layout, persistent: table, params, gradients, inputs, metrics }
}
