/* ir/facts.c -- facts about tensors: their order, their text, and types that carry them.
 *
 * Facts are small structs that are copied and compared field by field.  A type's facts are in its
 * store, once for each text, so that passes read them without parsing. */
#include "ir/facts.h"

#include <ctype.h>
#include <stdlib.h>

#include "tensor/sparse.h"

/* Room for the text of any facts: 2 numbers a dimension, and the names. */
#define MOST_TEXT (64 + IR_FACTS_DIMS * 44)

static const ir_facts nothing = {.dtype = DTYPE_NONE,
                                 .n_dims = -1,
                                 .defined = -1,
                                 .requires_grad = -1,
                                 .contiguous = -1};

ir_facts ir_facts_none(void) { return nothing; }

const ir_facts *ir_facts_of(const type *t)
{
  return t->kind == TYPE_TENSOR && t->facts ? t->facts : &nothing;
}

ir_facts ir_facts_of_tensor(const rush_tensor *t)
{
  ir_facts f = nothing;

  f.defined = t != NULL;
  f.requires_grad = t && tensor_requires_grad(t);
  if (!t)
    return f;
  f.dtype = t->dtype;
  f.has_device = true;
  f.device_kind = tensor_is_meta(t) ? DEVICE_META : DEVICE_CPU;
  f.device_index = -1;
  if (t->n_dims > IR_FACTS_DIMS)
    return f;
  const bool strided = !tensor_sparse(t);
  f.n_dims = (int8_t)t->n_dims;
  f.contiguous = strided && tensor_is_contiguous(t) ? 1 : -1;
  for (int i = 0; i < t->n_dims; i++) {
    f.sizes[i] = t->sizes[i];
    f.strides[i] = strided ? t->strides[i] : IR_STRIDE_UNKNOWN;
  }
  return f;
}

/* -- Order ------------------------------------------------------------------------------------- */

bool ir_facts_has_sizes(const ir_facts *f)
{
  bool all = f->n_dims >= 0;

  for (int i = 0; i < f->n_dims; i++)
    all &= f->sizes[i] >= 0;
  return all;
}

bool ir_facts_has_strides(const ir_facts *f)
{
  bool all = f->n_dims >= 0;

  for (int i = 0; i < f->n_dims; i++)
    all &= f->strides[i] != IR_STRIDE_UNKNOWN;
  return all;
}

bool ir_facts_on_cpu(const ir_facts *f) { return f->has_device && f->device_kind == DEVICE_CPU; }

bool ir_facts_equal(const ir_facts *a, const ir_facts *b)
{
  return ir_facts_is_subtype(a, b) && ir_facts_is_subtype(b, a);
}

bool ir_facts_is_none(const ir_facts *f) { return ir_facts_is_subtype(&nothing, f); }

bool ir_facts_are_row_major(const ir_facts *f)
{
  int64_t stride = 1;

  if (f->contiguous == 1)
    return true;
  if (!ir_facts_has_strides(f))
    return false;
  for (int i = f->n_dims - 1; i >= 0; i--) {
    if ((f->sizes[i] != 1 && f->strides[i] != stride) || (i > 0 && f->sizes[i] < 0))
      return false;
    stride = (int64_t)((uint64_t)stride * (uint64_t)f->sizes[i]); /* may be any numbers */
  }
  return true;
}

/* True if b knows nothing about a field, or the same as a. */
static bool has(int64_t a, int64_t b, int64_t unknown) { return b == unknown || a == b; }

bool ir_facts_is_subtype(const ir_facts *a, const ir_facts *b)
{
  bool is = has(a->dtype, b->dtype, DTYPE_NONE) && has(a->defined, b->defined, -1) &&
            has(a->requires_grad, b->requires_grad, -1) &&
            has(a->contiguous, b->contiguous, -1) && has(a->n_dims, b->n_dims, -1);

  if (b->has_device)
    is = is && a->has_device && a->device_kind == b->device_kind &&
         a->device_index == b->device_index;
  for (int i = 0; is && i < b->n_dims; i++)
    is = has(a->sizes[i], b->sizes[i], IR_SIZE_UNKNOWN) &&
         has(a->strides[i], b->strides[i], IR_STRIDE_UNKNOWN);
  return is;
}

static int64_t both(int64_t a, int64_t b, int64_t unknown) { return a == b ? a : unknown; }

