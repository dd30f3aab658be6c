// Matrix product by bulk tensor copies and wgmma: all dense projections whose operands start and step by 16 bytes.
//
//   c_mn = alpha sum_k a_mk b_nk (+ c_mn)        NT: a [m, k], b [n, k]   NN: a [m, k], b [k, n]   TN: a [k, m], b [k, n]
//
// | buffer | shape  | dtype        | written                   |   rounding: products and sums f32, one rounding at c
// |--------|--------|--------------|---------------------------|
// | a, b   | above  | bf16         | read                      |   order: k in ascending steps of 16, one accumulator
// | c      | [m, n] | bf16 or f32  | overwritten or added to   |   per element, so that bits depend on operands alone
//
// Launch: 384 threads; any grid of whole clusters of 1 or 2 blocks, one block per multiprocessor. m, n, k >= 1 below 2^31, fewer
// than 2^31 tiles; raster at most the rows of tiles.
//
// A cluster takes every (number of clusters)-th tile of (128 times its blocks) x N. Warp group 0 loads: a ring of stages of
// 64 k, its block's rows of a, and its share of the columns of b for all blocks of the cluster. Warp groups 1 and 2
// multiply 64 rows each, keeping one group of wgmma in flight, and write c through a little shared memory, 32 columns at a
// time, while the loads of the next tile run ahead. Copies fill with zeros what lies beyond an operand's edge.
#include "lightning/kernel.cuh"
#include "lightning/pack.cuh"
#include "lightning/params/gemm.h"
#include "lightning/reduce.cuh"
#include "lightning/wgmma.cuh"

namespace lightning {
namespace {

enum class Form { NT, NN, TN };

constexpr int kRows = 128, kDepth = 64;         // of a stage of a
constexpr int kLine = 64;                       // bf16 of a swizzled line of 128 bytes
constexpr int kLineBlock = kDepth * kLine * 2;  // bytes of 64 k of an operand that is contiguous along m or n
constexpr int kABytes = kRows * kDepth * 2;
constexpr int kGroupThreads = 128, kConsumerWarps = 8;
constexpr int kOutRows = 16, kOutCols = 32;     // what a warp writes at a time

template <int N, int Stages>
struct Shared {
  static constexpr int kBBytes = N * kDepth * 2;
  uint8_t a[Stages][kABytes];
  uint8_t b[Stages][kBBytes];
  float out[kConsumerWarps][kOutRows * kOutCols];
  uint64_t full[Stages];   // 1 arrival, and the bytes of both operands
  uint64_t empty[Stages];  // 1 arrival of every consumer warp of the cluster
};

// Position in the ring of stages.
template <int Stages>
struct Ring {
  int stage = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

// The tiles of a cluster, in units of tiles of c: bands of `raster` rows of tiles, column by column, so that clusters that
// run at the same time share operands in L2.
struct Tiles {
  uint32_t rows, cols, band, next, step;

  __device__ __forceinline__ Tiles(const GemmTmaParams& p, int n_tile, int blocks)
      : rows((p.m - 1) / (kRows * blocks) + 1),
        cols((p.n - 1) / n_tile + 1),
        band(p.raster),
        next(blockIdx.x / blocks),
        step(gridDim.x / blocks) {}

