/* script/emit/special_forms.c -- compiles calls without a schema: annotate, range, zip, getattr,
 * list, dict, fork, print and others. Each form checks its own arguments, because they may be
 * types, names or other things that are not values. Iteration forms return sugared values that
 * loops unpack, so that zip or enumerate makes no container. */
#include <string.h>

#include "ops/call/lookup.h"
#include "script/emit/emit_int.h"

static const char *called_name(const ast_expr *x)
{
  const ast_expr *fn = x->as.call.fn;
  return fn->kind == EXPR_NAME ? fn->as.name : fn->kind == EXPR_ATTR ? fn->as.attr.name : "this";
}

/* Check positional arguments.  Keywords are ignored: PyTorch treats zip(a, b, strict=True) as
 * zip(a, b). */
static void check_positional(emitter *e, const ast_expr *x, uint32_t least, uint32_t most)
{
  uint32_t n = x->as.call.args.n;
  if (n < least || n > most)
    FAIL(e,
         most == UINT32_MAX || n < least ? "%s expected at least %u arguments, got %u"
                                         : "%s expected at most %u arguments, got %u",
         called_name(x), n < least ? least : most, n);
}

static void check_count(emitter *e, const ast_expr *x, uint32_t least, uint32_t most)
{
  if (x->as.call.n_keywords)
    FAIL(e, "%s doesn't accept any keyword arguments", called_name(x));
  check_positional(e, x, least, most);
}

static void check_exact(emitter *e, const ast_expr *x, const char *name, uint32_t n)
{
  if (x->as.call.args.n != n)
    FAIL(e, "%s expected exactly %u arguments but found %u", name, n, x->as.call.args.n);
  check_count(e, x, n, n);
}

static const ast_expr *arg(const ast_expr *x, uint32_t i) { return x->as.call.args.items[i]; }

/* -- Types ------------------------------------------------------------------------------------- */

static ir_value *emit_annotate(emitter *e, const ast_expr *x)
{
  check_count(e, x, 2, 2);
  const type *t = resolve_type(e->s, e->names, arg(x, 0));
  ir_value *v = em_convert(e, t, em_expr(e, arg(x, 1), t), true);
  bool forgot_optional = v->type->kind == TYPE_OPTIONAL && type_equal(v->type->elems[0], t);
  if (!em_is_subtype(e, v->type, t) && !forgot_optional)
    FAIL(e, "expected an expression of type %s but found %s", TYPE_TEXT(e, t), em_type_of(e, v));
  if (v->type->kind == TYPE_NONE && t->kind != TYPE_NONE) /* remember what the None is for */
    return em_constant_value(e, value_none(), t);
  if (t->kind == TYPE_ANY && v->type->kind != TYPE_ANY && e->names->is_eager)
    return em_unchecked_cast(e, v, t);
  return v;
}

static ir_value *emit_unchecked_cast(emitter *e, const ast_expr *x)
{
  check_count(e, x, 2, 2);
  const type *t = resolve_type(e->s, e->names, arg(x, 0));
  ir_value *v = em_expr(e, arg(x, 1), NULL);
  if (v->node->kind == IR_UNCHECKED_CAST && type_equal(v->type, t))
    return v;
  v = em_unchecked_cast(e, v, t);
  ir_attr_set_int(e->s, v->node, "_checked", 1); /* only the file claims it: checked when it runs */
  return v;
}

/* Compile `uninitialized`, which programs written by PyTorch never read, but others may: at run
 * time it is some value of the type. */
static ir_value *emit_uninitialized(emitter *e, const ast_expr *x)
{
  check_count(e, x, 1, 1);
  const type *t = resolve_type(e->s, e->names, arg(x, 0));
  if (!type_has_some_value(t))
    FAIL(e, "uninitialized(%s) is not supported", TYPE_TEXT(e, t));
  ir_value *v = em_put_node(e, IR_UNINITIALIZED, NULL, 0, t);
  ir_attr_set_int(e->s, v->node, "_checked", 1);
  return v;
}

