// The three matrix products of the router, in f32 from widened operands: the choice of experts hangs on the logits, so
// that nothing is rounded before the sum (a bf16 product is exact in f32) and nothing but the sum rounds.
//
//   router_logits    c_te  = sum_d x_td W_ed        a: x [t, d] act        b: W [e, d] act      c: logits [t, e] f32
//   router_dx        c_td += sum_e dl_te W_ed       a: dl [t, e] f32       b: W [e, d] act      c: dx [t, d] act
//   router_dw        c_ed (+)= sum_t dl_te x_td     a: dl [t, e] f32       b: x [t, d] act      c: dW [e, d] grad
//
// Rounding: one, to the type of c. Order: terms in ascending order, one fused multiply-add each.
// Launch: (ceil(m / 32), ceil(n / 32)) blocks for c [m, n]; the suffix of router_dw is the type of c, that of the others
// the activation type.
#include "lightning/kernel.cuh"
#include "lightning/params/moe.h"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

constexpr int kTile = 32;
constexpr int kThreads = 128;
// A thread sums 4 x 2 elements: rows 8 apart, columns 16 apart.
constexpr int kRows = 4, kColumns = 2;

// Loads a tile as tile[k][i]; element (i, k) lies at i stride + k, or at k stride + i when transposed, and neighbouring
// threads load neighbours.
template <bool Transposed, class T>
__device__ __forceinline__ void load_tile(float (&tile)[kTile][kTile + 1], const void* from, int64_t stride, int64_t i0,
                                          int64_t rows, int64_t k0, int64_t depth) {
#pragma unroll 4
  for (int round = 0; round < kTile * kTile / kThreads; ++round) {
    const int at = round * kThreads + threadIdx.x;
    const int slow = at / kTile, fast = at % kTile;
    const int i = Transposed ? fast : slow, k = Transposed ? slow : fast;
    float v = 0.0f;
    if (i0 + i < rows && k0 + k < depth) {
      v = to_f32(static_cast<const T*>(from)[Transposed ? (k0 + k) * stride + i0 + i : (i0 + i) * stride + k0 + k]);
    }
    tile[k][i] = v;
  }
}

template <bool TransposedA, class A, bool TransposedB, class B, class C>
__device__ __forceinline__ void router_product(const RouterProductParams& p) {
  __shared__ float a[kTile][kTile + 1], b[kTile][kTile + 1];
  const int64_t m0 = static_cast<int64_t>(blockIdx.x) * kTile, n0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  float sum[kRows][kColumns] = {};
  for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
    load_tile<TransposedA, A>(a, p.a, p.a_stride, m0, p.m, k0, p.k);
    load_tile<TransposedB, B>(b, p.b, p.b_stride, n0, p.n, k0, p.k);
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kTile; ++k) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sum[i][j] = fmaf(a[k][row + 8 * i], b[k][column + 16 * j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int64_t m = m0 + row + 8 * i, n = n0 + column + 16 * j;
      if (m < p.m && n < p.n) {
        C* const c = static_cast<C*>(p.c) + m * p.c_stride + n;
        *c = round_to<C>(p.accumulate ? to_f32(*c) + sum[i][j] : sum[i][j]);
      }
    }
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(router_logits_bf16, RouterProductParams, bf16, 128, 8, 0) {
  lightning::router_product<false, lightning::bf16, false, lightning::bf16, float>(p);
}
LIGHTNING_KERNEL(router_dx_bf16, RouterProductParams, bf16, 128, 8, 0) {
  lightning::router_product<false, float, true, lightning::bf16, lightning::bf16>(p);
}
LIGHTNING_KERNEL(router_dw_f32, RouterProductParams, f32, 128, 8, 0) {
  lightning::router_product<true, float, true, lightning::bf16, float>(p);
}
LIGHTNING_KERNEL(router_dw_bf16, RouterProductParams, bf16, 128, 8, 0) {
  lightning::router_product<true, float, true, lightning::bf16, lightning::bf16>(p);
}
