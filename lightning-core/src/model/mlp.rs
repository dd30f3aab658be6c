//! `-` and the shared expert: a squared-ReLU MLP without gate.
//!
//!   p = x W_up^T        out = max(p, 0)^2 W_down^T

use super::Context;
use crate::layout::MlpParams;
use crate::ops::{Relu2Bwd, Relu2Fwd};
use crate::tensor::Tensor;

/// What the backward pass needs.
pub struct Saved {
    x: Tensor,
    p: Tensor,
    a: Tensor,
}

/// Records the MLP on normed input `x`.
pub fn forward(cx: &mut Context<'_>, params: &MlpParams, x: Tensor) -> (Tensor, Saved) {
    let p = cx.linear("up", params.up, x);
    let a = cx.activation("relu2", p.cols);
    cx.push(Relu2Fwd { x: p, y: a });
    let out = cx.linear("down", params.down, a);
    (out, Saved { x, p, a })
}

/// Records the gradients; returns the gradient of the normed input.
pub fn backward(cx: &mut Context<'_>, params: &MlpParams, saved: &Saved, dout: Tensor) -> Tensor {
    let Saved { x, p, a } = *saved;
    let da = cx.linear_backward("drelu2", params.down, a, dout);
    let dp = cx.activation("dup", p.cols);
    cx.push(Relu2Bwd { x: p, dy: da, dx: dp });
    cx.linear_backward("dx", params.up, x, dp)
}
