// Packs: W neighbouring elements of type T (bf16 or f32) that a thread loads, computes with in f32, and stores.
// W is 16 bytes' worth where rows are aligned, 1 where they are not.
#pragma once

#include <cuda_bf16.h>
#include <stdint.h>

#include "lightning/ptx.cuh"

namespace lightning {

using bf16 = __nv_bfloat16;

__device__ __forceinline__ float to_f32(float v) { return v; }
__device__ __forceinline__ float to_f32(bf16 v) { return __bfloat162float(v); }

// Rounds to nearest, ties to even.
template <class T>
__device__ __forceinline__ T round_to(float v);
template <>
__device__ __forceinline__ float round_to<float>(float v) { return v; }
template <>
__device__ __forceinline__ bf16 round_to<bf16>(float v) { return __float2bfloat16_rn(v); }

// Elements of T in the widest access of a thread.
template <class T>
constexpr int kWide = 16 / sizeof(T);

// Packed elements; registers hold them packed too, so that a held row costs its own size and not that of f32.
template <class T, int W>
struct alignas(sizeof(T) * W) Pack {
  T v[W];

  __device__ __forceinline__ float operator[](int i) const { return to_f32(v[i]); }

  static __device__ __forceinline__ Pack rounded(const float (&f)[W]) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < W; ++i) pack.v[i] = round_to<T>(f[i]);
    return pack;
  }
};

// Eight bf16 in four 32-bit words, the even ones in the low halves: bf16 to f32 is then one shift or mask.
template <>
struct alignas(16) Pack<bf16, 8> {
  uint32_t words[4];

  __device__ __forceinline__ float operator[](int i) const {
    return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
  }

  static __device__ __forceinline__ Pack rounded(const float (&f)[8]) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(f[2 * i], f[2 * i + 1]);
      pack.words[i] = *reinterpret_cast<const uint32_t*>(&pair);
    }
    return pack;
  }
};

// Plain load: sees what this thread stored before.
template <class T, int W>
__device__ __forceinline__ Pack<T, W> load(const T* from) {
  Pack<T, W> pack;
  if constexpr (sizeof(pack) == 16) {
    *reinterpret_cast<uint4*>(&pack) = *reinterpret_cast<const uint4*>(from);
  } else {
    static_assert(W == 1, "a pack is 16 bytes or one element");
    pack.v[0] = *from;
  }
  return pack;
}

// Load of what no thread writes while the kernel runs and what is read once.
template <class T, int W>
__device__ __forceinline__ Pack<T, W> load_once(const T* from) {
  if constexpr (sizeof(Pack<T, W>) == 16) {
    Pack<T, W> pack;
    *reinterpret_cast<uint4*>(&pack) = ptx::load_once_16(from);
    return pack;
  } else {
    return load<T, W>(from);
  }
}

template <class T, int W>
__device__ __forceinline__ void store(T* to, const Pack<T, W>& pack) {
  if constexpr (sizeof(pack) == 16) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&pack);
  } else {
    static_assert(W == 1, "a pack is 16 bytes or one element");
    *to = pack.v[0];
  }
}

// W f32 sums to memory, 16 bytes at a time where W allows.
template <int W>
__device__ __forceinline__ void store_f32(float* to, const float (&v)[W]) {
  if constexpr (W % 4 == 0) {
#pragma unroll
    for (int i = 0; i < W; i += 4) {
      *reinterpret_cast<float4*>(to + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) to[i] = v[i];
  }
}

// Whether an address, or a stride of `elements` of T, keeps 16-byte accesses aligned. Absent buffers are address 0.
__device__ __forceinline__ bool aligned_16(const void* p) { return (reinterpret_cast<uintptr_t>(p) & 15) == 0; }
template <class T>
__device__ __forceinline__ bool aligned_16(int64_t elements) { return elements % kWide<T> == 0; }

}  // namespace lightning
