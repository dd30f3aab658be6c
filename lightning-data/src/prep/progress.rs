//! How far a preparation is, for whoever shows it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters that the workers raise.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_total: AtomicU64,
    pub(super) tokens: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) shards_done: AtomicU64,
    pub(super) shards_total: AtomicU64,
}

/// A reading of the counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgressReport {
    /// Raw bytes of input read.
    pub bytes_read: u64,
    /// Raw bytes there are to read.
    pub bytes_total: u64,
    /// Tokens written.
    pub tokens: u64,
    /// Rows read.
    pub rows: u64,
    /// Shards finished, those found finished included.
    pub shards_done: u64,
    /// Shards.
    pub shards_total: u64,
    /// Since the start.
    pub elapsed: Duration,
}

impl ProgressReport {
    /// Tokens per second since the start.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Time left at the rate so far, once there is one.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.bytes_total.saturating_sub(self.bytes_read) as f64;
        let rate = self.bytes_read as f64 / self.elapsed.as_secs_f64().max(1e-9);
        (rate > 0.0).then(|| Duration::from_secs_f64((left / rate).min(1e9)))
    }
}

impl Progress {
    fn report(&self, start: Instant) -> ProgressReport {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        ProgressReport {
            bytes_read: get(&self.bytes_read),
            bytes_total: get(&self.bytes_total),
            tokens: get(&self.tokens),
            rows: get(&self.rows),
            shards_done: get(&self.shards_done),
            shards_total: get(&self.shards_total),
            elapsed: start.elapsed(),
        }
    }

    /// Runs `work` and calls `show` from another thread about five times a second, and once at the end.
    pub(super) fn watch<T>(&self, show: &(dyn Fn(&ProgressReport) + Sync), work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = AtomicBool::new(false);
        let gate = Mutex::new(());
        let bell = std::sync::Condvar::new();
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut held = gate.lock().unwrap_or_else(|e| e.into_inner());
                while !done.load(Ordering::Acquire) {
                    show(&self.report(start));
                    held = match bell.wait_timeout(held, Duration::from_millis(200)) {
                        Ok((held, _)) => held,
                        Err(e) => e.into_inner().0,
                    };
                }
            });
            // Ends the watcher also when `work` unwinds.
            struct Finish<'a>(&'a AtomicBool, &'a Mutex<()>, &'a std::sync::Condvar);
            impl Drop for Finish<'_> {
                fn drop(&mut self) {
                    let _held = self.1.lock();
                    self.0.store(true, Ordering::Release);
                    self.2.notify_all();
                }
            }
            let _finish = Finish(&done, &gate, &bell);
            work()
        });
        show(&self.report(start));
        result
    }
}
