/* memory.h -- run --memory: what a call is expected to take, said before it, and held. */
#ifndef RUSH_CLI_MEMORY_H
#define RUSH_CLI_MEMORY_H

#include "call.h"

typedef struct memory_use {
  /* bytes in use when the call starts: weights that are not mapped, arguments, compiled code */
  size_t before;
  size_t expected; /* the most that may be in use meanwhile: the limit that is held */
  size_t peak;     /* what it was */
} memory_use;

/* Find out by a run on copies, under the limits of the command line, say it on stderr, and make it
 * the context's limit (a
 * --max-bytes stays).  False with *code set after saying why. */
bool memory_expect(cli *c, rush_module *m, const call_args *a, memory_use *out, int *code);
/* After the call: what it took. */
void memory_say(memory_use *m, cli *c);
/* What follows is no part of the call: no limit again.  False with the error set. */
bool memory_end(cli *c, rush_error *err);

#endif
