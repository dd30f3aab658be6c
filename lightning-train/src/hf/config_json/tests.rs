use super::*;
use lightning_core::config::{PRESETS, format_pattern, preset};
use serde_json::json;

fn golden() -> (String, String) {
    let folder = std::env::var("LIGHTNING_GOLDEN_MODEL")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/model").into());
    let path = format!("{folder}/tiny/config.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    (path, text)
}

fn lightning() -> Value {
    HfConfig::for_model(&preset("nemotron_3_5_lightning").unwrap()).to_json()
}

fn read(value: &Value) -> Result<HfConfig, HfConfigError> {
    HfConfig::parse("folder/config.json", &value.to_string())
}

fn with(key: &str, value: Value) -> Value {
    let mut json = lightning();
    json[key] = value;
    json
}

#[test]
fn golden_model_config_survives_a_round_trip() {
    let (path, text) = golden();
    let config = HfConfig::read(Path::new(&path)).unwrap();
    let original: Value = serde_json::from_str(&text).unwrap();
    let written = config.to_json();
    let keys = |v: &Value| {
        let mut keys: Vec<String> = v.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&written), keys(&original));
    assert_eq!(written, original);
    assert_eq!(HfConfig::parse("again", &config.to_text()).unwrap(), config);
    // Every size comes from the file.
    assert_eq!(original["hidden_size"], config.model.hidden);
    assert_eq!(original["num_hidden_layers"], config.model.layers.len());
    assert_eq!(original["mamba_num_heads"], config.model.mamba().heads);
}

#[test]
fn every_preset_survives_a_round_trip() {
    for (name, _) in PRESETS {
        let model = preset(name).unwrap();
        let back = read(&HfConfig::for_model(&model).to_json()).unwrap_or_else(|e| panic!("{name}: {e}"));
        // The initialisation is training's, not the file's.
        let expected = ModelConfig { init_std: TRAINING_INIT_STD, ..model };
        assert_eq!(back.model, expected, "{name}");
    }
}

#[test]
fn the_public_key_set_is_written() {
    let json = lightning();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let public = "architectures model_type dtype transformers_version vocab_size hidden_size num_hidden_layers \
        layers_block_type num_attention_heads num_key_value_heads head_dim attention_bias attention_dropout sliding_window \
        max_position_embeddings rope_theta partial_rotary_factor mamba_num_heads mamba_head_dim ssm_state_size n_groups \
        conv_kernel chunk_size expand mamba_hidden_act mamba_proj_bias use_bias use_conv_bias use_mamba_kernels \
        mamba_ssm_cache_dtype time_step_min time_step_max time_step_floor n_routed_experts num_experts_per_tok \
        n_shared_experts moe_intermediate_size moe_shared_expert_intermediate_size moe_latent_size \
        moe_shared_expert_overlap n_group topk_group norm_topk_prob routed_scaling_factor intermediate_size mlp_hidden_act \
        mlp_bias num_nextn_predict_layers mtp_layers_block_type initializer_range layer_norm_epsilon norm_eps \
        residual_in_fp32 rescale_prenorm_residual hidden_dropout tie_word_embeddings use_cache num_logits_to_keep \
        bos_token_id eos_token_id pad_token_id";
    assert_eq!(keys, public.split_whitespace().collect::<Vec<_>>());
    assert_eq!(json["num_nextn_predict_layers"], 1);
    assert_eq!(json["intermediate_size"], 1856);
    assert_eq!(json["moe_latent_size"], Value::Null);
}

#[test]
fn every_spelling_of_the_layers_is_read() {
    let expected = read(&lightning()).unwrap();
    let model = &expected.model;
    let mut saved_by_transformers = lightning();
    saved_by_transformers["layers_block_type"] = model
        .layers
        .iter()
        .map(|kind| match kind {
            LayerKind::Mamba => "linear_attention",
            LayerKind::Attention => "full_attention",
            other => other.name(),
        })
        .collect();
    saved_by_transformers["mtp_layers_block_type"] = json!(["full_attention", "moe"]);
    let mut pattern = lightning();
    let map = pattern.as_object_mut().unwrap();
    map.remove("layers_block_type");
    map.remove("mtp_layers_block_type");
    map.insert("hybrid_override_pattern".into(), json!(format_pattern(&model.layers)));
    map.insert("mtp_hybrid_override_pattern".into(), json!("*E"));
    let mut older = lightning();
    let map = older.as_object_mut().unwrap();
    map.remove("norm_eps");
    map.remove("dtype");
    map.insert("torch_dtype".into(), json!("bfloat16"));
    map.insert("eos_token_id".into(), json!([2, 11]));
    // A Megatron export writes the depth where the number of blocks belongs.
    map.insert("num_nextn_predict_layers".into(), json!(2));
    for (name, json) in [("transformers 5", saved_by_transformers), ("pattern", pattern), ("older", older)] {
        assert_eq!(read(&json).unwrap_or_else(|e| panic!("{name}: {e}")), expected, "{name}");
    }
    // Without blocks there is no MTP, whatever else the file says.
    assert_eq!(read(&with("num_nextn_predict_layers", json!(0))).unwrap().model.mtp, None);
}

