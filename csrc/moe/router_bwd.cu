// Gradient of the router's logits.
//
//   ds_j  = (scale dw_j - sum_i dw_i w_i) / Z for the selected experts (scale dw_j without normalisation), else 0
//   ds_e += m (g_e - sum_e' g_e' q_e') / S,  g_e = c e_count f_e / (k T^2 rows)     for tokens that are no padding
//   dl    = ds s (1 - s)
//
// m is 1 / micro-batches, or with per-token loss the micro-batch's tokens without padding. No gradient passes through the
// selection, and none reaches the bias.
//
// | buffer                | shape         | dtype | written     |   legend: t tokens, e experts, k experts per token
// |-----------------------|---------------|-------|-------------|
// | logits                | [t, e]        | f32   | read        |   rounding: f32
// | idx, weight, dweight  | [t, k]        |       | read        |   order: choices in ascending order; sums over experts
// | stats                 | [rows, e + 2] | f32   | read        |   over lanes, then pairwise
// | dlogits               | [t, e]        | f32   | overwritten |
//
// Launch: ceil(t / 4) blocks, one warp per token. dx and dW are the products of router_product.cu.
#include "lightning/kernel.cuh"
#include "lightning/params/moe.h"
#include "lightning/exact.cuh"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

constexpr int kWarps = 4;
constexpr float kTiny = 1e-20f;

// Tokens of all rows that are no padding; counts are exact in f32.
__device__ __forceinline__ float all_tokens(const RouterBwdParams& p) {
  float tokens = 0.0f;
  for (int64_t row = threadIdx.x % kWarpSize; row < p.rows; row += kWarpSize) {
    tokens += p.stats[row * p.stats_stride + p.e];
  }
  return warp_sum(tokens);
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(router_dlogits, RouterBwdParams, any, 128, 8, 0) {
  using namespace lightning;
  const int lane = threadIdx.x % kWarpSize;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarpSize;
  if (t >= p.t) return;
  const float* const logits = p.logits + t * p.logits_stride;
  const int32_t* const idx = p.idx + t * p.idx_stride;
  const float* const dweight = p.dweight + t * p.dweight_stride;

  // Factor on the selection counts f, and what the sums over experts give; 0 leaves the auxiliary loss out.
  float per_count = 0.0f, mean = 0.0f, total = 1.0f;
  const float* stats = nullptr;
  if (p.stats && !(p.padding && p.padding[t] != 0)) {
    stats = p.stats + t / p.row_len * p.stats_stride;
    const float tokens = stats[p.e];
    const float factor = p.coefficient * (p.share > 0.0f ? p.share : all_tokens(p));
    per_count = factor * static_cast<float>(static_cast<double>(p.e) / p.k) / (tokens * tokens);
    float scores = 0.0f, weighted = 0.0f;
    for (int e = lane; e < p.e; e += kWarpSize) {
      const float s = sigmoid_exact(logits[e]);
      scores += s;
      weighted += per_count * stats[e] * s;
    }
    total = warp_sum(scores) + kTiny;
    mean = warp_sum(weighted) / total;
  }

  float z = 0.0f, weighted = 0.0f;
  for (int j = 0; j < p.k; ++j) {
    z += sigmoid_exact(logits[idx[j]]);
    weighted += p.weight[t * p.weight_stride + j] * dweight[j];
  }
  z += kTiny;

  for (int e = lane; e < p.e; e += kWarpSize) {
    float ds = stats ? (per_count * stats[e] - mean) / total : 0.0f;
    for (int j = 0; j < p.k; ++j) {
      if (idx[j] != e) continue;
      ds += p.normalize ? (p.scale * dweight[j] - weighted) / z : p.scale * dweight[j];
    }
    const float s = sigmoid_exact(logits[e]);
    p.dlogits[t * p.dlogits_stride + e] = ds * s * (1.0f - s);
  }
}
