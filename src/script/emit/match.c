/* script/emit/match.c -- overloads, implicit conversions, type variables.
 *
 * PyTorch's rules.  An operator's overloads are tried in registration order, first without implicit
 * conversions, then with; a function has one schema and converts at once.  Nodes that a failed
 * attempt inserted are removed again. */
#include <string.h>

#include "script/emit/emit_int.h"
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"

/* -- Type variables ---------------------------------------------------------------------------- */

#define MAX_TYPE_VARS 8
typedef struct type_env {
  const char *names[MAX_TYPE_VARS];
  const type *types[MAX_TYPE_VARS];
  uint32_t n;
} type_env;

typedef struct attempt { /* matching one schema */
  emitter *e;
  type_env env;
  bool implicit;    /* conversions are allowed */
  bool lists; /* separate arguments may be the last list */
  bool explain;     /* report why it does not fit: costs more than the test */
  const char *why;
  ir_value **out;   /* arguments, in schema order */
  uint32_t n;
} attempt;

#define WHY(m, ...) ((void)((m)->explain && ((m)->why = session_printf((m)->e->s, __VA_ARGS__))))

/* Convert a schema's type to the type of values: ScalarType is int, SymInt[] is List[int]. */
static const type *formal_type(emitter *e, const type *t)
{
  type_store *ts = &e->p->types;
  const type *elem;
  switch ((int)t->kind) {
  case TYPE_LIST:
    elem = formal_type(e, t->elems[0]);
    return elem == t->elems[0] ? t : em_list_of(e, elem);
  case TYPE_OPTIONAL:
    elem = formal_type(e, t->elems[0]);
    return elem == t->elems[0] ? t : em_optional_of(e, elem);
  case TYPE_FUTURE: case TYPE_AWAIT:
    elem = formal_type(e, t->elems[0]);
    return elem == t->elems[0] ? t : type_generic(ts, t->kind, elem);
  default:
    return t->n_elems || t->name ? t : type_runtime(t);
  }
}

static int find_type_var(const type_env *env, const char *name)
{
  for (uint32_t i = 0; i < env->n; i++)
    if (strcmp(env->names[i], name) == 0)
      return (int)i;
  return -1;
}

static bool bind_var(attempt *m, const char *name, const type *actual)
{
  int i = find_type_var(&m->env, name);
  if (i < 0) {
    if (m->env.n == MAX_TYPE_VARS)
      return false;
    m->env.names[m->env.n] = name;
    m->env.types[m->env.n++] = actual;
    return true;
  }
  if (!em_unify(m->e, m->env.types[i], actual, false)) {
    WHY(m, "Type variable '%s' previously matched to type %s is matched to type %s",
                            name, TYPE_TEXT(m->e, m->env.types[i]), TYPE_TEXT(m->e, actual));
    return false;
  }
  /* the first binding is kept, as in PyTorch: None cannot be appended to a List[int], though both
   * unify */
  return true;
}

static const type *unify_all(emitter *e, const type *const *types, uint32_t n)
{
  const type *t = n ? types[0] : NULL;
  for (uint32_t i = 1; t && i < n; i++)
    t = em_unify(e, t, types[i], false);
  return t;
}

/* Bind the type variables of `formal`. */
static bool match_vars(attempt *m, const type *formal, const type *actual)
{
  if (!type_has_vars(formal))
    return true;
  if (formal->kind == TYPE_VAR)
    return bind_var(m, formal->name, actual);
  if (formal->kind == TYPE_OPTIONAL) {
    if (actual->kind == TYPE_NONE)
      return true;
    return match_vars(m, formal->elems[0], em_unwrap_optional(actual));
  }
  if (formal->kind == TYPE_LIST && actual->kind == TYPE_TUPLE) {
    const type *elem = unify_all(m->e, actual->elems, actual->n_elems);
    return elem && match_vars(m, formal->elems[0], elem);
  }
  if (formal->kind != actual->kind || formal->n_elems != actual->n_elems) {
    WHY(m, "Cannot match %s to %s", formal->kind == TYPE_DICT ? "a dict" : TYPE_TEXT(m->e, formal),
                            TYPE_TEXT(m->e, actual));
    return false;
  }
  for (uint32_t i = 0; i < formal->n_elems; i++)
    if (!match_vars(m, formal->elems[i], actual->elems[i]))
      return false;
  return true;
}

