//! A thread that has the next batches ready, and the time that the step waited for them all the same.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::batch::{Batch, BatchSource};
use crate::error::{DataError, Result};

/// Which batch: the arguments of [`BatchSource::fill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRequest {
    /// Samples consumed by whole steps before.
    pub consumed_samples: u64,
    /// Micro-batch inside the step.
    pub micro_batch: u64,
    /// Data-parallel rank.
    pub dp_rank: u64,
}

/// Makes batches ahead of their use, in the order of its requests. Buffers go round: after the first few batches nothing is
/// allocated.
pub struct Prefetcher {
    ready: Option<Receiver<Result<Batch>>>,
    used: Sender<Batch>,
    thread: Option<JoinHandle<()>>,
    waited: Duration,
}

impl Prefetcher {
    /// Starts the thread. `depth` batches are held ready; at least 1.
    pub fn start(
        source: Arc<dyn BatchSource>,
        requests: impl Iterator<Item = BatchRequest> + Send + 'static,
        depth: usize,
    ) -> Result<Prefetcher> {
        let (ready_in, ready) = sync_channel(depth.max(1));
        let (used, used_out) = channel();
        let thread = std::thread::Builder::new()
            .name("batches".into())
            .spawn(move || produce(&*source, requests, &ready_in, &used_out))
            .map_err(|_| DataError::Worker { what: "batch" })?;
        Ok(Prefetcher { ready: Some(ready), used, thread: Some(thread), waited: Duration::ZERO })
    }

    /// The next batch; `None` after the last request. An error ends the series.
    pub fn next_batch(&mut self) -> Option<Result<Batch>> {
        let ready = self.ready.as_ref()?;
        match ready.try_recv() {
            Ok(batch) => Some(batch),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                let start = Instant::now();
                let batch = ready.recv().ok();
                self.waited += start.elapsed();
                batch
            }
        }
    }

    /// Gives a batch back for reuse.
    pub fn recycle(&self, batch: Batch) {
        // After the last request nobody needs it any more.
        let _ = self.used.send(batch);
    }

    /// Time spent waiting in [`Prefetcher::next_batch`] since the last call of this.
    pub fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.ready = None; // the thread's next send fails, and it ends
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn produce(
    source: &dyn BatchSource,
    requests: impl Iterator<Item = BatchRequest>,
    ready: &SyncSender<Result<Batch>>,
    used: &Receiver<Batch>,
) {
    for request in requests {
        let mut batch = used.try_recv().unwrap_or_default();
        let outcome = source.fill(request.consumed_samples, request.micro_batch, request.dp_rank, &mut batch);
        let failed = outcome.is_err();
        if ready.send(outcome.map(|()| batch)).is_err() || failed {
            return;
        }
    }
}
