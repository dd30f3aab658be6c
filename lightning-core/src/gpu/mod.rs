//! The GPU device: programs as launches of the kernels of `csrc/`, through the CUDA driver.
//!
//! Memory is one allocation per space, exactly as large as the plan. A program is lowered once into a list of launches
//! with fixed addresses and parameter blocks, and then runs as one CUDA graph, or launch by launch. A step allocates
//! nothing on the device and does not wait for it; the host waits when it reads a tensor.
//!
//! Activations are bf16 (`Precision::act`); statistics, states and sums are f32.

mod driver;
mod foreign;
mod gemm;
mod kernels;
mod lower;
mod ops;
mod staging;
mod tensor_map;
mod timing;

pub use driver::{DeviceInfo, devices, usable};
pub use foreign::{GpuOps, Workspace};
pub use lower::{Grid, Lowering};
pub use ops::GpuKernel;
pub(crate) use ops::{dispatch_plan_scratch, embedding_bwd_scratch, linear_cross_entropy_scratch, router_fwd_scratch};

use crate::device::Device;
use crate::error::CoreError;
use crate::program::{Buffer, Persistent, Program, Space};
use crate::tensor::Tensor;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use cudarc::driver::{result, sys};
use driver::{DeviceMemory, Doing, Driver, PinnedMemory};
use kernels::Kernels;
use lower::Launch;
use staging::{Fetch, Staging};

/// How a program's launches reach the device. The results are the same bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// Captured once per program, then one graph launch.
    #[default]
    Graph,
    /// One by one; errors name the operation.
    Launches,
}

/// What to open and how to use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuOptions {
    /// Number of the device among those that are visible.
    pub ordinal: usize,
    /// How programs run.
    pub execution: Execution,
    /// Launch the naive kernels where a family has some: slow, obviously right, and what the others are compared with.
    pub naive: bool,
}

/// A lowered program.
struct Prepared {
    id: u64,
    launches: Vec<Launch>,
    graph: Option<sys::CUgraphExec>,
}

/// A CUDA device with the memory of a model and its programs.
pub struct GpuDevice {
    // Fields are dropped in this order: memory before the context that holds it.
    regions: Vec<DeviceMemory>,
    scratch: DeviceMemory,
    staging: Staging,
    readback: core::cell::RefCell<PinnedMemory>,
    fetches: [Fetch; 2],
    prepared: Vec<Prepared>,
    kernels: Kernels,
    options: GpuOptions,
    driver: Driver,
}

// SAFETY: graphs, modules and functions belong to the context and may be used from any thread that makes it current,
// which every entry point does.
unsafe impl Send for GpuDevice {}

/// Page-locked bytes through which tensors are read back.
const READBACK_BYTES: usize = 1 << 20;

impl GpuDevice {
    /// Opens a device, allocates what the model's persistent buffers and the largest of `programs` need, and lowers the
    /// programs. Persistent spaces start as zeros, the arena as nothing.
    ///
    /// # Errors
    /// `Device` when there is no usable device or kernel, `OutOfMemory` when it has less memory than the plan (checked
    /// before anything is allocated) or refuses an allocation.
    pub fn new(persistent: &Persistent, programs: &[&Program], options: GpuOptions) -> Result<Self, CoreError> {
        let driver = Driver::open(options.ordinal)?;
        let scratch_bytes = programs.iter().map(|p| Self::scratch_bytes(p)).max().unwrap_or(0);
        let bytes_of = |space| match space {
            Space::Arena => programs.iter().map(|p| p.arena_bytes).max().unwrap_or(0),
            other => persistent.bytes(other),
        };
        let planned: usize = Space::ALL.iter().map(|s| bytes_of(*s)).sum::<usize>() + scratch_bytes;
        if planned > driver.info.memory {
            return Err(CoreError::OutOfMemory { space: "the whole plan", bytes: planned, free: None });
        }
        let mut regions = Vec::new();
        for space in Space::ALL {
            regions.push(DeviceMemory::new(&driver, space.name(), bytes_of(space), space != Space::Arena)?);
        }
        let scratch = DeviceMemory::new(&driver, "scratch", scratch_bytes, false)?;
        let staging = Staging::new(persistent.bytes(Space::Input))?;
        let readback = core::cell::RefCell::new(PinnedMemory::new(READBACK_BYTES)?);
        let mut device = Self {
            regions,
            scratch,
            staging,
            readback,
            fetches: [Fetch::new()?, Fetch::new()?],
            prepared: Vec::new(),
            kernels: Kernels::default(),
            options,
            driver,
        };
        for program in programs {
            device.prepare(program)?;
        }
        device.driver.synchronize(|| "clearing the model's memory".to_string())?;
        Ok(device)
    }

