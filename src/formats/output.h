/* formats/output.h -- destinations of writers.
 *
 * Writers only append, through one callback.  An output file is written beside its final path under
 * a new random name (O_EXCL), synced, renamed, and its folder synced: a file of that name is either
 * the old one or complete, also after a crash of the machine.  It keeps the mode of the file that
 * it replaces; a symbolic link is kept and its target replaced.  A file that is not committed when
 * the session ends is removed.  Devices and pipes are written directly. */
#ifndef RUSH_FORMATS_OUTPUT_H
#define RUSH_FORMATS_OUTPUT_H

#include "base/session.h"

typedef struct output {
  bool (*write)(void *user, const void *data, size_t n_bytes); /* returns false on failure */
  void *user;
  const char *place; /* shown in errors */
} output;

typedef struct output_file output_file;

/* Make an output that appends to t; a failure of the text_buf is returned as false. */
output output_to_text(text_buf *t);
/* Open an output file; new, closed at the end of the session.  Leaves the session with RUSH_EIO. */
output_file *output_file_new(session *s, const char *path);
output output_to_file(output_file *f);
/* Flush the complete file and rename it to its final path. */
void output_file_commit(session *s, output_file *f);
/* Write bytes; leaves the session with RUSH_EIO on failure. */
void output_put(session *s, const output *out, const void *data, size_t n_bytes);

#endif
