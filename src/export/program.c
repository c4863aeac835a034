/* export/program.c -- exported programs as data: their life, and what str(ExportedProgram) shows.
 * */
#include "export/program.h"

exported_program *exported_program_new(session *s)
{
  exported_program *p = mem_alloc_zero(s->cx->ctx, sizeof *p);

  if (!p)
    session_check(s, call_nomem(s->cx));
  atomic_init(&p->refs, 1);
  p->ctx = context_retain(s->cx->ctx);
  arena_init(&p->mem, p->ctx);
  session_defer(s, (void (*)(void *))exported_program_release, p);
  return p;
}

exported_program *exported_program_retain(exported_program *p)
{
  atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  return p;
}

void exported_program_release(exported_program *p)
{
  if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
    return;
  context *c = p->ctx;

  fx_graph_free(p->graph);
  exported_program_release(p->of);
  mapping_release(p->text);
  zip_release(p->zip);
  arena_free(&p->mem);
  mem_free(c, p, sizeof *p);
  context_release(c);
}

/* -- Text -------------------------------------------------------------------------------------- */

static void print_inputs(text_buf *out, const exported_program *p)
{
  static const char *const words[] = {"USER_INPUT",      "PARAMETER",  "BUFFER",
                                      "CONSTANT_TENSOR", "CUSTOM_OBJ", "TOKEN"};

  for (uint32_t i = 0; i < p->n_inputs; i++) {
    const program_input *spec = &p->inputs[i];
    text_printf(out, "%s    %s: %s", i ? "\n" : "", spec->arg.name, words[spec->kind]);
    if (spec->target)
      text_printf(out, " target='%s'", spec->target);
    if (spec->kind == INPUT_BUFFER)
      text_printf(out, " persistent=%s", spec->is_persistent ? "True" : "False");
  }
}

static void print_outputs(text_buf *out, const exported_program *p)
{
  static const char *const words[] = {
    "USER_OUTPUT",           "LOSS_OUTPUT",            "BUFFER_MUTATION",     "PARAMETER_MUTATION",
    "GRADIENT_TO_PARAMETER", "GRADIENT_TO_USER_INPUT", "USER_INPUT_MUTATION", "TOKEN"};

  for (uint32_t i = 0; i < p->n_outputs; i++) {
    const program_output *spec = &p->outputs[i];
    text_printf(out, "%s    %s: %s", i ? "\n" : "", spec->arg.name, words[spec->kind]);
    if (spec->target)
      text_printf(out, " target='%s'", spec->target);
  }
}

static void print_bound(text_buf *out, bool known, int64_t bound, const char *otherwise)
{
  if (known)
    text_printf(out, "%lld", (long long)bound);
  else
    text_puts(out, otherwise);
}

static void print_ranges(session *s, text_buf *out, const exported_program *p)
{
  const char *between = "";

  text_putc(out, '{');
  for (uint32_t i = 0; i < p->n_ranges; i++) {
    const exported_bounds *b = &p->ranges[i];
    if (!b->is_used) /* torch.export.load drops it */
      continue;
    text_puts(out, between);
    between = ", ";
    expression_print(s, out, b->expr);
    text_puts(out, ": VR[");
    print_bound(out, b->has_min, b->min, "-int_oo");
    text_puts(out, ", ");
    print_bound(out, b->has_max, b->max, "int_oo");
    text_putc(out, ']');
  }
  text_putc(out, '}');
}

void exported_print(session *s, text_buf *out, const exported_program *p)
{
  text_buf *code = session_text(s);

  fx_print_readable(s, code, p->graph, "GraphModule", &(fx_code_options){.verbose = true});
  text_puts(out, "ExportedProgram:\n    ");
  for (const char *line = session_take_text(s, code); line;) {
    const char *end = strchr(line, '\n');
    text_add(out, line, end ? (size_t)(end - line) : strlen(line));
    text_puts(out, end ? "\n    " : "\n");
    line = end ? end + 1 : NULL;
  }
  text_puts(out, "Graph signature: \n    # inputs\n");
  print_inputs(out, p);
  text_puts(out, p->n_inputs ? "\n    \n    # outputs\n" : "    \n    \n    # outputs\n");
  print_outputs(out, p);
  text_puts(out, p->n_outputs ? "" : "    ");
  text_puts(out, "\n    \nRange constraints: ");
  print_ranges(s, out, p);
  text_puts(out, "\n");
}
