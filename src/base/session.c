/* base/session.c -- the border of a session, its memory, its registered releases, and failure.
 * session_run calls setjmp in a function of its own, so that no local variable can be clobbered;
 * longjmp appears nowhere else. Releases are a list in the arena, run newest first when the session
 * ends. Rejected: error codes through all compile-time code, since most of it can fail anywhere and
 * every function would need a cleanup path. Cost: a release is one small arena allocation. */
#include "base/session.h"

#include "base/lock.h"
#include "base/trail.h"

#include <setjmp.h>
#include <stdio.h>

/* One registered release, in the session's arena. */
typedef struct deferred {
  struct deferred *older;
  void (*fn)(void *object);
  void *object;
} deferred;

struct session_border {
  jmp_buf out;
  rush_status status;
  deferred *newest;
  const trail *trail; /* what is being compiled, innermost first */
  arena mem;
};

/* Call body after the setjmp: a separate function, so that no variable of session_run can be
 * clobbered. */
static rush_status run_body(session *s, void (*body)(session *s, void *arg), void *arg)
{
  if (setjmp(s->border->out) == 0)
    body(s, arg);
  return s->border->status;
}

rush_status session_run(call_ctx *cx, void (*body)(session *s, void *arg), void *arg)
{
  struct session_border border = {.status = RUSH_OK};
  session s = {.cx = cx, .mem = &border.mem, .border = &border};
  TRY(call_enter(cx)); /* sessions nest through imports and composites */
  uint32_t depth = cx->depth, n_refused = mem_n_refused(cx->ctx);
  arena_init(&border.mem, cx->ctx);
  /* Values made while compiling (folded constants) are kept: none of them may be in a caller's
   * buffer. */
  struct output_buffers *outputs = cx->outputs;
  struct rush_tensor *place = cx->place;
  cx->outputs = NULL;
  cx->place = NULL;
  rush_status st = run_body(&s, body, arg);
  cx->outputs = outputs;
  cx->place = place;
  for (deferred *d = border.newest; d; d = d->older)
    if (d->fn)
      d->fn(d->object);
  arena_free(&border.mem);
  cx->depth = depth; /* a jump skips call_leave */
  if (st != RUSH_OK && st != RUSH_ELIMIT && st != RUSH_ECANCELLED &&
      mem_n_refused(cx->ctx) != n_refused)
    st = call_nomem(cx); /* whatever was not found: there was no memory for it */
  call_leave(cx);
  return st;
}

static _Noreturn void leave(session *s, rush_status st)
{
  s->border->status = st;
  longjmp(s->border->out, 1);
}

/* -- Failure ----------------------------------------------------------------------------------- */

void session_push_trail(session *s, trail *t)
{
  t->outer = s->border->trail;
  s->border->trail = t;
}

void session_pop_trail(session *s) { s->border->trail = s->border->trail->outer; }

/* Recursion may be deep: show only its two ends. */
#define MOST_TRAIL 32

static void add_trail(text_buf *out, const trail *t)
{
  for (int n = 0; t && t->outer && n < MOST_TRAIL; t = t->outer, n++) {
    text_printf(out, "'%s' is being compiled since it was called from '%s'\n", t->name,
                t->outer->name);
    source_excerpt(out, t->outer->at);
  }
}

/* How a message and the excerpt behind it are laid out, by the error's class; classes that are not
 * listed have both. */
static const struct form {
  const char *type;
  bool newline, colon; /* before the message; between it and the excerpt */
} forms[] = {
  {"FrontendError", false, true}, /* the errors of PyTorch's converter */
  {"NotSupportedError", false, true},
  {"UnsupportedNodeError", false, true},
  {"UnknownTypeError", true, false}, /* "... Issue occurred at   File ..." */
};

static struct form form_of(const char *type)
{
  for (size_t i = 0; type && i < sizeof forms / sizeof *forms; i++)
    if (strcmp(type, forms[i].type) == 0)
      return forms[i];
  return (struct form){type, true, true};
}

/* Set the error: the message, then the excerpt, in PyTorch's layout. */
static rush_status fill_error(session *s, rush_status st, const char *type, const source_range *at,
                              const char *fmt, va_list ap)
{
  const struct form form = form_of(type);
  text_buf t;

  if (!at || !at->src)
    return error_set_va(s->cx->err, st, type, fmt, ap);
  text_init(&t, s->cx->ctx);
  if (form.newline)
    text_putc(&t, '\n');
  text_vprintf(&t, fmt, ap);
  if (form.colon)
    text_puts(&t, ":\n");
  source_excerpt(&t, at);
  add_trail(&t, s->border->trail);
  if (text_failed(&t))
    st = call_nomem(s->cx);
  else if (type)
    error_set_type(s->cx->err, st, type, "%s", text_str(&t));
  else
    error_set(s->cx->err, st, "%s", text_str(&t));
  if (form.newline && !text_failed(&t))
    error_add_part(s->cx->err, ERROR_SHOWS_SOURCE);
  text_free(&t);
  return st;
}

_Noreturn void session_fail(session *s, const source_range *at, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  rush_status st = fill_error(s, RUSH_ERAISED, NULL, at, fmt, ap);
  va_end(ap);
  leave(s, st);
}

