/* passes/specialise.c -- writes what a plan assumes into a graph (specialise.h), and runs the
 * passes that profit from it.
 *
 * Attributes are followed from the argument `self`, which is known: a GetAttr of a known object is
 * a known object, a constant, or a tensor with facts.  Nothing is read of an attribute that the
 * graph sets, and nothing at all if the graph calls code that is not in it, which might set any.
 * Where a node changes a tensor's sizes in place, no facts are assumed: they would hold only before
 * it.  Rejected: constants for tensors, because their elements may change without a sign.
 * Cost: O(nodes + attributes set), and that of the passes. */
#include "passes/specialise.h"

#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"
#include "tensor/tensor.h"

/* -- What may be assumed ----------------------------------------------------------------------- */

typedef struct attr_set { /* an attribute that the graph sets */
  const type *cls;
  const char *name;
  struct attr_set *next;
} attr_set;

typedef struct limits {
  session *s;
  attr_set *sets;
  bool runs_others;    /* calls code that may set attributes */
  bool moves_geometry; /* changes sizes or strides in place */
} limits;

static void look_at(session *s, ir_node *n, void *arg)
{
  limits *l = arg;

  if (n->kind == IR_SET_ATTR) {
    attr_set *one = session_new(s, attr_set);
    *one = (attr_set){ir_node_input(n, 0)->type, ir_attr_string(n, "name"), l->sets};
    l->sets = one;
  } else if (n->kind == IR_OP) {
    l->runs_others |= op_waits(n->op) || (n->op->outside && n->op->effects & OP_SIDE_EFFECT) ||
                      ((n->op->name_key == OPN_SORT || n->op->name_key == OPN_SORTED) &&
                       type_is(ir_node_input(n, 0)->type, TYPE_LIST)); /* by __lt__ */
    l->moves_geometry |= n->op->effects & OP_GEOMETRY || n->op->variant == VARIANT_OUT ||
                         (n->op->outside && schema_is_mutable(n->op->schema));
  } else {
    l->runs_others |= n->kind != IR_PRINT && n->kind != IR_RAISE && pass_has_effect(n);
  }
}

static bool is_set(const limits *l, const type *cls, const char *name)
{
  for (const attr_set *a = l->sets; a; a = a->next)
    if (strcmp(a->name, name) == 0 && (a->cls == cls || type_equal(a->cls, cls)))
      return true;
  return false;
}

/* -- Reading state ----------------------------------------------------------------------------- */

static bool is_number(rush_value v)
{
  return v.tag == RUSH_TAG_BOOL || v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_FLOAT ||
         v.tag == RUSH_TAG_NONE;
}

bool state_reads_hold(const state_read *reads, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    const rush_value now = reads[i].object->slots[reads[i].slot];

    if (now.tag != reads[i].value.tag)
      return false;
    if (now.tag == RUSH_TAG_TENSOR ? !now.as.tensor || !ir_facts_describe(now.as.tensor) ||
                                       !ir_facts_fit(reads[i].facts, now.as.tensor)
                                   : now.tag != RUSH_TAG_NONE && now.as.i != reads[i].value.as.i)
      return false;
  }
  return true;
}

/* Return the facts that a plan may rely on: requires_grad is left open, which only calls that
 * record ask for. */
static ir_facts lasting_facts(const rush_tensor *t)
{
  ir_facts f = ir_facts_of_tensor(t);

  f.requires_grad = -1;
  return f;
}

static void add_read(session *s, specialisation *sp, state_read r)
{
  if (sp->n_reads == sp->cap_reads) {
    const uint32_t cap = sp->cap_reads ? 2 * sp->cap_reads : 32;
    state_read *grown = session_array(s, state_read, cap);

    if (sp->n_reads)
      memcpy(grown, sp->reads, sp->n_reads * sizeof *grown);
    sp->reads = grown;
    sp->cap_reads = cap;
  }
  sp->reads[sp->n_reads++] = r;
}

/* -- Following `self` -------------------------------------------------------------------------- */

typedef struct read_node { /* a GetAttr that was read: it does not fail */
  ir_node *n;
  struct read_node *before;
} read_node;

typedef struct reader {
  session *s;
  read_node *nodes;
  specialisation *sp;
  limits may;
  const rush_object **known; /* by ir_value->scratch; 0: unknown */
  uint32_t n_known, cap_known;
} reader;

