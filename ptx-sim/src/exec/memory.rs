//! Global memory of the virtual devices: allocations with red zones, backed by pages that exist once touched.
//!
//! All devices of a process share one address space, so that peer accesses need no translation. Each device owns a
//! window of 1 TiB; allocations are handed out upwards and their addresses are not used again until the window is
//! exhausted, which makes use after free visible. Pages of 2 MiB are created at the first access, filled with `0xff`
//! (a NaN in every float format), and carry one byte of initialisation state per four bytes of data.
//!
//! All device accesses go through relaxed atomics: a racing kernel is a finding, not undefined behaviour of the host.

use super::huge;
pub use super::memory_error::{AllocationInfo, MemoryError};
use super::shadow::ShadowPage;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// First device address of device 0.
pub const GLOBAL_BASE: u64 = 0x0a00_0000_0000;
/// Distance between the windows of two devices.
pub const DEVICE_WINDOW: u64 = 1 << 40;
/// Bytes around every allocation that belong to nobody.
pub const RED_ZONE: u64 = 512;
const PAGE_SHIFT: u32 = 21;
/// Bytes of one page.
pub const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
const ALIGN: u64 = 512;

/// One page of device memory with its initialisation state.
#[repr(C, align(64))]
pub(crate) struct Page {
    data: [AtomicU8; PAGE_BYTES],
    /// Per four bytes of data, a bit for each byte that was written.
    init: [AtomicU8; PAGE_BYTES / 4],
    shadow: AtomicPtr<ShadowPage>,
}

impl Page {
    fn create() -> *mut Page {
        let p = huge::map::<Page>();
        // SAFETY: `p` is a fresh allocation of a `Page`, nobody else knows it yet; every field of `Page` is valid as zero
        // bytes (atomics, null pointer).
        unsafe { std::ptr::write_bytes((&raw mut (*p).data).cast::<u8>(), 0xff, PAGE_BYTES) };
        p
    }

    /// # Safety
    /// `p` came from [`Page::create`] and nobody uses it any more.
    unsafe fn destroy(p: *mut Page) {
        // SAFETY: the caller upholds that `p` is exclusively ours; shadow pages come from `ShadowPage::create`.
        unsafe {
            let s = (*p).shadow.load(Ordering::Acquire);
            if !s.is_null() {
                ShadowPage::destroy(s);
            }
            huge::unmap(p);
        }
    }

    /// The race-detector page, created when it is first asked for.
    pub(crate) fn shadow(&self) -> &ShadowPage {
        let p = self.shadow.load(Ordering::Acquire);
        if !p.is_null() {
            // SAFETY: a shadow page lives as long as its page.
            return unsafe { &*p };
        }
        let fresh = ShadowPage::create();
        match self.shadow.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just published, lives as long as the page.
            Ok(_) => unsafe { &*fresh },
            Err(other) => {
                // SAFETY: `fresh` was never published; `other` lives as long as the page.
                unsafe {
                    ShadowPage::destroy(fresh);
                    &*other
                }
            }
        }
    }

    /// Initialisation state of 32 bytes of data from `32 * i`, as one word.
    #[inline(always)]
    fn init_word(&self, i: usize) -> &AtomicU64 {
        let p: *const AtomicU8 = &self.init[8 * i];
        // SAFETY: the array begins at a multiple of 8 in a struct aligned to 64, its length is a multiple of 8, and all of
        // it is atomic.
        unsafe { &*p.cast::<AtomicU64>() }
    }

    /// Marks `n` bytes from `off` as written.
    #[inline]
    pub(crate) fn mark_init(&self, off: usize, n: usize) {
        let mut at = off;
        let end = off + n;
        while at < end {
            if at.is_multiple_of(32) && at + 32 <= end {
                self.init_word(at / 32).store(ALL_WRITTEN, Ordering::Relaxed);
                at += 32;
            } else if at.is_multiple_of(4) && at + 4 <= end {
                self.init[at / 4].store(0xf, Ordering::Relaxed);
                at += 4;
            } else {
                self.init[at / 4].fetch_or(1 << (at % 4), Ordering::Relaxed);
                at += 1;
            }
        }
    }

    /// Whether all `n` bytes from `off` were written.
    #[inline]
    /// Marks bytes as unwritten; offset and length are multiples of four.
    pub(crate) fn forget(&self, off: usize, n: usize) {
        for word in &self.init[off / 4..(off + n) / 4] {
            word.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_init(&self, off: usize, n: usize) -> bool {
        let mut at = off;
        let end = off + n;
        while at < end {
            if at.is_multiple_of(32) && at + 32 <= end {
                if self.init_word(at / 32).load(Ordering::Relaxed) != ALL_WRITTEN {
                    return false;
                }
                at += 32;
            } else if at.is_multiple_of(4) && at + 4 <= end {
                if self.init[at / 4].load(Ordering::Relaxed) != 0xf {
                    return false;
                }
                at += 4;
            } else {
                if self.init[at / 4].load(Ordering::Relaxed) >> (at % 4) & 1 == 0 {
                    return false;
                }
                at += 1;
            }
        }
        true
    }
}

/// State of 32 bytes that were all written: the low four bits of each of eight bytes.
const ALL_WRITTEN: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// State of a range of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeState {
    Live,
    Freed,
    Host,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    base: u64,
    end: u64,
    state: RangeState,
}

