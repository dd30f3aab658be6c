// wgmma of bf16 operands in shared memory: 64 rows by N columns by 16 of k, for one warp group. Beside ptx.cuh the only
// place with asm, because of the length of the register lists.
//
// Operands lie as tensor copies of 64 elements (128 bytes) with the 128-byte swizzle leave them, at a multiple of 1024:
//   K-major       rows of 64 k, one per m or n; groups of 8 rows are 1024 bytes apart. 16 further along k: 32 bytes.
//   MN-major      blocks of 64 m or n, each 64 rows (k) of 128 bytes, 8192 bytes apart. 16 further along k: 2048 bytes.
#pragma once

#include <stdint.h>

#include "lightning/ptx.cuh"

namespace lightning::wgmma {

// Where an operand's neighbours in memory lie along.
enum class Major { K, MN };

// Bytes from an operand of one instruction to that of the next 16 of k.
template <Major M>
constexpr uint32_t kStep = M == Major::K ? 32 : 2048;

// Descriptor: address / 16, leading offset / 16 from bit 16, stride offset / 16 from bit 32, swizzle of 128 bytes.
template <Major M>
__device__ __forceinline__ uint64_t descriptor(uint32_t shared) {
  constexpr uint64_t kLeading = M == Major::K ? 1 : 8192 / 16;
  return static_cast<uint64_t>((shared & 0x3ffff) >> 4) | kLeading << 16 | 64ull << 32 | 1ull << 62;
}

#define LIGHTNING_D8(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define LIGHTNING_D32(i) LIGHTNING_D8(i), LIGHTNING_D8(i + 8), LIGHTNING_D8(i + 16), LIGHTNING_D8(i + 24)
#define LIGHTNING_R0_63 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LIGHTNING_R64_95 \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define LIGHTNING_R96_127 \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define LIGHTNING_WGMMA(shape, registers, a, b, add, trans_a, trans_b)                      \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " add ", 0;\n"                                          \
  "wgmma.mma_async.sync.aligned." shape ".f32.bf16.bf16 {" registers "}, " a ", " b ", p, " \
  "1, 1, " trans_a ", " trans_b ";\n}"

// d = a b (+ d if add), asynchronously: d may be touched again after the wait for the group that it was committed with.
// Lane i of warp w: d[4 j + 0, 1] are columns 8 j + 2 (i % 4) and the next of row 16 w + i / 4; d[4 j + 2, 3] of 8 further.
template <Major A, Major B>
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b, bool add) {
  asm volatile(LIGHTNING_WGMMA("m64n128k16", LIGHTNING_R0_63, "%64", "%65", "%66", "%67", "%68")
               : LIGHTNING_D32(0), LIGHTNING_D32(32)
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(A == Major::MN), "n"(B == Major::MN));
}
template <Major A, Major B>
__device__ __forceinline__ void multiply(float (&d)[96], uint64_t a, uint64_t b, bool add) {
  asm volatile(LIGHTNING_WGMMA("m64n192k16", LIGHTNING_R0_63 ", " LIGHTNING_R64_95, "%96", "%97", "%98", "%99", "%100")
               : LIGHTNING_D32(0), LIGHTNING_D32(32), LIGHTNING_D32(64)
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(A == Major::MN), "n"(B == Major::MN));
}
template <Major A, Major B>
__device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b, bool add) {
  asm volatile(LIGHTNING_WGMMA("m64n256k16", LIGHTNING_R0_63 ", " LIGHTNING_R64_95 ", " LIGHTNING_R96_127, "%128", "%129",
                               "%130", "%131", "%132")
               : LIGHTNING_D32(0), LIGHTNING_D32(32), LIGHTNING_D32(64), LIGHTNING_D32(96)
               : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(A == Major::MN), "n"(B == Major::MN));
}

#undef LIGHTNING_D8
#undef LIGHTNING_D32
#undef LIGHTNING_R0_63
#undef LIGHTNING_R64_95
#undef LIGHTNING_R96_127
#undef LIGHTNING_WGMMA

}  // namespace lightning::wgmma
