/* export/capture_branch.c -- a branch on data becomes torch.cond: both branches are captured, each
 * as a graph whose inputs are what it uses of outside.
 *
 * torch.cond calls both graphs with the same operands, so each gets placeholders for what only the
 * other uses.  Results must look the same in both branches.  A branch that only raises becomes an
 * assertion on the condition. */
#include "export/capture_int.h"

#include "base/grow.h"
#include "ops/call/lookup.h"

/* -- What a branch uses ------------------------------------------------------------------------ */

static fx_node *placeholder_of(capture *c, capture_branch *b, const fx_node *outside)
{
  fx_node *n = table_get(&b->operands, address_key(outside)), *first = b->g->first;

  if (n)
    return n;
  n = fx_node_new(c->s, b->g, FX_PLACEHOLDER, outside->name, outside->name);
  n->target = n->name;
  n->val = outside->val;
  while (first && first->op == FX_PLACEHOLDER && first != n)
    first = first->next;
  if (first != n)
    fx_node_move_before(n, first);
  session_table_put(c->s, &b->operands, address_key(outside), n);
  GROW(c->s, b->used, b->n_used, b->cap_used, 8);
  b->used[b->n_used++] = outside;
  return n;
}

/* Return the node as branch b has it (NULL: as the outermost graph has it). */
static fx_node *node_in(capture *c, capture_branch *b, fx_node *n)
{
  if (!b || n->graph == b->g)
    return n;
  session_enter(c->s);
  fx_node *outside = node_in(c, b->outer, n);
  session_leave(c->s);
  return placeholder_of(c, b, outside);
}

fx_node *capture_use(capture *c, fx_node *n) { return node_in(c, c->branch, n); }

/* -- Results ----------------------------------------------------------------------------------- */

typedef struct joining { /* of the results of two branches */
  capture *c;
  rush_value *a, *b; /* tensors that differ: n */
  uint32_t n, cap;
  rush_value *joined; /* what stands for them */
  uint32_t at;
} joining;

static bool is_sequence(rush_value v) { return v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE; }
static rush_value *items_of(rush_value v)
{
  return v.tag == RUSH_TAG_LIST ? v.as.list->items : v.as.tuple->items;
}
static size_t n_items_of(rush_value v)
{
  return v.tag == RUSH_TAG_LIST ? v.as.list->n : v.as.tuple->n;
}
static bool is_tensor(rush_value v) { return v.tag == RUSH_TAG_TENSOR && v.as.tensor; }

static void pair_up(joining *j, rush_value a, rush_value b);

static void pair_up_dicts(joining *j, const rush_dict *a, const rush_dict *b)
{
  size_t at = 0, pos = 0;
  bool same = a->n == b->n;

  while (same) {
    const dict_entry *x = dict_next(a, &at), *y = dict_next(b, &pos);
    if (!x || !y)
      break;
    same = x->key.tag == y->key.tag && dict_get(b, x->key) == &y->value;
    if (same)
      pair_up(j, x->value, y->value);
  }
  if (!same)
    capture_fail(j->c, "the branches on data return dicts with different keys");
}

/* Note the tensors that the branches return. */
static void pair_up(joining *j, rush_value a, rush_value b)
{
  session_enter(j->c->s);
  if (is_tensor(a) && is_tensor(b)) {
    if (j->n == j->cap) {
      uint32_t cap = j->cap;
      GROW(j->c->s, j->a, j->n, j->cap, 8);
      GROW(j->c->s, j->b, j->n, cap, 8);
    }
    j->a[j->n] = a;
    j->b[j->n++] = b;
  } else if (is_sequence(a) && a.tag == b.tag && n_items_of(a) == n_items_of(b)) {
    for (size_t i = 0; i < n_items_of(a); i++)
      pair_up(j, items_of(a)[i], items_of(b)[i]);
  } else if (a.tag == RUSH_TAG_DICT && b.tag == RUSH_TAG_DICT) {
    pair_up_dicts(j, a.as.dict, b.as.dict);
  } else if (!value_is_same(a, b)) {
    capture_fail(j->c, "the branches on data return different values that are no tensors");
  }
  session_leave(j->c->s);
}

/* Return what stands for the next tensor of a result. */
static rush_value joined(capture *c, rush_value v, void *arg)
{
  joining *j = arg;

  (void)c;
  return is_tensor(v) ? j->joined[j->at++] : v;
}

