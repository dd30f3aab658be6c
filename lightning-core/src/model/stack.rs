//! The residual stream: layers of norm and mixer, and the norm behind the last one (model.md §2).
//!
//!   x_{l+1} = x_l + mixer_l(RMSNorm(x_l; w_l))        h = RMSNorm(x_L; w_f)
//!
//! A mixer's output is not added at once: it is the *pending branch* that the next norm adds and normalises in one pass.
//! Backward, one tensor carries the gradient of the residual stream; every layer adds to it.

use super::moe::RouterSite;
use super::{Context, attention, mamba, mlp, moe};
use crate::layout::{LayerParams, MixerParams, ParamIndex};
use crate::ops::{RmsNormBwd, RmsNormFwd};
use crate::tensor::Tensor;
use alloc::format;
use alloc::vec::Vec;

enum SavedMixer {
    Mamba(mamba::Saved),
    Attention(attention::Saved),
    Moe(moe::Saved),
    Mlp(mlp::Saved),
}

/// A norm application: its input (the residual stream), output and reciprocal root mean squares.
#[derive(Debug, Clone, Copy)]
pub struct SavedNorm {
    x: Tensor,
    y: Tensor,
    rstd: Tensor,
}

/// What the backward pass of a stack needs.
pub struct Saved {
    layers: Vec<(SavedNorm, SavedMixer)>,
    last: SavedNorm,
}

impl Saved {
    /// The residual stream before each layer and after the last one.
    pub fn hidden(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.layers.iter().map(|(norm, _)| norm.x).chain([self.last.x])
    }

    /// Routing of the layers that have a router: (layer, (logits, experts, weights)).
    pub fn routing(&self) -> impl Iterator<Item = (usize, (Tensor, Tensor, Tensor))> + '_ {
        self.layers.iter().enumerate().filter_map(|(i, (_, mixer))| match mixer {
            SavedMixer::Moe(saved) => Some((i, saved.routing())),
            _ => None,
        })
    }
}

/// Records `y = RMSNorm(x + branch)` into a new tensor or the given one.
pub fn norm(cx: &mut Context<'_>, w: ParamIndex, x: Tensor, branch: Option<Tensor>, y: Option<Tensor>) -> SavedNorm {
    let y = y.unwrap_or_else(|| cx.activation("normed", x.cols));
    let x_out = branch.map(|_| cx.activation("residual", x.cols));
    let rstd = cx.statistics("rstd", cx.tokens(), 1);
    let (w, eps) = (cx.weight(w), cx.model.spec.config.norm_eps);
    cx.push(RmsNormFwd { x, branch, w, eps, x_out, y, rstd });
    SavedNorm { x: x_out.unwrap_or(x), y, rstd }
}

/// Records the gradient of [`norm`]: into `dx`, or added to it.
pub fn norm_backward(cx: &mut Context<'_>, w: ParamIndex, saved: &SavedNorm, dy: Tensor, dx: Tensor, add: bool) {
    let (dw, accumulate_dw) = cx.gradient(w);
    let partial = cx.statistics("norm_partial", RmsNormBwd::partial_rows(cx.tokens()), dx.cols);
    let (x, rstd, w) = (saved.x, saved.rstd, cx.weight(w));
    cx.push(RmsNormBwd { dy, x, w, rstd, dx, accumulate_dx: add, dw, accumulate_dw, partial });
}

/// Records all layers on the residual stream `x`; returns the normed output.
pub fn forward(
    cx: &mut Context<'_>,
    name: &str,
    layers: &[LayerParams],
    final_norm: ParamIndex,
    first_site: RouterSite,
    mut x: Tensor,
) -> (Tensor, Saved) {
    let mut site = first_site;
    let mut pending = None;
    let mut saved = Vec::new();
    for (i, layer) in layers.iter().enumerate() {
        cx.region(format!("{name}.{i}/forward"));
        let normed = norm(cx, layer.norm, x, pending, None);
        let (out, mixer) = match &layer.mixer {
            MixerParams::Mamba(p) => {
                let (out, saved) = mamba::forward(cx, p, normed.y);
                (out, SavedMixer::Mamba(saved))
            }
            MixerParams::Attention(p) => {
                let (out, saved) = attention::forward(cx, p, normed.y);
                (out, SavedMixer::Attention(saved))
            }
            MixerParams::Moe(p) => {
                let (out, saved) = moe::forward(cx, p, site, normed.y);
                site.router += 1;
                site.application += 1;
                (out, SavedMixer::Moe(saved))
            }
            MixerParams::Mlp(p) => {
                let (out, saved) = mlp::forward(cx, p, normed.y);
                (out, SavedMixer::Mlp(saved))
            }
        };
        (x, pending) = (normed.x, Some(out));
        saved.push((normed, mixer));
    }
    cx.region(format!("{name}.norm/forward"));
    let last = norm(cx, final_norm, x, pending, None);
    (last.y, Saved { layers: saved, last })
}

/// Records the gradients of a stack, given that of its normed output; returns the gradient of the residual stream
/// before the first layer.
pub fn backward(
    cx: &mut Context<'_>,
    name: &str,
    layers: &[LayerParams],
    final_norm: ParamIndex,
    saved: &Saved,
    dh: Tensor,
) -> Tensor {
    cx.region(format!("{name}.norm/backward"));
    let dx = cx.activation("dresidual", dh.cols);
    norm_backward(cx, final_norm, &saved.last, dh, dx, false);
    for (i, (layer, (normed, mixer))) in layers.iter().zip(&saved.layers).enumerate().rev() {
        cx.region(format!("{name}.{i}/backward"));
        let dy = match (&layer.mixer, mixer) {
            (MixerParams::Mamba(p), SavedMixer::Mamba(saved)) => mamba::backward(cx, p, saved, dx),
            (MixerParams::Attention(p), SavedMixer::Attention(saved)) => attention::backward(cx, p, saved, dx),
            (MixerParams::Moe(p), SavedMixer::Moe(saved)) => moe::backward(cx, p, saved, dx),
            (MixerParams::Mlp(p), SavedMixer::Mlp(saved)) => mlp::backward(cx, p, saved, dx),
            _ => unreachable!("layers and what they saved come from the same forward pass"),
        };
        norm_backward(cx, layer.norm, normed, dy, dx, true);
    }
    dx
}
