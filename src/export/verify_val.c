/* export/verify_val.c -- what a program says of its values: that it is there and of the kind that
 * the operator returns, that tensors are possible ones, that symbols have ranges, and that dtype
 * and sizes are those that the operator's shape rule computes.
 *
 * The rule is run over the example sizes (hints), in a session of its own: a tenth of the cost of
 * the symbolic rule, and a size that is wrong for all values is wrong for the example.  Sizes that
 * depend on data have no example; operators that get such are not computed. */
#include "export/verify_int.h"

#include "formats/json.h"
#include "ops/call/shape.h"
#include "tensor/dtype.h"

/* -- Numbers and tensors ----------------------------------------------------------------------- */

typedef struct symbol_check {
  verifier *v;
  const fx_node *n;
} symbol_check;

static void check_symbol(void *arg, const expression *symbol)
{
  const symbol_check *c = arg;

  if (!table_get(&c->v->ranges, symbol->name))
    verify_fault(c->v, RULE_RANGE_SYMBOL, c->n, "expected a range of the symbol %.*s, found none",
                 (int)symbol->name.len, symbol->name.p);
}

/* What an expression is for the examples of its symbols. */
typedef struct example {
  verifier *v;
  const expression *e;
  rush_value value; /* None: a symbol has no example, or there is no value */
  bool was_late;    /* it was evaluated again when all symbols were known */
} example;

static bool find_example(void *arg, const expression *symbol, rush_value *value)
{
  const example *x = arg;
  const fx_number *number = table_get(&x->v->examples, symbol->name);

  if (number)
    *value = value_int(number->value.i);
  return number != NULL;
}

static void evaluate_example(session *s, void *arg)
{
  example *x = arg;

  session_check(s, expression_evaluate(s->cx, x->e, find_example, x, &x->value));
}

/* An example that could not be compared where it stands. */
typedef struct late_example {
  const fx_node *n;
  const fx_number *number;
  struct late_example *next;
} late_example;

/* Compare an int's example with what its expression is; false: that is not known yet. */
static bool compare_example(verifier *v, const fx_node *n, const fx_number *number,
                            rush_value value)
{
  if (value.tag == RUSH_TAG_BOOL)
    verify_fault(v, RULE_VALUE_EXAMPLE, n,
                 "expected an int as the value of an expression, found a bool");
  if (value.tag == RUSH_TAG_INT && value.as.i != number->value.i)
    verify_fault(v, RULE_VALUE_EXAMPLE, n, "expected the example %lld of an expression, found %lld",
                 (long long)value.as.i, (long long)number->value.i);
  return value.tag != RUSH_TAG_NONE;
}

void verify_late_examples(verifier *v)
{
  for (const late_example *l = v->late; l; l = l->next) {
    example *x = table_get(&v->exprs, address_key(l->number->expr));
    const char *why;

    if (!x->was_late && !verify_try(v, evaluate_example, x, &why))
      x->value = value_none();
    x->was_late = true;
    (void)compare_example(v, l->n, l->number, x->value);
  }
}

/* An expression's first occurrence: its symbols have ranges, and it gets its example. */
static const example *note_expression(verifier *v, const fx_node *n, const expression *e)
{
  symbol_check c = {v, n};
  example *x = session_new(v->s, example);
  const char *why;

  *x = (example){v, e, value_none(), false};
  expression_symbols(v->s, e, check_symbol, &c);
  if (!verify_try(v, evaluate_example, x, &why))
    x->value = value_none();
  session_table_put(v->s, &v->exprs, address_key(e), x);
  return x;
}

static void check_number(verifier *v, const fx_node *n, const fx_number *number, bool is_int)
{
  const expression *e = number->expr;

  if (!e)
    return;
  const bool is_symbol = e->kind == EXPRESSION_SYMBOL && is_int;
  if (is_symbol && number->has_value && !table_get(&v->examples, e->name))
    session_table_put(v->s, &v->examples, e->name, (void *)(uintptr_t)number);
  const example *x = table_get(&v->exprs, address_key(e));
  const exported_bounds *b = is_symbol && !x ? table_get(&v->ranges, e->name) : NULL;
  if (!x)
    x = note_expression(v, n, e);
  if (b && number->has_value &&
      ((b->has_min && number->value.i < b->min) || (b->has_max && number->value.i > b->max)))
    verify_fault(v, RULE_RANGE_HINT, n, "expected an example of %.*s in its range, found %lld",
                 (int)b->text.len, b->text.p, (long long)number->value.i);
  if (!is_int || !number->has_value || is_symbol || compare_example(v, n, number, x->value))
    return;
  late_example *late = session_new(v->s, late_example);
  *late = (late_example){n, number, v->late};
  v->late = late;
}

