// Causal grouped-query attention the plain way: a block for a token of a head, a thread for a channel; every thread
// computes every score itself. The rung that attention_fwd.cu and attention_bwd.cu are compared with, and the path for
// heads of more than 128 channels. Contracts as there, all in f32 up to the stores.
//
// Launch: fwd, bwd_dq: (t, heads) blocks. bwd_dkv: (t, kv_heads).
#include "lightning/kernel.cuh"
#include "lightning/pack.cuh"
#include "lightning/params/attention.h"

namespace lightning {
namespace {

__device__ __forceinline__ float dot(const bf16* x, const bf16* y, int n) {
  float sum = 0.0f;
#pragma unroll 1
  for (int c = 0; c < n; ++c) sum = fmaf(to_f32(x[c]), to_f32(y[c]), sum);
  return sum;
}

// First channel of a head of a token.
__device__ __forceinline__ const bf16* row(const void* matrix, int64_t stride, int64_t token, int64_t head, int head_dim) {
  return static_cast<const bf16*>(matrix) + token * stride + head * head_dim;
}
__device__ __forceinline__ bf16* row(void* matrix, int64_t stride, int64_t token, int64_t head, int head_dim) {
  return static_cast<bf16*>(matrix) + token * stride + head * head_dim;
}

// P and dS of a query head for one pair of tokens.
struct Pair {
  float probability, gradient;
};

__device__ __forceinline__ Pair pair_of(const AttentionBwdParams& p, int head, int i, int j) {
  const int a = p.head_dim, kv_head = head / (p.heads / p.kv_heads);
  const bf16* const dout = row(p.dout, p.dout_stride, i, head, a);
  const float score = p.scale * dot(row(p.q, p.q_stride, i, head, a), row(p.k, p.k_stride, j, kv_head, a), a);
  const float probability = expf(score - p.lse[i * p.lse_stride + head]);
  const float delta = dot(dout, row(p.o, p.o_stride, i, head, a), a);
  return {probability, probability * (dot(dout, row(p.v, p.v_stride, j, kv_head, a), a) - delta)};
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(attention_fwd_naive_bf16, AttentionFwdParams, bf16, 128, 4, 0) {
  using namespace lightning;
  const int i = blockIdx.x, head = blockIdx.y, kv_head = head / (p.heads / p.kv_heads), a = p.head_dim;
  const bf16* const q = row(p.q, p.q_stride, i, head, a);
  float max = -INFINITY, sum = 0.0f;
#pragma unroll 1
  for (int j = p.start[i]; j <= i; ++j) max = fmaxf(max, p.scale * dot(q, row(p.k, p.k_stride, j, kv_head, a), a));
#pragma unroll 1
  for (int j = p.start[i]; j <= i; ++j) sum += expf(p.scale * dot(q, row(p.k, p.k_stride, j, kv_head, a), a) - max);
  const float lse = max + logf(sum);
  if (threadIdx.x == 0) p.lse[i * p.lse_stride + head] = lse;
  for (int c = threadIdx.x; c < a; c += blockDim.x) {
    float o = 0.0f;
#pragma unroll 1
    for (int j = p.start[i]; j <= i; ++j) {
      const float score = p.scale * dot(q, row(p.k, p.k_stride, j, kv_head, a), a);
      o = fmaf(expf(score - lse), to_f32(row(p.v, p.v_stride, j, kv_head, a)[c]), o);
    }
    row(p.o, p.o_stride, i, head, a)[c] = round_to<bf16>(o);
  }
}

LIGHTNING_KERNEL(attention_bwd_dq_naive_bf16, AttentionBwdParams, bf16, 128, 4, 0) {
  using namespace lightning;
  const int i = blockIdx.x, head = blockIdx.y, kv_head = head / (p.heads / p.kv_heads), a = p.head_dim;
  for (int c = threadIdx.x; c < a; c += blockDim.x) {
    float dq = 0.0f;
#pragma unroll 1
    for (int j = p.start[i]; j <= i; ++j) {
      dq = fmaf(pair_of(p, head, i, j).gradient, to_f32(row(p.k, p.k_stride, j, kv_head, a)[c]), dq);
    }
    row(p.dq, p.dq_stride, i, head, a)[c] = round_to<bf16>(p.scale * dq);
  }
}

LIGHTNING_KERNEL(attention_bwd_dkv_naive_bf16, AttentionBwdParams, bf16, 128, 4, 0) {
  using namespace lightning;
  const int j = blockIdx.x, kv_head = blockIdx.y, group = p.heads / p.kv_heads, a = p.head_dim;
  for (int c = threadIdx.x; c < a; c += blockDim.x) {
    float dk = 0.0f, dv = 0.0f;
#pragma unroll 1
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
#pragma unroll 1
      for (int i = j; i < p.t && p.start[i] <= j; ++i) {
        const Pair pair = pair_of(p, head, i, j);
        dk = fmaf(pair.gradient, to_f32(row(p.q, p.q_stride, i, head, a)[c]), dk);
        dv = fmaf(pair.probability, to_f32(row(p.dout, p.dout_stride, i, head, a)[c]), dv);
      }
    }
    row(p.dk, p.dk_stride, j, kv_head, a)[c] = round_to<bf16>(p.scale * dk);
    row(p.dv, p.dv_stride, j, kv_head, a)[c] = round_to<bf16>(dv);
  }
}
