/* passes/propagate.c -- refines tensor types with what follows from the types of inputs and from
 * constants.
 *
 * Shapes: by the operator's shape rule (ops/call/shape.h), applied to facts instead of tensors:
 * over numbers if all is known, otherwise over symbols, once for each combination of answers to
 * what unknown sizes leave open; the result has the facts that all combinations agree on.  A result
 * without a rule, of unknown rank or dtype, is Tensor.  Gradients: a result requires one
 * if an input does and the operator has a gradient. */
#include "ir/facts.h"
#include "ops/call/shape.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

static ir_facts facts_of(const ir_value *v)
{
  rush_value c;

  if (ir_value_as_constant(v, &c) && c.tag == RUSH_TAG_TENSOR && c.as.tensor)
    return ir_facts_of_tensor(c.as.tensor);
  return *ir_facts_of(v->type);
}

static void set_facts(session *s, ir_value *v, const ir_facts *f)
{
  ASSERT(f->n_dims <= IR_FACTS_DIMS, "more dimensions than facts have room for");
  if (type_is(v->type, TYPE_TENSOR))
    v->type = ir_facts_type(s, v->node->graph->types, f);
  ASSERT(!type_is(v->type, TYPE_TENSOR) || ir_facts_equal(ir_facts_of(v->type), f),
         "a type has the facts of which it was made");
}

/* -- Arguments --------------------------------------------------------------------------------- */

/* Get a constant, or a list of constants. */
static bool known_value(session *s, const ir_value *v, rush_value *out)
{
  const ir_node *n = v->node;
  rush_list *l;
  rush_value item;

  int64_t i;

  if (ir_value_as_constant(v, out))
    return true;
  if (type_is(v->type, TYPE_INT) && pass_is_known_int(s, v, &i)) {
    *out = value_int(i);
    return true;
  }
  if (n->kind != IR_LIST_CONSTRUCT || !type_is(v->type, TYPE_LIST))
    return false;
  session_check(s, list_new(s->cx, type_elem(v->type), n->n_inputs, &l));
  *out = pass_hold(s, value_heap_steal(RUSH_TAG_LIST, l));
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    if (ir_node_input(n, i)->node->kind == IR_LIST_CONSTRUCT ||
        !known_value(s, ir_node_input(n, i), &item))
      return false;
    session_check(s, list_append_steal(s->cx, l, value_retain(item)));
  }
  return true;
}

static bool holds_tensors(const type *t)
{
  t = type_runtime(t);
  return t->kind == TYPE_TENSOR ||
         ((t->kind == TYPE_LIST || t->kind == TYPE_OPTIONAL) && holds_tensors(type_elem(t)));
}

static bool is_optional_tensor(const type *t)
{
  return t->kind == TYPE_OPTIONAL && holds_tensors(t);
}

/* An argument: a value, or tensors with facts, or integers of which some are not known. */
typedef struct argument {
  rush_value value;
  uint32_t n;           /* of the following */
  ir_facts *tensors;    /* or NULL */
  const int64_t **ints; /* or NULL; NULL items are not known */
} argument;

/* Read the tensors of an argument: one, or those of a list constructed in the graph. */
static bool read_known_tensors(session *s, const ir_value *v, argument *a)
{
  const bool list = type_is(v->type, TYPE_LIST);
  const ir_node *n = v->node;
  rush_value none;

  if (is_optional_tensor(v->type))
    return ir_value_as_constant(v, &none);
  if (list && n->kind != IR_LIST_CONSTRUCT)
    return false;
  a->n = list ? n->n_inputs : 1;
  a->tensors = session_array(s, ir_facts, (size_t)a->n + 1);
  for (uint32_t i = 0; i < a->n; i++) {
    const ir_facts f = a->tensors[i] = facts_of(list ? ir_node_input(n, i) : v);
    if (f.dtype == DTYPE_NONE || f.n_dims < 0 || !ir_facts_on_cpu(&f))
      return false;
  }
  return true;
}

static const int64_t *known_int(session *s, const ir_value *v)
{
  int64_t *i = session_new(s, int64_t);

  return pass_is_known_int(s, v, i) ? i : NULL;
}

