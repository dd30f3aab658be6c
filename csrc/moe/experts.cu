// Routed experts, forward and backward, over slots sorted by expert: gather, products of every expert's slots with its
// weights on tensor cores, weighted squared ReLU. Formulas and order of the passes: lightning-core/src/ops/experts.rs.
//
//   gather          xs_s = x_t                              product_nt   c_s = a_s B_e^T,  activated_s = w max(c_s, 0)^2
//   activation_bwd  dweight, a, dp from p and da            product_nn   c_s = a_s B_e
//   weight_bwd      dW_e (+)= dy^T x over the slots of e
//
// How many slots an expert has stands in `offsets` on the device, so grids are for the worst case and blocks without
// work leave. Slots from offsets[experts] on are neither read nor written. An expert without slots gets a gradient of
// exact zeros.
//
// Rounding: sums in f32, one rounding to act at every stored element; activated is made of the rounded c. Order: the
// inner index ascending in steps of 16, in one accumulator; dweight by one warp, its lanes' columns ascending.
//
// Launch, for s slots and e experts: gather, activation_bwd: ceil(s / 4) blocks. product_*: (ceil(s / 64) + e,
// ceil(n / 64)) blocks. weight_bwd: (ceil(n / 64), ceil(m / 64), e) blocks.
#include <type_traits>

#include "lightning/kernel.cuh"
#include "lightning/mma.cuh"
#include "lightning/params/moe.h"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

using mma::Form;
using mma::Operand;
using mma::Result;
using mma::TileProduct;

// max(v, 0) that keeps a NaN.
__device__ __forceinline__ float relu(float v) { return v < 0.0f ? 0.0f : v; }

// The slot of this warp, one of four of a block; none beyond the last.
__device__ __forceinline__ int64_t slot_of_warp() {
  return static_cast<int64_t>(blockIdx.x) * 4 + threadIdx.x / kWarpSize;
}

template <int W>
__device__ __forceinline__ void copy_row(const bf16* from, bf16* to, int columns) {
#pragma unroll 4
  for (int c = threadIdx.x % kWarpSize * W; c < columns; c += kWarpSize * W) {
    store<bf16, W>(to + c, load<bf16, W>(from + c));
  }
}

// Slots [first, end) of an expert; its first 64 are the tile.
struct SlotTile {
  int expert;  // -1: there is no such tile
  int first, end;
};

// Tile `index` of all experts' slots in tiles of 64 that no two experts share. Every warp searches for itself.
__device__ __forceinline__ SlotTile slot_tile(const int32_t* offsets, int experts, int index) {
  constexpr int kRows = TileProduct<Form::NT>::kRows;
  const int lane = threadIdx.x % kWarpSize;
  int before = 0;  // tiles of the experts before `base`
  for (int base = 0; base < experts; base += kWarpSize) {
    const int e = base + lane;
    const int start = e < experts ? offsets[e] : 0;
    const int end = e < experts ? offsets[e + 1] : 0;
    const int tiles = (end - start + kRows - 1) / kRows;
    int sum = tiles;  // of the lanes up to this one
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      const int v = __shfl_up_sync(kAllLanes, sum, distance);
      if (lane >= distance) sum += v;
    }
    const unsigned past = __ballot_sync(kAllLanes, before + sum > index);
    if (past != 0) {
      const int at = __ffs(past) - 1;
      const int skipped = index - before - __shfl_sync(kAllLanes, sum - tiles, at);
      const int first = __shfl_sync(kAllLanes, start, at);
      return {base + at, first + skipped * kRows, __shfl_sync(kAllLanes, end, at)};
    }
    before += __shfl_sync(kAllLanes, sum, kWarpSize - 1);
  }
  return {-1, 0, 0};
}

template <Form F>
__device__ __forceinline__ void experts_product(const ExpertsProductParams& p) {
  __shared__ typename TileProduct<F>::Shared shared;
  const SlotTile tile = slot_tile(p.offsets, p.experts, blockIdx.x);
  if (tile.expert < 0) return;
  const int col = blockIdx.y * TileProduct<F>::kCols;
  const Operand a(p.a, p.a_stride, tile.end, p.depth);
  const int b_rows = F == Form::NT ? p.n : p.depth;
  const Operand b = Operand(p.b, p.b_stride, 0, F == Form::NT ? p.depth : p.n)
                        .row_range(static_cast<int64_t>(tile.expert) * b_rows, b_rows);
  TileProduct<F> product;
  product.run(shared, a, b, tile.first, col, p.depth);

  const Result<bf16> c(p.c, p.c_stride, tile.end, p.n);
  if (!p.activated) {
    product.for_pairs([&](int i, int j, float first, float second) { c.put(tile.first + i, col + j, first, second); });
    return;
  }
  const Result<bf16> activated(p.activated, p.activated_stride, tile.end, p.n);
  product.for_pairs([&](int i, int j, float first, float second) {
    const int slot = tile.first + i;
    if (slot >= tile.end) return;
    c.put(slot, col + j, first, second);
    const float w = p.weight[p.pair_of_slot[slot]];
    const float r0 = relu(to_f32(round_to<bf16>(first))), r1 = relu(to_f32(round_to<bf16>(second)));
    activated.put(slot, col + j, w * (r0 * r0), w * (r1 * r1));
  });
}

