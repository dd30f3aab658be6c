// AdamW on one parameter with f32 masters and moments, and the update of an expert bias.
//
//   g' = factor g;   m = b1 m + (1 - b1) g';   v = b2 v + (1 - b2) g'^2
//   p = p - lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + wd p)
//
//   b_e += rate sign(mean(c) - c_e), sign(0) = 0;   last = c;   c = 0
//
// | buffer       | shape | dtype | written                        |   factor, lr, wd, the corrections and whether the step is
// |--------------|-------|-------|--------------------------------|   skipped come from the state block of step_control.cu
// | gradient     | [n]   | grad  | read                           |
// | master, m, v | [n]   | f32   | updated                        |   rounding: f32, every product and sum by itself as on the
// | param        | [n]   | bf16  | overwritten: the rounded master |   CPU device, so that both make the same parameters; the
// | counts, bias | [e]   | i32, f32 | updated                     |   sign compares integers
// | last         | [e]   | i32   | overwritten                    |
//
// Launch: adamw_*: any grid of at least 1 block; the suffix is the type of the gradient.  expert_bias_update: 1 block.
#include "lightning/kernel.cuh"
#include "lightning/params/optim.h"
#include "lightning/pack.cuh"
#include "lightning/state.cuh"

namespace lightning {
namespace {

// Numbers of the step, rounded to f32 once.
struct Step {
  float factor, lr, decay, inverse1, inverse2;
};

template <class G>
__device__ __forceinline__ void adamw(const AdamWParams& p) {
  __shared__ Step shared;
  if (p.state[kSkip] != 0.0) return;
  if (threadIdx.x == 0) {
    shared.factor = static_cast<float>(p.state[kGradFactor]);
    shared.lr = static_cast<float>(p.state[kLearningRate]);
    shared.decay = p.decay ? static_cast<float>(p.state[kWeightDecay]) : 0.0f;
    shared.inverse1 = static_cast<float>(1.0 / p.state[kCorrection1]);
    shared.inverse2 = static_cast<float>(1.0 / p.state[kCorrection2]);
  }
  __syncthreads();
  const Step step = shared;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.n; i += stride) {
    const float g = __fmul_rn(to_f32(static_cast<const G*>(p.gradient)[i]), step.factor);
    const float m = __fadd_rn(__fmul_rn(p.beta1, p.m[i]), __fmul_rn(p.rest1, g));
    const float v = __fadd_rn(__fmul_rn(p.beta2, p.v[i]), __fmul_rn(p.rest2, __fmul_rn(g, g)));
    const float root = __fsqrt_rn(__fmul_rn(v, step.inverse2));
    const float update = __fdiv_rn(__fmul_rn(m, step.inverse1), __fadd_rn(root, p.eps));
    const float before = p.master[i];
    const float move = __fmul_rn(step.lr, __fadd_rn(update, __fmul_rn(step.decay, before)));
    const float after = __fsub_rn(before, move);
    p.m[i] = m;
    p.v[i] = v;
    p.master[i] = after;
    if (p.param) static_cast<bf16*>(p.param)[i] = round_to<bf16>(after);
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(adamw_f32, AdamWParams, f32, 256, 4, 0) { lightning::adamw<float>(p); }
LIGHTNING_KERNEL(adamw_bf16, AdamWParams, bf16, 256, 4, 0) { lightning::adamw<lightning::bf16>(p); }

LIGHTNING_KERNEL(expert_bias_update, ExpertBiasUpdateParams, any, 256, 1, 0) {
  // Unsigned for the sake of the atomic; counts are never negative.
  __shared__ unsigned long long total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  for (int e = threadIdx.x; e < p.e; e += blockDim.x) atomicAdd(&total, static_cast<unsigned long long>(p.counts[e]));
  __syncthreads();
  for (int e = threadIdx.x; e < p.e; e += blockDim.x) {
    // sign(mean - c) without rounding: compare the sum with c times the number of experts.
    const int32_t count = p.counts[e];
    const int64_t scaled = static_cast<int64_t>(count) * p.e, all = static_cast<int64_t>(total);
    const float move = all > scaled ? p.rate : all < scaled ? -p.rate : 0.0f;
    p.bias[e] += move;
    p.last[e] = count;
    p.counts[e] = 0;
  }
}
