/* ops/point/pointwise.c -- one call of a pointwise operator of the table: read the inputs, find the
 * common dtype, choose the formula's arm, broadcast the sizes, choose the result's memory order,
 * make or check the results, and run the tape (point_run.c). Everything about the operator comes
 * from its generated row, so there is no code per operator. The result's strides follow
 * TensorIterator's rules because they are visible. Refusals come in PyTorch's order. The common
 * case (contiguous operands of one shape and dtype) skips the general rules and determines the cost
 * of a call on small tensors. */
#include "ops/point/point_call.h"

#include <float.h>

#include "shape/shape.h"
#include "ops/call/registry.h"
#include "ops/call/results.h"
#include "ops/table/table.h"
#include "ops/call/written.h"

/* -- Arguments --------------------------------------------------------------------------------- */

/* Return an argument of the base operator, by its number there. */
static const rush_value *base_arg(const rush_call *c, uint32_t i)
{
  if (c->op->variant != VARIANT_OUT)
    return &c->args[i];
  int at = variant_arg(c->op, i);
  return at >= 0 ? &c->args[at] : &c->op->base->schema->args[i].default_value;
}

static rush_status read_inputs(point_call *p)
{
  rush_call *c = p->call;
  bool direct = c->op->variant != VARIANT_OUT;
  for (int i = 0; i < p->row->n_inputs; i++) {
    const point_input *in = &p->row->inputs[i];
    const rush_value *v = direct ? &c->args[in->arg] : base_arg(c, in->arg);
    p->in[i] = v;
    if (in->flags & INPUT_SCALAR)
      continue;
    if (v->tag == RUSH_TAG_TENSOR && v->as.tensor) {
      p->tensors[p->n_tensors++] = v->as.tensor;
    } else if (v->tag != RUSH_TAG_NONE) {
      return call_fail(c->cx, "%s: expected a tensor for argument %d", c->op->schema->name,
                       in->arg);
    }
  }
  return RUSH_OK;
}

static bool cond_holds(const rush_call *c, const point_cond *cond)
{
  rush_value v = *base_arg(c, cond->arg);
  switch ((point_cond_kind)cond->kind) {
  case COND_NONE:
    return v.tag == RUSH_TAG_NONE;
  case COND_GIVEN:
    return v.tag != RUSH_TAG_NONE;
  case COND_NUMBER:
    return v.tag == RUSH_TAG_INT     ? v.as.i == cond->value
           : v.tag == RUSH_TAG_BOOL  ? v.as.b == cond->value
           : v.tag == RUSH_TAG_FLOAT ? v.as.d == cond->value
                                     : false;
  case COND_HALVES:
    return (v.tag == RUSH_TAG_FLOAT && v.as.d * 2 == cond->value) ||
           (v.tag == RUSH_TAG_INT && cond->value % 2 == 0 && v.as.i == cond->value / 2);
  case COND_TEXT:
    return v.tag == RUSH_TAG_STRING && str_is(value_str(v), op_pool + cond->value);
  }
  return false;
}

/* Find the common dtype if the tensors have one and numbers are of its class or a lower one, as in
 * most calls.  False: see promote(). */
static bool has_one_dtype(point_call *p)
{
  int dtype = DTYPE_NONE;
  if (p->row->promote == PROMOTE_FIRST && p->n_tensors > 0) {
    p->common = p->tensors[0]->dtype;
    return true;
  }
  for (int i = 0; i < p->row->n_inputs; i++) {
    const point_input *in = &p->row->inputs[i];
    rush_value v = *p->in[i];
    if (!(in->flags & INPUT_PROMOTES) || v.tag == RUSH_TAG_NONE)
      continue;
    if (v.tag != RUSH_TAG_TENSOR) {
      if (dtype == DTYPE_NONE || number_class(v) > dtype_class_of(dtype))
        return false;
      continue;
    }
    if (dtype == DTYPE_NONE)
      dtype = v.as.tensor->dtype;
    if (dtype != v.as.tensor->dtype || v.as.tensor->h.flags & TENSOR_WRAPPED_NUMBER)
      return false;
  }
  p->common = dtype;
  return dtype != DTYPE_NONE &&
         (p->row->promote == PROMOTE_ARGUMENTS || dtype_class_of(dtype) > DTYPE_INT);
}

static inline bool sizes_equal(int n, const int64_t *a, const int64_t *b)
{
  for (int i = 0; i < n; i++)
    if (a[i] != b[i])
      return false;
  return true;
}

