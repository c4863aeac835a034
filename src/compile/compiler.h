/* compile/compiler.h -- what the parts of our compiler share in a context. */
#ifndef RUSH_COMPILE_COMPILER_H
#define RUSH_COMPILE_COMPILER_H

#include "compile/fuse.h"

typedef struct compiler {
  backend backend;
  atomic_bool is_ready; /* registered whole */
  _Atomic uint64_t groups, plans, calls;
} compiler;

/* Increment without a locked instruction, which would cost a small call a tenth: simultaneous calls
 * may count as one. */
static inline void compiler_count(_Atomic uint64_t *n)
{
  atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* Register the operator and the pass of regions (region.h). */
rush_status region_register(compiler *own, rush_error *err);
/* Register those of what follows from weights alone (derived.c). */
rush_status derived_register(compiler *own, rush_error *err);

#endif
