/* export/capture_higher.c -- torch.cond, while_loop, map and scan as live torch code calls them
 * (jit/torch_live.py): nodes IR_HIGHER_ORDER over closures.
 *
 * A closure is a function of the trace with the values that it uses of outside; it is called inside
 * of a graph of its own.  What an operator passes to its functions, a slice of a map or a carried
 * value of a loop, is made before by a node "parameter": a value that only the graph of one
 * function has, as a placeholder.  Everything else that a function uses is an operand.
 *
 * Nodes of the same kind say what else such code does and TorchScript has no operator for: a number
 * that is written as one where a tensor is expected, assertions, regions of autocast. */
#include "export/capture_int.h"

#include "base/grow.h"

/* -- Closures ---------------------------------------------------------------------------------- */

typedef struct closure {
  function *f;
  const rush_value *args;
  uint32_t n_args;
} closure;

static const custom_class closure_class = {.name = "Closure"};

rush_value capture_closure(capture *c, function *f, const rush_value *args, uint32_t n_args)
{
  closure *made = session_new(c->s, closure);
  custom_value *v = session_new(c->s, custom_value);
  rush_value *copy = session_array(c->s, rush_value, (size_t)n_args + 1);

  if (n_args)
    memcpy(copy, args, n_args * sizeof *copy);
  *made = (closure){f, copy, n_args};
  heap_init(&v->h, c->s->cx->ctx, RUSH_TAG_CUSTOM);
  v->cls = &closure_class;
  v->self = made;
  return value_heap_steal(RUSH_TAG_CUSTOM, v);
}

static const closure *closure_in(capture *c, rush_value v)
{
  const custom_value *custom = v.tag == RUSH_TAG_CUSTOM ? (const custom_value *)v.as.heap : NULL;

  if (!custom || custom->cls != &closure_class)
    capture_fail(c, "a higher-order operator on something that is no function of its own");
  return custom->self;
}

/* -- Parameters -------------------------------------------------------------------------------- */

/* Drop (or with `size`, add in front) a dimension of what facts describe. */
static symshape_facts without_first(capture *c, const symshape_facts *of)
{
  symshape_facts f = *of;

  if (f.n_dims == 0)
    capture_fail(c, "a map or scan over a 0-d tensor");
  f.sizes++;
  f.strides++;
  f.n_dims--;
  f.alias = -1;
  f.flags = 0;
  f.offset = sym_const(c->env, 0);
  return f;
}

/* Describe a contiguous tensor of `n` such rows. */
static symshape_facts with_first(capture *c, const symshape_facts *row, symint n)
{
  symshape_facts f = {.dtype = row->dtype,
                      .n_dims = row->n_dims + 1,
                      .alias = -1,
                      .offset = sym_const(c->env, 0)};

  f.sizes = session_array(c->s, symint, 2 * (size_t)f.n_dims);
  f.strides = f.sizes + f.n_dims;
  f.sizes[0] = n;
  for (int i = 0; i < row->n_dims; i++)
    f.sizes[i + 1] = row->sizes[i];
  symint dense = sym_const(c->env, 1);
  for (int i = f.n_dims; i-- > 0;) {
    f.strides[i] = dense;
    dense = sym_mul(c->env, dense, f.sizes[i]);
  }
  return f;
}

/* Make a parameter: like the tensor, or like a row of it.  Its node is the placeholder that
 * bind_parameter makes. */
static rush_value new_parameter(capture *c, rush_value like, bool is_row)
{
  if (capture_form(like) == FORM_INT && !is_row)
    return capture_int(c, sym_fresh(c->env, SYM_NEG_INF, SYM_INF));
  if (like.tag != RUSH_TAG_TENSOR || !like.as.tensor)
    capture_fail(c, "a higher-order operator passes a value that is no tensor to its function");
  capture_tensor *t = capture_tensor_of(c, like.as.tensor);
  const symshape_facts f = is_row ? without_first(c, &t->facts) : t->facts;
  const rush_value v = capture_tensor_new(c, NULL, &f, t->requires_grad);

  capture_tensor_of(c, v.as.tensor)->root = NULL;
  return v;
}

rush_value capture_new_parameter(capture *c, rush_value like)
{
  return new_parameter(c, like, false);
}

