//! `config.json` of the family: reading every spelling, writing the public one (model.md §9.4).
//!
//! | meaning        | spellings that are read                                                                      |
//! |----------------|----------------------------------------------------------------------------------------------|
//! | backbone       | `layers_block_type` (mamba or linear_attention, attention or full_attention, moe, mlp), else `hybrid_override_pattern` |
//! | MTP block      | `mtp_layers_block_type`, else `mtp_hybrid_override_pattern`                                   |
//! | norm epsilon   | `layer_norm_epsilon`, `norm_eps` (equal when both are there)                                   |
//! | element type   | `dtype`, else `torch_dtype`                                                                   |
//!
//! `num_nextn_predict_layers` counts *physical* MTP blocks: 0 or 1 in every public file. A Megatron export may write the
//! depth instead; the block is one in any case, and the training depth is a training option ([`DEFAULT_MTP_DEPTH`]).

mod keys;
mod write;

use std::fmt;
use std::path::Path;

use lightning_core::CoreError;
use lightning_core::config::{AttentionConfig, LayerKind, MambaConfig, ModelConfig, MoeConfig, MtpConfig};
use serde_json::Value;

use crate::cli::{Exit, Failure};
use keys::{Keys, Read};

/// How often the MTP block is applied in training unless a recipe says otherwise.
pub const DEFAULT_MTP_DEPTH: usize = 2;

/// The standard deviation that training initialises with; `initializer_range` of the public file (0.02) is not it.
const TRAINING_INIT_STD: f64 = 0.0173;

/// What `config.json` says.
#[derive(Debug, Clone, PartialEq)]
pub struct HfConfig {
    /// The model. `init_std` is the training's (0.0173), the clamp of the time step is 0.
    pub model: ModelConfig,
    /// Element type that the file names.
    pub dtype: String,
    /// `initializer_range` of the file; kept for writing it back.
    pub initializer_range: f64,
    /// `intermediate_size` of the file; without dense layers nothing is computed from it.
    pub intermediate_size: usize,
    /// Beginning-of-text id, if any.
    pub bos_token_id: Option<u64>,
    /// End-of-text id, if any; the first when the file has a list.
    pub eos_token_id: Option<u64>,
    /// Padding id, if any.
    pub pad_token_id: Option<u64>,
    /// Version of transformers that the file names.
    pub transformers_version: Option<String>,
}

/// A `config.json` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HfConfigError {
    /// Path of the file.
    pub file: String,
    /// Key, or nothing when the whole file is wrong.
    pub key: Option<String>,
    /// Value found there, or "missing".
    pub value: String,
    /// Why it is refused and what to try.
    pub reason: String,
}

impl fmt::Display for HfConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{}: {key} = {}: {}", self.file, self.value, self.reason),
            None => write!(f, "{}: {}: {}", self.file, self.value, self.reason),
        }
    }
}

impl std::error::Error for HfConfigError {}

impl From<HfConfigError> for Failure {
    fn from(error: HfConfigError) -> Self {
        Self { exit: Exit::Invalid, message: error.to_string() }
    }
}

