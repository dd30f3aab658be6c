// Causal convolution with SiLU the plain way: one thread per output element, recomputing what it needs. The rung that
// conv_silu.cu is compared with; formulas, buffers and rounding as there, except that dw and db are summed over all tokens
// in order, into partial as if all were one block.
//
// Launch: conv_silu_fwd_naive_*: ceil(t c / 128) blocks.  conv_silu_bwd_naive_*: ceil(max(t, K + 1) c / 128) blocks.
#include "lightning/kernel.cuh"
#include "lightning/params/conv.h"
#include "lightning/activation.cuh"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

__device__ __forceinline__ float at(const void* data, int64_t i) { return to_f32(static_cast<const bf16*>(data)[i]); }

template <class Params>
__device__ __forceinline__ float preactivation(const Params& p, int64_t t, int64_t c) {
  float sum = at(p.b, c);
  for (int k = 0; k < p.taps; ++k) {
    const int64_t row = t - p.taps + 1 + k;
    if (row >= p.start[t]) sum += at(p.w, c * p.w_stride + k) * at(p.x, row * p.x_stride + c);
  }
  return sum;
}

__device__ __forceinline__ float gradient(const ConvSiluBwdParams& p, int64_t t, int64_t c) {
  const float v = preactivation(p, t, c);
  return at(p.dy, t * p.dy_stride + c) * silu_slope(v, sigmoid(v));
}

__device__ __forceinline__ void conv_silu_bwd_naive(const ConvSiluBwdParams& p) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = item / p.c, c = item % p.c;
  if (row < p.t) {
    float sum = 0.0f;
    for (int64_t t = row; t < min(row + p.taps, p.t); ++t) {
      if (p.start[t] <= row) sum += at(p.w, c * p.w_stride + row + p.taps - 1 - t) * gradient(p, t, c);
    }
    static_cast<bf16*>(p.dx)[row * p.dx_stride + c] = round_to<bf16>(sum);
  }
  if (row <= p.taps) {
    float sum = 0.0f;
    for (int64_t t = 0; t < p.t; ++t) {
      const int64_t from = t - p.taps + 1 + row;
      if (row == p.taps) {
        sum += gradient(p, t, c);
      } else if (from >= p.start[t]) {
        sum += gradient(p, t, c) * at(p.x, from * p.x_stride + c);
      }
    }
    p.partial[row * p.c + c] = sum;
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(conv_silu_fwd_naive_bf16, ConvSiluFwdParams, bf16, 128, 1, 0) {
  using namespace lightning;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t t = item / p.c, c = item % p.c;
  if (t >= p.t) return;
  const float v = preactivation(p, t, c);
  static_cast<bf16*>(p.y)[t * p.y_stride + c] = round_to<bf16>(v * sigmoid(v));
}
LIGHTNING_KERNEL(conv_silu_bwd_naive_bf16, ConvSiluBwdParams, bf16, 128, 1, 0) { lightning::conv_silu_bwd_naive(p); }
