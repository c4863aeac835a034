/* Calls every operator of the table and checks its side effects, by rules that need no list of
 * operators.
 *
 * Each operator is called many times with random arguments of its schema's types: tensors, texts,
 * numbers, and containers of them.  After every call, whether it succeeded or failed:
 *   references  each value on the heap has as many references as the reachable arguments, results
 *               and containers hold;
 *   versions    a tensor's version has changed if its elements have, and only if the schema writes
 *               to it (a!);
 *   bytes       memory that is not written keeps its bytes, also if the caller drops its own
 *               reference while a view lives on; memory around a written view is unchanged;
 *   memory      when all is released, as many bytes are live as before, and no guard byte beside a
 *               block has changed.
 * New operators of the table are covered automatically.  RUSH_OPERATORS=name prints the calls of
 * one. */
#include "support/test.h"

#include "base/macros.h"
#include "ops/call/call.h"
#include "ops/table/table.h"
#include "run/code.h"
#include "tensor/sparse.h"

#define N_TRIES 48
#define MOST_ARGS 32
#define MOST_RESULTS 16
#define N_POOL 3
#define GAP 8 /* elements before and after a tensor that is a view */

/* -- Random choices ---------------------------------------------------------------------------- */

typedef struct walk {
  context *c;
  call_ctx cx;
  rush_error err;
  uint64_t seed;
  type_store *ts;
  rush_value tensors[N_POOL], strings[N_POOL], lists[N_POOL],
    tuples[N_POOL];    /* the heap items of containers */
  rush_value *vars;    /* one of them: the type that type variables represent in this call */
  const type *var_type;
  int n_dims, dtype;   /* dtype of most tensors of this call */
  int64_t sizes[5];
  const op *op;     /* that is called */
  uint32_t n_wrong; /* operators */
  bool is_wrong;    /* this one */
} walk;

static uint32_t below(walk *w, uint32_t n)
{
  w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((w->seed >> 33) % n);
}
static bool one_in(walk *w, uint32_t n) { return below(w, n) == 0; }

static void must(walk *w, rush_status st)
{
  if (st != RUSH_OK)
    fail_msg("%s", w->err.message);
}

/* -- Arguments --------------------------------------------------------------------------------- */

static bool named(const char *name, const char *const *names, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (strcmp(name, names[i]) == 0)
      return true;
  return false;
}

static int dtype_of_name(walk *w, const char *name)
{
  static const char *const indices[] = {"index",   "indices",         "target",     "offsets",
                                        "targets", "sorted_sequence", "batch_sizes"};
  static const char *const masks[] = {"mask", "condition"};
  static const int dtypes[] = {RUSH_FLOAT64, RUSH_INT64,     RUSH_BOOL, RUSH_INT32,
                               RUSH_FLOAT16, RUSH_COMPLEX64, RUSH_UINT8};

  if (one_in(w, 12))
    return dtypes[below(w, COUNT_OF(dtypes))];
  if (named(name, indices, COUNT_OF(indices)))
    return RUSH_INT64;
  if (named(name, masks, COUNT_OF(masks)))
    return RUSH_BOOL;
  return w->dtype;
}

/* Make a tensor of small numbers: a view into a larger one, or all of its memory. */
static rush_value make_tensor(walk *w, const char *name)
{
  const int dtype = dtype_of_name(w, name), n_dims = one_in(w, 5) ? (int)below(w, 3) : w->n_dims;
  int64_t sizes[5] = {3, 3, 3, 3, 3}, n = 1;
  rush_tensor *t = NULL;

  for (int i = 0; i < n_dims; i++)
    n *= sizes[i] = n_dims == w->n_dims ? w->sizes[i] : 3;
  const bool is_view = one_in(w, 2);
  const int64_t all = n + (is_view ? 2 * GAP : 0);
  must(w, tensor_new(&w->cx, dtype, 1, &all, &t));
  for (int64_t i = 0; i < all; i++)
    tensor_set(t, i, value_int(dtype == RUSH_INT64 ? below(w, 2) : below(w, 4)));
  rush_tensor *v = NULL;
  int64_t strides[5];
  strides_contiguous(n_dims, sizes, strides);
  must(w, tensor_as_strided(&w->cx, t, n_dims, sizes, strides, is_view ? GAP : 0, &v));
  tensor_release(t);
  return value_tensor_steal(v);
}

