// Matrix product for operands of any shape, row distance and alignment.
//
//   c_mn = alpha sum_k a_mk b_nk (+ c_mn)        NT: a [m, k], b [n, k]   NN: a [m, k], b [k, n]   TN: a [k, m], b [k, n]
//
// | buffer | shape  | dtype        | written                   |   rounding: products and sums f32, one rounding at c
// |--------|--------|--------------|---------------------------|
// | a, b   | above  | bf16         | read                      |   order: k in ascending steps of 16, one accumulator
// | c      | [m, n] | bf16 or f32  | overwritten or added to   |   per element, so that bits depend on operands alone
//
// Launch: ceil(m / 64) * ceil(n / 64) blocks, tiles of a row of c next to each other. Any m, n, k >= 0 below 2^31.
// Tensor cores by mma.sync. What bulk tensor copies can read goes to gemm.sm_90a.cu instead.
#include "lightning/kernel.cuh"
#include "lightning/mma.cuh"
#include "lightning/params/gemm.h"

namespace lightning {
namespace {

template <mma::Form F, class C>
__device__ __forceinline__ void gemm_plain(const GemmParams& p) {
  using Product = mma::TileProduct<F>;
  __shared__ typename Product::Shared shared;
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  const mma::Operand a = F == mma::Form::TN ? mma::Operand(p.a, p.a_k, k, m) : mma::Operand(p.a, p.a_m, m, k);
  const mma::Operand b = F == mma::Form::NT ? mma::Operand(p.b, p.b_n, n, k) : mma::Operand(p.b, p.b_k, k, n);
  const int across = (n + Product::kCols - 1) / Product::kCols;
  const int row = blockIdx.x / across * Product::kRows, col = blockIdx.x % across * Product::kCols;
  Product product;
  product.run(shared, a, b, row, col, k);
  const mma::Result<C> c = {static_cast<C*>(p.c), p.c_stride, m, n};
  product.for_pairs([&](int i, int j, float first, float second) {
    c.put(row + i, col + j, p.alpha * first, p.alpha * second, p.accumulate);
  });
}

}  // namespace
}  // namespace lightning

using lightning::bf16;
using lightning::gemm_plain;
using lightning::mma::Form;

LIGHTNING_KERNEL(gemm_plain_nt_bf16, GemmParams, bf16, 128, 3, 0) { gemm_plain<Form::NT, bf16>(p); }
LIGHTNING_KERNEL(gemm_plain_nn_bf16, GemmParams, bf16, 128, 3, 0) { gemm_plain<Form::NN, bf16>(p); }
LIGHTNING_KERNEL(gemm_plain_tn_bf16, GemmParams, bf16, 128, 3, 0) { gemm_plain<Form::TN, bf16>(p); }
LIGHTNING_KERNEL(gemm_plain_nt_f32, GemmParams, f32, 128, 3, 0) { gemm_plain<Form::NT, float>(p); }
LIGHTNING_KERNEL(gemm_plain_nn_f32, GemmParams, f32, 128, 3, 0) { gemm_plain<Form::NN, float>(p); }
LIGHTNING_KERNEL(gemm_plain_tn_f32, GemmParams, f32, 128, 3, 0) { gemm_plain<Form::TN, float>(p); }
