/* script/emit/env.c -- variables: frames of names, one per block, as loads and stores.
 *
 * A variable that holds a graph value is stored and loaded by name; passes/ssa.c later replaces
 * both.  A variable with a compile-time value lives in the frame itself and cannot be assigned
 * again inside an inner block, because no value could carry it out. */
#include <string.h>

#include "passes/passes.h"
#include "script/emit/emit_int.h"

frame *em_push_frame(emitter *e, ir_block *b)
{
  frame *f = session_new(e->s, frame);
  f->parent = e->frame;
  f->block = b;
  e->frame = f;
  return f;
}

/* Values stored by the block must be loaded again after it. */
void em_pop_frame(emitter *e)
{
  const frame *f = e->frame;

  e->frame = f->parent;
  for (uint32_t i = 0; f->parent && i < f->names.n; i++) {
    session_poll(e->s);
    variable *outer = em_find_var(f->parent, f->names.names[i]);
    if (outer)
      outer->value = NULL;
  }
}

static variable *find_here(const frame *f, const char *name, uint32_t hash)
{
  int32_t i = name_find(&f->names, name, hash);
  return i >= 0 ? &f->vars[i] : NULL;
}

static variable *find_hashed(const frame *f, const char *name, uint32_t hash)
{
  variable *v = NULL;
  for (; f && !v; f = f->parent)
    v = find_here(f, name, hash);
  return v;
}

variable *em_find_var_here(frame *f, const char *name)
{
  return find_here(f, name, name_hash(name));
}
variable *em_find_var(frame *f, const char *name) { return find_hashed(f, name, name_hash(name)); }

/* Return the variable of this frame, made if it is new; its old content is dropped except for the
 * slot. */
static variable *put_var(emitter *e, frame *f, const char *name)
{
  uint32_t hash = name_hash(name), n = f->names.n;
  variable *here = find_here(f, name, hash);
  const variable *old = here ? here : find_hashed(f->parent, name, hash);
  const char *slot = name;
  if (e->fresh_names)
    slot = session_printf(e->s, "%s %u", name, e->n_scopes);
  else if (old && old->slot)
    slot = old->slot;
  if (!here) {
    if (name_add(e->s, &f->names, name, hash)) {
      variable *grown = session_array(e->s, variable, f->names.cap);
      if (n)
        memcpy(grown, f->vars, n * sizeof *grown);
      f->vars = grown;
    }
    here = &f->vars[n];
  }
  *here = (variable){.name = name, .slot = slot};
  return here;
}

void em_set_var_type(emitter *e, const char *name, const type *t)
{
  put_var(e, e->frame, name)->type = t;
}

void em_set_var_error(emitter *e, const char *name, const char *why)
{
  if (!em_find_var(e->frame, name))
    put_var(e, e->frame, name)->error = why;
}

/* -- Storing ----------------------------------------------------------------------------------- */

static void store(emitter *e, const char *name, ir_value *v, const type *t)
{
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_STORE, &v, 1));
  variable *var = put_var(e, e->frame, name);
  var->type = t;
  /* A variable is not a literal: the special rules for constants and [] at their place must not
   * apply to it. */
  bool is_literal = v->node->kind == IR_CONSTANT || v->node->kind == IR_LIST_CONSTRUCT;
  var->value = v->type == t && v->name && is_meaningful_name(name) && !is_literal ? v : NULL;
  ir_attr_set_string(e->s, n, "name", var->slot);
  if (v->type != t) /* annotated wider: what loops and branches carry has that type */
    ir_attr_set_types(e->s, n, "type", &t, 1);
}

/* Return the variable of an enclosing block of the same function: its type is fixed. */
static variable *find_outer(const frame *f, const char *name)
{
  uint32_t hash = name_hash(name);
  variable *v = NULL;
  while (!v && !f->is_function && f->parent) {
    f = f->parent;
    v = find_here(f, name, hash);
  }
  return v;
}

static ir_value *convert_to_outer(emitter *e, const char *name, const variable *outer,
                                  const sugared *v, const type *annotated)
{
  if (annotated)
    FAIL(e,
         "Attempting to declare and annotate the type of variable '%s' but it is already defined "
         "in an "
         "outer block",
         name);
  if (v->kind != SUGAR_VALUE || (!outer->type && !outer->error))
    FAIL(e, "Cannot re-assign '%s' because it is not a first-class value. Only reassignments to "
            "first-class values are allowed", name);
  if (outer->error)
    return v->as.value;
  ir_value *converted = em_convert(e, outer->type, v->as.value, true);
  if (!em_is_subtype(e, converted->type, outer->type))
    FAIL(e,
         "Variable '%s' previously had type %s but is now being assigned to a value of type %s\n",
         name, TYPE_TEXT(e, outer->type), TYPE_TEXT(e, converted->type));
  return converted;
}

