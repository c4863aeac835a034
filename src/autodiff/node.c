/* autodiff/node.c -- calls of graphs that are differentiated as a whole (node.h).
 *
 * Variants and their gradients are chains that only grow, published atomically: looking one up
 * takes no lock.  All live in a program of their own, whose lock is held while one is made.  Its
 * graphs borrow their types from the program of the code that has the node: retaining them would
 * be a cycle.  A record, which may outlive that code, retains both programs. */
#include "autodiff/node_int.h"

#include "autograd/record.h"
#include "ir/facts.h"
#include "ops/call/lookup.h"
#include "ops/call/registry.h"

static const op_body_runtime *runtime(const diff_node *n)
{
  return context_slot_get(n->ctx, SLOT_PROGRAM);
}

diff_node *diff_node_retain(diff_node *n)
{
  type_store_retain(n->program->borrowed_types);
  program_retain(n->program);
  return n;
}

void diff_node_release(diff_node *n)
{
  type_store *types = n->program->borrowed_types;

  program_release(n->program);
  type_store_release(types);
}

void diff_node_free(diff_node *n)
{
  if (n)
    program_release(n->program);
}

/* -- The variant of a call --------------------------------------------------------------------- */

static bool wants_gradient(rush_value v)
{
  return v.tag == RUSH_TAG_TENSOR && v.as.tensor && tensor_requires_grad(v.as.tensor) &&
         dtype_class_of(v.as.tensor->dtype) >= DTYPE_FLOAT;
}

diff_fact diff_fact_of(rush_value v)
{
  const rush_tensor *t = v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL;

  if (!t)
    return (diff_fact){.is_none = v.tag == RUSH_TAG_NONE || v.tag == RUSH_TAG_TENSOR, .n_dims = -1};
  return (diff_fact){
    .dtype = t->dtype, .n_dims = (int16_t)t->n_dims, .requires = wants_gradient(v)};
}

static bool variant_fits(const diff_variant *v, const rush_value *args, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    const diff_fact f = diff_fact_of(args[i]);

    if (f.dtype != v->facts[i].dtype || f.n_dims != v->facts[i].n_dims ||
        f.requires != v->facts[i].requires || f.is_none != v->facts[i].is_none ||
        (v->facts[i].sizes && f.n_dims > 0 &&
         memcmp(v->facts[i].sizes, args[i].as.tensor->sizes,
                (size_t)f.n_dims * sizeof *v->facts[i].sizes) != 0))
      return false;
  }
  return true;
}

static rush_status find_variant(call_ctx *cx, diff_node *n, const rush_value *args,
                                diff_variant **out)
{
  diff_variant *v = atomic_load_explicit(&n->variants, memory_order_acquire);
  uint32_t k = 0, n_exact = 0;

  for (*out = NULL; v; v = v->next, k++) {
    n_exact += v->is_exact;
    if ((*out && !v->is_exact) || !variant_fits(v, args, n->n_inputs))
      continue;
    *out = v;
    if (v->is_exact)
      return RUSH_OK;
  }
  if (*out || k >= DIFF_MOST_VARIANTS)
    return RUSH_OK;
  return diff_variant_make(cx, n, args, n_exact < DIFF_MOST_EXACT, out);
}

/* -- Calls ------------------------------------------------------------------------------------- */

/* True if a result shares memory with an argument or another result, which no analysis said. */
static bool shares_memory(const diff_node *n, const rush_value *args, const rush_value *results)
{
  rush_tensor *a, *b;

  for (tensor_walk w = {results, n->n_outputs}; (a = tensor_walk_next(&w)) != NULL;) {
    for (tensor_walk x = {args, n->n_inputs}; (b = tensor_walk_next(&x)) != NULL;)
      if (a->st == b->st)
        return true;
    for (tensor_walk x = {results, w.at}; (b = tensor_walk_next(&x)) != NULL;)
      if (a->st == b->st)
        return true;
  }
  return false;
}

static rush_status attach_results(call_ctx *cx, const diff_variant *v, grad_record *r,
                                  rush_value *results)
{
  for (uint32_t i = 0; i < v->node->n_outputs; i++)
    if (v->requires[i] && results[i].tag == RUSH_TAG_TENSOR && results[i].as.tensor)
      TRY(grad_attach_steal(cx, results[i].as.tensor,
                            (grad_edge){grad_record_retain(r), r->results[i].first}));
  return RUSH_OK;
}