struct DeviceWindow {
    next: u64,
    used: u64,
    capacity: u64,
}

struct Table {
    live: BTreeMap<u64, (u64, Option<usize>)>,
    freed: BTreeMap<u64, u64>,
    windows: Vec<DeviceWindow>,
    snapshot: Option<Arc<Vec<RangeEntry>>>,
}

/// Entry of a snapshot; opaque outside this file.
pub(crate) struct RangeEntry(Range);

/// The global memory of all devices of a process.
pub struct GlobalMemory {
    table: Mutex<Table>,
    pages: Vec<Box<[AtomicPtr<Page>]>>,
    gate: RwLock<()>,
    launches: AtomicU64,
}

/// A range of device memory that was checked: where its bytes are.
pub(crate) struct Located<'a> {
    /// Host address of the first byte.
    pub(crate) ptr: *mut u8,
    /// Page and offset within it; `None` for registered host memory.
    pub(crate) page: Option<(&'a Page, usize)>,
}

impl GlobalMemory {
    /// An address space of `devices` devices of `bytes_per_device` bytes each.
    pub fn new(devices: usize, bytes_per_device: u64) -> GlobalMemory {
        let entries = (DEVICE_WINDOW >> PAGE_SHIFT) as usize;
        let window = |d: usize| DeviceWindow {
            next: GLOBAL_BASE + d as u64 * DEVICE_WINDOW + RED_ZONE,
            used: 0,
            capacity: bytes_per_device.min(DEVICE_WINDOW / 2),
        };
        GlobalMemory {
            table: Mutex::new(Table {
                live: BTreeMap::new(),
                freed: BTreeMap::new(),
                windows: (0..devices).map(window).collect(),
                snapshot: None,
            }),
            pages: (0..devices).map(|_| (0..entries).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect()).collect(),
            gate: RwLock::new(()),
            launches: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Allocates `bytes` on a device, aligned to 512 bytes, contents undefined.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] or [`MemoryError::NoDevice`].
    pub fn allocate(&self, device: usize, bytes: u64) -> Result<u64, MemoryError> {
        let mut t = self.lock();
        let devices = t.windows.len();
        let Some(w) = t.windows.get(device) else {
            return Err(MemoryError::NoDevice { device, devices });
        };
        let free = w.capacity - w.used;
        if bytes > free {
            return Err(MemoryError::OutOfMemory { asked: bytes, free, device });
        }
        let span = bytes.max(1).div_ceil(ALIGN) * ALIGN + RED_ZONE;
        let window_end = GLOBAL_BASE + (device as u64 + 1) * DEVICE_WINDOW;
        let base = if w.next + span <= window_end {
            w.next
        } else {
            // Addresses are used again only now: forget what was freed and take the first gap.
            let start = GLOBAL_BASE + device as u64 * DEVICE_WINDOW + RED_ZONE;
            t.freed.retain(|b, _| !(start..window_end).contains(b));
            let mut at = start;
            for (b, (len, _)) in t.live.range(start..window_end) {
                if at + span <= *b {
                    break;
                }
                at = b + len.max(&1).div_ceil(ALIGN) * ALIGN + RED_ZONE;
            }
            if at + span > window_end {
                return Err(MemoryError::OutOfMemory { asked: bytes, free, device });
            }
            at
        };
        t.windows[device].next = t.windows[device].next.max(base + span);
        t.windows[device].used += bytes;
        t.live.insert(base, (bytes, Some(device)));
        t.snapshot = None;
        Ok(base)
    }

    /// Frees an allocation. Waits for running launches.
    ///
    /// # Errors
    /// [`MemoryError::NotAnAllocation`].
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        let _gate = self.gate.write().unwrap_or_else(|e| e.into_inner());
        let mut t = self.lock();
        let Some(&(bytes, Some(device))) = t.live.get(&address) else {
            return Err(MemoryError::NotAnAllocation { address });
        };
        t.live.remove(&address);
        t.freed.insert(address, bytes);
        t.windows[device].used -= bytes;
        t.snapshot = None;
        let page_of = |a: u64| a >> PAGE_SHIFT;
        for p in page_of(address)..=page_of(address + bytes.max(1) - 1) {
            let (lo, hi) = (p << PAGE_SHIFT, (p + 1) << PAGE_SHIFT);
            let shared = t.live.range(..hi).next_back().is_some_and(|(b, (len, _))| b + (*len).max(1) > lo);
            if !shared {
                let index = ((lo - GLOBAL_BASE) % DEVICE_WINDOW) >> PAGE_SHIFT;
                let old = self.pages[device][index as usize].swap(std::ptr::null_mut(), Ordering::AcqRel);
                if !old.is_null() {
                    // SAFETY: the page was unlinked, no live allocation lies on it, and the gate keeps launches and
                    // host copies out while it is freed.
                    unsafe { Page::destroy(old) };
                }
            }
        }
        Ok(())
    }

