/* ops/point/point_run.c -- the interpreter of tapes over tensors (point_run.h). It plans once which
 * operands can be used in place and which are gathered or converted, then processes blocks that fit
 * in L1, one primitive's loop per instruction, in parallel ranges. Instructions whose operands
 * never change run once per range. Machine code from src/compile/ replaces the instruction loop and
 * uses the rest. A loop per primitive over a block costs a load and a store more per step than
 * fused code, but needs no compiler and is the reference for fused code. */
#include "ops/point/point_run.h"

#include <stdatomic.h>

#include "base/cpu.h"
#include "base/threads.h"
#include "tensor/iter.h"

ISA_DECLARE(const tape_isa *, tape_isa, (void));

#define SLOT_BYTES 4096
#define FAULT_NOMEM 256u /* beside what instructions report */
#define FEW_BYTES \
  4096 /* of all slots: short ranges need no more, and long ones are worth an allocation */
#define ROW_MIN 256                 /* shorter rows are gathered across their ends */

int tape_type_of(int dtype)
{
  enum { TY_NONE = -1 };
  static const int8_t types[N_DTYPES] = { /* and 1, so that a number without a dtype has none */
#define DTYPE(id, number, name, aten, c_name, bytes, class, tape, ...) [number] = TY_##tape + 1,
#include "base/dtypes.def"
  };

  return (unsigned)dtype < N_DTYPES ? types[dtype] - 1 : TY_NONE;
}

const tape_isa *tape_isa_of(context *c)
{
  cpu_level level = cpu_choose(context_get_options(c)->cpu);
  return ISA_PICK(tape_isa, level)();
}

/* -- Data of a run, made once ------------------------------------------------------------------ */

typedef struct operand { /* a tensor of the run */
  char *data;
  const int64_t *strides; /* bytes, dim 0 innermost; NULL: in a row */
  int64_t item;           /* bytes in memory */
  bool linear;            /* in a row, in the order of the walk */
  bool single;            /* one element for all */
  bool direct;            /* memory is block: no conversion */
  uint8_t dtype, natural, type; /* natural: what the dtype is in a block; type: what is wanted */
} operand;

typedef struct plan {
  const point_run *run;
  operand in[RUN_MAX_INPUTS], out[RUN_MAX_RESULTS];
  tensor_iter it; /* unless flat */
  bool flat;
  bool redirect;  /* the last instruction writes the (only) result where it belongs */
  /* slots of a worker: registers, one for gathering, and two if there are conversions */
  int n_slots;
  int64_t block;  /* elements */
  call_ctx *cx;
  uint64_t fixed; /* instructions with the same result for all blocks */
  atomic_uint fault;
} plan;

static void describe_operand(operand *o, const rush_tensor *t, uint8_t type)
{
  o->data = t->data;
  o->strides = NULL;
  o->dtype = (uint8_t)t->dtype;
  o->item = (int64_t)tensor_item_bytes(t);
  o->natural = (uint8_t)tape_type_of(t->dtype);
  o->type = type;
  o->linear = true;
  o->single = false;
  o->direct = o->item == (int64_t)tape_type_bytes((tape_type)o->natural) && o->natural == type &&
              t->dtype != RUSH_COMPLEX32;
}

/* Describe the geometry of operand k of the iterator. */
static void describe_strides(operand *o, const tensor_iter *it, int k)
{
  o->data = it->data[k];
  o->strides = iter_strides(it, k);
  o->linear = o->single = true;
  int64_t next = o->item;
  for (int d = 0; d < it->n_dims; d++) {
    o->linear &= o->strides[d] == next;
    o->single &= o->strides[d] == 0;
    next *= it->sizes[d];
  }
}

