/* export/lower_guards.c -- the conditions that a call of an exported program must satisfy:
 * those that PyTorch's ep.module() checks, in its order, so that the first failure has the same
 * message. Ranges and equal symbols of input sizes come first, then constants, what sizes that are
 * formulas of one symbol say of each other, and the expressions that the tracer found. They are
 * expressions over the inputs and are evaluated at each call. */
#include "export/lower_int.h"
#include "base/grow.h"

#define LONGEST_NAME 1000 /* of a parameter that *args became */

typedef struct guard_list {
  const guard **g;
  uint32_t n, cap;
} guard_list;

/* A size that is a formula of one symbol. */
typedef struct derived_size {
  const guard_source *at;
  const expression *formula;
  struct derived_size *next;
} derived_size;
typedef struct guard_reader {
  lowering *lo;
  guard_list out;
  derived_size *derived, **last_derived;
  table solved;        /* symbol of no size -> linear_size */
  table ranges;        /* symbol of a size, or a formula -> exported_bounds */
  table sources;       /* the same -> where it was first: a guard_source */
} guard_reader;

/* -- Conditions -------------------------------------------------------------------------------- */

static void push(guard_reader *q, const guard *g)
{
  guard_list *l = &q->out;

  GROW(q->lo->s, l->g, l->n, l->cap, 16);
  l->g[l->n++] = g;
}

/* Compare a source with another one, or with `number` (b NULL). */
static void add_comparison(guard_reader *q, expression_kind relation, const guard_source *a,
                           const guard_source *b, int64_t number)
{
  push(q, guard_compare(q->lo->s, &q->lo->program->mem, relation, a, b, number));
}

/* Append the input of this leaf as code: L['x'][0]['k']. */
static void put_leaf_source(text_buf *out, const char *leaf_name)
{
  const size_t n = strcspn(leaf_name, "[.");

  text_printf(out, "L['%.*s']%s", (int)n, leaf_name, leaf_name + n);
}

/* Return L['x'].size()[0]; the session's. */
static str source_code(guard_reader *q, const guard_source *at)
{
  text_buf *t = session_text(q->lo->s);

  put_leaf_source(t, q->lo->e->leaf_names[at->leaf]);
  if (at->dim >= 0)
    text_printf(t, ".size()[%lld]", (long long)at->dim);
  return str_of(session_take_text(q->lo->s, t));
}

/* Add a condition in Python; `original` is the file's. */
static void add_code(guard_reader *q, const text_buf *code, const char *original)
{
  lowering *lo = q->lo;

  if (text_failed(code))
    session_check(lo->s, call_nomem(lo->s->cx));
  const guard *g = guard_parse(lo->s, &lo->program->mem, lo->e, text_str(code));
  if (g)
    push(q, g);
  else
    context_warn(lo->s->cx->ctx,
                 session_printf(lo->s, "%s: the guard %s is not understood and not checked",
                                lo->data->place, original));
}

/* -- Inputs ------------------------------------------------------------------------------------ */

/* Add guards on size `dim` of a leaf, or with dim < 0 on an int argument: its number, or the range
 * and the other uses of its symbol. */
static void guard_size(guard_reader *q, const exported_meta *meta, uint32_t leaf, int64_t dim)
{
  const int64_t i = dim < 0 ? 0 : dim;
  const rush_signature_size *size = &meta->sizes[i];

  guard_source *here = session_new(q->lo->s, guard_source);
  *here = guard_source_of(q->lo->s, &q->lo->program->mem, q->lo->e, leaf, dim);
  if (!size->symbol) {
    add_comparison(q, EXPRESSION_EQ, here, NULL, size->value);
    return;
  }
  const str symbol = str_of(size->symbol);
  const exported_bounds *limits = table_get(&q->ranges, symbol);
  if (!limits)
    return;
  if (meta->computed >> i & 1) {
    derived_size *d = session_new(q->lo->s, derived_size);
    *d = (derived_size){.at = here, .formula = limits->expr};
    *q->last_derived = d;
    q->last_derived = &d->next;
  }
  const guard_source *first = table_get(&q->sources, symbol);
  if (first) {
    add_comparison(q, EXPRESSION_EQ, here, first, 0);
    return;
  }
  session_table_put(q->lo->s, &q->sources, symbol, here);
  if (limits->has_min && limits->min > 2)
    add_comparison(q, EXPRESSION_GE, here, NULL, limits->min);
  if (limits->has_max)
    add_comparison(q, EXPRESSION_LE, here, NULL, limits->max);
}

