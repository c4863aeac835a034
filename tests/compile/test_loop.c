#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "assemble.h"
#include "compile/code/code_memory.h"
#include "compile/loop.h"

/* Compare emitted code with the tape runner's loops of the same instruction set: the same bits (any
 * NaN equals any NaN), and no byte outside of the operands is changed. */

ISA_DECLARE(const tape_isa *, tape_isa, (void));

static const uint8_t arity[N_TAPE_OPS] = {
#define TAPE(name, n_args, classes, result) n_args,
#include "ops/table/tape.def"
#undef TAPE
};
static const char *const names[N_TAPE_OPS] = {
#define TAPE(name, n_args, classes, result) #name,
#include "ops/table/tape.def"
#undef TAPE
};

static uint64_t seed = 1;
static uint32_t next_random(void)
{
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 32);
}
static int below(int n) { return (int)(next_random() % (uint32_t)n); }

static float from_bits(uint32_t u)
{
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
static uint32_t to_bits(float f)
{
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float any_float(void)
{
  static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                     0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                                     0x7fc00000, 0xffc00000, 0x3f800000, 0xbf800000, 0x3f000000,
                                     0x3effffff, 0x4b000000, 0x4b7fffff, 0xcb000001, 0x7fa00000};
  switch (below(8)) {
  case 0:
    return from_bits(next_random());
  case 1:
    return from_bits(special[below((int)COUNT_OF(special))]);
  case 2:
    return (float)below(2000) / 16.0f - 60.0f;
  default:
    return (float)(int32_t)next_random() * 0x1p-29f;
  }
}

/* -- Tapes and their operands ------------------------------------------------------------------ */

#define MOST_REGS 250
#define MOST_N 1200

typedef struct example {
  tape_instr code[256];
  uint8_t types[256]; /* of registers */
  uint8_t kinds[64], input_types[64], results[8], result_types[8];
  float consts[16];
  loop_tape t;
  int in_place[8]; /* input whose memory a result is, or -1 */
} example;

static void example_init(example *e, int n_inputs, int n_consts)
{
  memset(e, 0, sizeof *e);
  e->t = (loop_tape){.code = e->code,
                     .n_inputs = n_inputs,
                     .n_consts = n_consts,
                     .n_regs = n_inputs + n_consts,
                     .input_kinds = e->kinds,
                     .input_types = e->input_types,
                     .consts = e->consts,
                     .results = e->results,
                     .result_types = e->result_types};
  memset(e->types, TY_F32, sizeof e->types);
  memset(e->input_types, TY_F32, sizeof e->input_types);
  memset(e->in_place, -1, sizeof e->in_place);
}

static int push(example *e, tape_op op, tape_type type, int a, int b, int c, int dst)
{
  tape_type made = type;
  if (op == TAPE_EQ || op == TAPE_NE || op == TAPE_LT || op == TAPE_LE || op == TAPE_SIGNBIT)
    made = TY_BOOL;
  if (dst < 0)
    dst = e->t.n_regs++;
  e->code[e->t.n_instrs++] =
    (tape_instr){(uint8_t)op, (uint8_t)type, (uint8_t)dst, (uint8_t)a, (uint8_t)b, (uint8_t)c};
  e->types[dst] = (uint8_t)made;
  return dst;
}

static void add_result(example *e, int reg)
{
  e->result_types[e->t.n_results] = e->types[reg];
  e->results[e->t.n_results++] = (uint8_t)reg;
}

/* Return a register of a type; convert one if there is none. */
static int some_reg(example *e, tape_type type)
{
  int r = e->t.n_regs - 1;
  for (int tries = 0; tries < 40; tries++) {
    r = below(3) ? e->t.n_regs - 1 - below(e->t.n_regs < 6 ? e->t.n_regs : 6) : below(e->t.n_regs);
    if (e->types[r] == type)
      return r;
  }
  return push(e, TAPE_CVT, type, r, e->types[r], 0, -1);
}

/* Which of two NaNs an operation returns, and so its sign, is unspecified: no test may depend on
 * it. */
static int with_plain_nan(example *e, int r)
{
  int is_number = push(e, TAPE_EQ, TY_F32, r, r, 0, -1),
      positive = push(e, TAPE_ABS, TY_F32, r, 0, 0, -1);
  return push(e, TAPE_WHERE, TY_F32, is_number, r, positive, -1);
}

static void add_random(example *e, cpu_level level, bool logic)
{
  tape_op op;
  tape_type type;
  do {
    op = (tape_op)below(N_TAPE_OPS);
    type = below(logic ? 2 : 4) ? TY_F32 : TY_BOOL;
  } while (!loop_can_emit(op, type, level));
  if (op == TAPE_CVT) {
    int a = some_reg(e, below(2) ? TY_F32 : TY_BOOL);
    push(e, op, type, a, e->types[a], 0, -1);
    return;
  }
  if (logic && below(2)) { /* many masks at once */
    op = (tape_op)(TAPE_EQ + below(4));
    type = TY_F32;
  }
  int a = some_reg(e, op == TAPE_WHERE ? TY_BOOL : type), b = 0, c = 0;
  if (arity[op] > 1)
    b = some_reg(e, type);
  if (arity[op] > 2)
    c = some_reg(e, type);
  if (op == TAPE_SIGNBIT)
    a = with_plain_nan(e, a);
  if (op == TAPE_COPYSIGN)
    b = with_plain_nan(e, b);
  bool result_is_type =
    op != TAPE_EQ && op != TAPE_NE && op != TAPE_LT && op != TAPE_LE && op != TAPE_SIGNBIT;
  int dst = below(5) == 0 && result_is_type ? some_reg(e, type) : -1; /* written again */
  push(e, op, type, a, b, c, dst);
}

static void random_example(example *e, cpu_level level)
{
  bool crowded = below(3) == 0, logic = below(3) == 0;
  example_init(e, 1 + below(crowded ? 24 : 4), below(5));
  for (int k = 0; k < e->t.n_inputs; k++) {
    e->kinds[k] = below(4) ? LOOP_ROW : LOOP_ONE;
    e->types[k] = e->input_types[k] = below(6) ? TY_F32 : TY_BOOL;
  }
  for (int k = 0; k < e->t.n_consts; k++)
    e->consts[k] = any_float();
  int n = crowded ? 40 + below(40) : below(12);
  for (int k = 0; k < n; k++)
    add_random(e, level, logic);
  for (int k = 1 + below(3); k > 0; k--)
    add_result(e, below(3) ? e->t.n_regs - 1 : below(e->t.n_regs));
  for (int k = 0; k < e->t.n_results; k++) {
    int in = below(e->t.n_inputs);
    bool taken = e->kinds[in] != LOOP_ROW || e->input_types[in] != e->result_types[k];
    for (int j = 0; j < k; j++)
      taken |= e->in_place[j] == in;
    if (!taken && below(2))
      e->in_place[k] = in;
  }
}

/* -- Memory between two pages that may not be touched ------------------------------------------ */

#define ROOM (2 * 4096)
typedef struct fenced {
  char *map;
  char *data;
} fenced;

static void fence(fenced *f, size_t n_bytes, bool at_end)
{
  if (!f->map) {
    f->map = mmap(NULL, ROOM + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f->map != MAP_FAILED);
    assert_int_equal(mprotect(f->map + 4096, ROOM, PROT_READ | PROT_WRITE), 0);
  }
  f->data = at_end ? f->map + 4096 + ROOM - n_bytes : f->map + 4096;
  memset(f->map + 4096, 0x5a, ROOM);
}

static void check_fence(const fenced *f, size_t n_bytes)
{
  for (char *p = f->map + 4096; p < f->map + 4096 + ROOM; p++)
    if ((p < f->data || p >= f->data + n_bytes) && *p != 0x5a)
      fail_msg("a byte outside was written");
}

/* -- Running both ------------------------------------------------------------------------------ */

typedef union block {
  float f[MOST_N];
  uint8_t b[MOST_N];
} block;
static block *regs; /* MOST_REGS + 6 of the tape runner's registers */

static const tape_isa *loops_of(cpu_level level) { return ISA_PICK(tape_isa, level)(); }

/* The operands, and the same numbered as registers for the tape. */
static void fill(const example *e, int64_t n, fenced *mem, void **operands)
{
  const loop_tape *t = &e->t;
  for (int k = 0; k < t->n_inputs + t->n_results; k++) {
    bool out = k >= t->n_inputs;
    int from = out ? e->in_place[k - t->n_inputs] : -1;
    tape_type type = (tape_type)(out ? t->result_types[k - t->n_inputs] : t->input_types[k]);
    size_t n_elems = !out && t->input_kinds[k] == LOOP_ONE ? 1 : (size_t)n;
    fence(&mem[k], n_elems * tape_type_bytes(type), below(2));
    operands[k] = from >= 0 ? mem[from].data : mem[k].data;
    if (out)
      continue;
    for (size_t i = 0; i < (size_t)(n ? n : 1); i++) {
      size_t at = n_elems == 1 ? 0 : i;
      if (type == TY_F32) {
        regs[k].f[i] = n_elems == 1 && i ? regs[k].f[0] : any_float();
        if (at < n_elems)
          memcpy(mem[k].data + 4 * at, &regs[k].f[i], 4);
      } else {
        regs[k].b[i] = n_elems == 1 && i ? regs[k].b[0] : (uint8_t)below(2);
        if (at < n_elems)
          mem[k].data[at] = (char)regs[k].b[i];
      }
    }
  }
  for (int k = 0; k < t->n_consts; k++)
    for (int64_t i = 0; i < n; i++)
      regs[t->n_inputs + k].f[i] = t->consts[k];
}

static void run_tape(const loop_tape *t, const tape_isa *loops, int64_t n)
{
  for (int k = 0; k < t->n_instrs; k++) {
    const tape_instr *i = &t->code[k];
    int aux = i->op == TAPE_CVT ? i->b : 0;
    loops->fns[i->op][i->type](n, &regs[i->dst], &regs[i->a], &regs[i->b], &regs[i->c], aux);
  }
}

static void print_tape(const loop_tape *t)
{
  for (int k = 0; k < t->n_instrs; k++)
    printf("  r%d = %s.%d(r%d, r%d, r%d)\n", t->code[k].dst, names[t->code[k].op], t->code[k].type,
           t->code[k].a, t->code[k].b, t->code[k].c);
}

static void compare(const example *e, int64_t n, void *const *operands)
{
  const loop_tape *t = &e->t;
  for (int k = 0; k < t->n_results; k++)
    for (int64_t i = 0; i < n; i++) {
      const block *want = &regs[t->results[k]];
      const void *got = operands[t->n_inputs + k];
      float w = want->f[i], g = 0;
      bool same;
      if (t->result_types[k] == TY_BOOL) {
        same = want->b[i] == ((const uint8_t *)got)[i];
      } else {
        memcpy(&g, (const float *)got + i, sizeof g);
        same = to_bits(w) == to_bits(g) || (w != w && g != g);
      }
      if (!same) {
        print_tape(t);
        fail_msg("result %d, element %d of %d: %a (%08x), not %a (%08x)", k, (int)i, (int)n,
                 (double)g, to_bits(g), (double)w, to_bits(w));
      }
    }
}

static void check_example(call_ctx *cx, const example *e, cpu_level level, int64_t n, fenced *mem)
{
  const loop_tape *t = &e->t;
  loop_code *code = NULL;
  void *operands[80];
  loop_machine machine = {.level = level};
  if (below(3) == 0) { /* so few registers that values are spilled */
    machine.n_vectors = (uint8_t)(5 + below(6));
    machine.n_masks = (uint8_t)(3 + below(2));
  }
  rush_status st = loop_compile_for(cx, t, machine, &code);
  if (st == RUSH_EUNSUPPORTED && machine.n_vectors) /* more than the stack holds */
    return rush_error_clear(cx->err);
  assert_int_equal(st, RUSH_OK);
  fill(e, n, mem, operands);
  code->fn(n, operands);
  run_tape(t, loops_of(level), n);
  compare(e, n, operands);
  for (int k = 0; k < t->n_inputs + t->n_results; k++) {
    bool out = k >= t->n_inputs;
    tape_type type = (tape_type)(out ? t->result_types[k - t->n_inputs] : t->input_types[k]);
    check_fence(&mem[k],
                (!out && t->input_kinds[k] == LOOP_ONE ? 1 : (size_t)n) * tape_type_bytes(type));
  }
  loop_code_release(code);
}

/* -- Claims ------------------------------------------------------------------------------------ */

static void *new_context(context **c, call_ctx *cx, rush_error *err)
{
  *c = test_context(&(context_options){0});
  *err = (rush_error)RUSH_ERROR_INIT;
  call_ctx_init(cx, *c, err);
  regs = calloc(256, sizeof *regs);
  return calloc(80, sizeof(fenced));
}
static void done(context *c, fenced *mem)
{
  for (int k = 0; k < 80; k++)
    if (mem[k].map)
      munmap(mem[k].map, ROOM + 2 * 4096);
  free(mem);
  free(regs);
  context_release(c);
}

static void random_chains_equal_the_tape(void **state)
{
  (void)state;
  context *c;
  call_ctx cx;
  rush_error err;
  fenced *mem = new_context(&c, &cx, &err);
  example *e = malloc(sizeof *e);
  for (cpu_level level = CPU_AVX2; level <= cpu_machine(); level++)
    for (int k = 0; k < 3000; k++) {
      random_example(e, level);
      check_example(&cx, e, level, k % 5 ? below(71) : below(MOST_N), mem);
    }
  free(e);
  done(c, mem);
}

/* Test every primitive alone, over all exponents and signs. */
static void primitives_equal_the_tape(void **state)
{
  (void)state;
  context *c;
  call_ctx cx;
  rush_error err;
  fenced *mem = new_context(&c, &cx, &err);
  example *e = malloc(sizeof *e);
  enum { N = 1 << 16 };
  float *in[3], *want = malloc(N * sizeof(float)), *got = malloc(N * sizeof(float));
  for (int k = 0; k < 3; k++)
    in[k] = malloc(N * sizeof(float));
  for (int i = 0; i < N; i++) {
    in[0][i] = from_bits((uint32_t)i << 16 | (next_random() & 0xffff));
    in[1][i] = any_float();
    in[2][i] = any_float();
  }
  for (cpu_level level = CPU_AVX2; level <= cpu_machine(); level++)
    for (tape_op op = 0; op < N_TAPE_OPS; op++) {
      if (!loop_can_emit(op, TY_F32, level) || op == TAPE_CVT || op == TAPE_WHERE)
        continue;
      example_init(e, 3, 0);
      add_result(e, push(e, op, TY_F32, 0, 1, 2, -1));
      loop_code *code = NULL;
      assert_int_equal(loop_compile(&cx, &e->t, level, &code), RUSH_OK);
      code->fn(N, (void *[]){in[0], in[1], in[2], got});
      loops_of(level)->fns[op][TY_F32](N, want, in[0], in[1], in[2], 0);
      for (int i = 0; i < N; i++) {
        bool same = e->result_types[0] == TY_BOOL ? ((uint8_t *)got)[i] == ((uint8_t *)want)[i]
                                                  : to_bits(got[i]) == to_bits(want[i]) ||
                                                      (got[i] != got[i] && want[i] != want[i]);
        if (!same)
          fail_msg("%s(%a, %a, %a): %a, not %a", names[op], (double)in[0][i], (double)in[1][i],
                   (double)in[2][i], (double)got[i], (double)want[i]);
      }
      loop_code_release(code);
    }
  for (int k = 0; k < 3; k++)
    free(in[k]);
  free(want);
  free(got);
  free(e);
  done(c, mem);
}

/* List code without offsets and bytes; our forward jumps have 32 bits. */
static void plain_listing(text_buf *out, const char *listing)
{
  for (const char *end; *listing; listing = end + 1) {
    end = strchr(listing, '\n');
    bool bytes = *listing == ' ' && listing[7] != '.';
    const char *text = *listing != ' ' ? listing : listing + (bytes ? 31 : 7);
    if (bytes && (!strncmp(listing + 7, "0f8", 3) || !strncmp(listing + 7, "e9", 2)))
      text_puts(out, "{disp32} ");
    text_add(out, text, (size_t)(end + 1 - text));
  }
}

static void listings_assemble_to_the_code(void **state)
{
  (void)state;
  context *c;
  call_ctx cx;
  rush_error err;
  fenced *mem = new_context(&c, &cx, &err);
  example *e = malloc(sizeof *e);
  uint8_t *bytes = malloc(1 << 20);
  seed = 7;
  for (cpu_level level = CPU_AVX2; level <= cpu_machine(); level++)
    for (int k = 0; k < 12; k++) {
      loop_code *code = NULL;
      text_buf full, plain;
      random_example(e, level);
      assert_int_equal(loop_compile(&cx, &e->t, level, &code), RUSH_OK);
      text_init(&full, c);
      text_init(&plain, c);
      loop_disassemble(&full, code);
      plain_listing(&plain, text_str(&full));
      size_t n = assemble(text_str(&plain), bytes, 1 << 20);
      if (!n)
        printf("skipped: no binutils\n");
      for (size_t i = 0; i < n; i++)
        if (bytes[i] != code->bytes[i])
          fail_msg("byte %zx: %02x, as's is %02x\n%s", i, code->bytes[i], bytes[i],
                   text_str(&full));
      if (n)
        assert_int_equal(n, code->n_bytes);
      text_free(&full);
      text_free(&plain);
      loop_code_release(code);
    }
  free(bytes);
  free(e);
  done(c, mem);
}

/* Build x * 1 + y, for tests about memory. */
static void simple_example(example *e)
{
  example_init(e, 2, 1);
  e->consts[0] = 1.0f;
  add_result(e, push(e, TAPE_FMA, TY_F32, 0, 2, 1, -1));
}

static void kernels_share_chunks_and_give_them_back(void **state)
{
  (void)state;
  context *c;
  call_ctx cx;
  rush_error err;
  fenced *mem = new_context(&c, &cx, &err);
  example *e = malloc(sizeof *e);
  loop_code *codes[600];
  mem_stats before, full, after;
  simple_example(e);
  if (cpu_machine() < CPU_AVX2)
    skip();
  assert_int_equal(loop_compile(&cx, &e->t, CPU_AVX2, &codes[0]), RUSH_OK);
  loop_code_release(codes[0]);
  mem_get_stats(c, &before);
  for (int k = 0; k < 600; k++)
    assert_int_equal(loop_compile(&cx, &e->t, CPU_AVX2, &codes[k]), RUSH_OK);
  mem_get_stats(c, &full);
  assert_true(full.live_bytes - before.live_bytes > 3 * 65536);
  assert_true(full.live_bytes - before.live_bytes < 12 * 65536);
  for (int k = 0; k < 600; k++) { /* every kernel still is itself */
    float x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, y[9] = {0};
    codes[k]->fn(9, (void *[]){x, x, y});
    assert_true(y[8] == 18 && y[0] == 2);
    if (k % 3 == 0)
      loop_code_release(codes[k]);
  }
  for (int k = 0; k < 600; k += 3) /* into the holes */
    assert_int_equal(loop_compile(&cx, &e->t, CPU_AVX2, &codes[k]), RUSH_OK);
  for (int k = 0; k < 600; k++)
    loop_code_release(codes[k]);
  mem_get_stats(c, &after);
  assert_int_equal(before.live_bytes, after.live_bytes);
  free(e);
  done(c, mem);
}

static void a_byte_limit_counts_code(void **state)
{
  (void)state;
  example *e = malloc(sizeof *e);
  simple_example(e);
  for (size_t limit = 100; limit < 200000; limit = limit * 5 / 4) {
    context *c = test_context(&(context_options){.limit_bytes = limit});
    call_ctx cx;
    rush_error err = RUSH_ERROR_INIT;
    loop_code *code = NULL;
    call_ctx_init(&cx, c, &err);
    rush_status st = loop_compile(&cx, &e->t, cpu_machine(), &code);
    if (st != RUSH_EUNSUPPORTED)
      assert_true(limit < 65536 ? st == RUSH_ELIMIT || st == RUSH_ENOMEM
                                : limit < 90000 || st == RUSH_OK);
    loop_code_release(code);
    rush_error_clear(&err);
    context_release(c);
  }
  free(e);
}

/* Code that a child compiles does not affect the parent's. */
static void a_fork_has_its_own_code(void **state)
{
  (void)state;
  context *c;
  call_ctx cx;
  rush_error err;
  fenced *mem = new_context(&c, &cx, &err);
  example *e = malloc(sizeof *e);
  loop_code *ours = NULL, *other = NULL;
  float x[3] = {1, 2, 3}, y[3] = {0};
  simple_example(e);
  if (cpu_machine() < CPU_AVX2)
    skip();
  assert_int_equal(loop_compile(&cx, &e->t, CPU_AVX2, &ours), RUSH_OK);
  assert_int_equal(loop_compile(&cx, &e->t, CPU_AVX2, &other), RUSH_OK);
  pid_t child = fork();
  if (child == 0) {
    bool good = true;
    loop_code_release(other);
    e->code[0].op = TAPE_SUB;
    for (int k = 0; k < 400 && good; k++)
      good = loop_compile(&cx, &e->t, CPU_AVX2, &other) == RUSH_OK;
    if (good)
      other->fn(3, (void *[]){x, x, y});
    _exit(good && y[2] == 2 ? 0 : 1);
  }
  int result = 1;
  assert_true(waitpid(child, &result, 0) == child);
  assert_int_equal(result, 0);
  other->fn(3, (void *[]){x, x, y});
  assert_true(y[2] == 6);
  loop_code_release(ours);
  loop_code_release(other);
  free(e);
  done(c, mem);
}

/* If memory cannot be mapped twice, each kernel has its own pages; if no page may become
 * executable, there is no kernel. */
static int compile_without_shared_memory(call_ctx *cx, const example *e)
{
  float x[3] = {1, 2, 3}, y[3] = {0};
  loop_code *code = NULL, *second = NULL;
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}))
    return 0;
  if (loop_compile(cx, &e->t, CPU_AVX2, &code) != RUSH_OK ||
      loop_compile(cx, &e->t, CPU_AVX2, &second) != RUSH_OK)
    return 1;
  code->fn(3, (void *[]){x, x, y});
  loop_code_release(code);
  if (y[2] != 6)
    return 2;
  second->fn(3, (void *[]){x, y, y});
  loop_code_release(second);
  if (y[2] != 9)
    return 3;
