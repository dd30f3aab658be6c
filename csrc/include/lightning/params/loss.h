// Parameter blocks: linear cross entropy (csrc/loss/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// N = sum_t mask_t and the factor of the gradients of a head: factor / max(N, 1), times share or, where that is 0, N of
// the LM head
typedef struct LossScaleParams {
  LIGHTNING_PTR(const int32_t) mask;     // [t]: 0 or 1, of the head
  LIGHTNING_PTR(const int32_t) lm_mask;  // [lm_t]: of the LM head
  LIGHTNING_PTR(int32_t) tokens;         // [1], overwritten: N of the head
  LIGHTNING_PTR(float) scale;            // [1], overwritten
  int64_t t;                             // tokens of the head, may be 0
  int64_t lm_t;                          // tokens of the LM head, may be 0
  double factor;                         // factor of the head's loss
  double share;                          // 1 / micro-batches; 0: every token counts the same
} LossScaleParams;

LIGHTNING_ASSERT(sizeof(LossScaleParams) == 64);
LIGHTNING_ASSERT(offsetof(LossScaleParams, factor) == 48);

// ce_t = max_v z + ln sum_v e^(z - max) - z_label and, in place of z, act(c_t (softmax_v(z) - [v = label])) with
// c_t = scale where the mask is not 0, else 0
typedef struct LossRowsParams {
  LIGHTNING_PTR(void) logits;          // [rows, v] act, overwritten with the gradients if with_gradient
  LIGHTNING_PTR(const int32_t) label;  // [rows]; outside of 0..v: ce is 0 and no logit is the label
  LIGHTNING_PTR(const int32_t) mask;   // [rows]: 0 or 1
  LIGHTNING_PTR(const float) scale;    // [1]
  LIGHTNING_PTR(float) ce;             // [rows], overwritten
  LIGHTNING_PTR(int32_t) hit;          // [rows], overwritten: 1 where mask is not 0 and the first largest logit is the label
  int64_t stride;                      // elements from one row of logits to the next
  int64_t rows;                        // may be 0
  int32_t v;                           // vocabulary, at least 1
  int32_t with_gradient;               // 0: logits stay
} LossRowsParams;

LIGHTNING_ASSERT(sizeof(LossRowsParams) == 72);
LIGHTNING_ASSERT(offsetof(LossRowsParams, v) == 64);

// metric += (sum of masked ce, N, sum / max(N, 1), sum of hits)
typedef struct LossMetricParams {
  LIGHTNING_PTR(const float) ce;        // [t]
  LIGHTNING_PTR(const int32_t) mask;    // [t]
  LIGHTNING_PTR(const int32_t) hit;     // [t]
  LIGHTNING_PTR(const int32_t) tokens;  // [1]: N
  LIGHTNING_PTR(double) metric;         // [4], added to
  int64_t t;                            // tokens, may be 0
} LossMetricParams;

LIGHTNING_ASSERT(sizeof(LossMetricParams) == 48);
LIGHTNING_ASSERT(offsetof(LossMetricParams, t) == 40);
