//! The chunked scan: csrc/mamba/ssd_states.cu, ssd_scan_fwd.cu, ssd_scan_bwd_x.cu, ssd_scan_bwd_bc.cu.

use super::GpuKernel;
use super::reduce::sum_blocks_at;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{SsdScanBwd, SsdScanFwd};
use crate::program::Operation;
use kernels_sys::{SsdScanBwdParams, SsdScanFwdParams};

/// Tokens, head channels and states of a tile.
const TILE: usize = 64;
/// Threads of the kernels that take one head of one chunk, or one element of the states.
const HEAD_THREADS: usize = 128;
const ELEMENT_THREADS: usize = 256;

impl SsdScanFwd {
    /// Chunks of all rows, and heads of all these chunks.
    fn grids(&self) -> (usize, usize) {
        let chunks = self.shape.rows(self.x.rows) * self.shape.chunks();
        (chunks, chunks * self.shape.heads)
    }

    /// The parameters of both passes.
    fn params(&self, gpu: &Lowering<'_>, log_decay: u64) -> SsdScanFwdParams {
        let s = &self.shape;
        let stride = |t: Option<crate::tensor::Tensor>| t.map_or(0, |t| t.ld as i64);
        SsdScanFwdParams {
            x: gpu.address(self.x),
            b: gpu.address(self.b),
            c: gpu.address(self.c),
            delta: gpu.address(self.delta),
            a_log: gpu.address(self.a_log),
            d: gpu.address(self.d),
            start: gpu.address(self.start),
            state_in: gpu.optional(self.state_in),
            y: gpu.address(self.y),
            states: gpu.address(self.states),
            state_out: gpu.optional(self.state_out),
            log_decay,
            x_stride: self.x.ld as i64,
            b_stride: self.b.ld as i64,
            c_stride: self.c.ld as i64,
            delta_stride: self.delta.ld as i64,
            state_in_stride: stride(self.state_in),
            y_stride: self.y.ld as i64,
            states_stride: self.states.ld as i64,
            state_out_stride: stride(self.state_out),
            rows: s.rows(self.x.rows) as i64,
            row_len: s.row_len as i32,
            chunk: s.chunk as i32,
            heads: s.heads as i32,
            head_dim: s.head_dim as i32,
            state: s.state as i32,
            groups: s.groups as i32,
        }
    }
}

impl GpuKernel for SsdScanFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let (s, dtype) = (self.shape, self.y.dtype);
        let p = self.params(gpu, gpu.scratch(self.gpu_scratch()));
        if gpu.naive() {
            let channels = p.rows as usize * s.heads * s.head_dim;
            return gpu.launch_for("ssd_scan_fwd_naive", dtype, channels.div_ceil(128), p);
        }
        let (_, heads) = self.grids();
        let (tokens, channels, states) =
            (s.chunk.min(s.row_len).div_ceil(TILE), s.head_dim.div_ceil(TILE), s.state.div_ceil(TILE));
        let elements = (p.rows as usize * s.state_elements()).div_ceil(ELEMENT_THREADS);
        gpu.launch("ssd_log_decay", heads.div_ceil(HEAD_THREADS), p)?;
        gpu.launch_for("ssd_chunk_states", dtype, (heads, channels * states), p)?;
        gpu.launch("ssd_state_pass", elements, p)?;
        gpu.launch_for("ssd_scan_fwd", dtype, (heads, tokens * channels), p)
    }
}

impl GpuKernel for SsdScanBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let (s, dtype, tokens) = (self.fwd.shape, self.dy.dtype, self.dy.rows);
        let (chunks, heads) = self.fwd.grids();
        // The parts of the workspace, one after the other.
        let mut next = gpu.scratch(self.gpu_scratch());
        let mut take = |elements: usize| {
            let address = next;
            next += (elements * size_of::<f32>()) as u64;
            address
        };
        let dstates = take(chunks * s.state_elements());
        let (da_partial, dd_partial) = (take(heads), take(heads));
        let (log_decay, dlog_decay) = (take(self.fwd.gpu_scratch() / size_of::<f32>()), take(tokens * s.heads));
        let stride = |t: Option<crate::tensor::Tensor>| t.map_or(0, |t| t.ld as i64);
        let p = SsdScanBwdParams {
            // What only the forward pass writes may be gone.
            fwd: SsdScanFwdParams { y: 0, state_out: 0, ..self.fwd.params(gpu, log_decay) },
            dy: gpu.address(self.dy),
            dstate_out: gpu.optional(self.dstate_out),
            dx: gpu.address(self.dx),
            db: gpu.address(self.db),
            dc: gpu.address(self.dc),
            ddelta: gpu.address(self.ddelta),
            dstate_in: gpu.optional(self.dstate_in),
            dstates,
            dlog_decay,
            da_partial,
            dd_partial,
            dy_stride: self.dy.ld as i64,
            dstate_out_stride: stride(self.dstate_out),
            dx_stride: self.dx.ld as i64,
            db_stride: self.db.ld as i64,
            dc_stride: self.dc.ld as i64,
            ddelta_stride: self.ddelta.ld as i64,
            dstate_in_stride: stride(self.dstate_in),
        };
        if gpu.naive() {
            let rows = p.fwd.rows as usize;
            gpu.launch_for("ssd_scan_bwd_naive", dtype, (rows * s.groups).div_ceil(128), p)?;
            sum_blocks_at(gpu, da_partial, (rows, s.heads), self.da_log, self.accumulate)?;
            return sum_blocks_at(gpu, dd_partial, (rows, s.heads), self.dd, self.accumulate);
        }
        let (tiles, channels, states) =
            (s.chunk.min(s.row_len).div_ceil(TILE), s.head_dim.div_ceil(TILE), s.state.div_ceil(TILE));
        let elements = (p.fwd.rows as usize * s.state_elements()).div_ceil(ELEMENT_THREADS);
        gpu.launch("ssd_log_decay", heads.div_ceil(HEAD_THREADS), p.fwd)?;
        gpu.launch_for("ssd_chunk_state_gradients", dtype, (heads, channels * states), p)?;
        gpu.launch("ssd_state_gradient_pass", elements, p)?;
        gpu.launch_for("ssd_scan_bwd_x", dtype, heads, p)?;
        gpu.launch("ssd_scan_bwd_time_steps", heads.div_ceil(HEAD_THREADS), p)?;
        gpu.launch_for("ssd_scan_bwd_c", dtype, (chunks * s.groups, tiles * states), p)?;
        gpu.launch_for("ssd_scan_bwd_b", dtype, (chunks * s.groups, tiles * states), p)?;
        sum_blocks_at(gpu, da_partial, (chunks, s.heads), self.da_log, self.accumulate)?;
        sum_blocks_at(gpu, dd_partial, (chunks, s.heads), self.dd, self.accumulate)
    }
}