/* Return `t` with its variables replaced; NULL if one is unbound. */
static const type *eval_vars(emitter *e, const type_env *env, const type *t)
{
  if (!type_has_vars(t))
    return formal_type(e, t);
  if (t->kind == TYPE_VAR) {
    int i = find_type_var(env, t->name);
    return i < 0 ? NULL : env->types[i];
  }
  const type **elems = session_array(e->s, const type *, t->n_elems);
  for (uint32_t i = 0; i < t->n_elems; i++) {
    elems[i] = eval_vars(e, env, t->elems[i]);
    if (!elems[i])
      return NULL;
  }
  type_store *ts = &e->p->types;
  switch ((int)t->kind) {
  case TYPE_LIST:
    return em_list_of(e, elems[0]);
  case TYPE_OPTIONAL:
    return em_optional_of(e, elems[0]);
  case TYPE_DICT:
    return type_dict(ts, elems[0], elems[1]);
  case TYPE_TUPLE:
    return em_tuple_of(e, elems, t->n_elems);
  case TYPE_FUTURE: case TYPE_AWAIT: case TYPE_RREF:
    return type_generic(ts, t->kind, elems[0]);
  default:
    return NULL;
  }
}

/* -- Conversions ------------------------------------------------------------------------------- */

/* True if a value of this type is accepted for the list: the list itself, or a tuple of its
 * elements. */
static bool fits_list(emitter *e, const type *t, const type *list)
{
  if (list->kind != TYPE_LIST)
    return false;
  if (em_is_subtype(e, t, list))
    return true;
  if (t->kind != TYPE_TUPLE)
    return false;
  for (uint32_t i = 0; i < t->n_elems; i++)
    if (!em_is_subtype(e, t->elems[i], list->elems[0]))
      return false;
  return true;
}

static ir_value *convert_tuple(emitter *e, const type *to, ir_value *v, bool implicit)
{
  const type *from = v->type, *plain = em_unwrap_optional(to);
  ir_value **items = session_array(e->s, ir_value *, from->n_elems);
  if (fits_list(e, from, plain)) {
    em_unpack_tuple(e, v, items);
    return em_make_list(e, plain->elems[0], items, from->n_elems);
  }
  if (to->kind != TYPE_TUPLE || em_is_subtype(e, from, to) || to->n_elems != from->n_elems)
    return v;
  em_unpack_tuple(e, v, items);
  for (uint32_t i = 0; i < to->n_elems; i++)
    items[i] = em_convert(e, to->elems[i], items[i], implicit);
  return em_make_tuple(e, items, to->n_elems, NULL);
}

/* Return the operator that converts `from` to the scalar kind `to`, or NULL. */
static const char *scalar_conversion(type_kind from, type_kind to)
{
  if (from == TYPE_TENSOR)
    return to == TYPE_FLOAT     ? "aten::FloatImplicit"
           : to == TYPE_COMPLEX ? "aten::ComplexImplicit"
           : to == TYPE_INT     ? "aten::IntImplicit"
           : to == TYPE_NUMBER  ? "aten::ScalarImplicit"
                                : NULL;
  if (from == TYPE_NUMBER)
    return to == TYPE_FLOAT     ? "aten::Float"
           : to == TYPE_COMPLEX ? "aten::Complex"
           : to == TYPE_INT     ? "aten::Int"
                                : NULL;
  if (from == TYPE_BOOL)
    return to == TYPE_FLOAT                       ? "aten::Float"
           : to == TYPE_INT || to == TYPE_NUMBER ? "aten::Int"
                                                 : NULL;
  if (from == TYPE_STRING && to == TYPE_DEVICE)
    return "aten::device";
  return NULL;
}

