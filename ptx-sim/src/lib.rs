//! A virtual GPU: executes PTX on the CPU and reports what is wrong with it.
//!
//! * [`ptx`]: text to decoded kernels. An instruction that is not supported is an error at load.
//! * [`exec`]: memory, warps, launches.
//! * [`check`]: races, uninitialised and out-of-bounds accesses, deadlocks, ...; and the mutation of modules.
//! * [`count`]: instructions, bytes, bank conflicts, flops of a launch.
//! * [`num`]: number formats and arithmetic. [`tensormap`]: tensor maps. [`driver`]: the CUDA driver API.

pub mod check;
pub mod count;
pub mod driver;
pub mod exec;
pub mod num;
pub mod ptx;
pub mod tensormap;