static sugared emit_create_object(emitter *e, const ast_expr *x)
{
  check_count(e, x, 1, 1);
  sugared cls = em_sugared(e, arg(x, 0), NULL);
  if (cls.kind != SUGAR_CLASS || cls.as.type->kind != TYPE_CLASS)
    FAIL(e, "__new__ needs a class");
  return sugar_value(em_put_node(e, IR_CREATE_OBJECT, NULL, 0, cls.as.type));
}

/* -- Attributes -------------------------------------------------------------------------------- */

static sugared emit_getattr(emitter *e, const ast_expr *x)
{
  uint32_t n = x->as.call.args.n;
  if (n < 2 || n > 3)
    FAIL(e, "getattr expected to have number of arguments between 2 and 3 but found %u", n);
  check_count(e, x, 2, 3);
  if (arg(x, 1)->kind != EXPR_STRING)
    FAIL(e, "getattr's second argument must be a string literal");
  sugared base = em_sugared(e, arg(x, 0), NULL), out;
  const char *name = arg(x, 1)->as.string.data;
  if (n == 2)
    return em_get_attr(e, &base, name);
  em_check_has_attrs(e, &base, arg(x, 0)->at);
  if (em_try_get_attr(e, &base, name, &out))
    return out;
  return em_sugared(e, arg(x, 2), NULL);
}

/* -- Iteration --------------------------------------------------------------------------------- */

static sugared emit_range(emitter *e, const ast_expr *x)
{
  check_positional(e, x, 1, 3);
  ir_value *v[3] = {NULL, NULL, NULL};
  uint32_t n = x->as.call.args.n;
  for (uint32_t i = 0; i < n; i++) {
    v[i] = em_expr(e, arg(x, i), NULL);
    em_declare_unknown(v[i], type_simple(TYPE_INT));
    if (v[i]->type->kind != TYPE_INT)
      FAIL(e, "all inputs of range must be ints, found %s in argument %u", em_type_of(e, v[i]), i);
  }
  sugared out = {.kind = SUGAR_RANGE, .as.range = {NULL, v[0], NULL, -1}};
  if (n == 1)
    e->g->next_id += 2; /* PyTorch makes the constants 0 and 1, which have no use */
  if (n > 1) {
    out.as.range.start = v[0];
    out.as.range.end = v[1];
    out.as.range.step = v[2] ? v[2] : em_constant_int(e, 1);
  }
  return out;
}

static sugared emit_slice_call(emitter *e, const ast_expr *x)
{
  sugared out = {.kind = SUGAR_SLICE};
  uint32_t n = x->as.call.args.n;
  if (x->as.call.n_keywords)
    session_fail(e->s, &x->as.call.fn->at, "Slice does not accept any keyword arguments");
  if (n < 1 || n > 3)
    session_fail(e->s, &x->as.call.fn->at, "slice accepts exactly 1, 2 or 3 arguments, got: %u", n);
  for (uint32_t i = 0; i < n; i++)
    out.as.slice.bounds[n == 1 ? 1 : i] = em_expr(e, arg(x, i), NULL);
  return out;
}

static sugared iteration(emitter *e, const sugared *items, uint32_t n)
{
  sugared out = {.kind = SUGAR_ITERATION};
  out.as.items.items = session_array(e->s, sugared, n);
  out.as.items.n = n;
  memcpy(out.as.items.items, items, n * sizeof *items);
  for (uint32_t i = 0; em_is_unrolled(e, &out) && i < n; i++)
    if (em_static_len(e, &items[i]) < 0)
      FAIL(e, "Can not iterate over a module list or tuple with a value that does not have a "
              "statically determinable length\n");
  return out;
}

static sugared emit_zip(emitter *e, const ast_expr *x)
{
  uint32_t n = x->as.call.args.n;
  check_positional(e, x, 1, UINT32_MAX);
  sugared *items = session_array(e->s, sugared, n);
  for (uint32_t i = 0; i < n; i++) {
    sugared v = em_sugared(e, arg(x, i), NULL);
    items[i] = em_iterate(e, &v);
  }
  return iteration(e, items, n);
}

