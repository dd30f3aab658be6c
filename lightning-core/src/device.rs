//! What every device can do: run a program, and copy tensors between itself and the host.

use crate::error::CoreError;
use crate::program::{Buffer, Program};
use crate::tensor::Tensor;
use alloc::vec;
use alloc::vec::Vec;

/// A machine that executes programs. It was prepared with the persistent buffers and the programs that it will run;
/// running allocates nothing.
pub trait Device {
    /// Executes every operation of the program.
    ///
    /// # Errors
    /// What the device reports, with the operation that was running.
    fn run(&mut self, program: &Program) -> Result<(), CoreError>;

    /// Executes the operation with this index alone and waits for it, so that its results can be looked at.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn run_node(&mut self, program: &Program, node: usize) -> Result<(), CoreError>;

    /// Copies `bytes` from the host into a contiguous tensor. `buffers` is the table of the program that the handle
    /// belongs to, or the model's persistent table.
    ///
    /// # Errors
    /// `HostBuffer` when the sizes differ.
    fn write(&mut self, buffers: &[Buffer], tensor: Tensor, bytes: &[u8]) -> Result<(), CoreError>;

    /// Copies a contiguous tensor to the host.
    ///
    /// # Errors
    /// `HostBuffer` when the sizes differ.
    fn read(&self, buffers: &[Buffer], tensor: Tensor, bytes: &mut [u8]) -> Result<(), CoreError>;

    /// Starts copying contiguous tensors of the persistent table to the host, in order with the programs, and returns.
    /// [`Device::fetched`] gives the bytes; until then `slot` (0 or 1) is taken.
    ///
    /// # Errors
    /// What the device reports.
    fn fetch(&mut self, buffers: &[Buffer], tensors: &[Tensor], slot: usize) -> Result<(), CoreError>;

    /// Waits for the copies of [`Device::fetch`], and for nothing behind them, and gives their bytes, tensor after tensor.
    ///
    /// # Errors
    /// What the device reports, also of the programs before the copies.
    fn fetched(&mut self, slot: usize) -> Result<&[u8], CoreError>;

    /// As [`Device::write`], from typed elements.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn write_slice<T: bytemuck::Pod>(
        &mut self,
        buffers: &[Buffer],
        tensor: Tensor,
        values: &[T],
    ) -> Result<(), CoreError>
    where
        Self: Sized,
    {
        self.write(buffers, tensor, bytemuck::cast_slice(values))
    }

    /// As [`Device::read`], into a new vector.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn read_vec<T: bytemuck::Pod>(&self, buffers: &[Buffer], tensor: Tensor) -> Result<Vec<T>, CoreError>
    where
        Self: Sized,
    {
        let mut values = vec![T::zeroed(); tensor.bytes() / size_of::<T>()];
        self.read(buffers, tensor, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// A floating-point tensor as f64 values, whatever its element type.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn read_f64(&self, buffers: &[Buffer], tensor: Tensor) -> Result<Vec<f64>, CoreError>
    where
        Self: Sized,
    {
        use crate::element::Element;
        use crate::tensor::DType;
        Ok(match tensor.dtype {
            DType::F64 => self.read_vec::<f64>(buffers, tensor)?,
            DType::F32 => self.read_vec::<f32>(buffers, tensor)?.into_iter().map(f64::from).collect(),
            DType::BF16 => self.read_vec::<half::bf16>(buffers, tensor)?.iter().map(|v| f64::from(v.widen())).collect(),
            DType::I32 => self.read_vec::<i32>(buffers, tensor)?.into_iter().map(f64::from).collect(),
        })
    }

    /// Writes f64 values into a floating-point tensor, rounding to its element type.
    ///
    /// # Errors
    /// As [`Device::write`].
    fn write_f64(&mut self, buffers: &[Buffer], tensor: Tensor, values: &[f64]) -> Result<(), CoreError>
    where
        Self: Sized,
    {
        use crate::element::Element;
        use crate::tensor::DType;
        match tensor.dtype {
            DType::F64 => self.write_slice(buffers, tensor, values),
            DType::F32 => {
                let v: Vec<f32> = values.iter().map(|v| *v as f32).collect();
                self.write_slice(buffers, tensor, &v)
            }
            DType::BF16 => {
                let v: Vec<half::bf16> = values.iter().map(|v| half::bf16::narrow(*v as f32)).collect();
                self.write_slice(buffers, tensor, &v)
            }
            DType::I32 => {
                let v: Vec<i32> = values.iter().map(|v| *v as i32).collect();
                self.write_slice(buffers, tensor, &v)
            }
        }
    }
}

/// Holds the size of a host buffer against the tensor that it is copied to or from.
pub(crate) fn check_host_buffer(buffers: &[Buffer], tensor: Tensor, found: usize) -> Result<(), CoreError> {
    if found == tensor.bytes() {
        return Ok(());
    }
    let name = &buffers[tensor.buffer.0 as usize].name;
    Err(CoreError::HostBuffer { tensor: name.clone(), expected: tensor.bytes(), found })
}
