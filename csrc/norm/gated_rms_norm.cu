// Grouped gated RMSNorm of Mamba-2, forward and backward: gate first, then normalise each group of channels.
//
//   u_tc = y_tc silu(z_tc)      rstd_tg = (mean_{c in g} u_tc^2 + eps)^(-1/2)      o_tc = act(w_c u_tc rstd_tg)
//   g = do w      du = rstd (g - u rstd^2 mean_{c in g}(g u))      dy = act(du silu(z))      dz = act(du y silu'(z))
//   dw_c = sum_t do u rstd
//
// | buffer     | shape       | dtype | written     |   legend: t tokens, c channels, g groups
// |------------|-------------|-------|-------------|
// | o, dy, dz  | [t, c]      | act   | overwritten |   rounding: all f32, one rounding to act at o, dy, dz
// | rstd       | [t, g]      | f32   | overwritten |   order: means in runs of every 32nd pack of a group, then over the
// | dw_partial | [blocks, c] | f32   | overwritten |   lanes of a warp; dw sums the tokens of a block of 64 in order
//
// Launch: gated_rms_norm_fwd_*: ceil(t g / 8) blocks.  gated_rms_norm_bwd_*: (ceil(t / 64), g) blocks.
// Any t >= 0, any width of a group >= 1, any strides. Buffers must not overlap.
//
// A warp takes one token and group. It goes over the group twice, first for the mean and then for the result; the
// second time its inputs come from L1. Rows that are not 16-byte aligned go element by element, still coalesced.
#include "lightning/kernel.cuh"
#include "lightning/params/norm.h"
#include "lightning/activation.cuh"
#include "lightning/pack.cuh"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
// Tokens of a block of the backward pass: one row of dw_partial.
constexpr int kBlockTokens = 64;

template <class T, int W>
__device__ __forceinline__ void gated_rms_norm_fwd_group(const GatedRmsNormFwdParams& p, int64_t row, int group) {
  const int lane = threadIdx.x % kWarpSize;
  const int64_t base = static_cast<int64_t>(group) * p.width;
  const T* const y = static_cast<const T*>(p.y) + row * p.y_stride + base;
  const T* const z = static_cast<const T*>(p.z) + row * p.z_stride + base;
  const T* const w = static_cast<const T*>(p.w) + base;
  T* const o = static_cast<T*>(p.o) + row * p.o_stride + base;

  auto gated = [&](int column, float (&u)[W]) {
    const Pack<T, W> y_v = load<T, W>(y + column), z_v = load<T, W>(z + column);
#pragma unroll
    for (int j = 0; j < W; ++j) u[j] = y_v[j] * (z_v[j] * sigmoid(z_v[j]));
  };

  float squares = 0.0f;
  for (int column = lane * W; column < p.width; column += kWarpSize * W) {
    float u[W];
    gated(column, u);
#pragma unroll
    for (int j = 0; j < W; ++j) squares = fmaf(u[j], u[j], squares);
  }
  const float rstd = __frsqrt_rn(warp_sum(squares) / static_cast<float>(p.width) + p.eps);
  if (lane == 0) p.rstd[row * p.rstd_stride + group] = rstd;

  for (int column = lane * W; column < p.width; column += kWarpSize * W) {
    float u[W];
    gated(column, u);
    const Pack<T, W> w_v = load<T, W>(w + column);
#pragma unroll
    for (int j = 0; j < W; ++j) u[j] = w_v[j] * (u[j] * rstd);
    store<T, W>(o + column, Pack<T, W>::rounded(u));
  }
}

template <class T>
__device__ __forceinline__ void gated_rms_norm_fwd(const GatedRmsNormFwdParams& p) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarpSize;
  const int64_t row = item / p.groups;
  if (row >= p.t) return;
  const int group = static_cast<int>(item % p.groups);
  const bool wide = aligned_16(p.y) && aligned_16(p.z) && aligned_16(p.w) && aligned_16(p.o) &&
                    aligned_16<T>(p.y_stride) && aligned_16<T>(p.z_stride) && aligned_16<T>(p.o_stride) &&
                    p.width % kWide<T> == 0;
  if (wide) {
    gated_rms_norm_fwd_group<T, kWide<T>>(p, row, group);
  } else {
    gated_rms_norm_fwd_group<T, 1>(p, row, group);
  }
}

