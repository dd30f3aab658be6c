//! `verify parity`: a checkpoint's forward pass and gradients against stored values, in layer order.
//!
//! Bounds (relative L2): f32 and f64 runs 2e-6 for hidden states, logits and losses and 1e-5 for gradients. bf16 runs use
//! the routing of our own f32 run; hidden states are allowed 5e-3 after the first layer, 1e-2 after the next four and 1e-2
//! times the root of a fifth of the depth behind them, logits as the last layer, losses 2e-3, gradients 3e-2 (5e-2 for A_log and
//! dt_bias, sums of cancelling terms).

use crate::cli::{Exit, Failure, VerifyParityArgs};
use crate::config::choices::DeviceKind;
use crate::hf::{HfConfig, TensorFiles};
use crate::train::device::DeviceChoice;
use crate::train::engine::Engine;
use lightning_core::config::ModelConfig;
use lightning_core::device::Device;
use lightning_core::model::{MicroBatch, ModelSpec, Objective, Precision, Routing, Trace, Training};
use lightning_core::ops::LossScale;
use lightning_core::tensor::DType;
use lightning_data::Batch;
use safetensors::Dtype;
use serde_json::json;
use std::path::{Path, PathBuf};

/// One compared tensor.
struct Comparison {
    name: String,
    error: f64,
    bound: f64,
}

impl Comparison {
    fn passes(&self) -> bool {
        // A NaN error fails.
        self.error <= self.bound
    }
}

/// Compares and prints; fails with exit code 7 when a bound is passed.
///
/// # Errors
/// Files that cannot be used (3), a checkpoint of another kind of model (2), a bound that is passed (7).
pub fn parity(args: VerifyParityArgs) -> Result<(), Failure> {
    let act = DType::parse_float(&args.dtype)
        .ok_or_else(|| Failure::new(Exit::Usage, format!("--dtype {}: use f32, bf16 or f64", args.dtype)))?;
    let folder = Path::new(&args.hf);
    let mut config = HfConfig::read(&folder.join("config.json"))?.model;
    if let (Some(dt_min), Some(mamba)) = (args.dt_min, &mut config.mamba) {
        mamba.dt_min = dt_min;
    }
    // The stored values are of the backbone: MTP weights are loaded but not run.
    if let Some(mtp) = &mut config.mtp {
        mtp.depth = 0;
    }
    let weights = TensorFiles::open_folder(folder)?;
    let golden = TensorFiles::open_files(&[PathBuf::from(&args.golden)])?;
    let grads = args.grads.as_ref().map(|g| TensorFiles::open_files(&[PathBuf::from(g)])).transpose()?;
    let batch = batch(&golden, &args.golden, config.vocab)?;
    let choice = DeviceChoice::from_parts(args.device, args.threads, true)?;
    choice.refuse_dtype(act)?;
    let run = Run { config: &config, weights: &weights, batch: &batch, gradients: grads.is_some() };
    let engine = match act {
        DType::BF16 => {
            let cpu = DeviceChoice::from_parts(DeviceKind::Cpu, args.threads, true)?;
            let routing = run.execute(&cpu, DType::F32, None)?;
            run.execute(&choice, act, Some(&routing))?
        }
        _ => run.execute(&choice, act, None)?,
    };
    let mut rows = compare_values(&engine, &golden, act)?;
    if let Some(grads) = &grads {
        compare_gradients(&engine, grads, act, &mut rows)?;
    }
    report(&rows, args.json)?;
    match rows.iter().find(|r| !r.passes()) {
        None => Ok(()),
        Some(first) => {
            let message = format!(
                "{} is the first tensor past its bound: relative L2 {:.3e}, allowed {:.1e} ({act}); the operation \
                 before it in the model is the one to look at",
                first.name, first.error, first.bound
            );
            Err(Failure::new(Exit::Verification, message))
        }
    }
}

