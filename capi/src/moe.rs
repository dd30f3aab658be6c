//! Mixture of experts: router, dispatch plan, experts, combination.

use crate::tensor::{LightningTensor, LightningWorkspace};
use crate::{LightningDevice, LightningStatus, enqueue};
use core::ffi::c_void;
use lightning_core::ops::{
    AuxLoss, CombineBwd, CombineFwd, DispatchPlan, ExpertsBwd, ExpertsFwd, Relu2Bwd, Relu2Fwd, RouterBwd, RouterFwd,
    RouterLogits,
};

/// Selects experts (`ops::RouterFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningRouterFwd {
    /// Tokens [t, d].
    pub x: LightningTensor,
    /// Router weight [e, d].
    pub w: LightningTensor,
    /// Expert bias [e] f32.
    pub bias: LightningTensor,
    /// Experts that are selected whatever the logits say [t, k] i32; may be absent.
    pub forced: LightningTensor,
    /// 1 for padding tokens [t] i32; may be absent.
    pub padding: LightningTensor,
    /// Logits [t, e] f32.
    pub logits: LightningTensor,
    /// Selected experts [t, k] i32.
    pub idx: LightningTensor,
    /// Their weights [t, k] f32.
    pub weight: LightningTensor,
    /// Tokens per expert, accumulated [e] i32; may be absent.
    pub counts: LightningTensor,
    /// Workspace [rows, e] i32.
    pub row_counts: LightningTensor,
    /// Statistics of the auxiliary loss [rows, e + 2] f32; absent without it.
    pub aux_stats: LightningTensor,
    /// Receives the auxiliary loss [1] f64; there exactly when `aux_stats` is.
    pub aux_metric: LightningTensor,
    /// Factor on the weights.
    pub scale: f64,
    /// Coefficient of the auxiliary loss.
    pub aux_coefficient: f64,
    /// Experts of a token.
    pub top_k: usize,
    /// Tokens of a row.
    pub row_len: usize,
    /// Micro-batches of a step; 0 with per-token loss.
    pub aux_micro_batches: usize,
    /// Normalise the selected scores.
    pub normalize: bool,
}

/// Enqueues [`LightningRouterFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_router_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningRouterFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| router(o, &a)?)
}

fn router(o: &mut crate::tensor::Operands, a: &LightningRouterFwd) -> Result<RouterFwd, lightning_core::CoreError> {
    let source = o.optional("forced", a.forced)?.map_or(RouterLogits::Computed, RouterLogits::Forced);
    let micro_batches = (a.aux_micro_batches > 0).then_some(a.aux_micro_batches);
    let aux = o.pair(("aux_stats", "aux_metric"), (a.aux_stats, a.aux_metric))?;
    let coefficient = a.aux_coefficient;
    Ok(RouterFwd {
        x: o.tensor("x", a.x)?,
        w: o.tensor("w", a.w)?,
        bias: o.tensor("bias", a.bias)?,
        source,
        top_k: a.top_k,
        scale: a.scale,
        normalize: a.normalize,
        row_len: a.row_len,
        padding: o.optional("padding", a.padding)?,
        logits: o.tensor("logits", a.logits)?,
        idx: o.tensor("idx", a.idx)?,
        weight: o.tensor("weight", a.weight)?,
        counts: o.optional("counts", a.counts)?,
        row_counts: o.tensor("row_counts", a.row_counts)?,
        aux: aux.map(|(stats, metric)| AuxLoss { coefficient, micro_batches, stats, metric }),
    })
}

/// Gradients of the router (`ops::RouterBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningRouterBwd {
    /// Arguments of the forward pass, with its results.
    pub fwd: LightningRouterFwd,
    /// Gradient of the weights [t, k] f32.
    pub dweight: LightningTensor,
    /// Gradient of the tokens [t, d]; added to.
    pub dx: LightningTensor,
    /// Gradient of the router weight [e, d], f32 or bf16; may be absent.
    pub dw: LightningTensor,
    /// Workspace [t, e] f32.
    pub dlogits: LightningTensor,
    /// Workspace [t, d] f32.
    pub wide_x: LightningTensor,
    /// Workspace [e, d] f32.
    pub wide_w: LightningTensor,
    /// Add to `dw`.
    pub accumulate: bool,
}

