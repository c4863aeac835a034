/* script/emit/function.c -- compiles a whole function: constant default values, the signature from
 * annotations, parameters, body, then the passes that lower variables and early exits. A signature
 * can be declared without the body, because loading needs only signatures and bodies are compiled
 * when they are first called. Defaults are evaluated by a small evaluator of constant expressions,
 * never by running code. */
#include "script/emit/emit.h"

#include <math.h>
#include <string.h>

#include "base/trail.h"
#include "ops/call/lookup.h"
#include "passes/passes.h"
#include "script/emit/emit_int.h"

/* -- Default values ---------------------------------------------------------------------------- */

static void release_value(void *heap_part)
{
  heap *h = heap_part;
  value_release(value_heap_steal(h->kind, h));
}

/* Release a new value with the session unless it is kept. */
static rush_value held(session *s, rush_value v)
{
  if (value_is_heap(v))
    session_defer(s, release_value, v.as.heap);
  return v;
}

static rush_value constant_list(session *s, const resolver *r, const ast_expr *x, const type *t)
{
  const type *list = type_container_in(t, TYPE_LIST),
             *elem = list ? list->elems[0] : type_simple(TYPE_ANY);
  rush_list *l;
  session_check(s, list_new(s->cx, elem, x->as.items.n, &l));
  rush_value v = held(s, value_heap_steal(RUSH_TAG_LIST, l));
  for (uint32_t i = 0; i < x->as.items.n; i++) {
    rush_value item = em_constant_of_type(s, r, x->as.items.items[i], elem);
    session_check(s, list_append_steal(s->cx, l, value_retain(item)));
  }
  return v;
}

static rush_value constant_tuple(session *s, const resolver *r, const ast_expr *x, const type *t)
{
  const type *of = type_container_in(t, TYPE_TUPLE);
  if (!of && type_container_in(t, TYPE_LIST))
    return constant_list(s, r, x, t);
  rush_tuple *tuple;
  session_check(s, tuple_new(s->cx, NULL, x->as.items.n, &tuple));
  rush_value v = held(s, value_heap_steal(RUSH_TAG_TUPLE, tuple));
  for (uint32_t i = 0; i < x->as.items.n; i++) {
    const type *elem = of && i < of->n_elems ? of->elems[i] : type_simple(TYPE_ANY);
    tuple->items[i] = value_retain(em_constant_of_type(s, r, x->as.items.items[i], elem));
  }
  return v;
}

static rush_value constant_dict(session *s, const resolver *r, const ast_expr *x, const type *t)
{
  const type *any = type_simple(TYPE_ANY);
  const type *dict = type_container_in(t, TYPE_DICT);
  const type *key = dict ? dict->elems[0] : any, *value = dict ? dict->elems[1] : any;
  rush_dict *d;
  session_check(s, dict_new(s->cx, key, value, &d));
  rush_value v = held(s, value_heap_steal(RUSH_TAG_DICT, d));
  for (uint32_t i = 0; i < x->as.dict.keys.n; i++) {
    rush_value k = em_constant_of_type(s, r, x->as.dict.keys.items[i], key);
    rush_value item = em_constant_of_type(s, r, x->as.dict.values.items[i], value);
    session_check(s, dict_set_steal(s->cx, d, value_retain(k), value_retain(item)));
  }
  return v;
}

static rush_value constant_named(session *s, const resolver *r, const ast_expr *x)
{
  sugared base, v;
  if (x->kind == EXPR_NAME) {
    if (strcmp(x->as.name, "inf") == 0)
      return value_float(INFINITY);
    if (strcmp(x->as.name, "nan") == 0)
      return value_float(NAN);
    if (r->value(s, r, x->as.name, x->at, &v) && v.kind == SUGAR_CONSTANT)
      return v.as.constant.value;
  } else if (x->as.attr.base->kind == EXPR_NAME &&
             strcmp(x->as.attr.base->as.name, "CONSTANTS") == 0) {
    unsigned long i = 0;
    for (const char *p = x->as.attr.name + 1; *p >= '0' && *p <= '9' && i < UINT32_MAX; p++)
      i = i * 10 + (unsigned long)(*p - '0');
    if (i < r->program->n_constants)
      return r->program->constants[i];
  } else if (em_constant_path(s, r, x->as.attr.base, &base) && base.kind == SUGAR_ENUM) {
    class_complete(s, base.as.type);
    for (uint32_t i = 0; i < base.as.type->cls->n_members; i++)
      if (strcmp(base.as.type->cls->enum_names[i], x->as.attr.name) == 0)
        return base.as.type->cls->enum_members[i];
  } else if (em_constant_path(s, r, x, &v) && v.kind == SUGAR_CONSTANT) {
    return v.as.constant.value;
  }
  session_fail(s, &x->at, "this is not a constant");
}

