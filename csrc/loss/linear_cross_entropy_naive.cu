// Cross entropy of rows of logits, one thread per row: the rung that linear_cross_entropy.cu is compared with. Contract as
// there; sums over the vocabulary in order.
//
// Launch: ceil(rows / 128) blocks.
#include "lightning/kernel.cuh"
#include "lightning/pack.cuh"
#include "lightning/params/loss.h"

LIGHTNING_KERNEL(linear_cross_entropy_rows_naive_bf16, LossRowsParams, bf16, 128, 4, 0) {
  using namespace lightning;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (row >= p.rows) return;
  bf16* const z = static_cast<bf16*>(p.logits) + row * p.stride;
  const int label = p.label[row];
  const bool known = 0 <= label && label < p.v, on = p.mask[row] != 0;
  int best = 0;
#pragma unroll 1
  for (int c = 1; c < p.v; ++c) {
    if (to_f32(z[c]) > to_f32(z[best])) best = c;
  }
  const float max = to_f32(z[best]);
  float sum = 0.0f;
#pragma unroll 1
  for (int c = 0; c < p.v; ++c) sum += expf(to_f32(z[c]) - max);
  p.ce[row] = known ? max + logf(sum) - to_f32(z[label]) : 0.0f;
  p.hit[row] = on && known && best == label;
  if (!p.with_gradient) return;
  const float scale = on ? *p.scale : 0.0f;
#pragma unroll 1
  for (int c = 0; c < p.v; ++c) {
    z[c] = round_to<bf16>(scale / sum * expf(to_f32(z[c]) - max) - (c == label ? scale : 0.0f));
  }
}
