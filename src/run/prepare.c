/* run/prepare.c -- compiles a function and everything it calls before it runs.
 *
 * A depth-first walk over code: the functions that its sites name, and the bodies of its composite
 * operators.  Walking code instead of graphs visits exactly the calls that remain after inlining.
 * Cost: that of compiling all of it. */
#include "run/code_int.h"

#include "base/session.h"
#include "ops/call/call.h"
#include "ops/call/registry.h"

typedef struct walk {
  session *s;
  table seen;        /* functions, by their addresses */
  text_buf *nowhere; /* what describing groups writes */
} walk;

static void walk_function(walk *w, function *f);

/* Compile the operator's body, if it runs by its body. */
static void walk_operator(walk *w, const op *o)
{
  const op *base = o->base && !o->kernel ? o->base : o;

  if (base->kernel || base->outside || !code_runs_op(o))
    return;
  session_check(w->s, op_prepare(w->s->cx, base));
  function *body = atomic_load_explicit(&((op *)(uintptr_t)base)->body, memory_order_acquire);
  if (body)
    walk_function(w, body);
}

static void walk_code(walk *w, const code *c)
{
  for (uint32_t i = 0; i < c->n_sites; i++) {
    if (c->sites[i].function)
      walk_function(w, c->sites[i].function);
    if (c->sites[i].op)
      walk_operator(w, c->sites[i].op);
  }
  code_describe(w->nowhere, c); /* a backend compiles the calls that it has to describe */
  w->nowhere->len = 0;
}

static void walk_function(walk *w, function *f)
{
  function **key = session_new(w->s, function *);
  const code *c;

  *key = f;
  if (table_get(&w->seen, (str){(const char *)key, sizeof *key}))
    return;
  session_table_put(w->s, &w->seen, (str){(const char *)key, sizeof *key}, f);
  session_enter(w->s);
  session_check(w->s, code_of(w->s->cx, f, &c));
  walk_code(w, c);
  session_leave(w->s);
}

static void walk_all(session *s, void *f)
{
  walk *w = session_new(s, walk);

  w->s = s;
  w->nowhere = session_text(s);
  session_table_init(s, &w->seen);
  walk_function(w, f);
}

rush_status code_prepare(call_ctx *cx, function *f) { return session_run(cx, walk_all, f); }
