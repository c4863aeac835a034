/* archive/exported_hop.c -- higher-order operators as control flow of the IR: cond is prim::If,
 * while_loop, map and scan are prim::Loop, the wrappers are their bodies with what they set around
 * them.
 *
 * Inner graphs are read directly into the blocks, so nothing is copied; a while_loop's condition is
 * read twice (before the loop and at its end). */
#include "archive/exported_int.h"

/* -- Operands ---------------------------------------------------------------------------------- */

typedef struct operands {
  ir_value **v;
  uint32_t n;
} operands;

static _Noreturn void bad(ex_reader *r, const ex_node *n, const char *what)
{
  ex_fail(r, "%.*s: %s", (int)n->target.len, n->target.p, what);
}

/* Return the items of argument i if it is a list, or the value itself. */
static operands items_of(ex_reader *r, const ex_node *n, uint32_t i)
{
  operands o = {0};

  if (i >= n->n_args || !n->args[i].value)
    bad(r, n, "an operand is missing");
  ir_node *list = n->args[i].value->node;
  if (list->kind != IR_LIST_CONSTRUCT && list->kind != IR_TUPLE_CONSTRUCT) {
    rush_value empty;
    if (ir_value_as_constant(n->args[i].value, &empty) && empty.tag == RUSH_TAG_LIST &&
        empty.as.list->n == 0)
      return o;
    o.v = session_new(r->s, ir_value *);
    o.v[o.n++] = n->args[i].value;
    return o;
  }
  o.n = list->n_inputs;
  o.v = session_array(r->s, ir_value *, o.n + 1);
  for (uint32_t k = 0; k < o.n; k++)
    o.v[k] = ir_node_input(list, k);
  return o;
}

static operands joined(ex_reader *r, operands a, operands b)
{
  operands o = {session_array(r->s, ir_value *, (size_t)a.n + b.n + 1), a.n + b.n};

  if (a.n)
    memcpy(o.v, a.v, a.n * sizeof *o.v);
  if (b.n)
    memcpy(o.v + a.n, b.v, b.n * sizeof *o.v);
  return o;
}

static str graph_arg(ex_reader *r, const ex_node *n, uint32_t i)
{
  if (i >= n->n_args || !n->args[i].graph.p)
    bad(r, n, "a graph is missing");
  return n->args[i].graph;
}

static operands run_inner(ex_reader *r, str graph, operands in)
{
  operands o;

  o.v = ex_read_inner(r, graph, in.v, in.n, &o.n);
  return o;
}

static ir_value *as_bool(ex_reader *r, const ex_node *n, ir_value *v)
{
  if (type_is(v->type, TYPE_TENSOR))
    return ex_emit(r, "aten::Bool", "Tensor", &v, 1);
  if (!type_is(v->type, TYPE_BOOL))
    bad(r, n, "the condition is no bool");
  return v;
}

/* Check the types of two values that become one: of branches, or a loop's value and its next
 * one. */
static void need_same_type(ex_reader *r, const ex_node *n, const ir_value *a, const ir_value *b)
{
  if (!type_equal(a->type, b->type))
    bad(r, n, "values of different types where one is meant");
}

static void bind_results(ex_reader *r, const ex_node *n, ir_value *const *v, uint32_t count)
{
  uint32_t n_names;
  str *names = ex_node_names(r, n, &n_names);

  if (n_names > count)
    bad(r, n, "more outputs than its graph has");
  for (uint32_t i = 0; i < n_names; i++)
    if (names[i].p)
      ex_bind(r, names[i], v[i]);
}

static ir_value *int_constant(ex_reader *r, int64_t i)
{
  return ex_constant(r, value_int(i), NULL);
}
static ir_value *true_constant(ex_reader *r) { return ex_constant(r, value_bool(true), NULL); }

/* -- cond -------------------------------------------------------------------------------------- */

static void read_cond(ex_reader *r, const ex_node *n)
{
  operands in = n->n_args > 3 ? items_of(r, n, 3) : (operands){0};
  ir_block *outer = r->block;
  uint32_t n_out = 0;

  if (n->n_args < 3 || !n->args[0].value)
    bad(r, n, "the predicate is missing");
  ir_value *pred = as_bool(r, n, n->args[0].value);
  ir_node *node = ir_node_new(r->s, r->g, IR_IF, &pred, 1);
  ir_node_append(node, r->block);
  for (uint32_t i = 0; i < 2; i++) {
    r->block = ir_node_add_block(r->s, node);
    operands out = run_inner(r, graph_arg(r, n, i + 1), in);
    for (uint32_t k = 0; k < out.n; k++) {
      ir_block_add_output(r->s, r->block, out.v[k]);
      if (i == 0)
        ir_node_add_output(r->s, node, out.v[k]->type);
      else if (k < node->n_outputs)
        need_same_type(r, n, node->outputs[k], out.v[k]);
    }
    if (i == 1 && out.n != n_out)
      bad(r, n, "branches with different numbers of outputs");
    n_out = out.n;
  }
  r->block = outer;
  bind_results(r, n, node->outputs, node->n_outputs);
}

