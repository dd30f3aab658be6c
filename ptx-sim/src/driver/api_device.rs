//! Devices: count, names, attributes, peers.

use super::device_attributes as attributes;
use super::pointers::{Out, Text, write_host};
use super::state::{Device, current, driver};
use super::status::{Outcome, Status};

/// `CUdevprop`
#[repr(C)]
pub struct DeviceProperties {
    max_threads_per_block: i32,
    max_threads_dim: [i32; 3],
    max_grid_size: [i32; 3],
    shared_mem_per_block: i32,
    total_constant_memory: i32,
    simd_width: i32,
    mem_pitch: i32,
    regs_per_block: i32,
    clock_rate: i32,
    texture_align: i32,
}

fn attribute(device: &Device, number: i32) -> Outcome<i32> {
    let architecture = device.machine.settings().architecture;
    attributes::value(architecture, device.physical, number).ok_or(Status::INVALID_VALUE)
}

/// 16 bytes that name the device: the pretended architecture and the ordinal, marked as not real.
fn uuid(device: &Device) -> [u8; 16] {
    let mut u = *b"ptx-sim device \0";
    u[13] = device.machine.settings().architecture as u8;
    u[15] = device.physical as u8;
    u
}

/// Writes a C string, cut to `len` bytes with its NUL.
fn write_text(to: Out<u8>, len: i32, text: &str) -> Outcome {
    to.check()?;
    let len = usize::try_from(len).map_err(|_| Status::INVALID_VALUE)?;
    if len == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let mut bytes = text.as_bytes()[..text.len().min(len - 1)].to_vec();
    bytes.push(0);
    write_host(to.address(), &bytes)
}

fn pci_id(device: &Device) -> String {
    format!("0000:{:02X}:00.0", attributes::pci_bus(device.physical))
}

super::entry::api! {
    /// Device by ordinal.
    fn cuDeviceGet(device: Out<i32>, ordinal: i32) {
        device.check()?;
        driver()?.device(ordinal)?;
        device.set(ordinal)
    }

    /// Number of devices.
    fn cuDeviceGetCount(count: Out<i32>) {
        count.set(driver()?.devices.len() as i32)
    }

    /// Name.
    fn cuDeviceGetName(name: Out<u8>, len: i32, device: i32) {
        let d = driver()?.device(device)?;
        write_text(name, len, d.machine.settings().architecture.device_name())
    }

    /// UUID.
    fn cuDeviceGetUuid_v2(uuid_out: Out<[u8; 16]>, device: i32) {
        uuid_out.set(uuid(driver()?.device(device)?))
    }

    /// UUID.
    fn cuDeviceGetUuid(uuid_out: Out<[u8; 16]>, device: i32) {
        uuid_out.set(uuid(driver()?.device(device)?))
    }

    /// Total memory in bytes.
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) {
        bytes.check()?;
        let d = driver()?;
        let (_, total) = d.memory.usage(d.device(device)?.physical).map_err(|_| Status::INVALID_DEVICE)?;
        bytes.set(total as usize)
    }

    /// An attribute.
    fn cuDeviceGetAttribute(value: Out<i32>, number: i32, device: i32) {
        value.check()?;
        value.set(attribute(driver()?.device(device)?, number)?)
    }

    /// Compute capability.
    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) {
        major.check()?;
        minor.check()?;
        let d = driver()?.device(device)?;
        major.set(attribute(d, 75)?)?;
        minor.set(attribute(d, 76)?)
    }

    /// A few attributes in one structure.
    fn cuDeviceGetProperties(properties: Out<DeviceProperties>, device: i32) {
        properties.check()?;
        let d = driver()?.device(device)?;
        let a = |n| attribute(d, n);
        properties.set(DeviceProperties {
            max_threads_per_block: a(1)?,
            max_threads_dim: [a(2)?, a(3)?, a(4)?],
            max_grid_size: [a(5)?, a(6)?, a(7)?],
            shared_mem_per_block: a(8)?,
            total_constant_memory: a(9)?,
            simd_width: a(10)?,
            mem_pitch: a(11)?,
            regs_per_block: a(12)?,
            clock_rate: a(13)?,
            texture_align: a(14)?,
        })
    }

    /// PCI address as text.
    fn cuDeviceGetPCIBusId(text: Out<u8>, len: i32, device: i32) {
        let id = pci_id(driver()?.device(device)?);
        if len < 13 {
            return Err(Status::INVALID_VALUE);
        }
        write_text(text, len, &id)
    }

    /// Device by PCI address.
    fn cuDeviceGetByPCIBusId(device: Out<i32>, text: Text) {
        device.check()?;
        let wanted = text.read()?.to_ascii_uppercase();
        let d = driver()?;
        let found = d.devices.iter().find(|x| pci_id(x).ends_with(&wanted) && wanted.len() >= 7);
        device.set(found.ok_or(Status::INVALID_DEVICE)?.ordinal as i32)
    }

    /// Whether one device can access the memory of another: always, except its own.
    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) {
        can.check()?;
        let d = driver()?;
        can.set((d.device(device)?.ordinal != d.device(peer)?.ordinal) as i32)
    }

    /// Properties of the link of two devices: 1 rank, 2 access, 3 native atomics, 4 arrays.
    fn cuDeviceGetP2PAttribute(value: Out<i32>, number: i32, device: i32, peer: i32) {
        value.check()?;
        let d = driver()?;
        if d.device(device)?.ordinal == d.device(peer)?.ordinal {
            return Err(Status::INVALID_DEVICE);
        }
        match number {
            1 => value.set(0),
            2 | 3 => value.set(1),
            4 => value.set(0),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Enables access from the current context to the memory of another.
    fn cuCtxEnablePeerAccess(peer: super::pointers::Handle, flags: u32) {
        let d = driver()?;
        let context = current()?;
        let other = d.contexts.find(peer).ok_or(Status::INVALID_CONTEXT)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        if other.device == context.device {
            return Err(Status::INVALID_DEVICE);
        }
        if super::handles::lock(&context.peers).insert(other.device) { Ok(()) } else { Err(Status::PEER_ACCESS_ALREADY_ENABLED) }
    }

    /// Disables access from the current context to the memory of another.
    fn cuCtxDisablePeerAccess(peer: super::pointers::Handle) {
        let context = current()?;
        let other = driver()?.contexts.find(peer).ok_or(Status::INVALID_CONTEXT)?;
        if super::handles::lock(&context.peers).remove(&other.device) { Ok(()) } else { Err(Status::PEER_ACCESS_NOT_ENABLED) }
    }
}
