//! Flags of the conversion verbs.

use crate::cli::argv::{Flag, Takes};
use argh::FromArgs;

use Takes::{LauncherSwitch, LauncherValue, Switch, Value};

/// Read a Hugging Face checkpoint and write it in this program's own format (not Megatron's).
///
/// Writes PATH/iter_0000000 and the tracker file. Every tensor of the source is accounted for and keeps its type; a
/// conversion that was interrupted goes on where it ended. Prints a table of all tensors to standard output.
#[derive(FromArgs, Debug, Clone)]
#[argh(help_triggers("--help"))]
pub struct ImportArgs {
    /// folder of the checkpoint, or a repository id (NAME/MODEL) in the local cache
    #[argh(option, arg_name = "dir")]
    pub hf_model: String,
    /// branch, tag or commit of a repository id
    #[argh(option, arg_name = "name")]
    pub hf_revision: Option<String>,
    /// folder for the new checkpoint (--megatron-path is accepted; the format is ours, not Megatron's)
    #[argh(option, arg_name = "dir")]
    pub checkpoint_path: String,
    /// bfloat16, float16 or float32: convert weights; absent, every tensor keeps its type
    #[argh(option, arg_name = "type")]
    pub torch_dtype: Option<String>,
    /// replace a checkpoint that is there
    #[argh(switch)]
    pub overwrite: bool,
    /// leave out tensors that the model does not have, and the MTP block when the source has none of it
    #[argh(switch)]
    pub not_strict: bool,
    /// one worker; memory is bounded in any case
    #[argh(switch)]
    pub low_memory: bool,
    /// files written at once, 1 to 16; each takes at most 32 MiB of memory
    #[argh(option, arg_name = "n")]
    pub workers: Option<usize>,
    /// count and check without reading data or writing anything
    #[argh(switch)]
    pub dry_run: bool,
    /// no progress bar
    #[argh(switch)]
    pub no_progress: bool,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

const SCHEDULER: [Flag; 17] = [
    Flag::new("executor", LauncherValue),
    Flag::new("nodes", LauncherValue),
    Flag::new("gpus-per-node", LauncherValue),
    Flag::new("mem", LauncherValue),
    Flag::new("account", LauncherValue),
    Flag::new("partition", LauncherValue),
    Flag::new("time", LauncherValue),
    Flag::new("gres", LauncherValue),
    Flag::new("exclusive", LauncherSwitch),
    Flag::new("no-gpu-resource-request", LauncherSwitch),
    Flag::new("container-image", LauncherValue),
    Flag::new("mount", LauncherValue),
    Flag::new("env", LauncherValue),
    Flag::new("srun-arg", LauncherValue),
    Flag::new("experiment-name", LauncherValue),
    Flag::new("detach", LauncherSwitch),
    Flag::new("trust-remote-code", LauncherSwitch),
];

const COMMON: [Flag; 11] = [
    Flag::new("hf-model", Value),
    Flag::new("hf-revision", Value),
    Flag::with("checkpoint-path", &["megatron-path"], Value),
    Flag::new("torch-dtype", Value),
    Flag::new("overwrite", Switch),
    Flag::new("not-strict", Switch),
    Flag::with("low-memory", &["low-memory-save"], Switch),
    Flag::new("workers", Value),
    Flag::with("dry-run", &["submission-dry-run"], Switch),
    Flag::new("no-progress", Switch),
    Flag::new("json", Switch),
];

const fn joined<const A: usize, const B: usize, const N: usize>(a: [Flag; A], b: [Flag; B]) -> [Flag; N] {
    let mut all = [a[0]; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < A { a[i] } else { b[i - A] };
        i += 1;
    }
    all
}

/// Flags of [`ImportArgs`].
pub const IMPORT_FLAGS: &[Flag] = &joined::<11, 17, 28>(COMMON, SCHEDULER);

/// Write a Hugging Face checkpoint from this program's own.
///
/// Types are those of --hf-model, else those of the checkpoint's own source, else F32 for A_log, D and the correction
/// bias and BF16 for the rest. Strict: every tensor of the model, and of --hf-model, must be there with its shape.
#[derive(FromArgs, Debug, Clone)]
#[argh(help_triggers("--help"))]
pub struct ExportArgs {
    /// checkpoint to export: an iter_NNNNNNN folder or the folder of a run (--megatron-path is accepted; the format is
    /// ours, not Megatron's)
    #[argh(option, arg_name = "dir")]
    pub checkpoint_path: String,
    /// folder to write
    #[argh(option, arg_name = "dir")]
    pub hf_path: String,
    /// checkpoint whose types, tensors and side files are to be had (folder or cached repository id)
    #[argh(option, arg_name = "dir")]
    pub hf_model: Option<String>,
    /// branch, tag or commit of a repository id
    #[argh(option, arg_name = "name")]
    pub hf_revision: Option<String>,
    /// bfloat16, float16 or float32: convert weights (A_log, D and the correction bias keep their types)
    #[argh(option, arg_name = "type")]
    pub torch_dtype: Option<String>,
    /// folder of a PEFT LoRA adapter to merge into the weights, in fp32
    #[argh(option, arg_name = "dir")]
    pub adapter: Option<String>,
    /// largest file in bytes
    #[argh(option, arg_name = "bytes", default = "5_000_000_000")]
    pub max_shard_size: u64,
    /// replace a folder that is there
    #[argh(switch)]
    pub overwrite: bool,
    /// write what is there when tensors are missing or unknown
    #[argh(switch)]
    pub not_strict: bool,
    /// one worker; memory is bounded in any case
    #[argh(switch)]
    pub low_memory: bool,
    /// files written at once, 1 to 16; each takes at most 32 MiB of memory
    #[argh(option, arg_name = "n")]
    pub workers: Option<usize>,
    /// count and check without reading data or writing anything
    #[argh(switch)]
    pub dry_run: bool,
    /// no progress bar
    #[argh(switch)]
    pub no_progress: bool,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

const EXPORT_ONLY: [Flag; 5] = [
    Flag::new("hf-path", Value),
    Flag::new("adapter", Value),
    Flag::new("max-shard-size", Value),
    Flag::new("distributed-save", LauncherSwitch),
    Flag::new("save-every-n-ranks", LauncherValue),
];

/// Flags of [`ExportArgs`]. `--export-weight-dtype` is another name of `--torch-dtype`.
pub const EXPORT_FLAGS: &[Flag] = &{
    let mut all = joined::<5, 28, 33>(EXPORT_ONLY, joined::<11, 17, 28>(COMMON, SCHEDULER));
    all[8] = Flag::with("torch-dtype", &["export-weight-dtype"], Value);
    all
};

/// Import, export, and compare every tensor with the source bit by bit. Exit code 7 when one differs.
#[derive(FromArgs, Debug, Clone)]
#[argh(help_triggers("--help"))]
pub struct RoundtripArgs {
    /// folder of the checkpoint, or a repository id (NAME/MODEL) in the local cache
    #[argh(option, arg_name = "dir")]
    pub hf_model: String,
    /// branch, tag or commit of a repository id
    #[argh(option, arg_name = "name")]
    pub hf_revision: Option<String>,
    /// folder for the checkpoint in our format (--megatron-path is accepted; the format is ours, not Megatron's)
    #[argh(option, arg_name = "dir")]
    pub checkpoint_path: String,
    /// folder for the exported checkpoint
    #[argh(option, arg_name = "dir")]
    pub hf_path: String,
    /// replace what is there
    #[argh(switch)]
    pub overwrite: bool,
    /// one worker; memory is bounded in any case
    #[argh(switch)]
    pub low_memory: bool,
    /// files written at once, 1 to 16; each takes at most 32 MiB of memory
    #[argh(option, arg_name = "n")]
    pub workers: Option<usize>,
    /// no progress bar
    #[argh(switch)]
    pub no_progress: bool,
    /// print machine-readable results
    #[argh(switch)]
    pub json: bool,
}

/// Flags of [`RoundtripArgs`].
pub const ROUNDTRIP_FLAGS: &[Flag] = &joined::<9, 17, 26>(
    [
        Flag::new("hf-model", Value),
        Flag::new("hf-revision", Value),
        Flag::with("checkpoint-path", &["megatron-path"], Value),
        Flag::new("hf-path", Value),
        Flag::new("overwrite", Switch),
        Flag::with("low-memory", &["low-memory-save"], Switch),
        Flag::new("workers", Value),
        Flag::new("no-progress", Switch),
        Flag::new("json", Switch),
    ],
    SCHEDULER,
);
