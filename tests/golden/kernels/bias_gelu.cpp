// Bias and GELU, in its tanh form: with h = x[r][c] + bias[c],
//   out[r][c] = h / 2 * (1 + tanh(sqrt(2 / pi) * (h + 0.044715 h^3))) = h / (1 + exp(-2 u)),
// u the argument of tanh: one exponential instead of a tanh.
//
// One pass, written past the caches. 16 lanes, unrolled by 2, memory asked for 4096 bytes ahead.
// Short rows are joined into long ones, over a bias that is repeated.

#include <immintrin.h>

#include <algorithm>
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

// The larger, lane by lane; b where either is NaN.
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }

// e^x within 1.3 ulp for every float; denormals, infinities and NaN included.
// x = n ln(2) + r with n whole and |r| <= ln(2) / 2 (Cody and Waite); e^r is a minimax polynomial
// of degree 5; 2^n then scales it.
inline Vec exp(Vec x) {
  // Beyond these the result is 0 or infinity anyhow. NaN, the second operand, passes.
  x = max(splat(-104.0f), x);
  x = _mm512_min_ps(splat(89.0f), x);
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
  return _mm512_scalef_ps(p, n);
}

constexpr int64_t kAhead = 1024;  // Floats between what is computed and what is asked for.
constexpr int64_t kShort = 32;    // Rows of fewer floats are joined ...
constexpr int64_t kJoined = 128;  // ... into rows of at most this many.

inline Vec gelu(Vec h) {
  const Vec minus_two_u = h * (square(h) * splat(-0.0713548163f) + splat(-1.59576912f));
  return h / (splat(1.0f) + exp(minus_two_u));
}

void gelu_row(const float* x, const float* bias, float* out, int64_t cols) {
  const int64_t head = until_line(out, cols);
  for (int64_t c = 0; c < head; c += kLanes) {
    const int64_t count = head - c;
    store_first(out + c, gelu(load_first(x + c, count) + load_first(bias + c, count)), count);
  }
  int64_t c = head;
#pragma GCC unroll 2
  for (; c + kLine <= cols; c += kLine) {
    __builtin_prefetch(x + c + kAhead);
    stream(out + c, gelu(load(x + c) + load(bias + c)));
  }
  for (; c < cols; c += kLanes) {
    const int64_t count = cols - c;
    store_first(out + c, gelu(load_first(x + c, count) + load_first(bias + c, count)), count);
  }
}

}  // namespace

extern "C" void launch(const float* x, const float* bias, float* out, int64_t rows, int64_t cols) {
  const int64_t total = rows * cols;
  int64_t width = cols;
  float repeated[kJoined];
  if (cols < kShort) {
    width = kJoined / cols * cols;
    std::copy(bias, bias + cols, repeated);
    for (int64_t c = cols; c < width; ++c) repeated[c] = repeated[c - cols];
    bias = repeated;
  }
  for (int64_t i = 0; i < total; i += width)
    gelu_row(x + i, bias, out + i, std::min(width, total - i));
  _mm_sfence();
}
