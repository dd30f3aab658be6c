// Gradients of B and C of the scan, which the heads of a group share.
//
//   dC_i = sum_h [ e^{l_i} S^T dy_i ] + sum_{j<=i} W_ij B_j                 W_ij = sum_h (dy_i . x_j) e^{l_i - l_j} delta_j
//   dB_j = sum_h [ delta_j e^{l_last - l_j} G^T x_j ] + sum_{i>=j} W_ij C_i
//
// S is the state at the start of the chunk, for tokens i of its first piece; G the gradient that arrives at its end, for
// tokens j of its last piece. Pairs are of one piece.
//
// | buffer | shape    | dtype | written     |   legend: t tokens, g groups, h heads of a group, n state
// |--------|----------|-------|-------------|   rounding: S, G, W and the scaled rows of dy and x are rounded to bf16 for
// | dc, db | [t, g n] | act   | overwritten |   the tensor cores, all sums are f32   order: heads, then tokens, in order
//
// Launch: ssd_scan_bwd_c_*, ssd_scan_bwd_b_*: (rows chunks g, ceil(chunk / 64) ceil(n / 64)) blocks.
#include "lightning/kernel.cuh"
#include "lightning/ssd.cuh"

namespace lightning::ssd {
namespace {

struct BcShared {
  Tile left, right;
  TileDecay decay;
};

// What both kernels take from their block number.
struct Item {
  int group, heads;
  int64_t number;  // of the chunk
  Chunk chunk;
  int row0, n0;  // tile of tokens of the chunk, tile of the state

  __device__ __forceinline__ explicit Item(const SsdScanFwdParams& p)
      : group(static_cast<int>(blockIdx.x % p.groups)),
        heads(p.heads / p.groups),
        number(blockIdx.x / p.groups),
        chunk(p, number) {
    const int n_tiles = (p.state + kTile - 1) / kTile;
    row0 = static_cast<int>(blockIdx.y) / n_tiles * kTile;
    n0 = static_cast<int>(blockIdx.y) % n_tiles * kTile;
  }

  __device__ __forceinline__ mma::Operand of_group(const SsdScanFwdParams& p, const void* data, int64_t stride) const {
    return columns(data, stride, chunk, static_cast<int64_t>(group) * p.state, p.state);
  }
  __device__ __forceinline__ mma::Operand of_head(const SsdScanFwdParams& p, const void* data, int64_t stride,
                                                  int head) const {
    return columns(data, stride, chunk, static_cast<int64_t>(head) * p.head_dim, p.head_dim);
  }
};

// sums += rows of `a` times scale(row), times a [p, n] state.
template <class Scale>
__device__ __forceinline__ void add_through_state(Sums& sums, BcShared& shared, const mma::Operand& a, const Item& item,
                                                  const float* state, int n, Scale scale) {
#pragma unroll 1
  for (int p0 = 0; p0 < a.cols; p0 += kTile) {
    __syncthreads();
    stage_scaled(shared.left, a, item.row0, p0, scale);
    stage_f32(shared.right, state, a.cols, n, p0, item.n0);
    __syncthreads();
    sums.add_nn(shared.left, shared.right);
  }
}

__device__ __forceinline__ void store_rows(void* to, int64_t stride, const SsdScanFwdParams& p, const Item& item,
                                           Sums& sums) {
  bf16* const out = static_cast<bf16*>(to) + item.chunk.first * stride + static_cast<int64_t>(item.group) * p.state;
  sums.for_each([&](int half, int col, float v) {
    const int row = item.row0 + Sums::row_of(half), n = item.n0 + col;
    if (row < item.chunk.length && n < p.state) out[row * stride + n] = round_to<bf16>(v);
  });
}

__device__ __forceinline__ void scan_bwd_c(const SsdScanBwdParams& q) {
  __shared__ BcShared shared;
  const SsdScanFwdParams& p = q.fwd;
  const Item item(p);
  const Chunk& chunk = item.chunk;
  if (item.row0 >= chunk.length) return;
  const mma::Operand b = item.of_group(p, p.b, p.b_stride);

  Sums dc;
  dc.clear();
#pragma unroll 1
  for (int k = 0; k < item.heads; ++k) {
    const int head = item.group * item.heads + k;
    const mma::Operand dy = item.of_head(p, q.dy, q.dy_stride, head);
    __syncthreads();
    shared.decay.load(p, chunk, head, item.row0);
    __syncthreads();
    const float* const state = p.states + item.number * p.states_stride + static_cast<int64_t>(head) * p.head_dim * p.state;
    add_through_state(dc, shared, dy, item, state, p.state, [&](int row) {
      return shared.decay.first[row] <= 0 ? expf(shared.decay.l[row]) : 0.0f;
    });
  }

#pragma unroll 1
  for (int j0 = 0; j0 <= item.row0; j0 += kTile) {
    Sums w;
    w.clear();
#pragma unroll 1
    for (int k = 0; k < item.heads; ++k) {
      const int head = item.group * item.heads + k;
      const RowDecay rows_i(p, chunk, head, item.row0);
      Sums g;
      g.clear();
      add_product(g, shared.left, shared.right, item.of_head(p, q.dy, q.dy_stride, head), item.row0,
                  item.of_head(p, p.x, p.x_stride, head), j0);
      shared.decay.load(p, chunk, head, j0);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int col = Sums::col_of(i) + e % 2, half = e / 2;
          if (rows_i.pairs_with(half, j0 + col)) {
            w.v[i][e] += g.v[i][e] * expf(rows_i.l[half] - shared.decay.l[col]) * shared.decay.delta[col];
          }
        }
      }
    }
    __syncthreads();
    stage(shared.right, b, j0, item.n0);
    __syncthreads();
    dc.add_nn(w.rounded(), shared.right);
  }
  store_rows(q.dc, q.dc_stride, p, item, dc);
}

