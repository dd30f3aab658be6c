//! Matrix products on the GPU device: which kernel of csrc/gemm/ computes one, decided when a program is lowered.
//!
//! `gemm.sm_90a.cu` takes operands that start and step by 16 bytes, on sm_90a; `gemm_plain.cu` takes everything.

mod tiles;

use super::Lowering;
use super::tensor_map::MatrixMap;
use crate::cpu::Form;
use crate::error::CoreError;
use crate::tensor::{DType, Tensor};
use alloc::format;
use alloc::string::ToString;
use kernels_sys::{GemmParams, GemmTmaParams};
use tiles::{DEPTH, ROWS, choose};

/// Rows and columns of the tile of a block of gemm_plain.cu.
const PLAIN_TILE: usize = 64;

/// One product c (+)= alpha a b, with operands read as the form says (NT: a [m, k], b [n, k]; NN: b [k, n]; TN: a
/// [k, m], b [k, n]). a and b are bf16, c is bf16 or f32, m x n.
#[derive(Debug, Clone, Copy)]
pub struct Product {
    form: Form,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    alpha: f64,
    accumulate: bool,
}

impl Product {
    fn new(form: Form, a: Tensor, b: Tensor, c: Tensor) -> Self {
        Self { form, a, b, c, alpha: 1.0, accumulate: false }
    }

    /// c [m, n] = a [m, k] b [n, k]^T: rows times a weight.
    pub fn nt(a: Tensor, b: Tensor, c: Tensor) -> Self {
        Self::new(Form::NT, a, b, c)
    }

    /// c [m, n] = a [m, k] b [k, n]: gradient of the rows.
    pub fn nn(a: Tensor, b: Tensor, c: Tensor) -> Self {
        Self::new(Form::NN, a, b, c)
    }

    /// c [m, n] = a [k, m]^T b [k, n]: gradient of the weight.
    pub fn tn(a: Tensor, b: Tensor, c: Tensor) -> Self {
        Self::new(Form::TN, a, b, c)
    }

    /// The same with factor alpha, applied before the rounding.
    pub fn scaled(self, alpha: f64) -> Self {
        Self { alpha, ..self }
    }

    /// The same, added to c when `accumulate`; the sum is rounded once.
    pub fn accumulated(self, accumulate: bool) -> Self {
        Self { accumulate, ..self }
    }

    /// m, n and k.
    fn sizes(&self) -> (usize, usize, usize) {
        let (m, k) = if self.form == Form::TN { (self.a.cols, self.a.rows) } else { (self.a.rows, self.a.cols) };
        let n = if self.form == Form::NT { self.b.rows } else { self.b.cols };
        (m, n, k)
    }

    fn check(&self) -> Result<(), CoreError> {
        let (m, n, k) = self.sizes();
        let inner = if self.form == Form::NT { self.b.cols } else { self.b.rows };
        let (a, b, c) = (self.a, self.b, self.c);
        let types = a.dtype == DType::BF16 && b.dtype == DType::BF16 && matches!(c.dtype, DType::BF16 | DType::F32);
        let fits = [m, n, k].iter().all(|size| i32::try_from(*size).is_ok());
        if types && fits && inner == k && (c.rows, c.cols) == (m, n) {
            return Ok(());
        }
        let of = |t: Tensor| format!("{} [{}, {}]", t.dtype, t.rows, t.cols);
        Err(CoreError::Shape {
            what: format!("operands of a matrix product ({:?})", self.form),
            expected: "bf16 operands that share an inner length, a bf16 or f32 result of their outer lengths, and no length of \
                       2^31 or more"
                .to_string(),
            found: format!("{} x {} = {}; use --device cpu for other types", of(a), of(b), of(c)),
        })
    }

    /// Adds the launch of the product: by bulk tensor copies where operands allow it, else by the plain kernel.
    ///
    /// # Errors
    /// `Shape` when the operands do not fit together or have types that no kernel takes.
    pub fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        self.check()?;
        if !gpu.naive() && self.lower_fast(gpu)? { Ok(()) } else { self.lower_plain(gpu) }
    }

    fn form_name(&self) -> &'static str {
        match self.form {
            Form::NT => "nt",
            Form::NN => "nn",
            Form::TN => "tn",
        }
    }

    /// Adds a launch of gemm.sm_90a.cu, if the architecture has it and the operands can be read by it.
    fn lower_fast(&self, gpu: &mut Lowering<'_>) -> Result<bool, CoreError> {
        let (m, n, k) = self.sizes();
        let map = |gpu: &Lowering<'_>, t: Tensor| MatrixMap {
            address: gpu.address(t),
            inner: t.cols,
            outer: t.rows,
            ld: t.ld,
        };
        let (a, b) = (map(gpu, self.a), map(gpu, self.b));
        let Some(tile) = choose(m, n, gpu.multiprocessors()) else { return Ok(false) };
        let kernel = format!("gemm_{}_{}", self.form_name(), tile.cols);
        // k = 0 makes an operand empty, hence impossible as a map.
        if m == 0 || n == 0 || !a.is_possible() || !b.is_possible() || !gpu.has(&kernel) {
            return Ok(false);
        }
        let (a_rows, b_rows) = match self.form {
            Form::NT => (ROWS, tile.cols / tile.blocks),
            Form::NN => (ROWS, DEPTH / tile.blocks),
            Form::TN => (DEPTH, DEPTH / tile.blocks),
        };
        let params = GemmTmaParams {
            a: a.encode(a_rows)?,
            b: b.encode(b_rows)?,
            c: gpu.address(self.c),
            c_stride: self.c.ld as i64,
            m: m as i32,
            n: n as i32,
            k: k as i32,
            c_f32: i32::from(self.c.dtype == DType::F32),
            accumulate: i32::from(self.accumulate),
            alpha: self.alpha as f32,
            raster: tile.raster(m) as i32,
            reserved: [0; 5],
        };
        let grid = tile.clusters(m, n, gpu.multiprocessors()) * tile.blocks;
        gpu.launch_clusters(&kernel, grid, tile.blocks as u32, params)?;
        Ok(true)
    }

    fn lower_plain(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let (m, n, k) = self.sizes();
        let (a_ld, b_ld) = (self.a.ld as i64, self.b.ld as i64);
        let (a_m, a_k) = if self.form == Form::TN { (1, a_ld) } else { (a_ld, 1) };
        let (b_n, b_k) = if self.form == Form::NT { (b_ld, 1) } else { (1, b_ld) };
        let params = GemmParams {
            a: gpu.address(self.a),
            b: gpu.address(self.b),
            c: gpu.address(self.c),
            a_m,
            a_k,
            b_n,
            b_k,
            c_stride: self.c.ld as i64,
            m: m as i64,
            n: n as i64,
            k: k as i64,
            alpha: self.alpha as f32,
            accumulate: i32::from(self.accumulate),
        };
        if gpu.naive() {
            return gpu.launch_for("gemm_naive", self.c.dtype, m.div_ceil(8) * n.div_ceil(32), params);
        }
        let tiles = m.div_ceil(PLAIN_TILE) * n.div_ceil(PLAIN_TILE);
        gpu.launch_for(&format!("gemm_plain_{}", self.form_name()), self.c.dtype, tiles, params)
    }
}
