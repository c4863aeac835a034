/* export/lower_hop.c -- higher-order operators as control flow of the IR: cond is prim::If,
 * while_loop, map and scan are prim::Loop, the wrappers are their bodies with what they set around
 * them.
 *
 * Inner graphs are read directly into the blocks, so nothing is copied; a while_loop's condition is
 * read twice (before the loop and at its end). */
#include "export/lower_int.h"

/* -- Operands ---------------------------------------------------------------------------------- */

typedef struct operands {
  ir_value **v;
  uint32_t n;
} operands;

static _Noreturn void bad(lowering *lo, const lower_node *n, const char *what)
{
  lower_fail(lo, "%.*s: %s", (int)n->target.len, n->target.p, what);
}

/* Return the items of argument i if it is a list, or the value itself. */
static operands items_of(lowering *lo, const lower_node *n, uint32_t i)
{
  operands o = {0};

  if (i >= n->n_args || !n->args[i].value)
    bad(lo, n, "an operand is missing");
  ir_node *list = n->args[i].value->node;
  if (list->kind != IR_LIST_CONSTRUCT && list->kind != IR_TUPLE_CONSTRUCT) {
    rush_value empty;
    if (ir_value_as_constant(n->args[i].value, &empty) && empty.tag == RUSH_TAG_LIST &&
        empty.as.list->n == 0)
      return o;
    o.v = session_new(lo->s, ir_value *);
    o.v[o.n++] = n->args[i].value;
    return o;
  }
  o.n = list->n_inputs;
  o.v = session_array(lo->s, ir_value *, o.n + 1);
  for (uint32_t k = 0; k < o.n; k++)
    o.v[k] = ir_node_input(list, k);
  return o;
}

static operands joined(lowering *lo, operands a, operands b)
{
  operands o = {session_array(lo->s, ir_value *, (size_t)a.n + b.n + 1), a.n + b.n};

  if (a.n)
    memcpy(o.v, a.v, a.n * sizeof *o.v);
  if (b.n)
    memcpy(o.v + a.n, b.v, b.n * sizeof *o.v);
  return o;
}

static const fx_graph *graph_arg(lowering *lo, const lower_node *n, uint32_t i)
{
  if (i >= n->n_args || !n->args[i].graph)
    bad(lo, n, "a graph is missing");
  return n->args[i].graph;
}

static operands run_inner(lowering *lo, const fx_graph *graph, operands in)
{
  operands o;

  o.v = lower_inner(lo, graph, in.v, in.n, &o.n);
  return o;
}

static ir_value *as_bool(lowering *lo, const lower_node *n, ir_value *v)
{
  if (type_is(v->type, TYPE_TENSOR))
    return lower_emit(lo, "aten::Bool", "Tensor", &v, 1);
  if (!type_is(v->type, TYPE_BOOL))
    bad(lo, n, "the condition is no bool");
  return v;
}

/* Check the types of two values that become one: of branches, or a loop's value and its next
 * one. */
static void need_same_type(lowering *lo, const lower_node *n, const ir_value *a, const ir_value *b)
{
  if (!type_equal(a->type, b->type))
    bad(lo, n, "values of different types where one is meant");
}

static void bind_results(lowering *lo, const lower_node *n, ir_value *const *v, uint32_t count)
{
  if (n->n_results > count && n->is_used)
    bad(lo, n, "more outputs than its graph has");
  for (uint32_t i = 0; i < n->n_results && i < count; i++)
    n->results[i] = v[i];
}

static ir_value *int_constant(lowering *lo, int64_t i)
{
  return lower_constant(lo, value_int(i), NULL);
}
static ir_value *true_constant(lowering *lo) { return lower_constant(lo, value_bool(true), NULL); }

/* -- cond -------------------------------------------------------------------------------------- */

