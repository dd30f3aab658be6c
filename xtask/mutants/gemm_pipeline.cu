// The kernel that planted faults are sampled from: everything that a Hopper GEMM waits, fences and counts with.
//
//   d_mn = a_mk b_nk^T        a, b, d bf16, sums f32        tile 128 x 128 x 64, clusters of two blocks along m
//
// Warp group 0 loads: a's tile for this block, and half of b's tile for both blocks by multicast. Warp groups 1 and 2
// multiply 64 rows each and keep one wgmma group in flight. The result leaves through swizzled shared memory and bulk
// tensor stores. Any m, n, k >= 1: the tensor maps clip. Grid: (2 ceil(m / 256), ceil(n / 128)), 384 threads.
#include <cuda_bf16.h>

#include "lightning/ptx.cuh"

namespace ptx = lightning::ptx;

namespace {

constexpr int kStages = 3;
constexpr int kTile = 128, kDepth = 64;
constexpr int kTileBytes = kTile * kDepth * 2;
constexpr uint16_t kBothBlocks = 3;

struct alignas(64) TensorMap {
  uint64_t words[16];
};

// Dynamic shared memory from a multiple of 1024 on.
struct Shared {
  uint8_t a[kStages][kTileBytes];
  uint8_t b[kStages][kTileBytes];
  uint8_t d[2][2][64 * 64 * 2];  // warp group, left and right 64 columns
  uint64_t full[kStages];        // 1 arrival, and the bytes of both operands
  uint64_t empty[kStages];       // 1 arrival of each of the 8 consumer warps of both blocks
};

struct Ring {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

__device__ void load(Shared& shared, const TensorMap& a_map, const TensorMap& b_map, int k) {
  const uint32_t rank = ptx::cluster_rank();
  Ring ring;
  for (int start = 0; start < k; start += kDepth) {
    ptx::mbarrier_wait(ptx::shared_address(&shared.empty[ring.stage]), ring.parity ^ 1);
    const uint32_t full = ptx::shared_address(&shared.full[ring.stage]);
    ptx::mbarrier_arrive_expect(full, 2 * kTileBytes);
    ptx::tensor_load_2d(ptx::shared_address(shared.a[ring.stage]), &a_map, full, start, blockIdx.x * kTile);
    ptx::tensor_load_2d_multicast(ptx::shared_address(shared.b[ring.stage]) + rank * (kTileBytes / 2), &b_map, full,
                                  start, blockIdx.y * kTile + rank * (kTile / 2), kBothBlocks);
    ring.advance();
  }
}

// Tells the producers of both blocks that this warp has read a stage. A wait for wgmma speaks for its own warp alone.
__device__ void release(Shared& shared, int stage) {
  const int lane = threadIdx.x % 32;
  if (lane < 2) ptx::mbarrier_arrive_at(ptx::shared_address(&shared.empty[stage]), lane);
}

__device__ void multiply(Shared& shared, const TensorMap& d_map, int k, int group) {
  float d[64];
  Ring ring;
  int before = 0;
  for (int start = 0; start < k; start += kDepth) {
    ptx::mbarrier_wait(ptx::shared_address(&shared.full[ring.stage]), ring.parity);
    const uint32_t a = ptx::shared_address(shared.a[ring.stage]) + group * (kTileBytes / 2);
    const uint32_t b = ptx::shared_address(shared.b[ring.stage]);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
      ptx::wgmma_m64n128k16_bf16(d, ptx::wgmma_descriptor_128(a + step * 32), ptx::wgmma_descriptor_128(b + step * 32),
                                 start > 0 || step > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (start > 0) release(shared, before);
    before = ring.stage;
    ring.advance();
  }
  // Nobody waits for the release of the last stages.
  ptx::wgmma_wait<0>();

  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int row = warp * 16 + lane % 16;
#pragma unroll
  for (int pair = 0; pair < 8; ++pair) {
    uint32_t packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(d[pair * 8 + i * 2], d[pair * 8 + i * 2 + 1]);
      packed[i] = *reinterpret_cast<const uint32_t*>(&two);
    }
    const int chunk = (pair % 4) * 2 + lane / 16;
    const uint32_t at = ptx::shared_address(shared.d[group][pair / 4]) + row * 128 + ((chunk ^ (row & 7)) << 4);
    ptx::store_matrix_4(at, packed[0], packed[1], packed[2], packed[3]);
  }
  ptx::fence_proxy_async();
  ptx::named_barrier(1 + group, 128);
  if (threadIdx.x % 128 == 0) {
    for (int half = 0; half < 2; ++half) {
      ptx::tensor_store_2d(&d_map, ptx::shared_address(shared.d[group][half]), blockIdx.y * kTile + half * 64,
                           blockIdx.x * kTile + group * 64);
    }
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
  }
}

}  // namespace

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
    gemm_pipeline(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                  const __grid_constant__ TensorMap d_map, int k) {
  extern __shared__ __align__(1024) uint8_t room[];
  Shared& shared = *reinterpret_cast<Shared*>(room);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(ptx::shared_address(&shared.full[stage]), 1);
      ptx::mbarrier_init(ptx::shared_address(&shared.empty[stage]), 16);
    }
    ptx::fence_mbarrier_init();
  }
  // No block may copy into another, or arrive there, before that one's barriers exist.
  ptx::cluster_barrier();
  if (threadIdx.x / 128 == 0) {
    ptx::registers_decrease<40>();
    if (threadIdx.x == 0) load(shared, a_map, b_map, k);
  } else {
    ptx::registers_increase<232>();
    multiply(shared, d_map, k, threadIdx.x / 128 - 1);
  }
  // Nor may it leave while the other still copies to it or arrives at its barriers.
  ptx::cluster_barrier();
}
