//! Depthwise causal convolution and SiLU of the Mamba-2 mixer.
//!
//!   p_tc = b_c + sum_{k=0..K-1} w_ck x_{t-K+1+k, c}       taps before the document's first token are 0
//!   y_tc = p_tc * sigmoid(p_tc)
//!   dp = dy * s (1 + p (1 - s)),  s = sigmoid(p);    dw_ck (+)= sum_t dp_tc x_{t-K+1+k, c};    db_c (+)= sum_t dp_tc
//!   dx_sc = sum_k w_ck dp_{s+K-1-k, c}                     only taps of the same document
//!
//! | buffer  | shape      | dtype | written                                |
//! |---------|------------|-------|----------------------------------------|
//! | x       | [t, c]     | act   | read (columns of the in_proj output)   |
//! | w, b    | [c, K], [c] | act  | read; w_c,K-1 meets the current token  |
//! | start   | [t]        | i32   | read; first token of each document     |
//! | y, dx   | [t, c]     | act   | overwritten                            |
//! | dw, db  | as w, b    | grad  | overwritten or accumulated             |
//! | partial | [K + 1, c] | acc   | workspace                              |
//!
//! Rounding: all in acc, one rounding at y and dx; p is recomputed in the backward pass (model.md §4.1, §4.4).
//! Order: dw and db sum tokens in ascending order; a GPU sums blocks of 128 tokens, then the blocks.
//! Kernels: csrc/conv/conv_silu.cu

use crate::cpu::simd::simd_fn;
use crate::cpu::{Columns, Cpu, CpuKernel, Mat, MatMut, column_parts, store_gradient, store_transposed};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};

/// Tokens of a piece of the forward pass; columns are cut into parts of at least this many channels.
const BLOCK: usize = 256;
const CHANNELS: usize = 128;

/// Convolves and activates.
#[derive(Debug, Clone)]
pub struct ConvSiluFwd {
    /// Input channels.
    pub x: Tensor,
    /// Taps [c, K].
    pub w: Tensor,
    /// Bias.
    pub b: Tensor,
    /// First token of each token's document.
    pub start: Tensor,
    /// Activated output.
    pub y: Tensor,
}

impl Operation for ConvSiluFwd {
    const NAME: &'static str = "conv_silu_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("x", self.x, Access::Read);
        visit("w", self.w, Access::Read);
        visit("b", self.b, Access::Read);
        visit("start", self.start, Access::Read);
        visit("y", self.y, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.y.dtype
    }
    fn flops(&self) -> u64 {
        2 * (self.x.rows * self.x.cols * self.w.cols) as u64
    }
    fn cpu_scratch(&self) -> usize {
        (self.w.cols + 2) * self.x.cols
    }
}

/// Copies the taps of some channels to one row per tap, followed by the bias.
fn taps_by_row<A: Element>(w: Mat<'_, A>, b: &[A], dst: &mut [A::Acc]) {
    let channels = w.rows;
    for (k, row) in dst.chunks_exact_mut(channels).take(w.cols).enumerate() {
        for (c, value) in row.iter_mut().enumerate() {
            *value = w.row(c)[k].widen();
        }
    }
    for (value, bias) in dst[w.cols * channels..].iter_mut().zip(b) {
        *value = bias.widen();
    }
}

/// `p += w * x` over the channels of a tap.
#[inline(always)]
fn add_tap<A: Element>(w: &[A::Acc], x: &[A], p: &mut [A::Acc]) {
    for ((p, w), x) in p.iter_mut().zip(w).zip(x) {
        *p += *w * x.widen();
    }
}

#[inline(always)]
fn silu_row<A: Element>(p: &[A::Acc], y: &mut [A]) {
    for (y, p) in y.iter_mut().zip(p) {
        *y = A::narrow(*p * p.sigmoid());
    }
}

