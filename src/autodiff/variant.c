/* autodiff/variant.c -- makes f for arguments of some kinds, and df for some gradients (node.h).
 *
 * The graph gets the arguments' dtypes and ranks, which decide what requires gradients. f is made
 * for all gradients that its results could get; each df is made from the same graph with those that
 * there are, and reads of f's captures what it needs. */
#include "autodiff/autodiff_int.h"
#include "autodiff/node_int.h"

#include "ir/build.h"
#include "ir/facts.h"
#include "passes/passes.h"

typedef struct variant_job {
  diff_node *node;
  const rush_value *args;
  diff_variant *v;
  diff_backward *b;
  bool is_exact;
  bool fails; /* make a variant that says so */
} variant_job;

static void *keep(session *s, const diff_node *n, size_t bytes)
{
  return session_alloc_in(s, &n->program->mem, bytes);
}

/* -- The node ---------------------------------------------------------------------------------- */

static void release_program(void *p) { program_release(p); }

/* Make a function of the node's program from a graph, which is copied. */
static function *function_of(session *s, const diff_node *n, const char *name, const ir_graph *g)
{
  function *f = build_function(s, n->program, name, g);

  f->is_builtin = true;
  return f;
}

diff_node *diff_node_new(session *s, const ir_graph *g)
{
  program *p = program_new(s, s->cx->ctx);

  session_defer(s, release_program, p);
  diff_node *n = session_alloc_in(s, &p->mem, sizeof *n);
  n->ctx = s->cx->ctx;
  n->program = p;
  n->n_inputs = ir_block_n_inputs(g->block);
  n->n_outputs = ir_block_n_outputs(g->block);
  p->borrowed_types = g->types;
  n->whole = function_of(s, n, "graph", g);
  n->whole->graph->is_differentiated = true;
  session_keep(s, p);
  return n;
}

/* Return a copy of the graph with one output each. */
static ir_graph *graph_of(session *s, const diff_node *n)
{
  ir_graph *g = ir_graph_twin(s, n->whole->graph);
  ir_block *b = g->block;

  session_defer(s, ir_graph_free_deferred, g);
  if (n->n_outputs != 1) {
    const ir_node *pack = ir_block_output(b, 0)->node;

    ir_block_remove_output(b, 0);
    for (uint32_t i = 0; i < n->n_outputs; i++)
      ir_block_add_output(s, b, ir_node_input(pack, i));
    ir_node_destroy((ir_node *)(uintptr_t)pack);
  }
  return g;
}

/* -- f ----------------------------------------------------------------------------------------- */

/* Give an input the type of an argument. */
static void set_type(session *s, ir_graph *g, ir_value *v, rush_value arg, diff_fact of)
{
  if (of.is_none) {
    if (v->type->kind == TYPE_OPTIONAL)
      ir_value_replace_all_uses(
        v, diff_constant(s, ir_block_first(g->block), value_none(), type_simple(TYPE_NONE)));
  } else if (arg.tag == RUSH_TAG_TENSOR) {
    ir_facts facts = ir_facts_of_tensor(arg.as.tensor);

    facts.requires_grad = of.requires;
    for (int i = 0; i < facts.n_dims && of.sizes; i++)
      facts.strides[i] = IR_STRIDE_UNKNOWN;
    facts.contiguous = of.sizes ? -1 : facts.contiguous;
    v->type = ir_facts_type(s, g->types, &facts);
  }
}

static void set_types(session *s, ir_graph *g, const diff_variant *v, const rush_value *args)
{
  for (uint32_t i = 0; i < v->node->n_inputs; i++)
    set_type(s, g, ir_block_input(g->block, i), args[i], v->facts[i]);
  pass_propagate_shapes_on_graph(s, g);
}

static schema *schema_of(session *s, const diff_node *n, const ir_graph *f)
{
  schema *sc = keep(s, n, sizeof *sc);

  sc->name = "prim::DifferentiableGraph";
  sc->overload = "";
  sc->n_args = n->n_inputs;
  sc->n_returns = ir_block_n_outputs(f->block);
  sc->args = keep(s, n, (sc->n_args + 1) * sizeof *sc->args);
  sc->returns = keep(s, n, (sc->n_returns + 1) * sizeof *sc->returns);
  for (uint32_t i = 0; i < sc->n_args; i++)
    sc->args[i] = (schema_arg){.name = "", .type = ir_block_input(f->block, i)->type};
  for (uint32_t i = 0; i < sc->n_returns; i++)
    sc->returns[i] = (schema_arg){.name = "", .type = ir_block_output(f->block, i)->type};
  return sc;
}

