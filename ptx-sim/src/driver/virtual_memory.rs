//! Virtual memory management: reserved addresses, physical memory, mappings, access.
//!
//! Physical memory is an anonymous file, a reservation a range of host addresses without access, a mapping a shared
//! view of the file in that range. Two mappings of one handle therefore see the same bytes. A mapping becomes visible to
//! kernels when access is granted. Initialisation of such memory is not tracked.

use super::allocations::Origin;
use super::entry::explain;
use super::handles::{Table, lock};
use super::pointers::{In, Out};
use super::pool::{AccessDesc, MemLocation};
use super::state::{Driver, current, driver};
use super::status::{Outcome, Status};
use crate::exec::GlobalMemory;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// Granularity of sizes and addresses.
pub const GRANULARITY: usize = 2 << 20;

/// `CUmemAllocationProp`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AllocationProp {
    kind: i32,
    handle_types: i32,
    location: MemLocation,
    metadata: usize,
    compression: u8,
    rdma: u8,
    usage: u16,
    reserved: [u8; 4],
}

/// Physical memory behind a handle.
pub struct Physical {
    file: OwnedFd,
    bytes: usize,
    prop: AllocationProp,
    /// An allocation that nobody is told of; it charges the device's capacity.
    charge: u64,
    memory: Arc<GlobalMemory>,
}

impl Drop for Physical {
    fn drop(&mut self) {
        // The charge was allocated with this object and is known to nobody else.
        let _ = self.memory.free(self.charge);
    }
}

struct Mapping {
    bytes: usize,
    physical: Arc<Physical>,
    handle: u64,
    /// 0 none, 1 read, 3 read and write
    access: i32,
}

struct Reservation {
    bytes: usize,
    mappings: BTreeMap<usize, Mapping>,
    /// Ranges made known to kernels.
    visible: Vec<usize>,
}

/// All reservations and physical memory.
#[derive(Default)]
pub struct VirtualMemory {
    physical: Table<Physical>,
    reservations: Mutex<BTreeMap<usize, Reservation>>,
}

fn aligned(v: usize) -> Outcome {
    if v == 0 || !v.is_multiple_of(GRANULARITY) { Err(Status::INVALID_VALUE) } else { Ok(()) }
}

fn check_prop(d: &Driver, p: &AllocationProp) -> Outcome<usize> {
    if p.kind != 1 {
        return Err(Status::INVALID_VALUE);
    }
    if p.handle_types != 0 || p.location.kind != 1 || p.compression != 0 {
        explain("cuMemCreate: exported handles, host memory and compression are not available on a virtual device");
        return Err(Status::NOT_SUPPORTED);
    }
    Ok(d.device(p.location.id)?.physical)
}

/// Maps `bytes` at `at` (or anywhere when it is 0): without access when `file` is `None`, else as a view of the file.
fn map(at: usize, bytes: usize, file: Option<&OwnedFd>) -> Option<usize> {
    let fixed = if at == 0 { 0 } else { libc::MAP_FIXED };
    let (protection, flags, fd) = match file {
        None => (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
        Some(f) => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, f.as_raw_fd()),
    };
    // SAFETY: a fixed address lies in a reservation of ours (checked by the callers), so nothing else is replaced.
    let p = unsafe { libc::mmap(at as *mut libc::c_void, bytes, protection, flags | fixed, fd, 0) };
    if p == libc::MAP_FAILED { None } else { Some(p as usize) }
}

fn unmap(at: usize, bytes: usize) {
    // SAFETY: the range is part of a reservation of ours that is being given up.
    unsafe { libc::munmap(at as *mut libc::c_void, bytes) };
}

impl Reservation {
    /// Makes the accessible mappings known to kernels, neighbours as one range.
    fn publish(&mut self, memory: &GlobalMemory) {
        for a in self.visible.drain(..) {
            // Ranges in the list were registered by the previous call.
            let _ = memory.unregister_host(a as *mut u8);
        }
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for (a, m) in self.mappings.iter().filter(|(_, m)| m.access != 0) {
            match ranges.last_mut() {
                Some((base, bytes)) if *base + *bytes == *a => *bytes += m.bytes,
                _ => ranges.push((*a, m.bytes)),
            }
        }
        for (a, bytes) in ranges {
            // SAFETY: the range is mapped for reading and writing; it is unregistered before it is unmapped.
            unsafe { memory.register_host(a as *mut u8, bytes as u64) };
            self.visible.push(a);
        }
    }

