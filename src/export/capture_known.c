/* export/capture_known.c -- operators that are computed while a program is captured.
 *
 * What an operator asks of a tensor beside its data is answered from facts: sizes are symbolic.
 * Containers are worked on by the operators' own kernels, since these look at no item (their
 * schemas have a type variable in its place).  Numbers without symbols are computed by kernels,
 * too; with symbols by capture_number.c, or else each symbol is fixed.  The value of a tensor is
 * known only of constants of the code; of other tensors it is a number that depends on data. */
#include "export/capture_int.h"

#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"

/* True for an effect on the capture alone, or a check of what is known. */
static bool is_harmless(const op *o)
{
  switch (o->name_key) {
  case OPN_IS_GRAD_ENABLED:
  case OPN_SET_GRAD_ENABLED:
  case OPN__ASSERT_ASYNC:
  case OPN__ASSERT_SCALAR:
  case OPN__ASSERT_TENSOR_METADATA:
  case OPN_SYM_CONSTRAIN_RANGE:
  case OPN_SYM_CONSTRAIN_RANGE_FOR_SIZE:
    return true;
  default:
    return !(o->effects & (OP_RANDOM | OP_SIDE_EFFECT)) && o->name_key != OPN_SAVE;
  }
}

static void run_kernel(capture *c, const op *o, const rush_value *args, uint32_t n_args,
                       rush_value *results, uint32_t n)
{
  if (!is_harmless(o))
    capture_fail(c, "%s has an effect outside of the program", o->schema->name);
  session_check(c->s, op_invoke(c->s->cx, o, args, n_args, results, n));
  for (uint32_t i = 0; i < n; i++)
    capture_hold(c, results[i]);
}

/* Note that data of the module decide what is captured: nothing may write to them later. */
static void note_read(capture *c, const rush_value *args, uint32_t n)
{
  tensor_walk w = {.values = args, .n = n};
  const rush_tensor *t;

  while ((t = tensor_walk_next(&w)) != NULL)
    capture_root(capture_tensor_of(c, t))->was_read = true;
}

void capture_compute(capture *c, const op *o, const rush_value *args, uint32_t n_args,
                     rush_value *results, uint32_t n)
{
  rush_value *fixed = session_array(c->s, rush_value, (size_t)n_args + 1);
  const schema *sc = o->schema;
  bool is_known = true;

  for (uint32_t i = 0; i < n_args; i++)
    is_known &= !capture_has_unknown(c, args[i]);
  if (!is_known && n == 1 && sc->n_returns == 1 && type_is(sc->returns[0].type, TYPE_STRING)) {
    results[0] = capture_text_of(c, o, args, n_args);
    return;
  }
  for (uint32_t i = 0; i < n_args; i++) {
    const bool is_written = i < sc->n_args && sc->args[i].is_write;
    if (capture_has_data(c, args[i]) || args[i].tag == RUSH_TAG_OBJECT)
      capture_fail(c, "%s needs the value of a tensor, or of an object, before the program runs",
                   sc->name);
    if (is_written && args[i].tag == RUSH_TAG_LIST) {
      capture_check_container(c, args[i]);
      capture_fix_items(c, args[i].as.list);
    }
    fixed[i] = is_written ? args[i] : capture_fix(c, args[i]);
  }
  note_read(c, args, n_args);
  run_kernel(c, o, fixed, n_args, results, n);
}

static void compute_here(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  capture_compute(c, o, args, o->schema->n_args, results, o->schema->n_returns);
}

static bool has_tensor(const rush_value *args, uint32_t n)
{
  tensor_walk w = {.values = args, .n = n};

  return tensor_walk_next(&w) != NULL;
}

static bool returns_tensor(const schema *sc)
{
  for (uint32_t i = 0; i < sc->n_returns; i++) {
    const type *t = sc->returns[i].type;
    while (t->kind == TYPE_OPTIONAL || t->kind == TYPE_LIST)
      t = type_elem(t);
    if (t->kind == TYPE_TENSOR)
      return true;
  }
  return false;
}

/* Run an operator that moves items of lists and dicts, whatever they are.  Indices and keys
 * decide. */
