/* passes/unroll.c -- loop unrolling: all iterations if their number is constant, else UNROLL at a
 * time; and peeling of the first.
 *
 * Only loops that end solely by their count are unrolled; peeling accepts all.  Inner loops come
 * first, so that growth is bounded: a body of more than MOST_NODES nodes is not unrolled. */
#include "passes/passes_int.h"

#define MOST_NODES 32
#define MOST_TRIPS 64
/* Nodes made of one loop of a plan: groups are compiled for each iteration (an LSTM of 64 steps
 * took 93 ms, and then as long as its loop). */
#define MOST_PLANNED 256
#define UNROLL 8

static uint32_t count_nodes(session *s, const ir_block *b, uint32_t most)
{
  uint32_t n = 0;

  session_enter(s);
  for (const ir_node *m = ir_block_first(b); m != b->ret && n <= most; m = m->next) {
    session_poll(s);
    n++;
    for (uint32_t i = 0; i < m->n_blocks; i++)
      n += count_nodes(s, m->blocks[i], most);
  }
  session_leave(s);
  return n;
}

static bool is_small(session *s, const ir_node *n)
{
  return n->kind == IR_LOOP && count_nodes(s, n->blocks[0], MOST_NODES) <= MOST_NODES;
}

static bool counts_only(const ir_node *n)
{
  bool first, next;

  return pass_is_constant_bool(ir_node_input(n, 1), &first) && first &&
         pass_is_constant_bool(ir_block_output(n->blocks[0], 0), &next) && next;
}

/* Write one iteration before pos: v has the carried values, and receives the condition and the
 * carried values after it. */
static void iterate(session *s, const ir_node *loop, ir_node *pos, ir_value *index, ir_value **v)
{
  uint32_t n = loop->n_outputs;
  ir_value **in = session_array(s, ir_value *, (size_t)n + 1);

  ASSERT(!ir_block_is_inside(pos->block, loop), "an iteration is written outside of the loop");
  in[0] = index;
  memcpy(in + 1, v + 1, n * sizeof *in);
  ir_block_inline(s, loop->blocks[0], pos, in, v);
}

/* Return the carried values; v[0] is unset. */
static ir_value **carried(session *s, const ir_node *loop)
{
  ir_value **v = session_array(s, ir_value *, (size_t)loop->n_outputs + 1);

  for (uint32_t i = 0; i < loop->n_outputs; i++)
    v[i + 1] = ir_node_input(loop, i + 2);
  ASSERT(pass_loop_is_whole(loop), "each result has its initial value");
  return v;
}

static bool unroll_constant(session *s, ir_node *n)
{
  int64_t trips;

  if (!pass_is_constant_int(ir_node_input(n, 0), &trips) || trips > MOST_TRIPS ||
      (n->graph->keeps_errors &&
       trips * count_nodes(s, n->blocks[0], MOST_NODES) > MOST_PLANNED))
    return false;
  ir_value **v = carried(s, n);
  for (int64_t i = 0; i < trips; i++)
    iterate(s, n, n, pass_put_int(s, n, i), v);
  pass_replace(n, v + 1);
  return true;
}

/* -- Some at a time ---------------------------------------------------------------------------- */

static ir_value *arithmetic(session *s, ir_node *pos, const char *op, ir_value *a, int64_t b)
{
  ir_value *in[2] = {a, pass_put_int(s, pos, b)};
  ir_node *n = pass_put_op(s, pos, op, "int", in, 2);

  return n->outputs[0];
}

static ir_value *sum(session *s, ir_node *pos, ir_value *a, ir_value *b, const char *op)
{
  ir_value *in[2] = {a, b};

  return pass_put_op(s, pos, op, "int", in, 2)->outputs[0];
}

/* Make an empty loop like n before it, continuing with v. */
static ir_node *new_loop(session *s, ir_node *n, ir_value *trips, ir_value *cond,
                         ir_value *const *v)
{
  ir_value *in[2] = {trips, cond};
  ir_node *made = pass_put_node(s, n, IR_LOOP, in, 2, NULL);
  ir_block *body = ir_node_add_block(s, made);

  ir_block_add_input(s, body, type_simple(TYPE_INT), NULL);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_node_add_input(s, made, v[i + 1]);
    ir_block_add_input(s, body, n->outputs[i]->type, NULL);
    ir_node_add_output(s, made, n->outputs[i]->type);
  }
  return made;
}

static void begin_body(ir_node *loop, ir_value **v)
{
  for (uint32_t i = 0; i < loop->n_outputs; i++)
    v[i + 1] = ir_block_input(loop->blocks[0], i + 1);
}

