//! Matrix products on all threads, over any storage type.

use super::{Cpu, Form, Mat, MatMut, Tile, Workers, gemm, simd, widen_matrix};
use crate::element::{Element, Real};
use crate::tensor::{DType, Tensor};
use half::bf16;

/// Largest tile of a product whose operands or result have to be converted.
const TILE_M: usize = 128;
const TILE_N: usize = 256;
const TILE_K: usize = 512;

/// Scratch elements that a worker needs for [`matmul`] and [`weight_gradient`] when a storage type is not the
/// arithmetic type.
pub const MATMUL_SCRATCH: usize = (TILE_M + TILE_N) * TILE_K + TILE_M * TILE_N;

/// Block sizes for an `m` x `n` product: near-square blocks of at most 512, halved until there are eight pieces. A
/// function of the shape only, so that results do not depend on the number of threads.
fn blocks(m: usize, n: usize, k: usize) -> (usize, usize) {
    let (mut bm, mut bn) = (m.clamp(1, 512), n.clamp(1, 512));
    if m * n * k < 1 << 18 {
        return (m.max(1), n.max(1));
    }
    while m.div_ceil(bm) * n.div_ceil(bn) < 8 && bm.max(bn) > 64 {
        if bm >= bn {
            bm = (bm / 2).next_multiple_of(16);
        } else {
            bn = (bn / 2).next_multiple_of(16);
        }
    }
    // Equal blocks instead of a short last one.
    (m.div_ceil(m.div_ceil(bm)), n.div_ceil(n.div_ceil(bn)))
}

fn operand_block<'a, T>(
    form: Form,
    a: &Mat<'a, T>,
    b: &Mat<'a, T>,
    m: core::ops::Range<usize>,
    n: core::ops::Range<usize>,
) -> (Mat<'a, T>, Mat<'a, T>) {
    let a = if form == Form::TN { a.col_range(m) } else { a.row_range(m) };
    let b = if form == Form::NT { b.row_range(n) } else { b.col_range(n) };
    (a, b)
}

fn inner_block<'a, T>(
    form: Form,
    a: &Mat<'a, T>,
    b: &Mat<'a, T>,
    k: core::ops::Range<usize>,
) -> (Mat<'a, T>, Mat<'a, T>) {
    let a = if form == Form::TN { a.row_range(k.clone()) } else { a.col_range(k.clone()) };
    let b = if form == Form::NT { b.col_range(k) } else { b.row_range(k) };
    (a, b)
}

/// `c = product(a, b)`, or `c += product(a, b)` when `accumulate`. Products are summed in the arithmetic type and rounded
/// once to the type of `c`.
pub fn matmul<A: Element, C: Element<Acc = A::Acc>>(
    workers: &Workers,
    form: Form,
    a: Mat<'_, A>,
    b: Mat<'_, A>,
    accumulate: bool,
    c: MatMut<'_, C>,
) {
    let (m, n, k) = form.sizes(&a, &b);
    assert!(c.rows == m && c.cols == n, "product is {m} x {n}, output is {} x {}", c.rows, c.cols);
    if m == 0 || n == 0 {
        return;
    }
    let plain = A::DTYPE == A::Acc::DTYPE && C::DTYPE == A::Acc::DTYPE;
    let (bm, bn) = if plain { blocks(m, n, k) } else { (TILE_M.min(m), TILE_N.min(n)) };
    let (mb, nb) = (m.div_ceil(bm), n.div_ceil(bn));
    workers.pieces::<A::Acc>(mb * nb, |piece, scratch| {
        let (i, j) = (piece / nb, piece % nb);
        let (mr, nr) = (i * bm..((i + 1) * bm).min(m), j * bn..((j + 1) * bn).min(n));
        // SAFETY: pieces have distinct (i, j), hence disjoint windows of `c`, which nobody else uses meanwhile.
        let mut window = unsafe { c.tile(mr.clone(), 0, 1) };
        let mut out = window.col_range(nr.clone());
        let (ab, bb) = operand_block(form, &a, &b, mr, nr);
        if plain {
            let beta = if accumulate { A::Acc::ONE } else { A::Acc::ZERO };
            gemm(form, A::Acc::ONE, ab.cast::<A::Acc>(), bb.cast::<A::Acc>(), beta, &mut out.cast::<A::Acc>());
        } else {
            converted_tile(form, ab, bb, accumulate, &mut out, scratch);
        }
    });
}

