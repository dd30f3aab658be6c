// Products of bf16 matrices on tensor cores (mma.sync m16n8k16, sums in f32), piece by piece.
//
//   Operand       a matrix in global memory of any shape, row distance and alignment, read as if zeros lay beyond it
//   SharedTile    a piece of it in shared memory; TileLoad brings it there through registers
//   Fragment      what a lane holds of a 16 x 16 piece of an operand, for one instruction
//   TileProduct   64 x 64 elements of a product of any m, n, k, by a block of 128 threads
//
// Sums go over k in ascending steps of 16, in one accumulator per element: their bits depend on the operands alone.
#pragma once

#include "lightning/pack.cuh"

namespace lightning::mma {

// A row-major matrix in global memory.
struct Operand {
  const bf16* data;
  int64_t stride;  // elements from one row to the next
  int rows, cols;
  bool wide;  // rows start at multiples of 16 bytes

  __device__ __forceinline__ Operand(const void* first, int64_t stride_, int rows_, int cols_)
      : data(static_cast<const bf16*>(first)),
        stride(stride_),
        rows(rows_),
        cols(cols_),
        wide(aligned_16(first) && aligned_16<bf16>(stride_)) {}

  // Rows [first, first + count).
  __device__ __forceinline__ Operand row_range(int64_t first, int count) const {
    return Operand(data + first * stride, stride, count, cols);
  }

  // Eight neighbours from (row, col) on; zeros outside of the matrix.
  __device__ __forceinline__ uint4 eight(int row, int col) const {
    uint4 v = make_uint4(0, 0, 0, 0);
    if (row >= rows || col >= cols) return v;
    const bf16* const from = data + row * stride + col;
    if (wide && col + 8 <= cols) return *reinterpret_cast<const uint4*>(from);
    auto two = [&](int i) {
      const uint32_t low = col + i < cols ? __bfloat16_as_ushort(from[i]) : 0;
      const uint32_t high = col + i + 1 < cols ? __bfloat16_as_ushort(from[i + 1]) : 0;
      return low | high << 16;
    };
    v.x = two(0), v.y = two(2), v.z = two(4), v.w = two(6);
    return v;
  }
};

// A tile in shared memory. Rows are 16 bytes longer than their contents, so that the eight rows of a matrix that
// ldmatrix reads lie in different banks.
template <int Rows, int Cols>
struct SharedTile {
  static constexpr int kPitch = Cols + 8;
  alignas(16) bf16 v[Rows * kPitch];

  __device__ __forceinline__ bf16* at(int row, int col) { return v + row * kPitch + col; }
  __device__ __forceinline__ uint32_t address(int row, int col) const {
    return ptx::shared_address(v + row * kPitch + col);
  }
};

// The part of a tile that a thread moves. `fetch` only reads global memory, so that it can run while others compute;
// between the last use of the shared tile and `put`, and again before its next use, lies a barrier.
template <int Rows, int Cols, int Threads>
struct TileLoad {
  static constexpr int kPacks = (Rows * Cols / 8 + Threads - 1) / Threads;
  uint4 held[kPacks];

  __device__ __forceinline__ void fetch(const Operand& from, int row, int col) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = i * Threads + threadIdx.x;
      if (pack < Rows * Cols / 8) held[i] = from.eight(row + pack / (Cols / 8), col + pack % (Cols / 8) * 8);
    }
  }

  __device__ __forceinline__ void put(SharedTile<Rows, Cols>& to) const {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = i * Threads + threadIdx.x;
      if (pack < Rows * Cols / 8) *reinterpret_cast<uint4*>(to.at(pack / (Cols / 8), pack % (Cols / 8) * 8)) = held[i];
    }
  }
};

// 16 rows x 16 k of a left operand, or 16 k x 16 columns of a right one (words 0, 1: columns 0 to 7; 2, 3: the others).
struct Fragment {
  uint32_t words[4];
};