bool em_constant_path(session *s, const resolver *r, const ast_expr *x, sugared *out)
{
  if (x->kind == EXPR_NAME)
    return r->value(s, r, x->as.name, x->at, out);
  sugared base;
  return x->kind == EXPR_ATTR && em_constant_path(s, r, x->as.attr.base, &base) && r->attr &&
         (base.kind == SUGAR_SPACE || base.kind == SUGAR_TORCH || base.kind == SUGAR_HOST_OBJECT) &&
         r->attr(s, r, &base, x->as.attr.name, x->at, out);
}

static rush_value constant_number(session *s, const resolver *r, const ast_expr *x, const type *t)
{
  rush_value v = em_evaluate_constant(s, r, x->as.pair.left, t);
  if (x->op == OP_NEG && v.tag == RUSH_TAG_INT)
    return value_int((int64_t)(0 - (uint64_t)v.as.i));
  if (x->op == OP_NEG && v.tag == RUSH_TAG_FLOAT)
    return value_float(-v.as.d);
  session_fail(s, &x->at, "this is not a constant");
}

/* Evaluate torch.device("cpu"), annotate(T, x). */
static rush_value constant_call(session *s, const resolver *r, const ast_expr *x)
{
  const ast_expr *fn = x->as.call.fn;
  const char *name = fn->kind == EXPR_NAME   ? fn->as.name
                     : fn->kind == EXPR_ATTR ? fn->as.attr.name
                                             : "";
  if (strcmp(name, "annotate") == 0 && x->as.call.args.n == 2)
    return em_evaluate_constant(s, r, x->as.call.args.items[1],
                                resolve_type(s, r, x->as.call.args.items[0]));
  if (strcmp(name, "device") == 0 && x->as.call.args.n >= 1) {
    rush_value text =
                 em_evaluate_constant(s, r, x->as.call.args.items[0], type_simple(TYPE_STRING)),
               out;
    const op *o = session_op_find(s, STR("aten::device"), STR(""));
    if (o && text.tag == RUSH_TAG_STRING) {
      session_check(s, op_invoke(s->cx, o, &text, 1, &out, 1));
      return held(s, out);
    }
  }
  session_fail(s, &x->at, "this is not a constant");
}

/* Evaluate 1.5-2.j. */
static rush_value constant_complex(session *s, const resolver *r, const ast_expr *x)
{
  rush_value re = em_evaluate_constant(s, r, x->as.pair.left, type_simple(TYPE_FLOAT)), out;
  rush_value im = em_evaluate_constant(s, r, x->as.pair.right, type_simple(TYPE_COMPLEX));
  if ((x->op != OP_ADD && x->op != OP_SUB) || re.tag != RUSH_TAG_FLOAT ||
      im.tag != RUSH_TAG_COMPLEX)
    session_fail(s, &x->at, "this is not a constant");
  const double by = value_complex(im)->im, at = value_complex(im)->re;
  session_check(s, complex_new(s->cx, x->op == OP_ADD ? re.as.d + at : re.as.d - at,
                               x->op == OP_ADD ? by : -by, &out));
  return held(s, out);
}