static void move_items(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  const schema *sc = o->schema;
  rush_value *fixed = session_array(c->s, rush_value, (size_t)sc->n_args + 1);

  for (uint32_t i = 0; i < sc->n_args; i++) {
    const bool is_plain = sc->args[i].type->kind != TYPE_LIST && !type_has_vars(sc->args[i].type);
    if (sc->args[i].is_write)
      capture_check_container(c, args[i]);
    fixed[i] = is_plain ? capture_fix(c, args[i]) : args[i];
    if (o->name_key == OPN_DICT && args[i].tag == RUSH_TAG_LIST && capture_has_number(c, args[i]))
      fixed[i] = capture_fix(c, args[i]); /* pairs, with keys */
  }
  run_kernel(c, o, fixed, sc->n_args, results, sc->n_returns);
}

/* -- Sizes ------------------------------------------------------------------------------------- */

static rush_value int_list(capture *c, const symint *values, int n)
{
  rush_list *l;

  session_check(c->s, list_new(c->s->cx, type_simple(TYPE_INT), (size_t)n, &l));
  const rush_value v = capture_hold(c, value_heap_steal(RUSH_TAG_LIST, l));
  for (int i = 0; i < n; i++)
    session_check(c->s,
                  list_append_steal(c->s->cx, l, value_retain(capture_int(c, values[i]))));
  return v;
}

/* All of them, or the one that the second argument names. */
static rush_value some_sizes(capture *c, const op *o, const rush_value *args,
                             const symint *values, int n)
{
  if (o->schema->n_args < 2)
    return int_list(c, values, n);
  const rush_value at = capture_fix(c, args[1]);
  const int64_t i = at.tag == RUSH_TAG_INT ? index_wrap(at.as.i, (size_t)n) : -1;
  if (i < 0 || i >= n)
    session_fail_status(c->s, RUSH_ERAISED, "IndexError", NULL,
                        "Dimension out of range (expected to be in range of [%d, %d], but got "
                        "%lld)",
                        n ? -n : -1, n ? n - 1 : 0,
                        (long long)(at.tag == RUSH_TAG_INT ? at.as.i : 0));
  return capture_int(c, values[i]);
}

static symint n_elements(capture *c, const symshape_facts *f)
{
  symint n = sym_const(c->env, 1);

  for (int i = 0; i < f->n_dims; i++)
    n = sym_mul(c->env, n, f->sizes[i]);
  return n;
}

/* True if elements lie in the order of dimensions.  Decomposing, for all sizes: who asks copies
 * otherwise, and a condition on the program's sizes could not be added. */
static bool is_row_major(capture *c, const symshape_facts *f)
{
  symint dense = sym_const(c->env, 1);

  for (int i = f->n_dims; i-- > 0;) {
    if (sym_known(c->env, sym_eq(c->env, f->sizes[i], sym_const(c->env, 1))) == 1)
      continue;
    const sym_cond same = sym_eq(c->env, f->strides[i], dense);
    if (c->decomposes ? sym_known(c->env, same) != 1 : !sym_decide(c->env, same))
      return false;
    dense = sym_mul(c->env, dense, f->sizes[i]);
  }
  return true;
}

/* Return the dtype that two tensors or numbers promote to. */
static rush_value common_dtype(capture *c, const rush_value *args)
{
  promote_state p = PROMOTE_INIT;

  for (int i = 0; i < 2; i++) {
    if (args[i].tag == RUSH_TAG_TENSOR && args[i].as.tensor) {
      const symshape_facts *f = &capture_tensor_of(c, args[i].as.tensor)->facts;
      promote_add_tensor(&p, f->dtype, f->n_dims, f->flags & SHAPE_WRAPPED);
    } else {
      promote_add_scalar(&p, number_class(capture_plain_number(args[i])));
    }
  }
  const int dtype = promote_result(&p);
  if (dtype == DTYPE_NONE)
    capture_fail(c, "the dtypes of two arguments have no common one");
  return value_int(dtype);
}