/* Read the integers of a list made in the graph, or by x.size(). */
static bool read_listed_ints(session *s, const ir_value *v, argument *a)
{
  const ir_node *n = v->node;
  const ir_facts *f = pass_facts_of_sizes(v);
  rush_list *l;

  if (!f && n->kind != IR_LIST_CONSTRUCT)
    return false;
  a->n = f ? (uint32_t)f->n_dims : n->n_inputs;
  a->ints = session_array(s, const int64_t *, (size_t)a->n + 1);
  session_check(s, list_new(s->cx, type_elem(v->type), a->n, &l));
  a->value = pass_hold(s, value_heap_steal(RUSH_TAG_LIST, l));
  for (uint32_t i = 0; i < a->n; i++) {
    a->ints[i] = !f ? known_int(s, ir_node_input(n, i)) : f->sizes[i] < 0 ? NULL : &f->sizes[i];
    l->items[l->n++] = value_int(a->ints[i] ? *a->ints[i] : 0);
  }
  return true;
}

/* Read an argument; returns false if a rule could not work with what is known of it. */
static bool read_argument(session *s, const ir_value *v, argument *a)
{
  *a = (argument){.value = value_none()};
  if (holds_tensors(v->type))
    return read_known_tensors(s, v, a);
  if (known_value(s, v, &a->value))
    return true;
  if (type_is(v->type, TYPE_INT)) {
    *a = (argument){
      .value = value_int(0), .n = 1, .ints = session_array(s, const int64_t *, 1)};
    return true;
  }
  return type_is(v->type, TYPE_LIST) && type_is(type_elem(v->type), TYPE_INT) &&
         read_listed_ints(s, v, a);
}

/* -- One operator ------------------------------------------------------------------------------ */

#define MOST_ARMS 64 /* combinations of answers to what sizes leave open */

typedef struct shape_job {
  const ir_node *n;
  ir_node *unpack; /* the only user of the list that n returns, which unpacks it; or NULL */
  uint32_t n_out;  /* tensors: n's outputs, or those of `unpack` */
  bool known;
  ir_facts *out;  /* n_out; valid if known */
  sym_arms arms;
} shape_job;

static bool is_complete(const argument *args, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < args[i].n; k++)
      if (args[i].ints ? args[i].ints[k] == NULL
                       : !ir_facts_has_sizes(&args[i].tensors[k]) ||
                           !ir_facts_has_strides(&args[i].tensors[k]))
        return false;
  return true;
}

/* True if all tensors are known to be strided. */
static bool are_strided(const argument *args, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; args[i].tensors && k < args[i].n; k++)
      if (args[i].tensors[k].contiguous != 1 && !ir_facts_has_strides(&args[i].tensors[k]))
        return false;
  return true;
}

/* Return the node that unpacks the list that n returns, if it is the list's only user: then nothing
 * changes the list. */
static ir_node *unpacker_of(const ir_node *n)
{
  const ir_value *list = n->n_outputs == 1 ? n->outputs[0] : NULL;

  return list && type_is(list->type, TYPE_LIST) &&
             type_is(type_elem(list->type), TYPE_TENSOR) && list->uses && !list->uses->next &&
             list->uses->user->kind == IR_LIST_UNPACK
           ? list->uses->user
           : NULL;
}

/* Begin the facts of a result: on the CPU, like the arguments.  Results of a rule are numbered, but
 * those of a list all have its number, and come in order. */
static ir_facts *begin_result(const shape_job *job, uint32_t result, int dtype, int n_dims)
{
  if (result >= job->n_out || n_dims > IR_FACTS_DIMS || dtype == DTYPE_NONE)
    return NULL;
  ir_facts *f = &job->out[result];
  *f = ir_facts_none();
  f->defined = 1;
  f->dtype = (int16_t)dtype;
  f->n_dims = (int8_t)n_dims;
  f->has_device = true;
  f->device_kind = DEVICE_CPU;
  f->device_index = -1;
  return f;
}

