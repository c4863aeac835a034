/* formats/json.h -- a pull reader of JSON: no tree.
 *
 * The consumer requests the values that it expects; everything else is skipped.
 *
 *   json_begin_object(&j);
 *   while (json_next_key(&j, &key)) {
 *     if (str_is(key, "name"))       name = json_string(&j);
 *     else if (str_is(key, "sizes")) for (json_begin_array(&j); json_next_item(&j);)
 *                                      push(json_int(&j));
 *     else                           json_skip(&j);
 *   }
 *   json_end(&j);
 *
 * After json_next_key or json_next_item returned true exactly one value must be read (or skipped);
 * after false the container is closed.  A container is left by reading to its end.  Wrong types,
 * bad syntax and numbers out of range leave the session with RUSH_EFORMAT, place and offset.
 *
 * Strict: RFC 8259, plus Python's NaN, Infinity and -Infinity.  Strings are checked as UTF-8; a
 * surrogate without its partner is refused.  Duplicate keys are refused in objects that are read;
 * inside skipped values the grammar is checked, but neither UTF-8 nor duplicates.  Nesting is
 * bounded by the session's depth limit.
 *
 * To read something later, keep json_unread's slice and open another reader with json_init_at:
 * errors still name the right offset.  json_raw's is for text that is kept and perhaps never read.
 *
 * Strings without escapes point into the text; others are decoded into session memory.  Cost:
 * O(bytes).  Threads: one at a time. */
#ifndef RUSH_FORMATS_JSON_H
#define RUSH_FORMATS_JSON_H

#include "formats/mapping.h"

typedef enum json_type {
  JSON_NULL,
  JSON_BOOL,
  JSON_INT,   /* without '.' and exponent, of any size */
  JSON_FLOAT,
  JSON_STRING,
  JSON_ARRAY,
  JSON_OBJECT
} json_type;

typedef struct json_level json_level;
typedef struct json {
  session *s;
  input in;
  size_t pos, end; /* the unread range; end is exclusive */
  json_level *top; /* innermost open container, or NULL */
  json_level *spare; /* private */
  bool ready;      /* a value may be read here */
} json;

void json_init(json *j, session *s, const input *in);
/* Read `part`, a slice of in->bytes as json_raw and json_unread return it; a missing one (p NULL)
 * is refused. */
void json_init_at(json *j, session *s, const input *in, str part);
/* Check that only blanks follow. */
void json_end(json *j);

/* Return the type of the next value; reads nothing. */
json_type json_peek(json *j);
static inline bool json_is_null(json *j) { return json_peek(j) == JSON_NULL; }
void json_begin_object(json *j);
/* Read the next key (decoded); returns false at the end of the object. */
bool json_next_key(json *j, str *key);
void json_begin_array(json *j);
bool json_next_item(json *j);
void json_null(json *j);
bool json_bool(json *j);
int64_t json_int(json *j);
/* Read any number; also the strings "Infinity", "-Infinity" and "NaN", which torch.export
 * writes. */
double json_double(json *j);
str json_string(json *j);
void json_skip(json *j);
/* Skip a value and return its text. */
str json_raw(json *j);
/* The same for a value that will be read later: only its quotes and brackets are counted, so that
 * its errors are found then, and not looked for twice. */
str json_unread(json *j);
/* Leave the session with RUSH_EFORMAT at the current position: "PLACE: offset N: message". */
_Noreturn void json_fail(json *j, const char *fmt, ...) RUSH_PRINTF(2, 3);

/* Append text as a quoted JSON string; malformed UTF-8 becomes U+FFFD.  Safe inside a page's
 * script: <, > and & are escaped. */
void json_quote(text_buf *out, str text);

#endif
