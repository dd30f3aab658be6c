// Gradients of causal grouped-query attention. Formulas: lightning-core/src/ops/attention.rs.
//
//   delta   D_i = do_i . o_i
//   dkv     dk_j = scale sum_i dS_ij q_i,  dv_j = sum_i P_ij do_i      a block owns 64 keys of a key/value head
//   dq      dq_i = scale sum_j dS_ij k_j                               a block owns 64 queries of a query head
//
// | buffer     | shape    | dtype | written                |   rounding: scores, P, dS f32; P and dS are rounded to bf16 for
// |------------|----------|-------|------------------------|   the products with them; dq, dk, dv are rounded once
// | dq         | [t, h a] | act   | overwritten            |   order: dkv takes the query heads of its group in order, in
// | dk, dv     | [t, m a] | act   | overwritten            |   each the queries ascending, 32 at a time; dq the keys
// | delta      | [t, h]   | f32   | overwritten by delta   |   ascending. No atomics: scores are computed twice instead.
//
// Launch: delta: ceil(t heads / 4) blocks. dkv: (ceil(t / 64), kv_heads). dq: (ceil(t / 64), heads). delta comes first.
// Heads of up to 128 channels, any alignment.
#include "lightning/attention.cuh"
#include "lightning/kernel.cuh"
#include "lightning/params/attention.h"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

using namespace attention;

// Dynamic shared memory of dkv and dq.
struct Shared {
  Tile rows[2];            // keys and values, or queries and output gradients: what the block owns
  Tile columns;            // the others, 32 of each below each other
  float lse[kColumns];     // of the queries among the columns, in powers of 2
  float delta[kColumns];
  int32_t start[kColumns];
};
static_assert(sizeof(Shared) == 52608, "the launch sizes below");

extern __shared__ __align__(16) unsigned char shared_bytes[];

// P in place of the scores and dS in place of dP, for one pair of a query and a key.
__device__ __forceinline__ void softmax_gradient(float& score, float& dp, bool visible, float scale, float lse,
                                                 float delta) {
  const float probability = visible ? exp2f(score * scale - lse) : 0.0f;
  dp = visible ? probability * (dp - delta) : 0.0f;
  score = probability;
}

__device__ __forceinline__ void attention_bwd_dkv(const AttentionBwdParams& p) {
  Shared& shared = *reinterpret_cast<Shared*>(shared_bytes);
  const int lane = threadIdx.x % kWarpSize, warp_row = threadIdx.x / kWarpSize * 16;
  const int kv_head = blockIdx.y, group = p.heads / p.kv_heads;
  const int first = static_cast<int>(blockIdx.x) * kRows, last = min(first + kRows, p.t) - 1;
  const int chunks = (p.head_dim + 15) / 16;
  const float scale = p.scale * kLog2E;
  load_rows<kRows>(shared.rows[0], 0, head_of(p.k, p.k_stride, p.t, kv_head, p.head_dim), first, chunks);
  load_rows<kRows>(shared.rows[1], 0, head_of(p.v, p.v_stride, p.t, kv_head, p.head_dim), first, chunks);

  Channels dk = {}, dv = {};
#pragma unroll 1
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const mma::Operand q = head_of(p.q, p.q_stride, p.t, head, p.head_dim);
    const mma::Operand dout = head_of(p.dout, p.dout_stride, p.t, head, p.head_dim);
    // Documents follow each other: once a query starts behind the last key, all later ones do.
#pragma unroll 1
    for (int query = first; query < p.t && p.start[query] <= last; query += kColumns) {
      __syncthreads();
      load_rows<kColumns>(shared.columns, 0, q, query, chunks);
      load_rows<kColumns>(shared.columns, kColumns, dout, query, chunks);
      if (threadIdx.x < kColumns) {
        const int i = query + threadIdx.x;
        const bool real = i < p.t;
        shared.lse[threadIdx.x] = real ? p.lse[i * p.lse_stride + head] * kLog2E : 0.0f;
        shared.delta[threadIdx.x] = real ? p.delta[static_cast<int64_t>(i) * p.heads + head] : 0.0f;
        shared.start[threadIdx.x] = real ? p.start[i] : INT32_MAX;
      }
      __syncthreads();

      Scores s = {}, dp = {};
      add_scores(s, shared.rows[0], warp_row, shared.columns, 0, chunks);
      add_scores(dp, shared.rows[1], warp_row, shared.columns, kColumns, chunks);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int l = 0; l < 4; ++l) {
          const int key = first + warp_row + l / 2 * 8 + lane / 4, column = n * 8 + lane % 4 * 2 + l % 2;
          const bool visible = shared.start[column] <= key && key <= query + column;
          softmax_gradient(s[n][l], dp[n][l], visible, scale, shared.lse[column], shared.delta[column]);
        }
      }
      add_channels(dv, s, shared.columns, kColumns, chunks);
      add_channels(dk, dp, shared.columns, 0, chunks);
    }
  }
  const int token = first + warp_row;
  store_channels(dk, result_of(p.dk, p.dk_stride, p.t, kv_head, p.head_dim), token, {p.scale, p.scale});
  store_channels(dv, result_of(p.dv, p.dv_stride, p.t, kv_head, p.head_dim), token, {1.0f, 1.0f});
}

