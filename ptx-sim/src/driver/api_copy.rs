//! Copies: host and device, two and three dimensions, peers; synchronous and in streams.

use super::capture;
use super::pointers::{Handle, In};
use super::state::{Driver, current, driver};
use super::status::{Outcome, Status};
use super::stream::submit;
use super::work::{CopyWork, Side, Work};
use crate::exec::memory::{DEVICE_WINDOW, GLOBAL_BASE};

const HOST: i32 = 1;
const DEVICE: i32 = 2;
const ARRAY: i32 = 3;
const UNIFIED: i32 = 4;

/// `CUDA_MEMCPY2D`
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Memcpy2D {
    pub src_x: usize,
    pub src_y: usize,
    pub src_type: i32,
    pub src_host: usize,
    pub src_device: u64,
    pub src_array: usize,
    pub src_pitch: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_type: i32,
    pub dst_host: usize,
    pub dst_device: u64,
    pub dst_array: usize,
    pub dst_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// `CUDA_MEMCPY3D`
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct Memcpy3D {
    pub src_x: usize,
    pub src_y: usize,
    pub src_z: usize,
    pub src_lod: usize,
    pub src_type: i32,
    pub src_host: usize,
    pub src_device: u64,
    pub src_array: usize,
    pub src_context: usize,
    pub src_pitch: usize,
    pub src_height: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_z: usize,
    pub dst_lod: usize,
    pub dst_type: i32,
    pub dst_host: usize,
    pub dst_device: u64,
    pub dst_array: usize,
    pub dst_context: usize,
    pub dst_pitch: usize,
    pub dst_height: usize,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

impl Driver {
    /// Whether an address lies in the windows of the devices.
    fn in_device_window(&self, address: u64) -> bool {
        (GLOBAL_BASE..GLOBAL_BASE + self.settings.devices as u64 * DEVICE_WINDOW).contains(&address)
    }

    /// The side of an address in the unified address space.
    pub fn side(&self, address: u64) -> Side {
        match self.allocations.containing(address) {
            Some(r) if r.origin.is_host() => Side::Host(address as usize),
            Some(_) => Side::Device(address),
            None if self.in_device_window(address) => Side::Device(address),
            None => Side::Host(address as usize),
        }
    }

    /// An address that the call declares to be in host memory.
    pub fn host_side(&self, address: usize) -> Outcome<Side> {
        if self.in_device_window(address as u64) { Err(Status::INVALID_VALUE) } else { Ok(Side::Host(address)) }
    }
}

/// One side of a 2D or 3D copy: memory type, host address, device address, array, offsets, pitch, slice height.
struct Place {
    kind: i32,
    host: usize,
    device: u64,
    array: usize,
    offset: [usize; 3],
    pitch: usize,
    height: usize,
}

impl Place {
    /// Address of the first byte, row pitch and slice pitch.
    fn resolve(&self, d: &Driver, width: usize, rows: usize, slices: usize) -> Outcome<(Side, usize, usize)> {
        let [x, y, z] = self.offset;
        let flat = rows <= 1 && slices <= 1;
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let height = if self.height == 0 { rows } else { self.height };
        if !flat && (pitch < x + width || (slices > 1 && height < rows)) {
            return Err(Status::INVALID_VALUE);
        }
        let slice = pitch.checked_mul(height).ok_or(Status::INVALID_VALUE)?;
        let start = z
            .checked_mul(slice)
            .and_then(|v| v.checked_add(y.checked_mul(pitch)?)?.checked_add(x))
            .ok_or(Status::INVALID_VALUE)?;
        let side = match self.kind {
            HOST => d.host_side(self.host.wrapping_add(start))?,
            DEVICE => Side::Device(self.device.wrapping_add(start as u64)),
            UNIFIED => d.side(self.device.wrapping_add(start as u64)),
            ARRAY => {
                super::entry::explain(&format!(
                    "copies from and to arrays ({:#x}) are not available on a virtual device; use linear memory",
                    self.array
                ));
                return Err(Status::NOT_SUPPORTED);
            }
            _ => return Err(Status::INVALID_VALUE),
        };
        Ok((side, pitch, slice))
    }
}

/// A strided copy from its C description.
pub fn strided(c: &Memcpy3D) -> Outcome<CopyWork> {
    let d = driver()?;
    let source = Place {
        kind: c.src_type,
        host: c.src_host,
        device: c.src_device,
        array: c.src_array,
        offset: [c.src_x, c.src_y, c.src_z],
        pitch: c.src_pitch,
        height: c.src_height,
    };
    let target = Place {
        kind: c.dst_type,
        host: c.dst_host,
        device: c.dst_device,
        array: c.dst_array,
        offset: [c.dst_x, c.dst_y, c.dst_z],
        pitch: c.dst_pitch,
        height: c.dst_height,
    };
    let (from, from_pitch, from_slice) = source.resolve(d, c.width, c.height, c.depth)?;
    let (to, to_pitch, to_slice) = target.resolve(d, c.width, c.height, c.depth)?;
    Ok(CopyWork {
        to,
        from,
        width: c.width,
        height: c.height,
        depth: c.depth,
        pitch: [to_pitch, from_pitch],
        slice: [to_slice, from_slice],
    })
}

/// The three-dimensional form of a 2D copy.
fn from_2d(c: &Memcpy2D) -> Memcpy3D {
    Memcpy3D {
        src_x: c.src_x,
        src_y: c.src_y,
        src_type: c.src_type,
        src_host: c.src_host,
        src_device: c.src_device,
        src_array: c.src_array,
        src_pitch: c.src_pitch,
        dst_x: c.dst_x,
        dst_y: c.dst_y,
        dst_type: c.dst_type,
        dst_host: c.dst_host,
        dst_device: c.dst_device,
        dst_array: c.dst_array,
        dst_pitch: c.dst_pitch,
        width: c.width,
        height: c.height,
        depth: 1,
        ..Memcpy3D::default()
    }
}

fn now(work: CopyWork) -> Outcome {
    capture::refuse_unsafe_call()?;
    current()?;
    submit(Handle::NULL, Work::Copy(work))
}

fn queued(stream: Handle, work: CopyWork) -> Outcome {
    submit(stream, Work::Copy(work))
}

fn contexts(list: [Handle; 2]) -> Outcome {
    let d = driver()?;
    list.into_iter().try_for_each(|h| d.contexts.find(h).map(|_| ()).ok_or(Status::INVALID_CONTEXT))
}

/// Copies in a batch; none of them may be empty, and the default streams are not allowed.
fn batch(to: In<u64>, from: In<u64>, bytes: In<usize>, count: usize, stream: Handle) -> Outcome {
    let d = driver()?;
    if count == 0 || stream == Handle::NULL {
        return Err(Status::INVALID_VALUE);
    }
    let (to, from, bytes) = (to.to_vec(count)?, from.to_vec(count)?, bytes.to_vec(count)?);
    for i in 0..count {
        queued(stream, CopyWork::linear(d.side(to[i]), d.side(from[i]), bytes[i]))?;
    }
    Ok(())
}

super::entry::api! {
    /// Copies between any two addresses.
    fn cuMemcpy(to: u64, from: u64, bytes: usize) {
        let d = driver()?;
        now(CopyWork::linear(d.side(to), d.side(from), bytes))
    }

    /// Copies between any two addresses, in a stream.
    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) {
        let d = driver()?;
        queued(stream, CopyWork::linear(d.side(to), d.side(from), bytes))
    }

    /// Copies host memory to a device.
    fn cuMemcpyHtoD_v2(to: u64, from: usize, bytes: usize) {
        now(CopyWork::linear(Side::Device(to), driver()?.host_side(from)?, bytes))
    }

    /// Copies device memory to the host.
    fn cuMemcpyDtoH_v2(to: usize, from: u64, bytes: usize) {
        now(CopyWork::linear(driver()?.host_side(to)?, Side::Device(from), bytes))
    }

    /// Copies device memory.
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        now(CopyWork::linear(Side::Device(to), Side::Device(from), bytes))
    }

    /// Copies host memory to a device, in a stream.
    fn cuMemcpyHtoDAsync_v2(to: u64, from: usize, bytes: usize, stream: Handle) {
        queued(stream, CopyWork::linear(Side::Device(to), driver()?.host_side(from)?, bytes))
    }

    /// Copies device memory to the host, in a stream.
    fn cuMemcpyDtoHAsync_v2(to: usize, from: u64, bytes: usize, stream: Handle) {
        queued(stream, CopyWork::linear(driver()?.host_side(to)?, Side::Device(from), bytes))
    }

    /// Copies device memory, in a stream.
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) {
        queued(stream, CopyWork::linear(Side::Device(to), Side::Device(from), bytes))
    }

    /// Copies between two contexts.
    fn cuMemcpyPeer(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize) {
        contexts([to_context, from_context])?;
        now(CopyWork::linear(Side::Device(to), Side::Device(from), bytes))
    }

    /// Copies between two contexts, in a stream.
    fn cuMemcpyPeerAsync(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize, stream: Handle) {
        contexts([to_context, from_context])?;
        queued(stream, CopyWork::linear(Side::Device(to), Side::Device(from), bytes))
    }

    /// Copies rows.
    fn cuMemcpy2D_v2(copy: In<Memcpy2D>) {
        now(strided(&from_2d(&copy.get()?))?)
    }

    /// Copies rows; any pitch is fast enough here.
    fn cuMemcpy2DUnaligned_v2(copy: In<Memcpy2D>) {
        now(strided(&from_2d(&copy.get()?))?)
    }

    /// Copies rows, in a stream.
    fn cuMemcpy2DAsync_v2(copy: In<Memcpy2D>, stream: Handle) {
        queued(stream, strided(&from_2d(&copy.get()?))?)
    }

    /// Copies slices.
    fn cuMemcpy3D_v2(copy: In<Memcpy3D>) {
        now(strided(&copy.get()?)?)
    }

    /// Copies slices, in a stream.
    fn cuMemcpy3DAsync_v2(copy: In<Memcpy3D>, stream: Handle) {
        queued(stream, strided(&copy.get()?)?)
    }

    /// Copies slices between two contexts.
    fn cuMemcpy3DPeer(copy: In<Memcpy3D>) {
        let c = copy.get()?;
        contexts([Handle(c.dst_context), Handle(c.src_context)])?;
        now(strided(&c)?)
    }

    /// Copies slices between two contexts, in a stream.
    fn cuMemcpy3DPeerAsync(copy: In<Memcpy3D>, stream: Handle) {
        let c = copy.get()?;
        contexts([Handle(c.dst_context), Handle(c.src_context)])?;
        queued(stream, strided(&c)?)
    }

    /// Copies several ranges, in a stream. Attributes are hints about order and location.
    fn cuMemcpyBatchAsync_v2(to: In<u64>, from: In<u64>, bytes: In<usize>, count: usize, _attributes: In<u8>, _indices: In<usize>, _attribute_count: usize, stream: Handle) {
        batch(to, from, bytes, count, stream)
    }

    /// As `cuMemcpyBatchAsync_v2`; the index of a copy that fails is always reported as unknown.
    fn cuMemcpyBatchAsync(to: In<u64>, from: In<u64>, bytes: In<usize>, count: usize, _attributes: In<u8>, _indices: In<usize>, _attribute_count: usize, fail: super::pointers::Out<usize>, stream: Handle) {
        fail.set_if_wanted(usize::MAX);
        batch(to, from, bytes, count, stream)
    }
}