/* True if the tensors have one shape and are row-major: then the results have it. */
static bool has_one_shape(point_call *p)
{
  const rush_tensor *first = p->tensors[0];
  if (p->n_tensors == 0 || !tensor_is_contiguous(first))
    return false;
  p->n_dims = first->n_dims;
  p->sizes = first->sizes;
  p->strides = NULL;
  for (int i = 1; i < p->n_tensors; i++) {
    const rush_tensor *t = p->tensors[i];
    if (t->n_dims != p->n_dims || !tensor_is_contiguous(t) ||
        !sizes_equal(p->n_dims, t->sizes, p->sizes))
      return false;
  }
  return true;
}

/* -- Choosing the tape ------------------------------------------------------------------------- */

static const point_arm *choose_arm(const point_call *p, dtype_class cls)
{
  const point_arm *a = &point_arms[p->row->first_arm];
  for (const point_arm *end = a + p->row->n_arms; a < end; a++) {
    if (!(a->classes >> cls & 1))
      continue;
    bool fits = true;
    for (int i = 0; i < a->n_conds && fits; i++)
      fits = cond_holds(p->call, &a->conds[i]);
    if (fits)
      return a;
  }
  return NULL;
}

static rush_status refuse_dtype(const point_call *p)
{
  return call_no_dtype(p->call->cx, op_pool + p->row->name, p->common);
}

/* Check that alpha's class is not higher than the result's. */
static rush_status check_alpha(const point_call *p, dtype_class cls)
{
  for (int i = 0; i < p->row->n_inputs; i++) {
    const point_input *in = &p->row->inputs[i];
    if ((in->flags & (INPUT_SCALAR | INPUT_PROMOTES)) != INPUT_SCALAR)
      continue;
    dtype_class given = number_class(*p->in[i]);
    if (given <= DTYPE_INT && (given != DTYPE_BOOL || cls == DTYPE_BOOL))
      continue;
    const op *base = p->call->op->base ? p->call->op->base : p->call->op;
    if (strcmp(base->schema->args[in->arg].name, "alpha") != 0)
      continue;
    if (given == DTYPE_BOOL)
      return call_fail(p->call->cx, "Boolean alpha only supported for Boolean results.");
    if (given == DTYPE_FLOAT && cls <= DTYPE_INT)
      return call_fail(p->call->cx, "For integral input tensors, argument alpha must not be a "
                                    "floating point number.");
    if (given == DTYPE_COMPLEX && cls != DTYPE_COMPLEX)
      return call_fail(
        p->call->cx, "For non-complex input tensors, argument alpha must not be a complex number.");
  }
  return RUSH_OK;
}

/* Check boolean arguments; the table's text has a line for one and a line for two. */
static rush_status check_bool(const point_call *p)
{
  int n = 0;
  for (int i = 0; i < p->row->n_inputs; i++) {
    rush_value v = *p->in[i];
    n += p->row->inputs[i].flags & INPUT_PROMOTES &&
         (v.tag == RUSH_TAG_BOOL || (v.tag == RUSH_TAG_TENSOR && v.as.tensor->dtype == RUSH_BOOL));
  }
  if (n == 0)
    return RUSH_OK;
  const char *one = op_pool + p->row->refuse_bool, *end = strchr(one, '\n');
  if (!end)
    return call_fail(p->call->cx, "%s", one);
  return n == 1 ? call_fail(p->call->cx, "%.*s", (int)(end - one), one)
                : call_fail(p->call->cx, "%s", end + 1);
}

/* Find the common dtype in all other cases; numbers count as tensors that wrap them. */
static rush_status promote(point_call *p)
{
  shape_facts facts[POINT_MAX_INPUTS];
  const shape_facts *t[POINT_MAX_INPUTS];
  int n = 0;
  for (int i = 0; i < p->row->n_inputs; i++) {
    const rush_value v = *p->in[i];
    if (!(p->row->inputs[i].flags & INPUT_PROMOTES) || v.tag == RUSH_TAG_NONE)
      continue;
    t[n] = &facts[n];
    if (v.tag == RUSH_TAG_TENSOR)
      shape_facts_of(v.as.tensor, &facts[n++]);
    else
      facts[n++] = (shape_facts){.dtype = (int16_t)number_dtype(v), .flags = SHAPE_WRAPPED};
  }
  const int default_dtype = p->call->cx->default_dtype;
  p->common = shape_result_type(default_dtype, n, t);
  if (p->common == DTYPE_NONE)
    return call_fail(p->call->cx, "%s: no common dtype for the arguments",
                     p->call->op->schema->name);
  if (p->row->promote == PROMOTE_FLOAT ||
      (p->row->promote == PROMOTE_FLOAT_FIRST_ARM &&
       cond_holds(p->call, &point_arms[p->row->first_arm].conds[0])))
    p->common = dtype_to_float(p->common, default_dtype);
  return RUSH_OK;
}