  __device__ __forceinline__ bool take(int& row, int& col) {
    if (next >= rows * cols) return false;
    const uint32_t of_band = band * cols;
    const uint32_t first = next / of_band * band, within = next % of_band, height = min(band, rows - first);
    row = first + within % height;
    col = within / height;
    next += step;
    return true;
  }
};

// Fills the ring for all tiles; one thread.
template <Form F, int N, int Stages>
__device__ __forceinline__ void produce(Shared<N, Stages>& shared, const GemmTmaParams& p, int rank, int blocks) {
  const uint16_t everyone = static_cast<uint16_t>((1 << blocks) - 1);
  auto copy = [&](uint32_t to, const LightningTensorMap& map, uint32_t full, int x, int y, bool multicast) {
    if (multicast && blocks > 1) {
      ptx::tensor_load_2d_multicast(to, &map, full, x, y, everyone);
    } else {
      ptx::tensor_load_2d(to, &map, full, x, y);
    }
  };
  Tiles tiles(p, N, blocks);
  Ring<Stages> ring;
  int tile_row, tile_col;
  while (tiles.take(tile_row, tile_col)) {
    const int row = (tile_row * blocks + rank) * kRows, col = tile_col * N;
#pragma unroll 1
    for (int k = 0; k < p.k; k += kDepth) {
      ptx::mbarrier_wait_block(ptx::shared_address(&shared.empty[ring.stage]), ring.parity ^ 1);
      const uint32_t full = ptx::shared_address(&shared.full[ring.stage]);
      ptx::mbarrier_arrive_expect(full, kABytes + shared.kBBytes);
      const uint32_t a = ptx::shared_address(shared.a[ring.stage]), b = ptx::shared_address(shared.b[ring.stage]);
      if constexpr (F == Form::TN) {
#pragma unroll
        for (int i = 0; i < kRows / kLine; ++i) copy(a + i * kLineBlock, p.a, full, row + i * kLine, k, false);
      } else {
        copy(a, p.a, full, k, row, false);
      }
      // A share of b is N / blocks of its columns, or 64 / blocks of k of every 64 columns.
      if constexpr (F == Form::NT) {
        const int share = N / blocks;
        copy(b + rank * share * (kDepth * 2), p.b, full, k, col + rank * share, true);
      } else {
        const int share = kDepth / blocks;
#pragma unroll
        for (int i = 0; i < N / kLine; ++i) {
          copy(b + i * kLineBlock + rank * share * (kLine * 2), p.b, full, col + i * kLine, k + rank * share, true);
        }
      }
      ring.advance();
    }
  }
}

// Sixteen bytes' place of four columns in a warp's output rows: neither the writes of fragments nor the reads of rows meet
// in a bank.
__device__ __forceinline__ float* out_place(float* out, int row, int four) {
  return out + row * kOutCols + (four ^ ((row & 3) * 2 + (row & 1))) * 4;
}

// Sixteen rows and 32 columns of sums, from (row, col) of c on, by a warp.
template <class C>
__device__ __forceinline__ void put_rows(const GemmTmaParams& p, float* out, int row, int col, bool wide) {
  constexpr int kPack = kWide<C>, kAcross = kOutCols / kPack, kDown = kWarpSize / kAcross;
  const int lane = threadIdx.x % kWarpSize;
  const int column = lane % kAcross * kPack, left = p.n - col - column;
  C* const first = static_cast<C*>(p.c) + (row + lane / kAcross) * p.c_stride + col + column;
#pragma unroll
  for (int i = 0; i < kOutRows; i += kDown) {
    const int r = i + lane / kAcross;
    if (row + r >= p.m) continue;
    C* const to = first + i * p.c_stride;
    if (wide && left >= kPack) {
      const Pack<C, kPack> before = p.accumulate ? load<C, kPack>(to) : Pack<C, kPack>{};
      float v[kPack];
#pragma unroll
      for (int j = 0; j < kPack; j += 4) {
        const float4 four = *reinterpret_cast<const float4*>(out_place(out, r, (column + j) / 4));
        v[j] = fmaf(p.alpha, four.x, before[j]);
        v[j + 1] = fmaf(p.alpha, four.y, before[j + 1]);
        v[j + 2] = fmaf(p.alpha, four.z, before[j + 2]);
        v[j + 3] = fmaf(p.alpha, four.w, before[j + 3]);
      }
      store<C, kPack>(to, Pack<C, kPack>::rounded(v));
    } else {
#pragma unroll 1
      for (int j = 0; j < min(kPack, left); ++j) {
        const float sum = out_place(out, r, (column + j) / 4)[(column + j) % 4];
        to[j] = round_to<C>(fmaf(p.alpha, sum, p.accumulate ? to_f32(to[j]) : 0.0f));
      }
    }
  }
}

template <int N>
__device__ __forceinline__ void write(const GemmTmaParams& p, const float (&d)[N / 2], float* out, int row, int col) {
  const int lane = threadIdx.x % kWarpSize;
  const bool wide = aligned_16(p.c) && (p.c_f32 ? aligned_16<float>(p.c_stride) : aligned_16<bf16>(p.c_stride));
#pragma unroll
  for (int part = 0; part < N / kOutCols; ++part) {
    if (col + part * kOutCols < p.n) {
      // Other lanes may still read what was there.
      __syncwarp();
#pragma unroll
      for (int j = 0; j < kOutCols / 8; ++j) {
        const int i = (part * (kOutCols / 8) + j) * 4, four = j * 2 + lane % 4 / 2;
        const int within = lane % 2 * 2;
        ptx::store_shared_2(ptx::shared_address(out_place(out, lane / 4, four) + within), d[i], d[i + 1]);
        ptx::store_shared_2(ptx::shared_address(out_place(out, lane / 4 + 8, four) + within), d[i + 2], d[i + 3]);
      }
      __syncwarp();
      if (p.c_f32) {
        put_rows<float>(p, out, row, col + part * kOutCols, wide);
      } else {
        put_rows<bf16>(p, out, row, col + part * kOutCols, wide);
      }
    }
  }
}

// Multiplies what the ring brings, 64 rows of each tile; one warp group.
template <Form F, int N, int Stages>
__device__ __forceinline__ void consume(Shared<N, Stages>& shared, const GemmTmaParams& p, int rank, int blocks) {
  using wgmma::Major;
  constexpr Major kA = F == Form::TN ? Major::MN : Major::K, kB = F == Form::NT ? Major::K : Major::MN;
  // 64 rows are 64 lines of a K-major a, one block of an MN-major one: 8192 bytes either way.
  static_assert(kABytes / 2 == kLineBlock, "the halves of a");
  // By a shuffle, so that the compiler knows that a warp has one value, as descriptors must.
  const int group = __shfl_sync(kAllLanes, threadIdx.x / kGroupThreads - 1, 0);
  const int warp = threadIdx.x % kGroupThreads / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  float* const out = shared.out[group * (kConsumerWarps / 2) + warp];
  // Tells the loading threads of the cluster that this warp has read a stage.
  auto release = [&](int stage) {
    if (lane < blocks) ptx::mbarrier_arrive_read_at(ptx::shared_address(&shared.empty[stage]), lane);
  };

  Tiles tiles(p, N, blocks);
  Ring<Stages> ring;
  int tile_row, tile_col;
  while (tiles.take(tile_row, tile_col)) {
    float d[N / 2];
    int before = 0;
#pragma unroll 1
    for (int k = 0; k < p.k; k += kDepth) {
      ptx::mbarrier_wait_block(ptx::shared_address(&shared.full[ring.stage]), ring.parity);
      const uint32_t a = ptx::shared_address(shared.a[ring.stage]) + group * kLineBlock;
      const uint32_t b = ptx::shared_address(shared.b[ring.stage]);
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kDepth / 16; ++step) {
        wgmma::multiply<kA, kB>(d, wgmma::descriptor<kA>(a + step * wgmma::kStep<kA>),
                                wgmma::descriptor<kB>(b + step * wgmma::kStep<kB>), k > 0 || step > 0);
      }
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      if (k > 0) release(before);
      before = ring.stage;
      ring.advance();
    }
    ptx::wgmma_wait<0>();
    release(before);
    const int row = (tile_row * blocks + rank) * kRows + group * (kRows / 2) + warp * kOutRows;
    write<N>(p, d, out, row, tile_col * N);
  }
}

template <Form F, int N, int Stages, int Bytes>
__device__ __forceinline__ void gemm(const GemmTmaParams& p) {
  extern __shared__ __align__(1024) uint8_t room[];
  static_assert(sizeof(Shared<N, Stages>) == Bytes, "the dynamic shared memory that is asked for");
  Shared<N, Stages>& shared = *reinterpret_cast<Shared<N, Stages>*>(room);
  const int rank = static_cast<int>(ptx::cluster_rank()), blocks = static_cast<int>(ptx::cluster_blocks());
  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&p.a);
    ptx::prefetch_tensor_map(&p.b);
    for (int stage = 0; stage < Stages; ++stage) {
      ptx::mbarrier_init(ptx::shared_address(&shared.full[stage]), 1);
      ptx::mbarrier_init(ptx::shared_address(&shared.empty[stage]), kConsumerWarps * blocks);
    }
    ptx::fence_mbarrier_init();
  }
  // No block may copy into another, or arrive there, before that one's barriers exist.
  ptx::cluster_barrier();
  if (threadIdx.x < kGroupThreads) {
    ptx::registers_decrease<40>();
    if (threadIdx.x == 0) produce<F>(shared, p, rank, blocks);
    __syncwarp();
  } else {
    ptx::registers_increase<232>();
    consume<F>(shared, p, rank, blocks);
  }
  // Nor may it leave while the other still copies to it or arrives at its barriers.
  ptx::cluster_barrier();
}

}  // namespace
}  // namespace lightning

