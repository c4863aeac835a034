/* ops/kernels/values/control.c -- operators on values of any type (identity, enums, tuples, tolist,
 * id, hash), devices, and operators with effects outside the program: print, warn, raise, the
 * gradient mode, the clock. Each is a few lines around the value functions. Text that a program
 * prints is passed to the context's callback, never to stdout directly. */
#include "base/clock.h"
#include "base/macros.h"
#include "base/table.h"
#include "ops/point/scalar.h"

#define RETURN_BOOL(e) return call->results[0] = value_bool(e), RUSH_OK

/* -- Values of any type ------------------------------------------------------------------------ */

static bool is_nothing(rush_value v)
{
  return v.tag == RUSH_TAG_NONE || (v.tag == RUSH_TAG_TENSOR && !v.as.tensor);
}

static bool is_same(rush_call *call)
{
  rush_value a = call->args[0], b = call->args[1];
  if (is_nothing(a) || is_nothing(b))
    return is_nothing(a) && is_nothing(b);
  return value_is_same(a, b);
}

rush_kernel kernel_is, kernel_is_not, kernel_unwrap_optional, kernel_first_argument;
rush_status kernel_is(rush_call *call) { RETURN_BOOL(is_same(call)); }
rush_status kernel_is_not(rush_call *call) { RETURN_BOOL(!is_same(call)); }

rush_status kernel_unwrap_optional(rush_call *call)
{
  if (call_is_none(call, 0))
    return call_fail(call->cx, "Unwrapping null optional");
  call_return_arg(call, 0, 0);
  return RUSH_OK;
}

rush_status kernel_first_argument(rush_call *call)
{
  call_return_arg(call, 0, 0);
  return RUSH_OK;
}

rush_kernel kernel_enum_name, kernel_enum_value, kernel_if_then_else, kernel_tuple_index;
rush_status kernel_enum_name(rush_call *call)
{
  enum_value *e = value_enum(call->args[0]);
  call->results[0] = value_retain(value_heap_steal(RUSH_TAG_STRING, e->name));
  return RUSH_OK;
}

rush_status kernel_enum_value(rush_call *call)
{
  rush_value v = value_enum(call->args[0])->value;
  if (!type_contains_value(call->op->schema->returns[0].type, v)) /* another overload's */
    return call_fail(call->cx, "prim::EnumValue.%s: the member's value has another type",
                     call->op->schema->overload);
  call->results[0] = value_retain(v);
  return RUSH_OK;
}

rush_status kernel_if_then_else(rush_call *call)
{
  call_return_arg(call, 0, call_bool(call, 0) ? 1 : 2);
  return RUSH_OK;
}

rush_status kernel_tuple_index(rush_call *call)
{
  if (call->args[0].tag != RUSH_TAG_TUPLE)
    return call_fail(call->cx, "prim::TupleIndex: expected a tuple");
  const rush_tuple *t = call->args[0].as.tuple;
  int64_t i = index_wrap(call_int(call, 1), t->n);
  if (i < 0 || i >= (int64_t)t->n)
    return call_fail_type(call->cx, "IndexError", "Tuple list index out of range");
  call->results[0] = value_retain(t->items[i]);
  return RUSH_OK;
}

/* -- x.tolist() -------------------------------------------------------------------------------- */

/* The numbers of an annotation's element kinds. */
static const struct { type_kind kind; int dtypes[2]; const char *name; } list_kinds[] = {
    {TYPE_INT, {RUSH_INT64, RUSH_INT64}, "Long"},
    {TYPE_FLOAT, {RUSH_FLOAT32, RUSH_FLOAT64}, "Float"},
    {TYPE_BOOL, {RUSH_BOOL, RUSH_BOOL}, "Bool"},
    {TYPE_COMPLEX, {RUSH_COMPLEX64, RUSH_COMPLEX128}, "ComplexFloat"},
};

static rush_status element_value(call_ctx *cx, const rush_tensor *t, int64_t i, rush_value *out)
{
  const void *data = t->data;
  switch ((int)t->dtype) {
  case RUSH_INT64: *out = value_int(((const int64_t *)data)[i]); return RUSH_OK;
  case RUSH_BOOL: *out = value_bool(((const uint8_t *)data)[i] != 0); return RUSH_OK;
  case RUSH_FLOAT32: *out = value_float(((const float *)data)[i]); return RUSH_OK;
  case RUSH_FLOAT64: *out = value_float(((const double *)data)[i]); return RUSH_OK;
  case RUSH_COMPLEX64:
    return complex_new(cx, ((const float *)data)[2 * i], ((const float *)data)[2 * i + 1], out);
  default:
    return complex_new(cx, ((const double *)data)[2 * i], ((const double *)data)[2 * i + 1], out);
  }
}

