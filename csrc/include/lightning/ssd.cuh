// What the kernels of the scan share: where a chunk lies, tiles of 64 x 64, and their products on four warps.
//
// Tokens of a chunk go in tiles of 64, as do head channels and states; what lies outside of a tensor reads as zero. A
// block has 128 threads. Of a product of 64 x 64 a warp holds 16 whole rows, so that a product can be the left operand
// of the next without leaving its registers.
//
// Within a chunk, a piece is what lies between document starts. l counts from the start of the piece; pairs of tokens
// of one piece, and only those, have j <= i and j >= start_i. Exponents are taken of masked differences of l, all <= 0.
#pragma once

#include "lightning/mma.cuh"
#include "lightning/params/mamba.h"
#include "lightning/reduce.cuh"

namespace lightning::ssd {

constexpr int kTile = 64;
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;

using Tile = mma::SharedTile<kTile, kTile>;

// Tokens of one chunk of one row.
struct Chunk {
  int64_t row;    // which row
  int index;      // which chunk of the row
  int64_t first;  // first token
  int length;     // tokens

  __device__ __forceinline__ Chunk(const SsdScanFwdParams& p, int64_t chunk) {
    const int chunks = chunks_per_row(p);
    row = chunk / chunks;
    index = static_cast<int>(chunk % chunks);
    first = row * p.row_len + static_cast<int64_t>(index) * p.chunk;
    length = min(p.chunk, p.row_len - index * p.chunk);
  }

  static __device__ __forceinline__ int chunks_per_row(const SsdScanFwdParams& p) {
    return (p.row_len - 1) / p.chunk + 1;
  }
  __device__ __forceinline__ int64_t last() const { return first + length - 1; }
  __device__ __forceinline__ int tiles() const { return (length + kTile - 1) / kTile; }
};

__device__ __forceinline__ int64_t state_elements(const SsdScanFwdParams& p) {
  return static_cast<int64_t>(p.heads) * p.head_dim * p.state;
}

// The columns of one head (of x, y and their gradients) or group (of B, C) in the tokens of a chunk.
__device__ __forceinline__ mma::Operand columns(const void* data, int64_t stride, const Chunk& chunk, int64_t first,
                                                int count) {
  return mma::Operand(static_cast<const bf16*>(data) + chunk.first * stride + first, stride, chunk.length, count);
}

// Decay of what a chunk starts with until after its last token; 0 when a document starts on the way.
__device__ __forceinline__ float chunk_decay(const SsdScanFwdParams& p, const Chunk& chunk, int head) {
  const int64_t last = chunk.last();
  return p.start[last] <= chunk.first ? expf(p.log_decay[last * p.heads + head]) : 0.0f;
}

// Whether what comes before a chunk ends there.
__device__ __forceinline__ bool starts_fresh(const SsdScanFwdParams& p, const Chunk& chunk) {
  return p.start[chunk.first] == chunk.first;
}

// ---------------------------------------------------------------------------------------------------------------------
// Tiles. All threads call these; barriers before and after are the caller's.
// ---------------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void stage(Tile& to, const mma::Operand& from, int row, int col) {
#pragma unroll 1
  for (int pack = threadIdx.x; pack < kTile * kTile / 8; pack += kThreads) {
    const int r = pack / 8, c = pack % 8 * 8;
    *reinterpret_cast<uint4*>(to.at(r, c)) = from.eight(row + r, col + c);
  }
}

// Rows times scale(row of the tile), rounded.
template <class Scale>
__device__ __forceinline__ void stage_scaled(Tile& to, const mma::Operand& from, int row, int col, Scale scale) {
#pragma unroll
  for (int i = 0; i < kTile * kTile / 8 / kThreads; ++i) {
    const int pack = i * kThreads + threadIdx.x, r = pack / 8, c = pack % 8 * 8;
    const uint4 words = from.eight(row + r, col + c);
    const Pack<bf16, 8>& v = *reinterpret_cast<const Pack<bf16, 8>*>(&words);
    const float factor = scale(r);
    float out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) out[j] = v[j] * factor;
    store<bf16, 8>(to.at(r, c), Pack<bf16, 8>::rounded(out));
  }
}

