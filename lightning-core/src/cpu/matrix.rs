//! Borrowed matrices: what a tensor handle becomes inside a CPU kernel.

use crate::element::{Element, Real};
use core::marker::PhantomData;
use core::ops::Range;

/// A readable window of a buffer.
#[derive(Clone, Copy)]
pub struct Mat<'a, T> {
    ptr: *const T,
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    ld: usize,
    life: PhantomData<&'a [T]>,
}

// SAFETY: a `Mat` is a shared borrow of plain data.
unsafe impl<T: Sync> Send for Mat<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mat<'_, T> {}

impl<'a, T> Mat<'a, T> {
    /// # Safety
    /// `rows` x `cols` elements at distance `ld` from `ptr` must be readable, and not written, for `'a`.
    pub(crate) unsafe fn from_raw(ptr: *const T, rows: usize, cols: usize, ld: usize) -> Self {
        Self { ptr, rows, cols, ld, life: PhantomData }
    }

    /// A matrix over a slice of contiguous rows.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols, "slice does not hold {rows} x {cols} elements");
        Self { ptr: data.as_ptr(), rows, cols, ld: cols, life: PhantomData }
    }

    /// Row `i`.
    #[inline(always)]
    pub fn row(&self, i: usize) -> &'a [T] {
        assert!(i < self.rows);
        // SAFETY: row `i` lies inside the window that `from_raw` or `new` vouched for.
        unsafe { core::slice::from_raw_parts(self.ptr.add(i * self.ld), self.cols) }
    }

    /// The rows of `range`.
    pub fn row_range(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.rows);
        // SAFETY: the start stays inside (or one past) the window.
        let ptr = unsafe { self.ptr.add(range.start * self.ld) };
        Self { ptr, rows: range.len(), ..*self }
    }

    /// The columns of `range`.
    pub fn col_range(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.cols);
        // SAFETY: the start stays inside (or one past) the first row.
        let ptr = unsafe { self.ptr.add(range.start) };
        Self { ptr, cols: range.len(), ..*self }
    }

    /// All elements of a contiguous matrix.
    pub fn as_slice(&self) -> &'a [T] {
        assert!(self.ld == self.cols || self.rows <= 1, "matrix has gaps between rows");
        // SAFETY: contiguous rows of a readable window.
        unsafe { core::slice::from_raw_parts(self.ptr, self.rows * self.cols) }
    }

    /// Pointer and strides (row, column) for a GEMM.
    pub(crate) fn raw(&self) -> (*const T, isize, isize) {
        (self.ptr, self.ld as isize, 1)
    }

    /// As [`Mat::raw`], transposed.
    pub(crate) fn raw_t(&self) -> (*const T, isize, isize) {
        (self.ptr, 1, self.ld as isize)
    }
}

impl<'a, T: Element> Mat<'a, T> {
    /// The same matrix under another name of its element type; used where a generic kernel has compared the types.
    #[inline(always)]
    pub fn cast<B: Element>(self) -> Mat<'a, B> {
        assert_eq!(T::DTYPE, B::DTYPE, "cast between element types");
        Mat { ptr: self.ptr.cast(), rows: self.rows, cols: self.cols, ld: self.ld, life: PhantomData }
    }
}

impl<'a, T: Element> MatMut<'a, T> {
    /// As [`Mat::cast`].
    #[inline(always)]
    pub fn cast<B: Element>(self) -> MatMut<'a, B> {
        assert_eq!(T::DTYPE, B::DTYPE, "cast between element types");
        MatMut { ptr: self.ptr.cast(), rows: self.rows, cols: self.cols, ld: self.ld, life: PhantomData }
    }
}

/// A writable window of a buffer.
pub struct MatMut<'a, T> {
    ptr: *mut T,
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    ld: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: a `MatMut` is an exclusive borrow of plain data.
unsafe impl<T: Send> Send for MatMut<'_, T> {}
// SAFETY: a shared reference to it gives only shared access.
unsafe impl<T: Send + Sync> Sync for MatMut<'_, T> {}

impl<'a, T> MatMut<'a, T> {
    /// # Safety
    /// `rows` x `cols` elements at distance `ld` from `ptr` must be writable, and reached through nothing else, for `'a`.
    pub(crate) unsafe fn from_raw(ptr: *mut T, rows: usize, cols: usize, ld: usize) -> Self {
        Self { ptr, rows, cols, ld, life: PhantomData }
    }

