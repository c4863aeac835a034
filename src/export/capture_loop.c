/* export/capture_loop.c -- a loop whose number of trips depends on data becomes torch.while_loop.
 *
 * Its body is captured once, as a graph over what the loop carries.  Tensors are carried as they
 * are, numbers as 0-d tensors, which the body reads: torch.while_loop carries ints, too, but a file
 * cannot say so where the first of them is known.  A TorchScript loop computes its condition at the
 * end of a trip, so whether to go on is a bool tensor that is carried, too, and the condition's
 * graph returns it; a loop that ends by its count alone carries the count, which that graph
 * compares.  Rejected: the condition's code a second time as a graph of its own; it may use
 * whatever the body computes. */
#include "export/capture_int.h"

#include "base/grow.h"
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"

/* -- Numbers as tensors ------------------------------------------------------------------------ */

static rush_value call_op(capture *c, const char *target, const rush_value *args)
{
  const op *o = session_op_of_target(c->s, str_of(target));
  rush_value result;

  capture_record(c, o, args, &result);
  return result;
}

static rush_value scalar_tensor(capture *c, rush_value number, rush_dtype dtype)
{
  const rush_value args[] = {number, value_int(dtype), value_none(), value_none(), value_none()};

  return call_op(c, "torch.ops.aten.scalar_tensor.default", args);
}

/* Return the tensor of a node that aten::item read, as a 0-d bool. */
static rush_value read_tensor(capture *c, fx_node *n)
{
  const fx_tensor *t = n->val->as.tensor;
  symshape_facts f = {.dtype = t->dtype, .n_dims = (int)t->n_dims, .alias = -1,
                      .offset = sym_const(c->env, 0)};

  f.sizes = session_array(c->s, symint, 2 * (size_t)t->n_dims + 1);
  f.strides = f.sizes + t->n_dims;
  for (int i = 0; i < 2 * f.n_dims; i++) /* it has one element */
    f.sizes[i] = sym_const(c->env, 1);
  rush_value v = capture_tensor_new(c, n, &f, false);
  if (f.n_dims) {
    rush_list *none;
    session_check(c->s, list_new(c->s->cx, type_simple(TYPE_INT), 0, &none));
    const rush_value args[] = {v, capture_hold(c, value_heap_steal(RUSH_TAG_LIST, none))};
    v = call_op(c, "torch.ops.aten.reshape.default", args);
  }
  const rush_value args[] = {v, value_int(0)};
  return f.dtype == RUSH_BOOL ? v : call_op(c, "torch.ops.aten.ne.Scalar", args);
}

static const char *comparison(uint32_t name)
{
  switch (name) {
  case OPN_EQ:
    return "torch.ops.aten.eq.Tensor";
  case OPN_NE:
    return "torch.ops.aten.ne.Tensor";
  case OPN_LT:
    return "torch.ops.aten.lt.Tensor";
  case OPN_LE:
    return "torch.ops.aten.le.Tensor";
  case OPN_GT:
    return "torch.ops.aten.gt.Tensor";
  default:
    return "torch.ops.aten.ge.Tensor";
  }
}

/* Return an argument of a comparison of numbers as a tensor. */
static rush_value side_tensor(capture *c, const fx_arg *a)
{
  const fx_val *v = a->kind == FX_NODE ? a->as.node->val : NULL;

  if (a->kind == FX_FLOAT)
    return scalar_tensor(c, value_float(a->as.f), RUSH_FLOAT64);
  if (a->kind == FX_INT)
    return scalar_tensor(c, value_int(a->as.i), RUSH_INT64);
  if (!v || v->kind != FX_VAL_FLOAT || !v->as.number->expr)
    capture_fail(c, "a loop that ends when such a number says so cannot be exported");
  return scalar_tensor(
    c, capture_number_by_node(c, FX_VAL_FLOAT, v->as.number->expr, a->as.node), RUSH_FLOAT64);
}

