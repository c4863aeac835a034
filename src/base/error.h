/* base/error.h -- setting a rush_error.
 *
 * A message is made once, where the failure happens: what was expected, what was found, and where.
 * Upper layers add frames or a place, never a second message.  All functions accept err == NULL. If
 * memory for the text runs out, the error keeps its status, with a static message. */
#ifndef RUSH_BASE_ERROR_H
#define RUSH_BASE_ERROR_H

#include <stdarg.h>

#include "rushlight/rushlight.h"

/* Set status and message; the class is the default for the status (RUSH_ERAISED: RuntimeError,
 * RUSH_EARGUMENT: ValueError, RUSH_EUNSUPPORTED: NotImplementedError, RUSH_ENOMEM: MemoryError...).
 * Clears earlier content.  Returns `status`, so that `return error_set(...)` works. */
rush_status error_set(rush_error *err, rush_status status, const char *fmt, ...) RUSH_PRINTF(3, 4);
/* Like error_set, with the Python exception class `type`, which must be a static string. */
rush_status error_set_type(rush_error *err, rush_status status, const char *type, const char *fmt,
                           ...) RUSH_PRINTF(4, 5);
rush_status error_set_va(rush_error *err, rush_status status, const char *type, const char *fmt,
                         va_list ap);
/* Set RUSH_ELIMIT with the limit that was reached. */
rush_status error_set_limit(rush_error *err, rush_limit limit, const char *type, const char *fmt,
                            ...) RUSH_PRINTF(4, 5);
/* Set RUSH_ENOMEM with a static message; never allocates. */
rush_status error_nomem(rush_error *err);
/* Facts about an error that layers above need when they add to its text.  A new message has none of
 * them. */
typedef enum error_part {
  ERROR_SHOWS_SOURCE = 1, /* the text begins with a newline and quotes the program */
  ERROR_WRONG_TYPE = 2,   /* an argument has another type than its parameter */
  ERROR_SHOWS_SCHEMA = 4  /* the text ends with the schema of what was called */
} error_part;
void error_add_part(rush_error *err, error_part part);
bool error_has_part(const rush_error *err, error_part part);

/* Put "place: " before the message, for the file and record that was being read. */
void error_prefix(rush_error *err, const char *fmt, ...) RUSH_PRINTF(2, 3);
/* Append text to the traceback (innermost frame first; the interpreter formats it completely). */
void error_add_traceback(rush_error *err, const char *text);
/* Check what an external callback returned.  RUSH_OK: clear any error it set.  A failure without an
 * error: set one that names the callback (fmt: "the pass pw::group").  A number that is not a
 * status: RUSH_ERAISED.  Returns the status. */
rush_status error_of_callback(rush_error *err, rush_status st, const char *fmt, ...)
  RUSH_PRINTF(3, 4);
/* Move *from to *to; clears the previous content of *to and leaves *from empty. */
void error_move(rush_error *to, rush_error *from);

#endif
