/* export/decompose_write.c -- functionalisation: in-place operators of a program that is decomposed
 * become their functional forms.
 *
 * A write gives the tensor a new node.  If the tensor is a view, what it views gets a new node,
 * too, made by the inverse of the view (view back, *_scatter).  Every other view of the same memory
 * is stale from then on, since it has seen fewer writes: the next use of it calls its operator
 * again, on the new value.  Nothing is replayed for views that are not used again. */
#include "export/capture_int.h"

#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"

void capture_note_view(capture *c, rush_value made, const op *o, const rush_value *args,
                       uint32_t item, rush_value of)
{
  capture_tensor *t = capture_tensor_of(c, made.as.tensor);

  t->view = o;
  t->view_args = args;
  t->view_item = item;
  t->viewed = of;
  t->n_writes = t->root->n_writes;
}

void capture_refresh(capture *c, capture_tensor *t)
{
  rush_value *results = session_array(c->s, rush_value, (size_t)t->view->schema->n_returns + 1);

  t->n_writes = t->root->n_writes;
  session_enter(c->s);
  capture_record(c, t->view, t->view_args, results);
  session_leave(c->s);
  const rush_value made =
    results[0].tag == RUSH_TAG_LIST ? results[0].as.list->items[t->view_item] : results[0];
  t->node = capture_tensor_of(c, made.as.tensor)->node;
}

static rush_value call(capture *c, const char *name, const char *overload, const rush_value *args)
{
  const op *o = session_op_find(c->s, str_of(name), str_of(overload));
  rush_value made;

  if (!o)
    capture_fail(c, "%s.%s, which a write through a view needs, is not there", name, overload);
  capture_op(c, o, args, &made);
  return made;
}

/* Make a list of the ints. */
static rush_value int_list(capture *c, const symint *values, int n)
{
  rush_list *l;

  session_check(c->s, list_new(c->s->cx, type_simple(TYPE_INT), (size_t)n, &l));
  const rush_value v = capture_hold(c, value_heap_steal(RUSH_TAG_LIST, l));
  for (int i = 0; i < n; i++)
    session_check(c->s, list_append_steal(c->s->cx, l, value_retain(capture_int(c, values[i]))));
  return v;
}

static rush_value inverse_permutation(capture *c, const rush_list *dims)
{
  symint *back = session_array(c->s, symint, dims->n + 1);

  for (size_t i = 0; i < dims->n; i++) {
    const int64_t d = index_wrap(dims->items[i].as.i, dims->n);
    back[d] = sym_const(c->env, (int64_t)i);
  }
  return int_list(c, back, (int)dims->n);
}

/* Return where an item of split_with_sizes begins (or with 1 more, ends). */
static rush_value split_at(capture *c, const capture_tensor *t, uint32_t more)
{
  symint at = sym_const(c->env, 0);

  for (uint32_t i = 0; i < t->view_item + more; i++)
    at = sym_add(c->env, at, capture_symint(t->view_args[1].as.list->items[i], c->env));
  return capture_int(c, at);
}

/* Return what the view t shows of, with the value `made` in the place that t shows. */
static rush_value written_back(capture *c, const capture_tensor *t, rush_value made)
{
  const rush_value *a = t->view_args;
  const symshape_facts *whole = &capture_tensor_of(c, t->viewed.as.tensor)->facts;

  switch (t->view->name_key) {
  case OPN_SELECT:
    return call(c, "aten::select_scatter", "",
                (const rush_value[]){t->viewed, made, a[1], a[2]});
  case OPN_SLICE:
    return call(c, "aten::slice_scatter", "",
                (const rush_value[]){t->viewed, made, a[1], a[2], a[3], a[4]});
  case OPN_SPLIT_WITH_SIZES:
    return call(c, "aten::slice_scatter", "",
                (const rush_value[]){t->viewed, made, a[2], split_at(c, t, 0), split_at(c, t, 1),
                                     value_int(1)});
  case OPN_DIAGONAL:
    return call(c, "aten::diagonal_scatter", "",
                (const rush_value[]){t->viewed, made, a[1], a[2], a[3]});
  case OPN_PERMUTE:
    return call(c, "aten::permute", "",
                (const rush_value[]){made, inverse_permutation(c, a[1].as.list)});
  case OPN_ALIAS:
    return made;
  case OPN_VIEW:
  case OPN_UNSQUEEZE:
  case OPN_SQUEEZE:
    if (t->view->schema->n_args == 2 && a[1].tag != RUSH_TAG_NONE)
      return call(c, "aten::reshape", "",
                  (const rush_value[]){made, int_list(c, whole->sizes, whole->n_dims)});
    /* fall through */
  default:
    capture_fail(c, "a write through %s, whose inverse is not known here", t->view->schema->name);
  }
}

/* Give the tensor a value, and what it is a view of. */
static void store(capture *c, rush_value to, rush_value made)
{
  capture_tensor *t = capture_tensor_of(c, to.as.tensor);

  if (to.as.tensor == made.as.tensor)
    return;
  const uint32_t n_writes = ++capture_root(t)->n_writes;
  while (true) {
    const capture_tensor *m = capture_tensor_of(c, made.as.tensor);
    t->node = m->node;
    t->constant = m->constant;
    t->is_fresh = m->is_fresh;
    t->number = m->number;
    t->is_known = false;
    t->n_writes = n_writes;
    if (!t->view)
      break;
    made = written_back(c, t, made);
    t = capture_tensor_of(c, t->viewed.as.tensor);
  }
}

/* Return how many arguments at the end of the schema are results that are given: out=. */
static uint32_t outs_of(const schema *sc)
{
  uint32_t n = 0;

  while (n < sc->n_args && sc->args[sc->n_args - 1 - n].is_write &&
         sc->args[sc->n_args - 1 - n].kwarg_only)
    n++;
  return n;
}