#[test]
fn b12_separators_in_patterns_are_refused_with_their_position() {
    let mut json = lightning();
    json.as_object_mut().unwrap().remove("layers_block_type");
    for (pattern, position) in [("M|E*M/E", "position 1"), ("ME*E/*E", "position 4"), ("MEx", "position 2")] {
        json["hybrid_override_pattern"] = json!(pattern);
        let error = read(&json).unwrap_err();
        assert_eq!(error.key.as_deref(), Some("hybrid_override_pattern"));
        assert!(error.to_string().contains(position), "{error}");
    }
}

#[test]
fn b60_epsilon_has_no_default_and_one_value() {
    let mut json = lightning();
    let map = json.as_object_mut().unwrap();
    map.remove("layer_norm_epsilon");
    assert_eq!(read(&json).unwrap().model.norm_eps, 1e-5);
    json.as_object_mut().unwrap().remove("norm_eps");
    assert_eq!(read(&json).unwrap_err().key.as_deref(), Some("layer_norm_epsilon"));
    let error = read(&with("norm_eps", json!(1e-6))).unwrap_err().to_string();
    assert!(error.contains("norm_eps = 0.000001") && error.contains("must be equal"), "{error}");
    assert!(read(&with("layer_norm_epsilon", json!(0.0))).is_err());
}

#[test]
fn missing_fields_are_named() {
    let needed = [
        "model_type",
        "vocab_size",
        "hidden_size",
        "layers_block_type",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "mamba_num_heads",
        "mamba_head_dim",
        "ssm_state_size",
        "n_groups",
        "conv_kernel",
        "n_routed_experts",
        "num_experts_per_tok",
        "n_shared_experts",
        "moe_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "norm_topk_prob",
        "routed_scaling_factor",
    ];
    for key in needed {
        let mut json = lightning();
        json.as_object_mut().unwrap().remove(key);
        let error = read(&json).unwrap_err();
        assert_eq!((error.key.as_deref(), error.value.as_str()), (Some(key), "missing"), "{error}");
        assert!(error.to_string().starts_with("folder/config.json: "), "{error}");
    }
}

#[test]
fn wrong_types_and_impossible_shapes_are_named() {
    let cases = [
        ("hidden_size", json!("64")),
        ("hidden_size", json!(64.5)),
        ("hidden_size", json!(-1)),
        ("hidden_size", json!(0)),
        ("hidden_size", json!(1u64 << 40)),
        ("vocab_size", json!(0)),
        ("num_hidden_layers", json!(51)),
        ("layers_block_type", json!("MEM")),
        ("layers_block_type[1]", json!(["mamba", "mlp2"])),
        ("n_groups", json!(7)),
        ("num_key_value_heads", json!(3)),
        ("num_experts_per_tok", json!(129)),
        ("moe_shared_expert_intermediate_size", json!(0)),
        ("norm_topk_prob", json!(1)),
        ("routed_scaling_factor", json!("2.5")),
        ("eos_token_id", json!("</s>")),
        ("dtype", json!(16)),
        ("num_nextn_predict_layers", json!(true)),
        ("model_type", json!("llama")),
        ("moe_latent_size", json!(1024)),
        ("tie_word_embeddings", json!(true)),
        ("use_bias", json!(true)),
        ("use_conv_bias", json!(false)),
        ("mlp_hidden_act", json!("silu")),
        ("n_group", json!(8)),
        ("attention_dropout", json!(0.1)),
        ("sliding_window", json!(4096)),
    ];
    for (key, value) in cases {
        let error = read(&with(key.split('[').next().unwrap(), value.clone())).expect_err(key);
        assert_eq!(error.key.as_deref(), Some(key), "{error}");
        assert!(!error.reason.is_empty() && error.to_string().contains("folder/config.json"), "{error}");
        assert_eq!(Failure::from(error).exit, Exit::Invalid);
    }
    let mut json = lightning();
    json.as_object_mut().unwrap().remove("mtp_layers_block_type");
    assert_eq!(read(&json).unwrap_err().key.as_deref(), Some("num_nextn_predict_layers"));
}

#[test]
fn files_that_are_no_config_are_refused() {
    for text in ["", "{", "[]", "3", "null", "{\"model_type\": \"nemotron_h\"", "\u{0}", "{}"] {
        assert!(HfConfig::parse("c.json", text).unwrap_err().to_string().starts_with("c.json: "), "{text:?}");
    }
    let error = HfConfig::read(Path::new("/nonexistent/config.json")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/config.json: cannot be read"), "{error}");
}