/* Return a bool that a node computes as a tensor. */
static rush_value node_tensor(capture *c, fx_node *n)
{
  static const char prefix[] = "_operator.";
  const size_t len = sizeof prefix - 1;

  if (strcmp(n->target, "torch.ops.aten.item.default") == 0)
    return read_tensor(c, n->args[0].as.node);
  if (strncmp(n->target, prefix, len) != 0 || n->n_args != 2 || strlen(n->target) != len + 2)
    capture_fail(c, "a loop on '%s' of numbers that depend on data cannot be exported", n->target);
  const rush_value sides[] = {side_tensor(c, &n->args[0]), side_tensor(c, &n->args[1])};
  return call_op(c, session_printf(c->s, "torch.ops.aten.%s.Tensor", n->target + len), sides);
}

static rush_value bool_tensor(capture *c, rush_value v);

/* Return a bool that is made of others as a tensor. */
static rush_value joined_tensor(capture *c, const capture_number *n)
{
  rush_value parts[2] = {value_none(), value_none()};

  session_enter(c->s);
  for (int i = 0; i < (n->joins == '!' ? 1 : 2); i++)
    parts[i] = bool_tensor(c, n->parts[i]);
  session_leave(c->s);
  return call_op(c, n->joins == '!'   ? "torch.ops.aten.logical_not.default"
                 : n->joins == '&' ? "torch.ops.aten.logical_and.default"
                                   : "torch.ops.aten.logical_or.default", parts);
}

static rush_value bool_tensor(capture *c, rush_value v)
{
  const capture_number *n = capture_number_of(v);

  if (!n)
    return scalar_tensor(c, v, RUSH_BOOL);
  if (n->parts)
    return joined_tensor(c, n);
  if (!n->relation)
    return node_tensor(c, n->node);
  const rush_value sides[] = {scalar_tensor(c, capture_int(c, n->a), RUSH_INT64),
                              scalar_tensor(c, capture_int(c, n->b), RUSH_INT64)};
  return call_op(c, comparison(n->relation), sides);
}

static const custom_class unset_class = {.name = "Uninitialized"};

rush_value capture_unset(capture *c)
{
  custom_value *v = session_new(c->s, custom_value);

  heap_init(&v->h, c->s->cx->ctx, RUSH_TAG_CUSTOM);
  v->cls = &unset_class;
  return value_heap_steal(RUSH_TAG_CUSTOM, v);
}

bool capture_is_unset(rush_value v)
{
  return v.tag == RUSH_TAG_CUSTOM && ((const custom_value *)v.as.heap)->cls == &unset_class;
}

rush_value capture_some_value(capture *c, rush_value like)
{
  switch (capture_form(like)) {
  case FORM_INT:
    return value_int(0);
  case FORM_BOOL:
    return value_bool(false);
  case FORM_FLOAT:
    return value_float(0);
  case FORM_OTHER:
    return like;
  case FORM_TENSOR:
    break;
  }
  const symshape_facts *f = &capture_tensor_of(c, like.as.tensor)->facts;
  rush_list *sizes;
  session_check(c->s, list_new(c->s->cx, type_simple(TYPE_INT), (size_t)f->n_dims, &sizes));
  rush_value list = capture_hold(c, value_heap_steal(RUSH_TAG_LIST, sizes));
  for (int i = 0; i < f->n_dims; i++)
    sizes->items[sizes->n++] = capture_int(c, f->sizes[i]);
  const rush_value args[] = {list, value_int(f->dtype), value_none(), value_none(), value_none()};
  return call_op(c, "torch.ops.aten.zeros.default", args);
}

rush_value capture_read_number(capture *c, rush_value tensor)
{
  const op *o = session_op_of_target(c->s, STR("torch.ops.aten.item.default"));
  rush_value v;

  capture_op(c, o, &tensor, &v);
  return v;
}

number_form capture_form(rush_value v)
{
  const capture_number *n = capture_number_of(v);

  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor)
    return FORM_TENSOR;
  if (v.tag == RUSH_TAG_INT || (n && n->kind == FX_VAL_INT))
    return FORM_INT;
  if (v.tag == RUSH_TAG_BOOL || (n && n->kind == FX_VAL_BOOL))
    return FORM_BOOL;
  return v.tag == RUSH_TAG_FLOAT || (n && n->kind == FX_VAL_FLOAT) ? FORM_FLOAT : FORM_OTHER;
}

