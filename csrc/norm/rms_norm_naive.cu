// Residual add and RMSNorm the plain way: one thread per token, one thread per column for dw. The rung that the fast
// kernels of rms_norm.cu are compared with; formulas, buffers and rounding as there, except that dw is summed over all
// tokens in order, straight into dw_partial as if block_tokens were t.
//
// Launch: rms_norm_fwd_naive_*: ceil(t / 128) blocks.  rms_norm_bwd_naive_*: ceil(max(t, h) / 128) blocks.
#include "lightning/kernel.cuh"
#include "lightning/params/norm.h"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

template <class T>
__device__ __forceinline__ void rms_norm_fwd_naive(const RmsNormFwdParams& p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= p.t) return;
  const T* w = static_cast<const T*>(p.w);
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
  const T* b = p.b ? static_cast<const T*>(p.b) + row * p.b_stride : nullptr;
  T* x_out = p.x_out ? static_cast<T*>(p.x_out) + row * p.x_out_stride : nullptr;
  T* y = static_cast<T*>(p.y) + row * p.y_stride;

  // y holds x' until the statistics are known.
  float squares = 0.0f;
  for (int c = 0; c < p.h; ++c) {
    const T v = b ? round_to<T>(to_f32(x[c]) + to_f32(b[c])) : x[c];
    if (x_out) x_out[c] = v;
    y[c] = v;
    squares += to_f32(v) * to_f32(v);
  }
  const float rstd = 1.0f / sqrtf(squares / static_cast<float>(p.h) + p.eps);
  if (p.rstd) p.rstd[row] = rstd;
  for (int c = 0; c < p.h; ++c) y[c] = round_to<T>(to_f32(y[c]) * rstd * to_f32(w[c]));
}

template <class T>
__device__ __forceinline__ void rms_norm_bwd_naive(const RmsNormBwdParams& p) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const T* w = static_cast<const T*>(p.w);

  if (i < p.t) {
    const T* dy = static_cast<const T*>(p.dy) + i * p.dy_stride;
    const T* x = static_cast<const T*>(p.x) + i * p.x_stride;
    T* d_res = static_cast<T*>(p.d_res) + i * p.d_res_stride;
    const float rstd = p.rstd[i];
    float dot = 0.0f;
    for (int c = 0; c < p.h; ++c) dot += to_f32(dy[c]) * to_f32(w[c]) * to_f32(x[c]);
    const float pull = rstd * rstd * (dot / static_cast<float>(p.h));
    for (int c = 0; c < p.h; ++c) {
      const float dx = rstd * (to_f32(dy[c]) * to_f32(w[c]) - to_f32(x[c]) * pull);
      d_res[c] = round_to<T>(p.accumulate ? to_f32(d_res[c]) + dx : dx);
    }
  }

  if (i < p.h) {
    float sum = 0.0f;
    for (int64_t row = 0; row < p.t; ++row) {
      const float dy = to_f32(static_cast<const T*>(p.dy)[row * p.dy_stride + i]);
      const float x = to_f32(static_cast<const T*>(p.x)[row * p.x_stride + i]);
      sum += dy * x * p.rstd[row];
    }
    p.dw_partial[i] = sum;
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(rms_norm_fwd_naive_bf16, RmsNormFwdParams, bf16, 128, 1, 0) {
  lightning::rms_norm_fwd_naive<lightning::bf16>(p);
}
LIGHTNING_KERNEL(rms_norm_fwd_naive_f32, RmsNormFwdParams, f32, 128, 1, 0) { lightning::rms_norm_fwd_naive<float>(p); }
LIGHTNING_KERNEL(rms_norm_bwd_naive_bf16, RmsNormBwdParams, bf16, 128, 1, 0) {
  lightning::rms_norm_bwd_naive<lightning::bf16>(p);
}
LIGHTNING_KERNEL(rms_norm_bwd_naive_f32, RmsNormBwdParams, f32, 128, 1, 0) { lightning::rms_norm_bwd_naive<float>(p); }
