// Slots of the device state block, in the order of `StateSlot` in lightning-core/src/optim/state.rs.
#pragma once

namespace lightning {

enum StateSlot {
  kSamples,           // samples consumed by successful steps
  kSteps,             // successful steps
  kSkipped,           // steps skipped because a gradient was not finite
  kSkippedInARow,     // of those, since the last successful one
  kStepSamples,       // samples of the step in progress
  kLearningRate,      // of this step
  kNextLearningRate,  // of the next one
  kWeightDecay,       // of this step
  kGradNorm,          // before clipping
  kGradFactor,        // factor on every gradient element
  kSkip,              // 1: this step changes no parameter
  kCorrection1,       // 1 - beta1^t
  kCorrection2,       // 1 - beta2^t
};

}  // namespace lightning
