//! `bench step`: training steps of a named model on random tokens, beside the rate of the step's own matrix products.

use crate::cli::{BenchStepArgs, Exit, Failure};
use crate::doctor::machine::processor;
use crate::plan::kernel_table::{KernelTable, KernelTime};
use crate::train::device::DeviceChoice;
use crate::train::engine::Engine;
use lightning_core::config::{PRESETS, preset};
use lightning_core::cpu::{Form, Mat, MatMut, Workers, matmul};
use lightning_core::model::{AdamConfig, MicroBatch, ModelSpec, Objective, Precision, Routing, Trace, Training};
use lightning_core::ops::LossScale;
use lightning_core::optim::{Decay, Schedule};
use lightning_core::program::{Op, Program};
use lightning_core::rng::Philox;
use lightning_core::tensor::DType;
use lightning_data::Batch;
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds by operation.
type Profile = BTreeMap<&'static str, f64>;

/// Runs the benchmark and prints its results.
///
/// # Errors
/// Unknown model or type, or memory that the system refuses.
pub fn step(args: BenchStepArgs) -> Result<(), Failure> {
    let config = preset(&args.config).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|(n, _)| *n).collect();
        Failure::new(Exit::Usage, format!("--config {}: no such model; known are {}", args.config, known.join(", ")))
    })?;
    let act = DType::parse_float(&args.dtype)
        .ok_or_else(|| Failure::new(Exit::Usage, format!("--dtype {}: use f32, bf16 or f64", args.dtype)))?;
    if args.steps == 0 || args.batch == 0 || args.seq < 2 {
        return Err(Failure::new(Exit::Usage, "--steps and --batch must be at least 1 and --seq at least 2"));
    }
    let choice = DeviceChoice::from_parts(args.device, args.threads, true)?;
    let threads = choice.threads();
    let vocab = config.vocab;
    let spec = ModelSpec {
        config,
        precision: Precision::of(act),
        batch: MicroBatch { rows: args.batch, row_len: args.seq, max_offsets: args.batch + 1, padding: false },
        objective: Objective {
            scale: LossScale::MeanOfMeans(1),
            mtp_factor: 0.3,
            aux_coefficient: 1e-4,
            bias_rate: 1e-3,
        },
        routing: Routing::Natural,
        training: Training::Full,
        recompute: lightning_core::program::Recompute::NONE,
    };
    let schedule = Schedule {
        decay: Decay::Constant,
        init_lr: 0.0,
        max_lr: 1e-3,
        min_lr: 0.0,
        warmup_samples: 0,
        decay_samples: 1,
        wsd_samples: 0,
        start_weight_decay: 0.01,
        end_weight_decay: 0.01,
    };
    let adam = AdamConfig { betas: (0.9, 0.95), eps: 1e-8, clip: 1.0, schedule };
    let mut engine = Engine::new(spec, Some(&adam), &choice, Trace::Off)?;
    engine.model.clone().initialize(&mut engine.device, 0)?;
    let tokens = args.batch * args.seq;
    eprintln!(
        "{}: {} parameters, {} x {} tokens, {act}, {threads} threads, {:.0} MB",
        args.config,
        engine.model.layout.element_count(),
        args.batch,
        args.seq,
        engine.allocated_bytes() as f64 / 1e6
    );

    let mut times = Vec::new();
    let mut profile = Profile::new();
    let mut calls = Calls::new();
    let (first, optimizer) = (engine.first.clone(), engine.optimizer.clone());
    let programs: Vec<Program> = [first, optimizer].into_iter().flatten().collect();
    for i in 0..=args.steps {
        engine.load(&random_batch(i as u64, args.batch, args.seq, vocab))?;
        let start = Instant::now();
        let mut this = Profile::new();
        for program in &programs {
            timed(&mut engine, program, &mut this, &mut calls)?;
        }
        if i == 0 {
            calls.clear();
        }
        // The first step touches memory for the first time.
        if i > 0 {
            times.push(start.elapsed().as_secs_f64());
            for (name, seconds) in this {
                *profile.entry(name).or_default() += seconds / args.steps as f64;
            }
        }
    }
    if let Some(path) = &args.table {
        write_table(path, act, threads, calls)?;
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let rate = tokens as f64 / median;
    let products = products(&programs);
    let product_seconds = products_back_to_back(&products, threads);
    let product_flops: f64 = products.iter().map(|p| p.flops() * p.count as f64).sum();
    let total_flops: u64 = programs.iter().map(Program::flops).sum();
    if args.json {
        let result = serde_json::json!({
            "config": args.config, "dtype": act.name(), "threads": threads, "tokens": tokens,
            "step_ms": median * 1e3, "tokens_per_s": rate, "gflops": total_flops as f64 / median / 1e9,
            "products_ms": product_seconds * 1e3, "products_gflops": product_flops / product_seconds / 1e9,
            "operations_ms": profile.iter().map(|(n, s)| (n.to_string(), s * 1e3)).collect::<BTreeMap<_, _>>(),
        });
        println!("{result}");
        return Ok(());
    }
    println!("step {:.1} ms  {rate:.0} tokens/s  {:.1} GFLOP/s", median * 1e3, total_flops as f64 / median / 1e9);
    println!(
        "its matrix products back to back: {:.1} ms  {:.1} GFLOP/s  ({:.0} % of the step)",
        product_seconds * 1e3,
        product_flops / product_seconds / 1e9,
        100.0 * product_seconds / median
    );
    println!("where the step goes:");
    let mut rows: Vec<_> = profile.into_iter().collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (name, seconds) in rows {
        println!("  {name:<22} {:>8.2} ms  {:>5.1} %", seconds * 1e3, 100.0 * seconds / median);
    }
    Ok(())
}