/* Compute results of arguments that are known whole. */
static void shape_numbers(session *s, shape_job *job, const argument *args, shape_arg *in)
{
  const schema *sc = job->n->op->schema;
  shape_call call = {.schema = sc, .args = in};

  for (uint32_t i = 0; i < sc->n_args; i++) {
    const argument *a = &args[i];
    if (!a->tensors)
      continue;
    in[i].n = a->n;
    in[i].tensors = session_array(s, shape_facts, (size_t)a->n + 1);
    for (uint32_t k = 0; k < a->n; k++)
      in[i].tensors[k] = (shape_facts){.dtype = a->tensors[k].dtype,
                                       .n_dims = a->tensors[k].n_dims,
                                       .sizes = a->tensors[k].sizes,
                                       .strides = a->tensors[k].strides,
                                       .alias = -1};
  }
  op_shape(s, job->n->op, &call);
  job->known = !job->unpack || call.n_results == job->n_out;
  for (uint32_t i = 0; i < call.n_results; i++) {
    const shape_facts *r = call.results[i];
    ASSERT(r->n_dims >= 0 && r->alias < (int)job->n->n_inputs, "a result of this call");
    ir_facts *f = begin_result(job, job->unpack ? i : r->result, r->dtype, r->n_dims);
    bool known = true;
    for (int d = 0; f && d < r->n_dims; d++) {
      f->sizes[d] = r->sizes[d] < 0 ? IR_SIZE_UNKNOWN : r->sizes[d];
      known &= r->sizes[d] >= 0 && r->strides[d] >= 0;
    }
    for (int d = 0; f && d < r->n_dims; d++)
      f->strides[d] = known ? r->strides[d] : IR_STRIDE_UNKNOWN;
  }
}

/* Make a tensor of symbols.  Unknown strides are those of rows: sizes of results do not depend on
 * strides, and strides of results are not used then. */
static void name_tensor(session *s, sym_env *env, const ir_facts *f, symshape_facts *out)
{
  symint dense = sym_const(env, 1);

  *out = (symshape_facts){.dtype = f->dtype, .n_dims = f->n_dims, .alias = -1};
  out->offset = sym_fresh(env, 0, SYM_INF);
  out->sizes = session_array(s, symint, 2 * (size_t)f->n_dims + 1);
  out->strides = out->sizes + f->n_dims;
  for (int i = 0; i < f->n_dims; i++)
    out->sizes[i] = f->sizes[i] < 0 ? sym_fresh(env, 0, SYM_INF) : sym_const(env, f->sizes[i]);
  for (int i = f->n_dims; i-- > 0;) {
    out->strides[i] =
      f->strides[i] != IR_STRIDE_UNKNOWN ? sym_const(env, f->strides[i]) : dense;
    dense = sym_mul(env, dense, sym_max(env, out->sizes[i], sym_const(env, 1)));
  }
}

static void name_argument(session *s, sym_env *env, const argument *a, symshape_arg *out)
{
  out->n = a->tensors || a->ints ? a->n : out->n;
  if (a->tensors)
    out->tensors = session_array(s, symshape_facts, (size_t)a->n + 1);
  if (a->ints)
    out->ints = session_array(s, symint, (size_t)a->n + 1);
  for (uint32_t k = 0; k < a->n; k++)
    if (a->tensors)
      name_tensor(s, env, &a->tensors[k], &out->tensors[k]);
    else
      out->ints[k] =
        a->ints[k] ? sym_const(env, *a->ints[k]) : sym_fresh(env, SYM_NEG_INF, SYM_INF);
}

static int64_t number_or(symint e, int64_t unknown) { return sym_is_const(e) ? e->k : unknown; }

/* Compute results of arguments that are known in parts, for the answers of job->arms. */
static void shape_symbols(session *s, shape_job *job, const argument *args, const shape_arg *in)
{
  const schema *sc = job->n->op->schema;
  sym_env *env = sym_env_new(s);
  symshape_call call = {.schema = sc};
  const bool strided = are_strided(args, sc->n_args);

  call.args = symshape_args_of(s, env, sc, in);
  for (uint32_t i = 0; i < sc->n_args; i++)
    name_argument(s, env, &args[i], &call.args[i]);
  env->arms = &job->arms;
  op_symshape(s, env, job->n->op, &call);
  job->known = !job->unpack || call.n_results == job->n_out;
  for (uint32_t i = 0; i < call.n_results; i++) {
    const symshape_facts *r = call.results[i];
    ir_facts *f = begin_result(job, job->unpack ? i : r->result, r->dtype, r->n_dims);
    for (int d = 0; f && d < r->n_dims; d++) {
      f->sizes[d] = number_or(r->sizes[d], IR_SIZE_UNKNOWN);
      f->strides[d] = strided ? number_or(r->strides[d], IR_STRIDE_UNKNOWN) : IR_STRIDE_UNKNOWN;
    }
  }
}

/* Apply a rule in a session of its own: rules refuse by leaving it. */
static void shape_of(session *s, void *arg)
{
  shape_job *job = arg;
  const ir_node *n = job->n;
  const schema *sc = n->op->schema;
  rush_value *values = session_array(s, rush_value, (size_t)n->n_inputs + 1);
  argument *args = session_array(s, argument, (size_t)n->n_inputs + 1);

  job->known = false;
  if (n->n_inputs != sc->n_args)
    return;
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    if (!read_argument(s, ir_node_input(n, i), &args[i]))
      return;
    values[i] = args[i].value;
  }
  shape_arg *in = shape_args_of(s, sc, values);
  if (is_complete(args, sc->n_args))
    shape_numbers(s, job, args, in);
  else
    shape_symbols(s, job, args, in);
}

