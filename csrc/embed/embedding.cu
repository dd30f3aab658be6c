// Token embedding, forward and backward.
//
//   y_t = table_{ids_t}            dtable_v (+)= sum over t with ids_t = v, in ascending t, of dy_t
//
// | buffer | shape  | dtype | written                    |   legend: t tokens, h hidden, v vocabulary
// |--------|--------|-------|----------------------------|
// | ids    | [t]    | i32   | read; 0 <= id < v          |   rounding: y is an exact copy; dtable is summed in f32, starting
// | table  | [v, h] | act   | read                       |   from what is there when it is added to, and rounded once
// | y      | [t, h] | act   | overwritten                |
// | order  | [t]    | i32   | read; positions sorted by id, stable (counting_sort.cu)
// | dtable | [v, h] | grad  | rows of ids that occur     |   rows of other ids are not touched: clear them before
//
// Launch: embedding_fwd_*: any grid of at least 1 block (each takes every gridDim-th token).
//         embedding_bwd_*: t blocks; the block of a sorted position that starts a run of equal ids sums that run, the
//         others return. No two blocks share a row, so there is nothing to add atomically. The suffix is the type of
//         dtable.
//
// An id outside of the table is a caller's error. It is not followed: its y is NaN, so that the loss shows it, and its
// gradient goes nowhere.
#include "lightning/kernel.cuh"
#include "lightning/params/embed.h"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

constexpr int kThreads = 256;

template <int W>
__device__ __forceinline__ void embedding_fwd(const EmbeddingFwdParams& p) {
  float nothing[W];
#pragma unroll
  for (int i = 0; i < W; ++i) nothing[i] = __int_as_float(0x7fc00000);
  const auto absent = Pack<bf16, W>::rounded(nothing);
  for (int64_t t = blockIdx.x; t < p.t; t += gridDim.x) {
    const int32_t id = p.ids[t];
    const bool present = id >= 0 && id < p.v;
    const bf16* const from = static_cast<const bf16*>(p.table) + (present ? id : 0) * p.table_stride;
    bf16* const to = static_cast<bf16*>(p.y) + t * p.y_stride;
    for (int column = threadIdx.x * W; column < p.h; column += kThreads * W) {
      store<bf16, W>(to + column, present ? load<bf16, W>(from + column) : absent);
    }
  }
}

template <class G, int W>
__device__ __forceinline__ void embedding_bwd(const EmbeddingBwdParams& p) {
  const int64_t first = blockIdx.x;
  const int32_t id = p.ids[p.order[first]];
  if (id < 0 || id >= p.v || (first > 0 && p.ids[p.order[first - 1]] == id)) return;
  G* const row = static_cast<G*>(p.dtable) + id * p.dtable_stride;
  for (int column = threadIdx.x * W; column < p.h; column += kThreads * W) {
    float sum[W] = {};
    if (p.accumulate) {
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] = to_f32(row[column + i]);
    }
    for (int64_t position = first; position < p.t; ++position) {
      const int64_t t = p.order[position];
      if (p.ids[t] != id) break;
      const auto dy = load<bf16, W>(static_cast<const bf16*>(p.dy) + t * p.dy_stride + column);
#pragma unroll
      for (int i = 0; i < W; ++i) sum[i] += dy[i];
    }
#pragma unroll
    for (int i = 0; i < W; ++i) row[column + i] = round_to<G>(sum[i]);
  }
}

template <class G>
__device__ __forceinline__ void embedding_bwd_any(const EmbeddingBwdParams& p) {
  if (aligned_16(p.dy) && aligned_16<bf16>(p.dy_stride) && p.h % kWide<bf16> == 0) {
    embedding_bwd<G, kWide<bf16>>(p);
  } else {
    embedding_bwd<G, 1>(p);
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(embedding_fwd_bf16, EmbeddingFwdParams, bf16, 256, 4, 0) {
  using namespace lightning;
  if (aligned_16(p.table) && aligned_16(p.y) && aligned_16<bf16>(p.table_stride) && aligned_16<bf16>(p.y_stride) &&
      p.h % kWide<bf16> == 0) {
    embedding_fwd<kWide<bf16>>(p);
  } else {
    embedding_fwd<1>(p);
  }
}

LIGHTNING_KERNEL(embedding_bwd_f32, EmbeddingBwdParams, f32, 256, 4, 0) { lightning::embedding_bwd_any<float>(p); }
LIGHTNING_KERNEL(embedding_bwd_bf16, EmbeddingBwdParams, bf16, 256, 4, 0) {
  lightning::embedding_bwd_any<lightning::bf16>(p);
}