rush_value capture_passed(capture *c, rush_value v)
{
  switch (capture_form(v)) {
  case FORM_BOOL:
    return bool_tensor(c, v);
  case FORM_FLOAT:
    return scalar_tensor(c, v, RUSH_FLOAT64);
  case FORM_INT:
    return scalar_tensor(c, v, RUSH_INT64);
  case FORM_TENSOR:
  case FORM_OTHER:
    break;
  }
  return v;
}

/* -- What a loop carries ----------------------------------------------------------------------- */

typedef struct carried { /* leaves of the values of the loop */
  capture *c;
  rush_value *passed; /* n: tensors, as the operator gets them */
  number_form *forms; /* what they are in the code */
  uint32_t n, cap, at;
  rush_value *inside; /* of one graph, as the code sees them */
} carried;

static rush_value add_leaf(capture *c, rush_value leaf, void *arg)
{
  carried *k = arg;
  const number_form form = capture_form(leaf);

  if (form == FORM_OTHER)
    return leaf;
  if (k->n == k->cap) {
    uint32_t cap = k->cap;
    GROW(c->s, k->passed, k->n, k->cap, 8);
    GROW(c->s, k->forms, k->n, cap, 8);
  }
  k->passed[k->n] = capture_passed(c, leaf);
  k->forms[k->n++] = form;
  return leaf;
}

static rush_value next_inside(capture *c, rush_value leaf, void *arg)
{
  carried *k = arg;

  (void)c;
  return capture_form(leaf) == FORM_OTHER ? leaf : k->inside[k->at++];
}

/* Make the placeholders of one graph. */
static void enter_graph(capture *c, capture_branch *b, const carried *k)
{
  for (uint32_t i = 0; i < k->n; i++) {
    k->inside[i] = capture_new_parameter(c, k->passed[i]);
    capture_bind_parameter(c, b, k->inside[i], session_printf(c->s, "arg%u_1", i));
  }
}

/* Read the numbers from the first on among what a graph is given, or the loop ends with. */
static void read_numbers(capture *c, const carried *k, uint32_t first)
{
  for (uint32_t i = first; i < k->n; i++)
    if (k->forms[i] != FORM_TENSOR)
      k->inside[i] = capture_read_number(c, k->inside[i]);
}

/* -- The loop ---------------------------------------------------------------------------------- */

typedef struct loop {
  capture *c;
  const ir_node *n;
  rush_value trips, go;
  bool is_endless;     /* it has no number of trips */
  bool counts, tests;  /* the count of trips is carried; so is a tensor, whether to go on */
  carried in;          /* the tensor first, then the count, then the values' leaves */
  capture_trip *run;
  void *arg;
} loop;

/* Capture the graph of the condition. */
static void capture_test(loop *l, capture_branch *b)
{
  capture *c = l->c;

  enter_graph(c, b, &l->in);
  const capture_graph before = capture_branch_enter(c, b);
  const rush_value args[] = {l->in.inside[0], l->tests ? value_none() : l->trips};
  rush_value result = call_op(c, l->tests ? "torch.ops.aten.clone.default"
                                       : "torch.ops.aten.lt.Tensor", args);
  capture_leave(c, before);
  capture_branch_close(c, b, &result, 1, true);
}

/* Return the tensor that says whether to go on after a trip, when there were `count`. */
static rush_value next_test(loop *l, rush_value go, rush_value count)
{
  capture *c = l->c;
  const rush_value test = bool_tensor(c, go);

  if (l->is_endless)
    return test;
  const rush_value sides[] = {count, l->trips};
  const rush_value both[] = {test, call_op(c, "torch.ops.aten.lt.Tensor", sides)};
  return call_op(c, "torch.ops.aten.logical_and.default", both);
}

/* Return what is passed on, which is no tensor that the graph is given: torch.while_loop does not
 * allow that. */
static rush_value passed_on(capture *c, rush_value v)
{
  const rush_value args[] = {capture_passed(c, v), value_none()};

  if (args[0].tag == RUSH_TAG_TENSOR &&
      capture_root(capture_tensor_of(c, args[0].as.tensor))->node->op == FX_PLACEHOLDER)
    return call_op(c, "torch.ops.aten.clone.default", args);
  return args[0];
}

