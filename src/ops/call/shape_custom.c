/* ops/call/shape_custom.c -- shape functions of external operators: one C function, run over
 * numbers and over symbols.
 *
 * It is a callback, so no jump may cross it: each function of the table that can fail runs inside a
 * border of its own, which allocates in the query's arena.  The first failure is kept: later
 * functions return the number 0, and the query fails with it. */
#include "ops/call/shape.h"

struct rush_size { /* in the question's arena */
  int64_t n;       /* over numbers; SHAPE_UNKNOWN: it depends on data */
  symint e;        /* over symbols */
};

struct rush_shape {
  session *s; /* the question's */
  const op *o;
  shape_call *plain;     /* one of the two */
  symshape_call *symbolic;
  sym_env *env;
  uint32_t next;      /* the first result that was not given yet */
  rush_status failed; /* the first failure, which is in cx->err */
};

static const rush_size zero = {0, NULL};

/* -- Behind a border --------------------------------------------------------------------------- */

typedef struct step {
  rush_shape *q;
  void (*body)(session *s, struct step *t);
  uint32_t arg, item;
  int dim, what; /* rush_size_op or rush_size_relation, a dtype */
  int64_t n;
  const rush_size *a, *b, *const *sizes;
  rush_size *made;
  bool holds;
} step;

static void step_body(session *s, void *arg)
{
  step *t = arg;
  session inner = *s;

  inner.mem = t->q->s->mem; /* its objects live as long as the query */
  if (t->q->env)
    t->q->env->s = &inner;
  t->body(&inner, t);
}

static bool run_step(rush_shape *q, step *t)
{
  t->q = q;
  if (q->failed == RUSH_OK) {
    q->failed = session_run(q->s->cx, step_body, t);
    if (q->env)
      q->env->s = q->s;
  }
  return q->failed == RUSH_OK;
}

static const rush_size *made_by(rush_shape *q, step t)
{
  return run_step(q, &t) ? t.made : &zero;
}

static rush_size *new_size(session *s, int64_t n, symint e)
{
  rush_size *r = session_new(s, rush_size);

  *r = (rush_size){n, e};
  return r;
}

/* Return a size as a formula: the number returned after a failure has none. */
static symint formula(const rush_shape *q, const rush_size *a)
{
  return a->e ? a->e : sym_const(q->env, a->n);
}

/* -- Arguments --------------------------------------------------------------------------------- */

static _Noreturn void no_tensor(session *s, const step *t)
{
  session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                      "the shape function of %s asks for tensor %u of argument %u: there is none",
                      t->q->o->schema->name, t->item, t->arg);
}

size_t shape_fn_n_tensors(rush_shape *q, size_t arg)
{
  if (arg >= q->o->schema->n_args)
    return 0;
  if (q->plain)
    return q->plain->args[arg].tensors && q->plain->args[arg].tensors->dtype != DTYPE_NONE
             ? q->plain->args[arg].n
             : 0;
  return q->symbolic->args[arg].tensors && q->symbolic->args[arg].tensors->dtype != DTYPE_NONE
           ? q->symbolic->args[arg].n
           : 0;
}

static void find_n_dims(session *s, step *t)
{
  if (t->item >= shape_fn_n_tensors(t->q, t->arg))
    no_tensor(s, t);
  t->n = t->q->plain ? t->q->plain->args[t->arg].tensors[t->item].n_dims
                     : t->q->symbolic->args[t->arg].tensors[t->item].n_dims;
  t->what = t->q->plain ? t->q->plain->args[t->arg].tensors[t->item].dtype
                        : t->q->symbolic->args[t->arg].tensors[t->item].dtype;
}

int shape_fn_n_dims(rush_shape *q, size_t arg, size_t item)
{
  step t = {.body = find_n_dims, .arg = (uint32_t)arg, .item = (uint32_t)item};

  return run_step(q, &t) ? (int)t.n : 0;
}

rush_dtype shape_fn_dtype(rush_shape *q, size_t arg, size_t item)
{
  step t = {.body = find_n_dims, .arg = (uint32_t)arg, .item = (uint32_t)item};

  return run_step(q, &t) ? (rush_dtype)t.what : RUSH_FLOAT32;
}

static void find_size(session *s, step *t)
{
  find_n_dims(s, t);
  int dim = t->dim < 0 ? t->dim + (int)t->n : t->dim;
  if (dim < 0 || dim >= t->n)
    session_fail_status(s, RUSH_ERAISED, "IndexError", NULL,
                        "%s: dimension %d of a tensor of %d dimensions", t->q->o->schema->name,
                        t->dim, (int)t->n);
  if (t->q->plain)
    t->made = new_size(s, t->q->plain->args[t->arg].tensors[t->item].sizes[dim], NULL);
  else
    t->made = new_size(s, 0, t->q->symbolic->args[t->arg].tensors[t->item].sizes[dim]);
}

const rush_size *shape_fn_size(rush_shape *q, size_t arg, size_t item, int dim)
{
  return made_by(
    q, (step){.body = find_size, .arg = (uint32_t)arg, .item = (uint32_t)item, .dim = dim});
}

