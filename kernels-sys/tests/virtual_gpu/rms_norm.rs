//! Launches of the RMSNorm kernels, for their tests and for the sampling of planted faults.

use kernels_sys::{RmsNormBwdParams, RmsNormFwdParams, SumBlocksParams};

use ptx_sim::exec::Counts;

use super::{Buffer, Element, Random, Trouble, VirtualGpu};

/// Added to the mean square.
pub const EPS: f32 = 1e-5;

/// Inputs of both passes.
pub struct Inputs<T> {
    pub t: usize,
    pub h: usize,
    pub stride: usize,
    pub x: Vec<T>,
    pub b: Vec<T>,
    pub w: Vec<T>,
    pub dy: Vec<T>,
    pub d_res: Vec<T>,
}

impl<T: Element> Inputs<T> {
    pub fn new(random: &mut Random, (t, h, pad): (usize, usize, usize)) -> Self {
        Self {
            t,
            h,
            stride: h + pad,
            x: random.elements(t * h, 0.3, 2.0),
            b: random.elements(t * h, 0.0, 0.5),
            w: random.elements(h, 1.0, 0.2),
            dy: random.elements(t * h, 0.1, 1.0),
            d_res: random.elements(t * h, 0.0, 1.0),
        }
    }

    /// x' of the forward pass.
    pub fn x_out(&self, with_b: bool) -> Vec<T> {
        let add = |(x, b): (&T, &T)| {
            if with_b { T::from_f32(x.to_f32() + b.to_f32()) } else { *x }
        };
        self.x.iter().zip(&self.b).map(add).collect()
    }
}

/// Rows of `stride` elements on the device; `shift` elements off a 16-byte boundary.
pub fn rows<'a, T: Element>(
    gpu: &'a VirtualGpu,
    data: &[T],
    t: usize,
    h: usize,
    stride: usize,
    shift: usize,
) -> Buffer<'a> {
    let length = if t == 0 { 0 } else { (t - 1) * stride + h };
    let buffer = gpu.buffer(length * size_of::<T>(), (shift * size_of::<T>()) as u64);
    for (row, values) in data.chunks_exact(h).take(t).enumerate() {
        buffer.write(row * stride, values);
    }
    buffer
}

/// What [`rows`] laid out.
pub fn read_rows<T: Element>(buffer: &Buffer<'_>, t: usize, h: usize, stride: usize) -> Vec<T> {
    (0..t).flat_map(|row| buffer.read::<T>(row * stride, h)).collect()
}

/// 1 / rms of a row in f64.
pub fn rstd_f64<T: Element>(row: &[T]) -> f64 {
    let squares: f64 = row.iter().map(|v| v.to_f64().powi(2)).sum();
    1.0 / (squares / row.len() as f64 + f64::from(EPS)).sqrt()
}

/// What a forward launch leaves.
pub struct Forward<T> {
    /// Where there is one.
    pub x_out: Option<Vec<T>>,
    pub y: Vec<T>,
    /// Where there is one.
    pub rstd: Option<Vec<f32>>,
    /// What the launch did.
    pub counts: Counts,
}

/// Where x' goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XOut {
    /// To a buffer of its own.
    Apart,
    /// Over x.
    InPlace,
    /// Nowhere, and neither does rstd: inference needs y alone.
    Absent,
}

impl XOut {
    /// One after the other.
    pub const ALL: [Self; 3] = [Self::InPlace, Self::Apart, Self::Absent];
}

/// What varies between forward launches besides the inputs.
#[derive(Clone, Copy)]
pub struct ForwardCase<'a> {
    pub kernel: &'a str,
    pub grid: u64,
    pub with_b: bool,
    pub x_out: XOut,
    pub shift: usize,
    pub eps: f32,
}

/// One forward launch.
pub fn forward<T: Element>(gpu: &VirtualGpu, inputs: &Inputs<T>, case: ForwardCase<'_>) -> Result<Forward<T>, Trouble> {
    let Inputs { t, h, stride, .. } = *inputs;
    let x = rows(gpu, &inputs.x, t, h, stride, case.shift);
    let b = rows(gpu, &inputs.b, t, h, stride, case.shift);
    let out = rows::<T>(gpu, &[], t, h, stride, case.shift);
    let y = rows::<T>(gpu, &[], t, h, stride, case.shift);
    let w = gpu.upload(&inputs.w);
    let rstd = gpu.buffer(t * 4, 0);
    let x_out = if case.x_out == XOut::InPlace { &x } else { &out };
    let params = RmsNormFwdParams {
        x: x.address,
        b: if case.with_b { b.address } else { 0 },
        x_out: if case.x_out == XOut::Absent { 0 } else { x_out.address },
        y: y.address,
        w: w.address,
        rstd: if case.x_out == XOut::Absent { 0 } else { rstd.address },
        x_stride: stride as i64,
        b_stride: stride as i64,
        x_out_stride: stride as i64,
        y_stride: stride as i64,
        t: t as i64,
        h: h as i32,
        eps: case.eps,
    };
    let report = gpu.launch(&format!("{}_{}", case.kernel, T::SUFFIX), case.grid, &params)?;
    for (name, buffer) in [("x", &x), ("b", &b), ("x_out", &out), ("y", &y)] {
        buffer.check_guards::<T>(name, t, stride, h)?;
    }
    w.check_guards::<T>("w", 1, h, h)?;
    rstd.check_guards::<f32>("rstd", 1, t, t)?;
    Ok(Forward {
        x_out: (case.x_out != XOut::Absent).then(|| read_rows(x_out, t, h, stride)),
        y: read_rows(&y, t, h, stride),
        rstd: (case.x_out != XOut::Absent).then(|| rstd.read(0, t)),
        counts: report.counts,
    })
}

