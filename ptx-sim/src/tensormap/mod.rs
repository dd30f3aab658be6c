//! Tensor maps (TMA descriptors), shared-memory swizzles and `wgmma` matrix descriptors.
//!
//! * [`swizzle`]: the address permutations that tensor copies and matrix operands share.
//! * [`map`]: the 128-byte opaque object: fields, encoding, decoding.
//! * [`validate`]: what `cuTensorMapEncodeTiled` accepts.
//! * [`replace`]: `tensormap.replace`, field by field.
//! * [`rows`]: the bytes that a box at given coordinates touches, in global and in shared memory.
//! * [`descriptor`]: matrix descriptors and the addresses of operand elements.

pub mod descriptor;
pub mod map;
pub mod replace;
pub mod rows;
pub mod swizzle;
pub mod validate;

pub use descriptor::{DescriptorError, Major, MatrixDescriptor};
pub use map::{DataType, DecodeError, L2Promotion, OobFill, TENSOR_MAP_BYTES, TensorMap};
pub use replace::{Field, ReplaceError};
pub use rows::{Row, Run};
pub use swizzle::Swizzle;
pub use validate::EncodeError;
