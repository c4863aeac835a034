/* show/json.c -- a program as JSON, for pages and tools that draw graphs.
 *
 *   {"format", "class", "methods": [{"name", "schema", "function"}],
 *    "functions": [{"name", "values": [[name, type]...], "self": value or null, "in": [value...],
 *                   "nodes": [node...], "out": [value...]}],
 *    "ops": [{"name", "overload", "args": [name...], "writes": [index of an argument changed in
 *    place...], "runs"}], "sources": [{"name", "text"}], "constants": [{"name", "dtype", "shape",
 *    "bytes"}]}
 *   node: {"id", "op": index | "kind": "prim::If", "unknown": true (the kind is an unknown
 *   operator), "in", "out", "at": [source, line],
 *          "value": text of a constant, "attrs": {name: text}, "call": function,
 *          "blocks": [{"in", "nodes", "out"}...]}
 *
 * An exported program has "modules": [{"path", "class", "outer"}...] besides, its nodes "module",
 * an index of these.  Its values' types are "float32[s77, 4]", with `true` behind them, and "int
 * s77", as far as the file says.
 *
 * Values are numbered per function.  Names from an archive appear only in strings, with every `<`
 * escaped: the text may be put inside a page. */
#include "show/json_int.h"

#include "base/lock.h"
#include "base/table.h"
#include "formats/json.h"

#define MOST_TEXT 240 /* bytes of a constant that are shown */
#define NOTHING UINT32_MAX

typedef struct writer {
  session *s;
  module *m;
  text_buf *out;
  table functions; /* qualified name -> json_function */
  table ops;       /* "name.overload" -> json_op */
  struct json_function *first, **last;
  uint32_t n_functions, n_ops;
  json_exported *exported; /* NULL: it is TorchScript */
  uint32_t line;           /* exported programs: of the code as show_code prints it */
} writer;

typedef struct json_function {
  function *f;
  uint32_t index;
  struct json_function *next;
} json_function;

typedef struct json_op {
  const op *op;
  uint32_t index;
} json_op;

/* -- JSON -------------------------------------------------------------------------------------- */

static void put_str(text_buf *out, const char *text) { json_quote(out, str_of(text)); }

/* Append at most MOST_TEXT bytes, in whole characters. */
static void put_short(text_buf *out, const text_buf *t)
{
  const char *p = text_str(t);
  size_t n = t->len;

  if (n <= MOST_TEXT) {
    json_quote(out, (str){p, n});
    return;
  }
  for (n = MOST_TEXT; n > 0 && ((unsigned char)p[n] & 0xC0) == 0x80;)
    n--;
  json_quote(out, (str){p, n});
  out->len--; /* the quote */
  text_puts(out, "...\"");
}

/* -- Values ------------------------------------------------------------------------------------ */

/* Number all values that a block and the blocks in it define. */
static void number_values(writer *w, const ir_block *b, uint32_t *n)
{
  session_enter(w->s);
  for (uint32_t i = 0; i < b->param->n_outputs; i++)
    b->param->outputs[i]->scratch = (*n)++;
  for (const ir_node *x = ir_block_first(b); x != b->ret; x = x->next) {
    for (uint32_t i = 0; i < x->n_outputs; i++)
      x->outputs[i]->scratch = (*n)++;
    for (uint32_t i = 0; i < x->n_blocks; i++)
      number_values(w, x->blocks[i], n);
  }
  session_leave(w->s);
}

static void put_value(writer *w, const ir_value *v, text_buf *t)
{
  text_puts(w->out, v->scratch ? ",[" : "[");
  if (v->name)
    put_str(w->out, v->name);
  else
    text_printf(w->out, "\"%u\"", v->id);
  text_putc(w->out, ',');
  bool is_tensor = false;
  text_clear(t);
  if (!w->exported || !json_exported_type(w->exported, t, v, &is_tensor))
    type_print(t, v->type);
  put_short(w->out, t);
  text_puts(w->out, is_tensor ? ",true]" : "]");
}

/* Print values in the order of their numbers. */
static void put_values(writer *w, const ir_block *b, text_buf *t)
{
  session_enter(w->s);
  for (uint32_t i = 0; i < b->param->n_outputs; i++)
    put_value(w, b->param->outputs[i], t);
  for (const ir_node *x = ir_block_first(b); x != b->ret; x = x->next) {
    for (uint32_t i = 0; i < x->n_outputs; i++)
      put_value(w, x->outputs[i], t);
    for (uint32_t i = 0; i < x->n_blocks; i++)
      put_values(w, x->blocks[i], t);
  }
  session_leave(w->s);
}

