//! Linear head and cross entropy: csrc/loss/, with the products of csrc/gemm/.

use super::GpuKernel;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::gpu::gemm::Product;
use crate::ops::{LinearCrossEntropy, LossHead, LossScale};
use kernels_sys::{LossMetricParams, LossRowsParams, LossScaleParams};

/// Where a head's scale, its number of tokens and its hits lie in the workspace.
struct HeadState {
    scale: u64,
    tokens: u64,
    hit: u64,
}

impl HeadState {
    const HIT_OFFSET: usize = 16;

    fn bytes(rows: usize) -> usize {
        Self::HIT_OFFSET + rows * size_of::<i32>()
    }

    fn new(gpu: &Lowering<'_>, rows: usize) -> Self {
        let base = gpu.scratch(Self::bytes(rows));
        Self { scale: base, tokens: base + 4, hit: base + Self::HIT_OFFSET as u64 }
    }
}

/// Bytes of workspace of the operation.
pub(crate) fn linear_cross_entropy_scratch(op: &LinearCrossEntropy) -> usize {
    op.heads.iter().map(|head| HeadState::bytes(head.h.rows)).max().unwrap_or(0)
}

impl LinearCrossEntropy {
    fn scale(&self, gpu: &mut Lowering<'_>, head: &LossHead, state: &HeadState) -> Result<(), CoreError> {
        let lm = &self.heads[0];
        let params = LossScaleParams {
            mask: gpu.address(head.mask),
            lm_mask: gpu.address(lm.mask),
            tokens: state.tokens,
            scale: state.scale,
            t: head.h.rows as i64,
            lm_t: lm.h.rows as i64,
            factor: head.factor,
            share: match self.scale {
                LossScale::MeanOfMeans(micro_batches) => 1.0 / micro_batches as f64,
                LossScale::PerToken => 0.0,
            },
        };
        gpu.launch("linear_cross_entropy_scale", 1, params)
    }

    /// Losses of tokens `first .. first + rows`, and their gradients in place of the logits.
    fn rows(
        &self,
        gpu: &mut Lowering<'_>,
        head: &LossHead,
        state: &HeadState,
        (first, rows): (usize, usize),
    ) -> Result<(), CoreError> {
        let logits = self.logits;
        let params = LossRowsParams {
            logits: gpu.address(logits),
            label: gpu.address(head.label.flat().columns(first, rows)),
            mask: gpu.address(head.mask.flat().columns(first, rows)),
            scale: state.scale,
            ce: gpu.address(head.ce.flat().columns(first, rows)),
            hit: state.hit + (first * size_of::<i32>()) as u64,
            stride: logits.ld as i64,
            rows: rows as i64,
            v: logits.cols as i32,
            with_gradient: i32::from(head.dh.is_some()),
        };
        if gpu.naive() {
            return gpu.launch_for("linear_cross_entropy_rows_naive", logits.dtype, rows.div_ceil(128), params);
        }
        gpu.launch_for("linear_cross_entropy_rows", logits.dtype, rows, params)
    }

    fn metric(&self, gpu: &mut Lowering<'_>, head: &LossHead, state: &HeadState) -> Result<(), CoreError> {
        let params = LossMetricParams {
            ce: gpu.address(head.ce),
            mask: gpu.address(head.mask),
            hit: state.hit,
            tokens: state.tokens,
            metric: gpu.address(head.metric),
            t: head.h.rows as i64,
        };
        gpu.launch("linear_cross_entropy_metric", 1, params)
    }
}

impl GpuKernel for LinearCrossEntropy {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let mut accumulate = self.accumulate;
        for head in &self.heads {
            let state = HeadState::new(gpu, head.h.rows);
            self.scale(gpu, head, &state)?;
            let tile = self.logits.rows.max(1);
            for first in (0..head.h.rows).step_by(tile) {
                let rows = tile.min(head.h.rows - first);
                let (h, logits) = (head.h.row_range(first, rows), self.logits.row_range(0, rows));
                Product::nt(h, self.w, logits).lower(gpu)?;
                self.rows(gpu, head, &state, (first, rows))?;
                let Some(dh) = head.dh else {
                    continue;
                };
                Product::nn(logits, self.w, dh.row_range(first, rows)).lower(gpu)?;
                if let Some(dw) = self.dw {
                    Product::tn(logits, h, dw).accumulated(accumulate).lower(gpu)?;
                    accumulate = true;
                }
            }
            self.metric(gpu, head, &state)?;
        }
        // Without a token there was no product to overwrite what is there.
        match (self.dw, self.heads.first()) {
            (Some(dw), Some(head)) if !accumulate => {
                Product::tn(self.logits.row_range(0, 0), head.h.row_range(0, 0), dw).lower(gpu)
            }
            _ => Ok(()),
        }
    }
}
