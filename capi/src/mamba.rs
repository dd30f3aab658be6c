//! The Mamba-2 mixer: convolution, time steps, scan.

use crate::tensor::{LightningTensor, LightningWorkspace};
use crate::{LightningDevice, LightningStatus, enqueue};
use core::ffi::c_void;
use lightning_core::ops::{ConvSiluBwd, ConvSiluFwd, SoftplusDtBwd, SoftplusDtFwd, SsdScanBwd, SsdScanFwd, SsdShape};

/// Causal depthwise convolution and SiLU (`ops::ConvSiluFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningConvSiluFwd {
    /// Input [t, c].
    pub x: LightningTensor,
    /// Taps [c, K].
    pub w: LightningTensor,
    /// Bias [c].
    pub b: LightningTensor,
    /// First token of each token's document [t] i32.
    pub start: LightningTensor,
    /// Output [t, c].
    pub y: LightningTensor,
}

/// Enqueues [`LightningConvSiluFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_conv_silu_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningConvSiluFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| ConvSiluFwd {
        x: o.tensor("x", a.x)?,
        w: o.tensor("w", a.w)?,
        b: o.tensor("b", a.b)?,
        start: o.tensor("start", a.start)?,
        y: o.tensor("y", a.y)?
    })
}

/// Gradients of the convolution (`ops::ConvSiluBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningConvSiluBwd {
    /// Gradient of the output [t, c].
    pub dy: LightningTensor,
    /// Input [t, c].
    pub x: LightningTensor,
    /// Taps [c, K].
    pub w: LightningTensor,
    /// Bias [c].
    pub b: LightningTensor,
    /// First token of each token's document [t] i32.
    pub start: LightningTensor,
    /// Gradient of the input [t, c].
    pub dx: LightningTensor,
    /// Gradient of the taps [c, K], f32 or bf16.
    pub dw: LightningTensor,
    /// Gradient of the bias [c], as `dw`.
    pub db: LightningTensor,
    /// Workspace [K + 1, c] f32.
    pub partial: LightningTensor,
    /// Add to `dw` and `db`.
    pub accumulate: bool,
}

/// Enqueues [`LightningConvSiluBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_conv_silu_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningConvSiluBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| ConvSiluBwd {
        dy: o.tensor("dy", a.dy)?,
        x: o.tensor("x", a.x)?,
        w: o.tensor("w", a.w)?,
        b: o.tensor("b", a.b)?,
        start: o.tensor("start", a.start)?,
        dx: o.tensor("dx", a.dx)?,
        dw: o.tensor("dw", a.dw)?,
        db: o.tensor("db", a.db)?,
        accumulate: a.accumulate,
        partial: o.tensor("partial", a.partial)?
    })
}

/// Time steps (`ops::SoftplusDtFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningSoftplusDtFwd {
    /// Raw time steps [t, h].
    pub raw: LightningTensor,
    /// Bias [h] f32.
    pub bias: LightningTensor,
    /// Time steps [t, h] f32.
    pub delta: LightningTensor,
    /// Lower bound; 0 in training.
    pub dt_min: f64,
}

/// Enqueues [`LightningSoftplusDtFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_softplus_dt_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningSoftplusDtFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| SoftplusDtFwd {
        raw: o.tensor("raw", a.raw)?,
        bias: o.tensor("bias", a.bias)?,
        dt_min: a.dt_min,
        delta: o.tensor("delta", a.delta)?
    })
}

/// Gradients of the time steps (`ops::SoftplusDtBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningSoftplusDtBwd {
    /// Gradient of the time steps [t, h] f32.
    pub ddelta: LightningTensor,
    /// Raw time steps [t, h].
    pub raw: LightningTensor,
    /// Bias [h] f32.
    pub bias: LightningTensor,
    /// Gradient of the raw time steps [t, h].
    pub draw: LightningTensor,
    /// Gradient of the bias [h], f32 or bf16.
    pub dbias: LightningTensor,
    /// Workspace [ceil(t / 64), h] f32, at least one row.
    pub partial: LightningTensor,
    /// Lower bound of the forward pass.
    pub dt_min: f64,
    /// Add to `dbias`.
    pub accumulate: bool,
}

/// Enqueues [`LightningSoftplusDtBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_softplus_dt_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningSoftplusDtBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| SoftplusDtBwd {
        ddelta: o.tensor("ddelta", a.ddelta)?,
        raw: o.tensor("raw", a.raw)?,
        bias: o.tensor("bias", a.bias)?,
        dt_min: a.dt_min,
        draw: o.tensor("draw", a.draw)?,
        dbias: o.tensor("dbias", a.dbias)?,
        accumulate: a.accumulate,
        partial: o.tensor("partial", a.partial)?
    })
}

/// Sizes of a scan.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningSsdShape {
    /// Heads.
    pub heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// State size.
    pub state: usize,
    /// Groups that share B and C.
    pub groups: usize,
    /// Chunk length.
    pub chunk: usize,
    /// Tokens of a row; rows * row_len = t.
    pub row_len: usize,
}

