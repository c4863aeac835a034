/* User files: parsed, declared, compiled. */
#include "fuzz.h"

#include "archive/module.h"

static void release_module(void *m) { module_release(m); }

static void fuzz_body(session *s, str text)
{
  archive_source from = {.data = text.p, .n_bytes = text.len, .name = "fuzz.py"};
  text_buf out;
  module *m;

  session_check(s, module_load(s->cx, &from, &m));
  session_defer(s, release_module, m);
  text_init(&out, s->cx->ctx);
  rush_status st = module_dump(s->cx, m, RUSH_DUMP_OPS, NULL, &out);
  text_free(&out);
  session_check(s, st);
}
