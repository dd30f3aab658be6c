//! A model on a device with the programs of its run: what the training loop, the benchmark and the verifiers drive.

use super::device::{AnyDevice, DeviceChoice};
use lightning_core::CoreError;
use lightning_core::device::Device;
use lightning_core::model::{AdamConfig, Model, ModelSpec, ProgramKind, Trace, Training};
use lightning_core::optim::{STATE_SLOTS, StateSlot};
use lightning_core::program::Program;
use lightning_core::tensor::{DType, Tensor};
use lightning_data::Batch;

/// Most bytes that the GEMM library (`matrixmultiply`) holds per thread while a product runs: its packed blocks of the two
/// operands, 64 x 256 and 256 x 1024 f64 elements, rounded up to its tiles. The only memory that a step allocates.
pub const GEMM_WORKSPACE_BYTES: usize = 256 * (64 + 1024 + 2 * 64) * 8;
/// Those buffers are aligned at least this much, and nothing of ours is.
pub const GEMM_WORKSPACE_ALIGNMENT: usize = 32;

/// Threads to use when nothing is said: what the process may run on.
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Losses of the micro-batches since they were last cleared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LossSums {
    /// Per head (LM, then MTP depths): sum of masked token losses.
    pub sums: Vec<f64>,
    /// Per head: tokens that counted.
    pub tokens: Vec<f64>,
    /// Per head: sum over micro-batches of mean losses.
    pub means: Vec<f64>,
    /// Per head: tokens whose label had the largest logit.
    pub hits: Vec<f64>,
    /// Per router: sum over micro-batches of auxiliary losses, coefficient included.
    pub aux: Vec<f64>,
    /// The device's table, row by row, before it is sorted into the vectors above.
    columns: Vec<f64>,
}

impl LossSums {
    /// Sorts the device's table, four values per head, into the vectors.
    fn sort(&mut self, heads: usize) {
        let targets = [&mut self.sums, &mut self.tokens, &mut self.means, &mut self.hits];
        for (column, target) in targets.into_iter().enumerate() {
            target.clear();
            target.extend((0..heads).map(|head| self.columns[4 * head + column]));
        }
    }
}

/// What is read back of a step, into vectors that keep their memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepRecord {
    /// Losses of its micro-batches.
    pub losses: LossSums,
    /// What the optimizer reports.
    pub report: StepReport,
    /// Tokens per expert, [routers, experts].
    pub counts: Vec<f64>,
    /// Expert biases after the step, [routers, experts].
    pub biases: Vec<f64>,
}

/// What an optimizer step reports.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepReport {
    /// Global gradient norm before clipping.
    pub grad_norm: f64,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Learning rate of the next step.
    pub next_learning_rate: f64,
    /// Whether the step was skipped.
    pub skipped: bool,
    /// Skipped steps since the last successful one.
    pub skipped_in_a_row: u64,
    /// Skipped steps of the run.
    pub skipped_total: u64,
    /// Samples consumed by successful steps.
    pub consumed_samples: u64,
    /// Successful steps.
    pub steps: u64,
}

impl StepReport {
    fn of(state: &[f64]) -> Self {
        let slot = |s: StateSlot| state[s as usize];
        Self {
            grad_norm: slot(StateSlot::GradNorm),
            learning_rate: slot(StateSlot::LearningRate),
            next_learning_rate: slot(StateSlot::NextLearningRate),
            skipped: slot(StateSlot::Skip) != 0.0,
            skipped_in_a_row: slot(StateSlot::SkippedInARow) as u64,
            skipped_total: slot(StateSlot::Skipped) as u64,
            consumed_samples: slot(StateSlot::Samples) as u64,
            steps: slot(StateSlot::Steps) as u64,
        }
    }
}

/// Values of a tensor as f64, behind what is in `out` or in its place.
fn widen((bytes, dtype): (&[u8], DType), out: &mut Vec<f64>, replace: bool) {
    if replace {
        out.clear();
    }
    match dtype {
        DType::F64 => out.extend(bytes.as_chunks().0.iter().map(|b| f64::from_ne_bytes(*b))),
        DType::F32 => out.extend(bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_ne_bytes(*b)))),
        DType::I32 => out.extend(bytes.as_chunks().0.iter().map(|b| f64::from(i32::from_ne_bytes(*b)))),
        DType::BF16 => out.extend(bytes.as_chunks().0.iter().map(|b| half::bf16::from_ne_bytes(*b).to_f64())),
    }
}

