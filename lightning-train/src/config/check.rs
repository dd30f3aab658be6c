//! Checks of a resolved configuration: every value is possible and values fit each other.

mod data;
mod layout;

use super::choices::*;
use super::error::ConfigError;
use super::launch::Launch;
use super::run::RunConfig;

type Check = Result<(), ConfigError>;

fn need(ok: bool, key: &str, value: impl ToString, reason: &str) -> Check {
    if ok { Ok(()) } else { Err(ConfigError::invalid(key, value, reason)) }
}

/// Checks everything that does not depend on files.
///
/// # Errors
/// The first setting that cannot work, with the reason and what to try.
pub(super) fn check(config: &RunConfig, launch: &Launch) -> Check {
    config.model.to_model_config()?;
    counts(config)?;
    optimizer(config)?;
    schedule(config)?;
    layout::layout(config, launch)?;
    recompute(config)?;
    data::data(config)?;
    data::adapters(config)
}

fn counts(config: &RunConfig) -> Check {
    let (train, model) = (&config.train, &config.model);
    need(train.train_iters > 0, "train.train_iters", train.train_iters, "a run needs at least 1 step")?;
    need(train.global_batch_size > 0, "train.global_batch_size", train.global_batch_size, "must be at least 1")?;
    need(train.micro_batch_size > 0, "train.micro_batch_size", train.micro_batch_size, "must be at least 1")?;
    need(model.seq_length > 0, "model.seq_length", model.seq_length, "must be at least 1")?;
    need(config.logger.log_interval > 0, "logger.log_interval", 0, "must be at least 1")?;
    need(
        config.checkpoint.save_interval != Some(0),
        "checkpoint.save_interval",
        0,
        "must be at least 1; null saves only at the end",
    )?;
    need(
        config.checkpoint.most_recent_k != Some(0),
        "checkpoint.most_recent_k",
        0,
        "must be at least 1; null keeps all",
    )?;
    need(config.device.threads != Some(0), "device.threads", 0, "must be at least 1; null takes all")?;
    let validation = &config.validation;
    if validation.eval_interval > 0 {
        need(
            validation.eval_iters > 0,
            "validation.eval_iters",
            0,
            "must be at least 1 while validation.eval_interval is not 0",
        )?;
    }
    Ok(())
}

fn optimizer(config: &RunConfig) -> Check {
    let o = &config.optimizer;
    need(o.optimizer == "adam", "optimizer.optimizer", &o.optimizer, "only adam is supported")?;
    need(o.lr >= 0.0, "optimizer.lr", o.lr, "must not be negative")?;
    need(o.min_lr >= 0.0, "optimizer.min_lr", o.min_lr, "must not be negative")?;
    let reason = format!("must not exceed optimizer.lr = {}; set both", o.lr);
    need(o.min_lr <= o.lr, "optimizer.min_lr", o.min_lr, &reason)?;
    for (key, beta) in [("optimizer.adam_beta1", o.adam_beta1), ("optimizer.adam_beta2", o.adam_beta2)] {
        need((0.0..1.0).contains(&beta), key, beta, "must be at least 0 and below 1")?;
    }
    need(o.adam_eps > 0.0, "optimizer.adam_eps", o.adam_eps, "must be positive")?;
    need(o.clip_grad >= 0.0, "optimizer.clip_grad", o.clip_grad, "must not be negative; 0 is off")?;
    let s = &config.scheduler;
    for (key, decay) in [
        ("optimizer.weight_decay", o.weight_decay),
        ("scheduler.start_weight_decay", s.start_weight_decay),
        ("scheduler.end_weight_decay", s.end_weight_decay),
    ] {
        need(decay >= 0.0, key, decay, "must not be negative")?;
    }
    if s.weight_decay_incr_style == WeightDecayIncrStyle::Constant {
        let reason = format!(
            "must equal scheduler.start_weight_decay = {} with weight_decay_incr_style = constant",
            s.start_weight_decay
        );
        need(s.start_weight_decay == s.end_weight_decay, "scheduler.end_weight_decay", s.end_weight_decay, &reason)?;
    } else {
        let reason = format!("must be at least scheduler.start_weight_decay = {}", s.start_weight_decay);
        need(s.end_weight_decay >= s.start_weight_decay, "scheduler.end_weight_decay", s.end_weight_decay, &reason)?;
    }
    need(
        config.mixed_precision.grad_accum_dtype != DType::F64 || config.mixed_precision.precision == Precision::F64,
        "mixed_precision.grad_accum_dtype",
        "f64",
        "only with mixed_precision.precision = f64; use f32 or bf16",
    )
}

fn schedule(config: &RunConfig) -> Check {
    let s = &config.scheduler;
    if let Some(max) = s.max_steps {
        let reason =
            format!("exceeds scheduler.max_steps = {max}; a run may stop earlier than its schedule, not later");
        need(config.train.train_iters <= max, "train.train_iters", config.train.train_iters, &reason)?;
    }
    need(
        s.lr_decay_iters != Some(0),
        "scheduler.lr_decay_iters",
        0,
        "must be at least 1; null takes the steps of the run",
    )?;
    let init_ok = s.lr_warmup_init >= 0.0 && s.lr_warmup_init <= config.optimizer.lr;
    need(init_ok, "scheduler.lr_warmup_init", s.lr_warmup_init, "must be from 0 to optimizer.lr")?;
    if s.lr_decay_style == LrDecayStyle::Wsd {
        let Some(steps) = s.lr_wsd_decay_iters else {
            return Err(ConfigError::invalid(
                "scheduler.lr_wsd_decay_iters",
                "null",
                "WSD needs the steps of its last part",
            ));
        };
        let decay = s.lr_decay_iters.unwrap_or(config.train.train_iters);
        let reason = format!("must be from 1 to scheduler.lr_decay_iters = {decay}");
        need((1..=decay).contains(&steps), "scheduler.lr_wsd_decay_iters", steps, &reason)?;
    }
    Ok(())
}

fn recompute(config: &RunConfig) -> Check {
    let m = &config.model;
    match m.recompute_granularity {
        None => Ok(()),
        Some(RecomputeGranularity::Selective) => need(
            m.recompute_modules.as_ref().is_some_and(|modules| !modules.is_empty()),
            "model.recompute_modules",
            "null",
            "selective recomputation needs modules, for example [core_attn, layernorm]",
        ),
        Some(RecomputeGranularity::Full) => {
            need(
                m.recompute_method.is_some(),
                "model.recompute_method",
                "null",
                "full recomputation needs uniform or block",
            )?;
            need(
                m.recompute_num_layers.is_some_and(|n| n > 0),
                "model.recompute_num_layers",
                m.recompute_num_layers.map_or("null".to_string(), |n| n.to_string()),
                "full recomputation needs a number of layers, for example 1",
            )
        }
    }
}