static size_t widest(const point_run *r, const plan *p)
{
  size_t most = tape_type_bytes((tape_type)r->types[SYM_K]);
  for (int i = 0; i < r->n_instrs; i++) {
    size_t b = tape_type_bytes((tape_type)r->types[r->code[i].type]);
    if (r->code[i].op == TAPE_COMPLEX)
      b *= 2;
    most = b > most ? b : most;
  }
  for (int i = 0; i < r->n_inputs; i++)
    if (r->inputs[i].tensor) {
      size_t b = tape_type_bytes((tape_type)p->in[i].natural);
      most = b > most ? b : most;
    }
  for (int i = 0; i < r->n_results; i++) {
    size_t b = tape_type_bytes((tape_type)p->out[i].natural);
    most = b > most ? b : most;
  }
  return most;
}

/* Return the instructions whose operands are numbers, and whose register is not written elsewhere:
 * they run once for all blocks. */
static uint64_t fixed_instrs(const point_run *r, const plan *p)
{
  bool same[RUN_MAX_REGS] = {false};
  int writers[RUN_MAX_REGS] = {0};
  uint64_t fixed = 0;
  if (r->machine_code || r->n_instrs > 64)
    return 0;
  for (int i = 0; i < r->n_inputs; i++) {
    same[i] = !r->inputs[i].tensor || p->in[i].single;
    writers[i] = 1;
  }
  for (int i = 0; i < r->n_consts; i++) {
    same[r->n_inputs + i] = true;
    writers[r->n_inputs + i] = 1;
  }
  for (int i = 0; i < r->n_instrs; i++)
    writers[r->code[i].dst]++;
  for (int i = 0; i + 1 < r->n_instrs; i++) {
    const tape_instr *t = &r->code[i];
    const int arity = t->op == TAPE_CVT || t->op == TAPE_RND ? 1 : tape_arity((tape_op)t->op);
    if (t->op >= TAPE_CALL1 || writers[t->dst] != 1 || !same[t->a] || (arity > 1 && !same[t->b]) ||
        (arity > 2 && !same[t->c]))
      continue;
    bool is_result = false;
    for (int k = 0; k < r->n_results; k++)
      is_result |= r->results[k].reg == t->dst;
    if (is_result)
      continue;
    same[t->dst] = true;
    fixed |= UINT64_C(1) << i;
  }
  return fixed;
}

/* Return the number of slots besides the registers: load and store convert through two of them. */
static int extra_slots(const point_run *r, const plan *p)
{
  bool convert = false;
  for (int i = 0; i < r->n_inputs; i++)
    if (r->inputs[i].tensor)
      convert |= r->inputs[i].via >= 0 ||
                 (r->isa->load[p->in[i].dtype] && p->in[i].natural != p->in[i].type);
  for (int i = 0; i < r->n_results; i++)
    convert |= r->results[i].via >= 0 ||
               (r->isa->store[p->out[i].dtype] && p->out[i].natural != p->out[i].type);
  return convert ? 3 : 1;
}

/* Make the plan; `far`: memory for the iterator's strides if they do not fit into it
 * (iter_init_far). */
static void make_plan(plan *p, const point_run *r, bool flat, int64_t *far)
{
  p->run = r;
  p->flat = flat;
  atomic_init(&p->fault, 0);
  for (int i = 0; i < r->n_results; i++)
    describe_operand(&p->out[i], r->results[i].tensor, r->results[i].type);
  for (int i = 0; i < r->n_inputs; i++)
    if (r->inputs[i].tensor) {
      describe_operand(&p->in[i], r->inputs[i].tensor, r->inputs[i].type);
      p->in[i].direct &= r->inputs[i].via < 0;
    }
  if (!flat) {
    iter_init_far(&p->it, r->n_dims, r->sizes, far);
    for (int i = 0; i < r->n_results; i++)
      iter_add(&p->it, r->results[i].tensor);
    for (int i = 0; i < r->n_inputs; i++)
      if (r->inputs[i].tensor)
        iter_add(&p->it, r->inputs[i].tensor);
    iter_finish(&p->it);
    int k = 0;
    for (int i = 0; i < r->n_results; i++)
      describe_strides(&p->out[i], &p->it, k++);
    for (int i = 0; i < r->n_inputs; i++)
      if (r->inputs[i].tensor)
        describe_strides(&p->in[i], &p->it, k++);
  }
  p->redirect = r->n_results == 1 && r->results[0].via < 0 && r->n_instrs > 0 && p->out[0].direct &&
                p->out[0].linear && r->code[r->n_instrs - 1].dst == r->results[0].reg;
  p->block = SLOT_BYTES / (int64_t)widest(r, p);
  p->n_slots = r->n_regs + extra_slots(r, p);
  p->fixed = fixed_instrs(r, p);
}

