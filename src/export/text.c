/* export/text.c -- prints exported programs as text.h has them.  A result of a call that a getitem
 * node names is printed by that node's name, since both share one description. */
#include "export/text.h"

#include "formats/json.h"
#include "tensor/dtype.h"
#include "value/value.h"

const char *const exported_input_words[] = {"user",     "parameter", "buffer",
                                            "constant", "object",    "token"};
const char *const exported_output_words[] = {
  "user",        "loss",           "buffer_mutation",       "parameter_mutation",
  "gradient_to_parameter", "gradient_to_user_input", "user_input_mutation", "token"};
const char *const exported_arg_words[] = {"tensor", "int",    "float", "bool",
                                          "constant", "object", "token"};

typedef struct text_printer {
  session *s;
  text_buf *out;
  int indent;
  table *named; /* of the graph: address of a description -> the getitem node that has it */
} text_printer;

static void put_string(text_printer *p, const char *text)
{
  json_quote(p->out, str_of(text ? text : ""));
}

static void new_line(text_printer *p) { text_printf(p->out, "\n%*s", p->indent, ""); }

/* -- Arguments --------------------------------------------------------------------------------- */

static bool is_plain_name(const char *name)
{
  for (const char *c = name; *c; c++)
    if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
          *c == '_' || *c == '.'))
      return false;
  return *name != 0;
}

static void put_node(text_printer *p, const fx_node *n)
{
  text_putc(p->out, '%');
  if (is_plain_name(n->name))
    text_puts(p->out, n->name);
  else
    put_string(p, n->name);
}

static void put_float(text_printer *p, double d)
{
  char text[FLOAT_REPR_BYTES];

  text_add(p->out, text, float_repr(d, text));
}

static void put_arg(text_printer *p, const fx_arg *a);

static void put_items(text_printer *p, const fx_arg *a)
{
  text_putc(p->out, a->kind == FX_LIST ? '[' : a->kind == FX_TUPLE ? '(' : '{');
  for (uint32_t i = 0; i < a->n; i++) {
    text_puts(p->out, i ? ", " : "");
    if (a->kind == FX_DICT) {
      json_quote(p->out, a->as.named[i].name);
      text_puts(p->out, ": ");
    }
    put_arg(p, a->kind == FX_DICT ? &a->as.named[i].arg : &a->as.items[i]);
  }
  text_putc(p->out, a->kind == FX_LIST ? ']' : a->kind == FX_TUPLE ? ')' : '}');
}

/* Append WORD("TEXT"). */
static void put_called(text_printer *p, const char *word, const char *text)
{
  text_printf(p->out, "%s(", word);
  put_string(p, text);
  text_putc(p->out, ')');
}

static void put_object(text_printer *p, const fx_object *o)
{
  text_puts(p->out, "object(");
  put_string(p, o->name);
  text_puts(p->out, ", ");
  put_string(p, o->class_name);
  text_putc(p->out, ')');
}

static void put_complex(text_printer *p, const double *c)
{
  text_puts(p->out, "complex(");
  put_float(p, c[0]);
  text_puts(p->out, ", ");
  put_float(p, c[1]);
  text_putc(p->out, ')');
}

static void put_arg(text_printer *p, const fx_arg *a)
{
  session_enter(p->s);
  switch (a->kind) {
  case FX_NONE:
    text_puts(p->out, "None");
    break;
  case FX_NODE:
    put_node(p, a->as.node);
    break;
  case FX_INT:
    text_printf(p->out, "%lld", (long long)a->as.i);
    break;
  case FX_FLOAT:
    put_float(p, a->as.f);
    break;
  case FX_BOOL:
    text_puts(p->out, a->as.b ? "True" : "False");
    break;
  case FX_COMPLEX:
    put_complex(p, a->as.complex);
    break;
  case FX_STRING:
    json_quote(p->out, (str){a->as.text, a->n});
    break;
  case FX_DTYPE:
    text_printf(p->out, "dtype(%s)", dtype_name((int)a->as.i));
    break;
  case FX_LAYOUT:
    text_printf(p->out, "layout(%lld)", (long long)a->as.i);
    break;
  case FX_MEMORY_FORMAT:
    text_printf(p->out, "memory_format(%lld)", (long long)a->as.i);
    break;
  case FX_DEVICE:
    put_called(p, "device", a->as.text);
    break;
  case FX_OPERATOR:
    put_called(p, "operator", a->as.text);
    break;
  case FX_OBJECT:
    put_object(p, a->as.object);
    break;
  case FX_LIST:
  case FX_TUPLE:
  case FX_DICT:
    put_items(p, a);
    break;
  }
  session_leave(p->s);
}

