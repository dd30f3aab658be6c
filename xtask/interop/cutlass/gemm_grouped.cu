// Groups of different sizes in one launch; the kernel rewrites its tensor maps in device memory as it goes from one
// group to the next.
#include "gemm_case.cuh"

using In = cutlass::half_t;
using Out = float;
using Problem = cutlass::gemm::GroupProblemShape<Shape<int, int, int>>;
using Case = GemmCase<Problem, In, Out, Shape<_128, _128, _64>, Shape<_1, _1, _1>,
                      cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative,
                      cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative, void, true>;
using Kernel = Case::Kernel;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  Session session(argv[1]);
  uint64_t state = std::strtoull(argv[2], nullptr, 10);
  const std::vector<Shape<int, int, int>> sizes = {{200, 136, 72}, {8, 256, 128}, {130, 64, 200}};
  std::vector<std::vector<In>> a, b;
  std::vector<Device<In>*> on;
  std::vector<Device<Out>*> d_on;
  std::vector<const In*> a_of, b_of;
  std::vector<const Out*> c_of;
  std::vector<Out*> d_of;
  std::vector<typename Kernel::InternalStrideA> a_stride;
  std::vector<typename Kernel::InternalStrideB> b_stride;
  std::vector<typename Kernel::InternalStrideC> c_stride;
  std::vector<typename Kernel::InternalStrideD> d_stride;
  for (const auto& size : sizes) {
    const auto [m, n, k] = size;
    a.push_back(random_values<In>(size_t(m) * k, state));
    b.push_back(random_values<In>(size_t(n) * k, state));
    on.push_back(new Device<In>(a.back()));
    a_of.push_back(on.back()->get());
    on.push_back(new Device<In>(b.back()));
    b_of.push_back(on.back()->get());
    d_on.push_back(new Device<Out>(std::vector<Out>(size_t(m) * n, NAN)));
    d_of.push_back(d_on.back()->get());
    c_of.push_back(d_on.back()->get());
    a_stride.push_back(cutlass::make_cute_packed_stride(typename Kernel::InternalStrideA{}, {m, k, 1}));
    b_stride.push_back(cutlass::make_cute_packed_stride(typename Kernel::InternalStrideB{}, {n, k, 1}));
    c_stride.push_back(cutlass::make_cute_packed_stride(typename Kernel::InternalStrideC{}, {m, n, 1}));
    d_stride.push_back(cutlass::make_cute_packed_stride(typename Kernel::InternalStrideD{}, {m, n, 1}));
  }
  Device sizes_on(sizes);
  Device a_list(a_of), b_list(b_of);
  Device c_list(c_of);
  Device d_list(d_of);
  Device a_strides(a_stride);
  Device b_strides(b_stride);
  Device c_strides(c_stride);
  Device d_strides(d_stride);
  typename Kernel::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
  arguments.problem_shape = {static_cast<int>(sizes.size()), sizes_on.get(), sizes.data()};
  arguments.mainloop = {a_list.get(), a_strides.get(), b_list.get(), b_strides.get()};
  arguments.epilogue.thread.alpha = 1.0f;
  arguments.epilogue.thread.beta = 0.0f;
  arguments.epilogue.ptr_C = c_list.get();
  arguments.epilogue.dC = c_strides.get();
  arguments.epilogue.ptr_D = d_list.get();
  arguments.epilogue.dD = d_strides.get();
  Case::run(session, arguments);
  int wrong = 0;
  for (size_t g = 0; g < sizes.size(); ++g) {
    const auto [m, n, k] = sizes[g];
    wrong += wrong_elements(a[g], b[g], d_on[g]->read(), m, n, k);
  }
  std::printf("%d elements wrong\n", wrong);
  return wrong != 0;
}
