// Two consumer warp groups that share a tile, clusters of 2 x 2 blocks with multicast of both operands, f32 output.
#include "gemm_case.cuh"

using In = cutlass::half_t;
using Out = float;
using Case = GemmCase<Shape<int, int, int, int>, In, Out, Shape<_128, _128, _64>, Shape<_2, _2, _1>,
                      cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                      cutlass::epilogue::TmaWarpSpecializedCooperative, cutlass::gemm::PersistentScheduler, false>;

int main(int argc, char** argv) { return run_plain<Case, In, Out>(argc, argv, 300, 280, 136, {}); }