static void lower_cond(lowering *lo, const lower_node *n)
{
  operands in = n->n_args > 3 ? items_of(lo, n, 3) : (operands){0};
  ir_block *outer = lo->block;
  uint32_t n_out = 0;

  if (n->n_args < 3 || !n->args[0].value)
    bad(lo, n, "the predicate is missing");
  ir_value *pred = as_bool(lo, n, n->args[0].value);
  ir_node *node = ir_node_new(lo->s, lo->g, IR_IF, &pred, 1);
  ir_node_append(node, lo->block);
  for (uint32_t i = 0; i < 2; i++) {
    lo->block = ir_node_add_block(lo->s, node);
    operands out = run_inner(lo, graph_arg(lo, n, i + 1), in);
    for (uint32_t k = 0; k < out.n; k++) {
      ir_block_add_output(lo->s, lo->block, out.v[k]);
      if (i == 0)
        ir_node_add_output(lo->s, node, out.v[k]->type);
      else if (k < node->n_outputs)
        need_same_type(lo, n, node->outputs[k], out.v[k]);
    }
    if (i == 1 && out.n != n_out)
      bad(lo, n, "branches with different numbers of outputs");
    n_out = out.n;
  }
  lo->block = outer;
  bind_results(lo, n, node->outputs, node->n_outputs);
}

/* -- Loops ------------------------------------------------------------------------------------- */

/* Make a loop node in lo->block, whose block becomes lo->block; *carried receives the block's
 * carried inputs. */
static ir_node *open_loop(lowering *lo, ir_value *trips, ir_value *first, operands carry,
                          ir_value **index, operands *carried)
{
  operands in = joined(lo, (operands){(ir_value *[]){trips, first}, 2}, carry);
  ir_node *node = ir_node_new(lo->s, lo->g, IR_LOOP, in.v, in.n);

  ir_node_append(node, lo->block);
  lo->block = ir_node_add_block(lo->s, node);
  *index = ir_block_add_input(lo->s, lo->block, type_simple(TYPE_INT), NULL);
  carried->n = carry.n;
  carried->v = session_array(lo->s, ir_value *, carry.n + 1);
  for (uint32_t i = 0; i < carry.n; i++)
    carried->v[i] = ir_block_add_input(lo->s, lo->block, carry.v[i]->type, NULL);
  return node;
}

static void close_loop(lowering *lo, const lower_node *n, ir_node *node, ir_block *outer,
                       ir_value *again, operands next)
{
  ir_block_add_output(lo->s, lo->block, again);
  for (uint32_t i = 0; i < next.n; i++) {
    need_same_type(lo, n, ir_block_input(lo->block, i + 1), next.v[i]);
    ir_block_add_output(lo->s, lo->block, next.v[i]);
    ir_node_add_output(lo->s, node, next.v[i]->type);
  }
  lo->block = outer;
}

static operands first_of(operands o, uint32_t n) { return (operands){o.v, o.n < n ? o.n : n}; }

/* A condition is read before the loop and at its end, so nested conditions double at each level. */
#define MOST_CONDITIONS 4

static ir_value *lower_condition(lowering *lo, const lower_node *n, const fx_graph *cond,
                                 operands in)
{
  if (lo->conditions == MOST_CONDITIONS)
    session_fail_status(lo->s, RUSH_ELIMIT, NULL, NULL,
                        "%s: offset %zu: more than %d conditions of while_loop inside each other",
                        lo->data->place, lo->at, MOST_CONDITIONS);
  lo->conditions++;
  operands test = run_inner(lo, cond, in);
  lo->conditions--;
  if (test.n != 1)
    bad(lo, n, "the condition returns more than one value");
  return as_bool(lo, n, test.v[0]);
}

/* Make n empty lists of tensors. */
static ir_value **new_lists(lowering *lo, uint32_t n)
{
  ir_value **lists = session_array(lo->s, ir_value *, (size_t)n + 1);

  for (uint32_t i = 0; i < n; i++)
    lists[i] = lower_list(lo, NULL, 0, type_simple(TYPE_TENSOR));
  return lists;
}

static void append(lowering *lo, const lower_node *n, ir_value *list, ir_value *v)
{
  if (!type_is(v->type, TYPE_TENSOR))
    bad(lo, n, "a result that is collected is no tensor");
  lower_emit(lo, "aten::append", "t", (ir_value *[]){list, v}, 2);
}

