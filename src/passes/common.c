/* passes/common.c -- predicates and edits that many passes share: purity, constants and their
 * equality, inserting nodes, replacing, visiting, and which groups of values escape. They are
 * shared so that every pass uses one definition of "pure". Facts about operators come from the
 * table's effect columns, never from lists of names. */
#include "ir/alias.h"
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

/* -- Questions --------------------------------------------------------------------------------- */

bool pass_has_effect(const ir_node *n)
{
  switch (n->kind) {
  case IR_OP:
    return n->op->effects & OP_SIDE_EFFECT || op_waits(n->op);
  case IR_PARAM:
  case IR_RETURN:
  case IR_CONSTANT:
  case IR_IF:
  case IR_LOOP:
  case IR_LIST_CONSTRUCT:
  case IR_LIST_UNPACK:
  case IR_TUPLE_CONSTRUCT:
  case IR_TUPLE_UNPACK:
  case IR_TUPLE_INDEX:
  case IR_TUPLE_SLICE:
  case IR_DICT_CONSTRUCT:
  case IR_CREATE_OBJECT: case IR_GET_ATTR: case IR_MODULE_CONTAINER_INDEX: case IR_UNINITIALIZED:
  case IR_UNCHECKED_CAST: case IR_ISINSTANCE: case IR_PROFILE: case IR_PROFILE_IVALUE:
  case IR_TYPE_CHECK: case IR_REQUIRES_GRAD_CHECK: case IR_BAILOUT_TEMPLATE: case IR_GRAD_OF:
    return false;
  case IR_DIFFERENTIABLE_GRAPH: case IR_FALLBACK_GRAPH: case IR_GROUP:
    return n->n_blocks != 1;
  case IR_WITH:
  case IR_ENTER:
  case IR_EXIT:
  case IR_SET_ATTR:
  case IR_CALL_METHOD:
  case IR_CALL_FUNCTION:
  case IR_INTERFACE_CALL:
  case IR_RAISE:
  case IR_PRINT:
  case IR_FORK:
  case IR_AWAITABLE:
  case IR_CLOSURE:
  case IR_LOAD:
  case IR_STORE:
  case IR_BREAK_STMT:
  case IR_CONTINUE_STMT:
  case IR_RETURN_STMT:
  case IR_GUARD:
  case IR_BAILOUT:
  case IR_HIGHER_ORDER:
  case IR_UNKNOWN_OP:
  case N_IR_KINDS:
    break;
  }
  return true;
}

ir_node *pass_subgraph_around(const ir_block *b)
{
  for (; b->owner; b = b->owner->block)
    if (ir_node_has_subgraph_block(b->owner))
      return b->owner;
  return NULL;
}

bool pass_updates_statistics(const ir_node *n)
{
  static const char *const names[] = {"training", "use_input_stats", "train"};
  bool trains = true;

  if (n->kind != IR_OP || !(n->op->effects & OP_STATISTICS))
    return false;
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    const int at = schema_arg_index(n->op->schema, str_of(names[i]));
    if (at >= 0 && (uint32_t)at < n->n_inputs)
      return !pass_is_constant_bool(ir_node_input(n, (uint32_t)at), &trains) || trains;
  }
  return true;
}

bool pass_is_pure(const ir_node *n)
{
  if (n->n_blocks || pass_has_effect(n))
    return false;
  switch (n->kind) {
  case IR_OP:
    return !(n->op->effects & (OP_WRITES | OP_RANDOM)) && !schema_is_mutable(n->op->schema) &&
           !pass_updates_statistics(n);
  case IR_CREATE_OBJECT: case IR_UNINITIALIZED: case IR_PROFILE: case IR_PROFILE_IVALUE:
  case IR_BAILOUT_TEMPLATE:
    return false;
  default:
    return true;
  }
}

static bool takes_numbers_only(const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    const type_kind k = ir_node_input(n, i)->type->kind;
    if (k != TYPE_INT && k != TYPE_FLOAT && k != TYPE_BOOL)
      return false;
  }
  return true;
}

