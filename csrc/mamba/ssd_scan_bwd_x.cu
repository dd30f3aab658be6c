// Gradients of x, the time steps and the decay of the scan, one block per chunk and head.
//
//   dxd_j = sum_{i>=j} K_ij dy_i + e^{l_last - l_j} G B_j       K_ij = (C_i . B_j) e^{l_i - l_j}      dx_j = delta_j dxd_j + D dy_j
//   T_ij  = K_ij delta_j (dy_i . x_j) for j < i                 u_j  = delta_j e^{l_last - l_j} x_j . G B_j
//   dl_i  = sum_j T_ij - sum_k T_ki + e^{l_i} dy_i . S C_i - u_i + [i = last] (e^{l_last} <S, G> + sum_j u_j)
//   then    r_k = sum_{i>=k} dl_i in k's piece,   ddelta_k = x_k . dxd_k + a r_k,   dA_log = a sum_k delta_k r_k,   dD = sum x . dy
//
// S is the state at the start of the chunk, for tokens of its first piece; G the gradient that arrives at its end, for
// tokens of its last piece. The terms of the diagonal, and u of the last token, would be added and subtracted in dl: they
// are left out, so that their rounding errors stay out as well. Row and column sums of T take the same numbers.
//
// | buffer     | shape       | dtype | written                     |   legend: t tokens, h heads, p head dim
// |------------|-------------|-------|-----------------------------|   rounding: S, G and K are rounded to bf16 for the
// | dx         | [t, h p]    | act   | overwritten                 |   tensor cores, T is not again; all sums are f32
// | ddelta     | [t, h]      | f32   | overwritten by the x kernel |   order: tiles of 64 tokens in order; inside a tile
// |            |             |       | (x . dxd), then completed   |   over the lanes and warps of a block
// | dlog_decay | [t, h]      | f32   | overwritten by the x kernel |
// | da_partial | [chunks, h] | f32   | overwritten by time_steps   |
// | dd_partial | [chunks, h] | f32   | overwritten by the x kernel |
//
// Launch: ssd_scan_bwd_x_*: rows chunks h blocks.  ssd_scan_bwd_time_steps: ceil(rows chunks h / 128) blocks.
#include "lightning/kernel.cuh"
#include "lightning/ssd.cuh"

namespace lightning::ssd {
namespace {

struct XShared {
  Tile left, right;
  TileDecay own, other;     // of the tokens j of the tile, and of the tokens i they act on
  float column[kWarps][kTile];  // sums of T over the rows j of a warp
  float z[kTile], through[kTile], pairs[kTile], direct[kTile];  // by token j: dy . S C, x . G B, sum_i T, x . dxd
  float sums[kWarps];
};

// Products of the lane's rows of two 64-column tiles, summed over the four lanes that share them.
__device__ __forceinline__ void add_row_dots(float (&to)[2], const Sums& sums, const mma::Operand& with, int row0, int col0) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + Sums::row_of(half);
    float dot = 0.0f;
    if (row < with.rows) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int col = col0 + Sums::col_of(i) + e;
          if (col < with.cols) dot = fmaf(sums.v[i][2 * half + e], to_f32(with.data[row * with.stride + col]), dot);
        }
      }
    }
    dot += __shfl_xor_sync(kAllLanes, dot, 1);
    dot += __shfl_xor_sync(kAllLanes, dot, 2);
    to[half] += dot;
  }
}

// One of the four lanes of each row leaves its value.
__device__ __forceinline__ void put_rows(float* to, const float (&value)[2]) {
  if (threadIdx.x % 4 != 0) return;
  to[Sums::row_of(0)] = value[0];
  to[Sums::row_of(1)] = value[1];
}