ir_value *em_convert(emitter *e, const type *to, ir_value *v, bool implicit)
{
  em_declare_unknown(v, to);
  if (to->kind == TYPE_OPTIONAL && v->type->kind != TYPE_OPTIONAL && v->type->kind != TYPE_NONE)
    return em_convert(e, to->elems[0], v, implicit);
  if (to->kind == TYPE_LIST && em_is_empty_list_literal(v))
    return em_make_list(e, to->elems[0], NULL, 0);
  if (v->type->kind == TYPE_TUPLE)
    v = convert_tuple(e, to, v, implicit);
  const char *name = implicit ? scalar_conversion(v->type->kind, to->kind) : NULL;
  return name ? em_call_op(e, name, &v, 1) : v;
}

/* -- One argument ------------------------------------------------------------------------------ */

/* Repeat a single int for int[2]. */
static ir_value *broadcast_scalar(emitter *e, const schema_arg *arg, ir_value *v)
{
  const type *t = formal_type(e, em_unwrap_optional(arg->type));
  t = em_unwrap_optional(t);
  if (arg->fixed_len <= 0 || t->kind != TYPE_LIST || !type_equal(t->elems[0], v->type))
    return v;
  ir_value **items = session_array(e->s, ir_value *, (size_t)arg->fixed_len);
  for (int32_t i = 0; i < arg->fixed_len; i++)
    items[i] = v;
  return em_make_list(e, v->type, items, (uint32_t)arg->fixed_len);
}

const char *em_interface_reason(emitter *e, const type *cls, const type *want)
{
  if (cls->kind != TYPE_CLASS || want->kind != TYPE_INTERFACE || !want->cls)
    return "";
  class_complete(e->s, cls);
  for (uint32_t i = 0; i < want->cls->n_methods; i++)
    if (!class_find_method(cls, want->cls->methods[i]->name))
      return session_printf(e->s, "\nClass '%s' does not have method '%s' but '%s' does.",
                            cls->name, want->cls->methods[i]->name, want->name);
  return session_printf(e->s,
                        "\nMethod on class '%s' (1) is not compatible with interface '%s' (2)",
                        cls->name, want->name);
}

static const char *guessed(emitter *e, const schema_arg *arg, const ir_value *v)
{
  if (arg->is_inferred || !is_tensor(v->type) || strcmp(em_type_of(e, v), "Tensor") == 0)
    return "";
  return session_printf(e->s,
                        "\nInferred the value for argument '%s' to be of type 'Tensor' because it "
                        "was not annotated with an explicit "
                        "type.",
                        arg->name);
}

static bool has_no_parts(const type *t) { return !t->n_elems && !t->name && t->kind != TYPE_TUPLE; }

static bool match_arg(attempt *m, const schema_arg *arg, ir_value *v)
{
  emitter *e = m->e;
  if (has_no_parts(arg->type) && has_no_parts(v->type)) { /* most are settled by their kinds */
    bool fits =
      arg->type == v->type || (!m->implicit && em_is_subtype(e, v->type, type_runtime(arg->type)));
    if (fits)
      m->out[m->n++] = v;
    if (fits || (!m->implicit && !m->explain))
      return fits;
  }
  v = broadcast_scalar(e, arg, v);
  if (!match_vars(m, arg->type, v->type)) {
    WHY(m, "Could not match type %s to %s in argument '%s': %s.", TYPE_TEXT(e, v->type),
        TYPE_TEXT(e, arg->type), arg->name, m->why ? m->why : "it is another type");
    return false;
  }
  const type *want = eval_vars(e, &m->env, arg->type);
  if (!want) {
    WHY(m, "Type variables of argument '%s' could not be inferred", arg->name);
    return false;
  }
  v = em_convert(e, want, v, m->implicit);
  if (!em_is_subtype(e, v->type, want)) {
    WHY(m,
        "Expected a value of type '%s%s' for argument '%s' but instead found type '%s'.%s%s%s%s%s",
        TYPE_TEXT(e, type_has_vars(arg->type) ? arg->type : want),
        arg->is_inferred ? " (inferred)" : "", arg->name, em_type_of(e, v), guessed(e, arg, v),
        em_interface_reason(e, v->type, want), arg->is_inferred ? "\nInferred '" : "",
        arg->is_inferred ? arg->name : "",
        arg->is_inferred
          ? "' to be of type 'Tensor' because it was not annotated with an explicit type."
          : "");
    if (m->why && v->type->kind == TYPE_LIST && v->type->elems[0]->kind == TYPE_TENSOR)
      WHY(m,
          "%s\nEmpty lists default to List[Tensor]. Add a variable annotation to the assignment to "
          "create an empty list of "
          "another type (torch.jit.annotate(List[T, []]) where T is the type of elements in the "
          "list for Python 2)",
          m->why);
    return false;
  }
  m->out[m->n++] = v;
  return true;
}

