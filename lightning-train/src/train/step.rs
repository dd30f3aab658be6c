//! One optimizer step of a run, and what is recorded of it.

use super::anomaly::Trace;
use super::batches::Batches;
use super::finite;
use super::metrics::StepMetrics;
use super::run::Run;
use crate::cli::Failure;
use lightning_core::device::Device;
use lightning_data::{Accounting, Batch};
use serde_json::{Value, json};
use std::hash::Hasher;
use std::time::{Duration, Instant};
use twox_hash::XxHash3_64;

/// Anomalies of one process that get an event; more of the same say nothing new.
const MOST_ANOMALIES: u64 = 100;

/// A step that the device was given and whose results were not yet looked at.
pub(super) struct PendingStep {
    started: Instant,
    iteration: u64,
    consumed_samples: u64,
    slot: usize,
    accounting: Accounting,
    /// Labels of the first MTP depth, counted in the data of debug builds.
    first_mtp: Option<u64>,
    waited: Duration,
    batch_hash: u64,
}

impl Run<'_> {
    /// Gives the device one optimizer step; `false` when the run has to stop before its batches are there. Nothing has
    /// changed then.
    pub(super) fn take_step(&mut self, batches: &mut Batches) -> Result<bool, Failure> {
        let started = Instant::now();
        let mut hash = XxHash3_64::new();
        let predicts = self.engine.model.spec.config.mtp_depth() > 0;
        let mut first_mtp = (cfg!(debug_assertions) && predicts).then_some(0);
        let mut accounting = self.accountings.pop().unwrap_or_default();
        clear(&mut accounting);
        for micro_batch in 0..self.micro_batches {
            let Some(batch) = self.next_batch(batches)? else {
                self.accountings.push(accounting);
                return Ok(false);
            };
            hash_batch(&batch, &mut hash);
            accounting.add(&batch.accounting);
            if let Some(count) = &mut first_mtp {
                *count += batch.mtp_tokens(1);
            }
            self.load(&batch, self.state.iteration, micro_batch)?;
            self.engine.micro_batch(micro_batch == 0)?;
            batches.recycle(batch);
        }
        let slot = self.state.iteration as usize % 2;
        self.engine.step_into(self.config.train.global_batch_size, slot)?;
        self.state.iteration += 1;
        self.state.consumed_train_samples += self.config.train.global_batch_size;
        self.pending.push_back(PendingStep {
            started,
            iteration: self.state.iteration,
            consumed_samples: self.state.consumed_train_samples,
            slot,
            accounting,
            first_mtp,
            waited: batches.take_waited(),
            batch_hash: hash.finish(),
        });
        Ok(true)
    }

    /// Reads back the oldest step that was not looked at; `None` when there is none.
    pub(super) fn finish_step(&mut self) -> Result<Option<StepMetrics>, Failure> {
        let Some(step) = self.pending.pop_front() else { return Ok(None) };
        self.engine.record(step.slot, &mut self.record)?;
        // Steps overlap when the device works while the host looks at the one before.
        let now = Instant::now();
        let since = self.finished.map_or(step.started, |finished| finished.max(step.started));
        self.finished = Some(now);
        let elapsed = now - since;
        let report = self.record.report;
        self.state.schedule_samples = report.consumed_samples;
        self.state.optimizer_steps = report.steps;
        self.state.skipped_steps = report.skipped_total;
        self.state.skipped_in_a_row = report.skipped_in_a_row;
        let losses = &self.record.losses;
        // What the data says and what the loss heads saw is one number, or a mask went wrong on the way.
        debug_assert_eq!(losses.tokens[0] as u64, step.accounting.trained_tokens);
        debug_assert!(step.first_mtp.is_none_or(|n| losses.tokens[1] as u64 == n), "{losses:?}, {:?}", step.first_mtp);
        let m = self.micro_batches as f64;
        let tokens = (self.micro_batches * self.engine.model.spec.batch.tokens()) as f64;
        let rate = tokens / elapsed.as_secs_f64();
        let coefficient = self.engine.model.spec.objective.aux_coefficient;
        let aux = (!losses.aux.is_empty() && coefficient > 0.0)
            .then(|| losses.aux.iter().sum::<f64>() / (coefficient * m * losses.aux.len() as f64));
        let (worst, dead) = balance(&self.record.counts, self.engine.experts());
        let metrics = StepMetrics {
            iteration: step.iteration,
            consumed_samples: step.consumed_samples,
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
            mtp_tokens: losses.tokens[1..].iter().map(|n| *n as u64).collect(),
            accounting: step.accounting.clone(),
            skipped: report.skipped,
            skipped_total: report.skipped_total,
            data_wait_ms: step.waited.as_secs_f64() * 1e3,
            batch_hash: step.batch_hash,
        };
        self.accountings.push(step.accounting);
        Ok(Some(metrics))
    }

    /// Waits for a batch; a long wait is an event, a signal or the time limit ends it.
    fn next_batch(&mut self, batches: &mut Batches) -> Result<Option<Batch>, Failure> {
        let limit = self.config.logger.data_stall_seconds;
        let (stop, metrics, step) = (&self.stop, &mut self.metrics, self.state.iteration + 1);
        let (data, config) = (&self.data, self.config);
        let consumed = self.state.consumed_train_samples;
        let mut told = Ok(());
        let mut is_told = false;
        let next = batches.next(&mut |waited: Duration| {
            if limit > 0.0 && waited.as_secs_f64() > limit && !is_told {
                is_told = true;
                let samples: Vec<Value> =
                    data.origins(consumed, config.train.global_batch_size).iter().map(|s| s.to_json()).collect();
                told = metrics.write(&json!({
                    "event": "anomaly", "kind": "data_stall", "iteration": step, "waited_s": waited.as_secs_f64(),
                    "consumed_samples": consumed, "samples": samples,
                }));
                eprintln!("step {step} has waited {:.0} s for its data; is the storage busy?", waited.as_secs_f64());
            }
            told.is_ok() && stop.reason().is_none()
        });
        told?;
        next
    }

    pub(super) fn load(&mut self, batch: &Batch, iteration: u64, micro_batch: usize) -> Result<(), Failure> {
        let counter = [iteration as i32, micro_batch as i32 + 1];
        self.engine.set_noise_counter(counter)?;
        Ok(self.engine.load(batch)?)
    }

    /// Samples that the step with the counter `consumed` takes.
    pub(super) fn consumed_for_data(&self, consumed: u64) -> u64 {
        if self.config.train.overfit_batch { 0 } else { consumed }
    }

    /// Looks for anomalies in a step that was just taken and writes what is needed to reproduce them.
    pub(super) fn look_for_anomalies(&mut self, m: &StepMetrics) -> Result<(), Failure> {
        let global = self.config.train.global_batch_size;
        let consumed = self.consumed_for_data(m.consumed_samples - global);
        let trace =
            Trace { iteration: m.iteration, consumed_samples: consumed, loss: m.lm_loss, grad_norm: m.grad_norm };
        let mut found = self.history.observe(trace);
        if found.is_empty() && m.skipped {
            found.push(json!({ "kind": "step_skipped" }));
        }
        for anomaly in found {
            self.anomalies += 1;
            if self.anomalies > MOST_ANOMALIES {
                continue;
            }
            let mut event = json!({ "event": "anomaly", "iteration": m.iteration });
            for (key, value) in anomaly.as_object().into_iter().flatten() {
                event[key] = value.clone();
            }
            event["lm loss"] = json!(m.lm_loss);
            event["grad_norm"] = json!(m.grad_norm);
            // With a later step under way the gradients are that one's.
            if self.pending.is_empty() {
                let norms = finite::gradient_norms(&self.engine)?;
                event["grad_norm_by_layer"] =
                    norms.into_iter().map(|(name, norm)| (name, json!(norm))).collect::<Value>();
            }
            event["batches"] = self.history.batches(|consumed| self.data.origins(consumed, global)).into();
            if let Some(step) = self.saved_at {
                event["last_checkpoint"] = json!(step);
            }
            if m.skipped && self.config.train.check_finite {
                let place = self.locate_not_finite(consumed)?;
                let text = match &place {
                    Some(place) => {
                        format!("{}: {} of {} ({})", place.program, place.operand, place.operation, place.region)
                    }
                    None => "every operation wrote finite values; the gradient norm overflowed".into(),
                };
                self.console.say(&format!("step {}: first value that is not finite: {text}", m.iteration));
                event["first_not_finite"] = place.map_or(Value::Null, |p| p.to_json());
            }
            let kind = event["kind"].as_str().unwrap_or_default().to_string();
            self.console.say(&format!("step {}: {kind}; see the anomaly event in the metrics file", m.iteration));
            self.metrics.write(&event)?;
        }
        Ok(())
    }

    /// Runs the micro-batches of a skipped step again, operation by operation. Expert counters are put back.
    fn locate_not_finite(&mut self, consumed: u64) -> Result<Option<finite::NotFinite>, Failure> {
        let counts = self.engine.model.metrics.counts;
        let mut kept = vec![0u8; counts.bytes()];
        let model = self.engine.model.clone();
        let buffers = model.persistent.buffers();
        self.engine.device.read(buffers, counts, &mut kept)?;
        let mut batch = Batch::default();
        let mut found = None;
        for micro_batch in 0..self.micro_batches {
            self.data.train.fill(consumed, micro_batch as u64, 0, &mut batch)?;
            self.load(&batch, self.state.iteration - 1, micro_batch)?;
            let program = if micro_batch == 0 { self.engine.first.clone() } else { self.engine.later.clone() };
            found = finite::first_not_finite(&mut self.engine, &program.expect("an engine for training"))?;
            if found.is_some() {
                break;
            }
        }
        self.engine.device.write(buffers, counts, &kept)?;
        Ok(found)
    }
}