/// Enqueues [`LightningRouterBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_router_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningRouterBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| RouterBwd {
        fwd: router(o, &a.fwd)?,
        dweight: o.tensor("dweight", a.dweight)?,
        dx: o.tensor("dx", a.dx)?,
        dw: o.optional("dw", a.dw)?,
        accumulate: a.accumulate,
        dlogits: o.tensor("dlogits", a.dlogits)?,
        wide: o.pair(("wide_x", "wide_w"), (a.wide_x, a.wide_w))?
    })
}

/// Slots of (token, expert) pairs, grouped by expert (`ops::DispatchPlan`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningDispatchPlan {
    /// Selected experts [t, k] i32.
    pub idx: LightningTensor,
    /// First slot of every expert, then the number of pairs [e + 1] i32.
    pub offsets: LightningTensor,
    /// Pair in each slot [t * k] i32.
    pub pair_of_slot: LightningTensor,
    /// Slot of each pair [t, k] i32.
    pub slot_of_pair: LightningTensor,
}

/// Enqueues [`LightningDispatchPlan`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_dispatch_plan(
    device: *mut LightningDevice,
    arguments: *const LightningDispatchPlan,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| DispatchPlan {
        idx: o.tensor("idx", a.idx)?,
        offsets: o.tensor("offsets", a.offsets)?,
        pair_of_slot: o.tensor("pair_of_slot", a.pair_of_slot)?,
        slot_of_pair: o.tensor("slot_of_pair", a.slot_of_pair)?
    })
}

/// The routed experts (`ops::ExpertsFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningExpertsFwd {
    /// Tokens [t, d].
    pub x: LightningTensor,
    /// Routing weights [t, k] f32.
    pub weight: LightningTensor,
    /// From the dispatch plan [e + 1] i32.
    pub offsets: LightningTensor,
    /// From the dispatch plan [t * k] i32.
    pub pair_of_slot: LightningTensor,
    /// Up-projections of all experts [e * f, d].
    pub up: LightningTensor,
    /// Down-projections of all experts [e * d, f].
    pub down: LightningTensor,
    /// Gathered tokens [t * k, d].
    pub xs: LightningTensor,
    /// Up-projected slots [t * k, f], kept for the backward pass.
    pub p: LightningTensor,
    /// Activated slots [t * k, f].
    pub a: LightningTensor,
    /// Outputs by slot [t * k, d].
    pub y: LightningTensor,
}

/// Enqueues [`LightningExpertsFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_experts_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningExpertsFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| experts(o, &a)?)
}

fn experts(o: &mut crate::tensor::Operands, a: &LightningExpertsFwd) -> Result<ExpertsFwd, lightning_core::CoreError> {
    Ok(ExpertsFwd {
        x: o.tensor("x", a.x)?,
        weight: o.tensor("weight", a.weight)?,
        offsets: o.tensor("offsets", a.offsets)?,
        pair_of_slot: o.tensor("pair_of_slot", a.pair_of_slot)?,
        up: o.tensor("up", a.up)?,
        down: o.tensor("down", a.down)?,
        xs: o.tensor("xs", a.xs)?,
        p: o.tensor("p", a.p)?,
        a: o.tensor("a", a.a)?,
        y: o.tensor("y", a.y)?,
    })
}

