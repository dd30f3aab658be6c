// Stable counting sort by one digit: the plan of the expert dispatch (the expert is the digit), and token positions by
// id (a pass per digit, lowest first).
//
//   count_{d, i} = items of tile i with digit d        first_{d, i} = sum of count over (d', i') before (d, i), digits first
//   position of an item = first_{d, i} + items of its tile with its digit that come before it
//
// | buffer     | shape           | dtype | written                                         |
// |------------|-----------------|-------|-------------------------------------------------|
// | key, from  | [n]             | i32   | read                                            |   the result is a function of the
// | count      | [digits, tiles] | i32   | workspace: counts, then first positions         |   keys alone: counts are integers,
// | out        | [n]             | i32   | overwritten                                     |   and ranks follow the order of items
// | inverse    | [n]             | i32   | overwritten, indexed by item                    |
// | start      | [digits]        | i32   | overwritten                                     |
//
// A key that is negative or not below `limit` sorts as `limit`, behind all others; it is never an address.
//
// Launch, in this order: sort_count: `tiles` blocks.  sort_scan: 1 block.  sort_scatter: `tiles` blocks.
#include "lightning/kernel.cuh"
#include "lightning/params/sort.h"
#include "lightning/reduce.cuh"

namespace lightning {
namespace {

constexpr int kMaxDigits = 1024;

__device__ __forceinline__ int digit_of(const SortPassParams& p, int32_t item) {
  const int32_t key = p.key[item];
  return ((key < 0 || key >= p.limit ? p.limit : key) >> p.shift) & p.mask;
}

__device__ __forceinline__ int32_t item_at(const SortPassParams& p, int64_t position) {
  return p.from ? p.from[position] : static_cast<int32_t>(position);
}

// Sum of v over the lanes up to this one.
__device__ __forceinline__ int warp_prefix(int v) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int before = __shfl_up_sync(kAllLanes, v, distance);
    if (lane >= distance) v += before;
  }
  return v;
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(sort_count, SortPassParams, any, 256, 4, 0) {
  using namespace lightning;
  __shared__ int count[kMaxDigits];
  for (int d = threadIdx.x; d < p.digits; d += blockDim.x) count[d] = 0;
  __syncthreads();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * p.tile, last = min(first + p.tile, p.n);
  for (int64_t i = first + threadIdx.x; i < last; i += blockDim.x) atomicAdd(&count[digit_of(p, item_at(p, i))], 1);
  __syncthreads();
  for (int d = threadIdx.x; d < p.digits; d += blockDim.x) {
    p.count[static_cast<int64_t>(d) * p.tiles + blockIdx.x] = count[d];
  }
}

// Replaces every count by the sum of those before it, 1024 at a time.
LIGHTNING_KERNEL(sort_scan, SortPassParams, any, 1024, 1, 0) {
  using namespace lightning;
  constexpr int kWarps = 1024 / kWarpSize;
  __shared__ int sums[kWarps];
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int64_t all = static_cast<int64_t>(p.digits) * p.tiles;
  int carry = 0;
  for (int64_t first = 0; first < all; first += blockDim.x) {
    const int64_t i = first + threadIdx.x;
    const int own = i < all ? p.count[i] : 0;
    const int prefix = warp_prefix(own);
    if (lane == kWarpSize - 1) sums[warp] = prefix;
    __syncthreads();
    if (warp == 0) sums[lane] = warp_prefix(sums[lane]);
    __syncthreads();
    const int before = carry + (warp > 0 ? sums[warp - 1] : 0) + prefix - own;
    carry += sums[kWarps - 1];
    __syncthreads();
    if (i < all) {
      p.count[i] = before;
      if (p.start && i % p.tiles == 0) p.start[i / p.tiles] = before;
    }
  }
}

// One warp takes a tile in order, 32 items at a time: lanes of equal digit rank themselves by lane number.
LIGHTNING_KERNEL(sort_scatter, SortPassParams, any, 32, 16, 0) {
  using namespace lightning;
  __shared__ int next[kMaxDigits];
  const int lane = threadIdx.x;
  for (int d = lane; d < p.digits; d += kWarpSize) next[d] = p.count[static_cast<int64_t>(d) * p.tiles + blockIdx.x];
  __syncwarp();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * p.tile, last = min(first + p.tile, p.n);
  for (int64_t base = first; base < last; base += kWarpSize) {
    const bool present = base + lane < last;
    const int32_t item = present ? item_at(p, base + lane) : 0;
    const int digit = present ? digit_of(p, item) : -1;
    const unsigned peers = __match_any_sync(kAllLanes, digit);
    const int rank = __popc(peers & ((1u << lane) - 1));
    const int position = present ? next[digit] + rank : 0;
    __syncwarp();
    // The last lane of a digit moves the digit's next position.
    if (present && (peers >> lane) == 1) next[digit] = position + 1;
    __syncwarp();
    if (present) {
      p.out[position] = item;
      if (p.inverse) p.inverse[item] = position;
    }
  }
}