void capture_bind_int(capture *c, capture_branch *b, symint e, const char *name)
{
  fx_node *n = fx_node_new(c->s, b->g, FX_PLACEHOLDER, name, name);
  fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
  fx_val *v = session_alloc_in(c->s, c->mem, sizeof *v);

  *v = (fx_val){.kind = FX_VAL_INT, .as.number = number};
  capture_describe(c, number, e);
  n->target = n->name;
  n->val = v;
  session_table_put(c->s, b->numbers, address_key(e), n);
}

void capture_bind_parameter(capture *c, capture_branch *b, rush_value parameter, const char *name)
{
  if (capture_form(parameter) == FORM_INT) {
    capture_bind_int(c, b, capture_symint(parameter, c->env), name);
    return;
  }
  capture_tensor *t = capture_tensor_of(c, parameter.as.tensor);
  fx_node *n = fx_node_new(c->s, b->g, FX_PLACEHOLDER, name, name);

  n->target = n->name;
  n->val = capture_val(c, &t->facts, t->requires_grad);
  t->node = n;
  t->home = b->g;
}

/* -- Calls ------------------------------------------------------------------------------------- */

typedef struct result { /* of a closure: tensors and ints */
  const rush_value *items;
  uint32_t n;
} result;

static result result_of(capture *c, rush_value v, bool is_test)
{
  const rush_tuple *t = v.tag == RUSH_TAG_TUPLE ? v.as.tuple : NULL;

  for (size_t i = 0; t && i < t->n; i++)
    if (capture_form(t->items[i]) != FORM_TENSOR && capture_form(t->items[i]) != FORM_INT &&
        !(is_test && capture_form(t->items[i]) == FORM_BOOL))
      capture_fail(c, "a function of a higher-order operator returns a value that is no tensor and "
                      "no int");
  if (!t)
    capture_fail(c, "a function of a higher-order operator returns no tuple");
  return (result){t->items, (uint32_t)t->n};
}

/* Call the closure inside of its graph. */
static result call_inside(capture *c, capture_branch *b, rush_value fn, bool is_test)
{
  const closure *f = closure_in(c, fn);
  const capture_graph before = capture_branch_enter(c, b);
  const result r = result_of(c, capture_call(c, f->f, f->args, f->n_args), is_test);

  capture_leave(c, before);
  if (is_test && r.n != 1)
    capture_fail(c, "the condition of while_loop returns %u values", r.n);
  capture_branch_close(c, b, r.items, r.n, is_test);
  return r;
}

static fx_arg tuple_arg(capture *c, const fx_arg *items, uint32_t n)
{
  return (fx_arg){.kind = FX_TUPLE, .n = n, .as.items = capture_args(c, items, n)};
}

static fx_arg list_arg(capture *c, const fx_arg *items, uint32_t n)
{
  fx_arg a = tuple_arg(c, items, n);

  a.kind = FX_LIST;
  return a;
}

static const fx_arg *nodes_of(capture *c, const rush_value *tensors, uint32_t n)
{
  fx_arg *out = session_array(c->s, fx_arg, (size_t)n + 1);

  for (uint32_t i = 0; i < n; i++)
    out[i] = capture_arg(c, tensors[i], NULL);
  return out;
}

/* What the graph uses of outside. */
static const fx_arg *used_by(capture *c, const capture_branch *b)
{
  fx_arg *out = session_array(c->s, fx_arg, (size_t)b->n_used + 1);

  for (uint32_t i = 0; i < b->n_used; i++)
    out[i] = fx_arg_node((fx_node *)(uintptr_t)b->used[i]);
  return out;
}

typedef symshape_facts describe(capture *c, uint32_t i, void *arg);

/* Make the n results of a node, each as `facts` describes it. */
static void take_results(capture *c, fx_node *n, const result *like, uint32_t n_results,
                         describe *facts, void *arg, rush_value *out)
{
  const fx_val **items = session_alloc_in(c->s, c->mem, ((size_t)n_results + 1) * sizeof *items);
  fx_val *all = session_alloc_in(c->s, c->mem, sizeof *all);

  *all = (fx_val){.kind = FX_VAL_LIST, .is_tuple = true, .n = n_results, .as.items = items};
  n->val = all;
  for (uint32_t i = 0; i < n_results; i++) {
    const fx_arg args[] = {fx_arg_node(n), fx_arg_int(i)};
    fx_node *item = capture_node(c, "_operator.getitem", args, 2);
    if (capture_form(like->items[i]) == FORM_INT) {
      out[i] = capture_fresh(c, FX_VAL_INT, item);
      items[i] = item->val;
      continue;
    }
    const symshape_facts f = facts(c, i, arg);
    const bool grad = capture_tensor_of(c, like->items[i].as.tensor)->requires_grad;
    items[i] = item->val = capture_val(c, &f, grad);
    out[i] = capture_tensor_new(c, item, &f, grad);
  }
}

