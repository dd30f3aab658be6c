//! The device state block: what varies from step to step, kept on the device so that a step needs no host round trip.

/// A slot of the state block (f64 each; counters stay exact up to 2^53).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum StateSlot {
    /// Samples consumed by successful steps.
    Samples,
    /// Successful optimizer steps; also the step count of Adam's bias correction.
    Steps,
    /// Steps skipped because a gradient was not finite.
    Skipped,
    /// Skipped steps since the last successful one.
    SkippedInARow,
    /// Samples of the step in progress (written by the host).
    StepSamples,
    /// Learning rate of the last step.
    LearningRate,
    /// Learning rate of the next step (what the reference logs).
    NextLearningRate,
    /// Weight decay of the last step.
    WeightDecay,
    /// Global L2 norm of the gradient before clipping.
    GradNorm,
    /// Factor on every gradient element: division by the token count and clipping.
    GradFactor,
    /// 1 when the last step was skipped.
    Skip,
    /// Adam's 1 - beta1^t of the last step.
    Correction1,
    /// Adam's 1 - beta2^t of the last step.
    Correction2,
}

/// Number of slots.
pub const STATE_SLOTS: usize = StateSlot::Correction2 as usize + 1;
