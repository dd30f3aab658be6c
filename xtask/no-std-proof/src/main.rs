//! A program without the standard library that links `lightning-core` and `kernels-sys`.
//!
//! It brings what std would: the entry point, the allocator and the panic handler. Exit status 0 means that the
//! libraries linked and did what they are asked here.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::ToString;
use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_int, c_void};
use core::panic::PanicInfo;
use core::ptr;

use kernels_sys::Arch;
use lightning_core as _;

#[link(name = "c")]
unsafe extern "C" {
    fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    fn free(block: *mut c_void);
    fn abort() -> !;
}

/// The C library's allocator.
struct CAllocator;

// SAFETY: posix_memalign gives blocks of at least the size and alignment asked for, or fails; free takes them back.
unsafe impl GlobalAlloc for CAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut place = ptr::null_mut();
        // SAFETY: `place` is a valid address, and the alignment is a power of two and a multiple of a pointer's size.
        let status = unsafe {
            posix_memalign(
                &mut place,
                layout.align().max(size_of::<usize>()),
                layout.size(),
            )
        };
        if status == 0 {
            place.cast()
        } else {
            ptr::null_mut()
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller gives a block that `alloc` gave out and that is not freed yet.
        unsafe { free(block.cast()) }
    }
}

#[global_allocator]
static ALLOCATOR: CAllocator = CAllocator;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: abort has no condition.
    unsafe { abort() }
}

/// The precompiled `alloc` refers to the personality of unwinding, which std would bring. Panics abort here, so that
/// nothing ever calls it.
// SAFETY: no other symbol of the program has this name, since std is not linked.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

/// Entry point that the C runtime calls.
// SAFETY: no other symbol of the program is called `main`.
#[unsafe(no_mangle)]
pub extern "C" fn main(_argc: c_int, _argv: *const *const u8) -> c_int {
    let found = kernels_sys::kernel("rms_norm_fwd_bf16", Arch::Sm90a).is_some();
    let named = Arch::Sm90a.to_string() == "sm_90a";
    c_int::from(!(found && named))
}
