/* ops/kernels/linalg/mm_tree.c -- prim::MMTreeReduce(a1, a2, ..., b1, b2, ...) = a1 b1 + a2 b2 +
 * ...
 *
 * One product of the matrices side by side, if all left sides and all right sides have one size and
 * dtype; else the products one by one, which may be broadcast when they are added. */
#include "ops/call/call.h"

static bool are_alike(const rush_value *v, uint32_t n, const rush_tensor *like)
{
  for (uint32_t i = 0; i < n; i++) {
    const rush_tensor *t = v[i].as.tensor;
    if (t->dtype != v->as.tensor->dtype || t->dtype != like->dtype || t->n_dims != 2 ||
        memcmp(t->sizes, v->as.tensor->sizes, 2 * sizeof *t->sizes) != 0)
      return false;
  }
  return true;
}

/* Put the matrices side by side along `dim`; *out is new. */
static rush_status side_by_side(call_ctx *cx, const rush_value *v, uint32_t n, int64_t dim,
                                rush_value *out)
{
  rush_list *l;
  TRY(list_new(cx, type_simple(TYPE_TENSOR), n, &l));
  for (uint32_t i = 0; i < n; i++)
    l->items[l->n++] = value_retain(v[i]);
  const rush_value args[2] = {value_heap_steal(RUSH_TAG_LIST, l), value_int(dim)};
  rush_status st = op_invoke_name(cx, "aten::cat", "", args, 2, out);
  value_release(args[0]);
  return st;
}

static rush_status at_once(rush_call *call, uint32_t n)
{
  rush_value sides[2];
  TRY(side_by_side(call->cx, call->args, n, 1, &sides[0]));
  rush_status st = side_by_side(call->cx, call->args + n, n, 0, &sides[1]);
  if (st == RUSH_OK) {
    st = op_invoke_name(call->cx, "aten::mm", "", sides, 2, call->results);
    value_release(sides[1]);
  }
  value_release(sides[0]);
  return st;
}

static rush_status one_by_one(rush_call *call, uint32_t n)
{
  rush_value sum = value_none();
  for (uint32_t i = 0; i < n; i++) {
    const rush_value sides[2] = {call->args[i], call->args[n + i]};
    rush_value product, next;
    rush_status st = op_invoke_name(call->cx, "aten::mm", "", sides, 2, &product);
    if (st == RUSH_OK && i == 0) {
      sum = product;
      continue;
    }
    if (st == RUSH_OK) {
      const rush_value args[3] = {sum, product, value_int(1)};
      st = op_invoke_name(call->cx, "aten::add", "Tensor", args, 3, &next);
      value_release(product);
    }
    value_release(sum);
    TRY(st);
    sum = next;
  }
  call->results[0] = sum;
  return RUSH_OK;
}

rush_kernel kernel_mm_tree_reduce;
rush_status kernel_mm_tree_reduce(rush_call *call)
{
  const uint32_t n = call->n_args / 2;
  bool tensors = n > 0 && call->n_args % 2 == 0;
  for (uint32_t i = 0; i < call->n_args && tensors; i++)
    tensors = call->args[i].tag == RUSH_TAG_TENSOR && call->args[i].as.tensor;
  if (!tensors)
    return call_fail(call->cx, "prim::MMTreeReduce: expected pairs of matrices");
  const rush_tensor *first = call->args[0].as.tensor;
  return are_alike(call->args, n, first) && are_alike(call->args + n, n, first)
           ? at_once(call, n)
           : one_by_one(call, n);
}
