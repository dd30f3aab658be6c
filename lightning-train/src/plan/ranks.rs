//! The layout of ranks, and the program that one of them runs.

use crate::cli::{Exit, Failure};
use crate::config::launch;
use crate::config::run::RunConfig;
use lightning_core::config::ModelConfig;
use lightning_core::model::{
    MicroBatch, Model, ModelSpec, Objective, Precision, ProgramKind, Routing, Trace, Training,
};
use lightning_core::ops::LossScale;
use lightning_core::program::{Op, Program, Recompute, Space};
use lightning_core::tensor::{DType, Tensor};

/// Sizes of the groups of a layout (distributed.md §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// All ranks.
    pub world: usize,
    /// Tensor parallel.
    pub tp: usize,
    /// Context parallel.
    pub cp: usize,
    /// Expert parallel.
    pub ep: usize,
    /// Expert-tensor parallel.
    pub etp: usize,
    /// Data parallel, dense weights.
    pub dp: usize,
    /// Data parallel, experts.
    pub edp: usize,
    /// Whether norms and residuals are split over the tensor-parallel ranks.
    pub sequence_parallel: bool,
}

fn refuse(key: &str, value: impl std::fmt::Display, reason: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{key} = {value}: {reason}"))
}

impl Ranks {
    /// The layout of a configuration on `world` ranks.
    ///
    /// # Errors
    /// Pipelines, and sizes that do not divide the ranks.
    pub fn of(config: &RunConfig, world: usize) -> Result<Self, Failure> {
        let m = &config.model;
        if m.pipeline_model_parallel_size > 1 {
            let reason = "plans have no pipeline stages yet; set it to 1";
            return Err(refuse("model.pipeline_model_parallel_size", m.pipeline_model_parallel_size, reason));
        }
        let etp = m.expert_tensor_parallel_size.unwrap_or(m.tensor_model_parallel_size);
        let (dense, expert) = (launch::model_parallel_size(config), launch::expert_parallel_size(config));
        if dense == 0 || expert == 0 || world % dense != 0 || world % expert != 0 {
            let reason =
                format!("the layout needs a multiple of {dense} and {expert} ranks; add --nodes and --gpus-per-node");
            return Err(refuse("world size", world, &reason));
        }
        Ok(Self {
            world,
            tp: m.tensor_model_parallel_size,
            cp: m.context_parallel_size,
            ep: m.expert_model_parallel_size,
            etp,
            dp: world / dense,
            edp: world / expert,
            sequence_parallel: m.sequence_parallel && m.tensor_model_parallel_size > 1,
        })
    }

    /// Ranks over which dense gradients are reduced.
    pub fn dense_group(&self) -> usize {
        self.dp * self.cp
    }

    /// The part of a model that one rank holds.
    ///
    /// # Errors
    /// Sizes that the layout does not divide.
    pub fn local(&self, global: &ModelConfig) -> Result<ModelConfig, Failure> {
        let part = |key: &str, size: usize, ranks: usize| match size % ranks {
            0 => Ok(size / ranks),
            _ => Err(refuse(key, size, &format!("is not a multiple of the {ranks} ranks that share it"))),
        };
        let mut local = global.clone();
        local.vocab = global.vocab.div_ceil(self.tp);
        if let Some(a) = &mut local.attention {
            a.heads = part("model.num_attention_heads", a.heads, self.tp)?;
            // Fewer key/value heads than ranks are copied.
            a.kv_heads = if a.kv_heads < self.tp { 1 } else { part("model.num_query_groups", a.kv_heads, self.tp)? };
        }
        if let Some(m) = &mut local.mamba {
            m.heads = part("model.mamba_num_heads", m.heads, self.tp)?;
            m.groups = part("model.mamba_num_groups", m.groups, self.tp)?;
        }
        if let Some(m) = &mut local.moe {
            m.experts = part("model.num_moe_experts", m.experts, self.ep)?;
            if m.experts < m.top_k {
                let reason = format!("plans need at least top-k = {} experts per rank", m.top_k);
                return Err(refuse("model.expert_model_parallel_size", self.ep, &reason));
            }
            m.expert_width = part("model.moe_ffn_hidden_size", m.expert_width, self.etp)?;
            m.shared_width = part("model.moe_shared_expert_intermediate_size", m.shared_width, self.tp)?;
        }
        if let Some(width) = &mut local.mlp_width {
            *width = part("model.ffn_hidden_size", *width, self.tp)?;
        }
        Ok(local)
    }
}

/// The micro-batch of one rank with what a planner may vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Sequences of a micro-batch.
    pub rows: usize,
    /// Tokens of a sequence, over all context-parallel ranks.
    pub row_len: usize,
    /// What is recomputed.
    pub recompute: Recompute,
}

/// Specification of one rank's part of the model.
///
/// # Errors
/// Sizes that the layout does not divide.
pub fn local_spec(
    config: &RunConfig,
    ranks: &Ranks,
    shape: &Shape,
    precision: Precision,
) -> Result<ModelSpec, Failure> {
    let local = ranks.local(&config.model.to_model_config()?)?;
    if shape.row_len % ranks.cp != 0 {
        return Err(refuse("model.seq_length", shape.row_len, "is not a multiple of model.context_parallel_size"));
    }
    let row_len = shape.row_len / ranks.cp;
    let depth_loss = config.model.mtp_loss_scaling_factor;
    Ok(ModelSpec {
        config: local,
        precision,
        batch: MicroBatch { rows: shape.rows, row_len, max_offsets: shape.rows + 1, padding: false },
        objective: Objective {
            scale: LossScale::PerToken,
            mtp_factor: depth_loss,
            aux_coefficient: config.model.moe_aux_loss_coeff,
            bias_rate: config.model.moe_router_bias_update_rate,
        },
        routing: if config.model.moe_router_force_load_balancing { Routing::Noise } else { Routing::Natural },
        training: Training::Full,
        recompute: shape.recompute,
    })
}

