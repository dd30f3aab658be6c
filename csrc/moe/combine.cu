// Combination of expert outputs, and the gradient of the gathered tokens: sums of rows found by slot.
//
//   out_t = before_t + sum_j y_{slot(t, j)} + after_t
//
//   forward    y: expert outputs, after: output of the shared expert       backward    y: gradients of the gathered
//   copies, before: dx itself where it is added to
//
// | buffer        | shape    | dtype | written                          |   legend: t tokens, k experts per token, h hidden
// |---------------|----------|-------|----------------------------------|
// | y             | [t k, h] | act   | read                             |   rounding: summed in f32, rounded once
// | slot          | [t, k]   | i32   | read                             |   order: before, choices in ascending j, after
// | before, after | [t, h]   | act   | read; each may be absent         |
// | out           | [t, h]   | act   | overwritten; may be before       |
//
// Launch: any grid of at least 1 block (each takes every gridDim-th token). Any t >= 0, k >= 0, h >= 1.
#include "lightning/kernel.cuh"
#include "lightning/params/moe.h"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

constexpr int kThreads = 256;

template <int W>
__device__ __forceinline__ void add(float (&sum)[W], const bf16* from) {
  const auto v = load<bf16, W>(from);
#pragma unroll
  for (int i = 0; i < W; ++i) sum[i] += v[i];
}

template <int W>
__device__ __forceinline__ void combine(const CombineParams& p) {
  const bf16* const y = static_cast<const bf16*>(p.y);
  for (int64_t t = blockIdx.x; t < p.t; t += gridDim.x) {
    const int32_t* const slots = p.slot + t * p.slot_stride;
    const bf16* const before = p.before ? static_cast<const bf16*>(p.before) + t * p.before_stride : nullptr;
    const bf16* const after = p.after ? static_cast<const bf16*>(p.after) + t * p.after_stride : nullptr;
    bf16* const out = static_cast<bf16*>(p.out) + t * p.out_stride;
    for (int column = threadIdx.x * W; column < p.h; column += kThreads * W) {
      float sum[W] = {};
      if (before) add<W>(sum, before + column);
#pragma unroll 2
      for (int j = 0; j < p.k; ++j) add<W>(sum, y + slots[j] * p.y_stride + column);
      if (after) add<W>(sum, after + column);
      store<bf16, W>(out + column, Pack<bf16, W>::rounded(sum));
    }
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(combine_bf16, CombineParams, bf16, 256, 4, 0) {
  using namespace lightning;
  if (aligned_16(p.y) && aligned_16(p.before) && aligned_16(p.after) && aligned_16(p.out) &&
      aligned_16<bf16>(p.y_stride) && aligned_16<bf16>(p.before_stride) && aligned_16<bf16>(p.after_stride) &&
      aligned_16<bf16>(p.out_stride) && p.h % kWide<bf16> == 0) {
    combine<kWide<bf16>>(p);
  } else {
    combine<1>(p);
  }
}
