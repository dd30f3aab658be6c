// Sets every element of a matrix to one value.
//
// | buffer | shape        | dtype                 | written     |
// |--------|--------------|-----------------------|-------------|
// | dst    | [rows, cols] | bf16, f32, i32 or f64 | overwritten |
//
// Launch: any grid of at least 1 block; a block takes every gridDim-th piece of a row. Any rows >= 0, cols >= 1. The
// host passes a matrix without gaps as one row, so that clearing a gradient is one run of 16-byte stores.
#include "lightning/kernel.cuh"
#include "lightning/params/reduce.h"
#include "lightning/pack.cuh"

namespace lightning {
namespace {

constexpr int kThreads = 256;
// 16-byte stores of a thread in one piece.
constexpr int kStores = 4;

template <class T>
__device__ __forceinline__ void fill(const FillParams& p) {
  constexpr int kPack = 16 / sizeof(T);
  constexpr int64_t kPiece = kThreads * kStores * kPack;
  const T value = static_cast<T>(p.value);
  uint4 wide;
#pragma unroll
  for (int i = 0; i < kPack; ++i) reinterpret_cast<T*>(&wide)[i] = value;
  const int64_t pieces = (p.cols + kPiece - 1) / kPiece;
  for (int64_t piece = blockIdx.x; piece < p.rows * pieces; piece += gridDim.x) {
    T* const row = static_cast<T*>(p.dst) + piece / pieces * p.stride;
    const int64_t first = piece % pieces * kPiece, last = min(first + kPiece, p.cols);
    if (aligned_16(row) && last - first == kPiece) {
#pragma unroll
      for (int i = 0; i < kStores; ++i) {
        *reinterpret_cast<uint4*>(row + first + (i * kThreads + threadIdx.x) * kPack) = wide;
      }
    } else {
      for (int64_t column = first + threadIdx.x; column < last; column += kThreads) row[column] = value;
    }
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(fill, FillParams, any, 256, 4, 0) {
  if (p.size == 2) {
    lightning::fill<uint16_t>(p);
  } else if (p.size == 4) {
    lightning::fill<uint32_t>(p);
  } else {
    lightning::fill<uint64_t>(p);
  }
}