/* Find the results' sizes and strides in all other cases. */
static rush_status broadcast(point_call *p)
{
  shape_frame frame;
  shape_facts facts[POINT_MAX_INPUTS];
  const shape_facts *t[POINT_MAX_INPUTS];
  if (p->n_tensors == 0)
    return call_fail(p->call->cx, "%s: expected a tensor", p->call->op->schema->name);
  for (int i = 0; i < p->n_tensors; i++) {
    shape_facts_of(p->tensors[i], &facts[i]);
    t[i] = &facts[i];
  }
  shape_env *env = shape_frame_open(&frame, p->call->cx);
  const shape_facts *r = shape_iterated(env, p->n_tensors, t);
  p->n_dims = r->n_dims;
  p->sizes = p->dims;
  p->strides = p->row->row_major ? NULL : p->dims + r->n_dims;
  for (int i = 0; i < r->n_dims; i++) {
    p->dims[i] = r->sizes[i];
    p->dims[r->n_dims + i] = r->strides[i];
  }
  shape_frame_close(&frame);
  return env->st;
}

/* Find the common dtype and the results' geometry. */
static rush_status put_together(point_call *p)
{
  if (UNLIKELY(!has_one_dtype(p)))
    TRY(promote(p));
  if (p->row->refuse_bool)
    TRY(check_bool(p));
  p->flat = has_one_shape(p);
  return LIKELY(p->flat) ? RUSH_OK : broadcast(p);
}

static rush_status choose_tape(point_call *p)
{
  dtype_class cls = dtype_class_of(p->common);
  if (cls == DTYPE_QUANT)
    return refuse_dtype(p);
  if (UNLIKELY(p->call->op->refuses >> p->common & 1))
    return call_refuse(p->call->cx, p->call->op, p->common);
  p->arm = choose_arm(p, cls);
  return p->arm ? check_alpha(p, cls) : refuse_dtype(p);
}

/* -- Results ----------------------------------------------------------------------------------- */

int point_out_dtype(const point_call *p, int i)
{
  uint8_t rule = p->row->outs[i];
  switch (rule) {
  case OUT_COMMON:
    return p->common;
  case OUT_SAME:
    return p->tensors[0]->dtype;
  case OUT_REAL:
    return dtype_to_real(p->common);
  case OUT_COMPLEX:
    return dtype_to_complex(p->common);
  default:
    return rule - OUT_DTYPE;
  }
}

/* Return the i-th argument that the variant writes; NULL if it is not a tensor. */
static rush_tensor *written_arg(const rush_call *c, int i)
{
  int k = 0;
  for (uint32_t at = 0; at < c->n_args; at++)
    if (c->op->schema->args[at].is_write && k++ == i)
      return call_tensor(c, at);
  return NULL;
}

/* Check that writing cannot disturb inputs that are still to be read. */
static rush_status check_overlaps(const point_call *p)
{
  rush_call *c = p->call;
  for (int i = 0; i < p->row->n_results; i++) {
    const rush_tensor *out = written_arg(c, i);
    if (!out)
      return call_fail(c->cx, "%s: expected a tensor to write to", c->op->schema->name);
    if (c->op->effects & OP_OUT_OVERLAP)
      continue;
    TRY(written_check_self(c->cx, out));
    for (int k = 0; k < p->n_tensors; k++)
      TRY(written_check_input(c->cx, out, p->tensors[k]));
  }
  return RUSH_OK;
}

static rush_status written_result(point_call *p, int i, rush_tensor **out)
{
  rush_call *c = p->call;
  rush_tensor *t = written_arg(c, i);
  const bool fits = t->n_dims == p->n_dims && sizes_equal(p->n_dims, t->sizes, p->sizes);
  const bool is_inplace = c->op->variant == VARIANT_INPLACE;
  if (UNLIKELY(!fits && is_inplace))
    TRY(written_fit(c->cx, t, true, p->n_dims, p->sizes, p->strides)); /* the error */
  const int dtype = point_out_dtype(p, i);
  if (UNLIKELY(c->op->effects & OP_OUT_EXACT && t->dtype != dtype))
    return call_fail(c->cx, "Found dtype %s but expected %s", dtype_aten_name(t->dtype),
                     dtype_aten_name(dtype));
  TRY(written_check_dtype(c->cx, t, dtype, false));
  if (UNLIKELY(!fits)) /* an out= that is refused keeps its sizes */
    TRY(written_fit(c->cx, t, false, p->n_dims, p->sizes, p->strides));
  *out = tensor_retain(t);
  return RUSH_OK;
}