static void find_int(session *s, step *t)
{
  const rush_shape *q = t->q;
  uint32_t n = t->arg >= q->o->schema->n_args ? 0
               : q->plain                     ? q->plain->args[t->arg].n
                                              : q->symbolic->args[t->arg].n;

  if (t->item >= n || !(q->plain ? (const void *)q->plain->args[t->arg].ints
                                 : (const void *)q->symbolic->args[t->arg].ints))
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "the shape function of %s asks for int %u of argument %u: there is none",
                        q->o->schema->name, t->item, t->arg);
  t->made = q->plain ? new_size(s, q->plain->args[t->arg].ints[t->item], NULL)
                     : new_size(s, 0, q->symbolic->args[t->arg].ints[t->item]);
}

const rush_size *shape_fn_int(rush_shape *q, size_t arg, size_t item)
{
  return made_by(q, (step){.body = find_int, .arg = (uint32_t)arg, .item = (uint32_t)item});
}

/* Add guards for ints: a function that reads one as a number fixes its value. */
static void fix_ints(session *s, step *t)
{
  const symshape_arg *a = &t->q->symbolic->args[t->arg];
  int64_t k;

  for (uint32_t i = 0; a->ints && i < a->n; i++)
    if (!sym_fix(t->q->env, a->ints[i], &k))
      session_fail(
        s, NULL,
        "%s: its shape function needs the value of a number that depends on data",
        t->q->o->schema->name);
}

rush_value shape_fn_arg(rush_shape *q, size_t arg)
{
  step t = {.body = fix_ints, .arg = (uint32_t)arg};

  if (arg >= q->o->schema->n_args || (q->symbolic && !run_step(q, &t)))
    return value_none();
  rush_value v = q->plain ? q->plain->args[arg].value : q->symbolic->args[arg].value;
  return v.tag == RUSH_TAG_TENSOR ? value_none() : v;
}

/* -- Sizes ------------------------------------------------------------------------------------- */

static void make_number(session *s, step *t)
{
  t->made = new_size(s, t->n, t->q->env ? sym_const(t->q->env, t->n) : NULL);
}

const rush_size *shape_fn_number(rush_shape *q, int64_t n)
{
  return made_by(q, (step){.body = make_number, .n = n});
}

static void make_unknown(session *s, step *t)
{
  t->made = new_size(s, SHAPE_UNKNOWN, t->q->env ? sym_fresh(t->q->env, 0, SYM_INF) : NULL);
}

const rush_size *shape_fn_unknown(rush_shape *q)
{
  return made_by(q, (step){.body = make_unknown});
}

static int64_t calculate(session *s, int op, int64_t a, int64_t b)
{
  int64_t r = 0;
  bool fits = true;

  switch ((rush_size_op)op) {
  case RUSH_SIZE_ADD: fits = !__builtin_add_overflow(a, b, &r); break;
  case RUSH_SIZE_SUB: fits = !__builtin_sub_overflow(a, b, &r); break;
  case RUSH_SIZE_MUL: fits = !__builtin_mul_overflow(a, b, &r); break;
  case RUSH_SIZE_MIN: r = i64_min(a, b); break;
  case RUSH_SIZE_MAX: r = i64_max(a, b); break;
  case RUSH_SIZE_DIV:
  case RUSH_SIZE_MOD:
    if (b == 0)
      session_fail_status(s, RUSH_ERAISED, "ZeroDivisionError", NULL,
                          "integer division or modulo by zero");
    fits = a != INT64_MIN || b != -1;
    if (fits)
      r = op == RUSH_SIZE_DIV ? a / b - (a % b != 0 && (a < 0) != (b < 0))
                              : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    break;
  default:
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "there is no calculation %d of sizes", op);
  }
  if (!fits)
    session_fail_status(s, RUSH_ERAISED, NULL, NULL, "a size that does not fit into 64 bits");
  return r;
}

static symint derive(session *s, sym_env *env, int op, symint a, symint b)
{
  switch ((rush_size_op)op) {
  case RUSH_SIZE_ADD: return sym_add(env, a, b);
  case RUSH_SIZE_SUB: return sym_sub(env, a, b);
  case RUSH_SIZE_MUL: return sym_mul(env, a, b);
  case RUSH_SIZE_DIV: return sym_floordiv(env, a, b);
  case RUSH_SIZE_MOD: return sym_mod(env, a, b);
  case RUSH_SIZE_MIN: return sym_min(env, a, b);
  case RUSH_SIZE_MAX: return sym_max(env, a, b);
  }
  session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "there is no calculation %d of sizes", op);
}

static void find_result_of(session *s, step *t)
{
  const rush_shape *q = t->q;

  if (q->env)
    t->made = new_size(s, 0, derive(s, q->env, t->what, formula(q, t->a), formula(q, t->b)));
  else if (t->a->n == SHAPE_UNKNOWN || t->b->n == SHAPE_UNKNOWN)
    t->made = new_size(s, SHAPE_UNKNOWN, NULL);
  else
    t->made = new_size(s, calculate(s, t->what, t->a->n, t->b->n), NULL);
}