/* True if the remaining positional arguments form one list: x.view(1, 2). */
static bool rest_is_list(attempt *m, const schema *sc, uint32_t i, const ir_value *first)
{
  const schema_arg *arg = &sc->args[i];
  bool last = i + 1 == sc->n_args || sc->args[i + 1].kwarg_only;
  const type *formal = em_unwrap_optional(arg->type);
  if (!last || arg->type->kind != TYPE_LIST || arg->fixed_len ||
      arg->type->elems[0]->kind == TYPE_VAR)
    return false;
  return first->type->kind != TYPE_LIST && !fits_list(m->e, first->type, formal_type(m->e, formal));
}

static bool match_rest(attempt *m, const schema_arg *arg, ir_value *const *v, uint32_t n)
{
  emitter *e = m->e;
  const type *elem = formal_type(e, arg->type->elems[0]);
  ir_value **items = session_array(e->s, ir_value *, n);
  for (uint32_t i = 0; i < n; i++) {
    items[i] = em_convert(e, elem, v[i], m->implicit);
    if (!em_is_subtype(e, items[i]->type, elem)) {
      WHY(m, "Expected a value of type '%s' for argument '<varargs>' but instead found type '%s'.",
          TYPE_TEXT(e, elem), em_type_of(e, v[i]));
      return false;
    }
  }
  m->out[m->n++] = em_make_list(e, elem, items, n);
  return true;
}

/* -- One schema -------------------------------------------------------------------------------- */

static const named_value *find_kwarg(const call_args *a, const char *name)
{
  for (uint32_t i = 0; i < a->n_kwargs; i++)
    if (text_same(a->kwargs[i].name, name))
      return &a->kwargs[i];
  return NULL;
}

/* Find the argument `self` of aten operators, which Python calls `input`. */
static const named_value *find_input(const schema *sc, const call_args *a, const char *name)
{
  return a->n_kwargs && text_same(name, "self") && strncmp(sc->name, "aten::", 6) == 0
           ? find_kwarg(a, "input")
           : NULL;
}

static const type *default_type(emitter *e, const schema_arg *arg)
{
  if (arg->default_value.tag == RUSH_TAG_NONE)
    return type_simple(TYPE_NONE);
  const type *t = formal_type(e, em_unwrap_optional(arg->type));
  switch ((int)arg->default_value.tag) {
  case RUSH_TAG_BOOL:
    return type_simple(TYPE_BOOL);
  case RUSH_TAG_INT:
    return type_simple(TYPE_INT);
  case RUSH_TAG_FLOAT:
    return type_simple(TYPE_FLOAT);
  default:
    return t;
  }
}

/* Check for unknown and repeated keywords. */
static bool check_kwargs(attempt *m, const schema *sc, const call_args *a)
{
  for (uint32_t i = 0; i < a->n_kwargs; i++) {
    if (schema_arg_index(sc, str_of(a->kwargs[i].name)) < 0) {
      WHY(m, "Keyword argument %s unknown.", a->kwargs[i].name);
      return false;
    }
  }
  return true;
}

/* Check an enum's overload: only that of the members' type reads them; for any enum's member the
 * type is unknown. */
static bool check_enum(attempt *m, const schema *sc)
{
  const type *t = m->n == 1 ? m->out[0]->type : NULL;
  if (!t || (t->kind != TYPE_ENUM && t->kind != TYPE_ANY_ENUM) ||
      strcmp(sc->name, "prim::EnumValue") != 0 ||
      (t->kind == TYPE_ENUM && type_equal(type_elem(t), sc->returns[0].type)))
    return true;
  WHY(m, "The value of %s is no %s.", TYPE_TEXT(m->e, t), TYPE_TEXT(m->e, sc->returns[0].type));
  return false;
}

