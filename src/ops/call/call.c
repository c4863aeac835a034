/* ops/call/call.c -- the one path of calls: checks, variants, hooks, then the kernel, formula or
 * body.
 *
 * op_call tests a few bits of the operator (`checks`, `effects`, `refuses`) and of the call
 * (`watch`, `recorder`), which are almost always clear, so that a call of a small operator costs
 * some tens of instructions besides its kernel.  Rare cases (nested, quantized, sparse arguments;
 * profiles; records of gradients) are behind one test of `watch`.  Rejected: a chain of wrappers,
 * one per concern, whose cost every call would pay. */
#include "ops/call/call.h"

#include "ops/call/profile.h"
#include "ops/call/registry.h"
#include "ops/call/written.h"
#include "ops/table/table.h"
#include "tensor/sparse.h"

#define MAX_ARGS 64 /* the longest schema has 26 arguments; one from outside may have more */
#define MAX_RESULTS 16

enum { N_LAYOUTS = 8, N_MEMORY_FORMATS = 4 }; /* PyTorch's */

bool op_is_runnable(const op *o)
{
  if (o->kernel)
    return true;
  if (o->base)
    return op_is_runnable(o->base);
  return o->family == FAMILY_POINTWISE || o->family == FAMILY_COMPOSITE;
}

void call_drop_results(rush_call *c)
{
  for (uint32_t i = 0; i < c->n_results; i++) {
    value_release(c->results[i]);
    c->results[i] = value_none();
  }
}

/* -- In-place and out= variants of a functional base ------------------------------------------- */

/* Write `made` into `to`, checked. */
static rush_status store_tensor(rush_call *c, rush_tensor *to, const rush_tensor *made)
{
  if (tensor_sparse(to) || tensor_sparse(made)) {
    if (tensor_sparse(to) && tensor_sparse(made))
      TRY(written_check_dtype(c->cx, to, made->dtype, c->op->effects & OP_OUT_EXACT));
    return tensor_copy(c->cx, to, made);
  }
  TRY(written_check_self(c->cx, to)); /* one of a list: not checked before */
  const bool is_inplace = c->op->variant == VARIANT_INPLACE;
  const int64_t *strides = tensor_is_dense(made) ? made->strides : NULL;
  if (is_inplace)
    TRY(written_fit(c->cx, to, true, made->n_dims, made->sizes, strides));
  TRY(written_check_dtype(c->cx, to, made->dtype, c->op->effects & OP_OUT_EXACT));
  if (!is_inplace) /* an out= that is refused keeps its sizes */
    TRY(written_fit(c->cx, to, false, made->n_dims, made->sizes, strides));
  return tensor_copy(c->cx, to, made);
}

/* Write tensors into tensors, lists of them into lists of them. */
static rush_status store_written(rush_call *c, rush_value to, rush_value made)
{
  if (to.tag == RUSH_TAG_TENSOR && made.tag == RUSH_TAG_TENSOR && to.as.tensor && made.as.tensor)
    return store_tensor(c, to.as.tensor, made.as.tensor);
  if (to.tag != RUSH_TAG_LIST || made.tag != RUSH_TAG_LIST)
    return call_fail(c->cx, "%s: expected a tensor to write to", c->op->schema->name);
  rush_list *outs = to.as.list;
  const rush_list *from = made.as.list;
  if (outs->n != from->n)
    return call_fail(c->cx, "%s: expected %zu tensors to write to, but got %zu",
                     c->op->schema->name, from->n, outs->n);
  for (size_t i = 0; i < outs->n; i++)
    TRY(store_written(c, outs->items[i], from->items[i]));
  return RUSH_OK;
}

/* True if the argument is written to, and not already by the base (as running statistics are). */
bool call_gets_result(const op *o, uint32_t arg)
{
  const schema_arg *a = &o->schema->args[arg];
  if (!a->is_write && !a->elem_write)
    return false;
  return o->variant == VARIANT_INPLACE || schema_arg_index(o->base->schema, str_of(a->name)) < 0;
}

