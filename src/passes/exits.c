/* passes/exits.c -- turns return, break and continue into structured control flow.
 *
 * A block that may have exited yields two more results: a bool "has exited" and the values it
 * exits with; everything after it moves into the else branch of an If on that bool.  First the
 * ends of loop bodies (break and continue), then returns.  The form is PyTorch's (its exit
 * transform), so that graphs can be compared.  Statuses are distinguished by the identity of
 * three marker values. */
#include "passes/passes_int.h"

typedef enum exit_status { EXIT_WILL, EXIT_MIGHT, EXIT_WONT, EXIT_THROWS } exit_status;

typedef struct exit_pair {
  ir_value *exited; /* true_value, false_value, throws_value, or a bool known at run time */
  ir_value **values;
  uint32_t n;
} exit_pair;

typedef struct exits {
  session *s;
  ir_graph *g;
  ir_kind kind; /* what is being lowered: IR_RETURN_STMT or IR_CONTINUE_STMT */
  ir_value *true_value, *false_value, *throws_value;
  const type *result; /* of the graph, or NULL: not known */
  struct unset { const type *t; ir_value *v; struct unset *next; } *unsets;
} exits;

static ir_value *constant_at_start(session *s, ir_graph *g, bool b)
{
  ir_node *n = ir_constant_new(s, g, value_bool(b), type_simple(TYPE_BOOL));
  ir_node_insert_before(n, ir_block_first(g->block));
  return n->outputs[0];
}

/* Refuse a graph that the front end does not emit: text that a user wrote gets here too. */
static void check_form(session *s, bool holds, const char *rule)
{
  if (!holds)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "the graph is broken: %s", rule);
}

/* -- Break and continue ------------------------------------------------------------------------ */

/* Add the loop's carried variables, with their values at the end of its body, as inputs of n. */
static void add_carried(session *s, ir_node *n, const ir_node *loop)
{
  const ir_block *body = loop->blocks[0];
  for (uint32_t i = 0; i < ir_block_n_outputs(body); i++) {
    const ir_node *load = ir_block_output(body, i)->node;
    check_form(s, load->kind == IR_LOAD, "a loop with a condition block returns variables only");
    ir_node *again = ir_node_new(s, n->graph, IR_LOAD, NULL, 0);
    ir_attr_set_string(s, again, "name", ir_attr_string(load, "name"));
    ir_node_insert_before(again, n);
    ir_node_add_input(s, n, ir_node_add_output(s, again, load->outputs[0]->type));
  }
}

static void lower_loop_stmt(session *s, ir_node *n, const ir_node *loop)
{
  ir_value *cond;
  if (!loop || loop->n_blocks < 2)
    session_fail(s, &n->range, "break and continue stand in loops");
  ir_node *end = ir_node_new(s, n->graph, IR_CONTINUE_STMT, NULL, 0);
  end->range = n->range;
  ir_node_insert_before(end, n);
  if (n->kind == IR_BREAK_STMT) {
    ir_node *no = ir_constant_new(s, n->graph, value_bool(false), type_simple(TYPE_BOOL));
    ir_node_insert_before(no, end);
    cond = no->outputs[0];
  } else {
    ir_block_inline(s, loop->blocks[1], end, NULL, &cond);
  }
  ir_node_add_input(s, end, cond);
  add_carried(s, end, loop);
  ir_node_destroy(n);
}

static void lower_loop_block(session *s, ir_block *b, const ir_node *loop)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(s);
    next = n->next;
    if (n->kind == IR_BREAK_STMT || n->kind == IR_CONTINUE_STMT) {
      lower_loop_stmt(s, n, loop);
      continue;
    }
    for (uint32_t i = 0; i < n->n_blocks; i++)
      lower_loop_block(s, n->blocks[i],
                       n->kind == IR_LOOP      ? n
                       : n->kind == IR_CLOSURE ? NULL
                                               : loop);
  }
  session_leave(s);
}

void pass_loop_exits(session *s, ir_graph *g) { lower_loop_block(s, g->block, NULL); }

/* -- Parts ------------------------------------------------------------------------------------- */

static exit_pair transform_block(exits *x, ir_block *b);

