// Embedding gradient the plain way: one thread per column walks all tokens. The rung that embedding.cu is compared with;
// formula, buffers and rounding as there, without `order`. Rows of ids that do not occur are not touched.
//
// Launch: (ceil(h / 128), v) blocks.
#include "lightning/kernel.cuh"
#include "lightning/params/embed.h"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

template <class G>
__device__ __forceinline__ void embedding_bwd_naive(const EmbeddingBwdParams& p) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int id = blockIdx.y;
  if (column >= p.h) return;
  G* const to = static_cast<G*>(p.dtable) + id * p.dtable_stride + column;
  float sum = p.accumulate ? to_f32(*to) : 0.0f;
  bool found = false;
  for (int64_t t = 0; t < p.t; ++t) {
    if (p.ids[t] != id) continue;
    sum += to_f32(static_cast<const bf16*>(p.dy)[t * p.dy_stride + column]);
    found = true;
  }
  if (found) *to = round_to<G>(sum);
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(embedding_bwd_naive_f32, EmbeddingBwdParams, f32, 128, 1, 0) {
  lightning::embedding_bwd_naive<float>(p);
}
LIGHTNING_KERNEL(embedding_bwd_naive_bf16, EmbeddingBwdParams, bf16, 128, 1, 0) {
  lightning::embedding_bwd_naive<lightning::bf16>(p);
}
