/* show/show.c -- prints modules, their attributes and exported programs as text, and graphs in
 * Graphviz's language (show.h). Each printer is one recursive walk that appends to a text buffer;
 * nothing is run or changed. */
#include "show/show.h"

#include "archive/write.h"
#include "script/print/print.h"

#include <string.h>

#include "ir/alias.h"
#include "tensor/sparse.h"

/* -- Summary ----------------------------------------------------------------------------------- */

typedef struct totals {
  text_buf *out;
  uint64_t n_parameters, n_buffers, n_elements, n_bytes;
} totals;

static void put_tensor(text_buf *out, const rush_tensor *t)
{
  static const char *const layouts[] = {"", "sparse_coo ", "sparse_csr "};
  text_printf(out, "%s%s[", layouts[tensor_layout(t)], dtype_name(t->dtype));
  for (int i = 0; i < t->n_dims; i++)
    text_printf(out, "%s%lld", i ? ", " : "", (long long)t->sizes[i]);
  text_putc(out, ']');
}

static bool add_state(void *arg, const char *qualified, rush_value *slot, bool is_parameter)
{
  totals *t = arg;
  const rush_tensor *x = slot->as.tensor;

  text_printf(t->out, "  %-40s %-9s ", qualified, is_parameter ? "parameter" : "buffer");
  put_tensor(t->out, x);
  text_putc(t->out, '\n');
  *(is_parameter ? &t->n_parameters : &t->n_buffers) += 1;
  x = tensor_sparse(x) ? tensor_sparse(x)->values : x;
  t->n_elements += (uint64_t)x->n_elems;
  t->n_bytes += (uint64_t)x->n_elems * dtype_bytes(x->dtype);
  return true;
}

/* Print "12345678" as 12,345,678. */
static void put_grouped(text_buf *out, uint64_t n)
{
  if (n >= 1000) {
    put_grouped(out, n / 1000);
    text_printf(out, ",%03u", (unsigned)(n % 1000));
  } else {
    text_printf(out, "%u", (unsigned)n);
  }
}

