//! The typed configuration of a run: every setting with its meaning and its default.
//!
//! A training loop reads plain fields: `config.train.global_batch_size`, `config.optimizer.lr`. How values get here
//! (recipes, files, flags, overrides, automatic adjustments) is [`super::resolve`].

use std::collections::BTreeMap;

use super::choices::*;
use super::data_setting::{Blend, BlendPerSplit, DataPath};
pub use super::model_section::ModelSection;
use super::setting::{Field, Section, SetError, section};
use super::value::Value;

section! {
    /// What is run.
    pub struct RunSection {
        /// Recipe that the configuration started from.
        recipe: Option<String> = None,
        /// What the run does.
        mode: Mode = Mode::Pretrain,
        /// Ranks of the launch; null is one rank, or what the environment says.
        world_size: Option<usize> = None,
        /// Same inputs, same bits; always on, the setting exists because the launcher has the flag.
        deterministic: bool = true,
    }
}

section! {
    /// The training loop.
    pub struct TrainSection {
        /// Optimizer steps of the run.
        train_iters: u64 = 1000,
        /// Samples of the run; null is `train_iters` times the global batch size.
        train_samples: Option<u64> = None,
        /// Samples of an optimizer step, over all ranks and micro-batches.
        global_batch_size: u64 = 8,
        /// Samples of a forward and backward pass on one data-parallel rank.
        micro_batch_size: u64 = 1,
        /// Stop with exit code 6 after this many steps in a row with a loss or gradient that is not finite.
        max_nonfinite_steps: u64 = 10,
        /// Save and stop after this many minutes.
        exit_duration_in_mins: Option<u64> = None,
        /// Save and stop after this time, with exit code 75: 3h50m, 45m, 90s; counted from the start of the program.
        exit_after: Option<String> = None,
        /// Train on the first batch again and again: the loss must fall to almost nothing.
        overfit_batch: bool = false,
        /// When a step has gradients that are not finite, find the operation that made the first such value.
        check_finite: bool = false,
        /// Save and stop at the first step that is a multiple of this.
        exit_interval: Option<u64> = None,
        /// Save and stop on SIGTERM, SIGUSR1 and ctrl-C (SIGINT).
        exit_signal_handler: bool = true,
        /// Garbage collection of the public stack; recorded.
        manual_gc: bool = false,
        /// Its interval in steps; recorded.
        manual_gc_interval: u64 = 0,
        /// Its interval in evaluation steps; recorded.
        manual_gc_eval: u64 = 0,
        /// Emptying of the allocator's cache of the public stack; recorded.
        empty_unused_memory_level: u64 = 0,
    }
}

section! {
    /// Validation during training.
    pub struct ValidationSection {
        /// Steps between validations; 0 is off.
        eval_interval: u64 = 0,
        /// Global batches of a validation.
        eval_iters: u64 = 0,
        /// Samples of a validation batch; null is the global batch size.
        eval_global_batch_size: Option<u64> = None,
        /// Samples of a validation pass on one rank; null is the micro-batch size.
        eval_micro_batch_size: Option<u64> = None,
    }
}

section! {
    /// AdamW and gradient clipping (recipes.md §1.2).
    pub struct OptimizerSection {
        /// Name of the optimizer; only adam.
        optimizer: String = "adam".into(),
        /// Highest learning rate.
        lr: f64 = 3e-4,
        /// Learning rate at the end of the decay.
        min_lr: f64 = 3e-5,
        /// Decay of the first moment.
        adam_beta1: f64 = 0.9,
        /// Decay of the second moment.
        adam_beta2: f64 = 0.95,
        /// Added to the root of the second moment.
        adam_eps: f64 = 1e-8,
        /// Recorded; the effective weight decay is the scheduler's `start_weight_decay` to `end_weight_decay`.
        weight_decay: f64 = 0.1,
        /// Largest global L2 norm of the gradient; 0 is off.
        clip_grad: f64 = 1.0,
        /// Shard the optimizer over data-parallel ranks.
        use_distributed_optimizer: bool = true,
        /// Masters as bf16 weight plus 16 bits, moments in the types below.
        use_precision_aware_optimizer: bool = false,
        /// Type of the gradients that Adam reads.
        main_grads_dtype: DType = DType::F32,
        /// Type of the master weights.
        main_params_dtype: DType = DType::F32,
        /// Type of the first moment.
        exp_avg_dtype: DType = DType::F32,
        /// Type of the second moment.
        exp_avg_sq_dtype: DType = DType::F32,
        /// Gather parameters while the forward pass runs.
        overlap_param_gather: bool = false,
        /// Use the gradient buffer for the MXFP8 gather.
        reuse_grad_buf_for_mxfp8_param_ag: bool = false,
    }
}

