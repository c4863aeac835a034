/* archive/exported_write.c -- models/NAME.json of an exported program: signature, ranges, guards,
 * module calls, versions; the graph is exported_write_graph.c's.  Parts that nothing here
 * interprets are written as they were read.  Cost: O(bytes). */
#include "archive/exported_write.h"

/* Append a list of texts. */
static void write_texts(text_buf *out, const char *const *items, uint32_t n)
{
  text_putc(out, '[');
  for (uint32_t i = 0; i < n; i++) {
    text_puts(out, i ? ", " : "");
    write_text(out, items[i]);
  }
  text_putc(out, ']');
}

/* Append a member's JSON, or `otherwise` if the program has none. */
static void write_raw(text_buf *out, const char *name, str json, const char *otherwise)
{
  text_printf(out, ", \"%s\": ", name);
  text_add(out, json.len ? json.p : otherwise, json.len ? json.len : strlen(otherwise));
}

/* -- Signature --------------------------------------------------------------------------------- */

/* Append an argument of the signature without its kind: {"name": ...}. */
static void write_bare_arg(text_buf *out, const exported_arg *a)
{
  text_puts(out, a->kind == ARG_SYM_INT || a->kind == ARG_SYM_FLOAT || a->kind == ARG_SYM_BOOL
                   ? "{\"as_name\": "
                   : "{\"name\": ");
  write_text(out, a->name);
  if (a->kind == ARG_CUSTOM_OBJECT) {
    text_puts(out, ", \"class_fqn\": ");
    write_text(out, a->class_name ? a->class_name : "");
  }
  text_putc(out, '}');
}

/* Append an argument of the signature with its kind: {"as_tensor": {"name": ...}}. */
static void write_arg(session *s, text_buf *out, const exported_arg *a)
{
  static const char *const words[] = {[ARG_TENSOR] = "as_tensor",
                                      [ARG_SYM_INT] = "as_sym_int",
                                      [ARG_SYM_FLOAT] = "as_sym_float",
                                      [ARG_SYM_BOOL] = "as_sym_bool",
                                      [ARG_CUSTOM_OBJECT] = "as_custom_obj",
                                      [ARG_TOKEN] = "as_tensor"};

  if (a->kind == ARG_CONSTANT) {
    write_constant(s, out, &a->constant);
    return;
  }
  text_printf(out, "{\"%s\": ", words[a->kind]);
  write_bare_arg(out, a);
  text_putc(out, '}');
}

static void write_args(session *s, text_buf *out, const exported_arg *items, uint32_t n)
{
  text_putc(out, '[');
  for (uint32_t i = 0; i < n; i++) {
    text_puts(out, i ? ", " : "");
    write_arg(s, out, &items[i]);
  }
  text_putc(out, ']');
}

/* Append ', "MEMBER": "TARGET"'. */
static void write_target(text_buf *out, const char *member, const char *target)
{
  text_printf(out, ", \"%s\": ", member);
  write_text(out, target ? target : "");
}

static void write_input(session *s, text_buf *out, const program_input *in)
{
  static const struct { const char *word, *target; } rows[] = {
      [INPUT_USER] = {"user_input", NULL},
      [INPUT_PARAMETER] = {"parameter", "parameter_name"},
      [INPUT_BUFFER] = {"buffer", "buffer_name"},
      [INPUT_TENSOR_CONSTANT] = {"tensor_constant", "tensor_constant_name"},
      [INPUT_CUSTOM_OBJECT] = {"custom_obj", "custom_obj_name"},
      [INPUT_TOKEN] = {"token", NULL}};

  if (in->is_constant_input) {
    text_puts(out, "{\"constant_input\": {\"name\": ");
    write_text(out, in->arg.name);
    text_puts(out, ", \"value\": ");
    write_constant(s, out, &in->arg.constant);
    text_puts(out, "}}");
    return;
  }
  text_printf(out, "{\"%s\": {\"arg\": ", rows[in->kind].word);
  if (in->kind == INPUT_USER)
    write_arg(s, out, &in->arg);
  else
    write_bare_arg(out, &in->arg);
  if (rows[in->kind].target)
    write_target(out, rows[in->kind].target, in->target);
  if (in->kind == INPUT_BUFFER)
    text_printf(out, ", \"persistent\": %s", in->is_persistent ? "true" : "false");
  text_puts(out, "}}");
}

static void write_output(session *s, text_buf *out, const program_output *o)
{
  static const struct { const char *word, *target; } rows[] = {
      [EXPORTED_USER_OUTPUT] = {"user_output", NULL},
      [EXPORTED_LOSS_OUTPUT] = {"loss_output", NULL},
      [EXPORTED_BUFFER_MUTATION] = {"buffer_mutation", "buffer_name"},
      [EXPORTED_PARAMETER_MUTATION] = {"parameter_mutation", "parameter_name"},
      [EXPORTED_GRADIENT_TO_PARAMETER] = {"gradient_to_parameter", "parameter_name"},
      [EXPORTED_GRADIENT_TO_USER_INPUT] = {"gradient_to_user_input", "user_input_name"},
      [EXPORTED_USER_INPUT_MUTATION] = {"user_input_mutation", "user_input_name"},
      [EXPORTED_TOKEN] = {"token", NULL}};

  text_printf(out, "{\"%s\": {\"arg\": ", rows[o->kind].word);
  if (o->kind == EXPORTED_USER_OUTPUT)
    write_arg(s, out, &o->arg);
  else
    write_bare_arg(out, &o->arg);
  if (rows[o->kind].target)
    write_target(out, rows[o->kind].target, o->target);
  text_puts(out, "}}");
}

