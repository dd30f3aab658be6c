//! The mixture-of-experts router: csrc/moe/router*.cu.

use super::GpuKernel;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{RouterBwd, RouterFwd, RouterLogits};
use crate::tensor::Tensor;
use alloc::format;
use kernels_sys::{RouteParams, RouterBwdParams, RouterNoiseParams, RouterProductParams, RouterStatsParams};

/// Experts that the kernels have room for (`kMaxExperts`).
const MAX_EXPERTS: usize = 1024;
/// Tokens of a partial sum of the statistics (`kChunk`).
const CHUNK: usize = 64;
/// Tokens of a block of the kernels that give each token a warp.
const WARPS: usize = 4;

/// Rows of tokens, and chunks of a row.
fn rows_of(op: &RouterFwd) -> (usize, usize) {
    let row_len = op.row_len.max(1);
    (op.x.rows / row_len, row_len.div_ceil(CHUNK))
}

/// Byte offsets of the workspace's parts.
struct Workspace {
    total: usize,
    plain: usize,
    part_q: usize,
    part_count: usize,
    part_plain: usize,
    part_tokens: usize,
    bytes: usize,
}

impl Workspace {
    fn of(op: &RouterFwd) -> Self {
        let (rows, chunks) = rows_of(op);
        let (tokens, experts, parts) = (op.x.rows, op.w.rows, rows * chunks);
        let of_aux = usize::from(op.aux.is_some());
        let mut bytes = 0;
        let mut next = |elements: usize| {
            let start = bytes;
            bytes += 4 * elements;
            start
        };
        let (total, plain) = (next(of_aux * tokens), next(of_aux * tokens * op.top_k));
        let part_q = next(of_aux * parts * experts);
        let (part_count, part_plain) = (next(parts * experts), next(of_aux * parts * experts));
        let part_tokens = next(parts);
        Self { total, plain, part_q, part_count, part_plain, part_tokens, bytes }
    }
}

/// Bytes of workspace of the router's forward pass: scores and selections for the auxiliary loss, partial counts.
pub(crate) fn router_fwd_scratch(op: &RouterFwd) -> usize {
    Workspace::of(op).bytes
}

/// Adds the launch of a product `c (+)= a b` with `k` terms; the kernel says which operand is transposed.
fn product(
    gpu: &mut Lowering<'_>,
    kernel: &str,
    (a, b, c): (Tensor, Tensor, Tensor),
    k: usize,
    accumulate: bool,
) -> Result<(), CoreError> {
    let params = RouterProductParams {
        a: gpu.address(a),
        b: gpu.address(b),
        c: gpu.address(c),
        a_stride: a.ld as i64,
        b_stride: b.ld as i64,
        c_stride: c.ld as i64,
        m: c.rows as i64,
        n: c.cols as i64,
        k: k as i64,
        accumulate: i32::from(accumulate),
        reserved: 0,
    };
    gpu.launch(kernel, (c.rows.div_ceil(32), c.cols.div_ceil(32)), params)
}

