//! `bench kernels`: every distinct operation of a model's training step alone on a GPU. A real device is timed; the virtual
//! one has no time and is counted.

mod counts;
mod operands;

use crate::cli::{BenchKernelsArgs, Exit, Failure};
use crate::config::choices::DeviceKind;
use crate::hf::HfConfig;
use crate::plan::targets::{self, Target};
use crate::train::device::DeviceChoice;
use counts::{Counts, Reader};
use lightning_core::CoreError;
use lightning_core::config::{ModelConfig, preset};
use lightning_core::device::Device;
use lightning_core::gpu::{GpuDevice, GpuOptions};
use lightning_core::model::{
    MicroBatch, Model, ModelSpec, Objective, Precision, ProgramKind, Routing, Trace, Training,
};
use lightning_core::ops::LossScale;
use lightning_core::program::{Op, Recompute};
use lightning_core::tensor::DType;
use operands::{Single, shapes};
use std::collections::BTreeMap;
use std::path::Path;

const WARM_UP: usize = 5;

/// What is known of an operation after its run.
struct Row {
    op: &'static str,
    shapes: String,
    /// How often the step has it.
    calls: usize,
    kernels: Vec<&'static str>,
    flops: u64,
    /// Bytes of its operands, each read and written once as it must be.
    bytes: u64,
    outcome: Outcome,
}

enum Outcome {
    /// Seconds, sorted.
    Timed(Vec<f64>),
    Counted(Counts),
    /// Why it did not run.
    Refused(String),
}

/// Runs the benchmark and prints its results.
///
/// # Errors
/// Unknown shapes, no usable device, or what the device reports.
pub fn kernels(args: BenchKernelsArgs) -> Result<(), Failure> {
    let config = model(&args.shapes)?;
    let virtual_gpu = args.device == DeviceKind::Sim;
    if virtual_gpu && std::env::var_os(counts::VARIABLE).is_none() {
        return start_again();
    }
    let DeviceChoice::Gpu(options) = DeviceChoice::from_parts(args.device, None, true)? else {
        let message = "bench kernels needs a GPU; use --device sim for the virtual one";
        return Err(Failure::new(Exit::Device, message));
    };
    let tokens = args.tokens.unwrap_or(if virtual_gpu { 16 } else { 8192 });
    if tokens < 2 || args.repeats == 0 {
        return Err(Failure::new(Exit::Usage, "--tokens must be at least 2 and --repeats at least 1"));
    }
    let mut reader = if virtual_gpu { Some(Reader::open()?) } else { None };
    let mut rows = Vec::new();
    for (op, calls) in operations(config, tokens)? {
        let words = shapes(&op);
        if !format!("{} {words}", op.name()).contains(&args.filter) {
            continue;
        }
        let (flops, bytes) = (op.flops(), op.traffic().total());
        let (kernels, outcome) = match measure(&op, options, args.repeats, reader.as_mut()) {
            Ok(measured) => measured,
            Err(failure) if failure.exit == Exit::Device || failure.exit == Exit::OutOfMemory => {
                (Vec::new(), Outcome::Refused(failure.to_string()))
            }
            Err(failure) => return Err(failure),
        };
        rows.push(Row { op: op.name(), shapes: words, calls, kernels, flops, bytes, outcome });
    }
    let name = lightning_core::gpu::devices().map_err(Failure::from)?.swap_remove(options.ordinal).name;
    let target = targets::TARGETS.iter().find(|t| name.to_ascii_lowercase().contains(t.name));
    for row in &rows {
        println!("{}", if args.json { row.json(&name, target).to_string() } else { row.text(target) });
    }
    Ok(())
}

/// The model whose shapes are named: `30b`, `tiny`, a preset, or the config.json of a checkpoint.
fn model(shapes: &str) -> Result<ModelConfig, Failure> {
    let named = match shapes {
        "30b" => "nemotron_3_5_lightning",
        "tiny" => "oracle_tiny",
        other => other,
    };
    if let Some(config) = preset(named) {
        return Ok(config);
    }
    let path = Path::new(shapes);
    if !path.exists() {
        let message = format!("--shapes {shapes}: neither 30b, tiny, a model's name nor a config.json that exists");
        return Err(Failure::new(Exit::Usage, message));
    }
    HfConfig::read(path).map(|config| config.model).map_err(|e| Failure::new(Exit::Invalid, e.to_string()))
}

/// Starts this program again with a file for the counts, which the driver looks for when it first launches.
fn start_again() -> Result<(), Failure> {
    let unexpected = |e: std::io::Error| Failure::new(Exit::Unexpected, format!("cannot start again to count: {e}"));
    let file = std::env::temp_dir().join(format!("lightning-counts-{}.jsonl", std::process::id()));
    let program = std::env::current_exe().map_err(unexpected)?;
    let mut again = std::process::Command::new(program);
    let status = again.args(std::env::args_os().skip(1)).env(counts::VARIABLE, &file).status().map_err(unexpected)?;
    _ = std::fs::remove_file(&file);
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        code => std::process::exit(code.unwrap_or(Exit::Unexpected as i32)),
    }
}

