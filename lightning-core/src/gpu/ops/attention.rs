//! Attention: csrc/attention/.

use super::GpuKernel;
use crate::error::CoreError;
use crate::gpu::Lowering;
use crate::ops::{AttentionBwd, AttentionFwd};
use kernels_sys::{AttentionBwdParams, AttentionFwdParams};

/// Queries, or keys, of a block.
const TILE: usize = 64;
/// Channels of a head that the tensor-core kernels take at most; wider heads go to the naive ones.
const MAX_HEAD_DIM: usize = 128;

fn naive(gpu: &Lowering<'_>, op: &AttentionFwd) -> bool {
    gpu.naive() || op.shape.head_dim > MAX_HEAD_DIM
}

impl GpuKernel for AttentionFwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let (s, t) = (&self.shape, self.q.rows);
        let params = AttentionFwdParams {
            q: gpu.address(self.q),
            k: gpu.address(self.k),
            v: gpu.address(self.v),
            start: gpu.address(self.start),
            o: gpu.address(self.o),
            lse: gpu.address(self.lse),
            q_stride: self.q.ld as i64,
            k_stride: self.k.ld as i64,
            v_stride: self.v.ld as i64,
            o_stride: self.o.ld as i64,
            lse_stride: self.lse.ld as i64,
            t: t as i32,
            heads: s.heads as i32,
            kv_heads: s.kv_heads as i32,
            head_dim: s.head_dim as i32,
            scale: s.scale as f32,
            reserved: 0,
        };
        if naive(gpu, self) {
            return gpu.launch_for("attention_fwd_naive", self.o.dtype, (t, s.heads), params);
        }
        gpu.launch_for("attention_fwd", self.o.dtype, (t.div_ceil(TILE), s.heads), params)
    }
}

impl GpuKernel for AttentionBwd {
    fn lower(&self, gpu: &mut Lowering<'_>) -> Result<(), CoreError> {
        let (f, s, t, act) = (&self.fwd, &self.fwd.shape, self.fwd.q.rows, self.dout.dtype);
        let params = AttentionBwdParams {
            q: gpu.address(f.q),
            k: gpu.address(f.k),
            v: gpu.address(f.v),
            o: gpu.address(f.o),
            dout: gpu.address(self.dout),
            start: gpu.address(f.start),
            lse: gpu.address(f.lse),
            delta: gpu.scratch(t * s.heads * size_of::<f32>()),
            dq: gpu.address(self.dq),
            dk: gpu.address(self.dk),
            dv: gpu.address(self.dv),
            q_stride: f.q.ld as i64,
            k_stride: f.k.ld as i64,
            v_stride: f.v.ld as i64,
            o_stride: f.o.ld as i64,
            dout_stride: self.dout.ld as i64,
            lse_stride: f.lse.ld as i64,
            dq_stride: self.dq.ld as i64,
            dk_stride: self.dk.ld as i64,
            dv_stride: self.dv.ld as i64,
            t: t as i32,
            heads: s.heads as i32,
            kv_heads: s.kv_heads as i32,
            head_dim: s.head_dim as i32,
            scale: s.scale as f32,
            reserved: 0,
        };
        if naive(gpu, f) {
            gpu.launch_for("attention_bwd_dkv_naive", act, (t, s.kv_heads), params)?;
            return gpu.launch_for("attention_bwd_dq_naive", act, (t, s.heads), params);
        }
        gpu.launch_for("attention_bwd_delta", act, (t * s.heads).div_ceil(4), params)?;
        gpu.launch_for("attention_bwd_dkv", act, (t.div_ceil(TILE), s.kv_heads), params)?;
        gpu.launch_for("attention_bwd_dq", act, (t.div_ceil(TILE), s.heads), params)
    }
}
