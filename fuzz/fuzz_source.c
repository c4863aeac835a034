/* TorchScript: parsed both ways, then compiled; as code of an archive if there are sections, else
 * as a user's file: definition by definition, and all at once.  A text that compiles as a whole is
 * printed, called with little time, written as an archive and read back. */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

#include "archive/write.h"
#include "script/syntax/parser.h"

enum { CALL_MS = 50 };

static void parse(session *s, str text)
{
  source *src = source_new(s->cx->ctx, "fuzz.py", text.p, text.len);
  if (!src)
    session_check(s, call_nomem(s->cx));
  session_defer(s, (void (*)(void *))source_release, src);
  parse_source(s, src, PARSE_SKIP_BODIES | PARSE_RAW_BYTES);
  parse_source(s, src, 0);
}

static void end_text(void *t) { text_free(t); }

/* Check that a written archive can be read again and compiles, if limits and memory suffice. */
static void demand_readable(session *s, str packed, const char *what)
{
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx = *s->cx;
  archive_source from = {.data = packed.p, .n_bytes = packed.len, .name = what};
  text_buf shown;
  module *m;

  cx.err = &err;
  text_init(&shown, s->cx->ctx);
  rush_status st = module_load(&cx, &from, &m);
  if (st == RUSH_OK) {
    st = module_dump(&cx, m, RUSH_DUMP_OPS, NULL, &shown);
    module_release(m);
  }
  text_free(&shown);
  fuzz_check_error(st, &err);
  if (st == RUSH_ERAISED || st == RUSH_EFORMAT)
    fprintf(stderr, "fuzz: %s\n", err.message);
  fuzz_demand(st != RUSH_ERAISED && st != RUSH_EFORMAT, "what was written does not compile");
  rush_error_clear(&err);
}

/* Write the program as an archive and read it back. Writing may be refused: not everything can be
 * written. */
static void read_back(session *s, module *m)
{
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx = *s->cx;
  text_buf *packed = session_new(s, text_buf);

  cx.err = &err;
  text_init(packed, s->cx->ctx);
  session_defer(s, end_text, packed);
  output out = output_to_text(packed);
  archive_target to = {.out = &out, .root = "fuzz"};
  rush_status st = archive_write(&cx, m->object, &to);
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
  if (st == RUSH_OK)
    demand_readable(s, (str){packed->data, packed->len}, "fuzz.pt");
}

static void whole(session *s, str text)
{
  module *m;

  session_check(s, module_compile(s->cx, "fuzz.py", 1, text, &m));
  session_defer(s, (void (*)(void *))module_release, m);
  fuzz_show_module(s, m, CALL_MS);
  read_back(s, m);
}

static void body(session *s, str text)
{
  const fuzz_record defaults[] = {
    {"data.pkl", STR("\x80\2c__torch__\nM\n)\x81}(X\10\0\0\0training\x89X\1\0\0\0aK\1ub.")},
    {"constants.pkl", STR("\x80\2(K\1K\2t.")},
    {"version", STR("3\n")},
    {"data/0", STR("0123456789abcdef")}};
  str main = fuzz_main(text);

  parse(s, main);
  if (main.len == text.len) {
    if (text.len % 4 == 0)
      fuzz_use_module(s, main, "fuzz.py", false, false);
    whole(s, main);
    return;
  }
  str packed = fuzz_pack(s, "code/__torch__.py", text, defaults, COUNT_OF(defaults));
  fuzz_use_module(s, packed, "fuzz.pt", false, false);
}

int fuzz_source(const uint8_t *data, size_t n)
{
  fuzz_session(data, n, body);
  return 0;
}
