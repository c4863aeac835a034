/* show/dump.c -- the content of a program as text: code, graphs, bytecode, operators, signatures.
 * It compiles methods and runs nothing. Operators are collected by visiting every function that
 * methods can reach, each once; a function that does not compile is noted and the walk continues,
 * because `show` must work for programs that cannot run here. */
#include "archive/exported_read.h"
#include "export/text.h"
#include "module/module.h"
#include "show/show.h"
#include "formats/json.h"
#include "ir/alias.h"
#include "passes/passes.h"
#include "run/executor.h"

/* -- Walking all code that methods can reach --------------------------------------------------- */

typedef struct op_use {
  const char *name;
  uint32_t n;
  const op *op; /* NULL: unknown or a prim kind */
  bool unknown;
  bool broken; /* no operator, but a function that does not compile */
} op_use;

typedef struct reach {
  session *s;
  table functions; /* qualified name -> function, each visited once */
  table uses;      /* operator -> op_use */
  bool is_random;
  bool skips_errors; /* continue after functions that do not compile */
} reach;

static void visit_function(reach *r, function *f);

static void count_use(reach *r, const ir_node *n)
{
  const char *name = ir_node_kind_name(n);

  if (n->kind == IR_OP)
    name = n->op->schema->overload[0]
             ? session_printf(r->s, "%s.%s", n->op->schema->name, n->op->schema->overload)
             : n->op->schema->name;
  op_use *u = table_get(&r->uses, str_of(name));
  if (!u) {
    u = session_new(r->s, op_use);
    *u = (op_use){name, 0, n->kind == IR_OP ? n->op : NULL, n->kind == IR_UNKNOWN_OP, false};
    session_table_put(r->s, &r->uses, str_of(name), u);
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
    function *callee = ir_node_callee(n);
    if (callee)
      visit_function(r, callee);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      visit_block(r, n->blocks[i]);
  }
  session_leave(r->s);
}

static void ensure_body(session *s, void *f) { function_ensure(s, f); }

/* True if the function compiles; an error in its text is noted.  A limit leaves the session. */
static bool compiles(reach *r, function *f)
{
  rush_error err = RUSH_ERROR_INIT, *outer = r->s->cx->err;

  r->s->cx->err = &err;
  const rush_status st = session_run(r->s->cx, ensure_body, f);
  r->s->cx->err = outer;
  if (st == RUSH_ELIMIT || st == RUSH_ECANCELLED || st == RUSH_ENOMEM) {
    if (outer)
      error_move(outer, &err);
    session_check(r->s, st);
  }
  rush_error_clear(&err);
  if (st == RUSH_OK)
    return true;
  op_use *u = session_new(r->s, op_use);
  *u = (op_use){.name = f->qualified, .n = 1, .broken = true};
  session_table_put(r->s, &r->uses, str_of(f->qualified), u);
  return false;
}

static void visit_function(reach *r, function *f)
{
  str key = str_of(f->qualified);

  if (table_get(&r->functions, key))
    return;
  session_table_put(r->s, &r->functions, key, f);
  if (r->skips_errors && !compiles(r, f))
    return;
  function_ensure(r->s, f);
  if (f->graph)
    visit_block(r, f->graph->block);
}

static reach *reach_all(session *s, module *m, bool skips_errors)
{
  const class_info *cls = m->object.as.object->type->cls;
  reach *r = session_new(s, reach);

  r->s = s;
  r->skips_errors = skips_errors;
  session_table_init(s, &r->functions);
  session_table_init(s, &r->uses);
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

  job->is_random = reach_all(s, job->m, false)->is_random;
}

bool module_is_random(call_ctx *cx, module *m)
{
  int known = atomic_load(&m->is_random);

  if (known >= 0)
    return known;
  dump_job job = {.m = m};
  /* A program that does not compile draws no numbers: the call will fail. */
  if (session_run(cx, random_body, &job) != RUSH_OK)
    job.is_random = false;
  atomic_store(&m->is_random, job.is_random);
  return job.is_random;
}

/* -- Texts ------------------------------------------------------------------------------------- */