bool pass_may_fail(const ir_node *n)
{
  switch (n->kind) {
  case IR_CONSTANT: case IR_LIST_CONSTRUCT: case IR_TUPLE_CONSTRUCT: case IR_TUPLE_UNPACK:
  case IR_TUPLE_INDEX: case IR_TUPLE_SLICE: case IR_UNINITIALIZED: case IR_UNCHECKED_CAST:
  case IR_ISINSTANCE: case IR_IF: case IR_LOOP:
    return false;
  case IR_OP:
    break;
  default:
    return true;
  }
  switch (n->op->name_key) {
  case OPN_ADD: case OPN_SUB: case OPN_MUL: case OPN_NEG: case OPN_EQ: case OPN_NE: case OPN_LT:
  case OPN_LE: case OPN_GT: case OPN_GE: case OPN___NOT__: case OPN___AND__: case OPN___OR__:
  case OPN_BOOL: case OPN_FLOAT:
    return !takes_numbers_only(n);
  case OPN_LEN: case OPN_DIM: case OPN___IS__: case OPN___ISNOT__: case OPN_PRIM__DTYPE:
    return false;
  case OPN_SIZE:
    return n->n_inputs != 1;
  }
  return true;
}

bool pass_is_constant_int(const ir_value *v, int64_t *out)
{
  rush_value c;

  if (!ir_value_as_constant(v, &c) || c.tag != RUSH_TAG_INT)
    return false;
  *out = c.as.i;
  return true;
}

bool pass_call_op(session *s, const ir_node *n, const rush_value *args, rush_value *out)
{
  call_ctx quiet = *s->cx;

  quiet.err = NULL;
  if (n->op->outside || n->op->schema->is_vararg || n->op->schema->is_varret ||
      !op_is_runnable(n->op) || op_prepare(&quiet, n->op) != RUSH_OK ||
      op_invoke(&quiet, n->op, args, n->n_inputs, out, n->n_outputs) != RUSH_OK)
    return false;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    (void)pass_hold(s, out[i]);
  return true;
}

bool pass_is_constant_bool(const ir_value *v, bool *out)
{
  rush_value c;

  if (!ir_value_as_constant(v, &c) || c.tag != RUSH_TAG_BOOL)
    return false;
  *out = c.as.b;
  return true;
}

bool pass_is_none(const ir_value *v)
{
  rush_value c;

  return ir_value_as_constant(v, &c) && c.tag == RUSH_TAG_NONE;
}

static bool same_items(const rush_value *x, size_t n, const rush_value *y, size_t m);

/* True if equal; tensors and dicts are equal only if they are the same object. */
static bool same_value(rush_value x, rush_value y)
{
  if (x.tag != y.tag)
    return false;
  switch (x.tag) {
  case RUSH_TAG_STRING:
    return str_eq(value_str(x), value_str(y));
  case RUSH_TAG_COMPLEX:
    return value_complex(x)->re == value_complex(y)->re &&
           value_complex(x)->im == value_complex(y)->im;
  case RUSH_TAG_NONE:
    return true;
  case RUSH_TAG_LIST:
    return same_items(x.as.list->items, x.as.list->n, y.as.list->items, y.as.list->n);
  case RUSH_TAG_TUPLE:
    return same_items(x.as.tuple->items, x.as.tuple->n, y.as.tuple->items, y.as.tuple->n);
  default:
    return x.as.i == y.as.i;
  }
}

/* Compare items; nested containers are compared by identity. */
static bool same_items(const rush_value *x, size_t n, const rush_value *y, size_t m)
{
  if (n != m)
    return false;
  for (size_t i = 0; i < n; i++)
    if (x[i].tag == RUSH_TAG_LIST || x[i].tag == RUSH_TAG_TUPLE ? x[i].as.heap != y[i].as.heap
                                                                : !same_value(x[i], y[i]))
      return false;
  return true;
}

bool pass_same_constant(const ir_node *a, const ir_node *b)
{
  ASSERT(a->kind == IR_CONSTANT && b->kind == IR_CONSTANT, "only constants are compared");
  return type_equal(a->outputs[0]->type, b->outputs[0]->type) &&
         same_value(ir_constant_value(a), ir_constant_value(b));
}

