/* passes/points.c -- finds values that are worth a guard, and puts points behind them (points.h).
 *
 * Three steps.  Sources: values of which the arguments' facts say nothing, such as items of lists,
 * results of calls and of operators whose sizes depend on data or on numbers.  Use: those from
 * which a question about sizes or dtypes is reached along tensors.  Snapshots: liveness as emission
 * has it (run/bytecode_regs.c); a value is live if a use follows the point in its block, or in a
 * block around it, or if a loop between the value and the point leads back to one.
 * Rejected: to take emission's registers, which know what is live but not under which name a plan
 * has it.  Cost: O(nodes), and O(points * uses) for the snapshots. */
#include "passes/points.h"

#include "ir/alias.h"
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

#define MOST_LIVE 1000 /* values of a snapshot */
#define MOST_DEPTH 16  /* of numbers that are followed to their sources */

typedef struct finder {
  session *s;
  ir_graph *g;
  bool everywhere, sets_attrs;
  bool is_foreign; /* the graph came with points */
  ir_value **found;
  uint32_t n, cap;
  bool *seen; /* by ir_value->scratch */
  ir_value **queue;
  uint32_t n_queue, n_values;
} finder;

/* -- Sources ----------------------------------------------------------------------------------- */

/* True if facts of its argument answer the node, or make it simpler (passes/peephole.c). */
static bool asks(const ir_node *n)
{
  if (n->kind != IR_OP)
    return false;
  switch (n->op->name_key) {
  case OPN_SIZE: case OPN_DIM: case OPN_LEN: case OPN_NUMEL: case OPN_EXPAND: case OPN_TYPE_AS:
  case OPN_IS_FLOATING_POINT: case OPN_IS_COMPLEX: case OPN_STRIDE:
  case OPN_PRIM__DTYPE: case OPN_PRIM__DEVICE: case OPN_PRIM__IS_CUDA:
    return n->n_inputs && type_is(ir_node_input(n, 0)->type, TYPE_TENSOR);
  }
  return false;
}

static bool is_number_like(const type *t)
{
  t = t->kind == TYPE_OPTIONAL || t->kind == TYPE_LIST ? type_elem(t) : t;
  t = t->kind == TYPE_OPTIONAL ? type_elem(t) : t;
  return t->kind == TYPE_INT;
}

/* True if the number, or list of them, is known once all facts are: it comes from constants and
 * sizes. */
static bool is_known_number(const ir_value *v, int depth)
{
  const ir_node *n = v->node;

  if (n->kind == IR_CONSTANT || asks(n))
    return true;
  if (depth == MOST_DEPTH || n->n_blocks || n->kind == IR_PARAM ||
      !(n->kind == IR_LIST_CONSTRUCT || n->kind == IR_OP))
    return false;
  bool known = true;
  for (uint32_t i = 0; known && i < n->n_inputs; i++)
    known = is_known_number(ir_node_input(n, i), depth + 1);
  return known;
}

static bool takes_unknown_numbers(const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (is_number_like(ir_node_input(n, i)->type) && !is_known_number(ir_node_input(n, i), 0))
      return true;
  return false;
}

static bool is_unknown_op(const ir_node *n)
{
  const op *o = n->op;

  if (o->outside || op_waits(o) || o->effects & OP_DATA_SIZE)
    return true;
  for (uint32_t i = 0; i < o->schema->n_returns; i++)
    if (type_has_vars(o->schema->returns[i].type)) /* an item of a container */
      return true;
  return takes_unknown_numbers(n);
}

/* True if propagation from the arguments cannot know the node's results. */
static bool is_source(const finder *f, const ir_node *n)
{
  switch ((int)n->kind) {
  case IR_OP: return is_unknown_op(n);
  case IR_LIST_UNPACK: return ir_node_input(n, 0)->node->kind != IR_LIST_CONSTRUCT;
  case IR_TUPLE_UNPACK:
  case IR_TUPLE_INDEX: return ir_node_input(n, 0)->node->kind != IR_TUPLE_CONSTRUCT;
  case IR_GET_ATTR: return f->sets_attrs;
  case IR_UNCHECKED_CAST: return is_source(f, ir_node_input(n, 0)->node);
  case IR_CALL_METHOD:
  case IR_CALL_FUNCTION:
  case IR_INTERFACE_CALL:
  case IR_MODULE_CONTAINER_INDEX: return true;
  default: return false;
  }
}

