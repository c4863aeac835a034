/* script/emit/index.c -- x[...]: reading, writing, deleting.
 *
 * Tensors: ints, slices, None and '...' become select, slice and unsqueeze from left to right (and
 * from the right after the dots); tensors among them make one aten::index over the remaining
 * dimensions. */
#include <string.h>

#include "script/emit/emit_int.h"

/* -- Slices ------------------------------------------------------------------------------------ */

typedef enum slice_bound { START, STOP, STEP } slice_bound;

/* One index: a:b:c, a slice object, or a value. */
typedef struct index_part {
  const ast_expr *x;
  bool is_slice;
  ir_value *bounds[3]; /* of a slice object; of a:b:c they are compiled when the slice is */
  ir_value *value;     /* of what is no slice */
} index_part;

static index_part read_part(emitter *e, const ast_expr *x)
{
  index_part out = {.x = x, .is_slice = x->kind == EXPR_SLICE};
  if (out.is_slice)
    return out;
  sugared v = em_sugared(e, x, NULL);
  source_range at = e->at;
  e->at = x->at;
  out.is_slice = v.kind == SUGAR_SLICE;
  if (out.is_slice)
    memcpy(out.bounds, v.as.slice.bounds, sizeof out.bounds);
  else
    out.value = em_as_value(e, &v);
  e->at = at;
  return out;
}

/* Return a bound; NULL: it is missing. */
static ir_value *bound_of(emitter *e, const index_part *p, slice_bound b)
{
  if (p->x->kind != EXPR_SLICE)
    return p->bounds[b];
  const ast_expr *x = b == START  ? p->x->as.slice.start
                      : b == STOP ? p->x->as.slice.stop
                                  : p->x->as.slice.step;
  return x ? em_expr(e, x, NULL) : NULL;
}

static bool constant_of(const ir_value *v, int64_t *out)
{
  rush_value c;
  if (!ir_value_as_constant(v, &c) || c.tag != RUSH_TAG_INT)
    return false;
  *out = c.as.i;
  return true;
}

static int64_t tuple_bound(emitter *e, const ir_value *v, int64_t n, int64_t otherwise)
{
  int64_t i;
  if (!v || v->type->kind == TYPE_NONE)
    return otherwise;
  if (!constant_of(v, &i))
    FAIL(e, "tuple slice indices must be integer constants");
  if (i < 0)
    i += n;
  return i < 0 ? 0 : i > n ? n : i;
}

static ir_value *slice_tuple(emitter *e, ir_value *v, const index_part *p)
{
  uint32_t n = v->type->n_elems, k = 0;
  int64_t step = 1;
  const ir_value *by = bound_of(e, p, STEP);
  if (by && by->type->kind != TYPE_NONE && !constant_of(by, &step))
    FAIL(e, "Step size should always be an integer");
  if (step == 0)
    FAIL(e, "tuple slices must have a step that is not 0");
  int64_t from = tuple_bound(e, bound_of(e, p, START), n, step > 0 ? 0 : (int64_t)n - 1);
  int64_t to = tuple_bound(e, bound_of(e, p, STOP), n, step > 0 ? (int64_t)n : -1);
  ir_value **all = session_array(e->s, ir_value *, n),
           **kept = session_array(e->s, ir_value *, n + 1);
  if (step < 0 && from > (int64_t)n - 1)
    from = (int64_t)n - 1;
  em_unpack_tuple(e, v, all);
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
    kept[k++] = all[i];
  return em_make_tuple(e, kept, k, NULL);
}

/* Compile a slice; dim is NULL for sequences. */
static ir_value *emit_slice(emitter *e, ir_value *v, ir_value *dim, const index_part *p)
{
  ir_value *in[5], *bound;
  uint32_t n = 0;
  in[n++] = v;
  if (dim)
    in[n++] = dim;
  for (slice_bound b = START; b <= STOP; b++)
    in[n++] = (bound = bound_of(e, p, b)) ? bound : em_constant_none(e);
  bound = bound_of(e, p, STEP);
  in[n++] = bound && bound->type->kind != TYPE_NONE ? bound : em_constant_int(e, 1);
  return em_call_op(e, "aten::slice", in, n);
}

/* -- Tensors ----------------------------------------------------------------------------------- */

typedef struct tensor_index {
  ir_value *sliced;    /* after ints, slices and Nones */
  ir_value **tensors;  /* n, by dimension; NULL: none there */
  uint32_t n;
} tensor_index;

/* Compile one index at dimension `dim`; returns the dimension of the next one. */
static int64_t emit_one_index(emitter *e, const ast_expr *x, int64_t dim, bool from_right,
                              index_part *out)
{
  int64_t next = from_right ? dim - 1 : dim + 1;
  *out = read_part(e, x);
  ir_value *v = out->value;
  if (out->is_slice)
    return next;
  if (v->type->kind == TYPE_LIST) {
    call_args a = {.args = &v, .n = 1};
    named_value dtype = {"dtype", em_constant_int(e, RUSH_INT64), x->at};
    a.kwargs = &dtype;
    a.n_kwargs = 1;
    v = em_call_builtin(e, "aten::tensor", NULL, &a);
  }
  out->value = v;
  const type *t = em_unwrap_optional(v->type);
  if (v->type->kind == TYPE_NONE)
    return from_right ? dim : next;
  if (v->type->kind == TYPE_INT)
    return from_right ? next : dim;
  if (is_tensor(t) && !from_right)
    return next;
  if (is_tensor(t))
    FAIL(e, "Ellipses followed by tensor indexing is currently not supported");
  FAIL(e,
       "Unsupported operation: indexing tensor with unsupported index type '%s'. Only ints, "
       "slices, lists "
       "and tensors are supported",
       TYPE_TEXT(e, v->type));
}

