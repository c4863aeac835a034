/* passes/remove_mutation.c -- replaces lists and tensors that are made, then changed, by their
 * final form.
 *
 * Lists: appends (inserts, pops, items set) that come before every other use of a list made in the
 * same block.  Tensors: an in-place operator on a tensor that an operator of the same block has
 * just made, whose memory is not shared yet: later uses take the result of the out-of-place
 * operator. */
#include "base/grow.h"
#include "ir/facts.h"
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

#include <stdlib.h>

#define MOST_SIDE (INT64_C(1) << 20) /* of a tensor that is not row-major */
#define MOST_VIEWS 8 /* of views of views, that are looked through */

/* -- Uses -------------------------------------------------------------------------------------- */

/* True if argument i is only read and no result shares its memory. */
static bool only_reads(const ir_node *n, uint32_t i)
{
  const schema *sc;

  if (n->kind != IR_OP || n->n_blocks || n->op->effects & (OP_RETURNS_ARG | OP_SIDE_EFFECT) ||
      n->op->family == FAMILY_VIEW)
    return false;
  sc = n->op->schema;
  if (i >= sc->n_args || sc->args[i].is_write || sc->args[i].elem_write || sc->args[i].alias_before)
    return false;
  for (uint32_t k = 0; k < n->n_outputs; k++)
    if (k >= sc->n_returns || sc->returns[k].alias_before & ALIAS_WILDCARD)
      return false;
  return true;
}

static uint32_t input_index(const ir_use *u)
{
  uint32_t i = 0;

  while (u->user->inputs[i] != u) {
    i++;
    ASSERT(i < u->user->n_inputs, "a use that is no input of its user");
  }
  return i;
}

/* -- Lists ------------------------------------------------------------------------------------- */

typedef struct items {
  session *s;
  ir_value **v;
  uint32_t n, cap;
} items;

static void insert_item(items *l, uint32_t at, ir_value *v)
{
  ASSERT(at <= l->n, "an item behind the end of the list");
  GROW(l->s, l->v, l->n, l->cap, 8);
  memmove(l->v + at + 1, l->v + at, (l->n - at) * sizeof *l->v);
  l->v[at] = v;
  l->n++;
}

static bool place_of_item(const ir_node *n, uint32_t arg, uint32_t size, uint32_t *out)
{
  int64_t i;

  if (!pass_is_constant_int(ir_node_input(n, arg), &i))
    return false;
  i += i < 0 ? size : 0;
  if (i < 0 || i >= size)
    return false;
  *out = (uint32_t)i;
  return true;
}

/* Apply n's change to `l`; returns false if n is something else, or fails. */
static bool apply_to_items(items *l, ir_node *n)
{
  uint32_t at;

  if (ir_node_is_op(n, OPN_APPEND) && n->n_inputs == 2) {
    insert_item(l, l->n, ir_node_input(n, 1));
  } else if (ir_node_is_op(n, OPN_INSERT) && n->n_inputs == 3) {
    int64_t i;
    if (!pass_is_constant_int(ir_node_input(n, 1), &i))
      return false;
    i += i < 0 ? l->n : 0;
    insert_item(l, i < 0 ? 0 : i > l->n ? l->n : (uint32_t)i, ir_node_input(n, 2));
  } else if (ir_node_is_op(n, OPN__SET_ITEM) && n->n_inputs == 3 &&
             place_of_item(n, 1, l->n, &at)) {
    l->v[at] = ir_node_input(n, 2);
  } else if (ir_node_is_op(n, OPN_POP) && n->n_inputs == 2 && place_of_item(n, 1, l->n, &at)) {
    ir_value_replace_all_uses(n->outputs[0], l->v[at]);
    memmove(l->v + at, l->v + at + 1, (l->n - at - 1) * sizeof *l->v);
    l->n--;
  } else {
    return false;
  }
  return true;
}

/* Return the node of b that contains n. */
static ir_node *ancestor_in(const ir_block *b, ir_node *n)
{
  while (n && n->block != b)
    n = n->block->owner;
  ASSERT(n, "a value is used outside of the block in which it was made");
  return n;
}

static int by_order(const void *a, const void *b)
{
  const ir_node *x = *(ir_node *const *)a, *y = *(ir_node *const *)b;

  return x->order < y->order ? -1 : x->order > y->order;
}

