// What the attention kernels share: tiles of heads in shared memory, scores, and products with them.
//
// A block of 128 threads owns 64 rows (queries, or keys in the gradient of keys and values), 16 per warp, and walks over
// columns (keys, or queries) in pieces of 32. Heads of up to 128 channels; products go over 16 channels at a time.
#pragma once

#include "lightning/mma.cuh"

namespace lightning::attention {

constexpr int kThreads = 128;
constexpr int kRows = 64, kColumns = 32;
constexpr int kMaxDim = 128, kMaxChunks = kMaxDim / 16;
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

// Two pieces of columns fit where one of rows does: the left operands, then the right ones below each other.
using Tile = mma::SharedTile<kRows, kMaxDim>;

// 16 rows of a warp x 32 columns, and 16 rows x the channels of a head.
using Scores = float[4][4];
using Channels = float[2 * kMaxChunks][4];

// A head's channels of a matrix with one row per token.
__device__ __forceinline__ mma::Operand head_of(const void* matrix, int64_t stride, int t, int head, int head_dim) {
  return mma::Operand(static_cast<const bf16*>(matrix) + static_cast<int64_t>(head) * head_dim, stride, t, head_dim);
}

// Tokens [token, token + Count) into rows [at, at + Count) of a tile, with zeros up to whole chunks.
template <int Count>
__device__ __forceinline__ void load_rows(Tile& tile, int at, const mma::Operand& from, int token, int chunks) {
  constexpr int kPacks = kMaxDim / 8, kStep = kThreads / kPacks;
  static_assert(Count % (4 * kStep) == 0, "whole rounds of the unrolled loop");
  const int pack = threadIdx.x % kPacks;
  if (pack >= 2 * chunks) return;
#pragma unroll 4
  for (int i = 0; i < Count; i += kStep) {
    const int row = i + threadIdx.x / kPacks;
    *reinterpret_cast<uint4*>(tile.at(at + row, pack * 8)) = from.eight(token + row, pack * 8);
  }
}

// scores += rows [row, row + 16) of `rows` times rows [at, at + 32) of `columns`, over the channels.
__device__ __forceinline__ void add_scores(Scores& scores, const Tile& rows, int row, const Tile& columns, int at,
                                           int chunks) {
#pragma unroll
  for (int c = 0; c < kMaxChunks; ++c) {
    if (c < chunks) {
      const mma::Fragment a = mma::left(rows, row, 16 * c);
      mma::multiply(scores[0], scores[1], a, mma::right(columns, 16 * c, at));
      mma::multiply(scores[2], scores[3], a, mma::right(columns, 16 * c, at + 16));
    }
  }
}

// sums += scores, rounded, times rows [at, at + 32) of `columns`.
__device__ __forceinline__ void add_channels(Channels& sums, const Scores& scores, const Tile& columns, int at,
                                             int chunks) {
  const mma::Fragment a[2] = {mma::as_left(scores[0], scores[1]), mma::as_left(scores[2], scores[3])};
#pragma unroll
  for (int c = 0; c < kMaxChunks; ++c) {
    if (c < chunks) {
      mma::multiply(sums[2 * c], sums[2 * c + 1], a[0], mma::right_from_k_rows(columns, at, 16 * c));
      mma::multiply(sums[2 * c], sums[2 * c + 1], a[1], mma::right_from_k_rows(columns, at + 16, 16 * c));
    }
  }
}

// The warp's 16 rows from token `token` on, times `factor` for the upper and lower eight, to a head's channels.
__device__ __forceinline__ void store_channels(const Channels& sums, const mma::Result<bf16>& to, int token,
                                               const float (&factor)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int n = 0; n < 2 * kMaxChunks; ++n) {
      to.put(token + 8 * half + lane / 4, 8 * n + lane % 4 * 2, sums[n][2 * half] * factor[half],
             sums[n][2 * half + 1] * factor[half]);
    }
  }
}

// As head_of, to write.
__device__ __forceinline__ mma::Result<bf16> result_of(void* matrix, int64_t stride, int t, int head, int head_dim) {
  return mma::Result<bf16>(static_cast<bf16*>(matrix) + static_cast<int64_t>(head) * head_dim, stride, t, head_dim);
}

}  // namespace lightning::attention
