/* TorchScript: parsed both ways, then compiled; as code of an archive when there are sections, else as a user's file. */
#include "fuzz.h"

#include <string.h>

#include "script/parser.h"

static void parse(session *s, str text)
{
  source *src = source_new(s->cx->ctx, "fuzz.py", text.p, text.len);
  if (!src)
    session_check(s, call_nomem(s->cx));
  session_defer(s, (void (*)(void *))source_release, src);
  parse_source(s, src, PARSE_SKIP_BODIES | PARSE_RAW_BYTES);
  parse_source(s, src, 0);
}

static void body(session *s, str text)
{
  const fuzz_record defaults[] = {{"data.pkl", STR("\x80\2c__torch__\nM\n)\x81}(X\10\0\0\0training\x89X\1\0\0\0aK\1ub.")},
                                  {"constants.pkl", STR("\x80\2(K\1K\2t.")},
                                  {"version", STR("3\n")},
                                  {"data/0", STR("0123456789abcdef")}};
  str main = fuzz_main(text);

  parse(s, main);
  if (main.len == text.len) {
    fuzz_use_module(s, main, "fuzz.py", false, false);
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
