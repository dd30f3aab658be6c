//! What recomputation saves and costs, which knobs to turn first, and how long a sequence fits.

use super::estimate::{Estimate, Planner};
use crate::cli::Failure;
use crate::config::choices::{CpCommType, DType, Precision as Class};
use crate::config::run::RunConfig;
use crate::config::value::Value;
use lightning_core::program::{LayerRecompute, Recompute};

/// A setting and what it does to the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Knob {
    /// As it is written on the command line.
    pub setting: String,
    /// Bytes saved; negative when it costs.
    pub saves: f64,
    /// Seconds added to a step at the roofs.
    pub costs_seconds: f64,
    /// Whether the plan fits with it.
    pub fits: bool,
}

const MODULES: [&str; 5] = ["core_attn", "moe", "moe_act", "layernorm", "mlp"];

fn without(mut r: Recompute, module: &str) -> Option<Recompute> {
    let flag = match module {
        "core_attn" => &mut r.core_attn,
        "moe" => &mut r.moe,
        "moe_act" => &mut r.moe_act,
        "layernorm" => &mut r.layernorm,
        _ => &mut r.mlp,
    };
    std::mem::replace(flag, false).then_some(r)
}

fn compare(setting: String, base: &Estimate, with: &Estimate) -> Knob {
    Knob {
        setting,
        saves: base.total() - with.total(),
        costs_seconds: with.compute_seconds - base.compute_seconds,
        fits: with.fits(),
    }
}

/// What every active kind of recomputation saves and costs beside the others.
///
/// # Errors
/// As [`Planner::estimate`].
pub fn recomputation(planner: &Planner<'_>, full: &Estimate) -> Result<Vec<Knob>, Failure> {
    let shape = full.shape;
    let mut list = Vec::new();
    for module in MODULES {
        if let Some(recompute) = without(shape.recompute, module) {
            let base = planner.estimate(&super::ranks::Shape { recompute, ..shape })?;
            list.push(compare(module.to_string(), &base, full));
        }
    }
    if shape.recompute.layers != LayerRecompute::Off {
        let recompute = Recompute::NONE;
        let base = planner.estimate(&super::ranks::Shape { recompute, ..shape })?;
        list.push(compare("full".to_string(), &base, full));
    }
    Ok(list)
}

/// A change of settings, as it is written on the command line, and what it makes of the configuration.
struct Try {
    setting: String,
    config: RunConfig,
}

impl Try {
    /// `None` when a setting cannot be changed so.
    fn new(config: &RunConfig, changes: &[(&str, Value)]) -> Option<Self> {
        let mut changed = config.clone();
        let mut words = Vec::new();
        for (key, value) in changes {
            changed.set(key, value).ok()?;
            let word = format!("{key}={value}").replace(", ", ",");
            // Brackets mean something to shells.
            words.push(if word.contains('[') { format!("'{word}'") } else { word });
        }
        Some(Self { setting: words.join(" "), config: changed })
    }
}

fn text(value: &str) -> Value {
    Value::Str(value.into())
}

fn int(value: usize) -> Value {
    Value::Int(value as i64)
}

/// Recomputation, from the cheapest: what is not on yet.
fn more_recomputation(now: Recompute) -> Vec<Vec<(&'static str, Value)>> {
    if now.layers != LayerRecompute::Off {
        return vec![];
    }
    let cheap = Recompute { core_attn: true, layernorm: true, moe_act: !now.moe, ..now };
    let more = Recompute { core_attn: true, layernorm: true, moe: true, moe_act: false, mlp: true, ..now };
    let selective = |r: Recompute| {
        let flags = [r.core_attn, r.moe, r.moe_act, r.layernorm, r.mlp];
        let names = MODULES.into_iter().zip(flags).filter(|(_, on)| *on).map(|(name, _)| text(name)).collect();
        vec![("model.recompute_granularity", text("selective")), ("model.recompute_modules", Value::List(names))]
    };
    let mut list: Vec<_> = [cheap, more].into_iter().filter(|r| *r != now).map(selective).collect();
    list.push(vec![
        ("model.recompute_granularity", text("full")),
        ("model.recompute_method", text("uniform")),
        ("model.recompute_num_layers", int(1)),
        ("model.recompute_modules", Value::Null),
    ]);
    list
}

