// Causal grouped-query attention inside documents, forward, with an online softmax: no score is ever stored.
//
//   S_ij = scale q_i . k_j  for start_i <= j <= i        lse_i = log sum_j e^(S_ij)        o_i = sum_j e^(S_ij - lse_i) v_j
//
// | buffer  | shape       | dtype | written     |   legend: t tokens, heads, kv heads, head_dim; query head i reads
// |---------|-------------|-------|-------------|   key/value head i / (heads / kv heads)
// | q, o    | [t, h a]    | act   | o overwritten |
// | k, v    | [t, m a]    | act   | read        |   rounding: scores, maxima and sums f32; the probabilities are rounded
// | lse     | [t, h]      | f32   | overwritten |   to bf16 for the product with v; o is rounded once
//                                                 order: keys from the start of the first query's document on, 32 at a time
//
// Launch: (ceil(t / 64), heads) blocks. Heads of up to 128 channels, any alignment. A query that sees no key (there is
// none in a well-formed `start`) gets zeros and lse = -inf.
#include "lightning/attention.cuh"
#include "lightning/kernel.cuh"
#include "lightning/params/attention.h"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

using namespace attention;

// Over the four lanes that hold a row.
__device__ __forceinline__ float row_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, 1));
  return fmaxf(v, __shfl_xor_sync(kAllLanes, v, 2));
}
__device__ __forceinline__ float row_sum(float v) {
  v += __shfl_xor_sync(kAllLanes, v, 1);
  return v + __shfl_xor_sync(kAllLanes, v, 2);
}

__device__ __forceinline__ void attention_fwd(const AttentionFwdParams& p) {
  __shared__ Tile tile;  // the queries; later keys in rows 0 to 31 and values in rows 32 to 63
  const int lane = threadIdx.x % kWarpSize, warp_row = threadIdx.x / kWarpSize * 16;
  const int head = blockIdx.y, kv_head = head / (p.heads / p.kv_heads);
  // The last queries have the most keys: they go first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows, end = min(first + kRows, p.t);
  const int chunks = (p.head_dim + 15) / 16;
  const mma::Operand k = head_of(p.k, p.k_stride, p.t, kv_head, p.head_dim);
  const mma::Operand v = head_of(p.v, p.v_stride, p.t, kv_head, p.head_dim);

  load_rows<kRows>(tile, 0, head_of(p.q, p.q_stride, p.t, head, p.head_dim), first, chunks);
  __syncthreads();
  mma::Fragment q[kMaxChunks];
#pragma unroll
  for (int c = 0; c < kMaxChunks; ++c) {
    if (c < chunks) q[c] = mma::left(tile, warp_row, 16 * c);
  }

  // Two rows per lane. Scores count in powers of 2.
  const float scale = p.scale * kLog2E;
  int query[2], start[2];
  float max[2], sum[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    query[half] = first + warp_row + 8 * half + lane / 4;
    start[half] = query[half] < p.t ? p.start[query[half]] : INT32_MAX;
    max[half] = -INFINITY;
    sum[half] = 0.0f;
  }
  Channels o = {};

#pragma unroll 1
  for (int key = p.start[first]; key < end; key += kColumns) {
    __syncthreads();
    load_rows<kColumns>(tile, 0, k, key, chunks);
    load_rows<kColumns>(tile, kColumns, v, key, chunks);
    __syncthreads();

    Scores s = {};
#pragma unroll
    for (int c = 0; c < kMaxChunks; ++c) {
      if (c < chunks) {
        mma::multiply(s[0], s[1], q[c], mma::right(tile, 16 * c, 0));
        mma::multiply(s[2], s[3], q[c], mma::right(tile, 16 * c, 16));
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_max = max[half];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& score = s[i / 2][2 * half + i % 2];
        const int j = key + i / 2 * 8 + lane % 4 * 2 + i % 2;
        score = start[half] <= j && j <= query[half] ? score * scale : -INFINITY;
        new_max = fmaxf(new_max, score);
      }
      new_max = row_max(new_max);
      // A row that has seen nothing yet subtracts 0, not -inf.
      const float base = new_max == -INFINITY ? 0.0f : new_max;
      const float correction = exp2f(max[half] - base);
      max[half] = new_max;
      sum[half] *= correction;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& score = s[i / 2][2 * half + i % 2];
        score = exp2f(score - base);
        sum[half] += score;
      }
#pragma unroll
      for (int n = 0; n < 2 * kMaxChunks; ++n) {
        o[n][2 * half] *= correction;
        o[n][2 * half + 1] *= correction;
      }
    }
    add_channels(o, s, tile, kColumns, chunks);
  }

  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = row_sum(sum[half]);
    inverse[half] = total == 0.0f ? 0.0f : 1.0f / total;
    if (lane % 4 == 0 && query[half] < p.t) {
      p.lse[query[half] * p.lse_stride + head] = (max[half] + log2f(total)) * kLn2;
    }
  }
  store_channels(o, result_of(p.o, p.o_stride, p.t, head, p.head_dim), first + warp_row, inverse);
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(attention_fwd_bf16, AttentionFwdParams, bf16, 128, 2, 0) { lightning::attention_fwd(p); }
