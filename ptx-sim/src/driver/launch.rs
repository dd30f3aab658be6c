//! Launches: validation of the configuration, arguments, attributes.

use super::entry::explain;
use super::handles::lock;
use super::image::Function;
use super::occupancy as occ;
use super::pointers::{Handle, In, read_host};
use super::state::driver;
use super::status::{Outcome, Status};
use super::stream::submit;
use super::work::{KernelWork, Work};
use std::sync::Arc;

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` and `_SIZE`; 0 ends the list.
const PARAM_BUFFER_POINTER: usize = 1;
const PARAM_BUFFER_SIZE: usize = 2;

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchConfig {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// Stream.
    pub stream: Handle,
    attributes: In<LaunchAttribute>,
    count: u32,
}

/// `CUlaunchAttribute`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchAttribute {
    id: i32,
    pad: i32,
    value: [u32; 16],
}

/// The attributes of a launch that matter here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    /// `CLUSTER_DIMENSION`
    pub cluster: Option<[u32; 3]>,
    /// `COOPERATIVE`
    pub cooperative: bool,
    /// `PROGRAMMATIC_STREAM_SERIALIZATION` or `PROGRAMMATIC_EVENT`
    pub programmatic: bool,
    /// The cluster size may still be set: the launch is a graph node.
    pub node: bool,
    /// Event to record when the launch has begun or completed.
    pub event: Option<Handle>,
}

impl LaunchConfig {
    /// Reads the attribute list.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for an unknown attribute, `CUDA_ERROR_NOT_SUPPORTED` for device-updatable nodes.
    pub fn read_attributes(&self) -> Outcome<Attributes> {
        let mut out = Attributes::default();
        for a in self.attributes.to_vec(self.count as usize)? {
            let handle = Handle(a.value[0] as usize | (a.value[1] as usize) << 32);
            match a.id {
                // Hints without an effect on results: access window, synchronisation and cluster scheduling policy,
                // priority, memory synchronisation domains, preferred cluster, carveout, link utilisation.
                0 | 1 | 3 | 5 | 8 | 9 | 10 | 11 | 14 | 16 => {}
                2 => out.cooperative = a.value[0] != 0,
                4 => out.cluster = Some([a.value[0], a.value[1], a.value[2]]),
                6 => out.programmatic |= a.value[0] != 0,
                7 => {
                    out.programmatic = true;
                    out.event = Some(handle);
                }
                12 => out.event = Some(handle),
                13 if a.value[0] == 0 => {}
                13 => {
                    explain(
                        "device-updatable kernel nodes are not available on a virtual device; launch without the attribute",
                    );
                    return Err(Status::NOT_SUPPORTED);
                }
                _ => return Err(Status::INVALID_VALUE),
            }
        }
        Ok(out)
    }
}

/// Where the arguments of a launch are.
#[derive(Clone, Copy)]
pub struct Arguments {
    /// Array of pointers, one for each parameter.
    pub pointers: In<usize>,
    /// Alternative: list of keys and values with one packed buffer.
    pub extra: In<usize>,
}

impl Arguments {
    /// Copies the arguments into a parameter block.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` when both or neither form is given, a pointer is null, or the size is wrong.
    pub fn pack(&self, f: &Function) -> Outcome<Vec<u8>> {
        let kernel = f.kernel()?;
        let mut block = vec![0u8; kernel.param_bytes];
        if !self.extra.is_null() {
            if !self.pointers.is_null() {
                return Err(Status::INVALID_VALUE);
            }
            let (buffer, bytes) = self.packed_buffer()?;
            if bytes != kernel.param_bytes {
                explain(&format!(
                    "{}: the parameter buffer has {bytes} bytes, the kernel takes {}; compare the two parameter structures",
                    f.name, kernel.param_bytes
                ));
                return Err(Status::INVALID_VALUE);
            }
            super::pointers::read_host_into(buffer, &mut block)?;
            return Ok(block);
        }
        for (i, p) in kernel.params.iter().enumerate() {
            let at = self.pointers.get_at(i)?;
            let to = block.get_mut(p.offset..p.offset + p.bytes).ok_or(Status::INVALID_VALUE)?;
            super::pointers::read_host_into(at, to)?;
        }
        Ok(block)
    }

    fn packed_buffer(&self) -> Outcome<(usize, usize)> {
        let (mut buffer, mut bytes) = (0, None);
        for i in (0..8).step_by(2) {
            let value = |i| self.extra.get_at(i + 1);
            match self.extra.get_at(i)? {
                0 => break,
                PARAM_BUFFER_POINTER => buffer = value(i)?,
                PARAM_BUFFER_SIZE => {
                    let b = read_host(value(i)?, 8)?;
                    bytes = Some(b.iter().rev().fold(0usize, |v, x| v << 8 | *x as usize));
                }
                _ => return Err(Status::INVALID_VALUE),
            }
        }
        Ok((buffer, bytes.ok_or(Status::INVALID_VALUE)?))
    }
}

/// Size and attributes of a launch.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// Attributes.
    pub attributes: Attributes,
}

/// Checks a launch as the driver does before it is enqueued, and prepares it.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE` (sizes), `_LAUNCH_OUT_OF_RESOURCES` (block too large for the kernel, which needs more
/// registers or was declared for fewer threads), `_INVALID_CLUSTER_SIZE`, `_COOPERATIVE_LAUNCH_TOO_LARGE`.
pub fn prepare(handle: Handle, shape: Shape, arguments: Arguments) -> Outcome<KernelWork> {
    let function = driver()?.function(handle)?;
    let params = arguments.pack(&function)?;
    prepare_packed(handle, function, shape, params)
}

