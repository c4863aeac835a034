/* bench/timing.h -- a clock for the programs here: wall-clock time, or the processor's time of this
 * process if PEERS_CLOCK is set (which is steadier for one thread on a machine with other work). */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stdlib.h>
#include <time.h>

static inline double bench_seconds(void)
{
  struct timespec t;

  clock_gettime(getenv("PEERS_CLOCK") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
