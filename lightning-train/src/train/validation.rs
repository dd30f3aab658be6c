//! Validation during training.

use super::console::duration;
use super::run::Run;
use crate::cli::Failure;
use lightning_data::Batch;
use serde_json::json;
use std::time::Instant;

impl Run<'_> {
    /// Whether the run validates at all.
    pub(super) fn validates(&self) -> bool {
        let v = &self.config.validation;
        v.eval_interval > 0 && v.eval_iters > 0
    }

    /// Samples of one validation.
    fn validation_samples(&self) -> u64 {
        let v = &self.config.validation;
        v.eval_iters * v.eval_global_batch_size.unwrap_or(self.config.train.global_batch_size)
    }

    /// Whether the run that is resumed stopped before the validation that belongs to its last step: by the samples that
    /// all validations so far must have read.
    pub(super) fn validation_is_owed(&self) -> bool {
        let (step, every) = (self.state.iteration, self.config.validation.eval_interval);
        if !self.validates() || step % every != 0 {
            return false;
        }
        let due = (1 + step / every) * self.validation_samples();
        self.state.consumed_valid_samples + self.validation_samples() == due
    }

    /// Mean loss over validation batches that training never saw. A stop in the middle leaves the counters as if it had not
    /// begun; the resumed run does it anew.
    pub(super) fn validate(&mut self) -> Result<(), Failure> {
        let Some(valid) = self.data.valid.clone() else {
            return Ok(());
        };
        let v = &self.config.validation;
        let global = v.eval_global_batch_size.unwrap_or(self.config.train.global_batch_size);
        let micro_batches = global / self.config.train.micro_batch_size;
        let start = Instant::now();
        self.engine.clear_losses()?;
        let mut batch = Batch::default();
        let mut consumed = self.state.consumed_valid_samples;
        for _ in 0..v.eval_iters {
            for micro_batch in 0..micro_batches {
                if self.stop.reason().is_some() {
                    return Ok(());
                }
                valid.fill(consumed, micro_batch, 0, &mut batch)?;
                self.load(&batch, self.state.iteration, micro_batch as usize)?;
                self.engine.evaluate()?;
            }
            consumed += global;
        }
        self.state.consumed_valid_samples = consumed;
        let losses = self.engine.losses()?;
        let mean = |k: usize| losses.sums[k] / losses.tokens[k].max(1.0);
        let loss = mean(0);
        self.first_validation.get_or_insert((self.state.iteration, loss));
        self.last_validation = Some((self.state.iteration, loss));
        let mut record = json!({
            "event": "validation", "iteration": self.state.iteration, "lm loss": loss,
            "tokens": losses.tokens[0], "elapsed_ms": start.elapsed().as_secs_f64() * 1e3,
        });
        let mut text = format!("validation after step {}: lm {loss:.4}", self.state.iteration);
        for k in 1..losses.sums.len() {
            record[format!("mtp_{k} loss")] = json!(mean(k));
            text += &format!("  mtp{k} {:.4}", mean(k));
        }
        text += &format!("  ({} tokens, {})", losses.tokens[0], duration(start.elapsed()));
        self.console.say(&text);
        let events = self.events.write(self.state.iteration, &record, "validation/");
        let written = events.and_then(|()| self.metrics.write(&record));
        written.map_err(|failure| self.save_what_can_be_saved(failure))
    }
}