static exit_status status_of(const exits *x, const exit_pair *p)
{
  ASSERT(p->exited && type_is(p->exited->type, TYPE_BOOL), "the mark of an exit is a bool");
  return p->exited == x->true_value     ? EXIT_WILL
         : p->exited == x->false_value  ? EXIT_WONT
         : p->exited == x->throws_value ? EXIT_THROWS
                                        : EXIT_MIGHT;
}

/* Make a value of the type that is never read. */
static ir_value *unset_value(exits *x, const type *t)
{
  for (struct unset *u = x->unsets; u; u = u->next)
    if (type_equal(u->t, t))
      return u->v;
  struct unset *u = session_new(x->s, struct unset);
  ir_node *n = ir_node_new(x->s, x->g, IR_UNINITIALIZED, NULL, 0);
  ir_node_insert_before(n, ir_block_first(x->g->block));
  *u = (struct unset){t, ir_node_add_output(x->s, n, t), x->unsets};
  x->unsets = u;
  return u->v;
}

static void unset_like(exits *x, exit_pair *p, const exit_pair *like)
{
  p->n = like->n;
  p->values = session_array(x->s, ir_value *, like->n);
  for (uint32_t i = 0; i < like->n; i++)
    p->values[i] = unset_value(x, like->values[i]->type);
}

static ir_value *add_if_output(exits *x, ir_node *n, ir_value *yes, ir_value *no)
{
  const type *t = type_unify(x->g->types, yes->type, no->type, true);
  if (!t)
    session_check(x->s, call_nomem(x->s->cx));
  ir_block_add_output(x->s, n->blocks[0], yes);
  ir_block_add_output(x->s, n->blocks[1], no);
  return ir_node_add_output(x->s, n, t);
}

static ir_node *new_if(exits *x, ir_value *cond, ir_node *before)
{
  ir_node *n = ir_node_new(x->s, x->g, IR_IF, &cond, 1);
  ir_node_insert_before(n, before);
  ir_node_add_block(x->s, n);
  ir_node_add_block(x->s, n);
  return n;
}

static void replace_outputs(exits *x, ir_block *b, ir_value *const *v, uint32_t n)
{
  while (ir_block_n_outputs(b))
    ir_block_remove_output(b, ir_block_n_outputs(b) - 1);
  for (uint32_t i = 0; i < n; i++)
    ir_block_add_output(x->s, b, v[i]);
}

/* -- If and Loop ------------------------------------------------------------------------------- */

static exit_pair join_branches(exits *x, ir_node *n, exit_pair yes, exit_pair no)
{
  exit_status a = status_of(x, &yes), b = status_of(x, &no);
  exit_status joined = a == EXIT_THROWS ? b : b == EXIT_THROWS ? a : a == b ? a : EXIT_MIGHT;
  if (joined == EXIT_THROWS)
    return (exit_pair){x->throws_value, NULL, 0};
  if (joined == EXIT_WONT)
    return (exit_pair){x->false_value, NULL, 0};
  if (a == EXIT_WONT || a == EXIT_THROWS)
    unset_like(x, &yes, &no);
  else if (b == EXIT_WONT || b == EXIT_THROWS)
    unset_like(x, &no, &yes);
  check_form(x->s, yes.n == no.n, "two exits of one block have different numbers of values");
  exit_pair out = {x->true_value, session_array(x->s, ir_value *, yes.n), yes.n};
  if (joined != EXIT_WILL)
    out.exited = add_if_output(x, n, yes.exited, no.exited);
  for (uint32_t i = 0; i < yes.n; i++)
    out.values[i] = add_if_output(x, n, yes.values[i], no.values[i]);
  ASSERT(pass_if_is_whole(n), "an exit was added to one branch only");
  return out;
}

static exit_pair transform_if(exits *x, ir_node *n)
{
  exit_pair yes = transform_block(x, n->blocks[0]), no = transform_block(x, n->blocks[1]);
  return join_branches(x, n, yes, no);
}

static ir_value *carry_out(exits *x, ir_node *loop, ir_value *start, ir_value *v)
{
  ir_node_add_input(x->s, loop, start);
  ir_block_add_input(x->s, loop->blocks[0], v->type, NULL);
  ir_block_add_output(x->s, loop->blocks[0], v);
  return ir_node_add_output(x->s, loop, v->type);
}

