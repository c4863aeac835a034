/* ops/kernels/linalg/einsum.c -- einsum, as PyTorch contracts: operands one after the other, each
 * pair through bmm.  The order shows in the strides of the result. */
#include <string.h>

#include "ops/call/call.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"
#include "shape/equation.h"

typedef struct contraction {
  equation eq;
  int n_operands; /* that are left */
  rush_tensor *ops[MAX_OPERANDS]; /* owned: permuted, then contracted */
} contraction;

/* -- Operands in one order of dimensions ------------------------------------------------------- */

static rush_status repeated(call_ctx *cx, geom *g, int operand, int label, int first, int j)
{
  if (g->sizes[j] != g->sizes[first])
    return call_fail(
      cx,
      "einsum(): subscript %c is repeated for operand %d but the sizes don't match, %lld != %lld",
      equation_letter(label), operand, (long long)g->sizes[j], (long long)g->sizes[first]);
  g->strides[first] += g->strides[j];
  geom_remove_dim(g, j);
  return RUSH_OK;
}

static rush_status permute_operand(call_ctx *cx, contraction *e, int operand, rush_tensor *t)
{
  const term *s = &e->eq.terms[operand];
  geom g, out = {.n_dims = e->eq.n_dims};
  int first[N_LABELS], j = 0;
  geom_of(&g, t);
  out.offset = g.offset;
  for (int i = 0; i < N_LABELS; i++)
    first[i] = -1;
  for (int i = 0; i < e->eq.n_dims; i++) {
    out.sizes[i] = 1;
    out.strides[i] = 1;
  }
  const int covered = t->n_dims - (s->n - 1);
  int at[N_LABELS];
  for (int k = 0; k < s->n; k++) {
    const int label = s->labels[k];
    if (label != ELLIPSIS && first[label] >= 0) {
      TRY(repeated(cx, &g, operand, label, first[label], j));
      continue;
    }
    first[label] = at[label] = j;
    j += label == ELLIPSIS ? covered : 1;
  }
  for (int l = 0; l < N_LABELS; l++) {
    const int n = first[l] < 0 ? 0 : l == ELLIPSIS ? covered : 1;
    for (int k = 0; k < n; k++) { /* a shorter ellipsis is aligned at its end */
      const int to = e->eq.place[l] + (l == ELLIPSIS ? e->eq.ellipsis_dims - covered + k : 0);
      out.sizes[to] = g.sizes[at[l] + k];
      out.strides[to] = g.strides[at[l] + k];
    }
  }
  return geom_view(cx, t, &out, &e->ops[operand]);
}

/* Count how many operands have each dimension, not counting those of size 1. */
static rush_status count_dims(call_ctx *cx, const contraction *e, int *counts)
{
  for (int d = 0; d < e->eq.n_dims; d++) {
    int64_t size = 1;
    counts[d] = 0;
    for (int i = 0; i < e->n_operands; i++) {
      const int64_t have = e->ops[i]->sizes[d];
      if (have == 1)
        continue;
      if (size != 1 && have != size) {
        int label = ELLIPSIS;
        for (int l = 0; l < ELLIPSIS; l++)
          label = e->eq.place[l] == d ? l : label;
        const char name[2] = {label == ELLIPSIS ? '.' : equation_letter(label), 0};
        return call_fail(cx,
                         "einsum(): subscript %s has size %lld for operand %d which does not "
                         "broadcast with previously "
                         "seen size %lld",
                         label == ELLIPSIS ? "..." : name, (long long)have, i, (long long)size);
      }
      size = have;
      counts[d]++;
    }
  }
  return RUSH_OK;
}

/* -- Pairs ------------------------------------------------------------------------------------- */

typedef uint64_t dim_set; /* bit d: dimension d */
#define DIM(d) (UINT64_C(1) << (d))
_Static_assert(TENSOR_MAX_DIMS <= 64, "a bit a dimension");

/* Append the set's dimensions, ascending, to to[n]; returns the new length. */
static int append(int64_t *to, int n, dim_set dims)
{
  for (; dims; dims &= dims - 1)
    to[n++] = __builtin_ctzll((unsigned long long)dims);
  return n;
}

/* Sum over some dimensions, kept or not; *t is replaced. */
static rush_status sum_dims(call_ctx *cx, rush_tensor **t, dim_set which, bool keep)
{
  rush_value args[4] = {nn_arg(*t), value_none(), value_bool(keep), value_none()};
  rush_tensor *made = NULL;
  int64_t dims[TENSOR_MAX_DIMS];
  const int n = append(dims, 0, which);
  if (n == 0)
    return RUSH_OK;
  TRY(list_of_ints(cx, dims, (size_t)n, &args[1]));
  rush_status st = nn_invoke(cx, "aten::sum", "dim_IntList", args, 4, &made);
  value_release(args[1]);
  TRY(st);
  tensor_release(*t);
  *t = made;
  return RUSH_OK;
}