/* -- Numbers into blocks ----------------------------------------------------------------------- */

#define FILL(T, value)                   \
  do {                                   \
    T v_ = (T)(value);                   \
    T *d_ = dst;                         \
    for (int64_t i = 0; i < n; i++)      \
      d_[i] = v_;                        \
  } while (0)

void point_fill(void *dst, int64_t n, tape_type type, const point_number *x)
{
  double re = x->is_float ? x->re : (double)x->i;
  bool fits = x->re >= -0x1p63 && x->re < 0x1p63; /* what x86 makes of others */
  int64_t whole = !x->is_float ? x->i : fits ? (int64_t)x->re : INT64_MIN;
  switch (type) {
  case TY_BOOL:
    FILL(uint8_t, x->is_float ? x->re != 0 || x->im != 0 : x->i != 0);
    break;
  case TY_I32:
    FILL(int32_t, whole);
    break;
  case TY_I64:
    FILL(int64_t, whole);
    break;
  case TY_F32:
    FILL(float, re);
    break;
  case TY_F64:
    FILL(double, re);
    break;
  case TY_C64: {
    float *d = dst;
    for (int64_t i = 0; i < n; i++) {
      d[2 * i] = (float)re;
      d[2 * i + 1] = (float)x->im;
    }
    break;
  }
  case TY_C128: {
    double *d = dst;
    for (int64_t i = 0; i < n; i++) {
      d[2 * i] = re;
      d[2 * i + 1] = x->im;
    }
    break;
  }
  case N_TAPE_TYPES:
    break;
  }
}

/* -- Strided memory to rows and back ----------------------------------------------------------- */

/* Copy n elements between strides ds and ss (bytes). */
void block_copy_strided(char *d, int64_t ds, const char *s, int64_t ss, int64_t n, int64_t item)
{
  if (ds == item && ss == item) {
    memcpy(d, s, (size_t)(n * item));
    return;
  }
  switch (item) {
#define CASE(bytes)                         \
  case bytes:                               \
    for (int64_t i = 0; i < n; i++)         \
      memcpy(d + i * ds, s + i * ss, bytes); \
    break;
    CASE(1)
    CASE(2)
    CASE(4)
    CASE(8)
    CASE(16)
#undef CASE
  default:
    break;
  }
}

/* The start of a block in the iteration. */
typedef struct position {
  int64_t at[TENSOR_MAX_DIMS];
} position;

static void position_set(position *x, const tensor_iter *it, int64_t linear)
{
  for (int d = 0; d < it->n_dims; d++) {
    x->at[d] = linear % it->sizes[d];
    linear /= it->sizes[d];
  }
}

static void position_add(position *x, const tensor_iter *it, int64_t n)
{
  x->at[0] += n;
  for (int d = 0; d < it->n_dims && x->at[d] >= it->sizes[d]; d++) {
    int64_t carry = x->at[d] / it->sizes[d];
    x->at[d] -= carry * it->sizes[d];
    if (d + 1 < it->n_dims)
      x->at[d + 1] += carry;
  }
}

static char *position_of(const position *x, const tensor_iter *it, const operand *o)
{
  char *p = o->data;
  for (int d = 0; d < it->n_dims; d++)
    p += x->at[d] * o->strides[d];
  return p;
}

