/* base/source.h -- source texts and ranges in them.
 *
 * A source is refcounted and immutable.  A range borrows its source, which its program owns.
 * Offsets are in bytes; displayed lines and columns count from 1. */
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
  /* line number of the first line: 1 unless the text is part of a larger file */
  uint32_t first_line;
  /* a file whose functions are compiled one by one: an excerpt does not leave its function */
  bool by_function;
} source;

typedef struct source_range {
  const source *src; /* NULL: unknown */
  uint32_t start, end; /* bytes */
} source_range;

/* Make a source; copies both texts.  New; NULL if memory runs out. */
source *source_new(context *c, const char *name, const char *text, size_t len);
source *source_retain(source *s);
void source_release(source *s);
/* Compute line (from 1, plus first_line - 1) and column (from 1) of a byte offset. */
void source_position(const source *s, uint32_t offset, uint32_t *line, uint32_t *column);
/* Append PyTorch's excerpt: `  File "name", line N`, two lines of context, and `~~~~ <--- HERE`. */
void source_excerpt(text_buf *out, const source_range *at);
/* Like source_excerpt, as in tracebacks: `  File "name", line N, in function` (function NULL:
 * without). */
void source_excerpt_in(text_buf *out, const source_range *at, const char *function);

#endif