/* Transform a loop: an exit inside stops it and is carried out of it. */
static exit_pair transform_loop(exits *x, ir_node *loop)
{
  ir_block *body = loop->blocks[0];
  check_form(x->s, loop->n_blocks == 1, "a loop still has a condition block");
  exit_pair p = transform_block(x, body);
  exit_status st = status_of(x, &p);
  if (st == EXIT_WONT || st == EXIT_THROWS) /* the loop may not be entered */
    return (exit_pair){x->false_value, NULL, 0};
  ir_node *n = new_if(x, p.exited, body->ret);
  ir_value *go_on = add_if_output(x, n, x->false_value, ir_block_output(body, 0));
  ir_block_set_output(body, 0, go_on);
  exit_pair out = {carry_out(x, loop, x->false_value, p.exited),
                   session_array(x->s, ir_value *, p.n), p.n};
  for (uint32_t i = 0; i < p.n; i++)
    out.values[i] = carry_out(x, loop, unset_value(x, p.values[i]->type), p.values[i]);
  return out;
}

/* -- Blocks ------------------------------------------------------------------------------------ */

static void delete_from(exits *x, ir_block *b, const ir_node *first)
{
  ASSERT(first->block == b, "the rest of this block is deleted");
  if (first == b->ret)
    return;
  for (bool done = false; !done;) {
    ir_node *n = ir_block_last(b);
    done = n == first;
    for (uint32_t i = 0; i < n->n_outputs; i++)
      if (n->outputs[i]->uses)
        ir_value_replace_all_uses(n->outputs[i], unset_value(x, n->outputs[i]->type));
    ir_node_destroy(n);
  }
}

/* Make a value of If n's second branch that is used after the If a result of it. */
static void export_value(exits *x, ir_node *n, ir_value *v)
{
  ir_value *out = NULL;
  for (ir_use *u = v->uses, *next; u; u = next) {
    ir_node *user = u->user;
    next = u->next;
    if (ir_block_is_inside(user->block, n))
      continue;
    if (!out) {
      ir_block_add_output(x->s, n->blocks[0], unset_value(x, v->type));
      ir_block_add_output(x->s, n->blocks[1], v);
      out = ir_node_add_output(x->s, n, v->type);
    }
    for (uint32_t i = 0; i < user->n_inputs; i++)
      if (user->inputs[i] == u)
        ir_node_set_input(user, i, out);
  }
}

/* Make values of a with's body usable after it: the body has no results. */
static void export_values(exits *x, ir_node *n, const ir_block *made)
{
  session_enter(x->s);
  for (const ir_node *m = ir_block_first(made); m != made->ret; m = m->next) {
    session_poll(x->s);
    for (uint32_t i = 0; i < m->n_outputs; i++)
      export_value(x, n, m->outputs[i]);
    if (m->kind == IR_WITH)
      export_values(x, n, m->blocks[0]);
  }
  session_leave(x->s);
}

/* Run the rest of the block only if it has not exited. */
static exit_pair guard_rest(exits *x, ir_block *b, const exit_pair *p, ir_node *first)
{
  ir_node *n = new_if(x, p->exited, first);
  ir_block *gone = n->blocks[0], *guarded = n->blocks[1];
  while (n->next != b->ret) {
    ir_node *moved = n->next;
    ir_node_move_before(moved, guarded->ret);
  }
  uint32_t n_outputs = ir_block_n_outputs(b);
  ir_value **outs = session_array(x->s, ir_value *, n_outputs);
  for (uint32_t i = 0; i < n_outputs; i++) {
    ir_value *v = ir_block_output(b, i);
    ir_block_add_output(x->s, gone, unset_value(x, v->type));
    ir_block_add_output(x->s, guarded, v);
    outs[i] = ir_node_add_output(x->s, n, v->type);
  }
  replace_outputs(x, b, outs, n_outputs);
  ASSERT(n->next == b->ret && pass_if_is_whole(n), "all of the rest is guarded");
  if (b->owner && b->owner->kind == IR_WITH)
    export_values(x, n, guarded);
  ir_node_append(ir_node_new(x->s, x->g, x->kind, p->values, p->n), gone);
  return transform_if(x, n);
}

