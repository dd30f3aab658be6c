// Two consumer warp groups that take turns, clusters of two blocks that share operand tiles by multicast.
#include "gemm_case.cuh"

using In = cutlass::bfloat16_t;
using Out = cutlass::half_t;
using Case = GemmCase<Shape<int, int, int, int>, In, Out, Shape<_64, _128, _64>, Shape<_2, _1, _1>,
                      cutlass::gemm::KernelTmaWarpSpecializedPingpong, cutlass::epilogue::TmaWarpSpecialized,
                      cutlass::gemm::PersistentScheduler, false>;

int main(int argc, char** argv) { return run_plain<Case, In, Out>(argc, argv, 320, 384, 200, {}); }