    /// Bytes of workspace that the operations of `program` need.
    pub fn scratch_bytes(program: &Program) -> usize {
        program.nodes.iter().map(|n| n.op.gpu_scratch()).max().unwrap_or(0).next_multiple_of(256)
    }

    /// Bytes that the device holds: all spaces and the workspace.
    pub fn allocated_bytes(&self) -> usize {
        self.regions.iter().map(|r| r.bytes).sum::<usize>() + self.scratch.bytes
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        &self.driver.info
    }

    /// Overwrites the arena and the workspace with one byte; 0xFF makes every number a NaN.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn poison(&mut self, byte: u8) -> Result<(), CoreError> {
        self.driver.bind()?;
        for memory in [&self.regions[Space::Arena.index()], &self.scratch] {
            if memory.bytes > 0 {
                // SAFETY: the allocation is that long.
                unsafe { result::memset_d8_async(memory.address, byte, memory.bytes, self.driver.stream) }
                    .doing(|| "overwriting the arena".to_string())?;
            }
        }
        self.driver.synchronize(|| "overwriting the arena".to_string())
    }

    /// Names of the kernels that a program launches, in order, each with the index of its operation.
    ///
    /// # Errors
    /// `Device` when an operation has no kernel.
    pub fn launches(&mut self, program: &Program) -> Result<Vec<(&'static str, usize)>, CoreError> {
        let index = self.prepare(program)?;
        Ok(self.prepared[index].launches.iter().map(|l| (l.kernel(), l.node)).collect())
    }

    /// Lowers a program, unless that was done; its position in the list of prepared ones.
    fn prepare(&mut self, program: &Program) -> Result<usize, CoreError> {
        if let Some(index) = self.prepared.iter().position(|p| p.id == program.id()) {
            return Ok(index);
        }
        self.driver.bind()?;
        let needed = (program.arena_bytes, Self::scratch_bytes(program));
        let held = (self.regions[Space::Arena.index()].bytes, self.scratch.bytes);
        if needed.0 > held.0 || needed.1 > held.1 {
            return Err(CoreError::Shape {
                what: format!("memory of program `{}`", program.name),
                expected: format!("at most {} bytes of arena and {} of workspace, as planned", held.0, held.1),
                found: format!("{} and {}", needed.0, needed.1),
            });
        }
        let bases = core::array::from_fn(|i| self.regions[i].address);
        let scratch = (self.scratch.address, self.scratch.bytes);
        let launches = lower::lower(&self.driver, &mut self.kernels, program, bases, scratch, self.options.naive)?;
        self.prepared.push(Prepared { id: program.id(), launches, graph: None });
        Ok(self.prepared.len() - 1)
    }

    fn enqueue(&self, program: &Program, launch: &Launch) -> Result<(), CoreError> {
        launch.enqueue(self.driver.stream, || describe(program, launch.node))
    }

    /// Captures the launches of a program into a graph.
    fn capture(&self, program: &Program, launches: &[Launch]) -> Result<sys::CUgraphExec, CoreError> {
        let doing = || format!("capturing program `{}` in a graph", program.name);
        let stream = self.driver.stream;
        // Thread-local: another thread may allocate or copy meanwhile (asynchronous checkpoints).
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is ours and nothing else uses it now; every handle below is the driver's own and is
        // destroyed once.
        unsafe {
            result::stream::begin_capture(stream, mode).doing(doing)?;
            let enqueued = launches.iter().try_for_each(|l| self.enqueue(program, l));
            // The capture must end, whatever was captured.
            let graph = result::stream::end_capture(stream).doing(doing);
            enqueued?;
            let graph = graph?;
            let flags = sys::CUgraphInstantiate_flags_enum(0);
            let executable = result::graph::instantiate(graph, flags).doing(doing);
            result::graph::destroy(graph).doing(doing)?;
            executable
        }
    }

    fn locate(&self, buffers: &[Buffer], tensor: Tensor) -> Result<u64, CoreError> {
        let buffer = &buffers[tensor.buffer.0 as usize];
        assert!(tensor.is_contiguous(), "host copies need a contiguous tensor");
        let start = buffer.offset + tensor.offset * tensor.dtype.size();
        let region = &self.regions[buffer.space.index()];
        if start + tensor.bytes() > region.bytes {
            return Err(CoreError::UnknownTensor { name: buffer.name.clone() });
        }
        Ok(region.address + start as u64)
    }
}