static void put_takes(op_gradient *g, gradient_from from, const diff_indices *of)
{
  for (uint32_t i = 0; i < of->n; i++)
    g->take[g->n_takes++] = (gradient_take){(uint16_t)from, (uint16_t)of->at[i]};
}

/* What records save, as a formula. */
static void set_saves(session *s, diff_variant *v, const graph_gradient *made)
{
  const diff_node *n = v->node;
  op_gradient *g = keep(s, n, sizeof *g);

  g->inputs = g->takes = g->text = "";
  g->input = keep(s, n, (n->n_inputs + 1) * sizeof *g->input);
  g->take = keep(s, n, (made->captured_inputs.n + made->captured_outputs.n + 1) * sizeof *g->take);
  put_takes(g, GRADIENT_ARG, &made->captured_inputs);
  put_takes(g, GRADIENT_RESULT, &made->captured_outputs);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (v->facts[i].requires)
      g->input[g->n_inputs++] = (uint16_t)i;
  v->saves = (op_gradients){1, g};
}

static const char *name_of(session *s, const diff_variant *v, const char *what)
{
  (void)v;
  return session_printf(s, "differentiable_graph.%s", what);
}

/* Note what is captured, for later gradients. */
static void set_captured(session *s, diff_variant *v, const diff *d)
{
  const graph_gradient *made = d->out;
  const uint32_t n = v->n_results - v->node->n_outputs;

  v->n_values = d->n_values;
  v->available = keep(s, v->node, d->n_values);
  v->captured = keep(s, v->node, (n + 1) * sizeof *v->captured);
  for (uint32_t i = 0; i < n; i++) {
    v->captured[i] = made->captured[i];
    v->available[made->captured[i] / 2] |=
      made->captured[i] % 2 ? CAPTURE_SIZES : CAPTURE_VALUE;
  }
  for (uint32_t i = 0; i < made->captured_inputs.n; i++)
    v->available[made->captured_inputs.at[i] + 1] |= CAPTURE_VALUE;
  for (uint32_t k = 1; k < d->n_values; k++)
    for (uint32_t i = 0; i < made->captured_outputs.n; i++)
      if (made->captured_outputs.at[i] < v->node->n_outputs &&
          d->values[k].in_f == ir_block_output(d->f->block, made->captured_outputs.at[i]))
        v->available[k] |= CAPTURE_VALUE;
}

static uint32_t n_nodes(const ir_graph *g)
{
  uint32_t n = 0;

  for (const ir_node *m = ir_block_first(g->block); m != g->block->ret; m = m->next)
    n++;
  return n;
}

static void differentiate_f(session *s, diff_variant *v, const rush_value *args)
{
  const diff_node *n = v->node;
  bool *defined = session_array(s, bool, n->n_outputs + 1),
       *needed = session_array(s, bool, n->n_inputs + 1), *vjps;
  ir_graph *g = graph_of(s, n);
  graph_gradient made;
  diff d = {.s = s,
            .o = {.defined = defined, .needed = needed, .is_separate = true, .is_for_all = true,
                  .is_example = !v->is_exact, .is_strict = true},
            .out = &made};

  set_types(s, g, v, args);
  v->graph.n_nodes = n_nodes(g);
  d.saves = keep(s, n, v->graph.n_nodes + 1);
  v->graph.saves = d.saves;
  diff_check(s, g);
  memset(defined, true, n->n_outputs);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    needed[i] = v->facts[i].requires;
  diff_rounds(&d, g, &vjps);
  v->n_results = ir_block_n_outputs(made.f->block);
  if (n->n_inputs > UINT16_MAX || v->n_results > UINT16_MAX)
    session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL, "too many values");
  v->requires = keep(s, n, v->n_results + 1);
  for (uint32_t k = 1; k < d.n_values; k++)
    for (uint32_t i = 0; i < v->n_results; i++)
      if (ir_block_output(made.f->block, i) == d.values[k].in_f)
        v->requires[i] = d.values[k].requires;
  set_saves(s, v, &made);
  set_captured(s, v, &d);
  v->op = (op){.schema = schema_of(s, n, made.f), .ctx = n->ctx};
  function *typed = function_of(s, n, name_of(s, v, "typed"), g);
  pass_erase_shape_information(s, made.f);
  function *f = function_of(s, n, name_of(s, v, "f"), made.f);
  v->typed = typed->graph;
  v->f = f;
}

