/* compile/x86/encode_loop.c -- machine code of a whole loop around a body: entry, steps of several
 * vectors, the remainder, constants, exit. Remainders use masked loads and stores; with AVX2 bool
 * bytes go through the stack. Short bodies are repeated until loop and body weigh about the same.
 *
 * Registers: rdi n, rsi operands, rdx the current element, r8 the last one at which a whole step
 * may start; rax, rcx scratch; rows' pointers in POINTERS, those that do not fit are loaded when
 * used. */
#include "compile/x86/body.h"

static const uint8_t pointers[] = {R9, R10, R11, RBX, R12, R13, R14, R15};
#define FIRST_SAVED 3  /* of pointers: from here on they are the caller's */
#define MAX_FRAME 3900 /* bytes: less than a stack's guard page */

enum {
  L_ENTERED,
  L_STREAMED,
  L_CACHED,
  L_UNROLLED,
  L_WHOLE,
  L_WHOLE_LOOP,
  L_REST,
  L_DONE,
  L_COPY,
  L_FIX,
  L_FIXED
};

typedef struct emitter {
  x86_asm *a;
  const body *b;
  uint32_t const_bytes; /* of one constant: 4, or a vector's */
  uint32_t tail_table;  /* AVX2: offset of 8 times all ones, then 8 zeros */
  uint8_t pointer[256]; /* of each row operand, or X86_NONE */
  int n_pointers;
  uint32_t unit;       /* bytes of a vector */
  uint32_t bytes_slot; /* AVX2: stack offset of a remainder's bool bytes */
  uint32_t fix_slot;   /* x, y, then all registers */
  uint32_t frame;      /* bytes, 0: none */
  bool streaming;      /* float results are written around the caches */
} emitter;

static inline int lanes(const emitter *e) { return e->b->wide ? 16 : 8; }
static inline int vl(const emitter *e) { return e->b->wide ? VL512 : VL256; }

static bool is_row(const loop_tape *t, int operand)
{
  return operand >= t->n_inputs || t->input_kinds[operand] == LOOP_ROW;
}
static bool is_bool(const loop_tape *t, int operand)
{
  return (operand < t->n_inputs ? t->input_types[operand]
                                : t->result_types[operand - t->n_inputs]) == TY_BOOL;
}

static x86_mem at_reg(int base, int32_t disp)
{
  return (x86_mem){.base = (uint8_t)base, .index = X86_NONE, .disp = disp};
}
static x86_mem operand_pointer(int k) { return at_reg(RSI, 8 * k); }

/* -- Instructions of the body ------------------------------------------------------------------ */

/* Return operand k's pointer, in its register or in `scratch`. */
static int pointer_of(emitter *e, int k, int scratch)
{
  ASSERT(k < e->b->tape->n_inputs + e->b->tape->n_results, "no such operand");
  if (e->pointer[k] != X86_NONE)
    return e->pointer[k];
  x86_gpr_mem(e->a, X86_MOV, scratch, operand_pointer(k));
  return scratch;
}

/* Copy bool bytes of the remainder through the stack, where 8 may be read or written (AVX2). */
static void copy_bytes(emitter *e, int operand, bool to_stack)
{
  x86_asm *a = e->a;
  ASSERT(!e->b->wide && is_bool(e->b->tape, operand), "only AVX2 copies bools, byte by byte");
  x86_mem stack = {.base = RSP, .index = RCX, .disp = (int32_t)e->bytes_slot - 1};
  x86_mem there = {.base = R8, .index = RCX, .disp = -1};
  int p = pointer_of(e, operand, R8);
  x86_gpr_mem(a, X86_LEA, R8, (x86_mem){.base = (uint8_t)p, .index = RDX});
  x86_gpr(a, X86_MOV_RR, RCX, RDI, 0);
  x86_gpr(a, X86_SUB, RCX, RDX, 0);
  a->labels[L_COPY] = -1;
  x86_label(a, L_COPY);
  x86_gpr_mem(a, X86_MOVB, RAX, to_stack ? there : stack);
  x86_gpr_mem(a, X86_MOVB_ST, RAX, to_stack ? stack : there);
  x86_gpr(a, X86_DEC, RCX, 0, 0);
  x86_jump(a, CC_NE, L_COPY);
}

