// The states of the scan at chunk boundaries, and their gradients.
//
//   log_decay_th   = sum of delta_k a_h from the start of t's piece to t,  a = -exp(A_log)
//   chunk states   S(chunk) = sum_j e^{l_last - l_j} delta_j x_j (x) B_j    over the last piece of the chunk
//   state pass     states[k] = S before chunk k,  S <- e^{l_last} S + S(chunk);  no S passes a document start
//   backward       G(chunk) = sum_i e^{l_i} dy_i (x) C_i over the first piece, if the chunk does not start with a document;
//                  dstates[k] = G after chunk k,  G <- e^{l_last} G + G(chunk), from the last chunk to the first
//
// | buffer     | shape               | dtype | written                       |   legend: t tokens, h heads, p head dim,
// |------------|---------------------|-------|-------------------------------|   n state
// | log_decay  | [t, h]              | f32   | overwritten                   |
// | states     | [rows chunks, h p n]| f32   | overwritten by the chunk      |   rounding: the scaled rows of B and C are
// | dstates    | [rows chunks, h p n]| f32   | kernels, then by the passes   |   rounded to bf16 for the tensor cores, all
// | state_out, | [rows, h p n]       | f32   | overwritten by the passes,    |   sums are f32
// | dstate_in  |                     |       | where there is one            |   order: tokens, then chunks, in order
//
// Launch: ssd_log_decay: ceil(rows chunks h / 128) blocks.
//         ssd_chunk_states_*, ssd_chunk_state_gradients_*: (rows chunks h, ceil(p / 64) ceil(n / 64)) blocks.
//         ssd_state_pass, ssd_state_gradient_pass: ceil(rows h p n / 256) blocks.
#include "lightning/kernel.cuh"
#include "lightning/ssd.cuh"

