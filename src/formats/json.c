/* formats/json.c -- the pull reader of json.h and the quoting of strings. It keeps a stack of open
 * containers, whose closed levels are reused; each level keeps its keys to refuse duplicates: a
 * linear search up to 12 keys, a hash table beyond (no base/table.c: a level is cleared for the
 * next object in O(its keys)). Strings are scanned eight bytes at a time, or 16 with SSE2, and what
 * is read later in blocks of 64.
 * Rejected: a tree, since metadata is large and most of it is skipped. Cost: O(bytes). */
#include "formats/json.h"

#include <stdio.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/grow.h"
#include "base/number.h"
#include "base/table.h"

/* Up to this many keys of an object are compared one by one; more are put in a hash table. */
enum { LINEAR_KEYS = 12 };

typedef struct json_key {
  str text;
  uint64_t hash;
} json_key;

struct json_level {
  json_level *below; /* the enclosing container, or the next spare one */
  bool object;
  bool first;        /* nothing was read of it yet */
  json_key *keys;    /* seen so far; kept when the level is reused */
  uint32_t n_keys, cap_keys;
  uint32_t *slots;   /* index + 1 into keys, or 0; all 0 unless n_keys > LINEAR_KEYS */
  uint32_t n_slots;  /* a power of two, or 0 */
};

/* -- Characters -------------------------------------------------------------------------------- */

void json_fail(json *j, const char *fmt, ...)
{
  char text[512];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  input_fail(j->s, &j->in, j->pos, "%s", text);
}

/* Return the next character that is not a blank, or -1 at the end, without consuming it. */
static int look(json *j)
{
  const char *p = j->in.bytes.p;

  while (j->pos < j->end) {
    char ch = p[j->pos];
    if (ch != ' ' && ch != '\n' && ch != '\t' && ch != '\r')
      return (unsigned char)ch;
    j->pos++;
  }
  return -1;
}

_Noreturn static void unexpected(json *j, const char *wanted)
{
  int ch = look(j);

  if (ch < 0)
    json_fail(j, "expected %s, found the end", wanted);
  if (ch < 0x20 || ch >= 0x7f)
    json_fail(j, "expected %s, found byte 0x%02x", wanted, (unsigned)ch);
  json_fail(j, "expected %s, found '%c'", wanted, ch);
}

static bool has_word(const json *j, size_t at, const char *word)
{
  size_t n = strlen(word);
  return n <= j->end - at && memcmp(j->in.bytes.p + at, word, n) == 0;
}

static bool is_digit(const json *j, size_t at)
{
  return at < j->end && j->in.bytes.p[at] >= '0' && j->in.bytes.p[at] <= '9';
}

/* Begin to read a value. */
static int start_value(json *j)
{
  ASSERT(j->ready, "no value may be read here");
  int ch = look(j);
  if (ch < 0)
    unexpected(j, "a value");
  return ch;
}

/* -- Numbers and words ------------------------------------------------------------------------- */

/* Return the end of the number at `at`; 0 if it is malformed. */
static size_t scan_number(const json *j, size_t at, bool *is_float)
{
  const char *p = j->in.bytes.p;

  *is_float = false;
  if (at < j->end && p[at] == '-')
    at++;
  if (!is_digit(j, at))
    return 0;
  if (p[at] == '0')
    at++;
  else
    while (is_digit(j, at))
      at++;
  if (at < j->end && p[at] == '.') {
    *is_float = true;
    if (!is_digit(j, ++at))
      return 0;
    while (is_digit(j, at))
      at++;
  }
  if (at < j->end && (p[at] | 0x20) == 'e') {
    *is_float = true;
    at++;
    if (at < j->end && (p[at] == '+' || p[at] == '-'))
      at++;
    if (!is_digit(j, at))
      return 0;
    while (is_digit(j, at))
      at++;
  }
  return at;
}

/* Return Python's word at `at` for a number that JSON does not have; NULL if there is none. */
static const char *float_word(const json *j, size_t at)
{
  static const char *const words[] = {"NaN", "Infinity", "-Infinity"};

  for (size_t i = 0; i < COUNT_OF(words); i++)
    if (has_word(j, at, words[i]))
      return words[i];
  return NULL;
}

