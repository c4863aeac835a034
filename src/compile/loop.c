/* compile/loop.c -- compiles a loop_tape to machine code: checks that every instruction can be
 * emitted for the machine, runs the x86 stages (lower, allocate, emit) and keeps a copy of the tape
 * beside the code for listings. On other machines the same functions report that nothing can be
 * emitted, and the tape runner does the work. */
#include "compile/loop.h"

#ifdef RUSH_ISA_X86

#include "compile/code/code_memory.h"
#include "compile/code/perf_map.h"
#include "compile/x86/body.h"

/* Private data of the code: a copy of the tape, for the listing. */
struct loop_code_own {
  context *ctx;
  code_block block;
  loop_tape tape;
  loop_machine machine;
  size_t n_bytes; /* of the whole allocation: loop_code, this, the tape's arrays */
};

bool loop_can_emit(tape_op op, tape_type type, cpu_level level)
{
  return level >= CPU_AVX2 && lower_can(op, type, TY_F32);
}

static rush_status check_tape(call_ctx *cx, const loop_tape *t, cpu_level level)
{
  ASSERT(t->n_results >= 1 && t->n_regs <= 256 && t->n_consts >= 0, "no tape");
  if (level < CPU_AVX2 || cpu_choose((uint32_t)level) != level)
    return call_unsupported(cx, "machine code for this processor");
  if (t->n_inputs + t->n_results > 255)
    return call_unsupported(cx, "machine code for a formula with %d operands",
                            t->n_inputs + t->n_results);
  for (int k = 0; k < t->n_instrs; k++) {
    const tape_instr *i = &t->code[k];
    tape_type from = i->op == TAPE_CVT ? (tape_type)i->b : (tape_type)i->type;
    if (!lower_can((tape_op)i->op, (tape_type)i->type, from))
      return call_unsupported(cx, "machine code for primitive %d on type %d", i->op, i->type);
  }
  return RUSH_OK;
}

/* -- The code with its tape -------------------------------------------------------------------- */

static void *append(char **at, const void *data, size_t n_bytes)
{
  void *p = *at;
  if (n_bytes)
    memcpy(p, data, n_bytes);
  *at += (n_bytes + 7) & ~(size_t)7;
  return p;
}

static loop_code *new_code(context *c, const loop_tape *t)
{
  size_t n_code = (size_t)t->n_instrs * sizeof *t->code, n_in = (size_t)t->n_inputs,
         n_out = (size_t)t->n_results;
  size_t n_consts = (size_t)t->n_consts * sizeof *t->consts;
  size_t n = sizeof(loop_code) + sizeof(struct loop_code_own) + n_code + 2 * n_in + 2 * n_out +
             n_consts + 6 * 8;
  loop_code *code = mem_alloc_zero(c, n);
  if (!code)
    return NULL;
  char *at = (char *)(code + 1);
  code->own = (struct loop_code_own *)at;
  at += sizeof *code->own;
  code->own->ctx = c;
  code->own->n_bytes = n;
  loop_tape *copy = &code->own->tape;
  *copy = *t;
  ASSERT((uintptr_t)at % 8 == 0, "what follows is aligned for 8 bytes");
  copy->code = append(&at, t->code, n_code);
  copy->consts = append(&at, t->consts, n_consts);
  copy->input_kinds = append(&at, t->input_kinds, n_in);
  copy->input_types = append(&at, t->input_types, n_in);
  copy->results = append(&at, t->results, n_out);
  copy->result_types = append(&at, t->result_types, n_out);
  return code;
}

rush_status loop_compile_for(call_ctx *cx, const loop_tape *t, loop_machine machine,
                             loop_code **out)
{
  loop_code *code = NULL;
  x86_asm a;
  rush_status st;

  TRY(check_tape(cx, t, machine.level));
  x86_init(&a, cx->ctx, NULL);
  size_t entry = 0, stream = 0;
  st = x86_emit_loop(cx, t, machine, &a, &entry, &stream);
  if (st != RUSH_OK)
    goto done;
  code = new_code(cx->ctx, t);
  st = code ? code_memory_new(cx, a.bytes, a.len, &code->own->block) : call_nomem(cx);
  if (st != RUSH_OK) {
    if (code)
      mem_free(cx->ctx, code, code->own->n_bytes);
    goto done;
  }
  ASSERT(entry < a.len && stream < a.len, "a function outside its code");
  code->bytes = code->own->block.run;
  code->n_bytes = a.len;
  code->entry = entry;
  code->own->machine = machine;
  const void *start = code->bytes + entry;
  memcpy(&code->fn, &start, sizeof code->fn);
  start = code->bytes + stream;
  memcpy(&code->stream, &start, sizeof code->stream);
  *out = code;
done:
  x86_free(&a);
  return st;
}

void loop_name(const loop_code *c, const char *name)
{
  if (context_get_options(c->own->ctx)->perf_map)
    perf_map_add(c->bytes, c->n_bytes, name);
}

void loop_disassemble(text_buf *out, const loop_code *c)
{
  call_ctx cx;
  x86_asm a;
  size_t entry, stream;

  call_ctx_init(&cx, c->own->ctx, NULL);
  x86_init(&a, c->own->ctx, out);
  a.known = c->bytes;
  if (x86_emit_loop(&cx, &c->own->tape, c->own->machine, &a, &entry, &stream) != RUSH_OK)
    out->failed = true;
  x86_free(&a);
}

void loop_code_release(loop_code *c)
{
  if (!c)
    return;
  context *ctx = c->own->ctx;
  code_memory_release(ctx, &c->own->block);
  mem_free(ctx, c, c->own->n_bytes);
}

#else /* no emitter for this processor */

bool loop_can_emit(tape_op op, tape_type type, cpu_level level)
{
  (void)op, (void)type, (void)level;
  return false;
}

rush_status loop_compile_for(call_ctx *cx, const loop_tape *t, loop_machine machine,
                             loop_code **out)
{
  (void)t, (void)machine, (void)out;
  return call_unsupported(cx, "machine code for this processor");
}

void loop_name(const loop_code *c, const char *name) { (void)c, (void)name; }
void loop_disassemble(text_buf *out, const loop_code *c) { (void)out, (void)c; }
void loop_code_release(loop_code *c) { (void)c; }

#endif

rush_status loop_compile(call_ctx *cx, const loop_tape *t, cpu_level level, loop_code **out)
{
  return loop_compile_for(cx, t, (loop_machine){.level = level}, out);
}