/// A model, its device and its programs.
pub struct Engine {
    /// The model.
    pub model: Model,
    /// Its device.
    pub device: AnyDevice,
    /// First micro-batch of a step.
    pub first: Option<Program>,
    /// Later micro-batches.
    pub later: Option<Program>,
    /// Forward only.
    pub evaluate: Program,
    /// Optimizer step.
    pub optimizer: Option<Program>,
    /// Integers on their way to the device; kept so that a step allocates nothing.
    host_integers: Vec<i32>,
    /// What [`Engine::step_into`] copies to the host: losses, auxiliary losses, state, and with routers their counts and
    /// biases.
    recorded: Vec<Tensor>,
    /// The state block on the host, for the same reason.
    state_slots: Vec<f64>,
}

impl Engine {
    /// Records the programs and allocates their memory. Without `adam` there is no optimizer; with `Training::Off` in
    /// the specification there is no backward pass either.
    ///
    /// # Errors
    /// Impossible sizes, or memory that the system refuses.
    pub fn new(
        spec: ModelSpec,
        adam: Option<&AdamConfig>,
        choice: &DeviceChoice,
        trace: Trace,
    ) -> Result<Self, CoreError> {
        let model = Model::new(spec)?;
        let trains = model.spec.training != Training::Off;
        let record = |kind| model.micro_batch(kind, trace);
        let first = trains.then(|| record(ProgramKind::TrainFirst)).transpose()?;
        let later = trains.then(|| record(ProgramKind::Train)).transpose()?;
        let evaluate = record(ProgramKind::Evaluate)?;
        let optimizer = adam.map(|adam| model.optimizer_step(adam)).transpose()?;
        let mut programs = vec![&evaluate];
        programs.extend([&first, &later, &optimizer].into_iter().flatten());
        let device = AnyDevice::new(&model.persistent, &programs, choice)?;
        let mut recorded = vec![model.metrics.losses, model.metrics.aux, model.metrics.state];
        if !model.metrics.last_counts.is_empty() {
            recorded.push(model.metrics.last_counts);
            recorded.extend(model.expert_biases());
        }
        let (host_integers, state_slots) = (Vec::new(), Vec::new());
        Ok(Self { model, device, first, later, evaluate, optimizer, host_integers, recorded, state_slots })
    }

    fn write_i32(&mut self, tensor: Tensor, values: &[i32]) -> Result<(), CoreError> {
        self.device.write_slice(self.model.persistent.buffers(), tensor, values)
    }

    /// Writes integers made from `values` through a buffer that is kept.
    fn write_mapped<T>(&mut self, tensor: Tensor, values: &[T], map: impl Fn(&T) -> i32) -> Result<(), CoreError> {
        self.host_integers.clear();
        self.host_integers.extend(values.iter().map(map));
        self.device.write_slice(self.model.persistent.buffers(), tensor, &self.host_integers)
    }

    /// Copies a micro-batch to the device, after checking that it fits the model. Allocates nothing after the first.
    ///
    /// # Errors
    /// `Input` for another size than the model was built for, ids outside the vocabulary, or more documents than planned.
    pub fn load(&mut self, batch: &Batch) -> Result<(), CoreError> {
        self.check(batch)?;
        let inputs = &self.model.inputs;
        let (ids, labels, loss_mask) = (inputs.ids, inputs.labels, inputs.loss_mask);
        let (padding, cu_seqlens) = (inputs.padding, inputs.cu_seqlens);
        self.write_i32(ids, &batch.tokens)?;
        self.write_i32(labels, &batch.labels)?;
        self.write_mapped(loss_mask, &batch.loss_mask, |m| i32::from(*m != 0.0))?;
        if let Some(padding) = padding {
            self.write_mapped(padding, &batch.padding_mask, |p| i32::from(*p))?;
        }
        let offsets = &batch.documents.physical.0;
        let last = offsets.last().copied().unwrap_or(0);
        self.host_integers.clear();
        self.host_integers.extend_from_slice(offsets);
        self.host_integers.resize(cu_seqlens.cols, last);
        self.device.write_slice(self.model.persistent.buffers(), cu_seqlens, &self.host_integers)
    }

    /// Sets the counter of the noise router (step, micro-batch); nothing to do with natural routing.
    ///
    /// # Errors
    /// What the device reports.
    pub fn set_noise_counter(&mut self, counter: [i32; 2]) -> Result<(), CoreError> {
        match self.model.inputs.noise {
            Some(tensor) => self.write_i32(tensor, &counter),
            None => Ok(()),
        }
    }