/// The batch of a golden file: `input_ids` [rows, tokens], labels the next token, the last of each row left out.
fn batch(golden: &TensorFiles, file: &str, vocab: usize) -> Result<Batch, Failure> {
    let invalid = |message: String| Failure::new(Exit::Invalid, message);
    let entry = golden.entries().get("input_ids").ok_or_else(|| invalid(format!("{file} has no `input_ids`")))?;
    let (rows, row_len) = match entry.shape.as_slice() {
        [tokens] => (1, *tokens),
        [rows, tokens] => (*rows, *tokens),
        other => {
            return Err(invalid(format!("{file}: `input_ids` has shape {other:?}; [rows, tokens] is needed")));
        }
    };
    let ids = golden.integers("input_ids")?;
    if let Some(id) = ids.iter().find(|id| usize::try_from(**id).map_or(true, |id| id >= vocab)) {
        return Err(invalid(format!("{file}: id {id} is outside the model's vocabulary of {vocab}")));
    }
    if ids.is_empty() {
        return Err(invalid(format!("{file}: `input_ids` is empty")));
    }
    let mut batch = Batch::default();
    batch.reset(rows, row_len, false, false);
    for t in 0..ids.len() {
        let last = (t + 1) % row_len == 0;
        batch.labels[t] = if last { 0 } else { ids[t + 1] };
        batch.loss_mask[t] = if last { 0.0 } else { 1.0 };
    }
    batch.tokens = ids;
    batch.documents.physical.0 = (0..=rows).map(|r| (r * row_len) as i32).collect();
    Ok(batch)
}

struct Run<'r> {
    config: &'r ModelConfig,
    weights: &'r TensorFiles,
    batch: &'r Batch,
    gradients: bool,
}

impl Run<'_> {
    /// Runs the batch in a type, with the experts of another run when given.
    fn execute(&self, choice: &DeviceChoice, act: DType, routing: Option<&Engine>) -> Result<Engine, Failure> {
        let (rows, row_len) = (self.batch.rows, self.batch.seq_length);
        let scale = LossScale::MeanOfMeans(1);
        let spec = ModelSpec {
            config: self.config.clone(),
            precision: Precision::of(act),
            batch: MicroBatch { rows, row_len, max_offsets: rows + 1, padding: false },
            objective: Objective { scale, mtp_factor: 0.0, aux_coefficient: 0.0, bias_rate: 0.0 },
            routing: if routing.is_some() { Routing::Forced } else { Routing::Natural },
            recompute: lightning_core::program::Recompute::NONE,
            training: if self.gradients { Training::Gradients } else { Training::Off },
        };
        let mut engine = Engine::new(spec, None, choice, Trace::Full)?;
        let parts: Vec<_> = engine.model.parts().map(|(part, _, t)| (part.clone(), t)).collect();
        let model = engine.model.clone();
        for (part, tensors) in parts {
            let values = self.weights.floats(&part.name, &part.shape)?;
            model.write_weight(&mut engine.device, tensors, &values)?;
        }
        engine.load(self.batch)?;
        if let Some(other) = routing {
            let names = outputs(other).filter(|n| n.ends_with(".topk_idx"));
            for (name, tensor) in names.zip(model.inputs.forced.clone()) {
                let idx: Vec<i32> = value(other, &name)?.iter().map(|v| *v as i32).collect();
                engine.device.write_slice(model.persistent.buffers(), tensor, &idx)?;
            }
        }
        if self.gradients {
            engine.micro_batch(true)?
        } else {
            engine.evaluate()?
        }
        Ok(engine)
    }
}

fn program(engine: &Engine) -> &lightning_core::program::Program {
    engine.first.as_ref().unwrap_or(&engine.evaluate)
}

/// Names of the readable values in layer order.
fn outputs(engine: &Engine) -> impl Iterator<Item = String> + '_ {
    let mut names: Vec<&String> = program(engine).outputs.iter().map(|(n, _)| n).collect();
    names.sort_by_key(|n| layer_order(n));
    names.into_iter().cloned()
}

/// Routers come behind the hidden state that they read, the top behind all layers.
fn layer_order(name: &str) -> (usize, usize, String) {
    let mut words = name.split('.');
    let (stem, layer) = (words.next().unwrap_or(""), words.next().and_then(|l| l.parse().ok()));
    match (stem, layer) {
        ("hidden", Some(layer)) => (layer, 0, name.into()),
        ("router", Some(layer)) => (layer, 1, name.into()),
        ("final_hidden", _) => (usize::MAX, 0, name.into()),
        ("logits", _) => (usize::MAX, 1, name.into()),
        _ => (usize::MAX, 2, name.into()),
    }
}

fn value(engine: &Engine, name: &str) -> Result<Vec<f64>, Failure> {
    let program = program(engine);
    let tensor = program.output(name).expect("a name of the program");
    Ok(engine.device.read_f64(&program.buffers, tensor)?)
}

/// Allowed error of a value after `layer` layers.
fn value_bound(act: DType, layer: usize) -> f64 {
    match act {
        DType::BF16 => match layer {
            0 | 1 => 5e-3,
            2..=5 => 1e-2,
            deeper => 1e-2 * (deeper as f64 / 5.0).sqrt(),
        },
        _ => 2e-6,
    }
}