/* Lower while_loop, or with `stacks` the loop whose results are the values of all trips. */
static void lower_while(lowering *lo, const lower_node *n, bool stacks)
{
  operands carry = items_of(lo, n, 2), more = n->n_args > 3 ? items_of(lo, n, 3) : (operands){0},
           inside;
  const fx_graph *cond = graph_arg(lo, n, 0), *body = graph_arg(lo, n, 1);
  ir_block *outer = lo->block;
  ir_value *index, *zero = int_constant(lo, 0);
  ir_value **lists = stacks ? new_lists(lo, carry.n) : NULL;

  ir_value *first = lower_condition(lo, n, cond, joined(lo, carry, more));
  ir_node *node = open_loop(lo, int_constant(lo, INT64_MAX), first, carry, &index, &inside);
  operands next = run_inner(lo, body, joined(lo, inside, more));
  if (next.n != carry.n)
    bad(lo, n, "the body returns another number of values than it takes");
  for (uint32_t i = 0; stacks && i < next.n; i++)
    append(lo, n, lists[i], next.v[i]);
  close_loop(lo, n, node, outer, lower_condition(lo, n, cond, joined(lo, next, more)), next);
  for (uint32_t i = 0; stacks && i < next.n; i++)
    lists[i] = lower_emit(lo, "aten::stack", "", (ir_value *[]){lists[i], zero}, 2);
  bind_results(lo, n, stacks ? lists : node->outputs, node->n_outputs);
}

/* Loop over slices along dim 0; results are collected in lists and stacked. */
static operands loop_over(lowering *lo, const lower_node *n, const fx_graph *body, operands carry,
                          operands xs, operands more)
{
  ir_block *outer = lo->block;
  ir_value *index, *zero = int_constant(lo, 0);
  operands inside, slices = {session_array(lo->s, ir_value *, xs.n + 1), xs.n};
  const uint32_t n_results = n->n_results;

  if (xs.n == 0 || n_results < carry.n)
    bad(lo, n, "nothing to go over");
  uint32_t n_lists = n_results - carry.n;
  ir_value **lists = new_lists(lo, n_lists);
  ir_value *trips = lower_emit(lo, "aten::size", "int", (ir_value *[]){xs.v[0], zero}, 2);
  ir_node *node = open_loop(lo, trips, true_constant(lo), carry, &index, &inside);
  for (uint32_t i = 0; i < xs.n; i++)
    slices.v[i] = lower_emit(lo, "aten::select", "int", (ir_value *[]){xs.v[i], zero, index}, 3);
  operands out = run_inner(lo, body, joined(lo, joined(lo, inside, slices), more));
  if (out.n != n_results)
    bad(lo, n, "the body returns another number of values than the outputs");
  for (uint32_t i = 0; i < n_lists; i++)
    append(lo, n, lists[i], out.v[carry.n + i]);
  close_loop(lo, n, node, outer, true_constant(lo), first_of(out, carry.n));
  operands result = {session_array(lo->s, ir_value *, n_results + 1), n_results};
  for (uint32_t i = 0; i < carry.n; i++)
    result.v[i] = node->outputs[i];
  for (uint32_t i = 0; i < n_lists; i++)
    result.v[carry.n + i] = lower_emit(lo, "aten::stack", "", (ir_value *[]){lists[i], zero}, 2);
  return result;
}

static void lower_map(lowering *lo, const lower_node *n)
{
  operands xs = items_of(lo, n, 1), more = n->n_args > 2 ? items_of(lo, n, 2) : (operands){0};
  operands out = loop_over(lo, n, graph_arg(lo, n, 0), (operands){0}, xs, more);

  bind_results(lo, n, out.v, out.n);
}

/* True for operands; named arguments and texts are the wrapper's own: a policy, an identifier. */
static bool is_operand(const lower_arg *a)
{
  return a->name.len == 0 && a->value && !type_is(a->value->type, TYPE_STRING) &&
         !type_is(a->value->type, TYPE_DICT);
}

