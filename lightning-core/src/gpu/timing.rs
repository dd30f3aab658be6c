//! Times of a program on the device, for benchmarks.

use super::driver::{DeviceMemory, Doing};
use super::{Device, GpuDevice};
use crate::error::CoreError;
use crate::program::Program;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use cudarc::driver::result::{self, event};
use cudarc::driver::sys;

/// Bytes that are overwritten before every timed run, more than any L2 cache holds.
const FLUSH_BYTES: usize = 256 << 20;

/// An event of the driver.
struct Event(sys::CUevent);

impl Event {
    fn new() -> Result<Self, CoreError> {
        event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map(Self).doing(doing)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { event::destroy(self.0) };
    }
}

fn doing() -> String {
    "timing a program".to_string()
}

impl GpuDevice {
    /// Seconds of each of `repeats` runs of a program, with nothing of its operands in the L2 cache, after `warm_up` runs
    /// that are not timed. Empty on a device that has no time (the virtual GPU).
    ///
    /// # Errors
    /// What the driver reports.
    pub fn time(&mut self, program: &Program, warm_up: usize, repeats: usize) -> Result<Vec<f64>, CoreError> {
        self.driver.bind()?;
        let stream = self.driver.stream;
        let flush = DeviceMemory::new(&self.driver, "cache flush", FLUSH_BYTES, false)?;
        for _ in 0..warm_up {
            self.run(program)?;
        }
        let mut pairs = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            let (start, end) = (Event::new()?, Event::new()?);
            // SAFETY: the allocation is that long, and events and stream live until the synchronisation below.
            unsafe {
                result::memset_d8_async(flush.address, 0, flush.bytes, stream).doing(doing)?;
                event::record(start.0, stream).doing(doing)?;
            }
            self.run(program)?;
            // SAFETY: as above.
            unsafe { event::record(end.0, stream) }.doing(doing)?;
            pairs.push((start, end));
        }
        self.driver.synchronize(doing)?;
        let mut seconds = Vec::with_capacity(repeats);
        for (start, end) in &pairs {
            // SAFETY: both were recorded and have completed.
            let milliseconds = unsafe { event::elapsed(start.0, end.0) }.doing(doing)?;
            seconds.push(f64::from(milliseconds) / 1e3);
        }
        seconds.retain(|s| s.is_finite());
        Ok(seconds)
    }
}