/* Write the base's results to the written arguments, in order. */
static rush_status store_all(rush_call *c, const rush_value *made, uint32_t n_made)
{
  uint32_t k = 0;
  for (uint32_t i = 0; i < c->n_args && k < n_made; i++)
    if (call_gets_result(c->op, i)) {
      TRY(store_written(c, c->args[i], made[k]));
      if (k < c->n_results)
        call_return_arg(c, k, i);
      k++;
    }
  return RUSH_OK;
}

/* Check the arguments that are read besides `out`. */
static rush_status check_reads(const rush_call *c, const rush_tensor *out)
{
  const bool apart = c->op->effects & OP_OUT_APART;
  rush_tensor *t;
  for (tensor_walk w = {c->args, c->n_args}; (t = tensor_walk_next(&w)) != NULL;)
    if (!call_writes(c, w.at))
      TRY(apart ? written_check_apart(c->cx, out, t) : written_check_input(c->cx, out, t));
  return RUSH_OK;
}

/* Check the memory of written arguments against itself and the arguments that are read. */
static rush_status check_memory(const rush_call *c)
{
  for (uint32_t i = 0; i < c->n_args; i++) {
    const rush_tensor *out = call_writes(c, i) ? call_tensor(c, i) : NULL;
    if (!out || tensor_sparse(out))
      continue;
    TRY(written_check_self(c->cx, out));
    if (!(c->op->effects & OP_OUT_OVERLAP))
      TRY(check_reads(c, out));
  }
  return RUSH_OK;
}

/* Return the dtype of the first tensor that is written. */
static rush_value written_dtype(const rush_call *c)
{
  for (uint32_t i = 0; i < c->n_args; i++)
    if (call_writes(c, i) && call_tensor(c, i))
      return value_int(call_tensor(c, i)->dtype);
  return value_none();
}

/* Fill the base's arguments: those of the same names; the dtype that a factory's out= lacks is the
 * tensor's. */
void call_base_args(const rush_call *c, rush_value *args)
{
  const schema *b = c->op->base->schema;
  for (uint32_t i = 0; i < b->n_args; i++) {
    int at = variant_arg(c->op, i);
    args[i] = at >= 0 ? c->args[at] : b->args[i].default_value;
    if ((at < 0 ? c->op->variant == VARIANT_OUT
                : c->op->effects & OP_OUT_DTYPE && args[i].tag == RUSH_TAG_NONE) &&
        strcmp(b->args[i].name, "dtype") == 0)
      args[i] = written_dtype(c);
    if (at < 0 && !b->args[i].has_default && args[i].tag != RUSH_TAG_INT)
      args[i] = value_none();
  }
}

static rush_status call_variant(rush_call *c)
{
  const op *base = c->op->base;
  rush_value args[MAX_ARGS], made[MAX_RESULTS];
  if (base->schema->n_args > MAX_ARGS || base->schema->n_returns > MAX_RESULTS)
    return call_unsupported(c->cx, "%s: too many arguments", c->op->schema->name);
  TRY(check_memory(c));
  call_base_args(c, args);
  uint32_t n_made = base->schema->n_returns;
  TRY(op_invoke(c->cx, base, args, base->schema->n_args, made, n_made));
  rush_status st = store_all(c, made, n_made);
  for (uint32_t i = 0; i < n_made; i++)
    value_release(made[i]);
  return st;
}

static const rush_tensor *list_first_tensor(const rush_list *l)
{
  return l->items[0].tag == RUSH_TAG_TENSOR ? l->items[0].as.tensor : NULL;
}

/* -- The path ---------------------------------------------------------------------------------- */

rush_status call_through_body(rush_call *c)
{
  const op *o = c->op;
  TRY(op_prepare_body(c->cx, o));
  const op_body_runtime *rt = context_slot_get(o->ctx, SLOT_PROGRAM);
  TRY(call_enter(c->cx));
  rush_status st = rt->call(c->cx, atomic_load_explicit(&((op *)(uintptr_t)o)->body,
                                                        memory_order_acquire),
                            c->args, c->n_args, c->results, c->n_results);
  call_leave(c->cx);
  return st;
}

/* Return the tensor whose dtype is refused: the first tensor decides; if a dtype is an argument,
 * the kernel does; a tensor without elements or dimensions is not refused, since it reaches few
 * kernels. */