    fn check(&self, batch: &Batch) -> Result<(), CoreError> {
        let refuse = |what: &str, reason: String| Err(CoreError::Input { what: what.to_string(), reason });
        let shape = self.model.spec.batch;
        if (batch.rows, batch.seq_length) != (shape.rows, shape.row_len) {
            let reason = format!(
                "it holds {} x {} tokens, the model was planned for {} x {}",
                batch.rows, batch.seq_length, shape.rows, shape.row_len
            );
            return refuse("batch", reason);
        }
        let vocab = self.model.spec.config.vocab;
        let outside = |id: &i32| usize::try_from(*id).map_or(true, |id| id >= vocab);
        if let Some(position) = batch.tokens.iter().position(outside) {
            let reason = format!(
                "id {} at position {position} is outside the vocabulary of {vocab}; was it made with another tokenizer?",
                batch.tokens[position]
            );
            return refuse("token ids", reason);
        }
        if let Some(position) = batch.loss_mask.iter().position(|m| !m.is_finite()) {
            let reason =
                format!("{} at position {position}; a label counts (1) or does not (0)", batch.loss_mask[position]);
            return refuse("loss mask", reason);
        }
        let counted = |t: &usize| batch.loss_mask[*t] != 0.0 && outside(&batch.labels[*t]);
        if let Some(position) = (0..batch.labels.len()).find(counted) {
            let reason = format!("label {} at position {position} is outside the vocabulary", batch.labels[position]);
            return refuse("labels", reason);
        }
        let offsets = &batch.documents.physical.0;
        if offsets.len() > shape.max_offsets {
            let reason = format!("{} offsets, the model was planned for {}", offsets.len(), shape.max_offsets);
            return refuse("documents", reason);
        }
        if offsets.windows(2).any(|w| w[0] > w[1]) || offsets.iter().any(|o| *o < 0 || *o as usize > batch.tokens.len())
        {
            return refuse("documents", "offsets must ascend within the batch".to_string());
        }
        if !shape.padding && batch.padding_mask.iter().any(|p| *p) {
            return refuse("padding", "the batch has padding but the model was planned without a padding mask".into());
        }
        Ok(())
    }

    /// Forward and backward of the loaded micro-batch; the first one of a step clears gradients and losses.
    ///
    /// # Errors
    /// What the device reports.
    pub fn micro_batch(&mut self, is_first: bool) -> Result<(), CoreError> {
        let program = if is_first { &self.first } else { &self.later };
        self.device.run(program.as_ref().expect("an engine for training"))
    }

    /// Forward of the loaded micro-batch.
    ///
    /// # Errors
    /// What the device reports.
    pub fn evaluate(&mut self) -> Result<(), CoreError> {
        self.device.run(&self.evaluate)
    }

    /// Sets the loss sums to zero (before an evaluation).
    ///
    /// # Errors
    /// What the device reports.
    pub fn clear_losses(&mut self) -> Result<(), CoreError> {
        let metrics = self.model.metrics;
        for tensor in [metrics.losses, metrics.aux] {
            self.device.write_f64(self.model.persistent.buffers(), tensor, &vec![0.0; tensor.len()])?;
        }
        Ok(())
    }

    /// The loss sums.
    ///
    /// # Errors
    /// What the device reports.
    pub fn losses(&self) -> Result<LossSums, CoreError> {
        let mut sums = LossSums::default();
        self.losses_into(&mut sums)?;
        Ok(sums)
    }

    /// The loss sums, into vectors that keep their memory.
    ///
    /// # Errors
    /// What the device reports.
    pub fn losses_into(&self, out: &mut LossSums) -> Result<(), CoreError> {
        let metrics = self.model.metrics;
        self.read_into(metrics.losses, &mut out.columns)?;
        out.sort(metrics.losses.rows);
        self.read_into(metrics.aux, &mut out.aux)
    }

