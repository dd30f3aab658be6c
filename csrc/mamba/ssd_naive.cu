// The scan token by token, as its definition has it. The rung that the chunked kernels are compared with.
//
//   S_t = e^{delta_t a} S_{t-1} + delta_t x_t (x) B_t        y_t = S_t C_t + D x_t        S starts from 0 at every document
//   G_t = dy_t (x) C_t + e^{delta_{t+1} a} G_{t+1}, 0 across documents        dx_t = delta_t G_t B_t + D dy_t
//   dC_t = sum_h S_t^T dy_t        dB_t = sum_h delta_t G_t^T x_t        dD = sum_t x_t . dy_t
//   ddelta_t = <G_t, x_t (x) B_t> + a e^{delta_t a} <S_{t-1}, G_t>        dA_log = a sum_t delta_t e^{delta_t a} <S_{t-1}, G_t>
//
// Buffers as in the other files of the family, all sums f32, but: log_decay is a workspace [rows, h p n] for a state, the
// first rows of dstates one for G, and da_partial, dd_partial have one row for each row of tokens.
//
// Launch: ssd_scan_fwd_naive_*: ceil(rows h p / 128) blocks, a thread per channel.
//         ssd_scan_bwd_naive_*: ceil(rows g / 128) blocks, a thread per group; it finds S_{t-1} by going over the chunk
//         from its start for every token.
#include "lightning/kernel.cuh"
#include "lightning/pack.cuh"
#include "lightning/params/mamba.h"

namespace lightning {
namespace {

__device__ __forceinline__ float at(const void* data, int64_t i) { return to_f32(static_cast<const bf16*>(data)[i]); }

__device__ __forceinline__ void ssd_scan_fwd_naive(const SsdScanFwdParams& p) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t channels = static_cast<int64_t>(p.heads) * p.head_dim;
  const int64_t row = item / channels, channel = item % channels;
  if (row >= p.rows) return;
  const int64_t head = channel / p.head_dim, group = head / (p.heads / p.groups);
  const float a = -expf(p.a_log[head]);
  float* const state = p.log_decay + item * p.state;
  const int64_t first = row * p.row_len, chunks = (p.row_len - 1) / p.chunk + 1;
  for (int n = 0; n < p.state; ++n) {
    state[n] = p.state_in ? p.state_in[row * p.state_in_stride + channel * p.state + n] : 0.0f;
  }
  for (int64_t t = first; t < first + p.row_len; ++t) {
    const bool fresh = p.start[t] == t && (t > first || !p.state_in);
    const int64_t slot = row * chunks + (t - first) / p.chunk;
    const bool keep = (t - first) % p.chunk == 0;
    const float delta = p.delta[t * p.delta_stride + head], x = at(p.x, t * p.x_stride + channel);
    float y = p.d[head] * x;
    for (int n = 0; n < p.state; ++n) {
      const float before = fresh ? 0.0f : state[n];
      if (keep) p.states[slot * p.states_stride + channel * p.state + n] = before;
      state[n] = expf(delta * a) * before + delta * x * at(p.b, t * p.b_stride + group * p.state + n);
      y += state[n] * at(p.c, t * p.c_stride + group * p.state + n);
    }
    static_cast<bf16*>(p.y)[t * p.y_stride + channel] = round_to<bf16>(y);
  }
  if (!p.state_out) return;
  for (int n = 0; n < p.state; ++n) p.state_out[row * p.state_out_stride + channel * p.state + n] = state[n];
}

// What the backward pass of one group of one row works on.
struct Group {
  const SsdScanFwdParams& p;
  int64_t row, group, first;
  float* before;  // S_{t-1} of all heads of the row

  __device__ __forceinline__ int64_t element(int64_t channel, int n) const { return channel * p.state + n; }
  __device__ __forceinline__ int64_t first_channel() const { return group * channels(); }
  __device__ __forceinline__ int64_t channels() const {
    return static_cast<int64_t>(p.heads / p.groups) * p.head_dim;
  }
  __device__ __forceinline__ float delta(int64_t t, int64_t head) const { return p.delta[t * p.delta_stride + head]; }
  __device__ __forceinline__ float decay(int64_t t, int64_t head) const {
    return expf(delta(t, head) * -expf(p.a_log[head]));
  }
  __device__ __forceinline__ bool fresh(int64_t t) const {
    return p.start[t] == t && (t > first || !p.state_in);
  }
  __device__ __forceinline__ float added(int64_t t, int64_t channel, int n) const {
    return delta(t, channel / p.head_dim) * at(p.x, t * p.x_stride + channel) *
           at(p.b, t * p.b_stride + group * p.state + n);
  }

