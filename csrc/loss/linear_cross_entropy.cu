// Cross entropy of rows of logits, forward and backward in one pass over them, and what surrounds it: the scale of a
// head's gradients before, its metrics after. The products that make logits and use their gradients are those of
// csrc/gemm/. Formulas: lightning-core/src/ops/cross_entropy.rs.
//
// | buffer | shape     | dtype | written                             |   legend: v vocabulary
// |--------|-----------|-------|-------------------------------------|
// | logits | [rows, v] | act   | overwritten with gradients, or read |   rounding: maxima, sums, ce f32; a gradient is rounded
// | ce     | [rows]    | f32   | overwritten                         |   once; metrics f64
// | hit    | [rows]    | i32   | overwritten                         |   order: a thread its columns ascending, then the
// | metric | [4]       | f64   | added to                            |   threads as block_sum does; metrics likewise
//
// Launch: scale, metric: 1 block. rows: one block per row.
// With all masks 0 every gradient is exactly 0 and the metrics grow by 0.
#include "lightning/kernel.cuh"
#include "lightning/pack.cuh"
#include "lightning/params/loss.h"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

// What all threads of a block agree on, from what each has; `scratch` as in block_sum. The order does not matter for
// `combine` (largest, smallest, integer sum).
template <class T, class Combine>
__device__ __forceinline__ T block_combine(T v, T* scratch, Combine combine) {
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    v = combine(v, __shfl_xor_sync(kAllLanes, v, distance));
  }
  if (threadIdx.x % kWarpSize == 0) scratch[threadIdx.x / kWarpSize] = v;
  __syncthreads();
  v = scratch[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) v = combine(v, scratch[warp]);
  return v;
}

__device__ __forceinline__ int block_count(const int32_t* mask, int64_t t, int* scratch) {
  int count = 0;
  for (int64_t i = threadIdx.x; i < t; i += kThreads) count += mask[i] != 0;
  return block_combine(count, scratch, [](int a, int b) { return a + b; });
}

struct Scratch {
  float max[kWarps], sums[kWarps];
  int first[kWarps];
};

template <int W>
__device__ __forceinline__ void loss_row(const LossRowsParams& p, Scratch& scratch) {
  const int64_t row = blockIdx.x;
  bf16* const z = static_cast<bf16*>(p.logits) + row * p.stride;
  const int label = p.label[row];
  const bool known = 0 <= label && label < p.v, on = p.mask[row] != 0;
  // Before anything is overwritten.
  const float at_label = known ? to_f32(z[label]) : 0.0f;

  float max = -INFINITY;
  for (int c = threadIdx.x * W; c < p.v; c += kThreads * W) {
    const Pack<bf16, W> v = load<bf16, W>(z + c);
#pragma unroll
    for (int i = 0; i < W; ++i) max = fmaxf(max, v[i]);
  }
  max = block_combine(max, scratch.max, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0.0f;
  int first = INT32_MAX;  // index of the first logit that is the largest
  for (int c = threadIdx.x * W; c < p.v; c += kThreads * W) {
    const Pack<bf16, W> v = load<bf16, W>(z + c);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      sum += expf(v[i] - max);
      if (v[i] == max) first = min(first, c + i);
    }
  }
  sum = block_sum<kWarps>(sum, scratch.sums);
  first = block_combine(first, scratch.first, [](int a, int b) { return min(a, b); });
  if (threadIdx.x == 0) {
    p.ce[row] = known ? max + logf(sum) - at_label : 0.0f;
    p.hit[row] = on && known && first == label;
  }

  if (!p.with_gradient) return;
  const float scale = on ? *p.scale : 0.0f, factor = scale / sum;
  for (int c = threadIdx.x * W; c < p.v; c += kThreads * W) {
    const Pack<bf16, W> v = load<bf16, W>(z + c);
    float gradient[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      gradient[i] = factor * expf(v[i] - max);
      if (c + i == label) gradient[i] -= scale;
    }
    store<bf16, W>(z + c, Pack<bf16, W>::rounded(gradient));
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(linear_cross_entropy_scale, LossScaleParams, any, 256, 1, 0) {
  using namespace lightning;
  __shared__ int scratch[2][kWarps];
  const int tokens = block_count(p.mask, p.t, scratch[0]);
  const int lm_tokens = block_count(p.lm_mask, p.lm_t, scratch[1]);
  if (threadIdx.x != 0) return;
  *p.tokens = tokens;
  *p.scale = static_cast<float>(p.factor / max(tokens, 1) * (p.share == 0.0 ? lm_tokens : p.share));
}

LIGHTNING_KERNEL(linear_cross_entropy_rows_bf16, LossRowsParams, bf16, 256, 4, 0) {
  using namespace lightning;
  __shared__ Scratch scratch;
  constexpr int kW = kWide<bf16>;
  if (aligned_16(p.logits) && aligned_16<bf16>(p.stride) && p.v % kW == 0) {
    loss_row<kW>(p, scratch);
  } else {
    loss_row<1>(p, scratch);
  }
}

LIGHTNING_KERNEL(linear_cross_entropy_metric, LossMetricParams, any, 256, 1, 0) {
  using namespace lightning;
  __shared__ double sums[kThreads];
  __shared__ int scratch[kWarps];
  double sum = 0.0;
  int hits = 0;
  for (int64_t i = threadIdx.x; i < p.t; i += kThreads) {
    if (p.mask[i] != 0) sum += p.ce[i];
    hits += p.hit[i];
  }
  sums[threadIdx.x] = sum;
  hits = block_combine(hits, scratch, [](int a, int b) { return a + b; });
  if (threadIdx.x != 0) return;
  double total = 0.0;
#pragma unroll 1
  for (int i = 0; i < kThreads; ++i) total += sums[i];
  const int tokens = *p.tokens;
  p.metric[0] += total;
  p.metric[1] += tokens;
  p.metric[2] += total / max(tokens, 1);
  p.metric[3] += hits;
}