/* Run a function of the node's program unrecorded: row[n_results]. */
static rush_status run_unrecorded(call_ctx *cx, const diff_node *n, function *f,
                                  const rush_value *args, rush_value *row, uint32_t n_results)
{
  const call_recorder *recorder = cx->recorder;

  cx->recorder = NULL;
  const rush_status st = runtime(n)->call(cx, f, args, n->n_inputs, row, n_results);
  cx->recorder = recorder;
  return st;
}

static void release_row(rush_value *row, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    value_release(row[i]);
    row[i] = value_none();
  }
}

/* Call f and leave a record; *shared: nothing was recorded, the results are no record's. */
static rush_status call_recorded(call_ctx *cx, diff_variant *v, const rush_value *args,
                                 rush_value *row, bool *shared)
{
  grad_record *r;

  TRY(grad_record_begin(cx, &v->op, &v->saves, args, 0, &r));
  rush_status st = run_unrecorded(cx, v->node, v->f, args, row, v->n_results);
  if (st != RUSH_OK) {
    grad_record_release(r);
    return st;
  }
  *shared = shares_memory(v->node, args, row);
  if (!*shared && !(r->ran = mem_alloc_zero(cx->ctx, v->graph.n_nodes)))
    st = call_nomem(cx);
  if (!*shared && st == RUSH_OK) {
    r->graph = &v->graph;
    diff_node_retain(v->node);
    cx->watch |= CALL_RECORDED;
    st = grad_record_end(cx, r, row, false);
  }
  if (st == RUSH_OK && !*shared)
    st = attach_results(cx, v, r, row);
  grad_record_release(r);
  if (st != RUSH_OK || *shared)
    release_row(row, v->n_results);
  return st;
}

static rush_status call_variant(call_ctx *cx, diff_variant *v, const rush_value *args,
                                rush_value *results, bool *done)
{
  const size_t bytes = v->n_results * sizeof(rush_value);
  rush_value *row = mem_alloc_zero(cx->ctx, bytes);
  bool shared = false;

  if (!row)
    return call_nomem(cx);
  const rush_status st = call_recorded(cx, v, args, row, &shared);
  if (st == RUSH_OK && !shared) {
    memcpy(results, row, v->node->n_outputs * sizeof *row);
    release_row(row + v->node->n_outputs, v->n_results - v->node->n_outputs);
    *done = true;
  }
  mem_free(cx->ctx, row, bytes);
  return st;
}

/* True if the tensors are what their facts say: no numbers, not sparse. */
static bool are_usual(const diff_node *n, const rush_value *args)
{
  bool usual = true;

  for (uint32_t i = 0; i < n->n_inputs && usual; i++)
    usual = args[i].tag != RUSH_TAG_TENSOR || !args[i].as.tensor ||
            ir_facts_describe(args[i].as.tensor);
  return usual;
}

/* True if two arguments are one tensor, or the same result of one record. */
static bool has_twins(const diff_node *n, const rush_value *args)
{
  for (uint32_t i = 1; i < n->n_inputs; i++) {
    const grad_meta *m = wants_gradient(args[i]) ? grad_meta_find(args[i].as.tensor) : NULL;

    for (uint32_t k = 0; k < i && wants_gradient(args[i]); k++) {
      const grad_meta *other = wants_gradient(args[k]) ? grad_meta_find(args[k].as.tensor) : NULL;

      if (wants_gradient(args[k]) &&
          (args[k].as.tensor == args[i].as.tensor ||
           (m && other && m->edge.to && m->edge.to == other->edge.to &&
            m->edge.result == other->edge.result)))
        return true;
    }
  }
  return false;
}

static rush_status call_whole(call_ctx *cx, diff_node *n, const rush_value *args,
                              rush_value *results, bool *done)
{
  bool records = false;
  diff_variant *v = NULL;

  for (uint32_t i = 0; i < n->n_inputs && call_records(cx) && !records; i++)
    records = wants_gradient(args[i]);
  if (!records) {
    *done = true;
    return run_unrecorded(cx, n, n->whole, args, results, n->n_outputs);
  }
  if (!are_usual(n, args) || has_twins(n, args))
    return RUSH_OK;
  TRY(find_variant(cx, n, args, &v));
  return v && v->f ? call_variant(cx, v, args, results, done) : RUSH_OK;
}

