//! Spaces as allocations, and the checked borrows that kernels take from them.

use super::{Mat, MatMut, Workers};
use crate::element::Element;
use crate::program::{Buffer, Space};
use crate::tensor::Tensor;
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::cell::{Cell, RefCell};

const ALIGNMENT: usize = 4096;

/// A zeroed, page-aligned allocation.
pub(super) struct Region {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: a region owns its bytes.
unsafe impl Send for Region {}
// SAFETY: shared access only reads.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn zeroed(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(Self { ptr: core::ptr::without_provenance_mut(ALIGNMENT), len });
        }
        let layout = Layout::from_size_align(len, ALIGNMENT).ok()?;
        // SAFETY: the layout has a size above 0.
        let ptr = unsafe { alloc_zeroed(layout) };
        (!ptr.is_null()).then_some(Self { ptr, len })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn base(&mut self) -> *mut u8 {
        self.ptr
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the region owns `len` initialised bytes.
        unsafe { core::slice::from_raw_parts(self.ptr, self.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: allocated in `zeroed` with this layout.
            unsafe { dealloc(self.ptr, Layout::from_size_align_unchecked(self.len, ALIGNMENT)) }
        }
    }
}

/// Operands that one operation may borrow at once.
const MAX_BORROWS: usize = 64;

/// What a kernel sees of the device while one operation runs: its operands, as borrows that are checked against each
/// other, and the worker threads.
pub struct Cpu<'m> {
    buffers: &'m [Buffer],
    bases: [*mut u8; Space::ALL.len()],
    borrows: RefCell<[Option<(Tensor, bool)>; MAX_BORROWS]>,
    count: Cell<usize>,
    /// The threads of the device.
    pub workers: Workers,
}

impl<'m> Cpu<'m> {
    pub(super) fn new(buffers: &'m [Buffer], bases: [*mut u8; Space::ALL.len()], workers: Workers) -> Self {
        Self { buffers, bases, borrows: RefCell::new([None; MAX_BORROWS]), count: Cell::new(0), workers }
    }

    /// Registers a borrow that lasts as long as the operation and returns its address.
    fn borrow<T: Element>(&self, tensor: Tensor, exclusive: bool) -> *mut T {
        let buffer = &self.buffers[tensor.buffer.0 as usize];
        assert!(tensor.dtype == T::DTYPE, "`{}` holds {}, kernel wants {}", buffer.name, tensor.dtype, T::DTYPE);
        self.address(tensor, exclusive).cast()
    }

    fn address(&self, tensor: Tensor, exclusive: bool) -> *mut u8 {
        let buffer = &self.buffers[tensor.buffer.0 as usize];
        assert!(buffer.dtype == tensor.dtype && tensor.span().1 <= buffer.len, "window outside of `{}`", buffer.name);
        let mut borrows = self.borrows.borrow_mut();
        let count = self.count.get();
        for (other, other_exclusive) in borrows[..count].iter().flatten() {
            assert!(
                !(exclusive || *other_exclusive) || !tensor.overlaps(other),
                "two borrows of `{}` overlap and one writes",
                buffer.name
            );
        }
        borrows[count] = Some((tensor, exclusive));
        self.count.set(count + 1);
        let byte = buffer.offset + tensor.offset * tensor.dtype.size();
        // SAFETY: the planner placed the buffer inside its space.
        unsafe { self.bases[buffer.space.index()].add(byte) }
    }

    /// A tensor to read.
    pub fn read<T: Element>(&self, tensor: Tensor) -> Mat<'_, T> {
        let ptr = self.borrow::<T>(tensor, false);
        // SAFETY: inside the space (checked), of this element type (checked), and not written through another borrow of
        // this operation (checked); buffers that are alive at the same time do not share bytes (planner).
        unsafe { Mat::from_raw(ptr, tensor.rows, tensor.cols, tensor.ld) }
    }

    /// A tensor to write.
    pub fn write<T: Element>(&self, tensor: Tensor) -> MatMut<'_, T> {
        let ptr = self.borrow::<T>(tensor, true);
        // SAFETY: as for `read`, and the borrow is exclusive.
        unsafe { MatMut::from_raw(ptr, tensor.rows, tensor.cols, tensor.ld) }
    }

    /// An integer tensor to read.
    pub fn read_i32(&self, tensor: Tensor) -> Mat<'_, i32> {
        assert_eq!(tensor.dtype, crate::tensor::DType::I32);
        // SAFETY: as for `read`.
        unsafe { Mat::from_raw(self.address(tensor, false).cast(), tensor.rows, tensor.cols, tensor.ld) }
    }

    /// An integer tensor to write.
    pub fn write_i32(&self, tensor: Tensor) -> MatMut<'_, i32> {
        assert_eq!(tensor.dtype, crate::tensor::DType::I32);
        // SAFETY: as for `write`.
        unsafe { MatMut::from_raw(self.address(tensor, true).cast(), tensor.rows, tensor.cols, tensor.ld) }
    }
}