fn compare_values(engine: &Engine, golden: &TensorFiles, act: DType) -> Result<Vec<Comparison>, Failure> {
    let layers = engine.model.spec.config.layers.len();
    let mut names: Vec<&String> = golden.entries().keys().filter(|n| *n != "input_ids").collect();
    names.sort_by_key(|n| layer_order(n));
    let known: Vec<String> = outputs(engine).collect();
    let mut rows = Vec::new();
    let mut left_out = Vec::new();
    for name in names {
        let entry = &golden.entries()[name];
        let (layer, _, _) = layer_order(name);
        let bound = value_bound(act, layer.min(layers));
        if name == "loss" {
            let want = golden.floats(name, &entry.shape)?;
            let losses = engine.losses()?;
            let got = losses.sums[0] / losses.tokens[0].max(1.0);
            let bound = if act == DType::BF16 { 2e-3 } else { bound };
            rows.push(Comparison { name: name.clone(), error: relative_l2(&[got], &want, name)?, bound });
        } else if !known.contains(name) {
            left_out.push(name.as_str());
        } else if entry.dtype == Dtype::I32 || entry.dtype == Dtype::I64 {
            // Forced routing is not a result.
            if act != DType::BF16 {
                let want = golden.integers(name)?;
                let got = value(engine, name)?;
                let differ = got.iter().zip(&want).filter(|(g, w)| **g != f64::from(**w)).count();
                let error = if got.len() == want.len() { differ as f64 / want.len().max(1) as f64 } else { f64::NAN };
                rows.push(Comparison { name: name.clone(), error, bound: 0.0 });
            }
        } else {
            let want = golden.floats(name, &entry.shape)?;
            rows.push(Comparison {
                name: name.clone(),
                error: relative_l2(&value(engine, name)?, &want, name)?,
                bound,
            });
        }
    }
    if !left_out.is_empty() {
        eprintln!("note: not compared, no such value in this run: {}", left_out.join(", "));
    }
    if rows.is_empty() {
        let message = "the golden file holds none of logits, hidden.N, final_hidden, loss, router.N.*";
        return Err(Failure::new(Exit::Invalid, message));
    }
    Ok(rows)
}

fn compare_gradients(
    engine: &Engine,
    grads: &TensorFiles,
    act: DType,
    rows: &mut Vec<Comparison>,
) -> Result<(), Failure> {
    let buffers = engine.model.persistent.buffers();
    let mut compared = 0;
    for (part, _, tensors) in engine.model.parts() {
        let (Some(training), true) = (tensors.training, grads.entries().contains_key(&part.name)) else {
            continue;
        };
        let want = grads.floats(&part.name, &part.shape)?;
        let got = engine.device.read_f64(buffers, training.gradient)?;
        let cancelling = part.name.ends_with("A_log") || part.name.ends_with("dt_bias");
        let bound = match (act, cancelling) {
            (DType::BF16, true) => 5e-2,
            (DType::BF16, false) => 3e-2,
            _ => 1e-5,
        };
        let name = format!("d {}", part.name);
        rows.push(Comparison { error: relative_l2(&got, &want, &name)?, name, bound });
        compared += 1;
    }
    let left = grads.entries().len() - compared;
    if left > 0 {
        eprintln!("note: {left} gradients of the file are of tensors that this run does not train");
    }
    Ok(())
}

fn relative_l2(got: &[f64], want: &[f64], name: &str) -> Result<f64, Failure> {
    if got.len() != want.len() {
        let message = format!("`{name}` has {} values in the file and {} in the model", want.len(), got.len());
        return Err(Failure::new(Exit::Invalid, message));
    }
    let difference: f64 = got.iter().zip(want).map(|(g, w)| (g - w) * (g - w)).sum();
    let norm: f64 = want.iter().map(|w| w * w).sum();
    Ok(if norm == 0.0 { difference.sqrt() } else { (difference / norm).sqrt() })
}

fn report(rows: &[Comparison], as_json: bool) -> Result<(), Failure> {
    if as_json {
        let tensors: Vec<_> = rows
            .iter()
            .map(|r| json!({ "name": r.name, "relative_l2": r.error, "bound": r.bound, "passes": r.passes() }))
            .collect();
        println!("{}", json!({ "passes": rows.iter().all(Comparison::passes), "tensors": tensors }));
        return Ok(());
    }
    for r in rows {
        println!(
            "{:<64} {:>10.3e}  allowed {:.1e}  {}",
            r.name,
            r.error,
            r.bound,
            if r.passes() { "ok" } else { "FAIL" }
        );
    }
    Ok(())
}
