//! The machine: loads modules, holds memory, executes launches.
//!
//! ```no_run
//! use ptx_sim::exec::{GlobalMemory, Launch, Machine, Module, Settings};
//! use std::sync::Arc;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings::from_env()?;
//! let memory = Arc::new(GlobalMemory::new(settings.devices, settings.memory_bytes));
//! let machine = Machine::new(settings, memory.clone(), 0);
//! let module = machine.load(Arc::new(Module::load("...PTX text...")?))?;
//! let y = memory.allocate(0, 4096)?;
//! let report = machine.launch(&Launch {
//!     grid: [4, 1, 1],
//!     block: [256, 1, 1],
//!     params: y.to_le_bytes().to_vec(),
//!     ..Launch::new(&module, "fill")
//! })?;
//! print!("{}", report.printed);
//! # Ok(()) }
//! ```
//!
//! Parameters are one block of bytes laid out as [`Kernel::params`] says (offset and size of each parameter), which is
//! also how `cuLaunchKernel` lays them out.

mod access;
mod agreement;
mod barriers;
mod bulk_reduce;
mod copies;
pub(crate) mod env;
mod grid;
mod hints;
mod huge;
mod lanes;
pub mod launch;
mod matrix;
mod mbarriers;
pub mod memory;
mod memory_error;
mod memory_ops;
mod mma_rows;
mod print;
mod queue;
mod random;
mod regs;
mod run;
pub mod settings;
pub(crate) mod shadow;
mod step;
mod tensormaps;
mod tile_math;
mod transfer;
mod unit;
mod warp;
mod warpgroup;
mod wgmma;

pub use crate::check::fault::{Fault, FaultKind, Place, Report};
pub use crate::count::Counts;
pub use crate::ptx::module::{Kernel, LoadError, Module, Parameter, Variable, VariableSpace};
pub use launch::{Launch, LaunchReport, LoadedModule, Machine};
pub use memory::{AllocationInfo, GlobalMemory, MemoryError};
pub use random::Random;
pub use settings::{Architecture, Schedule, Settings, SettingsError};
