//! Memory that lives as long as the run, on one rank: weights, gradients, masters, moments.

use super::low_precision;
use super::ranks::Ranks;
use crate::config::choices::{DType as TypeName, PeftScheme, Precision as Class, ShardingStrategy};
use crate::config::run::RunConfig;
use lightning_core::layout::{Layout, Role};
use lightning_core::model::Model;
use lightning_core::program::Space;

/// Bytes by kind, on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Static {
    /// Working weights, with gathered copies (FSDP) and quantised ones.
    pub weights: f64,
    /// Accumulated gradients, with communication buffers of FSDP.
    pub gradients: f64,
    /// Master weights, or the 16 low bits of them.
    pub masters: f64,
    /// Both moments.
    pub moments: f64,
    /// Inputs, counters and state.
    pub state: f64,
    /// Elements of dense weights on this rank.
    pub dense: f64,
    /// Elements of routed-expert weights on this rank.
    pub experts: f64,
    /// Trained elements of dense weights or adapters on this rank.
    pub trained_dense: f64,
    /// Trained elements of routed experts on this rank.
    pub trained_experts: f64,
}

impl Static {
    /// Masters and moments.
    pub fn optimizer(&self) -> f64 {
        self.masters + self.moments
    }

    /// Everything.
    pub fn total(&self) -> f64 {
        self.weights + self.gradients + self.optimizer() + self.state
    }
}

fn size(dtype: TypeName) -> f64 {
    match dtype {
        TypeName::Bf16 => 2.0,
        TypeName::F32 => 4.0,
        TypeName::F64 => 8.0,
    }
}

/// Bytes of a weight in the matrices that a precision class quantises: copies along rows and columns with their scales
/// (recipes.md §3.1 to §3.3); fp8 weights replace the bf16 ones when they are gathered in fp8.
fn quantised_bytes(config: &RunConfig) -> Option<f64> {
    let section = &config.mixed_precision;
    let base = if section.fp8_param_gather { 0.0 } else { 2.0 };
    match section.precision {
        Class::Fp8Cs => Some(base + 2.0),
        Class::Fp8Mx => Some(base + 2.0 * (1.0 + 1.0 / 32.0)),
        Class::Nvfp4 => Some(2.0 + 2.0 * (0.5 + 1.0 / 16.0)),
        _ => None,
    }
}

fn is_expert(name: &str) -> bool {
    name.contains(".mixer.experts.")
}

/// Whether the parameter is a matrix that 8- and 4-bit classes quantise (recipes.md §3.3).
fn quantises(name: &str, role: Role) -> bool {
    matches!(role, Role::InputProjection | Role::OutputProjection) && !name.contains("eh_proj")
}

/// Elements of the adapters of one rank (recipes.md §2.2): r (in + out) per matrix, one pair per group of experts.
fn adapter_elements(config: &RunConfig, layout: &Layout, ranks: &Ranks) -> f64 {
    let (r, groups) = (config.peft.dim as f64, config.peft.expert_adapter_groups as f64);
    let adapted = layout.params.iter().filter(|p| quantises(&p.name, p.role));
    let pairs = adapted.map(|p| {
        if is_expert(&p.name) {
            let rows = p.parts.first().map_or(0, |part| part.rows);
            (groups / ranks.ep as f64).max(1.0) * r * (rows + p.cols) as f64
        } else {
            r * (p.rows + p.cols) as f64
        }
    });
    pairs.sum()
}

