// What the judge needs from below Python: a clock that polls without holding the interpreter, exact
// cache eviction, the loop that calls a kernel, and the one fused pass that compares outputs.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <csignal>
#include <ctime>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

// The words an arm may say (forge/judge/control.py): ready, done, copied, and from 8 on errors.
constexpr uint64_t kDone = 2, kFirstError = 8;
constexpr int64_t kSweepNs = 50'000'000;  // where coordinator and arms share a core, guards starve
constexpr int64_t kTimedOut = -1, kDied = -2, kSaidError = -3;

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

inline uint64_t load(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
inline void store(uint64_t* word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

inline int signal_by_pidfd(int pidfd, int number) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0));
}

// Odd while the arms' cores must not fall asleep; see guard.
uint32_t awake = 0;
// How many guards have swept their core's cache since.
uint32_t swept = 0;

int64_t guards = 0;

inline int64_t second_level_bytes() {
  const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : 2 << 20;
}

// One thread a core of the arms, for what must happen there before a turn. It reads more memory
// than the second-level cache holds: what an arm left behind (its own code, or another's) is then
// gone for whoever comes next. And it keeps the core running until the arm has been let go,
// because an idle core of a virtual machine takes 100 to 300 us to wake up; it gives way to
// anything else (SCHED_IDLE).
void* guard(void* core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<int>(reinterpret_cast<intptr_t>(core)), &set);
  sched_setaffinity(0, sizeof set, &set);
  sched_param none{};
  sched_setscheduler(0, SCHED_IDLE, &none);
  const std::vector<uint64_t> other(2 * second_level_bytes() / 8, 1);
  volatile uint64_t sum = 0;
  for (uint32_t done = 0;;) {
    const uint32_t now = __atomic_load_n(&awake, __ATOMIC_ACQUIRE);
    if (!(now & 1)) {
      syscall(SYS_futex, &awake, FUTEX_WAIT_PRIVATE, now, nullptr, nullptr, 0);
    } else if (now != done) {
      for (size_t i = 0; i < other.size(); i += 8) sum = sum + other[i];
      done = now;
      __atomic_add_fetch(&swept, 1, __ATOMIC_RELEASE);
    } else {
      relax();
    }
  }
}

void let_sleep() { __atomic_and_fetch(&awake, ~1u, __ATOMIC_RELEASE); }

inline bool has_died(int pidfd) {
  pollfd p{pidfd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

struct Comparison {
  double max_error;      // absolute error of the worst element: where error over allowed is largest
  double allowed_error;  // what was allowed there
  double worst_ratio;    // the one over the other; -1 while there is no element
  int64_t worst_index;
  int64_t wrong;         // elements beyond what is allowed
  int64_t wrong_nan;     // NaN or infinity where there should be none, or the other way round
  int64_t unwritten;     // elements that still hold the poison pattern
  int64_t first_wrong;   // -1 if none
};

constexpr int64_t kBlock = 4096;

void note_error(int64_t i, double error, double ratio, float allowed, Comparison* c) {
  if (ratio <= c->worst_ratio) return;
  c->worst_ratio = ratio;
  c->max_error = error;
  c->allowed_error = allowed;
  c->worst_index = i;
}

// Elements of a block of which at least one is not plainly within its allowed error.
void compare_closely(const float* got, const double* expected, const float* allowed, int64_t start,
                     int64_t end, uint32_t poison, Comparison* c) {
  for (int64_t i = start; i < end; ++i) {
    const double e = expected[i];
    const float g = got[i], rounded = static_cast<float>(e);
    const double error = std::fabs(static_cast<double>(g) - e);
    const double ratio = error / static_cast<double>(allowed[i]);
    uint32_t bits;
    std::memcpy(&bits, &g, 4);
    if (bits == poison) {
      ++c->unwritten;
    } else if (std::isnan(rounded) || std::isinf(rounded)) {
      if ((std::isnan(rounded) && std::isnan(g)) || rounded == g) continue;
      ++c->wrong_nan;
    } else if (std::isnan(g) || std::isinf(g)) {
      ++c->wrong_nan;
    } else {
      note_error(i, error, ratio, allowed[i], c);
      if (ratio <= 1.0) continue;
      ++c->wrong;
    }
    if (c->first_wrong < 0) c->first_wrong = i;
  }
}

void compare_block(const float* got, const double* expected, const float* allowed, int64_t start,
                   int64_t end, uint32_t poison, Comparison* c) {
  double max_ratio = 0;
  int64_t plain = 0;
#pragma omp simd reduction(max : max_ratio) reduction(+ : plain)
  for (int64_t i = start; i < end; ++i) {
    const double error = std::fabs(static_cast<double>(got[i]) - expected[i]);
    const double ratio = error / static_cast<double>(allowed[i]);
    max_ratio = ratio > max_ratio ? ratio : max_ratio;
    plain += ratio <= 1.0 && error <= 3.4e38;  // neither holds for a NaN
  }
  const bool is_plain = plain == end - start;
  if (is_plain && max_ratio <= c->worst_ratio) return;
  compare_closely(got, expected, allowed, start, end, poison, c);
}

void merge(const Comparison& from, Comparison* to) {
  if (from.worst_ratio > to->worst_ratio) {
    to->max_error = from.max_error;
    to->worst_ratio = from.worst_ratio;
    to->allowed_error = from.allowed_error;
    to->worst_index = from.worst_index;
  }
  to->wrong += from.wrong;
  to->wrong_nan += from.wrong_nan;
  to->unwritten += from.unwritten;
  const bool is_first = to->first_wrong < 0 || from.first_wrong < to->first_wrong;
  if (from.first_wrong >= 0 && is_first) to->first_wrong = from.first_wrong;
}

}  // namespace

extern "C" {

// Whether forge_flush evicts anything; a judge refuses to start where it does not.
int forge_can_flush() {
#if defined(__x86_64__) && defined(__CLFLUSHOPT__)
  return 1;
#else
  return 0;
#endif
}

// Write back and evict every cache line of [p, p + bytes) from all levels of all cores.
void forge_flush(const char* p, int64_t bytes) {
#if defined(__x86_64__) && defined(__CLFLUSHOPT__)
  for (int64_t i = 0; i < bytes; i += 64) _mm_clflushopt(const_cast<char*>(p) + i);
  _mm_sfence();
#else
  (void)p;
  (void)bytes;
#endif
}

// Coordinator: start one guard a core. They end with the process.
int forge_guard_cores(const int64_t* cores, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, guard, reinterpret_cast<void*>(cores[i]))) return -1;
    pthread_detach(thread);
  }
  guards = n;
  return 0;
}