static sugared emit_enumerate(emitter *e, const ast_expr *x)
{
  const ast_expr *start = x->as.call.args.n > 1 ? arg(x, 1) : NULL;
  check_positional(e, x, 1, 2);
  if (x->as.call.n_keywords == 1 && !start && strcmp(x->as.call.keywords[0].name, "start") == 0)
    start = x->as.call.keywords[0].value;
  else if (x->as.call.n_keywords && x->as.call.args.n == 1)
    FAIL(e, "enumerate expected kwarg name 'start', got '%s'", x->as.call.keywords[0].name);
  else
    check_count(e, x, 1, 2);
  sugared v = em_sugared(e, arg(x, 0), NULL), items[2];
  ir_value *first = start ? em_expr(e, start, NULL) : NULL;
  items[1] = em_iterate(e, &v);
  items[0] = (sugared){.kind = SUGAR_RANGE};
  items[0].as.range.end = em_literal_number(e, value_int(INT64_MAX), type_simple(TYPE_INT));
  items[0].as.range.start = first;
  items[0].as.range.step = first ? em_constant_int(e, 1) : NULL;
  items[0].as.range.static_len = em_static_len(e, &items[1]);
  return iteration(e, items, 2);
}

/* -- Containers -------------------------------------------------------------------------------- */

static sugared emit_tuple_call(emitter *e, const ast_expr *x)
{
  check_exact(e, x, "tuple", 1);
  sugared v = em_sugared(e, arg(x, 0), NULL), out = {.kind = SUGAR_TUPLE};
  out.as.items.n = em_as_items(e, &v, 0, &out.as.items.items);
  return sugar_value(em_as_value(e, &out));
}

static void append_item(emitter *e, void *list)
{
  ir_value *in[2] = {list, NULL};
  sugared item;
  em_get_var(e, "$item", &item);
  in[1] = em_as_value(e, &item);
  if (in[0]->node->n_inputs == 0 && em_is_empty_list_literal(in[0])) {
    in[0]->type = em_list_of(e, in[1]->type);
    in[0]->node->attrs = NULL; /* typed now */
  }
  em_call_op(e, "aten::append", in, 2);
}

/* Make a list of everything that iterating over v yields. */
static ir_value *listed(emitter *e, const sugared *v, source_range at)
{
  ast_expr empty = {.kind = EXPR_LIST, .op = OP_NONE, .at = at};
  ast_expr *target = session_new(e->s, ast_expr);
  *target = (ast_expr){.kind = EXPR_NAME, .op = OP_NONE, .at = at, .as.name = "$item"};
  ir_value *list = em_literal(e, &empty, NULL);
  sugared it = em_iterate(e, v);
  em_push_frame(e, e->frame->block);
  bool fresh = e->fresh_names;
  e->n_scopes++;
  e->fresh_names = true;
  em_loop(e, &it, target, append_item, list);
  e->fresh_names = fresh;
  em_pop_frame(e);
  return list;
}

/* Compile list(x): a copy, or a list of everything that iterating over x yields. */
static sugared emit_list_call(emitter *e, const ast_expr *x, const type *hint)
{
  if (x->as.call.args.n > 1)
    check_exact(e, x, "list", 1);
  check_count(e, x, 0, 1);
  if (e->names->is_eager && hint && !em_display_hint(e, x, hint, TYPE_LIST).n)
    FAIL(e, "Expected list type annotation for list(), found %s", TYPE_TEXT(e, hint));
  if (x->as.call.args.n == 0) {
    ast_expr empty = {.kind = EXPR_LIST, .op = OP_NONE, .at = x->at};
    return sugar_value(em_literal(e, &empty, hint));
  }
  sugared v = em_sugared(e, arg(x, 0), NULL);
  if (v.kind == SUGAR_VALUE &&
      (v.as.value->type->kind == TYPE_LIST || v.as.value->type->kind == TYPE_STRING))
    return sugar_value(em_call_op(e, "aten::list", &v.as.value, 1));
  return sugar_value(listed(e, &v, x->at));
}