/* -- Use --------------------------------------------------------------------------------------- */

static void reach(finder *f, ir_value *v)
{
  if (f->seen[v->scratch] || !alias_type_has_memory(v->type))
    return;
  f->seen[v->scratch] = true;
  f->queue[f->n_queue++] = v;
}

/* Continue behind a use as a result of a block. */
static void reach_results(finder *f, const ir_node *ret, const ir_value *v)
{
  ir_node *owner = ret->block->owner;

  for (uint32_t i = 0; owner && i < ret->n_inputs; i++) {
    const uint32_t shift = owner->kind == IR_LOOP;

    if (ir_node_input(ret, i) != v || i < shift || i - shift >= owner->n_outputs)
      continue;
    reach(f, owner->outputs[i - shift]);
    if (owner->kind == IR_LOOP)
      reach(f, ir_block_input(ret->block, i));
  }
}

static void reach_user(finder *f, const ir_node *n, const ir_value *v)
{
  if (n->kind == IR_RETURN) {
    reach_results(f, n, v);
    return;
  }
  for (uint32_t i = 2; n->kind == IR_LOOP && i < n->n_inputs; i++)
    if (ir_node_input(n, i) == v)
      reach(f, ir_block_input(n->blocks[0], i - 1));
  for (uint32_t i = 0; n->kind != IR_LOOP && n->kind != IR_IF && i < n->n_outputs; i++)
    reach(f, n->outputs[i]);
}

/* True if a question follows from v. */
static bool is_asked(finder *f, ir_value *v)
{
  bool asked = false;

  memset(f->seen, 0, f->n_values * sizeof *f->seen);
  f->n_queue = 0;
  reach(f, v);
  while (f->n_queue && !asked) {
    const ir_value *at = f->queue[--f->n_queue];
    session_poll(f->s);
    for (const ir_use *u = at->uses; u && !asked; u = u->next) {
      asked = asks(u->user);
      reach_user(f, u->user, at);
    }
  }
  return asked;
}

/* -- Candidates -------------------------------------------------------------------------------- */

static bool is_wanted(finder *f, ir_value *v)
{
  const ir_node *n = v->node;

  if (!v->uses)
    return false;
  if (f->everywhere)
    return n->kind != IR_CONSTANT && n->kind != IR_UNINITIALIZED &&
           n->kind != IR_BAILOUT_TEMPLATE && n->kind != IR_PROFILE &&
           n->kind != IR_PROFILE_IVALUE && !type_is(v->type, TYPE_NONE);
  return type_is(v->type, TYPE_TENSOR) && is_source(f, n) && is_asked(f, v);
}

static void find_in(finder *f, const ir_block *b)
{
  session_enter(f->s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(f->s);
    if (n->kind == IR_IF || n->kind == IR_LOOP) /* other blocks have no point */
      for (uint32_t i = 0; i < n->n_blocks; i++)
        find_in(f, n->blocks[i]);
    for (uint32_t i = 0; i < n->n_outputs && f->n < f->cap; i++)
      if (is_wanted(f, n->outputs[i]))
        f->found[f->n++] = n->outputs[i];
  }
  session_leave(f->s);
}

static void count_one(session *s, ir_node *n, void *arg)
{
  finder *f = arg;

  (void)s;
  f->is_foreign |= pass_point_of(n) >= 0;
  f->sets_attrs |= n->kind == IR_SET_ATTR || n->kind == IR_CALL_METHOD ||
                   n->kind == IR_CALL_FUNCTION || n->kind == IR_INTERFACE_CALL;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    n->outputs[i]->scratch = f->n_values++;
  for (uint32_t k = 0; k < n->n_blocks; k++)
    for (uint32_t i = 0; i < ir_block_n_inputs(n->blocks[k]); i++)
      ir_block_input(n->blocks[k], i)->scratch = f->n_values++;
}