/* -- What is known of values ------------------------------------------------------------------- */

static void put_literal(text_printer *p, const fx_number *n, fx_val_kind kind)
{
  if (kind == FX_VAL_FLOAT)
    put_float(p, n->value.f);
  else if (kind == FX_VAL_BOOL)
    text_puts(p->out, n->value.b ? "True" : "False");
  else
    text_printf(p->out, "%lld", (long long)n->value.i);
}

/* Append a number: 3, or <"EXPRESSION">, or <"EXPRESSION", HINT>. */
static void put_known_number(text_printer *p, const fx_number *n, fx_val_kind kind)
{
  if (!n->expr) {
    put_literal(p, n, kind);
    return;
  }
  text_buf *text = session_text(p->s);
  expression_print_srepr(p->s, text, n->expr);
  text_putc(p->out, '<');
  put_string(p, session_take_text(p->s, text));
  if (n->has_value) {
    text_puts(p->out, ", ");
    put_literal(p, n, kind);
  }
  text_putc(p->out, '>');
}

static void put_numbers(text_printer *p, const fx_number *items, uint32_t n)
{
  text_puts(p->out, " [");
  for (uint32_t i = 0; i < n; i++) {
    text_puts(p->out, i ? ", " : "");
    put_known_number(p, &items[i], FX_VAL_INT);
  }
  text_putc(p->out, ']');
}

static void put_tensor(text_printer *p, const fx_tensor *t)
{
  text_printf(p->out, "tensor %s", dtype_name(t->dtype));
  put_numbers(p, t->sizes, t->n_dims);
  put_numbers(p, t->strides, t->n_strides);
  text_putc(p->out, ' ');
  put_known_number(p, &t->offset, FX_VAL_INT);
  text_putc(p->out, ' ');
  put_string(p, t->device);
  text_printf(p->out, " %d%s", t->layout, t->requires_grad ? " grad" : "");
}

static void put_val(text_printer *p, const fx_val *v);

static void put_item(text_printer *p, const fx_val *v)
{
  const fx_node *n = v ? table_get(p->named, address_key(v)) : NULL;

  if (!v)
    text_puts(p->out, "none");
  else if (n)
    put_node(p, n);
  else
    put_val(p, v);
}

static void put_val(text_printer *p, const fx_val *v)
{
  session_enter(p->s);
  switch (v->kind) {
  case FX_VAL_TENSOR:
    put_tensor(p, v->as.tensor);
    break;
  case FX_VAL_INT:
  case FX_VAL_FLOAT:
  case FX_VAL_BOOL:
    text_printf(p->out, "%s ", exported_arg_words[v->kind]);
    put_known_number(p, v->as.number, v->kind);
    break;
  case FX_VAL_OBJECT:
    text_puts(p->out, "object ");
    put_string(p, v->as.class_name);
    break;
  case FX_VAL_LIST:
    text_puts(p->out, v->is_tuple ? "tuple [" : "list [");
    for (uint32_t i = 0; i < v->n; i++) {
      text_puts(p->out, i ? ", " : "");
      put_item(p, v->as.items[i]);
    }
    text_putc(p->out, ']');
    break;
  case FX_VAL_CONSTANT:
    text_puts(p->out, "constant ");
    put_arg(p, &v->as.constant);
    break;
  }
  session_leave(p->s);
}

/* -- Graphs ------------------------------------------------------------------------------------ */

/* Append the members in the file's order: each goes before those that were read earlier. */
static void put_unknown(text_printer *p, const char *word, const fx_unknown *list)
{
  if (!list)
    return;
  session_enter(p->s);
  put_unknown(p, word, list->next);
  session_leave(p->s);
  text_printf(p->out, " %s ", word);
  json_quote(p->out, list->name);
  text_putc(p->out, ' ');
  text_add(p->out, list->json.p, list->json.len);
}