/* Copy n elements of `o` at `x` to or from contiguous memory, across the ends of dimensions. */
static void walk(const tape_isa *isa, const tensor_iter *it, const operand *o,
                 const position *start, int64_t n, char *row, bool to_row)
{
  position x = *start;
  while (n > 0) {
    int64_t run = i64_min(n, it->sizes[0] - x.at[0]);
    char *p = position_of(&x, it, o);
    if (to_row && o->strides[0] == 0)
      isa->fill(run, row, p, o->item);
    else if (to_row)
      block_copy_strided(row, o->item, p, o->strides[0], run, o->item);
    else
      block_copy_strided(p, o->strides[0], row, o->item, run, o->item);
    row += run * o->item;
    n -= run;
    position_add(&x, it, run);
  }
}

/* -- Blocks ------------------------------------------------------------------------------------ */

typedef struct worker { /* one thread's */
  const plan *p;
  char *slots;   /* plan.n_slots: the registers', GATHER, CONVERT, ROUND */
  size_t stride; /* bytes of a slot */
  void *regs[RUN_MAX_REGS];
} worker;

static char *block_of(const worker *w, int i) { return w->slots + (size_t)i * w->stride; }

enum extra_slot { GATHER, CONVERT, ROUND };
static char *extra_slot_of(const worker *w, enum extra_slot i)
{
  return block_of(w, w->p->run->n_regs + (int)i);
}

static void convert_block(const tape_isa *isa, int64_t n, void *dst, uint8_t to, const void *src,
                    uint8_t from)
{
  isa->fns[TAPE_CVT][to](n, dst, src, NULL, NULL, from);
}

/* Load contiguous elements (of the dtype) into register i. */
static void load(worker *w, int i, const operand *o, const void *src, int64_t n)
{
  const tape_isa *isa = w->p->run->isa;
  char *slot = block_of(w, i);
  tape_convert *fn = isa->load[o->dtype];
  if (!fn) {
    if (o->natural == o->type)
      memcpy(slot, src, (size_t)(n * o->item));
    else
      convert_block(isa, n, slot, o->type, src, o->natural);
  } else if (o->natural == o->type) {
    fn(n, slot, src);
  } else {
    char *tmp = extra_slot_of(w, CONVERT);
    fn(n, tmp, src);
    convert_block(isa, n, slot, o->type, tmp, o->natural);
  }
  int via = w->p->run->inputs[i].via;
  if (via >= 0) {
    char *tmp = extra_slot_of(w, CONVERT);
    isa->store[via](n, tmp, slot);
    isa->load[via](n, slot, tmp);
  }
  w->regs[i] = slot;
}

/* Load what is the same for all blocks: numbers, single elements, constants. */
static void load_fixed(worker *w, int64_t n)
{
  const plan *p = w->p;
  const point_run *r = p->run;
  for (int i = 0; i < r->n_regs; i++)
    w->regs[i] = block_of(w, i);
  for (int i = 0; i < r->n_inputs; i++) {
    if (!r->inputs[i].tensor) {
      point_fill(block_of(w, i), n, (tape_type)r->inputs[i].type, &r->inputs[i].number);
    } else if (p->in[i].single) {
      load(w, i, &p->in[i], p->in[i].data, 1);
      char one[16];
      size_t bytes = tape_type_bytes((tape_type)p->in[i].type);
      memcpy(one, block_of(w, i), bytes);
      r->isa->fill(n, block_of(w, i), one, (int64_t)bytes);
    }
  }
  for (int i = 0; i < r->n_consts; i++)
    point_fill(block_of(w, r->n_inputs + i), n, (tape_type)r->consts[i].type,
                &r->consts[i].number);
}

