/* ir/verify.c -- checks the rules of valid graphs.
 *
 * Order and scopes (an input is defined before its user, in its block or one around it), the rings,
 * owners, uses (each input is in its value's list and nothing else is), numbers and names, the
 * forms of the fixed kinds, types along branches and loops, inputs and outputs of operators against
 * their schemas.  O(nodes). */
#include "ir/program.h"

typedef struct verifier {
  session *s;
  const char *pass;
  rush_status blame; /* RUSH_EINTERNAL: our graph; RUSH_EARGUMENT: a caller's */
  const ir_graph *g;
  /* one bit per value number in use. Subgraphs have numbers and names of their own */
  uint8_t *seen;
  bool in_subgraph;
} verifier;

_Noreturn static void broken(const verifier *v, const ir_node *n, const char *rule)
{
  text_buf t;

  text_init(&t, v->s->cx->ctx);
  if (n && n->kind != IR_RETURN && n->kind != IR_PARAM) {
    text_puts(&t, "\n");
    ir_print_node(&t, n);
  }
  char *text = session_take_text(v->s, &t);

  session_fail_status(v->s, v->blame, "RuntimeError", NULL, "%s%sthe graph is broken: %s%s",
                      v->pass ? v->pass : "", v->pass ? ": " : "", rule, text);
}

/* -- Schemas ----------------------------------------------------------------------------------- */

/* True if the schema's type accepts the value's.  Type variables accept all. */
static bool fits(const type *actual, const type *formal)
{
  actual = type_runtime(actual);
  formal = type_runtime(formal);
  if (formal->kind == TYPE_VAR || formal->kind == TYPE_ANY || actual->kind == TYPE_ANY)
    return true;
  if (formal->kind == TYPE_OPTIONAL) {
    if (actual->kind == TYPE_NONE)
      return true;
    if (actual->kind == TYPE_OPTIONAL)
      actual = type_elem(actual);
    return fits(actual, type_elem(formal));
  }
  if (type_has_vars(formal) || formal->kind == TYPE_LIST || formal->kind == TYPE_DICT) {
    if (actual->kind != formal->kind || actual->n_elems != formal->n_elems)
      return false;
    for (uint32_t i = 0; i < formal->n_elems; i++)
      if (!fits(actual->elems[i], formal->elems[i]))
        return false;
    return true;
  }
  return type_is_subtype(actual, formal);
}

bool ir_node_fits_schema(const ir_node *n, const schema *sc)
{
  if (sc->is_vararg ? n->n_inputs < sc->n_args : n->n_inputs != sc->n_args)
    return false;
  for (uint32_t i = 0; i < sc->n_args; i++)
    if (!fits(ir_node_input(n, i)->type, sc->args[i].type))
      return false;
  return true;
}

static bool is_number_type(const type *t)
{
  type_kind k = type_runtime(t)->kind;

  return k == TYPE_INT || k == TYPE_FLOAT || k == TYPE_BOOL || k == TYPE_NUMBER;
}

/* True if the inputs fit.  Exported programs pass the result of .item(), of type Scalar, to
 * operators on int, and bools as Scalar. */