__device__ __forceinline__ void scan_bwd_x(const SsdScanBwdParams& q) {
  __shared__ XShared shared;
  const SsdScanFwdParams& p = q.fwd;
  const int head = static_cast<int>(blockIdx.x % p.heads), group = head / (p.heads / p.groups);
  const int64_t number = blockIdx.x / p.heads;
  const Chunk chunk(p, number);
  const int64_t channel = static_cast<int64_t>(head) * p.head_dim;
  const mma::Operand x = columns(p.x, p.x_stride, chunk, channel, p.head_dim);
  const mma::Operand dy = columns(q.dy, q.dy_stride, chunk, channel, p.head_dim);
  const mma::Operand b = columns(p.b, p.b_stride, chunk, static_cast<int64_t>(group) * p.state, p.state);
  const mma::Operand c = columns(p.c, p.c_stride, chunk, static_cast<int64_t>(group) * p.state, p.state);
  const float* const state = p.states + number * p.states_stride + channel * p.state;
  const float* const gradient = q.dstates + (number * p.heads + head) * p.head_dim * p.state;
  bf16* const dx = static_cast<bf16*>(q.dx) + chunk.first * q.dx_stride + channel;
  float* const dl = q.dlog_decay + chunk.first * p.heads + head;
  const int last = chunk.length - 1;
  const int last_piece = static_cast<int>(max(p.start[chunk.last()] - chunk.first, static_cast<int64_t>(0)));
  const float l_last = p.log_decay[chunk.last() * p.heads + head], d = p.d[head];
  float through_end = 0.0f;  // sum of u over the tokens that this thread finishes
  float dd = 0.0f;

#pragma unroll 1
  for (int j0 = 0; j0 < chunk.length; j0 += kTile) {
    __syncthreads();
    shared.own.load(p, chunk, head, j0);
    __syncthreads();
    const RowDecay rows_j(p, chunk, head, j0);
    float z[2] = {}, through[2] = {}, pairs[2] = {}, direct[2] = {};

#pragma unroll 1
    for (int p0 = 0; p0 < p.head_dim; p0 += kTile) {
      Sums dxd;
      dxd.clear();
      add_product(dxd, shared.left, shared.right, c, j0, state, p.head_dim, p0);
      add_row_dots(z, dxd, dy, j0, p0);
      dxd.clear();
      add_product(dxd, shared.left, shared.right, b, j0, gradient, p.head_dim, p0);
      add_row_dots(through, dxd, x, j0, p0);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool reaches = rows_j.row[half] >= last_piece && rows_j.row[half] < chunk.length;
        const float behind = reaches ? expf(l_last - rows_j.l[half]) : 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) dxd.v[i][2 * half] *= behind, dxd.v[i][2 * half + 1] *= behind;
      }

#pragma unroll 1
      for (int i0 = j0; i0 < chunk.length; i0 += kTile) {
        // Rows j, columns i.
        Sums g;
        g.clear();
        add_product(g, shared.left, shared.right, b, j0, c, i0);
        __syncthreads();
        shared.other.load(p, chunk, head, i0);
        stage(shared.right, dy, i0, p0);
        __syncthreads();
        g.for_each([&](int half, int col, float& v) {
          const bool pair = rows_j.row[half] <= i0 + col && rows_j.row[half] >= shared.other.first[col];
          v = pair ? v * expf(shared.other.l[col] - rows_j.l[half]) : 0.0f;
        });
        const RoundedSums k_ij = g.rounded();
        dxd.add_nn(k_ij, shared.right);
        if (p0 > 0) continue;

        g.clear();
        add_product(g, shared.left, shared.right, x, j0, dy, i0);
        // g becomes T.
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int col = Sums::col_of(i) + e % 2, half = e / 2;
            const float t = g.v[i][e] * k_ij.get(i, e) * shared.own.delta[Sums::row_of(half)];
            g.v[i][e] = rows_j.row[half] < i0 + col ? t : 0.0f;
          }
        }
        // Column sums: over the lanes with the same columns, then over the warps.
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            pairs[0] += g.v[i][e], pairs[1] += g.v[i][2 + e];
            float sum = g.v[i][e] + g.v[i][2 + e];
