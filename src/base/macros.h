/* base/macros.h -- assertions, early return, checked sizes.
 *
 * ASSERT checks our own invariants, never input, and costs nothing in release builds. TRY returns a
 * failed status early and is allowed only where nothing needs to be released. */
#ifndef RUSH_BASE_MACROS_H
#define RUSH_BASE_MACROS_H

#if defined(__SANITIZE_ADDRESS__)
#define RUSH_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RUSH_SANITIZED 1
#endif
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef NDEBUG
#define ASSERT(c, why) ((void)sizeof(c))
#else
#include <assert.h>
#define ASSERT(c, why) assert((c) && (why))
#endif

#ifdef RUSH_SLOW_CHECKS
#define ASSERT_SLOW(c) ASSERT(c, "slow check")
#else
#define ASSERT_SLOW(c) ((void)sizeof(c))
#endif

#define TRY(expr)                 \
  do {                            \
    rush_status try_st_ = (expr); \
    if (try_st_ != RUSH_OK)       \
      return try_st_;             \
  } while (0)

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))
#define LIKELY(c) __builtin_expect(!!(c), 1)
#define UNLIKELY(c) __builtin_expect(!!(c), 0)
/* Mark a function that a hot loop rarely calls: it is not inlined, so that it costs the loop no
 * registers. */
#define COLD __attribute__((noinline, cold))
/* Mark code that is not reached: after an enum switch without default. */
#define UNREACHABLE() __builtin_unreachable()

/* Compute *out = a * b; returns false on overflow (then *out is unspecified). */
static inline bool size_mul(size_t a, size_t b, size_t *out)
{
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool size_add(size_t a, size_t b, size_t *out)
{
  return !__builtin_add_overflow(a, b, out);
}
static inline int64_t i64_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t i64_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
