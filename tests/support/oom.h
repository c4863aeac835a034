/* support/oom.h -- runs code with its 1st, 2nd, 3rd ... allocation failing, alone and with all
 * later ones.
 *
 *   OOM_LOOP(cx) {
 *     thing *t = NULL;
 *     rush_status st = thing_new(&cx, &t);
 *     assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
 *     thing_release(t);
 *   }
 *
 * Each round has a new context on an allocator that fails, and must hold nothing at its end.  At
 * first only one allocation of each round fails: later ones succeed.  After a round without a
 * failure the rounds start again, and every allocation from the round's number on fails: code that
 * reports the failure and cleans up must not need memory.  The loop ends after the second round
 * without a failure.  Do not `break` or `return`. */
#ifndef TEST_SUPPORT_OOM_H
#define TEST_SUPPORT_OOM_H

#include "support/test.h"

typedef struct oom_state {
  long countdown; /* allocations before the one that fails */
  long at;        /* its number */
  long round;     /* the next round's */
  bool lasting; /* all allocations after that one fail too */
  bool fired;
  bool on;
  size_t held; /* blocks */
  rush_error err;
} oom_state;

static inline void *oom_alloc(void *user, size_t n_bytes)
{
  oom_state *o = user;
  if (o->on && (o->countdown-- == 0 || (o->lasting && o->fired))) {
    o->fired = true;
    return NULL;
  }
  o->held++;
  return malloc(n_bytes);
}

static inline void oom_free(void *user, void *p, size_t n_bytes)
{
  (void)n_bytes;
  ((oom_state *)user)->held--;
  free(p);
}

static inline bool oom_begin(oom_state *o, call_ctx *cx)
{
  if (o->round > 0 && !o->fired) {
    if (o->lasting)
      return false;
    o->lasting = true;
    o->round = 0;
  }
  o->on = o->fired = false;
  o->countdown = o->at = o->round;
  o->round += o->lasting ? 1 + o->round / 32
                         : 1; /* this many of them are excluded: their reports look alike */
  assert_true(o->round < 1000000); /* an allocation is repeated without end */
  context_options opt = {.allocator = {oom_alloc, oom_free, o}, .n_threads = 1, .no_cache = true};
  call_ctx_init(cx, test_context(&opt), &o->err);
  o->on = true;
  return true;
}

static inline void oom_end(oom_state *o, call_ctx *cx)
{
  o->on = false;
  context_release(cx->ctx); /* with the content of its slots: operators, types */
  if (o->held)
    fail_msg("allocation %ld%s failed: %zu blocks are held", o->at,
             o->lasting ? " and all after it" : "", o->held);
  rush_error_clear(&o->err);
}

#define OOM_LOOP(cx)                            \
  call_ctx cx;                                  \
  for (oom_state oom_ = {0}; oom_begin(&oom_, &cx); oom_end(&oom_, &cx))

#endif
