//! The tensor map: its fields, and a 128-byte encoding of our own.
//!
//! The encoding is opaque to programs, as NVIDIA's is. It begins with a magic number and a checksum, so that a map
//! that was never encoded, was copied in part, or was written over is recognised. Little-endian layout:
//!
//! | bytes | field |
//! |-------|-------|
//! | 0..4, 4..8 | magic, FNV-1a of all other bytes |
//! | 8..16 | global address |
//! | 16..56 | five dimensions, elements |
//! | 56..88 | four strides, bytes |
//! | 88..98 | five box dimensions, 16 bits each |
//! | 98..103 | five element strides |
//! | 103..108 | rank, data type, swizzle, L2 promotion, out-of-bounds fill |

use super::swizzle::Swizzle;
use std::fmt;

/// Size of a tensor map.
pub const TENSOR_MAP_BYTES: usize = 128;
/// Alignment of a tensor map.
pub const TENSOR_MAP_ALIGN: usize = 64;
const MAGIC: u32 = 0x5050_414d;

/// Element type of a tensor map, in the order of `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DataType {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F64,
    Bf16,
    F32Ftz,
    Tf32,
    Tf32Ftz,
}

impl DataType {
    /// All types in the driver's order.
    pub const ALL: [DataType; 13] = [
        DataType::U8,
        DataType::U16,
        DataType::U32,
        DataType::S32,
        DataType::U64,
        DataType::S64,
        DataType::F16,
        DataType::F32,
        DataType::F64,
        DataType::Bf16,
        DataType::F32Ftz,
        DataType::Tf32,
        DataType::Tf32Ftz,
    ];

    /// Bytes of one element.
    pub const fn bytes(self) -> u32 {
        match self {
            DataType::U8 => 1,
            DataType::U16 | DataType::F16 | DataType::Bf16 => 2,
            DataType::U64 | DataType::S64 | DataType::F64 => 8,
            _ => 4,
        }
    }

    /// Whether the type is a floating-point type, which may ask for NaN out of bounds.
    pub const fn is_float(self) -> bool {
        !matches!(self, DataType::U8 | DataType::U16 | DataType::U32 | DataType::S32 | DataType::U64 | DataType::S64)
    }

    /// Whether loads flush subnormals to zero.
    pub const fn flushes(self) -> bool {
        matches!(self, DataType::F32Ftz | DataType::Tf32Ftz)
    }
}

/// Granularity of L2 fetches; a hint without effect here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum L2Promotion {
    None,
    B64,
    B128,
    B256,
}

/// What a load puts where the box leaves the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OobFill {
    /// Zeros.
    Zero,
    /// The NaN of all ones below the sign, which `fma.oob` takes for zero.
    Nan,
}

/// A tiled tensor map. Arrays beyond `rank` hold 1 (strides: 0) and are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Address of element (0, ..., 0).
    pub address: u64,
    /// Element type.
    pub data_type: DataType,
    /// Number of dimensions, 1 to 5.
    pub rank: u32,
    /// Tensor size of each dimension in elements, innermost first.
    pub dims: [u64; 5],
    /// Distance of neighbours along dimensions 1 to 4 in bytes.
    pub strides: [u64; 4],
    /// Box size of each dimension in tensor elements.
    pub box_dims: [u32; 5],
    /// Step along each dimension in elements.
    pub element_strides: [u32; 5],
    /// Swizzle in shared memory.
    pub swizzle: Swizzle,
    /// L2 hint.
    pub l2_promotion: L2Promotion,
    /// Fill of out-of-bounds elements.
    pub oob_fill: OobFill,
}