static ir_value *apply_index(emitter *e, tensor_index *ti, const index_part *p, int64_t dim)
{
  ir_value *v = p->value;
  if (p->is_slice)
    return emit_slice(e, ti->sliced, em_constant_int(e, dim), p);
  if (!v)
    return ti->sliced; /* ... */
  if (v->type->kind == TYPE_NONE) {
    ir_value *in[2] = {ti->sliced, em_constant_int(e, dim)};
    return em_call_op(e, "aten::unsqueeze", in, 2);
  }
  if (v->type->kind == TYPE_INT) {
    ir_value *in[3] = {ti->sliced, em_constant_int(e, dim), v};
    return em_call_op(e, "aten::select", in, 3);
  }
  ti->tensors[dim] = v;
  if (ti->n <= (uint32_t)dim)
    ti->n = (uint32_t)dim + 1;
  return ti->sliced;
}

static tensor_index emit_tensor_index(emitter *e, ir_value *v, const ast_exprs *index)
{
  tensor_index ti = {v, session_array(e->s, ir_value *, index->n), 0};
  int64_t *dims = session_array(e->s, int64_t, index->n), dim = 0;
  index_part *parts = session_array(e->s, index_part, index->n);
  uint32_t i = 0;
  for (; i < index->n && index->items[i]->kind != EXPR_ELLIPSIS; i++) {
    dims[i] = dim;
    dim = emit_one_index(e, index->items[i], dim, false, &parts[i]);
  }
  dim = -1;
  for (uint32_t r = index->n; r > i + 1; r--) {
    if (index->items[r - 1]->kind == EXPR_ELLIPSIS)
      FAIL(e, "An index can only have a single ellipsis ('...')");
    dims[r - 1] = dim;
    dim = emit_one_index(e, index->items[r - 1], dim, true, &parts[r - 1]);
  }
  for (i = 0; i < index->n; i++)
    ti.sliced = apply_index(e, &ti, &parts[i], dims[i]);
  for (i = 0; i < ti.n; i++)
    if (!ti.tensors[i])
      ti.tensors[i] = em_constant_none(e);
  return ti;
}

static ir_value *index_list(emitter *e, const tensor_index *ti)
{
  return em_make_list(e, em_optional_of(e, type_simple(TYPE_TENSOR)), ti->tensors, ti->n);
}

static ir_value *index_tensor(emitter *e, ir_value *v, const ast_exprs *index)
{
  tensor_index ti = emit_tensor_index(e, v, index);
  if (ti.n == 0)
    return ti.sliced;
  ir_value *in[2] = {ti.sliced, index_list(e, &ti)};
  return em_call_op(e, "aten::index", in, 2);
}

/* -- Tuples ------------------------------------------------------------------------------------ */

static ir_value *index_tuple(emitter *e, ir_value *v, ir_value *index)
{
  int64_t i, n = v->type->n_elems;
  const type *t = n ? v->type->elems[0] : NULL;
  if (constant_of(index, &i)) {
    if (i < -n || i >= n)
      FAIL(e, "Tuple index out of range. Tuple is length %lld and index is %lld", (long long)n,
           (long long)i);
    t = v->type->elems[i < 0 ? i + n : i];
  } else if (index->type->kind != TYPE_INT) {
    FAIL(e, "tuple index must be an integer");
  } else {
    for (int64_t k = 1; t && k < n; k++)
      t = em_unify(e, t, v->type->elems[k], false);
    if (!t)
      FAIL(e,
           "Cannot index into a %s with a non-integer literal because we cannot resolve the output "
           "type",
           TYPE_TEXT(e, v->type));
  }
  ir_value *in[2] = {v, index};
  return em_put_node(e, IR_TUPLE_INDEX, in, 2, t);
}

/* -- Reading ----------------------------------------------------------------------------------- */

