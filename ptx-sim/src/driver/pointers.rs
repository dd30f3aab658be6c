//! Pointer arguments of API functions.
//!
//! C callers pass raw pointers. These wrappers have the layout of the pointer they hold, are only made by such a
//! caller, and answer a null pointer with `CUDA_ERROR_INVALID_VALUE`. Everything that the API reads from or writes to
//! the caller's memory goes through this file; the one condition that it cannot check, that a pointer which is not
//! null points to what the function's documentation says, is the caller's part of the contract of an
//! `unsafe extern "C"` function.

use super::status::{Outcome, Status};
use std::ffi::{CStr, c_char, c_void};

/// Where a result is written.
#[repr(transparent)]
pub struct Out<T>(*mut T);

/// Where an argument or an array of arguments is read.
#[repr(transparent)]
pub struct In<T>(*const T);

/// A NUL-terminated string.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

/// An opaque object: context, stream, event, module, function, graph and the like.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Handle(pub usize);

/// An address in host or device memory.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address(pub usize);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl Handle {
    /// The null handle.
    pub const NULL: Handle = Handle(0);
}

impl<T> Out<T> {
    /// Whether the caller passed null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// `CUDA_ERROR_INVALID_VALUE` for null; to check before any effect.
    pub fn check(self) -> Outcome {
        if self.0.is_null() { Err(Status::INVALID_VALUE) } else { Ok(()) }
    }

    /// Writes the result.
    pub fn set(self, value: T) -> Outcome {
        self.check()?;
        // SAFETY: not null, and the C caller upholds that it points to writable memory for a `T`.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result unless the caller does not want it.
    pub fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the C caller upholds that it points to writable memory for a `T`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes element `i` of an array.
    pub fn set_at(self, i: usize, value: T) -> Outcome {
        self.check()?;
        // SAFETY: not null, and the C caller upholds that the array has the length that it passed along.
        unsafe { self.0.add(i).write_unaligned(value) };
        Ok(())
    }

    /// The address itself.
    pub fn address(self) -> usize {
        self.0 as usize
    }
}

impl<T: Copy> Out<T> {
    /// Reads the present value (in-out arguments).
    pub fn get(self) -> Outcome<T> {
        self.check()?;
        // SAFETY: not null, and the C caller upholds that it points to an initialised `T`.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

impl<T: Copy> In<T> {
    /// A pointer to elements of our own, which must outlive its use.
    pub fn of_slice(elements: &[T]) -> In<T> {
        In(elements.as_ptr())
    }

    /// A pointer into memory that another argument of the call points to.
    pub(super) fn at(address: usize) -> In<T> {
        In(address as *const T)
    }

    /// The null pointer.
    pub fn null() -> In<T> {
        In(std::ptr::null())
    }

    /// Whether the caller passed null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Reads the value.
    pub fn get(self) -> Outcome<T> {
        self.get_at(0)
    }

    /// Reads element `i` of an array.
    pub fn get_at(self, i: usize) -> Outcome<T> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, and the C caller upholds that the array has at least `i + 1` elements.
        Ok(unsafe { self.0.add(i).read_unaligned() })
    }

    /// Reads an array of `n` elements; null is allowed for none.
    pub fn to_vec(self, n: usize) -> Outcome<Vec<T>> {
        (0..n).map(|i| self.get_at(i)).collect()
    }

    /// The address itself.
    pub fn address(self) -> usize {
        self.0 as usize
    }
}

impl In<u8> {
    /// A pointer to bytes of our own, which must outlive its use.
    pub fn of(bytes: &[u8]) -> In<u8> {
        In(bytes.as_ptr())
    }

    /// The same pointer as a NUL-terminated string.
    pub fn as_text(self) -> Text {
        Text(self.0.cast())
    }
}

impl Text {
    /// The string's bytes as UTF-8.
    pub fn read(self) -> Outcome<String> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, and the C caller upholds that it is NUL-terminated.
        let s = unsafe { CStr::from_ptr(self.0) };
        s.to_str().map(str::to_string).map_err(|_| Status::INVALID_VALUE)
    }

    /// A string with static lifetime for the caller to keep.
    pub fn of(s: &'static CStr) -> Text {
        Text(s.as_ptr())
    }

    /// The null string.
    pub fn null() -> Text {
        Text(std::ptr::null())
    }

    /// A string whose storage the caller of this function keeps alive.
    pub fn borrowed(s: &CStr) -> Text {
        Text(s.as_ptr())
    }
}

/// Copies `n` bytes from the caller's memory.
pub fn read_host(from: usize, n: usize) -> Outcome<Vec<u8>> {
    let mut v = vec![0u8; n];
    read_host_into(from, &mut v)?;
    Ok(v)
}

/// Fills `to` from the caller's memory.
pub fn read_host_into(from: usize, to: &mut [u8]) -> Outcome {
    if to.is_empty() {
        return Ok(());
    }
    if from == 0 {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, and the C caller upholds that `to.len()` bytes are readable there.
    unsafe { std::ptr::copy(from as *const u8, to.as_mut_ptr(), to.len()) };
    Ok(())
}

/// Copies bytes to the caller's memory.
pub fn write_host(to: usize, bytes: &[u8]) -> Outcome {
    if bytes.is_empty() {
        return Ok(());
    }
    if to == 0 {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, and the C caller upholds that the range is writable; source and target may overlap.
    unsafe { std::ptr::copy(bytes.as_ptr(), to as *mut u8, bytes.len()) };
    Ok(())
}

/// `CUhostFn`.
pub type HostFn = Option<unsafe extern "C" fn(*mut c_void)>;

/// `CUstreamCallback`.
pub type StreamCallback = Option<unsafe extern "C" fn(Handle, i32, *mut c_void)>;

/// `CUoccupancyB2DSize`.
pub type BlockToShared = Option<unsafe extern "C" fn(i32) -> usize>;

/// Calls a host function of the program.
pub fn call_host(f: HostFn, data: usize) {
    if let Some(f) = f {
        // SAFETY: the C caller upholds that the function may be called with the data that it passed along.
        unsafe { f(data as *mut c_void) };
    }
}

/// Calls a stream callback of the program.
pub fn call_callback(f: StreamCallback, stream: Handle, status: i32, data: usize) {
    if let Some(f) = f {
        // SAFETY: the C caller upholds that the function may be called with the data that it passed along.
        unsafe { f(stream, status, data as *mut c_void) };
    }
}

/// Asks the program for the dynamic shared memory of a block size.
pub fn call_block_to_shared(f: BlockToShared, block: i32) -> Option<usize> {
    // SAFETY: the C caller upholds that the function may be called with any block size.
    f.map(|f| unsafe { f(block) })
}