/* Dimensions of a pair, by the operands that have them. */
typedef struct split {
  dim_set both, left, sum, right;
} split;

static int64_t product(const rush_tensor *t, dim_set dims)
{
  int64_t p = 1;
  for (; dims; dims &= dims - 1)
    p *= t->sizes[__builtin_ctzll((unsigned long long)dims)];
  return p;
}

/* Reshape t with dimensions a, b, c and the rest to [prod a, prod b, prod c]. */
static rush_status as_batch(call_ctx *cx, const rush_tensor *t, const int64_t *order,
                            const int64_t *three, rush_tensor **out)
{
  rush_tensor *view = NULL;
  TRY(tensor_permute(cx, t, order, &view));
  rush_status st = tensor_reshape(cx, view, 3, three, out);
  tensor_release(view);
  return st;
}

static rush_status multiply(call_ctx *cx, const rush_tensor *a, const rush_tensor *b,
                            const split *s, rush_tensor **out)
{
  int64_t order[TENSOR_MAX_DIMS], sizes[TENSOR_MAX_DIMS], back[TENSOR_MAX_DIMS];
  const int64_t n_both = product(a, s->both), n_left = product(a, s->left);
  const int64_t n_sum = product(a, s->sum), n_right = product(b, s->right);
  work w = work_begin_part(cx);
  int n = append(order, 0, s->both);
  n = append(order, n, s->left);
  n = append(order, n, s->sum);
  n = append(order, n, s->right);
  for (int i = 0; i < n; i++) {
    const int64_t d = order[i];
    back[d] = i;
    sizes[i] = s->right & DIM(d) ? b->sizes[d] : s->sum & DIM(d) ? 1 : a->sizes[d];
  }
  rush_tensor *l =
    WORK_MAKE(&w, as_batch(cx, a, order, (int64_t[3]){n_both, n_left, n_sum}, &w.made));
  n = append(order, 0, s->both);
  n = append(order, n, s->sum);
  n = append(order, n, s->right);
  append(order, n, s->left);
  rush_tensor *r =
    WORK_MAKE(&w, as_batch(cx, b, order, (int64_t[3]){n_both, n_sum, n_right}, &w.made));
  rush_tensor *c = work_invoke(&w, "aten::bmm", "", (rush_value[2]){nn_arg(l), nn_arg(r)}, 2),
              *view = WORK_MAKE(&w, tensor_reshape(cx, c, a->n_dims, sizes, &w.made));
  WORK_DO(&w, tensor_permute(cx, view, back, out));
  return work_end(&w);
}

/* Contract a and b (both replaced or unchanged) over the dimensions of `sum`. */
static rush_status contract(call_ctx *cx, rush_tensor **a, rush_tensor **b, dim_set sum,
                            rush_tensor **out)
{
  split s = {.sum = sum};
  if (sum == 0)
    return nn_invoke(cx, "aten::mul", "Tensor", (rush_value[2]){nn_arg(*a), nn_arg(*b)}, 2, out);
  for (int d = 0; d < (*a)->n_dims; d++) {
    const bool left = (*a)->sizes[d] != 1, right = (*b)->sizes[d] != 1;
    if (!(sum & DIM(d)))
      *(left && right ? &s.both : left ? &s.left : &s.right) |= DIM(d);
  }
  if (s.left && s.right &&
      s.right < (s.left & -s.left)) /* b's are first in the output: as its rows */
    return multiply(cx, *b, *a, &(split){s.both, s.right, s.sum, s.left}, out);
  return multiply(cx, *a, *b, &s, out);
}

/* Sum dimensions before and while operands `a` and `b` are contracted. */
static rush_status contract_pair(call_ctx *cx, const contraction *e, int *counts, rush_tensor **a,
                                 rush_tensor **b, rush_tensor **out)
{
  dim_set both = 0, only_a = 0, only_b = 0;
  for (int d = e->eq.n_out; d < e->eq.n_dims; d++) {
    const bool in_a = (*a)->sizes[d] != 1, in_b = (*b)->sizes[d] != 1;
    if (in_a && in_b) {
      if (--counts[d] == 1) {
        both |= DIM(d);
        counts[d] = 0;
      }
    } else if (counts[d] == 1 && (in_a || in_b)) {
      *(in_a ? &only_a : &only_b) |= DIM(d);
      counts[d] = 0;
    }
  }
  TRY(sum_dims(cx, a, only_a, true));
  TRY(sum_dims(cx, b, only_b, true));
  return contract(cx, a, b, both, out);
}