static exit_pair transform_node(exits *x, ir_node *n)
{
  exit_pair p = {x->false_value, NULL, 0};
  if (n->kind == IR_RAISE) {
    p.exited = x->throws_value;
  } else if (n->kind == x->kind) {
    p = (exit_pair){x->true_value, session_array(x->s, ir_value *, n->n_inputs), n->n_inputs};
    for (uint32_t i = 0; i < n->n_inputs; i++)
      p.values[i] = ir_node_input(n, i);
    ir_node_destroy(n);
  } else if (n->kind == IR_IF) {
    p = transform_if(x, n);
  } else if (n->kind == IR_LOOP) {
    p = transform_loop(x, n);
  } else if (n->kind == IR_WITH) {
    p = transform_block(x, n->blocks[0]);
  } else if (n->kind == IR_CLOSURE) {
    transform_block(x, n->blocks[0]);
  }
  return p;
}

static bool is_target(const exits *x, const ir_block *b)
{
  if (x->kind == IR_CONTINUE_STMT)
    return b->owner && b->owner->kind == IR_LOOP;
  return !b->owner || b->owner->kind == IR_CLOSURE;
}

/* End the exit here: its values become the block's outputs, or an unread value if it always
 * raises. */
static void land(exits *x, ir_block *b, const exit_pair *p)
{
  exit_status st = status_of(x, p);
  if (st == EXIT_THROWS && x->kind == IR_RETURN_STMT && !ir_block_n_outputs(b)) {
    const type *result = b->owner ? b->owner->outputs[0]->type : x->result;
    if (result)
      ir_block_add_output(x->s, b, unset_value(x, result));
  }
  if (st == EXIT_MIGHT || (st == EXIT_WILL && x->kind == IR_CONTINUE_STMT))
    check_form(x->s, p->n == ir_block_n_outputs(b),
               "an exit has other values than its block returns");
  if (st == EXIT_WILL) {
    replace_outputs(x, b, p->values, p->n);
  } else if (st == EXIT_MIGHT) {
    ir_node *n = new_if(x, p->exited, b->ret);
    ir_value **outs = session_array(x->s, ir_value *, p->n);
    for (uint32_t i = 0; i < p->n; i++)
      outs[i] = add_if_output(x, n, p->values[i], ir_block_output(b, i));
    replace_outputs(x, b, outs, p->n);
  }
}

static exit_pair transform_block(exits *x, ir_block *b)
{
  exit_pair p = {x->false_value, NULL, 0};
  session_enter(x->s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(x->s);
    next = n->next;
    p = transform_node(x, n);
    exit_status st = status_of(x, &p);
    if (st == EXIT_WILL || st == EXIT_THROWS) {
      delete_from(x, b, next);
      break;
    }
    if (st == EXIT_MIGHT) {
      if (next != b->ret || ir_block_n_outputs(b))
        p = guard_rest(x, b, &p, next);
      break;
    }
  }
  if (is_target(x, b)) {
    land(x, b, &p);
    p = (exit_pair){x->false_value, NULL, 0};
  }
  session_leave(x->s);
  return p;
}

/* -- With -------------------------------------------------------------------------------------- */

/* Replace Enter ... Exit by one node with the body inside, so that an exit cannot jump over the
 * Exit. */
static void make_with_blocks(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(s);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      make_with_blocks(s, n->blocks[i]);
    if (n->kind != IR_ENTER)
      continue;
    uint32_t depth = 1;
    ir_node *end = n->next;
    for (; end != b->ret; end = end->next) {
      depth += end->kind == IR_ENTER;
      if (end->kind == IR_EXIT && --depth == 0)
        break;
    }
    if (end == b->ret)
      continue;
    ir_node *with = ir_node_new(s, n->graph, IR_WITH, NULL, 0);
    ir_node_insert_after(with, n);
    ir_block *body = ir_node_add_block(s, with), *tail = ir_node_add_block(s, with);
    while (with->next != end)
      ir_node_move_before(with->next, body->ret);
    ir_node_move_before(end, tail->ret);
  }
  session_leave(s);
}

