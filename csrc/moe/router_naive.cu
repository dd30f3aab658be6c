// The router the plain way: one thread per element of a product, one thread per token for the decision. The rungs that
// router_product.cu and router.cu are compared with; formulas, buffers and rounding as there.
//
// Launch: router_logits_naive_bf16: ceil(m n / 128) blocks.  router_select_naive: ceil(t / 128) blocks.
#include "lightning/kernel.cuh"
#include "lightning/params/moe.h"
#include "lightning/exact.cuh"
#include "lightning/pack.cuh"

LIGHTNING_KERNEL(router_logits_naive_bf16, RouterProductParams, bf16, 128, 1, 0) {
  using namespace lightning;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.m * p.n) return;
  const bf16* const a = static_cast<const bf16*>(p.a) + i / p.n * p.a_stride;
  const bf16* const b = static_cast<const bf16*>(p.b) + i % p.n * p.b_stride;
  float sum = 0.0f;
  for (int64_t k = 0; k < p.k; ++k) sum = fmaf(to_f32(a[k]), to_f32(b[k]), sum);
  static_cast<float*>(p.c)[i / p.n * p.c_stride + i % p.n] = sum;
}

LIGHTNING_KERNEL(router_select_naive, RouteParams, any, 128, 1, 0) {
  using namespace lightning;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= p.t) return;
  const float* const logits = p.logits + t * p.logits_stride;
  int32_t* const idx = p.idx + t * p.idx_stride;
  float* const weight = p.weight + t * p.weight_stride;
  // The best of what is not in the list yet.
  auto select = [&](int32_t* list, bool biased) {
    for (int j = 0; j < p.k; ++j) {
      int best = -1;
      float of_best = 0.0f;
      for (int e = 0; e < p.e; ++e) {
        bool taken = false;
        for (int i = 0; i < j; ++i) taken = taken || list[i] == e;
        const float score = sigmoid_exact(logits[e]) + (biased ? p.bias[e] : 0.0f);
        if (taken || (best >= 0 && score <= of_best)) continue;
        best = e;
        of_best = score;
      }
      list[j] = best;
    }
  };
  if (p.plain) {
    float sum = 0.0f;
    for (int e = 0; e < p.e; ++e) sum += sigmoid_exact(logits[e]);
    p.total[t] = sum + 1e-20f;
    select(p.plain + t * p.k, false);
  }
  if (p.forced) {
    for (int j = 0; j < p.k; ++j) idx[j] = p.forced[t * p.forced_stride + j];
  } else {
    select(idx, true);
  }
  float z = 0.0f;
  for (int j = 0; j < p.k; ++j) z += sigmoid_exact(logits[idx[j]]);
  z += 1e-20f;
  for (int j = 0; j < p.k; ++j) {
    const float scaled = p.scale * sigmoid_exact(logits[idx[j]]);
    weight[j] = p.normalize ? scaled / z : scaled;
  }
}
