//! Automatic adjustments, made after every layer (pipeline.md §3.3). Each leaves its reason as the value's origin.

use super::choices::*;
use super::error::ConfigError;
use super::launch::{self, Launch};
use super::resolve::{Layers, Origin};
use super::setting::Setting;

impl Layers {
    /// Sets a value because of another one; a value that is already there keeps its origin.
    fn derive<T: Setting>(&mut self, key: &str, value: T, why: impl Into<String>) -> Result<(), ConfigError> {
        let value = value.to_value();
        if self.config.get(key).as_ref() == Some(&value) {
            return Ok(());
        }
        self.set(key, &value, Origin::Derived(why.into()))
    }

    /// Makes two settings equal: the one with the stronger origin wins, the first on a tie of weak ones.
    fn tie(&mut self, first: &str, second: &str) -> Result<(), ConfigError> {
        let (a, b) = (self.config.get(first), self.config.get(second));
        let (Some(a), Some(b)) = (a, b) else {
            return Ok(());
        };
        if a == b {
            return Ok(());
        }
        let (of_first, of_second) = (self.origin(first).rank(), self.origin(second).rank());
        if of_first == of_second && self.origin(first).is_user() {
            let reason = format!("{second} = {b} ({}) must be the same; set one of them", self.origin(second));
            return Err(ConfigError::invalid(first, a, reason));
        }
        let (from, to, value) = if of_second > of_first { (second, first, b) } else { (first, second, a) };
        self.set(to, &value, Origin::Derived(format!("same as {from}")))
    }
}

/// Applies all adjustments.
///
/// # Errors
/// Two settings that must be equal were both set by the user, differently.
pub(super) fn apply(
    layers: &mut Layers,
    launch: &Launch,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), ConfigError> {
    if let Some(warning) = &launch.warning {
        layers.note(warning.clone());
    }
    about_the_run(layers, launch)?;
    layout(layers)?;
    lengths(layers)?;
    precision(layers)?;
    data(layers)?;
    fine_tuning(layers)?;
    benchmark(layers, launch)?;
    schedule(layers)?;
    keep_existing_variables(layers, environment)
}

/// The `run` section records what was started; only the mode can be set in it.
fn about_the_run(layers: &mut Layers, launch: &Launch) -> Result<(), ConfigError> {
    let run = &layers.config.run;
    if run.recipe.as_deref() != layers.recipe.map(|r| r.name) {
        let value = run.recipe.to_value();
        return Err(ConfigError::invalid("run.recipe", value, "records the recipe; choose one with --recipe"));
    }
    if let (Some(size), true) = (run.world_size, layers.origin("run.world_size").is_user())
        && size != launch.world_size
    {
        let reason = format!(
            "records the ranks, which are {} here ({}); start the program with more ranks, or give --nodes and \
             --gpus-per-node for a dry run",
            launch.world_size, launch.source
        );
        return Err(ConfigError::invalid("run.world_size", size, reason));
    }
    if !run.deterministic {
        return Err(ConfigError::invalid("run.deterministic", false, "runs are always deterministic; set it to true"));
    }
    layers.derive("run.world_size", Some(launch.world_size), launch.source.clone())
}

fn layout(layers: &mut Layers) -> Result<(), ConfigError> {
    if layers.config.model.tensor_model_parallel_size == 1 {
        layers.derive("model.sequence_parallel", false, "one tensor-parallel rank has nothing to split")?;
    }
    layers.tie("ddp.use_megatron_fsdp", "dist.use_megatron_fsdp")?;
    if layers.config.model.num_layers.is_none() || !layers.origin("model.num_layers").is_user() {
        let length = layers.config.model.hybrid_layer_pattern.chars().count();
        layers.derive("model.num_layers", Some(length), "length of model.hybrid_layer_pattern")?;
    }
    Ok(())
}

fn lengths(layers: &mut Layers) -> Result<(), ConfigError> {
    layers.tie("model.seq_length", "dataset.seq_length")
}

