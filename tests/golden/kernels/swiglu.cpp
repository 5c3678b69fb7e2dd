// SwiGLU: out[r][c] = silu(gate[r][c]) * up[r][c] with silu(g) = g / (1 + exp(-g)). Rows of gate and up
// begin x_stride floats apart, rows of out cols apart.
//
// One pass, written past the caches. 16 lanes, memory asked for 1024 bytes ahead.
// Rows without a gap between them are one long row.

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

constexpr int64_t kAhead = 256;  // Floats between what is computed and what is asked for.
constexpr int64_t kRowsAhead = 8;  // So far ahead the beginnings of rows are asked for.

inline Vec silu(Vec g) { return g / (splat(1.0f) + exp(-g)); }

// `gap` is what lies between the end of a row of gate or up and the next one.
void swiglu_row(const float* gate, const float* up, float* out, int64_t cols, int64_t gap) {
  const int64_t head = until_line(out, cols);
  for (int64_t c = 0; c < head; c += kLanes) {
    const int64_t count = head - c;
    store_first(out + c, silu(load_first(gate + c, count)) * load_first(up + c, count), count);
  }
  int64_t c = head;
  for (; c + kLine <= cols; c += kLine) {
    __builtin_prefetch(gate + c + kAhead + (c + kAhead < cols ? 0 : gap));
    __builtin_prefetch(up + c + kAhead + (c + kAhead < cols ? 0 : gap));
    stream(out + c, silu(load(gate + c)) * load(up + c));
  }
  for (; c < cols; c += kLanes) {
    const int64_t count = cols - c;
    store_first(out + c, silu(load_first(gate + c, count)) * load_first(up + c, count), count);
  }
}

}  // namespace

extern "C" void launch(const float* gate, const float* up, float* out, int64_t rows,
                       int64_t cols, int64_t x_stride) {
  if (x_stride == cols) {
    cols *= rows;
    rows = 1;
  }
  for (int64_t r = 0; r < rows; ++r) {
    __builtin_prefetch(gate + (r + kRowsAhead) * x_stride);
    __builtin_prefetch(up + (r + kRowsAhead) * x_stride);
    swiglu_row(gate + r * x_stride, up + r * x_stride, out + r * cols, cols, x_stride - cols);
  }
  _mm_sfence();
}
