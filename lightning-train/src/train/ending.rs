//! Checkpoints, and what is written and said at the end of a run.

use super::run::Run;
use crate::checkpoint::{self, Snapshot};
use crate::cli::Failure;
use crate::records::clock::WallClock;
use crate::records::run_card::RunCard;
use serde_json::json;
use std::time::Instant;

impl Run<'_> {
    /// Saves, in the background if the configuration says so; `last` waits until everything is on the disk.
    pub(super) fn save(&mut self, last: bool) -> Result<(), Failure> {
        let start = Instant::now();
        let c = &self.config.checkpoint;
        let step = self.state.iteration;
        // One snapshot at a time: the plan has room for one.
        self.finish_save()?;
        let snapshot = Snapshot::take(&self.engine, &self.state, &self.run_config, c.save_optim)?;
        self.snapshot_at = Some(step);
        if c.async_save && !last {
            self.saver.start(snapshot, &self.folders.checkpoints)?;
        } else {
            snapshot.write(&self.folders.checkpoints)?;
            self.saved_at = Some(step);
            self.prune()?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let folder = checkpoint::iteration_folder(&self.folders.checkpoints, step);
        let how = if c.async_save && !last { "saving in the background, step held up" } else { "saved in" };
        self.console.say(&format!("{}: {how} {seconds:.1} s", folder.display()));
        let event = json!({ "event": "checkpoint", "iteration": step, "elapsed_ms": seconds * 1e3 });
        self.metrics.write(&event)
    }

    /// Looks whether a save in the background has ended.
    pub(super) fn poll_save(&mut self) -> Result<(), Failure> {
        if let Some(folder) = self.saver.poll()? {
            self.saved_at = checkpoint::iteration_of(&folder);
            self.prune()?;
        }
        Ok(())
    }

    /// Waits for a save in the background.
    pub(super) fn finish_save(&mut self) -> Result<(), Failure> {
        if let Some(folder) = self.saver.wait()? {
            self.saved_at = checkpoint::iteration_of(&folder);
            self.prune()?;
        }
        Ok(())
    }

    fn prune(&self) -> Result<(), Failure> {
        let c = &self.config.checkpoint;
        if let Some(keep) = c.most_recent_k {
            checkpoint::prune(&self.folders.checkpoints, keep, c.keep_every_n)?;
        }
        Ok(())
    }

    /// After logs could not be written any more: the step is saved if there is room, and the failure says so.
    pub(super) fn save_what_can_be_saved(&mut self, failure: Failure) -> Failure {
        // Counters of steps that were not yet looked at.
        while let Ok(Some(_)) = self.finish_step() {}
        let step = self.state.iteration;
        // A save in the background comes first, or the tracker could name it in the end. Its own failure is not the news.
        let _ = self.finish_save();
        let c = &self.config.checkpoint;
        let folder = &self.folders.checkpoints;
        let saved = self.saved_at == Some(step)
            || checkpoint::save(&self.engine, folder, &self.state, &self.run_config, c.save_optim).is_ok();
        if saved {
            self.saved_at = Some(step);
        }
        let tail = match (saved, self.saved_at) {
            (true, _) => format!("; step {step} is saved, resume from it"),
            (false, Some(last)) => format!("; step {step} could not be saved, the last checkpoint is of step {last}"),
            (false, None) => format!("; step {step} could not be saved either"),
        };
        Failure::new(failure.exit, failure.message + &tail)
    }

    /// Completes the event file and the run card; also after a failure.
    pub(super) fn finish_records(
        &mut self,
        card: &mut RunCard,
        outcome: &Result<(), Failure>,
        clock: &mut WallClock,
    ) -> Result<(), Failure> {
        let mut results = json!({ "iteration": self.state.iteration, "anomalies": self.anomalies });
        if let Some(step) = self.saved_at {
            results["checkpoint"] = json!(checkpoint::iteration_folder(&self.folders.checkpoints, step));
        }
        if let Some((_, loss)) = self.first_validation {
            results["first_validation_loss"] = json!(loss);
        }
        if let Some((_, loss)) = self.last_validation {
            results["last_validation_loss"] = json!(loss);
        }
        self.events.flush()?;
        card.end(outcome, results, clock)
    }

    /// What the run wrote and what to try next.
    pub(super) fn summary(&self, json: bool) {
        let folder = &self.folders.run;
        let checkpoints = &self.folders.checkpoints;
        let last = self.saved_at.map(|step| checkpoint::iteration_folder(checkpoints, step));
        if json {
            let mut result = json!({
                "iteration": self.state.iteration, "folder": folder, "metrics": self.metrics.path(),
            });
            if let Some(last) = &last {
                result["checkpoint"] = json!(last);
            }
            if let Some((_, loss)) = self.first_validation {
                result["first_validation_loss"] = json!(loss);
            }
            if let Some((_, loss)) = self.last_validation {
                result["last_validation_loss"] = json!(loss);
            }
            println!("{result}");
        }
        eprintln!("\ndone after step {}", self.state.iteration);
        if let (Some((before, first)), Some((step, loss))) = (self.first_validation, self.last_validation) {
            let first = if before < step { format!("{first:.4} after step {before}, ") } else { String::new() };
            eprintln!("validation loss: {first}{loss:.4} after step {step}");
        }
        eprintln!("wrote  {}  one line per step", self.metrics.path().display());
        eprintln!("       {}  the same for TensorBoard", self.events.path().display());
        eprintln!("       {}  the resolved configuration", folder.join("run_config.toml").display());
        if let Some(last) = &last {
            eprintln!("       {}  weights and optimizer", last.display());
        }
        let longer = self.config.train.train_iters * 2;
        let config = folder.join("run_config.toml");
        eprintln!("next   train longer from here:");
        eprintln!(
            "         lightning-train train --config {} --load_dir {} --max_steps {longer}",
            config.display(),
            checkpoints.display()
        );
        eprintln!("       look at the curves:      lightning-train plot {}", folder.display());
        eprintln!("       train on your own text:  lightning-train train --recipe demo_pretrain_config --data PATH");
        eprintln!("       see every setting:       lightning-train train --recipe demo_pretrain_config --dry-run");
    }
}
