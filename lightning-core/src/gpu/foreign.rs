//! Operations on memory and a stream of an embedding engine.

use super::driver::Driver;
use super::kernels::Kernels;
use super::{GpuDevice, lower};
use crate::error::CoreError;
use crate::program::{Program, Space};
use alloc::format;
use core::ffi::c_void;

/// Device memory that operations may use while they run. Two calls in flight on different streams need two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workspace {
    /// Device address, a multiple of 256.
    pub address: u64,
    /// Size; [`GpuOps::workspace_bytes`] says what a program needs.
    pub bytes: usize,
}

/// The kernels of a device for an engine that owns memory, streams and everything else.
///
/// Operands are made with [`Persistent::foreign`](crate::program::Persistent::foreign), operations are recorded with a
/// [`Builder`](crate::program::Builder), which checks them. The device's primary context is used, as the runtime API and
/// most engines do.
pub struct GpuOps {
    kernels: Kernels,
    driver: Driver,
}

impl GpuOps {
    /// Opens a device.
    ///
    /// # Errors
    /// `Device` when it cannot be used.
    pub fn open(ordinal: usize) -> Result<Self, CoreError> {
        Ok(Self { kernels: Kernels::default(), driver: Driver::open(ordinal)? })
    }

    /// Bytes of workspace that a program's operations need.
    pub fn workspace_bytes(program: &Program) -> usize {
        GpuDevice::scratch_bytes(program)
    }

    /// Enqueues the operations of a program on a stream (`CUstream`, null for the legacy stream) and returns. Nothing is
    /// allocated on the device, and it is not waited for.
    ///
    /// # Errors
    /// `Shape` when the program uses other than foreign buffers or the workspace is too small, `Device` for what the driver
    /// reports.
    ///
    /// # Safety
    /// Every foreign buffer must be memory of this device of the size that it was declared with, and stay so, untouched by
    /// others, until the stream has passed this work; the workspace too. The stream must belong to the device's primary
    /// context.
    pub unsafe fn enqueue(
        &mut self,
        program: &Program,
        workspace: Workspace,
        stream: *mut c_void,
    ) -> Result<(), CoreError> {
        let refuse = |what: &str, expected: alloc::string::String, found: alloc::string::String| {
            Err(CoreError::Shape { what: what.into(), expected, found })
        };
        if let Some(other) = program.buffers.iter().find(|b| b.space != Space::Foreign) {
            return refuse(&other.name, "foreign memory".into(), format!("a buffer of {}", other.space.name()));
        }
        let needed = Self::workspace_bytes(program);
        if workspace.bytes < needed || workspace.address % 256 != 0 {
            let found = format!("{} bytes at {:#x}", workspace.bytes, workspace.address);
            return refuse("workspace", format!("at least {needed} bytes at a multiple of 256"), found);
        }
        self.driver.bind()?;
        let bases = [0; Space::ALL.len()];
        let scratch = (workspace.address, workspace.bytes);
        let launches = lower::lower(&self.driver, &mut self.kernels, program, bases, scratch, false)?;
        for launch in &launches {
            launch.enqueue(stream.cast(), || format!("operation `{}`", program.nodes[launch.node].op.name()))?;
        }
        Ok(())
    }
}
