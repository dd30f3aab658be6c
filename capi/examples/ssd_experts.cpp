// An engine in C++ calls the scan and the routed experts, forward and backward, on memory and a stream of its own, and
// compares with plain loops on the host.
//
//   g++ -std=c++17 -I capi/include -I $CUDA_HOME/include capi/examples/ssd_experts.cpp 
//       -L target/release -llightning -L target/release/sim -lcuda -o ssd_experts
//
// On a machine without a GPU, `cargo xtask sim` builds the libcuda of the virtual one; LD_LIBRARY_PATH must then name
// target/release and target/release/sim.
#include <cuda.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lightning.h"

namespace {

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  std::fprintf(stderr, "%s: %s\n", what, text ? text : "unknown error");
  std::exit(5);
}

void check(LightningStatus status, const char* what) {
  if (status == LIGHTNING_STATUS_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, lightning_last_error());
  std::exit(1);
}

using Values = std::vector<double>;

double to_bf16(double value) {
  float f = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  bits += 0x7fff + (bits >> 16 & 1);
  bits &= 0xffff0000u;
  std::memcpy(&f, &bits, 4);
  return f;
}

// Numbers in [-1, 1] that bf16 holds exactly, the same in every run.
Values random(size_t n) {
  static uint64_t state = 88172645463325252ull;
  Values values(n);
  for (double& v : values) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    v = to_bf16(static_cast<double>(state % 20001) / 10000.0 - 1.0);
  }
  return values;
}

size_t size_of(LightningDtype dtype) { return dtype == LIGHTNING_DTYPE_BF16 ? 2 : dtype == LIGHTNING_DTYPE_F64 ? 8 : 4; }

// A tensor in memory of this engine.
LightningTensor tensor(LightningDtype dtype, size_t rows, size_t cols) {
  CUdeviceptr address = 0;
  check(cuMemAlloc(&address, rows * cols * size_of(dtype)), "cuMemAlloc");
  return {address, rows, cols, cols, dtype};
}

LightningTensor upload(LightningDtype dtype, size_t rows, size_t cols, const Values& values) {
  const LightningTensor t = tensor(dtype, rows, cols);
  std::vector<unsigned char> bytes(rows * cols * size_of(dtype));
  for (size_t i = 0; i < rows * cols; ++i) {
    const float f = static_cast<float>(values[i]);
    const int32_t n = static_cast<int32_t>(values[i]);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    const uint16_t upper = static_cast<uint16_t>(bits >> 16);
    if (dtype == LIGHTNING_DTYPE_BF16) std::memcpy(&bytes[2 * i], &upper, 2);
    if (dtype == LIGHTNING_DTYPE_F32) std::memcpy(&bytes[4 * i], &f, 4);
    if (dtype == LIGHTNING_DTYPE_I32) std::memcpy(&bytes[4 * i], &n, 4);
  }
  check(cuMemcpyHtoD(t.address, bytes.data(), bytes.size()), "cuMemcpyHtoD");
  return t;
}

Values download(const LightningTensor& t) {
  const size_t n = t.rows * t.cols;
  std::vector<unsigned char> bytes(n * size_of(t.dtype));
  check(cuMemcpyDtoH(bytes.data(), t.address, bytes.size()), "cuMemcpyDtoH");
  Values values(n);
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits = 0;
    if (t.dtype == LIGHTNING_DTYPE_BF16) {
      uint16_t upper;
      std::memcpy(&upper, &bytes[2 * i], 2);
      bits = static_cast<uint32_t>(upper) << 16;
    } else {
      std::memcpy(&bits, &bytes[4 * i], 4);
    }
    float f;
    std::memcpy(&f, &bits, 4);
    values[i] = t.dtype == LIGHTNING_DTYPE_I32 ? static_cast<int32_t>(bits) : f;
  }
  return values;
}

const LightningTensor kAbsent = {0, 0, 0, 0, LIGHTNING_DTYPE_ABSENT};
bool all_close = true;

void compare(const char* what, const Values& got, const Values& want, double bound) {
  double distance = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    distance += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  const double error = std::sqrt(distance / norm);
  const bool close = error <= bound;
  all_close = all_close && close;
  std::printf("%-22s relative L2 error %.2e %s\n", what, error, close ? "" : "TOO LARGE");
}

struct Engine {
  LightningDevice* device;
  CUstream stream;

  // Asks for the workspace, gives it, and enqueues.
  template <class Arguments, class Function>
  void call(Function function, const Arguments& arguments, const char* what) {
    LightningWorkspace workspace = {0, 0};
    check(function(device, &arguments, &workspace, stream), what);
    if (workspace.bytes > 0) {
      CUdeviceptr address;
      check(cuMemAlloc(&address, workspace.bytes), "cuMemAlloc");
      workspace.address = address;
      check(function(device, &arguments, &workspace, stream), what);
    }
    check(cuStreamSynchronize(stream), what);
  }
};

