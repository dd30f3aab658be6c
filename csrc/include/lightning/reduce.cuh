// Sums over a warp and over a block in an order that is fixed by the thread numbers, so that they repeat bit by bit.
#pragma once

namespace lightning {

constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// Sum over the lanes of a full warp, in every lane. The butterfly adds the same pairs in every lane.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) v += __shfl_xor_sync(kAllLanes, v, distance);
  return v;
}

// Sum over a block of `Warps` full warps, in every thread. Each warp leaves its sum in `scratch` (one f32 per warp, in
// shared memory). Two calls in a row must be given different scratch: a warp may still read the one while another
// writes the next; the barrier of the call between them makes it free again.
template <int Warps>
__device__ __forceinline__ float block_sum(float v, float* scratch) {
  static_assert(Warps >= 1 && Warps <= kWarpSize, "one lane per warp sum");
  const int lane = threadIdx.x % kWarpSize;
  v = warp_sum(v);
  if (lane == 0) scratch[threadIdx.x / kWarpSize] = v;
  __syncthreads();
  return warp_sum(lane < Warps ? scratch[lane] : 0.0f);
}

}  // namespace lightning