/// Static memory of the rank whose part of the model is `local`. One rank on the processor has exactly what it allocates.
pub fn of(config: &RunConfig, ranks: &Ranks, local: &Model, exact: bool) -> Static {
    let mut s = Static::default();
    let frozen = config.peft.scheme == Some(PeftScheme::Lora);
    let mtp_off = local.spec.config.mtp_depth() == 0;
    let act = local.spec.precision.act.size() as f64;
    let wide = local.spec.precision.acc().size() as f64;
    let quantised = quantised_bytes(config);
    let mtp_stays = low_precision::mtp_stays(config);
    let fsdp = config.ddp.use_megatron_fsdp || config.dist.use_megatron_fsdp;
    let strategy = config.ddp.data_parallel_sharding_strategy;
    let (dense_group, expert_group) = (ranks.dense_group() as f64, ranks.edp as f64);
    let (mut master_dense, mut master_experts, mut largest_unit, mut root) = (0.0, 0.0, 0.0_f64, 0.0);
    let mut unit = (String::new(), 0.0);
    for p in &local.layout.params {
        let mut n = p.len() as f64;
        if matches!(p.role, Role::Router | Role::ExpertBias) {
            n *= ranks.ep as f64;
        }
        if p.name.contains("eh_proj") {
            n /= ranks.tp as f64;
        }
        let expert = is_expert(&p.name);
        let bytes = match quantised {
            _ if p.role.keeps_precision() => wide,
            Some(bytes) if quantises(&p.name, p.role) && !(mtp_stays && p.name.starts_with("mtp.")) => bytes,
            _ => act,
        };
        let group = if expert { expert_group } else { dense_group };
        let sharded_weights = fsdp && strategy == ShardingStrategy::OptimGradsParams;
        s.weights += n * bytes / if sharded_weights { group } else { 1.0 };
        if sharded_weights {
            // Experts on one data-parallel rank are not gathered: the shard is the weight.
            let gathered = if group > 1.0 { n * bytes } else { 0.0 };
            match layer_of(&p.name) {
                Some(layer) if unit.0 == layer => unit.1 += gathered,
                Some(layer) => unit = (layer.to_string(), gathered),
                None => root += gathered,
            }
            largest_unit = largest_unit.max(unit.1);
        }
        let trains = p.role.trains() && !(mtp_off && p.name.starts_with("mtp.")) && !frozen;
        let master = if p.role.keeps_precision() || act == wide { 0.0 } else { n };
        if expert {
            s.experts += n;
        } else {
            s.dense += n;
        }
        if trains && expert {
            s.trained_experts += n;
            master_experts += master;
        } else if trains {
            s.trained_dense += n;
            master_dense += master;
        }
    }
    if frozen {
        let adapters = adapter_elements(config, &local.layout, ranks);
        s.weights += adapters * act;
        s.trained_dense = adapters;
        master_dense = adapters;
    }
    let o = &config.optimizer;
    // Two units are gathered at a time: the one that computes and the next.
    s.weights += 2.0 * largest_unit + root;
    let shards_optimizer = o.use_distributed_optimizer || fsdp;
    let shard = |dense: f64, experts: f64| match shards_optimizer {
        true => dense / dense_group + experts / expert_group,
        false => dense + experts,
    };
    let grad =
        if fsdp { size(config.ddp.megatron_fsdp_main_grads_dtype) } else { local.spec.precision.grad.size() as f64 };
    let sharded_grads = fsdp && matches!(strategy, ShardingStrategy::OptimGrads | ShardingStrategy::OptimGradsParams);
    s.gradients = grad
        * match sharded_grads {
            true => s.trained_dense / dense_group + s.trained_experts / expert_group,
            false => s.trained_dense + s.trained_experts,
        };
    if sharded_grads {
        s.gradients += 2.0 * largest_unit;
    }
    let (master_bytes, moment_bytes) = match o.use_precision_aware_optimizer {
        true => (2.0, size(o.exp_avg_dtype) + size(o.exp_avg_sq_dtype)),
        false => (wide, 2.0 * wide),
    };
    s.masters = master_bytes * shard(master_dense, master_experts);
    s.moments = moment_bytes * shard(s.trained_dense, s.trained_experts);
    let bytes = |space| local.persistent.bytes(space) as f64;
    s.state = bytes(Space::Input) + bytes(Space::State);
    if exact {
        s.weights = bytes(Space::Parameters);
        s.gradients = bytes(Space::Gradients);
        let optimizer = bytes(Space::Optimizer);
        s.moments = 2.0 * wide * local.gradients.map_or(0.0, |g| g.len() as f64);
        s.masters = optimizer - s.moments;
    }
    s
}

/// The layer of a parameter name, up to its index.
fn layer_of(name: &str) -> Option<&str> {
    let at = name.find("layers.")? + "layers.".len();
    let end = name[at..].find('.')? + at;
    Some(&name[..end])
}
