/* base/session.h -- sessions: one compile-time activity with an arena, an exit by jump, and
 * registered releases.
 *
 * Inside session_run's body allocation never returns NULL, and errors jump to the border, which
 * frees the arena, runs the registered releases and fills the caller's rush_error. Rules:
 *   1. longjmp is used only in session.c.
 *   2. Whatever needs a release is registered (session_defer) as soon as it exists.
 *   3. A status from run-time code goes through session_check.
 *   4. External callbacks are wrapped to return a status; a jump never crosses their frames.
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
  call_ctx *cx;   /* limits, and the error to set */
  arena *mem;     /* scratch memory of this session, freed at the border */
  uint32_t depth; /* nesting of the input being read: see session_enter */
  uint32_t steps; /* for session_poll, which reads the clock once in SESSION_STEPS steps */
  struct session_border *border; /* private */
};

/* Run body(s, arg) inside a border. */
rush_status session_run(call_ctx *cx, void (*body)(session *s, void *arg), void *arg) RUSH_CHECKED;

/* Leave the session with RUSH_ERAISED and the source excerpt of `at` (NULL: none). */
_Noreturn void session_fail(session *s, const source_range *at, const char *fmt, ...)
    RUSH_PRINTF(3, 4);
/* Leave the session with a given status and class (NULL: the default class of the status). */
_Noreturn void session_fail_status(session *s, rush_status st, const char *type,
                                   const source_range *at, const char *fmt, ...) RUSH_PRINTF(5, 6);
/* Leave the session if st is a failure; the error is already set in s->cx->err. */
void session_check(session *s, rush_status st);

/* Allocate zeroed scratch memory, freed with the session.  Never returns NULL. */
void *session_alloc(session *s, size_t n_bytes);
#define session_new(s, type) ((type *)session_alloc((s), sizeof(type)))
#define session_array(s, type, n) ((type *)session_alloc_array((s), (n), sizeof(type)))
void *session_alloc_array(session *s, size_t n, size_t item_bytes);
/* Allocate zeroed memory in a longer-lived arena (a program's).  Never returns NULL. */
void *session_alloc_in(session *s, arena *a, size_t n_bytes);
char *session_strdup(session *s, const char *text);
char *session_strndup(session *s, const char *text, size_t len);
char *session_printf(session *s, const char *fmt, ...) RUSH_PRINTF(2, 3);

/* Register fn(object) to be called when the session ends in any way, newest first. */
void session_defer(session *s, void (*fn)(void *object), void *object);
/* Unregister `object` and return it: it survives the session. */
void *session_keep(session *s, void *object);

/* Poll in every loop whose length depends on the input, once per step: leaves the session if the
 * deadline has passed or the call was cancelled.  Cheap; a step should take at most about 100
 * us. */
#define SESSION_STEPS 64
void session_look(session *s); /* reads the clock now */
static inline void session_poll(session *s)
{
  if (UNLIKELY(++s->steps % SESSION_STEPS == 0))
    session_look(s);
}

/* Enter one level of nested input; leaves with RUSH_ELIMIT beyond limit_depth or the stack's limit
 * (base/context.h). Also polls. */
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

/* Copy the text of *t into the arena; *t is always freed. */
char *session_take_text(session *s, text_buf *t);
/* Copy the error's message, NULL if there is none, into the arena; *err is always cleared. */
char *session_take_message(session *s, rush_error *err);
/* Make an empty text that is freed when the session ends. */
text_buf *session_text(session *s);
/* Make *t, in the caller's memory, an empty table whose content is freed when the session ends. */
void session_table_init(session *s, table *t);
/* Like table_put; leaves the session if memory runs out. */
void session_table_put(session *s, table *t, str key, void *value);
/* Wait for the lock (base/lock.h) and hold it until the session ends, to change what it protects,
 * or to read it. */
void session_lock(session *s, mutex *lock);
void session_lock_to_read(session *s, mutex *lock);

#endif
