// Residual add and RMSNorm, forward and backward.
//
//   forward    x'_th = act(x_th + b_th)        rstd_t = (mean_h x'_th^2 + eps)^(-1/2)        y_th = act(w_h x'_th rstd_t)
//   backward   g = dy w      dx = rstd (g - x' rstd^2 mean_h(g x'))      d_res = act(d_res + dx)      dw = sum_t dy x' rstd
//
// | buffer     | shape       | dtype | written                          |   legend: t tokens, h hidden
// |------------|-------------|-------|----------------------------------|
// | x_out      | [t, h]      | act   | overwritten; may be x itself     |   rounding: all f32, one rounding to act at x', y
// | y          | [t, h]      | act   | overwritten                      |   and d_res; the statistics are those of the
// | rstd       | [t]         | f32   | overwritten                      |   rounded x'
// | d_res      | [t, h]      | act   | added to or overwritten          |
// | dw_partial | [blocks, h] | f32   | overwritten                      |   order: dw sums the tokens of a block in order,
//                                                                   |   blocks by reduce/sum_blocks.cu
//
// Launch: rms_norm_fwd_*: any grid of at least 1 block (each takes every gridDim-th row); about 4 per multiprocessor.
//         rms_norm_bwd_*: any grid; one block per token block gives the best spread.
//         dw is then the sum of dw_partial: sum_blocks_*.
// Any t >= 0 and h >= 1. Buffers must not overlap, except x_out = x.
//
// Both kernels read each input once and write each output once: a block takes one row, each thread holds its columns
// of it in registers from the statistics to the result. Columns beyond what fits are read again, from L2.
// Rows that are not 16-byte aligned (odd h, odd strides) go element by element, still coalesced.
#include "lightning/kernel.cuh"
#include "lightning/params/norm.h"
#include "lightning/pack.cuh"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

constexpr int kThreads = 384;
constexpr int kWarps = kThreads / kWarpSize;
// Packs of a row that a thread holds in registers; more would spill. Forward: 6144 columns of bf16 in all, 3072 of f32
// or of unaligned rows. Backward: 3072 columns.
template <int W>
constexpr int kFwdPacks = W == 1 ? 8 : 2;
template <int W>
constexpr int kBwdPacks = W == 1 ? 8 : 8 / W;

// Warp sums of two consecutive rows, see block_sum.
struct Scratch {
  float sums[2][kWarps];
};

template <class T, int W>
__device__ __forceinline__ void rms_norm_fwd_rows(const RmsNormFwdParams& p, Scratch& scratch) {
  constexpr int kPacks = kFwdPacks<W>;
  const int packs = p.h / W;
  const T* const w = static_cast<const T*>(p.w);

  Pack<T, W> w_held[kPacks];
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int pack = i * kThreads + threadIdx.x;
    if (pack < packs) w_held[i] = load<T, W>(w + pack * W);
  }

  int parity = 0;
  for (int64_t row = blockIdx.x; row < p.t; row += gridDim.x, parity ^= 1) {
    const T* const x = static_cast<const T*>(p.x) + row * p.x_stride;
    const T* const b = p.b ? static_cast<const T*>(p.b) + row * p.b_stride : nullptr;
    T* const x_out = p.x_out ? static_cast<T*>(p.x_out) + row * p.x_out_stride : nullptr;
    T* const y = static_cast<T*>(p.y) + row * p.y_stride;

    // x' of one pack
    auto residual = [&](int column) {
      Pack<T, W> v = load<T, W>(x + column);
      if (b) {
        const Pack<T, W> branch = load_once<T, W>(b + column);
        float sum[W];
#pragma unroll
        for (int j = 0; j < W; ++j) sum[j] = v[j] + branch[j];
        v = Pack<T, W>::rounded(sum);
      }
      return v;
    };

    Pack<T, W> held[kPacks];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = i * kThreads + threadIdx.x;
      if (pack < packs) {
        held[i] = residual(pack * W);
        if (x_out) store<T, W>(x_out + pack * W, held[i]);
#pragma unroll
        for (int j = 0; j < W; ++j) squares = fmaf(held[i][j], held[i][j], squares);
      }
    }
