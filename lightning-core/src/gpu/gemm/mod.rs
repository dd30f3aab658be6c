//! Matrix products on the GPU device: which kernel of csrc/gemm/ computes one, decided when a program is lowered.

use super::Lowering;
use crate::cpu::Form;
use crate::error::CoreError;
use crate::tensor::{DType, Tensor};
use alloc::format;
use alloc::string::ToString;
use kernels_sys::GemmParams;

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
        if types && inner == k && (c.rows, c.cols) == (m, n) {
            return Ok(());
        }
        let of = |t: Tensor| format!("{} [{}, {}]", t.dtype, t.rows, t.cols);
        Err(CoreError::Shape {
            what: format!("operands of a matrix product ({:?})", self.form),
            expected: "bf16 operands that share an inner length, and a bf16 or f32 result of their outer lengths"
                .to_string(),
            found: format!("{} x {} = {}; use --device cpu for other types", of(a), of(b), of(c)),
        })
    }

    /// Adds the launch of the product.
    ///
    /// # Errors
    /// `Shape` when the operands do not fit together or have types that no kernel takes.
    pub fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        self.check()?;
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
        gpu.launch_for("gemm_naive", self.c.dtype, m.div_ceil(8) * n.div_ceil(32), params)
    }
}
