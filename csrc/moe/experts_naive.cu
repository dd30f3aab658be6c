// The products and the activation gradient of the routed experts the plain way: one thread per element, or per slot.
// The rung that experts.cu is compared with; contracts as there, sums over the inner index one by one.
//
// Launch: product_*: ceil(slots / 8) x ceil(n / 32) blocks. weight_bwd: (ceil(n / 32), ceil(m / 8), experts) blocks.
// activation_bwd: ceil(slots / 256) blocks.
#include "lightning/kernel.cuh"
#include "lightning/pack.cuh"
#include "lightning/params/moe.h"

namespace lightning {
namespace {

__device__ __forceinline__ float relu(float v) { return v < 0.0f ? 0.0f : v; }

// The expert that holds a slot before offsets[experts].
__device__ __forceinline__ int expert_of(const int32_t* offsets, int64_t slot) {
  int e = 0;
  while (offsets[e + 1] <= slot) ++e;
  return e;
}

// Element (k, n) of the weights of an expert is at k * k_step + n * n_step.
__device__ __forceinline__ void product(const ExpertsProductParams& p, int64_t rows, int64_t k_step, int64_t n_step) {
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  const int n = blockIdx.y * 32 + threadIdx.x % 32;
  if (slot >= p.offsets[p.experts] || n >= p.n) return;
  const bf16* const a = static_cast<const bf16*>(p.a) + slot * p.a_stride;
  const bf16* const b =
      static_cast<const bf16*>(p.b) + expert_of(p.offsets, slot) * rows * p.b_stride + n * n_step;
  float sum = 0.0f;
#pragma unroll 1
  for (int k = 0; k < p.depth; ++k) sum = fmaf(to_f32(a[k]), to_f32(b[k * k_step]), sum);
  const bf16 c = round_to<bf16>(sum);
  static_cast<bf16*>(p.c)[slot * p.c_stride + n] = c;
  if (!p.activated) return;
  const float r = relu(to_f32(c)), w = p.weight[p.pair_of_slot[slot]];
  static_cast<bf16*>(p.activated)[slot * p.activated_stride + n] = round_to<bf16>(w * (r * r));
}

template <class T>
__device__ __forceinline__ void put(const ExpertsWeightBwdParams& p, int64_t row, int n, float sum) {
  T* const to = static_cast<T*>(p.dw) + row * p.dw_stride + n;
  *to = round_to<T>(p.accumulate ? to_f32(*to) + sum : sum);
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(experts_product_nt_naive_bf16, ExpertsProductParams, bf16, 256, 4, 0) {
  lightning::product(p, p.n, 1, p.b_stride);
}
LIGHTNING_KERNEL(experts_product_nn_naive_bf16, ExpertsProductParams, bf16, 256, 4, 0) {
  lightning::product(p, p.depth, p.b_stride, 1);
}

LIGHTNING_KERNEL(experts_activation_bwd_naive_bf16, ExpertsActivationBwdParams, bf16, 256, 4, 0) {
  using namespace lightning;
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (slot >= p.offsets[p.experts]) return;
  const int pair = p.pair_of_slot[slot];
  const float w = p.weight[pair];
  const bf16* const kept = static_cast<const bf16*>(p.p) + slot * p.p_stride;
  bf16* const dp = static_cast<bf16*>(p.dp) + slot * p.dp_stride;
  bf16* const a = static_cast<bf16*>(p.a) + slot * p.a_stride;
  float sum = 0.0f;
#pragma unroll 1
  for (int c = 0; c < p.f; ++c) {
    const float r = relu(to_f32(kept[c])), da = to_f32(dp[c]);
    sum = fmaf(r * r, da, sum);
    a[c] = round_to<bf16>(w * (r * r));
    dp[c] = round_to<bf16>(2.0f * w * r * da);
  }
  p.dweight[pair] = sum;
}

LIGHTNING_KERNEL(experts_weight_bwd_naive_bf16, ExpertsWeightBwdParams, bf16, 256, 4, 0) {
  using namespace lightning;
  const int expert = blockIdx.z, m = blockIdx.y * 8 + threadIdx.x / 32, n = blockIdx.x * 32 + threadIdx.x % 32;
  if (m >= p.m || n >= p.n) return;
  float sum = 0.0f;
#pragma unroll 1
  for (int64_t slot = p.offsets[expert]; slot < p.offsets[expert + 1]; ++slot) {
    const float dy = to_f32(static_cast<const bf16*>(p.dy)[slot * p.dy_stride + m]);
    sum = fmaf(dy, to_f32(static_cast<const bf16*>(p.x)[slot * p.x_stride + n]), sum);
  }
  const int64_t row = static_cast<int64_t>(expert) * p.m + m;
  if (p.dw_f32) {
    put<float>(p, row, n, sum);
  } else {
    put<bf16>(p, row, n, sum);
  }
}