    /// A state tensor as f64 values, into a vector that keeps its memory.
    fn read_into(&self, tensor: Tensor, out: &mut Vec<f64>) -> Result<(), CoreError> {
        let buffers = self.model.persistent.buffers();
        out.clear();
        out.resize(tensor.len(), 0.0);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
        match tensor.dtype {
            DType::F64 => self.device.read(buffers, tensor, bytes),
            DType::I32 => {
                self.device.read(buffers, tensor, &mut bytes[..tensor.bytes()])?;
                // Widened in place from the end: element i lies below where the elements behind it went.
                for i in (0..out.len()).rev() {
                    let bytes: &[u8] = bytemuck::cast_slice(out);
                    let value =
                        i32::from_ne_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]]);
                    out[i] = f64::from(value);
                }
                Ok(())
            }
            DType::F32 | DType::BF16 => {
                *out = self.device.read_f64(buffers, tensor)?;
                Ok(())
            }
        }
    }

    /// Runs the optimizer on the accumulated gradients of `samples` samples.
    ///
    /// # Errors
    /// What the device reports.
    pub fn step(&mut self, samples: u64) -> Result<StepReport, CoreError> {
        self.enqueue_step(samples)?;
        self.report()
    }

    /// As [`Engine::step`], without waiting for the device. What the step reports is copied to the host behind it:
    /// [`Engine::record`] with the same slot (0 or 1) gives it.
    ///
    /// # Errors
    /// What the device reports.
    pub fn step_into(&mut self, samples: u64, slot: usize) -> Result<(), CoreError> {
        self.enqueue_step(samples)?;
        self.device.fetch(self.model.persistent.buffers(), &self.recorded, slot)
    }

    fn enqueue_step(&mut self, samples: u64) -> Result<(), CoreError> {
        self.set_state(StateSlot::StepSamples, samples as f64)?;
        self.device.run(self.optimizer.as_ref().expect("an engine with an optimizer"))
    }

    /// What a step reported that was taken with [`Engine::step_into`]; waits for that step, and for none behind it.
    ///
    /// # Errors
    /// What the device reports.
    pub fn record(&mut self, slot: usize, out: &mut StepRecord) -> Result<(), CoreError> {
        let mut bytes = self.device.fetched(slot)?;
        let mut take = |tensor: &Tensor| {
            let (own, rest) = bytes.split_at(tensor.bytes());
            bytes = rest;
            (own, tensor.dtype)
        };
        let metrics = self.model.metrics;
        let [losses, aux, state, biases @ ..] = self.recorded.as_slice() else {
            unreachable!("the list is made in `new`")
        };
        widen(take(losses), &mut out.losses.columns, true);
        out.losses.sort(metrics.losses.rows);
        widen(take(aux), &mut out.losses.aux, true);
        widen(take(state), &mut self.state_slots, true);
        out.report = StepReport::of(&self.state_slots);
        let (counts, biases) = match biases.split_first() {
            Some((counts, biases)) => (Some(counts), biases),
            None => (None, biases),
        };
        out.counts.clear();
        if let Some(counts) = counts {
            widen(take(counts), &mut out.counts, true);
        }
        out.biases.clear();
        for bias in biases {
            widen(take(bias), &mut out.biases, false);
        }
        Ok(())
    }

    /// The counters and values of the last step.
    ///
    /// # Errors
    /// What the device reports.
    pub fn report(&self) -> Result<StepReport, CoreError> {
        let mut state = [0.0; STATE_SLOTS];
        let buffers = self.model.persistent.buffers();
        self.device.read(buffers, self.model.metrics.state, bytemuck::cast_slice_mut(&mut state))?;
        Ok(StepReport::of(&state))
    }

    /// Writes a slot of the device state block.
    ///
    /// # Errors
    /// What the device reports.
    pub fn set_state(&mut self, slot: StateSlot, value: f64) -> Result<(), CoreError> {
        let tensor = self.model.metrics.state.columns(slot as usize, 1);
        self.device.write_slice(self.model.persistent.buffers(), tensor, &[value])
    }

    /// Tokens per expert of the last step, one row per router.
    ///
    /// # Errors
    /// What the device reports.
    pub fn expert_counts(&self) -> Result<Vec<Vec<f64>>, CoreError> {
        let mut values = Vec::new();
        self.expert_counts_into(&mut values)?;
        Ok(values.chunks(self.experts().max(1)).map(<[f64]>::to_vec).collect())
    }

    /// Tokens per expert of the last step, [routers, experts], into a vector that keeps its memory.
    ///
    /// # Errors
    /// What the device reports.
    pub fn expert_counts_into(&self, out: &mut Vec<f64>) -> Result<(), CoreError> {
        out.clear();
        if self.model.metrics.last_counts.is_empty() {
            Ok(())
        } else {
            self.read_into(self.model.metrics.last_counts, out)
        }
    }

    /// Experts of a router; 0 without routers.
    pub fn experts(&self) -> usize {
        let counts = self.model.metrics.last_counts;
        if counts.is_empty() { 0 } else { counts.cols }
    }

    /// Expert biases, [routers, experts]; empty without routers.
    ///
    /// # Errors
    /// What the device reports.
    pub fn expert_biases(&self) -> Result<Vec<f64>, CoreError> {
        let mut values = Vec::new();
        for bias in self.model.expert_biases() {
            values.extend(self.device.read_f64(self.model.persistent.buffers(), bias)?);
        }
        Ok(values)
    }

    /// Bytes that the device holds.
    pub fn allocated_bytes(&self) -> usize {
        self.device.allocated_bytes()
    }
}