/* Read the number at the position. */
static str take_number(json *j, bool *is_float)
{
  const char *word = float_word(j, j->pos);
  size_t at = word ? j->pos + strlen(word) : scan_number(j, j->pos, is_float);

  if (word)
    *is_float = true;
  if (at == 0)
    json_fail(j, "malformed number");
  str t = {j->in.bytes.p + j->pos, at - j->pos};
  j->pos = at;
  return t;
}

json_type json_peek(json *j)
{
  int ch = start_value(j);
  bool is_float;

  switch (ch) {
  case '{': return JSON_OBJECT;
  case '[': return JSON_ARRAY;
  case '"': return JSON_STRING;
  case 'n':
    if (has_word(j, j->pos, "null"))
      return JSON_NULL;
    break;
  case 't':
  case 'f':
    if (has_word(j, j->pos, ch == 't' ? "true" : "false"))
      return JSON_BOOL;
    break;
  default:
    if (float_word(j, j->pos))
      return JSON_FLOAT;
    if (scan_number(j, j->pos, &is_float))
      return is_float ? JSON_FLOAT : JSON_INT;
  }
  unexpected(j, "a value");
}

/* Check that the next value has this type. */
static void need(json *j, json_type type)
{
  static const char *const names[] = {
      [JSON_NULL] = "null",       [JSON_BOOL] = "true or false", [JSON_INT] = "an integer",
      [JSON_FLOAT] = "a number",  [JSON_STRING] = "a string",    [JSON_ARRAY] = "an array",
      [JSON_OBJECT] = "an object"};
  json_type found = json_peek(j);

  if (found != type)
    json_fail(j, "expected %s, found %s", names[type], names[found]);
}

void json_null(json *j)
{
  need(j, JSON_NULL);
  j->pos += 4;
  j->ready = false;
}

bool json_bool(json *j)
{
  need(j, JSON_BOOL);
  bool b = j->in.bytes.p[j->pos] == 't';
  j->pos += b ? 4 : 5;
  j->ready = false;
  return b;
}

int64_t json_int(json *j)
{
  bool is_float;
  uint64_t v = 0;

  need(j, JSON_INT);
  size_t start = j->pos;
  str t = take_number(j, &is_float);
  bool negative = t.p[0] == '-';
  uint64_t limit = (uint64_t)INT64_MAX + negative;
  for (size_t i = negative; i < t.len; i++)
    if (__builtin_mul_overflow(v, 10, &v) ||
        __builtin_add_overflow(v, (uint64_t)(t.p[i] - '0'), &v) || v > limit) {
      j->pos = start;
      json_fail(j, "the integer does not fit 64 bits");
    }
  j->ready = false;
  return negative ? (int64_t)(0 - v) : (int64_t)v;
}

double json_double(json *j)
{
  bool is_float;
  double d = 0;
  str t;

  switch (json_peek(j)) {
  case JSON_STRING:
    t = json_string(j);
    if (!str_is(t, "Infinity") && !str_is(t, "-Infinity") && !str_is(t, "NaN"))
      json_fail(j, "expected a number, found a string");
    break;
  case JSON_INT:
  case JSON_FLOAT:
    t = take_number(j, &is_float);
    j->ready = false;
    break;
  default: need(j, JSON_FLOAT); UNREACHABLE();
  }
  if (!float_parse(t.p, t.len, &d))
    json_fail(j, "malformed number");
  return d;
}

/* -- Strings ----------------------------------------------------------------------------------- */

/* Return how many of the eight bytes, from the first, are plain: ASCII, no quote, no backslash, no
 * control character.  Each test sets the high bit of a byte that fails it, and perhaps of later
 * bytes. */
static size_t plain_of_eight(const char *p)
{
  const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
  const unsigned char *u = (const unsigned char *)p;
  /* written out, compilers make it one load where bytes are little-endian; of a loop they do not */
  const uint64_t v = (uint64_t)u[0] | (uint64_t)u[1] << 8 | (uint64_t)u[2] << 16 |
                     (uint64_t)u[3] << 24 | (uint64_t)u[4] << 32 | (uint64_t)u[5] << 40 |
                     (uint64_t)u[6] << 48 | (uint64_t)u[7] << 56;
  const uint64_t quote = v ^ ones * '"', slash = v ^ ones * '\\';
  const uint64_t failed = (v | (v - ones * 0x20) | (quote - ones) | (slash - ones)) & high;
  return failed ? (size_t)__builtin_ctzll(failed) / 8 : 8;
}

