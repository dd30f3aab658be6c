//! The bytes that a box touches: rows of the innermost dimension, and runs of contiguous bytes.
//!
//! Element `(i0, ..., i4)` of the box lies at tensor coordinate `c_d + i_d * element_stride_d` (dimension 0 has
//! step 1), with `i_d < ceil(box_d / element_stride_d)`. In shared memory the box is dense, innermost first; with a
//! swizzle a row takes the whole span even when the inner box dimension is shorter. Elements with any coordinate
//! outside `[0, dim)` are filled by loads and skipped by stores and reductions.

use super::map::{DataType, OobFill, TensorMap};
use super::swizzle::Swizzle;

/// One row of a box: `bytes` bytes from linear shared address `shared`, of which `valid` bytes from offset `first`
/// are in bounds and lie at global address `global`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Shared address of the row's first byte before the swizzle.
    pub shared: u64,
    /// Bytes of the row.
    pub bytes: u32,
    /// Offset in the row of the first byte in bounds.
    pub first: u32,
    /// Bytes in bounds; 0 when the row is outside.
    pub valid: u32,
    /// Global address of the byte at `first`; meaningless when `valid` is 0.
    pub global: u64,
}

/// Contiguous bytes on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Shared address, swizzled.
    pub shared: u64,
    /// Global address; `None` out of bounds.
    pub global: Option<u64>,
    /// Length, at most 16 with a swizzle.
    pub bytes: u32,
}

impl TensorMap {
    /// Elements of the box in shared memory along each dimension.
    pub fn shared_dims(&self) -> [u32; 5] {
        std::array::from_fn(|i| match i {
            _ if i >= self.rank as usize => 1,
            0 => self.box_dims[0],
            _ => self.box_dims[i].div_ceil(self.element_strides[i].max(1)),
        })
    }

    /// Bytes of one row of the box without padding.
    pub fn row_bytes(&self) -> u32 {
        self.box_dims[0] * self.data_type.bytes()
    }

    /// Distance of two rows in shared memory.
    pub fn row_pitch(&self) -> u32 {
        match self.swizzle {
            Swizzle::None => self.row_bytes(),
            s => s.span(),
        }
    }

    /// Bytes that a copy of the whole box counts on its mbarrier, out-of-bounds elements included.
    pub fn transaction_bytes(&self) -> u32 {
        self.shared_dims()[1..].iter().product::<u32>() * self.row_bytes()
    }

    /// Bytes of shared memory that the box spans, padding included.
    pub fn shared_bytes(&self) -> u32 {
        self.shared_dims()[1..].iter().product::<u32>() * self.row_pitch()
    }

    /// Calls `f` for every row of the box at `coords` (innermost first, `rank` of them; missing ones count as 0)
    /// whose first byte lies at shared address `shared`.
    pub fn for_each_row(&self, coords: &[i32], shared: u64, mut f: impl FnMut(Row)) {
        let size = self.data_type.bytes();
        let at = |d: usize| coords.get(d).copied().unwrap_or(0) as i64;
        let n = self.shared_dims();
        let (bytes, pitch) = (self.row_bytes(), self.row_pitch() as u64);
        // The part of a row in bounds is the same for all rows.
        let low = (-at(0)).clamp(0, self.box_dims[0] as i64);
        let high = (self.dims[0] as i64 - at(0)).clamp(low, self.box_dims[0] as i64);
        let (first, valid) = (low as u32 * size, (high - low) as u32 * size);
        let inner = self.address.wrapping_add(((at(0) + low) * size as i64) as u64);
        let mut row = 0;
        for i4 in 0..n[4] {
            for i3 in 0..n[3] {
                for i2 in 0..n[2] {
                    for i1 in 0..n[1] {
                        let mut global = inner;
                        let mut inside = true;
                        for (d, i) in [(1, i1), (2, i2), (3, i3), (4, i4)] {
                            if d < self.rank as usize {
                                let x = at(d) + i as i64 * self.element_strides[d] as i64;
                                inside &= x >= 0 && x < self.dims[d] as i64;
                                global = global.wrapping_add((x as u64).wrapping_mul(self.strides[d - 1]));
                            }
                        }
                        let valid = if inside { valid } else { 0 };
                        f(Row { shared: shared + row * pitch, bytes, first, valid, global });
                        row += 1;
                    }
                }
            }
        }
    }

    /// Calls `f` for every run of contiguous bytes of the box, in ascending order of linear shared address.
    pub fn for_each_run(&self, coords: &[i32], shared: u64, mut f: impl FnMut(Run)) {
        let chunk = if self.swizzle == Swizzle::None { u32::MAX } else { 16 };
        self.for_each_row(coords, shared, |row| {
            let (lo, hi) = if row.valid == 0 { (row.bytes, row.bytes) } else { (row.first, row.first + row.valid) };
            let mut at = 0;
            while at < row.bytes {
                let mut end = row.bytes;
                for edge in [lo, hi, (at / chunk).saturating_add(1).saturating_mul(chunk)] {
                    if edge > at {
                        end = end.min(edge);
                    }
                }
                let inside = at >= lo && at < hi;
                f(Run {
                    shared: self.swizzle.apply(row.shared + at as u64),
                    global: inside.then(|| row.global + (at - lo) as u64),
                    bytes: end - at,
                });
                at = end;
            }
        });
    }

    /// Pattern of an out-of-bounds element, in the low bytes.
    pub fn fill_pattern(&self) -> u64 {
        match (self.oob_fill, self.data_type) {
            (OobFill::Zero, _) => 0,
            (OobFill::Nan, DataType::F16 | DataType::Bf16) => 0x7fff,
            (OobFill::Nan, DataType::F64) => 0x7fff_ffff_ffff_ffff,
            (OobFill::Nan, _) => 0x7fff_ffff,
        }
    }
}