template <class T, int W>
__device__ __forceinline__ void gated_rms_norm_bwd_group(const GatedRmsNormBwdParams& p, int64_t row, int group) {
  const int lane = threadIdx.x % kWarpSize;
  const int64_t base = static_cast<int64_t>(group) * p.width;
  const T* const dout = static_cast<const T*>(p.dout) + row * p.dout_stride + base;
  const T* const y = static_cast<const T*>(p.y) + row * p.y_stride + base;
  const T* const z = static_cast<const T*>(p.z) + row * p.z_stride + base;
  const T* const w = static_cast<const T*>(p.w) + base;
  T* const dy = static_cast<T*>(p.dy) + row * p.dy_stride + base;
  T* const dz = static_cast<T*>(p.dz) + row * p.dz_stride + base;
  const float rstd = p.rstd[row * p.rstd_stride + group];

  float dot = 0.0f;
  for (int column = lane * W; column < p.width; column += kWarpSize * W) {
    const Pack<T, W> d_v = load<T, W>(dout + column), y_v = load<T, W>(y + column);
    const Pack<T, W> z_v = load<T, W>(z + column), w_v = load<T, W>(w + column);
#pragma unroll
    for (int j = 0; j < W; ++j) dot = fmaf(d_v[j] * w_v[j], y_v[j] * (z_v[j] * sigmoid(z_v[j])), dot);
  }
  const float pull = rstd * rstd * (warp_sum(dot) / static_cast<float>(p.width));

  for (int column = lane * W; column < p.width; column += kWarpSize * W) {
    const Pack<T, W> d_v = load<T, W>(dout + column), y_v = load<T, W>(y + column);
    const Pack<T, W> z_v = load<T, W>(z + column), w_v = load<T, W>(w + column);
    float dy_v[W], dz_v[W];
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const float s = sigmoid(z_v[j]), gate = z_v[j] * s;
      const float du = rstd * (d_v[j] * w_v[j] - y_v[j] * gate * pull);
      dy_v[j] = du * gate;
      dz_v[j] = du * y_v[j] * silu_slope(z_v[j], s);
    }
    store<T, W>(dy + column, Pack<T, W>::rounded(dy_v));
    store<T, W>(dz + column, Pack<T, W>::rounded(dz_v));
  }
}

template <class T>
__device__ __forceinline__ void gated_rms_norm_bwd(const GatedRmsNormBwdParams& p) {
  const int group = blockIdx.y;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kBlockTokens;
  const int64_t last = min(first + kBlockTokens, p.t);
  const bool wide = aligned_16(p.dout) && aligned_16(p.y) && aligned_16(p.z) && aligned_16(p.w) && aligned_16(p.dy) &&
                    aligned_16(p.dz) && aligned_16<T>(p.dout_stride) && aligned_16<T>(p.y_stride) &&
                    aligned_16<T>(p.z_stride) && aligned_16<T>(p.dy_stride) && aligned_16<T>(p.dz_stride) &&
                    p.width % kWide<T> == 0;
  for (int64_t row = first + threadIdx.x / kWarpSize; row < last; row += kWarps) {
    if (wide) {
      gated_rms_norm_bwd_group<T, kWide<T>>(p, row, group);
    } else {
      gated_rms_norm_bwd_group<T, 1>(p, row, group);
    }
  }

  // The weight's gradient: a thread takes a column and goes down the tokens, whose inputs are in L2 by now.
  for (int c = threadIdx.x; c < p.width; c += kThreads) {
    const int64_t column = static_cast<int64_t>(group) * p.width + c;
    float sum = 0.0f;
    for (int64_t row = first; row < last; ++row) {
      const float d_v = to_f32(static_cast<const T*>(p.dout)[row * p.dout_stride + column]);
      const float y_v = to_f32(static_cast<const T*>(p.y)[row * p.y_stride + column]);
      const float z_v = to_f32(static_cast<const T*>(p.z)[row * p.z_stride + column]);
      sum = fmaf(d_v, y_v * (z_v * sigmoid(z_v)) * p.rstd[row * p.rstd_stride + group], sum);
    }
    p.dw_partial[blockIdx.x * p.partial_stride + column] = sum;
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(gated_rms_norm_fwd_bf16, GatedRmsNormFwdParams, bf16, 256, 4, 0) {
  lightning::gated_rms_norm_fwd<lightning::bf16>(p);
}
LIGHTNING_KERNEL(gated_rms_norm_bwd_bf16, GatedRmsNormBwdParams, bf16, 256, 2, 0) {
  lightning::gated_rms_norm_bwd<lightning::bf16>(p);
}
