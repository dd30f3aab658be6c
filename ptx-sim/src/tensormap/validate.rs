//! What `cuTensorMapEncodeTiled` accepts: every rule that the CUDA driver API 13.0 documents for compute
//! capability 9.0. `tensormap.replace` can make a map that breaks them, so copies check again.

use super::map::{DataType, OobFill, TensorMap};
use super::swizzle::Swizzle;
use std::fmt;

/// A field of a tensor map that the device would not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The rank is not 1 to 5.
    Rank {
        /// Value given.
        rank: u32,
    },
    /// The global address is not a multiple of 16.
    Address {
        /// Value given.
        address: u64,
    },
    /// A dimension is zero or above 2^32.
    Dim {
        /// Which dimension.
        index: usize,
        /// Value given.
        value: u64,
    },
    /// A stride is not a multiple of 16, or not below 2^40.
    Stride {
        /// Which stride; stride `i` belongs to dimension `i + 1`.
        index: usize,
        /// Value given in bytes.
        value: u64,
    },
    /// A box dimension is zero or above 256.
    BoxDim {
        /// Which dimension.
        index: usize,
        /// Value given.
        value: u32,
    },
    /// The inner box dimension is not a multiple of 16 bytes.
    InnerBox {
        /// Its size in bytes.
        bytes: u32,
    },
    /// The inner box dimension exceeds the swizzle span.
    SwizzleSpan {
        /// Size of the inner box dimension in bytes.
        bytes: u32,
        /// Mode asked for.
        swizzle: Swizzle,
    },
    /// An element stride is zero or above 8.
    ElementStride {
        /// Which dimension.
        index: usize,
        /// Value given.
        value: u32,
    },
    /// NaN fill with an integer type.
    FillNeedsFloat {
        /// Type given.
        data_type: DataType,
    },
    /// A value that is in no enumeration, or that devices of compute capability 9.0 do not have.
    Unsupported {
        /// Parameter name.
        parameter: &'static str,
        /// Value given.
        value: u32,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::Rank { rank } => write!(f, "tensorRank is {rank}; use 1 to 5"),
            EncodeError::Address { address } => {
                write!(f, "globalAddress {address:#x} is not a multiple of 16; align the tensor")
            }
            EncodeError::Dim { index, value } => {
                write!(f, "globalDim[{index}] is {value}; use 1 to 2^32")
            }
            EncodeError::Stride { index, value } => {
                write!(
                    f,
                    "globalStrides[{index}] is {value} bytes; it must be a multiple of 16 below 2^40, so pad the rows"
                )
            }
            EncodeError::BoxDim { index, value } => {
                write!(f, "boxDim[{index}] is {value}; use 1 to 256")
            }
            EncodeError::InnerBox { bytes } => {
                write!(f, "boxDim[0] is {bytes} bytes; it must be a multiple of 16 bytes")
            }
            EncodeError::SwizzleSpan { bytes, swizzle } => write!(
                f,
                "boxDim[0] is {bytes} bytes but the swizzle spans {}; shrink the box or take a wider swizzle",
                swizzle.span()
            ),
            EncodeError::ElementStride { index, value } => {
                write!(f, "elementStrides[{index}] is {value}; use 1 to 8")
            }
            EncodeError::FillNeedsFloat { data_type } => {
                write!(f, "NaN fill was asked for {data_type:?} elements; use zero fill or a floating-point type")
            }
            EncodeError::Unsupported { parameter, value } => {
                write!(
                    f,
                    "{parameter} = {value} is not available on this device; use interleave none, swizzle none/32/64/128 and whole-byte types"
                )
            }
        }
    }
}

impl std::error::Error for EncodeError {}

impl TensorMap {
    /// Checks every field.
    ///
    /// # Errors
    /// The first [`EncodeError`] in the order of `cuTensorMapEncodeTiled`'s parameters.
    pub fn validate(&self) -> Result<(), EncodeError> {
        if !(1..=5).contains(&self.rank) {
            return Err(EncodeError::Rank { rank: self.rank });
        }
        let rank = self.rank as usize;
        if !self.address.is_multiple_of(16) {
            return Err(EncodeError::Address { address: self.address });
        }
        for (index, &value) in self.dims[..rank].iter().enumerate() {
            if value == 0 || value > 1 << 32 {
                return Err(EncodeError::Dim { index, value });
            }
        }
        for (index, &value) in self.strides[..rank - 1].iter().enumerate() {
            if !value.is_multiple_of(16) || value >= 1 << 40 {
                return Err(EncodeError::Stride { index, value });
            }
        }
        for (index, &value) in self.box_dims[..rank].iter().enumerate() {
            if value == 0 || value > 256 {
                return Err(EncodeError::BoxDim { index, value });
            }
        }
        for (index, &value) in self.element_strides[..rank].iter().enumerate() {
            if value == 0 || value > 8 {
                return Err(EncodeError::ElementStride { index, value });
            }
        }
        let bytes = self.box_dims[0] * self.data_type.bytes();
        if !bytes.is_multiple_of(16) {
            return Err(EncodeError::InnerBox { bytes });
        }
        if self.swizzle != Swizzle::None && bytes > self.swizzle.span() {
            return Err(EncodeError::SwizzleSpan { bytes, swizzle: self.swizzle });
        }
        if self.oob_fill == OobFill::Nan && !self.data_type.is_float() {
            return Err(EncodeError::FillNeedsFloat { data_type: self.data_type });
        }
        Ok(())
    }
}
