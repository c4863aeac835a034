/* ops/point/point_run.h -- running one tape over tensors, inside src/ops/.
 *
 * Tensors are processed in blocks of a few hundred elements that fit in L1.  An operand whose
 * memory already has a block's form (its dtype is its block type, its elements are contiguous)
 * is used in place; others are gathered and converted into a register.  A tape that needs no
 * register at all runs over everything at once: an addition of two float32 tensors is one call
 * of one loop. */
#ifndef RUSH_OPS_POINT_RUN_H
#define RUSH_OPS_POINT_RUN_H

#include "ops/table/tape.h"

typedef struct point_number {
  bool is_float;
  int64_t i;     /* if !is_float */
  double re, im;
} point_number;

/* Limits of a run: an operator of the table needs less, several fused ones more. */
#define RUN_MAX_INPUTS 16
#define RUN_MAX_RESULTS 4
#define RUN_MAX_REGS 32

/* Machine code for the tape (compile/loop.h): operands are the inputs' memory, then the results',
 * each n elements of its block type; numbers and inputs of one element are read once. */
typedef void point_code(int64_t n, void *const *operands);

typedef struct point_operand {
  rush_tensor *tensor; /* NULL: use the number */
  uint8_t type;        /* tape_type in the register */
  int8_t via;          /* intermediate dtype to round to, or -1 */
  point_number number;
} point_operand;

typedef struct point_constant {
  uint8_t type;
  point_number number;
} point_constant;

typedef struct point_result {
  rush_tensor *tensor;
  uint8_t reg, type;
  int8_t via;          /* like an operand's */
} point_result;

typedef struct point_run {
  const tape_isa *isa;
  const tape_instr *code;
  point_code *machine_code; /* runs instead of the instructions, or NULL */
  int n_instrs, n_regs, n_inputs, n_consts, n_results, n_dims;
  const int64_t *sizes;
  int dtype; /* the dtype that the operator computes in */
  uint8_t types[N_TAPE_SYMS]; /* tape_type of each symbolic type */
  point_operand inputs[RUN_MAX_INPUTS];
  point_constant consts[RUN_MAX_REGS];
  point_result results[RUN_MAX_RESULTS];
} point_run;

#define POINT_GRAIN 32768 /* least number of elements per thread */

/* Read a scalar argument: `re` is its value, whatever its kind; anything else is 0. */
point_number point_read_number(rush_value v);
/* Return a tape's constant for an operator that computes in `dtype`. */
point_number point_const_number(const tape_const *c, int dtype);

const tape_isa *tape_isa_of(context *c);
/* Run the tape; `flat`: all tensors, results too, have the run's sizes and are row-major. */
rush_status point_execute(call_ctx *cx, const point_run *r, bool flat) RUSH_CHECKED;

/* Write a number n times, as elements of a block. */
void point_fill(void *dst, int64_t n, tape_type type, const point_number *x);
/* Return the error for what the loops returned (tape_fn). */
rush_status point_check_fault(call_ctx *cx, unsigned fault) RUSH_CHECKED;

/* -- Blocks, for other machines ---------------------------------------------------------------- */

#define BLOCK_MAX 512 /* elements */
/* Copy n elements of `item` bytes from one stride (bytes) to another. */
void block_copy_strided(char *d, int64_t ds, const char *s, int64_t ss, int64_t n, int64_t item);
/* Convert n <= BLOCK_MAX contiguous elements of `dtype` to or from a block of `type`. */
void block_read(const tape_isa *isa, int64_t n, void *dst, tape_type type, const void *src,
                int dtype);
void block_write(const tape_isa *isa, int64_t n, void *dst, int dtype, const void *src,
                 tape_type type);

#endif