/* Find values for points, in order. */
static finder find_values(session *s, ir_graph *g, bool everywhere)
{
  finder f = {.s = s, .g = g, .everywhere = everywhere};

  for (uint32_t i = 0; i < ir_block_n_inputs(g->block); i++)
    ir_block_input(g->block, i)->scratch = f.n_values++;
  pass_each(s, g->block, count_one, &f);
  f.seen = session_array(s, bool, (size_t)f.n_values + 1);
  f.queue = session_array(s, ir_value *, (size_t)f.n_values + 1);
  f.cap = f.is_foreign ? 0 : everywhere ? f.n_values : MOST_POINTS;
  f.found = session_array(s, ir_value *, (size_t)f.cap + 1);
  find_in(&f, g->block);
  const uint32_t step = f.n / MOST_POINTS + 1;
  if (step > 1) { /* spread over the graph */
    uint32_t n = 0;
    for (uint32_t i = 0; i < f.n; i += step)
      f.found[n++] = f.found[i];
    f.n = n;
  }
  return f;
}

bool pass_wants_points(session *s, ir_graph *g, bool everywhere)
{
  return find_values(s, g, everywhere).n > 0;
}

/* -- Snapshots --------------------------------------------------------------------------------- */

typedef struct level { /* a block around the point, from the inside */
  const ir_block *b;
  const ir_node *anchor; /* the point, or the node of b that contains it */
} level;

typedef struct snapshot {
  session *s;
  level *levels;
  uint32_t n_levels, n_loops;
  ir_value **live;
  uint32_t n, cap;
} snapshot;

/* Return the node of b that is `user` or contains it; NULL: it is outside. */
static const ir_node *in_block(const ir_node *user, const ir_block *b)
{
  while (user && user->block != b)
    user = user->block->owner;
  return user;
}

/* True if the use follows the point in a run; the value belongs to level d. */
static bool follows(const snapshot *p, uint32_t d, const ir_node *user)
{
  const ir_node *n = NULL;
  uint32_t j = 0;

  while (j <= d && !(n = in_block(user, p->levels[j].b)))
    j++;
  if (!n || n == p->levels[0].anchor)
    return false;
  if (n->order > p->levels[j].anchor->order)
    return true;
  for (uint32_t m = j + 1; m <= d; m++)
    if (p->levels[m].anchor->kind == IR_LOOP)
      return true;
  return false;
}

static void add_if_live(snapshot *p, uint32_t d, ir_value *v)
{
  bool live = false;

  session_poll(p->s);
  for (const ir_use *u = v->uses; u && !live; u = u->next)
    live = follows(p, d, u->user);
  if (live && p->n < p->cap)
    p->live[p->n++] = v;
}

static bool is_constant(const ir_node *n)
{
  return n->kind == IR_CONSTANT || n->kind == IR_BAILOUT_TEMPLATE ||
         (n->kind == IR_UNINITIALIZED && !ir_attr_find(n, "_checked"));
}

static void add_level(snapshot *p, uint32_t d)
{
  const level *l = &p->levels[d];

  for (uint32_t i = 0; i < ir_block_n_inputs(l->b); i++)
    add_if_live(p, d, ir_block_input(l->b, i));
  for (const ir_node *n = ir_block_first(l->b); n != l->anchor; n = n->next)
    for (uint32_t i = 0; i < n->n_outputs && !is_constant(n); i++)
      add_if_live(p, d, n->outputs[i]);
}

