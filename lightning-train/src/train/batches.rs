//! The next batches, made ahead on a thread, and a wait for them that can be interrupted.

use crate::cli::{Exit, Failure};
use lightning_data::prefetch::BatchRequest;
use lightning_data::{Batch, BatchSource, DataError};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

/// How often a waiting step looks up.
const POLL: Duration = Duration::from_millis(20);

/// Batches in the order of their requests. Buffers go round: after the first few batches nothing is allocated.
pub struct Batches {
    ready: Receiver<Result<Batch, DataError>>,
    used: Sender<Batch>,
    waited: Duration,
}

impl Batches {
    /// Starts the thread, which holds `depth` batches ready. It ends with the requests, with an error, or at its next batch
    /// after this was dropped; nobody waits for it, because it may hang in a read.
    ///
    /// # Errors
    /// A thread that cannot start.
    pub fn start(
        source: Arc<dyn BatchSource>,
        requests: impl Iterator<Item = BatchRequest> + Send + 'static,
        depth: usize,
    ) -> Result<Self, Failure> {
        let (send, ready) = sync_channel(depth.max(1));
        let (used, returned) = channel::<Batch>();
        let produce = move || {
            for r in requests {
                let mut batch = returned.try_recv().unwrap_or_default();
                let made = source.fill(r.consumed_samples, r.micro_batch, r.dp_rank, &mut batch);
                let failed = made.is_err();
                if send.send(made.map(|()| batch)).is_err() || failed {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("batches".into()).spawn(produce);
        thread.map_err(|e| Failure::new(Exit::Unexpected, format!("cannot start the data thread: {e}")))?;
        Ok(Self { ready, used, waited: Duration::ZERO })
    }

    /// The next batch. While it is not ready, `waiting` is called again and again with the time waited so far; `false` gives up,
    /// and there is none.
    ///
    /// # Errors
    /// What the source reports; more batches asked for than requested.
    pub fn next(&mut self, waiting: &mut dyn FnMut(Duration) -> bool) -> Result<Option<Batch>, Failure> {
        if let Ok(made) = self.ready.try_recv() {
            return Ok(Some(made?));
        }
        let start = Instant::now();
        loop {
            let received = self.ready.recv_timeout(POLL);
            let waited = start.elapsed();
            match received {
                Ok(made) => {
                    self.waited += waited;
                    return Ok(Some(made?));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new(Exit::Unexpected, "the batches ended before the run"));
                }
                Err(RecvTimeoutError::Timeout) if waiting(waited) => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.waited += waited;
                    return Ok(None);
                }
            }
        }
    }

    /// Gives a batch back for reuse.
    pub fn recycle(&self, batch: Batch) {
        // After the last request nobody needs it any more.
        let _ = self.used.send(batch);
    }

    /// Time spent waiting since the last call of this.
    pub fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Answers after a word from the test.
    struct Gate(Mutex<Receiver<bool>>);

    impl BatchSource for Gate {
        fn fill(&self, consumed: u64, _: u64, _: u64, out: &mut Batch) -> lightning_data::Result<()> {
            let good = self.0.lock().unwrap().recv().unwrap_or(false);
            out.reset(1, 3, false, false);
            out.tokens.fill(consumed as i32);
            if good { Ok(()) } else { Err(DataError::Worker { what: "test" }) }
        }
        fn source_names(&self) -> Vec<String> {
            vec![]
        }
        fn samples(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn a_wait_can_be_given_up_is_timed_and_hands_out_errors() {
        let (open, gate) = channel();
        let requests = (0..3).map(|i| BatchRequest { consumed_samples: 5 + i, micro_batch: 0, dp_rank: 0 });
        let mut batches = Batches::start(Arc::new(Gate(Mutex::new(gate))), requests, 1).unwrap();
        let mut calls = 0;
        let gave_up = batches.next(&mut |_| {
            calls += 1;
            calls < 3
        });
        assert!(gave_up.unwrap().is_none());
        assert!(calls == 3 && batches.take_waited() >= 3 * POLL && batches.take_waited().is_zero());
        open.send(true).unwrap();
        let batch = batches.next(&mut |_| true).unwrap().expect("a batch");
        assert_eq!(batch.tokens, [5, 5, 5]);
        batches.recycle(batch);
        open.send(false).unwrap();
        assert!(batches.next(&mut |_| true).is_err());
        let error = batches.next(&mut |_| true).unwrap_err();
        assert!(error.message.contains("ended"), "{error}");
    }
}