rush_value em_evaluate_constant(session *s, const resolver *r, const ast_expr *x, const type *t)
{
  rush_value v;
  t = em_unwrap_optional(t);
  session_enter(s);
  switch (x->kind) {
  case EXPR_INT:
    v = t->kind == TYPE_FLOAT ? value_float((double)x->as.integer) : value_int(x->as.integer);
    break;
  case EXPR_FLOAT:
    v = value_float(x->as.number);
    break;
  case EXPR_IMAG:
    session_check(s, complex_new(s->cx, 0, x->as.number, &v));
    held(s, v);
    break;
  case EXPR_STRING:
    session_check(s, string_new(s->cx, x->as.string.data, x->as.string.len, &v));
    held(s, v);
    break;
  case EXPR_TRUE:
    v = value_bool(true);
    break;
  case EXPR_FALSE:
    v = value_bool(false);
    break;
  case EXPR_NONE:
    v = value_none();
    break;
  case EXPR_LIST:
    v = constant_list(s, r, x, t);
    break;
  case EXPR_TUPLE:
    v = constant_tuple(s, r, x, t);
    break;
  case EXPR_DICT:
    v = constant_dict(s, r, x, t);
    break;
  case EXPR_UNARY:
    v = constant_number(s, r, x, t);
    break;
  case EXPR_BINARY:
    v = constant_complex(s, r, x);
    break;
  case EXPR_CALL:
    v = constant_call(s, r, x);
    break;
  case EXPR_NAME: case EXPR_ATTR:
    v = constant_named(s, r, x);
    break;
  default:
    session_fail(s, &x->at, "this is not a constant");
  }
  session_leave(s);
  return v;
}

/* Refuse a constant of another type: compiled code relies on types. */
rush_value em_constant_of_type(session *s, const resolver *r, const ast_expr *x, const type *t)
{
  rush_value v = em_evaluate_constant(s, r, x, t);
  if (!type_contains_value(t, v))
    session_fail(s, &x->at, "expected a value of type %s", type_text(s, t));
  return v;
}

/* -- Signatures -------------------------------------------------------------------------------- */

static const char *keep_text(session *s, program *p, const char *text)
{
  char *copy = session_alloc_in(s, &p->mem, strlen(text) + 1);
  memcpy(copy, text, strlen(text));
  return copy;
}

/* Return the n of an annotation BroadcastingListN[...], also an optional one; else 0. */
static int32_t broadcast_length(const ast_expr *x)
{
  static const char name[] = "BroadcastingList";
  while (x && x->kind == EXPR_SUBSCRIPT && x->as.subscript.index.n == 1) {
    const ast_expr *base = x->as.subscript.base;
    const char *text = base->kind == EXPR_NAME   ? base->as.name
                       : base->kind == EXPR_ATTR ? base->as.attr.name
                                                 : "";
    size_t len = strlen(text);
    if (len == sizeof name && memcmp(text, name, sizeof name - 1) == 0 && text[len - 1] >= '1' &&
        text[len - 1] <= '9')
      return text[len - 1] - '0';
    if (strcmp(text, "Optional") != 0)
      return 0;
    x = x->as.subscript.index.items[0];
  }
  return 0;
}

/* Get the default from the host; returns false if the text's is used. */
static bool live_default(session *s, const resolver *r, const ast_param *param, schema_arg *out)
{
  const type *t = out->fixed_len ? type_simple(TYPE_ANY)
                                 : out->type; /* of a list that may be written as one number */
  bool fits = false;
  rush_value v;
  if (!r->default_value || !r->default_value(s, r, param->name, t, param->default_value->at, &v))
    return false;
  if (t == out->type || v.tag == RUSH_TAG_UNSET) {
    out->default_value = v;
    return true;
  }
  held(s, v);
  rush_list *l;
  if (v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_FLOAT) {
    session_check(
      s, list_new(s->cx, em_unwrap_optional(out->type)->elems[0], (size_t)out->fixed_len, &l));
    rush_value list = value_heap_steal(RUSH_TAG_LIST, l);
    for (int32_t i = 0; i < out->fixed_len; i++)
      l->items[l->n++] = v;
    out->default_value = list;
    return true;
  }
  session_check(s, value_bind(s->cx, out->type, v, &fits, &out->default_value));
  if (!fits)
    session_fail(s, &param->at, "Expected a default value of type %s on parameter \"%s\".",
                 type_text(s, out->type), param->name);
  return true;
}