uint64_t pass_constant_hash(const ir_node *n)
{
  rush_value v = ir_constant_value(n);

  if (v.tag == RUSH_TAG_STRING)
    return hash_bytes(v.as.string->text, v.as.string->len);
  if (v.tag == RUSH_TAG_LIST)
    return v.as.list->n && v.as.list->items[0].tag == RUSH_TAG_INT
             ? hash_bytes(&v.as.list->items[0].as.i, 8) + v.as.list->n
             : v.tag;
  if (v.tag == RUSH_TAG_COMPLEX || v.tag == RUSH_TAG_NONE || v.tag == RUSH_TAG_TUPLE)
    return v.tag;
  return hash_bytes(&v.as.i, sizeof v.as.i) + v.tag;
}

static bool same_attr(const ir_attr *a, const ir_attr *b)
{
  if (a->kind != b->kind || strcmp(a->name, b->name) != 0)
    return false;
  switch (a->kind) {
  case ATTR_INT: return a->as.i == b->as.i;
  case ATTR_FLOAT: return memcmp(&a->as.d, &b->as.d, sizeof a->as.d) == 0;
  case ATTR_STRING: return strcmp(a->as.s, b->as.s) == 0;
  case ATTR_TYPE: case ATTR_TYPES:
    if (a->as.t.n_types != b->as.t.n_types)
      return false;
    for (uint32_t i = 0; i < a->as.t.n_types; i++)
      if (!type_equal(a->as.t.types[i], b->as.t.types[i]))
        return false;
    return true;
  case ATTR_INTS:
    return a->as.ints.n == b->as.ints.n &&
           memcmp(a->as.ints.v, b->as.ints.v, a->as.ints.n * sizeof(int64_t)) == 0;
  case ATTR_VALUE: return value_is_same(a->as.value, b->as.value);
  case ATTR_GRAPH: case ATTR_GRAPHS:
    return a->as.graphs.n == b->as.graphs.n &&
           memcmp(a->as.graphs.v, b->as.graphs.v, a->as.graphs.n * sizeof(ir_graph *)) == 0;
  }
  return false;
}

/* Return the first attribute from `a` on that is not `_kind`, the name from which the operator was
 * resolved. */
static const ir_attr *next_compared(const ir_attr *a)
{
  while (a && strcmp(a->name, "_kind") == 0)
    a = a->next;
  return a;
}

bool pass_same_attrs(const ir_node *a, const ir_node *b)
{
  const ir_attr *x = next_compared(a->attrs), *y = next_compared(b->attrs);

  for (; x && y; x = next_compared(x->next), y = next_compared(y->next))
    if (!same_attr(x, y))
      return false;
  return !x && !y;
}

/* -- Edits ------------------------------------------------------------------------------------- */

static void release_value(void *heap_part)
{
  heap *h = heap_part;
  value_release(value_heap_steal(h->kind, h));
}

rush_value pass_hold(session *s, rush_value v)
{
  if (value_is_heap(v))
    session_defer(s, release_value, v.as.heap);
  return v;
}

ir_value *pass_put_constant(session *s, ir_node *pos, rush_value v, const type *t)
{
  ir_node *n = ir_constant_new(s, pos->graph, v, t);

  ASSERT(n->outputs[0]->type, "a constant has a type, its own or the given one");
  n->range = pos->range;
  ir_node_insert_before(n, pos);
  return n->outputs[0];
}

ir_value *pass_put_int(session *s, ir_node *pos, int64_t i)
{
  return pass_put_constant(s, pos, value_int(i), type_simple(TYPE_INT));
}

ir_node *pass_put_op(session *s, ir_node *pos, const char *name, const char *overload,
                     ir_value *const *in, uint32_t n)
{
  const op *o = session_op_find(s, str_of(name), str_of(overload));

  if (!o)
    return NULL;
  ASSERT(o->schema->is_vararg || n == o->schema->n_args, "an operator gets all its arguments");
  ir_node *made = ir_node_new_op(s, pos->graph, o, in, n);
  made->range = pos->range;
  ir_node_insert_before(made, pos);
  ASSERT_SLOW(pass_inputs_are_visible(made));
  return made;
}

