// Global gradient norm, clipping, learning-rate schedule and the counters of a step, all on the device.
//
//   norm = s sqrt(sum g^2)      factor = s min(1, clip / (norm + 1e-6))       a non-finite norm skips the step
//   lr, wd = schedule(samples of successful steps);   samples += samples of the step, steps += 1 unless skipped
//   correction_i = 1 - beta_i^steps
//
// with s = 1 / max(tokens, 1) under per-token loss and 1 otherwise. The schedule is lightning-core/src/optim/schedule.rs.
//
// | buffer    | shape    | dtype | written     |   rounding: f64 throughout
// |-----------|----------|-------|-------------|   order: a block of 16,384 elements in 16 runs, element i in run i % 16,
// | gradients | [n]      | grad  | read        |   then the runs pairwise, then blocks in order: the norm has the bits of
// | partial   | [blocks] | f64   | overwritten |   the CPU device's. cos and powers may differ in the last bits of f64.
// | state     | [slots]  | f64   | updated     |
// | tokens    | [1]      | f64   | read        |
//
// Launch, in this order: grad_squares_*: ceil(ceil(n / 16384) / 16) blocks; the suffix is the type of the gradients.
// step_control: 1 block.
#include "lightning/kernel.cuh"
#include "lightning/params/optim.h"
#include "lightning/pack.cuh"
#include "lightning/reduce.cuh"
#include "lightning/state.cuh"

namespace lightning {
namespace {

constexpr int kRuns = 16;
constexpr int64_t kBlock = 16384;

// A half-warp takes a block of elements, each lane one run of it.
template <class G>
__device__ __forceinline__ void grad_squares(const GradSquaresParams& p) {
  const int lane = threadIdx.x % kRuns;
  const int64_t block = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kRuns) + threadIdx.x / kRuns;
  const int64_t last = min((block + 1) * kBlock, p.n);
  const G* const gradients = static_cast<const G*>(p.gradients);
  double sum = 0.0;
#pragma unroll 4
  for (int64_t i = block * kBlock + lane; i < last; i += kRuns) {
    const double g = to_f32(gradients[i]);
    sum = fma(g, g, sum);  // the square is exact
  }
#pragma unroll
  for (int width = kRuns / 2; width > 0; width /= 2) sum += __shfl_down_sync(kAllLanes, sum, width, kRuns);
  if (lane == 0 && block * kBlock < p.n) p.partial[block] = sum;
}

// base^exponent for an integer exponent, by squaring.
__device__ __forceinline__ double power(double base, uint64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

__device__ double learning_rate(const StepControlParams& p, uint64_t n) {
  const uint64_t w = p.warmup_samples, d = p.decay_samples;
  if (w > 0 && n <= w) {
    return __dadd_rn(p.init_lr, __ddiv_rn(__dmul_rn(p.max_lr - p.init_lr, static_cast<double>(n)), static_cast<double>(w)));
  }
  if (p.decay == 0) return p.max_lr;
  if (n > d) return p.min_lr;
  const double span = p.max_lr - p.min_lr;
  const double ratio = static_cast<double>(n - w) / static_cast<double>(d - w);
  double share = 0.0;
  if (p.decay == 1) {
    share = 1.0 - ratio;
  } else if (p.decay == 2) {
    share = 0.5 * (cospi(ratio) + 1.0);
  } else if (p.decay == 3) {
    const double lr = p.max_lr * sqrt(static_cast<double>(w > 0 ? w : 1)) / sqrt(static_cast<double>(n > 0 ? n : 1));
    return lr > p.min_lr ? lr : p.min_lr;
  } else {
    const uint64_t start = d > p.wsd_samples ? d - p.wsd_samples : 0;
    if (n <= start || p.wsd_samples == 0) return p.max_lr;
    const double r = static_cast<double>(n - start) / static_cast<double>(p.wsd_samples);
    if (p.wsd_style == 0) {
      share = 1.0 - r;
    } else if (p.wsd_style == 1) {
      share = 0.5 * (cospi(r) + 1.0);
    } else if (p.wsd_style == 2) {
      share = 2.0 * exp2(-r) - 1.0;
    } else {
      share = 1.0 - sqrt(r);
    }
  }
  return __dadd_rn(p.min_lr, __dmul_rn(share, span));
}

__device__ double weight_decay(const StepControlParams& p, uint64_t n) {
  const double r = n >= p.decay_samples ? 1.0 : static_cast<double>(n) / static_cast<double>(p.decay_samples);
  return __dadd_rn(p.start_weight_decay, __dmul_rn(r, p.end_weight_decay - p.start_weight_decay));
}

__device__ void control(const StepControlParams& p, double squares) {
  double* const state = p.state;
  const double scale = p.tokens ? 1.0 / fmax(*p.tokens, 1.0) : 1.0;
  const double norm = __dmul_rn(scale, sqrt(squares));
  const bool skip = !isfinite(norm);
  const double clip = p.clip > 0.0 && norm + 1e-6 > p.clip ? p.clip / (norm + 1e-6) : 1.0;
  const uint64_t samples = static_cast<uint64_t>(state[kSamples]);
  state[kGradNorm] = norm;
  state[kGradFactor] = scale * clip;
  state[kSkip] = skip ? 1.0 : 0.0;
  state[kLearningRate] = learning_rate(p, samples);
  state[kWeightDecay] = weight_decay(p, samples);
  if (skip) {
    state[kSkipped] += 1.0;
    state[kSkippedInARow] += 1.0;
  } else {
    state[kSamples] += state[kStepSamples];
    state[kSteps] += 1.0;
    state[kSkippedInARow] = 0.0;
  }
  const uint64_t steps = static_cast<uint64_t>(state[kSteps]);
  state[kCorrection1] = 1.0 - power(p.beta1, steps);
  state[kCorrection2] = 1.0 - power(p.beta2, steps);
  state[kNextLearningRate] = learning_rate(p, static_cast<uint64_t>(state[kSamples]));
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(grad_squares_f32, GradSquaresParams, f32, 256, 4, 0) { lightning::grad_squares<float>(p); }
LIGHTNING_KERNEL(grad_squares_bf16, GradSquaresParams, bf16, 256, 4, 0) {
  lightning::grad_squares<lightning::bf16>(p);
}

// All threads fetch, thread 0 sums in order.
LIGHTNING_KERNEL(step_control, StepControlParams, any, 256, 1, 0) {
  constexpr int kFetched = 1024;
  __shared__ double fetched[kFetched];
  double squares = 0.0;
  for (int64_t first = 0; first < p.blocks; first += kFetched) {
    const int count = static_cast<int>(min(static_cast<int64_t>(kFetched), p.blocks - first));
    for (int i = threadIdx.x; i < count; i += blockDim.x) fetched[i] = p.partial[first + i];
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 8
      for (int i = 0; i < count; ++i) squares += fetched[i];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) lightning::control(p, squares);
}