/* -- Running ----------------------------------------------------------------------------------- */

point_number point_read_number(rush_value v)
{
  switch (v.tag) {
  case RUSH_TAG_BOOL:
    return (point_number){.i = v.as.b, .re = v.as.b};
  case RUSH_TAG_INT:
    return (point_number){.i = v.as.i, .re = (double)v.as.i};
  case RUSH_TAG_FLOAT:
    return (point_number){.is_float = true, .re = v.as.d};
  case RUSH_TAG_COMPLEX:
    return (point_number){.is_float = true, .re = value_complex(v)->re, .im = value_complex(v)->im};
  default:
    return (point_number){0};
  }
}

/* Round a number to what the dtype can hold: half(0.1), int8(300). */
static void round_number(point_number *x, int dtype)
{
  switch (dtype_class_of(dtype)) {
  case DTYPE_FLOAT:
  case DTYPE_COMPLEX: {
    int real = dtype_to_real(dtype);
    double re = x->is_float ? x->re : (double)x->i, im = x->im;
    if (real == RUSH_FLOAT16) {
      re = half_to_float(half_from_float((float)re));
      im = half_to_float(half_from_float((float)im));
    } else if (real == RUSH_BFLOAT16) {
      re = bf16_to_float(bf16_from_float((float)re));
    } else if (real == RUSH_FLOAT32) {
      re = (float)re;
      im = (float)im;
    }
    *x = (point_number){.is_float = true, .re = re, .im = im};
    break;
  }
  case DTYPE_INT: {
    int64_t i = x->is_float ? (int64_t)x->re : x->i;
    int bits = 64 - 8 * (int)dtype_bytes(dtype);
    if (bits > 0)
      i = dtype_is_signed(dtype) ? (int64_t)((uint64_t)i << bits) >> bits
                                 : (int64_t)((uint64_t)i << bits >> bits);
    *x = (point_number){.i = i, .re = (double)i};
    break;
  }
  case DTYPE_BOOL:
  case DTYPE_QUANT:
    break;
  }
}

void point_read_input(const point_input *in, rush_value v, int dtype, point_number *out)
{
  *out = point_read_number(v);
  if (!(in->flags & INPUT_OPMATH) || dtype_class_of(dtype) == DTYPE_INT)
    round_number(out, dtype);
}

static void dtype_limits(int dtype, uint8_t kind, point_number *x)
{
  static const double max[N_DTYPES] = {
      [RUSH_FLOAT16] = 65504.0, [RUSH_BFLOAT16] = 0x1.fep127, [RUSH_FLOAT32] = FLT_MAX,
      [RUSH_FLOAT64] = DBL_MAX};
  static const double eps[N_DTYPES] = {
      [RUSH_FLOAT16] = 0x1p-10, [RUSH_BFLOAT16] = 0x1p-7, [RUSH_FLOAT32] = FLT_EPSILON,
      [RUSH_FLOAT64] = DBL_EPSILON};
  if (dtype_class_of(dtype) == DTYPE_INT) {
    int bits = 8 * (int)dtype_bytes(dtype);
    bool is_signed = dtype_is_signed(dtype);
    uint64_t top = bits == 64 && !is_signed ? UINT64_MAX : (UINT64_C(1) << (bits - is_signed)) - 1;
    x->i = kind == CONST_DTYPE_MAX ? (int64_t)top : is_signed ? -(int64_t)top - 1 : 0;
    x->re = (double)x->i;
    return;
  }
  int real = dtype_to_real(dtype);
  x->is_float = true;
  x->re = kind == CONST_DTYPE_MAX ? max[real] : kind == CONST_DTYPE_MIN ? -max[real] : eps[real];
}

point_number point_const_number(const tape_const *c, int dtype)
{
  point_number x = {.is_float = c->kind == CONST_FLOAT, .i = c->i, .re = c->d};
  if (c->kind > CONST_FLOAT)
    dtype_limits(dtype, c->kind, &x);
  return x;
}

/* Return the actual type of a symbolic one when the operator computes in `k`. */
static tape_type resolve(uint8_t sym, tape_type k)
{
  switch ((tape_sym)sym) {
  case SYM_B:
    return TY_BOOL;
  case SYM_K:
    return k;
  case SYM_R:
    return k == TY_C64 ? TY_F32 : k == TY_C128 ? TY_F64 : k;
  case SYM_Z:
    return k == TY_F64 ? TY_C128 : TY_C64;
  case SYM_I:
    return TY_I64;
  case SYM_D:
  case N_TAPE_SYMS:
    break;
  }
  return TY_F64;
}