static void check_tensor(verifier *v, const fx_node *n, const fx_tensor *t)
{
  if (t->dtype < 0 || t->dtype >= RUSH_N_DTYPES)
    verify_fault(v, RULE_VALUE_TENSOR, n, "expected a dtype, found number %d", t->dtype);
  if (t->n_strides != t->n_dims && t->layout == 0)
    verify_fault(v, RULE_VALUE_TENSOR, n, "expected %u strides, as many as sizes, found %u",
                 t->n_dims, t->n_strides);
  for (uint32_t i = 0; i < t->n_dims; i++) {
    if (t->sizes[i].has_value && t->sizes[i].value.i < 0)
      verify_fault(v, RULE_VALUE_TENSOR, n, "expected sizes of at least 0, found %lld",
                   (long long)t->sizes[i].value.i);
    check_number(v, n, &t->sizes[i], true);
  }
  for (uint32_t i = 0; i < t->n_strides; i++)
    check_number(v, n, &t->strides[i], true);
  check_number(v, n, &t->offset, true);
}

static void check_val(verifier *v, const fx_node *n, const fx_val *val)
{
  session_enter(v->s);
  if (val->kind == FX_VAL_TENSOR)
    check_tensor(v, n, val->as.tensor);
  else if (val->kind == FX_VAL_INT || val->kind == FX_VAL_FLOAT || val->kind == FX_VAL_BOOL)
    check_number(v, n, val->as.number, val->kind == FX_VAL_INT);
  for (uint32_t i = 0; val->kind == FX_VAL_LIST && i < val->n; i++)
    if (val->as.items[i])
      check_val(v, n, val->as.items[i]);
  session_leave(v->s);
}

/* -- Kinds of results -------------------------------------------------------------------------- */

/* True if a result of the type can be described so; NULL describes None, or what nothing names. */
static bool is_kind_of(const fx_val *val, const type *t)
{
  if (!val || t->kind == TYPE_OPTIONAL)
    return true;
  switch (t->kind) {
  case TYPE_TENSOR:
    return val->kind == FX_VAL_TENSOR;
  case TYPE_LIST:
    return val->kind == FX_VAL_LIST && !val->is_tuple;
  case TYPE_INT:
  case TYPE_SYM_INT:
    return val->kind == FX_VAL_INT;
  case TYPE_FLOAT:
  case TYPE_SYM_FLOAT:
    return val->kind == FX_VAL_FLOAT;
  case TYPE_BOOL:
  case TYPE_SYM_BOOL:
    return val->kind == FX_VAL_BOOL;
  case TYPE_NUMBER:
    return val->kind == FX_VAL_INT || val->kind == FX_VAL_FLOAT || val->kind == FX_VAL_BOOL;
  default:
    return true;
  }
}

static void check_kinds(verifier *v, const fx_node *n, const schema *sc)
{
  const fx_val *val = n->val;

  if (!val || sc->is_varret)
    return;
  if (sc->n_returns == 0)
    verify_fault(v, RULE_VALUE_KIND, n, "expected no value of %s, found %s", n->target,
                 verify_val_kind(val));
  if (sc->n_returns == 1 && !is_kind_of(val, sc->returns[0].type))
    verify_fault(v, RULE_VALUE_KIND, n, "expected a result of %s to be a %s, found %s", n->target,
                 verify_type_text(v->s, sc->returns[0].type), verify_val_kind(val));
  if (sc->n_returns <= 1)
    return;
  if (val->kind != FX_VAL_LIST || val->n != sc->n_returns) {
    verify_fault(v, RULE_VALUE_KIND, n, "expected %u results of %s, found %s of %u", sc->n_returns,
                 n->target, verify_val_kind(val), val->kind == FX_VAL_LIST ? val->n : 1);
    return;
  }
  for (uint32_t i = 0; i < val->n; i++)
    if (!is_kind_of(val->as.items[i], sc->returns[i].type))
      verify_fault(v, RULE_VALUE_KIND, n, "expected result %u of %s to be a %s, found %s", i,
                   n->target, verify_type_text(v->s, sc->returns[i].type),
                   verify_val_kind(val->as.items[i]));
}

