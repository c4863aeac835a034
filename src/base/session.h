/* base/session.h -- one compile-time activity: an arena, an escape, references to release.
 *
 * Inside session_run's body allocation never returns NULL and errors leave by one jump to the
 * border, which frees the arena, drops what was registered and fills the caller's rush_error.
 * Rules:
 *   1. longjmp lives in session.c only.
 *   2. What needs a release is registered (session_defer) the moment it exists.
 *   3. A status from run-time code goes through session_check.
 *   4. Callbacks from outside are wrapped to return a status; a jump never crosses their frames.
 * Sessions nest: an inner border turns its failure into a status.  One thread at a time. */
#ifndef RUSH_BASE_SESSION_H
#define RUSH_BASE_SESSION_H

#include "base/arena.h"
#include "base/source.h"
#include "base/table.h"
#include "base/text.h"
#include "base/threads.h"

typedef struct session session;
struct session {
  call_ctx *cx;   /* limits and the error to fill */
  arena *mem;     /* scratch of this session, freed at the border */
  uint32_t depth; /* nesting of the input being read: session_enter */
  uint32_t steps; /* session_poll: looks at the clock once in SESSION_STEPS of them */
  struct session_border *border; /* private */
};

/* Run body(s, arg) with a border around it. */
rush_status session_run(call_ctx *cx, void (*body)(session *s, void *arg), void *arg) RUSH_CHECKED;

/* Leave: RUSH_ERAISED, RuntimeError-like compile error with the source excerpt of `at` (NULL:
 * none). */
_Noreturn void session_fail(session *s, const source_range *at, const char *fmt, ...)
    RUSH_PRINTF(3, 4);
/* Leave with a status and class of choice (class NULL: the status' usual one). */
_Noreturn void session_fail_status(session *s, rush_status st, const char *type,
                                   const source_range *at, const char *fmt, ...) RUSH_PRINTF(5, 6);
/* Leave if st is a failure; the error was already filled through s->cx->err. */
void session_check(session *s, rush_status st);

/* Scratch memory: never NULL.  Zeroed.  Dies with the session. */
void *session_alloc(session *s, size_t n_bytes);
#define session_new(s, type) ((type *)session_alloc((s), sizeof(type)))
#define session_array(s, type, n) ((type *)session_alloc_array((s), (n), sizeof(type)))
void *session_alloc_array(session *s, size_t n, size_t item_bytes);
/* From a longer-lived arena (a program's): never NULL, zeroed. */
void *session_alloc_in(session *s, arena *a, size_t n_bytes);
char *session_strdup(session *s, const char *text);
char *session_strndup(session *s, const char *text, size_t len);
char *session_printf(session *s, const char *fmt, ...) RUSH_PRINTF(2, 3);

/* Call fn(object) when the session ends, however it ends, newest first. */
void session_defer(session *s, void (*fn)(void *object), void *object);
/* Undo the deferral of `object` and return it: it survives the session. */
void *session_keep(session *s, void *object);

/* In every loop over what the input is long in, one step of it: leaves when the deadline has passed
 * or the call was cancelled.  Cheap; a step should take no longer than some 100 us. */
#define SESSION_STEPS 64
void session_look(session *s); /* at the clock, now */
static inline void session_poll(session *s)
{
  if (UNLIKELY(++s->steps % SESSION_STEPS == 0))
    session_look(s);
}

/* One level deeper into nested input; leaves with RUSH_ELIMIT beyond limit_depth or the stack's
 * limit (base/context.h). Also polls. */
_Noreturn void session_too_deep(session *s);
static inline void session_enter(session *s)
{
  if (UNLIKELY(s->depth >= s->cx->limit_depth))
    session_too_deep(s);
  if (UNLIKELY(call_stack_is_low(s->cx)))
    session_check(s, call_enter_deep(s->cx));
  s->depth++;
  session_poll(s);
}
static inline void session_leave(session *s) { s->depth--; }

/* The text of *t, in the arena; *t is freed whatever happens. */
char *session_take_text(session *s, text_buf *t);
/* An empty text that the session frees at its end. */
text_buf *session_text(session *s);
/* Make *t, which the caller has room for, empty; the session frees what it holds at its end. */
void session_table_init(session *s, table *t);
/* table_put, which cannot fail here: without memory the session is left. */
void session_table_put(session *s, table *t, str key, void *value);
/* Wait for the lock (base/lock.h) and hold it until the session ends. */
void session_lock(session *s, mutex *lock);

#endif
