// Parameter blocks: causal grouped-query attention (csrc/attention/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// o_i = sum_j P_ij v_j,  P_ij = e^(scale q_i . k_j - lse_i)  over  start_i <= j <= i
typedef struct AttentionFwdParams {
  LIGHTNING_PTR(const void) q;         // [t, heads head_dim] act
  LIGHTNING_PTR(const void) k;         // [t, kv_heads head_dim] act
  LIGHTNING_PTR(const void) v;         // as k
  LIGHTNING_PTR(const int32_t) start;  // [t]: first token of each token's document; does not decrease
  LIGHTNING_PTR(void) o;               // as q, overwritten
  LIGHTNING_PTR(float) lse;            // [t, heads], overwritten: log of the sum of e^score
  int64_t q_stride;                    // elements from one row of q to the next
  int64_t k_stride;                    // of k
  int64_t v_stride;                    // of v
  int64_t o_stride;                    // of o
  int64_t lse_stride;                  // of lse
  int32_t t;                           // tokens, may be 0
  int32_t heads;                       // query heads; head i reads key/value head i / (heads / kv_heads)
  int32_t kv_heads;                    // key and value heads
  int32_t head_dim;                    // channels of a head
  float scale;                         // factor of the scores
  int32_t reserved;                    // no meaning; 0
} AttentionFwdParams;

LIGHTNING_ASSERT(sizeof(AttentionFwdParams) == 112);
LIGHTNING_ASSERT(offsetof(AttentionFwdParams, t) == 88);

// D_i = do_i . o_i,  dS_ij = P_ij (do_i . v_j - D_i),  dq_i = scale sum_j dS_ij k_j,  dk_j = scale sum_i dS_ij q_i,
// dv_j = sum_i P_ij do_i
typedef struct AttentionBwdParams {
  LIGHTNING_PTR(const void) q;         // [t, heads head_dim] act
  LIGHTNING_PTR(const void) k;         // [t, kv_heads head_dim] act
  LIGHTNING_PTR(const void) v;         // as k
  LIGHTNING_PTR(const void) o;         // as q: output of the forward pass
  LIGHTNING_PTR(const void) dout;      // as q
  LIGHTNING_PTR(const int32_t) start;  // [t]
  LIGHTNING_PTR(const float) lse;      // [t, heads] of the forward pass
  LIGHTNING_PTR(float) delta;          // [t, heads] without gaps: D; written by attention_bwd_delta, read by the others
  LIGHTNING_PTR(void) dq;              // as q, overwritten
  LIGHTNING_PTR(void) dk;              // as k, overwritten
  LIGHTNING_PTR(void) dv;              // as k, overwritten
  int64_t q_stride;                    // elements from one row of q to the next
  int64_t k_stride;                    // of k
  int64_t v_stride;                    // of v
  int64_t o_stride;                    // of o
  int64_t dout_stride;                 // of dout
  int64_t lse_stride;                  // of lse
  int64_t dq_stride;                   // of dq
  int64_t dk_stride;                   // of dk
  int64_t dv_stride;                   // of dv
  int32_t t;                           // tokens, may be 0
  int32_t heads;                       // query heads
  int32_t kv_heads;                    // key and value heads
  int32_t head_dim;                    // channels of a head
  float scale;                         // factor of the scores
  int32_t reserved;                    // no meaning; 0
} AttentionBwdParams;

LIGHTNING_ASSERT(sizeof(AttentionBwdParams) == 184);
LIGHTNING_ASSERT(offsetof(AttentionBwdParams, q_stride) == 88);
LIGHTNING_ASSERT(offsetof(AttentionBwdParams, t) == 160);
