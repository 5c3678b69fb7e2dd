// Running sum along rows: out[r][c] = x[r][0] + ... + x[r][c]
//
// One pass. Within a vector, each lane adds the one 1, then 2, then 4, then 8 before it; the carry,
// which is the sum of all vectors before, is then added to every lane. 4 vectors are
// scanned before the carry passes through. Results are written past the caches.
// Lines are asked for 4 KiB ahead.

#include <immintrin.h>

#include <algorithm>
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
constexpr int64_t kAhead = 1024;  // floats

// Past the caches: what is written here is not read again soon. `to` is aligned to the vector.
inline void stream(float* to, Vec value) { _mm512_stream_ps(to, value); }

// Floats from `to` to the next vector boundary, at most `count`.
inline int64_t until_aligned(const float* to, int64_t count) {
  const auto address = reinterpret_cast<uintptr_t>(to);
  const auto floats = static_cast<int64_t>((-address & (sizeof(Vec) - 1)) / sizeof(float));
  return std::min(floats, count);
}

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

// The running sum of one vector.
template <int kCount>
inline Vec shifted_up(Vec value) {
  const __m512i zero = _mm512_setzero_si512();
  return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(value), zero, 16 - kCount));
}
inline Vec scan(Vec value) {
  value = value + shifted_up<1>(value);
  value = value + shifted_up<2>(value);
  value = value + shifted_up<4>(value);
  return value + shifted_up<8>(value);
}
inline Vec last_lane(Vec value) { return _mm512_permutexvar_ps(_mm512_set1_epi32(15), value); }

void cumsum_row(const float* x, float* out, int64_t cols) {
  Vec carry = splat(0.0f);
  int64_t c = until_aligned(out, cols);
  if (c > 0) {
    const Vec sums = scan(load_first(x, c, splat(0.0f)));
    store_first(out, sums, c);
    carry = last_lane(sums);  // Lanes beyond the first c hold its last sum.
  }
  for (; c + kBlock <= cols; c += kBlock) {
    Vec sums[kAccumulators];
    for (int i = 0; i < kAccumulators; ++i) {
      __builtin_prefetch(x + c + i * kLanes + kAhead);
      sums[i] = scan(load(x + c + i * kLanes));
    }
    for (int i = 0; i < kAccumulators; ++i) {
      const Vec total = last_lane(sums[i]);
      stream(out + c + i * kLanes, sums[i] + carry);
      carry = carry + total;
    }
  }
  for (; c < cols; c += kLanes) {
    const Vec sums = scan(load_first(x + c, cols - c, splat(0.0f))) + carry;
    store_first(out + c, sums, cols - c);
    carry = last_lane(sums);
  }
}

// kLanes rows narrower than a vector, one to a lane.
void cumsum_in_lanes(const float* x, float* out, int64_t cols) {
  Vec sum = splat(0.0f);
  for (int64_t c = 0; c < cols; ++c) {
    sum = sum + load_column(x + c, cols);
    store_column(out + c, cols, sum);
  }
}

}  // namespace

extern "C" void launch(const float* x, float* out, int64_t rows, int64_t cols) {
  // Rows narrower than a vector go one to a lane; what is left of them, and wider ones, in turn.
  const int64_t in_lanes = cols < kLanes ? rows - rows % kLanes : 0;
  for (int64_t r = 0; r < in_lanes; r += kLanes)
    cumsum_in_lanes(x + r * cols, out + r * cols, cols);
  for (int64_t r = in_lanes; r < rows; ++r)
    cumsum_row(x + r * cols, out + r * cols, cols);
  _mm_sfence();
}