/// The fields of the precision object overwrite those of the same name (recipes.md §1.4).
fn precision(layers: &mut Layers) -> Result<(), ConfigError> {
    let mixed = layers.config.mixed_precision.clone();
    match mixed.precision {
        Precision::F32 => layers.derive("mixed_precision.grad_accum_dtype", DType::F32, "f32 run")?,
        Precision::F64 => layers.derive("mixed_precision.grad_accum_dtype", DType::F64, "f64 run")?,
        _ => {
            let reduce = layers.origin("mixed_precision.grad_reduce_in_fp32");
            let accumulate = layers.origin("mixed_precision.grad_accum_dtype");
            if reduce.is_user() && reduce.rank() > accumulate.rank() {
                let dtype = if mixed.grad_reduce_in_fp32 { DType::F32 } else { DType::Bf16 };
                layers.derive(
                    "mixed_precision.grad_accum_dtype",
                    dtype,
                    "follows mixed_precision.grad_reduce_in_fp32",
                )?;
            }
        }
    }
    for (key, value) in [
        ("ddp.grad_reduce_in_fp32", mixed.grad_reduce_in_fp32),
        ("model.first_last_layers_bf16", mixed.first_last_layers_bf16),
        ("optimizer.reuse_grad_buf_for_mxfp8_param_ag", mixed.reuse_grad_buf_for_mxfp8_param_ag),
        ("ddp.reuse_grad_buf_for_mxfp8_param_ag", mixed.reuse_grad_buf_for_mxfp8_param_ag),
    ] {
        let name = key.split_once('.').map_or(key, |(_, name)| name);
        let overwritten = layers.origin(key).is_user() && layers.config.get(key) != Some(value.to_value());
        layers.derive(key, value, format!("overwritten by mixed_precision.{name}"))?;
        if overwritten {
            layers.note(format!("{key} has no effect of its own; set mixed_precision.{name}"));
        }
    }
    Ok(())
}

fn data(layers: &mut Layers) -> Result<(), ConfigError> {
    const SOURCES: [&str; 4] =
        ["dataset.data_path", "dataset.blend", "dataset.blend_per_split", "dataset.per_split_data_args_path"];
    let data = &layers.config.dataset;
    let per_split = data.blend_per_split.is_some() || data.per_split_data_args_path.is_some();
    let indexed = per_split || data.blend.is_some() || data.data_path.is_some();
    let text = data.path.is_some();
    // Data that is given decides the kind, unless the kind was asked for more strongly.
    let kind = layers.origin("dataset.kind").rank();
    let given = |keys: &[&str]| keys.iter().map(|k| layers.origin(k).rank()).max().unwrap_or(0);
    if layers.mode() == Mode::Pretrain && kind < Origin::File(String::new()).rank() {
        if indexed && given(&SOURCES) >= kind {
            let why = "token files are given";
            layers.derive("dataset.kind", DatasetKind::MegatronIndexed, why)?;
        } else if text && given(&["dataset.path"]) >= kind {
            layers.derive("dataset.kind", DatasetKind::Text, "dataset.path is given")?;
        }
    }
    if !layers.origin("dataset.split").is_user() {
        if per_split {
            layers.derive("dataset.split", None::<String>, "blends are given per split")?;
        } else if layers.config.dataset.kind == DatasetKind::Mock {
            layers.derive("dataset.split", Some("1,1,1".to_string()), "mock data")?;
        }
    }
    if layers.config.dataset.kind == DatasetKind::Text {
        vocabulary(layers)?;
    }
    Ok(())
}

/// The tokenizer that is trained on text has the model's vocabulary: the size that was asked for more strongly wins.
fn vocabulary(layers: &mut Layers) -> Result<(), ConfigError> {
    let (model, data) = ("model.vocab_size", "dataset.vocab_size");
    let (of_model, of_data) = (layers.origin(model).rank(), layers.origin(data).rank());
    let rows = layers.config.model.vocab_size;
    match layers.config.dataset.vocab_size {
        Some(size) if of_data > of_model => {
            layers.derive(model, size, "dataset.vocab_size")?;
        }
        Some(_) if of_data == of_model => {}
        _ => layers.derive(data, Some(rows), "model.vocab_size")?,
    }
    Ok(())
}