/// One tile of a product whose storage types differ from the arithmetic type: operands are widened in slices of the
/// inner size, the sum stays in the arithmetic type.
pub(crate) fn converted_tile<A: Element, C: Element<Acc = A::Acc>>(
    form: Form,
    a: Mat<'_, A>,
    b: Mat<'_, A>,
    accumulate: bool,
    c: &mut MatMut<'_, C>,
    scratch: &mut [A::Acc],
) {
    let (m, n, k) = form.sizes(&a, &b);
    let (sum, rest) = scratch.split_at_mut(m * n);
    let mut beta = A::Acc::ZERO;
    sum.fill(A::Acc::ZERO);
    for start in (0..k).step_by(TILE_K) {
        let (ak, bk) = inner_block(form, &a, &b, start..(start + TILE_K).min(k));
        let (aw, rest) = rest.split_at_mut(ak.rows * ak.cols);
        let bw = &mut rest[..bk.rows * bk.cols];
        widen_matrix(ak, aw);
        widen_matrix(bk, bw);
        let (aw, bw) = (Mat::new(aw, ak.rows, ak.cols), Mat::new(bw, bk.rows, bk.cols));
        gemm(form, A::Acc::ONE, aw, bw, beta, &mut MatMut::new(sum, m, n));
        beta = A::Acc::ONE;
    }
    for i in 0..m {
        store_row(&sum[i * n..(i + 1) * n], accumulate, c.row_mut(i));
    }
}

simd::simd_fn! {
    /// Rounds a row of results into (or adds it to) a stored row.
    pub fn store_row<C: Element>(src: &[C::Acc], accumulate: bool, dst: &mut [C]) {
        if accumulate {
            for (d, s) in dst.iter_mut().zip(src) {
                *d = C::narrow(d.widen() + *s);
            }
        } else {
            for (d, s) in dst.iter_mut().zip(src) {
                *d = C::narrow(*s);
            }
        }
    }
}

/// Single-threaded product over any storage type, in tiles when something has to be converted.
pub fn product<A: Element, C: Element<Acc = A::Acc>>(
    form: Form,
    a: Mat<'_, A>,
    b: Mat<'_, A>,
    accumulate: bool,
    c: &mut MatMut<'_, C>,
    scratch: &mut [A::Acc],
) {
    let (m, n, _) = form.sizes(&a, &b);
    if A::DTYPE == A::Acc::DTYPE && C::DTYPE == A::Acc::DTYPE {
        let beta = if accumulate { A::Acc::ONE } else { A::Acc::ZERO };
        gemm(form, A::Acc::ONE, a.cast::<A::Acc>(), b.cast::<A::Acc>(), beta, &mut c.reborrow().cast::<A::Acc>());
        return;
    }
    for i in (0..m).step_by(TILE_M) {
        for j in (0..n).step_by(TILE_N) {
            let (mr, nr) = (i..(i + TILE_M).min(m), j..(j + TILE_N).min(n));
            let (ab, bb) = operand_block(form, &a, &b, mr.clone(), nr.clone());
            converted_tile(form, ab, bb, accumulate, &mut c.row_range(mr).col_range(nr), scratch);
        }
    }
}

/// A gradient to write: kept in the arithmetic type, or in bf16 (whose arithmetic type is f32).
pub enum GradientMut<'a, R> {
    /// f32, or f64 in f64 programs.
    Acc(MatMut<'a, R>),
    /// bf16; every contribution is added in f32 and rounded.
    Bf16(MatMut<'a, bf16>),
}

impl<R: Real> GradientMut<'_, R> {
    /// The same window for a shorter time.
    pub fn reborrow(&mut self) -> GradientMut<'_, R> {
        match self {
            Self::Acc(m) => GradientMut::Acc(m.reborrow()),
            Self::Bf16(m) => GradientMut::Bf16(m.reborrow()),
        }
    }

    /// Rows of the window.
    pub fn rows(&self) -> usize {
        match self {
            Self::Acc(m) => m.rows,
            Self::Bf16(m) => m.rows,
        }
    }

    /// The rows of `range`.
    pub fn row_range(&mut self, range: core::ops::Range<usize>) -> GradientMut<'_, R> {
        match self {
            Self::Acc(m) => GradientMut::Acc(m.row_range(range)),
            Self::Bf16(m) => GradientMut::Bf16(m.row_range(range)),
        }
    }

    /// Writes or adds a row.
    pub fn store(&mut self, row: usize, values: &[R], accumulate: bool) {
        match self {
            Self::Acc(m) => store_row::<R>(values, accumulate, m.row_mut(row)),
            Self::Bf16(m) => store_row::<bf16>(cast_slice(values), accumulate, m.row_mut(row)),
        }
    }
}