simd_fn! {
    /// The tokens `first ..` of some channels.
    fn forward_channels<A: Element>(x: Mat<'_, A>, start: &[i32], taps: &[A::Acc], first: usize, p: &mut [A::Acc], y: &mut MatMut<'_, A>) {
        for i in 0..y.rows {
            preactivation(&x, taps, first + i, start[first + i] as usize, p);
            silu_row(p, y.row_mut(i));
        }
    }
}

/// Pre-activation of token `t` into `p`.
#[inline(always)]
fn preactivation<A: Element>(x: &Mat<'_, A>, taps: &[A::Acc], t: usize, start: usize, p: &mut [A::Acc]) {
    let (channels, kernel) = (p.len(), taps.len() / p.len() - 1);
    p.copy_from_slice(&taps[kernel * channels..]);
    for k in 0..kernel {
        if t + k + 1 >= start + kernel {
            add_tap(&taps[k * channels..(k + 1) * channels], x.row(t + k + 1 - kernel), p);
        }
    }
}

impl CpuKernel for ConvSiluFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (x, w, b) = (cpu.read::<A>(self.x), cpu.read::<A>(self.w), cpu.read::<A>(self.b).row(0));
        let start = cpu.read_i32(self.start).as_slice();
        let parts = column_parts(x.cols, CHANNELS);
        let width = x.cols / parts;
        cpu.workers.grid::<A::Acc, _>(x.rows, BLOCK, parts, cpu.write::<A>(self.y), |piece, mut y, scratch| {
            let columns = piece.part * width..(piece.part + 1) * width;
            let (taps, p) = scratch[..(w.cols + 2) * width].split_at_mut((w.cols + 1) * width);
            taps_by_row(w.row_range(columns.clone()), &b[columns.clone()], taps);
            let x = x.col_range(columns);
            forward_channels(x, start, taps, piece.rows.start, p, &mut y);
        });
    }
}

/// Gradients of the convolution.
#[derive(Debug, Clone)]
pub struct ConvSiluBwd {
    /// Gradient of the activated output.
    pub dy: Tensor,
    /// Input channels of the forward pass.
    pub x: Tensor,
    /// Taps [c, K].
    pub w: Tensor,
    /// Bias.
    pub b: Tensor,
    /// First token of each token's document.
    pub start: Tensor,
    /// Gradient of the input.
    pub dx: Tensor,
    /// Gradient of the taps.
    pub dw: Tensor,
    /// Gradient of the bias.
    pub db: Tensor,
    /// Add to `dw` and `db` instead of overwriting them.
    pub accumulate: bool,
    /// Workspace [K + 1, c].
    pub partial: Tensor,
}

impl ConvSiluBwd {
    /// Tokens that the GPU device sums at a time; they have a row of partial sums in its workspace.
    pub const GPU_BLOCK: usize = 128;
}

impl Operation for ConvSiluBwd {
    const NAME: &'static str = "conv_silu_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("dy", self.dy, Access::Read);
        visit("x", self.x, Access::Read);
        visit("w", self.w, Access::Read);
        visit("b", self.b, Access::Read);
        visit("start", self.start, Access::Read);
        visit("dx", self.dx, Access::Write);
        visit("dw", self.dw, Access::output(self.accumulate));
        visit("db", self.db, Access::output(self.accumulate));
        visit("partial", self.partial, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.dy.dtype
    }
    fn cpu_scratch(&self) -> usize {
        // Taps and bias by row, the pre-activation, a ring of K rows of dx, sums of dw and db.
        (3 * self.w.cols + 3) * self.x.cols
    }
    fn gpu_scratch(&self) -> usize {
        // Sums of dw and db of every block of tokens.
        self.x.rows.div_ceil(Self::GPU_BLOCK) * (self.w.cols + 1) * self.x.cols * size_of::<f32>()
    }
}

/// Turns the pre-activation into its gradient.
#[inline(always)]
fn silu_gradient<A: Element>(dy: &[A], p: &mut [A::Acc]) {
    for (p, dy) in p.iter_mut().zip(dy) {
        let s = p.sigmoid();
        *p = dy.widen() * s * (A::Acc::ONE + *p * (A::Acc::ONE - s));
    }
}