ir_node *pass_put_node(session *s, ir_node *pos, ir_kind kind, ir_value *const *in, uint32_t n,
                       const type *out)
{
  ir_node *made = ir_node_new(s, pos->graph, kind, in, n);

  made->range = pos->range;
  ir_node_insert_before(made, pos);
  ASSERT_SLOW(pass_inputs_are_visible(made));
  if (out)
    ir_node_add_output(s, made, out);
  return made;
}

void pass_replace(ir_node *n, ir_value *const *with)
{
  ASSERT_SLOW(pass_can_replace(n, with));
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ASSERT(with[i]->node != n, "a result replaced by one of the same node");
    ir_value_replace_all_uses(n->outputs[i], with[i]);
  }
  ir_node_destroy(n);
}

void pass_splice(ir_block *b, ir_node *pos)
{
  ASSERT(pos->block && pos->block != b, "a block spliced into itself, or into no block");
  while (ir_block_first(b) != b->ret)
    ir_node_move_before(ir_block_first(b), pos);
}

void pass_each(session *s, ir_block *b, pass_visit *fn, void *arg)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(s);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      pass_each(s, n->blocks[i], fn, arg);
    next = n->next;
    fn(s, n, arg);
    ASSERT(next->block == b, "a visitor removed the node after the one that it visits");
  }
  session_leave(s);
}

/* -- Memory ------------------------------------------------------------------------------------ */

bool pass_can_be_written(const type *t)
{
  if (!type_is(t, TYPE_TUPLE))
    return alias_type_has_memory(t);
  t = type_runtime(t);
  for (uint32_t i = 0; i < t->n_elems; i++)
    if (pass_can_be_written(t->elems[i]))
      return true;
  return false;
}

/* True if a result of the operator may be an argument, or share memory with one. */
static bool returns_memory(const op *o)
{
  for (uint32_t i = 0; i < o->schema->n_returns; i++)
    if (o->schema->returns[i].alias_before || o->schema->returns[i].alias_after ||
        o->schema->returns[i].elem_alias)
      return true;
  return false;
}

bool pass_is_hidden(const ir_value *v)
{
  for (const ir_use *u = v->uses; u; u = u->next) {
    const op *o = u->user->op;
    if (u->user->kind != IR_OP || returns_memory(o) ||
        o->effects & (OP_WRITES | OP_SIDE_EFFECT | OP_RETURNS_ARG) || op_waits(o) ||
        o->name_key == OPN_PRIM__REQUIRES_GRAD || o->name_key == OPN_IS_LEAF)
      return false;
  }
  return true;
}

typedef struct escaping {
  const alias_info *a;
  bool *out;
} escaping;

/* The code behind a guard that fails may write to its snapshot and return it. */
static void let_snapshot_escape(session *s, ir_node *n, void *arg)
{
  const escaping *e = arg;

  (void)s;
  for (uint32_t i = 0; n->kind == IR_GUARD && i < n->n_inputs; i++) {
    const uint32_t group = alias_group(e->a, ir_node_input(n, i));
    if (group != ALIAS_NO_MEMORY)
      e->out[group] = true;
  }
}

bool *pass_escaping(session *s, const alias_info *a, const ir_graph *g)
{
  bool *out = session_array(s, bool, alias_n_values(a));

  if (ir_graph_may_have(g, IR_GUARD))
    pass_each(s, g->block, let_snapshot_escape, &(escaping){a, out});

  out[ALIAS_CONSTANTS] = true;
  for (uint32_t i = 0; i < ir_block_n_inputs(g->block); i++) {
    uint32_t group = alias_group(a, ir_block_input(g->block, i));
    ASSERT(group == ALIAS_NO_MEMORY || group < alias_n_values(a), "a group outside the analysis");
    if (group != ALIAS_NO_MEMORY)
      out[group] = true;
  }
  for (uint32_t i = 0; i < ir_block_n_outputs(g->block); i++) {
    uint32_t group = alias_group(a, ir_block_output(g->block, i));
    if (group != ALIAS_NO_MEMORY)
      out[group] = true;
  }
  return out;
}