void scan(Engine& engine) {
  constexpr size_t T = 37, H = 2, P = 16, N = 16, CHUNK = 16;
  const Values x = random(T * H * P), b = random(T * N), c = random(T * N), dy = random(T * H * P);
  Values delta = random(T * H), a_log = random(H), d = random(H), start(T, 0.0), end(T, double(T));
  for (double& v : delta) v = 0.3 + 0.2 * v;

  LightningSsdScanFwd fwd = {};
  fwd.shape = {H, P, N, 1, CHUNK, T};
  fwd.x = upload(LIGHTNING_DTYPE_BF16, T, H * P, x);
  fwd.b = upload(LIGHTNING_DTYPE_BF16, T, N, b);
  fwd.c = upload(LIGHTNING_DTYPE_BF16, T, N, c);
  fwd.delta = upload(LIGHTNING_DTYPE_F32, T, H, delta);
  fwd.a_log = upload(LIGHTNING_DTYPE_F32, 1, H, a_log);
  fwd.d = upload(LIGHTNING_DTYPE_F32, 1, H, d);
  fwd.start = upload(LIGHTNING_DTYPE_I32, 1, T, start);
  fwd.end = upload(LIGHTNING_DTYPE_I32, 1, T, end);
  fwd.state_in = fwd.state_out = kAbsent;
  fwd.y = tensor(LIGHTNING_DTYPE_BF16, T, H * P);
  fwd.states = tensor(LIGHTNING_DTYPE_F32, (T + CHUNK - 1) / CHUNK, H * P * N);
  engine.call(lightning_ssd_scan_fwd, fwd, "scan forward");

  LightningSsdScanBwd bwd = {};
  bwd.fwd = fwd;
  bwd.dy = upload(LIGHTNING_DTYPE_BF16, T, H * P, dy);
  bwd.dstate_out = bwd.dstate_in = kAbsent;
  bwd.dx = tensor(LIGHTNING_DTYPE_BF16, T, H * P);
  bwd.db = tensor(LIGHTNING_DTYPE_BF16, T, N);
  bwd.dc = tensor(LIGHTNING_DTYPE_BF16, T, N);
  bwd.ddelta = tensor(LIGHTNING_DTYPE_F32, T, H);
  bwd.da_log = tensor(LIGHTNING_DTYPE_F32, 1, H);
  bwd.dd = tensor(LIGHTNING_DTYPE_F32, 1, H);
  bwd.partial_a = tensor(LIGHTNING_DTYPE_F32, 1, H);
  bwd.partial_d = tensor(LIGHTNING_DTYPE_F32, 1, H);
  engine.call(lightning_ssd_scan_bwd, bwd, "scan backward");

  // The recurrence token by token, and its gradient by going back.
  Values y(T * H * P), dx(T * H * P), dc(T * N, 0.0), dd(H, 0.0);
  for (size_t h = 0; h < H; ++h) {
    for (size_t p = 0; p < P; ++p) {
      Values state(N, 0.0), gradient(N, 0.0);
      for (size_t t = 0; t < T; ++t) {
        const double x_t = x[(t * H + h) * P + p], dt = float(delta[t * H + h]);
        const double decay = std::exp(-std::exp(a_log[h]) * dt);
        double sum = d[h] * x_t;
        for (size_t n = 0; n < N; ++n) {
          state[n] = decay * state[n] + dt * x_t * b[t * N + n];
          sum += state[n] * c[t * N + n];
          dc[t * N + n] += state[n] * dy[(t * H + h) * P + p];
        }
        y[(t * H + h) * P + p] = sum;
        dd[h] += x_t * dy[(t * H + h) * P + p];
      }
      for (size_t t = T; t-- > 0;) {
        const double dy_t = dy[(t * H + h) * P + p], dt = float(delta[t * H + h]);
        double sum = d[h] * dy_t;
        for (size_t n = 0; n < N; ++n) {
          gradient[n] += c[t * N + n] * dy_t;
          sum += dt * b[t * N + n] * gradient[n];
          gradient[n] *= std::exp(-std::exp(a_log[h]) * dt);
        }
        dx[(t * H + h) * P + p] = sum;
      }
    }
  }
  compare("scan y", download(fwd.y), y, 1e-2);
  compare("scan dx", download(bwd.dx), dx, 1e-2);
  compare("scan dC", download(bwd.dc), dc, 1e-2);
  compare("scan dD", download(bwd.dd), dd, 1e-2);
}