#pragma unroll 1
    for (int pack = kPacks * kThreads + threadIdx.x; pack < packs; pack += kThreads) {
      const int column = pack * W;
      const Pack<T, W> v = residual(column);
      if (x_out) store<T, W>(x_out + column, v);
#pragma unroll
      for (int j = 0; j < W; ++j) squares = fmaf(v[j], v[j], squares);
    }

    const float mean = block_sum<kWarps>(squares, scratch.sums[parity]) / static_cast<float>(p.h);
    const float rstd = __frsqrt_rn(mean + p.eps);
    if (threadIdx.x == 0 && p.rstd) p.rstd[row] = rstd;

    auto normalised = [&](const Pack<T, W>& v, const Pack<T, W>& weight) {
      float out[W];
#pragma unroll
      for (int j = 0; j < W; ++j) out[j] = v[j] * rstd * weight[j];
      return Pack<T, W>::rounded(out);
    };
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = i * kThreads + threadIdx.x;
      if (pack < packs) {
        store<T, W>(y + pack * W, normalised(held[i], w_held[i]));
      }
    }
#pragma unroll 1
    for (int pack = kPacks * kThreads + threadIdx.x; pack < packs; pack += kThreads) {
      const int column = pack * W;
      // x_out may be x: then x + b would add b twice.
      const Pack<T, W> v = x_out ? load<T, W>(x_out + column) : residual(column);
      store<T, W>(y + column, normalised(v, load<T, W>(w + column)));
    }
  }
}

template <class T>
__device__ __forceinline__ void rms_norm_fwd(const RmsNormFwdParams& p) {
  __shared__ Scratch scratch;
  const bool wide = aligned_16(p.x) && aligned_16(p.b) && aligned_16(p.x_out) && aligned_16(p.y) && aligned_16(p.w) &&
                    aligned_16<T>(p.x_stride) && aligned_16<T>(p.b_stride) && aligned_16<T>(p.x_out_stride) &&
                    aligned_16<T>(p.y_stride) && p.h % kWide<T> == 0;
  if (wide) {
    rms_norm_fwd_rows<T, kWide<T>>(p, scratch);
  } else {
    rms_norm_fwd_rows<T, 1>(p, scratch);
  }
}

template <class T, int W>
__device__ __forceinline__ void rms_norm_bwd_blocks(const RmsNormBwdParams& p, Scratch& scratch) {
  constexpr int kPacks = kBwdPacks<W>;
  const int packs = p.h / W;
  const bool add = p.accumulate;
  const T* const w = static_cast<const T*>(p.w);
  const int64_t blocks = (p.t + p.block_tokens - 1) / p.block_tokens;

  Pack<T, W> w_held[kPacks];
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int pack = i * kThreads + threadIdx.x;
    if (pack < packs) w_held[i] = load<T, W>(w + pack * W);
  }

  int parity = 0;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t first = block * p.block_tokens;
    const int tokens = static_cast<int>(min(static_cast<int64_t>(p.block_tokens), p.t - first));
    const T* dy = static_cast<const T*>(p.dy) + first * p.dy_stride;
    const T* x = static_cast<const T*>(p.x) + first * p.x_stride;
    T* d_res = static_cast<T*>(p.d_res) + first * p.d_res_stride;
    const float* rstd_of = p.rstd + first;
    float* const dw = p.dw_partial + block * p.h;
    float dw_held[kPacks][W] = {};

#pragma unroll 1
    for (int token = 0; token < tokens; ++token, parity ^= 1) {
      const float rstd = *rstd_of;

      Pack<T, W> dy_held[kPacks], x_held[kPacks], d_held[kPacks];
      float dot = 0.0f;
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        const int pack = i * kThreads + threadIdx.x;
        if (pack < packs) {
          dy_held[i] = load_once<T, W>(dy + pack * W);
          x_held[i] = load_once<T, W>(x + pack * W);
          d_held[i] = add ? load<T, W>(d_res + pack * W) : Pack<T, W>{};
#pragma unroll
          for (int j = 0; j < W; ++j) dot = fmaf(dy_held[i][j] * w_held[i][j], x_held[i][j], dot);
        }
      }
