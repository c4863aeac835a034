/* compile/code/code_memory.h -- executable memory.
 *
 * A context's kernels share chunks of 64 KB.  A chunk is mapped executable; a second view of its
 * memory exists while a kernel is written into it and is then unmapped: no page is ever writable
 * and executable, running code cannot be overwritten between, and writing a new kernel does not
 * stop the others.  It costs three system calls per kernel.  If that is forbidden, each kernel has
 * pages of its own, which are written first and then made executable.
 *
 * Chunks count in the context's byte limit and are freed with their last kernel.  A forked child
 * makes new chunks: the parent's are shared memory.  Threads: locked internally. */
#ifndef RUSH_COMPILE_CODE_MEMORY_H
#define RUSH_COMPILE_CODE_MEMORY_H

#include "base/context.h"

typedef struct code_block {
  const uint8_t *run; /* 64-byte aligned */
  struct code_chunk *chunk;
  size_t n_bytes;
} code_block;

/* Make an executable copy of the bytes. */
rush_status code_memory_new(call_ctx *cx, const void *bytes, size_t n_bytes,
                            code_block *out) RUSH_CHECKED;
void code_memory_release(context *c, const code_block *block);

#endif
