// One thin wrapper for each PTX instruction that the kernels write by hand. Nothing else in csrc/ contains asm, but wgmma.cuh.
//
// Names follow the instruction; the comment gives its text and the condition that the hardware does not check.
// "shared address" is a 32-bit address of the block's shared window (shared_address), which is also its address in the
// cluster window for the block itself.
#pragma once

#include <stdint.h>

namespace lightning::ptx {

// ---------------------------------------------------------------------------------------------------------------------
// Addresses and plain memory
// ---------------------------------------------------------------------------------------------------------------------

// Address of global memory as the instructions below take it.
__device__ __forceinline__ uint64_t global_address(const void* p) {
  return static_cast<uint64_t>(__cvta_generic_to_global(p));
}

// Address of shared memory as the instructions below take it.
__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// st.shared.v2.f32: two floats at a multiple of 8. nvcc splits a float2 store whose address it computes by exclusive or.
__device__ __forceinline__ void store_shared_2(uint32_t to, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(first), "f"(second) : "memory");
}

// ld.global.nc.L1::no_allocate.v4.b32: 16 bytes that no thread writes while the kernel runs and that are read once.
// The address must be a multiple of 16.
__device__ __forceinline__ uint4 load_once_16(const void* p) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(global_address(p)));
  return v;
}

// ---------------------------------------------------------------------------------------------------------------------
// Warps, blocks, clusters
// ---------------------------------------------------------------------------------------------------------------------

// elect.sync: true in one lane of a converged warp.
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile(
      "{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected != 0;
}

// bar.sync id, threads: barrier among some warps of the block. id 0 is __syncthreads.
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Rank of this block in its cluster.
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Number of blocks in this block's cluster; 1 where the launch asks for none.
__device__ __forceinline__ uint32_t cluster_blocks() {
  uint32_t blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}

// barrier.cluster.arrive.release + wait.acquire: all threads of the cluster.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// setmaxnreg: the warps of a warp group give registers back or take them. A multiple of 8 from 24 to 256.
template <int Registers>
__device__ __forceinline__ void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// ---------------------------------------------------------------------------------------------------------------------
// mbarrier; `barrier` is a shared address of 8 bytes
// ---------------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// fence.mbarrier_init: makes initialised barriers visible to the cluster and to asynchronous copies.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One arrival that also announces `bytes` of asynchronous copies.
__device__ __forceinline__ void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// One arrival at the barrier of the same address in block `rank` of the cluster.
__device__ __forceinline__ void mbarrier_arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// The same in the order of this block alone. Enough where the arrival says that something has been read (by wgmma that was
// waited for), not that something was written; the cluster-wide release costs a fence of the whole device.
__device__ __forceinline__ void mbarrier_arrive_read_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cta.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Waits until the phase of this parity has completed. A fresh barrier counts as completed in parity 1.
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// The same in the order of this block alone: for what asynchronous copies brought, which counts at the barrier itself, and
// for arrivals of mbarrier_arrive_read_at. The cluster-wide wait empties the L1 cache.
__device__ __forceinline__ void mbarrier_wait_block(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// ---------------------------------------------------------------------------------------------------------------------
// Bulk tensor copies; `map` is a CUtensorMap in parameter or global memory, coordinates innermost first
// ---------------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// A box to this block's shared memory; its bytes count at `barrier`.
__device__ __forceinline__ void tensor_load_2d(uint32_t to, const void* map, uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// The same box to the same shared address of every block in `blocks` (a bit per rank); each counts it at its own barrier.
__device__ __forceinline__ void tensor_load_2d_multicast(uint32_t to, const void* map, uint32_t barrier, int x, int y,
                                                         uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(blocks)
      : "memory");
}

// A box from shared memory; part of the thread's current bulk group.
__device__ __forceinline__ void tensor_store_2d(const void* map, uint32_t from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
}

__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most `Pending` of the thread's bulk groups are incomplete.
template <int Pending>
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}

// fence.proxy.async: orders this thread's shared-memory accesses before asynchronous copies and wgmma.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---------------------------------------------------------------------------------------------------------------------
// Matrices
// ---------------------------------------------------------------------------------------------------------------------

// Four 8x8 matrices of 16-bit elements from shared memory; lane i gives the address of row i % 8 of matrix i / 8, 16 bytes
// at a multiple of 16. A lane gets elements 2 (lane % 4) and the next of row lane / 4 of every matrix.
__device__ __forceinline__ void load_matrix_4(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// The same with every matrix transposed.
__device__ __forceinline__ void load_matrix_4_transposed(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// d += a b for 16 rows, 8 columns, 16 of k; bf16 operands. A lane holds of a: rows lane / 4 and 8 further, k 2 (lane % 4)
// and the next, then the same 8 further in k; of b: column lane / 4; of d: two neighbours in each of the two rows.
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8x8 matrices of 16-bit elements to shared memory; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void store_matrix_4(uint32_t row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}

// Descriptor of a K-major operand in rows of 128 bytes with the 128-byte swizzle, groups of 8 rows 1024 bytes apart. The
// tile starts at a multiple of 1024; a step of 16 bf16 along k adds 32 to the address.
__device__ __forceinline__ uint64_t wgmma_descriptor_128(uint32_t shared) {
  return static_cast<uint64_t>((shared & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `Pending` of the warp group's wgmma groups are incomplete.
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// d = a b^T (+ d if accumulate) for 64 rows, 128 columns, 16 of k; bf16 operands from shared memory, K-major.
__device__ __forceinline__ void wgmma_m64n128k16_bf16(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
#define LIGHTNING_ROW_8(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}"
      : LIGHTNING_ROW_8(0), LIGHTNING_ROW_8(8), LIGHTNING_ROW_8(16), LIGHTNING_ROW_8(24), LIGHTNING_ROW_8(32),
        LIGHTNING_ROW_8(40), LIGHTNING_ROW_8(48), LIGHTNING_ROW_8(56)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
#undef LIGHTNING_ROW_8
}

}  // namespace lightning::ptx