#pragma unroll
            for (int distance = 4; distance < kWarpSize; distance *= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
            if (threadIdx.x % kWarpSize < 4) shared.column[threadIdx.x / kWarpSize][Sums::col_of(i) + e] = sum;
          }
        }
        __syncthreads();
        const int i = i0 + static_cast<int>(threadIdx.x);
        if (threadIdx.x < kTile && i < chunk.length) {
          float sum = 0.0f;
#pragma unroll
          for (int warp = 0; warp < kWarps; ++warp) sum += shared.column[warp][threadIdx.x];
          // Every token of the chunk is met first in the round of the first tile.
          float* const to = dl + static_cast<int64_t>(i) * p.heads;
          *to = j0 == 0 ? sum : *to + sum;
        }
      }

      add_row_dots(direct, dxd, x, j0, p0);
      dxd.for_each([&](int half, int col, float v) {
        const int row = rows_j.row[half];
        if (row < chunk.length && p0 + col < p.head_dim) {
          const float dy_v = to_f32(dy.data[row * dy.stride + p0 + col]);
          const float delta = shared.own.delta[Sums::row_of(half)];
          dx[row * q.dx_stride + p0 + col] = round_to<bf16>(delta * v + d * dy_v);
          dd = fmaf(to_f32(x.data[row * x.stride + p0 + col]), dy_v, dd);
        }
      });
    }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      pairs[half] += __shfl_xor_sync(kAllLanes, pairs[half], 1);
      pairs[half] += __shfl_xor_sync(kAllLanes, pairs[half], 2);
    }
    put_rows(shared.z, z);
    put_rows(shared.through, through);
    put_rows(shared.pairs, pairs);
    put_rows(shared.direct, direct);
    __syncthreads();
    const int k = threadIdx.x, j = j0 + k;
    if (k < kTile && j < chunk.length) {
      const float l = shared.own.l[k];
      float own = -shared.pairs[k];
      if (shared.own.first[k] <= 0) own = fmaf(expf(l), shared.z[k], own);
      if (j >= last_piece && j != last) {
        const float u = shared.own.delta[k] * expf(l_last - l) * shared.through[k];
        own -= u;
        through_end += u;
      }
      dl[static_cast<int64_t>(j) * p.heads] += own;
      q.ddelta[(chunk.first + j) * q.ddelta_stride + head] = shared.direct[k];
    }
  }

  // What the last token gets: the state that passes through the chunk, and all that was added to it.
  float overlap = 0.0f;
  if (p.start[chunk.last()] <= chunk.first) {
    for (int i = threadIdx.x; i < p.head_dim * p.state; i += kThreads) overlap = fmaf(state[i], gradient[i], overlap);
    overlap *= expf(l_last);
  }
  __syncthreads();
  const float end = block_sum<kWarps>(overlap + through_end, shared.sums);
  const float dd_sum = block_sum<kWarps>(dd, shared.z);
  // The thread that wrote the last token's sum completes it.
  if (threadIdx.x == last % kTile) dl[static_cast<int64_t>(last) * p.heads] += end;
  if (threadIdx.x == 0) q.dd_partial[number * p.heads + head] = dd_sum;
}

}  // namespace
}  // namespace lightning::ssd

LIGHTNING_KERNEL(ssd_scan_bwd_x_bf16, SsdScanBwdParams, bf16, 128, 2, 0) { lightning::ssd::scan_bwd_x(p); }

// A thread takes one head of one chunk, from its last token to its first.
LIGHTNING_KERNEL(ssd_scan_bwd_time_steps, SsdScanBwdParams, any, 128, 4, 0) {
  using namespace lightning::ssd;
  const SsdScanFwdParams& f = p.fwd;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t number = item / f.heads;
  const int head = static_cast<int>(item % f.heads);
  if (number >= f.rows * Chunk::chunks_per_row(f)) return;
  const Chunk chunk(f, number);
  const float a = -expf(f.a_log[head]);
  float r = 0.0f, sum = 0.0f;
#pragma unroll 4
  for (int64_t t = chunk.last(); t >= chunk.first; --t) {
    r += p.dlog_decay[t * f.heads + head];
    p.ddelta[t * p.ddelta_stride + head] += a * r;
    sum += a * (f.delta[t * f.delta_stride + head] * r);
    // What lies before is another piece.
    if (f.start[t] == t) r = 0.0f;
  }
  p.da_partial[number * f.heads + head] = sum;
}
