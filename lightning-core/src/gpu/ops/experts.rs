//! Routed experts: csrc/moe/experts.cu.

use super::GpuKernel;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{ExpertsBwd, ExpertsFwd};
use crate::tensor::{DType, Tensor};
use kernels_sys::{ExpertsActivationBwdParams, ExpertsGatherParams, ExpertsProductParams, ExpertsWeightBwdParams};

/// Rows and columns of a block of the tensor-core products.
const TILE: usize = 64;

impl ExpertsFwd {
    fn experts(&self) -> usize {
        self.offsets.len() - 1
    }

    fn slots(&self) -> usize {
        self.pair_of_slot.len()
    }

    /// Rows of tokens in the order of slots.
    fn gather(&self, gpu: &mut Lowering<'_>, x: Tensor, xs: Tensor) -> Result<(), CoreError> {
        let params = ExpertsGatherParams {
            x: gpu.address(x),
            xs: gpu.address(xs),
            pair_of_slot: gpu.address(self.pair_of_slot),
            offsets: gpu.address(self.offsets),
            x_stride: x.ld as i64,
            xs_stride: xs.ld as i64,
            d: x.cols as i32,
            k: (self.slots() / x.rows.max(1)).max(1) as i32,
            experts: self.experts() as i32,
            reserved: 0,
        };
        gpu.launch_for("experts_gather", xs.dtype, self.slots().div_ceil(4), params)
    }

    /// Products of every expert's slots with its weights, `form` being `nt` or `nn`.
    fn product(
        &self,
        gpu: &mut Lowering<'_>,
        form: &str,
        (a, b, c): (Tensor, Tensor, Tensor),
        activated: Option<Tensor>,
    ) -> Result<(), CoreError> {
        let params = ExpertsProductParams {
            a: gpu.address(a),
            b: gpu.address(b),
            c: gpu.address(c),
            activated: gpu.optional(activated),
            weight: gpu.address(self.weight),
            offsets: gpu.address(self.offsets),
            pair_of_slot: gpu.address(self.pair_of_slot),
            a_stride: a.ld as i64,
            b_stride: b.ld as i64,
            c_stride: c.ld as i64,
            activated_stride: activated.map_or(0, |t| t.ld as i64),
            n: c.cols as i32,
            depth: a.cols as i32,
            experts: self.experts() as i32,
            reserved: 0,
        };
        if self.slots() == 0 {
            return Ok(());
        }
        if gpu.naive() {
            let grid = (self.slots().div_ceil(8), c.cols.div_ceil(32));
            return gpu.launch_for(&format!("experts_product_{form}_naive"), c.dtype, grid, params);
        }
        // No two experts share a tile, so each may waste a part of one.
        let grid = (self.slots().div_ceil(TILE) + self.experts(), c.cols.div_ceil(TILE));
        gpu.launch_for(&format!("experts_product_{form}"), c.dtype, grid, params)
    }
}

impl GpuKernel for ExpertsFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        self.gather(gpu, self.x, self.xs)?;
        self.product(gpu, "nt", (self.xs, self.up, self.p), Some(self.a))?;
        self.product(gpu, "nt", (self.a, self.down, self.y), None)
    }
}

impl ExpertsBwd {
    fn activation(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let fwd = &self.fwd;
        let params = ExpertsActivationBwdParams {
            p: gpu.address(fwd.p),
            dp: gpu.address(self.dp),
            a: gpu.address(self.a),
            weight: gpu.address(fwd.weight),
            dweight: gpu.address(self.dweight),
            offsets: gpu.address(fwd.offsets),
            pair_of_slot: gpu.address(fwd.pair_of_slot),
            p_stride: fwd.p.ld as i64,
            dp_stride: self.dp.ld as i64,
            a_stride: self.a.ld as i64,
            f: fwd.p.cols as i32,
            experts: fwd.experts() as i32,
        };
        if gpu.naive() {
            let blocks = fwd.slots().div_ceil(256);
            return gpu.launch_for("experts_activation_bwd_naive", self.dp.dtype, blocks, params);
        }
        gpu.launch_for("experts_activation_bwd", self.dp.dtype, fwd.slots().div_ceil(4), params)
    }

    fn weight_gradient(&self, gpu: &mut Lowering<'_>, dy: Tensor, x: Tensor, dw: Tensor) -> Result<(), CoreError> {
        let params = ExpertsWeightBwdParams {
            dy: gpu.address(dy),
            x: gpu.address(x),
            dw: gpu.address(dw),
            offsets: gpu.address(self.fwd.offsets),
            dy_stride: dy.ld as i64,
            x_stride: x.ld as i64,
            dw_stride: dw.ld as i64,
            m: dy.cols as i32,
            n: x.cols as i32,
            accumulate: i32::from(self.accumulate),
            dw_f32: i32::from(dw.dtype == DType::F32),
        };
        let experts = self.fwd.experts();
        if gpu.naive() {
            let grid = (x.cols.div_ceil(32), dy.cols.div_ceil(8), experts);
            return gpu.launch_for("experts_weight_bwd_naive", dy.dtype, grid, params);
        }
        gpu.launch_for("experts_weight_bwd", dy.dtype, (x.cols.div_ceil(TILE), dy.cols.div_ceil(TILE), experts), params)
    }
}

impl GpuKernel for ExpertsBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let fwd = &self.fwd;
        fwd.gather(gpu, self.dout, self.dys)?;
        fwd.product(gpu, "nn", (self.dys, fwd.down, self.dp), None)?;
        self.activation(gpu)?;
        fwd.product(gpu, "nn", (self.dp, fwd.up, self.dxs), None)?;
        if let Some((dup, ddown)) = self.dweights {
            self.weight_gradient(gpu, self.dp, fwd.xs, dup)?;
            self.weight_gradient(gpu, self.dys, self.a, ddown)?;
        }
        Ok(())
    }
}
