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