static void put_inputs(writer *w, const char *key, const ir_node *n)
{
  text_printf(w->out, "\"%s\":[", key);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    text_printf(w->out, "%s%u", i ? "," : "", ir_node_input(n, i)->scratch);
  text_putc(w->out, ']');
}

static void put_outputs(writer *w, const char *key, const ir_node *n)
{
  text_printf(w->out, "\"%s\":[", key);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    text_printf(w->out, "%s%u", i ? "," : "", n->outputs[i]->scratch);
  text_putc(w->out, ']');
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static uint32_t index_of_op(writer *w, const op *o)
{
  const char *name = session_printf(w->s, "%s.%s", o->schema->name, o->schema->overload);
  json_op *known = table_get(&w->ops, str_of(name));

  if (!known) {
    known = session_new(w->s, json_op);
    *known = (json_op){o, w->n_ops++};
    session_table_put(w->s, &w->ops, str_of(name), known);
  }
  return known->index;
}

static uint32_t index_of_function(writer *w, function *f)
{
  json_function *known = table_get(&w->functions, str_of(f->qualified));

  if (!known) {
    known = session_new(w->s, json_function);
    *known = (json_function){f, w->n_functions++, NULL};
    *w->last = known;
    w->last = &known->next;
    session_table_put(w->s, &w->functions, str_of(f->qualified), known);
  }
  return known->index;
}

static void put_tensor_text(text_buf *t, const rush_tensor *x)
{
  text_printf(t, "%s[", dtype_name(x->dtype));
  for (int i = 0; i < x->n_dims; i++)
    text_printf(t, "%s%lld", i ? ", " : "", (long long)x->sizes[i]);
  text_putc(t, ']');
}

static void put_constant(writer *w, rush_value v, text_buf *t)
{
  text_clear(t);
  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor)
    put_tensor_text(t, v.as.tensor);
  else if (v.tag == RUSH_TAG_LIST && v.as.list->n > 64)
    text_printf(t, "list of %zu", v.as.list->n);
  else if (v.tag == RUSH_TAG_OBJECT)
    text_printf(t, "object of %s", v.as.object->type->name);
  else
    session_check(w->s, value_repr(w->s->cx, t, v));
  text_puts(w->out, ",\"value\":");
  put_short(w->out, t);
}

static void put_attrs(writer *w, const ir_node *n, text_buf *t)
{
  bool first = true;

  for (const ir_attr *a = n->attrs; a; a = a->next) {
    text_clear(t);
    if (a->kind == ATTR_INT)
      text_printf(t, "%lld", (long long)a->as.i);
    else if (a->kind == ATTR_FLOAT)
      text_printf(t, "%g", a->as.d);
    else if (a->kind == ATTR_STRING)
      text_puts(t, a->as.s);
    else if (a->kind == ATTR_TYPES || a->kind == ATTR_TYPE)
      for (uint32_t i = 0; i < a->as.t.n_types && t->len < MOST_TEXT; i++) {
        text_puts(t, i ? ", " : "");
        type_print(t, a->as.t.types[i]);
      }
    else
      continue;
    text_puts(w->out, first ? ",\"attrs\":{" : ",");
    put_str(w->out, a->name);
    text_putc(w->out, ':');
    put_short(w->out, t);
    first = false;
  }
  text_puts(w->out, first ? "" : "}");
}

/* True for sources that show_json lists, in this order. */
static bool is_shown(const source *src) { return src->name && strstr(src->name, ".py"); }

static void put_place(writer *w, const ir_node *n)
{
  const program *p = w->m->program;
  uint32_t line, column, at = 0;

  if (w->exported) {
    if (!json_exported_place(w->exported, w->out, n))
      text_printf(w->out, ",\"at\":[0,%u]", w->line);
    return;
  }
  if (!n->range.src || !is_shown(n->range.src))
    return;
  for (uint32_t i = 0; i < p->n_sources && p->sources[i] != n->range.src; i++)
    at += is_shown(p->sources[i]);
  source_position(n->range.src, n->range.start, &line, &column);
  text_printf(w->out, ",\"at\":[%u,%u]", at, line);
}

