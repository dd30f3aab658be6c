//! The CPU device: the readable reference that also runs the whole product.
//!
//! Memory is one allocation per space, exactly as large as the plan. Operations run one after the other; inside an
//! operation, work is cut into pieces that depend on shapes only and handed to a fixed set of threads, so that results
//! do not depend on their number.

mod matmul;
mod matrix;
mod memory;
pub mod simd;
mod workers;

pub use matmul::{
    GradientMut, MATMUL_SCRATCH, matmul, product, store_gradient, store_transposed, weight_gradient,
    weight_gradient_piece,
};
pub use matrix::{Columns, Form, Mat, MatMut, PerBlock, Tile, column_parts, gemm, widen_matrix};
pub use memory::Cpu;
pub use workers::{Piece, Workers};

use crate::device::Device;
use crate::element::Element;
use crate::error::CoreError;
use crate::program::{Buffer, Operation, Persistent, Program, Space};
use crate::tensor::Tensor;
use alloc::string::ToString;
use alloc::vec::Vec;
use memory::Region;

/// An operation that the CPU device can run.
pub trait CpuKernel: Operation {
    /// Runs the operation; `A` is the storage type that [`Operation::dtype`] names.
    fn run<A: Element>(&self, cpu: &Cpu<'_>);
}

/// Memory and threads of the CPU device.
pub struct CpuDevice {
    regions: Vec<Region>,
    scratch: Region,
    threads: usize,
    fetched: [Vec<u8>; 2],
    #[cfg(feature = "std")]
    pool: Option<rayon::ThreadPool>,
}

impl CpuDevice {
    /// Allocates what the model's persistent buffers and the largest of `programs` need, and starts `threads` threads
    /// (without `std`, or with one thread, everything runs on the calling thread).
    ///
    /// # Errors
    /// `OutOfMemory` when the system refuses a space.
    pub fn new(persistent: &Persistent, programs: &[&Program], threads: usize) -> Result<Self, CoreError> {
        let threads = if cfg!(feature = "std") { threads.max(1) } else { 1 };
        let mut regions = Vec::new();
        for space in Space::ALL {
            let bytes = match space {
                Space::Arena => programs.iter().map(|p| p.arena_bytes).max().unwrap_or(0),
                other => persistent.bytes(other),
            };
            regions.push(Region::zeroed(bytes).ok_or(CoreError::OutOfMemory {
                space: space.name(),
                bytes,
                free: None,
            })?);
        }
        let per_worker = programs.iter().map(|p| Self::scratch_bytes(p)).max().unwrap_or(0);
        let bytes = per_worker * threads;
        let scratch = Region::zeroed(bytes).ok_or(CoreError::OutOfMemory { space: "scratch", bytes, free: None })?;
        #[cfg(feature = "std")]
        let pool =
            if threads > 1 {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| {
                    CoreError::Config { key: "threads".to_string(), value: threads.to_string(), reason: e.to_string() }
                })?;
                Some(pool)
            } else {
                None
            };
        Ok(Self {
            regions,
            scratch,
            threads,
            fetched: [Vec::new(), Vec::new()],
            #[cfg(feature = "std")]
            pool,
        })
    }

    /// Bytes of scratch that one worker needs for `program`.
    pub fn scratch_bytes(program: &Program) -> usize {
        let need = |n: &crate::program::Node| n.op.cpu_scratch() * n.op.dtype().accumulator().size();
        program.nodes.iter().map(need).max().unwrap_or(0).next_multiple_of(64)
    }

    /// Bytes that the device holds: all spaces and the scratch of all workers.
    pub fn allocated_bytes(&self) -> usize {
        self.regions.iter().map(Region::len).sum::<usize>() + self.scratch.len()
    }

    /// Overwrites the arena and the scratch of all workers with one byte; 0xFF makes every number a NaN. Tests use it to
    /// show that no operation reads what its program did not write.
    pub fn poison(&mut self, byte: u8) {
        self.regions[Space::Arena.index()].bytes_mut().fill(byte);
        self.scratch.bytes_mut().fill(byte);
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    fn execute(&mut self, program: &Program, range: core::ops::Range<usize>, observer: &mut dyn FnMut(usize)) {
        let workers = Workers::new(&mut self.scratch, self.threads);
        let mut bases: [*mut u8; Space::ALL.len()] = core::array::from_fn(|i| self.regions[i].base());
        bases[Space::Foreign.index()] = core::ptr::null_mut();
        for index in range {
            let cpu = Cpu::new(&program.buffers, bases, workers);
            program.nodes[index].op.run_cpu(&cpu);
            observer(index);
        }
    }

    /// Runs a program and calls `observer` with the index of each operation after it finished (for timing, or to look
    /// for the first non-finite value).
    pub fn run_observed(&mut self, program: &Program, mut observer: impl FnMut(usize) + Send) {
        self.run_range(program, 0..program.nodes.len(), &mut observer);
    }

    fn run_range(
        &mut self,
        program: &Program,
        range: core::ops::Range<usize>,
        observer: &mut (dyn FnMut(usize) + Send),
    ) {
        #[cfg(feature = "std")]
        if let Some(pool) = self.pool.take() {
            pool.install(|| self.execute(program, range, observer));
            self.pool = Some(pool);
            return;
        }
        self.execute(program, range, observer);
    }

    fn locate(&self, buffers: &[Buffer], tensor: Tensor) -> Result<(usize, core::ops::Range<usize>), CoreError> {
        let buffer = &buffers[tensor.buffer.0 as usize];
        assert!(tensor.is_contiguous(), "host copies need a contiguous tensor");
        let start = buffer.offset + tensor.offset * tensor.dtype.size();
        let range = start..start + tensor.bytes();
        if range.end > self.regions[buffer.space.index()].len() {
            return Err(CoreError::UnknownTensor { name: buffer.name.clone() });
        }
        Ok((buffer.space.index(), range))
    }
}

impl Device for CpuDevice {
    fn run(&mut self, program: &Program) -> Result<(), CoreError> {
        self.run_observed(program, |_| {});
        Ok(())
    }

    fn run_node(&mut self, program: &Program, node: usize) -> Result<(), CoreError> {
        self.run_range(program, node..node + 1, &mut |_| {});
        Ok(())
    }

    fn write(&mut self, buffers: &[Buffer], tensor: Tensor, bytes: &[u8]) -> Result<(), CoreError> {
        crate::device::check_host_buffer(buffers, tensor, bytes.len())?;
        let (space, range) = self.locate(buffers, tensor)?;
        self.regions[space].bytes_mut()[range].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, buffers: &[Buffer], tensor: Tensor, bytes: &mut [u8]) -> Result<(), CoreError> {
        crate::device::check_host_buffer(buffers, tensor, bytes.len())?;
        let (space, range) = self.locate(buffers, tensor)?;
        bytes.copy_from_slice(&self.regions[space].bytes()[range]);
        Ok(())
    }

    fn fetch(&mut self, buffers: &[Buffer], tensors: &[Tensor], slot: usize) -> Result<(), CoreError> {
        self.fetched[slot].clear();
        for tensor in tensors {
            let (space, range) = self.locate(buffers, *tensor)?;
            self.fetched[slot].extend_from_slice(&self.regions[space].bytes()[range]);
        }
        Ok(())
    }

    fn fetched(&mut self, slot: usize) -> Result<&[u8], CoreError> {
        Ok(&self.fetched[slot])
    }
}
