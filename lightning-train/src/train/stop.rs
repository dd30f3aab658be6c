//! Why a run stops before its end: a signal, or its time is up. Asked in every loop that can last longer than a step.

use crate::cli::{Exit, Failure};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a phase that has nothing to lose may go on after a signal before the process just ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// Signals that save and stop.
const SIGNALS: [(i32, &str); 3] = [(SIGTERM, "SIGTERM"), (SIGUSR1, "SIGUSR1"), (SIGINT, "ctrl-C")];

/// Why to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// SIGTERM, SIGUSR1, or SIGINT (ctrl-C).
    Signal,
    /// `train.exit_after` or `train.exit_duration_in_mins`.
    Time,
}

impl Reason {
    /// "stopped by ..." in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Signal => "a signal",
            Self::Time => "its time limit",
        }
    }
}

/// What loops ask. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    signal: Arc<AtomicBool>,
    /// There is something to save.
    has_state: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// Installs the handlers if `signals` is set, and takes the time limit, counted from now. The first signal is only noted;
    /// the second one ends the process at once.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn install(signals: bool, limit: Option<Duration>) -> Result<Self, Failure> {
        let stop = Self { deadline: limit.map(|l| Instant::now() + l), ..Self::default() };
        if !signals {
            return Ok(stop);
        }
        let refuse = |e: std::io::Error| Failure::new(Exit::Unexpected, format!("cannot handle signals: {e}"));
        for (signal, _) in SIGNALS {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.signal.clone())
                .map_err(refuse)?;
            signal_hook::flag::register(signal, stop.signal.clone()).map_err(refuse)?;
        }
        let mut incoming = signal_hook::iterator::Signals::new(SIGNALS.map(|(signal, _)| signal)).map_err(refuse)?;
        let watched = stop.clone();
        let watch = move || {
            let Some(signal) = incoming.forever().next() else { return };
            let name = SIGNALS.iter().find(|(s, _)| *s == signal).map_or("signal", |(_, name)| name);
            eprintln!("{name}: saving as soon as the step is finished; send it again to stop at once");
            let begin = Instant::now();
            while !watched.has_state.load(Ordering::Relaxed) {
                if begin.elapsed() > PATIENCE {
                    eprintln!("stopped before the first step; nothing was lost, start the same command again");
                    std::process::exit(Exit::Requeue as i32);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(refuse)?;
        Ok(stop)
    }

    /// From now on, stopping means saving.
    pub fn has_state(&self) {
        self.has_state.store(true, Ordering::Relaxed);
    }

    /// Whether to stop, and why.
    pub fn reason(&self) -> Option<Reason> {
        if self.signal.load(Ordering::Relaxed) {
            return Some(Reason::Signal);
        }
        self.deadline.filter(|d| Instant::now() >= *d).map(|_| Reason::Time)
    }

    /// For phases before the first step: an error with exit code 75 when the run has to stop.
    ///
    /// # Errors
    /// `Requeue` after a signal or the time limit.
    pub fn check(&self, phase: &str) -> Result<(), Failure> {
        let Some(reason) = self.reason() else { return Ok(()) };
        let message = format!(
            "stopped by {} during {phase}, before the first step; nothing was lost, start the same command again",
            reason.name()
        );
        Err(Failure::new(Exit::Requeue, message))
    }
}

/// A time such as `3h50m`, `90s`, `1d`, `45m30s`; units fall and each stands once.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = 0u64;
    let mut last = u64::MAX;
    let mut digits = String::new();
    for c in text.trim().chars() {
        let unit = match c {
            '0'..='9' => {
                digits.push(c);
                continue;
            }
            'd' => 86_400,
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        if unit >= last {
            return None;
        }
        last = unit;
        total = digits.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(total)?;
        digits.clear();
    }
    // Ten years: beyond it, arithmetic on instants could overflow.
    (digits.is_empty() && last != u64::MAX && total > 0 && total < 315_360_000).then(|| Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_nonsense_is_not() {
        for (text, seconds) in [("3h50m", 13_800), ("90s", 90), ("1d", 86_400), ("45m30s", 2730), (" 2h ", 7200)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "5", "h", "3x", "1m1h", "1h1h", "-1s", "1.5h", "0s", "99999999999999999999s", "9999999d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_limit_is_a_reason() {
        let stop = Stop::install(false, Some(Duration::ZERO)).unwrap();
        assert_eq!(stop.reason(), Some(Reason::Time));
        assert_eq!(stop.check("data preparation").unwrap_err().exit, Exit::Requeue);
        assert_eq!(Stop::install(false, None).unwrap().reason(), None);
    }
}