void point_fill_run(const point_call *p, point_run *r)
{
  const point_arm *arm = p->arm;
  tape_type k = (tape_type)tape_type_of(p->common);
  for (int s = 0; s < N_TAPE_SYMS; s++)
    r->types[s] = (uint8_t)resolve((uint8_t)s, k);
  r->isa = tape_isa_of(p->call->cx->ctx);
  r->machine_code = NULL;
  r->code = &point_instrs[arm->first_instr];
  r->n_instrs = arm->n_instrs;
  r->n_regs = arm->n_regs;
  r->n_inputs = p->row->n_inputs;
  r->n_dims = p->n_dims;
  r->dtype = p->common;
  r->sizes = p->sizes;
  for (int i = 0; i < p->row->n_inputs; i++) {
    const point_input *in = &p->row->inputs[i];
    rush_value v = *p->in[i];
    r->inputs[i].type = r->types[in->type];
    r->inputs[i].tensor = v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL;
    if (v.tag == RUSH_TAG_TENSOR) {
      /* a tensor of another dtype becomes the common one first, and rounds */
      bool exact = in->type != SYM_K || v.as.tensor->dtype == p->common ||
                   (in->flags & INPUT_OPMATH && v.as.tensor->n_dims == 0);
      r->inputs[i].via = (int8_t)(exact || !r->isa->store[p->common] ? -1 : p->common);
      continue;
    }
    point_read_input(in, v, p->common, &r->inputs[i].number);
  }
  r->n_consts = arm->n_consts;
  for (int i = 0; i < arm->n_consts; i++) {
    const tape_const *c = &point_consts[arm->first_const + i];
    r->consts[i].type = r->types[c->type];
    r->consts[i].number = point_const_number(c, p->common);
  }
  r->n_results = p->row->n_results;
  for (int i = 0; i < r->n_results; i++) {
    r->results[i].reg = arm->results[i];
    r->results[i].type = r->types[arm->result_types[i]];
    r->results[i].via = -1;
  }
}

static rush_status check_types(const point_call *p)
{
  for (int i = 0; i < p->n_tensors; i++)
    if (tape_type_of(p->tensors[i]->dtype) < 0)
      return call_no_dtype(p->call->cx, op_pool + p->row->name, p->tensors[i]->dtype);
  return RUSH_OK;
}

/* Set call->results: new tensors, or those that the variant writes. */
static rush_status make_results(point_call *p)
{
  for (int i = 0; i < p->row->n_results; i++) {
    rush_tensor *out = NULL;
    TRY(p->call->op->variant == VARIANT_BASE
          ? call_new_result(p->call, (uint32_t)i, point_out_dtype(p, i), p->n_dims, p->sizes,
                            p->strides, &out)
          : written_result(p, i, &out));
    call_return_steal(p->call, (uint32_t)i, out);
  }
  return RUSH_OK;
}

/* Errors come in PyTorch's order: overlaps, shapes, written arguments, dtypes. */
rush_status point_prepare(point_call *p, rush_call *call)
{
  const op *o = call->op;
  const op *base = o->base ? o->base : o;
  p->call = call;
  p->row = &point_rows[base->row->point];
  p->n_tensors = 0;
  TRY(read_inputs(p));
  if (o->variant != VARIANT_BASE)
    TRY(check_overlaps(p));
  TRY(put_together(p));
  if (o->variant != VARIANT_BASE)
    TRY(make_results(p));
  TRY(choose_tape(p));
  return check_types(p);
}

rush_status pointwise_call(rush_call *call)
{
  point_call p;
  TRY(point_prepare(&p, call));
  if (call->op->variant == VARIANT_BASE)
    TRY(make_results(&p));
  point_run r;
  point_fill_run(&p, &r);
  for (int i = 0; i < r.n_results; i++) {
    rush_tensor *out = call->results[i].as.tensor;
    int dtype = point_out_dtype(&p, i);
    r.results[i].tensor = out;
    if (out->dtype != dtype &&
        r.isa->store[dtype]) /* rounded to it before it is written elsewhere */
      r.results[i].via = (int8_t)dtype;
  }
  bool flat = p.flat;
  for (int i = 0; i < r.n_results; i++)
    flat = flat && tensor_is_contiguous(r.results[i].tensor);
  return point_execute(call->cx, &r, flat);
}