impl HfConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// Unreadable file, text that is not JSON, a missing field, a wrong type, an impossible shape, or a model that is
    /// not of the supported family; each names the file, the key and the value.
    pub fn read(path: &Path) -> Result<Self, HfConfigError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| HfConfigError {
            file: file.clone(),
            key: None,
            value: "cannot be read".into(),
            reason: format!("{e}; give the folder of a Hugging Face checkpoint"),
        })?;
        Self::parse(&file, &text)
    }

    /// Reads the text of a file; `file` is its name in messages.
    ///
    /// # Errors
    /// As [`HfConfig::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, HfConfigError> {
        let whole =
            |value: &str, reason: String| HfConfigError { file: file.into(), key: None, value: value.into(), reason };
        let value: Value = serde_json::from_str(text).map_err(|e| whole("not JSON", e.to_string()))?;
        let Value::Object(map) = &value else {
            return Err(whole("not a JSON object", "expected the config.json of a checkpoint".into()));
        };
        let keys = Keys { file, map };
        keys.refuse_other_models()?;
        let Some((layers, layers_key)) = keys.layers("layers_block_type", "hybrid_override_pattern")? else {
            return keys.error("layers_block_type", "missing", "the layers are needed, or hybrid_override_pattern");
        };
        let count = keys.size_or("num_hidden_layers", layers.len())?;
        if count != layers.len() {
            let reason = format!("{layers_key} has {} layers; they must agree", layers.len());
            return keys.error("num_hidden_layers", count.to_string(), reason);
        }
        let mtp = read_mtp(&keys)?;
        let all: Vec<LayerKind> = layers.iter().chain(mtp.iter().flat_map(|m| &m.layers)).copied().collect();
        let has = |kind: LayerKind| all.contains(&kind);
        let attention = if has(LayerKind::Attention) { Some(read_attention(&keys)?) } else { None };
        let mamba = if has(LayerKind::Mamba) { Some(read_mamba(&keys)?) } else { None };
        let moe = if has(LayerKind::Moe) { Some(read_moe(&keys)?) } else { None };
        let mlp_width = if has(LayerKind::Mlp) { Some(keys.size("intermediate_size")?) } else { None };
        let default_width = moe.as_ref().map_or(0, |m| m.expert_width);
        let model = ModelConfig {
            vocab: keys.size("vocab_size")?,
            hidden: keys.size("hidden_size")?,
            layers,
            attention,
            mamba,
            moe,
            mlp_width,
            mtp,
            norm_eps: keys.norm_eps()?,
            init_std: TRAINING_INIT_STD,
            max_positions: keys.size_or("max_position_embeddings", 0)?,
        };
        if let Err(error) = model.check() {
            return match error {
                CoreError::Config { key, value, reason } => keys.error(&key, value, reason),
                other => Err(whole("impossible model", other.to_string())),
            };
        }
        let dtype = match keys.find("dtype") {
            Some(_) => keys.text_or("dtype", "")?,
            None => keys.text_or("torch_dtype", "bfloat16")?,
        };
        Ok(Self {
            dtype,
            initializer_range: keys.number_or("initializer_range", 0.02)?,
            intermediate_size: keys.size_or("intermediate_size", default_width)?,
            bos_token_id: keys.token("bos_token_id")?,
            eos_token_id: keys.token("eos_token_id")?,
            pad_token_id: keys.token("pad_token_id")?,
            transformers_version: match keys.find("transformers_version") {
                None => None,
                Some(_) => Some(keys.text_or("transformers_version", "")?),
            },
            model,
        })
    }
}

/// The text of a `config.json` for a model that was trained here; see [`HfConfig::for_model`].
pub fn to_text(model: &ModelConfig) -> String {
    HfConfig::for_model(model).to_text()
}

fn read_mtp(keys: &Keys<'_>) -> Read<Option<MtpConfig>> {
    let blocks = keys.size_or("num_nextn_predict_layers", 0)?;
    let layers = keys.layers("mtp_layers_block_type", "mtp_hybrid_override_pattern")?;
    match (blocks, layers) {
        (0, _) => Ok(None),
        (_, Some((layers, _))) if !layers.is_empty() => Ok(Some(MtpConfig { layers, depth: DEFAULT_MTP_DEPTH })),
        (n, _) => {
            let reason = "the layers of the MTP block are needed: mtp_layers_block_type or mtp_hybrid_override_pattern";
            keys.error("num_nextn_predict_layers", n.to_string(), reason)
        }
    }
}

fn read_attention(keys: &Keys<'_>) -> Read<AttentionConfig> {
    Ok(AttentionConfig {
        heads: keys.size("num_attention_heads")?,
        kv_heads: keys.size("num_key_value_heads")?,
        head_dim: keys.size("head_dim")?,
    })
}

fn read_mamba(keys: &Keys<'_>) -> Read<MambaConfig> {
    Ok(MambaConfig {
        heads: keys.size("mamba_num_heads")?,
        head_dim: keys.size("mamba_head_dim")?,
        state: keys.size("ssm_state_size")?,
        groups: keys.size("n_groups")?,
        conv_kernel: keys.size("conv_kernel")?,
        chunk: keys.size_or("chunk_size", 128)?,
        dt_min: 0.0,
        dt_init: (keys.number_or("time_step_min", 1e-3)?, keys.number_or("time_step_max", 0.1)?),
        dt_init_floor: keys.number_or("time_step_floor", 1e-4)?,
    })
}

fn read_moe(keys: &Keys<'_>) -> Read<MoeConfig> {
    let shared_experts = keys.size("n_shared_experts")?;
    Ok(MoeConfig {
        experts: keys.size("n_routed_experts")?,
        top_k: keys.size("num_experts_per_tok")?,
        expert_width: keys.size("moe_intermediate_size")?,
        shared_width: if shared_experts == 0 { 0 } else { keys.size("moe_shared_expert_intermediate_size")? },
        shared_experts,
        scale: keys.number("routed_scaling_factor")?,
        normalize: keys.flag("norm_topk_prob")?,
    })
}

#[cfg(test)]
mod tests;