static void take_out(contraction *e, int i)
{
  for (int k = i; k + 1 < e->n_operands; k++)
    e->ops[k] = e->ops[k + 1];
  e->ops[--e->n_operands] = NULL;
}

static rush_status contract_all(call_ctx *cx, contraction *e, int *counts, const rush_list *path)
{
  size_t step = 0;
  if (path && path->n != 2 * (size_t)(e->n_operands - 1) &&
      path->n != (e->n_operands == 1 ? 1u : SIZE_MAX))
    return call_fail(
      cx, "einsum(): expected contraction path given in path parameter to have size %d but got %d",
      e->n_operands == 1 ? 1 : 2 * (e->n_operands - 1), (int)path->n);
  while (e->n_operands > 1) {
    int64_t i = 0, j = 1;
    if (path) {
      i = path->items[step].as.i;
      j = path->items[step + 1].as.i;
      step += 2;
      if (j < i) {
        const int64_t k = i;
        i = j;
        j = k;
      }
      if (i < 0 || i == j || j >= e->n_operands)
        return call_fail(
          cx,
          "einsum(): invalid contraction path (%lld, %lld) while there are %d operands to contract",
          (long long)i, (long long)j, e->n_operands);
    }
    rush_tensor *made = NULL;
    TRY(contract_pair(cx, e, counts, &e->ops[i], &e->ops[j], &made));
    tensor_release(e->ops[i]);
    tensor_release(e->ops[j]);
    take_out(e, (int)j);
    take_out(e, (int)i);
    const int at = path ? e->n_operands : 0;
    memmove(e->ops + at + 1, e->ops + at, sizeof *e->ops * (size_t)(e->n_operands - at));
    e->ops[at] = made;
    e->n_operands++;
  }
  return RUSH_OK;
}

static rush_status finish(call_ctx *cx, contraction *e, bool contracted)
{
  rush_tensor *view = NULL;
  geom g;
  if (!contracted) {
    dim_set rest = 0;
    for (int d = e->eq.n_out; d < e->eq.n_dims; d++)
      rest |= DIM(d);
    return sum_dims(cx, &e->ops[0], rest, false);
  }
  geom_of(&g, e->ops[0]);
  g.n_dims = e->eq.n_out; /* the rest has size 1 */
  TRY(geom_view(cx, e->ops[0], &g, &view));
  tensor_release(e->ops[0]);
  e->ops[0] = view;
  return RUSH_OK;
}

static rush_status run_equation(rush_call *c, contraction *e)
{
  const rush_list *operands = call_list(c, 1);
  int counts[TENSOR_MAX_DIMS];
  int n_dims[MAX_OPERANDS];
  for (int i = 0; i < e->n_operands; i++)
    n_dims[i] = list_tensor(operands, (size_t)i)->n_dims;
  if (!equation_read(&e->eq, call_str(c, 0), e->n_operands, n_dims))
    return call_fail(c->cx, "%s", e->eq.why);
  for (int i = 0; i < e->n_operands; i++)
    TRY(permute_operand(c->cx, e, i, list_tensor(operands, (size_t)i)));
  TRY(count_dims(c->cx, e, counts));
  const bool contracted = e->n_operands > 1;
  TRY(contract_all(c->cx, e, counts, call_list(c, 2)));
  return finish(c->cx, e, contracted);
}

rush_status kernel_einsum(rush_call *c)
{
  const rush_list *operands = call_list(c, 1);
  if (operands->n == 0)
    return call_fail(c->cx, "einsum(): must provide at least one operand");
  if (operands->n > MAX_OPERANDS)
    return call_fail(c->cx, "einsum(): more than %d operands", MAX_OPERANDS);
  for (size_t i = 0; i < operands->n; i++)
    if (!list_tensor(operands, i))
      return call_fail(c->cx, "einsum(): operand %d is undefined", (int)i);
  contraction *e = mem_alloc_zero(c->cx->ctx, sizeof *e);
  if (!e)
    return call_nomem(c->cx);
  e->n_operands = (int)operands->n;
  rush_status st = run_equation(c, e);
  if (st == RUSH_OK) {
    call_return_steal(c, 0, e->ops[0]);
    e->ops[0] = NULL;
  }
  for (int i = 0; i < MAX_OPERANDS; i++)
    tensor_release(e->ops[i]);
  mem_free(c->cx->ctx, e, sizeof *e);
  return st;
}