static rush_status find_formula(call_ctx *cx, grad_graph *graph, const bool *defined,
                                const bool *used, const bool *so_far, const op_gradient **out,
                                const bool **nodes);

static void release_node(grad_graph *graph)
{
  diff_node_release(((diff_variant *)(void *)graph)->node);
}

static diff_fact fact_of(session *s, const diff_node *n, rush_value arg, bool is_exact)
{
  diff_fact f = diff_fact_of(arg);
  int64_t *sizes;

  if (!is_exact || f.n_dims < 0)
    return f;
  f.sizes = sizes = keep(s, n, ((size_t)f.n_dims + 1) * sizeof *sizes);
  memcpy(sizes, arg.as.tensor->sizes, (size_t)f.n_dims * sizeof *sizes);
  return f;
}

static void make_variant(session *s, void *arg)
{
  variant_job *job = arg;
  diff_node *n = job->node;

  session_lock(s, &n->program->lock);
  diff_variant *v = keep(s, n, sizeof *v);
  v->graph = (grad_graph){.formula = find_formula, .release = release_node};
  v->node = n;
  v->facts = keep(s, n, (n->n_inputs + 1) * sizeof *v->facts);
  v->is_exact = job->is_exact;
  for (uint32_t i = 0; i < n->n_inputs; i++)
    v->facts[i] = fact_of(s, n, job->args[i], job->is_exact);
  if (!job->fails)
    differentiate_f(s, v, job->args);
  v->next = atomic_load_explicit(&n->variants, memory_order_relaxed);
  atomic_store_explicit(&n->variants, v, memory_order_release);
  job->v = v;
}

rush_status diff_variant_make(call_ctx *cx, diff_node *n, const rush_value *args, bool is_exact,
                              diff_variant **out)
{
  variant_job job = {.node = n, .args = args, .is_exact = is_exact};
  rush_error *err = cx->err, own = RUSH_ERROR_INIT;

  cx->err = &own;
  rush_status st = session_run(cx, make_variant, &job);
  cx->err = err;
  if (st == RUSH_ELIMIT || st == RUSH_ECANCELLED || st == RUSH_ENOMEM) {
    if (err)
      *err = own;
    else
      rush_error_clear(&own);
    return st;
  }
  rush_error_clear(&own);
  if (st != RUSH_OK) {
    job.fails = true;
    TRY(session_run(cx, make_variant, &job));
  }
  *out = job.v;
  return RUSH_OK;
}

/* -- df ---------------------------------------------------------------------------------------- */

/* Return the output of the variant's f that is this one of another round's. */
static uint32_t result_of(session *s, const diff_variant *v, const graph_gradient *made,
                          uint32_t at)
{
  const uint32_t n = v->node->n_outputs;

  if (at < n)
    return at;
  for (uint32_t i = 0; i < v->n_results - n; i++)
    if (v->captured[i] == made->captured[at - n])
      return n + i;
  session_fail_status(s, RUSH_EINTERNAL, NULL, NULL, "a gradient reads what was not captured");
}

static void set_formula(session *s, const diff_variant *v, const graph_gradient *made,
                        const diff_backward *of, op_gradient *g)
{
  const uint32_t n_takes = made->input_vjps.n + v->node->n_inputs + made->captured_inputs.n +
                           made->captured_outputs.n;

  for (uint32_t i = 0; i < made->input_vjps.n; i++)
    made->input_vjps.at[i] = result_of(s, v, made, made->input_vjps.at[i]);
  for (uint32_t i = 0; i < made->captured_outputs.n; i++)
    made->captured_outputs.at[i] = result_of(s, v, made, made->captured_outputs.at[i]);
  g->inputs = g->takes = g->text = "";
  g->take = keep(s, v->node, (n_takes + 1) * sizeof *g->take);
  put_takes(g, GRADIENT_OF_RESULT, &made->input_vjps);
  g->is_total = of->so_far != NULL;
  for (uint32_t i = 0; i < v->node->n_inputs && g->is_total; i++)
    if (of->so_far[i])
      g->take[g->n_takes++] = (gradient_take){GRADIENT_SO_FAR, (uint16_t)i};
  put_takes(g, GRADIENT_ARG, &made->captured_inputs);
  put_takes(g, GRADIENT_RESULT, &made->captured_outputs);
  g->input = keep(s, v->node, (made->output_vjps.n + 1) * sizeof *g->input);
  for (uint32_t i = 0; i < made->output_vjps.n; i++)
    g->input[g->n_inputs++] = (uint16_t)made->output_vjps.at[i];
}

