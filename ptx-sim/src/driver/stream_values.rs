//! Writes of values in streams, and waits for them.
//!
//! A wait holds up the call that enqueues it, because work executes when it is enqueued; another thread of the program
//! may write the value meanwhile. A wait that is not satisfied in time loses the context.

use super::pointers::Handle;
use super::state::{Context, Driver, driver};
use super::status::{Outcome, Status};
use super::stream::submit;
use super::work::{Work, refuse};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a wait lasts.
const PATIENCE: Duration = Duration::from_secs(20);
/// `CU_STREAM_WAIT_VALUE_FLUSH`: remote writes are always visible here.
const FLUSH: u32 = 1 << 30;

/// `CUstreamWaitValue_flags`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The difference to the value, as a signed number, is not negative.
    GreaterOrEqual,
    /// Equal.
    Equal,
    /// A common bit is set.
    And,
    /// Not every bit is set in either.
    Nor,
}

impl Condition {
    fn holds(self, memory: u64, value: u64, bytes: usize) -> bool {
        let up = 64 - 8 * bytes as u32;
        match self {
            Condition::GreaterOrEqual => ((memory.wrapping_sub(value) << up) as i64) >= 0,
            Condition::Equal => memory == value,
            Condition::And => memory & value != 0,
            Condition::Nor => (!(memory | value)) << up != 0,
        }
    }
}

/// Waits until the condition holds.
pub fn wait(d: &Driver, context: &Arc<Context>, at: u64, value: u64, bytes: usize, condition: Condition) -> Outcome {
    let start = Instant::now();
    loop {
        let mut now = [0u8; 8];
        d.memory.read(at, &mut now[..bytes]).map_err(|e| refuse("stream wait", &e))?;
        let memory = u64::from_le_bytes(now);
        if condition.holds(memory, value, bytes) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            let why = format!(
                "a stream waited {} s at {at:#x} for {condition:?} {value:#x}, found {memory:#x}; enqueue the write before the wait",
                PATIENCE.as_secs()
            );
            context.lose(Status::LAUNCH_TIMEOUT, &why);
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn checked(at: u64, bytes: usize) -> Outcome {
    let inside = driver()?.allocations.containing(at).is_some();
    if inside && at.is_multiple_of(bytes as u64) { Ok(()) } else { Err(Status::INVALID_VALUE) }
}

fn enqueue_write(stream: Handle, at: u64, value: u64, bytes: usize, flags: u32) -> Outcome {
    checked(at, bytes)?;
    // 1: without a memory barrier, which makes no difference here.
    if flags > 1 {
        return Err(Status::INVALID_VALUE);
    }
    submit(stream, Work::WriteValue(at, value, bytes))
}

fn enqueue_wait(stream: Handle, at: u64, value: u64, bytes: usize, flags: u32) -> Outcome {
    checked(at, bytes)?;
    let condition = match flags & !FLUSH {
        0 => Condition::GreaterOrEqual,
        1 => Condition::Equal,
        2 => Condition::And,
        3 => Condition::Nor,
        _ => return Err(Status::INVALID_VALUE),
    };
    submit(stream, Work::WaitValue(at, value, bytes, condition))
}

super::entry::api! {
    /// Writes 32 bits in stream order.
    fn cuStreamWriteValue32_v2(stream: Handle, at: u64, value: u32, flags: u32) {
        enqueue_write(stream, at, value as u64, 4, flags)
    }

    /// Writes 64 bits in stream order.
    fn cuStreamWriteValue64_v2(stream: Handle, at: u64, value: u64, flags: u32) {
        enqueue_write(stream, at, value, 8, flags)
    }

    /// Waits for 32 bits in stream order.
    fn cuStreamWaitValue32_v2(stream: Handle, at: u64, value: u32, flags: u32) {
        enqueue_wait(stream, at, value as u64, 4, flags)
    }

    /// Waits for 64 bits in stream order.
    fn cuStreamWaitValue64_v2(stream: Handle, at: u64, value: u64, flags: u32) {
        enqueue_wait(stream, at, value, 8, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::Condition::*;

    #[test]
    fn conditions_at_both_widths() {
        assert!(GreaterOrEqual.holds(5, 5, 4) && GreaterOrEqual.holds(2, u32::MAX as u64, 4));
        assert!(!GreaterOrEqual.holds(4, 5, 4) && !GreaterOrEqual.holds(4, 5, 8));
        assert!(Equal.holds(7, 7, 8) && And.holds(6, 2, 4) && !And.holds(4, 2, 4));
        assert!(Nor.holds(0, 1, 4) && !Nor.holds(u32::MAX as u64, 0, 4) && Nor.holds(u32::MAX as u64, 0, 8));
    }
}
