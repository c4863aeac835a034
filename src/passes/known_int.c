/* passes/known_int.c -- integers that follow from sizes: `b, t, c = x.shape; c // heads`.
 *
 * A question walks from the value to its definition: sizes, their arithmetic, constants; and what
 * traced programs make of it, arithmetic on tensors of no dimensions that int() ends.  Nothing
 * is written into the graph, so that shapes can be propagated in one walk, also where a loop's
 * facts are not settled; peephole and constant propagation write what is certain afterwards.  A
 * walk takes at most MOST_STEPS steps. */
#include "ir/facts.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

#define MOST_STEPS 64
#define MOST_INPUTS 6

/* True if all users only read the list or tensor. */
static bool is_only_read(const ir_value *v)
{
  for (const ir_use *u = v->uses; u; u = u->next) {
    const ir_node *n = u->user;
    uint32_t i = 0;

    while (i < n->n_inputs && ir_node_input(n, i) != v)
      i++;
    if (n->kind == IR_LIST_UNPACK || (n->kind == IR_GUARD && i > 0)) /* in a snapshot */
      continue;
    if (n->kind != IR_OP || i >= n->op->schema->n_args)
      return false;
    const schema_arg *a = &n->op->schema->args[i];
    if (a->is_write || a->alias_before | a->alias_after | a->elem_alias)
      return false;
  }
  return true;
}

const ir_facts *pass_facts_of_sizes(const ir_value *list)
{
  const ir_node *n = list->node;

  if (!ir_node_is_op(n, OPN_SIZE) || n->n_inputs != 1 || !is_only_read(list))
    return NULL;
  const ir_facts *f = ir_facts_of(ir_node_input(n, 0)->type);
  return f->n_dims < 0 ? NULL : f;
}

static bool size_at(const ir_facts *f, int64_t i, int64_t *out)
{
  i += f && i < 0 ? f->n_dims : 0;
  if (!f || i < 0 || i >= f->n_dims || f->sizes[i] < 0)
    return false;
  *out = f->sizes[i];
  return true;
}

static bool number(int n_dims, int64_t *out)
{
  *out = n_dims;
  return n_dims >= 0;
}

static bool follow(session *s, const ir_value *v, uint32_t *left, int64_t *out);

static bool compute(session *s, const ir_node *n, uint32_t *left, rush_value *out);

/* Get an argument: an integer, another constant that is no tensor, or a tensor of no dimensions
 * that is only read. */
static bool argument(session *s, const ir_value *v, uint32_t *left, rush_value *out)
{
  int64_t i;

  if (type_is(v->type, TYPE_INT)) {
    const bool known = follow(s, v, left, &i);

    *out = value_int(known ? i : 0);
    return known;
  }
  if (!type_is(v->type, TYPE_TENSOR))
    return ir_value_as_constant(v, out) && !value_is_heap(*out);
  if (!*left || !is_only_read(v))
    return false;
  if (ir_value_as_constant(v, out))
    return out->tag == RUSH_TAG_TENSOR && out->as.tensor && out->as.tensor->n_dims == 0;
  --*left;
  return v->node->kind == IR_OP && ir_facts_of(v->type)->n_dims == 0 &&
         compute(s, v->node, left, out) && out->tag == RUSH_TAG_TENSOR;
}

/* Compute an operator from its inputs. */
static bool compute(session *s, const ir_node *n, uint32_t *left, rush_value *out)
{
  rush_value args[MOST_INPUTS];

  if (n->n_outputs != 1 || n->n_inputs == 0 || n->n_inputs > MOST_INPUTS || !pass_is_pure(n))
    return false;
  session_enter(s);
  bool known = true;
  for (uint32_t k = 0; k < n->n_inputs && known; k++)
    known = argument(s, ir_node_input(n, k), left, &args[k]);
  session_leave(s);
  *out = value_none();
  return known && pass_call_op(s, n, args, out);
}

static bool follow_op(session *s, const ir_node *n, uint32_t *left, int64_t *out)
{
  const ir_facts *f = n->n_inputs ? ir_facts_of(ir_node_input(n, 0)->type) : NULL, *listed;
  int64_t i;

  switch (n->op->name_key) {
  case OPN_SIZE:
    return n->n_inputs == 2 && f->n_dims >= 0 && follow(s, ir_node_input(n, 1), left, &i) &&
           size_at(f, i, out);
  case OPN___GETITEM__:
    return (listed = pass_facts_of_sizes(ir_node_input(n, 0))) != NULL &&
           follow(s, ir_node_input(n, 1), left, &i) && size_at(listed, i, out);
  case OPN_LEN:
    listed = pass_facts_of_sizes(ir_node_input(n, 0));
    return listed && number(listed->n_dims, out);
  case OPN_DIM:
    return number(f->n_dims, out);
  }
  rush_value result;
  if (!compute(s, n, left, &result) || result.tag != RUSH_TAG_INT)
    return false;
  *out = result.as.i;
  return true;
}

static bool follow(session *s, const ir_value *v, uint32_t *left, int64_t *out)
{
  const ir_node *n = v->node;

  if (pass_is_constant_int(v, out))
    return true;
  if (!*left || !type_is(v->type, TYPE_INT))
    return false;
  --*left;
  if (n->kind == IR_LIST_UNPACK)
    return size_at(pass_facts_of_sizes(ir_node_input(n, 0)), v->index, out);
  return n->kind == IR_OP && follow_op(s, n, left, out);
}

bool pass_is_known_int(session *s, const ir_value *v, int64_t *out)
{
  uint32_t left = MOST_STEPS;

  return follow(s, v, &left, out);
}

bool pass_is_known_number(session *s, const ir_value *v)
{
  uint32_t left = MOST_STEPS;
  rush_value number;

  return type_is(v->type, TYPE_TENSOR) && argument(s, v, &left, &number);
}
