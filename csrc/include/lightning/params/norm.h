// Parameter blocks: residual add and RMSNorm, gated RMSNorm (csrc/norm/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// x' = act(x + b),  y = act(w x' rstd),  rstd = (mean_h x'^2 + eps)^(-1/2)
typedef struct RmsNormFwdParams {
  LIGHTNING_PTR(const void) x;  // [t, h] act: residual stream
  LIGHTNING_PTR(const void) b;  // [t, h] act: output of the branch before, not yet added; may be absent (x' = x)
  LIGHTNING_PTR(void) x_out;    // [t, h] act, overwritten: x'; may be x itself; may be absent
  LIGHTNING_PTR(void) y;        // [t, h] act, overwritten
  LIGHTNING_PTR(const void) w;  // [h] act
  LIGHTNING_PTR(float) rstd;    // [t] f32, overwritten; may be absent
  int64_t x_stride;             // elements from one row of x to the next
  int64_t b_stride;             // of b
  int64_t x_out_stride;         // of x_out
  int64_t y_stride;             // of y
  int64_t t;                    // tokens, may be 0
  int32_t h;                    // hidden, at least 1
  float eps;                    // added to the mean square
} RmsNormFwdParams;

LIGHTNING_ASSERT(sizeof(RmsNormFwdParams) == 96);
LIGHTNING_ASSERT(offsetof(RmsNormFwdParams, x_stride) == 48);
LIGHTNING_ASSERT(offsetof(RmsNormFwdParams, eps) == 92);

// g = dy w,  dx = rstd (g - x' rstd^2 mean_h(g x')),  dw_partial[i] = sum over token block i of dy x' rstd
typedef struct RmsNormBwdParams {
  LIGHTNING_PTR(const void) dy;     // [t, h] act
  LIGHTNING_PTR(const void) x;      // [t, h] act: x' of the forward pass
  LIGHTNING_PTR(const void) w;      // [h] act
  LIGHTNING_PTR(const float) rstd;  // [t] f32 of the forward pass
  LIGHTNING_PTR(void) d_res;        // [t, h] act, added to or overwritten, see accumulate
  LIGHTNING_PTR(float) dw_partial;  // [ceil(t / block_tokens), h] f32, overwritten
  int64_t dy_stride;                // elements from one row of dy to the next
  int64_t x_stride;                 // of x
  int64_t d_res_stride;             // of d_res
  int64_t t;                        // tokens, may be 0
  int32_t h;                        // hidden, at least 1
  int32_t block_tokens;             // tokens of one block, at least 1; decides the order of the sum, hence the bits
  int32_t accumulate;               // 1: d_res += dx, the residual stream passes by the norm; 0: d_res = dx
  int32_t reserved;                 // no meaning; 0
} RmsNormBwdParams;

LIGHTNING_ASSERT(sizeof(RmsNormBwdParams) == 96);
LIGHTNING_ASSERT(offsetof(RmsNormBwdParams, dy_stride) == 48);
LIGHTNING_ASSERT(offsetof(RmsNormBwdParams, accumulate) == 88);
