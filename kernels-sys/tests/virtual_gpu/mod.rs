//! What every kernel test needs: a virtual GPU with the embedded images, guarded buffers, random inputs, bf16.

#![allow(dead_code, reason = "each test and example uses a part")]

pub mod attention;
mod element;
pub mod embed;
pub mod experts;
pub mod gemm;
pub mod loss;
pub mod mixer;
pub mod optim;
pub mod rms_norm;
pub mod routing;
mod rows;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

pub use element::{Bf16, Element, Random};
use kernels_sys::{Arch, KernelParams};
use ptx_sim::exec::{Fault, GlobalMemory, Launch, LaunchReport, LoadError, LoadedModule, Machine, Module, Settings};
pub use rows::Rows;

/// Why a launch is not as it should be.
#[derive(Debug)]
pub enum Trouble {
    /// The virtual GPU found something.
    Fault(Fault),
    /// Bytes outside a buffer were written.
    Guard(String),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Guard(what) => f.write_str(what),
        }
    }
}

/// What guard bytes hold: a NaN in bf16 and f32, so that reading them shows too.
const GUARD: u8 = 0xfe;
/// Guard bytes before and after each buffer. A multiple of 16 keeps the buffer aligned.
const GUARD_BYTES: u64 = 256;

/// A virtual GPU with all checks on.
pub struct VirtualGpu {
    machine: Machine,
    modules: RefCell<HashMap<&'static str, Arc<LoadedModule>>>,
}

impl VirtualGpu {
    /// A GPU whose warps run in an order drawn from `seed`; none where this was built without nvcc.
    pub fn new(seed: u64) -> Option<Self> {
        if let Some(why) = kernels_sys::absent() {
            eprintln!("no kernels to test: {why}");
            return None;
        }
        let settings = Settings { seed, ..Settings::default() };
        let memory = Arc::new(GlobalMemory::new(1, settings.memory_bytes));
        Some(Self { machine: Machine::new(settings, memory, 0), modules: RefCell::default() })
    }

    /// A buffer of `bytes` bytes that starts `shift` bytes after a 16-byte boundary, between guard bytes.
    /// It holds guard bytes too until something is written, so that an output that is left out shows.
    pub fn buffer(&self, bytes: usize, shift: u64) -> Buffer<'_> {
        let whole = GUARD_BYTES * 2 + shift + bytes as u64;
        let base = self.machine.memory().allocate(0, whole).expect("memory for a test buffer");
        let buffer = Buffer { gpu: self, base, whole, address: base + GUARD_BYTES + shift, bytes };
        self.machine.memory().fill(base, &[GUARD], whole as usize).expect("the buffer is live");
        buffer
    }

    /// A buffer without guard bytes and contents, which takes room only where it is touched.
    pub fn sparse_buffer(&self, bytes: usize) -> Buffer<'_> {
        let base = self.machine.memory().allocate(0, bytes as u64).expect("memory for a test buffer");
        Buffer { gpu: self, base, whole: bytes as u64, address: base, bytes }
    }

    /// A buffer that holds these elements.
    pub fn upload<T: Element>(&self, elements: &[T]) -> Buffer<'_> {
        let buffer = self.buffer(size_of_val(elements), 0);
        buffer.write(0, elements);
        buffer
    }

    /// Launches a kernel of the table with its parameter block.
    pub fn launch<P: KernelParams>(&self, name: &str, grid: u64, params: &P) -> Result<LaunchReport, Trouble> {
        self.launch_clusters(name, grid, 1, params)
    }

    /// As [`VirtualGpu::launch`], in clusters of `cluster` blocks.
    pub fn launch_clusters<P: KernelParams>(
        &self,
        name: &str,
        grid: u64,
        cluster: u32,
        params: &P,
    ) -> Result<LaunchReport, Trouble> {
        let grid = [u32::try_from(grid).expect("a grid of 32 bits"), 1, 1];
        self.start(name, grid, (cluster > 1).then_some([cluster, 1, 1]), params)
    }

    /// As [`VirtualGpu::launch`], with a grid of up to three dimensions.
    pub fn launch_grid<P: KernelParams>(
        &self,
        name: &str,
        grid: [usize; 3],
        params: &P,
    ) -> Result<LaunchReport, Trouble> {
        self.start(name, grid.map(|n| u32::try_from(n).expect("a grid of 32 bits")), None, params)
    }

    fn start<P: KernelParams>(
        &self,
        name: &str,
        grid: [u32; 3],
        cluster: Option<[u32; 3]>,
        params: &P,
    ) -> Result<LaunchReport, Trouble> {
        let kernel = kernels_sys::kernel(name, Arch::Sm90a).unwrap_or_else(|| panic!("no kernel {name}"));
        assert_eq!(kernel.params, P::NAME, "{name} takes another parameter block");
        let module = self.module(kernel.module);
        // SAFETY: a parameter block is plain data of this size without padding that is read as bytes here only.
        let bytes = unsafe { std::slice::from_raw_parts((params as *const P).cast::<u8>(), size_of::<P>()) };
        Ok(self.machine.launch(&Launch {
            grid,
            block: [kernel.block_threads, 1, 1],
            cluster,
            dynamic_shared: kernel.dynamic_shared_bytes,
            params: bytes.to_vec(),
            ..Launch::new(&module, name)
        })?)
    }

    /// Takes this PTX in place of the embedded image of a module.
    pub fn replace_module(&self, name: &'static str, ptx: &str) -> Result<(), LoadError> {
        let module = Module::load(ptx)?;
        let loaded = self.machine.load(Arc::new(module)).expect("room for the variables of a module");
        self.modules.borrow_mut().insert(name, Arc::new(loaded));
        Ok(())
    }

    /// The machine, for what the methods here do not cover.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    fn module(&self, name: &'static str) -> Arc<LoadedModule> {
        let mut modules = self.modules.borrow_mut();
        let loaded = modules.entry(name).or_insert_with(|| {
            let image = kernels_sys::image(name, Arch::Sm90a).expect("an image for sm_90a");
            let text = image.ptx().to_str().expect("PTX is ASCII");
            let module = Module::load(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            Arc::new(self.machine.load(Arc::new(module)).unwrap_or_else(|e| panic!("{name}: {e}")))
        });
        loaded.clone()
    }
}