/* Answer what is asked of a tensor's facts; returns false if it is something else. */
static bool size_query(capture *c, const op *o, const rush_value *args, rush_value *result)
{
  if (o->name_key == OPN_RESULT_TYPE) {
    *result = common_dtype(c, args);
    return true;
  }
  if (args[0].tag != RUSH_TAG_TENSOR || !args[0].as.tensor)
    return false;
  const symshape_facts *f = &capture_tensor_of(c, args[0].as.tensor)->facts;
  switch (o->name_key) {
  case OPN_SIZE:
    *result = some_sizes(c, o, args, f->sizes, f->n_dims);
    return true;
  case OPN_STRIDE:
    *result = some_sizes(c, o, args, f->strides, f->n_dims);
    return true;
  case OPN_DIM:
    *result = value_int(f->n_dims);
    return true;
  case OPN_LEN:
    if (f->n_dims == 0)
      capture_fail(c, "len() of a 0-d tensor");
    *result = capture_int(c, f->sizes[0]);
    return true;
  case OPN_NUMEL:
    *result = capture_int(c, n_elements(c, f));
    if (c->options->structure && !c->decomposes && capture_number_of(*result))
      capture_count(c, args[0], capture_number_of(*result)->i);
    return true;
  case OPN_STORAGE_OFFSET:
    *result = capture_int(c, f->offset);
    return true;
  case OPN_PRIM__REQUIRES_GRAD:
    *result = value_bool(capture_tensor_of(c, args[0].as.tensor)->requires_grad);
    return true;
  case OPN_REQUIRES_GRAD_: /* what results look like depends on it, and nothing else */
    capture_tensor_of(c, args[0].as.tensor)->requires_grad = args[1].as.b;
    *result = args[0];
    return true;
  case OPN_IS_CONTIGUOUS:
    if (o->schema->n_args > 1 && args[1].tag == RUSH_TAG_INT && args[1].as.i > 0)
      capture_fail(c, "is_contiguous with a memory format cannot be exported");
    *result = value_bool(is_row_major(c, f));
    return true;
  default:
    return false;
  }
}

/* True for what is asked of a tensor beside sizes and data: its identity answers. */
static bool is_property(uint32_t name)
{
  static const uint16_t names[] = {
    OPN_PRIM__DTYPE,        OPN_PRIM__DEVICE,     OPN_PRIM__LAYOUT,       OPN_PRIM__IS_CPU,
    OPN_PRIM__IS_CUDA,      OPN_PRIM__IS_IPU,     OPN_PRIM__IS_MAIA,      OPN_PRIM__IS_META,
    OPN_PRIM__IS_MKLDNN,    OPN_PRIM__IS_MPS,     OPN_PRIM__IS_MTIA,      OPN_PRIM__IS_NESTED,
    OPN_PRIM__IS_QUANTIZED, OPN_PRIM__IS_SPARSE,  OPN_PRIM__IS_SPARSE_CSR, OPN_PRIM__IS_VULKAN,
    OPN_PRIM__IS_XLA,       OPN_PRIM__IS_XPU,     OPN_PRIM__ITEMSIZE,
    OPN_PRIM__ID,           OPN___IS__,           OPN___ISNOT__,          OPN_IS_FLOATING_POINT,
    OPN_IS_COMPLEX,         OPN_IS_SIGNED,        OPN_ELEMENT_SIZE,       OPN_GET_DEVICE,
    OPN_IS_CONJ,            OPN_IS_NEG,           OPN_IS_INFERENCE,       OPN_IS_LEAF,
    OPN_IS_PINNED,          OPN_PRIM__TYPE,       OPN_PRIM__NAME};

  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (names[i] == name)
      return true;
  return false;
}

/* -- The value of a tensor --------------------------------------------------------------------- */

static bool reads_value(uint32_t name)
{
  return name == OPN_ITEM || name == OPN__LOCAL_SCALAR_DENSE || name == OPN_INT ||
         name == OPN_FLOAT || name == OPN_BOOL || name == OPN_INTIMPLICIT ||
         name == OPN_FLOATIMPLICIT || name == OPN_SCALARIMPLICIT || name == OPN_IS_NONZERO;
}

/* Return x != 0 as a tensor. */
static rush_value not_zero(capture *c, rush_value x)
{
  const op *ne = session_op_find(c->s, STR("aten::ne"), STR("Scalar"));
  const rush_value args[] = {x, value_int(0)};
  rush_value made;

  capture_record(c, ne, args, &made);
  return made;
}