impl<R: Real> Tile for GradientMut<'_, R> {
    unsafe fn tile(&self, rows: core::ops::Range<usize>, part: usize, parts: usize) -> Self {
        // SAFETY: passed on.
        unsafe {
            match self {
                Self::Acc(m) => Self::Acc(m.tile(rows, part, parts)),
                Self::Bf16(m) => Self::Bf16(m.tile(rows, part, parts)),
            }
        }
    }
}

impl Cpu<'_> {
    /// A gradient to write, in whatever type it is kept.
    pub fn gradient<R: Real>(&self, tensor: Tensor) -> GradientMut<'_, R> {
        if tensor.dtype == R::DTYPE {
            GradientMut::Acc(self.write(tensor))
        } else {
            GradientMut::Bf16(self.write(tensor))
        }
    }
}

/// Weight gradient `dst (+)= dy^T x` (dy [t, out], x [t, in]) on all threads.
pub fn weight_gradient<A: Element>(
    workers: &Workers,
    dy: Mat<'_, A>,
    x: Mat<'_, A>,
    accumulate: bool,
    dst: GradientMut<'_, A::Acc>,
) {
    match (dst, A::DTYPE) {
        (GradientMut::Acc(c), _) => matmul::<A, A::Acc>(workers, Form::TN, dy, x, accumulate, c),
        (GradientMut::Bf16(c), DType::BF16) => {
            matmul::<bf16, bf16>(workers, Form::TN, dy.cast(), x.cast(), accumulate, c)
        }
        (GradientMut::Bf16(c), _) => matmul::<f32, bf16>(workers, Form::TN, dy.cast(), x.cast(), accumulate, c),
    }
}

/// As [`weight_gradient`], on the calling worker.
pub fn weight_gradient_piece<A: Element>(
    dy: Mat<'_, A>,
    x: Mat<'_, A>,
    accumulate: bool,
    dst: GradientMut<'_, A::Acc>,
    scratch: &mut [A::Acc],
) {
    match (dst, A::DTYPE) {
        (GradientMut::Acc(mut c), _) => product::<A, A::Acc>(Form::TN, dy, x, accumulate, &mut c, scratch),
        (GradientMut::Bf16(mut c), DType::BF16) => {
            product::<bf16, bf16>(Form::TN, dy.cast(), x.cast(), accumulate, &mut c, bytemuck::cast_slice_mut(scratch));
        }
        (GradientMut::Bf16(mut c), _) => {
            product::<f32, bf16>(Form::TN, dy.cast(), x.cast(), accumulate, &mut c, bytemuck::cast_slice_mut(scratch));
        }
    }
}

/// Writes or adds a computed vector to a gradient of any type.
pub fn store_gradient<R: Real>(cpu: &Cpu<'_>, values: &[R], dst: Tensor, accumulate: bool) {
    cpu.gradient::<R>(dst.flat()).store(0, values, accumulate);
}

/// The same numbers under the concrete name of their type.
fn cast_slice<R: Real, B: Element>(values: &[R]) -> &[B] {
    assert_eq!(R::DTYPE, B::DTYPE, "cast between element types");
    bytemuck::cast_slice(values)
}

/// Writes or adds the transpose of a computed matrix to a gradient of any type.
pub fn store_transposed<R: Real>(cpu: &Cpu<'_>, values: Mat<'_, R>, dst: Tensor, accumulate: bool) {
    assert!(values.cols == dst.rows && values.rows == dst.cols);
    match dst.dtype {
        DType::F64 => transpose_rows::<f64>(values.cast(), cpu.write(dst), accumulate),
        DType::BF16 => transpose_rows::<bf16>(values.cast(), cpu.write(dst), accumulate),
        _ => transpose_rows::<f32>(values.cast(), cpu.write(dst), accumulate),
    }
}

fn transpose_rows<C: Element>(values: Mat<'_, C::Acc>, mut dst: MatMut<'_, C>, accumulate: bool) {
    for i in 0..values.cols {
        for (k, d) in dst.row_mut(i).iter_mut().enumerate() {
            let value = values.row(k)[i];
            *d = C::narrow(if accumulate { d.widen() + value } else { value });
        }
    }
}
