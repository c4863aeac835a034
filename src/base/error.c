/* base/error.c -- sets and clears rush_error. A message is formatted before the old one is
 * released, because its arguments may point into it. Its text is allocated by malloc instead of a
 * context, since errors exist where there is no context; if memory runs out, the status remains
 * with a static message. */
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* The target of rush_error.owned.  Errors are set where there may be no context (a failed
 * context_new) and cleared by hosts without one, so their text comes from malloc: the one exception
 * to "all memory through the context". */
typedef struct error_text {
  char *message;
  char *traceback;
  unsigned parts; /* of error_part */
} error_text;

static const char no_memory[] = "out of memory";

static const char *usual_type(rush_status status)
{
  switch (status) {
  case RUSH_OK:
    return NULL;
  case RUSH_ERAISED:
  case RUSH_EFORMAT:
  case RUSH_ELIMIT:
  case RUSH_ECANCELLED:
  case RUSH_EINTERNAL:
    return "RuntimeError";
  case RUSH_EARGUMENT:
    return "ValueError";
  case RUSH_EIO:
    return "OSError";
  case RUSH_EUNSUPPORTED:
    return "NotImplementedError";
  case RUSH_ENOMEM:
    return "MemoryError";
  }
  return "RuntimeError";
}

const char *rush_status_name(rush_status status)
{
  switch (status) {
  case RUSH_OK:
    return "ok";
  case RUSH_ERAISED:
    return "raised";
  case RUSH_EARGUMENT:
    return "wrong argument";
  case RUSH_EFORMAT:
    return "damaged file";
  case RUSH_EIO:
    return "input or output failed";
  case RUSH_EUNSUPPORTED:
    return "unsupported";
  case RUSH_ELIMIT:
    return "limit reached";
  case RUSH_ECANCELLED:
    return "cancelled";
  case RUSH_ENOMEM:
    return "out of memory";
  case RUSH_EINTERNAL:
    return "internal error";
  }
  return "unknown status";
}

void rush_error_clear(rush_error *err)
{
  if (!err)
    return;
  error_text *text = err->owned;
  if (text) {
    free(text->message);
    free(text->traceback);
    free(text);
  }
  *err = (rush_error)RUSH_ERROR_INIT;
}

/* Format a new string; returns NULL if memory runs out. */
static char *format(const char *fmt, va_list ap)
{
  va_list again;
  va_copy(again, ap);
  int len = vsnprintf(NULL, 0, fmt, ap);
  char *text = len < 0 ? NULL : malloc((size_t)len + 1);
  if (text)
    vsnprintf(text, (size_t)len + 1, fmt, again);
  va_end(again);
  return text;
}

static error_text *owned_text(rush_error *err)
{
  if (!err->owned)
    err->owned = calloc(1, sizeof(error_text));
  return err->owned;
}

rush_status error_set_va(rush_error *err, rush_status status, const char *type, const char *fmt,
                         va_list ap)
{
  if (!err)
    return status;
  /* Formatted before the old content is freed: the arguments may point into it. */
  char *message = format(fmt, ap);
  /* A new message of an RUSH_ELIMIT error keeps its limit. */
  const rush_limit limit = status != RUSH_ELIMIT ? RUSH_LIMIT_NONE
                           : err->limit          ? err->limit
                                                 : RUSH_LIMIT_OTHER;
  rush_error_clear(err);
  err->status = status;
  err->limit = limit;
  err->type = type ? type : usual_type(status);
  error_text *text = message ? owned_text(err) : NULL;
  if (!text) {
    free(message);
    err->message = "(no memory for the message)";
    return status;
  }
  text->message = message;
  err->message = message;
  return status;
}

rush_status error_set_limit(rush_error *err, rush_limit limit, const char *type, const char *fmt,
                            ...)
{
  va_list ap;
  va_start(ap, fmt);
  error_set_va(err, RUSH_ELIMIT, type, fmt, ap);
  va_end(ap);
  if (err)
    err->limit = limit;
  return RUSH_ELIMIT;
}

rush_status error_set(rush_error *err, rush_status status, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  error_set_va(err, status, NULL, fmt, ap);
  va_end(ap);
  return status;
}

rush_status error_set_type(rush_error *err, rush_status status, const char *type, const char *fmt,
                           ...)
{
  va_list ap;
  va_start(ap, fmt);
  error_set_va(err, status, type, fmt, ap);
  va_end(ap);
  return status;
}

rush_status error_nomem(rush_error *err)
{
  if (err) {
    rush_error_clear(err);
    err->status = RUSH_ENOMEM;
    err->type = usual_type(RUSH_ENOMEM);
    err->message = no_memory;
  }
  return RUSH_ENOMEM;
}

void error_add_part(rush_error *err, error_part part)
{
  error_text *text = err ? err->owned : NULL;

  if (text) /* else there was no memory for the text that the part is about */
    text->parts |= part;
}

bool error_has_part(const rush_error *err, error_part part)
{
  const error_text *text = err ? err->owned : NULL;

  return text && (text->parts & part);
}

void error_prefix(rush_error *err, const char *fmt, ...)
{
  if (!err || err->status == RUSH_OK)
    return;
  va_list ap;
  va_start(ap, fmt);
  char *place = format(fmt, ap);
  va_end(ap);
  const char *old = err->message ? err->message : "";
  size_t n = place ? strlen(place) + 2 + strlen(old) + 1 : 0;
  char *message = place ? malloc(n) : NULL;
  error_text *text = message ? owned_text(err) : NULL;
  if (text) {
    snprintf(message, n, "%s: %s", place, old);
    free(text->message);
    text->message = message;
    text->parts &= ~(unsigned)ERROR_SHOWS_SOURCE;
    err->message = message;
  } else {
    free(message);
  }
  free(place);
}

void error_add_traceback(rush_error *err, const char *more)
{
  if (!err)
    return;
  error_text *text = owned_text(err);
  if (!text)
    return;
  size_t old = text->traceback ? strlen(text->traceback) : 0;
  size_t len = strlen(more);
  char *joined = realloc(text->traceback, old + len + 1);
  if (!joined)
    return;
  memcpy(joined + old, more, len + 1);
  text->traceback = joined;
  err->traceback = joined;
}

void error_move(rush_error *to, rush_error *from)
{
  if (!from || to == from)
    return;
  if (!to) {
    rush_error_clear(from);
    return;
  }
  rush_error_clear(to);
  *to = *from;
  *from = (rush_error)RUSH_ERROR_INIT;
}

rush_status error_of_callback(rush_error *err, rush_status st, const char *fmt, ...)
{
  if (st == RUSH_OK) {
    if (err && err->status != RUSH_OK)
      rush_error_clear(err);
    return st;
  }
  const bool is_known = st > RUSH_OK && st <= RUSH_EINTERNAL;
  if (is_known && (!err || err->status != RUSH_OK))
    return st;
  va_list ap;
  va_start(ap, fmt);
  char *who = format(fmt, ap);
  va_end(ap);
  if (is_known)
    error_set(err, st, "%s failed without a reason (%s)", who ? who : "a callback",
              rush_status_name(st));
  else
    st = error_set(err, RUSH_ERAISED, "%s returned %d, which is no status",
                   who ? who : "a callback", (int)st);
  free(who);
  return st;
}
