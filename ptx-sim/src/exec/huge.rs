//! Zeroed memory for large tables, in huge pages where the system has them: a page of device memory and its shadow are
//! megabytes that are touched once, and one fault for 2 MiB costs far less than 512 of them.

use std::alloc::{Layout, handle_alloc_error};

/// Zeroed memory for one `T`, never null. Ends the process when there is none, as every allocation does.
pub(crate) fn map<T>() -> *mut T {
    let layout = Layout::new::<T>();
    // SAFETY: a private anonymous mapping touches no existing memory; the advice concerns the new mapping only.
    unsafe {
        let p = libc::mmap(
            std::ptr::null_mut(),
            layout.size().max(1),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if p == libc::MAP_FAILED {
            handle_alloc_error(layout);
        }
        #[cfg(target_os = "linux")]
        libc::madvise(p, layout.size().max(1), libc::MADV_HUGEPAGE);
        p.cast()
    }
}

/// Gives memory of [`map`] back.
///
/// # Safety
/// `p` came from `map::<T>` and nobody uses it any more.
pub(crate) unsafe fn unmap<T>(p: *mut T) {
    // SAFETY: passed on to the caller; the size is that of the mapping.
    unsafe {
        libc::munmap(p.cast(), Layout::new::<T>().size().max(1));
    }
}
