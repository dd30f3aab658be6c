//! What a model is: sizes, layer pattern, initialisation.

mod pattern;
mod presets;

pub use pattern::{LayerKind, format_pattern, parse_pattern};
pub use presets::{PRESETS, preset};

use crate::error::CoreError;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

/// Sizes of the Mamba-2 layers.
#[derive(Debug, Clone, PartialEq)]
pub struct MambaConfig {
    /// Number of heads.
    pub heads: usize,
    /// Channels of a head (P).
    pub head_dim: usize,
    /// State size (N).
    pub state: usize,
    /// Groups that share B and C (G); head h uses group h / (heads / groups).
    pub groups: usize,
    /// Taps of the causal convolution.
    pub conv_kernel: usize,
    /// Chunk length of the scan.
    pub chunk: usize,
    /// Lower bound of the time step; 0 (no clamp) in training, `time_step_min` to compare with Hugging Face.
    pub dt_min: f64,
    /// Range of the initial time step.
    pub dt_init: (f64, f64),
    /// Floor of the initial time step.
    pub dt_init_floor: f64,
}

impl MambaConfig {
    /// Inner channels: heads x head dim.
    pub const fn inner(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Channels of the convolution: x, B and C.
    pub const fn conv_channels(&self) -> usize {
        self.inner() + 2 * self.groups * self.state
    }

    /// Rows of `in_proj`: z, x, B, C and dt.
    pub const fn in_proj_rows(&self) -> usize {
        self.inner() + self.conv_channels() + self.heads
    }
}

/// Sizes of the attention layers.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionConfig {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; query head h reads head h / (heads / kv_heads).
    pub kv_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
}

/// Sizes and rules of the mixture-of-experts layers.
#[derive(Debug, Clone, PartialEq)]
pub struct MoeConfig {
    /// Number of routed experts.
    pub experts: usize,
    /// Experts per token.
    pub top_k: usize,
    /// Width of a routed expert.
    pub expert_width: usize,
    /// Width of the shared expert (all shared experts side by side).
    pub shared_width: usize,
    /// Number of shared experts that `shared_width` counts.
    pub shared_experts: usize,
    /// Factor on the routing weights.
    pub scale: f64,
    /// Whether the weights of the selected experts are normalised to sum to `scale`.
    pub normalize: bool,
}

/// The multi-token-prediction block: one physical block, applied `depth` times.
#[derive(Debug, Clone, PartialEq)]
pub struct MtpConfig {
    /// Layers of the block.
    pub layers: Vec<LayerKind>,
    /// How often the block is applied in training; 0 turns MTP off but keeps its parameters.
    pub depth: usize,
}

/// Largest depth of multi-token prediction: all heads go through one loss operation, whose operands are counted.
pub const MAX_MTP_DEPTH: usize = 8;

/// A member of the model family.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Vocabulary size (rows of the embedding and of the head).
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Layer kinds of the backbone.
    pub layers: Vec<LayerKind>,
    /// Attention sizes; required when the pattern has `*`.
    pub attention: Option<AttentionConfig>,
    /// Mamba-2 sizes; required when the pattern has `M`.
    pub mamba: Option<MambaConfig>,
    /// Mixture-of-experts sizes; required when the pattern has `E`.
    pub moe: Option<MoeConfig>,
    /// Width of the dense MLP layers; required when the pattern has `-`.
    pub mlp_width: Option<usize>,
    /// Multi-token prediction, if the model has the block.
    pub mtp: Option<MtpConfig>,
    /// Epsilon of every RMSNorm. It has no default (pitfall B60).
    pub norm_eps: f64,
    /// Standard deviation of the normal initialisation.
    pub init_std: f64,
    /// Longest context that the model's description names; nothing is computed from it.
    pub max_positions: usize,
}

fn refuse(key: &str, value: impl ToString, reason: &str) -> CoreError {
    CoreError::Config { key: key.to_string(), value: value.to_string(), reason: reason.to_string() }
}