/// Region and name of an operation, for messages.
fn describe(program: &Program, node: usize) -> String {
    let of = &program.nodes[node];
    format!("{} ({}, operation {node} of `{}`)", of.op.name(), program.regions[of.region], program.name)
}

impl Device for GpuDevice {
    fn run(&mut self, program: &Program) -> Result<(), CoreError> {
        self.driver.bind()?;
        let index = self.prepare(program)?;
        if self.options.execution == Execution::Launches {
            return self.prepared[index].launches.iter().try_for_each(|l| self.enqueue(program, l));
        }
        if self.prepared[index].launches.is_empty() {
            return Ok(());
        }
        let graph = match self.prepared[index].graph {
            Some(graph) => graph,
            None => {
                let graph = self.capture(program, &self.prepared[index].launches)?;
                self.prepared[index].graph = Some(graph);
                graph
            }
        };
        // SAFETY: the graph was instantiated in this context and lives as long as the device.
        unsafe { result::graph::launch(graph, self.driver.stream) }
            .doing(|| format!("running program `{}`", program.name))
    }

    fn run_node(&mut self, program: &Program, node: usize) -> Result<(), CoreError> {
        self.driver.bind()?;
        let index = self.prepare(program)?;
        let mut of_node = self.prepared[index].launches.iter().filter(|l| l.node == node);
        of_node.try_for_each(|l| self.enqueue(program, l))?;
        self.driver.synchronize(|| describe(program, node))
    }

    fn write(&mut self, buffers: &[Buffer], tensor: Tensor, bytes: &[u8]) -> Result<(), CoreError> {
        crate::device::check_host_buffer(buffers, tensor, bytes.len())?;
        self.driver.bind()?;
        let address = self.locate(buffers, tensor)?;
        self.staging.copy(&self.driver, address, bytes)
    }

    fn read(&self, buffers: &[Buffer], tensor: Tensor, bytes: &mut [u8]) -> Result<(), CoreError> {
        crate::device::check_host_buffer(buffers, tensor, bytes.len())?;
        self.driver.bind()?;
        let mut address = self.locate(buffers, tensor)?;
        let pinned = self.readback.borrow_mut();
        let name = || format!("reading `{}` from the device", buffers[tensor.buffer.0 as usize].name);
        for part in bytes.chunks_mut(pinned.bytes) {
            // SAFETY: source and destination are that long; the copy is waited for before its bytes are used.
            unsafe {
                let pinned = core::slice::from_raw_parts_mut(pinned.pointer, part.len());
                result::memcpy_dtoh_async(pinned, address, self.driver.stream).doing(name)?;
                self.driver.synchronize(name)?;
                part.copy_from_slice(pinned);
            }
            address += part.len() as u64;
        }
        Ok(())
    }

    fn fetch(&mut self, buffers: &[Buffer], tensors: &[Tensor], slot: usize) -> Result<(), CoreError> {
        self.driver.bind()?;
        let places: Vec<(u64, usize)> =
            tensors.iter().map(|t| Ok((self.locate(buffers, *t)?, t.bytes()))).collect::<Result<_, CoreError>>()?;
        self.fetches[slot].start(&self.driver, &places)
    }

    fn fetched(&mut self, slot: usize) -> Result<&[u8], CoreError> {
        self.driver.bind()?;
        self.fetches[slot].wait()
    }
}

impl Drop for GpuDevice {
    fn drop(&mut self) {
        if self.driver.bind().is_ok() {
            let _ = self.driver.synchronize(String::new);
            for graph in self.prepared.iter().filter_map(|p| p.graph) {
                // SAFETY: instantiated by `capture` and destroyed once.
                let _ = unsafe { result::graph::exec_destroy(graph) };
            }
        }
    }
}