static bool try_match(attempt *m, const schema *sc, ir_value *self, const call_args *a)
{
  emitter *e = m->e;
  uint32_t used = 0, used_kwargs = 0;
  for (uint32_t i = 0; i < sc->n_args; i++) {
    const schema_arg *arg = &sc->args[i];
    const named_value *kw = find_kwarg(a, arg->name);
    ir_value *v;
    if (self && text_same(arg->name, "self")) {
      v = self;
      self = NULL;
    } else if (!arg->kwarg_only && used < a->n) {
      if (kw) {
        WHY(m, "Keyword argument %s specified twice.", arg->name);
        return false;
      }
      if (m->lists && rest_is_list(m, sc, i, a->args[used])) {
        if (!match_rest(m, arg, a->args + used, a->n - used))
          return false;
        used = a->n;
        continue;
      }
      v = a->args[used++];
    } else if (kw || (kw = find_input(sc, a, arg->name))) {
      v = kw->value;
      used_kwargs++;
    } else if (arg->has_default) {
      v = em_constant_value(e, arg->default_value, default_type(e, arg));
      v->node->range = (source_range){0}; /* it is not in the source */
    } else {
      WHY(m, "Argument %s not provided.", arg->name);
      return false;
    }
    if (!match_arg(m, arg, v))
      return false;
  }
  if (self) {
    m->why = "Provided self argument not used in schema.";
    return false;
  }
  for (; sc->is_vararg && used < a->n; used++)
    m->out[m->n++] = a->args[used];
  if (used < a->n) {
    WHY(m, "Expected at most %u arguments but found %u positional arguments.",
                            used, a->n);
    return false;
  }
  return (used_kwargs == a->n_kwargs || check_kwargs(m, sc, a)) && check_enum(m, sc);
}

static void roll_back(emitter *e, const ir_node *mark)
{
  while (e->before->prev != mark)
    ir_node_destroy(e->before->prev);
}

/* What a match may do: nothing, pass separate arguments as the last list, or convert as well; and
 * explain a failure. */
typedef enum match_mode { MATCH_EXACT, MATCH_LISTS, MATCH_IMPLICIT, MATCH_EXPLAIN } match_mode;

static bool attempt_schema(attempt *m, emitter *e, const schema *sc, ir_value *self,
                           const call_args *a, match_mode mode)
{
  const ir_node *mark = e->before->prev;
  *m = (attempt){.e = e,
                 .implicit = mode >= MATCH_IMPLICIT,
                 .lists = mode != MATCH_EXACT,
                 .explain = mode == MATCH_EXPLAIN};
  m->out = session_array(e->s, ir_value *, sc->n_args + a->n + 1);
  if (try_match(m, sc, self, a))
    return true;
  roll_back(e, mark);
  return false;
}

static const char *schema_text(emitter *e, const schema *sc)
{
  text_buf b;
  text_init(&b, e->s->cx->ctx);
  schema_print(&b, sc);
  return session_take_text(e->s, &b);
}

ir_value **em_match_schema(emitter *e, const schema *sc, ir_value *self, const call_args *a)
{
  attempt m;
  if (!attempt_schema(&m, e, sc, self, a, MATCH_IMPLICIT) &&
      !attempt_schema(&m, e, sc, self, a, MATCH_EXPLAIN))
    FAIL(e, "\n%s:\n%s\n", schema_text(e, sc) + sc->is_of_host, m.why); /* without the ^ */
  return m.out;
}

/* Indent a reason's further lines like its first. */
static const char *indented(emitter *e, const char *why)
{
  text_buf *b = session_text(e->s);
  for (const char *p = why ? why : "it does not fit"; *p; p++) {
    text_putc(b, *p);
    if (*p == '\n')
      text_puts(b, "  ");
  }
  return session_take_text(e->s, b);
}

/* -- Operators --------------------------------------------------------------------------------- */

