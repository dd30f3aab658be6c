// Squared ReLU, forward and backward.
//
//   y = max(x, 0)^2            dx = 2 max(x, 0) dy
//
// | buffer | shape  | dtype | written     |   rounding: f32, one rounding to act; a NaN of x stays a NaN
// |--------|--------|-------|-------------|
// | x, dy  | [t, f] | act   | read        |
// | y, dx  | [t, f] | act   | overwritten |
//
// Launch: any grid of at least 1 block; a block takes every gridDim-th piece of a row. Any t >= 0, f >= 1.
#include "lightning/kernel.cuh"
#include "lightning/params/moe.h"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

constexpr int kThreads = 256;

// Not fmaxf, which would turn a NaN into 0.
__device__ __forceinline__ float positive(float x) { return 0.0f > x ? 0.0f : x; }

// Calls `pack(row, column)` for every pack of W columns, spread over the grid.
template <int W, class F>
__device__ __forceinline__ void for_each_pack(int64_t rows, int64_t columns, F&& pack) {
  const int64_t pieces = (columns + kThreads * W - 1) / (kThreads * W);
  for (int64_t piece = blockIdx.x; piece < rows * pieces; piece += gridDim.x) {
    const int64_t column = (piece % pieces * kThreads + threadIdx.x) * W;
    if (column < columns) pack(piece / pieces, column);
  }
}

template <int W>
__device__ __forceinline__ void relu2_fwd(const Relu2FwdParams& p) {
  for_each_pack<W>(p.t, p.f, [&](int64_t row, int64_t column) {
    const auto x = load<bf16, W>(static_cast<const bf16*>(p.x) + row * p.x_stride + column);
    float out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = positive(x[i]) * positive(x[i]);
    store<bf16, W>(static_cast<bf16*>(p.y) + row * p.y_stride + column, Pack<bf16, W>::rounded(out));
  });
}

template <int W>
__device__ __forceinline__ void relu2_bwd(const Relu2BwdParams& p) {
  for_each_pack<W>(p.t, p.f, [&](int64_t row, int64_t column) {
    const auto x = load<bf16, W>(static_cast<const bf16*>(p.x) + row * p.x_stride + column);
    const auto dy = load<bf16, W>(static_cast<const bf16*>(p.dy) + row * p.dy_stride + column);
    float out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = 2.0f * positive(x[i]) * dy[i];
    store<bf16, W>(static_cast<bf16*>(p.dx) + row * p.dx_stride + column, Pack<bf16, W>::rounded(out));
  });
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(relu2_fwd_bf16, Relu2FwdParams, bf16, 256, 4, 0) {
  using namespace lightning;
  if (aligned_16(p.x) && aligned_16(p.y) && aligned_16<bf16>(p.x_stride) && aligned_16<bf16>(p.y_stride) &&
      p.f % kWide<bf16> == 0) {
    relu2_fwd<kWide<bf16>>(p);
  } else {
    relu2_fwd<1>(p);
  }
}

LIGHTNING_KERNEL(relu2_bwd_bf16, Relu2BwdParams, bf16, 256, 4, 0) {
  using namespace lightning;
  if (aligned_16(p.x) && aligned_16(p.dy) && aligned_16(p.dx) && aligned_16<bf16>(p.x_stride) &&
      aligned_16<bf16>(p.dy_stride) && aligned_16<bf16>(p.dx_stride) && p.f % kWide<bf16> == 0) {
    relu2_bwd<kWide<bf16>>(p);
  } else {
    relu2_bwd<1>(p);
  }
}