/* Return x converted to a dtype. */
static rush_value of_dtype(capture *c, rush_value x, int dtype)
{
  const op *to = session_op_find(c->s, STR("aten::to"), STR("dtype"));
  const rush_value args[] = {x, value_int(dtype), value_bool(false), value_bool(false),
                             value_none()};
  rush_value made;

  capture_op(c, to, args, &made);
  return made;
}

/* Make a number of the value of a tensor of one element. */
static rush_value read_value(capture *c, const op *o, rush_value x)
{
  int dtype = capture_tensor_of(c, x.as.tensor)->facts.dtype;
  const bool as_bool = o->name_key == OPN_BOOL || o->name_key == OPN_IS_NONZERO;
  const bool as_int = o->name_key == OPN_INT || o->name_key == OPN_INTIMPLICIT;

  if (as_bool && dtype != RUSH_BOOL) {
    x = not_zero(c, x);
    dtype = RUSH_BOOL;
  }
  if ((as_int && dtype_is_float(dtype)) || (o->name_key == OPN_FLOAT && !dtype_is_float(dtype) &&
                                            !dtype_is_complex(dtype))) {
    dtype = as_int ? RUSH_INT64 : RUSH_FLOAT64;
    x = of_dtype(c, x, dtype);
  }
  if (dtype_is_complex(dtype))
    capture_fail(c, "%s of a %s tensor that depends on data cannot be exported", o->schema->name,
                 dtype_name(dtype));
  const fx_arg arg = capture_arg(c, x, NULL);
  fx_node *n = capture_node(c, c->decomposes ? "torch.ops.aten._local_scalar_dense.default"
                                             : "torch.ops.aten.item.default", &arg, 1);
  capture_tensor *t = capture_tensor_of(c, x.as.tensor);
  const capture_number *read =
    t->read_at == arg.as.node && capture_is_live(c) ? capture_number_of(t->read) : NULL;
  if (read && read->kind == FX_VAL_INT && !c->branch) /* the same number again: it has its symbol */
    return capture_number_again(c, read, n);
  t->read = capture_fresh(c,
                          dtype == RUSH_BOOL        ? FX_VAL_BOOL
                          : dtype_is_float(dtype) ? FX_VAL_FLOAT
                                                  : FX_VAL_INT,
                          n);
  t->read_at = arg.as.node;
  return t->read;
}

static bool are_known(capture *c, const rush_value *args, uint32_t n)
{
  tensor_walk w = {.values = args, .n = n};
  const rush_tensor *t;

  while ((t = tensor_walk_next(&w)) != NULL)
    if (!capture_is_known(capture_tensor_of(c, t)))
      return false;
  return true;
}

/* -- Numbers as tensors ------------------------------------------------------------------------ */

/* True if all tensors have one element, require no gradient, and no argument is symbolic. */
static bool are_small(capture *c, const op *o, const rush_value *args)
{
  tensor_walk w = {.values = args, .n = o->schema->n_args};
  const rush_tensor *t;

  while ((t = tensor_walk_next(&w)) != NULL)
    if (t->n_elems > 1 || t->h.flags & TENSOR_REQUIRES_GRAD)
      return false;
  for (uint32_t i = 0; i < o->schema->n_args; i++)
    if (capture_has_number(c, args[i]))
      return false;
  return true;
}

/* True if the operator may be computed now: its arguments are constants of one element, and the
 * same will come out whenever the program runs.  Traces compute sizes so. */
static bool is_small(capture *c, const op *o, const rush_value *args)
{
  if (!c->decomposes && (c->options->structure || o->name_key == OPN_LIFT_FRESH_COPY))
    return false; /* Python computes no sizes so: torch.export keeps what it ran */
  return !(o->effects & (OP_WRITES | OP_RANDOM | OP_SIDE_EFFECT)) &&
         !schema_is_mutable(o->schema) && are_small(c, o, args);
}

/* Compute an operator on constants; its results are constants, too, if they are small. */
static bool fold(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  if (!is_small(c, o, args))
    return false;
  compute_here(c, o, args, results);
  tensor_walk w = {.values = results, .n = o->schema->n_returns};
  const rush_tensor *t;
  while ((t = tensor_walk_next(&w)) != NULL)
    if (t->n_elems > 1)
      return false;
  for (w = (tensor_walk){.values = results, .n = o->schema->n_returns};
       (t = tensor_walk_next(&w)) != NULL;)
    if (!table_get(&c->tensors, address_key(t)))
      capture_constant(c, value_tensor_steal((rush_tensor *)(uintptr_t)t));
  return true;
}

