// Parameter blocks: matrix products (csrc/gemm/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// c_mn (+)= alpha sum_k a_mk b_nk for operands of any strides
typedef struct GemmParams {
  LIGHTNING_PTR(const void) a;  // bf16: element (m, k) lies at m a_m + k a_k
  LIGHTNING_PTR(const void) b;  // bf16: element (n, k) lies at n b_n + k b_k
  LIGHTNING_PTR(void) c;        // [m, n] bf16 or f32 (the kernel's suffix), overwritten or added to, see accumulate
  int64_t a_m;                  // elements from one m to the next; a_m or a_k is 1
  int64_t a_k;                  // elements from one k to the next
  int64_t b_n;                  // elements from one n to the next; b_n or b_k is 1
  int64_t b_k;                  // elements from one k to the next
  int64_t c_stride;             // elements from one row of c to the next
  int64_t m;                    // rows of c, may be 0
  int64_t n;                    // columns of c, may be 0
  int64_t k;                    // inner length, may be 0
  float alpha;                  // factor of the product
  int32_t accumulate;           // 0: c = alpha a b; 1: c = c + alpha a b, rounded once
} GemmParams;

LIGHTNING_ASSERT(sizeof(GemmParams) == 96);
LIGHTNING_ASSERT(offsetof(GemmParams, c_stride) == 56);
LIGHTNING_ASSERT(offsetof(GemmParams, accumulate) == 92);

// c_mn (+)= alpha sum_k a_mk b_nk for operands that bulk tensor copies can read. Maps of 128-byte swizzle: an operand
// that is contiguous along k has boxes of 64 k and as many rows as a block loads at once; one that is contiguous along
// m or n has boxes of 64 of these and as many k as a block loads at once (lightning-core/src/gpu/gemm/tiles.rs).
typedef struct GemmTmaParams {
  LightningTensorMap a;  // bf16
  LightningTensorMap b;  // bf16
  LIGHTNING_PTR(void) c;  // [m, n] bf16 or f32, see c_f32, overwritten or added to, see accumulate
  int64_t c_stride;       // elements from one row of c to the next
  int32_t m;              // rows of c, at least 1
  int32_t n;              // columns of c, at least 1
  int32_t k;              // inner length, at least 1
  int32_t c_f32;          // 1: c is f32; 0: c is bf16
  int32_t accumulate;     // 0: c = alpha a b; 1: c = c + alpha a b, rounded once
  float alpha;            // factor of the product
  int32_t raster;         // rows of tiles that are walked together, 1 to all of them; decides only which blocks share L2
  int32_t reserved[5];    // no meaning; 0
} GemmTmaParams;

LIGHTNING_ASSERT(sizeof(GemmTmaParams) == 320);
LIGHTNING_ASSERT(offsetof(GemmTmaParams, c) == 256);
LIGHTNING_ASSERT(offsetof(GemmTmaParams, raster) == 296);