section! {
    /// Learning rate and weight decay over the run (recipes.md §1.3).
    pub struct SchedulerSection {
        /// Shape after the warm-up.
        lr_decay_style: LrDecayStyle = LrDecayStyle::Cosine,
        /// Shape of the last part of a WSD schedule.
        lr_wsd_decay_style: WsdDecayStyle = WsdDecayStyle::Exponential,
        /// Steps of the last part of a WSD schedule; required for WSD.
        lr_wsd_decay_iters: Option<u64> = None,
        /// Steps of the warm-up.
        lr_warmup_iters: u64 = 0,
        /// Learning rate at the start of the warm-up.
        lr_warmup_init: f64 = 0.0,
        /// Steps until `min_lr`; null is `max_steps`, else the steps of the run.
        lr_decay_iters: Option<u64> = None,
        /// Steps that the schedule is made for when the run stops earlier; null is the steps of the run.
        max_steps: Option<u64> = None,
        /// Weight decay at the start; this, not `optimizer.weight_decay`, is what Adam uses.
        start_weight_decay: f64 = 0.033,
        /// Weight decay at the end.
        end_weight_decay: f64 = 0.033,
        /// Path from start to end.
        weight_decay_incr_style: WeightDecayIncrStyle = WeightDecayIncrStyle::Constant,
        /// On resume, take the schedule of this configuration instead of the checkpoint's.
        override_opt_param_scheduler: bool = true,
    }
}

section! {
    /// Training data.
    pub struct DatasetSection {
        /// Where samples come from.
        kind: DatasetKind = DatasetKind::Mock,
        /// Text: a file or folder; null is this repository, or the documents inside the program.
        path: Option<String> = None,
        /// Token files: prefixes, optionally each behind its weight: "30 a 70 b" or [30, a, 70, b].
        data_path: Option<DataPath> = None,
        /// Token files: [[prefix, ...], [weight, ...]] or [[prefix, ...], null].
        blend: Option<Blend> = None,
        /// Token files per split: [train, valid, test], each as `blend` or null.
        blend_per_split: Option<BlendPerSplit> = None,
        /// JSON file {"train": [weight, prefix, ...], "valid": [...], "test": [...]}.
        per_split_data_args_path: Option<String> = None,
        /// Shares of training, validation and test, such as "9999,8,2"; null with a blend per split.
        split: Option<String> = Some("9999,8,2".into()),
        /// Tokens per sample; the same as `model.seq_length`.
        seq_length: usize = 512,
        /// Seed of the data order.
        random_seed: u64 = 1234,
        /// Text: vocabulary of the tokenizer that is trained; null is `model.vocab_size`.
        vocab_size: Option<usize> = None,
        /// Folder for indices, tokenizers and token files made from the data; null is the user's cache folder.
        path_to_cache: Option<String> = None,
        /// Order of samples.
        dataloader_type: DataloaderType = DataloaderType::Single,
        /// Shards of the cyclic order per data-parallel rank.
        data_sharding: bool = true,
        /// Threads that prepare batches.
        num_workers: usize = 1,
        /// Map token files into memory instead of reading them.
        mmap_bin_files: bool = true,
        /// Threads that build indices.
        num_dataset_builder_threads: usize = 1,
        /// Positions start again after each end of document.
        reset_position_ids: bool = false,
        /// Attention does not look behind an end of document.
        reset_attention_mask: bool = false,
        /// No loss where the input is an end of document.
        eod_mask_loss: bool = false,
        /// Treat the documents of a window as separate sequences, for attention, convolution and state.
        inter_document_masking: bool = false,
        /// The public stack's way of plain causal attention; recorded.
        skip_getting_attention_mask_from_dataset: bool = true,
        /// Leave out the last, partial validation sample.
        drop_last_partial_validation_sequence: bool = true,
        /// Read one token more than the sequence, so that the last label is a real token.
        add_extra_token_to_sequence: bool = true,
        /// Fine-tuning: pack samples ahead of training.
        enable_offline_packing: bool = false,
        /// Fine-tuning: tokens of a pack; the sequence length.
        packed_sequence_size: Option<usize> = None,
        /// Fine-tuning: sequences in a pack are padded to a multiple of this.
        pad_seq_to_mult: usize = 1,
        /// Fine-tuning: packing algorithm.
        packing_algorithm: PackingAlgorithm = PackingAlgorithm::FirstFitShuffle,
        /// Fine-tuning: pad every sample to the full length.
        pad_to_max_length: bool = false,
        /// Revision of a Hugging Face data set.
        hf_revision: Option<String> = None,
    }
}