/* Make the list over dimension `dim` that begins at element *at of a contiguous tensor; of type
 * List^n of `types[dim]`. */
static rush_status nested_list(call_ctx *cx, const rush_tensor *t, int dim, int64_t *at,
                               const type *const *types, rush_value *out)
{
  if (dim == t->n_dims)
    return element_value(cx, t, (*at)++, out);
  rush_list *l;
  TRY(list_new(cx, types[dim], (size_t)t->sizes[dim], &l));
  rush_status st = RUSH_OK;
  for (int64_t i = 0; st == RUSH_OK && i < t->sizes[dim]; i++) {
    rush_value item;
    st = nested_list(cx, t, dim + 1, at, types, &item);
    if (st == RUSH_OK)
      st = list_append_steal(cx, l, item);
  }
  rush_value made = value_heap_steal(RUSH_TAG_LIST, l);
  if (st == RUSH_OK)
    *out = made;
  else
    value_release(made);
  return st;
}

rush_kernel kernel_tolist;
rush_status kernel_tolist(rush_call *call)
{
  if (call->n_args != 3 || !call_tensor(call, 0))
    return call_fail(call->cx, "prim::tolist: expected a tensor, dimensions and an element type");
  rush_tensor *t = call_tensor(call, 0), *plain;
  int64_t dims = call_int(call, 1), kind = call_int(call, 2), at = 0;
  if (kind < 0 || kind >= (int64_t)COUNT_OF(list_kinds))
    return call_fail(call->cx, "prim::tolist: %lld is no element type", (long long)kind);
  if (dims != t->n_dims)
    return call_fail(
      call->cx,
      "Output annotation list dimension and runtime tensor dimension must match for tolist()");
  if (t->dtype != list_kinds[kind].dtypes[0] && t->dtype != list_kinds[kind].dtypes[1])
    return call_fail(call->cx,
                     "Output annotation element type and runtime tensor element type must match "
                     "for tolist(): %s vs %s",
                     list_kinds[kind].name, dtype_aten_name(t->dtype));
  const type *types[TENSOR_MAX_DIMS + 1];
  types[t->n_dims] = type_simple(list_kinds[kind].kind);
  for (int d = t->n_dims; d > 0; d--) {
    types[d - 1] =
      d == t->n_dims ? types[d] : type_list(type_store_of_context(call->cx->ctx), types[d]);
    if (!types[d - 1])
      return call_nomem(call->cx);
  }
  TRY(tensor_contiguous(call->cx, t, &plain));
  rush_status st = nested_list(call->cx, plain, 0, &at, types, &call->results[0]);
  tensor_release(plain);
  return st;
}

rush_kernel kernel_id, kernel_hash;
rush_status kernel_id(rush_call *call)
{
  rush_value v = call->args[0];

  if (v.tag != RUSH_TAG_NONE && v.tag != RUSH_TAG_OBJECT)
    return call_fail(call->cx, "id() takes an object or None");
  call->results[0] =
    value_int(v.tag == RUSH_TAG_NONE ? 0 : context_number(call->cx->ctx, &v.as.object->number));
  return RUSH_OK;
}

/* Compute a hash: equal values have equal hashes, and no hash comes from an address; the numbers
 * themselves may change. */
static uint64_t hash_of(context *c, rush_value v)
{
  uint64_t h = v.tag;
  switch ((int)v.tag) {
  case RUSH_TAG_NONE:
    return 0;
  case RUSH_TAG_BOOL:
    return v.as.b;
  case RUSH_TAG_STRING:
    return hash_bytes(v.as.string->text, v.as.string->len);
  case RUSH_TAG_COMPLEX:
    return hash_bytes(&value_complex(v)->re, 2 * sizeof(double));
  case RUSH_TAG_TUPLE:
    for (size_t i = 0; i < v.as.tuple->n; i++)
      h = h * UINT64_C(0x9e3779b97f4a7c15) + hash_of(c, v.as.tuple->items[i]);
    return h;
  case RUSH_TAG_TENSOR:
    return v.as.tensor
             ? h + (uint64_t)context_number(c, &v.as.tensor->number) * UINT64_C(0x9e3779b97f4a7c15)
             : h;
  case RUSH_TAG_OBJECT:
    return h + (uint64_t)context_number(c, &v.as.object->number) * UINT64_C(0x9e3779b97f4a7c15);
  case RUSH_TAG_ENUM:
    return h + hash_bytes(value_enum(v)->name->text, value_enum(v)->name->len);
  case RUSH_TAG_INT:
  case RUSH_TAG_FLOAT:
  case RUSH_TAG_DEVICE:
    return (uint64_t)v.as.i;
  default:
    return h; /* kinds that PyTorch does not hash */
  }
}

