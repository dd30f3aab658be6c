//! Launches of the attention kernels.

use kernels_sys::{AttentionBwdParams, AttentionFwdParams};

use super::{Bf16, Random, Rows, Trouble, VirtualGpu};

/// Sizes, first tokens of documents, and elements between the rows of q, k, v and o; gradients have those of what they
/// are gradients of, dout that of o.
#[derive(Debug, Clone, Copy)]
pub struct Case<'c> {
    pub t: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub documents: &'c [usize],
    pub pads: [usize; 4],
}

impl Case<'_> {
    fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    fn start(&self) -> Vec<i32> {
        let first = |t| self.documents.iter().filter(|d| **d <= t).max().copied().unwrap_or(0) as i32;
        (0..self.t).map(first).collect()
    }

    /// Output and log-sum-exps of the forward pass, then dq, dk, dv and delta of the backward pass.
    pub fn run(&self, gpu: &VirtualGpu, random: &mut Random) -> Result<(Vec<Bf16>, Vec<f32>), Trouble> {
        let (t, wide, narrow) = (self.t, self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let q = Rows::random::<Bf16>(gpu, random, (t, wide, self.pads[0]), 2.0);
        let k = Rows::random::<Bf16>(gpu, random, (t, narrow, self.pads[1]), 1.0);
        let v = Rows::random::<Bf16>(gpu, random, (t, narrow, self.pads[2]), 1.0);
        let o = Rows::poisoned::<Bf16>(gpu, t, wide, self.pads[3]);
        let dout = Rows::random::<Bf16>(gpu, random, (t, wide, self.pads[3]), 1.0);
        let start = Rows::input(gpu, 1, t, 0, &self.start());
        let lse = Rows::poisoned::<f32>(gpu, t, self.heads, 3);
        let delta = Rows::poisoned::<f32>(gpu, t, self.heads, 0);
        let forward = AttentionFwdParams {
            q: q.address,
            k: k.address,
            v: v.address,
            start: start.address,
            o: o.address,
            lse: lse.address,
            q_stride: q.stride,
            k_stride: k.stride,
            v_stride: v.stride,
            o_stride: o.stride,
            lse_stride: lse.stride,
            t: t as i32,
            heads: self.heads as i32,
            kv_heads: self.kv_heads as i32,
            head_dim: self.head_dim as i32,
            scale: self.scale(),
            reserved: 0,
        };
        gpu.launch_grid("attention_fwd_bf16", [t.div_ceil(64), self.heads, 1], &forward)?;

        let dq = Rows::poisoned::<Bf16>(gpu, t, wide, self.pads[0]);
        let dk = Rows::poisoned::<Bf16>(gpu, t, narrow, self.pads[1]);
        let dv = Rows::poisoned::<Bf16>(gpu, t, narrow, self.pads[2]);
        let backward = AttentionBwdParams {
            q: q.address,
            k: k.address,
            v: v.address,
            o: o.address,
            dout: dout.address,
            start: start.address,
            lse: lse.address,
            delta: delta.address,
            dq: dq.address,
            dk: dk.address,
            dv: dv.address,
            q_stride: q.stride,
            k_stride: k.stride,
            v_stride: v.stride,
            o_stride: o.stride,
            dout_stride: dout.stride,
            lse_stride: lse.stride,
            dq_stride: dq.stride,
            dk_stride: dk.stride,
            dv_stride: dv.stride,
            t: t as i32,
            heads: self.heads as i32,
            kv_heads: self.kv_heads as i32,
            head_dim: self.head_dim as i32,
            scale: self.scale(),
            reserved: 0,
        };
        gpu.launch("attention_bwd_delta_bf16", (t * self.heads).div_ceil(4) as u64, &backward)?;
        gpu.launch_grid("attention_bwd_dkv_bf16", [t.div_ceil(64), self.kv_heads, 1], &backward)?;
        gpu.launch_grid("attention_bwd_dq_bf16", [t.div_ceil(64), self.heads, 1], &backward)?;
        let mut left = o.get("o")?;
        for (name, gradient) in [("dq", &dq), ("dk", &dk), ("dv", &dv)] {
            left.extend(gradient.get::<Bf16>(name)?);
        }
        let mut sums = lse.get("lse")?;
        sums.extend(delta.get::<f32>("delta")?);
        Ok((left, sums))
    }
}
