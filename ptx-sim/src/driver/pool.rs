//! Memory pools and stream-ordered allocation.
//!
//! A pool is an account: memory comes from the device when it is asked for and goes back when it is freed, so that a
//! use after free is found. The reserved bytes that a pool reports are therefore the used ones.

use super::allocations::Origin;
use super::capture;
use super::handles::lock;
use super::pointers::{Handle, In, Out};
use super::state::driver;
use super::status::{Outcome, Status};
use super::work::{Work, refuse};
use std::sync::Mutex;

/// `CUmemLocation`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemLocation {
    /// 1 for a device.
    pub kind: i32,
    /// Device ordinal.
    pub id: i32,
}

/// `CUmemPoolProps`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolProps {
    alloc_type: i32,
    handle_types: i32,
    location: MemLocation,
    security: usize,
    max_size: usize,
    usage: u16,
    reserved: [u8; 54],
}

/// `CUmemAccessDesc`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AccessDesc {
    /// Who gets access.
    pub location: MemLocation,
    /// 0 none, 1 read, 3 read and write.
    pub flags: i32,
}

/// A pool.
pub struct Pool {
    /// Its handle.
    pub handle: Handle,
    /// Device ordinal.
    pub device: usize,
    /// Whether it is a device's default pool, which cannot be destroyed.
    pub default: bool,
    account: Mutex<Account>,
}

struct Account {
    used: u64,
    high: u64,
    release_threshold: u64,
    reuse: [i32; 3],
    max_size: u64,
}

impl Pool {
    /// An empty pool.
    pub fn new(handle: Handle, device: usize, default: bool) -> Pool {
        let account = Account { used: 0, high: 0, release_threshold: 0, reuse: [1; 3], max_size: 0 };
        Pool { handle, device, default, account: Mutex::new(account) }
    }

    fn note_alloc(&self, bytes: u64) -> Outcome {
        let mut a = lock(&self.account);
        if a.max_size != 0 && a.used + bytes > a.max_size {
            return Err(Status::OUT_OF_MEMORY);
        }
        a.used += bytes;
        a.high = a.high.max(a.used);
        Ok(())
    }

    /// Notes that memory went back.
    pub fn note_free(&self, bytes: u64) {
        let mut a = lock(&self.account);
        a.used = a.used.saturating_sub(bytes);
    }
}

fn allocate(address: Out<u64>, bytes: usize, pool: Handle, stream: Handle) -> Outcome {
    address.check()?;
    let d = driver()?;
    let s = d.stream(stream)?;
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    if let Some(c) = s.capturing() {
        let a = c.graph.reserve(d, s.context.device, bytes as u64)?;
        c.append(s.handle, Work::Alloc(a, bytes as u64))?;
        return address.set(a);
    }
    if s.legacy {
        capture::refuse_implicit(d, &s)?;
    }
    let p = d.pools.find(pool).ok_or(Status::INVALID_VALUE)?;
    p.note_alloc(bytes as u64)?;
    let a = d.memory.allocate(d.devices[p.device].physical, bytes as u64).map_err(|e| {
        p.note_free(bytes as u64);
        refuse("cuMemAllocAsync", &e)
    })?;
    d.allocations.add(a, bytes as u64, s.context.handle, p.device, Origin::Pool(pool));
    address.set(a)
}

fn device_location(l: MemLocation) -> Outcome<usize> {
    if l.kind != 1 {
        return Err(Status::INVALID_VALUE);
    }
    Ok(driver()?.device(l.id)?.ordinal)
}

