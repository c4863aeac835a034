/* base/trail.h -- the chain of functions being compiled, shown at the end of error texts.
 *
 * Entries live on the C stack: push one, compile, pop it (a failure needs no pop, since it ends the
 * session). */
#ifndef RUSH_BASE_TRAIL_H
#define RUSH_BASE_TRAIL_H

#include "base/session.h"

typedef struct trail {
  const char *name;       /* "f", "C.method" */
  const source_range *at; /* the place being compiled in it; read when a message is made */
  const struct trail *outer;
} trail;

/* Push `t` as the innermost entry; sets t->outer. */
void session_push_trail(session *s, trail *t);
void session_pop_trail(session *s);

#endif
