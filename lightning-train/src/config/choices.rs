//! Settings that are one of a few names.

use super::setting::choice;

choice! {
    /// What a run does.
    pub enum Mode {
        /// From scratch or from a checkpoint, on plain text.
        Pretrain = "pretrain",
        /// Supervised fine-tuning of all weights.
        Sft = "sft" | "finetune",
        /// Fine-tuning of low-rank adapters.
        Lora = "lora" | "peft",
    }
}

impl Mode {
    /// Whether the mode starts from trained weights and masks prompts.
    pub const fn is_fine_tuning(self) -> bool {
        matches!(self, Self::Sft | Self::Lora)
    }
}

choice! {
    /// Where training samples come from.
    pub enum DatasetKind {
        /// Counting documents made in memory (data.md §4).
        Mock = "mock",
        /// Plain text: a file, a folder, or this repository; tokenizer and token file are made from it.
        Text = "text",
        /// `.bin`/`.idx` token files.
        MegatronIndexed = "megatron-indexed" | "megatron_indexed",
        /// SQuAD from a local copy.
        Squad = "squad",
        /// Tulu 3 SFT mixture from a local copy.
        Tulu3 = "tulu3",
        /// OpenMathInstruct-2 from a local copy.
        OpenMathInstruct2 = "openmathinstruct2",
        /// OpenMathInstruct-2 as chats with a thinking part.
        OpenMathInstruct2Thinking = "openmathinstruct2-thinking" | "openmathinstruct2_thinking",
        /// GSM8K from a local copy.
        Gsm8k = "gsm8k",
        /// JSON lines with prompts and answers or chats.
        LocalJsonl = "local-jsonl" | "local_jsonl",
        /// Packed Parquet files.
        PackedParquet = "packed-parquet" | "packed_parquet",
    }
}

impl DatasetKind {
    /// Whether the kind holds prompts and answers instead of plain text. Mock data serves both.
    pub const fn fits(self, mode: Mode) -> bool {
        match self {
            Self::Mock => true,
            Self::Text | Self::MegatronIndexed => matches!(mode, Mode::Pretrain),
            _ => mode.is_fine_tuning(),
        }
    }
}

choice! {
    /// Order of samples.
    pub enum DataloaderType {
        /// Sequential in the shuffled order (data.md §3.5).
        Single = "single",
        /// Shuffled anew in every epoch.
        Cyclic = "cyclic",
        /// One permutation per epoch, whole global batches.
        Batch = "batch",
    }
}

choice! {
    /// How sequences are put into packs.
    pub enum PackingAlgorithm {
        /// First fit over shuffled sequences.
        FirstFitShuffle = "first_fit_shuffle",
        /// First fit, longest first.
        FirstFitDecreasing = "first_fit_decreasing",
        /// In order, a new pack when the next does not fit.
        Concatenative = "concatenative",
    }
}

choice! {
    /// How the router is kept balanced by its loss.
    pub enum LoadBalancing {
        /// Auxiliary loss per sequence.
        SeqAuxLoss = "seq_aux_loss",
        /// No auxiliary loss.
        None = "none",
    }
}

choice! {
    /// How tokens travel between expert-parallel ranks.
    pub enum TokenDispatcher {
        /// Plain all-to-all.
        AllToAll = "alltoall",
        /// All-gather and reduce-scatter.
        AllGather = "allgather",
        /// A fused backend, see `moe_flex_dispatcher_backend`.
        Flex = "flex",
    }
}

choice! {
    /// Fused dispatcher of the public recipes.
    pub enum FlexBackend {
        /// HybridEP.
        HybridEp = "hybridep",
        /// DeepEP.
        DeepEp = "deepep",
    }
}

choice! {
    /// How context-parallel ranks exchange keys and values.
    pub enum CpCommType {
        /// Ring of neighbours.
        P2p = "p2p",
        /// All-to-all over heads.
        A2a = "a2a",
        /// All-gather of keys and values.
        AllGather = "all_gather",
    }
}

choice! {
    /// How much is recomputed in the backward pass.
    pub enum RecomputeGranularity {
        /// The regions of `recompute_modules`.
        Selective = "selective",
        /// Every layer from its input.
        Full = "full",
    }
}

choice! {
    /// Which layers `recompute_granularity = full` covers.
    pub enum RecomputeMethod {
        /// All layers, in groups of `recompute_num_layers`.
        Uniform = "uniform",
        /// The first `recompute_num_layers` layers.
        Block = "block",
    }
}

choice! {
    /// A region that is recomputed (recipes.md §1.7).
    pub enum RecomputeModule {
        /// Scores, softmax and weighted sum of attention.
        CoreAttn = "core_attn",
        /// The whole MoE body after its norm.
        Moe = "moe",
        /// Only the squared ReLU between the two expert matrices.
        MoeAct = "moe_act",
        /// Input norms of attention and MoE layers.
        LayerNorm = "layernorm",
        /// Dense MLP layers.
        Mlp = "mlp",
    }
}

