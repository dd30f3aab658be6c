//! Memory: device, managed and pinned allocations, what is known of a pointer.

use super::allocations::{Origin, Record};
use super::capture;
use super::entry::explain;
use super::host_memory;
use super::pointers::{Handle, In, Out, write_host};
use super::state::{current, driver};
use super::status::{Outcome, Status};
use super::work::refuse;

/// Alignment of rows from `cuMemAllocPitch`.
const PITCH_ALIGN: usize = 512;
/// `CU_MEMHOSTALLOC_PORTABLE | DEVICEMAP | WRITECOMBINED`
const HOST_ALLOC_FLAGS: u32 = 7;
/// `CU_MEMHOSTREGISTER_PORTABLE | DEVICEMAP | IOMEMORY | READ_ONLY`
const HOST_REGISTER_FLAGS: u32 = 15;

fn allocate_device(bytes: usize) -> Outcome<u64> {
    capture::refuse_unsafe_call()?;
    let c = current()?;
    let d = driver()?;
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let a = d.memory.allocate(d.device_of(&c).physical, bytes as u64).map_err(|e| refuse("cuMemAlloc", &e))?;
    d.allocations.add(a, bytes as u64, c.handle, c.device, Origin::Device);
    Ok(a)
}

fn allocate_host(bytes: usize, origin: Origin) -> Outcome<usize> {
    capture::refuse_unsafe_call()?;
    let c = current()?;
    let d = driver()?;
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let a = host_memory::allocate(bytes).ok_or(Status::OUT_OF_MEMORY)?;
    // SAFETY: the memory stays allocated until `free_host`, which ends the registration first.
    unsafe { d.memory.register_host(a as *mut u8, bytes as u64) };
    d.allocations.add(a as u64, bytes as u64, c.handle, c.device, origin);
    Ok(a)
}

fn free_host(record: Record) -> Outcome {
    driver()?.memory.unregister_host(record.base as *mut u8).map_err(|e| refuse("free", &e))?;
    // SAFETY: the record was taken out of the ledger, into which `allocate_host` put it; it cannot be freed again.
    unsafe { host_memory::free(record.base as usize, record.bytes as usize) };
    Ok(())
}

/// `CU_MEMORYTYPE_HOST` 1, `CU_MEMORYTYPE_DEVICE` 2.
fn memory_type(r: &Record) -> u32 {
    if r.origin.is_host() { 1 } else { 2 }
}

/// Writes one attribute. `Err(INVALID_VALUE)` when the pointer is unknown to CUDA or the attribute is not defined.
fn write_attribute(to: usize, attribute: i32, address: u64) -> Outcome {
    let r = driver()?.allocations.containing(address).ok_or(Status::INVALID_VALUE)?;
    let host_visible = r.origin.is_host() || r.origin == Origin::Managed;
    match attribute {
        1 => write_host(to, &r.context.0.to_le_bytes()),
        2 => write_host(to, &memory_type(&r).to_le_bytes()),
        3 => write_host(to, &address.to_le_bytes()),
        4 if host_visible => write_host(to, &address.to_le_bytes()),
        6 => write_host(to, &[r.sync_memops as u8]),
        7 => write_host(to, &r.id.to_le_bytes()),
        8 => write_host(to, &[(r.origin == Origin::Managed) as u8]),
        9 => write_host(to, &(r.device as i32).to_le_bytes()),
        10 => write_host(to, &[0]),
        11 | 19 => write_host(to, &r.base.to_le_bytes()),
        12 | 18 => write_host(to, &r.bytes.to_le_bytes()),
        13 => write_host(to, &[1]),
        14 => write_host(to, &0u64.to_le_bytes()),
        15 => write_host(to, &[0]),
        16 => write_host(to, &3i32.to_le_bytes()),
        17 => {
            let pool = if let Origin::Pool(p) = r.origin { p.0 } else { 0 };
            write_host(to, &pool.to_le_bytes())
        }
        20 => write_host(to, &r.id.to_le_bytes()),
        21 => write_host(to, &[0]),
        _ => Err(Status::INVALID_VALUE),
    }
}

