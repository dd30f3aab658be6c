//! Verbs and their flags.

use argh::FromArgs;

use super::argv::{Flag, Takes};
use crate::config::choices::DeviceKind;

use Takes::{LauncherSwitch, LauncherValue, Settings, Switch, Value};

/// Train a model: resolve a recipe, a file, flags and overrides to one configuration and run it.
#[derive(FromArgs, Debug, Default)]
#[argh(help_triggers("--help"))]
pub struct TrainArgs {
    /// recipe to start from; --list-recipes lists them
    #[argh(option, arg_name = "name")]
    pub recipe: Option<String>,
    /// model stem, with --mode another way to name a recipe: STEM_pretrain_config, STEM_sft_config, STEM_peft_config
    #[argh(option, arg_name = "stem")]
    pub model: Option<String>,
    /// pretrain, sft or lora; the recipe's own when absent
    #[argh(option, arg_name = "mode")]
    pub mode: Option<String>,
    /// configuration file (TOML), such as the run_config.toml of another run
    #[argh(option, arg_name = "file")]
    pub config: Option<String>,
    /// plain text to train on: a file or a folder
    #[argh(option, arg_name = "path")]
    pub data: Option<String>,
    /// mock, text, megatron-indexed, or a fine-tuning set
    #[argh(option, arg_name = "kind")]
    pub dataset: Option<String>,
    /// number of optimizer steps (-ms)
    #[argh(option, arg_name = "n")]
    pub max_steps: Option<String>,
    /// samples of an optimizer step (-gb)
    #[argh(option, arg_name = "n")]
    pub global_batch_size: Option<String>,
    /// samples of a forward pass on one rank (-mb)
    #[argh(option, arg_name = "n")]
    pub micro_batch_size: Option<String>,
    /// tokens per sample (-sl)
    #[argh(option, arg_name = "n")]
    pub seq_length: Option<String>,
    /// highest learning rate
    #[argh(option, arg_name = "x")]
    pub lr: Option<String>,
    /// learning rate at the end
    #[argh(option, arg_name = "x")]
    pub min_lr: Option<String>,
    /// steps of the warm-up
    #[argh(option, arg_name = "n")]
    pub warmup_iters: Option<String>,
    /// seed of initialisation and training
    #[argh(option, arg_name = "n")]
    pub seed: Option<String>,
    /// cpu or gpu
    #[argh(option, arg_name = "kind")]
    pub device: Option<String>,
    /// threads of the processor; results do not depend on it
    #[argh(option, arg_name = "n")]
    pub threads: Option<String>,
    /// weights to start from
    #[argh(option, arg_name = "dir")]
    pub pretrained_checkpoint: Option<String>,
    /// checkpoints to continue from
    #[argh(option, arg_name = "dir")]
    pub load_dir: Option<String>,
    /// refuse a checkpoint without the optimizer states that are asked for
    #[argh(switch)]
    pub strict: bool,
    /// folder for checkpoints
    #[argh(option, arg_name = "dir")]
    pub save_dir: Option<String>,
    /// steps between checkpoints
    #[argh(option, arg_name = "n")]
    pub save_interval: Option<String>,
    /// save and stop after this time, with exit code 75: 3h50m, 45m, 90s
    #[argh(option, arg_name = "time")]
    pub exit_after: Option<String>,
    /// steps between samples of text written by the model
    #[argh(option, arg_name = "n")]
    pub sample: Option<String>,
    /// train on the first batch again and again: the loss must fall to almost nothing
    #[argh(switch)]
    pub overfit_batch: bool,
    /// name the operation that made the first value that is not finite
    #[argh(switch)]
    pub check_finite: bool,
    /// tensor-parallel ranks (-tp)
    #[argh(option, arg_name = "n")]
    pub tensor_model_parallel_size: Option<String>,
    /// pipeline-parallel ranks (-pp)
    #[argh(option, arg_name = "n")]
    pub pipeline_model_parallel_size: Option<String>,
    /// context-parallel ranks (-cp)
    #[argh(option, arg_name = "n")]
    pub context_parallel_size: Option<String>,
    /// pieces of a pipeline rank (-vp)
    #[argh(option, arg_name = "n")]
    pub virtual_pipeline_model_parallel_size: Option<String>,
    /// expert-parallel ranks (-ep)
    #[argh(option, arg_name = "n")]
    pub expert_model_parallel_size: Option<String>,
    /// ranks that share an expert's matrices (-etp)
    #[argh(option, arg_name = "n")]
    pub expert_tensor_parallel_size: Option<String>,
    /// print the resolved configuration with the origin of each value, and stop
    #[argh(switch)]
    pub dry_run: bool,
    /// print the resolved configuration before training
    #[argh(switch)]
    pub print_config: bool,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
    /// list all recipes and stop
    #[argh(switch)]
    pub list_recipes: bool,
    /// list all settings with their meaning and stop
    #[argh(switch)]
    pub list_settings: bool,
    /// same inputs, same bits; always on
    #[argh(switch)]
    pub deterministic: bool,
    /// print the recipe's environment variables
    #[argh(switch)]
    pub dump_env: bool,
}

