//! From operations to launches: what an operation's lowering sees of the device.
//!
//! Lowering happens once per program. Addresses, grids and parameter blocks are fixed then, so that running a program
//! is a walk over a list, or one graph launch.

use super::driver::{Doing, Driver};
use super::kernels::{Function, Kernels};
use crate::error::CoreError;
use crate::program::{Buffer, Program, Space};
use crate::tensor::{DType, Tensor};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::c_void;
use cudarc::driver::sys;
use kernels_sys::KernelParams;

/// Parameter blocks are kept at the alignment that tensor maps inside them need.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Chunk([u8; 64]);

/// Number of thread blocks in x, y and z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid(pub usize, pub usize, pub usize);

impl From<usize> for Grid {
    fn from(x: usize) -> Self {
        Self(x, 1, 1)
    }
}

impl From<(usize, usize)> for Grid {
    fn from((x, y): (usize, usize)) -> Self {
        Self(x, y, 1)
    }
}

impl From<(usize, usize, usize)> for Grid {
    fn from((x, y, z): (usize, usize, usize)) -> Self {
        Self(x, y, z)
    }
}

/// A kernel launch with everything decided.
pub(super) struct Launch {
    function: Function,
    grid: Grid,
    /// Blocks of a cluster, along x.
    cluster: u32,
    params: Vec<Chunk>,
    /// Index of the operation in its program.
    pub node: usize,
}

impl Launch {
    /// Enqueues the launch.
    pub fn enqueue(&self, stream: sys::CUstream, describe: impl FnOnce() -> String) -> Result<(), CoreError> {
        let kernel = self.function.kernel;
        let clusters = sys::CUlaunchAttribute_st {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue {
                clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: self.cluster, y: 1, z: 1 },
            },
        };
        let mut attributes = [clusters];
        let config = sys::CUlaunchConfig {
            gridDimX: self.grid.0 as u32,
            gridDimY: self.grid.1 as u32,
            gridDimZ: self.grid.2 as u32,
            blockDimX: kernel.block_threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: kernel.dynamic_shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: u32::from(self.cluster > 1),
        };
        let mut arguments: [*mut c_void; 1] = [self.params.as_ptr().cast_mut().cast()];
        // SAFETY: the function was loaded for this context and takes one argument, a parameter block of the size that
        // `Lowering::launch` checked; the driver copies it before the call returns.
        unsafe { sys::cuLaunchKernelEx(&config, self.function.handle, arguments.as_mut_ptr(), core::ptr::null_mut()) }
            .result()
            .doing(|| format!("{}: launching `{}` with a grid of {:?}", describe(), kernel.name, self.grid))
    }

    /// Name of the kernel.
    pub fn kernel(&self) -> &'static str {
        self.function.kernel.name
    }
}

/// Lowers every operation of a program. `bases` are the addresses of the spaces, `scratch` address and size of the
/// workspace.
pub(super) fn lower(
    driver: &Driver,
    kernels: &mut Kernels,
    program: &Program,
    bases: [u64; Space::ALL.len()],
    scratch: (u64, usize),
    naive: bool,
) -> Result<Vec<Launch>, CoreError> {
    let mut lowering =
        Lowering { driver, kernels, buffers: &program.buffers, bases, scratch, naive, launches: Vec::new(), node: 0 };
    for (node, of) in program.nodes.iter().enumerate() {
        lowering.node = node;
        of.op.lower_gpu(&mut lowering)?;
    }
    Ok(lowering.launches)
}

/// What the lowering of an operation sees: addresses of tensors, the workspace, and a list to which it adds launches.
pub struct Lowering<'d> {
    pub(super) driver: &'d Driver,
    pub(super) kernels: &'d mut Kernels,
    pub(super) buffers: &'d [Buffer],
    pub(super) bases: [u64; Space::ALL.len()],
    pub(super) scratch: (u64, usize),
    pub(super) naive: bool,
    pub(super) launches: Vec<Launch>,
    pub(super) node: usize,
}

