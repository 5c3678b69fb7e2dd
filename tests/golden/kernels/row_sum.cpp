// Sum of each row: out[r] = sum over c of x[r][c]
//
// One pass at the speed of memory. 4 rows are read side by side.
// A row has 2 independent vectors of partial sums.
// 16 lanes.

#include <immintrin.h>

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

constexpr int kAccumulators = 2;
constexpr int64_t kBlock = kAccumulators * kLanes;
constexpr int64_t kSideBySide = 4;  // Rows: as many streams keep more of memory at work.

inline float reduce_add(Vec value) { return _mm512_reduce_add_ps(value); }

// One element of each of kLanes rows, `stride` apart: a row's own is in its lane.
inline __m512i row_starts(int64_t stride) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(stride)));
}
inline Vec load_column(const float* from, int64_t stride) {
  return _mm512_i32gather_ps(row_starts(stride), from, sizeof(float));
}

template <int64_t kRows>
void sum_rows(const float* x, float* out, int64_t cols) {
  Vec sum[kAccumulators][kRows] = {};
  int64_t c = 0;
  for (; c + kBlock <= cols; c += kBlock) {
    for (int i = 0; i < kAccumulators; ++i) {
      for (int row = 0; row < kRows; ++row) {
        const float* from = x + row * cols + c + i * kLanes;
        sum[i][row] = sum[i][row] + load(from);
      }
    }
  }
  for (; c < cols; c += kLanes) {
    for (int row = 0; row < kRows; ++row)
      sum[0][row] = sum[0][row] + load_first(x + row * cols + c, cols - c, splat(0.0f));
  }
  for (int row = 0; row < kRows; ++row) {
    for (int i = 1; i < kAccumulators; ++i) sum[0][row] = sum[0][row] + sum[i][row];
    out[row] = reduce_add(sum[0][row]);
  }
}

// kLanes rows narrower than a vector, one to a lane.
void sum_in_lanes(const float* x, float* out, int64_t cols) {
  Vec sum = splat(0.0f);
  for (int64_t c = 0; c < cols; ++c) sum = sum + load_column(x + c, cols);
  store(out, sum);
}

}  // namespace

extern "C" void launch(const float* x, float* out, int64_t rows, int64_t cols) {
  // Rows narrower than a vector go one to a lane; what is left of them, and wider ones, in turn.
  const int64_t in_lanes = cols < kLanes ? rows - rows % kLanes : 0;
  const int64_t whole = rows - (rows - in_lanes) % kSideBySide;
  for (int64_t r = 0; r < in_lanes; r += kLanes)
    sum_in_lanes(x + r * cols, out + r, cols);
  for (int64_t r = in_lanes; r < whole; r += kSideBySide)
    sum_rows<kSideBySide>(x + r * cols, out + r, cols);
  for (int64_t r = whole; r < rows; ++r) sum_rows<1>(x + r * cols, out + r, cols);
}
