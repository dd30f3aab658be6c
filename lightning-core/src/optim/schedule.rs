//! Learning-rate and weight-decay schedules: pure functions of (configuration, samples consumed by successful steps).
//! Formulas and edge cases: recipes.md §1.3.

use crate::error::CoreError;
use alloc::format;
use alloc::string::ToString;

/// Shape of a decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decay {
    /// Stays at the maximum.
    Constant,
    /// Straight line to the minimum.
    Linear,
    /// Half a cosine to the minimum.
    Cosine,
    /// max * sqrt(warm-up / n), at least the minimum.
    InverseSquareRoot,
    /// Warm-up, stable, decay: constant until the last `wsd_samples` samples, which fall in the given style.
    Wsd(WsdStyle),
}

/// Shape of the last phase of a warm-up-stable-decay schedule; r runs from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WsdStyle {
    /// 1 - r.
    Linear,
    /// (cos(pi r) + 1) / 2.
    Cosine,
    /// 2 * 0.5^r - 1.
    Exponential,
    /// 1 - sqrt(r).
    MinusSqrt,
}

/// A learning-rate schedule over samples, and the range of weight decay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Shape of the decay.
    pub decay: Decay,
    /// Learning rate at the start of the warm-up.
    pub init_lr: f64,
    /// Largest learning rate.
    pub max_lr: f64,
    /// Smallest learning rate.
    pub min_lr: f64,
    /// Samples of the warm-up (W).
    pub warmup_samples: u64,
    /// Samples after which the minimum is reached (D).
    pub decay_samples: u64,
    /// Samples of the last phase of a warm-up-stable-decay schedule.
    pub wsd_samples: u64,
    /// Weight decay at the start.
    pub start_weight_decay: f64,
    /// Weight decay at the end; reached linearly after `decay_samples`.
    pub end_weight_decay: f64,
}

impl Schedule {
    /// Checks the numbers and caps a warm-up that would not leave a decay to D - 1 samples. Returns whether it was capped.
    ///
    /// # Errors
    /// `Config` for a negative or non-finite rate, or a minimum above the maximum.
    pub fn check(&mut self) -> Result<bool, CoreError> {
        let rates = [("lr", self.max_lr), ("min_lr", self.min_lr), ("lr_warmup_init", self.init_lr)];
        for (key, value) in rates {
            if !(value.is_finite() && value >= 0.0) {
                return Err(refuse(key, value, "must be a number that is not negative".to_string()));
            }
        }
        if self.min_lr > self.max_lr {
            return Err(refuse("min_lr", self.min_lr, format!("must not exceed lr = {}", self.max_lr)));
        }
        if self.init_lr > self.max_lr {
            return Err(refuse("lr_warmup_init", self.init_lr, format!("must not exceed lr = {}", self.max_lr)));
        }
        if self.decay_samples == 0 {
            return Err(refuse("lr_decay_iters", 0.0, "must be at least 1".to_string()));
        }
        if self.warmup_samples >= self.decay_samples {
            self.warmup_samples = self.decay_samples - 1;
            return Ok(true);
        }
        Ok(false)
    }

    /// Learning rate of the step that follows `n` samples. The first step of a run has n = 0, hence rate `init_lr` (0)
    /// when there is a warm-up.
    pub fn learning_rate(&self, n: u64) -> f64 {
        let (w, d) = (self.warmup_samples, self.decay_samples);
        if w > 0 && n <= w {
            return self.init_lr + (self.max_lr - self.init_lr) * n as f64 / w as f64;
        }
        if self.decay == Decay::Constant {
            return self.max_lr;
        }
        if n > d {
            return self.min_lr;
        }
        let span = self.max_lr - self.min_lr;
        let ratio = (n - w) as f64 / (d - w) as f64;
        match self.decay {
            Decay::Constant => self.max_lr,
            Decay::Linear => self.min_lr + (1.0 - ratio) * span,
            Decay::Cosine => self.min_lr + 0.5 * (libm::cos(core::f64::consts::PI * ratio) + 1.0) * span,
            Decay::InverseSquareRoot => {
                let lr = self.max_lr * libm::sqrt(w.max(1) as f64) / libm::sqrt(n.max(1) as f64);
                if lr > self.min_lr { lr } else { self.min_lr }
            }
            Decay::Wsd(style) => {
                let start = d.saturating_sub(self.wsd_samples);
                if n <= start || self.wsd_samples == 0 {
                    return self.max_lr;
                }
                let r = (n - start) as f64 / self.wsd_samples as f64;
                let coefficient = match style {
                    WsdStyle::Linear => 1.0 - r,
                    WsdStyle::Cosine => 0.5 * (libm::cos(core::f64::consts::PI * r) + 1.0),
                    WsdStyle::Exponential => 2.0 * libm::pow(0.5, r) - 1.0,
                    WsdStyle::MinusSqrt => 1.0 - libm::sqrt(r),
                };
                self.min_lr + coefficient * span
            }
        }
    }

