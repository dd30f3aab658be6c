//! From the run configuration to what the model and the optimizer are built from.

use super::stop::parse_duration;
use crate::cli::{Exit, Failure};
use crate::config::choices::{
    DType as TypeName, DatasetKind, LoadBalancing, LrDecayStyle, Mode, Precision as PrecisionName,
    RecomputeGranularity, RecomputeMethod, RecomputeModule, WsdDecayStyle,
};
use crate::config::run::RunConfig;
use lightning_core::model::{AdamConfig, MicroBatch, ModelSpec, Objective, Precision, Routing, Training};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule, WsdStyle};
use lightning_core::program::{LayerRecompute, Recompute};
use lightning_core::tensor::DType;
use std::time::Duration;

fn refuse(key: &str, value: impl std::fmt::Display, reason: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{key} = {value}: {reason}"))
}

fn precision(config: &RunConfig) -> Result<Precision, Failure> {
    let section = &config.mixed_precision;
    let act = match section.precision {
        PrecisionName::Bf16 => DType::BF16,
        PrecisionName::F32 => DType::F32,
        PrecisionName::F64 => DType::F64,
        other => {
            let reason = "the processor computes in bf16, f32 and f64; set mixed_precision.precision=bf16";
            return Err(refuse("mixed_precision.precision", other, reason));
        }
    };
    let grad = match (section.grad_accum_dtype, act) {
        (_, DType::F64) => DType::F64,
        (TypeName::Bf16, _) => DType::BF16,
        (TypeName::F32, _) => DType::F32,
        (TypeName::F64, _) => {
            let reason = "f64 gradients need mixed_precision.precision=f64";
            return Err(refuse("mixed_precision.grad_accum_dtype", "f64", reason));
        }
    };
    Ok(Precision { act, grad })
}

/// When a run saves and stops, counted from its start: the sooner of the two settings.
///
/// # Errors
/// A time that cannot be read.
pub fn time_limit(config: &RunConfig) -> Result<Option<Duration>, Failure> {
    let minutes = config.train.exit_duration_in_mins.map(|m| Duration::from_secs(m.min(5_000_000) * 60));
    let after = match &config.train.exit_after {
        None => None,
        Some(text) => Some(parse_duration(text).ok_or_else(|| {
            refuse("train.exit_after", text, "expected a time such as 3h50m, 45m or 90s (units d, h, m, s)")
        })?),
    };
    Ok(minutes.into_iter().chain(after).min())
}

/// Micro-batches of a step on one rank.
pub fn micro_batches(config: &RunConfig) -> Result<usize, Failure> {
    let (global, micro) = (config.train.global_batch_size, config.train.micro_batch_size);
    if micro == 0 || global == 0 || global % micro != 0 {
        let reason = format!("must be a multiple of train.micro_batch_size = {micro}, both at least 1");
        return Err(refuse("train.global_batch_size", global, &reason));
    }
    Ok((global / micro) as usize)
}

/// The model that a configuration trains.
///
/// # Errors
/// Settings that this version cannot run, by name and with the way out.
pub fn model_spec(config: &RunConfig) -> Result<ModelSpec, Failure> {
    if config.run.mode != Mode::Pretrain {
        let reason = "only pretraining runs in this version; add --dry-run to resolve the configuration";
        return Err(refuse("run.mode", config.run.mode, reason));
    }
    if config.dataset.reset_attention_mask {
        let reason = "it would hide documents from attention but not from the state; use \
                      dataset.inter_document_masking=true, which separates them everywhere";
        return Err(refuse("dataset.reset_attention_mask", true, reason));
    }
    if let Some(size) = config.validation.eval_micro_batch_size.filter(|s| *s != config.train.micro_batch_size) {
        let reason = "must equal train.micro_batch_size: training and validation share one plan";
        return Err(refuse("validation.eval_micro_batch_size", size, reason));
    }
    let micro_batches = micro_batches(config)?;
    let scale = match config.model.calculate_per_token_loss {
        true => LossScale::PerToken,
        false => LossScale::MeanOfMeans(micro_batches),
    };
    let aux = match config.model.moe_router_load_balancing_type {
        LoadBalancing::SeqAuxLoss => config.model.moe_aux_loss_coeff,
        LoadBalancing::None => 0.0,
    };
    let bias = config.model.moe_router_enable_expert_bias;
    let (rows, row_len) = (config.train.micro_batch_size as usize, config.model.seq_length);
    // With separated documents, every token may begin one.
    let per_row = if config.dataset.inter_document_masking { row_len } else { 1 };
    Ok(ModelSpec {
        config: config.model.to_model_config()?,
        precision: precision(config)?,
        batch: MicroBatch { rows, row_len, max_offsets: rows * per_row + 1, padding: false },
        objective: Objective {
            scale,
            mtp_factor: config.model.mtp_loss_scaling_factor,
            aux_coefficient: aux,
            bias_rate: if bias { config.model.moe_router_bias_update_rate } else { 0.0 },
        },
        routing: if config.model.moe_router_force_load_balancing { Routing::Noise } else { Routing::Natural },
        training: Training::Full,
        recompute: recompute(config),
    })
}