static bool make(walk *w, const type *t, const char *name, int32_t fixed_len, rush_value *out);

static bool make_list(walk *w, const type *t, const char *name, int32_t fixed_len, rush_value *out)
{
  const type *elem = type_elem(t);
  const uint32_t n = fixed_len ? (uint32_t)fixed_len : below(w, 4);
  rush_list *l;

  must(w, list_new(&w->cx, type_is(elem, TYPE_VAR) ? w->var_type : elem, n, &l));
  for (uint32_t i = 0; i < n; i++) {
    rush_value v;
    if (!make(w, elem, name, 0, &v)) {
      value_release(value_heap_steal(RUSH_TAG_LIST, l));
      return false;
    }
    must(w, list_append_steal(&w->cx, l, v));
  }
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  return true;
}

static bool make_dict(walk *w, const type *t, const char *name, rush_value *out)
{
  const type *key = t->elems[0], *value = t->elems[1];
  rush_dict *d;

  must(w, dict_new(&w->cx, type_is(key, TYPE_VAR) ? w->var_type : key,
                   type_is(value, TYPE_VAR) ? w->var_type : value, &d));
  *out = value_heap_steal(RUSH_TAG_DICT, d);
  for (uint32_t i = below(w, 4); i-- > 0;) {
    rush_value k, v;
    bool made = make(w, key, name, 0, &k);
    if (made && !make(w, value, name, 0, &v)) {
      value_release(k);
      made = false;
    }
    if (!made) {
      value_release(*out);
      return false;
    }
    must(w, dict_set_steal(&w->cx, d, k, v));
  }
  return true;
}

static bool make_tuple(walk *w, const type *t, const char *name, rush_value *out)
{
  rush_tuple *made;

  must(w, tuple_new(&w->cx, NULL, t->n_elems, &made));
  *out = value_heap_steal(RUSH_TAG_TUPLE, made);
  for (uint32_t i = 0; i < t->n_elems; i++)
    if (!make(w, t->elems[i], name, 0, &made->items[i])) {
      made->items[i] = value_none();
      value_release(*out);
      return false;
    }
  return true;
}

static rush_value make_int(walk *w)
{
  static const int8_t ints[] = {0, 0, 0, 1, 1, 1, 2, -1, -2, 3, 4};
  return value_int(ints[below(w, sizeof ints)]);
}

static bool make_simple(walk *w, const type *t, rush_value *out)
{
  static const int8_t scalar_types[] = {RUSH_FLOAT32, RUSH_FLOAT64, RUSH_INT64, RUSH_BOOL};

  switch (t->kind) {
  case TYPE_BOOL: case TYPE_SYM_BOOL:
    *out = value_bool(one_in(w, 2));
    return true;
  case TYPE_INT: case TYPE_SYM_INT:
    *out = make_int(w);
    return true;
  case TYPE_FLOAT: case TYPE_SYM_FLOAT:
    *out = value_float((double)below(w, 5) * 0.25);
    return true;
  case TYPE_NUMBER:
    *out = one_in(w, 2) ? make_int(w) : value_float(0.5);
    return true;
  case TYPE_COMPLEX:
    must(w, complex_new(&w->cx, 1, 2, out));
    return true;
  case TYPE_SCALAR_TYPE:
    *out = value_int(scalar_types[below(w, sizeof scalar_types)]);
    return true;
  case TYPE_LAYOUT: case TYPE_MEMORY_FORMAT:
    *out = value_int(0);
    return true;
  case TYPE_DEVICE:
    return device_parse(STR("cpu"), out);
  default:
    return false;
  }
}

/* Make a value of a type that schemas have, new; returns false if the type is not supported here.
 * */
