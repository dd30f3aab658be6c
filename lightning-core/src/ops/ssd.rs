//! Chunked selective scan (SSD) of Mamba-2.
//!
//! Per head, with a = -exp(A_log), B and C shared by the heads of a group, and S reset to 0 at every document start:
//!
//!   S_t = e^{delta_t a} S_{t-1} + delta_t x_t (x) B_t            y_t = S_t C_t + D x_t
//!
//! The row is cut at multiples of the chunk length and at document starts. In a piece of q tokens, with
//! l_i = sum_{k<=i} delta_k a counted from its start, xd_j = delta_j x_j and L_ij = e^{l_i - l_j} for j <= i:
//!
//!   y_i   = sum_{j<=i} (C_i . B_j) L_ij xd_j + e^{l_i} S_in C_i + D x_i
//!   S_out = e^{l_q} S_in + sum_j e^{l_q - l_j} xd_j (x) B_j
//!
//! Backward, with G the gradient arriving at S_out, g_ij = dy_i . x_j, W_ij = g_ij L_ij delta_j:
//!
//!   dxd_j = sum_{i>=j} (C_i . B_j) L_ij dy_i + e^{l_q - l_j} G B_j         dx_j = delta_j dxd_j + D dy_j
//!   dC_i  = sum_{j<=i} W_ij B_j + e^{l_i} S_in^T dy_i                      dB_j = sum_{i>=j} W_ij C_i + e^{l_q - l_j} G^T xd_j
//!   G_in  = e^{l_q} G + sum_i e^{l_i} dy_i (x) C_i                         dD = sum_t x_t . dy_t
//!   dl_i  = sum_j W_ij (C_i.B_j) - sum_k W_ki (C_k.B_i) + e^{l_i} dy_i^T S_in C_i - u_i + [i = q] (e^{l_q} <S_in, G> + sum_j u_j)
//!   u_j   = e^{l_q - l_j} xd_j^T G B_j        r_k = sum_{i>=k} dl_i
//!   ddelta_k = x_k . dxd_k + a r_k            dA_log = a sum_k delta_k r_k
//!
//! | buffer         | shape          | dtype | written                                              |
//! |----------------|----------------|-------|------------------------------------------------------|
//! | x, y           | [t, h p]       | act   | read / overwritten                                   |
//! | b, c           | [t, g n]       | act   | read                                                 |
//! | delta          | [t, h]         | acc   | read; time steps after softplus                      |
//! | a_log, d       | [h]            | acc   | read                                                 |
//! | states         | [chunks, h p n]| acc   | overwritten; S at the start of every chunk           |
//! | state_in/out   | [rows, h p n]  | acc   | optional: S before the first and after the last token|
//! | dx, db, dc     | as x, b, c     | act   | overwritten                                          |
//! | ddelta         | [t, h]         | acc   | overwritten                                          |
//! | da_log, dd     | [h]            | grad  | overwritten or accumulated                           |
//! | partial_a, _d  | [rows, h]      | acc   | workspace                                            |
//!
//! Rounding: everything in acc, one rounding at y, dx, db, dc; the un-simplified sum for dl is used because a rounded y
//! would make dA noisy (model.md §4.3). Only differences of l are exponentiated, and all are <= 0. Order: pieces in token
//! order, heads of a group in order. Kernels: csrc/mamba/ssd.cu

use super::rms_norm::sum_blocks;
use crate::cpu::simd::{dot, simd_fn};
use crate::cpu::{Cpu, CpuKernel, Form, Mat, MatMut, PerBlock, gemm, simd, widen_matrix};
use crate::element::{Element, Real};
use crate::program::{Access, Operation};
use crate::tensor::{DType, Tensor};
use core::ops::Range;

/// Sizes of a scan.
#[derive(Debug, Clone, Copy)]
pub struct SsdShape {
    /// Heads.
    pub heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// State size.
    pub state: usize,
    /// Groups that share B and C.
    pub groups: usize,
    /// Chunk length.
    pub chunk: usize,
    /// Tokens of a row.
    pub row_len: usize,
}

impl SsdShape {
    /// Chunks of a row.
    pub const fn chunks(&self) -> usize {
        self.row_len.div_ceil(self.chunk)
    }

    /// Elements of the states of all heads.
    pub const fn state_elements(&self) -> usize {
        self.heads * self.head_dim * self.state
    }