/* Return a keyword as a string literal. */
static ast_expr *keyword_as_key(emitter *e, const ast_keyword *k)
{
  ast_expr *key = session_new(e->s, ast_expr);
  *key = (ast_expr){.kind = EXPR_STRING, .op = OP_NONE, .at = k->at};
  key->as.string.data = k->name;
  key->as.string.len = strlen(k->name);
  return key;
}

static bool is_pair(const ast_expr *x)
{
  return (x->kind == EXPR_TUPLE || x->kind == EXPR_LIST) && x->as.items.n == 2;
}

/* Collect keys and values written in the source: those of a dict, or of pairs in a list or a tuple.
 * Returns false if x is none of these. */
static bool written_pairs(emitter *e, const ast_expr *x, ast_expr *dict)
{
  if (x->kind == EXPR_DICT) {
    dict->as.dict.keys = x->as.dict.keys;
    dict->as.dict.values = x->as.dict.values;
    return true;
  }
  if (x->kind != EXPR_LIST && x->kind != EXPR_TUPLE)
    return false;
  uint32_t n = x->as.items.n;
  for (uint32_t i = 0; i < n; i++)
    if (!is_pair(x->as.items.items[i]))
      return false;
  dict->as.dict.keys = (ast_exprs){session_array(e->s, ast_expr *, n), n};
  dict->as.dict.values = (ast_exprs){session_array(e->s, ast_expr *, n), n};
  for (uint32_t i = 0; i < n; i++) {
    dict->as.dict.keys.items[i] = x->as.items.items[i]->as.items.items[0];
    dict->as.dict.values.items[i] = x->as.items.items[i]->as.items.items[1];
  }
  return true;
}

/* True for dict(zip(a, b)), which is {k: v for k, v in zip(a, b)} in PyTorch: errors refer to that
 * form. */
static bool is_made_of_pairs(const ast_expr *x)
{
  const ast_expr *fn = x->kind == EXPR_CALL ? x->as.call.fn : NULL;
  return fn && fn->kind == EXPR_NAME &&
         (strcmp(fn->as.name, "zip") == 0 || strcmp(fn->as.name, "enumerate") == 0);
}

static ir_value *dict_of_pairs(emitter *e, const ast_expr *x, const type *hint)
{
  ast_expr *names = session_array(e->s, ast_expr, 2), **both = session_array(e->s, ast_expr *, 2);
  for (int i = 0; i < 2; i++) {
    names[i] =
      (ast_expr){.kind = EXPR_NAME, .op = OP_NONE, .at = x->at, .as.name = i ? "$value" : "$key"};
    both[i] = &names[i];
  }
  ast_expr target = {.kind = EXPR_TUPLE, .op = OP_NONE, .at = x->at, .as.items = {both, 2}};
  ast_comp each = {.target = &target, .iter = (ast_expr *)(uintptr_t)x};
  ast_expr comp = {.kind = EXPR_DICT_COMP,
                   .op = OP_NONE,
                   .at = x->at,
                   .as.comp = {&names[0], &names[1], &each, 1}};
  return em_dict_comp(e, &comp, hint);
}

/* Add the keywords to the items of `dict`. */
static void add_keywords(emitter *e, const ast_expr *x, ast_expr *dict)
{
  uint32_t have = dict->as.dict.keys.n, n = have + x->as.call.n_keywords;
  ast_expr **keys = session_array(e->s, ast_expr *, n),
           **values = session_array(e->s, ast_expr *, n);
  if (have) {
    memcpy(keys, dict->as.dict.keys.items, have * sizeof *keys);
    memcpy(values, dict->as.dict.values.items, have * sizeof *values);
  }
  for (uint32_t i = have; i < n; i++) {
    keys[i] = keyword_as_key(e, &x->as.call.keywords[i - have]);
    values[i] = x->as.call.keywords[i - have].value;
  }
  dict->as.dict.keys = (ast_exprs){keys, n};
  dict->as.dict.values = (ast_exprs){values, n};
}

