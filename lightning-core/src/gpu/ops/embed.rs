//! Document bounds, rolls and the token embedding: csrc/embed/.

use super::{GpuKernel, reduce, row_grid, sort};
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{EmbeddingBwd, EmbeddingFwd, Roll, Segments};
use crate::tensor::DType;
use alloc::format;
use kernels_sys::{EmbeddingBwdParams, EmbeddingFwdParams, RollParams, SegmentsParams};

impl GpuKernel for Segments {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let t = self.start.len();
        let params = SegmentsParams {
            cu_seqlens: gpu.address(self.cu_seqlens),
            start: gpu.address(self.start),
            end: gpu.address(self.end),
            m: self.cu_seqlens.len() as i64,
            row_len: self.row_len.max(1) as i64,
            t: t as i64,
        };
        gpu.launch("segments", t.div_ceil(256), params)
    }
}

impl GpuKernel for Roll {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let t = self.dst.len();
        let params = RollParams {
            src: gpu.address(self.src),
            end: gpu.address(self.end),
            dst: gpu.address(self.dst),
            t: t as i64,
        };
        gpu.launch("roll", t.div_ceil(256), params)
    }
}

impl GpuKernel for EmbeddingFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let params = EmbeddingFwdParams {
            ids: gpu.address(self.ids),
            table: gpu.address(self.table),
            y: gpu.address(self.y),
            table_stride: self.table.ld as i64,
            y_stride: self.y.ld as i64,
            t: self.y.rows as i64,
            h: self.y.cols as i32,
            v: self.table.rows as i32,
        };
        gpu.launch_for("embedding_fwd", self.y.dtype, row_grid(gpu, self.y.rows), params)
    }
}

impl GpuKernel for EmbeddingBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        if self.dy.dtype != DType::BF16 {
            return Err(CoreError::Device {
                doing: "lowering `embedding_bwd`".into(),
                reason: format!("there is no kernel for gradients of {}; use --device cpu", self.dy.dtype),
            });
        }
        if !self.accumulate {
            reduce::fill(gpu, self.dtable, 0.0)?;
        }
        let (t, v) = (self.dy.rows, self.dtable.rows);
        if t == 0 {
            return Ok(());
        }
        let ids = gpu.address(self.ids);
        let scratch = gpu.scratch(sort::by_key_scratch(t, v));
        let order = sort::by_key(gpu, t, v, ids, scratch)?;
        let params = EmbeddingBwdParams {
            ids,
            order,
            dy: gpu.address(self.dy),
            dtable: gpu.address(self.dtable),
            dy_stride: self.dy.ld as i64,
            dtable_stride: self.dtable.ld as i64,
            t: t as i64,
            h: self.dy.cols as i32,
            v: v as i32,
            accumulate: i32::from(self.accumulate),
            reserved: 0,
        };
        gpu.launch_for("embedding_bwd", self.dtable.dtype, t, params)
    }
}

/// Bytes of workspace of the embedding's gradient: token positions sorted by id.
pub(crate) fn embedding_bwd_scratch(op: &EmbeddingBwd) -> usize {
    sort::by_key_scratch(op.dy.rows, op.dtable.rows)
}
