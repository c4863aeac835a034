/* api/ir_type.c -- types as handles: parsing, making, printing and comparing them. A handle keeps
 * the type's store alive. A type made of others belongs to the store of a program if one of its
 * elements does, because the context's store would outlive the elements. */
#include "api/ir_int.h"
#include "ir/facts.h"

static void parse(session *s, edit *e)
{
  type_store *ts = e->g ? e->g->types : type_store_of_context(s->cx->ctx);

  if (!ts)
    session_check(s, call_nomem(s->cx));
  e->t = ir_parse_type(s, ts, e->text);
}

rush_status api_type_parse(rush_context *c, const char *text, const rush_graph *scope,
                           const rush_type **out, rush_error *err)
{
  edit e = {.g = graph_in(scope), .text = text};

  TRY(ir_edit_in(c, parse, &e, err));
  *out = type_handle(e.t);
  return RUSH_OK;
}

void api_type_release(const rush_type *t)
{
  if (t)
    type_release_code(type_in(t));
}

/* The names of torch's kind(), by type_kind. */
static const char *const kind_names[] = {
  "AnyType",       "NoneType",       "TensorType",    "BoolType",         "IntType",
  "FloatType",     "ComplexType",    "NumberType",    "StringType",       "DeviceObjType",
  "GeneratorType", "StorageType",    "StreamObjType", "CapsuleType",      "PyObjectType",
  "QuantizerType", "ScalarTypeType", "LayoutType",    "MemoryFormatType", "QSchemeType",
  "DimnameType",   "SymIntType",     "SymFloatType",  "SymBoolType",      "AnyListType",
  "AnyTupleType",  "AnyClassType",   "AnyEnumType",   "ListType",         "OptionalType",
  "DictType",      "TupleType",      "UnionType",     "FutureType",       "RRefType",
  "AwaitType",     "VarType",        "ClassType",     "InterfaceType",    "EnumType",
  "FunctionType"};
_Static_assert(COUNT_OF(kind_names) == TYPE_FUNCTION + 1, "a name for each kind of type");

const char *api_type_kind(const rush_type *t) { return kind_names[type_in(t)->kind]; }

static const type *of_kind(type_store *ts, type_kind kind, const type *const *elems, size_t n)
{
  switch ((int)kind) {
  case TYPE_LIST: return n == 1 ? type_list(ts, elems[0]) : NULL;
  case TYPE_OPTIONAL: return n == 1 ? type_optional(ts, elems[0]) : NULL;
  case TYPE_DICT: return n == 2 ? type_dict(ts, elems[0], elems[1]) : NULL;
  case TYPE_TUPLE: return type_tuple(ts, elems, (uint32_t)n);
  case TYPE_UNION: return n ? type_union(ts, elems, (uint32_t)n) : NULL;
  case TYPE_FUTURE:
  case TYPE_RREF:
  case TYPE_AWAIT: return n == 1 ? type_generic(ts, kind, elems[0]) : NULL;
  default: return n == 0 && kind <= TYPE_ANY_ENUM ? type_simple(kind) : NULL;
  }
}

/* Choose the store, a program's first: its types must live as long as a type made from them. */
static type_store *store_of(context *c, const rush_type *const *elems, size_t n)
{
  type_store *of_context = type_store_of_context(c), *ts = of_context;

  for (size_t i = 0; i < n; i++) {
    type_store *own = type_in(elems[i])->store;

    if (!own || own == of_context || own == ts)
      continue;
    if (ts != of_context)
      return NULL;
    ts = own;
  }
  return ts;
}

rush_status api_type_make(rush_context *c, const char *kind, const rush_type *const *elems,
                          size_t n_elems, const rush_type **out, rush_error *err)
{
  size_t k = 0;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  while (k < COUNT_OF(kind_names) && strcmp(kind_names[k], kind) != 0)
    k++;
  type_store *ts = store_of(cx.ctx, elems, n_elems);
  uint32_t n_refused = mem_n_refused(cx.ctx);
  const type *t = ts ? of_kind(ts, (type_kind)k, (const type *const *)elems, n_elems) : NULL;
  if (!t)
    return n_refused != mem_n_refused(cx.ctx)
             ? error_nomem(err)
             : ir_misuse(err, "no %s can be made of these %zu types", kind, n_elems);
  *out = type_handle(t);
  return RUSH_OK;
}

/* -- Facts about tensors ----------------------------------------------------------------------- */

_Static_assert(RUSH_TYPE_DIMS == IR_FACTS_DIMS && RUSH_STRIDE_UNKNOWN == IR_STRIDE_UNKNOWN,
               "public facts are those of ir/facts.h");

