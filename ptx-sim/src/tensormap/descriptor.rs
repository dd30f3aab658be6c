//! Matrix descriptors of `wgmma` and the shared addresses of operand elements (PTX ISA 9.0, "Matrix descriptor"
//! and "Strides" of the asynchronous warpgroup instructions).
//!
//! | bits | field |
//! |------|-------|
//! | 0..14 | start address / 16 |
//! | 16..30 | leading-dimension byte offset (LBO) / 16 |
//! | 32..46 | stride-dimension byte offset (SBO) / 16 |
//! | 49..52 | base offset |
//! | 62..64 | swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes |
//!
//! Operands are made of core matrices of 8 rows of 16 bytes. With `W` the swizzle span in bytes:
//!
//! | major | swizzle | address of 16-byte chunk |
//! |-------|---------|--------------------------|
//! | K  | none | `mn/8 * SBO + mn%8 * 16 + c * LBO` for chunk `c` along K |
//! | K  | W    | `mn/8 * SBO + mn%8 * W + c * 16` |
//! | MN | none | `c * SBO + k%8 * 16 + k/8 * LBO` for chunk `c` along M or N |
//! | MN | W    | `c/(W/16) * LBO + c%(W/16) * 16 + k%8 * W + k/8 * SBO` |

use super::swizzle::Swizzle;
use std::fmt;

/// Which dimension of an operand is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// K: the reduction dimension.
    K,
    /// M of the first operand, N of the second.
    Mn,
}

/// A decoded matrix descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixDescriptor {
    /// Shared address of the operand in bytes.
    pub start: u32,
    /// Leading-dimension byte offset.
    pub leading: u32,
    /// Stride-dimension byte offset.
    pub stride: u32,
    /// Number of 128-byte rows by which the swizzle pattern is displaced.
    pub base_offset: u32,
    /// Swizzle mode.
    pub swizzle: Swizzle,
}

/// A descriptor that the hardware does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorError {
    /// Bits outside every field are set.
    ReservedBits {
        /// The descriptor.
        bits: u64,
        /// The offending ones.
        reserved: u64,
    },
    /// A base offset without a swizzle pattern.
    BaseOffset {
        /// The descriptor.
        bits: u64,
    },
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DescriptorError::ReservedBits { bits, reserved } => write!(
                f,
                "matrix descriptor {bits:#018x} has reserved bits {reserved:#x} set; mask addresses with 0x3ffff before the shift by 4"
            ),
            DescriptorError::BaseOffset { bits } => {
                write!(f, "matrix descriptor {bits:#018x} has a base offset but no swizzle; clear bits 49 to 51")
            }
        }
    }
}

impl std::error::Error for DescriptorError {}

const FIELD: u64 = 0x3fff;

impl MatrixDescriptor {
    /// Decodes a descriptor.
    ///
    /// # Errors
    /// [`DescriptorError`] for reserved bits or a meaningless base offset.
    pub fn decode(bits: u64) -> Result<MatrixDescriptor, DescriptorError> {
        let reserved = bits & !(FIELD | FIELD << 16 | FIELD << 32 | 7 << 49 | 3 << 62);
        if reserved != 0 {
            return Err(DescriptorError::ReservedBits { bits, reserved });
        }
        let swizzle = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32][(bits >> 62) as usize];
        let base_offset = (bits >> 49 & 7) as u32;
        if base_offset != 0 && swizzle == Swizzle::None {
            return Err(DescriptorError::BaseOffset { bits });
        }
        Ok(MatrixDescriptor {
            start: ((bits & FIELD) << 4) as u32,
            leading: ((bits >> 16 & FIELD) << 4) as u32,
            stride: ((bits >> 32 & FIELD) << 4) as u32,
            base_offset,
            swizzle,
        })
    }

    /// The descriptor's bits. Addresses and offsets are cut to 18 bits and to multiples of 16.
    pub fn encode(&self) -> u64 {
        let mode = match self.swizzle {
            Swizzle::None => 0u64,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        };
        let field = |v: u32| (v as u64 >> 4) & FIELD;
        field(self.start)
            | field(self.leading) << 16
            | field(self.stride) << 32
            | (self.base_offset as u64 & 7) << 49
            | mode << 62
    }

    /// Shared address of chunk `c` (16 bytes along K) of row `mn` of a K-major operand.
    #[inline(always)]
    pub fn k_major_chunk(&self, mn: u32, c: u32) -> u32 {
        let row = (mn / 8).wrapping_mul(self.stride);
        let linear = match self.swizzle {
            Swizzle::None => row.wrapping_add(mn % 8 * 16).wrapping_add(c.wrapping_mul(self.leading)),
            s => row.wrapping_add(mn % 8 * s.span() + c * 16),
        };
        self.place(linear)
    }

    /// Shared address of chunk `c` (16 bytes along M or N) at reduction index `k` of an MN-major operand.
    #[inline(always)]
    pub fn mn_major_chunk(&self, c: u32, k: u32) -> u32 {
        let linear = match self.swizzle {
            Swizzle::None => {
                c.wrapping_mul(self.stride).wrapping_add(k % 8 * 16).wrapping_add((k / 8).wrapping_mul(self.leading))
            }
            s => {
                let per_span = s.span() / 16;
                (c / per_span)
                    .wrapping_mul(self.leading)
                    .wrapping_add(c % per_span * 16 + k % 8 * s.span())
                    .wrapping_add((k / 8).wrapping_mul(self.stride))
            }
        };
        self.place(linear)
    }

    /// Shared address of the element at row or column `mn` and reduction index `k`, of `bytes` bytes.
    pub fn element(&self, major: Major, bytes: u32, mn: u32, k: u32) -> u32 {
        let per_chunk = 16 / bytes;
        match major {
            Major::K => self.k_major_chunk(mn, k / per_chunk) + k % per_chunk * bytes,
            Major::Mn => self.mn_major_chunk(mn / per_chunk, k) + mn % per_chunk * bytes,
        }
    }

    #[inline(always)]
    fn place(&self, linear: u32) -> u32 {
        self.swizzle.apply_from(self.start.wrapping_add(linear) as u64, self.base_offset) as u32
    }
}