fn fine_tuning(layers: &mut Layers) -> Result<(), ConfigError> {
    if layers.mode() == Mode::Lora {
        layers.derive("peft.scheme", Some(PeftScheme::Lora), "run.mode = lora")?;
    } else if layers.mode() == Mode::Sft && !layers.origin("peft.scheme").is_user() {
        layers.derive("peft.scheme", None::<PeftScheme>, "run.mode = sft")?;
    }
    if !layers.mode().is_fine_tuning() {
        return Ok(());
    }
    let (tp, cp) = (layers.config.model.tensor_model_parallel_size, layers.config.model.context_parallel_size);
    if layers.config.dataset.enable_offline_packing {
        let length = layers.config.model.seq_length;
        layers.derive("dataset.packed_sequence_size", Some(length), "model.seq_length")?;
        let mut multiple = layers.config.dataset.pad_seq_to_mult.max(1);
        if cp > 1 {
            multiple = launch::lcm(multiple, 2 * cp);
        }
        if layers.config.model.sequence_parallel {
            multiple = launch::lcm(multiple, cp * tp);
        }
        layers.derive("dataset.pad_seq_to_mult", multiple, "multiple that the parallel sizes need")?;
    }
    if cp > 1 {
        layers.derive("model.calculate_per_token_loss", true, "fine-tuning with context parallelism")?;
        layers.derive("ddp.average_in_collective", false, "fine-tuning with context parallelism")?;
    }
    Ok(())
}

/// Benchmarks scale the global batch with the data-parallel ranks and switch the precision-aware optimizer on.
fn benchmark(layers: &mut Layers, launch: &Launch) -> Result<(), ConfigError> {
    let Some(recipe) = layers.recipe.filter(|r| r.benchmark) else {
        return Ok(());
    };
    // The launch of a dry run on a laptop says nothing about the machine that the recipe is for.
    let share = launch::model_parallel_size(&layers.config).max(1);
    let fits = launch::smallest_world(&layers.config) <= launch.world_size;
    if fits && !layers.origin("train.global_batch_size").is_user() && launch.world_size != recipe.gpus {
        let (ours, theirs) = (launch.world_size / share, recipe.data_parallel_size());
        let batch = layers.config.train.global_batch_size * ours as u64 / theirs.max(1) as u64;
        let smallest = layers.config.train.micro_batch_size * ours as u64;
        let why = format!("benchmark scaled from {theirs} to {ours} data-parallel ranks");
        layers.derive("train.global_batch_size", batch.max(smallest), why)?;
    }
    let key = "optimizer.use_precision_aware_optimizer";
    if layers.config.mixed_precision.precision == Precision::Bf16 && !layers.origin(key).is_user() {
        layers.derive(key, true, "bf16 benchmark with Adam")?;
    }
    Ok(())
}

fn schedule(layers: &mut Layers) -> Result<(), ConfigError> {
    let steps = layers.config.scheduler.max_steps.unwrap_or(layers.config.train.train_iters);
    let weak = !layers.origin("scheduler.lr_decay_iters").is_user()
        && matches!(layers.origin("scheduler.lr_decay_iters"), Origin::Default | Origin::Derived(_));
    if layers.config.scheduler.lr_decay_iters.is_none() || weak {
        let why = if layers.config.scheduler.max_steps.is_some() { "scheduler.max_steps" } else { "train.train_iters" };
        layers.derive("scheduler.lr_decay_iters", Some(steps), why)?;
    }
    let decay = layers.config.scheduler.lr_decay_iters.unwrap_or(steps);
    let warmup = layers.config.scheduler.lr_warmup_iters;
    if warmup >= decay && warmup > 0 {
        layers.note(format!(
            "scheduler.lr_warmup_iters = {warmup} does not end before scheduler.lr_decay_iters = {decay}: the warm-up \
             is cut to one sample less than the decay"
        ));
    }
    if layers.origin("optimizer.weight_decay").is_user()
        && !layers.origin("scheduler.start_weight_decay").is_user()
        && layers.config.optimizer.weight_decay != layers.config.scheduler.start_weight_decay
    {
        layers.note(format!(
            "optimizer.weight_decay = {} is recorded only: the weight decay in effect is scheduler.start_weight_decay = {} \
             to scheduler.end_weight_decay = {}; set those",
            layers.config.optimizer.weight_decay,
            layers.config.scheduler.start_weight_decay,
            layers.config.scheduler.end_weight_decay
        ));
    }
    Ok(())
}

/// Variables of a recipe are defaults: one that exists wins.
fn keep_existing_variables(
    layers: &mut Layers,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), ConfigError> {
    if layers.origin("env.vars").is_user() {
        return Ok(());
    }
    let mut vars = layers.config.env.vars.clone();
    let mut changed = false;
    for (name, value) in &mut vars {
        if let Some(existing) = environment(name).filter(|e| e != value) {
            *value = existing;
            changed = true;
        }
    }
    if changed {
        layers.set("env.vars", &vars.to_value(), Origin::Environment)?;
    }
    Ok(())
}