/* Return what is live at the point, and the loops' counts and trips. */
static snapshot take_snapshot(session *s, const ir_node *point)
{
  snapshot p = {.s = s, .cap = MOST_LIVE + 1};
  const ir_node *at = point;

  for (const ir_node *n = point; n; n = n->block->owner)
    p.n_levels++;
  p.levels = session_array(s, level, p.n_levels);
  p.live = session_array(s, ir_value *, p.cap + 2 * (size_t)p.n_levels);
  for (uint32_t d = 0; d < p.n_levels; d++, at = at->block->owner)
    p.levels[d] = (level){at->block, at};
  for (uint32_t d = 0; d < p.n_levels; d++)
    add_level(&p, d);
  if (p.n > MOST_LIVE)
    return p;
  for (uint32_t d = 1; d < p.n_levels; d++)
    if (p.levels[d].anchor->kind == IR_LOOP) {
      p.live[p.n++] = ir_block_input(p.levels[d].anchor->blocks[0], 0);
      p.live[p.n++] = ir_node_input(p.levels[d].anchor, 0);
      p.n_loops++;
    }
  return p;
}

/* -- Insertion --------------------------------------------------------------------------------- */

static ir_node *put_point(session *s, ir_value *v)
{
  ir_node *n = ir_node_new(s, v->node->graph, IR_PROFILE, NULL, 0);
  ir_value *out = ir_node_add_output(s, n, v->type);

  n->range = v->node->range;
  n->origin = v->node->origin;
  n->inlined = v->node->inlined;
  ir_node_insert_after(n, v->node);
  ir_value_replace_all_uses(v, out);
  ir_node_add_input(s, n, v);
  return n;
}

uint32_t pass_put_points(session *s, ir_graph *g, bool everywhere)
{
  const finder f = find_values(s, g, everywhere);
  ir_node **points = session_array(s, ir_node *, (size_t)f.n + 1);
  snapshot *all = session_array(s, snapshot, (size_t)f.n + 1);
  uint32_t n = 0;

  g->has_points = f.n > 0;
  for (uint32_t k = f.n; k-- > 0;) /* results of one node: the last one's is next to it */
    points[k] = put_point(s, f.found[k]);
  for (uint32_t k = 0; k < f.n; k++) /* all, before snapshots are uses themselves */
    all[k] = take_snapshot(s, points[k]);
  for (uint32_t k = 0; k < f.n; k++) {
    ir_value *v = ir_node_input(points[k], 0);
    if (all[k].n > MOST_LIVE) {
      pass_replace(points[k], &v);
      continue;
    }
    ir_attr_set_int(s, points[k], "point", n++);
    ir_attr_set_int(s, points[k], "loops", all[k].n_loops);
    for (uint32_t i = 0; i < all[k].n; i++)
      ir_node_add_input(s, points[k], all[k].live[i]);
  }
  return n;
}

/* -- Guards ------------------------------------------------------------------------------------ */

int64_t pass_point_of(const ir_node *n)
{
  const ir_attr *a =
    n->kind == IR_PROFILE || n->kind == IR_GUARD ? ir_attr_find(n, "point") : NULL;

  return a && a->kind == ATTR_INT ? a->as.i : -1;
}

static void guard_point(session *s, ir_node *n, void *arg)
{
  const point_facts *known = arg;
  const int64_t k = n->kind == IR_PROFILE ? pass_point_of(n) : -1;

  if (k < 0)
    return;
  ir_value *v = ir_node_input(n, 0);
  const ir_facts *f = known && known->facts && k < known->n ? &known->facts[k] : NULL;
  const bool tells =
    f && type_is(v->type, TYPE_TENSOR) && (f->dtype != DTYPE_NONE || f->n_dims >= 0);

  if (!tells && !(known && known->everywhere)) {
    pass_replace(n, &v);
    return;
  }
  const type *t = tells ? ir_facts_type(s, n->graph->types, f) : v->type;
  ir_node *made = pass_put_node(s, n, IR_GUARD, NULL, 0, t);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    ir_node_add_input(s, made, ir_node_input(n, i));
  made->origin = n->origin;
  made->inlined = n->inlined;
  ir_attr_set_int(s, made, "point", k);
  ir_attr_set_int(s, made, "loops", ir_attr_find(n, "loops")->as.i);
  ir_attr_set_type(s, made, "profiled_type", t);
  pass_replace(n, made->outputs);
}