static bool make(walk *w, const type *t, const char *name, int32_t fixed_len, rush_value *out)
{
  switch (t->kind) {
  case TYPE_TENSOR:
    *out = make_tensor(w, name);
    return true;
  case TYPE_STRING:
    *out = value_retain(w->strings[below(w, N_POOL)]);
    return true;
  case TYPE_VAR: case TYPE_ANY:
    *out = value_retain(w->vars[below(w, N_POOL)]);
    return true;
  case TYPE_ANY_LIST:
    *out = value_retain(w->lists[below(w, N_POOL)]);
    return true;
  case TYPE_ANY_TUPLE:
    *out = value_retain(w->tuples[below(w, N_POOL)]);
    return true;
  case TYPE_OPTIONAL:
    if (!one_in(w, 2) && make(w, type_elem(t), name, fixed_len, out))
      return true;
    *out = value_none();
    return true;
  case TYPE_LIST:
    return make_list(w, t, name, fixed_len, out);
  case TYPE_DICT:
    return make_dict(w, t, name, out);
  case TYPE_TUPLE:
    return make_tuple(w, t, name, out);
  default:
    return make_simple(w, t, out);
  }
}

static bool make_args(walk *w, const op *o, rush_value *args)
{
  const schema *sc = o->schema;

  for (uint32_t i = 0; i < sc->n_args; i++) {
    const schema_arg *a = &sc->args[i];
    if (a->has_default && !one_in(w, 3)) {
      args[i] = value_retain(a->default_value);
      continue;
    }
    if (make(w, a->type, a->name, a->fixed_len, &args[i]))
      continue;
    if (a->has_default) {
      args[i] = value_retain(a->default_value);
      continue;
    }
    while (i-- > 0)
      value_release(args[i]);
    return false;
  }
  return true;
}

static void choose_theme(walk *w)
{
  static const int8_t shapes[][5] = {{2, 3, 3}, {2, 3, 3},    {1, 3},          {1, 4},
                                     {0},       {3, 2, 3, 4}, {4, 1, 2, 4, 4}, {5, 1, 2, 3, 3}};
  static const int dtypes[] = {RUSH_FLOAT32, RUSH_FLOAT32, RUSH_FLOAT32,
                               RUSH_INT64,   RUSH_BOOL,    RUSH_FLOAT64};
  rush_value *const kinds[] = {w->tensors, w->strings, w->lists, w->tuples};
  const type *const types[] = {type_simple(TYPE_TENSOR), type_simple(TYPE_STRING),
                               type_list(w->ts, type_simple(TYPE_TENSOR)),
                               type_simple(TYPE_ANY_TUPLE)};
  const uint32_t kind = below(w, 4);
  const int8_t *shape = shapes[below(w, COUNT_OF(shapes))];

  w->vars = kinds[kind];
  w->var_type = types[kind];
  w->dtype = dtypes[below(w, COUNT_OF(dtypes))];
  w->n_dims = shape[0];
  for (int i = 0; i < w->n_dims; i++)
    w->sizes[i] = i < 4 ? shape[i + 1] : 3;
}

/* -- References -------------------------------------------------------------------------------- */

#define N_SEEN 1024
typedef struct census {
  struct seen { heap *h; uint32_t found; } seen[N_SEEN]; /* open addressing */
  uint32_t n;
  bool is_open; /* something is held that this walk cannot examine */
} census;

/* True the first time. */
static bool count_heap(census *s, heap *h)
{
  uint32_t i = (uint32_t)((uintptr_t)h >> 4) * 2654435761u % N_SEEN;

  while (s->seen[i].h && s->seen[i].h != h)
    i = (i + 1) % N_SEEN;
  s->seen[i].h = h;
  s->n += s->seen[i].found == 0;
  assert_true(s->n < N_SEEN / 2);
  return s->seen[i].found++ == 0;
}

