//! What recomputation saves and costs, which knobs to turn first, and how long a sequence fits.

use super::estimate::{Estimate, Planner};
use crate::cli::Failure;
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

/// The knobs in the order in which to turn them, each against the plan as it is.
///
/// # Errors
/// As [`Planner::estimate`].
pub fn knobs(planner: &Planner<'_>) -> Result<Vec<Knob>, Failure> {
    let shape = planner.shape();
    let base = planner.estimate(&shape)?;
    let selective = |r: &Recompute| {
        let flags = [r.core_attn, r.moe, r.moe_act, r.layernorm, r.mlp];
        let names: Vec<&str> = MODULES.into_iter().zip(flags).filter(|(_, on)| *on).map(|(name, _)| name).collect();
        format!("model.recompute_granularity=selective model.recompute_modules=[{}]", names.join(", "))
    };
    let mut tries = Vec::new();
    let now = shape.recompute;
    if now.layers == LayerRecompute::Off {
        let cheap = Recompute { core_attn: true, layernorm: true, moe_act: !now.moe, ..now };
        let more = Recompute { core_attn: true, layernorm: true, moe: true, moe_act: false, mlp: true, ..now };
        for r in [cheap, more] {
            if r != now {
                tries.push((selective(&r), super::ranks::Shape { recompute: r, ..shape }));
            }
        }
    }
    if shape.rows > 1 && shape.rows % 2 == 0 {
        let half = super::ranks::Shape { rows: shape.rows / 2, ..shape };
        tries.push((format!("train.micro_batch_size={}", half.rows), half));
    }
    if now.layers == LayerRecompute::Off {
        let full = Recompute { layers: LayerRecompute::Uniform(1), ..Recompute::NONE };
        let text = "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1 \
                    model.recompute_modules=null";
        tries.push((text.to_string(), super::ranks::Shape { recompute: full, ..shape }));
    }
    let half = shape.row_len / 2;
    if half > 0 && half % planner.ranks.cp == 0 {
        let text = format!("model.seq_length={half} dataset.seq_length={half}");
        tries.push((text, super::ranks::Shape { row_len: half, ..shape }));
    }
    let mut list = Vec::new();
    for (text, shape) in tries {
        list.push(compare(text, &base, &planner.estimate(&shape)?));
    }
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