template <int W>
__device__ __forceinline__ float activation_bwd_row(const bf16* p, bf16* dp, bf16* a, float w, int f) {
  float sum = 0.0f;
  for (int c = threadIdx.x % kWarpSize * W; c < f; c += kWarpSize * W) {
    const Pack<bf16, W> p_v = load<bf16, W>(p + c), da_v = load<bf16, W>(dp + c);
    float a_v[W], dp_v[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float r = relu(p_v[i]), da = da_v[i];
      sum = fmaf(r * r, da, sum);
      a_v[i] = w * (r * r);
      dp_v[i] = 2.0f * w * r * da;
    }
    store<bf16, W>(a + c, Pack<bf16, W>::rounded(a_v));
    store<bf16, W>(dp + c, Pack<bf16, W>::rounded(dp_v));
  }
  return warp_sum(sum);
}

}  // namespace
}  // namespace lightning

// A warp copies a row.
LIGHTNING_KERNEL(experts_gather_bf16, ExpertsGatherParams, bf16, 128, 8, 0) {
  using namespace lightning;
  const int64_t slot = slot_of_warp();
  if (slot >= p.offsets[p.experts]) return;
  const bf16* const from = static_cast<const bf16*>(p.x) + p.pair_of_slot[slot] / p.k * p.x_stride;
  bf16* const to = static_cast<bf16*>(p.xs) + slot * p.xs_stride;
  if (p.d % kWide<bf16> == 0 && aligned_16(from) && aligned_16(to)) {
    copy_row<kWide<bf16>>(from, to, p.d);
  } else {
    copy_row<1>(from, to, p.d);
  }
}

LIGHTNING_KERNEL(experts_product_nt_bf16, ExpertsProductParams, bf16, 128, 4, 0) {
  lightning::experts_product<lightning::mma::Form::NT>(p);
}
LIGHTNING_KERNEL(experts_product_nn_bf16, ExpertsProductParams, bf16, 128, 4, 0) {
  lightning::experts_product<lightning::mma::Form::NN>(p);
}

// A warp takes a slot.
LIGHTNING_KERNEL(experts_activation_bwd_bf16, ExpertsActivationBwdParams, bf16, 128, 6, 0) {
  using namespace lightning;
  const int64_t slot = slot_of_warp();
  if (slot >= p.offsets[p.experts]) return;
  const int pair = p.pair_of_slot[slot];
  const float w = p.weight[pair];
  const bf16* const kept = static_cast<const bf16*>(p.p) + slot * p.p_stride;
  bf16* const dp = static_cast<bf16*>(p.dp) + slot * p.dp_stride;
  bf16* const a = static_cast<bf16*>(p.a) + slot * p.a_stride;
  const bool wide = p.f % kWide<bf16> == 0 && aligned_16(kept) && aligned_16(dp) && aligned_16(a);
  const float sum = wide ? activation_bwd_row<kWide<bf16>>(kept, dp, a, w, p.f) : activation_bwd_row<1>(kept, dp, a, w, p.f);
  if (threadIdx.x % kWarpSize == 0) p.dweight[pair] = sum;
}

LIGHTNING_KERNEL(experts_weight_bwd_bf16, ExpertsWeightBwdParams, bf16, 128, 4, 0) {
  using namespace lightning;
  __shared__ TileProduct<Form::TN>::Shared shared;
  const int expert = blockIdx.z, row = blockIdx.y * 64, col = blockIdx.x * 64;
  const int first = p.offsets[expert], slots = p.offsets[expert + 1] - first;
  const Operand dy = Operand(p.dy, p.dy_stride, 0, p.m).row_range(first, slots);
  const Operand x = Operand(p.x, p.x_stride, 0, p.n).row_range(first, slots);
  TileProduct<Form::TN> product;
  product.run(shared, dy, x, row, col, slots);
  const int64_t offset = static_cast<int64_t>(expert) * p.m * p.dw_stride;
  auto write = [&](auto* dw) {
    using T = std::remove_reference_t<decltype(*dw)>;
    const Result<T> result(dw + offset, p.dw_stride, p.m, p.n);
    product.for_pairs([&](int i, int j, float first_v, float second_v) {
      result.put(row + i, col + j, first_v, second_v, p.accumulate);
    });
  };
  if (p.dw_f32) {
    write(static_cast<float*>(p.dw));
  } else {
    write(static_cast<bf16*>(p.dw));
  }
}
