/* compile/code/perf_map.h -- names of compiled code for perf: lines of /tmp/perf-PID.map
 * (tools/perf/Documentation/jit-interface.txt of Linux). */
#ifndef RUSH_COMPILE_PERF_MAP_H
#define RUSH_COMPILE_PERF_MAP_H

#include <stddef.h>

/* Append the code's place and name.  What cannot be written is left out: the code is the same.
 * Threads: lines are written whole. */
void perf_map_add(const void *start, size_t n_bytes, const char *name);

#endif
