/* api/ir_graph.c -- graphs as data: making, copying, reading, printing, checking and running them,
 * and the insertion helpers. ir_edit is the border that all files of this API use: it opens a
 * session, takes the lock of the program that owns the graph's types, and turns the escape into a
 * status. Before a graph is handed to a pass or run, operators are resolved and the verifier runs,
 * because hosts may leave it in any state. */
#include "api/ir_int.h"
#include "show/show.h"
#include "base/lock.h"
#include "ir/build.h"
#include "passes/passes.h"
#include "run/executor.h"
#include "script/emit/insert.h"

#include <stdio.h>

/* -- Borders ----------------------------------------------------------------------------------- */

typedef struct bordered {
  edit_fn *fn;
  edit *e;
} bordered;

static void body(session *s, void *arg)
{
  bordered *b = arg;
  program *p = b->e->g ? program_of_types(b->e->g->types) : NULL;

  if (p) {
    session_lock(s, &p->lock);
  }
  b->fn(s, b->e);
}

rush_status ir_edit_in(context *c, edit_fn *fn, edit *e, rush_error *err)
{
  bordered b = {fn, e};
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  return session_run(&cx, body, &b);
}

rush_status ir_edit(ir_graph *g, edit_fn *fn, edit *e, rush_error *err)
{
  e->g = g;
  return ir_edit_in(g->ctx, fn, e, err);
}

typedef struct text_job {
  edit e; /* first: what the session's body gets */
  edit *from;
  ir_text_fn *fn;
  text_buf out;
} text_job;

static void write_text(session *s, edit *e)
{
  text_job *j = (text_job *)(void *)e;

  j->fn(s, j->from, &j->out);
}

rush_status ir_text(ir_graph *g, ir_text_fn *fn, edit *e, char **out, rush_error *err)
{
  text_job j = {.from = e, .fn = fn};
  call_ctx cx;

  TRY(api_begin(&cx, g->ctx, err));
  text_init(&j.out, cx.ctx);
  return api_text(&cx, ir_edit(g, write_text, &j.e, err), &j.out, out);
}

rush_status ir_misuse(rush_error *err, const char *fmt, ...)
{
  va_list ap;

  va_start(ap, fmt);
  rush_status st = error_set_va(err, RUSH_EARGUMENT, "RuntimeError", fmt, ap);
  va_end(ap);
  return st;
}

rush_status ir_need_node(const ir_node *n, rush_error *err)
{
  return n && !n->destroyed ? RUSH_OK : ir_misuse(err, "the node was destroyed");
}

bool ir_value_is_live(const ir_value *v)
{
  return v && !v->node->destroyed && v->index < v->node->n_outputs &&
         v->node->outputs[v->index] == v;
}

rush_status ir_need_value(const ir_graph *g, const ir_value *v, rush_error *err)
{
  if (!ir_value_is_live(v))
    return ir_misuse(err, "the value is gone: its node was destroyed, or it was erased");
  return v->node->graph == g ? RUSH_OK : ir_misuse(err, "the value belongs to another graph");
}

/* -- Making ------------------------------------------------------------------------------------ */

static void release_store(void *ts) { type_store_release(ts); }

/* Make a type store for the graph alone: a program without functions. */
static type_store *fresh_types(session *s)
{
  program *p = program_new(s, s->cx->ctx);

  session_defer(s, release_store, &p->types);
  return &p->types;
}

static void create(session *s, edit *e) { e->made = ir_graph_new(s, fresh_types(s)); }

static rush_status make_graph(context *c, edit_fn *fn, edit *e, rush_graph **out, rush_error *err)
{
  rush_status st = ir_edit_in(c, fn, e, err);

  if (st == RUSH_OK)
    *out = graph_out(e->made);
  return st;
}

rush_status api_graph_create(rush_context *c, rush_graph **out, rush_error *err)
{
  edit e = {0};

  return make_graph(c, create, &e, out, err);
}

