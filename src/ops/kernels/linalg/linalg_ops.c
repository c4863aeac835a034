/* ops/kernels/linalg/linalg_ops.c -- operators that solve and factor: LU (inv, solve, det),
 * Cholesky, triangular systems, and the batches that linalg_factor.c shares. Matrices are copied to
 * dense double (or complex double) and the algorithms of ops/math/linalg.h run on them one by one;
 * there is one precision, so each algorithm exists once per field. Cost: O(n^3) per matrix, and one
 * copy in double. */
#include "ops/kernels/linalg/linalg_batch.h"

#include "base/cmplx.h"

#include <math.h>

/* -- Batches of matrices in double ------------------------------------------------------------- */

/* Make a dense tensor of t's sizes, in the precision of the algorithms. */
static rush_status new_wide(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  return tensor_new(cx, dtype_is_complex(t->dtype) ? RUSH_COMPLEX128 : RUSH_FLOAT64, t->n_dims,
                    t->sizes, out);
}

linalg linalg_open(rush_call *c, uint32_t arg)
{
  const rush_tensor *t = call_tensor(c, arg);
  linalg l = {.c = c,
              .kind = dtype_is_complex(t->dtype) ? &linalg_complex : &linalg_real,
              .count = 1,
              .rows = t->sizes[t->n_dims - 2],
              .cols = t->sizes[t->n_dims - 1]};
  l.k = i64_min(l.rows, l.cols);
  for (int i = 0; i < t->n_dims - 2; i++)
    l.count *= t->sizes[i];
  l.st = new_wide(c->cx, t, &l.a);
  if (l.st == RUSH_OK)
    l.st = tensor_copy(c->cx, l.a, t);
  const int64_t n_ints = l.count * (l.k + 1);
  if (l.st == RUSH_OK)
    l.st = tensor_new(c->cx, RUSH_INT32, 1, &n_ints, &l.ints);
  if (l.st == RUSH_OK)
    l.st = tensor_fill(c->cx, l.ints, value_int(0));
  if (l.st == RUSH_OK) {
    l.info = l.ints->data;
    l.pivots = l.info + l.count;
  }
  return l;
}

void *linalg_result(linalg *l, uint32_t i)
{
  if (l->st == RUSH_OK)
    l->st = new_wide(l->c->cx, call_out(l->c, i), &l->out[i]);
  return l->out[i] ? l->out[i]->data : NULL;
}

void linalg_result_a(linalg *l, uint32_t i)
{
  if (l->st == RUSH_OK)
    l->out[i] = tensor_retain(l->a);
}

void *linalg_result_of(linalg *l, uint32_t i, uint32_t arg)
{
  void *to = linalg_result(l, i);
  if (l->st == RUSH_OK)
    l->st = tensor_copy(l->c->cx, l->out[i], call_tensor(l->c, arg));
  return to;
}

void linalg_info_at(linalg *l, uint32_t i)
{
  if (i < l->c->n_results)
    l->info = call_out(l->c, i)->data;
}
void linalg_pivots_at(linalg *l, uint32_t i)
{
  if (i < l->c->n_results)
    l->pivots = call_out(l->c, i)->data;
}

void *linalg_work(linalg *l, int64_t n)
{
  l->work_bytes = (size_t)(n + 1) * l->kind->item;
  if (l->st == RUSH_OK && !(l->work = mem_alloc(l->c->cx->ctx, l->work_bytes)))
    l->st = call_nomem(l->c->cx);
  return l->work;
}

bool linalg_next(linalg *l, int64_t i, int64_t n)
{
  if (l->st == RUSH_OK && i < n)
    l->st = call_poll(l->c->cx);
  return l->st == RUSH_OK && i < n;
}

int64_t linalg_beside(const linalg *l, uint32_t arg, int tail, int x_tail, int64_t i)
{
  const rush_tensor *t = call_tensor(l->c, arg), *x = call_out(l->c, 0);
  int64_t at = 0, step = 1;
  for (int d = x->n_dims - x_tail - 1, k = t->n_dims - tail - 1; k >= 0; d--, k--) {
    at += t->sizes[k] == 1 ? 0 : i % x->sizes[d] * step;
    step *= t->sizes[k];
    i /= x->sizes[d];
  }
  return at;
}