// Coordinator: sweep the guarded cores' caches, and keep them awake until the next turn begins.
void forge_prepare_cores() {
  __atomic_store_n(&swept, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&awake, (awake | 1) + 2, __ATOMIC_RELEASE);
  syscall(SYS_futex, &awake, FUTEX_WAKE_PRIVATE, 1 << 20, nullptr, nullptr, 0);
  const int64_t start = now_ns();
  while (__atomic_load_n(&swept, __ATOMIC_ACQUIRE) < guards && now_ns() - start < kSweepNs) {
    timespec nap{0, 20000};
    nanosleep(&nap, nullptr);
  }
}

void forge_fill(uint32_t* p, int64_t words, uint32_t pattern) {
  for (int64_t i = 0; i < words; ++i) p[i] = pattern;
}

// Coordinator: let the stopped arm go and wait for its word. The clock starts before the arm can
// run at all, because it is still stopped when `go` is set. As soon as it says done, the words at
// `probes` are read (a later write shows), and the arm is stopped again.
// Returns nanoseconds, or kTimedOut, kDied, kSaidError.
int64_t forge_turn(uint64_t* go, const uint64_t* state, int pidfd, int64_t limit_ns,
                   const char* outputs, const int64_t* probes, uint32_t* seen, int64_t n_probes) {
  const int64_t start = now_ns();
  store(go, 1);
  signal_by_pidfd(pidfd, SIGCONT);
  let_sleep();
  int64_t end = start;
  int64_t result = 0;
  for (uint64_t spins = 0;; ++spins) {
    const uint64_t word = load(state);
    if (word >= kDone && word < kFirstError) {
      end = now_ns();
      result = end - start;
      break;
    }
    if (word >= kFirstError) return kSaidError;
    relax();
    if ((spins & 0x3fff) == 0x3fff) {
      if (now_ns() - start > limit_ns) return kTimedOut;
      if (has_died(pidfd)) return kDied;
    }
  }
  for (int64_t i = 0; i < n_probes; ++i)
    seen[i] = *reinterpret_cast<const volatile uint32_t*>(outputs + probes[i]);
  signal_by_pidfd(pidfd, SIGSTOP);
  return result;
}

// Coordinator: wait until the arm's word is at least `value`. 0, or one of the negative codes.
int64_t forge_await(const uint64_t* state, uint64_t value, int pidfd, int64_t limit_ns) {
  const int64_t start = now_ns();
  for (;;) {
    const uint64_t word = load(state);
    if (word >= kFirstError) return kSaidError;
    if (word >= value) return 0;
    if (has_died(pidfd)) return load(state) >= value && load(state) < kFirstError ? 0 : kDied;
    if (now_ns() - start > limit_ns) return kTimedOut;
    timespec nap{0, 100000};
    nanosleep(&nap, nullptr);
  }
}