static symshape_facts same_facts(capture *c, uint32_t i, void *arg)
{
  return capture_tensor_of(c, ((const result *)arg)->items[i].as.tensor)->facts;
}

/* Name the placeholders behind the first n of a graph by number, as PyTorch does. */
static void name_operands(capture *c, capture_branch *b, uint32_t n)
{
  uint32_t at = 0;

  for (fx_node *p = b->g->first; p && p->op == FX_PLACEHOLDER; p = p->next, at++)
    if (at >= n) {
      p->name = fx_names_make(c->s, &b->g->names,
                              str_of(session_printf(c->s, "arg%u_1", at)));
      p->target = p->name;
    }
}

/* -- Operators --------------------------------------------------------------------------------- */

/* cond: (condition, closure, closure, operands...) */
static void higher_cond(capture *c, const ir_node *n, const rush_value *in, rush_value *out)
{
  capture_branch *yes = capture_branch_open(c), *no = capture_branch_open(c);
  fx_node *predicate = in[0].tag == RUSH_TAG_TENSOR ? capture_arg(c, in[0], NULL).as.node
                                                    : capture_predicate(c, in[0]);

  for (uint32_t i = 3; i < n->n_inputs; i++) {
    const fx_arg a = capture_arg(c, in[i], NULL);
    (void)capture_operand(c, yes, a.as.node);
    (void)capture_operand(c, no, a.as.node);
  }
  const uint32_t n_given = yes->n_used;
  result a = call_inside(c, yes, in[1], false);
  const result b = call_inside(c, no, in[2], false);
  if (a.n != b.n || a.n != n->n_outputs)
    capture_fail(c, "the branches of torch.cond return %u and %u values", a.n, b.n);
  for (uint32_t i = 0; i < a.n; i++) {
    if (capture_form(a.items[i]) != capture_form(b.items[i]))
      capture_fail(c, "the branches of torch.cond return a tensor and a number");
    if (capture_form(a.items[i]) == FORM_INT)
      continue;
    const capture_tensor *x = capture_tensor_of(c, a.items[i].as.tensor),
                         *y = capture_tensor_of(c, b.items[i].as.tensor);
    capture_check_same(c, &x->facts, &y->facts);
  }
  fx_node *made =
    capture_add_cond(c, predicate, yes, no, capture_drop_unused(c, yes, no, n_given));
  take_results(c, made, &a, a.n, same_facts, &a, out);
}

/* while_loop: (closure, closure, carried..., parameters of the first..., of the second...) */
static void higher_while(capture *c, const ir_node *n, const rush_value *in, rush_value *out)
{
  capture_branch *test = capture_branch_open(c), *body = capture_branch_open(c);
  const uint32_t n_carried = n->n_outputs;

  for (uint32_t i = 0; i < n_carried; i++) {
    const char *name = session_printf(c->s, "arg%u_1", i);
    capture_bind_parameter(c, test, in[2 + n_carried + i], name);
    capture_bind_parameter(c, body, in[2 + 2 * n_carried + i], name);
  }
  (void)call_inside(c, test, in[0], true);
  const result r = call_inside(c, body, in[1], false);
  if (r.n != n_carried)
    capture_fail(c, "the body of while_loop returns %u values of %u", r.n, n_carried);
  capture_add_while(c, test, body, in + 2, r.items, n_carried, out);
}

void capture_add_while(capture *c, capture_branch *test, capture_branch *body,
                       const rush_value *carried, const rush_value *next, uint32_t n,
                       rush_value *results)
{
  const uint32_t number = c->g->n_subgraphs / 2;
  result first = {carried, n};
  const result after = {next, n};
  fx_arg args[4];

  for (uint32_t i = 0; i < n; i++) {
    if (capture_form(carried[i]) != capture_form(next[i]))
      capture_fail(c, "the body of while_loop makes a tensor of a number, or a number of a tensor");
    if (capture_form(carried[i]) == FORM_TENSOR)
      capture_check_same(c, &capture_tensor_of(c, next[i].as.tensor)->facts,
                         &capture_tensor_of(c, carried[i].as.tensor)->facts);
  }
  const uint32_t n_used = capture_share_operands(c, test, body, n, 0);
  name_operands(c, test, n);
  name_operands(c, body, n);
  args[2] = tuple_arg(c, nodes_of(c, carried, n), n);
  args[3] = tuple_arg(c, used_by(c, test), n_used);
  args[0] = capture_branch_graph(c, "while_loop_cond_graph", number, test);
  args[1] = capture_branch_graph(c, "while_loop_body_graph", number, body);
  fx_node *made = capture_node(c, "torch.ops.higher_order.while_loop", args, 4);
  take_results(c, made, &after, n, same_facts, &first, results);
}

