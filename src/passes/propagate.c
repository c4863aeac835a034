/* passes/propagate.c -- refines tensor types with what follows from the types of inputs and from
 * constants.
 *
 * Shapes: by the operator's shape rule (ops/call/shape.h), applied to facts instead of tensors; a
 * result without a rule, or with an unknown argument, is Tensor.  Gradients: a result requires one
 * if an input does and the operator has a gradient. */
#include "ir/facts.h"
#include "ops/call/shape.h"
#include "passes/passes_int.h"

static ir_facts facts_of(const ir_value *v)
{
  rush_value c;

  if (ir_value_as_constant(v, &c) && c.tag == RUSH_TAG_TENSOR && c.as.tensor)
    return ir_facts_of_tensor(c.as.tensor);
  return ir_facts_of(v->type);
}

static void set_facts(session *s, ir_value *v, const ir_facts *f)
{
  if (type_is(v->type, TYPE_TENSOR))
    v->type = ir_facts_type(s, v->node->graph->types, f);
}

/* -- One operator ------------------------------------------------------------------------------ */

static bool known_facts(session *s, const ir_value *v, shape_facts *out)
{
  ir_facts f = facts_of(v);

  if (f.dtype == DTYPE_NONE || f.n_dims < 0 || !f.strided || !f.on_cpu)
    return false;
  *out = (shape_facts){.dtype = (int16_t)f.dtype, .n_dims = f.n_dims, .alias = -1};
  out->sizes = session_array(s, int64_t, (size_t)f.n_dims + 1);
  out->strides = session_array(s, int64_t, (size_t)f.n_dims + 1);
  for (int i = 0; i < f.n_dims; i++) {
    if (f.sizes[i] < 0)
      return false;
    out->sizes[i] = f.sizes[i];
    out->strides[i] = f.strides[i];
  }
  return true;
}

/* Get a constant, or a list of constants. */
static bool known_value(session *s, const ir_value *v, rush_value *out)
{
  const ir_node *n = v->node;
  rush_list *l;
  rush_value item;

  if (ir_value_as_constant(v, out))
    return true;
  if (n->kind != IR_LIST_CONSTRUCT || !type_is(v->type, TYPE_LIST))
    return false;
  session_check(s, list_new(s->cx, type_elem(v->type), n->n_inputs, &l));
  *out = pass_hold(s, value_heap_steal(RUSH_TAG_LIST, l));
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    if (!ir_value_as_constant(ir_node_input(n, i), &item))
      return false;
    session_check(s, list_append_steal(s->cx, l, value_retain(item)));
  }
  return true;
}

/* Get the tensors of an argument: one, or those of a list constructed in the graph. */
static bool tensors_of(session *s, const ir_value *v, shape_arg *out)
{
  bool list = type_is(v->type, TYPE_LIST);
  const ir_node *n = v->node;

  if (list && n->kind != IR_LIST_CONSTRUCT)
    return false;
  out->n = list ? n->n_inputs : 1;
  out->tensors = session_array(s, shape_facts, (size_t)out->n + 1);
  for (uint32_t i = 0; i < out->n; i++)
    if (!known_facts(s, list ? ir_node_input(n, i) : v, &out->tensors[i]))
      return false;
  return true;
}

static bool holds_tensors(const type *t)
{
  t = type_runtime(t);
  return t->kind == TYPE_TENSOR ||
         ((t->kind == TYPE_LIST || t->kind == TYPE_OPTIONAL) && holds_tensors(type_elem(t)));
}

typedef struct shape_job {
  const ir_node *n;
  bool known;
  ir_facts *out; /* by output */
} shape_job;

