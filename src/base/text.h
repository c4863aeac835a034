/* base/text.h -- growing text with a sticky error, and string slices.
 *
 * A text_buf is always NUL-terminated; after a failed allocation it keeps its content, ignores
 * further appends, and text_failed() returns true: check it once at the end.  One thread at a
 * time. */
#ifndef RUSH_BASE_TEXT_H
#define RUSH_BASE_TEXT_H

#include <stdarg.h>
#include <string.h>

#include "base/context.h"

typedef struct text_buf {
  context *ctx;
  char *data; /* NULL while empty */
  size_t len, cap;
  bool failed;
  uint32_t n_adds;       /* for texts with `watch` */
  const call_ctx *watch; /* when this call must end, the text fails; or NULL */
} text_buf;

void text_init(text_buf *t, context *c);
/* Initialise a text that fails when the call must end, so that long texts stop. */
void text_init_call(text_buf *t, const call_ctx *cx);
/* Copy like memcpy; returns false if the call must end before the copy is complete. */
bool bytes_copy(const call_ctx *cx, void *to, const void *from, size_t n);
void text_free(text_buf *t);
void text_clear(text_buf *t);
void text_add(text_buf *t, const char *s, size_t len);
void text_puts(text_buf *t, const char *s);
void text_putc(text_buf *t, char ch);
void text_printf(text_buf *t, const char *fmt, ...) RUSH_PRINTF(2, 3);
void text_vprintf(text_buf *t, const char *fmt, va_list ap);
/* Return the text, "" if empty; borrowed until the next append. */
const char *text_str(const text_buf *t);
static inline bool text_failed(const text_buf *t) { return t->failed; }

typedef struct str { /* a slice; not NUL-terminated */
  const char *p;
  size_t len;
} str;
#define STR(literal) ((str){(literal), sizeof(literal) - 1})
static inline str str_of(const char *s) { return (str){s, s ? strlen(s) : 0}; }
static inline bool str_eq(str a, str b)
{
  return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}
/* True if a and b are equal; cheap if their first letters differ: for searches in short lists. */
static inline bool text_same(const char *a, const char *b) { return *a == *b && strcmp(a, b) == 0; }
static inline bool str_is(str a, const char *b) { return str_eq(a, str_of(b)); }

/* Print a float like Python's repr: "1.0", "1e-05", "inf", "nan".  Returns the length. */
#define FLOAT_REPR_BYTES 32
size_t float_repr(double d, char out[FLOAT_REPR_BYTES]);
/* Append s as a quoted Python literal, escaped like Python's repr. */
void text_quote(text_buf *t, const char *s, size_t len);
/* Return the bytes of the UTF-8 sequence at s (1..4), or 0 if it is malformed. */
size_t utf8_check(const char *s, size_t len);

#endif
