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

fx_node *capture_operand(capture *c, capture_branch *b, const fx_node *outside)
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
  return capture_operand(c, b, outside);
}

fx_node *capture_use(capture *c, fx_node *n) { return node_in(c, c->branch, n); }

/* -- Results ----------------------------------------------------------------------------------- */

typedef struct joining { /* of the results of two branches */
  capture *c;
  rush_value *a, *b; /* tensors, and numbers that differ: n */
  uint32_t n, cap;
  capture_branch *yes, *no;
  bool *differ;      /* of each tensor and number: it is among them; n_leaves */
  uint32_t n_leaves, cap_leaves, leaf;
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

/* Note a tensor or number of the branches. */
static void pair_up_leaf(joining *j, rush_value a, rush_value b)
{
  const bool differs = capture_form(a) == FORM_TENSOR || !value_is_same(a, b);

  GROW(j->c->s, j->differ, j->n_leaves, j->cap_leaves, 8);
  j->differ[j->n_leaves++] = differs;
  if (!differs)
    return;
  if (j->n == j->cap) {
    uint32_t cap = j->cap;
    GROW(j->c->s, j->a, j->n, j->cap, 8);
    GROW(j->c->s, j->b, j->n, cap, 8);
  }
  j->a[j->n] = a;
  j->b[j->n++] = b;
}

/* Return a value that a branch has not set as one like the other branch's. */
static rush_value set_like(joining *j, capture_branch *b, rush_value v, rush_value other)
{
  if (!capture_is_unset(v) || capture_is_unset(other))
    return v;
  const capture_graph before = capture_branch_enter(j->c, b);
  v = capture_some_value(j->c, other);
  capture_leave(j->c, before);
  return v;
}

/* Note what the branches return. */
static void pair_up(joining *j, rush_value a, rush_value b)
{
  session_enter(j->c->s);
  if (capture_form(a) != FORM_OTHER && capture_form(a) == capture_form(b)) {
    pair_up_leaf(j, a, b);
  } else if (is_sequence(a) && a.tag == b.tag && n_items_of(a) == n_items_of(b)) {
    for (size_t i = 0; i < n_items_of(a); i++)
      pair_up(j, items_of(a)[i], items_of(b)[i]);
  } else if (a.tag == RUSH_TAG_DICT && b.tag == RUSH_TAG_DICT) {
    pair_up_dicts(j, a.as.dict, b.as.dict);
  } else if (!(capture_is_unset(a) && capture_is_unset(b)) && !value_is_same(a, b)) {
    capture_fail(j->c, "the branches on data return different values that are no tensors");
  }
  session_leave(j->c->s);
}

/* Return what stands for the next tensor or number of a result. */
static rush_value joined(capture *c, rush_value v, void *arg)
{
  joining *j = arg;

  (void)c;
  return capture_form(v) != FORM_OTHER && j->differ[j->leaf++] ? j->joined[j->at++] : v;
}

void capture_check_same(capture *c, const symshape_facts *a, const symshape_facts *b)
{
  bool same = a->dtype == b->dtype && a->n_dims == b->n_dims;

  for (int i = 0; same && i < a->n_dims; i++)
    same = sym_decide(c->env, sym_eq(c->env, a->sizes[i], b->sizes[i]));
  if (!same)
    capture_fail(c, "the branches on data return tensors of different dtypes or sizes");
}

/* -- Graphs ------------------------------------------------------------------------------------ */

capture_branch *capture_branch_open(capture *c)
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

capture_graph capture_branch_enter(capture *c, capture_branch *b)
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
  const capture_graph before = capture_branch_enter(c, b);

  run(arg, block, outputs);
  capture_leave(c, before);
}

/* Return a tensor as what branch b returns. */
static fx_arg returned_by(capture *c, capture_branch *b, rush_value tensor)
{
  const capture_graph before = capture_branch_enter(c, b);
  const fx_arg a = capture_arg(c, tensor, NULL);

  capture_leave(c, before);
  return a;
}

void capture_branch_close(capture *c, capture_branch *b, const rush_value *tensors, uint32_t n,
                          bool is_one)
{
  fx_arg *items = session_alloc_in(c->s, c->mem, ((size_t)n + 1) * sizeof *items);
  fx_arg *all = session_alloc_in(c->s, c->mem, sizeof *all);

  for (uint32_t i = 0; i < n; i++)
    items[i] = returned_by(c, b, tensors[i]);
  *all = is_one ? items[0] : (fx_arg){.kind = FX_TUPLE, .n = n, .as.items = items};
  fx_node *out = fx_node_new(c->s, b->g, FX_OUTPUT, "output", "output");
  out->args = all;
  out->n_args = 1;
}

