// The outputs of the scan from the states at chunk starts.
//
//   y_i = act( e^{l_i} S C_i + sum_{j<=i} (C_i . B_j) e^{l_i - l_j} delta_j x_j + D x_i )
//
// S is the state at the start of the chunk, for tokens of its first piece only; j runs over the piece of i.
//
// | buffer | shape    | dtype | written     |   legend: t tokens, h heads, p head dim
// |--------|----------|-------|-------------|   rounding: S and the decayed scores are rounded to bf16 for the tensor
// | y      | [t, h p] | act   | overwritten |   cores, all sums are f32   order: the state, then tokens in order
//
// Launch: ssd_scan_fwd_*: (rows chunks h, ceil(chunk / 64) ceil(p / 64)) blocks.
#include "lightning/kernel.cuh"
#include "lightning/ssd.cuh"

namespace lightning::ssd {
namespace {

struct FwdShared {
  Tile left, right;
  TileDecay j;
};

__device__ __forceinline__ void scan_fwd(const SsdScanFwdParams& p) {
  __shared__ FwdShared shared;
  const int head = static_cast<int>(blockIdx.x % p.heads), group = head / (p.heads / p.groups);
  const int64_t number = blockIdx.x / p.heads;
  const Chunk chunk(p, number);
  const int p_tiles = (p.head_dim + kTile - 1) / kTile;
  const int i_tile = static_cast<int>(blockIdx.y) / p_tiles, p0 = static_cast<int>(blockIdx.y) % p_tiles * kTile;
  if (i_tile >= chunk.tiles()) return;
  const int i0 = i_tile * kTile;
  const int64_t channel = static_cast<int64_t>(head) * p.head_dim;
  const mma::Operand x = columns(p.x, p.x_stride, chunk, channel, p.head_dim);
  const mma::Operand b = columns(p.b, p.b_stride, chunk, static_cast<int64_t>(group) * p.state, p.state);
  const mma::Operand c = columns(p.c, p.c_stride, chunk, static_cast<int64_t>(group) * p.state, p.state);

  const RowDecay rows_i(p, chunk, head, i0);

  Sums y;
  y.clear();
  const float* const state = p.states + number * p.states_stride + channel * p.state;
  add_product(y, shared.left, shared.right, c, i0, state, p.head_dim, p0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float decay = rows_i.since_chunk_start(half);
#pragma unroll
    for (int i = 0; i < 8; ++i) y.v[i][2 * half] *= decay, y.v[i][2 * half + 1] *= decay;
  }

#pragma unroll 1
  for (int j0 = 0; j0 <= i0; j0 += kTile) {
    Sums scores;
    scores.clear();
    add_product(scores, shared.left, shared.right, c, i0, b, j0);
    __syncthreads();
    shared.j.load(p, chunk, head, j0);
    stage(shared.right, x, j0, p0);
    __syncthreads();
    scores.for_each([&](int half, int col, float& v) {
      v = rows_i.pairs_with(half, j0 + col) ? v * expf(rows_i.l[half] - shared.j.l[col]) * shared.j.delta[col] : 0.0f;
    });
    y.add_nn(scores.rounded(), shared.right);
  }

  const float d = p.d[head];
  bf16* const out = static_cast<bf16*>(p.y) + chunk.first * p.y_stride + channel;
  y.for_each([&](int half, int col, float v) {
    const int i = i0 + Sums::row_of(half), channel_of_head = p0 + col;
    if (i < chunk.length && channel_of_head < p.head_dim) {
      const float direct = d * to_f32(x.data[i * x.stride + channel_of_head]);
      out[i * p.y_stride + channel_of_head] = round_to<bf16>(v + direct);
    }
  });
}

}  // namespace
}  // namespace lightning::ssd

LIGHTNING_KERNEL(ssd_scan_fwd_bf16, SsdScanFwdParams, bf16, 128, 2, 0) { lightning::ssd::scan_fwd(p); }