impl Lowering<'_> {
    /// Device address of a tensor's first element.
    pub fn address(&self, tensor: Tensor) -> u64 {
        let buffer = &self.buffers[tensor.buffer.0 as usize];
        debug_assert!(tensor.span().1 <= buffer.len, "window outside of `{}`", buffer.name);
        self.bases[buffer.space.index()] + (buffer.offset + tensor.offset * tensor.dtype.size()) as u64
    }

    /// Device address of a tensor, or 0 when there is none.
    pub fn optional(&self, tensor: Option<Tensor>) -> u64 {
        tensor.map_or(0, |t| self.address(t))
    }

    /// Address of the workspace of [`Operation::gpu_scratch`](crate::program::Operation::gpu_scratch) bytes, aligned
    /// to 256. Its contents are undefined at the start of an operation and die with it.
    pub fn scratch(&self, bytes: usize) -> u64 {
        assert!(bytes <= self.scratch.1, "an operation uses {bytes} bytes of a workspace of {}", self.scratch.1);
        self.scratch.0
    }

    /// Whether the naive kernels are asked for, see [`GpuOptions::naive`](super::GpuOptions).
    pub fn naive(&self) -> bool {
        self.naive
    }

    /// Streaming multiprocessors of the device, for grids of persistent kernels. Results must not depend on it.
    pub fn multiprocessors(&self) -> usize {
        self.driver.info.multiprocessors as usize
    }

    /// Adds a launch. A grid without blocks is no launch.
    ///
    /// # Errors
    /// `Device` when there is no such kernel, `Shape` when the grid is larger than a launch can be.
    pub fn launch<P: KernelParams>(&mut self, kernel: &str, grid: impl Into<Grid>, params: P) -> Result<(), CoreError> {
        self.launch_clusters(kernel, grid, 1, params)
    }

    /// Whether the device's architecture has a kernel of this name.
    pub fn has(&self, kernel: &str) -> bool {
        kernels_sys::kernel(kernel, self.driver.arch).is_some()
    }

    /// As [`Lowering::launch`], with clusters of `cluster` blocks along x, which must divide the grid.
    ///
    /// # Errors
    /// As [`Lowering::launch`].
    pub fn launch_clusters<P: KernelParams>(
        &mut self,
        kernel: &str,
        grid: impl Into<Grid>,
        cluster: u32,
        params: P,
    ) -> Result<(), CoreError> {
        let grid = grid.into();
        debug_assert!(grid.0 % cluster as usize == 0, "a grid of {grid:?} in clusters of {cluster}");
        if grid.0 == 0 || grid.1 == 0 || grid.2 == 0 {
            return Ok(());
        }
        let function = self.kernels.get(self.driver, kernel)?;
        assert!(
            function.kernel.params == P::NAME && function.kernel.params_bytes == size_of::<P>(),
            "kernel `{kernel}` takes {}, not {}",
            function.kernel.params,
            P::NAME
        );
        if grid.0 > i32::MAX as usize || grid.1 > 65_535 || grid.2 > 65_535 {
            return Err(CoreError::Shape {
                what: format!("grid of kernel `{kernel}`"),
                expected: "at most 2147483647 x 65535 x 65535 blocks".into(),
                found: format!("{grid:?}; use a smaller micro-batch"),
            });
        }
        let mut bytes = vec![Chunk([0; 64]); size_of::<P>().div_ceil(64)];
        // SAFETY: the block fits, both sides are plain bytes, and `P` promises that copying its bytes is meaningful.
        unsafe {
            core::ptr::copy_nonoverlapping((&raw const params).cast::<u8>(), bytes.as_mut_ptr().cast(), size_of::<P>());
        }
        self.launches.push(Launch { function, grid, cluster, params: bytes, node: self.node });
        Ok(())
    }

    /// As [`Lowering::launch`], for the form of kernel `stem` that works on activations of type `dtype`
    /// (`stem_bf16`, `stem_f32`).
    ///
    /// # Errors
    /// As [`Lowering::launch`].
    pub fn launch_for<P: KernelParams>(
        &mut self,
        stem: &str,
        dtype: DType,
        grid: impl Into<Grid>,
        params: P,
    ) -> Result<(), CoreError> {
        self.launch(&format!("{stem}_{dtype}"), grid, params)
    }
}
