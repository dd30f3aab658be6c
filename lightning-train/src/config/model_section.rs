//! The `model` section: what the model is, how it is split over ranks, what is recomputed.

use lightning_core::CoreError;
use lightning_core::config::{
    AttentionConfig, LayerKind, MambaConfig, ModelConfig, MoeConfig, MtpConfig, format_pattern, parse_pattern,
};

use super::choices::*;
use super::error::ConfigError;
use super::setting::{Section, section};
use super::value::Value;

section! {
    /// The model, its parallel layout and its execution, under Megatron's names. Hugging Face names are aliases
    /// ([`super::aliases`]).
    pub struct ModelSection {
        /// Rows of embedding and head. The tokenizer's size, padded to a multiple of `make_vocab_size_divisible_by`.
        vocab_size: usize = 4096,
        /// Vocabulary padding: rows are a multiple of this times the tensor-parallel size.
        make_vocab_size_divisible_by: usize = 128,
        /// Width of the residual stream.
        hidden_size: usize = 256,
        /// Number of backbone layers; null takes the length of the pattern, another number than that is refused.
        num_layers: Option<usize> = None,
        /// Backbone layers, one character each: M Mamba-2, E MoE, * attention, - dense MLP.
        hybrid_layer_pattern: String = "MEM*E".into(),
        /// Query heads of attention layers.
        num_attention_heads: usize = 8,
        /// Key/value heads.
        num_query_groups: usize = 2,
        /// Channels of an attention head.
        kv_channels: usize = 32,
        /// Width of dense MLP layers; recorded only when the pattern has no `-`.
        ffn_hidden_size: usize = 256,
        /// Mamba-2 heads.
        mamba_num_heads: usize = 16,
        /// Channels of a Mamba-2 head.
        mamba_head_dim: usize = 32,
        /// State size of Mamba-2.
        mamba_state_dim: usize = 64,
        /// Groups of Mamba-2 that share B and C.
        mamba_num_groups: usize = 4,
        /// Taps of the causal convolution.
        mamba_conv_kernel: usize = 4,
        /// Chunk length of the state-space scan; any value gives the same result.
        mamba_chunk_size: usize = 128,
        /// Lower clamp of the time step; 0 trains as the reference does, `time_step_min` compares with Hugging Face.
        mamba_dt_min: f64 = 0.0,
        /// Smallest initial time step.
        time_step_min: f64 = 1e-3,
        /// Largest initial time step.
        time_step_max: f64 = 0.1,
        /// Floor of the initial time step.
        time_step_floor: f64 = 1e-4,
        /// Routed experts of a MoE layer.
        num_moe_experts: usize = 16,
        /// Experts per token.
        moe_router_topk: usize = 2,
        /// Width of a routed expert.
        moe_ffn_hidden_size: usize = 256,
        /// Width of the shared expert; 0 for none.
        moe_shared_expert_intermediate_size: usize = 512,
        /// Number of shared experts that the width counts.
        moe_num_shared_experts: usize = 1,
        /// Factor on the routing weights.
        moe_router_topk_scaling_factor: f64 = 2.5,
        /// Whether routing weights are normalised over the selected experts.
        moe_router_norm_topk_prob: bool = true,
        /// Expert groups of group-limited routing; only 1 is supported.
        moe_router_num_groups: usize = 1,
        /// Groups a token may use; only 1 is supported.
        moe_router_group_topk: usize = 1,
        /// Whether selection adds the expert bias.
        moe_router_enable_expert_bias: bool = true,
        /// Step of the expert bias, once per global batch.
        moe_router_bias_update_rate: f64 = 1e-3,
        /// Kind of auxiliary balancing loss.
        moe_router_load_balancing_type: LoadBalancing = LoadBalancing::SeqAuxLoss,
        /// Coefficient of the auxiliary loss.
        moe_aux_loss_coeff: f64 = 1e-4,
        /// Coefficient of the router z-loss; null and 0 are off, others are refused.
        moe_z_loss_coeff: Option<f64> = None,
        /// Element type of the router; always fp32.
        moe_router_dtype: DType = DType::F32,
        /// Replace router logits by noise, so that experts are balanced (benchmarks).
        moe_router_force_load_balancing: bool = false,
        /// Latent width of routed experts; refused unless null.
        moe_latent_size: Option<usize> = None,
        /// Capacity factor that drops tokens; refused unless null, nothing is ever dropped.
        moe_expert_capacity_factor: Option<f64> = None,
        /// Dispatcher between expert-parallel ranks.
        moe_token_dispatcher_type: TokenDispatcher = TokenDispatcher::AllToAll,
        /// Backend of the `flex` dispatcher.
        moe_flex_dispatcher_backend: Option<FlexBackend> = None,
        /// Multiprocessors that HybridEP may use.
        moe_hybridep_num_sms: Option<usize> = None,
        /// Multiprocessors that the flex dispatcher may use.
        moe_flex_dispatcher_num_sms: Option<usize> = None,
        /// Overlap the shared expert with the exchange of tokens.
        moe_shared_expert_overlap: bool = false,
        /// One kernel for all experts of a rank.
        moe_grouped_gemm: bool = true,
        /// Fused permutation of tokens.
        moe_permute_fusion: bool = true,
        /// Permutation inside the dispatcher.
        moe_permute_fusion_into_hybridep: bool = false,
        /// Fused router.
        moe_router_fusion: bool = false,
        /// Pad expert token groups for FP8.
        moe_router_padding_for_fp8: bool = false,
        /// MTP depths in training; 0 keeps the block's parameters and trains without it, null has no block.
        mtp_num_layers: Option<usize> = Some(2),
        /// Layers of the one physical MTP block.
        mtp_hybrid_override_pattern: Option<String> = Some("*E".into()),
        /// Apply the one block at every depth; false is refused for more than one depth.
        mtp_use_repeated_layer: bool = true,
        /// Factor of the MTP losses, shared by the depths.
        mtp_loss_scaling_factor: f64 = 0.3,
        /// Keep the MTP block in bf16 when the backbone runs in lower precision.
        keep_mtp_spec_in_bf16: bool = true,
        /// Epsilon of every norm.
        layernorm_epsilon: f64 = 1e-5,
        /// Standard deviation of the normal initialisation.
        init_method_std: f64 = 0.02,
        /// Longest context in the model's description; nothing is computed from it.
        max_position_embeddings: usize = 8192,
        /// Dropout; only 0 is supported.
        hidden_dropout: f64 = 0.0,
        /// Dropout of attention weights; only 0 is supported.
        attention_dropout: f64 = 0.0,
        /// Tokens per sample.
        seq_length: usize = 512,
        /// Divide by the tokens of the whole global batch instead of averaging micro-batch means (recipes.md §1.5).
        calculate_per_token_loss: bool = false,
        /// Ranks that share every weight matrix.
        tensor_model_parallel_size: usize = 1,
        /// Ranks that hold consecutive layers.
        pipeline_model_parallel_size: usize = 1,
        /// Pieces of a pipeline rank.
        virtual_pipeline_model_parallel_size: Option<usize> = None,
        /// Layers per pipeline stage.
        pipeline_model_parallel_layout: Option<String> = None,
        /// Ranks that share a sequence.
        context_parallel_size: usize = 1,
        /// Exchange between context-parallel ranks.
        cp_comm_type: Option<CpCommType> = None,
        /// Ranks that share the experts.
        expert_model_parallel_size: usize = 1,
        /// Ranks that share an expert's matrices; null is the tensor-parallel size.
        expert_tensor_parallel_size: Option<usize> = Some(1),
        /// Split norms and residuals over the tensor-parallel ranks.
        sequence_parallel: bool = false,
        /// What is recomputed: null nothing, `selective` the modules, `full` whole layers.
        recompute_granularity: Option<RecomputeGranularity> = None,
        /// Regions of selective recomputation.
        recompute_modules: Option<Vec<RecomputeModule>> = None,
        /// Choice of layers for full recomputation.
        recompute_method: Option<RecomputeMethod> = None,
        /// Layers per group for full recomputation.
        recompute_num_layers: Option<usize> = None,
        /// Capture of steps into CUDA graphs.
        cuda_graph_impl: CudaGraphImpl = CudaGraphImpl::None,
        /// Parts that are captured.
        cuda_graph_scope: Vec<CudaGraphModule> = Vec::new(),
        /// Steps before the capture.
        cuda_graph_warmup_steps: usize = 3,
        /// Random numbers that graphs can replay.
        use_te_rng_tracker: bool = false,
        /// Kernel set of the public recipes; recorded.
        transformer_impl: String = "transformer_engine".into(),
        /// Attention kernels of the public recipes; recorded.
        attention_backend: String = "fused".into(),
        /// Fused cross entropy; false materialises fp32 logits.
        cross_entropy_loss_fusion: bool = true,
        /// Kind of the fused cross entropy.
        cross_entropy_fusion_impl: CrossEntropyImpl = CrossEntropyImpl::Native,
        /// Rotary fusion of the public recipes; the model has no positions, so it does nothing.
        apply_rope_fusion: bool = false,
        /// Squared ReLU fused with the routing weight.
        use_fused_weighted_squared_relu: bool = true,
        /// Fused grouped MLP kernel.
        use_transformer_engine_op_fuser: bool = false,
        /// First and last layers in bf16 under FP8 and FP4.
        first_last_layers_bf16: bool = false,
        /// Move activations to the host.
        fine_grained_activation_offloading: bool = false,
        /// Which activations move.
        offload_modules: Option<Vec<String>> = None,
        /// Share of the activations that moves.
        activation_offload_fraction: f64 = 1.0,
        /// Begin to move only after graphs are captured.
        delay_offload_until_cuda_graph: bool = false,
        /// Create parameters without memory first (FSDP).
        init_model_with_meta_device: bool = false,
        /// Hugging Face name of the model that the recipe is about.
        hf_model_id: Option<String> = None,
        /// Its revision.
        hf_model_revision: Option<String> = None,
    }
}