static void dump_ops(session *s, module *m, text_buf *out)
{
  static const char *const states[] = {"does not compile", "unknown", "schema only", "runs"};
  reach *r = reach_all(s, m, true);

  for (int state = 0; state < 4; state++) /* what is missing first */
    for (uint32_t i = 0; i < r->uses.n; i++) {
      const op_use *u = r->uses.entries[i].value;
      int is = !u ? -1 : u->broken ? 0 : u->unknown ? 1 : u->op && !code_runs_op(u->op) ? 2 : 3;
      if (is == state)
        text_printf(out, "%-50s %6u %s\n", u->name, u->n, states[state]);
    }
}

static function *need_method(session *s, module *m, const char *name)
{
  function *f;

  session_check(s, module_method(m, name, &f, s->cx->err));
  function_ensure(s, f);
  return f;
}

static void json_bytecode(session *s, function *f, text_buf *out)
{
  const code *c;

  session_check(s, code_of(s->cx, f, &c));
  code_json(out, c);
}

static void json_asm(session *s, function *f, text_buf *out)
{
  text_buf *scratch = session_text(s);
  const code *c;

  session_check(s, code_of(s->cx, f, &c));
  code_describe_json(out, c, scratch);
}

static bool is_json(rush_dump what)
{
  return what == RUSH_DUMP_BYTECODE_JSON || what == RUSH_DUMP_ASM_JSON;
}

/* Show the named method; without a name forward, or all methods if there is no forward. */
static void each_method(session *s, const dump_job *job,
                        void (*show)(session *s, function *f, text_buf *out))
{
  const class_info *cls = job->m->object.as.object->type->cls;

  if (job->method ||
      (module_find_method(job->m, "forward") && job->what != RUSH_DUMP_SCHEMA)) {
    show(s, need_method(s, job->m, job->method), job->out);
    return;
  }
  for (uint32_t i = 0; i < cls->n_methods; i++) {
    session_enter(s);
    function_ensure(s, cls->methods[i]);
    if (i && job->what != RUSH_DUMP_SCHEMA)
      text_puts(job->out, is_json(job->what) ? ",\n" : "\n");
    if (job->what == RUSH_DUMP_GRAPH)
      text_printf(job->out, "# %s\n", cls->methods[i]->name);
    show(s, cls->methods[i], job->out);
    session_leave(s);
  }
}

static void show_graph(session *s, function *f, text_buf *out)
{
  (void)s;
  ir_print(out, f->graph, false);
}

static void show_bytecode(session *s, function *f, text_buf *out)
{
  const code *c;

  session_check(s, code_of(s->cx, f, &c));
  code_print(out, c);
}

static void show_optimized(session *s, function *f, text_buf *out)
{
  const code *c;

  session_check(s, code_of(s->cx, f, &c));
  ir_print(out, code_graph(c) ? code_graph(c) : f->graph, false);
}

static void free_graph(void *g) { ir_graph_free(g); }

static void show_groups(session *s, function *f, text_buf *out)
{
  function_ensure(s, f);
  session_lock_to_read(s, &f->program->lock);
  ir_graph *g = passes_run(s, f, NULL, false, out);

  session_defer(s, free_graph, g);
  ir_print(out, g, false);
}

static void show_asm(session *s, function *f, text_buf *out)
{
  const code *c;

  session_check(s, code_of(s->cx, f, &c));
  code_describe(out, c);
}

static void show_schema(session *s, function *f, text_buf *out)
{
  (void)s;
  schema_print(out, f->schema);
  text_putc(out, '\n');
}

static void show_method_signature(session *s, module *m, function *f, const char *indent,
                                  text_buf *out)
{
  signature *sig;

  session_check(s, signature_new(s->cx, f, m->exported, &sig));
  const rush_status st = signature_print(s->cx, out, sig, indent);
  signature_free(sig);
  session_check(s, st);
}

/* Show the signature of one method, or of all, each after its name. */
static void show_signatures(session *s, const dump_job *job)
{
  if (job->method) {
    show_method_signature(s, job->m, need_method(s, job->m, job->method), "", job->out);
    return;
  }
  for (uint32_t i = 0; i < module_n_methods(job->m); i++) {
    const char *name = module_method_name(job->m, i);
    text_printf(job->out, "%s:\n", name);
    show_method_signature(s, job->m, need_method(s, job->m, name), "  ", job->out);
  }
}