// Arm: say `word`, then wait for the coordinator's `value`.
void forge_say_and_wait(const uint64_t* go, uint64_t value, uint64_t* state, uint64_t word) {
  store(state, word);
  while (load(go) < value) relax();
}

void forge_say(uint64_t* state, uint64_t value) { store(state, value); }

// Arm: call `launch` once per row of `table`; every argument is a pointer or an int64, which the
// C calling conventions of x86-64 and AArch64 pass alike, and surplus arguments are ignored.
void forge_calls(void* launch, const int64_t* table, int64_t width, int64_t calls) {
  using Narrow = void (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
  using Wide = void (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                        int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
  for (int64_t i = 0; i < calls; ++i) {
    const int64_t* a = table + i * 16;
    if (width <= 8)
      reinterpret_cast<Narrow>(launch)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    else
      reinterpret_cast<Wide>(launch)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
                                     a[10], a[11], a[12], a[13], a[14], a[15]);
  }
}

// Oracle: one pass over an output. `allowed` is per element, in the unit of the output.
void forge_compare(const float* got, const double* expected, const float* allowed, int64_t n,
                   uint32_t poison, Comparison* out) {
  Comparison all{0, 0, -1, 0, 0, 0, 0, -1};
#pragma omp parallel
  {
    Comparison mine{0, 0, -1, 0, 0, 0, 0, -1};
#pragma omp for schedule(static)
    for (int64_t start = 0; start < n; start += kBlock) {
      const int64_t end = start + kBlock < n ? start + kBlock : n;
      compare_block(got, expected, allowed, start, end, poison, &mine);
    }
#pragma omp critical
    merge(mine, &all);
  }
  *out = all;
}

// Roof: the fastest trusted ways over memory, called like any kernel.
void forge_copy(const float* x, float* out, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i];
}

// 4 KiB ahead, in the kernels' own way: without it a good kernel beat this roof by a tenth.
inline void ahead(const float* p) { __builtin_prefetch(p + 1024); }

void forge_stream_copy(const float* x, float* out, int64_t n) {
#if defined(__AVX512F__)
  const int64_t head = ((64 - (reinterpret_cast<uintptr_t>(out) & 63)) & 63) / 4;
  const int64_t first = head < n ? head : n;
  for (int64_t i = 0; i < first; ++i) out[i] = x[i];
  const int64_t blocks = (n - first) / 16;
#pragma omp parallel for
  for (int64_t b = 0; b < blocks; ++b) {
    ahead(x + first + b * 16);
    _mm512_stream_ps(out + first + b * 16, _mm512_loadu_ps(x + first + b * 16));
  }
  _mm_sfence();
  for (int64_t i = first + blocks * 16; i < n; ++i) out[i] = x[i];
#else
  forge_copy(x, out, n);
#endif
}

// The only output is the sum, so that this is a read and nothing else.
void forge_read(const float* x, float* out, int64_t n) {
  float sum = 0;
  const int64_t blocks = n / 64;
#pragma omp parallel for reduction(+ : sum)
  for (int64_t b = 0; b < blocks; ++b) {
    float part = 0;
    for (int64_t i = 0; i < 64; i += 16) ahead(x + b * 64 + i);
#pragma omp simd reduction(+ : part)
    for (int64_t i = b * 64; i < b * 64 + 64; ++i) part += x[i];
    sum += part;
  }
  for (int64_t i = blocks * 64; i < n; ++i) sum += x[i];
  out[0] = sum;
}

// Fused multiply-adds per second of one core, by 12 independent chains of 16 lanes.
double forge_fma_rate(int64_t rounds) {
  constexpr int kChains = 12, kLanes = 16;
  float acc[kChains][kLanes];
  for (int c = 0; c < kChains; ++c)
    for (int l = 0; l < kLanes; ++l) acc[c][l] = 1.0f + 0.001f * static_cast<float>(c + l);
  const int64_t start = now_ns();
  for (int64_t r = 0; r < rounds; ++r)
    for (int c = 0; c < kChains; ++c)
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) acc[c][l] = acc[c][l] * 0.999999f + 1e-6f;
  const int64_t end = now_ns();
  volatile float keep = 0;
  for (int c = 0; c < kChains; ++c)
    for (int l = 0; l < kLanes; ++l) keep = keep + acc[c][l];
  return 2.0 * kChains * kLanes * static_cast<double>(rounds) / (static_cast<double>(end - start) * 1e-9);
}

}  // extern "C"
