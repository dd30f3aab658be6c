// Sum of block partials into a gradient: the last step of every weight gradient that is first summed per block of tokens.
//
//   dst_j (+)= sum_i partial_ij
//
// | buffer  | shape       | dtype | written               |   rounding: f32; one rounding to the type of dst
// |---------|-------------|-------|-----------------------|   order: 16 runs of consecutive blocks, each in order, then the
// | partial | [blocks, n] | f32   | read                  |   runs in order; a function of the number of blocks alone
// | dst     | [n]         | grad  | added or overwritten  |
//
// Launch: ceil(n / 32) blocks. The suffix is the type of dst. Any number of blocks (0: the sum is 0).
#include "lightning/kernel.cuh"
#include "lightning/params/reduce.h"
#include "lightning/pack.cuh"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

// A block takes 32 columns: 16 warps each sum one run of consecutive rows, then warp 0 sums the runs in order.
template <class G>
__device__ __forceinline__ void sum_blocks(const SumBlocksParams& p) {
  constexpr int kRuns = 16;
  __shared__ float runs[kRuns][kWarpSize];
  const int lane = threadIdx.x % kWarpSize, run = threadIdx.x / kWarpSize;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarpSize + lane;
  const int64_t length = (p.blocks + kRuns - 1) / kRuns;
  const int64_t last = min((run + 1) * length, p.blocks);
  float sum = 0.0f;
  if (column < p.n) {
#pragma unroll 8
    for (int64_t block = run * length; block < last; ++block) sum += p.partial[block * p.partial_stride + column];
  }
  runs[run][lane] = sum;
  __syncthreads();
  if (run == 0 && column < p.n) {
    float total = 0.0f;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) total += runs[r][lane];
    G* const dst = static_cast<G*>(p.dst) + column;
    *dst = round_to<G>(p.accumulate ? to_f32(*dst) + total : total);
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(sum_blocks_f32, SumBlocksParams, f32, 512, 2, 0) { lightning::sum_blocks<float>(p); }
LIGHTNING_KERNEL(sum_blocks_bf16, SumBlocksParams, bf16, 512, 2, 0) { lightning::sum_blocks<lightning::bf16>(p); }