static const rush_tensor *refused_tensor(const rush_call *c)
{
  const rush_tensor *t = NULL;
  for (uint32_t i = 0; i < c->n_args && !t; i++)
    if (c->args[i].tag == RUSH_TAG_TENSOR)
      t = c->args[i].as.tensor;
    else if (c->args[i].tag == RUSH_TAG_LIST && c->args[i].as.list->n)
      t = list_first_tensor(c->args[i].as.list);
  if (!t || t->n_elems == 0 || t->n_dims == 0 || !(c->op->refuses >> t->dtype & 1))
    return NULL;
  for (uint32_t i = 1; i < c->n_args && i < c->op->schema->n_args; i++)
    if (c->args[i].tag == RUSH_TAG_INT && strcmp(c->op->schema->args[i].name, "dtype") == 0)
      return NULL;
  return t;
}

/* Run the operator itself, on tensors that it accepts. */
static rush_status dispatch_taken(rush_call *c)
{
  const op *o = c->op;
  const rush_tensor *refused;
  if (UNLIKELY(o->refuses) && o->family != FAMILY_POINTWISE &&
      (refused = refused_tensor(c)) != NULL)
    return call_refuse(c->cx, o, refused->dtype);
  if (UNLIKELY(o->effects & OP_COMPLEX_BODY) && c->args[0].tag == RUSH_TAG_TENSOR &&
      dtype_is_complex(c->args[0].as.tensor->dtype))
    return call_through_body(c);
  if (o->kernel)
    return o->kernel(c);
  switch (o->family) {
  case FAMILY_POINTWISE:
    return op_border.pointwise(c);
  case FAMILY_COMPOSITE:
    return o->base ? call_variant(c) : call_through_body(c);
  case FAMILY_KERNEL:
  case FAMILY_VIEW:
  case FAMILY_SCALAR:
  case FAMILY_SCHEMA_ONLY:
    if (o->base)
      return call_variant(c);
    break;
  }
  return call_unsupported(c->cx, "operator %s%s%s is known, but cannot run here%s%s",
                          o->schema->name, o->schema->overload[0] ? "." : "", o->schema->overload,
                          op_left_out[0] ? ": this library was built without some operators, " : "",
                          op_left_out);
}

/* True for Tensor, Tensor?, Tensor[] and Tensor?[]: lists of anything may hold sparse tensors. */
static bool is_tensor_argument(const schema *sc, uint32_t i)
{
  const type *t = i < sc->n_args ? sc->args[i].type : NULL;
  while (t && (t->kind == TYPE_OPTIONAL || t->kind == TYPE_LIST))
    t = type_elem(t);
  return t && t->kind == TYPE_TENSOR;
}

/* Return the first sparse tensor in a tensor argument, or NULL. */
static const rush_tensor *first_sparse(const rush_call *c)
{
  rush_tensor *t;
  for (tensor_walk w = {c->args, c->n_args}; (t = tensor_walk_next(&w)) != NULL;)
    if (tensor_sparse(t) && is_tensor_argument(c->op->schema, w.at))
      return t;
  return NULL;
}

rush_status call_dispatch(rush_call *c)
{
  const rush_tensor *sparse = UNLIKELY(c->cx->watch & CALL_SPECIAL) ? first_sparse(c) : NULL;
  return UNLIKELY(sparse != NULL) ? op_border.sparse(c, sparse, dispatch_taken) : dispatch_taken(c);
}

/* -- requires_grad ----------------------------------------------------------------------------- */

static bool any_require_grad(const rush_value *values, uint32_t n)
{
  rush_tensor *t;
  for (tensor_walk w = {values, n}; (t = tensor_walk_next(&w)) != NULL;)
    if (tensor_requires_grad(t))
      return true;
  return false;
}