choice! {
    /// How steps are captured into CUDA graphs.
    pub enum CudaGraphImpl {
        /// Not at all.
        None = "none",
        /// The whole step.
        Local = "local",
        /// Per layer, as the public recipes do.
        TransformerEngine = "transformer_engine",
    }
}

choice! {
    /// A part of a layer that is captured (recipes.md §1.8).
    pub enum CudaGraphModule {
        /// Attention layer.
        Attn = "attn",
        /// Mamba-2 layer.
        Mamba = "mamba",
        /// MoE layer up to the router.
        MoeRouter = "moe_router",
        /// Preparation of the dispatch.
        MoePreprocess = "moe_preprocess",
    }
}

choice! {
    /// Shape of the learning rate after the warm-up (recipes.md §1.3).
    pub enum LrDecayStyle {
        /// Half a cosine.
        Cosine = "cosine",
        /// Constant.
        Constant = "constant",
        /// Straight line.
        Linear = "linear",
        /// Falls with the square root of the samples.
        InverseSquareRoot = "inverse-square-root" | "inverse_square_root",
        /// Constant, then a short decay of `lr_wsd_decay_style`.
        Wsd = "WSD",
    }
}

choice! {
    /// Shape of the last part of a WSD schedule.
    pub enum WsdDecayStyle {
        /// Straight line.
        Linear = "linear",
        /// Half a cosine.
        Cosine = "cosine",
        /// 2 * 0.5^r - 1.
        Exponential = "exponential",
        /// 1 - sqrt(r).
        MinusSqrt = "minus_sqrt",
    }
}

choice! {
    /// Path of the weight decay from its start to its end.
    pub enum WeightDecayIncrStyle {
        /// Start and end are equal.
        Constant = "constant",
        /// Straight line.
        Linear = "linear",
        /// Half a cosine.
        Cosine = "cosine",
    }
}

choice! {
    /// Precision class of a run (recipes.md §1.4 and §3).
    pub enum Precision {
        /// bf16 weights and activations, fp32 masters.
        Bf16 = "bf16" | "bf16_mixed",
        /// fp32 everywhere.
        F32 = "f32" | "fp32",
        /// fp64 everywhere, for difference tests.
        F64 = "f64" | "fp64",
        /// FP8 with one scale per tensor and step.
        Fp8Cs = "fp8_cs" | "bf16_with_fp8_current_scaling_mixed",
        /// MXFP8: blocks of 32 with power-of-two scales.
        Fp8Mx = "fp8_mx" | "bf16_with_mxfp8_mixed",
        /// NVFP4: blocks of 16 with E4M3 scales.
        Nvfp4 = "nvfp4" | "bf16_with_nvfp4_mixed",
    }
}

choice! {
    /// Element type of a buffer.
    pub enum DType {
        /// bfloat16.
        Bf16 = "bf16" | "bfloat16" | "torch.bfloat16",
        /// 32-bit floating point.
        F32 = "f32" | "fp32" | "float32" | "torch.float32",
        /// 64-bit floating point.
        F64 = "f64" | "fp64" | "float64",
    }
}

choice! {
    /// How data-parallel state is sharded.
    pub enum ShardingStrategy {
        /// Nothing is sharded.
        NoShard = "no_shard",
        /// Optimizer states.
        Optim = "optim",
        /// Optimizer states and gradients.
        OptimGrads = "optim_grads",
        /// Optimizer states, gradients and parameters.
        OptimGradsParams = "optim_grads_params",
    }
}

choice! {
    /// Implementation of the fused cross entropy in the public recipes; ours is one, the name is kept.
    pub enum CrossEntropyImpl {
        /// Vocabulary-parallel fused.
        Native = "native",
        /// Gradient in place of the logits.
        Te = "te",
    }
}

choice! {
    /// Adapter scheme.
    pub enum PeftScheme {
        /// Low-rank adapters.
        Lora = "lora",
    }
}

choice! {
    /// Where a run executes.
    pub enum DeviceKind {
        /// A CUDA device when there is a usable one, else the processor.
        Auto = "auto",
        /// Any processor.
        Cpu = "cpu",
        /// An NVIDIA GPU.
        Cuda = "cuda" | "gpu",
        /// The virtual GPU.
        Sim = "sim",
    }
}

choice! {
    /// Layout of checkpoints in the public recipes; ours is model space in any case, the name is kept.
    pub enum CheckpointFormat {
        /// Sharded tensors.
        TorchDist = "torch_dist",
        /// FSDP shards.
        FsdpDtensor = "fsdp_dtensor",
    }
}