/* Return the position behind plain characters, as plain_of_eight has them, from `at` <= end on;
 * others may be plain too, near the end. */
static size_t pass_plain(const char *p, size_t at, size_t end)
{
#ifdef __SSE2__
  for (; end - at >= 16; at += 16) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + at));
    const __m128i failed = _mm_or_si128(_mm_cmplt_epi8(v, _mm_set1_epi8(0x20)), /* and >= 0x80 */
                                        _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
                                                     _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));
    const int bits = _mm_movemask_epi8(failed);
    if (bits)
      return at + (size_t)__builtin_ctz((unsigned)bits);
  }
#endif
  for (size_t n = 8; n == 8 && end - at >= 8; at += n)
    n = plain_of_eight(p + at);
  return at;
}

/* Find the closing quote of the string at the position.  *plain: it has no escapes. */
static size_t scan_string(json *j, bool check_utf8, bool *plain)
{
  const char *p = j->in.bytes.p;
  size_t at = j->pos + 1;

  *plain = true;
  while (at < j->end) {
    at = pass_plain(p, at, j->end);
    if (at == j->end)
      break;
    unsigned char ch = (unsigned char)p[at];
    if (ch == '"')
      return at;
    if (ch == '\\') {
      *plain = false;
      at += 2;
    } else if (ch < 0x20) {
      j->pos = at;
      json_fail(j, "control character 0x%02x in a string", (unsigned)ch);
    } else if (ch < 0x80 || !check_utf8) {
      at++;
    } else {
      size_t n = utf8_check(p + at, j->end - at);
      if (n == 0) {
        j->pos = at;
        json_fail(j, "a string is not UTF-8");
      }
      at += n;
    }
  }
  json_fail(j, "a string without end");
}

/* Decode the \uXXXX escape whose backslash is at `at`; returns -1 if it is malformed.  `end` is the
 * closing quote. */
static int32_t read_u(const char *p, size_t at, size_t end)
{
  int32_t v = 0;

  if (end - at < 6 || p[at] != '\\' || p[at + 1] != 'u')
    return -1;
  for (size_t i = at + 2; i < at + 6; i++) {
    int digit = hex_digit(p[i]);
    if (digit < 0)
      return -1;
    v = v * 16 + digit;
  }
  return v;
}

static size_t put_utf8(char *to, uint32_t c)
{
  if (c < 0x80) {
    to[0] = (char)c;
    return 1;
  }
  int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, c >>= 6)
    to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)((0xf00 >> n) | c);
  return (size_t)n;
}

/* Decode the escape at `at`; returns the position after it. */
static size_t decode_escape(json *j, size_t at, size_t end, char *to, size_t *n)
{
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  const char *p = j->in.bytes.p;
  const char *name = p[at + 1] ? strchr(names, p[at + 1]) : NULL;

  if (name) {
    to[(*n)++] = values[name - names];
    return at + 2;
  }
  int32_t c = read_u(p, at, end);
  j->pos = at;
  if (c < 0)
    json_fail(j, "unknown escape in a string");
  at += 6;
  if (c >= 0xd800 && c < 0xdc00) {
    int32_t low = at < end ? read_u(p, at, end) : -1;
    if (low < 0xdc00 || low > 0xdfff)
      json_fail(j, "a surrogate without its partner");
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    at += 6;
  } else if (c >= 0xdc00 && c < 0xe000) {
    json_fail(j, "a surrogate without its partner");
  }
  *n += put_utf8(to + *n, (uint32_t)c);
  return at;
}

/* Read and decode the string at the position. */
static str take_string(json *j)
{
  bool plain;
  size_t start = j->pos + 1, end = scan_string(j, true, &plain), n = 0;
  const char *p = j->in.bytes.p;

  if (plain) {
    j->pos = end + 1;
    return (str){p + start, end - start};
  }
  char *to = session_alloc(j->s, end - start + 1); /* escapes only shrink */
  for (size_t at = start; at < end;) {
    if (p[at] == '\\')
      at = decode_escape(j, at, end, to, &n);
    else
      to[n++] = p[at++];
  }
  j->pos = end + 1;
  return (str){to, n};
}

