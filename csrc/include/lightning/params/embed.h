// Parameter blocks: token embedding, document bounds, rolls (csrc/embed/). Conventions: ../params.h.
#pragma once

#include "lightning/params/abi.h"

// start_t, end_t = first and one past the last token of the document of t
typedef struct SegmentsParams {
  LIGHTNING_PTR(const int32_t) cu_seqlens;  // [m] i32, ascending document offsets, repetitions allowed
  LIGHTNING_PTR(int32_t) start;             // [t] i32, overwritten
  LIGHTNING_PTR(int32_t) end;               // [t] i32, overwritten
  int64_t m;                                // offsets, may be 0
  int64_t row_len;                          // tokens of a row, at least 1
  int64_t t;                                // tokens, may be 0
} SegmentsParams;

LIGHTNING_ASSERT(sizeof(SegmentsParams) == 48);
LIGHTNING_ASSERT(offsetof(SegmentsParams, t) == 40);

// dst_t = src_{t+1} inside a document, 0 at its last token
typedef struct RollParams {
  LIGHTNING_PTR(const int32_t) src;  // [t] i32
  LIGHTNING_PTR(const int32_t) end;  // [t] i32 of the document bounds
  LIGHTNING_PTR(int32_t) dst;        // [t] i32, overwritten
  int64_t t;                         // tokens, may be 0
} RollParams;

LIGHTNING_ASSERT(sizeof(RollParams) == 32);
LIGHTNING_ASSERT(offsetof(RollParams, t) == 24);

// y_t = table_{ids_t}
typedef struct EmbeddingFwdParams {
  LIGHTNING_PTR(const int32_t) ids;  // [t] i32
  LIGHTNING_PTR(const void) table;   // [v, h] act
  LIGHTNING_PTR(void) y;             // [t, h] act, overwritten
  int64_t table_stride;              // elements from one row of table to the next
  int64_t y_stride;                  // of y
  int64_t t;                         // tokens, may be 0
  int32_t h;                         // hidden, at least 1
  int32_t v;                         // vocabulary, at least 1
} EmbeddingFwdParams;

LIGHTNING_ASSERT(sizeof(EmbeddingFwdParams) == 56);
LIGHTNING_ASSERT(offsetof(EmbeddingFwdParams, v) == 52);

// dtable_v (+)= sum over t with ids_t = v, ascending t, of dy_t
typedef struct EmbeddingBwdParams {
  LIGHTNING_PTR(const int32_t) ids;    // [t] i32
  LIGHTNING_PTR(const int32_t) order;  // [t] i32: token positions sorted by id, stable
  LIGHTNING_PTR(const void) dy;        // [t, h] act
  LIGHTNING_PTR(void) dtable;          // [v, h] grad, rows of present ids added to or overwritten, see accumulate
  int64_t dy_stride;                   // elements from one row of dy to the next
  int64_t dtable_stride;               // of dtable
  int64_t t;                           // tokens, may be 0
  int32_t h;                           // hidden, at least 1
  int32_t v;                           // vocabulary, at least 1
  int32_t accumulate;                  // 0: dtable_v = sum; 1: dtable_v += sum
  int32_t reserved;                    // no meaning; 0
} EmbeddingBwdParams;

LIGHTNING_ASSERT(sizeof(EmbeddingBwdParams) == 72);
LIGHTNING_ASSERT(offsetof(EmbeddingBwdParams, accumulate) == 64);