fn random_batch(step: u64, rows: usize, seq: usize, vocab: usize) -> Batch {
    let mut rng = Philox::new(step, 0xbe7c);
    let mut batch = Batch::default();
    batch.reset(rows, seq, false, false);
    for id in &mut batch.tokens {
        *id = rng.below(vocab as u64) as i32;
    }
    for t in 0..rows * seq {
        let last = (t + 1) % seq == 0;
        batch.labels[t] = if last { 0 } else { batch.tokens[t + 1] };
        batch.loss_mask[t] = if last { 0.0 } else { 1.0 };
    }
    batch.documents.physical.0 = (0..=rows).map(|r| (r * seq) as i32).collect();
    batch
}

/// Times of calls by operation, FLOPs and bytes.
type Calls = BTreeMap<(&'static str, u64, u64), Vec<f64>>;

fn timed(engine: &mut Engine, program: &Program, profile: &mut Profile, calls: &mut Calls) -> Result<(), Failure> {
    let mut last = Instant::now();
    engine.device.run_observed(program, |index| {
        let now = Instant::now();
        let (op, seconds) = (&program.nodes[index].op, (now - last).as_secs_f64());
        *profile.entry(op.name()).or_default() += seconds;
        calls.entry((op.name(), op.flops(), op.traffic().total())).or_default().push(seconds);
        last = Instant::now();
    })?;
    Ok(())
}

/// Writes the medians as a table for plans.
fn write_table(path: &str, precision: DType, threads: usize, calls: Calls) -> Result<(), Failure> {
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2].max(1e-9)
    };
    let one = |((op, flops, bytes), times): ((&str, u64, u64), Vec<f64>)| KernelTime {
        op: op.into(),
        precision: Some(precision.name().into()),
        flops: flops as f64,
        bytes: (bytes as f64).max(1.0),
        seconds: median(times),
    };
    let machine = format!("{}, {threads} threads", processor().unwrap_or_else(|| "unknown processor".into()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let table = KernelTable::new("cpu", &machine, now, calls.into_iter().map(one).collect());
    std::fs::write(path, table.to_text())
        .map_err(|e| Failure::new(Exit::Invalid, format!("--table {path}: {e}; choose a file that can be written")))
}

/// A matrix product of the step and how often it occurs.
struct Product {
    form: Form,
    m: usize,
    n: usize,
    k: usize,
    count: usize,
}

impl Product {
    fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

/// Every projection, expert (at balanced load) and head product of the programs.
fn products(programs: &[Program]) -> Vec<Product> {
    let mut counts: BTreeMap<(u8, usize, usize, usize), usize> = BTreeMap::new();
    let mut add = |form: Form, m: usize, n: usize, k: usize, times: usize| {
        let form = match form {
            Form::NT => 0,
            Form::NN => 1,
            Form::TN => 2,
        };
        *counts.entry((form, m, n, k)).or_default() += times;
    };
    for node in programs.iter().flat_map(|p| &p.nodes) {
        match &node.op {
            Op::LinearFwd(op) => add(Form::NT, op.x.rows, op.w.rows, op.w.cols, 1),
            Op::LinearBwd(op) => {
                add(Form::NN, op.dy.rows, op.w.cols, op.w.rows, 1);
                add(Form::TN, op.w.rows, op.w.cols, op.dy.rows, 1);
            }
            Op::ExpertsFwd(op) => {
                let (experts, f, d) = (op.offsets.cols - 1, op.p.cols, op.x.cols);
                let rows = op.p.rows / experts;
                add(Form::NT, rows, f, d, experts);
                add(Form::NT, rows, d, f, experts);
            }
            Op::ExpertsBwd(op) => {
                let (experts, f, d) = (op.fwd.offsets.cols - 1, op.fwd.p.cols, op.dout.cols);
                let rows = op.fwd.p.rows / experts;
                for (form, m, n, k) in
                    [(Form::NN, rows, f, d), (Form::NN, rows, d, f), (Form::TN, f, d, rows), (Form::TN, d, f, rows)]
                {
                    add(form, m, n, k, experts);
                }
            }
            Op::LinearCrossEntropy(op) => {
                for head in &op.heads {
                    let (t, v, d) = (head.h.rows, op.w.rows, op.w.cols);
                    add(Form::NT, t, v, d, 1);
                    add(Form::NN, t, d, v, 1);
                    add(Form::TN, v, d, t, 1);
                }
            }
            _ => {}
        }
    }
    let form = |f: u8| [Form::NT, Form::NN, Form::TN][f as usize];
    counts.into_iter().map(|((f, m, n, k), count)| Product { form: form(f), m, n, k, count }).collect()
}

/// Seconds of all products in f32, one after the other.
fn products_back_to_back(products: &[Product], threads: usize) -> f64 {
    let largest = |size: &dyn Fn(&Product) -> usize| products.iter().map(size).max().unwrap_or(0);
    let a = vec![0.5f32; largest(&|p| p.m * p.k)];
    let b = vec![0.25f32; largest(&|p| p.n * p.k)];
    let mut c = vec![0.0f32; largest(&|p| p.m * p.n)];
    let mut best = f64::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        Workers::with_threads(threads, |workers| {
            for p in products {
                let (ar, ac) = if p.form == Form::TN { (p.k, p.m) } else { (p.m, p.k) };
                let (br, bc) = if p.form == Form::NT { (p.n, p.k) } else { (p.k, p.n) };
                for _ in 0..p.count {
                    let out = MatMut::new(&mut c[..p.m * p.n], p.m, p.n);
                    let (a, b) = (Mat::new(&a[..ar * ac], ar, ac), Mat::new(&b[..br * bc], br, bc));
                    matmul::<f32, f32>(workers, p.form, a, b, false, out);
                }
            }
        });
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}