super::entry::api! {
    /// Allocates from the current pool of the stream's device, in stream order.
    fn cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: Handle) {
        let d = driver()?;
        let pool = *lock(&d.devices[d.stream(stream)?.context.device].current_pool);
        allocate(address, bytes, pool, stream)
    }

    /// Allocates from a pool, in stream order.
    fn cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: Handle, stream: Handle) {
        allocate(address, bytes, pool, stream)
    }

    /// Frees memory in stream order.
    fn cuMemFreeAsync(address: u64, stream: Handle) {
        let d = driver()?;
        let s = d.stream(stream)?;
        if s.capturing().is_none() && d.allocations.at(address).is_none_or(|r| r.origin.is_host() || r.origin == Origin::Mapped) {
            return Err(Status::INVALID_VALUE);
        }
        super::stream::submit_on(d, &s, Work::Free(address))
    }

    /// Creates a pool on a device. Only pinned pools without export handles exist.
    fn cuMemPoolCreate(pool: Out<Handle>, props: In<PoolProps>) {
        pool.check()?;
        let p = props.get()?;
        if p.alloc_type != 1 {
            return Err(Status::INVALID_VALUE);
        }
        if p.handle_types != 0 {
            super::entry::explain("cuMemPoolCreate: pools with export handles are not available on a virtual device; use CU_MEM_HANDLE_TYPE_NONE");
            return Err(Status::NOT_SUPPORTED);
        }
        let device = device_location(p.location)?;
        let (h, made) = driver()?.pools.add(|h| Pool::new(h, device, false));
        lock(&made.account).max_size = p.max_size as u64;
        pool.set(h)
    }

    /// Destroys a pool. Memory taken from it stays valid until it is freed.
    fn cuMemPoolDestroy(pool: Handle) {
        let d = driver()?;
        let p = d.pools.find(pool).ok_or(Status::INVALID_VALUE)?;
        if p.default {
            return Err(Status::INVALID_VALUE);
        }
        let device = &d.devices[p.device];
        let mut current_pool = lock(&device.current_pool);
        if *current_pool == pool {
            *current_pool = device.default_pool;
        }
        d.pools.remove(pool).map(|_| ())
    }

    /// Gives unused memory back: there is none to give.
    fn cuMemPoolTrimTo(pool: Handle, _keep: usize) {
        driver()?.pools.find(pool).map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    /// Reads an attribute of a pool.
    fn cuMemPoolGetAttribute(pool: Handle, attribute: i32, value: Out<u64>) {
        value.check()?;
        let p = driver()?.pools.find(pool).ok_or(Status::INVALID_VALUE)?;
        let a = lock(&p.account);
        match attribute {
            1..=3 => write_i32(value, a.reuse[attribute as usize - 1]),
            4 => value.set(a.release_threshold),
            5 | 7 => value.set(a.used),
            6 | 8 => value.set(a.high),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Sets an attribute of a pool. The high-water marks can only be set to zero.
    fn cuMemPoolSetAttribute(pool: Handle, attribute: i32, value: In<u64>) {
        let p = driver()?.pools.find(pool).ok_or(Status::INVALID_VALUE)?;
        let mut a = lock(&p.account);
        match attribute {
            1..=3 => a.reuse[attribute as usize - 1] = read_i32(value)?,
            4 => a.release_threshold = value.get()?,
            6 | 8 => {
                if value.get()? != 0 {
                    return Err(Status::INVALID_VALUE);
                }
                a.high = a.used;
            }
            _ => return Err(Status::INVALID_VALUE),
        }
        Ok(())
    }

    /// Sets who may access a pool. All devices may access all memory, so this checks its arguments.
    fn cuMemPoolSetAccess(pool: Handle, list: In<AccessDesc>, count: usize) {
        let p = driver()?.pools.find(pool).ok_or(Status::INVALID_VALUE)?;
        for access in list.to_vec(count)? {
            let device = device_location(access.location)?;
            if !matches!(access.flags, 0 | 1 | 3) || (access.flags == 0 && device == p.device) {
                return Err(Status::INVALID_VALUE);
            }
        }
        Ok(())
    }

    /// Every device may read and write every pool.
    fn cuMemPoolGetAccess(flags: Out<i32>, pool: Handle, location: In<MemLocation>) {
        driver()?.pools.find(pool).ok_or(Status::INVALID_VALUE)?;
        device_location(location.get()?)?;
        flags.set(3)
    }

    /// The default pool of a device.
    fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, device: i32) {
        pool.set(driver()?.device(device)?.default_pool)
    }

    /// The current pool of a device.
    fn cuDeviceGetMemPool(pool: Out<Handle>, device: i32) {
        pool.set(*lock(&driver()?.device(device)?.current_pool))
    }

    /// The default pool of a location, which must be a device.
    fn cuMemGetDefaultMemPool(pool: Out<Handle>, location: In<MemLocation>, _kind: i32) {
        let device = device_location(location.get()?)?;
        pool.set(driver()?.devices[device].default_pool)
    }

    /// The current pool of a location, which must be a device.
    fn cuMemGetMemPool(pool: Out<Handle>, location: In<MemLocation>, _kind: i32) {
        let device = device_location(location.get()?)?;
        pool.set(*lock(&driver()?.devices[device].current_pool))
    }

    /// Sets the current pool of a location, which must be the pool's device.
    fn cuMemSetMemPool(location: In<MemLocation>, _kind: i32, pool: Handle) {
        let d = driver()?;
        let device = device_location(location.get()?)?;
        if d.pools.find(pool).is_none_or(|p| p.device != device) {
            return Err(Status::INVALID_VALUE);
        }
        *lock(&d.devices[device].current_pool) = pool;
        Ok(())
    }

    /// Sets the current pool of a device.
    fn cuDeviceSetMemPool(device: i32, pool: Handle) {
        let d = driver()?;
        let device = d.device(device)?;
        let p = d.pools.find(pool).ok_or(Status::INVALID_VALUE)?;
        if p.device != device.ordinal {
            return Err(Status::INVALID_VALUE);
        }
        *lock(&device.current_pool) = pool;
        Ok(())
    }
}

/// Attributes 1 to 3 are `int`.
fn write_i32(value: Out<u64>, v: i32) -> Outcome {
    super::pointers::write_host(value.address(), &v.to_le_bytes())
}

fn read_i32(value: In<u64>) -> Outcome<i32> {
    let b = super::pointers::read_host(value.address(), 4)?;
    Ok(i32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}