super::entry::api! {
    /// Free and total bytes of the current device.
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let c = current()?;
        let d = driver()?;
        let (f, t) = d.memory.usage(d.device_of(&c).physical).map_err(|_| Status::INVALID_DEVICE)?;
        free.set_if_wanted(f as usize);
        total.set_if_wanted(t as usize);
        Ok(())
    }

    /// Allocates device memory.
    fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) {
        address.check()?;
        address.set(allocate_device(bytes)?)
    }

    /// Allocates rows of `width` bytes at a pitch of a multiple of 512.
    fn cuMemAllocPitch_v2(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32) {
        address.check()?;
        pitch.check()?;
        if !matches!(element, 4 | 8 | 16) {
            return Err(Status::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(PITCH_ALIGN).ok_or(Status::INVALID_VALUE)?;
        address.set(allocate_device(row.checked_mul(height).ok_or(Status::INVALID_VALUE)?)?)?;
        pitch.set(row)
    }

    /// Allocates memory that host and devices access under the same address. It lives in host memory.
    fn cuMemAllocManaged(address: Out<u64>, bytes: usize, flags: u32) {
        address.check()?;
        if !matches!(flags, 1 | 2) {
            return Err(Status::INVALID_VALUE);
        }
        address.set(allocate_host(bytes, Origin::Managed)? as u64)
    }

    /// Frees device, managed or stream-ordered memory. Null is allowed.
    fn cuMemFree_v2(address: u64) {
        let d = driver()?;
        if address == 0 {
            return Ok(());
        }
        capture::refuse_unsafe_call()?;
        current()?;
        let freeable = |r: &Record| matches!(r.origin, Origin::Device | Origin::Managed | Origin::Pool(_) | Origin::Graph);
        let Some(r) = d.allocations.take(address, freeable) else {
            explain(&format!("cuMemFree: {address:#x} is not the start of an allocation; pass the pointer that allocation returned, once"));
            return Err(Status::INVALID_VALUE);
        };
        match r.origin {
            Origin::Managed => free_host(r),
            Origin::Graph => Ok(()),
            Origin::Pool(pool) => {
                if let Some(p) = d.pools.find(pool) {
                    p.note_free(r.bytes);
                }
                d.memory.free(address).map_err(|e| refuse("cuMemFree", &e))
            }
            _ => d.memory.free(address).map_err(|e| refuse("cuMemFree", &e)),
        }
    }

    /// Base and size of the allocation that contains a pointer.
    fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, address: u64) {
        current()?;
        let r = driver()?.allocations.containing(address).ok_or(Status::NOT_FOUND)?;
        base.set_if_wanted(r.base);
        bytes.set_if_wanted(r.bytes as usize);
        Ok(())
    }

    /// Allocates pinned host memory.
    fn cuMemAllocHost_v2(address: Out<usize>, bytes: usize) {
        address.check()?;
        address.set(allocate_host(bytes, Origin::HostAlloc { flags: 0 })?)
    }

    /// Allocates pinned host memory.
    fn cuMemHostAlloc(address: Out<usize>, bytes: usize, flags: u32) {
        address.check()?;
        if flags & !HOST_ALLOC_FLAGS != 0 {
            return Err(Status::INVALID_VALUE);
        }
        address.set(allocate_host(bytes, Origin::HostAlloc { flags })?)
    }

    /// Frees pinned host memory. Null is allowed.
    fn cuMemFreeHost(address: usize) {
        let d = driver()?;
        if address == 0 {
            return Ok(());
        }
        current()?;
        let pinned = |r: &Record| matches!(r.origin, Origin::HostAlloc { .. });
        free_host(d.allocations.take(address as u64, pinned).ok_or(Status::INVALID_VALUE)?)
    }

    /// Pins memory of the program.
    fn cuMemHostRegister_v2(address: usize, bytes: usize, flags: u32) {
        capture::refuse_unsafe_call()?;
        let c = current()?;
        let d = driver()?;
        if address == 0 || bytes == 0 || flags & !HOST_REGISTER_FLAGS != 0 {
            return Err(Status::INVALID_VALUE);
        }
        if d.allocations.overlaps(address as u64, bytes as u64) {
            return Err(Status::HOST_MEMORY_ALREADY_REGISTERED);
        }
        // SAFETY: the C caller upholds that the range stays valid until cuMemHostUnregister.
        unsafe { d.memory.register_host(address as *mut u8, bytes as u64) };
        d.allocations.add(address as u64, bytes as u64, c.handle, c.device, Origin::HostRegister { flags });
        Ok(())
    }

    /// Ends the pinning of memory of the program.
    fn cuMemHostUnregister(address: usize) {
        let d = driver()?;
        current()?;
        if address == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let registered = |r: &Record| matches!(r.origin, Origin::HostRegister { .. });
        d.allocations.take(address as u64, registered).ok_or(Status::HOST_MEMORY_NOT_REGISTERED)?;
        d.memory.unregister_host(address as *mut u8).map_err(|_| Status::HOST_MEMORY_NOT_REGISTERED)
    }

    /// Device address of pinned memory: the same.
    fn cuMemHostGetDevicePointer_v2(device: Out<u64>, address: usize, flags: u32) {
        device.check()?;
        current()?;
        let r = driver()?.allocations.containing(address as u64).filter(|r| r.origin.is_host());
        if flags != 0 || r.is_none() {
            return Err(Status::INVALID_VALUE);
        }
        device.set(address as u64)
    }

    /// Flags of pinned memory.
    fn cuMemHostGetFlags(flags: Out<u32>, address: usize) {
        flags.check()?;
        match driver()?.allocations.containing(address as u64).map(|r| r.origin) {
            Some(Origin::HostAlloc { flags: f }) => flags.set(f | 2),
            Some(Origin::HostRegister { flags: f }) => flags.set(f),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// One attribute of a pointer.
    fn cuPointerGetAttribute(data: usize, attribute: i32, address: u64) {
        if data == 0 {
            return Err(Status::INVALID_VALUE);
        }
        write_attribute(data, attribute, address)
    }

    /// Several attributes of a pointer; those of an unknown pointer are null or zero.
    fn cuPointerGetAttributes(count: u32, attributes: In<i32>, data: In<usize>, address: u64) {
        driver()?;
        if count == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let (numbers, places) = (attributes.to_vec(count as usize)?, data.to_vec(count as usize)?);
        let known = driver()?.allocations.containing(address).is_some();
        for (number, place) in numbers.into_iter().zip(places) {
            if place == 0 || !(1..=21).contains(&number) {
                return Err(Status::INVALID_VALUE);
            }
            if !known || write_attribute(place, number, address).is_err() {
                let bytes = match number {
                    2 | 9 | 16 => 4,
                    6 | 8 | 10 | 13 | 15 | 21 => 1,
                    _ => 8,
                };
                let value = if number == 9 { [0xff; 8] } else { [0; 8] };
                write_host(place, &value[..bytes])?;
            }
        }
        Ok(())
    }

    /// Sets `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`, the only attribute that can be set.
    fn cuPointerSetAttribute(value: In<u32>, attribute: i32, address: u64) {
        let on = value.get()?;
        if attribute != 6 || !driver()?.allocations.set_sync_memops(address, on != 0) {
            return Err(Status::INVALID_VALUE);
        }
        Ok(())
    }

    /// Advice on managed memory, which has no effect.
    fn cuMemAdvise_v2(address: u64, bytes: usize, advice: i32, _location: super::pool::MemLocation) {
        check_managed(address, bytes)?;
        if (1..=6).contains(&advice) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Prefetch of managed memory, which has no effect.
    fn cuMemPrefetchAsync_v2(address: u64, bytes: usize, _location: super::pool::MemLocation, flags: u32, stream: Handle) {
        check_managed(address, bytes)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        driver()?.stream(stream).map(|_| ())
    }
}

fn check_managed(address: u64, bytes: usize) -> Outcome {
    let r = driver()?
        .allocations
        .containing(address)
        .filter(|r| r.origin == Origin::Managed)
        .ok_or(Status::INVALID_VALUE)?;
    if bytes == 0 || address + bytes as u64 > r.base + r.bytes { Err(Status::INVALID_VALUE) } else { Ok(()) }
}