using lightning::Form;
using lightning::gemm;

LIGHTNING_KERNEL(gemm_nt_128, GemmTmaParams, any, 384, 1, 213088) { gemm<Form::NT, 128, 6, 213088>(p); }
LIGHTNING_KERNEL(gemm_nn_128, GemmTmaParams, any, 384, 1, 213088) { gemm<Form::NN, 128, 6, 213088>(p); }
LIGHTNING_KERNEL(gemm_tn_128, GemmTmaParams, any, 384, 1, 213088) { gemm<Form::TN, 128, 6, 213088>(p); }
LIGHTNING_KERNEL(gemm_nt_192, GemmTmaParams, any, 384, 1, 221264) { gemm<Form::NT, 192, 5, 221264>(p); }
LIGHTNING_KERNEL(gemm_nn_192, GemmTmaParams, any, 384, 1, 221264) { gemm<Form::NN, 192, 5, 221264>(p); }
LIGHTNING_KERNEL(gemm_tn_192, GemmTmaParams, any, 384, 1, 221264) { gemm<Form::TN, 192, 5, 221264>(p); }
LIGHTNING_KERNEL(gemm_nt_256, GemmTmaParams, any, 384, 1, 213056) { gemm<Form::NT, 256, 4, 213056>(p); }
LIGHTNING_KERNEL(gemm_nn_256, GemmTmaParams, any, 384, 1, 213056) { gemm<Form::NN, 256, 4, 213056>(p); }
LIGHTNING_KERNEL(gemm_tn_256, GemmTmaParams, any, 384, 1, 213056) { gemm<Form::TN, 256, 4, 213056>(p); }