str json_string(json *j)
{
  need(j, JSON_STRING);
  str t = take_string(j);
  j->ready = false;
  return t;
}

/* -- Keys -------------------------------------------------------------------------------------- */

static void slot_put(json_level *l, uint32_t index)
{
  uint32_t mask = l->n_slots - 1, at = (uint32_t)l->keys[index].hash & mask;

  while (l->slots[at])
    at = (at + 1) & mask;
  l->slots[at] = index + 1;
}

static bool seen(const json_level *l, const json_key *key)
{
  if (l->n_keys <= LINEAR_KEYS) {
    for (uint32_t i = 0; i < l->n_keys; i++)
      if (l->keys[i].hash == key->hash && str_eq(l->keys[i].text, key->text))
        return true;
    return false;
  }
  uint32_t mask = l->n_slots - 1;
  for (uint32_t at = (uint32_t)key->hash & mask; l->slots[at]; at = (at + 1) & mask) {
    const json_key *k = &l->keys[l->slots[at] - 1];
    if (k->hash == key->hash && str_eq(k->text, key->text))
      return true;
  }
  return false;
}

static void add_key(json *j, json_level *l, const json_key *key)
{
  GROW(j->s, l->keys, l->n_keys, l->cap_keys, 8);
  l->keys[l->n_keys++] = *key;
  if (l->n_keys <= LINEAR_KEYS)
    return;
  if (l->n_keys * 2 > l->n_slots) {
    l->n_slots = l->n_slots ? l->n_slots * 2 : 64;
    l->slots = session_array(j->s, uint32_t, l->n_slots);
    for (uint32_t i = 0; i < l->n_keys; i++)
      slot_put(l, i);
  } else if (l->n_keys == LINEAR_KEYS + 1) {
    for (uint32_t i = 0; i < l->n_keys; i++)
      slot_put(l, i);
  } else {
    slot_put(l, l->n_keys - 1);
  }
}

/* Clear the level for the next object: O(its keys), even if the table was once larger. */
static void forget_keys(json_level *l)
{
  uint32_t mask = l->n_slots - 1;

  if (l->n_keys > LINEAR_KEYS)
    for (uint32_t i = 0; i < l->n_keys; i++) {
      uint32_t at = (uint32_t)l->keys[i].hash & mask;
      while (l->slots[at] != i + 1) /* probes skip cleared entries: continue to our own */
        at = (at + 1) & mask;
      l->slots[at] = 0;
    }
  l->n_keys = 0;
}

/* -- Containers -------------------------------------------------------------------------------- */

static void push_level(json *j, bool object)
{
  json_level *l = j->spare;

  session_enter(j->s);
  if (l)
    j->spare = l->below;
  else
    l = session_new(j->s, json_level);
  l->below = j->top;
  l->object = object;
  l->first = true;
  j->top = l;
  j->pos++;
  j->ready = false;
}

static void pop_level(json *j)
{
  json_level *l = j->top;

  forget_keys(l);
  j->top = l->below;
  l->below = j->spare;
  j->spare = l;
  j->pos++;
  j->ready = false;
  session_leave(j->s);
}

void json_begin_object(json *j)
{
  need(j, JSON_OBJECT);
  push_level(j, true);
}

void json_begin_array(json *j)
{
  need(j, JSON_ARRAY);
  push_level(j, false);
}

/* Advance to the next key or item; returns false at the container's end, and closes it. */
static bool next(json *j, bool object)
{
  json_level *l = j->top;
  char close = object ? '}' : ']';

  ASSERT(!j->ready, "the value before was not read");
  ASSERT(l && l->object == object, "another container is open");
  int ch = look(j);
  if (ch == close) {
    pop_level(j);
    return false;
  }
  if (!l->first) {
    if (ch != ',')
      unexpected(j, object ? "',' or '}'" : "',' or ']'");
    j->pos++;
    if (look(j) == close)
      unexpected(j, object ? "a key" : "a value");
  }
  l->first = false;
  return true;
}

