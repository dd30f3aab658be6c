//! The module loader of the driver: any bytes become PTX and then a module, or a status with its reason; a module that
//! decodes can be placed in device memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_sim::driver::image;
use ptx_sim::exec::{GlobalMemory, Machine, Settings};
use std::sync::Arc;

/// Device memory of the machine that modules are placed in, in bytes.
const MEMORY_BYTES: u64 = 1 << 24;

fn place(ptx: &str) {
    if let Ok(module) = image::decode(ptx) {
        let settings = Settings { host_threads: 1, memory_bytes: MEMORY_BYTES, ..Settings::default() };
        let memory = Arc::new(GlobalMemory::new(1, MEMORY_BYTES));
        let _ = Machine::new(settings, memory, 0).load(Arc::new(module));
    }
}

fuzz_target!(|data: &[u8]| {
    if let Ok(source) = image::source_of_fatbin(data) {
        place(&source.ptx);
    }
    place(&String::from_utf8_lossy(data));
});
