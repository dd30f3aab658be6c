// Parameter blocks: stable counting sort (csrc/sort/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// One pass of a stable sort of n items by a digit of their keys, see csrc/sort/counting_sort.cu
typedef struct SortPassParams {
  LIGHTNING_PTR(const int32_t) key;  // [n] i32: key of every item; what is not in [0, limit) counts as limit
  LIGHTNING_PTR(const int32_t) from; // [n] i32: items in the order so far; absent: 0, 1, 2, ...
  LIGHTNING_PTR(int32_t) out;        // [n] i32, overwritten: items in the new order
  LIGHTNING_PTR(int32_t) inverse;    // [n] i32, overwritten: position of every item in `out`; may be absent
  LIGHTNING_PTR(int32_t) start;      // [digits] i32, overwritten: position of the first item of every digit; may be absent
  LIGHTNING_PTR(int32_t) count;      // [digits, tiles] i32, workspace
  int64_t n;                         // items, may be 0, below 2^31
  int32_t tile;                      // items of a tile, a multiple of 32
  int32_t tiles;                     // ceil(n / tile), at least 1
  int32_t digits;                    // different digits, at most 1024
  int32_t limit;                     // keys above and below what is allowed become this, the largest
  int32_t shift;                     // digit = (key >> shift) & mask
  int32_t mask;                      // see shift
} SortPassParams;

LIGHTNING_ASSERT(sizeof(SortPassParams) == 80);
LIGHTNING_ASSERT(offsetof(SortPassParams, mask) == 76);
