// A GEMM instantiated from the headers of CUTLASS for sm_90, and a program that runs it on the driver library it is
// linked with: `program KERNEL.ptx SEED`. Exit status 0 when every element is exact. d = a b^T, [m, n] row by row.
#pragma once

#include "cute/tensor.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/group_array_problem_shape.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"
#include "cutlass/util/packed_stride.hpp"

#include "cutlass/device_kernel.h"
#include "host.hpp"

using namespace cute;

template <class Problem, class In, class Out, class Tile, class Cluster, class MainSchedule, class OutSchedule,
          class Scheduler, bool Grouped>
struct GemmCase {
  using Row = cutlass::layout::RowMajor;
  using Column = cutlass::layout::ColumnMajor;
  template <class Layout>
  using MaybePointer = std::conditional_t<Grouped, Layout*, Layout>;
  static constexpr int kAlignIn = 16 / sizeof(In), kAlignOut = 16 / sizeof(Out);

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, Out, MaybePointer<Row>, kAlignOut, Out,
      MaybePointer<Row>, kAlignOut, OutSchedule>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, In, MaybePointer<Row>, kAlignIn, In, MaybePointer<Column>,
      kAlignIn, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      MainSchedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Problem, Mainloop, Epilogue, Scheduler>;

  // Runs with ready arguments; the workspace starts as zeros.
  static void run(Session& session, typename Kernel::Arguments arguments) {
    arguments.hw_info.device_id = 0;
    arguments.hw_info.sm_count = 6;  // fewer than there are tiles: every block takes several
    arguments.hw_info.max_active_clusters = 6 / (size<0>(Cluster{}) * size<1>(Cluster{}));
    if (!Kernel::can_implement(arguments)) {
      std::fprintf(stderr, "the kernel does not take these sizes\n");
      std::exit(1);
    }
    const Device<uint8_t> workspace(std::vector<uint8_t>(Kernel::get_workspace_size(arguments) + 256));
    auto params = Kernel::to_underlying_arguments(arguments, workspace.get());
    // The kernel takes the structure by value; naming it here instantiates it.
    [[maybe_unused]] auto kernel = cutlass::device_kernel<Kernel>;
    session.launch(Kernel::get_grid_shape(params), Kernel::get_block_shape(),
                   dim3(size<0>(Cluster{}), size<1>(Cluster{}), size<2>(Cluster{})), Kernel::SharedStorageSize,
                   &params);
  }
};

// One problem of m x n x k.
template <class Case, class In, class Out>
int run_plain(int argc, char** argv, int m, int n, int k, typename Case::Kernel::TileScheduler::Arguments scheduler) {
  using Kernel = typename Case::Kernel;
  if (argc != 3) return 2;
  Session session(argv[1]);
  uint64_t state = std::strtoull(argv[2], nullptr, 10);
  const auto a = random_values<In>(size_t(m) * k, state), b = random_values<In>(size_t(n) * k, state);
  const Device<In> a_on(a), b_on(b);
  const Device<Out> d_on(std::vector<Out>(size_t(m) * n, Out(NAN)));
  typename Kernel::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {m, n, k, 1},
      {a_on.get(), cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1}), b_on.get(),
       cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1})},
      {{1.0f, 0.0f},
       nullptr,
       cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, {m, n, 1}),
       d_on.get(),
       cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1})}};
  arguments.scheduler = scheduler;
  Case::run(session, arguments);
  const int wrong = wrong_elements(a, b, d_on.read(), m, n, k);
  std::printf("%d of %d elements wrong\n", wrong, m * n);
  return wrong != 0;
}
