// Stream-K: tiles are cut along k so that every block does the same work; partial sums go through a workspace, ordered
// by barriers in global memory.
#include "gemm_case.cuh"

using In = cutlass::bfloat16_t;
using Out = float;
using Case = GemmCase<Shape<int, int, int, int>, In, Out, Shape<_128, _128, _64>, Shape<_1, _1, _1>,
                      cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                      cutlass::epilogue::TmaWarpSpecializedCooperative, cutlass::gemm::StreamKScheduler, false>;

int main(int argc, char** argv) {
  using Scheduler = typename Case::Kernel::TileScheduler;
  typename Scheduler::Arguments scheduler{};
  scheduler.decomposition_mode =
      cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90StreamKParams::DecompositionMode::StreamK;
  return run_plain<Case, In, Out>(argc, argv, 256, 384, 1024, scheduler);
}