/// What a configuration recomputes; `config::check` has made sure that the settings fit each other.
pub fn recompute(config: &RunConfig) -> Recompute {
    let m = &config.model;
    let layers = m.recompute_num_layers.unwrap_or(1);
    match (m.recompute_granularity, m.recompute_method) {
        (None, _) => Recompute::NONE,
        (Some(RecomputeGranularity::Full), method) => Recompute {
            layers: match method {
                Some(RecomputeMethod::Block) => LayerRecompute::Block(layers),
                _ => LayerRecompute::Uniform(layers),
            },
            ..Recompute::NONE
        },
        (Some(RecomputeGranularity::Selective), _) => {
            let has = |module| {
                let modules = m.recompute_modules.iter().flatten();
                modules.into_iter().any(|m| *m == module)
            };
            Recompute {
                core_attn: has(RecomputeModule::CoreAttn),
                moe: has(RecomputeModule::Moe),
                moe_act: has(RecomputeModule::MoeAct),
                layernorm: has(RecomputeModule::LayerNorm),
                mlp: has(RecomputeModule::Mlp),
                layers: LayerRecompute::Off,
            }
        }
    }
}

/// The optimizer of a configuration.
///
/// # Errors
/// Impossible rates.
pub fn adam(config: &RunConfig) -> Result<AdamConfig, Failure> {
    let (o, s) = (&config.optimizer, &config.scheduler);
    if o.optimizer != "adam" {
        return Err(refuse("optimizer.optimizer", &o.optimizer, "only adam is supported"));
    }
    for (key, beta) in [("optimizer.adam_beta1", o.adam_beta1), ("optimizer.adam_beta2", o.adam_beta2)] {
        if !(0.0..1.0).contains(&beta) {
            return Err(refuse(key, beta, "must be at least 0 and below 1"));
        }
    }
    let samples = config.schedule_samples();
    let wsd = match s.lr_wsd_decay_style {
        WsdDecayStyle::Linear => WsdStyle::Linear,
        WsdDecayStyle::Cosine => WsdStyle::Cosine,
        WsdDecayStyle::Exponential => WsdStyle::Exponential,
        WsdDecayStyle::MinusSqrt => WsdStyle::MinusSqrt,
    };
    let mut schedule = Schedule {
        decay: match s.lr_decay_style {
            LrDecayStyle::Constant => Decay::Constant,
            LrDecayStyle::Linear => Decay::Linear,
            LrDecayStyle::Cosine => Decay::Cosine,
            LrDecayStyle::InverseSquareRoot => Decay::InverseSquareRoot,
            LrDecayStyle::Wsd => Decay::Wsd(wsd),
        },
        init_lr: s.lr_warmup_init,
        max_lr: o.lr,
        min_lr: o.min_lr,
        warmup_samples: samples.warmup,
        decay_samples: samples.decay.max(1),
        wsd_samples: samples.wsd_decay,
        start_weight_decay: s.start_weight_decay,
        end_weight_decay: s.end_weight_decay,
    };
    schedule.check()?;
    Ok(AdamConfig { betas: (o.adam_beta1, o.adam_beta2), eps: o.adam_eps, clip: o.clip_grad, schedule })
}

/// Whether a data source fits this version.
pub fn data_kind(config: &RunConfig) -> Result<DatasetKind, Failure> {
    match config.dataset.kind {
        kind @ (DatasetKind::Mock | DatasetKind::Text | DatasetKind::MegatronIndexed) => Ok(kind),
        kind => Err(refuse("dataset.kind", kind, "pretraining takes mock, text or megatron-indexed")),
    }
}
