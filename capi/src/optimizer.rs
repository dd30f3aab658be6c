//! The optimizer: AdamW over a tensor, and the update of expert biases.

use crate::tensor::{LightningTensor, LightningWorkspace};
use crate::{LightningDevice, LightningStatus, enqueue};
use core::ffi::c_void;
use lightning_core::ops::{AdamW, ExpertBiasUpdate};

/// AdamW (`ops::AdamW`). Learning rate, weight decay, gradient factor, skip flag and bias corrections come from the state.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningAdamW {
    /// Accumulated gradient, f32 or bf16.
    pub gradient: LightningTensor,
    /// Working weight.
    pub param: LightningTensor,
    /// Master weight f32; absent when the working weight is f32.
    pub master: LightningTensor,
    /// First moment f32.
    pub m: LightningTensor,
    /// Second moment f32.
    pub v: LightningTensor,
    /// State block [13] f64: `lightning_core::optim::StateSlot` names the slots.
    pub state: LightningTensor,
    /// Decay rate of the first moment.
    pub beta1: f64,
    /// Decay rate of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Whether weight decay applies.
    pub decay: bool,
}

/// Enqueues [`LightningAdamW`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_adamw(
    device: *mut LightningDevice,
    arguments: *const LightningAdamW,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| AdamW {
        gradient: o.tensor("gradient", a.gradient)?,
        param: o.tensor("param", a.param)?,
        master: o.optional("master", a.master)?,
        m: o.tensor("m", a.m)?,
        v: o.tensor("v", a.v)?,
        state: o.tensor("state", a.state)?,
        betas: (a.beta1, a.beta2),
        eps: a.eps,
        decay: a.decay
    })
}

/// Moves expert biases towards balance (`ops::ExpertBiasUpdate`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningExpertBiasUpdate {
    /// Tokens per expert; reset to 0 [e] i32.
    pub counts: LightningTensor,
    /// Expert bias [e] f32.
    pub bias: LightningTensor,
    /// Receives the counts [e] i32.
    pub last: LightningTensor,
    /// Size of a move.
    pub rate: f64,
}

/// Enqueues [`LightningExpertBiasUpdate`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_expert_bias_update(
    device: *mut LightningDevice,
    arguments: *const LightningExpertBiasUpdate,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| ExpertBiasUpdate {
        counts: o.tensor("counts", a.counts)?,
        bias: o.tensor("bias", a.bias)?,
        rate: a.rate,
        last: o.tensor("last", a.last)?
    })
}