/* True if n is a change of the list, by its only use there. */
static bool changes_list(const ir_node *n, const ir_value *list)
{
  return n->kind == IR_OP && n->n_inputs && ir_node_input(n, 0) == list &&
         (ir_node_is_op(n, OPN_APPEND) || ir_node_is_op(n, OPN_INSERT) ||
          ir_node_is_op(n, OPN__SET_ITEM) || ir_node_is_op(n, OPN_POP));
}

/* Let n, which only reads the list, read the items that it has there; false: it may do more. */
static bool read_items(items *l, ir_node *n, const ir_value *list)
{
  uint32_t at;

  if (n->n_inputs == 2 && ir_node_is_op(n, OPN___GETITEM__) && place_of_item(n, 1, l->n, &at)) {
    ir_value_replace_all_uses(n->outputs[0], l->v[at]);
    ir_node_destroy(n);
    return true;
  }
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (ir_node_input(n, i) == list && !only_reads(n, i))
      return false;
  ir_value *now = pass_put_node(l->s, n, IR_LIST_CONSTRUCT, l->v, l->n, list->type)->outputs[0];
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (ir_node_input(n, i) == list)
      ir_node_set_input(n, i, now);
  return true;
}

/* Return the nodes of the list's block that use it, or contain such, in order, each once. */
static ir_node **users_of(session *s, const ir_node *made, uint32_t *n)
{
  const ir_value *list = made->outputs[0];
  uint32_t n_uses = 0, kept = 0;

  for (const ir_use *u = list->uses; u; u = u->next)
    n_uses++;
  ir_node **users = session_array(s, ir_node *, n_uses);
  n_uses = 0;
  for (const ir_use *u = list->uses; u; u = u->next)
    users[n_uses++] = ancestor_in(made->block, u->user);
  qsort(users, n_uses, sizeof *users, by_order);
  for (uint32_t i = 0; i < n_uses; i++)
    if (kept == 0 || users[kept - 1] != users[i])
      users[kept++] = users[i];
  *n = kept;
  return users;
}

/* Make the list that is there behind the last change, instead of `made`. */
static void put_final_list(const items *l, ir_node *made, ir_node *last)
{
  ir_value *list = made->outputs[0],
           *now = pass_put_node(l->s, last, IR_LIST_CONSTRUCT, l->v, l->n, list->type)->outputs[0];

  if (last->n_outputs == 1 && last->outputs[0]->uses)
    ir_value_replace_all_uses(last->outputs[0], now);
  ir_node_destroy(last);
  ir_value_replace_all_uses(list, now);
  if (list->name) {
    const char *name = session_strdup(l->s, list->name);
    ir_value_set_name(l->s, list, NULL);
    ir_value_set_name(l->s, now, name);
  }
  ir_node_destroy(made);
}

/* Uses before the last change that only read the list get a list of the items at that point. */
static void settle_list(session *s, ir_node *made)
{
  ir_value *list = made->outputs[0];
  items l = {.s = s};
  ir_node *last = NULL;
  uint32_t n_users, n_changes = 0;

  if (!list->uses || !type_is(list->type, TYPE_LIST))
    return;
  ir_node **users = users_of(s, made, &n_users);
  for (uint32_t i = 0; i < made->n_inputs; i++)
    insert_item(&l, l.n, ir_node_input(made, i));
  for (uint32_t i = 0; i < n_users; i++)
    n_changes += changes_list(users[i], list);
  for (uint32_t i = 0; i < n_users && n_changes; i++) {
    ir_node *n = users[i];
    if (!changes_list(n, list)) {
      if (n->kind != IR_OP || !read_items(&l, n, list))
        break;
      continue;
    }
    bool returns_list = n->n_outputs == 1 && n->outputs[0]->uses && !ir_node_is_op(n, OPN_POP);
    if (!apply_to_items(&l, n))
      break;
    if (last)
      ir_node_destroy(last);
    last = n;
    n_changes--;
    if (returns_list) /* its users may be before the next change */
      break;
  }
  if (last)
    put_final_list(&l, made, last);
}

typedef struct found {
  ir_node *n;
  struct found *next;
} found;

/* Collect changes, newest first. */
static void keep_found(session *s, found **all, ir_node *n)
{
  found *one = session_new(s, found);

  *one = (found){n, *all};
  *all = one;
}

static void find_lists(session *s, ir_node *n, void *arg)
{
  if (n->kind == IR_LIST_CONSTRUCT)
    keep_found(s, arg, n);
}

