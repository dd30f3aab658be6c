//! Causal grouped-query attention over packed documents, and the bounds of documents.

use crate::tensor::{LightningTensor, LightningWorkspace};
use crate::{LightningDevice, LightningStatus, enqueue};
use core::ffi::c_void;
use lightning_core::ops::{AttentionBwd, AttentionFwd, AttentionShape, Roll, Segments};

/// First and last token of every token's document (`ops::Segments`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningSegments {
    /// Document offsets, ascending, the last repeated [n] i32.
    pub cu_seqlens: LightningTensor,
    /// First token of the document [t] i32.
    pub start: LightningTensor,
    /// One past its last token [t] i32.
    pub end: LightningTensor,
    /// Tokens of a row.
    pub row_len: usize,
}

/// Enqueues [`LightningSegments`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_segments(
    device: *mut LightningDevice,
    arguments: *const LightningSegments,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| Segments {
        cu_seqlens: o.tensor("cu_seqlens", a.cu_seqlens)?,
        row_len: a.row_len,
        start: o.tensor("start", a.start)?,
        end: o.tensor("end", a.end)?
    })
}

/// The next token's value within the document (`ops::Roll`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningRoll {
    /// Values [t] i32.
    pub src: LightningTensor,
    /// From `lightning_segments` [t] i32.
    pub end: LightningTensor,
    /// Shifted values [t] i32.
    pub dst: LightningTensor,
}

/// Enqueues [`LightningRoll`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_roll(
    device: *mut LightningDevice,
    arguments: *const LightningRoll,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| Roll {
        src: o.tensor("src", a.src)?,
        end: o.tensor("end", a.end)?,
        dst: o.tensor("dst", a.dst)?
    })
}

/// Causal attention (`ops::AttentionFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningAttentionFwd {
    /// Queries [t, heads * head_dim].
    pub q: LightningTensor,
    /// Keys [t, kv_heads * head_dim].
    pub k: LightningTensor,
    /// Values [t, kv_heads * head_dim].
    pub v: LightningTensor,
    /// First token of each token's document [t] i32.
    pub start: LightningTensor,
    /// Output [t, heads * head_dim].
    pub o: LightningTensor,
    /// Log-sum-exp of the scores [t, heads] f32.
    pub lse: LightningTensor,
    /// Factor on the scores.
    pub scale: f64,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// Tokens of a row.
    pub row_len: usize,
}

/// Enqueues [`LightningAttentionFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_attention_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningAttentionFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| attention(o, &a)?)
}

fn attention(
    o: &mut crate::tensor::Operands,
    a: &LightningAttentionFwd,
) -> Result<AttentionFwd, lightning_core::CoreError> {
    Ok(AttentionFwd {
        shape: AttentionShape {
            heads: a.heads,
            kv_heads: a.kv_heads,
            head_dim: a.head_dim,
            row_len: a.row_len,
            scale: a.scale,
        },
        q: o.tensor("q", a.q)?,
        k: o.tensor("k", a.k)?,
        v: o.tensor("v", a.v)?,
        start: o.tensor("start", a.start)?,
        o: o.tensor("o", a.o)?,
        lse: o.tensor("lse", a.lse)?,
    })
}

/// Gradients of attention (`ops::AttentionBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningAttentionBwd {
    /// Arguments of the forward pass, with its results.
    pub fwd: LightningAttentionFwd,
    /// Gradient of the output.
    pub dout: LightningTensor,
    /// Gradient of the queries.
    pub dq: LightningTensor,
    /// Gradient of the keys.
    pub dk: LightningTensor,
    /// Gradient of the values.
    pub dv: LightningTensor,
}

/// Enqueues [`LightningAttentionBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_attention_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningAttentionBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| AttentionBwd {
        fwd: attention(o, &a.fwd)?,
        dout: o.tensor("dout", a.dout)?,
        dq: o.tensor("dq", a.dq)?,
        dk: o.tensor("dk", a.dk)?,
        dv: o.tensor("dv", a.dv)?
    })
}
