//! The device of a run: which one, and one type for all of them.
//!
//! | `device.kind` | what runs                                                              |
//! |---------------|------------------------------------------------------------------------|
//! | `auto`        | a CUDA device when there is a usable one, else the processor           |
//! | `cpu`         | the processor                                                          |
//! | `cuda`        | a CUDA device                                                          |
//! | `sim`         | the virtual GPU: the program starts again with its library as driver   |

use super::engine::available_threads;
use crate::cli::{Exit, Failure};
use crate::config::RunConfig;
use crate::config::choices::DeviceKind;
use lightning_core::CoreError;
use lightning_core::cpu::CpuDevice;
use lightning_core::device::Device;
use lightning_core::gpu::{self, Execution, GpuDevice, GpuOptions};
use lightning_core::program::{Buffer, Persistent, Program};
use lightning_core::tensor::{DType, Tensor};
use std::path::PathBuf;

/// Set in the process whose CUDA driver is the virtual one.
const VIRTUAL: &str = "LIGHTNING_SIM_ACTIVE";

/// The device that was chosen, before its memory is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The processor with this many threads.
    Cpu {
        /// Threads; results do not depend on it.
        threads: usize,
    },
    /// A CUDA device, real or virtual.
    Gpu(GpuOptions),
}

impl DeviceChoice {
    /// What a configuration asks for. With `sim` this starts the program again and does not return.
    ///
    /// # Errors
    /// `Device` when a GPU is asked for and none is usable.
    pub fn of(config: &RunConfig) -> Result<Self, Failure> {
        Self::from_parts(config.device.kind, config.device.threads, config.device.cuda_graph)
    }

    /// As [`DeviceChoice::of`], from the parts.
    ///
    /// # Errors
    /// As [`DeviceChoice::of`].
    pub fn from_parts(kind: DeviceKind, threads: Option<usize>, graph: bool) -> Result<Self, Failure> {
        let cpu = Self::Cpu { threads: threads.unwrap_or_else(available_threads) };
        let execution = if graph { Execution::Graph } else { Execution::Launches };
        let gpu = Self::Gpu(GpuOptions { ordinal: 0, execution });
        match kind {
            DeviceKind::Cpu => Ok(cpu),
            DeviceKind::Cuda => gpu::usable(0).map(|()| gpu).map_err(Failure::from),
            DeviceKind::Sim => {
                become_virtual()?;
                gpu::usable(0).map(|()| gpu).map_err(Failure::from)
            }
            DeviceKind::Auto => Ok(if gpu::usable(0).is_ok() { gpu } else { cpu }),
        }
    }

    /// Threads that the host side may use.
    pub fn threads(&self) -> usize {
        match self {
            Self::Cpu { threads } => *threads,
            Self::Gpu(_) => available_threads(),
        }
    }