/// Sets all counts to zero and keeps their memory.
fn clear(accounting: &mut Accounting) {
    let mut by_source = std::mem::take(&mut accounting.tokens_by_source);
    by_source.fill(0);
    *accounting = Accounting { tokens_by_source: by_source, ..Accounting::default() };
}

/// Ids, labels and mask of a micro-batch: equal hashes mean that two runs saw the same.
fn hash_batch(batch: &Batch, hash: &mut XxHash3_64) {
    hash.write(bytemuck::cast_slice(&batch.tokens));
    hash.write(bytemuck::cast_slice(&batch.labels));
    hash.write(bytemuck::cast_slice(&batch.loss_mask));
    hash.write(bytemuck::cast_slice(&batch.documents.physical.0));
}

/// The worst router's largest load over its mean, and the share of experts without a token. `counts` is [routers, experts].
fn balance(counts: &[f64], experts: usize) -> (Option<f64>, Option<f64>) {
    let ratios = counts.chunks(experts.max(1)).filter_map(|row| {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        (mean > 0.0).then(|| row.iter().copied().fold(0.0, f64::max) / mean)
    });
    let worst = ratios.fold(None, |worst: Option<f64>, r| Some(worst.map_or(r, |w| w.max(r))));
    let dead = counts.iter().filter(|c| **c == 0.0).count();
    (worst, worst.map(|_| dead as f64 / counts.len() as f64))
}
