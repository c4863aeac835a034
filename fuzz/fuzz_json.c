/* JSON: read whole, skipped, and read again from a raw slice must agree. */
#include "fuzz.h"

#include "formats/json.h"

static void read_value(session *s, json *j)
{
  str key;
  session_enter(s);
  switch (json_peek(j)) {
  case JSON_NULL:
    json_null(j);
    break;
  case JSON_BOOL:
    (void)json_bool(j);
    break;
  case JSON_INT:
  case JSON_FLOAT:
    (void)json_double(j);
    break;
  case JSON_STRING:
    (void)json_string(j);
    break;
  case JSON_ARRAY:
    for (json_begin_array(j); json_next_item(j);)
      read_value(s, j);
    break;
  case JSON_OBJECT:
    json_begin_object(j);
    while (json_next_key(j, &key))
      read_value(s, j);
    break;
  }
  session_leave(s);
}

static void fuzz_body(session *s, str text)
{
  input in = {"fuzz", text};
  json j, again;
  json_init(&j, s, &in);
  str raw = json_raw(&j); /* the grammar */
  json_end(&j);
  json_init_at(&again, s, &in, raw);
  read_value(s, &again);
  json_end(&again);
}
