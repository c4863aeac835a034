/* base/trail.h -- why something is being compiled: who called whom, for the end of an error's text.
 *
 * Entries live on the C stack of whoever pushes them: push, compile, pop (a failure pops by itself,
 * since it ends the session). */
#ifndef RUSH_BASE_TRAIL_H
#define RUSH_BASE_TRAIL_H

#include "base/session.h"

typedef struct trail {
  const char *name;       /* "f", "C.method" */
  const source_range *at; /* what is being compiled in there now; read when a message is made */
  const struct trail *outer;
} trail;

/* `t` becomes the innermost entry; its `outer` is filled. */
void session_push_trail(session *s, trail *t);
void session_pop_trail(session *s);

#endif
