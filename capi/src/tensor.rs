//! Tensors of an engine, and how they become operands.

use crate::error::failed;
use lightning_core::CoreError;
use lightning_core::program::Persistent;
use lightning_core::tensor::{DType, Tensor};

/// Element type of a tensor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LightningDtype {
    /// The tensor is not there.
    Absent = 0,
    /// bfloat16.
    Bf16 = 1,
    /// IEEE binary32.
    F32 = 2,
    /// IEEE binary64.
    F64 = 3,
    /// 32-bit integer.
    I32 = 4,
}

/// A window of device memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningTensor {
    /// Device address of the first element.
    pub address: u64,
    /// Rows; 1 for a vector.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    /// Elements from one row to the next, at least `cols`.
    pub ld: usize,
    /// Element type.
    pub dtype: LightningDtype,
}

/// Device memory that an operation may use while it runs.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningWorkspace {
    /// Device address, a multiple of 256; 0 asks for the size.
    pub address: u64,
    /// Bytes; the answer when `address` is 0.
    pub bytes: usize,
}

/// The tensors of one call.
#[derive(Default)]
pub(crate) struct Operands {
    pub table: Persistent,
}

impl Operands {
    /// A tensor that must be there.
    pub fn tensor(&mut self, name: &str, tensor: LightningTensor) -> Result<Tensor, CoreError> {
        self.optional(name, tensor)?.ok_or_else(|| failed(name, "the tensor is absent and must be there"))
    }

    /// A tensor that may be absent.
    pub fn optional(&mut self, name: &str, tensor: LightningTensor) -> Result<Option<Tensor>, CoreError> {
        let dtype = match tensor.dtype {
            LightningDtype::Absent => return Ok(None),
            LightningDtype::Bf16 => DType::BF16,
            LightningDtype::F32 => DType::F32,
            LightningDtype::F64 => DType::F64,
            LightningDtype::I32 => DType::I32,
        };
        let LightningTensor { address, rows, cols, ld, .. } = tensor;
        if ld < cols {
            return Err(failed(name, &format!("rows of {cols} elements lie {ld} elements apart: they overlap")));
        }
        if address == 0 && rows * cols > 0 {
            return Err(failed(name, "its address is 0"));
        }
        if address % dtype.size() as u64 != 0 {
            return Err(failed(name, &format!("address {address:#x} is not a multiple of its {dtype} elements")));
        }
        Ok(Some(self.table.foreign(name, dtype, (rows, cols), ld, address)))
    }

    /// Two tensors that are both there or both absent.
    pub fn pair(
        &mut self,
        names: (&str, &str),
        tensors: (LightningTensor, LightningTensor),
    ) -> Result<Option<(Tensor, Tensor)>, CoreError> {
        match (self.optional(names.0, tensors.0)?, self.optional(names.1, tensors.1)?) {
            (Some(a), Some(b)) => Ok(Some((a, b))),
            (None, None) => Ok(None),
            _ => Err(failed(names.0, &format!("it and `{}` must both be there or both be absent", names.1))),
        }
    }
}