static void count_tensor(census *s, rush_tensor *t)
{
  if (!t || !count_heap(s, &t->h))
    return;
  if (t->st)
    (void)count_heap(s, &t->st->h);
  if (!t->extra)
    return;
  s->is_open |= t->extra->grad_record != NULL;
  count_tensor(s, t->extra->nested);
  if (t->extra->quant) {
    count_tensor(s, t->extra->quant->scales);
    count_tensor(s, t->extra->quant->zero_points);
  }
  if (tensor_sparse(t)) {
    count_tensor(s, tensor_sparse(t)->crow);
    count_tensor(s, tensor_sparse(t)->indices);
    count_tensor(s, tensor_sparse(t)->values);
  }
}

static void count_value(census *s, rush_value v)
{
  if (!value_is_heap(v))
    return;
  if (v.tag == RUSH_TAG_TENSOR) {
    count_tensor(s, v.as.tensor);
    return;
  }
  if (!count_heap(s, (heap *)v.as.heap))
    return;
  switch (v.tag) {
  case RUSH_TAG_STRING: case RUSH_TAG_COMPLEX:
    break;
  case RUSH_TAG_LIST:
    for (size_t i = 0; i < v.as.list->n; i++)
      count_value(s, v.as.list->items[i]);
    break;
  case RUSH_TAG_TUPLE:
    for (size_t i = 0; i < v.as.tuple->n; i++)
      count_value(s, v.as.tuple->items[i]);
    break;
  case RUSH_TAG_DICT: {
    size_t pos = 0;
    for (dict_entry *e; (e = dict_next(v.as.dict, &pos)) != NULL;) {
      count_value(s, e->key);
      count_value(s, e->value);
    }
    break;
  }
  default: /* futures, generators, modules...: their references are unknown here */
    s->is_open = true;
  }
}

static void count_pool(census *s, const walk *w)
{
  for (int i = 0; i < N_POOL; i++) {
    count_value(s, w->tensors[i]);
    count_value(s, w->strings[i]);
    count_value(s, w->lists[i]);
    count_value(s, w->tuples[i]);
  }
}

/* -- One call ---------------------------------------------------------------------------------- */

#define MOST_TENSORS 64
typedef struct kept { /* of a tensor among the arguments, before the call */
  rush_tensor *t;
  rush_tensor *view; /* another reference to the memory, or NULL */
  rush_tensor *held; /* t's entry in a list, which may drop it; or NULL */
  storage *st;
  uint32_t arg, version;
  uint64_t bytes, around; /* hashes of the whole storage, and of what is outside of the view */
  int64_t n_elems, offset;
  size_t n_bytes; /* of the storage */
  bool is_written;
} kept;

typedef struct one_call {
  walk *w;
  rush_call call;
  rush_value args[MOST_ARGS], results[MOST_RESULTS];
  kept tensors[MOST_TENSORS];
  uint32_t n_tensors;
  rush_status st;
} one_call;

static uint64_t hash_more(const char *p, size_t n, uint64_t h)
{
  for (size_t i = 0; i < n; i++)
    h = (h ^ (unsigned char)p[i]) * UINT64_C(1099511628211);
  return h;
}

static void hash_kept(const kept *k, uint64_t *all, uint64_t *around)
{
  const size_t item = tensor_item_bytes(k->t), from = (size_t)k->offset * item,
               n = (size_t)k->n_elems * item;
  const char *p = k->st->data;

  *all = hash_more(p, k->n_bytes, 1);
  *around = hash_more(p, from < k->n_bytes ? from : k->n_bytes, 1);
  if (from + n < k->n_bytes)
    *around = hash_more(p + from + n, k->n_bytes - from - n, *around);
}

