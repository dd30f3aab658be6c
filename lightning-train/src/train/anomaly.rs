//! Losses and gradient norms that leave the usual range, and what is needed to see why.
//!
//!   z = (x - mean of the last values) / max(their standard deviation, |mean| / 1000)
//!
//! Batches are functions of the samples consumed, so the last steps' counters are all that has to be kept.

use super::provenance::SampleOrigin;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// Values that a score is made from.
const WINDOW: usize = 64;
/// No score with fewer values.
const LEAST: usize = 16;

/// A value far above those before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spike {
    /// The value.
    pub value: f64,
    /// Mean of the values before.
    pub mean: f64,
    /// Standard deviation of the values before.
    pub deviation: f64,
    /// Score.
    pub z: f64,
}

/// Scores a series.
#[derive(Debug, Clone)]
pub struct SpikeDetector {
    threshold: f64,
    values: VecDeque<f64>,
}

impl SpikeDetector {
    /// A detector for scores above `threshold`; 0 is off.
    pub fn new(threshold: f64) -> Self {
        Self { threshold, values: VecDeque::with_capacity(WINDOW) }
    }

    /// Takes the next value. Values that are not finite are no spikes: they have an event of their own.
    pub fn observe(&mut self, value: f64) -> Option<Spike> {
        if self.threshold <= 0.0 || !value.is_finite() {
            return None;
        }
        let n = self.values.len();
        let mean = self.values.iter().sum::<f64>() / n.max(1) as f64;
        let variance = self.values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n.max(1) as f64;
        let deviation = variance.sqrt();
        if n == WINDOW {
            self.values.pop_front();
        }
        self.values.push_back(value);
        let z = (value - mean) / deviation.max(mean.abs() * 1e-3).max(f64::MIN_POSITIVE);
        (n >= LEAST && z > self.threshold).then_some(Spike { value, mean, deviation, z })
    }
}

/// What is kept of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trace {
    /// Step.
    pub iteration: u64,
    /// Samples consumed before it.
    pub consumed_samples: u64,
    /// Loss.
    pub loss: f64,
    /// Gradient norm.
    pub grad_norm: f64,
}

/// The last steps and the detectors.
#[derive(Debug, Clone)]
pub struct History {
    keep: usize,
    last: VecDeque<Trace>,
    loss: SpikeDetector,
    grad_norm: SpikeDetector,
}

impl History {
    /// Keeps `keep` steps (at least one); scores above `threshold` are spikes.
    pub fn new(keep: usize, threshold: f64) -> Self {
        let detector = SpikeDetector::new(threshold);
        Self {
            keep: keep.max(1),
            last: VecDeque::with_capacity(keep.max(1)),
            loss: detector.clone(),
            grad_norm: detector,
        }
    }

    /// Takes a step and names what is unusual about it.
    pub fn observe(&mut self, trace: Trace) -> Vec<Value> {
        if self.last.len() == self.keep {
            self.last.pop_front();
        }
        self.last.push_back(trace);
        let mut found = Vec::new();
        for (name, detector, value) in
            [("loss", &mut self.loss, trace.loss), ("grad_norm", &mut self.grad_norm, trace.grad_norm)]
        {
            if !value.is_finite() {
                found.push(json!({ "kind": format!("{name}_not_finite") }));
            } else if let Some(s) = detector.observe(value) {
                found.push(json!({
                    "kind": format!("{name}_spike"), "value": s.value, "mean": s.mean, "deviation": s.deviation, "z": s.z,
                }));
            }
        }
        found
    }

    /// The last steps with the documents that they saw, the newest last.
    pub fn batches(&self, mut samples: impl FnMut(u64) -> Vec<SampleOrigin>) -> Vec<Value> {
        let one = |t: &Trace| {
            let samples: Vec<Value> = samples(t.consumed_samples).iter().map(SampleOrigin::to_json).collect();
            json!({ "iteration": t.iteration, "consumed_samples": t.consumed_samples, "samples": samples })
        };
        self.last.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightning_core::rng::Philox;

    #[test]
    fn a_spike_is_seen_once_and_noise_is_not() {
        let mut rng = Philox::new(3, 3);
        let mut detector = SpikeDetector::new(6.0);
        for i in 0..400 {
            let value = 3.0 - 0.002 * f64::from(i) + 0.05 * rng.normal();
            assert_eq!(detector.observe(value), None, "step {i}");
        }
        let spike = detector.observe(6.0).unwrap();
        assert!(spike.z > 6.0 && spike.value == 6.0 && spike.mean < 3.0);
        assert_eq!(detector.observe(2.2), None);
    }

    #[test]
    fn short_constant_and_switched_off_series_are_quiet() {
        let mut detector = SpikeDetector::new(6.0);
        assert!((0..LEAST).all(|i| detector.observe(if i == LEAST - 1 { 1e9 } else { 1.0 }).is_none()));
        let mut constant = SpikeDetector::new(6.0);
        assert!((0..100).all(|_| constant.observe(2.0).is_none()));
        assert!(constant.observe(2.001).is_none(), "a deviation of zero must not make every change a spike");
        assert!(constant.observe(3.0).is_some());
        let mut off = SpikeDetector::new(0.0);
        assert!((0..100).all(|i| off.observe(f64::from(i * i)).is_none()));
    }

    #[test]
    fn only_the_last_steps_are_kept_and_values_that_are_not_finite_are_named() {
        let mut history = History::new(2, 6.0);
        for i in 1..=5 {
            let trace = Trace { iteration: i, consumed_samples: 4 * (i - 1), loss: 1.0, grad_norm: 1.0 };
            assert!(history.observe(trace).is_empty());
        }
        let nan =
            history.observe(Trace { iteration: 6, consumed_samples: 20, loss: f64::NAN, grad_norm: f64::INFINITY });
        let kinds: Vec<&str> = nan.iter().filter_map(|e| e["kind"].as_str()).collect();
        assert_eq!(kinds, ["loss_not_finite", "grad_norm_not_finite"]);
        let batches = history.batches(|_| vec![]);
        let steps: Vec<u64> = batches.iter().filter_map(|b| b["iteration"].as_u64()).collect();
        assert_eq!(steps, [5, 6]);
    }
}