impl LightningSsdShape {
    fn shape(self) -> SsdShape {
        let Self { heads, head_dim, state, groups, chunk, row_len } = self;
        SsdShape { heads, head_dim, state, groups, chunk, row_len }
    }
}

/// The selective scan (`ops::SsdScanFwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningSsdScanFwd {
    /// Sizes.
    pub shape: LightningSsdShape,
    /// Input channels [t, heads * head_dim].
    pub x: LightningTensor,
    /// Input projections [t, groups * state].
    pub b: LightningTensor,
    /// Output projections [t, groups * state].
    pub c: LightningTensor,
    /// Time steps [t, heads] f32.
    pub delta: LightningTensor,
    /// Logarithm of the decay rates [heads] f32.
    pub a_log: LightningTensor,
    /// Direct path [heads] f32.
    pub d: LightningTensor,
    /// First token of each token's document [t] i32.
    pub start: LightningTensor,
    /// One past the last token of the document [t] i32.
    pub end: LightningTensor,
    /// State before each row [rows, heads * head_dim * state] f32; may be absent.
    pub state_in: LightningTensor,
    /// Output [t, heads * head_dim].
    pub y: LightningTensor,
    /// States at chunk starts [rows * chunks, heads * head_dim * state] f32, kept for the backward pass.
    pub states: LightningTensor,
    /// State after each row, as `state_in`; may be absent.
    pub state_out: LightningTensor,
}

/// Enqueues [`LightningSsdScanFwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_ssd_scan_fwd(
    device: *mut LightningDevice,
    arguments: *const LightningSsdScanFwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| scan(o, &a)?)
}

fn scan(o: &mut crate::tensor::Operands, a: &LightningSsdScanFwd) -> Result<SsdScanFwd, lightning_core::CoreError> {
    Ok(SsdScanFwd {
        shape: a.shape.shape(),
        x: o.tensor("x", a.x)?,
        b: o.tensor("b", a.b)?,
        c: o.tensor("c", a.c)?,
        delta: o.tensor("delta", a.delta)?,
        a_log: o.tensor("a_log", a.a_log)?,
        d: o.tensor("d", a.d)?,
        start: o.tensor("start", a.start)?,
        end: o.tensor("end", a.end)?,
        state_in: o.optional("state_in", a.state_in)?,
        y: o.tensor("y", a.y)?,
        states: o.tensor("states", a.states)?,
        state_out: o.optional("state_out", a.state_out)?,
    })
}

/// Gradients of the scan (`ops::SsdScanBwd`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LightningSsdScanBwd {
    /// Arguments of the forward pass, with its results.
    pub fwd: LightningSsdScanFwd,
    /// Gradient of the output [t, heads * head_dim].
    pub dy: LightningTensor,
    /// Gradient of `state_out` f32; may be absent.
    pub dstate_out: LightningTensor,
    /// Gradient of `x`.
    pub dx: LightningTensor,
    /// Gradient of `b`.
    pub db: LightningTensor,
    /// Gradient of `c`.
    pub dc: LightningTensor,
    /// Gradient of the time steps [t, heads] f32.
    pub ddelta: LightningTensor,
    /// Gradient of `a_log` [heads], f32 or bf16.
    pub da_log: LightningTensor,
    /// Gradient of `d` [heads], as `da_log`.
    pub dd: LightningTensor,
    /// Gradient of `state_in` f32; may be absent.
    pub dstate_in: LightningTensor,
    /// Workspace [rows, heads] f32.
    pub partial_a: LightningTensor,
    /// Workspace [rows, heads] f32.
    pub partial_d: LightningTensor,
    /// Add to `da_log` and `dd`.
    pub accumulate: bool,
}

/// Enqueues [`LightningSsdScanBwd`].
///
/// # Safety
/// See the head of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lightning_ssd_scan_bwd(
    device: *mut LightningDevice,
    arguments: *const LightningSsdScanBwd,
    workspace: *mut LightningWorkspace,
    stream: *mut c_void,
) -> LightningStatus {
    enqueue!(device, arguments, workspace, stream, |o, a| SsdScanBwd {
        fwd: scan(o, &a.fwd)?,
        dy: o.tensor("dy", a.dy)?,
        dstate_out: o.optional("dstate_out", a.dstate_out)?,
        dx: o.tensor("dx", a.dx)?,
        db: o.tensor("db", a.db)?,
        dc: o.tensor("dc", a.dc)?,
        ddelta: o.tensor("ddelta", a.ddelta)?,
        da_log: o.tensor("da_log", a.da_log)?,
        dd: o.tensor("dd", a.dd)?,
        accumulate: a.accumulate,
        dstate_in: o.optional("dstate_in", a.dstate_in)?,
        partial_a: o.tensor("partial_a", a.partial_a)?,
        partial_d: o.tensor("partial_d", a.partial_d)?
    })
}