void api_type_facts(const rush_type *t, rush_type_facts *out)
{
  const ir_facts *f = ir_facts_of(type_in(t));

  *out = (rush_type_facts){.dtype = f->dtype,
                           .n_dims = f->n_dims,
                           .device_kind = f->has_device ? f->device_kind : -1,
                           .device_index = f->has_device ? f->device_index : -1,
                           .requires_grad = f->requires_grad,
                           .defined = f->defined,
                           .contiguous = f->contiguous};
  for (int i = 0; i < f->n_dims; i++) {
    out->sizes[i] = f->sizes[i];
    out->strides[i] = f->strides[i];
  }
}

typedef struct facts_job {
  ir_facts facts;
  const type *made;
} facts_job;

static void make_refined(session *s, void *arg)
{
  facts_job *j = arg;

  type_store *ts = type_store_of_context(s->cx->ctx);

  if (!ts)
    session_check(s, call_nomem(s->cx));
  j->made = ir_facts_type(s, ts, &j->facts);
}

static bool is_fact(int64_t f) { return f >= -1 && f <= 1; }

/* True if the facts can be those of a tensor. */
static bool facts_are_sound(const rush_type_facts *f)
{
  bool sound = (f->dtype == DTYPE_NONE || dtype_is_valid(f->dtype)) && f->n_dims >= -1 &&
               f->n_dims <= RUSH_TYPE_DIMS && is_fact(f->requires_grad) && is_fact(f->defined) &&
               is_fact(f->contiguous) && f->device_index >= -1 && f->device_index <= INT8_MAX &&
               (f->device_kind == -1 || device_kind_name(f->device_kind));

  for (int i = 0; sound && i < f->n_dims; i++)
    sound = f->sizes[i] >= -1;
  return sound;
}

rush_status api_type_of_facts(rush_context *c, const rush_type_facts *f, const rush_type **out,
                              rush_error *err)
{
  facts_job j = {.facts = ir_facts_none()};
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  if (!facts_are_sound(f))
    return ir_misuse(err, "these are no facts about a tensor: a field is out of its range");
  j.facts.dtype = (int16_t)f->dtype;
  j.facts.n_dims = (int8_t)f->n_dims;
  j.facts.has_device = f->device_kind >= 0;
  j.facts.device_kind = (int8_t)(f->device_kind < 0 ? 0 : f->device_kind);
  j.facts.device_index = (int8_t)f->device_index;
  j.facts.requires_grad = (int8_t)f->requires_grad;
  j.facts.defined = (int8_t)f->defined;
  j.facts.contiguous = (int8_t)(f->contiguous == 1 ? 1 : -1);
  for (int i = 0; i < f->n_dims; i++) {
    j.facts.sizes[i] = f->sizes[i];
    j.facts.strides[i] = f->strides[i];
  }
  TRY(session_run(&cx, make_refined, &j));
  *out = type_handle(j.made);
  return RUSH_OK;
}

/* -- Text -------------------------------------------------------------------------------------- */

static void print_edited_type(session *s, edit *e, text_buf *out)
{
  (void)s;
  if (e->flag)
    type_print_annotation(out, e->t);
  else
    type_print(out, e->t);
}

rush_status api_type_text(rush_context *c, const rush_type *t, bool annotation, char **out,
                          rush_error *err)
{
  edit e = {.t = type_in(t), .flag = annotation};
  text_buf text;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  text_init(&text, cx.ctx);
  print_edited_type(NULL, &e, &text);
  return api_text(&cx, RUSH_OK, &text, out);
}

size_t api_type_n_elems(const rush_type *t) { return type_in(t)->n_elems; }

const rush_type *api_type_elem(const rush_type *t, size_t i)
{
  return i < type_in(t)->n_elems ? type_handle(type_in(t)->elems[i]) : NULL;
}

const char *api_type_field(const rush_type *t, size_t i)
{
  const type *in = type_in(t);

  return in->kind == TYPE_TUPLE && in->fields && i < in->n_elems ? in->fields[i] : NULL;
}

const char *api_type_name(const rush_type *t) { return type_in(t)->name; }
bool api_type_equal(const rush_type *a, const rush_type *b)
{
  return type_equal(type_in(a), type_in(b));
}
bool api_type_is_subtype(const rush_type *a, const rush_type *b)
{
  return type_is_subtype(type_in(a), type_in(b));
}

rush_status api_type_unify(rush_context *c, const rush_type *a, const rush_type *b, bool to_union,
                           const rush_type **out, rush_error *err)
{
  const type *x = type_in(a), *y = type_in(b);
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  type_store *context_types = type_store_of_context(cx.ctx);
  /* A type made of both belongs to the program of either one; the context's types always live. */
  type_store *ts = x->store && x->store != context_types ? x->store
                   : y->store                            ? y->store
                                                         : context_types;

  if (!ts)
    return error_nomem(err);
  const type *t = type_is_subtype(x, y) ? y : type_is_subtype(y, x) ? x : NULL;
  if (!t && (!y->store || y->store == ts || y->store == context_types))
    t = type_unify(ts, x, y, to_union);
  *out = t ? type_handle(t) : NULL;
  return RUSH_OK;
}