/* Compute the facts of n's results; returns false if nothing is known, or every run refuses.  What
 * sizes leave open is answered in every way, and what all answers agree on is known. */
static bool infer_results(session *s, ir_node *n, ir_node *unpack, uint32_t n_out, ir_facts *out)
{
  call_ctx quiet = *s->cx;
  shape_job job = {.n = n,
                   .unpack = unpack,
                   .n_out = n_out,
                   .out = session_array(s, ir_facts, (size_t)n_out + 1)};
  bool any = false;

  quiet.err = NULL;
  for (uint32_t arms = 0;; arms++) {
    for (uint32_t i = 0; i < n_out; i++)
      job.out[i] = ir_facts_none();
    const rush_status st = session_run(&quiet, shape_of, &job);
    if (job.arms.unsure || arms == MOST_ARMS || (st == RUSH_OK && !job.known) ||
        st == RUSH_ELIMIT || st == RUSH_ECANCELLED || st == RUSH_ENOMEM)
      return false;
    for (uint32_t i = 0; i < n_out && st == RUSH_OK; i++) {
      if (ir_facts_are_row_major(&job.out[i]))
        job.out[i].contiguous = 1; /* as the facts of a tensor say, which profiles have */
      out[i] = any ? ir_facts_union(&out[i], &job.out[i]) : job.out[i];
    }
    any |= st == RUSH_OK;
    if (!sym_arms_next(&job.arms))
      return any;
  }
}

static int grad_of_inputs(const ir_node *n)
{
  int all = 0;

  for (uint32_t i = 0; i < n->n_inputs; i++) {
    const ir_value *v = ir_node_input(n, i);
    const ir_node *list =
      type_is(v->type, TYPE_LIST) && v->node->kind == IR_LIST_CONSTRUCT ? v->node : NULL;
    int grad = list                            ? grad_of_inputs(list)
               : type_is(v->type, TYPE_TENSOR) ? facts_of(v).requires_grad
               : holds_tensors(v->type)        ? -1
                                               : 0;
    if (pass_is_none(v))
      grad = 0;
    if (grad == 1)
      return 1;
    all = grad < 0 ? -1 : all;
  }
  return all;
}

/* Return 1 if the result requires a gradient, 0 if not, -1 if unknown. */
static int grad_of(const ir_node *n, int dtype)
{
  int grad = grad_of_inputs(n);

  if (n->op->effects & OP_NO_GRAD ||
      (dtype != DTYPE_NONE && !dtype_is_float(dtype) && !dtype_is_complex(dtype)))
    return 0;
  return grad == 1 && dtype == DTYPE_NONE ? -1 : grad;
}

static void shape_op(session *s, ir_node *n)
{
  ir_node *unpack = unpacker_of(n);
  ir_value *const *outputs = unpack ? unpack->outputs : n->outputs;
  const uint32_t n_out = unpack ? unpack->n_outputs : n->n_outputs;
  ir_facts *out = session_array(s, ir_facts, (size_t)n_out + 1);
  const bool known = op_has_shape(n->op) && n_out && infer_results(s, n, unpack, n_out, out);

  for (uint32_t i = 0; i < n_out; i++) {
    ir_facts f = known ? out[i] : ir_facts_none();
    if (f.dtype != DTYPE_NONE)
      f.requires_grad = (int8_t)grad_of(n, f.dtype);
    set_facts(s, outputs[i], &f);
  }
}

/* -- Branches and loops ------------------------------------------------------------------------ */

#define MOST_LOOPS 3 /* nested loops that are repeated */

typedef void op_rule(session *s, ir_node *n);

static void propagate_block(session *s, ir_block *b, op_rule *rule, uint32_t n_loops);

static void join_results(session *s, ir_node *n)
{
  ASSERT(pass_if_is_whole(n), "each branch has the node's results");
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts a = facts_of(ir_block_output(n->blocks[0], i)),
             b = facts_of(ir_block_output(n->blocks[1], i));
    ir_facts f = ir_facts_union(&a, &b);
    set_facts(s, n->outputs[i], &f);
  }
}