static void keep_tensors(one_call *o)
{
  const schema *sc = o->call.op->schema;
  rush_tensor *t;

  for (tensor_walk it = {o->args, sc->n_args};
       (t = tensor_walk_next(&it)) != NULL && o->n_tensors < MOST_TENSORS;) {
    kept *k = &o->tensors[o->n_tensors];
    if (tensor_is_meta(t) || !t->st || sc->args[it.at].type->kind == TYPE_VAR)
      continue;
    *k = (kept){.t = t,
                .st = t->st,
                .arg = it.at,
                .version = t->st->version,
                .n_elems = t->n_elems,
                .offset = t->offset,
                .n_bytes = t->st->n_bytes};
    k->is_written = sc->args[it.at].elem_write ||
                    (sc->args[it.at].is_write && o->args[it.at].tag == RUSH_TAG_TENSOR);
    if (one_in(o->w, 2))
      must(o->w, tensor_alias(&o->w->cx, t, &k->view));
    if (o->args[it.at].tag != RUSH_TAG_TENSOR)
      k->held = tensor_retain(t);
    hash_kept(k, &k->bytes, &k->around);
    o->n_tensors++;
  }
}

/* Print each operator's first failure and continue. */
#define WRONG(o, ...)                                                               \
  ((o)->w->is_wrong ? (void)0                                                       \
                    : (print_error("%s: ", call_text(o)), print_error(__VA_ARGS__), \
                       print_error("\n"), (void)((o)->w->is_wrong = true)))

static const char *call_text(one_call *o)
{
  static char text[4000];
  sizes_text sizes;
  text_buf t;

  text_init(&t, o->w->c);
  text_puts(&t, o->call.op->schema->name);
  text_puts(&t, ".");
  text_puts(&t, o->call.op->schema->overload);
  for (uint32_t i = 0; i < o->call.n_args; i++) {
    text_puts(&t, i ? ", " : "(");
    if (o->args[i].tag == RUSH_TAG_TENSOR && o->args[i].as.tensor)
      text_printf(&t, "%s %s", dtype_aten_name(o->args[i].as.tensor->dtype),
                  sizes_print(&sizes, o->args[i].as.tensor->n_dims, o->args[i].as.tensor->sizes));
    else
      (void)!value_repr(&o->w->cx, &t, o->args[i]);
  }
  snprintf(text, sizeof text, "%s), last_use %llx: %s", text_str(&t),
           (unsigned long long)o->call.last_use, o->st == RUSH_OK ? "ok" : o->w->err.message);
  text_free(&t);
  return text;
}

static void check_references(one_call *o)
{
  static census s;

  s = (census){0};
  count_pool(&s, o->w);
  for (uint32_t i = 0; i < o->call.n_args; i++)
    count_value(&s, o->args[i]);
  for (uint32_t i = 0; i < o->call.n_results; i++)
    count_value(&s, o->results[i]);
  for (uint32_t i = 0; i < o->n_tensors; i++) {
    count_tensor(&s, o->tensors[i].view);
    count_tensor(&s, o->tensors[i].held);
  }
  for (uint32_t i = 0; i < N_SEEN && !s.is_open; i++) {
    const heap *h = s.seen[i].h;
    if (h && h->refs != s.seen[i].found &&
        !(h->flags & VALUE_IN_ARENA && h->kind != RUSH_TAG_TENSOR))
      WRONG(o, "a value of kind %u has %u references, but %u hold it", h->kind, h->refs,
            s.seen[i].found);
  }
}

/* True if the operator may use the memory of this argument for its results. */
static bool is_given(const one_call *o, const kept *k)
{
  return o->call.last_use >> k->arg & 1 && !k->view;
}

static void check_tensor(one_call *o, const kept *k)
{
  const storage *now = k->view ? k->view->st : k->t->st;
  uint64_t all, around;

  if (now != k->st || k->t->st != k->st || (is_given(o, k) && !k->is_written))
    return; /* set_, resize_, which may have freed it; or it is the result's memory now */
  const bool moved = k->st->version != k->version;
  hash_kept(k, &all, &around);
  if (!k->is_written && moved)
    WRONG(o, "argument %u is not written, but its version moved", k->arg);
  if (!k->is_written && all != k->bytes)
    WRONG(o, "argument %u is not written, but its elements changed", k->arg);
  if (k->is_written && all != k->bytes && !moved)
    WRONG(o, "argument %u is written, but its version did not move", k->arg);
  if (around != k->around && k->t->n_elems == k->n_elems)
    WRONG(o, "memory outside of argument %u changed", k->arg);
}

