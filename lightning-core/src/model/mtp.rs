//! Multi-token prediction: one block applied `depth` times (model.md §6).
//!
//!   h^0 = output of the final norm;  for k = 1 .. depth:
//!     ids^k, label^k, mask^k = the previous ones rolled left by one inside every document
//!     g   = [RMSNorm(E[ids^k]) | RMSNorm(h^{k-1})] W_eh^T
//!     h^k = RMSNorm(layers(g))
//!
//! Nothing is detached: gradients reach the embedding, the head and the backbone.

use super::Context;
use super::moe::RouterSite;
use super::stack::{self, SavedNorm};
use crate::config::LayerKind;
use crate::layout::MtpParams;
use crate::ops::{EmbeddingBwd, EmbeddingFwd, Roll};
use crate::tensor::Tensor;
use alloc::format;
use alloc::vec::Vec;

/// One application of the block.
pub struct Depth {
    /// Hidden states that predict token t + 1 + k.
    pub h: Tensor,
    /// Rolled labels.
    pub label: Tensor,
    /// Rolled loss mask.
    pub mask: Tensor,
    /// The layers of the application.
    pub stack: stack::Saved,
    ids: Tensor,
    enorm: SavedNorm,
    hnorm: SavedNorm,
    joined: Tensor,
}

/// Records all applications on the backbone's normed output `h`.
pub fn forward(cx: &mut Context<'_>, p: &MtpParams, h: Tensor) -> Vec<Depth> {
    let inputs = cx.model.inputs.clone();
    let config = &cx.model.spec.config;
    let moe = |layers: &[LayerKind]| layers.iter().filter(|k| **k == LayerKind::Moe).count();
    let backbone_routers = moe(&config.layers);
    let block_routers = config.mtp.as_ref().map_or(0, |m| moe(&m.layers));
    let (depth, width, end) = (config.mtp_depth(), config.hidden, cx.end);
    let embedding = cx.weight(cx.model.layout.embedding);

    let (mut h, mut ids, mut label, mut mask) = (h, inputs.ids, inputs.labels, inputs.loss_mask);
    let mut depths: Vec<Depth> = Vec::new();
    for k in 0..depth {
        cx.region(format!("mtp{}/forward", k + 1));
        let mut rolled = |name: &str, src: Tensor| {
            let dst = cx.integers(name, 1, src.cols);
            cx.push(Roll { src, end, dst });
            dst
        };
        (ids, label, mask) = (rolled("ids", ids), rolled("label", label), rolled("mask", mask));
        let e = cx.activation("embedded", width);
        cx.push(EmbeddingFwd { ids, table: embedding, y: e });

        // The embedding half comes first.
        let joined = cx.activation("joined", 2 * width);
        let enorm = stack::norm(cx, p.enorm, e, None, Some(joined.columns(0, width)));
        let hnorm = stack::norm(cx, p.hnorm, h, None, Some(joined.columns(width, width)));
        let g = cx.linear("g", p.eh_proj, joined);

        let application = backbone_routers + k * block_routers;
        let site = RouterSite { router: backbone_routers, application, divisor: depth, masked: false };
        let (out, stack) = stack::forward(cx, &format!("mtp{}", k + 1), &p.layers, p.final_norm, site, g);
        h = out;
        depths.push(Depth { h, label, mask, stack, ids, enorm, hnorm, joined });
    }
    depths
}

/// Records the gradients of all applications. `dh[k]` holds the gradient of `h^k` that arrives from the losses; the
/// gradient of `h^0` is complete in `dh[0]` afterwards.
pub fn backward(cx: &mut Context<'_>, p: &MtpParams, depths: &[Depth], dh: &[Tensor]) {
    let width = cx.model.spec.config.hidden;
    for (k, depth) in depths.iter().enumerate().rev() {
        let name = format!("mtp{}", k + 1);
        let dg = stack::backward(cx, &name, &p.layers, p.final_norm, &depth.stack, dh[k + 1]);
        cx.region(format!("{name}/backward"));
        let djoined = cx.linear_backward("djoined", p.eh_proj, depth.joined, dg);
        stack::norm_backward(cx, p.hnorm, &depth.hnorm, djoined.columns(width, width), dh[k], true);
        let de = cx.activation("dembedded", width);
        stack::norm_backward(cx, p.enorm, &depth.enorm, djoined.columns(0, width), de, false);
        let (dtable, accumulate) = cx.gradient(cx.model.layout.embedding);
        cx.push(EmbeddingBwd { ids: depth.ids, dy: de, dtable, accumulate });
    }
}
