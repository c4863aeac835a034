/* ops/kernels/linalg/einsum.c -- einsum, as PyTorch contracts: operands one after the other, each
 * pair through bmm.  The order shows in the strides of the result. */
#include <string.h>

#include "ops/call/call.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"

enum { ELLIPSIS = 52, N_LABELS = 53, MAX_OPERANDS = 64, MAX_LABELS = 2 * TENSOR_MAX_DIMS };

typedef struct term { /* the subscripts of one operand */
  int n;
  bool ellipsis;
  uint8_t labels[MAX_LABELS];
} term;

typedef struct equation {
  int n_operands, n_terms, n_out, n_dims; /* dimensions of the output; of every permuted operand */
  int ellipsis_dims;
  bool any_ellipsis;
  int place[N_LABELS]; /* dimension of the permuted operands, or -1 */
  int count[N_LABELS];
  term terms[MAX_OPERANDS];
  rush_tensor *ops[MAX_OPERANDS]; /* owned: permuted, then contracted */
} equation;

static int label_of(char ch)
{
  if (ch >= 'A' && ch <= 'Z')
    return ch - 'A';
  return ch >= 'a' && ch <= 'z' ? ch - 'a' + 26 : -1;
}
static char label_text(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }

/* -- Parsing ----------------------------------------------------------------------------------- */

static rush_status parse_dots(call_ctx *cx, str text, size_t *at, bool seen, const char *where,
                              int operand)
{
  if (seen && operand >= 0)
    return call_fail(
      cx, "einsum(): found '.' for operand %d for which an ellipsis was already found", operand);
  if (seen)
    return call_fail(cx, "einsum(): found '.' for output but an ellipsis (...) was already found");
  if (*at + 2 >= text.len || text.p[*at + 1] != '.' || text.p[*at + 2] != '.')
    return operand >= 0
             ? call_fail(cx, "einsum(): found '.' for operand %d that is not part of any ellipsis",
                         operand)
             : call_fail(cx,
                         "einsum(): found '.' for output that is not part of any ellipsis (...)%s",
                         where);
  *at += 2;
  return RUSH_OK;
}

static rush_status parse_inputs(call_ctx *cx, equation *e, str text, size_t end)
{
  int cur = 0;
  for (size_t i = 0; i < end; i++) {
    const char ch = text.p[i];
    if (ch == ' ')
      continue;
    if (ch == ',') {
      if (++cur >= e->n_operands)
        return call_fail(cx,
                         "einsum(): fewer operands were provided than specified in the equation");
      continue;
    }
    term *t = &e->terms[cur];
    int label = ELLIPSIS;
    if (ch == '.') {
      TRY(parse_dots(cx, text, &i, t->ellipsis, "", cur));
      t->ellipsis = true;
    } else if ((label = label_of(ch)) < 0) {
      return call_fail(cx,
                       "einsum(): invalid subscript given at index %d in the equation string, "
                       "subscripts must be in "
                       "[a-zA-Z]",
                       (int)i);
    }
    if (t->n == MAX_LABELS)
      return call_fail(cx, "einsum(): too many subscripts for operand %d", cur);
    t->labels[t->n++] = (uint8_t)label;
  }
  if (cur != e->n_operands - 1)
    return call_fail(cx, "einsum(): more operands were provided than specified in the equation");
  return RUSH_OK;
}

static rush_status count_labels(call_ctx *cx, equation *e, const rush_list *operands)
{
  for (int i = 0; i < e->n_operands; i++) {
    const term *t = &e->terms[i];
    const int n_dims = list_tensor(operands, (size_t)i)->n_dims;
    if (t->ellipsis ? t->n - 1 > n_dims : t->n != n_dims)
      return call_fail(
        cx, "einsum(): the number of subscripts in the equation (%d) %s (%d) for operand %d%s",
        t->ellipsis ? t->n - 1 : t->n,
        t->ellipsis ? "is more than the number of dimensions"
                    : "does not match the number of dimensions",
        n_dims, i, t->ellipsis ? "" : " and no ellipsis was given");
    for (int k = 0; k < t->n; k++)
      e->count[t->labels[k]]++;
    if (t->ellipsis && n_dims - (t->n - 1) > e->ellipsis_dims)
      e->ellipsis_dims = n_dims - (t->n - 1);
    e->any_ellipsis |= t->ellipsis;
  }
  return RUSH_OK;
}