#ifdef PR_SET_MDWE
  if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0 &&
      loop_compile(cx, &e->t, CPU_AVX2, &code) != RUSH_EUNSUPPORTED)
    return 4;
#endif
  return 0;
}

static void systems_that_forbid_code_get_less_of_it(void **state)
{
  (void)state;
  context *c;
  call_ctx cx;
  rush_error err;
  fenced *mem = new_context(&c, &cx, &err);
  example *e = malloc(sizeof *e);
  simple_example(e);
  if (cpu_machine() < CPU_AVX2)
    skip();
  pid_t child = fork();
  if (child == 0)
    _exit(compile_without_shared_memory(&cx, e));
  int result = 1;
  assert_true(waitpid(child, &result, 0) == child);
  assert_int_equal(result, 0);
  free(e);
  done(c, mem);
}

static void streaming_writes_the_same(void **state)
{
  (void)state;
  context *c;
  call_ctx cx;
  rush_error err;
  fenced *mem = new_context(&c, &cx, &err);
  example *e = malloc(sizeof *e);
  char *results[2][8];
  for (int k = 0; k < 16; k++)
    results[k / 8][k % 8] = aligned_alloc(64, 4 * MOST_N + 64);
  for (cpu_level level = CPU_AVX2; level <= cpu_machine(); level++)
    for (int k = 0; k < 300; k++) {
      void *operands[80];
      loop_code *code = NULL;
      int64_t n = below(MOST_N);
      random_example(e, level);
      memset(e->in_place, -1, sizeof e->in_place);
      assert_int_equal(loop_compile(&cx, &e->t, level, &code), RUSH_OK);
      fill(e, n, mem, operands);
      for (int way = 0; way < 2; way++) {
        for (int r = 0; r < e->t.n_results; r++) {
          operands[e->t.n_inputs + r] = memset(results[way][r], 0x77, 4 * MOST_N + 64);
        }
        (way ? code->stream : code->fn)(n, operands);
      }
      for (int r = 0; r < e->t.n_results; r++)
        assert_memory_equal(results[0][r], results[1][r], 4 * MOST_N + 64);
      loop_code_release(code);
    }
  for (int k = 0; k < 16; k++)
    free(results[k / 8][k % 8]);
  free(e);
  done(c, mem);
}

