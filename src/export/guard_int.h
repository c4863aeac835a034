/* export/guard_int.h -- what the files of guards share. */
#ifndef RUSH_EXPORT_GUARD_INT_H
#define RUSH_EXPORT_GUARD_INT_H

#include "export/exported.h"

/* Append Python's ast.unparse of `text`, which expression_read accepts, with x for L['x']. */
void guard_unparse(session *s, text_buf *out, const char *text);

#endif
