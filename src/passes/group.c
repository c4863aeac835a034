/* passes/group.c -- groups nodes that a backend supports into one node each.
 *
 * A block is cut into stretches by nodes that may write to memory, draw random numbers or run
 * other code (writes, calls, set attributes, control flow that contains such): inside a stretch
 * pure nodes move freely, also over a check that raises.  From the last node of a block to its
 * first, each accepted node that is in no group yet starts a group, which then grows by the
 * producers of its inputs.  A group can be placed if the last of its inputs is made before the
 * first outside use of its results; a producer that would break this stays outside. */
#include "passes/passes_int.h"

#include "base/grow.h"
#include "ops/call/lookup.h"

#define NO_STRETCH UINT32_MAX
#define MOST_USES 256 /* of a producer that joins its users' group */

typedef struct node_info { /* by ir_node->scratch; 0 is that of nodes that were not examined */
  ir_node *node;
  uint32_t stretch; /* or NO_STRETCH: cannot be in a group */
  uint32_t group;   /* number of its group, or 0 */
} node_info;

typedef struct grouper {
  session *s;
  ir_graph *g;
  const rush_group_def *def;
  ir_kind kind; /* of the nodes that are made */
  const op *op; /* IR_OP: their operator */
  adding_order *order; /* which groups keep, or NULL */
  text_buf *report;
  node_info *infos;
  uint32_t n_infos, n_groups;
  ir_node **members; /* of the group being made */
  uint32_t n_members, cap_members;
  uint32_t mark;     /* of the inputs counted last, in ir_value->scratch */
} grouper;

static node_info *info_of(const grouper *p, const ir_node *n)
{
  ASSERT(n->scratch < p->n_infos, "a node with the number of another block");
  return &p->infos[n->scratch];
}

static bool is_member(const grouper *p, const ir_node *n)
{
  return n->scratch < p->n_infos && info_of(p, n)->node == n && info_of(p, n)->group == p->n_groups;
}

/* -- Nodes that can be moved ------------------------------------------------------------------- */

static bool runs_other_code(const ir_node *n)
{
  switch (n->kind) {
  case IR_OP:
    return n->op->effects & (OP_WRITES | OP_SIDE_EFFECT | OP_RANDOM) || op_waits(n->op);
  case IR_CONSTANT:
  case IR_LIST_CONSTRUCT:
  case IR_LIST_UNPACK:
  case IR_TUPLE_CONSTRUCT:
  case IR_TUPLE_UNPACK:
  case IR_TUPLE_INDEX:
  case IR_TUPLE_SLICE:
  case IR_DICT_CONSTRUCT:
  case IR_GET_ATTR:
  case IR_MODULE_CONTAINER_INDEX:
  case IR_UNINITIALIZED:
  case IR_UNCHECKED_CAST:
  case IR_ISINSTANCE:
  case IR_IF:
  case IR_LOOP:
  case IR_PROFILE: case IR_PROFILE_IVALUE: case IR_TYPE_CHECK: case IR_REQUIRES_GRAD_CHECK:
  case IR_DIFFERENTIABLE_GRAPH: case IR_FALLBACK_GRAPH: case IR_GROUP: case IR_GRAD_OF:
  case IR_RAISE: /* ends the call: nothing tells which pure nodes ran before */
    return false; /* control flow: its nodes are examined */
  default:
    return true;
  }
}

static bool is_border(session *s, const ir_node *n)
{
  if (runs_other_code(n))
    return true;
  bool border = false;

  session_enter(s);
  for (uint32_t i = 0; i < n->n_blocks && !border; i++)
    for (const ir_node *m = ir_block_first(n->blocks[i]); m != n->blocks[i]->ret && !border;
         m = m->next)
      border = is_border(s, m);
  session_leave(s);
  return border;
}

/* True if the node has a use: a group of unused nodes would have no result. */
static bool is_used(const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]->uses)
      return true;
  return false;
}

static bool is_pure(const ir_node *n)
{
  return n->kind == IR_OP && n->n_blocks == 0 && is_used(n) && n->op->variant == VARIANT_BASE &&
         !(n->op->effects & (OP_WRITES | OP_SIDE_EFFECT | OP_RANDOM));
}

static void report_refused(const grouper *p, const ir_node *n, const char *why)
{
  if (!p->report)
    return;
  text_puts(p->report, "# not taken: ");
  ir_print_node(p->report, n);
  text_printf(p->report, "#   %s\n", why);
}