impl ModelSection {
    /// The model itself, checked.
    ///
    /// # Errors
    /// The first setting that cannot work, by name.
    pub fn to_model_config(&self) -> Result<ModelConfig, ConfigError> {
        self.refuse_unsupported()?;
        let layers = layers_of("model.hybrid_layer_pattern", &self.hybrid_layer_pattern)?;
        if let Some(n) = self.num_layers.filter(|n| *n != layers.len()) {
            let reason =
                format!("model.hybrid_layer_pattern has {} layers; give both or only the pattern", layers.len());
            return Err(ConfigError::invalid("model.num_layers", n, reason));
        }
        let mtp = match (&self.mtp_hybrid_override_pattern, self.mtp_num_layers) {
            (Some(pattern), Some(depth)) => {
                let layers = layers_of("model.mtp_hybrid_override_pattern", pattern)?;
                Some(MtpConfig { layers, depth })
            }
            (None, Some(depth)) if depth > 0 => {
                let reason = "the MTP block needs model.mtp_hybrid_override_pattern, for example \"*E\"";
                return Err(ConfigError::invalid("model.mtp_num_layers", depth, reason));
            }
            _ => None,
        };
        let all: Vec<LayerKind> = layers.iter().chain(mtp.iter().flat_map(|m| &m.layers)).copied().collect();
        let has = |kind: LayerKind| all.contains(&kind);
        let config = ModelConfig {
            vocab: self.vocab_size,
            hidden: self.hidden_size,
            attention: has(LayerKind::Attention).then_some(AttentionConfig {
                heads: self.num_attention_heads,
                kv_heads: self.num_query_groups,
                head_dim: self.kv_channels,
            }),
            mamba: has(LayerKind::Mamba).then_some(MambaConfig {
                heads: self.mamba_num_heads,
                head_dim: self.mamba_head_dim,
                state: self.mamba_state_dim,
                groups: self.mamba_num_groups,
                conv_kernel: self.mamba_conv_kernel,
                chunk: self.mamba_chunk_size,
                dt_min: self.mamba_dt_min,
                dt_init: (self.time_step_min, self.time_step_max),
                dt_init_floor: self.time_step_floor,
            }),
            moe: has(LayerKind::Moe).then_some(MoeConfig {
                experts: self.num_moe_experts,
                top_k: self.moe_router_topk,
                expert_width: self.moe_ffn_hidden_size,
                shared_width: self.moe_shared_expert_intermediate_size,
                shared_experts: self.moe_num_shared_experts,
                scale: self.moe_router_topk_scaling_factor,
                normalize: self.moe_router_norm_topk_prob,
            }),
            mlp_width: has(LayerKind::Mlp).then_some(self.ffn_hidden_size),
            mtp,
            norm_eps: self.layernorm_epsilon,
            init_std: self.init_method_std,
            max_positions: self.max_position_embeddings,
            layers,
        };
        config.check().map_err(from_core)?;
        Ok(config)
    }

