/* compile/compile.h -- Rushlight's own compiler, a backend of backend.h.
 *
 * A pass groups chains of pointwise operators; "rushlight::pointwise" owns the groups.  A call's
 * arguments determine a key (the kind of each: number, float32 or bool tensor, of many elements or
 * one); the first call with a key fuses the formulas into one tape (fuse.h) and makes machine code
 * from it (loop.h), later ones find both.  The pointwise engine runs them (ops/point/point_run.h)
 * and provides blocks, threads, deadlines and broadcasting.  The interpreter runs what cannot be
 * fused (other dtypes, results of several sizes, unusual layouts).
 *
 * Threads: the plans of a group are made under its lock and read without. */
#ifndef RUSH_COMPILE_COMPILE_H
#define RUSH_COMPILE_COMPILE_H

#include "rushlight/backend.h"

/* Register the compiler; call it under the context's setup lock.  Does nothing the second time. */
rush_status compile_register(const rush_backend_api *api, rush_context *c, rush_error *err);

bool compile_is_ready(rush_context *c); /* registration is complete */

/* Counters since the context was made. */
typedef struct compile_counters {
  uint64_t groups;      /* groups made */
  uint64_t plans;       /* plans fused and compiled for a key */
  uint64_t calls;       /* calls of groups that ran as one */
  /* calls of groups of any backend that ran operator by operator, for any reason */
  uint64_t interpreted;
} compile_counters;
compile_counters compile_get_counters(rush_context *c);

#endif
