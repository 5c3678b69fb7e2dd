// Residual add and RMSNorm over rows: added[r][c] = x[r][c] + residual[r][c],
//   out[r][c] = added[r][c] / sqrt(mean over c of added[r][c]^2 + 1e-6) * weight[c]
//
// Two passes over a row. The first reads x and residual from memory, writes their sum and adds up its
// squares; the second finds x and residual in cache, adds them again and scales. Both write past the
// caches.
// 16 lanes, 4 sums in flight; the next row is prefetched while one is written.

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

using Vec = __m512;
constexpr int64_t kLanes = 16;

inline Vec splat(float value) { return _mm512_set1_ps(value); }
inline Vec load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, Vec value) { _mm512_storeu_ps(to, value); }

// The first `count` lanes; all of them when there are more.
inline __mmask16 first(int64_t count) {
  return count >= kLanes ? 0xffff : static_cast<__mmask16>((1u << count) - 1);
}
inline Vec load_first(const float* from, int64_t count, Vec fill) {
  return _mm512_mask_loadu_ps(fill, first(count), from);
}
inline void store_first(float* to, Vec value, int64_t count) {
  _mm512_mask_storeu_ps(to, first(count), value);
}

inline Vec load_first(const float* from, int64_t count) {
  return load_first(from, count, splat(0.0f));
}

constexpr int64_t kLine = 64 / sizeof(float);  // Floats of a cache line.

// Past the caches, which saves reading the line first. Only whole lines are written so: a line
// that is written both ways goes to memory and back.
inline void stream(float* to, Vec value) { _mm512_stream_ps(to, value); }

// Floats from `to` to the next line, at most `count`.
inline int64_t until_line(const float* to, int64_t count) {
  const uintptr_t bytes = -reinterpret_cast<uintptr_t>(to) % 64;
  return std::min(static_cast<int64_t>(bytes / sizeof(float)), count);
}

inline Vec square(Vec value) { return value * value; }

inline float reduce_add(Vec value) { return _mm512_reduce_add_ps(value); }

constexpr float kEpsilon = 1e-6f;

// Writes x + residual and returns the sum of its squares.
float add_row(const float* x, const float* residual, float* added, int64_t cols) {
  Vec sum0 = splat(0.0f);
  Vec sum1 = splat(0.0f);
  Vec sum2 = splat(0.0f);
  Vec sum3 = splat(0.0f);
  const int64_t head = until_line(added, cols);
  for (int64_t c = 0; c < head; c += kLanes) {
    const int64_t count = head - c;
    const Vec value = load_first(x + c, count) + load_first(residual + c, count);
    store_first(added + c, value, count);
    sum0 = sum0 + square(value);
  }
  int64_t c = head;
  for (; c + 4 * kLanes <= cols; c += 4 * kLanes) {
    const Vec value0 = load(x + c) + load(residual + c);
    stream(added + c, value0);
    sum0 = sum0 + square(value0);
    const Vec value1 = load(x + c + kLanes) + load(residual + c + kLanes);
    stream(added + c + kLanes, value1);
    sum1 = sum1 + square(value1);
    const Vec value2 = load(x + c + 2 * kLanes) + load(residual + c + 2 * kLanes);
    stream(added + c + 2 * kLanes, value2);
    sum2 = sum2 + square(value2);
    const Vec value3 = load(x + c + 3 * kLanes) + load(residual + c + 3 * kLanes);
    stream(added + c + 3 * kLanes, value3);
    sum3 = sum3 + square(value3);
  }
  for (; c < cols; c += kLanes) {
    const int64_t count = cols - c;
    const Vec value = load_first(x + c, count) + load_first(residual + c, count);
    store_first(added + c, value, count);
    sum0 = sum0 + square(value);
  }
  return reduce_add((sum0 + sum1) + (sum2 + sum3));
}

void add_rmsnorm_row(const float* x, const float* residual, const float* weight, float* added,
                     float* out, int64_t cols) {
  const float mean = add_row(x, residual, added, cols) / static_cast<float>(cols);
  const Vec scale = splat(1.0f / std::sqrt(mean + kEpsilon));
  const int64_t head = until_line(out, cols);
  for (int64_t c = 0; c < head; c += kLanes) {
    const int64_t count = head - c;
    store_first(out + c, (load_first(x + c, count) + load_first(residual + c, count)) * scale
               * load_first(weight + c, count), count);
  }
  int64_t c = head;
  for (; c + kLine <= cols; c += kLine) {
    __builtin_prefetch(x + cols + c);
    __builtin_prefetch(residual + cols + c);
    stream(out + c, (load(x + c) + load(residual + c)) * scale
               * load(weight + c));
  }
  for (; c < cols; c += kLanes) {
    const int64_t count = cols - c;
    store_first(out + c, (load_first(x + c, count) + load_first(residual + c, count)) * scale
               * load_first(weight + c, count), count);
  }
}

}  // namespace

extern "C" void launch(const float* x, const float* residual, const float* weight, float* added,
                       float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    add_rmsnorm_row(x + r * cols, residual + r * cols, weight, added + r * cols, out + r * cols,
                    cols);
  _mm_sfence();
}