    /// Sets every setting that [`ModelConfig`] knows; settings of layer kinds that the model does not have stay.
    pub fn set_model_config(&mut self, config: &ModelConfig) {
        self.vocab_size = config.vocab;
        self.hidden_size = config.hidden;
        self.num_layers = Some(config.layers.len());
        self.hybrid_layer_pattern = format_pattern(&config.layers);
        if let Some(a) = &config.attention {
            self.num_attention_heads = a.heads;
            self.num_query_groups = a.kv_heads;
            self.kv_channels = a.head_dim;
        }
        if let Some(m) = &config.mamba {
            self.mamba_num_heads = m.heads;
            self.mamba_head_dim = m.head_dim;
            self.mamba_state_dim = m.state;
            self.mamba_num_groups = m.groups;
            self.mamba_conv_kernel = m.conv_kernel;
            self.mamba_chunk_size = m.chunk;
            self.mamba_dt_min = m.dt_min;
            (self.time_step_min, self.time_step_max) = m.dt_init;
            self.time_step_floor = m.dt_init_floor;
        }
        if let Some(m) = &config.moe {
            self.num_moe_experts = m.experts;
            self.moe_router_topk = m.top_k;
            self.moe_ffn_hidden_size = m.expert_width;
            self.moe_shared_expert_intermediate_size = m.shared_width;
            self.moe_num_shared_experts = m.shared_experts;
            self.moe_router_topk_scaling_factor = m.scale;
            self.moe_router_norm_topk_prob = m.normalize;
        }
        if let Some(width) = config.mlp_width {
            self.ffn_hidden_size = width;
        }
        self.mtp_num_layers = config.mtp.as_ref().map(|m| m.depth);
        self.mtp_hybrid_override_pattern = config.mtp.as_ref().map(|m| format_pattern(&m.layers));
        self.layernorm_epsilon = config.norm_eps;
        self.init_method_std = config.init_std;
        self.max_position_embeddings = config.max_positions;
    }