/* Return the operator's name in messages. */
static const char *api_name(const rush_call *c)
{
  static const struct { const char *op, *api;
  } rows[] = {
    {"aten::linalg_inv_ex", "linalg.inv_ex"},
    {"aten::linalg_inv", "linalg.inv"},
    {"aten::inverse", "linalg.inv"},
    {"aten::linalg_solve_ex", "linalg.solve_ex"},
    {"aten::linalg_solve", "torch.linalg.solve"},
    {"aten::_linalg_solve_ex", "linalg.solve"},
    {"aten::linalg_cholesky", "linalg.cholesky"},
    {"aten::linalg_cholesky_ex", "linalg.cholesky_ex"},
    {"aten::linalg_lu_factor", "torch.linalg.lu_factor"},
    {"aten::linalg_ldl_factor", "torch.linalg.ldl_factor"},
    {"aten::linalg_ldl_factor_ex", "torch.linalg.ldl_factor_ex"},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (strcmp(c->op->schema->name, rows[i].op) == 0)
      return rows[i].api;
  return strchr(c->op->schema->name, ':') + 2;
}

rush_status linalg_close(linalg *l, bool check)
{
  rush_call *c = l->c;
  if (l->st == RUSH_OK && check)
    l->st = linalg_check_info(c->cx, api_name(c), l->info, l->count, l->a->n_dims > 2);
  for (uint32_t i = 0; i < COUNT_OF(l->out); i++) {
    if (l->st == RUSH_OK && l->out[i])
      l->st = tensor_copy(c->cx, call_out(c, i), l->out[i]);
    tensor_release(l->out[i]);
  }
  tensor_release(l->a);
  tensor_release(l->ints);
  if (l->work)
    mem_free(c->cx->ctx, l->work, l->work_bytes);
  return l->st;
}

/* -- LU: inv, solve, det ----------------------------------------------------------------------- */

/* Factor matrix i in place. */
static int32_t *factor(linalg *l, int64_t i)
{
  int32_t *pivots = l->pivots + i * l->k;
  l->info[i] = l->kind->lu_factor(l->c->cx, linalg_matrix(l, i), l->rows, l->cols, pivots);
  return pivots;
}

/* linalg_inv, inverse, linalg_inv_ex: results inverse[, info]. */
rush_status kernel_linalg_inv(rush_call *c)
{
  linalg l = linalg_open(c, 0);
  const int64_t n = l.rows;
  void *inverse = linalg_result(&l, 0);
  linalg_info_at(&l, 1);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++) {
    void *b = linalg_at(&l, inverse, i * n * n);
    const int32_t *pivots = factor(&l, i);
    l.kind->identity(b, n);
    l.kind->lu_solve(c->cx, linalg_matrix(&l, i), pivots, n, b, n);
  }
  return linalg_close(&l, c->n_results == 1 || call_bool(c, 1));
}

/* True if B has shape (batch, n) for A of shape (batch, n, n), or shape (n). */
static bool is_vector(const rush_tensor *a, const rush_tensor *b)
{
  return b->n_dims == 1 || (b->n_dims == a->n_dims - 1 &&
                            memcmp(a->sizes, b->sizes, sizeof *a->sizes * b->n_dims) == 0);
}

/* Implement linalg_solve(A, B, left), linalg_solve_ex(+check_errors) and _linalg_solve_ex: results
 * X, [LU, pivots,] [info].  For X A = B the rows of B are solved with the transposed factors. */
rush_status kernel_linalg_solve(rush_call *c)
{
  const rush_tensor *b = call_tensor(c, 1);
  const bool left = call_bool(c, 2), vector = is_vector(call_tensor(c, 0), b);
  linalg l = linalg_open(c, 0);
  const int64_t n = l.rows, k = vector ? 1 : b->sizes[b->n_dims - (left ? 1 : 2)];
  void *x = linalg_result_of(&l, 0, 1), *column = linalg_work(&l, n);
  if (c->n_results == 4) {
    linalg_result_a(&l, 1);
    linalg_pivots_at(&l, 2);
  }
  if (c->n_results > 1)
    linalg_info_at(&l, c->n_results - 1);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++) {
    if (!left)
      l.kind->transpose(linalg_matrix(&l, i), n);
    factor(&l, i);
  }
  for (int64_t i = 0; linalg_next(&l, i, linalg_n_solutions(&l, k)); i++) {
    const int64_t at = linalg_beside(&l, 0, 2, vector ? 1 : 2, i);
    const void *lu = linalg_matrix(&l, at);
    const int32_t *pivots = l.pivots + at * n;
    if (left)
      l.kind->lu_solve(c->cx, lu, pivots, n, linalg_at(&l, x, i * n * k), k);
    for (int64_t r = 0; !left && r < k; r++) {
      void *row = linalg_at(&l, x, (i * k + r) * n);
      memcpy(column, row, (size_t)n * l.kind->item);
      l.kind->lu_solve(c->cx, lu, pivots, n, column, 1);
      memcpy(row, column, (size_t)n * l.kind->item);
    }
  }
  return linalg_close(&l, c->n_args < 4 || call_bool(c, 3));
}

typedef enum det_kind { DET, SLOGDET, LOGDET } det_kind;

/* Set log(det): -infinity for 0, NaN for negative values. */
static void logdet(const linalg *l, double *det, double sign, double logabs)
{
  if (l->kind == &linalg_real) {
    *det = sign < 0 ? (double)NAN : sign == 0 ? -INFINITY : logabs;
    return;
  }
  const double _Complex log = clog(CMPLX(det[0], det[1]));
  det[0] = creal(log);
  det[1] = cimag(log);
}

