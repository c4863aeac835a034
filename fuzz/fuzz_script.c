/* TorchScript text: both ways of parsing a file. */
#include "fuzz.h"

#include "script/parser.h"

static void fuzz_body(session *s, str text)
{
  source *src = source_new(s->cx->ctx, "fuzz.py", text.p, text.len);
  if (!src)
    session_check(s, call_nomem(s->cx));
  session_defer(s, (void (*)(void *))source_release, src);
  parse_source(s, src, PARSE_SKIP_BODIES | PARSE_RAW_BYTES);
  parse_source(s, src, 0);
}
