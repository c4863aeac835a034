/* compile/loop.h -- machine code for a fused pointwise body over float32.
 *
 * A loop_tape is a tape (ops/table/tape.h) whose types are resolved; loop_compile makes a function
 * of it for AVX2 or AVX-512 that runs over n elements and gives the same bits as the tape runner's
 * loops of that instruction set, one instruction after the other.  Only a NaN's payload and sign
 * are the machine's choice, as they are in the loops, which differ there between instruction sets
 * (FMA, FLOOR, CEIL, TRUNC, TANH, ERF).
 *
 *   loop_tape -> lower.c (operations on values) -> alloc.c (registers) -> x86/emit.c (loops around)
 *   -> asm.c (bytes)
 *
 * A compilation takes a few microseconds.  The code lives in the context's code memory
 * (code_memory.h) and holds nothing else: it may be called by many threads, in any context's calls,
 * while the loop_code lives. Where the processor is no x86-64, or forbids code made at run time,
 * loop_compile says unsupported and the tape runner does the same.
 *
 * Threads: a loop_code is immutable after creation. */
#ifndef RUSH_COMPILE_LOOP_H
#define RUSH_COMPILE_LOOP_H

#include "base/cpu.h"
#include "base/text.h"
#include "compile/code/loop_tape.h"

/* n elements (n <= 0: nothing is done).  operands: the inputs' memory, then the results', aligned
 * as their elements are.  A result may be the same memory as a row input of the same type: element
 * i is read before it is written.  It is never another overlap, nor another result's memory. */
typedef void loop_fn(int64_t n, void *const *operands);

typedef struct loop_code {
  loop_fn *fn;
  /* The same for results larger than the caches, which it writes around them.  Float results start
   * at multiples of 64 bytes.  A long body gains nothing: it is fn then. */
  loop_fn *stream;
  const uint8_t *bytes; /* constants, then the code */
  size_t n_bytes, entry; /* entry: where fn starts */
  struct loop_code_own *own; /* private */
} loop_code;

/* Whether an instruction is emitted for a level (CPU_AVX2 or CPU_AVX512): `type` as in tape_instr
 * above. */
bool loop_can_emit(tape_op op, tape_type type, cpu_level level);

/* Code for a level the machine has.  RUSH_EUNSUPPORTED: an instruction that loop_can_emit denies,
 * more live values than the stack takes (about 60), no code memory allowed.  *out: new. */
rush_status loop_compile(call_ctx *cx, const loop_tape *t, cpu_level level,
                         loop_code **out) RUSH_CHECKED;
/* The same for a machine with fewer registers than the processor has (tests: everything spills). */
rush_status loop_compile_for(call_ctx *cx, const loop_tape *t, loop_machine machine,
                             loop_code **out) RUSH_CHECKED;
/* No thread may be inside. */
void loop_code_release(loop_code *c);

/* Offset, bytes and instruction of all of it, a line each: what GNU as takes after `.intel_syntax
 * noprefix`. */
void loop_disassemble(text_buf *out, const loop_code *c);

#endif
