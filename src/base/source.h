/* base/source.h -- source texts and ranges in them.
 *
 * A source is refcounted and immutable.  A range borrows its source, which its program keeps.
 * Offsets are bytes; lines and columns are counted from 1 when shown. */
#ifndef RUSH_BASE_SOURCE_H
#define RUSH_BASE_SOURCE_H

#include "base/context.h"
#include "base/text.h"

typedef struct source {
  _Atomic uint32_t refs;
  context *ctx;
  char *name; /* file name as shown, or NULL */
  char *text; /* NUL-terminated */
  size_t len;
  uint32_t first_line; /* line number of text's first line: 1 unless cut from a larger file */
  /* a file whose functions are compiled one by one: excerpts stay inside the one they point into */
  bool by_function;
} source;

typedef struct source_range {
  const source *src; /* NULL: nowhere */
  uint32_t start, end; /* bytes */
} source_range;

/* New; copies both texts.  NULL without memory. */
source *source_new(context *c, const char *name, const char *text, size_t len);
source *source_retain(source *s);
void source_release(source *s);
/* Line (from 1, plus first_line - 1) and column (from 1) of a byte offset. */
void source_position(const source *s, uint32_t offset, uint32_t *line, uint32_t *column);
/* Append PyTorch's excerpt: `  File "name", line N`, two lines of context, and `~~~~ <--- HERE`. */
void source_excerpt(text_buf *out, const source_range *at);
/* The same as a traceback has it: `  File "name", line N, in function` (NULL: without). */
void source_excerpt_in(text_buf *out, const source_range *at, const char *function);

#endif