static bool inputs_fit(const ir_node *n)
{
  const schema *sc = n->op->schema;

  if (ir_node_fits_schema(n, sc))
    return true;
  if (sc->is_vararg ? n->n_inputs < sc->n_args : n->n_inputs != sc->n_args)
    return false;
  for (uint32_t i = 0; i < sc->n_args; i++) {
    const type *actual = ir_node_input(n, i)->type, *formal = sc->args[i].type;
    bool numbers =
      is_number_type(actual) && is_number_type(formal) &&
      (type_is(type_runtime(actual), TYPE_NUMBER) || type_is(type_runtime(formal), TYPE_NUMBER));

    if (!fits(actual, formal) && !numbers)
      return false;
  }
  return true;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static void check_name(const verifier *v, const ir_node *n, const ir_value *value)
{
  if (v->in_subgraph)
    return;
  if (value->id >= v->g->next_id)
    broken(v, n, "a value has a number that was never given");
  if (v->seen[value->id / 8] & 1u << value->id % 8)
    broken(v, n, "two values have one number");
  v->seen[value->id / 8] |= (uint8_t)(1u << value->id % 8);
  if (value->name && ir_graph_named(v->g, str_of(value->name)) != value)
    broken(v, n, "a value's name belongs to another value or to none");
}

static void check_uses(const verifier *v, const ir_value *value)
{
  for (const ir_use *u = value->uses; u; u = u->next) {
    if (u->value != value)
      broken(v, u->user, "a use is in another value's list");
    if (u->next && u->next->prev != u)
      broken(v, u->user, "a list of uses is cut");
    bool found = false;
    for (uint32_t i = 0; i < u->user->n_inputs && !found; i++)
      found = u->user->inputs[i] == u;
    if (!found)
      broken(v, u->user, "a use is no input of its user");
  }
}

static void check_inputs(const verifier *v, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    const ir_value *in = ir_node_input(n, i);

    if (!in)
      broken(v, n, "an input is not set");
    if (in->node->graph != v->g || n->inputs[i]->user != n)
      broken(v, n, "an input belongs to another graph or node");
    if (in->node->destroyed || in->index >= in->node->n_outputs ||
        in->node->outputs[in->index] != in)
      broken(v, n, "an input is a value that is gone");
    if (!in->node->block)
      broken(v, n, "an input's node is in no block");
    const ir_use *u = n->inputs[i];
    if (u->prev ? u->prev->next != u : in->uses != u)
      broken(v, n, "an input is not among the uses of its value");
    const ir_block *scope = n->block, *home = in->node->block;
    while (scope && scope != home)
      scope = scope->owner ? scope->owner->block : NULL;
    if (!scope)
      broken(v, n, "an input is defined in a block that is not around its user");
    if (in->node->kind != IR_PARAM && !ir_node_is_before(in->node, n))
      broken(v, n, "an input is defined after its user");
  }
}

bool ir_value_flows(const ir_value *from, const type *to)
{
  const type *t = from->type;

  return fits(t, to) || type_is(to, TYPE_UNION) || (is_number_type(t) && is_number_type(to)) ||
         from->node->kind == IR_UNINITIALIZED || type_is_subtype(t, to) || type_is_subtype(to, t);
}

static void check_if(const verifier *v, const ir_node *n)
{
  if (n->n_inputs != 1 || n->n_blocks != 2)
    broken(v, n, "prim::If has one input and two blocks");
  if (!is_number_type(ir_node_input(n, 0)->type))
    broken(v, n, "the condition of prim::If is a bool");
  for (int b = 0; b < 2; b++) {
    if (ir_block_n_inputs(n->blocks[b]) != 0 || ir_block_n_outputs(n->blocks[b]) != n->n_outputs)
      broken(v, n, "a block of prim::If has no inputs and as many outputs as the node");
    for (uint32_t i = 0; i < n->n_outputs; i++)
      if (ir_node_input(n->blocks[b]->ret, i) &&
          !ir_value_flows(ir_block_output(n->blocks[b], i), n->outputs[i]->type))
        broken(v, n, "a block returns another type than the node's output has");
  }
}

static void check_loop(const verifier *v, const ir_node *n)
{
  if (n->n_blocks != 1 || n->n_inputs < 2)
    broken(v, n, "prim::Loop has one block, a trip count and a condition");
  const ir_block *b = n->blocks[0];

  if (ir_block_n_inputs(b) != n->n_inputs - 1 || ir_block_n_outputs(b) != n->n_outputs + 1 ||
      n->n_outputs != n->n_inputs - 2)
    broken(v, n, "prim::Loop's block takes (i, carried) and returns (condition, carried)");
  if (!is_number_type(ir_node_input(n, 0)->type) || !is_number_type(ir_node_input(n, 1)->type) ||
      !is_number_type(ir_block_input(b, 0)->type) ||
      (ir_node_input(b->ret, 0) && !is_number_type(ir_block_output(b, 0)->type)))
    broken(v, n, "prim::Loop's trip count is an int, its condition a bool");
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    const type *t = ir_block_input(b, i + 1)->type;

    if (!ir_value_flows(ir_node_input(n, i + 2), t) || !fits(t, n->outputs[i]->type) ||
        (ir_node_input(b->ret, i + 1) && !ir_value_flows(ir_block_output(b, i + 1), t)))
      broken(v, n, "what prim::Loop carries changes its type");
  }
}

