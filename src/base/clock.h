/* base/clock.h -- monotonic time in nanoseconds. */
#ifndef RUSH_BASE_CLOCK_H
#define RUSH_BASE_CLOCK_H
#include <stdint.h>
uint64_t clock_ns(void);
#endif