/* -- Loops ------------------------------------------------------------------------------------- */

/* Make a loop node in r->block, whose block becomes r->block; *carried receives the block's carried
 * inputs. */
static ir_node *open_loop(ex_reader *r, ir_value *trips, ir_value *first, operands carry,
                          ir_value **index, operands *carried)
{
  operands in = joined(r, (operands){(ir_value *[]){trips, first}, 2}, carry);
  ir_node *node = ir_node_new(r->s, r->g, IR_LOOP, in.v, in.n);

  ir_node_append(node, r->block);
  r->block = ir_node_add_block(r->s, node);
  *index = ir_block_add_input(r->s, r->block, type_simple(TYPE_INT), NULL);
  carried->n = carry.n;
  carried->v = session_array(r->s, ir_value *, carry.n + 1);
  for (uint32_t i = 0; i < carry.n; i++)
    carried->v[i] = ir_block_add_input(r->s, r->block, carry.v[i]->type, NULL);
  return node;
}

static void close_loop(ex_reader *r, const ex_node *n, ir_node *node, ir_block *outer,
                       ir_value *again, operands next)
{
  ir_block_add_output(r->s, r->block, again);
  for (uint32_t i = 0; i < next.n; i++) {
    need_same_type(r, n, ir_block_input(r->block, i + 1), next.v[i]);
    ir_block_add_output(r->s, r->block, next.v[i]);
    ir_node_add_output(r->s, node, next.v[i]->type);
  }
  r->block = outer;
}

static operands first_of(operands o, uint32_t n) { return (operands){o.v, o.n < n ? o.n : n}; }

/* A condition is read before the loop and at its end, so nested conditions double at each level. */
#define MOST_CONDITIONS 4

static ir_value *read_condition(ex_reader *r, const ex_node *n, str cond, operands in)
{
  if (r->conditions == MOST_CONDITIONS)
    session_fail_status(r->s, RUSH_ELIMIT, NULL, NULL,
                        "%s: offset %zu: more than %d conditions of while_loop inside each other",
                        r->in.place, r->at, MOST_CONDITIONS);
  r->conditions++;
  operands test = run_inner(r, cond, in);
  r->conditions--;
  if (test.n != 1)
    bad(r, n, "the condition returns more than one value");
  return as_bool(r, n, test.v[0]);
}

static void read_while(ex_reader *r, const ex_node *n)
{
  operands carry = items_of(r, n, 2), more = n->n_args > 3 ? items_of(r, n, 3) : (operands){0},
           inside;
  str cond = graph_arg(r, n, 0), body = graph_arg(r, n, 1);
  ir_block *outer = r->block;
  ir_value *index;

  ir_value *first = read_condition(r, n, cond, joined(r, carry, more));
  ir_node *node = open_loop(r, int_constant(r, INT64_MAX), first, carry, &index, &inside);
  operands next = run_inner(r, body, joined(r, inside, more));
  if (next.n != carry.n)
    bad(r, n, "the body returns another number of values than it takes");
  close_loop(r, n, node, outer, read_condition(r, n, cond, joined(r, next, more)), next);
  bind_results(r, n, node->outputs, node->n_outputs);
}

static void append(ex_reader *r, const ex_node *n, ir_value *list, ir_value *v)
{
  if (!type_is(v->type, TYPE_TENSOR))
    bad(r, n, "a result that is collected is no tensor");
  ex_emit(r, "aten::append", "t", (ir_value *[]){list, v}, 2);
}

