/* ops/table/tape.h -- vector programs of pointwise formulas.
 *
 * A tape is the compiled `expr` of an operator: instructions over registers that hold a block of
 * elements each.  Registers 0..n_inputs-1 are the operator's inputs, then constants, then
 * temporaries; results name registers.  Types of instructions are symbolic (TAPE_K is "the type
 * that the operator computes in") and are resolved when a call knows its dtype: integers compute in
 * int32 or int64, half and bfloat16 in float32.
 *
 * An operator (struct point_row) has arms: a tape for a set of dtype classes and conditions on
 * arguments; the first that matches runs.  The tape runner (tape_run.c) is compiled for each
 * instruction set and gives the same bits on all. */
#ifndef RUSH_OPS_TAPE_H
#define RUSH_OPS_TAPE_H

#include "base/isa.h"
#include "tensor/tensor.h"

typedef enum tape_op {
#define TAPE(name, arity, classes, result) TAPE_##name,
#include "ops/table/tape.def"
#undef TAPE
  N_TAPE_OPS
} tape_op;

/* Symbolic types in tapes. */
typedef enum tape_sym { SYM_B, SYM_K, SYM_R, SYM_Z, SYM_I, SYM_D, N_TAPE_SYMS } tape_sym;

/* Types of elements in blocks. */
typedef enum tape_type {
  TY_BOOL,
  TY_I32,
  TY_I64,
  TY_F32,
  TY_F64,
  TY_C64,
  TY_C128,
  N_TAPE_TYPES
} tape_type;

typedef struct tape_instr {
  uint8_t op, type, dst, a, b, c;
} tape_instr;

typedef enum tape_const_kind {
  CONST_INT,
  CONST_FLOAT,
  CONST_DTYPE_MAX,
  CONST_DTYPE_MIN,
  CONST_DTYPE_EPS
} tape_const_kind;
typedef struct tape_const {
  uint8_t kind, type; /* tape_sym */
  int64_t i;
  double d;
} tape_const;

typedef enum point_cond_kind {
  COND_NONE,
  COND_GIVEN,
  COND_NUMBER,
  COND_HALVES,
  COND_TEXT
} point_cond_kind;
/* argument `arg` is None, is not None, equals a number (or bool), half a number, a text */
typedef struct point_cond {
  uint8_t arg, kind;
  int32_t value;
} point_cond;

#define POINT_MAX_INPUTS 10
#define POINT_MAX_RESULTS 2

typedef struct point_arm {
  uint8_t classes; /* bit per dtype_class */
  uint8_t n_conds, n_instrs, n_consts, n_regs;
  uint8_t results[POINT_MAX_RESULTS], result_types[POINT_MAX_RESULTS]; /* register, tape_sym */
  point_cond conds[3];
  uint16_t first_instr, first_const;
} point_arm;

enum point_input_flags {
  INPUT_SCALAR = 1,   /* a number, not a tensor */
  INPUT_PROMOTES = 2, /* takes part in promotion */
  INPUT_OPMATH = 4    /* scalars: not rounded to the dtype */
};
typedef struct point_input {
  uint8_t arg, flags, type; /* type: tape_sym it is converted to */
} point_input;

/* _FLOAT_FIRST_ARM: as FLOAT if the first arm's condition holds, else as ARGUMENTS. */
typedef enum point_promote {
  PROMOTE_ARGUMENTS,
  PROMOTE_FLOAT,
  PROMOTE_FIRST,
  PROMOTE_FLOAT_FIRST_ARM
} point_promote;
/* The dtype of a result; OUT_DTYPE + n is dtype n. */
typedef enum point_out { OUT_COMMON, OUT_SAME, OUT_REAL, OUT_COMPLEX, OUT_DTYPE } point_out;

struct point_row {
  uint16_t first_arm;
  uint8_t n_arms, n_inputs, n_results, promote;
  uint8_t outs[POINT_MAX_RESULTS];
  bool row_major;       /* results are, for all operands */
  uint32_t name;        /* in op_pool: the name in refusals */
  uint32_t refuse_bool; /* in op_pool: the message for bool operands, or 0 */
  point_input inputs[POINT_MAX_INPUTS];
};
extern const struct point_row point_rows[];
extern const point_arm point_arms[];
extern const tape_instr point_instrs[];
extern const tape_const point_consts[];

/* -- Running ----------------------------------------------------------------------------------- */

/* Compute n elements; returns 1 if an integer was divided by zero, 2 if an integer was raised to a
 * negative scalar power (the result there is unspecified). */
typedef unsigned tape_fn(int64_t n, void *d, const void *a, const void *b, const void *c, int aux);
/* Convert between memory of a dtype and a block of its type (for dtypes that are not their own
 * block type). */
typedef void tape_convert(int64_t n, void *d, const void *a);

typedef struct tape_isa { /* the loops of one instruction set */
  tape_fn *fns[N_TAPE_OPS][N_TAPE_TYPES]; /* CVT: by the result's type, aux is the operand's */
  tape_convert *load[N_DTYPES], *store[N_DTYPES]; /* NULL: the same bytes */
  void (*fill)(int64_t n, void *d, const void *one, int64_t item); /* one element n times */
} tape_isa;
ISA_DECLARE(const tape_isa *, tape_isa, (void));

static inline uint8_t tape_arity(tape_op o)
{
  static const uint8_t arity[] = {
#define TAPE(name, arity, classes, result) arity,
#include "ops/table/tape.def"
#undef TAPE
  };
  return arity[o];
}
/* True if its result is a bool, whatever its operands. */
static inline bool tape_op_is_bool(tape_op o)
{
  static const char result[] = {
#define TAPE(name, arity, classes, result) result[0],
#include "ops/table/tape.def"
#undef TAPE
  };
  return result[o] == 'b';
}
static inline size_t tape_type_bytes(tape_type t)
{
  static const uint8_t bytes[] = {1, 4, 8, 4, 8, 8, 16};
  return bytes[t];
}
/* Return the block type of a dtype; -1: quantized and others without arithmetic. */
int tape_type_of(int dtype);

#endif