/// The distinct operations of a training step's first micro-batch, and how often each occurs.
fn operations(config: ModelConfig, tokens: usize) -> Result<Vec<(Op, usize)>, Failure> {
    let spec = ModelSpec {
        config,
        precision: Precision::of(DType::BF16),
        batch: MicroBatch { rows: 1, row_len: tokens, max_offsets: 2, padding: false },
        objective: Objective {
            scale: LossScale::MeanOfMeans(1),
            mtp_factor: 0.3,
            aux_coefficient: 1e-4,
            bias_rate: 1e-3,
        },
        routing: Routing::Natural,
        training: Training::Full,
        recompute: Recompute::NONE,
    };
    let program = Model::new(spec)?.record(ProgramKind::TrainFirst, Trace::Off);
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut found: Vec<(Op, usize)> = Vec::new();
    for node in &program.nodes {
        let mut key = node.op.name().to_string();
        node.op.operands(&mut |name, t, access| {
            key += &format!(" {name} {} {}x{}/{} {} {access:?}", t.dtype, t.rows, t.cols, t.ld, t.offset % 8);
        });
        match places.get(&key) {
            Some(place) => found[*place].1 += 1,
            None => {
                places.insert(key, found.len());
                found.push((node.op.clone(), 1));
            }
        }
    }
    Ok(found)
}

fn measure(
    op: &Op,
    options: GpuOptions,
    repeats: usize,
    reader: Option<&mut Reader>,
) -> Result<(Vec<&'static str>, Outcome), Failure> {
    let single = Single::new(op)?;
    let mut device = GpuDevice::new(&single.table, &[&single.program], options)?;
    let kernels = device.launches(&single.program)?.into_iter().map(|(kernel, _)| kernel).collect();
    single.fill(&mut device)?;
    let Some(reader) = reader else {
        let mut seconds = device.time(&single.program, WARM_UP, repeats)?;
        if seconds.is_empty() {
            return Err(CoreError::Device {
                doing: "timing".into(),
                reason: "this device has no time; use --device sim to count on the virtual GPU".into(),
            }
            .into());
        }
        seconds.sort_by(f64::total_cmp);
        return Ok((kernels, Outcome::Timed(seconds)));
    };
    reader.next()?;
    // Waits for the launches, whose counts are then written.
    device.run_node(&single.program, 0)?;
    Ok((kernels, Outcome::Counted(reader.next()?)))
}

/// Value at a share of sorted ones.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

impl Row {
    /// Least time on a device: the larger of its operations and its bytes at the device's peaks.
    fn floor(&self, target: &Target) -> f64 {
        (self.flops as f64 / target.flops).max(self.bytes as f64 / target.bandwidth)
    }

    fn text(&self, target: Option<&Target>) -> String {
        let head = format!("{:<22} {:>3}x  {}", self.op, self.calls, self.shapes);
        let kernels = self.kernels.join(" ");
        match &self.outcome {
            Outcome::Timed(seconds) => {
                let median = quantile(seconds, 0.5);
                let roof =
                    target.map_or(String::new(), |t| format!("  {:5.1} % of the roof", 100.0 * self.floor(t) / median));
                format!(
                    "{head}\n    {:9.1} us (p10 {:.1}, p90 {:.1})  {:7.1} TFLOP/s  {:7.0} GB/s{roof}  {kernels}",
                    median * 1e6,
                    quantile(seconds, 0.1) * 1e6,
                    quantile(seconds, 0.9) * 1e6,
                    self.flops as f64 / median / 1e12,
                    self.bytes as f64 / median / 1e9
                )
            }
            Outcome::Counted(c) => format!(
                "{head}\n    {} of {} FLOP by matrix instructions, {} bytes of {} at least, {} bank conflicts, {} warp \
                 instructions  {kernels}",
                c.matrix_flops, self.flops, c.bytes, self.bytes, c.conflicts, c.warp_instructions
            ),
            Outcome::Refused(why) => format!("{head}\n    not run: {why}"),
        }
    }

    fn json(&self, device: &str, target: Option<&Target>) -> serde_json::Value {
        let mut row = serde_json::json!({
            "op": self.op, "shapes": self.shapes, "calls": self.calls, "kernels": self.kernels, "device": device,
            "flops": self.flops, "bytes": self.bytes,
        });
        match &self.outcome {
            Outcome::Timed(seconds) => {
                let median = quantile(seconds, 0.5);
                row["median_us"] = (median * 1e6).into();
                row["p10_us"] = (quantile(seconds, 0.1) * 1e6).into();
                row["p90_us"] = (quantile(seconds, 0.9) * 1e6).into();
                row["tflops"] = (self.flops as f64 / median / 1e12).into();
                row["gb_per_s"] = (self.bytes as f64 / median / 1e9).into();
                row["of_roof"] = target.map(|t| self.floor(t) / median).into();
            }
            Outcome::Counted(c) => {
                row["matrix_flops"] = c.matrix_flops.into();
                row["moved_bytes"] = c.bytes.into();
                row["bank_conflicts"] = c.conflicts.into();
                row["warp_instructions"] = c.warp_instructions.into();
            }
            Outcome::Refused(why) => row["not_run"] = why.as_str().into(),
        }
        row
    }
}