    /// Makes host memory accessible to kernels under its own address.
    ///
    /// # Safety
    /// The memory must stay valid until [`GlobalMemory::unregister_host`].
    pub unsafe fn register_host(&self, ptr: *mut u8, bytes: u64) {
        let mut t = self.lock();
        t.live.insert(ptr as u64, (bytes, None));
        t.snapshot = None;
    }

    /// Ends a registration. Waits for running launches.
    ///
    /// # Errors
    /// [`MemoryError::NotAnAllocation`].
    pub fn unregister_host(&self, ptr: *mut u8) -> Result<(), MemoryError> {
        let _gate = self.gate.write().unwrap_or_else(|e| e.into_inner());
        let mut t = self.lock();
        match t.live.get(&(ptr as u64)) {
            Some((_, None)) => {
                t.live.remove(&(ptr as u64));
                t.snapshot = None;
                Ok(())
            }
            _ => Err(MemoryError::NotAnAllocation { address: ptr as u64 }),
        }
    }

    /// The live allocation that contains an address.
    pub fn allocation(&self, address: u64) -> Option<AllocationInfo> {
        let t = self.lock();
        let (base, (bytes, device)) = t.live.range(..=address).next_back()?;
        (address - base < (*bytes).max(1)).then_some(AllocationInfo { base: *base, bytes: *bytes, device: *device })
    }

    /// Free and total bytes of a device.
    ///
    /// # Errors
    /// [`MemoryError::NoDevice`].
    pub fn usage(&self, device: usize) -> Result<(u64, u64), MemoryError> {
        let t = self.lock();
        let devices = t.windows.len();
        let w = t.windows.get(device).ok_or(MemoryError::NoDevice { device, devices })?;
        Ok((w.capacity - w.used, w.capacity))
    }

