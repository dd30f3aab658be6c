// Sum of block partials the plain way: one thread per element, blocks in order. The rung that sum_blocks.cu is compared
// with; formula, buffers and rounding as there.
//
// Launch: ceil(n / 128) blocks.
#include "lightning/kernel.cuh"
#include "lightning/params/reduce.h"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

template <class G>
__device__ __forceinline__ void sum_blocks_naive(const SumBlocksParams& p) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= p.n) return;
  G* const dst = static_cast<G*>(p.dst) + column;
  float sum = 0.0f;
  for (int64_t block = 0; block < p.blocks; ++block) sum += p.partial[block * p.partial_stride + column];
  *dst = round_to<G>(p.accumulate ? to_f32(*dst) + sum : sum);
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(sum_blocks_naive_f32, SumBlocksParams, f32, 128, 1, 0) { lightning::sum_blocks_naive<float>(p); }
LIGHTNING_KERNEL(sum_blocks_naive_bf16, SumBlocksParams, bf16, 128, 1, 0) {
  lightning::sum_blocks_naive<lightning::bf16>(p);
}