/* Number the nodes of b and let the backend accept or refuse each; return their number + 1. */
static uint32_t look_at(grouper *p, const ir_block *b)
{
  uint32_t n = 1, stretch = 0;

  for (ir_node *m = ir_block_first(b); m != b->ret; m = m->next)
    n++;
  p->infos = session_array(p->s, node_info, n);
  p->n_infos = n;
  p->infos[0].stretch = NO_STRETCH;
  n = 1;
  for (ir_node *m = ir_block_first(b); m != b->ret; m = m->next, n++) {
    session_poll(p->s);
    m->scratch = n;
    p->infos[n] = (node_info){.node = m, .stretch = NO_STRETCH};
    if (is_border(p->s, m)) {
      stretch++;
      continue;
    }
    if (!is_pure(m))
      continue;
    const char *why = p->def->refuse((const rush_node *)(const void *)m, p->def->user);
    if (why)
      report_refused(p, m, why);
    else
      p->infos[n].stretch = stretch;
  }
  return n;
}

/* True for constants that are copied into the group; tensors of many elements are arguments
 * instead. */
static bool is_copied(const ir_value *v)
{
  rush_value c;

  return ir_value_as_constant(v, &c) &&
         (c.tag != RUSH_TAG_TENSOR || !c.as.tensor || c.as.tensor->n_dims == 0);
}

/* -- Can it be one node? ----------------------------------------------------------------------- */

/* The range of the graph around a group's members. */
typedef struct extent {
  const ir_node *last_input; /* the last node that makes an input, or NULL */
  ir_node *first_user;       /* the first node outside that uses a result, or NULL */
  uint32_t n_inputs, n_outputs;
} extent;

static void measure_inputs(grouper *p, const ir_block *b, extent *x)
{
  uint32_t mark = ++p->mark;

  for (uint32_t k = 0; k < p->n_members; k++)
    for (uint32_t i = 0; i < p->members[k]->n_inputs; i++) {
      ir_value *v = ir_node_input(p->members[k], i);

      if (is_copied(v) || is_member(p, v->node))
        continue;
      x->n_inputs += v->scratch != mark;
      v->scratch = mark;
      if (v->node->block == b && v->node->kind != IR_PARAM &&
          (!x->last_input || v->node->order > x->last_input->order))
        x->last_input = v->node;
    }
}

/* Return the node of block b that is `user` or contains it. */
static ir_node *in_block(ir_node *user, const ir_block *b)
{
  while (user->block != b) {
    ASSERT(user->block->owner, "a use outside of the block");
    user = user->block->owner;
  }
  return user;
}

static void measure_outputs(const grouper *p, const ir_block *b, extent *x)
{
  for (uint32_t k = 0; k < p->n_members; k++)
    for (uint32_t i = 0; i < p->members[k]->n_outputs; i++) {
      bool outside = false;

      for (const ir_use *u = p->members[k]->outputs[i]->uses; u; u = u->next) {
        ir_node *user = in_block(u->user, b);

        if (is_member(p, user))
          continue;
        outside = true;
        if (!x->first_user || user->order < x->first_user->order)
          x->first_user = user;
      }
      x->n_outputs += outside;
    }
}

/* True if a is before b, or one of them is NULL.  (Orders that were kept would mean other places
 * after an insert, which may renumber the block.) */
static bool is_before(const ir_node *a, const ir_node *b)
{
  return !a || !b || ir_node_is_before(a, b);
}

static bool within(uint32_t n, uint32_t limit) { return limit == 0 || n <= limit; }

/* Return the node before which the group is placed. */
static ir_node *place_of(const grouper *p, const extent *x)
{
  ir_node *last = p->members[p->n_members - 1];

  return x->first_user && x->first_user->order < last->order ? x->first_user : last->next;
}

static bool keeps_order(const grouper *p, const extent *x)
{
  const order_group g = {p->members, p->n_members, place_of(p, x)->order};

  return !p->order || adding_order_keeps(p->order, &g);
}

static bool fits(grouper *p, const ir_block *b, extent *x)
{
  *x = (extent){0};
  if (!within(p->n_members, p->def->max_nodes))
    return false;
  measure_inputs(p, b, x);
  measure_outputs(p, b, x);
  return is_before(x->last_input, x->first_user) && within(x->n_inputs, p->def->max_inputs) &&
         within(x->n_outputs, p->def->max_outputs) && keeps_order(p, x);
}

static void put_member(grouper *p, ir_node *n)
{
  ASSERT(info_of(p, n)->node == n && !info_of(p, n)->group, "a member of another group");
  GROW(p->s, p->members, p->n_members, p->cap_members, 32);
  uint32_t at = p->n_members++;

  for (; at > 0 && p->members[at - 1]->order > n->order; at--) /* in the block's order */
    p->members[at] = p->members[at - 1];
  p->members[at] = n;
  info_of(p, n)->group = p->n_groups;
}

static void drop_member(grouper *p, ir_node *n)
{
  uint32_t at = 0;

  while (p->members[at] != n) {
    at++;
    ASSERT(at < p->n_members, "no member of the group");
  }
  p->n_members--;
  memmove(&p->members[at], &p->members[at + 1], (p->n_members - at) * sizeof *p->members);
  info_of(p, n)->group = 0;
}