/// Gradients of the experts (`ops::ExpertsBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningExpertsBwd {
    /// Arguments of the forward pass, with its results.
    pub fwd: LightningExpertsFwd,
    /// Gradient of the combined output, by token [t, d].
    pub dout: LightningTensor,
    /// Gradient of the gathered tokens, by slot [t * k, d].
    pub dxs: LightningTensor,
    /// Gradient of the routing weights [t, k] f32.
    pub dweight: LightningTensor,
    /// Gradient of the up-projections, f32 or bf16; absent when the experts are frozen.
    pub dup: LightningTensor,
    /// Gradient of the down-projections; there exactly when `dup` is.
    pub ddown: LightningTensor,
    /// Workspace [t * k, d].
    pub dys: LightningTensor,
    /// Workspace [t * k, f].
    pub a: LightningTensor,
    /// Workspace [t * k, f].
    pub dp: LightningTensor,
    /// Add to `dup` and `ddown`.
    pub accumulate: bool,
}

/// Enqueues [`LightningExpertsBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_experts_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningExpertsBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| ExpertsBwd {
        fwd: experts(o, &a.fwd)?,
        dout: o.tensor("dout", a.dout)?,
        dxs: o.tensor("dxs", a.dxs)?,
        dweight: o.tensor("dweight", a.dweight)?,
        dweights: o.pair(("dup", "ddown"), (a.dup, a.ddown))?,
        accumulate: a.accumulate,
        dys: o.tensor("dys", a.dys)?,
        a: o.tensor("a", a.a)?,
        dp: o.tensor("dp", a.dp)?
    })
}

/// Sums the slots of every token (`ops::CombineFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningCombineFwd {
    /// Outputs by slot [t * k, d].
    pub y: LightningTensor,
    /// From the dispatch plan [t, k] i32.
    pub slot_of_pair: LightningTensor,
    /// Output of the shared expert [t, d]; may be absent.
    pub shared: LightningTensor,
    /// Combined output [t, d].
    pub out: LightningTensor,
}

/// Enqueues [`LightningCombineFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_combine_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningCombineFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| CombineFwd {
        y: o.tensor("y", a.y)?,
        slot_of_pair: o.tensor("slot_of_pair", a.slot_of_pair)?,
        shared: o.optional("shared", a.shared)?,
        out: o.tensor("out", a.out)?
    })
}

/// Sums the gradients of every token's slots (`ops::CombineBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningCombineBwd {
    /// Gradients by slot [t * k, d].
    pub dxs: LightningTensor,
    /// From the dispatch plan [t, k] i32.
    pub slot_of_pair: LightningTensor,
    /// Gradient of the tokens [t, d].
    pub dx: LightningTensor,
    /// Add to `dx`.
    pub accumulate: bool,
}

/// Enqueues [`LightningCombineBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_combine_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningCombineBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| CombineBwd {
        dxs: o.tensor("dxs", a.dxs)?,
        slot_of_pair: o.tensor("slot_of_pair", a.slot_of_pair)?,
        dx: o.tensor("dx", a.dx)?,
        accumulate: a.accumulate
    })
}

/// Squared ReLU (`ops::Relu2Fwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningRelu2Fwd {
    /// Input [t, f].
    pub x: LightningTensor,
    /// Output [t, f].
    pub y: LightningTensor,
}

/// Enqueues [`LightningRelu2Fwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_relu2_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningRelu2Fwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| Relu2Fwd { x: o.tensor("x", a.x)?, y: o.tensor("y", a.y)? })
}

/// Gradient of the squared ReLU (`ops::Relu2Bwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningRelu2Bwd {
    /// Input of the forward pass [t, f].
    pub x: LightningTensor,
    /// Gradient of the output [t, f].
    pub dy: LightningTensor,
    /// Gradient of the input [t, f].
    pub dx: LightningTensor,
}

/// Enqueues [`LightningRelu2Bwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_relu2_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningRelu2Bwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| Relu2Bwd {
        x: o.tensor("x", a.x)?,
        dy: o.tensor("dy", a.dy)?,
        dx: o.tensor("dx", a.dx)?
    })
}