/* Return the node of a graph behind its first n. */
static fx_node *node_behind(const fx_graph *g, uint32_t n)
{
  fx_node *at = g->first;

  while (at && n--)
    at = at->next;
  return at;
}

static fx_node *placeholder_of(const capture_branch *b, const fx_node *n)
{
  return table_get(&b->operands, address_key(n));
}

static bool uses(const capture_branch *b, const fx_node *n) { return placeholder_of(b, n) != NULL; }

/* How PyTorch orders operands: what both graphs use, then what one uses; of each the values that
 * are no explicit operands first, parameters and buffers by name. */
static int operand_rank(const capture_branch *a, const capture_branch *b, const fx_node *n,
                        uint32_t n_given)
{
  bool is_given = false;

  for (uint32_t i = 0; i < n_given; i++)
    is_given |= a->used[i] == n;
  /* both have those that the code names, used or not: capture_drop_unused has counted */
  const bool in_a = uses(a, n) && !(is_given && !placeholder_of(a, n)->n_users),
             in_b = uses(b, n) && !(is_given && !placeholder_of(b, n)->n_users);
  return (in_a && in_b ? 0 : in_a ? 2 : 4) + is_given;
}

/* True for the placeholder of a parameter or buffer. */
static bool is_state(const fx_node *n)
{
  return n->op == FX_PLACEHOLDER && (*n->name == 'p' || *n->name == 'b') && n->name[1] == '_';
}

static bool comes_before(const fx_node *x, int rank_x, const fx_node *y, int rank_y)
{
  if (rank_x != rank_y)
    return rank_x < rank_y;
  return is_state(x) && is_state(y) && strcmp(x->name, y->name) < 0;
}

/* Collect the operands of both graphs in PyTorch's order; returns the number. */
static uint32_t order_operands(capture *c, const capture_branch *a, const capture_branch *b,
                               uint32_t n_given, const fx_node **out)
{
  int *ranks = session_array(c->s, int, (size_t)a->n_used + b->n_used + 1);
  uint32_t n = 0;

  for (uint32_t i = 0; i < a->n_used + b->n_used; i++) {
    const fx_node *x = i < a->n_used ? a->used[i] : b->used[i - a->n_used];
    const int rank = operand_rank(a, b, x, n_given);
    uint32_t at = n;
    if (i >= a->n_used && uses(a, x))
      continue;
    for (; at > 0 && comes_before(x, rank, out[at - 1], ranks[at - 1]); at--) {
      out[at] = out[at - 1];
      ranks[at] = ranks[at - 1];
    }
    out[at] = x;
    ranks[at] = rank;
    n++;
  }
  return n;
}

uint32_t capture_share_operands(capture *c, capture_branch *a, capture_branch *b, uint32_t n_own,
                                uint32_t n_given)
{
  const fx_node **all = session_array(c->s, const fx_node *, (size_t)a->n_used + b->n_used + 1);
  const uint32_t n = order_operands(c, a, b, n_given, all);

  for (int i = 0; i < 2; i++)
    for (uint32_t k = n; k-- > 0;) {
      capture_branch *x = i ? b : a;
      fx_node *p = capture_operand(c, x, all[k]), *first = node_behind(x->g, n_own);
      if (p != first)
        fx_node_move_before(p, first);
    }
  a->used = all;
  a->n_used = n;
  return n;
}

fx_arg capture_branch_graph(capture *c, const char *prefix, uint32_t number, capture_branch *b)
{
  const char *name = capture_text(c, session_printf(c->s, "%s_%u", prefix, number));
  fx_node *n = fx_node_new(c->s, c->g, FX_GET_ATTR, name, name);

  fx_graph_add_subgraph(c->s, c->g, name, b->g);
  return fx_arg_node(n);
}

/* Take an operand back. */
static void forget_operand(capture_branch *b, uint32_t at)
{
  const fx_node *n = b->used[at];

  fx_node_unlink(placeholder_of(b, n));
  (void)table_remove(&b->operands, address_key(n));
  b->n_used--;
  memmove(b->used + at, b->used + at + 1, (b->n_used - at) * sizeof *b->used);
}

uint32_t capture_drop_unused(capture *c, capture_branch *a, capture_branch *b, uint32_t n_given)
{
  fx_graph_count_users(c->s, a->g);
  fx_graph_count_users(c->s, b->g);
  for (uint32_t i = n_given; i-- > 0;) {
    ASSERT(a->used[i] == b->used[i], "both were given the operand");
    if (placeholder_of(a, a->used[i])->n_users || placeholder_of(b, a->used[i])->n_users)
      continue;
    forget_operand(a, i);
    forget_operand(b, i);
    n_given--;
  }
  return n_given;
}