void em_set_var(emitter *e, const char *name, sugared v, const type *annotated)
{
  const variable *outer = e->fresh_names ? NULL : find_outer(e->frame, name);
  if (v.kind == SUGAR_CONSTANT) /* n = inf */
    v = sugar_value(em_as_value(e, &v));
  if (v.kind == SUGAR_VALUE && !v.as.value->name && is_meaningful_name(name) &&
      v.as.value->node->block == e->frame->block)
    ir_value_set_name(e->s, v.as.value, name);
  if (outer) {
    if (outer->type && is_meaningful_name(outer->slot)) /* PyTorch loads it, to compare types */
      ir_graph_load_name(e->s, e->g, outer->slot);
    v = sugar_value(convert_to_outer(e, name, outer, &v, annotated));
  }
  if (v.kind != SUGAR_VALUE) {
    sugared *kept = session_new(e->s, sugared);
    *kept = v;
    put_var(e, e->frame, name)->sugar = kept;
    return;
  }
  if (annotated && !em_is_subtype(e, v.as.value->type, annotated))
    FAIL(e, "Variable '%s' is annotated with type %s but is being assigned to a value of type %s",
         name, TYPE_TEXT(e, annotated), em_type_of(e, v.as.value));
  store(e, name, v.as.value, annotated ? annotated : v.as.value->type);
}

void em_set_self(emitter *e, const char *name, ir_value *self)
{
  sugared *kept = session_new(e->s, sugared);

  *kept = sugar_value(self);
  ir_value_set_name(e->s, self, name);
  put_var(e, e->frame, name)->sugar = kept;
}

void em_del_var(emitter *e, const ast_expr *x)
{
  e->at = x->at;
  em_get_name(e, x->as.name); /* it must be there */
  put_var(e, e->frame, x->as.name)->error = "";
}

/* -- Loading ----------------------------------------------------------------------------------- */

static ir_value *load(emitter *e, const char *name, const char *slot, const type *t)
{
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_LOAD, NULL, 0));
  ir_value *v = ir_node_add_output(e->s, n, t);

  ir_attr_set_string(e->s, n, "name", slot);
  if (is_meaningful_name(name)) /* as PyTorch: what had the name before is x.1 then */
    ir_value_set_name(e->s, v, name);
  return v;
}

static bool holds(const frame *f, const variable *v)
{
  return (uintptr_t)v - (uintptr_t)f->vars < f->names.n * sizeof *v;
}

/* True if a load here would return the value last stored: branches between have not stored it. */
static bool is_known_here(const emitter *e, const variable *v)
{
  const frame *f = e->frame;
  if (!v->value)
    return false;
  while (f->is_branch && !holds(f, v))
    f = f->parent;
  return v->value->node->block == f->block && holds(f, v);
}

bool em_get_var(emitter *e, const char *name, sugared *out)
{
  const variable *v = em_find_var(e->frame, name);
  if (!v)
    return false;
  if (v->error && !*v->error)
    FAIL(e, "undefined value %s", name); /* deleted */
  if (v->error)
    FAIL(e, "%sand was used here", v->error);
  if (!v->type) {
    *out = *v->sugar;
  } else if (is_known_here(e, v)) {
    *out = sugar_value(v->value);
    ir_graph_load_name(e->s, e->g, name);
  } else {
    *out = sugar_value(load(e, name, v->slot, v->type));
  }
  return true;
}

/* Return the candidate nearest to `name`, for "did you mean". */
static const char *nearest(emitter *e, const char *name)
{
  const char *best = NULL;
  size_t len = strlen(name), best_common = 1;
  for (const frame *f = e->frame; f; f = f->parent) {
    for (uint32_t i = 0; i < f->names.n; i++) {
      size_t common = 0;
      while (common < len && f->vars[i].name[common] == name[common])
        common++;
      if (common > best_common) {
        best = f->vars[i].name;
        best_common = common;
      }
    }
  }
  return best;
}

sugared em_get_name(emitter *e, const char *name)
{
  sugared out;
  if (em_get_var(e, name, &out))
    return out;
  if (e->names->value(e->s, e->names, name, e->at, &out) || resolve_builtin_name(name, &out))
    return out;
  const char *near = nearest(e, name);
  if (near)
    FAIL(e, "undefined value %s (did you mean %s?)", name, near);
  FAIL(e, "undefined value %s", name);
}
