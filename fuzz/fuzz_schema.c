/* Schemas: a schema that is accepted prints to a text that reads and prints the same. */
#include "fuzz.h"

#include "value/schema.h"

static void release_store(void *ts) { type_store_release(ts); }

static text_buf *print(session *s, type_store *ts, const char *text)
{
  text_buf *out = session_new(s, text_buf);
  schema *sc = schema_parse(s, s->mem, ts, text);

  text_init(out, s->cx->ctx);
  session_defer(s, (void (*)(void *))text_free, out);
  schema_print(out, sc);
  for (uint32_t i = 0; i < sc->n_args; i++)
    fuzz_demand(schema_arg_index(sc, str_of(sc->args[i].name)) <= (int)i, "an argument's index");
  if (text_failed(out))
    session_check(s, call_nomem(s->cx));
  return out;
}

static void body(session *s, str text)
{
  type_store *ts = type_store_new(s->cx->ctx);

  if (!ts)
    session_check(s, call_nomem(s->cx));
  session_defer(s, release_store, ts);
  text_buf *once = print(s, ts, session_strndup(s, text.p, text.len));
  text_buf *twice = print(s, ts, text_str(once));
  fuzz_same_text(text_str(once), text_str(twice));
}

int fuzz_schema(const uint8_t *data, size_t n)
{
  fuzz_session(data, n, body);
  return 0;
}
