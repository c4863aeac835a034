/* base/clock.h -- monotonic time in nanoseconds. */
#ifndef RUSH_BASE_CLOCK_H
#define RUSH_BASE_CLOCK_H
#include <stdint.h>
uint64_t clock_ns(void);
/* Like clock_ns, exact to a few milliseconds and several times cheaper. */
uint64_t clock_coarse_ns(void);
#endif