/* Make the output without "->": the ellipsis, then labels that occur once, in the order of
 * labels. */
static void implicit_output(equation *e)
{
  if (e->any_ellipsis) {
    e->place[ELLIPSIS] = 0;
    e->n_out = e->ellipsis_dims;
  }
  for (int l = 0; l < ELLIPSIS; l++)
    if (e->count[l] == 1)
      e->place[l] = e->n_out++;
}

static rush_status parse_output(call_ctx *cx, equation *e, str text, size_t at)
{
  bool ellipsis = false;
  for (size_t i = at; i < text.len; i++) {
    const char ch = text.p[i];
    if (ch == ' ')
      continue;
    if (ch == '.') {
      TRY(parse_dots(cx, text, &i, ellipsis, "", -1));
      ellipsis = true;
      e->place[ELLIPSIS] = e->n_out;
      e->n_out += e->ellipsis_dims;
      continue;
    }
    const int label = label_of(ch);
    if (label < 0)
      return call_fail(cx,
                       "einsum(): invalid subscript given at index %d in the equation string, "
                       "subscripts must be in "
                       "[a-zA-Z]",
                       (int)i);
    if (e->place[label] >= 0)
      return call_fail(cx, "einsum(): output subscript %c appears more than once in the output",
                       ch);
    if (e->count[label] == 0)
      return call_fail(
        cx, "einsum(): output subscript %c does not appear in the equation for any input operand",
        ch);
    e->place[label] = e->n_out++;
  }
  return RUSH_OK;
}

static rush_status parse(call_ctx *cx, equation *e, str text, const rush_list *operands)
{
  size_t arrow = text.len;
  for (int l = 0; l < N_LABELS; l++)
    e->place[l] = -1;
  for (size_t i = 0; i + 1 < text.len && arrow == text.len; i++)
    if (text.p[i] == '-' && text.p[i + 1] == '>')
      arrow = i;
  TRY(parse_inputs(cx, e, text, arrow));
  TRY(count_labels(cx, e, operands));
  if (arrow == text.len)
    implicit_output(e);
  else
    TRY(parse_output(cx, e, text, arrow + 2));
  e->n_dims = e->n_out;
  for (int l = 0; l < ELLIPSIS; l++)
    if (e->count[l] > 0 && e->place[l] < 0)
      e->place[l] = e->n_dims++;
  if (e->any_ellipsis && e->place[ELLIPSIS] < 0) {
    e->place[ELLIPSIS] = e->n_dims;
    e->n_dims += e->ellipsis_dims;
  }
  return e->n_dims <= TENSOR_MAX_DIMS ? RUSH_OK : call_fail(cx, "einsum(): too many dimensions");
}

/* -- Operands in one order of dimensions ------------------------------------------------------- */

static rush_status repeated(call_ctx *cx, geom *g, int operand, int label, int first, int j)
{
  if (g->sizes[j] != g->sizes[first])
    return call_fail(
      cx,
      "einsum(): subscript %c is repeated for operand %d but the sizes don't match, %lld != %lld",
      label_text(label), operand, (long long)g->sizes[j], (long long)g->sizes[first]);
  g->strides[first] += g->strides[j];
  geom_remove_dim(g, j);
  return RUSH_OK;
}

static rush_status permute_operand(call_ctx *cx, equation *e, int operand, rush_tensor *t)
{
  const term *s = &e->terms[operand];
  geom g, out = {.n_dims = e->n_dims};
  int first[N_LABELS], j = 0;
  geom_of(&g, t);
  out.offset = g.offset;
  for (int i = 0; i < N_LABELS; i++)
    first[i] = -1;
  for (int i = 0; i < e->n_dims; i++) {
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
      const int to = e->place[l] + (l == ELLIPSIS ? e->ellipsis_dims - covered + k : 0);
      out.sizes[to] = g.sizes[at[l] + k];
      out.strides[to] = g.strides[at[l] + k];
    }
  }
  return geom_view(cx, t, &out, &e->ops[operand]);
}