// A piece of a row-major f32 matrix, rounded.
__device__ __forceinline__ void stage_f32(Tile& to, const float* from, int rows, int cols, int row, int col) {
#pragma unroll 4
  for (int i = 0; i < kTile * kTile / 2 / kThreads; ++i) {
    const int pair = i * kThreads + threadIdx.x, r = pair / (kTile / 2), c = pair % (kTile / 2) * 2;
    float first = 0.0f, second = 0.0f;
    if (row + r < rows) {
      const float* const at = from + static_cast<int64_t>(row + r) * cols + col + c;
      if (col + c < cols) first = at[0];
      if (col + c + 1 < cols) second = at[1];
    }
    *reinterpret_cast<uint32_t*>(to.at(r, c)) = mma::two_bf16(first, second);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Products
// ---------------------------------------------------------------------------------------------------------------------

// Sums rounded to bf16, as the left operand of a further product.
struct RoundedSums {
  mma::Fragment pieces[4];

  // Element (i, e) of the sums.
  __device__ __forceinline__ float get(int i, int e) const {
    const uint32_t word = pieces[i / 2].words[i % 2 * 2 + e / 2];
    return __uint_as_float(e % 2 == 0 ? word << 16 : word & 0xffff0000u);
  }
};

// 16 rows x 64 columns of a warp. Element (i, e) of a lane is in row_of(e / 2), column col_of(i) + e % 2.
struct Sums {
  float v[8][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) v[i][e] = 0.0f;
  }

  static __device__ __forceinline__ int row_of(int half) {
    return threadIdx.x / kWarpSize * 16 + half * 8 + threadIdx.x % kWarpSize / 4;
  }
  static __device__ __forceinline__ int col_of(int i) { return i * 8 + threadIdx.x % 4 * 2; }

  // Calls f(row, column, element) for every element that the lane holds.
  template <class Visit>
  __device__ __forceinline__ void for_each(Visit f) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) f(half, col_of(i) + e, v[i][2 * half + e]);
      }
    }
  }

  // += a b^T with a [rows, k], b [columns, k].
  __device__ __forceinline__ void add_nt(const Tile& a, const Tile& b) {
#pragma unroll 1
    for (int k = 0; k < kTile; k += 16) {
      const mma::Fragment left = mma::left(a, threadIdx.x / kWarpSize * 16, k);
#pragma unroll
      for (int i = 0; i < 4; ++i) mma::multiply(v[2 * i], v[2 * i + 1], left, mma::right(b, k, i * 16));
    }
  }

  // += a b with a [rows, k], b [k, columns].
  __device__ __forceinline__ void add_nn(const Tile& a, const Tile& b) {
#pragma unroll
    for (int k = 0; k < kTile; k += 16) {
      const mma::Fragment left = mma::left(a, threadIdx.x / kWarpSize * 16, k);
#pragma unroll
      for (int i = 0; i < 4; ++i) mma::multiply(v[2 * i], v[2 * i + 1], left, mma::right_from_k_rows(b, k, i * 16));
    }
  }

  // += a^T b with a [k, rows], b [k, columns].
  __device__ __forceinline__ void add_tn(const Tile& a, const Tile& b) {
#pragma unroll
    for (int k = 0; k < kTile; k += 16) {
      const mma::Fragment left = mma::left_from_k_rows(a, threadIdx.x / kWarpSize * 16, k);
#pragma unroll
      for (int i = 0; i < 4; ++i) mma::multiply(v[2 * i], v[2 * i + 1], left, mma::right_from_k_rows(b, k, i * 16));
    }
  }

  // += a b with a [rows, k] from registers, b [k, columns].
  __device__ __forceinline__ void add_nn(const RoundedSums& a, const Tile& b) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        mma::multiply(v[2 * i], v[2 * i + 1], a.pieces[k], mma::right_from_k_rows(b, k * 16, i * 16));
      }
    }
  }

  __device__ __forceinline__ RoundedSums rounded() const {
    RoundedSums out;
#pragma unroll
    for (int k = 0; k < 4; ++k) out.pieces[k] = mma::as_left(v[2 * k], v[2 * k + 1]);
    return out;
  }
};