void verify_getitem(verifier *v, const fx_node *n)
{
  const fx_val *of = n->n_args == 2 ? verify_val_of(&n->args[0]) : NULL;

  if (n->n_args != 2 || n->n_kwargs || n->args[0].kind != FX_NODE || n->args[1].kind != FX_INT) {
    verify_fault(v, RULE_VALUE_ITEM, n, "expected a value and a number as arguments of getitem");
    return;
  }
  const int64_t i = n->args[1].as.i;
  if (!of)
    return;
  if (of->kind != FX_VAL_LIST || i < 0 || i >= of->n)
    verify_fault(v, RULE_VALUE_ITEM, n, "expected a result of '%s', found item %lld of %s of %u",
                 n->args[0].as.node->name, (long long)i, verify_val_kind(of),
                 of->kind == FX_VAL_LIST ? of->n : 1);
  else if (of->as.items[i] && n->val && of->as.items[i]->kind != n->val->kind)
    verify_fault(v, RULE_VALUE_ITEM, n, "expected %s, as item %lld of '%s' is described, found %s",
                 verify_val_kind(of->as.items[i]), (long long)i, n->args[0].as.node->name,
                 verify_val_kind(n->val));
}

/* -- Shapes ------------------------------------------------------------------------------------ */

typedef struct shape_try {
  const fx_node *n;
  const op *o;
  shape_arg *args;
  bool any_dtype;   /* autocast chooses dtypes itself */
  const char *what; /* differs: "dtype", "number of dimensions", "size"; NULL: nothing does */
  int64_t expected, found;
} shape_try;

static bool number_of(const fx_number *n, int64_t *out)
{
  *out = n->value.i;
  return n->has_value;
}

bool verify_vals_agree(const fx_val *a, const fx_val *b, bool any_dtype)
{
  if (!a || !b)
    return true;
  if (a->kind != FX_VAL_TENSOR || b->kind != FX_VAL_TENSOR)
    return a->kind != FX_VAL_TENSOR && b->kind != FX_VAL_TENSOR;
  const fx_tensor *t = a->as.tensor, *u = b->as.tensor;
  int64_t x, y;

  if ((!any_dtype && t->dtype != u->dtype) || t->n_dims != u->n_dims)
    return false;
  for (uint32_t i = 0; i < t->n_dims; i++)
    if (number_of(&t->sizes[i], &x) && number_of(&u->sizes[i], &y) && x != y)
      return false;
  return true;
}

/* Make facts of a described tensor; returns false if a size has no example. */
static bool facts_of(session *s, const fx_val *val, shape_facts *out)
{
  if (!val || val->kind != FX_VAL_TENSOR)
    return false;
  const fx_tensor *t = val->as.tensor;
  if (t->n_dims != t->n_strides || t->layout != 0 || t->dtype < 0 || t->n_dims > TENSOR_MAX_DIMS)
    return false;
  *out = (shape_facts){.dtype = (int16_t)t->dtype, .n_dims = (int)t->n_dims, .alias = -1};
  out->sizes = session_array(s, int64_t, 2 * (size_t)t->n_dims + 1);
  out->strides = out->sizes + t->n_dims;
  for (uint32_t i = 0; i < t->n_dims; i++)
    if (!number_of(&t->sizes[i], &out->sizes[i]) || !number_of(&t->strides[i], &out->strides[i]))
      return false;
  return number_of(&t->offset, &out->offset);
}

/* Make facts of a number that is given for a tensor; returns false for others. */
static bool number_facts(session *s, const fx_arg *a, shape_facts *out)
{
  const fx_val *val = verify_val_of(a);
  const fx_val_kind kind = val ? val->kind : FX_VAL_CONSTANT;
  int dtype = DTYPE_NONE;

  if (a->kind == FX_INT || kind == FX_VAL_INT)
    dtype = RUSH_INT64;
  else if (a->kind == FX_FLOAT || kind == FX_VAL_FLOAT)
    dtype = RUSH_FLOAT64;
  else if (a->kind == FX_BOOL || kind == FX_VAL_BOOL)
    dtype = RUSH_BOOL;
  *out = (shape_facts){.dtype = (int16_t)dtype, .flags = SHAPE_WRAPPED, .alias = -1};
  out->sizes = out->strides = session_array(s, int64_t, 1);
  return dtype != DTYPE_NONE;
}

static bool tensors_of(session *s, const fx_arg *a, shape_arg *out)
{
  const verify_items items = verify_items_of(a);

  out->tensors = session_array(s, shape_facts, (size_t)items.n + 1);
  out->n = items.n;
  for (uint32_t i = 0; i < items.n; i++)
    if (items.items[i].kind == FX_NONE)
      out->tensors[i] = (shape_facts){.dtype = DTYPE_NONE, .alias = -1};
    else if (!number_facts(s, &items.items[i], &out->tensors[i]) &&
             !facts_of(s, verify_val_of(&items.items[i]), &out->tensors[i]))
      return false;
  return true;
}