/* -- Calls of trig_fix: rare, so that they save everything ------------------------------------- */

static const uint8_t volatiles[] = {RDI, RSI, RDX, R8, R9, R10, R11}; /* which the loops use */
#define FIX_BASE \
  (8 * (int32_t)COUNT_OF(volatiles) + 8) /* the frame, below these and the return address */

static void move_all(emitter *e, bool save)
{
  int32_t at = FIX_BASE + (int32_t)e->fix_slot + 128;
  for (int r = 0; r < (e->b->wide ? 32 : 16); r++, at += (int32_t)e->unit) {
    x86_ins i = {
      .op = save ? X86_VMOVUPS_ST : X86_VMOVUPS, .vl = (uint8_t)vl(e), .mem = at_reg(RSP, at)};
    i.r[save ? 0 : 1] = X86_MEM;
    i.r[save ? 1 : 0] = (uint8_t)r;
    x86_emit(e->a, &i);
  }
  for (int k = 1; e->b->wide && k < 8; k++)
    x86_gpr_mem(e->a, save ? X86_KMOVW_ST : X86_KMOVW, k, at_reg(RSP, at + 8 * k));
}

/* Emit the function that body_fix's operations call: rax is trig_fix's last argument. */
static void emit_fix_function(emitter *e)
{
  x86_asm *a = e->a;
  void (*fix)(const float *, float *, uint64_t) = trig_fix;
  const void *address;
  memcpy(&address, &fix, sizeof address);
  x86_label(a, L_FIX);
  for (size_t k = 0; k < COUNT_OF(volatiles); k++)
    x86_push(a, volatiles[k]);
  move_all(e, true);
  x86_gpr_mem(a, X86_LEA, RDI, at_reg(RSP, FIX_BASE + (int32_t)e->fix_slot));
  x86_gpr_mem(a, X86_LEA, RSI, at_reg(RSP, FIX_BASE + (int32_t)e->fix_slot + 64));
  x86_gpr(a, X86_MOV_RR, RDX, RAX, 0);
  x86_simple(a, "vzeroupper");
  x86_mov_address(a, RAX, address);
  x86_gpr(a, X86_CALL, RAX, 0, 0);
  move_all(e, false);
  for (size_t k = COUNT_OF(volatiles); k-- > 0;)
    x86_pop(a, volatiles[k]);
  x86_simple(a, "ret");
}

static void stack_vector(emitter *e, x86_op op, int r, uint32_t slot)
{
  ASSERT(slot + e->unit <= e->frame, "a slot outside the frame");
  x86_ins i = {.op = (uint8_t)op, .vl = (uint8_t)vl(e), .mem = at_reg(RSP, (int32_t)slot)};
  i.r[op == X86_VMOVUPS] = X86_MEM;
  i.r[op != X86_VMOVUPS] = (uint8_t)r;
  x86_emit(e->a, &i);
}

static void emit_fix(emitter *e, const placed *p)
{
  x86_asm *a = e->a;
  int mask = p->ins.r[0], x = p->ins.r[1], y = p->ins.r[2];
  if (e->b->wide) {
    x86_vec(a, X86_KORTESTW, 0, mask, mask, 0);
  } else {
    x86_vec(a, X86_VMOVMSKPS, VL256, RAX, mask, 0);
    x86_gpr(a, X86_TEST32, RAX, RAX, 0);
  }
  a->labels[L_FIXED] = -1;
  x86_jump(a, CC_E, L_FIXED);
  stack_vector(e, X86_VMOVUPS_ST, x, e->fix_slot);
  stack_vector(e, X86_VMOVUPS_ST, y, e->fix_slot + 64);
  x86_gpr(a, X86_MOV_I32, RAX, 0, p->what * 32 + lanes(e));
  x86_call(a, L_FIX);
  stack_vector(e, X86_VMOVUPS, y, e->fix_slot + 64);
  x86_label(a, L_FIXED);
}

