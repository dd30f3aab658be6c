//! Golden safetensors files as integers.

use std::collections::BTreeMap;

use safetensors::{Dtype, SafeTensors};

/// One tensor, widened.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Shape.
    pub shape: Vec<usize>,
    /// Values (floats are the integers that they hold here: masks).
    pub values: Vec<i64>,
}

impl Tensor {
    /// One row of a two-dimensional tensor.
    pub fn row(&self, row: usize) -> &[i64] {
        let width: usize = self.shape[1..].iter().product();
        &self.values[row * width..(row + 1) * width]
    }
}

/// All tensors of a file by name.
pub fn load(name: &str) -> BTreeMap<String, Tensor> {
    let path = super::path(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.tensors()
        .into_iter()
        .map(|(name, view)| {
            let data = view.data();
            let values: Vec<i64> = match view.dtype() {
                Dtype::U8 | Dtype::BOOL => data.iter().map(|&b| i64::from(b)).collect(),
                Dtype::I16 => data.chunks(2).map(|b| i64::from(i16::from_le_bytes([b[0], b[1]]))).collect(),
                Dtype::I32 => data.chunks(4).map(|b| i64::from(i32::from_le_bytes(b.try_into().unwrap()))).collect(),
                Dtype::U32 => data.chunks(4).map(|b| i64::from(u32::from_le_bytes(b.try_into().unwrap()))).collect(),
                Dtype::I64 | Dtype::U64 => data.chunks(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect(),
                Dtype::F32 => data.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()) as i64).collect(),
                other => panic!("{name}: {other:?}"),
            };
            (name.to_string(), Tensor { shape: view.shape().to_vec(), values })
        })
        .collect()
}
