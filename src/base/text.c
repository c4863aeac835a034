/* base/text.c -- growing text, floats as Python's repr prints them, UTF-8 checks and quoting. A
 * failed allocation is kept in the buffer and checked once by the caller, because appends come in
 * long chains. Shortest floats are found by printing 15 to 17 digits and parsing them again, which
 * needs no tables as Ryu does; it costs up to three conversions. */
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/unicode.h"

/* -- text_buf ---------------------------------------------------------------------------------- */

void text_init(text_buf *t, context *c) { *t = (text_buf){.ctx = c}; }

void text_init_call(text_buf *t, const call_ctx *cx)
{
  *t = (text_buf){.ctx = cx->ctx, .watch = cx};
}

#define COPY_AT_ONCE ((size_t)4 << 20)

bool bytes_copy(const call_ctx *cx, void *to, const void *from, size_t n)
{
  for (size_t at = 0; at < n; at += COPY_AT_ONCE) {
    if (at && call_over(cx))
      return false;
    memcpy((char *)to + at, (const char *)from + at, n - at < COPY_AT_ONCE ? n - at : COPY_AT_ONCE);
  }
  return true;
}

void text_free(text_buf *t)
{
  mem_free(t->ctx, t->data, t->cap);
  text_init(t, t->ctx);
}

void text_clear(text_buf *t)
{
  t->len = 0;
  t->failed = false;
  if (t->data)
    t->data[0] = '\0';
}

/* Make room for n more bytes and the terminator. */
static bool reserve(text_buf *t, size_t n)
{
  if (t->failed)
    return false;
  size_t need;
  if (!size_add(t->len, n, &need) || need > SIZE_MAX / 4) {
    t->failed = true;
    return false;
  }
  if (need < t->cap)
    return true;
  size_t cap = t->cap * 2 < 64 ? 64 : t->cap * 2;
  if (cap <= need)
    cap = need + need / 2 + 1;
  if (t->watch && cap > COPY_AT_ONCE && call_over(t->watch)) {
    t->failed = true;
    return false;
  }
  char *data = mem_realloc(t->ctx, t->data, t->cap, cap);
  if (!data) {
    t->failed = true;
    return false;
  }
  t->data = data;
  t->cap = cap;
  return true;
}

void text_add(text_buf *t, const char *s, size_t len)
{
  if (!reserve(t, len))
    return;
  if (UNLIKELY(t->watch && (++t->n_adds & 1023) == 0 && call_over(t->watch))) {
    t->failed = true;
    return;
  }
  if (len > COPY_AT_ONCE && t->watch) {
    if (!bytes_copy(t->watch, t->data + t->len, s, len)) {
      t->failed = true;
      return;
    }
  } else if (len) {
    memcpy(t->data + t->len, s, len);
  }
  t->len += len;
  t->data[t->len] = '\0';
}

void text_puts(text_buf *t, const char *s) { text_add(t, s, strlen(s)); }

void text_putc(text_buf *t, char ch) { text_add(t, &ch, 1); }

void text_vprintf(text_buf *t, const char *fmt, va_list ap)
{
  char small[256];
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(small, sizeof small, fmt, ap);
  if (n < 0)
    t->failed = true;
  else if ((size_t)n < sizeof small)
    text_add(t, small, (size_t)n);
  else if (reserve(t, (size_t)n)) {
    vsnprintf(t->data + t->len, (size_t)n + 1, fmt, again);
    t->len += (size_t)n;
  }
  va_end(again);
}

void text_printf(text_buf *t, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(t, fmt, ap);
  va_end(ap);
}

const char *text_str(const text_buf *t) { return t->data ? t->data : ""; }

/* -- Floats ------------------------------------------------------------------------------------ */

/* Add one to the last digit of "d.ddde+xx" in place; returns false if the carry exceeds the
 * digits. */
static bool next_digits(char *text)
{
  char *p = strchr(text, 'e') - 1;
  for (; p > text && *p == '9'; p--)
    *p = '0';
  if (*p < '0' || *p > '8') /* a sign, the point, or 9 in front */
    return false;
  ++*p;
  return true;
}

/* Print the fewest significant digits, at most 17, that parse to d.  If a normal number has a text
 * of 15 digits or less, %.15e prints it with trailing zeros, so fewer digits must be tried only for
 * subnormals. Below a power of two numbers are twice as dense as above: there the nearest text of
 * 16 digits may parse to another number while the next one parses to d. */