static void pass_colon(json *j)
{
  if (look(j) != ':')
    unexpected(j, "':'");
  j->pos++;
  j->ready = true;
}

bool json_next_key(json *j, str *out)
{
  if (!next(j, true))
    return false;
  if (look(j) != '"')
    unexpected(j, "a key");
  size_t start = j->pos;
  json_key key = {.text = take_string(j)};
  key.hash = hash_bytes(key.text.p, key.text.len);
  if (seen(j->top, &key)) {
    j->pos = start;
    json_fail(j, "the key \"%.*s\" appears twice in one object",
              (int)(key.text.len < 200 ? key.text.len : 200), key.text.p);
  }
  add_key(j, j->top, &key);
  pass_colon(j);
  *out = key.text;
  return true;
}

bool json_next_item(json *j)
{
  if (!next(j, false))
    return false;
  j->ready = true;
  return true;
}

/* -- Skipping ---------------------------------------------------------------------------------- */

static void skip_string(json *j)
{
  bool plain;
  j->pos = scan_string(j, false, &plain) + 1;
}

static bool skip_next_key(json *j)
{
  if (!next(j, true))
    return false;
  if (look(j) != '"')
    unexpected(j, "a key");
  skip_string(j);
  pass_colon(j);
  return true;
}

/* Skip a scalar, or the opening bracket of a container. */
static void skip_start(json *j)
{
  bool is_float;

  switch (json_peek(j)) {
  case JSON_OBJECT: push_level(j, true); return;
  case JSON_ARRAY: push_level(j, false); return;
  case JSON_STRING: skip_string(j); break;
  case JSON_INT:
  case JSON_FLOAT: take_number(j, &is_float); break;
  case JSON_BOOL: json_bool(j); break;
  case JSON_NULL: json_null(j); break;
  }
  j->ready = false;
}

void json_skip(json *j)
{
  json_level *base = j->top;

  do {
    skip_start(j);
    while (j->top != base && !(j->top->object ? skip_next_key(j) : json_next_item(j)))
      continue;
  } while (j->top != base);
}

str json_raw(json *j)
{
  start_value(j);
  size_t start = j->pos;
  json_skip(j);
  return (str){j->in.bytes.p + start, j->pos - start};
}

/* Return the position after the string whose first character is at `at`, or after the end. */
static size_t pass_string(const char *p, size_t at, size_t end)
{
  while (at < end) {
    at = pass_plain(p, at, end);
    if (at == end || p[at] == '"')
      break;
    at += p[at] == '\\' ? 2 : 1;
  }
  return at + 1;
}

#ifdef __SSE2__
typedef struct block_bits { /* of 64 characters, the first is bit 0 */
  uint64_t quotes, slashes, opens, closes;
} block_bits;

static uint64_t bits_equal(__m128i v, char c)
{
  return (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(c)));
}

static block_bits bits_of(const char *p)
{
  block_bits b = {0};

  for (int i = 0; i < 64; i += 16) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + i)),
                  braces = _mm_or_si128(v, _mm_set1_epi8(0x20)); /* of [ and ], { and } */
    b.quotes |= bits_equal(v, '"') << i;
    b.slashes |= bits_equal(v, '\\') << i;
    b.opens |= bits_equal(braces, '{') << i;
    b.closes |= bits_equal(braces, '}') << i;
  }
  return b;
}

