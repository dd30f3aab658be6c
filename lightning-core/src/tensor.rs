//! Element types and tensor handles.
//!
//! A [`Tensor`] is a handle: plain data that names a buffer of a program and a two-dimensional window into it. It owns
//! nothing. Where the buffer lies is decided by the planner (`program::placement`); what a handle means on a device is
//! decided by that device.

use core::fmt;

/// Element type of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE binary64; whole programs can run in it for difference tests.
    F64,
    /// IEEE binary32.
    F32,
    /// The upper half of a binary32.
    BF16,
    /// Token ids, offsets, counts and masks.
    I32,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::BF16 => 2,
        }
    }

    /// The type in which an operation on this storage type computes and keeps its statistics: f64 for f64, else f32.
    pub const fn accumulator(self) -> Self {
        match self {
            Self::F64 => Self::F64,
            _ => Self::F32,
        }
    }

    /// Name as users write it (`f64`, `f32`, `bf16`, `i32`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::I32 => "i32",
        }
    }

    /// The floating-point type that a user names; `None` for anything else.
    pub fn parse_float(name: &str) -> Option<Self> {
        match name {
            "f64" | "fp64" | "float64" => Some(Self::F64),
            "f32" | "fp32" | "float32" => Some(Self::F32),
            "bf16" | "bfloat16" => Some(Self::BF16),
            _ => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Index of a buffer in a program's buffer table. Persistent buffers (parameters, optimizer, inputs) come first and have
/// the same index in every program of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A window of `rows` x `cols` elements, `ld` elements from one row to the next, starting `offset` elements into a
/// buffer. Vectors have one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tensor {
    /// Buffer that holds the elements.
    pub buffer: BufferId,
    /// Element type.
    pub dtype: DType,
    /// Elements before the first one.
    pub offset: usize,
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    /// Distance of rows in elements.
    pub ld: usize,
}

impl Tensor {
    /// Number of elements.
    pub const fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Whether there is no element.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the elements (gaps between rows not counted).
    pub const fn bytes(&self) -> usize {
        self.len() * self.dtype.size()
    }

    /// Whether rows follow each other without a gap.
    pub const fn is_contiguous(&self) -> bool {
        self.ld == self.cols || self.rows <= 1
    }

    /// Columns `start .. start + cols` of every row.
    pub fn columns(self, start: usize, cols: usize) -> Self {
        assert!(start + cols <= self.cols, "columns {start}..{} of a tensor with {}", start + cols, self.cols);
        Self { offset: self.offset + start, cols, ..self }
    }

    /// Rows `start .. start + rows`.
    pub fn row_range(self, start: usize, rows: usize) -> Self {
        assert!(start + rows <= self.rows, "rows {start}..{} of a tensor with {}", start + rows, self.rows);
        Self { offset: self.offset + start * self.ld, rows, ..self }
    }

    /// The same elements as `rows` x `cols`; the tensor must be contiguous and hold that many.
    pub fn reshape(self, rows: usize, cols: usize) -> Self {
        assert!(self.is_contiguous() && rows * cols == self.len(), "reshape {self:?} to {rows} x {cols}");
        Self { rows, cols, ld: cols, ..self }
    }

    /// The same elements as one row.
    pub fn flat(self) -> Self {
        self.reshape(1, self.len())
    }

    /// First and one-past-last element that the window touches in its buffer.
    pub fn span(&self) -> (usize, usize) {
        if self.is_empty() {
            return (self.offset, self.offset);
        }
        (self.offset, self.offset + (self.rows - 1) * self.ld + self.cols)
    }

    /// Whether two windows share an element. Windows with equal row distance are compared column by column, so that the
    /// x, B and C columns of one matrix count as disjoint.
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.buffer != other.buffer || self.is_empty() || other.is_empty() {
            return false;
        }
        let ((a0, a1), (b0, b1)) = (self.span(), other.span());
        if a1 <= b0 || b1 <= a0 {
            return false;
        }
        if self.ld == other.ld && self.rows > 1 && other.rows > 1 {
            // Columns are counted from the first column of the window that starts first.
            let (first, second, apart) = if a0 <= b0 { (self, other, b0 - a0) } else { (other, self, a0 - b0) };
            let column = apart % self.ld;
            return column < first.cols || column + second.cols > self.ld;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Philox;

    #[test]
    fn windows_overlap_exactly_when_they_share_an_element() {
        let mut rng = Philox::new(3, 1);
        let mut below = |n: usize| rng.below(n as u64) as usize;
        let mut shared = [0, 0];
        for _ in 0..20_000 {
            let ld = 1 + below(7);
            let mut window = || {
                let (rows, cols) = (below(4), 1 + below(ld));
                Tensor { buffer: BufferId(0), dtype: DType::F32, offset: below(30), rows, cols, ld }
            };
            let (a, b) = (window(), window());
            let elements = |t: &Tensor| -> alloc::collections::BTreeSet<usize> {
                (0..t.rows)
                    .flat_map(|r| (0..t.cols).map(move |c| (r, c)))
                    .map(|(r, c)| t.offset + r * t.ld + c)
                    .collect()
            };
            let share = !elements(&a).is_disjoint(&elements(&b));
            shared[usize::from(share)] += 1;
            // Windows of the same rows of one matrix are told apart; others may count as overlapping.
            if share || (a.rows > 1 && b.rows > 1 && a.offset.abs_diff(b.offset) < ld) {
                assert_eq!(a.overlaps(&b), share, "{a:?} and {b:?}");
            }
            assert_eq!(a.overlaps(&b), b.overlaps(&a));
        }
        assert!(shared.iter().all(|n| *n > 1000), "{shared:?}");
    }
}