/// What the two launches of a backward pass leave.
pub struct Backward<T> {
    pub d_res: Vec<T>,
    pub dw: Vec<f32>,
    /// What both launches did.
    pub counts: [Counts; 2],
}

/// What varies between backward launches besides the inputs.
#[derive(Clone, Copy)]
pub struct BackwardCase {
    pub naive: bool,
    pub grid: u64,
    pub block_tokens: usize,
    pub accumulate: bool,
    pub shift: usize,
    /// One address or row stride alone that is an element off.
    pub odd: Option<Odd>,
}

/// What is an element off a 16-byte boundary while all else is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    Dy,
    X,
    DRes,
    W,
    DwPartial,
    DyStride,
    XStride,
    DResStride,
}

impl Odd {
    /// One after the other.
    pub const ALL: [Self; 8] =
        [Self::Dy, Self::X, Self::DRes, Self::W, Self::DwPartial, Self::DyStride, Self::XStride, Self::DResStride];
}

/// Both kernels of the backward pass; dw starts from 1 where it is accumulated.
pub fn backward<T: Element>(
    gpu: &VirtualGpu,
    inputs: &Inputs<T>,
    x_out: &[T],
    case: BackwardCase,
) -> Result<Backward<T>, Trouble> {
    let Inputs { t, h, stride, .. } = *inputs;
    let off = |odd| usize::from(case.odd == Some(odd));
    let strides = [Odd::DyStride, Odd::XStride, Odd::DResStride].map(|odd| stride + off(odd));
    let dy = rows(gpu, &inputs.dy, t, h, strides[0], case.shift + off(Odd::Dy));
    let x = rows(gpu, x_out, t, h, strides[1], case.shift + off(Odd::X));
    let before: &[T] = if case.accumulate { &inputs.d_res } else { &[] };
    let d_res = rows(gpu, before, t, h, strides[2], case.shift + off(Odd::DRes));
    let w = rows(gpu, &inputs.w, 1, h, h, off(Odd::W));
    let rstd: Vec<f32> = x_out.chunks_exact(h).map(|row| rstd_f64(row) as f32).collect();
    let rstd = gpu.upload(&rstd);
    let blocks = if case.naive { 1 } else { t.div_ceil(case.block_tokens) };
    let dw_partial = gpu.buffer(blocks * h * 4, 4 * off(Odd::DwPartial) as u64);
    let dw = gpu.buffer(h * 4, 0);
    if case.accumulate {
        dw.write(0, &vec![1.0f32; h]);
    }
    let params = RmsNormBwdParams {
        dy: dy.address,
        x: x.address,
        w: w.address,
        rstd: rstd.address,
        d_res: d_res.address,
        dw_partial: dw_partial.address,
        dy_stride: strides[0] as i64,
        x_stride: strides[1] as i64,
        d_res_stride: strides[2] as i64,
        t: t as i64,
        h: h as i32,
        block_tokens: case.block_tokens as i32,
        accumulate: i32::from(case.accumulate),
        reserved: 0,
    };
    let report = if case.naive {
        let grid = t.max(h).div_ceil(128) as u64;
        gpu.launch(&format!("rms_norm_bwd_naive_{}", T::SUFFIX), grid, &params)?
    } else {
        gpu.launch(&format!("rms_norm_bwd_{}", T::SUFFIX), case.grid, &params)?
    };
    let reduce = SumBlocksParams {
        partial: dw_partial.address,
        dst: dw.address,
        partial_stride: h as i64,
        blocks: blocks as i64,
        n: h as i64,
        accumulate: i32::from(case.accumulate),
        reserved: 0,
    };
    let reduced = gpu.launch("sum_blocks_f32", h.div_ceil(32) as u64, &reduce)?;
    for (name, buffer, stride) in [("dy", &dy, strides[0]), ("x", &x, strides[1]), ("d_res", &d_res, strides[2])] {
        buffer.check_guards::<T>(name, t, stride, h)?;
    }
    dw_partial.check_guards::<f32>("dw_partial", 1, blocks * h, blocks * h)?;
    dw.check_guards::<f32>("dw", 1, h, h)?;
    Ok(Backward {
        d_res: read_rows(&d_res, t, h, strides[2]),
        dw: dw.read(0, h),
        counts: [report.counts, reduced.counts],
    })
}