static void *compile_and_run(void *arg)
{
  context *c = arg;
  example *e = malloc(sizeof *e);
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  simple_example(e);
  intptr_t wrong = 0;
  for (int k = 0; k < 300; k++) {
    float x[5] = {1, 2, 3, 4, (float)k}, y[5];
    loop_code *code[3] = {0};
    for (int j = 0; j < 3; j++)
      if (loop_compile(&cx, &e->t, CPU_AVX2, &code[j]) != RUSH_OK)
        wrong++;
    for (int j = 0; j < 3 && !wrong; j++) {
      code[j]->fn(5, (void *[]){x, x, y});
      wrong += y[4] != 2 * (float)k;
    }
    for (int j = 0; j < 3; j++)
      loop_code_release(code[j]);
  }
  free(e);
  return (void *)wrong;
}

static void threads_share_one_context(void **state)
{
  (void)state;
  pthread_t threads[4];
  context *c = test_context(&(context_options){0});
  if (cpu_machine() < CPU_AVX2)
    skip();
  for (int k = 0; k < 4; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, compile_and_run, c), 0);
  for (int k = 0; k < 4; k++) {
    void *wrong;
    assert_int_equal(pthread_join(threads[k], &wrong), 0);
    assert_null(wrong);
  }
  context_release(c);
}