/// Flags of [`TrainArgs`], the settings behind them, and the launcher's flags.
pub const TRAIN_FLAGS: &[Flag] = &[
    Flag::new("recipe", Value),
    Flag::new("model", Value),
    Flag::new("mode", Settings(&["run.mode"])),
    Flag::new("config", Value),
    Flag::new("data", Settings(&["dataset.path"])),
    Flag::new("dataset", Settings(&["dataset.kind"])),
    Flag::with("max-steps", &["ms"], Settings(&["train.train_iters"])),
    Flag::with("global-batch-size", &["gb"], Settings(&["train.global_batch_size"])),
    Flag::with("micro-batch-size", &["mb"], Settings(&["train.micro_batch_size"])),
    Flag::with("seq-length", &["sl"], Settings(&["model.seq_length", "dataset.seq_length"])),
    Flag::new("lr", Settings(&["optimizer.lr"])),
    Flag::new("min-lr", Settings(&["optimizer.min_lr"])),
    Flag::new("warmup-iters", Settings(&["scheduler.lr_warmup_iters"])),
    Flag::new("seed", Settings(&["rng.seed"])),
    Flag::new("device", Settings(&["device.kind"])),
    Flag::new("threads", Settings(&["device.threads"])),
    Flag::new("pretrained-checkpoint", Settings(&["checkpoint.pretrained_checkpoint"])),
    Flag::new("load-dir", Settings(&["checkpoint.load"])),
    Flag::new("save-dir", Settings(&["checkpoint.save"])),
    Flag::new("save-interval", Settings(&["checkpoint.save_interval"])),
    Flag::new("exit-after", Settings(&["train.exit_after"])),
    Flag::new("sample", Settings(&["logger.sample_interval"])),
    Flag::new("overfit-batch", Switch),
    Flag::new("check-finite", Switch),
    Flag::new("strict", Switch),
    Flag::with("tensor-model-parallel-size", &["tp"], Settings(&["model.tensor_model_parallel_size"])),
    Flag::with("pipeline-model-parallel-size", &["pp"], Settings(&["model.pipeline_model_parallel_size"])),
    Flag::with("context-parallel-size", &["cp"], Settings(&["model.context_parallel_size"])),
    Flag::with(
        "virtual-pipeline-model-parallel-size",
        &["vp"],
        Settings(&["model.virtual_pipeline_model_parallel_size"]),
    ),
    Flag::with("expert-model-parallel-size", &["ep"], Settings(&["model.expert_model_parallel_size"])),
    Flag::with("expert-tensor-parallel-size", &["etp"], Settings(&["model.expert_tensor_parallel_size"])),
    Flag::with("dry-run", &["submission-dry-run"], Switch),
    Flag::new("print-config", Switch),
    Flag::new("json", Switch),
    Flag::new("list-recipes", Switch),
    Flag::new("list-settings", Switch),
    Flag::new("deterministic", Switch),
    Flag::new("dump-env", Switch),
    // Flags of the public launcher that concern a scheduler or a container (pipeline.md §3.1).
    Flag::new("nodes", LauncherValue),
    Flag::new("gpus-per-node", LauncherValue),
    Flag::new("account", LauncherValue),
    Flag::new("partition", LauncherValue),
    Flag::new("time", LauncherValue),
    Flag::new("gres", LauncherValue),
    Flag::new("mem", LauncherValue),
    Flag::new("additional-slurm-params", LauncherValue),
    Flag::new("container-image", LauncherValue),
    Flag::new("mount", LauncherValue),
    Flag::new("env", LauncherValue),
    Flag::new("srun-arg", LauncherValue),
    Flag::new("experiment-name", LauncherValue),
    Flag::new("step-func", LauncherValue),
    Flag::new("executor", LauncherValue),
    Flag::new("no-gpu-resource-request", LauncherSwitch),
    Flag::with("peak-mem-clk", &["lmc"], LauncherSwitch),
    Flag::new("exclusive", LauncherSwitch),
    Flag::new("detach", LauncherSwitch),
    Flag::new("wait", LauncherSwitch),
];

