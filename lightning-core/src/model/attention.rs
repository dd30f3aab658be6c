//! `*`: grouped-query attention without positions (model.md §3).
//!
//!   q | k | v = x W_qkv^T        out = concat_heads(softmax(q k^T / sqrt(a)) v) W_o^T, causal inside documents

use super::Context;
use crate::layout::AttentionParams;
use crate::ops::{AttentionBwd, AttentionFwd, AttentionShape};
use crate::tensor::Tensor;

/// What the backward pass needs.
pub struct Saved {
    x: Tensor,
    qkv: Tensor,
    attention: AttentionFwd,
}

/// Columns of the fused projection (or of its gradient): q, k, v.
fn split(cx: &Context<'_>, qkv: Tensor) -> (Tensor, Tensor, Tensor) {
    let a = cx.model.spec.config.attention();
    let (q, kv) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);
    (qkv.columns(0, q), qkv.columns(q, kv), qkv.columns(q + kv, kv))
}

/// Records the mixer on normed input `x`.
pub fn forward(cx: &mut Context<'_>, p: &AttentionParams, x: Tensor) -> (Tensor, Saved) {
    let a = cx.model.spec.config.attention().clone();
    let (heads, kv_heads, head_dim) = (a.heads, a.kv_heads, a.head_dim);
    let (row_len, scale) = (cx.model.spec.batch.row_len, 1.0 / libm::sqrt(head_dim as f64));
    let qkv = cx.linear("qkv", p.qkv, x);
    let (q, k, v) = split(cx, qkv);

    let o = cx.activation("attention", heads * head_dim);
    let lse = cx.statistics("lse", cx.tokens(), heads);
    let shape = AttentionShape { heads, kv_heads, head_dim, row_len, scale };
    let attention = AttentionFwd { shape, q, k, v, start: cx.start, o, lse };
    cx.push(attention.clone());

    let out = cx.linear("out", p.o_proj, o);
    (out, Saved { x, qkv, attention })
}

/// Records the gradients; returns the gradient of the normed input.
pub fn backward(cx: &mut Context<'_>, p: &AttentionParams, saved: &Saved, dout: Tensor) -> Tensor {
    let Saved { x, qkv, attention } = saved;
    let do_ = cx.linear_backward("dattention", p.o_proj, attention.o, dout);

    let dqkv = cx.activation("dqkv", qkv.cols);
    let (dq, dk, dv) = split(cx, dqkv);
    cx.push(AttentionBwd { fwd: attention.clone(), dout: do_, dq, dk, dv });

    cx.linear_backward("dx", p.qkv, *x, dqkv)
}