static void put_bytes(text_buf *out, uint64_t n)
{
  static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
  double v = (double)n;
  int u = 0;

  for (; v >= 1000 && u < 4; u++)
    v /= 1000;
  text_printf(out, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

static const char *state_word(call_ctx *cx, function *f)
{
  bool eval = function_changes_state(cx, f, false), train = function_changes_state(cx, f, true);

  return eval ? "  (changes state)\n" : train ? "  (changes state when training)\n" : "\n";
}

static uint64_t count_parameters(const rush_object *o)
{
  uint64_t n = 0;

  for (uint32_t i = 0; i < o->type->cls->n_attrs; i++)
    if (o->slots[i].tag == RUSH_TAG_TENSOR && o->type->cls->attrs[i].is_parameter &&
        o->slots[i].as.tensor)
      n += (uint64_t)o->slots[i].as.tensor->n_elems;
  return n;
}

static const char *class_name(const type *t)
{
  const char *dot = strrchr(t->name, '.');
  return dot ? dot + 1 : t->name;
}

/* Print submodules as a tree, each with its class and its own parameters. */
static void put_modules(session *s, const rush_object *o, int level, text_buf *out)
{
  const class_info *cls = o->type->cls;

  session_enter(s);
  for (uint32_t i = 0; i < cls->n_attrs; i++) {
    if (o->slots[i].tag != RUSH_TAG_OBJECT || !o->slots[i].as.object->type->cls->is_module)
      continue;
    const rush_object *child = o->slots[i].as.object;
    uint64_t n = count_parameters(child);
    text_printf(out, "%*s%s: %s", 2 * level + 2, "", cls->attrs[i].name, class_name(child->type));
    if (n) {
      text_puts(out, "  ");
      put_grouped(out, n);
    }
    text_putc(out, '\n');
    put_modules(s, child, level + 1, out);
  }
  session_leave(s);
}

static bool has_modules(const rush_object *o)
{
  for (uint32_t i = 0; i < o->type->cls->n_attrs; i++)
    if (o->slots[i].tag == RUSH_TAG_OBJECT && o->slots[i].as.object->type->cls->is_module)
      return true;
  return false;
}

/* Print attributes that are neither tensors of the state nor modules: "  classes: List[str] = ['a',
 * 'b']". */
static void put_attributes(session *s, const rush_object *o, text_buf *out)
{
  const class_info *cls = o->type->cls;
  bool first = true;

  for (uint32_t i = 0; i < cls->n_attrs; i++) {
    const class_attr *a = &cls->attrs[i];
    rush_value v = o->slots[i];
    if (a->is_parameter || a->is_buffer || v.tag == RUSH_TAG_UNSET || v.tag == RUSH_TAG_NONE ||
        (v.tag == RUSH_TAG_OBJECT && v.as.object->type->cls->is_module))
      continue;
    text_puts(out, first ? "attributes:\n" : "");
    first = false;
    text_printf(out, "  %s: ", a->name);
    type_print_annotation(out, a->type);
    if (v.tag == RUSH_TAG_TENSOR) {
      text_puts(out, " = ");
      put_tensor(out, v.as.tensor);
    } else if (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_DICT) {
      text_printf(out, ", %zu entries", v.tag == RUSH_TAG_LIST ? v.as.list->n : v.as.dict->n);
    } else if (v.tag != RUSH_TAG_OBJECT && v.tag != RUSH_TAG_TUPLE && v.tag != RUSH_TAG_CUSTOM) {
      text_puts(out, " = ");
      session_check(s, value_repr(s->cx, out, v));
    }
    text_putc(out, '\n');
  }
}

/* Print constants: frozen modules keep their weights among the constants of the code. */
static void put_constants(const program *p, text_buf *out)
{
  uint64_t n = 0, n_elements = 0, n_bytes = 0;

  for (uint32_t i = 0; i < p->n_constants; i++) {
    const rush_tensor *t =
      p->constants[i].tag == RUSH_TAG_TENSOR ? p->constants[i].as.tensor : NULL;
    if (!t)
      continue;
    n++;
    n_elements += (uint64_t)t->n_elems;
    n_bytes += (uint64_t)t->n_elems * dtype_bytes(t->dtype);
  }
  if (n == 0)
    return;
  text_printf(out, "constants of the code:\n  %u tensors, ", (unsigned)n);
  put_grouped(out, n_elements);
  text_puts(out, " elements, ");
  put_bytes(out, n_bytes);
  text_putc(out, '\n');
}

static void put_extra_files(const module *m, text_buf *out)
{
  text_puts(out, m->extra_files.n_live ? "extra files:\n" : "");
  for (uint32_t i = 0; i < m->extra_files.n; i++) {
    const table_entry *e = &m->extra_files.entries[i];
    if (!e->value)
      continue;
    text_printf(out, "  %.*s, ", (int)e->key.len, e->key.p);
    put_bytes(out, ((const str *)e->value)->len);
    text_putc(out, '\n');
  }
}

static void put_signature(session *s, const exported *e, text_buf *out)
{
  signature *sig;

  session_check(s, signature_new(s->cx, e->forward, e, &sig));
  const rush_status st = signature_print(s->cx, out, sig, "");
  signature_free(sig);
  session_check(s, st);
}

/* Print the conditions once each (files repeat some), without those on dtypes: calls with other
 * dtypes run, as in PyTorch, though the program was exported for these. */
static void put_guards(session *s, const exported *e, text_buf *out)
{
  table *said = session_new(s, table);

  text_puts(out, e->n_guards ? "must hold:\n" : "");
  session_table_init(s, said);
  for (uint32_t i = 0; i < e->n_leaves && e->n_guards; i++)
    if (e->leaf_metas[i] && e->leaf_metas[i]->is_tensor && e->leaf_metas[i]->dtype != DTYPE_NONE)
      text_printf(out, "  %s.dtype == %s (expected, not checked)\n", e->leaf_names[i],
                  dtype_name(e->leaf_metas[i]->dtype));
  for (uint32_t i = 0; i < e->n_guards; i++) {
    const char *key = guard_key(s, e, e->guards[i]);
    if (table_get(said, str_of(key)))
      continue;
    text_printf(out, "  %s\n", e->guards[i]->text);
    session_table_put(s, said, str_of(key), (void *)(uintptr_t)key);
  }
}

void show_summary(session *s, module *m, text_buf *out)
{
  const rush_object *o = m->object.as.object;
  const class_info *cls = o->type->cls;
  totals t = {.out = out};

  text_printf(out, "%s archive, %s\nmethods:\n",
              m->format == RUSH_FORMAT_EXPORT ? "torch.export" : "TorchScript", o->type->name);
  for (uint32_t i = 0; i < cls->n_methods; i++) {
    text_puts(out, "  ");
    if (!cls->methods[i]->schema->returns[0].type) /* not annotated: inferred from the body */
      function_ensure(s, cls->methods[i]);
    schema_print(out, cls->methods[i]->schema);
    text_puts(out, state_word(s->cx, cls->methods[i]));
  }
  if (m->exported)
    put_signature(s, m->exported, out);
  if (has_modules(o)) {
    text_puts(out, "modules:\n");
    put_modules(s, o, 0, out);
  }
  put_attributes(s, o, out);
  text_puts(out, "state:\n");
  session_check(s, module_walk_state(s->cx, m, add_state, &t));
  text_puts(out, t.n_parameters + t.n_buffers ? "  in all " : "  none\n");
  if (t.n_parameters + t.n_buffers) {
    text_printf(out, "%u parameters and %u buffers, ", (unsigned)t.n_parameters,
                (unsigned)t.n_buffers);
    put_grouped(out, t.n_elements);
    text_puts(out, " elements, ");
    put_bytes(out, t.n_bytes);
    text_putc(out, '\n');
  }
  put_constants(m->program, out);
  if (m->exported)
    put_guards(s, m->exported, out);
  put_extra_files(m, out);
}

/* -- Code -------------------------------------------------------------------------------------- */

static void put_value(session *s, const ir_value *v, text_buf *out)
{
  rush_value c;

  if (v->node->kind == IR_CONSTANT && ir_value_as_constant(v, &c) && c.tag != RUSH_TAG_TENSOR)
    session_check(s, value_repr(s->cx, out, c));
  else if (v->node->kind == IR_GET_ATTR)
    text_printf(out, "self.%s", ir_attr_string(v->node, "name"));
  else if (v->name)
    text_puts(out, v->name);
  else
    text_printf(out, "_%u", v->id);
}

static void put_operands(session *s, const ir_node *n, text_buf *out)
{
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    text_puts(out, i ? ", " : "");
    put_value(s, ir_node_input(n, i), out);
  }
}

static void put_code(session *s, const ir_block *b, int level, text_buf *out);

static void put_statement(session *s, const ir_node *n, int level, text_buf *out)
{
  text_printf(out, "%*s", 4 * level, "");
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    text_puts(out, i ? ", " : "");
    put_value(s, n->outputs[i], out);
  }
  text_puts(out, n->n_outputs ? " = " : "");
  if (n->kind == IR_OP) {
    const char *colons = strstr(n->op->schema->name, "::");
    text_printf(out, "torch.ops.%.*s.%s.%s(", (int)(colons - n->op->schema->name),
                n->op->schema->name, colons + 2,
                n->op->schema->overload[0] ? n->op->schema->overload : "default");
    put_operands(s, n, out);
    text_putc(out, ')');
  } else if (n->kind == IR_LIST_CONSTRUCT || n->kind == IR_TUPLE_CONSTRUCT) {
    text_putc(out, n->kind == IR_LIST_CONSTRUCT ? '[' : '(');
    put_operands(s, n, out);
    text_puts(out, n->kind == IR_LIST_CONSTRUCT ? "]" : n->n_inputs == 1 ? ",)" : ")");
  } else {
    text_printf(out, "%s(", ir_node_kind_name(n));
    put_operands(s, n, out);
    text_putc(out, ')');
  }
  text_puts(out, n->n_blocks ? ":\n" : "\n");
  for (uint32_t i = 0; i < n->n_blocks; i++) {
    if (i)
      text_printf(out, "%*sor:\n", 4 * level, "");
    put_code(s, n->blocks[i], level + 1, out);
  }
}