static bool call_once(walk *w, const op *op, bool print)
{
  one_call o = {.w = w};
  const schema *sc = op->schema;

  choose_theme(w);
  if (!make_args(w, op, o.args))
    return false;
  o.call = (rush_call){.cx = &w->cx,
                       .op = op,
                       .n_args = sc->n_args,
                       .n_results = sc->n_returns,
                       .args = o.args,
                       .results = o.results};
  for (uint32_t i = 0; i < sc->n_returns; i++)
    o.results[i] = value_none();
  keep_tensors(&o);
  for (uint32_t i = 0; i < sc->n_args; i++)
    if (o.args[i].tag == RUSH_TAG_TENSOR && one_in(w, 3))
      o.call.last_use |= UINT64_C(1) << i;
  if (print)
    fprintf(stderr, "%s\n", call_text(&o));
  o.st = op_call(&o.call);
  check_references(&o);
  for (uint32_t i = 0; i < o.n_tensors; i++)
    check_tensor(&o, &o.tensors[i]);
  for (uint32_t i = 0; i < o.n_tensors; i++) {
    tensor_release(o.tensors[i].view);
    tensor_release(o.tensors[i].held);
  }
  for (uint32_t i = 0; i < o.call.n_args; i++)
    value_release(o.args[i]);
  for (uint32_t i = 0; i < o.call.n_results; i++)
    value_release(o.results[i]);
  rush_error_clear(&w->err);
  return o.st == RUSH_OK;
}

/* -- All of them ------------------------------------------------------------------------------- */

static void fill_pool(walk *w)
{
  static const char *const texts[N_POOL] = {"a", "1", "a long text of more than sixteen bytes 1"};

  for (int i = 0; i < N_POOL; i++) {
    rush_list *l;
    rush_tuple *t;
    w->tensors[i] = make_tensor(w, "");
    must(w, string_new(&w->cx, texts[i], strlen(texts[i]), &w->strings[i]));
    must(w, list_new(&w->cx, type_simple(TYPE_TENSOR), 2, &l));
    for (int k = 0; k <= i; k++)
      must(w, list_append_steal(&w->cx, l, value_retain(w->tensors[k])));
    w->lists[i] = value_heap_steal(RUSH_TAG_LIST, l);
    must(w, tuple_new(&w->cx, NULL, 2, &t));
    t->items[0] = value_retain(w->strings[i]);
    t->items[1] = value_retain(w->lists[i]);
    w->tuples[i] = value_heap_steal(RUSH_TAG_TUPLE, t);
  }
}

static void drop_pool(walk *w)
{
  for (int i = 0; i < N_POOL; i++) {
    value_release(w->tuples[i]);
    value_release(w->lists[i]);
    value_release(w->strings[i]);
    value_release(w->tensors[i]);
  }
}

/* Count bytes that stay live after a call, except those of the first time. */
static bool try_one(walk *w, const op *o, bool print)
{
  const uint64_t seed = w->seed;
  bool done = false;
  int64_t before = 0, after = 0;

  for (int round = 0; round < 4; round++) { /* bytes that the first rounds keep are caches */
    before = mem_live_bytes(w->c);
    w->seed = seed;
    w->ts = type_store_of_context(w->c);
    w->n_dims = 1;
    w->sizes[0] = 3;
    w->dtype = RUSH_FLOAT32;
    fill_pool(w);
    done = call_once(w, o, print);
    drop_pool(w);
    after = mem_live_bytes(w->c);
    if (after <= before)
      return done;
  }
  print_error("%s.%s: each call leaves %lld bytes\n", o->schema->name, o->schema->overload,
              (long long)(after - before));
  w->is_wrong = true;
  return done;
}

typedef struct tally {
  uint32_t n_ops, n_done, n_written,
    n_written_done; /* operators; those that succeeded once; those that write */
} tally;

