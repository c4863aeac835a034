/* script/emit/build.c -- puts nodes into the graph under construction: constants, containers,
 * casts. Every node gets the source range of the expression being compiled, except for kinds that
 * PyTorch leaves without one. The emit_*.c files use only these functions to make nodes, so that
 * PyTorch's graph form is ensured in one place. */
#include "script/emit/emit_int.h"

ir_node *em_put(emitter *e, ir_node *n)
{
  n->range = e->at;
  ir_node_insert_before(n, e->before);
  return n;
}

ir_value *em_put_node(emitter *e, ir_kind k, ir_value *const *in, uint32_t n, const type *out)
{
  ir_node *node = em_put(e, ir_node_new(e->s, e->g, k, in, n));
  return out ? ir_node_add_output(e->s, node, out) : NULL;
}

ir_node *em_begin_at(emitter *e, ir_block *b)
{
  ir_node *old = e->before;
  e->before = b->ret;
  return old;
}

/* -- Constants --------------------------------------------------------------------------------- */

ir_value *em_constant_value(emitter *e, rush_value v, const type *t)
{
  return em_put(e, ir_constant_new(e->s, e->g, v, t))->outputs[0];
}

ir_value *em_constant_int(emitter *e, int64_t v)
{
  return em_constant_value(e, value_int(v), type_simple(TYPE_INT));
}

static bool in_closure(const ir_node *n)
{
  for (const ir_block *b = n->block; b && b->owner; b = b->owner->block)
    if (b->owner->kind == IR_CLOSURE)
      return true;
  return false;
}

ir_value *em_literal_number(emitter *e, rush_value v, const type *t)
{
  if (!e->literals || in_closure(e->before)) /* a closure takes nothing from outside for it */
    return em_constant_value(e, v, t);
  struct { uint64_t tag; int64_t bits; } *key = session_alloc(e->s, sizeof *key);
  key->tag = v.tag;
  key->bits = v.as.i;
  str name = {(const char *)key, sizeof *key};
  ir_node *n = table_get(e->literals, name);
  if (!n) {
    n = ir_constant_new(e->s, e->g, v, t);
    n->range = e->at;
    ir_node *first = ir_block_first(e->g->block);
    ir_node_insert_before(n, first);
    session_table_put(e->s, e->literals, name, n);
  }
  return n->outputs[0];
}

ir_value *em_constant_bool(emitter *e, bool v)
{
  return em_constant_value(e, value_bool(v), type_simple(TYPE_BOOL));
}

ir_value *em_constant_none(emitter *e)
{
  ir_value *v = em_constant_value(e, value_none(), type_simple(TYPE_NONE));
  v->node->range = (source_range){0}; /* generated: it is not in the source */
  return v;
}

static void release_held(void *held) { value_release(*(rush_value *)held); }

/* Return a slot that holds a value made for the graph until the session ends. */
static rush_value *hold_value(session *s)
{
  rush_value *v = session_alloc(s, sizeof *v); /* None */
  session_defer(s, release_held, v);
  return v;
}

ir_value *em_constant_str(emitter *e, const char *text, size_t len)
{
  rush_value *v = hold_value(e->s);
  session_check(e->s, string_new(e->s->cx, text, len, v));
  return em_constant_value(e, *v, type_simple(TYPE_STRING));
}

ir_value *em_constant_complex(emitter *e, double im)
{
  rush_value *v = hold_value(e->s);
  session_check(e->s, complex_new(e->s->cx, 0, im, v));
  return em_constant_value(e, *v, type_simple(TYPE_COMPLEX));
}

/* -- Containers -------------------------------------------------------------------------------- */

/* Insert a node of a kind that has no source range in PyTorch. */
ir_value *em_put_nowhere(emitter *e, ir_kind k, ir_value *const *in, uint32_t n, const type *out)
{
  ir_value *v = em_put_node(e, k, in, n, out);
  v->node->range = (source_range){0};
  return v;
}

ir_value *em_make_list(emitter *e, const type *elem, ir_value *const *v, uint32_t n)
{
  return em_put_nowhere(e, IR_LIST_CONSTRUCT, v, n, em_list_of(e, elem));
}

ir_value *em_make_tuple(emitter *e, ir_value *const *v, uint32_t n, const type *t)
{
  if (!t) {
    const type **elems = session_array(e->s, const type *, n);
    for (uint32_t i = 0; i < n; i++)
      elems[i] = v[i]->type;
    t = em_tuple_of(e, elems, n);
  }
  return em_put_nowhere(e, IR_TUPLE_CONSTRUCT, v, n, t);
}

ir_value *em_unchecked_cast(emitter *e, ir_value *v, const type *t)
{
  return em_put_nowhere(e, IR_UNCHECKED_CAST, &v, 1, t);
}

void em_unpack_tuple(emitter *e, ir_value *v, ir_value **out)
{
  const type *t = v->type;
  if (v->node->kind == IR_TUPLE_CONSTRUCT && v->node->n_inputs == t->n_elems) {
    for (uint32_t i = 0; i < t->n_elems; i++)
      out[i] = ir_node_input(v->node, i);
    return;
  }
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_TUPLE_UNPACK, &v, 1));
  for (uint32_t i = 0; i < t->n_elems; i++)
    out[i] = ir_node_add_output(e->s, n, t->elems[i]);
}

/* True for `[]` of yet unknown element type: Tensor until it meets a list type. */
bool em_is_empty_list_literal(const ir_value *v)
{
  return v->node->kind == IR_LIST_CONSTRUCT && v->node->n_inputs == 0 &&
         ir_attr_find(v->node, "_untyped") != NULL;
}