/* Add the guard that a leaf has its original value; None is not checked, as in PyTorch. */
static void guard_constant(guard_reader *q, uint32_t leaf)
{
  const rush_value *v = &q->lo->e->leaf_constants[leaf];
  guard *g = lower_keep_array(q->lo, 1, sizeof *g);
  text_buf *t = session_text(q->lo->s);

  if (v->tag == RUSH_TAG_NONE)
    return;
  g->leaf = leaf;
  g->constant = v;
  text_printf(t, "%s == ", q->lo->e->leaf_names[leaf]);
  session_check(q->lo->s, value_repr(q->lo->s->cx, t, *v));
  g->text = lower_keep_text(q->lo, str_of(session_take_text(q->lo->s, t)));
  push(q, g);
}

static void guard_inputs(guard_reader *q)
{
  const exported *e = q->lo->e;

  for (uint32_t leaf = 0; leaf < e->n_leaves; leaf++) {
    const exported_meta *meta = e->leaf_metas[leaf];
    if (e->leaf_constants[leaf].tag != RUSH_TAG_UNSET)
      guard_constant(q, leaf);
    else if (meta && !meta->is_tensor)
      guard_size(q, meta, leaf, -1);
    else
      for (int dim = 0; meta && dim < meta->n_dims; dim++)
        guard_size(q, meta, leaf, dim);
  }
}

/* -- Formulas whose symbol is no size ---------------------------------------------------------- */

/* A size that is k * symbol + b. */
typedef struct linear_size {
  const guard_source *at;
  int64_t k, b;
} linear_size;
typedef struct linear_job {
  const expression *formula;
  str symbol;
  uint32_t n_symbols;
  symint value; /* of the symbol */
  linear_size *out;
} linear_job;

static void note_symbol(void *arg, const expression *symbol)
{
  linear_job *job = arg;

  job->symbol = symbol->name;
  job->n_symbols++;
}

static symint give_symbol(void *arg, const expression *symbol)
{
  (void)symbol;
  return ((linear_job *)arg)->value;
}

static void find_linear(session *s, void *arg)
{
  linear_job *job = arg;
  sym_env *env = sym_env_new(s);

  job->value = sym_fresh(env, SYM_NEG_INF, SYM_INF);
  symint e = expression_to_symint(env, job->formula, give_symbol, job);
  if (!e || e->n_terms != 1 || e->terms[0].degree != 1 || e->terms[0].atoms[0]->kind != SYM_SYMBOL)
    return;
  job->out->k = e->terms[0].coef;
  job->out->b = e->k;
}

/* Return k and b of a formula, k 0 if it is not linear: overflow and the like count as that. */
static linear_size linear_of(session *s, linear_job *job, const guard_source *at)
{
  linear_size found = {.at = at};
  rush_error err = RUSH_ERROR_INIT, *outer = s->cx->err;

  job->out = &found;
  s->cx->err = &err;
  const rush_status st = session_run(s->cx, find_linear, job);
  s->cx->err = outer;
  rush_error_clear(&err);
  if (st == RUSH_ENOMEM)
    session_check(s, call_nomem(s->cx));
  return found;
}

/* Add "(1 + 2*L['x'].size()[0]) == L['y'].size()[0]": `size` by what the symbol is in `known`. */
static void add_solved(guard_reader *q, const linear_size *known, const linear_size *size)
{
  session *s = q->lo->s;
  text_buf *code = session_text(s);
  int64_t product, rest;

  if ((size->k == known->k && size->b == known->b) || /* their sizes are compared already */
      __builtin_mul_overflow(size->k, known->b, &product) ||
      __builtin_mul_overflow(size->b, known->k, &rest) ||
      __builtin_sub_overflow(rest, product, &rest))
    return;
  const expression *x = expression_symbol(s, s->mem, source_code(q, known->at), (str){0});
  const expression *factors[] = {expression_rational(s, s->mem, size->k, known->k), x};
  const expression *terms[] = {
    expression_rational(s, s->mem, rest, known->k),
    size->k == known->k ? x : expression_call(s, s->mem, EXPRESSION_MUL, 2, factors)};
  const expression *sides[] = {
    rest ? expression_call(s, s->mem, EXPRESSION_ADD, 2, terms) : terms[1],
    expression_symbol(s, s->mem, source_code(q, size->at), (str){0})};
  expression_print_python(s, code, expression_call(s, s->mem, EXPRESSION_EQ, 2, sides), NULL, NULL);
  add_code(q, code, text_str(code));
}

