//! Events.
//!
//! A virtual device has no time. `cuEventElapsedTime` therefore gives NaN milliseconds for two recorded timing events,
//! so that no benchmark can mistake it for a measurement.

use super::capture::{self, Capture};
use super::handles::lock;
use super::pointers::{Handle, Out};
use super::state::{current, driver};
use super::status::{Outcome, Status};
use super::stream::Stream;
use super::work::Work;
use std::sync::{Arc, Mutex};

const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;
const RECORD_EXTERNAL: u32 = 1;
const WAIT_EXTERNAL: u32 = 1;

/// An event.
pub struct Event {
    /// Context in which it was created.
    pub context: Handle,
    /// Creation flags.
    pub flags: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    recorded: bool,
    captured: Option<(Arc<Capture>, Vec<Handle>)>,
}

impl Event {
    /// Notes that the event was recorded and has completed.
    pub fn record(&self) {
        *lock(&self.state) = State { recorded: true, captured: None };
    }

    /// Whether it was ever recorded outside a capture.
    pub fn recorded(&self) -> bool {
        lock(&self.state).recorded
    }

    /// The capture in which it was last recorded, with the nodes that it stands for.
    pub fn captured(&self) -> Option<(Arc<Capture>, Vec<Handle>)> {
        lock(&self.state).captured.clone()
    }

    fn refuse_if_captured(&self) -> Outcome {
        match self.captured() {
            Some((c, _)) => {
                c.invalidate();
                Err(Status::CAPTURED_EVENT)
            }
            None => Ok(()),
        }
    }
}

fn record(event: Handle, stream: Handle, flags: u32) -> Outcome {
    if flags & !RECORD_EXTERNAL != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let d = driver()?;
    let e = d.events.get(event)?;
    let s = d.stream(stream)?;
    if e.context != s.context.handle {
        return Err(Status::INVALID_HANDLE);
    }
    match s.capturing() {
        Some(c) if flags & RECORD_EXTERNAL != 0 => c.append(s.handle, Work::Record(event)).map(|_| ()),
        Some(c) => {
            let nodes = c.tails_of(s.handle)?;
            lock(&e.state).captured = Some((c, nodes));
            Ok(())
        }
        None if flags & RECORD_EXTERNAL != 0 => Err(Status::INVALID_VALUE),
        None => {
            if s.legacy {
                capture::refuse_implicit(d, &s)?;
            }
            e.record();
            Ok(())
        }
    }
}

/// `cuStreamWaitEvent` on a stream at hand.
pub fn wait(s: &Arc<Stream>, event: Handle, flags: u32) -> Outcome {
    if flags & !WAIT_EXTERNAL != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let e = driver()?.events.get(event)?;
    match (s.capturing(), e.captured()) {
        (Some(c), _) if flags & WAIT_EXTERNAL != 0 => c.append(s.handle, Work::Wait(event)).map(|_| ()),
        (None, None) => Ok(()),
        (None, Some((c, nodes))) => capture::join(s, &c, nodes),
        (Some(c), Some((other, nodes))) if Arc::ptr_eq(&c, &other) => c.merge(s.handle, &nodes),
        (Some(c), Some((other, _))) => {
            c.invalidate();
            other.invalidate();
            Err(Status::STREAM_CAPTURE_MERGE)
        }
        (Some(_), None) if !e.recorded() => Ok(()),
        (Some(c), None) => {
            c.invalidate();
            Err(Status::STREAM_CAPTURE_ISOLATION)
        }
    }
}

super::entry::api! {
    /// Creates an event.
    fn cuEventCreate(event: Out<Handle>, flags: u32) {
        event.check()?;
        let context = current()?;
        if flags & !7 != 0 || (flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0) {
            return Err(Status::INVALID_VALUE);
        }
        let (h, _) = driver()?.events.add(|_| Event { context: context.handle, flags, state: Mutex::default() });
        event.set(h)
    }

    /// Destroys an event.
    fn cuEventDestroy_v2(event: Handle) {
        driver()?.events.remove(event).map(|_| ())
    }

    /// Records an event on a stream.
    fn cuEventRecord(event: Handle, stream: Handle) {
        record(event, stream, 0)
    }

    /// Records an event on a stream, in a capture on request as a node.
    fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: u32) {
        record(event, stream, flags)
    }

    /// Whether the work before the last record has finished: always, since work executes when it is enqueued.
    fn cuEventQuery(event: Handle) {
        current()?;
        driver()?.events.get(event)?.refuse_if_captured()
    }

    /// Waits for an event.
    fn cuEventSynchronize(event: Handle) {
        current()?;
        driver()?.events.get(event)?.refuse_if_captured()
    }

    /// Gives NaN: a virtual device has no time.
    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) {
        milliseconds.check()?;
        current()?;
        let d = driver()?;
        for h in [start, end] {
            let e = d.events.get(h)?;
            e.refuse_if_captured()?;
            if e.flags & DISABLE_TIMING != 0 || !e.recorded() {
                return Err(Status::INVALID_HANDLE);
            }
        }
        super::entry::explain("cuEventElapsedTime: a virtual device has no time; the result is NaN");
        milliseconds.set(f32::NAN)
    }

    /// As `cuEventElapsedTime_v2`.
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        // SAFETY: same contract, same arguments.
        match unsafe { cuEventElapsedTime_v2(milliseconds, start, end) } {
            0 => Ok(()),
            code => Err(Status(code)),
        }
    }
}
