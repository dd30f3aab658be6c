// Parameter blocks: causal convolution with SiLU (csrc/conv/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// p_tc = b_c + sum_k w_ck x_{t-K+1+k, c} over the taps of t's document,  y = act(p sigmoid(p))
typedef struct ConvSiluFwdParams {
  LIGHTNING_PTR(const void) x;         // [t, c] act: columns of the in_proj output
  LIGHTNING_PTR(const void) w;         // [c, K] act; w_c,K-1 meets the current token
  LIGHTNING_PTR(const void) b;         // [c] act
  LIGHTNING_PTR(const int32_t) start;  // [t] i32: first token of each token's document
  LIGHTNING_PTR(void) y;               // [t, c] act, overwritten
  int64_t x_stride;                    // elements from one row of x to the next
  int64_t w_stride;                    // of w
  int64_t y_stride;                    // of y
  int64_t t;                           // tokens, may be 0
  int64_t c;                           // channels, at least 1
  int32_t taps;                        // K, at least 1
  int32_t reserved;                    // no meaning; 0
} ConvSiluFwdParams;

LIGHTNING_ASSERT(sizeof(ConvSiluFwdParams) == 88);
LIGHTNING_ASSERT(offsetof(ConvSiluFwdParams, taps) == 80);

// dp = dy s (1 + p (1 - s)), s = sigmoid(p),  dx_sc = act(sum_k w_ck dp_{s+K-1-k, c}) over the same document,
// partial[i]_kc = sum over token block i of dp_tc x_{t-K+1+k, c}, and of dp_tc for k = K
typedef struct ConvSiluBwdParams {
  LIGHTNING_PTR(const void) dy;        // [t, c] act
  LIGHTNING_PTR(const void) x;         // [t, c] act, of the forward pass
  LIGHTNING_PTR(const void) w;         // [c, K] act
  LIGHTNING_PTR(const void) b;         // [c] act
  LIGHTNING_PTR(const int32_t) start;  // [t] i32
  LIGHTNING_PTR(void) dx;              // [t, c] act, overwritten
  LIGHTNING_PTR(float) partial;        // [ceil(t / 128), K + 1, c] f32, overwritten
  int64_t dy_stride;                   // elements from one row of dy to the next
  int64_t x_stride;                    // of x
  int64_t w_stride;                    // of w
  int64_t dx_stride;                   // of dx
  int64_t t;                           // tokens, may be 0
  int64_t c;                           // channels, at least 1
  int32_t taps;                        // K, 1 to 8
  int32_t reserved;                    // no meaning; 0
} ConvSiluBwdParams;

LIGHTNING_ASSERT(sizeof(ConvSiluBwdParams) == 112);
LIGHTNING_ASSERT(offsetof(ConvSiluBwdParams, taps) == 104);

// dw_ck (+)= sum_i partial[i]_kc,  db_c (+)= sum_i partial[i]_Kc
typedef struct ConvSiluBwdDwParams {
  LIGHTNING_PTR(const float) partial;  // [blocks, K + 1, c] f32
  LIGHTNING_PTR(void) dw;              // [c, K] f32 or bf16, added to or overwritten, see accumulate
  LIGHTNING_PTR(void) db;              // [c] of the type of dw, as dw
  int64_t dw_stride;                   // elements from one row of dw to the next
  int64_t blocks;                      // token blocks, may be 0
  int64_t c;                           // channels, at least 1
  int32_t taps;                        // K, at least 1
  int32_t out_bf16;                    // 1: dw and db are bf16; 0: f32
  int32_t accumulate;                  // 0: dw = sum; 1: dw = dw + sum, rounded once
  int32_t reserved;                    // no meaning; 0
} ConvSiluBwdDwParams;

LIGHTNING_ASSERT(sizeof(ConvSiluBwdDwParams) == 64);
LIGHTNING_ASSERT(offsetof(ConvSiluBwdDwParams, accumulate) == 56);
