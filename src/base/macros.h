/* base/macros.h -- assertions, early return, checked sizes.
 *
 * ASSERT is for our own invariants and costs nothing in release builds; input never reaches one.
 * TRY returns a failed status early and is allowed only where nothing is held. */
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
/* A function that is rarely called from a hot loop: not inlined, so that it costs the loop no
 * registers. */
#define COLD __attribute__((noinline, cold))
/* Deliberate fall-through and "no other value reaches here" after an enum switch without default.
 * */
#define UNREACHABLE() __builtin_unreachable()

/* *out = a * b; false on overflow (then *out is unspecified). */
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