section! {
    /// Tokenizer.
    pub struct TokenizerSection {
        /// Kind; only Hugging Face's `tokenizer.json`.
        tokenizer_type: String = "HuggingFaceTokenizer".into(),
        /// Folder or file, or the Hugging Face name of a model in the local cache.
        tokenizer_model: Option<String> = None,
        /// Further arguments, such as {revision = ...}.
        hf_tokenizer_kwargs: BTreeMap<String, String> = BTreeMap::new(),
        /// Take the vocabulary size of the tokenizer.
        use_tokenizer_vocab_size: bool = false,
    }
}

section! {
    /// Checkpoints.
    pub struct CheckpointSection {
        /// Folder to write to; null is `checkpoints` in the run's folder.
        save: Option<String> = None,
        /// Folder to continue from: a run's checkpoints (the latest is taken) or one `iter_NNNNNNN`.
        load: Option<String> = None,
        /// Steps between checkpoints; null saves only at the end.
        save_interval: Option<u64> = None,
        /// Weights to start from without continuing a run.
        pretrained_checkpoint: Option<String> = None,
        /// Take only the weights of `load`, and begin at step 0.
        finetune: bool = false,
        /// Step to load instead of the latest.
        ckpt_step: Option<u64> = None,
        /// Save optimizer states.
        save_optim: bool = true,
        /// Save random states.
        save_rng: bool = true,
        /// Load optimizer states.
        load_optim: bool = true,
        /// Load random states.
        load_rng: bool = true,
        /// Refuse a checkpoint that was saved without the optimizer states that are asked for; else they start fresh, and the
        /// log says so once.
        strict: bool = false,
        /// Keep this many of the latest checkpoints; null keeps all.
        most_recent_k: Option<u64> = None,
        /// Keep every checkpoint whose step is a multiple of this, whatever `most_recent_k` says.
        keep_every_n: Option<u64> = None,
        /// Write in the background.
        async_save: bool = false,
        /// Format of the public recipes; ours is in model space always.
        ckpt_format: CheckpointFormat = CheckpointFormat::TorchDist,
        /// Every rank writes its share.
        fully_parallel_save: bool = true,
        /// Recorded.
        ckpt_assume_constant_structure: bool = false,
        /// What differences between checkpoint and model do in the public stack; recorded, ours refuses.
        dist_ckpt_strictness: String = "log_all".into(),
    }
}

section! {
    /// Logs.
    pub struct LoggerSection {
        /// Folder of the run: metrics.jsonl, run_config.toml, checkpoints; null makes one under `runs/`.
        dir: Option<String> = None,
        /// Steps between log lines.
        log_interval: u64 = 10,
        /// Folder of TensorBoard event files; null is `tensorboard` in the run's folder.
        tensorboard_dir: Option<String> = None,
        /// Log tokens/s and TFLOP/s.
        log_throughput: bool = true,
        /// Timers in the event files.
        log_timers_to_tensorboard: bool = false,
        /// Steps between samples of text; null is off.
        sample_interval: Option<u64> = None,
        /// Tokens of a sample.
        sample_tokens: usize = 48,
        /// 0 writes the likeliest token, else tokens are drawn at this temperature.
        sample_temperature: f64 = 0.0,
        /// Text that samples go on from; empty begins a document.
        sample_prompt: String = String::new(),
        /// A loss or gradient norm this many standard deviations above the last 64 steps is an anomaly; 0 is off.
        spike_zscore: f64 = 6.0,
        /// Steps whose documents are named in the event of an anomaly.
        anomaly_batches: usize = 4,
        /// A step that waits longer than this for data is an anomaly; 0 is off.
        data_stall_seconds: f64 = 30.0,
    }
}