namespace lightning::ssd {
namespace {

// out[p, n] = sum_t weight(t) a_t[p] b_t[n] for one tile of p and n. weight takes the token's number in the chunk.
template <class Weight>
__device__ __forceinline__ void weighted_outer(Tile& tile_a, Tile& tile_b, const mma::Operand& a, const mma::Operand& b,
                                               int tiles, float* out, Weight weight) {
  const int n_tiles = (b.cols + kTile - 1) / kTile;
  const int p0 = static_cast<int>(blockIdx.y) / n_tiles * kTile, n0 = static_cast<int>(blockIdx.y) % n_tiles * kTile;
  Sums sums;
  sums.clear();
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    __syncthreads();
    stage(tile_a, a, tile * kTile, p0);
    stage_scaled(tile_b, b, tile * kTile, n0, [&](int row) { return weight(tile * kTile + row); });
    __syncthreads();
    sums.add_tn(tile_a, tile_b);
  }
  sums.for_each([&](int half, int col, float v) {
    const int64_t p = p0 + Sums::row_of(half), n = n0 + col;
    if (p < a.cols && n < b.cols) out[p * b.cols + n] = v;
  });
}

__device__ __forceinline__ void chunk_states(const SsdScanFwdParams& p) {
  __shared__ Tile x_tile, b_tile;
  const int head = static_cast<int>(blockIdx.x % p.heads), group = head / (p.heads / p.groups);
  const int64_t number = blockIdx.x / p.heads;
  const Chunk chunk(p, number);
  const mma::Operand x = columns(p.x, p.x_stride, chunk, static_cast<int64_t>(head) * p.head_dim, p.head_dim);
  const mma::Operand b = columns(p.b, p.b_stride, chunk, static_cast<int64_t>(group) * p.state, p.state);
  const int piece = static_cast<int>(max(p.start[chunk.last()] - chunk.first, static_cast<int64_t>(0)));
  const float l_last = p.log_decay[chunk.last() * p.heads + head];
  float* const out = p.states + number * p.states_stride + static_cast<int64_t>(head) * p.head_dim * p.state;
  weighted_outer(x_tile, b_tile, x, b, chunk.tiles(), out, [&](int j) {
    if (j < piece || j >= chunk.length) return 0.0f;
    const int64_t t = chunk.first + j;
    return expf(l_last - p.log_decay[t * p.heads + head]) * p.delta[t * p.delta_stride + head];
  });
}

__device__ __forceinline__ void chunk_state_gradients(const SsdScanBwdParams& q) {
  __shared__ Tile dy_tile, c_tile;
  const SsdScanFwdParams& p = q.fwd;
  const int head = static_cast<int>(blockIdx.x % p.heads), group = head / (p.heads / p.groups);
  const int64_t number = blockIdx.x / p.heads;
  const Chunk chunk(p, number);
  const mma::Operand dy = columns(q.dy, q.dy_stride, chunk, static_cast<int64_t>(head) * p.head_dim, p.head_dim);
  const mma::Operand c = columns(p.c, p.c_stride, chunk, static_cast<int64_t>(group) * p.state, p.state);
  float* const out = q.dstates + (number * p.heads + head) * p.head_dim * p.state;
  weighted_outer(dy_tile, c_tile, dy, c, chunk.tiles(), out, [&](int i) {
    const int64_t t = chunk.first + i;
    return i < chunk.length && p.start[t] <= chunk.first ? expf(p.log_decay[t * p.heads + head]) : 0.0f;
  });
}

__device__ __forceinline__ void state_pass(const SsdScanFwdParams& p) {
  const int64_t elements = state_elements(p);
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = item / elements, element = item % elements;
  if (row >= p.rows) return;
  const int head = static_cast<int>(element / (static_cast<int64_t>(p.head_dim) * p.state));
  const int chunks = Chunk::chunks_per_row(p);
  float state = p.state_in ? p.state_in[row * p.state_in_stride + element] : 0.0f;
  for (int k = 0; k < chunks; ++k) {
    const Chunk chunk(p, row * chunks + k);
    if (starts_fresh(p, chunk) && (k > 0 || !p.state_in)) state = 0.0f;
    float* const slot = p.states + (row * chunks + k) * p.states_stride + element;
    const float own = *slot;
    *slot = state;
    state = fmaf(chunk_decay(p, chunk, head), state, own);
  }
  if (p.state_out) p.state_out[row * p.state_out_stride + element] = state;
}

__device__ __forceinline__ void state_gradient_pass(const SsdScanBwdParams& q) {
  const SsdScanFwdParams& p = q.fwd;
  const int64_t elements = state_elements(p);
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = item / elements, element = item % elements;
  if (row >= p.rows) return;
  const int head = static_cast<int>(element / (static_cast<int64_t>(p.head_dim) * p.state));
  const int chunks = Chunk::chunks_per_row(p);
  float gradient = q.dstate_out ? q.dstate_out[row * q.dstate_out_stride + element] : 0.0f;
  for (int k = chunks - 1; k >= 0; --k) {
    const Chunk chunk(p, row * chunks + k);
    float* const slot = q.dstates + (row * chunks + k) * elements + element;
    const float own = *slot;
    *slot = gradient;
    gradient = fmaf(chunk_decay(p, chunk, head), gradient, own);
    if (starts_fresh(p, chunk) && k > 0) gradient = 0.0f;
  }
  if (q.dstate_in) q.dstate_in[row * q.dstate_in_stride + element] = gradient;
}

}  // namespace
}  // namespace lightning::ssd

// A thread takes one head of one chunk.
LIGHTNING_KERNEL(ssd_log_decay, SsdScanFwdParams, any, 128, 4, 0) {
  using namespace lightning::ssd;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t number = item / p.heads;
  const int head = static_cast<int>(item % p.heads);
  if (number >= p.rows * Chunk::chunks_per_row(p)) return;
  const Chunk chunk(p, number);
  const float a = -expf(p.a_log[head]);
  float sum = 0.0f;
#pragma unroll 4
  for (int64_t t = chunk.first; t <= chunk.last(); ++t) {
    if (p.start[t] == t) sum = 0.0f;
    sum += p.delta[t * p.delta_stride + head] * a;
    p.log_decay[t * p.heads + head] = sum;
  }
}

LIGHTNING_KERNEL(ssd_chunk_states_bf16, SsdScanFwdParams, bf16, 128, 4, 0) { lightning::ssd::chunk_states(p); }
LIGHTNING_KERNEL(ssd_chunk_state_gradients_bf16, SsdScanBwdParams, bf16, 128, 4, 0) {
  lightning::ssd::chunk_state_gradients(p);
}
LIGHTNING_KERNEL(ssd_state_pass, SsdScanFwdParams, any, 256, 4, 0) { lightning::ssd::state_pass(p); }
LIGHTNING_KERNEL(ssd_state_gradient_pass, SsdScanBwdParams, any, 256, 4, 0) { lightning::ssd::state_gradient_pass(p); }
