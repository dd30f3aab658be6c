// Parameter blocks: router, dispatch, experts, combine, squared ReLU (csrc/moe/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// y = max(x, 0)^2
typedef struct Relu2FwdParams {
  LIGHTNING_PTR(const void) x;  // [t, f] act
  LIGHTNING_PTR(void) y;        // [t, f] act, overwritten
  int64_t x_stride;             // elements from one row of x to the next
  int64_t y_stride;             // of y
  int64_t t;                    // tokens, may be 0
  int64_t f;                    // columns, at least 1
} Relu2FwdParams;

LIGHTNING_ASSERT(sizeof(Relu2FwdParams) == 48);
LIGHTNING_ASSERT(offsetof(Relu2FwdParams, f) == 40);

// dx = 2 max(x, 0) dy
typedef struct Relu2BwdParams {
  LIGHTNING_PTR(const void) x;   // [t, f] act
  LIGHTNING_PTR(const void) dy;  // [t, f] act
  LIGHTNING_PTR(void) dx;        // [t, f] act, overwritten
  int64_t x_stride;              // elements from one row of x to the next
  int64_t dy_stride;             // of dy
  int64_t dx_stride;             // of dx
  int64_t t;                     // tokens, may be 0
  int64_t f;                     // columns, at least 1
} Relu2BwdParams;

LIGHTNING_ASSERT(sizeof(Relu2BwdParams) == 64);
LIGHTNING_ASSERT(offsetof(Relu2BwdParams, f) == 56);

// out_t = before_t + sum_j y_{slot(t, j)} + after_t
typedef struct CombineParams {
  LIGHTNING_PTR(const void) y;        // [t k, h] act: rows by slot
  LIGHTNING_PTR(const int32_t) slot;  // [t, k] i32: slot of every pair
  LIGHTNING_PTR(const void) before;   // [t, h] act: added first; may be out itself; may be absent
  LIGHTNING_PTR(const void) after;    // [t, h] act: added last; may be absent
  LIGHTNING_PTR(void) out;            // [t, h] act, overwritten
  int64_t y_stride;                   // elements from one row of y to the next
  int64_t slot_stride;                // of slot
  int64_t before_stride;              // of before
  int64_t after_stride;               // of after
  int64_t out_stride;                 // of out
  int64_t t;                          // tokens, may be 0
  int32_t k;                          // experts per token, may be 0
  int32_t h;                          // hidden, at least 1
} CombineParams;

LIGHTNING_ASSERT(sizeof(CombineParams) == 96);
LIGHTNING_ASSERT(offsetof(CombineParams, h) == 92);
// xs_s = x_t for the pair (t, j) in slot s
typedef struct ExpertsGatherParams {
  LIGHTNING_PTR(const void) x;                // [t, d] act
  LIGHTNING_PTR(void) xs;                     // [slots, d] act, overwritten where a slot is used
  LIGHTNING_PTR(const int32_t) pair_of_slot;  // [slots]: t k + j
  LIGHTNING_PTR(const int32_t) offsets;       // [experts + 1]: first slot of every expert, then the end of the last
  int64_t x_stride;                           // elements from one row of x to the next
  int64_t xs_stride;                          // of xs
  int32_t d;                                  // columns
  int32_t k;                                  // experts per token, at least 1
  int32_t experts;                            // at least 1
  int32_t reserved;                           // no meaning; 0
} ExpertsGatherParams;

LIGHTNING_ASSERT(sizeof(ExpertsGatherParams) == 64);
LIGHTNING_ASSERT(offsetof(ExpertsGatherParams, d) == 48);

// c_s = a_s b_e^T (form NT, b_e [n, depth]) or a_s b_e (form NN, b_e [depth, n]) for the slots s of every expert e;
// activated_s = act(weight max(c_s, 0)^2)
typedef struct ExpertsProductParams {
  LIGHTNING_PTR(const void) a;                // [slots, depth] act
  LIGHTNING_PTR(const void) b;                // weights of all experts, one below the other
  LIGHTNING_PTR(void) c;                      // [slots, n] act, overwritten where a slot is used
  LIGHTNING_PTR(void) activated;              // [slots, n] act, likewise; may be absent
  LIGHTNING_PTR(const float) weight;          // [pairs]; absent with activated
  LIGHTNING_PTR(const int32_t) offsets;       // [experts + 1]
  LIGHTNING_PTR(const int32_t) pair_of_slot;  // [slots]; absent with activated
  int64_t a_stride;                           // elements from one row of a to the next
  int64_t b_stride;                           // of b
  int64_t c_stride;                           // of c
  int64_t activated_stride;                   // of activated
  int32_t n;                                  // columns of c
  int32_t depth;                              // inner length
  int32_t experts;                            // at least 1
  int32_t reserved;                           // no meaning; 0
} ExpertsProductParams;

LIGHTNING_ASSERT(sizeof(ExpertsProductParams) == 104);
LIGHTNING_ASSERT(offsetof(ExpertsProductParams, a_stride) == 56);
LIGHTNING_ASSERT(offsetof(ExpertsProductParams, experts) == 96);

// With r = max(p, 0) and the gradient da of the activated slots, which dp holds at the start:
// dweight = sum_f r^2 da,  a = act(w r^2),  dp = act(2 w r da)
typedef struct ExpertsActivationBwdParams {
  LIGHTNING_PTR(const void) p;                // [slots, f] act
  LIGHTNING_PTR(void) dp;                     // [slots, f] act: da, overwritten with dp
  LIGHTNING_PTR(void) a;                      // [slots, f] act, overwritten
  LIGHTNING_PTR(const float) weight;          // [pairs]
  LIGHTNING_PTR(float) dweight;               // [pairs], overwritten where a pair has a slot
  LIGHTNING_PTR(const int32_t) offsets;       // [experts + 1]
  LIGHTNING_PTR(const int32_t) pair_of_slot;  // [slots]
  int64_t p_stride;                           // elements from one row of p to the next
  int64_t dp_stride;                          // of dp
  int64_t a_stride;                           // of a
  int32_t f;                                  // expert width
  int32_t experts;                            // at least 1
} ExpertsActivationBwdParams;

LIGHTNING_ASSERT(sizeof(ExpertsActivationBwdParams) == 88);
LIGHTNING_ASSERT(offsetof(ExpertsActivationBwdParams, f) == 80);

// dw_e (+)= dy^T x over the slots of every expert
typedef struct ExpertsWeightBwdParams {
  LIGHTNING_PTR(const void) dy;          // [slots, m] act
  LIGHTNING_PTR(const void) x;           // [slots, n] act
  LIGHTNING_PTR(void) dw;                // [experts m, n] f32 or bf16, see dw_f32, overwritten or added to, see accumulate
  LIGHTNING_PTR(const int32_t) offsets;  // [experts + 1]
  int64_t dy_stride;                     // elements from one row of dy to the next
  int64_t x_stride;                      // of x
  int64_t dw_stride;                     // of dw
  int32_t m;                             // rows of the gradient of one expert
  int32_t n;                             // columns
  int32_t accumulate;                    // 0: dw = sum; 1: dw = dw + sum, rounded once
  int32_t dw_f32;                        // 1: dw is f32; 0: dw is bf16
} ExpertsWeightBwdParams;

LIGHTNING_ASSERT(sizeof(ExpertsWeightBwdParams) == 72);
LIGHTNING_ASSERT(offsetof(ExpertsWeightBwdParams, m) == 56);
