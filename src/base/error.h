/* base/error.h -- filling a rush_error.
 *
 * A message is made once, where the failure happens, with what was expected, what came and where.
 * Upper layers add frames or a place, never a second message.  All functions accept err == NULL.
 * When there is no memory for the text, the error keeps its status with a static message. */
#ifndef RUSH_BASE_ERROR_H
#define RUSH_BASE_ERROR_H

#include <stdarg.h>

#include "rushlight/rushlight.h"

/* Set status and message; the class is the usual one of the status (RUSH_ERAISED: RuntimeError,
 * RUSH_EARGUMENT: ValueError, RUSH_EUNSUPPORTED: NotImplementedError, RUSH_ENOMEM: MemoryError...).
 * An earlier content is cleared.  Returns `status`, so that `return error_set(...)` works. */
rush_status error_set(rush_error *err, rush_status status, const char *fmt, ...) RUSH_PRINTF(3, 4);
/* The same with the Python exception class, which must be a static string. */
rush_status error_set_type(rush_error *err, rush_status status, const char *type, const char *fmt,
                           ...) RUSH_PRINTF(4, 5);
rush_status error_set_va(rush_error *err, rush_status status, const char *type, const char *fmt,
                         va_list ap);
/* RUSH_ELIMIT with the limit that was met. */
rush_status error_set_limit(rush_error *err, rush_limit limit, const char *type, const char *fmt,
                            ...) RUSH_PRINTF(4, 5);
/* RUSH_ENOMEM with a static message; never allocates. */
rush_status error_nomem(rush_error *err);
/* Put "place: " before the message: the file and record where a reader was. */
void error_prefix(rush_error *err, const char *fmt, ...) RUSH_PRINTF(2, 3);
/* Append text to the traceback (innermost frame first; the interpreter formats whole). */
void error_add_traceback(rush_error *err, const char *text);
/* Settle what a callback from outside returned.  RUSH_OK: clear what it left in err.  A failure
 * without an error: set one that names the callback (fmt: "the pass pw::group").  A number that is
 * no status: RUSH_ERAISED.  Returns the status. */
rush_status error_of_callback(rush_error *err, rush_status st, const char *fmt, ...)
  RUSH_PRINTF(3, 4);
/* *to = *from, then *from is empty.  What *to held is cleared. */
void error_move(rush_error *to, rush_error *from);

#endif