/* Compute the product of U's diagonal: det or its logarithm, or (sign, logabs); then LU, pivots. */
static rush_status det_op(rush_call *c, det_kind kind)
{
  linalg l = linalg_open(c, 0);
  const uint32_t lu_at = kind == SLOGDET ? 2 : 1;
  void *det = linalg_result(&l, 0);
  double *logs = kind == SLOGDET ? linalg_result(&l, 1) : NULL;
  if (c->n_results > lu_at)
    linalg_result_a(&l, lu_at);
  linalg_pivots_at(&l, lu_at + 1);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++) {
    double other[2], logabs, *to = linalg_at(&l, det, i);
    const int32_t *pivots = factor(&l, i);
    l.kind->determinant(linalg_matrix(&l, i), pivots, l.rows, kind == SLOGDET ? other : to,
                        kind == SLOGDET ? to : other, logs ? &logs[i] : &logabs);
    if (kind == LOGDET)
      logdet(&l, to, other[0], logabs);
  }
  return linalg_close(&l, false);
}
rush_status kernel_det(rush_call *c) { return det_op(c, DET); }
rush_status kernel_slogdet(rush_call *c) { return det_op(c, SLOGDET); }
rush_status kernel_logdet(rush_call *c) { return det_op(c, LOGDET); }

/* linalg_lu_factor(A, pivot), linalg_lu_factor_ex. */
rush_status kernel_lu_factor(rush_call *c)
{
  linalg l = linalg_open(c, 0);
  linalg_result_a(&l, 0);
  linalg_pivots_at(&l, 1);
  linalg_info_at(&l, 2);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++)
    factor(&l, i);
  return linalg_close(&l, c->n_results == 2 || call_bool(c, 2));
}

/* -- Cholesky, triangular systems -------------------------------------------------------------- */

/* linalg_cholesky(A, upper), cholesky, linalg_cholesky_ex(A, upper, check_errors). */
rush_status kernel_linalg_cholesky(rush_call *c)
{
  const bool upper = call_bool(c, 1);
  linalg l = linalg_open(c, 0);
  linalg_result_a(&l, 0);
  linalg_info_at(&l, 1);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++) {
    if (upper)
      l.kind->transpose(linalg_matrix(&l, i), l.rows);
    l.info[i] = l.kind->cholesky_factor(c->cx, linalg_matrix(&l, i), l.rows);
    if (upper)
      l.kind->transpose(linalg_matrix(&l, i), l.rows);
  }
  return linalg_close(&l, c->n_results == 1 || call_bool(c, 2));
}

/* cholesky_solve(B, L, upper): L L' X = B. */
rush_status kernel_cholesky_solve(rush_call *c)
{
  const bool upper = call_bool(c, 2);
  const linalg_turn first = upper ? LINALG_ADJOINT : LINALG_AS_IS,
                    then = upper ? LINALG_AS_IS : LINALG_ADJOINT;
  linalg l = linalg_open(c, 1);
  const int64_t n = l.rows, k = call_tensor(c, 0)->sizes[call_tensor(c, 0)->n_dims - 1];
  void *x = linalg_result_of(&l, 0, 0);
  for (int64_t i = 0; linalg_next(&l, i, linalg_n_solutions(&l, k)); i++) {
    const void *t = linalg_matrix(&l, linalg_beside(&l, 1, 2, 2, i));
    l.kind->tri_solve(c->cx, t, n, upper, first, false, linalg_at(&l, x, i * n * k), k);
    l.kind->tri_solve(c->cx, t, n, upper, then, false, linalg_at(&l, x, i * n * k), k);
  }
  return linalg_close(&l, false);
}

/* linalg_solve_triangular(A, B, upper, left, unitriangular). */
rush_status kernel_solve_triangular(rush_call *c)
{
  const rush_tensor *b = call_tensor(c, 1);
  const bool upper = call_bool(c, 2), left = call_bool(c, 3), unit = call_bool(c, 4);
  linalg l = linalg_open(c, 0);
  const int64_t n = l.rows, k = b->sizes[b->n_dims - (left ? 1 : 2)];
  void *x = linalg_result_of(&l, 0, 1);
  for (int64_t i = 0; linalg_next(&l, i, linalg_n_solutions(&l, k)); i++) {
    const void *t = linalg_matrix(&l, linalg_beside(&l, 0, 2, 2, i));
    if (left)
      l.kind->tri_solve(c->cx, t, n, upper, LINALG_AS_IS, unit, linalg_at(&l, x, i * n * k), k);
    for (int64_t r = 0; !left && r < k; r++) /* X A = B: A' x' = b', a row at a time */
      l.kind->tri_solve(c->cx, t, n, upper, LINALG_TRANSPOSE, unit,
                        linalg_at(&l, x, (i * k + r) * n), 1);
  }
  return linalg_close(&l, false);
}