    /// A matrix over a slice of contiguous rows.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols, "slice does not hold {rows} x {cols} elements");
        Self { ptr: data.as_mut_ptr(), rows, cols, ld: cols, life: PhantomData }
    }

    /// Row `i`.
    #[inline(always)]
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows);
        // SAFETY: row `i` lies inside the exclusive window.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.add(i * self.ld), self.cols) }
    }

    /// All elements of a contiguous matrix.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        assert!(self.ld == self.cols || self.rows <= 1, "matrix has gaps between rows");
        // SAFETY: contiguous rows of an exclusive window.
        unsafe { core::slice::from_raw_parts_mut(self.ptr, self.rows * self.cols) }
    }

    /// Read access for as long as `self` is not written.
    pub fn as_mat(&self) -> Mat<'_, T> {
        Mat { ptr: self.ptr, rows: self.rows, cols: self.cols, ld: self.ld, life: PhantomData }
    }

    /// A contiguous matrix as one element per row, to be cut by element ranges.
    pub fn into_column(self) -> Self {
        assert!(self.ld == self.cols || self.rows <= 1, "matrix has gaps between rows");
        Self { rows: self.rows * self.cols, cols: 1, ld: 1, ..self }
    }

    /// The same window for a shorter time.
    pub fn reborrow(&mut self) -> MatMut<'_, T> {
        MatMut { ptr: self.ptr, rows: self.rows, cols: self.cols, ld: self.ld, life: PhantomData }
    }

    /// The rows of `range`.
    pub fn row_range(&mut self, range: Range<usize>) -> MatMut<'_, T> {
        assert!(range.start <= range.end && range.end <= self.rows);
        // SAFETY: the start stays inside (or one past) the window.
        let ptr = unsafe { self.ptr.add(range.start * self.ld) };
        MatMut { ptr, rows: range.len(), cols: self.cols, ld: self.ld, life: PhantomData }
    }

    /// The columns of `range`.
    pub fn col_range(&mut self, range: Range<usize>) -> MatMut<'_, T> {
        assert!(range.start <= range.end && range.end <= self.cols);
        // SAFETY: the start stays inside (or one past) the first row.
        let ptr = unsafe { self.ptr.add(range.start) };
        MatMut { ptr, rows: self.rows, cols: range.len(), ld: self.ld, life: PhantomData }
    }

    /// The first `at` rows and the rest.
    pub fn split_rows(&mut self, at: usize) -> (MatMut<'_, T>, MatMut<'_, T>) {
        assert!(at <= self.rows);
        // SAFETY: the start of the second half stays inside (or one past) the window; the halves share no row.
        let ptr = unsafe { self.ptr.add(at * self.ld) };
        let tail = MatMut { ptr, rows: self.rows - at, cols: self.cols, ld: self.ld, life: PhantomData };
        (MatMut { ptr: self.ptr, rows: at, cols: self.cols, ld: self.ld, life: PhantomData }, tail)
    }

    /// Pointer and strides (row, column) for a GEMM.
    pub(crate) fn raw_mut(&mut self) -> (*mut T, isize, isize) {
        (self.ptr, self.ld as isize, 1)
    }
}

/// Something that can be cut into disjoint tiles: row ranges, and equal parts of the columns.
pub trait Tile: Send + Sync {
    /// Rows `rows` and column part `part` of `parts`.
    ///
    /// # Safety
    /// No two live tiles of one owner may share both a row and a column part.
    unsafe fn tile(&self, rows: Range<usize>, part: usize, parts: usize) -> Self;
}

impl<T: Send + Sync> Tile for MatMut<'_, T> {
    unsafe fn tile(&self, rows: Range<usize>, part: usize, parts: usize) -> Self {
        assert!(rows.end <= self.rows && part < parts && self.cols % parts == 0);
        let cols = self.cols / parts;
        // SAFETY: rows and columns lie inside the window; disjointness is the caller's promise.
        unsafe { Self::from_raw(self.ptr.add(rows.start * self.ld + part * cols), rows.len(), cols, self.ld) }
    }
}

impl<X: Tile> Tile for Option<X> {
    unsafe fn tile(&self, rows: Range<usize>, part: usize, parts: usize) -> Self {
        // SAFETY: passed on.
        self.as_ref().map(|x| unsafe { x.tile(rows, part, parts) })
    }
}

impl Tile for () {
    unsafe fn tile(&self, _: Range<usize>, _: usize, _: usize) {}
}

macro_rules! tile_tuple {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Tile),+> Tile for ($($name,)+) {
            unsafe fn tile(&self, rows: Range<usize>, part: usize, parts: usize) -> Self {
                // SAFETY: passed on.
                unsafe { ($(self.$index.tile(rows.clone(), part, parts),)+) }
            }
        }
    };
}
tile_tuple!(A 0, B 1);
tile_tuple!(A 0, B 1, C 2);
tile_tuple!(A 0, B 1, C 2, D 3);
tile_tuple!(A 0, B 1, C 2, D 3, E 4);

