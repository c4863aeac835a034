/* passes/ssa.c -- turns variables into values (SSA form).
 *
 *   carry:  variables that an If or a Loop assigns become its outputs and a loop's block
 *           parameters, still as loads and stores at the borders;
 *   (exits.c turns break and continue into early ends of a loop's body)
 *   inline: a Loop's condition block moves in front of the loop and to the end of its body;
 *   erase:  each load is replaced by the last stored value.
 *
 * Variables have numbers (see name_set.h).  The order of carried variables is PyTorch's: sorted by
 * name. */
#include <string.h>

#include "passes/name_set.h"
#include "passes/passes_int.h"

/* -- Names ------------------------------------------------------------------------------------- */

bool is_meaningful_name(const char *name)
{
  if (name[0] == '$' || strchr(name, ' ')) /* a comprehension's */
    return false;
  if (name[0] != '_')
    return true;
  for (const char *p = name + 1; *p; p++)
    if (*p < '0' || *p > '9')
      return true;
  return false; /* _, _1, _23: the printer's own temporaries */
}

/* -- Scopes ------------------------------------------------------------------------------------ */

typedef struct slot {
  const type *type;
  ir_value *value; /* erase only */
} slot;
typedef struct scope {
  struct scope *parent;
  name_set names;
  slot *slots; /* in the order of `names` */
} scope;

static slot *find_hashed(const scope *sc, const char *name, uint32_t hash)
{
  for (; sc; sc = sc->parent) {
    int32_t i = name_find(&sc->names, name, hash);
    if (i >= 0)
      return &sc->slots[i];
  }
  return NULL;
}

static slot *find_slot(const scope *sc, const char *name)
{
  return find_hashed(sc, name, name_hash(name));
}

static void set(session *s, scope *sc, const char *name, const type *t, ir_value *v)
{
  uint32_t hash = name_hash(name);
  int32_t at = name_find(&sc->names, name, hash);
  if (at < 0) {
    uint32_t n = sc->names.n;
    if (name_add(s, &sc->names, name, hash)) {
      slot *grown = session_array(s, slot, sc->names.cap);
      if (n)
        memcpy(grown, sc->slots, n * sizeof *grown);
      sc->slots = grown;
    }
    at = (int32_t)n;
  }
  ASSERT(t && (uint32_t)at < sc->names.n, "a variable has a type, and a slot for its name");
  sc->slots[at] = (slot){t, v};
}

/* Return the variable of a load or a store: "name" is its first attribute. */
static const char *variable_of(const ir_node *n)
{
  ASSERT(n->attrs->kind == ATTR_STRING && strcmp(n->attrs->name, "name") == 0,
         "another attribute is before the name");
  return n->attrs->as.s;
}

/* -- Carry ------------------------------------------------------------------------------------- */

static ir_value *load_before(session *s, ir_node *pos, const char *name, const type *t)
{
  ir_node *n = ir_node_new(s, pos->graph, IR_LOAD, NULL, 0);
  ir_attr_set_string(s, n, "name", name);
  ir_node_insert_before(n, pos);
  return ir_node_add_output(s, n, t);
}

static ir_node *new_store(session *s, ir_graph *g, const char *name, ir_value *v)
{
  ir_node *n = ir_node_new(s, g, IR_STORE, &v, 1);
  ir_attr_set_string(s, n, "name", name);
  return n;
}

static void add_block_output(session *s, ir_block *b, const char *name, const type *t)
{
  ir_block_add_output(s, b, load_before(s, b->ret, name, t));
}

/* Name a value after its variable, unless the printer or a comprehension made the name up. */
static ir_value *named(session *s, ir_value *v, const char *name)
{
  if (is_meaningful_name(name))
    ir_value_set_name(s, v, name);
  return v;
}

/* Add an output; stores of a node's results come right after it, in the order of the results. */
static void add_node_output(session *s, ir_node *n, ir_node **last, const char *name, const type *t)
{
  ir_node *store = new_store(s, n->graph, name, named(s, ir_node_add_output(s, n, t), name));
  ASSERT((*last)->block == n->block && !ir_node_is_before(*last, n), "stores follow the node");
  ir_node_insert_after(store, *last);
  *last = store;
}

static scope *carry_block(session *s, ir_block *b, scope *outer);

