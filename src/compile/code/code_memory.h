/* compile/code/code_memory.h -- memory that runs.
 *
 * A context's kernels share chunks of 64 KB.  A chunk is mapped to run; a second view of its memory
 * exists while a kernel is written into it and is unmapped then: no page is ever writable and
 * executable, nothing that runs can be written to between, and writing a new kernel does not stop
 * the others.  It costs three system calls a kernel.  Where that is forbidden, each kernel has
 * pages of its own, which are written first and made executable then.
 *
 * Chunks count in the context's byte limit and go when their last kernel goes.  A forked child
 * makes new chunks: the parent's are shared memory.  Threads: locked inside. */
#ifndef RUSH_COMPILE_CODE_MEMORY_H
#define RUSH_COMPILE_CODE_MEMORY_H

#include "base/context.h"

typedef struct code_block {
  const uint8_t *run; /* 64-byte aligned */
  struct code_chunk *chunk;
  size_t n_bytes;
} code_block;

/* A copy of the bytes that runs. */
rush_status code_memory_new(call_ctx *cx, const void *bytes, size_t n_bytes,
                            code_block *out) RUSH_CHECKED;
void code_memory_release(context *c, const code_block *block);

#endif