static void read_results(const shape_job *job, const shape_call *call)
{
  for (uint32_t i = 0; i < call->n_results; i++) {
    const shape_facts *r = call->results[i];
    if (r->result >= job->n->n_outputs || r->n_dims > IR_FACTS_DIMS || r->dtype == DTYPE_NONE)
      continue;
    ir_facts *f = &job->out[r->result];
    *f = (ir_facts){
      .dtype = r->dtype, .n_dims = r->n_dims, .on_cpu = true, .strided = true, .requires_grad = -1};
    for (int d = 0; d < r->n_dims; d++) {
      f->sizes[d] = r->sizes[d];
      f->strides[d] = r->strides[d];
      f->strided &= r->strides[d] >= 0 && r->sizes[d] >= 0;
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

  if (n->n_inputs != sc->n_args)
    return;
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    values[i] = value_none();
    if (!holds_tensors(ir_node_input(n, i)->type) &&
        !known_value(s, ir_node_input(n, i), &values[i]))
      return;
  }
  shape_arg *args = shape_args_of(s, sc, values);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (holds_tensors(ir_node_input(n, i)->type) && !tensors_of(s, ir_node_input(n, i), &args[i]))
      return;
  shape_call call = {.schema = sc, .args = args};
  op_shape(s, n->op, &call);
  read_results(job, &call);
  job->known = true;
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
  call_ctx quiet = *s->cx;
  shape_job job = {.n = n, .out = session_array(s, ir_facts, (size_t)n->n_outputs + 1)};

  for (uint32_t i = 0; i < n->n_outputs; i++)
    job.out[i] = ir_facts_none();
  quiet.err = NULL;
  if (op_has_shape(n->op) && n->n_outputs && session_run(&quiet, shape_of, &job) != RUSH_OK)
    job.known = false;
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts f = job.known ? job.out[i] : ir_facts_none();
    if (f.dtype != DTYPE_NONE)
      f.requires_grad = grad_of(n, f.dtype);
    set_facts(s, n->outputs[i], &f);
  }
}

/* -- Branches and loops ------------------------------------------------------------------------ */

/* Return the facts that both have. */
static ir_facts common(const ir_facts *a, const ir_facts *b)
{
  ir_facts f = *a;

  f.dtype = a->dtype == b->dtype ? a->dtype : DTYPE_NONE;
  f.requires_grad = a->requires_grad == b->requires_grad ? a->requires_grad : -1;
  f.on_cpu = a->on_cpu && b->on_cpu;
  f.n_dims = a->n_dims == b->n_dims ? a->n_dims : -1;
  f.strided = a->strided && b->strided;
  for (int i = 0; i < f.n_dims; i++) {
    f.sizes[i] = a->sizes[i] == b->sizes[i] ? a->sizes[i] : -1;
    f.strided &= a->strides[i] == b->strides[i] && f.sizes[i] >= 0;
  }
  return f;
}

#define MOST_LOOPS 3 /* nested loops that are repeated */

typedef void op_rule(session *s, ir_node *n);

static void propagate_block(session *s, ir_block *b, op_rule *rule, uint32_t n_loops);

static void join_results(session *s, ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts a = facts_of(ir_block_output(n->blocks[0], i)),
             b = facts_of(ir_block_output(n->blocks[1], i));
    ir_facts f = common(&a, &b);
    set_facts(s, n->outputs[i], &f);
  }
}

static bool same_type(const type *a, const type *b)
{
  return a->name && b->name ? strcmp(a->name, b->name) == 0 : a->name == b->name;
}

/* Propagate through a loop: carried values have the facts common to their initial values and the
 * results of iterations.  Facts are only removed: a few rounds settle it, or all are dropped. */
static void propagate_loop(session *s, ir_node *n, op_rule *rule, uint32_t n_loops)
{
  ir_block *body = n->blocks[0];
  bool stable = false;

  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts f = n_loops < MOST_LOOPS ? facts_of(ir_node_input(n, i + 2)) : ir_facts_none();
    set_facts(s, ir_block_input(body, i + 1), &f);
  }
  for (int round = 0; round < (n_loops < MOST_LOOPS ? 4 : 0) && !stable; round++) {
    propagate_block(s, body, rule, n_loops + 1);
    stable = true;
    for (uint32_t i = 0; i < n->n_outputs; i++) {
      ir_value *in = ir_block_input(body, i + 1);
      ir_facts a = facts_of(in), b = facts_of(ir_block_output(body, i + 1)), both = common(&a, &b),
               none = ir_facts_none();
      const type *was = in->type;
      set_facts(s, in, round < 3 ? &both : &none);
      stable &= same_type(was, in->type);
    }
  }
  if (!stable)
    propagate_block(s, body, rule, n_loops + 1);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts f = facts_of(ir_block_input(body, i + 1));
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

/* -- Gradients alone --------------------------------------------------------------------------- */

static void grad_op(session *s, ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts f = facts_of(n->outputs[i]);
    f.requires_grad = grad_of(n, f.dtype);
    set_facts(s, n->outputs[i], &f);
  }
}

void pass_requires_grad_analysis(session *s, ir_graph *g)
{
  propagate_block(s, g->block, grad_op, 0);
}