/* Refuse writes that cannot be recorded, with PyTorch's messages. */
static rush_status check_writes(rush_call *c)
{
  const schema *sc = c->op->schema;
  for (uint32_t i = 0; i < c->n_args && i < sc->n_args; i++) {
    rush_value v = c->args[i];
    if (!sc->args[i].is_write || v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
      continue;
    if (c->op->variant == VARIANT_OUT)
      return call_fail(
        c->cx,
        "%s(): functions with out=... arguments don't support automatic differentiation, but "
        "one of the arguments requires grad.",
        strchr(sc->name, ':') + 2);
    if ((v.as.tensor->h.flags & (TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN)) ==
        TENSOR_REQUIRES_GRAD)
      return call_fail(
        c->cx, "a leaf Variable that requires grad is being used in an in-place operation.");
  }
  return RUSH_OK;
}

int call_argument_of(const rush_call *c, const rush_tensor *t)
{
  const rush_tensor *arg;
  for (tensor_walk w = {c->args, c->n_args}; (arg = tensor_walk_next(&w)) != NULL;)
    if (arg == t)
      return (int)w.at;
  return -1;
}

/* True for an operator on tensors, not one on lists of anything that happen to hold some. */
static bool takes_tensors(const schema *sc)
{
  for (uint32_t i = 0; i < sc->n_args; i++) {
    const type *t = sc->args[i].type;
    while (t->kind == TYPE_OPTIONAL || t->kind == TYPE_LIST)
      t = type_elem(t);
    if (t->kind == TYPE_TENSOR)
      return true;
  }
  return false;
}

/* True if t shares memory with an argument that requires grad: a view has its argument's flags. */
static bool views_requiring(const rush_call *c, const rush_tensor *t)
{
  const rush_tensor *arg;
  for (tensor_walk w = {c->args, c->n_args}; (arg = tensor_walk_next(&w)) != NULL;)
    if (tensor_requires_grad(arg) && arg->st == t->st)
      return true;
  return false;
}

/* Set flags after a recording call under no_grad: as in PyTorch, only a view of a tensor that
 * requires grad requires it. */
static void settle_results(const rush_call *c)
{
  const uint8_t both = TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN;
  rush_tensor *t;
  for (tensor_walk w = {c->results, c->n_results}; (t = tensor_walk_next(&w)) != NULL;)
    if (call_argument_of(c, t) < 0)
      t->h.flags =
        (uint8_t)((t->h.flags & ~both) | (views_requiring(c, t) ? TENSOR_REQUIRES_GRAD : 0));
}

/* Run an operator with an argument that requires grad, in a call that may record. */
static rush_status call_with_grad(rush_call *c)
{
  if (!takes_tensors(c->op->schema))
    return call_dispatch(c);
  if (call_records(c->cx)) {
    if (c->op->effects & OP_WRITES)
      TRY(check_writes(c));
    return c->cx->recorder->call(c);
  }
  TRY(call_dispatch(c));
  settle_results(c);
  return RUSH_OK;
}

/* True if a result may require grad.  Must be cheap: it runs for every operator that does not
 * record.  A list that an operator changes and returns (append) has no results. */
static inline bool results_require_grad(const rush_call *c)
{
  if (LIKELY(c->n_results == 1 && c->results[0].tag == RUSH_TAG_TENSOR))
    return c->results[0].as.tensor && tensor_requires_grad(c->results[0].as.tensor);
  if (c->n_results && c->n_args && c->results[0].tag == RUSH_TAG_LIST &&
      c->args[0].tag == RUSH_TAG_LIST && c->results[0].as.list == c->args[0].as.list)
    return false;
  return any_require_grad(c->results, c->n_results);
}

/* Clear requires_grad of the results of a call that does not record, except arguments and those
 * made with it. Views are made with the flags of their base. */
static void drop_grad(const rush_call *c)
{
  rush_tensor *t;
  for (tensor_walk w = {c->results, c->n_results}; (t = tensor_walk_next(&w)) != NULL;)
    if (tensor_requires_grad(t) && call_argument_of(c, t) < 0 && views_requiring(c, t))
      t->h.flags &= (uint8_t)~(TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN);
}

static inline rush_status run_recorded(rush_call *c)
{
  if (UNLIKELY(c->cx->recorder))
    return any_require_grad(c->args, c->n_args) && !(c->op->effects & OP_NO_GRAD)
             ? call_with_grad(c)
             : call_dispatch(c);
  rush_status st = call_dispatch(c);
  if (st == RUSH_OK && UNLIKELY(results_require_grad(c)) && takes_tensors(c->op->schema))
    drop_grad(c);
  return st;
}

rush_status call_through_base(rush_call *c) { return call_variant(c); }

static rush_status run_known(rush_call *c) { return op_border.quantized(c, run_recorded); }

/* Run a call while there are quantized or nested tensors. */
static rush_status special_call(rush_call *c) { return op_border.nested(c, run_known); }

/* Run a call with some bit of `watch` set. */
static rush_status watched_call(rush_call *c)
{
  bool is_profiled = c->cx->watch & CALL_PROFILED,
       outside = is_profiled && profile_is_outside(c->cx);
  const call_recorder *recorder =
    c->cx->watch & CALL_RECORDED && call_records(c->cx) ? c->cx->recorder : NULL;
  if (recorder)
    TRY(recorder->before(c));
  uint32_t event = is_profiled ? profile_begin_op(c) : PROFILE_NONE;
  bool is_node = is_profiled && c->cx->profile_ops++ == 0 && c->cx->frames;
  rush_status st = c->cx->watch & CALL_SPECIAL ? special_call(c) : run_recorded(c);

  if (recorder && st == RUSH_OK)
    st = recorder->after(c);

  if (is_profiled) {
    c->cx->profile_ops--;
    profile_end(c->cx, event);
  }
  if (is_node && st == RUSH_OK)
    profile_called_node(c);
  if (outside && st == RUSH_OK)
    profile_called_op(c);
  return st;
}

/* True for an undefined tensor: None where a program was promised a tensor. */
static inline bool is_undefined(const rush_call *c, uint32_t i)
{
  return c->args[i].tag == RUSH_TAG_TENSOR && !c->args[i].as.tensor;
}

/* Check that arguments are tensors where the schema has Tensor, which kernels rely on. */
static rush_status check_defined(const rush_call *c)
{
  const schema *sc = c->op->schema;
  for (uint32_t i = 0; i < c->n_args && i < sc->n_args; i++)
    if (is_undefined(c, i) && sc->args[i].type->kind == TYPE_TENSOR)
      return call_fail(c->cx,
                       "Expected a proper Tensor but got None (or an undefined Tensor in C++) for "
                       "argument #%u '%s'",
                       i, sc->args[i].name);
  return RUSH_OK;
}

/* True if quantized dtypes may be requested: a composite's operators check themselves, as external
 * ones do. */
static bool takes_quantized_dtype(const op *o)
{
  while (o->base && !o->kernel)
    o = o->base;
  return o->effects & OP_QUANTIZED || o->outside || (o->family == FAMILY_COMPOSITE && !o->kernel);
}

/* Refuse a number that is not a dtype, layout or memory format; `t` is the argument's type without
 * Optional.  Quantized dtypes are for the operators that support them. */
static rush_status check_number(const rush_call *c, uint32_t i, const type *t, int64_t v)
{
  const char *what = NULL, *name = c->op->schema->args[i].name;
  if (t->kind == TYPE_SCALAR_TYPE && !dtype_is_valid(v))
    what = "dtype";
  else if (t->kind == TYPE_LAYOUT && (v < 0 || v >= N_LAYOUTS))
    what = "layout";
  else if (t->kind == TYPE_MEMORY_FORMAT && (v < 0 || v >= N_MEMORY_FORMATS))
    what = "memory format";
  if (what)
    return call_fail(c->cx, "%s(): there is no %s %lld (argument '%s')", c->op->schema->name, what,
                     (long long)v, name);
  if (t->kind == TYPE_SCALAR_TYPE && dtype_class_of((int)v) == DTYPE_QUANT &&
      !takes_quantized_dtype(c->op) && op_is_runnable(c->op))
    return call_fail_type(c->cx, "NotImplementedError",
                          "%s() is not implemented for '%s' (argument '%s')", c->op->schema->name,
                          dtype_aten_name((int)v), name);
  return RUSH_OK;
}

static rush_status check_list(const rush_call *c, uint32_t i, const rush_list *l)
{
  for (size_t k = 0; k < l->n; k++)
    if (l->items[k].tag != RUSH_TAG_TENSOR || !l->items[k].as.tensor)
      return call_fail(c->cx,
                       "Expected a proper Tensor but got None (or an undefined Tensor in C++) for "
                       "element #%zu of argument "
                       "#%u '%s'",
                       k, i, c->op->schema->args[i].name);
  return RUSH_OK;
}

/* Refuse to write to argument i if its memory is read-only. */
static rush_status check_writable(const rush_call *c, uint32_t i)
{
  const rush_tensor *t;
  if (c->op->family == FAMILY_VIEW || c->op->effects & OP_GEOMETRY)
    return RUSH_OK;
  for (tensor_walk w = {&c->args[i], 1}; (t = tensor_walk_next(&w)) != NULL;)
    TRY(call_check_writable(c, t, c->op->schema->args[i].name));
  return RUSH_OK;
}

/* Run the checks of op->checks: once here, so that kernels need not. */
static rush_status check_args(const rush_call *c)
{
  const schema *sc = c->op->schema;
  for (uint32_t i = 0; i < c->n_args && i < sc->n_args; i++) {
    const type *t = sc->args[i].type;
    const rush_value v = c->args[i];
    t = t->kind == TYPE_OPTIONAL ? type_elem(t) : t;
    if (v.tag == RUSH_TAG_INT)
      TRY(check_number(c, i, t, v.as.i));
    else if (v.tag == RUSH_TAG_LIST && t->kind == TYPE_LIST && type_elem(t)->kind == TYPE_TENSOR)
      TRY(check_list(c, i, v.as.list));
    if (c->op->checks & OP_CHECK_WRITES &&
        (sc->args[i].elem_write || (sc->args[i].is_write && v.tag == RUSH_TAG_TENSOR)))
      TRY(check_writable(c, i));
  }
  return RUSH_OK;
}

rush_status op_call(rush_call *c)
{
  bool undefined = false;
  for (uint32_t i = 0; i < c->n_args; i++)
    undefined |= is_undefined(c, i);
  rush_status st = undefined ? check_defined(c) : RUSH_OK;
  if (UNLIKELY(c->op->checks) && st == RUSH_OK)
    st = check_args(c);
  if (st == RUSH_OK)
    st = UNLIKELY(c->cx->watch) ? watched_call(c) : run_recorded(c);
  if (UNLIKELY(call_is_watched(c->cx)) &&
      st == RUSH_OK) /* a kernel that broke off (call_over) left nothing of use */
    st = call_poll(c->cx);
  if (UNLIKELY(st != RUSH_OK))
    call_drop_results(c);
  return st;
}

rush_status op_invoke(call_ctx *cx, const op *o, const rush_value *args, uint32_t n_args,
                      rush_value *results, uint32_t n_results)
{
  for (uint32_t i = 0; i < n_results; i++)
    results[i] = value_none();
  rush_call c = {.cx = cx, .op = o, .n_args = n_args, .n_results = n_results, .args = args,
                 .results = results};
  return op_call(&c);
}

rush_status op_invoke_name(call_ctx *cx, const char *name, const char *overload,
                           const rush_value *args, uint32_t n_args, rush_value *result)
{
  const op *o;
  TRY(op_lookup(cx, str_of(name), str_of(overload), &o));
  if (!o)
    return call_unsupported(cx, "no operator %s%s%s", name, overload[0] ? "." : "", overload);
  const schema *sc = o->schema;
  rush_value all[MAX_ARGS], made[MAX_RESULTS];
  if (n_args > sc->n_args || sc->n_args > MAX_ARGS || sc->n_returns > MAX_RESULTS ||
      sc->n_returns == 0)
    return call_unsupported(cx, "%s cannot be called with %u arguments", name, n_args);
  for (uint32_t i = 0; i < sc->n_args; i++)
    all[i] = i < n_args                ? args[i]
             : sc->args[i].has_default ? sc->args[i].default_value
                                       : value_none();
  TRY(op_invoke(cx, o, all, sc->n_args, made, sc->n_returns));
  *result = made[0];
  for (uint32_t i = 1; i < sc->n_returns; i++)
    value_release(made[i]);
  return RUSH_OK;
}

/* -- Functions for kernels --------------------------------------------------------------------- */

rush_status call_no_dtype(call_ctx *cx, const char *kernel, int dtype)
{
  return call_fail_type(cx, "NotImplementedError", "\"%s\" not implemented for '%s'", kernel,
                        dtype_aten_name(dtype));
}

rush_status call_check_writable(const rush_call *c, const rush_tensor *t, const char *name)
{
  if (LIKELY(!t->st->read_only || t->n_elems == 0))
    return RUSH_OK;
  return call_fail_type(
    c->cx, "ValueError",
    "%s(): argument '%s' is read-only: it would be written to, and its memory is a mapped "
    "file's, of bytes, or of an array that is marked so; pass a copy",
    c->op->schema->name, name);
}

rush_status call_refuse(call_ctx *cx, const op *o, int dtype)
{
  const uint32_t row = (uint32_t)((o->base ? o->base : o)->row - op_rows);
  for (uint32_t i = 0; i < op_n_refusals; i++) {
    const struct op_refusal *r = &op_refusals[i];
    const char *text = op_pool + r->text, *at = strstr(text, "%s");
    if (r->row != row || !(r->dtypes >> dtype & 1))
      continue;
    if (r->kind == REFUSES_NAME)
      return call_no_dtype(cx, text, dtype);
    const char *type = r->kind == REFUSES_UNIMPLEMENTED ? "NotImplementedError" : "RuntimeError";
    return call_fail_type(cx, type, "%.*s%s%s",
                          at ? (int)(at - text) : 1000, text, at ? dtype_aten_name(dtype) : "",
                          at ? at + 2 : "");
  }
  return call_no_dtype(cx, strchr(o->schema->name, ':') + 2, dtype);
}

double call_float(const rush_call *c, uint32_t i)
{
  rush_value v = c->args[i];
  switch (v.tag) {
  case RUSH_TAG_FLOAT:
    return v.as.d;
  case RUSH_TAG_COMPLEX:
    return value_complex(v)->re;
  case RUSH_TAG_BOOL:
    return v.as.b;
  default:
    return (double)v.as.i;
  }
}

int call_ints(const rush_call *c, uint32_t i, int64_t *out, int max)
{
  rush_value v = c->args[i];
  if (v.tag == RUSH_TAG_INT) {
    out[0] = v.as.i;
    return 1;
  }
  if (v.tag != RUSH_TAG_LIST)
    return 0;
  if (v.as.list->n > (size_t)max)
    return -1;
  for (size_t k = 0; k < v.as.list->n; k++)
    out[k] = v.as.list->items[k].as.i;
  return (int)v.as.list->n;
}

bool call_ints_fixed(const rush_call *c, uint32_t i, int64_t *out, int n)
{
  int have = call_ints(c, i, out, n);
  for (int k = 1; have == 1 && k < n; k++)
    out[k] = out[0];
  return have == 1 || have == n;
}

/* True if args[i] shares nothing with the other tensors, or has their geometry. */
static bool others_allow(const rush_call *c, uint32_t i, const rush_tensor *t)
{
  for (uint32_t k = 0; k < c->n_args; k++) {
    const rush_tensor *o = k == i ? NULL : call_tensor(c, k);
    if (o && o->st == t->st)
      return false; /* the storage is referenced twice, so the count below refuses it too */
  }
  return true;
}

/* True if t is all of its storage, as a new tensor is: programs can see offset and bytes. */
static bool fills_storage(const rush_tensor *t)
{
  return t->offset == 0 && t->st->n_bytes == (size_t)t->n_elems * tensor_item_bytes(t);
}

rush_tensor *call_take_buffer(rush_call *c, uint32_t i, int dtype, int n_dims, const int64_t *sizes)
{
  if (i >= 64 || !(c->last_use >> i & 1) || c->cx->no_reuse || c->cx->place)
    return NULL;
  rush_tensor *t = call_tensor(c, i);
  if (!t || t->dtype != dtype || t->n_dims != n_dims || !tensor_is_contiguous(t) ||
      !fills_storage(t) || t->extra != NULL || !heap_is_unique(&t->h) ||
      !heap_is_unique(&t->st->h) ||
      t->st->origin != STORAGE_OURS || t->h.flags & TENSOR_IS_PARAMETER ||
      (c->cx->recorder && tensor_requires_grad(t)) ||
      memcmp(t->sizes, sizes, sizeof *sizes * (size_t)n_dims) != 0 || !others_allow(c, i, t))
    return NULL;
  t->h.flags &=
    (uint8_t) ~(TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN); /* the result's are settled later */
  return tensor_retain(t);
}
