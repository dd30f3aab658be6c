//! The training loop of the verb `train`.

use super::console::{Console, duration};
use super::data::{self, RunData};
use super::engine::{Engine, StepReport, available_threads};
use super::metrics::{MetricsFile, StepMetrics};
use super::{flops, settings};
use crate::checkpoint::{self, LoadOptions, TrainState};
use crate::cli::{Exit, Failure, TrainRequest};
use crate::config::file;
use crate::config::run::RunConfig;
use lightning_core::model::Trace;
use lightning_data::Batch;
use lightning_data::prefetch::{BatchRequest, Prefetcher};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Trains: opens the data, builds or loads the model, and runs steps until the end, a signal or a numerical stop.
///
/// # Errors
/// Every failure with its exit code; checkpoints that are complete stay.
pub fn train(request: TrainRequest) -> Result<(), Failure> {
    let config = &request.resolved.config;
    let threads = config.device.threads.unwrap_or_else(available_threads);
    let spec = settings::model_spec(config)?;
    let adam = settings::adam(config)?;
    let mut say = |text: &str| eprintln!("{text}");
    let data = data::open(config, threads, &mut say)?;
    let mut engine = Engine::new(spec, Some(&adam), threads, Trace::Off)?;
    let state = start(config, &mut engine, &data)?;
    let folder = run_folder(config)?;
    let run_config = file::to_toml(&request.resolved);
    let config_path = folder.join("run_config.toml");
    fs::write(&config_path, &run_config).map_err(|e| cannot_write(&config_path, &e))?;
    let resumed = (state.iteration > 0).then_some(state.iteration);
    let metrics = MetricsFile::open(&folder.join("metrics.jsonl"), resumed)?;
    let checkpoints = config
        .checkpoint
        .save
        .as_ref()
        .map_or_else(|| folder.join("checkpoints"), PathBuf::from);
    let heads = 1 + engine.model.spec.config.mtp_depth();
    eprintln!(
        "model: {} parameters in {} tensors, {} layers, {}, {} loss heads, {:.0} MB planned",
        engine.model.layout.element_count(),
        engine.model.layout.tensor_count(),
        engine.model.spec.config.layers.len(),
        engine.model.spec.precision.act,
        heads,
        engine.allocated_bytes() as f64 / 1e6,
    );
    eprintln!(
        "loss: {}; {} threads; run folder {}",
        if config.model.calculate_per_token_loss {
            "per token of the global batch"
        } else {
            "mean of micro-batch means"
        },
        threads,
        folder.display()
    );
    let console = Console::new(
        state.iteration,
        config.train.train_iters,
        config.logger.log_interval,
    );
    let mut run = Run {
        micro_batches: settings::micro_batches(config)?,
        flops: flops::PerToken::of(&engine),
        config,
        engine,
        data,
        metrics,
        console,
        checkpoints,
        run_config,
        state,
        saved_at: None,
        first_validation: None,
        last_validation: None,
    };
    let outcome = run.steps();
    run.console.finish();
    outcome?;
    run.summary(&folder, request.json);
    Ok(())
}