impl TrainArgs {
    /// The texts of the flags that set settings, with the flag.
    pub fn setting_flags(&self) -> Vec<(&'static Flag, &str)> {
        let values: [(&str, &Option<String>); 25] = [
            ("mode", &self.mode),
            ("data", &self.data),
            ("dataset", &self.dataset),
            ("max-steps", &self.max_steps),
            ("global-batch-size", &self.global_batch_size),
            ("micro-batch-size", &self.micro_batch_size),
            ("seq-length", &self.seq_length),
            ("lr", &self.lr),
            ("min-lr", &self.min_lr),
            ("warmup-iters", &self.warmup_iters),
            ("seed", &self.seed),
            ("device", &self.device),
            ("threads", &self.threads),
            ("pretrained-checkpoint", &self.pretrained_checkpoint),
            ("load-dir", &self.load_dir),
            ("save-dir", &self.save_dir),
            ("save-interval", &self.save_interval),
            ("exit-after", &self.exit_after),
            ("sample", &self.sample),
            ("tensor-model-parallel-size", &self.tensor_model_parallel_size),
            ("pipeline-model-parallel-size", &self.pipeline_model_parallel_size),
            ("context-parallel-size", &self.context_parallel_size),
            ("virtual-pipeline-model-parallel-size", &self.virtual_pipeline_model_parallel_size),
            ("expert-model-parallel-size", &self.expert_model_parallel_size),
            ("expert-tensor-parallel-size", &self.expert_tensor_parallel_size),
        ];
        values
            .into_iter()
            .filter_map(|(long, text)| {
                let flag = TRAIN_FLAGS.iter().find(|f| f.long == long)?;
                text.as_deref().map(|text| (flag, text))
            })
            .collect()
    }
}

/// Run a Hugging Face checkpoint against stored values and name the first layer that differs.
///
/// Prints the relative L2 distance of every tensor of the golden file, in layer order, to standard output. Exit code 7
/// when a bound is passed.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct VerifyParityArgs {
    /// checkpoint folder with config.json and safetensors
    #[argh(option, arg_name = "dir")]
    pub hf: String,
    /// safetensors file with input_ids and any of logits, hidden.N, final_hidden, loss, router.N.*
    #[argh(option, arg_name = "file")]
    pub golden: String,
    /// safetensors file with gradients of the loss, by checkpoint name
    #[argh(option, arg_name = "file")]
    pub grads: Option<String>,
    /// f32, bf16 or f64
    #[argh(option, default = "String::from(\"f32\")", arg_name = "type")]
    pub dtype: String,
    /// lower clamp of the Mamba time step; 0.001 for values that Hugging Face's own code computed
    #[argh(option, arg_name = "x")]
    pub dt_min: Option<f64>,
    /// cpu (default), cuda or sim; a GPU computes in bf16
    #[argh(option, arg_name = "name", default = "DeviceKind::Cpu")]
    pub device: DeviceKind,
    /// threads of the processor
    #[argh(option, arg_name = "n")]
    pub threads: Option<usize>,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`VerifyParityArgs`].
pub const VERIFY_PARITY_FLAGS: &[Flag] = &[
    Flag::with("hf", &["hf-model"], Value),
    Flag::new("golden", Value),
    Flag::new("grads", Value),
    Flag::with("dtype", &["torch-dtype"], Value),
    Flag::new("dt-min", Value),
    Flag::new("device", Value),
    Flag::new("threads", Value),
    Flag::new("json", Switch),
];

/// Time training steps of a named model on this machine.
///
/// Prints tokens/s of the median step, the rate of the step's own matrix products run back to back, and where the rest of
/// the step goes.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct BenchStepArgs {
    /// model: peer, demo, oracle_tiny, smoke, ...
    #[argh(option, default = "String::from(\"peer\")", arg_name = "name")]
    pub config: String,
    /// timed steps
    #[argh(option, default = "5", arg_name = "n")]
    pub steps: usize,
    /// sequences per step
    #[argh(option, default = "4", arg_name = "n")]
    pub batch: usize,
    /// tokens per sequence
    #[argh(option, default = "512", arg_name = "n")]
    pub seq: usize,
    /// f32, bf16 or f64
    #[argh(option, default = "String::from(\"f32\")", arg_name = "type")]
    pub dtype: String,
    /// cpu (default) or cuda; a GPU computes in bf16
    #[argh(option, arg_name = "name", default = "DeviceKind::Cpu")]
    pub device: DeviceKind,
    /// threads of the processor
    #[argh(option, arg_name = "n")]
    pub threads: Option<usize>,
    /// write the times of all operations for plan --measured
    #[argh(option, arg_name = "file")]
    pub table: Option<String>,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`BenchStepArgs`].
pub const BENCH_STEP_FLAGS: &[Flag] = &[
    Flag::new("config", Value),
    Flag::new("steps", Value),
    Flag::with("batch", &["mb"], Value),
    Flag::with("seq", &["sl"], Value),
    Flag::new("dtype", Value),
    Flag::new("device", Value),
    Flag::new("threads", Value),
    Flag::new("table", Value),
    Flag::new("json", Switch),
];

