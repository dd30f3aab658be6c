//! Matrices in device memory whose rows may be any distance apart.

use super::{Buffer, Element, Random, Trouble, VirtualGpu};

/// From this many elements between rows on, a matrix takes memory only where it has elements, and has no guards.
const FAR: usize = 1 << 30;

/// A row-major matrix.
pub struct Rows<'a> {
    buffer: Buffer<'a>,
    rows: usize,
    cols: usize,
    guarded: bool,
    /// Elements from one row to the next.
    pub stride: i64,
    /// Device address of the first element.
    pub address: u64,
}

impl<'a> Rows<'a> {
    fn fill<T: Element>(
        gpu: &'a VirtualGpu,
        (rows, cols, pad): (usize, usize, usize),
        guarded: bool,
        values: &[T],
    ) -> Self {
        let ld = cols + pad;
        let buffer = if guarded {
            gpu.buffer(rows * ld * size_of::<T>(), 0)
        } else {
            gpu.sparse_buffer((rows * ld).saturating_sub(pad).max(1) * size_of::<T>())
        };
        for (row, values) in values.chunks(cols.max(1)).enumerate() {
            buffer.write(row * ld, values);
        }
        let address = buffer.address;
        Self { buffer, rows, cols, guarded, stride: ld as i64, address }
    }

    /// `values` with `pad` elements between the rows, to be read only: nothing lies around it, so that a read beside an
    /// element is found.
    pub fn input<T: Element>(gpu: &'a VirtualGpu, rows: usize, cols: usize, pad: usize, values: &[T]) -> Self {
        Self::fill(gpu, (rows, cols, pad), false, values)
    }

    /// An input of random values of the given spread.
    pub fn random<T: Element>(
        gpu: &'a VirtualGpu,
        random: &mut Random,
        (rows, cols, pad): (usize, usize, usize),
        spread: f32,
    ) -> Self {
        Self::input::<T>(gpu, rows, cols, pad, &random.elements(rows * cols, 0.0, spread))
    }

    /// `values`, between guards unless the rows are far apart: those would have to be filled.
    pub fn output<T: Element>(gpu: &'a VirtualGpu, rows: usize, cols: usize, pad: usize, values: &[T]) -> Self {
        Self::fill(gpu, (rows, cols, pad), pad < FAR, values)
    }

    /// An output that holds NaN.
    pub fn poisoned<T: Element>(gpu: &'a VirtualGpu, rows: usize, cols: usize, pad: usize) -> Self {
        Self::output::<T>(gpu, rows, cols, pad, &vec![T::from_f32(f32::NAN); rows * cols])
    }

    /// The elements, once nothing beside them was written.
    pub fn get<T: Element>(&self, name: &str) -> Result<Vec<T>, Trouble> {
        let ld = self.stride as usize;
        if self.guarded {
            self.buffer.check_guards::<T>(name, self.rows, ld, self.cols)?;
        }
        Ok((0..self.rows).flat_map(|row| self.buffer.read::<T>(row * ld, self.cols)).collect())
    }
}
