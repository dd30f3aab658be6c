//! Data that fits the mode, and adapters.

use super::super::choices::*;
use super::super::error::ConfigError;
use super::super::run::RunConfig;
use super::{Check, need};

pub(super) fn data(config: &RunConfig) -> Check {
    let (data, mode) = (&config.dataset, config.run.mode);
    if !data.kind.fits(mode) {
        let reason = if mode.is_fine_tuning() {
            format!(
                "{mode} needs prompts and answers: mock, squad, tulu3, openmathinstruct2, gsm8k, local-jsonl or packed-parquet"
            )
        } else {
            "pretraining needs plain text: mock, text or megatron-indexed; or use --mode sft".to_string()
        };
        return Err(ConfigError::invalid("dataset.kind", data.kind, reason));
    }
    let sources: Vec<&str> = [
        ("dataset.data_path", data.data_path.is_some()),
        ("dataset.blend", data.blend.is_some()),
        ("dataset.blend_per_split", data.blend_per_split.is_some()),
        ("dataset.per_split_data_args_path", data.per_split_data_args_path.is_some()),
    ]
    .into_iter()
    .filter_map(|(key, given)| given.then_some(key))
    .collect();
    if let [_, second, ..] = sources.as_slice() {
        let value = config.get(second).map_or(String::new(), |v| v.to_string());
        return Err(ConfigError::invalid(
            *second,
            value,
            format!("conflicts with {}; clear one with =null", sources[0]),
        ));
    }
    if data.kind == DatasetKind::MegatronIndexed && sources.is_empty() {
        let reason = "names no token files; give dataset.data_path, dataset.blend or dataset.per_split_data_args_path";
        return Err(ConfigError::invalid("dataset.kind", data.kind, reason));
    }
    if data.kind != DatasetKind::MegatronIndexed && !sources.is_empty() {
        let reason =
            format!("{} names token files; use --dataset megatron-indexed, or clear it with =null", sources[0]);
        return Err(ConfigError::invalid("dataset.kind", data.kind, reason));
    }
    if let (DatasetKind::Mock | DatasetKind::MegatronIndexed, Some(path)) = (data.kind, &data.path) {
        let reason =
            format!("is text or samples, and the data is {}; use --dataset text, or clear it with =null", data.kind);
        return Err(ConfigError::invalid("dataset.path", path, reason));
    }
    let per_split = data.blend_per_split.is_some() || data.per_split_data_args_path.is_some();
    if let (true, Some(split)) = (per_split, &data.split) {
        return Err(ConfigError::invalid("dataset.split", split, "must be null with blends per split"));
    }
    if let (false, None, DatasetKind::MegatronIndexed | DatasetKind::Text | DatasetKind::Mock) =
        (per_split, &data.split, data.kind)
    {
        return Err(ConfigError::invalid("dataset.split", "null", "is needed, for example \"9999,8,2\""));
    }
    if let (DatasetKind::Text, Some(size)) = (data.kind, data.vocab_size) {
        let reason = format!("must not exceed model.vocab_size = {}", config.model.vocab_size);
        need(size <= config.model.vocab_size, "dataset.vocab_size", size, &reason)?;
    }
    need(data.pad_seq_to_mult > 0, "dataset.pad_seq_to_mult", 0, "must be at least 1")
}

pub(super) fn adapters(config: &RunConfig) -> Check {
    let (peft, mode) = (&config.peft, config.run.mode);
    if peft.scheme.is_some() && mode != Mode::Lora {
        return Err(ConfigError::invalid("peft.scheme", "lora", format!("run.mode is {mode}; use --mode lora")));
    }
    if mode == Mode::Lora {
        need(peft.dim > 0, "peft.dim", 0, "must be at least 1")?;
        need(peft.dropout == 0.0, "peft.dropout", peft.dropout, "adapters train without dropout; set it to 0")?;
        let experts = config.model.num_moe_experts;
        let groups = peft.expert_adapter_groups;
        let reason = format!("must divide model.num_moe_experts = {experts}");
        need(groups > 0 && experts.is_multiple_of(groups), "peft.expert_adapter_groups", groups, &reason)?;
    }
    Ok(())
}
