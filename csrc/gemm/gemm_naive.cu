// Matrix product, the naive rung: one thread per element of c. The contract is that of gemm_plain.cu.
//
// Launch: ceil(m / 8) * ceil(n / 32) blocks, blocks of a row of c next to each other.
#include "lightning/kernel.cuh"
#include "lightning/pack.cuh"
#include "lightning/params/gemm.h"

namespace lightning {
namespace {

template <class C>
__device__ __forceinline__ void gemm_naive(const GemmParams& p) {
  const int64_t across = (p.n + 31) / 32;
  const int64_t m = blockIdx.x / across * 8 + threadIdx.x / 32;
  const int64_t n = blockIdx.x % across * 32 + threadIdx.x % 32;
  if (m >= p.m || n >= p.n) return;
  const bf16* const a = static_cast<const bf16*>(p.a) + m * p.a_m;
  const bf16* const b = static_cast<const bf16*>(p.b) + n * p.b_n;
  float sum = 0.0f;
#pragma unroll 1
  for (int64_t k = 0; k < p.k; ++k) sum = fmaf(to_f32(a[k * p.a_k]), to_f32(b[k * p.b_k]), sum);
  C* const c = static_cast<C*>(p.c) + m * p.c_stride + n;
  const float before = p.accumulate ? to_f32(*c) : 0.0f;
  *c = round_to<C>(fmaf(p.alpha, sum, before));
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(gemm_naive_bf16, GemmParams, bf16, 256, 4, 0) { lightning::gemm_naive<lightning::bf16>(p); }
LIGHTNING_KERNEL(gemm_naive_f32, GemmParams, f32, 256, 4, 0) { lightning::gemm_naive<float>(p); }