/// Other divisions of the same ranks, where the sizes divide: twice the context-parallel ranks, twice the expert-parallel
/// ones, a sharded optimizer, sharded weights.
fn more_sharding(planner: &Planner<'_>) -> Vec<Vec<(&'static str, Value)>> {
    let (config, r) = (planner.config, &planner.ranks);
    let (m, t) = (&config.model, &config.train);
    let mut list = Vec::new();
    let samples = t.micro_batch_size.max(1) * (r.dp as u64 / 2).max(1);
    if r.dp % 2 == 0 && m.seq_length % (4 * r.cp) == 0 && t.global_batch_size % samples == 0 {
        let mut changes = vec![("model.context_parallel_size", int(2 * r.cp))];
        if m.cp_comm_type != Some(CpCommType::P2p) {
            changes.push(("model.cp_comm_type", text("p2p")));
        }
        list.push(changes);
    }
    let experts = m.num_moe_experts / (2 * r.ep).max(1);
    if r.edp % 2 == 0 && m.num_moe_experts % (2 * r.ep) == 0 && experts >= m.moe_router_topk.max(1) {
        list.push(vec![("model.expert_model_parallel_size", int(2 * r.ep))]);
    }
    let fsdp = config.ddp.use_megatron_fsdp || config.dist.use_megatron_fsdp;
    if r.dense_group() > 1 && !fsdp {
        if !config.optimizer.use_distributed_optimizer {
            list.push(vec![("optimizer.use_distributed_optimizer", Value::Bool(true))]);
        }
        list.push(vec![
            ("ddp.use_megatron_fsdp", Value::Bool(true)),
            ("ddp.data_parallel_sharding_strategy", text("optim_grads_params")),
        ]);
    }
    list
}

/// The knobs in the order in which to turn them, each against the plan as it is.
///
/// # Errors
/// As [`Planner::estimate`].
pub fn knobs(planner: &Planner<'_>) -> Result<Vec<Knob>, Failure> {
    let (config, shape) = (planner.config, planner.shape());
    let base = planner.estimate(&shape)?;
    let mut recompute = more_recomputation(shape.recompute);
    let everything = (recompute.len() > 1).then(|| recompute.pop()).flatten();
    let mut changes = recompute;
    if config.mixed_precision.precision == Class::Bf16 {
        if config.mixed_precision.grad_accum_dtype != DType::Bf16 {
            changes.push(vec![("mixed_precision.grad_accum_dtype", text("bf16"))]);
        }
        if planner.ranks.world > 1 && !config.optimizer.use_precision_aware_optimizer {
            changes.push(vec![("optimizer.use_precision_aware_optimizer", Value::Bool(true))]);
        }
    }
    if shape.rows > 1 && shape.rows % 2 == 0 {
        changes.push(vec![("train.micro_batch_size", int(shape.rows / 2))]);
    }
    changes.extend(everything);
    changes.extend(more_sharding(planner));
    let half = shape.row_len / 2;
    if half > 0 && half % (2 * planner.ranks.cp) == 0 {
        changes.push(vec![("model.seq_length", int(half)), ("dataset.seq_length", int(half))]);
    }
    let mut list = Vec::new();
    for tried in changes.iter().filter_map(|c| Try::new(config, c)) {
        // A layout that this model does not divide into is no knob.
        let Ok(with) = planner.with(&tried.config) else { continue };
        if let Ok(estimate) = with.estimate(&with.shape()) {
            list.push(compare(tried.setting, &base, &estimate));
        }
    }
    list.retain(|knob| knob.saves > 0.0);
    Ok(list)
}

/// The longest sequence, in steps of 64 tokens per context-parallel rank, whose plan fits; `None` when not even the
/// shortest does. The search stops at a million tokens per rank.
///
/// # Errors
/// As [`Planner::estimate`].
pub fn longest_sequence(planner: &Planner<'_>) -> Result<Option<usize>, Failure> {
    let unit = 64 * planner.ranks.cp;
    let fits = |units: usize| -> Result<bool, Failure> {
        let shape = super::ranks::Shape { row_len: units * unit, ..planner.shape() };
        Ok(planner.estimate(&shape)?.fits())
    };
    if !fits(1)? {
        return Ok(None);
    }
    let (mut low, mut high) = (1, (1 << 20) / 64);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if fits(middle)? { low = middle } else { high = middle }
    }
    Ok(Some(low * unit))
}