/* Capture the body; returns what it passes on. */
static rush_value *capture_body(loop *l, capture_branch *b, const rush_value *values)
{
  capture *c = l->c;
  const uint32_t n = l->n->n_outputs, own = (uint32_t)l->tests + l->counts;
  rush_value *inner = session_array(c->s, rush_value, 2 * (size_t)n + 2), *outer = inner + n + 1;
  carried out = {.c = c};

  enter_graph(c, b, &l->in);
  const capture_graph before = capture_branch_enter(c, b);
  const rush_value count = l->counts ? l->in.inside[l->tests] : value_none();
  const rush_value seen = l->counts && ir_block_input(l->n->blocks[0], 0)->uses
                            ? capture_read_number(c, count) : value_int(0);
  l->in.at = own;
  read_numbers(c, &l->in, own);
  for (uint32_t i = 0; i < n; i++)
    inner[i] = capture_rebuild(c, values[i], next_inside, &l->in);
  l->run(l->arg, l->n, seen, inner, outer);
  const rush_value plus[] = {count, value_int(1), value_int(1)};
  const rush_value next = l->counts ? call_op(c, "torch.ops.aten.add.Scalar", plus) : count;
  for (uint32_t i = 0; i < n; i++)
    (void)capture_rebuild(c, outer[i + 1], add_leaf, &out);
  rush_value *all = session_array(c->s, rush_value, (size_t)own + out.n + 1);
  if (l->tests)
    all[0] = passed_on(c, next_test(l, outer[0], next));
  if (l->counts)
    all[l->tests] = next;
  if (out.n + own != l->in.n)
    capture_fail(c, "a trip of the loop changes the length of a list or what a value is, and how "
                    "often it runs depends on data");
  for (uint32_t i = 0; i < out.n; i++) {
    if (out.forms[i] != l->in.forms[i + own])
      capture_fail(c, "a trip of the loop changes what a value is, and how often it runs depends "
                      "on data");
    all[own + i] = passed_on(c, out.passed[i]);
  }
  capture_leave(c, before);
  return all;
}

/* Make what the loop starts with. */
static void first_values(loop *l, int64_t from, const rush_value *values)
{
  capture *c = l->c;

  if (l->tests)
    (void)add_leaf(c, l->go, &l->in);
  if (l->counts)
    (void)add_leaf(c, value_int(from), &l->in);
  for (uint32_t i = 0; i < l->n->n_outputs; i++)
    (void)capture_rebuild(c, values[i], add_leaf, &l->in);
  l->in.inside = session_array(c->s, rush_value, (size_t)l->in.n + 1);
}

void capture_loop(capture *c, const ir_node *n, const capture_loop_start *start, capture_trip *run,
                  void *arg, rush_value *values)
{
  const ir_block *b = n->blocks[0];
  rush_value end;
  const bool only_counts = ir_value_as_constant(ir_block_output(b, 0), &end) &&
                           end.tag == RUSH_TAG_BOOL && end.as.b;
  const bool is_endless = start->trips.tag == RUSH_TAG_INT && start->trips.as.i == INT64_MAX;
  loop l = {.c = c, .n = n, .trips = start->trips, .go = start->go, .run = run, .arg = arg,
            .is_endless = is_endless, .tests = !only_counts || capture_number_of(start->go),
            .counts = !is_endless || ir_block_input(b, 0)->uses, .in.c = c};

  first_values(&l, start->from, values);
  if (!is_endless)
    l.trips = capture_passed(c, l.trips);
  capture_branch *test = capture_branch_open(c), *body = capture_branch_open(c);
  capture_test(&l, test);
  rush_value *next = capture_body(&l, body, values);
  capture_branch_close(c, body, next, l.in.n, false);
  capture_add_while(c, test, body, l.in.passed, next, l.in.n, l.in.inside);
  read_numbers(c, &l.in, (uint32_t)l.tests + l.counts);
  l.in.at = (uint32_t)l.tests + l.counts;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    values[i] = capture_rebuild(c, values[i], next_inside, &l.in);
}