/* Loop over slices along dim 0; results are collected in lists and stacked. */
static operands loop_over(ex_reader *r, const ex_node *n, str body, operands carry, operands xs,
                          operands more)
{
  ir_block *outer = r->block;
  ir_value *index, *zero = int_constant(r, 0);
  operands inside, slices = {session_array(r->s, ir_value *, xs.n + 1), xs.n};
  uint32_t n_names;

  ex_node_names(r, n, &n_names);
  if (xs.n == 0 || n_names < carry.n)
    bad(r, n, "nothing to go over");
  uint32_t n_lists = n_names - carry.n;
  ir_value **lists = session_array(r->s, ir_value *, n_lists + 1);
  for (uint32_t i = 0; i < n_lists; i++)
    lists[i] = ex_list(r, NULL, 0, type_simple(TYPE_TENSOR));
  ir_value *trips = ex_emit(r, "aten::size", "int", (ir_value *[]){xs.v[0], zero}, 2);
  ir_node *node = open_loop(r, trips, true_constant(r), carry, &index, &inside);
  for (uint32_t i = 0; i < xs.n; i++)
    slices.v[i] = ex_emit(r, "aten::select", "int", (ir_value *[]){xs.v[i], zero, index}, 3);
  operands out = run_inner(r, body, joined(r, joined(r, inside, slices), more));
  if (out.n != n_names)
    bad(r, n, "the body returns another number of values than the outputs");
  for (uint32_t i = 0; i < n_lists; i++)
    append(r, n, lists[i], out.v[carry.n + i]);
  close_loop(r, n, node, outer, true_constant(r), first_of(out, carry.n));
  operands result = {session_array(r->s, ir_value *, n_names + 1), n_names};
  for (uint32_t i = 0; i < carry.n; i++)
    result.v[i] = node->outputs[i];
  for (uint32_t i = 0; i < n_lists; i++)
    result.v[carry.n + i] = ex_emit(r, "aten::stack", "", (ir_value *[]){lists[i], zero}, 2);
  return result;
}

static void read_map(ex_reader *r, const ex_node *n)
{
  operands xs = items_of(r, n, 1), more = n->n_args > 2 ? items_of(r, n, 2) : (operands){0};
  operands out = loop_over(r, n, graph_arg(r, n, 0), (operands){0}, xs, more);

  bind_results(r, n, out.v, out.n);
}

/* True for operands; named arguments and texts are the wrapper's own: a policy, an identifier. */
static bool is_operand(const ex_arg *a)
{
  return a->name.len == 0 && a->value && !type_is(a->value->type, TYPE_STRING) &&
         !type_is(a->value->type, TYPE_DICT);
}

/* Read running results: the operator combines each with the next slice. */
static void read_associative_scan(ex_reader *r, const ex_node *n)
{
  operands xs = items_of(r, n, 1),
           more = n->n_args > 2 && is_operand(&n->args[2]) ? items_of(r, n, 2) : (operands){0};
  str body = graph_arg(r, n, 0);
  ir_value *zero = int_constant(r, 0), *one = int_constant(r, 1), *index;
  operands first = {session_array(r->s, ir_value *, xs.n + 1), xs.n},
           slices = {session_array(r->s, ir_value *, xs.n + 1), xs.n};
  ir_value **lists = session_array(r->s, ir_value *, xs.n + 1);
  ir_block *outer = r->block;
  operands inside;

  if (xs.n == 0)
    bad(r, n, "nothing to go over");
  for (uint32_t i = 0; i < xs.n; i++) {
    first.v[i] = ex_emit(r, "aten::select", "int", (ir_value *[]){xs.v[i], zero, zero}, 3);
    lists[i] = ex_list(r, &first.v[i], 1, type_simple(TYPE_TENSOR));
  }
  ir_value *trips = ex_emit(r, "aten::size", "int", (ir_value *[]){xs.v[0], zero}, 2);
  trips = ex_emit(r, "aten::sub", "int", (ir_value *[]){trips, one}, 2);
  ir_node *node = open_loop(r, trips, true_constant(r), first, &index, &inside);
  index = ex_emit(r, "aten::add", "int", (ir_value *[]){index, one}, 2);
  for (uint32_t i = 0; i < xs.n; i++)
    slices.v[i] = ex_emit(r, "aten::select", "int", (ir_value *[]){xs.v[i], zero, index}, 3);
  operands next = run_inner(r, body, joined(r, joined(r, inside, slices), more));
  if (next.n != xs.n)
    bad(r, n, "the operator returns another number of values than it takes");
  for (uint32_t i = 0; i < xs.n; i++)
    append(r, n, lists[i], next.v[i]);
  close_loop(r, n, node, outer, true_constant(r), next);
  for (uint32_t i = 0; i < xs.n; i++)
    lists[i] = ex_emit(r, "aten::stack", "", (ir_value *[]){lists[i], zero}, 2);
  bind_results(r, n, lists, xs.n);
}

static void read_scan(ex_reader *r, const ex_node *n)
{
  operands init = items_of(r, n, 1), xs = items_of(r, n, 2),
           more = n->n_args > 3 ? items_of(r, n, 3) : (operands){0};
  operands out = loop_over(r, n, graph_arg(r, n, 0), init, xs, more);

  bind_results(r, n, out.v, out.n);
}

/* -- Wrappers ---------------------------------------------------------------------------------- */

