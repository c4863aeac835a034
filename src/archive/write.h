/* archive/write.h -- TorchScript archives out, as PyTorch 2.13 lays them out (docs/formats.md).
 *
 * Data is what the object holds now; code is printed from graphs (script/print/print.h).  The same
 * object gives the same bytes.  A file is written beside its place and renamed.
 * Threads: the caller sees to it that nobody changes the object meanwhile. */
#ifndef RUSH_ARCHIVE_WRITE_H
#define RUSH_ARCHIVE_WRITE_H

#include "formats/output.h"
#include "value/value.h"

typedef struct archive_file { /* of the author's */
  const char *name;
  str bytes;
} archive_file;

typedef struct archive_target {
  const char *path;  /* names the root too; may be NULL with out */
  const output *out; /* where the bytes go; NULL: to the path */
  const char *root;  /* the archive's root folder; NULL: from the path, or "archive" */
  const archive_file *files;
  uint32_t n_files;
  const char *method; /* of a text's module: this one only, as forward; NULL: all */
} archive_target;

/* `object`: RUSH_TAG_OBJECT. */
rush_status archive_write(call_ctx *cx, rush_value object, const archive_target *to) RUSH_CHECKED;

/* The texts that an archive of the object would hold, each below a comment with its record's name.
 * */
void archive_show_code(session *s, rush_value object, text_buf *out);

#endif