static void carry_if(session *s, ir_node *n, scope *sc)
{
  scope *branch[2] = {carry_block(s, n->blocks[0], sc), carry_block(s, n->blocks[1], sc)};
  ir_node *last = n;
  uint32_t n_names;
  const char **names = names_sorted(s, &branch[0]->names, &branch[1]->names, &n_names);
  for (uint32_t i = 0; i < n_names; i++) {
    const char *name = names[i];
    const slot *yes = find_slot(branch[0], name), *no = find_slot(branch[1], name);
    if (!yes || !no)
      continue;
    const type *t = type_unify(n->graph->types, yes->type, no->type, true);
    if (!t)
      session_check(s, call_nomem(s->cx));
    add_block_output(s, n->blocks[0], name, yes->type);
    add_block_output(s, n->blocks[1], name, no->type);
    add_node_output(s, n, &last, name, t);
    set(s, sc, name, t, NULL);
  }
}

static void carry_loop(session *s, ir_node *n, scope *sc)
{
  ir_block *body = n->blocks[0];
  scope *inside = carry_block(s, body, sc);
  ir_node *last = n;
  if (n->n_blocks < 2) /* its condition is inlined: it was lowered before */
    return;
  carry_block(s, n->blocks[1], sc);
  ir_node *first = ir_block_first(body);
  uint32_t n_names;
  const char **names = names_sorted(s, &inside->names, NULL, &n_names);
  for (uint32_t i = 0; i < n_names; i++) {
    const char *name = names[i];
    const slot *outer = find_slot(sc, name);
    if (!outer)
      continue;
    const type *t = outer->type;
    ir_node_add_input(s, n, load_before(s, n, name, t));
    ir_node_insert_before(
      new_store(s, n->graph, name, named(s, ir_block_add_input(s, body, t, NULL), name)), first);
    add_block_output(s, body, name, t);
    add_node_output(s, n, &last, name, t);
    set(s, sc, name, t, NULL);
  }
}

static const type *stored_type(const ir_node *n)
{
  const ir_attr *a = ir_attr_find(n, "type");
  return a ? a->as.t.types[0] : ir_node_input(n, 0)->type;
}

static scope *carry_block(session *s, ir_block *b, scope *outer)
{
  scope *sc = session_new(s, scope);
  sc->parent = outer;
  session_enter(s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(s);
    next = n->next;
    if (n->kind == IR_STORE)
      set(s, sc, variable_of(n), stored_type(n), NULL);
    else if (n->kind == IR_IF)
      carry_if(s, n, sc);
    else if (n->kind == IR_LOOP)
      carry_loop(s, n, sc);
    else if (n->kind == IR_CLOSURE)
      carry_block(s, n->blocks[0], sc);
  }
  session_leave(s);
  return sc;
}

/* -- Loop conditions --------------------------------------------------------------------------- */

static void inline_condition(session *s, ir_node *n)
{
  ir_block *body = n->blocks[0], *cond = n->blocks[1];
  ir_value *start, *next;
  ir_block_inline(s, cond, n, NULL, &start);
  ir_node_insert_input(s, n, 1, start);
  while (ir_block_first(cond) != cond->ret)
    ir_node_move_before(ir_block_first(cond), body->ret);
  next = ir_block_output(cond, 0);
  ir_node_insert_input(s, body->ret, 0, next);
  ir_node_destroy_block(n, 1);
  ASSERT(n->n_blocks == 1 && ir_node_input(n, 1) == start, "the condition is an input now");
}

static void inline_conditions(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(s);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      inline_conditions(s, n->blocks[i]);
    if (n->kind == IR_LOOP && n->n_blocks == 2)
      inline_condition(s, n);
  }
  session_leave(s);
}

/* -- Erase ------------------------------------------------------------------------------------- */

static void erase_block(session *s, ir_block *b, scope *outer)
{
  scope sc = {.parent = outer};
  session_enter(s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(s);
    next = n->next;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      erase_block(s, n->blocks[i], &sc);
    if (n->kind == IR_STORE) {
      ir_value *v = ir_node_input(n, 0);
      set(s, &sc, variable_of(n), v->type, v);
      ir_node_destroy(n);
    } else if (n->kind == IR_LOAD) {
      const slot *v = find_slot(&sc, variable_of(n));
      if (!v)
        session_fail_status(s, RUSH_EINTERNAL, NULL, &n->range,
                            "variable %s is read before it is set", variable_of(n));
      ASSERT(v->value && ir_value_is_visible(v->value, n), "the stored value is made before");
      ir_value_replace_all_uses(n->outputs[0], v->value);
      ir_node_destroy(n);
    }
  }
  session_leave(s);
}

void pass_inline_loop_condition(session *s, ir_graph *g) { inline_conditions(s, g->block); }

void pass_convert_to_ssa(session *s, ir_graph *g)
{
  carry_block(s, g->block, NULL);
  if (ir_graph_may_have(g, IR_LOOP)) {
    pass_loop_exits(s, g);
    inline_conditions(s, g->block);
  }
  erase_block(s, g->block, NULL);
  ir_graph_forget_loads(g);
}