/* Return the list that is made for the node's input i alone, if the group is to make it, or NULL.
 */
static ir_node *own_list(const grouper *p, const ir_node *n, uint32_t i)
{
  const ir_value *v = ir_node_input(n, i);
  ir_node *list = v->node;

  return p->def->takes_lists && list->kind == IR_LIST_CONSTRUCT && list->block == n->block &&
             type_is(v->type, TYPE_LIST) && type_is(type_elem(v->type), TYPE_TENSOR) &&
             v->uses && !v->uses->next && info_of(p, list)->node == list
           ? list
           : NULL;
}

/* Add an accepted node, with the lists that are made for it. */
static void add_member(grouper *p, ir_node *n)
{
  ASSERT(info_of(p, n)->stretch != NO_STRETCH, "a node that was refused");
  put_member(p, n);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (own_list(p, n, i))
      put_member(p, own_list(p, n, i));
}

static void remove_member(grouper *p, ir_node *n)
{
  drop_member(p, n);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (own_list(p, n, i))
      drop_member(p, own_list(p, n, i));
}

/* True for a producer with so many uses that it stays outside: they would be visited for each of
 * its users. */
static bool is_used_much(const ir_node *n)
{
  uint32_t count = 0;

  for (uint32_t i = 0; i < n->n_outputs; i++)
    for (const ir_use *u = n->outputs[i]->uses; u && count <= MOST_USES; u = u->next)
      count++;
  return count > MOST_USES;
}

/* Add one producer; returns false if none fits. */
static bool grow_group(grouper *p, const ir_block *b, uint32_t stretch)
{
  extent x;

  for (uint32_t k = p->n_members; k-- > 0;)
    for (uint32_t i = 0; i < p->members[k]->n_inputs; i++) {
      ir_node *n = ir_node_input(p->members[k], i)->node;

      if (n->block != b || n->kind != IR_OP || info_of(p, n)->node != n || info_of(p, n)->group ||
          info_of(p, n)->stretch != stretch || is_used_much(n))
        continue;
      add_member(p, n);
      if (fits(p, b, &x))
        return true;
      remove_member(p, n);
      info_of(p, n)->stretch = stretch; /* may fit another group */
    }
  return false;
}

/* -- Making the node --------------------------------------------------------------------------- */

typedef struct making {
  grouper *p;
  ir_node *group;
  ir_block *body;
} making;

/* Return the value inside the group for v. */
static ir_value *inner_value(making *m, ir_value *v)
{
  session *s = m->p->s;

  for (uint32_t i = 0; i < m->group->n_inputs; i++)
    if (ir_node_input(m->group, i) == v)
      return ir_block_input(m->body, i);
  ir_node_add_input(s, m->group, v);
  return ir_block_add_input(s, m->body, v->type, NULL);
}

static ir_value *inner_constant(making *m, ir_value *v)
{
  ir_node *n = ir_constant_new(m->p->s, m->p->g, ir_constant_value(v->node), v->type);

  n->range = v->node->range;
  n->origin = v->node->origin;
  ir_node_append(n, m->body);
  return n->outputs[0];
}

static void move_in(making *m, ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    ir_value *v = ir_node_input(n, i);

    if (is_copied(v))
      ir_node_set_input(n, i, inner_constant(m, v));
    else if (!is_member(m->p, v->node))
      ir_node_set_input(n, i, inner_value(m, v));
  }
  ir_node_unlink(n);
  ir_node_append(n, m->body);
}

/* Make uses of v outside the group read the node's result. */
static void move_out(making *m, ir_value *v)
{
  ir_value *out = NULL;

  for (ir_use *u = v->uses, *next; u; u = next) {
    next = u->next;
    if (u->user->block == m->body)
      continue;
    if (!out)
      out = ir_node_add_output(m->p->s, m->group, v->type);
    for (uint32_t i = 0; i < u->user->n_inputs; i++)
      if (u->user->inputs[i] == u) {
        ir_node_set_input(u->user, i, out);
        break;
      }
  }
  if (out)
    ir_block_add_output(m->p->s, m->body, v);
}

static void make_group(grouper *p, const extent *x)
{
  const ir_node *last = p->members[p->n_members - 1];
  ir_node *before = place_of(p, x);
  making m = {.p = p, .group = ir_node_new(p->s, p->g, p->kind, NULL, 0)};

  m.group->op = p->op;
  m.group->range = last->range;
  m.group->origin = last->origin;
  m.body = ir_node_add_block(p->s, m.group);
  ir_node_insert_before(m.group, before);
  ASSERT(is_before(x->last_input, m.group) && is_before(m.group, x->first_user),
         "after its inputs, before its users");
  m.group->scratch = 0;
  for (uint32_t k = 0; k < p->n_members; k++)
    move_in(&m, p->members[k]);
  for (uint32_t k = 0; k < p->n_members; k++)
    for (uint32_t i = 0; i < p->members[k]->n_outputs; i++)
      move_out(&m, p->members[k]->outputs[i]);
  ASSERT(m.group->n_inputs == x->n_inputs && m.group->n_outputs == x->n_outputs,
         "a group has the inputs and results that were measured");
  ASSERT(ir_block_n_inputs(m.body) == x->n_inputs && ir_block_n_outputs(m.body) == x->n_outputs,
         "its body takes and returns what the group does");
}

