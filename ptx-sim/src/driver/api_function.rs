//! Attributes of functions and kernels, and occupancy.

use super::handles::lock;
use super::image::Function;
use super::launch::LaunchConfig;
use super::occupancy as occ;
use super::pointers::{BlockToShared, Handle, In, Out, call_block_to_shared};
use super::state::{current, driver};
use super::status::{Outcome, Status};
use crate::exec::Architecture;
use std::sync::Arc;

fn architecture() -> Outcome<Architecture> {
    Ok(driver()?.settings.architecture)
}

fn get(f: &Function, attribute: i32) -> Outcome<i32> {
    let kernel = f.kernel()?;
    let a = *lock(&f.attributes);
    let module = &f.image.loaded.module;
    Ok(match attribute {
        0 => occ::max_threads(f)? as i32,
        1 => kernel.static_shared as i32,
        2 => {
            let constant = |v: &&crate::exec::Variable| v.space == crate::exec::VariableSpace::Const;
            module.variables.iter().filter(constant).map(|v| v.bytes as i32).sum()
        }
        3 => kernel.local_bytes as i32,
        // Known from a cubin only; 0 says that it is not.
        4 => f.registers.unwrap_or(0) as i32,
        5 => (module.version.0 * 10 + module.version.1) as i32,
        6 => {
            let (major, minor) = architecture()?.compute_capability();
            (major * 10 + minor) as i32
        }
        7 => 0,
        8 => a.max_dynamic_shared as i32,
        9 => a.carveout,
        10 => (kernel.explicit_cluster && kernel.required_cluster.is_none()) as i32,
        11..=13 => a.cluster[attribute as usize - 11] as i32,
        14 => a.non_portable_cluster as i32,
        15 => a.cluster_policy,
        _ => return Err(Status::INVALID_VALUE),
    })
}

fn set(f: &Function, attribute: i32, value: i32) -> Outcome {
    let kernel = f.kernel()?;
    let mut a = lock(&f.attributes);
    match attribute {
        8 => {
            let room = architecture()?.max_shared_per_block_optin() as i64 - kernel.static_shared as i64;
            if value < 0 || value as i64 > room {
                super::entry::explain(&format!(
                    "{}: {value} bytes of dynamic shared memory were asked for, at most {room} are possible beside the {} static ones",
                    f.name, kernel.static_shared
                ));
                return Err(Status::INVALID_VALUE);
            }
            a.max_dynamic_shared = value as u32;
        }
        9 if (-1..=100).contains(&value) => a.carveout = value,
        11..=13 if value >= 0 && kernel.required_cluster.is_none() => a.cluster[attribute as usize - 11] = value as u32,
        14 if matches!(value, 0 | 1) => a.non_portable_cluster = value == 1,
        15 if (0..=2).contains(&value) => a.cluster_policy = value,
        _ => return Err(Status::INVALID_VALUE),
    }
    Ok(())
}

/// The function of a kernel on a device, through that device's primary or the current context.
fn kernel_function(kernel: Handle, device: i32) -> Outcome<Arc<Function>> {
    let d = driver()?;
    let device = d.device(device)?;
    let k = d.kernels.get(kernel)?;
    let primary = lock(&device.primary).context.and_then(|h| d.contexts.find(h));
    let context = match (current().ok().filter(|c| c.device == device.ordinal), primary) {
        (Some(c), _) | (None, Some(c)) => c,
        (None, None) => return Err(Status::INVALID_CONTEXT),
    };
    let module = d.module_of_library(k.library, &context)?;
    d.functions.get(d.function_of(module, &k.name)?)
}

fn parameter(f: &Function, index: usize, offset: Out<usize>, bytes: Out<usize>) -> Outcome {
    offset.check()?;
    let p = f.kernel()?.params.get(index).ok_or(Status::INVALID_VALUE)?;
    offset.set(p.offset)?;
    bytes.set_if_wanted(p.bytes);
    Ok(())
}

fn active_blocks(blocks: Out<i32>, function: Handle, threads: i32, dynamic: usize) -> Outcome {
    blocks.check()?;
    current()?;
    let f = driver()?.function(function)?;
    let threads = u32::try_from(threads).map_err(|_| Status::INVALID_VALUE)?;
    blocks.set(occ::blocks_per_multiprocessor(architecture()?, &f, threads, dynamic)? as i32)
}

fn potential_block(
    grid: Out<i32>,
    block: Out<i32>,
    function: Handle,
    callback: BlockToShared,
    dynamic: usize,
    limit: i32,
) -> Outcome {
    grid.check()?;
    block.check()?;
    current()?;
    let f = driver()?.function(function)?;
    let limit = u32::try_from(limit).map_err(|_| Status::INVALID_VALUE)?;
    let shared = |threads: u32| call_block_to_shared(callback, threads as i32).unwrap_or(dynamic);
    let (threads, blocks) = occ::best_block(architecture()?, &f, limit, shared)?;
    block.set(threads as i32)?;
    grid.set(blocks as i32)
}

