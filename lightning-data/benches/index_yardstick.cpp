// What the index helpers of the public stack compute, written anew as plain loops: the yardstick of the `data` benchmark.
// Usage: index_yardstick DOCUMENTS SEQUENCE_LENGTH PICKS SOURCES...   Prints "name seconds checksum" lines.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

namespace {

// The same stream of lengths and documents as the benchmark makes.
struct Stream {
  uint64_t state;
  uint32_t next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state >> 33);
  }
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sample_index(int64_t documents, int64_t sequence_length) {
  Stream lengths_stream{1};
  std::vector<int32_t> lengths(documents), order(documents);
  int64_t tokens = 0;
  for (auto &n : lengths) {
    n = static_cast<int32_t>(lengths_stream.next() % 2000) + 1;
    tokens += n;
  }
  Stream order_stream{2};
  for (auto &d : order) d = static_cast<int32_t>(order_stream.next() % documents);
  int64_t total = 0;
  for (auto d : order) total += lengths[d];
  const double start = now();
  const int64_t samples = (total - 1) / sequence_length;
  std::vector<int32_t> rows(2 * (samples + 1));
  int64_t position = 0;
  int32_t offset = 0;
  for (int64_t s = 1; s <= samples; ++s) {
    int64_t remaining = sequence_length + 1;
    while (remaining > 0) {
      const int32_t length = lengths[order[position]] - offset;
      remaining -= length;
      if (remaining <= 0) {
        offset += static_cast<int32_t>(remaining + length - 1);
        break;
      }
      ++position;
      offset = 0;
    }
    rows[2 * s] = static_cast<int32_t>(position);
    rows[2 * s + 1] = offset;
  }
  const double seconds = now() - start;
  uint64_t sum = 0;
  for (auto v : rows) sum = sum * 31 + static_cast<uint32_t>(v);
  std::printf("sample_index %.6f %llu\n", seconds, static_cast<unsigned long long>(sum));
}

void picks(int64_t size, int sources) {
  std::vector<double> weights(sources);
  double total = 0;
  for (int i = 0; i < sources; ++i) total += i % 7 + 1;
  for (int i = 0; i < sources; ++i) weights[i] = (i % 7 + 1) / total;
  const double start = now();
  std::vector<int16_t> source(size);
  std::vector<int64_t> sample(size), taken(sources, 0);
  for (int64_t s = 0; s < size; ++s) {
    const double at = s > 1 ? static_cast<double>(s) : 1.0;
    int best = 0;
    double largest = std::numeric_limits<double>::lowest();
    for (int i = 0; i < sources; ++i) {
      const double behind = weights[i] * at - static_cast<double>(taken[i]);
      if (behind > largest) {
        largest = behind;
        best = i;
      }
    }
    source[s] = static_cast<int16_t>(best);
    sample[s] = taken[best]++;
  }
  const double seconds = now() - start;
  uint64_t sum = 0;
  for (int64_t s = 0; s < size; ++s) sum = sum * 31 + static_cast<uint64_t>(source[s]) + static_cast<uint64_t>(sample[s]);
  std::printf("picks_%d %.6f %llu\n", sources, seconds, static_cast<unsigned long long>(sum));
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  sample_index(std::atoll(argv[1]), std::atoll(argv[2]));
  for (int i = 4; i < argc; ++i) picks(std::atoll(argv[3]), std::atoi(argv[i]));
  return 0;
}
