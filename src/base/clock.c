/* base/clock.c -- clocks: CLOCK_MONOTONIC, and its coarse variant. */
#include "base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t id)
{
  struct timespec t;
  clock_gettime(id, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t clock_ns(void) { return read_clock(CLOCK_MONOTONIC); }

uint64_t clock_coarse_ns(void)
{
#ifdef CLOCK_MONOTONIC_COARSE
  return read_clock(CLOCK_MONOTONIC_COARSE);
#else
  return read_clock(CLOCK_MONOTONIC);
#endif
}
