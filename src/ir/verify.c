/* ir/verify.c -- the law of graphs, checked.
 *
 * Order and scopes (an input is defined before its user, in its block or one around it), the rings and
 * uses, block arities of If and Loop, inputs and outputs of operators against their schemas. */
#include "ir/graph.h"

typedef struct verifier {
  session *s;
  const char *pass;
} verifier;

_Noreturn static void broken(const verifier *v, const ir_node *n, const char *rule)
{
  text_buf t;

  text_init(&t, v->s->cx->ctx);
  if (n && n->kind != IR_RETURN && n->kind != IR_PARAM)
    ir_print_node(&t, n);
  char *text = session_take_text(v->s, &t);

  session_fail_status(v->s, RUSH_EINTERNAL, NULL, NULL, "%s%sthe graph is broken: %s\n%s",
                      v->pass ? v->pass : "", v->pass ? ": " : "", rule, text);
}

/* -- Schemas ------------------------------------------------------------------------------------ */

/* Does the schema's type admit the value's?  Type variables admit all. */
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

static bool is_number(const type *t)
{
  type_kind k = type_runtime(t)->kind;

  return k == TYPE_INT || k == TYPE_FLOAT || k == TYPE_BOOL || k == TYPE_NUMBER;
}

/* Exported programs hand on what .item() gave, whose type is Scalar, to operators on int; and bools as Scalar. */
static bool inputs_fit(const ir_node *n)
{
  const schema *sc = n->op->schema;

  if (ir_node_fits_schema(n, sc))
    return true;
  if (sc->is_vararg ? n->n_inputs < sc->n_args : n->n_inputs != sc->n_args)
    return false;
  for (uint32_t i = 0; i < sc->n_args; i++) {
    const type *actual = ir_node_input(n, i)->type, *formal = sc->args[i].type;
    bool numbers = is_number(actual) && is_number(formal) &&
                   (type_is(type_runtime(actual), TYPE_NUMBER) || type_is(type_runtime(formal), TYPE_NUMBER));

    if (!fits(actual, formal) && !numbers)
      return false;
  }
  return true;
}

/* -- Nodes -------------------------------------------------------------------------------------- */

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
    const ir_block *scope = n->block, *home = in->node->block;
    while (scope && scope != home)
      scope = scope->owner ? scope->owner->block : NULL;
    if (!scope)
      broken(v, n, "an input is defined in a block that is not around its user");
    if (in->node->kind != IR_PARAM && !ir_node_is_before(in->node, n))
      broken(v, n, "an input is defined after its user");
  }
}

static void check_if(const verifier *v, const ir_node *n)
{
  if (n->n_inputs != 1 || n->n_blocks != 2)
    broken(v, n, "prim::If has one input and two blocks");
  for (int b = 0; b < 2; b++)
    if (ir_block_n_inputs(n->blocks[b]) != 0 || ir_block_n_outputs(n->blocks[b]) != n->n_outputs)
      broken(v, n, "a block of prim::If has no inputs and as many outputs as the node");
}

static void check_loop(const verifier *v, const ir_node *n)
{
  if (n->n_blocks != 1 || n->n_inputs < 2)
    broken(v, n, "prim::Loop has one block, a trip count and a condition");
  if (ir_block_n_inputs(n->blocks[0]) != n->n_inputs - 1 ||
      ir_block_n_outputs(n->blocks[0]) != n->n_outputs + 1 || n->n_outputs != n->n_inputs - 2)
    broken(v, n, "prim::Loop's block takes (i, carried) and gives (condition, carried)");
}

static void check_block(const verifier *v, const ir_block *b);

static void check_node(const verifier *v, const ir_node *n)
{
  check_inputs(v, n);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    if (n->outputs[i]->node != n || n->outputs[i]->index != i)
      broken(v, n, "an output does not know its node");
    if (!n->outputs[i]->type)
      broken(v, n, "an output has no type");
    check_uses(v, n->outputs[i]);
  }
  if (n->kind == IR_IF)
    check_if(v, n);
  else if (n->kind == IR_LOOP)
    check_loop(v, n);
  else if (n->kind == IR_OP && !inputs_fit(n))
    broken(v, n, "the inputs do not fit the operator's schema");
  else if (n->kind == IR_OP && !n->op->schema->is_varret &&
           n->n_outputs != n->op->schema->n_returns)
    broken(v, n, "the operator has another number of results");
  session_enter(v->s);
  for (uint32_t i = 0; i < n->n_blocks; i++) {
    if (n->blocks[i]->owner != n)
      broken(v, n, "a block does not know its owner");
    check_block(v, n->blocks[i]);
  }
  session_leave(v->s);
}

static void check_block(const verifier *v, const ir_block *b)
{
  uint64_t order = 0;

  for (uint32_t i = 0; i < b->param->n_outputs; i++)
    check_uses(v, b->param->outputs[i]);
  for (const ir_node *n = ir_block_first(b);; n = n->next) {
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

void ir_verify(session *s, const ir_graph *g, const char *pass)
{
  verifier v = {s, pass};

  check_block(&v, g->block);
}
