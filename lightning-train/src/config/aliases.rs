//! Other names under which settings are known: Hugging Face spellings and earlier or nested names of the public stack.

/// (alias, setting).
pub const ALIASES: &[(&str, &str)] = &[
    ("model.hybrid_override_pattern", "model.hybrid_layer_pattern"),
    ("model.num_hidden_layers", "model.num_layers"),
    ("model.num_key_value_heads", "model.num_query_groups"),
    ("model.head_dim", "model.kv_channels"),
    ("model.intermediate_size", "model.ffn_hidden_size"),
    ("model.ssm_state_size", "model.mamba_state_dim"),
    ("model.n_groups", "model.mamba_num_groups"),
    ("model.conv_kernel", "model.mamba_conv_kernel"),
    ("model.chunk_size", "model.mamba_chunk_size"),
    ("model.n_routed_experts", "model.num_moe_experts"),
    ("model.num_experts_per_tok", "model.moe_router_topk"),
    ("model.moe_intermediate_size", "model.moe_ffn_hidden_size"),
    ("model.n_shared_experts", "model.moe_num_shared_experts"),
    ("model.routed_scaling_factor", "model.moe_router_topk_scaling_factor"),
    ("model.norm_topk_prob", "model.moe_router_norm_topk_prob"),
    ("model.n_group", "model.moe_router_num_groups"),
    ("model.topk_group", "model.moe_router_group_topk"),
    ("model.layer_norm_epsilon", "model.layernorm_epsilon"),
    ("model.norm_eps", "model.layernorm_epsilon"),
    ("model.initializer_range", "model.init_method_std"),
    ("model.cuda_graph_modules", "model.cuda_graph_scope"),
    ("train.eval_interval", "validation.eval_interval"),
    ("train.eval_iters", "validation.eval_iters"),
    ("train.seed", "rng.seed"),
    ("dataset.seed", "dataset.random_seed"),
    ("dataset.dataset_kwargs.pad_to_max_length", "dataset.pad_to_max_length"),
    ("dataset.hf_dataset.load_kwargs.revision", "dataset.hf_revision"),
    ("dataset.hf_kwargs.revision", "dataset.hf_revision"),
    ("dataset.offline_packing_specs.packed_sequence_size", "dataset.packed_sequence_size"),
    ("dataset.offline_packing_specs.pad_seq_to_mult", "dataset.pad_seq_to_mult"),
    ("dataset.offline_packing_specs.packing_algorithm", "dataset.packing_algorithm"),
    ("dataset.packed_sequence_specs.packed_sequence_size", "dataset.packed_sequence_size"),
    ("dataset.packed_sequence_specs.pad_seq_to_mult", "dataset.pad_seq_to_mult"),
    ("dataset.packed_sequence_specs.packing_algorithm", "dataset.packing_algorithm"),
    ("logger.save_dir", "logger.dir"),
    ("mixed_precision", "mixed_precision.precision"),
    ("peft", "peft.scheme"),
    ("peft.lora_A_init_method", "peft.lora_a_init_method"),
    ("peft.lora_B_init_method", "peft.lora_b_init_method"),
    ("device", "device.kind"),
    ("env_vars", "env.vars"),
];

/// The setting that a name stands for; the name itself when it is no alias.
pub fn canonical(key: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, setting)| setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::run::RunConfig;

    #[test]
    fn aliases_lead_to_settings_and_hide_none() {
        let config = RunConfig::default();
        for (alias, setting) in ALIASES {
            assert!(config.get(setting).is_some(), "{alias} leads to the unknown {setting}");
            assert!(config.get(alias).is_none(), "{alias} is a setting of its own");
        }
    }
}
