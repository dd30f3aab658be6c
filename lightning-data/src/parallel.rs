//! Work on several threads with results in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{DataError, Result};

/// Workers of a preparation unless told otherwise: one more than there are cores, so that a worker that waits for the disk
/// leaves no core idle.
pub fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) + 1
}

/// Applies `work` to each item on up to `threads` threads; results come in the order of the items. The first error in
/// that order is returned; items not yet started are then left out.
pub fn map_in_order<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<R>>>> = Mutex::new((0..items.len()).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { return };
                    let result = work(item);
                    if result.is_err() {
                        next.store(items.len(), Ordering::Relaxed);
                    }
                    if let Ok(mut results) = results.lock() {
                        results[i] = Some(result);
                    }
                }
            });
        }
    });
    let results = results.into_inner().map_err(|_| DataError::Worker { what: "worker" })?;
    let mut out = Vec::with_capacity(items.len());
    let mut skipped = false;
    for result in results {
        match result {
            Some(Ok(value)) => out.push(value),
            Some(Err(e)) => return Err(e),
            None => skipped = true,
        }
    }
    if skipped { Err(DataError::Worker { what: "worker" }) } else { Ok(out) }
}