void pass_remove_list_mutation(session *s, ir_graph *g)
{
  found *all = NULL;

  pass_each(s, g->block, find_lists, &all);
  for (; all; all = all->next)
    settle_list(s, all->n);
}

/* -- Tensors ----------------------------------------------------------------------------------- */

/* True if an operator made it with memory of its own. */
static bool is_fresh(const ir_value *v)
{
  const ir_node *n = v->node;

  return n->kind == IR_OP && !n->op->outside && pass_is_pure(n) && n->op->family != FAMILY_VIEW &&
         !(n->op->effects & OP_RETURNS_ARG) && v->index < n->op->schema->n_returns &&
         !n->op->schema->returns[v->index].alias_before && type_is(v->type, TYPE_TENSOR);
}

/* True if the node makes a view of its first argument, or returns it, or a copy. */
static bool makes_view(const ir_node *n)
{
  return n->kind == IR_OP && (n->op->family == FAMILY_VIEW || n->op->effects & OP_RETURNS_ARG) &&
         n->n_outputs == 1 && n->op->variant == VARIANT_BASE && !n->n_blocks &&
         !schema_is_mutable(n->op->schema) &&
         !(n->op->effects & (OP_WRITES | OP_SIDE_EFFECT | OP_GEOMETRY)) &&
         type_is(n->outputs[0]->type, TYPE_TENSOR);
}

/* True if it is a view of what is_fresh, and the only name of that memory. */
static bool is_only_view(const ir_value *v)
{
  for (int levels = 0; levels < MOST_VIEWS && makes_view(v->node); levels++) {
    const ir_value *base = ir_node_input(v->node, 0);

    if (!base->uses || base->uses->next || base->node->block != v->node->block)
      return false;
    if (is_fresh(base))
      return true;
    v = base;
  }
  return false;
}

/* True if the new tensor could have another dtype than the old one, because another tensor could
 * promote it. */
static bool may_promote(const ir_node *n)
{
  int dtype = ir_facts_of(ir_node_input(n, 0)->type)->dtype;

  for (uint32_t i = 1; i < n->n_inputs; i++) {
    const ir_value *v = ir_node_input(n, i);
    int other = ir_facts_of(v->type)->dtype;
    if (type_is(v->type, TYPE_TENSOR) && v != ir_node_input(n, 0) &&
        (other == DTYPE_NONE || other != dtype))
      return true;
  }
  return false;
}

static ir_node *functional(session *s, ir_node *n)
{
  ir_value *in[16], *none;
  bool fill = ir_node_is_op(n, OPN_FILL_) && n->n_inputs == 2,
       zero = ir_node_is_op(n, OPN_ZERO_);

  if (n->n_inputs > 16)
    return NULL;
  for (uint32_t i = 0; i < n->n_inputs; i++)
    in[i] = ir_node_input(n, i);
  if (!fill && !zero) {
    const op *base = n->op->base;
    if (!base || base->schema->n_args != n->n_inputs || base->schema->n_returns != 1)
      return NULL;
    return pass_put_op(s, n, base->schema->name, base->schema->overload, in, n->n_inputs);
  }
  if (fill && type_is(in[1]->type, TYPE_TENSOR))
    return NULL;
  uint32_t k = fill ? 2 : 1;
  ir_node *dtype = pass_put_op(s, n, "prim::dtype", "", in, 1);
  none = pass_put_constant(s, n, value_none(), type_simple(TYPE_NONE));
  in[k] = dtype ? dtype->outputs[0] : none;
  for (uint32_t i = 1; i < 5; i++)
    in[k + i] = none;
  return pass_put_op(s, n, fill ? "aten::full_like" : "aten::zeros_like", "", in, k + 5);
}

/* True if n writes to its first argument, in the block in which x was made, and returns it. */
static bool is_change(const ir_node *n, const ir_block *b)
{
  return n->kind == IR_OP && n->block == b && n->n_outputs == 1 && !(n->op->effects & OP_RANDOM) &&
         (n->op->variant == VARIANT_INPLACE || ir_node_is_op(n, OPN_FILL_) ||
          ir_node_is_op(n, OPN_ZERO_));
}

typedef struct use_list { /* of one tensor, under all names of its changes */
  session *s;
  const ir_block *block;
  struct one_use { ir_use *use; uint64_t order; } *v;
  uint32_t n, cap;
} use_list;