    /// Copies device memory to the host.
    ///
    /// # Errors
    /// When the range is not within one live allocation.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        self.pieces(address, out.len(), |done, ptr, n, _| {
            // SAFETY: `pieces` yields checked ranges of live pages; `out` holds `done + n` bytes.
            unsafe { std::ptr::copy_nonoverlapping(ptr, out.as_mut_ptr().add(done), n) }
        })
    }

    /// Copies host memory to the device and marks it as initialised.
    ///
    /// # Errors
    /// When the range is not within one live allocation.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), MemoryError> {
        self.pieces(address, data.len(), |done, ptr, n, page| {
            // SAFETY: `pieces` yields checked ranges of live pages; `data` holds `done + n` bytes.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr().add(done), ptr, n) };
            if let Some((p, off)) = page {
                p.mark_init(off, n);
            }
        })
    }

    /// Fills device memory with a repeated pattern and marks it as initialised.
    ///
    /// # Errors
    /// When the range is not within one live allocation.
    pub fn fill(&self, address: u64, pattern: &[u8], count: usize) -> Result<(), MemoryError> {
        let total = pattern.len() * count;
        self.pieces(address, total, |done, ptr, n, page| {
            for i in 0..n {
                // SAFETY: `pieces` yields checked ranges of `n` bytes.
                unsafe { *ptr.add(i) = pattern[(done + i) % pattern.len()] };
            }
            if let Some((p, off)) = page {
                p.mark_init(off, n);
            }
        })
    }

    /// Copies within device memory; initialisation state travels with the bytes. Ranges may overlap.
    ///
    /// # Errors
    /// When either range is not within one live allocation.
    pub fn copy(&self, destination: u64, source: u64, bytes: usize) -> Result<(), MemoryError> {
        let mut data = vec![0u8; bytes];
        let mut init = vec![true; bytes];
        self.pieces(source, bytes, |done, ptr, n, page| {
            // SAFETY: `pieces` yields checked ranges of `n` bytes.
            unsafe { std::ptr::copy_nonoverlapping(ptr, data.as_mut_ptr().add(done), n) };
            if let Some((p, off)) = page {
                for i in 0..n {
                    init[done + i] = p.is_init(off + i, 1);
                }
            }
        })?;
        self.pieces(destination, bytes, |done, ptr, n, page| {
            // SAFETY: `pieces` yields checked ranges of `n` bytes.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr().add(done), ptr, n) };
            if let Some((p, off)) = page {
                for i in 0..n {
                    if init[done + i] {
                        p.mark_init(off + i, 1);
                    }
                }
            }
        })
    }

    fn pieces(
        &self,
        address: u64,
        bytes: usize,
        mut f: impl FnMut(usize, *mut u8, usize, Option<(&Page, usize)>),
    ) -> Result<(), MemoryError> {
        let _gate = self.gate.read().unwrap_or_else(|e| e.into_inner());
        let view = self.view();
        view.check(address, bytes, &mut 0)?;
        let mut done = 0;
        while done < bytes {
            let at = address + done as u64;
            let n = (PAGE_BYTES - (at as usize & (PAGE_BYTES - 1))).min(bytes - done);
            let l = view.locate(at, n, &mut 0)?;
            f(done, l.ptr, n, l.page);
            done += n;
        }
        Ok(())
    }

    /// Drops all race-detector state. Waits for running launches.
    pub(crate) fn forget_shadows(&self) {
        let _gate = self.gate.write().unwrap_or_else(|e| e.into_inner());
        for p in self.pages.iter().flat_map(|w| w.iter()) {
            let p = p.load(Ordering::Acquire);
            if !p.is_null() {
                // SAFETY: pages live until `free`, which the gate keeps out; nobody uses the shadow without the gate.
                let old = unsafe { (*p).shadow.swap(std::ptr::null_mut(), Ordering::AcqRel) };
                if !old.is_null() {
                    // SAFETY: the shadow was unlinked just now.
                    unsafe { ShadowPage::destroy(old) };
                }
            }
        }
    }

    /// Keeps memory from being freed while a launch runs.
    pub(crate) fn hold(&self) -> std::sync::RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(|e| e.into_inner())
    }

    /// Number of this launch, from 1.
    pub(crate) fn next_launch(&self) -> u64 {
        self.launches.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The address space as it is now, for fast checks during a launch.
    pub(crate) fn view(&self) -> View<'_> {
        let mut t = self.lock();
        if let Some(s) = &t.snapshot {
            return View { ranges: s.clone(), memory: self };
        }
        let mut ranges: Vec<Range> = t
            .live
            .iter()
            .map(|(&base, &(bytes, device))| Range {
                base,
                end: base + bytes,
                state: if device.is_some() { RangeState::Live } else { RangeState::Host },
            })
            .chain(t.freed.iter().map(|(&base, &bytes)| Range { base, end: base + bytes, state: RangeState::Freed }))
            .collect();
        ranges.sort_by_key(|r| (r.base, r.end));
        let snapshot: Arc<Vec<RangeEntry>> = Arc::new(ranges.into_iter().map(RangeEntry).collect());
        t.snapshot = Some(snapshot.clone());
        View { ranges: snapshot, memory: self }
    }
}

impl Drop for GlobalMemory {
    fn drop(&mut self) {
        for p in self.pages.iter().flat_map(|w| w.iter()) {
            let p = p.swap(std::ptr::null_mut(), Ordering::AcqRel);
            if !p.is_null() {
                // SAFETY: the whole address space is being dropped; nobody holds a reference into it.
                unsafe { Page::destroy(p) };
            }
        }
    }
}

/// Immutable picture of the allocations.
pub(crate) struct View<'a> {
    ranges: Arc<Vec<RangeEntry>>,
    memory: &'a GlobalMemory,
}

impl<'a> View<'a> {
    /// Checks that `bytes` from `address` lie in one live range. `last` remembers the range of the previous access.
    #[inline]
    fn check(&self, address: u64, bytes: usize, last: &mut usize) -> Result<RangeState, MemoryError> {
        if let Some(RangeEntry(r)) = self.ranges.get(*last)
            && r.state == RangeState::Live
            && address >= r.base
            && address.saturating_add(bytes as u64) <= r.end
        {
            return Ok(RangeState::Live);
        }
        self.check_slow(address, bytes, last)
    }