ir_facts ir_facts_union(const ir_facts *a, const ir_facts *b)
{
  ir_facts f = *a;

  f.dtype = (int16_t)both(a->dtype, b->dtype, DTYPE_NONE);
  f.defined = (int8_t)both(a->defined, b->defined, -1);
  f.requires_grad = (int8_t)both(a->requires_grad, b->requires_grad, -1);
  f.contiguous = (int8_t)both(a->contiguous, b->contiguous, -1);
  f.has_device = a->has_device && b->has_device && a->device_kind == b->device_kind &&
                 a->device_index == b->device_index;
  f.n_dims = (int8_t)both(a->n_dims, b->n_dims, -1);
  for (int i = 0; i < f.n_dims; i++) {
    f.sizes[i] = both(a->sizes[i], b->sizes[i], IR_SIZE_UNKNOWN);
    f.strides[i] = both(a->strides[i], b->strides[i], IR_STRIDE_UNKNOWN);
  }
  return f;
}

bool ir_facts_describe(const rush_tensor *t)
{
  return !(t->h.flags & (TENSOR_WRAPPED_NUMBER | TENSOR_CONJ)) && !tensor_is_quantized(t) &&
         !tensor_is_meta(t) && !(t->extra && (t->extra->nested || t->extra->sparse)) &&
         t->n_dims <= IR_FACTS_DIMS;
}

bool ir_facts_fit(const ir_facts *f, const rush_tensor *t)
{
  if (!t)
    return f->defined != 1 && f->dtype == DTYPE_NONE && f->n_dims < 0 && !f->has_device &&
           f->requires_grad != 1 && f->contiguous != 1;
  if (f->defined == 0 || !has(t->dtype, f->dtype, DTYPE_NONE) || !has(t->n_dims, f->n_dims, -1) ||
      !has(tensor_requires_grad(t), f->requires_grad, -1))
    return false;
  if (f->has_device && f->device_kind != (tensor_is_meta(t) ? DEVICE_META : DEVICE_CPU))
    return false;
  for (int i = 0; i < f->n_dims; i++)
    if (!has(t->sizes[i], f->sizes[i], IR_SIZE_UNKNOWN) ||
        (f->strides[i] != IR_STRIDE_UNKNOWN &&
         (t->strides[i] != f->strides[i] || tensor_sparse(t))))
      return false;
  return f->contiguous != 1 || (!tensor_sparse(t) && tensor_is_contiguous(t));
}

/* -- Reading ----------------------------------------------------------------------------------- */

static const char *skip(const char *p)
{
  while (isspace((unsigned char)*p) || *p == ',')
    p++;
  return p;
}

static bool starts(const char **p, const char *word)
{
  size_t n = strlen(word);

  if (strncmp(*p, word, n) != 0)
    return false;
  *p += n;
  return true;
}

static const char *read_strides(const char *p, ir_facts *f)
{
  int n = 0;

  for (; *p && *p != ']'; p = skip(p)) {
    char *end;
    long long v = strtoll(p, &end, 10);
    if (end == p)
      return p;
    if (n < IR_FACTS_DIMS)
      f->strides[n++] = v;
    p = end;
  }
  for (int i = n == f->n_dims ? n : 0; i < IR_FACTS_DIMS; i++)
    f->strides[i] = IR_STRIDE_UNKNOWN;
  return *p ? p + 1 : p;
}

/* Read "cuda:1"; a device that is not known leaves the device unknown. */
static const char *read_device(const char *p, ir_facts *f)
{
  const size_t n = strcspn(p, ",)");
  rush_value device;

  f->has_device = device_parse((str){p, n}, &device) && value_device_kind(device) <= INT8_MAX &&
                  value_device_index(device) <= INT8_MAX;
  if (f->has_device) {
    f->device_kind = (int8_t)value_device_kind(device);
    f->device_index = (int8_t)value_device_index(device);
  }
  return p + n;
}

size_t ir_facts_parse(const char *text, int dtype, ir_facts *out)
{
  const char *p = text;
  ir_facts f = nothing;
  bool ranked = false, whole = false; /* whole: as a tensor without dimensions is written */

  f.dtype = (int16_t)dtype;
  if (*p++ != '(')
    return 0;
  f.n_dims = 0;
  for (int i = 0; i < IR_FACTS_DIMS; i++)
    f.strides[i] = IR_STRIDE_UNKNOWN;
  for (p = skip(p); *p && *p != ')'; p = skip(p)) {
    char *end;
    if (starts(&p, "strides=[")) {
      p = read_strides(p, &f);
    } else if (starts(&p, "requires_grad=")) {
      f.requires_grad = *p++ == '1';
    } else if (starts(&p, "device=")) {
      whole = f.requires_grad >= 0;
      p = read_device(p, &f);
    } else if (f.n_dims < IR_FACTS_DIMS && (*p == '*' || isdigit((unsigned char)*p))) {
      f.sizes[f.n_dims++] = *p == '*' ? IR_SIZE_UNKNOWN : strtoll(p, &end, 10);
      p = *p == '*' ? p + 1 : end;
      ranked = true;
    } else {
      return 0;
    }
  }
  if (*p != ')')
    return 0;
  if (!ranked && !whole)
    f.n_dims = -1;
  p++;
  if (starts(&p, "[Undefined]"))
    f.defined = 0;
  else if (dtype != DTYPE_NONE)
    f.defined = 1;
  *out = f;
  return (size_t)(p - text);
}