section! {
    /// Random numbers.
    pub struct RngSection {
        /// Seed of initialisation and of every random number in training.
        seed: u64 = 1234,
        /// Random numbers that graphs can replay; ours always can.
        te_rng_tracker: bool = false,
    }
}

section! {
    /// Start of a distributed run.
    pub struct DistSection {
        /// Minutes until a collective that does not end stops the run; null is the backend's own.
        distributed_timeout_minutes: Option<u64> = None,
        /// Shard parameters, gradients and optimizer (FSDP); the same as `ddp.use_megatron_fsdp`.
        use_megatron_fsdp: bool = false,
    }
}

section! {
    /// Data parallelism.
    pub struct DdpSection {
        /// Reduce gradients in fp32; overwritten by `mixed_precision.grad_reduce_in_fp32`.
        grad_reduce_in_fp32: bool = true,
        /// Average inside the collective instead of scaling before a sum.
        average_in_collective: bool = false,
        /// Reduce gradients while the backward pass runs.
        overlap_grad_reduce: bool = true,
        /// Gather parameters while the forward pass runs.
        overlap_param_gather: bool = false,
        /// Shard the optimizer over data-parallel ranks.
        use_distributed_optimizer: bool = true,
        /// Stop the step on gradients that are not finite.
        check_for_nan_in_grad: bool = true,
        /// Report unusually large gradients.
        check_for_large_grads: bool = false,
        /// Elements of a gradient bucket; null is the rule of recipes.md §1.9.
        bucket_size: Option<u64> = None,
        /// Shard parameters, gradients and optimizer (FSDP).
        use_megatron_fsdp: bool = false,
        /// Optimizer instances; more than one is hybrid sharding.
        num_distributed_optimizer_instances: usize = 1,
        /// What FSDP shards.
        data_parallel_sharding_strategy: ShardingStrategy = ShardingStrategy::NoShard,
        /// What the outer group of hybrid sharding shards.
        outer_dp_sharding_strategy: ShardingStrategy = ShardingStrategy::NoShard,
        /// FSDP: type of master weights.
        megatron_fsdp_main_params_dtype: DType = DType::F32,
        /// FSDP: type of accumulated gradients.
        megatron_fsdp_main_grads_dtype: DType = DType::F32,
        /// FSDP: type of reduced gradients; null is the accumulated type.
        megatron_fsdp_grad_comm_dtype: Option<DType> = None,
        /// Keep transposed FP8 weights.
        keep_fp8_transpose_cache: bool = false,
        /// Use the gradient buffer for the MXFP8 gather.
        reuse_grad_buf_for_mxfp8_param_ag: bool = false,
    }
}

section! {
    /// Element types (recipes.md §1.4).
    pub struct MixedPrecisionSection {
        /// Precision class of weights and activations.
        precision: Precision = Precision::Bf16,
        /// Type in which gradients of micro-batches are accumulated.
        grad_accum_dtype: DType = DType::F32,
        /// Reduce gradients over ranks in fp32.
        grad_reduce_in_fp32: bool = true,
        /// Gather weights in FP8.
        fp8_param_gather: bool = false,
        /// Attention products in FP8.
        fp8_dot_product_attention: bool = false,
        /// Use the gradient buffer for the MXFP8 gather.
        reuse_grad_buf_for_mxfp8_param_ag: bool = false,
        /// First and last layers in bf16; overwrites `model.first_last_layers_bf16`.
        first_last_layers_bf16: bool = false,
    }
}

section! {
    /// Overlap of communication and computation.
    pub struct CommOverlapSection {
        /// Overlap tensor-parallel communication; does nothing below two ranks with sequence parallelism.
        tp_comm_overlap: bool = false,
        /// Backend that starts it; recorded.
        tp_comm_bootstrap_backend: String = "nccl".into(),
        /// Weight gradients later than activation gradients.
        delay_wgrad_compute: bool = false,
        /// Overlap the exchange of tokens.
        overlap_moe_expert_parallel_comm: bool = false,
    }
}

section! {
    /// Checks on results.
    pub struct RerunStateMachineSection {
        /// Skip a step whose loss is not finite.
        check_for_nan_in_loss: bool = true,
    }
}