static ir_value *copied_dict(emitter *e, const ast_expr *x, const type *hint)
{
  sugared pairs = em_sugared(e, arg(x, 0), hint);
  ir_value *v = pairs.kind == SUGAR_ITERATION ? listed(e, &pairs, x->at) : em_as_value(e, &pairs);
  return em_call_op(e, "aten::dict", &v, 1);
}

/* Check that the annotation of dict(...) contains one Dict. */
static void check_dict_hint(emitter *e, const ast_expr *x, const type *hint)
{
  if (!hint || !e->names->is_eager)
    return;
  display_hint h = em_display_hint(e, x, hint, TYPE_DICT);
  if (h.n > 1)
    FAIL(e,
         "There are multiple candidate Dict types in the Union type annotation `%s`, and full type "
         "inference is not yet supported "
         "for the `dict()` constructor.",
         TYPE_TEXT(e, hint));
  if (!h.n)
    FAIL(e, "Expected a type annotation of Dict for dict constructor dict(), got %s",
         TYPE_TEXT(e, hint));
}

/* Compile dict(), dict(pairs), dict(a=1), dict(other, a=1). */
static sugared emit_dict_call(emitter *e, const ast_expr *x, const type *hint)
{
  uint32_t n = x->as.call.n_keywords;
  ast_expr dict = {.kind = EXPR_DICT, .op = OP_NONE, .at = x->at};
  if (x->as.call.args.n > 1)
    FAIL(e, "dict expected at most 1 arguments, got %u", x->as.call.args.n);
  check_dict_hint(e, x, hint);
  if (x->as.call.args.n && !written_pairs(e, arg(x, 0), &dict)) {
    ir_value *v =
      is_made_of_pairs(arg(x, 0)) ? dict_of_pairs(e, arg(x, 0), hint) : copied_dict(e, x, hint);
    for (uint32_t i = 0; i < n; i++) {
      const ast_keyword *k = &x->as.call.keywords[i];
      ir_value *in[3] = {v, em_expr(e, keyword_as_key(e, k), NULL), em_expr(e, k->value, NULL)};
      em_call_op(e, "aten::_set_item", in, 3);
    }
    return sugar_value(v);
  }
  add_keywords(e, x, &dict);
  return sugar_value(em_literal(e, &dict, hint));
}

ir_value *em_tolist(emitter *e, ir_value *self, const ast_expr *x, const type *hint)
{
  static const type_kind kinds[] = {TYPE_INT, TYPE_FLOAT, TYPE_BOOL,
                                    TYPE_COMPLEX}; /* the operator's numbers for them */
  check_count(e, x, 0, 0);
  if (!hint)
    FAIL(e, "Expected type hint for result of tolist()");
  int64_t dims = 0;
  const type *elem = hint;
  for (; elem->kind == TYPE_LIST; elem = elem->elems[0])
    dims++;
  size_t k = 0;
  while (k < COUNT_OF(kinds) && kinds[k] != elem->kind)
    k++;
  const op *o = session_op_find(e->s, STR("prim::tolist"), STR(""));
  if (k == COUNT_OF(kinds) || !o)
    FAIL(e, "%s is not one of the supported element types for tolist: int, float, complex, bool",
         TYPE_TEXT(e, elem));
  ir_value *in[3] = {self, em_constant_int(e, dims), em_constant_int(e, (int64_t)k)};
  ir_node *n = em_put(e, ir_node_new_op(e->s, e->g, o, in, 3));
  return ir_node_add_output(e->s, n, hint);
}

/* -- Tasks and effects ------------------------------------------------------------------------- */

/* Compile fork(f, args): the call becomes the body of a closure, which passes/closures.c makes a
 * function. */