/* -- The fixed kinds --------------------------------------------------------------------------- */

#define ANY (-1)
static const struct form { /* how many there are: exactly, or ANY */
  ir_kind kind;
  int inputs, least, outputs, blocks;
} forms[] = {
  {IR_CONSTANT, 0, 0, 1, 0},
  {IR_LIST_CONSTRUCT, ANY, 0, 1, 0},
  {IR_LIST_UNPACK, 1, 1, ANY, 0},
  {IR_TUPLE_CONSTRUCT, ANY, 0, 1, 0},
  {IR_TUPLE_UNPACK, 1, 1, ANY, 0},
  {IR_TUPLE_INDEX, 2, 2, 1, 0},
  {IR_TUPLE_SLICE, 1, 1, 1, 0},
  {IR_DICT_CONSTRUCT, ANY, 0, 1, 0},
  {IR_CREATE_OBJECT, 0, 0, 1, 0},
  {IR_GET_ATTR, 1, 1, 1, 0},
  {IR_SET_ATTR, 2, 2, 0, 0},
  {IR_CALL_METHOD, ANY, 1, ANY, 0},
  {IR_CALL_FUNCTION, ANY, 0, ANY, 0},
  {IR_RAISE, ANY, 1, 0, 0},
  {IR_PRINT, ANY, 0, 0, 0},
  {IR_UNINITIALIZED, 0, 0, 1, 0},
  {IR_UNCHECKED_CAST, 1, 1, 1, 0},
  {IR_ISINSTANCE, 1, 1, 1, 0},
  {IR_ENTER, 1, 1, 1, 0},
  {IR_EXIT, 1, 1, ANY, 0},
  {IR_PROFILE, ANY, 0, ANY, 0},
  {IR_PROFILE_IVALUE, 1, 1, 1, 0},
  {IR_GUARD, ANY, 1, 1, 0},
  {IR_BAILOUT, ANY, 1, 1, 0},
  {IR_BAILOUT_TEMPLATE, 0, 0, 1, 0},
};

static void check_counts(const verifier *v, const ir_node *n)
{
  for (size_t i = 0; i < COUNT_OF(forms); i++) {
    const struct form *f = &forms[i];

    if (f->kind != n->kind)
      continue;
    if ((f->inputs != ANY && n->n_inputs != (uint32_t)f->inputs) ||
        n->n_inputs < (uint32_t)f->least)
      broken(v, n, "a node of this kind has another number of inputs");
    if (f->outputs != ANY && n->n_outputs != (uint32_t)f->outputs)
      broken(v, n, "a node of this kind has another number of outputs");
    if (n->n_blocks != (uint32_t)f->blocks)
      broken(v, n, "a node of this kind has another number of blocks");
  }
}

static const type *of_kind(const ir_value *value, type_kind k)
{
  const type *t = type_runtime(value->type);

  return t->kind == k ? t : NULL;
}

/* Compare n values with the elements of a tuple's type. */
static bool are_elements(ir_value *const *values, ir_use *const *inputs, uint32_t n, const type *t)
{
  if (!t || t->n_elems != n)
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (!ir_value_flows(values ? values[i] : inputs[i]->value, t->elems[i]))
      return false;
  return true;
}