#define MOST_ROUNDS 6

/* Propagate through a loop: carried values have the facts common to their initial values and the
 * results of iterations.  Facts are only removed: a few rounds settle it, or all are dropped. */
static void propagate_loop(session *s, ir_node *n, op_rule *rule, uint32_t n_loops)
{
  ir_block *body = n->blocks[0];
  bool stable = false;

  ASSERT(pass_loop_is_whole(n), "each carried value has its initial value");
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts f = n_loops < MOST_LOOPS ? facts_of(ir_node_input(n, i + 2)) : ir_facts_none();
    set_facts(s, ir_block_input(body, i + 1), &f);
  }
  for (int round = 0; round < (n_loops < MOST_LOOPS ? MOST_ROUNDS : 0) && !stable; round++) {
    propagate_block(s, body, rule, n_loops + 1);
    stable = true;
    for (uint32_t i = 0; i < n->n_outputs; i++) {
      ir_value *in = ir_block_input(body, i + 1);
      ir_facts a = facts_of(in), b = facts_of(ir_block_output(body, i + 1)),
               both = ir_facts_union(&a, &b), none = ir_facts_none();
      const type *was = in->type;
      set_facts(s, in, round < MOST_ROUNDS - 1 ? &both : &none);
      stable &= ir_facts_equal(ir_facts_of(was), ir_facts_of(in->type));
    }
  }
  if (!stable)
    propagate_block(s, body, rule, n_loops + 1);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts f = facts_of(ir_block_input(body, i + 1));
    set_facts(s, n->outputs[i], &f);
  }
}

/* True for a subgraph that runs once, with the node's inputs. */
static bool is_subgraph(const ir_node *n)
{
  return (n->kind == IR_DIFFERENTIABLE_GRAPH || n->kind == IR_FALLBACK_GRAPH ||
          n->kind == IR_GROUP) &&
         n->n_blocks == 1 && ir_block_n_inputs(n->blocks[0]) == n->n_inputs &&
         ir_block_n_outputs(n->blocks[0]) == n->n_outputs;
}

static void propagate_subgraph(session *s, ir_node *n, op_rule *rule, uint32_t n_loops)
{
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    const ir_facts f = facts_of(ir_node_input(n, i));
    set_facts(s, ir_block_input(n->blocks[0], i), &f);
  }
  propagate_block(s, n->blocks[0], rule, n_loops);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    const ir_facts f = facts_of(ir_block_output(n->blocks[0], i));
    set_facts(s, n->outputs[i], &f);
  }
}

static void propagate_block(session *s, ir_block *b, op_rule *rule, uint32_t n_loops)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(s);
    if (n->kind == IR_LOOP) {
      propagate_loop(s, n, rule, n_loops);
      continue;
    }
    if (is_subgraph(n)) {
      propagate_subgraph(s, n, rule, n_loops);
      continue;
    }
    for (uint32_t i = 0; i < n->n_blocks; i++)
      propagate_block(s, n->blocks[i], rule, n_loops);
    if (n->kind == IR_IF)
      join_results(s, n);
    else if (n->kind == IR_OP)
      rule(s, n);
  }
  session_leave(s);
}

void pass_propagate_shapes_on_graph(session *s, ir_graph *g)
{
  propagate_block(s, g->block, shape_op, 0);
}

/* Forget what is known of results, also of blocks' inputs. */
static void forget_results(session *s, ir_node *n, void *arg)
{
  const ir_facts none = ir_facts_none();

  (void)arg;
  for (uint32_t i = 0; i < n->n_outputs && n->kind != IR_GUARD; i++)
    set_facts(s, n->outputs[i], &none);
  for (uint32_t i = 0; i < n->n_blocks; i++)
    for (uint32_t k = 0; k < ir_block_n_inputs(n->blocks[i]); k++)
      set_facts(s, ir_block_input(n->blocks[i], k), &none);
}

void pass_complete_shape_analysis(session *s, ir_graph *g)
{
  pass_each(s, g->block, forget_results, NULL);
  propagate_block(s, g->block, shape_op, 0);
}

/* -- Gradients alone --------------------------------------------------------------------------- */

static void grad_op(session *s, ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts f = facts_of(n->outputs[i]);
    f.requires_grad = (int8_t)grad_of(n, f.dtype);
    set_facts(s, n->outputs[i], &f);
  }
}

void pass_requires_grad_analysis(session *s, ir_graph *g)
{
  propagate_block(s, g->block, grad_op, 0);
}
