/* run/bytecode_guards.c -- emission of guards, type checks and points.
 *
 * Guards of graphs that others made raise an error when they fail; those of points (run/points.h)
 * have operands for their snapshot.  Neither an operand nor the map of a point takes a value out of
 * its register: what dies there is dropped behind the instruction. */
#include "run/bytecode_int.h"

#include "passes/points.h"

/* Emit the test of a guard on input i, whose value it returns. */
static void put_plain_guard(coder *e, const ir_node *n, uint32_t i)
{
  const ir_attr *a = ir_attr_find(n, "profiled_type");
  const ir_value *v = ir_node_input(n, i);
  site *st = put_site(e, OPC_GUARD, 0);

  add_operand(e, st, kept_operand(e, v));
  st->n_args = 1;
  st->type = a && a->kind == ATTR_TYPE ? a->as.t.types[0] : n->outputs[0]->type;
  if (i == 0) {
    put_alias(e, n);
    return;
  }
  const uint32_t r = define_value(e, n->outputs[0]);
  if (r != NO_REG && info(e, v)->is_const)
    put_imm(e, OPC_LOADK, r, (int32_t)info(e, v)->constant);
  else if (r != NO_REG)
    put_ins(e, info(e, v)->plain ? OPC_PLAIN : OPC_COPY, r, info(e, v)->reg, 0);
  free_deaths(e, n, true, false);
}

/* Give n's result the register of its first input if that dies here, else a copy; then drop what
 * else dies. */
static void pass_first(coder *e, const ir_node *n)
{
  const vinfo *from = info(e, ir_node_input(n, 0));

  if (from->is_const || from->last != n || e->reserved[from->reg] || !n->outputs[0]->uses) {
    hand_over(e, n, n->outputs, 1);
    return;
  }
  (void)take_death(e, n, ir_node_input(n, 0));
  vinfo *to = info(e, n->outputs[0]);
  to->reg = from->reg;
  to->plain = to->plain && from->plain;
  free_deaths(e, n, true, false);
}

/* True for a point that the library put there; in other graphs its attributes mean nothing. */
static bool is_point(const ir_node *n)
{
  return n->graph->has_points && pass_point_of(n) >= 0;
}

/* Emit a point of profiled code: the register of each value of the snapshot; of a loop's trips that
 * behind its count. */
static void put_point(coder *e, const ir_node *n, uint32_t point)
{
  const uint32_t n_loops = (uint32_t)ir_attr_find(n, "loops")->as.i;
  site *st = put_site(e, OPC_PROFILE, 0);

  for (uint32_t i = 0; i < n->n_inputs; i++) {
    const bool is_trips = i + 2 * n_loops >= n->n_inputs && (n->n_inputs - i) % 2 == 1;
    const ir_value *v = ir_node_input(n, is_trips ? i - 1 : i);
    add_operand(e, st, kept_operand(e, v) + is_trips);
  }
  st->n_args = n->n_inputs;
  st->point = point;
  e->n_points = point + 1 > e->n_points ? point + 1 : e->n_points;
  pass_first(e, n);
}

/* Emit the guard of a point: its value, then the snapshot. */
static void put_point_guard(coder *e, const ir_node *n, uint32_t point)
{
  const ir_attr *recipe = ir_attr_find(n, "recipe"), *built = ir_attr_find(n, "built");
  const uint32_t n_steps = recipe ? recipe->as.ints.n : n->n_inputs - 1;
  site *st = put_site(e, OPC_POINT_GUARD, 0);
  uint32_t next = 1;

  add_operand(e, st, kept_operand(e, ir_node_input(n, 0)));
  for (uint32_t i = 0; i < n_steps; i++)
    if (recipe && recipe->as.ints.v[i] >= 0)
      add_operand(e, st, OPERAND_RECIPE | (uint32_t)recipe->as.ints.v[i]);
    else
      add_operand(e, st, kept_operand(e, ir_node_input(n, next++)));
  st->n_args = 1 + n_steps;
  st->type = ir_attr_find(n, "profiled_type")->as.t.types[0];
  st->types = built ? built->as.t.types : NULL;
  st->point = point;
  pass_first(e, n);
}

void put_type_check(coder *e, const ir_node *n)
{
  const ir_attr *a = ir_attr_find(n, "types");
  const uint32_t k = n->n_inputs, r = define_value(e, n->outputs[k]);
  site *st = put_site(e, OPC_TYPE_CHECK, 0);

  for (uint32_t i = 0; i < k; i++)
    add_operand(e, st, kept_operand(e, ir_node_input(n, i)));
  st->n_args = k;
  add_operand(e, st, r);
  st->n_results = 1;
  st->types = a ? a->as.t.types : NULL;
  st->n_types = a && (a->kind == ATTR_TYPES || a->kind == ATTR_TYPE) ? a->as.t.n_types : 0;
  st->begin = n->kind == IR_REQUIRES_GRAD_CHECK;
  hand_over(e, n, n->outputs, k);
}

void put_profile(coder *e, const ir_node *n)
{
  if (is_point(n))
    put_point(e, n, (uint32_t)pass_point_of(n));
  else
    hand_over(e, n, n->outputs, n->n_outputs); /* an end marker has no result */
}

void put_guard(coder *e, const ir_node *n)
{
  if (is_point(n))
    put_point_guard(e, n, (uint32_t)pass_point_of(n));
  else
    put_plain_guard(e, n, n->kind == IR_BAILOUT);
}
