//! The training loop of the verb `train`.

use super::anomaly::History;
use super::batches::Batches;
use super::console::Console;
use super::data::{self, RunData};
use super::device::DeviceChoice;
use super::engine::{Engine, StepRecord};
use super::metrics::MetricsFile;
use super::sample::{SampleSettings, Sampler};
use super::start::{Folders, cannot_write, start};
use super::step::PendingStep;
use super::stop::{Reason, Stop};
use super::{flops, settings};
use crate::checkpoint::{BackgroundSaver, TrainState};
use crate::cli::{Exit, Failure, TrainRequest};
use crate::config::file;
use crate::config::run::RunConfig;
use crate::records::clock::WallClock;
use crate::records::expert_matrix::ExpertMatrix;
use crate::records::run_card::RunCard;
use crate::records::tensorboard::EventWriter;
use lightning_core::model::Trace;
use lightning_data::prefetch::BatchRequest;
use lightning_data::{Accounting, BatchSource};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// What a run takes from outside, so that a test can put something else in its place.
pub(super) struct Surroundings {
    /// Time stamps.
    pub(super) clock: fn() -> WallClock,
    /// Stands between the data and the loop.
    pub(super) batches: fn(Arc<dyn BatchSource>) -> Arc<dyn BatchSource>,
}

/// Trains: opens the data, builds or loads the model, and runs steps until the end, a signal or a numerical stop.
///
/// # Errors
/// Every failure with its exit code; checkpoints that are complete stay.
pub fn train(request: TrainRequest) -> Result<(), Failure> {
    train_in(request, &Surroundings { clock: WallClock::default, batches: |source| source })
}

pub(super) fn train_in(request: TrainRequest, surroundings: &Surroundings) -> Result<(), Failure> {
    let config = &request.resolved.config;
    let stop = Stop::install(config.train.exit_signal_handler, settings::time_limit(config)?)?;
    let choice = DeviceChoice::of(config)?;
    let threads = choice.threads();
    let spec = settings::model_spec(config)?;
    choice.refuse_dtype(spec.precision.act)?;
    let adam = settings::adam(config)?;
    crate::plan::refuse_what_does_not_fit(config, &choice)?;
    let mut say = |text: &str| eprintln!("{text}");
    let mut data = data::open_unless_stopped(config, threads, &stop, &mut say)?;
    data.train = (surroundings.batches)(data.train);
    stop.check("data preparation")?;
    let folders = Folders::open(config)?;
    let sampler = sampler(config, &spec, &data, &choice)?;
    let mut engine = Engine::new(spec, Some(&adam), &choice, Trace::Off).map_err(Failure::from).map_err(|failure| {
        let refused = failure.exit == Exit::OutOfMemory;
        if refused { crate::plan::refused_memory(config, &choice, failure) } else { failure }
    })?;
    let state = start(config, &folders, &mut engine, &data, &stop)?;
    stop.check("the start")?;
    stop.has_state();
    let folder = folders.run.clone();
    let run_config = file::to_toml(&request.resolved);
    let config_path = folder.join("run_config.toml");
    fs::write(&config_path, &run_config).map_err(|e| cannot_write(&config_path, &e))?;
    let resumed = (state.iteration > 0).then_some(state.iteration);
    let sources = data.train.source_names();
    let metrics = MetricsFile::open(&folder.join("metrics.jsonl"), resumed, &sources)?;
    let mut clock = (surroundings.clock)();
    let tensorboard = config.logger.tensorboard_dir.as_ref().map_or_else(|| folder.join("tensorboard"), PathBuf::from);
    let events = EventWriter::create(&tensorboard, state.iteration, (surroundings.clock)())?;
    let card = (data.describe(), describe_model(&engine, sampler.as_ref()));
    let mut card = RunCard::begin(&folder, &request, &run_config, card.0, card.1, resumed, &mut clock)?;
    announce(config, &engine, sampler.as_ref(), &folder);
    let console = Console::new(state.iteration, config.train.train_iters, config.logger.log_interval);
    let mut run = Run {
        micro_batches: settings::micro_batches(config)?,
        flops: flops::PerToken::of(&engine),
        history: History::new(config.logger.anomaly_batches, config.logger.spike_zscore),
        saved_at: resumed,
        snapshot_at: resumed,
        saver: BackgroundSaver::new(),
        config,
        engine,
        data,
        metrics,
        events,
        console,
        folders,
        run_config,
        state,
        stop,
        sampler,
        pending: VecDeque::new(),
        overlap: choice.overlaps() && !config.train.check_finite,
        finished: None,
        accountings: Vec::new(),
        record: StepRecord::default(),
        interval_counts: Vec::new(),
        anomalies: 0,
        first_validation: None,
        last_validation: None,
    };
    let outcome = run.steps();
    run.console.finish();
    let ended = run.finish_records(&mut card, &outcome, &mut clock);
    outcome?;
    ended?;
    run.summary(request.json);
    Ok(())
}