    /// Rows of `tokens` tokens.
    pub fn rows(&self, tokens: usize) -> usize {
        tokens.checked_div(self.row_len).unwrap_or(0)
    }

    const fn group_heads(&self) -> usize {
        self.heads / self.groups
    }

    /// Multiply-adds (as two) of one pass over `tokens`, counting `products` state-sized products per token and head.
    fn scan_flops(&self, tokens: usize, products: u64, pair_products: u64) -> u64 {
        let (h, p, n, q) = (self.heads as u64, self.head_dim as u64, self.state as u64, self.chunk as u64);
        let pairs = (q * self.groups as u64 * n + q * h * p * pair_products) / 2;
        2 * tokens as u64 * (products * h * p * n + pairs)
    }
}

/// Runs the scan.
#[derive(Debug, Clone)]
pub struct SsdScanFwd {
    /// Sizes.
    pub shape: SsdShape,
    /// Input channels.
    pub x: Tensor,
    /// Input projections of the state.
    pub b: Tensor,
    /// Output projections of the state.
    pub c: Tensor,
    /// Time steps.
    pub delta: Tensor,
    /// Logarithm of the decay rates.
    pub a_log: Tensor,
    /// Direct path.
    pub d: Tensor,
    /// First token of each token's document.
    pub start: Tensor,
    /// One past the last token of each token's document.
    pub end: Tensor,
    /// State before the first token of each row (zero when absent).
    pub state_in: Option<Tensor>,
    /// Output.
    pub y: Tensor,
    /// States at chunk starts, kept for the backward pass.
    pub states: Tensor,
    /// State after the last token of each row.
    pub state_out: Option<Tensor>,
}

impl Operation for SsdScanFwd {
    const NAME: &'static str = "ssd_scan_fwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        visit("x", self.x, Access::Read);
        visit("b", self.b, Access::Read);
        visit("c", self.c, Access::Read);
        visit("delta", self.delta, Access::Read);
        visit("a_log", self.a_log, Access::Read);
        visit("d", self.d, Access::Read);
        visit("start", self.start, Access::Read);
        visit("end", self.end, Access::Read);
        if let Some(t) = self.state_in {
            visit("state_in", t, Access::Read);
        }
        visit("y", self.y, Access::Write);
        visit("states", self.states, Access::Write);
        if let Some(t) = self.state_out {
            visit("state_out", t, Access::Write);
        }
    }
    fn dtype(&self) -> DType {
        self.y.dtype
    }
    fn flops(&self) -> u64 {
        self.shape.scan_flops(self.x.rows, 2, 1)
    }
    fn cpu_scratch(&self) -> usize {
        let s = &self.shape;
        let (q, w) = (s.chunk.min(s.row_len.max(1)), s.group_heads() * s.head_dim);
        2 * q * s.state + 2 * q * q + 3 * q * w + q + w * s.state
    }
    fn gpu_scratch(&self) -> usize {
        // The logarithms of the decays; the naive kernels keep the running states of the rows there.
        let (s, tokens) = (&self.shape, self.x.rows);
        (tokens * s.heads).max(s.rows(tokens) * s.state_elements()) * size_of::<f32>()
    }
}

/// Takes the next `n` elements of the scratch memory.
fn take<'s, R>(rest: &mut &'s mut [R], n: usize) -> &'s mut [R] {
    let (head, tail) = core::mem::take(rest).split_at_mut(n);
    *rest = tail;
    head
}

/// The piece that starts at token `s`: up to the next chunk boundary of the row or the end of the document.
fn piece_at(s: usize, row: &Range<usize>, chunk: usize, end: &[i32]) -> Range<usize> {
    let boundary = row.start + ((s - row.start) / chunk + 1) * chunk;
    s..boundary.min(row.end).min(end[s] as usize)
}

simd_fn! {
    /// Inclusive sums of `delta_k a` over a piece, for one head.
    fn log_decays<R: Real>(delta: Mat<'_, R>, head: usize, a: R, l: &mut [R]) {
        let mut sum = R::ZERO;
        for (i, l) in l.iter_mut().enumerate() {
            sum += delta.row(i)[head] * a;
            *l = sum;
        }
    }
}

simd_fn! {
    /// `m_ij = cb_ij e^{l_i - l_j}` for j <= i, 0 above the diagonal.
    fn decayed_scores<R: Real>(cb: &[R], l: &[R], m: &mut [R]) {
        let q = l.len();
        for i in 0..q {
            let (row, li) = (&mut m[i * q..(i + 1) * q], l[i]);
            for j in 0..=i {
                row[j] = cb[i * q + j] * (li - l[j]).exp();
            }
            row[i + 1..].fill(R::ZERO);
        }
    }
}