/// As [`prepare`], with the parameter block at hand.
pub fn prepare_packed(handle: Handle, function: Arc<Function>, shape: Shape, params: Vec<u8>) -> Outcome<KernelWork> {
    let d = driver()?;
    let a = d.settings.architecture;
    let Shape { grid, block, shared, attributes } = shape;
    let name = &function.name;
    let refuse = |status: Status, why: String| {
        explain(&format!("launch of {name} refused: {why}"));
        Err(status)
    };
    let max_grid = [i32::MAX as u32, 65_535, 65_535];
    let max_block = [1024, 1024, 64];
    if (0..3).any(|i| grid[i] == 0 || grid[i] > max_grid[i]) {
        return refuse(Status::INVALID_VALUE, format!("grid {grid:?} must lie within [1, 1, 1] and {max_grid:?}"));
    }
    if (0..3).any(|i| block[i] == 0 || block[i] > max_block[i]) || block.iter().product::<u32>() > 1024 {
        return refuse(
            Status::INVALID_VALUE,
            format!("block {block:?} must lie within {max_block:?} and have at most 1024 threads"),
        );
    }
    let kernel = function.kernel()?;
    if let Some(r) = kernel.required_threads
        && r != block
    {
        return refuse(Status::INVALID_VALUE, format!("block {block:?} differs from the kernel's .reqntid {r:?}"));
    }
    let threads = block.iter().product::<u32>();
    let limit = occ::max_threads(&function)?;
    if threads > limit {
        return refuse(
            Status::LAUNCH_OUT_OF_RESOURCES,
            format!("{threads} threads in a block, the kernel allows {limit}"),
        );
    }
    let own = *lock(&function.attributes);
    if shared > own.max_dynamic_shared {
        return refuse(
            Status::INVALID_VALUE,
            format!(
                "{shared} bytes of dynamic shared memory, allowed are {}; raise CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
                own.max_dynamic_shared
            ),
        );
    }
    let by_function = Some(own.cluster).filter(|c| c.iter().all(|x| *x > 0));
    let cluster = attributes.cluster.or(by_function).or(kernel.required_cluster);
    if let Some(c) = cluster {
        let size = c.iter().try_fold(1u32, |n, x| n.checked_mul(*x)).unwrap_or(u32::MAX);
        let (portable, largest) = occ::MAX_CLUSTER;
        let top = kernel.max_cluster.unwrap_or(u32::MAX).min(if own.non_portable_cluster { largest } else { portable });
        if size == 0 || size > top {
            return refuse(Status::INVALID_CLUSTER_SIZE, format!("cluster {c:?} has {size} blocks, allowed are {top}"));
        }
        if (0..3).any(|i| !grid[i].is_multiple_of(c[i])) {
            return refuse(
                Status::INVALID_CLUSTER_SIZE,
                format!("grid {grid:?} is not a multiple of the cluster {c:?}"),
            );
        }
        if kernel.required_cluster.is_some_and(|r| r != c) {
            return refuse(
                Status::INVALID_CLUSTER_SIZE,
                format!("cluster {c:?} differs from the kernel's own {:?}", kernel.required_cluster),
            );
        }
    } else if kernel.explicit_cluster && !attributes.node {
        return refuse(Status::INVALID_CLUSTER_SIZE, "the kernel must be launched with a cluster size".to_string());
    }
    if attributes.cooperative {
        let blocks = grid.iter().map(|x| *x as u64).product::<u64>();
        let room =
            occ::blocks_per_multiprocessor(a, &function, threads, shared as usize)? as u64 * a.multiprocessors() as u64;
        if blocks > room {
            return refuse(
                Status::COOPERATIVE_LAUNCH_TOO_LARGE,
                format!("{blocks} blocks must be resident at once, {room} fit"),
            );
        }
    }
    Ok(KernelWork {
        function: function.clone(),
        handle,
        grid,
        block,
        cluster,
        dynamic_shared: shared,
        params,
        cooperative: attributes.cooperative,
        programmatic: attributes.programmatic,
    })
}

fn launch(function: Handle, shape: Shape, stream: Handle, arguments: Arguments) -> Outcome {
    let d = driver()?;
    d.stream(stream)?;
    let work = prepare(function, shape, arguments)?;
    submit(stream, Work::Kernel(work))?;
    match shape.attributes.event {
        Some(event) if d.stream(stream)?.capturing().is_none() => {
            d.events.get(event)?.record();
            Ok(())
        }
        _ => Ok(()),
    }
}

super::entry::api! {
    /// Launches a kernel.
    fn cuLaunchKernel(function: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: Handle, pointers: In<usize>, extra: In<usize>) {
        let shape = Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared, attributes: Attributes::default() };
        launch(function, shape, stream, Arguments { pointers, extra })
    }

    /// Launches a kernel with attributes.
    fn cuLaunchKernelEx(config: In<LaunchConfig>, function: Handle, pointers: In<usize>, extra: In<usize>) {
        let c = config.get()?;
        let shape = Shape { grid: c.grid, block: c.block, shared: c.shared, attributes: c.read_attributes()? };
        launch(function, shape, c.stream, Arguments { pointers, extra })
    }

    /// Launches a kernel whose blocks are all resident at once.
    fn cuLaunchCooperativeKernel(function: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: Handle, pointers: In<usize>) {
        let attributes = Attributes { cooperative: true, ..Attributes::default() };
        let shape = Shape { grid: [gx, gy, gz], block: [bx, by, bz], shared, attributes };
        launch(function, shape, stream, Arguments { pointers, extra: In::null() })
    }
}