static void walk_op(walk *w, const op *o, tally *t)
{
  const char *only = getenv("RUSH_OPERATORS");
  const bool is_written = o->effects & OP_WRITES;
  const bool print = only && strcmp(only, o->schema->name) == 0;
  uint32_t n_done = 0;

  if (o->schema->n_args > MOST_ARGS || o->schema->n_returns > MOST_RESULTS ||
      o->schema->is_vararg || !op_is_runnable(o) || (only && !print))
    return;
  w->is_wrong = false;
  w->op = o;
  for (uint32_t i = 0; i < N_TRIES && !w->is_wrong; i++) {
    w->seed =
      name_hash(str_of(o->schema->name)) + name_hash(str_of(o->schema->overload)) * 31 + i * 7919;
    (void)below(w, 2);
    n_done += try_one(w, o, print);
  }
  w->n_wrong += w->is_wrong;
  t->n_ops++;
  t->n_done += n_done > 0;
  t->n_written += is_written;
  t->n_written_done += is_written && n_done > 0;
  if (getenv("RUSH_OPERATORS_MISSED") && !n_done)
    fprintf(stderr, "never: %s.%s\n", o->schema->name, o->schema->overload);
}

/* Allocate blocks between guard bytes: writes beside a block are detected when it is freed. */
#define GUARD 16 /* bytes on each side, a multiple of the alignment */
#define GUARD_BYTE 0xa5
static void *guarded_alloc(void *user, size_t n_bytes)
{
  unsigned char *p = malloc(2 * GUARD + n_bytes + GUARD); /* size, guard, block, guard */

  (void)user;
  if (!p)
    return NULL;
  memcpy(p, &n_bytes, sizeof n_bytes);
  memset(p + GUARD, GUARD_BYTE, GUARD);
  memset(p + 2 * GUARD + n_bytes, GUARD_BYTE, GUARD);
  return p + 2 * GUARD;
}

static void guarded_free(void *user, void *block, size_t n_bytes)
{
  walk *w = user;
  unsigned char *p = (unsigned char *)block - 2 * GUARD;
  bool kept = true;

  memcpy(&n_bytes, p, sizeof n_bytes);
  for (int i = 0; i < GUARD; i++)
    kept &= p[GUARD + i] == GUARD_BYTE && p[2 * GUARD + n_bytes + i] == GUARD_BYTE;
  if (!kept && !w->is_wrong) {
    print_error("%s.%s: a byte beside a block of %zu is written\n",
                w->op ? w->op->schema->name : "?", w->op ? w->op->schema->overload : "?", n_bytes);
    w->is_wrong = true;
  }
  free(p);
}

static void ignore_text(void *user, const char *text, size_t len)
{
  (void)user, (void)text, (void)len;
}
static void ignore_warning(void *user, const char *text) { (void)user, (void)text; }

static void calls_leave_what_schemas_say(void **state)
{
  walk w = {.err = RUSH_ERROR_INIT};
  const context_options opt = {.allocator = {guarded_alloc, guarded_free, &w},
                               .n_threads = 1,
                               .no_cache = true,
                               .print = ignore_text,
                               .warn = ignore_warning};
  tally t = {0};

  (void)state;
  w.c = test_context(&opt);
  call_ctx_init(&w.cx, w.c, &w.err);
  assert_int_equal(run_init(w.c, &w.err), RUSH_OK);
  for (uint32_t i = 0; i < op_n_names; i++) {
    uint32_t n;
    const op *const *ops = op_overloads(w.c, op_row_name(&op_rows[op_names[i].first_row]), &n);
    for (uint32_t k = 0; k < n; k++)
      walk_op(&w, ops[k], &t);
  }
  print_message("%u operators, %u ran; %u write, %u of them ran\n", t.n_ops, t.n_done, t.n_written,
                t.n_written_done);
  context_release(w.c);
  assert_int_equal(w.n_wrong, 0);
  if (!getenv(
        /* the others need numbers or shapes that random arguments do not have */
        "RUSH_OPERATORS")) {
    assert_true(t.n_done * 100 > t.n_ops * 80);
    assert_true(t.n_written_done * 100 > t.n_written * 80);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_leave_what_schemas_say)};
  return RUN_TESTS(tests);
}