/// 128 bytes are not a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The magic number is missing: the bytes were not made by an encode function, or the address is wrong.
    NotATensorMap {
        /// The first four bytes.
        found: u32,
    },
    /// The magic number is there, but the contents changed since.
    Corrupt {
        /// Checksum stored.
        stored: u32,
        /// Checksum of the bytes.
        computed: u32,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::NotATensorMap { found } => write!(
                f,
                "the 128 bytes are not a tensor map (they begin with {found:#010x}); make it with cuTensorMapEncodeTiled and pass it \
                 as a __grid_constant__ parameter, in constant or in global memory"
            ),
            DecodeError::Corrupt { stored, computed } => write!(
                f,
                "the tensor map was changed after it was made (checksum {stored:#010x}, contents {computed:#010x}); copy all 128 bytes, \
                 and change fields only with tensormap.replace or cuTensorMapReplaceAddress"
            ),
        }
    }
}

impl std::error::Error for DecodeError {}

impl TensorMap {
    /// Encodes the fields as they are, without validation.
    pub fn to_bytes(&self) -> [u8; TENSOR_MAP_BYTES] {
        let mut b = [0u8; TENSOR_MAP_BYTES];
        b[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        b[8..16].copy_from_slice(&self.address.to_le_bytes());
        for i in 0..5 {
            b[16 + 8 * i..24 + 8 * i].copy_from_slice(&self.dims[i].to_le_bytes());
            b[88 + 2 * i..90 + 2 * i].copy_from_slice(&(self.box_dims[i].min(0xffff) as u16).to_le_bytes());
            b[98 + i] = self.element_strides[i].min(255) as u8;
        }
        for i in 0..4 {
            b[56 + 8 * i..64 + 8 * i].copy_from_slice(&self.strides[i].to_le_bytes());
        }
        b[103] = self.rank as u8;
        b[104] = self.data_type as u8;
        b[105] = self.swizzle as u8;
        b[106] = self.l2_promotion as u8;
        b[107] = self.oob_fill as u8;
        let sum = checksum(&b);
        b[4..8].copy_from_slice(&sum.to_le_bytes());
        b
    }

    /// Decodes a map.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes were not made by [`TensorMap::to_bytes`]. The fields may still be ones that no
    /// copy accepts; see [`TensorMap::validate`].
    pub fn from_bytes(b: &[u8; TENSOR_MAP_BYTES]) -> Result<TensorMap, DecodeError> {
        let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let u64_at = |i: usize| u32_at(i) as u64 | (u32_at(i + 4) as u64) << 32;
        if u32_at(0) != MAGIC {
            return Err(DecodeError::NotATensorMap { found: u32_at(0) });
        }
        let (stored, computed) = (u32_at(4), checksum(b));
        let corrupt = DecodeError::Corrupt { stored, computed };
        if stored != computed {
            return Err(corrupt);
        }
        let pick = |i: usize, n: usize| {
            if (b[i] as usize) < n { Ok(b[i] as usize) } else { Err(corrupt) }
        };
        Ok(TensorMap {
            address: u64_at(8),
            data_type: DataType::ALL[pick(104, 13)?],
            rank: b[103] as u32,
            dims: std::array::from_fn(|i| u64_at(16 + 8 * i)),
            strides: std::array::from_fn(|i| u64_at(56 + 8 * i)),
            box_dims: std::array::from_fn(|i| u16::from_le_bytes([b[88 + 2 * i], b[89 + 2 * i]]) as u32),
            element_strides: std::array::from_fn(|i| b[98 + i] as u32),
            swizzle: Swizzle::ALL[pick(105, 4)?],
            l2_promotion: [L2Promotion::None, L2Promotion::B64, L2Promotion::B128, L2Promotion::B256][pick(106, 4)?],
            oob_fill: [OobFill::Zero, OobFill::Nan][pick(107, 2)?],
        })
    }
}

/// FNV-1a over everything but the checksum itself.
fn checksum(b: &[u8; TENSOR_MAP_BYTES]) -> u32 {
    let mut h = 0x811c_9dc5u32;
    for (i, &x) in b.iter().enumerate() {
        if !(4..8).contains(&i) {
            h = (h ^ x as u32).wrapping_mul(0x0100_0193);
        }
    }
    h
}