/* Print the nodes of a block and its results. */
static void put_code(session *s, const ir_block *b, int level, text_buf *out)
{
  session_enter(s);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    if (n->kind != IR_CONSTANT && n->kind != IR_GET_ATTR)
      put_statement(s, n, level, out);
  text_printf(out, "%*sreturn ", 4 * level, "");
  put_operands(s, b->ret, out);
  text_putc(out, '\n');
  session_leave(s);
}

void show_code(session *s, module *m, const char *method, text_buf *out)
{
  if (m->exported) {
    const ir_block *b = m->exported->forward->graph->block;
    text_puts(out, "def forward(");
    for (uint32_t i = 0; i < b->param->n_outputs; i++) {
      text_puts(out, i ? ", " : "");
      put_value(s, b->param->outputs[i], out);
    }
    text_puts(out, "):\n");
    put_code(s, b, 1, out);
    return;
  }
  if (!method) {
    archive_show_code(s, m->object, out);
    return;
  }
  function *f;
  session_check(s, module_method(m, method, &f, s->cx->err));
  script_print_function(script_uses_new(s), script_text_new(s, out), f, NULL,
                        f->self ? SELF_BARE : SELF_TYPED, NULL);
}

typedef struct code_job {
  module *m;
  const char *method;
  text_buf *out;
  rush_value constants;
} code_job;