    /// Weight decay of the step that follows `n` samples.
    pub fn weight_decay(&self, n: u64) -> f64 {
        let r = if n >= self.decay_samples { 1.0 } else { n as f64 / self.decay_samples as f64 };
        self.start_weight_decay + r * (self.end_weight_decay - self.start_weight_decay)
    }
}

fn refuse(key: &str, value: f64, reason: alloc::string::String) -> CoreError {
    CoreError::Config { key: key.to_string(), value: value.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(decay: Decay) -> Schedule {
        Schedule {
            decay,
            init_lr: 0.0,
            max_lr: 1e-3,
            min_lr: 1e-5,
            warmup_samples: 100,
            decay_samples: 1000,
            wsd_samples: 200,
            start_weight_decay: 0.033,
            end_weight_decay: 0.033,
        }
    }

    #[test]
    fn first_step_has_rate_zero_and_warmup_is_linear() {
        let s = schedule(Decay::Cosine);
        assert_eq!(s.learning_rate(0), 0.0);
        assert_eq!(s.learning_rate(50), 0.5e-3);
        assert_eq!(s.learning_rate(100), 1e-3);
        assert!((s.learning_rate(550) - (1e-5 + 0.5 * (1e-3 - 1e-5))).abs() < 1e-12);
        assert!((s.learning_rate(1000) - 1e-5).abs() < 1e-15);
        assert_eq!(s.learning_rate(1001), 1e-5);
    }

    #[test]
    fn every_style_starts_at_the_maximum_and_never_leaves_the_range() {
        for decay in [
            Decay::Constant,
            Decay::Linear,
            Decay::Cosine,
            Decay::InverseSquareRoot,
            Decay::Wsd(WsdStyle::Linear),
            Decay::Wsd(WsdStyle::Cosine),
            Decay::Wsd(WsdStyle::Exponential),
            Decay::Wsd(WsdStyle::MinusSqrt),
        ] {
            let s = schedule(decay);
            let mut last = s.learning_rate(100);
            assert_eq!(last, 1e-3, "{decay:?}");
            for n in 101..1100 {
                let lr = s.learning_rate(n);
                assert!((1e-5 - 1e-18..=last + 1e-18).contains(&lr), "{decay:?} at {n}: {lr}");
                last = lr;
            }
        }
        let s = schedule(Decay::Wsd(WsdStyle::MinusSqrt));
        assert_eq!(s.learning_rate(800), 1e-3);
        assert!((s.learning_rate(850) - (1e-5 + 0.5 * (1e-3 - 1e-5))).abs() < 1e-12);
    }

    #[test]
    fn a_warmup_longer_than_the_decay_is_capped() {
        let mut s = schedule(Decay::Cosine);
        s.warmup_samples = 5000;
        assert!(s.check().unwrap());
        assert_eq!(s.warmup_samples, 999);
        s.min_lr = 1.0;
        assert!(s.check().is_err());
    }

    #[test]
    fn b70_rate_is_a_function_of_samples_alone() {
        let s = schedule(Decay::Cosine);
        let direct: alloc::vec::Vec<f64> = (0..50).map(|k| s.learning_rate(k * 32)).collect();
        let resumed: alloc::vec::Vec<f64> = (25..50).map(|k| s.learning_rate(k * 32)).collect();
        assert_eq!(direct[25..], resumed[..]);
    }
}
