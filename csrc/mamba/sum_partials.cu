// Sums of partial sums: the last step of every weight gradient of the Mamba-2 mixer.
//
//   out_c (+)= sum_i partial_ic
//
// Order: 16 runs of consecutive rows, then the runs in order; it depends on the number of rows alone.
// Launch: sum_partials: ceil(columns / 32) blocks. Any number of rows, also 0.
#include "lightning/kernel.cuh"
#include "lightning/params/mamba.h"
#include "lightning/pack.cuh"
#include "lightning/reduce.cuh"

LIGHTNING_KERNEL(sum_partials, SumPartialsParams, any, 512, 2, 0) {
  using namespace lightning;
  constexpr int kRuns = 16;
  __shared__ float runs[kRuns][kWarpSize];
  const int lane = threadIdx.x % kWarpSize, run = threadIdx.x / kWarpSize;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarpSize + lane;
  const int64_t length = (p.blocks + kRuns - 1) / kRuns;
  const int64_t last = min((run + 1) * length, p.blocks);
  float sum = 0.0f;
  if (column < p.columns) {
#pragma unroll 8
    for (int64_t block = run * length; block < last; ++block) sum += p.partial[block * p.partial_stride + column];
  }
  runs[run][lane] = sum;
  __syncthreads();
  if (run == 0 && column < p.columns) {
    float total = 0.0f;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) total += runs[r][lane];
    if (p.out_bf16) {
      bf16* const out = static_cast<bf16*>(p.out) + column;
      *out = round_to<bf16>(p.accumulate ? to_f32(*out) + total : total);
    } else {
      float* const out = static_cast<float*>(p.out) + column;
      *out = p.accumulate ? *out + total : total;
    }
  }
}