/* -- Blocks ------------------------------------------------------------------------------------ */

/* Ask the backend about the whole group. */
static bool is_taken(const grouper *p)
{
  return !p->def->takes || p->def->takes((const rush_node *const *)(void *)p->members,
                                         p->n_members, p->def->user);
}

static void group_from(grouper *p, const ir_block *b, ir_node *n)
{
  uint32_t stretch = info_of(p, n)->stretch;
  extent x;

  p->n_groups++;
  p->n_members = 0;
  add_member(p, n);
  if (fits(p, b, &x))
    while (grow_group(p, b, stretch))
      ;
  const char *why = p->n_members < p->def->min_nodes ? "too few neighbours to group it with"
                    : !fits(p, b, &x) ? "more inputs or results than a group can have"
                    : !is_taken(p)    ? "the backend does not want it with its neighbours only"
                                      : NULL;
  if (!why) {
    make_group(p, &x);
    return;
  }
  report_refused(p, n, why);
  for (uint32_t k = 0; k < p->n_members; k++)
    info_of(p, p->members[k])->group = p->members[k] == n ? UINT32_MAX : 0;
}

/* False for other groups, and for what is differentiated first. */
static bool is_open(const ir_node *n)
{
  return n->kind != IR_OP && n->kind != IR_DIFFERENTIABLE_GRAPH;
}

/* Move lists of constants to the start of the block: made in the middle, they would decide where a
 * group that reads them can be placed. */
static void move_lists_up(const ir_block *b)
{
  ir_node *at = ir_block_first(b); /* behind the constants that the block begins with */

  while (at->kind == IR_CONSTANT && at != b->ret)
    at = at->next;
  for (ir_node *n = at, *next; n != b->ret; n = next) {
    bool is_constant = n->kind == IR_LIST_CONSTRUCT && n != at;

    next = n->next;
    for (uint32_t i = 0; i < n->n_inputs && is_constant; i++)
      is_constant = ir_node_input(n, i)->node->kind == IR_CONSTANT;
    if (!is_constant)
      continue;
    for (uint32_t i = 0; i < n->n_inputs; i++)
      if (ir_node_input(n, i)->node->block == b && ir_node_input(n, i)->node->order > at->order)
        ir_node_move_before(ir_node_input(n, i)->node, at);
    ir_node_move_before(n, at);
  }
}

static void group_block(grouper *p, const ir_block *b)
{
  session_enter(p->s);
  if (p->def->takes_lists)
    move_lists_up(b);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    for (uint32_t i = 0; i < n->n_blocks && is_open(n) && n->kind != p->kind; i++)
      group_block(p, n->blocks[i]);
  uint32_t n = look_at(p, b);
  node_info *infos = p->infos;

  for (uint32_t i = n; i-- > 1;)
    if (infos[i].stretch != NO_STRETCH && !infos[i].group)
      group_from(p, b, infos[i].node);
  session_leave(p->s);
}

static void clear_marks(session *s, const ir_block *b)
{
  session_enter(s);
  for (const ir_node *n = b->param; n != b->ret; n = n == b->param ? ir_block_first(b) : n->next) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
      n->outputs[i]->scratch = 0;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      clear_marks(s, n->blocks[i]);
  }
  session_leave(s);
}

void pass_group(rush_pass *p, const rush_group_def *def)
{
  const op *o = op_find(p->s->cx->ctx, str_of(def->op), STR(""));

  if (!o || !o->schema->is_vararg || !o->schema->is_varret)
    session_fail_status(
      p->s, RUSH_EARGUMENT, NULL, NULL,
      "groups need a registered operator that takes and returns anything, which '%s' does not",
      def->op);
  if (p->graph->is_recorded)
    return;
  clear_marks(p->s, p->graph->block);
  grouper g = {.s = p->s, .g = p->graph, .def = def, .kind = IR_OP, .op = o, .report = p->report};

  group_block(&g, p->graph->block);
}

void pass_group_kind(session *s, ir_graph *g, ir_kind kind, const rush_group_def *def,
                     adding_order *order)
{
  grouper p = {.s = s, .g = g, .def = def, .kind = kind, .order = order};

  clear_marks(s, g->block);
  group_block(&p, g->block);
}