/* Load the inputs of the block of n elements that starts at `pos`. */
static void load_block(worker *w, int64_t pos, const position *x, int64_t n)
{
  const plan *p = w->p;
  const point_run *r = p->run;
  for (int i = 0; i < r->n_inputs; i++) {
    const operand *o = &p->in[i];
    if (!r->inputs[i].tensor || o->single)
      continue;
    char *src;
    if (o->linear) {
      src = o->data + pos * o->item;
    } else if (n <= p->it.sizes[0] - x->at[0] && o->strides[0] == o->item) {
      src = position_of(x, &p->it, o);
    } else if (n <= p->it.sizes[0] - x->at[0] &&
               o->strides[0] == 0) { /* one element for the block */
      char one[16];
      const int64_t bytes = (int64_t)tape_type_bytes((tape_type)o->type);
      src = position_of(x, &p->it, o);
      if (!o->direct) {
        load(w, i, o, src, 1);
        src = memcpy(one, block_of(w, i), (size_t)bytes);
      }
      r->isa->fill(n, block_of(w, i), src, bytes);
      w->regs[i] = block_of(w, i);
      continue;
    } else {
      src = o->direct ? block_of(w, i) : extra_slot_of(w, GATHER);
      walk(r->isa, &p->it, o, x, n, src, true);
    }
    if (o->direct)
      w->regs[i] = src;
    else
      load(w, i, o, src, n);
  }
}

static void store_block(worker *w, int k, int64_t pos, const position *x, int64_t n)
{
  const plan *p = w->p;
  const operand *o = &p->out[k];
  const tape_isa *isa = p->run->isa;
  char *tmp = extra_slot_of(w, CONVERT), *rounded = extra_slot_of(w, ROUND);
  const void *src = w->regs[p->run->results[k].reg];
  char *dst = o->linear ? o->data + pos * o->item : extra_slot_of(w, GATHER);
  tape_convert *fn = isa->store[o->dtype];
  int via = p->run->results[k].via;
  if (via >= 0) {
    isa->store[via](n, tmp, src);
    isa->load[via](n, rounded, tmp);
    src = rounded;
  }
  if (o->natural != o->type) {
    void *to = fn ? tmp : dst;
    convert_block(isa, n, to, o->natural, src, o->type);
    src = to;
  }
  if (fn)
    fn(n, dst, src);
  else if (src != dst)
    memcpy(dst, src, (size_t)(n * o->item));
  if (!o->linear)
    walk(isa, &p->it, o, x, n, dst, false);
}

/* Run the instructions that are `fixed`, or the others. */
static unsigned run_tape(worker *w, int64_t pos, int64_t n, bool fixed)
{
  const plan *p = w->p;
  const point_run *r = p->run;
  unsigned fault = 0;
  for (int i = 0; i < r->n_instrs; i++) {
    const tape_instr *t = &r->code[i];
    uint8_t type = r->types[t->type];
    void *dst = block_of(w, t->dst);
    if ((i < 64 && (p->fixed >> i & 1)) != fixed)
      continue;
    if (p->redirect && i == r->n_instrs - 1)
      dst = p->out[0].data + pos * p->out[0].item;
    const void *a = w->regs[t->a], *b = NULL, *c = NULL;
    int aux = 0;
    if (t->op == TAPE_CVT) {
      aux = r->types[t->b];
    } else if (t->op == TAPE_RND) {
      aux = r->dtype;
    } else if (t->op >= TAPE_CALL1) {
      b = w->regs[t->b];
      aux = t->c;
    } else {
      b = w->regs[t->b];
      c = w->regs[t->c];
    }
    fault |= r->isa->fns[t->op][type](n, dst, a, b, c, aux);
    w->regs[t->dst] = dst;
  }
  return fault;
}

/* Run the machine code on the blocks that contain the inputs. */
static void run_machine_code(worker *w, int64_t pos, int64_t n)
{
  const plan *p = w->p;
  const point_run *r = p->run;
  void *operands[RUN_MAX_INPUTS + RUN_MAX_RESULTS];
  for (int i = 0; i < r->n_inputs; i++)
    operands[i] = w->regs[i];
  for (int k = 0; k < r->n_results; k++) {
    const operand *o = &p->out[k];
    void *dst = o->direct && o->linear ? o->data + pos * o->item : block_of(w, r->results[k].reg);
    operands[r->n_inputs + k] = w->regs[r->results[k].reg] = dst;
  }
  r->machine_code(n, operands);
}