  // Brings `before` to what it is for token t, from the state at the start of its chunk.
  __device__ __forceinline__ void find_before(int64_t t) const {
    const int64_t chunk = (t - first) / p.chunk, chunks = (p.row_len - 1) / p.chunk + 1;
    for (int64_t c = first_channel(); c < first_channel() + channels(); ++c) {
      for (int n = 0; n < p.state; ++n) {
        float state = p.states[(row * chunks + chunk) * p.states_stride + element(c, n)];
        for (int64_t k = first + chunk * p.chunk; k < t; ++k) {
          state = decay(k, c / p.head_dim) * (fresh(k) ? 0.0f : state) + added(k, c, n);
        }
        before[element(c, n)] = fresh(t) ? 0.0f : state;
      }
    }
  }
};

__device__ __forceinline__ void ssd_scan_bwd_naive(const SsdScanBwdParams& q) {
  const SsdScanFwdParams& p = q.fwd;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = item / p.groups, all = static_cast<int64_t>(p.heads) * p.head_dim * p.state;
  if (row >= p.rows) return;
  const Group g{p, row, item % p.groups, row * p.row_len, p.log_decay + row * all};
  float* const gradient = q.dstates + row * all;  // G_t
  const int64_t head0 = g.first_channel() / p.head_dim, heads = p.heads / p.groups, last = g.first + p.row_len - 1;
  for (int64_t h = head0; h < head0 + heads; ++h) {
    q.da_partial[row * p.heads + h] = 0.0f;
    q.dd_partial[row * p.heads + h] = 0.0f;
  }
  for (int64_t i = g.first_channel() * p.state; i < (g.first_channel() + g.channels()) * p.state; ++i) {
    gradient[i] = q.dstate_out ? q.dstate_out[row * q.dstate_out_stride + i] : 0.0f;
  }
  for (int64_t t = last; t >= g.first; --t) {
    g.find_before(t);
    for (int64_t h = head0; h < head0 + heads; ++h) {
      const float a = -expf(p.a_log[h]), delta = g.delta(t, h);
      float direct = 0.0f, overlap = 0.0f, dd = 0.0f;
      for (int64_t c = h * p.head_dim; c < (h + 1) * p.head_dim; ++c) {
        const float dy = at(q.dy, t * q.dy_stride + c), x = at(p.x, t * p.x_stride + c);
        float through = 0.0f;
        for (int n = 0; n < p.state; ++n) {
          const int64_t i = g.element(c, n), column = g.group * p.state + n;
          gradient[i] += dy * at(p.c, t * p.c_stride + column);
          through += gradient[i] * at(p.b, t * p.b_stride + column);
          overlap += gradient[i] * g.before[i];
        }
        static_cast<bf16*>(q.dx)[t * q.dx_stride + c] = round_to<bf16>(delta * through + p.d[h] * dy);
        direct += x * through;
        dd += x * dy;
      }
      const float decayed = g.decay(t, h) * overlap;
      q.ddelta[t * q.ddelta_stride + h] = direct + a * decayed;
      q.da_partial[row * p.heads + h] += a * delta * decayed;
      q.dd_partial[row * p.heads + h] += dd;
    }
    for (int n = 0; n < p.state; ++n) {
      float db = 0.0f, dc = 0.0f;
      for (int64_t c = g.first_channel(); c < g.first_channel() + g.channels(); ++c) {
        const int64_t i = g.element(c, n), h = c / p.head_dim;
        const float state = g.decay(t, h) * g.before[i] + g.added(t, c, n);
        dc += state * at(q.dy, t * q.dy_stride + c);
        db += g.delta(t, h) * gradient[i] * at(p.x, t * p.x_stride + c);
        // For the token before; a document that starts here takes nothing from it.
        gradient[i] = p.start[t] == t && t > g.first ? 0.0f : g.decay(t, h) * gradient[i];
      }
      static_cast<bf16*>(q.db)[t * q.db_stride + g.group * p.state + n] = round_to<bf16>(db);
      static_cast<bf16*>(q.dc)[t * q.dc_stride + g.group * p.state + n] = round_to<bf16>(dc);
    }
  }
  if (!q.dstate_in) return;
  for (int64_t i = g.first_channel() * p.state; i < (g.first_channel() + g.channels()) * p.state; ++i) {
    q.dstate_in[row * q.dstate_in_stride + i] = gradient[i];
  }
}

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(ssd_scan_fwd_naive_bf16, SsdScanFwdParams, bf16, 128, 1, 0) { lightning::ssd_scan_fwd_naive(p); }
LIGHTNING_KERNEL(ssd_scan_bwd_naive_bf16, SsdScanBwdParams, bf16, 128, 1, 0) { lightning::ssd_scan_bwd_naive(p); }
