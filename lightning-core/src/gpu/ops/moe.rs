//! Dispatch plan, combination of experts, squared ReLU: csrc/moe/ and csrc/sort/.

use super::{GpuKernel, row_grid, sort};
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{CombineBwd, CombineFwd, DispatchPlan, Relu2Bwd, Relu2Fwd};
use crate::tensor::Tensor;
use kernels_sys::{CombineParams, Relu2BwdParams, Relu2FwdParams};

/// Blocks for a matrix that is walked in pieces of at most 2048 columns.
fn piece_grid(gpu: &Lowering<'_>, rows: usize, cols: usize) -> usize {
    (rows * cols.div_ceil(2048)).min(8 * gpu.multiprocessors())
}

impl GpuKernel for Relu2Fwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let params = Relu2FwdParams {
            x: gpu.address(self.x),
            y: gpu.address(self.y),
            x_stride: self.x.ld as i64,
            y_stride: self.y.ld as i64,
            t: self.x.rows as i64,
            f: self.x.cols as i64,
        };
        gpu.launch_for("relu2_fwd", self.y.dtype, piece_grid(gpu, self.x.rows, self.x.cols), params)
    }
}

impl GpuKernel for Relu2Bwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let params = Relu2BwdParams {
            x: gpu.address(self.x),
            dy: gpu.address(self.dy),
            dx: gpu.address(self.dx),
            x_stride: self.x.ld as i64,
            dy_stride: self.dy.ld as i64,
            dx_stride: self.dx.ld as i64,
            t: self.x.rows as i64,
            f: self.x.cols as i64,
        };
        gpu.launch_for("relu2_bwd", self.dx.dtype, piece_grid(gpu, self.x.rows, self.x.cols), params)
    }
}

/// Adds the launch of `out = before + sum of the rows of `y` that `slot` names + after`.
fn combine(
    gpu: &mut Lowering<'_>,
    y: Tensor,
    slot: Tensor,
    (before, after): (Option<Tensor>, Option<Tensor>),
    out: Tensor,
) -> Result<(), CoreError> {
    let stride = |t: Option<Tensor>| t.map_or(0, |t| t.ld as i64);
    let params = CombineParams {
        y: gpu.address(y),
        slot: gpu.address(slot),
        before: gpu.optional(before),
        after: gpu.optional(after),
        out: gpu.address(out),
        y_stride: y.ld as i64,
        slot_stride: slot.ld as i64,
        before_stride: stride(before),
        after_stride: stride(after),
        out_stride: out.ld as i64,
        t: out.rows as i64,
        k: slot.cols as i32,
        h: out.cols as i32,
    };
    gpu.launch_for("combine", out.dtype, row_grid(gpu, out.rows), params)
}

impl GpuKernel for CombineFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        combine(gpu, self.y, self.slot_of_pair, (None, self.shared), self.out)
    }
}

impl GpuKernel for CombineBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        combine(gpu, self.dxs, self.slot_of_pair, (self.accumulate.then_some(self.dx), None), self.dx)
    }
}

impl GpuKernel for DispatchPlan {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let (pairs, experts) = (self.idx.len(), self.offsets.len() - 1);
        // The digit behind the experts takes entries that name none, so that the last offset is the number of pairs.
        let digit = sort::Digit { digits: experts + 1, limit: experts, shift: 0, mask: !0 >> 33 };
        let buffers = sort::Buffers {
            key: gpu.address(self.idx),
            from: 0,
            out: gpu.address(self.pair_of_slot),
            inverse: gpu.address(self.slot_of_pair),
            start: gpu.address(self.offsets),
            count: gpu.scratch(dispatch_plan_scratch(self)),
        };
        sort::pass(gpu, pairs, digit, buffers)
    }
}

/// Bytes of workspace of the dispatch plan: counts per expert and tile of pairs.
pub(crate) fn dispatch_plan_scratch(op: &DispatchPlan) -> usize {
    sort::pass_scratch(op.idx.len(), op.offsets.len())
}