/* Require that two results look the same. */
static void check_same(capture *c, const symshape_facts *a, const symshape_facts *b)
{
  bool same = a->dtype == b->dtype && a->n_dims == b->n_dims;

  for (int i = 0; same && i < a->n_dims; i++)
    same = sym_decide(c->env, sym_eq(c->env, a->sizes[i], b->sizes[i]));
  if (!same)
    capture_fail(c, "the branches on data return tensors of different dtypes or sizes");
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static capture_branch *open_branch(capture *c)
{
  capture_branch *b = session_new(c->s, capture_branch);

  *b = (capture_branch){.outer = c->branch, .g = fx_graph_new(c->s, c->mem)};
  session_table_init(c->s, &b->operands);
  b->numbers = session_new(c->s, table);
  session_table_init(c->s, b->numbers);
  return b;
}

static capture_graph state_of(const capture *c)
{
  return (capture_graph){c->g, c->branch, c->number_nodes};
}

void capture_leave(capture *c, capture_graph before)
{
  c->g = before.g;
  c->branch = before.branch;
  c->number_nodes = before.numbers;
}

capture_graph capture_enter(capture *c, const fx_graph *g)
{
  const capture_graph before = state_of(c);

  for (capture_branch *b = c->branch; b && c->g != g; b = b->outer)
    capture_leave(c, (capture_graph){b->outer ? b->outer->g : c->p->graph, b->outer,
                                     b->outer_numbers});
  return before;
}

static capture_graph enter_branch(capture *c, capture_branch *b)
{
  const capture_graph before = state_of(c);

  b->outer_numbers = c->number_nodes;
  capture_leave(c, (capture_graph){b->g, b, b->numbers});
  return before;
}

/* Capture a block into the branch; outputs receives what it returns. */
static void capture_block(capture *c, capture_branch *b, const ir_block *block, capture_run *run,
                          void *arg, rush_value *outputs)
{
  const capture_graph before = enter_branch(c, b);

  run(arg, block, outputs);
  capture_leave(c, before);
}

/* Return a tensor as what branch b returns. */
static fx_arg returned_by(capture *c, capture_branch *b, rush_value tensor)
{
  const capture_graph before = enter_branch(c, b);
  const fx_arg a = capture_arg(c, tensor, NULL);

  capture_leave(c, before);
  return a;
}

/* Add the output node of a branch. */
static void close_branch(capture *c, capture_branch *b, const rush_value *tensors, uint32_t n)
{
  fx_arg *items = session_alloc_in(c->s, c->mem, ((size_t)n + 1) * sizeof *items);
  fx_arg *all = session_alloc_in(c->s, c->mem, sizeof *all);

  for (uint32_t i = 0; i < n; i++)
    items[i] = returned_by(c, b, tensors[i]);
  *all = (fx_arg){.kind = FX_TUPLE, .n = n, .as.items = items};
  fx_node *out = fx_node_new(c->s, b->g, FX_OUTPUT, "output", "output");
  out->args = all;
  out->n_args = 1;
}

/* Give both branches placeholders for all operands, in one order; returns the number. */
static uint32_t share_operands(capture *c, capture_branch *a, capture_branch *b)
{
  for (uint32_t i = 0; i < a->n_used; i++)
    (void)placeholder_of(c, b, a->used[i]);
  for (uint32_t i = 0; i < b->n_used; i++)
    (void)placeholder_of(c, a, b->used[i]);
  for (uint32_t i = a->n_used; i-- > 0;) {
    fx_node *n = placeholder_of(c, b, a->used[i]);
    fx_node_move_before(n, b->g->first);
  }
  return a->n_used;
}

static fx_arg add_graph(capture *c, const char *prefix, uint32_t number, capture_branch *b)
{
  const char *name = capture_text(c, session_printf(c->s, "%s_%u", prefix, number));
  fx_node *n = fx_node_new(c->s, c->g, FX_GET_ATTR, name, name);

  fx_graph_add_subgraph(c->s, c->g, name, b->g);
  return fx_arg_node(n);
}

static fx_node *add_cond(capture *c, fx_node *predicate, capture_branch *a, capture_branch *b)
{
  const uint32_t n = share_operands(c, a, b);
  fx_arg *operands = session_alloc_in(c->s, c->mem, ((size_t)n + 1) * sizeof *operands);

  for (uint32_t i = 0; i < n; i++)
    operands[i] = fx_arg_node((fx_node *)(uintptr_t)a->used[i]);
  fx_arg args[4] = {fx_arg_node(predicate)};
  const uint32_t number = c->g->n_subgraphs / 2;
  args[1] = add_graph(c, "true_graph", number, a);
  args[2] = add_graph(c, "false_graph", number, b);
  args[3] = (fx_arg){.kind = FX_TUPLE, .n = n, .as.items = operands};
  return capture_node(c, "torch.ops.higher_order.cond", args, 4);
}

/* Make the results of the cond node. */
static void take_results(joining *j, fx_node *n)
{
  capture *c = j->c;
  const fx_val **items = session_alloc_in(c->s, c->mem, ((size_t)j->n + 1) * sizeof *items);
  fx_val *all = session_alloc_in(c->s, c->mem, sizeof *all);

  *all = (fx_val){.kind = FX_VAL_LIST, .is_tuple = true, .n = j->n, .as.items = items};
  n->val = all;
  j->joined = session_array(c->s, rush_value, (size_t)j->n + 1);
  for (uint32_t i = 0; i < j->n; i++) {
    const capture_tensor *a = capture_tensor_of(c, j->a[i].as.tensor),
                         *b = capture_tensor_of(c, j->b[i].as.tensor);
    const bool grad = a->requires_grad || b->requires_grad;
    const fx_arg args[] = {fx_arg_node(n), fx_arg_int(i)};
    check_same(c, &a->facts, &b->facts);
    fx_node *item = capture_node(c, "_operator.getitem", args, 2);
    items[i] = item->val = capture_val(c, &a->facts, grad);
    j->joined[i] = capture_tensor_new(c, item, &a->facts, grad);
  }
}

/* -- Assertions -------------------------------------------------------------------------------- */

/* Return the node that raises, if the block does nothing else that matters; or NULL. */
static const ir_node *raise_in(const ir_block *b)
{
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    if (n->kind == IR_RAISE)
      return n;
  return NULL;
}

/* Record that the tensor is true, or else the message. */
static void add_assertion(capture *c, fx_node *predicate, bool expected, const ir_node *raised)
{
  static const char assertion[] = "torch.ops.aten._assert_async.msg";
  rush_value text = value_none();
  fx_arg args[2] = {fx_arg_node(predicate)};

  if (raised->n_inputs && !ir_value_as_constant(ir_node_input(raised, 0), &text))
    text = value_none();
  if (!expected) {
    fx_node *not = capture_node(c, "torch.ops.aten.logical_not.default", args, 1);
    not->val = predicate->val;
    args[0] = fx_arg_node(not);
  }
  const char *message = text.tag == RUSH_TAG_STRING ? text.as.string->text : "assertion failed";
  args[1] = (fx_arg){.kind = FX_STRING,
                     .n = (uint32_t)strlen(message),
                     .as.text = capture_text(c, message)};
  capture_node(c, assertion, args, 2)->returns_none = false;
}

/* -- The branch -------------------------------------------------------------------------------- */

void capture_cond(capture *c, const ir_node *n, rush_value condition, capture_run *run, void *arg,
                  rush_value *out)
{
  const capture_number *number = capture_number_of(condition);
  rush_value *a = session_array(c->s, rush_value, 2 * (size_t)n->n_outputs + 1);
  rush_value *b = a + n->n_outputs;
  joining j = {.c = c};

  if (number->kind != FX_VAL_BOOL || number->node->n_args != 1)
    capture_fail(c, "a branch on a number that depends on data cannot be exported");
  fx_node *predicate = capture_use(c, number->node->args[0].as.node);
  for (int i = 0; i < 2; i++) {
    const ir_node *raised = raise_in(n->blocks[i]);
    if (!raised)
      continue;
    add_assertion(c, predicate, i == 1, raised);
    run(arg, n->blocks[1 - i], out);
    return;
  }
  capture_branch *yes = open_branch(c), *no = open_branch(c);
  capture_block(c, yes, n->blocks[0], run, arg, a);
  capture_block(c, no, n->blocks[1], run, arg, b);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    pair_up(&j, a[i], b[i]);
  close_branch(c, yes, j.a, j.n);
  close_branch(c, no, j.b, j.n);
  if (j.n) /* else the branches compute nothing that is used */
    take_results(&j, add_cond(c, predicate, yes, no));
  for (uint32_t i = 0; i < n->n_outputs; i++)
    out[i] = capture_rebuild(c, a[i], joined, &j);
}