/* -- Rows and the rest ------------------------------------------------------------------------- */

static void masked_row(emitter *e, x86_ins *i, int operand)
{
  bool store = i->op == X86_VMOVUPS_ST || i->op == X86_VMOVDQU8_ST || i->op == X86_VMOVQ_ST;
  if (e->b->wide) {
    i->mask = 1;
    i->zero = !store;
  } else if (is_bool(e->b->tape, operand)) {
    i->mem = at_reg(RSP, (int32_t)e->bytes_slot);
  } else {
    i->op = store ? X86_VMASKMOVPS_ST : X86_VMASKMOVPS;
    i->r[2] = store ? i->r[1] : X86_MEM;
    i->r[1] = TAIL_MASK;
  }
}

/* Emit one of the body's instructions, `ahead` elements on.  rest: fewer elements than a vector
 * has. */
static void emit_placed(emitter *e, const placed *p, int ahead, bool rest)
{
  x86_ins i = p->ins;
  bool through_stack = false;

  switch ((enum place_kind)p->place) {
  case PLACE_NONE:
    break;
  case PLACE_ROW: {
    bool bytes = is_bool(e->b->tape, p->what);
    through_stack = rest && bytes && !e->b->wide;
    if (through_stack && i.op != X86_VMOVQ_ST)
      copy_bytes(e, p->what, true);
    if (!through_stack)
      i.mem = (x86_mem){.base = (uint8_t)pointer_of(e, p->what, RAX),
                        .index = RDX,
                        .shift = bytes ? 0 : 2,
                        .disp = bytes ? ahead : ahead * 4};
    if (rest)
      masked_row(e, &i, p->what);
    else if (e->streaming && i.op == X86_VMOVUPS_ST)
      i.op = X86_VMOVNTPS;
    break;
  }
  case PLACE_ONE:
    x86_gpr_mem(e->a, X86_MOV, RAX, operand_pointer(p->what));
    i.mem = at_reg(RAX, 0);
    i.mem.broadcast = x86_rows[i.op].tuple == TUPLE_FULL;
    break;
  case PLACE_CONST:
    i.mem = at_reg(RIP, (int32_t)(p->what * e->const_bytes));
    i.mem.broadcast = e->b->wide && x86_rows[i.op].tuple == TUPLE_FULL;
    break;
  case PLACE_SLOT:
    i.mem = at_reg(RSP, (int32_t)(p->what * e->unit));
    break;
  case PLACE_FIX:
    emit_fix(e, p);
    return;
  }
  x86_emit(e->a, &i);
  if (through_stack && i.op == X86_VMOVQ_ST)
    copy_bytes(e, p->what, false);
}

static void emit_body(emitter *e, int ahead, bool rest)
{
  for (uint32_t k = 0; k < e->b->n_out; k++)
    emit_placed(e, &e->b->out[k], ahead, rest);
}

/* -- Around it --------------------------------------------------------------------------------- */

static void emit_consts(emitter *e)
{
  const body *b = e->b;
  uint64_t vector[4];
  for (uint32_t k = 0; k < b->n_consts; k++) {
    for (int i = 0; i < 4; i++)
      vector[i] = b->consts[k].bits;
    x86_data(e->a, vector, e->const_bytes);
  }
  if (!b->wide) {
    static const uint32_t table[16] = {-1u, -1u, -1u, -1u, -1u, -1u, -1u, -1u};
    e->tail_table = (uint32_t)e->a->len;
    x86_data(e->a, table, sizeof table);
  }
  x86_align(e->a, 64, false);
}

