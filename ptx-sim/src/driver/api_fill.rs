//! Memory sets of 8, 16 and 32 bits, in one and two dimensions, synchronous and in streams.

use super::capture;
use super::pointers::Handle;
use super::state::current;
use super::status::{Outcome, Status};
use super::stream::submit;
use super::work::{FillWork, Work};

/// Checks a fill: alignment of address and pitch to the element, rows that fit their pitch.
pub fn fill(to: u64, pitch: usize, value: u32, element: u32, width: usize, height: usize) -> Outcome<FillWork> {
    let bytes = width.checked_mul(element as usize).ok_or(Status::INVALID_VALUE)?;
    let aligned = to.is_multiple_of(element as u64) && (height <= 1 || pitch.is_multiple_of(element as usize));
    if !aligned || (height > 1 && pitch < bytes) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(FillWork { to, value, element, width, height, pitch })
}

fn now(work: FillWork) -> Outcome {
    capture::refuse_unsafe_call()?;
    current()?;
    submit(Handle::NULL, Work::Fill(work))
}

fn queued(stream: Handle, work: FillWork) -> Outcome {
    submit(stream, Work::Fill(work))
}

super::entry::api! {
    /// Sets bytes.
    fn cuMemsetD8_v2(to: u64, value: u8, count: usize) {
        now(fill(to, 0, value as u32, 1, count, 1)?)
    }

    /// Sets 16-bit values.
    fn cuMemsetD16_v2(to: u64, value: u16, count: usize) {
        now(fill(to, 0, value as u32, 2, count, 1)?)
    }

    /// Sets 32-bit values.
    fn cuMemsetD32_v2(to: u64, value: u32, count: usize) {
        now(fill(to, 0, value, 4, count, 1)?)
    }

    /// Sets bytes in rows.
    fn cuMemsetD2D8_v2(to: u64, pitch: usize, value: u8, width: usize, height: usize) {
        now(fill(to, pitch, value as u32, 1, width, height)?)
    }

    /// Sets 16-bit values in rows.
    fn cuMemsetD2D16_v2(to: u64, pitch: usize, value: u16, width: usize, height: usize) {
        now(fill(to, pitch, value as u32, 2, width, height)?)
    }

    /// Sets 32-bit values in rows.
    fn cuMemsetD2D32_v2(to: u64, pitch: usize, value: u32, width: usize, height: usize) {
        now(fill(to, pitch, value, 4, width, height)?)
    }

    /// Sets bytes, in a stream.
    fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) {
        queued(stream, fill(to, 0, value as u32, 1, count, 1)?)
    }

    /// Sets 16-bit values, in a stream.
    fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) {
        queued(stream, fill(to, 0, value as u32, 2, count, 1)?)
    }

    /// Sets 32-bit values, in a stream.
    fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: Handle) {
        queued(stream, fill(to, 0, value, 4, count, 1)?)
    }

    /// Sets bytes in rows, in a stream.
    fn cuMemsetD2D8Async(to: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Handle) {
        queued(stream, fill(to, pitch, value as u32, 1, width, height)?)
    }

    /// Sets 16-bit values in rows, in a stream.
    fn cuMemsetD2D16Async(to: u64, pitch: usize, value: u16, width: usize, height: usize, stream: Handle) {
        queued(stream, fill(to, pitch, value as u32, 2, width, height)?)
    }

    /// Sets 32-bit values in rows, in a stream.
    fn cuMemsetD2D32Async(to: u64, pitch: usize, value: u32, width: usize, height: usize, stream: Handle) {
        queued(stream, fill(to, pitch, value, 4, width, height)?)
    }
}
