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
use crate::config::choices::{DeviceKind, Precision};
use lightning_core::CoreError;
use lightning_core::cpu::CpuDevice;
use lightning_core::device::Device;
#[cfg(feature = "gpu")]
use lightning_core::gpu::{self, Execution, GpuDevice, GpuOptions};
use lightning_core::program::{Buffer, Persistent, Program};
use lightning_core::tensor::{DType, Tensor};

/// Set in the process whose CUDA driver is the virtual one.
#[cfg(feature = "gpu")]
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
    #[cfg(feature = "gpu")]
    Gpu(GpuOptions),
}

impl DeviceChoice {
    /// What a configuration asks for. With `sim` this starts the program again and does not return.
    ///
    /// # Errors
    /// `Device` when a GPU is asked for and none is usable.
    pub fn of(config: &RunConfig) -> Result<Self, Failure> {
        let d = &config.device;
        let computes = config.mixed_precision.precision == Precision::Bf16;
        if d.kind == DeviceKind::Auto && !computes {
            // The note is for whoever wonders why the GPU idles.
            if Self::from_parts(d.kind, d.threads, d.cuda_graph)?.overlaps() {
                let precision = config.mixed_precision.precision;
                eprintln!(
                    "note: a CUDA device is there, but it computes in bf16 and mixed_precision.precision = {precision}; \
                     this run uses the processor"
                );
            }
            return Self::from_parts(DeviceKind::Cpu, d.threads, d.cuda_graph);
        }
        Self::from_parts(d.kind, d.threads, d.cuda_graph)
    }

    /// As [`DeviceChoice::of`], from the parts.
    ///
    /// # Errors
    /// As [`DeviceChoice::of`].
    pub fn from_parts(kind: DeviceKind, threads: Option<usize>, graph: bool) -> Result<Self, Failure> {
        let cpu = Self::Cpu { threads: threads.unwrap_or_else(available_threads) };
        #[cfg(feature = "gpu")]
        {
            let execution = if graph { Execution::Graph } else { Execution::Launches };
            let gpu = Self::Gpu(GpuOptions { execution, ..GpuOptions::default() });
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
        #[cfg(not(feature = "gpu"))]
        match kind {
            DeviceKind::Cpu | DeviceKind::Auto => Ok(cpu),
            DeviceKind::Cuda | DeviceKind::Sim => {
                let _ = graph;
                let message = format!("--device {kind}: this program was built without the feature `gpu`");
                Err(Failure::new(Exit::Device, message))
            }
        }
    }

    /// Threads that the host side may use.
    pub fn threads(&self) -> usize {
        match self {
            Self::Cpu { threads } => *threads,
            #[cfg(feature = "gpu")]
            Self::Gpu(_) => available_threads(),
        }
    }

    /// Bytes of workspace that the device allocates for programs beside their arena.
    pub fn scratch_bytes(&self, programs: &[Program]) -> usize {
        match self {
            Self::Cpu { threads } => {
                programs.iter().map(CpuDevice::scratch_bytes).max().unwrap_or(0) * (*threads).max(1)
            }
            #[cfg(feature = "gpu")]
            Self::Gpu(_) => programs.iter().map(GpuDevice::scratch_bytes).max().unwrap_or(0),
        }
    }

    /// Memory that the device has for a run: bytes, and what they are. `None` where that cannot be told.
    ///
    /// # Errors
    /// A GPU that does not answer.
    pub fn memory(&self) -> Result<Option<(f64, String)>, Failure> {
        match self {
            Self::Cpu { .. } => {
                Ok(crate::plan::memory_limit::of_machine().map(|(bytes, source)| (bytes as f64, source.to_string())))
            }
            #[cfg(feature = "gpu")]
            Self::Gpu(options) => {
                let devices = gpu::devices()?;
                Ok(devices.get(options.ordinal).map(|d| (d.memory as f64, format!("the memory of {}", d.name))))
            }
        }
    }

    /// Whether the device works beside the host, so that results of a step can be looked at while the next one runs.
    pub fn overlaps(&self) -> bool {
        !matches!(self, Self::Cpu { .. })
    }

    /// Refuses a type of activations that the device does not compute in.
    ///
    /// # Errors
    /// `Usage` with the type that it does compute in.
    pub fn refuse_dtype(&self, act: DType) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "gpu")]
            Self::Gpu(_) if act != DType::BF16 => Err(Failure::new(
                Exit::Usage,
                format!(
                    "{act}: a GPU computes in bf16; ask for bf16 (a bf16 mixed precision, --dtype bf16) or use --device cpu"
                ),
            )),
            _ => {
                let _ = act;
                Ok(())
            }
        }
    }
}

/// Starts this program again with the virtual GPU's library first on the loader's path, unless that was done.
#[cfg(feature = "gpu")]
fn become_virtual() -> Result<(), Failure> {
    use crate::virtual_gpu;
    if std::env::var_os(VIRTUAL).is_some() {
        return Ok(());
    }
    let device = |message: String| Failure::new(Exit::Device, message);
    let library = virtual_gpu::library()
        .ok_or_else(|| device(format!("--device sim: the virtual GPU is not there; {}", virtual_gpu::HOW)))?;
    if !library.is_file() || library.file_name().is_none_or(|n| n != "libcuda.so.1") {
        return Err(device(format!("{}: no file libcuda.so.1; {}", library.display(), virtual_gpu::HOW)));
    }
    let mut path = library.parent().map(|p| p.as_os_str().to_os_string()).unwrap_or_default();
    if let Some(old) = std::env::var_os("LD_LIBRARY_PATH").filter(|p| !p.is_empty()) {
        path.push(":");
        path.push(old);
    }
    let program = std::env::current_exe().map_err(|e| device(format!("cannot find this program's own file: {e}")))?;
    let mut again = std::process::Command::new(program);
    again.args(std::env::args_os().skip(1)).env(VIRTUAL, "1").env("LD_LIBRARY_PATH", path);
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        Err(device(format!("cannot start again on the virtual GPU: {}", again.exec())))
    }
    #[cfg(not(unix))]
    Err(device("the virtual GPU needs a Unix system; use --device cpu".to_string()))
}

/// A device of either kind.
pub enum AnyDevice {
    /// The processor.
    Cpu(CpuDevice),
    /// A CUDA device.
    #[cfg(feature = "gpu")]
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
            #[cfg(feature = "gpu")]
            DeviceChoice::Gpu(options) => Self::Gpu(Box::new(GpuDevice::new(persistent, programs, *options)?)),
        })
    }

    /// Bytes that the device holds.
    pub fn allocated_bytes(&self) -> usize {
        match self {
            Self::Cpu(cpu) => cpu.allocated_bytes(),
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => gpu.allocated_bytes(),
        }
    }

    /// Name for people: threads of the processor, or the GPU's own name.
    pub fn describe(&self) -> String {
        match self {
            Self::Cpu(cpu) => format!("cpu, {} threads", cpu.threads()),
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => {
                let what = if gpu.info().is_virtual { "the virtual GPU as" } else { "cuda," };
                format!("{what} {}", gpu.info().name)
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
            #[cfg(feature = "gpu")]
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
            #[cfg(feature = "gpu")]
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

    fn fetch(&mut self, buffers: &[Buffer], tensors: &[Tensor], slot: usize) -> Result<(), CoreError> {
        forward!(self, device => device.fetch(buffers, tensors, slot))
    }

    fn fetched(&mut self, slot: usize) -> Result<&[u8], CoreError> {
        forward!(self, device => device.fetched(slot))
    }
}