/// What writes text while training, if the configuration asks for it.
fn sampler(
    config: &RunConfig,
    spec: &lightning_core::model::ModelSpec,
    data: &RunData,
    choice: &DeviceChoice,
) -> Result<Option<Sampler>, Failure> {
    let Some((every, settings)) = SampleSettings::of(config) else { return Ok(None) };
    let Some(tokenizer) = &data.tokenizer else {
        let message =
            format!("logger.sample_interval = {every}: text needs a tokenizer; set tokenizer.tokenizer_model");
        return Err(Failure::new(Exit::Usage, message));
    };
    Sampler::new(spec, settings, tokenizer, choice).map(Some)
}

fn announce(config: &RunConfig, engine: &Engine, sampler: Option<&Sampler>, folder: &Path) {
    eprintln!(
        "model: {} parameters in {} tensors, {} layers, {}, {} loss heads, {:.0} MB planned",
        engine.model.layout.element_count(),
        engine.model.layout.tensor_count(),
        engine.model.spec.config.layers.len(),
        engine.model.spec.precision.act,
        1 + engine.model.spec.config.mtp_depth(),
        engine.allocated_bytes() as f64 / 1e6,
    );
    if let Some(sampler) = sampler {
        eprintln!("samples: a second engine of {:.0} MB", sampler.allocated_bytes() as f64 / 1e6);
    }
    let loss = match config.model.calculate_per_token_loss {
        true => "per token of the global batch",
        false => "mean of micro-batch means",
    };
    eprintln!("loss: {loss}; {}; run folder {}", engine.device.describe(), folder.display());
    if config.train.overfit_batch {
        eprintln!("overfitting the first batch: the loss must fall to almost nothing");
    }
}

fn describe_model(engine: &Engine, sampler: Option<&Sampler>) -> Value {
    json!({
        "parameters": engine.model.layout.element_count(),
        "tensors": engine.model.layout.tensor_count(),
        "layers": engine.model.spec.config.layers.len(),
        "precision": engine.model.spec.precision.act.name(),
        "planned_bytes": engine.allocated_bytes() + sampler.map_or(0, Sampler::allocated_bytes),
    })
}

/// A run that is going on.
pub(super) struct Run<'c> {
    pub(super) config: &'c RunConfig,
    pub(super) engine: Engine,
    pub(super) data: RunData,
    pub(super) metrics: MetricsFile,
    pub(super) events: EventWriter,
    pub(super) console: Console,
    pub(super) folders: Folders,
    pub(super) run_config: String,
    pub(super) state: TrainState,
    pub(super) stop: Stop,
    pub(super) history: History,
    pub(super) sampler: Option<Sampler>,
    pub(super) micro_batches: usize,
    pub(super) flops: flops::PerToken,
    /// Steps that the device was given and whose results were not yet looked at, oldest first.
    pub(super) pending: VecDeque<PendingStep>,
    /// Whether results of a step are looked at while the device works on the next one.
    overlap: bool,
    /// When the results of the last step were there.
    pub(super) finished: Option<Instant>,
    /// Tables of tokens and documents that no step uses now.
    pub(super) accountings: Vec<Accounting>,
    /// What the last step reported.
    pub(super) record: StepRecord,
    /// Tokens per expert, [routers, experts], summed since the last matrix was written.
    interval_counts: Vec<f64>,
    pub(super) anomalies: u64,
    /// Step of the newest complete checkpoint.
    pub(super) saved_at: Option<u64>,
    /// Step of the newest one that was begun.
    pub(super) snapshot_at: Option<u64>,
    pub(super) saver: BackgroundSaver,
    pub(super) first_validation: Option<(u64, f64)>,
    pub(super) last_validation: Option<(u64, f64)>,
}