static void know(reader *r, ir_value *v, const rush_object *o)
{
  if (r->n_known == r->cap_known) {
    const rush_object **grown = session_array(r->s, const rush_object *, 2 * (size_t)r->cap_known);
    memcpy(grown, r->known, r->n_known * sizeof *grown);
    r->known = grown;
    r->cap_known *= 2;
  }
  r->known[r->n_known] = o;
  v->scratch = r->n_known++;
}

/* Give a tensor's facts to the attribute's value; one that may be None gets a cast. */
static void assume_tensor(reader *r, ir_node *n, const rush_tensor *t, state_read *read)
{
  ir_value *v = n->outputs[0];
  ir_facts *f = session_new(r->s, ir_facts);

  *f = lasting_facts(t);
  read->facts = f;
  const type *refined = ir_facts_type(r->s, n->graph->types, f);
  if (type_is(v->type, TYPE_TENSOR)) {
    v->type = refined;
    return;
  }
  ir_node *cast = ir_node_new(r->s, n->graph, IR_UNCHECKED_CAST, NULL, 0);
  cast->range = n->range;
  cast->origin = n->origin;
  cast->inlined = n->inlined;
  ir_value *out = ir_node_add_output(r->s, cast, refined);
  ir_node_insert_after(cast, n);
  ir_value_replace_all_uses(v, out);
  ir_node_add_input(r->s, cast, v);
}

static void read_attr(reader *r, ir_node *n)
{
  const rush_object *o = r->known[ir_node_input(n, 0)->scratch];
  const char *name = ir_attr_string(n, "name");
  const int slot = o && name ? class_attr_index(o->type, str_of(name)) : -1;

  if (slot < 0 || (uint32_t)slot >= o->n_slots || is_set(&r->may, o->type, name))
    return;
  atomic_store(&((rush_object *)(uintptr_t)o)->is_read, 1); /* before it is read */
  const rush_value v = o->slots[slot];
  state_read read = {o, (uint32_t)slot, v, NULL, o->type->cls->attrs[slot].name};
  const type *t = n->outputs[0]->type;
  if (v.tag == RUSH_TAG_OBJECT) {
    know(r, n->outputs[0], v.as.object);
  } else if (is_number(v) && type_contains_value(t, v)) {
    ir_value *c = pass_put_constant(r->s, n, v, t);
    ir_value_replace_all_uses(n->outputs[0], c);
  } else if (v.tag == RUSH_TAG_TENSOR && v.as.tensor && !r->may.moves_geometry &&
             ir_facts_describe(v.as.tensor) && type_contains_value(t, v)) {
    assume_tensor(r, n, v.as.tensor, &read);
  } else {
    return;
  }
  add_read(r->s, r->sp, read);
  read_node *one = session_new(r->s, read_node);
  *one = (read_node){n, r->nodes};
  r->nodes = one;
}

/* Remove what nothing uses any more of the attributes that were read, the last first. */
static void drop_unused(const reader *r)
{
  for (const read_node *a = r->nodes; a; a = a->before)
    if (!a->n->destroyed && ir_node_is_unused(a->n))
      ir_node_destroy(a->n);
}

