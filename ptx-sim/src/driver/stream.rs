//! Streams, and how work gets from a call to its execution.
//!
//! Work is executed when it is enqueued. This is one of the orders that stream semantics allow: whatever a stream must
//! wait for was enqueued, and so has finished, before. A launch that fails while it runs does not fail the call that
//! enqueued it: as on a device, the context is lost and the next call on it reports the error.

use super::capture::{self, Capture};
use super::handles::lock;
use super::pointers::Handle;
use super::state::{Context, Driver, current, driver};
use super::status::{Outcome, Status};
use super::work::Work;
use std::sync::{Arc, Mutex};

/// `CU_STREAM_LEGACY`
pub const LEGACY: Handle = Handle(1);
/// `CU_STREAM_PER_THREAD`
pub const PER_THREAD: Handle = Handle(2);
/// `CU_STREAM_NON_BLOCKING`
pub const NON_BLOCKING: u32 = 1;

/// A stream.
pub struct Stream {
    /// Its handle.
    pub handle: Handle,
    /// Its context.
    pub context: Arc<Context>,
    /// Creation flags.
    pub flags: u32,
    /// Priority, clamped to the device's range.
    pub priority: i32,
    /// Number in the process.
    pub id: u64,
    /// Whether it is the context's legacy default stream.
    pub legacy: bool,
    /// The capture that it takes part in.
    pub capture: Mutex<Option<Arc<Capture>>>,
}

/// Least and greatest priority of a device.
pub const PRIORITY_RANGE: (i32, i32) = (0, -5);

fn next_id() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

impl Driver {
    /// Makes a stream in a context.
    pub fn create_stream(&self, context: Arc<Context>, flags: u32, priority: i32, legacy: bool) -> Arc<Stream> {
        let (least, greatest) = PRIORITY_RANGE;
        let priority = priority.clamp(greatest, least);
        let make =
            |handle| Stream { handle, context, flags, priority, id: next_id(), legacy, capture: Mutex::new(None) };
        self.streams.add(make).1
    }

    /// The stream of a handle; null and the special handles mean a default stream of the current context.
    ///
    /// # Errors
    /// The sticky error of the stream's context, or `CUDA_ERROR_INVALID_HANDLE`.
    pub fn stream(&self, handle: Handle) -> Outcome<Arc<Stream>> {
        if handle == Handle::NULL || handle == LEGACY || handle == PER_THREAD {
            let context = current()?;
            let mut map = lock(&self.legacy_streams);
            if let Some(s) = map.get(&context.handle).and_then(|h| self.streams.find(*h)) {
                return Ok(s);
            }
            let s = self.create_stream(context.clone(), 0, 0, true);
            map.insert(context.handle, s.handle);
            return Ok(s);
        }
        let s = self.streams.get(handle)?;
        s.context.usable()?;
        Ok(s)
    }
}

impl Stream {
    /// The capture in progress on this stream.
    pub fn capturing(&self) -> Option<Arc<Capture>> {
        lock(&self.capture).clone()
    }

    /// For calls that may not be made on a capturing stream: ends with an error and invalidates the capture.
    pub fn refuse_if_capturing(&self) -> Outcome {
        match self.capturing() {
            Some(c) => {
                c.invalidate();
                Err(Status::STREAM_CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }
}

/// Executes work on a stream, or adds it to the graph that the stream captures.
pub fn submit(handle: Handle, work: Work) -> Outcome {
    let d = driver()?;
    let stream = d.stream(handle)?;
    submit_on(d, &stream, work)
}

/// As [`submit`], for a stream at hand.
pub fn submit_on(d: &'static Driver, stream: &Arc<Stream>, work: Work) -> Outcome {
    if let Some(c) = stream.capturing() {
        return c.append(stream.handle, work).map(|_| ());
    }
    if stream.legacy {
        capture::refuse_implicit(d, stream)?;
    }
    work.execute(d, &stream.context)
}
