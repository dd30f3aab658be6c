// Document bounds of packed rows, and the roll of multi-token prediction that stops at them.
//
//   start_t = first token of the document of t       end_t = one past its last token
//   dst_t = src_{t+1} inside a document, 0 at its last token
//
// Documents are cut at the offsets of cu_seqlens, at every multiple of row_len, and at t.
//
// | buffer     | shape | dtype | written     |
// |------------|-------|-------|-------------|
// | cu_seqlens | [m]   | i32   | read        |   ascending; repeated offsets (empty documents) and offsets outside of
// | start, end | [t]   | i32   | overwritten |   (0, t) cut nothing
// | src        | [t]   | i32   | read        |
// | dst        | [t]   | i32   | overwritten |
//
// Launch: ceil(t / 256) blocks, one thread per token: a binary search for the cuts around it. Any t >= 0, m >= 0.
#include "lightning/kernel.cuh"
#include "lightning/params/embed.h"

LIGHTNING_KERNEL(segments, SegmentsParams, any, 256, 4, 0) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= p.t) return;
  // The number of offsets that are at most t.
  int64_t low = 0, high = p.m;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (p.cu_seqlens[middle] <= t) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  int64_t start = t / p.row_len * p.row_len;
  int64_t end = min(start + p.row_len, p.t);
  if (low > 0) start = max(start, static_cast<int64_t>(p.cu_seqlens[low - 1]));
  if (low < p.m) end = min(end, static_cast<int64_t>(p.cu_seqlens[low]));
  p.start[t] = static_cast<int32_t>(start);
  p.end[t] = static_cast<int32_t>(end);
}

LIGHTNING_KERNEL(roll, RollParams, any, 256, 4, 0) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= p.t) return;
  p.dst[t] = t + 1 < p.end[t] ? p.src[t + 1] : 0;
}