static void add_uses(use_list *l, const ir_value *v)
{
  for (ir_use *u = v->uses; u; u = u->next) {
    GROW(l->s, l->v, l->n, l->cap, 8);
    l->v[l->n++] = (struct one_use){u, ancestor_in(l->block, u->user)->order};
  }
}

static int by_use_order(const void *a, const void *b)
{
  const struct one_use *x = a, *y = b;

  return x->order < y->order ? -1 : x->order > y->order;
}

/* Return the value of x after the change n; NULL: n is kept. */
static ir_value *changed(session *s, ir_node *n, ir_value *x)
{
  bool promotes = may_promote(n);
  ir_node *made = functional(s, n);

  if (!made || !promotes)
    return made ? made->outputs[0] : NULL;
  ir_value *in[2] = {made->outputs[0], x};
  return pass_put_op(s, n, "aten::type_as", "", in, 2)->outputs[0];
}

static bool is_row_major(const ir_value *v, const ir_facts **f)
{
  *f = ir_facts_of(v->type);
  return (*f)->n_dims >= 0 && ir_facts_are_row_major(*f);
}

/* True if the elements come in the order of rows, maybe with gaps: what is made of it and of a
 * row-major tensor is row-major. */
static bool is_row_ordered(const ir_value *v, const ir_facts **f)
{
  int64_t before = INT64_MAX;

  if (is_row_major(v, f))
    return true;
  if (!ir_facts_has_sizes(*f) || !ir_facts_has_strides(*f))
    return false;
  for (int d = 0; d < (*f)->n_dims; d++) {
    if ((*f)->sizes[d] == 1)
      continue;
    if ((*f)->strides[d] < 1 || (*f)->strides[d] > before)
      return false;
    before = (*f)->strides[d];
  }
  return true;
}

/* True if the sizes and strides are known, the same for both, and leave no gaps. */
static bool same_dense(const ir_facts *a, const ir_facts *b)
{
  int64_t n = 1, reach = 1;

  if (!ir_facts_has_sizes(a) || !ir_facts_has_strides(a) || !ir_facts_has_sizes(b) ||
      !ir_facts_has_strides(b) || a->n_dims != b->n_dims || a->dtype != b->dtype)
    return false;
  for (int d = 0; d < a->n_dims; d++) {
    if (a->sizes[d] != b->sizes[d] || a->strides[d] != b->strides[d] || a->strides[d] < 1 ||
        a->sizes[d] < 1 || a->sizes[d] > MOST_SIDE || a->strides[d] > MOST_SIDE * MOST_SIDE)
      return false;
    n *= a->sizes[d];
    reach += (a->sizes[d] - 1) * a->strides[d];
    if (n > MOST_SIDE * MOST_SIDE)
      return false;
  }
  return n == reach;
}

/* True if the change certainly succeeds, and the functional operator gives the same dtype, sizes
 * and strides: a pointwise one of floats, whose operands are no larger than the tensor, or, if it
 * is not row-major, lie in memory as it does. */
static bool is_exact(const ir_node *n)
{
  const ir_facts *self, *other;
  const bool rows = is_row_major(ir_node_input(n, 0), &self);

  if (n->op->family != FAMILY_POINTWISE || !n->op->base || n->op->variant != VARIANT_INPLACE ||
      (!rows && !same_dense(self, self)) || self->dtype == DTYPE_NONE ||
      dtype_class_of(self->dtype) != DTYPE_FLOAT)
    return false;
  for (uint32_t i = 1; i < n->n_inputs; i++) {
    const ir_value *v = ir_node_input(n, i);

    if (type_is(v->type, TYPE_INT) || type_is(v->type, TYPE_FLOAT) || type_is(v->type, TYPE_BOOL) ||
        type_is(v->type, TYPE_NONE))
      continue;
    if (!rows) {
      if (!type_is(v->type, TYPE_TENSOR) || !same_dense(self, ir_facts_of(v->type)))
        return false;
      continue;
    }
    if (!type_is(v->type, TYPE_TENSOR) || !is_row_ordered(v, &other) || !ir_facts_has_sizes(self) ||
        !ir_facts_has_sizes(other) || other->dtype != self->dtype || other->n_dims > self->n_dims)
      return false;
    for (int d = 0; d < other->n_dims; d++) {
      const int64_t size = other->sizes[d];
      if (size != 1 && size != self->sizes[self->n_dims - other->n_dims + d])
        return false;
    }
  }
  return true;
}