/* Pack results of an operator into one value. */
static ir_value *pack_results(emitter *e, const schema *sc, ir_node *n)
{
  if (n->n_outputs == 1)
    return n->outputs[0];
  if (n->n_outputs == 0)
    return em_constant_none(e);
  const type **elems = session_array(e->s, const type *, n->n_outputs);
  const char **fields = session_alloc_in(e->s, &e->p->mem, n->n_outputs * sizeof *fields);
  bool named = true;
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    elems[i] = n->outputs[i]->type;
    fields[i] = sc->returns[i].name;
    named = named && fields[i] && fields[i][0];
  }
  if (!named)
    return em_make_tuple(e, n->outputs, n->n_outputs, NULL);
  type *t = type_new_named(&e->p->types, TYPE_TUPLE, NULL, elems, n->n_outputs);
  if (!t)
    session_check(e->s, call_nomem(e->s->cx));
  t->fields = fields;
  return em_make_tuple(e, n->outputs, n->n_outputs, t);
}

static ir_value *insert_op(emitter *e, const op *o, const attempt *m)
{
  ir_node *n = em_put(e, ir_node_new_op(e->s, e->g, o, m->out, m->n));
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    const type *t = eval_vars(e, &m->env, o->schema->returns[i].type);
    if (!t)
      FAIL(e, "%s: the type of the result is not known", o->schema->name);
    n->outputs[i]->type = t;
  }
  return pack_results(e, o->schema, n);
}

/* Set the function; PyTorch's graphs have a value for it, made just before the result: its number
 * is kept for the text. */
static void set_callee(emitter *e, ir_node *n, function *f)
{
  n->function = f;
  if (f->program != e->p)
    ir_graph_keep_types(e->s, e->g, &f->program->types);
  ir_attr_set_int(e->s, n, "_fn", e->g->next_id++);
}

static ir_value *insert_call(emitter *e, function *f, const attempt *m)
{
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_CALL_FUNCTION, m->out, m->n));
  set_callee(e, n, f);
  return ir_node_add_output(e->s, n, f->schema->returns[0].type);
}

/* List the TorchScript functions that correspond to swapped_scalar and others, as PyTorch lists
 * them after the operators. */
static void list_functions(emitter *e, text_buf *b, const char *name, ir_value *self,
                           const call_args *a)
{
  static const struct { const char *names, *params; } rows[] = {
      {" add sub mul div lt le gt ge eq ne ", "(float a, Tensor b) -> Tensor"},
      {" add sub mul div lt le gt ge eq ne ", "(int a, Tensor b) -> Tensor"},
      {" add sub mul div eq ne ", "(complex a, Tensor b) -> Tensor"},
      {" floordiv ", "(Tensor self, Scalar other) -> Tensor"},
      {" floordiv ", "(Tensor self, Tensor other) -> Tensor"},
      {" __contains__ ", "(str self, str key) -> bool"},
  };
  const char *plain = strrchr(name, ':') ? strrchr(name, ':') + 1 : name,
             *word = session_printf(e->s, " %s ", plain);
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    attempt m;
    if (!strstr(rows[i].names, word))
      continue;
    const schema *sc = schema_parse(e->s, e->s->mem, &e->p->types,
                                    session_printf(e->s, "%s%s", plain, rows[i].params));
    if (!attempt_schema(&m, e, sc, self, a, MATCH_EXPLAIN))
      text_printf(b, "  \n  %s%s:\n  %s\n", plain, rows[i].params, indented(e, m.why));
  }
}

static _Noreturn void fail_overloads(emitter *e, const op *const *ops, uint32_t n, ir_value *self,
                                     const call_args *a)
{
  text_buf *b = session_text(e->s);
  text_puts(b, n > 1 ? "Arguments for call are not valid.\nThe following variants are available:\n"
                     : "");
  for (uint32_t i = 0; i < n; i++) {
    attempt m;
    if (!attempt_schema(&m, e, ops[i]->schema, self, a, MATCH_EXPLAIN)) {
      text_puts(b, n > 1 ? "  \n  " : "\n");
      schema_print(b, ops[i]->schema);
      text_printf(b, n > 1 ? ":\n  %s\n" : ":\n%s\n",
                  n > 1   ? indented(e, m.why)
                  : m.why ? m.why
                          : "it does not fit");
    }
  }
  if (n > 1)
    list_functions(e, b, ops[0]->schema->name, self, a);
  const char *text = session_take_text(e->s, b);
  if (n == 1)
    FAIL(e, "%s", text);
  FAIL(e, "%s\nThe original call is", text);
}