static sugared emit_fork(emitter *e, const ast_expr *x, bool awaits)
{
  if (x->as.call.args.n == 0)
    FAIL(e, "Expected at least one argument to fork()");
  sugared fn = em_sugared(e, arg(x, 0), NULL);
  ir_node *closure = fn.kind == SUGAR_CLOSURE ? fn.as.node : NULL;
  if (!closure) {
    ast_expr call = *x;
    call.as.call.args.items++;
    call.as.call.args.n--;
    call_args a = {.args = session_array(e->s, ir_value *, call.as.call.args.n)};
    for (uint32_t i = 0; i < call.as.call.args.n; i++)
      a.args[a.n++] = em_expr(e, call.as.call.args.items[i], NULL);
    a.kwargs = session_array(e->s, named_value, call.as.call.n_keywords);
    for (uint32_t i = 0; i < call.as.call.n_keywords; i++)
      a.kwargs[a.n_kwargs++] = (named_value){call.as.call.keywords[i].name,
                                             em_expr(e, call.as.call.keywords[i].value, NULL),
                                             call.as.call.keywords[i].at};
    closure = em_put(e, ir_node_new(e->s, e->g, IR_CLOSURE, NULL, 0));
    ir_block *b = ir_node_add_block(e->s, closure);
    ir_node *old = em_begin_at(e, b);
    em_push_frame(e, b)->is_function = true;
    sugared out = em_call_sugared(e, &fn, &a, NULL);
    ir_value *v = em_as_value(e, &out);
    ir_block_add_output(e->s, b, v);
    em_pop_frame(e);
    e->before = old;
    ir_node_add_output(e->s, closure, v->type);
  }
  ir_node *n =
    em_put(e, ir_node_new(e->s, e->g, awaits ? IR_AWAITABLE : IR_FORK, closure->outputs, 1));
  const type *t =
    type_generic(&e->p->types, awaits ? TYPE_AWAIT : TYPE_FUTURE, closure->outputs[0]->type);
  if (!t)
    session_check(e->s, call_nomem(e->s->cx));
  return sugar_value(ir_node_add_output(e->s, n, t));
}

static sugared emit_print(emitter *e, const ast_expr *x)
{
  uint32_t n = x->as.call.args.n;
  if (x->as.call.n_keywords)
    session_fail(e->s, &x->as.call.fn->at, "print doesn't accept any keyword arguments");
  ir_value **in = session_array(e->s, ir_value *, n);
  for (uint32_t i = 0; i < n; i++)
    in[i] = em_expr(e, arg(x, i), NULL);
  em_put_node(e, IR_PRINT, in, n, NULL);
  return sugar_value(em_constant_none(e));
}

sugared em_special(emitter *e, special_form form, const ast_expr *x, const type *hint)
{
  condition c;
  switch (form) {
  case SPECIAL_ANNOTATE:
    return sugar_value(emit_annotate(e, x));
  case SPECIAL_UNCHECKED_CAST:
    return sugar_value(emit_unchecked_cast(e, x));
  case SPECIAL_UNINITIALIZED:
    return sugar_value(emit_uninitialized(e, x));
  case SPECIAL_ISINSTANCE: case SPECIAL_HASATTR:
    c = em_cond(e, x);
    return sugar_value(em_cond_value(e, &c));
  case SPECIAL_GETATTR:
    return emit_getattr(e, x);
  case SPECIAL_FORK:
  case SPECIAL_AWAITABLE: /* our tasks wait until someone waits for them, as awaitables do */
    return emit_fork(e, x, form == SPECIAL_AWAITABLE);
  case SPECIAL_TUPLE:
    return emit_tuple_call(e, x);
  case SPECIAL_LIST:
    return emit_list_call(e, x, hint);
  case SPECIAL_DICT:
    return emit_dict_call(e, x, hint);
  case SPECIAL_RANGE:
    return emit_range(e, x);
  case SPECIAL_SLICE:
    return emit_slice_call(e, x);
  case SPECIAL_ZIP:
    return emit_zip(e, x);
  case SPECIAL_ENUMERATE:
    return emit_enumerate(e, x);
  case SPECIAL_PRINT:
    return emit_print(e, x);
  case SPECIAL_CREATE_OBJECT:
    return emit_create_object(e, x);
  case SPECIAL_IS_SCRIPTING:
    return sugar_value(em_constant_bool(e, true));
  case SPECIAL_IS_TRACING:
    return sugar_value(em_constant_bool(e, false));
  case SPECIAL_SUPER:
    FAIL(e, "super() is not supported in TorchScript");
  }
  FAIL(e, "this call is not supported");
}
