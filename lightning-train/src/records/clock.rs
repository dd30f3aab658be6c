//! Wall-clock time that never falls.
//!
//! Durations come from the monotonic clock and need nothing. Time stamps in files do: TensorBoard orders by them, and a
//! clock that a time server sets back must not make a run look as if it had happened in another order.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds a clock may fall without a word: time servers correct less than this all the time.
const TOLERATED: f64 = 1.0;

/// A wall clock whose readings never fall.
pub struct WallClock {
    now: Box<dyn FnMut() -> f64 + Send>,
    last: f64,
    /// How far the clock is behind as far as it was told.
    told: f64,
    went_back: Option<f64>,
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
    }
}

impl WallClock {
    /// A clock over `now`, seconds since 1970.
    pub fn new(now: impl FnMut() -> f64 + Send + 'static) -> Self {
        Self { now: Box::new(now), last: f64::NEG_INFINITY, told: 0.0, went_back: None }
    }

    /// Seconds since 1970; the last reading again while the clock is behind it.
    pub fn seconds(&mut self) -> f64 {
        let now = (self.now)();
        let behind = self.last - now;
        if behind > self.told + TOLERATED {
            // One fall is told once, however long the clock takes to catch up.
            self.went_back = Some(self.went_back.unwrap_or(0.0) + behind - self.told);
            self.told = behind;
        } else if behind <= 0.0 {
            self.told = 0.0;
        }
        self.last = self.last.max(now);
        self.last
    }

    /// Seconds that the clock fell since the last call of this, if it fell by more than a second.
    pub fn take_step_back(&mut self) -> Option<f64> {
        self.went_back.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_never_fall_and_a_step_back_is_reported_once() {
        let mut times = [100.0, 101.0, 40.0, 41.0, 100.9, 102.0].into_iter();
        let mut clock = WallClock::new(move || times.next().unwrap());
        let seen: Vec<f64> = (0..6).map(|_| clock.seconds()).collect();
        assert_eq!(seen, [100.0, 101.0, 101.0, 101.0, 101.0, 102.0]);
        assert_eq!(clock.take_step_back(), Some(61.0));
        assert_eq!(clock.take_step_back(), None);
    }

    #[test]
    fn every_fall_is_told_once() {
        let mut times = [100.0, 50.0, 60.0, 20.0, 99.0, 101.0, 90.0].into_iter();
        let mut clock = WallClock::new(move || times.next().unwrap());
        let mut told = Vec::new();
        for _ in 0..7 {
            clock.seconds();
            told.extend(clock.take_step_back());
        }
        // The second fall is measured from what is known; the last one comes after the clock had caught up.
        assert_eq!(told, [50.0, 30.0, 11.0]);
    }
}
