//! Host memory that the driver allocates itself: pinned and managed.

use std::alloc::Layout;

const PAGE: usize = 4096;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1).div_ceil(PAGE).checked_mul(PAGE)?, PAGE).ok()
}

/// Page-aligned memory of at least `bytes` bytes; `None` when there is not enough.
pub fn allocate(bytes: usize) -> Option<usize> {
    let layout = layout(bytes)?;
    // SAFETY: the layout has a non-zero size.
    let p = unsafe { std::alloc::alloc_zeroed(layout) };
    if p.is_null() { None } else { Some(p as usize) }
}

/// Frees memory of [`allocate`].
///
/// # Safety
/// `address` came from `allocate(bytes)` and has not been freed since.
pub unsafe fn free(address: usize, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: same layout as in `allocate`; the caller upholds the rest.
        unsafe { std::alloc::dealloc(address as *mut u8, layout) };
    }
}