/// Which operand of a product is read transposed. Weights are stored (out, in), so a projection is `NT`, its input
/// gradient `NN` and its weight gradient `TN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// C = A B^T.
    NT,
    /// C = A B.
    NN,
    /// C = A^T B.
    TN,
}

impl Form {
    /// (m, n, k) of a product of `a` and `b`.
    pub fn sizes<T, U>(self, a: &Mat<'_, T>, b: &Mat<'_, U>) -> (usize, usize, usize) {
        let (m, n, k, kb) = match self {
            Self::NT => (a.rows, b.rows, a.cols, b.cols),
            Self::NN => (a.rows, b.cols, a.cols, b.rows),
            Self::TN => (a.cols, b.cols, a.rows, b.rows),
        };
        assert_eq!(k, kb, "inner sizes of a {self:?} product differ");
        (m, n, k)
    }
}

/// Single-threaded `c = alpha * product(a, b) + beta * c`. With an inner size of 0 it only scales `c`.
pub fn gemm<R: Real>(form: Form, alpha: R, a: Mat<'_, R>, b: Mat<'_, R>, beta: R, c: &mut MatMut<'_, R>) {
    let (m, n, k) = form.sizes(&a, &b);
    assert!(c.rows == m && c.cols == n, "product is {m} x {n}, output is {} x {}", c.rows, c.cols);
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        for i in 0..m {
            for v in c.row_mut(i) {
                *v = if beta == R::ZERO { R::ZERO } else { *v * beta };
            }
        }
        return;
    }
    let (a, b) = match form {
        Form::NT => (a.raw(), b.raw_t()),
        Form::NN => (a.raw(), b.raw()),
        Form::TN => (a.raw_t(), b.raw()),
    };
    // SAFETY: sizes were checked above; `a` and `b` are shared borrows and `c` an exclusive one, hence disjoint.
    unsafe { R::gemm(m, k, n, alpha, a, b, beta, c.raw_mut()) }
}

/// Copies a window to contiguous rows in the arithmetic type.
pub fn widen_matrix<A: Element>(src: Mat<'_, A>, dst: &mut [A::Acc]) {
    assert_eq!(dst.len(), src.rows * src.cols);
    for i in 0..src.rows {
        super::simd::widen(src.row(i), &mut dst[i * src.cols..(i + 1) * src.cols]);
    }
}

/// A matrix whose columns are cut but whose rows all belong to every piece of the (single) row block: sums over rows.
pub struct Columns<'a, T>(pub MatMut<'a, T>);

impl<T: Send + Sync> Tile for Columns<'_, T> {
    unsafe fn tile(&self, rows: Range<usize>, part: usize, parts: usize) -> Self {
        assert_eq!(rows.start, 0, "column sums need a single row block");
        // SAFETY: with a single row block, pieces differ in their column part.
        Self(unsafe { self.0.tile(0..self.0.rows, part, parts) })
    }
}

/// A matrix with a fixed number of rows per row block of the grid: partial sums over the rows of a block, or its states.
pub struct PerBlock<'a, T> {
    /// The rows of all blocks, one block after the other.
    pub mat: MatMut<'a, T>,
    block: usize,
    rows: usize,
}

impl<'a, T> PerBlock<'a, T> {
    /// `rows` rows of `mat` for each block of `block` rows of the grid.
    pub fn new(mat: MatMut<'a, T>, block: usize, rows: usize) -> Self {
        Self { mat, block, rows }
    }
}

impl<T: Send + Sync> Tile for PerBlock<'_, T> {
    unsafe fn tile(&self, rows: Range<usize>, part: usize, parts: usize) -> Self {
        assert!(rows.start % self.block == 0 && rows.len() <= self.block, "not the grid's block");
        let first = rows.start / self.block * self.rows;
        // SAFETY: distinct blocks have distinct rows here, equal blocks distinct column parts.
        let mat = unsafe { self.mat.tile(first..first + self.rows, part, parts) };
        Self { mat, block: self.block, rows: self.rows }
    }
}

/// The largest divisor of `cols` that leaves at least `width` columns in each part (1 for narrower matrices).
pub fn column_parts(cols: usize, width: usize) -> usize {
    (1..=(cols / width.max(1)).max(1)).rev().find(|p| cols % p == 0).unwrap_or(1)
}