const rush_size *shape_fn_calc(rush_shape *q, rush_size_op op, const rush_size *a,
                               const rush_size *b)
{
  return made_by(q, (step){.body = find_result_of, .what = (int)op, .a = a, .b = b});
}

static void compare_sizes(session *s, step *t)
{
  const rush_shape *q = t->q;

  if (t->what != RUSH_SIZE_EQ && t->what != RUSH_SIZE_LE && t->what != RUSH_SIZE_LT)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "there is no relation %d of sizes", t->what);
  if (q->env) {
    symint a = formula(q, t->a), b = formula(q, t->b);
    t->holds = sym_decide(q->env, t->what == RUSH_SIZE_EQ   ? sym_eq(q->env, a, b)
                                  : t->what == RUSH_SIZE_LE ? sym_le(q->env, a, b)
                                                            : sym_lt(q->env, a, b));
    return;
  }
  if (t->a->n == SHAPE_UNKNOWN || t->b->n == SHAPE_UNKNOWN)
    session_fail(s, NULL, "%s: its shape hangs on a size that only data tells", q->o->schema->name);
  t->holds = t->what == RUSH_SIZE_EQ   ? t->a->n == t->b->n
             : t->what == RUSH_SIZE_LE ? t->a->n <= t->b->n
                                       : t->a->n < t->b->n;
}

bool shape_fn_holds(rush_shape *q, rush_size_relation rel, const rush_size *a, const rush_size *b)
{
  step t = {.body = compare_sizes, .what = (int)rel, .a = a, .b = b};

  return run_step(q, &t) && t.holds;
}

/* -- Results ----------------------------------------------------------------------------------- */

/* Results come in order; only a Tensor must come, exactly once. */
static void need_results_before(session *s, rush_shape *q, uint32_t result)
{
  const schema *sc = q->o->schema;

  if (result < q->next)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "the shape function of %s sets result %u out of order", sc->name, result);
  for (uint32_t i = q->next; i < result; i++)
    if (type_is(sc->returns[i].type, TYPE_TENSOR))
      session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                          "the shape function of %s does not give result %u", sc->name, i);
}

static void add_result(session *s, step *t)
{
  rush_shape *q = t->q;
  int n = t->dim;

  if (t->arg >= q->o->schema->n_returns || n < 0 || n > TENSOR_MAX_DIMS || !dtype_is_valid(t->what))
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "the shape function of %s sets result %u of dtype %d with %d dimensions",
                        q->o->schema->name, t->arg, t->what, n);
  need_results_before(s, q, t->arg);
  q->next = t->arg + type_is(q->o->schema->returns[t->arg].type, TYPE_TENSOR);
  int64_t *sizes = session_array(s, int64_t, (size_t)n + 1);
  symint *formulas = session_array(s, symint, (size_t)n + 1);
  for (int i = 0; i < n; i++) {
    sizes[i] = t->sizes[i]->n;
    if (q->env)
      formulas[i] = formula(q, t->sizes[i]);
    else if (sizes[i] < 0 && sizes[i] != SHAPE_UNKNOWN)
      session_fail(s, NULL, "%s: dimension %d of result %u has the size %lld", q->o->schema->name,
                   i, t->arg, (long long)sizes[i]);
  }
  if (q->env)
    symshape_add_dense(s, q->env, q->symbolic, t->arg, t->what, n, formulas);
  else
    shape_add_dense(s, q->plain, t->arg, t->what, n, sizes);
}

rush_status shape_fn_add_result(rush_shape *q, size_t result, rush_dtype dtype, int n_dims,
                                const rush_size *const *sizes)
{
  step t = {.body = add_result,
            .arg = (uint32_t)result,
            .what = (int)dtype,
            .dim = n_dims,
            .sizes = sizes};

  (void)run_step(q, &t);
  return q->failed;
}

rush_status shape_fn_fail(rush_shape *q, const char *type, const char *fmt, va_list ap)
{
  if (q->failed == RUSH_OK)
    q->failed = error_set_va(q->s->cx->err, RUSH_ERAISED, type ? type : "RuntimeError", fmt, ap);
  return q->failed;
}

/* -- The question ------------------------------------------------------------------------------ */

static void run_shape_fn(rush_shape *q)
{
  rush_status st = q->o->outside->shape_fn(q, q->o->outside->user);

  session_check(q->s, q->failed);
  session_check(
    q->s, error_of_callback(q->s->cx->err, st, "the shape function of %s", q->o->schema->name));
  need_results_before(q->s, q, q->o->schema->n_returns);
}

void op_shape_custom(session *s, const op *o, shape_call *call)
{
  call->schema = o->schema;
  run_shape_fn(&(rush_shape){.s = s, .o = o, .plain = call});
}

void op_symshape_custom(session *s, sym_env *env, const op *o, symshape_call *call)
{
  call->schema = o->schema;
  run_shape_fn(&(rush_shape){.s = s, .o = o, .symbolic = call, .env = env});
  symshape_finish(env, call);
}
