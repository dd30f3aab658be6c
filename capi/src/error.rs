//! Status codes, and the message of the last failure of each thread.

use core::ffi::c_char;
use lightning_core::CoreError;
use std::cell::RefCell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Outcome of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LightningStatus {
    /// Done, or enqueued.
    Ok = 0,
    /// An argument is wrong: a shape, a type, an overlap of operands, a missing pointer.
    InvalidArgument = 1,
    /// The device has not enough memory.
    OutOfMemory = 2,
    /// The device cannot be used, or the driver reports a fault.
    DeviceError = 3,
    /// A defect of this library.
    InternalError = 4,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// What went wrong in this thread's last call that failed; empty if none did. The text stays until the next failure.
#[unsafe(no_mangle)]
pub extern "C" fn lightning_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// A wrong argument.
pub(crate) fn failed(what: &str, found: &str) -> CoreError {
    CoreError::Input { what: what.to_string(), reason: found.to_string() }
}

/// Runs the body of a call; errors and panics become a status and a message.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), CoreError>) -> LightningStatus {
    let (status, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return LightningStatus::Ok,
        Ok(Err(error)) => (status_of(&error), error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
            (LightningStatus::InternalError, format!("a check inside the library failed: {text}"))
        }
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = message);
    status
}

fn status_of(error: &CoreError) -> LightningStatus {
    match error {
        CoreError::OutOfMemory { .. } => LightningStatus::OutOfMemory,
        CoreError::Device { .. } => LightningStatus::DeviceError,
        _ => LightningStatus::InvalidArgument,
    }
}