simd_fn! {
    /// `row *= factor`.
    fn scale<R: Real>(factor: R, row: &mut [R]) {
        for v in row {
            *v *= factor;
        }
    }
}

simd_fn! {
    /// `y = factor * x`.
    fn scaled_copy<R: Real>(factor: R, x: &[R], y: &mut [R]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = factor * *x;
        }
    }
}

simd_fn! {
    /// `y += factor * x`.
    fn axpy<R: Real>(factor: R, x: &[R], y: &mut [R]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y += factor * *x;
        }
    }
}

simd_fn! {
    fn dot_rows<R: Real>(a: &[R], b: &[R]) -> R {
        dot(a, b)
    }
}

impl CpuKernel for SsdScanFwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let s = self.shape;
        let (x, b, c) = (cpu.read::<A>(self.x), cpu.read::<A>(self.b), cpu.read::<A>(self.c));
        let delta = cpu.read::<A::Acc>(self.delta);
        let (a_log, d) = (cpu.read::<A::Acc>(self.a_log).row(0), cpu.read::<A::Acc>(self.d).row(0));
        let (start, end) = (cpu.read_i32(self.start).as_slice(), cpu.read_i32(self.end).as_slice());
        let state_in = self.state_in.map(|t| cpu.read::<A::Acc>(t));
        let block = s.row_len.max(1);
        let out = (
            cpu.write::<A>(self.y),
            PerBlock::new(cpu.write::<A::Acc>(self.states), block, s.chunks()),
            self.state_out.map(|t| PerBlock::new(cpu.write::<A::Acc>(t), block, 1)),
        );
        // The heads of a group lie side by side: w channels.
        let (hg, p, n) = (s.group_heads(), s.head_dim, s.state);
        let w = hg * p;
        let (zero, one) = (A::Acc::ZERO, A::Acc::ONE);
        cpu.workers.grid::<A::Acc, _>(x.rows, block, s.groups, out, |work, (mut y, mut states, state_out), scratch| {
            let (row, g) = (work.rows.clone(), work.part);
            let (wide, narrow) = (g * w..(g + 1) * w, g * n..(g + 1) * n);
            let q = s.chunk.min(s.row_len);
            let mut rest = scratch;
            let (bw, cw) = (take(&mut rest, q * n), take(&mut rest, q * n));
            let (cb, m) = (take(&mut rest, q * q), take(&mut rest, q * q));
            let (xw, xd, yw) = (take(&mut rest, q * w), take(&mut rest, q * w), take(&mut rest, q * w));
            let (l, state) = (take(&mut rest, q), take(&mut rest, w * n));
            match &state_in {
                Some(initial) => state.copy_from_slice(&initial.row(work.block)[g * w * n..(g + 1) * w * n]),
                None => state.fill(zero),
            }
            let mut t = row.start;
            while t < row.end {
                let piece = piece_at(t, &row, s.chunk, end);
                let (q, local) = (piece.len(), t - row.start);
                if start[t] as usize == t && (t > row.start || state_in.is_none()) {
                    state.fill(zero);
                }
                if local % s.chunk == 0 {
                    states.mat.row_mut(local / s.chunk).copy_from_slice(state);
                }
                let (bw, cw, l) = (&mut bw[..q * n], &mut cw[..q * n], &mut l[..q]);
                let (cb, m) = (&mut cb[..q * q], &mut m[..q * q]);
                let (xw, xd, yw) = (&mut xw[..q * w], &mut xd[..q * w], &mut yw[..q * w]);
                widen_matrix(b.row_range(piece.clone()).col_range(narrow.clone()), bw);
                widen_matrix(c.row_range(piece.clone()).col_range(narrow.clone()), cw);
                widen_matrix(x.row_range(piece.clone()).col_range(wide.clone()), xw);
                let (bm, cm, dt) = (Mat::new(bw, q, n), Mat::new(cw, q, n), delta.row_range(piece.clone()));
                gemm(Form::NT, one, cm, bm, zero, &mut MatMut::new(cb, q, q));
                // y = e^l (C S_in^T) for all heads, then the pairs of the piece, head by head.
                gemm(Form::NT, one, cm, Mat::new(state, w, n), zero, &mut MatMut::new(yw, q, w));
                for i in 0..hg {
                    let (h, own) = (g * hg + i, i * p..(i + 1) * p);
                    log_decays(dt, h, -a_log[h].exp(), l);
                    decayed_scores(cb, l, m);
                    for k in 0..q {
                        let r = k * w + own.start..k * w + own.end;
                        scaled_copy(dt.row(k)[h], &xw[r.clone()], &mut xd[r.clone()]);
                        scale(l[k].exp(), &mut yw[r]);
                    }
                    let pairs = Mat::new(xd, q, w).col_range(own.clone());
                    let mut ym = MatMut::new(yw, q, w);
                    gemm(Form::NN, one, Mat::new(m, q, q), pairs, one, &mut ym.col_range(own.clone()));
                    let last = l[q - 1];
                    for k in 0..q {
                        let r = k * w + own.start..k * w + own.end;
                        axpy(d[h], &xw[r.clone()], &mut yw[r.clone()]);
                        scale((last - l[k]).exp(), &mut xd[r]);
                    }
                    scale(last.exp(), &mut state[own.start * n..own.end * n]);
                }
                // S_out = e^{l_q} S_in + (e^{l_q - l} xd)^T B.
                gemm(Form::TN, one, Mat::new(xd, q, w), bm, one, &mut MatMut::new(state, w, n));
                for (k, yr) in yw.chunks_exact(w).enumerate() {
                    simd::narrow(yr, y.row_mut(local + k));
                }
                t = piece.end;
            }
            if let Some(mut out) = state_out {
                out.mat.row_mut(0).copy_from_slice(state);
            }
        });
    }
}

