//! Race-detector state of a page of global memory: who wrote each four bytes last, who read each sixteen.

use super::huge;
use super::memory::PAGE_BYTES;
use std::sync::atomic::AtomicU64;

/// Shadow of one page, per sixteen bytes: the last writer of each four, and two readers of different blocks. Zero means
/// nobody.
pub(crate) struct ShadowPage {
    pub(crate) readers: [[AtomicU64; 2]; PAGE_BYTES / 16],
    pub(crate) writers: [[AtomicU64; 4]; PAGE_BYTES / 16],
    /// Last launch that wrote to the page: reads of pages that are only read need not look for writers.
    pub(crate) written: AtomicU64,
}

impl ShadowPage {
    pub(crate) fn create() -> *mut ShadowPage {
        // Zero bytes are a valid `ShadowPage`.
        huge::map()
    }

    /// # Safety
    /// `p` came from [`ShadowPage::create`] and nobody uses it any more.
    pub(crate) unsafe fn destroy(p: *mut ShadowPage) {
        // SAFETY: the caller upholds that `p` is a `ShadowPage` of ours.
        unsafe { huge::unmap(p) }
    }
}