/// Device memory between guard bytes.
pub struct Buffer<'a> {
    gpu: &'a VirtualGpu,
    base: u64,
    whole: u64,
    /// Device address.
    pub address: u64,
    bytes: usize,
}

impl Buffer<'_> {
    /// Writes elements from element `first` on.
    pub fn write<T: Element>(&self, first: usize, elements: &[T]) {
        assert!((first + elements.len()) * size_of::<T>() <= self.bytes);
        let bytes: Vec<u8> = elements.iter().flat_map(|e| e.to_bytes()).collect();
        self.gpu.machine.memory().write(self.address + (first * size_of::<T>()) as u64, &bytes).expect("live");
    }

    /// Reads `count` elements from element `first` on.
    pub fn read<T: Element>(&self, first: usize, count: usize) -> Vec<T> {
        let mut bytes = vec![0; count * size_of::<T>()];
        self.gpu.machine.memory().read(self.address + (first * size_of::<T>()) as u64, &mut bytes).expect("live");
        bytes.chunks_exact(size_of::<T>()).map(T::from_bytes).collect()
    }

    /// Checks that the bytes around the buffer are untouched, and, in rows of `stride` elements, those after column `h`.
    pub fn check_guards<T: Element>(&self, what: &str, rows: usize, stride: usize, h: usize) -> Result<(), Trouble> {
        let check = |from: u64, to: u64| {
            let mut bytes = vec![0; (to - from) as usize];
            self.gpu.machine.memory().read(from, &mut bytes).expect("live");
            match bytes.iter().position(|b| *b != GUARD) {
                None => Ok(()),
                Some(at) => {
                    let at = from as i64 - self.address as i64 + at as i64;
                    Err(Trouble::Guard(format!("byte {at} of {what} was written and is none of its elements")))
                }
            }
        };
        check(self.base, self.address)?;
        check(self.address + self.bytes as u64, self.base + self.whole)?;
        let size = size_of::<T>() as u64;
        for row in 0..rows.saturating_sub(1) as u64 {
            let start = self.address + row * stride as u64 * size;
            check(start + h as u64 * size, start + stride as u64 * size)?;
        }
        Ok(())
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // A failed test may have taken the memory down with it.
        let _ = self.gpu.machine.memory().free(self.base);
    }
}