/// Initialises the model, or loads what the configuration names.
fn start(config: &RunConfig, engine: &mut Engine, data: &RunData) -> Result<TrainState, Failure> {
    let c = &config.checkpoint;
    let fresh = TrainState {
        seed: config.rng.seed,
        data: data.fingerprint.clone(),
        ..TrainState::default()
    };
    if let Some(load) = &c.load {
        let folder = checkpoint::resolve(Path::new(load), c.ckpt_step)?;
        let optimizer = !c.finetune && c.load_optim;
        let state = checkpoint::load(engine, &folder, LoadOptions { optimizer })?;
        if c.finetune {
            eprintln!("weights of {}", folder.display());
            return Ok(fresh);
        }
        if state.data != data.fingerprint {
            let message = format!(
                "{} was trained on other data or with another tokenizer\n  then: {}\n  now:  {}\n\
                 add checkpoint.finetune=true to take only its weights",
                folder.display(),
                state.data,
                data.fingerprint
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        eprintln!(
            "resuming after step {} of {}",
            state.iteration,
            folder.display()
        );
        return Ok(state);
    }
    let model = engine.model.clone();
    model.initialize(&mut engine.device, config.rng.seed)?;
    if let Some(path) = &c.pretrained_checkpoint {
        let folder = checkpoint::resolve(Path::new(path), None)?;
        checkpoint::load(engine, &folder, LoadOptions { optimizer: false })?;
        eprintln!("weights of {}", folder.display());
    }
    Ok(fresh)
}

fn cannot_write(path: &Path, e: &std::io::Error) -> Failure {
    let message = format!(
        "cannot write {}: {e}; set logger.dir to a folder that can be written",
        path.display()
    );
    Failure::new(Exit::Invalid, message)
}

/// The folder of the run: the given one, that of the run which is resumed, or a new one under `runs/`.
fn run_folder(config: &RunConfig) -> Result<PathBuf, Failure> {
    let resumed = config
        .checkpoint
        .load
        .as_ref()
        .filter(|_| !config.checkpoint.finetune)
        .and_then(|load| {
            let candidates = Path::new(load).ancestors().take(3);
            candidates
                .filter(|dir| dir.join("metrics.jsonl").is_file())
                .map(Path::to_path_buf)
                .next()
        });
    let folder = config
        .logger
        .dir
        .as_ref()
        .map(PathBuf::from)
        .or(resumed)
        .unwrap_or_else(|| {
            let name = config.run.recipe.as_deref().unwrap_or("train");
            let seconds = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs();
            PathBuf::from(format!("runs/{name}-{seconds}"))
        });
    fs::create_dir_all(&folder).map_err(|e| cannot_write(&folder, &e))?;
    Ok(folder)
}

struct Run<'c> {
    config: &'c RunConfig,
    engine: Engine,
    data: RunData,
    metrics: MetricsFile,
    console: Console,
    checkpoints: PathBuf,
    run_config: String,
    state: TrainState,
    micro_batches: usize,
    flops: flops::PerToken,
    saved_at: Option<u64>,
    first_validation: Option<f64>,
    last_validation: Option<(u64, f64)>,
}

/// The flag that SIGTERM and SIGUSR1 set; a second signal ends the process at once.
fn install_signals(on: bool) -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    if on {
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGUSR1] {
            let install = || -> std::io::Result<()> {
                signal_hook::flag::register_conditional_shutdown(
                    signal,
                    128 + signal,
                    flag.clone(),
                )?;
                signal_hook::flag::register(signal, flag.clone())?;
                Ok(())
            };
            install().map_err(|e| {
                Failure::new(
                    Exit::Unexpected,
                    format!("cannot handle signal {signal}: {e}"),
                )
            })?;
        }
    }
    Ok(flag)
}