rush_status kernel_hash(rush_call *call)
{
  uint32_t tag = call->args[0].tag;
  if (tag == RUSH_TAG_LIST || tag == RUSH_TAG_DICT)
    return call_fail(call->cx, "unhashable type: '%s'", tag == RUSH_TAG_LIST ? "list" : "dict");
  if (tag == RUSH_TAG_OBJECT)
    return call_fail(call->cx, "unhashable type: '%s'", call->args[0].as.object->type->name);
  call->results[0] = value_int((int64_t)hash_of(call->cx->ctx, call->args[0]));
  return RUSH_OK;
}

/* -- Devices ----------------------------------------------------------------------------------- */

static rush_status device_of(rush_call *call, str text, rush_value *out)
{
  size_t n = 0;
  if (device_parse(text, out))
    return RUSH_OK;
  if (!text.len)
    return call_fail(call->cx, "Device string must not be empty");
  while (n < text.len && (text.p[n] == '_' || ((text.p[n] | 32) >= 'a' && (text.p[n] | 32) <= 'z')))
    n++;
  if (n == 0 || (n < text.len && text.p[n] != ':') || text.p[0] == '_')
    return call_fail(call->cx, "Invalid device string: '%.*s'", (int)text.len, text.p);
  return call_fail(
    call->cx,
    "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, "
    "xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device "
    "string: %.*s",
    (int)n, text.p);
}

rush_kernel kernel_device_of_str, kernel_device_with_index, kernel_device_type, kernel_device_index;
rush_status kernel_device_of_str(rush_call *call)
{
  return device_of(call, call_str(call, 0), &call->results[0]);
}

rush_status kernel_device_with_index(rush_call *call)
{
  rush_value d;
  TRY(device_of(call, call_str(call, 0), &d));
  int64_t index = call_int(call, 1);
  if (value_device_index(d) >= 0)
    return call_fail(call->cx,
                     "type (string) must not include an index because index was passed explicitly");
  if (index < 0 || index > 127)
    return call_fail(call->cx, "Device index must not be negative");
  call->results[0] = value_device(value_device_kind(d), (int32_t)index);
  return RUSH_OK;
}

rush_status kernel_device_type(rush_call *call)
{
  const char *name = device_kind_name(value_device_kind(call->args[0]));
  return string_new(call->cx, name, name ? strlen(name) : 0, &call->results[0]);
}

rush_status kernel_device_index(rush_call *call)
{
  int32_t index = value_device_index(call->args[0]);
  call->results[0] = index < 0 ? value_none() : value_int(index);
  return RUSH_OK;
}

/* -- The world --------------------------------------------------------------------------------- */

typedef rush_status print_value(call_ctx *cx, text_buf *out, rush_value v);

/* Print the arguments, with `between` between them, and end the line. */
static rush_status print_line(rush_call *call, const char *between, print_value *print)
{
  text_buf out;
  rush_status st = RUSH_OK;
  text_init(&out, call->cx->ctx);
  for (uint32_t i = 0; st == RUSH_OK && i < call->n_args; i++) {
    text_puts(&out, i ? between : "");
    st = print(call->cx, &out, call->args[i]);
  }
  text_putc(&out, '\n');
  if (st == RUSH_OK && text_failed(&out))
    st = call_nomem(call->cx);
  if (st == RUSH_OK)
    call_print(call->cx, text_str(&out), out.len);
  text_free(&out);
  return st;
}

/* Append the value as Python's str() does. */
static rush_status print_str(call_ctx *cx, text_buf *out, rush_value v)
{
  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor)
    return tensor_print_python(cx, out, v.as.tensor);
  if (v.tag != RUSH_TAG_STRING)
    return value_repr(cx, out, v);
  text_add(out, v.as.string->text, v.as.string->len);
  return RUSH_OK;
}

rush_kernel kernel_print, kernel_print_pieces, kernel_warn, kernel_raise;
rush_status kernel_print(rush_call *call) { return print_line(call, " ", value_print); }
rush_status kernel_print_pieces(rush_call *call) { return print_line(call, "", print_str); }

rush_status kernel_warn(rush_call *call)
{
  call_warn(call->cx, call_str(call, 0).p);
  return RUSH_OK;
}

rush_status kernel_raise(rush_call *call)
{
  return call_fail_type(call->cx, "Error", "%s", call_str(call, 0).p);
}

rush_kernel kernel_set_grad_enabled, kernel_time_point;
rush_status kernel_set_grad_enabled(rush_call *call)
{
  call->cx->grad_mode = call_bool(call, 0);
  return RUSH_OK;
}

rush_status kernel_time_point(rush_call *call)
{
  call->results[0] = value_int((int64_t)clock_ns());
  return RUSH_OK;
}