/* Rewrite a scalar on the left of a tensor, for which PyTorch has functions of its own. */
static ir_value *swapped_scalar(emitter *e, uint32_t name_key, const call_args *a)
{
  if (a->n == 2 && !a->n_kwargs && is_tensor(a->args[0]->type) && name_key == OPN_FLOORDIV)
    return em_call_op(e, "aten::floor_divide", a->args, 2);
  if (a->n != 2 || a->n_kwargs || !is_tensor(a->args[1]->type))
    return NULL;
  type_kind k = a->args[0]->type->kind;
  if (k != TYPE_INT && k != TYPE_FLOAT && k != TYPE_COMPLEX && k != TYPE_NUMBER)
    return NULL;
  ir_value *swapped[2] = {a->args[1], a->args[0]};
  switch (name_key) {
  case OPN_MUL: return em_call_op(e, "aten::mul", swapped, 2);
  case OPN_ADD: return em_call_op(e, "aten::add", swapped, 2);
  case OPN_NE: return em_call_op(e, "aten::ne", swapped, 2);
  case OPN_EQ: return em_call_op(e, "aten::eq", swapped, 2);
  case OPN_LT: return em_call_op(e, "aten::gt", swapped, 2);
  case OPN_LE: return em_call_op(e, "aten::ge", swapped, 2);
  case OPN_GT: return em_call_op(e, "aten::lt", swapped, 2);
  case OPN_GE: return em_call_op(e, "aten::le", swapped, 2);
  case OPN_SUB:
    swapped[0] = em_call_op(e, "aten::neg", &a->args[1], 1);
    return em_call_op(e, "aten::add", swapped, 2);
  case OPN_DIV:
    swapped[0] = em_call_op(e, "aten::reciprocal", &a->args[1], 1);
    return em_call_op(e, "aten::mul", swapped, 2);
  }
  return NULL;
}

static const op *const *overloads_of(emitter *e, const char *name, uint32_t *n)
{
  size_t slot = ((uintptr_t)name >> 3 ^ (uintptr_t)name >> 8) % COUNT_OF(e->memo->overloads);
  if (e->memo->overloads[slot].name != name) {
    const op *const *ops = session_op_overloads(e->s, str_of(name), n);
    e->memo->overloads[slot].name = name;
    e->memo->overloads[slot].ops = ops;
    e->memo->overloads[slot].n = *n;
  }
  *n = e->memo->overloads[slot].n;
  return e->memo->overloads[slot].ops;
}

bool em_has_method(emitter *e, const char *name, const type *self)
{
  uint32_t n;
  const op *const *ops = session_op_overloads(e->s, str_of(name), &n);
  for (uint32_t i = 0; i < n; i++) {
    int at = schema_arg_index(ops[i]->schema, STR("self"));
    attempt m = {.e = e};
    if (at < 0 || !match_vars(&m, ops[i]->schema->args[at].type, self))
      continue;
    const type *want = eval_vars(e, &m.env, ops[i]->schema->args[at].type);
    if (want && em_is_subtype(e, self, want))
      return true;
  }
  return false;
}

/* Return "Here are some suggestions: ..." for an unknown operator. */
static const char *similar_ops(emitter *e, const char *name)
{
  str near[5];
  uint32_t n = op_similar(str_of(name), near, COUNT_OF(near));
  if (n == 0)
    return session_printf(e->s,
                          "Could not find any similar ops to %s. This op may not exist or may not "
                          "be currently supported in "
                          "TorchScript.\n",
                          name);
  text_buf *b = session_text(e->s);
  text_puts(b, "Here are some suggestions: ");
  for (uint32_t i = 0; i < n; i++)
    text_printf(b, "\n\t%.*s", (int)near[i].len, near[i].p);
  text_puts(b, "\n\nThe original call is");
  return session_take_text(e->s, b);
}