/* True if every operand can be used in place by machine code: then the only block is the range. */
static bool all_in_place(const plan *p)
{
  bool all = p->flat;
  for (int i = 0; i < p->run->n_inputs; i++)
    all &= !p->run->inputs[i].tensor || (p->in[i].direct && p->in[i].linear);
  for (int k = 0; k < p->run->n_results; k++)
    all &= p->out[k].direct && p->out[k].linear;
  return all;
}

/* -- Machine code on rows ---------------------------------------------------------------------- */

#define SHORT_ROW 16 /* elements: shorter rows are gathered into blocks */

/* True if machine code can run on the rows of dimension 0 where they are: each operand has them in
 * a row, or has one element for all. */
static bool rows_in_place(const plan *p)
{
  const point_run *r = p->run;
  bool all = r->machine_code && !p->flat && p->it.n_dims > 1 && p->it.sizes[0] >= SHORT_ROW;

  for (int i = 0; all && i < r->n_inputs; i++)
    all = !r->inputs[i].tensor ||
          (p->in[i].direct && (p->in[i].single || p->in[i].strides[0] == p->in[i].item));
  for (int k = 0; all && k < r->n_results; k++)
    all = p->out[k].direct && p->out[k].strides[0] == p->out[k].item;
  return all;
}

typedef struct row_walk { /* the operands of machine code, moved from row to row */
  int n_operands;
  void *at[RUN_MAX_INPUTS + RUN_MAX_RESULTS];
  int64_t step[RUN_MAX_INPUTS + RUN_MAX_RESULTS]; /* bytes from a row to the next one */
  char numbers[RUN_MAX_INPUTS][16] __attribute__((aligned(16)));
} row_walk;

/* Set the operands' addresses of element x. */
static void place_operands(const plan *p, const position *x, row_walk *w)
{
  const point_run *r = p->run;

  w->n_operands = r->n_inputs + r->n_results;
  for (int i = 0; i < w->n_operands; i++) {
    const operand *o = i < r->n_inputs ? &p->in[i] : &p->out[i - r->n_inputs];

    if (i < r->n_inputs && !r->inputs[i].tensor) {
      point_fill(w->numbers[i], 1, (tape_type)r->inputs[i].type, &r->inputs[i].number);
      w->at[i] = w->numbers[i];
      w->step[i] = 0;
      continue;
    }
    w->at[i] = position_of(x, &p->it, o);
    w->step[i] = o->strides[1];
  }
}