section! {
    /// Adapters (recipes.md §2.2).
    pub struct PeftSection {
        /// Adapter scheme; null trains all weights.
        scheme: Option<PeftScheme> = None,
        /// Matrices that get adapters, under Megatron's names.
        target_modules: Vec<String> = ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2", "in_proj", "out_proj"]
            .map(String::from).to_vec(),
        /// Rank of the adapters.
        dim: usize = 32,
        /// Scale times rank.
        alpha: f64 = 32.0,
        /// Dropout; only 0 is supported.
        dropout: f64 = 0.0,
        /// Initialisation of A.
        lora_a_init_method: String = "xavier".into(),
        /// Initialisation of B.
        lora_b_init_method: String = "zero".into(),
        /// Share adapters between experts, in `expert_adapter_groups` groups.
        share_expert_adapters: bool = true,
        /// Groups of consecutive experts that share a pair, per layer and matrix.
        expert_adapter_groups: usize = 8,
    }
}

section! {
    /// Where the run executes.
    pub struct DeviceSection {
        /// Processor, GPU, or virtual GPU.
        kind: DeviceKind = DeviceKind::Auto,
        /// Threads of the processor; null is all. Results do not depend on it.
        threads: Option<usize> = None,
        /// Run every program of a GPU as one CUDA graph; without, launch by launch. Results do not depend on it.
        cuda_graph: bool = true,
    }
}

section! {
    /// Environment variables of the public recipes; recorded, and a variable that exists wins.
    pub struct EnvSection {
        /// Names and values.
        vars: BTreeMap<String, String> = BTreeMap::new(),
    }
}

macro_rules! run_config {
    ($( $(#[doc = $doc:literal])+ $section:ident: $kind:ty, )+) => {
        /// All settings of a run.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct RunConfig {
            $( $(#[doc = $doc])+ pub $section: $kind, )+
        }

        impl RunConfig {
            /// The sections and their settings, in the order in which they are shown.
            pub fn sections() -> Vec<(&'static str, &'static [Field])> {
                vec![$( (stringify!($section), <$kind as Section>::fields()), )+]
            }

            /// The value of a setting such as `optimizer.lr`.
            pub fn get(&self, key: &str) -> Option<Value> {
                let (section, name) = key.split_once('.')?;
                match section {
                    $( stringify!($section) => self.$section.get(name), )+
                    _ => None,
                }
            }

            /// Sets a setting.
            ///
            /// # Errors
            /// Unknown name or wrong type; nothing is changed then.
            pub fn set(&mut self, key: &str, value: &Value) -> Result<(), SetError> {
                let (section, name) = key.split_once('.').ok_or(SetError::Unknown)?;
                match section {
                    $( stringify!($section) => self.$section.set(name, value), )+
                    _ => Err(SetError::Unknown),
                }
            }
        }
    };
}

run_config! {
    /// What is run.
    run: RunSection,
    /// The model, its layout and its execution.
    model: ModelSection,
    /// The training loop.
    train: TrainSection,
    /// Validation during training.
    validation: ValidationSection,
    /// AdamW and gradient clipping.
    optimizer: OptimizerSection,
    /// Learning rate and weight decay over the run.
    scheduler: SchedulerSection,
    /// Training data.
    dataset: DatasetSection,
    /// Tokenizer.
    tokenizer: TokenizerSection,
    /// Checkpoints.
    checkpoint: CheckpointSection,
    /// Logs.
    logger: LoggerSection,
    /// Random numbers.
    rng: RngSection,
    /// Element types.
    mixed_precision: MixedPrecisionSection,
    /// Data parallelism.
    ddp: DdpSection,
    /// Start of a distributed run.
    dist: DistSection,
    /// Overlap of communication and computation.
    comm_overlap: CommOverlapSection,
    /// Checks on results.
    rerun_state_machine: RerunStateMachineSection,
    /// Adapters.
    peft: PeftSection,
    /// Where the run executes.
    device: DeviceSection,
    /// Environment variables.
    env: EnvSection,
}

impl RunConfig {
    /// Every setting as `section.name`, in the order in which they are shown.
    pub fn keys() -> impl Iterator<Item = String> {
        Self::sections()
            .into_iter()
            .flat_map(|(section, fields)| fields.iter().map(move |f| format!("{section}.{}", f.name)))
    }

    /// The description of a setting.
    pub fn field(key: &str) -> Option<&'static Field> {
        let (section, name) = key.split_once('.')?;
        let (_, fields) = Self::sections().into_iter().find(|(s, _)| *s == section)?;
        fields.iter().find(|f| f.name == name)
    }
}