// What a lane needs to know of its two rows of a tile of tokens i: l, and with which earlier tokens they pair.
struct RowDecay {
  float l[2];
  int first[2];  // first token of the piece, in the chunk; below 0: the document started before the chunk
  int row[2];    // the rows, in the chunk

  __device__ __forceinline__ RowDecay(const SsdScanFwdParams& p, const Chunk& chunk, int head, int tile_row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row[half] = tile_row + Sums::row_of(half);
      const bool inside = row[half] < chunk.length;
      const int64_t t = chunk.first + row[half];
      l[half] = inside ? p.log_decay[t * p.heads + head] : 0.0f;
      // Rows beyond the chunk pair with nothing.
      first[half] =
          inside ? static_cast<int>(max(p.start[t] - chunk.first, static_cast<int64_t>(-1))) : row[half] + 1;
    }
  }

  // Whether token j of the chunk acts on the row.
  __device__ __forceinline__ bool pairs_with(int half, int j) const { return j <= row[half] && j >= first[half]; }

  // Decay from the start of the chunk to after the row; 0 when a document starts on the way.
  __device__ __forceinline__ float since_chunk_start(int half) const {
    return first[half] <= 0 ? expf(l[half]) : 0.0f;
  }
};

// The numbers of the 64 tokens of a tile for one head; zeros beyond the chunk.
struct TileDecay {
  float l[kTile], delta[kTile];
  int first[kTile];  // as in RowDecay

  // All threads call it.
  __device__ __forceinline__ void load(const SsdScanFwdParams& p, const Chunk& chunk, int head, int tile_row) {
    if (threadIdx.x >= kTile) return;
    const int row = tile_row + static_cast<int>(threadIdx.x);
    const bool inside = row < chunk.length;
    const int64_t t = chunk.first + row;
    l[threadIdx.x] = inside ? p.log_decay[t * p.heads + head] : 0.0f;
    delta[threadIdx.x] = inside ? p.delta[t * p.delta_stride + head] : 0.0f;
    first[threadIdx.x] =
        inside ? static_cast<int>(max(p.start[t] - chunk.first, static_cast<int64_t>(-1))) : row + 1;
  }
};

// sums += a b^T over all of k, for 64 rows of a from `row` on and 64 of b from `col` on. Leaves the tiles in use.
__device__ __forceinline__ void add_product(Sums& sums, Tile& tile_a, Tile& tile_b, const mma::Operand& a, int row,
                                            const mma::Operand& b, int col) {
#pragma unroll 1
  for (int k = 0; k < a.cols; k += kTile) {
    __syncthreads();
    stage(tile_a, a, row, k);
    stage(tile_b, b, col, k);
    __syncthreads();
    sums.add_nt(tile_a, tile_b);
  }
}

// The same for an f32 matrix of `rows` rows as the second operand, rounded.
__device__ __forceinline__ void add_product(Sums& sums, Tile& tile_a, Tile& tile_b, const mma::Operand& a, int row,
                                            const float* b, int rows, int col) {
#pragma unroll 1
  for (int k = 0; k < a.cols; k += kTile) {
    __syncthreads();
    stage(tile_a, a, row, k);
    stage_f32(tile_b, b, rows, a.cols, col, k);
    __syncthreads();
    sums.add_nt(tile_a, tile_b);
  }
}

}  // namespace lightning::ssd