static void put_kwargs(text_printer *p, const fx_node *n)
{
  text_puts(p->out, " {");
  for (uint32_t i = 0; i < n->n_kwargs; i++) {
    text_puts(p->out, i ? ", " : "");
    json_quote(p->out, n->kwargs[i].name);
    text_puts(p->out, ": ");
    put_arg(p, &n->kwargs[i].arg);
  }
  text_putc(p->out, '}');
}

/* Append what a node has besides its call; metadata that is the one of the node before is "same".
 * */
static void put_attributes(text_printer *p, const fx_node *n)
{
  if (n->arg_names) {
    text_puts(p->out, " names [");
    for (uint32_t i = 0; i < n->n_args; i++) {
      text_puts(p->out, i ? ", " : "");
      json_quote(p->out, n->arg_names[i]);
    }
    text_putc(p->out, ']');
  }
  if (n->file_name) {
    text_puts(p->out, " file_name ");
    put_string(p, n->file_name);
  }
  text_puts(p->out, n->returns_none ? " none" : "");
  if (n->val) {
    text_puts(p->out, " val ");
    put_val(p, n->val);
  }
  if (n->metadata.len && n->prev && n->prev->metadata.p == n->metadata.p) {
    text_puts(p->out, " meta same");
  } else if (n->metadata.len) {
    text_puts(p->out, " meta ");
    text_add(p->out, n->metadata.p, n->metadata.len);
  }
  put_unknown(p, "unknown", n->unknown);
}

static void put_line(text_printer *p, const fx_node *n)
{
  static const char *const words[] = {"placeholder", "get_attr", "call", "output"};
  const fx_arg args = {.kind = FX_TUPLE, .n = n->n_args, .as.items = n->args};

  new_line(p);
  put_node(p, n);
  text_printf(p->out, " = %s ", words[n->op]);
  put_string(p, n->target);
  if (n->op == FX_CALL_FUNCTION || n->op == FX_OUTPUT) {
    text_putc(p->out, ' ');
    put_arg(p, &args);
  }
  if (n->n_kwargs)
    put_kwargs(p, n);
  put_attributes(p, n);
}

static void put_graph(text_printer *p, const fx_graph *g)
{
  table *outer = p->named;

  session_enter(p->s);
  text_putc(p->out, '{');
  p->indent += 2;
  p->named = session_new(p->s, table);
  session_table_init(p->s, p->named);
  put_unknown(p, "unknown", g->unknown);
  for (const fx_node *n = g->first; n; n = n->next)
    if (n->val && n->op == FX_CALL_FUNCTION && strcmp(n->target, "_operator.getitem") == 0)
      session_table_put(p->s, p->named, address_key(n->val), (void *)(uintptr_t)n);
  for (const fx_node *n = g->first; n; n = n->next) {
    session_poll(p->s);
    put_line(p, n);
  }
  for (uint32_t i = 0; i < g->n_subgraphs; i++) {
    new_line(p);
    text_puts(p->out, "graph ");
    put_string(p, g->subgraphs[i].name);
    text_putc(p->out, ' ');
    put_graph(p, g->subgraphs[i].graph);
  }
  p->indent -= 2;
  p->named = outer;
  new_line(p);
  text_putc(p->out, '}');
  session_leave(p->s);
}

/* -- Signature and module calls ---------------------------------------------------------------- */

static void put_spec_arg(text_printer *p, const exported_arg *a)
{
  text_printf(p->out, "%s ", exported_arg_words[a->kind]);
  put_string(p, a->name);
  if (a->kind == ARG_CUSTOM_OBJECT && a->class_name) {
    text_puts(p->out, " class ");
    put_string(p, a->class_name);
  }
  if (a->kind == ARG_CONSTANT) {
    text_putc(p->out, ' ');
    put_arg(p, &a->constant);
  }
}

static void put_target(text_printer *p, const char *target)
{
  if (!target)
    return;
  text_puts(p->out, " target ");
  put_string(p, target);
}