static void assign_pointers(emitter *e)
{
  const loop_tape *t = e->b->tape;
  memset(e->pointer, X86_NONE, sizeof e->pointer);
  for (int k = 0; k < t->n_inputs + t->n_results && e->n_pointers < (int)COUNT_OF(pointers); k++)
    if (is_row(t, k))
      e->pointer[k] = pointers[e->n_pointers++];
}

static void measure_frame(emitter *e)
{
  const loop_tape *t = e->b->tape;
  e->frame = e->b->n_slots * e->unit;
  bool bytes = false;
  for (int k = 0; k < t->n_inputs + t->n_results; k++)
    bytes |= is_row(t, k) && is_bool(t, k);
  if (bytes && !e->b->wide) {
    e->bytes_slot = e->frame;
    e->frame += e->unit;
  }
  if (e->b->has_fixes) {
    e->fix_slot = e->frame;
    e->frame += e->b->wide ? 128 + 32 * 64 + 64 : 128 + 16 * 32;
  }
}

static void enter(emitter *e)
{
  const body *b = e->b;
  x86_asm *a = e->a;
  for (int k = FIRST_SAVED; k < e->n_pointers; k++)
    x86_push(a, pointers[k]);
  if (e->frame) {
    x86_push(a, RBP);
    x86_gpr(a, X86_MOV_RR, RBP, RSP, 0);
    x86_gpr(a, e->frame < 128 ? X86_SUB_I8 : X86_SUB_I32, RSP, 0, (int32_t)e->frame);
    x86_gpr(a, X86_AND_I8, RSP, 0, -64);
  }
  x86_gpr(a, X86_TEST, RDI, RDI, 0);
  x86_jump(a, CC_LE, L_DONE);
  for (int k = 0; k < 256; k++)
    if (e->pointer[k] != X86_NONE)
      x86_gpr_mem(a, X86_MOV, e->pointer[k], operand_pointer(k));
  for (uint32_t v = 0; v < b->n_values; v++) {
    const value *x = &b->values[v];
    if (!x->pinned)
      continue;
    bool one = x->kind == VALUE_ONE;
    x86_op op = !one && !b->wide ? X86_VMOVUPS : x->wide ? X86_VBROADCASTSD : X86_VBROADCASTSS;
    placed p = {.ins = {.op = (uint8_t)op, .vl = (uint8_t)vl(e), .r = {x->reg, X86_MEM}},
                .place = one ? PLACE_ONE : PLACE_CONST,
                .what = x->what};
    emit_placed(e, &p, 0, false);
  }
}

static void leave(emitter *e)
{
  x86_asm *a = e->a;
  x86_label(a, L_DONE);
  if (e->frame) {
    x86_gpr(a, X86_MOV_RR, RSP, RBP, 0);
    x86_pop(a, RBP);
  }
  for (int k = e->n_pointers; k-- > FIRST_SAVED;)
    x86_pop(a, pointers[k]);
  x86_simple(a, "vzeroupper");
  x86_simple(a, "ret");
}

/* Emit steps of `n` vectors while there are as many. */
static void emit_steps(emitter *e, int n, int top, int after)
{
  x86_asm *a = e->a;
  int step = n * lanes(e);
  x86_gpr_mem(a, X86_LEA, R8, at_reg(RDI, -step));
  x86_gpr(a, X86_CMP, RDX, R8, 0);
  x86_jump(a, CC_G, after);
  x86_align(a, 32, true);
  x86_label(a, top);
  for (int k = 0; k < n; k++)
    emit_body(e, k * lanes(e), false);
  x86_gpr(a, step < 128 ? X86_ADD_I8 : X86_ADD_I32, RDX, 0, step);
  x86_gpr(a, X86_CMP, RDX, R8, 0);
  x86_jump(a, CC_LE, top);
}