__device__ __forceinline__ void attention_bwd_dq(const AttentionBwdParams& p) {
  Shared& shared = *reinterpret_cast<Shared*>(shared_bytes);
  const int lane = threadIdx.x % kWarpSize, warp_row = threadIdx.x / kWarpSize * 16;
  const int head = blockIdx.y, kv_head = head / (p.heads / p.kv_heads);
  // The last queries have the most keys: they go first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows, end = min(first + kRows, p.t);
  const int chunks = (p.head_dim + 15) / 16;
  const float scale = p.scale * kLog2E;
  const mma::Operand k = head_of(p.k, p.k_stride, p.t, kv_head, p.head_dim);
  const mma::Operand v = head_of(p.v, p.v_stride, p.t, kv_head, p.head_dim);
  load_rows<kRows>(shared.rows[0], 0, head_of(p.q, p.q_stride, p.t, head, p.head_dim), first, chunks);
  load_rows<kRows>(shared.rows[1], 0, head_of(p.dout, p.dout_stride, p.t, head, p.head_dim), first, chunks);

  int query[2], start[2];
  float lse[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = first + warp_row + 8 * half + lane / 4;
    const bool real = i < p.t;
    query[half] = i;
    start[half] = real ? p.start[i] : INT32_MAX;
    lse[half] = real ? p.lse[i * p.lse_stride + head] * kLog2E : 0.0f;
    delta[half] = real ? p.delta[static_cast<int64_t>(i) * p.heads + head] : 0.0f;
  }
  Channels dq = {};
#pragma unroll 1
  for (int key = p.start[first]; key < end; key += kColumns) {
    __syncthreads();
    load_rows<kColumns>(shared.columns, 0, k, key, chunks);
    load_rows<kColumns>(shared.columns, kColumns, v, key, chunks);
    __syncthreads();

    Scores s = {}, dp = {};
    add_scores(s, shared.rows[0], warp_row, shared.columns, 0, chunks);
    add_scores(dp, shared.rows[1], warp_row, shared.columns, kColumns, chunks);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int l = 0; l < 4; ++l) {
        const int half = l / 2, j = key + n * 8 + lane % 4 * 2 + l % 2;
        const bool visible = start[half] <= j && j <= query[half];
        softmax_gradient(s[n][l], dp[n][l], visible, scale, lse[half], delta[half]);
      }
    }
    add_channels(dq, dp, shared.columns, 0, chunks);
  }
  store_channels(dq, result_of(p.dq, p.dq_stride, p.t, head, p.head_dim), first + warp_row, {p.scale, p.scale});
}

template <int W>
__device__ __forceinline__ float dot(const bf16* x, const bf16* y, int n) {
  float sum = 0.0f;
  for (int c = threadIdx.x % kWarpSize * W; c < n; c += kWarpSize * W) {
    const Pack<bf16, W> x_v = load<bf16, W>(x + c), y_v = load<bf16, W>(y + c);
#pragma unroll
    for (int i = 0; i < W; ++i) sum = fmaf(x_v[i], y_v[i], sum);
  }
  return warp_sum(sum);
}

}  // namespace
}  // namespace lightning

// A warp takes a head of a token.
LIGHTNING_KERNEL(attention_bwd_delta_bf16, AttentionBwdParams, bf16, 128, 8, 0) {
  using namespace lightning;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * 4 + threadIdx.x / kWarpSize;
  const int64_t token = index / p.heads, head = index % p.heads;
  if (token >= p.t) return;
  const bf16* const o = static_cast<const bf16*>(p.o) + token * p.o_stride + head * p.head_dim;
  const bf16* const dout = static_cast<const bf16*>(p.dout) + token * p.dout_stride + head * p.head_dim;
  const bool wide = p.head_dim % kWide<bf16> == 0 && aligned_16(o) && aligned_16(dout);
  const float sum = wide ? dot<kWide<bf16>>(o, dout, p.head_dim) : dot<1>(o, dout, p.head_dim);
  if (threadIdx.x % kWarpSize == 0) p.delta[index] = sum;
}

LIGHTNING_KERNEL(attention_bwd_dkv_bf16, AttentionBwdParams, bf16, 128, 2, 52608) { lightning::attention_bwd_dkv(p); }
LIGHTNING_KERNEL(attention_bwd_dq_bf16, AttentionBwdParams, bf16, 128, 2, 52608) { lightning::attention_bwd_dq(p); }