/* Run elements begin..end: whole rows but for the first and the last one. */
static void run_rows(const plan *p, int64_t begin, int64_t end)
{
  const int64_t row = p->it.sizes[0];
  row_walk w;
  position x;

  position_set(&x, &p->it, begin);
  while (begin < end) { /* the rest of a row, or rows up to the end of dimension 1 */
    int64_t n = i64_min(end - begin, row - x.at[0]);
    int64_t n_rows = n < row ? 1 : i64_min((end - begin) / row, p->it.sizes[1] - x.at[1]);

    place_operands(p, &x, &w);
    position_add(&x, &p->it, n_rows * n);
    begin += n_rows * n;
    while (n_rows-- > 0) {
      p->run->machine_code(n, w.at);
      for (int i = 0; i < w.n_operands; i++)
        w.at[i] = (char *)w.at[i] + w.step[i];
    }
  }
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
  plan *p = arg;
  const point_run *r = p->run;

  if (rows_in_place(p)) {
    run_rows(p, begin, end);
    return;
  }
  char few[FEW_BYTES] __attribute__((aligned(64)));
  const size_t stride =
    ((size_t)i64_min(p->block, end - begin) * (SLOT_BYTES / (size_t)p->block) + 63) & ~(size_t)63;
  const size_t n_bytes = (size_t)p->n_slots * stride;
  worker w = {.p = p,
              .slots = n_bytes <= sizeof few ? few : mem_alloc_data(p->cx->ctx, n_bytes),
              .stride = stride};
  if (!w.slots) {
    atomic_fetch_or_explicit(&p->fault, FAULT_NOMEM, memory_order_relaxed);
    return;
  }
  load_fixed(&w, i64_min(p->block, end - begin));
  int64_t block = r->machine_code && all_in_place(p) ? end - begin : p->block;
  position x;
  if (!p->flat)
    position_set(&x, &p->it, begin);
  unsigned fault = p->fixed ? run_tape(&w, begin, i64_min(p->block, end - begin), true) : 0;
  for (int64_t pos = begin; pos < end;) {
    int64_t n = i64_min(block, end - pos);
    if (!p->flat && p->it.sizes[0] >= ROW_MIN)
      n = i64_min(n, p->it.sizes[0] - x.at[0]);
    load_block(&w, pos, &x, n);
    if (r->machine_code)
      run_machine_code(&w, pos, n);
    else
      fault |= run_tape(&w, pos, n, false);
    if (!p->redirect || r->machine_code)
      for (int k = 0; k < r->n_results; k++)
        store_block(&w, k, pos, &x, n);
    pos += n;
    if (!p->flat)
      position_add(&x, &p->it, n);
  }
  if (w.slots != few)
    mem_free_data(p->cx->ctx, w.slots, n_bytes);
  if (fault)
    atomic_fetch_or_explicit(&p->fault, fault, memory_order_relaxed);
}

void block_read(const tape_isa *isa, int64_t n, void *dst, tape_type type, const void *src,
                int dtype)
{
  const tape_type natural = (tape_type)tape_type_of(dtype);
  tape_convert *fn = isa->load[dtype];
  char tmp[BLOCK_MAX * 8] __attribute__((aligned(64))); /* what is converted has at most 8 bytes */
  if (fn) {
    fn(n, natural == type ? dst : tmp, src);
    src = tmp;
  }
  if (natural != type)
    convert_block(isa, n, dst, (uint8_t)type, src, (uint8_t)natural);
  else if (!fn)
    memcpy(dst, src, (size_t)n * tape_type_bytes(type));
}

void block_write(const tape_isa *isa, int64_t n, void *dst, int dtype, const void *src,
                 tape_type type)
{
  const tape_type natural = (tape_type)tape_type_of(dtype);
  tape_convert *fn = isa->store[dtype];
  char tmp[BLOCK_MAX * 8] __attribute__((aligned(64))); /* what is converted has at most 8 bytes */
  if (natural != type) {
    convert_block(isa, n, fn ? tmp : dst, (uint8_t)natural, src, (uint8_t)type);
    src = fn ? tmp : dst;
  }
  if (fn)
    fn(n, dst, src);
  else if (src != dst)
    memcpy(dst, src, (size_t)n * tape_type_bytes(type));
}

/* -- One loop over everything ------------------------------------------------------------------ */

/* A tape of one instruction whose operands are all contiguous in block form. */
typedef struct whole {
  tape_fn *fn;
  int aux;
  int n_args;
  char *data[4]; /* result, operands */
  int64_t item[4];
  atomic_uint fault;
} whole;

static bool as_whole(const point_run *r, whole *o)
{
  if (r->n_instrs != 1 || r->n_results != 1 || r->results[0].via >= 0 ||
      r->code[0].op >= TAPE_CALL1 || r->n_consts > 0)
    return false;
  const tape_instr *t = &r->code[0];
  int arity = t->op == TAPE_CVT || t->op == TAPE_RND ? 1 : 3;
  rush_tensor *ts[4] = {r->results[0].tensor};
  uint8_t types[4] = {r->results[0].type};
  const uint8_t regs[3] = {t->a, t->b, t->c};
  for (int i = 0; i < arity; i++) {
    ts[i + 1] = r->inputs[regs[i]].tensor;
    types[i + 1] = r->inputs[regs[i]].type;
  }
  for (int i = 0; i <= arity; i++) {
    if (i > 0 && ts[i] && r->inputs[regs[i - 1]].via >= 0)
      return false;
    if (!ts[i] || ts[i]->dtype == RUSH_COMPLEX32 || tape_type_of(ts[i]->dtype) != types[i] ||
        tensor_item_bytes(ts[i]) != tape_type_bytes((tape_type)types[i]))
      return false;
    o->data[i] = ts[i]->data;
    o->item[i] = (int64_t)tensor_item_bytes(ts[i]);
  }
  o->n_args = arity;
  o->fn = r->isa->fns[t->op][r->types[t->type]];
  o->aux = t->op == TAPE_CVT ? r->types[t->b] : r->dtype;
  return true;
}