static void put_nodes(writer *w, const ir_block *b, text_buf *t);

static void put_node(writer *w, const ir_node *n, text_buf *t)
{
  bool is_hidden =
    n->kind == IR_CONSTANT || n->kind == IR_GET_ATTR; /* show_code prints no line for them */
  function *callee = ir_node_callee(n);
  rush_value v;

  text_printf(w->out, "{\"id\":%u,", n->origin);
  if (n->kind == IR_OP) {
    text_printf(w->out, "\"op\":%u", index_of_op(w, n->op));
  } else {
    text_puts(w->out, "\"kind\":");
    put_str(w->out, ir_node_kind_name(n));
    text_puts(w->out, n->kind == IR_UNKNOWN_OP ? ",\"unknown\":true" : "");
  }
  text_putc(w->out, ',');
  put_inputs(w, "in", n);
  text_putc(w->out, ',');
  put_outputs(w, "out", n);
  put_place(w, n);
  if (n->kind == IR_CONSTANT && n->n_outputs && ir_value_as_constant(n->outputs[0], &v))
    put_constant(w, v, t);
  put_attrs(w, n, t);
  if (callee)
    text_printf(w->out, ",\"call\":%u", index_of_function(w, callee));
  w->line += !is_hidden;
  for (uint32_t i = 0; i < n->n_blocks; i++) {
    w->line += i > 0; /* "or:" */
    text_puts(w->out, i ? ",{" : ",\"blocks\":[{");
    put_nodes(w, n->blocks[i], t);
    text_putc(w->out, '}');
  }
  text_puts(w->out, n->n_blocks ? "]}" : "}");
}

static void put_nodes(writer *w, const ir_block *b, text_buf *t)
{
  session_enter(w->s);
  put_outputs(w, "in", b->param);
  text_puts(w->out, ",\"nodes\":[");
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    text_puts(w->out, n == ir_block_first(b) ? "\n" : ",\n");
    put_node(w, n, t);
  }
  text_puts(w->out, "],");
  put_inputs(w, "out", b->ret);
  w->line++; /* "return" */
  session_leave(w->s);
}

/* -- The whole --------------------------------------------------------------------------------- */

static void put_function(writer *w, function *f, text_buf *t)
{
  uint32_t n = 0;

  function_ensure(w->s, f);
  text_puts(w->out, "{\"name\":");
  put_str(w->out, f->qualified);
  if (f->graph) {
    const ir_block *b = f->graph->block;
    w->line = 2; /* after "def" */
    number_values(w, b, &n);
    text_puts(w->out, ",\"values\":[");
    put_values(w, b, t);
    text_puts(w->out, "],\"self\":");
    text_puts(w->out, b->param->n_outputs && b->param->outputs[0]->type->kind == TYPE_CLASS &&
                          (f->self || w->m->exported)
                        ? "0,"
                        : "null,");
    put_nodes(w, b, t);
  } else {
    text_puts(w->out, ",\"values\":[],\"self\":null,\"in\":[],\"nodes\":[],\"out\":[]");
  }
  text_putc(w->out, '}');
}

static void put_methods(writer *w, const char *method, text_buf *t)
{
  const class_info *cls = w->m->object.as.object->type->cls;
  bool first = true;

  text_puts(w->out, ",\n\"methods\":[");
  for (uint32_t i = 0; i < cls->n_methods; i++) {
    if (method && strcmp(method, cls->methods[i]->name) != 0)
      continue;
    function_ensure(w->s, cls->methods[i]);
    text_puts(w->out, first ? "{\"name\":" : ",{\"name\":");
    put_str(w->out, cls->methods[i]->name);
    text_puts(w->out, ",\"schema\":");
    text_clear(t);
    schema_print(t, cls->methods[i]->schema);
    json_quote(w->out, (str){text_str(t), t->len});
    text_printf(w->out, ",\"function\":%u}", index_of_function(w, cls->methods[i]));
    first = false;
  }
  text_putc(w->out, ']');
  if (first && method)
    session_fail_status(w->s, RUSH_EARGUMENT, "AttributeError", NULL,
                        "the module has no method '%s'", method);
}