/* Return the number that a tensor is made of, as a value; None: it is made of none. */
static rush_value number_in(capture *c, rush_value v)
{
  rush_value n = value_none();

  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
    return capture_is_int(v) ? v : n;
  capture_tensor *t = capture_tensor_of(c, v.as.tensor);
  if (capture_is_known(t) && v.as.tensor->dtype == RUSH_INT64 && v.as.tensor->n_elems == 1) {
    note_read(c, &v, 1);
    return value_int(*(const int64_t *)v.as.tensor->data);
  }
  return t->number;
}

/* Return a number, or the answer to a comparison, as a tensor. */
static rush_value constant_of(capture *c, rush_value number)
{
  rush_tensor *t;

  session_check(c->s, tensor_from_scalar(c->s->cx, number, number_dtype(number), &t));
  const rush_value v = capture_hold(c, value_tensor_steal(t));
  capture_constant(c, v);
  return v;
}

/* Arithmetic of tensors that are made of sizes, as traces have it. */
static bool number_arithmetic(capture *c, const op *o, const rush_value *args, rush_value *result)
{
  const schema *sc = o->schema;
  rush_value a, b;

  if (sc->n_args < 1 || schema_is_mutable(sc))
    return false;
  a = number_in(c, args[0]);
  if (value_is_none(a))
    return false;
  if (reads_value(o->name_key)) {
    *result = a;
    return capture_is_int(a);
  }
  if (sc->n_args < 2 || (sc->n_args > 2 && !(capture_is_int(args[2]) && args[2].as.i == 1 &&
                                             args[2].tag == RUSH_TAG_INT)))
    return false;
  b = number_in(c, args[1]);
  if (!capture_is_int(a) || !capture_is_int(b) ||
      !capture_on_ints(c, o->name_key == OPN_FLOOR_DIVIDE ? OPN_FLOORDIV : o->name_key, a, b,
                       result))
    return false;
  if (capture_number_of(*result) && capture_number_of(*result)->kind == FX_VAL_BOOL)
    *result = capture_fix_number(c, *result);
  if (capture_number_of(*result))
    *result = capture_number_tensor(c, *result);
  else
    *result = constant_of(c, *result);
  return true;
}

/* -- Tensors from values ----------------------------------------------------------------------- */

/* A tensor of known values is a constant; of a symbolic number, it is made by scalar_tensor. */
static bool make_tensor(capture *c, const op *o, const rush_value *args, rush_value *result)
{
  const capture_number *n = capture_number_of(args[0]);

  if (n && o->name_key == OPN_PRIM__NUMTOTENSOR) {
    *result = capture_number_tensor(c, args[0]);
    return true;
  }
  if (n) {
    const op *make = session_op_find(c->s, STR("aten::scalar_tensor"), STR(""));
    rush_value all[5] = {args[0], value_int(n->kind == FX_VAL_INT ? RUSH_INT64 : RUSH_FLOAT32)};
    for (uint32_t i = 1; i < o->schema->n_args && i < 3; i++)
      if (!value_is_none(args[i]))
        all[i == 1 ? 1 : 3] = args[i];
    all[2] = value_none();
    all[3] = all[3].tag ? all[3] : value_none();
    all[4] = value_none();
    capture_record(c, make, all, result);
    return true;
  }
  compute_here(c, o, args, result);
  capture_constant(c, *result);
  return true;
}