static void run_whole(void *arg, int64_t begin, int64_t end)
{
  whole *o = arg;
  const char *p[4] = {0};
  for (int i = 0; i <= o->n_args; i++)
    p[i] = o->data[i] + begin * o->item[i];
  unsigned fault = o->fn(end - begin, (void *)(uintptr_t)p[0], p[1], p[2], p[3], o->aux);
  if (fault)
    atomic_store_explicit(&o->fault, fault, memory_order_relaxed);
}

rush_status point_check_fault(call_ctx *cx, unsigned fault)
{
  if (fault & FAULT_NOMEM)
    return call_nomem(cx);
  if (fault & 2)
    return call_fail(cx, "Integers to negative integer powers are not allowed.");
  return fault ? call_fail(cx, "ZeroDivisionError") : RUSH_OK;
}

/* Elements between two polls: a special function may take a millisecond for one (a polynomial of
 * degree 65536). */
#define SLOW_GRAIN 8
static int64_t grain_of(const call_ctx *cx, const point_run *r)
{
  for (int i = 0; call_is_watched(cx) && i < r->n_instrs; i++)
    if (r->code[i].op >= TAPE_CALL1)
      return SLOW_GRAIN;
  return POINT_GRAIN;
}

static rush_status execute_plan(call_ctx *cx, const point_run *r, bool flat, int64_t *far)
{
  const int64_t n = r->results[0].tensor->n_elems, grain = grain_of(cx, r);
  plan p;
  make_plan(&p, r, flat, far);
  p.cx = cx;
  if (n < grain)
    run_range(&p, 0, n);
  else
    TRY(parallel_for(cx, n, grain, run_range, &p));
  return point_check_fault(cx, atomic_load_explicit(&p.fault, memory_order_relaxed));
}

/* Run with so many operands of so many dimensions that the iterator cannot hold their strides. */
static rush_status execute_far(call_ctx *cx, const point_run *r)
{
  const size_t n_bytes =
    (size_t)iter_n_strides(r->n_results + r->n_inputs, r->n_dims) * sizeof(int64_t);
  int64_t *far = mem_alloc(cx->ctx, n_bytes);
  if (!far)
    return call_nomem(cx);
  rush_status st = execute_plan(cx, r, false, far);
  mem_free(cx->ctx, far, n_bytes);
  return st;
}

rush_status point_execute(call_ctx *cx, const point_run *r, bool flat)
{
  int64_t n = r->results[0].tensor->n_elems;
  if (n == 0)
    return RUSH_OK;
  for (int i = 0; i < r->n_results; i++)
    (void)tensor_data_mut(r->results[i].tensor);
  whole one;
  if (flat && !r->machine_code && as_whole(r, &one)) {
    atomic_init(&one.fault, 0);
    if (n < 2 * POINT_GRAIN)
      run_whole(&one, 0, n);
    else
      TRY(parallel_for(cx, n, POINT_GRAIN, run_whole, &one));
    return point_check_fault(cx, atomic_load_explicit(&one.fault, memory_order_relaxed));
  }
  if (UNLIKELY(!flat && iter_n_strides(r->n_results + r->n_inputs, r->n_dims) > ITER_ROOM))
    return execute_far(cx, r);
  return execute_plan(cx, r, flat, NULL);
}
