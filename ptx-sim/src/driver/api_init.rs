//! Initialisation, versions, error texts, look-up of functions by name, profiler control.

use super::pointers::{Handle, In, Out, Text};
use super::state::{driver, initialise};
use super::status::{self, Status};
use super::symbols;

/// CUDA 13.0.
pub const DRIVER_VERSION: i32 = 13_000;

super::entry::api! {
    /// Makes the driver ready. `flags` must be 0.
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        initialise().map(|_| ())
    }

    /// Version of the driver API.
    fn cuDriverGetVersion(version: Out<i32>) {
        version.set(DRIVER_VERSION)
    }

    /// Name of an error code.
    fn cuGetErrorName(code: i32, text: Out<Text>) {
        match status::name(code) {
            Some(s) => text.set(Text::of(s)),
            None => {
                text.set(Text::null())?;
                Err(Status::INVALID_VALUE)
            }
        }
    }

    /// Description of an error code.
    fn cuGetErrorString(code: i32, text: Out<Text>) {
        match status::description(code) {
            Some(s) => text.set(Text::of(s)),
            None => {
                text.set(Text::null())?;
                Err(Status::INVALID_VALUE)
            }
        }
    }

    /// Address of an API function: 0 found, 1 unknown, 2 newer than the version asked for.
    fn cuGetProcAddress_v2(name: Text, function: Out<usize>, version: i32, flags: u64, result: Out<i32>) {
        function.check()?;
        let name = name.read()?;
        if flags & !3 != 0 || version < 2000 {
            return Err(Status::INVALID_VALUE);
        }
        match symbols::find(&name) {
            Some(address) => {
                result.set_if_wanted(0);
                function.set(address as usize)
            }
            None => {
                function.set(0)?;
                if result.is_null() {
                    return Err(Status::NOT_FOUND);
                }
                result.set(1)
            }
        }
    }

    /// As `cuGetProcAddress_v2`, without a detailed result.
    fn cuGetProcAddress(name: Text, function: Out<usize>, version: i32, flags: u64) {
        function.check()?;
        let name = name.read()?;
        if flags & !3 != 0 || version < 2000 {
            return Err(Status::INVALID_VALUE);
        }
        match symbols::find(&name) {
            Some(address) => function.set(address as usize),
            None => {
                function.set(0)?;
                Err(Status::NOT_FOUND)
            }
        }
    }

    /// Private tables of the CUDA runtime: there are none.
    fn cuGetExportTable(table: Out<Handle>, id: In<[u8; 16]>) {
        table.check()?;
        id.get()?;
        table.set(Handle::NULL)?;
        Err(Status::NOT_FOUND)
    }

    /// Starts profiling: nothing is profiled.
    fn cuProfilerStart() {
        driver().map(|_| ())
    }

    /// Stops profiling.
    fn cuProfilerStop() {
        driver().map(|_| ())
    }
}
