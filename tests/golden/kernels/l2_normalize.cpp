// Euclidean length one: out[r][c] = x[r][c] / max(sqrt(sum over c of x[r][c]^2), 1e-12)
//
// Two passes over a row. The first reads it from memory; the second finds it in cache:
//   1. the sum of squares;
//   2. scaling, written past the caches.
// 16 lanes, 4 vectors in flight; the next row is prefetched while results are written.

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

using Vec = __m512;
constexpr int64_t kLanes = 16;

inline Vec splat(float value) { return _mm512_set1_ps(value); }
inline Vec load(const float* from) { return _mm512_loadu_ps(from); }

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

constexpr int kAccumulators = 4;
constexpr int64_t kBlock = kAccumulators * kLanes;
constexpr float kShortest = 1e-12f;  // A shorter row is divided by this.

inline float reduce_add(Vec value) { return _mm512_reduce_add_ps(value); }

// One element of each of kLanes rows, `stride` apart: a row's own is in its lane.
inline __m512i row_starts(int64_t stride) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(stride)));
}
inline Vec load_column(const float* from, int64_t stride) {
  return _mm512_i32gather_ps(row_starts(stride), from, sizeof(float));
}
inline void store_column(float* to, int64_t stride, Vec value) {
  _mm512_i32scatter_ps(to, row_starts(stride), value, sizeof(float));
}

// Past the caches: what is written here is not read again soon. `to` is aligned to the vector.
inline void stream(float* to, Vec value) { _mm512_stream_ps(to, value); }

// Floats from `to` to the next vector boundary, at most `count`.
inline int64_t until_aligned(const float* to, int64_t count) {
  const auto address = reinterpret_cast<uintptr_t>(to);
  const auto floats = static_cast<int64_t>((-address & (sizeof(Vec) - 1)) / sizeof(float));
  return std::min(floats, count);
}

float sum_of_squares(const float* x, int64_t cols) {
  Vec sum[kAccumulators] = {};
  int64_t c = 0;
  for (; c + kBlock <= cols; c += kBlock) {
    for (int i = 0; i < kAccumulators; ++i) {
      const Vec part = load(x + c + i * kLanes);
      sum[i] = sum[i] + part * part;
    }
  }
  for (; c < cols; c += kLanes) {
    const Vec part = load_first(x + c, cols - c, splat(0.0f));
    sum[0] = sum[0] + part * part;
  }
  for (int i = 1; i < kAccumulators; ++i) sum[0] = sum[0] + sum[i];
  return reduce_add(sum[0]);
}

void l2_normalize_row(const float* x, float* out, int64_t cols) {
  // std::max keeps a NaN that comes first.
  const Vec factor = splat(1.0f / std::max(std::sqrt(sum_of_squares(x, cols)), kShortest));
  int64_t c = until_aligned(out, cols);
  if (c > 0) {
    const Vec value = load_first(x, c, splat(0.0f));
    store_first(out, value * factor, c);
  }
  for (; c + kLanes <= cols; c += kLanes) {
    __builtin_prefetch(x + cols + c);
    const Vec value = load(x + c);
    stream(out + c, value * factor);
  }
  if (c < cols) {
    const Vec value = load_first(x + c, cols - c, splat(0.0f));
    store_first(out + c, value * factor, cols - c);
  }
}

// kLanes rows narrower than a vector, one to a lane.
void l2_normalize_in_lanes(const float* x, float* out, int64_t cols) {
  Vec column[kLanes];
  Vec factor = splat(0.0f);  // first the sum of squares
  for (int64_t c = 0; c < cols; ++c) {
    column[c] = load_column(x + c, cols);
    factor = factor + column[c] * column[c];
  }
  for (int lane = 0; lane < kLanes; ++lane)
    factor[lane] = 1.0f / std::max(std::sqrt(factor[lane]), kShortest);
  for (int64_t c = 0; c < cols; ++c) store_column(out + c, cols, column[c] * factor);
}

}  // namespace

extern "C" void launch(const float* x, float* out, int64_t rows, int64_t cols) {
  // Rows narrower than a vector go one to a lane; what is left of them, and wider ones, in turn.
  const int64_t in_lanes = cols < kLanes ? rows - rows % kLanes : 0;
  for (int64_t r = 0; r < in_lanes; r += kLanes)
    l2_normalize_in_lanes(x + r * cols, out + r * cols, cols);
  for (int64_t r = in_lanes; r < rows; ++r)
    l2_normalize_row(x + r * cols, out + r * cols, cols);
  _mm_sfence();
}