static void parse(session *s, edit *e)
{
  e->made = ir_parse_with(s, e->g ? e->g->types : fresh_types(s), e->text,
                          e->flag ? IR_TENSORS_ZERO : IR_TENSORS_REFUSED);
}

rush_status api_graph_parse(rush_context *c, const char *text, bool tensor_constants,
                            const rush_graph *scope, rush_graph **out, rush_error *err)
{
  edit e = {.text = text, .g = graph_in(scope), .flag = tensor_constants};

  return make_graph(c, parse, &e, out, err);
}

static void twin(session *s, edit *e) { e->made = ir_graph_twin(s, e->g); }

static rush_status copy_function(call_ctx *cx, function *f, rush_graph **out)
{
  edit e = {0};

  TRY(function_prepare(cx, f));
  e.g = f->graph;
  return e.g ? make_graph(e.g->ctx, twin, &e, out, cx->err)
             : ir_misuse(cx->err, "%s has no graph", f->qualified);
}

rush_status api_graph_of_method(rush_module *m, const char *method, rush_graph **out,
                                rush_error *err)
{
  call_ctx cx;
  function *f;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(module_method(m, method, &f, err));
  return module_place(&cx, m, copy_function(&cx, f, out));
}

rush_status api_graph_of_value(rush_context *c, rush_value v, const char *method, rush_graph **out,
                               rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  if (v.tag != RUSH_TAG_OBJECT)
    return error_set(err, RUSH_EARGUMENT, "graphs are of methods of objects");
  function *f = class_find_method(v.as.object->type, method);
  if (!f)
    return error_set_type(err, RUSH_EARGUMENT, "AttributeError", "the object has no method '%s'",
                          method);
  return copy_function(&cx, f, out);
}

rush_status api_graph_of_function(rush_function *rf, rush_graph **out, rush_error *err)
{
  function *f = (function *)(void *)rf;
  call_ctx cx;

  TRY(api_begin(&cx, f->program->ctx, err));
  return copy_function(&cx, f, out);
}

typedef struct last_job {
  function *f;
  const rush_object *self;
  ir_graph *made;
} last_job;

static void copy_last(session *s, void *arg)
{
  last_job *job = arg;

  job->made = executor_last_graph(s, job->f, job->self);
}

rush_status api_graph_of_last_call(rush_module *m, const char *method, rush_graph **out,
                                   rush_error *err)
{
  last_job job = {.self = m->object.as.object};
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(module_method(m, method, &job.f, err));
  TRY(module_place(&cx, m, session_run(&cx, copy_last, &job)));
  *out = graph_out(job.made);
  return RUSH_OK;
}

rush_status api_graph_of_last_function_call(rush_function *rf, rush_graph **out, rush_error *err)
{
  last_job job = {.f = (function *)(void *)rf};
  call_ctx cx;

  TRY(api_begin(&cx, job.f->program->ctx, err));
  TRY(session_run(&cx, copy_last, &job));
  *out = graph_out(job.made);
  return RUSH_OK;
}

rush_status api_graph_copy(const rush_graph *g, rush_graph **out, rush_error *err)
{
  edit e = {.g = graph_in(g)};

  return make_graph(e.g->ctx, twin, &e, out, err);
}

void api_graph_release(rush_graph *g) { ir_graph_free(graph_in(g)); }

/* -- Texts ------------------------------------------------------------------------------------- */

static void print_graph(session *s, edit *e, text_buf *out)
{
  (void)s;
  ir_print(out, graph_in(graph_out(e->g)), e->flag);
}

rush_status api_graph_text(const rush_graph *g, bool ranges, char **out, rush_error *err)
{
  edit e = {.g = graph_in(g), .flag = ranges};

  return ir_text(e.g, print_graph, &e, out, err);
}

static void dot(session *s, edit *e, text_buf *out) { show_dot(s, e->text, e->g, out); }

rush_status api_graph_dot(const rush_graph *g, const char *name, char **out, rush_error *err)
{
  edit e = {.g = graph_in(g), .text = name ? name : "graph"};

  return ir_text(e.g, dot, &e, out, err);
}