impl Run<'_> {
    fn steps(&mut self) -> Result<(), Failure> {
        let total = self.config.train.train_iters;
        if self.validation_is_owed() {
            self.validate()?;
        }
        let mut batches = Batches::start(self.data.train.clone(), self.requests(), 2)?;
        while self.state.iteration < total {
            if let Some(reason) = self.stop.reason() {
                self.look_at_steps(0)?;
                return self.save_and_stop(reason);
            }
            match self.take_step(&mut batches) {
                Ok(true) => {}
                Ok(false) => continue,
                // Broken data: the optimizer has not seen the step, so that the one before it can be saved.
                Err(failure) if failure.exit == Exit::Invalid => {
                    self.look_at_steps(0)?;
                    return Err(self.save_what_can_be_saved(failure));
                }
                Err(failure) => return Err(failure),
            }
            let step = self.state.iteration;
            let v = &self.config.validation;
            let validates = self.validates() && (step % v.eval_interval == 0 || step == total);
            let c = &self.config.checkpoint;
            let due = c.save_interval.is_some_and(|n| n > 0 && step % n == 0) || step == total;
            let leaves = step == total || self.config.train.exit_interval.is_some_and(|n| n > 0 && step % n == 0);
            let samples = self.config.logger.sample_interval.is_some_and(|n| n > 0 && step % n == 0);
            let looks_now = !self.overlap || validates || due || leaves || samples;
            self.look_at_steps(usize::from(!looks_now))?;
            if validates && self.stop.reason().is_none() {
                self.validate()?;
            }
            self.sample()?;
            if (due || leaves) && self.snapshot_at != Some(step) {
                self.save(leaves)?;
            }
            if leaves {
                break;
            }
        }
        self.finish_save()
    }

    /// Reads back and records what steps reported, but for the newest `keep` ones, which the device still works on.
    fn look_at_steps(&mut self, keep: usize) -> Result<(), Failure> {
        while self.pending.len() > keep {
            let Some(m) = self.finish_step()? else { break };
            self.poll_save()?;
            self.console.step(&m);
            let record = m.to_json();
            if let Err(failure) = self.write_record(&m, &record) {
                return Err(self.save_what_can_be_saved(failure));
            }
            let limit = self.config.train.max_nonfinite_steps;
            if limit > 0 && self.state.skipped_in_a_row >= limit {
                return Err(self.numerical_stop(limit));
            }
        }
        Ok(())
    }

    /// Which batches the rest of the run takes.
    fn requests(&self) -> impl Iterator<Item = BatchRequest> + Send + 'static {
        let (total, global) = (self.config.train.train_iters, self.config.train.global_batch_size);
        let overfit = self.config.train.overfit_batch;
        let micro_batches = self.micro_batches as u64;
        let (first, consumed) = (self.state.iteration, self.state.consumed_train_samples);
        (first..total).flat_map(move |step| {
            let consumed_samples = if overfit { 0 } else { consumed + (step - first) * global };
            (0..micro_batches).map(move |micro_batch| BatchRequest { consumed_samples, micro_batch, dp_rank: 0 })
        })
    }

    /// Writes what a step reports to the metrics file and the event file, and looks at it.
    fn write_record(&mut self, m: &super::metrics::StepMetrics, record: &Value) -> Result<(), Failure> {
        self.metrics.write(record)?;
        self.events.write(m.iteration, record, "")?;
        self.look_for_anomalies(m)?;
        if self.interval_counts.len() != self.record.counts.len() {
            self.interval_counts = vec![0.0; self.record.counts.len()];
        }
        for (sum, count) in self.interval_counts.iter_mut().zip(&self.record.counts) {
            *sum += count;
        }
        let interval = self.config.logger.log_interval.max(1);
        if m.iteration % interval == 0 || m.iteration == self.config.train.train_iters {
            if !self.record.counts.is_empty() {
                let (routers, bias) = (self.engine.model.routers(), self.record.biases.clone());
                let matrix = ExpertMatrix::from_counts(routers, self.engine.experts(), &self.interval_counts, bias);
                self.metrics.write(&matrix.to_json(m.iteration))?;
                self.interval_counts.fill(0.0);
            }
            self.events.flush()?;
        }
        if let Some(seconds) = self.events.take_step_back() {
            self.console.say(&format!(
                "the clock of this machine went back by {seconds:.0} s; time stamps stand still until it has caught up"
            ));
            self.metrics.write(&json!({ "event": "clock", "iteration": m.iteration, "went_back_s": seconds }))?;
        }
        Ok(())
    }

    /// Text of the current weights, if it is time for it.
    fn sample(&mut self) -> Result<(), Failure> {
        let (Some(sampler), Some(tokenizer)) = (&mut self.sampler, &self.data.tokenizer) else { return Ok(()) };
        let step = self.state.iteration;
        let every = self.config.logger.sample_interval.unwrap_or(0);
        if every == 0 || step % every != 0 {
            return Ok(());
        }
        let stop = &self.stop;
        let text = sampler.sample(&self.engine, step, tokenizer, || stop.reason().is_none())?;
        self.console.say(&format!("sample after step {step}: {text:?}"));
        self.metrics.write(&json!({ "event": "sample", "iteration": step, "text": text }))
    }

    fn numerical_stop(&self, limit: u64) -> Failure {
        let message = format!(
            "stopped after {limit} steps in a row with gradients that are not finite (step {}); lower optimizer.lr or check \
             the data, then resume from the last checkpoint{}",
            self.state.iteration,
            self.saved_at.map_or(String::new(), |s| format!(" (step {s})"))
        );
        Failure::new(Exit::Numerical, message)
    }

    /// The end of a run that is stopped from outside: its state is saved, and the scheduler is told to start it again.
    fn save_and_stop(&mut self, reason: Reason) -> Result<(), Failure> {
        let step = self.state.iteration;
        if self.snapshot_at != Some(step) {
            self.save(true)?;
        }
        self.finish_save()?;
        let how = match self.folders.named {
            true => "start the same command again".to_string(),
            false => format!("start the same command with --load_dir {}", self.folders.checkpoints.display()),
        };
        Err(Failure::new(Exit::Requeue, format!("stopped by {} after step {step}; {how}", reason.name())))
    }
}