    #[cold]
    fn check_slow(&self, address: u64, bytes: usize, last: &mut usize) -> Result<RangeState, MemoryError> {
        let i = self.ranges.partition_point(|r| r.0.base <= address);
        let bytes = bytes as u64;
        if i > 0 {
            let r = self.ranges[i - 1].0;
            if address.saturating_add(bytes) <= r.end && r.state != RangeState::Freed {
                *last = i - 1;
                return Ok(r.state);
            }
            if address < r.end && r.state == RangeState::Freed {
                return Err(MemoryError::UseAfterFree { address, bytes, freed: (r.base, r.end - r.base) });
            }
        }
        let live = |r: &&RangeEntry| r.0.state != RangeState::Freed;
        let before = self.ranges[..i].iter().rev().find(live).map(|r| (r.0.base, r.0.end - r.0.base));
        let after = self.ranges[i..].iter().find(live).map(|r| (r.0.base, r.0.end - r.0.base));
        let nearest = match (before, after) {
            (Some(b), Some(a)) if a.0 - address < address.saturating_sub(b.0 + b.1) => Some(a),
            (Some(b), _) => Some(b),
            (None, a) => a,
        };
        Err(MemoryError::OutOfBounds { address, bytes, nearest })
    }

    /// Checks a range and finds its bytes. The range must not cross a page, which aligned accesses never do.
    #[inline]
    pub(crate) fn locate(&self, address: u64, bytes: usize, last: &mut usize) -> Result<Located<'a>, MemoryError> {
        if self.check(address, bytes, last)? == RangeState::Host {
            return Ok(Located { ptr: address as *mut u8, page: None });
        }
        let rel = address - GLOBAL_BASE;
        let slot = &self.memory.pages[(rel / DEVICE_WINDOW) as usize][((rel % DEVICE_WINDOW) >> PAGE_SHIFT) as usize];
        let mut p = slot.load(Ordering::Acquire);
        if p.is_null() {
            p = create_page(slot);
        }
        let off = address as usize & (PAGE_BYTES - 1);
        debug_assert!(off + bytes <= PAGE_BYTES);
        // SAFETY: pages are destroyed only by `free` under the gate, which launches and host copies hold.
        let page = unsafe { &*p };
        Ok(Located { ptr: page.data[off].as_ptr(), page: Some((page, off)) })
    }
}

#[cold]
fn create_page(slot: &AtomicPtr<Page>) -> *mut Page {
    let fresh = Page::create();
    match slot.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        Err(other) => {
            // SAFETY: `fresh` was never published.
            unsafe { Page::destroy(fresh) };
            other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_read_across_pages() {
        let m = GlobalMemory::new(1, 1 << 30);
        let n = PAGE_BYTES + 1000;
        let p = m.allocate(0, n as u64).unwrap();
        let data: Vec<u8> = (0..n).map(|i| (i * 7 + i / 251) as u8).collect();
        m.write(p, &data).unwrap();
        let mut back = vec![0; n];
        m.read(p, &mut back).unwrap();
        assert_eq!(data, back);
        m.copy(p + 3, p, 100_000).unwrap();
        m.read(p + 3, &mut back[..100_000]).unwrap();
        assert_eq!(data[..100_000], back[..100_000]);
    }

    #[test]
    fn huge_allocations_cost_nothing() {
        let m = GlobalMemory::new(2, 400 << 30);
        let p = m.allocate(1, 390 << 30).unwrap();
        m.write(p + (300 << 30), &[1, 2, 3]).unwrap();
        assert!(matches!(m.allocate(1, 20 << 30), Err(MemoryError::OutOfMemory { .. })));
        m.free(p).unwrap();
        m.allocate(1, 20 << 30).unwrap();
    }

    #[test]
    fn bounds_and_use_after_free() {
        let m = GlobalMemory::new(1, 1 << 20);
        let p = m.allocate(0, 100).unwrap();
        let q = m.allocate(0, 100).unwrap();
        assert!(q - p >= 100 + RED_ZONE - 12);
        assert!(matches!(m.write(p + 99, &[0; 2]), Err(MemoryError::OutOfBounds { .. })));
        assert!(matches!(m.write(p - 1, &[0; 1]), Err(MemoryError::OutOfBounds { .. })));
        m.free(p).unwrap();
        assert!(matches!(m.read(p, &mut [0; 4]), Err(MemoryError::UseAfterFree { .. })));
        assert!(matches!(m.free(p), Err(MemoryError::NotAnAllocation { .. })));
        assert_eq!(m.allocation(q + 50).unwrap().base, q);
        assert_eq!(m.allocation(q + 100), None);
    }
}
