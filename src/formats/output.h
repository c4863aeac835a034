/* formats/output.h -- where writers put bytes.
 *
 * Writers only append, through one callback.  An output file is written beside its place under a
 * new random name (O_EXCL), synced, renamed, and its folder synced: a file of that name is either
 * the old one or complete, also after a crash of the machine.  It keeps the mode of the file that
 * it replaces; a symbolic link stays, and what it links to is replaced.  What is not committed when
 * the session ends is removed.  Devices and pipes are written directly. */
#ifndef RUSH_FORMATS_OUTPUT_H
#define RUSH_FORMATS_OUTPUT_H

#include "base/session.h"

typedef struct output {
  bool (*write)(void *user, const void *data, size_t n_bytes); /* false: could not */
  void *user;
  const char *place; /* shown in errors */
} output;

typedef struct output_file output_file;

/* Appends; a text_buf's own failure comes back as false. */
output output_to_text(text_buf *t);
/* New; closed at the end of the session.  Leaves with RUSH_EIO. */
output_file *output_file_new(session *s, const char *path);
output output_to_file(output_file *f);
/* All bytes are there: flush them and put the file in its place. */
void output_file_commit(session *s, output_file *f);
/* Leave with RUSH_EIO when the bytes cannot be written. */
void output_put(session *s, const output *out, const void *data, size_t n_bytes);

#endif