// From a tile that holds the left operand as it is (rows x k), or a right one as k x columns, transposed on the way.
template <bool Transpose, class Tile>
__device__ __forceinline__ Fragment fragment_row_first(const Tile& tile, int row, int col) {
  const int lane = threadIdx.x % 32;
  Fragment f;
  const uint32_t from = tile.address(row + lane % 16, col + lane / 16 * 8);
  if constexpr (Transpose) {
    ptx::load_matrix_4_transposed(f.words, from);
  } else {
    ptx::load_matrix_4(f.words, from);
  }
  return f;
}

// From a tile that holds a right operand as columns x k, or a left one as k x rows, transposed on the way.
template <bool Transpose, class Tile>
__device__ __forceinline__ Fragment fragment_col_first(const Tile& tile, int row, int col) {
  const int lane = threadIdx.x % 32;
  Fragment f;
  const uint32_t from = tile.address(row + lane % 8 + lane / 16 * 8, col + lane / 8 % 2 * 8);
  if constexpr (Transpose) {
    ptx::load_matrix_4_transposed(f.words, from);
  } else {
    ptx::load_matrix_4(f.words, from);
  }
  return f;
}

// Left operand, rows [row, row + 16), k [k, k + 16), from a tile [rows][k].
template <class Tile>
__device__ __forceinline__ Fragment left(const Tile& tile, int row, int k) {
  return fragment_row_first<false>(tile, row, k);
}
// The same from a tile [k][rows].
template <class Tile>
__device__ __forceinline__ Fragment left_from_k_rows(const Tile& tile, int row, int k) {
  return fragment_col_first<true>(tile, k, row);
}
// Right operand, k [k, k + 16), columns [col, col + 16), from a tile [columns][k].
template <class Tile>
__device__ __forceinline__ Fragment right(const Tile& tile, int k, int col) {
  return fragment_col_first<false>(tile, col, k);
}
// The same from a tile [k][columns].
template <class Tile>
__device__ __forceinline__ Fragment right_from_k_rows(const Tile& tile, int k, int col) {
  return fragment_row_first<true>(tile, k, col);
}

// sums += a b: 16 rows x 16 columns as two 16 x 8 pieces. Lane: sums[half][0], [1] are columns 8 half + 2 (lane % 4) and
// the next of row lane / 4; [2], [3] those of row lane / 4 + 8.
__device__ __forceinline__ void multiply(float (&low)[4], float (&high)[4], const Fragment& a, const Fragment& b) {
  ptx::mma_m16n8k16_bf16(low, a.words, b.words[0], b.words[1]);
  ptx::mma_m16n8k16_bf16(high, a.words, b.words[2], b.words[3]);
}

