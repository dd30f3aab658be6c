//! What a stream or a graph node does: kernels, copies, fills, host functions, events, allocations.

use super::allocations::Origin;
use super::entry::explain;
use super::handles::lock;
use super::image::Function;
use super::pointers::{Handle, HostFn, StreamCallback, call_callback, call_host, read_host_into, write_host};
use super::state::{Context, Driver};
use super::status::{Outcome, Severity, Status, of_fault};
use super::stream_values::Condition;
use crate::exec::{Launch, MemoryError};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kernel launch with its arguments copied.
#[derive(Clone)]
pub struct KernelWork {
    /// The function.
    pub function: Arc<Function>,
    /// Handle that the program used, for `cuGraphKernelNodeGetParams`.
    pub handle: Handle,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Parameter block.
    pub params: Vec<u8>,
    /// `cuLaunchCooperativeKernel`.
    pub cooperative: bool,
    /// Programmatic stream serialisation.
    pub programmatic: bool,
}

/// One side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Host address.
    Host(usize),
    /// Device address.
    Device(u64),
}

/// A copy of `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyWork {
    /// Destination.
    pub to: Side,
    /// Source.
    pub from: Side,
    /// Bytes of a row.
    pub width: usize,
    /// Rows of a slice.
    pub height: usize,
    /// Slices.
    pub depth: usize,
    /// Distance of rows, destination and source.
    pub pitch: [usize; 2],
    /// Distance of slices, destination and source.
    pub slice: [usize; 2],
}

/// A fill of `height` rows of `width` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillWork {
    /// Destination.
    pub to: u64,
    /// Value, in the low `element` bytes.
    pub value: u32,
    /// 1, 2 or 4.
    pub element: u32,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Distance of rows in bytes.
    pub pitch: usize,
}

/// One piece of work.
#[derive(Clone)]
pub enum Work {
    /// Nothing, an ordering point.
    Empty,
    /// Kernel.
    Kernel(KernelWork),
    /// Copy.
    Copy(CopyWork),
    /// Fill.
    Fill(FillWork),
    /// Host function with its data.
    Host(HostFn, usize),
    /// Stream callback with stream and data.
    Callback(StreamCallback, Handle, usize),
    /// Event record.
    Record(Handle),
    /// Wait for an event of the world outside the graph.
    Wait(Handle),
    /// Memory that exists from here: address and bytes.
    Alloc(u64, u64),
    /// The end of such memory.
    Free(u64),
    /// Write of the low `bytes` bytes of a value to an address.
    WriteValue(u64, u64, usize),
    /// Wait until an address holds a value: address, value, bytes, condition.
    WaitValue(u64, u64, usize, Condition),
    /// Nodes of a child graph in execution order.
    Child(Arc<Vec<Work>>),
}

impl Side {
    fn plus(self, bytes: usize) -> Side {
        match self {
            Side::Host(a) => Side::Host(a.wrapping_add(bytes)),
            Side::Device(a) => Side::Device(a.wrapping_add(bytes as u64)),
        }
    }
}

/// Prints what is wrong with an address and turns it into `CUDA_ERROR_INVALID_VALUE`, as the driver answers copies and
/// fills whose addresses it can check.
pub fn refuse(what: &str, e: &MemoryError) -> Status {
    explain(&format!("{what}: {e}"));
    match e {
        MemoryError::OutOfMemory { .. } => Status::OUT_OF_MEMORY,
        _ => Status::INVALID_VALUE,
    }
}

impl CopyWork {
    /// A copy of contiguous bytes.
    pub fn linear(to: Side, from: Side, bytes: usize) -> CopyWork {
        CopyWork { to, from, width: bytes, height: 1, depth: 1, pitch: [bytes; 2], slice: [bytes; 2] }
    }

    fn execute(&self, d: &Driver) -> Outcome {
        for z in 0..self.depth {
            for y in 0..self.height {
                let to = self.to.plus(z * self.slice[0] + y * self.pitch[0]);
                let from = self.from.plus(z * self.slice[1] + y * self.pitch[1]);
                copy_row(d, to, from, self.width)?;
            }
        }
        Ok(())
    }
}

fn copy_row(d: &Driver, to: Side, from: Side, bytes: usize) -> Outcome {
    const PIECE: usize = 1 << 20;
    let bad = |e: MemoryError| refuse("memory copy", &e);
    match (to, from) {
        (Side::Device(to), Side::Device(from)) => d.memory.copy(to, from, bytes).map_err(bad),
        (Side::Host(to), Side::Host(from)) => {
            let mut row = vec![0; bytes];
            read_host_into(from, &mut row)?;
            write_host(to, &row)
        }
        (Side::Device(to), Side::Host(from)) => {
            let mut piece = vec![0; bytes.min(PIECE)];
            for at in (0..bytes).step_by(PIECE) {
                let n = PIECE.min(bytes - at);
                read_host_into(from + at, &mut piece[..n])?;
                d.memory.write(to + at as u64, &piece[..n]).map_err(bad)?;
            }
            Ok(())
        }
        (Side::Host(to), Side::Device(from)) => {
            let mut piece = vec![0; bytes.min(PIECE)];
            for at in (0..bytes).step_by(PIECE) {
                let n = PIECE.min(bytes - at);
                d.memory.read(from + at as u64, &mut piece[..n]).map_err(bad)?;
                write_host(to + at, &piece[..n])?;
            }
            Ok(())
        }
    }
}