/* -- The whole --------------------------------------------------------------------------------- */

static void lint(session *s, edit *e)
{
  ir_graph_resolve(s, e->g);
  ir_check(s, e->g, NULL);
}

rush_status api_graph_lint(rush_graph *g, rush_error *err)
{
  edit e = {0};

  return ir_edit(graph_in(g), lint, &e, err);
}

static void run_pass(session *s, edit *e)
{
  lint(s, e);
  pass_run_by_name(s, e->g, e->text);
}

rush_status api_graph_run_pass(rush_graph *g, const char *name, rush_error *err)
{
  edit e = {.text = name};

  return ir_edit(graph_in(g), run_pass, &e, err);
}

typedef struct call_job {
  edit e;
  program *p;
  function *f;
} call_job;

static void release_program(void *p) { program_release(p); }

static void build(session *s, edit *e)
{
  call_job *j = (call_job *)(void *)e;

  lint(s, e);
  program *p = program_new(s, s->cx->ctx);
  session_defer(s, release_program, p);
  j->f = build_function(s, p, "graph", e->g);
  j->p = session_keep(s, p);
}

rush_status api_graph_call(rush_graph *g, const rush_value *args, size_t n_args, rush_value *result,
                           rush_error *err)
{
  call_job j = {.p = NULL};
  call_ctx cx;

  TRY(ir_edit(graph_in(g), build, &j.e, err));
  rush_status st = api_begin(&cx, graph_in(g)->ctx, err);

  if (st == RUSH_OK)
    st = function_call_bound(&cx, j.f, NULL, args, (uint32_t)n_args, NULL, 0, result);
  program_release(j.p);
  return st;
}

/* -- Inserting --------------------------------------------------------------------------------- */

static ir_node *insert_point(const ir_graph *g)
{
  return g->insert_at ? g->insert_at : g->block->ret;
}

const rush_node *api_graph_insert_point(const rush_graph *g)
{
  return node_out(insert_point(graph_in(g)));
}

rush_status api_graph_set_insert_point(rush_graph *g, const rush_node *before, rush_error *err)
{
  ir_node *n = node_in(before);

  TRY(ir_need_node(n, err));
  if (n->graph != graph_in(g) || !n->block || n->kind == IR_PARAM)
    return ir_misuse(err, "nodes go before a node that is in a block of this graph");
  graph_in(g)->insert_at = n;
  return RUSH_OK;
}

static void insert_constant(session *s, edit *e)
{
  ir_node *n = build_constant(s, e->g, e->value, e->t);

  ir_node_insert_before(n, insert_point(e->g));
  e->v = n->outputs[0];
}

rush_status api_graph_insert_constant(rush_graph *g, rush_value v, const rush_type *t,
                                      const rush_graph_value **out, rush_error *err)
{
  edit e = {.value = v, .t = type_in(t)};
  rush_status st = ir_edit(graph_in(g), insert_constant, &e, err);

  if (st == RUSH_OK)
    *out = value_out(e.v);
  return st;
}

rush_status api_graph_insert_node(rush_graph *g, const rush_node *n, rush_error *err)
{
  return api_node_insert(n, node_out(insert_point(graph_in(g))), false, err);
}

typedef struct insert_job {
  edit e;
  const rush_graph_value *const *values;
  const rush_value *constants;
  const char *const *names;
  uint32_t n_args, n_named;
} insert_job;

static void insert(session *s, edit *e)
{
  const insert_job *j = (const insert_job *)(const void *)e;
  ir_value **in = session_array(s, ir_value *, j->n_args);
  ir_node *at = insert_point(e->g);

  for (uint32_t i = 0; i < j->n_args; i++) {
    in[i] = value_in(j->values[i]);
    if (!in[i]) {
      ir_node *n = build_constant(s, e->g, j->constants[i], NULL);

      ir_node_insert_before(n, at);
      in[i] = n->outputs[0];
    }
  }
  e->v = script_insert(s, e->g, at, e->text, in, j->n_args, j->names, j->n_named);
}