/// Gradients of the scan.
#[derive(Debug, Clone)]
pub struct SsdScanBwd {
    /// The forward operation (its inputs and kept states).
    pub fwd: SsdScanFwd,
    /// Gradient of the output.
    pub dy: Tensor,
    /// Gradient of the state after the last token (zero when absent).
    pub dstate_out: Option<Tensor>,
    /// Gradient of the input channels.
    pub dx: Tensor,
    /// Gradient of B.
    pub db: Tensor,
    /// Gradient of C.
    pub dc: Tensor,
    /// Gradient of the time steps.
    pub ddelta: Tensor,
    /// Gradient of `a_log`.
    pub da_log: Tensor,
    /// Gradient of `d`.
    pub dd: Tensor,
    /// Add to `da_log` and `dd` instead of overwriting them.
    pub accumulate: bool,
    /// Gradient of the state before the first token.
    pub dstate_in: Option<Tensor>,
    /// Workspace.
    pub partial_a: Tensor,
    /// Workspace.
    pub partial_d: Tensor,
}

impl Operation for SsdScanBwd {
    const NAME: &'static str = "ssd_scan_bwd";
    fn operands(&self, visit: &mut dyn FnMut(&'static str, Tensor, Access)) {
        let f = &self.fwd;
        visit("dy", self.dy, Access::Read);
        visit("x", f.x, Access::Read);
        visit("b", f.b, Access::Read);
        visit("c", f.c, Access::Read);
        visit("delta", f.delta, Access::Read);
        visit("a_log", f.a_log, Access::Read);
        visit("d", f.d, Access::Read);
        visit("start", f.start, Access::Read);
        visit("end", f.end, Access::Read);
        visit("states", f.states, Access::Read);
        if let Some(t) = f.state_in {
            visit("state_in", t, Access::Read);
        }
        if let Some(t) = self.dstate_out {
            visit("dstate_out", t, Access::Read);
        }
        visit("dx", self.dx, Access::Write);
        visit("db", self.db, Access::Write);
        visit("dc", self.dc, Access::Write);
        visit("ddelta", self.ddelta, Access::Write);
        visit("da_log", self.da_log, Access::output(self.accumulate));
        visit("dd", self.dd, Access::output(self.accumulate));
        if let Some(t) = self.dstate_in {
            visit("dstate_in", t, Access::Write);
        }
        visit("partial_a", self.partial_a, Access::Write);
        visit("partial_d", self.partial_d, Access::Write);
    }
    fn dtype(&self) -> DType {
        self.dy.dtype
    }
    fn flops(&self) -> u64 {
        self.fwd.shape.scan_flops(self.dy.rows, 4, 2)
    }
    fn cpu_scratch(&self) -> usize {
        let s = &self.fwd.shape;
        let (q, w) = (s.chunk.min(s.row_len.max(1)), s.group_heads() * s.head_dim);
        4 * q * s.state + 4 * q * q + 5 * q * w + 3 * q + w * s.state
    }
    fn gpu_scratch(&self) -> usize {
        // The gradients of the states at chunk ends, sums of da_log and dd for each chunk, the logarithms of the decays and
        // their gradients.
        let (s, tokens) = (&self.fwd.shape, self.dy.rows);
        let chunks = s.rows(tokens) * s.chunks();
        (chunks * (s.state_elements() + 2 * s.heads) + tokens * s.heads) * size_of::<f32>() + self.fwd.gpu_scratch()
    }
}

simd_fn! {
    /// The pair matrices of one head of a piece. On entry `g` holds dy_i . x_j; it is used up. On return `k` holds
    /// (C_i.B_j) L_ij (0 above the diagonal), `w_sum` has W added, and `dl` has the row sums minus the column sums of
    /// W_ij (C_i.B_j) added.
    fn pair_gradients<R: Real>(g: &mut [R], cb: &[R], l: &[R], delta: &[R], k: &mut [R], w_sum: &mut [R], dl: &mut [R]) {
        let q = l.len();
        for i in 0..q {
            let (li, row) = (l[i], i * q..i * q + i + 1);
            let (gr, cr, wr) = (&mut g[row.clone()], &cb[row.clone()], &mut w_sum[row]);
            let kr = &mut k[i * q..(i + 1) * q];
            let (kl, ll, dt) = (&mut kr[..i + 1], &l[..i + 1], &delta[..i + 1]);
            for j in 0..=i {
                let decay = (li - ll[j]).exp();
                let w = gr[j] * decay * dt[j];
                kl[j] = cr[j] * decay;
                wr[j] += w;
                gr[j] = w * cr[j];
            }
            kr[i + 1..].fill(R::ZERO);
            // The diagonal is in both sums and cancels: leaving it out keeps its rounding errors out as well.
            gr[i] = R::ZERO;
            let mut acc = [R::ZERO; simd::LANES];
            for chunk in gr.chunks(simd::LANES) {
                for (a, m) in acc.iter_mut().zip(chunk) {
                    *a += *m;
                }
            }
            for (d, m) in dl.iter_mut().zip(gr.iter()) {
                *d -= *m;
            }
            dl[i] += simd::fold(acc);
        }
    }
}

impl CpuKernel for SsdScanBwd {
    fn run<A: Element>(&self, cpu: &Cpu<'_>) {
        let (f, s) = (&self.fwd, self.fwd.shape);
        let (x, b, c) = (cpu.read::<A>(f.x), cpu.read::<A>(f.b), cpu.read::<A>(f.c));
        let (dy, delta) = (cpu.read::<A>(self.dy), cpu.read::<A::Acc>(f.delta));
        let (a_log, d) = (cpu.read::<A::Acc>(f.a_log).row(0), cpu.read::<A::Acc>(f.d).row(0));
        let (start, end) = (cpu.read_i32(f.start).as_slice(), cpu.read_i32(f.end).as_slice());
        let (states, state_in) = (cpu.read::<A::Acc>(f.states), f.state_in.is_some());
        let dstate_out = self.dstate_out.map(|t| cpu.read::<A::Acc>(t));
        let block = s.row_len.max(1);
        let (mut partial_a, mut partial_d) = (cpu.write::<A::Acc>(self.partial_a), cpu.write::<A::Acc>(self.partial_d));
        let activations = (cpu.write::<A>(self.dx), cpu.write::<A>(self.db), cpu.write::<A>(self.dc));
        let sums = (PerBlock::new(partial_a.reborrow(), block, 1), PerBlock::new(partial_d.reborrow(), block, 1));
        let dstate_in = self.dstate_in.map(|t| PerBlock::new(cpu.write::<A::Acc>(t), block, 1));
        let out = (activations, cpu.write::<A::Acc>(self.ddelta), sums, dstate_in);
        let (hg, p, n) = (s.group_heads(), s.head_dim, s.state);
        let w = hg * p;
        let (zero, one) = (A::Acc::ZERO, A::Acc::ONE);
        cpu.workers.grid::<A::Acc, _>(x.rows, block, s.groups, out, |work, out, scratch| {
            let ((mut dx, mut db, mut dc), mut ddelta, (mut sum_a, mut sum_d), dstate_in) = out;
            let (row, g) = (work.rows.clone(), work.part);
            let (wide, narrow) = (g * w..(g + 1) * w, g * n..(g + 1) * n);
            let q = s.chunk.min(s.row_len);
            let mut rest = scratch;
            let (bw, cw) = (take(&mut rest, q * n), take(&mut rest, q * n));
            let (dbw, dcw) = (take(&mut rest, q * n), take(&mut rest, q * n));
            let (cb, gm) = (take(&mut rest, q * q), take(&mut rest, q * q));
            let (km, wm) = (take(&mut rest, q * q), take(&mut rest, q * q));
            let (xw, dyw, dxd) = (take(&mut rest, q * w), take(&mut rest, q * w), take(&mut rest, q * w));
            let (tp, z) = (take(&mut rest, q * w), take(&mut rest, q * w));
            let (l, dl, dt) = (take(&mut rest, q), take(&mut rest, q), take(&mut rest, q));
            let grads = take(&mut rest, w * n);
            let (sum_a, sum_d) = (sum_a.mat.row_mut(0), sum_d.mat.row_mut(0));
            sum_a.fill(zero);
            sum_d.fill(zero);
            match &dstate_out {
                Some(last) => grads.copy_from_slice(&last.row(work.block)[g * w * n..(g + 1) * w * n]),
                None => grads.fill(zero),
            }
            let mut stop = row.end;
            while stop > row.start {
                // The piece that ends at `stop`: back to the last chunk boundary or the start of the document.
                let boundary = row.start + (stop - 1 - row.start) / s.chunk * s.chunk;
                let t = boundary.max(start[stop - 1] as usize);
                let piece = t..stop;
                debug_assert_eq!(piece_at(t, &row, s.chunk, end), piece);
                let (q, local) = (piece.len(), t - row.start);
                let (bw, cw) = (&mut bw[..q * n], &mut cw[..q * n]);
                let (dbw, dcw) = (&mut dbw[..q * n], &mut dcw[..q * n]);
                let (cb, gm) = (&mut cb[..q * q], &mut gm[..q * q]);
                let (km, wm) = (&mut km[..q * q], &mut wm[..q * q]);
                let (xw, dyw, dxd) = (&mut xw[..q * w], &mut dyw[..q * w], &mut dxd[..q * w]);
                let (tp, z) = (&mut tp[..q * w], &mut z[..q * w]);
                let (l, dl, dt) = (&mut l[..q], &mut dl[..q], &mut dt[..q]);
                widen_matrix(b.row_range(piece.clone()).col_range(narrow.clone()), bw);
                widen_matrix(c.row_range(piece.clone()).col_range(narrow.clone()), cw);
                widen_matrix(x.row_range(piece.clone()).col_range(wide.clone()), xw);
                widen_matrix(dy.row_range(piece.clone()).col_range(wide.clone()), dyw);
                let (bm, cm) = (Mat::new(bw, q, n), Mat::new(cw, q, n));
                // S_in of all heads; none at the start of a document.
                let fresh = start[t] as usize == t && !(state_in && t == row.start);
                let slot = work.block * s.chunks() + local / s.chunk;
                let state = (!fresh).then(|| &states.row(slot)[g * w * n..(g + 1) * w * n]);
                // z = S_in C and tp = G B for all heads.
                match state {
                    Some(state) => gemm(Form::NT, one, cm, Mat::new(state, w, n), zero, &mut MatMut::new(z, q, w)),
                    None => z.fill(zero),
                }
                gemm(Form::NT, one, bm, Mat::new(grads, w, n), zero, &mut MatMut::new(tp, q, w));
                gemm(Form::NT, one, cm, bm, zero, &mut MatMut::new(cb, q, q));
                wm.fill(zero);
                for i in 0..hg {
                    let (h, own) = (g * hg + i, i * p..(i + 1) * p);
                    let a = -a_log[h].exp();
                    for (k, v) in dt.iter_mut().enumerate() {
                        *v = delta.row(t + k)[h];
                    }
                    log_decays(delta.row_range(piece.clone()), h, a, l);
                    let last = l[q - 1];
                    let xm = Mat::new(xw, q, w).col_range(own.clone());
                    let dym = Mat::new(dyw, q, w).col_range(own.clone());
                    gemm(Form::NT, one, dym, xm, zero, &mut MatMut::new(gm, q, q));
                    dl.fill(zero);
                    pair_gradients(gm, cb, l, dt, km, wm, dl);
                    // dxd: pairs of the piece, then what flows through S_out.
                    let mut dxm = MatMut::new(dxd, q, w);
                    gemm(Form::TN, one, Mat::new(km, q, q), dym, zero, &mut dxm.col_range(own.clone()));
                    let mut through = zero;
                    for k in 0..q {
                        let r = k * w + own.start..k * w + own.end;
                        let (behind, before) = ((last - l[k]).exp(), l[k].exp());
                        let (xr, dyr) = (&xw[r.clone()], &dyw[r.clone()]);
                        let u = dt[k] * behind * dot_rows(xr, &tp[r.clone()]);
                        // The last token's term would be subtracted and added.
                        if k + 1 < q {
                            dl[k] -= u;
                            through += u;
                        }
                        dl[k] += before * dot_rows(dyr, &z[r.clone()]);
                        axpy(behind, &tp[r.clone()], &mut dxd[r.clone()]);
                        // From here on tp holds e^{l_q - l} xd, and z holds e^l dy.
                        scaled_copy(dt[k] * behind, xr, &mut tp[r.clone()]);
                        scaled_copy(before, dyr, &mut z[r]);
                    }
                    let rows = own.start * n..own.end * n;
                    let overlap = state.map_or(zero, |state| dot_rows(&state[rows.clone()], &grads[rows]));
                    dl[q - 1] += last.exp() * overlap + through;
                    // dx, ddelta and the sums over tokens.
                    let mut r = zero;
                    for k in (0..q).rev() {
                        r += dl[k];
                        let e = k * w + own.start..k * w + own.end;
                        let (xr, dyr, dxr) = (&xw[e.clone()], &dyw[e.clone()], &dxd[e]);
                        ddelta.row_mut(local + k)[i] = dot_rows(xr, dxr) + a * r;
                        sum_a[i] += a * (dt[k] * r);
                        sum_d[i] += dot_rows(xr, dyr);
                        input_gradient(dt[k], dxr, d[h], dyr, &mut dx.row_mut(local + k)[own.clone()]);
                    }
                }
                // dC through S_in, dB through S_out, then the pairs of all heads; last G_in.
                match state {
                    Some(s) => {
                        gemm(Form::NN, one, Mat::new(z, q, w), Mat::new(s, w, n), zero, &mut MatMut::new(dcw, q, n))
                    }
                    None => dcw.fill(zero),
                }
                gemm(Form::NN, one, Mat::new(tp, q, w), Mat::new(grads, w, n), zero, &mut MatMut::new(dbw, q, n));
                gemm(Form::NN, one, Mat::new(wm, q, q), bm, one, &mut MatMut::new(dcw, q, n));
                gemm(Form::TN, one, Mat::new(wm, q, q), cm, one, &mut MatMut::new(dbw, q, n));
                for k in 0..q {
                    simd::narrow(&dbw[k * n..(k + 1) * n], db.row_mut(local + k));
                    simd::narrow(&dcw[k * n..(k + 1) * n], dc.row_mut(local + k));
                }
                if fresh && t > row.start {
                    grads.fill(zero);
                } else {
                    for i in 0..hg {
                        let h = g * hg + i;
                        log_decays(delta.row_range(piece.clone()), h, -a_log[h].exp(), l);
                        scale(l[q - 1].exp(), &mut grads[i * p * n..(i + 1) * p * n]);
                    }
                    gemm(Form::TN, one, Mat::new(z, q, w), cm, one, &mut MatMut::new(grads, w, n));
                }
                stop = t;
            }
            if let Some(mut out) = dstate_in {
                out.mat.row_mut(0).copy_from_slice(grads);
            }
        });
        let rows = x.rows.checked_div(s.row_len).unwrap_or(0);
        sum_blocks(cpu, partial_a, rows, self.da_log, self.accumulate);
        sum_blocks(cpu, partial_d, rows, self.dd, self.accumulate);
    }
}

simd_fn! {
    /// `dx = dt dxd + d dy`, rounded.
    fn input_gradient<A: Element>(dt: A::Acc, dxd: &[A::Acc], d: A::Acc, dy: &[A::Acc], dx: &mut [A]) {
        for ((o, v), e) in dx.iter_mut().zip(dxd).zip(dy) {
            *o = A::narrow(dt * *v + d * *e);
        }
    }
}
