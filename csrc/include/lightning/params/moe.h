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

// c (+)= a b over k; which of the operands is transposed is the kernel's, see csrc/moe/router_product.cu
typedef struct RouterProductParams {
  LIGHTNING_PTR(const void) a;  // first operand, see the kernel
  LIGHTNING_PTR(const void) b;  // second operand, see the kernel
  LIGHTNING_PTR(void) c;        // [m, n], overwritten or added to, see accumulate
  int64_t a_stride;             // elements from one row of a to the next
  int64_t b_stride;             // of b
  int64_t c_stride;             // of c
  int64_t m;                    // rows of c, may be 0
  int64_t n;                    // columns of c, may be 0
  int64_t k;                    // terms of a sum, may be 0
  int32_t accumulate;           // 0: c = product; 1: c += product
  int32_t reserved;             // no meaning; 0
} RouterProductParams;

LIGHTNING_ASSERT(sizeof(RouterProductParams) == 80);
LIGHTNING_ASSERT(offsetof(RouterProductParams, accumulate) == 72);

// logits_te = standard normal number t e_count + e of the stream
typedef struct RouterNoiseParams {
  LIGHTNING_PTR(const int32_t) counter;  // [2] i32: the seed's low and high half
  LIGHTNING_PTR(float) logits;           // [t, e] f32, overwritten
  uint64_t stream;                       // Philox stream
  int64_t logits_stride;                 // elements from one row of logits to the next
  int64_t t;                             // tokens, may be 0
  int32_t e;                             // experts, at least 1
  int32_t reserved;                      // no meaning; 0
} RouterNoiseParams;

LIGHTNING_ASSERT(sizeof(RouterNoiseParams) == 48);
LIGHTNING_ASSERT(offsetof(RouterNoiseParams, e) == 40);

// The k experts of every token and their weights
typedef struct RouteParams {
  LIGHTNING_PTR(const float) logits;    // [t, e] f32
  LIGHTNING_PTR(const float) bias;      // [e] f32: added to the scores for the selection
  LIGHTNING_PTR(const int32_t) forced;  // [t, k] i32: experts to take instead of the best; may be absent
  LIGHTNING_PTR(int32_t) idx;           // [t, k] i32, overwritten: experts, best first
  LIGHTNING_PTR(float) weight;          // [t, k] f32, overwritten
  LIGHTNING_PTR(int32_t) plain;         // [t, k] i32, overwritten: best experts without the bias; may be absent
  LIGHTNING_PTR(float) total;           // [t] f32, overwritten: sum of a token's scores + 1e-20; absent when plain is
  int64_t logits_stride;                // elements from one row of logits to the next
  int64_t forced_stride;                // of forced
  int64_t idx_stride;                   // of idx
  int64_t weight_stride;                // of weight
  int64_t t;                            // tokens, may be 0
  int32_t e;                            // experts, 1 to 1024
  int32_t k;                            // experts per token, 1 to e
  float scale;                          // factor on the weights
  int32_t normalize;                    // 1: divide by the sum of the selected scores
} RouteParams;

LIGHTNING_ASSERT(sizeof(RouteParams) == 112);
LIGHTNING_ASSERT(offsetof(RouteParams, normalize) == 108);

// Counts of the selection and sums of the auxiliary loss, see csrc/moe/router_stats.cu
typedef struct RouterStatsParams {
  LIGHTNING_PTR(const float) logits;     // [t, e] f32
  LIGHTNING_PTR(const int32_t) idx;      // [t, k] i32
  LIGHTNING_PTR(const int32_t) plain;    // [t, k] i32 of the selection without the bias; absent without auxiliary loss
  LIGHTNING_PTR(const float) total;      // [t] f32: sums of scores; absent when plain is
  LIGHTNING_PTR(const int32_t) padding;  // [t] i32: 1 for padding; may be absent
  LIGHTNING_PTR(float) part_q;           // [rows chunks, e] f32, workspace; absent when plain is
  LIGHTNING_PTR(int32_t) part_count;     // [rows chunks, e] i32, workspace
  LIGHTNING_PTR(int32_t) part_plain;     // [rows chunks, e] i32, workspace; absent when plain is
  LIGHTNING_PTR(int32_t) part_tokens;    // [rows chunks] i32, workspace
  LIGHTNING_PTR(int32_t) row_counts;     // [rows, e] i32, overwritten
  LIGHTNING_PTR(int32_t) counts;         // [e] i32, added to; may be absent
  LIGHTNING_PTR(float) stats;            // [rows, e + 2] f32, overwritten; absent when plain is
  LIGHTNING_PTR(double) metric;          // [1] f64, added to; absent when plain is
  double coefficient;                    // of the auxiliary loss
  int64_t logits_stride;                 // elements from one row of logits to the next
  int64_t idx_stride;                    // of idx
  int64_t row_counts_stride;             // of row_counts
  int64_t stats_stride;                  // of stats
  int64_t rows;                          // may be 0
  int64_t row_len;                       // tokens of a row, at least 1
  int64_t chunks;                        // ceil(row_len / 64)
  int32_t e;                             // experts, 1 to 1024
  int32_t k;                             // experts per token, 1 to e
} RouterStatsParams;

LIGHTNING_ASSERT(sizeof(RouterStatsParams) == 176);
LIGHTNING_ASSERT(offsetof(RouterStatsParams, k) == 172);

// Gradient of the router's logits
typedef struct RouterBwdParams {
  LIGHTNING_PTR(const float) logits;     // [t, e] f32
  LIGHTNING_PTR(const int32_t) idx;      // [t, k] i32
  LIGHTNING_PTR(const float) weight;     // [t, k] f32
  LIGHTNING_PTR(const float) dweight;    // [t, k] f32
  LIGHTNING_PTR(const int32_t) padding;  // [t] i32: 1 for padding; may be absent
  LIGHTNING_PTR(const float) stats;      // [rows, e + 2] f32 of the forward pass; absent without auxiliary loss
  LIGHTNING_PTR(float) dlogits;          // [t, e] f32, overwritten
  int64_t logits_stride;                 // elements from one row of logits to the next
  int64_t idx_stride;                    // of idx
  int64_t weight_stride;                 // of weight
  int64_t dweight_stride;                // of dweight
  int64_t stats_stride;                  // of stats
  int64_t dlogits_stride;                // of dlogits
  int64_t rows;                          // rows of tokens
  int64_t row_len;                       // tokens of a row, at least 1
  int64_t t;                             // tokens, may be 0
  int32_t e;                             // experts, 1 to 1024
  int32_t k;                             // experts per token, 1 to e
  float scale;                           // factor on the weights
  float coefficient;                     // of the auxiliary loss, divided by the rows
  float share;                           // 1 / micro-batches; 0: the micro-batch's tokens without padding
  int32_t normalize;                     // 1: the weights were divided by the sum of the selected scores
} RouterBwdParams;

LIGHTNING_ASSERT(sizeof(RouterBwdParams) == 152);
LIGHTNING_ASSERT(offsetof(RouterBwdParams, normalize) == 148);
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