/* Get an int that is given, or the example of a symbolic one. */
static bool int_of(const fx_arg *a, int64_t *out)
{
  const fx_val *val = verify_val_of(a);

  if (a->kind == FX_INT)
    *out = a->as.i;
  return a->kind == FX_INT || (val && val->kind == FX_VAL_INT && number_of(val->as.number, out));
}

static void drop_held(void *p) { value_release(*(rush_value *)p); }

static bool ints_of(session *s, const schema_arg *to, const fx_arg *a, shape_arg *out)
{
  const verify_items items = verify_items_of(a);
  const uint32_t n = to->fixed_len && items.n == 1 ? (uint32_t)to->fixed_len : items.n;
  rush_value *held = session_new(s, rush_value);

  out->ints = session_array(s, int64_t, (size_t)n + 1);
  out->n = n;
  for (uint32_t i = 0; i < n; i++)
    if (!int_of(&items.items[i < items.n ? i : 0], &out->ints[i]))
      return false;
  if (n > TENSOR_MAX_DIMS)
    return false;
  session_check(s, list_of_ints(s->cx, out->ints, n, held));
  session_defer(s, drop_held, held);
  out->value = *held;
  return true;
}

static bool is_either(const type *t, type_kind a, type_kind b)
{
  return t->kind == a || t->kind == b;
}

/* Make an argument for the rule; returns false if that is not possible here. */
static bool make_arg(session *s, const schema_arg *to, const fx_arg *a, shape_arg *out)
{
  const type *t = to->type->kind == TYPE_OPTIONAL ? to->type->elems[0] : to->type;
  const type *item = t->kind == TYPE_LIST ? t->elems[0] : t;

  item = item->kind == TYPE_OPTIONAL ? item->elems[0] : item;
  out->value = value_none();
  if (a->kind == FX_NONE)
    return true;
  if (item->kind == TYPE_TENSOR)
    return tensors_of(s, a, out);
  if (t->kind == TYPE_LIST && is_either(item, TYPE_INT, TYPE_SYM_INT))
    return ints_of(s, to, a, out);
  if (is_either(t, TYPE_INT, TYPE_SYM_INT)) {
    out->ints = session_array(s, int64_t, 1);
    out->n = 1;
    const bool is_known = int_of(a, out->ints);
    out->value = value_int(out->ints[0]);
    return is_known;
  }
  if (a->kind == FX_BOOL)
    out->value = value_bool(a->as.b);
  else if (a->kind == FX_FLOAT)
    out->value = value_float(a->as.f);
  else if (a->kind == FX_INT || a->kind == FX_DTYPE || a->kind == FX_LAYOUT ||
           a->kind == FX_MEMORY_FORMAT)
    out->value = value_int(a->as.i);
  else
    return a->kind == FX_DEVICE;
  return true;
}

/* Make a default of the schema's an argument. */
static bool make_default(session *s, const schema_arg *to, shape_arg *out)
{
  const rush_value d = to->default_value;

  out->value = d;
  if (d.tag == RUSH_TAG_INT) {
    out->ints = session_array(s, int64_t, 1);
    out->ints[0] = d.as.i;
    out->n = 1;
  } else if (d.tag == RUSH_TAG_LIST) {
    out->ints = session_array(s, int64_t, d.as.list->n + 1);
    out->n = (uint32_t)d.as.list->n;
    for (uint32_t i = 0; i < out->n; i++) {
      if (d.as.list->items[i].tag != RUSH_TAG_INT)
        return false;
      out->ints[i] = d.as.list->items[i].as.i;
    }
  }
  return true;
}

static const fx_arg *given_arg(const fx_node *n, const schema *sc, uint32_t at)
{
  if (at < n->n_args)
    return &n->args[at];
  for (uint32_t i = 0; i < n->n_kwargs; i++)
    if (str_is(n->kwargs[i].name, sc->args[at].name))
      return &n->kwargs[i].arg;
  return NULL;
}

static bool make_args(session *s, shape_try *job)
{
  const schema *sc = job->o->schema;

  job->args = session_array(s, shape_arg, (size_t)sc->n_args + 1);
  for (uint32_t i = 0; i < sc->n_args; i++) {
    const fx_arg *a = given_arg(job->n, sc, i);
    if (a ? !make_arg(s, &sc->args[i], a, &job->args[i])
          : !make_default(s, &sc->args[i], &job->args[i]))
      return false;
  }
  return true;
}