static void code_body(session *s, void *arg)
{
  code_job *job = arg;
  function *f;
  script_uses *uses = script_uses_new(s);
  rush_tuple *t;

  session_check(s, module_method(job->m, job->method, &f, s->cx->err));
  if (job->m->exported)
    session_fail_status(s, RUSH_EARGUMENT, "AttributeError", NULL,
                        "an exported program has no TorchScript code");
  script_print_function(uses, script_text_new(s, job->out), f, NULL,
                        f->self ? SELF_BARE : SELF_TYPED, NULL);
  session_check(s, tuple_new(s->cx, NULL, uses->n_constants, &t));
  for (uint32_t i = 0; i < uses->n_constants; i++)
    t->items[i] = value_retain(uses->constants[i]);
  job->constants = value_heap_steal(RUSH_TAG_TUPLE, t);
}

rush_status module_code(call_ctx *cx, module *m, const char *method, text_buf *out,
                        rush_value *constants)
{
  code_job job = {.m = m, .method = method, .out = out};

  TRY(module_place(cx, m, session_run(cx, code_body, &job)));
  *constants = job.constants;
  return RUSH_OK;
}

/* -- Graphviz ---------------------------------------------------------------------------------- */

static void put_quoted(text_buf *out, const char *text)
{
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      text_putc(out, '\\');
    text_putc(out, *text);
  }
}

typedef struct dot {
  session *s;
  text_buf *out;
  uint32_t n_clusters, n_sinks;
} dot;

/* Print a node; its name is its first result's; nodes without results, which are never referenced,
 * have a number. */
static void dot_node(dot *d, const ir_node *n)
{
  const char *name = n->n_outputs ? n->outputs[0]->name : NULL;
  uint32_t id = n->n_outputs ? n->outputs[0]->id : d->n_sinks++;
  char kind = n->n_outputs ? 'v' : 'x';

  text_printf(d->out, "  %c%u [label=\"", kind, id);
  put_quoted(d->out, ir_node_kind_name(n));
  if (name) {
    text_puts(d->out, "\\n");
    put_quoted(d->out, name);
  }
  text_puts(d->out, "\"];\n");
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    const ir_node *from = ir_node_input(n, i)->node;
    if (from->kind != IR_CONSTANT)
      text_printf(d->out, "  v%u -> %c%u;\n", from->outputs[0]->id, kind, id);
  }
}

