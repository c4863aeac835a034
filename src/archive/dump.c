/* What a program uses and how it looks, as text.  Compiles methods, runs nothing. */
#include "archive/module.h"
#include "ir/alias.h"

/* -- Walking all code that methods can reach ------------------------------------------------------------- */

typedef struct op_use {
  const char *name;
  uint32_t n;
  const op *op; /* NULL: unknown or a prim kind */
  bool unknown;
} op_use;

typedef struct reach {
  session *s;
  table functions; /* qualified name -> function, each visited once */
  table uses;      /* operator -> op_use */
  bool is_random;
} reach;

static void visit_function(reach *r, function *f);

static void count_use(reach *r, const ir_node *n)
{
  const char *name = ir_node_kind_name(n);

  if (n->kind == IR_OP)
    name = n->op->schema->overload[0] ? session_printf(r->s, "%s.%s", n->op->schema->name, n->op->schema->overload)
                                      : n->op->schema->name;
  else if (n->kind == IR_UNKNOWN_OP)
    name = ir_attr_string(n, "name");
  op_use *u = table_get(&r->uses, str_of(name));
  if (!u) {
    u = session_new(r->s, op_use);
    *u = (op_use){name, 0, n->kind == IR_OP ? n->op : NULL, n->kind == IR_UNKNOWN_OP};
    if (!table_put(&r->uses, str_of(name), u))
      session_check(r->s, call_nomem(r->s->cx));
  }
  u->n++;
  if (n->kind == IR_OP && (n->op->effects & OP_RANDOM))
    r->is_random = true;
}

static void visit_block(reach *r, const ir_block *b)
{
  session_enter(r->s);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    count_use(r, n);
    if (n->function)
      visit_function(r, n->function);
    if (n->kind == IR_CALL_METHOD && ir_node_input(n, 0)->type->kind == TYPE_CLASS) {
      function *m = class_find_method(ir_node_input(n, 0)->type, str_of(ir_attr_string(n, "name")));
      if (m)
        visit_function(r, m);
    }
    for (uint32_t i = 0; i < n->n_blocks; i++)
      visit_block(r, n->blocks[i]);
  }
  session_leave(r->s);
}

static void visit_function(reach *r, function *f)
{
  str key = str_of(f->qualified);

  if (table_get(&r->functions, key))
    return;
  if (!table_put(&r->functions, key, f))
    session_check(r->s, call_nomem(r->s->cx));
  function_ensure(r->s, f);
  if (f->graph)
    visit_block(r, f->graph->block);
}

static void free_table(void *t) { table_free(t); }

static reach *reach_all(session *s, module *m)
{
  const class_info *cls = m->object.as.object->type->cls;
  reach *r = session_new(s, reach);

  r->s = s;
  table_init(&r->functions, s->cx->ctx);
  session_defer(s, free_table, &r->functions);
  table_init(&r->uses, s->cx->ctx);
  session_defer(s, free_table, &r->uses);
  for (uint32_t i = 0; i < cls->n_methods; i++)
    visit_function(r, cls->methods[i]);
  return r;
}

typedef struct dump_job {
  module *m;
  rush_dump what;
  const char *method;
  text_buf *out;
  bool is_random;
} dump_job;

static void random_body(session *s, void *arg)
{
  dump_job *job = arg;

  job->is_random = reach_all(s, job->m)->is_random;
}

bool module_is_random(call_ctx *cx, module *m)
{
  int known = atomic_load(&m->is_random);

  if (known >= 0)
    return known;
  dump_job job = {.m = m};
  /* A program that does not compile draws nothing: the call will say why. */
  if (session_run(cx, random_body, &job) != RUSH_OK)
    job.is_random = false;
  atomic_store(&m->is_random, job.is_random);
  return job.is_random;
}

/* -- Texts --------------------------------------------------------------------------------------------------- */

static void dump_ops(session *s, module *m, text_buf *out)
{
  static const char *const states[] = {"unknown", "schema only", "runs"};
  reach *r = reach_all(s, m);

  for (int state = 0; state < 3; state++) /* what is missing first */
    for (uint32_t i = 0; i < r->uses.n; i++) {
      const op_use *u = r->uses.entries[i].value;
      int is = !u ? -1 : u->unknown ? 0 : u->op && !op_is_runnable(u->op) ? 1 : 2;
      if (is == state)
        text_printf(out, "%-50s %6u %s\n", u->name, u->n, states[state]);
    }
}

static function *need_method(session *s, module *m, const char *name)
{
  function *f = module_find_method(m, str_of(name ? name : "forward"));

  if (!f)
    session_fail_status(s, RUSH_EARGUMENT, "AttributeError", NULL, "the module has no method '%s'",
                        name ? name : "forward");
  function_ensure(s, f);
  return f;
}

static bool add_state(void *arg, const char *qualified, rush_value *slot, bool is_parameter)
{
  text_buf *out = arg;
  const rush_tensor *t = slot->as.tensor;

  text_printf(out, "  %-40s %-9s %s[", qualified, is_parameter ? "parameter" : "buffer", dtype_name(t->dtype));
  for (int i = 0; i < t->n_dims; i++)
    text_printf(out, "%s%lld", i ? ", " : "", (long long)t->sizes[i]);
  text_puts(out, "]\n");
  return true;
}

static const char *state_word(call_ctx *cx, function *f)
{
  bool eval = function_changes_state(cx, f, false), train = function_changes_state(cx, f, true);

  return eval ? "  (changes state)\n" : train ? "  (changes state when training)\n" : "\n";
}

static void dump_summary(session *s, module *m, text_buf *out)
{
  const class_info *cls = m->object.as.object->type->cls;

  text_printf(out, "%s archive, %s\nmethods:\n",
              m->format == RUSH_FORMAT_EXPORT ? "torch.export" : "TorchScript", m->object.as.object->type->name);
  for (uint32_t i = 0; i < cls->n_methods; i++) {
    text_puts(out, "  ");
    if (!cls->methods[i]->schema->returns[0].type) /* not annotated: the body says */
      function_ensure(s, cls->methods[i]);
    schema_print(out, cls->methods[i]->schema);
    text_puts(out, state_word(s->cx, cls->methods[i]));
  }
  text_puts(out, "state:\n");
  session_check(s, module_walk_state(s->cx, m, add_state, out));
}

static void dump_body(session *s, void *arg)
{
  dump_job *job = arg;
  const code *c;

  switch (job->what) {
  case RUSH_DUMP_CODE:
    for (uint32_t i = 0; i < job->m->program->n_sources; i++) {
      const source *src = job->m->program->sources[i];
      text_printf(job->out, "# %s\n", src->name ? src->name : "?");
      text_add(job->out, src->text, src->len);
      text_putc(job->out, '\n');
    }
    break;
  case RUSH_DUMP_GRAPH:
    ir_print(job->out, need_method(s, job->m, job->method)->graph, false);
    break;
  case RUSH_DUMP_BYTECODE:
    session_check(s, code_of(s->cx, need_method(s, job->m, job->method), &c));
    code_print(job->out, c);
    break;
  case RUSH_DUMP_OPS:
    dump_ops(s, job->m, job->out);
    break;
  case RUSH_DUMP_SUMMARY:
    dump_summary(s, job->m, job->out);
    break;
  }
}

rush_status module_dump(call_ctx *cx, module *m, rush_dump what, const char *method, text_buf *out)
{
  dump_job job = {.m = m, .what = what, .method = method, .out = out};

  return session_run(cx, dump_body, &job);
}