fx_node *capture_add_cond(capture *c, fx_node *predicate, capture_branch *a, capture_branch *b,
                          uint32_t n_given)
{
  const uint32_t n = capture_share_operands(c, a, b, 0, n_given);
  fx_arg *operands = session_alloc_in(c->s, c->mem, ((size_t)n + 1) * sizeof *operands);

  for (uint32_t i = 0; i < n; i++)
    operands[i] = fx_arg_node((fx_node *)(uintptr_t)a->used[i]);
  fx_arg args[4] = {fx_arg_node(predicate)};
  const uint32_t number = c->g->n_subgraphs / 2;
  args[1] = capture_branch_graph(c, "true_graph", number, a);
  args[2] = capture_branch_graph(c, "false_graph", number, b);
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
    const fx_arg args[] = {fx_arg_node(n), fx_arg_int(i)};
    fx_node *item = capture_node(c, "_operator.getitem", args, 2);
    if (capture_form(j->a[i]) == FORM_INT) {
      j->joined[i] = capture_fresh(c, FX_VAL_INT, item);
      items[i] = item->val;
      continue;
    }
    const capture_tensor *a = capture_tensor_of(c, j->a[i].as.tensor),
                         *b = capture_tensor_of(c, j->b[i].as.tensor);
    const bool grad = a->requires_grad || b->requires_grad;
    capture_check_same(c, &a->facts, &b->facts);
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

fx_node *capture_predicate(capture *c, rush_value condition)
{
  const capture_number *n = capture_number_of(condition);

  if (n->kind != FX_VAL_BOOL)
    capture_fail(c, "a branch on a number that depends on data cannot be exported");
  if (n->node && strcmp(n->node->target, "torch.ops.aten.item.default") == 0)
    return capture_use(c, n->node->args[0].as.node);
  return capture_number_arg(c, condition).as.node;
}

/* Record that the condition is true (or false, as expected), or else the message. */
static void add_assertion(capture *c, rush_value condition, bool expected, const ir_node *raised)
{
  static const char assertion[] = "torch.ops.aten._assert_async.msg";
  rush_value text = value_none();
  fx_arg args[2] = {fx_arg_node(capture_predicate(c, condition))};
  fx_node *predicate = args[0].as.node;

  if (raised->n_inputs && !ir_value_as_constant(ir_node_input(raised, 0), &text))
    text = value_none();
  if (predicate->val->kind != FX_VAL_TENSOR) {
    capture_check(c, expected ? condition : capture_not(c, condition));
    return;
  }
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

/* Let the branch return these values, which become what an operator can return. */
static void close_with(capture *c, capture_branch *b, rush_value *values, uint32_t n)
{
  const capture_graph before = capture_branch_enter(c, b);

  for (uint32_t i = 0; i < n; i++)
    if (capture_form(values[i]) != FORM_INT) /* torch.cond returns tensors and ints */
      values[i] = capture_passed(c, values[i]);
  capture_leave(c, before);
  capture_branch_close(c, b, values, n, false);
}

/* -- The branch -------------------------------------------------------------------------------- */

void capture_cond(capture *c, const ir_node *n, rush_value condition, capture_run *run, void *arg,
                  rush_value *out)
{
  rush_value *a = session_array(c->s, rush_value, 2 * (size_t)n->n_outputs + 1);
  rush_value *b = a + n->n_outputs;
  joining j = {.c = c};

  for (int i = 0; i < 2; i++) {
    const ir_node *raised = raise_in(n->blocks[i]);
    if (!raised)
      continue;
    add_assertion(c, condition, i == 1, raised);
    run(arg, n->blocks[1 - i], out);
    return;
  }
  fx_node *predicate = capture_predicate(c, condition);
  capture_branch *yes = capture_branch_open(c), *no = capture_branch_open(c);
  capture_block(c, yes, n->blocks[0], run, arg, a);
  capture_block(c, no, n->blocks[1], run, arg, b);
  j.yes = yes, j.no = no;
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    a[i] = set_like(&j, yes, a[i], b[i]);
    b[i] = set_like(&j, no, b[i], a[i]);
    pair_up(&j, a[i], b[i]);
  }
  number_form *forms = session_array(c->s, number_form, (size_t)j.n + 1);
  for (uint32_t i = 0; i < j.n; i++)
    forms[i] = capture_form(j.a[i]);
  close_with(c, yes, j.a, j.n);
  close_with(c, no, j.b, j.n);
  if (j.n) /* else the branches compute nothing that is used */
    take_results(&j, capture_add_cond(c, predicate, yes, no, 0));
  for (uint32_t i = 0; i < j.n; i++)
    if (forms[i] == FORM_BOOL || forms[i] == FORM_FLOAT)
      j.joined[i] = capture_read_number(c, j.joined[i]);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    out[i] = capture_rebuild(c, a[i], joined, &j);
}
