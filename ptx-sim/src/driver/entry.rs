//! The way into every API function: panics stay inside, results become codes, and each file of functions has a table of
//! its symbols for `cuGetProcAddress`.

use super::status::{Outcome, Status};
use std::ffi::c_void;

/// Name and address of an API function.
pub struct Symbol {
    /// Name as exported.
    pub name: &'static str,
    /// Entry point.
    pub address: *const c_void,
}

// SAFETY: the address is that of a function; it is only compared and handed out.
unsafe impl Sync for Symbol {}

/// Runs the body of an API function.
pub fn enter(name: &'static str, body: impl FnOnce() -> Outcome) -> i32 {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(status)) => status.0,
        Err(_) => {
            eprintln!("ptx-sim: {name} failed inside the virtual driver; the message above says where");
            Status::UNKNOWN.0
        }
    }
}

/// Prints a message that explains an error code, once per distinct text.
pub fn explain(text: &str) {
    static SEEN: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    let mut seen = SEEN.lock().unwrap_or_else(|e| e.into_inner());
    if seen.len() < 256 && !seen.iter().any(|s| s == text) {
        eprintln!("ptx-sim: {text}");
        seen.push(text.to_string());
    }
}

/// Defines exported API functions from bodies that return [`Outcome`], and the table `SYMBOLS` of the file.
macro_rules! api {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// Pointers that are not null must point to what the CUDA driver API documents for this function.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
                $crate::driver::entry::enter(stringify!($name), move || -> $crate::driver::status::Outcome { $body })
            }
        )*

        /// The functions of this file.
        pub(crate) const SYMBOLS: &[$crate::driver::entry::Symbol] = &[
            $($crate::driver::entry::Symbol { name: stringify!($name), address: $name as *const std::ffi::c_void }),*
        ];
    };
}

pub(crate) use api;
