/* ops/kernels/linalg/linalg_error.c -- messages of failed factorizations: one sentence for each
 * family of solvers, as in PyTorch. */
#include <limits.h>
#include <stdio.h>

#include "ops/call/call.h"
#include "ops/math/linalg.h"

typedef enum failed_solver {
  INVERSE,
  SOLVE,
  CHOLESKY,
  SVD,
  EIGEN,
  LU,
  LEAST_SQUARES,
  OTHER
} failed_solver;

/* Find the kind of solver by the parts of its name, as PyTorch does.  The name is an argument of
 * _linalg_check_errors, which any program may call with any string: it is no operator's entry. */
static failed_solver solver_of(const char *name)
{
  static const struct { const char *part; failed_solver solver;
  } rows[] = {
    {"cholesky_inverse", INVERSE},
    {"inv", INVERSE},
    {"lu_factor", LU},
    {"solve", SOLVE},
    {"cholesky", CHOLESKY},
    {"svd", SVD},
    {"lstsq", LEAST_SQUARES},
    {"eig", EIGEN},
    {"syevd", EIGEN},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (strstr(name, rows[i].part))
      return rows[i].solver;
  return OTHER;
}

static rush_status refuse_info(call_ctx *cx, const char *name, const char *place, int info)
{
  static const char type[] = "LinAlgError";

  if (info < 0)
    return call_fail(
      cx,
      "%s: %sArgument %d has illegal value. Most certainly there is a bug in the implementation "
      "calling the backend library.",
      name, place, info == INT_MIN ? INT_MAX : -info);
  switch (solver_of(name)) {
  case INVERSE:
    return call_fail_type(
      cx, type,
      "%s: %sThe diagonal element %d is zero, the inversion could not be completed because "
      "the input matrix is singular.",
      name, place, info);
  case SOLVE:
    return call_fail_type(cx, type, "%s: %sThe solver failed because the input matrix is singular.",
                          name, place);
  case CHOLESKY:
    return call_fail_type(
      cx, type,
      "%s: %sThe factorization could not be completed because the input is not "
      "positive-definite (the leading minor of order %d is not positive-definite).",
      name, place, info);
  case SVD:
  case EIGEN:
    return call_fail_type(
      cx, type,
      "%s: %sThe algorithm failed to converge because the input matrix is ill-conditioned "
      "or has too many repeated %s (error code: %d).",
      name, place, solver_of(name) == SVD ? "singular values" : "eigenvalues", info);
  case LU:
    return call_fail(
      cx,
      "%s: %sU[%d,%d] is zero and using it on lu_solve would result in a division by zero. If you "
      "still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
      "linalg.lu_factor_ex(A, pivot)",
      name, place, info, info);
  case LEAST_SQUARES:
    return call_fail_type(
      cx, type,
      "%s: %sThe least squares solution could not be computed because the input matrix "
      "does not have full rank (error code: %d).",
      name, place, info);
  case OTHER:
    break;
  }
  return call_fail(cx, "%s: %sUnknown error code: %d.", name, place, info);
}

rush_status linalg_check_info(call_ctx *cx, const char *name, const int32_t *info, int64_t n,
                              bool batched)
{
  for (int64_t i = 0; i < n; i++) {
    char place[64] = "";
    if (info[i] == 0)
      continue;
    if (batched)
      snprintf(place, sizeof place, "(Batch element %lld): ", (long long)i);
    return refuse_info(cx, name, place, info[i]);
  }
  return RUSH_OK;
}

/* _linalg_check_errors(info, api_name, *, is_matrix) */
rush_status kernel_linalg_check_errors(rush_call *c)
{
  rush_tensor *info = call_tensor(c, 0), *dense = NULL;
  char name[64];
  str text = call_str(c, 1);

  if (info->dtype != RUSH_INT32)
    return call_fail(c->cx, "_linalg_check_errors: info must be of dtype int, not %s",
                     dtype_aten_name(info->dtype));
  snprintf(name, sizeof name, "%.*s", (int)i64_min((int64_t)text.len, 63), text.p);
  TRY(tensor_contiguous(c->cx, info, &dense));
  rush_status st = linalg_check_info(c->cx, name, dense->data, dense->n_elems, !call_bool(c, 2));
  tensor_release(dense);
  return st;
}