#pragma unroll 1
      for (int pack = kPacks * kThreads + threadIdx.x; pack < packs; pack += kThreads) {
        const Pack<T, W> dy_v = load<T, W>(dy + pack * W), x_v = load<T, W>(x + pack * W);
        const Pack<T, W> w_v = load<T, W>(w + pack * W);
#pragma unroll
        for (int j = 0; j < W; ++j) dot = fmaf(dy_v[j] * w_v[j], x_v[j], dot);
      }

      const float mean = block_sum<kWarps>(dot, scratch.sums[parity]) / static_cast<float>(p.h);
      const float pull = rstd * rstd * mean;
      auto gradient = [&](const Pack<T, W>& dy_v, const Pack<T, W>& x_v, const Pack<T, W>& w_v, const Pack<T, W>& d) {
        float out[W];
#pragma unroll
        for (int j = 0; j < W; ++j) out[j] = d[j] + rstd * (dy_v[j] * w_v[j] - x_v[j] * pull);
        return Pack<T, W>::rounded(out);
      };
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        const int pack = i * kThreads + threadIdx.x;
        if (pack < packs) {
          store<T, W>(d_res + pack * W, gradient(dy_held[i], x_held[i], w_held[i], d_held[i]));
#pragma unroll
          for (int j = 0; j < W; ++j) dw_held[i][j] = fmaf(dy_held[i][j], x_held[i][j] * rstd, dw_held[i][j]);
        }
      }
#pragma unroll 1
      for (int pack = kPacks * kThreads + threadIdx.x; pack < packs; pack += kThreads) {
        const Pack<T, W> dy_v = load<T, W>(dy + pack * W), x_v = load<T, W>(x + pack * W);
        const Pack<T, W> w_v = load<T, W>(w + pack * W);
        const Pack<T, W> d = add ? load<T, W>(d_res + pack * W) : Pack<T, W>{};
        store<T, W>(d_res + pack * W, gradient(dy_v, x_v, w_v, d));
#pragma unroll
        for (int j = 0; j < W; ++j) {
          const float before = token == 0 ? 0.0f : dw[pack * W + j];
          dw[pack * W + j] = fmaf(dy_v[j], x_v[j] * rstd, before);
        }
      }
      dy += p.dy_stride;
      x += p.x_stride;
      d_res += p.d_res_stride;
      ++rstd_of;
    }

#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = i * kThreads + threadIdx.x;
      if (pack < packs) store_f32<W>(dw + pack * W, dw_held[i]);
    }
  }
}

template <class T>
__device__ __forceinline__ void rms_norm_bwd(const RmsNormBwdParams& p) {
  __shared__ Scratch scratch;
  const bool wide = aligned_16(p.dy) && aligned_16(p.x) && aligned_16(p.w) && aligned_16(p.d_res) &&
                    aligned_16(p.dw_partial) && aligned_16<T>(p.dy_stride) && aligned_16<T>(p.x_stride) &&
                    aligned_16<T>(p.d_res_stride) && p.h % kWide<T> == 0;
  if (wide) {
    rms_norm_bwd_blocks<T, kWide<T>>(p, scratch);
  } else {
    rms_norm_bwd_blocks<T, 1>(p, scratch);
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(rms_norm_fwd_bf16, RmsNormFwdParams, bf16, 384, 3, 0) { lightning::rms_norm_fwd<lightning::bf16>(p); }
LIGHTNING_KERNEL(rms_norm_fwd_f32, RmsNormFwdParams, f32, 384, 2, 0) { lightning::rms_norm_fwd<float>(p); }
LIGHTNING_KERNEL(rms_norm_bwd_bf16, RmsNormBwdParams, bf16, 384, 2, 0) { lightning::rms_norm_bwd<lightning::bf16>(p); }
LIGHTNING_KERNEL(rms_norm_bwd_f32, RmsNormBwdParams, f32, 384, 1, 0) { lightning::rms_norm_bwd<float>(p); }