typedef struct rows { /* of results that are stacked: all but the first n_carried */
  result of, carried;
  symint n;
} rows;

static symshape_facts row_facts(capture *c, uint32_t i, void *arg)
{
  const rows *r = arg;

  if (i < r->carried.n)
    return same_facts(c, i, (void *)(uintptr_t)&r->carried);
  return with_first(c, &capture_tensor_of(c, r->of.items[i].as.tensor)->facts, r->n);
}

/* scan: (closure, n_carried, carried..., xs..., parameters of both...); map: without carried. */
static void higher_scan(capture *c, const ir_node *n, const rush_value *in, rush_value *out,
                        bool is_map)
{
  const uint32_t n_carried = (uint32_t)in[1].as.i, n_all = (n->n_inputs - 2) / 2;
  const uint32_t number = c->g->n_subgraphs;
  capture_branch *b = capture_branch_open(c);
  fx_arg args[4];

  for (uint32_t i = 0; i < n_all; i++) {
    const fx_arg a = capture_arg(c, in[2 + i], NULL);
    capture_bind_parameter(c, b, in[2 + n_all + i],
                           is_map && a.kind == FX_NODE ? a.as.node->name
                                                       : session_printf(c->s, "arg%u_1", i));
  }
  rows r = {.of = call_inside(c, b, in[0], false), .carried = {in + 2, n_carried}};
  if (r.of.n != n->n_outputs || n_carried >= n_all)
    capture_fail(c, "a scan returns %u values of %u", r.of.n, n->n_outputs);
  r.n = capture_tensor_of(c, in[2 + n_carried].as.tensor)->facts.sizes[0];
  if (!is_map) /* its function returns a list */
    ((fx_arg *)(uintptr_t)b->g->last->args)->kind = FX_LIST;
  const fx_arg *all = nodes_of(c, in + 2, n_all);
  uint32_t at = 1;
  if (!is_map)
    args[at++] = list_arg(c, all, n_carried);
  args[at++] = list_arg(c, all + n_carried, n_all - n_carried);
  args[at++] = tuple_arg(c, used_by(c, b), b->n_used);
  name_operands(c, b, is_map ? UINT32_MAX : n_all);
  if (is_map)
    args[1].kind = FX_LIST, args[2].kind = FX_LIST;
  args[0] = capture_branch_graph(c, is_map ? "body_graph" : "scan_combine_graph", number, b);
  fx_node *made = capture_node(
    c, is_map ? "torch.ops.higher_order.map_impl" : "torch.ops.higher_order.scan", args, at);
  take_results(c, made, &r.of, r.of.n, row_facts, &r, out);
}

/* expect: (closure): the results of the next operator without a shape rule look like those of the
 * closure, whose nodes are thrown away. */
static void expect(capture *c, rush_value fn)
{
  const closure *f = closure_in(c, fn);
  const bool was = c->is_scratch;
  const capture_graph before = capture_branch_enter(c, capture_branch_open(c));

  c->is_scratch = true;
  const result r = result_of(c, capture_call(c, f->f, f->args, f->n_args), false);
  c->is_scratch = was;
  capture_leave(c, before);
  c->expected = r.items;
  c->n_expected = r.n;
}

/* -- torch.vmap -------------------------------------------------------------------------------- */

/* Move a dimension of what facts describe to the front (or, with `back`, from there to `dim`). */
static symshape_facts with_dim_moved(capture *c, const symshape_facts *of, int dim, bool back)
{
  symshape_facts f = *of;

  f.sizes = session_array(c->s, symint, 2 * (size_t)f.n_dims + 1);
  f.strides = f.sizes + f.n_dims;
  for (int i = 0; i < f.n_dims; i++) {
    const int at = i == 0 ? dim : i <= dim ? i - 1 : i; /* where the front's i is in the other */
    f.sizes[back ? at : i] = of->sizes[back ? i : at];
    f.strides[back ? at : i] = of->strides[back ? i : at];
  }
  return f;
}

