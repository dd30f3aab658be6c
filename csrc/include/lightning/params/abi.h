// What every parameter block is written with. Plain C: nvcc reads it for the kernels, bindgen for the host.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__)
#define LIGHTNING_PTR(type) type*
#else
#define LIGHTNING_PTR(type) uint64_t
#endif

#if defined(__cplusplus)
#define LIGHTNING_ASSERT(condition) static_assert(condition, #condition)
#else
#define LIGHTNING_ASSERT(condition) _Static_assert(condition, #condition)
#endif

// A CUtensorMap as the driver encodes it; a kernel passes its address to TMA instructions.
typedef struct __attribute__((aligned(64))) LightningTensorMap {
  uint64_t opaque[16];  // known to the driver and to TMA
} LightningTensorMap;
