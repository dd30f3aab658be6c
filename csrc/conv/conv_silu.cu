// Depthwise causal convolution and SiLU of the Mamba-2 mixer, forward and backward.
//
//   p_tc = b_c + sum_{k=0..K-1} w_ck x_{t-K+1+k, c}       taps before the document's first token are 0
//   y_tc = act(p_tc sigmoid(p_tc))
//   dp = dy s (1 + p (1 - s)),  s = sigmoid(p)        dx_sc = act(sum_k w_ck dp_{s+K-1-k, c}), same document only
//   dw_ck = sum_t dp_tc x_{t-K+1+k, c}                db_c = sum_t dp_tc
//
// | buffer  | shape              | dtype | written                 |   legend: t tokens, c channels, K taps
// |---------|--------------------|-------|-------------------------|
// | y, dx   | [t, c]             | act   | overwritten             |   rounding: all f32, one rounding at y and dx
// | partial | [blocks, K + 1, c] | f32   | overwritten             |   order: dw and db sum the tokens of a block of 128
// | dw, db  | [c, K], [c]        | grad  | added to or overwritten |   in order, then 16 runs of blocks, then the runs
//
// Launch: conv_silu_fwd_*: (ceil(t / 32), ceil(c / 64)) blocks.  conv_silu_bwd_*: (ceil(t / 128), ceil(c / 64)) blocks.
//         conv_silu_bwd_dw: (ceil(c / 32), K + 1) blocks.
// Any t >= 0, c >= 1, strides; the backward pass takes K <= 8. Buffers must not overlap.
//
// A thread takes eight neighbouring channels (one where rows are not 16-byte aligned). A row of x is read K times, from
// L1 but for the first. The backward pass recomputes p; its gradient goes through shared memory, because row s of dx
// needs it from the K - 1 tokens that follow: they are computed twice where they belong to the next tile.
#include "lightning/kernel.cuh"
#include "lightning/params/conv.h"
#include "lightning/activation.cuh"
#include "lightning/pack.cuh"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

constexpr int kThreads = 256;
// Channels of a block.
constexpr int kChannels = 64;
// Tokens of a tile, and of a block of the backward pass.
constexpr int kTile = 32;
constexpr int kBlockTokens = 128;
constexpr int kMaxTaps = 8;

// Pre-activations of token t, channels c to c + W - 1.
template <class T, int W, class Params>
__device__ __forceinline__ void preactivation(const Params& p, int64_t t, int64_t c, float (&out)[W]) {
  const T* const x = static_cast<const T*>(p.x);
  const T* const w = static_cast<const T*>(p.w);
  const Pack<T, W> bias = load<T, W>(static_cast<const T*>(p.b) + c);
  const int64_t first = p.start[t];
#pragma unroll
  for (int j = 0; j < W; ++j) out[j] = bias[j];
  for (int k = 0; k < p.taps; ++k) {
    const int64_t row = t - p.taps + 1 + k;
    if (row >= first) {
      const Pack<T, W> v = load<T, W>(x + row * p.x_stride + c);
#pragma unroll
      for (int j = 0; j < W; ++j) out[j] = fmaf(to_f32(w[(c + j) * p.w_stride + k]), v[j], out[j]);
    }
  }
}

template <class T, int W>
__device__ __forceinline__ void conv_silu_fwd_tile(const ConvSiluFwdParams& p) {
  constexpr int kPacks = kChannels / W;
  const int64_t c = static_cast<int64_t>(blockIdx.y) * kChannels + threadIdx.x % kPacks * W;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t last = min(first + kTile, p.t);
  if (c >= p.c) return;
  for (int64_t t = first + threadIdx.x / kPacks; t < last; t += kThreads / kPacks) {
    float v[W];
    preactivation<T, W>(p, t, c, v);
#pragma unroll
    for (int j = 0; j < W; ++j) v[j] *= sigmoid(v[j]);
    store<T, W>(static_cast<T*>(p.y) + t * p.y_stride + c, Pack<T, W>::rounded(v));
  }
}

template <class T>
__device__ __forceinline__ void conv_silu_fwd(const ConvSiluFwdParams& p) {
  const bool wide = aligned_16(p.x) && aligned_16(p.b) && aligned_16(p.y) && aligned_16<T>(p.x_stride) &&
                    aligned_16<T>(p.y_stride) && p.c % kWide<T> == 0;
  if (wide) {
    conv_silu_fwd_tile<T, kWide<T>>(p);
  } else {
    conv_silu_fwd_tile<T, 1>(p);
  }
}

struct BwdShared {
  // Gradients of the pre-activations of a tile and of the tokens that its dx needs beyond it.
  alignas(16) float dp[kTile + kMaxTaps - 1][kChannels];
  // Sums of the block, each owned by one thread: rows by tap, then the bias.
  float sums[(kMaxTaps + 1) * kChannels];
};