/* x.to() with arguments by kind, which only TorchScript has: as the overload that PyTorch has. */
static bool convert(capture *c, const op *o, const rush_value *args, rush_value *result)
{
  const schema *sc = o->schema;
  rush_value device = value_none(), dtype = value_none(), all[6];
  uint32_t at = 1;

  if (strncmp(sc->overload, "prim_", 5) != 0)
    return false;
  if (strcmp(sc->overload, "prim_Device") == 0)
    device = args[at++];
  if (strcmp(sc->overload, "prim_other") != 0)
    dtype = args[at++];
  if (value_is_none(dtype))
    dtype = value_int(capture_tensor_of(c, args[0].as.tensor)->facts.dtype);
  const bool has_device = !value_is_none(device);
  const op *to = session_op_find(c->s, STR("aten::to"), has_device ? STR("device") : STR("dtype"));
  rush_value *p = all;
  *p++ = args[0];
  if (has_device)
    *p++ = device;
  *p++ = dtype;
  *p++ = args[at];
  *p++ = args[at + 1];
  *p++ = value_none();
  capture_record(c, to, all, result);
  return true;
}

/* -- All of them ------------------------------------------------------------------------------- */

/* Operators that have a meaning of their own here. */
static bool special(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  const uint32_t n = o->schema->n_args;

  switch (o->name_key) {
  case OPN_WAIT: /* tasks were evaluated where they began */
    results[0] = args[0];
    return true;
  case OPN_WARN:
  case OPN_PRIM__PRINT:
    return true;
  case OPN_TENSOR:
  case OPN_AS_TENSOR:
  case OPN_PRIM__NUMTOTENSOR:
    return !has_tensor(args, n) && make_tensor(c, o, args, results);
  case OPN_TO:
    return convert(c, o, args, results);
  case OPN_SET_GRAD_ENABLED:
    if (!c->decomposes)
      capture_mark_grad(c, args[0].as.b);
    c->s->cx->grad_mode = args[0].as.b;
    return true;
  default:
    return false;
  }
}

/* True for x[:] of a dimension whose size is known: nothing is cut, and PyTorch records nothing.
 * (Decomposing, the program has the node, and what is written to it reaches x.) */
static bool is_whole_slice(capture *c, const op *o, const rush_value *args)
{
  if (c->decomposes || o->key != OPK_SLICE_TENSOR || args[1].tag != RUSH_TAG_INT ||
      args[4].tag != RUSH_TAG_INT || args[4].as.i != 1 ||
      !(value_is_none(args[2]) || (args[2].tag == RUSH_TAG_INT && args[2].as.i == 0)))
    return false;
  const symshape_facts *f = &capture_tensor_of(c, args[0].as.tensor)->facts;
  const int64_t dim = index_wrap(args[1].as.i, (size_t)f->n_dims);
  return dim >= 0 && dim < f->n_dims && sym_is_const(f->sizes[dim]) &&
         (value_is_none(args[3]) || (args[3].tag == RUSH_TAG_INT && args[3].as.i == INT64_MAX));
}

/* Return another tensor that the same node has. */
static rush_value same_node(capture *c, rush_value x)
{
  const fx_node *n = capture_arg(c, x, NULL).as.node;
  capture_tensor *t = capture_tensor_of(c, x.as.tensor);
  const rush_value v = capture_tensor_new(c, (fx_node *)(uintptr_t)n, &t->facts, t->requires_grad);
  capture_tensor *made = capture_tensor_of(c, v.as.tensor);

  made->root = capture_root(t);
  made->shares_node = t->shares_node = true;
  return v;
}

/* x *= y on a number that no node has needed yet: on its data, or on the symbolic number. */
static bool write_number(capture *c, const op *o, const rush_value *args, rush_value *result)
{
  capture_tensor *t =
    args[0].tag == RUSH_TAG_TENSOR ? capture_tensor_of(c, args[0].as.tensor) : NULL;
  rush_value made;

  if (!t || t->node || o->variant != VARIANT_INPLACE || !o->base || t->facts.n_dims)
    return false;
  if (t->is_fresh && are_known(c, args, o->schema->n_args) && are_small(c, o, args)) {
    capture_check_write(c, o, t);
    t->is_known = true;
    compute_here(c, o, args, result);
    return true;
  }
  if (value_is_none(t->number) || !number_arithmetic(c, o->base, args, &made))
    return false;
  const capture_tensor *from = capture_tensor_of(c, made.as.tensor);
  if (value_is_none(from->number))
    return false;
  capture_check_write(c, o, t);
  t->number = from->number;
  *result = args[0];
  return true;
}

