/* ops/point/point_instance.c -- what a call of a pointwise operator decides, kept for later calls
 * with such arguments (ops/call/instance.h).
 *
 * An instance is the run without its tensors.  Where few elements lie in rows and in the types that
 * the tape computes in, a call walks over the tape once, without blocks; rows of the constants are
 * part of the instance.  Numbers that do not choose the formula are read in each call. */
#include <stddef.h>

#include "ops/call/instance.h"
#include "ops/call/results.h"
#include "ops/point/point_call.h"

#define SMALL_ELEMS 512
#define SMALL_BYTES 6144 /* of all registers */

struct point_instance {
  context *ctx;
  const struct point_row *row;
  size_t n_bytes; /* of the block that contains this and what follows */
  bool flat;      /* the inputs */
  bool is_small;  /* run_small can run it */
  int64_t n_elems;
  size_t row_bytes; /* of a register of run_small */
  /* A run without tensors, in parts: point_run has room for the largest. */
  _Alignas(point_run) char head[offsetof(point_run, inputs)];
  point_operand *inputs;
  point_constant *consts;
  point_result *results;
  tensor_plan *made; /* of the results */
  int64_t *dims;     /* of the results: sizes, strides */
  char *rows;        /* of the constants, if is_small */
};

/* Get the head of a run: a point_run whose arrays are not there. */
static inline const point_run *head_of(const point_instance *in)
{
  return (const point_run *)(const void *)in->head;
}

/* -- Making ------------------------------------------------------------------------------------ */

/* True if memory of the dtype has the form of registers of the type. */
static bool is_direct(const point_run *r, int dtype, uint8_t type)
{
  return dtype != RUSH_COMPLEX32 && tape_type_of(dtype) == type && !r->isa->load[dtype] &&
         dtype_bytes(dtype) == tape_type_bytes((tape_type)type);
}

/* True if run_small can run it: the one result is what the last instruction computes. */
static bool can_be_small(const point_call *p, const point_run *r, int64_t n_elems, size_t row_bytes)
{
  bool can = p->flat && n_elems > 0 && n_elems <= SMALL_ELEMS && r->n_results == 1 &&
             r->n_instrs > 0 && r->code[r->n_instrs - 1].dst == r->results[0].reg &&
             (size_t)r->n_regs * row_bytes <= SMALL_BYTES &&
             is_direct(r, point_out_dtype(p, 0), r->results[0].type);

  for (int i = 0; i < r->n_inputs && can; i++)
    can = !r->inputs[i].tensor || (r->inputs[i].via < 0 &&
                                   is_direct(r, r->inputs[i].tensor->dtype, r->inputs[i].type));
  for (int i = 0; i < r->n_instrs && can; i++)
    can = r->code[i].op < TAPE_CALL1; /* those may be slow, and poll */
  return can;
}

/* Return the bytes of a register's row. */
static size_t bytes_of_row(const point_run *r, int64_t n_elems)
{
  size_t item = 1;

  for (int i = 0; i < r->n_inputs; i++)
    item = (size_t)i64_max((int64_t)item, tape_type_bytes((tape_type)r->inputs[i].type));
  for (int i = 0; i < r->n_consts; i++)
    item = (size_t)i64_max((int64_t)item, tape_type_bytes((tape_type)r->consts[i].type));
  for (int i = 0; i < r->n_instrs; i++)
    item = (size_t)i64_max((int64_t)item, tape_type_bytes((tape_type)r->types[r->code[i].type]));
  return ((size_t)n_elems * item + 63) & ~(size_t)63;
}

static int64_t product(int n, const int64_t *sizes)
{
  int64_t all = 1;

  for (int i = 0; i < n; i++)
    all *= sizes[i];
  return all;
}

static void instance_free(point_instance *in)
{
  if (in)
    mem_free(in->ctx, in, in->n_bytes);
}

static size_t padded(size_t n) { return (n + 63) & ~(size_t)63; }

static void *take(char **at, size_t n_bytes)
{
  char *p = *at;

  *at += padded(n_bytes);
  return p;
}

/* Make an instance that has room for the run's parts. */
static point_instance *instance_new(context *c, const point_run *r, size_t rows_bytes)
{
  const size_t n_dims = 2 * (size_t)r->n_dims;
  const size_t n_bytes =
    padded(sizeof(point_instance)) + padded((size_t)r->n_inputs * sizeof(point_operand)) +
    padded((size_t)r->n_consts * sizeof(point_constant)) +
    padded((size_t)r->n_results * (sizeof(point_result) + sizeof(tensor_plan))) +
    padded(n_dims * sizeof(int64_t)) + padded(rows_bytes);
  point_instance *in = mem_alloc_zero(c, n_bytes);
  char *at = (char *)in;

  if (!in)
    return NULL;
  (void)take(&at, sizeof *in);
  in->ctx = c;
  in->n_bytes = n_bytes;
  in->inputs = take(&at, (size_t)r->n_inputs * sizeof *in->inputs);
  in->consts = take(&at, (size_t)r->n_consts * sizeof *in->consts);
  in->results = take(&at, (size_t)r->n_results * (sizeof *in->results + sizeof *in->made));
  in->made = (tensor_plan *)(void *)(in->results + r->n_results);
  in->dims = take(&at, n_dims * sizeof *in->dims);
  in->rows = at;
  memcpy(in->head, r, sizeof in->head);
  memcpy(in->inputs, r->inputs, (size_t)r->n_inputs * sizeof *in->inputs);
  memcpy(in->consts, r->consts, (size_t)r->n_consts * sizeof *in->consts);
  memcpy(in->results, r->results, (size_t)r->n_results * sizeof *in->results);
  return in;
}

