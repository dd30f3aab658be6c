//! `tensormap.replace`: one field of a map in memory gets a new value (PTX ISA 9.0).

use super::map::{DataType, OobFill, TensorMap};
use super::swizzle::Swizzle;
use std::fmt;

/// Field qualifiers of `tensormap.replace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `.global_address`
    GlobalAddress,
    /// `.rank`: the new value is one less than the rank.
    Rank,
    /// `.box_dim` of a dimension
    BoxDim,
    /// `.global_dim` of a dimension
    GlobalDim,
    /// `.global_stride`, in bytes; ordinal `i` belongs to dimension `i + 1`
    GlobalStride,
    /// `.element_stride` of a dimension
    ElementStride,
    /// `.elemtype`
    ElemType,
    /// `.interleave_layout`
    InterleaveLayout,
    /// `.swizzle_mode`
    SwizzleMode,
    /// `.swizzle_atomicity`
    SwizzleAtomicity,
    /// `.fill_mode`
    FillMode,
}

/// The field cannot take the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaceError {
    /// Field.
    pub field: Field,
    /// Ordinal, 0 where the field has none.
    pub ordinal: u32,
    /// Value asked for.
    pub value: u64,
}

impl fmt::Display for ReplaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tensormap.replace cannot set {:?}[{}] to {}; see the table of values in the PTX ISA, without the ones for newer devices",
            self.field, self.ordinal, self.value
        )
    }
}

impl std::error::Error for ReplaceError {}

/// Element types in the order of PTX, which differs from the driver's.
const PTX_TYPES: [DataType; 13] = [
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::S32,
    DataType::U64,
    DataType::S64,
    DataType::F16,
    DataType::F32,
    DataType::F32Ftz,
    DataType::F64,
    DataType::Bf16,
    DataType::Tf32,
    DataType::Tf32Ftz,
];

impl TensorMap {
    /// Replaces a field. The whole map is checked when it is used, since fields are replaced one by one.
    ///
    /// # Errors
    /// A [`ReplaceError`] when the ordinal or the value is outside the field's own range.
    pub fn replace(&mut self, field: Field, ordinal: u32, value: u64) -> Result<(), ReplaceError> {
        let error = ReplaceError { field, ordinal, value };
        let i = ordinal as usize;
        match field {
            Field::GlobalAddress => self.address = value,
            Field::Rank if value < 5 => self.rank = value as u32 + 1,
            Field::BoxDim if i < 5 && value <= 256 => self.box_dims[i] = value as u32,
            // A 32-bit field: zero stands for 2^32.
            Field::GlobalDim if i < 5 => self.dims[i] = if value as u32 == 0 { 1 << 32 } else { value as u32 as u64 },
            Field::GlobalStride if i < 4 => self.strides[i] = value,
            Field::ElementStride if i < 5 && value <= 8 => self.element_strides[i] = value as u32,
            Field::ElemType if value < 13 => self.data_type = PTX_TYPES[value as usize],
            Field::InterleaveLayout | Field::SwizzleAtomicity if value == 0 => {}
            Field::SwizzleMode if value < 4 => self.swizzle = Swizzle::ALL[value as usize],
            Field::FillMode if value < 2 => self.oob_fill = [OobFill::Zero, OobFill::Nan][value as usize],
            _ => return Err(error),
        }
        Ok(())
    }
}