/* Read running results: the operator combines each with the next slice. */
static void lower_associative_scan(lowering *lo, const lower_node *n)
{
  operands xs = items_of(lo, n, 1),
           more = n->n_args > 2 && is_operand(&n->args[2]) ? items_of(lo, n, 2) : (operands){0};
  const fx_graph *body = graph_arg(lo, n, 0);
  ir_value *zero = int_constant(lo, 0), *one = int_constant(lo, 1), *index;
  operands first = {session_array(lo->s, ir_value *, xs.n + 1), xs.n},
           slices = {session_array(lo->s, ir_value *, xs.n + 1), xs.n};
  ir_value **lists = session_array(lo->s, ir_value *, xs.n + 1);
  ir_block *outer = lo->block;
  operands inside;

  if (xs.n == 0)
    bad(lo, n, "nothing to go over");
  for (uint32_t i = 0; i < xs.n; i++) {
    first.v[i] = lower_emit(lo, "aten::select", "int", (ir_value *[]){xs.v[i], zero, zero}, 3);
    lists[i] = lower_list(lo, &first.v[i], 1, type_simple(TYPE_TENSOR));
  }
  ir_value *trips = lower_emit(lo, "aten::size", "int", (ir_value *[]){xs.v[0], zero}, 2);
  trips = lower_emit(lo, "aten::sub", "int", (ir_value *[]){trips, one}, 2);
  ir_node *node = open_loop(lo, trips, true_constant(lo), first, &index, &inside);
  index = lower_emit(lo, "aten::add", "int", (ir_value *[]){index, one}, 2);
  for (uint32_t i = 0; i < xs.n; i++)
    slices.v[i] = lower_emit(lo, "aten::select", "int", (ir_value *[]){xs.v[i], zero, index}, 3);
  operands next = run_inner(lo, body, joined(lo, joined(lo, inside, slices), more));
  if (next.n != xs.n)
    bad(lo, n, "the operator returns another number of values than it takes");
  for (uint32_t i = 0; i < xs.n; i++)
    append(lo, n, lists[i], next.v[i]);
  close_loop(lo, n, node, outer, true_constant(lo), next);
  for (uint32_t i = 0; i < xs.n; i++)
    lists[i] = lower_emit(lo, "aten::stack", "", (ir_value *[]){lists[i], zero}, 2);
  bind_results(lo, n, lists, xs.n);
}

static void lower_scan(lowering *lo, const lower_node *n)
{
  operands init = items_of(lo, n, 1), xs = items_of(lo, n, 2),
           more = n->n_args > 3 ? items_of(lo, n, 3) : (operands){0};
  operands out = loop_over(lo, n, graph_arg(lo, n, 0), init, xs, more);

  bind_results(lo, n, out.v, out.n);
}

/* -- Wrappers ---------------------------------------------------------------------------------- */

/* Read (enabled, graph, operands...), (device, dtype, enabled, cache, graph, operands...): the
 * first graph argument and the arguments after it. */
static void lower_wrapper(lowering *lo, const lower_node *n)
{
  operands in = {0};
  uint32_t at = 0;

  while (at < n->n_args && !n->args[at].graph)
    at++;
  const fx_graph *graph = graph_arg(lo, n, at);
  for (uint32_t i = at + 1; i < n->n_args; i++)
    if (is_operand(&n->args[i]))
      in = joined(lo, in, items_of(lo, n, i));
  operands out = run_inner(lo, graph, in);
  bind_results(lo, n, out.v, out.n);
}

/* Read (enabled, graph, operands...). */
static void lower_grad_wrapper(lowering *lo, const lower_node *n)
{
  ir_value *before = lower_emit(lo, "aten::is_grad_enabled", "", NULL, 0);

  if (n->n_args < 1 || !n->args[0].value)
    bad(lo, n, "the mode is missing");
  lower_emit(lo, "aten::set_grad_enabled", "", &n->args[0].value, 1);
  lower_wrapper(lo, n);
  lower_emit(lo, "aten::set_grad_enabled", "", &before, 1);
}

