//! The schedule of a run counted in samples (recipes.md §1.3).

use super::run::RunConfig;

/// Lengths of the parts of a schedule, in samples consumed by successful steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleSamples {
    /// End of the warm-up, W. Below `decay` unless it is 0.
    pub warmup: u64,
    /// End of the decay, D.
    pub decay: u64,
    /// Samples of the last part of a WSD schedule; 0 for the other styles.
    pub wsd_decay: u64,
    /// Samples over which the weight decay goes from start to end.
    pub weight_decay: u64,
}

impl RunConfig {
    /// Steps times global batch, with the warm-up cut to one sample less than the decay when it does not end before.
    pub fn schedule_samples(&self) -> ScheduleSamples {
        let batch = self.train.global_batch_size;
        let steps = self.scheduler.max_steps.unwrap_or(self.train.train_iters);
        let decay = self.scheduler.lr_decay_iters.unwrap_or(steps).saturating_mul(batch);
        let warmup = self.scheduler.lr_warmup_iters.saturating_mul(batch).min(decay.saturating_sub(1));
        let wsd_decay = self.scheduler.lr_wsd_decay_iters.unwrap_or(0).saturating_mul(batch);
        ScheduleSamples { warmup, decay, wsd_decay, weight_decay: steps.saturating_mul(batch) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_ends_before_the_decay() {
        let mut config = RunConfig::default();
        config.train.global_batch_size = 512;
        config.train.train_iters = 20;
        config.scheduler.lr_warmup_iters = 333;
        let samples = config.schedule_samples();
        assert_eq!((samples.warmup, samples.decay), (20 * 512 - 1, 20 * 512));
        config.scheduler.lr_warmup_iters = 8;
        assert_eq!(config.schedule_samples().warmup, 8 * 512);
        config.scheduler.max_steps = Some(100);
        assert_eq!(config.schedule_samples().decay, 100 * 512);
    }
}