impl GpuKernel for RouterFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let (tokens, experts, k) = (self.x.rows, self.w.rows, self.top_k);
        if !(1..=MAX_EXPERTS).contains(&experts) || !(1..=experts).contains(&k) {
            return Err(CoreError::Shape {
                what: "router on the GPU device".into(),
                expected: format!("1 to {MAX_EXPERTS} experts, and 1 to that many of them per token"),
                found: format!("{k} of {experts} experts; use --device cpu"),
            });
        }
        let forced = match &self.source {
            RouterLogits::Noise(stream, counter) => {
                let params = RouterNoiseParams {
                    counter: gpu.address(*counter),
                    logits: gpu.address(self.logits),
                    stream: *stream,
                    logits_stride: self.logits.ld as i64,
                    t: tokens as i64,
                    e: experts as i32,
                    reserved: 0,
                };
                gpu.launch("router_noise", (tokens * experts).div_ceil(256), params)?;
                None
            }
            source => {
                let kernel = format!("router_logits_{}", self.x.dtype);
                product(gpu, &kernel, (self.x, self.w, self.logits), self.x.cols, false)?;
                if let RouterLogits::Forced(idx) = source { Some(*idx) } else { None }
            }
        };
        let workspace = Workspace::of(self);
        let scratch = gpu.scratch(workspace.bytes);
        let part = |offset: usize| scratch + offset as u64;
        let of_aux = |offset: usize| if self.aux.is_some() { part(offset) } else { 0 };
        let (plain, total) = (of_aux(workspace.plain), of_aux(workspace.total));
        let params = RouteParams {
            logits: gpu.address(self.logits),
            bias: gpu.address(self.bias),
            forced: gpu.optional(forced),
            idx: gpu.address(self.idx),
            weight: gpu.address(self.weight),
            plain,
            total,
            logits_stride: self.logits.ld as i64,
            forced_stride: forced.map_or(0, |f| f.ld as i64),
            idx_stride: self.idx.ld as i64,
            weight_stride: self.weight.ld as i64,
            t: tokens as i64,
            e: experts as i32,
            k: k as i32,
            scale: self.scale as f32,
            normalize: i32::from(self.normalize),
        };
        gpu.launch("router_select", tokens.div_ceil(WARPS), params)?;
        let (rows, chunks) = rows_of(self);
        let aux = self.aux.as_ref();
        let params = RouterStatsParams {
            logits: gpu.address(self.logits),
            idx: gpu.address(self.idx),
            plain,
            total,
            padding: gpu.optional(self.padding),
            part_q: of_aux(workspace.part_q),
            part_count: part(workspace.part_count),
            part_plain: of_aux(workspace.part_plain),
            part_tokens: part(workspace.part_tokens),
            row_counts: gpu.address(self.row_counts),
            counts: gpu.optional(self.counts),
            stats: gpu.optional(aux.map(|a| a.stats)),
            metric: gpu.optional(aux.map(|a| a.metric)),
            coefficient: aux.map_or(0.0, |a| a.coefficient),
            logits_stride: self.logits.ld as i64,
            idx_stride: self.idx.ld as i64,
            row_counts_stride: self.row_counts.ld as i64,
            stats_stride: aux.map_or(0, |a| a.stats.ld as i64),
            rows: rows as i64,
            row_len: self.row_len.max(1) as i64,
            chunks: chunks as i64,
            e: experts as i32,
            k: k as i32,
        };
        gpu.launch("router_part", rows * chunks, params)?;
        gpu.launch("router_rows", rows, params)?;
        let totals = usize::from(self.counts.is_some() || self.aux.is_some());
        gpu.launch("router_totals", totals, params)
    }
}

impl GpuKernel for RouterBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let f = &self.fwd;
        let (tokens, experts) = (f.x.rows, f.w.rows);
        let (rows, _) = rows_of(f);
        let aux = f.aux.as_ref();
        let params = RouterBwdParams {
            logits: gpu.address(f.logits),
            idx: gpu.address(f.idx),
            weight: gpu.address(f.weight),
            dweight: gpu.address(self.dweight),
            padding: gpu.optional(f.padding),
            stats: gpu.optional(aux.map(|a| a.stats)),
            dlogits: gpu.address(self.dlogits),
            logits_stride: f.logits.ld as i64,
            idx_stride: f.idx.ld as i64,
            weight_stride: f.weight.ld as i64,
            dweight_stride: self.dweight.ld as i64,
            stats_stride: aux.map_or(0, |a| a.stats.ld as i64),
            dlogits_stride: self.dlogits.ld as i64,
            rows: rows as i64,
            row_len: f.row_len.max(1) as i64,
            t: tokens as i64,
            e: experts as i32,
            k: f.top_k as i32,
            scale: f.scale as f32,
            coefficient: aux.map_or(0.0, |a| a.coefficient / rows.max(1) as f64) as f32,
            share: aux.and_then(|a| a.micro_batches).map_or(0.0, |n| 1.0 / n as f64) as f32,
            normalize: i32::from(f.normalize),
        };
        gpu.launch("router_dlogits", tokens.div_ceil(WARPS), params)?;
        let kernel = format!("router_dx_{}", self.dx.dtype);
        product(gpu, &kernel, (self.dlogits, f.w, self.dx), experts, true)?;
        if let Some(dw) = self.dw {
            let kernel = format!("router_dw_{}", dw.dtype);
            product(gpu, &kernel, (self.dlogits, f.x, dw), tokens, self.accumulate)?;
        }
        Ok(())
    }
}