int ir_dtype_of_name(str name)
{
  for (int d = 0; d < N_DTYPES; d++)
    if (dtype_is_valid(d) && str_is(name, dtype_aten_name(d)))
      return d;
  return DTYPE_NONE;
}

const type *ir_type_unshaped(session *s, type_store *ts, const type *t)
{
  bool rebuilt = false;
  const type *made = t;

  if (t->kind == TYPE_TENSOR)
    return type_simple(TYPE_TENSOR);
  if (!t->n_elems || t->fields || t->kind == TYPE_CLASS)
    return t;
  session_enter(s);
  const type **elems = session_array(s, const type *, t->n_elems);
  for (uint32_t i = 0; i < t->n_elems; i++) {
    elems[i] = ir_type_unshaped(s, ts, t->elems[i]);
    rebuilt |= elems[i] != t->elems[i];
  }
  session_leave(s);
  if (rebuilt && t->kind == TYPE_TUPLE)
    made = type_tuple(ts, elems, t->n_elems);
  else if (rebuilt && t->kind == TYPE_DICT)
    made = type_dict(ts, elems[0], elems[1]);
  else if (rebuilt && t->kind == TYPE_LIST)
    made = type_list(ts, elems[0]);
  else if (rebuilt && t->kind == TYPE_OPTIONAL)
    made = type_optional(ts, elems[0]);
  else if (rebuilt && (t->kind == TYPE_FUTURE || t->kind == TYPE_AWAIT))
    made = type_generic(ts, t->kind, elems[0]);
  if (!made)
    session_check(s, call_nomem(s->cx));
  return made;
}

/* -- Writing ----------------------------------------------------------------------------------- */

void ir_facts_print(text_buf *out, const ir_facts *f)
{
  const char *comma = "";

  text_printf(out, "%s(", f->dtype == DTYPE_NONE ? "Tensor" : dtype_aten_name(f->dtype));
  for (int i = 0; i < f->n_dims; i++, comma = ", ") {
    if (f->sizes[i] < 0)
      text_printf(out, "%s*", comma);
    else
      text_printf(out, "%s%lld", comma, (long long)f->sizes[i]);
  }
  for (int i = 0; ir_facts_has_strides(f) && i < f->n_dims; i++)
    text_printf(out, "%s%lld%s", i ? ", " : ", strides=[", (long long)f->strides[i],
                i + 1 == f->n_dims ? "]" : "");
  /* PyTorch writes no rank where there are no sizes, and reads 0 dimensions.  Here the order of the
   * last two tells an unknown rank: PyTorch reads either order. */
  if (f->requires_grad >= 0 && f->n_dims >= 0) {
    text_printf(out, "%srequires_grad=%d", comma, f->requires_grad);
    comma = ", ";
  }
  if (f->has_device) {
    text_printf(out, "%sdevice=%s", comma, device_kind_name(f->device_kind));
    if (f->device_index >= 0)
      text_printf(out, ":%d", f->device_index);
    comma = ", ";
  }
  if (f->requires_grad >= 0 && f->n_dims < 0)
    text_printf(out, "%srequires_grad=%d", comma, f->requires_grad);
  text_printf(out, ")%s", f->defined == 0 ? "[Undefined]" : "");
}

/* Return a copy in which all that means the same has the same bytes: what is unused is 0. */
static ir_facts canonical(const ir_facts *f)
{
  ir_facts same;

  memset(&same, 0, sizeof same);
  same.dtype = f->dtype;
  same.n_dims = f->n_dims;
  same.defined = f->defined;
  same.requires_grad = f->requires_grad;
  same.contiguous = f->contiguous;
  same.has_device = f->has_device;
  same.device_kind = f->has_device ? f->device_kind : 0;
  same.device_index = f->has_device ? f->device_index : 0;
  for (int i = 0; i < f->n_dims; i++) {
    same.sizes[i] = f->sizes[i];
    same.strides[i] = f->strides[i];
  }
  return same;
}

/* The key is the facts: their text does not tell all, such as 0 dimensions from an unknown rank. */
const type *ir_facts_type(session *s, type_store *ts, const ir_facts *f)
{
  if (ir_facts_is_none(f))
    return type_simple(TYPE_TENSOR);
  const ir_facts same = canonical(f);
  const str key = {(const char *)&same, sizeof same};
  text_buf *text = session_text(s);

  ir_facts_print(text, f);
  return session_type(s, type_refined(ts, session_take_text(s, text), key, &same, sizeof same));
}