static size_t count_bits(uint64_t v)
{
  v -= v >> 1 & UINT64_C(0x5555555555555555);
  v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
  v = (v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
  return (size_t)(v * UINT64_C(0x0101010101010101) >> 56);
}

/* Return how many characters of a block are read until no bracket is open, or 64. */
static size_t pass_brackets(uint64_t opens, uint64_t closes, size_t *depth)
{
  for (uint64_t left = opens | closes; left; left &= left - 1) {
    const uint64_t bit = left & (0 - left);

    if (opens & bit)
      ++*depth;
    else if (--*depth == 0)
      return count_bits(bit - 1) + 1;
  }
  return 64;
}

/* Pass blocks of 64 characters without a backslash, to the end of the value, whose open brackets
 * are *depth.  `at` is in no string; what is returned is in one if *in_string. */
static size_t pass_blocks(const char *p, size_t at, size_t end, size_t *depth, bool *in_string)
{
  uint64_t inside = 0; /* all ones: in a string */

  for (; at < end && end - at >= 64; at += 64) { /* a string may have led beyond the end */
    const block_bits b = bits_of(p + at);
    uint64_t strings = b.quotes;

    for (int by = 1; by < 64; by *= 2) /* of each bit, the parity of those up to it */
      strings ^= strings << by;
    strings ^= inside;
    const uint64_t opens = b.opens & ~strings, closes = b.closes & ~strings;
    const size_t n_closes = count_bits(closes);
    if (b.slashes)
      break;
    inside = 0 - (strings >> 63);
    if (n_closes < *depth) {
      *depth += count_bits(opens) - n_closes;
      continue;
    }
    const size_t n = pass_brackets(opens, closes, depth);
    if (*depth == 0) {
      *in_string = false;
      return at + n;
    }
  }
  *in_string = inside != 0;
  return at;
}
#else
static size_t pass_blocks(const char *p, size_t at, size_t end, size_t *depth, bool *in_string)
{
  (void)p, (void)end, (void)depth;
  *in_string = false;
  return at;
}
#endif

/* Read on to position `until`, or to the end of the value, whose open brackets are *depth. */
static size_t pass_characters(json *j, size_t at, size_t until, size_t *depth)
{
  const char *p = j->in.bytes.p;

  while (*depth > 0 && at < until) {
    if (at >= j->end)
      json_fail(j, "a value without end");
    const char c = p[at++];
    if (c == '"')
      at = pass_string(p, at, j->end);
    else if (c == '{' || c == '[')
      ++*depth;
    else if (c == '}' || c == ']')
      --*depth;
  }
  return at;
}

str json_unread(json *j)
{
  const char *p = j->in.bytes.p;
  const int ch = start_value(j);
  const size_t start = j->pos;
  size_t at = start + 1, depth = 1;

  if (ch != '{' && ch != '[')
    return json_raw(j);
  while (depth > 0) {
    bool in_string;
    at = pass_blocks(p, at, j->end, &depth, &in_string);
    const size_t until = at + 64; /* what pass_blocks did not take */
    if (in_string)
      at = pass_string(p, at, j->end);
    at = pass_characters(j, at, until, &depth);
  }
  j->pos = at;
  j->ready = false;
  return (str){p + start, at - start};
}

/* -- Beginning and end ------------------------------------------------------------------------- */

void json_init(json *j, session *s, const input *in)
{
  json_init_at(j, s, in, in->bytes);
}

void json_init_at(json *j, session *s, const input *in, str part)
{
  if (!part.p) /* the caller looked for it, and the file has none */
    input_fail(s, in, 0, "a field that must be there is missing");
  ASSERT(part.p >= in->bytes.p && part.p + part.len <= in->bytes.p + in->bytes.len,
         "not a part of the input");
  *j = (json){.s = s, .in = *in, .ready = true};
  j->pos = (size_t)(part.p - in->bytes.p);
  j->end = j->pos + part.len;
}

void json_end(json *j)
{
  ASSERT(!j->ready && j->top == NULL, "something was not read");
  if (look(j) >= 0)
    unexpected(j, "the end");
}

/* -- Writing ----------------------------------------------------------------------------------- */

void json_quote(text_buf *out, str text)
{
  text_putc(out, '"');
  for (size_t i = 0; i < text.len;) {
    unsigned char ch = (unsigned char)text.p[i];
    size_t n = utf8_check(text.p + i, text.len - i);
    if (n == 0) {
      text_puts(out, "\\ufffd");
      n = 1;
    } else if (ch == '"' || ch == '\\') {
      text_putc(out, '\\');
      text_putc(out, (char)ch);
    } else if (ch < 0x20 || ch == '<' || ch == '>' || ch == '&' || ch == 0x7f) {
      text_printf(out, "\\u%04x", (unsigned)ch);
    } else {
      text_add(out, text.p + i, n);
    }
    i += n;
  }
  text_putc(out, '"');
}