impl ModelConfig {
    /// All layer kinds in order: the backbone, then the MTP block.
    pub fn all_layers(&self) -> impl Iterator<Item = LayerKind> + '_ {
        self.layers.iter().chain(self.mtp.iter().flat_map(|m| &m.layers)).copied()
    }

    /// Number of MTP applications in training.
    pub fn mtp_depth(&self) -> usize {
        self.mtp.as_ref().map_or(0, |m| m.depth)
    }

    /// The sizes of the Mamba-2 layers of a checked config that has one.
    pub fn mamba(&self) -> &MambaConfig {
        self.mamba.as_ref().expect("a checked config with `M` layers has Mamba sizes")
    }

    /// The sizes of the attention layers of a checked config that has one.
    pub fn attention(&self) -> &AttentionConfig {
        self.attention.as_ref().expect("a checked config with `*` layers has attention sizes")
    }

    /// The sizes of the MoE layers of a checked config that has one.
    pub fn moe(&self) -> &MoeConfig {
        self.moe.as_ref().expect("a checked config with `E` layers has MoE sizes")
    }

    /// Checks that every size is possible and that every kind of layer in the patterns has its sizes.
    ///
    /// # Errors
    /// `Config` naming the first setting that cannot work.
    pub fn check(&self) -> Result<(), CoreError> {
        let positive = |key: &str, value: usize| {
            if value == 0 { Err(refuse(key, value, "must be at least 1")) } else { Ok(()) }
        };
        positive("vocab_size", self.vocab)?;
        positive("hidden_size", self.hidden)?;
        positive("num_hidden_layers", self.layers.len())?;
        if !(self.norm_eps > 0.0 && self.norm_eps.is_finite()) {
            return Err(refuse("layer_norm_epsilon", self.norm_eps, "must be a positive number"));
        }
        if !(self.init_std > 0.0 && self.init_std.is_finite()) {
            return Err(refuse("init_method_std", self.init_std, "must be a positive number"));
        }
        let has = |kind| self.all_layers().any(|k| k == kind);
        let missing = |kind: LayerKind| {
            let reason = format!("the pattern has `{}` layers but their sizes are missing", kind.symbol());
            Err(refuse(kind.name(), "none", &reason))
        };
        match &self.mamba {
            None if has(LayerKind::Mamba) => return missing(LayerKind::Mamba),
            None => {}
            Some(m) => {
                positive("mamba_num_heads", m.heads)?;
                positive("mamba_head_dim", m.head_dim)?;
                positive("ssm_state_size", m.state)?;
                positive("n_groups", m.groups)?;
                positive("conv_kernel", m.conv_kernel)?;
                positive("chunk_size", m.chunk)?;
                if m.heads % m.groups != 0 {
                    return Err(refuse("n_groups", m.groups, &format!("must divide mamba_num_heads = {}", m.heads)));
                }
            }
        }
        match &self.attention {
            None if has(LayerKind::Attention) => return missing(LayerKind::Attention),
            None => {}
            Some(a) => {
                positive("num_attention_heads", a.heads)?;
                positive("num_key_value_heads", a.kv_heads)?;
                positive("head_dim", a.head_dim)?;
                if a.heads % a.kv_heads != 0 {
                    let reason = format!("must divide num_attention_heads = {}", a.heads);
                    return Err(refuse("num_key_value_heads", a.kv_heads, &reason));
                }
            }
        }
        match &self.moe {
            None if has(LayerKind::Moe) => return missing(LayerKind::Moe),
            None => {}
            Some(m) => {
                positive("n_routed_experts", m.experts)?;
                positive("num_experts_per_tok", m.top_k)?;
                positive("moe_intermediate_size", m.expert_width)?;
                if m.top_k > m.experts {
                    let reason = format!("cannot exceed n_routed_experts = {}", m.experts);
                    return Err(refuse("num_experts_per_tok", m.top_k, &reason));
                }
                if (m.shared_width == 0) != (m.shared_experts == 0) {
                    let reason = "moe_shared_expert_intermediate_size and n_shared_experts must be zero together";
                    return Err(refuse("moe_shared_expert_intermediate_size", m.shared_width, reason));
                }
            }
        }
        match self.mlp_width {
            None if has(LayerKind::Mlp) => return missing(LayerKind::Mlp),
            Some(width) => positive("intermediate_size", width)?,
            None => {}
        }
        if let Some(mtp) = &self.mtp {
            if mtp.layers.is_empty() {
                return Err(refuse("mtp_layers_block_type", "[]", "an MTP block needs at least one layer"));
            }
            if mtp.depth > MAX_MTP_DEPTH {
                let reason = format!("at most {MAX_MTP_DEPTH} applications of the block are supported");
                return Err(refuse("mtp_num_layers", mtp.depth, &reason));
            }
        }
        Ok(())
    }
}