static const char varargs[] = "Compiled functions can't take variable number of arguments or use "
                              "keyword-only arguments with defaults";

/* Refuse another annotation of self: callers from outside (the host, hooks, `with`, pickles,
 * interfaces) pass an object of the method's class.  PyTorch ignores the annotation. */
static void check_self(session *s, const function *f, const ast_param *param, const resolver *r)
{
  const type *t = param->type ? resolve_type(s, r, param->type) : f->self;
  if (!type_equal(t, f->self))
    session_fail(
      s, &param->at,
      "'%s' of method '%s' is annotated as %s: it is an object of the method's class, %s",
      param->name, f->name, type_text(s, t), type_text(s, f->self));
}

static void declare_param(session *s, function *f, const ast_param *param, const resolver *r,
                          schema_arg *out, bool is_self)
{
  out->name = keep_text(s, f->program, param->name);
  out->kwarg_only = param->keyword_only;
  if (param->form != PARAM_PLAIN)
    session_fail_status(s, RUSH_ERAISED, NOT_SUPPORTED, &param->at, "%s", varargs);
  out->fixed_len = broadcast_length(param->type);
  out->is_inferred = !is_self && !param->type;
  if (is_self && !r->is_eager)
    check_self(s, f, param, r);
  if (is_self)
    out->type = f->self;
  else
    out->type = param->type ? resolve_type(s, r, param->type) : type_simple(TYPE_TENSOR);
  if (!param->default_value)
    return;
  if (param->keyword_only && r->is_live)
    session_fail_status(s, RUSH_ERAISED, NOT_SUPPORTED, &param->default_value->at, "%s", varargs);
  if (!live_default(s, r, param, out))
    out->default_value = value_retain(em_evaluate_constant(s, r, param->default_value, out->type));
  out->has_default = out->default_value.tag != RUSH_TAG_UNSET;
  if (out->has_default && !type_contains_value(out->type, out->default_value)) {
    value_release(out->default_value); /* not yet among the schema's */
    out->has_default = false;
    session_fail(s, &param->default_value->at,
                 "Expected a default value of type %s%s on parameter \"%s\".%s%s%s",
                 type_text(s, out->type), out->is_inferred ? " (inferred)" : "", param->name,
                 out->is_inferred ? "Because \"" : "", out->is_inferred ? param->name : "",
                 out->is_inferred
                   ? "\" was not annotated with an explicit type it is assumed to be type 'Tensor'."
                   : "");
  }
}

static void free_names(void *names) { table_free(names); }

/* Refuse two parameters of one name, which would be one variable with two types. */
static void check_names(session *s, const ast_def *def)
{
  table *names = session_new(s, table);
  table_init(names, s->cx->ctx);
  session_defer(s, free_names, names);
  for (uint32_t i = 0; i < def->n_params; i++) {
    const ast_param *p = &def->params[i];
    if (table_get(names, str_of(p->name)))
      session_fail(s, &p->at, "duplicate argument '%s' in function definition", p->name);
    session_table_put(s, names, str_of(p->name), (void *)(uintptr_t)p);
  }
}

/* Return the result type of __getstate__, which __setstate__(self, state) without annotations
 * takes. */
static const type *derived_state(session *s, const function *f, const ast_def *def)
{
  if (!f->self || f->self->kind != TYPE_CLASS || strcmp(f->name, "__setstate__") != 0)
    return NULL;
  for (uint32_t i = 1; i < def->n_params; i++)
    if (def->params[i].type)
      return NULL;
  if (def->n_params != 2)
    session_fail(s, &def->at, "Expected 2 arguments for `__setstate__`, got: %u", def->n_params);
  function *get = class_find_method(f->self, "__getstate__");
  if (!get)
    session_fail(s, &def->at,
                 "`__setstate__` defined but not `__getstate__`. You must have both defined on a "
                 "ScriptModule to "
                 "customize serialization.\nDid you forget to use `@torch.jit.export`?");
  function_ensure(s, get);
  return get->schema->returns[0].type;
}

