//! Occupancy: how many blocks of a kernel fit on a multiprocessor of compute capability 9.0.
//!
//! Limits: resident threads (2048) and blocks (32); registers, allocated per warp in units of 256 from 65,536; shared
//! memory, static plus dynamic plus the reserved 1 KiB, in units of 128 bytes from 228 KiB. Registers are only known
//! from a cubin; without one they do not limit.

use super::handles::lock;
use super::image::Function;
use super::status::{Outcome, Status};
use crate::exec::Architecture;

const WARP: u32 = 32;
const REGISTER_UNIT: u32 = 256;
const SHARED_UNIT: u32 = 128;
/// Largest cluster without `NON_PORTABLE_CLUSTER_SIZE_ALLOWED`, and with it.
pub const MAX_CLUSTER: (u32, u32) = (8, 16);
/// Multiprocessors of each GPU processing cluster of a board with 132 of them. The blocks of a cluster must fit on one.
const CLUSTER_GROUPS: [u32; 8] = [16, 16, 16, 16, 16, 16, 18, 18];

/// Largest block of a kernel: what it declares, and what its registers allow.
pub fn max_threads(f: &Function) -> Outcome<u32> {
    let kernel = f.kernel()?;
    let declared = kernel.required_threads.or(kernel.max_threads).map_or(1024, |t| t.iter().product::<u32>());
    let by_registers = f.registers.filter(|r| *r > 0).map_or(1024, |r| {
        let per_warp = (r * WARP).next_multiple_of(REGISTER_UNIT);
        // Warps are allocated in fours, one for each scheduler.
        65_536 / per_warp / 4 * 4 * WARP
    });
    Ok(declared.min(by_registers).min(1024))
}

/// Shared memory of a block as it is allocated.
fn shared(a: Architecture, f: &Function, dynamic: usize) -> Outcome<u32> {
    let total = f.kernel()?.static_shared + dynamic + a.reserved_shared_per_block() as usize;
    Ok(u32::try_from(total).map_err(|_| Status::INVALID_VALUE)?.next_multiple_of(SHARED_UNIT))
}

/// Blocks of `threads` threads and `dynamic` bytes of shared memory per multiprocessor; 0 when not even one fits.
pub fn blocks_per_multiprocessor(a: Architecture, f: &Function, threads: u32, dynamic: usize) -> Outcome<u32> {
    if threads == 0 || threads > 1024 {
        return Err(Status::INVALID_VALUE);
    }
    let limit = lock(&f.attributes).max_dynamic_shared as usize;
    if threads > max_threads(f)? || dynamic > limit {
        return Ok(0);
    }
    let warps = threads.div_ceil(WARP);
    let by_threads = a.threads_per_multiprocessor() / (warps * WARP);
    let by_shared = a.shared_per_multiprocessor() / shared(a, f, dynamic)?;
    let by_registers = match f.registers {
        Some(r) if r > 0 => {
            let per_warp = (r * WARP).next_multiple_of(REGISTER_UNIT);
            let warps_there = a.registers_per_multiprocessor() / 4 / per_warp * 4;
            warps_there / warps
        }
        _ => u32::MAX,
    };
    Ok(by_threads.min(by_shared).min(by_registers).min(a.blocks_per_multiprocessor()))
}

/// Largest dynamic shared memory with which `blocks` blocks of `threads` threads fit on a multiprocessor.
pub fn available_dynamic_shared(a: Architecture, f: &Function, blocks: u32, threads: u32) -> Outcome<usize> {
    if blocks == 0 || blocks > a.blocks_per_multiprocessor() {
        return Err(Status::INVALID_VALUE);
    }
    let per_block = a.shared_per_multiprocessor() / blocks / SHARED_UNIT * SHARED_UNIT;
    let own = f.kernel()?.static_shared as u32 + a.reserved_shared_per_block();
    let bytes = per_block
        .saturating_sub(own)
        .min(a.max_shared_per_block_optin().saturating_sub(f.kernel()?.static_shared as u32));
    if blocks_per_multiprocessor(a, f, threads, 0)? < blocks {
        return Err(Status::INVALID_VALUE);
    }
    Ok(bytes as usize)
}

/// Clusters of `cluster` blocks that are resident at once on the whole device.
pub fn clusters(a: Architecture, f: &Function, threads: u32, dynamic: usize, cluster: u32) -> Outcome<u32> {
    let per_sm = blocks_per_multiprocessor(a, f, threads, dynamic)?;
    Ok(CLUSTER_GROUPS.iter().map(|group| group * per_sm / cluster).sum())
}

/// Block size with the most resident threads, multiples of a warp from large to small, and its blocks on the device.
pub fn best_block(
    a: Architecture,
    f: &Function,
    limit: u32,
    mut dynamic: impl FnMut(u32) -> usize,
) -> Outcome<(u32, u32)> {
    let top = max_threads(f)?.min(if limit == 0 { 1024 } else { limit });
    let mut best = (0, 0, 0);
    let mut threads = top;
    while threads > 0 {
        let blocks = blocks_per_multiprocessor(a, f, threads, dynamic(threads))?;
        if blocks * threads > best.0 {
            best = (blocks * threads, threads, blocks);
        }
        threads = (threads - 1) / WARP * WARP;
    }
    if best.0 == 0 { Err(Status::INVALID_VALUE) } else { Ok((best.1, best.2 * a.multiprocessors())) }
}