/// Run every distinct operation of a model's training step alone on a GPU.
///
/// A real device is timed: median, p10 and p90 with a cold L2 cache, TFLOP/s, GB/s and the share of the roof. The virtual
/// GPU has no time and is counted: FLOP and bytes against what is needed, bank conflicts, instructions.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct BenchKernelsArgs {
    /// 30b (default), tiny, a model's name, or the config.json of a checkpoint
    #[argh(option, default = "String::from(\"30b\")", arg_name = "name")]
    pub shapes: String,
    /// only operations whose name or shapes contain this
    #[argh(option, default = "String::new()", arg_name = "text")]
    pub filter: String,
    /// tokens of the step; default 8192, on the virtual GPU 16
    #[argh(option, arg_name = "n")]
    pub tokens: Option<usize>,
    /// timed runs of each operation
    #[argh(option, default = "50", arg_name = "n")]
    pub repeats: usize,
    /// cuda (default), or sim for the virtual GPU
    #[argh(option, arg_name = "name", default = "DeviceKind::Cuda")]
    pub device: DeviceKind,
    /// print a line of JSON for each operation
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`BenchKernelsArgs`].
pub const BENCH_KERNELS_FLAGS: &[Flag] = &[
    Flag::new("shapes", Value),
    Flag::new("filter", Value),
    Flag::new("tokens", Value),
    Flag::new("repeats", Value),
    Flag::new("device", Value),
    Flag::new("json", Switch),
];

/// Check that a run that stops and goes on is the run that never stopped, bit for bit.
///
/// Takes --recipe or --config and overrides as `train` does. Trains 2 K steps in one go, and K steps, stop, K steps in a
/// scratch folder; compares batches, losses and every tensor of the last checkpoint. Exit code 7 and the first difference
/// when they differ.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct VerifyResumeArgs {
    /// recipe to start from
    #[argh(option, arg_name = "name")]
    pub recipe: Option<String>,
    /// configuration file (TOML)
    #[argh(option, arg_name = "file")]
    pub config: Option<String>,
    /// plain text to train on: a file or a folder
    #[argh(option, arg_name = "path")]
    pub data: Option<String>,
    /// steps before and after the stop
    #[argh(option, default = "3", arg_name = "k")]
    pub steps: u64,
    /// folder for the two runs, kept afterwards; a temporary one when absent
    #[argh(option, arg_name = "dir")]
    pub folder: Option<String>,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`VerifyResumeArgs`].
pub const VERIFY_RESUME_FLAGS: &[Flag] = &[
    Flag::new("recipe", Value),
    Flag::new("config", Value),
    Flag::new("data", Value),
    Flag::new("steps", Value),
    Flag::new("folder", Value),
    Flag::new("json", Switch),
];

/// Draw runs: losses, learning rate, gradient norm, speed and expert loads as SVG and as one HTML page.
///
/// Takes one or several runs (folders with metrics.jsonl); several are laid over each other. Prints the files written.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct PlotArgs {
    /// file to write, .svg and .html beside it; run.svg in the first run's folder when absent
    #[argh(option, arg_name = "file")]
    pub out: Option<String>,
}

/// Flags of [`PlotArgs`].
pub const PLOT_FLAGS: &[Flag] = &[Flag::with("out", &["o"], Value)];

/// Print the settings and the first step in which two runs differ.
///
/// Takes two runs (folders with metrics.jsonl). Exit code 7 when they differ in a step that both have.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct CompareArgs {
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`CompareArgs`].
pub const COMPARE_FLAGS: &[Flag] = &[Flag::new("json", Switch)];

/// Look at this machine: processor, memory, limits, disk, caches, GPU driver and devices (real and virtual), kernels,
/// CUDA toolkit, NCCL. Exit code 7 when a run would fail here.
#[derive(FromArgs, Debug)]
#[argh(help_triggers("--help"))]
pub struct DoctorArgs {
    /// folder that runs would be written to; the working directory when absent
    #[argh(option, arg_name = "dir")]
    pub folder: Option<String>,
    /// device that a run would use: auto (a missing GPU is no failure), cpu, cuda or sim (the virtual GPU)
    #[argh(option, arg_name = "kind")]
    pub device: Option<String>,
    /// megabytes to write when the disk is timed
    #[argh(option, default = "64", arg_name = "n")]
    pub disk_megabytes: u64,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`DoctorArgs`].
pub const DOCTOR_FLAGS: &[Flag] = &[
    Flag::new("folder", Value),
    Flag::new("device", Value),
    Flag::new("disk-megabytes", Value),
    Flag::new("json", Switch),
];