static void what_is_not_emitted_is_refused_by_name(void **state)
{
  (void)state;
  context *c;
  call_ctx cx;
  rush_error err;
  fenced *mem = new_context(&c, &cx, &err);
  example *e = malloc(sizeof *e);
  loop_code *code = NULL;
  example_init(e, 2, 0);
  add_result(e, push(e, TAPE_NEXTAFTER, TY_F32, 0, 1, 0, -1));
  assert_int_equal(loop_compile(&cx, &e->t, cpu_machine(), &code), RUSH_EUNSUPPORTED);
  rush_error_clear(&err);
  example_init(e, 60, 0); /* all products of two: more than any stack frame of ours */
  for (int k = 0; k < 60; k++)
    push(e, TAPE_MUL, TY_F32, k, (k + 1) % 60, 0, -1);
  for (int k = 0; k < 59; k++)
    push(e, TAPE_ADD, TY_F32, e->t.n_regs - 1, 119 - k, 0, -1);
  for (int k = 0; k < 60; k++)
    push(e, TAPE_ADD, TY_F32, e->t.n_regs - 1, k, 0, 250);
  add_result(e, 250);
  rush_status st = loop_compile(&cx, &e->t, cpu_machine(), &code);
  assert_true(st == RUSH_OK || st == RUSH_EUNSUPPORTED);
  if (st == RUSH_OK)
    loop_code_release(code);
  rush_error_clear(&err);
  free(e);
  done(c, mem);
}

