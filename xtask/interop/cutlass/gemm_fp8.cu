// e4m3 operands, sums promoted to f32 registers after every few instructions.
#include "gemm_case.cuh"

using In = cutlass::float_e4m3_t;
using Out = cutlass::bfloat16_t;
using Case = GemmCase<Shape<int, int, int, int>, In, Out, Shape<_128, _128, _128>, Shape<_1, _2, _1>,
                      cutlass::gemm::KernelTmaWarpSpecializedPingpong, cutlass::epilogue::TmaWarpSpecialized,
                      cutlass::gemm::PersistentScheduler, false>;

int main(int argc, char** argv) { return run_plain<Case, In, Out>(argc, argv, 256, 512, 272, {}); }