impl FillWork {
    fn execute(&self, d: &Driver) -> Outcome {
        let pattern = self.value.to_le_bytes();
        for y in 0..self.height {
            let to = self.to + (y * self.pitch) as u64;
            d.memory.fill(to, &pattern[..self.element as usize], self.width).map_err(|e| refuse("memory set", &e))?;
        }
        Ok(())
    }
}

impl KernelWork {
    fn execute(&self, d: &Driver, context: &Context) -> Outcome {
        let device = d.device_of(context);
        let f = &self.function;
        let attributes = *lock(&f.attributes);
        let launch = Launch {
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            dynamic_shared: self.dynamic_shared,
            max_dynamic_shared: Some(attributes.max_dynamic_shared),
            params: self.params.clone(),
            registers: f.registers,
            cooperative: self.cooperative,
            programmatic: self.programmatic,
            ..Launch::new(&f.image.loaded, &f.name)
        };
        if fails_now(d) {
            let text = format!("the device fails before kernel {}, as LIGHTNING_SIM_FAIL_AFTER asks for", f.name);
            context.lose(Status::ECC_UNCORRECTABLE, &text);
            return Ok(());
        }
        let outcome = {
            let _running = lock(&device.running);
            device.machine.launch(&launch)
        };
        match outcome {
            Ok(report) => {
                if !report.printed.is_empty() {
                    print!("{}", report.printed);
                    // Nobody flushes the standard output of a library when the program ends.
                    let _ = std::io::stdout().flush();
                }
                super::counts::record(d, device.physical, self, &report);
                Ok(())
            }
            Err(fault) => {
                let [x, y, z] = self.grid;
                let [bx, by, bz] = self.block;
                let text = format!("kernel {} with grid ({x}, {y}, {z}) of blocks ({bx}, {by}, {bz}): {fault}", f.name);
                match of_fault(&fault) {
                    Severity::Refused(status) => {
                        explain(&text);
                        Err(status)
                    }
                    Severity::Lost(status) => {
                        context.lose(status, &text);
                        Ok(())
                    }
                }
            }
        }
    }
}

/// Counts a launch; whether it is the one at which the settings want the device to fail.
fn fails_now(d: &Driver) -> bool {
    static LAUNCHES: AtomicU64 = AtomicU64::new(0);
    d.settings.fail_after.is_some_and(|after| LAUNCHES.fetch_add(1, Ordering::Relaxed) >= after)
}

impl Work {
    /// Executes the work now.
    pub fn execute(&self, d: &'static Driver, context: &Arc<Context>) -> Outcome {
        context.usable()?;
        match self {
            Work::Empty | Work::Wait(_) => Ok(()),
            Work::Kernel(k) => k.execute(d, context),
            Work::Copy(c) => c.execute(d),
            Work::Fill(f) => f.execute(d),
            Work::Host(f, data) => {
                call_host(*f, *data);
                Ok(())
            }
            Work::Callback(f, stream, data) => {
                call_callback(*f, *stream, 0, *data);
                Ok(())
            }
            Work::Record(event) => {
                d.events.get(*event)?.record();
                Ok(())
            }
            Work::Alloc(address, bytes) => {
                if d.allocations.at(*address).is_none() {
                    d.allocations.add(*address, *bytes, context.handle, context.device, Origin::Graph);
                }
                Ok(())
            }
            Work::Free(address) => {
                let record = d.allocations.take(*address, |r| !r.origin.is_host()).ok_or(Status::INVALID_VALUE)?;
                if let Origin::Pool(pool) = record.origin
                    && let Some(pool) = d.pools.find(pool)
                {
                    pool.note_free(record.bytes);
                }
                // Memory of a graph keeps its address until the graph is destroyed.
                if record.origin == Origin::Graph {
                    Ok(())
                } else {
                    d.memory.free(*address).map_err(|e| refuse("free", &e))
                }
            }
            Work::WriteValue(to, value, bytes) => {
                let value = value.to_le_bytes();
                d.memory.write(*to, &value[..*bytes]).map_err(|e| refuse("stream write", &e))
            }
            Work::WaitValue(at, value, bytes, condition) => {
                super::stream_values::wait(d, context, *at, *value, *bytes, *condition)
            }
            Work::Child(works) => works.iter().try_for_each(|w| w.execute(d, context)),
        }
    }
}