static void note_difference(shape_try *job, const char *what, int64_t expected, int64_t found)
{
  if (job->what || expected == found)
    return;
  job->what = what;
  job->expected = expected;
  job->found = found;
}

/* Compare a result with its description. */
static void compare(shape_try *job, const shape_facts *r, const fx_val *val)
{
  const fx_tensor *t = val && val->kind == FX_VAL_TENSOR ? val->as.tensor : NULL;

  if (!t || r->dtype == DTYPE_NONE)
    return;
  if (!job->any_dtype)
    note_difference(job, "dtype", r->dtype, t->dtype);
  note_difference(job, "number of dimensions", r->n_dims, t->n_dims);
  for (int i = 0; i < r->n_dims && !job->what; i++) {
    int64_t size;
    if (number_of(&t->sizes[i], &size) && r->sizes[i] >= 0)
      note_difference(job, "size", r->sizes[i], size);
  }
}

static void try_shape(session *s, void *arg)
{
  shape_try *job = arg;
  const fx_val *val = job->n->val;
  const schema *sc = job->o->schema;

  if (!make_args(s, job))
    return;
  shape_call call = {.schema = sc, .args = job->args};
  op_shape(s, job->o, &call);
  for (uint32_t i = 0; i < call.n_results; i++) {
    const shape_facts *r = call.results[i];
    const bool is_list = sc->returns[r->result].type->kind == TYPE_LIST;
    if (val->kind == FX_VAL_LIST && !(is_list && sc->n_returns > 1)) {
      const uint32_t at = is_list ? i : r->result;
      compare(job, r, at < val->n ? val->as.items[at] : NULL);
    } else if (sc->n_returns == 1 && !is_list) {
      compare(job, r, val);
    }
  }
}

/* A refusal of the rule is no fault: it may be stricter than PyTorch about an example. */
static void check_shape(verifier *v, const fx_node *n, const op *o)
{
  shape_try job = {.n = n, .o = o, .any_dtype = v->is_autocast};
  const char *why;

  if (o->outside || !op_has_shape(o) || n->n_args > o->schema->n_args)
    return;
  if (!verify_try(v, try_shape, &job, &why) || !job.what)
    return;
  if (strcmp(job.what, "dtype") == 0)
    verify_fault(v, RULE_VALUE_SHAPE, n, "expected the dtype %s of %s, found %s",
                 dtype_name((int)job.expected), n->target, dtype_name((int)job.found));
  else
    verify_fault(v, RULE_VALUE_SHAPE, n, "expected the %s %lld of %s, found %lld", job.what,
                 (long long)job.expected, n->target, (long long)job.found);
}

/* -- A node ------------------------------------------------------------------------------------ */

void verify_value(verifier *v, const fx_node *n, const op *o)
{
  const uint32_t n_faults = v->n_faults;

  if (n->val)
    check_val(v, n, n->val);
  else if (!n->returns_none && !(o && o->schema->n_returns == 0))
    verify_fault(v, RULE_VALUE_MISSING, n, "expected to know what the value is, found nothing");
  if (!o)
    return;
  if (n->returns_none && o->schema->n_returns)
    verify_fault(v, RULE_VALUE_KIND, n, "expected a result of %s, found None", n->target);
  check_kinds(v, n, o->schema);
  if (n->val && v->n_faults == n_faults)
    check_shape(v, n, o);
}

/* -- Metadata ---------------------------------------------------------------------------------- */

static void read_metadata(session *s, void *arg)
{
  const fx_node *n = arg;
  const input in = {"metadata", n->metadata};
  str key;
  json j;

  json_init(&j, s, &in);
  for (json_begin_object(&j); json_next_key(&j, &key);)
    (void)json_string(&j);
  json_end(&j);
}

void verify_metadata(verifier *v, const fx_node *n)
{
  const char *why;

  if (n->metadata.len && !verify_try(v, read_metadata, (void *)(uintptr_t)n, &why))
    verify_fault(v, RULE_METADATA, n, "expected an object of strings: %s", why);
}

/* -- Ranges ------------------------------------------------------------------------------------ */

void verify_ranges(verifier *v)
{
  for (uint32_t i = 0; i < v->p->n_ranges; i++) {
    const exported_bounds *b = &v->p->ranges[i];
    session_table_put(v->s, &v->ranges, b->text, (void *)(uintptr_t)b);
    if (b->has_min && b->has_max && b->min > b->max)
      verify_fault(v, RULE_RANGE_EMPTY, NULL,
                   "expected a range of %.*s that is not empty, found %lld to %lld",
                   (int)b->text.len, b->text.p, (long long)b->min, (long long)b->max);
  }
}