/* Count how many operands have each dimension, not counting those of size 1. */
static rush_status count_dims(call_ctx *cx, const equation *e, int *counts)
{
  for (int d = 0; d < e->n_dims; d++) {
    int64_t size = 1;
    counts[d] = 0;
    for (int i = 0; i < e->n_operands; i++) {
      const int64_t have = e->ops[i]->sizes[d];
      if (have == 1)
        continue;
      if (size != 1 && have != size) {
        int label = ELLIPSIS;
        for (int l = 0; l < ELLIPSIS; l++)
          label = e->place[l] == d ? l : label;
        const char name[2] = {label == ELLIPSIS ? '.' : label_text(label), 0};
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
  geom g;
  rush_tensor *view = NULL;
  geom_of(&g, t);
  TRY(geom_permute(cx, &g, t->n_dims, order));
  TRY(geom_view(cx, t, &g, &view));
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
  rush_tensor *l = NULL, *r = NULL, *c = NULL, *view = NULL;
  int n = append(order, 0, s->both);
  n = append(order, n, s->left);
  n = append(order, n, s->sum);
  n = append(order, n, s->right);
  for (int i = 0; i < n; i++) {
    const int64_t d = order[i];
    back[d] = i;
    sizes[i] = s->right & DIM(d) ? b->sizes[d] : s->sum & DIM(d) ? 1 : a->sizes[d];
  }
  rush_status st = as_batch(cx, a, order, (int64_t[3]){n_both, n_left, n_sum}, &l);
  n = append(order, 0, s->both);
  n = append(order, n, s->sum);
  n = append(order, n, s->right);
  append(order, n, s->left);
  if (st == RUSH_OK)
    st = as_batch(cx, b, order, (int64_t[3]){n_both, n_sum, n_right}, &r);
  if (st == RUSH_OK)
    st = nn_invoke(cx, "aten::bmm", "", (rush_value[2]){nn_arg(l), nn_arg(r)}, 2, &c);
  if (st == RUSH_OK)
    st = tensor_reshape(cx, c, a->n_dims, sizes, &view);
  if (st == RUSH_OK) {
    geom g;
    geom_of(&g, view);
    st = geom_permute(cx, &g, a->n_dims, back);
    if (st == RUSH_OK)
      st = geom_view(cx, view, &g, out);
  }
  tensor_release(l);
  tensor_release(r);
  tensor_release(c);
  tensor_release(view);
  return st;
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
static rush_status contract_pair(call_ctx *cx, const equation *e, int *counts, rush_tensor **a,
                                 rush_tensor **b, rush_tensor **out)
{
  dim_set both = 0, only_a = 0, only_b = 0;
  for (int d = e->n_out; d < e->n_dims; d++) {
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

static void take_out(equation *e, int i)
{
  for (int k = i; k + 1 < e->n_operands; k++)
    e->ops[k] = e->ops[k + 1];
  e->ops[--e->n_operands] = NULL;
}

static rush_status contract_all(call_ctx *cx, equation *e, int *counts, const rush_list *path)
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

static rush_status finish(call_ctx *cx, equation *e, bool contracted)
{
  rush_tensor *view = NULL;
  geom g;
  if (!contracted) {
    dim_set rest = 0;
    for (int d = e->n_out; d < e->n_dims; d++)
      rest |= DIM(d);
    return sum_dims(cx, &e->ops[0], rest, false);
  }
  geom_of(&g, e->ops[0]);
  g.n_dims = e->n_out; /* the rest has size 1 */
  TRY(geom_view(cx, e->ops[0], &g, &view));
  tensor_release(e->ops[0]);
  e->ops[0] = view;
  return RUSH_OK;
}

static rush_status run_equation(rush_call *c, equation *e)
{
  const rush_list *operands = call_list(c, 1);
  int counts[TENSOR_MAX_DIMS];
  TRY(parse(c->cx, e, call_str(c, 0), operands));
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
  equation *e = mem_alloc_zero(c->cx->ctx, sizeof *e);
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