static void check_container(const verifier *v, const ir_node *n)
{
  const type *t = n->kind == IR_LIST_UNPACK || n->kind == IR_TUPLE_UNPACK
                    ? type_runtime(ir_node_input(n, 0)->type)
                    : type_runtime(n->outputs[0]->type);
  bool ok = true;

  switch ((int)n->kind) {
  case IR_LIST_CONSTRUCT:
    ok = t->kind == TYPE_LIST;
    for (uint32_t i = 0; ok && i < n->n_inputs; i++)
      ok = ir_value_flows(ir_node_input(n, i), type_elem(t));
    break;
  case IR_LIST_UNPACK:
    ok = t->kind == TYPE_LIST;
    for (uint32_t i = 0; ok && i < n->n_outputs; i++)
      ok = fits(type_elem(t), n->outputs[i]->type);
    break;
  case IR_TUPLE_CONSTRUCT:
    ok = t->kind == TYPE_TUPLE && are_elements(NULL, n->inputs, n->n_inputs, t);
    break;
  case IR_TUPLE_UNPACK:
    ok = t->kind == TYPE_TUPLE && are_elements(n->outputs, NULL, n->n_outputs, t);
    break;
  case IR_DICT_CONSTRUCT:
    ok = t->kind == TYPE_DICT && n->n_inputs % 2 == 0;
    for (uint32_t i = 0; ok && i < n->n_inputs; i++)
      ok = ir_value_flows(ir_node_input(n, i), t->elems[i % 2]);
    break;
  case IR_TUPLE_INDEX:
    ok = of_kind(ir_node_input(n, 0), TYPE_TUPLE) && is_number_type(ir_node_input(n, 1)->type);
    break;
  case IR_TUPLE_SLICE: ok = of_kind(ir_node_input(n, 0), TYPE_TUPLE) != NULL; break;
  default: break;
  }
  if (!ok)
    broken(v, n, "the types of a container and of what is in it do not agree");
}

static void check_object(const verifier *v, const ir_node *n)
{
  const ir_attr *a = ir_attr_find(n, "name");
  const type *cls = n->n_inputs ? type_runtime(ir_node_input(n, 0)->type) : NULL;

  if (!a || a->kind != ATTR_STRING)
    broken(v, n, "the node has no attribute `name`");
  bool known = cls && cls->cls && (cls->kind == TYPE_CLASS || cls->kind == TYPE_INTERFACE);
  if (n->kind == IR_CALL_METHOD) {
    const function *f = known ? class_find_method(cls, a->as.s) : NULL;

    if (known && (!f || (f->schema && f->schema->n_args != n->n_inputs)))
      broken(v, n, "the object has no such method, or one of other arguments");
  } else if (known && cls->kind == TYPE_CLASS && class_attr_index(cls, str_of(a->as.s)) < 0 &&
             !class_constant(cls, str_of(a->as.s))) {
    broken(v, n, "the object has no such attribute");
  }
  if (!known)
    broken(v, n, "the node's first input is no object");
}

static bool has_types(const ir_node *n, const char *name, uint32_t k)
{
  const ir_attr *a = ir_attr_find(n, name);

  return a && (a->kind == ATTR_TYPES || a->kind == ATTR_TYPE) && a->as.t.n_types == k;
}

/* Check prim::TypeCheck and prim::RequiresGradCheck: they return their inputs and a bool. */
static void check_types(const verifier *v, const ir_node *n)
{
  if (n->n_outputs != n->n_inputs + 1 || !has_types(n, "types", n->n_inputs))
    broken(v, n, "a check has a type for each input, and returns the inputs and a bool");
  if (!is_number_type(n->outputs[n->n_inputs]->type))
    broken(v, n, "the last result of a check is a bool");
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (!ir_value_flows(ir_node_input(n, i), n->outputs[i]->type))
      broken(v, n, "a check returns its inputs");
}

/* Check prim::DifferentiableGraph, FallbackGraph and FusionGroup.  One without a subgraph is being
 * made; it does not run. */
static void check_subgraph(const verifier *v, const ir_node *n)
{
  if (n->n_blocks == 0)
    return;
  const ir_block *b = n->blocks[0];
  if (n->n_blocks != 1 || ir_block_n_inputs(b) != n->n_inputs ||
      ir_block_n_outputs(b) != n->n_outputs || !ir_node_is_subgraph(n))
    broken(v, n, "a subgraph takes the node's inputs and nothing else, and returns its outputs");
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (!ir_value_flows(ir_node_input(n, i), ir_block_input(b, i)->type))
      broken(v, n, "an input has another type than the subgraph takes");
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (ir_node_input(b->ret, i) && !ir_value_flows(ir_block_output(b, i), n->outputs[i]->type))
      broken(v, n, "the subgraph returns another type than the node");
}