static void write_signature(session *s, text_buf *out, const exported_program *p)
{
  text_puts(out, ", \"signature\": {\"input_specs\": [");
  for (uint32_t i = 0; i < p->n_inputs; i++) {
    text_puts(out, i ? ", " : "");
    write_input(s, out, &p->inputs[i]);
  }
  text_puts(out, "], \"output_specs\": [");
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    text_puts(out, i ? ", " : "");
    write_output(s, out, &p->outputs[i]);
  }
  text_puts(out, "]}");
}

/* -- Module calls ------------------------------------------------------------------------------ */

static void write_call_signature(session *s, text_buf *out, const exported_call_entry *e)
{
  text_puts(out, "{\"inputs\": ");
  write_args(s, out, e->inputs, e->n_inputs);
  text_puts(out, ", \"outputs\": ");
  write_args(s, out, e->outputs, e->n_outputs);
  text_puts(out, ", \"in_spec\": ");
  json_quote(out, e->in_spec);
  text_puts(out, ", \"out_spec\": ");
  json_quote(out, e->out_spec);
  text_puts(out, ", \"forward_arg_names\": ");
  if (e->arg_names)
    write_texts(out, e->arg_names, e->n_arg_names);
  else
    text_puts(out, "null");
  text_putc(out, '}');
}

static void write_calls(session *s, text_buf *out, const exported_program *p)
{
  text_puts(out, ", \"module_call_graph\": [");
  for (uint32_t i = 0; i < p->n_calls; i++) {
    text_puts(out, i ? ", {\"fqn\": " : "{\"fqn\": ");
    write_text(out, p->calls[i].fqn);
    text_puts(out, ", \"signature\": ");
    if (p->calls[i].has_signature)
      write_call_signature(s, out, &p->calls[i]);
    else
      text_puts(out, "null");
    text_putc(out, '}');
  }
  text_putc(out, ']');
}

/* -- Ranges and versions ----------------------------------------------------------------------- */

static void write_bound(text_buf *out, const char *name, bool is_known, int64_t bound)
{
  text_printf(out, "\"%s\": ", name);
  if (is_known)
    text_printf(out, "%lld", (long long)bound);
  else
    text_puts(out, "null");
}

static void write_ranges(text_buf *out, const exported_program *p)
{
  text_puts(out, ", \"range_constraints\": {");
  for (uint32_t i = 0; i < p->n_ranges; i++) {
    const exported_bounds *b = &p->ranges[i];
    text_puts(out, i ? ", " : "");
    json_quote(out, b->text);
    text_puts(out, ": {");
    write_bound(out, "min_val", b->has_min, b->min);
    text_puts(out, ", ");
    write_bound(out, "max_val", b->has_max, b->max);
    text_putc(out, '}');
  }
  text_putc(out, '}');
}

/* Append the version: unknown members belong to the newer minor that they came with. */
static void write_version(text_buf *out, const exported_program *p)
{
  const bool is_newer = p->major == EXPORT_SCHEMA_MAJOR && p->minor > EXPORT_SCHEMA_MINOR;

  text_printf(out, ", \"schema_version\": {\"major\": %d, \"minor\": %lld}", EXPORT_SCHEMA_MAJOR,
              is_newer ? (long long)p->minor : EXPORT_SCHEMA_MINOR);
}

void write_model(session *s, text_buf *out, const exported_program *p)
{
  text_puts(out, "{\"graph_module\": {\"graph\": ");
  write_graph(s, out, p->graph);
  write_signature(s, out, p);
  write_calls(s, out, p);
  write_raw(out, "metadata", p->metadata, "{}");
  write_raw(out, "treespec_namedtuple_fields", p->namedtuple_fields, "{}");
  write_unknown(s, out, p->module_unknown);
  text_putc(out, '}');
  write_raw(out, "opset_version", p->opset_version, "{\"aten\": 10}");
  write_ranges(out, p);
  write_version(out, p);
  text_puts(out, ", \"verifiers\": ");
  write_texts(out, p->dialects, p->n_dialects);
  text_puts(out, ", \"torch_version\": ");
  write_text(out, p->torch_version);
  text_puts(out, ", \"guards_code\": ");
  write_texts(out, p->guards, p->n_guards);
  write_unknown(s, out, p->unknown);
  text_putc(out, '}');
  if (text_failed(out))
    session_check(s, call_nomem(s->cx));
}