    /// Settings whose other values this program does not have.
    fn refuse_unsupported(&self) -> Result<(), ConfigError> {
        for field in Self::fields() {
            // Far above any model, and products of two sizes stay inside 64 bits.
            if let Some(Value::Int(size)) = self.get(field.name)
                && size > 1 << 24
            {
                return Err(ConfigError::invalid(format!("model.{}", field.name), size, "must not exceed 2^24"));
            }
        }
        let refuse =
            |key: &str, value: String, reason: &str| Err(ConfigError::invalid(format!("model.{key}"), value, reason));
        if let Some(size) = self.moe_latent_size {
            return refuse(
                "moe_latent_size",
                size.to_string(),
                "latent MoE (Super, Ultra) is not supported; set it to null",
            );
        }
        if let Some(factor) = self.moe_expert_capacity_factor {
            return refuse(
                "moe_expert_capacity_factor",
                factor.to_string(),
                "tokens are never dropped; set it to null",
            );
        }
        if let Some(z) = self.moe_z_loss_coeff.filter(|z| *z != 0.0) {
            return refuse("moe_z_loss_coeff", z.to_string(), "the router z-loss is not supported; set it to null");
        }
        for (key, value) in [
            ("moe_router_num_groups", self.moe_router_num_groups),
            ("moe_router_group_topk", self.moe_router_group_topk),
        ] {
            if value != 1 {
                return refuse(key, value.to_string(), "group-limited routing is not supported; set it to 1");
            }
        }
        if self.moe_router_dtype != DType::F32 {
            return refuse("moe_router_dtype", self.moe_router_dtype.to_string(), "the router always computes in f32");
        }
        for (key, value) in [("hidden_dropout", self.hidden_dropout), ("attention_dropout", self.attention_dropout)] {
            if value != 0.0 {
                return refuse(key, value.to_string(), "the family trains without dropout; set it to 0");
            }
        }
        if !self.mtp_use_repeated_layer && self.mtp_num_layers.is_some_and(|d| d > 1) {
            return refuse(
                "mtp_use_repeated_layer",
                "false".into(),
                "the MTP block is one block for all depths; set it to true",
            );
        }
        Ok(())
    }
}

fn layers_of(key: &str, pattern: &str) -> Result<Vec<LayerKind>, ConfigError> {
    parse_pattern(pattern).map_err(|e| ConfigError::invalid(key, format!("\"{pattern}\""), e.to_string()))
}

/// Core checks name Hugging Face keys; they are put into this section, under the name that the section uses.
fn from_core(error: CoreError) -> ConfigError {
    match error {
        CoreError::Config { key, value, reason } => {
            ConfigError::invalid(super::aliases::canonical(&format!("model.{key}")), value, reason)
        }
        other => ConfigError::usage(other.to_string()),
    }
}
