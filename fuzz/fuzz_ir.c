/* Graph text: a text that is accepted becomes a valid graph, also when copied, and prints to a text
 * that reads and prints the same. */
#include "fuzz.h"

#include "ir/graph.h"
#include "ir/program.h"

static void release(void *p) { program_release(p); }
static void free_graph(void *g) { ir_graph_free(g); }

static text_buf *print(session *s, type_store *ts, const char *text)
{
  text_buf *out = session_new(s, text_buf);
  ir_graph *g = ir_parse(s, ts, text);

  session_defer(s, free_graph, g);
  ir_check(s, g, NULL);
  ir_graph *copy = ir_graph_copy(s, g);
  session_defer(s, free_graph, copy);
  ir_verify(s, copy, NULL);
  text_init(out, s->cx->ctx);
  session_defer(s, (void (*)(void *))text_free, out);
  ir_print(out, copy, false);
  if (text_failed(out))
    session_check(s, call_nomem(s->cx));
  return out;
}

static void body(session *s, str text)
{
  program *p = program_new(s, s->cx->ctx);
  type_store *ts = &p->types;

  session_defer(s, release, p); /* graphs may name these */
  program_add_class(s, p, TYPE_CLASS, "__torch__.M");
  program_add_class(s, p, TYPE_INTERFACE, "__torch__.I");
  program_add_class(s, p, TYPE_ENUM, "__torch__.E");
  program_add_function(s, p, "__torch__.g");
  text_buf *once = print(s, ts, session_strndup(s, text.p, text.len));
  text_buf *twice = print(s, ts, text_str(once));
  fuzz_same_text(text_str(once), text_str(twice));
}

int fuzz_ir(const uint8_t *data, size_t n)
{
  fuzz_session(data, n, body);
  return 0;
}