static void read_block(reader *r, ir_block *b)
{
  session_enter(r->s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(r->s);
    next = n->next;
    if (n->kind == IR_GET_ATTR)
      read_attr(r, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      read_block(r, n->blocks[i]);
  }
  session_leave(r->s);
}

static void forget(session *s, ir_node *n, void *arg)
{
  (void)s;
  (void)arg;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    n->outputs[i]->scratch = 0;
  for (uint32_t b = 0; b < n->n_blocks; b++)
    for (uint32_t i = 0; i < ir_block_n_inputs(n->blocks[b]); i++)
      ir_block_input(n->blocks[b], i)->scratch = 0;
}

static void read_state(reader *r, ir_graph *g)
{
  r->cap_known = 32;
  r->known = session_array(r->s, const rush_object *, r->cap_known);
  r->known[r->n_known++] = NULL;
  pass_each(r->s, g->block, forget, NULL);
  for (uint32_t i = 0; i < ir_block_n_inputs(g->block); i++)
    ir_block_input(g->block, i)->scratch = 0;
  if (r->may.runs_others || !r->sp->self)
    return;
  know(r, ir_block_input(g->block, 0), r->sp->self);
  read_block(r, g->block);
}

/* -- Arguments --------------------------------------------------------------------------------- */

/* Give the inputs the facts of the plan's arguments.  An argument that may be None becomes None, or
 * a tensor. */
static void assume_arguments(session *s, ir_graph *g, const specialisation *sp)
{
  ir_node *first = ir_block_first(g->block);

  for (uint32_t i = 0; i < sp->n_args; i++) {
    ir_value *in = ir_block_input(g->block, i);
    const ir_facts *f = sp->entry[i];

    if (!f)
      continue;
    if (f->defined == 0) {
      if (type_is(in->type, TYPE_OPTIONAL) && in->uses)
        ir_value_replace_all_uses(in, pass_put_constant(s, first, value_none(), in->type));
      continue;
    }
    const type *refined = ir_facts_type(s, g->types, f);
    if (type_is(in->type, TYPE_TENSOR)) {
      in->type = refined;
    } else if (in->uses) {
      ir_node *cast = ir_node_new(s, g, IR_UNCHECKED_CAST, NULL, 0);
      ir_value *out = ir_node_add_output(s, cast, refined);
      cast->range = first->range;
      ir_node_insert_before(cast, first);
      ir_value_replace_all_uses(in, out);
      ir_node_add_input(s, cast, in);
    }
  }
}

/* -- The passes behind it ---------------------------------------------------------------------- */

typedef struct phase {
  pass_fn *run;
  bool needs_geometry; /* relies on sizes that stay: not if something changes them in place */
} phase;

/* In order; each keeps results, effects and errors as they are. */
static const phase first_phases[] = {
  {pass_constant_propagation_immutable_types, false},
  {pass_lower_simple_tuples, false},
  {pass_remove_dropout, false}, /* which returns its argument */
  {pass_constant_loop_unrolling, false},
  {pass_propagate_shapes_on_graph, true},
  {pass_drop_implied_guards, true},
  {pass_exact_peephole, false},
  {pass_constant_propagation_immutable_types, false},
  {pass_constant_loop_unrolling, false}, /* loops whose count follows from sizes */
};
/* Repeated while they find sizes: the list of factors that a loop fills gives the sizes of one
 * interpolation, which the next one's loop needs. */
static const phase repeated_phases[] = {
  {pass_remove_list_mutation, false}, /* sizes and factors in lists */
  {pass_peephole_list_idioms, false},
  {pass_propagate_shapes_on_graph, true},
  {pass_exact_peephole, false},
  {pass_constant_propagation_immutable_types, false},
  {pass_constant_loop_unrolling, false},
  {pass_drop_implied_guards, true},
};
static const phase last_phases[] = {
  {pass_slice_splits, true},
  {pass_peephole_list_idioms, false},
  {pass_remove_exact_mutation, true},
  {pass_cse, false},
  {pass_drop_implied_guards, true},
  {pass_lower_simple_tuples, false},
  {pass_dce, false},
};
#define MOST_ROUNDS 16

static void count_unknown(session *s, ir_node *n, void *arg)
{
  uint32_t *found = arg;

  (void)s;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    *found += type_is(n->outputs[i]->type, TYPE_TENSOR) &&
              !ir_facts_has_sizes(ir_facts_of(n->outputs[i]->type));
}

/* Return how many tensors have sizes that are not known. */
static uint32_t n_unknown_sizes(session *s, ir_graph *g)
{
  uint32_t found = 0;

  pass_each(s, g->block, count_unknown, &found);
  return found;
}

static void run_phases(reader *r, ir_graph *g, const phase *phases, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (phases[i].needs_geometry && r->may.moves_geometry)
      continue;
    phases[i].run(r->s, g);
    drop_unused(r);
#ifndef NDEBUG
    ir_verify(r->s, g, "specialise");
#endif
  }
}

void pass_specialise(session *s, ir_graph *g, specialisation *sp)
{
  reader r = {.s = s, .sp = sp, .may = {.s = s}};

  ASSERT(sp->n_args == ir_block_n_inputs(g->block), "facts for each input");
  pass_each(s, g->block, look_at, &r.may);
  read_state(&r, g);
  if (!r.may.moves_geometry)
    assume_arguments(s, g, sp);
  else
    sp->points.facts = NULL; /* they would hold only until then */
  if (sp->base)
    pass_guard_points(s, g, &sp->points);
  g->keeps_errors = true;
  run_phases(&r, g, first_phases, COUNT_OF(first_phases));
  uint32_t unknown = n_unknown_sizes(s, g), before = UINT32_MAX;
  for (int i = 0; i < MOST_ROUNDS && unknown && unknown < before; i++) {
    run_phases(&r, g, repeated_phases, COUNT_OF(repeated_phases));
    before = unknown;
    unknown = n_unknown_sizes(s, g);
  }
  run_phases(&r, g, last_phases, COUNT_OF(last_phases));
}