static void put_signature(text_printer *p, const exported_program *of)
{
  for (uint32_t i = 0; i < of->n_inputs; i++) {
    const program_input *in = &of->inputs[i];
    new_line(p);
    text_printf(p->out, "input %s ", exported_input_words[in->kind]);
    put_spec_arg(p, &in->arg);
    put_target(p, in->target);
    text_puts(p->out, in->is_persistent ? " persistent" : "");
    text_puts(p->out, in->is_constant_input ? " is_constant" : "");
  }
  for (uint32_t i = 0; i < of->n_outputs; i++) {
    new_line(p);
    text_printf(p->out, "output %s ", exported_output_words[of->outputs[i].kind]);
    put_spec_arg(p, &of->outputs[i].arg);
    put_target(p, of->outputs[i].target);
  }
}

static void put_spec_args(text_printer *p, const char *word, const exported_arg *args, uint32_t n)
{
  text_printf(p->out, " %s [", word);
  for (uint32_t i = 0; i < n; i++) {
    text_puts(p->out, i ? ", " : "");
    put_spec_arg(p, &args[i]);
  }
  text_putc(p->out, ']');
}

static void put_strings(text_printer *p, const char *const *items, uint32_t n)
{
  text_puts(p->out, " [");
  for (uint32_t i = 0; i < n; i++) {
    text_puts(p->out, i ? ", " : "");
    put_string(p, items[i]);
  }
  text_putc(p->out, ']');
}

static void put_call(text_printer *p, const exported_call_entry *e)
{
  new_line(p);
  text_puts(p->out, "module ");
  put_string(p, e->fqn);
  if (!e->has_signature)
    return;
  put_spec_args(p, "inputs", e->inputs, e->n_inputs);
  put_spec_args(p, "outputs", e->outputs, e->n_outputs);
  text_puts(p->out, " in_spec ");
  json_quote(p->out, e->in_spec);
  text_puts(p->out, " out_spec ");
  json_quote(p->out, e->out_spec);
  if (e->arg_names) {
    text_puts(p->out, " names");
    put_strings(p, e->arg_names, e->n_arg_names);
  }
}

/* -- The program ------------------------------------------------------------------------------- */

static void put_bound(text_printer *p, bool has, int64_t bound)
{
  if (has)
    text_printf(p->out, " %lld", (long long)bound);
  else
    text_puts(p->out, " none");
}

static void put_ranges(text_printer *p, const exported_program *of)
{
  for (uint32_t i = 0; i < of->n_ranges; i++) {
    const exported_bounds *b = &of->ranges[i];
    new_line(p);
    text_puts(p->out, "range ");
    json_quote(p->out, b->text);
    text_puts(p->out, b->is_used ? " used" : " unused");
    put_bound(p, b->has_min, b->min);
    put_bound(p, b->has_max, b->max);
  }
}

static void put_json(text_printer *p, const char *word, str json)
{
  if (!json.len)
    return;
  new_line(p);
  text_printf(p->out, "%s ", word);
  text_add(p->out, json.p, json.len);
}

void exported_print_text(session *s, text_buf *out, const exported_program *of)
{
  text_printer *p = session_new(s, text_printer);

  *p = (text_printer){.s = s, .out = out, .indent = 2};
  text_puts(out, "exported_program ");
  put_string(p, of->name);
  text_puts(out, " {");
  new_line(p);
  text_printf(out, "schema %lld %lld torch_version ", (long long)of->major, (long long)of->minor);
  put_string(p, of->torch_version);
  text_puts(out, " dialects");
  put_strings(p, of->dialects, of->n_dialects);
  put_json(p, "opset_version", of->opset_version);
  put_json(p, "metadata", of->metadata);
  put_json(p, "namedtuple_fields", of->namedtuple_fields);
  put_unknown(p, "unknown", of->unknown);
  put_unknown(p, "module_unknown", of->module_unknown);
  put_ranges(p, of);
  for (uint32_t i = 0; i < of->n_guards; i++) {
    new_line(p);
    text_puts(out, "guard ");
    put_string(p, of->guards[i]);
  }
  put_signature(p, of);
  for (uint32_t i = 0; i < of->n_calls; i++)
    put_call(p, &of->calls[i]);
  new_line(p);
  text_puts(out, "graph ");
  put_graph(p, of->graph);
  text_puts(out, "\n}\n");
}