/* Print {"arg_names": [...], "in": SPEC, "out": SPEC}, or nothing. */
static void show_trees(const exported *e, text_buf *out)
{
  if (!e || !e->in_text)
    return;
  text_puts(out, "{\"arg_names\": [");
  for (uint32_t i = 0; i < e->n_arg_names; i++) {
    text_puts(out, i ? ", " : "");
    json_quote(out, str_of(e->arg_names[i]));
  }
  text_printf(out, "], \"in\": %s, \"out\": %s}", e->in_text, e->out_text);
}

/* Print an exported program in torch.fx's form. */
static void show_fx(session *s, dump_job *job)
{
  exported_program *p = exported_of_module(s, job->m);

  if (job->what == RUSH_DUMP_FX)
    exported_print(s, job->out, p);
  else if (job->what == RUSH_DUMP_EXPORT_IR)
    exported_print_text(s, job->out, p);
  else if (job->what == RUSH_DUMP_FX_GRAPH)
    fx_print_graph(s, job->out, p->graph);
  else
    fx_print_code(s, job->out, p->graph, &(fx_code_options){.verbose = false});
  text_puts(job->out, job->what == RUSH_DUMP_FX_GRAPH ? "\n" : "");
}

/* long: a switch over the kinds. */
static void dump_body(session *s, void *arg)
{
  dump_job *job = arg;

  switch (job->what) {
  case RUSH_DUMP_CODE:
    show_code(s, job->m, job->method, job->out);
    break;
  case RUSH_DUMP_GRAPH:
    each_method(s, job, show_graph);
    break;
  case RUSH_DUMP_BYTECODE:
    each_method(s, job, show_bytecode);
    break;
  case RUSH_DUMP_OPTIMIZED:
    each_method(s, job, show_optimized);
    break;
  case RUSH_DUMP_PHASES:
    each_method(s, job, show_phases);
    break;
  case RUSH_DUMP_GROUPS:
    each_method(s, job, show_groups);
    break;
  case RUSH_DUMP_ASM:
    each_method(s, job, show_asm);
    break;
  case RUSH_DUMP_BYTECODE_JSON:
  case RUSH_DUMP_ASM_JSON:
    text_puts(job->out, "{\"functions\":[");
    each_method(s, job, job->what == RUSH_DUMP_ASM_JSON ? json_asm : json_bytecode);
    text_puts(job->out, "]}\n");
    break;
  case RUSH_DUMP_SCHEMA:
    each_method(s, job, show_schema);
    break;
  case RUSH_DUMP_DOT: {
    const function *f = need_method(s, job->m, job->method);
    show_dot(s, f->name, f->graph, job->out);
    break;
  }
  case RUSH_DUMP_DIGEST:
    show_digest(s, job->m, job->out);
    break;
  case RUSH_DUMP_JSON:
    show_json(s, job->m, job->method, job->out);
    break;
  case RUSH_DUMP_FAULTS:
    show_faults(s, job->m, job->out);
    break;
  case RUSH_DUMP_OPS:
    dump_ops(s, job->m, job->out);
    break;
  case RUSH_DUMP_SIGNATURE:
    show_signatures(s, job);
    break;
  case RUSH_DUMP_TREES:
    show_trees(job->m->exported, job->out);
    break;
  case RUSH_DUMP_PLANS:
    executor_describe(s, job->out, need_method(s, job->m, job->method), job->m->object.as.object);
    break;
  case RUSH_DUMP_FX:
  case RUSH_DUMP_FX_GRAPH:
  case RUSH_DUMP_FX_CODE:
  case RUSH_DUMP_EXPORT_IR:
    show_fx(s, job);
    break;
  case RUSH_DUMP_SUMMARY:
    show_summary(s, job->m, job->out);
    break;
  }
}

rush_status module_dump(call_ctx *cx, module *m, rush_dump what, const char *method, text_buf *out)
{
  dump_job job = {.m = m, .what = what, .method = method, .out = out};

  lock_hold hold;

  TRY(lock_take(cx, m->lock, LOCK_SHARED, &hold));
  rush_status st = module_place(cx, m, session_run(cx, dump_body, &job));
  lock_drop(&hold);
  return st;
}