template <class T, int W>
__device__ __forceinline__ void conv_silu_bwd_block(const ConvSiluBwdParams& p, BwdShared& shared) {
  constexpr int kPacks = kChannels / W;
  const T* const x = static_cast<const T*>(p.x);
  const T* const w = static_cast<const T*>(p.w);
  const int64_t base = static_cast<int64_t>(blockIdx.y) * kChannels;
  const int column = threadIdx.x % kPacks * W;
  const int64_t c = base + column;
  const int64_t block_first = static_cast<int64_t>(blockIdx.x) * kBlockTokens;
  const int64_t block_last = min(block_first + kBlockTokens, p.t);
  const int entries = (p.taps + 1) * kChannels;
  for (int i = threadIdx.x; i < entries; i += kThreads) shared.sums[i] = 0.0f;

  for (int64_t first = block_first; first < block_last; first += kTile) {
    const int64_t last = min(first + kTile, block_last);
    __syncthreads();
    if (c < p.c) {
      for (int64_t t = first + threadIdx.x / kPacks; t < min(last + p.taps - 1, p.t); t += kThreads / kPacks) {
        float v[W];
        preactivation<T, W>(p, t, c, v);
        const Pack<T, W> dy = load<T, W>(static_cast<const T*>(p.dy) + t * p.dy_stride + c);
#pragma unroll
        for (int j = 0; j < W; ++j) v[j] = dy[j] * silu_slope(v[j], sigmoid(v[j]));
        store_f32<W>(&shared.dp[t - first][column], v);
      }
    }
    __syncthreads();
    if (c < p.c) {
      for (int64_t s = first + threadIdx.x / kPacks; s < last; s += kThreads / kPacks) {
        float v[W] = {};
        for (int k = p.taps - 1; k >= 0; --k) {
          const int64_t t = s + p.taps - 1 - k;
          if (t < p.t && p.start[t] <= s) {
#pragma unroll
            for (int j = 0; j < W; ++j) {
              v[j] = fmaf(to_f32(w[(c + j) * p.w_stride + k]), shared.dp[t - first][column + j], v[j]);
            }
          }
        }
        store<T, W>(static_cast<T*>(p.dx) + s * p.dx_stride + c, Pack<T, W>::rounded(v));
      }
    }
    for (int i = threadIdx.x; i < entries; i += kThreads) {
      const int k = i / kChannels, own = i % kChannels;
      if (base + own >= p.c) continue;
      float sum = shared.sums[i];
      for (int64_t t = first; t < last; ++t) {
        const int64_t row = t - p.taps + 1 + k;
        if (k == p.taps) {
          sum += shared.dp[t - first][own];
        } else if (row >= p.start[t]) {
          sum = fmaf(shared.dp[t - first][own], to_f32(x[row * p.x_stride + base + own]), sum);
        }
      }
      shared.sums[i] = sum;
    }
  }

  for (int i = threadIdx.x; i < entries; i += kThreads) {
    const int64_t own = base + i % kChannels;
    if (own < p.c) p.partial[(blockIdx.x * (p.taps + 1ll) + i / kChannels) * p.c + own] = shared.sums[i];
  }
}

template <class T>
__device__ __forceinline__ void conv_silu_bwd(const ConvSiluBwdParams& p) {
  __shared__ BwdShared shared;
  const bool wide = aligned_16(p.dy) && aligned_16(p.x) && aligned_16(p.b) && aligned_16(p.dx) &&
                    aligned_16<T>(p.dy_stride) && aligned_16<T>(p.x_stride) && aligned_16<T>(p.dx_stride) &&
                    p.c % kWide<T> == 0;
  if (wide) {
    conv_silu_bwd_block<T, kWide<T>>(p, shared);
  } else {
    conv_silu_bwd_block<T, 1>(p, shared);
  }
}

template <class T>
__device__ __forceinline__ void store_sum(void* base, int64_t i, float sum, bool accumulate) {
  T* const to = static_cast<T*>(base) + i;
  *to = round_to<T>(accumulate ? to_f32(*to) + sum : sum);
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(conv_silu_fwd_bf16, ConvSiluFwdParams, bf16, 256, 4, 0) {
  lightning::conv_silu_fwd<lightning::bf16>(p);
}
LIGHTNING_KERNEL(conv_silu_bwd_bf16, ConvSiluBwdParams, bf16, 256, 2, 0) {
  lightning::conv_silu_bwd<lightning::bf16>(p);
}

// A block takes 32 channels of one tap, or of the bias: 16 warps each sum one run of consecutive token blocks, then warp 0
// sums the runs in order.
LIGHTNING_KERNEL(conv_silu_bwd_dw, ConvSiluBwdDwParams, any, 512, 2, 0) {
  using namespace lightning;
  constexpr int kRuns = 16;
  __shared__ float runs[kRuns][kWarpSize];
  const int lane = threadIdx.x % kWarpSize, run = threadIdx.x / kWarpSize;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kWarpSize + lane;
  const int k = blockIdx.y;
  const int64_t length = (p.blocks + kRuns - 1) / kRuns;
  const int64_t last = min((run + 1) * length, p.blocks);
  float sum = 0.0f;
  if (c < p.c) {
    for (int64_t block = run * length; block < last; ++block) sum += p.partial[(block * (p.taps + 1) + k) * p.c + c];
  }
  runs[run][lane] = sum;
  __syncthreads();
  if (run != 0 || c >= p.c) return;
  float total = 0.0f;
#pragma unroll
  for (int r = 0; r < kRuns; ++r) total += runs[r][lane];
  void* const out = k == p.taps ? p.db : p.dw;
  const int64_t i = k == p.taps ? c : c * p.dw_stride + k;
  if (p.out_bf16) {
    store_sum<bf16>(out, i, total, p.accumulate);
  } else {
    store_sum<float>(out, i, total, p.accumulate);
  }
}