static bool on_tensors(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  const uint32_t n = o->schema->n_args;

  if (size_query(c, o, args, results))
    return true;
  if (is_property(o->name_key)) {
    run_kernel(c, o, args, n, results, o->schema->n_returns);
    return true;
  }
  if (write_number(c, o, args, results))
    return true;
  const bool known = are_known(c, args, n);
  if (!known && args[0].tag == RUSH_TAG_TENSOR && is_whole_slice(c, o, args)) {
    results[0] = same_node(c, args[0]);
    return true;
  }
  if (!known && number_arithmetic(c, o, args, results))
    return true;
  if (returns_tensor(o->schema))
    return known && fold(c, o, args, results);
  if (known || (o->schema->n_returns == 1 && type_is(o->schema->returns[0].type, TYPE_STRING))) {
    compute_here(c, o, args, results);
    return true;
  }
  if (reads_value(o->name_key) && args[0].tag == RUSH_TAG_TENSOR) {
    results[0] = read_value(c, o, args[0]);
    return true;
  }
  return false;
}

/* True if the operator converts a symbolic number to what it is already. */
static bool is_same_kind(const op *o, rush_value v)
{
  const capture_number *n = capture_number_of(v);

  return n && o->schema->n_args == 1 &&
         (n->kind == FX_VAL_INT     ? o->name_key == OPN_INT
          : n->kind == FX_VAL_FLOAT ? o->name_key == OPN_FLOAT || o->name_key == OPN_FLOATIMPLICIT
                                    : o->name_key == OPN_BOOL);
}

/* Return the size that two broadcast to. */
static symint broadcast_size(capture *c, symint a, symint b)
{
  const symint one = sym_const(c->env, 1);

  if (sym_known(c->env, sym_eq(c->env, a, b)) == 1 ||
      sym_known(c->env, sym_eq(c->env, b, one)) == 1)
    return a;
  if (sym_known(c->env, sym_eq(c->env, a, one)) == 1 || sym_decide(c->env, sym_eq(c->env, a, b)))
    return b;
  if (sym_decide(c->env, sym_eq(c->env, a, one)))
    return b;
  if (sym_decide(c->env, sym_eq(c->env, b, one)))
    return a;
  session_fail_status(c->s, RUSH_ERAISED, "RuntimeError", NULL,
                      "the sizes of two tensors cannot be broadcast");
}

/* Broadcast two lists of sizes of which some are symbolic. */
static bool broadcast_sizes(capture *c, const op *o, const rush_value *args, rush_value *result)
{
  const bool is_it = o->name_key == OPN_BROADCAST_SHAPES || o->name_key == OPN__INFER_SIZE;

  if (!is_it || args[0].tag != RUSH_TAG_LIST || args[1].tag != RUSH_TAG_LIST)
    return false;
  const rush_list *a = args[0].as.list, *b = args[1].as.list;
  const size_t n = a->n > b->n ? a->n : b->n;
  symint *sizes = session_array(c->s, symint, n + 1);
  for (size_t i = 1; i <= n; i++) {
    const symint x = i <= a->n ? capture_symint(a->items[a->n - i], c->env) : NULL;
    const symint y = i <= b->n ? capture_symint(b->items[b->n - i], c->env) : NULL;
    sizes[n - i] = x && y ? broadcast_size(c, x, y) : x ? x : y;
  }
  *result = int_list(c, sizes, (int)n);
  return true;
}

static bool without_tensors(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  const uint32_t n = o->schema->n_args;
  bool has_number = false;

  if (returns_tensor(o->schema))
    return false;
  for (uint32_t i = 0; i < n; i++)
    has_number |= capture_has_number(c, args[i]);
  if (has_number && is_same_kind(o, args[0]))
    results[0] = args[0];
  else if (has_number && broadcast_sizes(c, o, args, results))
    return true;
  else if (!has_number || !(capture_arithmetic(c, o, args, results) ||
                            capture_scalar(c, o, args, results)))
    compute_here(c, o, args, results);
  return true;
}

bool capture_known(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  if (special(c, o, args, results))
    return true;
  if (o->effects & OP_MOVES_ITEMS) {
    move_items(c, o, args, results);
    return true;
  }
  return has_tensor(args, o->schema->n_args) ? on_tensors(c, o, args, results)
                                             : without_tensors(c, o, args, results);
}