static rush_value constant_arg(const lower_node *n, uint32_t i)
{
  rush_value v = value_none();

  if (i < n->n_args && n->args[i].value)
    (void)ir_value_as_constant(n->args[i].value, &v);
  return v;
}

/* Read (device, dtype, enabled, cache, graph, operands...); only the CPU's matters here. */
static void lower_autocast_wrapper(lowering *lo, const lower_node *n)
{
  rush_value device = constant_arg(n, 0), dtype = constant_arg(n, 1), enabled = constant_arg(n, 2);
  const bool is_cpu = device.tag != RUSH_TAG_STRING || str_is(value_str(device), "cpu");
  int before = lo->autocast;

  if (is_cpu && dtype.tag == RUSH_TAG_INT && dtype.as.i != RUSH_BFLOAT16 &&
      dtype.as.i != RUSH_FLOAT16 && dtype.as.i != RUSH_FLOAT32)
    bad(lo, n, "autocast to another dtype than bfloat16, float16 and float32");
  if (is_cpu)
    lo->autocast = enabled.tag != RUSH_TAG_BOOL || !enabled.as.b ? -1
                  : dtype.tag == RUSH_TAG_INT                   ? (int)dtype.as.i
                                                                : RUSH_BFLOAT16;
  lower_wrapper(lo, n);
  lo->autocast = before;
}

/* Read with_effects(token, operator, ...): the operator, at its position among the nodes.  The
 * first output is the next token; outputs that are None are ignored. */
static void lower_effects(lowering *lo, const lower_node *n)
{
  rush_value target;
  lower_node inner = *n;

  if (n->n_args < 2 || !n->args[1].value || !ir_value_as_constant(n->args[1].value, &target) ||
      target.tag != RUSH_TAG_STRING)
    bad(lo, n, "the operator is missing");
  inner.target = value_str(target);
  inner.args = n->args + 2;
  inner.n_args = n->n_args - 2;
  inner.n_positional = n->n_positional > 2 ? n->n_positional - 2 : 0;
  if (n->n_results)
    n->results[0] = lower_constant(lo, value_none(), NULL);
  inner.results = n->results + 1;
  inner.vals = n->vals ? n->vals + 1 : NULL;
  inner.n_results = n->n_results ? n->n_results - 1 : 0;
  lower_call(lo, &inner);
}

bool lower_higher_order(lowering *lo, const lower_node *n)
{
  static const char prefix[] = "torch.ops.higher_order.";
  size_t skip = sizeof prefix - 1;

  if (n->target.len <= skip || memcmp(n->target.p, prefix, skip) != 0)
    return false;
  str name = {n->target.p + skip, n->target.len - skip};
  if (str_is(name, "cond"))
    lower_cond(lo, n);
  else if (str_is(name, "while_loop"))
    lower_while(lo, n, false);
  else if (str_is(name, "while_loop_stack_output"))
    lower_while(lo, n, true);
  else if (str_is(name, "map_impl") || str_is(name, "map"))
    lower_map(lo, n);
  else if (str_is(name, "scan"))
    lower_scan(lo, n);
  else if (str_is(name, "associative_scan"))
    lower_associative_scan(lo, n);
  else if (str_is(name, "wrap_with_set_grad_enabled"))
    lower_grad_wrapper(lo, n);
  else if (str_is(name, "invoke_subgraph") || str_is(name, "tag_activation_checkpoint") ||
           str_is(name, "strict_mode") || str_is(name, "foreach_map") || str_is(name, "wrap") ||
           str_is(name, "hints_wrapper") || str_is(name, "run_const_graph"))
    lower_wrapper(lo, n);
  else if (str_is(name, "wrap_with_autocast"))
    lower_autocast_wrapper(lo, n);
  else if (str_is(name, "with_effects"))
    lower_effects(lo, n);
  else
    return lower_functional(lo, n, name);
  return true;
}
