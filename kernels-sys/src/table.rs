//! The kernel table and the embedded images; the build script writes both from `csrc/`.

use core::ffi::CStr;
use core::fmt;

use crate::params::*;

/// A GPU architecture that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// Hopper (H100, H200), with its architecture-specific instructions.
    Sm90a,
    /// Blackwell (B200, GB200), with its architecture-specific instructions.
    Sm100a,
}

impl Arch {
    /// All architectures that can be compiled for, oldest first.
    pub const ALL: [Self; 2] = [Self::Sm90a, Self::Sm100a];

    /// The name that nvcc and PTX use, such as `sm_90a`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm90a => "sm_90a",
            Self::Sm100a => "sm_100a",
        }
    }

    /// The compute capability (major, minor) of the devices that run it. These images run on no other.
    pub const fn compute_capability(self) -> (u32, u32) {
        match self {
            Self::Sm90a => (9, 0),
            Self::Sm100a => (10, 0),
        }
    }

    /// The architecture of a device of this compute capability, if there are kernels for it.
    pub fn of_compute_capability(major: u32, minor: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.compute_capability() == (major, minor))
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Activation type that a kernel works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// bfloat16.
    Bf16,
    /// IEEE single precision.
    F32,
    /// The kernel has one form; its parameter block says what it takes.
    Any,
}

/// A kernel that can be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Symbol in the image, such as `rms_norm_fwd_bf16`.
    pub name: &'static str,
    /// The source below `csrc/` without extension, such as `norm/rms_norm`: key of [`image`].
    pub module: &'static str,
    /// The folder below `csrc/`, such as `norm`.
    pub family: &'static str,
    /// The one architecture that it exists for, or none if it exists for all.
    pub arch: Option<Arch>,
    /// Activation type.
    pub dtype: DType,
    /// Name of the parameter block in [`crate::params`], which is its one argument.
    pub params: &'static str,
    /// Size of the parameter block in bytes.
    pub params_bytes: usize,
    /// Threads of a block; a launch with another number is an error.
    pub block_threads: u32,
    /// Blocks that fit on one multiprocessor at least.
    pub min_blocks: u32,
    /// Dynamic shared memory in bytes that a launch must ask for.
    pub dynamic_shared_bytes: u32,
}

/// A compiled source for one architecture.
#[derive(Clone, Copy)]
pub struct Image {
    /// The source below `csrc/` without extension, such as `norm/rms_norm`.
    pub module: &'static str,
    /// What it was compiled for.
    pub arch: Arch,
    /// Machine code as an ELF file, at an address that is a multiple of 16.
    pub cubin: &'static [u8],
    /// The PTX that the machine code was made from, with a NUL at its end; see [`Image::ptx`].
    ptx: &'static [u8],
}

impl Image {
    /// The PTX that the machine code was made from, terminated as the driver wants it.
    pub fn ptx(&self) -> &'static CStr {
        // The build script ends the text with its only NUL.
        CStr::from_bytes_until_nul(self.ptx).unwrap_or_default()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("module", &self.module)
            .field("arch", &self.arch)
            .field("cubin_bytes", &self.cubin.len())
            .field("ptx_bytes", &self.ptx.len())
            .finish()
    }
}

/// A parameter block of `csrc/include/lightning/params.h`.
///
/// # Safety
/// The type must have the layout of the C structure of the same name, and every bit pattern of its fields must be a
/// value, because launches copy it to the device byte by byte.
pub unsafe trait KernelParams: Copy + 'static {
    /// Name of the structure, as in [`Kernel::params`].
    const NAME: &'static str;
}

macro_rules! parameter_block {
    ($block:ident) => {
        // SAFETY: bindgen makes the type with repr(C) from the structure of this name and asserts its layout; its
        // fields are integers, floats and device addresses. The build script names only such blocks.
        unsafe impl KernelParams for $block {
            const NAME: &'static str = stringify!($block);
        }
    };
}

/// Puts embedded bytes at an address that the driver can map without copying.
#[allow(dead_code, reason = "without nvcc there are no images")]
#[repr(C, align(16))]
struct Aligned<const BYTES: usize>([u8; BYTES]);

include!(concat!(env!("OUT_DIR"), "/kernel_table.rs"));

/// All kernels that `csrc/` declares, whether or not images were built.
pub fn kernels() -> &'static [Kernel] {
    KERNELS
}

/// The kernel of this name that a device of `arch` runs.
pub fn kernel(name: &str, arch: Arch) -> Option<&'static Kernel> {
    KERNELS.iter().find(|k| k.name == name && k.arch.is_none_or(|only| only == arch))
}

/// All images that were built.
pub fn images() -> &'static [Image] {
    IMAGES
}

/// The image of a module for an architecture, if it was built.
pub fn image(module: &str, arch: Arch) -> Option<&'static Image> {
    IMAGES.iter().find(|i| i.module == module && i.arch == arch)
}

/// Why there are no images and how to get them; none if this was built with nvcc.
pub fn absent() -> Option<&'static str> {
    ABSENT
}