/* Return a dimension among an operator's arguments; `n`: how many there are. */
static int dim_in(capture *c, rush_value v, int n)
{
  if (v.tag != RUSH_TAG_INT || v.as.i < 0 || v.as.i >= n)
    capture_fail(c, "torch.vmap over a dimension that the tensor does not have");
  return (int)v.as.i;
}

/* A call of torch._functorch.predispatch: nodes between them see one sample of a batch. */
static void map_samples(capture *c, const ir_node *n, const rush_value *in, rush_value *out)
{
  const char *name = ir_node_kind_name(n);
  const bool enters = strcmp(name, "_add_batch_dim") == 0;
  fx_arg args[4];
  symshape_facts f;

  if (n->n_inputs > 4 || (n->n_outputs && n->n_inputs < (enters ? 3 : 4)))
    capture_fail(c, "%s with %u arguments", name, n->n_inputs);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    args[i] = capture_arg(c, in[i], NULL);
  fx_node *made = capture_named_node(
    c, session_printf(c->s, "torch._functorch.predispatch.%s", name), name, args, n->n_inputs);
  made->returns_none = !n->n_outputs;
  if (!n->n_outputs)
    return;
  const capture_tensor *t = capture_tensor_of(c, in[0].as.tensor);
  if (enters) {
    f = with_dim_moved(c, &t->facts, dim_in(c, in[1], t->facts.n_dims), false);
    f = without_first(c, &f);
  } else {
    f = with_first(c, &t->facts, capture_symint(in[2], c->env));
    f = with_dim_moved(c, &f, dim_in(c, in[3], f.n_dims), true);
  }
  out[0] = capture_tensor_new(c, made, &f, t->requires_grad);
  made->val = capture_val(c, &f, t->requires_grad);
}

/* -- Regions and others ------------------------------------------------------------------------ */

/* autocast: (device, dtype, enabled, cache) at the begin of a region, () at its end */
static void mark_autocast(capture *c, const ir_node *n, const rush_value *in)
{
  fx_arg args[4];

  for (uint32_t i = 0; i < n->n_inputs && i < 4; i++)
    args[i] = capture_arg(c, in[i], NULL);
  if (n->n_inputs)
    args[1].kind = FX_DTYPE;
  capture_mark_autocast(c, args, n->n_inputs ? 4 : 0);
}

void capture_higher(capture *c, const ir_node *n, const rush_value *in, rush_value *out)
{
  const char *name = ir_node_kind_name(n);

  if (strcmp(name, "parameter") == 0)
    out[0] = new_parameter(c, in[0], in[1].as.b);
  else if (strcmp(name, "number") == 0)
    out[0] = capture_wrapped_number(c, in[0]);
  else if (strcmp(name, "assertion") == 0)
    capture_assert(c, in[0], in[1]);
  else if (strcmp(name, "decided") == 0)
    capture_decided(c, in[0], in[1]);
  else if (strcmp(name, "constrain") == 0)
    capture_constrain(c, in[0], in[1], in[2]);
  else if (strcmp(name, "defer_guards") == 0)
    c->defers_guards = true;
  else if (strcmp(name, "expect") == 0)
    expect(c, in[0]);
  else if (strcmp(name, "size_of_data") == 0)
    out[0] = capture_int(c, sym_fresh(c->env, in[0].as.i, in[1].as.i));
  else if (strcmp(name, "autocast") == 0)
    mark_autocast(c, n, in);
  else if (strcmp(name, "cond") == 0)
    higher_cond(c, n, in, out);
  else if (strstr(name, "_batch_dim") || strncmp(name, "_vmap_", 6) == 0 ||
           strcmp(name, "lazy_load_decompositions") == 0)
    map_samples(c, n, in, out);
  else if (strcmp(name, "module_inputs") == 0 || strcmp(name, "module_outputs") == 0)
    capture_keep_call(c, in, n->n_inputs, name[7] == 'i');
  else if (strcmp(name, "while_loop") == 0)
    higher_while(c, n, in, out);
  else if (strcmp(name, "scan") == 0 || strcmp(name, "map") == 0)
    higher_scan(c, n, in, out, *name == 'm');
  else
    capture_fail(c, "the higher-order operator %s cannot be exported", name);
}