rush_status diff_node_call(call_ctx *cx, diff_node *n, const rush_value *args, rush_value *results,
                           bool *done)
{
  rush_error *err = cx->err, own = RUSH_ERROR_INIT;

  *done = false;
  cx->err = &own;
  rush_status st = call_whole(cx, n, args, results, done);
  cx->err = err;
  if (st == RUSH_ELIMIT || st == RUSH_ECANCELLED || st == RUSH_ENOMEM) {
    error_move(err, &own);
    return st;
  }
  rush_error_clear(&own);
  *done &= st == RUSH_OK;
  return RUSH_OK;
}

/* -- Seeing ------------------------------------------------------------------------------------ */

static void describe_fact(text_buf *out, const diff_fact *f)
{
  ir_facts facts = ir_facts_none();

  if (f->n_dims < 0) {
    text_puts(out, f->is_none ? "None" : "any value");
    return;
  }
  facts.dtype = f->dtype;
  facts.requires_grad = f->requires;
  facts.n_dims = (int8_t)(f->n_dims <= IR_FACTS_DIMS ? f->n_dims : -1);
  for (int i = 0; i < facts.n_dims; i++) {
    facts.sizes[i] = f->sizes ? f->sizes[i] : IR_SIZE_UNKNOWN;
    facts.strides[i] = IR_STRIDE_UNKNOWN;
  }
  ir_facts_print(out, &facts);
}

/* Print the numbers of the set flags. */
static void describe_flags(text_buf *out, const bool *flags, uint32_t n)
{
  const char *between = "";

  for (uint32_t i = 0; i < n; i++)
    if (flags[i]) {
      text_printf(out, "%s%u", between, i);
      between = ", ";
    }
}

static void describe_variant(text_buf *out, const diff_variant *v, uint32_t number,
                             void (*print_code)(text_buf *out, const function *f))
{
  text_printf(out, "f of prim::DifferentiableGraph_%u, for ", number);
  for (uint32_t i = 0; i < v->node->n_inputs; i++) {
    text_puts(out, i ? "; " : "");
    describe_fact(out, &v->facts[i]);
  }
  if (!v->f) {
    text_puts(out, ": cannot be differentiated as one\n");
    return;
  }
  text_puts(out, ":\n");
  print_code(out, v->f);
  for (const diff_backward *b = atomic_load_explicit(&v->backwards, memory_order_acquire); b;
       b = b->next) {
    text_puts(out, "df from gradients of results ");
    describe_flags(out, b->defined, v->n_results);
    text_puts(out, " to arguments ");
    describe_flags(out, b->used, v->node->n_inputs);
    text_puts(out, ":\n");
    print_code(out, atomic_load_explicit(&b->formula.function, memory_order_relaxed));
  }
}

void diff_node_describe(text_buf *out, const diff_node *n, uint32_t number,
                        void (*print_code)(text_buf *out, const function *f))
{
  for (const diff_variant *v = atomic_load_explicit(&n->variants, memory_order_acquire); v;
       v = v->next)
    describe_variant(out, v, number, print_code);
}

/* -- The operator ------------------------------------------------------------------------------ */

#define DIFF_OP "rushlight::differentiable_graph"

static rush_status run_op(rush_call *c) { return c->state->run(c, c->state->body); }

static void make_node(session *s, void *arg)
{
  void **io = arg;
  const ir_node *of = io[0];
  ir_graph *g = ir_node_block_graph(s, of);

  session_defer(s, ir_graph_free_deferred, g);
  io[1] = diff_node_new(s, g);
}

static rush_status prepare(context *c, const rush_node *node, void *user, void **state,
                           rush_error *err)
{
  void *io[2] = {(void *)(uintptr_t)node, NULL};
  call_ctx cx;

  (void)user;
  call_ctx_init(&cx, c, err);
  TRY(session_run(&cx, make_node, io));
  *state = io[1];
  return RUSH_OK;
}

static void destroy(void *state, void *user)
{
  (void)user;
  diff_node_free(state);
}

const op *diff_node_op(session *s)
{
  const rush_op_def def = {.struct_bytes = sizeof def,
                           .schema = DIFF_OP "(...) -> ...",
                           .kernel = run_op,
                           .prepare = prepare,
                           .destroy = destroy};
  const op *o = session_op_find(s, STR(DIFF_OP), STR(""));
  rush_error quiet = RUSH_ERROR_INIT;

  if (o)
    return o;
  const rush_status st = op_register(s->cx->ctx, &def, &quiet); /* another thread may be first */
  rush_error_clear(&quiet);
  o = session_op_find(s, STR(DIFF_OP), STR(""));
  if (!o)
    session_check(s, st == RUSH_ENOMEM ? call_nomem(s->cx) : st);
  return o;
}