static void inline_with_blocks(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(s);
    next = n->next;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      inline_with_blocks(s, n->blocks[i]);
    if (n->kind != IR_WITH)
      continue;
    for (uint32_t i = 0; i < 2; i++)
      while (ir_block_first(n->blocks[i]) != n->blocks[i]->ret)
        ir_node_move_before(ir_block_first(n->blocks[i]), n);
    ir_node_destroy(n);
  }
  session_leave(s);
}

/* -- Ifs in a row ------------------------------------------------------------------------------ */

static void replace_in_copy(session *s, ir_node *n, const ir_node *first, const ir_block *branch)
{
  session_enter(s);
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    ir_value *v = ir_node_input(n, i);
    if (v && v->node == first)
      ir_node_set_input(n, i, ir_block_output(branch, v->index));
  }
  for (uint32_t k = 0; k < n->n_blocks; k++) {
    for (ir_node *m = ir_block_first(n->blocks[k]); m != n->blocks[k]->ret; m = m->next)
      replace_in_copy(s, m, first, branch);
    replace_in_copy(s, n->blocks[k]->ret, first, branch);
  }
  session_leave(s);
}

/* Merge an If on a bool that the If before it sets to a constant in each branch into that If. */
static bool join_next_if(session *s, ir_node *n)
{
  ir_node *second = n->next;
  rush_value v[2];
  if (n->kind != IR_IF || second->kind != IR_IF || ir_node_input(second, 0)->node != n)
    return false;
  uint32_t which = ir_node_input(second, 0)->index;
  for (int i = 0; i < 2; i++)
    if (!ir_value_as_constant(ir_block_output(n->blocks[i], which), &v[i]) ||
        v[i].tag != RUSH_TAG_BOOL)
      return false;
  if (v[0].as.b == v[1].as.b)
    return false;
  for (int i = 0; i < 2; i++) {
    ir_block *to = n->blocks[i], *from = second->blocks[v[i].as.b ? 0 : 1];
    uint32_t n_outs = ir_block_n_outputs(from);
    ir_value **outs = session_array(s, ir_value *, n_outs);
    ir_node *last = to->ret->prev;
    ir_block_inline(s, from, to->ret, NULL, outs);
    for (ir_node *m = last->next; m != to->ret; m = m->next)
      replace_in_copy(s, m, n, to);
    for (uint32_t k = 0; k < n_outs; k++)
      ir_block_add_output(s, to,
                          outs[k]->node == n ? ir_block_output(to, outs[k]->index) : outs[k]);
  }
  for (uint32_t k = 0; k < second->n_outputs; k++)
    ir_value_replace_all_uses(second->outputs[k],
                              ir_node_add_output(s, n, second->outputs[k]->type));
  ASSERT(pass_if_is_whole(n), "the second node's results are in both branches");
  ir_node_destroy(second);
  return true;
}

static void join_ifs(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b); n != b->ret;) {
    session_poll(s);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      join_ifs(s, n->blocks[i]);
    if (!join_next_if(s, n))
      n = n->next;
  }
  session_leave(s);
}

/* -- All --------------------------------------------------------------------------------------- */

static void transform(session *s, ir_graph *g, ir_kind kind, const type *result)
{
  exits x = {.s = s, .g = g, .kind = kind, .result = result};
  x.true_value = constant_at_start(s, g, true);
  x.false_value = constant_at_start(s, g, false);
  ir_node *n = ir_node_new(s, g, IR_UNINITIALIZED, NULL, 0);
  ir_node_insert_before(n, ir_block_first(g->block));
  x.throws_value = ir_node_add_output(s, n, type_simple(TYPE_BOOL));
  transform_block(&x, g->block);
}

void pass_transform_exits_of(session *s, ir_graph *g, const type *result)
{
  bool has_with = ir_graph_may_have(g, IR_ENTER);

  if (has_with)
    make_with_blocks(s, g->block);
  if (ir_graph_may_have(g, IR_CONTINUE_STMT))
    transform(s, g, IR_CONTINUE_STMT, NULL);
  if (ir_graph_may_have(g, IR_RETURN_STMT) || ir_graph_may_have(g, IR_RAISE))
    transform(s, g, IR_RETURN_STMT, result);
  join_ifs(s, g->block);
  if (has_with)
    inline_with_blocks(s, g->block);
}

void pass_transform_exits(session *s, ir_graph *g) { pass_transform_exits_of(s, g, NULL); }
