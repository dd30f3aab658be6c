//! Embedding, linear projections, linear cross entropy.

use crate::tensor::{LightningTensor, LightningWorkspace};
use crate::{LightningDevice, LightningStatus, enqueue};
use core::ffi::c_void;
use lightning_core::ops::{
    EmbeddingBwd, EmbeddingFwd, Fill, LinearBwd, LinearCrossEntropy, LinearFwd, LossHead, LossScale,
};

/// Sets every element (`ops::Fill`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningFill {
    /// Any tensor.
    pub dst: LightningTensor,
    /// The value, rounded to the type.
    pub value: f64,
}

/// Enqueues [`LightningFill`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_fill(
    device: *mut LightningDevice,
    arguments: *const LightningFill,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| Fill { dst: o.tensor("dst", a.dst)?, value: a.value })
}

/// Looks up rows (`ops::EmbeddingFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningEmbeddingFwd {
    /// Token ids [t] i32, inside the table.
    pub ids: LightningTensor,
    /// Embedding table [v, d].
    pub table: LightningTensor,
    /// Rows [t, d].
    pub y: LightningTensor,
}

/// Enqueues [`LightningEmbeddingFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_embedding_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningEmbeddingFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| EmbeddingFwd {
        ids: o.tensor("ids", a.ids)?,
        table: o.tensor("table", a.table)?,
        y: o.tensor("y", a.y)?
    })
}

/// Adds gradients to rows, tokens in ascending order (`ops::EmbeddingBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningEmbeddingBwd {
    /// Token ids [t] i32.
    pub ids: LightningTensor,
    /// Gradient of the rows [t, d].
    pub dy: LightningTensor,
    /// Gradient of the table [v, d], f32 or bf16.
    pub dtable: LightningTensor,
    /// Add to `dtable`.
    pub accumulate: bool,
}

/// Enqueues [`LightningEmbeddingBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_embedding_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningEmbeddingBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| EmbeddingBwd {
        ids: o.tensor("ids", a.ids)?,
        dy: o.tensor("dy", a.dy)?,
        dtable: o.tensor("dtable", a.dtable)?,
        accumulate: a.accumulate
    })
}

/// y = x W^T (`ops::LinearFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningLinearFwd {
    /// Input [t, i].
    pub x: LightningTensor,
    /// Weight [o, i].
    pub w: LightningTensor,
    /// Output [t, o].
    pub y: LightningTensor,
}

/// Enqueues [`LightningLinearFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_linear_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningLinearFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| LinearFwd {
        x: o.tensor("x", a.x)?,
        w: o.tensor("w", a.w)?,
        y: o.tensor("y", a.y)?,
        adapter: None
    })
}

/// Gradients of a projection (`ops::LinearBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningLinearBwd {
    /// Gradient of the output [t, o].
    pub dy: LightningTensor,
    /// Input [t, i].
    pub x: LightningTensor,
    /// Weight [o, i].
    pub w: LightningTensor,
    /// Gradient of the input [t, i]; may be absent.
    pub dx: LightningTensor,
    /// Gradient of the weight [o, i], f32 or bf16; may be absent.
    pub dw: LightningTensor,
    /// Add to `dx`.
    pub accumulate_dx: bool,
    /// Add to `dw`.
    pub accumulate_dw: bool,
}

/// Enqueues [`LightningLinearBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_linear_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningLinearBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| LinearBwd {
        dy: o.tensor("dy", a.dy)?,
        x: o.tensor("x", a.x)?,
        w: o.tensor("w", a.w)?,
        dx: o.optional("dx", a.dx)?,
        accumulate_dx: a.accumulate_dx,
        dw: o.optional("dw", a.dw)?,
        accumulate_dw: a.accumulate_dw,
        adapter: None
    })
}

/// Logits, cross entropy and their gradients for one head, tile by tile (`ops::LinearCrossEntropy`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningLinearCrossEntropy {
    /// Hidden states [t, d].
    pub h: LightningTensor,
    /// Labels [t] i32.
    pub label: LightningTensor,
    /// 1 where the label counts [t] i32.
    pub mask: LightningTensor,
    /// Head weight [v, d].
    pub w: LightningTensor,
    /// Cross entropy of every token [t] f32.
    pub ce: LightningTensor,
    /// Gradient of the hidden states [t, d]; absent in evaluation.
    pub dh: LightningTensor,
    /// Gradient of the weight [v, d], f32 or bf16; absent in evaluation or when it is frozen.
    pub dw: LightningTensor,
    /// Sum of masked losses, masked tokens, mean loss, hits: added to [4] f64.
    pub metric: LightningTensor,
    /// Workspace [tile, v].
    pub logits: LightningTensor,
    /// Factor on the head's loss.
    pub factor: f64,
    /// Micro-batches of a step, whose means are averaged; 0: every token counts the same.
    pub micro_batches: usize,
    /// Add to `dw`.
    pub accumulate: bool,
}

/// Enqueues [`LightningLinearCrossEntropy`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_linear_cross_entropy(
    device: *mut LightningDevice,
    arguments: *const LightningLinearCrossEntropy,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| cross_entropy(o, &a)?)
}

fn cross_entropy(
    o: &mut crate::tensor::Operands,
    a: &LightningLinearCrossEntropy,
) -> Result<LinearCrossEntropy, lightning_core::CoreError> {
    let head = LossHead {
        h: o.tensor("h", a.h)?,
        label: o.tensor("label", a.label)?,
        mask: o.tensor("mask", a.mask)?,
        factor: a.factor,
        ce: o.tensor("ce", a.ce)?,
        dh: o.optional("dh", a.dh)?,
        metric: o.tensor("metric", a.metric)?,
    };
    let scale = match a.micro_batches {
        0 => LossScale::PerToken,
        n => LossScale::MeanOfMeans(n),
    };
    Ok(LinearCrossEntropy {
        heads: vec![head],
        w: o.tensor("w", a.w)?,
        scale,
        dw: o.optional("dw", a.dw)?,
        accumulate: a.accumulate,
        logits: o.tensor("logits", a.logits)?,
    })
}