/* True if n makes a list or a view that is only read, before the tensor changes again: it may be of
 * the value that the tensor has when n runs.  `levels`: of views of views. */
static bool is_read_alias(const use_list *l, const ir_node *n, int levels)
{
  const bool view = makes_view(n);

  if ((!view && n->kind != IR_LIST_CONSTRUCT) || n->block != l->block || !n->outputs[0]->uses)
    return false;
  for (const ir_use *u = n->outputs[0]->uses; u; u = u->next) {
    const uint64_t until = ancestor_in(l->block, u->user)->order;

    if (!only_reads(u->user, input_index(u)) &&
        !(view && levels > 0 && is_read_alias(l, u->user, levels - 1)))
      return false;
    for (uint32_t i = 0; i < l->n; i++)
      if (l->v[i].order > n->order && l->v[i].order <= until &&
          is_change(l->v[i].use->user, l->block) && input_index(l->v[i].use) == 0)
        return false;
  }
  return true;
}

/* True if every use of the tensor, under all its names, only reads it or is an exact change. */
static bool all_exact(const use_list *l)
{
  for (uint32_t i = 0; i < l->n; i++) {
    const ir_node *n = l->v[i].use->user;
    const uint32_t at = input_index(l->v[i].use);
    const bool change = is_change(n, l->block) && at == 0;

    if (change ? !is_exact(n) : !only_reads(n, at) && !is_read_alias(l, n, MOST_VIEWS))
      return false;
  }
  return true;
}

/* Replace each use, in text order, by x's value at that point; from the first use that may retain
 * it on, changes are kept. */
static void settle_tensor(session *s, ir_value *x, bool exact)
{
  use_list l = {.s = s, .block = x->node->block};
  ir_value *now = x;
  bool held = false, any = false;

  add_uses(&l, x);
  for (uint32_t i = 0; i < l.n; i++)
    if (is_change(l.v[i].use->user, l.block) && input_index(l.v[i].use) == 0) {
      add_uses(&l, l.v[i].use->user->outputs[0]);
      any = true;
    }
  if (!any || (exact && !all_exact(&l)))
    return;
  qsort(l.v, l.n, sizeof *l.v, by_use_order);
  for (uint32_t i = 0, end; i < l.n; i = end) {
    bool change = false;
    for (end = i; end < l.n && l.v[end].order == l.v[i].order; end++) {
      ir_use *u = l.v[end].use;
      uint32_t at = input_index(u);
      ASSERT(ir_value_is_visible(now, u->user), "the tensor's value at this point was made before");
      ir_node_set_input(u->user, at, now);
      if (is_change(u->user, l.block) && at == 0)
        change = true;
      else
        held |= !exact && !only_reads(u->user, at); /* all_exact has looked at all uses */
    }
    ir_node *n = l.v[i].use->user;
    ir_value *after = change && !held ? changed(s, n, now) : NULL;
    if (after && exact)
      after->type = n->outputs[0]->type;
    if (after) {
      ir_value_replace_all_uses(n->outputs[0], after);
      ir_node_destroy(n);
      now = after;
    }
    held |= change && !after;
  }
}

/* True if nothing else can tell whether the tensor changes or is replaced by a new one. */
static bool can_settle(const ir_value *v, bool exact)
{
  return is_fresh(v) || (exact && is_only_view(v));
}

static void find_fresh(session *s, ir_node *n, void *arg)
{
  if (n->n_outputs && can_settle(n->outputs[0], true))
    keep_found(s, arg, n);
}

/* Settling removes nodes, so the candidates are found first. */
static void settle_tensors(session *s, ir_graph *g, bool exact)
{
  found *all = NULL;

  pass_each(s, g->block, find_fresh, &all);
  for (; all; all = all->next)
    for (uint32_t i = 0; i < all->n->n_outputs; i++)
      if (all->n->outputs[i]->uses && can_settle(all->n->outputs[i], exact))
        settle_tensor(s, all->n->outputs[i], exact);
}

void pass_remove_tensor_mutation(session *s, ir_graph *g) { settle_tensors(s, g, false); }

/* What leaves the graph is kept: its version would tell. */
void pass_remove_exact_mutation(session *s, ir_graph *g)
{
  if (!g->is_recorded)
    settle_tensors(s, g, true);
}

void pass_remove_mutation(session *s, ir_graph *g)
{
  pass_remove_list_mutation(s, g);
  pass_remove_tensor_mutation(s, g);
}