void experts(Engine& engine) {
  constexpr size_t T = 19, K = 2, E = 4, D = 32, F = 24, S = T * K;
  const Values x = random(T * D), up = random(E * F * D), down = random(E * D * F), dout = random(T * D);
  Values weight = random(T * K), idx(T * K);
  for (size_t t = 0; t < T; ++t) {
    weight[t * K] = 0.25, weight[t * K + 1] = 0.75;
    // Expert 2 gets nothing.
    idx[t * K] = t % 2 ? 1 : 3, idx[t * K + 1] = 0;
  }
  LightningDispatchPlan plan = {};
  plan.idx = upload(LIGHTNING_DTYPE_I32, T, K, idx);
  plan.offsets = tensor(LIGHTNING_DTYPE_I32, 1, E + 1);
  plan.pair_of_slot = tensor(LIGHTNING_DTYPE_I32, 1, S);
  plan.slot_of_pair = tensor(LIGHTNING_DTYPE_I32, T, K);
  engine.call(lightning_dispatch_plan, plan, "dispatch plan");

  LightningExpertsFwd fwd = {};
  fwd.x = upload(LIGHTNING_DTYPE_BF16, T, D, x);
  fwd.weight = upload(LIGHTNING_DTYPE_F32, T, K, weight);
  fwd.offsets = plan.offsets;
  fwd.pair_of_slot = plan.pair_of_slot;
  fwd.up = upload(LIGHTNING_DTYPE_BF16, E * F, D, up);
  fwd.down = upload(LIGHTNING_DTYPE_BF16, E * D, F, down);
  fwd.xs = tensor(LIGHTNING_DTYPE_BF16, S, D);
  fwd.p = tensor(LIGHTNING_DTYPE_BF16, S, F);
  fwd.a = tensor(LIGHTNING_DTYPE_BF16, S, F);
  fwd.y = tensor(LIGHTNING_DTYPE_BF16, S, D);
  engine.call(lightning_experts_fwd, fwd, "experts forward");

  LightningExpertsBwd bwd = {};
  bwd.fwd = fwd;
  bwd.dout = upload(LIGHTNING_DTYPE_BF16, T, D, dout);
  bwd.dxs = tensor(LIGHTNING_DTYPE_BF16, S, D);
  bwd.dweight = tensor(LIGHTNING_DTYPE_F32, T, K);
  bwd.dup = tensor(LIGHTNING_DTYPE_F32, E * F, D);
  bwd.ddown = tensor(LIGHTNING_DTYPE_F32, E * D, F);
  bwd.dys = tensor(LIGHTNING_DTYPE_BF16, S, D);
  bwd.a = tensor(LIGHTNING_DTYPE_BF16, S, F);
  bwd.dp = tensor(LIGHTNING_DTYPE_BF16, S, F);
  engine.call(lightning_experts_bwd, bwd, "experts backward");

  const Values slot_of_pair = download(plan.slot_of_pair);
  Values y(S * D, 0.0), dxs(S * D, 0.0), dweight(T * K, 0.0), ddown(E * D * F, 0.0);
  for (size_t pair = 0; pair < S; ++pair) {
    const size_t t = pair / K, e = size_t(idx[pair]), slot = size_t(slot_of_pair[pair]);
    for (size_t f = 0; f < F; ++f) {
      double p = 0, da = 0;
      for (size_t i = 0; i < D; ++i) {
        p += x[t * D + i] * up[(e * F + f) * D + i];
        da += dout[t * D + i] * down[(e * D + i) * F + f];
      }
      const double r = std::fmax(p, 0.0);
      dweight[pair] += r * r * da;
      for (size_t i = 0; i < D; ++i) {
        y[slot * D + i] += weight[pair] * r * r * down[(e * D + i) * F + f];
        dxs[slot * D + i] += 2 * r * weight[pair] * da * up[(e * F + f) * D + i];
        ddown[(e * D + i) * F + f] += weight[pair] * r * r * dout[t * D + i];
      }
    }
  }
  compare("experts y", download(fwd.y), y, 1e-2);
  compare("experts dx", download(bwd.dxs), dxs, 1e-2);
  compare("experts dweight", download(bwd.dweight), dweight, 1e-2);
  compare("experts dV", download(bwd.ddown), ddown, 1e-2);
}

}  // namespace

int main() {
  Engine engine = {};
  CUdevice device;
  CUcontext context;
  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(cuStreamCreate(&engine.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  check(lightning_open(0, &engine.device), "lightning_open");

  // A wrong call is an answer, not a crash.
  LightningRelu2Fwd wrong = {};
  if (lightning_relu2_fwd(engine.device, &wrong, nullptr, engine.stream) != LIGHTNING_STATUS_INVALID_ARGUMENT) {
    std::fprintf(stderr, "a call without tensors was accepted\n");
    return 1;
  }
  scan(engine);
  experts(engine);
  lightning_close(engine.device);
  std::printf(all_close ? "all results agree\n" : "results differ\n");
  return all_close ? 0 : 7;
}