static void shortest_digits(double d, char *out, size_t out_bytes)
{
  int exponent;
  bool power = fabs(frexp(d, &exponent)) == 0.5;
  for (int digits = fabs(d) < 0x1p-1022 ? 1 : 15; digits <= 17; digits++) {
    snprintf(out, out_bytes, "%.*e", digits - 1, d);
    if (strtod(out, NULL) == d)
      return;
    if (power && digits == 16 && next_digits(out) && strtod(out, NULL) == d)
      return;
  }
}

/* Write the number of n digits at d and exponent e in Python's format: 1.5, 100.0, 1e-05,
 * 1.5e+16. */
static size_t layout_digits(const char *d, int n, int e, char *out)
{
  char *p = out;
  if (e < -4 || e >= 16) {
    *p++ = d[0];
    if (n > 1) {
      *p++ = '.';
      memcpy(p, d + 1, (size_t)n - 1);
      p += n - 1;
    }
    return (size_t)(p - out) + (size_t)sprintf(p, "e%c%02d", e < 0 ? '-' : '+', abs(e));
  }
  if (e < 0) {
    *p++ = '0';
    *p++ = '.';
    for (int i = -1; i > e; i--)
      *p++ = '0';
    memcpy(p, d, (size_t)n);
    p += n;
  } else {
    for (int i = 0; i < n || i <= e; i++) {
      if (i == e + 1)
        *p++ = '.';
      *p++ = i < n ? d[i] : '0';
    }
    if (n <= e + 1) {
      *p++ = '.';
      *p++ = '0';
    }
  }
  *p = '\0';
  return (size_t)(p - out);
}

size_t float_repr(double d, char out[FLOAT_REPR_BYTES])
{
  char printed[40], digits[20];
  if (isnan(d) || isinf(d))
    return (size_t)sprintf(out, "%s", isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
  shortest_digits(d, printed, sizeof printed);
  /* From d.ddde+xx, with the host locale's point, keep only the digits. */
  int n = 0;
  const char *p = printed;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9')
      digits[n++] = *p;
  int e = *p ? atoi(p + 1) : 0;
  while (n > 1 && digits[n - 1] == '0')
    n--;
  size_t sign = signbit(d) ? 1 : 0;
  out[0] = '-';
  return sign + layout_digits(digits, n, e, out + sign);
}

/* -- Quoting ----------------------------------------------------------------------------------- */

size_t utf8_check(const char *s, size_t len)
{
  const unsigned char *u = (const unsigned char *)s;
  if (len == 0)
    return 0;
  if (u[0] < 0x80)
    return 1;
  size_t n = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
  if (u[0] < 0xc2 || u[0] > 0xf4 || n > len)
    return 0;
  for (size_t i = 1; i < n; i++)
    if ((u[i] & 0xc0) != 0x80)
      return 0;
  /* Overlong forms, surrogates, and values beyond U+10FFFF are all visible in the second byte. */
  if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
      (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))
    return 0;
  return n;
}

/* Decode the code point of a sequence that utf8_check accepted. */
static uint32_t utf8_decode(const char *s, size_t n)
{
  const unsigned char *u = (const unsigned char *)s;
  uint32_t c = n == 1 ? u[0] : u[0] & (0x7fu >> n);
  for (size_t i = 1; i < n; i++)
    c = c << 6 | (u[i] & 0x3f);
  return c;
}

static void quote_char(text_buf *t, const char *s, size_t n, char quote)
{
  uint32_t c = utf8_decode(s, n);
  if (c == (uint32_t)quote || c == '\\')
    text_printf(t, "\\%c", (int)c);
  else if (c == '\n')
    text_add(t, "\\n", 2);
  else if (c == '\r')
    text_add(t, "\\r", 2);
  else if (c == '\t')
    text_add(t, "\\t", 2);
  else if (unicode_is_printable(c))
    text_add(t, s, n);
  else if (c < 0x100)
    text_printf(t, "\\x%02x", (unsigned)c);
  else if (c < 0x10000)
    text_printf(t, "\\u%04x", (unsigned)c);
  else
    text_printf(t, "\\U%08x", (unsigned)c);
}

void text_quote(text_buf *t, const char *s, size_t len)
{
  bool single = len && memchr(s, '\'', len), both = single && memchr(s, '"', len);
  char quote = single && !both ? '"' : '\'';
  text_putc(t, quote);
  for (size_t i = 0; i < len;) {
    size_t n = utf8_check(s + i, len - i);
    if (n)
      quote_char(t, s + i, n, quote);
    else
      text_printf(t, "\\x%02x", (unsigned char)s[i]);
    i += n ? n : 1;
  }
  text_putc(t, quote);
}
