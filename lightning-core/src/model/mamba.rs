//! `M`: the Mamba-2 mixer (model.md §4).
//!
//!   z | xBC | dt = x W_in^T        c = silu(conv(xBC))        delta = softplus(dt + bias)
//!   y = scan(c_x, c_B, c_C, delta) + D c_x        out = RMSNorm_groups(y * silu(z)) W_out^T

use super::Context;
use crate::layout::MambaParams;
use crate::ops::{
    ConvSiluBwd, ConvSiluFwd, GatedRmsNormBwd, GatedRmsNormFwd, SoftplusDtBwd, SoftplusDtFwd, SsdScanBwd, SsdScanFwd,
    SsdShape,
};
use crate::tensor::Tensor;

/// What the backward pass needs.
pub struct Saved {
    x: Tensor,
    zxbcdt: Tensor,
    conv: ConvSiluFwd,
    dt: SoftplusDtFwd,
    scan: SsdScanFwd,
    norm: GatedRmsNormFwd,
}

/// Columns of the in_proj output (or of its gradient): z, xBC, dt.
fn split(cx: &Context<'_>, zxbcdt: Tensor) -> (Tensor, Tensor, Tensor) {
    let m = cx.model.spec.config.mamba();
    let (inner, conv) = (m.inner(), m.conv_channels());
    (zxbcdt.columns(0, inner), zxbcdt.columns(inner, conv), zxbcdt.columns(inner + conv, m.heads))
}

/// Columns of the convolution's output (or of its gradient): x, B, C.
fn split_conv(cx: &Context<'_>, xbc: Tensor) -> (Tensor, Tensor, Tensor) {
    let m = cx.model.spec.config.mamba();
    let (inner, bc) = (m.inner(), m.groups * m.state);
    (xbc.columns(0, inner), xbc.columns(inner, bc), xbc.columns(inner + bc, bc))
}

/// Records the mixer on normed input `x`.
pub fn forward(cx: &mut Context<'_>, p: &MambaParams, x: Tensor) -> (Tensor, Saved) {
    let m = cx.model.spec.config.mamba().clone();
    let (rows, row_len) = (cx.model.spec.batch.rows, cx.model.spec.batch.row_len);
    let (start, end) = (cx.start, cx.end);
    let zxbcdt = cx.linear("zxbcdt", p.in_proj, x);
    let (z, xbc, raw) = split(cx, zxbcdt);

    let c = cx.activation("conv", m.conv_channels());
    let conv = ConvSiluFwd { x: xbc, w: cx.weight(p.conv_w), b: cx.weight(p.conv_b), start, y: c };
    cx.push(conv.clone());

    let delta = cx.statistics("delta", cx.tokens(), m.heads);
    let dt = SoftplusDtFwd { raw, bias: cx.weight(p.dt_bias), dt_min: m.dt_min, delta };
    cx.push(dt.clone());

    let (groups, chunk) = (m.groups, m.chunk);
    let shape = SsdShape { heads: m.heads, head_dim: m.head_dim, state: m.state, groups, chunk, row_len };
    let (sx, b, c) = split_conv(cx, c);
    let y = cx.activation("scan", m.inner());
    let states = cx.statistics("states", rows * shape.chunks(), shape.state_elements());
    let (a_log, d) = (cx.weight(p.a_log), cx.weight(p.d));
    let (state_in, state_out) = (None, None);
    let scan = SsdScanFwd { shape, x: sx, b, c, delta, a_log, d, start, end, state_in, y, states, state_out };
    cx.push(scan.clone());

    let o = cx.activation("gated", m.inner());
    let rstd = cx.statistics("gated_rstd", cx.tokens(), groups);
    let norm = GatedRmsNormFwd { y, z, w: cx.weight(p.norm), groups, eps: cx.model.spec.config.norm_eps, o, rstd };
    cx.push(norm.clone());

    let out = cx.linear("out", p.out_proj, o);
    (out, Saved { x, zxbcdt, conv, dt, scan, norm })
}

/// Records the gradients; returns the gradient of the normed input.
pub fn backward(cx: &mut Context<'_>, p: &MambaParams, saved: &Saved, dout: Tensor) -> Tensor {
    let m = cx.model.spec.config.mamba().clone();
    let rows = cx.model.spec.batch.rows;
    let Saved { x, zxbcdt, conv, dt, scan, norm } = saved;
    let do_ = cx.linear_backward("dgated", p.out_proj, norm.o, dout);

    // All parts of the in_proj gradient lie in one tensor.
    let dzxbcdt = cx.activation("dzxbcdt", zxbcdt.cols);
    let (dz, dxbc, draw) = split(cx, dzxbcdt);

    let dy = cx.activation("dscan", m.inner());
    let partial = cx.statistics("gated_partial", GatedRmsNormBwd::partial_rows(cx.tokens()), m.inner());
    let (dw, accumulate) = cx.gradient(p.norm);
    let (y, z, w, groups, rstd) = (norm.y, norm.z, norm.w, norm.groups, norm.rstd);
    cx.push(GatedRmsNormBwd { dout: do_, y, z, w, groups, rstd, dy, dz, dw, accumulate, partial });

    let dconv = cx.activation("dconv", m.conv_channels());
    let (dx, db, dc) = split_conv(cx, dconv);
    let ddelta = cx.statistics("ddelta", cx.tokens(), m.heads);
    let (partial_a, partial_d) = (cx.statistics("da", rows, m.heads), cx.statistics("dd", rows, m.heads));
    let ((da_log, accumulate), (dd, _)) = (cx.gradient(p.a_log), cx.gradient(p.d));
    let (dstate_out, dstate_in) = (None, None);
    let fwd = scan.clone();
    cx.push(SsdScanBwd {
        fwd,
        dy,
        dstate_out,
        dx,
        db,
        dc,
        ddelta,
        da_log,
        dd,
        accumulate,
        dstate_in,
        partial_a,
        partial_d,
    });

    let partial = cx.statistics("dt_partial", SoftplusDtBwd::partial_rows(cx.tokens()), m.heads);
    let (dbias, accumulate) = cx.gradient(p.dt_bias);
    let (raw, bias, dt_min) = (dt.raw, dt.bias, dt.dt_min);
    cx.push(SoftplusDtBwd { ddelta, raw, bias, dt_min, draw, dbias, accumulate, partial });

    let partial = cx.statistics("conv_partial", m.conv_kernel + 1, m.conv_channels());
    let ((dw, accumulate), (db, _)) = (cx.gradient(p.conv_w), cx.gradient(p.conv_b));
    let (w, b, start) = (conv.w, conv.b, conv.start);
    cx.push(ConvSiluBwd { dy: dconv, x: conv.x, w, b, start, dx: dxbc, dw, db, accumulate, partial });

    cx.linear_backward("dx", p.in_proj, *x, dzxbcdt)
}
