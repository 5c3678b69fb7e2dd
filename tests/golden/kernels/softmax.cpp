// softmax over rows, with m the largest of x[r]:
//   out[r][c] = exp(x[r][c] - m) / sum over c of exp(x[r][c] - m)
//
// Three passes over a row. The first reads it from memory; the others find it in cache:
//   1. the largest element;
//   2. the exponentials, kept in a scratch row, and their sum;
//   3. scaling by 1 / sum, written past the caches.
// 16 lanes, 4 vectors in flight; the next row is prefetched while results are written.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

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

constexpr int kAccumulators = 4;
constexpr int64_t kBlock = kAccumulators * kLanes;
constexpr float kNone = -std::numeric_limits<float>::infinity();

// The larger, lane by lane; b where either is NaN.
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }

inline float reduce_max(Vec value) { return _mm512_reduce_max_ps(value); }

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

// e^x for x <= 0, within 1.3 ulp down to the smallest normal float and 0 below it: denormals
// take a hundred cycles each. NaN stays.
// x = n ln(2) + r with n whole and |r| <= ln(2) / 2 (Cody and Waite); e^r is a minimax polynomial
// of degree 5; 2^n then scales it.
inline Vec exp(Vec x) {
  const Vec least = splat(-87.3365f);  // ln(2^-126)
  const __mmask16 normal = _mm512_cmp_ps_mask(x, least, _CMP_NLT_UQ);
  // Adding 1.5 * 2^23 leaves no fraction bits: it rounds to a whole number.
  const Vec rounder = splat(12582912.0f);
  const Vec shifted = x * splat(1.44269504f) + rounder;
  const Vec n = shifted - rounder;
  Vec r = x - n * splat(0.693147182f);
  r = r + n * splat(1.90465429e-9f);
  Vec p = splat(8.290272206e-3f);
  p = p * r + splat(4.189816117e-2f);
  p = p * r + splat(1.666763872e-1f);
  p = p * r + splat(4.999914765e-1f);
  p = p * r + splat(9.999997020e-1f);
  p = p * r + splat(1.0f);
  return _mm512_maskz_scalef_ps(normal, p, n);
}

// Past the caches: what is written here is not read again soon. `to` is aligned to the vector.
inline void stream(float* to, Vec value) { _mm512_stream_ps(to, value); }

// Floats from `to` to the next vector boundary, at most `count`.
inline int64_t until_aligned(const float* to, int64_t count) {
  const auto address = reinterpret_cast<uintptr_t>(to);
  const auto floats = static_cast<int64_t>((-address & (sizeof(Vec) - 1)) / sizeof(float));
  return std::min(floats, count);
}

float largest_of(const float* x, int64_t cols) {
  Vec largest[kAccumulators];
  for (Vec& part : largest) part = splat(kNone);
  int64_t c = 0;
  for (; c + kBlock <= cols; c += kBlock) {
    for (int i = 0; i < kAccumulators; ++i)
      largest[i] = max(load(x + c + i * kLanes), largest[i]);
  }
  for (; c < cols; c += kLanes)
    largest[0] = max(load_first(x + c, cols - c, splat(kNone)), largest[0]);
  for (int i = 1; i < kAccumulators; ++i) largest[0] = max(largest[0], largest[i]);
  return reduce_max(largest[0]);
}

// Writes exp(x - largest) to `weights` and returns their sum.
float exponentials(const float* x, float* weights, int64_t cols, float largest) {
  const Vec shift = splat(largest);
  Vec sum[kAccumulators] = {};
  int64_t c = 0;
  for (; c + kBlock <= cols; c += kBlock) {
    for (int i = 0; i < kAccumulators; ++i) {
      const Vec weight = exp(load(x + c + i * kLanes) - shift);
      store(weights + c + i * kLanes, weight);
      sum[i] = sum[i] + weight;
    }
  }
  for (; c < cols; c += kLanes) {
    const Vec weight = exp(load_first(x + c, cols - c, splat(kNone)) - shift);
    store_first(weights + c, weight, cols - c);
    sum[0] = sum[0] + weight;
  }
  for (int i = 1; i < kAccumulators; ++i) sum[0] = sum[0] + sum[i];
  return reduce_add(sum[0]);
}

void softmax_row(const float* x, float* out, int64_t cols, float* weights) {
  const float sum = exponentials(x, weights, cols, largest_of(x, cols));
  const Vec factor = splat(1.0f / sum);
  int64_t c = until_aligned(out, cols);
  if (c > 0) {
    const Vec value = load_first(weights, c, splat(0.0f));
    store_first(out, value * factor, c);
  }
  for (; c + kLanes <= cols; c += kLanes) {
    __builtin_prefetch(x + cols + c);
    const Vec value = load(weights + c);
    stream(out + c, value * factor);
  }
  if (c < cols) {
    const Vec value = load_first(weights + c, cols - c, splat(0.0f));
    store_first(out + c, value * factor, cols - c);
  }
}

// kLanes rows narrower than a vector, one to a lane.
void softmax_in_lanes(const float* x, float* out, int64_t cols) {
  Vec column[kLanes];
  Vec largest = splat(-std::numeric_limits<float>::infinity());
  for (int64_t c = 0; c < cols; ++c) {
    column[c] = load_column(x + c, cols);
    largest = max(column[c], largest);
  }
  Vec sum = splat(0.0f);
  for (int64_t c = 0; c < cols; ++c) {
    column[c] = exp(column[c] - largest);
    sum = sum + column[c];
  }
  const Vec factor = splat(1.0f) / sum;
  for (int64_t c = 0; c < cols; ++c) store_column(out + c, cols, column[c] * factor);
}

}  // namespace

extern "C" void launch(const float* x, float* out, int64_t rows, int64_t cols) {
  // Rows narrower than a vector go one to a lane; what is left of them, and wider ones, in turn.
  const int64_t in_lanes = cols < kLanes ? rows - rows % kLanes : 0;
  const std::unique_ptr<float[]> scratch(new float[cols]);
  for (int64_t r = 0; r < in_lanes; r += kLanes)
    softmax_in_lanes(x + r * cols, out + r * cols, cols);
  for (int64_t r = in_lanes; r < rows; ++r)
    softmax_row(x + r * cols, out + r * cols, cols, scratch.get());
  _mm_sfence();
}
