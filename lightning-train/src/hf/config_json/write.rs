//! Writing `config.json`: the public key set in the public order.

use lightning_core::config::{LayerKind, ModelConfig};
use serde_json::{Map, Value, json};

use super::HfConfig;

/// Version of transformers that loads what is written here (the reference values were checked with it).
const TRANSFORMERS_VERSION: &str = "5.24.0";

impl HfConfig {
    /// A description for a model that was trained here, with the public file's constants and special ids.
    pub fn for_model(model: &ModelConfig) -> Self {
        Self {
            dtype: "bfloat16".into(),
            initializer_range: 0.02,
            intermediate_size: model.mlp_width.or(model.moe.as_ref().map(|m| m.expert_width)).unwrap_or(0),
            bos_token_id: Some(1),
            eos_token_id: Some(2),
            pad_token_id: Some(0),
            transformers_version: Some(TRANSFORMERS_VERSION.into()),
            model: model.clone(),
        }
    }

    /// The public key set in the public order. Sizes of layer kinds that the model does not have are written as the
    /// public files have them: 0 experts, or the key left out.
    pub fn to_json(&self) -> Value {
        let m = &self.model;
        let names = |kinds: &[LayerKind]| kinds.iter().map(|k| k.name()).collect::<Vec<_>>();
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| {
            map.insert(key.into(), value);
        };
        put("architectures", json!(["NemotronHForCausalLM"]));
        put("model_type", json!("nemotron_h"));
        put("dtype", json!(self.dtype));
        if let Some(version) = &self.transformers_version {
            put("transformers_version", json!(version));
        }
        put("vocab_size", json!(m.vocab));
        put("hidden_size", json!(m.hidden));
        put("num_hidden_layers", json!(m.layers.len()));
        put("layers_block_type", json!(names(&m.layers)));
        if let Some(a) = &m.attention {
            put("num_attention_heads", json!(a.heads));
            put("num_key_value_heads", json!(a.kv_heads));
            put("head_dim", json!(a.head_dim));
        }
        put("attention_bias", json!(false));
        put("attention_dropout", json!(0.0));
        put("sliding_window", Value::Null);
        put("max_position_embeddings", json!(m.max_positions));
        put("rope_theta", json!(10000));
        put("partial_rotary_factor", json!(1.0));
        if let Some(s) = &m.mamba {
            put("mamba_num_heads", json!(s.heads));
            put("mamba_head_dim", json!(s.head_dim));
            put("ssm_state_size", json!(s.state));
            put("n_groups", json!(s.groups));
            put("conv_kernel", json!(s.conv_kernel));
            put("chunk_size", json!(s.chunk));
        }
        put("expand", json!(2));
        put("mamba_hidden_act", json!("silu"));
        put("mamba_proj_bias", json!(false));
        put("use_bias", json!(false));
        put("use_conv_bias", json!(true));
        put("use_mamba_kernels", json!(true));
        put("mamba_ssm_cache_dtype", json!("float32"));
        if let Some(s) = &m.mamba {
            put("time_step_min", json!(s.dt_init.0));
            put("time_step_max", json!(s.dt_init.1));
            put("time_step_floor", json!(s.dt_init_floor));
        }
        if let Some(e) = &m.moe {
            put("n_routed_experts", json!(e.experts));
            put("num_experts_per_tok", json!(e.top_k));
            put("n_shared_experts", json!(e.shared_experts));
            put("moe_intermediate_size", json!(e.expert_width));
            put("moe_shared_expert_intermediate_size", json!(e.shared_width));
            put("moe_latent_size", Value::Null);
            put("moe_shared_expert_overlap", json!(true));
            put("n_group", json!(1));
            put("topk_group", json!(1));
            put("norm_topk_prob", json!(e.normalize));
            put("routed_scaling_factor", json!(e.scale));
        }
        put("intermediate_size", json!(m.mlp_width.unwrap_or(self.intermediate_size)));
        put("mlp_hidden_act", json!("relu2"));
        put("mlp_bias", json!(false));
        put("num_nextn_predict_layers", json!(usize::from(m.mtp.is_some())));
        if let Some(mtp) = &m.mtp {
            put("mtp_layers_block_type", json!(names(&mtp.layers)));
        }
        put("initializer_range", json!(self.initializer_range));
        put("layer_norm_epsilon", json!(m.norm_eps));
        put("norm_eps", json!(m.norm_eps));
        put("residual_in_fp32", json!(false));
        put("rescale_prenorm_residual", json!(true));
        put("hidden_dropout", json!(0.0));
        put("tie_word_embeddings", json!(false));
        put("use_cache", json!(true));
        put("num_logits_to_keep", json!(1));
        put("bos_token_id", json!(self.bos_token_id));
        put("eos_token_id", json!(self.eos_token_id));
        put("pad_token_id", json!(self.pad_token_id));
        Value::Object(map)
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        format!("{:#}\n", self.to_json())
    }
}