/* True if `base` takes the arguments of sc but for the last n_outs, and others at most that have
 * defaults: the dtype of what is made. */
static bool takes_the_same(const op *base, const schema *sc, uint32_t n_outs)
{
  const uint32_t n = sc->n_args - n_outs;

  if (!base || base->schema->n_args < n || schema_is_mutable(base->schema))
    return false;
  for (uint32_t i = 0; i < base->schema->n_args; i++)
    if (i < n ? strcmp(base->schema->args[i].name, sc->args[i].name) != 0
              : !base->schema->args[i].has_default)
      return false;
  return true;
}

/* Find the operator that computes what `o` writes: add.Tensor of add_.Tensor, of add.out. */
static const op *functional_of(capture *c, const op *o)
{
  const schema *sc = o->schema;
  const size_t n = strlen(sc->name), n_overload = strlen(sc->overload);
  const uint32_t n_outs = outs_of(sc);
  const bool has_suffix = n_overload > 4 && strcmp(sc->overload + n_overload - 4, "_out") == 0;
  const str without = {sc->overload, has_suffix ? n_overload - 4 : n_overload};
  const str overloads[] = {without, STR(""), STR("Tensor"), STR("default")};

  if (o->base && (!n_outs || takes_the_same(o->base, sc, n_outs)))
    return o->base;
  if (!n_outs && n && sc->name[n - 1] == '_')
    return session_op_find(c->s, (str){sc->name, n - 1}, str_of(sc->overload));
  for (size_t i = 0; n_outs && i < COUNT_OF(overloads); i++) {
    const op *base = session_op_find(c->s, str_of(sc->name), overloads[i]);
    if (takes_the_same(base, sc, n_outs))
      return base;
  }
  return NULL;
}

/* Refuse a write of a value of other sizes: out= would change the tensor's sizes. */
static void check_sizes(capture *c, const op *o, const capture_tensor *to, rush_value made)
{
  const symshape_facts *a = &to->facts,
                       *b = &capture_tensor_of(c, made.as.tensor)->facts;
  bool same = a->n_dims == b->n_dims;

  for (int i = 0; same && i < a->n_dims; i++)
    same = sym_decide(c->env, sym_eq(c->env, a->sizes[i], b->sizes[i]));
  if (!same)
    capture_fail(c, "%s changes the sizes of its result that is given", o->schema->name);
}

/* Store a result in the tensor `to`, cast to its dtype. */
static void store_as(capture *c, rush_value to, rush_value made)
{
  const int dtype = capture_tensor_of(c, to.as.tensor)->facts.dtype;

  if (capture_tensor_of(c, made.as.tensor)->facts.dtype != dtype)
    made = call(c, "aten::to", "dtype",
                (const rush_value[]){made, value_int(dtype), value_bool(false), value_bool(false),
                                     value_none()});
  store(c, to, made);
}

static void check_input(capture *c, rush_value v)
{
  const capture_tensor *t = capture_tensor_of(c, v.as.tensor);

  if (t->node && t->node->op == FX_PLACEHOLDER && c->g != c->p->graph)
    capture_fail(c, "it writes to an input of a graph inside the program");
}

/* Evaluate an operator that writes its results to its last n_outs arguments; returns false if there
 * is none that returns them. */
static bool write_outs(capture *c, const op *o, const rush_value *args, uint32_t n_outs,
                       rush_value *results)
{
  const schema *sc = o->schema;
  const op *base = functional_of(c, o);
  const uint32_t n = sc->n_args - n_outs;
  const rush_value *outs = args + n;
  rush_value *made = session_array(c->s, rush_value, (size_t)n_outs + 1);

  if (!base || base->schema->n_returns != n_outs)
    return false;
  for (uint32_t i = 0; i < n_outs; i++)
    if (outs[i].tag != RUSH_TAG_TENSOR || !outs[i].as.tensor)
      return false;
  rush_value *given = session_array(c->s, rush_value, (size_t)base->schema->n_args + 1);
  for (uint32_t i = 0; i < base->schema->n_args; i++)
    given[i] = i < n ? args[i]
               : strcmp(base->schema->args[i].name, "dtype") == 0
                 ? value_int(capture_tensor_of(c, outs[0].as.tensor)->facts.dtype)
                 : base->schema->args[i].default_value;
  capture_op(c, base, given, made);
  for (uint32_t i = 0; i < n_outs; i++) {
    if (made[i].tag != RUSH_TAG_TENSOR)
      return false;
    check_input(c, outs[i]);
    check_sizes(c, o, capture_tensor_of(c, outs[i].as.tensor), made[i]);
    store_as(c, outs[i], made[i]);
    if (i < sc->n_returns)
      results[i] = outs[i];
  }
  return true;
}

void capture_write(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  const schema *sc = o->schema;
  const uint32_t n_outs = outs_of(sc);
  const op *base = functional_of(c, o);
  rush_value made;

  if (n_outs && write_outs(c, o, args, n_outs, results))
    return;
  results[0] = args[0];
  if (o->name_key == OPN_DETACH_)
    return;
  for (uint32_t i = 1; i < sc->n_args; i++)
    base = sc->args[i].is_write ? NULL : base;
  if (!base || base->schema->n_args != sc->n_args || base->schema->n_returns != 1 ||
      args[0].tag != RUSH_TAG_TENSOR || !args[0].as.tensor)
    capture_fail(c, "%s%s%s writes to an argument, and there is no form of it that does not",
                 sc->name, *sc->overload ? "." : "", sc->overload);
  check_input(c, args[0]);
  capture_op(c, base, args, &made);
  store_as(c, args[0], made);
}
