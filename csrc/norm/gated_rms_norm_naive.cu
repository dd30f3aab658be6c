// Grouped gated RMSNorm the plain way: one thread per token and group, one thread per channel for dw. The rung that
// gated_rms_norm.cu is compared with; formulas, buffers and rounding as there, except that dw is summed over all tokens in
// order, into the first row of dw_partial.
//
// Launch: gated_rms_norm_fwd_naive_*: ceil(t g / 128) blocks.  gated_rms_norm_bwd_naive_*: ceil(max(t g, c) / 128) blocks.
#include "lightning/kernel.cuh"
#include "lightning/params/norm.h"
#include "lightning/activation.cuh"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

template <class T>
__device__ __forceinline__ void gated_rms_norm_fwd_naive(const GatedRmsNormFwdParams& p) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = item / p.groups, group = item % p.groups;
  if (row >= p.t) return;
  auto u = [&](int64_t c) {
    const float z = to_f32(static_cast<const T*>(p.z)[row * p.z_stride + c]);
    return to_f32(static_cast<const T*>(p.y)[row * p.y_stride + c]) * z * sigmoid(z);
  };
  float squares = 0.0f;
  for (int64_t c = group * p.width; c < (group + 1) * p.width; ++c) squares += u(c) * u(c);
  const float rstd = 1.0f / sqrtf(squares / static_cast<float>(p.width) + p.eps);
  p.rstd[row * p.rstd_stride + group] = rstd;
  for (int64_t c = group * p.width; c < (group + 1) * p.width; ++c) {
    static_cast<T*>(p.o)[row * p.o_stride + c] = round_to<T>(to_f32(static_cast<const T*>(p.w)[c]) * u(c) * rstd);
  }
}

template <class T>
__device__ __forceinline__ void gated_rms_norm_bwd_naive(const GatedRmsNormBwdParams& p) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  auto at = [](const void* data, int64_t i) { return to_f32(static_cast<const T*>(data)[i]); };

  if (item < p.t * p.groups) {
    const int64_t row = item / p.groups, group = item % p.groups;
    const float rstd = p.rstd[row * p.rstd_stride + group];
    float dot = 0.0f;
    for (int64_t c = group * p.width; c < (group + 1) * p.width; ++c) {
      const float z = at(p.z, row * p.z_stride + c), u = at(p.y, row * p.y_stride + c) * z * sigmoid(z);
      dot += at(p.dout, row * p.dout_stride + c) * at(p.w, c) * u;
    }
    const float pull = rstd * rstd * (dot / static_cast<float>(p.width));
    for (int64_t c = group * p.width; c < (group + 1) * p.width; ++c) {
      const float z = at(p.z, row * p.z_stride + c), y = at(p.y, row * p.y_stride + c), s = sigmoid(z);
      const float du = rstd * (at(p.dout, row * p.dout_stride + c) * at(p.w, c) - y * z * s * pull);
      static_cast<T*>(p.dy)[row * p.dy_stride + c] = round_to<T>(du * z * s);
      static_cast<T*>(p.dz)[row * p.dz_stride + c] = round_to<T>(du * y * silu_slope(z, s));
    }
  }

  if (item < static_cast<int64_t>(p.groups) * p.width) {
    float sum = 0.0f;
    for (int64_t row = 0; row < p.t; ++row) {
      const float z = at(p.z, row * p.z_stride + item), u = at(p.y, row * p.y_stride + item) * z * sigmoid(z);
      sum += at(p.dout, row * p.dout_stride + item) * u * p.rstd[row * p.rstd_stride + item / p.width];
    }
    p.dw_partial[item] = sum;
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(gated_rms_norm_fwd_naive_bf16, GatedRmsNormFwdParams, bf16, 128, 1, 0) {
  lightning::gated_rms_norm_fwd_naive<lightning::bf16>(p);
}
LIGHTNING_KERNEL(gated_rms_norm_bwd_naive_bf16, GatedRmsNormBwdParams, bf16, 128, 1, 0) {
  lightning::gated_rms_norm_bwd_naive<lightning::bf16>(p);
}