ir_value *em_call_builtin(emitter *e, const char *name, ir_value *self, const call_args *a)
{
  uint32_t n;
  const op *const *ops = overloads_of(e, name, &n);
  if (n == 0 && !self && em_allows_unknown(e))
    return em_unknown_op(e, name, a);
  if (n == 0)
    FAIL(e, "Unknown builtin op: %s.\n%s", name, similar_ops(e, name));
  attempt m;
  for (int implicit = n == 1; implicit < 2; implicit++) {
    for (uint32_t i = 0; i < n; i++) {
      function *old = em_upgrader(e, ops[i]);
      match_mode mode = implicit ? MATCH_IMPLICIT
                        : i == 0 ? MATCH_LISTS
                                 : MATCH_EXACT; /* x.view(-1) is no dtype */
      if (attempt_schema(&m, e, old ? old->schema : ops[i]->schema, self, a, mode))
        return old ? insert_call(e, old, &m) : insert_op(e, ops[i], &m);
    }
    ir_value *swapped = implicit || self ? NULL : swapped_scalar(e, ops[0]->name_key, a);
    if (swapped)
      return swapped;
  }
  fail_overloads(e, ops, n, self, a);
}

ir_value *em_call_op(emitter *e, const char *name, ir_value *const *args, uint32_t n)
{
  call_args a = {.args = session_array(e->s, ir_value *, n), .n = n};
  if (n)
    memcpy(a.args, args, n * sizeof *args);
  return em_call_builtin(e, name, NULL, &a);
}

/* -- Functions --------------------------------------------------------------------------------- */

ir_value *em_call_function(emitter *e, function *f, ir_value *self, const call_args *a)
{
  const schema *sc = f->schema;
  call_args all = *a;
  if (self) { /* self is the first argument, whatever its name */
    all.n = a->n + 1;
    all.args = session_array(e->s, ir_value *, all.n);
    all.args[0] = self;
    if (a->n)
      memcpy(all.args + 1, a->args, a->n * sizeof *a->args);
  }
  if (f->state == FUNCTION_COMPILING)
    FAIL(e, "%s '%s' is called recursively. Recursive calls are not supported",
         f->self ? "method" : " function", f->name);
  /* not annotated: inferred from the body */
  if (!sc->returns[0].type || (e->names->is_eager && f->compile))
    function_ensure(e->s, f);
  ir_value **in = em_match_schema(e, sc, NULL, &all);
  ir_node *n = ir_node_new(e->s, e->g, self ? IR_CALL_METHOD : IR_CALL_FUNCTION, in, sc->n_args);
  if (self)
    ir_attr_set_string(e->s, n, "name", f->name);
  else
    set_callee(e, n, f);
  em_put(e, n);
  return ir_node_add_output(e->s, n, sc->returns[0].type);
}

ir_value *em_call_overloads(emitter *e, function *const *f, uint32_t n, ir_value *self,
                            const call_args *a)
{
  call_args all = *a;
  if (self) {
    all.args = session_array(e->s, ir_value *, a->n + 1);
    all.n++;
    all.args[0] = self;
    if (a->n)
      memcpy(all.args + 1, a->args, a->n * sizeof *a->args);
  }
  for (int implicit = 0; implicit < 2; implicit++) {
    for (uint32_t i = 0; i < n; i++) {
      const ir_node *mark = e->before->prev;
      attempt m;
      if (!attempt_schema(&m, e, f[i]->schema, NULL, &all, implicit ? MATCH_IMPLICIT : MATCH_EXACT))
        continue;
      roll_back(e, mark); /* em_call_function converts again */
      return em_call_function(e, f[i], self, a);
    }
  }
  text_buf *b = session_text(e->s);
  text_puts(b, "Arguments for call are not valid.\nThe following variants are available:\n");
  for (uint32_t i = 0; i < n; i++) {
    attempt m;
    if (attempt_schema(&m, e, f[i]->schema, NULL, &all, MATCH_EXPLAIN))
      continue;
    const char *text = schema_text(e, f[i]->schema), *number = self ? NULL : strstr(text, "__"),
               *rest = strchr(text, '(');
    int name_len = number && number < rest ? (int)(number - text)
                                           : (int)(rest - text); /* f__0 is f's first overload */
    text_printf(b, "  \n  %.*s%s:\n  %s\n", name_len, text, rest, indented(e, m.why));
  }
  FAIL(e, "%s\nThe original call is", session_take_text(e->s, b));
}
