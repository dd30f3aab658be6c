// The router's decision: sigmoid scores, biased selection, weights; and noise logits.
//
//   s = sigmoid(l)        idx_t = the k largest of s_te + b_e, ties to the lower index (or what is forced)
//   w_tj = scale s_{t, idx_j} / Z_t,  Z_t = sum_j s_{t, idx_j} + 1e-20        (w_tj = scale s without normalisation)
//
// | buffer | shape  | dtype | written     |   legend: t tokens, e experts, k experts per token
// |--------|--------|-------|-------------|
// | logits | [t, e] | f32   | read        |   rounding: f32; equal to the CPU device bit by bit on equal logits, in idx and
// | idx    | [t, k] | i32   | overwritten |   in weight, because scores are computed as there (exact.cuh) and Z sums the
// | weight | [t, k] | f32   | overwritten |   choices in ascending order; total sums over lanes, then pairwise
// | plain  | [t, k] | i32   | overwritten |
// | total  | [t]    | f32   | overwritten |
//
// Launch: router_select: ceil(t / 4) blocks, one warp per token.  router_noise: ceil(t e / 256) blocks.
#include "lightning/kernel.cuh"
#include "lightning/params/moe.h"
#include "lightning/exact.cuh"
#include "lightning/pack.cuh"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

constexpr int kMaxExperts = 1024;
constexpr int kWarps = 4;
// Guards the divisions by sums of scores.
constexpr float kTiny = 1e-20f;

// The place of the largest of e values, ties to the lower one. A NaN is never larger, and nothing is larger than a NaN
// in place 0, as in a search that starts there.
__device__ __forceinline__ int best_of(const float* values, int e) {
  float best = __int_as_float(0xff800000);
  int place = 0;
  for (int i = threadIdx.x % kWarpSize; i < e; i += kWarpSize) {
    if (values[i] > best) {
      best = values[i];
      place = i;
    }
  }
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, best, distance);
    const int at = __shfl_xor_sync(kAllLanes, place, distance);
    if (other > best || (other == best && at < place)) {
      best = other;
      place = at;
    }
  }
  return isnan(values[0]) ? 0 : place;
}

// Calls chosen(j, place) for the k largest of e values, largest first; uses the values up.
template <class F>
__device__ __forceinline__ void best_k(float* values, int e, int k, F&& chosen) {
  for (int j = 0; j < k; ++j) {
    __syncwarp();
    const int place = best_of(values, e);
    chosen(j, place);
    __syncwarp();
    if (threadIdx.x % kWarpSize == 0) values[place] = __int_as_float(0xff800000);
  }
  __syncwarp();
}

// Ten rounds of Philox4x32 (Salmon et al. 2011) on one counter.
__device__ __forceinline__ uint4 philox(uint4 counter, uint2 key) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    if (round > 0) key = make_uint2(key.x + 0x9E3779B9u, key.y + 0xBB67AE85u);
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * counter.x;
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * counter.z;
    counter = make_uint4(static_cast<uint32_t>(p1 >> 32) ^ counter.y ^ key.x, static_cast<uint32_t>(p1),
                         static_cast<uint32_t>(p0 >> 32) ^ counter.w ^ key.y, static_cast<uint32_t>(p0));
  }
  return counter;
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(router_select, RouteParams, any, 128, 8, 0) {
  using namespace lightning;
  __shared__ float scores[kWarps][kMaxExperts];
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (t >= p.t) return;
  const float* const logits = p.logits + t * p.logits_stride;
  int32_t* const idx = p.idx + t * p.idx_stride;
  float* const values = scores[warp];

  if (p.plain) {
    float sum = 0.0f;
    for (int i = lane; i < p.e; i += kWarpSize) {
      values[i] = sigmoid_exact(logits[i]);
      sum += values[i];
    }
    sum = warp_sum(sum) + kTiny;
    if (lane == 0) p.total[t] = sum;
    best_k(values, p.e, p.k, [&](int j, int place) {
      if (lane == 0) p.plain[t * p.k + j] = place;
    });
  }

  // Every lane keeps Z; lanes take the choices in turn. The CPU device adds 1e-20 last.
  float z = 0.0f;
  if (p.forced) {
    for (int j = 0; j < p.k; ++j) {
      const int place = p.forced[t * p.forced_stride + j];
      z += sigmoid_exact(logits[place]);
      if (lane == 0) idx[j] = place;
    }
  } else {
    for (int i = lane; i < p.e; i += kWarpSize) values[i] = sigmoid_exact(logits[i]) + p.bias[i];
    best_k(values, p.e, p.k, [&](int j, int place) {
      z += sigmoid_exact(logits[place]);
      if (lane == 0) idx[j] = place;
    });
  }
  z += kTiny;
  __syncwarp();
  for (int j = lane; j < p.k; j += kWarpSize) {
    const float scaled = p.scale * sigmoid_exact(logits[idx[j]]);
    p.weight[t * p.weight_stride + j] = p.normalize ? __fdiv_rn(scaled, z) : scaled;
  }
}

// Two neighbours share the four words of a block: the Box-Muller transform gives one its cosine, the other its sine.
LIGHTNING_KERNEL(router_noise, RouterNoiseParams, any, 256, 2, 0) {
  using namespace lightning;
  constexpr double kUnit = 1.0 / 4294967296.0;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= p.t * p.e) return;
  const uint64_t block = static_cast<uint64_t>(index) / 2;
  const uint4 w = philox(make_uint4(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                    static_cast<uint32_t>(p.stream), static_cast<uint32_t>(p.stream >> 32)),
                         make_uint2(static_cast<uint32_t>(p.counter[0]), static_cast<uint32_t>(p.counter[1])));
  const double u1 = (w.x + 0.5 + w.y * kUnit) * kUnit, u2 = (w.z + w.w * kUnit) * kUnit;
  const double radius = sqrt(-2.0 * log(u1));
  const double normal = radius * (index % 2 == 0 ? cospi(2.0 * u2) : sinpi(2.0 * u2));
  p.logits[index / p.e * p.logits_stride + index % p.e] = static_cast<float>(normal);
}
