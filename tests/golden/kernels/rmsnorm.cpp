// RMSNorm over rows: out[r][c] = x[r][c] / sqrt(mean over c of x[r][c]^2 + 1e-6) * weight[c]
//
// Two passes over a row. The first reads it from memory and sums its squares; the second finds it
// in cache, scales it and writes past the caches.
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

float sum_of_squares(const float* x, int64_t cols) {
  Vec sum0 = splat(0.0f);
  Vec sum1 = splat(0.0f);
  Vec sum2 = splat(0.0f);
  Vec sum3 = splat(0.0f);
  int64_t c = 0;
  for (; c + 4 * kLanes <= cols; c += 4 * kLanes) {
    sum0 = sum0 + square(load(x + c));
    sum1 = sum1 + square(load(x + c + kLanes));
    sum2 = sum2 + square(load(x + c + 2 * kLanes));
    sum3 = sum3 + square(load(x + c + 3 * kLanes));
  }
  for (; c < cols; c += kLanes) sum0 = sum0 + square(load_first(x + c, cols - c));
  return reduce_add((sum0 + sum1) + (sum2 + sum3));
}

void rmsnorm_row(const float* x, const float* weight, float* out, int64_t cols) {
  const float mean = sum_of_squares(x, cols) / static_cast<float>(cols);
  const Vec scale = splat(1.0f / std::sqrt(mean + kEpsilon));
  const int64_t head = until_line(out, cols);
  for (int64_t c = 0; c < head; c += kLanes) {
    const int64_t count = head - c;
    store_first(out + c, load_first(x + c, count) * scale * load_first(weight + c, count), count);
  }
  int64_t c = head;
#pragma GCC unroll 4
  for (; c + kLine <= cols; c += kLine) {
    __builtin_prefetch(x + cols + c);
    stream(out + c, load(x + c) * scale * load(weight + c));
  }
  for (; c < cols; c += kLanes) {
    const int64_t count = cols - c;
    store_first(out + c, load_first(x + c, count) * scale * load_first(weight + c, count), count);
  }
}

}  // namespace

extern "C" void launch(const float* x, const float* weight, float* out, int64_t rows,
                       int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    rmsnorm_row(x + r * cols, weight, out + r * cols, cols);
  _mm_sfence();
}
