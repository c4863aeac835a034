/* compile/compile.h -- Rushlight's own compiler, as a backend of backend.h.
 *
 * A pass groups chains of pointwise operators; "rushlight::pointwise" owns the groups.  A call's
 * arguments give a key (what each one is: number, float32 or bool tensor, of many elements or one);
 * the first call of a key fuses the formulas into one tape (fuse.h) and makes machine code of it
 * (loop.h), later ones find both.  The pointwise engine runs them (ops/point/point_run.h): blocks,
 * threads, deadlines, broadcasting are its.  What is not fused (other dtypes, results of several
 * sizes, strange layouts) the interpreter does.
 *
 * Threads: the plans of a group are made under its lock and read without. */
#ifndef RUSH_COMPILE_COMPILE_H
#define RUSH_COMPILE_COMPILE_H

#include "rushlight/backend.h"

/* To be called under the context's setup lock; does nothing the second time. */
rush_status compile_register(const rush_backend_api *api, rush_context *c, rush_error *err);

bool compile_is_ready(rush_context *c); /* registered whole */

/* Since the context began. */
typedef struct compile_counters {
  uint64_t groups;      /* made */
  uint64_t plans;       /* fused and compiled for a key */
  uint64_t calls;       /* of groups, run as one */
  /* of groups of any backend, run operator by operator, for whatever reason */
  uint64_t interpreted;
} compile_counters;
compile_counters compile_get_counters(rush_context *c);

#endif