static void check_grad_of(const verifier *v, const ir_node *n)
{
  if (n->n_blocks != 1 || ir_block_n_inputs(n->blocks[0]) ||
      ir_block_n_outputs(n->blocks[0]) != n->n_outputs)
    broken(v, n, "prim::GradOf has a block without inputs that returns as much as the node");
}

static void check_kind(const verifier *v, const ir_node *n)
{
  check_counts(v, n);
  switch ((int)n->kind) {
  case IR_CONSTANT: {
    const type *t = n->outputs[0]->type;

    if (n->constant >= n->graph->n_constants)
      broken(v, n, "a constant has no value");
    rush_value c = ir_constant_value(n);
    if (c.tag != RUSH_TAG_NONE && c.tag != RUSH_TAG_UNSET && !type_contains_value(t, c) &&
        !is_number_type(t) && t->kind < TYPE_LIST)
      broken(v, n, "a constant is no value of its type");
    break;
  }
  case IR_LIST_CONSTRUCT:
  case IR_LIST_UNPACK:
  case IR_TUPLE_CONSTRUCT:
  case IR_TUPLE_UNPACK:
  case IR_DICT_CONSTRUCT:
  case IR_TUPLE_INDEX: case IR_TUPLE_SLICE:
    check_container(v, n);
    break;
  case IR_GET_ATTR: case IR_SET_ATTR: case IR_CALL_METHOD:
    check_object(v, n);
    break;
  case IR_CALL_FUNCTION:
    if (!n->function || (n->function->schema && n->function->schema->n_args != n->n_inputs))
      broken(v, n, "a call without a function, or with another number of arguments");
    break;
  case IR_CREATE_OBJECT:
    if (!of_kind(n->outputs[0], TYPE_CLASS))
      broken(v, n, "prim::CreateObject makes an object");
    break;
  case IR_ISINSTANCE: {
    const ir_attr *a = ir_attr_find(n, "types");

    if (!a || a->kind != ATTR_TYPES)
      broken(v, n, "prim::isinstance has an attribute `types`");
    break;
  }
  case IR_TYPE_CHECK: case IR_REQUIRES_GRAD_CHECK: check_types(v, n); break;
  case IR_DIFFERENTIABLE_GRAPH: case IR_FALLBACK_GRAPH: case IR_GROUP: check_subgraph(v, n); break;
  case IR_GRAD_OF: check_grad_of(v, n); break;
  default:
    break;
  }
}

static void check_block(const verifier *v, const ir_block *b);
static void verify(session *s, const ir_graph *g, const ir_graph *before, const char *pass,
                   rush_status blame);

static void check_op(const verifier *v, const ir_node *n)
{
  const schema *sc = n->op->schema;

  if (!inputs_fit(n))
    broken(v, n, "the inputs do not fit the operator's schema");
  if (!sc->is_varret && n->n_outputs != sc->n_returns)
    broken(v, n, "the operator has another number of results");
  for (uint32_t i = 0; !sc->is_varret && i < n->n_outputs; i++)
    if (!ir_value_flows(n->outputs[i], sc->returns[i].type))
      broken(v, n, "a result has another type than the operator returns");
}

static void check_blocks(const verifier *v, const ir_node *n)
{
  verifier inner = *v;

  inner.in_subgraph = v->in_subgraph || ir_node_is_subgraph(n);
  session_enter(v->s);
  for (uint32_t i = 0; i < n->n_blocks; i++) {
    if (n->blocks[i]->owner != n || n->blocks[i]->graph != v->g)
      broken(v, n, "a block does not know its owner");
    check_block(&inner, n->blocks[i]);
  }
  session_leave(v->s);
}

/* Check the graphs that are attributes.  Each is a graph by itself. */
static void check_graphs(const verifier *v, const ir_node *n)
{
  session_enter(v->s);
  for (const ir_attr *a = n->attrs; a; a = a->next)
    for (uint32_t i = 0; (a->kind == ATTR_GRAPH || a->kind == ATTR_GRAPHS) && i < a->as.graphs.n;
         i++) {
      const struct owned_graph *o = v->g->owned;
      while (o && o->graph != a->as.graphs.v[i])
        o = o->next;
      if (!o)
        broken(v, n, "a graph that is an attribute belongs to another graph");
      verify(v->s, o->graph, NULL, v->pass, v->blame);
    }
  session_leave(v->s);
}

