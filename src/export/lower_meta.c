/* export/lower_meta.c -- what callers see of the inputs and outputs of an exported program: dtypes,
 * sizes, ranges.  Variable sizes are expressions; their bounds follow from those of their symbols,
 * and are missing where nothing is known, never wrong.  Guards are made from the same descriptions
 * (lower_guards.c). */
#include "export/lower_int.h"

static const exported_bounds *range_of(lowering *lo, str text)
{
  for (uint32_t i = 0; i < lo->data->n_ranges; i++)
    if (str_eq(lo->data->ranges[i].text, text))
      return &lo->data->ranges[i];
  return NULL;
}

/* -- Bounds of formulas ------------------------------------------------------------------------ */

typedef struct bounds_job {
  lowering *lo;
  const expression *e;
  sym_env *env;
  table symbols; /* name -> symint */
  int64_t min, max;
} bounds_job;

static symint symbol_of(void *arg, const expression *symbol)
{
  bounds_job *job = arg;
  symint known = table_get(&job->symbols, symbol->name);

  if (known)
    return known;
  const exported_bounds *b = range_of(job->lo, symbol->name);
  known = sym_fresh(job->env, b && b->has_min ? b->min : SYM_NEG_INF,
                    b && b->has_max ? b->max : SYM_INF);
  session_table_put(job->env->s, &job->symbols, symbol->name, (void *)(uintptr_t)known);
  return known;
}

static void find_bounds(session *s, void *arg)
{
  bounds_job *job = arg;

  job->env = sym_env_new(s);
  session_table_init(s, &job->symbols);
  symint e = expression_to_symint(job->env, job->e, symbol_of, job);
  if (e)
    sym_range(job->env, e, &job->min, &job->max);
}

/* Find the bounds of a formula; overflow and the like mean that nothing is known. */
static void bounds_of(lowering *lo, const expression *e, rush_signature_size *size)
{
  bounds_job job = {.lo = lo, .e = e, .min = SYM_NEG_INF, .max = SYM_INF};
  rush_error err = RUSH_ERROR_INIT, *outer = lo->s->cx->err;

  lo->s->cx->err = &err;
  const rush_status st = session_run(lo->s->cx, find_bounds, &job);
  lo->s->cx->err = outer;
  rush_error_clear(&err);
  if (st == RUSH_ENOMEM)
    session_check(lo->s, call_nomem(lo->s->cx));
  session_poll(lo->s);
  size->min = st == RUSH_OK ? job.min : SYM_NEG_INF;
  size->max = st == RUSH_OK ? job.max : SYM_INF;
}

/* -- Sizes ------------------------------------------------------------------------------------- */

/* Describe a number; returns true for a formula, not just a symbol. */
static bool describe_number(lowering *lo, const fx_number *n, rush_signature_size *size)
{
  *size = (rush_signature_size){.value = n->has_value ? n->value.i : -1};
  if (!n->expr) {
    size->min = size->max = size->value;
    return false;
  }
  text_buf *text = session_text(lo->s);
  expression_print(lo->s, text, n->expr);
  const str shown = str_of(session_take_text(lo->s, text));
  const exported_bounds *b = range_of(lo, shown);
  size->symbol = lower_keep_text(lo, shown);
  size->min = b && b->has_min ? b->min : INT64_MIN;
  size->max = b && b->has_max ? b->max : INT64_MAX;
  if (n->expr->kind == EXPRESSION_SYMBOL)
    return false;
  if (!b)
    bounds_of(lo, n->expr, size);
  return true;
}

static const exported_meta *describe(lowering *lo, const fx_val *v)
{
  const bool is_tensor = v && v->kind == FX_VAL_TENSOR;

  if (!is_tensor && !(v && v->kind == FX_VAL_INT))
    return NULL;
  exported_meta *meta = lower_keep_array(lo, 1, sizeof *meta);
  const fx_number *sizes = is_tensor ? v->as.tensor->sizes : v->as.number;
  const uint32_t n = is_tensor ? v->as.tensor->n_dims : 1;
  if (n > TENSOR_MAX_DIMS)
    lower_fail(lo, "a value of more than %d dimensions", TENSOR_MAX_DIMS);
  *meta = (exported_meta){.is_tensor = is_tensor,
                          .dtype = is_tensor ? v->as.tensor->dtype : DTYPE_NONE,
                          .n_dims = (int)n,
                          .sizes = lower_keep_array(lo, n, sizeof *meta->sizes)};
  for (uint32_t i = 0; i < n; i++) {
    rush_signature_size *size = &meta->sizes[i];
    meta->computed |= (uint64_t)describe_number(lo, &sizes[i], size) << i;
    if (is_tensor && size->symbol && size->min < 0)
      size->min = 0;
  }
  return meta;
}

void lower_metas(lowering *lo, const fx_node *const *leaves)
{
  exported *e = lo->e;
  const fx_arg *all = &lo->data->graph->last->args[0];

  e->leaf_metas = lower_keep_array(lo, e->n_leaves, sizeof *e->leaf_metas);
  for (uint32_t i = 0; i < e->n_leaves; i++)
    e->leaf_metas[i] = leaves[i] ? describe(lo, leaves[i]->val) : NULL;
  e->n_output_metas = all->kind == FX_TUPLE ? all->n : 0;
  e->output_metas = lower_keep_array(lo, e->n_output_metas, sizeof *e->output_metas);
  for (uint32_t i = 0; i < e->n_output_metas; i++)
    if (all->as.items[i].kind == FX_NODE)
      e->output_metas[i] = describe(lo, all->as.items[i].as.node->val);
}