static void emit_rest(emitter *e)
{
  x86_asm *a = e->a;
  x86_gpr(a, X86_MOV_RR, RCX, RDI, 0);
  x86_gpr(a, X86_SUB, RCX, RDX, 0);
  x86_jump(a, CC_E, L_DONE);
  if (e->b->wide) { /* the lowest rcx of 16 bits */
    x86_gpr(a, X86_MOV_I32, RAX, 0, -1);
    x86_gpr(a, X86_SHL32_CL, RAX, 0, 0);
    x86_gpr(a, X86_NOT32, RAX, 0, 0);
    x86_vec(a, X86_KMOVW_R, 0, 1, RAX, 0);
  } else {
    x86_gpr(a, X86_NEG, RCX, 0, 0);
    x86_gpr_mem(a, X86_LEA, RAX, at_reg(RIP, (int32_t)e->tail_table + 32));
    x86_emit(a, &(x86_ins){.op = X86_VMOVUPS,
                           .vl = VL256,
                           .r = {TAIL_MASK, X86_MEM},
                           .mem = {.base = RAX, .index = RCX, .shift = 2}});
  }
  emit_body(e, 0, true);
}

/* A longer body takes longer to compute than its results take to memory. */
#define MOST_STREAMED 64

/* Return how often a body is repeated, until loop and body weigh about the same. */
static int unrolling(const body *b) { return b->n_out <= 10 ? 4 : b->n_out <= 24 ? 2 : 1; }

/* Emit the entries of the two functions, which differ in r8. */
static void emit_entries(emitter *e, size_t *entry, size_t *stream)
{
  x86_asm *a = e->a;
  *stream = a->len;
  x86_simple(a, "endbr64"); /* systems that check targets of calls need it */
  x86_gpr(a, X86_MOV_I32, R8, 0, 1);
  x86_jump(a, CC_ALWAYS, L_ENTERED);
  *entry = a->len;
  x86_simple(a, "endbr64");
  x86_gpr(a, X86_MOV_I32, R8, 0, 0);
  x86_label(a, L_ENTERED);
}

static void emit_streaming(emitter *e, int n)
{
  x86_gpr(e->a, X86_TEST, R8, R8, 0);
  x86_jump(e->a, CC_E, L_CACHED);
  e->streaming = true;
  emit_steps(e, n, L_STREAMED, L_CACHED);
  e->streaming = false;
  x86_simple(e->a, "sfence");
  x86_label(e->a, L_CACHED);
}

static rush_status emit_around(call_ctx *cx, const body *b, x86_asm *a, size_t *entry,
                               size_t *stream)
{
  emitter e = {.a = a, .b = b, .unit = b->wide ? 64 : 32};
  e.const_bytes = !b->wide ? 32 : b->has_wide_consts ? 8 : 4;
  measure_frame(&e);
  if (e.frame > MAX_FRAME)
    return call_unsupported(cx, "machine code for a formula with %u spilled values", b->n_slots);
  assign_pointers(&e);
  emit_consts(&e);
  if (b->has_fixes)
    emit_fix_function(&e);
  emit_entries(&e, entry, stream);
  enter(&e);
  x86_gpr(a, X86_XOR32, RDX, RDX, 0);
  int n = unrolling(b);
  if (b->n_out <= MOST_STREAMED)
    emit_streaming(&e, n);
  if (n > 1)
    emit_steps(&e, n, L_UNROLLED, L_WHOLE);
  x86_label(a, L_WHOLE);
  emit_steps(&e, 1, L_WHOLE_LOOP, L_REST);
  x86_label(a, L_REST);
  emit_rest(&e);
  leave(&e);
  return x86_failed(a) ? call_nomem(cx) : RUSH_OK;
}

rush_status x86_emit_loop(call_ctx *cx, const loop_tape *t, loop_machine machine, x86_asm *a,
                          size_t *entry, size_t *stream)
{
  body b;
  rush_status st;

  body_init(&b, cx->ctx, t, machine);
  lower_tape(&b);
  if (!b.failed)
    alloc_registers(&b);
  st = b.failed ? call_nomem(cx) : emit_around(cx, &b, a, entry, stream);
  body_free(&b);
  return st;
}
