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

// u = y silu(z),  rstd = (mean_{c in g} u^2 + eps)^(-1/2),  o = act(w u rstd)
typedef struct GatedRmsNormFwdParams {
  LIGHTNING_PTR(const void) y;  // [t, c] act: output of the scan
  LIGHTNING_PTR(const void) z;  // [t, c] act: gate
  LIGHTNING_PTR(const void) w;  // [c] act
  LIGHTNING_PTR(void) o;        // [t, c] act, overwritten
  LIGHTNING_PTR(float) rstd;    // [t, g] f32, overwritten
  int64_t y_stride;             // elements from one row of y to the next
  int64_t z_stride;             // of z
  int64_t o_stride;             // of o
  int64_t rstd_stride;          // of rstd
  int64_t t;                    // tokens, may be 0
  int32_t groups;               // g, at least 1
  int32_t width;                // channels of a group, c / g, at least 1
  float eps;                    // added to the mean square
  int32_t reserved;             // no meaning; 0
} GatedRmsNormFwdParams;

LIGHTNING_ASSERT(sizeof(GatedRmsNormFwdParams) == 96);
LIGHTNING_ASSERT(offsetof(GatedRmsNormFwdParams, t) == 72);
LIGHTNING_ASSERT(offsetof(GatedRmsNormFwdParams, eps) == 88);

// g = do w,  du = rstd (g - u rstd^2 mean_{c in g}(g u)),  dy = act(du silu(z)),  dz = act(du y silu'(z)),
// dw_partial[i] = sum over token block i of do u rstd
typedef struct GatedRmsNormBwdParams {
  LIGHTNING_PTR(const void) dout;   // [t, c] act: gradient of o
  LIGHTNING_PTR(const void) y;      // [t, c] act, of the forward pass
  LIGHTNING_PTR(const void) z;      // [t, c] act, of the forward pass
  LIGHTNING_PTR(const void) w;      // [c] act
  LIGHTNING_PTR(const float) rstd;  // [t, g] f32 of the forward pass
  LIGHTNING_PTR(void) dy;           // [t, c] act, overwritten
  LIGHTNING_PTR(void) dz;           // [t, c] act, overwritten
  LIGHTNING_PTR(float) dw_partial;  // [ceil(t / 64), c] f32, overwritten
  int64_t dout_stride;              // elements from one row of dout to the next
  int64_t y_stride;                 // of y
  int64_t z_stride;                 // of z
  int64_t rstd_stride;              // of rstd
  int64_t dy_stride;                // of dy
  int64_t dz_stride;                // of dz
  int64_t partial_stride;           // of dw_partial
  int64_t t;                        // tokens, may be 0
  int32_t groups;                   // g, at least 1
  int32_t width;                    // channels of a group, c / g, at least 1
} GatedRmsNormBwdParams;

LIGHTNING_ASSERT(sizeof(GatedRmsNormBwdParams) == 136);
LIGHTNING_ASSERT(offsetof(GatedRmsNormBwdParams, dout_stride) == 64);
LIGHTNING_ASSERT(offsetof(GatedRmsNormBwdParams, width) == 132);
