// Rotary position embedding: the two halves of every head of a token rotate against each other,
//   out[t][h][p]         = q[t][h][p] cos[t][p] - q[t][h][pairs + p] sin[t][p]
//   out[t][h][pairs + p] = q[t][h][pairs + p] cos[t][p] + q[t][h][p] sin[t][p]
//
// One pass, written past the caches: directly where halves are whole cache lines, otherwise a token is
// rotated in cache first.
// 16 lanes; memory is asked for 4096 bytes ahead.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
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

constexpr int64_t kAhead = 1024;  // Floats between what is computed and what is asked for.

void rotate_head(const float* q, const float* cos, const float* sin, float* out, int64_t pairs) {
  int64_t p = 0;
  for (; p + kLanes <= pairs; p += kLanes) {
    __builtin_prefetch(q + p + kAhead);
    __builtin_prefetch(q + pairs + p + kAhead);
    const Vec first = load(q + p);
    const Vec second = load(q + pairs + p);
    const Vec cosine = load(cos + p);
    const Vec sine = load(sin + p);
    store(out + p, first * cosine - second * sine);
    store(out + pairs + p, second * cosine + first * sine);
  }
  if (p < pairs) {
    const int64_t count = pairs - p;
    const Vec first = load_first(q + p, count);
    const Vec second = load_first(q + pairs + p, count);
    const Vec cosine = load_first(cos + p, count);
    const Vec sine = load_first(sin + p, count);
    store_first(out + p, first * cosine - second * sine, count);
    store_first(out + pairs + p, second * cosine + first * sine, count);
  }
}

// The same where both halves of `out` are whole lines.
void rotate_head_lines(const float* q, const float* cos, const float* sin, float* out, int64_t pairs) {
  for (int64_t p = 0; p < pairs; p += kLanes) {
    __builtin_prefetch(q + p + kAhead);
    __builtin_prefetch(q + pairs + p + kAhead);
    const Vec first = load(q + p);
    const Vec second = load(q + pairs + p);
    const Vec cosine = load(cos + p);
    const Vec sine = load(sin + p);
    stream(out + p, first * cosine - second * sine);
    stream(out + pairs + p, second * cosine + first * sine);
  }
}

void copy_past_caches(const float* from, float* out, int64_t cols) {
  const int64_t head = until_line(out, cols);
  for (int64_t c = 0; c < head; c += kLanes) {
    const int64_t count = head - c;
    store_first(out + c, load_first(from + c, count), count);
  }
  int64_t c = head;
  for (; c + kLine <= cols; c += kLine) stream(out + c, load(from + c));
  for (; c < cols; c += kLanes) {
    const int64_t count = cols - c;
    store_first(out + c, load_first(from + c, count), count);
  }
}

void rotate_token(const float* q, const float* cos, const float* sin, float* out, int64_t heads,
                  int64_t pairs, float* stage) {
  const int64_t dim = 2 * pairs;
  if (pairs % kLine == 0 && until_line(out, kLine) == 0) {
    for (int64_t h = 0; h < heads; ++h) rotate_head_lines(q + h * dim, cos, sin, out + h * dim, pairs);
    return;
  }
  for (int64_t h = 0; h < heads; ++h) rotate_head(q + h * dim, cos, sin, stage + h * dim, pairs);
  copy_past_caches(stage, out, heads * dim);
}

}  // namespace

extern "C" void launch(const float* q, const float* cos, const float* sin, float* out, int64_t tokens,
                       int64_t heads, int64_t pairs) {
  const int64_t floats = heads * 2 * pairs;  // of a token
  const std::unique_ptr<float[]> stage(new float[floats]);
  for (int64_t t = 0; t < tokens; ++t)
    rotate_token(q + t * floats, cos + t * pairs, sin + t * pairs, out + t * floats, heads,
                 pairs, stage.get());
  _mm_sfence();
}