impl Run<'_> {
    fn steps(&mut self) -> Result<(), Failure> {
        let stop = install_signals(self.config.train.exit_signal_handler)?;
        let (total, global) = (
            self.config.train.train_iters,
            self.config.train.global_batch_size,
        );
        let v = &self.config.validation;
        let validates = v.eval_interval > 0 && v.eval_iters > 0;
        if validates && self.state.iteration == 0 {
            self.validate()?;
        }
        let micro_batches = self.micro_batches as u64;
        let (first, consumed) = (self.state.iteration, self.state.consumed_train_samples);
        let requests = (first..total).flat_map(move |step| {
            let consumed_samples = consumed + (step - first) * global;
            (0..micro_batches).map(move |micro_batch| BatchRequest {
                consumed_samples,
                micro_batch,
                dp_rank: 0,
            })
        });
        let mut batches = Prefetcher::start(self.data.train.clone(), requests, 2)?;
        while self.state.iteration < total {
            let metrics = self.step(&mut batches)?;
            self.console.step(&metrics);
            self.metrics.write(&metrics.to_json())?;
            let limit = self.config.train.max_nonfinite_steps;
            let report = self.engine.report()?;
            if limit > 0 && report.skipped_in_a_row >= limit {
                let message = format!(
                    "stopped after {limit} steps in a row with gradients that are not finite (step {}); lower \
                     optimizer.lr or check the data, then resume from the last checkpoint{}",
                    self.state.iteration,
                    self.saved_at
                        .map_or(String::new(), |s| format!(" (step {s})"))
                );
                return Err(Failure::new(Exit::Numerical, message));
            }
            let step = self.state.iteration;
            if validates && (step % v.eval_interval == 0 || step == total) {
                self.validate()?;
            }
            let c = &self.config.checkpoint;
            if stop.load(Ordering::Relaxed) {
                self.save()?;
                let message = format!(
                    "stopped by a signal after step {step}; start the same command with --load_dir {}",
                    self.checkpoints.display()
                );
                return Err(Failure::new(Exit::Requeue, message));
            }
            if c.save_interval.is_some_and(|n| n > 0 && step % n == 0) || step == total {
                self.save()?;
            }
            if self
                .config
                .train
                .exit_interval
                .is_some_and(|n| n > 0 && step % n == 0)
            {
                if self.saved_at != Some(step) {
                    self.save()?;
                }
                break;
            }
        }
        Ok(())
    }

    /// One optimizer step.
    fn step(&mut self, batches: &mut Prefetcher) -> Result<StepMetrics, Failure> {
        let start = Instant::now();
        for micro_batch in 0..self.micro_batches {
            let batch = match batches.next_batch() {
                Some(batch) => batch?,
                None => {
                    return Err(Failure::new(
                        Exit::Unexpected,
                        "the batches ended before the run",
                    ));
                }
            };
            self.load(&batch, micro_batch)?;
            self.engine.micro_batch(micro_batch == 0)?;
            batches.recycle(batch);
        }
        let losses = self.engine.losses()?;
        let report = self.engine.step(self.config.train.global_batch_size)?;
        let elapsed = start.elapsed();
        self.advance(&report);
        let m = self.micro_batches as f64;
        let tokens = (self.micro_batches * self.engine.model.spec.batch.tokens()) as f64;
        let rate = tokens / elapsed.as_secs_f64();
        let coefficient = self.engine.model.spec.objective.aux_coefficient;
        let aux = (!losses.aux.is_empty() && coefficient > 0.0)
            .then(|| losses.aux.iter().sum::<f64>() / (coefficient * m * losses.aux.len() as f64));
        let (worst, dead) = balance(&self.engine.expert_counts()?);
        Ok(StepMetrics {
            iteration: self.state.iteration,
            consumed_samples: self.state.consumed_train_samples,
            lm_loss: losses.sums[0] / losses.tokens[0].max(1.0),
            mtp_losses: losses.means[1..].iter().map(|x| x / m).collect(),
            mtp_acceptance: (1..losses.sums.len())
                .map(|k| 100.0 * losses.hits[k] / losses.tokens[k].max(1.0))
                .collect(),
            load_balancing_loss: aux,
            grad_norm: report.grad_norm,
            learning_rate: report.learning_rate,
            elapsed_ms: elapsed.as_secs_f64() * 1e3,
            tokens_per_s: rate,
            tflops_charged: self.flops.charged * rate / 1e12,
            tflops_honest: self.flops.honest * rate / 1e12,
            expert_max_over_mean: worst,
            expert_dead_share: dead,
            loss_tokens: losses.tokens[0] as u64,
            skipped: report.skipped,
            skipped_total: report.skipped_total,
            data_wait_ms: batches.take_waited().as_secs_f64() * 1e3,
        })
    }

    fn load(&mut self, batch: &Batch, micro_batch: usize) -> Result<(), Failure> {
        let counter = [self.state.iteration as i32, micro_batch as i32 + 1];
        self.engine.set_noise_counter(counter)?;
        Ok(self.engine.load(batch)?)
    }

    fn advance(&mut self, report: &StepReport) {
        self.state.iteration += 1;
        self.state.consumed_train_samples += self.config.train.global_batch_size;
        self.state.schedule_samples = report.consumed_samples;
        self.state.optimizer_steps = report.steps;
        self.state.skipped_steps = report.skipped_total;
        self.state.skipped_in_a_row = report.skipped_in_a_row;
    }

    /// Mean loss over validation batches that training never saw.
    fn validate(&mut self) -> Result<(), Failure> {
        let Some(valid) = self.data.valid.clone() else {
            return Ok(());
        };
        let v = &self.config.validation;
        let global = v
            .eval_global_batch_size
            .unwrap_or(self.config.train.global_batch_size);
        let micro_batches = global / self.config.train.micro_batch_size;
        let start = Instant::now();
        self.engine.clear_losses()?;
        let mut batch = Batch::default();
        for _ in 0..v.eval_iters {
            for micro_batch in 0..micro_batches {
                valid.fill(
                    self.state.consumed_valid_samples,
                    micro_batch,
                    0,
                    &mut batch,
                )?;
                self.load(&batch, micro_batch as usize)?;
                self.engine.evaluate()?;
            }
            self.state.consumed_valid_samples += global;
        }
        let losses = self.engine.losses()?;
        let mean = |k: usize| losses.sums[k] / losses.tokens[k].max(1.0);
        let loss = mean(0);
        self.first_validation.get_or_insert(loss);
        self.last_validation = Some((self.state.iteration, loss));
        let mut record = json!({
            "event": "validation", "iteration": self.state.iteration, "lm loss": loss,
            "tokens": losses.tokens[0], "elapsed_ms": start.elapsed().as_secs_f64() * 1e3,
        });
        let mut text = format!(
            "validation after step {}: lm {loss:.4}",
            self.state.iteration
        );
        for k in 1..losses.sums.len() {
            record[format!("mtp_{k} loss")] = json!(mean(k));
            text += &format!("  mtp{k} {:.4}", mean(k));
        }
        text += &format!(
            "  ({} tokens, {})",
            losses.tokens[0],
            duration(start.elapsed())
        );
        self.console.say(&text);
        self.metrics.write(&record)
    }

    fn save(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        let c = &self.config.checkpoint;
        let folder = checkpoint::save(
            &self.engine,
            &self.checkpoints,
            &self.state,
            &self.run_config,
            c.save_optim,
        )?;
        if let Some(keep) = c.most_recent_k {
            checkpoint::prune(&self.checkpoints, keep, c.keep_every_n)?;
        }
        self.saved_at = Some(self.state.iteration);
        let seconds = start.elapsed().as_secs_f64();
        self.console
            .say(&format!("saved {} in {seconds:.1} s", folder.display()));
        let event = json!({ "event": "checkpoint", "iteration": self.state.iteration, "elapsed_ms": seconds * 1e3 });
        self.metrics.write(&event)
    }

    /// What the run wrote and what to try next.
    fn summary(&self, folder: &Path, json: bool) {
        let last = iteration_path(&self.checkpoints, self.saved_at);
        if json {
            let result = json!({
                "iteration": self.state.iteration, "folder": folder, "metrics": self.metrics.path(), "checkpoint": last,
                "first_validation_loss": self.first_validation, "last_validation_loss": self.last_validation.map(|v| v.1),
            });
            println!("{result}");
        }
        eprintln!("\ndone after step {}", self.state.iteration);
        if let (Some(first), Some((step, loss))) = (self.first_validation, self.last_validation) {
            eprintln!("validation loss: {first:.4} at first, {loss:.4} after step {step}");
        }
        eprintln!(
            "wrote  {}  one line per step",
            self.metrics.path().display()
        );
        eprintln!(
            "       {}  the resolved configuration",
            folder.join("run_config.toml").display()
        );
        if let Some(last) = &last {
            eprintln!("       {}  weights and optimizer", last.display());
        }
        let longer = self.config.train.train_iters * 2;
        eprintln!("next   train longer from here:");
        eprintln!(
            "         lightning-train train --config {} --load_dir {} --max_steps {longer}",
            folder.join("run_config.toml").display(),
            self.checkpoints.display()
        );
        eprintln!(
            "       train on your own text:  lightning-train train --recipe demo_pretrain_config --data PATH"
        );
        eprintln!(
            "       see every setting:       lightning-train train --recipe demo_pretrain_config --dry-run"
        );
    }
}

fn iteration_path(checkpoints: &Path, saved_at: Option<u64>) -> Option<PathBuf> {
    saved_at.map(|step| checkpoint::iteration_folder(checkpoints, step))
}

/// The worst router's largest load over its mean, and the share of experts without a token.
fn balance(counts: &[Vec<f64>]) -> (Option<f64>, Option<f64>) {
    let experts: usize = counts.iter().map(Vec::len).sum();
    let ratios = counts.iter().filter_map(|row| {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        (mean > 0.0).then(|| row.iter().copied().fold(0.0, f64::max) / mean)
    });
    let worst = ratios.fold(None, |worst: Option<f64>, r| {
        Some(worst.map_or(r, |w| w.max(r)))
    });
    let dead = counts.iter().flatten().filter(|c| **c == 0.0).count();
    (worst, worst.map(|_| dead as f64 / experts as f64))
}
