//! Copies that the host does not wait for. To the device, bytes go through a page-locked ring of two halves, and a half is
//! used again only when the copies out of it are done. From the device, they arrive in page-locked memory and are looked
//! at later.

use super::driver::{Doing, Driver, PinnedMemory};
use crate::error::CoreError;
use alloc::string::{String, ToString};
use cudarc::driver::{result, sys};

/// Smallest half of the ring.
const SMALLEST_HALF: usize = 1 << 20;

struct Half {
    memory: PinnedMemory,
    used: usize,
    /// Recorded behind the last copy out of this half.
    copied: sys::CUevent,
}

/// The ring.
pub(super) struct Staging {
    halves: [Half; 2],
    current: usize,
}

fn doing() -> String {
    "copying to the device".to_string()
}

impl Staging {
    /// A ring whose halves hold the inputs of one micro-batch at least.
    pub fn new(input_bytes: usize) -> Result<Self, CoreError> {
        let half = || -> Result<Half, CoreError> {
            let memory = PinnedMemory::new(input_bytes.next_multiple_of(256).max(SMALLEST_HALF))?;
            let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
            Ok(Half { memory, used: 0, copied: result::event::create(flags).doing(doing)? })
        };
        Ok(Self { halves: [half()?, half()?], current: 0 })
    }

    /// Copies `bytes` to a device address, in the order of the stream. The host may change them when this returns.
    pub fn copy(&mut self, driver: &Driver, mut address: u64, mut bytes: &[u8]) -> Result<(), CoreError> {
        while !bytes.is_empty() {
            let half = &mut self.halves[self.current];
            let room = half.memory.bytes - half.used;
            if room == 0 {
                self.turn(driver)?;
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(room));
            // SAFETY: the part fits behind what is used of this half, which nothing reads before the copy is done: the
            // half starts from 0 again only after its event.
            unsafe {
                let pinned = core::slice::from_raw_parts_mut(half.memory.pointer.add(half.used), part.len());
                pinned.copy_from_slice(part);
                result::memcpy_htod_async(address, pinned, driver.stream).doing(doing)?;
            }
            half.used += part.len();
            address += part.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Leaves the full half and waits until the other one may be written.
    fn turn(&mut self, driver: &Driver) -> Result<(), CoreError> {
        // SAFETY: events and stream are ours; an event that was never recorded counts as done.
        unsafe {
            result::event::record(self.halves[self.current].copied, driver.stream).doing(doing)?;
            self.current ^= 1;
            result::event::synchronize(self.halves[self.current].copied).doing(doing)?;
        }
        self.halves[self.current].used = 0;
        Ok(())
    }
}

/// Copies from the device that are under way, or were.
pub(super) struct Fetch {
    memory: PinnedMemory,
    bytes: usize,
    /// Recorded behind the copies.
    copied: sys::CUevent,
}

fn reading() -> String {
    "reading back from the device".to_string()
}

impl Fetch {
    /// No copy yet.
    pub fn new() -> Result<Self, CoreError> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let copied = result::event::create(flags).doing(reading)?;
        Ok(Self { memory: PinnedMemory::new(0)?, bytes: 0, copied })
    }

    /// Enqueues copies of (address, bytes), one behind the other. Memory grows with the first call and then stays.
    pub fn start(&mut self, driver: &Driver, places: &[(u64, usize)]) -> Result<(), CoreError> {
        self.bytes = places.iter().map(|(_, bytes)| bytes).sum();
        if self.memory.bytes < self.bytes {
            self.memory = PinnedMemory::new(self.bytes)?;
        }
        let mut at = 0;
        for (address, bytes) in places {
            // SAFETY: the places lie inside of allocations of the device, and the memory holds all of them; nothing reads
            // it before the event.
            unsafe {
                let to = core::slice::from_raw_parts_mut(self.memory.pointer.add(at), *bytes);
                result::memcpy_dtoh_async(to, *address, driver.stream).doing(reading)?;
            }
            at += bytes;
        }
        // SAFETY: event and stream are ours.
        unsafe { result::event::record(self.copied, driver.stream) }.doing(reading)
    }

    /// Waits for the copies.
    pub fn wait(&self) -> Result<&[u8], CoreError> {
        // SAFETY: the event is ours; after it the copies are done, and the memory is as long as they were.
        unsafe {
            result::event::synchronize(self.copied).doing(reading)?;
            Ok(core::slice::from_raw_parts(self.memory.pointer, self.bytes))
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { result::event::destroy(self.copied) };
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for half in &self.halves {
            // SAFETY: created in `new`, destroyed once.
            let _ = unsafe { result::event::destroy(half.copied) };
        }
    }
}
