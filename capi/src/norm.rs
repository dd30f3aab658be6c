//! Normalisation: residual add and RMSNorm, grouped gated RMSNorm.

use crate::tensor::{LightningTensor, LightningWorkspace};
use crate::{LightningDevice, LightningStatus, enqueue};
use core::ffi::c_void;
use lightning_core::ops::{GatedRmsNormBwd, GatedRmsNormFwd, RmsNormBwd, RmsNormFwd};

/// Adds a pending branch to the residual stream and normalises the sum (`ops::RmsNormFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningRmsNormFwd {
    /// Residual stream [t, d].
    pub x: LightningTensor,
    /// Output of the branch before [t, d]; may be absent.
    pub branch: LightningTensor,
    /// Weight [d].
    pub w: LightningTensor,
    /// New residual stream [t, d]; there exactly when `branch` is.
    pub x_out: LightningTensor,
    /// Normalised output [t, d].
    pub y: LightningTensor,
    /// Reciprocal root mean squares [t, 1] f32.
    pub rstd: LightningTensor,
    /// Added to the mean square.
    pub eps: f64,
}

/// Enqueues [`LightningRmsNormFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_rms_norm_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningRmsNormFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| RmsNormFwd {
        x: o.tensor("x", a.x)?,
        branch: o.optional("branch", a.branch)?,
        w: o.tensor("w", a.w)?,
        eps: a.eps,
        x_out: o.optional("x_out", a.x_out)?,
        y: o.tensor("y", a.y)?,
        rstd: o.tensor("rstd", a.rstd)?
    })
}

/// Gradients of RMSNorm (`ops::RmsNormBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningRmsNormBwd {
    /// Gradient of the output [t, d].
    pub dy: LightningTensor,
    /// Normalised input [t, d].
    pub x: LightningTensor,
    /// Weight [d].
    pub w: LightningTensor,
    /// Of the forward pass [t, 1] f32.
    pub rstd: LightningTensor,
    /// Gradient of the input [t, d].
    pub dx: LightningTensor,
    /// Gradient of the weight [d], f32 or bf16.
    pub dw: LightningTensor,
    /// Workspace [ceil(t / 64), d] f32, at least one row.
    pub partial: LightningTensor,
    /// Add to `dx`.
    pub accumulate_dx: bool,
    /// Add to `dw`.
    pub accumulate_dw: bool,
}

/// Enqueues [`LightningRmsNormBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_rms_norm_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningRmsNormBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| RmsNormBwd {
        dy: o.tensor("dy", a.dy)?,
        x: o.tensor("x", a.x)?,
        w: o.tensor("w", a.w)?,
        rstd: o.tensor("rstd", a.rstd)?,
        dx: o.tensor("dx", a.dx)?,
        accumulate_dx: a.accumulate_dx,
        dw: o.tensor("dw", a.dw)?,
        accumulate_dw: a.accumulate_dw,
        partial: o.tensor("partial", a.partial)?
    })
}

/// Gate, then RMSNorm of groups of channels (`ops::GatedRmsNormFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningGatedRmsNormFwd {
    /// Output of the scan [t, c].
    pub y: LightningTensor,
    /// Gate [t, c].
    pub z: LightningTensor,
    /// Weight [c].
    pub w: LightningTensor,
    /// Output [t, c].
    pub o: LightningTensor,
    /// Reciprocal root mean squares [t, g] f32.
    pub rstd: LightningTensor,
    /// Added to the mean square.
    pub eps: f64,
    /// Groups of channels that are normalised together.
    pub groups: usize,
}

/// Enqueues [`LightningGatedRmsNormFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_gated_rms_norm_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningGatedRmsNormFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| GatedRmsNormFwd {
        y: o.tensor("y", a.y)?,
        z: o.tensor("z", a.z)?,
        w: o.tensor("w", a.w)?,
        groups: a.groups,
        eps: a.eps,
        o: o.tensor("o", a.o)?,
        rstd: o.tensor("rstd", a.rstd)?
    })
}

/// Gradients of the gated norm (`ops::GatedRmsNormBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningGatedRmsNormBwd {
    /// Gradient of the output [t, c].
    pub dout: LightningTensor,
    /// Output of the scan [t, c].
    pub y: LightningTensor,
    /// Gate [t, c].
    pub z: LightningTensor,
    /// Weight [c].
    pub w: LightningTensor,
    /// Of the forward pass [t, g] f32.
    pub rstd: LightningTensor,
    /// Gradient of `y` [t, c].
    pub dy: LightningTensor,
    /// Gradient of `z` [t, c].
    pub dz: LightningTensor,
    /// Gradient of the weight [c], f32 or bf16.
    pub dw: LightningTensor,
    /// Workspace [ceil(t / 64), c] f32, at least one row.
    pub partial: LightningTensor,
    /// Groups of channels.
    pub groups: usize,
    /// Add to `dw`.
    pub accumulate: bool,
}

/// Enqueues [`LightningGatedRmsNormBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_gated_rms_norm_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningGatedRmsNormBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| GatedRmsNormBwd {
        dout: o.tensor("dout", a.dout)?,
        y: o.tensor("y", a.y)?,
        z: o.tensor("z", a.z)?,
        w: o.tensor("w", a.w)?,
        groups: a.groups,
        rstd: o.tensor("rstd", a.rstd)?,
        dy: o.tensor("dy", a.dy)?,
        dz: o.tensor("dz", a.dz)?,
        dw: o.tensor("dw", a.dw)?,
        accumulate: a.accumulate,
        partial: o.tensor("partial", a.partial)?
    })
}