// Two f32 as neighbouring bf16 in a word, the first in the low half.
__device__ __forceinline__ uint32_t two_bf16(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// 16 x 16 sums, rounded, as the left operand of a further product (its k are the columns of the sums).
__device__ __forceinline__ Fragment as_left(const float (&low)[4], const float (&high)[4]) {
  return {{two_bf16(low[0], low[1]), two_bf16(low[2], low[3]), two_bf16(high[0], high[1]), two_bf16(high[2], high[3])}};
}

// How the operands lie in memory: a [m, k] b [n, k];  a [m, k] b [k, n];  a [k, m] b [k, n].
enum class Form { NT, NN, TN };

// 64 x 64 elements of a b by 128 threads: four warps with 32 x 32 each.
template <Form F>
struct TileProduct {
  static constexpr int kRows = 64, kCols = 64, kDepth = 32, kThreads = 128;
  static constexpr bool kLeftByK = F == Form::TN, kRightByK = F != Form::NT;

  struct Shared {
    SharedTile<kLeftByK ? kDepth : kRows, kLeftByK ? kRows : kDepth> a;
    SharedTile<kRightByK ? kDepth : kCols, kRightByK ? kCols : kDepth> b;
  };

  float sums[2][4][4];  // 16-row pieces, 8-column pieces

  // Elements (row, col) to (row + 63, col + 63), summed over all of `depth`. All threads call it. The shared tiles are
  // free again after the next barrier.
  __device__ __forceinline__ void run(Shared& shared, const Operand& a, const Operand& b, int row, int col, int depth) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int l = 0; l < 4; ++l) sums[i][j][l] = 0.0f;

    TileLoad<kLeftByK ? kDepth : kRows, kLeftByK ? kRows : kDepth, kThreads> next_a;
    TileLoad<kRightByK ? kDepth : kCols, kRightByK ? kCols : kDepth, kThreads> next_b;
    auto fetch = [&](int k) {
      next_a.fetch(a, kLeftByK ? k : row, kLeftByK ? row : k);
      next_b.fetch(b, kRightByK ? k : col, kRightByK ? col : k);
    };
    if (depth > 0) fetch(0);
#pragma unroll 1
    for (int k = 0; k < depth; k += kDepth) {
      __syncthreads();
      next_a.put(shared.a);
      next_b.put(shared.b);
      __syncthreads();
      if (k + kDepth < depth) fetch(k + kDepth);
      step(shared);
    }
  }

  // Calls f(row, col, first, second) for pairs of neighbouring columns of the tile; col is even.
  template <class Visit>
  __device__ __forceinline__ void for_pairs(Visit f) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          f(warp_row() + i * 16 + half * 8 + lane / 4, warp_col() + j * 8 + lane % 4 * 2, sums[i][j][2 * half],
            sums[i][j][2 * half + 1]);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ int warp_row() { return threadIdx.x / 64 * 32; }
  static __device__ __forceinline__ int warp_col() { return threadIdx.x / 32 % 2 * 32; }

  __device__ __forceinline__ void step(const Shared& shared) {
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      Fragment fa[2], fb[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = warp_row() + i * 16, col = warp_col() + i * 16;
        fa[i] = kLeftByK ? left_from_k_rows(shared.a, row, k) : left(shared.a, row, k);
        fb[i] = kRightByK ? right_from_k_rows(shared.b, k, col) : right(shared.b, k, col);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) multiply(sums[i][2 * j], sums[i][2 * j + 1], fa[i], fb[j]);
    }
  }
};

// Two neighbouring elements, stored at once.
template <class T>
struct alignas(2 * sizeof(T)) Two {
  T first, second;
};

// A row-major result in global memory: elements of a product that lie outside of it are dropped.
template <class T>
struct Result {
  T* data;
  int64_t stride;
  int rows, cols;
  bool paired;  // even columns start at multiples of the size of two elements

  __device__ __forceinline__ Result(void* first, int64_t stride_, int rows_, int cols_)
      : data(static_cast<T*>(first)),
        stride(stride_),
        rows(rows_),
        cols(cols_),
        paired(reinterpret_cast<uintptr_t>(first) % sizeof(Two<T>) == 0 && stride_ % 2 == 0) {}

  // Two neighbours from an even column on, rounded; added to what is there before the rounding if `accumulate`.
  __device__ __forceinline__ void put(int row, int col, float first, float second, bool accumulate = false) const {
    if (row >= rows || col >= cols) return;
    T* const to = data + row * stride + col;
    if (paired && col + 1 < cols) {
      Two<T>* const both = reinterpret_cast<Two<T>*>(to);
      Two<T> v{round_to<T>(first), round_to<T>(second)};
      if (accumulate) {
        const Two<T> before = *both;
        v = {round_to<T>(to_f32(before.first) + first), round_to<T>(to_f32(before.second) + second)};
      }
      *both = v;
      return;
    }
    to[0] = round_to<T>(accumulate ? to_f32(to[0]) + first : first);
    if (col + 1 < cols) to[1] = round_to<T>(accumulate ? to_f32(to[1]) + second : second);
  }
};

}  // namespace lightning::mma
