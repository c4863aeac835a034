/* ir/build.c -- constants of any value, and functions from graphs, for tools that build graphs.
 * Values from a host may have untyped containers, so their types are found from the items. A
 * function returns one value, as PyTorch's do: several outputs are packed into a tuple. */
#include "ir/build.h"

/* -- Constants --------------------------------------------------------------------------------- */

static const type *type_of(session *s, type_store *ts, rush_value v);

static const type *unify_items(session *s, type_store *ts, const rush_value *items, size_t n,
                               size_t step)
{
  const type *t = NULL;

  for (size_t i = 0; i < n; i++) {
    const type *item = type_of(s, ts, items[i * step]);

    t = t ? type_unify(ts, t, item, false) : item;
    if (!t)
      session_fail_status(s, RUSH_EARGUMENT, "TypeError", NULL,
                          "the items of a list have no type in common");
  }
  return t ? t : type_simple(TYPE_TENSOR);
}

/* Return the type of a value that may come from outside, whose containers may have no element
 * types. */
static const type *type_of(session *s, type_store *ts, rush_value v)
{
  const type *t;

  session_enter(s);
  if (v.tag == RUSH_TAG_LIST && type_is(v.as.list->elem, TYPE_ANY)) {
    t = type_list(ts, unify_items(s, ts, v.as.list->items, v.as.list->n, 1));
  } else if (v.tag == RUSH_TAG_TUPLE && !v.as.tuple->type) {
    const type **elems = session_array(s, const type *, v.as.tuple->n);

    for (size_t i = 0; i < v.as.tuple->n; i++)
      elems[i] = type_of(s, ts, v.as.tuple->items[i]);
    t = type_tuple(ts, elems, (uint32_t)v.as.tuple->n);
  } else if (v.tag == RUSH_TAG_DICT && type_is(v.as.dict->key, TYPE_ANY)) {
    rush_value *all = session_array(s, rush_value, 2 * v.as.dict->n);
    size_t pos = 0, n = 0;

    for (dict_entry *e; (e = dict_next(v.as.dict, &pos)); n++) {
      all[2 * n] = e->key;
      all[2 * n + 1] = e->value;
    }
    t = type_dict(ts, unify_items(s, ts, all, n, 2), unify_items(s, ts, all + 1, n, 2));
  } else {
    t = type_of_value(ts, v);
  }
  session_leave(s);
  return session_type(s, t);
}

static void release_held(void *held) { value_release(*(rush_value *)held); }

ir_node *build_constant(session *s, ir_graph *g, rush_value v, const type *t)
{
  bool fits = false;

  if (v.tag == RUSH_TAG_OBJECT || v.tag == RUSH_TAG_FUTURE || v.tag == RUSH_TAG_FUNCTION ||
      v.tag == RUSH_TAG_UNSET)
    session_fail_status(s, RUSH_EARGUMENT, "TypeError", NULL,
                        "such a value cannot be a constant of a graph");
  if (!t)
    t = type_of(s, g->types, v);
  rush_value *held = session_alloc(s, sizeof *held);

  session_check(s, value_bind(s->cx, t, v, &fits, held));
  if (!fits)
    session_fail_status(s, RUSH_EARGUMENT, "TypeError", NULL,
                        "the constant is no value of its type");
  session_defer(s, release_held, held);
  ir_graph_keep_types(s, g, t->store);
  return ir_constant_new(s, g, *held, t);
}

/* -- Functions --------------------------------------------------------------------------------- */

/* Pack several outputs into a tuple: PyTorch's functions return one value. */
static void pack_outputs(session *s, ir_graph *g)
{
  ir_block *b = g->block;
  uint32_t n = ir_block_n_outputs(b);

  if (n == 1)
    return;
  const type **elems = session_array(s, const type *, n);
  ir_value **in = session_array(s, ir_value *, n);

  for (uint32_t i = 0; i < n; i++) {
    in[i] = ir_block_output(b, i);
    elems[i] = in[i]->type;
  }
  ir_node *pack =
    n ? ir_node_new(s, g, IR_TUPLE_CONSTRUCT, in, n) : ir_constant_new(s, g, value_none(), NULL);

  ir_node_append(pack, b);
  if (n)
    ir_node_add_output(s, pack, session_type(s, type_tuple(g->types, elems, n)));
  while (ir_block_n_outputs(b))
    ir_block_remove_output(b, 0);
  ir_block_add_output(s, b, pack->outputs[0]);
}

function *build_function(session *s, program *p, const char *name, const ir_graph *from)
{
  function *f = program_add_closure(s, p, name);
  ir_graph *g = ir_graph_copy(s, from);

  function_set_graph_steal(f, g); /* the program frees it */
  uint32_t n = ir_block_n_inputs(g->block);
  schema *sc = session_alloc_in(s, &p->mem, sizeof *sc);
  pack_outputs(s, g);
  sc->name = f->name;
  sc->overload = "";
  sc->n_args = n;
  sc->n_returns = 1;
  sc->args = session_alloc_in(s, &p->mem, (n + 1) * sizeof *sc->args);
  sc->returns = session_alloc_in(s, &p->mem, sizeof *sc->returns);
  for (uint32_t i = 0; i < n; i++) {
    const ir_value *v = ir_block_input(g->block, i);

    sc->args[i].name = v->name ? v->name : "";
    sc->args[i].type = v->type;
  }
  sc->returns[0] = (schema_arg){.name = "", .type = ir_block_output(g->block, 0)->type};
  f->schema = sc;
  atomic_store(&f->state, FUNCTION_COMPILED);
  return f;
}
