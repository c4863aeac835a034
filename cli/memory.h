/* memory.h -- run --memory: measures the memory that a call will need, prints it before the call,
 * and enforces it. */
#ifndef RUSH_CLI_MEMORY_H
#define RUSH_CLI_MEMORY_H

#include "call.h"

typedef struct memory_use {
  /* bytes in use at the start of the call: weights that are not mapped, arguments, compiled code */
  size_t before;
  size_t expected; /* most bytes in use expected during the call, enforced as a limit */
  size_t peak;     /* most bytes in use during the call */
} memory_use;

/* Measure by a run on copies, under the limits of the command line, print it on stderr, and make it
 * the context's limit (--max-bytes is kept).  Returns false with *code set after printing the
 * reason. */
bool memory_expect(cli *c, rush_module *m, const call_args *a, memory_use *out, int *code);
/* Print the memory used, after the call. */
void memory_print(memory_use *m, cli *c);
/* Remove the limit, since the call is over.  Returns false with the error set. */
bool memory_end(cli *c, rush_error *err);

#endif