static sugared index_value(emitter *e, ir_value *v, const ast_expr *x, const type *hint)
{
  const ast_exprs *index = &x->as.subscript.index;
  if (is_tensor(v->type))
    return sugar_value(index_tensor(e, v, index));
  if (index->n != 1)
    FAIL(e,
         "Unsupported operation: attempted to use multidimensional indexing on a non-tensor type");
  const ast_expr *one = index->items[0];
  function *f;
  if (v->type->kind == TYPE_CLASS)
    class_complete(e->s, v->type);
  bool is_module = v->type->kind == TYPE_CLASS && v->type->cls->is_module &&
                   !em_find_method(v->type, "__getitem__", &f);
  if (is_module && one->kind != EXPR_SLICE)
    return em_index_module(e, v, one, hint);
  type_kind k = v->type->kind;
  bool fits = k == TYPE_LIST || k == TYPE_STRING || k == TYPE_DICT || k == TYPE_CLASS ||
              k == TYPE_INTERFACE || k == TYPE_TUPLE;
  if (!fits && one->kind != EXPR_SLICE)
    FAIL(e, "'%s' object is not subscriptable", TYPE_TEXT(e, v->type));
  index_part p = read_part(e, one);
  if (p.is_slice && is_module)
    return sugar_value(slice_tuple(e, em_module_tuple(e, v), &p));
  if (k == TYPE_TUPLE)
    return sugar_value(p.is_slice ? slice_tuple(e, v, &p) : index_tuple(e, v, p.value));
  if (p.is_slice)
    return sugar_value(emit_slice(e, v, NULL, &p));
  ir_value *in[2] = {v, p.value};
  return sugar_value(em_call_magic(e, "__getitem__", "aten::__getitem__", in, 2));
}

static sugared index_items(emitter *e, const sugared *base, const ast_expr *x, const type *hint)
{
  int64_t i;
  const ast_exprs *index = &x->as.subscript.index;
  if (index->n == 1 && em_literal_int(index->items[0], &i)) {
    int64_t n = base->as.items.n;
    if (i < -n || i >= n)
      FAIL(e, "Tuple index out of range. Tuple is length %lld and index is %lld", (long long)n,
           (long long)i);
    return base->as.items.items[i < 0 ? i + n : i];
  }
  return index_value(e, em_as_value(e, base), x, hint);
}

sugared em_subscript(emitter *e, const ast_expr *x, const type *hint)
{
  sugared base = em_sugared(e, x->as.subscript.base, NULL);
  e->at = base.kind == SUGAR_HOST_OBJECT ? x->as.subscript.base->at : x->at;
  if (base.kind == SUGAR_TUPLE)
    return index_items(e, &base, x, hint);
  return index_value(e, em_as_value(e, &base), x, hint);
}

/* -- Writing ----------------------------------------------------------------------------------- */

/* Convert a number to be stored into a tensor to its dtype and device. */
static ir_value *number_to_tensor(emitter *e, ir_value *v, ir_value *like)
{
  type_kind k = v->type->kind;
  if (k != TYPE_INT && k != TYPE_FLOAT && k != TYPE_COMPLEX && k != TYPE_NUMBER && k != TYPE_BOOL)
    return v;
  named_value kwargs[2] = {{"dtype", em_call_op(e, "prim::dtype", &like, 1), e->at},
                           {"device", em_call_op(e, "prim::device", &like, 1), e->at}};
  call_args a = {.args = &v, .n = 1, .kwargs = kwargs, .n_kwargs = 2};
  return em_call_builtin(e, "aten::tensor", NULL, &a);
}

void em_assign_subscript(emitter *e, const ast_expr *target, ir_value *v)
{
  const ast_exprs *index = &target->as.subscript.index;
  ir_value *base = em_expr(e, target->as.subscript.base, NULL);
  if (is_tensor(base->type)) {
    tensor_index ti = emit_tensor_index(e, base, index);
    ir_value *in[3] = {ti.sliced, NULL, NULL};
    v = number_to_tensor(e, v, ti.sliced);
    if (ti.n == 0) {
      in[1] = v;
      em_call_op(e, "aten::copy_", in, 2);
      return;
    }
    in[1] = index_list(e, &ti);
    in[2] = v;
    em_call_op(e, "aten::index_put_", in, 3);
    return;
  }
  if (base->type->kind == TYPE_TUPLE)
    session_fail(e->s, &target->at, "%s does not support subscripted assignment",
                 TYPE_TEXT(e, base->type));
  if (index->n != 1 || index->items[0]->kind == EXPR_SLICE)
    session_fail(e->s, &index->items[0]->at,
                 "Sliced expression not yet supported for subscripted assignment. File a bug if "
                 "you want this");
  ir_value *in[3] = {base, em_expr(e, index->items[0], NULL), v};
  em_call_magic(e, "__setitem__", "aten::_set_item", in, 3);
}

void em_del_subscript(emitter *e, const ast_expr *target)
{
  const ast_exprs *index = &target->as.subscript.index;
  ir_value *base = em_expr(e, target->as.subscript.base, NULL);
  e->at = target->at;
  if (index->n != 1 || index->items[0]->kind == EXPR_SLICE)
    FAIL(e, "del statements only support deletion at a single index, slicing is not supported (see "
            "https://github.com/pytorch/pytorch/issues/31430)");
  if (base->type->kind == TYPE_TUPLE)
    FAIL(e, "%s does not support deletion of its elements", TYPE_TEXT(e, base->type));
  ir_value *in[2] = {base, em_expr(e, index->items[0], NULL)};
  function *f;
  if (base->type->kind == TYPE_CLASS && !em_find_method(base->type, "__delitem__", &f))
    FAIL(e, "Class does not define __delitem__");
  em_call_magic(e, "__delitem__", "aten::Delete", in, 2);
}
