/* compile/code/loop_tape.h -- the input of an emitter of machine code: a tape (ops/table/tape.h)
 * whose types are resolved. */
#ifndef RUSH_COMPILE_LOOP_TAPE_H
#define RUSH_COMPILE_LOOP_TAPE_H

#include "base/cpu.h"
#include "ops/table/tape.h"

enum loop_input_kind {
  LOOP_ROW, /* n contiguous elements */
  LOOP_ONE  /* one element for all n: a scalar, or stride 0 */
};

/* Registers are numbered as in tapes: inputs 0..n_inputs-1, then constants, then temporaries.  A
 * register may be written again, including an input's or a constant's. */
typedef struct loop_tape {
  /* type: tape_type, the result's for CVT and WHERE, else the operands' (TY_F32, or TY_BOOL for
   * logic); CVT's b: the operand's tape_type; RND does nothing */
  const tape_instr *code;
  int n_instrs, n_regs, n_inputs, n_consts, n_results; /* n_regs <= 256, n_results >= 1 */
  const uint8_t *input_kinds; /* loop_input_kind */
  const uint8_t *input_types; /* TY_F32, or TY_BOOL: a byte, 0 or 1 */
  const float *consts;
  const uint8_t *results;     /* registers */
  const uint8_t *result_types; /* as input_types */
} loop_tape;

/* The target machine.  Registers: 0 means all that the processor has; else at least 5 and 3. */
typedef struct loop_machine {
  cpu_level level;
  uint8_t n_vectors, n_masks;
} loop_machine;

#endif