static bool plan_results(point_instance *in, const point_call *p, int n_results)
{
  for (int i = 0; i < n_results; i++)
    if (!tensor_plan_make(&in->made[i], point_out_dtype(p, i), p->n_dims, p->sizes, p->strides,
                          in->dims))
      return false;
  return true;
}

static rush_status instance_make(const rush_call *call, point_instance **out)
{
  rush_call c = *call;
  point_call p;
  point_run r;
  TRY(point_prepare(&p, &c));
  point_fill_run(&p, &r);
  const int64_t n_elems = product(p.n_dims, p.sizes);
  const size_t row_bytes = bytes_of_row(&r, n_elems);
  const bool is_small = can_be_small(&p, &r, n_elems, row_bytes);
  point_instance *in =
    instance_new(c.cx->ctx, &r, is_small ? (size_t)r.n_consts * row_bytes : 0);
  if (!in)
    return call_nomem(c.cx);
  in->row = p.row;
  in->flat = p.flat;
  in->is_small = is_small;
  in->n_elems = n_elems;
  in->row_bytes = row_bytes;
  for (int i = 0; is_small && i < r.n_consts; i++)
    point_fill(in->rows + (size_t)i * row_bytes, n_elems, (tape_type)r.consts[i].type,
               &r.consts[i].number);
  if (!plan_results(in, &p, r.n_results)) {
    instance_free(in);
    in = NULL;
  }
  *out = in;
  return RUSH_OK;
}

/* True if the choice of a formula reads the argument. */
static bool decides(const struct point_row *row, uint32_t arg)
{
  for (uint32_t k = 0; k < row->n_arms; k++) {
    const point_arm *arm = &point_arms[row->first_arm + k];
    for (int i = 0; i < arm->n_conds; i++)
      if (arm->conds[i].arg == arg)
        return true;
  }
  return false;
}

static bool instance_rereads(const point_instance *in, uint32_t arg)
{
  for (int i = 0; i < in->row->n_inputs; i++)
    if (in->row->inputs[i].arg == arg)
      return !decides(in->row, arg);
  return false;
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Walk over the tape: every operand is the tensor's memory, a row of a number, or a register. */
static rush_status run_small(const point_instance *in, const rush_call *call, rush_tensor *out)
{
  const point_run *r = head_of(in);
  const int64_t n = in->n_elems;
  const void *regs[RUN_MAX_REGS] = {0};
  _Alignas(64) char room[SMALL_BYTES];
  unsigned fault = 0;

  for (int i = 0; i < r->n_inputs; i++) {
    const rush_value v = call->args[in->row->inputs[i].arg];
    regs[i] = room + (size_t)i * in->row_bytes;
    if (LIKELY(v.tag == RUSH_TAG_TENSOR)) {
      regs[i] = v.as.tensor->data;
      continue;
    }
    point_number x;
    point_read_input(&in->row->inputs[i], v, r->dtype, &x);
    point_fill(room + (size_t)i * in->row_bytes, n, (tape_type)in->inputs[i].type, &x);
  }
  for (int i = 0; i < r->n_consts; i++)
    regs[r->n_inputs + i] = in->rows + (size_t)i * in->row_bytes;
  for (int i = 0; i < r->n_instrs; i++) {
    const tape_instr *t = &r->code[i];
    void *dst = i == r->n_instrs - 1 ? out->data : room + (size_t)t->dst * in->row_bytes;
    const bool is_unary = t->op == TAPE_CVT || t->op == TAPE_RND;
    const int aux = t->op == TAPE_CVT ? r->types[t->b] : t->op == TAPE_RND ? r->dtype : 0;
    fault |= r->isa->fns[t->op][r->types[t->type]](n, dst, regs[t->a],
                                                   is_unary ? NULL : regs[t->b],
                                                   is_unary ? NULL : regs[t->c], aux);
    regs[t->dst] = dst;
  }
  return point_check_fault(call->cx, fault);
}

/* Put the run together. */
static inline void copy_run(const point_instance *in, const rush_call *call, point_run *r)
{
  memcpy(r, in->head, sizeof in->head);
  r->sizes = in->dims;
  for (int i = 0; i < r->n_inputs; i++) {
    const rush_value v = call->args[in->row->inputs[i].arg];
    r->inputs[i] = in->inputs[i];
    if (v.tag == RUSH_TAG_TENSOR)
      r->inputs[i].tensor = v.as.tensor;
    else
      point_read_input(&in->row->inputs[i], v, r->dtype, &r->inputs[i].number);
  }
  for (int i = 0; i < r->n_consts; i++)
    r->consts[i] = in->consts[i];
  for (int i = 0; i < r->n_results; i++) {
    r->results[i] = in->results[i];
    r->results[i].tensor = call->results[i].as.tensor;
  }
}

static __attribute__((noinline)) rush_status run_large(const point_instance *in,
                                                       const rush_call *call, bool flat)
{
  point_run r;

  copy_run(in, call, &r);
  return point_execute(call->cx, &r, flat);
}

static rush_status instance_run(const point_instance *in, rush_call *call)
{
  const int n_results = head_of(in)->n_results;
  bool flat = in->flat;

  for (int i = 0; i < n_results; i++) {
    rush_tensor *out;
    TRY(call_planned_result(call, (uint32_t)i, &in->made[i], &out));
    call_return_steal(call, (uint32_t)i, out);
    flat = flat && tensor_is_contiguous(out);
  }
  if (in->is_small) {
    (void)tensor_data_mut(call->results[0].as.tensor);
    return run_small(in, call, call->results[0].as.tensor);
  }
  return run_large(in, call, flat);
}

const struct point_instances point_instances = {instance_make, instance_rereads, instance_run,
                                                instance_free};
