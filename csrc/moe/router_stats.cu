// Counts of the selection and the sequence auxiliary loss. Padding tokens count nowhere.
//
//   count_re = #{t of row r : e in idx_t}        counts_e += sum_r count_re
//   f_re = #{t of row r : e in plain_t}          q_te = s_te / S_t
//   L_r = e_count / (k T_r^2) sum_e f_re sum_t q_te, 0 for a row of padding         metric += coefficient mean_r L_r
//
// | buffer     | shape         | dtype | written                             |   legend: t tokens, e experts, k experts
// |------------|---------------|-------|-------------------------------------|   per token, T tokens that are no padding
// | part_*     | [rows chunks, e] |    | workspace; part_tokens has one column |
// | row_counts | [rows, e]     | i32   | overwritten                         |   rounding: f32, the metric f64
// | counts     | [e]           | i32   | added to                            |   order: q over the 64 tokens of a chunk,
// | stats      | [rows, e + 2] | f32   | overwritten: f, T, L of every row   |   then chunks, then experts, then rows,
// | metric     | [1]           | f64   | added to                            |   each in ascending order
//
// Launch, in this order: router_part: rows chunks blocks.  router_rows: rows blocks.  router_totals: 1 block.
#include "lightning/kernel.cuh"
#include "lightning/params/moe.h"
#include "lightning/exact.cuh"

namespace lightning {
namespace {

constexpr int kMaxExperts = 1024;
constexpr int kChunk = 64;

}  // namespace
}  // namespace lightning

LIGHTNING_KERNEL(router_part, RouterStatsParams, any, 128, 8, 0) {
  using namespace lightning;
  __shared__ int count[kMaxExperts], plain[kMaxExperts];
  __shared__ int tokens;
  const int64_t part = blockIdx.x;
  const int64_t in_row = part % p.chunks * kChunk;
  const int64_t first = part / p.chunks * p.row_len + in_row;
  const int length = static_cast<int>(min(static_cast<int64_t>(kChunk), p.row_len - in_row));
  for (int e = threadIdx.x; e < p.e; e += blockDim.x) count[e] = plain[e] = 0;
  if (threadIdx.x == 0) tokens = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < length * p.k; i += blockDim.x) {
    const int64_t t = first + i / p.k;
    const int j = i % p.k;
    if (p.padding && p.padding[t] != 0) continue;
    if (j == 0) atomicAdd(&tokens, 1);
    atomicAdd(&count[p.idx[t * p.idx_stride + j]], 1);
    if (p.plain) atomicAdd(&plain[p.plain[t * p.k + j]], 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) p.part_tokens[part] = tokens;
  for (int e = threadIdx.x; e < p.e; e += blockDim.x) {
    p.part_count[part * p.e + e] = count[e];
    if (!p.plain) continue;
    p.part_plain[part * p.e + e] = plain[e];
    float q = 0.0f;
    for (int64_t t = first; t < first + length; ++t) {
      if (p.padding && p.padding[t] != 0) continue;
      q += sigmoid_exact(p.logits[t * p.logits_stride + e]) / p.total[t];
    }
    p.part_q[part * p.e + e] = q;
  }
}

LIGHTNING_KERNEL(router_rows, RouterStatsParams, any, 128, 8, 0) {
  using namespace lightning;
  __shared__ float product[kMaxExperts];
  const int64_t row = blockIdx.x;
  float* const stats = p.plain ? p.stats + row * p.stats_stride : nullptr;
  for (int e = threadIdx.x; e < p.e; e += blockDim.x) {
    int count = 0, plain = 0;
    float q = 0.0f;
    for (int64_t part = row * p.chunks; part < (row + 1) * p.chunks; ++part) {
      count += p.part_count[part * p.e + e];
      if (!stats) continue;
      plain += p.part_plain[part * p.e + e];
      q += p.part_q[part * p.e + e];
    }
    p.row_counts[row * p.row_counts_stride + e] = count;
    if (!stats) continue;
    stats[e] = static_cast<float>(plain);
    product[e] = static_cast<float>(plain) * q;
  }
  if (!stats) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int tokens = 0;
  for (int64_t part = row * p.chunks; part < (row + 1) * p.chunks; ++part) tokens += p.part_tokens[part];
  float pairs = 0.0f;
  for (int e = 0; e < p.e; ++e) pairs += product[e];
  const float all = static_cast<float>(tokens);
  const float ratio = static_cast<float>(static_cast<double>(p.e) / p.k);
  stats[p.e] = all;
  stats[p.e + 1] = tokens > 0 ? ratio / (all * all) * pairs : 0.0f;
}

LIGHTNING_KERNEL(router_totals, RouterStatsParams, any, 128, 1, 0) {
  for (int e = threadIdx.x; p.counts && e < p.e; e += blockDim.x) {
    int count = 0;
    for (int64_t row = 0; row < p.rows; ++row) count += p.row_counts[row * p.row_counts_stride + e];
    p.counts[e] += count;
  }
  if (p.plain && threadIdx.x == 0) {
    double loss = 0.0;
    for (int64_t row = 0; row < p.rows; ++row) loss += p.stats[row * p.stats_stride + p.e + 1];
    *p.metric += p.coefficient * loss / static_cast<double>(max(p.rows, static_cast<int64_t>(1)));
  }
}
