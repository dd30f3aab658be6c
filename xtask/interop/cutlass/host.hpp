// Host side of the CUTLASS cases, on the driver API alone: memory, random operands, launch with clusters, comparison.
#pragma once

#include <cuda.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

inline void check(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  const char* text = "";
  cuGetErrorString(status, &text);
  std::fprintf(stderr, "%s: error %d: %s\n", what, static_cast<int>(status), text);
  std::exit(1);
}
#define CHECK(call) check(call, #call)

// A device copy of a host array.
template <class T>
struct Device {
  CUdeviceptr address = 0;
  size_t count = 0;

  explicit Device(const std::vector<T>& host) : count(host.size()) {
    CHECK(cuMemAlloc(&address, count * sizeof(T) + 1));
    if (count) CHECK(cuMemcpyHtoD(address, host.data(), count * sizeof(T)));
  }
  Device(const Device&) = delete;
  T* get() const { return reinterpret_cast<T*>(address); }
  std::vector<T> read() const {
    std::vector<T> host(count);
    if (count) CHECK(cuMemcpyDtoH(host.data(), address, count * sizeof(T)));
    return host;
  }
};

// Values from -1 to 1 in steps of 1/8: products and sums of a few thousand are exact in f32 and in fp8.
template <class T>
std::vector<T> random_values(size_t count, uint64_t& state) {
  std::vector<T> values;
  values.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    values.push_back(T(static_cast<float>(static_cast<int>((state >> 40) % 17) - 8) / 8.0f));
  }
  return values;
}

// d = a b^T of one problem, compared with what the device left; the number of wrong elements.
template <class A, class B, class D>
int wrong_elements(const std::vector<A>& a, const std::vector<B>& b, const std::vector<D>& d, int m, int n, int k) {
  int wrong = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum += float(a[size_t(i) * k + l]) * float(b[size_t(j) * k + l]);
      const float got = float(d[size_t(i) * n + j]), want = float(D(sum));
      if (!(got == want) && wrong++ == 0) std::fprintf(stderr, "d[%d, %d] is %g, not %g\n", i, j, got, want);
    }
  }
  return wrong;
}

struct Session {
  CUfunction kernel = nullptr;

  // Loads the PTX file and takes its only kernel.
  explicit Session(const char* ptx_path) {
    CHECK(cuInit(0));
    CUdevice device;
    CUcontext context;
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    std::ifstream file(ptx_path);
    const std::string ptx((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const size_t at = ptx.find(".entry ");
    if (at == std::string::npos) {
      std::fprintf(stderr, "%s has no kernel\n", ptx_path);
      std::exit(1);
    }
    const std::string name = ptx.substr(at + 7, ptx.find('(', at) - at - 7);
    CUmodule module;
    CHECK(cuModuleLoadData(&module, ptx.c_str()));
    CHECK(cuModuleGetFunction(&kernel, module, name.c_str()));
  }

  void launch(dim3 grid, dim3 block, dim3 cluster, int shared, void* params) {
    CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared));
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {cluster.x, cluster.y, cluster.z};
    CUlaunchConfig config{};
    config.gridDimX = grid.x, config.gridDimY = grid.y, config.gridDimZ = grid.z;
    config.blockDimX = block.x, config.blockDimY = block.y, config.blockDimZ = block.z;
    config.sharedMemBytes = shared;
    config.attrs = &attribute, config.numAttrs = 1;
    void* arguments[] = {params};
    CHECK(cuLaunchKernelEx(&config, kernel, arguments, nullptr));
    CHECK(cuCtxSynchronize());
  }
};