/* Print the arguments that an operator changes, if any. */
static void put_writes(writer *w, const schema *sc)
{
  bool first = true;

  for (uint32_t i = 0; i < sc->n_args; i++) {
    if (!sc->args[i].is_write && !sc->args[i].elem_write)
      continue;
    text_printf(w->out, first ? ",\"writes\":[%u" : ",%u", i);
    first = false;
  }
  text_puts(w->out, first ? "" : "]");
}

static void put_ops(writer *w)
{
  text_puts(w->out, ",\n\"ops\":[");
  for (uint32_t i = 0; i < w->ops.n; i++) {
    const op *o = ((const json_op *)w->ops.entries[i].value)->op;
    text_puts(w->out, i ? ",\n{\"name\":" : "\n{\"name\":");
    put_str(w->out, o->schema->name);
    text_puts(w->out, ",\"overload\":");
    put_str(w->out, o->schema->overload);
    text_printf(w->out, ",\"runs\":%s,\"args\":[", code_runs_op(o) ? "true" : "false");
    for (uint32_t k = 0; k < o->schema->n_args; k++) {
      text_puts(w->out, k ? "," : "");
      put_str(w->out, o->schema->args[k].name);
    }
    text_putc(w->out, ']');
    put_writes(w, o->schema);
    text_putc(w->out, '}');
  }
  text_putc(w->out, ']');
}

static void put_sources(writer *w, text_buf *t)
{
  const program *p = w->m->program;
  bool first = true;

  text_puts(w->out, ",\n\"sources\":[");
  if (w->exported) {
    text_clear(t);
    show_code(w->s, w->m, NULL, t);
    text_puts(w->out, "{\"name\":\"forward\",\"text\":");
    json_quote(w->out, (str){text_str(t), t->len});
    text_putc(w->out, '}');
    json_exported_sources(w->exported, w->out);
    text_putc(w->out, ']');
    return;
  }
  for (uint32_t i = 0; i < p->n_sources; i++) {
    if (!is_shown(p->sources[i]))
      continue;
    text_puts(w->out, first ? "{\"name\":" : ",\n{\"name\":");
    put_str(w->out, p->sources[i]->name);
    text_puts(w->out, ",\"text\":");
    json_quote(w->out, (str){p->sources[i]->text, p->sources[i]->len});
    text_putc(w->out, '}');
    first = false;
  }
  text_putc(w->out, ']');
}

/* Print constants: frozen modules keep their weights among the constants of the code. */
static void put_constants(writer *w)
{
  const program *p = w->m->program;
  bool first = true;

  text_puts(w->out, ",\n\"constants\":[");
  for (uint32_t i = 0; i < p->n_constants; i++) {
    const rush_tensor *x =
      p->constants[i].tag == RUSH_TAG_TENSOR ? p->constants[i].as.tensor : NULL;
    if (!x)
      continue;
    text_printf(w->out, "%s{\"name\":\"CONSTANTS.c%u\",\"dtype\":\"%s\",\"shape\":[",
                first ? "" : ",", i, dtype_name(x->dtype));
    for (int d = 0; d < x->n_dims; d++)
      text_printf(w->out, "%s%lld", d ? "," : "", (long long)x->sizes[d]);
    text_printf(w->out, "],\"bytes\":%llu}",
                (unsigned long long)x->n_elems * dtype_bytes(x->dtype));
    first = false;
  }
  text_putc(w->out, ']');
}

void show_json(session *s, module *m, const char *method, text_buf *out)
{
  writer *w = session_new(s, writer);
  text_buf *t = session_text(s);

  *w = (writer){.s = s, .m = m, .out = out, .exported = json_exported_new(s, m)};
  w->last = &w->first;
  session_table_init(s, &w->functions);
  session_table_init(s, &w->ops);
  session_lock_to_read(s, &m->program->lock); /* values' scratch numbers are ours meanwhile */
  text_printf(out, "{\"format\":\"%s\",\"class\":",
              m->format == RUSH_FORMAT_EXPORT ? "torch.export" : "TorchScript");
  put_str(out, m->object.as.object->type->name);
  put_methods(w, method, t);
  text_puts(out, ",\n\"functions\":[");
  for (json_function *f = w->first; f; f = f->next) { /* grows while functions are written */
    text_puts(out, f == w->first ? "\n" : ",\n");
    put_function(w, f->f, t);
  }
  text_putc(out, ']');
  put_ops(w);
  put_constants(w);
  if (w->exported)
    json_exported_modules(w->exported, out);
  put_sources(w, t);
  text_puts(out, "}\n");
}