/// The micro-batch program of one rank: recomputed, resized to the rank's share, with lifetimes but without places.
///
/// Experts get the balanced load: every rank receives as many token copies as it sends.
pub fn rank_program(model: &Model, ranks: &Ranks, row_len: usize, frozen: bool) -> Program {
    let mut program = model.record(ProgramKind::TrainFirst, Trace::Off);
    if frozen {
        freeze(&mut program);
    }
    program.recompute(&model.spec.recompute);
    share_router(&mut program, ranks.ep);
    for node in &mut program.nodes {
        match &mut node.op {
            Op::AttentionFwd(op) => op.shape.row_len = row_len,
            Op::AttentionBwd(op) => op.fwd.shape.row_len = row_len,
            _ => {}
        }
    }
    if ranks.sequence_parallel {
        split_sequence(&mut program, ranks.tp);
    }
    program.find_lifetimes();
    program
}

/// Takes the weight gradients out: only adapters train.
fn freeze(program: &mut Program) {
    for node in &mut program.nodes {
        match &mut node.op {
            Op::LinearBwd(op) => op.dw = None,
            Op::ExpertsBwd(op) => op.dweights = None,
            Op::RouterBwd(op) => op.dw = None,
            Op::LinearCrossEntropy(op) => op.dw = None,
            _ => {}
        }
    }
}

/// Routers see all experts, also those of other ranks.
fn share_router(program: &mut Program, ep: usize) {
    if ep == 1 {
        return;
    }
    let wide = |t: &mut Tensor, cols: usize| {
        t.cols = cols;
        t.ld = cols;
    };
    for node in &mut program.nodes {
        let router = match &mut node.op {
            Op::RouterFwd(op) => op,
            Op::RouterBwd(op) => {
                let experts = op.fwd.w.rows * ep;
                wide(&mut op.dlogits, experts);
                if let Some((_, w)) = &mut op.wide {
                    w.rows = experts;
                }
                if let Some(dw) = &mut op.dw {
                    dw.rows = experts;
                }
                &mut op.fwd
            }
            _ => continue,
        };
        let experts = router.w.rows * ep;
        router.w.rows = experts;
        wide(&mut router.bias, experts);
        wide(&mut router.logits, experts);
        wide(&mut router.row_counts, experts);
        if let Some(counts) = &mut router.counts {
            wide(counts, experts);
        }
        if let Some(aux) = &mut router.aux {
            wide(&mut aux.stats, experts + 2);
        }
    }
    let buffers = &mut program.buffers;
    for node in &program.nodes {
        node.op.operands(&mut |_, t, _| {
            let buffer = &mut buffers[t.buffer.0 as usize];
            buffer.len = buffer.len.max(t.span().1);
        });
    }
}

/// Sequence parallelism: the residual stream, norms and the tokens that go to experts are split over the ranks.
fn split_sequence(program: &mut Program, tp: usize) {
    const STREAM: &[&str] =
        &["residual", "rstd", "normed", "dresidual", "embedded", "dembedded", "norm_partial", "out", "dx", "g"];
    let mut split = vec![false; program.buffers.len()];
    for (buffer, split) in program.buffers.iter().zip(&mut split) {
        let name = buffer.name.trim_end_matches('*').rsplit('/').next().unwrap_or("");
        *split = buffer.space == Space::Arena && STREAM.contains(&name);
    }
    for node in &mut program.nodes {
        let routed = matches!(
            node.op,
            Op::RouterFwd(_)
                | Op::RouterBwd(_)
                | Op::DispatchPlan(_)
                | Op::ExpertsFwd(_)
                | Op::ExpertsBwd(_)
                | Op::CombineFwd(_)
                | Op::CombineBwd(_)
        );
        if !routed {
            continue;
        }
        let buffers = &program.buffers;
        node.op.handles(&mut |t| {
            if buffers[t.buffer.0 as usize].space == Space::Arena {
                split[t.buffer.0 as usize] = true;
                t.rows = t.rows.div_ceil(tp);
            }
        });
    }
    for (buffer, split) in program.buffers.iter_mut().zip(split) {
        if split {
            buffer.len = buffer.len.div_ceil(tp);
        }
    }
}

/// Element types that programs of a precision class compute in; 8- and 4-bit classes keep bf16 activations.
pub fn precision(config: &RunConfig) -> Precision {
    use crate::config::choices::{DType as Name, Precision as Class};
    let act = match config.mixed_precision.precision {
        Class::F32 => DType::F32,
        Class::F64 => DType::F64,
        _ => DType::BF16,
    };
    let grad = match (config.mixed_precision.grad_accum_dtype, act) {
        (_, DType::F64) => DType::F64,
        (Name::Bf16, _) => DType::BF16,
        _ => DType::F32,
    };
    Precision { act, grad }
}
