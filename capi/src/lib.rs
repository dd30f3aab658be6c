//! The operations of the GPU device by raw device pointer and stream, for engines that are not Rust.
//!
//! `include/lightning.h` is made from this crate by `cargo xtask header`. Each operation is one function that takes the
//! device, one structure of arguments, a workspace and a stream; formulas, shapes and types are those of
//! `lightning_core::ops`. Engines in Rust use `lightning_core::gpu::GpuOps` directly.
//!
//! Rules for callers
//! * Tensors are windows of device memory: address, element type, rows, columns, elements from one row to the next. A
//!   vector has one row. An optional tensor is absent when its type is `LIGHTNING_DTYPE_ABSENT`.
//! * Calls enqueue and return; nothing is allocated on the device and it is not waited for. Memory must stay until the
//!   stream has passed the call.
//! * A workspace whose `address` is 0 asks: `bytes` receives what the operation needs, and nothing is launched. Two calls in
//!   flight on different streams need two workspaces.
//! * A device may be used from several threads, one at a time.
//! * On failure the status is not `LIGHTNING_STATUS_OK` and `lightning_last_error` says why, per thread.

mod attention;
mod dense;
mod error;
mod mamba;
mod moe;
mod norm;
mod optimizer;
mod tensor;

pub use attention::*;
pub use dense::*;
pub use error::{LightningStatus, lightning_last_error};
pub use mamba::*;
pub use moe::*;
pub use norm::*;
pub use optimizer::*;
pub use tensor::{LightningDtype, LightningTensor, LightningWorkspace};

use core::ffi::c_void;
use error::{failed, guarded};
use lightning_core::CoreError;
use lightning_core::gpu::{GpuOps, Workspace};
use lightning_core::program::{Builder, Op};
use tensor::Operands;

/// A CUDA device with its kernels.
pub struct LightningDevice(GpuOps);

/// Opens CUDA device `ordinal` (among the visible ones) through its primary context.
///
/// # Safety
/// `device` must be a place for one pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_open(ordinal: u32, device: *mut *mut LightningDevice) -> LightningStatus {
    guarded(|| {
        if device.is_null() {
            return Err(failed("lightning_open", "`device` is null"));
        }
        let opened = Box::new(LightningDevice(GpuOps::open(ordinal as usize)?));
        // SAFETY: the caller gives a place for one pointer, which is not null.
        unsafe { device.write(Box::into_raw(opened)) };
        Ok(())
    })
}

/// Closes a device. Null is no device and nothing happens.
///
/// # Safety
/// `device` must come from `lightning_open`, must not be used again, and its streams must have passed all calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_close(device: *mut LightningDevice) {
    if !device.is_null() {
        // SAFETY: made by `Box::into_raw` in `lightning_open`, given back once.
        drop(unsafe { Box::from_raw(device) });
    }
}

/// Records the operation that `build` makes of the arguments and enqueues it, or answers what workspace it needs.
///
/// # Safety
/// As every operation's function: see [`enqueue`].
unsafe fn run<A: Copy>(
    device: *mut LightningDevice,
    arguments: *const A,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
    build: impl FnOnce(&mut Operands, A) -> Result<Op, CoreError>,
) -> LightningStatus {
    guarded(|| {
        if device.is_null() || arguments.is_null() {
            return Err(failed("arguments", "the device or the structure of arguments is null"));
        }
        let mut operands = Operands::default();
        // SAFETY: not null, and the caller gives a structure of this type.
        let op = build(&mut operands, unsafe { arguments.read() })?;
        let mut builder = Builder::new(&operands.table, false);
        builder.push(op);
        let program = builder.finish("foreign")?;
        let needed = GpuOps::workspace_bytes(&program);
        // SAFETY: null, or the caller gives one workspace.
        let given = match unsafe { workspace.as_mut() } {
            Some(asked) if asked.address == 0 && needed > 0 => {
                asked.bytes = needed;
                return Ok(());
            }
            Some(given) => Workspace { address: given.address, bytes: given.bytes },
            None => Workspace { address: 0, bytes: 0 },
        };
        // SAFETY: the caller promises what `GpuOps::enqueue` asks for; the device is not null and not shared.
        unsafe { (*device).0.enqueue(&program, given, stream) }
    })
}

/// Declares the C function of an operation: name, structure of arguments, and how they become an operation.
///
/// The functions are written out and not made by this macro because the header's generator reads source text; it is
/// only the body that they share.
macro_rules! enqueue {
    ($device:ident, $arguments:ident, $workspace:ident, $stream:ident, |$operands:ident, $a:ident| $op:expr) => {
        // SAFETY: the caller keeps the rules at the head of this crate.
        unsafe {
            $crate::run($device, $arguments, $workspace, $stream, |$operands, $a| {
                Ok(lightning_core::program::Op::from($op))
            })
        }
    };
}
pub(crate) use enqueue;
