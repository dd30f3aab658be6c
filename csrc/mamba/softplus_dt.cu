// Time steps of the Mamba-2 scan, forward and backward.
//
//   delta_th = max(softplus(raw_th + bias_h), dt_min)
//   draw_th = ddelta_th sigmoid(raw_th + bias_h) [delta_th above dt_min]      dbias_h = sum_t draw_th
//
// | buffer        | shape       | dtype | written     |   legend: t tokens, h heads
// |---------------|-------------|-------|-------------|   rounding: all f32, one rounding to act at draw; dbias sums
// | delta         | [t, h]      | f32   | overwritten |   what is not rounded
// | draw          | [t, h]      | act   | overwritten |   order: 8 runs of every 8th token of a block of 64, then the
// | dbias_partial | [blocks, h] | f32   | overwritten |   runs in order
//
// Launch: softplus_dt_fwd_*: ceil(t / 32) blocks.  softplus_dt_bwd_*: (ceil(t / 64), ceil(h / 32)) blocks.
// Any t >= 0 and h >= 1, any strides. Buffers must not overlap.
#include "lightning/kernel.cuh"
#include "lightning/params/mamba.h"
#include "lightning/activation.cuh"
#include "lightning/pack.cuh"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

constexpr int kFwdTokens = 32;
constexpr int kBwdTokens = 64;
constexpr int kRuns = 8;

template <class T>
__device__ __forceinline__ void softplus_dt_fwd(const SoftplusDtFwdParams& p) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kFwdTokens;
  const int64_t tokens = min(static_cast<int64_t>(kFwdTokens), p.t - first);
  for (int64_t i = threadIdx.x; i < tokens * p.h; i += blockDim.x) {
    const int64_t row = first + i / p.h;
    const int h = static_cast<int>(i % p.h);
    const float delta = softplus(to_f32(static_cast<const T*>(p.raw)[row * p.raw_stride + h]) + p.bias[h]);
    // A NaN is not below the bound and stays.
    p.delta[row * p.delta_stride + h] = delta < p.dt_min ? p.dt_min : delta;
  }
}

template <class T>
__device__ __forceinline__ void softplus_dt_bwd(const SoftplusDtBwdParams& p) {
  __shared__ float runs[kRuns][kWarpSize];
  const int lane = threadIdx.x % kWarpSize, run = threadIdx.x / kWarpSize;
  const int64_t h = static_cast<int64_t>(blockIdx.y) * kWarpSize + lane;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kBwdTokens;
  const int64_t last = min(first + kBwdTokens, p.t);
  float sum = 0.0f;
  if (h < p.h) {
    const float bias = p.bias[h];
    for (int64_t row = first + run; row < last; row += kRuns) {
      const float x = to_f32(static_cast<const T*>(p.raw)[row * p.raw_stride + h]) + bias;
      const bool above = p.dt_min <= 0.0f || softplus(x) >= p.dt_min;
      const float gradient = above ? p.ddelta[row * p.ddelta_stride + h] * sigmoid(x) : 0.0f;
      static_cast<T*>(p.draw)[row * p.draw_stride + h] = round_to<T>(gradient);
      sum += gradient;
    }
  }
  runs[run][lane] = sum;
  __syncthreads();
  if (run == 0 && h < p.h) {
    float total = 0.0f;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) total += runs[r][lane];
    p.dbias_partial[blockIdx.x * p.partial_stride + h] = total;
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(softplus_dt_fwd_bf16, SoftplusDtFwdParams, bf16, 256, 4, 0) {
  lightning::softplus_dt_fwd<lightning::bf16>(p);
}
LIGHTNING_KERNEL(softplus_dt_bwd_bf16, SoftplusDtBwdParams, bf16, 256, 4, 0) {
  lightning::softplus_dt_bwd<lightning::bf16>(p);
}
