// Parameter blocks: sums over blocks and fills (csrc/reduce/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// dst (+)= sum_i partial[i], in a fixed order
typedef struct SumBlocksParams {
  LIGHTNING_PTR(const float) partial;  // [blocks, n] f32
  LIGHTNING_PTR(void) dst;             // [n] grad, added to or overwritten, see accumulate
  int64_t partial_stride;              // elements from one row of partial to the next
  int64_t blocks;                      // may be 0
  int64_t n;                           // elements of the sum, at least 1
  int32_t accumulate;                  // 0: dst = sum; 1: dst += sum
  int32_t reserved;                    // no meaning; 0
} SumBlocksParams;

LIGHTNING_ASSERT(sizeof(SumBlocksParams) == 48);
LIGHTNING_ASSERT(offsetof(SumBlocksParams, accumulate) == 40);

// dst_ij = value
typedef struct FillParams {
  LIGHTNING_PTR(void) dst;  // [rows, cols] of any type, overwritten
  uint64_t value;           // the element's bits, in the low `size` bytes
  int64_t stride;           // elements from one row of dst to the next
  int64_t rows;             // may be 0
  int64_t cols;             // at least 1
  int32_t size;             // bytes of an element: 2, 4 or 8
  int32_t reserved;         // no meaning; 0
} FillParams;

LIGHTNING_ASSERT(sizeof(FillParams) == 48);
LIGHTNING_ASSERT(offsetof(FillParams, size) == 40);
