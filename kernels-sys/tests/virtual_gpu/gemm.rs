//! Launches of the matrix products, of every form and tile.

use kernels_sys::{GemmParams, GemmTmaParams, LightningTensorMap};
use ptx_sim::exec::LaunchReport;
use ptx_sim::tensormap::{DataType, L2Promotion, OobFill, Swizzle, TensorMap};

use super::{Bf16, Buffer, Element, Random, Trouble, VirtualGpu};

/// Which operand is read transposed: NT a [m, k] b [n, k], NN b [k, n], TN a [k, m] b [k, n].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    NT,
    NN,
    TN,
}

impl Form {
    pub const ALL: [Self; 3] = [Self::NT, Self::NN, Self::TN];

    pub fn name(self) -> &'static str {
        ["nt", "nn", "tn"][self as usize]
    }
}

/// Which kernel computes a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// gemm.sm_90a.cu: columns of the tile, blocks of a cluster, clusters of the grid.
    Tma { cols: usize, cluster: usize, clusters: usize },
    /// gemm_plain.cu
    Plain,
    /// gemm_naive.cu
    Naive,
}

/// One product. Rows of a, b and c have `pads` elements more than they hold.
#[derive(Debug, Clone, Copy)]
pub struct Product {
    pub form: Form,
    pub path: Path,
    pub sizes: (usize, usize, usize),
    pub pads: [usize; 3],
    pub c_f32: bool,
    pub accumulate: bool,
    pub alpha: f32,
}

/// What a product left in c, and what it should be.
pub struct Outcome {
    pub got: Vec<f32>,
    pub want: Vec<f32>,
    pub report: LaunchReport,
}

/// From this many elements between rows on, a matrix takes memory only where it has elements.
const FAR: usize = 1 << 30;

/// Whole eighths from -1 to 1: every order of summation gives the same sums.
fn eighths(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| (random.bits() % 17) as f32 / 8.0 - 1.0).collect()
}

/// A matrix in device memory, rows `pad` elements apart.
struct Matrix<'a> {
    buffer: Buffer<'a>,
    rows: usize,
    cols: usize,
    ld: usize,
}

impl<'a> Matrix<'a> {
    /// An operand: a read beside its rows is one of memory that was never written, or that is not the matrix's.
    fn input(gpu: &'a VirtualGpu, rows: usize, cols: usize, pad: usize, values: &[f32]) -> Self {
        Self::fill::<Bf16>(gpu, (rows, cols, pad), false, values)
    }

    /// A result, between guards unless the rows are far apart: those would have to be filled.
    fn output<T: Element>(gpu: &'a VirtualGpu, rows: usize, cols: usize, pad: usize, values: &[f32]) -> Self {
        Self::fill::<T>(gpu, (rows, cols, pad), pad < FAR, values)
    }

    fn fill<T: Element>(
        gpu: &'a VirtualGpu,
        (rows, cols, pad): (usize, usize, usize),
        guarded: bool,
        values: &[f32],
    ) -> Self {
        let ld = cols + pad;
        let buffer = match guarded {
            true => gpu.buffer(rows * ld * size_of::<T>(), 0),
            false => gpu.sparse_buffer((rows * ld).saturating_sub(pad).max(1) * size_of::<T>()),
        };
        for (row, values) in values.chunks(cols.max(1)).enumerate() {
            let values: Vec<T> = values.iter().map(|v| T::from_f32(*v)).collect();
            buffer.write(row * ld, &values);
        }
        Self { buffer, rows, cols, ld }
    }

    fn map(&self, box_rows: usize) -> LightningTensorMap {
        let map = TensorMap {
            address: self.buffer.address,
            data_type: DataType::Bf16,
            rank: 2,
            dims: [self.cols as u64, self.rows as u64, 1, 1, 1],
            strides: [self.ld as u64 * 2, 0, 0, 0],
            box_dims: [64, box_rows as u32, 1, 1, 1],
            element_strides: [1; 5],
            swizzle: Swizzle::B128,
            l2_promotion: L2Promotion::None,
            oob_fill: OobFill::Zero,
        };
        let bytes = map.to_bytes();
        let word = |i: usize| u64::from_le_bytes(bytes[i * 8..][..8].try_into().expect("8 bytes"));
        LightningTensorMap { opaque: core::array::from_fn(word) }
    }
}

impl Product {
    /// Runs it on random operands.
    pub fn run(&self, gpu: &VirtualGpu, random: &mut Random) -> Result<Outcome, Trouble> {
        if self.c_f32 { self.run_to::<f32>(gpu, random) } else { self.run_to::<Bf16>(gpu, random) }
    }