_Noreturn void session_fail_status(session *s, rush_status st, const char *type,
                                   const source_range *at, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  st = fill_error(s, st, type, at, fmt, ap);
  va_end(ap);
  leave(s, st);
}

void session_check(session *s, rush_status st)
{
  if (UNLIKELY(st != RUSH_OK))
    leave(s, st);
}

/* -- Memory ------------------------------------------------------------------------------------ */

/* The arena rounds sizes up to 16: most objects are cleared by a few stores, which may overlap. */
static inline void *clear(char *p, size_t n_bytes)
{
  size_t n = n_bytes ? (n_bytes + 15) & ~(size_t)15 : 16;
  if (n > 128)
    return memset(p, 0, n_bytes);
  if (n > 64) {
    memset(p, 0, 64);
    memset(p + n - 64, 0, 64);
  } else if (n > 16) {
    memset(p, 0, 16);
    memset(p + 16, 0, 16);
    memset(p + n - 32, 0, 32);
  } else {
    memset(p, 0, 16);
  }
  return p;
}

static inline void *alloc_cleared(session *s, arena *a, size_t n_bytes)
{
  void *p = arena_alloc(a, n_bytes);
  if (UNLIKELY(!p))
    leave(s, call_nomem(s->cx));
  return clear(p, n_bytes);
}

void *session_alloc_in(session *s, arena *a, size_t n_bytes)
{
  return alloc_cleared(s, a, n_bytes);
}
void *session_alloc(session *s, size_t n_bytes) { return alloc_cleared(s, s->mem, n_bytes); }

void *session_alloc_array(session *s, size_t n, size_t item_bytes)
{
  size_t n_bytes;
  if (UNLIKELY(!size_mul(n, item_bytes, &n_bytes)))
    leave(s, call_nomem(s->cx));
  return alloc_cleared(s, s->mem, n_bytes);
}

char *session_strndup(session *s, const char *text, size_t len)
{
  char *copy = session_alloc(s, len + 1);
  if (len)
    memcpy(copy, text, len);
  return copy;
}

char *session_strdup(session *s, const char *text)
{
  return session_strndup(s, text, strlen(text));
}

char *session_printf(session *s, const char *fmt, ...)
{
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int len = vsnprintf(NULL, 0, fmt, ap);
  char *out = session_alloc(s, len < 0 ? 1 : (size_t)len + 1);
  if (len > 0)
    vsnprintf(out, (size_t)len + 1, fmt, again);
  va_end(again);
  va_end(ap);
  return out;
}

/* -- Releases ---------------------------------------------------------------------------------- */

void session_defer(session *s, void (*fn)(void *object), void *object)
{
  deferred *d = arena_alloc(s->mem, sizeof *d);
  if (!d) { /* it cannot be registered, so it is released now */
    fn(object);
    leave(s, call_nomem(s->cx));
  }
  *d = (deferred){s->border->newest, fn, object};
  s->border->newest = d;
}

char *session_take_text(session *s, text_buf *t)
{
  const size_t n_bytes = t->len + 1;
  char *copy = text_failed(t) ? NULL : arena_alloc(s->mem, n_bytes);
  if (copy)
    memcpy(copy, text_str(t), n_bytes);
  text_free(t);
  if (!copy)
    leave(s, call_nomem(s->cx));
  return copy;
}

char *session_take_message(session *s, rush_error *err)
{
  const size_t n_bytes = err->message ? strlen(err->message) + 1 : 0;
  char *copy = n_bytes ? arena_alloc(s->mem, n_bytes) : NULL;
  if (copy)
    memcpy(copy, err->message, n_bytes);
  rush_error_clear(err);
  if (n_bytes && !copy)
    leave(s, call_nomem(s->cx));
  return copy;
}

static void free_text(void *t) { text_free(t); }

text_buf *session_text(session *s)
{
  text_buf *t = session_alloc(s, sizeof *t);
  text_init(t, s->cx->ctx);
  session_defer(s, free_text, t);
  return t;
}

static void free_table(void *t) { table_free(t); }

void session_table_init(session *s, table *t)
{
  table_init(t, s->cx->ctx);
  session_defer(s, free_table, t);
}

void session_table_put(session *s, table *t, str key, void *value)
{
  if (!table_put(t, key, value))
    session_check(s, call_nomem(s->cx));
}

static void done(void *lock) { mutex_done(lock); }
static void unlock(void *lock) { mutex_unlock(lock); }

void session_lock(session *s, mutex *lock)
{
  session_check(s, mutex_wait(s->cx, lock));
  session_defer(s, done, lock);
}

void session_lock_to_read(session *s, mutex *lock)
{
  session_check(s, mutex_wait_to_read(s->cx, lock));
  session_defer(s, unlock, lock);
}

void *session_keep(session *s, void *object)
{
  for (deferred **d = &s->border->newest; *d; d = &(*d)->older)
    if ((*d)->object == object && (*d)->fn) {
      *d = (*d)->older;
      return object;
    }
  ASSERT(false, "kept object was never deferred");
  return object;
}

_Noreturn void session_too_deep(session *s)
{
  leave(s, error_set_limit(s->cx->err, RUSH_LIMIT_DEPTH, "RecursionError",
                          "the input is nested too deep: the limit is %u", s->cx->limit_depth));
}

void session_look(session *s) { session_check(s, call_poll(s->cx)); }