static void dot_block(dot *d, const ir_block *b)
{
  session_enter(d->s);
  if (b->param->n_outputs)
    text_printf(d->out, "  v%u [shape=ellipse, label=\"inputs\"];\n", b->param->outputs[0]->id);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    if (n->kind == IR_CONSTANT)
      continue;
    dot_node(d, n);
    for (uint32_t i = 0; i < n->n_blocks; i++) {
      text_printf(d->out, "  subgraph cluster_%u {\n  label=\"", d->n_clusters++);
      put_quoted(d->out, ir_node_kind_name(n));
      text_puts(d->out, "\";\n");
      dot_block(d, n->blocks[i]);
      text_puts(d->out, "  }\n");
    }
  }
  if (b->ret->n_inputs)
    dot_node(d, b->ret);
  session_leave(d->s);
}

void show_dot(session *s, const char *name, const ir_graph *g, text_buf *out)
{
  dot d = {.s = s, .out = out};

  text_puts(out, "digraph \"");
  put_quoted(out, name);
  text_puts(out, "\" {\n  node [shape=box, fontname=\"monospace\"];\n");
  dot_block(&d, g->block);
  text_puts(out, "}\n");
}

/* -- Digest ------------------------------------------------------------------------------------ */

typedef struct digest {
  session *s;
  text_buf *out;
  uint64_t all;
} digest;

static void put_digest(digest *d, const char *name, uint64_t h)
{
  text_printf(d->out, "%016llx %s\n", (unsigned long long)h, name);
  d->all = (d->all ^ h) * UINT64_C(0x9e3779b97f4a7c15) + hash_bytes(name, strlen(name));
}

static uint64_t digest_tensor(digest *d, rush_tensor *t)
{
  const sparse_parts *p = tensor_sparse(t);
  rush_tensor *dense;
  uint64_t h;

  if (p)
    return (digest_tensor(d, p->values) ^ (uint64_t)p->layout) * UINT64_C(0x9e3779b97f4a7c15) +
           digest_tensor(d, p->indices) + (p->crow ? digest_tensor(d, p->crow) : 0) +
           hash_bytes(t->sizes, (size_t)t->n_dims * 8);
  session_check(d->s, tensor_contiguous(d->s->cx, t, &dense));
  h = hash_bytes(dense->data, (size_t)dense->n_elems * dtype_bytes(dense->dtype)) ^
      hash_bytes(t->sizes, (size_t)t->n_dims * 8) ^ (uint64_t)t->dtype;
  tensor_release(dense);
  return h;
}

static bool digest_state(void *arg, const char *qualified, rush_value *slot, bool is_parameter)
{
  digest *d = arg;
  (void)is_parameter;

  put_digest(d, qualified, digest_tensor(d, slot->as.tensor));
  return true;
}

void show_digest(session *s, module *m, text_buf *out)
{
  const class_info *cls = m->object.as.object->type->cls;
  digest d = {.s = s, .out = out};
  text_buf graph;

  for (uint32_t i = 0; i < cls->n_methods; i++) {
    function_ensure(s, cls->methods[i]);
    text_init(&graph, s->cx->ctx);
    ir_print(&graph, cls->methods[i]->graph, false);
    bool failed = text_failed(&graph);
    uint64_t h = failed ? 0 : hash_bytes(graph.data, graph.len);
    text_free(&graph);
    if (failed)
      session_check(s, call_nomem(s->cx));
    put_digest(&d, cls->methods[i]->name, h);
  }
  session_check(s, module_walk_state(s->cx, m, digest_state, &d));
  text_printf(out, "%016llx in all\n", (unsigned long long)d.all);
}