super::entry::api! {
    /// An attribute of a function.
    fn cuFuncGetAttribute(value: Out<i32>, attribute: i32, function: Handle) {
        value.check()?;
        value.set(get(&*driver()?.function(function)?, attribute)?)
    }

    /// Sets an attribute of a function.
    fn cuFuncSetAttribute(function: Handle, attribute: i32, value: i32) {
        current()?;
        set(&*driver()?.function(function)?, attribute, value)
    }

    /// Cache preference of a function, which has no effect.
    fn cuFuncSetCacheConfig(function: Handle, config: i32) {
        driver()?.function(function)?;
        if (0..=3).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Functions are loaded with their module.
    fn cuFuncIsLoaded(state: Out<i32>, function: Handle) {
        state.check()?;
        driver()?.function(function)?;
        state.set(1)
    }

    /// Functions are loaded with their module.
    fn cuFuncLoad(function: Handle) {
        driver()?.function(function).map(|_| ())
    }

    /// Offset and size of a parameter.
    fn cuFuncGetParamInfo(function: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>) {
        parameter(&*driver()?.function(function)?, index, offset, bytes)
    }

    /// Offset and size of a parameter.
    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: Out<usize>, bytes: Out<usize>) {
        parameter(&*driver()?.function(kernel)?, index, offset, bytes)
    }

    /// An attribute of a library kernel on a device.
    fn cuKernelGetAttribute(value: Out<i32>, attribute: i32, kernel: Handle, device: i32) {
        value.check()?;
        value.set(get(&*kernel_function(kernel, device)?, attribute)?)
    }

    /// Sets an attribute of a library kernel on a device.
    fn cuKernelSetAttribute(attribute: i32, value: i32, kernel: Handle, device: i32) {
        set(&*kernel_function(kernel, device)?, attribute, value)
    }

    /// Cache preference of a kernel, which has no effect.
    fn cuKernelSetCacheConfig(kernel: Handle, config: i32, device: i32) {
        kernel_function(kernel, device)?;
        if (0..=3).contains(&config) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Resident blocks per multiprocessor.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, function: Handle, threads: i32, dynamic: usize) {
        active_blocks(blocks, function, threads, dynamic)
    }

    /// Resident blocks per multiprocessor.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<i32>, function: Handle, threads: i32, dynamic: usize, flags: u32) {
        if flags > 1 {
            return Err(Status::INVALID_VALUE);
        }
        active_blocks(blocks, function, threads, dynamic)
    }

    /// Block size of highest occupancy, and the grid that fills the device with it.
    fn cuOccupancyMaxPotentialBlockSize(grid: Out<i32>, block: Out<i32>, function: Handle, callback: BlockToShared, dynamic: usize, limit: i32) {
        potential_block(grid, block, function, callback, dynamic, limit)
    }

    /// Block size of highest occupancy, and the grid that fills the device with it.
    fn cuOccupancyMaxPotentialBlockSizeWithFlags(grid: Out<i32>, block: Out<i32>, function: Handle, callback: BlockToShared, dynamic: usize, limit: i32, flags: u32) {
        if flags > 1 {
            return Err(Status::INVALID_VALUE);
        }
        potential_block(grid, block, function, callback, dynamic, limit)
    }

    /// Dynamic shared memory with which a number of blocks still fit on a multiprocessor.
    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: Handle, blocks: i32, threads: i32) {
        bytes.check()?;
        current()?;
        let f = driver()?.function(function)?;
        let n = |v: i32| u32::try_from(v).map_err(|_| Status::INVALID_VALUE);
        bytes.set(occ::available_dynamic_shared(architecture()?, &f, n(blocks)?, n(threads)?)?)
    }

    /// Clusters that are resident at once.
    fn cuOccupancyMaxActiveClusters(count: Out<i32>, function: Handle, config: In<LaunchConfig>) {
        count.check()?;
        current()?;
        let f = driver()?.function(function)?;
        let c = config.get()?;
        let cluster = c.read_attributes()?.cluster.or(f.kernel()?.required_cluster).unwrap_or([1; 3]);
        let size = cluster.iter().product::<u32>();
        if size == 0 || size > occ::MAX_CLUSTER.1 {
            return Err(Status::INVALID_CLUSTER_SIZE);
        }
        let threads = c.block.iter().try_fold(1u32, |n, x| n.checked_mul(*x)).ok_or(Status::INVALID_VALUE)?;
        count.set(occ::clusters(architecture()?, &f, threads, c.shared as usize, size)? as i32)
    }

    /// Largest cluster that can be launched.
    fn cuOccupancyMaxPotentialClusterSize(size: Out<i32>, function: Handle, config: In<LaunchConfig>) {
        size.check()?;
        current()?;
        let f = driver()?.function(function)?;
        let c = config.get()?;
        let threads = c.block.iter().try_fold(1u32, |n, x| n.checked_mul(*x)).ok_or(Status::INVALID_VALUE)?;
        let non_portable = lock(&f.attributes).non_portable_cluster;
        let top = if non_portable { occ::MAX_CLUSTER.1 } else { occ::MAX_CLUSTER.0 };
        let mut best = 0;
        for n in [1, 2, 4, 8, 16] {
            if n <= top && occ::clusters(architecture()?, &f, threads, c.shared as usize, n)? > 0 {
                best = n;
            }
        }
        size.set(best as i32)
    }
}