    fn run_to<C: Element>(&self, gpu: &VirtualGpu, random: &mut Random) -> Result<Outcome, Trouble> {
        let (m, n, k) = self.sizes;
        let (a, b, start) = (eighths(random, m * k), eighths(random, n * k), eighths(random, m * n));
        let want = self.reference::<C>(&a, &b, &start);
        let (a_rows, a_cols) = if self.form == Form::TN { (k, m) } else { (m, k) };
        let (b_rows, b_cols) = if self.form == Form::NT { (n, k) } else { (k, n) };
        let a = Matrix::input(gpu, a_rows, a_cols, self.pads[0], &a);
        let b = Matrix::input(gpu, b_rows, b_cols, self.pads[1], &b);
        let poison = vec![f32::NAN; m * n];
        let c = Matrix::output::<C>(gpu, m, n, self.pads[2], if self.accumulate { &start } else { &poison });
        let report = self.launch(gpu, &a, &b, &c)?;
        if self.pads[2] < FAR {
            c.buffer.check_guards::<C>("c", m, c.ld, n)?;
        }
        let row = |row: usize| c.buffer.read::<C>(row * c.ld, n).into_iter().map(C::to_f32);
        Ok(Outcome { got: (0..m).flat_map(row).collect(), want, report })
    }

    fn launch(
        &self,
        gpu: &VirtualGpu,
        a: &Matrix<'_>,
        b: &Matrix<'_>,
        c: &Matrix<'_>,
    ) -> Result<LaunchReport, Trouble> {
        let (m, n, k) = self.sizes;
        let (form, suffix) = (self.form.name(), if self.c_f32 { "f32" } else { "bf16" });
        if let Path::Tma { cols, cluster, clusters } = self.path {
            let (a_rows, b_rows) = match self.form {
                Form::NT => (128, cols / cluster),
                Form::NN => (128, 64 / cluster),
                Form::TN => (64, 64 / cluster),
            };
            let rows = m.div_ceil(128 * cluster);
            let params = GemmTmaParams {
                a: a.map(a_rows),
                b: b.map(b_rows),
                c: c.buffer.address,
                c_stride: c.ld as i64,
                m: m as i32,
                n: n as i32,
                k: k as i32,
                c_f32: i32::from(self.c_f32),
                accumulate: i32::from(self.accumulate),
                alpha: self.alpha,
                raster: rows.min(2) as i32,
                reserved: [0; 5],
            };
            let grid = (clusters.min(rows * n.div_ceil(cols)) * cluster) as u64;
            return gpu.launch_clusters(&format!("gemm_{form}_{cols}"), grid, cluster as u32, &params);
        }
        let (a_ld, b_ld) = (a.ld as i64, b.ld as i64);
        let (a_m, a_k) = if self.form == Form::TN { (1, a_ld) } else { (a_ld, 1) };
        let (b_n, b_k) = if self.form == Form::NT { (b_ld, 1) } else { (1, b_ld) };
        let params = GemmParams {
            a: a.buffer.address,
            b: b.buffer.address,
            c: c.buffer.address,
            a_m,
            a_k,
            b_n,
            b_k,
            c_stride: c.ld as i64,
            m: m as i64,
            n: n as i64,
            k: k as i64,
            alpha: self.alpha,
            accumulate: i32::from(self.accumulate),
        };
        if self.path == Path::Naive {
            return gpu.launch(&format!("gemm_naive_{suffix}"), (m.div_ceil(8) * n.div_ceil(32)) as u64, &params);
        }
        gpu.launch(&format!("gemm_plain_{form}_{suffix}"), (m.div_ceil(64) * n.div_ceil(64)) as u64, &params)
    }

    fn reference<C: Element>(&self, a: &[f32], b: &[f32], start: &[f32]) -> Vec<f32> {
        let (m, n, k) = self.sizes;
        let a_at = |i: usize, l: usize| if self.form == Form::TN { a[l * m + i] } else { a[i * k + l] };
        let b_at = |j: usize, l: usize| if self.form == Form::NT { b[j * k + l] } else { b[l * n + j] };
        let mut c = Vec::with_capacity(m * n);
        for i in 0..m {
            for j in 0..n {
                let sum: f32 = (0..k).map(|l| a_at(i, l) * b_at(j, l)).sum();
                let before = if self.accumulate { start[i * n + j] } else { 0.0 };
                c.push(C::from_f32(self.alpha.mul_add(sum, before)).to_f32());
            }
        }
        c
    }
}