__device__ __forceinline__ void scan_bwd_b(const SsdScanBwdParams& q) {
  __shared__ BcShared shared;
  const SsdScanFwdParams& p = q.fwd;
  const Item item(p);
  const Chunk& chunk = item.chunk;
  if (item.row0 >= chunk.length) return;
  const mma::Operand c = item.of_group(p, p.c, p.c_stride);
  const int last_piece = static_cast<int>(max(p.start[chunk.last()] - chunk.first, static_cast<int64_t>(0)));

  Sums db;
  db.clear();
#pragma unroll 1
  for (int k = 0; k < item.heads; ++k) {
    const int head = item.group * item.heads + k;
    const float l_last = p.log_decay[chunk.last() * p.heads + head];
    const mma::Operand x = item.of_head(p, p.x, p.x_stride, head);
    __syncthreads();
    shared.decay.load(p, chunk, head, item.row0);
    __syncthreads();
    const float* const gradient = q.dstates + (item.number * p.heads + head) * p.head_dim * p.state;
    add_through_state(db, shared, x, item, gradient, p.state, [&](int row) {
      const int j = item.row0 + row;
      if (j < last_piece || j >= chunk.length) return 0.0f;
      return expf(l_last - shared.decay.l[row]) * shared.decay.delta[row];
    });
  }

#pragma unroll 1
  for (int i0 = item.row0; i0 < chunk.length; i0 += kTile) {
    // The transpose of W: the lane's rows are tokens j.
    Sums w;
    w.clear();
#pragma unroll 1
    for (int k = 0; k < item.heads; ++k) {
      const int head = item.group * item.heads + k;
      Sums g;
      g.clear();
      add_product(g, shared.left, shared.right, item.of_head(p, p.x, p.x_stride, head), item.row0,
                  item.of_head(p, q.dy, q.dy_stride, head), i0);
      shared.decay.load(p, chunk, head, i0);
      __syncthreads();
      const RowDecay rows_j(p, chunk, head, item.row0);
      float delta[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t t = chunk.first + rows_j.row[half];
        delta[half] = rows_j.row[half] < chunk.length ? p.delta[t * p.delta_stride + head] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int col = Sums::col_of(i) + e % 2, half = e / 2;
          if (rows_j.row[half] <= i0 + col && rows_j.row[half] >= shared.decay.first[col]) {
            w.v[i][e] += g.v[i][e] * expf(shared.decay.l[col] - rows_j.l[half]) * delta[half];
          }
        }
      }
    }
    __syncthreads();
    stage(shared.right, c, i0, item.n0);
    __syncthreads();
    db.add_nn(w.rounded(), shared.right);
  }
  store_rows(q.db, q.db_stride, p, item, db);
}

}  // namespace
}  // namespace lightning::ssd

LIGHTNING_KERNEL(ssd_scan_bwd_c_bf16, SsdScanBwdParams, bf16, 128, 2, 0) { lightning::ssd::scan_bwd_c(p); }
LIGHTNING_KERNEL(ssd_scan_bwd_b_bf16, SsdScanBwdParams, bf16, 128, 2, 0) { lightning::ssd::scan_bwd_b(p); }
