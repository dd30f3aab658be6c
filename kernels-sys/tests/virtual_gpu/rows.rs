//! Matrices in device memory whose rows may be any distance apart.

use super::{Buffer, Element, Random, Trouble, VirtualGpu};

/// From this many elements between rows on, a matrix takes memory only where it has elements, and has no guards.
const FAR: usize = 1 << 30;

/// A row-major matrix between guards.
pub struct Rows<'a> {
    buffer: Buffer<'a>,
    rows: usize,
    cols: usize,
    /// Elements from one row to the next.
    pub stride: i64,
    /// Device address of the first element.
    pub address: u64,
}

impl<'a> Rows<'a> {
    /// `values`, with `pad` elements between the rows.
    pub fn new<T: Element>(gpu: &'a VirtualGpu, rows: usize, cols: usize, pad: usize, values: &[T]) -> Self {
        let ld = cols + pad;
        let bytes = (rows * ld).saturating_sub(pad).max(1) * size_of::<T>();
        // Guards around rows that are gigabytes apart would have to be filled.
        let buffer = if pad < FAR { gpu.buffer(rows * ld * size_of::<T>(), 0) } else { gpu.sparse_buffer(bytes) };
        for (row, values) in values.chunks(cols.max(1)).enumerate() {
            buffer.write(row * ld, values);
        }
        let address = buffer.address;
        Self { buffer, rows, cols, stride: ld as i64, address }
    }

    /// Random values of the given spread.
    pub fn random<T: Element>(
        gpu: &'a VirtualGpu,
        random: &mut Random,
        (rows, cols, pad): (usize, usize, usize),
        spread: f32,
    ) -> Self {
        Self::new::<T>(gpu, rows, cols, pad, &random.elements(rows * cols, 0.0, spread))
    }

    /// NaN everywhere, to be written by a kernel.
    pub fn poisoned<T: Element>(gpu: &'a VirtualGpu, rows: usize, cols: usize, pad: usize) -> Self {
        Self::new::<T>(gpu, rows, cols, pad, &vec![T::from_f32(f32::NAN); rows * cols])
    }

    /// The elements, once nothing beside them was written.
    pub fn get<T: Element>(&self, name: &str) -> Result<Vec<T>, Trouble> {
        let ld = self.stride as usize;
        if ld - self.cols < FAR {
            self.buffer.check_guards::<T>(name, self.rows, ld, self.cols)?;
        }
        Ok((0..self.rows).flat_map(|row| self.buffer.read::<T>(row * ld, self.cols)).collect())
    }
}