void script_declare_function(session *s, function *f, const ast_def *def, const resolver *r)
{
  schema *sc = session_alloc_in(s, &f->program->mem, sizeof *sc);
  sc->name = f->name;
  sc->overload = "";
  sc->args = session_alloc_in(s, &f->program->mem, def->n_params * sizeof *sc->args);
  sc->returns = session_alloc_in(s, &f->program->mem, sizeof *sc->returns);
  sc->n_returns = 1;
  sc->returns[0].name = "";
  function_begin_schema(s, f, sc); /* from here on the program releases the defaults */
  if (r->is_eager)
    em_refuse_params(s, def, !r->is_string);
  if (def->n_params > 1)
    check_names(s, def);
  bool method = f->self && !f->is_static;
  const type *state = method && r->is_live ? derived_state(s, f, def) : NULL;
  if (method && def->n_params == 0)
    session_fail(s, &def->at, "methods must have a self argument");
  for (uint32_t i = 0; i < def->n_params; i++) {
    declare_param(s, f, &def->params[i], r, &sc->args[i], method && i == 0);
    if (i == 1 && state)
      sc->args[i].type = state;
    sc->n_args = i + 1;
  }
  if (def->returns)
    sc->returns[0].type = resolve_type(s, r, def->returns);
  else if (f->self && f->self->kind == TYPE_INTERFACE) /* there is no body to infer from */
    session_fail(s, &def->at, "interface declarations must have a return type annotated.");
  session_keep(s, f);
}

/* -- Bodies ------------------------------------------------------------------------------------ */

static void emit_params(emitter *e, const ast_def *def)
{
  for (uint32_t i = 0; i < def->n_params; i++) {
    e->at = def->params[i].at;
    if (i >=
        e->f->schema
          ->n_args) /* the declaration of an overload replaces the function's own signature */
      FAIL(e,
           "Parameters not specified on the overloaded declaration must have a type annotation in "
           "the implementation "
           "function. Did not find type for param %s",
           def->params[i].name);
    const schema_arg *a = &e->f->schema->args[i];
    ir_value *v = ir_block_add_input(e->s, e->g->block, a->type, a->name);
    if (i == 0 && e->f->is_class_method) {
      em_set_var(e, def->params[i].name, (sugared){.kind = SUGAR_CLASS, .as.type = e->f->self},
                 NULL);
      continue;
    }
    if (i == 0 && e->names->is_eager && a->type == e->f->self && a->type->cls &&
        a->type->cls->is_module)
      em_set_self(e, def->params[i].name, v);
    else
      em_set_var(e, def->params[i].name, sugar_value(v), a->type);
  }
}

void script_emit_function(session *s, function *f, const ast_def *def, const resolver *r)
{
  ir_graph *g = ir_graph_new(s, &f->program->types);
  session_defer(s, ir_graph_free_deferred, g);
  return_info ret = {.declared = f->schema->returns[0].type};
  emitter e = {.s = s,
               .f = f,
               .p = f->program,
               .g = g,
               .names = r,
               .ret = &ret,
               .at = def->at,
               .compiling = def->at};
  e.memo = session_new(s, emit_memo);
  e.literals = session_new(s, table);
  session_table_init(s, e.literals);
  const char *owner = f->self && f->self->name ? strrchr(f->self->name, '.') : NULL;
  trail why = {.name = owner ? session_printf(s, "%s.%s", owner + 1, f->name) : f->name,
               .at = &e.compiling};
  session_push_trail(s, &why);
  e.before = g->block->ret;
  em_push_frame(&e, g->block)->is_function = true;
  if (r->is_eager)
    em_refuse_body(s, def);
  emit_params(&e, def);
  em_block(&e, &def->body);
  em_finish_return(&e, def);
  if (!f->schema->returns[0].type)
    f->schema->returns[0].type = ret.merged;
  pass_convert_to_ssa(s, g);
  pass_transform_exits_of(s, g, f->schema->returns[0].type);
  lift_closures(s, f->program, f->qualified, g, em_clean_emitted);
  em_clean_emitted(s, g);
  session_pop_trail(s);
  function_set_graph_steal(f, session_keep(s, g));
}
