/* compile/loop.h -- machine code for a fused pointwise body over float32.
 *
 * A loop_tape is a tape (ops/table/tape.h) whose types are resolved; loop_compile makes a function
 * for AVX2 or AVX-512 that runs it over n elements and gives the same bits as the tape runner's
 * loops of that instruction set, one instruction after the other.  Only a NaN's payload and sign
 * are the machine's choice, as in the loops, which differ there between instruction sets (FMA,
 * FLOOR, CEIL, TRUNC, TANH, ERF).
 *
 *   loop_tape -> lower.c (operations on values) -> alloc.c (registers) -> x86/encode_loop.c (loops
 *   around)
 *   -> asm.c (bytes)
 *
 * A compilation takes a few microseconds.  The code is in the context's code memory (code_memory.h)
 * and refers to nothing else: many threads may call it, in any context's calls, while the loop_code
 * lives. If the processor is not x86-64, or forbids code made at run time, loop_compile returns
 * unsupported and the tape runner does the same work.
 *
 * Threads: a loop_code is immutable after creation. */
#ifndef RUSH_COMPILE_LOOP_H
#define RUSH_COMPILE_LOOP_H

#include "base/cpu.h"
#include "base/text.h"
#include "compile/code/loop_tape.h"

/* Compute n elements (n <= 0: nothing).  operands: the inputs' memory, then the results', aligned
 * as their elements are.  A result may be the same memory as a row input of the same type: element
 * i is read before it is written.  Other overlaps, also with another result, are not allowed. */
typedef void loop_fn(int64_t n, void *const *operands);

typedef struct loop_code {
  loop_fn *fn;
  /* Like fn, for results larger than the caches: writes bypass them.  Float results start at
   * multiples of 64 bytes.  A long body gains nothing: then it is fn. */
  loop_fn *stream;
  const uint8_t *bytes; /* constants, then code */
  size_t n_bytes, entry; /* entry: offset of fn */
  struct loop_code_own *own; /* private */
} loop_code;

/* True if an instruction can be emitted for a level (CPU_AVX2 or CPU_AVX512): `type` as in
 * tape_instr above. */
bool loop_can_emit(tape_op op, tape_type type, cpu_level level);

/* Compile for a level that the machine has.  RUSH_EUNSUPPORTED: an instruction that loop_can_emit
 * refuses, more live values than the stack can hold (about 60), or code memory is forbidden.  *out:
 * new. */
rush_status loop_compile(call_ctx *cx, const loop_tape *t, cpu_level level,
                         loop_code **out) RUSH_CHECKED;
/* Like loop_compile, for a machine with fewer registers (tests: everything spills). */
rush_status loop_compile_for(call_ctx *cx, const loop_tape *t, loop_machine machine,
                             loop_code **out) RUSH_CHECKED;
/* Free the code; no thread may be running it. */
void loop_code_release(loop_code *c);

/* Tell perf the code's name, if the context's option perf_map asks for it. */
void loop_name(const loop_code *c, const char *name);

/* Print offset, bytes and instruction of all of it, one per line: input for GNU as after
 * `.intel_syntax noprefix`. */
void loop_disassemble(text_buf *out, const loop_code *c);

#endif
