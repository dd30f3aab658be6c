// Stable counting sort the plain way: one thread per digit walks all items. The rung that counting_sort.cu is compared
// with; buffers as there, `count` is not used.
//
// Launch: ceil(digits / 128) blocks.
#include "lightning/kernel.cuh"
#include "lightning/params/sort.h"

LIGHTNING_KERNEL(sort_naive, SortPassParams, any, 128, 1, 0) {
  const int own = blockIdx.x * blockDim.x + threadIdx.x;
  if (own >= p.digits) return;
  auto item = [&](int64_t i) { return p.from ? p.from[i] : static_cast<int32_t>(i); };
  auto digit = [&](int64_t i) {
    const int32_t key = p.key[item(i)];
    return ((key < 0 || key >= p.limit ? p.limit : key) >> p.shift) & p.mask;
  };
  int position = 0;
  for (int64_t i = 0; i < p.n; ++i) position += digit(i) < own;
  if (p.start) p.start[own] = position;
  for (int64_t i = 0; i < p.n; ++i) {
    if (digit(i) != own) continue;
    p.out[position] = item(i);
    if (p.inverse) p.inverse[item(i)] = position;
    ++position;
  }
}