    /// Refuses a type of activations that the device does not compute in.
    ///
    /// # Errors
    /// `Usage` with the type that it does compute in.
    pub fn refuse_dtype(&self, act: DType) -> Result<(), Failure> {
        match self {
            Self::Gpu(_) if act != DType::BF16 => Err(Failure::new(
                Exit::Usage,
                format!(
                    "{act}: a GPU computes in bf16; ask for bf16 (a bf16 mixed precision, --dtype bf16) or use --device cpu"
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// Starts this program again with the virtual GPU's library first on the loader's path, unless that was done.
fn become_virtual() -> Result<(), Failure> {
    if std::env::var_os(VIRTUAL).is_some() {
        return Ok(());
    }
    let folder = virtual_driver()?;
    let mut path = folder.into_os_string();
    if let Some(old) = std::env::var_os("LD_LIBRARY_PATH").filter(|p| !p.is_empty()) {
        path.push(":");
        path.push(old);
    }
    let program = std::env::current_exe()
        .map_err(|e| Failure::new(Exit::Unexpected, format!("cannot find this program's own file: {e}")))?;
    let mut again = std::process::Command::new(program);
    again.args(std::env::args_os().skip(1)).env(VIRTUAL, "1").env("LD_LIBRARY_PATH", path);
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        let error = again.exec();
        Err(Failure::new(Exit::Unexpected, format!("cannot start again on the virtual GPU: {error}")))
    }
    #[cfg(not(unix))]
    Err(Failure::new(Exit::Device, "the virtual GPU needs a Unix system; use --device cpu"))
}

/// The folder that holds the virtual GPU's `libcuda.so.1`: of `LIGHTNING_SIM_LIB`, else `sim` beside the program.
fn virtual_driver() -> Result<PathBuf, Failure> {
    let missing = |what: String| {
        Failure::new(Exit::Device, format!("{what}; build the virtual GPU with `cargo xtask sim`, or use --device cpu"))
    };
    if let Some(library) = std::env::var_os("LIGHTNING_SIM_LIB") {
        let library = PathBuf::from(library);
        let named = library.file_name().is_some_and(|n| n == "libcuda.so.1");
        if !named || !library.is_file() {
            return Err(missing(format!("LIGHTNING_SIM_LIB = {}: not a libcuda.so.1", library.display())));
        }
        return Ok(library.parent().map(PathBuf::from).unwrap_or_default());
    }
    let beside = std::env::current_exe().ok().and_then(|p| Some(p.parent()?.join("sim")));
    match beside {
        Some(folder) if folder.join("libcuda.so.1").is_file() => Ok(folder),
        Some(folder) => Err(missing(format!("there is no libcuda.so.1 in {}", folder.display()))),
        None => Err(missing("this program's own folder is unknown".to_string())),
    }
}

/// A device of either kind.
pub enum AnyDevice {
    /// The processor.
    Cpu(CpuDevice),
    /// A CUDA device.
    Gpu(Box<GpuDevice>),
}

impl AnyDevice {
    /// Allocates what the model and its programs need.
    ///
    /// # Errors
    /// Memory that the device does not have, or a device that cannot be used.
    pub fn new(persistent: &Persistent, programs: &[&Program], choice: &DeviceChoice) -> Result<Self, CoreError> {
        Ok(match choice {
            DeviceChoice::Cpu { threads } => Self::Cpu(CpuDevice::new(persistent, programs, *threads)?),
            DeviceChoice::Gpu(options) => Self::Gpu(Box::new(GpuDevice::new(persistent, programs, *options)?)),
        })
    }

    /// Bytes that the device holds.
    pub fn allocated_bytes(&self) -> usize {
        match self {
            Self::Cpu(cpu) => cpu.allocated_bytes(),
            Self::Gpu(gpu) => gpu.allocated_bytes(),
        }
    }

    /// Name for people: threads of the processor, or the GPU's own name.
    pub fn describe(&self) -> String {
        match self {
            Self::Cpu(cpu) => format!("cpu, {} threads", cpu.threads()),
            Self::Gpu(gpu) => {
                let what = if std::env::var_os(VIRTUAL).is_some() { "sim" } else { "cuda" };
                format!("{what}, {}", gpu.info().name)
            }
        }
    }

    /// Runs a program one operation at a time and calls `observer` with the index of each when it is done.
    ///
    /// # Errors
    /// What the device reports.
    pub fn run_observed(&mut self, program: &Program, mut observer: impl FnMut(usize) + Send) -> Result<(), CoreError> {
        match self {
            Self::Cpu(cpu) => cpu.run_observed(program, observer),
            Self::Gpu(gpu) => {
                for index in 0..program.nodes.len() {
                    gpu.run_node(program, index)?;
                    observer(index);
                }
            }
        }
        Ok(())
    }
}

macro_rules! forward {
    ($self:ident, $device:ident => $call:expr) => {
        match $self {
            Self::Cpu($device) => $call,
            Self::Gpu($device) => $call,
        }
    };
}

impl Device for AnyDevice {
    fn run(&mut self, program: &Program) -> Result<(), CoreError> {
        forward!(self, device => device.run(program))
    }

    fn run_node(&mut self, program: &Program, node: usize) -> Result<(), CoreError> {
        forward!(self, device => device.run_node(program, node))
    }

    fn write(&mut self, buffers: &[Buffer], tensor: Tensor, bytes: &[u8]) -> Result<(), CoreError> {
        forward!(self, device => device.write(buffers, tensor, bytes))
    }

    fn read(&self, buffers: &[Buffer], tensor: Tensor, bytes: &mut [u8]) -> Result<(), CoreError> {
        forward!(self, device => device.read(buffers, tensor, bytes))
    }
}