/* Add what sizes that are formulas of the same symbol say of each other, if it is the size of no
 * input itself: 2*s0 and 2*s0 + 1. */
static void guard_derived(guard_reader *q)
{
  session *s = q->lo->s;

  for (const derived_size *d = q->derived; d; d = d->next) {
    linear_job job = {.formula = d->formula};
    expression_symbols(s, job.formula, note_symbol, &job);
    if (job.n_symbols != 1 || table_get(&q->sources, job.symbol))
      continue;
    linear_size *size = session_new(s, linear_size);
    *size = linear_of(s, &job, d->at);
    const linear_size *known = table_get(&q->solved, job.symbol);
    if (known && size->k)
      add_solved(q, known, size);
    else if (size->k)
      session_table_put(s, &q->solved, job.symbol, size);
  }
}

/* -- Conditions that the tracer found ---------------------------------------------------------- */

/* Read `digits]` at p; returns what follows, or NULL. */
static const char *read_index(const char *p, uint32_t *index)
{
  const char *first = p;

  for (*index = 0; *p >= '0' && *p <= '9' && p - first < 9; p++)
    *index = *index * 10 + (uint32_t)(*p - '0');
  return p > first && *p == ']' ? p + 1 : NULL;
}

static bool has_argument(const exported *e, const char *name)
{
  uint32_t i = 0;

  while (i < e->n_arg_names && strcmp(e->arg_names[i], name) != 0)
    i++;
  return i < e->n_arg_names;
}

/* Append the code with the names that inputs have in the program, as ep.module() does: strict
 * export counts all inputs (L['flat_args'][2]), and an item of *xs (L['xs'][0]) is the parameter
 * xs_0. */
static void put_renamed(session *s, const exported *e, text_buf *out, const char *code)
{
  for (const char *p; (p = strstr(code, "L['")) != NULL;) {
    const char *name = p + 3;
    const size_t n = strcspn(name, "'");
    uint32_t index = 0;
    const char *rest = n < LONGEST_NAME && strncmp(name + n, "'][", 3) == 0
                         ? read_index(name + n + 3, &index)
                         : NULL;
    const char *argument = rest ? session_printf(s, "%.*s_%u", (int)n, name, index) : NULL;
    text_add(out, code, (size_t)(p - code));
    if (rest && n == 9 && memcmp(name, "flat_args", n) == 0 && index < e->n_leaves)
      put_leaf_source(out, e->leaf_names[index]);
    else if (rest && has_argument(e, argument))
      put_leaf_source(out, argument);
    else
      text_add(out, p, (size_t)((rest = name) - p));
    code = rest;
  }
  text_puts(out, code);
}

static void guard_codes(guard_reader *q)
{
  lowering *lo = q->lo;

  for (uint32_t i = 0; i < lo->data->n_guards; i++) {
    text_buf *renamed = session_text(lo->s);
    put_renamed(lo->s, lo->e, renamed, lo->data->guards[i]);
    add_code(q, renamed, lo->data->guards[i]);
  }
}

void lower_guards(lowering *lo)
{
  guard_reader *q = session_new(lo->s, guard_reader);

  q->lo = lo;
  session_table_init(lo->s, &q->sources);
  session_table_init(lo->s, &q->ranges);
  session_table_init(lo->s, &q->solved);
  q->last_derived = &q->derived;
  for (uint32_t i = 0; i < lo->data->n_ranges; i++)
    session_table_put(lo->s, &q->ranges, lo->data->ranges[i].text, &lo->data->ranges[i]);
  guard_inputs(q);
  guard_derived(q);
  guard_codes(q);
  lo->e->guards = lower_keep_array(lo, q->out.n, sizeof *q->out.g);
  if (q->out.n)
    memcpy(lo->e->guards, q->out.g, q->out.n * sizeof *q->out.g);
  lo->e->n_guards = q->out.n;
}