/* Which values get gradients besides g's outputs: captured ones. */
static bool *captured_vjps(session *s, const diff_variant *v, const bool *defined)
{
  bool *vjps = session_array(s, bool, v->n_values);
  const uint32_t n = v->node->n_outputs;

  for (uint32_t i = n; i < v->n_results; i++)
    if (defined[i])
      vjps[v->captured[i - n] / 2] = true;
  return vjps;
}

static void make_backward(session *s, void *arg)
{
  variant_job *job = arg;
  diff_variant *v = job->v;
  graph_gradient made;

  session_lock(s, &v->node->program->lock);
  diff d = {.s = s,
            .o = {.defined = job->b->defined,
                  .needed = job->b->used,
                  .is_separate = !job->b->so_far,
                  .so_far = job->b->so_far,
                  .is_example = !v->is_exact,
                  .is_strict = true},
            .out = &made,
            .vjps = captured_vjps(s, v, job->b->defined),
            .available = v->available};
  ir_graph *g = ir_graph_twin(s, v->typed);

  session_defer(s, ir_graph_free_deferred, g);
  if (v->node->n_outputs != 1) {
    const ir_node *pack = ir_block_output(g->block, 0)->node;

    ir_block_remove_output(g->block, 0);
    for (uint32_t i = 0; i < v->node->n_outputs; i++)
      ir_block_add_output(s, g->block, ir_node_input(pack, i));
    ir_node_destroy((ir_node *)(uintptr_t)pack);
  }
  d.ran = keep(s, v->node, v->graph.n_nodes + 1);
  diff_round(&d, g);
  diff_backward *b = keep(s, v->node, sizeof *b);
  b->ran = d.ran;
  set_formula(s, v, &made, job->b, &b->formula);
  b->defined = keep(s, v->node, v->n_results + 1);
  b->used = keep(s, v->node, v->node->n_inputs + 1);
  memcpy(b->defined, job->b->defined, v->n_results);
  memcpy(b->used, job->b->used, v->node->n_inputs);
  if (job->b->so_far) {
    b->so_far = keep(s, v->node, v->node->n_inputs + 1);
    memcpy(b->so_far, job->b->so_far, v->node->n_inputs);
  }
  pass_erase_shape_information(s, made.df);
  function *df = function_of(s, v->node, name_of(s, v, "df"), made.df);
  atomic_store_explicit(&b->formula.function, df, memory_order_relaxed);
  b->next = atomic_load_explicit(&v->backwards, memory_order_relaxed);
  atomic_store_explicit(&v->backwards, b, memory_order_release);
  job->b = b;
}

static bool same_flags(const bool *a, const bool *b, uint32_t n)
{
  return a && b ? memcmp(a, b, n) == 0 : a == b;
}

static rush_status find_formula(call_ctx *cx, grad_graph *graph, const bool *defined,
                                const bool *used, const bool *so_far, const op_gradient **out,
                                const bool **nodes)
{
  diff_variant *v = (diff_variant *)(void *)graph;
  diff_backward like = {.defined = (bool *)(uintptr_t)defined, .used = (bool *)(uintptr_t)used,
                        .so_far = (bool *)(uintptr_t)so_far};
  variant_job job = {.v = v, .b = &like};
  const diff_backward *b = atomic_load_explicit(&v->backwards, memory_order_acquire);

  while (b && (memcmp(b->defined, defined, v->n_results) != 0 ||
               memcmp(b->used, used, v->node->n_inputs) != 0 ||
               !same_flags(b->so_far, so_far, v->node->n_inputs)))
    b = b->next;
  if (!b) {
    TRY(session_run(cx, make_backward, &job));
    b = job.b;
  }
  *out = &b->formula;
  *nodes = b->ran;
  return RUSH_OK;
}