    /// The mappings that a range covers exactly.
    fn covered(&self, at: usize, bytes: usize) -> Outcome<Vec<usize>> {
        let mut next = at;
        let mut out = Vec::new();
        for (a, m) in self.mappings.range(at..at.saturating_add(bytes)) {
            if *a != next {
                return Err(Status::INVALID_VALUE);
            }
            out.push(*a);
            next += m.bytes;
        }
        if next == at + bytes && !out.is_empty() { Ok(out) } else { Err(Status::INVALID_VALUE) }
    }
}

impl VirtualMemory {
    fn with<T>(&self, at: usize, f: impl FnOnce(&mut Reservation) -> Outcome<T>) -> Outcome<T> {
        let mut all = lock(&self.reservations);
        let (base, r) = all.range_mut(..=at).next_back().ok_or(Status::INVALID_VALUE)?;
        if at >= base + r.bytes { Err(Status::INVALID_VALUE) } else { f(r) }
    }
}

fn create(bytes: usize, prop: AllocationProp) -> Outcome<Physical> {
    let d = driver()?;
    let device = check_prop(d, &prop)?;
    aligned(bytes)?;
    // SAFETY: the name is a C string; the result is checked.
    let fd = unsafe { libc::memfd_create(c"ptx-sim".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(Status::OPERATING_SYSTEM);
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the descriptor is open.
    if unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) } != 0 {
        return Err(Status::OUT_OF_MEMORY);
    }
    let charge = d.memory.allocate(device, bytes as u64).map_err(|e| super::work::refuse("cuMemCreate", &e))?;
    Ok(Physical { file, bytes, prop, charge, memory: d.memory.clone() })
}