static void end_body(session *s, ir_node *loop, ir_value *cond, ir_value **v)
{
  ir_block_add_output(s, loop->blocks[0], cond);
  for (uint32_t i = 0; i < loop->n_outputs; i++)
    ir_block_add_output(s, loop->blocks[0], v[i + 1]);
  for (uint32_t i = 0; i < loop->n_outputs; i++)
    v[i + 1] = loop->outputs[i];
  ASSERT(pass_loop_is_whole(loop), "a new loop carries what it takes");
}

/* Make a loop of n / UNROLL iterations of UNROLL each, and one of the rest. */
static void unroll_some(session *s, ir_node *n)
{
  ir_value **v = carried(s, n), *yes = ir_node_input(n, 1);
  ir_value *trips = arithmetic(s, n, "prim::max", ir_node_input(n, 0), 0);
  ir_value *rounds = arithmetic(s, n, "aten::floordiv", trips, UNROLL);
  ir_node *main_loop = new_loop(s, n, rounds, yes, v);
  ir_node *end = main_loop->blocks[0]->ret;

  begin_body(main_loop, v);
  ir_value *base = arithmetic(s, end, "aten::mul", ir_block_input(main_loop->blocks[0], 0), UNROLL);
  for (int64_t i = 0; i < UNROLL; i++)
    iterate(s, n, end, i ? arithmetic(s, end, "aten::add", base, i) : base, v);
  end_body(s, main_loop, yes, v);
  ir_value *done = arithmetic(s, n, "aten::mul", rounds, UNROLL);
  ir_node *rest = new_loop(s, n, sum(s, n, trips, done, "aten::sub"), yes, v);
  end = rest->blocks[0]->ret;
  begin_body(rest, v);
  iterate(s, n, end, sum(s, end, ir_block_input(rest->blocks[0], 0), done, "aten::add"), v);
  end_body(s, rest, yes, v);
  pass_replace(n, v + 1);
}

static void visit_constant(session *s, ir_node *n, void *arg)
{
  (void)arg;
  if (is_small(s, n) && counts_only(n))
    (void)unroll_constant(s, n);
}

static void unroll_node(session *s, ir_node *n, void *arg)
{
  (void)arg;
  if (is_small(s, n) && counts_only(n) && !unroll_constant(s, n))
    unroll_some(s, n);
}

void pass_constant_loop_unrolling(session *s, ir_graph *g)
{
  pass_each(s, g->block, visit_constant, NULL);
}
void pass_loop_unrolling(session *s, ir_graph *g) { pass_each(s, g->block, unroll_node, NULL); }

/* -- Peeling ----------------------------------------------------------------------------------- */

/* Move the first iteration, if there is one, before a loop of the others. */
static void peel(session *s, ir_node *n, void *arg)
{
  if (!is_small(s, n))
    return;
  (void)arg;
  ir_value **v = carried(s, n), *trips = ir_node_input(n, 0), *zero = pass_put_int(s, n, 0);
  ir_value *cond[2] = {sum(s, n, trips, zero, "aten::gt"), ir_node_input(n, 1)};
  ir_value *enters = pass_put_op(s, n, "aten::__and__", "bool", cond, 2)->outputs[0];
  ir_node *branch = pass_put_node(s, n, IR_IF, &enters, 1, NULL);
  ir_node *then = ir_node_add_block(s, branch)->ret, *no = ir_node_add_block(s, branch)->ret;

  iterate(s, n, then, zero, v); /* v[0]: whether to continue */
  ir_node_add_input(s, then, v[0]);
  ir_node_add_input(s, no, cond[1]);
  v[0] = ir_node_add_output(s, branch, type_simple(TYPE_BOOL));
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_node_add_input(s, then, v[i + 1]);
    ir_node_add_input(s, no, ir_node_input(n, i + 2));
    v[i + 1] = ir_node_add_output(s, branch, n->outputs[i]->type);
  }
  ir_value *one = pass_put_int(s, n, 1);
  ASSERT(pass_if_is_whole(branch), "both branches have the values after one iteration");
  ir_node *rest = new_loop(s, n, sum(s, n, trips, one, "aten::sub"), v[0], v),
          *end = rest->blocks[0]->ret;
  begin_body(rest, v);
  iterate(s, n, end, sum(s, end, ir_block_input(rest->blocks[0], 0), one, "aten::add"), v);
  end_body(s, rest, v[0], v);
  pass_replace(n, v + 1);
}

void pass_loop_peeling(session *s, ir_graph *g) { pass_each(s, g->block, peel, NULL); }
