//! Tensor maps: what bulk tensor copies (TMA) of a kernel need to know of a matrix.

use super::driver::Doing;
use crate::error::CoreError;
use alloc::format;
use cudarc::driver::sys;
use kernels_sys::LightningTensorMap;

/// Bytes to which a matrix and its rows must be aligned for a tensor map.
pub(super) const TENSOR_MAP_ALIGNMENT: u64 = 16;

/// A row-major bf16 matrix of `outer` rows and `inner` columns in device memory, `ld` elements from row to row.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatrixMap {
    pub address: u64,
    pub inner: usize,
    pub outer: usize,
    pub ld: usize,
}

impl MatrixMap {
    /// Whether bulk tensor copies can read it: something is there, it starts and its rows step by whole 16 bytes, the
    /// distance is below 2^40 bytes, and coordinates are 32-bit.
    pub fn is_possible(&self) -> bool {
        let lengths = [self.inner, self.outer];
        let step = self.row_bytes();
        lengths.iter().all(|l| *l > 0 && i32::try_from(*l).is_ok())
            && self.address % TENSOR_MAP_ALIGNMENT == 0
            && step % TENSOR_MAP_ALIGNMENT == 0
            && step < 1 << 40
    }

    /// Distance of rows in bytes; of a single row, any that is allowed.
    fn row_bytes(&self) -> u64 {
        let bytes = 2 * self.ld as u64;
        if self.outer == 1 { (2 * self.inner as u64).next_multiple_of(TENSOR_MAP_ALIGNMENT) } else { bytes }
    }

    /// The map for copies of 64 columns (128 bytes, swizzled over 128 bytes) and `box_rows` rows; what lies beyond the
    /// matrix reads as zeros.
    ///
    /// # Errors
    /// `Device` when the driver refuses it.
    pub fn encode(&self, box_rows: usize) -> Result<LightningTensorMap, CoreError> {
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        let (dims, strides) = ([self.inner as u64, self.outer as u64], [self.row_bytes()]);
        let (boxes, steps) = ([64, box_rows as u32], [1, 1]);
        // SAFETY: the arrays have as many elements as the rank (strides one less); the driver reads them and writes the
        // map, and does not follow the address.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                2,
                self.address as *mut core::ffi::c_void,
                dims.as_ptr(),
                strides.as_ptr(),
                boxes.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        }
        .result()
        .doing(|| format!("encoding a tensor map of {self:?} with boxes of 64 x {box_rows}"))?;
        Ok(LightningTensorMap { opaque: map.opaque })
    }
}

#[cfg(test)]
mod tests {
    use super::MatrixMap;

    #[test]
    fn alignment_decides() {
        let good = MatrixMap { address: 1 << 20, inner: 64, outer: 3, ld: 72 };
        assert!(good.is_possible());
        for bad in [
            MatrixMap { address: good.address + 2, ..good },
            MatrixMap { address: good.address + 8, ..good },
            MatrixMap { ld: 68, ..good },
            MatrixMap { inner: 0, ..good },
            MatrixMap { outer: 0, ..good },
            MatrixMap { outer: 1 << 31, ..good },
            MatrixMap { ld: 1 << 39, ..good },
        ] {
            assert!(!bad.is_possible(), "{bad:?}");
        }
        // A single row steps nowhere.
        assert!(MatrixMap { outer: 1, ld: 67, inner: 67, ..good }.is_possible());
    }
}