simd_fn! {
    /// All tokens of some channels: taps and bias by row in `taps`, sums of dw by tap and of db in `sums`, one row each.
    /// Row t of dx receives from tokens t .. t + K - 1; slot t mod K of `ring` holds it meanwhile.
    fn backward_channels<A: Element>(
        dy: Mat<'_, A>,
        x: Mat<'_, A>,
        start: &[i32],
        taps: &[A::Acc],
        p: &mut [A::Acc],
        ring: &mut [A::Acc],
        sums: &mut [A::Acc],
        dx: &mut MatMut<'_, A>,
    ) {
        let (rows, width) = (x.rows, x.cols);
        let kernel = taps.len() / width - 1;
        for t in 0..rows {
            let first = start[t] as usize;
            preactivation(&x, taps, t, first, p);
            silu_gradient(dy.row(t), p);
            for k in 0..kernel {
                if t + k + 1 >= first + kernel {
                    let s = t + k + 1 - kernel;
                    let slot = &mut ring[s % kernel * width..(s % kernel + 1) * width];
                    let (w, dw) = (&taps[k * width..(k + 1) * width], &mut sums[k * width..(k + 1) * width]);
                    let x = x.row(s);
                    for i in 0..width {
                        slot[i] += w[i] * p[i];
                        dw[i] += p[i] * x[i].widen();
                    }
                }
            }
            for (d, p) in sums[kernel * width..].iter_mut().zip(p.iter()) {
                *d += *p;
            }
            if t + 1 >= kernel {
                finish_row(ring, t + 1 - kernel, kernel, dx);
            }
        }
        for s in (rows + 1).saturating_sub(kernel)..rows {
            finish_row(ring, s, kernel, dx);
        }
    }
}

impl CpuKernel for ConvSiluBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (dy, x, w) = (cpu.read::<A>(self.dy), cpu.read::<A>(self.x), cpu.read::<A>(self.w));
        let (b, start) = (cpu.read::<A>(self.b).row(0), cpu.read_i32(self.start).as_slice());
        let (kernel, rows) = (w.cols, x.rows);
        let parts = column_parts(x.cols, CHANNELS);
        let width = x.cols / parts;
        let mut partial = cpu.write::<A::Acc>(self.partial);
        let out = (Columns(cpu.write::<A>(self.dx)), Columns(partial.reborrow()));
        cpu.workers.grid::<A::Acc, _>(rows.max(1), usize::MAX, parts, out, |piece, (mut dx, mut sums), scratch| {
            let columns = piece.part * width..(piece.part + 1) * width;
            let (taps, rest) = scratch.split_at_mut((kernel + 1) * width);
            let (p, rest) = rest.split_at_mut(width);
            let (ring, rest) = rest.split_at_mut(kernel * width);
            let own = &mut rest[..(kernel + 1) * width];
            taps_by_row(w.row_range(columns.clone()), &b[columns.clone()], taps);
            let (x, dy) = (x.col_range(columns.clone()), dy.col_range(columns));
            ring.fill(A::Acc::ZERO);
            own.fill(A::Acc::ZERO);
            backward_channels(dy, x, start, taps, p, ring, own, &mut dx.0);
            for k in 0..=kernel {
                sums.0.row_mut(k).copy_from_slice(&own[k * width..(k + 1) * width]);
            }
        });
        let partial = partial.as_mat();
        store_transposed(cpu, partial.row_range(0..kernel), self.dw, self.accumulate);
        store_gradient(cpu, partial.row(kernel), self.db, self.accumulate);
    }
}

/// Writes the finished row `s` of dx from its ring slot and clears the slot.
#[inline(always)]
fn finish_row<A: Element>(ring: &mut [A::Acc], s: usize, kernel: usize, dx: &mut MatMut<'_, A>) {
    let slot = &mut ring[s % kernel * dx.cols..(s % kernel + 1) * dx.cols];
    for (d, v) in dx.row_mut(s).iter_mut().zip(slot) {
        *d = A::narrow(*v);
        *v = A::Acc::ZERO;
    }
}