/* Let each allocation fail in turn. */
typedef struct failing {
  int left;
} failing;
static void *failing_alloc(void *user, size_t n_bytes)
{
  failing *f = user;
  return f->left == 0 ? NULL : (f->left--, malloc(n_bytes));
}
static void failing_free(void *user, void *p, size_t n_bytes)
{
  (void)user, (void)n_bytes;
  free(p);
}
static void failing_allocations_leave_nothing(void **state)
{
  (void)state;
  example *e = malloc(sizeof *e);
  example_init(e, 2, 1);
  e->consts[0] = 3.0f;
  add_result(e, push(e, TAPE_ERF, TY_F32, push(e, TAPE_FMA, TY_F32, 0, 2, 1, -1), 0, 0, -1));
  for (int n = 0; n < 40; n++) {
    failing f = {.left = -1};
    context *c = test_context(&(context_options){
      .allocator = {.alloc = failing_alloc, .free = failing_free, .user = &f}, .no_cache = true});
    call_ctx cx;
    loop_code *code = NULL;
    call_ctx_init(&cx, c, NULL);
    f.left = n;
    rush_status st = loop_compile(&cx, &e->t, cpu_machine(), &code);
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM || st == RUSH_EUNSUPPORTED);
    f.left = -1;
    loop_code_release(code);
    context_release(c);
  }
  free(e);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(primitives_equal_the_tape),
    cmocka_unit_test(random_chains_equal_the_tape),
    cmocka_unit_test(streaming_writes_the_same),
    cmocka_unit_test(listings_assemble_to_the_code),
    cmocka_unit_test(kernels_share_chunks_and_give_them_back),
    cmocka_unit_test(a_byte_limit_counts_code),
    cmocka_unit_test(a_fork_has_its_own_code),
    cmocka_unit_test(systems_that_forbid_code_get_less_of_it),
    cmocka_unit_test(threads_share_one_context),
    cmocka_unit_test(what_is_not_emitted_is_refused_by_name),
    cmocka_unit_test(failing_allocations_leave_nothing),
  };
  return RUN_TESTS(tests);
}