rush_status api_graph_insert(rush_graph *g, const char *op, const rush_graph_value *const *values,
                             const rush_value *constants, size_t n_args, const char *const *names,
                             size_t n_named, const rush_graph_value **out, rush_error *err)
{
  ir_graph *in = graph_in(g);
  insert_job j = {.e = {.text = op}, .values = values, .constants = constants, .names = names,
                  .n_args = (uint32_t)n_args, .n_named = (uint32_t)n_named};
  ir_node *before = insert_point(in)->prev;

  if (n_args > 100000 || n_named > n_args)
    return ir_misuse(err, "%zu arguments, %zu of them with names", n_args, n_named);
  for (size_t i = 0; i < n_args; i++)
    if (values[i])
      TRY(ir_need_value(in, value_in(values[i]), err));
  rush_status st = ir_edit(in, insert, &j.e, err);

  if (st == RUSH_OK) {
    *out = value_out(j.e.v);
    return st;
  }
  while (insert_point(in)->prev != before) /* constants of a call that does not fit */
    ir_node_destroy(insert_point(in)->prev);
  return st;
}

typedef struct inline_job {
  edit e;
  const ir_graph *from;
  const rush_graph_value *const *inputs;
  size_t n_inputs;
  const rush_graph_value **outputs;
} inline_job;

static void insert_graph(session *s, edit *e)
{
  const inline_job *j = (const inline_job *)(const void *)e;
  uint32_t n = ir_block_n_outputs(j->from->block);
  ir_value **in = session_array(s, ir_value *, j->n_inputs),
           **out = session_array(s, ir_value *, n);

  for (size_t i = 0; i < j->n_inputs; i++)
    in[i] = value_in(j->inputs[i]);
  ir_graph_keep_types_of(s, e->g, j->from);
  ir_block_inline(s, j->from->block, insert_point(e->g), in, out);
  for (uint32_t i = 0; i < n; i++)
    j->outputs[i] = value_out(out[i]);
}

rush_status api_graph_insert_graph(rush_graph *g, const rush_graph *from,
                                   const rush_graph_value *const *inputs, size_t n_inputs,
                                   const rush_graph_value **outputs, rush_error *err)
{
  inline_job j = {
    .from = graph_in(from), .inputs = inputs, .n_inputs = n_inputs, .outputs = outputs};

  if (n_inputs != ir_block_n_inputs(j.from->block) || g == from)
    return ir_misuse(err, "another graph with %zu inputs is wanted; this one has %u", n_inputs,
                     ir_block_n_inputs(j.from->block));
  for (size_t i = 0; i < n_inputs; i++)
    TRY(ir_need_value(graph_in(g), value_in(inputs[i]), err));
  return ir_edit(graph_in(g), insert_graph, &j.e, err);
}

rush_graph *api_pass_graph(const rush_pass *pass) { return graph_out(pass->graph); }

/* -- Blocks ------------------------------------------------------------------------------------ */

const rush_block *api_graph_block(const rush_graph *g) { return block_out(graph_in(g)->block); }
rush_graph *api_block_graph(const rush_block *b) { return graph_out(block_in(b)->graph); }
const rush_node *api_block_owner(const rush_block *b) { return node_out(block_in(b)->owner); }
const rush_node *api_block_param(const rush_block *b) { return node_out(block_in(b)->param); }
const rush_node *api_block_return(const rush_block *b) { return node_out(block_in(b)->ret); }

const rush_node *api_block_last(const rush_block *b)
{
  const ir_node *n = ir_block_last(block_in(b));

  return n == block_in(b)->ret ? NULL : node_out(n);
}

const rush_node *api_block_find(const rush_block *b, const char *kind, bool nested,
                                const rush_node *after)
{
  return node_out(ir_block_find(block_in(b), kind, nested, node_in(after)));
}
