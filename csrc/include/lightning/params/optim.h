// Parameter blocks: step control, AdamW, expert bias (csrc/optim/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// partial_i = sum of the squares of 16384 elements
typedef struct GradSquaresParams {
  LIGHTNING_PTR(const void) gradients;  // [n] grad
  LIGHTNING_PTR(double) partial;        // [ceil(n / 16384)] f64, overwritten
  int64_t n;                            // elements, may be 0
} GradSquaresParams;

LIGHTNING_ASSERT(sizeof(GradSquaresParams) == 24);
LIGHTNING_ASSERT(offsetof(GradSquaresParams, n) == 16);

// Norm, clipping, schedule and counters of a step, see csrc/optim/step_control.cu
typedef struct StepControlParams {
  LIGHTNING_PTR(const double) partial;  // [blocks] f64: sums of squares
  LIGHTNING_PTR(double) state;          // [slots] f64, updated
  LIGHTNING_PTR(const double) tokens;   // [1] f64: loss tokens of the step; absent without per-token loss
  int64_t blocks;                       // may be 0
  uint64_t warmup_samples;              // of the schedule
  uint64_t decay_samples;               // above warmup_samples
  uint64_t wsd_samples;                 // of the last phase of a warm-up-stable-decay schedule
  double init_lr;                       // learning rate at the start of the warm-up
  double max_lr;                        // largest learning rate
  double min_lr;                        // smallest learning rate
  double start_weight_decay;            // at the start
  double end_weight_decay;              // after decay_samples
  double clip;                          // largest norm; 0 turns clipping off
  double beta1;                         // Adam's decay rate of the first moment
  double beta2;                         // of the second moment
  int32_t decay;                        // shape: 0 constant, 1 linear, 2 cosine, 3 inverse square root, 4 warm-up-stable-decay
  int32_t wsd_style;                    // shape of the last phase: 0 linear, 1 cosine, 2 exponential, 3 minus square root
} StepControlParams;

LIGHTNING_ASSERT(sizeof(StepControlParams) == 128);
LIGHTNING_ASSERT(offsetof(StepControlParams, wsd_style) == 124);

// One step of AdamW on one parameter
typedef struct AdamWParams {
  LIGHTNING_PTR(const void) gradient;  // [n] grad
  LIGHTNING_PTR(float) master;         // [n] f32, updated
  LIGHTNING_PTR(void) param;           // [n] bf16, overwritten: the rounded master; absent where the master is the weight
  LIGHTNING_PTR(float) m;              // [n] f32, updated: first moment
  LIGHTNING_PTR(float) v;              // [n] f32, updated: second moment
  LIGHTNING_PTR(const double) state;   // [slots] f64: what the step control decided
  int64_t n;                           // elements, may be 0
  float beta1;                         // decay rate of the first moment
  float beta2;                         // of the second moment
  float rest1;                         // 1 - beta1, rounded once
  float rest2;                         // 1 - beta2
  float eps;                           // added to the root of the second moment
  int32_t decay;                       // 1: weight decay applies
} AdamWParams;

LIGHTNING_ASSERT(sizeof(AdamWParams) == 80);
LIGHTNING_ASSERT(offsetof(AdamWParams, decay) == 76);

// b_e += rate sign(mean(c) - c_e);  last = c;  c = 0
typedef struct ExpertBiasUpdateParams {
  LIGHTNING_PTR(int32_t) counts;  // [e] i32, updated: tokens per expert of this step, then 0
  LIGHTNING_PTR(float) bias;      // [e] f32, updated
  LIGHTNING_PTR(int32_t) last;    // [e] i32, overwritten: the counts
  float rate;                     // size of a move
  int32_t e;                      // experts, at least 1
} ExpertBiasUpdateParams;

LIGHTNING_ASSERT(sizeof(ExpertBiasUpdateParams) == 32);
LIGHTNING_ASSERT(offsetof(ExpertBiasUpdateParams, e) == 28);