void pass_guard_points(session *s, ir_graph *g, const point_facts *known)
{
  if (ir_graph_may_have(g, IR_PROFILE))
    pass_each(s, g->block, guard_point, (void *)(uintptr_t)known);
}

/* -- Recipes ----------------------------------------------------------------------------------- */

typedef struct recipe {
  session *s;
  int64_t *steps;
  const type **built;
  ir_value **inputs;
  uint32_t n_steps, n_built, n_inputs, cap;
  bool is_full;
} recipe;

/* True if every use is in a snapshot; *times: how often in that of n. */
static bool is_for_snapshots(const ir_value *v, const ir_node *n, uint32_t *times)
{
  *times = 0;
  for (const ir_use *u = v->uses; u; u = u->next) {
    if (pass_point_of(u->user) < 0 || u->user->inputs[0] == u)
      return false;
    *times += u->user == n;
  }
  return true;
}

/* True if the value is a container that can be built when n fails: a tuple, or a list that
 * nothing else refers to. */
static bool can_be_built(const ir_value *v, const ir_node *n)
{
  uint32_t times;

  return v->type->name == NULL && (v->node->kind == IR_TUPLE_CONSTRUCT ||
                                   v->node->kind == IR_LIST_CONSTRUCT) &&
         is_for_snapshots(v, n, &times) && (times == 1 || v->node->kind == IR_TUPLE_CONSTRUCT);
}

static void add_step(recipe *r, int64_t step)
{
  r->is_full |= r->n_steps == r->cap;
  if (!r->is_full)
    r->steps[r->n_steps++] = step;
}

/* Add v; a container's items are part of it.  Nested ones are inputs: they have another user. */
static void add_value(recipe *r, ir_value *v, const ir_node *guard)
{
  if (guard && can_be_built(v, guard)) {
    add_step(r, v->node->n_inputs);
    if (!r->is_full)
      r->built[r->n_built++] = v->type;
    for (uint32_t i = 0; i < v->node->n_inputs; i++)
      add_value(r, ir_node_input(v->node, i), NULL);
    return;
  }
  add_step(r, -1);
  if (!r->is_full)
    r->inputs[r->n_inputs++] = v;
}

static void thin(session *s, ir_node *n, void *arg)
{
  recipe r = {.s = s, .cap = 4 * MOST_LIVE};

  (void)arg;
  if (n->kind != IR_GUARD || pass_point_of(n) < 0)
    return;
  r.steps = session_array(s, int64_t, r.cap);
  r.built = session_array(s, const type *, r.cap);
  r.inputs = session_array(s, ir_value *, r.cap);
  for (uint32_t i = 1; i < n->n_inputs; i++)
    add_value(&r, ir_node_input(n, i), n);
  if (!r.n_built || r.is_full)
    return;
  while (n->n_inputs > 1)
    ir_node_remove_input(n, n->n_inputs - 1);
  for (uint32_t i = 0; i < r.n_inputs; i++)
    ir_node_add_input(s, n, r.inputs[i]);
  ir_attr_set_ints(s, n, "recipe", r.steps, r.n_steps);
  ir_attr_set_types(s, n, "built", r.built, r.n_built);
}

static void drop_unused(session *s, ir_node *n, void *arg)
{
  (void)s;
  (void)arg;
  if ((n->kind == IR_TUPLE_CONSTRUCT || n->kind == IR_LIST_CONSTRUCT) && ir_node_is_unused(n))
    ir_node_destroy(n);
}

void pass_thin_guards(session *s, ir_graph *g)
{
  if (!ir_graph_may_have(g, IR_GUARD))
    return;
  pass_each(s, g->block, thin, NULL);
  pass_each(s, g->block, drop_unused, NULL);
}