super::entry::api! {
    /// Granularity of virtual memory management: 2 MiB.
    fn cuMemGetAllocationGranularity(granularity: Out<usize>, prop: In<AllocationProp>, option: i32) {
        granularity.check()?;
        check_prop(driver()?, &prop.get()?)?;
        if !matches!(option, 0 | 1) {
            return Err(Status::INVALID_VALUE);
        }
        granularity.set(GRANULARITY)
    }

    /// Reserves addresses. A wish for a certain address is not granted.
    fn cuMemAddressReserve(address: Out<u64>, bytes: usize, alignment: usize, _wish: u64, flags: u64) {
        address.check()?;
        let d = driver()?;
        aligned(bytes)?;
        if flags != 0 || (alignment != 0 && !alignment.is_power_of_two()) {
            return Err(Status::INVALID_VALUE);
        }
        let alignment = alignment.max(GRANULARITY);
        let whole = map(0, bytes + alignment, None).ok_or(Status::OUT_OF_MEMORY)?;
        let base = whole.next_multiple_of(alignment);
        if base > whole {
            unmap(whole, base - whole);
        }
        unmap(base + bytes, whole + alignment - base);
        lock(&d.virtual_memory.reservations).insert(base, Reservation { bytes, mappings: BTreeMap::new(), visible: Vec::new() });
        address.set(base as u64)
    }

    /// Gives reserved addresses back; nothing may be mapped there.
    fn cuMemAddressFree(address: u64, bytes: usize) {
        let d = driver()?;
        let mut all = lock(&d.virtual_memory.reservations);
        let at = address as usize;
        if all.get(&at).is_none_or(|r| r.bytes != bytes || !r.mappings.is_empty()) {
            return Err(Status::INVALID_VALUE);
        }
        all.remove(&at);
        unmap(at, bytes);
        Ok(())
    }

    /// Makes physical memory.
    fn cuMemCreate(handle: Out<u64>, bytes: usize, prop: In<AllocationProp>, flags: u64) {
        handle.check()?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let p = create(bytes, prop.get()?)?;
        handle.set(driver()?.virtual_memory.physical.add(|_| p).0.0 as u64)
    }

    /// Releases physical memory; mappings keep it alive.
    fn cuMemRelease(handle: u64) {
        driver()?.virtual_memory.physical.remove(super::pointers::Handle(handle as usize)).map(|_| ()).map_err(|_| Status::INVALID_VALUE)
    }

    /// Maps physical memory into reserved addresses, without access.
    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) {
        let d = driver()?;
        let p = d.virtual_memory.physical.find(super::pointers::Handle(handle as usize)).ok_or(Status::INVALID_VALUE)?;
        let at = address as usize;
        aligned(bytes)?;
        if offset != 0 || flags != 0 || bytes != p.bytes || !at.is_multiple_of(GRANULARITY) {
            return Err(Status::INVALID_VALUE);
        }
        let context = current()?;
        d.virtual_memory.with(at, |r| {
            let overlap = r.mappings.range(..at + bytes).next_back().is_some_and(|(a, m)| a + m.bytes > at);
            if overlap {
                return Err(Status::ALREADY_MAPPED);
            }
            map(at, bytes, Some(&p.file)).ok_or(Status::MAP_FAILED)?;
            let device = d.device(p.prop.location.id)?.ordinal;
            d.allocations.add(address, bytes as u64, context.handle, device, Origin::Mapped);
            r.mappings.insert(at, Mapping { bytes, physical: p.clone(), handle, access: 0 });
            Ok(())
        })
    }

    /// Ends mappings.
    fn cuMemUnmap(address: u64, bytes: usize) {
        let d = driver()?;
        let at = address as usize;
        d.virtual_memory.with(at, |r| {
            let list = r.covered(at, bytes)?;
            for a in &list {
                if let Some(m) = r.mappings.get_mut(a) {
                    m.access = 0;
                }
            }
            // First no kernel may see it, then it may go.
            r.publish(&d.memory);
            for a in list {
                if let Some(m) = r.mappings.remove(&a) {
                    d.allocations.take(a as u64, |x| x.origin == Origin::Mapped);
                    map(a, m.bytes, None).ok_or(Status::UNMAP_FAILED)?;
                }
            }
            Ok(())
        })
    }

    /// Sets the access of devices to mappings. Access of one device is access of all.
    fn cuMemSetAccess(address: u64, bytes: usize, list: In<AccessDesc>, count: usize) {
        let d = driver()?;
        let at = address as usize;
        let list = list.to_vec(count)?;
        for a in &list {
            if a.location.kind != 1 || !matches!(a.flags, 0 | 1 | 3) {
                return Err(Status::INVALID_VALUE);
            }
            d.device(a.location.id)?;
        }
        let access = list.iter().map(|a| a.flags).max().ok_or(Status::INVALID_VALUE)?;
        d.virtual_memory.with(at, |r| {
            for a in r.covered(at, bytes)? {
                if let Some(m) = r.mappings.get_mut(&a) {
                    m.access = access;
                }
            }
            r.publish(&d.memory);
            Ok(())
        })
    }

    /// Access of a device to an address.
    fn cuMemGetAccess(flags: Out<u64>, location: In<MemLocation>, address: u64) {
        flags.check()?;
        let d = driver()?;
        d.device(location.get()?.id)?;
        let at = address as usize;
        let access = d.virtual_memory.with(at, |r| {
            let (a, m) = r.mappings.range(..=at).next_back().ok_or(Status::INVALID_VALUE)?;
            if at < a + m.bytes { Ok(m.access) } else { Err(Status::INVALID_VALUE) }
        })?;
        flags.set(access as u64)
    }

    /// Handle of the memory that is mapped at an address.
    fn cuMemRetainAllocationHandle(handle: Out<u64>, address: u64) {
        handle.check()?;
        let d = driver()?;
        let at = address as usize;
        let (h, p) = d.virtual_memory.with(at, |r| {
            let (a, m) = r.mappings.range(..=at).next_back().ok_or(Status::INVALID_VALUE)?;
            if at < a + m.bytes { Ok((m.handle, m.physical.clone())) } else { Err(Status::INVALID_VALUE) }
        })?;
        d.virtual_memory.physical.adopt(super::pointers::Handle(h as usize), p);
        handle.set(h)
    }

    /// Properties of physical memory.
    fn cuMemGetAllocationPropertiesFromHandle(prop: Out<AllocationProp>, handle: u64) {
        prop.check()?;
        let p = driver()?.virtual_memory.physical.find(super::pointers::Handle(handle as usize)).ok_or(Status::INVALID_VALUE)?;
        prop.set(p.prop)
    }
}