static void check_node(const verifier *v, const ir_node *n)
{
  if (n->graph != v->g || n->destroyed)
    broken(v, n, "a node belongs to another graph, or was destroyed");
  check_inputs(v, n);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    if (n->outputs[i]->node != n || n->outputs[i]->index != i)
      broken(v, n, "an output does not know its node");
    if (!n->outputs[i]->type)
      broken(v, n, "an output has no type");
    check_uses(v, n->outputs[i]);
    check_name(v, n, n->outputs[i]);
  }
  if (n->kind == IR_IF)
    check_if(v, n);
  else if (n->kind == IR_LOOP)
    check_loop(v, n);
  else if (n->kind == IR_OP)
    check_op(v, n);
  else
    check_kind(v, n);
  check_blocks(v, n);
  check_graphs(v, n);
}

static void check_block(const verifier *v, const ir_block *b)
{
  uint64_t order = 0;

  if (b->param->block != b || b->ret->block != b)
    broken(v, NULL, "a block's inputs or outputs belong to another block");
  for (uint32_t i = 0; i < b->param->n_outputs; i++) {
    const ir_value *p = b->param->outputs[i];

    if (p->node != b->param || p->index != i || !p->type)
      broken(v, NULL, "an input of a block does not know it, or has no type");
    check_uses(v, p);
    check_name(v, b->param, p);
  }
  for (const ir_node *n = ir_block_first(b);; n = n->next) {
    session_poll(v->s);
    if (n->block != b || n->next->prev != n)
      broken(v, n, "the ring of a block is cut");
    if (n->order <= order)
      broken(v, n, "orders do not grow along a block");
    order = n->order;
    check_node(v, n);
    if (n == b->ret)
      return;
  }
}

/* True if a function's callers can rely on the type `now` as they did on `before`. */
static bool is_kept(const type *now, const type *before)
{
  return type_equal(now, before) || fits(now, before) || type_is_subtype(now, before) ||
         type_is_subtype(before, now) || (is_number_type(now) && is_number_type(before));
}

static void check_signature(const verifier *v, const ir_block *now, const ir_block *before)
{
  const uint32_t n_inputs = ir_block_n_inputs(before), n_outputs = ir_block_n_outputs(before);

  if (ir_block_n_inputs(now) != n_inputs)
    broken(v, NULL, "it has another number of inputs than the function");
  if (ir_block_n_outputs(now) != n_outputs)
    broken(v, NULL, "it has another number of outputs than the function");
  for (uint32_t i = 0; i < n_inputs; i++)
    if (!is_kept(ir_block_input(now, i)->type, ir_block_input(before, i)->type))
      broken(v, NULL, "an input has another type than the function's");
  for (uint32_t i = 0; i < n_outputs; i++)
    if (!is_kept(ir_block_output(now, i)->type, ir_block_output(before, i)->type))
      broken(v, ir_block_output(now, i)->node, "it returns another type than the function");
}

static void verify(session *s, const ir_graph *g, const ir_graph *before, const char *pass,
                   rush_status blame)
{
  verifier v = {.s = s,
                .pass = pass,
                .blame = blame,
                .g = g,
                .seen = session_array(s, uint8_t, g->next_id / 8 + 1)};

  if (g->block->owner || g->block->graph != g)
    broken(&v, NULL, "the graph's block does not know it");
  check_block(&v, g->block);
  if (before)
    check_signature(&v, g->block, before->block);
}

void ir_verify(session *s, const ir_graph *g, const char *pass)
{
  verify(s, g, NULL, pass, RUSH_EINTERNAL);
}

void ir_verify_pass(session *s, const ir_graph *g, const ir_graph *before, const char *pass)
{
  verify(s, g, before, pass, RUSH_ERAISED);
}

void ir_check(session *s, const ir_graph *g, const char *what)
{
  verify(s, g, NULL, what, RUSH_EARGUMENT);
}
