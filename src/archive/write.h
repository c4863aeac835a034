/* archive/write.h -- writes TorchScript archives with PyTorch 2.13's layout (docs/formats.md).
 *
 * Data is the present content of the object; code is printed from graphs (script/print/print.h).
 * The same object is written as the same bytes.  A file is written beside its final path and
 * renamed. Threads: the caller must ensure that the object is not changed meanwhile. */
#ifndef RUSH_ARCHIVE_WRITE_H
#define RUSH_ARCHIVE_WRITE_H

#include "formats/output.h"
#include "value/value.h"

typedef struct archive_file { /* a file of the author's */
  const char *name;
  str bytes;
} archive_file;

typedef struct archive_target {
  const char *path;  /* also determines the root; may be NULL with out */
  const output *out; /* destination; NULL: the path */
  const char *root;  /* the archive's root folder; NULL: from the path, or "archive" */
  const archive_file *files;
  uint32_t n_files;
  const char *method; /* of a text's module: write only this one, as forward; NULL: all */
} archive_target;

/* Write an archive; `object` is a RUSH_TAG_OBJECT. */
rush_status archive_write(call_ctx *cx, rush_value object, const archive_target *to) RUSH_CHECKED;

/* Print the texts that an archive of the object would contain, each below a comment with its
 * record's name. */
void archive_show_code(session *s, rush_value object, text_buf *out);

#endif