/* Read (enabled, graph, operands...), (device, dtype, enabled, cache, graph, operands...): the
 * first graph argument and the arguments after it. */
static void read_wrapper(ex_reader *r, const ex_node *n)
{
  operands in = {0};
  uint32_t at = 0;

  while (at < n->n_args && !n->args[at].graph.p)
    at++;
  str graph = graph_arg(r, n, at);
  for (uint32_t i = at + 1; i < n->n_args; i++)
    if (is_operand(&n->args[i]))
      in = joined(r, in, items_of(r, n, i));
  operands out = run_inner(r, graph, in);
  bind_results(r, n, out.v, out.n);
}

/* Read (enabled, graph, operands...). */
static void read_grad_wrapper(ex_reader *r, const ex_node *n)
{
  ir_value *before = ex_emit(r, "aten::is_grad_enabled", "", NULL, 0);

  if (n->n_args < 1 || !n->args[0].value)
    bad(r, n, "the mode is missing");
  ex_emit(r, "aten::set_grad_enabled", "", &n->args[0].value, 1);
  read_wrapper(r, n);
  ex_emit(r, "aten::set_grad_enabled", "", &before, 1);
}

static rush_value constant_arg(const ex_node *n, uint32_t i)
{
  rush_value v = value_none();

  if (i < n->n_args && n->args[i].value)
    (void)ir_value_as_constant(n->args[i].value, &v);
  return v;
}

/* Read (device, dtype, enabled, cache, graph, operands...); only the CPU's matters here. */
static void read_autocast_wrapper(ex_reader *r, const ex_node *n)
{
  rush_value device = constant_arg(n, 0), dtype = constant_arg(n, 1), enabled = constant_arg(n, 2);
  int before = r->autocast;

  if (dtype.tag == RUSH_TAG_INT && dtype.as.i != RUSH_BFLOAT16 && dtype.as.i != RUSH_FLOAT16 &&
      dtype.as.i != RUSH_FLOAT32)
    bad(r, n, "autocast to another dtype than bfloat16, float16 and float32");
  if (device.tag != RUSH_TAG_STRING || str_is(value_str(device), "cpu"))
    r->autocast = enabled.tag != RUSH_TAG_BOOL || !enabled.as.b ? -1
                  : dtype.tag == RUSH_TAG_INT                   ? (int)dtype.as.i
                                                                : RUSH_BFLOAT16;
  read_wrapper(r, n);
  r->autocast = before;
}

/* Read with_effects(token, operator, ...): the operator, at its position among the nodes.  The
 * first output is the next token; outputs that are None are ignored. */
static void read_effects(ex_reader *r, const ex_node *n)
{
  rush_value target;
  uint32_t k = 0;
  ex_node inner = *n;

  if (n->n_args < 2 || !n->args[1].value || !ir_value_as_constant(n->args[1].value, &target) ||
      target.tag != RUSH_TAG_STRING)
    bad(r, n, "the operator is missing");
  inner.target = value_str(target);
  inner.args = n->args + 2;
  inner.n_args = n->n_args - 2;
  str *names = ex_node_names(r, n, &k);
  if (k > 0 && names[0].p)
    ex_bind(r, names[0], ex_constant(r, value_none(), NULL));
  inner.skip_outputs = n->skip_outputs + 1;
  ex_read_call(r, &inner);
}

bool ex_read_higher_order(ex_reader *r, const ex_node *n)
{
  static const char prefix[] = "torch.ops.higher_order.";
  size_t skip = sizeof prefix - 1;

  if (n->target.len <= skip || memcmp(n->target.p, prefix, skip) != 0)
    return false;
  str name = {n->target.p + skip, n->target.len - skip};
  if (str_is(name, "cond"))
    read_cond(r, n);
  else if (str_is(name, "while_loop"))
    read_while(r, n);
  else if (str_is(name, "map_impl") || str_is(name, "map"))
    read_map(r, n);
  else if (str_is(name, "scan"))
    read_scan(r, n);
  else if (str_is(name, "associative_scan"))
    read_associative_scan(r, n);
  else if (str_is(name, "wrap_with_set_grad_enabled"))
    read_grad_wrapper(r, n);
  else if (str_is(name, "invoke_subgraph") || str_is(name, "tag_activation_checkpoint") ||
           str_is(name, "strict_mode") || str_is(name, "hints_wrapper") ||
           str_is(name, "run_const_graph"))
    read_wrapper(r, n);
  else if (str_is(name, "wrap_with_autocast"))
    read_autocast_wrapper(r, n);
  else if (str_is(name, "with_effects"))
    read_effects(r, n);
  else
    return false;
  return true;
}
